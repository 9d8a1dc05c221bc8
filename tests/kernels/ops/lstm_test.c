#include "es_test.h"
#include "kernels/kernel_case.h"
#include "tensor/safetensors.h"
#include "test_data.h"

#define HIDDEN_MAX 512

typedef struct Shape {
    int64_t E, T, N, I, D;
    int has_reset, has_starts, has_d_x;
    const char *golden;
} Shape;

// Rows around the 13, 32 and 96, units around the 16 and 64 of a tile; one environment (threads
// share its units) and several. The last ones are of the recurrence as one kernel: rows around the
// 8 of a group, units around the 128 and 256 that change what a warp has of them.
static const Shape shapes[] = {
    {1, 1, 1, 1, 1, 0, 0, 1, "case0"},  {2, 3, 2, 3, 5, 1, 1, 1, "case1"},
    {1, 4, 3, 2, 17, 1, 0, 1, "case2"}, {3, 2, 1, 4, 3, 0, 1, 1, "case3"},
    {1, 5, 33, 3, 16, 1, 1, 1, NULL},   {2, 3, 31, 7, 15, 1, 0, 0, NULL},
    {1, 2, 32, 5, 65, 1, 1, 1, NULL},   {4, 3, 2, 9, 64, 1, 1, 0, NULL},
    {1, 30, 4, 6, 33, 1, 1, 1, NULL},   {1, 3, 97, 5, 18, 1, 1, 1, NULL},
    {3, 2, 14, 3, 80, 1, 1, 1, NULL},   {1, 6, 16, 5, 32, 1, 1, 1, NULL},
    {1, 7, 9, 3, 48, 1, 1, 1, NULL},    {1, 5, 20, 2, 128, 0, 0, 1, NULL},
    {1, 4, 3, 2, 144, 1, 0, 1, NULL},   {1, 3, 5, 2, 272, 1, 1, 0, NULL},
};

static EsLstmWeights weights_at(const EsCaseRun *r, const char *prefix) {
    const char *names[4] = {"weight_input", "weight_recurrent", "bias_input", "bias_recurrent"};
    EsTensor found[4];
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, names[i]);
        found[i] = *es_case_at(r, name);
    }
    return (EsLstmWeights){found[0], found[1], found[2], found[3]};
}

static void run(const EsCaseRun *r) {
    EsLstmWeights weights = weights_at(r, ""), d_weights = weights_at(r, "d_");
    const EsTensor *x = es_case_at(r, "x"), *reset = es_case_at(r, "reset");
    const EsTensor *h_start = es_case_at(r, "h_start"), *c_start = es_case_at(r, "c_start");
    const EsTensor *gates = es_case_at(r, "gates"), *c = es_case_at(r, "c");
    const EsTensor *y = es_case_at(r, "y");
    r->kernels->lstm_forward(r->stream, &weights, x, reset, h_start, c_start, gates, c, y);
    r->kernels->lstm_backward(r->stream, &weights, x, reset, h_start, c_start, gates, c, y,
                              es_case_at(r, "d_y"), es_case_at(r, "d_gates"), es_case_at(r, "d_x"),
                              es_case_at(r, "d_h_start"), es_case_at(r, "d_c_start"), &d_weights);
}

// --- the naive loop: one row at a time, in double ---

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

// Inputs of the case, and its row's place.
typedef struct Naive {
    const Shape *s;
    const double *x, *input, *recurrent, *bias_input, *bias_recurrent, *reset, *h_start, *c_start;
} Naive;

static Naive naive_of(const EsCase *c) {
    return (Naive){.s = c->settings,
                   .x = es_case_initial(c, "x"),
                   .input = es_case_initial(c, "weight_input"),
                   .recurrent = es_case_initial(c, "weight_recurrent"),
                   .bias_input = es_case_initial(c, "bias_input"),
                   .bias_recurrent = es_case_initial(c, "bias_recurrent"),
                   .reset = es_case_initial(c, "reset"),
                   .h_start = es_case_initial(c, "h_start"),
                   .c_start = es_case_initial(c, "c_start")};
}

