// The name of a CPU kernel in a file that is compiled several times: es_add_cpu for any machine,
// es_add_simd_8 and es_add_simd_16 with 8 and 16 floats per vector (ES_LANES, set by the build).
//
// Families with such variants stand in ES_WIDE_KERNEL_LIST. Where the loops of the specification
// vectorise by themselves its file x_cpu.c is compiled for all of them, without contraction, and
// gives the same bits at every width; where they do not, x_simd.c takes its place.
#ifndef ES_KERNELS_KERNEL_VARIANT_H
#define ES_KERNELS_KERNEL_VARIANT_H

#ifdef ES_LANES
#define ES_SIMD_NAME2(name, lanes) es_##name##_simd_##lanes
#define ES_SIMD_NAME(name, lanes)  ES_SIMD_NAME2(name, lanes)
#define ES_CPU_KERNEL(name)        ES_SIMD_NAME(name, ES_LANES)
#else
#define ES_CPU_KERNEL(name) es_##name##_cpu
#endif

#endif
