// What a slot does with its seed, in training and in evaluation.
#ifndef ES_GROWTH_SLOT_RULES_H
#define ES_GROWTH_SLOT_RULES_H

#include "growth/rules/action_rules.h"
#include "growth/rules/stage_rules.h"
#include "kernels/kernel_types.h"

// EsBlendMode in training; NONE where there is nothing to run.
static inline ES_HOST_DEVICE int32_t es_slot_blend_mode(int32_t stage, int32_t algorithm) {
    if (stage == ES_STAGE_TRAINING) {
        return ES_BLEND_INCUBATE;
    }
    if (!es_stage_in(stage, ES_STAGES_BLENDED)) {
        return ES_BLEND_NONE;
    }
    return algorithm == ES_ALGORITHM_MULTIPLY ? ES_BLEND_MULTIPLY
           : algorithm == ES_ALGORITHM_GATE   ? ES_BLEND_GATE
                                              : ES_BLEND_ADD;
}

// Does the seed change the output of the host, with these slots (bits) switched off?
static inline ES_HOST_DEVICE int es_slot_is_on(int32_t stage, float alpha, int32_t slots_off,
                                               int32_t slot) {
    return es_stage_in(stage, ES_STAGES_BLENDED) && alpha > 0 && !((slots_off >> slot) & 1);
}

#endif
