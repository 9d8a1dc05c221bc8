// Policies behind one interface: what they choose, what it depends on, and what it does not.
#include "control/policy/policy_network_internal.h"
#include "control/ruled_hosts.h"
#include "control/rules/sampling_rules.h"
#include "temp_folder.h"

static EsPolicy *open_policy(const char *text, const Hosts *hosts, EsDevice *device,
                             uint64_t seed) {
    EsPolicy *policy = NULL;
    EsPolicyContext context = hosts_context(hosts, device, seed);
    REQUIRE_OK(es_policy_open(text, &context, &policy));
    return policy;
}

TEST(kinds) {
    Hosts hosts;
    hosts_create(&hosts, 3, 2);
    hosts.noise = 0.01f; // a plateau, for the heuristic
    const struct {
        const char *text;
        EsPolicyKind kind;
    } rows[] = {{"wait", ES_POLICY_WAIT},
                {"random", ES_POLICY_RANDOM},
                {"heuristic", ES_POLICY_HEURISTIC},
                {"eager", ES_POLICY_EAGER}};
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        EsPolicy *policy = open_policy(rows[i].text, &hosts, NULL, 1);
        EXPECT_EQ(es_policy_kind(policy), rows[i].kind);
        EXPECT_TEXT(es_policy_hash(policy), "");
        EXPECT(es_policy_action_stats(policy) == NULL);
        hosts_play(&hosts, policy, 0, NULL);
        EXPECT((hosts.state.env.n_germinated[0] > 0) == (rows[i].kind != ES_POLICY_WAIT));
        es_policy_destroy(policy);
    }
    es_policy_destroy(NULL);
    hosts_destroy(&hosts);
}

TEST(kinds_by_name) {
    EXPECT_EQ(es_policy_parse_kind("wait"), ES_POLICY_WAIT);
    EXPECT_EQ(es_policy_parse_kind("random"), ES_POLICY_RANDOM);
    EXPECT_EQ(es_policy_parse_kind("heuristic"), ES_POLICY_HEURISTIC);
    EXPECT_EQ(es_policy_parse_kind("eager"), ES_POLICY_EAGER);
    EXPECT_EQ(es_policy_parse_kind("script:"), ES_POLICY_SCRIPT);
    EXPECT_EQ(es_policy_parse_kind("script:random"), ES_POLICY_SCRIPT);
    EXPECT_EQ(es_policy_parse_kind("script"), ES_POLICY_LEARNED);
    EXPECT_EQ(es_policy_parse_kind("randomly"), ES_POLICY_LEARNED);
    EXPECT_EQ(es_policy_parse_kind("runs/a/policy.safetensors"), ES_POLICY_LEARNED);
}

TEST(what_is_no_policy) {
    Hosts hosts;
    hosts_create(&hosts, 3, 2);
    EsPolicyContext context = hosts_context(&hosts, NULL, 1);
    EsPolicy *policy = NULL;
    EXPECT_STATUS(es_policy_open("heuristics", &context, &policy), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "no policy \"heuristics\"");
    EXPECT(policy == NULL);
    EXPECT_STATUS(es_policy_open("script:/nowhere/at/all", &context, &policy), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "/nowhere/at/all");
    hosts_destroy(&hosts);
}

TEST(a_script) {
    Hosts hosts;
    hosts_create(&hosts, 3, 2);
    char text[300];
    snprintf(text, sizeof text, "script:%s",
             write_temp_text("schedule", "2 1 germinate r0c2 norm\n"));
    EsPolicy *policy = open_policy(text, &hosts, NULL, 1);
    EXPECT_EQ(strlen(es_policy_hash(policy)), 64);
    hosts_step(&hosts, policy);
    hosts_step(&hosts, policy);
    EXPECT_EQ(hosts.state.env.n_germinated[0], 0);
    EXPECT_EQ(hosts.state.env.n_germinated[1], 1);
    EXPECT_EQ(hosts.state.seed.blueprint[3 + 2], ES_BLUEPRINT_ID_NORM);
    es_policy_destroy(policy);
    hosts_destroy(&hosts);
}

// --- the learned policy ---

typedef struct Counts {
    int64_t n, n_germinated;
    int64_t value[ES_N_HEADS][ES_SLOTS_MAX]; // of op: all draws; of the others: of germinations
} Counts;

