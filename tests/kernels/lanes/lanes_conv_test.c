// Convolutions of the vector engine against double loops, by the direct way and by Winograd's (maps
// that fill half of their 4x4 tiles), for every vector width this machine can run.
#include "lanes_case.h"

#define BOUND    5e-6
#define N_GROUPS 3 // of the weight gradient: two in the first shard, one in the second

typedef struct Shape {
    int n_in, n_out, height, width, kernel;
} Shape;

// the last six have tiles that hang over, by one to three rows and columns
static const Shape shapes[] = {
    {1, 1, 1, 1, 1},   {5, 3, 1, 1, 1},     {16, 10, 1, 1, 1}, {3, 5, 6, 7, 1},
    {1, 1, 1, 1, 3},   {1, 1, 4, 4, 3},     {1, 4, 16, 16, 3}, {1, 5, 8, 4, 3},
    {2, 2, 2, 2, 3},   {3, 8, 32, 32, 3},   {5, 5, 12, 12, 3}, {5, 5, 6, 6, 3},
    {4, 8, 8, 8, 3},   {8, 16, 16, 16, 3},  {16, 32, 8, 8, 3}, {32, 16, 8, 8, 3},
    {8, 16, 4, 4, 3},  {9, 17, 4, 12, 3},   {7, 1, 5, 8, 3},   {3, 6, 12, 6, 3},
    {64, 64, 4, 4, 3}, {65, 3, 4, 4, 3},    {11, 33, 4, 8, 3}, {3, 4, 8, 8, 5},
    {2, 5, 5, 9, 7},   {16, 16, 14, 14, 3}, {32, 32, 7, 7, 3}, {1, 8, 14, 14, 3},
    {3, 9, 10, 7, 3},  {2, 3, 9, 6, 3},     {5, 2, 13, 3, 3},
};

// 0 outside the map
static double value(const Map *m, int c, int r, int k, int lane) {
    int is_inside = r >= 0 && r < m->map.height && k >= 0 && k < m->map.width;
    return is_inside ? (double)*at(m, c, r, k, lane) : 0.0;
}

// Weights of one convolution, plain and packed both ways.
typedef struct Layer {
    EsLaneFilter filter;
    float *weight, *sign, *bias, *packed, *flipped;
} Layer;

static Layer make_layer(const EsLaneKernels *kernels, const Shape *s) {
    Layer layer = {.filter = {s->n_in, s->n_out, s->kernel, s->height, s->width}};
    EsLaneFilter exchanged = {s->n_out, s->n_in, s->kernel, s->height, s->width};
    size_t n_weights = (size_t)s->n_in * (size_t)s->n_out * (size_t)s->kernel * (size_t)s->kernel;
    layer.weight = aligned_floats(n_weights);
    layer.sign = aligned_floats((size_t)s->n_out);
    layer.bias = aligned_floats((size_t)s->n_out);
    for (size_t i = 0; i < n_weights; i++) {
        layer.weight[i] = normal(0.0, 1.0 / (s->kernel * sqrt((double)s->n_in)));
    }
    for (int o = 0; o < s->n_out; o++) {
        layer.sign[o] = uniform() < 0.5 ? -1.0f : 1.0f;
        layer.bias[o] = normal(0.0, 1.0);
    }
    layer.packed = aligned_floats(kernels->packed_count(&layer.filter));
    layer.flipped = aligned_floats(kernels->packed_count(&exchanged));
    kernels->pack_weights(layer.weight, layer.sign, &layer.filter, layer.packed);
    kernels->pack_weights_flipped(layer.weight, layer.sign, &layer.filter, layer.flipped);
    return layer;
}

static void free_layer(Layer *layer) {
    es_release(layer->weight);
    es_release(layer->sign);
    es_release(layer->bias);
    es_release(layer->packed);
    es_release(layer->flipped);
}

static double tap(const Layer *layer, int o, int i, int u, int v) {
    int kernel = layer->filter.kernel;
    return (double)layer->weight[((o * layer->filter.n_in + i) * kernel + u) * kernel + v] *
           (double)layer->sign[o];
}

static double output_at(const Layer *layer, const Map *x, int o, int r, int c, int lane) {
    int kernel = layer->filter.kernel, half = kernel / 2;
    double sum = 0.0;
    for (int i = 0; i < layer->filter.n_in; i++) {
        for (int t = 0; t < kernel * kernel; t++) {
            sum += tap(layer, o, i, t / kernel, t % kernel) *
                   value(x, i, r + t / kernel - half, c + t % kernel - half, lane);
        }
    }
    return sum;
}

