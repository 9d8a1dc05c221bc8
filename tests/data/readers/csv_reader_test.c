// Tables of numbers: every cell and label arrives, and each kind of damage is named with its place.
#include <math.h>

#include "data/dataset.h"
#include "temp_folder.h"

static void write_text(const char *name, const char *text) {
    FILE *file = fopen(temp_path(name), "wb");
    fwrite(text, 1, strlen(text), file);
    fclose(file);
}

static EsStatus open_text(const char *text, const char *label, EsDataset *dataset) {
    write_text("table.csv", text);
    EsDatasetOptions options = {.seed = 3, .label = label};
    return es_dataset_open(dataset, temp_path("table.csv"), &options, NULL);
}

// A folder of tables, each nullable.
static EsStatus open_tables(const char *train, const char *validation, const char *test,
                            const char *label, EsDataset *dataset) {
    const char *const names[] = {"tables/train.csv", "tables/validation.csv", "tables/test.csv"};
    const char *const texts[] = {train, validation, test};
    EXPECT_STATUS(es_folder_make(temp_path("tables")), OK);
    for (int split = 0; split < 3; split++) {
        remove(temp_path(names[split]));
        if (texts[split] != NULL) {
            write_text(names[split], texts[split]);
        }
    }
    EsDatasetOptions options = {.seed = 3, .label = label};
    return es_dataset_open(dataset, temp_path("tables"), &options, NULL);
}

static void expect_tables_refused(const char *train, const char *test, const char *part) {
    EsDataset dataset;
    EXPECT_STATUS(open_tables(train, NULL, test, NULL, &dataset), INPUT);
    EXPECT_CONTAINS(es_status_detail(), part);
    EXPECT(dataset.rows == NULL && dataset.labels == NULL);
}

static void expect_refused(const char *text, const char *label, const char *part) {
    EsDataset dataset;
    EXPECT_STATUS(open_text(text, label, &dataset), INPUT);
    EXPECT_CONTAINS(es_status_detail(), part);
    EXPECT_CONTAINS(es_status_detail(), "table.csv");
    EXPECT(dataset.rows == NULL && dataset.labels == NULL);
}

// Cell (row with this value in column 0, column) as it stood in the file.
static double cell(const EsDataset *d, double key, int column) {
    for (int64_t i = 0; i < d->n_images; i++) {
        const float *row = d->rows + i * d->n_channels;
        double first = (double)row[0] * (double)d->column_std[0] + (double)d->column_mean[0];
        if (fabs(first - key) < 1e-4) {
            return (double)row[column] * (double)d->column_std[column] +
                   (double)d->column_mean[column];
        }
    }
    return NAN;
}

static const char three_each[] = "id,size,\"the, kind\"\n"
                                 "1,10,b\n2,20,a\n3,30,b\n"
                                 "4,40,a\n5,50,b\n6,6e1,a\n";

TEST(cells_and_labels_arrive) {
    EsDataset d;
    REQUIRE_OK(open_text(three_each, NULL, &d));
    EXPECT_EQ(d.kind, ES_DATASET_ROWS);
    EXPECT_EQ(d.n_channels, 2);
    EXPECT_EQ(d.height * d.width, 1);
    EXPECT_EQ(d.n_images, 6);
    EXPECT_EQ(d.n_classes, 2);
    EXPECT_TEXT(d.class_names[0], "a");
    EXPECT_TEXT(d.class_names[1], "b");
    EXPECT_TEXT(d.column_names[0], "id");
    EXPECT_TEXT(d.column_names[1], "size");
    for (int id = 1; id <= 6; id++) {
        EXPECT_NEAR(cell(&d, id, 1), 10.0 * id, 1e-3);
    }
    for (int64_t i = 0; i < d.n_images; i++) {
        double id = (double)d.rows[i * 2] * (double)d.column_std[0] + (double)d.column_mean[0];
        EXPECT_EQ(d.labels[i], (int)(id + 0.5) % 2);
    }
    es_dataset_destroy(&d);
}

