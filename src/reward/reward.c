// Loops over environments, and the settings; every decision is in the rules.
#include "reward/reward.h"

#include "base/memory.h"
#include "reward/reward_settings.h"

struct EsReward {
    EsRewardView view;  // owns its memory and terms
    int32_t *n_settled; // owned [E]
    int64_t n_envs;
    int is_latched; // a compute is due
};

static EsStatus allocate(EsReward *reward) {
    EsRewardView *view = &reward->view;
    int32_t n_envs = (int32_t)reward->n_envs, n_slots = view->growth->n_slots;
    void *memory = NULL;
    ES_TRY(es_allocate((size_t)n_envs * sizeof *view->terms, (void **)&view->terms));
    ES_TRY(es_allocate((size_t)n_envs * sizeof *reward->n_settled, (void **)&reward->n_settled));
    ES_TRY(es_allocate(es_reward_view_bind(view, NULL, n_envs, n_slots), &memory));
    es_reward_view_bind(view, memory, n_envs, n_slots);
    return ES_STATUS_OK;
}

EsStatus es_reward_create(const EsRewardSettings *settings, const EsGrowthSettings *growth,
                          int64_t n_host_parameters, int64_t n_envs, EsReward **reward) {
    *reward = NULL;
    ES_TRY(es_reward_settings_check(settings));
    if (n_host_parameters < 1 || n_envs < 1 || n_envs > INT32_MAX / ES_SLOTS_MAX) {
        return ES_FAIL(ARGUMENT, "reward: %lld environments with hosts of %lld parameters",
                       (long long)n_envs, (long long)n_host_parameters);
    }
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsReward), &memory));
    EsReward *made = memory;
    made->view.growth = growth;
    made->view.n_host_parameters = n_host_parameters;
    made->n_envs = n_envs;
    EsStatus status = allocate(made);
    if (status != ES_STATUS_OK) {
        es_reward_destroy(made);
        return status;
    }
    for (int64_t e = 0; e < n_envs; e++) {
        made->view.settings[e] = *settings;
    }
    es_reward_reset(made);
    *reward = made;
    return ES_STATUS_OK;
}

void es_reward_destroy(EsReward *reward) {
    if (reward == NULL) {
        return;
    }
    es_release(reward->view.terms);
    es_release(reward->n_settled);
    es_release(reward->view.memory);
    es_release(reward);
}

EsStatus es_reward_configure(EsReward *reward, int64_t first, int64_t n,
                             const EsRewardSettings *settings) {
    ES_TRY(es_reward_settings_check(settings));
    if (settings->control > reward->n_envs) {
        return ES_FAIL(ARGUMENT, "reward: environment %d is no control, there are %lld",
                       settings->control - 1, (long long)reward->n_envs);
    }
    if (first < 0 || n < 0 || first > reward->n_envs - n) {
        return ES_FAIL(ARGUMENT, "reward: environments %lld to %lld, there are %lld",
                       (long long)first, (long long)(first + n - 1), (long long)reward->n_envs);
    }
    for (int64_t e = first; e < first + n; e++) {
        reward->view.settings[e] = *settings;
    }
    return ES_STATUS_OK;
}

void es_reward_reset(EsReward *reward) {
    EsRewardEnv memory;
    es_reward_env_reset(&memory);
    for (int64_t e = 0; e < reward->n_envs; e++) {
        es_reward_env_store(&reward->view.state, (size_t)e, &memory);
        reward->view.terms[e] = (EsRewardTerms){0};
    }
    reward->is_latched = 0;
}

static void check_shape(const EsReward *reward, const EsGrowthState *state) {
    ES_ASSERT(state->n_envs == reward->n_envs);
    ES_ASSERT(state->n_slots == reward->view.state.n_slots);
}

