// Plans as a whole: ten training steps of a small CNN against PyTorch, in every mode, width and
// number of threads.
#include "network_case.h"

#include "network/lane_program.h"

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
