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

// A table, or one per split: files [train, validation, test], all but the first nullable, with the
// same columns. `path` names the set.
EsStatus es_dataset_load_csv(EsDataset *dataset, const char *path, const char *const files[3],
                             const EsDatasetOptions *options);
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

// Fails when a packed file goes on behind the bytes read so far.
EsStatus es_data_file_end(EsDataFile *file);

// --- arrays: npy_reader.c ---

// The header of a NumPy .npy array: type and shape, as a Python dictionary in front of the values,
// which follow in C order. Files are not trusted: INPUT names the fault.
//
//     EsNpyHeader header; ES_TRY(es_npy_header_read(&file, &header));
//     ES_TRY(es_npy_header_expect(&header, &file)); // as many values as it says
//     ES_TRY(es_data_file_read(&file, values, n * (size_t)header.item_bytes));
//     double value = es_npy_value(&header, values, i);
#define ES_NPY_MAX_RANK 4
typedef struct EsNpyHeader {
    char kind;      // 'u', 'i': whole numbers; 'f': real ones
    int item_bytes; // of a value: 1, 2, 4, 8; real ones 4, 8
    int rank;       // 1 to ES_NPY_MAX_RANK
    int64_t dim[ES_NPY_MAX_RANK];
    int64_t n_values;     // of all axes; their bytes can be counted
    int64_t header_bytes; // where the values begin
} EsNpyHeader;

// Reads the header at the front of an open file, up to the first value.
EsStatus es_npy_header_read(EsDataFile *file, EsNpyHeader *header);

// INPUT unless the file can have as many values as the header says (es_data_file_expect).
EsStatus es_npy_header_expect(const EsNpyHeader *header, const EsDataFile *file);

// Value i of those in memory; es_npy_whole of whole numbers, whose bits it keeps.
double es_npy_value(const EsNpyHeader *header, const void *values, int64_t i);
int64_t es_npy_whole(const EsNpyHeader *header, const void *values, int64_t i);

// --- tables: csv_reader.c ---

// Text tables, record by record: values separated by commas, semicolons or tabs, fields in quotes
// where they hold one, a header or none. Files are not trusted: INPUT says the line and column.
//
//     EsCsvText csv; ES_TRY_GOTO(es_csv_open(&csv, path));
//     ES_TRY_GOTO(es_csv_next(&csv, &is_end)); // csv.fields [csv.n_columns]
//     ES_TRY_GOTO(es_csv_number(&csv, column, NULL, &value));
//     done: es_csv_close(&csv);
typedef struct EsCsvText {
    const char *path;        // borrowed
    char *text, *next, *end; // owned: the file; records are cut into fields where they stand
    char separator;
    int64_t line; // of `next`, from 1
    // the record at hand
    int64_t record_line; // where it begins
    char **fields;       // owned [n_fields]: texts in `text`, without blanks around them
    int n_fields, fields_capacity;
    int n_columns; // of the first record, and so of all; 0 before it
} EsCsvText;

// Reads the file and finds the separator: the one that the first line has most of. After a failure
// es_csv_close is due, too.
EsStatus es_csv_open(EsCsvText *csv, const char *path);
void es_csv_close(EsCsvText *csv);

// Cuts the next record into fields, as many as the first one has. *is_end: there is none. Empty
// lines are passed over. Fields stay valid until es_csv_close.
EsStatus es_csv_next(EsCsvText *csv, int *is_end);

// Returns whether the record at hand names columns: no field but that of the label (-1: there is
// none) is a number, and not all are empty.
int es_csv_is_header(const EsCsvText *csv, int label);

// A field of the record at hand; INPUT when it is empty, and, as a number, unless it is a finite
// decimal one: digits, point, sign, exponent. `name` of the column, nullable, is for messages.
EsStatus es_csv_field(const EsCsvText *csv, int column, const char *name, const char **text);
EsStatus es_csv_number(const EsCsvText *csv, int column, const char *name, float *value);

ES_EXTERN_C_END

#endif
