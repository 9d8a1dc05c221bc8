// Recorded numbers in tests/golden, for tests: a file opened by its stem, arrays and single numbers
// by name. What is missing or of another type ends the test.
//
//     EsSafetensors *file = golden_open("rewards");
//     const float *reward = golden_floats(file, "lives.shaped", T * E * 11);
//     es_safetensors_close(file);
#ifndef ES_GOLDEN_FILE_H
#define ES_GOLDEN_FILE_H

#include "es_test.h"
#include "tensor/safetensors.h"
#include "test_data.h"

#define GOLDEN_TYPE(type) _Generic((type)0, float : ES_DTYPE_F32, default : ES_DTYPE_I32)

static inline EsSafetensors *golden_open(const char *stem) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.safetensors", es_test_data(), stem);
    EsSafetensors *file = NULL;
    REQUIRE_OK(es_safetensors_open(path, &file));
    return file;
}

static inline int golden_has(const EsSafetensors *file, const char *name) {
    EsTensor tensor;
    return es_safetensors_find(file, name, &tensor) == ES_STATUS_OK;
}

// Number of tensors whose names begin with `prefix`.
static inline int golden_count(const EsSafetensors *file, const char *prefix) {
    int n = 0;
    for (int i = 0; i < es_safetensors_count(file); i++) {
        n += strncmp(es_safetensors_at(file, i).name, prefix, strlen(prefix)) == 0;
    }
    return n;
}

static inline const void *golden_data(const EsSafetensors *file, const char *name, EsDtype dtype,
                                      int64_t count) {
    EsTensor tensor;
    REQUIRE_OK(es_safetensors_find(file, name, &tensor));
    if (tensor.dtype != dtype || (count >= 0 && es_tensor_count(&tensor) != count)) {
        printf("%s: type %d with %lld elements, expected type %d with %lld\n", name,
               (int)tensor.dtype, (long long)es_tensor_count(&tensor), (int)dtype,
               (long long)count);
        exit(1);
    }
    return tensor.data;
}

static inline const float *golden_floats(const EsSafetensors *file, const char *name,
                                         int64_t count) {
    return golden_data(file, name, ES_DTYPE_F32, count);
}

static inline const double *golden_doubles(const EsSafetensors *file, const char *name,
                                           int64_t count) {
    return golden_data(file, name, ES_DTYPE_F64, count);
}

static inline const int32_t *golden_ints(const EsSafetensors *file, const char *name,
                                         int64_t count) {
    return golden_data(file, name, ES_DTYPE_I32, count);
}

static inline const int64_t *golden_longs(const EsSafetensors *file, const char *name,
                                          int64_t count) {
    return golden_data(file, name, ES_DTYPE_I64, count);
}

static inline const uint8_t *golden_bytes(const EsSafetensors *file, const char *name,
                                          int64_t count) {
    return golden_data(file, name, ES_DTYPE_U8, count);
}

static inline float golden_float(const EsSafetensors *file, const char *name) {
    return golden_floats(file, name, 1)[0];
}

static inline int32_t golden_int(const EsSafetensors *file, const char *name) {
    return golden_ints(file, name, 1)[0];
}

// Four-byte elements [first, first + count) of a tensor, where there is one of that name; the
// return value says whether.
static inline int golden_read(const EsSafetensors *file, const char *prefix, const char *name,
                              EsDtype dtype, int64_t first, int64_t count, void *into) {
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    if (!golden_has(file, full)) {
        return 0;
    }
    memcpy(into, (const char *)golden_data(file, full, dtype, -1) + 4 * first, (size_t)(4 * count));
    return 1;
}

#endif