static void count_action(Counts *counts, const EsAction *action) {
    int is_germination = action->head[ES_HEAD_OP] == ES_GROWTH_OP_GERMINATE;
    counts->n++;
    counts->n_germinated += is_germination;
    counts->value[ES_HEAD_OP][action->head[ES_HEAD_OP]]++;
    for (int head = 0; is_germination && head < ES_HEAD_OP; head++) {
        counts->value[head][action->head[head]]++;
    }
}

// Chi-square of one head's counts against what its logits say.
static void check_head(const Counts *counts, int head, const float *logits, float floor,
                       const EsActionMasks *masks) {
    const double bound[] = {0, 15.14, 18.42, 21.11, 23.51, 25.74, 27.86}; // 99.99 percentiles
    double p[ES_CHOICE_MAX], x = 0;
    int size = es_head_size(head, 3);
    uint32_t mask =
        head == ES_HEAD_OP ? masks->head[head] : es_masks_head(masks, ES_GROWTH_OP_GERMINATE, head);
    const float *z = logits + es_head_first_logit(head, 3);
    int n_legal = es_choice_probabilities(z, size, mask, floor, p);
    for (int i = 0; i < size; i++) {
        double share = p[i] * (double)(head == ES_HEAD_OP ? counts->n : counts->n_germinated);
        double distance = (double)counts->value[head][i] - share;
        EXPECT(p[i] > 0 || counts->value[head][i] == 0);
        x += p[i] > 0 ? distance * distance / share : 0;
    }
    if (!(x <= bound[n_legal - 1])) {
        ES_TEST_FAIL("head %d: chi-square %g with %d values", head, x, n_legal);
    }
}

// Draws through the whole path against the probabilities of the network's own logits.
TEST(frequencies_match_probabilities) {
    static Counts counts;
    Hosts hosts;
    hosts_create(&hosts, 3, 1);
    EsDevice *device = open_cpu();
    EsPolicy *policy = create_learned(&hosts, device, 5);
    // weights as after some training: gain 0.01 at the heads is too even to see a bias
    EsStore *store = es_policy_network_store(policy->learned.network);
    float *weights = store->parameters.data;
    for (int64_t i = 0; i < store->parameters.dim[1]; i++) {
        EsRandom4 r = es_random_draw(1, 0, ES_PURPOSE_EVALUATION, 0, (uint32_t)i);
        weights[i] += 0.3f * (es_random_uniform(r.word[0]) - 0.5f);
    }
    hosts_measure(&hosts);
    for (int64_t episode = 0; episode < 20000; episode++) { // the same step, in other episodes
        REQUIRE_OK(es_policy_begin(policy, episode));
        REQUIRE_OK(es_policy_decide(policy, &hosts.state, hosts.masks, hosts.actions));
        count_action(&counts, &hosts.actions[0]);
    }
    float raw[116], normalised[116];
    int32_t blueprints[3];
    EsOutputs outputs;
    es_learned_observe(policy, &hosts.state, raw, normalised, blueprints);
    REQUIRE_OK(es_policy_begin(policy, 0));
    REQUIRE_OK(
        es_policy_inference_act(policy->learned.network, normalised, blueprints, 1, &outputs));
    for (int head = 0; head < ES_N_HEADS; head++) {
        check_head(&counts, head, outputs.logits, policy->learned.floor[head], &hosts.masks[0]);
    }
    es_policy_destroy(policy);
    es_device_close(device);
    hosts_destroy(&hosts);
}

// A hash of every action of some episodes.
static uint64_t play_hash(Hosts *hosts, EsPolicy *policy, int64_t first_episode, int64_t env) {
    uint64_t hash = 14695981039346656037u;
    hosts_begin(hosts, first_episode);
    REQUIRE_OK(es_policy_begin(policy, first_episode));
    for (int32_t step = 0; step < hosts->settings.episode_steps; step++) {
        hosts_step(hosts, policy);
        for (int head = 0; head < ES_N_HEADS; head++) {
            hash = (hash ^ (uint64_t)(hosts->actions[env].head[head] + 1)) * 1099511628211u;
        }
    }
    return hash;
}

