// Opening by name and path: the split by a seed, and which reader a path gets.
#include "data/dataset.h"
#include "data/dataset_internal.h"
#include "temp_folder.h"

enum { N = 1000, CLASSES = 4 };

static const char *const names[CLASSES] = {"a", "b", "c", "d"};

// Sizes of the classes differ: 4, 3, 2, 1 tenths.
static void make_labels(uint16_t *labels) {
    static const uint8_t classes[10] = {0, 1, 0, 2, 0, 1, 2, 0, 1, 3};
    for (int i = 0; i < N; i++) {
        labels[i] = classes[i % 10];
    }
}

static void share(uint64_t seed, const uint8_t *own, int64_t **order, int64_t counts[3]) {
    uint16_t labels[N];
    make_labels(labels);
    EsDatasetOptions options = {.seed = seed};
    REQUIRE_OK(
        es_dataset_share_out(&options, "here", labels, own, N, CLASSES, names, order, counts));
}

TEST(every_sample_goes_to_one_place) {
    int64_t *order, counts[3];
    uint8_t is_seen[N] = {0};
    share(5, NULL, &order, counts);
    for (int i = 0; i < N; i++) {
        EXPECT(order[i] >= 0 && order[i] < N && !is_seen[order[i]]);
        is_seen[order[i]] = 1;
    }
    EXPECT_EQ(counts[0], 800);
    EXPECT_EQ(counts[1], 100);
    EXPECT_EQ(counts[2], 100);
    es_release(order);
}

TEST(each_split_has_every_class_in_proportion) {
    int64_t *order, counts[3], first = 0;
    uint16_t labels[N];
    make_labels(labels);
    share(5, NULL, &order, counts);
    for (int s = 0; s < 3; s++) {
        int64_t n[CLASSES] = {0}, n_in_first_tenth[CLASSES] = {0};
        for (int64_t i = 0; i < counts[s]; i++) {
            n[labels[order[first + i]]]++;
            n_in_first_tenth[labels[order[first + i]]] += i < counts[s] / 10;
        }
        for (int c = 0; c < CLASSES; c++) {
            EXPECT_EQ(n[c], counts[s] * (4 - c) / 10);
        }
        EXPECT(n_in_first_tenth[0] < counts[s] / 10); // mixed, not class by class
        first += counts[s];
    }
    es_release(order);
}

TEST(the_seed_alone_decides) {
    int64_t *a, *b, *c, counts[3];
    share(5, NULL, &a, counts);
    share(5, NULL, &b, counts);
    share(6, NULL, &c, counts);
    EXPECT(memcmp(a, b, N * sizeof *a) == 0);
    EXPECT(memcmp(a, c, N * sizeof *a) != 0);
    es_release(a);
    es_release(b);
    es_release(c);
}

TEST(own_splits_are_kept) {
    int64_t *order, counts[3];
    uint8_t own[N] = {0};
    for (int i = 0; i < 200; i++) {
        own[i] = 2;
    }
    share(5, own, &order, counts);
    EXPECT_EQ(counts[0], 720);
    EXPECT_EQ(counts[1], 80); // a tenth of the rest
    EXPECT_EQ(counts[2], 200);
    for (int i = 0; i < 200; i++) {
        EXPECT(order[800 + i] < 200);
    }
    es_release(order);
}

TEST(small_classes_are_everywhere_and_too_small_ones_are_refused) {
    EsDatasetOptions options = {0};
    const uint16_t six[6] = {0, 1, 0, 1, 0, 1}, four[4] = {0, 0, 1, 1};
    int64_t *order, counts[3];
    REQUIRE_OK(es_dataset_share_out(&options, "here", six, NULL, 6, 2, names, &order, counts));
    EXPECT_EQ(counts[0], 2);
    EXPECT_EQ(counts[1], 2);
    EXPECT_EQ(counts[2], 2);
    es_release(order);
    EXPECT_STATUS(es_dataset_share_out(&options, "here", four, NULL, 4, 2, names, &order, counts),
                  INPUT);
    EXPECT_CONTAINS(es_status_detail(), "here: 4 samples of 2 classes are too few to split");
    EXPECT(order == NULL);
    EXPECT_STATUS(es_dataset_share_out(&options, "here", six, NULL, 6, 3, names, &order, counts),
                  INPUT);
    EXPECT_CONTAINS(es_status_detail(), "class \"c\" has no samples for training");
    options.test_share = 0.95;
    EXPECT_STATUS(es_dataset_share_out(&options, "here", six, NULL, 6, 2, names, &order, counts),
                  ARGUMENT);
    options = (EsDatasetOptions){.n_train = 3};
    EXPECT_STATUS(es_dataset_share_out(&options, "here", six, NULL, 6, 2, names, &order, counts),
                  ARGUMENT);
}

