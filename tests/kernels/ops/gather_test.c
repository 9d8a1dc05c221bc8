#include <math.h>

#include "es_test.h"
#include "kernels/kernel_case.h"
#include "kernels/ops/gather_rules.h"

typedef enum Kind { ORDER, IMAGES, LABELS, COUNT } Kind;

typedef struct Shape {
    Kind kind;
    int64_t E, N, M; // M samples
    int64_t C, H, W;
    int pad, flip;      // of ORDER pad is the number of shares, 0 = 1
    int seed;           // added to a base
    const char *golden; // computed with a Philox and a permutation of its own, in Python
    EsBorder border;
    float erase;
} Shape;

// around the 16 images of a piece; more samples than one pass holds, and fewer
static const Shape shapes[] = {
    {ORDER, 1, 1, 1, 0, 0, 0, 0, 0, 0, "case0", 0, 0},
    {ORDER, 2, 7, 17, 0, 0, 0, 0, 0, 1, "case1", 0, 0},
    {ORDER, 3, 65, 100, 0, 0, 0, 0, 0, 2, "case2", 0, 0},
    {ORDER, 1, 5, 60000, 0, 0, 0, 0, 0, 3, "case3", 0, 0},
    {IMAGES, 1, 1, 1, 1, 1, 1, 0, 0, 4, "case4", 0, 0},
    {IMAGES, 2, 5, 7, 3, 6, 5, 2, 1, 5, "case5", 0, 0},
    {IMAGES, 1, 17, 3, 1, 4, 4, 4, 0, 6, "case6", 0, 0},
    {IMAGES, 2, 3, 4, 4, 3, 7, 0, 1, 7, "case7", 0, 0},
    {ORDER, 5, 128, 65, 0, 0, 0, 0, 0, 8, NULL, 0, 0},
    {IMAGES, 3, 16, 9, 3, 9, 9, 1, 1, 9, NULL, 0, 0},
    {IMAGES, 1, 33, 50, 1, 16, 16, 0, 0, 10, NULL, 0, 0},
    {LABELS, 1, 1, 1, 0, 0, 0, 0, 0, 11, NULL, 0, 0},
    {LABELS, 3, 65, 1000, 0, 0, 0, 0, 0, 12, NULL, 0, 0},
    {COUNT, 1, 1, 1, 0, 0, 0, 0, 0, 13, NULL, 0, 0},
    {ORDER, 3, 33, 200, 0, 0, 0, 4, 0, 14, NULL, 0, 0},
    {ORDER, 6, 7, 17, 0, 0, 0, 6, 0, 15, NULL, 0, 0},
    {IMAGES, 2, 17, 5, 3, 7, 9, 3, 1, 16, NULL, ES_BORDER_MEAN, 0},
    {IMAGES, 2, 17, 5, 1, 5, 8, 4, 1, 17, NULL, ES_BORDER_REFLECT, 0},
    {IMAGES, 1, 40, 5, 4, 9, 9, 2, 1, 18, NULL, ES_BORDER_REFLECT, 0.5f},
    {IMAGES, 1, 33, 5, 1, 1, 1, 0, 0, 19, NULL, ES_BORDER_REFLECT, 1.0f},
    {IMAGES, 2, 9, 5, 2, 16, 3, 0, 0, 20, NULL, ES_BORDER_BLACK, 1.0f},
};

// of ORDER: environments that share a pass
static uint32_t shares_of(const Shape *s) { return s->pad > 0 ? (uint32_t)s->pad : 1; }

static uint64_t seed_of(const Shape *s) { return 0xFEDCBA9876543210u + (uint64_t)s->seed; }

