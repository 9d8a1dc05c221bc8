// Everything of the vector engine that is not a convolution, against double loops, for every vector
// width this machine can run: loading images, batch norm and its gradients, activations, pooling,
// softmax, sums and conversions.
#include "lanes_case.h"

#include "kernels/ops/gather_rules.h"

#define BOUND 5e-6

typedef struct Shape {
    int channels, height, width;
} Shape;

static const Shape shapes[] = {{1, 1, 1},  {3, 2, 2},   {5, 4, 4},  {2, 5, 7},
                               {4, 6, 12}, {8, 16, 16}, {1, 32, 32}};

// Batch norm of `channels` channels with random parameters; scale >= 0, as folding leaves it.
typedef struct Norm {
    float scale[8], shift[8], mean[8], inv_std[8], mean_d_z[8], mean_d_z_xhat[8];
    EsLaneNorm view;
} Norm;

static void make_norm(Norm *norm, int channels) {
    for (int c = 0; c < channels; c++) {
        norm->mean[c] = normal(0.0, 1.0);
        norm->inv_std[c] = (float)(0.5 + uniform());
        norm->scale[c] = (float)uniform() * norm->inv_std[c];
        norm->shift[c] = normal(0.0, 0.5);
        norm->mean_d_z[c] = normal(0.0, 0.1);
        norm->mean_d_z_xhat[c] = normal(0.0, 0.1);
    }
    norm->view = (EsLaneNorm){norm->scale, norm->shift, norm->mean, norm->inv_std};
}

static double normalised(const Norm *norm, int c, double x) {
    return x * (double)norm->scale[c] + (double)norm->shift[c];
}

// d_x = scale (d_z - mean d_z - xhat mean (d_z xhat))
static double norm_gradient(const Norm *norm, int c, double x, double d_z) {
    double xhat = (x - (double)norm->mean[c]) * (double)norm->inv_std[c];
    return (double)norm->scale[c] *
           (d_z - (double)norm->mean_d_z[c] - xhat * (double)norm->mean_d_z_xhat[c]);
}

static void check_norm(const EsLaneKernels *kernels, const Shape *s, int relu, int n_valid) {
    int lanes = kernels->n_lanes;
    Norm norm;
    make_norm(&norm, s->channels);
    Map x = make_map(lanes, s->channels, s->height, s->width, 0),
        y = make_map(lanes, s->channels, s->height, s->width, 1);
    Map d_y = make_map(lanes, s->channels, s->height, s->width, 0);
    Map d_x = make_map(lanes, s->channels, s->height, s->width, 1);
    fill_map(&x, 0.5, 1.0);
    fill_map(&d_y, 0.0, 1.0);
    FOR_EACH_ELEMENT(&d_y) { *at(&d_y, c, r, k, lane) *= lane < n_valid ? 1.0f : 0.0f; }
    double sums[16], exact[16] = {0.0};
    kernels->batchnorm_apply(&x.map, &norm.view, relu, &y.map);
    kernels->batchnorm_backward_sums(&x.map, &d_y.map, &norm.view, relu, sums);
    kernels->batchnorm_backward_input(&x.map, &d_y.map, &norm.view, norm.mean_d_z,
                                      norm.mean_d_z_xhat, relu, n_valid, &d_x.map);
    Distance forward = {0}, backward = {0};
    double size = 1e-30;
    FOR_EACH_ELEMENT(&x) {
        double v = *at(&x, c, r, k, lane), z = normalised(&norm, c, v);
        // whether it passed the ReLU is the engine's to say where z is all rounding
        double d_z =
            relu && *at(&y, c, r, k, lane) <= 0.0f ? 0.0 : (double)*at(&d_y, c, r, k, lane);
        double xhat = (v - (double)norm.mean[c]) * (double)norm.inv_std[c];
        add_distance(&forward, *at(&y, c, r, k, lane), relu && z < 0.0 ? 0.0 : z);
        add_distance(&backward, *at(&d_x, c, r, k, lane),
                     lane < n_valid ? norm_gradient(&norm, c, v, d_z) : 0.0);
        exact[2 * c] += d_z;
        exact[2 * c + 1] += d_z * xhat;
        size += fabs(d_z) + fabs(d_z * xhat);
    }
    expect_close(forward, BOUND, "normalise");
    expect_close(backward, BOUND, "norm_input");
    expect_clean_border(&y, "normalise");
    expect_clean_border(&d_x, "norm_input");
    for (int i = 0; i < 2 * s->channels; i++) {
        EXPECT_NEAR(sums[i], exact[i], 1e-6 * size);
    }
    es_release(x.memory);
    es_release(y.memory);
    es_release(d_y.memory);
    es_release(d_x.memory);
}

