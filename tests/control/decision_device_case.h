// One policy twice: deciding on the CPU, and in a decision phase on a GPU that sees copies of the
// same hosts. Everything that comes of a step is compared bit for bit.
#ifndef ES_TESTS_CONTROL_DECISION_DEVICE_CASE_H
#define ES_TESTS_CONTROL_DECISION_DEVICE_CASE_H

#include "control/decision/decision_internal.h"
#include "control/policy/policy_network_internal.h"
#include "control/ruled_hosts.h"
#include "tensor/profile.h"

#define HOST_PARAMETERS 5000

typedef struct DecisionPair {
    Hosts hosts;
    EsRewardSettings settings;
    EsDevice *cpu, *cuda;
    EsStream *stream;
    EsPolicy *here, *there;
    EsReward *reward_here, *reward_there;
    EsDecisionDevice *decision;

    // on the device
    void *slab;
    EsGrowthState state;
    EsActionMasks *masks;
    EsAction *actions;
    float *logits, *value; // fed to the device: those of the CPU

    // what came back
    unsigned char *report;
    EsAction chosen[HOSTS_MAX];
    float rewards[HOSTS_MAX];

    // what was seen
    int64_t n_steps, n_rollbacks, n_forced, n_different, n_ops[ES_N_GROWTH_OPS];
    int64_t n_narrowed; // decisions from which a budget took values
} DecisionPair;

static inline void send(DecisionPair *pair, void *to, const void *from, size_t bytes) {
    REQUIRE_OK(es_stream_copy(pair->stream, to, from, bytes, ES_COPY_TO_DEVICE));
}

