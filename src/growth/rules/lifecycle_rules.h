// The lifecycle of seeds: operations, their effects, and the tick. One environment at a time; no
// weights are touched: rules leave requests, and the owner of the weights carries them out.
//
// A step of an environment, in this order:
//   train, validate
//   es_env_measure   vital signs, tracker, accuracies of the seeds
//   (gradients, contributions: gradient_rules.h, contribution_rules.h)
//   es_env_masks     legal actions (mask_rules.h)
//   es_env_apply     the chosen operation, or the rollback of a host in panic
//   es_env_tick      stages go on, alpha moves, all counters advance
//   requests         carried out before the next batch
//
// Counters advance only at the end of the tick, so that at any decision they count the
// steps trained so far. With dwell D, tempo N and automatic gates a seed germinated in step t is in
// TRAINING from tick t, blends from tick t+D, reaches its target and HOLDING in tick t+D+N-1, and
// may be fossilised in step t+D+N. A slot pruned in step or tick t is free in step
// t + embargo + reset + 1.
#ifndef ES_GROWTH_LIFECYCLE_RULES_H
#define ES_GROWTH_LIFECYCLE_RULES_H

#include "growth/rules/governor_rules.h"
#include "growth/rules/mask_rules.h"
#include "growth/rules/operation_rules.h"
#include "growth/rules/tracker_rules.h"

// Would the seed, or the gate it gets, exceed the budget? Head values are in range.
static inline ES_HOST_DEVICE int es_action_is_over_budget(const EsGrowthSettings *settings,
                                                          const EsSeed *seeds,
                                                          const EsAction *action) {
    int32_t op = es_action_value(action, ES_HEAD_OP), slot = es_action_value(action, ES_HEAD_SLOT);
    int64_t left = es_parameters_left(settings, seeds);
    if (left == INT64_MAX || !es_head_matters(op, ES_HEAD_STYLE)) {
        return 0;
    }
    int is_gated = es_style_algorithm(es_action_value(action, ES_HEAD_STYLE)) == ES_ALGORITHM_GATE;
    int32_t blueprint =
        op == ES_GROWTH_OP_GERMINATE ? es_action_value(action, ES_HEAD_BLUEPRINT) : 0;
    return (es_slot_over_budget(settings, seeds, left, slot, is_gated) >> blueprint) & 1;
}

// Heads that matter must have a value, blueprints one that the host can hold, and the step must
// have been measured (the governor's pre-flight).
static inline ES_HOST_DEVICE int32_t es_action_refusal(const EsGrowthSettings *settings,
                                                       const EsGrowthEnv *env, const EsSeed *seeds,
                                                       const EsAction *action) {
    int32_t op = es_action_value(action, ES_HEAD_OP);
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        int32_t value = es_action_value(action, head);
        if (es_head_matters(op, head) &&
            (value < 0 || value >= es_head_size(head, settings->n_slots))) {
            return ES_REFUSAL_HEAD_VALUE;
        }
    }
    if (op == ES_GROWTH_OP_GERMINATE &&
        !es_blueprint_is_legal(settings, es_action_value(action, ES_HEAD_BLUEPRINT))) {
        return ES_REFUSAL_BLUEPRINT;
    }
    if (es_action_is_over_budget(settings, seeds, action)) {
        return ES_REFUSAL_SEED_LIMIT;
    }
    // written so that NaN fails; -1 is "not measured"
    int measured = env->loss >= 0 && env->accuracy >= 0 && es_math_is_finite((double)env->loss) &&
                   es_math_is_finite((double)env->accuracy);
    return op == ES_GROWTH_OP_WAIT || measured ? ES_REFUSAL_NONE : ES_REFUSAL_NOT_MEASURED;
}

