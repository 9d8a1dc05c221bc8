// The fused acting step against the acting plan on the same device and against the CPU, over steps
// of recurrence with resets: within policy_parity's bound. The same bits twice, and replayed.
#include "control/policy/policy_inference_internal.h"

#include "control/policy_case.h"

// of the largest number of its kind
#define BOUND      1e-4
#define BOUND_TF32 1e-2

enum { N_BUFFERS = 4 }; // logits, value, h, c: what a step leaves

typedef struct ActCase {
    PolicyCase cpu; // the specification, and whose rows are played
    EsDevice *device;
    EsStream *stream;
    EsPolicyGraph graph;
    EsStore *store;
    EsPlan *plan;
    EsPolicyAct *act, *act_tf32;
    EsTensor features, slots, blueprints, is_reset; // slots: of version 2
    EsTensor plan_state[2];
    EsTensor fused[N_BUFFERS], tf32[N_BUFFERS];
    int64_t count[N_BUFFERS];
    double bound;                                    // BOUND, or what the case says
    double most_used;                                // of the bound
    double tf32_off[N_BUFFERS], tf32_top[N_BUFFERS]; // of all steps: one value may be near 0
} ActCase;

static const char *const buffer_name[N_BUFFERS] = {"logits", "values", "h", "c"};

// --- set-up ---

static EsTensor make_tensor(ActCase *test, EsDtype dtype, int64_t n) {
    EsTensor tensor;
    REQUIRE_OK(es_device_create_tensor(test->device, dtype, 1, &n, &tensor));
    return tensor;
}

static EsTensor make_input(ActCase *test, EsValueId id) {
    const EsValue *value = &test->graph.graph->values[id];
    EsTensor tensor;
    REQUIRE_OK(
        es_device_create_tensor(test->device, value->dtype, value->rank, value->dim, &tensor));
    REQUIRE_OK(es_plan_bind(test->plan, id, &tensor));
    return tensor;
}

static void open_plan(ActCase *test) {
    EsPlanOptions options = es_plan_defaults();
    REQUIRE_OK(es_plan_create(test->graph.graph, test->store, &options, &test->plan));
    test->features = make_input(test, test->graph.features);
    test->blueprints = make_input(test, test->graph.blueprints);
    if (test->graph.slots != ES_NO_VALUE) {
        test->slots = make_input(test, test->graph.slots);
    }
    test->plan_state[0] = make_input(test, test->graph.h_start);
    test->plan_state[1] = make_input(test, test->graph.c_start);
}

static ActCase *create_act_case(EsPolicySpec spec, int64_t n_envs, int64_t n_steps) {
    ActCase *test = calloc(1, sizeof *test);
    test->cpu = create_case(spec, n_envs, n_steps, 2, 4);
    shake_parameters(&test->cpu, 0.1f);
    REQUIRE_OK(es_device_open("cuda", NULL, &test->device));
    REQUIRE_OK(es_stream_create(test->device, &test->stream));
    EsPolicyGraphSize size = {.n_shards = 1, .n_steps = 1, .n_rows = n_envs};
    REQUIRE_OK(es_policy_graph_create(&spec, size, &test->graph));
    REQUIRE_OK(es_store_create_shared(test->graph.graph, test->device, 1, &test->store));
    const EsTensor *parameters = &es_policy_network_store(test->cpu.network)->parameters;
    REQUIRE_OK(es_stream_copy(test->stream, test->store->parameters.data, parameters->data,
                              es_tensor_bytes(parameters), ES_COPY_TO_DEVICE));
    open_plan(test);
    EsPolicyActOptions exact = {.is_tf32 = 0}, rounded = {.is_tf32 = 1};
    REQUIRE_OK(es_policy_act_create(&test->graph, &spec, test->store, exact, &test->act));
    REQUIRE_OK(es_policy_act_create(&test->graph, &spec, test->store, rounded, &test->act_tf32));
    test->is_reset = make_tensor(test, ES_DTYPE_U8, n_envs);
    const int64_t row[N_BUFFERS] = {test->graph.graph->values[test->graph.logits].dim[2], 1,
                                    spec.n_hidden, spec.n_hidden};
    for (int i = 0; i < N_BUFFERS; i++) {
        test->count[i] = n_envs * row[i];
        test->fused[i] = make_tensor(test, ES_DTYPE_F32, test->count[i]);
        test->tf32[i] = make_tensor(test, ES_DTYPE_F32, test->count[i]);
    }
    return test;
}

