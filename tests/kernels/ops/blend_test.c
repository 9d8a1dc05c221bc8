// Letters: E environments, N images, C channels, H W height and width.
#include "es_test.h"
#include "kernels/kernel_case.h"
#include "kernels/ops/blend_rules.h"

// instead of one mode: environment by environment any of them
#define MIXED (-1)

typedef struct Shape {
    int mode; // perhaps with bits ES_BLEND_CLOSED_*
    int64_t E, N, C, H, W;
    int has_gate;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {ES_BLEND_ADD, 1, 1, 1, 1, 1, 1, "case0"},
    {MIXED, 5, 2, 3, 4, 3, 1, "case1"},
    {MIXED, 4, 3, 1, 5, 7, 1, "case2"},
    {ES_BLEND_NONE, 2, 3, 2, 3, 5, 1, NULL},
    {ES_BLEND_INCUBATE, 2, 3, 2, 3, 5, 1, NULL},
    {ES_BLEND_ADD, 2, 3, 5, 7, 4, 0, NULL},
    {ES_BLEND_GATE, 2, 3, 5, 7, 4, 1, NULL},
    {ES_BLEND_GATE, 2, 3, 5, 7, 4, 0, NULL}, // no gate: as ADD
    {ES_BLEND_MULTIPLY, 2, 3, 5, 7, 4, 0, NULL},
    {MIXED, 7, 1, 1, 31, 33, 1, NULL}, // one below a block of 1,024 elements
    {MIXED, 9, 2, 5, 5, 41, 1, NULL},  // images of 1,025
    {MIXED, 3, 129, 2, 1, 1, 1, NULL},
    // one way of the gradient closed, then both
    {ES_BLEND_ADD | ES_BLEND_CLOSED_HOST, 2, 3, 5, 7, 4, 1, NULL},
    {ES_BLEND_ADD | ES_BLEND_CLOSED_SEED, 2, 3, 5, 7, 4, 1, NULL},
    {ES_BLEND_GATE | ES_BLEND_CLOSED_HOST, 2, 3, 5, 7, 4, 1, NULL},
    {ES_BLEND_GATE | ES_BLEND_CLOSED_SEED, 2, 3, 5, 7, 4, 1, NULL},
    {ES_BLEND_MULTIPLY | ES_BLEND_CLOSED_HOST, 2, 3, 5, 7, 4, 0, NULL},
    {ES_BLEND_MULTIPLY | ES_BLEND_CLOSED_SEED, 2, 3, 5, 7, 4, 0, NULL},
    {ES_BLEND_INCUBATE | ES_BLEND_CLOSED_SEED, 2, 3, 2, 3, 5, 1, NULL},
    {ES_BLEND_GATE | ES_BLEND_CLOSED_HOST | ES_BLEND_CLOSED_SEED, 2, 3, 2, 3, 5, 1, NULL},
};

static const Shape smooth_shapes[] = {
    {ES_BLEND_ADD, 1, 1, 1, 1, 1, 0, NULL},      {ES_BLEND_ADD, 2, 3, 5, 7, 4, 1, NULL},
    {ES_BLEND_GATE, 1, 1, 1, 1, 1, 1, NULL},     {ES_BLEND_GATE, 2, 3, 5, 7, 4, 1, NULL},
    {ES_BLEND_MULTIPLY, 1, 1, 1, 1, 1, 0, NULL}, {ES_BLEND_MULTIPLY, 2, 3, 5, 7, 4, 1, NULL},
};

static void run(const EsCaseRun *r) {
    const EsTensor *h = es_case_at(r, "h"), *seed = es_case_at(r, "seed");
    const EsTensor *gate = es_case_at(r, "gate"), *alpha = es_case_at(r, "alpha");
    const EsTensor *mode = es_case_at(r, "mode");
    r->kernels->blend_forward(r->stream, h, seed, gate, alpha, mode, es_case_at(r, "y"));
    r->kernels->blend_backward(r->stream, h, seed, gate, alpha, mode, es_case_at(r, "d_y"),
                               es_case_at(r, "d_h"), es_case_at(r, "d_seed"),
                               es_case_at(r, "d_gate"));
    r->kernels->seed_input_backward(r->stream, mode, es_case_at(r, "d_x"),
                                    es_case_at(r, "d_h_by_seed"));
}

// One element; its part of the gate's gradient in `gate`.
typedef struct Element {
    double y, d_h, d_seed, gate;
} Element;

static Element expect_open(int mode, double a, double gate, double h, double s, double G) {
    double e = mode == ES_BLEND_GATE ? a * gate : a, u = tanh(s - h);
    switch (mode) {
    case ES_BLEND_INCUBATE:
        return (Element){h, G, G, 0.0};
    case ES_BLEND_ADD:
    case ES_BLEND_GATE:
        return (Element){(1.0 - e) * h + e * s, (1.0 - e) * G, e * G,
                         mode == ES_BLEND_GATE ? a * G * (s - h) : 0.0};
    case ES_BLEND_MULTIPLY:
        return (Element){h + a * h * u, G + G * a * u - G * h * a * (1.0 - u * u),
                         G * h * a * (1.0 - u * u), 0.0};
    default:
        return (Element){h, G, 0.0, 0.0};
    }
}

