// Growth on a GPU by plans: hosts that the fused step does not run (layers on rows, kernels of 5,
// odd sizes before a pool) follow the CPU, give the same bits twice, captured or not, queued ahead
// or waited for; and a host that both can run does the same on either.
#include "es_test.h"

#include "growth/device_case.h"

static EsDataset dataset;

// --- hosts ---

typedef enum Kind { ROWS, KERNEL_5, ODD_SIZES, KIND_COUNT } Kind;

// Rows of six numbers, clouds of ten classes.
static void make_points(int64_t n_train, int64_t n_validation, int64_t n_test) {
    enum { COLUMNS = 6, CLASSES = 10 };
    int64_t n = n_train + n_validation + n_test;
    memset(&dataset, 0, sizeof dataset);
    snprintf(dataset.name, sizeof dataset.name, "points");
    dataset.kind = ES_DATASET_ROWS;
    dataset.n_channels = COLUMNS;
    dataset.height = dataset.width = 1;
    dataset.n_classes = CLASSES;
    dataset.image_bytes = COLUMNS * sizeof(float);
    dataset.n_images = n;
    dataset.rows = malloc((size_t)n * dataset.image_bytes);
    dataset.labels = malloc((size_t)n * sizeof *dataset.labels);
    for (int64_t i = 0; i < n; i++) {
        int label = (int)(i * 7 % 11 % CLASSES);
        dataset.labels[i] = (uint16_t)label;
        for (int c = 0; c < COLUMNS; c++) {
            dataset.rows[i * COLUMNS + c] = (float)((label + 3 * c) % CLASSES) / 3.0f - 1.5f +
                                            small_draw((uint32_t)(i * 8 + c));
        }
    }
    split_dataset(&dataset, n_train, n_validation, n_test);
}

static void make_dataset(Kind kind, int64_t n_train, int64_t n_validation, int64_t n_test) {
    if (kind == ROWS) {
        make_points(n_train, n_validation, n_test);
    } else {
        make_stripes_of(&dataset, kind == ODD_SIZES ? 28 : 16, n_train, n_validation, n_test);
    }
}

static void destroy_dataset(void) {
    free(dataset.rows);
    destroy_small_dataset(&dataset);
}

static EsHostSpec host_of(Kind kind) {
    EsHostSpec host;
    REQUIRE_OK(es_host_preset(kind == ROWS ? "dense" : "tiny", &host));
    host.image_channels = dataset.n_channels;
    host.image_size = dataset.width;
    host.n_classes = dataset.n_classes;
    host.base = kind == ROWS ? 8 : 4;
    host.kernel = kind == KERNEL_5 ? 5 : host.kernel;
    if (kind == ODD_SIZES) {
        host.n_blocks = host.n_pools = 3; // 28, 14, 7: the last pool leaves a row out
    }
    return host;
}

// Batches of 8, two per step, 24 validation images.
static EsGrowthOptions options_of(Kind kind, int64_t n_envs) {
    EsHostSpec host = host_of(kind);
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_slots_parse(&host, "r0c0,r0c1", slots, &n_slots));
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, n_envs);
    options.settings = es_growth_settings_tiny(n_slots, host.n_classes);
    options.settings.blueprints = es_slots_blueprints(&host) & ES_BLUEPRINTS_ALL;
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.settings.episode_steps = 10;
    options.batch = 8;
    options.step_batches = 2;
    options.n_validation_images = 24;
    options.is_tf32 = 0; // compared with the CPU
    return options;
}

// The blueprints that fit, one after the other.
static int blueprint_number(const EsGrowthOptions *options, int k) {
    int fitting[ES_BLUEPRINT_END], n = 0;
    for (int b = 1; b < ES_BLUEPRINT_END; b++) {
        if (options->settings.blueprints & ES_BLUEPRINT_ID_BIT(b)) {
            fitting[n++] = b;
        }
    }
    return fitting[k % n];
}

// A wild policy that asks for seeds that fit.
static void fitting_actions(const EsGrowth *growth, uint64_t salt, EsAction *actions) {
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        actions[e] = wild_action(growth, e, salt);
        int8_t *blueprint = &actions[e].head[ES_HEAD_BLUEPRINT];
        *blueprint = (int8_t)blueprint_number(&growth->options, *blueprint);
    }
}

// Growth by plans on the GPU; NULL without one.
static EsGrowth *create_planned(EsGrowthOptions options) {
    EsGrowth *growth = create_on_cuda(options, &dataset);
    if (growth != NULL) {
        EXPECT(!es_growth_device_report(growth).is_fused);
    }
    return growth;
}

#define SKIP_WITHOUT_GPU()                                                                         \
    do {                                                                                           \
        if (es_device_cuda_count() == 0) {                                                         \
            SKIP("no CUDA device");                                                                \
        }                                                                                          \
    } while (0)

// --- against the CPU ---

