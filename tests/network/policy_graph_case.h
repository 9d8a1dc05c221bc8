// Fixture of the tests of shared stores: a small network with every operation of a policy, on fixed
// inputs, with gradients given from outside.
#ifndef ES_TESTS_POLICY_GRAPH_CASE_H
#define ES_TESTS_POLICY_GRAPH_CASE_H

#include "es_test.h"

#include "base/random_rules.h"
#include "network/plan/plan.h"

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

static inline uint32_t draw(uint32_t number) {
    return es_random_draw(21, 0, ES_PURPOSE_EVALUATION, 0, number / 4).word[number % 4];
}

// Linear, layer norm, embedding, LSTM, concat, activation and dropout, as a policy has them.
static inline void build_policy(Policy *p, int64_t n_envs, int has_gradients) {
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

static inline void bind_inputs(Policy *p) {
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

static inline void open_policy(Policy *p, EsDevice *device, EsStream *stream, int64_t n_envs,
                               int has_gradients) {
    memset(p, 0, sizeof *p);
    p->device = device;
    p->stream = stream;
    build_policy(p, n_envs, has_gradients);
}

static inline void plan_policy(Policy *p, EsStore *store, EsOptimiser *optimiser) {
    EsPlanOptions options = es_plan_defaults();
    options.optimiser = optimiser;
    p->store = store;
    REQUIRE_OK(es_plan_create(p->graph, store, &options, &p->plan));
    EXPECT(!es_plan_report(p->plan).uses_lanes);
    bind_inputs(p);
}

static inline void close_policy(Policy *p) {
    es_plan_destroy(p->plan);
    es_graph_destroy(p->graph);
    for (int i = 0; i < p->n_inputs; i++) {
        es_device_destroy_tensor(&p->input[i]);
    }
}

static inline void copy_out(EsStream *stream, const EsTensor *tensor, float *values) {
    ES_ASSERT(es_tensor_count(tensor) <= MAX_VALUES);
    REQUIRE_OK(
        es_stream_copy(stream, values, tensor->data, es_tensor_bytes(tensor), ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
}

static inline void expect_equal(EsStream *stream, const EsTensor *a, const EsTensor *b,
                                const char *what) {
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

static inline void open_device(const char *name, EsDevice **device, EsStream **stream) {
    REQUIRE_OK(es_device_open(name, &(EsDeviceOptions){.n_threads = 2}, device));
    REQUIRE_OK(es_stream_create(*device, stream));
}

static inline EsOptimiserOptions adam_options(void) {
    EsOptimiserOptions options = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    options.measures = 1;
    options.skips_nonfinite = 1;
    return options;
}

static inline int32_t steps_of(const EsOptimiser *optimiser, EsStream *stream) {
    int32_t n_steps = -1;
    REQUIRE_OK(
        es_stream_copy(stream, &n_steps, optimiser->n_steps.data, sizeof n_steps, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    return n_steps;
}

#endif
