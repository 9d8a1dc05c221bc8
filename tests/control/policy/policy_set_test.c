// Policies of version 2: slots as a set. What does not depend on their order and number, one file
// for hosts of any size, the ranges that it is refused outside of, and the same bits again.
#include "control/policy_case.h"
#include "control/ruled_hosts.h"
#include "control/rules/sampling_rules.h"
#include "mutate.h"
#include "network/graph/graph.h"
#include "temp_folder.h"

#define N_SLOTS_MAX 12

static EsPolicySpec set_spec(int n_slots, int n_hidden) {
    EsPolicySpec spec = es_policy_spec_default(n_slots, n_hidden);
    spec.is_set = 1;
    return spec;
}

// Hosts whose slots differ in place and cost.
static void set_hosts_create(Hosts *hosts, int32_t n_slots, int32_t n_envs) {
    hosts_create(hosts, n_slots, n_envs);
    EsGrowthSettings *g = &hosts->settings;
    g->n_host_parameters = 500;
    g->n_classes = 10;
    g->n_blocks = n_slots;
    for (int32_t s = 0; s < n_slots; s++) {
        g->slot_channels[s] = 4 + 4 * s;
        g->slot_side[s] = 32 >> (s / 3);
        g->slot_pool[s] = s % 3;
        g->gate_parameters[s] = 7;
        for (int b = 1; b < ES_N_BLUEPRINT_IDS; b++) {
            g->blueprint_parameters[s][b] = 20 * b + 5 * s;
        }
    }
}

static EsPolicy *create_set_policy(const Hosts *hosts, EsDevice *device, uint64_t seed) {
    EsPolicy *policy = NULL;
    EsPolicySpec spec = set_spec(hosts->state.n_slots, 32);
    EsPpoSettings ppo = es_policy_ppo_defaults();
    EsPolicyContext context = hosts_context(hosts, device, seed);
    REQUIRE_OK(es_policy_create(&spec, &ppo, &context, hosts->settings.episode_steps, &policy));
    return policy;
}

static EsStatus open_set_policy(const char *path, const Hosts *hosts, EsDevice *device,
                                EsPolicy **policy) {
    EsPolicyContext context = hosts_context(hosts, device, 3);
    return es_policy_open(path, &context, policy);
}

// --- the table ---

TEST(variants_of_heads) {
    static const int n_variants[] = {5, 1, 2, 1, 2, 2, 2, 1};
    for (int head = 0; head < ES_N_HEADS; head++) {
        EXPECT_EQ(es_head_variants(head), n_variants[head]);
    }
    EXPECT_EQ(es_head_variant(ES_HEAD_SLOT, ES_GROWTH_OP_GERMINATE), 0);
    EXPECT_EQ(es_head_variant(ES_HEAD_SLOT, ES_GROWTH_OP_ADVANCE), 4);
    EXPECT_EQ(es_head_variant(ES_HEAD_SLOT, ES_GROWTH_OP_WAIT), -1);
    EXPECT_EQ(es_head_variant(ES_HEAD_STYLE, ES_GROWTH_OP_SET_ALPHA_TARGET), 1);
    EXPECT_EQ(es_head_variant(ES_HEAD_ALPHA_SPEED, ES_GROWTH_OP_SET_ALPHA_TARGET), 0);
    EXPECT_EQ(es_head_variant(ES_HEAD_ALPHA_SPEED, ES_GROWTH_OP_PRUNE), 1);
    EXPECT_EQ(es_head_variant(ES_HEAD_BLUEPRINT, ES_GROWTH_OP_PRUNE), -1);
    EXPECT_EQ(es_choice_table_size(1), 6 + 53);
    EXPECT_EQ(es_choice_table_size(12), 6 + 12 * 53);
}

