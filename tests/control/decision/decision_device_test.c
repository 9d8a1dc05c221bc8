// The decision phase on a GPU against the CPU: actions, thoughts, rewards and rollout rows of
// random hosts, bit for bit; a network's numbers within the bound of policy_parity.
#include "control/decision_device_case.h"
#include "control/policy/policy_inference_internal.h"
#include "temp_folder.h"

#define BOUND 1e-4 // of the largest number of its kind

// --- policies without a network ---

static const char schedule[] = "1  *    germinate r0c0 conv_light\n"
                               "1  2    germinate r0c0 norm style=linear_add tempo=fast\n"
                               "3  *    germinate r0c1 norm\n" // refused: another develops
                               "9  0-1  prune     r0c0 speed=fast curve=cosine\n"
                               "14 1-3  fossilize r0c0\n"
                               "25 *    germinate r0c1 depthwise\n"
                               "33 0,4  prune     r0c1\n";

static void open_policies(DecisionPair *pair, const char *text) {
    EsPolicyContext context = hosts_context(&pair->hosts, pair->cpu, 77);
    REQUIRE_OK(es_policy_open(text, &context, &pair->here));
    context.device = pair->cuda;
    REQUIRE_OK(es_policy_open(text, &context, &pair->there));
}

static void compare_heuristics(DecisionPair *pair) {
    if (pair->here->memory != NULL) {
        size_t bytes = sizeof(EsHeuristic) * (size_t)pair->hosts.state.n_envs;
        EsHeuristic *memory = malloc(bytes);
        fetch_bytes(pair, memory, pair->decision->view.memory, bytes);
        expect_bytes(pair, "what the heuristic remembers", pair->here->memory, memory, bytes);
        free(memory);
    }
}

static void play(const char *text, int32_t n_slots, int32_t n_envs, int mode, int is_refused,
                 DecisionPair *pair) {
    pair_create(pair, n_slots, n_envs, mode);
    pair->hosts.noise = strcmp(text, "heuristic") == 0 ? 0.01f : 1; // it waits for a plateau
    pair->hosts.settings.auto_forward = n_slots % 2 == 0 ? ES_AUTO_FORWARD_ALL : 0;
    if (is_refused) {
        refuse_captures(pair);
    }
    open_policies(pair, text);
    pair_begin(pair);
    for (int64_t round = 0; round < 3; round++) {
        pair_begin_round(pair, 100 * round);
        for (int32_t step = 0; step < pair->hosts.settings.episode_steps; step++) {
            pair_step(pair, 0);
            EXPECT(memcmp(pair->chosen, pair->hosts.actions, sizeof(EsAction) * (size_t)n_envs) ==
                   0);
            compare_heuristics(pair);
        }
        pair_end_round(pair);
    }
    expect_replays(pair, is_refused);
    EXPECT(pair->n_rollbacks > 0);
    EXPECT_EQ(pair->n_different, 0);
    printf("%s, %d slots, %d environments%s: %lld steps, %lld rollbacks, %lld germinations, %lld "
           "differences\n",
           text, n_slots, n_envs, is_refused ? ", without captures" : "", (long long)pair->n_steps,
           (long long)pair->n_rollbacks, (long long)pair->n_ops[ES_GROWTH_OP_GERMINATE],
           (long long)pair->n_different);
}

TEST(parity) {
    static DecisionPair pair;
    char script[300];
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    snprintf(script, sizeof script, "script:%s", write_temp_text("schedule", schedule));
    const struct {
        const char *policy;
        int32_t n_slots, n_envs;
        int mode, is_refused;
    } cases[] = {
        {"wait", 1, 1, ES_REWARD_SHAPED, 0},      {"random", 3, 16, ES_REWARD_SHAPED, 0},
        {"random", 16, 5, ES_REWARD_BASIC, 1},    {"random", 2, 7, ES_REWARD_SPARSE, 0},
        {"heuristic", 3, 16, ES_REWARD_BASIC, 0}, {"heuristic", 2, 9, ES_REWARD_SHAPED, 1},
        {script, 2, 6, ES_REWARD_SHAPED, 1},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        play(cases[i].policy, cases[i].n_slots, cases[i].n_envs, cases[i].mode, cases[i].is_refused,
             &pair);
        EXPECT(i == 0 || pair.n_ops[ES_GROWTH_OP_GERMINATE] > 0);
        pair_destroy(&pair);
    }
}

// --- learned policies ---

