// Inputs without labels, from image files, arrays and tables.
#include "data/inputs.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/dataset_internal.h"
#include "data/image.h"

#define MAX_TABLE_BYTES ((size_t)1 << 32)
#define MAX_DEPTH       16 // of folders
#define MAX_SIDE        16384
#define NAME_BYTES      (ES_DATA_PATH_BYTES + 32)

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
    int element_bytes; // 1, 4, 8
    int height, width, n_channels;
    Order order;
    double scale;    // of real pixels, to 0..255
    void *item;      // owned: one input as it is in the file
    uint8_t *planes; // owned [C, size, size]
    // tables
    char *text, *at; // owned: the file; where the next line begins
    char *pending;   // a line that was looked at and is still to be read
    size_t n_bytes;
    int64_t line;
    char separator;
    int *column; // owned [n_channels]: place of each in a line
    int n_columns;
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

// The value behind 'key': in the header of a .npy file; NULL when it is not there.
static const char *find_value(const char *header, const char *key) {
    const char *at = strstr(header, key);
    at = at != NULL ? strchr(at, ':') : NULL;
    return at != NULL ? at + 1 + strspn(at + 1, " ") : NULL;
}

// At most 4 dimensions; returns their number, -1 for what is none.
static int read_shape(const char *text, int64_t dims[4]) {
    int rank = 0;
    if (text == NULL || *text++ != '(') {
        return -1;
    }
    for (;;) {
        text += strspn(text, " ,");
        if (*text == ')') {
            return rank;
        }
        char *end = NULL;
        errno = 0;
        long long dim = strtoll(text, &end, 10);
        if (end == text || errno != 0 || dim < 1 || dim > INT32_MAX || rank == 4) {
            return -1;
        }
        dims[rank++] = dim;
        text = end;
    }
}

static EsStatus fail_shape(const EsInputReader *r, int rank, const int64_t *dims) {
    char text[128] = "";
    size_t used = 0;
    for (int i = 0; i < rank; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)dims[i]);
    }
    return r->shape.is_rows
               ? ES_FAIL(INPUT, "%s: an array [%s]; the network takes rows [N, %d]", r->path, text,
                         r->shape.n_channels)
               : ES_FAIL(INPUT, "%s: an array [%s]; the network takes images [N, %d, %d, %d]",
                         r->path, text, r->shape.n_channels, r->shape.size, r->shape.size);
}

// Names the axes: images [N, H, W] or with channels before or behind; rows [N, D]; or one of them
static EsStatus name_axes(EsInputReader *r, int rank, const int64_t *dims) {
    int C = r->shape.n_channels;
    r->count = 1;
    r->height = r->width = 1;
    r->n_channels = C;
    if (r->shape.is_rows) {
        r->count = rank == 2 ? dims[0] : 1;
        return (rank == 1 || rank == 2) && dims[rank - 1] == C ? ES_STATUS_OK
                                                               : fail_shape(r, rank, dims);
    }
    const int64_t *side = dims + rank - 2;
    if (rank < 2) {
        return fail_shape(r, rank, dims);
    }
    if (rank == 4 || (rank == 3 && (dims[0] == C || dims[2] == C) && C > 1)) {
        const int64_t *one = dims + rank - 3;
        r->order = one[0] == C ? ORDER_PLANES : ORDER_PIXELS;
        side = one + (r->order == ORDER_PLANES);
        r->count = rank == 4 ? dims[0] : 1;
        if (one[r->order == ORDER_PLANES ? 0 : 2] != C) {
            return fail_shape(r, rank, dims);
        }
    } else {
        r->count = rank == 3 ? dims[0] : 1;
        r->n_channels = 1; // grey; bytes become what the network takes
    }
    if (side[0] > MAX_SIDE || side[1] > MAX_SIDE) {
        return fail_shape(r, rank, dims);
    }
    r->height = (int)side[0];
    r->width = (int)side[1];
    int fits = r->height == r->shape.size && r->width == r->shape.size && r->n_channels == C;
    return r->element_bytes == 1 || fits ? ES_STATUS_OK : fail_shape(r, rank, dims);
}

static int64_t item_count(const EsInputReader *r) {
    return (int64_t)r->height * r->width * r->n_channels;
}

// After the header: room for one input, and whether the file has as many as it says.
static EsStatus begin_array(EsInputReader *r, int64_t header_bytes) {
    int64_t item = item_count(r) * r->element_bytes;
    ES_TRY(es_data_file_expect(&r->file, r->shape.is_rows ? "rows" : "images", r->count,
                               header_bytes + r->count * item));
    return es_allocate((size_t)item, &r->item);
}

static double value_of(const EsInputReader *r, int64_t k) {
    return r->element_bytes == 1   ? (double)((const uint8_t *)r->item)[k]
           : r->element_bytes == 4 ? (double)((const float *)r->item)[k]
                                   : ((const double *)r->item)[k];
}