// Acting knows nothing of what will be drawn, training is told: both give the same logits for it.
TEST(the_table_has_what_training_reads) {
    for (int n_slots = 1; n_slots <= 6; n_slots += 5) {
        PolicyCase test = create_case(set_spec(n_slots, 24), 24, 1, 1, 0);
        shake_parameters(&test, 0.2f);
        EsOutputs trained = run_forward(&test, 0), acted;
        REQUIRE_OK(es_policy_inference_act(test.network, test.rollout->features, test.rollout->ids,
                                           0, &acted));
        EsPolicyShape shape = test.rollout->shape.policy;
        int64_t size = es_choice_table_size(n_slots), n_compared = 0;
        for (int64_t e = 0; e < 24; e++) {
            const int16_t *action = test.rollout->action + e * ES_N_HEADS;
            const float *row = trained.logits + e * shape.n_logits;
            EXPECT_NEAR(acted.value[e], trained.value[e], 1e-5);
            for (int head = 0; head < ES_N_HEADS; row += shape.head_size[head++]) {
                float scores[N_SLOTS_MAX];
                int op = action[ES_HEAD_OP];
                if (!es_head_matters(op, head)) {
                    continue;
                }
                const float *z = es_choice_table_logits(acted.logits + e * size, n_slots, head, op,
                                                        action[ES_HEAD_SLOT], scores);
                for (int i = 0; i < shape.head_size[head]; i++, n_compared++) {
                    EXPECT_NEAR(z[i], row[i], 1e-5);
                }
            }
        }
        EXPECT(n_compared > 200);
        destroy_case(&test);
    }
}

// --- order and number of slots ---

TEST(the_order_of_slots_changes_their_order_alone) {
    enum { S = 5, E = 3 };
    static const int from[S] = {3, 0, 4, 1, 2};
    PolicyCase test = create_case(set_spec(S, 32), E, 1, 1, 0);
    shake_parameters(&test, 0.2f);
    int64_t D = es_set_observation_size(S), size = es_choice_table_size(S);
    float before[E * (6 + 53 * S)], values[E], features[E * (39 + 66 * S)];
    int32_t ids[E * S];
    EsOutputs outputs;
    const float *given = test.rollout->features;
    REQUIRE_OK(es_policy_inference_act(test.network, given, test.rollout->ids, 1, &outputs));
    memcpy(before, outputs.logits, sizeof before);
    memcpy(values, outputs.value, sizeof values);
    for (int e = 0; e < E; e++) {
        memcpy(features + e * D, given + e * D, 39 * sizeof(float));
        for (int s = 0; s < S; s++) {
            memcpy(features + e * D + 39 + 66 * s, given + e * D + 39 + (ptrdiff_t)66 * from[s],
                   66 * sizeof(float));
            ids[e * S + s] = test.rollout->ids[e * S + from[s]];
        }
    }
    REQUIRE_OK(es_policy_inference_act(test.network, features, ids, 1, &outputs));
    for (int e = 0; e < E; e++) {
        EXPECT_NEAR(outputs.value[e], values[e], 1e-5);
        const float *now = outputs.logits + e * size, *then = before + e * size;
        for (int i = 0; i < 6; i++) {
            EXPECT_NEAR(now[i], then[i], 1e-5);
        }
        for (int i = 0; i < 53 * S; i++) {
            EXPECT_NEAR(now[6 + i], then[6 + 53 * from[i / 53] + i % 53], 1e-5);
        }
        EXPECT(fabsf(then[6] - then[6 + 53]) > 1e-3f); // slots do differ
    }
    destroy_case(&test);
}

TEST(parameters_do_not_depend_on_slots) {
    EsPolicySpec spec = set_spec(1, 64);
    EsDevice *device = open_cpu();
    int64_t expected = es_policy_spec_count(&spec);
    for (spec.n_slots = 1; spec.n_slots <= ES_SLOTS_MAX; spec.n_slots += 3) {
        EsPolicyNetwork *network = NULL;
        REQUIRE_OK(es_policy_network_create(device, &spec, 2, 0, &network));
        EXPECT_EQ(es_policy_spec_count(&spec), expected);
        EXPECT_EQ(es_graph_parameter_count(es_policy_network_graph(network)), expected);
        es_policy_network_destroy(network);
    }
    es_device_close(device);
}

