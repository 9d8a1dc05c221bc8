// The operations of a single input channel by its patches against double loops, for every vector
// width this machine can run: sums of patches, convolution to rectified maxima, weight gradient.
#include "lanes_case.h"

#define BOUND    5e-6
#define N_GROUPS 3 // two in the first shard, one in the second

typedef struct Shape {
    int n_out, height, width;
} Shape;

static const Shape shapes[] = {{1, 2, 4}, {4, 16, 16}, {5, 8, 4}, {3, 6, 12}, {2, 34, 36}};

// 0 outside the map
static double value(const Map *x, int r, int k, int lane) {
    int is_inside = r >= 0 && r < x->map.height && k >= 0 && k < x->map.width;
    return is_inside ? (double)*at(x, 0, r, k, lane) : 0.0;
}

static double tap(const Map *x, int t, int r, int k, int lane) {
    return value(x, r + t / 3 - 1, k + t % 3 - 1, lane);
}

static void check_sums(const EsLaneKernels *kernels, const Shape *s, double mean, int n_valid) {
    int lanes = kernels->n_lanes;
    size_t stride = (size_t)(ES_LANES_PATCH_SUMS * lanes);
    Map x = make_map(lanes, 1, s->height, s->width, 1);
    float *accumulator = aligned_floats(2 * stride);
    EsLanePatches exact = {0};
    for (size_t i = 0; i < 2 * stride; i++) {
        accumulator[i] = NAN; // the first group must overwrite it
    }
    for (int group = 0; group < N_GROUPS; group++) {
        int n = group == 2 ? n_valid : lanes;
        fill_map(&x, mean, 1.0);
        kernels->patch_sums(&x.map, n, group != 1, accumulator + (group == 2 ? stride : 0));
        for (int p = 0; p < s->height * s->width * n; p++) {
            int lane = p % n, r = p / n / s->width, k = p / n % s->width;
            for (int t = 0; t < 9; t++) {
                exact.tap[t] += tap(&x, t, r, k, lane);
                for (int u = 0; u < 9; u++) {
                    exact.product[t][u] += tap(&x, t, r, k, lane) * tap(&x, u, r, k, lane);
                }
            }
        }
    }
    double totals[ES_LANES_PATCH_SUMS];
    kernels->lane_totals(accumulator, stride, 2, ES_LANES_PATCH_SUMS, totals);
    EsLanePatches patches = es_lane_patches(totals);
    // a sum may cancel: errors are measured against the sums of squares
    double size = exact.product[4][4], count = (double)(s->height * s->width * N_GROUPS * lanes);
    for (int t = 0; t < 9; t++) {
        EXPECT_NEAR(patches.tap[t], exact.tap[t], 1e-6 * sqrt(size * count));
        for (int u = 0; u < 9; u++) {
            EXPECT_NEAR(patches.product[t][u], exact.product[t][u], 1e-6 * size);
        }
    }
    es_release(accumulator);
    es_release(x.memory);
}

typedef struct Filters {
    float weight[5 * 9], scale[5], shift[5], packed[5 * ES_LANES_PATCH_FILTER];
} Filters;

static double output_at(const Filters *f, const Map *x, int o, int r, int k, int lane) {
    double sum = 0.0;
    for (int t = 0; t < 9; t++) {
        sum += (double)f->weight[o * 9 + t] * (double)f->scale[o] * tap(x, t, r, k, lane);
    }
    return sum;
}

// The element of a window that the gradient goes to: the first of the largest outputs.
static int winner(const Filters *f, const Map *x, int o, int r, int k, int lane, double *largest) {
    int first = 0;
    *largest = output_at(f, x, o, 2 * r, 2 * k, lane);
    for (int j = 1; j < 4; j++) {
        double v = output_at(f, x, o, 2 * r + j / 2, 2 * k + j % 2, lane);
        if (v > *largest) {
            *largest = v;
            first = j;
        }
    }
    return first;
}

