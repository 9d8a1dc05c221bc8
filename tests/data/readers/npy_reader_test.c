// .npy arrays: types, shapes and labels that are read, and those that are refused.
#include "data/dataset.h"
#include "temp_folder.h"

// An array with this header; `version` 1, 2 or 3.
static void put_array(const char *name, int version, const char *type, const char *order,
                      const char *shape, const void *values, size_t n_bytes) {
    char header[256];
    int length =
        snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n", type,
                 order, shape);
    FILE *file = fopen(temp_path(name), "wb");
    const uint8_t begin[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)version, 0, (uint8_t)length,
                               0};
    fwrite(begin, 1, version == 1 ? 10 : 12, file);
    fwrite(header, 1, (size_t)length, file);
    fwrite(values, 1, n_bytes, file);
    fclose(file);
}

static const int64_t twelve[12] = {5, 7, 5, 7, 5, 7, 5, 7, 5, 7, 5, 7};

static void put_labels(void) {
    put_array("y.npy", 1, "'<i8'", "False", "(12,)", twelve, sizeof twelve);
}

static EsStatus open_set(EsDataset *dataset) {
    EsDatasetOptions options = {.seed = 1};
    return es_dataset_open(dataset, temp_path("X.npy"), &options, NULL);
}

static void expect_refused(const char *part) {
    EsDataset dataset;
    EXPECT_STATUS(open_set(&dataset), INPUT);
    EXPECT_CONTAINS(es_status_detail(), part);
    EXPECT_CONTAINS(es_status_detail(), ".npy");
    EXPECT(dataset.images == NULL && dataset.rows == NULL);
}

TEST(rows_of_every_type) {
    float f4[24];
    double f8[24];
    int16_t i2[24];
    for (int i = 0; i < 24; i++) { // column 0: the sample's number, negative; column 1: its square
        f8[i] = i % 2 == 0 ? -(i / 2) : (i / 2) * (i / 2);
        f4[i] = (float)f8[i];
        i2[i] = (int16_t)f8[i];
    }
    const struct {
        const char *type;
        const void *values;
        size_t bytes;
    } arrays[3] = {{"'<f4'", f4, sizeof f4}, {"'<f8'", f8, sizeof f8}, {"\"<i2\"", i2, sizeof i2}};
    put_labels();
    for (int k = 0; k < 3; k++) {
        EsDataset d;
        put_array("X.npy", k + 1, arrays[k].type, "False", "(12, 2)", arrays[k].values,
                  arrays[k].bytes);
        REQUIRE_OK(open_set(&d));
        EXPECT_EQ(d.kind, ES_DATASET_ROWS);
        EXPECT(d.n_channels == 2 && d.n_images == 12 && d.n_classes == 2);
        EXPECT_TEXT(d.class_names[0], "5");
        EXPECT_TEXT(d.class_names[1], "7");
        for (int i = 0; i < 12; i++) {
            double n = -(double)(d.rows[2 * i] * d.column_std[0] + d.column_mean[0]);
            EXPECT_NEAR(d.rows[2 * i + 1] * d.column_std[1] + d.column_mean[1], n * n, 1e-3);
            EXPECT_EQ(d.labels[i], (int)(n + 0.5) % 2);
        }
        es_dataset_destroy(&d);
    }
}

// Sample i, row y, column x, channel c.
static uint8_t pixel(int i, int y, int x, int c) { return (uint8_t)(20 * i + 5 * y + 3 * x + c); }

TEST(images_of_every_layout) {
    uint8_t grey[12 * 2 * 2], last[12 * 2 * 2 * 3], second[12 * 2 * 2 * 3];
    for (int k = 0; k < 12 * 4; k++) {
        int i = k / 4, y = k / 2 % 2, x = k % 2;
        grey[k] = pixel(i, y, x, 0);
        for (int c = 0; c < 3; c++) {
            last[k * 3 + c] = second[(i * 3 + c) * 4 + y * 2 + x] = pixel(i, y, x, c);
        }
    }
    const struct {
        const char *shape;
        const uint8_t *values;
        size_t bytes;
        int n_channels;
    } arrays[3] = {{"(12, 2, 2)", grey, sizeof grey, 1},
                   {"(12, 2, 2, 3)", last, sizeof last, 3},
                   {"(12, 3, 2, 2)", second, sizeof second, 3}};
    put_labels();
    for (int k = 0; k < 3; k++) {
        EsDataset d;
        put_array("X.npy", 1, "'|u1'", "False", arrays[k].shape, arrays[k].values, arrays[k].bytes);
        REQUIRE_OK(open_set(&d));
        EXPECT(d.n_channels == arrays[k].n_channels && d.height == 2 && d.width == 2);
        for (int n = 0; n < 12; n++) {
            const uint8_t *image = d.images + (size_t)n * d.image_bytes;
            int i = image[0] / 20;
            EXPECT_EQ(d.labels[n], i % 2);
            for (int p = 0; p < 4 * d.n_channels; p++) {
                EXPECT_EQ(image[p], pixel(i, p / 2 % 2, p % 2, p / 4));
            }
        }
        es_dataset_destroy(&d);
    }
}

