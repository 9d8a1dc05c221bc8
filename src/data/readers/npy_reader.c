// NumPy's .npy arrays: inputs in one file, whole-number labels in another. A header says type and
// shape as a Python dictionary; the values follow in C order.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/dataset_internal.h"

#define MAX_FILE_BYTES   ((size_t)16 << 30)
#define MAX_HEADER_BYTES 65536
#define MAX_RANK         4
#define MAX_SIDE         4096

typedef struct Array {
    const char *path;
    uint8_t *bytes; // owned: the whole file
    const uint8_t *values;
    char kind; // 'u', 'i' or 'f'
    int item_bytes;
    int rank;
    int64_t dim[MAX_RANK];
} Array;

// --- header ---

static EsStatus fail_header(const Array *a, const char *problem) {
    return ES_FAIL(INPUT, "%s: the header of the array %s", a->path, problem);
}

// The text behind 'key': in the dictionary; NULL when it is not there.
static const char *find_key(const char *header, const char *key) {
    char quoted[2][32];
    snprintf(quoted[0], sizeof quoted[0], "'%s':", key);
    snprintf(quoted[1], sizeof quoted[1], "\"%s\":", key);
    for (int i = 0; i < 2; i++) {
        const char *found = strstr(header, quoted[i]);
        if (found != NULL) {
            found += strlen(quoted[i]);
            return found + strspn(found, " ");
        }
    }
    return NULL;
}

static EsStatus parse_type(Array *a, const char *text) {
    char order, kind;
    int item_bytes = 0, n = 0;
    if (text == NULL || (text[0] != '\'' && text[0] != '"')) {
        return fail_header(a, "names no plain type; arrays of records are not read");
    }
    int shown = (int)ES_MIN(strcspn(text + 1, "'\"") + 2, 12); // of the text, in messages
    if (sscanf(text + 1, "%c%c%2d%n", &order, &kind, &item_bytes, &n) != 3 ||
        text[1 + n] != text[0]) {
        if (text[1] != '\0' && text[2] == 'O') {
            return fail_header(a, "says Python objects; save numbers instead");
        }
        return ES_FAIL(INPUT, "%s: an array of type %.*s, expected numbers", a->path, shown, text);
    }
    if (order == '>') {
        return fail_header(a, "says big-endian values; save them with .astype('<f4') or the like");
    }
    int is_known = (kind == 'f' && (item_bytes == 4 || item_bytes == 8)) ||
                   ((kind == 'u' || kind == 'i') &&
                    (item_bytes == 1 || item_bytes == 2 || item_bytes == 4 || item_bytes == 8));
    if ((order != '<' && order != '|' && order != '=') || !is_known) {
        return ES_FAIL(INPUT, "%s: an array of type %.*s, expected u1, f4, f8 or whole numbers",
                       a->path, shown, text);
    }
    a->kind = kind;
    a->item_bytes = item_bytes;
    return ES_STATUS_OK;
}

static EsStatus parse_shape(Array *a, const char *text) {
    if (text == NULL || text[0] != '(') {
        return fail_header(a, "has no shape");
    }
    text++;
    for (;;) {
        text += strspn(text, " ,");
        if (*text == ')') {
            return a->rank > 0 ? ES_STATUS_OK : fail_header(a, "says a single number");
        }
        char *end = NULL;
        long long dim = strtoll(text, &end, 10);
        if (end == text || dim < 1 || dim > INT32_MAX) {
            return fail_header(a, "has a shape with an axis that is empty, negative or no number");
        }
        if (a->rank == MAX_RANK) {
            return fail_header(a, "says more than 4 axes");
        }
        a->dim[a->rank++] = dim;
        text = end;
    }
}

static EsStatus parse_header(Array *a, size_t n_bytes) {
    const uint8_t *bytes = a->bytes;
    if (n_bytes < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0) {
        return ES_FAIL(INPUT, "%s: does not begin as a .npy file does", a->path);
    }
    int version = bytes[6];
    size_t begin = version == 1 ? 10 : 12;
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (version > 1) {
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    }
    if (version < 1 || version > 3) {
        return ES_FAIL(INPUT, "%s: version %d of the .npy format, expected 1 to 3", a->path,
                       version);
    }
    if (length > MAX_HEADER_BYTES || length > n_bytes - begin) {
        return fail_header(a, "is longer than the file or than 65536 bytes");
    }
    char *header = NULL;
    ES_TRY(es_allocate(length + 1, (void **)&header));
    memcpy(header, bytes + begin, length);
    const char *fortran = find_key(header, "fortran_order");
    EsStatus status = parse_type(a, find_key(header, "descr"));
    if (status == ES_STATUS_OK && (fortran == NULL || strncmp(fortran, "False", 5) != 0)) {
        status = fail_header(a, "says Fortran order; save it with numpy.ascontiguousarray");
    }
    if (status == ES_STATUS_OK) {
        status = parse_shape(a, find_key(header, "shape"));
    }
    es_release(header);
    a->values = bytes + begin + length;
    return status;
}

static EsStatus open_array(Array *a, const char *path) {
    size_t n_bytes = 0;
    *a = (Array){.path = path};
    ES_TRY(es_file_read_all(path, MAX_FILE_BYTES, (void **)&a->bytes, &n_bytes));
    ES_TRY(parse_header(a, n_bytes));
    uint64_t expected = (uint64_t)a->item_bytes, found = n_bytes - (size_t)(a->values - a->bytes);
    for (int i = 0; i < a->rank; i++) {
        if (expected > MAX_FILE_BYTES / (uint64_t)a->dim[i]) {
            return fail_header(a, "says more values than a file can hold");
        }
        expected *= (uint64_t)a->dim[i];
    }
    if (expected != found) {
        return ES_FAIL(INPUT, "%s: the header says %llu bytes of values, %llu follow: %s", path,
                       (unsigned long long)expected, (unsigned long long)found,
                       found < expected ? "truncated" : "too long");
    }
    return ES_STATUS_OK;
}