static void destroy_act_case(ActCase *test) {
    EsTensor *const tensors[] = {&test->features, &test->slots,         &test->blueprints,
                                 &test->is_reset, &test->plan_state[0], &test->plan_state[1]};
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        es_device_destroy_tensor(tensors[i]);
    }
    for (int i = 0; i < N_BUFFERS; i++) {
        es_device_destroy_tensor(&test->fused[i]);
        es_device_destroy_tensor(&test->tf32[i]);
    }
    es_policy_act_destroy(test->act);
    es_policy_act_destroy(test->act_tf32);
    es_plan_destroy(test->plan);
    es_store_destroy(test->store);
    es_policy_graph_destroy(&test->graph);
    es_stream_destroy(test->stream);
    es_device_close(test->device);
    destroy_case(&test->cpu);
    free(test);
}

// --- running ---

static void send(ActCase *test, const EsTensor *to, const void *from) {
    REQUIRE_OK(
        es_stream_copy(test->stream, to->data, from, es_tensor_bytes(to), ES_COPY_TO_DEVICE));
}

static float *receive(ActCase *test, const EsTensor *from) {
    float *numbers = malloc(es_tensor_bytes(from));
    REQUIRE_OK(
        es_stream_copy(test->stream, numbers, from->data, es_tensor_bytes(from), ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(test->stream));
    return numbers;
}

// Observations and blueprints of the rows of step t.
static void send_rows(ActCase *test, int64_t t) {
    const EsRollout *rollout = test->cpu.rollout;
    int64_t E = rollout->shape.n_envs, D = rollout->shape.n_features;
    const float *rows = rollout->features + t * E * D;
    send(test, &test->blueprints, rollout->ids + t * E * rollout->shape.n_ids);
    if (test->slots.data == NULL) {
        send(test, &test->features, rows);
        return;
    }
    size_t n_host = ES_SET_OBSERVATION_HOST, n_slots = (size_t)D - n_host;
    float *hosts = malloc(es_tensor_bytes(&test->features));
    float *slots = malloc(es_tensor_bytes(&test->slots));
    for (int64_t e = 0; e < E; e++) {
        memcpy(hosts + (size_t)e * n_host, rows + e * D, n_host * sizeof *rows);
        memcpy(slots + (size_t)e * n_slots, rows + e * D + n_host, n_slots * sizeof *rows);
    }
    send(test, &test->features, hosts);
    send(test, &test->slots, slots);
    REQUIRE_OK(es_stream_synchronize(test->stream));
    free(hosts);
    free(slots);
}

static void queue(ActCase *test, EsPolicyAct *act, const EsTensor *to, int is_peek) {
    EsPolicyInputs inputs = {test->features.data, test->slots.data, test->blueprints.data};
    (is_peek ? es_policy_act_peek(act, test->stream, &inputs, test->is_reset.data, to[2].data,
                                  to[3].data, to[0].data, to[1].data)
             : es_policy_act_queue(act, test->stream, &inputs, test->is_reset.data, to[2].data,
                                   to[3].data, to[0].data, to[1].data));
}

// The plan has no resets of its own: rows of the state are cleared before it runs.
static void run_plan(ActCase *test, const uint8_t *is_reset) {
    size_t bytes = es_tensor_bytes(&test->plan_state[0]);
    int64_t E = test->graph.size.n_rows;
    const EsValueId after[2] = {test->graph.h, test->graph.c};
    for (int i = 0; i < 2; i++) {
        for (int64_t e = 0; e < E; e++) {
            size_t row_bytes = bytes / (size_t)E;
            if (is_reset[e]) {
                REQUIRE_OK(es_stream_fill(test->stream,
                                          (char *)test->plan_state[i].data + (size_t)e * row_bytes,
                                          0, row_bytes));
            }
        }
    }
    REQUIRE_OK(es_plan_run(test->plan, test->stream));
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(es_stream_copy(test->stream, test->plan_state[i].data,
                                  es_plan_tensor(test->plan, after[i]).data, bytes,
                                  ES_COPY_ON_DEVICE));
    }
}