// One step of row n of environment e: h and c before it in, after it out; gates [4 D].
static void step_row(const Naive *naive, int64_t e, int64_t t, int64_t n, double *h, double *c,
                     double *gates) {
    const Shape *s = naive->s;
    int64_t D = s->D, row = (e * s->T + t) * s->N + n;
    for (int64_t u = 0; naive->reset != NULL && naive->reset[row] != 0.0 && u < D; u++) {
        h[u] = c[u] = 0.0;
    }
    for (int64_t g = 0; g < 4 * D; g++) {
        double sum = naive->bias_input[e * 4 * D + g] + naive->bias_recurrent[e * 4 * D + g];
        for (int64_t i = 0; i < s->I; i++) {
            sum += naive->input[(e * 4 * D + g) * s->I + i] * naive->x[row * s->I + i];
        }
        for (int64_t u = 0; u < D; u++) {
            sum += naive->recurrent[(e * 4 * D + g) * D + u] * h[u];
        }
        gates[g] = g / D == 2 ? tanh(sum) : sigmoid(sum);
    }
    for (int64_t u = 0; u < D; u++) {
        c[u] = gates[D + u] * c[u] + gates[u] * gates[2 * D + u];
        h[u] = gates[3 * D + u] * tanh(c[u]);
    }
}

static int expect(const EsCase *of, const char *output, double *expected) {
    Naive naive = naive_of(of);
    const Shape *s = naive.s;
    int is_gates = strcmp(output, "gates") == 0, is_c = strcmp(output, "c") == 0;
    if (!is_gates && !is_c && strcmp(output, "y") != 0) {
        return 0; // gradients: PyTorch's and central differences
    }
    double h[HIDDEN_MAX], c[HIDDEN_MAX], gates[4 * HIDDEN_MAX];
    for (int64_t e = 0; e < s->E; e++) {
        for (int64_t n = 0; n < s->N; n++) {
            for (int64_t u = 0; u < s->D; u++) {
                int64_t i = (e * s->N + n) * s->D + u;
                h[u] = naive.h_start != NULL ? naive.h_start[i] : 0.0;
                c[u] = naive.c_start != NULL ? naive.c_start[i] : 0.0;
            }
            for (int64_t t = 0; t < s->T; t++) {
                step_row(&naive, e, t, n, h, c, gates);
                int64_t width = is_gates ? 4 * s->D : s->D;
                const double *from = is_gates ? gates : is_c ? c : h;
                memcpy(expected + ((e * s->T + t) * s->N + n) * width, from,
                       (size_t)width * sizeof(double));
            }
        }
    }
    return 1;
}

// --- cases ---

static void add_pair(EsCase *c, const char *name, double size, double gradient_scale, int rank,
                     const int64_t *dims) {
    char gradient[64];
    snprintf(gradient, sizeof gradient, "d_%s", name);
    EsCaseTensor *t = es_case_parameter(c, ES_CASE_INPUT, name, rank, dims);
    t->low = -size;
    t->high = size;
    es_case_parameter(c, ES_CASE_OUTPUT, gradient, rank, dims)->scale = gradient_scale;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "lstm", s->golden, run, s);
    c->expect = expect;
    int64_t E = s->E, T = s->T, N = s->N, I = s->I, D = s->D;
    es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(E, T, N, I));
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(E, T, N, D));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(E, T, N, D));
    es_case_parameter(c, ES_CASE_OUTPUT, "gates", ES_DIMS(E, T, N, 4 * D));
    es_case_parameter(c, ES_CASE_OUTPUT, "c", ES_DIMS(E, T, N, D));
    es_case_parameter(c, ES_CASE_OUTPUT, "d_gates", ES_DIMS(E, T, N, 4 * D));
    if (s->has_d_x) {
        es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(E, T, N, I));
    }
    if (s->has_reset) {
        es_case_integers(c, ES_CASE_INPUT, "reset", ES_DTYPE_U8, 0, 1, ES_DIMS(E, T, N));
    }
    if (s->has_starts) {
        add_pair(c, "h_start", 1.0, 1.0, ES_DIMS(E, N, D));
        add_pair(c, "c_start", 1.0, 1.0, ES_DIMS(E, N, D));
    }
    for (int i = 0; i < c->n_tensors; i++) {
        c->tensor[i].is_parameter = 0; // so far activations, some of them always f32
    }
    // as layers start out, U(-1/sqrt(D), 1/sqrt(D)); gradients of weights are sums over T N rows
    double size = 1.0 / sqrt((double)ES_MAX(D, 2)), sum = sqrt((double)(T * N));
    add_pair(c, "weight_input", size, sum, ES_DIMS(E, 4 * D, I));
    add_pair(c, "weight_recurrent", size, sum, ES_DIMS(E, 4 * D, D));
    add_pair(c, "bias_input", size, sum, ES_DIMS(E, 4 * D));
    add_pair(c, "bias_recurrent", size, sum, ES_DIMS(E, 4 * D));
}

