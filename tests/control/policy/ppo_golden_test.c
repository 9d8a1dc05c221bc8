// Whole PPO updates of the policy network against PyTorch in float64 with autograd
// (tools/record_ppo): outputs, every loss, the gradient of every parameter, parameters after one,
// two and three epochs, normalisers, report. Two networks: with a projection behind the feature
// layer, clipped gradients and fresh scales; without, unclipped, with scales from earlier rounds.
//
// Tensors are compared by the largest difference over the largest recorded value of the tensor:
// float32 against float64 through 12 recurrent steps.
//
// T steps, E environments, K heads.
#include "golden_file.h"

#include "control/policy/policy_training.h"

#define BOUND 2e-5
#define K     8 // heads

// A network with the recorded weights, a rollout with the recorded rows, PPO ready for one update.
typedef struct Bench {
    EsSafetensors *file;
    EsDevice *device;
    EsPolicyNetwork *network;
    EsRollout *rollout;
    EsPpo *ppo;
    EsPpoModel model;
    int64_t T, E, S;
    int n_epochs;
} Bench;

// Largest difference over the largest expected value. Where all of them are 0 nothing else will do.
static void compare_tensor(const char *prefix, const char *name, const float *actual,
                           const float *expected, int64_t count) {
    double difference = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        // written so that NaN shows
        double distance = fabs((double)actual[i] - (double)expected[i]);
        difference = distance <= difference ? difference : distance;
        largest = fmax(largest, fabs((double)expected[i]));
    }
    if (!(difference <= BOUND * largest)) {
        ES_TEST_FAIL("%s%s differs by %.3g, its largest value is %.3g", prefix, name, difference,
                     largest);
    }
}

static void compare_number(const Bench *b, const char *name, double actual) {
    double expected = (double)golden_float(b->file, name);
    if (!(fabs(actual - expected) <= BOUND * fabs(expected) + 1e-6)) {
        ES_TEST_FAIL("%s is %.9g, expected %.9g", name, actual, expected);
    }
}

// --- set-up ---

// Visit all parameters: `start.NAME` is written to the network, or what the network has is compared
// with `<prefix>NAME`, times `factor`.
static void each_parameter(Bench *b, const char *prefix, int is_loading, int of_gradients,
                           double factor) {
    const EsGraph *graph = es_policy_network_graph(b->network);
    EsStore *store = es_policy_network_store(b->network);
    int n_found = 0;
    int64_t n_numbers = 0;
    for (EsValueId v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role != ES_ROLE_PARAMETER) {
            continue;
        }
        char name[160];
        snprintf(name, sizeof name, "%s%s", prefix, value->name);
        int64_t count = es_value_count(value);
        const float *recorded = golden_floats(b->file, name, count);
        float *ours = es_store_tensor(store, graph, v).data;
        if (is_loading) {
            memcpy(ours, recorded, (size_t)count * sizeof(float));
        } else {
            float *slab = of_gradients ? store->gradients.data : store->parameters.data;
            ours = slab + (ours - (float *)store->parameters.data);
            float *expected = malloc((size_t)count * sizeof(float));
            ES_ASSERT(expected != NULL);
            for (int64_t i = 0; i < count; i++) {
                expected[i] = (float)((double)recorded[i] * factor);
            }
            compare_tensor(prefix, value->name, ours, expected, count);
            free(expected);
        }
        n_found++;
        n_numbers += count;
    }
    EXPECT_EQ(n_found, golden_count(b->file, prefix));
    EXPECT_EQ(n_numbers, es_policy_spec_count(es_policy_network_spec(b->network)));
}

