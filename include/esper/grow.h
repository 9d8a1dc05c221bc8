// Growth for programs of your own: E hosts trained side by side, each growing seeds as you say.
//
// An episode is a row of steps. A step trains every host on a few batches and validates it, also
// with seeds switched off, to measure the worth of each; then it asks for one action per host. You
// look (es_grow_observe), choose, and es_grow_step carries the actions out and runs the next step.
// An action that the rules refuse counts as WAIT and says why; masks show it beforehand.
//
// One thread at a time may use an EsGrow; different ones are independent. It has threads of its
// own; neither their number nor the other hosts change a host's results: same options, same
// episode, same actions, same bits. A failing call returns its status and leaves a text
// (es_status_detail).
//
//     EsGrowOptions options = {.task = "tiny", .slots = "r0c1", .auto_forward = 1};
//     ES_TRY_GOTO(es_grow_create(&options, &grow));
//     ES_TRY_GOTO(es_grow_reset(grow, 0));
//     for (EsGrowView view = es_grow_observe(grow); !view.is_over; view = es_grow_observe(grow)) {
//         choose(&view, action);
//         ES_TRY_GOTO(es_grow_step(grow, action));
//     }
//
// E environments (hosts), S slots.
#ifndef ESPER_GROW_H
#define ESPER_GROW_H

#include <stddef.h>
#include <stdint.h>

#include "esper/growth_terms.h"
#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- life ---

// Everything 0 or NULL is a sensible choice. Texts are borrowed during create.
typedef struct EsGrowOptions {
    const char *task;          // a preset: "tiny", "cifar_baseline", ...; NULL = "tiny"
    const char *host_file;     // instead of a task: INI file of a host of your own
    const char *data;          // "tiny", "fashion-mnist", ..., or a path; NULL = the host's
    const char *folder;        // of cifar10 and idx files; NULL = ES_DATA_DIR
    const char *slots;         // "r0c0,r0c1" or "all"; NULL = those of the file, or one per block
    int64_t n_envs;            // hosts; 0 = 1
    int64_t batch;             // images of an update; 0 = the host's
    int64_t step_batches;      // updates of a step; 0 = 8
    int64_t validation_images; // 0 = 2,000, or all there are
    int episode_steps;         // 0 = 30 for the task tiny, 150 for others
    int max_seeds;             // living and fossil, per host; 0 = any number
    int strict_gates;          // 1: gates ask for evidence of use, not just for safety
    int auto_forward;          // 1: stages up to HOLDING follow on their own
    int n_threads;             // 0 = one per processor
    uint64_t seed;             // of everything random in training; 0 = 42
    uint64_t data_seed;        // of a generated set's images; 0 = 1
    const char *device;        // "cpu", "cuda" or "cuda:N"; NULL = "cpu"
    const char *amp_dtype; // on a GPU: "auto", "off", "bfloat16", "float16"; NULL = "auto", which
                           // is bfloat16 where the GPU has it, else float16
} EsGrowOptions;

typedef struct EsGrow EsGrow;

// ARGUMENT, CONFIG (host file), INPUT or IO (data) when the options do not fit, UNSUPPORTED when
// there is no such device or it cannot run this host, and why, MEMORY. A preset takes on the size
// of the images; a host of your own must have it. *grow is NULL on failure.
ES_API EsStatus es_grow_create(const EsGrowOptions *options, EsGrow **grow);

// Begin episodes first_episode .. first_episode + E - 1, one per host, and run the first step up to
// its decision. An episode's number is its key: the same one starts with the same weights and sees
// the same batches. May be called at any time.
ES_API EsStatus es_grow_reset(EsGrow *grow, int64_t first_episode);

// Carry out actions [E][8] and run the next step up to its decision, unless that was the last one.
// ARGUMENT when no decision is wanted; after any other failure only reset and destroy make sense.
ES_API EsStatus es_grow_step(EsGrow *grow, const int8_t *actions);

ES_API void es_grow_destroy(EsGrow *grow); // accepts NULL

// An action with this operation on this slot and ordinary values in the other heads: add,
// sigmoid ramp of medium tempo, full share. GERMINATE is of CONV_LIGHT.
ES_API void es_grow_fill_action(int8_t action[ES_N_HEADS], EsGrowthOp op, int slot);

