// Life of a data set: memory for its samples and labels, splits, mean and deviation, fingerprint.
#include "data/dataset.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset_internal.h"

void es_dataset_destroy(EsDataset *dataset) {
    if (dataset != NULL) {
        es_release(dataset->images);
        es_release(dataset->rows);
        es_release(dataset->labels);
        es_release((void *)(uintptr_t)dataset->class_names); // owned, though constant to readers
        es_release(dataset->column_mean);
        es_release(dataset->column_std);
        es_release((void *)(uintptr_t)dataset->column_names);
        memset(dataset, 0, sizeof *dataset);
    }
}

static void describe_set(EsDataset *dataset, const char *name, int n_classes,
                         const int64_t counts[3]) {
    ES_ASSERT(n_classes > 0 && n_classes <= ES_DATASET_MAX_CLASSES);
    memset(dataset, 0, sizeof *dataset);
    snprintf(dataset->name, sizeof dataset->name, "%s", name);
    dataset->n_classes = n_classes;
    dataset->n_images = counts[0] + counts[1] + counts[2];
}

static void set_splits(EsDataset *dataset, const int64_t counts[3]) {
    EsSplit *splits[3] = {&dataset->train, &dataset->validation, &dataset->test};
    int64_t first = 0;
    for (int i = 0; i < 3; i++) {
        if (dataset->images != NULL) {
            splits[i]->images = dataset->images + (size_t)first * dataset->image_bytes;
        }
        splits[i]->labels = dataset->labels + first;
        splits[i]->count = counts[i];
        first += counts[i];
    }
}

EsStatus es_dataset_allocate(EsDataset *dataset, const char *name, const int shape[3],
                             int n_classes, const int64_t counts[3]) {
    ES_ASSERT(shape[0] > 0 && shape[0] <= ES_DATASET_MAX_CHANNELS);
    describe_set(dataset, name, n_classes, counts);
    dataset->kind = ES_DATASET_IMAGES;
    dataset->n_channels = shape[0];
    dataset->height = shape[1];
    dataset->width = shape[2];
    dataset->image_bytes = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
    dataset->sizes =
        (EsImageSizes){{shape[2], shape[1]}, ES_MAX(shape[1], shape[2]), {shape[2], shape[1]}};

    EsStatus status = ES_STATUS_OK;
    size_t n_images = (size_t)dataset->n_images;
    ES_TRY_GOTO(es_allocate(n_images * dataset->image_bytes, (void **)&dataset->images));
    ES_TRY_GOTO(es_allocate(n_images * sizeof *dataset->labels, (void **)&dataset->labels));
    set_splits(dataset, counts);
done:
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}

EsStatus es_dataset_allocate_rows(EsDataset *dataset, const char *name, int n_columns,
                                  int n_classes, const int64_t counts[3]) {
    ES_ASSERT(n_columns > 0 && n_columns <= ES_DATASET_MAX_COLUMNS);
    describe_set(dataset, name, n_classes, counts);
    dataset->kind = ES_DATASET_ROWS;
    dataset->n_channels = n_columns;
    dataset->height = dataset->width = 1;
    dataset->image_bytes = (size_t)n_columns * sizeof *dataset->rows;

    EsStatus status = ES_STATUS_OK;
    size_t n_rows = (size_t)dataset->n_images, column_bytes = (size_t)n_columns * sizeof(float);
    ES_TRY_GOTO(es_allocate(n_rows * dataset->image_bytes, (void **)&dataset->rows));
    ES_TRY_GOTO(es_allocate(n_rows * sizeof *dataset->labels, (void **)&dataset->labels));
    ES_TRY_GOTO(es_allocate(column_bytes, (void **)&dataset->column_mean));
    ES_TRY_GOTO(es_allocate(column_bytes, (void **)&dataset->column_std));
    set_splits(dataset, counts);
done:
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}

