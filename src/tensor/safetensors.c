// The reader takes the header first, checks it against the file's size, and only then reads the
// data, each tensor into an aligned slot of one slab: files of other writers may place a float at
// any byte.
#include "tensor/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "esper/log.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

// bytes of the header length in front of the header
#define LENGTH_BYTES 8

// the limit of the format's reference reader
#define MAX_HEADER_BYTES 100000000

#define METADATA_NAME "__metadata__"

// bytes of a name that error messages show
#define SHOWN_NAME_BYTES 64

typedef struct Entry {
    const char *name; // borrowed from the header
    EsTensor tensor;
    uint64_t begin, end; // bytes, from the start of the data
    size_t slab_offset;
    int position; // in the header, which orders empty tensors at one place
} Entry;

struct EsSafetensors {
    char *path;     // owned
    json_t *header; // owned
    Entry *entries; // owned, in file order
    int n_entries;
    unsigned char *slab; // owned
};

// --- the hash of the tensors ---

static int compare_names(const void *left, const void *right) {
    const EsNamedTensor *a = left, *b = right;
    return strcmp(a->name, b->name);
}

// name 0 dtype 0 shape 0 data of every tensor, in byte order of the names, which this sorts.
static void hash_tensors(EsNamedTensor *tensors, int n_tensors, char text[ES_SHA256_TEXT_BYTES]) {
    EsSha256 hash;
    es_sha256_begin(&hash);
    qsort(tensors, (size_t)n_tensors, sizeof *tensors, compare_names);
    for (int i = 0; i < n_tensors; i++) {
        const EsTensor *tensor = &tensors[i].tensor;
        const char *dtype = es_dtype_name(tensor->dtype);
        char shape[ES_MAX_RANK * 21 + 1] = "";
        size_t length = 0;
        for (int axis = 0; axis < tensor->rank; axis++) {
            length += (size_t)snprintf(shape + length, sizeof shape - length, "%s%lld",
                                       axis > 0 ? "," : "", (long long)tensor->dim[axis]);
        }
        es_sha256_append(&hash, tensors[i].name, strlen(tensors[i].name) + 1);
        es_sha256_append(&hash, dtype, strlen(dtype) + 1);
        es_sha256_append(&hash, shape, length + 1);
        if (es_tensor_bytes(tensor) > 0) { // an empty tensor may have no address
            es_sha256_append(&hash, tensor->data, es_tensor_bytes(tensor));
        }
    }
    es_sha256_end(&hash, text);
}

// --- reading ---

// Names come from outside: cuts them short and leaves out control characters.
static const char *show_name(const char *name, char shown[SHOWN_NAME_BYTES]) {
    snprintf(shown, SHOWN_NAME_BYTES, "%s", name);
    for (char *c = shown; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
    return shown;
}

static EsStatus load_header(EsFileReader *reader, EsSafetensors *file, uint64_t *data_begin) {
    uint64_t file_bytes = es_file_reader_bytes(reader);
    unsigned char length_bytes[LENGTH_BYTES];
    if (file_bytes < LENGTH_BYTES) {
        return ES_FAIL(INPUT, "%s has %llu bytes, too few for the header length at byte 0",
                       file->path, (unsigned long long)file_bytes);
    }
    ES_TRY(es_file_reader_read(reader, 0, length_bytes, sizeof length_bytes));
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
        length = length << 8 | length_bytes[i];
    }
    if (length > MAX_HEADER_BYTES) {
        return ES_FAIL(INPUT, "%s: header length %llu at byte 0 is above the limit of %d",
                       file->path, (unsigned long long)length, MAX_HEADER_BYTES);
    }
    if (length > file_bytes - LENGTH_BYTES) {
        return ES_FAIL(INPUT, "%s: header length %llu at byte 0 passes the end of the file, %llu",
                       file->path, (unsigned long long)length, (unsigned long long)file_bytes);
    }
    char *text = NULL;
    ES_TRY(es_allocate((size_t)length + 1, (void **)&text));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_file_reader_read(reader, LENGTH_BYTES, text, (size_t)length));
    json_error_t error;
    status = es_json_parse(file->path, text, (size_t)length, &file->header, &error);
    if (status == ES_STATUS_INPUT) {
        status = ES_FAIL(INPUT, "%s: header is not JSON at byte %d: %s", file->path,
                         error.position + LENGTH_BYTES, error.text);
    }
    if (status != ES_STATUS_OK) {
        goto done;
    }
    if (!json_is_object(file->header) || text[0] != '{') {
        status =
            ES_FAIL(INPUT, "%s: header at byte %d is not a JSON object", file->path, LENGTH_BYTES);
    }
    *data_begin = LENGTH_BYTES + length;
