// Views, strides and sizes of tensors; none of them owns memory.
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    size_t bytes;
    const char *name;
} dtypes[] = {
#define X(name, bytes, spelling) {bytes, spelling},
    ES_DTYPE_LIST(X)
#undef X
};

size_t es_dtype_bytes(EsDtype dtype) { return dtypes[dtype].bytes; }

const char *es_dtype_name(EsDtype dtype) { return dtypes[dtype].name; }

int es_dtype_parse(const char *spelling, EsDtype *dtype) {
    for (int i = 0; i < ES_DTYPE_COUNT; i++) {
        if (strcmp(spelling, dtypes[i].name) == 0) {
            *dtype = (EsDtype)i;
            return 1;
        }
    }
    return 0;
}

EsTensor es_tensor_view(void *data, EsDtype dtype, EsDevice *device, int rank,
                        const int64_t *dims) {
    ES_ASSERT(rank >= 0 && rank <= ES_MAX_RANK);
    EsTensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.data = data;
    tensor.device = device;
    tensor.dtype = dtype;
    tensor.rank = rank;
    int64_t stride = 1;
    for (int axis = ES_MAX_RANK - 1; axis >= 0; axis--) {
        tensor.dim[axis] = axis < rank ? dims[axis] : 1;
        ES_ASSERT(tensor.dim[axis] >= 0);
        tensor.stride[axis] = stride;
        stride *= tensor.dim[axis];
    }
    return tensor;
}

int64_t es_tensor_count(const EsTensor *tensor) {
    int64_t count = 1;
    for (int axis = 0; axis < tensor->rank; axis++) {
        count *= tensor->dim[axis];
    }
    return count;
}

size_t es_tensor_bytes(const EsTensor *tensor) {
    return (size_t)es_tensor_count(tensor) * es_dtype_bytes(tensor->dtype);
}

int es_tensor_is_contiguous(const EsTensor *tensor) {
    int64_t stride = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        if (tensor->dim[axis] != 1 && tensor->stride[axis] != stride) {
            return 0;
        }
        stride *= tensor->dim[axis];
    }
    return 1;
}

int es_tensor_same_shape(const EsTensor *a, const EsTensor *b) {
    return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

EsTensor es_tensor_slice(const EsTensor *tensor, int axis, int64_t start, int64_t length) {
    ES_ASSERT(axis >= 0 && axis < tensor->rank);
    ES_ASSERT(start >= 0 && length >= 0 && start + length <= tensor->dim[axis]);
    EsTensor part = *tensor;
    size_t skipped_bytes = (size_t)(start * tensor->stride[axis]) * es_dtype_bytes(tensor->dtype);
    part.data = (unsigned char *)tensor->data + skipped_bytes;
    part.dim[axis] = length;
    return part;
}

EsTensor es_tensor_reshape(const EsTensor *tensor, int rank, const int64_t *dims) {
    ES_ASSERT(es_tensor_is_contiguous(tensor));
    EsTensor shaped = es_tensor_view(tensor->data, tensor->dtype, tensor->device, rank, dims);
    ES_ASSERT(es_tensor_count(&shaped) == es_tensor_count(tensor));
    return shaped;
}

char *es_tensor_describe(const EsTensor *tensor, char *text, size_t text_bytes) {
    size_t used = (size_t)snprintf(text, text_bytes, "%s [", es_dtype_name(tensor->dtype));
    for (int axis = 0; axis < tensor->rank && used < text_bytes; axis++) {
        used += (size_t)snprintf(text + used, text_bytes - used, axis > 0 ? ", %lld" : "%lld",
                                 (long long)tensor->dim[axis]);
    }
    if (used < text_bytes) {
        snprintf(text + used, text_bytes - used, "]");
    }
    return text;
}
