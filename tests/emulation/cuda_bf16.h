// bf16 for the emulation.
#ifndef ES_EMULATION_CUDA_BF16_H
#define ES_EMULATION_CUDA_BF16_H

#include "emulated_narrow.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __float2bfloat16(float v) { return __nv_bfloat16(v); }
static inline __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
static inline float __bfloat162float(__nv_bfloat16 v) { return v; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return __nv_bfloat16::from_bits(bits);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y));
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 v) {
    return __floats2bfloat162_rn(v.x, v.y);
}
static inline __nv_bfloat162 __float2bfloat162_rn(float v) { return __floats2bfloat162_rn(v, v); }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return __nv_bfloat162(x, y);
}
static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 v) { return __nv_bfloat162(v, v); }
static inline float2 __bfloat1622float2(__nv_bfloat162 v) { return make_float2(v.x, v.y); }
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
static inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return __nv_bfloat162(x, y);
}

#endif
