// Losses computed outside the graph: concat, detach, gradients given with respect to several
// outputs, and the two halves of a run.
#include "es_test.h"

#include "base/random_rules.h"
#include "network/plan/plan.h"

#define N_ENVS     2
#define N_ROWS     5
#define N_WIDE     4
#define MAX_INPUTS 8

typedef struct Trial {
    EsDevice *device;
    EsStream *stream;
    EsGraph *graph;
    EsStore *store;
    EsPlan *plan;
    EsTensor input[MAX_INPUTS]; // owned memory, filled from Philox
    int n_inputs;
    EsValueId values[3], d_values[3];
    int n;
} Trial;

static float draw(uint32_t number) {
    EsRandom4 r = es_random_draw(7, 0, ES_PURPOSE_EVALUATION, 0, number / 4);
    return 2.0f * es_random_uniform(r.word[number % 4]) - 1.0f;
}

// An output with the input that brings in its gradient.
static void give(Trial *t, EsValueId value) {
    char name[32];
    snprintf(name, sizeof name, "given %d", t->n);
    es_graph_keep(t->graph, value);
    EsValue of = t->graph->values[value];
    t->values[t->n] = value;
    t->d_values[t->n++] = es_graph_input(t->graph, name, ES_DTYPE_F32, of.rank - 1, of.dim + 1);
}

// Two outputs over a trunk that both read, one of them under another shape; a third behind a wall.
// The parameters of "aside" lead nowhere.
static void build_heads(Trial *t) {
    EsGraph *g = t->graph;
    EsValueId x = es_graph_input(g, "x", ES_DTYPE_F32, 2, (int64_t[]){N_ROWS, 3});
    EsValueId z = es_graph_input(g, "z", ES_DTYPE_F32, 2, (int64_t[]){N_ROWS, 2});
    EsValueId left = es_graph_activation(g, ES_ACTIVATION_TANH, es_graph_linear(g, "left", x, 3));
    EsValueId joined =
        es_graph_concat(g, 4, (EsValueId[]){left, z, es_graph_linear(g, "right", z, N_WIDE), left});
    EsValueId trunk = es_graph_layernorm(g, "norm", es_graph_linear(g, "trunk", joined, N_WIDE));
    give(t, es_graph_linear(g, "policy", trunk, 3));
    EsValueId value = es_graph_linear(g, "value", trunk, 1);
    give(t, es_graph_reshape(g, value, 1, (int64_t[]){N_ROWS}));
    give(t, es_graph_linear(g, "walled", es_graph_detach(g, trunk), 2));
    es_graph_linear(g, "aside", trunk, 2);
}

static void open_trial(Trial *t, const char *device, void (*build)(Trial *t)) {
    memset(t, 0, sizeof *t);
    REQUIRE_OK(es_device_open(device, &(EsDeviceOptions){.n_threads = 1}, &t->device));
    REQUIRE_OK(es_stream_create(t->device, &t->stream));
    REQUIRE_OK(es_graph_create(N_ENVS, &t->graph));
    build(t);
    REQUIRE_OK(es_graph_status(t->graph));
}

static void bind_inputs(Trial *t) {
    for (int v = 0; v < t->graph->n_values; v++) {
        const EsValue *value = &t->graph->values[v];
        if (value->role != ES_ROLE_INPUT) {
            continue;
        }
        ES_ASSERT(t->n_inputs < MAX_INPUTS);
        float values[256];
        EsTensor *tensor = &t->input[t->n_inputs++];
        REQUIRE_OK(
            es_device_create_tensor(t->device, value->dtype, value->rank, value->dim, tensor));
        ES_ASSERT(es_tensor_count(tensor) <= (int64_t)ES_COUNT_OF(values));
        for (int64_t i = 0; i < es_tensor_count(tensor); i++) {
            values[i] = draw((uint32_t)(i + 1000 * v));
        }
        REQUIRE_OK(es_stream_copy(t->stream, tensor->data, values, es_tensor_bytes(tensor),
                                  ES_COPY_TO_DEVICE));
        REQUIRE_OK(es_stream_synchronize(t->stream));
        REQUIRE_OK(es_plan_bind(t->plan, v, tensor));
    }
}

static void make_plan(Trial *t, EsCompileMode mode, EsOptimiser *optimiser) {
    EsPlanOptions options = es_plan_defaults();
    options.mode = mode;
    options.optimiser = optimiser;
    REQUIRE_OK(es_plan_create(t->graph, t->store, &options, &t->plan));
    bind_inputs(t);
}

