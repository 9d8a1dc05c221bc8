// The state of growth as lists of fields: per seed [E, S] and per environment [E].
//
// Each list makes a plain struct for the rules (EsSeed, EsGrowthEnv), a struct of pointers into one
// slab (every field its own array, so that kernels and checkpoints see tensors), and load and store
// between the two. Fields are float or int32_t. "Not measured" is a value: -1.
//
//     EsGrowthState state;
//     es_growth_state_bind(&state, slab, n_envs, n_slots);
//     EsSeed seed = es_seed_load(&state.seed, e * n_slots + s);
//
// E environments, S slots.
#ifndef ES_GROWTH_SEED_FIELDS_H
#define ES_GROWTH_SEED_FIELDS_H

#include <stddef.h>

#include "growth/rules/growth_settings.h"
#include "growth/rules/stage_rules.h"

#define ES_NOT_MEASURED (-1)

// type, name, value in an empty slot, meaning
#define ES_SEED_STATE_FIELDS(X)                                                                    \
    X(int32_t, stage, ES_STAGE_DORMANT, "EsStage")                                                 \
    X(int32_t, previous_stage, ES_STAGE_UNKNOWN, "EsStage it came from")                           \
    X(int32_t, previous_stage_steps, 0, "steps spent there")                                       \
    X(int32_t, steps_in_stage, 0, "steps trained in this stage, the one that runs among them")     \
    X(int32_t, age, 0, "steps since germination")                                                  \
    X(int32_t, number, 0, "of the episode's germinations, from 1")                                 \
    X(int32_t, germinated_step, 0, "step of the episode")                                          \
    X(int32_t, blueprint, -1, "EsBlueprintId")                                                     \
    X(int32_t, ramp, ES_RAMP_NONE, "EsRamp of the first blend")                                    \
    X(int32_t, algorithm, ES_ALGORITHM_NONE, "EsAlgorithm")                                        \
    X(int32_t, tempo, 0, "ticks of the first blend")                                               \
    X(float, first_target, 0, "alpha that the first blend goes to")                                \
    X(int32_t, n_parameters, 0, "gate network included")                                           \
    X(float, alpha, 0, "share of the seed, 0..1")                                                  \
    X(float, alpha_start, 0, "alpha when the ramp began")                                          \
    X(float, alpha_target, 0, "alpha when it ends")                                                \
    X(int32_t, alpha_mode, ES_ALPHA_HOLD, "EsAlphaMode")                                           \
    X(int32_t, alpha_curve, ES_CURVE_LINEAR, "EsAlphaCurve")                                       \
    X(float, alpha_steepness, 12, "of the sigmoid")                                                \
    X(int32_t, alpha_ticks, 0, "length of the ramp")                                               \
    X(int32_t, alpha_ticks_done, 0, "")                                                            \
    X(float, accuracy_germination, ES_NOT_MEASURED, "of the host when the seed germinated")        \
    X(float, accuracy_initial, ES_NOT_MEASURED, "first one recorded, a step later")                \
    X(float, accuracy_now, ES_NOT_MEASURED, "last one recorded")                                   \
    X(float, accuracy_best, ES_NOT_MEASURED, "")                                                   \
    X(float, accuracy_stage_start, ES_NOT_MEASURED, "")                                            \
    X(float, accuracy_blending_start, ES_NOT_MEASURED, "")                                         \
    X(float, contribution, 0, "percent points lost without the seed; see contribution_age")        \
    X(float, contribution_velocity, 0, "running change of it")                                     \
    X(int32_t, contribution_age, ES_NOT_MEASURED, "steps since it was measured")                   \
    X(int32_t, is_contributing, 0, "fossilised with a contribution that counts")                   \
    X(float, interaction_sum, 0, "over the pairs measured this step")                              \
    X(float, boost_received, 0, "largest interaction of this step")                                \
    X(int32_t, boosted_by, 0, "slots with a positive interaction this step, as bits")              \
    X(float, upstream_alpha, 0, "sum over seeds that run before")                                  \
    X(float, downstream_alpha, 0, "sum over seeds that run after")                                 \
    X(float, gradient_norm, ES_NOT_MEASURED, "L2, before clipping")                                \
    X(float, gradient_norm_average, ES_NOT_MEASURED, "")                                           \
    X(float, gradient_health, ES_NOT_MEASURED, "0..1")                                             \
    X(float, previous_health, ES_NOT_MEASURED, "health one step earlier")                          \
    X(float, gradient_ratio, ES_NOT_MEASURED, "running average, seed to host per parameter")       \
    X(int32_t, n_vanishing, ES_NOT_MEASURED, "tensors")                                            \
    X(int32_t, n_exploding, ES_NOT_MEASURED, "tensors")                                            \
    X(int32_t, prune_reason, 0, "EsPruneReason")

