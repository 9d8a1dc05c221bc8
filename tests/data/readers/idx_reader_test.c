#if ES_HAVE_ZLIB
#include <zlib.h>
#endif

#include "base/random_rules.h"
#include "data/dataset.h"
#include "temp_folder.h"

#define HEIGHT  5
#define WIDTH   3
#define N_TRAIN 25
#define N_TEST  7
#define PIXELS  (HEIGHT * WIDTH)

static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

typedef struct Bytes {
    uint8_t data[16 + N_TRAIN * PIXELS + 64];
    size_t count;
} Bytes;

static uint8_t pixel(int f, int image, int p) { return (uint8_t)(f * 90 + image * 11 + p * 5); }
static uint8_t label(int f, int image) { return (uint8_t)((f + image * 3) % 10); }

static void put_u32(Bytes *bytes, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        bytes->data[bytes->count++] = (uint8_t)(value >> shift);
    }
}

// File f as it should be: even numbers hold images, odd ones labels.
static Bytes valid_file(int f) {
    Bytes bytes = {.count = 0};
    int n = f < 2 ? N_TRAIN : N_TEST;
    int is_images = f % 2 == 0;
    put_u32(&bytes, is_images ? 0x00000803u : 0x00000801u);
    put_u32(&bytes, (uint32_t)n);
    if (is_images) {
        put_u32(&bytes, HEIGHT);
        put_u32(&bytes, WIDTH);
    }
    for (int i = 0; i < n; i++) {
        for (int p = 0; p < (is_images ? PIXELS : 1); p++) {
            bytes.data[bytes.count++] = is_images ? pixel(f, i, p) : label(f, i);
        }
    }
    return bytes;
}

static void write_valid_file(int f) {
    Bytes bytes = valid_file(f);
    write_temp_file(names[f], bytes.data, bytes.count);
}

static void write_valid_files(void) {
    for (int f = 0; f < 4; f++) {
        write_valid_file(f);
    }
}

static void expect_images(const EsSplit *split, int f, int first) {
    int n_wrong = 0;
    for (int i = 0; i < (int)split->count; i++) {
        n_wrong += split->labels[i] != label(f + 1, first + i);
        for (int p = 0; p < PIXELS; p++) {
            n_wrong += split->images[i * PIXELS + p] != pixel(f, first + i, p);
        }
    }
    EXPECT_EQ(n_wrong, 0);
}

static void expect_failure(void) {
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder()};
    int n_open = count_open_files();
    EsStatus status = es_dataset_load_idx(&dataset, &options);
    EXPECT(status == ES_STATUS_INPUT || status == ES_STATUS_IO);
    EXPECT(dataset.images == NULL && dataset.labels == NULL);
    EXPECT_EQ(count_open_files(), n_open);
}

// Replace file f, expect a failure that mentions the file and the part, and put the right file
// back.
static void expect_damage(int f, const Bytes *bytes, const char *part) {
    write_temp_file(names[f], bytes->data, bytes->count);
    expect_failure();
    EXPECT_CONTAINS(es_status_detail(), temp_folder());
    EXPECT_CONTAINS(es_status_detail(), names[f]);
    EXPECT_CONTAINS(es_status_detail(), part);
    write_valid_file(f);
}

TEST(reads_every_image_into_its_split) {
    write_valid_files();
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder()};
    REQUIRE_OK(es_dataset_load_idx(&dataset, &options));
    EXPECT_EQ(dataset.height, HEIGHT);
    EXPECT_EQ(dataset.width, WIDTH);
    EXPECT_EQ(dataset.n_channels, 1);
    EXPECT_EQ(dataset.n_classes, 10);
    EXPECT_EQ(dataset.train.count, 22); // a tenth of 25, rounded up, is for validation
    EXPECT_EQ(dataset.validation.count, 3);
    EXPECT_EQ(dataset.test.count, N_TEST);
    expect_images(&dataset.train, 0, 0);
    expect_images(&dataset.validation, 0, 22);
    expect_images(&dataset.test, 2, 0);
    es_dataset_destroy(&dataset);
}

