// The public header of data sets: images and rows are counted and measured, sheets are written, and
// mistakes are answered.
#include "esper/data.h"

#include <math.h>

#include "base/file.h"
#include "temp_folder.h"

static void write_text(const char *path, const char *text) {
    FILE *stream = fopen(path, "wb");
    REQUIRE_OK(stream != NULL ? ES_STATUS_OK : ES_STATUS_IO);
    fputs(text, stream);
    fclose(stream);
}

static void expect_counts(const EsDataInfo *info) {
    int64_t sum = 0;
    for (int s = 0; s < ES_N_DATA_SPLITS; s++) {
        int64_t n = 0;
        for (int k = 0; k < info->n_classes; k++) {
            n += info->n_of_class[k][s];
        }
        EXPECT_EQ(n, info->n_of_split[s]);
        sum += n;
    }
    EXPECT_EQ(sum, info->n_samples);
}

TEST(images_are_counted_and_measured) {
    EsData *data = NULL, *again = NULL;
    char hash[ES_DATA_HASH_BYTES], other[ES_DATA_HASH_BYTES];
    REQUIRE_OK(es_data_open("tiny", NULL, &data));
    const EsDataInfo *info = es_data_info(data);
    EXPECT(!info->is_rows && info->column_names == NULL && !info->is_fitted);
    EXPECT(info->n_channels == 1 && info->height == 16 && info->width == 16);
    EXPECT_EQ(info->n_of_split[ES_DATA_TRAIN], 8000);
    EXPECT_EQ(info->n_of_split[ES_DATA_TEST], 2000);
    expect_counts(info);
    EXPECT(info->class_names[info->n_classes - 1][0] != '\0');
    EXPECT(info->least[0] >= 0 && info->least[0] < info->most[0] && info->most[0] <= 255);
    EXPECT(info->mean[0] > info->least[0] / 255 && info->mean[0] < info->most[0] / 255);
    REQUIRE_OK(es_data_open("tiny", &(EsDataOptions){.seed = 5, .n_threads = 1}, &again));
    es_data_fingerprint(data, hash);
    es_data_fingerprint(again, other);
    EXPECT_EQ(strlen(hash), ES_DATA_HASH_BYTES - 1);
    EXPECT(strcmp(hash, other) != 0);
    es_data_close(again);
    es_data_close(data);
    es_data_close(NULL);
}

TEST(rows_have_columns_as_measured) {
    EsData *data = NULL;
    char text[2048] = "width,kind,height\n";
    for (int i = 0; i < 60; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%d,%s,7\n", i % 20 + 1, i % 2 ? "b" : "a");
    }
    write_text(temp_path("rows.csv"), text);
    REQUIRE_OK(es_data_open(temp_path("rows.csv"), &(EsDataOptions){.label = "kind"}, &data));
    const EsDataInfo *info = es_data_info(data);
    EXPECT(info->is_rows && info->n_channels == 2 && info->n_classes == 2);
    EXPECT_TEXT(info->column_names[1], "height");
    EXPECT_TEXT(info->class_names[0], "a");
    EXPECT_EQ(info->n_samples, 60);
    expect_counts(info);
    EXPECT_NEAR(info->least[0], 1, 2);
    EXPECT_NEAR(info->most[0], 20, 2);
    EXPECT_NEAR(info->mean[1], 7, 1e-6);
    EXPECT_STATUS(es_data_write_sheet(data, temp_path("rows.png")), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "rows");
    es_data_close(data);
}

TEST(a_sheet_has_a_row_for_each_class) {
    EsData *data = NULL, *sheets = NULL;
    REQUIRE_OK(es_data_open("tiny", NULL, &data));
#if ES_HAVE_PNG
    // two sheets make a set of two classes
    static const char *const paths[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        char folder[4000], path[4096];
        snprintf(folder, sizeof folder, "%s/%s", temp_path("set"), paths[i]);
        REQUIRE_OK(es_folder_make(temp_path("set")));
        REQUIRE_OK(es_folder_make(folder));
        for (int k = 0; k < 3; k++) {
            snprintf(path, sizeof path, "%s/%d.png", folder, k);
            REQUIRE_OK(es_data_write_sheet(data, path));
        }
    }
    REQUIRE_OK(es_data_open(temp_path("set"), NULL, &sheets));
    const EsDataInfo *info = es_data_info(sheets);
    EXPECT(info->n_classes == 2 && info->n_channels == 1 && info->is_fitted);
    EXPECT_EQ(info->largest[0], ES_DATA_SHEET_COLUMNS * 34 + 2); // 32 pixels and a gap of 2
    EXPECT_EQ(info->largest[1], es_data_info(data)->n_classes * 34 + 2);
#else
    EXPECT_STATUS(es_data_write_sheet(data, temp_path("sheet.png")), UNSUPPORTED);
#endif
    es_data_close(sheets);
    es_data_close(data);
}