// --- one file ---

// Trained on two slots and 30 steps, played on others.
TEST(one_file_plays_any_number_of_slots) {
    static const int counts[] = {1, 2, 4, 6, 12};
    static Hosts hosts, others;
    EsDevice *device = open_cpu();
    EsPpoReport report;
    set_hosts_create(&hosts, 2, 4);
    EsPolicy *policy = create_set_policy(&hosts, device, 5), *opened = NULL;
    hosts_play(&hosts, policy, 0, &report);
    const char *path = temp_path("set.safetensors");
    REQUIRE_OK(es_policy_save(policy, path));
    for (size_t i = 0; i < ES_COUNT_OF(counts); i++) {
        set_hosts_create(&others, counts[i], 4);
        others.settings.episode_steps = 20 + 40 * (int32_t)i;
        others.settings.training_dwell = 1 + (int32_t)i;
        others.settings.tempo[2] = 9;
        others.settings.max_seeds = 3;
        others.settings.blueprints = ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_NORM);
        REQUIRE_OK(open_set_policy(path, &others, device, &opened));
        hosts_play(&others, opened, 0, NULL);
        EXPECT(others.state.env.n_germinated[0] > 0);
        es_policy_destroy(opened);
        hosts_destroy(&others);
    }
    es_policy_destroy(policy);
    hosts_destroy(&hosts);
    es_device_close(device);
}

static void expect_no_play(const char *path, const Hosts *hosts, EsDevice *device,
                           const char *part) {
    EsPolicy *opened = NULL;
    EXPECT_STATUS(open_set_policy(path, hosts, device, &opened), INPUT);
    EXPECT_CONTAINS(es_status_detail(), path);
    EXPECT_CONTAINS(es_status_detail(), part);
    EXPECT(opened == NULL);
}

TEST(hosts_out_of_range_are_refused) {
    static Hosts hosts, others;
    EsDevice *device = open_cpu();
    set_hosts_create(&hosts, 2, 4);
    EsPolicy *policy = create_set_policy(&hosts, device, 5);
    const char *path = temp_path("set.safetensors");
    REQUIRE_OK(es_policy_save(policy, path));
    set_hosts_create(&others, 13, 4);
    expect_no_play(path, &others, device,
                   "1 to 12 slots; this run has 13 (--slots or --tasks.slots)");
    hosts_destroy(&others);
    set_hosts_create(&others, 3, 4);
    const EsGrowthSettings good = others.settings;
    others.settings.episode_steps = 19;
    expect_no_play(path, &others, device,
                   "20 to 300 steps; this run has 19 (--episode-steps or --tasks.steps)");
    others.settings.episode_steps = 301;
    expect_no_play(path, &others, device, "this run has 301");
    others.settings = good;
    others.settings.max_parameters = 499;
    expect_no_play(path, &others, device, "1 to 100 times the host's parameters");
    others.settings = good;
    others.settings.blueprints |= ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_MLP);
    expect_no_play(path, &others, device, "blueprints");
    others.settings = good;
    others.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    expect_no_play(path, &others, device, "--grow.auto_forward=off");
    others.settings = good;
    others.settings.alpha_target[0] = 0.25f;
    expect_no_play(path, &others, device, "alpha_target");
    es_policy_destroy(policy);
    hosts_destroy(&others);
    hosts_destroy(&hosts);
    es_device_close(device);
}

