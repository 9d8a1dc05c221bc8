// Hashes of rows, against a loop that is written out again, on the CPU and on CUDA.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, P;
} Shape;

// one word; around a warp and a block; rows of several blocks
static const Shape shapes[] = {{1, 1}, {2, 31}, {3, 33}, {2, 511}, {2, 513}, {5, 4097}, {2, 40001}};

#define WORDS_MAX (2 * 40001)

static float values[WORDS_MAX];
static uint64_t found[8];

static void fill(const Shape *shape) {
    for (int64_t i = 0; i < shape->E * shape->P; i++) {
        values[i] = (float)es_case_uniform(7, i, -1.0, 1.0);
    }
}

// SplitMix64's finaliser over (place + 1) times the golden ratio, each row by itself.
static uint64_t expected(const Shape *shape, int64_t e) {
    uint64_t sum = 0;
    for (int64_t j = 0; j < shape->P; j++) {
        uint32_t word;
        memcpy(&word, &values[e * shape->P + j], sizeof word);
        uint64_t x = ((uint64_t)j + 1) * 11400714819323198485u ^ word;
        x ^= x >> 30;
        x *= 13787848793156543929u;
        x ^= x >> 27;
        x *= 10723151780598845931u;
        sum += x ^ x >> 31;
    }
    return sum;
}

static void hash_on(const char *name, const Shape *shape) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    EsTensor slab = {0}, hash = {0};
    size_t bytes = sizeof(float) * (size_t)(shape->E * shape->P);
    REQUIRE_OK(es_device_open(name, &(EsDeviceOptions){.n_threads = 2}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(
        es_device_create_tensor(device, ES_DTYPE_F32, 2, (int64_t[]){shape->E, shape->P}, &slab));
    REQUIRE_OK(es_device_create_tensor(device, ES_DTYPE_I64, 1, &shape->E, &hash));
    REQUIRE_OK(es_stream_copy(stream, slab.data, values, bytes, ES_COPY_TO_DEVICE));
    es_kernels_of(device)->slab_hash(stream, &slab, &hash);
    REQUIRE_OK(es_stream_copy(stream, found, hash.data, sizeof(uint64_t) * (size_t)shape->E,
                              ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    REQUIRE_OK(es_device_status(device));
    es_device_destroy_tensor(&slab);
    es_device_destroy_tensor(&hash);
    es_stream_destroy(stream);
    es_device_close(device);
}

static void check(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(shapes); i++) {
        fill(&shapes[i]);
        hash_on(name, &shapes[i]);
        for (int64_t e = 0; e < shapes[i].E; e++) {
            EXPECT(found[e] == expected(&shapes[i], e));
        }
    }
}

TEST(reference) { check("cpu"); }

TEST(parity) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    check("cuda");
}

// Each bit of a word, another place, the sign of zero, and rows that change places.
TEST(one_bit_shows) {
    const Shape shape = {2, 40};
    fill(&shape);
    hash_on("cpu", &shape);
    uint64_t before = found[0], other = found[1];
    EXPECT(before != other);
    for (int bit = 0; bit < 32; bit++) {
        uint32_t word;
        fill(&shape);
        memcpy(&word, &values[17], sizeof word);
        word ^= 1u << bit;
        memcpy(&values[17], &word, sizeof word);
        hash_on("cpu", &shape);
        EXPECT(found[0] != before && found[1] == other);
    }
    fill(&shape);
    float swapped = values[3];
    values[3] = values[4];
    values[4] = swapped;
    hash_on("cpu", &shape);
    EXPECT(found[0] != before);
    memset(values, 0, sizeof values);
    hash_on("cpu", &shape);
    before = found[0];
    values[5] = -0.0f;
    hash_on("cpu", &shape);
    EXPECT(found[0] != before);
}