// Two policies in training with the same weights and normalisers that are not those of a start.
static void create_policies(DecisionPair *pair, int version) {
    pair->here = create_version(&pair->hosts, pair->cpu, version, 5);
    pair->there = create_version(&pair->hosts, pair->cuda, version, 5);
    EsLearned *const both[] = {&pair->here->learned, &pair->there->learned};
    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < both[i]->features.n_features; d++) {
            both[i]->features.mean[d] = 0.01 * d - 0.3;
            both[i]->features.variance[d] = 0.02 + 0.1 * (d % 7);
        }
        es_ppo_state(both[i]->ppo)->values = (EsScaleNormaliser){0.3, 7, 500};
    }
    const EsPolicyActing *acting = &pair->here->learned.network->acting;
    pair->logits = device_memory(pair, es_tensor_bytes(&acting->logits.tensor));
    pair->value = device_memory(pair, es_tensor_bytes(&acting->value.tensor));
}

static void compare_rows(DecisionPair *pair) {
    const EsLearned *here = &pair->here->learned, *there = &pair->there->learned;
    const EsRollout *rollout = here->rollout;
    EXPECT_EQ(here->t, there->t);
#define S (&rollout->shape)
#define X(type, name, count, meaning)                                                              \
    expect_bytes(pair, "column " #name, rollout->name, there->rollout->name,                       \
                 (size_t)(rollout->n_rows * (count)) * sizeof(type));
    ES_ROLLOUT_COLUMNS(X)
#undef X
    expect_bytes(pair, "an observation", here->raw, there->raw,
                 (size_t)(rollout->n_rows * here->features.n_features) * sizeof(float));
#undef S
}

static void count_rows(const EsRollout *rollout, int64_t *n_broken, int64_t *n_ended,
                       int64_t *n_reset) {
    for (int64_t row = 0; row < rollout->n_rows; row++) {
        *n_broken += !rollout->is_valid[row];
        *n_ended += rollout->is_valid[row] && rollout->is_done[row] && !rollout->is_truncated[row];
        *n_reset += row >= rollout->shape.n_envs && rollout->is_reset[row];
    }
}

typedef struct LearnedCase {
    int version, is_greedy, is_limited;
    int32_t n_slots, n_envs;
} LearnedCase;

static void begin_learned(DecisionPair *pair, const LearnedCase *wanted) {
    pair_create(pair, wanted->n_slots, wanted->n_envs, ES_REWARD_SHAPED);
    if (wanted->is_limited) {
        hosts_limit(&pair->hosts);
    }
    create_policies(pair, wanted->version);
    es_policy_set_greedy(pair->here, wanted->is_greedy);
    es_policy_set_greedy(pair->there, wanted->is_greedy);
    pair_begin(pair);
}

static void play_learned(DecisionPair *pair, const LearnedCase *wanted) {
    int64_t n_broken = 0, n_ended = 0, n_reset = 0;
    size_t n_envs = (size_t)wanted->n_envs;
    begin_learned(pair, wanted);
    for (int64_t round = 0; round < 3; round++) {
        pair_begin_round(pair, 1000 + 16 * round);
        for (int32_t step = 0; step < pair->hosts.settings.episode_steps; step++) {
            pair_step(pair, 1);
            expect_bytes(pair, "an action", pair->hosts.actions, pair->chosen,
                         sizeof(EsAction) * n_envs);
            expect_bytes(pair, "a thought", es_policy_action_stats(pair->here),
                         es_policy_action_stats(pair->there), sizeof(EsActionStats) * n_envs);
            for (size_t e = 0; e < n_envs; e++) {
                pair->n_narrowed += is_narrowed(&pair->hosts.masks[e], &pair->chosen[e]);
            }
        }
        pair_end_round(pair);
        REQUIRE_OK(es_decision_fetch_rows(pair->decision));
        compare_rows(pair);
        count_rows(pair->here->learned.rollout, &n_broken, &n_ended, &n_reset);
    }
    EXPECT(pair->n_rollbacks > 0 && pair->n_forced > 0);
    EXPECT_EQ(n_broken, pair->n_rollbacks);
    EXPECT(n_ended > 0 && n_reset > 0);
    EXPECT(pair->n_ops[ES_GROWTH_OP_GERMINATE] > 0);
    EXPECT_EQ(pair->n_narrowed > 20, wanted->is_limited);
    EXPECT_EQ(pair->n_different, 0);
    printf("version %d: %lld steps, %lld rollbacks, %lld forced, %lld narrowed by a budget: %lld "
           "differences\n",
           wanted->version, (long long)pair->n_steps, (long long)pair->n_rollbacks,
           (long long)pair->n_forced, (long long)pair->n_narrowed, (long long)pair->n_different);
    pair_destroy(pair);
}

