// NumPy's .npy arrays: the header and values of any of them, and a data set of two: inputs in one
// file, whole-number labels in another.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/dataset_internal.h"

#define MAX_VALUE_BYTES  ((uint64_t)16 << 30)
#define MAX_HEADER_BYTES 65536
#define MAX_SIDE         4096

// --- header ---

static EsStatus fail_header(const EsDataFile *file, const char *problem) {
    return ES_FAIL(INPUT, "%s: the header of the array %s", file->path, problem);
}

// The text behind 'key': in the dictionary; NULL when it is not there.
static const char *find_key(const char *text, const char *key) {
    char quoted[2][32];
    snprintf(quoted[0], sizeof quoted[0], "'%s':", key);
    snprintf(quoted[1], sizeof quoted[1], "\"%s\":", key);
    for (int i = 0; i < 2; i++) {
        const char *found = strstr(text, quoted[i]);
        if (found != NULL) {
            found += strlen(quoted[i]);
            return found + strspn(found, " ");
        }
    }
    return NULL;
}

static EsStatus parse_type(const EsDataFile *file, const char *text, EsNpyHeader *header) {
    char order, kind;
    int item_bytes = 0, n = 0;
    if (text == NULL || (text[0] != '\'' && text[0] != '"')) {
        return fail_header(file, "names no plain type; arrays of records are not read");
    }
    int shown = (int)ES_MIN(strcspn(text + 1, "'\"") + 2, 12); // of the text, in messages
    if (sscanf(text + 1, "%c%c%2d%n", &order, &kind, &item_bytes, &n) != 3 ||
        text[1 + n] != text[0]) {
        if (text[1] != '\0' && text[2] == 'O') {
            return fail_header(file, "says Python objects; save numbers instead");
        }
        return ES_FAIL(INPUT, "%s: an array of type %.*s, expected numbers", file->path, shown,
                       text);
    }
    if (order == '>') {
        return fail_header(file,
                           "says big-endian values; save them with .astype('<f4') or the like");
    }
    int is_known = (kind == 'f' && (item_bytes == 4 || item_bytes == 8)) ||
                   ((kind == 'u' || kind == 'i') &&
                    (item_bytes == 1 || item_bytes == 2 || item_bytes == 4 || item_bytes == 8));
    if ((order != '<' && order != '|' && order != '=') || !is_known) {
        return ES_FAIL(INPUT, "%s: an array of type %.*s, expected u1, f4, f8 or whole numbers",
                       file->path, shown, text);
    }
    header->kind = kind;
    header->item_bytes = item_bytes;
    return ES_STATUS_OK;
}

static EsStatus parse_shape(const EsDataFile *file, const char *text, EsNpyHeader *header) {
    if (text == NULL || text[0] != '(') {
        return fail_header(file, "has no shape");
    }
    text++;
    for (;;) {
        text += strspn(text, " ,");
        if (*text == ')') {
            return header->rank > 0 ? ES_STATUS_OK : fail_header(file, "says a single number");
        }
        char *end = NULL;
        long long dim = strtoll(text, &end, 10);
        if (end == text || dim < 1 || dim > INT32_MAX) {
            return fail_header(file,
                               "has a shape with an axis that is empty, negative or no number");
        }
        if (header->rank == ES_NPY_MAX_RANK) {
            return fail_header(file, "says more than 4 axes");
        }
        header->dim[header->rank++] = dim;
        text = end;
    }
}

static EsStatus count_values(const EsDataFile *file, EsNpyHeader *header) {
    uint64_t n = 1, most = MAX_VALUE_BYTES / (uint64_t)header->item_bytes;
    for (int i = 0; i < header->rank; i++) {
        if (n > most / (uint64_t)header->dim[i]) {
            return fail_header(file, "says more values than a file can hold");
        }
        n *= (uint64_t)header->dim[i];
    }
    header->n_values = (int64_t)n;
    return ES_STATUS_OK;
}

static EsStatus parse(const EsDataFile *file, const char *text, EsNpyHeader *header) {
    const char *fortran = find_key(text, "fortran_order");
    ES_TRY(parse_type(file, find_key(text, "descr"), header));
    if (fortran == NULL || strncmp(fortran, "False", 5) != 0) {
        return fail_header(file, "says Fortran order; save it with numpy.ascontiguousarray");
    }
    ES_TRY(parse_shape(file, find_key(text, "shape"), header));
    return count_values(file, header);
}

