// Memory of the reward, as lists of fields: per seed [E, S] the state before the decision, per
// environment [E] the values kept from step to step. As in growth's seed_fields.h, each list makes
// a plain struct for the rules, a struct of pointers into one slab, and load and store between
// them.
//
// E environments, S slots.
#ifndef ES_REWARD_REWARD_FIELDS_H
#define ES_REWARD_REWARD_FIELDS_H

#include "growth/rules/seed_fields.h"

#define ES_REWARD_WINDOW 20 // rewards that stability looks at

// type, name; each is the field of EsSeed of that name at the moment of the latch
#define ES_REWARD_SEED_FIELDS(X)                                                                   \
    X(int32_t, stage)                                                                              \
    X(int32_t, steps_in_stage)                                                                     \
    X(int32_t, germinated_step)                                                                    \
    X(int32_t, n_parameters)                                                                       \
    X(float, alpha)                                                                                \
    X(float, accuracy_germination)                                                                 \
    X(float, contribution)                                                                         \
    X(int32_t, contribution_age)                                                                   \
    X(float, interaction_sum)

// type, name, value at the start of an episode, meaning
#define ES_REWARD_ENV_FIELDS(X)                                                                    \
    X(double, total, 0, "rewards of the episode, summed")                                          \
    X(float, potential, 0, "of the slots after the last step")                                     \
    X(float, first_accuracy, ES_NOT_MEASURED, "first one measured in the episode")                 \
    X(float, last_accuracy, ES_NOT_MEASURED, "last one measured")                                  \
    X(float, last_committed, ES_NOT_MEASURED, "last accuracy measured with fossils alone")         \
    X(float, control_accuracy, ES_NOT_MEASURED, "last one measured of the control")                \
    X(int32_t, n_rewards, 0, "rewarded steps of the episode")

// type, name, elements, meaning
#define ES_REWARD_ENV_ARRAYS(X)                                                                    \
    X(float, recent, ES_REWARD_WINDOW, "last rewards, a ring: n_rewards % 20 is written next")     \
    X(float, harm_charged, ES_SLOTS_MAX, "to the slot's seed, and not refunded by a prune")        \
    X(int32_t, n_credited, ES_SLOTS_MAX, "steps in which the slot's seed earned")

typedef struct EsRewardSeed {
#define X(type, name) type name;
    ES_REWARD_SEED_FIELDS(X)
#undef X
} EsRewardSeed;

typedef struct EsRewardEnv {
#define X(type, name, start, meaning) type name;
    ES_REWARD_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning) type name[count];
    ES_REWARD_ENV_ARRAYS(X)
#undef X
} EsRewardEnv;

// Pointers into the slab: [E, S], [E], [E, elements].
typedef struct EsRewardState {
    int32_t n_envs, n_slots;
    struct {
#define X(type, name) type *name;
        ES_REWARD_SEED_FIELDS(X)
#undef X
    } seed;
    struct {
#define X(type, name, start, meaning) type *name;
        ES_REWARD_ENV_FIELDS(X)
        ES_REWARD_ENV_ARRAYS(X)
#undef X
    } env;
} EsRewardState;

static inline ES_HOST_DEVICE EsRewardSeed es_reward_seed_load(const EsRewardState *state,
                                                              size_t index) {
    EsRewardSeed seed;
#define X(type, name) seed.name = state->seed.name[index];
    ES_REWARD_SEED_FIELDS(X)
#undef X
    return seed;
}

static inline ES_HOST_DEVICE void es_reward_seed_store(const EsRewardState *state, size_t index,
                                                       const EsRewardSeed *seed) {
#define X(type, name) state->seed.name[index] = seed->name;
    ES_REWARD_SEED_FIELDS(X)
#undef X
}

static inline ES_HOST_DEVICE EsRewardEnv es_reward_env_load(const EsRewardState *state,
                                                            size_t index) {
    EsRewardEnv env;
#define X(type, name, start, meaning) env.name = state->env.name[index];
    ES_REWARD_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    for (size_t i = 0; i < (count); i++) {                                                         \
        env.name[i] = state->env.name[index * (count) + i];                                        \
    }
    ES_REWARD_ENV_ARRAYS(X)
#undef X
    return env;
}

static inline ES_HOST_DEVICE void es_reward_env_store(const EsRewardState *state, size_t index,
                                                      const EsRewardEnv *env) {
#define X(type, name, start, meaning) state->env.name[index] = env->name;
    ES_REWARD_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    for (size_t i = 0; i < (count); i++) {                                                         \
        state->env.name[index * (count) + i] = env->name[i];                                       \
    }
    ES_REWARD_ENV_ARRAYS(X)
#undef X
}

// An episode begins.
static inline ES_HOST_DEVICE void es_reward_env_reset(EsRewardEnv *env) {
#define X(type, name, start, meaning) env->name = start;
    ES_REWARD_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    for (size_t i = 0; i < (count); i++) {                                                         \
        env->name[i] = 0;                                                                          \
    }
    ES_REWARD_ENV_ARRAYS(X)
#undef X
}

// Before the decision: keeps the fields that the decision and the tick may change.
static inline ES_HOST_DEVICE EsRewardSeed es_reward_seed_latch(const EsSeed *seed) {
    EsRewardSeed latched;
#define X(type, name) latched.name = seed->name;
    ES_REWARD_SEED_FIELDS(X)
#undef X
    return latched;
}

// Bytes of one array; arrays start at multiples of 64.
static inline size_t es_reward_array_bytes(size_t count, size_t element_bytes) {
    return (count * element_bytes + 63) / 64 * 64;
}

// Lay the arrays out over a slab aligned to 8 bytes at least, which is borrowed and may be device
// memory. Returns the size of the slab; with a slab of NULL only the size is of use.
static inline size_t es_reward_state_bind(EsRewardState *state, void *slab, int32_t n_envs,
                                          int32_t n_slots) {
    char *base = (char *)slab;
    size_t n_all = (size_t)n_envs, bytes = 0;
    state->n_envs = n_envs;
    state->n_slots = n_slots;
#define X(type, name)                                                                              \
    state->seed.name = base != NULL ? (type *)(void *)(base + bytes) : NULL;                       \
    bytes += es_reward_array_bytes(n_all * (size_t)n_slots, sizeof(type));
    ES_REWARD_SEED_FIELDS(X)
#undef X
#define X(type, name, start, meaning)                                                              \
    state->env.name = base != NULL ? (type *)(void *)(base + bytes) : NULL;                        \
    bytes += es_reward_array_bytes(n_all, sizeof(type));
    ES_REWARD_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    state->env.name = base != NULL ? (type *)(void *)(base + bytes) : NULL;                        \
    bytes += es_reward_array_bytes(n_all * (count), sizeof(type));
    ES_REWARD_ENV_ARRAYS(X)
#undef X
    return bytes;
}

#endif