// Pointers first, then the texts one after another.
EsStatus es_names_copy(const char *const *names, int64_t n, const char *const **copy) {
    size_t bytes = (size_t)n * sizeof **copy;
    for (int64_t i = 0; i < n; i++) {
        bytes += strlen(names[i]) + 1;
    }
    const char **block = NULL;
    *copy = NULL;
    ES_TRY(es_allocate(bytes, (void **)&block));
    char *next = (char *)(block + n);
    for (int64_t i = 0; i < n; i++) {
        size_t length = strlen(names[i]) + 1;
        memcpy(next, names[i], length);
        block[i] = next;
        next += length;
    }
    *copy = block;
    return ES_STATUS_OK;
}

void es_dataset_measure(EsDataset *dataset) {
    const EsSplit *train = &dataset->train;
    size_t n_pixels = (size_t)dataset->height * (size_t)dataset->width;
    for (int c = 0; c < dataset->n_channels; c++) {
        uint64_t sum = 0, sum_of_squares = 0;
        for (int64_t i = 0; i < train->count; i++) {
            const uint8_t *plane =
                train->images + (size_t)i * dataset->image_bytes + (size_t)c * n_pixels;
            for (size_t j = 0; j < n_pixels; j++) {
                sum += plane[j];
                sum_of_squares += (uint64_t)plane[j] * plane[j];
            }
        }
        double n = (double)train->count * (double)n_pixels;
        double mean = (double)sum / n;
        double variance = (double)sum_of_squares / n - mean * mean;
        dataset->mean[c] = (float)(mean / 255.0);
        // a constant channel leaves rounding dust of either sign
        dataset->std[c] = variance > 1e-6 ? (float)(sqrt(variance) / 255.0) : 1.0f;
    }
}

void es_dataset_normalise_rows(EsDataset *dataset) {
    int64_t D = dataset->n_channels;
    for (int64_t c = 0; c < D; c++) {
        const float *column = dataset->rows + c;
        double sum = 0.0, sum_of_squares = 0.0, n = (double)dataset->train.count;
        for (int64_t i = 0; i < dataset->train.count; i++) {
            sum += (double)column[i * D];
        }
        double mean = sum / n;
        for (int64_t i = 0; i < dataset->train.count; i++) {
            double difference = (double)column[i * D] - mean;
            sum_of_squares += difference * difference;
        }
        // a constant column leaves rounding dust; so does one of 1e38 and one of 1e-38
        double std = sqrt(sum_of_squares / n);
        int varies = std > 1e-6 * fabs(mean) && std > 1e-30;
        dataset->column_mean[c] = (float)mean;
        dataset->column_std[c] = varies ? (float)std : 1.0f;
    }
    for (int64_t i = 0; i < dataset->n_images; i++) {
        float *row = dataset->rows + i * D;
        for (int64_t c = 0; c < D; c++) {
            row[c] = (row[c] - dataset->column_mean[c]) / dataset->column_std[c];
        }
    }
}

EsStatus es_dataset_count_splits(const EsDatasetOptions *options, const char *folder,
                                 int64_t n_training_file, int64_t n_test_file, int64_t counts[3]) {
    if (options->n_train < 0 || options->n_validation < 0 || options->n_test < 0) {
        return ES_FAIL(ARGUMENT,
                       "image counts must not be negative: train %lld, validation %lld, test %lld",
                       (long long)options->n_train, (long long)options->n_validation,
                       (long long)options->n_test);
    }
    counts[1] = options->n_validation > 0 ? options->n_validation : (n_training_file + 9) / 10;
    counts[0] = options->n_train > 0 ? options->n_train : n_training_file - counts[1];
    counts[2] = options->n_test > 0 ? options->n_test : n_test_file;
    if (counts[1] >= n_training_file || counts[0] > n_training_file - counts[1]) {
        return ES_FAIL(
            INPUT,
            "%s: %lld training images are there, too few for %lld train and %lld validation images",
            folder, (long long)n_training_file, (long long)(counts[0] > 0 ? counts[0] : 1),
            (long long)counts[1]);
    }
    if (counts[2] > n_test_file) {
        return ES_FAIL(INPUT, "%s: %lld test images are there, fewer than the %lld asked for",
                       folder, (long long)n_test_file, (long long)counts[2]);
    }
    return ES_STATUS_OK;
}

