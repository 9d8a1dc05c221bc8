// Crafted files: numbers, metadata and bytes changed on purpose, with all checksums refitted, so
// that a reader has nothing but its own checks.
//
//     craft_number(good, bad, "lstm.bias_hh", 3, &(float){NAN}, sizeof(float));
//     craft_metadata(good, bad, "version", "-1");
//     for (int i = 0; i < mutation_count(300); i++) { mutate_bytes(&mutator, bytes, 0, n_bytes);
//     ... }
#ifndef ES_MUTATE_H
#define ES_MUTATE_H

#include "base/random_rules.h"
#include "refit.h"
#include "temp_folder.h"

// --- whole files ---

typedef struct FileBytes {
    unsigned char *bytes; // owned, es_release
    size_t count;
} FileBytes;

static inline FileBytes read_bytes(const char *path) {
    FileBytes file = {NULL, 0};
    void *bytes = NULL;
    REQUIRE_OK(es_file_read_all(path, (size_t)1 << 28, &bytes, &file.count));
    file.bytes = bytes;
    return file;
}

// In place, without fsync: thousands of these are written.
static inline void write_bytes(const char *path, const void *bytes, size_t count) {
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(bytes, 1, count, stream) != count || fclose(stream) != 0) {
        perror(path);
        exit(1);
    }
}

// --- safetensors with one change ---

static inline uint64_t header_bytes(const FileBytes *file) {
    uint64_t length = 0;
    memcpy(&length, file->bytes, sizeof length);
    return length;
}

// A copy with one element of one tensor replaced.
static inline void craft_number(const char *from, const char *to, const char *tensor, int64_t index,
                                const void *value, size_t value_bytes) {
    FileBytes file = read_bytes(from);
    uint64_t length = header_bytes(&file);
    json_t *header = json_loadb((const char *)file.bytes + 8, (size_t)length, 0, NULL);
    const json_t *offsets = json_object_get(json_object_get(header, tensor), "data_offsets");
    uint64_t begin = (uint64_t)json_integer_value(json_array_get(offsets, 0));
    uint64_t end = (uint64_t)json_integer_value(json_array_get(offsets, 1));
    uint64_t place = begin + (uint64_t)index * value_bytes;
    if (place + value_bytes > end) {
        ES_TEST_FAIL("%s has no number %lld of \"%s\"", from, (long long)index, tensor);
    } else {
        memcpy(file.bytes + 8 + length + place, value, value_bytes);
    }
    refit_safetensors(file.bytes, file.count);
    write_bytes(to, file.bytes, file.count);
    json_decref(header);
    es_release(file.bytes);
}

// A copy with one entry of the metadata replaced or, with NULL, left out.
static inline void craft_metadata(const char *from, const char *to, const char *key,
                                  const char *value) {
    FileBytes file = read_bytes(from);
    uint64_t length = header_bytes(&file);
    json_t *header = json_loadb((const char *)file.bytes + 8, (size_t)length, 0, NULL);
    json_t *entries = json_object_get(header, "__metadata__");
    int result = value != NULL ? json_object_set_new(entries, key, json_string(value))
                               : json_object_del(entries, key);
    EXPECT_EQ(result, 0);
    char *text = json_dumps(header, JSON_COMPACT);
    uint64_t text_bytes = strlen(text), data_bytes = file.count - 8 - length;
    unsigned char *bytes = malloc(8 + text_bytes + data_bytes);
    memcpy(bytes, &text_bytes, 8);
    // NOLINTNEXTLINE(bugprone-not-null-terminated-result): bytes of a file
    memcpy(bytes + 8, text, text_bytes);
    memcpy(bytes + 8 + text_bytes, file.bytes + 8 + length, data_bytes);
    write_bytes(to, bytes, 8 + text_bytes + data_bytes);
    free(bytes);
    free(text);
    json_decref(header);
    es_release(file.bytes);
}

// --- random changes ---