// Carry out one action. A refusal leaves every seed as it was and counts as WAIT; a closed gate
// does too, but the operation still counts as itself, without success.
static inline ES_HOST_DEVICE void es_env_execute(const EsGrowthSettings *settings, EsGrowthEnv *env,
                                                 EsSeed *seeds, const EsAction *action) {
    int32_t op = es_action_value(action, ES_HEAD_OP), slot = es_action_value(action, ES_HEAD_SLOT);
    EsSeedCensus census = es_seed_census(settings, seeds);
    int32_t refusal = es_growth_op_refusal(settings, env, seeds, &census, op, slot);
    if (refusal == ES_REFUSAL_NONE) {
        refusal = es_action_refusal(settings, env, seeds, action);
    }
    env->sampled_op = op;
    env->effective_op = refusal == ES_REFUSAL_NONE ? op : ES_GROWTH_OP_WAIT;
    env->acted_slot = env->effective_op == ES_GROWTH_OP_WAIT ? -1 : slot;
    env->is_success = refusal == ES_REFUSAL_NONE;
    switch (env->effective_op) {
    case ES_GROWTH_OP_GERMINATE:
        env->is_success = es_env_germinate(settings, env, &seeds[slot], action);
        break;
    case ES_GROWTH_OP_SET_ALPHA_TARGET:
        env->is_success = es_env_set_alpha_target(settings, &seeds[slot], action);
        break;
    case ES_GROWTH_OP_PRUNE:
        env->is_success = es_env_prune(settings, env, &seeds[slot], action);
        break;
    case ES_GROWTH_OP_FOSSILIZE:
        env->is_success = es_env_fossilize(settings, env, &seeds[slot]);
        break;
    case ES_GROWTH_OP_ADVANCE:
        env->is_success = es_seed_advance(settings, &seeds[slot]);
        break;
    default:
        break;
    }
    if (refusal == ES_REFUSAL_NONE && !env->is_success) {
        refusal = ES_REFUSAL_GATE_CLOSED;
    }
    env->refusal = refusal;
}

// Go back to the last snapshot: host and fossils are restored, every other living seed is pruned
// (and penalised once; slots that already cool down are left alone), momentum is cleared.
static inline ES_HOST_DEVICE void es_env_roll_back(const EsGrowthSettings *settings,
                                                   EsGrowthEnv *env, EsSeed *seeds,
                                                   int32_t reason) {
    for (int32_t s = 0; s < settings->n_slots; s++) {
        es_seed_prune(env, &seeds[s], reason);
        if (seeds[s].stage == ES_STAGE_FOSSILIZED) {
            seeds[s].requests = ES_SEED_REQUEST_ZERO_MOMENTUM;
        }
    }
    es_governor_reset(env);
    env->requests |= ES_ENV_REQUEST_RESTORE | ES_ENV_REQUEST_ZERO_MOMENTUM |
                     ES_ENV_REQUEST_RESET_SCALER | ES_ENV_REQUEST_RESET_POLICY;
    env->n_rollbacks++;
    env->sampled_op = ES_GROWTH_OP_WAIT;
    env->effective_op = ES_GROWTH_OP_WAIT;
    env->acted_slot = -1;
    env->is_success = 0;
    env->refusal = ES_REFUSAL_ROLLED_BACK;
}

static inline ES_HOST_DEVICE int32_t es_panic_prune_reason(int32_t panic) {
    return panic == ES_PANIC_NAN          ? ES_PRUNE_GOVERNOR_NAN
           : panic == ES_PANIC_LOBOTOMY   ? ES_PRUNE_GOVERNOR_LOBOTOMY
           : panic == ES_PANIC_DIVERGENCE ? ES_PRUNE_GOVERNOR_DIVERGENCE
                                          : ES_PRUNE_GOVERNOR_ROLLBACK;
}

// --- a step of one environment ---

// An episode begins: empty slots, and a snapshot of the fresh host, to be taken before the first
// batch.
static inline ES_HOST_DEVICE void es_env_reset(const EsGrowthSettings *settings, EsGrowthEnv *env,
                                               EsSeed *seeds) {
    es_growth_env_reset(env);
    for (int32_t s = 0; s < settings->n_slots; s++) {
        es_seed_reset(&seeds[s]);
        es_seed_reset_report(&seeds[s]);
    }
    env->requests = ES_ENV_REQUEST_SNAPSHOT;
}

// The validation of this step: loss and accuracy (percent) of the host as it is.
static inline ES_HOST_DEVICE void es_env_measure(const EsGrowthSettings *settings, EsGrowthEnv *env,
                                                 EsSeed *seeds, float loss, float accuracy) {
    env->loss = loss;
    env->accuracy = accuracy;
    es_governor_check(settings, env, loss);
    es_tracker_record(settings, env, loss, accuracy);
    for (int32_t s = 0; s < settings->n_slots; s++) {
        es_seed_record_accuracy(&seeds[s], accuracy);
    }
}

