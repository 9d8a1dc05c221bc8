// Monotonic time.
#ifndef ES_BASE_CLOCK_H
#define ES_BASE_CLOCK_H

#include "base/macros.h"

ES_EXTERN_C_BEGIN

// Nanoseconds since an arbitrary fixed point; never goes backwards.
int64_t es_clock_ns(void);

// Seconds since `start_ns`.
double es_clock_seconds_since(int64_t start_ns);

ES_EXTERN_C_END

#endif
