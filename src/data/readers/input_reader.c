// Inputs without labels, from image files, arrays and tables.
#include "data/inputs.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "base/memory.h"
#include "data/dataset_internal.h"
#include "data/image.h"

#define MAX_DEPTH  16 // of folders
#define MAX_SIDE   16384
#define NAME_BYTES (ES_DATA_PATH_BYTES + 32)

typedef enum Source { SOURCE_FILES, SOURCE_ARRAY, SOURCE_TABLE } Source;

// Elements of an array, in the order of the file.
typedef enum Order { ORDER_PLANES, ORDER_PIXELS } Order; // [C, H, W], [H, W, C]

struct EsInputReader {
    EsInputShape shape;
    Source source;
    char path[ES_DATA_PATH_BYTES];
    int64_t next, count;               // inputs given; there are (tables: not known)
    char (*names)[NAME_BYTES];         // owned [ES_INPUTS_MAX]
    char (*paths)[ES_DATA_PATH_BYTES]; // owned [count]: image files
    int64_t paths_capacity;
    // arrays
    EsDataFile file;
    EsNpyHeader array; // of IDX files: the same of theirs
    int height, width, n_channels;
    Order order;
    double scale;    // of real pixels, to 0..255
    void *item;      // owned: one input as it is in the file
    uint8_t *planes; // owned [C, size, size]
    // tables
    EsCsvText csv;
    int has_record; // the record at hand was looked at and is still to be given
    int *column;    // owned [n_channels]: place of each in a record
};

static int64_t input_count(const EsInputReader *r) {
    return (int64_t)r->shape.n_channels * r->shape.size * r->shape.size;
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcasecmp(text + n - n_end, end) == 0;
}

// --- image files ---

static EsStatus add_path(EsInputReader *r, const char *path) {
    if (r->count == r->paths_capacity) {
        int64_t capacity = ES_MAX(2 * r->paths_capacity, 16);
        ES_TRY(es_reallocate((void **)&r->paths, sizeof *r->paths * (size_t)r->paths_capacity,
                             sizeof *r->paths * (size_t)capacity));
        r->paths_capacity = capacity;
    }
    snprintf(r->paths[r->count++], ES_DATA_PATH_BYTES, "%s", path);
    return ES_STATUS_OK;
}

// Images of a folder, then those of its sub-folders; es_folder_list sorts by name.
static EsStatus list_folder(EsInputReader *r, const char *folder, int depth) {
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_folder_list(folder, &entries, &n_entries));
    for (int is_folder = 0; is_folder < 2; is_folder++) {
        for (int i = 0; i < n_entries; i++) {
            char path[ES_DATA_PATH_BYTES];
            ES_TRY_GOTO(es_data_path_join(path, folder, entries[i].name));
            if (!is_folder && entries[i].kind == ES_FOLDER_ENTRY_FILE &&
                es_image_is_name(entries[i].name)) {
                ES_TRY_GOTO(add_path(r, path));
            } else if (is_folder && entries[i].kind == ES_FOLDER_ENTRY_FOLDER &&
                       depth < MAX_DEPTH) {
                ES_TRY_GOTO(list_folder(r, path, depth + 1));
            }
        }
    }
done:
    es_release(entries);
    return status;
}

// Planes of bytes as plain numbers.
static void give_planes(const EsInputReader *r, float *input) {
    for (int64_t k = 0; k < input_count(r); k++) {
        input[k] = (float)r->planes[k];
    }
}

static EsStatus read_image(EsInputReader *r, const char *path, float *input) {
    EsImage image;
    ES_TRY(es_image_load(path, &image));
    EsStatus status = es_image_fit(&image, r->shape.size, r->shape.n_channels, r->planes);
    es_image_destroy(&image);
    if (status == ES_STATUS_OK) {
        give_planes(r, input);
    }
    return status;
}

// --- arrays ---

// Bytes are pixels 0..255, fitted to the network's square; other numbers must have its size.
static int is_bytes(const EsInputReader *r) {
    return r->array.kind == 'u' && r->array.item_bytes == 1;
}

static EsStatus fail_shape(const EsInputReader *r) {
    char text[128] = "";
    size_t used = 0;
    for (int i = 0; i < r->array.rank; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)r->array.dim[i]);
    }
    return r->shape.is_rows
               ? ES_FAIL(INPUT, "%s: an array [%s]; the network takes rows [N, %d]", r->path, text,
                         r->shape.n_channels)
               : ES_FAIL(INPUT, "%s: an array [%s]; the network takes images [N, %d, %d, %d]",
                         r->path, text, r->shape.n_channels, r->shape.size, r->shape.size);
}