static double worst_weight(const EsGrowth *here, const EsGrowth *there) {
    float *theirs = fetch_slab(there, &there->store->parameters);
    const float *ours = here->store->parameters.data;
    double worst = 0;
    for (int64_t i = 0; i < es_tensor_count(&here->store->parameters); i++) {
        worst = fmax(worst, fabs((double)(theirs[i] - ours[i])));
    }
    free(theirs);
    return worst;
}

static void compare_step(const EsGrowth *here, const EsGrowth *there) {
    for (int64_t e = 0; e < here->options.n_envs; e++) {
        EXPECT_NEAR(there->results[e].train_loss, here->results[e].train_loss, 1e-4);
        EXPECT_NEAR(there->results[e].train_accuracy, here->results[e].train_accuracy, 1e-9);
        EXPECT_NEAR(there->results[e].validation_loss, here->results[e].validation_loss, 1e-4);
        EXPECT_NEAR(there->results[e].host_gradient_norm, here->results[e].host_gradient_norm,
                    1e-3);
        int32_t n = es_ablation_count(&here->ablations[e]);
        EXPECT_EQ(es_ablation_count(&there->ablations[e]), n);
        for (int32_t k = 0; k < n; k++) {
            int64_t at = e * ES_ABLATION_PATTERNS_MAX + k;
            EXPECT_NEAR(there->accuracy[at], here->accuracy[at], 1e-9);
        }
        for (int s = 0; s < here->model.n_slots; s++) {
            int64_t i = e * here->model.n_slots + s;
            EXPECT_EQ(there->shown.state.seed.stage[i], here->shown.state.seed.stage[i]);
            EXPECT_EQ(there->shown.state.seed.blueprint[i], here->shown.state.seed.blueprint[i]);
        }
    }
}

// 20 updates with seeds of every blueprint that fits, in all styles and stages: weights and losses
// within the bounds of growth_device.twenty_updates_follow_the_cpu, and equal counts, so that every
// seed that is switched off has the accuracy that it has on the CPU. The CPU runs the same
// operations as plain kernels: the vector engine's convolutions round otherwise, and where two
// pixels under a pool nearly agree the other one wins.
static void follow_the_cpu(Kind kind) {
    enum { E = 4, STEPS = 9 };
    SKIP_WITHOUT_GPU();
    make_dataset(kind, 64, 24, 20);
    EsGrowthOptions options = options_of(kind, E);
    EsGrowth *there = create_planned(options);
    options.mode = ES_COMPILE_OFF;
    EsGrowth *here = create_growth(&options, &dataset, 1);
    int n_trials = 0;
    REQUIRE_OK(es_growth_reset(here, 11));
    REQUIRE_OK(es_growth_reset(there, 11));
    for (int step = 0; step < STEPS; step++) {
        EsAction actions[E];
        for (int e = 0; e < E; e++) {
            int k = 2 * e + step;
            actions[e] =
                step < 2 ? germinate((e + step) % 2, blueprint_number(&options, k), (e + step) % 4)
                         : es_action_wait();
        }
        REQUIRE_OK(es_growth_step(here, actions));
        REQUIRE_OK(es_growth_step(there, actions));
        compare_step(here, there);
        for (int e = 0; e < E; e++) {
            n_trials += es_ablation_count(&here->ablations[e]);
        }
    }
    EXPECT(n_trials > E * STEPS); // some seeds were switched off
    double worst = worst_weight(here, there);
    printf("largest difference of a weight: %.3g\n", worst);
    EXPECT(worst < 1e-4);
    REQUIRE_OK(es_growth_test(here));
    REQUIRE_OK(es_growth_test(there));
    for (int e = 0; e < E; e++) {
        EXPECT_NEAR(there->results[e].test_loss, here->results[e].test_loss, 1e-4);
    }
    destroy_growth(here);
    destroy_growth(there);
    destroy_dataset();
}

TEST(layers_on_rows_follow_the_cpu) { follow_the_cpu(ROWS); }

TEST(kernels_of_5_follow_the_cpu) { follow_the_cpu(KERNEL_5); }

TEST(odd_sizes_follow_the_cpu) { follow_the_cpu(ODD_SIZES); }

// --- the same bits ---

typedef struct Trace {
    uint64_t hash[32];
    int n;
} Trace;

static void note(Trace *trace, const EsGrowth *growth) {
    uint64_t hash = hash_state(growth);
    size_t n = (size_t)growth->options.n_envs;
    hash = hash_bytes(growth->masks, sizeof *growth->masks * n, hash);
    for (size_t e = 0; e < n; e++) {
        hash = hash_bytes(&growth->results[e], offsetof(EsGrowthResult, test_loss), hash);
    }
    trace->hash[trace->n++] = hash;
}