TEST(mean_and_deviation_are_of_the_training_rows) {
    char text[4000] = "";
    for (int i = 0; i < 60; i++) {
        char line[64];
        snprintf(line, sizeof line, "%d,7,%d\n", i * i, i % 3);
        strcat(text, line);
    }
    EsDataset d;
    REQUIRE_OK(open_text(text, NULL, &d));
    EXPECT(d.column_names == NULL);
    EXPECT_EQ(d.train.count, 48);
    EXPECT_EQ(d.validation.count, 6);
    EXPECT_EQ(d.test.count, 6);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < d.train.count; i++) {
        double value = (double)d.rows[i * 2];
        sum += value;
        squares += value * value;
        EXPECT_EQ(d.rows[i * 2 + 1], 0.0f); // a column that never changes
    }
    EXPECT_NEAR(sum / 48, 0.0, 1e-5);
    EXPECT_NEAR(squares / 48, 1.0, 1e-4);
    EXPECT_EQ(d.column_std[1], 1.0f);
    es_dataset_destroy(&d);
}

TEST(label_by_name_number_and_position) {
    EsDataset d;
    REQUIRE_OK(open_text("y;x\nn;1.5\nm;2\nn;3\nm;4\nn;5\nm;6\n", "y", &d));
    EXPECT_TEXT(d.class_names[0], "m");
    EXPECT_TEXT(d.column_names[0], "x");
    es_dataset_destroy(&d);
    REQUIRE_OK(open_text("10\t1\r\n9\t2\r\n10\t3\r\n9\t4\r\n10\t5\r\n9\t6", "0", &d));
    EXPECT_TEXT(d.class_names[0], "9"); // by value, not by bytes
    EXPECT_TEXT(d.class_names[1], "10");
    EXPECT(d.column_names == NULL);
    EXPECT_EQ(d.n_images, 6);
    es_dataset_destroy(&d);
    expect_refused(three_each, "price", "no column is called \"price\"");
    expect_refused(three_each, "3", "no number from 0 to 2");
}

TEST(quotes_marks_and_empty_lines) {
    EsDataset d;
    REQUIRE_OK(open_text("\xef\xbb\xbf\"a\nb\",c\n\n\"1\",\"x \"\"y\"\"\"\n2,z\n 3 ,z\n4,z\n"
                         "5,\"x \"\"y\"\"\"\n\n6,\"x \"\"y\"\"\"\n\n",
                         NULL, &d));
    EXPECT_TEXT(d.column_names[0], "a\nb");
    EXPECT_TEXT(d.class_names[0], "x \"y\"");
    EXPECT_EQ(d.n_images, 6);
    es_dataset_destroy(&d);
}

TEST(damage_is_refused_with_its_place) {
    expect_refused("", NULL, "empty, expected rows");
    expect_refused("\n\n\n", NULL, "empty, expected rows");
    expect_refused("a\n1\n", NULL, "one column");
    expect_refused("a,b\n", NULL, "a header and no rows");
    expect_refused("1,2,a\n3,,b\n", NULL, "line 2, column 1: the value is missing");
    expect_refused("x,y,l\n1,2,a\n3,nan,b\n", NULL, "line 3, column 1 y: \"nan\" is no finite");
    expect_refused("1,2,a\n3,inf,b\n", NULL, "\"inf\" is no finite");
    expect_refused("1,2,a\n3,1e60,b\n", NULL, "\"1e60\" is no finite");
    expect_refused("1,2,a\n3,0x10,b\n", NULL, "\"0x10\" is no finite");
    expect_refused("1,2,a\n3,word,b\n", NULL, "line 2, column 1: \"word\"");
    expect_refused("1,2,a\n3,b\n", NULL, "line 2: 2 columns, expected 3");
    expect_refused("1,2,a\n3,4,b,5\n", NULL, "line 2: 4 columns, expected 3");
    expect_refused("1,2,a\n3,4,\n", NULL, "line 2, column 2: the value is missing");
    expect_refused("1,2,\"a\n3,4,b\n", NULL, "line 1: a quote is not closed");
    expect_refused("1,2,\"a\"x\n3,4,b\n", NULL, "text behind a closed quote");
    expect_refused("1,2,a\n3,4,a\n5,6,a\n", NULL, "1 different labels, expected 2 to");
    expect_refused("1,2,a\n3,4,b\n", NULL, "too few to split");
}