// Names the axes: images [N, H, W] or with channels before or behind; rows [N, D]; or one of them.
static EsStatus name_axes(EsInputReader *r) {
    const int64_t *dims = r->array.dim;
    int rank = r->array.rank;
    int C = r->shape.n_channels;
    r->count = 1;
    r->height = r->width = 1;
    r->n_channels = C;
    if (r->shape.is_rows) {
        r->count = rank == 2 ? dims[0] : 1;
        return (rank == 1 || rank == 2) && dims[rank - 1] == C ? ES_STATUS_OK : fail_shape(r);
    }
    const int64_t *side = dims + rank - 2;
    if (rank < 2) {
        return fail_shape(r);
    }
    if (rank == 4 || (rank == 3 && (dims[0] == C || dims[2] == C) && C > 1)) {
        const int64_t *one = dims + rank - 3;
        r->order = one[0] == C ? ORDER_PLANES : ORDER_PIXELS;
        side = one + (r->order == ORDER_PLANES);
        r->count = rank == 4 ? dims[0] : 1;
        if (one[r->order == ORDER_PLANES ? 0 : 2] != C) {
            return fail_shape(r);
        }
    } else {
        r->count = rank == 3 ? dims[0] : 1;
        r->n_channels = 1; // grey; bytes are fitted to the network's channels
    }
    if (side[0] > MAX_SIDE || side[1] > MAX_SIDE) {
        return fail_shape(r);
    }
    r->height = (int)side[0];
    r->width = (int)side[1];
    int fits = r->height == r->shape.size && r->width == r->shape.size && r->n_channels == C;
    return is_bytes(r) || fits ? ES_STATUS_OK : fail_shape(r);
}

static int64_t item_count(const EsInputReader *r) {
    return (int64_t)r->height * r->width * r->n_channels;
}

// Bytes of one input in the file.
static size_t item_bytes(const EsInputReader *r) {
    return (size_t)(item_count(r) * r->array.item_bytes);
}

// Real pixels lie in 0..1 where all of the file do, else in 0..255, as in training
// (npy_reader.c): the file is read once for that, and opened anew.
static EsStatus find_scale(EsInputReader *r) {
    double largest = 0.0;
    for (int64_t i = 0; i < r->count; i++) {
        ES_TRY(es_data_file_read(&r->file, r->item, item_bytes(r)));
        for (int64_t k = 0; k < item_count(r); k++) {
            double value = es_npy_value(&r->array, r->item, k);
            if (!(value >= 0.0 && value <= 255.0)) {
                return ES_FAIL(INPUT,
                               "%s: a pixel of image %lld is %g, expected values in 0..1 or "
                               "0..255",
                               r->path, (long long)i, value);
            }
            largest = fmax(largest, value);
        }
    }
    r->scale = r->array.kind == 'f' && largest <= 1.0 ? 255.0 : 1.0;
    es_data_file_close(&r->file);
    ES_TRY(es_data_file_open(&r->file, r->path));
    return es_data_file_skip(&r->file, r->array.header_bytes);
}

static EsStatus open_npy(EsInputReader *r) {
    ES_TRY(es_npy_header_read(&r->file, &r->array));
    ES_TRY(name_axes(r));
    ES_TRY(es_npy_header_expect(&r->array, &r->file));
    ES_TRY(es_allocate(item_bytes(r), &r->item));
    r->scale = 1.0;
    return !is_bytes(r) && !r->shape.is_rows ? find_scale(r) : ES_STATUS_OK;
}

