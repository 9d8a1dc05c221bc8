// Plans as a whole: ten training steps of a small CNN against PyTorch, in every mode, width and
// number of threads.
#include "network/network_case.h"

#include "network/lanes/lane_program.h"

#define STEPS      10
#define MAX_ENVS   4
#define MAX_VALUES 20000

typedef struct Variant {
    const char *device;
    int n_threads, n_lanes;
    EsCompileMode mode;
} Variant;

static const Variant variants[] = {
    {"cpu", 1, 4, ES_COMPILE_OFF},      {"cpu", 2, 4, ES_COMPILE_OFF},
    {"cpu", 1, 4, ES_COMPILE_DEFAULT},  {"cpu", 1, 8, ES_COMPILE_DEFAULT},
    {"cpu", 1, 16, ES_COMPILE_DEFAULT}, {"cpu", 2, 16, ES_COMPILE_DEFAULT},
    {"cpu", 3, 8, ES_COMPILE_DEFAULT},
};

// Can this machine run that many lanes?
static int has_lanes(int n_lanes) {
    EsDevice *device = NULL;
    EsDeviceOptions options = {.n_threads = 1, .n_lanes = n_lanes};
    EsStatus status = es_device_open("cpu", &options, &device);
    es_device_close(device);
    return status == ES_STATUS_OK;
}

static void expect_near(const NetworkRun *run, const EsTensor *actual, const char *part,
                        const char *name) {
    static float values[MAX_VALUES];
    EsTensor expected = golden_tensor(run, part, name);
    ES_ASSERT(es_tensor_count(&expected) <= MAX_VALUES);
    copy_out((NetworkRun *)run, values, actual);
    const float *wanted = expected.data;
    for (int64_t i = 0; i < es_tensor_count(&expected); i++) {
        if (!(fabsf(values[i] - wanted[i]) <= 1e-4f * (1.0f + fabsf(wanted[i])))) {
            ES_TEST_FAIL("%s %s%s[%lld] is %.9g, PyTorch has %.9g", run->shape->golden, part, name,
                         (long long)i, (double)values[i], (double)wanted[i]);
            return;
        }
    }
}

// Losses of ten steps, the last gradients, parameters and running statistics, and the loss in
// evaluation mode.
static void check_training(const NetworkShape *shape, const Variant *variant) {
    NetworkRun run =
        network_begin(shape, variant->device, variant->n_threads, variant->n_lanes, variant->mode);
    EsTensor golden_losses = golden_tensor(&run, "", "losses");
    for (int step = 0; step < STEPS; step++) {
        float losses[MAX_ENVS];
        network_step(&run, losses);
        for (int64_t e = 0; e < shape->n_envs; e++) {
            EXPECT_NEAR(losses[e], ((const float *)golden_losses.data)[e * STEPS + step], 1e-4);
        }
    }
    for (int v = 0; v < run.graph->n_values; v++) {
        const EsValue *value = &run.graph->values[v];
        if (value->role == ES_ROLE_PARAMETER) {
            EsTensor parameter = es_store_tensor(run.store, run.graph, v);
            EsTensor gradient = es_store_tensor(run.store, run.graph, value->gradient);
            expect_near(&run, &parameter, "after.", value->name);
            expect_near(&run, &gradient, "gradient.", value->name);
        } else if (value->role == ES_ROLE_STATE) {
            EsTensor state = es_store_tensor(run.store, run.graph, v);
            expect_near(&run, &state, "after.", value->name);
        }
    }
    // the same parameters in an evaluation plan
    es_plan_destroy(run.plan);
    es_graph_destroy(run.graph);
    build_network(&run, 0);
    create_network_plan(&run, variant->mode, NULL);
    float losses[MAX_ENVS];
    network_step(&run, losses);
    EsTensor evaluated = golden_tensor(&run, "", "evaluated");
    for (int64_t e = 0; e < shape->n_envs; e++) {
        EXPECT_NEAR(losses[e], ((const float *)evaluated.data)[e], 1e-4);
    }
    network_end(&run);
}

