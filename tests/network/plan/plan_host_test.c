// Hosts run one by one on several threads against es_plan_run: equal bits for graphs of different
// shapes, by lanes and by plain kernels, taking turns in the same memory.
#include "es_test.h"

#include "network/plan/plan_host.h"

#define N_ENVS    5
#define N_IMAGES  21
#define N_SAMPLES 64
#define N_SHAPES  5
#define N_THREADS 3
#define N_ROUNDS  3

// A network: its graph, and the values that runs need.
typedef struct Network {
    EsGraph *graph;
    EsValueId images, labels, episode, step, x, loss, kept;
} Network;

// Inputs of all networks.
typedef struct Data {
    unsigned char images[N_SAMPLES * 2 * 8 * 8];
    uint16_t labels[N_SAMPLES];
    int32_t episode[N_ENVS], step[1];
    float x[N_ENVS * N_IMAGES * 3];
} Data;

static EsValueId block(EsGraph *graph, const char *name, EsValueId x, int64_t n_out,
                       int64_t kernel) {
    EsValueId y = es_graph_conv2d(graph, name, x, n_out, kernel, 0);
    y = es_graph_activation(graph, ES_ACTIVATION_RELU, es_graph_batchnorm(graph, name, y, 1));
    return es_graph_pool(graph, ES_POOL_MAX2, y);
}

// Shape 0 has no gradient, 4 falls back to plain kernels; 2 and 3 have wide borders.
static void network_build(Network *n, int shape) {
    REQUIRE_OK(es_graph_create(N_ENVS, &n->graph));
    EsGraph *g = n->graph;
    EsGatherOptions gather = {.seed = 7, .pad = 1, .flip = 1, .inv_std = {3.0f, 4.0f}};
    n->images = es_graph_shared_input(g, "images", ES_DTYPE_U8, 4, (int64_t[]){N_SAMPLES, 2, 8, 8});
    n->labels = es_graph_shared_input(g, "labels", ES_DTYPE_U16, 1, (int64_t[]){N_SAMPLES});
    n->episode = es_graph_input(g, "episode", ES_DTYPE_I32, 0, NULL);
    n->step = es_graph_shared_input(g, "step", ES_DTYPE_I32, 1, (int64_t[]){1});
    n->x = es_graph_input(g, "x", ES_DTYPE_F32, 2, (int64_t[]){N_IMAGES, 3});
    EsValueId index =
        es_graph_gather_order(g, (EsSampleOrder){3, N_SAMPLES, 1}, N_IMAGES, n->episode, n->step);
    EsValueId h = es_graph_gather_images(g, gather, n->images, index, n->episode, n->step);
    EsValueId answers = es_graph_gather_labels(g, n->labels, index);
    h = block(g, "first", h, 3 + shape, shape == 2 ? 7 : 3);
    n->kept = h;
    if (shape >= 1) {
        h = es_graph_add(g, h, es_graph_conv2d(g, "second", h, 3 + shape, shape == 3 ? 5 : 3, 1));
        n->kept = h;
    }
    es_graph_keep(g, n->kept);
    h = es_graph_pool(g, ES_POOL_GLOBAL, h);
    if (shape == 4) {
        EsDropoutOptions dropout = {.seed = 5, .probability = 0.3f};
        h = es_graph_reshape(g, h, 1, (int64_t[]){N_IMAGES * 7});
        h = es_graph_dropout(g, dropout, n->episode, n->step, h);
        h = es_graph_reshape(g, h, 2, (int64_t[]){N_IMAGES, 7});
    }
    h = es_graph_add(g, es_graph_linear(g, "head", h, 4), es_graph_linear(g, "side", n->x, 4));
    n->loss = es_graph_cross_entropy(g, h, answers).loss;
    if (shape != 0) {
        REQUIRE_OK(es_graph_differentiate(g, n->loss));
    }
    REQUIRE_OK(es_graph_status(g));
}

static void data_fill(Data *data) {
    for (int i = 0; i < N_SAMPLES * 2 * 64; i++) {
        data->images[i] = (unsigned char)(i * 37 % 251);
    }
    for (int i = 0; i < N_SAMPLES; i++) {
        data->labels[i] = (uint16_t)(i % 4);
    }
    for (int i = 0; i < N_ENVS; i++) {
        data->episode[i] = 11 * i + 1;
    }
    for (int i = 0; i < N_ENVS * N_IMAGES * 3; i++) {
        data->x[i] = (float)(i * 17 % 23) * 0.05f - 0.5f;
    }
    data->step[0] = 2;
}

static void plan_bind_all(EsPlan *plan, const Network *n, Data *data, EsDevice *device) {
    struct {
        EsValueId value;
        void *memory;
    } const inputs[] = {{n->images, data->images},
                        {n->labels, data->labels},
                        {n->episode, data->episode},
                        {n->step, data->step},
                        {n->x, data->x}};
    for (size_t i = 0; i < ES_COUNT_OF(inputs); i++) {
        const EsValue *value = &n->graph->values[inputs[i].value];
        EsTensor tensor =
            es_tensor_view(inputs[i].memory, value->dtype, device, value->rank, value->dim);
        REQUIRE_OK(es_plan_bind(plan, inputs[i].value, &tensor));
    }
}

