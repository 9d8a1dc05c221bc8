// Growth on a GPU by plans: hosts that the fused step does not run (layers on rows, kernels of 5,
// odd sizes before a pool) follow the CPU, give the same bits twice, captured or not, queued ahead
// or waited for; and a host that both can run does the same on either.
#include "es_test.h"

#include "growth/device_case.h"
#include "growth/engine/host_trainer.h"

static EsDataset dataset;

// --- hosts ---

typedef enum Kind { ROWS, KERNEL_5, ODD_SIZES, FUSED } Kind; // the last one runs fused

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

// Growth on the GPU, by plans or fused.
static EsGrowth *create_there(EsGrowthOptions options, int is_fused) {
    EsGrowth *growth = NULL;
    REQUIRE_OK(create_growth_on("cuda", 1, &options, &dataset, &growth));
    EXPECT_EQ(es_growth_device_report(growth).is_fused, is_fused);
    return growth;
}

static EsGrowth *create_planned(EsGrowthOptions options) { return create_there(options, 0); }

#define SKIP_WITHOUT_GPU()                                                                         \
    do {                                                                                           \
        if (es_device_cuda_count() == 0) {                                                         \
            SKIP("no CUDA device");                                                                \
        }                                                                                          \
    } while (0)

// --- against the CPU ---

