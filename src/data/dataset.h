// Image data sets: bytes, labels and the constants to normalise them, split into train, validation
// and test images.
//
// All images of a set lie in one block, train first, then validation, then test, so one copy brings
// a set to a device. A data set does not change after its creation and may be read by any number of
// threads.
//
//     EsDatasetOptions options = {.seed = 7};
//     EsDataset dataset;
//     ES_TRY(es_dataset_create(&dataset, "tiny", &options, NULL));
//     const uint8_t *third_image = dataset.train.images + 2 * dataset.image_bytes;
//     es_dataset_destroy(&dataset);
#ifndef ES_DATA_DATASET_H
#define ES_DATA_DATASET_H

#include <stddef.h>

#include "base/checksum.h"
#include "base/macros.h"
#include "base/thread_pool.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

#define ES_DATASET_MAX_CHANNELS 4
#define ES_DATASET_NAME_BYTES   32

// M images in all, C channels, height H, width W.
typedef struct EsSplit {
    uint8_t *images; // borrowed from the data set     [count, C, H, W]
    uint8_t *labels; // borrowed from the data set     [count]
    int64_t count;
} EsSplit;

typedef struct EsDataset {
    char name[ES_DATASET_NAME_BYTES];
    int n_channels;
    int height;
    int width;
    int n_classes;
    const char *const
        *class_names;   // borrowed, static    [n_classes]; NULL when the classes have no names
    size_t image_bytes; // C H W
    int64_t n_images;   // M
    uint8_t *images;    // owned               [M, C, H, W]
    uint8_t *labels;    // owned               [M], each below n_classes
    EsSplit train, validation, test;

    // of pixel / 255 over the train images; a channel that never changes has std 1
    float mean[ES_DATASET_MAX_CHANNELS]; // [C]
    float std[ES_DATASET_MAX_CHANNELS];  // [C]
} EsDataset;

// Everything zero is a sensible choice.
typedef struct EsDatasetOptions {
    uint64_t seed;   // generated sets: which images
    int64_t n_train; // 0: the default of the set; for files the most there is
    int64_t
        n_validation;   // 0: the default of the set; for files the last tenth of the training file
    int64_t n_test;     // 0: the default of the set; for files the most there is
    const char *folder; // file sets: where the files lie; borrowed during the call
    int n_classes;      // idx: labels must be below it; 0: 10
    int allows_short_files; // cifar10: files may hold fewer than 10,000 records, for tests and
                            // samples
} EsDatasetOptions;

// Make the data set of that name: "tiny", "generated", "cifar10" or "idx". The pool is borrowed
// during the call and may be NULL. On failure nothing is kept and *dataset is empty.
EsStatus es_dataset_create(EsDataset *dataset, const char *name, const EsDatasetOptions *options,
                           EsThreadPool *pool);

typedef enum EsGeneratedKind {
    ES_GENERATED_TINY,     // 16 x 16 x 1, by default 8,000 / 2,000 / 2,000 images
    ES_GENERATED_STANDARD, // 32 x 32 x 3, by default 20,000 / 4,000 / 4,000 images
} EsGeneratedKind;

// Draw a generated data set (generated_images.h). The images depend on the kind and the seed alone:
// a smaller set is the beginning of a larger one, and the number of threads changes nothing.
EsStatus es_dataset_generate(EsDataset *dataset, EsGeneratedKind kind,
                             const EsDatasetOptions *options, EsThreadPool *pool);

// Read CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin, in
// options->folder or in its sub-folder cifar-10-batches-bin. The last tenth of the training records
// is the validation set.
EsStatus es_dataset_load_cifar10(EsDataset *dataset, const EsDatasetOptions *options);

// Read four uncompressed IDX files (MNIST, Fashion-MNIST, ...): train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte in options->folder;
// "train-images.idx3-ubyte" and so on also do. The last tenth of the training images is the
// validation set.
EsStatus es_dataset_load_idx(EsDataset *dataset, const EsDatasetOptions *options);

// SHA-256 of sizes, images and labels: two sets with the same are the same to a network. Reads all
// of it, about a tenth of a second for CIFAR-10.
void es_dataset_fingerprint(const EsDataset *dataset, char text[ES_SHA256_TEXT_BYTES]);

// A few lines of text: sizes, classes, normalisation. Cut to fit, always terminated.
void es_dataset_describe(const EsDataset *dataset, char *text, size_t text_bytes);

void es_dataset_destroy(EsDataset *dataset);

ES_EXTERN_C_END

#endif