done:
    es_release(text);
    return status;
}

static EsStatus check_metadata(const EsSafetensors *file, const json_t *metadata) {
    if (!json_is_object(metadata)) {
        return ES_FAIL(INPUT, "%s: %s is not an object", file->path, METADATA_NAME);
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value) {
        if (!json_is_string(value)) {
            char shown[SHOWN_NAME_BYTES];
            return ES_FAIL(INPUT, "%s: %s entry \"%s\" is not a string", file->path, METADATA_NAME,
                           show_name(key, shown));
        }
    }
    return ES_STATUS_OK;
}

// Shape into dims; *n_bytes is its size. Products are bounded with empty axes counted as 1, because
// strides are products of the axes after them.
static EsStatus parse_shape(const EsSafetensors *file, const char *shown, const json_t *shape,
                            EsDtype dtype, int64_t dims[ES_MAX_RANK], uint64_t *n_bytes) {
    if (!json_is_array(shape) || json_array_size(shape) > ES_MAX_RANK) {
        return ES_FAIL(INPUT, "%s: shape of \"%s\" is not an array of at most %d numbers",
                       file->path, shown, ES_MAX_RANK);
    }
    uint64_t bytes = es_dtype_bytes(dtype);
    uint64_t bound = bytes;
    for (size_t axis = 0; axis < json_array_size(shape); axis++) {
        const json_t *dim = json_array_get(shape, axis);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return ES_FAIL(INPUT, "%s: axis %zu of \"%s\" is not a number >= 0", file->path, axis,
                           shown);
        }
        dims[axis] = (int64_t)json_integer_value(dim);
        uint64_t counted = (uint64_t)ES_MAX(dims[axis], 1);
        if (bound > (uint64_t)INT64_MAX / counted) {
            return ES_FAIL(INPUT, "%s: shape of \"%s\" overflows", file->path, shown);
        }
        bound *= counted;
        bytes *= (uint64_t)dims[axis];
    }
    *n_bytes = bytes;
    return ES_STATUS_OK;
}

static EsStatus parse_entry(const EsSafetensors *file, const char *name, const json_t *value,
                            uint64_t data_begin, uint64_t data_bytes, Entry *entry) {
    char shown[SHOWN_NAME_BYTES];
    show_name(name, shown);
    if (!json_is_object(value)) {
        return ES_FAIL(INPUT, "%s: \"%s\" is not an object", file->path, shown);
    }
    const char *spelling = json_string_value(json_object_get(value, "dtype"));
    EsDtype dtype;
    if (spelling == NULL || !es_dtype_parse(spelling, &dtype)) {
        char shown_dtype[SHOWN_NAME_BYTES];
        return ES_FAIL(INPUT, "%s: dtype \"%s\" of \"%s\" is not one this program reads",
                       file->path, show_name(spelling != NULL ? spelling : "", shown_dtype), shown);
    }
    int64_t dims[ES_MAX_RANK] = {0};
    uint64_t n_bytes = 0;
    const json_t *shape = json_object_get(value, "shape");
    ES_TRY(parse_shape(file, shown, shape, dtype, dims, &n_bytes));
    const json_t *offsets = json_object_get(value, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return ES_FAIL(INPUT, "%s: data_offsets of \"%s\" are not [begin, end]", file->path, shown);
    }
    entry->begin = (uint64_t)json_integer_value(begin);
    entry->end = (uint64_t)json_integer_value(end);
    if (entry->end > data_bytes) {
        return ES_FAIL(INPUT, "%s: \"%s\" ends at byte %llu, the file at byte %llu", file->path,
                       shown, (unsigned long long)(data_begin + entry->end),
                       (unsigned long long)(data_begin + data_bytes));
    }
    if (entry->end - entry->begin != n_bytes) {
        return ES_FAIL(INPUT, "%s: \"%s\" at byte %llu has %llu bytes, its shape needs %llu",
                       file->path, shown, (unsigned long long)(data_begin + entry->begin),
                       (unsigned long long)(entry->end - entry->begin),
                       (unsigned long long)n_bytes);
    }
    entry->name = name;
    entry->tensor = es_tensor_view(NULL, dtype, NULL, (int)json_array_size(shape), dims);
    return ES_STATUS_OK;
}

