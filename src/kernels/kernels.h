// The tables of operations: one struct of function pointers per device kind, generated from
// kernel_list.h.
//
//     const EsKernels *kernels = es_kernels_of(device);
//     kernels->conv2d_forward(stream, &x, &weight, NULL, &y);
#ifndef ES_KERNELS_KERNELS_H
#define ES_KERNELS_KERNELS_H

#include "kernels/kernel_list.h"

ES_EXTERN_C_BEGIN

typedef struct EsKernels {
#define X(name, parameters) void(*name) parameters;
    ES_KERNEL_LIST(X)
#undef X
} EsKernels;

#define X(name, parameters)                                                                        \
    void es_##name##_cpu parameters;                                                               \
    void es_##name##_cuda parameters;
ES_KERNEL_LIST(X)
#undef X

// CPU kernels on vectors of 8 or 16 floats
#define X(name, parameters)                                                                        \
    void es_##name##_simd_8 parameters;                                                            \
    void es_##name##_simd_16 parameters;
ES_WIDE_KERNEL_LIST(X)
#undef X

// The table of this device's kind, on the CPU for its vector width (EsDeviceInfo.n_lanes; 4: the
// specifications); lives as long as the program.
const EsKernels *es_kernels_of(const EsDevice *device);

// NULL in a build without CUDA.
const EsKernels *es_kernels_cuda(void);

ES_EXTERN_C_END

#endif