TEST(ten_steps_equal_pytorch) {
    for (size_t s = 0; s < ES_COUNT_OF(network_shapes); s++) {
        for (size_t v = 0; v < ES_COUNT_OF(variants); v++) {
            if (has_lanes(variants[v].n_lanes)) {
                check_training(&network_shapes[s], &variants[v]);
            }
        }
    }
}

// Parameters and losses of ten steps as bytes.
static void record_bits(const NetworkShape *shape, const Variant *variant, float *bits) {
    NetworkRun run =
        network_begin(shape, variant->device, variant->n_threads, variant->n_lanes, variant->mode);
    for (int step = 0; step < STEPS; step++) {
        network_step(&run, bits + step * MAX_ENVS);
    }
    EsPlanReport report = es_plan_report(run.plan);
    EXPECT_EQ(report.is_captured,
              strcmp(variant->device, "cuda") == 0 && variant->mode == ES_COMPILE_DEFAULT);
    ES_ASSERT(es_tensor_count(&run.store->parameters) <= MAX_VALUES - STEPS * MAX_ENVS);
    copy_out(&run, bits + STEPS * MAX_ENVS, &run.store->parameters);
    network_end(&run);
}

static void expect_same_bits(const NetworkShape *shape, Variant a, Variant b) {
    static float bits_a[MAX_VALUES], bits_b[MAX_VALUES];
    memset(bits_a, 0, sizeof bits_a);
    memset(bits_b, 0, sizeof bits_b);
    record_bits(shape, &a, bits_a);
    record_bits(shape, &b, bits_b);
    EXPECT(memcmp(bits_a, bits_b, sizeof bits_a) == 0);
}

TEST(threads_do_not_change_bits) {
    for (size_t s = 0; s < ES_COUNT_OF(network_shapes); s++) {
        for (int mode = ES_COMPILE_OFF; mode <= ES_COMPILE_DEFAULT; mode++) {
            for (int n_threads = 2; n_threads <= 4; n_threads++) {
                expect_same_bits(&network_shapes[s], (Variant){"cpu", 1, 0, (EsCompileMode)mode},
                                 (Variant){"cpu", n_threads, 0, (EsCompileMode)mode});
            }
        }
    }
}

TEST(cuda_equals_pytorch) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    for (size_t s = 0; s < ES_COUNT_OF(network_shapes); s++) {
        check_training(&network_shapes[s], &(Variant){"cuda", 0, 0, ES_COMPILE_OFF});
        check_training(&network_shapes[s], &(Variant){"cuda", 0, 0, ES_COMPILE_DEFAULT});
    }
}

TEST(capture_does_not_change_bits) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    for (size_t s = 0; s < ES_COUNT_OF(network_shapes); s++) {
        expect_same_bits(&network_shapes[s], (Variant){"cuda", 0, 0, ES_COMPILE_OFF},
                         (Variant){"cuda", 0, 0, ES_COMPILE_DEFAULT});
        expect_same_bits(&network_shapes[s], (Variant){"cuda", 0, 0, ES_COMPILE_DEFAULT},
                         (Variant){"cuda", 0, 0, ES_COMPILE_DEFAULT});
    }
}