static int compare_entries(const void *left, const void *right) {
    const Entry *a = left, *b = right;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    if (a->end != b->end) {
        return a->end < b->end ? -1 : 1;
    }
    return a->position < b->position ? -1 : a->position > b->position;
}

static EsStatus parse_entries(EsSafetensors *file, uint64_t data_begin, uint64_t data_bytes) {
    size_t n_names = json_object_size(file->header);
    ES_TRY(es_allocate(n_names * sizeof *file->entries, (void **)&file->entries));
    const char *name;
    json_t *value;
    json_object_foreach(file->header, name, value) {
        if (strcmp(name, METADATA_NAME) == 0) {
            ES_TRY(check_metadata(file, value));
            continue;
        }
        Entry *entry = &file->entries[file->n_entries];
        ES_TRY(parse_entry(file, name, value, data_begin, data_bytes, entry));
        entry->position = file->n_entries++;
    }
    qsort(file->entries, (size_t)file->n_entries, sizeof *file->entries, compare_entries);

    // the format allows neither overlaps nor bytes that belong to no tensor
    uint64_t expected = 0;
    for (int i = 0; i < file->n_entries; i++) {
        const Entry *entry = &file->entries[i];
        char shown[SHOWN_NAME_BYTES];
        if (entry->begin != expected) {
            return ES_FAIL(INPUT,
                           "%s: \"%s\" begins at byte %llu, %s the data before it ends at %llu",
                           file->path, show_name(entry->name, shown),
                           (unsigned long long)(data_begin + entry->begin),
                           entry->begin < expected ? "overlapping:" : "leaving a gap:",
                           (unsigned long long)(data_begin + expected));
        }
        expected = entry->end;
    }
    if (expected != data_bytes) {
        return ES_FAIL(INPUT, "%s: the last tensor ends at byte %llu, the file at byte %llu",
                       file->path, (unsigned long long)(data_begin + expected),
                       (unsigned long long)(data_begin + data_bytes));
    }
    return ES_STATUS_OK;
}

static EsStatus load_data(EsFileReader *reader, EsSafetensors *file, uint64_t data_begin) {
    size_t slab_bytes = 0;
    for (int i = 0; i < file->n_entries; i++) {
        Entry *entry = &file->entries[i];
        entry->slab_offset = es_slab_add(&slab_bytes, (size_t)(entry->end - entry->begin));
    }
    ES_TRY(es_allocate(slab_bytes, (void **)&file->slab));
    for (int i = 0; i < file->n_entries; i++) {
        Entry *entry = &file->entries[i];
        entry->tensor.data = file->slab + entry->slab_offset;
        ES_TRY(es_file_reader_read(reader, data_begin + entry->begin, entry->tensor.data,
                                   (size_t)(entry->end - entry->begin)));
    }
    return ES_STATUS_OK;
}

// The tensors against the hash in the metadata, where there is one.
static EsStatus check_hash(const EsSafetensors *file) {
    const char *wanted = es_safetensors_metadata(file, ES_TENSORS_HASH);
    char found[ES_SHA256_TEXT_BYTES];
    EsNamedTensor *tensors = NULL;
    if (wanted == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate((size_t)file->n_entries * sizeof *tensors, (void **)&tensors));
    for (int i = 0; i < file->n_entries; i++) {
        tensors[i] = es_safetensors_at(file, i);
    }
    hash_tensors(tensors, file->n_entries, found);
    es_release(tensors);
    char shown[SHOWN_NAME_BYTES];
    return strcmp(wanted, found) == 0
               ? ES_STATUS_OK
               : ES_FAIL(INPUT,
                         "%s: its tensors have the SHA-256 %.12s..., its " ES_TENSORS_HASH
                         " says %.12s...: it was damaged or changed after it was written",
                         file->path, found, show_name(wanted, shown));
}

