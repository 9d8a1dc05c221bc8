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

// A data file that is read from front to back.
typedef struct EsDataFile {
    FILE *stream; // owned
    char path[ES_DATA_PATH_BYTES];
    int64_t size_bytes;
} EsDataFile;

// Join folder and name; too long a path is an ARGUMENT failure.
EsStatus es_data_path_join(char path[ES_DATA_PATH_BYTES], const char *folder, const char *name);

// Open a regular file. A missing one is an IO failure; where only path.gz exists, the message says
// to gunzip it.
EsStatus es_data_file_open(EsDataFile *file, const char *path);
void es_data_file_close(EsDataFile *file);

// Read exactly n_bytes, or fail with the path and the offset.
EsStatus es_data_file_read(EsDataFile *file, void *bytes, size_t n_bytes);

// Move on by n_bytes without reading them.
EsStatus es_data_file_skip(EsDataFile *file, int64_t n_bytes);

ES_EXTERN_C_END

#endif
