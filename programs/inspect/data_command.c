// `esper data`: what a data set holds, as Esper sees it, and a sheet of its images.
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "data/dataset.h"
#include "data/image.h"

#define SHEET_COLUMNS 12
#define SHEET_ROWS    100 // classes that the sheet shows
#define SHEET_GAP     2
#define SHEET_SIDE    32 // smaller images are enlarged to about this
#define SHOWN_COLUMNS 40 // columns of rows that are printed

// Counts by class and split, and the range of each channel or column over the training samples.
typedef struct Summary {
    int64_t (*n_of_class)[3]; // owned [n_classes][split]
    float *low, *high;        // owned [n_channels]
} Summary;

static void release_summary(Summary *summary) {
    es_release(summary->n_of_class);
    es_release(summary->low);
    es_release(summary->high);
}

static void measure_range(const EsDataset *dataset, int c, float *low, float *high) {
    size_t n_pixels = (size_t)dataset->height * (size_t)dataset->width;
    for (int64_t i = 0; i < dataset->train.count; i++) {
        for (size_t p = 0; p < n_pixels; p++) {
            size_t at = ((size_t)i * (size_t)dataset->n_channels + (size_t)c) * n_pixels + p;
            // rows are normalised: undo it
            float value = dataset->kind == ES_DATASET_ROWS
                              ? dataset->rows[at] * dataset->column_std[c] + dataset->column_mean[c]
                              : (float)dataset->images[at];
            *low = (i == 0 && p == 0) || value < *low ? value : *low;
            *high = (i == 0 && p == 0) || value > *high ? value : *high;
        }
    }
}

static EsStatus summarise(const EsDataset *dataset, Summary *summary) {
    size_t n_classes = (size_t)dataset->n_classes, n_channels = (size_t)dataset->n_channels;
    const EsSplit *splits[3] = {&dataset->train, &dataset->validation, &dataset->test};
    ES_TRY(es_allocate(n_classes * sizeof *summary->n_of_class, (void **)&summary->n_of_class));
    ES_TRY(es_allocate(n_channels * sizeof(float), (void **)&summary->low));
    ES_TRY(es_allocate(n_channels * sizeof(float), (void **)&summary->high));
    for (int s = 0; s < 3; s++) {
        for (int64_t i = 0; i < splits[s]->count; i++) {
            summary->n_of_class[splits[s]->labels[i]][s]++;
        }
    }
    for (int c = 0; c < dataset->n_channels; c++) {
        measure_range(dataset, c, &summary->low[c], &summary->high[c]);
    }
    return ES_STATUS_OK;
}

static const char *class_name(const EsDataset *dataset, int label, char number[16]) {
    if (dataset->class_names != NULL) {
        return dataset->class_names[label];
    }
    snprintf(number, 16, "%d", label);
    return number;
}

// --- text ---

static void print_inputs(const EsDataset *dataset, const Summary *summary) {
    const EsImageSizes *sizes = &dataset->sizes;
    if (dataset->kind == ES_DATASET_ROWS) {
        es_print("%s: rows of %d columns, each as (value - mean) / deviation of the training "
                 "rows\n",
                 dataset->name, dataset->n_channels);
        return;
    }
    es_print("%s: images of %d x %d, %s\n", dataset->name, dataset->width, dataset->height,
             dataset->n_channels == 1   ? "grey"
             : dataset->n_channels == 3 ? "colour"
                                        : "more than three channels");
    if (dataset->is_fitted) {
        printf("  scaled and letter-boxed; as found: smallest %d x %d, median longer side %d, "
               "largest %d x %d\n",
               sizes->smallest[0], sizes->smallest[1], sizes->median_side, sizes->largest[0],
               sizes->largest[1]);
    }
    for (int c = 0; c < dataset->n_channels; c++) {
        printf("  channel %d: pixels %.0f to %.0f; normalised by mean %.4f, deviation %.4f of "
               "pixel / 255\n",
               c, (double)summary->low[c], (double)summary->high[c], (double)dataset->mean[c],
               (double)dataset->std[c]);
    }
}