// How many: as told by ES_MUTATIONS, else `usual`.
static inline int mutation_count(int usual) {
    const char *text = getenv("ES_MUTATIONS");
    return text != NULL && atoi(text) > 0 ? atoi(text) : usual;
}

typedef struct Mutator {
    uint64_t seed;
    uint32_t n_drawn;
} Mutator;

static inline uint32_t mutate_draw(Mutator *mutator, uint32_t below) {
    EsRandom4 draw = es_random_draw(mutator->seed, mutator->n_drawn++, ES_PURPOSE_EVALUATION, 0, 0);
    return draw.word[0] % below;
}

// One of the values that break loops, indices and sums, over what stands there.
static inline size_t mutate_value(Mutator *mutator, const unsigned char *at, unsigned char out[8]) {
    const int64_t wide[] = {INT64_MIN, INT64_MAX, INT64_MAX - 1, -1, 0, 1, INT64_C(1) << 51};
    const int32_t narrow[] = {INT32_MIN, INT32_MAX, INT32_MAX - 1, -1, 0, 1, 4000, 1 << 20};
    const double reals[] = {NAN, INFINITY, -INFINITY, -1, 1e300, -0.0, 5e-324};
    const float floats[] = {NAN, INFINITY, -INFINITY, -1, 3e38f, -0.0f, 1e-45f};
    int32_t near;
    switch (mutate_draw(mutator, 6)) {
    case 0:
        memcpy(out, &wide[mutate_draw(mutator, 7)], 8);
        return 8;
    case 1:
        memcpy(out, &narrow[mutate_draw(mutator, 8)], 4);
        return 4;
    case 2:
        memcpy(out, &reals[mutate_draw(mutator, 7)], 8);
        return 8;
    case 3:
        memcpy(out, &floats[mutate_draw(mutator, 7)], 4);
        return 4;
    case 4: // one past the end, one before the begin
        memcpy(&near, at, 4);
        near = (int32_t)((uint32_t)near + mutate_draw(mutator, 3) - 1);
        memcpy(out, &near, 4);
        return 4;
    default:
        out[0] = (unsigned char)(at[0] ^ (1u << mutate_draw(mutator, 8)));
        return 1;
    }
}

// One to three changes from `begin` to `end`, numbers at multiples of four from `begin`.
static inline void mutate_bytes(Mutator *mutator, unsigned char *bytes, size_t begin, size_t end) {
    for (uint32_t n = 1 + mutate_draw(mutator, 3); n > 0 && end >= begin + 8; n--) {
        unsigned char value[8];
        size_t place = begin + 4 * mutate_draw(mutator, (uint32_t)((end - begin - 4) / 4));
        size_t value_bytes = mutate_value(mutator, bytes + place, value);
        memcpy(bytes + place, value, value_bytes);
    }
}

// One to three characters replaced by others that JSON has a use for.
static inline void mutate_text(Mutator *mutator, unsigned char *bytes, size_t begin, size_t end) {
    static const char others[] = "0123456789-.eE+,:\"[]{}ntfau ";
    for (uint32_t n = 1 + mutate_draw(mutator, 3); n > 0 && end > begin; n--) {
        size_t place = begin + mutate_draw(mutator, (uint32_t)(end - begin));
        bytes[place] = (unsigned char)others[mutate_draw(mutator, sizeof others - 1)];
    }
}

// A copy of the file with its header or its data changed.
static inline void mutate_safetensors(Mutator *mutator, const FileBytes *file, const char *to) {
    unsigned char *bytes = malloc(file->count);
    size_t data = 8 + (size_t)header_bytes(file);
    memcpy(bytes, file->bytes, file->count);
    if (mutate_draw(mutator, 2) == 0) {
        mutate_text(mutator, bytes, 8, data);
    } else {
        mutate_bytes(mutator, bytes, data, file->count);
    }
    refit_safetensors(bytes, file->count);
    write_bytes(to, bytes, file->count);
    free(bytes);
}

#endif