// Ten samples of each of three classes, rows of two columns.
static EsDataArrays make_arrays(float rows[30][2], int32_t labels[30]) {
    static const char *const columns[] = {"width", "height"};
    for (int i = 0; i < 30; i++) {
        labels[i] = i / 10;
        rows[i][0] = (float)i;
        rows[i][1] = 5;
    }
    return (EsDataArrays){.name = "thirty",
                          .rows = &rows[0][0],
                          .labels = labels,
                          .n = 30,
                          .n_channels = 2,
                          .n_classes = 3,
                          .column_names = columns};
}

TEST(samples_in_memory_are_split_by_class) {
    float rows[30][2];
    int32_t labels[30];
    EsData *data = NULL, *again = NULL;
    char hash[ES_DATA_HASH_BYTES], other[ES_DATA_HASH_BYTES];
    EsDataArrays arrays = make_arrays(rows, labels);
    REQUIRE_OK(es_data_copy(&arrays, &(EsDataOptions){.test_share = 0.2}, &data));
    const EsDataInfo *info = es_data_info(data);
    EXPECT(info->is_rows && info->n_channels == 2 && info->n_samples == 30);
    expect_counts(info);
    for (int k = 0; k < 3; k++) {
        EXPECT_EQ(info->n_of_class[k][ES_DATA_TRAIN], 7);
        EXPECT_EQ(info->n_of_class[k][ES_DATA_VALIDATION], 1);
        EXPECT_EQ(info->n_of_class[k][ES_DATA_TEST], 2);
    }
    EXPECT_TEXT(info->name, "thirty");
    EXPECT_TEXT(info->class_names[2], "2");
    EXPECT_TEXT(info->column_names[1], "height");
    EXPECT_NEAR(info->mean[1], 5, 1e-6);
    es_data_fingerprint(data, hash);
    rows[3][0] = 100; // the set has its own copy
    es_data_fingerprint(data, other);
    EXPECT_TEXT(hash, other);
    rows[3][0] = 3;
    REQUIRE_OK(es_data_copy(&arrays, &(EsDataOptions){.test_share = 0.2, .seed = 9}, &again));
    es_data_fingerprint(again, other);
    EXPECT(strcmp(hash, other) != 0); // another split
    es_data_close(again);
    es_data_close(data);
}

TEST(samples_in_memory_are_checked) {
    float rows[30][2];
    int32_t labels[30];
    uint8_t pixels[30 * 4] = {0};
    EsData *data = NULL;
    EsDataArrays arrays = make_arrays(rows, labels);
    arrays.pixels = pixels;
    EXPECT_STATUS(es_data_copy(&arrays, NULL, &data), ARGUMENT); // rows or images
    arrays.pixels = NULL;
    labels[7] = 3;
    EXPECT_STATUS(es_data_copy(&arrays, NULL, &data), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "label 7 is 3");
    labels[7] = 0;
    rows[4][1] = NAN;
    EXPECT_STATUS(es_data_copy(&arrays, NULL, &data), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "row 4, column 1");
    rows[4][1] = 5;
    arrays.n_classes = 4; // nobody is of the fourth
    EXPECT_STATUS(es_data_copy(&arrays, NULL, &data), INPUT);
    arrays.n_classes = 1;
    EXPECT_STATUS(es_data_copy(&arrays, NULL, &data), ARGUMENT);
    arrays = make_arrays(rows, labels);
    arrays.n_channels = 0;
    EXPECT_STATUS(es_data_copy(&arrays, NULL, &data), ARGUMENT);
    arrays.n_channels = 1;
    arrays.rows = NULL;
    arrays.pixels = pixels;
    arrays.height = 2;
    EXPECT_STATUS(es_data_copy(&arrays, NULL, &data), ARGUMENT); // no width
    EXPECT_CONTAINS(es_status_detail(), "0 x 2");
    EXPECT(data == NULL);
}

TEST(answers_mistakes) {
    EsData *data = NULL;
    EXPECT_STATUS(es_data_open("tiny", &(EsDataOptions){.n_threads = -1}, &data), ARGUMENT);
    EXPECT_STATUS(es_data_open("tiny", &(EsDataOptions){.image_size = 1025}, &data), ARGUMENT);
    EXPECT(es_data_open(temp_path("nothing"), NULL, &data) != ES_STATUS_OK && data == NULL);
}