static inline void fetch_bytes(DecisionPair *pair, void *to, const void *from, size_t bytes) {
    REQUIRE_OK(es_stream_copy(pair->stream, to, from, bytes, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(pair->stream));
}

static inline void *device_memory(DecisionPair *pair, size_t bytes) {
    void *memory = NULL;
    REQUIRE_OK(es_device_allocate(pair->cuda, bytes, &memory));
    return memory;
}

static inline size_t state_bytes(const DecisionPair *pair) {
    return es_growth_state_bytes(pair->hosts.state.n_envs, pair->hosts.state.n_slots);
}

// Hosts whose blueprints have sizes, rewards of the mode; no policies yet.
static inline void pair_create(DecisionPair *pair, int32_t n_slots, int32_t n_envs, int mode) {
    memset(pair, 0, sizeof *pair);
    hosts_create(&pair->hosts, n_slots, n_envs);
    for (int32_t s = 0; s < n_slots; s++) {
        pair->hosts.settings.gate_parameters[s] = 7;
        for (int32_t b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
            pair->hosts.settings.blueprint_parameters[s][b] = 50 * b;
        }
    }
    pair->hosts.settings.episode_steps = 40;
    pair->settings = es_reward_settings_default();
    pair->settings.mode = mode;
    pair->cpu = open_cpu();
    REQUIRE_OK(es_device_open("cuda", NULL, &pair->cuda));
    REQUIRE_OK(es_stream_create(pair->cuda, &pair->stream));
    pair->slab = device_memory(pair, state_bytes(pair));
    es_growth_state_bind(&pair->state, pair->slab, n_envs, n_slots);
    pair->masks = device_memory(pair, sizeof *pair->masks * (size_t)n_envs);
    pair->actions = device_memory(pair, sizeof *pair->actions * (size_t)n_envs);
}

// After the hosts' settings and the policies are as they shall be.
static inline void pair_begin(DecisionPair *pair) {
    int64_t n_envs = pair->hosts.state.n_envs;
    for (int i = 0; i < 2; i++) {
        EsReward **reward = i == 0 ? &pair->reward_here : &pair->reward_there;
        REQUIRE_OK(es_reward_create(&pair->settings, &pair->hosts.settings, HOST_PARAMETERS, n_envs,
                                    reward));
    }
    REQUIRE_OK(es_decision_create(pair->there, pair->reward_there, pair->stream, &pair->decision));
    pair->report = malloc(es_decision_report_bytes(n_envs));
}

static inline void pair_destroy(DecisionPair *pair) {
    void *const memory[] = {pair->slab, pair->masks, pair->actions, pair->logits, pair->value};
    REQUIRE_OK(es_device_status(pair->cuda));
    es_decision_destroy(pair->decision);
    es_policy_destroy(pair->here);
    es_policy_destroy(pair->there);
    es_reward_destroy(pair->reward_here);
    es_reward_destroy(pair->reward_there);
    for (size_t i = 0; i < ES_COUNT_OF(memory); i++) {
        if (memory[i] != NULL) {
            es_device_release(pair->cuda, memory[i]);
        }
    }
    es_stream_destroy(pair->stream);
    es_profile_stop(pair->cuda);
    es_device_close(pair->cuda);
    es_device_close(pair->cpu);
    hosts_destroy(&pair->hosts);
    free(pair->report);
}

static inline void expect_bytes(DecisionPair *pair, const char *what, const void *here,
                                const void *there, size_t bytes) {
    if (memcmp(here, there, bytes) != 0 && pair->n_different++ < 5) {
        size_t at = 0;
        while (((const char *)here)[at] == ((const char *)there)[at]) {
            at++;
        }
        ES_TEST_FAIL("step %lld: %s differs from byte %zu of %zu on", (long long)pair->n_steps,
                     what, at, bytes);
    }
}

// --- a step ---

static inline EsStatus queue_choose(DecisionPair *pair) {
    return es_decision_choose(pair->decision, &pair->state, pair->masks, pair->actions);
}

static inline EsStatus queue_reward(DecisionPair *pair) {
    return es_decision_reward(pair->decision, &pair->state, pair->state.env.n_unrewarded_prunes);
}

// The device gets the logits that the CPU's network gave for this step.
static inline EsStatus queue_choose_fed(DecisionPair *pair) {
    const EsPolicyActing *acting = &pair->here->learned.network->acting;
    EsDecisionView *view = &pair->decision->view;
    send(pair, pair->logits, acting->logits.host, es_tensor_bytes(&acting->logits.tensor));
    send(pair, pair->value, acting->value.host, es_tensor_bytes(&acting->value.tensor));
    view->logits = pair->logits;
    view->value = pair->value;
    pair->decision->kernels->observe(pair->stream, view, &pair->state);
    pair->decision->kernels->sample(pair->stream, view, &pair->state, pair->masks, pair->actions);
    return ES_STATUS_OK;
}

// Captures fail from here on: every launch is queued by itself.
static inline void refuse_captures(DecisionPair *pair) {
    EsProfileOptions options = {.capacity = 1, .forbids_capture = 1};
    REQUIRE_OK(es_profile_start(pair->cuda, &options));
}

// Steps so far were replayed from the second on, or none was and it is said why.
static inline void expect_replays(DecisionPair *pair, int is_refused) {
    EsDecisionReplays replays = es_decision_replays(pair->decision);
    EXPECT_EQ(replays.n_captures, is_refused ? 0 : 2);
    EXPECT_EQ(replays.n_fallbacks, is_refused ? 2 : 0);
    EXPECT_EQ(replays.n_replays, is_refused ? 0 : 2 * (pair->n_steps - 1));
    EXPECT_EQ(replays.fallback[0] != '\0', is_refused);
}

static inline void send_state(DecisionPair *pair) {
    send(pair, pair->slab, pair->hosts.slab, state_bytes(pair));
}

// Some environment's loss is NaN now and then, which rolls it back.
static inline void break_some(DecisionPair *pair, int32_t step) {
    pair->hosts.nan_env = step % 6 == 5 ? (step * 7) % pair->hosts.state.n_envs : -1;
    pair->hosts.nan_step = step;
}

static inline void count_step(DecisionPair *pair) {
    for (int64_t e = 0; e < pair->hosts.state.n_envs; e++) {
        pair->n_rollbacks += pair->hosts.state.env.refusal[e] == ES_REFUSAL_ROLLED_BACK;
        pair->n_forced += pair->hosts.masks[e].head[ES_HEAD_OP] == 1u << ES_GROWTH_OP_WAIT;
        pair->n_ops[pair->hosts.state.env.effective_op[e]]++;
    }
    pair->n_steps++;
}

// Rewards, state and report of a step that both have paid.
static inline void compare_rewards(DecisionPair *pair) {
    const EsDecisionReport report = es_decision_report(pair->decision);
    size_t n_envs = (size_t)pair->hosts.state.n_envs;
    unsigned char *slab = malloc(state_bytes(pair));
    fetch_bytes(pair, slab, pair->slab, state_bytes(pair));
    expect_bytes(pair, "the state", pair->hosts.slab, slab, state_bytes(pair));
    free(slab);
    fetch_bytes(pair, pair->report, report.memory, report.bytes);
    es_decision_receive(pair->decision, pair->report, pair->chosen, pair->rewards);
    expect_bytes(pair, "a reward", es_reward_terms(pair->reward_here),
                 es_reward_terms(pair->reward_there), n_envs * sizeof(EsRewardTerms));
    expect_bytes(pair, "a total", es_reward_totals(pair->reward_here),
                 es_reward_totals(pair->reward_there), n_envs * sizeof(double));
}

// One step; with `feeds` the device's network is left out. The CPU's actions are carried out.
static inline void pair_step(DecisionPair *pair, int feeds) {
    Hosts *hosts = &pair->hosts;
    size_t n_envs = (size_t)hosts->state.n_envs;
    EsAction actions[HOSTS_MAX];
    break_some(pair, hosts->state.env.step[0]);
    hosts_measure(hosts);
    send_state(pair);
    send(pair, pair->masks, hosts->masks, n_envs * sizeof *hosts->masks);
    es_reward_latch(pair->reward_here, &hosts->state);
    REQUIRE_OK(es_policy_decide(pair->here, &hosts->state, hosts->masks, hosts->actions));
    REQUIRE_OK(feeds ? queue_choose_fed(pair) : queue_choose(pair));
    fetch_bytes(pair, actions, pair->actions, n_envs * sizeof *actions);
    hosts_act(hosts);
    send_state(pair);
    REQUIRE_OK(queue_reward(pair));
    es_reward_compute(pair->reward_here, &hosts->state);
    es_lifecycle_settle_prunes(&hosts->state, es_reward_settled_prunes(pair->reward_here));
    compare_rewards(pair);
    expect_bytes(pair, "an action", actions, pair->chosen, n_envs * sizeof *actions);
    if (pair->here->learned.rollout != NULL) {
        REQUIRE_OK(es_policy_training_record(pair->here, &hosts->state, pair->rewards,
                                             pair->settings.rollback_penalty));
        REQUIRE_OK(es_policy_training_record(pair->there, &hosts->state, pair->rewards,
                                             pair->settings.rollback_penalty));
    }
    count_step(pair);
}

static inline void pair_begin_round(DecisionPair *pair, int64_t first_episode) {
    hosts_begin(&pair->hosts, first_episode);
    REQUIRE_OK(es_policy_begin(pair->here, first_episode));
    es_reward_reset(pair->reward_here);
    REQUIRE_OK(es_decision_begin(pair->decision, first_episode));
}

static inline void pair_end_round(DecisionPair *pair) {
    REQUIRE_OK(es_decision_end(pair->decision));
    for (int64_t e = 0; e < pair->hosts.state.n_envs; e++) {
        double here = es_reward_stability(pair->reward_here, e);
        double there = es_reward_stability(pair->reward_there, e);
        expect_bytes(pair, "a stability", &here, &there, sizeof here);
    }
}

#endif