// Events of the slot in this step: valid from the tick until the next operation.
#define ES_SEED_REPORT_FIELDS(X)                                                                   \
    X(int32_t, requests, 0, "ES_SEED_REQUEST_* for the owner of the weights")                      \
    X(int32_t, stage_path, 0, "stages passed, four bits each, the last one lowest")                \
    X(int32_t, gate, -1, "EsGate asked last, -1 = none")                                           \
    X(int32_t, gate_failed, 0, "its failed checks, as bits")                                       \
    X(float, gate_score, 0, "")

#define ES_SEED_FIELDS(X)                                                                          \
    ES_SEED_STATE_FIELDS(X)                                                                        \
    ES_SEED_REPORT_FIELDS(X)

// type, name, value at the start of an episode, meaning
#define ES_GROWTH_ENV_FIELDS(X)                                                                    \
    X(int32_t, step, 1, "number of the step that runs, from 1")                                    \
    X(int32_t, n_germinated, 0, "in this episode")                                                 \
    X(int32_t, n_fossils, 0, "")                                                                   \
    X(int32_t, n_contributing, 0, "fossils that contributed when fossilised")                      \
    X(int32_t, n_pruned, 0, "")                                                                    \
    X(int32_t, n_governor_pruned, 0, "of them by the governor")                                    \
    X(int32_t, n_unrewarded_prunes, 0,                                                             \
      "by the governor and not yet in a reward (es_growth_settle_prunes)")                         \
    X(int32_t, n_rollbacks, 0, "")                                                                 \
    X(float, loss, ES_NOT_MEASURED, "validation, this step")                                       \
    X(float, accuracy, ES_NOT_MEASURED, "validation, this step, percent")                          \
    X(float, committed_accuracy, ES_NOT_MEASURED, "with all ablatable seeds off")                  \
    X(int32_t, sampled_op, ES_GROWTH_OP_WAIT, "EsGrowthOp asked for in the last decision")         \
    X(int32_t, effective_op, ES_GROWTH_OP_WAIT, "EsGrowthOp it counts as; WAIT when refused")      \
    X(int32_t, acted_slot, -1, "slot of the effective op")                                         \
    X(int32_t, is_success, 1, "the op did what it says")                                           \
    X(int32_t, refusal, 0, "EsRefusal")                                                            \
    X(int32_t, requests, 0, "ES_ENV_REQUEST_*, valid like a seed's")                               \
    X(int32_t, panic, 0, "EsPanic of this step")                                                   \
    X(int32_t, n_divergences, 0, "consecutive; above 0 a divergence is pending")                   \
    X(int32_t, n_governed, 0, "losses in the governor's window")                                   \
    X(int32_t, next_governed, 0, "where the next one goes")                                        \
    X(int32_t, is_snapshot_due, 0, "asked for and not yet granted")                                \
    X(int32_t, snapshot_step, 0, "step of the last snapshot")                                      \
    X(int32_t, n_tracked, 0, "steps recorded by the tracker")                                      \
    X(float, loss_delta, 0, "previous loss - loss: positive is better; 0 at first")                \
    X(float, accuracy_delta, 0, "accuracy - previous one; 0 at first")                             \
    X(float, best_accuracy, ES_NOT_MEASURED, "of the episode")                                     \
    X(int32_t, plateau_steps, 0, "steps in a row with little gain")                                \
    X(int32_t, n_stable, 0, "stable steps in a row")                                               \
    X(int32_t, is_stabilised, 0, "latched for the episode")

// type, name, elements, meaning; rings start filled with ES_NOT_MEASURED
#define ES_TRACKER_WINDOW 10
#define ES_GROWTH_ENV_ARRAYS(X)                                                                    \
    X(float, governed_loss, ES_GOVERNOR_WINDOW_MAX, "losses that were no anomaly, a ring")         \
    X(float, loss_history, ES_TRACKER_WINDOW, "a ring, position n_tracked % 10 is written next")   \
    X(float, accuracy_history, ES_TRACKER_WINDOW, "likewise")

typedef struct EsSeed {
#define X(type, name, empty, meaning) type name;
    ES_SEED_FIELDS(X)
#undef X
} EsSeed;

typedef struct EsGrowthEnv {
#define X(type, name, empty, meaning) type name;
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning) type name[count];
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
} EsGrowthEnv;

// Pointers into the slab. Every array is [E, S].
typedef struct EsSeedView {
#define X(type, name, empty, meaning) type *name;
    ES_SEED_FIELDS(X)
#undef X
} EsSeedView;

// Every array is [E] or [E, elements].
typedef struct EsGrowthEnvView {
#define X(type, name, empty, meaning) type *name;
    ES_GROWTH_ENV_FIELDS(X)
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
} EsGrowthEnvView;

// All of growth's small state, on one device.
typedef struct EsGrowthState {
    int32_t n_envs, n_slots;
    EsSeedView seed;
    EsGrowthEnvView env;
} EsGrowthState;