EsStatus es_safetensors_open(const char *path, EsSafetensors **file_out) {
    *file_out = NULL;
    EsFileReader *reader = NULL;
    ES_TRY(es_file_reader_open(path, &reader));
    EsSafetensors *file = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(sizeof *file, (void **)&file));
    ES_TRY_GOTO(es_allocate(strlen(path) + 1, (void **)&file->path));
    strcpy(file->path, path);
    uint64_t data_begin = 0;
    ES_TRY_GOTO(load_header(reader, file, &data_begin));
    ES_TRY_GOTO(parse_entries(file, data_begin, es_file_reader_bytes(reader) - data_begin));
    ES_TRY_GOTO(load_data(reader, file, data_begin));
    ES_TRY_GOTO(check_hash(file));
done:
    es_file_reader_close(reader);
    if (status != ES_STATUS_OK) {
        es_safetensors_close(file);
        return status;
    }
    *file_out = file;
    return ES_STATUS_OK;
}

void es_safetensors_close(EsSafetensors *file) {
    if (file != NULL) {
        json_decref(file->header);
        es_release(file->entries);
        es_release(file->slab);
        es_release(file->path);
        es_release(file);
    }
}

int es_safetensors_count(const EsSafetensors *file) { return file->n_entries; }

EsNamedTensor es_safetensors_at(const EsSafetensors *file, int i) {
    ES_ASSERT(i >= 0 && i < file->n_entries);
    return (EsNamedTensor){file->entries[i].name, file->entries[i].tensor};
}

EsStatus es_safetensors_find(const EsSafetensors *file, const char *name, EsTensor *view) {
    for (int i = 0; i < file->n_entries; i++) {
        if (strcmp(file->entries[i].name, name) == 0) {
            *view = file->entries[i].tensor;
            return ES_STATUS_OK;
        }
    }
    char shown[SHOWN_NAME_BYTES];
    return ES_FAIL(INPUT, "%s has no tensor \"%s\"", file->path, show_name(name, shown));
}

const char *es_safetensors_metadata(const EsSafetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, METADATA_NAME), key));
}

void es_safetensors_note_hash(const EsSafetensors *file) {
    if (es_safetensors_metadata(file, ES_TENSORS_HASH) == NULL) {
        es_log(ES_LOG_INFO,
               "%s was written by an earlier version: it has no " ES_TENSORS_HASH
               ", so damage to its numbers would not be noticed",
               file->path);
    }
}

// --- writing ---

// Set `name` once; takes over `value`, which may be NULL when building it failed.
static EsStatus add_member(json_t *object, const char *name, json_t *value) {
    char shown[SHOWN_NAME_BYTES];
    show_name(name, shown);
    if (json_object_get(object, name) != NULL) {
        json_decref(value);
        return ES_FAIL(ARGUMENT, "the name \"%s\" is given twice", shown);
    }
    if (json_object_set_new(object, name, value) != 0) {
        return es_json_lacked_memory()
                   ? ES_FAIL(MEMORY, "not enough memory for a header with \"%s\"", shown)
                   : ES_FAIL(ARGUMENT, "\"%s\" or its value is not UTF-8", shown);
    }
    return ES_STATUS_OK;
}

static EsStatus describe_tensor(json_t *header, const EsNamedTensor *named, uint64_t *data_bytes) {
    const EsTensor *tensor = &named->tensor;
    if (named->name == NULL || strcmp(named->name, METADATA_NAME) == 0) {
        return ES_FAIL(ARGUMENT, "a tensor has no name, or the reserved one %s", METADATA_NAME);
    }
    if (!es_tensor_is_contiguous(tensor)) {
        char shown[SHOWN_NAME_BYTES];
        return ES_FAIL(ARGUMENT, "tensor \"%s\" is not contiguous", show_name(named->name, shown));
    }
    json_t *shape = json_array();
    for (int axis = 0; axis < tensor->rank; axis++) {
        json_array_append_new(shape, json_integer((json_int_t)tensor->dim[axis]));
    }
    uint64_t end = *data_bytes + es_tensor_bytes(tensor);
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", es_dtype_name(tensor->dtype), "shape", shape,
                  "data_offsets", (json_int_t)*data_bytes, (json_int_t)end);
    *data_bytes = end;
    return add_member(header, named->name, entry);
}

// The tensors of the file in its order: wide elements first, so that each lies on a multiple of its
// element's size for readers that map the file; otherwise as given.
static void order_tensors(const EsNamedTensor *tensors, int n_tensors, int *order) {
    int n_ordered = 0;
    for (size_t bytes = 8; bytes > 0; bytes /= 2) {
        for (int i = 0; i < n_tensors; i++) {
            if (es_dtype_bytes(tensors[i].tensor.dtype) == bytes) {
                order[n_ordered++] = i;
            }
        }
    }
    ES_ASSERT(n_ordered == n_tensors);
}

