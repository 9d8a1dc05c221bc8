#include "base/clock.h"

#include <time.h>

int64_t es_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double es_clock_seconds_since(int64_t start_ns) {
    return (double)(es_clock_ns() - start_ns) * 1e-9;
}