// --- comparing ---

// The largest of `wanted`, and the largest distance from it; NaN is infinitely far.
static double distance(const float *wanted, const float *seen, int64_t n, double *top) {
    double off = 0;
    *top = 0;
    for (int64_t i = 0; i < n; i++) {
        double difference = fabs((double)wanted[i] - (double)seen[i]);
        *top = fmax(*top, fabs((double)wanted[i]));
        off = difference <= off ? off : (isnan(difference) ? INFINITY : difference);
    }
    return off;
}

static void expect_near(ActCase *test, const char *whose, int buffer, int64_t t,
                        const float *wanted, const float *seen) {
    double top, off = distance(wanted, seen, test->count[buffer], &top);
    test->most_used = fmax(test->most_used, off / (test->bound * top));
    if (!(top > 0 && off <= test->bound * top)) {
        ES_TEST_FAIL("step %lld: %s are off %s by %.3g where the largest is %.3g", (long long)t,
                     buffer_name[buffer], whose, off, top);
    }
}

static void compare_with_cpu(ActCase *test, int64_t t, float *const seen[N_BUFFERS]) {
    const EsRolloutShape *shape = &test->cpu.rollout->shape;
    int64_t row = t * shape->n_envs;
    EsOutputs cpu;
    REQUIRE_OK(es_policy_inference_reset(test->cpu.network, test->cpu.rollout->is_reset + row));
    REQUIRE_OK(es_policy_inference_act(test->cpu.network,
                                       test->cpu.rollout->features + row * shape->n_features,
                                       test->cpu.rollout->ids + row * shape->n_ids, 0, &cpu));
    expect_near(test, "the CPU's", 0, t, cpu.logits, seen[0]);
    expect_near(test, "the CPU's", 1, t, cpu.value, seen[1]);
}

static void compare_with_plan(ActCase *test, int64_t t, float *const seen[N_BUFFERS]) {
    const EsTensor outputs[N_BUFFERS] = {es_plan_tensor(test->plan, test->graph.logits),
                                         es_plan_tensor(test->plan, test->graph.value),
                                         test->plan_state[0], test->plan_state[1]};
    for (int i = 0; i < N_BUFFERS; i++) {
        float *wanted = receive(test, &outputs[i]), *rounded = receive(test, &test->tf32[i]);
        expect_near(test, "the plan's", i, t, wanted, seen[i]);
        double top, off = distance(wanted, rounded, test->count[i], &top);
        test->tf32_off[i] = fmax(test->tf32_off[i], off);
        test->tf32_top[i] = fmax(test->tf32_top[i], top);
        free(wanted);
        free(rounded);
    }
}