// The largest difference of a number in a slab of each.
static double worst_in(const EsGrowth *there, const EsTensor *ours, const EsTensor *theirs) {
    float *fetched = fetch_slab(there, theirs);
    const float *own = ours->data;
    double worst = 0;
    for (int64_t i = 0; i < es_tensor_count(ours); i++) {
        worst = fmax(worst, fabs((double)(fetched[i] - own[i])));
    }
    free(fetched);
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
    double worst = worst_in(there, &here->store->parameters, &there->store->parameters);
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

// --- averages, steps of the learning rate, rollback ---

static void compare_averages(const EsGrowth *here, const EsGrowth *there) {
    const EsGrowthAverage *ours = &here->average, *theirs = &there->average;
    const EsTensor *const pairs[][2] = {
        {&here->store->parameters, &there->store->parameters},
        {&ours->store->parameters, &theirs->store->parameters},
        {&ours->store->states, &theirs->store->states},
        {&ours->saved_parameters, &theirs->saved_parameters},
        {&ours->saved_states, &theirs->saved_states},
    };
    for (size_t i = 0; i < ES_COUNT_OF(pairs); i++) {
        EXPECT_NEAR(worst_in(there, pairs[i][0], pairs[i][1]), 0, 1e-4);
    }
    int32_t *counts = malloc(es_tensor_bytes(&ours->n_updates));
    fetch(there, counts, theirs->n_updates.data, es_tensor_bytes(&ours->n_updates));
    for (int64_t i = 0; i < es_tensor_count(&ours->n_updates); i++) {
        EXPECT_EQ(counts[i], ((const int32_t *)ours->n_updates.data)[i]);
    }
    free(counts);
}

// The head of a host is not a number any more: the next step sees it, and the one after goes back.
static void spoil(const EsGrowth *growth, int64_t env) {
    float not_a_number = NAN;
    put(growth,
        slab_row(&growth->store->parameters, env) + growth->model.layout.n_host_parameters - 16,
        &not_a_number, sizeof not_a_number);
}

// Seeds in all styles, one of them pruned, a host that is rolled back: averaged weights, their
// snapshots and the counts of their updates are the CPU's all the way, and validation measures
// them.
static void averages_follow(Kind kind) {
    enum { E = 4, STEPS = 10, SPOILT = 6 };
    SKIP_WITHOUT_GPU();
    make_dataset(kind, 64, 24, 0);
    EsGrowthOptions options = options_of(kind, E);
    options.settings.episode_steps = STEPS;
    options.recipe.average = 0.9f;
    options.recipe.decay = ES_DECAY_STEP;
    options.recipe.step_epochs = 3;
    options.recipe.nesterov = 1;
    EsGrowth *there = create_there(options, kind == FUSED);
    options.mode = ES_COMPILE_OFF;
    EsGrowth *here = create_growth(&options, &dataset, 1);
    EsGrowth *const both[] = {here, there};
    REQUIRE_OK(es_growth_reset(here, 11));
    REQUIRE_OK(es_growth_reset(there, 11));
    for (int step = 0; step < STEPS - 1; step++) {
        EsAction actions[E];
        for (int e = 0; e < E; e++) {
            actions[e] = step == 0             ? germinate(e % 2, blueprint_number(&options, e), e)
                         : step == 4 && e == 2 ? act(ES_GROWTH_OP_PRUNE, 0)
                                               : es_action_wait();
        }
        for (int i = 0; i < 2; i++) {
            if (step == SPOILT) {
                spoil(both[i], 1);
            }
            REQUIRE_OK(es_growth_step(both[i], actions));
        }
        if (step != SPOILT) {
            compare_averages(here, there);
            compare_step(here, there);
        }
    }
    EXPECT_EQ(there->shown.state.env.n_rollbacks[1], 1);
    EXPECT_EQ(there->shown.state.env.n_rollbacks[0], 0);
    EXPECT_EQ(here->shown.state.env.n_rollbacks[1], 1);
    destroy_growth(here);
    destroy_growth(there);
    destroy_dataset();
}

TEST(averages_of_layers_follow_the_cpu) { averages_follow(ROWS); }

TEST(averages_of_fused_hosts_follow_the_cpu) { averages_follow(FUSED); }

// --- evaluation ---

// More samples than one pass takes, and a last pass that is shorter; shares of a batch's loss.
TEST(any_number_of_samples_is_evaluated) {
    enum { E = 2, N = 1101 };
    SKIP_WITHOUT_GPU();
    make_dataset(ROWS, N, 24, 0);
    EsGrowthOptions options = options_of(ROWS, E);
    EsGrowth *both[] = {create_growth(&options, &dataset, 1), create_planned(options)};
    double losses[2][E], accuracies[2][E], weights[2][2 * E], sum = 0;
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(es_growth_reset(both[i], 5));
        step_all(both[i], germinate(0, ES_BLUEPRINT_MLP, 0));
        wait_for_stage(both[i], 0, ES_STAGE_HOLDING);
        REQUIRE_OK(es_growth_evaluate(both[i], &dataset.train, losses[i], accuracies[i]));
        REQUIRE_OK(es_growth_attribute_batch(both[i], 3, 100, weights[i]));
    }
    for (int e = 0; e < E; e++) {
        EXPECT_NEAR(losses[1][e], losses[0][e], 1e-5);
        EXPECT_NEAR(accuracies[1][e], accuracies[0][e], 1e-9);
    }
    for (int i = 0; i < 2 * E; i++) {
        EXPECT_NEAR(weights[1][i], weights[0][i], 1e-4);
        sum += weights[1][i];
    }
    EXPECT(sum == 0 || sum >= 1);
    destroy_growth(both[0]);
    destroy_growth(both[1]);
    destroy_dataset();
}

// --- one host, two executors; precisions ---

// What the fused step trains, plans train as well when asked to.
TEST(plans_follow_the_fused_step) {
    enum { E = 2, STEPS = 5 };
    SKIP_WITHOUT_GPU();
    make_dataset(FUSED, 64, 24, 0);
    EsGrowthOptions options = options_of(FUSED, E);
    EsGrowth *fused = create_there(options, 1);
    options.is_generic = 1;
    EsGrowth *planned = create_there(options, 0);
    EXPECT_CONTAINS(es_growth_device_report(planned).fallback, "as was asked for");
    REQUIRE_OK(es_growth_reset(fused, 11));
    REQUIRE_OK(es_growth_reset(planned, 11));
    for (int step = 0; step < STEPS; step++) {
        EsAction action = step == 0 ? germinate(0, ES_BLUEPRINT_BOTTLENECK, 3) : es_action_wait();
        step_all(fused, action);
        step_all(planned, action);
        for (int e = 0; e < E; e++) {
            EXPECT_NEAR(planned->results[e].train_loss, fused->results[e].train_loss, 1e-4);
            EXPECT_NEAR(planned->results[e].validation_loss, fused->results[e].validation_loss,
                        1e-4);
        }
    }
    destroy_growth(fused);
    destroy_growth(planned);
    destroy_dataset();
}

