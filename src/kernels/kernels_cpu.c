// The tables of CPU kernels: the specifications, and those with wider vectors in their place.
#include "kernels/kernels.h"

#define PLAIN(name, parameters)   .name = es_##name##_cpu,
#define SIMD_8(name, parameters)  .name = es_##name##_simd_8,
#define SIMD_16(name, parameters) .name = es_##name##_simd_16,

static const EsKernels *kernels_cpu(int n_lanes) {
    static const EsKernels plain = {ES_KERNEL_LIST(PLAIN)};
#ifdef ES_HAVE_WIDE_LANES
    static const EsKernels simd_8 = {ES_PLAIN_KERNEL_LIST(PLAIN) ES_WIDE_KERNEL_LIST(SIMD_8)};
    static const EsKernels simd_16 = {ES_PLAIN_KERNEL_LIST(PLAIN) ES_WIDE_KERNEL_LIST(SIMD_16)};
    return n_lanes == 16 ? &simd_16 : n_lanes == 8 ? &simd_8 : &plain;
#else
    (void)n_lanes;
    return &plain;
#endif
}

const EsKernels *es_kernels_of(const EsDevice *device) {
    const EsDeviceInfo *info = es_device_info(device);
    return info->kind == ES_DEVICE_CUDA ? es_kernels_cuda() : kernels_cpu(info->n_lanes);
}