// The device draws from the CPU's logits: everything is equal, whole rollouts too.
TEST(learned) {
    static DecisionPair pair;
    const LearnedCase cases[] = {
        {1, 0, 0, 3, 16}, {1, 1, 0, 5, 3},  {1, 0, 1, 3, 16}, {2, 0, 0, 3, 16},
        {2, 1, 1, 5, 3},  {2, 0, 1, 12, 5}, {2, 0, 1, 3, 16},
    };
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        play_learned(&pair, &cases[i]);
    }
}

// The largest difference over the largest number, as a share of the bound.
static double share_of_bound(const float *here, const float *there, int64_t n) {
    double top = 0, off = 0;
    for (int64_t i = 0; i < n; i++) {
        double difference = fabs((double)here[i] - (double)there[i]);
        top = fmax(top, fabs((double)here[i]));
        off = difference <= off ? off : difference; // NaN stays
    }
    return off / (BOUND * top);
}

// Observation to action on the device alone. Where logits differ in the last places a draw may fall
// to the other side; the CPU's actions are carried out on both. acted [T E], nullable: the log
// probabilities of what the device drew.
static EsRollout *play_network(DecisionPair *pair, const LearnedCase *wanted, int is_refused,
                               int64_t *n_other, double *acted) {
    begin_learned(pair, wanted);
    if (is_refused) {
        refuse_captures(pair);
    }
    const EsPolicyActing *acting = &pair->here->learned.network->acting;
    size_t bytes = es_tensor_bytes(&acting->logits.tensor);
    float *logits = malloc(bytes);
    double most = 0;
    int64_t n_envs = wanted->n_envs;
    REQUIRE_OK(es_decision_keep_logits(pair->decision, 1));
    pair_begin_round(pair, 0);
    for (int32_t step = 0; step < pair->hosts.settings.episode_steps; step++) {
        pair_step(pair, 0);
        fetch_bytes(pair, logits, pair->decision->view.logits, bytes);
        most = fmax(most,
                    share_of_bound(acting->logits.host, logits, (int64_t)(bytes / sizeof *logits)));
        for (int64_t e = 0; e < n_envs; e++) {
            const EsActionMasks *masks = &pair->hosts.masks[e];
            EsLogits own = logits_of(pair->there, logits, e);
            *n_other += memcmp(&pair->chosen[e], &pair->hosts.actions[e], sizeof(EsAction)) != 0;
            pair->n_narrowed += is_narrowed(masks, &pair->chosen[e]);
            double drawn = check_head_probabilities(pair->there, e, masks, &pair->chosen[e]);
            EXPECT_NEAR(
                drawn,
                acted_log_probability(&own, masks, pair->there->learned.floor, &pair->chosen[e]),
                1e-12);
            if (acted != NULL) {
                acted[step * n_envs + e] = acted_log_probability(
                    &own, masks, pair->there->learned.floor, &pair->chosen[e]);
            }
        }
    }
    pair_end_round(pair);
    // let go, they are not shown any more
    REQUIRE_OK(es_decision_keep_logits(pair->decision, 0));
    EXPECT(!es_policy_head_probabilities(pair->there, 0, pair->hosts.masks, pair->chosen,
                                         ES_HEAD_OP, (double[ES_SLOTS_MAX]){0}));
    expect_replays(pair, is_refused);
    printf("parity decision network f32: bound 0 + %.2g, at most %.3f of it used\n", BOUND, most);
    EXPECT(most <= 1);
    free(logits);
    return pair->there->learned.rollout;
}

// Updates from rows that are on the device and from the same rows in CPU memory have equal bits.
static void compare_updates(DecisionPair *there, DecisionPair *here) {
    DecisionPair *const pairs[] = {there, here};
    int64_t sent_bytes[2];
    EsPpoReport reports[2];
    float *weights[2];
    size_t bytes = 0;
    EXPECT(there->there->learned.rollout->on_device != NULL);
    EXPECT(here->there->learned.rollout->on_device == NULL);
    for (int i = 0; i < 2; i++) {
        EsPolicy *policy = pairs[i]->there;
        const EsTensor *slab = &es_policy_network_store(policy->learned.network)->parameters;
        bytes = es_tensor_bytes(slab);
        weights[i] = malloc(bytes);
        memset(&reports[i], 0, sizeof reports[i]);
        EsDeviceCounters before = es_device_counters(pairs[i]->cuda);
        REQUIRE_OK(es_policy_training_update(policy, &pairs[i]->hosts.state, &reports[i]));
        EsDeviceCounters counted = es_device_counters_since(pairs[i]->cuda, before);
        sent_bytes[i] = counted.copied_bytes[ES_COPY_TO_DEVICE];
        fetch_bytes(pairs[i], weights[i], slab->data, bytes);
        EXPECT(reports[i].n_epochs >= 1 && !reports[i].is_skipped);
    }
    EXPECT(memcmp(&reports[0], &reports[1], sizeof reports[0]) == 0);
    EXPECT(memcmp(weights[0], weights[1], bytes) == 0);
    // rows go up, or the values after the last step alone
    const EsRollout *rows = here->there->learned.rollout;
    int64_t last_bytes = rows->shape.n_envs * (int64_t)sizeof(float);
    int64_t rows_bytes = (unsigned char *)rows->scaled_reward - (unsigned char *)rows->slab;
    EXPECT_EQ(sent_bytes[0] - last_bytes, sent_bytes[1] - rows_bytes);
    free(weights[0]);
    free(weights[1]);
}