static void print_classes(const EsDataset *dataset, const Summary *summary, int has_sheet) {
    char number[16];
    int width = 5;
    for (int k = 0; k < dataset->n_classes; k++) {
        width = ES_MAX(width, es_padded_text_width(class_name(dataset, k, number)));
    }
    width = ES_MIN(width, 40);
    printf("\n%s", has_sheet ? "row  " : "");
    es_padded_text_print("class", width, stdout);
    printf("  %8s  %10s  %8s\n", "train", "validation", "test");
    for (int k = 0; k < dataset->n_classes; k++) {
        const int64_t *n = summary->n_of_class[k];
        if (has_sheet) {
            printf(k < SHEET_ROWS ? "%3d  " : "  -  ", k + 1);
        }
        es_padded_text_print(class_name(dataset, k, number), width, stdout);
        printf("  %8lld  %10lld  %8lld\n", (long long)n[0], (long long)n[1], (long long)n[2]);
    }
}

static void print_columns(const EsDataset *dataset, const Summary *summary) {
    char number[16];
    int n_shown = ES_MIN(dataset->n_channels, SHOWN_COLUMNS), width = 6;
    for (int c = 0; c < n_shown && dataset->column_names != NULL; c++) {
        width = ES_MAX(width, es_padded_text_width(dataset->column_names[c]));
    }
    width = ES_MIN(width, 40);
    printf("\n");
    es_padded_text_print("column", width, stdout);
    printf("  %12s  %12s  %12s  %12s\n", "least", "most", "mean", "deviation");
    for (int c = 0; c < n_shown; c++) {
        snprintf(number, sizeof number, "%d", c);
        es_padded_text_print(dataset->column_names != NULL ? dataset->column_names[c] : number,
                             width, stdout);
        printf("  %12.6g  %12.6g  %12.6g  %12.6g\n", (double)summary->low[c],
               (double)summary->high[c], (double)dataset->column_mean[c],
               (double)dataset->column_std[c]);
    }
    if (n_shown < dataset->n_channels) {
        printf("... and %d more\n", dataset->n_channels - n_shown);
    }
}

static void print_text(const EsDataset *dataset, const Summary *summary, const char *sheet) {
    print_inputs(dataset, summary);
    printf("  %lld samples of %d classes: %lld for training, %lld for validation, %lld for the "
           "test\n",
           (long long)dataset->n_images, dataset->n_classes, (long long)dataset->train.count,
           (long long)dataset->validation.count, (long long)dataset->test.count);
    print_classes(dataset, summary, sheet != NULL);
    if (dataset->kind == ES_DATASET_ROWS) {
        print_columns(dataset, summary);
    }
    if (sheet != NULL) {
        es_print("\n%s: the first %d training images of each class, a row per class\n", sheet,
                 SHEET_COLUMNS);
    }
}

// --- JSON ---

static json_t *reals(const float *values, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(list, json_real((double)values[i]));
    }
    return list;
}

// Text from outside may be no UTF-8, which JSON cannot hold.
static json_t *text_json(const char *text) {
    json_t *value = json_string(text);
    return value != NULL ? value : json_string("(not UTF-8)");
}

