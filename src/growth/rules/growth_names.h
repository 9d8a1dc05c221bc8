// Names of everything the growth rules count: stages, operations, heads and their values, gates,
// refusals. Out-of-range values give "?", so that a corrupt record still prints.
#ifndef ES_GROWTH_GROWTH_NAMES_H
#define ES_GROWTH_GROWTH_NAMES_H

#include "esper/status.h"
#include "growth/rules/lifecycle_rules.h"

ES_EXTERN_C_BEGIN

const char *es_stage_name(int32_t stage);            // "BLENDING"
const char *es_growth_op_name(int32_t op);           // "GERMINATE"
const char *es_head_name(int32_t head);              // "alpha_target"
const char *es_blueprint_id_name(int32_t blueprint); // "conv_light"
const char *es_style_name(int32_t style);            // "SIGMOID_ADD"
const char *es_algorithm_name(int32_t algorithm);    // "ADD"
const char *es_tempo_name(int32_t tempo);            // "STANDARD"
const char *es_alpha_target_name(int32_t target);    // "FULL"
const char *es_alpha_speed_name(int32_t speed);      // "INSTANT"
const char *es_curve_choice_name(int32_t choice);    // "SIGMOID_SHARP"
const char *es_alpha_mode_name(int32_t mode);        // "DOWN"
const char *es_gate_name(int32_t gate);              // "G2"
const char *es_gate_check_name(int32_t check);       // "health_measured"
const char *es_panic_name(int32_t panic);            // "governor_nan"
const char *es_prune_reason_name(int32_t reason);    // "scheduled_prune"
const char *es_prune_initiator_name(int32_t reason); // "policy", "schedule" or "governor"
const char *es_refusal_name(int32_t refusal);        // "SLOT_OCCUPIED"
const char *es_refusal_message(int32_t refusal);     // "the slot is occupied"

// The checks in a set of bits, separated by commas, cut to the buffer. Returns the buffer.
const char *es_gate_checks_write(int32_t checks, char *buffer, size_t n_bytes);

// "r0c1" of a slot. The buffer takes 24 bytes. Returns it.
const char *es_slot_write(int32_t row, int32_t column, char *buffer);

// ARGUMENT unless the text is r<row>c<column> in plain digits, each 0 to 9999.
EsStatus es_slot_parse(const char *text, int32_t *row, int32_t *column);

ES_EXTERN_C_END

#endif