// A peek says the same and leaves the state alone; a captured step gives the same bits.
static void step_fused(ActCase *test, EsCapture *capture, float *seen[N_BUFFERS]) {
    float *h = receive(test, &test->fused[2]), *c = receive(test, &test->fused[3]);
    queue(test, test->act, test->fused, 1);
    float *const peeked[N_BUFFERS] = {
        receive(test, &test->fused[0]), receive(test, &test->fused[1]),
        receive(test, &test->fused[2]), receive(test, &test->fused[3])};
    EXPECT(memcmp(h, peeked[2], es_tensor_bytes(&test->fused[2])) == 0);
    EXPECT(memcmp(c, peeked[3], es_tensor_bytes(&test->fused[3])) == 0);
    if (capture != NULL) {
        REQUIRE_OK(es_capture_replay(capture, test->stream));
    } else {
        queue(test, test->act, test->fused, 0);
    }
    for (int i = 0; i < N_BUFFERS; i++) {
        seen[i] = receive(test, &test->fused[i]);
        EXPECT(i >= 2 || memcmp(seen[i], peeked[i], es_tensor_bytes(&test->fused[i])) == 0);
        free(peeked[i]);
    }
    free(h);
    free(c);
}

static void compare_steps(ActCase *test) {
    const EsRollout *rollout = test->cpu.rollout;
    const EsRolloutShape *shape = &rollout->shape;
    EsCapture *capture = NULL;
    for (int64_t t = 0; t < shape->n_steps; t++) {
        int64_t row = t * shape->n_envs;
        float *seen[N_BUFFERS];
        send_rows(test, t);
        send(test, &test->is_reset, rollout->is_reset + row);
        if (t == 1) {
            REQUIRE_OK(es_capture_begin(test->stream));
            queue(test, test->act, test->fused, 0);
            REQUIRE_OK(es_capture_end(test->stream, &capture));
        }
        run_plan(test, rollout->is_reset + row);
        step_fused(test, t % 2 == 1 ? capture : NULL, seen);
        queue(test, test->act_tf32, test->tf32, 0);
        compare_with_cpu(test, t, seen);
        compare_with_plan(test, t, seen);
        for (int i = 0; i < N_BUFFERS; i++) {
            free(seen[i]);
        }
    }
    es_capture_destroy(capture);
}

static double worst_of_tf32(const ActCase *test) {
    double worst = 0;
    for (int i = 0; i < N_BUFFERS; i++) {
        worst = fmax(worst, test->tf32_off[i] / test->tf32_top[i]);
    }
    return worst;
}

static int count_launches(ActCase *test) {
    int64_t before = es_device_counters(test->device).n_launches;
    queue(test, test->act, test->fused, 1);
    return (int)(es_device_counters(test->device).n_launches - before);
}

typedef struct ParityCase {
    EsPolicySpec spec;
    int64_t n_envs, n_steps;
    double bound, bound_tf32;
} ParityCase;

static void compare_case(const ParityCase *wanted) {
    const EsPolicySpec *spec = &wanted->spec;
    ActCase *test = create_act_case(*spec, wanted->n_envs, wanted->n_steps);
    test->bound = wanted->bound;
    int is_projected = !spec->is_set && spec->n_features != spec->n_hidden;
    EXPECT_EQ(es_policy_act_launches(test->act), spec->is_set || is_projected ? 6 : 5);
    EXPECT_EQ(count_launches(test), es_policy_act_launches(test->act));
    compare_steps(test);
    EXPECT(worst_of_tf32(test) <= wanted->bound_tf32);
    REQUIRE_OK(es_device_status(test->device));
    printf("parity policy_act f32: bound 0 + %.2g, at most %.3f of it used; TF32 is off by "
           "%.2g\n",
           test->bound, test->most_used, worst_of_tf32(test));
    destroy_act_case(test);
}

TEST(parity) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    const ParityCase cases[] = {
        // a norm over the two features that 8 hidden units leave magnifies any rounding
        {es_policy_spec_default(1, 8), 1, 30, 10 * BOUND, 1.0},
        {es_policy_spec_default(1, 16), 2, 30, BOUND, BOUND_TF32},
        {{.n_slots = 3, .n_hidden = 32, .n_features = 24, .dropout = 0.1f},
         19,
         30,
         BOUND,
         BOUND_TF32},
        {{.n_slots = 2, .n_hidden = 24, .n_features = 37, .dropout = 0.1f},
         16,
         30,
         BOUND,
         BOUND_TF32},
        {{.n_slots = 16, .n_hidden = 40, .n_features = 5, .dropout = 0.1f},
         65,
         4,
         BOUND,
         BOUND_TF32},
        {es_policy_spec_default(5, 136), 33, 4, BOUND, BOUND_TF32},
        {es_policy_spec_default(3, 512), 64, 2, BOUND, BOUND_TF32},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        compare_case(&cases[i]);
    }
}

