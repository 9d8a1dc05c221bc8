// The vocabulary of actions: eight heads, the six operations, the meaning of their values, and the
// heads that matter to each operation.
#ifndef ES_GROWTH_ACTION_RULES_H
#define ES_GROWTH_ACTION_RULES_H

#include "base/macros.h"
#include "esper/growth_terms.h"

#define ES_SLOTS_MAX 16

// name, spelling, number of values (slots: at most), value taken when the head does not matter
#define ES_HEAD_LIST(X)                                                                            \
    X(SLOT, slot, ES_SLOTS_MAX, 0)                                                                 \
    X(BLUEPRINT, blueprint, ES_N_BLUEPRINT_IDS, 0)                                                 \
    X(STYLE, style, 4, 2)                                                                          \
    X(TEMPO, tempo, 3, 1)                                                                          \
    X(ALPHA_TARGET, alpha_target, 3, 2)                                                            \
    X(ALPHA_SPEED, alpha_speed, 4, 0)                                                              \
    X(ALPHA_CURVE, alpha_curve, 5, 0)                                                              \
    X(OP, op, 6, 0)

#define ES_GROWTH_OP_LIST(X)                                                                       \
    X(WAIT)                                                                                        \
    X(GERMINATE)                                                                                   \
    X(SET_ALPHA_TARGET)                                                                            \
    X(PRUNE)                                                                                       \
    X(FOSSILIZE)                                                                                   \
    X(ADVANCE)

#define ES_BLUEPRINT_ID_LIST(X)                                                                    \
    X(NOOP, noop)                                                                                  \
    X(CONV_LIGHT, conv_light)                                                                      \
    X(ATTENTION, attention)                                                                        \
    X(NORM, norm)                                                                                  \
    X(DEPTHWISE, depthwise)                                                                        \
    X(BOTTLENECK, bottleneck)                                                                      \
    X(CONV_SMALL, conv_small)                                                                      \
    X(CONV_HEAVY, conv_heavy)                                                                      \
    X(LORA, lora)                                                                                  \
    X(LORA_LARGE, lora_large)                                                                      \
    X(MLP_SMALL, mlp_small)                                                                        \
    X(MLP, mlp)                                                                                    \
    X(FLEX_ATTENTION, flex_attention)

#define ES_BLUEPRINT_ID_BIT(b) (1 << (b))

// Sets of blueprints by kind of host. noop has no parameters to train and belongs to neither.
enum {
    ES_BLUEPRINTS_ALL = ES_BLUEPRINT_ID_BIT(ES_N_BLUEPRINT_IDS) - 2,
    // conv_light to conv_heavy
    ES_BLUEPRINTS_CNN = 2 * ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_CONV_HEAVY) -
                        ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_CONV_LIGHT),
    // lora to flex_attention, and two that both have
    ES_BLUEPRINTS_TRANSFORMER = ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_ATTENTION) |
                                ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_NORM) |
                                (2 * ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_FLEX_ATTENTION) -
                                 ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_LORA))
};

// Initial course of alpha (ramp), and blending of host and seed (algorithm).
typedef enum EsRamp {
    ES_RAMP_NONE = 0,
    ES_RAMP_LINEAR = 1,
    ES_RAMP_SIGMOID = 2,
    ES_RAMP_GATED = 3
} EsRamp;

typedef enum EsAlgorithm {
    ES_ALGORITHM_NONE = 0,
    ES_ALGORITHM_ADD = 1,
    ES_ALGORITHM_MULTIPLY = 2,
    ES_ALGORITHM_GATE = 3
} EsAlgorithm;

// name, ramp, algorithm
#define ES_STYLE_LIST(X)                                                                           \
    X(LINEAR_ADD, LINEAR, ADD)                                                                     \
    X(LINEAR_MULTIPLY, LINEAR, MULTIPLY)                                                           \
    X(SIGMOID_ADD, SIGMOID, ADD)                                                                   \
    X(GATED_GATE, GATED, GATE)

typedef enum EsAlphaMode { ES_ALPHA_HOLD = 0, ES_ALPHA_UP = 1, ES_ALPHA_DOWN = 2 } EsAlphaMode;

typedef enum EsAlphaCurve {
    ES_CURVE_NONE = 0,
    ES_CURVE_LINEAR = 1,
    ES_CURVE_COSINE = 2,
    ES_CURVE_SIGMOID = 3
} EsAlphaCurve;

// Values of the curve head: name, curve, steepness of the sigmoid
#define ES_CURVE_CHOICE_LIST(X)                                                                    \
    X(LINEAR, LINEAR, 12)                                                                          \
    X(COSINE, COSINE, 12)                                                                          \
    X(SIGMOID_GENTLE, SIGMOID, 6)                                                                  \
    X(SIGMOID, SIGMOID, 12)                                                                        \
    X(SIGMOID_SHARP, SIGMOID, 24)

// Values of the other heads; their ticks and targets are settings.
#define ES_TEMPO_LIST(X)        X(FAST) X(STANDARD) X(SLOW)
#define ES_ALPHA_TARGET_LIST(X) X(HALF) X(SEVENTY) X(FULL)
#define ES_ALPHA_SPEED_LIST(X)  X(INSTANT) X(FAST) X(MEDIUM) X(SLOW)

enum { ES_TEMPO_STANDARD = 1, ES_ALPHA_TARGET_FULL = 2, ES_ALPHA_SPEED_INSTANT = 0 };