TEST(real_pixels_are_scaled) {
    float values[12 * 4];
    for (int i = 0; i < 48; i++) {
        values[i] = (float)(i % 5) / 4.0f;
    }
    EsDataset d;
    put_labels();
    put_array("X.npy", 1, "'<f4'", "False", "(12, 2, 2)", values, sizeof values);
    REQUIRE_OK(open_set(&d));
    EXPECT(d.images[0] % 64 == 0 || d.images[0] % 64 == 63); // 0, 64, 128, 191, 255
    es_dataset_destroy(&d);
    values[7] = -0.5f;
    put_array("X.npy", 1, "'<f4'", "False", "(12, 2, 2)", values, sizeof values);
    expect_refused("pixel 7 is -0.5, expected values in 0..1 or 0..255");
}

TEST(images_that_are_not_square_are_fitted) {
    uint8_t values[12 * 6];
    EsDataset d;
    memset(values, 90, sizeof values);
    put_labels();
    put_array("X.npy", 1, "'|u1'", "False", "(12, 2, 3)", values, sizeof values);
    REQUIRE_OK(open_set(&d));
    EXPECT(d.height == 3 && d.width == 3 && d.is_fitted);
    EXPECT_EQ(d.images[0], 90);
    es_dataset_destroy(&d);
}

TEST(wrong_arrays_are_refused) {
    float values[24] = {0};
    size_t bytes = sizeof values;
    put_labels();
    put_array("X.npy", 1, "'<f4'", "True", "(12, 2)", values, bytes);
    expect_refused("Fortran order");
    put_array("X.npy", 1, "'>f4'", "False", "(12, 2)", values, bytes);
    expect_refused("big-endian");
    put_array("X.npy", 1, "'|O'", "False", "(12, 2)", values, bytes);
    expect_refused("Python objects");
    put_array("X.npy", 1, "[('a', '<f4')]", "False", "(12, 2)", values, bytes);
    expect_refused("arrays of records are not read");
    put_array("X.npy", 1, "'<U4'", "False", "(12, 2)", values, bytes);
    expect_refused("an array of type '<U4', expected");
    put_array("X.npy", 1, "'<f4'", "False", "(12, 3)", values, bytes);
    expect_refused("the header announces 36 values");
    put_array("X.npy", 1, "'<f4'", "False", "(12, 1)", values, bytes);
    expect_refused("too long");
    put_array("X.npy", 1, "'<f4'", "False", "(12, -2)", values, bytes);
    expect_refused("an axis that is empty, negative or no number");
    put_array("X.npy", 1, "'<f4'", "False", "(2147483647, 2147483647, 100)", values, bytes);
    expect_refused("more values than a file can hold");
    put_array("X.npy", 1, "'<f4'", "False", "(24,)", values, bytes);
    expect_refused("1 axes, expected rows");
    put_array("X.npy", 1, "'<f4'", "False", "(6, 2, 1, 2)", values, bytes);
    expect_refused("6"); // another number of samples than labels
    put_array("X.npy", 4, "'<f4'", "False", "(12, 2)", values, bytes);
    expect_refused("version 4");
    values[5] = 0.0f / 0.0f;
    put_array("X.npy", 1, "'<f4'", "False", "(12, 2)", values, bytes);
    expect_refused("row 2, column 1 is not a finite number");
    // a header that ends inside the type
    static const char cut[] = "\x93NUMPY\x01\x00\x35\x00"
                              "{'fortran_order': False, 'shape': (12, 2), 'descr': '";
    FILE *file = fopen(temp_path("X.npy"), "wb");
    fwrite(cut, 1, sizeof cut - 1, file);
    fclose(file);
    expect_refused("expected numbers");
    file = fopen(temp_path("X.npy"), "wb");
    fputs("PK........................", file);
    fclose(file);
    expect_refused("does not begin as a .npy file does");
}

TEST(labels_are_found_and_checked) {
    float values[24] = {0};
    EsDataset d;
    put_array("X.npy", 1, "'<f4'", "False", "(12, 2)", values, sizeof values);
    expect_refused("no labels; name their file with --labels");
    put_array("y.npy", 1, "'<i8'", "False", "(11,)", twelve, 88);
    expect_refused("11 labels for 12 samples");
    put_array("y.npy", 1, "'<f8'", "False", "(12,)", twelve, 96);
    expect_refused("labels must be whole numbers");
    put_array("y.npy", 1, "'<i8'", "False", "(6, 2)", twelve, 96);
    expect_refused("2 axes, expected one label per sample");
    put_array("other.npy", 1, "'<i8'", "False", "(12, 1)", twelve, 96);
    EsDatasetOptions options = {.labels = temp_path("other.npy")};
    REQUIRE_OK(es_dataset_open(&d, temp_path("X.npy"), &options, NULL));
    EXPECT_EQ(d.n_classes, 2);
    es_dataset_destroy(&d);
}
