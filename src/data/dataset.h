// Data sets: inputs, labels and the constants that normalise the inputs, split into train,
// validation and test samples.
//
// Inputs are images of bytes or rows of numbers. All samples lie in one block, train first, then
// validation, then test, so one copy brings a set to a device. A data set does not change after its
// creation and may be read by any number of threads.
//
//     EsDatasetOptions options = {.seed = 7};
//     EsDataset dataset;
//     ES_TRY(es_dataset_open(&dataset, "tiny", &options, NULL));
//     const uint8_t *third_image = dataset.train.images + 2 * dataset.image_bytes;
//     es_dataset_destroy(&dataset);
#ifndef ES_DATA_DATASET_H
#define ES_DATA_DATASET_H

#include <stddef.h>

#include "base/checksum.h"
#include "base/macros.h"
#include "base/thread_pool.h"
#include "esper/data.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

#define ES_DATASET_MAX_CHANNELS 4 // of images; rows may have more columns
#define ES_DATASET_MAX_COLUMNS  65536
#define ES_DATASET_MAX_CLASSES  65535 // so that one 16-bit label is always out of range
#define ES_DATASET_NAME_BYTES   32

typedef enum EsDatasetKind {
    ES_DATASET_IMAGES, // u8 [M, C, H, W]
    ES_DATASET_ROWS,   // f32 [M, D]; to the engine an image of D channels and 1 x 1 pixels
} EsDatasetKind;

// M samples in all; images of C channels, height H, width W; rows of D columns.
typedef struct EsSplit {
    uint8_t *images;  // borrowed from the data set     [count, C, H, W]; NULL in a set of rows
    uint16_t *labels; // borrowed from the data set     [count]
    int64_t count;
} EsSplit;

// The images as they were before they were scaled to one size.
typedef struct EsImageSizes {
    int smallest[2]; // width and height of the image with the fewest pixels
    int median_side; // of the longer sides
    int largest[2];  // width and height of the image with the most pixels
} EsImageSizes;

typedef struct EsDataset {
    char name[ES_DATASET_NAME_BYTES];
    EsDatasetKind kind;
    int n_channels; // C; D in a set of rows
    int height;     // 1 in a set of rows
    int width;      // 1 in a set of rows
    int n_classes;
    const char *const *class_names; // owned, one block    [n_classes]; NULL: they have no names
    size_t image_bytes;             // of a sample: C H W, or 4 D
    int64_t n_images;               // M
    uint8_t *images;                // owned               [M, C, H, W]; NULL in a set of rows
    float *rows;                    // owned, normalised   [M, D]; NULL in a set of images
    uint16_t *labels;               // owned               [M], each below n_classes
    EsSplit train, validation, test;

    // images: of pixel / 255 over the train images; a channel that never changes has std 1
    float mean[ES_DATASET_MAX_CHANNELS]; // [C]
    float std[ES_DATASET_MAX_CHANNELS];  // [C]
    int is_fitted;      // images were scaled and letter-boxed to height x width (data/image.h)
    EsImageSizes sizes; // of images as they were found

    // rows: a value is (column - column_mean) / column_std, both measured over the train rows; a
    // column that never changes has std 1
    float *column_mean;              // owned               [D]
    float *column_std;               // owned               [D]
    const char *const *column_names; // owned, one block    [D]; NULL: they have no names
} EsDataset;

// Everything zero is a sensible choice.
typedef struct EsDatasetOptions {
    uint64_t seed;   // generated sets: which images; sets without splits of their own: the split
    int64_t n_train; // 0: the default of the set; for files the most there is
    int64_t n_validation; // 0: the default of the set; for files a tenth of the training samples
    int64_t n_test;       // 0: the default of the set; for files the most there is, or a tenth
    const char *folder;   // cifar10, idx: where the files lie; borrowed during the call
    int n_classes;        // idx: labels must be below it; 0: 10
    int image_size;       // folders of images: side of the square they are fitted to; 0: the median
                          // of their longer sides, at most ES_IMAGE_DEFAULT_SIDE
    double validation_share; // of samples without a split of their own; 0: a tenth
    double test_share;       // of samples without a split of their own; 0: a tenth
    const char *label;      // csv: name of the label's column, or its number from 0; NULL: the last
    const char *labels;     // npy: file of the labels; NULL: y for x, labels for images or data
    int allows_short_files; // cifar10: files may hold fewer than 10,000 records, for tests and
                            // samples
} EsDatasetOptions;