// The decision of this step: a host in panic is rolled back and its action dropped.
static inline ES_HOST_DEVICE void es_env_apply(const EsGrowthSettings *settings, EsGrowthEnv *env,
                                               EsSeed *seeds, const EsAction *action) {
    env->requests = 0;
    for (int32_t s = 0; s < settings->n_slots; s++) {
        es_seed_reset_report(&seeds[s]);
    }
    if (env->panic != ES_PANIC_NONE) {
        es_env_roll_back(settings, env, seeds, es_panic_prune_reason(env->panic));
    } else {
        es_env_execute(settings, env, seeds, action);
    }
    if (es_governor_snapshot(settings, env)) {
        env->requests |= ES_ENV_REQUEST_SNAPSHOT;
    }
}

// Alpha moves in the tick that enters BLENDING already; a ramp that ends at 0 prunes, one that ends
// at 1 may go on to HOLDING.
static inline ES_HOST_DEVICE void es_seed_tick_blending(const EsGrowthSettings *settings,
                                                        EsGrowthEnv *env, EsSeed *seed) {
    es_alpha_step(seed);
    if (!es_alpha_is_reached(seed)) {
        return;
    }
    if ((double)seed->alpha_target <= ES_ALPHA_EPSILON) {
        es_seed_prune(env, seed, ES_PRUNE_SCHEDULED);
        return;
    }
    int is_time = !settings->is_strict || seed->steps_in_stage >= settings->blending_dwell;
    if ((settings->auto_forward & ES_AUTO_FORWARD_G3) && is_time) {
        es_seed_advance(settings, seed);
    }
}

// Moves a seed on from a stage that is over.
static inline ES_HOST_DEVICE void es_seed_tick_stage(const EsGrowthSettings *settings,
                                                     EsGrowthEnv *env, EsSeed *seed) {
    switch (seed->stage) {
    case ES_STAGE_GERMINATED:
        if (settings->auto_forward & ES_AUTO_FORWARD_G1) {
            es_seed_advance(settings, seed);
        }
        // without a dwell time there is no batch in TRAINING
        if (seed->stage == ES_STAGE_TRAINING && settings->training_dwell == 0 &&
            (settings->auto_forward & ES_AUTO_FORWARD_G2)) {
            es_seed_advance(settings, seed);
        }
        break;
    case ES_STAGE_TRAINING:
        if ((settings->auto_forward & ES_AUTO_FORWARD_G2) &&
            seed->steps_in_stage >= settings->training_dwell) {
            es_seed_advance(settings, seed);
        }
        break;
    case ES_STAGE_EMBARGOED:
        if (seed->steps_in_stage >= settings->embargo_dwell) {
            es_seed_enter(seed, ES_STAGE_RESETTING);
        }
        break;
    case ES_STAGE_RESETTING:
        if (seed->steps_in_stage >= settings->reset_dwell) {
            es_seed_enter(seed, ES_STAGE_DORMANT);
            es_seed_reset(seed);
        }
        break;
    default:
        break;
    }
    if (seed->stage == ES_STAGE_BLENDING) {
        es_seed_tick_blending(settings, env, seed);
    }
    // PRUNED lasts to the end of the step, for prunes of either kind
    if (seed->stage == ES_STAGE_PRUNED) {
        es_seed_enter(seed, ES_STAGE_EMBARGOED);
    }
}

// The end of a step. The only place where counters advance.
static inline ES_HOST_DEVICE void es_env_tick(const EsGrowthSettings *settings, EsGrowthEnv *env,
                                              EsSeed *seeds) {
    for (int32_t s = 0; s < settings->n_slots; s++) {
        EsSeed *seed = &seeds[s];
        es_seed_tick_stage(settings, env, seed);
        if (seed->stage == ES_STAGE_DORMANT) {
            continue;
        }
        seed->steps_in_stage++;
        seed->age++;
        if (es_contribution_is_measured(seed)) {
            seed->contribution_age++;
        }
        seed->previous_health = seed->gradient_health;
    }
    env->step++;
}

#endif
