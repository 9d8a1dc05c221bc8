// Tensors: typed, shaped, strided views of memory owned elsewhere.
//
// A tensor is a plain value (copy it freely); its memory belongs to a slab or to the caller.
// Strides count elements. Axis 0 of everything in the engine is the environment axis E.
//
//     EsTensor x = es_tensor_view(memory, ES_DTYPE_F32, device, 3, (int64_t[]){n_envs, n_rows,
//     n_features}); EsTensor third = es_tensor_slice(&x, 0, 2, 1);   // environment 2 alone, no
//     copy
#ifndef ES_TENSOR_TENSOR_H
#define ES_TENSOR_TENSOR_H

#include <stddef.h>

#include "base/macros.h"

ES_EXTERN_C_BEGIN

// name, bytes, safetensors spelling
#define ES_DTYPE_LIST(X)                                                                           \
    X(F32, 4, "F32")                                                                               \
    X(F64, 8, "F64")                                                                               \
    X(BF16, 2, "BF16")                                                                             \
    X(F16, 2, "F16")                                                                               \
    X(I32, 4, "I32")                                                                               \
    X(I64, 8, "I64")                                                                               \
    X(U8, 1, "U8")                                                                                 \
    X(U16, 2, "U16")

typedef enum EsDtype {
#define X(name, bytes, spelling) ES_DTYPE_##name,
    ES_DTYPE_LIST(X)
#undef X
        ES_DTYPE_COUNT
} EsDtype;

#define ES_MAX_RANK 6

typedef struct EsDevice EsDevice;

typedef struct EsTensor {
    void *data;       // borrowed; device memory when `device` is a GPU
    EsDevice *device; // borrowed
    EsDtype dtype;
    int rank;
    int64_t dim[ES_MAX_RANK];    // unused axes are 1
    int64_t stride[ES_MAX_RANK]; // in elements
} EsTensor;

size_t es_dtype_bytes(EsDtype dtype);
const char *es_dtype_name(EsDtype dtype);

// Parse a safetensors spelling ("F32"); returns 0 when it is unknown.
int es_dtype_parse(const char *spelling, EsDtype *dtype);

// A contiguous row-major view of `data`. Aborts on a rank outside 0..ES_MAX_RANK or a negative
// dimension.
EsTensor es_tensor_view(void *data, EsDtype dtype, EsDevice *device, int rank, const int64_t *dims);

int64_t es_tensor_count(const EsTensor *tensor);
size_t es_tensor_bytes(const EsTensor *tensor);
int es_tensor_is_contiguous(const EsTensor *tensor);
int es_tensor_same_shape(const EsTensor *a, const EsTensor *b);

// `length` elements of one axis from `start`; shares memory.
EsTensor es_tensor_slice(const EsTensor *tensor, int axis, int64_t start, int64_t length);

// The same contiguous memory under another shape of equal count.
EsTensor es_tensor_reshape(const EsTensor *tensor, int rank, const int64_t *dims);

// "F32 [4, 128, 10]" into `text`; returns `text`.
char *es_tensor_describe(const EsTensor *tensor, char *text, size_t text_bytes);

ES_EXTERN_C_END

#endif