// --- values ---

static int64_t whole_at(const Array *a, int64_t i) {
    uint64_t bits = 0;
    memcpy(&bits, a->values + i * a->item_bytes, (size_t)a->item_bytes); // little-endian, both
    int shift = 64 - 8 * a->item_bytes;
    return a->kind == 'i' ? (int64_t)(bits << shift) >> shift : (int64_t)bits;
}

static double value_at(const Array *a, int64_t i) {
    float single;
    double value;
    if (a->kind != 'f') {
        int64_t whole = whole_at(a, i);
        return a->kind == 'u' ? (double)(uint64_t)whole : (double)whole;
    }
    if (a->item_bytes == 4) {
        memcpy(&single, a->values + i * 4, sizeof single);
        return (double)single;
    }
    memcpy(&value, a->values + i * 8, sizeof value);
    return value;
}

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
    int is_list = a.rank == 1 || (a.rank == 2 && a.dim[1] == 1);
    if (!is_list || a.kind == 'f' || a.dim[0] != n) {
        status =
            a.kind == 'f' ? ES_FAIL(INPUT, "%s: labels must be whole numbers, these are real", path)
            : !is_list ? ES_FAIL(INPUT, "%s: %d axes, expected one label per sample", path, a.rank)
                       : ES_FAIL(INPUT, "%s: %lld labels for %lld samples", path,
                                 (long long)a.dim[0], (long long)n);
        goto done;
    }
    ES_TRY_GOTO(es_allocate((size_t)n * sizeof *texts, (void **)&texts));
    ES_TRY_GOTO(es_allocate((size_t)n * TEXT_BYTES, (void **)&block));
    for (int64_t i = 0; i < n; i++) {
        snprintf(block + i * TEXT_BYTES, TEXT_BYTES, "%lld", (long long)whole_at(&a, i));
        texts[i] = block + i * TEXT_BYTES;
    }
    ES_TRY_GOTO(es_dataset_number_labels(path, texts, n, labels, class_names, n_classes));
done:
    es_release(a.bytes);
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
    const int64_t *d = a->dim;
    if (a->rank == 3) {
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
    int64_t n = 1;
    double largest = 0.0;
    *scale = 1.0;
    for (int i = 0; i < a->rank; i++) {
        n *= a->dim[i];
    }
    for (int64_t i = 0; i < n && (a->kind != 'u' || a->item_bytes != 1); i++) {
        double value = value_at(a, i);
        if (!(value >= 0.0 && value <= 255.0)) {
            return ES_FAIL(INPUT, "%s: pixel %lld is %g, expected values in 0..1 or 0..255",
                           a->path, (long long)i, value);
        }
        largest = fmax(largest, value);
    }
    if (a->kind == 'f' && largest <= 1.0) {
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
    for (int64_t c = 0; c < a->dim[1]; c++) {
        row[c] = (float)value_at(a, i * a->dim[1] + c);
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
    if (a->rank == 2) {
        ES_TRY(es_dataset_allocate_rows(dataset, name, (int)a->dim[1], n_classes, counts));
        for (int64_t i = 0; i < a->dim[0]; i++) {
            ES_TRY(copy_row(a, order[i], dataset->rows + i * a->dim[1]));
        }
        es_dataset_normalise_rows(dataset);
    } else {
        Layout layout;
        double scale;
        ES_TRY(find_layout(a, &layout));
        ES_TRY(find_scale(a, &scale));
        ES_TRY(es_dataset_allocate(dataset, name, layout.shape, n_classes, counts));
        for (int64_t i = 0; i < a->dim[0]; i++) {
            copy_image(a, &layout, scale, order[i],
                       dataset->images + (size_t)i * dataset->image_bytes);
        }
        es_dataset_measure(dataset);
    }
    for (int64_t i = 0; i < a->dim[0]; i++) {
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
    if (a.rank < 2 || (a.rank == 2 && a.dim[1] > ES_DATASET_MAX_COLUMNS)) {
        status = ES_FAIL(INPUT,
                         "%s: %d axes, expected rows [N, D] of at most %d columns or images "
                         "[N, H, W], [N, H, W, C] or [N, C, H, W]",
                         path, a.rank, ES_DATASET_MAX_COLUMNS);
        goto done;
    }
    if (options->labels == NULL || options->labels[0] == '\0') {
        ES_TRY_GOTO(find_labels(path, labels_path));
    } else {
        snprintf(labels_path, sizeof labels_path, "%s", options->labels);
    }
    ES_TRY_GOTO(read_labels(labels_path, a.dim[0], &labels, &class_names, &n_classes));
    ES_TRY_GOTO(es_dataset_share_out(options, path, labels, NULL, a.dim[0], n_classes, class_names,
                                     &order, counts));
    ES_TRY_GOTO(build_dataset(dataset, &a, labels, n_classes, order, counts));
    dataset->class_names = class_names;
    class_names = NULL;
done:
    es_release(a.bytes);
    es_release(labels);
    es_release(order);
    es_release((void *)(uintptr_t)class_names);
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}
