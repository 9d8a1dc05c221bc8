// Monotonic time.
#ifndef ES_BASE_CLOCK_H
#define ES_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

// Nanoseconds since an arbitrary fixed point; never goes backwards.
static inline int64_t es_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Seconds since `start_ns`.
static inline double es_clock_seconds_since(int64_t start_ns) {
    return (double)(es_clock_ns() - start_ns) * 1e-9;
}

#endif
