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

// A small learned policy of a version, in training; with fewer units the value can be 0 everywhere.
static inline EsPolicy *create_version(const Hosts *hosts, EsDevice *device, int version,
                                       uint64_t seed) {
    EsPolicy *policy = NULL;
    EsPolicySpec spec = es_policy_spec_default(hosts->state.n_slots, 64);
    spec.is_set = version == ES_SET_OBSERVATION_VERSION;
    EsPpoSettings ppo = es_policy_ppo_defaults();
    EsPolicyContext context = hosts_context(hosts, device, seed);
    REQUIRE_OK(es_policy_create(&spec, &ppo, &context, hosts->settings.episode_steps, &policy));
    return policy;
}

static inline EsPolicy *create_learned(const Hosts *hosts, EsDevice *device, uint64_t seed) {
    return create_version(hosts, device, ES_OBSERVATION_VERSION, seed);
}

// Blueprints and gates that cost something, places of slots, and a limit of parameters that is too
// small for the larger ones.
static inline void hosts_limit(Hosts *hosts) {
    EsGrowthSettings *g = &hosts->settings;
    g->n_host_parameters = 1000;
    g->max_parameters = 1250;
    for (int32_t s = 0; s < g->n_slots; s++) {
        g->slot_channels[s] = 8 << (s % 4);
        g->slot_side[s] = 32 >> (s % 4);
        g->slot_pool[s] = s % 3;
        g->slot_column[s] = s;
        g->gate_parameters[s] = 60 + 10 * s;
        for (int32_t b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
            g->blueprint_parameters[s][b] = 90 * b + 20 * s;
        }
    }
}

// --- probabilities of decisions ---

// Log probability of an action from the logits and masks that it was drawn with.
static inline double acted_log_probability(const EsLogits *logits, const EsActionMasks *masks,
                                           const float *floor, const EsAction *action) {
    int32_t op = es_action_value(action, ES_HEAD_OP), S = logits->n_slots;
    int32_t slot = es_action_value(action, ES_HEAD_SLOT);
    double p[ES_CHOICE_MAX], sum = 0;
    float scores[ES_SLOTS_MAX];
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        if (!es_head_matters(op, head)) {
            continue;
        }
        uint32_t mask =
            head == ES_HEAD_OP ? masks->head[ES_HEAD_OP] : es_masks_next(masks, action, op, head);
        const float *z = logits->is_table
                             ? es_choice_table_logits(logits->data, S, head, op, slot, scores)
                             : logits->data + es_head_first_logit(head, S);
        es_choice_probabilities(z, es_head_size(head, S), mask, floor[head], p);
        sum += es_choice_log_probability(p, es_action_value(action, head));
    }
    return sum;
}

// The same from a row of a rollout and the logits of a training pass, as PPO sees it.
static inline double kept_log_probability(const EsRollout *rollout, int64_t row,
                                          const float *logits, const float *floor) {
    int32_t S = (int32_t)rollout->shape.n_ids;
    double p[ES_CHOICE_MAX], sum = 0;
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        int64_t at = row * ES_N_HEADS + head;
        if ((rollout->used[row] >> head) & 1) {
            es_choice_probabilities(logits + es_head_first_logit(head, S), es_head_size(head, S),
                                    rollout->mask[at], floor[head], p);
            sum += es_choice_log_probability(p, rollout->action[at]);
        }
    }
    return sum;
}

// Of a table of logits [E, A] that a policy acts with.
static inline EsLogits logits_of(const EsPolicy *policy, const float *logits, int64_t e) {
    int32_t S = policy->context.settings->n_slots;
    int is_table = es_policy_network_spec(policy->learned.network)->is_set;
    int64_t n = is_table ? es_choice_table_size(S) : es_head_first_logit(ES_N_HEADS, S);
    return (EsLogits){logits + e * n, S, is_table};
}

// The largest difference between what was acted on, [T E], and what the training plan says of the
// rollout's rows, valid or not; values within the bound.
static inline double compare_agreement(const EsPolicy *policy, const double *acted, double bound) {
    const EsRollout *r = policy->learned.rollout;
    EsPpoModel model = es_policy_training_model(policy->learned.network);
    EsOutputs outputs;
    double worst = 0;
    REQUIRE_OK(model.begin(model.context, r));
    REQUIRE_OK(model.forward(model.context, 0, &outputs));
    for (int64_t row = 0; row < r->n_rows; row++) {
        double kept = kept_log_probability(r, row, outputs.logits + row * r->shape.policy.n_logits,
                                           policy->learned.floor);
        worst = fmax(worst, fabs(kept - acted[row]));
        EXPECT_NEAR(outputs.value[row], r->value[row], bound);
    }
    return worst;
}

// What a policy says of each head of its last decision: legal values share a probability of 1, the
// operation has its confidence, to the bit, and other heads than those it reads have nothing.
// Returns the log probability of the action.
static inline double check_head_probabilities(const EsPolicy *policy, int64_t e,
                                              const EsActionMasks *masks, const EsAction *action) {
    int32_t op = es_action_value(action, ES_HEAD_OP), n_slots = policy->context.settings->n_slots;
    double log_probability = 0;
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        double p[ES_SLOTS_MAX], sum = 0;
        int is_known = es_policy_head_probabilities(policy, e, masks, action, head, p);
        EXPECT_EQ(is_known, es_head_matters(op, head));
        if (!is_known) {
            continue;
        }
        uint32_t legal =
            head == ES_HEAD_OP ? masks->head[head] : es_masks_next(masks, action, op, head);
        for (int32_t value = 0; value < es_head_size(head, n_slots); value++) {
            sum += p[value];
            EXPECT_EQ(p[value] > 0, (int)(legal >> value & 1));
        }
        EXPECT_NEAR(sum, 1, 1e-12);
        log_probability += log(p[es_action_value(action, head)]);
        EXPECT(head != ES_HEAD_OP || (float)p[op] == es_policy_action_stats(policy)[e].confidence);
    }
    return log_probability;
}

// Counts decisions of which the budget took values away.
static inline int is_narrowed(const EsActionMasks *masks, const EsAction *action) {
    int32_t op = es_action_value(action, ES_HEAD_OP);
    int n = 0;
    for (int32_t head = 0; head < ES_HEAD_OP; head++) {
        n += es_head_matters(op, head) &&
             es_masks_next(masks, action, op, head) != es_masks_head(masks, op, head);
    }
    return n > 0;
}

#endif