TEST(more_than_256_classes) {
    enum { MANY = 1200 };
    static char block[MANY][8];
    const char *texts[MANY];
    for (int i = 0; i < MANY; i++) {
        snprintf(block[i], sizeof block[i], "%d", i % 300);
        texts[i] = block[i];
    }
    uint16_t *labels;
    const char *const *classes;
    int n_classes;
    REQUIRE_OK(es_dataset_number_labels("here", texts, MANY, &labels, &classes, &n_classes));
    EXPECT_EQ(n_classes, 300);
    EXPECT_TEXT(classes[299], "299");
    for (int i = 0; i < MANY; i++) {
        EXPECT_EQ(labels[i], i % 300);
    }
    es_release(labels);
    es_release((void *)(uintptr_t)classes);
}

TEST(paths_that_are_nothing_are_refused) {
    EsDataset dataset;
    EsDatasetOptions options = {0};
    EXPECT_STATUS(es_dataset_open(&dataset, "mnist", &options, NULL), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "no data set is called \"mnist\"");
    EXPECT_STATUS(es_dataset_open(&dataset, temp_path("none.csv"), &options, NULL), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "none.csv: No such file");
    fclose(fopen(temp_path("notes.txt"), "wb"));
    EXPECT_STATUS(es_dataset_open(&dataset, temp_path("notes.txt"), &options, NULL), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "the name does not say what it holds");
    EXPECT_STATUS(es_dataset_open(&dataset, temp_folder(), &options, NULL), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "0 folders of images, expected one for each");
    options.folder = temp_path("nowhere");
    EXPECT_STATUS(es_dataset_open(&dataset, "fashion-mnist", &options, NULL), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "apt-get install dataset-fashion-mnist");
    options = (EsDatasetOptions){.image_size = 100000};
    EXPECT_STATUS(es_dataset_open(&dataset, "tiny", &options, NULL), ARGUMENT);
}

TEST(images_of_a_named_set_are_fitted_on_demand) {
    EsDataset plain, fitted;
    EsDatasetOptions options = {.seed = 2, .n_train = 20, .n_validation = 10, .n_test = 10};
    REQUIRE_OK(es_dataset_open(&plain, "tiny", &options, NULL));
    options.image_size = 8;
    REQUIRE_OK(es_dataset_open(&fitted, "tiny", &options, NULL));
    EXPECT_EQ(fitted.height, 8);
    EXPECT_EQ(fitted.width, 8);
    EXPECT(fitted.is_fitted && !plain.is_fitted);
    EXPECT_EQ(fitted.sizes.median_side, 16);
    EXPECT(memcmp(plain.labels, fitted.labels, 40 * sizeof *plain.labels) == 0);
    EXPECT_NEAR(fitted.mean[0], plain.mean[0], 0.01);
    EXPECT_TEXT(fitted.class_names[0], "arrow");
    es_dataset_destroy(&plain);
    es_dataset_destroy(&fitted);
}

// Debian's package; where it is not installed there is nothing to read.
TEST(fashion_mnist_is_whole) {
    if (access("/usr/share/datasets/fashion-mnist", F_OK) != 0) {
        return;
    }
    EsDataset dataset;
    EsDatasetOptions options = {0};
    EsStatus status = es_dataset_open(&dataset, "fashion-mnist", &options, NULL);
    if (status == ES_STATUS_UNSUPPORTED) {
        return; // without zlib
    }
    REQUIRE_OK(status);
    EXPECT_EQ(dataset.train.count, 54000);
    EXPECT_EQ(dataset.test.count, 10000);
    EXPECT_TEXT(dataset.class_names[9], "ankle boot");
    EXPECT_NEAR(dataset.mean[0], 0.2860, 0.001); // as the set is known for
    EXPECT_NEAR(dataset.std[0], 0.3530, 0.001);
    es_dataset_destroy(&dataset);
}