// A policy that was trained outside of the usual ranges plays what it was trained on.
TEST(its_own_host_is_in_range) {
    static Hosts hosts;
    EsDevice *device = open_cpu();
    set_hosts_create(&hosts, 14, 4);
    hosts.settings.episode_steps = 12;
    hosts.settings.max_parameters = 400; // less than the host itself
    EsPolicy *policy = create_set_policy(&hosts, device, 5), *opened = NULL;
    const char *path = temp_path("own.safetensors");
    REQUIRE_OK(es_policy_save(policy, path));
    REQUIRE_OK(open_set_policy(path, &hosts, device, &opened));
    es_policy_destroy(opened);
    es_policy_destroy(policy);
    hosts_destroy(&hosts);
    es_device_close(device);
}

// A file says what its training covered beside what it accepts, and hosts beyond the first are
// named; one from before it did so says the largest of its training.
TEST(hosts_outside_of_the_training_are_named) {
    static Hosts hosts, others;
    char text[ES_POLICY_OUTSIDE_BYTES];
    EsDevice *device = open_cpu();
    set_hosts_create(&hosts, 2, 4);
    hosts.settings.episode_steps = 30;
    hosts.settings.n_host_parameters = 100;
    EsPolicy *policy = create_set_policy(&hosts, device, 5), *opened = NULL;
    EsGrowthSettings also = hosts.settings;
    also.n_slots = 4;
    also.episode_steps = 50;
    es_policy_include_host(policy, &also);
    const char *path = temp_path("covered.safetensors"), *old = temp_path("old.safetensors");
    REQUIRE_OK(es_policy_save(policy, path));
    REQUIRE_OK(open_set_policy(path, &hosts, device, &opened));
    EXPECT_EQ(es_policy_describe_outside(opened, &hosts.settings, text), 0);
    EXPECT_EQ(es_policy_describe_outside(opened, &also, text), 0);
    es_policy_destroy(opened);
    set_hosts_create(&others, 5, 4);
    others.settings.episode_steps = 60;
    others.settings.n_host_parameters = 100;
    others.settings.max_parameters = 300;
    REQUIRE_OK(open_set_policy(path, &others, device, &opened));
    EXPECT_EQ(es_policy_describe_outside(opened, &others.settings, text), 1);
    EXPECT_CONTAINS(text, "5 slots (in training 2 to 4), 60 steps (in training 30 to 50), 3 times "
                          "the host's parameters (in training none)");
    es_policy_destroy(opened);
    craft_metadata(path, old, "trained", NULL);
    REQUIRE_OK(open_set_policy(old, &others, device, &opened));
    EXPECT_EQ(es_policy_describe_outside(opened, &others.settings, text), 1);
    EXPECT_CONTAINS(text, "5 slots (in training 1 to 2), 60 steps (in training 20 to 30)");
    es_policy_destroy(opened);
    es_policy_destroy(policy);
    hosts_destroy(&others);
    hosts_destroy(&hosts);
    es_device_close(device);
}

