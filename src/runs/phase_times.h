// Wall-clock times of the phases of a round: how often each ran, and the distribution of its times.
//
// Plain data without locks: one thread measures. Percentiles are over the first
// ES_PHASE_SAMPLES calls of a round; counts, totals and the maximum are over all.
#ifndef ES_RUNS_PHASE_TIMES_H
#define ES_RUNS_PHASE_TIMES_H

#include <stdint.h>

// X(NAME, name)
#define ES_PHASE_LIST(X)                                                                           \
    X(TRAIN, train)                                                                                \
    X(ENVIRONMENT, environment)                                                                    \
    X(VALIDATE, validate)                                                                          \
    X(DECIDE, decide)                                                                              \
    X(UPDATE, update)                                                                              \
    X(CHECKPOINT, checkpoint)                                                                      \
    X(ROUND, round)

typedef enum EsPhase {
#define X(NAME, name) ES_PHASE_##NAME,
    ES_PHASE_LIST(X)
#undef X
        ES_PHASE_COUNT
} EsPhase;

#define ES_PHASE_SAMPLES 1024

typedef struct EsPhaseTimes {
    int64_t n_calls[ES_PHASE_COUNT];
    double total_ms[ES_PHASE_COUNT];
    double max_ms[ES_PHASE_COUNT];
    float samples[ES_PHASE_COUNT][ES_PHASE_SAMPLES]; // ms
} EsPhaseTimes;

const char *es_phase_name(EsPhase phase);

void es_phase_times_reset(EsPhaseTimes *times);

// Count one call that began at `start_ns` (es_clock_ns) and ends now; returns its milliseconds.
double es_phase_times_add(EsPhaseTimes *times, EsPhase phase, int64_t start_ns);

// Nearest-rank percentile (0 < share <= 1) of a phase with calls. Sorts the phase's samples.
double es_phase_times_percentile(EsPhaseTimes *times, EsPhase phase, double share);

#endif
