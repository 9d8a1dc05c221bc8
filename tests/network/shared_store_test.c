// One set of parameters for all environments: the same bits as with copies, through every operation
// of a policy; gradients summed in a fixed tree; steps that are skipped; files.
#include "es_test.h"

#include <unistd.h>

#include "base/random_rules.h"
#include "network/checkpoint.h"
#include "network/plan.h"

#define N_STEPS    4
#define N_ROWS     3
#define MAX_INPUTS 12
#define MAX_VALUES 40000

typedef struct Policy {
    EsDevice *device; // borrowed
    EsStream *stream; // borrowed
    EsGraph *graph;
    EsStore *store; // borrowed
    EsPlan *plan;
    EsTensor input[MAX_INPUTS]; // owned memory
    int n_inputs;
    EsValueId values[2], d_values[2];
} Policy;

static uint32_t draw(uint32_t number) {
    return es_random_draw(21, 0, ES_PURPOSE_EVALUATION, 0, number / 4).word[number % 4];
}

// Linear, layer norm, embedding, LSTM, concat, activation and dropout, as a policy has them.
static void build_policy(Policy *p, int64_t n_envs, int has_gradients) {
    const int64_t n = N_STEPS * N_ROWS, hidden = 8;
    REQUIRE_OK(es_graph_create(n_envs, &p->graph));
    EsGraph *g = p->graph;
    EsValueId x = es_graph_input(g, "x", ES_DTYPE_F32, 2, (int64_t[]){n, 5});
    EsValueId ids = es_graph_input(g, "ids", ES_DTYPE_I32, 1, &n);
    EsValueId reset = es_graph_input(g, "reset", ES_DTYPE_U8, 2, (int64_t[]){N_STEPS, N_ROWS});
    EsValueId start = es_graph_input(g, "start", ES_DTYPE_F32, 2, (int64_t[]){N_ROWS, hidden});
    EsValueId episode = es_graph_input(g, "episode", ES_DTYPE_I32, 0, NULL);
    EsValueId step = es_graph_shared_input(g, "step", ES_DTYPE_I32, 1, (int64_t[]){1});
    EsLinearOptions head = {.has_bias = 1, .initial = ES_INITIAL_ORTHOGONAL, .scale = 0.5f};
    EsValueId h =
        es_graph_concat(g, 2, (EsValueId[]){x, es_graph_embedding(g, "words", ids, 4, 3)});
    h = es_graph_layernorm(g, "norm", es_graph_linear(g, "features", h, hidden));
    h = es_graph_activation(g, ES_ACTIVATION_RELU, h);
    EsValueId sequence = es_graph_reshape(g, h, 3, (int64_t[]){N_STEPS, N_ROWS, hidden});
    EsLstmOptions lstm = {ES_INITIAL_ORTHOGONAL, 1.0f, 1.0f};
    sequence = es_graph_lstm_with(g, "lstm", sequence, reset, start, start, hidden, lstm).y;
    EsValueId z = es_graph_add(g, h, es_graph_reshape(g, sequence, 2, (int64_t[]){n, hidden}));
    EsDropoutOptions dropout = {.seed = 3, .layer = 1, .probability = 0.3f};
    EsValueId aside = es_graph_dropout(g, dropout, episode, step, es_graph_detach(g, z));
    p->values[0] = es_graph_linear_with(g, "policy", z, 6, head);
    p->values[1] = es_graph_linear_with(g, "aside", aside, 2, head);
    for (int i = 0; i < 2; i++) {
        es_graph_keep(g, p->values[i]);
        p->d_values[i] = es_graph_input(g, i == 0 ? "d policy" : "d aside", ES_DTYPE_F32, 2,
                                        (int64_t[]){n, i == 0 ? 6 : 2});
    }
    REQUIRE_OK(es_graph_status(g));
    if (has_gradients) {
        REQUIRE_OK(es_graph_differentiate_from(g, 2, p->values, p->d_values));
    }
}