static Element expect_element(int word, double a, double gate, double h, double s, double G) {
    int closed = word & (ES_BLEND_CLOSED_HOST | ES_BLEND_CLOSED_SEED);
    Element element = expect_open(word ^ closed, a, gate, h, s, G);
    if (closed & ES_BLEND_CLOSED_HOST) {
        element.d_h = 0;
    }
    if (closed & ES_BLEND_CLOSED_SEED) {
        element.d_seed = element.gate = 0;
    }
    return element;
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *h = es_case_initial(c, "h"), *seed = es_case_initial(c, "seed");
    const double *gate = es_case_initial(c, "gate"), *d_y = es_case_initial(c, "d_y");
    int64_t row = s->C * s->H * s->W;
    for (int64_t i = 0; i < s->E * s->N * row; i++) {
        int64_t image = i / row, e = image / s->N;
        int mode = (int)es_case_initial(c, "mode")[e];
        Element element = expect_element(mode, es_case_initial(c, "alpha")[e],
                                         gate != NULL ? gate[image] : 1.0, h[i], seed[i], d_y[i]);
        if (strcmp(output, "d_gate") == 0) {
            expected[image] += element.gate;
        } else if (strcmp(output, "d_h_by_seed") == 0) {
            int is_mixed = es_blend_is_mixed(es_blend_mode(mode));
            expected[i] = is_mixed ? es_case_initial(c, "d_x")[i] : 0.0;
        } else {
            expected[i] = strcmp(output, "y") == 0     ? element.y
                          : strcmp(output, "d_h") == 0 ? element.d_h
                                                       : element.d_seed;
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    const int64_t dims[] = {s->E, s->N, s->C, s->H, s->W};
    es_case_begin(c, "blend", s->golden, run, s);
    c->expect = expect;
    // a handful of roundings of values up to 4
    c->reference = (EsCaseBound){1e-6, 5e-7};
    c->parity = (EsCaseBound){1e-6, 2e-6};
    es_case_activation(c, ES_CASE_INPUT, "h", 5, dims)->low = -2.0;
    es_case_activation(c, ES_CASE_INPUT, "seed", 5, dims)->high = 2.0;
    es_case_activation(c, ES_CASE_INPUT, "d_y", 5, dims);
    es_case_activation(c, ES_CASE_INPUT, "d_x", 5, dims);
    EsCaseTensor *alpha = es_case_parameter(c, ES_CASE_INPUT, "alpha", ES_DIMS(s->E));
    alpha->low = 0.1;
    alpha->high = 0.9;
    es_case_integers(c, ES_CASE_INPUT, "mode", ES_DTYPE_I32, s->mode == MIXED ? 0 : s->mode,
                     s->mode == MIXED ? ES_BLEND_MULTIPLY : s->mode, ES_DIMS(s->E));
    es_case_activation(c, ES_CASE_OUTPUT, "y", 5, dims);
    es_case_activation(c, ES_CASE_OUTPUT, "d_h", 5, dims);
    es_case_activation(c, ES_CASE_OUTPUT, "d_seed", 5, dims);
    es_case_activation(c, ES_CASE_OUTPUT, "d_h_by_seed", 5, dims);
    if (s->has_gate) {
        es_case_activation(c, ES_CASE_INPUT, "gate", ES_DIMS(s->E, s->N))->low = 0.0;
        es_case_activation(c, ES_CASE_OUTPUT, "d_gate", ES_DIMS(s->E, s->N))->scale =
            sqrt((double)(s->C * s->H * s->W));
    }
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_GRADIENT(smooth_shapes, build)
ES_KERNEL_PARITY(shapes, build)

// --- exact promises, on the CPU and where there is one on a GPU ---

#define N_VALUES 6

typedef struct Slot {
    float h[N_VALUES], seed[N_VALUES], gate[2], alpha[1], d_y[N_VALUES]; // [1, 2, 3]
    int32_t mode[1];
    float y[N_VALUES], d_h[N_VALUES], d_seed[N_VALUES], d_gate[2];
} Slot;

static void run_slot(const char *device_name, Slot *slot) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    Slot *memory = NULL;
    REQUIRE_OK(es_device_open(device_name, NULL, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_device_allocate(device, sizeof *slot, (void **)&memory));
    REQUIRE_OK(es_stream_copy(stream, memory, slot, sizeof *slot, ES_COPY_TO_DEVICE));
    const int64_t dims[] = {1, 2, 3};
#define VIEW(field, rank) es_tensor_view(memory->field, ES_DTYPE_F32, device, rank, dims)
    EsTensor h = VIEW(h, 3), seed = VIEW(seed, 3), gate = VIEW(gate, 2), alpha = VIEW(alpha, 1);
    EsTensor y = VIEW(y, 3), d_y = VIEW(d_y, 3), d_h = VIEW(d_h, 3), d_seed = VIEW(d_seed, 3);
    EsTensor d_gate = VIEW(d_gate, 2), mode = VIEW(mode, 1);
#undef VIEW
    mode.dtype = ES_DTYPE_I32;
    const EsKernels *kernels = es_kernels_of(device);
    kernels->blend_forward(stream, &h, &seed, &gate, &alpha, &mode, &y);
    kernels->blend_backward(stream, &h, &seed, &gate, &alpha, &mode, &d_y, &d_h, &d_seed, &d_gate);
    REQUIRE_OK(es_stream_copy(stream, slot, memory, sizeof *slot, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    es_device_release(device, memory);
    es_stream_destroy(stream);
    es_device_close(device);
}

// values whose ends are easily missed: -0, differences that overflow or vanish
static const Slot hard_slot = {
    .h = {-0.0f, 0.0f, 3e38f, 1.0f, 1e-30f, -7.0f},
    .seed = {0.0f, -0.0f, -3e38f, 1.0f + 0x1p-23f, 5.0f, 1e-38f},
    .gate = {1.0f, 1.0f},
    .d_y = {1.0f, -2.0f, 0.5f, 1e-30f, 3.0f, -0.0f},
};

static int is_same(const float *a, const float *b) {
    return memcmp(a, b, N_VALUES * sizeof *a) == 0;
}

static void expect_exact_ends(const char *device) {
    for (int32_t mode = ES_BLEND_NONE; mode <= ES_BLEND_MULTIPLY; mode++) {
        for (int end = -1; end <= 2; end++) {
            Slot slot = hard_slot;
            slot.mode[0] = mode;
            slot.alpha[0] = (float)end; // -1 and 2 count as 0 and 1
            run_slot(device, &slot);
            int has_seed = end >= 1 && (mode == ES_BLEND_ADD || mode == ES_BLEND_GATE);
            if (has_seed || mode != ES_BLEND_MULTIPLY || end <= 0) {
                EXPECT(is_same(slot.y, has_seed ? hard_slot.seed : hard_slot.h));
            }
            if (mode == ES_BLEND_INCUBATE || has_seed) {
                EXPECT(is_same(slot.d_seed, hard_slot.d_y));
            }
            if (mode <= ES_BLEND_INCUBATE || end <= 0) {
                EXPECT(is_same(slot.d_h, hard_slot.d_y));
            }
        }
    }
    // a closed gate, then an open one
    Slot slot = hard_slot;
    slot.mode[0] = ES_BLEND_GATE;
    slot.alpha[0] = 1.0f;
    slot.gate[0] = 0.0f;
    run_slot(device, &slot);
    EXPECT(memcmp(slot.y, hard_slot.h, 3 * sizeof(float)) == 0);
    EXPECT(memcmp(slot.y + 3, hard_slot.seed + 3, 3 * sizeof(float)) == 0);
}

TEST(ends_are_exact) {
    expect_exact_ends("cpu");
    if (es_device_cuda_count() > 0) {
        expect_exact_ends("cuda");
    }
}

// A seed that is not there, not yet blended, or at alpha 0 may hold anything.
static void expect_seed_unread(const char *device) {
    for (int32_t mode = ES_BLEND_NONE; mode <= ES_BLEND_MULTIPLY + 1; mode++) {
        Slot slot = hard_slot;
        for (int i = 0; i < N_VALUES; i++) {
            slot.seed[i] = NAN;
        }
        slot.mode[0] = mode > ES_BLEND_MULTIPLY ? 77 : mode;
        int is_mixed = mode >= ES_BLEND_ADD && mode <= ES_BLEND_MULTIPLY;
        slot.alpha[0] = is_mixed ? 0.0f : 0.5f;
        slot.gate[0] = slot.gate[1] = mode == ES_BLEND_GATE ? 0.5f : NAN;
        run_slot(device, &slot);
        EXPECT(is_same(slot.y, hard_slot.h));
        EXPECT(is_same(slot.d_h, hard_slot.d_y));
        for (int i = 0; i < N_VALUES; i++) {
            EXPECT(slot.d_seed[i] == (mode == ES_BLEND_INCUBATE ? hard_slot.d_y[i] : 0.0f));
        }
        EXPECT(slot.d_gate[0] == 0.0f && slot.d_gate[1] == 0.0f);
        // once it takes part, divergence must show
        if (is_mixed) {
            slot.alpha[0] = 0.25f;
            run_slot(device, &slot);
            EXPECT(isnan(slot.y[0]) && isnan(slot.y[N_VALUES - 1]));
        }
    }
}

TEST(unused_seed_is_not_read) {
    expect_seed_unread("cpu");
    if (es_device_cuda_count() > 0) {
        expect_seed_unread("cuda");
    }
}
