// Effects of operations on a seed: going from stage to stage, germinating, blending, pruning, and
// becoming permanent. No weights are touched: rules leave requests, and the owner of the weights
// carries them out. lifecycle_rules.h says when each of these may run.
#ifndef ES_GROWTH_OPERATION_RULES_H
#define ES_GROWTH_OPERATION_RULES_H

#include "growth/rules/gate_rules.h"
#include "growth/rules/gradient_rules.h"

// For the owner of the weights, per seed.
enum {
    ES_SEED_REQUEST_INITIALISE = 1,      // fresh weights for seed.blueprint
    ES_SEED_REQUEST_INITIALISE_GATE = 2, // fresh weights for the gate network
    ES_SEED_REQUEST_ZERO_MOMENTUM = 4,
    ES_SEED_REQUEST_CLEAR = 8 // the module has gone
};

// Per environment.
enum {
    ES_ENV_REQUEST_SNAPSHOT = 1,      // host and fossils, as they are now
    ES_ENV_REQUEST_RESTORE = 2,       // host and fossils from the last snapshot
    ES_ENV_REQUEST_ZERO_MOMENTUM = 4, // of the host
    ES_ENV_REQUEST_RESET_SCALER = 8,  // loss scale of float16
    ES_ENV_REQUEST_RESET_POLICY = 16  // recurrent state
};

// name, spelling, who did it
#define ES_PRUNE_REASON_LIST(X)                                                                    \
    X(NONE, none, none)                                                                            \
    X(POLICY, policy_prune, policy)                                                                \
    X(SCHEDULED, scheduled_prune, schedule)                                                        \
    X(GOVERNOR_NAN, governor_nan, governor)                                                        \
    X(GOVERNOR_LOBOTOMY, governor_lobotomy, governor)                                              \
    X(GOVERNOR_DIVERGENCE, governor_divergence, governor)                                          \
    X(GOVERNOR_ROLLBACK, governor_rollback, governor)

typedef enum EsPruneReason {
#define X(name, spelling, initiator) ES_PRUNE_##name,
    ES_PRUNE_REASON_LIST(X)
#undef X
        ES_N_PRUNE_REASONS
} EsPruneReason;

static inline ES_HOST_DEVICE int es_prune_is_governors(int32_t reason) {
    return reason >= ES_PRUNE_GOVERNOR_NAN && reason <= ES_PRUNE_GOVERNOR_ROLLBACK;
}

// Go to another stage if the table allows it; else return 0 and change nothing.
static inline ES_HOST_DEVICE int es_seed_enter(EsSeed *seed, int32_t stage) {
    if (!es_stage_may_follow(seed->stage, stage)) {
        return 0;
    }
    if (seed->stage_path == 0) {
        seed->stage_path = seed->stage;
    }
    seed->stage_path = (int32_t)(((uint32_t)seed->stage_path << 4) | (uint32_t)stage);
    seed->previous_stage = seed->stage;
    seed->previous_stage_steps = seed->steps_in_stage;
    seed->stage = stage;
    seed->steps_in_stage = 0;
    seed->accuracy_stage_start = seed->accuracy_now;
    return 1;
}

// Number of transitions in a stage path, and the i-th of them.
static inline ES_HOST_DEVICE int32_t es_stage_path_length(int32_t path) {
    int32_t n = 0;
    while ((path >> 4) != 0) {
        path >>= 4;
        n++;
    }
    return n;
}

static inline ES_HOST_DEVICE void es_stage_path_step(int32_t path, int32_t i, int32_t *from,
                                                     int32_t *to) {
    int32_t shift = 4 * (es_stage_path_length(path) - 1 - i);
    *to = (path >> shift) & 15;
    *from = (path >> (shift + 4)) & 15;
}

