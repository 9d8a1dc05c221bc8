// The public header of data sets: images and rows are counted and measured, sheets are written, and
// mistakes are answered.
#include "esper/data.h"

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

TEST(answers_mistakes) {
    EsData *data = NULL;
    EXPECT_STATUS(es_data_open("tiny", &(EsDataOptions){.n_threads = -1}, &data), ARGUMENT);
    EXPECT_STATUS(es_data_open("tiny", &(EsDataOptions){.image_size = 1025}, &data), ARGUMENT);
    EXPECT(es_data_open(temp_path("nothing"), NULL, &data) != ES_STATUS_OK && data == NULL);
}