static EsStatus print_json(const EsDataset *dataset, const Summary *summary) {
    int is_rows = dataset->kind == ES_DATASET_ROWS, n = dataset->n_channels;
    char hash[ES_SHA256_TEXT_BYTES], number[16];
    es_dataset_fingerprint(dataset, hash);
    json_t *classes = json_array();
    for (int k = 0; k < dataset->n_classes; k++) {
        const int64_t *count = summary->n_of_class[k];
        json_array_append_new(classes,
                              json_pack("{s:o, s:I, s:I, s:I}", "name",
                                        text_json(class_name(dataset, k, number)), "train",
                                        (json_int_t)count[0], "validation", (json_int_t)count[1],
                                        "test", (json_int_t)count[2]));
    }
    json_t *root = json_pack(
        "{s:o, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:s}", "name",
        text_json(dataset->name), "kind", is_rows ? "rows" : "images",
        is_rows ? "columns" : "channels", n, "height", dataset->height, "width", dataset->width,
        "train", (json_int_t)dataset->train.count, "validation",
        (json_int_t)dataset->validation.count, "test", (json_int_t)dataset->test.count, "classes",
        classes, "least", reals(summary->low, n), "most", reals(summary->high, n), "mean",
        reals(is_rows ? dataset->column_mean : dataset->mean, n), "std",
        reals(is_rows ? dataset->column_std : dataset->std, n), "data_sha256", hash);
    if (!is_rows) {
        const EsImageSizes *sizes = &dataset->sizes;
        json_object_set_new(root, "found",
                            json_pack("{s:[i,i], s:i, s:[i,i], s:b}", "smallest",
                                      sizes->smallest[0], sizes->smallest[1], "median_side",
                                      sizes->median_side, "largest", sizes->largest[0],
                                      sizes->largest[1], "fitted", dataset->is_fitted));
    } else if (dataset->column_names != NULL) {
        json_t *names = json_array();
        for (int c = 0; c < n; c++) {
            json_array_append_new(names, text_json(dataset->column_names[c]));
        }
        json_object_set_new(root, "column_names", names);
    }
    return es_json_print(root, 9);
}

// --- the sheet ---

// Puts an image into its place, each pixel `scale` times in both directions.
static void paint(EsImage *sheet, const EsDataset *dataset, const uint8_t *planes, int left,
                  int top, int scale) {
    size_t n_pixels = (size_t)dataset->height * (size_t)dataset->width;
    for (int y = 0; y < dataset->height * scale; y++) {
        for (int x = 0; x < dataset->width * scale; x++) {
            size_t from = (size_t)(y / scale) * (size_t)dataset->width + (size_t)(x / scale);
            size_t to = ((size_t)(top + y) * (size_t)sheet->width + (size_t)(left + x)) *
                        (size_t)sheet->n_channels;
            for (int c = 0; c < sheet->n_channels; c++) {
                sheet->pixels[to + (size_t)c] = planes[(size_t)c * n_pixels + from];
            }
        }
    }
}

static EsStatus write_sheet(const EsDataset *dataset, const char *path) {
    if (dataset->kind == ES_DATASET_ROWS) {
        return ES_FAIL(ARGUMENT, "--contact-sheet: a set of rows has no images");
    }
    int n_rows = ES_MIN(dataset->n_classes, SHEET_ROWS);
    int scale = ES_MAX(SHEET_SIDE / dataset->width, 1);
    int cell = dataset->width * scale + SHEET_GAP, n_painted[SHEET_ROWS] = {0};
    EsImage sheet = {SHEET_COLUMNS * cell + SHEET_GAP, n_rows * cell + SHEET_GAP,
                     dataset->n_channels < 3 ? 1 : 3, NULL};
    size_t bytes = (size_t)sheet.width * (size_t)sheet.height * (size_t)sheet.n_channels;
    ES_TRY(es_allocate(bytes, (void **)&sheet.pixels));
    memset(sheet.pixels, 255, bytes);
    for (int64_t i = 0; i < dataset->train.count; i++) {
        int label = dataset->train.labels[i];
        if (label < n_rows && n_painted[label] < SHEET_COLUMNS) {
            paint(&sheet, dataset, dataset->train.images + (size_t)i * dataset->image_bytes,
                  SHEET_GAP + n_painted[label]++ * cell, SHEET_GAP + label * cell, scale);
        }
    }
    EsStatus status = es_image_save(&sheet, path);
    es_image_destroy(&sheet);
    return status;
}

// --- the command ---