// Slots as a set: encodings of widths that no vector divides, one slot to sixteen.
TEST(set_parity) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    const struct {
        int n_slots, n_hidden, n_features;
        int64_t n_envs, n_steps;
    } cases[] = {{1, 16, 16, 1, 12},  {3, 32, 24, 19, 6},   {2, 24, 37, 8, 6},
                 {16, 40, 11, 33, 3}, {12, 136, 136, 5, 2}, {3, 512, 512, 64, 1}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        ParityCase wanted = {.spec = es_policy_spec_default(cases[i].n_slots, cases[i].n_hidden),
                             .n_envs = cases[i].n_envs,
                             .n_steps = cases[i].n_steps,
                             .bound = BOUND,
                             .bound_tf32 = BOUND_TF32};
        wanted.spec.n_features = cases[i].n_features;
        wanted.spec.is_set = 1;
        compare_case(&wanted);
    }
}

// --- divergence ---

// Of both; returns the bits that stood there.
static uint32_t set_weight(ActCase *test, int64_t at, uint32_t bits) {
    uint32_t *here = es_policy_network_store(test->cpu.network)->parameters.data;
    uint32_t *there = test->store->parameters.data, before = here[at];
    here[at] = bits;
    REQUIRE_OK(es_stream_copy(test->stream, there + at, here + at, sizeof bits, ES_COPY_TO_DEVICE));
    return before;
}

static int64_t expect_equal_nans(const char *name, const char *whose, const float *wanted,
                                 const float *seen, int64_t n) {
    int64_t n_nans = 0, n_lost = 0, n_new = 0;
    for (int64_t i = 0; i < n; i++) {
        n_nans += isnan(wanted[i]);
        n_lost += isnan(wanted[i]) && !isnan(seen[i]);
        n_new += !isnan(wanted[i]) && isnan(seen[i]);
    }
    if (n_lost + n_new > 0) {
        ES_TEST_FAIL("NaN in %s: of %lld NaNs among the CPU's %lld %s %lld are lost, %lld are new",
                     name, (long long)n_nans, (long long)n, whose, (long long)n_lost,
                     (long long)n_new);
    }
    return n_nans;
}

// The first step of an episode on the CPU and on the device; returns how many outputs are NaN.
static int64_t compare_nans(ActCase *test, const char *name, int in_tf32) {
    const EsRollout *rollout = test->cpu.rollout;
    int64_t n_nans = 0;
    EsOutputs cpu;
    REQUIRE_OK(es_policy_inference_reset(test->cpu.network, NULL));
    REQUIRE_OK(
        es_policy_inference_act(test->cpu.network, rollout->features, rollout->ids, 0, &cpu));
    queue(test, test->act, test->fused, 0);
    queue(test, test->act_tf32, test->tf32, 0);
    for (int i = 0; i < 2; i++) {
        float *exact = receive(test, &test->fused[i]), *rounded = receive(test, &test->tf32[i]);
        const float *wanted = i == 0 ? cpu.logits : cpu.value;
        n_nans += expect_equal_nans(name, buffer_name[i], wanted, exact, test->count[i]);
        if (in_tf32) {
            expect_equal_nans(name, i == 0 ? "TF32 logits" : "TF32 values", wanted, rounded,
                              test->count[i]);
        }
        free(exact);
        free(rounded);
    }
    return n_nans;
}

