#include "base/random_rules.h"
#include "data/dataset.h"
#include "temp_folder.h"

#define RECORD  3073
#define N_SHORT 4 // records per training file
#define N_TEST  3

static const char *const names[6] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                     "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

// Byte b of record r of file f, known to writer and checker alike.
static uint8_t content(int f, int r, int b) {
    return (uint8_t)(b == 0 ? (f * 3 + r) % 10 : f * 50 + r * 7 + b * 13);
}

static size_t fill_file(int f, uint8_t *bytes) {
    int n_records = f == 5 ? N_TEST : N_SHORT;
    for (int r = 0; r < n_records; r++) {
        for (int b = 0; b < RECORD; b++) {
            bytes[r * RECORD + b] = content(f, r, b);
        }
    }
    return (size_t)n_records * RECORD;
}

static void write_valid_file(int f) {
    static uint8_t bytes[N_SHORT * RECORD];
    write_temp_file(names[f], bytes, fill_file(f, bytes));
}

static void write_valid_files(void) {
    for (int f = 0; f < 6; f++) {
        write_valid_file(f);
    }
}

static void expect_image(const EsSplit *split, int place, int f, int r) {
    EXPECT_EQ(split->labels[place], content(f, r, 0));
    int n_wrong = 0;
    for (int b = 1; b < RECORD; b++) {
        n_wrong += split->images[place * 3072 + b - 1] != content(f, r, b);
    }
    EXPECT_EQ(n_wrong, 0);
}

// Loads, expects the failure, and that nothing is left behind; the message is for EXPECT_CONTAINS.
static void expect_failure(int allows_short_files) {
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder(), .allows_short_files = allows_short_files};
    int n_open = count_open_files();
    EsStatus status = es_dataset_load_cifar10(&dataset, &options);
    EXPECT(status == ES_STATUS_INPUT || status == ES_STATUS_IO);
    EXPECT(dataset.images == NULL && dataset.labels == NULL);
    EXPECT_EQ(count_open_files(), n_open);
}

TEST(reads_every_record_into_its_split) {
    write_valid_files();
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder(), .allows_short_files = 1};
    REQUIRE_OK(es_dataset_open(&dataset, "cifar10", &options, NULL));
    // 20 training records: the last tenth, two, is for validation
    EXPECT_EQ(dataset.train.count, 18);
    EXPECT_EQ(dataset.validation.count, 2);
    EXPECT_EQ(dataset.test.count, N_TEST);
    for (int i = 0; i < 18; i++) {
        expect_image(&dataset.train, i, i / N_SHORT, i % N_SHORT);
    }
    expect_image(&dataset.validation, 0, 4, 2);
    expect_image(&dataset.validation, 1, 4, 3);
    for (int i = 0; i < N_TEST; i++) {
        expect_image(&dataset.test, i, 5, i);
    }
    EXPECT_TEXT(dataset.class_names[9], "truck");
    es_dataset_destroy(&dataset);
}

TEST(asked_counts_take_train_from_the_front_and_validation_from_the_end) {
    write_valid_files();
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder(),
                                .allows_short_files = 1,
                                .n_train = 6,
                                .n_validation = 9,
                                .n_test = 1};
    REQUIRE_OK(es_dataset_load_cifar10(&dataset, &options));
    for (int i = 0; i < 6; i++) {
        expect_image(&dataset.train, i, i / N_SHORT, i % N_SHORT);
    }
    for (int i = 0; i < 9; i++) {
        expect_image(&dataset.validation, i, (11 + i) / N_SHORT, (11 + i) % N_SHORT);
    }
    EXPECT_EQ(dataset.test.count, 1);
    es_dataset_destroy(&dataset);

    options.n_train = 12; // 12 + 9 > 20
    EXPECT_STATUS(es_dataset_load_cifar10(&dataset, &options), INPUT);
    EXPECT_CONTAINS(es_status_detail(),
                    "20 training images are there, too few for 12 train and 9 validation");
    options = (EsDatasetOptions){.folder = temp_folder(), .allows_short_files = 1, .n_test = 4};
    EXPECT_STATUS(es_dataset_load_cifar10(&dataset, &options), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "3 test images are there, fewer than the 4 asked for");
}

