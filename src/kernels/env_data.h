// Pointer to environment e of a tensor, for the CPU kernels.
//
// Axis 0 has a stride of its own: parameters, gradients and statistics of one environment stand
// together in a slab, so those of the next are a whole slab away. From the pointer on, the
// environment's elements are contiguous. Nullable tensors are the caller's business.
//
//     const float *weight = es_env_f32(job->weight, e) + o * job->I;
#ifndef ES_KERNELS_ENV_DATA_H
#define ES_KERNELS_ENV_DATA_H

#include "tensor/tensor.h"

static inline float *es_env_f32(const EsTensor *tensor, int64_t e) {
    ES_ASSERT_SLOW(tensor->dtype == ES_DTYPE_F32);
    return (float *)tensor->data + e * tensor->stride[0];
}

static inline double *es_env_f64(const EsTensor *tensor, int64_t e) {
    ES_ASSERT_SLOW(tensor->dtype == ES_DTYPE_F64);
    return (double *)tensor->data + e * tensor->stride[0];
}

static inline int32_t *es_env_i32(const EsTensor *tensor, int64_t e) {
    ES_ASSERT_SLOW(tensor->dtype == ES_DTYPE_I32);
    return (int32_t *)tensor->data + e * tensor->stride[0];
}

static inline uint16_t *es_env_u16(const EsTensor *tensor, int64_t e) {
    ES_ASSERT_SLOW(tensor->dtype == ES_DTYPE_U16);
    return (uint16_t *)tensor->data + e * tensor->stride[0];
}

static inline unsigned char *es_env_u8(const EsTensor *tensor, int64_t e) {
    ES_ASSERT_SLOW(tensor->dtype == ES_DTYPE_U8);
    return (unsigned char *)tensor->data + e * tensor->stride[0];
}

#endif
