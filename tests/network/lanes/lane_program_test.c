// The vector engine against the plain kernels on random graphs: kernels of 1 to 7, residual sums,
// values read by several readers, pools of all kinds, batches that leave lanes empty.
#include "es_test.h"

#include "base/random_rules.h"
#include "network/plan/plan.h"

#define MAX_MAPS 12
#define N_GRAPHS 120
#define N_GREY   24

typedef struct Draw {
    uint32_t seed, count;
} Draw;

static int below(Draw *d, int n) {
    EsRandom4 r = es_random_draw(d->seed, 0, ES_PURPOSE_EVALUATION, 0, d->count++);
    return (int)es_random_below(r.word[0], (uint32_t)n);
}

static float uniform(Draw *d) {
    EsRandom4 r = es_random_draw(d->seed, 1, ES_PURPOSE_EVALUATION, 0, d->count++);
    return 2.0f * es_random_uniform(r.word[1]) - 1.0f;
}

// A random network of up to MAX_MAPS maps; each layer reads one of the maps before it.
static EsValueId build_random(EsGraph *graph, Draw *d, EsValueId x) {
    EsValueId maps[MAX_MAPS] = {x};
    int n_maps = 1, n_layers = 2 + below(d, 6);
    for (int i = 0; i < n_layers && n_maps < MAX_MAPS; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer%d", i);
        EsValueId from = below(d, 3) > 0 ? maps[n_maps - 1] : maps[below(d, n_maps)];
        int64_t size = graph->values[from].dim[3];
        EsValueId to = from;
        switch (below(d, 6)) {
        case 0:
            to = es_graph_conv2d(graph, name, from, 1 + below(d, 9), 1 + 2 * below(d, 4),
                                 below(d, 2));
            break;
        case 1:
        case 2:
        case 3:
            to = es_graph_conv2d(graph, name, from, 1 + below(d, 9), below(d, 3) == 0 ? 5 : 3, 0);
            to = es_graph_batchnorm(graph, name, to, 1);
            to = below(d, 4) > 0 ? es_graph_activation(graph, ES_ACTIVATION_RELU, to) : to;
            to = size >= 2 && below(d, 2) > 0 ? es_graph_pool(graph, ES_POOL_MAX2, to) : to;
            break;
        case 4:
            to = es_graph_activation(graph, (EsActivation)below(d, 3), from);
            break;
        default:
            if (size >= 2) {
                to = es_graph_pool(graph, below(d, 2) ? ES_POOL_MAX2 : ES_POOL_AVERAGE2, from);
            }
        }
        // a residual sum with an earlier map of the same shape
        EsValueId other = maps[below(d, n_maps)];
        if (memcmp(graph->values[other].dim, graph->values[to].dim, sizeof graph->values[to].dim) ==
            0) {
            to = es_graph_add(graph, to, other);
        }
        maps[n_maps++] = to;
    }
    return es_graph_pool(graph, ES_POOL_GLOBAL, maps[n_maps - 1]);
}

// Blocks of convolution, batch norm, ReLU and maximum on one input channel, which the engine runs
// by patches. One gamma is 0.
static EsValueId build_grey(EsGraph *graph, Draw *d, EsValueId x) {
    EsValueId to = x;
    int n_blocks = 1 + below(d, 2);
    for (int i = 0; i < n_blocks; i++) {
        char name[32];
        snprintf(name, sizeof name, "block%d", i);
        to = es_graph_conv2d(graph, name, to, 1 + below(d, 6), 3, 0);
        to = es_graph_activation(graph, ES_ACTIVATION_RELU, es_graph_batchnorm(graph, name, to, 1));
        to = es_graph_pool(graph, ES_POOL_MAX2, to);
    }
    return es_graph_pool(graph, ES_POOL_GLOBAL, to);
}

typedef struct Outcome {
    int64_t n_values;
    float values[40000]; // losses, gradients, states
    int uses_lanes;
} Outcome;