EsStatus es_npy_header_read(EsDataFile *file, EsNpyHeader *header) {
    uint8_t start[12]; // mark, version, length in 2 bytes, from version 2 on in 4
    *header = (EsNpyHeader){0};
    ES_TRY(es_data_file_read(file, start, 10));
    if (memcmp(start, "\x93NUMPY", 6) != 0) {
        return ES_FAIL(INPUT, "%s: does not begin as a .npy file does", file->path);
    }
    if (start[6] < 1 || start[6] > 3) {
        return ES_FAIL(INPUT, "%s: version %d of the .npy format, expected 1 to 3", file->path,
                       start[6]);
    }
    size_t length = (size_t)start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        ES_TRY(es_data_file_read(file, start + 10, 2));
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length > MAX_HEADER_BYTES) {
        return fail_header(file, "is longer than 65536 bytes");
    }
    char *text = NULL;
    ES_TRY(es_allocate(length + 1, (void **)&text)); // zeroed: a zero ends it
    EsStatus status = es_data_file_read(file, text, length);
    if (status == ES_STATUS_OK) {
        status = parse(file, text, header);
    }
    es_release(text);
    header->header_bytes = file->offset;
    return status;
}

EsStatus es_npy_header_expect(const EsNpyHeader *header, const EsDataFile *file) {
    return es_data_file_expect(file, "values", header->n_values,
                               header->header_bytes + header->n_values * header->item_bytes);
}

// --- values ---

int64_t es_npy_whole(const EsNpyHeader *header, const void *values, int64_t i) {
    uint64_t bits = 0;
    memcpy(&bits, (const uint8_t *)values + i * header->item_bytes,
           (size_t)header->item_bytes); // little-endian, both
    int shift = 64 - 8 * header->item_bytes;
    return header->kind == 'i' ? (int64_t)(bits << shift) >> shift : (int64_t)bits;
}

double es_npy_value(const EsNpyHeader *header, const void *values, int64_t i) {
    float single;
    double value;
    if (header->kind != 'f') {
        int64_t whole = es_npy_whole(header, values, i);
        return header->kind == 'u' ? (double)(uint64_t)whole : (double)whole;
    }
    if (header->item_bytes == 4) {
        memcpy(&single, (const uint8_t *)values + i * 4, sizeof single);
        return (double)single;
    }
    memcpy(&value, (const uint8_t *)values + i * 8, sizeof value);
    return value;
}

// --- whole arrays ---

// A whole file in memory.
typedef struct Array {
    const char *path;
    EsNpyHeader header;
    void *values; // owned
} Array;

static EsStatus open_array(Array *a, const char *path) {
    EsStatus status = ES_STATUS_OK;
    EsDataFile file;
    *a = (Array){.path = path};
    ES_TRY(es_data_file_open(&file, path));
    ES_TRY_GOTO(es_npy_header_read(&file, &a->header));
    ES_TRY_GOTO(es_npy_header_expect(&a->header, &file));
    size_t n_bytes = (size_t)(a->header.n_values * a->header.item_bytes);
    ES_TRY_GOTO(es_allocate(n_bytes, &a->values));
    ES_TRY_GOTO(es_data_file_read(&file, a->values, n_bytes));
    ES_TRY_GOTO(es_data_file_end(&file));
done:
    es_data_file_close(&file);
    return status;
}

static double value_at(const Array *a, int64_t i) { return es_npy_value(&a->header, a->values, i); }

// --- labels ---

// Replaces the first `from` of the name (not of its folders) by `to`; 0 when there is none.
static int rename_to(const char *path, const char *from, const char *to,
                     char renamed[ES_DATA_PATH_BYTES]) {
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *found = strstr(name, from);
    if (found == NULL) {
        return 0;
    }
    int length = snprintf(renamed, ES_DATA_PATH_BYTES, "%.*s%s%s", (int)(found - path), path, to,
                          found + strlen(from));
    return length > 0 && length < ES_DATA_PATH_BYTES && access(renamed, F_OK) == 0;
}