// Batch norm, ReLU and maximum backward; values are rounded to quarters so that windows have ties.
static void check_pooled(const EsLaneKernels *kernels, const Shape *s, int n_valid) {
    int lanes = kernels->n_lanes;
    Norm norm;
    make_norm(&norm, s->channels);
    Map x = make_map(lanes, s->channels, s->height, s->width, 0);
    Map maxima = make_map(lanes, s->channels, s->height / 2, s->width / 2, 0);
    Map d_pooled = make_map(lanes, s->channels, s->height / 2, s->width / 2, 0);
    Map d_x = make_map(lanes, s->channels, s->height, s->width, 1);
    FOR_EACH_ELEMENT(&x) { *at(&x, c, r, k, lane) = roundf(4.0f * normal(0.5, 1.0)) / 4.0f; }
    fill_map(&d_pooled, 0.0, 1.0);
    FOR_EACH_ELEMENT(&d_pooled) {
        *at(&d_pooled, c, r, k, lane) *= lane < n_valid ? 1.0f : 0.0f;
        float largest = -INFINITY;
        for (int j = 0; j < 4; j++) {
            largest = fmaxf(largest, *at(&x, c, 2 * r + j / 2, 2 * k + j % 2, lane));
        }
        *at(&maxima, c, r, k, lane) = largest;
    }
    kernels->pooled_batchnorm_backward(&x.map, &maxima.map, &d_pooled.map, &norm.view,
                                       norm.mean_d_z, norm.mean_d_z_xhat, n_valid, &d_x.map);
    Distance d = {0};
    FOR_EACH_ELEMENT(&x) {
        double d_z = 0.0;
        int row = r / 2, column = k / 2;
        if (row < maxima.map.height && column < maxima.map.width) {
            int first = 0;
            float largest = *at(&maxima, c, row, column, lane);
            while (*at(&x, c, 2 * row + first / 2, 2 * column + first % 2, lane) != largest) {
                first++;
            }
            int is_here = r == 2 * row + first / 2 && k == 2 * column + first % 2;
            d_z = is_here && normalised(&norm, c, (double)largest) > 0.0
                      ? (double)*at(&d_pooled, c, row, column, lane)
                      : 0.0;
        }
        double exact = norm_gradient(&norm, c, (double)*at(&x, c, r, k, lane), d_z);
        add_distance(&d, *at(&d_x, c, r, k, lane), lane < n_valid ? exact : 0.0);
    }
    expect_close(d, BOUND, "pooled_input");
    expect_clean_border(&d_x, "pooled_input");
    es_release(x.memory);
    es_release(maxima.memory);
    es_release(d_pooled.memory);
    es_release(d_x.memory);
}

static void check_activation(const EsLaneKernels *kernels, const Shape *s, EsActivation kind) {
    int lanes = kernels->n_lanes;
    Map x = make_map(lanes, s->channels, s->height, s->width, 0),
        y = make_map(lanes, s->channels, s->height, s->width, 1);
    Map d_y = make_map(lanes, s->channels, s->height, s->width, 0);
    Map d_x = make_map(lanes, s->channels, s->height, s->width, 0);
    fill_map(&x, 0.0, 2.0);
    fill_map(&d_y, 0.0, 1.0);
    kernels->activation_forward(kind, &x.map, &y.map);
    kernels->activation_backward(kind, &y.map, &d_y.map, &d_x.map);
    Distance forward = {0}, backward = {0};
    FOR_EACH_ELEMENT(&x) {
        double v = *at(&x, c, r, k, lane), gradient = *at(&d_y, c, r, k, lane);
        double exact = kind == ES_ACTIVATION_RELU   ? fmax(0.0, v)
                       : kind == ES_ACTIVATION_TANH ? tanh(v)
                                                    : 1.0 / (1.0 + exp(-v));
        double slope = kind == ES_ACTIVATION_RELU   ? (v > 0.0 ? 1.0 : 0.0)
                       : kind == ES_ACTIVATION_TANH ? 1.0 - exact * exact
                                                    : exact * (1.0 - exact);
        add_distance(&forward, *at(&y, c, r, k, lane), exact);
        add_distance(&backward, *at(&d_x, c, r, k, lane), gradient * slope);
    }
    expect_close(forward, BOUND, "activation");
    expect_close(backward, BOUND, "activation_input");
    expect_clean_border(&y, "activation");
    es_release(x.memory);
    es_release(y.memory);
    es_release(d_y.memory);
    es_release(d_x.memory);
}