TEST(bytes_of_another_encoding_are_refused) {
    static const char wide[] = "1\0,\0a\0\n\0"; // UTF-16
    FILE *file = fopen(temp_path("table.csv"), "wb");
    fwrite(wide, 1, sizeof wide, file);
    fclose(file);
    EsDataset dataset;
    EsDatasetOptions options = {0};
    EXPECT_STATUS(es_dataset_open(&dataset, temp_path("table.csv"), &options, NULL), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "a zero byte at offset 1");
}

// Rows whose column 0 counts from `first` on, n of each of the classes a and b.
static char *count_rows(char *text, const char *header, int first, int n) {
    char *to = text + sprintf(text, "%s", header);
    for (int i = 0; i < 2 * n; i++) {
        to += sprintf(to, "%d,%d,%c\n", first + i, i * i, "ab"[i % 2]);
    }
    return text;
}

// Every row of the split is one of those that its table has.
static void expect_range(const EsDataset *d, const EsSplit *split, int first, int n) {
    const float *rows = d->rows + (split->labels - d->labels) * 2;
    EXPECT_EQ(split->count, n);
    for (int64_t i = 0; i < split->count; i++) {
        double value = (double)rows[i * 2];
        double id = value * (double)d->column_std[0] + (double)d->column_mean[0];
        EXPECT(id > first - 0.5 && id < first + n - 0.5);
        EXPECT_EQ(split->labels[i], (int)(id + 0.5 - first) % 2);
    }
}

TEST(tables_of_a_folder_are_the_splits) {
    char train[1000], validation[1000], test[1000];
    EsDataset d;
    count_rows(train, "id,square,kind\n", 0, 20);
    count_rows(validation, "id,square,kind\n", 1000, 3);
    count_rows(test, "id,square,kind\n", 2000, 5);
    REQUIRE_OK(open_tables(train, validation, test, NULL, &d));
    EXPECT_TEXT(d.name, "tables");
    EXPECT_TEXT(d.column_names[1], "square");
    EXPECT_NEAR((double)d.column_mean[0], 19.5, 1e-4); // of the training rows alone
    expect_range(&d, &d.train, 0, 40);
    expect_range(&d, &d.validation, 1000, 6);
    expect_range(&d, &d.test, 2000, 10);
    es_dataset_destroy(&d);
    REQUIRE_OK(open_tables(train, NULL, test, "kind", &d)); // validation is drawn
    EXPECT_EQ(d.train.count, 36);
    EXPECT_EQ(d.validation.count, 4);
    expect_range(&d, &d.test, 2000, 10);
    es_dataset_destroy(&d);
    count_rows(train, "", 0, 20);
    count_rows(test, "", 2000, 5);
    REQUIRE_OK(open_tables(train, NULL, test, NULL, &d));
    EXPECT(d.column_names == NULL);
    expect_range(&d, &d.test, 2000, 10);
    es_dataset_destroy(&d);
}

TEST(tables_that_do_not_go_together_are_refused) {
    const char *train = "x,y,l\n1,2,a\n3,4,b\n5,6,a\n7,8,b\n9,10,a\n11,12,b\n";
    expect_tables_refused(train, "", "test.csv: empty");
    expect_tables_refused(train, "x,y,l\n", "test.csv: a header and no rows");
    expect_tables_refused(train, "x,y\n1,2\n", "test.csv: 2 columns, expected 3 as in ");
    expect_tables_refused(train, "y,x,l\n1,2,a\n", "test.csv: column 0 is \"y\", expected \"x\"");
    expect_tables_refused(train, "1,2,a\n", "test.csv: the columns have no names, unlike");
    expect_tables_refused("1,2,a\n3,4,b\n", train, "test.csv: the columns have names, unlike");
    expect_tables_refused(train, "x,y,l\n1,,a\n", "test.csv: line 2, column 1 y: the value");
    expect_tables_refused(train, "x,y,l\n1,2,c\n", "class \"c\" has no samples for training");
    write_text("tables/training.tsv", "1\t2\n");
    expect_tables_refused(train, train, "two tables for the same split, training.tsv");
    remove(temp_path("tables/training.tsv"));
    expect_tables_refused(NULL, train, "no train.csv");
}

TEST(tables_beside_folders_are_notes) {
    EsDataset d;
    EXPECT_STATUS(es_folder_make(temp_path("tables/cat")), OK);
    EXPECT_STATUS(open_tables(three_each, NULL, three_each, NULL, &d), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "a class without images");
}