static EsGatherOptions options_of(const Shape *s) {
    return (EsGatherOptions){.seed = seed_of(s),
                             .pad = s->pad,
                             .flip = s->flip,
                             .border = s->border,
                             .erase = s->erase,
                             .mean = {0.5f, 0.25f, 0.75f, 0.125f},
                             .inv_std = {2.0f, 4.5f, 3.25f, 1.0f}};
}

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    const EsTensor *episode = es_case_at(r, "episode"), *step = es_case_at(r, "step");
    const EsTensor *index = es_case_at(r, "index"), *y = es_case_at(r, "y");
    EsGatherOptions options = options_of(s);
    switch (s->kind) {
    case ORDER:
        r->kernels->gather_order(r->stream, &(EsSampleOrder){seed_of(s), s->M, shares_of(s)},
                                 episode, step, index);
        break;
    case IMAGES:
        r->kernels->gather_images(r->stream, &options, es_case_at(r, "images"), index, episode,
                                  step, y);
        break;
    case LABELS:
        r->kernels->gather_labels(r->stream, es_case_at(r, "labels"), index, y);
        break;
    case COUNT:
        r->kernels->count_steps(r->stream, step);
        r->kernels->count_steps(r->stream, step);
        break;
    }
}

// A byte of the padded image, which has `pad` more rows and columns on every side.
static double padded(const Shape *s, const EsGatherOptions *options, const EsCase *c,
                     int64_t source, int64_t channel, int64_t row, int64_t column) {
    int64_t from_row = row - s->pad, from_column = column - s->pad;
    int is_outside = from_row < 0 || from_row >= s->H || from_column < 0 || from_column >= s->W;
    if (is_outside && s->border == ES_BORDER_BLACK) {
        return 0;
    }
    if (is_outside && s->border == ES_BORDER_MEAN) {
        return floor((double)options->mean[channel] * 255.0 + 0.5);
    }
    while (from_row < 0 || from_row >= s->H) { // mirror by mirror
        from_row = from_row < 0 ? -from_row : 2 * (s->H - 1) - from_row;
    }
    while (from_column < 0 || from_column >= s->W) {
        from_column = from_column < 0 ? -from_column : 2 * (s->W - 1) - from_column;
    }
    return es_case_initial(c, "images")[source + (channel * s->H + from_row) * s->W + from_column];
}