TEST(hostile_files_are_refused) {
    static const struct {
        const char *key, *value, *part;
    } rows[] = {
        {"ranges", NULL, "\"ranges\" is missing"},
        {"ranges", "[]", "ranges is not a JSON object"},
        {"ranges", "{", "ranges is not a JSON object"},
        {"ranges", "{\"slots\": [1, 12], \"steps\": [20, 300]}", "ranges is not a JSON object"},
        {"ranges", "{\"slots\": 3, \"steps\": [20, 300], \"budget\": [1, 2]}", "\"slots\""},
        {"ranges", "{\"slots\": [1, 2, 3], \"steps\": [20, 300], \"budget\": [1, 2]}", "\"slots\""},
        {"ranges", "{\"slots\": [0, 12], \"steps\": [20, 300], \"budget\": [1, 2]}", "\"slots\""},
        {"ranges", "{\"slots\": [1, 17], \"steps\": [20, 300], \"budget\": [1, 2]}", "\"slots\""},
        {"ranges", "{\"slots\": [1, 2.5], \"steps\": [20, 300], \"budget\": [1, 2]}", "\"slots\""},
        {"ranges", "{\"slots\": [1, 12], \"steps\": [30, 20], \"budget\": [1, 2]}", "\"steps\""},
        {"ranges", "{\"slots\": [1, 12], \"steps\": [20, 300], \"budget\": [-1, 2]}", "\"budget\""},
        {"ranges", "{\"slots\": [1, 12], \"steps\": [20, 300], \"budget\": [\"1\", 2]}",
         "\"budget\""},
        {"trained", "{}", "trained is not a JSON object"},
        {"trained", "{\"slots\": [2, 1], \"steps\": [20, 30], \"budget\": [0, 0]}",
         "trained: \"slots\""},
        {"trained", "{\"slots\": [1, 2], \"steps\": [20, 30], \"budget\": [0, 2]}",
         "trained: \"budget\""},
        {"version", "1", "observations of version 2"},
        {"version", "3", "version 3"},
        {"observation", "1", "observations of version 1"},
        {"network",
         "{\"n_slots\": 2, \"n_hidden\": 32, \"n_features\": 64, \"dropout\": 0.1, \"aux_stops\": "
         "1}",
         "\"host.bias\""},
    };
    static Hosts hosts;
    EsDevice *device = open_cpu();
    set_hosts_create(&hosts, 2, 4);
    EsPolicy *policy = create_set_policy(&hosts, device, 5);
    const char *path = temp_path("set.safetensors"), *crafted = temp_path("crafted.safetensors");
    REQUIRE_OK(es_policy_save(policy, path));
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        craft_metadata(path, crafted, rows[i].key, rows[i].value);
        expect_no_play(crafted, &hosts, device, rows[i].part);
    }
    craft_number(path, crafted, "slot.linear1.weight", 1, &(float){NAN}, 4);
    expect_no_play(crafted, &hosts, device, "slot.linear1.weight[1] is ");
    es_policy_destroy(policy);
    hosts_destroy(&hosts);
    es_device_close(device);
}

// --- the same bits ---

// The whole training state after some rounds.
static void train_rounds(Hosts *hosts, EsPolicy *policy, int first, int n) {
    EsPpoReport report;
    for (int round = first; round < first + n; round++) {
        hosts_play(hosts, policy, round * 4, &report);
    }
}

static FileBytes training_bytes(const EsPolicy *policy, const char *name) {
    const char *path = temp_path(name);
    REQUIRE_OK(es_policy_training_save(policy, path));
    return read_bytes(path);
}

static void expect_same_bytes(FileBytes a, FileBytes b) {
    EXPECT_EQ(a.count, b.count);
    EXPECT(a.count == b.count && memcmp(a.bytes, b.bytes, a.count) == 0);
    es_release(a.bytes);
    es_release(b.bytes);
}

TEST(threads_change_no_bit) {
    static Hosts hosts;
    FileBytes files[2];
    for (int i = 0; i < 2; i++) {
        EsDevice *device = NULL;
        REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1 + 2 * i}, &device));
        set_hosts_create(&hosts, 3, 4);
        EsPolicy *policy = create_set_policy(&hosts, device, 5);
        train_rounds(&hosts, policy, 0, 2);
        files[i] = training_bytes(policy, i == 0 ? "one" : "three");
        es_policy_destroy(policy);
        hosts_destroy(&hosts);
        es_device_close(device);
    }
    expect_same_bytes(files[0], files[1]);
}

TEST(a_training_goes_on_with_the_same_bits) {
    static Hosts hosts;
    EsDevice *device = open_cpu();
    set_hosts_create(&hosts, 3, 4);
    EsPolicy *whole = create_set_policy(&hosts, device, 5);
    train_rounds(&hosts, whole, 0, 3);
    EsPolicy *first = create_set_policy(&hosts, device, 5);
    train_rounds(&hosts, first, 0, 2);
    const char *path = temp_path("training");
    REQUIRE_OK(es_policy_training_save(first, path));
    EsPolicy *second = create_set_policy(&hosts, device, 5); // its fresh weights are replaced
    REQUIRE_OK(es_policy_training_load(second, path));
    train_rounds(&hosts, second, 2, 1);
    expect_same_bytes(training_bytes(whole, "whole"), training_bytes(second, "resumed"));
    es_policy_destroy(whole);
    es_policy_destroy(first);
    es_policy_destroy(second);
    hosts_destroy(&hosts);
    es_device_close(device);
}

