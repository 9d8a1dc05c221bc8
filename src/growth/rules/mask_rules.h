// Legal actions, per environment, as bits.
//
// One predicate, es_growth_op_refusal, says whether an operation may act on a slot; the masks are
// that predicate over all slots, and execution asks it again. It is structural: gates are not
// asked.
//
//     EsActionMasks masks = es_env_masks(&settings, &env, seeds);
//     if (es_masks_head(&masks, ES_GROWTH_OP_PRUNE, ES_HEAD_SLOT) & (1u << slot)) ...
#ifndef ES_GROWTH_MASK_RULES_H
#define ES_GROWTH_MASK_RULES_H

#include "growth/rules/gate_rules.h"

// Bit v of a mask: value v of that head is legal.
typedef struct EsActionMasks {
    uint16_t slot_by_op[ES_N_GROWTH_OPS]; // slots an operation may act on; WAIT: all
    uint16_t head[ES_N_HEADS];            // on their own, before an operation is chosen
    // bits of blueprints that exceed the budget in a slot; and those that do with a gate, bit 0: a
    // gate for the seed that lives there. All 0 without a budget.
    uint16_t over_budget[ES_SLOTS_MAX], gate_over_budget[ES_SLOTS_MAX];
} EsActionMasks;

// Counts over the slots of one environment.
typedef struct EsSeedCensus {
    int32_t n_seeds;      // living seeds and fossils; limited by max_seeds
    int32_t n_developing; // seeds that keep others from germinating
    int32_t n_empty;
} EsSeedCensus;

static inline ES_HOST_DEVICE EsSeedCensus es_seed_census(const EsGrowthSettings *settings,
                                                         const EsSeed *seeds) {
    EsSeedCensus census = {0, 0, 0};
    for (int32_t s = 0; s < settings->n_slots; s++) {
        census.n_seeds += es_stage_in(seeds[s].stage, ES_STAGES_LIVING);
        census.n_developing += es_stage_in(seeds[s].stage, ES_STAGES_DEVELOPING);
        census.n_empty += seeds[s].stage == ES_STAGE_DORMANT;
    }
    return census;
}

// Trainable numbers of the living seeds and fossils.
static inline ES_HOST_DEVICE int64_t es_seeds_parameters(const EsGrowthSettings *settings,
                                                         const EsSeed *seeds) {
    int64_t n = 0;
    for (int32_t s = 0; s < settings->n_slots; s++) {
        n += es_stage_in(seeds[s].stage, ES_STAGES_LIVING) ? seeds[s].n_parameters : 0;
    }
    return n;
}

// Parameters that the budget has left, 0 when it is exceeded; INT64_MAX without a limit.
static inline ES_HOST_DEVICE int64_t es_parameters_left(const EsGrowthSettings *settings,
                                                        const EsSeed *seeds) {
    if (settings->max_parameters <= 0) {
        return INT64_MAX;
    }
    int64_t used = settings->n_host_parameters + es_seeds_parameters(settings, seeds);
    return used < settings->max_parameters ? settings->max_parameters - used : 0;
}

// Legal blueprints that exceed what the budget has left in a slot, as bits; with a gate on top, or
// without one. Bit 0: that gate on a seed that lives there and has none.
static inline ES_HOST_DEVICE uint32_t es_slot_over_budget(const EsGrowthSettings *settings,
                                                          const EsSeed *seeds, int64_t left,
                                                          int32_t slot, int is_gated) {
    uint32_t over = 0;
    int64_t gate = is_gated ? settings->gate_parameters[slot] : 0;
    for (int32_t b = 1; b < ES_N_BLUEPRINT_IDS && left != INT64_MAX; b++) {
        int64_t cost = settings->blueprint_parameters[slot][b] + gate;
        over |= es_blueprint_is_legal(settings, b) && cost > left ? 1u << b : 0u;
    }
    return over | (gate > left && seeds[slot].algorithm != ES_ALGORITHM_GATE ? 1u : 0u);
}

