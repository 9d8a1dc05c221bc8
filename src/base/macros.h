// The few macros every file may use: assertions that stay on, and words that differ between C and
// CUDA.
#ifndef ES_BASE_MACROS_H
#define ES_BASE_MACROS_H

#include <stdint.h>

#ifdef __cplusplus
#define ES_RESTRICT       __restrict__
#define ES_EXTERN_C_BEGIN extern "C" {
#define ES_EXTERN_C_END   }
#define ES_NORETURN       [[noreturn]]
#else
#define ES_RESTRICT restrict
#define ES_EXTERN_C_BEGIN
#define ES_EXTERN_C_END
#define ES_NORETURN _Noreturn
#endif

#ifdef __CUDACC__
#define ES_HOST_DEVICE __host__ __device__
#else
#define ES_HOST_DEVICE
#endif

ES_EXTERN_C_BEGIN

// Print the broken expectation and abort. Only for our own mistakes, never for bad input.
ES_NORETURN void es_assert_failed(const char *expression, const char *file, int line);

ES_EXTERN_C_END

// On in every build; the expression must have no effects.
#define ES_ASSERT(expression)                                                                      \
    ((expression) ? (void)0 : es_assert_failed(#expression, __FILE__, __LINE__))

// For inner loops: on in debug builds alone.
#ifdef NDEBUG
#define ES_ASSERT_SLOW(expression) ((void)0)
#else
#define ES_ASSERT_SLOW(expression) ES_ASSERT(expression)
#endif

#define ES_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define ES_MIN(a, b)       ((a) < (b) ? (a) : (b))
#define ES_MAX(a, b)       ((a) > (b) ? (a) : (b))

#endif