// --- learning ---

// Only heads that the operation read are available: a head's entropy is that of a distribution
// which was drawn from.
TEST(rows_say_which_heads_have_logits) {
    static Hosts hosts;
    EsDevice *device = open_cpu();
    set_hosts_create(&hosts, 3, 4);
    EsPolicy *policy = create_set_policy(&hosts, device, 5);
    hosts_play(&hosts, policy, 0, NULL);
    const EsRollout *rollout = policy->learned.rollout;
    int64_t n_germinated = 0;
    for (int64_t row = 0; row < rollout->n_rows; row++) {
        int op = rollout->action[row * ES_N_HEADS + ES_HEAD_OP];
        EXPECT_EQ(rollout->available[row], (uint32_t)es_growth_op_heads(op));
        EXPECT_EQ(rollout->used[row], rollout->available[row]);
        n_germinated += op == ES_GROWTH_OP_GERMINATE;
    }
    EXPECT(n_germinated > 0);
    es_policy_destroy(policy);
    hosts_destroy(&hosts);
    es_device_close(device);
}

// Of three slots one pays: the slot head finds it by its place, and finds it again when the slots
// stand in another order.
TEST(the_slot_head_learns_places) {
    enum { S = 3, E = 16 };
    EsDevice *device = open_cpu();
    EsPolicySpec spec = set_spec(S, 32);
    PolicyCase test = create_case(spec, E, 1, 1, 0);
    float gradient[E * (S + 38)];
    EsOutputs gradients = {.logits = gradient}, outputs = {0};
    EsStepReport report;
    EsPolicyShape shape = es_policy_spec_shape(&spec);
    int64_t D = es_set_observation_size(S);
    memset(test.rollout->features, 0, sizeof(float) * (size_t)(E * D));
    for (int e = 0; e < E; e++) {
        for (int s = 0; s < S; s++) { // the slot at depth 1 stands anywhere
            test.rollout->features[e * D + 39 + 66 * s] = s == e % S ? 1.0f : 0.3f;
        }
        test.rollout->action[e * ES_N_HEADS + ES_HEAD_OP] = ES_GROWTH_OP_GERMINATE;
    }
    for (int64_t i = 0; i < E * S; i++) {
        test.rollout->ids[i] = 13;
    }
    for (int step = 0; step < 200; step++) {
        REQUIRE_OK(test.model.begin(test.network, test.rollout));
        REQUIRE_OK(test.model.forward(test.network, (uint32_t)step, &outputs));
        memset(gradient, 0, sizeof gradient);
        for (int e = 0; e < E; e++) {
            double p[S];
            es_choice_probabilities(outputs.logits + e * shape.n_logits, S, 7, 0, p);
            es_choice_gradient(p, S, 7, S, 0, e % S, -1.0 / E, 0, gradient + e * shape.n_logits);
        }
        REQUIRE_OK(test.model.step(test.network, &gradients, 0.003f, 1.0f, &report));
    }
    for (int e = 0; e < E; e++) {
        double p[S];
        es_choice_probabilities(outputs.logits + e * shape.n_logits, S, 7, 0, p);
        EXPECT(p[e % S] > 0.95);
    }
    destroy_case(&test);
    es_device_close(device);
}

TEST(cuda_is_refused) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    EsDevice *device = NULL;
    EsPolicySpec spec = set_spec(2, 32);
    EsPolicyNetwork *network = NULL;
    REQUIRE_OK(es_device_open("cuda", NULL, &device));
    EXPECT_STATUS(es_policy_network_create(device, &spec, 2, 0, &network), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "use --device cpu");
    es_device_close(device);
}