static void check_pool(const EsLaneKernels *kernels, const Shape *s, EsPool kind) {
    int lanes = kernels->n_lanes, is_global = kind == ES_POOL_GLOBAL;
    int height = is_global ? 1 : s->height / 2, width = is_global ? 1 : s->width / 2;
    int window_h = is_global ? s->height : 2, window_w = is_global ? s->width : 2;
    Map x = make_map(lanes, s->channels, s->height, s->width, 1),
        y = make_map(lanes, s->channels, height, width, 1);
    Map d_y = make_map(lanes, s->channels, height, width, 0),
        d_x = make_map(lanes, s->channels, s->height, s->width, 1);
    Map exact = make_map(lanes, s->channels, s->height, s->width, 0);
    FOR_EACH_ELEMENT(&x) { *at(&x, c, r, k, lane) = roundf(4.0f * normal(0.0, 1.0)) / 4.0f; }
    fill_map(&d_y, 0.0, 1.0);
    kernels->pool_forward(kind, &x.map, &y.map);
    kernels->pool_backward(kind, &x.map, &d_y.map, &d_x.map);
    Distance forward = {0}, backward = {0};
    FOR_EACH_ELEMENT(&y) {
        double sum = 0.0, largest = -INFINITY;
        int n = window_h * window_w, best = 0;
        for (int j = 0; j < n; j++) {
            double v = *at(&x, c, 2 * r + j / window_w, 2 * k + j % window_w, lane);
            sum += v;
            best = v > largest ? j : best;
            largest = fmax(largest, v);
        }
        add_distance(&forward, *at(&y, c, r, k, lane), kind == ES_POOL_MAX2 ? largest : sum / n);
        for (int j = 0; j < n; j++) {
            float gradient = *at(&d_y, c, r, k, lane);
            *at(&exact, c, 2 * r + j / window_w, 2 * k + j % window_w, lane) =
                kind != ES_POOL_MAX2 ? gradient / (float)n
                : j == best          ? gradient
                                     : 0.0f;
        }
    }
    FOR_EACH_ELEMENT(&x) {
        add_distance(&backward, *at(&d_x, c, r, k, lane), *at(&exact, c, r, k, lane));
    }
    expect_close(forward, BOUND, "pool");
    expect_close(backward, BOUND, "pool_input");
    expect_clean_border(&y, "pool");
    expect_clean_border(&d_x, "pool_input");
    es_release(x.memory);
    es_release(y.memory);
    es_release(d_y.memory);
    es_release(d_x.memory);
    es_release(exact.memory);
}