static void run_graph(uint32_t seed, int is_grey, EsCompileMode mode, int n_threads, int n_lanes,
                      Outcome *outcome) {
    static const int batches[] = {1, 2, 5, 15, 16, 17, 33}, sizes[] = {1, 2, 4, 5, 7, 8, 12};
    static const int grey_batches[] = {15, 16, 17, 33, 64}, grey_sizes[] = {4, 8, 12, 16};
    Draw d = {seed, 0};
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    EsGraph *graph = NULL;
    EsStore *store = NULL;
    EsPlan *plan = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = n_threads, .n_lanes = n_lanes},
                              &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    int64_t n_envs = 1 + below(&d, 4), n = batches[below(&d, 7)], size = sizes[below(&d, 7)],
            channels = 1 + below(&d, 4);
    if (is_grey) {
        n = grey_batches[below(&d, 5)];
        size = grey_sizes[below(&d, 4)];
        channels = 1;
    }
    REQUIRE_OK(es_graph_create(n_envs, &graph));
    EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){n, channels, size, size});
    EsValueId labels = es_graph_input(graph, "labels", ES_DTYPE_I32, 1, &n);
    EsValueId rows = is_grey ? build_grey(graph, &d, x) : build_random(graph, &d, x);
    EsLoss loss = es_graph_cross_entropy(graph, es_graph_linear(graph, "head", rows, 3), labels);
    REQUIRE_OK(es_graph_status(graph));
    REQUIRE_OK(es_graph_differentiate(graph, loss.loss));
    REQUIRE_OK(es_store_create(graph, device, &store));
    REQUIRE_OK(es_store_initialise(store, graph, stream, seed, (int32_t[]){0, 1, 2, 3}));
    EsPlanOptions options = es_plan_defaults();
    options.mode = mode;
    REQUIRE_OK(es_plan_create(graph, store, &options, &plan));
    EsTensor x_tensor, label_tensor;
    REQUIRE_OK(es_device_create_tensor(device, ES_DTYPE_F32, 5, graph->values[x].dim, &x_tensor));
    REQUIRE_OK(
        es_device_create_tensor(device, ES_DTYPE_I32, 2, graph->values[labels].dim, &label_tensor));
    for (int64_t i = 0; i < es_tensor_count(&x_tensor); i++) {
        ((float *)x_tensor.data)[i] = uniform(&d);
    }
    for (int64_t i = 0; i < es_tensor_count(&label_tensor); i++) {
        ((int32_t *)label_tensor.data)[i] = below(&d, 3);
    }
    // gammas of both signs, and betas that keep values off the kink of ReLU
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        EsTensor parameter =
            value->role == ES_ROLE_PARAMETER ? es_store_tensor(store, graph, v) : (EsTensor){0};
        for (int64_t e = 0; e < n_envs && parameter.data != NULL && value->bound == 0.0f; e++) {
            for (int64_t k = 0; k < es_value_count(value); k++) {
                float *element = (float *)parameter.data + e * parameter.stride[0] + k;
                *element = strstr(value->name, "block0.gamma") != NULL && k == 2
                               ? 0.0f
                               : *element + uniform(&d) * 1.7f;
            }
        }
    }
    REQUIRE_OK(es_plan_bind(plan, x, &x_tensor));
    REQUIRE_OK(es_plan_bind(plan, labels, &label_tensor));
    REQUIRE_OK(es_plan_run(plan, stream));
    EsTensor losses = es_plan_tensor(plan, loss.loss);
    const EsTensor *const parts[] = {&losses, &store->gradients, &store->states};
    outcome->n_values = 0;
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        ES_ASSERT(outcome->n_values + es_tensor_count(parts[i]) <= 40000);
        memcpy(outcome->values + outcome->n_values, parts[i]->data, es_tensor_bytes(parts[i]));
        outcome->n_values += es_tensor_count(parts[i]);
    }
    outcome->uses_lanes = es_plan_report(plan).uses_lanes;
    es_device_destroy_tensor(&x_tensor);
    es_device_destroy_tensor(&label_tensor);
    es_plan_destroy(plan);
    es_store_destroy(store);
    es_graph_destroy(graph);
    es_stream_destroy(stream);
    es_device_close(device);
}

