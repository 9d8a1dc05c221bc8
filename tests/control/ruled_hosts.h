// E hosts under the growth rules alone, for tests of policies: no network is trained, losses and
// accuracies are random numbers of (episode, step), so that an environment is the same whichever
// others there are.
#ifndef ES_TEST_RULED_HOSTS_H
#define ES_TEST_RULED_HOSTS_H

#include <unistd.h>

#include "base/memory.h"
#include "control/policy/policy_internal.h"
#include "control/policy/policy_training.h"
#include "es_test.h"
#include "growth/lifecycle_case.h"

#define HOSTS_MAX 16

typedef struct Hosts {
    EsGrowthSettings settings;
    EsGrowthState state;
    void *slab;
    EsSlot slots[ES_SLOTS_MAX];
    EsActionMasks masks[HOSTS_MAX];
    EsAction actions[HOSTS_MAX];
    float rewards[HOSTS_MAX];
    int64_t first_episode;
    float noise;     // of losses and accuracies; 1 at first
    int64_t nan_env; // this environment's loss is NaN at nan_step; -1: none's
    int32_t nan_step;
} Hosts;

static inline float host_number(const Hosts *hosts, int64_t e, uint32_t draw) {
    EsRandom4 r = es_random_draw(99, (uint32_t)(hosts->first_episode + e), ES_PURPOSE_EVALUATION,
                                 (uint32_t)hosts->state.env.step[e], draw);
    return es_random_uniform(r.word[0]);
}

static inline void hosts_begin(Hosts *hosts, int64_t first_episode) {
    hosts->first_episode = first_episode;
    es_lifecycle_reset(&hosts->state, &hosts->settings);
}

static inline void hosts_create(Hosts *hosts, int32_t n_slots, int32_t n_envs) {
    memset(hosts, 0, sizeof *hosts);
    hosts->settings = es_growth_settings_tiny(n_slots, 10);
    for (int32_t s = 0; s < n_slots; s++) {
        snprintf(hosts->slots[s].name, sizeof hosts->slots[s].name, "r0c%d", s);
        hosts->slots[s].column = hosts->slots[s].order = s;
    }
    REQUIRE_OK(es_allocate(es_growth_state_bytes(n_envs, n_slots), &hosts->slab));
    es_growth_state_bind(&hosts->state, hosts->slab, n_envs, n_slots);
    hosts->noise = 1;
    hosts->nan_env = -1;
    hosts_begin(hosts, 0);
}

static inline void hosts_destroy(Hosts *hosts) { es_release(hosts->slab); }

static inline EsPolicyContext hosts_context(const Hosts *hosts, EsDevice *device, uint64_t seed) {
    return (EsPolicyContext){.settings = &hosts->settings,
                             .slots = hosts->slots,
                             .device = device,
                             .n_envs = hosts->state.n_envs,
                             .seed = seed};
}

// Everything of a step before the decision.
static inline void hosts_measure(Hosts *hosts) {
    float loss[HOSTS_MAX], accuracy[HOSTS_MAX];
    float patterns[HOSTS_MAX * ES_ABLATION_PATTERNS_MAX];
    EsAblation lists[HOSTS_MAX];
    EsGradientSums host[HOSTS_MAX], seed[HOSTS_MAX * ES_SLOTS_MAX];
    for (int64_t e = 0; e < hosts->state.n_envs; e++) {
        loss[e] = 0.5f + hosts->noise * host_number(hosts, e, 0);
        accuracy[e] = 40 + 20 * hosts->noise * host_number(hosts, e, 1);
        if (e == hosts->nan_env && hosts->state.env.step[e] == hosts->nan_step) {
            loss[e] = NAN;
        }
        host[e] = healthy_sums(&hosts->settings);
        for (int64_t s = 0; s < hosts->state.n_slots; s++) {
            seed[e * hosts->state.n_slots + s] = host[e];
        }
        for (uint32_t k = 0; k < ES_ABLATION_PATTERNS_MAX; k++) {
            patterns[e * ES_ABLATION_PATTERNS_MAX + k] =
                accuracy[e] - (k > 0 ? 6 * host_number(hosts, e, 2 + k) - 2 : 0);
        }
    }
    es_lifecycle_measure(&hosts->state, &hosts->settings, loss, accuracy);
    es_lifecycle_record_gradients(&hosts->state, &hosts->settings, host, seed);
    es_lifecycle_list_ablations(&hosts->state, &hosts->settings, lists);
    es_lifecycle_record_contributions(&hosts->state, &hosts->settings, lists, patterns, NULL);
    es_lifecycle_masks(&hosts->state, &hosts->settings, hosts->masks);
}

static inline void hosts_act(Hosts *hosts) {
    es_lifecycle_apply(&hosts->state, &hosts->settings, hosts->actions);
    es_lifecycle_tick(&hosts->state, &hosts->settings);
    for (int64_t e = 0; e < hosts->state.n_envs; e++) {
        int is_rolled_back = hosts->state.env.refusal[e] == ES_REFUSAL_ROLLED_BACK;
        hosts->rewards[e] = is_rolled_back ? -10 : host_number(hosts, e, 1) - 0.3f;
    }
}

// One step under a policy; a policy in training hears of it.
static inline void hosts_step(Hosts *hosts, EsPolicy *policy) {
    hosts_measure(hosts);
    REQUIRE_OK(es_policy_decide(policy, &hosts->state, hosts->masks, hosts->actions));
    hosts_act(hosts);
    if (policy->learned.rollout != NULL) {
        REQUIRE_OK(es_policy_training_record(policy, &hosts->state, hosts->rewards, 10));
    }
}

// A whole episode, and the update of a policy in training.
static inline void hosts_play(Hosts *hosts, EsPolicy *policy, int64_t first_episode,
                              EsPpoReport *report) {
    hosts_begin(hosts, first_episode);
    REQUIRE_OK(es_policy_begin(policy, first_episode));
    for (int32_t step = 0; step < hosts->settings.episode_steps; step++) {
        hosts_step(hosts, policy);
    }
    if (report != NULL) {
        REQUIRE_OK(es_policy_training_update(policy, &hosts->state, report));
    }
}

static inline EsDevice *open_cpu(void) {
    EsDevice *device = NULL;
    EsDeviceOptions options = {.n_threads = 1};
    REQUIRE_OK(es_device_open("cpu", &options, &device));
    return device;
}

// A small learned policy in training; with fewer units the value can be 0 everywhere.
static inline EsPolicy *create_learned(const Hosts *hosts, EsDevice *device, uint64_t seed) {
    EsPolicy *policy = NULL;
    EsPolicySpec spec = es_policy_spec_default(hosts->state.n_slots, 64);
    EsPpoSettings ppo = es_policy_ppo_defaults();
    EsPolicyContext context = hosts_context(hosts, device, seed);
    REQUIRE_OK(es_policy_create(&spec, &ppo, &context, hosts->settings.episode_steps, &policy));
    return policy;
}

#endif