static void bind_inputs(Policy *p) {
    static float floats[4096];
    static int32_t integers[4096];
    static uint8_t bytes[4096];
    for (int v = 0; v < p->graph->n_values; v++) {
        const EsValue *value = &p->graph->values[v];
        if (value->role != ES_ROLE_INPUT) {
            continue;
        }
        ES_ASSERT(p->n_inputs < MAX_INPUTS);
        EsTensor *tensor = &p->input[p->n_inputs++];
        REQUIRE_OK(
            es_device_create_tensor(p->device, value->dtype, value->rank, value->dim, tensor));
        ES_ASSERT(es_tensor_count(tensor) <= (int64_t)ES_COUNT_OF(floats));
        for (int64_t i = 0; i < es_tensor_count(tensor); i++) {
            uint32_t word = draw((uint32_t)(i + 5000 * p->n_inputs));
            floats[i] = 2.0f * es_random_uniform(word) - 1.0f;
            integers[i] = (int32_t)es_random_below(word, 4);
            bytes[i] = es_random_below(word, 4) == 0;
        }
        const void *from = value->dtype == ES_DTYPE_F32   ? (void *)floats
                           : value->dtype == ES_DTYPE_I32 ? (void *)integers
                                                          : (void *)bytes;
        REQUIRE_OK(es_stream_copy(p->stream, tensor->data, from, es_tensor_bytes(tensor),
                                  ES_COPY_TO_DEVICE));
        REQUIRE_OK(es_stream_synchronize(p->stream));
        REQUIRE_OK(es_plan_bind(p->plan, v, tensor));
    }
}

static void open_policy(Policy *p, EsDevice *device, EsStream *stream, int64_t n_envs,
                        int has_gradients) {
    memset(p, 0, sizeof *p);
    p->device = device;
    p->stream = stream;
    build_policy(p, n_envs, has_gradients);
}

static void plan_policy(Policy *p, EsStore *store, EsOptimiser *optimiser) {
    EsPlanOptions options = es_plan_defaults();
    options.optimiser = optimiser;
    p->store = store;
    REQUIRE_OK(es_plan_create(p->graph, store, &options, &p->plan));
    EXPECT(!es_plan_report(p->plan).uses_lanes);
    bind_inputs(p);
}

static void close_policy(Policy *p) {
    es_plan_destroy(p->plan);
    es_graph_destroy(p->graph);
    for (int i = 0; i < p->n_inputs; i++) {
        es_device_destroy_tensor(&p->input[i]);
    }
}

