#include "base/thread_pool.h"
#include "data/dataset.h"
#include "data/generated_images.h"
#include "es_test.h"

static uint64_t hash_bytes(const uint8_t *bytes, size_t n_bytes) {
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    for (size_t i = 0; i < n_bytes; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

// Labels are hashed as bytes.
static uint64_t hash_dataset(const EsDataset *dataset) {
    uint8_t labels[400];
    ES_ASSERT(dataset->n_images <= (int64_t)sizeof labels);
    for (int64_t i = 0; i < dataset->n_images; i++) {
        labels[i] = (uint8_t)dataset->labels[i];
    }
    return hash_bytes(dataset->images, (size_t)dataset->n_images * dataset->image_bytes) ^
           (hash_bytes(labels, (size_t)dataset->n_images) * 3);
}

static uint64_t hash_of_generated(EsGeneratedKind kind, uint64_t seed, int n_threads) {
    EsDatasetOptions options = {.seed = seed, .n_train = 200, .n_validation = 50, .n_test = 70};
    EsThreadPool *pool = NULL;
    EsDataset dataset;
    if (n_threads > 0) {
        REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
    }
    REQUIRE_OK(es_dataset_generate(&dataset, kind, &options, pool));
    uint64_t hash = hash_dataset(&dataset);
    es_dataset_destroy(&dataset);
    es_thread_pool_destroy(pool);
    return hash;
}

static void expect_hash(EsGeneratedKind kind, uint64_t expected) {
    uint64_t actual = hash_of_generated(kind, 1, 0);
    if (actual != expected) {
        ES_TEST_FAIL("kind %d: hash 0x%016llx, expected 0x%016llx", (int)kind,
                     (unsigned long long)actual, (unsigned long long)expected);
    }
}

// recorded with gcc 12 on x86-64; every machine must give these bits
TEST(images_have_the_recorded_bits) {
    expect_hash(ES_GENERATED_TINY, 0x5cc3451395625c34);
    expect_hash(ES_GENERATED_STANDARD, 0xf615d849be38620a);
}

TEST(threads_change_nothing) {
    for (int kind = 0; kind < 2; kind++) {
        uint64_t alone = hash_of_generated((EsGeneratedKind)kind, 5, 0);
        EXPECT(hash_of_generated((EsGeneratedKind)kind, 5, 1) == alone);
        EXPECT(hash_of_generated((EsGeneratedKind)kind, 5, 2) == alone);
        EXPECT(hash_of_generated((EsGeneratedKind)kind, 5, 3) == alone);
    }
}

TEST(seeds_differ) {
    for (int kind = 0; kind < 2; kind++) {
        uint64_t first = hash_of_generated((EsGeneratedKind)kind, 1, 0);
        EXPECT(hash_of_generated((EsGeneratedKind)kind, 2, 0) != first);
        EXPECT(hash_of_generated((EsGeneratedKind)kind, 1ull << 32 | 1, 0) != first);
    }
}

TEST(labels_are_balanced_in_every_ten) {
    for (uint32_t split = 0; split < 3; split++) {
        int n_sorted = 0;
        for (uint32_t block = 0; block < 100; block++) {
            unsigned seen = 0;
            int is_sorted = 1;
            for (uint32_t i = 0; i < 10; i++) {
                uint8_t label = es_generated_label(&es_recipe_tiny, 3, split, block * 10 + i);
                seen |= 1u << label;
                is_sorted &= label == i;
            }
            EXPECT_EQ(seen, 0x3ff);
            n_sorted += is_sorted;
        }
        EXPECT(n_sorted <= 1);
    }
}

TEST(defaults_have_the_designed_sizes) {
    static const int64_t counts[2][3] = {{8000, 2000, 2000}, {20000, 4000, 4000}};
    for (int kind = 0; kind < 2; kind++) {
        EsDataset dataset;
        EsDatasetOptions options = {0};
        REQUIRE_OK(es_dataset_open(&dataset, kind == 0 ? "tiny" : "generated", &options, NULL));
        EXPECT_EQ(dataset.train.count, counts[kind][0]);
        EXPECT_EQ(dataset.validation.count, counts[kind][1]);
        EXPECT_EQ(dataset.test.count, counts[kind][2]);
        EXPECT_EQ(dataset.height, kind == 0 ? 16 : 32);
        EXPECT_EQ(dataset.n_channels, kind == 0 ? 1 : 3);
        EXPECT_EQ(dataset.n_classes, 10);
        int64_t n_of_class[10] = {0};
        for (int64_t i = 0; i < dataset.train.count; i++) {
            n_of_class[dataset.train.labels[i]]++;
        }
        for (int c = 0; c < 10; c++) {
            EXPECT_EQ(n_of_class[c], counts[kind][0] / 10);
        }
        es_dataset_destroy(&dataset);
    }
}

static int compare_hashes(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Splits are numbered apart, so no image can be in two of them; two equal hashes would be two equal
// images.
TEST(no_image_appears_twice) {
    for (int kind = 0; kind < 2; kind++) {
        EsDataset dataset;
        EsDatasetOptions options = {
            .seed = 9, .n_train = 1000, .n_validation = 1000, .n_test = 1000};
        static uint64_t hashes[3000];
        REQUIRE_OK(es_dataset_generate(&dataset, (EsGeneratedKind)kind, &options, NULL));
        for (size_t i = 0; i < 3000; i++) {
            hashes[i] = hash_bytes(dataset.images + i * dataset.image_bytes, dataset.image_bytes);
        }
        qsort(hashes, 3000, sizeof hashes[0], compare_hashes);
        int n_equal = 0;
        for (int i = 1; i < 3000; i++) {
            n_equal += hashes[i] == hashes[i - 1];
        }
        EXPECT_EQ(n_equal, 0);
        es_dataset_destroy(&dataset);
    }
}

TEST(smaller_set_is_the_beginning_of_a_larger_one) {
    EsDataset small, large;
    EsDatasetOptions few = {.seed = 4, .n_train = 77, .n_validation = 33, .n_test = 5};
    EsDatasetOptions many = {.seed = 4, .n_train = 150, .n_validation = 60, .n_test = 9};
    REQUIRE_OK(es_dataset_generate(&small, ES_GENERATED_STANDARD, &few, NULL));
    REQUIRE_OK(es_dataset_generate(&large, ES_GENERATED_STANDARD, &many, NULL));
    EXPECT(memcmp(small.train.images, large.train.images, 77 * small.image_bytes) == 0);
    EXPECT(memcmp(small.validation.images, large.validation.images, 33 * small.image_bytes) == 0);
    EXPECT(memcmp(small.test.labels, large.test.labels, 5 * sizeof *small.labels) == 0);
    es_dataset_destroy(&small);
    es_dataset_destroy(&large);
}

// Images of one class must differ from image to image, and the class must show: drawn twice with
// the same numbers but another label, an image changes.
TEST(class_is_in_the_picture) {
    const EsImageRecipe *recipes[2] = {&es_recipe_tiny, &es_recipe_generated};
    static uint8_t first[3 * 32 * 32], second[3 * 32 * 32];
    for (int r = 0; r < 2; r++) {
        size_t n_bytes =
            (size_t)recipes[r]->n_channels * (size_t)recipes[r]->size * (size_t)recipes[r]->size;
        for (int label = 0; label < 10; label++) {
            es_generated_image_draw(recipes[r], 1, 0, 0, label, first);
            es_generated_image_draw(recipes[r], 1, 0, 0, (label + 1) % 10, second);
            EXPECT(memcmp(first, second, n_bytes) != 0);
            es_generated_image_draw(recipes[r], 1, 0, 1, label, second);
            EXPECT(memcmp(first, second, n_bytes) != 0);
        }
    }
}

static int point_is_inside(float x, float y) { return x >= -1 && x <= 1 && y >= -1 && y <= 1; }

TEST(drawings_fit_their_grid) {
    for (int label = 0; label < ES_PICTOGRAM_CLASSES; label++) {
        for (int variant = 0; variant < ES_PICTOGRAM_VARIANTS; variant++) {
            EsPictogram p = es_pictogram_parse(label, variant);
            float low = 1, high = -1;
            EXPECT(p.n_segments >= 3 && p.n_segments <= ES_PICTOGRAM_MAX_SEGMENTS);
            for (int i = 0; i < p.n_segments; i++) {
                EsSegment s = p.segments[i];
                EXPECT(point_is_inside(s.x0, s.y0) && point_is_inside(s.x1, s.y1));
                EXPECT(s.x0 != s.x1 || s.y0 != s.y1);
                low = fminf(low, fminf(s.y0, s.y1));
                high = fmaxf(high, fmaxf(s.y0, s.y1));
            }
            EXPECT(high - low >= 1.0f); // no drawing is a speck
        }
    }
}

TEST(arrow_parses_as_drawn) {
    EsPictogram arrow = es_pictogram_parse(0, 0); // "0484 518457"
    EXPECT_EQ(arrow.n_segments, 3);
    EXPECT(arrow.segments[0].x0 == -1.0f && arrow.segments[0].y0 == 0.0f);
    EXPECT(arrow.segments[0].x1 == 1.0f && arrow.segments[0].y1 == 0.0f);
    EXPECT(arrow.segments[1].x0 == 0.25f && arrow.segments[1].y0 == -0.75f);
    EXPECT(arrow.segments[2].x1 == 0.25f && arrow.segments[2].y1 == 0.75f);
}

static int segments_are_equal(EsSegment a, EsSegment b) {
    return (a.x0 == b.x0 && a.y0 == b.y0 && a.x1 == b.x1 && a.y1 == b.y1) ||
           (a.x0 == b.x1 && a.y0 == b.y1 && a.x1 == b.x0 && a.y1 == b.y0);
}

static int pictograms_are_equal(const EsPictogram *a, const EsPictogram *b) {
    int n_found = 0;
    for (int i = 0; i < a->n_segments; i++) {
        for (int j = 0; j < b->n_segments; j++) {
            n_found += segments_are_equal(a->segments[i], b->segments[j]);
        }
    }
    return a->n_segments == b->n_segments && n_found == a->n_segments;
}

TEST(no_drawing_is_another_or_its_mirror_image) {
    for (int a = 0; a < 40; a++) {
        for (int b = a + 1; b < 40; b++) {
            EsPictogram first = es_pictogram_parse(a / 4, a % 4),
                        second = es_pictogram_parse(b / 4, b % 4);
            EsPictogram mirror = second;
            for (int i = 0; i < mirror.n_segments; i++) {
                mirror.segments[i].x0 = -mirror.segments[i].x0;
                mirror.segments[i].x1 = -mirror.segments[i].x1;
            }
            EXPECT(!pictograms_are_equal(&first, &second));
            EXPECT(!pictograms_are_equal(&first, &mirror));
        }
    }
}
