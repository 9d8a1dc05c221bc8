#include "data/dataset.h"
#include "data/dataset_internal.h"
#include "es_test.h"

TEST(unknown_name_is_refused) {
    EsDataset dataset;
    EsDatasetOptions options = {0};
    EXPECT_STATUS(es_dataset_open(&dataset, "cifar", &options, NULL), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "\"cifar\"");
    EXPECT_CONTAINS(es_status_detail(), "tiny, generated, cifar10, idx");
    EXPECT(dataset.images == NULL);
    es_dataset_destroy(&dataset);
    es_dataset_destroy(NULL);
}

TEST(counts_out_of_range_are_refused) {
    EsDataset dataset;
    EsDatasetOptions negative = {.n_validation = -1};
    EsDatasetOptions huge = {.n_train = (int64_t)1 << 40};
    EXPECT_STATUS(es_dataset_open(&dataset, "tiny", &negative, NULL), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "-1");
    EXPECT_STATUS(es_dataset_open(&dataset, "tiny", &huge, NULL), ARGUMENT);
    EXPECT(dataset.images == NULL);
}

TEST(file_sets_need_a_folder) {
    EsDataset dataset;
    EsDatasetOptions options = {0};
    EXPECT_STATUS(es_dataset_open(&dataset, "cifar10", &options, NULL), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "folder");
    EXPECT_STATUS(es_dataset_open(&dataset, "idx", &options, NULL), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "folder");
}

TEST(splits_lie_one_after_another) {
    EsDataset dataset;
    EsDatasetOptions options = {.n_train = 30, .n_validation = 20, .n_test = 10};
    REQUIRE_OK(es_dataset_open(&dataset, "generated", &options, NULL));
    EXPECT_EQ(dataset.n_images, 60);
    EXPECT_EQ(dataset.image_bytes, 3 * 32 * 32);
    EXPECT(dataset.train.images == dataset.images);
    EXPECT(dataset.validation.images == dataset.images + 30 * 3072);
    EXPECT(dataset.test.images == dataset.images + 50 * 3072);
    EXPECT(dataset.validation.labels == dataset.labels + 30);
    EXPECT(dataset.test.labels == dataset.labels + 50);
    es_dataset_destroy(&dataset);
    EXPECT(dataset.images == NULL && dataset.train.images == NULL);
}

TEST(fingerprint_sees_every_byte) {
    EsDataset dataset;
    EsDatasetOptions options = {.n_train = 30, .n_validation = 20, .n_test = 10};
    char first[ES_SHA256_TEXT_BYTES], again[ES_SHA256_TEXT_BYTES], other[ES_SHA256_TEXT_BYTES];
    REQUIRE_OK(es_dataset_open(&dataset, "tiny", &options, NULL));
    es_dataset_fingerprint(&dataset, first);
    es_dataset_fingerprint(&dataset, again);
    EXPECT_TEXT(again, first);
    EXPECT_EQ(strlen(first), 64);
    dataset.test.images[10 * dataset.image_bytes - 1] ^= 1;
    es_dataset_fingerprint(&dataset, other);
    EXPECT(strcmp(other, first) != 0);
    dataset.test.images[10 * dataset.image_bytes - 1] ^= 1;
    dataset.labels[0] ^= 1;
    es_dataset_fingerprint(&dataset, other);
    EXPECT(strcmp(other, first) != 0);
    es_dataset_destroy(&dataset);
}

// two passes in double over the train images alone
TEST(normalisation_makes_mean_zero_and_variance_one) {
    EsDataset dataset;
    EsDatasetOptions options = {.seed = 3, .n_train = 300, .n_validation = 40, .n_test = 1};
    REQUIRE_OK(es_dataset_open(&dataset, "generated", &options, NULL));
    for (int c = 0; c < 3; c++) {
        double sum = 0, sum_of_squares = 0;
        for (size_t i = 0; i < 300; i++) {
            for (size_t p = 0; p < 1024; p++) {
                double pixel = dataset.train.images[i * 3072 + (size_t)c * 1024 + p] / 255.0;
                double z = (pixel - (double)dataset.mean[c]) / (double)dataset.std[c];
                sum += z;
                sum_of_squares += z * z;
            }
        }
        EXPECT_NEAR(sum / (300 * 1024), 0, 1e-6);
        EXPECT_NEAR(sum_of_squares / (300 * 1024), 1, 1e-6);
    }
    es_dataset_destroy(&dataset);
}

TEST(description_names_what_matters) {
    EsDataset dataset;
    EsDatasetOptions options = {.n_train = 100, .n_validation = 20, .n_test = 10};
    REQUIRE_OK(es_dataset_open(&dataset, "tiny", &options, NULL));
    char text[512];
    es_dataset_describe(&dataset, text, sizeof text);
    EXPECT_CONTAINS(text, "tiny: images of 16 x 16 x 1");
    EXPECT_CONTAINS(text, "100 train, 20 validation, 10 test");
    EXPECT_CONTAINS(text, "10 classes: arrow, boat");
    EXPECT_CONTAINS(text, "mean 0.");
    size_t length = strlen(text);
    // every shorter buffer is filled, terminated and not overrun
    for (size_t n = 1; n <= length; n++) {
        char cut[512];
        memset(cut, '#', sizeof cut);
        es_dataset_describe(&dataset, cut, n);
        EXPECT_EQ(strlen(cut), n - 1);
        EXPECT(memcmp(cut, text, n - 1) == 0);
        EXPECT_EQ(cut[n], '#');
    }
    es_dataset_destroy(&dataset);
}

// Rows, and labels of more than 256 classes: each number counts.
TEST(fingerprint_of_rows_and_of_many_classes) {
    const int64_t counts[3] = {4, 2, 2};
    char before[ES_SHA256_TEXT_BYTES], after[ES_SHA256_TEXT_BYTES];
    EsDataset dataset;
    REQUIRE_OK(es_dataset_allocate_rows(&dataset, "rows", 3, 300, counts));
    EXPECT(dataset.images == NULL && dataset.train.images == NULL);
    EXPECT_EQ(es_split_first(&dataset, &dataset.test), 6);
    es_dataset_fingerprint(&dataset, before);
    dataset.labels[7] = 256; // its low byte is that of label 0
    es_dataset_fingerprint(&dataset, after);
    EXPECT(strcmp(before, after) != 0);
    dataset.labels[7] = 0;
    dataset.rows[23] = 1.0f;
    es_dataset_fingerprint(&dataset, after);
    EXPECT(strcmp(before, after) != 0);
    dataset.rows[23] = 0.0f;
    dataset.column_mean[2] = 1.0f;
    es_dataset_fingerprint(&dataset, after);
    EXPECT(strcmp(before, after) != 0);
    es_dataset_destroy(&dataset);
}