static double input_gradient_at(const Layer *layer, const Map *d_y, int i, int r, int c, int lane) {
    int kernel = layer->filter.kernel, half = kernel / 2;
    double sum = 0.0;
    for (int o = 0; o < layer->filter.n_out; o++) {
        for (int t = 0; t < kernel * kernel; t++) {
            sum += tap(layer, o, i, t / kernel, t % kernel) *
                   value(d_y, o, r - t / kernel + half, c - t % kernel + half, lane);
        }
    }
    return sum;
}

static void check_conv(const EsLaneKernels *kernels, const Shape *s, const Layer *layer,
                       double mean) {
    int lanes = kernels->n_lanes;
    Map x = make_map(lanes, s->n_in, s->height, s->width, s->kernel / 2);
    Map y = make_map(lanes, s->n_out, s->height, s->width, 1);
    fill_map(&x, mean, 1.0);
    kernels->conv2d_forward(&x.map, layer->packed, layer->bias, s->kernel, &y.map);
    Distance d = {0};
    FOR_EACH_ELEMENT(&y) {
        add_distance(&d, *at(&y, c, r, k, lane),
                     output_at(layer, &x, c, r, k, lane) + (double)layer->bias[c]);
    }
    expect_close(d, BOUND, "conv");
    expect_clean_border(&y, "conv");

    // the input gradient: from the outputs' side back
    Map d_y = make_map(lanes, s->n_out, s->height, s->width, s->kernel / 2);
    Map d_x = make_map(lanes, s->n_in, s->height, s->width, 0);
    fill_map(&d_y, mean, 1.0);
    kernels->conv2d_forward(&d_y.map, layer->flipped, NULL, s->kernel, &d_x.map);
    d = (Distance){0};
    FOR_EACH_ELEMENT(&d_x) {
        add_distance(&d, *at(&d_x, c, r, k, lane), input_gradient_at(layer, &d_y, c, r, k, lane));
    }
    expect_close(d, BOUND, "input gradient");
    es_release(x.memory);
    es_release(y.memory);
    es_release(d_y.memory);
    es_release(d_x.memory);
}

// Sums over the first n_valid lanes and maxima, with and without the output itself.
static void check_statistics(const EsLaneKernels *kernels, const Shape *s, const Layer *layer,
                             double mean, int n_valid) {
    int lanes = kernels->n_lanes;
    Map x = make_map(lanes, s->n_in, s->height, s->width, s->kernel / 2);
    Map y = make_map(lanes, s->n_out, s->height, s->width, 0);
    Map pooled = make_map(lanes, s->n_out, s->height / 2, s->width / 2, 1);
    Map pooled_only = make_map(lanes, s->n_out, s->height / 2, s->width / 2, 0);
    double *sums = calloc((size_t)s->n_out * 4, sizeof *sums), *expected = sums + 2 * s->n_out;
    fill_map(&x, mean, 1.0);
    kernels->conv2d_statistics(&x.map, layer->packed, s->kernel, n_valid, &y.map, &pooled.map,
                               sums);
    Distance d = {0}, d_sums = {0}, d_squares = {0};
    FOR_EACH_ELEMENT(&y) {
        double exact = output_at(layer, &x, c, r, k, lane);
        add_distance(&d, *at(&y, c, r, k, lane), exact);
        expected[2 * c] += lane < n_valid ? exact : 0.0;
        expected[2 * c + 1] += lane < n_valid ? exact * exact : 0.0;
    }
    double scale = 0.0;
    for (int o = 0; o < s->n_out; o++) {
        // a sum may cancel: its error is measured against the root of n times the sum of squares
        scale += expected[2 * o + 1] * s->height * s->width * n_valid;
        d_sums.error += pow(sums[2 * o] - expected[2 * o], 2.0);
        add_distance(&d_squares, sums[2 * o + 1], expected[2 * o + 1]);
    }
    d_sums.size = scale;
    expect_close(d, BOUND, "conv_statistics");
    expect_close(d_sums, BOUND, "sums");
    expect_close(d_squares, BOUND, "sums of squares");
    EsLaneMap not_kept = y.map;
    not_kept.data = NULL;
    kernels->conv2d_statistics(&x.map, layer->packed, s->kernel, n_valid, &not_kept,
                               &pooled_only.map, NULL);
    FOR_EACH_ELEMENT(&pooled) {
        // exact: the backward pass looks for the maximum by equality
        float largest = *at(&y, c, 2 * r, 2 * k, lane);
        for (int j = 1; j < 4; j++) {
            largest = fmaxf(largest, *at(&y, c, 2 * r + j / 2, 2 * k + j % 2, lane));
        }
        if (*at(&pooled, c, r, k, lane) != largest || *at(&pooled_only, c, r, k, lane) != largest) {
            ES_TEST_FAIL("maximum of channel %d at %d, %d is not the largest of its window", c, r,
                         k);
            break;
        }
    }
    expect_clean_border(&pooled, "maxima");
    free(sums);
    es_release(x.memory);
    es_release(y.memory);
    es_release(pooled.memory);
    es_release(pooled_only.memory);
}

