// Loops over environments; every decision is in the rules.
#include "growth/engine/lifecycle.h"

#include "growth/rules/seed_fields.h"

// --- the slab ---

typedef enum FieldKind { FIELD_OF_SEED, FIELD_OF_ENV, ARRAY_OF_ENV } FieldKind;

typedef struct FieldEntry {
    const char *name, *meaning, *type;
    FieldKind kind;
    int32_t n_elements;
} FieldEntry;

#define FIELD_SEED(type, name, empty, meaning)  {"seed." #name, meaning, #type, FIELD_OF_SEED, 1},
#define FIELD_ENV(type, name, start, meaning)   {"env." #name, meaning, #type, FIELD_OF_ENV, 1},
#define FIELD_ARRAY(type, name, count, meaning) {"env." #name, meaning, #type, ARRAY_OF_ENV, count},

// in the order of es_growth_state_bind
static const FieldEntry fields[] = {ES_SEED_FIELDS(FIELD_SEED) ES_GROWTH_ENV_FIELDS(FIELD_ENV)
                                        ES_GROWTH_ENV_ARRAYS(FIELD_ARRAY)};

static int64_t count_columns(const FieldEntry *entry, int32_t n_slots) {
    return entry->kind == FIELD_OF_SEED ? n_slots : entry->n_elements;
}

int32_t es_growth_field_count(void) { return (int32_t)ES_COUNT_OF(fields); }

EsGrowthField es_growth_field_at(int32_t i, int32_t n_envs, int32_t n_slots) {
    ES_ASSERT(i >= 0 && i < es_growth_field_count());
    const FieldEntry *entry = &fields[i];
    EsGrowthField field = {
        .name = entry->name,
        .meaning = entry->meaning,
        .dtype = entry->type[0] == 'f' ? ES_DTYPE_F32 : ES_DTYPE_I32,
        .n_columns = count_columns(entry, n_slots),
    };
    for (int32_t k = 0; k < i; k++) {
        size_t n_columns = (size_t)count_columns(&fields[k], n_slots);
        field.offset_bytes += es_growth_array_bytes((size_t)n_envs * n_columns);
    }
    return field;
}

// --- loops ---

void es_lifecycle_reset(EsGrowthState *state, const EsGrowthSettings *settings) {
    ES_ASSERT(state->n_slots == settings->n_slots);
    EsHostState host;
    es_env_reset(settings, &host.env, host.seeds);
    for (int32_t e = 0; e < state->n_envs; e++) {
        es_host_state_store(state, e, &host);
    }
}

void es_lifecycle_measure(EsGrowthState *state, const EsGrowthSettings *settings, const float *loss,
                          const float *accuracy) {
    for (int32_t e = 0; e < state->n_envs; e++) {
        EsHostState host;
        es_host_state_load(state, e, &host);
        es_env_measure(settings, &host.env, host.seeds, loss[e], accuracy[e]);
        es_host_state_store(state, e, &host);
    }
}

void es_lifecycle_record_gradients(EsGrowthState *state, const EsGrowthSettings *settings,
                                   const EsGradientSums *host, const EsGradientSums *seed) {
    for (int32_t e = 0; e < state->n_envs; e++) {
        for (int32_t s = 0; s < state->n_slots; s++) {
            size_t index = (size_t)e * (size_t)state->n_slots + (size_t)s;
            EsSeed one = es_seed_load(&state->seed, index);
            es_gradient_record(settings, &one, &seed[index], &host[e]);
            es_seed_store(&state->seed, index, &one);
        }
    }
}

void es_lifecycle_list_ablations(const EsGrowthState *state, const EsGrowthSettings *settings,
                                 EsAblation *lists) {
    for (int32_t e = 0; e < state->n_envs; e++) {
        EsHostState host;
        es_host_state_load(state, e, &host);
        lists[e] = es_ablation_list(settings, host.seeds);
    }
}

void es_lifecycle_record_contributions(EsGrowthState *state, const EsGrowthSettings *settings,
                                       const EsAblation *lists, const float *accuracy,
                                       EsInteractions *pairs) {
    for (int32_t e = 0; e < state->n_envs; e++) {
        EsHostState host;
        EsInteractions found = {0};
        es_host_state_load(state, e, &host);
        es_contribution_record(settings, &host.env, host.seeds, &lists[e],
                               accuracy + (size_t)e * ES_ABLATION_PATTERNS_MAX, &found);
        es_host_state_store(state, e, &host);
        if (pairs != NULL) {
            pairs[e] = found;
        }
    }
}

void es_lifecycle_masks(const EsGrowthState *state, const EsGrowthSettings *settings,
                        EsActionMasks *masks) {
    for (int32_t e = 0; e < state->n_envs; e++) {
        EsHostState host;
        es_host_state_load(state, e, &host);
        masks[e] = es_env_masks(settings, &host.env, host.seeds);
    }
}

void es_lifecycle_apply(EsGrowthState *state, const EsGrowthSettings *settings,
                        const EsAction *actions) {
    for (int32_t e = 0; e < state->n_envs; e++) {
        EsHostState host;
        es_host_state_load(state, e, &host);
        es_env_apply(settings, &host.env, host.seeds, &actions[e]);
        es_host_state_store(state, e, &host);
    }
}

void es_lifecycle_tick(EsGrowthState *state, const EsGrowthSettings *settings) {
    for (int32_t e = 0; e < state->n_envs; e++) {
        EsHostState host;
        es_host_state_load(state, e, &host);
        es_env_tick(settings, &host.env, host.seeds);
        es_host_state_store(state, e, &host);
    }
}

void es_lifecycle_settle_prunes(EsGrowthState *state, const int32_t *n_settled) {
    for (int32_t e = 0; e < state->n_envs; e++) {
        state->env.n_unrewarded_prunes[e] -= n_settled[e];
    }
}