EsStatus es_safetensors_hash(const EsNamedTensor *tensors, int n_tensors,
                             char text[ES_SHA256_TEXT_BYTES]) {
    EsNamedTensor *copies = NULL;
    ES_TRY(es_allocate((size_t)n_tensors * sizeof *copies, (void **)&copies));
    for (int i = 0; i < n_tensors; i++) {
        copies[i] = tensors[i];
    }
    hash_tensors(copies, n_tensors, text); // changes their order
    es_release(copies);
    return ES_STATUS_OK;
}

// Header text, padded with spaces so that the data begins on a multiple of ES_ALIGNMENT; es_release
// it.
static EsStatus build_header(const EsNamedTensor *tensors, int n_tensors, const int *order,
                             const EsMetadata *metadata, int n_metadata, char **text,
                             size_t *text_bytes) {
    EsStatus status = ES_STATUS_OK;
    char *dumped = NULL;
    (void)es_json_lacked_memory(); // an earlier attempt is no concern of this one
    json_t *header = json_object();
    json_t *entries = n_metadata > 0 ? json_object() : NULL;
    // one that the header cannot take is gone
    if (n_metadata > 0 && json_object_set_new(header, METADATA_NAME, entries) != 0) {
        status = ES_FAIL(MEMORY, "not enough memory for a header of tensors");
        goto done;
    }
    uint64_t data_bytes = 0;
    for (int i = 0; i < n_tensors; i++) {
        ES_TRY_GOTO(describe_tensor(header, &tensors[order[i]], &data_bytes));
    }
    // after the tensors, which have been checked: one of the entries may hash them
    for (int i = 0; i < n_metadata; i++) {
        const char *value = metadata[i].value;
        char hash[ES_SHA256_TEXT_BYTES];
        if (value == NULL) {
            ES_ASSERT(strcmp(metadata[i].key, ES_TENSORS_HASH) == 0);
            ES_TRY_GOTO(es_safetensors_hash(tensors, n_tensors, hash));
            value = hash;
        }
        ES_TRY_GOTO(add_member(entries, metadata[i].key, json_string(value)));
    }
    status = es_json_dump("a header of tensors", header, JSON_COMPACT, &dumped);
    header = NULL;
    ES_TRY_GOTO(status);
    size_t length = strlen(dumped);
    *text_bytes = es_align_up(length + LENGTH_BYTES) - LENGTH_BYTES;
    ES_TRY_GOTO(es_allocate(*text_bytes, (void **)text));
    memset(*text, ' ', *text_bytes);
    memcpy(*text, dumped, length);
done:
    free(dumped);
    json_decref(header);
    return status;
}

EsStatus es_safetensors_save(const char *path, const EsNamedTensor *tensors, int n_tensors,
                             const EsMetadata *metadata, int n_metadata) {
    EsStatus status = ES_STATUS_OK;
    EsFileWriter *writer = NULL;
    char *header = NULL;
    size_t header_bytes = 0;
    int *order = NULL;
    ES_TRY_GOTO(es_allocate((size_t)n_tensors * sizeof *order, (void **)&order));
    order_tensors(tensors, n_tensors, order);
    ES_TRY_GOTO(
        build_header(tensors, n_tensors, order, metadata, n_metadata, &header, &header_bytes));
    ES_TRY_GOTO(es_file_writer_open(path, &writer));
    unsigned char length_bytes[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length_bytes[i] = (unsigned char)((uint64_t)header_bytes >> (8 * i));
    }
    ES_TRY_GOTO(es_file_writer_append(writer, length_bytes, sizeof length_bytes));
    ES_TRY_GOTO(es_file_writer_append(writer, header, header_bytes));
    for (int i = 0; i < n_tensors; i++) {
        const EsTensor *tensor = &tensors[order[i]].tensor;
        ES_TRY_GOTO(es_file_writer_append(writer, tensor->data, es_tensor_bytes(tensor)));
    }
    status = es_file_writer_commit(writer);
    writer = NULL;
done:
    es_file_writer_abandon(writer);
    es_release(header);
    es_release(order);
    return status;
}