static void check_weight(const EsLaneKernels *kernels, const Shape *s, const Layer *layer,
                         double mean) {
    int lanes = kernels->n_lanes, kernel = s->kernel, half = kernel / 2, square = kernel * kernel;
    size_t count = kernels->accumulator_count(&layer->filter),
           n_weights = (size_t)s->n_in * (size_t)s->n_out * (size_t)square;
    size_t stride = (count + MAX_LANES - 1) / MAX_LANES * MAX_LANES;
    float *accumulator = aligned_floats(2 * stride), *d_weight = aligned_floats(n_weights);
    double *expected = calloc(n_weights, sizeof *expected);
    for (size_t i = 0; i < 2 * stride; i++) {
        accumulator[i] = NAN; // the first group must overwrite it
    }
    Map x = make_map(lanes, s->n_in, s->height, s->width, half),
        d_y = make_map(lanes, s->n_out, s->height, s->width, 1);
    for (int group = 0; group < N_GROUPS; group++) {
        fill_map(&x, mean, 1.0);
        fill_map(&d_y, mean / 10.0, 0.1);
        kernels->conv2d_backward_weight(&x.map, &d_y.map, kernel, group != 1,
                                        accumulator + (group == 2 ? stride : 0));
        for (int o = 0; o < s->n_out; o++) {
            for (int i = 0; i < s->n_in * square; i++) {
                int u = i % square / kernel - half, v = i % kernel - half;
                for (int p = 0; p < s->height * s->width * lanes; p++) {
                    int lane = p % lanes, r = p / lanes / s->width, c = p / lanes % s->width;
                    expected[(size_t)(o * s->n_in * square + i)] +=
                        value(&d_y, o, r, c, lane) * value(&x, i / square, r + u, c + v, lane) *
                        (double)layer->sign[o];
                }
            }
        }
    }
    kernels->conv2d_reduce_weight(accumulator, stride, 2, layer->sign, &layer->filter, d_weight);
    Distance d = {0};
    for (size_t i = 0; i < n_weights; i++) {
        add_distance(&d, d_weight[i], expected[i]);
    }
    expect_close(d, BOUND, "weight gradient");
    free(expected);
    es_release(accumulator);
    es_release(d_weight);
    es_release(x.memory);
    es_release(d_y.memory);
}

static void check_width(int n_lanes) {
    const EsLaneKernels *kernels = engine(n_lanes);
    if (kernels == NULL) {
        SKIP("this machine has no %d lanes", n_lanes);
    }
    EXPECT_EQ(kernels->n_lanes, n_lanes);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const Shape *s = &shapes[i];
        random_state = 1 + i;
        Layer layer = make_layer(kernels, s);
        int before = es_test_failures;
        for (int m = 0; m < 2; m++) {
            double mean = 3.0 * m;
            check_conv(kernels, s, &layer, mean);
            check_statistics(kernels, s, &layer, mean,
                             m == 0 ? n_lanes : 1 + (int)i % (n_lanes - 1));
            check_weight(kernels, s, &layer, mean);
        }
        if (es_test_failures > before) {
            printf("  for %d -> %d channels, %d x %d, kernel %d\n", s->n_in, s->n_out, s->height,
                   s->width, s->kernel);
        }
        free_layer(&layer);
    }
}

TEST(width_4) { check_width(4); }
TEST(width_8) { check_width(8); }
TEST(width_16) { check_width(16); }
