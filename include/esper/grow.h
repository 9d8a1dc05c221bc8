// Growth for programs of your own: E hosts trained side by side, each growing seeds as you say.
//
// An episode is a row of steps. A step trains every host on a few batches and validates it, also
// with seeds switched off, to see what each is worth; then it asks for one action per host. You
// look (es_grow_observe), choose, and es_grow_step carries the actions out and runs the next step.
// What the rules do not allow counts as WAIT and says why; masks tell beforehand.
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

#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- actions: eight bytes per host, one for each head, in this order ---

typedef enum EsGrowHead {
    ES_GROW_HEAD_SLOT,         // 0..S-1, in the order of the slots: row by row
    ES_GROW_HEAD_BLUEPRINT,    // EsGrowBlueprint            GERMINATE
    ES_GROW_HEAD_STYLE,        // EsGrowStyle                GERMINATE, SET_ALPHA_TARGET
    ES_GROW_HEAD_TEMPO,        // 0 fast .. 2 slow           GERMINATE: the first blend
    ES_GROW_HEAD_ALPHA_TARGET, // 0 half, 1 0.7, 2 full      GERMINATE, SET_ALPHA_TARGET
    ES_GROW_HEAD_ALPHA_SPEED,  // 0 at once .. 3 slow        SET_ALPHA_TARGET, PRUNE
    ES_GROW_HEAD_ALPHA_CURVE,  // 0 linear, 1 cosine, 2..4 sigmoid, gentle to sharp
    ES_GROW_HEAD_OP,           // EsGrowOp; heads that do not matter to it are ignored
    ES_GROW_N_HEADS
} EsGrowHead;

typedef enum EsGrowOp {
    ES_GROW_OP_WAIT,
    ES_GROW_OP_GERMINATE,        // a new seed in an empty slot
    ES_GROW_OP_SET_ALPHA_TARGET, // blend a seed to another share
    ES_GROW_OP_PRUNE,            // take a seed out, at once or by a ramp
    ES_GROW_OP_FOSSILIZE,        // keep it for good: from HOLDING, with a measured contribution
    ES_GROW_OP_ADVANCE,          // to the next stage; auto_forward does it for you
    ES_GROW_N_OPS
} EsGrowOp;

typedef enum EsGrowBlueprint {
    ES_GROW_BLUEPRINT_NONE = -1,
    ES_GROW_BLUEPRINT_CONV_LIGHT = 1, // 0 does nothing and is never legal
    ES_GROW_BLUEPRINT_ATTENTION = 2,
    ES_GROW_BLUEPRINT_NORM = 3,
    ES_GROW_BLUEPRINT_DEPTHWISE = 4,
    ES_GROW_BLUEPRINT_BOTTLENECK = 5,
    ES_GROW_BLUEPRINT_CONV_SMALL = 6,
    ES_GROW_BLUEPRINT_CONV_HEAVY = 7
} EsGrowBlueprint;

// How the share rises in the first blend, and how host and seed are mixed.
typedef enum EsGrowStyle {
    ES_GROW_STYLE_LINEAR_ADD,
    ES_GROW_STYLE_LINEAR_MULTIPLY,
    ES_GROW_STYLE_SIGMOID_ADD,
    ES_GROW_STYLE_GATED_GATE
} EsGrowStyle;

// The life of a seed; after PRUNED the slot cools down until it is DORMANT, which is empty.
typedef enum EsGrowStage {
    ES_GROW_STAGE_DORMANT = 1,
    ES_GROW_STAGE_GERMINATED = 2,
    ES_GROW_STAGE_TRAINING = 3, // behind the host, which does not notice
    ES_GROW_STAGE_BLENDING = 4, // its share alpha moves
    ES_GROW_STAGE_HOLDING = 6,  // fully blended in; may be fossilised
    ES_GROW_STAGE_FOSSILIZED = 7,
    ES_GROW_STAGE_PRUNED = 8,
    ES_GROW_STAGE_EMBARGOED = 9,
    ES_GROW_STAGE_RESETTING = 10
} EsGrowStage;