TEST(asked_counts_take_train_from_the_front_and_validation_from_the_end) {
    write_valid_files();
    EsDataset dataset;
    EsDatasetOptions options = {
        .folder = temp_folder(), .n_train = 4, .n_validation = 6, .n_test = 2};
    REQUIRE_OK(es_dataset_load_idx(&dataset, &options));
    EXPECT_EQ(dataset.n_images, 12);
    expect_images(&dataset.train, 0, 0);
    expect_images(&dataset.validation, 0, N_TRAIN - 6);
    expect_images(&dataset.test, 2, 0);
    es_dataset_destroy(&dataset);
    options = (EsDatasetOptions){.folder = temp_folder(), .n_validation = N_TRAIN};
    EXPECT_STATUS(es_dataset_load_idx(&dataset, &options), INPUT);
    options = (EsDatasetOptions){.folder = temp_folder(), .n_train = -1};
    EXPECT_STATUS(es_dataset_load_idx(&dataset, &options), ARGUMENT);
}

TEST(dotted_names_are_found) {
    static const char *const dotted[4] = {"train-images.idx3-ubyte", "train-labels.idx1-ubyte",
                                          "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"};
    for (int f = 0; f < 4; f++) {
        Bytes bytes = valid_file(f);
        write_temp_file(dotted[f], bytes.data, bytes.count);
    }
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder()};
    REQUIRE_OK(es_dataset_load_idx(&dataset, &options));
    expect_images(&dataset.train, 0, 0);
    es_dataset_destroy(&dataset);
}

TEST(class_count_can_be_given) {
    write_valid_files();
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder(), .n_classes = 47};
    REQUIRE_OK(es_dataset_load_idx(&dataset, &options));
    EXPECT_EQ(dataset.n_classes, 47);
    es_dataset_destroy(&dataset);
    options.n_classes = 5;
    EXPECT_STATUS(es_dataset_load_idx(&dataset, &options), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "expected 0 to 4");
    options.n_classes = 257;
    EXPECT_STATUS(es_dataset_load_idx(&dataset, &options), ARGUMENT);
}

TEST(each_damage_has_its_message) {
    write_valid_files();
    Bytes bytes;
    bytes = valid_file(0), bytes.count -= 1;
    expect_damage(0, &bytes,
                  "announces 25 items, which is a file of 391 bytes, but it has 390: truncated");
    bytes = valid_file(0), bytes.count += 1;
    expect_damage(0, &bytes, "but it has 392: too long");
    bytes = valid_file(0), bytes.count = 10;
    expect_damage(0, &bytes, "ends at byte 10, expected 4 bytes from offset 8 on");
    bytes = valid_file(3), bytes.count = 0;
    expect_damage(3, &bytes, "empty, expected an IDX header of 8 bytes");
    bytes = valid_file(1), bytes.data[3] = 3;
    expect_damage(1, &bytes, "starts with 00 00 08 03, expected 00 00 08 01");
    bytes = valid_file(2), bytes.data[2] = 0x0d;
    expect_damage(2, &bytes, "starts with 00 00 0d 03, expected 00 00 08 03");
    bytes = valid_file(2), bytes.data[0] = 0x1f, bytes.data[1] = 0x8b;
    expect_damage(2, &bytes, "damaged or truncated gzip data");
    bytes = valid_file(0), bytes.data[15] = 0;
    expect_damage(0, &bytes, "dimension 3 (offset 12) is 0, expected 1 to 4096");
    bytes = valid_file(0), bytes.data[4] = 0xff;
    expect_damage(0, &bytes, "dimension 1 (offset 4) is 4278190105");
    bytes = valid_file(1), bytes.data[8 + 6] = 10;
    expect_damage(1, &bytes, "label 6 (offset 14) is 10, expected 0 to 9");
    bytes = valid_file(1), bytes.data[8 + 24] = 11;
    expect_damage(1, &bytes, "label 24 (offset 32) is 11");
    bytes = valid_file(3), bytes.data[8 + 2] = 99;
    expect_damage(3, &bytes, "label 2 (offset 10) is 99");
    bytes = valid_file(3), bytes.data[7] = N_TEST - 1, bytes.count -= 1;
    expect_damage(3, &bytes, "6 labels for the 7 images of");
    bytes = valid_file(2), bytes.data[11] = WIDTH, bytes.data[15] = HEIGHT;
    expect_damage(2, &bytes, "images of 3 x 5, expected 5 x 3");
}

// --- packed files ---

#if ES_HAVE_ZLIB

// The whole buffer as one gzip file at names[f].gz, in place of the plain one.
static void write_packed(int f, const uint8_t *data, size_t n_bytes) {
    char name[64], path[512];
    snprintf(name, sizeof name, "%s.gz", names[f]);
    snprintf(path, sizeof path, "%s", temp_path(name));
    gzFile packed = gzopen(path, "wb9");
    EXPECT_EQ(gzwrite(packed, data, (unsigned)n_bytes), (int)n_bytes);
    EXPECT_EQ(gzclose(packed), Z_OK);
    unlink(temp_path(names[f]));
}

