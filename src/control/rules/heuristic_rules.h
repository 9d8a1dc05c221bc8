// The heuristic policy: wait until the host has reached a plateau, germinate the next blueprint of
// a rotation, see it through, keep seeds that contribute and prune the rest. One seed at a time.
//
//   no seed in development    GERMINATE on a plateau of a stabilised host, else WAIT
//   GERMINATED                ADVANCE
//   TRAINING                  PRUNE when it hurts, else ADVANCE: the gate says when
//   BLENDING                  PRUNE when it hurts, ADVANCE when alpha is full, else WAIT
//   HOLDING                   PRUNE when it contributes to a host that has become worse (it made
//                             itself needed); WAIT until measured; FOSSILIZE if it contributes;
//                             else PRUNE
//
// It decides where every policy does, on the same measurements, gates and masks. An operation that
// the masks do not allow (stages that advance on their own, alpha on its way, a seed too young)
// becomes WAIT.
//
//     EsHeuristicSettings rules = es_heuristic_settings(&growth_settings);
//     EsHeuristic memory = es_heuristic_start(); // per environment and episode
//     action = es_heuristic_decide(&rules, &growth_settings, &env, seeds, &masks, &memory);
#ifndef ES_CONTROL_HEURISTIC_RULES_H
#define ES_CONTROL_HEURISTIC_RULES_H

#include "growth/rules/mask_rules.h"

#define ES_ROTATION_MAX 5

typedef struct EsHeuristicSettings {
    int32_t plateau_steps;   // in a row before a germination
    int32_t first_step;      // no germination before it
    int32_t pause_steps;     // after a prune
    int32_t prune_steps;     // in a stage before it may be pruned
    float prune_points;      // improvement of a stage below which a seed hurts
    float fossil_points;     // contribution above which a seed is kept
    float ransom_points;     // contribution above which a seed must not have made the host worse
    float ransom_gain;       // total improvement below which the host is worse
    float penalty;           // of a blueprint that was pruned,
    float penalty_decay;     // times this every step,
    float penalty_least;     // forgotten below this
    float penalty_threshold; // passed over from here on
    int32_t n_rotation;
    int32_t rotation[ES_ROTATION_MAX]; // EsBlueprintId, in turn
} EsHeuristicSettings;

// Its memory of an environment.
typedef struct EsHeuristic {
    int32_t next; // position in the rotation
    int32_t last_prune_step;
    int32_t last_decay_step;
    float penalty[ES_N_BLUEPRINT_IDS];
} EsHeuristic;

// The published numbers. Those in steps follow the growth's own dwell times, and are the published
// ones (5, 5, 5) for its published settings: a seed is looked at from the age at which it may be
// pruned, the pause is as long as the embargo, and the first thirtieth of an episode is the host's.
// Strict gates keep no fossil below their bar, so it does not wait for them. The rotation is the
// published one, as far as the host can hold it, filled up to five.
static inline ES_HOST_DEVICE EsHeuristicSettings
es_heuristic_settings(const EsGrowthSettings *growth) {
    const int32_t order[] = {ES_BLUEPRINT_ID_CONV_LIGHT,     ES_BLUEPRINT_ID_CONV_HEAVY,
                             ES_BLUEPRINT_ID_ATTENTION,      ES_BLUEPRINT_ID_NORM,
                             ES_BLUEPRINT_ID_DEPTHWISE,      ES_BLUEPRINT_ID_LORA,
                             ES_BLUEPRINT_ID_MLP_SMALL,      ES_BLUEPRINT_ID_MLP,
                             ES_BLUEPRINT_ID_LORA_LARGE,     ES_BLUEPRINT_ID_BOTTLENECK,
                             ES_BLUEPRINT_ID_FLEX_ATTENTION, ES_BLUEPRINT_ID_CONV_SMALL};
    EsHeuristicSettings s;
    s.plateau_steps = 3;
    s.first_step = growth->episode_steps / 30;
    s.pause_steps = growth->embargo_dwell;
    s.prune_steps = growth->prune_age;
    s.prune_points = -2.0f;
    s.fossil_points = 0.5f;
    if (growth->is_strict && growth->min_contribution > s.fossil_points) {
        s.fossil_points = growth->min_contribution;
    }
    s.ransom_points = 0.1f;
    s.ransom_gain = 0.0f;
    s.penalty = 2.0f;
    s.penalty_decay = 0.5f;
    s.penalty_least = 0.1f;
    s.penalty_threshold = 3.0f;
    s.n_rotation = 0;
    for (int32_t i = 0; i < (int32_t)ES_COUNT_OF(order); i++) {
        if (s.n_rotation < ES_ROTATION_MAX && es_blueprint_is_legal(growth, order[i])) {
            s.rotation[s.n_rotation++] = order[i];
        }
    }
    for (int32_t i = s.n_rotation; i < ES_ROTATION_MAX; i++) {
        s.rotation[i] = ES_BLUEPRINT_ID_NOOP;
    }
    return s;
}