static void open_heads(Trial *t, const char *device, EsCompileMode mode) {
    open_trial(t, device, build_heads);
    REQUIRE_OK(es_graph_differentiate_from(t->graph, t->n, t->values, t->d_values));
    REQUIRE_OK(es_store_create(t->graph, t->device, &t->store));
    REQUIRE_OK(es_store_initialise(t->store, t->graph, t->stream, 5, (int32_t[]){0, 1}));
    make_plan(t, mode, NULL);
}

static void close_trial(Trial *t) {
    es_plan_destroy(t->plan);
    es_store_destroy(t->store);
    es_graph_destroy(t->graph);
    for (int i = 0; i < t->n_inputs; i++) {
        es_device_destroy_tensor(&t->input[i]);
    }
    es_stream_destroy(t->stream);
    es_device_close(t->device);
}

static EsTensor named(const Trial *t, const char *name) {
    EsValueId id = es_graph_find(t->graph, name);
    ES_ASSERT(id != ES_NO_VALUE);
    return es_plan_tensor(t->plan, id);
}

// The sum over the outputs from `first` on of <d_value, value> of one environment.
static double scalar_of(Trial *t, int env, int first, int last) {
    REQUIRE_OK(es_plan_run_forward(t->plan, t->stream));
    double sum = 0.0;
    for (int i = first; i < last; i++) {
        EsTensor value = es_plan_tensor(t->plan, t->values[i]);
        EsTensor given = es_plan_tensor(t->plan, t->d_values[i]);
        int64_t count = es_tensor_count(&value) / N_ENVS;
        for (int64_t k = env * count; k < (env + 1) * count; k++) {
            sum += (double)((float *)value.data)[k] * (double)((float *)given.data)[k];
        }
    }
    return sum;
}

static void check_gradients(EsCompileMode mode) {
    const double step = 4e-3;
    Trial t;
    open_heads(&t, "cpu", mode);
    scalar_of(&t, 0, 0, t.n);
    REQUIRE_OK(es_plan_run_backward(t.plan, t.stream));
    EsTensor *slab = &t.store->gradients;
    float *analytic = malloc(es_tensor_bytes(slab));
    memcpy(analytic, slab->data, es_tensor_bytes(slab));
    for (int v = 0; v < t.graph->n_values; v++) {
        const EsValue *value = &t.graph->values[v];
        int64_t count = value->role == ES_ROLE_PARAMETER ? es_value_count(value) : 0;
        // the wall: what stands before it learns from the first two outputs alone
        int is_walled = strncmp(value->name, "walled", 6) == 0;
        for (int64_t k = 0; k < ES_MIN(count, 8); k++) {
            int env = (int)(k % N_ENVS);
            int64_t element = env * slab->stride[0] + value->slab_offset + k * 7 % count;
            float *parameter = (float *)t.store->parameters.data + element, before = *parameter;
            *parameter = (float)((double)before + step);
            double up = scalar_of(&t, env, 0, is_walled ? 3 : 2), high = (double)*parameter;
            *parameter = (float)((double)before - step);
            double down = scalar_of(&t, env, 0, is_walled ? 3 : 2), low = (double)*parameter;
            *parameter = before;
            double numeric = (up - down) / (high - low), exact = (double)analytic[element];
            if (!(fabs(numeric - exact) <= 2e-4 + 1e-2 * fabs(numeric))) {
                ES_TEST_FAIL("%s env %d element %lld: gradient %.6g, differences give %.6g",
                             value->name, env, (long long)(k * 7 % count), exact, numeric);
            }
        }
    }
    free(analytic);
    close_trial(&t);
}

TEST(gradients_of_several_outputs) {
    check_gradients(ES_COMPILE_OFF);
    check_gradients(ES_COMPILE_DEFAULT);
}

