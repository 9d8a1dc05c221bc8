// f16 for the emulation.
#ifndef ES_EMULATION_CUDA_FP16_H
#define ES_EMULATION_CUDA_FP16_H

#include "emulated_narrow.h"

typedef __half half;
typedef __half2 half2;

static inline __half __float2half(float v) { return __half(v); }
static inline __half __float2half_rn(float v) { return __half(v); }
static inline float __half2float(__half v) { return v; }
static inline unsigned short __half_as_ushort(__half v) { return v.bits; }
static inline __half __ushort_as_half(unsigned short bits) { return __half::from_bits(bits); }
static inline __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
static inline __half2 __float22half2_rn(float2 v) { return __floats2half2_rn(v.x, v.y); }
static inline __half2 __float2half2_rn(float v) { return __floats2half2_rn(v, v); }
static inline __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
static inline __half2 __half2half2(__half v) { return __half2(v, v); }
static inline float2 __half22float2(__half2 v) { return make_float2(v.x, v.y); }
static inline __half __low2half(__half2 v) { return v.x; }
static inline __half __high2half(__half2 v) { return v.y; }
static inline __half2 make_half2(__half x, __half y) { return __half2(x, y); }

#endif