static inline ES_HOST_DEVICE EsHeuristic es_heuristic_start(void) {
    EsHeuristic memory;
    memory.next = 0;
    memory.last_prune_step = -100;
    memory.last_decay_step = -1;
    for (int32_t b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
        memory.penalty[b] = 0;
    }
    return memory;
}

// Penalties fade, once a step.
static inline ES_HOST_DEVICE void es_heuristic_decay(const EsHeuristicSettings *rules, int32_t step,
                                                     EsHeuristic *memory) {
    if (step <= memory->last_decay_step) {
        return;
    }
    memory->last_decay_step = step;
    for (int32_t b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
        float left = memory->penalty[b] * rules->penalty_decay;
        memory->penalty[b] = left < rules->penalty_least ? 0.0f : left;
    }
}

// The next blueprint of the rotation that is allowed (a mask) and not under a penalty; when all
// are, the one with the least, the first in turn of equal ones. The rotation goes on behind it.
// NOOP: none of them is allowed.
static inline ES_HOST_DEVICE int32_t es_heuristic_blueprint(const EsHeuristicSettings *rules,
                                                            uint32_t allowed, EsHeuristic *memory) {
    int32_t best = -1;
    for (int32_t i = 0; i < rules->n_rotation; i++) {
        int32_t at = (memory->next + i) % rules->n_rotation;
        float penalty = memory->penalty[rules->rotation[at]];
        if (!((allowed >> rules->rotation[at]) & 1u)) {
            continue;
        }
        if (penalty < rules->penalty_threshold) {
            best = at;
            break;
        }
        if (best < 0 || penalty < memory->penalty[rules->rotation[best]]) {
            best = at;
        }
    }
    if (best < 0) {
        return ES_BLUEPRINT_ID_NOOP;
    }
    memory->next = (best + 1) % rules->n_rotation;
    return rules->rotation[best];
}

// The first slot of a mask; 0 when it is empty.
static inline ES_HOST_DEVICE int32_t es_heuristic_first(uint32_t slots) {
    int32_t slot = 0;
    while (slot < ES_SLOTS_MAX - 1 && !((slots >> slot) & 1u)) {
        slot++;
    }
    return (slots >> slot) & 1u ? slot : 0;
}

// With no seed in development: EsGrowthOp, WAIT or GERMINATE.
static inline ES_HOST_DEVICE int32_t es_heuristic_decide_host(const EsHeuristicSettings *rules,
                                                              const EsGrowthEnv *env,
                                                              const EsActionMasks *masks,
                                                              const EsHeuristic *memory) {
    int is_time = env->step - memory->last_prune_step >= rules->pause_steps && env->is_stabilised &&
                  env->step >= rules->first_step &&
                  masks->slot_by_op[ES_GROWTH_OP_GERMINATE] != 0 && rules->n_rotation > 0;
    return is_time && env->plateau_steps >= rules->plateau_steps ? ES_GROWTH_OP_GERMINATE
                                                                 : ES_GROWTH_OP_WAIT;
}

static inline ES_HOST_DEVICE int es_heuristic_hurts(const EsHeuristicSettings *rules,
                                                    const EsSeed *seed) {
    return seed->steps_in_stage >= rules->prune_steps &&
           es_seed_improvement(seed) < rules->prune_points;
}