static void copy_out(EsStream *stream, const EsTensor *tensor, float *values) {
    ES_ASSERT(es_tensor_count(tensor) <= MAX_VALUES);
    REQUIRE_OK(
        es_stream_copy(stream, values, tensor->data, es_tensor_bytes(tensor), ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
}

static void expect_equal(EsStream *stream, const EsTensor *a, const EsTensor *b, const char *what) {
    static float first[MAX_VALUES], second[MAX_VALUES];
    EXPECT_EQ(es_tensor_count(a), es_tensor_count(b));
    copy_out(stream, a, first);
    copy_out(stream, b, second);
    double size = 0.0;
    for (int64_t i = 0; i < es_tensor_count(a); i++) {
        size += fabs((double)first[i]);
    }
    EXPECT(size > 0.0);
    if (memcmp(first, second, es_tensor_bytes(a)) != 0) {
        ES_TEST_FAIL("%s differs", what);
    }
}

static void open_device(const char *name, EsDevice **device, EsStream **stream) {
    REQUIRE_OK(es_device_open(name, &(EsDeviceOptions){.n_threads = 2}, device));
    REQUIRE_OK(es_stream_create(*device, stream));
}

static void check_copies(const char *name) {
    enum { ENVS = 3 };
    EsDevice *device;
    EsStream *stream;
    open_device(name, &device, &stream);
    Policy one, copies;
    EsStore *shared = NULL, *apart = NULL;
    open_policy(&one, device, stream, ENVS, 1);
    open_policy(&copies, device, stream, ENVS, 1);
    REQUIRE_OK(es_store_create_shared(one.graph, device, ENVS, &shared));
    REQUIRE_OK(es_store_create(copies.graph, device, &apart));
    EXPECT_EQ(shared->parameters.dim[0], 1);
    EXPECT_EQ(shared->gradients.dim[0], ENVS);
    REQUIRE_OK(es_store_initialise(shared, one.graph, stream, 8, (int32_t[]){4}));
    REQUIRE_OK(es_store_initialise(apart, copies.graph, stream, 8, (int32_t[]){4, 4, 4}));
    plan_policy(&one, shared, NULL);
    plan_policy(&copies, apart, NULL);
    for (int run = 0; run < 3; run++) {
        REQUIRE_OK(es_plan_run(one.plan, stream));
        REQUIRE_OK(es_plan_run(copies.plan, stream));
    }
    for (int i = 0; i < 2; i++) {
        EsTensor a = es_plan_tensor(one.plan, one.values[i]);
        EsTensor b = es_plan_tensor(copies.plan, copies.values[i]);
        expect_equal(stream, &a, &b, "a result");
    }
    expect_equal(stream, &shared->gradients, &apart->gradients, "a gradient");
    EsTensor weight = es_store_tensor(shared, one.graph, es_graph_find(one.graph, "policy.weight"));
    EXPECT_EQ(weight.dim[0], ENVS);
    EXPECT_EQ(weight.stride[0], 0);
    close_policy(&one);
    close_policy(&copies);
    es_store_destroy(shared);
    es_store_destroy(apart);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(shared_parameters_give_the_bits_of_copies) { check_copies("cpu"); }

TEST(shared_parameters_give_the_bits_of_copies_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    check_copies("cuda");
}

TEST(graphs_of_any_size_share_a_store) {
    EsDevice *device;
    EsStream *stream;
    open_device("cpu", &device, &stream);
    Policy training, acting, large, other;
    EsStore *store = NULL;
    open_policy(&training, device, stream, 2, 1);
    open_policy(&acting, device, stream, 7, 0);
    open_policy(&large, device, stream, 3, 1);
    REQUIRE_OK(es_store_create_shared(training.graph, device, 2, &store));
    REQUIRE_OK(es_store_check(store, training.graph));
    REQUIRE_OK(es_store_check(store, acting.graph));
    EXPECT_STATUS(es_store_check(store, large.graph), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "gradients of 3 environments; the shared store has room "
                                        "for 2");
    REQUIRE_OK(es_store_initialise(store, acting.graph, stream, 8, (int32_t[]){4}));
    plan_policy(&acting, store, NULL);
    REQUIRE_OK(es_plan_run_forward(acting.plan, stream));
    // one name more
    memset(&other, 0, sizeof other);
    build_policy(&other, 2, 0);
    es_graph_parameter(other.graph, "more", 1, (int64_t[]){1}, 1.0f, 0.0f);
    EXPECT_STATUS(es_store_check(store, other.graph), ARGUMENT);
    EsStore *refused = NULL;
    es_graph_state(other.graph, "running", 1, (int64_t[]){1}, 0.0f);
    EXPECT_STATUS(es_store_create_shared(other.graph, device, 2, &refused), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "running statistics");
    EXPECT_STATUS(es_store_create_shared(training.graph, device, 0, &refused), ARGUMENT);
    close_policy(&training);
    close_policy(&acting);
    close_policy(&large);
    close_policy(&other);
    es_store_destroy(store);
    es_stream_destroy(stream);
    es_device_close(device);
}

// --- the optimiser ---

static EsOptimiserOptions adam_options(void) {
    EsOptimiserOptions options = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    options.measures = 1;
    options.skips_nonfinite = 1;
    return options;
}

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

static int32_t steps_of(const EsOptimiser *optimiser, EsStream *stream) {
    int32_t n_steps = -1;
    REQUIRE_OK(
        es_stream_copy(stream, &n_steps, optimiser->n_steps.data, sizeof n_steps, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    return n_steps;
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
    EsOptimiserOptions options = {.kind = ES_OPTIMISER_SGD, .rate = 1.0f};
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

// A network trained with three environments goes on with seven.
TEST(checkpoints_do_not_know_the_environments) {
    char path[128];
    snprintf(path, sizeof path, "/tmp/esper_shared_store_test_%d.safetensors", (int)getpid());
    EsDevice *device;
    EsStream *stream;
    open_device("cpu", &device, &stream);
    Policy first, second;
    EsStore *saved = NULL, *loaded = NULL;
    EsOptimiser *before = NULL, *after = NULL;
    EsOptimiserOptions options = adam_options();
    open_policy(&first, device, stream, 3, 1);
    open_policy(&second, device, stream, 7, 1);
    REQUIRE_OK(es_store_create_shared(first.graph, device, 3, &saved));
    REQUIRE_OK(es_store_create_shared(second.graph, device, 7, &loaded));
    REQUIRE_OK(es_store_initialise(saved, first.graph, stream, 8, (int32_t[]){4}));
    REQUIRE_OK(es_optimiser_create(first.graph, saved, &options, &before));
    REQUIRE_OK(es_optimiser_create(second.graph, loaded, &options, &after));
    plan_policy(&first, saved, before);
    REQUIRE_OK(es_plan_run(first.plan, stream));
    REQUIRE_OK(es_checkpoint_save(path, first.graph, saved, before, stream, NULL, 0));
    REQUIRE_OK(es_checkpoint_load(path, second.graph, loaded, after, stream));
    expect_equal(stream, &saved->parameters, &loaded->parameters, "a parameter");
    expect_equal(stream, &before->moment1, &after->moment1, "a moment");
    EXPECT_EQ(steps_of(after, stream), 1);
    unlink(path);
    close_policy(&first);
    close_policy(&second);
    es_optimiser_destroy(before);
    es_optimiser_destroy(after);
    es_store_destroy(saved);
    es_store_destroy(loaded);
    es_stream_destroy(stream);
    es_device_close(device);
}