static void compare_networks(int version) {
    static DecisionPair first, second;
    const LearnedCase wanted = {.version = version, .n_slots = 3, .n_envs = 6};
    int64_t n_other = 0;
    EsRollout *a = play_network(&first, &wanted, 0, &n_other, NULL);
    EsRollout *b = play_network(&second, &wanted, 1, &n_other, NULL);
    const EsRollout *cpu = first.here->learned.rollout;
    REQUIRE_OK(es_decision_fetch_rows(second.decision));
    size_t n_rows = (size_t)cpu->n_rows, D = (size_t)cpu->shape.n_features;
    EXPECT(n_other * 100 <= 2 * first.n_steps * 6);
    EXPECT(memcmp(cpu->features, b->features, n_rows * D * sizeof(float)) == 0);
    EXPECT(memcmp(cpu->reward, a->reward, n_rows * sizeof(float)) == 0);
    EXPECT(memcmp(cpu->is_valid, a->is_valid, n_rows) == 0);
    EXPECT(memcmp(cpu->is_reset, a->is_reset, n_rows) == 0);
    EXPECT(share_of_bound(cpu->value, a->value, cpu->n_rows) <= 1);
    size_t seen_bytes = (size_t)((unsigned char *)a->is_reset - (unsigned char *)a->slab);
    EXPECT(memcmp(a->is_reset, b->is_reset, a->slab_bytes - seen_bytes) == 0);
    compare_updates(&first, &second);
    pair_destroy(&first);
    pair_destroy(&second);
}

TEST(network) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    compare_networks(ES_OBSERVATION_VERSION);
    compare_networks(ES_SET_OBSERVATION_VERSION);
}

// Under a budget the training plan on the device says of every row what the fused step said when it
// was drawn there (policy_agreement has the same on the CPU).
TEST(agreement) {
    static DecisionPair pair;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    for (int version = 1; version <= 2; version++) {
        const LearnedCase wanted = {.version = version, .is_limited = 1, .n_slots = 3, .n_envs = 7};
        double acted[40 * 7];
        int64_t n_other = 0;
        EsRollout *r = play_network(&pair, &wanted, 0, &n_other, acted);
        EXPECT_EQ(r->n_rows, (int64_t)ES_COUNT_OF(acted));
        REQUIRE_OK(es_decision_fetch_rows(pair.decision));
        EXPECT_NEAR(compare_agreement(pair.there, acted, BOUND), 0, BOUND);
        EXPECT(pair.n_narrowed > 10);
        pair_destroy(&pair);
    }
}

// --- recordings ---

// Arguments and the report may move between rounds; what was recorded for the old places is not
// replayed.
TEST(moved_places_are_recorded_anew) {
    static DecisionPair pair;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    pair_create(&pair, 2, 5, ES_REWARD_SHAPED);
    open_policies(&pair, "random");
    pair_begin(&pair);
    void *const places[] = {pair.slab, device_memory(&pair, state_bytes(&pair))};
    EsAction *const actions[] = {pair.actions, device_memory(&pair, 5 * sizeof(EsAction))};
    void *const reports[] = {es_decision_report(pair.decision).memory,
                             device_memory(&pair, es_decision_report_bytes(5))};
    for (int round = 0; round < 4; round++) {
        pair.slab = places[round == 1];
        es_growth_state_bind(&pair.state, pair.slab, 5, 2);
        pair.actions = actions[round == 2];
        es_decision_place_report(pair.decision, reports[round == 3]);
        pair_begin_round(&pair, 10 * round);
        for (int step = 0; step < 4; step++) {
            pair_step(&pair, 0);
        }
        pair_end_round(&pair);
        EXPECT_EQ(es_decision_replays(pair.decision).n_captures, 2);
        EXPECT_EQ(es_decision_replays(pair.decision).n_fallbacks, 0);
    }
    EXPECT_EQ(pair.n_different, 0);
    es_device_release(pair.cuda, places[1]);
    es_device_release(pair.cuda, actions[1]);
    es_device_release(pair.cuda, reports[1]);
    pair.slab = places[0];
    pair.actions = actions[0];
    pair_destroy(&pair);
}