// The data set of a run, as its configuration names it.
typedef struct EsDataSettings {
    char name[1024];   // a name or a path; "" = the task's
    char folder[1024]; // of cifar10 and idx, "" = ES_DATA_DIR
    int seed;          // of a generated set, or of a split
    int image_size;    // 0 = as the data set says
    char label[128];   // of tables, "" = the last column
    char labels[1024]; // of arrays, "" = found by their name
} EsDataSettings;

// Keys of a configuration for data `m` in settings of type T, in the run's own section.
#define ES_DATA_CONFIG_KEYS(T, m, section, data_help)                                              \
    ES_CONFIG_TEXT(T, m.name, section, "data", "", data_help),                                     \
        ES_CONFIG_TEXT(T, m.folder, section, "folder", "",                                         \
                       "folder of the cifar10 or idx files (empty: ES_DATA_DIR)"),                 \
        ES_CONFIG_INT(T, m.seed, section, "data_seed", "1", 0, 2147483647,                         \
                      "seed of a generated data set, or of a split"),                              \
        ES_CONFIG_INT(T, m.image_size, section, "image_size", "0", 0, 256,                         \
                      "side that images are fitted to, 0 = their median side, at most 64"),        \
        ES_CONFIG_TEXT(T, m.label, section, "label", "",                                           \
                       "column of the labels in a table, by name or number (empty: the last)"),    \
        ES_CONFIG_TEXT(T, m.labels, section, "labels", "",                                         \
                       "file of the labels of a .npy array (empty: found by its name)")

// Everything but the name, which goes to es_dataset_open; texts are borrowed from the settings.
EsDatasetOptions es_data_settings_options(const EsDataSettings *settings);

// Open the data set that `text` names: "tiny", "generated", "cifar10", "idx", "fashion-mnist", or a
// path. The pool is borrowed during the call and may be NULL. On failure nothing is kept and
// *dataset is empty.
EsStatus es_dataset_open(EsDataset *dataset, const char *text, const EsDatasetOptions *options,
                         EsThreadPool *pool);

// Makes a data set of a copy of the arrays, split and normalised as files without splits are.
// ARGUMENT says which label, number or size cannot be.
EsStatus es_dataset_copy(EsDataset *dataset, const EsDataArrays *arrays,
                         const EsDatasetOptions *options);

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

// Read four IDX files, plain or packed (.gz) (MNIST, Fashion-MNIST, ...): train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte in options->folder;
// "train-images.idx3-ubyte" and so on also do. The last tenth of the training images is the
// validation set.
EsStatus es_dataset_load_idx(EsDataset *dataset, const EsDatasetOptions *options);

// Number in the data set of the first sample of one of its splits.
static inline int64_t es_split_first(const EsDataset *dataset, const EsSplit *split) {
    return split->labels - dataset->labels;
}

// SHA-256 of sizes, inputs and labels: two sets with the same are the same to a network. Reads all
// of it, about a tenth of a second for CIFAR-10.
void es_dataset_fingerprint(const EsDataset *dataset, char text[ES_SHA256_TEXT_BYTES]);

// A few lines of text: sizes, classes, normalisation. Cut to fit, always terminated.
void es_dataset_describe(const EsDataset *dataset, char *text, size_t text_bytes);

void es_dataset_destroy(EsDataset *dataset);

ES_EXTERN_C_END

#endif
