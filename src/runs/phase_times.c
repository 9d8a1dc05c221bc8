#include "runs/phase_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"

const char *es_phase_name(EsPhase phase) {
    static const char *const names[] = {
#define X(NAME, name) #name,
        ES_PHASE_LIST(X)
#undef X
    };
    return names[phase];
}

void es_phase_times_reset(EsPhaseTimes *times) {
    memset(times->n_calls, 0, sizeof times->n_calls);
    memset(times->total_ms, 0, sizeof times->total_ms);
    memset(times->max_ms, 0, sizeof times->max_ms);
}

double es_phase_times_add(EsPhaseTimes *times, EsPhase phase, int64_t start_ns) {
    double ms = es_clock_seconds_since(start_ns) * 1e3;
    int64_t call = times->n_calls[phase]++;
    if (call < ES_PHASE_SAMPLES) {
        times->samples[phase][call] = (float)ms;
    }
    times->total_ms[phase] += ms;
    times->max_ms[phase] = ES_MAX(times->max_ms[phase], ms);
    return ms;
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double es_phase_times_percentile(EsPhaseTimes *times, EsPhase phase, double share) {
    int64_t n = ES_MIN(times->n_calls[phase], ES_PHASE_SAMPLES);
    ES_ASSERT(n > 0 && share > 0 && share <= 1);
    qsort(times->samples[phase], (size_t)n, sizeof(float), compare_floats);
    int64_t rank = (int64_t)ceil(share * (double)n);
    return times->samples[phase][ES_MAX(rank, 1) - 1];
}