static EsStatus show(const char *source, const EsDatasetOptions *options, const char *sheet,
                     int as_json) {
    EsDataset dataset;
    Summary summary = {NULL, NULL, NULL};
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, 0));
    EsStatus status = es_dataset_open(&dataset, source, options, pool);
    es_thread_pool_destroy(pool);
    ES_TRY(status);
    ES_TRY_GOTO(summarise(&dataset, &summary));
    if (sheet != NULL) {
        ES_TRY_GOTO(write_sheet(&dataset, sheet));
    }
    if (as_json) {
        ES_TRY_GOTO(print_json(&dataset, &summary));
    } else {
        print_text(&dataset, &summary, sheet);
    }
done:
    release_summary(&summary);
    es_dataset_destroy(&dataset);
    return status;
}

static void print_more(void) {
    printf("\nDATA is one of:\n"
           "  photos/            a folder with a folder of PNG or JPEG images for each class, or\n"
           "                     train/ and test/ (and validation/) with these inside\n"
           "  table.csv, .tsv    rows of numbers and a label column, with a header or without\n"
           "  X.npy              images [N,H,W], [N,H,W,C], [N,C,H,W] or rows [N,D]; labels in "
           "y.npy\n"
           "  mnist/             a folder of IDX files, plain or .gz; also CIFAR-10's binary "
           "files\n"
           "  fashion-mnist      the files of Debian's package dataset-fashion-mnist\n"
           "  tiny, generated    drawn from --seed\n"
           "  cifar10, idx       the files in --folder\n\n"
           "A set without splits of its own is split by --seed, class by class. `esper hosts` and\n"
           "`esper grow` read the same with --data DATA. docs/data.md describes each format.\n");
}

EsExit cmd_data(int argc, char **argv) {
    EsDatasetOptions options = {.seed = 1};
    EsArguments arguments;
    const char *sheet, *folder;
    int as_json, seed;
    const EsOption table_options[] = {
        ES_OPTION_INT("image-size", &options.image_size, "0", 0, ES_IMAGE_MAX_FIT, "N",
                      "side of the square that images are fitted to (0: the median, at most 64)"),
        ES_OPTION_TEXT("label", &options.label, NULL, "NAME|N",
                       "CSV: the label's column, by name or number from 0 (default: the last)"),
        ES_OPTION_TEXT("labels", &options.labels, NULL, "FILE", "npy: file of the labels"),
        ES_OPTION_FLOAT("validation-share", &options.validation_share, "0.1", 0.001, 0.8, "X",
                        "part of each class for validation, where the set has none"),
        ES_OPTION_FLOAT("test-share", &options.test_share, "0.1", 0.001, 0.8, "X",
                        "part of each class for the test, where the set has none"),
        ES_OPTION_INT("seed", &seed, "1", 0, 2147483647, "N", "seed of the split"),
        ES_OPTION_TEXT("folder", &folder, NULL, "DIR", "where cifar10 or idx files are"),
        ES_OPTION_TEXT("contact-sheet", &sheet, NULL, "FILE.png",
                       "write a picture with a row of training images for each class"),
        ES_OPTION_FLAG("json", &as_json, "print one JSON object"),
    };
    const EsOptionTable table = {
        .command = "data",
        .usage = "[options] DATA",
        .summary = "Prints what a data set holds: samples by split and class, sizes, channels, "
                   "ranges of values,\nnormalisation.",
        .example = "esper data photos/ --contact-sheet photos.png",
        .print_more = print_more,
        .options = table_options,
        .n_options = ES_COUNT_OF(table_options),
        .max_positional = 1,
    };
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    options.seed = (uint64_t)seed;
    options.folder = folder;
    EsStatus status =
        arguments.n_positional == 1
            ? show(arguments.positional[0], &options, sheet, as_json)
            : ES_FAIL(ARGUMENT, "which data? A path, or one of tiny, generated, cifar10, idx, "
                                "fashion-mnist");
    return es_command_finish("data", status);
}