// An episode under a wild policy, the CPU waiting in every step; its actions for who asks.
static uint64_t run_waiting(EsGrowth *growth, Trace *trace, EsAction *asked) {
    EsAction actions[8];
    size_t n = (size_t)growth->options.n_envs;
    trace->n = 0;
    REQUIRE_OK(es_growth_reset(growth, 3));
    for (int t = 0; !es_growth_is_over(growth); t++) {
        note(trace, growth);
        fitting_actions(growth, 9, actions);
        memcpy(asked + (size_t)t * n, actions, n * sizeof *actions);
        REQUIRE_OK(es_growth_decide(growth, actions));
        note(trace, growth);
        REQUIRE_OK(es_growth_advance(growth));
    }
    return hash_slabs(growth);
}

// The same with the CPU one step behind; it waits for a decision before it queues the step after.
static uint64_t run_queued(EsGrowth *growth, Trace *trace, const EsAction *asked) {
    const EsGrowthDevice *device = es_growth_device(growth);
    size_t n = (size_t)growth->options.n_envs;
    trace->n = 0;
    REQUIRE_OK(es_growth_queue_reset(growth, 3));
    REQUIRE_OK(es_growth_queue_advance(growth));
    for (int t = 0; t < growth->options.settings.episode_steps; t++) {
        REQUIRE_OK(es_growth_queue_report(growth, ES_GROWTH_MEASURED));
        REQUIRE_OK(es_stream_copy(device->stream, device->actions, asked + (size_t)t * n,
                                  n * sizeof *asked, ES_COPY_TO_DEVICE));
        REQUIRE_OK(es_growth_queue_decision(growth));
        REQUIRE_OK(es_growth_queue_report(growth, ES_GROWTH_DECIDED));
        REQUIRE_OK(es_growth_queue_collect(growth));
        REQUIRE_OK(es_growth_queue_advance(growth));
        REQUIRE_OK(es_growth_receive(growth, ES_GROWTH_MEASURED));
        note(trace, growth);
        REQUIRE_OK(es_growth_receive(growth, ES_GROWTH_DECIDED));
        note(trace, growth);
    }
    return hash_slabs(growth);
}

static void expect_equal(const Trace *a, const Trace *b) {
    EXPECT_EQ(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        EXPECT(a->hash[i] == b->hash[i]);
    }
}

static void same_bits(Kind kind) {
    enum { E = 3, STEPS = 10 };
    SKIP_WITHOUT_GPU();
    static EsAction asked[STEPS * E];
    make_dataset(kind, 48, 24, 0);
    EsGrowthOptions options = options_of(kind, E);
    EsGrowth *growth = create_planned(options);
    Trace first, second, queued, plain;
    uint64_t weights = run_waiting(growth, &first, asked);
    EXPECT(weights == run_waiting(growth, &second, asked));
    EXPECT(weights == run_queued(growth, &queued, asked));
    options.mode = ES_COMPILE_OFF;
    EsGrowth *uncaptured = create_planned(options);
    EXPECT(weights == run_waiting(uncaptured, &plain, asked));
    EXPECT_EQ(first.n, 2 * STEPS);
    expect_equal(&first, &second);
    expect_equal(&first, &queued);
    expect_equal(&first, &plain);
    destroy_growth(growth);
    destroy_growth(uncaptured);
    destroy_dataset();
}

TEST(rows_have_the_same_bits_twice_queued_and_uncaptured) { same_bits(ROWS); }

TEST(images_have_the_same_bits_twice_queued_and_uncaptured) { same_bits(KERNEL_5); }

// While no seed comes or goes a step is a replay; a decision that is not collected is not known.
TEST(steps_of_equal_topologies_are_replayed) {
    SKIP_WITHOUT_GPU();
    make_dataset(ROWS, 48, 24, 0);
    EsGrowth *growth = create_planned(options_of(ROWS, 2));
    REQUIRE_OK(es_growth_reset(growth, 3));
    step_all(growth, es_action_wait());
    step_all(growth, es_action_wait());
    int64_t n_replays = es_growth_device_report(growth).n_replays;
    int64_t n_builds = es_growth_plans(growth).n_builds;
    EXPECT_EQ(es_growth_device_report(growth).n_captures, ES_GROWTH_WORK_COUNT);
    step_all(growth, es_action_wait());
    EXPECT_EQ(es_growth_device_report(growth).n_replays, n_replays + ES_GROWTH_WORK_COUNT);
    step_all(growth, germinate(0, ES_BLUEPRINT_MLP, 0));
    step_all(growth, es_action_wait());
    EXPECT(es_growth_plans(growth).n_builds > n_builds);
    EXPECT_CONTAINS(es_growth_device_report(growth).fallback, "has layers on rows");
    REQUIRE_OK(es_growth_queue_decision(growth));
    EXPECT_STATUS(es_growth_queue_advance(growth), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "collect the decided state first");
    destroy_growth(growth);
    destroy_dataset();
}