// Why an operation was not carried out: name, plain English.
#define ES_REFUSAL_LIST(X)                                                                         \
    X(NONE, "carried out")                                                                         \
    X(OP_UNKNOWN, "there is no such operation")                                                    \
    X(SLOT_UNKNOWN, "there is no such slot")                                                       \
    X(HEAD_VALUE, "a head that matters to the operation has no such value")                        \
    X(BLUEPRINT, "the host cannot hold this blueprint")                                            \
    X(SLOT_OCCUPIED, "the slot is occupied")                                                       \
    X(SLOT_EMPTY, "the slot holds no living seed")                                                 \
    X(SEED_LIMIT, "the host has as many seeds, or parameters, as it may have")                     \
    X(DEVELOPING, "another seed is in development or cooling down")                                \
    X(STAGE, "the seed's stage does not allow it")                                                 \
    X(FOSSIL, "a fossil is permanent")                                                             \
    X(ALPHA_MOVING, "alpha is on its way")                                                         \
    X(TOO_YOUNG, "the seed is too young to be pruned")                                             \
    X(AUTO_FORWARD, "stages advance on their own")                                                 \
    X(NOT_MEASURED, "loss or accuracy of this step is missing or not finite")                      \
    X(DIVERGENCE_PENDING, "the loss is diverging, nothing may become permanent")                   \
    X(ROLLED_BACK, "the host was rolled back in this step")                                        \
    X(GATE_CLOSED, "the gate did not open")

typedef enum EsRefusal {
#define X(name, text) ES_REFUSAL_##name,
    ES_REFUSAL_LIST(X)
#undef X
        ES_N_REFUSALS
} EsRefusal;

// One action of one environment, in the order of EsHead.
typedef struct EsAction {
    int8_t head[ES_N_HEADS];
} EsAction;

// Number of values of a head in a host with n_slots slots.
static inline ES_HOST_DEVICE int32_t es_head_size(int32_t head, int32_t n_slots) {
    switch (head) {
#define X(name, spelling, size, placeholder)                                                       \
    case ES_HEAD_##name:                                                                           \
        return ES_HEAD_##name == ES_HEAD_SLOT ? n_slots : size;
        ES_HEAD_LIST(X)
#undef X
    default:
        return 0;
    }
}

static inline ES_HOST_DEVICE int32_t es_head_placeholder(int32_t head) {
    switch (head) {
#define X(name, spelling, size, placeholder)                                                       \
    case ES_HEAD_##name:                                                                           \
        return placeholder;
        ES_HEAD_LIST(X)
#undef X
    default:
        return 0;
    }
}

// Heads that matter to an operation, as bits; the op head always does.
static inline ES_HOST_DEVICE int32_t es_growth_op_heads(int32_t op) {
    const int32_t slot = 1 << ES_HEAD_OP | 1 << ES_HEAD_SLOT;
    const int32_t ramp = 1 << ES_HEAD_ALPHA_SPEED | 1 << ES_HEAD_ALPHA_CURVE;
    const int32_t blend = 1 << ES_HEAD_STYLE | 1 << ES_HEAD_ALPHA_TARGET;
    switch (op) {
    case ES_GROWTH_OP_GERMINATE:
        return slot | blend | 1 << ES_HEAD_BLUEPRINT | 1 << ES_HEAD_TEMPO;
    case ES_GROWTH_OP_SET_ALPHA_TARGET:
        return slot | blend | ramp;
    case ES_GROWTH_OP_PRUNE:
        return slot | ramp;
    case ES_GROWTH_OP_FOSSILIZE:
    case ES_GROWTH_OP_ADVANCE:
        return slot;
    default:
        return 1 << ES_HEAD_OP;
    }
}

static inline ES_HOST_DEVICE int es_head_matters(int32_t op, int32_t head) {
    return (es_growth_op_heads(op) >> head) & 1;
}

static inline ES_HOST_DEVICE int32_t es_style_ramp(int32_t style) {
    switch (style) {
#define X(name, ramp, algorithm)                                                                   \
    case ES_STYLE_##name:                                                                          \
        return ES_RAMP_##ramp;
        ES_STYLE_LIST(X)
#undef X
    default:
        return ES_RAMP_NONE;
    }
}

static inline ES_HOST_DEVICE int32_t es_style_algorithm(int32_t style) {
    switch (style) {
#define X(name, ramp, algorithm)                                                                   \
    case ES_STYLE_##name:                                                                          \
        return ES_ALGORITHM_##algorithm;
        ES_STYLE_LIST(X)
#undef X
    default:
        return ES_ALGORITHM_NONE;
    }
}

// Curve and steepness behind a value of the curve head, 0..4.
static inline ES_HOST_DEVICE int32_t es_curve_choice(int32_t value, float *steepness) {
    int32_t i = 0;
#define X(name, curve, k)                                                                          \
    if (i++ == value) {                                                                            \
        *steepness = k;                                                                            \
        return ES_CURVE_##curve;                                                                   \
    }
    ES_CURVE_CHOICE_LIST(X)
#undef X
    *steepness = 12;
    return ES_CURVE_NONE;
}

static inline ES_HOST_DEVICE int32_t es_action_value(const EsAction *action, int32_t head) {
    return +action->head[head];
}

// WAIT, with the placeholder in every head.
static inline ES_HOST_DEVICE EsAction es_action_wait(void) {
    EsAction action;
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        action.head[head] = (int8_t)es_head_placeholder(head);
    }
    return action;
}

#endif
