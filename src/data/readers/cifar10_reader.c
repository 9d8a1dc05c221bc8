// CIFAR-10 in its binary version: records of one label byte and 3 x 32 x 32 pixels.
#include <string.h>
#include <unistd.h>

#include "data/dataset_internal.h"

// The binary version: files of 3,073-byte records, one label byte and then 3 planes of 32 x 32
// bytes (red, green, blue).
#define IMAGE_BYTES      3072
#define RECORD_BYTES     3073
#define RECORDS_PER_FILE 10000
#define N_CLASSES        10
#define N_TRAINING_FILES 5
#define N_FILES          6

static const char *const file_names[N_FILES] = {"data_batch_1.bin", "data_batch_2.bin",
                                                "data_batch_3.bin", "data_batch_4.bin",
                                                "data_batch_5.bin", "test_batch.bin"};

static const char *const class_names[N_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

// The folder itself, or its sub-folder of the archive's name when the first file lies there.
static EsStatus find_folder(const char *given, char folder[ES_DATA_PATH_BYTES]) {
    char candidate[ES_DATA_PATH_BYTES];
    ES_TRY(es_data_path_join(candidate, given, "cifar-10-batches-bin/data_batch_1.bin"));
    if (access(candidate, F_OK) == 0) {
        return es_data_path_join(folder, given, "cifar-10-batches-bin");
    }
    int length = snprintf(folder, ES_DATA_PATH_BYTES, "%s", given);
    ES_ASSERT(length < ES_DATA_PATH_BYTES); // the longer path above did fit
    return ES_STATUS_OK;
}

static EsStatus count_records(const EsDataFile *file, int allows_short_files, int64_t *n_records) {
    long long size = (long long)file->size_bytes;
    if (size == 0) {
        return ES_FAIL(INPUT, "%s: empty, expected %d records of %d bytes", file->path,
                       RECORDS_PER_FILE, RECORD_BYTES);
    }
    if (size % RECORD_BYTES != 0) {
        return ES_FAIL(INPUT,
                       "%s: %lld bytes are %lld records of %d bytes and %lld bytes more (from "
                       "offset %lld); the file "
                       "is truncated or not CIFAR-10's binary version",
                       file->path, size, size / RECORD_BYTES, RECORD_BYTES, size % RECORD_BYTES,
                       size / RECORD_BYTES * RECORD_BYTES);
    }
    *n_records = size / RECORD_BYTES;
    if (*n_records > RECORDS_PER_FILE || (*n_records < RECORDS_PER_FILE && !allows_short_files)) {
        return ES_FAIL(INPUT, "%s: %lld records in %lld bytes, expected %d records in %d bytes",
                       file->path, (long long)*n_records, size, RECORDS_PER_FILE,
                       RECORDS_PER_FILE * RECORD_BYTES);
    }
    return ES_STATUS_OK;
}

// Read the next n_records of a file into consecutive places of a data set. first_record is for
// messages.
static EsStatus read_records(EsDataFile *file, int64_t first_record, int64_t n_records,
                             uint8_t *images, uint16_t *labels) {
    uint8_t record[RECORD_BYTES];
    for (int64_t i = 0; i < n_records; i++) {
        ES_TRY(es_data_file_read(file, record, sizeof record));
        if (record[0] >= N_CLASSES) {
            return ES_FAIL(INPUT, "%s: record %lld (offset %lld) has label %d, expected 0 to %d",
                           file->path, (long long)(first_record + i),
                           (long long)(first_record + i) * RECORD_BYTES, record[0], N_CLASSES - 1);
        }
        labels[i] = record[0];
        memcpy(images + i * IMAGE_BYTES, record + 1, IMAGE_BYTES);
    }
    return ES_STATUS_OK;
}

// Training record r goes to place r while r < train, and counted from the end to the validation
// set; records in between are skipped when fewer images were asked for.
static EsStatus read_training_files(EsDataFile *files, const int64_t *n_records, int64_t n_training,
                                    EsDataset *dataset) {
    int64_t n_train = dataset->train.count;
    int64_t validation_first = n_training - dataset->validation.count;
    int64_t file_first = 0;
    for (int f = 0; f < N_TRAINING_FILES; f++) {
        int64_t file_end = file_first + n_records[f];
        int64_t train_end = ES_MIN(file_end, n_train);
        int64_t n_read = 0; // records of this file that are behind us
        if (train_end > file_first) {
            n_read = train_end - file_first;
            ES_TRY(read_records(&files[f], 0, n_read,
                                dataset->train.images + file_first * IMAGE_BYTES,
                                dataset->train.labels + file_first));
        }
        int64_t first = ES_MAX(file_first, validation_first);
        if (first < file_end) {
            int64_t place = first - validation_first;
            ES_TRY(es_data_file_skip(&files[f], (first - file_first - n_read) * RECORD_BYTES));
            ES_TRY(read_records(&files[f], first - file_first, file_end - first,
                                dataset->validation.images + place * IMAGE_BYTES,
                                dataset->validation.labels + place));
        }
        file_first = file_end;
    }
    return ES_STATUS_OK;
}

EsStatus es_dataset_load_cifar10(EsDataset *dataset, const EsDatasetOptions *options) {
    memset(dataset, 0, sizeof *dataset);
    if (options->folder == NULL) {
        return ES_FAIL(ARGUMENT,
                       "cifar10 needs the folder that holds data_batch_1.bin and its siblings");
    }
    char folder[ES_DATA_PATH_BYTES];
    ES_TRY(find_folder(options->folder, folder));

    EsStatus status = ES_STATUS_OK;
    EsDataFile files[N_FILES];
    memset(files, 0, sizeof files);
    int64_t n_records[N_FILES];
    int64_t n_training = 0;
    for (int f = 0; f < N_FILES; f++) {
        char path[ES_DATA_PATH_BYTES];
        ES_TRY_GOTO(es_data_path_join(path, folder, file_names[f]));
        ES_TRY_GOTO(es_data_file_open(&files[f], path));
        ES_TRY_GOTO(count_records(&files[f], options->allows_short_files, &n_records[f]));
        n_training += f < N_TRAINING_FILES ? n_records[f] : 0;
    }
    int64_t counts[3];
    const int shape[3] = {3, 32, 32};
    ES_TRY_GOTO(
        es_dataset_count_splits(options, folder, n_training, n_records[N_TRAINING_FILES], counts));
    ES_TRY_GOTO(es_dataset_allocate(dataset, "cifar10", shape, N_CLASSES, counts));
    ES_TRY_GOTO(es_names_copy(class_names, N_CLASSES, &dataset->class_names));
    ES_TRY_GOTO(read_training_files(files, n_records, n_training, dataset));
    ES_TRY_GOTO(read_records(&files[N_TRAINING_FILES], 0, counts[2], dataset->test.images,
                             dataset->test.labels));
    es_dataset_measure(dataset);
done:
    for (int f = 0; f < N_FILES; f++) {
        es_data_file_close(&files[f]);
    }
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}