static inline ES_HOST_DEVICE int32_t es_heuristic_decide_holding(const EsHeuristicSettings *rules,
                                                                 const EsSeed *seed) {
    if (!es_contribution_is_measured(seed)) {
        return ES_GROWTH_OP_WAIT;
    }
    int has_gain = seed->accuracy_initial >= 0 && seed->accuracy_now >= 0;
    float gain = has_gain ? seed->accuracy_now - seed->accuracy_initial : 0.0f;
    if (seed->contribution > rules->ransom_points && gain < rules->ransom_gain) {
        return ES_GROWTH_OP_PRUNE;
    }
    return seed->contribution > rules->fossil_points ? ES_GROWTH_OP_FOSSILIZE : ES_GROWTH_OP_PRUNE;
}

// Operation for a seed in development: EsGrowthOp, whether or not it is legal.
static inline ES_HOST_DEVICE int32_t es_heuristic_decide_seed(const EsHeuristicSettings *rules,
                                                              const EsSeed *seed) {
    switch (seed->stage) {
    case ES_STAGE_GERMINATED:
        return ES_GROWTH_OP_ADVANCE;
    case ES_STAGE_TRAINING:
        return es_heuristic_hurts(rules, seed) ? ES_GROWTH_OP_PRUNE : ES_GROWTH_OP_ADVANCE;
    case ES_STAGE_BLENDING:
        if (es_heuristic_hurts(rules, seed)) {
            return ES_GROWTH_OP_PRUNE;
        }
        return (double)seed->alpha_target >= 1 - ES_ALPHA_EPSILON && es_alpha_is_reached(seed)
                   ? ES_GROWTH_OP_ADVANCE
                   : ES_GROWTH_OP_WAIT;
    case ES_STAGE_HOLDING:
        return es_heuristic_decide_holding(rules, seed);
    default:
        return ES_GROWTH_OP_WAIT;
    }
}

// The first slot with a seed in development, -1 without one.
static inline ES_HOST_DEVICE int32_t es_heuristic_slot(const EsGrowthSettings *growth,
                                                       const EsSeed *seeds) {
    for (int32_t s = 0; s < growth->n_slots; s++) {
        if (es_stage_in(seeds[s].stage, ES_STAGES_LIVING) &&
            seeds[s].stage != ES_STAGE_FOSSILIZED) {
            return s;
        }
    }
    return -1;
}

// The decision of one environment. A step that was not measured, or in which the governor takes
// over, is left alone; seeds that the governor takes out count as pruned, without blame.
static inline ES_HOST_DEVICE EsAction es_heuristic_decide(
    const EsHeuristicSettings *rules, const EsGrowthSettings *growth, const EsGrowthEnv *env,
    const EsSeed *seeds, const EsActionMasks *masks, EsHeuristic *memory) {
    EsAction action = es_action_wait();
    int32_t slot = es_heuristic_slot(growth, seeds);
    es_heuristic_decay(rules, env->step, memory);
    if (env->panic != 0) {
        memory->last_prune_step = slot >= 0 ? env->step : memory->last_prune_step;
        return action;
    }
    // written so that NaN waits
    if (!(env->loss >= 0 && env->accuracy >= 0) || !es_math_is_finite((double)env->loss)) {
        return action;
    }
    int32_t op = slot < 0 ? es_heuristic_decide_host(rules, env, masks, memory)
                          : es_heuristic_decide_seed(rules, &seeds[slot]);
    if (op == ES_GROWTH_OP_GERMINATE) {
        slot = es_heuristic_first(masks->slot_by_op[op]);
    }
    if (op == ES_GROWTH_OP_WAIT || !((masks->slot_by_op[op] >> slot) & 1)) {
        return action;
    }
    if (op == ES_GROWTH_OP_GERMINATE) {
        // the placeholders of the other heads are sigmoid add, standard tempo, full target
        uint32_t legal = masks->head[ES_HEAD_BLUEPRINT] & ~(uint32_t)masks->over_budget[slot];
        int32_t blueprint = es_heuristic_blueprint(rules, legal, memory);
        if (blueprint == ES_BLUEPRINT_ID_NOOP) {
            return action;
        }
        action.head[ES_HEAD_BLUEPRINT] = (int8_t)blueprint;
    }
    action.head[ES_HEAD_OP] = (int8_t)op;
    action.head[ES_HEAD_SLOT] = (int8_t)slot;
    if (op == ES_GROWTH_OP_PRUNE) {
        // at once: the placeholder of the speed
        memory->last_prune_step = env->step;
        memory->penalty[seeds[slot].blueprint] += rules->penalty;
    }
    return action;
}

#endif