// Six names for one file of full size: 30 MB on disk are enough.
static void write_full_files(const uint8_t *bytes, size_t n_bytes) {
    const char *first = write_temp_file(names[0], bytes, n_bytes);
    for (int f = 1; f < 6; f++) {
        EXPECT_EQ(link(first, temp_path(names[f])), 0);
    }
}

TEST(full_files_give_45000_5000_10000) {
    size_t n_bytes = (size_t)10000 * RECORD;
    uint8_t *bytes = calloc(1, n_bytes + RECORD);
    bytes[0] = 3;
    bytes[5000 * RECORD] = 4;
    write_full_files(bytes, n_bytes);
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder()};
    REQUIRE_OK(es_dataset_load_cifar10(&dataset, &options));
    EXPECT_EQ(dataset.train.count, 45000);
    EXPECT_EQ(dataset.validation.count, 5000);
    EXPECT_EQ(dataset.test.count, 10000);
    EXPECT_EQ(dataset.train.labels[35000], 4);
    EXPECT_EQ(dataset.train.labels[40000], 3);
    EXPECT_EQ(dataset.validation.labels[0], 4);
    EXPECT_EQ(dataset.test.labels[0], 3);
    EXPECT(dataset.std[0] == 1.0f); // all pixels black
    es_dataset_destroy(&dataset);

    // one record more than a file can have
    unlink(temp_path(names[1]));
    write_temp_file(names[1], bytes, n_bytes + RECORD);
    expect_failure(1);
    EXPECT_CONTAINS(es_status_detail(), "data_batch_2.bin: 10001 records in 30733073 bytes, "
                                        "expected 10000 records");
    free(bytes);
}

TEST(archive_sub_folder_is_found) {
    const char *inner = temp_path("cifar-10-batches-bin");
    write_valid_files();
    REQUIRE_OK(es_folder_make(inner));
    for (int f = 0; f < 6; f++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", inner, names[f]);
        EXPECT_EQ(rename(temp_path(names[f]), path), 0);
    }
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder(), .allows_short_files = 1};
    REQUIRE_OK(es_dataset_load_cifar10(&dataset, &options));
    EXPECT_EQ(dataset.train.count, 18);
    es_dataset_destroy(&dataset);
}

TEST(short_files_need_permission) {
    write_valid_files();
    expect_failure(0);
    EXPECT_CONTAINS(es_status_detail(),
                    "data_batch_1.bin: 4 records in 12292 bytes, expected 10000 records");
}

TEST(each_damage_has_its_message) {
    write_valid_files();
    static uint8_t bytes[N_SHORT * RECORD + 10];
    size_t n_bytes = fill_file(2, bytes);

    write_temp_file(names[2], bytes, n_bytes - 1);
    expect_failure(1);
    EXPECT_CONTAINS(es_status_detail(), temp_folder());
    EXPECT_CONTAINS(
        es_status_detail(),
        "data_batch_3.bin: 12291 bytes are 3 records of 3073 bytes and 3072 bytes more");
    EXPECT_CONTAINS(es_status_detail(), "offset 9219");

    write_temp_file(names[2], bytes, n_bytes + 10);
    expect_failure(1);
    EXPECT_CONTAINS(es_status_detail(), "4 records of 3073 bytes and 10 bytes more");

    bytes[2 * RECORD] = 10;
    write_temp_file(names[2], bytes, n_bytes);
    expect_failure(1);
    EXPECT_CONTAINS(es_status_detail(),
                    "data_batch_3.bin: record 2 (offset 6146) has label 10, expected 0 to 9");

    write_temp_file(names[2], bytes, 0);
    expect_failure(1);
    EXPECT_CONTAINS(es_status_detail(), "data_batch_3.bin: empty");

    unlink(temp_path(names[2]));
    expect_failure(1);
    EXPECT_CONTAINS(es_status_detail(), "data_batch_3.bin: cannot open: No such file");

    write_temp_file("data_batch_3.bin.gz", bytes, 100);
    expect_failure(1);
    EXPECT_CONTAINS(es_status_detail(), "gunzip");
}

