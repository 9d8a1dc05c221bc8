// CUDA's words and plain types for a C++ compiler: qualifiers, dim3, vectors.
#ifndef ES_EMULATION_EMULATED_TYPES_H
#define ES_EMULATION_EMULATED_TYPES_H

#include <stddef.h>
#include <stdint.h>

// nvcc's own mark: headers that serve both compilers look at it
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif

#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n)    __attribute__((aligned(n)))
// A block runs on one thread of the system. emulated_symbols.cpp finds these variables by name (a
// thread-local of a C++ function) and fills them before every block.
#define __shared__ static thread_local

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

// name2, name3 and name4 of a type, aligned as CUDA aligns them
#define ES_EMULATED_VECTORS(name, type)                                                            \
    struct __align__(2 * sizeof(type)) name##2 {                                                   \
        type x, y;                                                                                 \
    };                                                                                             \
    struct __align__(sizeof(type) * 4 > 16 ? 16 : sizeof(type) * 4) name##4 {                      \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    static inline name##2 make_##name##2(type x, type y) { return name##2 {x, y}; }                \
    static inline name##4 make_##name##4(type x, type y, type z, type w) {                         \
        return name##4 {x, y, z, w};                                                               \
    }

ES_EMULATED_VECTORS(char, signed char)
ES_EMULATED_VECTORS(uchar, unsigned char)
ES_EMULATED_VECTORS(short, short)
ES_EMULATED_VECTORS(ushort, unsigned short)
ES_EMULATED_VECTORS(int, int)
ES_EMULATED_VECTORS(uint, unsigned)
ES_EMULATED_VECTORS(longlong, long long)
ES_EMULATED_VECTORS(ulonglong, unsigned long long)
ES_EMULATED_VECTORS(float, float)
ES_EMULATED_VECTORS(double, double)
#undef ES_EMULATED_VECTORS

struct float3 {
    float x, y, z;
};
struct int3 {
    int x, y, z;
};
static inline float3 make_float3(float x, float y, float z) { return float3{x, y, z}; }
static inline int3 make_int3(int x, int y, int z) { return int3{x, y, z}; }

#endif