static void check_conv(const EsLaneKernels *kernels, const Shape *s, double mean) {
    int lanes = kernels->n_lanes, height = s->height / 2, width = s->width / 2;
    size_t stride = (size_t)s->n_out * ES_LANES_PATCH_GRADIENT * (size_t)lanes;
    Filters f;
    for (int o = 0; o < s->n_out; o++) {
        f.scale[o] = normal(0.0, 1.0); // both signs
        f.shift[o] = normal(0.0, 1.0);
        for (int t = 0; t < 9; t++) {
            f.weight[o * 9 + t] = normal(0.0, 1.0 / 3.0);
        }
    }
    kernels->patch_pack(f.weight, f.scale, s->n_out, f.packed);
    Map x = make_map(lanes, 1, s->height, s->width, 1);
    Map y = make_map(lanes, s->n_out, height, width, 1),
        y_only = make_map(lanes, s->n_out, height, width, 0),
        d_y = make_map(lanes, s->n_out, height, width, 0);
    Map choice = make_map(lanes, s->n_out, height, es_lane_choice_width(width, lanes), 0);
    float *accumulator = aligned_floats(2 * stride);
    double *exact = calloc((size_t)s->n_out * ES_LANES_PATCH_GRADIENT, sizeof *exact);
    Distance forward = {0}, backward = {0};
    for (int group = 0; group < N_GROUPS; group++) {
        fill_map(&x, mean, 1.0);
        fill_map(&d_y, 0.0, 1.0);
        kernels->patch_forward(&x.map, f.packed, f.shift, &y.map, &choice.map);
        kernels->patch_forward(&x.map, f.packed, f.shift, &y_only.map, &(EsLaneMap){0});
        kernels->patch_backward_weight(&x.map, &d_y.map, &choice.map, group != 1,
                                       accumulator + (group == 2 ? stride : 0));
        FOR_EACH_ELEMENT(&y) {
            double largest;
            int j = winner(&f, &x, c, r, k, lane, &largest);
            double z = largest + (double)f.shift[c];
            add_distance(&forward, *at(&y, c, r, k, lane), fmax(z, 0.0));
            EXPECT_EQ(*at(&y, c, r, k, lane), *at(&y_only, c, r, k, lane));
            // whether it passed the ReLU is the engine's to say where z is all rounding
            double d = *at(&y, c, r, k, lane) > 0.0f ? (double)*at(&d_y, c, r, k, lane) : 0.0;
            double *sums = exact + c * ES_LANES_PATCH_GRADIENT;
            for (int t = 0; t < 9; t++) {
                sums[t] += d * tap(&x, t, 2 * r + j / 2, 2 * k + j % 2, lane);
            }
            sums[9] += d;
        }
    }
    double g[5 * ES_LANES_PATCH_GRADIENT];
    kernels->lane_totals(accumulator, stride, 2, s->n_out * ES_LANES_PATCH_GRADIENT, g);
    for (int i = 0; i < s->n_out * ES_LANES_PATCH_GRADIENT; i++) {
        add_distance(&backward, g[i], exact[i]);
    }
    expect_close(forward, BOUND, "patch_conv");
    expect_close(backward, BOUND, "patch_weight");
    expect_clean_border(&y, "patch_conv");
    free(exact);
    es_release(accumulator);
    es_release(x.memory);
    es_release(y.memory);
    es_release(y_only.memory);
    es_release(d_y.memory);
    es_release(choice.memory);
}

// Of equal outputs the first of the window takes the gradient, and a NaN is not hidden.
static void check_corners(const EsLaneKernels *kernels) {
    int lanes = kernels->n_lanes;
    Filters f = {.weight = {[4] = 1.0f}, .scale = {1.0f}, .shift = {1.0f}};
    kernels->patch_pack(f.weight, f.scale, 1, f.packed);
    Map x = make_map(lanes, 1, 4, 4, 1), y = make_map(lanes, 1, 2, 2, 0),
        d_y = make_map(lanes, 1, 2, 2, 0);
    Map choice = make_map(lanes, 1, 2, es_lane_choice_width(2, lanes), 0);
    float *accumulator = aligned_floats((size_t)(ES_LANES_PATCH_GRADIENT * lanes));
    double g[ES_LANES_PATCH_GRADIENT];
    FOR_EACH_ELEMENT(&d_y) { *at(&d_y, c, r, k, lane) = r == 0 ? 1.0f : 0.0f; }
    // the upper windows are zero; below them lies a row that their lower elements would see
    for (int k = 0; k < 4; k++) {
        *at(&x, 0, 2, k, 0) = 2.0f;
    }
    kernels->patch_forward(&x.map, f.packed, f.shift, &y.map, &choice.map);
    kernels->patch_backward_weight(&x.map, &d_y.map, &choice.map, 1, accumulator);
    kernels->lane_totals(accumulator, 0, 1, ES_LANES_PATCH_GRADIENT, g);
    EXPECT_EQ(g[9], 2.0 * lanes);
    EXPECT_EQ(g[7], 0.0);
    for (int k = 0; k < 4; k++) {
        *at(&x, 0, 1, k, 1) = NAN;
        kernels->patch_forward(&x.map, f.packed, f.shift, &y.map, &(EsLaneMap){0});
        EXPECT(isnan(*at(&y, 0, 0, k / 2, 1)));
        *at(&x, 0, 1, k, 1) = 0.0f;
    }
    es_release(accumulator);
    es_release(x.memory);
    es_release(y.memory);
    es_release(d_y.memory);
    es_release(choice.memory);
}

static void check_width(int n_lanes) {
    const EsLaneKernels *kernels = engine(n_lanes);
    if (kernels == NULL) {
        SKIP("this machine has no %d lanes", n_lanes);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const Shape *s = &shapes[i];
        random_state = 1 + i;
        int before = es_test_failures;
        check_sums(kernels, s, 0.0, n_lanes);
        check_sums(kernels, s, 3.0, 1 + (int)i % (n_lanes - 1));
        check_conv(kernels, s, 0.0);
        check_conv(kernels, s, 3.0);
        if (es_test_failures > before) {
            printf("  for 1 -> %d channels, %d x %d\n", s->n_out, s->height, s->width);
        }
    }
    check_corners(kernels);
}

TEST(width_4) { check_width(4); }
TEST(width_8) { check_width(8); }
TEST(width_16) { check_width(16); }