static inline ES_HOST_DEVICE EsSeed es_seed_load(const EsSeedView *view, size_t index) {
    EsSeed seed;
#define X(type, name, empty, meaning) seed.name = view->name[index];
    ES_SEED_FIELDS(X)
#undef X
    return seed;
}

static inline ES_HOST_DEVICE void es_seed_store(const EsSeedView *view, size_t index,
                                                const EsSeed *seed) {
#define X(type, name, empty, meaning) view->name[index] = seed->name;
    ES_SEED_FIELDS(X)
#undef X
}

static inline ES_HOST_DEVICE EsGrowthEnv es_growth_env_load(const EsGrowthEnvView *view,
                                                            size_t index) {
    EsGrowthEnv env;
#define X(type, name, start, meaning) env.name = view->name[index];
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    for (size_t i = 0; i < (count); i++) {                                                         \
        env.name[i] = view->name[index * (count) + i];                                             \
    }
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
    return env;
}

static inline ES_HOST_DEVICE void es_growth_env_store(const EsGrowthEnvView *view, size_t index,
                                                      const EsGrowthEnv *env) {
#define X(type, name, start, meaning) view->name[index] = env->name;
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    for (size_t i = 0; i < (count); i++) {                                                         \
        view->name[index * (count) + i] = env->name[i];                                            \
    }
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
}

// Make the slot empty. The report stays: it still says how the slot came to be empty.
static inline ES_HOST_DEVICE void es_seed_reset(EsSeed *seed) {
#define X(type, name, empty, meaning) seed->name = empty;
    ES_SEED_STATE_FIELDS(X)
#undef X
}

static inline ES_HOST_DEVICE void es_seed_reset_report(EsSeed *seed) {
#define X(type, name, empty, meaning) seed->name = empty;
    ES_SEED_REPORT_FIELDS(X)
#undef X
}

static inline ES_HOST_DEVICE void es_growth_env_reset(EsGrowthEnv *env) {
#define X(type, name, start, meaning) env->name = start;
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    for (size_t i = 0; i < (count); i++) {                                                         \
        env->name[i] = ES_NOT_MEASURED;                                                            \
    }
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
}

// Bytes of one array; arrays start at multiples of 64.
static inline size_t es_growth_array_bytes(size_t count) { return (count * 4 + 63) / 64 * 64; }

// Size of the slab.
static inline size_t es_growth_state_bytes(int32_t n_envs, int32_t n_slots) {
    size_t n_all = (size_t)n_envs, bytes = 0;
#define X(type, name, empty, meaning) bytes += es_growth_array_bytes(n_all * (size_t)n_slots);
    ES_SEED_FIELDS(X)
#undef X
#define X(type, name, start, meaning) bytes += es_growth_array_bytes(n_all);
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning) bytes += es_growth_array_bytes(n_all * (count));
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
    return bytes;
}

// Lay the arrays out over a slab of es_growth_state_bytes, aligned to 4 bytes at least; it is
// borrowed and may be device memory, since nothing is read or written here.
static inline void es_growth_state_bind(EsGrowthState *state, void *slab, int32_t n_envs,
                                        int32_t n_slots) {
    char *next = (char *)slab;
    size_t n_all = (size_t)n_envs;
    state->n_envs = n_envs;
    state->n_slots = n_slots;
#define X(type, name, empty, meaning)                                                              \
    state->seed.name = (type *)(void *)next;                                                       \
    next += es_growth_array_bytes(n_all * (size_t)n_slots);
    ES_SEED_FIELDS(X)
#undef X
#define X(type, name, start, meaning)                                                              \
    state->env.name = (type *)(void *)next;                                                        \
    next += es_growth_array_bytes(n_all);
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    state->env.name = (type *)(void *)next;                                                        \
    next += es_growth_array_bytes(n_all * (count));
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
}

// --- one environment ---

typedef struct EsHostState {
    EsGrowthEnv env;
    EsSeed seeds[ES_SLOTS_MAX];
} EsHostState;

static inline ES_HOST_DEVICE void es_host_state_load(const EsGrowthState *state, int32_t e,
                                                     EsHostState *host) {
    host->env = es_growth_env_load(&state->env, (size_t)e);
    for (int32_t s = 0; s < state->n_slots; s++) {
        host->seeds[s] = es_seed_load(&state->seed, (size_t)e * (size_t)state->n_slots + (size_t)s);
    }
}

static inline ES_HOST_DEVICE void es_host_state_store(const EsGrowthState *state, int32_t e,
                                                      const EsHostState *host) {
    es_growth_env_store(&state->env, (size_t)e, &host->env);
    for (int32_t s = 0; s < state->n_slots; s++) {
        es_seed_store(&state->seed, (size_t)e * (size_t)state->n_slots + (size_t)s,
                      &host->seeds[s]);
    }
}

#endif
