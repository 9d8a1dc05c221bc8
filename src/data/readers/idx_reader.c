// IDX files, as MNIST and its kin come, plain or packed by gzip: a magic number, big-endian
// dimensions, then bytes.
#include <string.h>
#include <unistd.h>

#include "data/dataset_internal.h"

// An IDX file of bytes: two zeros, the type 0x08, the number of dimensions, each dimension as 4
// bytes with the highest first, then the values.
#define TYPE_U8         0x08
#define MAX_DIMENSIONS  3
#define MAX_IMAGE_SIZE  4096
#define DEFAULT_CLASSES 10
#define MAX_CLASSES     256

// the four files, in the order they are read; some archives unpack to the second spelling
enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, N_FILES };
static const char *const file_names[N_FILES][2] = {
    {"train-images-idx3-ubyte", "train-images.idx3-ubyte"},
    {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"},
    {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"},
    {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"}};

typedef struct IdxFile {
    EsDataFile file;
    int64_t dimension[MAX_DIMENSIONS]; // count, then height and width for images
} IdxFile;

// The first of the spellings that is there, plain before packed; else the first of all.
static EsStatus find_path(char path[ES_DATA_PATH_BYTES], const char *folder,
                          const char *const names[2]) {
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", names[1 - i % 2], i < 2 ? "" : ".gz");
        ES_TRY(es_data_path_join(path, folder, name));
        if (access(path, F_OK) == 0) {
            return ES_STATUS_OK;
        }
    }
    return es_data_path_join(path, folder, names[0]);
}

static EsStatus read_header(IdxFile *idx, int n_dimensions) {
    EsDataFile *file = &idx->file;
    size_t header_bytes = 4 + 4 * (size_t)n_dimensions;
    if (file->size_bytes == 0) {
        return ES_FAIL(INPUT, "%s: empty, expected an IDX header of %zu bytes", file->path,
                       header_bytes);
    }
    uint8_t magic[4];
    ES_TRY(es_data_file_read(file, magic, sizeof magic));
    if (magic[0] != 0 || magic[1] != 0 || magic[2] != TYPE_U8 || magic[3] != n_dimensions) {
        return ES_FAIL(INPUT,
                       "%s: starts with %02x %02x %02x %02x, expected 00 00 %02x %02x (bytes in %d "
                       "dimensions)",
                       file->path, magic[0], magic[1], magic[2], magic[3], TYPE_U8, n_dimensions,
                       n_dimensions);
    }
    for (int i = 0; i < n_dimensions; i++) {
        uint8_t b[4];
        ES_TRY(es_data_file_read(file, b, sizeof b));
        idx->dimension[i] =
            (int64_t)((uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]);
        int64_t limit = i == 0 ? INT32_MAX : MAX_IMAGE_SIZE;
        if (idx->dimension[i] == 0 || idx->dimension[i] > limit) {
            return ES_FAIL(INPUT, "%s: dimension %d (offset %d) is %lld, expected 1 to %lld",
                           file->path, i + 1, 4 + 4 * i, (long long)idx->dimension[i],
                           (long long)limit);
        }
    }
    // 2^31 images of 2^24 bytes: no overflow
    int64_t expected = (int64_t)header_bytes + idx->dimension[0];
    if (n_dimensions == 3) {
        expected =
            (int64_t)header_bytes + idx->dimension[0] * idx->dimension[1] * idx->dimension[2];
    }
    return es_data_file_expect(file, "items", idx->dimension[0], expected);
}

static EsStatus open_files(IdxFile files[N_FILES], const char *folder) {
    for (int f = 0; f < N_FILES; f++) {
        char path[ES_DATA_PATH_BYTES];
        ES_TRY(find_path(path, folder, file_names[f]));
        ES_TRY(es_data_file_open(&files[f].file, path));
        ES_TRY(read_header(&files[f], f == TRAIN_IMAGES || f == TEST_IMAGES ? 3 : 1));
    }
    for (int f = TRAIN_IMAGES; f < N_FILES; f += 2) {
        if (files[f].dimension[0] != files[f + 1].dimension[0]) {
            return ES_FAIL(INPUT, "%s: %lld labels for the %lld images of %s",
                           files[f + 1].file.path, (long long)files[f + 1].dimension[0],
                           (long long)files[f].dimension[0], files[f].file.path);
        }
    }
    const int64_t *train = files[TRAIN_IMAGES].dimension, *test = files[TEST_IMAGES].dimension;
    if (train[1] != test[1] || train[2] != test[2]) {
        return ES_FAIL(INPUT, "%s: images of %lld x %lld, expected %lld x %lld as in %s",
                       files[TEST_IMAGES].file.path, (long long)test[1], (long long)test[2],
                       (long long)train[1], (long long)train[2], files[TRAIN_IMAGES].file.path);
    }
    return ES_STATUS_OK;
}

// Reads images and labels `first` to `first + split->count` of a pair of files; earlier records are
// skipped. *position, the next record of the pair, is advanced.
static EsStatus read_split(IdxFile *images, IdxFile *labels, int64_t *position, int64_t first,
                           int n_classes, EsSplit *split) {
    int64_t image_bytes = images->dimension[1] * images->dimension[2];
    ES_TRY(es_data_file_skip(&images->file, (first - *position) * image_bytes));
    ES_TRY(es_data_file_skip(&labels->file, first - *position));
    ES_TRY(es_data_file_read(&images->file, split->images, (size_t)(split->count * image_bytes)));
    *position = first + split->count;
    // labels are bytes in the file: read them into the second half, widen from the front
    uint8_t *bytes = (uint8_t *)(split->labels + split->count) - split->count;
    ES_TRY(es_data_file_read(&labels->file, bytes, (size_t)split->count));
    for (int64_t i = 0; i < split->count; i++) {
        split->labels[i] = bytes[i];
        if (split->labels[i] >= n_classes) {
            return ES_FAIL(INPUT, "%s: label %lld (offset %lld) is %d, expected 0 to %d",
                           labels->file.path, (long long)(first + i), (long long)(first + i + 8),
                           split->labels[i], n_classes - 1);
        }
    }
    return ES_STATUS_OK;
}

static int count_classes(const EsDataset *dataset) {
    int largest = 1;
    for (int64_t i = 0; i < dataset->n_images; i++) {
        largest = ES_MAX(largest, dataset->labels[i]);
    }
    return largest + 1;
}

EsStatus es_dataset_load_idx(EsDataset *dataset, const EsDatasetOptions *options) {
    memset(dataset, 0, sizeof *dataset);
    if (options->folder == NULL) {
        return ES_FAIL(ARGUMENT,
                       "idx needs the folder that holds train-images-idx3-ubyte and its siblings");
    }
    int is_counted = options->n_classes == ES_DATASET_COUNT_CLASSES;
    int n_classes = is_counted ? MAX_CLASSES : options->n_classes;
    n_classes = n_classes != 0 ? n_classes : DEFAULT_CLASSES;
    if (n_classes < 2 || n_classes > MAX_CLASSES) {
        return ES_FAIL(ARGUMENT, "%d classes, expected 2 to %d", n_classes, MAX_CLASSES);
    }

    EsStatus status = ES_STATUS_OK;
    IdxFile files[N_FILES];
    memset(files, 0, sizeof files);
    ES_TRY_GOTO(open_files(files, options->folder));

    const int64_t *dimension = files[TRAIN_IMAGES].dimension;
    int64_t counts[3];
    int shape[3] = {1, (int)dimension[1], (int)dimension[2]};
    ES_TRY_GOTO(es_dataset_count_splits(options, options->folder, dimension[0],
                                        files[TEST_IMAGES].dimension[0], counts));
    ES_TRY_GOTO(es_dataset_allocate(dataset, "idx", shape, n_classes, counts));
    int64_t position = 0;
    ES_TRY_GOTO(read_split(&files[TRAIN_IMAGES], &files[TRAIN_LABELS], &position, 0, n_classes,
                           &dataset->train));
    ES_TRY_GOTO(read_split(&files[TRAIN_IMAGES], &files[TRAIN_LABELS], &position,
                           dimension[0] - counts[1], n_classes, &dataset->validation));
    ES_TRY_GOTO(es_data_file_end(&files[TRAIN_IMAGES].file));
    ES_TRY_GOTO(es_data_file_end(&files[TRAIN_LABELS].file));
    position = 0;
    ES_TRY_GOTO(read_split(&files[TEST_IMAGES], &files[TEST_LABELS], &position, 0, n_classes,
                           &dataset->test));
    if (counts[2] == files[TEST_IMAGES].dimension[0]) {
        ES_TRY_GOTO(es_data_file_end(&files[TEST_IMAGES].file));
        ES_TRY_GOTO(es_data_file_end(&files[TEST_LABELS].file));
    }
    dataset->n_classes = is_counted ? count_classes(dataset) : n_classes;
    es_dataset_measure(dataset);
done:
    for (int f = 0; f < N_FILES; f++) {
        es_data_file_close(&files[f].file);
    }
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}