// add, bias, and rows there and back
static void check_sums(const EsLaneKernels *kernels, const Shape *s, int n_valid) {
    int lanes = kernels->n_lanes;
    Map a = make_map(lanes, s->channels, s->height, s->width, 0),
        b = make_map(lanes, s->channels, s->height, s->width, 1);
    Map y = make_map(lanes, s->channels, s->height, s->width, 1);
    fill_map(&a, 1.0, 1.0);
    fill_map(&b, 0.0, 1.0);
    kernels->add(&a.map, &b.map, &y.map);
    float *sums = aligned_floats((size_t)s->channels * (size_t)lanes);
    memset(sums, 0xff,
           sizeof(float) * (size_t)(s->channels * lanes)); // NaN: the first call must overwrite it
    kernels->bias(&a.map, 1, sums);
    kernels->bias(&b.map, 0, sums);
    Distance added = {0}, bias = {0};
    double exact[8 * MAX_LANES] = {0.0};
    FOR_EACH_ELEMENT(&a) {
        double sum = (double)*at(&a, c, r, k, lane) + (double)*at(&b, c, r, k, lane);
        add_distance(&added, *at(&y, c, r, k, lane), sum);
        exact[c * lanes + lane] += sum;
    }
    for (int i = 0; i < s->channels * lanes; i++) {
        add_distance(&bias, sums[i], exact[i]);
    }
    expect_close(added, BOUND, "add");
    expect_close(bias, BOUND, "bias");
    expect_clean_border(&y, "add");

    size_t count = (size_t)s->channels * (size_t)s->height * (size_t)s->width;
    float *rows = aligned_floats(count * (size_t)lanes);
    kernels->to_rows(&a.map, n_valid, rows);
    kernels->from_rows(rows, n_valid, &b.map);
    FOR_EACH_ELEMENT(&a) {
        size_t element = ((size_t)c * (size_t)s->height + (size_t)r) * (size_t)s->width + (size_t)k;
        float original = *at(&a, c, r, k, lane);
        if (rows[(size_t)lane * count + element] != (lane < n_valid ? original : 0.0f) ||
            *at(&b, c, r, k, lane) != (lane < n_valid ? original : 0.0f)) {
            ES_TEST_FAIL("rows: channel %d at %d, %d, lane %d", c, r, k, lane);
        }
    }
    es_release(a.memory);
    es_release(b.memory);
    es_release(y.memory);
    es_release(sums);
    es_release(rows);
}

static void check_softmax(const EsLaneKernels *kernels, int n_classes, double deviation) {
    int lanes = kernels->n_lanes;
    Map x = make_map(lanes, n_classes, 1, 1, 0), y = make_map(lanes, n_classes, 1, 1, 0);
    _Alignas(64) float scale[MAX_LANES], maximum[MAX_LANES], sum[MAX_LANES];
    fill_map(&x, 1.0, deviation);
    for (int lane = 0; lane < lanes; lane++) {
        scale[lane] = (float)uniform();
    }
    kernels->softmax(&x.map, scale, &y.map, maximum, sum);
    for (int lane = 0; lane < lanes; lane++) {
        double largest = -INFINITY, total = 0.0;
        for (int c = 0; c < n_classes; c++) {
            largest = fmax(largest, (double)*at(&x, c, 0, 0, lane));
        }
        for (int c = 0; c < n_classes; c++) {
            total += exp((double)*at(&x, c, 0, 0, lane) - largest);
        }
        EXPECT_NEAR(maximum[lane], largest, 0.0);
        EXPECT_NEAR(sum[lane], total, 5e-7 * total);
        for (int c = 0; c < n_classes; c++) {
            double below = (double)*at(&x, c, 0, 0, lane) - largest;
            double exact = (double)scale[lane] * exp(below) / total;
            // the difference from the maximum is rounded to float before the exponential
            EXPECT_NEAR(*at(&y, c, 0, 0, lane), exact, (1e-6 - 6e-8 * below) * exact + 1e-37);
        }
    }
    es_release(x.memory);
    es_release(y.memory);
}

static void check_images(const EsLaneKernels *kernels, const Shape *s, EsGatherOptions options) {
    enum { N_IMAGES = 40 };
    int pad = options.pad;
    int lanes = kernels->n_lanes, n_valid = pad > 0 ? lanes - 1 : lanes;
    size_t plane = (size_t)s->height * (size_t)s->width, count = plane * (size_t)s->channels;
    unsigned char *images = malloc(count * N_IMAGES);
    int32_t index[MAX_LANES];
    options.seed = 3;
    for (size_t i = 0; i < count * N_IMAGES; i++) {
        images[i] = (unsigned char)(256.0 * uniform());
    }
    for (int lane = 0; lane < lanes; lane++) {
        index[lane] = (int32_t)(N_IMAGES * uniform());
    }
    for (int c = 0; c < s->channels; c++) {
        options.mean[c] = 0.4f + 0.1f * (float)c;
        options.inv_std[c] = 4.0f - (float)c;
    }
    EsLaneImages source = {images, NULL, index, n_valid, &options, 5, 6, 32};
    Map y = make_map(lanes, s->channels, s->height, s->width, 1);
    kernels->load_images(&source, &y.map);
    FOR_EACH_ELEMENT(&y) {
        int n = lane < n_valid ? lane : 0;
        EsCrop crop = es_gather_crop(&options, 5, 6, 32 + (uint32_t)n, s->height, s->width);
        unsigned char pixel =
            es_gather_pixel(&options, c, images + (size_t)index[n] * count + (size_t)c * plane,
                            s->height, s->width, &crop, r, k);
        EXPECT_NEAR(*at(&y, c, r, k, lane), es_gather_value(&options, c, pixel), 1e-6);
    }
    expect_clean_border(&y, "load_images");
    es_release(y.memory);
    free(images);
}