typedef struct Shape {
    Network network;
    EsStore *store;        // es_plan_run
    EsStore *hosted_store; // workers; larger than it need be
    EsPlan *plan, *hosted;
    float losses[N_ENVS], hosted_losses[N_ENVS];
    float *kept, *hosted_kept; // [N_ENVS][kept_count]
    int64_t kept_count;
} Shape;

typedef struct Bench {
    EsDevice *device;
    EsStream *stream;
    Data data;
    Shape shapes[N_SHAPES];
    EsPlanWorker *workers[N_THREADS];
} Bench;

static void shape_open(Bench *b, Shape *s, int i, EsCompileMode mode) {
    network_build(&s->network, i);
    EsGraph *g = s->network.graph;
    REQUIRE_OK(es_store_create(g, b->device, &s->store));
    REQUIRE_OK(es_store_create_sized(b->device, N_ENVS, g->n_parameters + 48, g->n_states + 16,
                                     &s->hosted_store));
    REQUIRE_OK(es_store_initialise(s->store, g, b->stream, 9, b->data.episode));
    REQUIRE_OK(es_store_initialise(s->hosted_store, g, b->stream, 9, b->data.episode));
    EsPlanOptions options = es_plan_defaults();
    options.mode = mode;
    REQUIRE_OK(es_plan_create(g, s->store, &options, &s->plan));
    options.is_hosted = 1;
    REQUIRE_OK(es_plan_create(g, s->hosted_store, &options, &s->hosted));
    plan_bind_all(s->plan, &s->network, &b->data, b->device);
    plan_bind_all(s->hosted, &s->network, &b->data, b->device);
    EXPECT_EQ(es_plan_report(s->hosted).uses_lanes, mode == ES_COMPILE_DEFAULT && i != 4);
    s->kept_count = es_value_count(&g->values[s->network.kept]);
    size_t bytes = (size_t)(N_ENVS * s->kept_count) * sizeof(float);
    s->kept = malloc(bytes);
    s->hosted_kept = malloc(bytes);
    ES_ASSERT(s->kept != NULL && s->hosted_kept != NULL);
}

static void bench_open(Bench *b, EsCompileMode mode) {
    *b = (Bench){0};
    EsDeviceOptions options = {.n_threads = N_THREADS};
    REQUIRE_OK(es_device_open("cpu", &options, &b->device));
    REQUIRE_OK(es_stream_create(b->device, &b->stream));
    data_fill(&b->data);
    for (int i = 0; i < N_SHAPES; i++) {
        shape_open(b, &b->shapes[i], i, mode);
    }
    for (int i = 0; i < N_THREADS; i++) {
        REQUIRE_OK(es_plan_worker_create(b->device, &b->workers[i]));
        for (int k = 0; k < N_SHAPES; k++) {
            REQUIRE_OK(es_plan_worker_reserve(b->workers[i], b->shapes[k].hosted));
        }
    }
}

static void bench_close(Bench *b) {
    for (int i = 0; i < N_THREADS; i++) {
        es_plan_worker_destroy(b->workers[i]);
    }
    for (int i = 0; i < N_SHAPES; i++) {
        Shape *s = &b->shapes[i];
        es_plan_destroy(s->plan);
        es_plan_destroy(s->hosted);
        es_store_destroy(s->store);
        es_store_destroy(s->hosted_store);
        es_graph_destroy(s->network.graph);
        free(s->kept);
        free(s->hosted_kept);
    }
    es_stream_destroy(b->stream);
    es_device_close(b->device);
}

// piece = (env, shape): neighbours differ in shape, so that workers change plans all the time
static void run_piece(void *context, int64_t piece, int thread) {
    Bench *b = context;
    int64_t env = piece / N_SHAPES;
    Shape *s = &b->shapes[piece % N_SHAPES];
    EsPlanWorker *worker = b->workers[thread];
    es_plan_worker_begin(worker, s->hosted, env);
    es_plan_worker_run(worker);
    EsTensor loss = es_plan_worker_tensor(worker, s->network.loss);
    EsTensor kept = es_plan_worker_tensor(worker, s->network.kept);
    s->hosted_losses[env] = *(const float *)loss.data;
    memcpy(s->hosted_kept + env * s->kept_count, kept.data, es_tensor_bytes(&kept));
}

static void expect_equal_rows(const EsTensor *a, const EsTensor *b, const char *what, int shape) {
    for (int64_t e = 0; e < N_ENVS; e++) {
        const float *x = (const float *)a->data + e * a->stride[0];
        const float *y = (const float *)b->data + e * b->stride[0];
        if (memcmp(x, y, (size_t)a->dim[1] * sizeof *x) != 0) {
            ES_TEST_FAIL("shape %d: %s of environment %lld differ", shape, what, (long long)e);
        }
    }
}