// The only place where a seed's accuracy is recorded: living seeds alone, not slots that cool down.
// The first value is also the seed's and its stage's starting point.
static inline ES_HOST_DEVICE void es_seed_record_accuracy(EsSeed *seed, float accuracy) {
    if (!es_stage_in(seed->stage, ES_STAGES_LIVING) || !es_math_is_finite((double)accuracy)) {
        return;
    }
    if (seed->accuracy_initial < 0) {
        seed->accuracy_initial = accuracy;
    }
    if (seed->accuracy_stage_start < 0) {
        seed->accuracy_stage_start = accuracy;
    }
    seed->accuracy_now = accuracy;
    seed->accuracy_best = accuracy > seed->accuracy_best ? accuracy : seed->accuracy_best;
}

// Ask a gate and leave its answer in the seed's report.
static inline ES_HOST_DEVICE int es_seed_ask_gate(const EsGrowthSettings *settings, EsSeed *seed,
                                                  int32_t gate) {
    EsGateResult result = es_gate_check(settings, seed, gate);
    seed->gate = gate;
    seed->gate_failed = result.failed;
    seed->gate_score = result.score;
    return es_gate_is_open(&result);
}

// Begin to blend: the ramp is linear, or a sigmoid of steepness 12, over the seed's tempo.
static inline ES_HOST_DEVICE void es_seed_begin_blending(EsSeed *seed) {
    int32_t curve = seed->ramp == ES_RAMP_SIGMOID ? ES_CURVE_SIGMOID : ES_CURVE_LINEAR;
    seed->accuracy_blending_start = seed->accuracy_now;
    es_alpha_retarget(seed, seed->first_target, seed->tempo, curve, 12);
}

// Go to the next stage if its gate opens: G1 to TRAINING, G2 to BLENDING, G3 to HOLDING.
static inline ES_HOST_DEVICE int es_seed_advance(const EsGrowthSettings *settings, EsSeed *seed) {
    switch (seed->stage) {
    case ES_STAGE_GERMINATED:
        return es_seed_ask_gate(settings, seed, ES_GATE_G1) &&
               es_seed_enter(seed, ES_STAGE_TRAINING);
    case ES_STAGE_TRAINING:
        if (!es_seed_ask_gate(settings, seed, ES_GATE_G2)) {
            return 0;
        }
        es_seed_enter(seed, ES_STAGE_BLENDING);
        es_seed_begin_blending(seed);
        return 1;
    case ES_STAGE_BLENDING:
        if (!es_seed_ask_gate(settings, seed, ES_GATE_G3)) {
            return 0;
        }
        es_seed_enter(seed, ES_STAGE_HOLDING);
        es_alpha_set(seed, 1);
        return 1;
    default:
        return 0;
    }
}

// Take a seed out at once. Fossils and empty slots refuse: returns 0. The slot then cools down.
static inline ES_HOST_DEVICE int es_seed_prune(EsGrowthEnv *env, EsSeed *seed, int32_t reason) {
    if (!es_seed_enter(seed, ES_STAGE_PRUNED)) {
        return 0;
    }
    es_alpha_set(seed, 0);
    es_gradient_forget(seed);
    seed->prune_reason = reason;
    seed->requests = ES_SEED_REQUEST_CLEAR;
    env->n_pruned++;
    if (es_prune_is_governors(reason)) {
        env->n_governor_pruned++;
        env->n_unrewarded_prunes++;
    }
    return 1;
}

// --- operations; legality and head values are already checked ---

static inline ES_HOST_DEVICE int es_env_germinate(const EsGrowthSettings *settings,
                                                  EsGrowthEnv *env, EsSeed *seed,
                                                  const EsAction *action) {
    int32_t slot = es_action_value(action, ES_HEAD_SLOT),
            style = es_action_value(action, ES_HEAD_STYLE);
    EsSeed next = *seed;
    next.number = env->n_germinated + 1;
    next.germinated_step = env->step;
    next.blueprint = es_action_value(action, ES_HEAD_BLUEPRINT);
    next.ramp = es_style_ramp(style);
    next.algorithm = es_style_algorithm(style);
    next.tempo = settings->tempo[es_action_value(action, ES_HEAD_TEMPO)];
    next.first_target = settings->alpha_target[es_action_value(action, ES_HEAD_ALPHA_TARGET)];
    next.n_parameters = settings->blueprint_parameters[slot][next.blueprint];
    next.accuracy_germination = env->accuracy;
    next.requests = ES_SEED_REQUEST_INITIALISE | ES_SEED_REQUEST_ZERO_MOMENTUM;
    if (next.algorithm == ES_ALGORITHM_GATE) {
        // the gate network belongs to the slot's parameters from the first batch on
        next.n_parameters += settings->gate_parameters[slot];
        next.requests |= ES_SEED_REQUEST_INITIALISE_GATE;
    }
    if (!es_seed_ask_gate(settings, &next, ES_GATE_G0) ||
        !es_seed_enter(&next, ES_STAGE_GERMINATED)) {
        return 0;
    }
    *seed = next;
    env->n_germinated++;
    return 1;
}

