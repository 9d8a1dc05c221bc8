// Making checksums fit again after a test has changed a file, so that what the file says is read
// and judged, and not turned away at the door. All work on bytes in memory but the last.
//
//     bytes[i] ^= 0x80;
//     refit_safetensors(bytes, n_bytes);
//     EXPECT_STATUS(load(bytes, n_bytes), INPUT);
#ifndef ES_REFIT_H
#define ES_REFIT_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/memory.h"

// --- training.bin ---

// sizes in src/proof: the state of a training, and the head of an environment whose last word is
// the CRC-32C of all that follows
#define REFIT_TRAINING_BYTES 88
#define REFIT_ENV_HEAD_BYTES 120

// Refits the output of es_proof_env_save. Bytes too few for a header stay as they are.
static inline void refit_proof_env(unsigned char *saved, size_t n_bytes) {
    if (n_bytes >= REFIT_ENV_HEAD_BYTES) {
        uint32_t crc = es_crc32c(saved + REFIT_ENV_HEAD_BYTES, n_bytes - REFIT_ENV_HEAD_BYTES);
        memcpy(saved + REFIT_ENV_HEAD_BYTES - sizeof crc, &crc, sizeof crc);
    }
}

static inline void refit_training_bin(unsigned char *bytes, size_t n_bytes) {
    if (n_bytes > REFIT_TRAINING_BYTES) {
        refit_proof_env(bytes + REFIT_TRAINING_BYTES, n_bytes - REFIT_TRAINING_BYTES);
    }
}

// --- safetensors ---

static inline int refit_compare_names(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

// Append one tensor to the hash; 0 when its entry is none, or points outside the data.
static inline int refit_append(EsSha256 *hash, const char *name, const json_t *entry,
                               const unsigned char *data, size_t data_bytes) {
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    json_int_t end = json_integer_value(json_array_get(offsets, 1));
    if (dtype == NULL || begin < 0 || end < begin || (uint64_t)end > data_bytes) {
        return 0;
    }
    es_sha256_append(hash, name, strlen(name) + 1);
    es_sha256_append(hash, dtype, strlen(dtype) + 1);
    for (size_t axis = 0; axis < json_array_size(shape); axis++) {
        char number[24];
        int length = snprintf(number, sizeof number, "%s%lld", axis > 0 ? "," : "",
                              (long long)json_integer_value(json_array_get(shape, axis)));
        es_sha256_append(hash, number, (size_t)length);
    }
    es_sha256_append(hash, "", 1);
    es_sha256_append(hash, data + begin, (size_t)(end - begin));
    return 1;
}

static inline int refit_hash(const json_t *header, const unsigned char *data, size_t data_bytes,
                             char text[ES_SHA256_TEXT_BYTES]) {
    EsSha256 hash;
    size_t n_names = 0;
    const char **names = calloc(json_object_size(header) + 1, sizeof *names), *name;
    json_t *entry;
    int is_whole = names != NULL;
    json_object_foreach((json_t *)header, name, entry) {
        if (is_whole && strcmp(name, "__metadata__") != 0) {
            names[n_names++] = name;
        }
    }
    es_sha256_begin(&hash);
    if (is_whole) {
        qsort(names, n_names, sizeof *names, refit_compare_names);
    }
    for (size_t i = 0; i < n_names && is_whole; i++) {
        is_whole =
            refit_append(&hash, names[i], json_object_get(header, names[i]), data, data_bytes);
    }
    free(names);
    es_sha256_end(&hash, text);
    return is_whole;
}

// Put the hash of the tensors into the header's "tensors_sha256":"...". Returns 0, with the bytes
// as they were, when there is no such entry or the header cannot be read.
static inline int refit_safetensors(unsigned char *bytes, size_t n_bytes) {
    static const char key[] = "\"tensors_sha256\":\"";
    char text[ES_SHA256_TEXT_BYTES];
    uint64_t length = 0;
    if (n_bytes < 8) {
        return 0;
    }
    memcpy(&length, bytes, sizeof length);
    if (length > n_bytes - 8) {
        return 0;
    }
    json_t *header = json_loadb((const char *)bytes + 8, (size_t)length, 0, NULL);
    int is_whole = header != NULL &&
                   refit_hash(header, bytes + 8 + length, n_bytes - 8 - (size_t)length, text);
    json_decref(header);
    size_t digits = sizeof key - 1;
    for (size_t i = 8; is_whole && i + digits + 64 < 8 + length; i++) {
        if (memcmp(bytes + i, key, digits) == 0) {
            memcpy(bytes + i + digits, text, 64);
            return bytes[i + digits + 64] == '"';
        }
    }
    return 0;
}

// --- checkpoints of runs ---

static inline int refit_set_hash(json_t *object, const char *key, const char *path) {
    char text[ES_SHA256_TEXT_BYTES];
    return es_sha256_file(path, text, NULL) == ES_STATUS_OK &&
           json_object_set_new(object, key, json_string(text)) == 0;
}

static inline int refit_save_json(json_t *object, const char *path) {
    char *text = json_dumps(object, JSON_INDENT(2));
    int is_saved = text != NULL && es_file_write_all(path, text, strlen(text)) == ES_STATUS_OK;
    free(text);
    return is_saved;
}

// Rewrite sizes and hashes in rank0.json, manifest.json and DONE of a checkpoint's folder with one
// rank, after any of its files, or the values in rank0.json, were changed. Returns whether all
// could be read and written.
static inline int refit_checkpoint(const char *folder) {
    char mark_path[4200], path[4500], done[ES_SHA256_TEXT_BYTES + 1];
    snprintf(mark_path, sizeof mark_path, "%.4100s/rank0.json", folder);
    json_t *mark = json_load_file(mark_path, 0, NULL);
    json_t *files = json_object_get(mark, "files"), *entry;
    size_t i;
    int is_good = mark != NULL;
    json_array_foreach(files, i, entry) {
        int64_t bytes = 0;
        snprintf(path, sizeof path, "%.4100s/%.200s", folder,
                 json_string_value(json_object_get(entry, "name")));
        is_good = is_good && es_sha256_file(path, done, &bytes) == ES_STATUS_OK &&
                  refit_set_hash(entry, "sha256", path) &&
                  json_object_set_new(entry, "bytes", json_integer(bytes)) == 0;
    }
    is_good = is_good && refit_save_json(mark, mark_path);
    json_decref(mark);
    snprintf(path, sizeof path, "%.4100s/manifest.json", folder);
    json_t *manifest = json_load_file(path, 0, NULL);
    is_good = is_good && es_sha256_file(mark_path, done, NULL) == ES_STATUS_OK &&
              json_array_set_new(json_object_get(manifest, "marks"), 0, json_string(done)) == 0 &&
              refit_save_json(manifest, path) && es_sha256_file(path, done, NULL) == ES_STATUS_OK;
    json_decref(manifest);
    strcat(done, "\n");
    snprintf(path, sizeof path, "%.4100s/DONE", folder);
    return is_good && es_file_write_all(path, done, strlen(done)) == ES_STATUS_OK;
}

#endif