// --- life ---

// Everything 0 or NULL is a sensible choice. Texts are borrowed during create.
typedef struct EsGrowOptions {
    const char *task;          // a preset: "tiny", "cifar_baseline", ...; NULL = "tiny"
    const char *host_file;     // instead of a task: INI file of a host of your own
    const char *data;          // "tiny", "generated", "cifar10", "idx"; NULL = the host's
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
    uint64_t data_seed;        // which images a generated set has; 0 = 1
    const char *device;        // "cpu", "cuda" or "cuda:N"; NULL = "cpu"
    const char *amp_dtype; // on a GPU: "auto", "off", "bfloat16", "float16"; NULL = "auto", which
                           // is bfloat16 where the GPU has it, else float16
} EsGrowOptions;

typedef struct EsGrow EsGrow;

// ARGUMENT, CONFIG (host file), INPUT or IO (data) when the options do not fit, UNSUPPORTED when
// there is no such device or it cannot run this host, and why, MEMORY. A preset takes on the size
// of the images; a host of your own must have it. *grow is NULL on failure.
EsStatus es_grow_create(const EsGrowOptions *options, EsGrow **grow);

// Begin episodes first_episode .. first_episode + E - 1, one per host, and run the first step up to
// its decision. An episode's number is its key: the same one starts with the same weights and sees
// the same batches. May be called at any time.
EsStatus es_grow_reset(EsGrow *grow, int64_t first_episode);

// Carry out actions [E][8] and run the next step up to its decision, unless that was the last one.
// ARGUMENT when no decision is wanted; after any other failure only reset and destroy make sense.
EsStatus es_grow_step(EsGrow *grow, const int8_t *actions);

void es_grow_destroy(EsGrow *grow); // accepts NULL

// An action with this operation on this slot and ordinary values in the other heads: add,
// sigmoid ramp of medium tempo, full share. GERMINATE is of CONV_LIGHT.
void es_grow_fill_action(int8_t action[ES_GROW_N_HEADS], EsGrowOp op, int slot);

// --- looking at it ---

typedef struct EsGrowHost {
    double train_loss, train_accuracy;           // of the step's batches; accuracies in percent
    double validation_loss, validation_accuracy; // of the host as it is
    int64_t n_parameters;                        // with its living seeds
    int32_t op;          // EsGrowOp that the last es_grow_step carried out; WAIT when refused
    int32_t refusal;     // 0, or why not (es_grow_refusal_message)
    int32_t n_rollbacks; // times it broke in this episode and went back to a snapshot
} EsGrowHost;

typedef struct EsGrowSlot {
    int32_t stage;     // EsGrowStage
    int32_t blueprint; // EsGrowBlueprint
    int32_t steps_in_stage, age, n_parameters;
    float alpha;              // share of the seed, 0..1
    float contribution;       // percent points of accuracy lost without it; NaN = not measured
    int32_t contribution_age; // steps since that measurement; -1 = never
    float gradient_health;    // 0..1; NaN = not measured
} EsGrowSlot;

// Bit v: value v is legal.
typedef struct EsGrowMasks {
    uint16_t head[ES_GROW_N_HEADS];     // before an operation is chosen
    uint16_t slot_by_op[ES_GROW_N_OPS]; // slots that an operation may act on
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

EsGrowView es_grow_observe(const EsGrow *grow);

// A few lines of text: host, data, slots, parameters, memory. Cut to fit, always terminated.
void es_grow_describe(const EsGrow *grow, char *text, size_t text_bytes);

// Static texts; "?" for values that are none.
const char *es_grow_stage_name(int stage);                   // "HOLDING"
const char *es_grow_op_name(int op);                         // "GERMINATE"
const char *es_grow_blueprint_name(int blueprint);           // "conv_light"
const char *es_grow_refusal_message(int refusal);            // "the slot is occupied"
const char *es_grow_slot_name(const EsGrow *grow, int slot); // "r0c1"

#ifdef __cplusplus
}
#endif

#endif