// A network that runs a plan cannot be recorded with the rest of choose: pay still is, and the
// reason is told.
TEST(a_plan_is_told) {
    static DecisionPair pair;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    pair_create(&pair, 3, 4, ES_REWARD_SHAPED);
    create_policies(&pair, ES_SET_OBSERVATION_VERSION);
    EsPolicyActing *acting = &pair.there->learned.network->acting;
    es_policy_act_destroy(acting->act);
    acting->act = NULL;
    snprintf(acting->fallback, sizeof acting->fallback, "taken away");
    pair_begin(&pair);
    pair_begin_round(&pair, 0);
    for (int step = 0; step < 4; step++) {
        pair_step(&pair, 0);
    }
    pair_end_round(&pair);
    EsDecisionReplays replays = es_decision_replays(pair.decision);
    EXPECT_EQ(replays.n_captures, 1);
    EXPECT_EQ(replays.n_fallbacks, 1);
    EXPECT_EQ(replays.n_replays, pair.n_steps - 1);
    EXPECT_CONTAINS(replays.fallback, "runs a plan: taken away");
    EXPECT_EQ(pair.n_different, 0);
    pair_destroy(&pair);
}

// --- what a step costs ---

typedef struct StepCost {
    EsDeviceCounters counters;
    int64_t n_replays;
} StepCost;

// Of a step after the first two, which run and record it.
static StepCost count_step_of(const char *text, int version, int32_t n_envs) {
    static DecisionPair pair;
    pair_create(&pair, 3, n_envs, ES_REWARD_SHAPED);
    if (text == NULL) {
        create_policies(&pair, version);
    } else {
        open_policies(&pair, text);
    }
    pair_begin(&pair);
    pair_begin_round(&pair, 0);
    for (int step = 0; step < 3; step++) {
        pair_step(&pair, 0);
    }
    int64_t n_replays = es_decision_replays(pair.decision).n_replays;
    EsDeviceCounters before = es_device_counters(pair.cuda);
    REQUIRE_OK(queue_choose(&pair));
    REQUIRE_OK(queue_reward(&pair));
    StepCost cost = {es_device_counters_since(pair.cuda, before),
                     es_decision_replays(pair.decision).n_replays - n_replays};
    REQUIRE_OK(es_stream_synchronize(pair.stream));
    pair_destroy(&pair);
    return cost;
}

// Two replays and nothing else, whatever the policy and the number of environments.
TEST(cost) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    const struct {
        const char *text; // NULL: learned
        int version;
    } policies[] = {{"wait", 0}, {"random", 0}, {"heuristic", 0}, {NULL, 1}, {NULL, 2}};
    for (size_t i = 0; i < ES_COUNT_OF(policies); i++) {
        for (int32_t n_envs = 2; n_envs <= 16; n_envs += 14) {
            StepCost cost = count_step_of(policies[i].text, policies[i].version, n_envs);
            EXPECT_EQ(cost.counters.n_allocations, 0);
            EXPECT_EQ(cost.counters.n_synchronizations, 0);
            EXPECT_EQ(cost.counters.n_copies, 0);
            EXPECT_EQ(cost.counters.n_launches, 2);
            EXPECT_EQ(cost.n_replays, 2);
        }
    }
}

// Without a GPU it says so.
TEST(refusals) {
    static Hosts hosts;
    EsDevice *cpu = open_cpu();
    EsPolicy *policy = NULL;
    EsReward *reward = NULL;
    EsStream *stream = NULL;
    EsDecisionDevice *decision = NULL;
    EsRewardSettings settings = es_reward_settings_default();
    hosts_create(&hosts, 2, 3);
    EsPolicyContext context = hosts_context(&hosts, cpu, 1);
    REQUIRE_OK(es_policy_open("random", &context, &policy));
    REQUIRE_OK(es_reward_create(&settings, &hosts.settings, HOST_PARAMETERS, 3, &reward));
    REQUIRE_OK(es_stream_create(cpu, &stream));
    EXPECT_STATUS(es_decision_create(policy, reward, stream, &decision), UNSUPPORTED);
    EXPECT(decision == NULL);
    es_stream_destroy(stream);
    es_policy_destroy(policy);
    es_reward_destroy(reward);
    es_device_close(cpu);
    hosts_destroy(&hosts);
}