TEST(packed_files_are_read) {
    write_valid_files();
    for (int f = 0; f < 4; f++) {
        Bytes bytes = valid_file(f);
        write_packed(f, bytes.data, bytes.count);
    }
    EsDataset dataset;
    EsDatasetOptions options = {.folder = temp_folder()};
    REQUIRE_OK(es_dataset_load_idx(&dataset, &options));
    expect_images(&dataset.train, 0, 0);
    expect_images(&dataset.validation, 0, 22);
    expect_images(&dataset.test, 2, 0);
    es_dataset_destroy(&dataset);
    for (int f = 0; f < 4; f++) {
        char name[64];
        snprintf(name, sizeof name, "%s.gz", names[f]);
        unlink(temp_path(name));
    }
}

// A file that unpacks to far more than its header says is read up to there and refused; a header
// that says more than the file can unpack to is not believed.
TEST(bombs_and_damage_in_packed_files_are_refused) {
    write_valid_files();
    static uint8_t large[1 << 20];
    Bytes bytes = valid_file(0);
    memcpy(large, bytes.data, bytes.count);
    write_packed(0, large, sizeof large);
    expect_failure();
    EXPECT_CONTAINS(es_status_detail(), "goes on behind the 391 bytes that its header announces");
    large[4] = 0x7f; // 2^31 images
    write_packed(0, large, 4096);
    expect_failure();
    EXPECT_CONTAINS(es_status_detail(), "cannot hold so much");
    write_packed(0, bytes.data, bytes.count - 1);
    expect_failure();
    EXPECT_CONTAINS(es_status_detail(), "ends at byte 390");
    write_packed(0, bytes.data, bytes.count);
    EXPECT_EQ(truncate(temp_path("train-images-idx3-ubyte.gz"), 100), 0);
    expect_failure();
    EXPECT_CONTAINS(es_status_detail(), "damaged or truncated gzip data");
    unlink(temp_path("train-images-idx3-ubyte.gz"));
}

#endif

TEST(missing_files_are_named) {
    write_valid_files();
    unlink(temp_path(names[2]));
    expect_failure();
    EXPECT_CONTAINS(es_status_detail(), "t10k-images-idx3-ubyte: cannot open: No such file");
}

// Random truncations, extensions and changed bytes: the reader either fails and keeps nothing, or
// gives valid labels.
TEST(random_damage_is_survived) {
    write_valid_files();
    int n_loaded = 0, n_failed = 0, n_open = count_open_files();
    for (uint32_t round = 0; round < 800; round++) {
        EsRandom4 r = es_random_draw(12, 0, ES_PURPOSE_EVALUATION, round, 0);
        EsRandom4 q = es_random_draw(12, 0, ES_PURPOSE_EVALUATION, round, 1);
        int f = (int)es_random_below(r.word[0], 4);
        Bytes bytes = valid_file(f);
        if (r.word[1] % 3 == 0) {
            bytes.count = es_random_below(r.word[2], (uint32_t)sizeof bytes.data);
        } else {
            // either in the header or anywhere
            uint32_t range = r.word[1] % 3 == 1 ? 16 : (uint32_t)bytes.count;
            for (uint32_t i = 0; i <= r.word[2] % 3; i++) {
                bytes.data[es_random_below(q.word[i], range)] = (uint8_t)(r.word[3] >> (8 * i));
            }
        }
        write_temp_file(names[f], bytes.data, bytes.count);
        EsDataset dataset;
        EsDatasetOptions options = {.folder = temp_folder()};
        EsStatus status = es_dataset_load_idx(&dataset, &options);
        if (status == ES_STATUS_OK) {
            for (int64_t i = 0; i < dataset.n_images; i++) {
                EXPECT(dataset.labels[i] < 10);
            }
            n_loaded++;
        } else {
            EXPECT_EQ(status, ES_STATUS_INPUT);
            EXPECT_CONTAINS(es_status_detail(), temp_folder());
            EXPECT(dataset.images == NULL);
            n_failed++;
        }
        es_dataset_destroy(&dataset);
        write_valid_file(f);
    }
    EXPECT(n_loaded > 40 && n_failed > 200);
    EXPECT_EQ(count_open_files(), n_open);
}
