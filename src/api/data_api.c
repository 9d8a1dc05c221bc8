// The public face of data sets: include/esper/data.h over data/dataset.h and data/image.h.
#include "esper/data.h"

#include <stdio.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/memory.h"
#include "data/image.h"

#define SHEET_GAP    2
#define SHEET_SIDE   32 // smaller images are enlarged to about this
#define NUMBER_BYTES 8  // of a class that has no name

_Static_assert(ES_DATA_IMAGE_SIZE_MAX == ES_IMAGE_MAX_FIT, "the same limit");
_Static_assert(ES_DATA_HASH_BYTES == ES_SHA256_TEXT_BYTES, "the same length");

struct EsData {
    EsDataset dataset;                       // owned
    int64_t (*n_of_class)[ES_N_DATA_SPLITS]; // owned [K]
    float *least, *most;                     // owned [C]
    char (*numbers)[NUMBER_BYTES];           // owned [K]; NULL where classes have names
    const char **number_names;               // owned [K]: of numbers
    EsDataInfo info;                         // borrows from the others
};

// --- measures ---

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

static EsStatus summarise(EsData *data) {
    const EsDataset *dataset = &data->dataset;
    size_t n_classes = (size_t)dataset->n_classes, n_channels = (size_t)dataset->n_channels;
    const EsSplit *splits[] = {&dataset->train, &dataset->validation, &dataset->test};
    ES_TRY(es_allocate(n_classes * sizeof *data->n_of_class, (void **)&data->n_of_class));
    ES_TRY(es_allocate(n_channels * sizeof(float), (void **)&data->least));
    ES_TRY(es_allocate(n_channels * sizeof(float), (void **)&data->most));
    for (int s = 0; s < ES_N_DATA_SPLITS; s++) {
        for (int64_t i = 0; i < splits[s]->count; i++) {
            data->n_of_class[splits[s]->labels[i]][s]++;
        }
    }
    for (int c = 0; c < dataset->n_channels; c++) {
        measure_range(dataset, c, &data->least[c], &data->most[c]);
    }
    return ES_STATUS_OK;
}

static EsStatus number_classes(EsData *data) {
    size_t n = (size_t)data->dataset.n_classes;
    ES_TRY(es_allocate(n * sizeof *data->numbers, (void **)&data->numbers));
    ES_TRY(es_allocate(n * sizeof *data->number_names, (void **)&data->number_names));
    for (size_t k = 0; k < n; k++) {
        snprintf(data->numbers[k], NUMBER_BYTES, "%d", (int)(k % 1000000));
        data->number_names[k] = data->numbers[k];
    }
    return ES_STATUS_OK;
}

static void fill_info(EsData *data) {
    const EsDataset *d = &data->dataset;
    int is_rows = d->kind == ES_DATASET_ROWS;
    data->info =
        (EsDataInfo){.name = d->name,
                     .is_rows = is_rows,
                     .n_channels = d->n_channels,
                     .height = d->height,
                     .width = d->width,
                     .n_classes = d->n_classes,
                     .n_samples = d->n_images,
                     .n_of_split = {d->train.count, d->validation.count, d->test.count},
                     .n_of_class = (const int64_t(*)[ES_N_DATA_SPLITS])data->n_of_class,
                     .class_names = d->class_names != NULL ? d->class_names : data->number_names,
                     .column_names = d->column_names,
                     .least = data->least,
                     .most = data->most,
                     .mean = is_rows ? d->column_mean : d->mean,
                     .std = is_rows ? d->column_std : d->std,
                     .is_fitted = d->is_fitted,
                     .smallest = {d->sizes.smallest[0], d->sizes.smallest[1]},
                     .median_side = d->sizes.median_side,
                     .largest = {d->sizes.largest[0], d->sizes.largest[1]}};
}

// --- life ---

static EsStatus check_options(const EsDataOptions *options) {
    if (options->n_threads < 0 || options->n_threads > 1024) {
        return ES_FAIL(ARGUMENT, "n_threads is %d, must be 0..1024", options->n_threads);
    }
    if (options->image_size < 0 || options->image_size > ES_DATA_IMAGE_SIZE_MAX) {
        return ES_FAIL(ARGUMENT, "image_size is %d, must be 0..%d", options->image_size,
                       ES_DATA_IMAGE_SIZE_MAX);
    }
    return ES_STATUS_OK;
}