TEST(a_parameter_that_no_output_depends_on_has_gradient_zero) {
    Trial t;
    open_heads(&t, "cpu", ES_COMPILE_DEFAULT);
    EsTensor *slab = &t.store->gradients;
    for (int64_t i = 0; i < es_tensor_count(slab); i++) {
        ((float *)slab->data)[i] = 99.0f;
    }
    REQUIRE_OK(es_plan_run_forward(t.plan, t.stream));
    REQUIRE_OK(es_plan_run_backward(t.plan, t.stream));
    EsValueId aside = es_graph_find(t.graph, "aside.weight");
    EXPECT_EQ(t.graph->values[aside].gradient, ES_NO_VALUE);
    int64_t offset = t.graph->values[aside].slab_offset;
    for (int64_t e = 0; e < N_ENVS; e++) {
        for (int64_t k = 0; k < es_value_count(&t.graph->values[aside]); k++) {
            EXPECT_EQ(((float *)slab->data)[e * slab->stride[0] + offset + k], 0);
        }
    }
    close_trial(&t);
}

TEST(a_detached_value_is_the_same_memory) {
    Trial t;
    open_heads(&t, "cpu", ES_COMPILE_OFF);
    EsValueId walled = t.graph->nodes[t.graph->values[t.values[2]].producer].input[0];
    EXPECT_EQ(t.graph->values[walled].needs_gradient, 0);
    EsTensor copy = es_plan_tensor(t.plan, walled), trunk = named(&t, "norm");
    EXPECT(copy.data == trunk.data);
    // an input needs no wall
    EsValueId x = es_graph_find(t.graph, "x");
    EXPECT_EQ(es_graph_detach(t.graph, x), x);
    close_trial(&t);
}