static void compare_shapes(EsCompileMode mode) {
    static Bench b;
    bench_open(&b, mode);
    EsThreadPool *pool = es_stream_pool(b.stream);
    int64_t n_before = es_device_counters(b.device).n_allocations;
    for (int round = 0; round < N_ROUNDS; round++) {
        b.data.step[0] = round;
        for (int i = 0; i < N_SHAPES; i++) {
            Shape *s = &b.shapes[i];
            REQUIRE_OK(es_plan_run(s->plan, b.stream));
            EsTensor losses = es_plan_tensor(s->plan, s->network.loss);
            EsTensor kept = es_plan_tensor(s->plan, s->network.kept);
            memcpy(s->losses, losses.data, sizeof s->losses);
            memcpy(s->kept, kept.data, es_tensor_bytes(&kept));
        }
        es_thread_pool_run(pool, (int64_t)N_ENVS * N_SHAPES, run_piece, &b);
        for (int i = 0; i < N_SHAPES; i++) {
            Shape *s = &b.shapes[i];
            EXPECT(memcmp(s->losses, s->hosted_losses, sizeof s->losses) == 0);
            EXPECT(memcmp(s->kept, s->hosted_kept,
                          (size_t)(N_ENVS * s->kept_count) * sizeof(float)) == 0);
            expect_equal_rows(&s->store->gradients, &s->hosted_store->gradients, "gradients", i);
            expect_equal_rows(&s->store->states, &s->hosted_store->states, "states", i);
        }
    }
    EXPECT_EQ(es_device_counters(b.device).n_allocations, n_before);
    bench_close(&b);
}

TEST(lanes_give_the_bits_of_the_whole_plan) { compare_shapes(ES_COMPILE_DEFAULT); }

TEST(plain_kernels_give_the_bits_of_the_whole_plan) { compare_shapes(ES_COMPILE_OFF); }

// Inputs put in place of the plan's, and the plan's again at the next begin.
TEST(inputs_can_be_bound_for_one_run) {
    static Bench b;
    bench_open(&b, ES_COMPILE_DEFAULT);
    Shape *s = &b.shapes[1];
    EsPlanWorker *worker = b.workers[0];
    es_plan_worker_begin(worker, s->hosted, 3);
    es_plan_worker_run(worker);
    float before = *(const float *)es_plan_worker_tensor(worker, s->network.loss).data;

    int32_t episode[1] = {b.data.episode[4]}, step[1] = {6};
    EsTensor episode_tensor = es_tensor_view(episode, ES_DTYPE_I32, b.device, 1, (int64_t[]){1});
    EsTensor step_tensor = es_tensor_view(step, ES_DTYPE_I32, b.device, 1, (int64_t[]){1});
    es_plan_worker_begin(worker, s->hosted, 3);
    es_plan_worker_bind(worker, s->network.episode, &episode_tensor);
    es_plan_worker_bind(worker, s->network.step, &step_tensor);
    es_plan_worker_run(worker);
    float bound = *(const float *)es_plan_worker_tensor(worker, s->network.loss).data;
    EXPECT(bound != before);
    b.data.episode[3] = b.data.episode[4];
    b.data.step[0] = 6;
    es_plan_worker_begin(worker, s->hosted, 3);
    es_plan_worker_run(worker);
    EXPECT(*(const float *)es_plan_worker_tensor(worker, s->network.loss).data == bound);
    EXPECT_EQ(es_plan_worker_tensor(worker, s->network.x).dim[0], 1);
    bench_close(&b);
}

TEST(mistakes_are_told) {
    static Bench b;
    bench_open(&b, ES_COMPILE_DEFAULT);
    Shape *s = &b.shapes[1];
    EXPECT_STATUS(es_plan_run(s->hosted, b.stream), ARGUMENT);
    EXPECT_STATUS(es_plan_worker_reserve(b.workers[0], s->plan), ARGUMENT);
    EsPlanOptions options = es_plan_defaults();
    options.is_hosted = 1;
    options.step = s->network.step;
    EsPlan *plan = NULL;
    EXPECT_STATUS(es_plan_create(s->network.graph, s->hosted_store, &options, &plan), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "a hosted plan has no optimiser and no step counter");
    // a worker has memory for the largest plan: another one asks for nothing
    options.step = ES_NO_VALUE;
    REQUIRE_OK(es_plan_create(s->network.graph, s->hosted_store, &options, &plan));
    int64_t n_before = es_device_counters(b.device).n_allocations;
    REQUIRE_OK(es_plan_worker_reserve(b.workers[0], plan));
    EXPECT_EQ(es_device_counters(b.device).n_allocations, n_before);
    es_plan_destroy(plan);
    bench_close(&b);
}