// Real pixels lie in 0..1 where all of the file do, else in 0..255, as in training
// (npy_reader.c): the file is read once for that, and opened anew.
static EsStatus find_scale(EsInputReader *r, int64_t header_bytes) {
    double largest = 0.0;
    for (int64_t i = 0; i < r->count; i++) {
        ES_TRY(es_data_file_read(&r->file, r->item, (size_t)(item_count(r) * r->element_bytes)));
        for (int64_t k = 0; k < item_count(r); k++) {
            double value = value_of(r, k);
            if (!(value >= 0.0 && value <= 255.0)) {
                return ES_FAIL(INPUT,
                               "%s: a pixel of image %lld is %g, expected values in 0..1 or "
                               "0..255",
                               r->path, (long long)i, value);
            }
            largest = fmax(largest, value);
        }
    }
    r->scale = largest <= 1.0 ? 255.0 : 1.0;
    es_data_file_close(&r->file);
    ES_TRY(es_data_file_open(&r->file, r->path));
    return es_data_file_skip(&r->file, header_bytes);
}

static EsStatus open_npy(EsInputReader *r) {
    unsigned char start[12];
    char header[4096];
    int64_t dims[4];
    ES_TRY(es_data_file_read(&r->file, start, 10));
    size_t length = (size_t)start[8] + 256 * (size_t)start[9];
    size_t start_bytes = 10;
    if (memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3) {
        return ES_FAIL(INPUT, "%s: not a .npy file of version 1 to 3", r->path);
    }
    if (start[6] > 1) { // two more bytes of length
        ES_TRY(es_data_file_read(&r->file, start + 10, 2));
        length += ((size_t)start[10] << 16) + ((size_t)start[11] << 24);
        start_bytes = 12;
    }
    if (length >= sizeof header) {
        return ES_FAIL(INPUT, "%s: a header of %zu bytes, expected less than %zu", r->path, length,
                       sizeof header);
    }
    ES_TRY(es_data_file_read(&r->file, header, length));
    header[length] = '\0';
    const char *type = find_value(header, "'descr'"),
               *order = find_value(header, "'fortran_order'");
    int rank = read_shape(find_value(header, "'shape'"), dims);
    r->element_bytes = type == NULL                                                      ? 0
                       : strncmp(type, "'|u1'", 5) == 0 || strncmp(type, "'u1'", 4) == 0 ? 1
                       : strncmp(type, "'<f4'", 5) == 0                                  ? 4
                       : strncmp(type, "'<f8'", 5) == 0                                  ? 8
                                                                                         : 0;
    if (r->element_bytes == 0) {
        return ES_FAIL(INPUT, "%s: numbers of type %.8s; u1, f4 and f8 are read", r->path,
                       type != NULL ? type : "?");
    }
    if (order == NULL || strncmp(order, "False", 5) != 0) {
        return ES_FAIL(INPUT, "%s: columns first (Fortran order); save numpy.ascontiguousarray(x)",
                       r->path);
    }
    if (rank < 1) {
        return ES_FAIL(INPUT, "%s: not an array of 1 to 4 dimensions with elements", r->path);
    }
    int64_t header_bytes = (int64_t)(start_bytes + length);
    ES_TRY(name_axes(r, rank, dims));
    ES_TRY(begin_array(r, header_bytes));
    r->scale = 1.0;
    return r->element_bytes > 1 && !r->shape.is_rows ? find_scale(r, header_bytes) : ES_STATUS_OK;
}