// Run n graphs on both engines; how many the lanes took.
static int compare_graphs(int n, int is_grey, double bound, int64_t *n_compared) {
    static Outcome plain, lanes, threaded;
    int n_lanes_used = 0;
    for (uint32_t seed = 1; seed <= (uint32_t)n; seed++) {
        run_graph(seed, is_grey, ES_COMPILE_OFF, 1, 4, &plain);
        run_graph(seed, is_grey, ES_COMPILE_DEFAULT, 1, 0, &lanes);
        run_graph(seed, is_grey, ES_COMPILE_DEFAULT, 2, 0, &threaded);
        n_lanes_used += lanes.uses_lanes;
        EXPECT_EQ(plain.n_values, lanes.n_values);
        EXPECT(memcmp(lanes.values, threaded.values, (size_t)lanes.n_values * sizeof(float)) == 0);
        double largest = 1.0;
        for (int64_t i = 0; i < plain.n_values; i++) {
            largest = fmax(largest, fabs((double)plain.values[i]));
        }
        for (int64_t i = 0; i < plain.n_values; i++) {
            (*n_compared)++;
            if (!(fabs((double)plain.values[i] - (double)lanes.values[i]) <= bound * largest)) {
                ES_TEST_FAIL("graph %u: value %lld is %.9g, plain kernels give %.9g", seed,
                             (long long)i, (double)lanes.values[i], (double)plain.values[i]);
                break;
            }
        }
    }
    return n_lanes_used;
}

// The seeds are fixed because no bound holds for every graph: of the first 4,000, eight miss this
// one. Seven have a batch norm over at most four values, which amplifies rounding without limit; in
// the eighth (579) a value lies 1e-6 from the kink of ReLU and falls to the other side.
TEST(random_graphs_equal_the_plain_kernels) {
    int64_t n_compared = 0;
    // batch norms that follow no convolution directly fall back; most graphs must not
    EXPECT(compare_graphs(N_GRAPHS, 0, 3e-4, &n_compared) > N_GRAPHS / 2);
    EXPECT(n_compared > 10000);
}

TEST(grey_graphs_equal_the_plain_kernels) {
    int64_t n_compared = 0;
    EXPECT_EQ(compare_graphs(N_GREY, 1, 1e-5, &n_compared), N_GREY);
    EXPECT(n_compared > 1000);
}

// One NaN pixel reaches the loss, wherever it sits in a pooling window.
TEST(nan_is_not_hidden_by_a_maximum) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    for (int kind = 0; kind < 2; kind++) {
        for (int64_t pixel = 0; pixel < 16; pixel++) {
            EsGraph *graph = NULL;
            EsStore *store = NULL;
            EsPlan *plan = NULL;
            REQUIRE_OK(es_graph_create(1, &graph));
            EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){2, 1, 4, 4});
            EsValueId labels = es_graph_input(graph, "labels", ES_DTYPE_I32, 1, (int64_t[]){2});
            EsValueId h = es_graph_conv2d(graph, "conv", x, 3, 1, 0);
            h = kind == 0 ? h
                          : es_graph_activation(graph, ES_ACTIVATION_RELU,
                                                es_graph_batchnorm(graph, "norm", h, 0));
            h = es_graph_pool(graph, ES_POOL_GLOBAL, es_graph_pool(graph, ES_POOL_MAX2, h));
            EsLoss loss =
                es_graph_cross_entropy(graph, es_graph_linear(graph, "head", h, 3), labels);
            REQUIRE_OK(es_graph_status(graph));
            REQUIRE_OK(es_store_create(graph, device, &store));
            REQUIRE_OK(es_store_initialise(store, graph, stream, 1, (int32_t[]){0}));
            EsPlanOptions options = es_plan_defaults();
            REQUIRE_OK(es_plan_create(graph, store, &options, &plan));
            EXPECT(es_plan_report(plan).uses_lanes);
            float images[32];
            int32_t answers[2] = {0, 1};
            for (int i = 0; i < 32; i++) {
                images[i] = (float)i * 0.1f;
            }
            images[pixel] = NAN;
            EsTensor x_tensor =
                es_tensor_view(images, ES_DTYPE_F32, device, 5, (int64_t[]){1, 2, 1, 4, 4});
            EsTensor label_tensor =
                es_tensor_view(answers, ES_DTYPE_I32, device, 2, (int64_t[]){1, 2});
            REQUIRE_OK(es_plan_bind(plan, x, &x_tensor));
            REQUIRE_OK(es_plan_bind(plan, labels, &label_tensor));
            REQUIRE_OK(es_plan_run(plan, stream));
            EXPECT(isnan(((const float *)es_plan_tensor(plan, loss.loss).data)[0]));
            es_plan_destroy(plan);
            es_store_destroy(store);
            es_graph_destroy(graph);
        }
    }
    es_stream_destroy(stream);
    es_device_close(device);
}