// Labels that fit a byte count as bytes: sets have kept their hash since labels had 8 bits.
static void append_labels(EsSha256 *hash, const EsDataset *dataset) {
    if (dataset->n_classes > 256) {
        es_sha256_append(hash, dataset->labels,
                         (size_t)dataset->n_images * sizeof *dataset->labels);
        return;
    }
    uint8_t bytes[1024];
    for (int64_t i = 0; i < dataset->n_images;) {
        size_t n = 0;
        for (; n < sizeof bytes && i < dataset->n_images; i++) {
            bytes[n++] = (uint8_t)dataset->labels[i];
        }
        es_sha256_append(hash, bytes, n);
    }
}

void es_dataset_fingerprint(const EsDataset *dataset, char text[ES_SHA256_TEXT_BYTES]) {
    const int64_t sizes[] = {dataset->n_channels, dataset->height,      dataset->width,
                             dataset->n_classes,  dataset->train.count, dataset->validation.count,
                             dataset->test.count};
    EsSha256 hash;
    es_sha256_begin(&hash);
    es_sha256_append(&hash, sizes, sizeof sizes);
    if (dataset->kind == ES_DATASET_ROWS) {
        size_t column_bytes = (size_t)dataset->n_channels * sizeof(float);
        es_sha256_append(&hash, "rows", 4);
        es_sha256_append(&hash, dataset->column_mean, column_bytes);
        es_sha256_append(&hash, dataset->column_std, column_bytes);
        es_sha256_append(&hash, dataset->rows, (size_t)dataset->n_images * dataset->image_bytes);
    } else {
        es_sha256_append(&hash, dataset->images, (size_t)dataset->n_images * dataset->image_bytes);
    }
    append_labels(&hash, dataset);
    es_sha256_end(&hash, text);
}

typedef struct TextBuffer {
    char *text;
    size_t capacity;
    size_t used;
} TextBuffer;

__attribute__((format(printf, 2, 3))) static void append(TextBuffer *buffer, const char *format,
                                                         ...) {
    if (buffer->used + 1 >= buffer->capacity) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    int n =
        vsnprintf(buffer->text + buffer->used, buffer->capacity - buffer->used, format, arguments);
    va_end(arguments);
    buffer->used = ES_MIN(buffer->used + (size_t)(n > 0 ? n : 0), buffer->capacity - 1);
}

void es_dataset_describe(const EsDataset *dataset, char *text, size_t text_bytes) {
    if (text_bytes == 0) {
        return;
    }
    TextBuffer buffer = {text, text_bytes, 0};
    text[0] = '\0';
    double megabytes = (double)dataset->n_images * (double)dataset->image_bytes / (1024.0 * 1024.0);
    if (dataset->kind == ES_DATASET_ROWS) {
        append(&buffer, "%s: rows of %d columns, %.1f MiB\n", dataset->name, dataset->n_channels,
               megabytes);
    } else {
        append(&buffer, "%s: images of %d x %d x %d, %.1f MiB\n", dataset->name, dataset->height,
               dataset->width, dataset->n_channels, megabytes);
    }
    append(&buffer, "  %lld train, %lld validation, %lld test\n", (long long)dataset->train.count,
           (long long)dataset->validation.count, (long long)dataset->test.count);
    append(&buffer, "  %d classes", dataset->n_classes);
    for (int i = 0; dataset->class_names != NULL && i < dataset->n_classes; i++) {
        append(&buffer, "%s%s", i == 0 ? ": " : ", ", dataset->class_names[i]);
    }
    append(&buffer, "\n");
    if (dataset->kind == ES_DATASET_ROWS) {
        return;
    }
    append(&buffer, "  mean");
    for (int c = 0; c < dataset->n_channels; c++) {
        append(&buffer, " %.4f", (double)dataset->mean[c]);
    }
    append(&buffer, ", std");
    for (int c = 0; c < dataset->n_channels; c++) {
        append(&buffer, " %.4f", (double)dataset->std[c]);
    }
    append(&buffer, "\n");
}