// A label in the validation part and one in the test file are checked too.
TEST(labels_are_checked_in_every_split) {
    static const int files[2] = {4, 5};
    for (int i = 0; i < 2; i++) {
        write_valid_files();
        static uint8_t bytes[N_SHORT * RECORD];
        size_t n_bytes = fill_file(files[i], bytes);
        bytes[n_bytes - RECORD] = 255;
        write_temp_file(names[files[i]], bytes, n_bytes);
        expect_failure(1);
        EXPECT_CONTAINS(es_status_detail(), names[files[i]]);
        EXPECT_CONTAINS(es_status_detail(),
                        i == 0 ? "record 3 (offset 9219)" : "record 2 (offset 6146)");
        EXPECT_CONTAINS(es_status_detail(), "label 255");
    }
}

TEST(a_folder_in_place_of_a_file_is_refused) {
    write_valid_files();
    const char *path = temp_path(names[0]);
    EXPECT(unlink(path) == 0 && mkdir(path, 0700) == 0);
    expect_failure(1);
    EXPECT_CONTAINS(es_status_detail(), "data_batch_1.bin");
}

TEST(too_long_a_path_is_refused) {
    static char path[5000];
    memset(path, 'a', sizeof path - 1);
    EsDataset dataset;
    EsDatasetOptions options = {.folder = path};
    EXPECT_STATUS(es_dataset_load_cifar10(&dataset, &options), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "longer than");
}

// Random truncations, extensions and changed bytes: the reader either fails and keeps nothing, or
// gives valid labels.
TEST(random_damage_is_survived) {
    write_valid_files();
    int n_loaded = 0, n_failed = 0, n_open = count_open_files();
    static uint8_t bytes[(N_SHORT + 1) * RECORD];
    for (uint32_t round = 0; round < 300; round++) {
        EsRandom4 r = es_random_draw(11, 0, ES_PURPOSE_EVALUATION, round, 0);
        EsRandom4 q = es_random_draw(11, 0, ES_PURPOSE_EVALUATION, round, 1);
        int f = (int)es_random_below(r.word[0], 6);
        size_t n_bytes = fill_file(f, bytes);
        if (r.word[1] % 3 == 0) {
            n_bytes = es_random_below(r.word[2], (uint32_t)sizeof bytes);
        } else if (r.word[1] % 3 == 1) {
            n_bytes = (size_t)RECORD * es_random_below(r.word[2], N_SHORT + 2);
        } else {
            for (int i = 0; i < 4; i++) {
                bytes[es_random_below(q.word[i], (uint32_t)n_bytes)] = (uint8_t)r.word[3];
            }
            bytes[RECORD * es_random_below(r.word[2], N_TEST)] = (uint8_t)(r.word[3] >> 28);
        }
        write_temp_file(names[f], bytes, n_bytes);
        EsDataset dataset;
        EsDatasetOptions options = {.folder = temp_folder(), .allows_short_files = 1};
        EsStatus status = es_dataset_load_cifar10(&dataset, &options);
        if (status == ES_STATUS_OK) {
            for (int64_t i = 0; i < dataset.n_images; i++) {
                EXPECT(dataset.labels[i] < 10);
            }
            n_loaded++;
        } else {
            EXPECT_EQ(status, ES_STATUS_INPUT);
            EXPECT_CONTAINS(es_status_detail(), names[f]);
            EXPECT(dataset.images == NULL);
            n_failed++;
        }
        es_dataset_destroy(&dataset);
        write_valid_file(f);
    }
    EXPECT(n_loaded > 20 && n_failed > 100);
    EXPECT_EQ(count_open_files(), n_open);
}
