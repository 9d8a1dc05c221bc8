// Life of a data set: memory for its images and labels, splits, mean and deviation, choice of a
// reader.
#include "data/dataset.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset_internal.h"

EsStatus es_dataset_create(EsDataset *dataset, const char *name, const EsDatasetOptions *options,
                           EsThreadPool *pool) {
    memset(dataset, 0, sizeof *dataset);
    if (strcmp(name, "tiny") == 0) {
        return es_dataset_generate(dataset, ES_GENERATED_TINY, options, pool);
    }
    if (strcmp(name, "generated") == 0) {
        return es_dataset_generate(dataset, ES_GENERATED_STANDARD, options, pool);
    }
    if (strcmp(name, "cifar10") == 0) {
        return es_dataset_load_cifar10(dataset, options);
    }
    if (strcmp(name, "idx") == 0) {
        return es_dataset_load_idx(dataset, options);
    }
    return ES_FAIL(ARGUMENT, "no data set is called \"%s\"; known: tiny, generated, cifar10, idx",
                   name);
}

void es_dataset_destroy(EsDataset *dataset) {
    if (dataset != NULL) {
        es_release(dataset->images);
        es_release(dataset->labels);
        memset(dataset, 0, sizeof *dataset);
    }
}

EsStatus es_dataset_allocate(EsDataset *dataset, const char *name, const int shape[3],
                             int n_classes, const int64_t counts[3]) {
    ES_ASSERT(shape[0] > 0 && shape[0] <= ES_DATASET_MAX_CHANNELS);
    ES_ASSERT(n_classes > 0 && n_classes <= 256);
    memset(dataset, 0, sizeof *dataset);
    snprintf(dataset->name, sizeof dataset->name, "%s", name);
    dataset->n_channels = shape[0];
    dataset->height = shape[1];
    dataset->width = shape[2];
    dataset->n_classes = n_classes;
    dataset->image_bytes = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
    dataset->n_images = counts[0] + counts[1] + counts[2];

    EsStatus status = ES_STATUS_OK;
    size_t n_images = (size_t)dataset->n_images;
    ES_TRY_GOTO(es_allocate(n_images * dataset->image_bytes, (void **)&dataset->images));
    ES_TRY_GOTO(es_allocate(n_images, (void **)&dataset->labels));
    EsSplit *splits[3] = {&dataset->train, &dataset->validation, &dataset->test};
    int64_t first = 0;
    for (int i = 0; i < 3; i++) {
        splits[i]->images = dataset->images + (size_t)first * dataset->image_bytes;
        splits[i]->labels = dataset->labels + first;
        splits[i]->count = counts[i];
        first += counts[i];
    }
done:
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
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

void es_dataset_fingerprint(const EsDataset *dataset, char text[ES_SHA256_TEXT_BYTES]) {
    const int64_t sizes[] = {dataset->n_channels, dataset->height,      dataset->width,
                             dataset->n_classes,  dataset->train.count, dataset->validation.count,
                             dataset->test.count};
    EsSha256 hash;
    es_sha256_begin(&hash);
    es_sha256_append(&hash, sizes, sizeof sizes);
    es_sha256_append(&hash, dataset->images, (size_t)dataset->n_images * dataset->image_bytes);
    es_sha256_append(&hash, dataset->labels, (size_t)dataset->n_images);
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
    append(&buffer, "%s: images of %d x %d x %d, %.1f MiB\n", dataset->name, dataset->height,
           dataset->width, dataset->n_channels,
           (double)dataset->n_images * (double)dataset->image_bytes / (1024.0 * 1024.0));
    append(&buffer, "  %lld train, %lld validation, %lld test\n", (long long)dataset->train.count,
           (long long)dataset->validation.count, (long long)dataset->test.count);
    append(&buffer, "  %d classes", dataset->n_classes);
    for (int i = 0; dataset->class_names != NULL && i < dataset->n_classes; i++) {
        append(&buffer, "%s%s", i == 0 ? ": " : ", ", dataset->class_names[i]);
    }
    append(&buffer, "\n  mean");
    for (int c = 0; c < dataset->n_channels; c++) {
        append(&buffer, " %.4f", (double)dataset->mean[c]);
    }
    append(&buffer, ", std");
    for (int c = 0; c < dataset->n_channels; c++) {
        append(&buffer, " %.4f", (double)dataset->std[c]);
    }
    append(&buffer, "\n");
}