// Gradients that one plan leaves in the slab must not move a parameter that another plan does not
// reach.
TEST(plans_on_one_store_do_not_disturb_each_other) {
    static float before[MAX_VALUES], after[MAX_VALUES];
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    float losses[MAX_ENVS];
    network_step(&run, losses);
    // a second graph with the same parameters whose loss goes through the head alone
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(2, &graph));
    EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){19, 3, 10, 10});
    EsValueId rows = es_graph_input(graph, "rows", ES_DTYPE_F32, 2, (int64_t[]){19, 10});
    EsValueId labels = es_graph_input(graph, "labels", ES_DTYPE_I32, 1, (int64_t[]){19});
    EsValueId h = x;
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "block%d.conv", i);
        h = es_graph_conv2d(graph, name, h, 5 << i, 3, 0);
        snprintf(name, sizeof name, "block%d.norm", i);
        h = es_graph_batchnorm(graph, name, h, 0);
    }
    EsLoss loss = es_graph_cross_entropy(graph, es_graph_linear(graph, "head", rows, 4), labels);
    REQUIRE_OK(es_graph_differentiate(graph, loss.loss));
    EsOptimiserOptions sgd = es_optimiser_defaults(ES_OPTIMISER_SGD);
    sgd.momentum = 0.0f;
    sgd.weight_decay = 0.0f;
    EsOptimiser *optimiser = NULL;
    REQUIRE_OK(es_optimiser_create(graph, run.store, &sgd, &optimiser));
    EsPlanOptions options = es_plan_defaults();
    options.optimiser = optimiser;
    EsPlan *plan = NULL;
    REQUIRE_OK(es_plan_create(graph, run.store, &options, &plan));
    EsTensor rows_tensor =
        es_tensor_view(run.x.data, ES_DTYPE_F32, run.device, 3, (int64_t[]){2, 19, 10});
    REQUIRE_OK(es_plan_bind(plan, x, &run.x));
    REQUIRE_OK(es_plan_bind(plan, rows, &rows_tensor));
    REQUIRE_OK(es_plan_bind(plan, labels, &run.labels));
    EsTensor weight = es_store_tensor(run.store, graph, es_graph_find(graph, "block0.conv.weight"));
    EsTensor head = es_store_tensor(run.store, graph, es_graph_find(graph, "head.weight"));
    copy_out(&run, before, &weight);
    copy_out(&run, before + 1000, &head);
    REQUIRE_OK(es_plan_run(plan, run.stream));
    copy_out(&run, after, &weight);
    copy_out(&run, after + 1000, &head);
    EXPECT(memcmp(before, after, 1000 * sizeof(float)) == 0);
    EXPECT(memcmp(before + 1000, after + 1000, (size_t)es_tensor_count(&head) * sizeof(float)) !=
           0);
    es_plan_destroy(plan);
    es_optimiser_destroy(optimiser);
    es_graph_destroy(graph);
    network_end(&run);
}

TEST(rebinding_records_again_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    NetworkRun run = network_begin(&network_shapes[0], "cuda", 0, 0, ES_COMPILE_DEFAULT);
    float losses[MAX_ENVS], changed[MAX_ENVS];
    for (int step = 0; step < 3; step++) {
        network_step(&run, losses);
    }
    EXPECT(es_plan_report(run.plan).is_captured);
    EsTensor other = {0};
    REQUIRE_OK(es_device_create_tensor(run.device, ES_DTYPE_F32, run.x.rank, run.x.dim, &other));
    REQUIRE_OK(es_plan_bind(run.plan, es_graph_find(run.graph, "x"), &other));
    network_step(&run, changed);
    EXPECT(es_plan_report(run.plan).is_captured);
    // images of zeros have another loss
    EXPECT(fabsf(changed[0] - losses[0]) > 1e-3f);
    es_device_destroy_tensor(&other);
    network_end(&run);
}

TEST(reports_what_was_built) {
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    EsPlanReport report = es_plan_report(run.plan);
    EXPECT(report.uses_lanes);
    EXPECT_TEXT(report.fallback, "");
    network_end(&run);
    run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_OFF);
    report = es_plan_report(run.plan);
    EXPECT(!report.uses_lanes);
    EXPECT(report.activation_bytes > 0);
    network_end(&run);
}

TEST(unbound_input_is_refused) {
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    EsPlan *plan = NULL;
    EsPlanOptions options = es_plan_defaults();
    REQUIRE_OK(es_plan_create(run.graph, run.store, &options, &plan));
    EXPECT_STATUS(es_plan_run(plan, run.stream), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "\"x\" is not bound");
    EXPECT_STATUS(es_plan_bind(plan, es_graph_find(run.graph, "x"), &run.labels), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "expected contiguous F32 [2, 19, 3, 10, 10]");
    es_plan_destroy(plan);
    network_end(&run);
}
