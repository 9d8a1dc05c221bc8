// The vocabulary of growth: stages of a seed, operations, and the heads of an action with their
// values. The engine's rules, policies and telemetry use these very numbers, and recorded runs hold
// them: they never change.
#ifndef ESPER_GROWTH_TERMS_H
#define ESPER_GROWTH_TERMS_H

// The life of a seed; after PRUNED the slot cools down until it is DORMANT, which is empty. 5 is
// retired.
typedef enum EsStage {
    ES_STAGE_UNKNOWN = 0,
    ES_STAGE_DORMANT = 1,
    ES_STAGE_GERMINATED = 2,
    ES_STAGE_TRAINING = 3, // behind the host, which does not notice
    ES_STAGE_BLENDING = 4, // its share alpha moves
    ES_STAGE_HOLDING = 6,  // fully blended in; may be fossilised
    ES_STAGE_FOSSILIZED = 7,
    ES_STAGE_PRUNED = 8,
    ES_STAGE_EMBARGOED = 9,
    ES_STAGE_RESETTING = 10
} EsStage;

// An action is eight bytes, one for each head, in this order.
typedef enum EsHead {
    ES_HEAD_SLOT,         // 0..S-1, in the order of the slots: row by row
    ES_HEAD_BLUEPRINT,    // EsBlueprintId              GERMINATE
    ES_HEAD_STYLE,        // EsStyle                    GERMINATE, SET_ALPHA_TARGET
    ES_HEAD_TEMPO,        // 0 fast .. 2 slow           GERMINATE: the first blend
    ES_HEAD_ALPHA_TARGET, // 0 half, 1 0.7, 2 full      GERMINATE, SET_ALPHA_TARGET
    ES_HEAD_ALPHA_SPEED,  // 0 at once .. 3 slow        SET_ALPHA_TARGET, PRUNE
    ES_HEAD_ALPHA_CURVE,  // 0 linear, 1 cosine, 2..4 sigmoid, gentle to sharp
    ES_HEAD_OP,           // EsGrowthOp; heads that do not matter to it are ignored
    ES_N_HEADS
} EsHead;

typedef enum EsGrowthOp {
    ES_GROWTH_OP_WAIT,
    ES_GROWTH_OP_GERMINATE,        // a new seed in an empty slot
    ES_GROWTH_OP_SET_ALPHA_TARGET, // blend a seed to another share
    ES_GROWTH_OP_PRUNE,            // take a seed out, at once or by a ramp
    ES_GROWTH_OP_FOSSILIZE,        // keep it for good: from HOLDING, with a measured contribution
    ES_GROWTH_OP_ADVANCE,          // to the next stage; auto_forward does it for you
    ES_N_GROWTH_OPS
} EsGrowthOp;

// Kinds of seeds. CONV_LIGHT to CONV_HEAVY fit convolutional hosts; NORM, MLP_SMALL and MLP dense
// ones; the last five, ATTENTION and NORM are for transformers. NOOP does nothing and is never
// legal.
typedef enum EsBlueprintId {
    ES_BLUEPRINT_ID_NONE = -1, // an empty slot
    ES_BLUEPRINT_ID_NOOP = 0,
    ES_BLUEPRINT_ID_CONV_LIGHT,
    ES_BLUEPRINT_ID_ATTENTION,
    ES_BLUEPRINT_ID_NORM,
    ES_BLUEPRINT_ID_DEPTHWISE,
    ES_BLUEPRINT_ID_BOTTLENECK,
    ES_BLUEPRINT_ID_CONV_SMALL,
    ES_BLUEPRINT_ID_CONV_HEAVY,
    ES_BLUEPRINT_ID_LORA,
    ES_BLUEPRINT_ID_LORA_LARGE,
    ES_BLUEPRINT_ID_MLP_SMALL,
    ES_BLUEPRINT_ID_MLP,
    ES_BLUEPRINT_ID_FLEX_ATTENTION,
    ES_N_BLUEPRINT_IDS
} EsBlueprintId;

// Rise of alpha in the first blend (linear, sigmoid, a learned gate), and blending of host and seed
// (add, multiply, gate).
typedef enum EsStyle {
    ES_STYLE_LINEAR_ADD,
    ES_STYLE_LINEAR_MULTIPLY,
    ES_STYLE_SIGMOID_ADD,
    ES_STYLE_GATED_GATE,
    ES_N_STYLES
} EsStyle;

#endif