void es_reward_latch(EsReward *reward, const EsGrowthState *state) {
    check_shape(reward, state);
    size_t n_seeds = (size_t)reward->n_envs * (size_t)state->n_slots;
    for (size_t i = 0; i < n_seeds; i++) {
        EsSeed seed = es_seed_load(&state->seed, i);
        es_reward_view_latch(&reward->view, i, &seed);
    }
    reward->is_latched = 1;
}

void es_reward_compute(EsReward *reward, const EsGrowthState *state) {
    check_shape(reward, state);
    ES_ASSERT(reward->is_latched);
    size_t n_slots = (size_t)state->n_slots;
    for (size_t e = 0; e < (size_t)reward->n_envs; e++) {
        EsRewardSeed latched[ES_SLOTS_MAX];
        EsSeed seeds[ES_SLOTS_MAX];
        for (size_t s = 0; s < n_slots; s++) {
            latched[s] = es_reward_seed_load(&reward->view.state, e * n_slots + s);
            seeds[s] = es_seed_load(&state->seed, e * n_slots + s);
        }
        es_reward_view_step(&reward->view, state, e, latched, seeds, &reward->n_settled[e]);
    }
    reward->is_latched = 0;
}

const EsRewardTerms *es_reward_terms(const EsReward *reward) { return reward->view.terms; }

const int32_t *es_reward_settled_prunes(const EsReward *reward) { return reward->n_settled; }

const double *es_reward_totals(const EsReward *reward) { return reward->view.state.env.total; }

double es_reward_stability(const EsReward *reward, int64_t env) {
    ES_ASSERT(env >= 0 && env < reward->n_envs);
    EsRewardEnv memory = es_reward_env_load(&reward->view.state, (size_t)env);
    return es_reward_env_stability(&memory);
}

EsRewardView *es_reward_view(EsReward *reward) { return &reward->view; }

// --- settings ---

EsRewardSettings es_reward_settings_default(void) {
    EsRewardSettings settings = {.mode = ES_REWARD_SHAPED, .gamma = 0.995f};
#define X(T, m, kind, name, value, lowest, highest, help)                                          \
    settings.name = (ES_REWARD_TYPE_##kind)(value);
    ES_REWARD_SETTINGS(X, , )
#undef X
    return settings;
}

static EsStatus check_number(const char *name, double value, double low, double high) {
    // written so that NaN fails
    if (!(value >= low && value <= high)) {
        return ES_FAIL(CONFIG, "reward: %s is %g, must be %g to %g", name, value, low, high);
    }
    return ES_STATUS_OK;
}

EsStatus es_reward_settings_check(const EsRewardSettings *settings) {
    if (settings->mode < 0 || settings->mode >= ES_N_REWARD_MODES) {
        return ES_FAIL(CONFIG, "reward: mode is %d, must be 0 to %d (%s)", settings->mode,
                       ES_N_REWARD_MODES - 1, ES_REWARD_MODE_CHOICES);
    }
    if (!(settings->gamma > 0 && settings->gamma <= 1)) {
        return ES_FAIL(CONFIG, "reward: gamma is %g, must be above 0 and at most 1",
                       (double)settings->gamma);
    }
    if (settings->control < 0) {
        return ES_FAIL(CONFIG, "reward: control is %d, must be 0 (none) or above",
                       settings->control);
    }
    // bounds in the precision of the fields: 0.001 as a float lies above 0.001
#define X(T, m, kind, name, value, lowest, highest, help)                                          \
    ES_TRY(check_number(#name, (double)settings->name, (double)(ES_REWARD_TYPE_##kind)(lowest),    \
                        (double)(ES_REWARD_TYPE_##kind)(highest)));
    ES_REWARD_SETTINGS(X, , )
#undef X
    return ES_STATUS_OK;
}

const char *es_reward_mode_name(int32_t mode) {
    static const char *const names[ES_N_REWARD_MODES] = {"shaped", "basic", "sparse", "budget"};
    return mode >= 0 && mode < ES_N_REWARD_MODES ? names[mode] : "?";
}
