// Data sets for programs of your own: open one by its name or path as `esper fit --data` does, or
// make one of samples in memory; see its samples counted and its inputs measured, draw its images
// as one picture.
//
// An EsData does not change once it is open; any number of threads may look at it. A failing call
// returns its status and leaves a text (es_status_detail).
//
//     ES_TRY_GOTO(es_data_open("photos/", NULL, &data));
//     const EsDataInfo *info = es_data_info(data);
//     ES_TRY_GOTO(es_data_write_sheet(data, "photos.png"));
//     es_data_close(data);
//
// N samples, C channels or columns, H, W height and width, K classes.
#ifndef ESPER_DATA_H
#define ESPER_DATA_H

#include <stdint.h>

#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ES_DATA_IMAGE_SIZE_MAX 1024
#define ES_DATA_SHEET_COLUMNS  12  // images of a class on a sheet
#define ES_DATA_SHEET_CLASSES  100 // classes on a sheet, a row for each
#define ES_DATA_HASH_BYTES     65  // of a fingerprint, with its end

// Everything zero is a sensible choice. Texts are borrowed during the call.
typedef struct EsDataOptions {
    uint64_t seed;      // of generated images, and of the split where a set has none
    const char *folder; // cifar10, idx: where the files lie
    int image_size;     // side of the square that images are fitted to; 0: the median, at most 64
    double validation_share, test_share; // of each class where a set has no splits; 0: a tenth
    const char *label;  // csv: name of the label's column, or its number from 0; NULL: the last
    const char *labels; // npy: file of the labels; NULL: y for x, labels for images or data
    int n_threads;      // that read; 0: one per processor
} EsDataOptions;

typedef enum EsDataSplit {
    ES_DATA_TRAIN,
    ES_DATA_VALIDATION,
    ES_DATA_TEST,
    ES_N_DATA_SPLITS
} EsDataSplit;

typedef struct EsDataInfo {
    const char *name;
    int is_rows;       // rows of numbers, else images of bytes
    int n_channels;    // C
    int height, width; // 1 of rows
    int n_classes;
    int64_t n_samples, n_of_split[ES_N_DATA_SPLITS];
    const int64_t (*n_of_class)[ES_N_DATA_SPLITS]; // [K]
    const char *const *class_names;                // [K]: numbers where they have no names
    const char *const *column_names;               // rows [C]; NULL: they have no names
    const float *least, *most; // [C] over the training samples: pixels, columns as measured
    const float *mean, *std;   // [C] that normalise: of pixel / 255, of columns as measured
    int is_fitted;             // images were scaled and letter-boxed to H x W
    int smallest[2], median_side, largest[2]; // images as found: width and height; longer side
} EsDataInfo;

typedef struct EsData EsData;

// `source` is tiny, generated, cifar10, idx, fashion-mnist or a path (docs/data.md); options may be
// NULL.
ES_API EsStatus es_data_open(const char *source, const EsDataOptions *options, EsData **data);

// Samples in memory, borrowed during the call: either pixels or rows.
typedef struct EsDataArrays {
    const char *name;      // up to 31 bytes
    const uint8_t *pixels; // [N, C, H, W]; NULL: rows
    const float *rows;     // [N, C], columns as measured; NULL: images
    const int32_t *labels; // [N], 0 to K - 1
    int64_t n;             // N
    int n_channels;        // C, 1 to 4 of images
    int height, width;     // of images; other shapes than squares are letter-boxed
    int n_classes;
    const char *const *class_names;  // [K]; NULL: their numbers
    const char *const *column_names; // of rows [C]; NULL: they have no names
} EsDataArrays;

// The samples are copied, and split by the options' seed and shares, each class alike; options may
// be NULL. ARGUMENT says which label, number or size cannot be; INPUT when a class has too few
// samples to split.
ES_API EsStatus es_data_copy(const EsDataArrays *arrays, const EsDataOptions *options,
                             EsData **data);
ES_API void es_data_close(EsData *data); // accepts NULL

// Valid until the set is closed.
ES_API const EsDataInfo *es_data_info(const EsData *data);

// SHA-256 of sizes, inputs and labels. Reads all of them.
ES_API void es_data_fingerprint(const EsData *data, char text[ES_DATA_HASH_BYTES]);

// Writes a PNG with the first training images of each class. ARGUMENT for a set of rows.
ES_API EsStatus es_data_write_sheet(const EsData *data, const char *path);

#ifdef __cplusplus
}
#endif

#endif