static void check_sameness(const char *text) {
    Hosts hosts, one;
    EsDevice *device = open_cpu();
    hosts_create(&hosts, 3, 5);
    hosts_create(&one, 3, 1);
    int is_learned = strcmp(text, "learned") == 0;
    EsPolicy *a =
        is_learned ? create_learned(&hosts, device, 5) : open_policy(text, &hosts, device, 5);
    EsPolicy *b =
        is_learned ? create_learned(&hosts, device, 5) : open_policy(text, &hosts, device, 5);
    EsPolicy *other =
        is_learned ? create_learned(&hosts, device, 6) : open_policy(text, &hosts, device, 6);
    EsPolicy *alone =
        is_learned ? create_learned(&one, device, 5) : open_policy(text, &one, device, 5);
    uint64_t hash = play_hash(&hosts, a, 40, 3);
    EXPECT(play_hash(&hosts, b, 40, 3) == hash);     // the same seed: the same actions
    EXPECT(play_hash(&hosts, a, 40, 3) == hash);     // and again
    EXPECT(play_hash(&hosts, other, 40, 3) != hash); // another seed
    EXPECT(play_hash(&hosts, a, 40, 2) != hash);     // another environment
    EXPECT(play_hash(&hosts, a, 41, 3) != hash);     // another episode
    EXPECT(play_hash(&hosts, a, 41, 2) == hash);     // wherever the episode is played
    EXPECT(play_hash(&one, alone, 43, 0) == hash);   // and whoever else plays
    es_policy_destroy(a);
    es_policy_destroy(b);
    es_policy_destroy(other);
    es_policy_destroy(alone);
    es_device_close(device);
    hosts_destroy(&hosts);
    hosts_destroy(&one);
}

TEST(random_depends_on_seed_and_episode_alone) { check_sameness("random"); }

TEST(learned_depends_on_seed_and_episode_alone) { check_sameness("learned"); }

// A hundred thousand decisions of the whole path, rollbacks among them.
TEST(learned_is_never_illegal) {
    Hosts hosts;
    EsDevice *device = open_cpu();
    hosts_create(&hosts, 3, 16);
    EsPolicy *policy = create_learned(&hosts, device, 5);
    int64_t n_decisions = 0, n_refused = 0;
    for (int64_t round = 0; n_decisions < 100000; round++) {
        hosts_begin(&hosts, 16 * round);
        REQUIRE_OK(es_policy_begin(policy, 16 * round));
        hosts.nan_env = round % 16;
        hosts.nan_step = 1 + (int32_t)(round % 30);
        for (int32_t step = 0; step < hosts.settings.episode_steps; step++) {
            hosts_step(&hosts, policy);
            for (int64_t e = 0; e < 16; e++, n_decisions++) {
                int32_t refusal = hosts.state.env.refusal[e];
                n_refused += refusal != ES_REFUSAL_NONE && refusal != ES_REFUSAL_GATE_CLOSED &&
                             refusal != ES_REFUSAL_ROLLED_BACK;
            }
        }
    }
    EXPECT_EQ(n_refused, 0);
    es_policy_destroy(policy);
    es_device_close(device);
    hosts_destroy(&hosts);
}

TEST(greedy_takes_the_most_likely) {
    Hosts hosts;
    EsDevice *device = open_cpu();
    hosts_create(&hosts, 3, 4);
    EsPolicy *policy = create_learned(&hosts, device, 5);
    es_policy_set_greedy(policy, 1);
    for (int32_t step = 0; step < hosts.settings.episode_steps; step++) {
        hosts_step(&hosts, policy);
        const EsActionStats *action_stats = es_policy_action_stats(policy);
        for (int64_t e = 0; e < hosts.state.n_envs; e++) {
            int n_legal = __builtin_popcount(hosts.masks[e].head[ES_HEAD_OP]);
            EXPECT((double)action_stats[e].confidence >= 1.0 / n_legal - 1e-6);
            EXPECT_EQ(action_stats[e].is_forced, n_legal == 1);
            EXPECT(action_stats[e].entropy >= 0 && (double)action_stats[e].entropy <= 1 + 1e-6);
        }
    }
    es_policy_destroy(policy);
    es_device_close(device);
    hosts_destroy(&hosts);
}