// Rows of awkward lengths, with and without empty lanes, against a plain loop: bit for bit.
static void check_rows(const EsLaneKernels *kernels, int n_columns, int n_valid) {
    enum { N_ROWS = 40 };
    float *rows = malloc(sizeof *rows * (size_t)(N_ROWS * n_columns));
    int32_t index[MAX_LANES];
    EsGatherOptions options = {.pad = 1, .flip = 1, .erase = 1.0f}; // of images
    for (int i = 0; i < N_ROWS * n_columns; i++) {
        rows[i] = (float)(8.0 * uniform() - 4.0);
    }
    for (int lane = 0; lane < kernels->n_lanes; lane++) {
        index[lane] = (int32_t)(N_ROWS * uniform());
    }
    EsLaneImages source = {NULL, rows, index, n_valid, &options, 5, 6, 32};
    Map y = make_map(kernels->n_lanes, n_columns, 1, 1, 1);
    kernels->load_images(&source, &y.map);
    for (int lane = 0; lane < kernels->n_lanes; lane++) {
        for (int c = 0; c < n_columns; c++) {
            int n = lane < n_valid ? lane : 0;
            EXPECT_NEAR(*at(&y, c, 0, 0, lane), rows[index[n] * n_columns + c], 0.0);
        }
    }
    expect_clean_border(&y, "load_images");
    es_release(y.memory);
    free(rows);
}

static void check_width(int n_lanes) {
    const EsLaneKernels *kernels = engine(n_lanes);
    if (kernels == NULL) {
        SKIP("this machine has no %d lanes", n_lanes);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const Shape *s = &shapes[i];
        random_state = 1 + i;
        int before = es_test_failures, n_valid = i % 2 == 0 ? n_lanes : 1 + (int)i % (n_lanes - 1);
        for (int kind = 0; kind < 3; kind++) {
            check_activation(kernels, s, (EsActivation)kind);
            check_pool(kernels, s, (EsPool)kind);
        }
        for (int relu = 0; relu < 2; relu++) {
            check_norm(kernels, s, relu, n_valid);
        }
        check_pooled(kernels, s, n_valid);
        check_sums(kernels, s, n_valid);
        if (s->channels <= ES_MAX_IMAGE_CHANNELS) {
            int inner = ES_MIN(s->height, s->width) - 1; // the most that can be reflected
            check_images(kernels, s, (EsGatherOptions){0});
            check_images(kernels, s, (EsGatherOptions){.pad = 2});
            check_images(kernels, s, (EsGatherOptions){.pad = 40, .flip = 1});
            check_images(kernels, s, (EsGatherOptions){.flip = 1});
            check_images(kernels, s,
                         (EsGatherOptions){.pad = 3, .flip = 1, .border = ES_BORDER_MEAN});
            check_images(kernels, s,
                         (EsGatherOptions){.pad = inner, .flip = 1, .border = ES_BORDER_REFLECT});
            check_images(kernels, s,
                         (EsGatherOptions){
                             .pad = inner, .border = ES_BORDER_REFLECT, .flip = 1, .erase = 0.5f});
            check_images(kernels, s, (EsGatherOptions){.erase = 1.0f});
        }
        if (es_test_failures > before) {
            printf("  for %d channels of %d x %d\n", s->channels, s->height, s->width);
        }
    }
    check_softmax(kernels, 1, 1.0);
    check_softmax(kernels, 10, 2.0);
    check_softmax(kernels, 100, 40.0);
    check_rows(kernels, 1, n_lanes);
    check_rows(kernels, 3, n_lanes - 1);
    check_rows(kernels, 17, 1);
    check_rows(kernels, 64, n_lanes);
}

TEST(width_4) { check_width(4); }
TEST(width_8) { check_width(8); }
TEST(width_16) { check_width(16); }