static int64_t big_endian(const unsigned char *bytes) {
    return (int64_t)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

// 0, 0, type 8 (bytes), 3 dimensions, then these
static EsStatus open_idx(EsInputReader *r) {
    unsigned char header[16];
    ES_TRY(es_data_file_read(&r->file, header, sizeof header));
    r->array = (EsNpyHeader){.kind = 'u', .item_bytes = 1, .rank = 3};
    for (int i = 0; i < 3; i++) {
        r->array.dim[i] = big_endian(header + 4 + 4 * i);
        if (r->array.dim[i] < 1 || r->array.dim[i] > INT32_MAX) {
            return ES_FAIL(INPUT, "%s: %lld along axis %d", r->path, (long long)r->array.dim[i], i);
        }
    }
    if (r->shape.is_rows || r->array.dim[1] > MAX_SIDE || r->array.dim[2] > MAX_SIDE) {
        return fail_shape(r);
    }
    r->n_channels = 1;
    r->count = r->array.dim[0];
    r->height = (int)r->array.dim[1];
    r->width = (int)r->array.dim[2];
    ES_TRY(es_data_file_expect(&r->file, "images", r->count,
                               (int64_t)sizeof header + r->count * item_count(r)));
    return es_allocate(item_bytes(r), &r->item);
}

// Bytes of an image, pixel by pixel, for the fitting.
static EsStatus fit_item(EsInputReader *r) {
    int64_t area = (int64_t)r->height * r->width;
    uint8_t *pixels = r->item, *moved = NULL;
    if (r->order == ORDER_PLANES && r->n_channels > 1) {
        ES_TRY(es_allocate((size_t)item_count(r), (void **)&moved));
        for (int64_t k = 0; k < item_count(r); k++) {
            moved[k % area * r->n_channels + k / area] = pixels[k];
        }
        pixels = moved;
    }
    EsImage image = {r->width, r->height, r->n_channels, pixels};
    EsStatus status = es_image_fit(&image, r->shape.size, r->shape.n_channels, r->planes);
    es_release(moved);
    return status;
}

static EsStatus read_item(EsInputReader *r, float *input) {
    int64_t count = item_count(r), area = (int64_t)r->height * r->width;
    ES_TRY(es_data_file_read(&r->file, r->item, item_bytes(r)));
    if (is_bytes(r) && !r->shape.is_rows) {
        ES_TRY(fit_item(r));
        give_planes(r, input);
        return ES_STATUS_OK;
    }
    for (int64_t k = 0; k < count; k++) {
        double value = es_npy_value(&r->array, r->item, k) * r->scale;
        int64_t to = r->order == ORDER_PIXELS ? k % r->n_channels * area + k / r->n_channels : k;
        if (!isfinite((float)value)) {
            return ES_FAIL(INPUT, "%s: input %lld holds a number that is not finite", r->path,
                           (long long)r->next);
        }
        input[to] = (float)value;
    }
    return ES_STATUS_OK;
}

// --- tables ---

// Columns by the names of a header: every one that the network takes must be there, those of the
// same name in their order.
static EsStatus match_header(EsInputReader *r) {
    for (int c = 0; c < r->shape.n_channels; c++) {
        r->column[c] = -1;
    }
    for (int place = 0; place < r->csv.n_fields; place++) {
        for (int c = 0; c < r->shape.n_channels; c++) {
            if (r->column[c] < 0 && strcmp(r->csv.fields[place], r->shape.column_names[c]) == 0) {
                r->column[c] = place;
                break;
            }
        }
    }
    for (int c = 0; c < r->shape.n_channels; c++) {
        if (r->column[c] < 0) {
            return ES_FAIL(INPUT, "%s: no column is called \"%.100s\", which the network takes",
                           r->path, r->shape.column_names[c]);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus open_table(EsInputReader *r) {
    int is_end = 0;
    if (!r->shape.is_rows) {
        return ES_FAIL(INPUT, "%s: a table of rows; the network takes images", r->path);
    }
    ES_TRY(es_csv_open(&r->csv, r->path));
    ES_TRY(es_allocate(sizeof *r->column * (size_t)r->shape.n_channels, (void **)&r->column));
    ES_TRY(es_csv_next(&r->csv, &is_end));
    if (is_end) {
        return ES_FAIL(INPUT, "%s is empty", r->path);
    }
    int is_header = es_csv_is_header(&r->csv, -1);
    if (is_header && r->shape.column_names != NULL) {
        return match_header(r);
    }
    if (r->csv.n_columns != r->shape.n_channels) {
        return ES_FAIL(INPUT, "%s: %d columns, the network takes %d%s", r->path, r->csv.n_columns,
                       r->shape.n_channels,
                       r->shape.column_names != NULL ? "; with a header they are found by name"
                                                     : "");
    }
    for (int c = 0; c < r->shape.n_channels; c++) {
        r->column[c] = c;
    }
    r->has_record = !is_header;
    return ES_STATUS_OK;
}

// One row; *is_there is 0 at the end.
static EsStatus read_row(EsInputReader *r, float *input, int *is_there) {
    int is_end = 0;
    if (!r->has_record) {
        ES_TRY(es_csv_next(&r->csv, &is_end));
    }
    r->has_record = 0;
    *is_there = !is_end;
    for (int c = 0; c < r->shape.n_channels && !is_end; c++) {
        const char *name = r->shape.column_names != NULL ? r->shape.column_names[c] : NULL;
        ES_TRY(es_csv_number(&r->csv, r->column[c], name, &input[c]));
    }
    return ES_STATUS_OK;
}

// --- opening ---

static EsStatus open_array(EsInputReader *r) {
    unsigned char start[4];
    ES_TRY(es_data_file_open(&r->file, r->path));
    r->source = SOURCE_ARRAY;
    if (ends_with(r->path, ".npy")) {
        return open_npy(r);
    }
    ES_TRY(es_data_file_read(&r->file, start, sizeof start));
    es_data_file_close(&r->file);
    if (memcmp(start, "\0\0\x08\x03", sizeof start) != 0) {
        return ES_FAIL(INPUT, "%s: neither an image (.png, .jpg) nor .npy, .csv or IDX", r->path);
    }
    ES_TRY(es_data_file_open(&r->file, r->path));
    return open_idx(r);
}

static EsStatus open_source(EsInputReader *r) {
    struct stat info;
    ES_TRY(es_allocate(sizeof *r->names * ES_INPUTS_MAX, (void **)&r->names));
    ES_TRY(es_allocate((size_t)input_count(r), (void **)&r->planes));
    if (stat(r->path, &info) != 0) {
        return ES_FAIL(INPUT, "%s: %s", r->path, strerror(errno));
    }
    int is_folder = S_ISDIR(info.st_mode);
    if (is_folder || es_image_is_name(r->path)) {
        r->source = SOURCE_FILES;
        if (r->shape.is_rows) {
            return ES_FAIL(INPUT, "%s: images; the network takes rows of %d columns", r->path,
                           r->shape.n_channels);
        }
        ES_TRY(is_folder ? list_folder(r, r->path, 0) : add_path(r, r->path));
        return r->count > 0 ? ES_STATUS_OK : ES_FAIL(INPUT, "%s: no .png or .jpg in it", r->path);
    }
    if (ends_with(r->path, ".csv") || ends_with(r->path, ".tsv") || ends_with(r->path, ".txt")) {
        r->source = SOURCE_TABLE;
        return open_table(r);
    }
    return open_array(r);
}

EsStatus es_input_reader_open(const char *path, const EsInputShape *shape,
                              EsInputReader **reader_out) {
    EsInputReader *reader = NULL;
    *reader_out = NULL;
    if (strlen(path) >= ES_DATA_PATH_BYTES) {
        return ES_FAIL(ARGUMENT, "the path %.100s... is too long", path);
    }
    ES_TRY(es_allocate(sizeof *reader, (void **)&reader));
    reader->shape = *shape;
    snprintf(reader->path, sizeof reader->path, "%s", path);
    EsStatus status = open_source(reader);
    if (status != ES_STATUS_OK) {
        es_input_reader_close(reader);
        return status;
    }
    *reader_out = reader;
    return ES_STATUS_OK;
}

void es_input_reader_close(EsInputReader *reader) {
    if (reader == NULL) {
        return;
    }
    es_data_file_close(&reader->file);
    es_release(reader->names);
    es_release(reader->paths);
    es_release(reader->item);
    es_release(reader->planes);
    es_csv_close(&reader->csv);
    es_release(reader->column);
    es_release(reader);
}

// --- reading ---

static EsStatus read_next(EsInputReader *r, float *input, char *name, int *is_there) {
    *is_there = r->source == SOURCE_TABLE || r->next < r->count;
    if (!*is_there) {
        return ES_STATUS_OK;
    }
    switch (r->source) {
    case SOURCE_FILES:
        snprintf(name, NAME_BYTES, "%s", r->paths[r->next]);
        ES_TRY(read_image(r, r->paths[r->next], input));
        break;
    case SOURCE_ARRAY:
        snprintf(name, NAME_BYTES, "%s[%lld]", r->path, (long long)r->next);
        ES_TRY(read_item(r, input));
        break;
    case SOURCE_TABLE:
        ES_TRY(read_row(r, input, is_there));
        snprintf(name, NAME_BYTES, "%s:%lld", r->path, (long long)r->csv.record_line);
        break;
    }
    r->next += *is_there;
    return ES_STATUS_OK;
}

EsStatus es_input_reader_next(EsInputReader *reader, int64_t max_n, float *inputs, int64_t *n) {
    int is_there = 1;
    ES_ASSERT(max_n <= ES_INPUTS_MAX);
    for (*n = 0; *n < max_n && is_there; *n += is_there) {
        ES_TRY(read_next(reader, inputs + *n * input_count(reader), reader->names[*n], &is_there));
    }
    return ES_STATUS_OK;
}

const char *es_input_reader_name(const EsInputReader *reader, int64_t i) {
    return reader->names[i];
}