// Is there room in the budget for some legal blueprint?
static inline ES_HOST_DEVICE int es_slot_has_budget(const EsGrowthSettings *settings,
                                                    const EsSeed *seeds, int32_t slot) {
    int64_t left = es_parameters_left(settings, seeds);
    uint32_t legal = (uint32_t)settings->blueprints & (uint32_t)ES_BLUEPRINTS_ALL;
    return (legal & ~es_slot_over_budget(settings, seeds, left, slot, 0)) != 0;
}

// GERMINATE: an empty slot, room for a seed, and no other seed before BLENDING or cooling down
// (sequential development).
static inline ES_HOST_DEVICE int32_t es_germinate_refusal(const EsGrowthSettings *settings,
                                                          const EsSeedCensus *census,
                                                          const EsSeed *seed) {
    if (seed->stage != ES_STAGE_DORMANT) {
        return ES_REFUSAL_SLOT_OCCUPIED;
    }
    if (settings->max_seeds > 0 && census->n_seeds >= settings->max_seeds) {
        return ES_REFUSAL_SEED_LIMIT;
    }
    return census->n_developing > 0 ? ES_REFUSAL_DEVELOPING : ES_REFUSAL_NONE;
}

// PRUNE: a living seed that is no fossil, old enough, with alpha at rest.
static inline ES_HOST_DEVICE int32_t es_prune_refusal(const EsGrowthSettings *settings,
                                                      const EsSeed *seed) {
    if (seed->stage == ES_STAGE_FOSSILIZED) {
        return ES_REFUSAL_FOSSIL;
    }
    if (seed->alpha_mode != ES_ALPHA_HOLD) {
        return ES_REFUSAL_ALPHA_MOVING;
    }
    return seed->age < settings->prune_age ? ES_REFUSAL_TOO_YOUNG : ES_REFUSAL_NONE;
}

// May `op` act on `slot`? EsRefusal; NONE for yes.
static inline ES_HOST_DEVICE int32_t es_growth_op_refusal(const EsGrowthSettings *settings,
                                                          const EsGrowthEnv *env,
                                                          const EsSeed *seeds,
                                                          const EsSeedCensus *census, int32_t op,
                                                          int32_t slot) {
    if (op < 0 || op >= ES_N_GROWTH_OPS) {
        return ES_REFUSAL_OP_UNKNOWN;
    }
    if (op == ES_GROWTH_OP_WAIT) {
        return ES_REFUSAL_NONE;
    }
    if (slot < 0 || slot >= settings->n_slots) {
        return ES_REFUSAL_SLOT_UNKNOWN;
    }
    const EsSeed *seed = &seeds[slot];
    if (op == ES_GROWTH_OP_GERMINATE) {
        int32_t refusal = es_germinate_refusal(settings, census, seed);
        return refusal != ES_REFUSAL_NONE || es_slot_has_budget(settings, seeds, slot)
                   ? refusal
                   : (int32_t)ES_REFUSAL_SEED_LIMIT;
    }
    if (!es_stage_in(seed->stage, ES_STAGES_LIVING)) {
        return ES_REFUSAL_SLOT_EMPTY;
    }
    switch (op) {
    case ES_GROWTH_OP_SET_ALPHA_TARGET:
        if (!es_stage_in(seed->stage, ES_STAGES_RETARGETABLE)) {
            return ES_REFUSAL_STAGE;
        }
        return seed->alpha_mode == ES_ALPHA_HOLD ? ES_REFUSAL_NONE : ES_REFUSAL_ALPHA_MOVING;
    case ES_GROWTH_OP_PRUNE:
        return es_prune_refusal(settings, seed);
    case ES_GROWTH_OP_FOSSILIZE:
        if (seed->stage != ES_STAGE_HOLDING) {
            return ES_REFUSAL_STAGE;
        }
        return env->n_divergences > 0 ? ES_REFUSAL_DIVERGENCE_PENDING : ES_REFUSAL_NONE;
    default: // ADVANCE
        if (settings->auto_forward == ES_AUTO_FORWARD_ALL) {
            return ES_REFUSAL_AUTO_FORWARD;
        }
        return es_stage_in(seed->stage, ES_STAGES_ADVANCEABLE) ? ES_REFUSAL_NONE : ES_REFUSAL_STAGE;
    }
}

