// The optimiser on a shared store: gradients summed in a fixed tree, steps that are skipped,
// clipping that can be changed.
#include "policy_graph_case.h"

// Rows of the slab summed here, level by level, into row 0.
static void sum_rows(float *rows, int64_t n_rows, int64_t n_columns) {
    for (int64_t step = 1; step < n_rows; step *= 2) {
        for (int64_t row = 0; row + step < n_rows; row += 2 * step) {
            for (int64_t i = 0; i < n_columns; i++) {
                rows[row * n_columns + i] += rows[(row + step) * n_columns + i];
            }
        }
    }
}

// Steps of the shared network equal those of a single one that is given the summed gradient.
static void check_steps(const char *name, int64_t n_envs) {
    static float rows[MAX_VALUES];
    EsDevice *device;
    EsStream *stream;
    open_device(name, &device, &stream);
    Policy many, single;
    EsStore *shared = NULL, *alone = NULL;
    EsOptimiser *optimiser = NULL, *reference = NULL;
    EsOptimiserOptions options = adam_options();
    options.max_norm = 0.7f;
    open_policy(&many, device, stream, n_envs, 1);
    open_policy(&single, device, stream, 1, 1);
    REQUIRE_OK(es_store_create_shared(many.graph, device, n_envs, &shared));
    REQUIRE_OK(es_store_create(single.graph, device, &alone));
    REQUIRE_OK(es_store_initialise(shared, many.graph, stream, 8, (int32_t[]){4}));
    REQUIRE_OK(es_store_initialise(alone, single.graph, stream, 8, (int32_t[]){4}));
    REQUIRE_OK(es_optimiser_create(many.graph, shared, &options, &optimiser));
    REQUIRE_OK(es_optimiser_create(single.graph, alone, &options, &reference));
    EXPECT_EQ(optimiser->moment1.dim[0], 1);
    plan_policy(&many, shared, NULL);
    for (int step = 0; step < 3; step++) {
        float norms[2];
        REQUIRE_OK(es_plan_run(many.plan, stream));
        copy_out(stream, &shared->gradients, rows);
        sum_rows(rows, n_envs, shared->gradients.dim[1]);
        REQUIRE_OK(es_stream_copy(stream, alone->gradients.data, rows,
                                  es_tensor_bytes(&alone->gradients), ES_COPY_TO_DEVICE));
        REQUIRE_OK(es_stream_synchronize(stream));
        es_optimiser_step(optimiser, stream);
        es_optimiser_step(reference, stream);
        REQUIRE_OK(es_optimiser_read_norms(optimiser, stream, &norms[0], NULL, NULL));
        REQUIRE_OK(es_optimiser_read_norms(reference, stream, &norms[1], NULL, NULL));
        EXPECT(norms[0] == norms[1] && norms[0] > 0.7f);
    }
    expect_equal(stream, &shared->parameters, &alone->parameters, "a parameter");
    expect_equal(stream, &optimiser->moment2, &reference->moment2, "a moment");
    close_policy(&many);
    close_policy(&single);
    es_optimiser_destroy(optimiser);
    es_optimiser_destroy(reference);
    es_store_destroy(shared);
    es_store_destroy(alone);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(gradients_are_summed_in_a_tree) {
    check_steps("cpu", 1);
    check_steps("cpu", 3);
    check_steps("cpu", 8);
}

TEST(gradients_are_summed_in_a_tree_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    check_steps("cuda", 3);
    check_steps("cuda", 8);
}

// A plan of fewer environments than the store has rows: what stands in the other rows is no
// gradient.
TEST(rows_without_environment_count_as_zero) {
    EsDevice *device;
    EsStream *stream;
    open_device("cpu", &device, &stream);
    Policy p;
    EsStore *stores[2] = {NULL, NULL};
    EsOptimiser *optimiser = NULL;
    EsOptimiserOptions options = adam_options();
    for (int i = 0; i < 2; i++) {
        open_policy(&p, device, stream, 2, 1);
        REQUIRE_OK(es_store_create_shared(p.graph, device, i == 0 ? 2 : 5, &stores[i]));
        REQUIRE_OK(es_store_initialise(stores[i], p.graph, stream, 8, (int32_t[]){4}));
        REQUIRE_OK(es_optimiser_create(p.graph, stores[i], &options, &optimiser));
        plan_policy(&p, stores[i], optimiser);
        int64_t stride = stores[i]->gradients.stride[0];
        for (int64_t k = 2 * stride; k < es_tensor_count(&stores[i]->gradients); k++) {
            ((float *)stores[i]->gradients.data)[k] = 3.0f;
        }
        for (int step = 0; step < 2; step++) {
            REQUIRE_OK(es_plan_run_forward(p.plan, stream));
            REQUIRE_OK(es_plan_run_backward(p.plan, stream));
        }
        close_policy(&p);
        es_optimiser_destroy(optimiser);
    }
    expect_equal(stream, &stores[0]->parameters, &stores[1]->parameters, "a parameter");
    es_store_destroy(stores[0]);
    es_store_destroy(stores[1]);
    es_stream_destroy(stream);
    es_device_close(device);
}

// One NaN among the gradients of one environment stops the step; the next one is made. On CUDA both
// are replays of one recording.
static void check_skipping(const char *name) {
    static float before[MAX_VALUES], after[MAX_VALUES];
    EsDevice *device;
    EsStream *stream;
    open_device(name, &device, &stream);
    Policy p;
    EsStore *store = NULL;
    EsOptimiser *optimiser = NULL;
    EsOptimiserOptions options = adam_options();
    open_policy(&p, device, stream, 3, 1);
    REQUIRE_OK(es_store_create_shared(p.graph, device, 3, &store));
    REQUIRE_OK(es_store_initialise(store, p.graph, stream, 8, (int32_t[]){4}));
    REQUIRE_OK(es_optimiser_create(p.graph, store, &options, &optimiser));
    plan_policy(&p, store, optimiser);
    for (int step = 0; step < 3; step++) {
        REQUIRE_OK(es_plan_run(p.plan, stream));
    }
    EXPECT_EQ(steps_of(optimiser, stream), 3);
    copy_out(stream, &store->parameters, before);
    // the last input is "d aside", which only the layer of that name sees
    const float bad = NAN;
    EsTensor *given = &p.input[p.n_inputs - 1];
    float good = 0.0f;
    REQUIRE_OK(es_stream_copy(stream, &good, given->data, sizeof good, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_copy(stream, given->data, &bad, sizeof bad, ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_plan_run(p.plan, stream));
    copy_out(stream, &store->parameters, after);
    EXPECT_EQ(steps_of(optimiser, stream), 3);
    EXPECT(memcmp(before, after, es_tensor_bytes(&store->parameters)) == 0);
    double squares[32];
    int32_t counts[32];
    float norm = 0.0f;
    ES_ASSERT(optimiser->n_spans <= 32);
    REQUIRE_OK(es_optimiser_read_norms(optimiser, stream, &norm, squares, counts));
    int span = 0, n_bad = 0;
    double sum = 0.0;
    for (int v = 0; v < p.graph->n_values; v++) {
        if (p.graph->values[v].role == ES_ROLE_PARAMETER) {
            int is_aside = strncmp(p.graph->values[v].name, "aside", 5) == 0;
            EXPECT(is_aside || counts[span] == 0);
            n_bad += counts[span];
            sum += squares[span++];
        }
    }
    EXPECT(n_bad > 0);
    EXPECT_NEAR((double)norm, sqrt(sum), 1e-6 * sqrt(sum));
    REQUIRE_OK(es_stream_copy(stream, given->data, &good, sizeof good, ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_plan_run(p.plan, stream));
    copy_out(stream, &store->parameters, after);
    EXPECT_EQ(steps_of(optimiser, stream), 4);
    EXPECT(memcmp(before, after, es_tensor_bytes(&store->parameters)) != 0);
    close_policy(&p);
    es_optimiser_destroy(optimiser);
    es_store_destroy(store);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(gradients_that_are_not_finite_make_no_step) { check_skipping("cpu"); }

TEST(gradients_that_are_not_finite_make_no_step_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    check_skipping("cuda");
}

// SGD without momentum at rate 1 moves by the clipped gradient.
TEST(the_clip_can_be_changed) {
    static float before[MAX_VALUES], after[MAX_VALUES];
    EsDevice *device;
    EsStream *stream;
    open_device("cpu", &device, &stream);
    Policy p;
    EsStore *store = NULL;
    EsOptimiser *optimiser = NULL;
    EsOptimiserOptions options = {.kind = ES_OPTIMISER_SGD, .learning_rate = 1.0f};
    open_policy(&p, device, stream, 3, 1);
    REQUIRE_OK(es_store_create_shared(p.graph, device, 3, &store));
    REQUIRE_OK(es_store_initialise(store, p.graph, stream, 8, (int32_t[]){4}));
    REQUIRE_OK(es_optimiser_create(p.graph, store, &options, &optimiser));
    EXPECT_STATUS(es_optimiser_set_clip(optimiser, stream, 1.0f), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "measures no norms");
    EXPECT_STATUS(es_optimiser_read_norms(optimiser, stream, before, NULL, NULL), ARGUMENT);
    es_optimiser_destroy(optimiser);
    options.measures = 1;
    REQUIRE_OK(es_optimiser_create(p.graph, store, &options, &optimiser));
    plan_policy(&p, store, optimiser);
    static const float clips[] = {0.25f, 0.0f, 0.125f};
    for (size_t i = 0; i < ES_COUNT_OF(clips); i++) {
        float norm = 0.0f;
        double moved = 0.0;
        REQUIRE_OK(es_optimiser_set_clip(optimiser, stream, clips[i]));
        copy_out(stream, &store->parameters, before);
        REQUIRE_OK(es_plan_run(p.plan, stream));
        copy_out(stream, &store->parameters, after);
        REQUIRE_OK(es_optimiser_read_norms(optimiser, stream, &norm, NULL, NULL));
        for (int64_t k = 0; k < es_tensor_count(&store->parameters); k++) {
            moved += pow((double)after[k] - (double)before[k], 2.0);
        }
        EXPECT(norm > 1.0f);
        double expected = clips[i] > 0.0f ? (double)clips[i] : (double)norm;
        EXPECT_NEAR(sqrt(moved), expected, 1e-4 * expected);
    }
    close_policy(&p);
    es_optimiser_destroy(optimiser);
    es_store_destroy(store);
    es_stream_destroy(stream);
    es_device_close(device);
}