static EsStatus read_dataset(const char *source, const EsDataArrays *arrays,
                             const EsDataOptions *options, EsDataset *dataset) {
    const EsDatasetOptions wanted = {.seed = options->seed,
                                     .folder = options->folder,
                                     .image_size = options->image_size,
                                     .validation_share = options->validation_share,
                                     .test_share = options->test_share,
                                     .label = options->label,
                                     .labels = options->labels};
    if (arrays != NULL) {
        return es_dataset_copy(dataset, arrays, &wanted);
    }
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, options->n_threads));
    EsStatus status = es_dataset_open(dataset, source, &wanted, pool);
    es_thread_pool_destroy(pool);
    return status;
}

// A set from `arrays`, or from `source` where there are none.
static EsStatus create_data(const char *source, const EsDataArrays *arrays,
                            const EsDataOptions *options, EsData **data_out) {
    EsDataOptions chosen = options != NULL ? *options : (EsDataOptions){0};
    EsData *data = NULL;
    EsStatus status = ES_STATUS_OK;
    *data_out = NULL;
    ES_TRY(check_options(&chosen));
    ES_TRY(es_allocate(sizeof *data, (void **)&data));
    ES_TRY_GOTO(read_dataset(source, arrays, &chosen, &data->dataset));
    ES_TRY_GOTO(summarise(data));
    if (data->dataset.class_names == NULL) {
        ES_TRY_GOTO(number_classes(data));
    }
    fill_info(data);
done:
    if (status != ES_STATUS_OK) {
        es_data_close(data);
        return status;
    }
    *data_out = data;
    return ES_STATUS_OK;
}

EsStatus es_data_open(const char *source, const EsDataOptions *options, EsData **data) {
    return create_data(source, NULL, options, data);
}

EsStatus es_data_copy(const EsDataArrays *arrays, const EsDataOptions *options, EsData **data) {
    return create_data(NULL, arrays, options, data);
}

void es_data_close(EsData *data) {
    if (data == NULL) {
        return;
    }
    es_dataset_destroy(&data->dataset);
    es_release(data->n_of_class);
    es_release(data->least);
    es_release(data->most);
    es_release(data->numbers);
    es_release(data->number_names);
    es_release(data);
}

const EsDataInfo *es_data_info(const EsData *data) { return &data->info; }

const EsDataset *es_data_dataset(const EsData *data) { return &data->dataset; }

void es_data_fingerprint(const EsData *data, char text[ES_DATA_HASH_BYTES]) {
    es_dataset_fingerprint(&data->dataset, text);
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

EsStatus es_data_write_sheet(const EsData *data, const char *path) {
    const EsDataset *dataset = &data->dataset;
    if (dataset->kind == ES_DATASET_ROWS) {
        return ES_FAIL(ARGUMENT, "data \"%s\" has rows, no images", dataset->name);
    }
    int n_rows = ES_MIN(dataset->n_classes, ES_DATA_SHEET_CLASSES);
    int scale = ES_MAX(SHEET_SIDE / dataset->width, 1);
    int cell = dataset->width * scale + SHEET_GAP, n_painted[ES_DATA_SHEET_CLASSES] = {0};
    EsImage sheet = {ES_DATA_SHEET_COLUMNS * cell + SHEET_GAP, n_rows * cell + SHEET_GAP,
                     dataset->n_channels < 3 ? 1 : 3, NULL};
    size_t bytes = (size_t)sheet.width * (size_t)sheet.height * (size_t)sheet.n_channels;
    ES_TRY(es_allocate(bytes, (void **)&sheet.pixels));
    memset(sheet.pixels, 255, bytes);
    for (int64_t i = 0; i < dataset->train.count; i++) {
        int label = dataset->train.labels[i];
        if (label < n_rows && n_painted[label] < ES_DATA_SHEET_COLUMNS) {
            paint(&sheet, dataset, dataset->train.images + (size_t)i * dataset->image_bytes,
                  SHEET_GAP + n_painted[label]++ * cell, SHEET_GAP + label * cell, scale);
        }
    }
    EsStatus status = es_image_save(&sheet, path);
    es_image_destroy(&sheet);
    return status;
}