ES_KERNEL_TESTS(shapes, build)

// --- environments that share their weights ---

enum {
    X,
    RESET,
    H_START,
    C_START,
    WEIGHT_INPUT,
    WEIGHT_RECURRENT,
    BIAS_INPUT,
    BIAS_RECURRENT,
    D_Y,
    N_READ,
    Y = N_READ,
    GATES,
    CELLS,
    D_GATES,
    D_X,
    D_H_START,
    D_C_START,
    D_WEIGHT_INPUT,
    D_WEIGHT_RECURRENT,
    D_BIAS_INPUT,
    D_BIAS_RECURRENT,
    N_TENSORS
};

// A layer on a device; weights of all environments are those of the first.
typedef struct Layer {
    EsDevice *device;
    EsStream *stream;
    EsTensor tensor[N_TENSORS];
} Layer;

static float draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

static void fill_layer(Layer *layer, int i) {
    EsTensor *tensor = &layer->tensor[i];
    uint32_t state = 77u + (uint32_t)i;
    int64_t n = es_tensor_count(tensor);
    size_t bytes = es_tensor_bytes(tensor);
    unsigned char *values = malloc(bytes + 1);
    memset(values, 0xFF, bytes); // outputs: NaN
    for (int64_t k = 0; k < n && i == RESET; k++) {
        values[k] = draw(&state) > 0.7f;
    }
    for (int64_t k = 0; k < n && i < N_READ && i != RESET; k++) {
        ((float *)values)[k] = (i >= WEIGHT_INPUT && i < D_Y ? 0.25f : 1.0f) * draw(&state);
    }
    REQUIRE_OK(es_stream_copy(layer->stream, tensor->data, values, bytes, ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_synchronize(layer->stream));
    free(values);
}

static Layer open_layer(const char *device, int64_t E, int64_t T, int64_t N, int64_t D) {
    enum { I = 3 };
    const int64_t dims[N_TENSORS][4] = {
        {E, T, N, I},     {E, T, N, 1},     {E, N, D, 1},     {E, N, D, 1},     {1, 4 * D, I, 1},
        {1, 4 * D, D, 1}, {1, 4 * D, 1, 1}, {1, 4 * D, 1, 1}, {E, T, N, D},     {E, T, N, D},
        {E, T, N, 4 * D}, {E, T, N, D},     {E, T, N, 4 * D}, {E, T, N, I},     {E, N, D, 1},
        {E, N, D, 1},     {E, 4 * D, I, 1}, {E, 4 * D, D, 1}, {E, 4 * D, 1, 1}, {E, 4 * D, 1, 1}};
    static const int ranks[N_TENSORS] = {4, 3, 3, 3, 3, 3, 2, 2, 4, 4,
                                         4, 4, 4, 4, 3, 3, 3, 3, 2, 2};
    Layer layer = {0};
    REQUIRE_OK(es_device_open(device, NULL, &layer.device));
    REQUIRE_OK(es_stream_create(layer.device, &layer.stream));
    for (int i = 0; i < N_TENSORS; i++) {
        EsDtype dtype = i == RESET ? ES_DTYPE_U8 : ES_DTYPE_F32;
        REQUIRE_OK(
            es_device_create_tensor(layer.device, dtype, ranks[i], dims[i], &layer.tensor[i]));
        fill_layer(&layer, i);
    }
    for (int i = WEIGHT_INPUT; i < D_Y; i++) {
        layer.tensor[i].dim[0] = E;
        layer.tensor[i].stride[0] = 0;
    }
    return layer;
}

static void close_layer(Layer *layer) {
    for (int i = 0; i < N_TENSORS; i++) {
        es_device_destroy_tensor(&layer->tensor[i]);
    }
    es_stream_destroy(layer->stream);
    es_device_close(layer->device);
}

// Returns the launches of both passes.
static int64_t run_layer(Layer *layer) {
    const EsKernels *kernels = es_kernels_of(layer->device);
    const EsTensor *t = layer->tensor;
    EsLstmWeights weights = {t[WEIGHT_INPUT], t[WEIGHT_RECURRENT], t[BIAS_INPUT],
                             t[BIAS_RECURRENT]};
    EsLstmWeights d_weights = {t[D_WEIGHT_INPUT], t[D_WEIGHT_RECURRENT], t[D_BIAS_INPUT],
                               t[D_BIAS_RECURRENT]};
    EsDeviceCounters before = es_device_counters(layer->device);
    kernels->lstm_forward(layer->stream, &weights, &t[X], &t[RESET], &t[H_START], &t[C_START],
                          &t[GATES], &t[CELLS], &t[Y]);
    kernels->lstm_backward(layer->stream, &weights, &t[X], &t[RESET], &t[H_START], &t[C_START],
                           &t[GATES], &t[CELLS], &t[Y], &t[D_Y], &t[D_GATES], &t[D_X],
                           &t[D_H_START], &t[D_C_START], &d_weights);
    REQUIRE_OK(es_stream_synchronize(layer->stream));
    REQUIRE_OK(es_device_status(layer->device));
    return es_device_counters_since(layer->device, before).n_launches;
}

static float *fetch_output(const Layer *layer, int i) {
    const EsTensor *tensor = &layer->tensor[i];
    float *values = malloc(es_tensor_bytes(tensor) + 1);
    REQUIRE_OK(es_stream_copy(layer->stream, values, tensor->data, es_tensor_bytes(tensor),
                              ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(layer->stream));
    return values;
}

static void compare_layers(const Layer *cpu, const Layer *cuda) {
    for (int i = N_READ; i < N_TENSORS; i++) {
        float *a = fetch_output(cpu, i), *b = fetch_output(cuda, i);
        double top = 0, off = 0;
        for (int64_t k = 0; k < es_tensor_count(&cpu->tensor[i]); k++) {
            double distance = fabs((double)a[k] - (double)b[k]);
            top = fmax(top, fabs((double)a[k]));
            off = distance <= off ? off : distance; // NaN shows
        }
        if (!(off <= 2e-5 * top)) {
            ES_TEST_FAIL("tensor %d differs by %.3g where the largest is %.3g", i, off, top);
        }
        free(a);
        free(b);
    }
}

// Rows of all environments in one recurrence, up to its limits; beyond them backward runs step by
// step: more than 16 rows in each environment (parts of d_h lie in its gradient of W_h), or more
// than 163 groups of 8 rows in all (shared memory).
TEST(shared_parity) {
    enum { T = 12, D = 16 };
    const struct {
        int64_t E, N;
        int is_one;
    } cases[] = {{8, 2, 1}, {8, 16, 1}, {8, 17, 0}, {81, 16, 1}, {82, 16, 0}};
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        Layer cpu = open_layer("cpu", cases[i].E, T, cases[i].N, D);
        Layer cuda = open_layer("cuda", cases[i].E, T, cases[i].N, D);
        run_layer(&cpu);
        int64_t n_launches = run_layer(&cuda);
        compare_layers(&cpu, &cuda);
        EXPECT_EQ(n_launches < T, cases[i].is_one);
        close_layer(&cpu);
        close_layer(&cuda);
    }
}

// A sequence of no steps: nothing to write forward, no gradients.
TEST(no_steps) {
    const char *const devices[] = {"cpu", "cuda"};
    for (int i = 0; i < 1 + (es_device_cuda_count() > 0); i++) {
        Layer layer = open_layer(devices[i], 2, 0, 3, 16);
        run_layer(&layer);
        for (int k = D_H_START; k < N_TENSORS; k++) {
            float *values = fetch_output(&layer, k);
            for (int64_t j = 0; j < es_tensor_count(&layer.tensor[k]); j++) {
                if (!(values[j] == 0.0f)) {
                    ES_TEST_FAIL("%s: value %lld of tensor %d is %g", devices[i], (long long)j, k,
                                 (double)values[j]);
                    break;
                }
            }
            free(values);
        }
        close_layer(&layer);
    }
}

// --- a long sequence against PyTorch ---

typedef struct Unrolled {
    EsDevice *device;
    EsStream *stream;
    EsSafetensors *file;
} Unrolled;

static EsTensor find(const Unrolled *u, const char *name) {
    EsTensor tensor;
    REQUIRE_OK(es_safetensors_find(u->file, name, &tensor));
    tensor.device = u->device;
    return tensor;
}

// A tensor of NaNs shaped like another of the file.
static EsTensor make_like(const Unrolled *u, const EsTensor *like) {
    EsTensor tensor = *like;
    REQUIRE_OK(es_device_allocate(u->device, es_tensor_bytes(like), &tensor.data));
    memset(tensor.data, 0xFF, es_tensor_bytes(like));
    return tensor;
}

static void expect_near(const Unrolled *u, const char *name, const EsTensor *actual) {
    EsTensor expected = find(u, name);
    for (int64_t i = 0; i < es_tensor_count(&expected); i++) {
        double a = (double)((const float *)actual->data)[i];
        double b = (double)((const float *)expected.data)[i];
        if (!(fabs(a - b) <= 1e-4)) {
            ES_TEST_FAIL("%s[%lld] is %.9g, expected %.9g", name, (long long)i, a, b);
            return;
        }
    }
}

// The loss of each environment, mean squared distance, and its gradient.
static void take_loss(const EsTensor *y, const EsTensor *target, const EsTensor *loss,
                      const EsTensor *d_y) {
    int64_t count = es_tensor_count(y) / y->dim[0];
    for (int64_t e = 0; e < y->dim[0]; e++) {
        double sum = 0.0;
        for (int64_t i = e * count; i < (e + 1) * count; i++) {
            double distance =
                (double)((const float *)y->data)[i] - (double)((const float *)target->data)[i];
            sum += distance * distance;
            ((float *)d_y->data)[i] = (float)(2.0 * distance / (double)count);
        }
        ((float *)loss->data)[e] = (float)(sum / (double)count);
    }
}

TEST(unrolled_30_steps_with_resets) {
    Unrolled u = {0};
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 2}, &u.device));
    REQUIRE_OK(es_stream_create(u.device, &u.stream));
    char path[512];
    snprintf(path, sizeof path, "%s/lstm_unrolled.safetensors", es_test_data());
    REQUIRE_OK(es_safetensors_open(path, &u.file));
    const EsKernels *kernels = es_kernels_of(u.device);
    EsTensor x = find(&u, "x"), reset = find(&u, "reset"), target = find(&u, "target");
    EsTensor h_start = find(&u, "h_start"), c_start = find(&u, "c_start"), loss = find(&u, "loss");
    EXPECT_EQ(x.dim[1], 30);
    EsLstmWeights weights = {find(&u, "weight_input"), find(&u, "weight_recurrent"),
                             find(&u, "bias_input"), find(&u, "bias_recurrent")};
    EsLstmWeights d_weights = {make_like(&u, &weights.input), make_like(&u, &weights.recurrent),
                               make_like(&u, &weights.bias_input),
                               make_like(&u, &weights.bias_recurrent)};
    EsTensor y = make_like(&u, &target), c = make_like(&u, &target), d_y = make_like(&u, &target);
    EsTensor wide = target;
    wide = es_tensor_view(NULL, ES_DTYPE_F32, u.device, 4,
                          (int64_t[]){wide.dim[0], wide.dim[1], wide.dim[2], 4 * wide.dim[3]});
    EsTensor gates = make_like(&u, &wide), d_gates = make_like(&u, &wide);
    EsTensor d_x = make_like(&u, &x), own_loss = make_like(&u, &loss);
    EsTensor d_h_start = make_like(&u, &h_start), d_c_start = make_like(&u, &c_start);

    kernels->lstm_forward(u.stream, &weights, &x, &reset, &h_start, &c_start, &gates, &c, &y);
    take_loss(&y, &target, &own_loss, &d_y);
    kernels->lstm_backward(u.stream, &weights, &x, &reset, &h_start, &c_start, &gates, &c, &y, &d_y,
                           &d_gates, &d_x, &d_h_start, &d_c_start, &d_weights);
    const struct {
        const char *name;
        const EsTensor *tensor;
    } results[] = {{"y", &y},
                   {"loss", &own_loss},
                   {"d_x", &d_x},
                   {"d_h_start", &d_h_start},
                   {"d_c_start", &d_c_start},
                   {"d_weight_input", &d_weights.input},
                   {"d_weight_recurrent", &d_weights.recurrent},
                   {"d_bias_input", &d_weights.bias_input},
                   {"d_bias_recurrent", &d_weights.bias_recurrent}};
    for (size_t i = 0; i < ES_COUNT_OF(results); i++) {
        expect_near(&u, results[i].name, results[i].tensor);
        es_device_release(u.device, results[i].tensor->data);
    }
    EsTensor *rest[] = {&c, &d_y, &gates, &d_gates};
    for (size_t i = 0; i < ES_COUNT_OF(rest); i++) {
        es_device_release(u.device, rest[i]->data);
    }
    es_safetensors_close(u.file);
    es_stream_destroy(u.stream);
    es_device_close(u.device);
}