// A NaN in any weight is seen where the CPU shows it. The GPU's own NaN has all bits of the
// mantissa, that of the second kind none that TF32 keeps: there it is infinity (cuda_matrix.cuh).
TEST(nan_stays) {
    const EsPolicySpec specs[] = {
        es_policy_spec_default(2, 16),
        {.n_slots = 1, .n_hidden = 24, .n_features = 13, .dropout = 0.1f},
        {.n_slots = 2, .n_hidden = 16, .n_features = 16, .dropout = 0.1f, .is_set = 1},
    };
    const uint32_t nans[] = {0x7FFFFFFFu, 0x7F800001u};
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    for (size_t i = 0; i < ES_COUNT_OF(specs); i++) {
        ActCase *test = create_act_case(specs[i], 3, 1);
        const EsGraph *graph = test->graph.graph;
        int n_hidden = 0, n_some = 0, n_all = 0;
        send_rows(test, 0);
        REQUIRE_OK(es_stream_fill(test->stream, test->is_reset.data, 1, 3));
        for (int v = 0; v < graph->n_values; v++) {
            const EsValue *value = &graph->values[v];
            for (int k = 0; value->role == ES_ROLE_PARAMETER && k < 2; k++) {
                uint32_t before = set_weight(test, value->slab_offset, nans[k]);
                int64_t n = compare_nans(test, value->name, k == 0);
                n_hidden += n == 0;
                n_all += n == test->count[0] + test->count[1];
                n_some += n > 0 && n < test->count[0] + test->count[1];
                set_weight(test, value->slab_offset, before);
            }
        }
        EXPECT(n_some > 20 && n_all > 10); // the rest are auxiliary outputs
        printf("NaN in %d weights: %d seen in all outputs, %d in some\n", n_hidden + n_some + n_all,
               n_all, n_some);
        destroy_act_case(test);
    }
}

// It is what a network on CUDA acts with.
TEST(a_network_on_cuda_is_fused) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    EsPolicySpec spec = es_policy_spec_default(2, 16);
    EsDevice *device;
    EsPolicyNetwork *network;
    EsOutputs outputs;
    REQUIRE_OK(es_device_open("cuda", NULL, &device));
    REQUIRE_OK(es_policy_network_create(device, &spec, 3, 0, &network));
    REQUIRE_OK(es_policy_network_initialise(network, 1));
    const float features[3 * (ES_OBSERVATION_HOST + 2 * ES_OBSERVATION_SLOT)] = {1.0f};
    const int32_t blueprints[3 * 2] = {0};
    for (int i = 0; i < 4; i++) { // directly, recorded, replayed
        REQUIRE_OK(es_policy_inference_act(network, features, blueprints, 0, &outputs));
    }
    EsActingReport report = es_policy_inference_report(network);
    EXPECT(report.is_fused);
    EXPECT_EQ(report.n_launches, 5);
    EXPECT_TEXT(report.fallback, "");
    es_policy_network_destroy(network);
    es_device_close(device);
}

// Without a CUDA device the plan acts, and create says so.
TEST(the_cpu_is_refused) {
    EsPolicySpec spec = es_policy_spec_default(3, 16);
    PolicyCase test = create_case(spec, 2, 1, 1, 0);
    EsPolicyGraph graph;
    EsPolicyAct *act;
    EsPolicyGraphSize size = {.n_shards = 1, .n_steps = 1, .n_rows = 2};
    REQUIRE_OK(es_policy_graph_create(&spec, size, &graph));
    EXPECT_STATUS(es_policy_act_create(&graph, &spec, es_policy_network_store(test.network),
                                       (EsPolicyActOptions){.is_tf32 = 0}, &act),
                  UNSUPPORTED);
    EXPECT(act == NULL);
    EsActingReport report = es_policy_inference_report(test.network);
    EXPECT(!report.is_fused && report.n_launches > 40);
    EXPECT_CONTAINS(report.fallback, "CUDA alone");
    es_policy_graph_destroy(&graph);
    destroy_case(&test);
}