// --- looking at it ---

typedef struct EsGrowHost {
    double train_loss, train_accuracy;           // of the step's batches; accuracies in percent
    double validation_loss, validation_accuracy; // of the host as it is
    int64_t n_parameters;                        // with its living seeds
    int32_t op;          // EsGrowthOp that the last es_grow_step carried out; WAIT when refused
    int32_t refusal;     // 0, or why not (es_grow_refusal_message)
    int32_t n_rollbacks; // times it broke in this episode and went back to a snapshot
} EsGrowHost;

typedef struct EsGrowSlot {
    int32_t stage;     // EsStage
    int32_t blueprint; // EsBlueprintId
    int32_t steps_in_stage, age, n_parameters;
    float alpha;              // share of the seed, 0..1
    float contribution;       // percent points of accuracy lost without it; NaN = not measured
    int32_t contribution_age; // steps since that measurement; -1 = never
    float gradient_health;    // 0..1; NaN = not measured
} EsGrowSlot;

// Bit v: value v is legal.
typedef struct EsGrowMasks {
    uint16_t head[ES_N_HEADS];            // before an operation is chosen
    uint16_t slot_by_op[ES_N_GROWTH_OPS]; // slots that an operation may act on
} EsGrowMasks;

// Pointers are into the EsGrow and hold until its next reset, step or destroy.
typedef struct EsGrowView {
    int64_t n_envs;
    int n_slots;
    int step;                 // that wants a decision, from 1
    int is_over;              // none is wanted: reset begins an episode
    const EsGrowHost *hosts;  // [E]; of the last step that ran
    const EsGrowSlot *slots;  // [E][S]
    const EsGrowMasks *masks; // [E]
} EsGrowView;

ES_API EsGrowView es_grow_observe(const EsGrow *grow);

// A living seed as controllers and dashboards read it.
typedef struct EsGrowSeedState {
    int32_t slot, stage, blueprint; // EsStage, EsBlueprintId
    int32_t age;                    // steps since germination
    float alpha;                    // share of the seed, 0..1
    int32_t alpha_steps;            // of its ramp that are done
    int32_t alpha_total_steps;      // of its ramp; 0: it is at rest
    float alpha_temperature;  // length of the ramp over the steepness of its sigmoid, in steps
    int32_t is_blend_allowed; // the seed may change the host's output
} EsGrowSeedState;

// Writes the living seeds of a host in the order of slots into states, which has room for one per
// slot, and returns their number; 0 when there is no such host or no episode.
ES_API int es_grow_export_seed_states(const EsGrow *grow, int64_t host, EsGrowSeedState *states);

// Whom the loss of training samples [first, first + count) owes what to: weights [E][S], for each
// seed its share in what the loss would rise by without it, over the seeds that lower it. Those of
// a host add up to 1, or all are 0: no seed lowers the loss. Changes nothing. ARGUMENT when there
// are no such samples or no episode.
ES_API EsStatus es_grow_attribute_batch(EsGrow *grow, int64_t first, int64_t count,
                                        double *weights);

// A few lines of text: host, data, slots, parameters, memory. Cut to fit, always terminated.
ES_API void es_grow_describe(const EsGrow *grow, char *text, size_t text_bytes);

// Write the host with the seeds that change its output as network.json and network.safetensors into
// a folder that exists (esper/network.h opens it). ARGUMENT when there is no such host or no
// episode.
ES_API EsStatus es_grow_save_network(EsGrow *grow, int64_t host, const char *folder);

// Static texts; "?" for values that are none.
ES_API const char *es_grow_stage_name(int stage);                   // "HOLDING"
ES_API const char *es_grow_op_name(int op);                         // "GERMINATE"
ES_API const char *es_grow_blueprint_name(int blueprint);           // "conv_light"
ES_API const char *es_grow_refusal_message(int refusal);            // "the slot is occupied"
ES_API const char *es_grow_slot_name(const EsGrow *grow, int slot); // "r0c1"

#ifdef __cplusplus
}
#endif

#endif