// Every head's probabilities are those that the draw had, for both versions, with a budget and
// greedy; no other kind has any, nor a policy that has not decided yet.
TEST(probabilities_of_heads_are_those_of_the_draw) {
    EsDevice *device = open_cpu();
    int n_narrowed = 0;
    for (int i = 0; i < 8; i++) {
        Hosts hosts;
        int version = 1 + i % 2;
        hosts_create(&hosts, 3, 6);
        if (i & 2) {
            hosts_limit(&hosts);
        }
        EsPolicy *policy = create_version(&hosts, device, version, 5);
        es_policy_set_greedy(policy, i >= 4);
        hosts_begin(&hosts, 0);
        REQUIRE_OK(es_policy_begin(policy, 0));
        EsAction wait = es_action_wait();
        double p[ES_SLOTS_MAX];
        hosts_measure(&hosts);
        EXPECT(!es_policy_head_probabilities(policy, 0, hosts.masks, &wait, ES_HEAD_OP, p));
        hosts_begin(&hosts, 0);
        for (int32_t step = 0; step < hosts.settings.episode_steps; step++) {
            hosts_step(&hosts, policy);
            const EsLearned *learned = &policy->learned;
            for (int64_t e = 0; e < hosts.state.n_envs; e++) {
                const EsAction *action = &hosts.actions[e];
                EsLogits own = logits_of(policy, learned->network->acting.logits.host, e);
                EXPECT_NEAR(check_head_probabilities(policy, e, &hosts.masks[e], action),
                            acted_log_probability(&own, &hosts.masks[e], learned->floor, action),
                            1e-12);
                n_narrowed += is_narrowed(&hosts.masks[e], &hosts.actions[e]);
            }
        }
        es_policy_destroy(policy);
        policy = open_policy("random", &hosts, NULL, 1);
        hosts_begin(&hosts, 0);
        hosts_step(&hosts, policy);
        EXPECT(!es_policy_head_probabilities(policy, 0, hosts.masks, hosts.actions, ES_HEAD_OP, p));
        es_policy_destroy(policy);
        hosts_destroy(&hosts);
    }
    EXPECT(n_narrowed > 10);
    es_device_close(device);
}

// After a rollback the network decides as one that has seen nothing yet.
TEST(a_rollback_is_forgotten) {
    Hosts hosts, same;
    EsDevice *device = open_cpu();
    hosts_create(&hosts, 2, 3);
    hosts_create(&same, 2, 3);
    EsPolicy *policy = create_learned(&hosts, device, 5);
    EsPolicy *fresh = create_learned(&same, device, 5);
    hosts.nan_env = 1;
    hosts.nan_step = 4;
    for (int step = 1; step <= 4; step++) {
        hosts_step(&hosts, policy);
    }
    EXPECT_EQ(hosts.state.env.refusal[1], ES_REFUSAL_ROLLED_BACK);
    EXPECT(hosts.state.env.refusal[0] != ES_REFUSAL_ROLLED_BACK);
    hosts_measure(&hosts);
    REQUIRE_OK(es_policy_decide(policy, &hosts.state, hosts.masks, hosts.actions));
    // the same states, at the first step of a fresh network
    EsAction actions[3];
    REQUIRE_OK(es_policy_decide(fresh, &hosts.state, hosts.masks, actions));
    EXPECT(es_policy_action_stats(policy)[1].value == es_policy_action_stats(fresh)[1].value);
    EXPECT(es_policy_action_stats(policy)[0].value != es_policy_action_stats(fresh)[0].value);
    es_policy_destroy(policy);
    es_policy_destroy(fresh);
    es_device_close(device);
    hosts_destroy(&hosts);
    hosts_destroy(&same);
}

// A file for es_policy_open: the same actions as the policy that wrote it.
TEST(a_file_decides_alike) {
    Hosts hosts;
    EsDevice *device = open_cpu();
    hosts_create(&hosts, 3, 4);
    EsPolicy *policy = create_learned(&hosts, device, 5), *opened = NULL;
    EsPpoReport report;
    hosts_play(&hosts, policy, 0, &report); // weights and normaliser have moved
    const char *path = temp_path("policy.safetensors");
    REQUIRE_OK(es_policy_save(policy, path));
    opened = open_policy(path, &hosts, device, 5);
    EXPECT_EQ(es_policy_kind(opened), ES_POLICY_LEARNED);
    EXPECT_EQ(strlen(es_policy_hash(opened)), 64);
    EXPECT(play_hash(&hosts, opened, 8, 1) == play_hash(&hosts, policy, 8, 1));
    // a host with other slots is refused
    Hosts others;
    hosts_create(&others, 2, 4);
    EsPolicyContext context = hosts_context(&others, device, 5);
    EsPolicy *refused = NULL;
    EXPECT_STATUS(es_policy_open(path, &context, &refused), INPUT);
    EXPECT(refused == NULL);
    es_policy_destroy(policy);
    es_policy_destroy(opened);
    es_device_close(device);
    hosts_destroy(&hosts);
    hosts_destroy(&others);
}