// Results, gradients and parameters of three steps, as halves or as wholes.
static void record_steps(const char *device, EsCompileMode mode, int in_halves, float *bits,
                         size_t n_bits) {
    Trial t;
    open_heads(&t, device, mode);
    es_plan_destroy(t.plan);
    for (int i = 0; i < t.n_inputs; i++) {
        es_device_destroy_tensor(&t.input[i]);
    }
    t.n_inputs = 0;
    EsOptimiserOptions adam = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    adam.max_norm = 0.5f;
    EsOptimiser *optimiser = NULL;
    REQUIRE_OK(es_optimiser_create(t.graph, t.store, &adam, &optimiser));
    make_plan(&t, mode, optimiser);
    for (int step = 0; step < 4; step++) {
        if (in_halves) {
            REQUIRE_OK(es_plan_run_forward(t.plan, t.stream));
            REQUIRE_OK(es_plan_run_backward(t.plan, t.stream));
        } else {
            REQUIRE_OK(es_plan_run(t.plan, t.stream));
        }
    }
    EsPlanReport report = es_plan_report(t.plan);
    EXPECT_EQ(report.is_captured, strcmp(device, "cuda") == 0 && mode == ES_COMPILE_DEFAULT);
    EsTensor policy = es_plan_tensor(t.plan, t.values[0]);
    size_t bytes = es_tensor_bytes(&t.store->parameters), more = es_tensor_bytes(&policy);
    ES_ASSERT(bytes + more <= n_bits * sizeof(float));
    REQUIRE_OK(es_stream_copy(t.stream, bits, t.store->parameters.data, bytes, ES_COPY_TO_HOST));
    REQUIRE_OK(
        es_stream_copy(t.stream, bits + bytes / sizeof(float), policy.data, more, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(t.stream));
    es_optimiser_destroy(optimiser);
    close_trial(&t);
}

static void check_halves(const char *device) {
    static float whole[4000], halves[4000], other[4000];
    memset(whole, 0, sizeof whole);
    memset(halves, 0, sizeof halves);
    memset(other, 0, sizeof other);
    record_steps(device, ES_COMPILE_DEFAULT, 0, whole, ES_COUNT_OF(whole));
    record_steps(device, ES_COMPILE_DEFAULT, 1, halves, ES_COUNT_OF(halves));
    record_steps(device, ES_COMPILE_OFF, 1, other, ES_COUNT_OF(other));
    EXPECT(memcmp(whole, halves, sizeof whole) == 0);
    EXPECT(memcmp(whole, other, sizeof whole) == 0);
    EXPECT(whole[0] != 0.0f);
}

TEST(halves_equal_the_whole) { check_halves("cpu"); }

TEST(halves_equal_the_whole_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    check_halves("cuda");
}

TEST(halves_come_in_turn) {
    Trial t;
    open_heads(&t, "cpu", ES_COMPILE_DEFAULT);
    EXPECT_STATUS(es_plan_run_backward(t.plan, t.stream), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "follows a forward half");
    REQUIRE_OK(es_plan_run_forward(t.plan, t.stream));
    REQUIRE_OK(es_plan_run_forward(t.plan, t.stream));
    REQUIRE_OK(es_plan_run_backward(t.plan, t.stream));
    EXPECT_STATUS(es_plan_run_backward(t.plan, t.stream), ARGUMENT);
    close_trial(&t);
    // a graph without gradients has one half
    open_trial(&t, "cpu", build_heads);
    REQUIRE_OK(es_store_create(t.graph, t.device, &t.store));
    make_plan(&t, ES_COMPILE_DEFAULT, NULL);
    REQUIRE_OK(es_plan_run_forward(t.plan, t.stream));
    EXPECT_STATUS(es_plan_run_backward(t.plan, t.stream), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "no gradients");
    close_trial(&t);
}

static void build_images(Trial *t) {
    EsValueId x = es_graph_input(t->graph, "x", ES_DTYPE_F32, 4, (int64_t[]){4, 1, 4, 4});
    EsValueId labels = es_graph_input(t->graph, "labels", ES_DTYPE_I32, 1, (int64_t[]){4});
    EsValueId h = es_graph_pool(t->graph, ES_POOL_GLOBAL,
                                es_graph_activation(t->graph, ES_ACTIVATION_RELU,
                                                    es_graph_conv2d(t->graph, "conv", x, 3, 3, 1)));
    EsLoss loss = es_graph_cross_entropy(t->graph, es_graph_linear(t->graph, "head", h, 3), labels);
    REQUIRE_OK(es_graph_differentiate(t->graph, loss.loss));
}

TEST(the_vector_engine_runs_no_halves) {
    Trial t;
    open_trial(&t, "cpu", build_images);
    REQUIRE_OK(es_store_create(t.graph, t.device, &t.store));
    EsPlanOptions options = es_plan_defaults();
    REQUIRE_OK(es_plan_create(t.graph, t.store, &options, &t.plan));
    EXPECT(es_plan_report(t.plan).uses_lanes);
    EXPECT_STATUS(es_plan_run_forward(t.plan, t.stream), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "vector engine");
    EXPECT_STATUS(es_plan_run_backward(t.plan, t.stream), UNSUPPORTED);
    close_trial(&t);
}

TEST(wrong_outputs_are_refused) {
    Trial t;
    open_trial(&t, "cpu", build_heads);
    EsGraph *g = t.graph;
    EsValueId trunk = es_graph_find(g, "trunk"), x = es_graph_find(g, "x");
    EXPECT_STATUS(es_graph_differentiate_from(g, 1, &trunk, &t.d_values[0]), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "\"trunk\" cannot be differentiated: it is no kept output");
    EXPECT_STATUS(es_graph_differentiate_from(g, 1, &x, &t.d_values[0]), ARGUMENT);
    EXPECT_STATUS(es_graph_differentiate_from(g, 1, &t.values[0], &t.d_values[1]), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "no F32 input of its shape");
    EXPECT_STATUS(es_graph_differentiate_from(g, 0, NULL, NULL), ARGUMENT);
    const EsValueId twice[] = {t.values[0], t.values[0]},
                    d_twice[] = {t.d_values[0], t.d_values[0]};
    EXPECT_STATUS(es_graph_differentiate_from(g, 2, twice, d_twice), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "given twice");
    REQUIRE_OK(es_graph_differentiate_from(g, t.n, t.values, t.d_values));
    EXPECT_STATUS(es_graph_differentiate_from(g, t.n, t.values, t.d_values), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "already");
    close_trial(&t);
}

TEST(concat_checks_its_rows) {
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(2, &graph));
    EsValueId a = es_graph_input(graph, "a", ES_DTYPE_F32, 2, (int64_t[]){3, 4});
    EsValueId b = es_graph_input(graph, "b", ES_DTYPE_F32, 2, (int64_t[]){3, 1});
    EsValueId c = es_graph_input(graph, "c", ES_DTYPE_F32, 2, (int64_t[]){2, 4});
    EsValueId y = es_graph_concat(graph, 3, (EsValueId[]){a, b, a});
    REQUIRE_OK(es_graph_status(graph));
    EXPECT_EQ(graph->values[y].dim[2], 9);
    EXPECT_EQ(es_graph_concat(graph, 2, (EsValueId[]){a, c}), ES_NO_VALUE);
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "\"a\" and \"c\" differ in more than the last axis");
    es_graph_destroy(graph);
}