// Activations in bfloat16 cost a little accuracy of the loss, no more; float16 is of fused hosts.
TEST(plans_compute_in_bfloat16_and_not_in_float16) {
    SKIP_WITHOUT_GPU();
    static const Kind kinds[] = {ROWS, KERNEL_5};
    for (size_t k = 0; k < ES_COUNT_OF(kinds); k++) {
        make_dataset(kinds[k], 48, 24, 0);
        EsGrowthOptions options = options_of(kinds[k], 1);
        EsGrowth *exact = create_planned(options), *growth = NULL;
        options.precision = ES_DTYPE_BF16;
        EsGrowth *rounded = create_planned(options);
        options.precision = ES_DTYPE_F16;
        EXPECT_STATUS(create_growth_on("cuda", 1, &options, &dataset, &growth), UNSUPPORTED);
        EXPECT_CONTAINS(es_status_detail(), "float16 runs fused alone");
        const EsDevice *device = exact->device;
        EsDtype automatic = es_growth_auto_precision(&options.host, options.slots, 2, device);
        EXPECT(automatic != ES_DTYPE_F16);
        EXPECT(kinds[k] != ROWS || automatic == ES_DTYPE_F32);
        REQUIRE_OK(es_growth_reset(exact, 5));
        REQUIRE_OK(es_growth_reset(rounded, 5));
        for (int step = 0; step < 3; step++) {
            EsAction action =
                step == 0 ? germinate(0, blueprint_number(&options, 1), 3) : es_action_wait();
            step_all(exact, action);
            step_all(rounded, action);
            EXPECT_NEAR(rounded->results[0].train_loss, exact->results[0].train_loss, 0.03);
            EXPECT(rounded->results[0].train_loss != exact->results[0].train_loss);
        }
        destroy_growth(exact);
        destroy_growth(rounded);
        destroy_dataset();
    }
}

// --- hosts without seeds ---

// Trains on rows for 40 updates; results on the training split, and the weights.
static EsHostResult train_on_rows(const char *device_name, EsCompileMode mode, float *weights,
                                  size_t n_weights) {
    EsHostSpec host = host_of(ROWS);
    EsHostTrainerOptions options = es_host_trainer_defaults(&host, 1);
    EsDevice *device = NULL;
    EsHostTrainer *trainer = NULL;
    EsHostResult result;
    options.batch = 13;
    options.mode = mode;
    REQUIRE_OK(es_device_open(device_name, &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &options.stream));
    REQUIRE_OK(es_host_trainer_create(&options, &dataset, device, &trainer));
    REQUIRE_OK(es_host_trainer_train(trainer, 40));
    REQUIRE_OK(es_host_trainer_evaluate(trainer, &dataset.train, &result));
    const EsTensor *slab = &es_host_trainer_store(trainer)->parameters;
    ES_ASSERT(slab->dim[1] <= (int64_t)n_weights);
    REQUIRE_OK(es_stream_copy(options.stream, weights, slab->data, es_tensor_bytes(slab),
                              ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(options.stream));
    es_host_trainer_destroy(trainer);
    es_stream_destroy(options.stream);
    es_device_close(device);
    return result;
}

TEST(hosts_without_seeds_learn_from_rows) {
    enum { MOST = 1024 };
    static float here[MOST], there[MOST];
    SKIP_WITHOUT_GPU();
    make_dataset(ROWS, 64, 24, 0);
    EsHostResult ours = train_on_rows("cpu", ES_COMPILE_OFF, here, MOST);
    EsHostResult theirs = train_on_rows("cuda", ES_COMPILE_DEFAULT, there, MOST);
    EXPECT_NEAR(theirs.loss, ours.loss, 1e-5);
    EXPECT_NEAR(theirs.accuracy, ours.accuracy, 1e-9);
    EXPECT(ours.accuracy > 30);
    for (int i = 0; i < MOST; i++) {
        EXPECT_NEAR(there[i], here[i], 1e-4);
    }
    destroy_dataset();
}