static int64_t big_endian(const unsigned char *bytes) {
    return (int64_t)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

// 0, 0, type 8 (bytes), 3 dimensions, then these
static EsStatus open_idx(EsInputReader *r) {
    unsigned char header[16];
    int64_t dims[3];
    ES_TRY(es_data_file_read(&r->file, header, sizeof header));
    for (int i = 0; i < 3; i++) {
        dims[i] = big_endian(header + 4 + 4 * i);
        if (dims[i] < 1 || dims[i] > INT32_MAX) {
            return ES_FAIL(INPUT, "%s: %lld along axis %d", r->path, (long long)dims[i], i);
        }
    }
    r->element_bytes = 1;
    if (r->shape.is_rows) {
        return fail_shape(r, 3, dims);
    }
    r->n_channels = 1;
    r->count = dims[0];
    r->height = (int)ES_MIN(dims[1], MAX_SIDE + 1);
    r->width = (int)ES_MIN(dims[2], MAX_SIDE + 1);
    if (r->height > MAX_SIDE || r->width > MAX_SIDE) {
        return fail_shape(r, 3, dims);
    }
    return begin_array(r, (int64_t)sizeof header);
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
    ES_TRY(es_data_file_read(&r->file, r->item, (size_t)(count * r->element_bytes)));
    if (r->element_bytes == 1 && !r->shape.is_rows) {
        ES_TRY(fit_item(r));
        give_planes(r, input);
        return ES_STATUS_OK;
    }
    for (int64_t k = 0; k < count; k++) {
        double value = value_of(r, k) * r->scale;
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

// The next line, its end replaced by a zero; NULL at the end of the file. Blank lines are skipped.
static char *next_line(EsInputReader *r) {
    while (r->at < r->text + r->n_bytes) {
        char *line = r->at, *end = memchr(line, '\n', (size_t)(r->text + r->n_bytes - line));
        end = end != NULL ? end : r->text + r->n_bytes;
        r->at = end + 1;
        r->line++;
        *end = '\0';
        if (end > line && end[-1] == '\r') {
            end[-1] = '\0';
        }
        if (line[strspn(line, " \t")] != '\0') {
            return line;
        }
    }
    return NULL;
}

// Cuts the first field off a line: without quotes and blanks around it. *line is NULL after the
// last.
static char *next_field(const EsInputReader *r, char **line) {
    char *field = *line + strspn(*line, " "), *end = NULL;
    if (*field == '"') {
        end = strchr(++field, '"');
        if (end != NULL) {
            *end++ = '\0';
        }
    }
    char *cut = strchr(end != NULL ? end : field, r->separator);
    *line = cut != NULL ? cut + 1 : NULL;
    if (cut != NULL) {
        *cut = '\0';
    }
    for (size_t n = strlen(field); n > 0 && field[n - 1] == ' '; n--) {
        field[n - 1] = '\0';
    }
    return field;
}

static int read_number(const char *text, float *number) {
    char *end = NULL;
    double value = strtod(text, &end);
    *number = (float)value;
    return end != text && *end == '\0' && isfinite(*number);
}

// Columns by the names of a header: every one that the network takes must be there.
static EsStatus match_header(EsInputReader *r, char *line) {
    for (int c = 0; c < r->shape.n_channels; c++) {
        r->column[c] = -1;
    }
    for (int place = 0; line != NULL; place++) {
        const char *name = next_field(r, &line);
        for (int c = 0; c < r->shape.n_channels; c++) {
            if (r->column[c] < 0 && strcmp(name, r->shape.column_names[c]) == 0) {
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

// Counts the columns of the first line, and whether it is a header: a field is no number.
static EsStatus look_at_first(EsInputReader *r, const char *line, int *is_header) {
    char *copy = NULL;
    ES_TRY(es_allocate(strlen(line) + 1, (void **)&copy));
    char *rest = strcpy(copy, line);
    for (r->n_columns = 0; rest != NULL; r->n_columns++) {
        float ignored;
        *is_header |= !read_number(next_field(r, &rest), &ignored);
    }
    es_release(copy);
    return ES_STATUS_OK;
}

static EsStatus open_table(EsInputReader *r) {
    void *text = NULL;
    if (!r->shape.is_rows) {
        return ES_FAIL(INPUT, "%s: a table of rows; the network takes images", r->path);
    }
    ES_TRY(es_file_read_all(r->path, MAX_TABLE_BYTES, &text, &r->n_bytes));
    r->text = r->at = text;
    ES_TRY(es_allocate(sizeof *r->column * (size_t)r->shape.n_channels, (void **)&r->column));
    size_t first_bytes = strcspn(r->text, "\n");
    r->separator = ',';
    for (const char *other = ";\t"; *other != '\0'; other++) {
        if (memchr(r->text, ',', first_bytes) == NULL &&
            memchr(r->text, *other, first_bytes) != NULL) {
            r->separator = *other;
        }
    }
    char *line = next_line(r);
    if (line == NULL) {
        return ES_FAIL(INPUT, "%s is empty", r->path);
    }
    int is_header = 0;
    ES_TRY(look_at_first(r, line, &is_header));
    if (is_header && r->shape.column_names != NULL) {
        return match_header(r, line);
    }
    if (r->n_columns != r->shape.n_channels) {
        return ES_FAIL(INPUT, "%s: %d columns, the network takes %d%s", r->path, r->n_columns,
                       r->shape.n_channels,
                       r->shape.column_names != NULL ? "; with a header they are found by name"
                                                     : "");
    }
    for (int c = 0; c < r->shape.n_channels; c++) {
        r->column[c] = c;
    }
    r->pending = is_header ? NULL : line;
    return ES_STATUS_OK;
}

// One row; *is_there is 0 at the end.
static EsStatus read_row(EsInputReader *r, float *input, int *is_there) {
    char *line = r->pending != NULL ? r->pending : next_line(r);
    r->pending = NULL;
    *is_there = line != NULL;
    if (line == NULL) {
        return ES_STATUS_OK;
    }
    int n = 0, n_found = 0;
    for (; line != NULL; n++) {
        const char *field = next_field(r, &line);
        for (int c = 0; c < r->shape.n_channels; c++) {
            if (r->column[c] != n) {
                continue;
            }
            if (!read_number(field, &input[c])) {
                return ES_FAIL(INPUT, "%s:%lld: column %d is \"%.40s\", not a number", r->path,
                               (long long)r->line, n + 1, field);
            }
            n_found++;
        }
    }
    if (n != r->n_columns || n_found != r->shape.n_channels) {
        return ES_FAIL(INPUT, "%s:%lld: %d columns, expected %d", r->path, (long long)r->line, n,
                       r->n_columns);
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
    es_release(reader->text);
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
        snprintf(name, NAME_BYTES, "%s:%lld", r->path, (long long)r->line);
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