// The crop of the padded image, then the flip, then the erased rectangle.
static void expect_images(const EsCase *c, const Shape *s, double *expected) {
    EsGatherOptions options = options_of(s);
    int64_t image_size = s->C * s->H * s->W;
    for (int64_t image = 0; image < s->E * s->N; image++) {
        EsCrop crop =
            es_gather_crop(&options, (uint32_t)es_case_initial(c, "episode")[image / s->N],
                           (uint32_t)es_case_initial(c, "step")[0], (uint32_t)(image % s->N),
                           (int)s->H, (int)s->W);
        int64_t source = (int64_t)es_case_initial(c, "index")[image] * image_size;
        for (int64_t i = 0; i < image_size; i++) {
            int64_t channel = i / (s->H * s->W), row = i / s->W % s->H, column = i % s->W;
            int64_t shown = crop.flip ? s->W - 1 - column : column;
            double pixel = padded(s, &options, c, source, channel, row + crop.row + s->pad,
                                  shown + crop.column + s->pad);
            if (crop.erase_row <= row && row < crop.erase_row_end && crop.erase_column <= column &&
                column < crop.erase_column_end) {
                pixel = floor((double)options.mean[channel] * 255.0 + 0.5);
            }
            expected[image * image_size + i] =
                (pixel / 255.0 - (double)options.mean[channel]) * (double)options.inv_std[channel];
        }
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    (void)output;
    switch (s->kind) {
    case ORDER:
        for (int64_t i = 0; i < s->E * s->N; i++) {
            uint64_t step = (uint64_t)es_case_initial(c, "step")[0];
            uint32_t episode = (uint32_t)es_case_initial(c, "episode")[i / s->N];
            uint32_t share = episode % shares_of(s);
            uint64_t position =
                (step * shares_of(s) + share) * (uint64_t)s->N + (uint64_t)(i % s->N);
            expected[i] = es_gather_sample(seed_of(s), episode - share, position, (uint32_t)s->M);
        }
        break;
    case IMAGES:
        expect_images(c, s, expected);
        break;
    case LABELS:
        for (int64_t i = 0; i < s->E * s->N; i++) {
            expected[i] = es_case_initial(c, "labels")[(int64_t)es_case_initial(c, "index")[i]];
        }
        break;
    case COUNT:
        expected[0] = es_case_initial(c, "step")[0] + 2.0;
        break;
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "gather", s->golden, run, s);
    c->expect = expect;
    if (s->kind != IMAGES) {
        c->reference = c->parity = (EsCaseBound){0.0, 0.0}; // whole numbers
    }
    if (s->kind == LABELS) {
        es_case_integers(c, ES_CASE_INPUT, "labels", ES_DTYPE_U16, 0, 65535, ES_DIMS(s->M));
    } else {
        es_case_integers(c, ES_CASE_INPUT, "episode", ES_DTYPE_I32, 0, 1000, ES_DIMS(s->E));
        es_case_integers(c, s->kind == COUNT ? ES_CASE_STATE : ES_CASE_INPUT, "step", ES_DTYPE_I32,
                         0, 1000, ES_DIMS(1));
    }
    if (s->kind != COUNT) {
        es_case_integers(c, s->kind == ORDER ? ES_CASE_OUTPUT : ES_CASE_INPUT, "index",
                         ES_DTYPE_I32, 0, (int)s->M - 1, ES_DIMS(s->E, s->N));
    }
    if (s->kind == LABELS) {
        es_case_integers(c, ES_CASE_OUTPUT, "y", ES_DTYPE_I32, 0, 0, ES_DIMS(s->E, s->N));
    }
    if (s->kind == IMAGES) {
        es_case_integers(c, ES_CASE_INPUT, "images", ES_DTYPE_U8, 0, 255,
                         ES_DIMS(s->M, s->C, s->H, s->W));
        es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    }
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)

// Every pass takes every sample once; passes and episodes differ; a batch may straddle two passes.
TEST(each_pass_is_a_permutation) {
    enum { N = 7, n_samples = 50, n_passes = 3 };
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    int32_t taken[2][N * n_samples * n_passes], index[2][N], episode[2] = {1, 2}, step[1] = {0};
    EsTensor episodes = es_tensor_view(episode, ES_DTYPE_I32, device, 1, (int64_t[]){2});
    EsTensor steps = es_tensor_view(step, ES_DTYPE_I32, device, 1, (int64_t[]){1});
    EsTensor indices = es_tensor_view(index, ES_DTYPE_I32, device, 2, (int64_t[]){2, N});
    const EsKernels *kernels = es_kernels_of(device);
    for (int batch = 0; batch < n_samples * n_passes; batch++) {
        kernels->gather_order(stream, &(EsSampleOrder){3, n_samples, 1}, &episodes, &steps,
                              &indices);
        kernels->count_steps(stream, &steps);
        for (int e = 0; e < 2; e++) {
            memcpy(&taken[e][batch * N], index[e], sizeof index[e]);
        }
    }
    for (int e = 0; e < 2; e++) {
        for (int pass = 0; pass < N * n_passes; pass++) {
            int n_seen[n_samples] = {0};
            for (int i = 0; i < n_samples; i++) {
                int32_t sample = taken[e][pass * n_samples + i];
                EXPECT(sample >= 0 && sample < n_samples);
                EXPECT_EQ(n_seen[sample]++, 0);
            }
        }
    }
    EXPECT(memcmp(taken[0], taken[0] + n_samples, n_samples * sizeof(int32_t)) != 0);
    EXPECT(memcmp(taken[0], taken[1], n_samples * sizeof(int32_t)) != 0);
    es_stream_destroy(stream);
    es_device_close(device);
}

// Four environments that share their passes: together they take every sample once in each, and the
// next round of episodes goes through the set in another order.
TEST(shares_of_a_pass_do_not_overlap) {
    enum { E = 4, N = 6, n_samples = 120, n_batches = n_samples / (E * N), n_rounds = 2 };
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    int32_t index[E][N], episode[E], step[1] = {0}, first[n_rounds] = {0};
    EsTensor episodes = es_tensor_view(episode, ES_DTYPE_I32, device, 1, (int64_t[]){E});
    EsTensor steps = es_tensor_view(step, ES_DTYPE_I32, device, 1, (int64_t[]){1});
    EsTensor indices = es_tensor_view(index, ES_DTYPE_I32, device, 2, (int64_t[]){E, N});
    const EsKernels *kernels = es_kernels_of(device);
    for (int round = 0; round < n_rounds; round++) {
        int n_seen[n_samples] = {0};
        for (int e = 0; e < E; e++) {
            episode[e] = E * round + e;
        }
        for (step[0] = 0; step[0] < n_batches; step[0]++) {
            kernels->gather_order(stream, &(EsSampleOrder){3, n_samples, E}, &episodes, &steps,
                                  &indices);
            for (int i = 0; i < E * N; i++) {
                n_seen[index[i / N][i % N]]++;
            }
            first[round] = step[0] == 0 ? index[0][0] * n_samples + index[0][1] : first[round];
        }
        for (int i = 0; i < n_samples; i++) {
            EXPECT_EQ(n_seen[i], 1);
        }
    }
    EXPECT(first[0] != first[1]);
    es_stream_destroy(stream);
    es_device_close(device);
}

// Rows of awkward lengths, more and fewer than a piece, against a plain loop: bit for bit, on 1 and
// 3 threads, whatever the options ask of images.
static void check_rows(int D, int N, int n_threads) {
    enum { E = 3, M = 23 };
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = n_threads}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    int32_t episode[E] = {4, 5, 6}, step[1] = {2};
    float *rows = malloc(sizeof *rows * (size_t)(M * D));
    float *taken = malloc(sizeof *taken * (size_t)(E * N * D));
    int32_t *index = malloc(sizeof *index * (size_t)(E * N));
    for (int i = 0; i < M * D; i++) {
        rows[i] = (float)((i * 7919) % 1001) / 77.0f - 6.5f;
    }
    for (int i = 0; i < E * N; i++) {
        index[i] = (i * 11 + i / N) % M;
    }
    EsTensor data = es_tensor_view(rows, ES_DTYPE_F32, device, 4, (int64_t[]){M, D, 1, 1});
    EsTensor indices = es_tensor_view(index, ES_DTYPE_I32, device, 2, (int64_t[]){E, N});
    EsTensor episodes = es_tensor_view(episode, ES_DTYPE_I32, device, 1, (int64_t[]){E});
    EsTensor steps = es_tensor_view(step, ES_DTYPE_I32, device, 1, (int64_t[]){1});
    EsTensor y = es_tensor_view(taken, ES_DTYPE_F32, device, 5, (int64_t[]){E, N, D, 1, 1});
    EsGatherOptions options = {.seed = 9, .pad = 1, .flip = 1, .erase = 1.0f};
    es_kernels_of(device)->gather_images(stream, &options, &data, &indices, &episodes, &steps, &y);
    REQUIRE_OK(es_stream_synchronize(stream));
    for (int i = 0; i < E * N; i++) {
        for (int d = 0; d < D; d++) {
            EXPECT_NEAR(taken[i * D + d], rows[index[i] * D + d], 0.0);
        }
    }
    free(rows);
    free(taken);
    free(index);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(rows_are_copied_as_they_are) {
    static const int lengths[] = {1, 3, 17, 64};
    for (size_t i = 0; i < ES_COUNT_OF(lengths); i++) {
        check_rows(lengths[i], 1, 1);
        check_rows(lengths[i], 17, 1);
        check_rows(lengths[i], 33, 3);
    }
}

TEST(erased_rectangles_lie_inside_and_are_as_frequent_as_asked) {
    EsGatherOptions options = {.seed = 5, .erase = 0.3f};
    int n_erased = 0;
    double area = 0;
    for (uint32_t n = 0; n < 20000; n++) {
        EsCrop crop = es_gather_crop(&options, n % 7, n / 7, n, 12, 20);
        int n_rows = crop.erase_row_end - crop.erase_row;
        int n_columns = crop.erase_column_end - crop.erase_column;
        EXPECT(crop.row == 0 && crop.column == 0 && crop.flip == 0);
        EXPECT(n_rows >= 0 && n_rows <= 6 && n_columns >= 0 && n_columns <= 10);
        EXPECT(crop.erase_row >= 0 && crop.erase_row_end <= 12);
        EXPECT(crop.erase_column >= 0 && crop.erase_column_end <= 20);
        n_erased += n_rows > 0;
        area += (double)n_rows * n_columns;
    }
    EXPECT_NEAR(n_erased / 20000.0, 0.3, 0.015); // about 4.6 standard errors
    EXPECT_NEAR(area / n_erased, 3.5 * 5.5, 0.6);
}