static inline ES_HOST_DEVICE EsActionMasks es_env_masks(const EsGrowthSettings *settings,
                                                        const EsGrowthEnv *env,
                                                        const EsSeed *seeds) {
    EsActionMasks masks;
    EsSeedCensus census = es_seed_census(settings, seeds);
    uint32_t ops = 0;
    for (int32_t op = 0; op < ES_N_GROWTH_OPS; op++) {
        uint32_t slots = 0;
        for (int32_t s = 0; s < settings->n_slots; s++) {
            if (es_growth_op_refusal(settings, env, seeds, &census, op, s) == ES_REFUSAL_NONE) {
                slots |= 1u << s;
            }
        }
        masks.slot_by_op[op] = (uint16_t)slots;
        ops |= slots != 0 ? 1u << op : 0u;
    }
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        masks.head[head] = (uint16_t)((1u << es_head_size(head, settings->n_slots)) - 1);
    }
    masks.head[ES_HEAD_OP] = (uint16_t)ops;
    masks.head[ES_HEAD_BLUEPRINT] =
        (uint16_t)((uint32_t)settings->blueprints & (uint32_t)ES_BLUEPRINTS_ALL);
    // blending has a choice only if something can be blended
    if ((ops & (1u << ES_GROWTH_OP_GERMINATE | 1u << ES_GROWTH_OP_SET_ALPHA_TARGET)) == 0) {
        masks.head[ES_HEAD_STYLE] = 1u << ES_STYLE_SIGMOID_ADD;
        masks.head[ES_HEAD_ALPHA_TARGET] = 1u << ES_ALPHA_TARGET_FULL;
    }
    int64_t left = es_parameters_left(settings, seeds);
    for (int32_t s = 0; s < ES_SLOTS_MAX; s++) {
        int is_slot = s < settings->n_slots && left != INT64_MAX;
        masks.over_budget[s] =
            (uint16_t)(is_slot ? es_slot_over_budget(settings, seeds, left, s, 0) : 0);
        masks.gate_over_budget[s] =
            (uint16_t)(is_slot ? es_slot_over_budget(settings, seeds, left, s, 1) : 0);
    }
    return masks;
}

// The mask of a head once the op is chosen: slots the op may act on, the placeholder alone where
// the head does not matter. WAIT keeps the first slot.
static inline ES_HOST_DEVICE uint32_t es_masks_head(const EsActionMasks *masks, int32_t op,
                                                    int32_t head) {
    if (head == ES_HEAD_SLOT) {
        return op == ES_GROWTH_OP_WAIT ? 1u : masks->slot_by_op[op];
    }
    return es_head_matters(op, head) ? masks->head[head] : 1u << es_head_placeholder(head);
}

// The same once the heads before it are chosen, too, in the order of EsHead: blueprints that the
// budget has room for in this slot, and a gate if it has room for one as well.
static inline ES_HOST_DEVICE uint32_t es_masks_next(const EsActionMasks *masks,
                                                    const EsAction *action, int32_t op,
                                                    int32_t head) {
    uint32_t mask = es_masks_head(masks, op, head);
    int32_t slot = es_action_value(action, ES_HEAD_SLOT);
    if (head == ES_HEAD_BLUEPRINT && op == ES_GROWTH_OP_GERMINATE) {
        mask &= ~(uint32_t)masks->over_budget[slot];
    }
    if (head == ES_HEAD_STYLE && es_head_matters(op, head)) {
        int32_t blueprint =
            op == ES_GROWTH_OP_GERMINATE ? es_action_value(action, ES_HEAD_BLUEPRINT) : 0;
        int is_over = (masks->gate_over_budget[slot] >> blueprint) & 1;
        mask &= is_over ? ~(1u << ES_STYLE_GATED_GATE) : ~0u;
    }
    return mask;
}

#endif