// From HOLDING a target below 1 leads back to BLENDING. Style gives the algorithm alone; a change
// to GATE brings a fresh gate network, one from GATE drops it.
static inline ES_HOST_DEVICE int es_env_set_alpha_target(const EsGrowthSettings *settings,
                                                         EsSeed *seed, const EsAction *action) {
    int32_t slot = es_action_value(action, ES_HEAD_SLOT);
    float target = settings->alpha_target[es_action_value(action, ES_HEAD_ALPHA_TARGET)];
    int32_t algorithm = es_style_algorithm(es_action_value(action, ES_HEAD_STYLE));
    float steepness;
    int32_t curve = es_curve_choice(es_action_value(action, ES_HEAD_ALPHA_CURVE), &steepness);
    if (seed->stage == ES_STAGE_HOLDING && (double)target < 1 - ES_ALPHA_EPSILON) {
        es_seed_enter(seed, ES_STAGE_BLENDING);
    }
    if (algorithm == ES_ALGORITHM_GATE && seed->algorithm != ES_ALGORITHM_GATE) {
        seed->requests |= ES_SEED_REQUEST_INITIALISE_GATE;
        seed->n_parameters += settings->gate_parameters[slot];
    } else if (algorithm != ES_ALGORITHM_GATE && seed->algorithm == ES_ALGORITHM_GATE) {
        seed->n_parameters -= settings->gate_parameters[slot];
    }
    seed->algorithm = algorithm;
    return es_alpha_retarget(seed, target,
                             settings->alpha_speed[es_action_value(action, ES_HEAD_ALPHA_SPEED)],
                             curve, steepness);
}

// At once for speed 0, for alpha 0 and before BLENDING; else alpha fades to 0 and the tick prunes.
static inline ES_HOST_DEVICE int es_env_prune(const EsGrowthSettings *settings, EsGrowthEnv *env,
                                              EsSeed *seed, const EsAction *action) {
    int32_t n_ticks = settings->alpha_speed[es_action_value(action, ES_HEAD_ALPHA_SPEED)];
    float steepness;
    int32_t curve = es_curve_choice(es_action_value(action, ES_HEAD_ALPHA_CURVE), &steepness);
    if (n_ticks == 0 || seed->alpha <= 0 || !es_stage_in(seed->stage, ES_STAGES_RETARGETABLE)) {
        return es_seed_prune(env, seed, ES_PRUNE_POLICY);
    }
    if (seed->stage == ES_STAGE_HOLDING) {
        es_seed_enter(seed, ES_STAGE_BLENDING);
    }
    return es_alpha_retarget(seed, 0, n_ticks, curve, steepness);
}

// Make a seed permanent. It keeps its momentum and goes on training; a snapshot covers it at once.
static inline ES_HOST_DEVICE int es_env_fossilize(const EsGrowthSettings *settings,
                                                  EsGrowthEnv *env, EsSeed *seed) {
    if (!es_seed_ask_gate(settings, seed, ES_GATE_G5) ||
        !es_seed_enter(seed, ES_STAGE_FOSSILIZED)) {
        return 0;
    }
    es_alpha_set(seed, 1);
    seed->is_contributing = seed->contribution >= settings->min_contribution;
    env->n_fossils++;
    env->n_contributing += seed->is_contributing;
    env->is_snapshot_due = 1;
    return 1;
}

#endif
