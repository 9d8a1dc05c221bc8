// Stages of a seed's life and the transitions between them, as data.
//
//     empty slot = DORMANT -> GERMINATED -> TRAINING -> BLENDING <-> HOLDING -> FOSSILIZED
//                                 any living stage but the last -> PRUNED -> EMBARGOED ->
//                                 RESETTING -> DORMANT
#ifndef ES_GROWTH_STAGE_RULES_H
#define ES_GROWTH_STAGE_RULES_H

#include "base/macros.h"
#include "esper/growth_terms.h"

#define ES_STAGE_LIST(X)                                                                           \
    X(UNKNOWN)                                                                                     \
    X(DORMANT)                                                                                     \
    X(GERMINATED)                                                                                  \
    X(TRAINING)                                                                                    \
    X(BLENDING)                                                                                    \
    X(HOLDING)                                                                                     \
    X(FOSSILIZED)                                                                                  \
    X(PRUNED)                                                                                      \
    X(EMBARGOED)                                                                                   \
    X(RESETTING)

#define ES_N_STAGES      10 // entries of the one-hot code
#define ES_STAGE_BIT(s)  (1 << (s))
#define ES_STAGE_RETIRED 5 // refused everywhere

// from, to: anything absent is illegal.
#define ES_STAGE_TRANSITION_LIST(X)                                                                \
    X(UNKNOWN, DORMANT)                                                                            \
    X(DORMANT, GERMINATED)                                                                         \
    X(GERMINATED, TRAINING)                                                                        \
    X(GERMINATED, PRUNED)                                                                          \
    X(TRAINING, BLENDING)                                                                          \
    X(TRAINING, PRUNED)                                                                            \
    X(BLENDING, HOLDING)                                                                           \
    X(BLENDING, PRUNED)                                                                            \
    X(HOLDING, FOSSILIZED)                                                                         \
    X(HOLDING, BLENDING)                                                                           \
    X(HOLDING, PRUNED)                                                                             \
    X(PRUNED, EMBARGOED)                                                                           \
    X(EMBARGOED, RESETTING)                                                                        \
    X(RESETTING, DORMANT)

// Sets of stages, as bits.
enum {
    // a module with weights is in the slot
    ES_STAGES_LIVING = ES_STAGE_BIT(ES_STAGE_GERMINATED) | ES_STAGE_BIT(ES_STAGE_TRAINING) |
                       ES_STAGE_BIT(ES_STAGE_BLENDING) | ES_STAGE_BIT(ES_STAGE_HOLDING) |
                       ES_STAGE_BIT(ES_STAGE_FOSSILIZED),
    // the module has gone, the slot is not yet free
    ES_STAGES_COOLING = ES_STAGE_BIT(ES_STAGE_PRUNED) | ES_STAGE_BIT(ES_STAGE_EMBARGOED) |
                        ES_STAGE_BIT(ES_STAGE_RESETTING),
    // the slot's output differs from its input
    ES_STAGES_BLENDED = ES_STAGE_BIT(ES_STAGE_BLENDING) | ES_STAGE_BIT(ES_STAGE_HOLDING) |
                        ES_STAGE_BIT(ES_STAGE_FOSSILIZED),
    // while a seed is here no other may germinate: development is sequential
    ES_STAGES_DEVELOPING =
        ES_STAGE_BIT(ES_STAGE_GERMINATED) | ES_STAGE_BIT(ES_STAGE_TRAINING) | ES_STAGES_COOLING,
    ES_STAGES_ADVANCEABLE = ES_STAGE_BIT(ES_STAGE_GERMINATED) | ES_STAGE_BIT(ES_STAGE_TRAINING) |
                            ES_STAGE_BIT(ES_STAGE_BLENDING),
    ES_STAGES_RETARGETABLE = ES_STAGE_BIT(ES_STAGE_BLENDING) | ES_STAGE_BIT(ES_STAGE_HOLDING),
    // gradients reach the seed's parameters
    ES_STAGES_TRAINED = ES_STAGES_LIVING & ~ES_STAGE_BIT(ES_STAGE_GERMINATED)
};

static inline ES_HOST_DEVICE int es_stage_is_valid(int32_t stage) {
    return stage >= ES_STAGE_UNKNOWN && stage <= ES_STAGE_RESETTING && stage != ES_STAGE_RETIRED;
}

// Is the stage in one of the sets above?
static inline ES_HOST_DEVICE int es_stage_in(int32_t stage, int32_t stages) {
    return es_stage_is_valid(stage) && (stages & ES_STAGE_BIT(stage)) != 0;
}

static inline ES_HOST_DEVICE int es_stage_may_follow(int32_t from, int32_t to) {
#define X(a, b)                                                                                    \
    if (from == ES_STAGE_##a && to == ES_STAGE_##b) {                                              \
        return 1;                                                                                  \
    }
    ES_STAGE_TRANSITION_LIST(X)
#undef X
    return 0;
}

// Position in the one-hot code, 0..9; -1 for an invalid stage.
static inline ES_HOST_DEVICE int32_t es_stage_one_hot(int32_t stage) {
    if (!es_stage_is_valid(stage)) {
        return -1;
    }
    return stage < ES_STAGE_RETIRED ? stage : stage - 1;
}

#endif