static EsStatus find_labels(const char *path, char labels[ES_DATA_PATH_BYTES]) {
    static const char *const pairs[][2] = {
        {"images", "labels"}, {"data", "labels"}, {"inputs", "labels"}, {"X", "y"}, {"x", "y"}};
    for (size_t i = 0; i < ES_COUNT_OF(pairs); i++) {
        if (rename_to(path, pairs[i][0], pairs[i][1], labels)) {
            return ES_STATUS_OK;
        }
    }
    return ES_FAIL(INPUT,
                   "%s: no labels; name their file with --labels, or call the two X.npy and y.npy, "
                   "or images.npy and labels.npy",
                   path);
}

// Labels as texts, so that they are numbered as those of a CSV file are.
static EsStatus read_labels(const char *path, int64_t n, uint16_t **labels,
                            const char *const **class_names, int *n_classes) {
    enum { TEXT_BYTES = 24 };
    EsStatus status = ES_STATUS_OK;
    Array a;
    const char **texts = NULL;
    char *block = NULL;
    ES_TRY_GOTO(open_array(&a, path));
    int is_list = a.header.rank == 1 || (a.header.rank == 2 && a.header.dim[1] == 1);
    if (!is_list || a.header.kind == 'f' || a.header.dim[0] != n) {
        status = a.header.kind == 'f'
                     ? ES_FAIL(INPUT, "%s: labels must be whole numbers, these are real", path)
                 : !is_list ? ES_FAIL(INPUT, "%s: %d axes, expected one label per sample", path,
                                      a.header.rank)
                            : ES_FAIL(INPUT, "%s: %lld labels for %lld samples", path,
                                      (long long)a.header.dim[0], (long long)n);
        goto done;
    }
    ES_TRY_GOTO(es_allocate((size_t)n * sizeof *texts, (void **)&texts));
    ES_TRY_GOTO(es_allocate((size_t)n * TEXT_BYTES, (void **)&block));
    for (int64_t i = 0; i < n; i++) {
        snprintf(block + i * TEXT_BYTES, TEXT_BYTES, "%lld",
                 (long long)es_npy_whole(&a.header, a.values, i));
        texts[i] = block + i * TEXT_BYTES;
    }
    ES_TRY_GOTO(es_dataset_number_labels(path, texts, n, labels, class_names, n_classes));
done:
    es_release(a.values);
    es_release(texts);
    es_release(block);
    return status;
}

// --- inputs ---

// How the axes of images are to be read.
typedef struct Layout {
    int shape[3];      // channels, height, width
    int64_t stride[3]; // of each, in values
} Layout;

// [N, H, W], [N, H, W, C] where the last axis is 1, 3 or 4, else [N, C, H, W].
static EsStatus find_layout(const Array *a, Layout *layout) {
    const int64_t *d = a->header.dim;
    if (a->header.rank == 3) {
        *layout = (Layout){{1, (int)d[1], (int)d[2]}, {0, d[2], 1}};
    } else if (d[3] == 1 || d[3] == 3 || d[3] == 4) {
        *layout = (Layout){{(int)d[3], (int)d[1], (int)d[2]}, {1, d[2] * d[3], d[3]}};
    } else if (d[1] == 1 || d[1] == 3 || d[1] == 4) {
        *layout = (Layout){{(int)d[1], (int)d[2], (int)d[3]}, {d[2] * d[3], d[3], 1}};
    } else {
        return ES_FAIL(
            INPUT,
            "%s: shape [%lld, %lld, %lld, %lld]: neither the last axis nor the second is "
            "1, 3 or 4 channels",
            a->path, (long long)d[0], (long long)d[1], (long long)d[2], (long long)d[3]);
    }
    if (layout->shape[1] > MAX_SIDE || layout->shape[2] > MAX_SIDE) {
        return ES_FAIL(INPUT, "%s: images of %d x %d, at most %d a side", a->path, layout->shape[2],
                       layout->shape[1], MAX_SIDE);
    }
    return ES_STATUS_OK;
}

// Real pixels lie in 0..1 or in 0..255; *scale makes them the latter.
static EsStatus find_scale(const Array *a, double *scale) {
    double largest = 0.0;
    *scale = 1.0;
    for (int64_t i = 0;
         i < a->header.n_values && (a->header.kind != 'u' || a->header.item_bytes != 1); i++) {
        double value = value_at(a, i);
        if (!(value >= 0.0 && value <= 255.0)) {
            return ES_FAIL(INPUT, "%s: pixel %lld is %g, expected values in 0..1 or 0..255",
                           a->path, (long long)i, value);
        }
        largest = fmax(largest, value);
    }
    if (a->header.kind == 'f' && largest <= 1.0) {
        *scale = 255.0;
    }
    return ES_STATUS_OK;
}