static EsPpoSettings read_settings(const EsSafetensors *file) {
    EsPpoSettings settings = es_ppo_defaults();
    settings.bootstraps = 1; // as published
    int n_read = 0;
    float number;
#define X(type, name, start, lowest, highest, help)                                                \
    if (golden_read(file, "settings.", #name, ES_DTYPE_F32, 0, 1, &number)) {                      \
        settings.name = (type)number;                                                              \
        n_read++;                                                                                  \
    }
    ES_PPO_SETTINGS(X)
#undef X
    // heads and n_updates are read apart
    EXPECT_EQ(n_read + 2, golden_count(file, "settings."));
    const float *heads = golden_floats(file, "settings.heads", (int64_t)K * 4);
    for (int k = 0; k < K; k++) {
        settings.head[k].floor = heads[4 * k];
        settings.head[k].entropy_weight = heads[4 * k + 1];
        settings.head[k].entropy_floor = heads[4 * k + 2];
        settings.head[k].floor_penalty = heads[4 * k + 3];
    }
    return settings;
}

static EsScaleNormaliser read_scale(const EsSafetensors *file, const char *name) {
    const float *scale = golden_floats(file, name, 3);
    return (EsScaleNormaliser){(double)scale[0], (double)scale[1], (double)scale[2]};
}

static void take(const EsSafetensors *file, const char *name, EsDtype dtype, int64_t count,
                 void *into) {
    const void *data = golden_data(file, name, dtype, count);
    EsTensor tensor;
    REQUIRE_OK(es_safetensors_find(file, name, &tensor));
    memcpy(into, data, es_tensor_bytes(&tensor));
}

// Rows as they were before episodes broke; then the breaks, through es_rollout_break.
static void fill_rollout(Bench *b) {
    EsRollout *r = b->rollout;
    const EsSafetensors *f = b->file;
    int64_t R = r->n_rows, D = r->shape.n_features;
    const int32_t *action = golden_ints(f, "rows.action", R * K);
    const int64_t *mask = golden_longs(f, "rows.mask", R * K);
    const int64_t *used = golden_longs(f, "rows.used", R);
    const int64_t *available = golden_longs(f, "rows.available", R);
    const int64_t *causal = golden_longs(f, "rows.causal", R);
    take(f, "rows.features", ES_DTYPE_F32, R * D, r->features);
    take(f, "rows.ids", ES_DTYPE_I32, R * b->S, r->ids);
    take(f, "rows.value", ES_DTYPE_F32, R, r->value);
    take(f, "rows.bootstrap", ES_DTYPE_F32, R, r->bootstrap);
    take(f, "rows.target", ES_DTYPE_F32, R * b->S, r->target);
    take(f, "rows.has_target", ES_DTYPE_U8, R * b->S, r->has_target);
    take(f, "rows.is_forced", ES_DTYPE_U8, R, r->is_forced);
    take(f, "before.reward", ES_DTYPE_F32, R, r->reward);
    take(f, "before.is_reset", ES_DTYPE_U8, R, r->is_reset);
    take(f, "before.is_done", ES_DTYPE_U8, R, r->is_done);
    take(f, "before.is_truncated", ES_DTYPE_U8, R, r->is_truncated);
    take(f, "before.is_valid", ES_DTYPE_U8, R, r->is_valid);
    for (int64_t i = 0; i < R; i++) {
        r->used[i] = (uint32_t)used[i];
        r->available[i] = (uint32_t)available[i];
        r->causal[i] = (uint32_t)causal[i];
        for (int64_t k = 0; k < K; k++) {
            r->action[i * K + k] = (int16_t)action[i * K + k];
            r->mask[i * K + k] = (uint64_t)mask[i * K + k];
        }
    }
    const float *breaks = golden_floats(f, "breaks", -1);
    for (int64_t i = 0; i < 2; i++) {
        es_rollout_break(r, (int64_t)breaks[3 * i], (int64_t)breaks[3 * i + 1], breaks[3 * i + 2],
                         0);
    }
}

// Checks the rollout once episodes are broken.
static void check_rollout(const Bench *b) {
    const EsRollout *r = b->rollout;
    const EsSafetensors *f = b->file;
    int64_t R = r->n_rows;
    const uint8_t *is_valid = golden_bytes(f, "rows.is_valid", R);
    for (int64_t i = 0; i < R; i++) {
        EXPECT_EQ(r->is_valid[i], is_valid[i]);
        EXPECT_EQ(r->is_reset[i], golden_bytes(f, "rows.is_reset", R)[i]);
        if (is_valid[i]) {
            EXPECT_EQ(r->is_done[i], golden_bytes(f, "rows.is_done", R)[i]);
            EXPECT_EQ(r->is_truncated[i], golden_bytes(f, "rows.is_truncated", R)[i]);
            EXPECT_NEAR(r->reward[i], golden_floats(f, "rows.reward", R)[i], 1e-6);
        }
    }
}

// target_kl 0: never stop early.
static Bench bench_open(const char *stem, int n_epochs, double target_kl) {
    Bench b = {.file = golden_open(stem), .n_epochs = n_epochs};
    const int32_t *shape = golden_ints(b.file, "shape", 6);
    b.T = shape[0];
    b.E = shape[1];
    b.S = shape[2];
    EsPolicySpec spec = es_policy_spec_default(shape[2], shape[3]);
    spec.n_features = shape[4];
    spec.dropout = 0;
    spec.aux_stops = shape[5];
    EsDeviceOptions options = {.n_threads = 2};
    REQUIRE_OK(es_device_open("cpu", &options, &b.device));
    REQUIRE_OK(es_policy_network_create(b.device, &spec, b.E, b.T, &b.network));
    each_parameter(&b, "start.", 1, 0, 1);
    b.model = es_policy_training_model(b.network);
    EsRolloutShape rows = {.n_steps = b.T,
                           .n_envs = b.E,
                           .n_features = es_observation_size(shape[2]),
                           .n_ids = shape[2],
                           .n_targets = shape[2],
                           .policy = es_policy_spec_shape(&spec)};
    REQUIRE_OK(es_rollout_create(&rows, &b.rollout));
    es_rollout_reset(b.rollout);
    fill_rollout(&b);
    EsPpoSettings settings = read_settings(b.file);
    settings.n_epochs = n_epochs;
    settings.target_kl = (float)target_kl;
    REQUIRE_OK(es_ppo_create(&settings, &rows, &b.ppo));
    EsPpoState *state = es_ppo_state(b.ppo);
    state->rewards = read_scale(b.file, "rewards_before");
    state->values = read_scale(b.file, "values_before");
    state->n_updates = golden_int(b.file, "settings.n_updates");
    return b;
}

static void bench_close(Bench *b) {
    es_ppo_destroy(b->ppo);
    es_rollout_destroy(b->rollout);
    es_policy_network_destroy(b->network);
    es_device_close(b->device);
    es_safetensors_close(b->file);
}

// --- comparisons ---

// Mean over the epochs made of a number recorded per epoch; `width` numbers, the `i`-th.
static double epoch_mean(const Bench *b, const char *name, int64_t width, int64_t i) {
    const float *values = golden_floats(b->file, name, 3 * width);
    double sum = 0;
    for (int epoch = 0; epoch < b->n_epochs; epoch++) {
        sum += (double)values[epoch * width + i];
    }
    return sum / b->n_epochs;
}

static double epoch_extreme(const Bench *b, const char *name, int sign, int64_t width, int64_t i) {
    const float *values = golden_floats(b->file, name, 3 * width);
    double extreme = (double)values[i];
    for (int epoch = 1; epoch < b->n_epochs; epoch++) {
        extreme = sign * fmax(sign * extreme, sign * (double)values[epoch * width + i]);
    }
    return extreme;
}

// relative, above the noise of float32 sums
#define NEAR(actual, expected) EXPECT_NEAR(actual, expected, BOUND *fabs(expected) + 1e-6)

static void check_losses(const Bench *b, const EsPpoReport *r) {
    NEAR(r->policy_loss, epoch_mean(b, "epoch.policy", 1, 0));
    NEAR(r->value_loss, epoch_mean(b, "epoch.value", 1, 0));
    NEAR(r->action_value_loss, epoch_mean(b, "epoch.action_value", 1, 0));
    NEAR(r->auxiliary_loss, epoch_mean(b, "epoch.auxiliary", 1, 0));
    NEAR(r->floor_penalty, epoch_mean(b, "epoch.floor", 1, 0));
    NEAR(r->entropy, epoch_mean(b, "epoch.entropy", 1, 0));
    NEAR(r->kl_divergence, (double)golden_floats(b->file, "epoch.kl", 3)[b->n_epochs - 1]);
    NEAR(r->ratio_mean, epoch_mean(b, "epoch.ratio_mean", 1, 0));
    NEAR(r->clip_fraction, epoch_mean(b, "epoch.clip_fraction", 1, 0));
    NEAR(r->ratio_std, epoch_mean(b, "epoch.ratio_std", 1, 0));
    NEAR(r->ratio_min, epoch_extreme(b, "epoch.ratio_min", -1, 1, 0));
    NEAR(r->ratio_max, epoch_extreme(b, "epoch.ratio_max", 1, 1, 0));
    NEAR(r->gradient_norm, epoch_extreme(b, "epoch.gradient_norm", 1, 1, 0));
    for (int64_t k = 0; k < K; k++) {
        NEAR(r->head_entropy[k], epoch_mean(b, "epoch.head_entropy", K, k));
        NEAR(r->head_clip_fraction[k], epoch_mean(b, "epoch.head_clip_fraction", K, k));
        NEAR(r->head_ratio_max[k], epoch_extreme(b, "epoch.head_ratio_max", 1, K, k));
        NEAR(r->head_norm[k], epoch_extreme(b, "epoch.part_norm", 1, K + 2, k));
    }
    NEAR(r->value_norm, epoch_extreme(b, "epoch.part_norm", 1, K + 2, K));
    NEAR(r->action_value_norm, epoch_extreme(b, "epoch.part_norm", 1, K + 2, K + 1));
}

static void check_report(const Bench *b, const EsPpoReport *r) {
    compare_number(b, "report.advantage_mean", r->advantage_mean);
    compare_number(b, "report.advantage_std", r->advantage_std);
    compare_number(b, "report.advantage_skew", r->advantage_skew);
    compare_number(b, "report.advantage_kurtosis", r->advantage_kurtosis);
    compare_number(b, "report.advantage_positive", r->advantage_positive);
    compare_number(b, "report.return_mean", r->return_mean);
    compare_number(b, "report.explained_variance", r->explained_variance);
    compare_number(b, "report.value_correlation", r->value_correlation);
    compare_number(b, "report.bellman_error", r->bellman_error);
    compare_number(b, "report.td_mean", r->td_mean);
    compare_number(b, "report.forced_ratio", r->forced_ratio);
    compare_number(b, "report.value_scale", r->value_scale);
    compare_number(b, "report.reward_scale", r->reward_scale);
    EXPECT_EQ(r->n_valid, golden_int(b->file, "report.n_valid"));
    EXPECT_EQ(r->n_usable_steps, golden_int(b->file, "report.n_usable_steps"));
    EXPECT_EQ(r->n_nonfinite, 0);
    EXPECT_EQ(r->is_skipped, 0);
}

static void check_scale(const Bench *b, const char *name, const EsScaleNormaliser *scale) {
    const float *expected = golden_floats(b->file, name, 3);
    NEAR(scale->mean, (double)expected[0]);
    NEAR(scale->variance, (double)expected[1]);
    EXPECT_NEAR(scale->n_samples, expected[2], 0);
}

static void check_advantages(const Bench *b) {
    const EsRollout *r = b->rollout;
    struct {
        const char *name;
        const float *values;
    } const columns[] = {{"scaled_reward", r->scaled_reward},
                         {"td_error", r->td_error},
                         {"advantage", r->advantage},
                         {"returns", r->returns}};
    for (size_t i = 0; i < ES_COUNT_OF(columns); i++) {
        compare_tensor("", columns[i].name, columns[i].values,
                       golden_floats(b->file, columns[i].name, r->n_rows), r->n_rows);
    }
}

// One update of n_epochs; everything that it left behind is compared.
static void update_and_compare(const char *stem, int n_epochs) {
    Bench b = bench_open(stem, n_epochs, 0);
    EsPpoReport report;
    REQUIRE_OK(es_ppo_update(b.ppo, b.rollout, &b.model, &report));
    EXPECT_EQ(report.n_epochs, n_epochs);
    EXPECT_EQ(report.is_stopped, 0);
    check_losses(&b, &report);
    check_report(&b, &report);
    check_advantages(&b);
    check_scale(&b, "rewards_after", &es_ppo_state(b.ppo)->rewards);
    check_scale(&b, "values_after", &es_ppo_state(b.ppo)->values);
    EXPECT_EQ(es_ppo_state(b.ppo)->n_updates, golden_int(b.file, "settings.n_updates") + 1);
    char prefix[16];
    snprintf(prefix, sizeof prefix, "step%d.", n_epochs);
    each_parameter(&b, prefix, 0, 0, 1);
    if (n_epochs == 1) {
        double max_norm = (double)golden_float(b.file, "settings.max_norm");
        double norm = (double)golden_floats(b.file, "epoch.gradient_norm", 3)[0];
        int is_clipped = max_norm > 0 && norm > max_norm;
        each_parameter(&b, "gradient.", 0, 1, is_clipped ? max_norm / (norm + 1e-6) : 1);
    }
    bench_close(&b);
}

// --- tests ---

static const char *const stems[] = {"ppo_projected", "ppo_plain"};

TEST(broken_episodes) {
    for (size_t i = 0; i < ES_COUNT_OF(stems); i++) {
        Bench b = bench_open(stems[i], 1, 0);
        check_rollout(&b);
        bench_close(&b);
    }
}

TEST(outputs_of_the_network) {
    for (size_t i = 0; i < ES_COUNT_OF(stems); i++) {
        Bench b = bench_open(stems[i], 1, 0);
        EsOutputs outputs;
        REQUIRE_OK(b.model.begin(b.model.context, b.rollout));
        REQUIRE_OK(b.model.forward(b.model.context, 0, &outputs));
        int64_t R = b.rollout->n_rows, A = b.rollout->shape.policy.n_logits;
        struct {
            const char *name;
            const float *values;
            int64_t count;
        } const columns[] = {{"output.logits", outputs.logits, R * A},
                             {"output.value", outputs.value, R},
                             {"output.action_value", outputs.action_value, R},
                             {"output.auxiliary", outputs.auxiliary, R * b.S}};
        for (size_t k = 0; k < ES_COUNT_OF(columns); k++) {
            compare_tensor("", columns[k].name, columns[k].values,
                           golden_floats(b.file, columns[k].name, columns[k].count),
                           columns[k].count);
        }
        bench_close(&b);
    }
}

TEST(one_epoch_with_projection) { update_and_compare("ppo_projected", 1); }

TEST(one_epoch_without_projection) { update_and_compare("ppo_plain", 1); }

TEST(three_epochs_with_projection) { update_and_compare("ppo_projected", 3); }

TEST(three_epochs_without_projection) { update_and_compare("ppo_plain", 3); }

// The divergence grows from epoch to epoch; a bound between those of the second and the third makes
// the third the one that is not taken.
TEST(divergence_stops_an_update) {
    for (size_t i = 0; i < ES_COUNT_OF(stems); i++) {
        EsSafetensors *file = golden_open(stems[i]);
        const float *kl = golden_floats(file, "epoch.kl", 3);
        double target = ((double)kl[1] + (double)kl[2]) / 2 / 1.5;
        es_safetensors_close(file);
        Bench b = bench_open(stems[i], 3, target);
        EsPpoReport report;
        REQUIRE_OK(es_ppo_update(b.ppo, b.rollout, &b.model, &report));
        EXPECT_EQ(report.n_epochs, 2);
        EXPECT_EQ(report.is_stopped, 1);
        each_parameter(&b, "step2.", 0, 0, 1);
        bench_close(&b);
    }
}

TEST(features_are_normalised) {
    Bench b = bench_open(stems[0], 1, 0);
    EsFeatureNormaliser n;
    int D = b.rollout->shape.n_features;
    REQUIRE_OK(es_feature_normaliser_create(D, &n));
    for (int round = 0; round < 2; round++) {
        es_feature_normaliser_merge(&n, b.rollout->n_rows, b.rollout->features,
                                    b.rollout->is_valid);
    }
    for (int64_t i = 0; i < D; i++) {
        EXPECT_NEAR(n.mean[i], golden_floats(b.file, "normaliser.mean", D)[i], 1e-6);
        EXPECT_NEAR(n.variance[i], golden_floats(b.file, "normaliser.variance", D)[i], 1e-6);
    }
    int64_t count = b.E * D;
    float *scaled = malloc((size_t)count * sizeof(float));
    ES_ASSERT(scaled != NULL);
    for (int64_t i = 0; i < count; i++) {
        scaled[i] = b.rollout->features[i] * 8;
    }
    es_feature_normaliser_apply(&n, b.E, scaled, scaled);
    compare_tensor("normaliser.", "scaled", scaled,
                   golden_floats(b.file, "normaliser.scaled", count), count);
    free(scaled);
    es_feature_normaliser_destroy(&n);
    bench_close(&b);
}
