// Tables of names, made from the lists of the rules.
#include "growth/rules/growth_names.h"

#include <stdio.h>

const char *es_stage_name(int32_t stage) {
    switch (stage) {
#define X(name)                                                                                    \
    case ES_STAGE_##name:                                                                          \
        return #name;
        ES_STAGE_LIST(X)
#undef X
    default:
        return "?";
    }
}

static const char *pick(const char *const *names, size_t n_names, int32_t value) {
    return value >= 0 && (size_t)value < n_names ? names[value] : "?";
}

// One function per list of plain names.
#define ES_NAME_TABLE(function, ...)                                                               \
    const char *function(int32_t value) {                                                          \
        static const char *const names[] = {__VA_ARGS__};                                          \
        return pick(names, ES_COUNT_OF(names), value);                                             \
    }

#define FIRST(name, ...)            #name,
#define SECOND(name, spelling, ...) #spelling,
#define THIRD(name, spelling, who)  #who,
#define TEXT(name, text)            text,

// by the public numbers
#define OP(name)                  [ES_GROWTH_OP_##name] = #name,
#define HEAD(name, spelling, ...) [ES_HEAD_##name] = #spelling,
#define BLUEPRINT(name, spelling) [ES_BLUEPRINT_ID_##name] = #spelling,
#define STYLE(name, ...)          [ES_STYLE_##name] = #name,
ES_NAME_TABLE(es_growth_op_name, ES_GROWTH_OP_LIST(OP))
ES_NAME_TABLE(es_head_name, ES_HEAD_LIST(HEAD))
ES_NAME_TABLE(es_blueprint_id_name, ES_BLUEPRINT_ID_LIST(BLUEPRINT))
ES_NAME_TABLE(es_style_name, ES_STYLE_LIST(STYLE))

ES_NAME_TABLE(es_algorithm_name, "NONE", "ADD", "MULTIPLY", "GATE")
ES_NAME_TABLE(es_tempo_name, ES_TEMPO_LIST(FIRST))
ES_NAME_TABLE(es_alpha_target_name, ES_ALPHA_TARGET_LIST(FIRST))
ES_NAME_TABLE(es_alpha_speed_name, ES_ALPHA_SPEED_LIST(FIRST))
ES_NAME_TABLE(es_curve_choice_name, ES_CURVE_CHOICE_LIST(FIRST))
ES_NAME_TABLE(es_alpha_mode_name, "HOLD", "UP", "DOWN")
ES_NAME_TABLE(es_gate_name, "G0", "G1", "G2", "G3", "?", "G5")
ES_NAME_TABLE(es_gate_check_name, ES_GATE_CHECK_LIST(SECOND))
ES_NAME_TABLE(es_panic_name, ES_PANIC_LIST(SECOND))
ES_NAME_TABLE(es_prune_reason_name, ES_PRUNE_REASON_LIST(SECOND))
ES_NAME_TABLE(es_prune_initiator_name, ES_PRUNE_REASON_LIST(THIRD))
ES_NAME_TABLE(es_refusal_name, ES_REFUSAL_LIST(FIRST))
ES_NAME_TABLE(es_refusal_message, ES_REFUSAL_LIST(TEXT))

const char *es_gate_checks_write(int32_t checks, char *buffer, size_t n_bytes) {
    size_t used = 0;
    if (n_bytes > 0) {
        buffer[0] = '\0';
    }
    for (int32_t check = 0; check < ES_N_GATE_CHECKS && used < n_bytes; check++) {
        if ((checks >> check) & 1) {
            int n = snprintf(buffer + used, n_bytes - used, "%s%s", used > 0 ? "," : "",
                             es_gate_check_name(check));
            used += n > 0 ? (size_t)n : 0;
        }
    }
    return buffer;
}

const char *es_slot_write(int32_t row, int32_t column, char *buffer) {
    snprintf(buffer, 24, "r%dc%d", row, column);
    return buffer;
}

// Digits without sign; at most four. Returns the end, or NULL when there are none.
static const char *read_digits(const char *text, int32_t *value) {
    const char *end = text;
    *value = 0;
    while (*end >= '0' && *end <= '9' && end - text < 4) {
        *value = *value * 10 + (*end++ - '0');
    }
    return end > text ? end : NULL;
}

EsStatus es_slot_parse(const char *text, int32_t *row, int32_t *column) {
    const char *end = text[0] == 'r' ? read_digits(text + 1, row) : NULL;
    if (end != NULL) {
        end = *end == 'c' ? read_digits(end + 1, column) : NULL;
    }
    if (end == NULL || *end != '\0') {
        return ES_FAIL(ARGUMENT, "\"%s\" is not a slot: write row and column, such as r0c1", text);
    }
    return ES_STATUS_OK;
}
