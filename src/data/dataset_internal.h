// Parts shared by the makers of data sets. Nothing outside src/data includes this.
#ifndef ES_DATA_DATASET_INTERNAL_H
#define ES_DATA_DATASET_INTERNAL_H

#include <stdio.h>

#include "data/dataset.h"

ES_EXTERN_C_BEGIN

// the longest path that is read, terminator included
#define ES_DATA_PATH_BYTES 4096

// Fill the fields that describe a set of images [C, H, W] and allocate room for all images and
// labels, zeroed. dataset must be empty.
EsStatus es_dataset_allocate(EsDataset *dataset, const char *name, const int shape[3],
                             int n_classes, const int64_t counts[3]);

// The same for a set of rows.
EsStatus es_dataset_allocate_rows(EsDataset *dataset, const char *name, int n_columns,
                                  int n_classes, const int64_t counts[3]);

// Copy n names (any text without zero bytes) into one block, which es_release frees.
EsStatus es_names_copy(const char *const *names, int64_t n, const char *const **copy);

// Set mean and std from the train images. The sums are integers, so they are exact in any order.
void es_dataset_measure(EsDataset *dataset);

// Sets mean and deviation of the columns from the train rows, which hold plain values so far, and
// normalises all rows. Sums are taken in f64, row after row.
void es_dataset_normalise_rows(EsDataset *dataset);

// Decides how many of n_training_file and n_test_file images go into train, validation and test: as
// the options ask, else the last tenth for validation (rounded up) and the rest for training.
// `folder` is for messages.
EsStatus es_dataset_count_splits(const EsDatasetOptions *options, const char *folder,
                                 int64_t n_training_file, int64_t n_test_file, int64_t counts[3]);

// Shares samples out over the splits. own [n] (nullable) is the split that a sample comes in: 0
// training, 1 validation, 2 test; a split that has none takes its share of the training samples,
// class by class, so that a class with three samples or more is in all of them. Each split is then
// mixed, so that its beginning is a sample of the whole. Everything follows from the seed and from
// the order of the samples. *order [n] is released by the caller: sample (*order)[i] goes to place
// i. INPUT when a class has no training sample or a split is empty; `path` and `class_names` are
// for messages.
EsStatus es_dataset_share_out(const EsDatasetOptions *options, const char *path,
                              const uint16_t *labels, const uint8_t *own, int64_t n, int n_classes,
                              const char *const *class_names, int64_t **order, int64_t counts[3]);

// Numbers n labels that are texts: the classes are the distinct ones, in the order of their bytes,
// or of their values where all are whole numbers. INPUT when there are fewer than 2 or more than
// ES_DATASET_MAX_CLASSES. *class_names (one block) and *labels [n] are released by the caller.
EsStatus es_dataset_number_labels(const char *path, const char *const *texts, int64_t n,
                                  uint16_t **labels, const char *const **class_names,
                                  int *n_classes);

// Name of a data set that is read from `path`: the last part of it, cut to fit.
void es_dataset_name_of(const char *path, char name[ES_DATASET_NAME_BYTES]);

// --- readers ---

EsStatus es_dataset_load_csv(EsDataset *dataset, const char *path, const EsDatasetOptions *options);
EsStatus es_dataset_load_npy(EsDataset *dataset, const char *path, const EsDatasetOptions *options);
EsStatus es_dataset_load_folder(EsDataset *dataset, const char *path,
                                const EsDatasetOptions *options, EsThreadPool *pool);

// es_dataset_load_idx's n_classes: as many as the largest label says.
#define ES_DATASET_COUNT_CLASSES (-1)

// --- files ---

typedef struct gzFile_s EsPackedFile; // zlib's own name

// A data file that is read from front to back.
typedef struct EsDataFile {
    FILE *stream;         // owned
    EsPackedFile *packed; // owned; NULL in a plain file
    char path[ES_DATA_PATH_BYTES];
    int64_t size_bytes; // on disk
    int64_t offset;     // of the next byte, unpacked
    int is_packed;      // by gzip
} EsDataFile;

// Join folder and name; too long a path is an ARGUMENT failure.
EsStatus es_data_path_join(char path[ES_DATA_PATH_BYTES], const char *folder, const char *name);

// Open a regular file, plain or packed by gzip. A missing one is an INPUT failure.
EsStatus es_data_file_open(EsDataFile *file, const char *path);
void es_data_file_close(EsDataFile *file);

// Read exactly n_bytes, or fail with the path and the offset.
EsStatus es_data_file_read(EsDataFile *file, void *bytes, size_t n_bytes);

// Move on by n_bytes without reading them.
EsStatus es_data_file_skip(EsDataFile *file, int64_t n_bytes);

// Fails unless the file can have the n_bytes that its header announces, unpacked: a plain file must
// have that size; a packed one must be large enough to unpack to it, so that nobody allocates what
// was only claimed.
EsStatus es_data_file_expect(const EsDataFile *file, const char *items, int64_t n_items,
                             int64_t n_bytes);

// Fail when a packed file goes on behind what was read.
EsStatus es_data_file_end(EsDataFile *file);

ES_EXTERN_C_END

#endif