static void copy_image(const Array *a, const Layout *layout, double scale, int64_t i,
                       uint8_t *planes) {
    int64_t first = i * layout->shape[0] * (int64_t)layout->shape[1] * (int64_t)layout->shape[2];
    for (int c = 0; c < layout->shape[0]; c++) {
        for (int y = 0; y < layout->shape[1]; y++) {
            for (int x = 0; x < layout->shape[2]; x++) {
                int64_t at =
                    first + c * layout->stride[0] + y * layout->stride[1] + x * layout->stride[2];
                *planes++ = (uint8_t)(value_at(a, at) * scale + 0.5);
            }
        }
    }
}

static EsStatus copy_row(const Array *a, int64_t i, float *row) {
    for (int64_t c = 0; c < a->header.dim[1]; c++) {
        row[c] = (float)value_at(a, i * a->header.dim[1] + c);
        if (!isfinite(row[c])) {
            return ES_FAIL(INPUT, "%s: row %lld, column %lld is not a finite number", a->path,
                           (long long)i, (long long)c);
        }
    }
    return ES_STATUS_OK;
}

// Inputs in their places; labels follow in the same order.
static EsStatus build_dataset(EsDataset *dataset, const Array *a, const uint16_t *labels,
                              int n_classes, const int64_t *order, const int64_t counts[3]) {
    char name[ES_DATASET_NAME_BYTES];
    es_dataset_name_of(a->path, name);
    if (a->header.rank == 2) {
        ES_TRY(es_dataset_allocate_rows(dataset, name, (int)a->header.dim[1], n_classes, counts));
        for (int64_t i = 0; i < a->header.dim[0]; i++) {
            ES_TRY(copy_row(a, order[i], dataset->rows + i * a->header.dim[1]));
        }
        es_dataset_normalise_rows(dataset);
    } else {
        Layout layout;
        double scale;
        ES_TRY(find_layout(a, &layout));
        ES_TRY(find_scale(a, &scale));
        ES_TRY(es_dataset_allocate(dataset, name, layout.shape, n_classes, counts));
        for (int64_t i = 0; i < a->header.dim[0]; i++) {
            copy_image(a, &layout, scale, order[i],
                       dataset->images + (size_t)i * dataset->image_bytes);
        }
        es_dataset_measure(dataset);
    }
    for (int64_t i = 0; i < a->header.dim[0]; i++) {
        dataset->labels[i] = labels[order[i]];
    }
    return ES_STATUS_OK;
}

EsStatus es_dataset_load_npy(EsDataset *dataset, const char *path,
                             const EsDatasetOptions *options) {
    EsStatus status = ES_STATUS_OK;
    Array a;
    uint16_t *labels = NULL;
    const char *const *class_names = NULL;
    int64_t *order = NULL, counts[3];
    int n_classes = 0;
    char labels_path[ES_DATA_PATH_BYTES];
    memset(dataset, 0, sizeof *dataset);
    ES_TRY_GOTO(open_array(&a, path));
    if (a.header.rank < 2 || (a.header.rank == 2 && a.header.dim[1] > ES_DATASET_MAX_COLUMNS)) {
        status = ES_FAIL(INPUT,
                         "%s: %d axes, expected rows [N, D] of at most %d columns or images "
                         "[N, H, W], [N, H, W, C] or [N, C, H, W]",
                         path, a.header.rank, ES_DATASET_MAX_COLUMNS);
        goto done;
    }
    if (options->labels == NULL || options->labels[0] == '\0') {
        ES_TRY_GOTO(find_labels(path, labels_path));
    } else {
        snprintf(labels_path, sizeof labels_path, "%s", options->labels);
    }
    ES_TRY_GOTO(read_labels(labels_path, a.header.dim[0], &labels, &class_names, &n_classes));
    ES_TRY_GOTO(es_dataset_share_out(options, path, labels, NULL, a.header.dim[0], n_classes,
                                     class_names, &order, counts));
    ES_TRY_GOTO(build_dataset(dataset, &a, labels, n_classes, order, counts));
    dataset->class_names = class_names;
    class_names = NULL;
done:
    es_release(a.values);
    es_release(labels);
    es_release(order);
    es_release((void *)(uintptr_t)class_names);
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}
