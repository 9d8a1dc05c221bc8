// `esper data`: what a data set holds, as Esper sees it, and a sheet of its images.
#include <stdio.h>

#include "base/macros.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "esper/data.h"

#define SHOWN_COLUMNS 40 // columns of rows that are printed

// --- text ---

static void print_inputs(const EsDataInfo *info) {
    if (info->is_rows) {
        es_print("%s: rows of %d columns, each as (value - mean) / deviation of the training "
                 "rows\n",
                 info->name, info->n_channels);
        return;
    }
    es_print("%s: images of %d x %d, %s\n", info->name, info->width, info->height,
             info->n_channels == 1   ? "grey"
             : info->n_channels == 3 ? "colour"
                                     : "more than three channels");
    if (info->is_fitted) {
        printf("  scaled and letter-boxed; as found: smallest %d x %d, median longer side %d, "
               "largest %d x %d\n",
               info->smallest[0], info->smallest[1], info->median_side, info->largest[0],
               info->largest[1]);
    }
    for (int c = 0; c < info->n_channels; c++) {
        printf("  channel %d: pixels %.0f to %.0f; normalised by mean %.4f, deviation %.4f of "
               "pixel / 255\n",
               c, (double)info->least[c], (double)info->most[c], (double)info->mean[c],
               (double)info->std[c]);
    }
}

static void print_classes(const EsDataInfo *info, int has_sheet) {
    int width = 5;
    for (int k = 0; k < info->n_classes; k++) {
        width = ES_MAX(width, es_padded_text_width(info->class_names[k]));
    }
    width = ES_MIN(width, 40);
    printf("\n%s", has_sheet ? "row  " : "");
    es_padded_text_print("class", width, stdout);
    printf("  %8s  %10s  %8s\n", "train", "validation", "test");
    for (int k = 0; k < info->n_classes; k++) {
        const int64_t *n = info->n_of_class[k];
        if (has_sheet) {
            printf(k < ES_DATA_SHEET_CLASSES ? "%3d  " : "  -  ", k + 1);
        }
        es_padded_text_print(info->class_names[k], width, stdout);
        printf("  %8lld  %10lld  %8lld\n", (long long)n[0], (long long)n[1], (long long)n[2]);
    }
}

static void print_columns(const EsDataInfo *info) {
    char number[16];
    int n_shown = ES_MIN(info->n_channels, SHOWN_COLUMNS), width = 6;
    for (int c = 0; c < n_shown && info->column_names != NULL; c++) {
        width = ES_MAX(width, es_padded_text_width(info->column_names[c]));
    }
    width = ES_MIN(width, 40);
    printf("\n");
    es_padded_text_print("column", width, stdout);
    printf("  %12s  %12s  %12s  %12s\n", "least", "most", "mean", "deviation");
    for (int c = 0; c < n_shown; c++) {
        snprintf(number, sizeof number, "%d", c);
        es_padded_text_print(info->column_names != NULL ? info->column_names[c] : number, width,
                             stdout);
        printf("  %12.6g  %12.6g  %12.6g  %12.6g\n", (double)info->least[c], (double)info->most[c],
               (double)info->mean[c], (double)info->std[c]);
    }
    if (n_shown < info->n_channels) {
        printf("... and %d more\n", info->n_channels - n_shown);
    }
}

static void print_text(const EsDataInfo *info, const char *sheet) {
    print_inputs(info);
    printf("  %lld samples of %d classes: %lld for training, %lld for validation, %lld for the "
           "test\n",
           (long long)info->n_samples, info->n_classes, (long long)info->n_of_split[ES_DATA_TRAIN],
           (long long)info->n_of_split[ES_DATA_VALIDATION],
           (long long)info->n_of_split[ES_DATA_TEST]);
    print_classes(info, sheet != NULL);
    if (info->is_rows) {
        print_columns(info);
    }
    if (sheet != NULL) {
        es_print("\n%s: the first %d training images of each class, a row per class\n", sheet,
                 ES_DATA_SHEET_COLUMNS);
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

static EsStatus print_json(const EsData *data) {
    const EsDataInfo *info = es_data_info(data);
    int is_rows = info->is_rows, n = info->n_channels;
    char hash[ES_DATA_HASH_BYTES];
    es_data_fingerprint(data, hash);
    json_t *classes = json_array();
    for (int k = 0; k < info->n_classes; k++) {
        const int64_t *count = info->n_of_class[k];
        json_array_append_new(
            classes, json_pack("{s:o, s:I, s:I, s:I}", "name", text_json(info->class_names[k]),
                               "train", (json_int_t)count[0], "validation", (json_int_t)count[1],
                               "test", (json_int_t)count[2]));
    }
    json_t *root =
        json_pack("{s:o, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:s}", "name",
                  text_json(info->name), "kind", is_rows ? "rows" : "images",
                  is_rows ? "columns" : "channels", n, "height", info->height, "width", info->width,
                  "train", (json_int_t)info->n_of_split[ES_DATA_TRAIN], "validation",
                  (json_int_t)info->n_of_split[ES_DATA_VALIDATION], "test",
                  (json_int_t)info->n_of_split[ES_DATA_TEST], "classes", classes, "least",
                  reals(info->least, n), "most", reals(info->most, n), "mean", reals(info->mean, n),
                  "std", reals(info->std, n), "data_sha256", hash);
    if (!is_rows) {
        json_object_set_new(root, "found",
                            json_pack("{s:[i,i], s:i, s:[i,i], s:b}", "smallest", info->smallest[0],
                                      info->smallest[1], "median_side", info->median_side,
                                      "largest", info->largest[0], info->largest[1], "fitted",
                                      info->is_fitted));
    } else if (info->column_names != NULL) {
        json_t *names = json_array();
        for (int c = 0; c < n; c++) {
            json_array_append_new(names, text_json(info->column_names[c]));
        }
        json_object_set_new(root, "column_names", names);
    }
    return es_json_print(root, 9);
}

// --- the command ---

static EsStatus show(const char *source, const EsDataOptions *options, const char *sheet,
                     int as_json) {
    EsData *data = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_data_open(source, options, &data));
    if (sheet != NULL && es_data_info(data)->is_rows) {
        status = ES_FAIL(ARGUMENT, "--contact-sheet: a set of rows has no images");
        goto done;
    }
    if (sheet != NULL) {
        ES_TRY_GOTO(es_data_write_sheet(data, sheet));
    }
    if (as_json) {
        ES_TRY_GOTO(print_json(data));
    } else {
        print_text(es_data_info(data), sheet);
    }
done:
    es_data_close(data);
    return status;
}

static void print_more(void) {
    printf("\nDATA is one of:\n"
           "  photos/            a folder with a folder of PNG or JPEG images for each class, or\n"
           "                     train/ and test/ (and validation/) with these inside\n"
           "  table.csv, .tsv    rows of numbers and a label column, with a header or without; or\n"
           "                     a folder with train.csv and test.csv (and validation.csv)\n"
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
    EsDataOptions options = {.seed = 1};
    EsArguments arguments;
    const char *sheet, *folder;
    int as_json, seed;
    const EsOption table_options[] = {
        ES_OPTION_INT("image-size", &options.image_size, "0", 0, ES_DATA_IMAGE_SIZE_MAX, "N",
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
