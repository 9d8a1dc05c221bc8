// Records of a round in telemetry: times of its phases, its results, memory, anomalies.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "runs/run_internal.h"

// --- phases ---

static const char *phase_name(EsPhase phase) {
    static const char *const names[] = {
#define X(NAME, name) #name,
        ES_PHASE_LIST(X)
#undef X
    };
    return names[phase];
}

static void reset_phases(EsPhaseTimes *times) {
    memset(times->n_calls, 0, sizeof times->n_calls);
    memset(times->total_ms, 0, sizeof times->total_ms);
    memset(times->max_ms, 0, sizeof times->max_ms);
}

void es_run_add_phase(EsPhaseTimes *times, EsPhase phase, double ms) {
    int64_t call = times->n_calls[phase]++;
    if (call < ES_PHASE_SAMPLES) {
        times->samples[phase][call] = (float)ms;
    }
    times->total_ms[phase] += ms;
    times->max_ms[phase] = ES_MAX(times->max_ms[phase], ms);
}

double es_run_phase_end(EsRun *run, EsPhase phase, int64_t start_ns) {
    double ms = es_clock_seconds_since(start_ns) * 1e3;
    es_run_add_phase(&run->phases, phase, ms);
    return ms;
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Nearest-rank percentile (0 < share <= 1) of n > 0 samples, which it sorts.
static double percentile(float *samples, int64_t n, double share) {
    ES_ASSERT(n > 0 && share > 0 && share <= 1);
    qsort(samples, (size_t)n, sizeof *samples, compare_floats);
    int64_t rank = (int64_t)ceil(share * (double)n);
    return samples[ES_MAX(rank, 1) - 1];
}

static double phase_percentile(EsPhaseTimes *times, EsPhase phase, double share) {
    return percentile(times->samples[phase], ES_MIN(times->n_calls[phase], ES_PHASE_SAMPLES),
                      share);
}

// --- times of the session ---

void es_run_add_time(EsTimeRing *ring, double ms) {
    float kept = (float)ms; // the maximum is rounded as percentiles are
    ring->ms[ring->n++ % ES_RUN_TIMES_KEPT] = kept;
    ring->max_ms = ES_MAX(ring->max_ms, (double)kept);
}

static double ring_percentile(const EsTimeRing *ring, double share) {
    float sorted[ES_RUN_TIMES_KEPT];
    int64_t n = ES_MIN(ring->n, ES_RUN_TIMES_KEPT);
    if (n == 0) {
        return es_missing_real();
    }
    memcpy(sorted, ring->ms, sizeof *sorted * (size_t)n);
    return percentile(sorted, n, share);
}

void es_run_add_round_time(EsRun *run, int64_t start_ns) {
    double ms = 1e3 * es_clock_seconds_since(start_ns);
    if (run->first_round_ms <= 0) {
        run->first_round_ms = ms;
    } else {
        es_run_add_time(&run->round_times, ms);
    }
}

EsRunTimes es_run_times(const EsRun *run) {
    const EsTimeRing *rounds = &run->round_times, *writes = &run->write_times;
    return (EsRunTimes){.n_rounds = rounds->n,
                        .first_ms =
                            run->first_round_ms > 0 ? run->first_round_ms : es_missing_real(),
                        .p50_ms = ring_percentile(rounds, 0.5),
                        .p95_ms = ring_percentile(rounds, 0.95),
                        .p99_ms = ring_percentile(rounds, 0.99),
                        .n_writes = writes->n,
                        .write_p50_ms = ring_percentile(writes, 0.5),
                        .write_p95_ms = ring_percentile(writes, 0.95),
                        .write_max_ms = writes->n > 0 ? writes->max_ms : es_missing_real()};
}

// --- events of a round ---

void es_run_emit_phases(EsRun *run, EsEventTime time) {
    EsPhaseProfiledEvent rows[ES_PHASE_COUNT];
    int n = 0;
    for (int phase = 0; phase < ES_PHASE_COUNT; phase++) {
        if (run->phases.n_calls[phase] > 0) {
            rows[n++] = (EsPhaseProfiledEvent){
                .phase = phase_name((EsPhase)phase),
                .n_calls = run->phases.n_calls[phase],
                .total_ms = run->phases.total_ms[phase],
                .p50_ms = phase_percentile(&run->phases, (EsPhase)phase, 0.5),
                .p95_ms = phase_percentile(&run->phases, (EsPhase)phase, 0.95),
                .max_ms = run->phases.max_ms[phase]};
        }
    }
    if (n > 0) {
        es_emit_phase_profiled(run->hub, time, rows, n);
    }
    reset_phases(&run->phases);
}

static void emit_metrics(EsRun *run, EsEventTime time, const EsRoundCompletedEvent *round) {
    const EsMetricEvent all[] = {
        es_metric("charts/SPS", round->steps_per_second),
        es_metric("charts/episodic_return", round->reward),
        es_metric("esper.round.images_per_second", round->images_per_second),
        es_metric("esper.round.accuracy", round->accuracy),
        es_metric("esper.round.rolling_accuracy", round->rolling_accuracy),
        es_metric("esper.round.loss", round->loss),
        es_metric("esper.round.seconds", round->seconds),
        es_metric("esper.round.utilisation", round->utilisation),
        es_metric("esper.round.seeds",
                  round->n_seeds == ES_MISSING_INT ? es_missing_real() : (double)round->n_seeds),
        es_metric("esper.round.fossils", round->n_fossils == ES_MISSING_INT
                                             ? es_missing_real()
                                             : (double)round->n_fossils),
    };
    EsMetricEvent rows[ES_COUNT_OF(all)];
    int n = 0;
    for (size_t i = 0; i < ES_COUNT_OF(all); i++) {
        if (!es_is_missing_real(all[i].value)) {
            rows[n++] = all[i];
        }
    }
    es_emit_metric(run->hub, time, rows, n);
}

void es_run_emit_anomalies(EsRun *run, EsEventTime time) {
    if (run->anomalies.n_rows > 0) {
        es_emit_anomaly_detected(run->hub, time, run->anomalies.rows, run->anomalies.n_rows);
        es_hub_escalate(run->hub);
        es_anomaly_list_reset(&run->anomalies);
    }
}

// Accuracy over the rounds: the rolling mean, its anomalies and its trend.
static double check_round(EsRun *run, EsEventTime time, double accuracy) {
    EsTrendDetectedEvent trend;
    EsRoundHealth health = {accuracy, (double)run->n_rounds_done / run->options.settings->n_rounds};
    if (es_anomaly_check_round(&run->detector, &health, &run->anomalies, &trend)) {
        es_emit_trend_detected(run->hub, time, &trend, 1);
    }
    es_run_emit_anomalies(run, time);
    const EsAnomalyState *state = &run->detector.state;
    return state->n_accuracies > 0 ? state->rolling_accuracy : es_missing_real();
}

// Memory of the process, in pages, stands second in statm; missing where there is no such file.
int64_t es_run_resident_bytes(void) {
    long long n_all = 0, n_resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    int n_read = file != NULL ? fscanf(file, "%lld %lld", &n_all, &n_resident) : 0;
    if (file != NULL) {
        fclose(file);
    }
    return n_read == 2 ? (int64_t)n_resident * sysconf(_SC_PAGESIZE) : ES_MISSING_INT;
}

static void emit_memory(EsRun *run, EsEventTime time, const EsRoundReport *report) {
    const char *device = run->options.settings->device;
    EsMemoryMeasuredEvent row = {.device = device,
                                 .allocated_bytes = report->allocated_bytes,
                                 .total_bytes = report->device_bytes,
                                 .resident_bytes = es_run_resident_bytes()};
    EsMemoryHealth health = {.name = device,
                             .allocated_bytes = report->allocated_bytes,
                             .total_bytes = report->device_bytes};
    es_emit_memory_measured(run->hub, time, &row, 1);
    es_anomaly_check_memory(&run->detector, &health, (double)es_clock_ns() * 1e-9, &run->anomalies);
}

// Processor time of the process so far, all its threads; missing where the system does not say.
double es_run_processor_seconds(void) {
    struct timespec used;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0
               ? (double)used.tv_sec + 1e-9 * (double)used.tv_nsec
               : es_missing_real();
}

// Threads that wait by spinning count as busy, and those of telemetry count, too: a round may have
// more than 100 percent.
static double utilisation_of(const EsRun *run, double seconds) {
    double used = es_run_processor_seconds() - run->processor_start;
    return isfinite(used) && seconds > 0 ? 100 * used / (seconds * run->n_threads)
                                         : es_missing_real();
}

void es_run_emit_round(EsRun *run, const EsRoundReport *report, double seconds) {
    EsEventTime time = {.round = run->n_rounds_done, .step = -1};
    int has_images = report->n_images != ES_MISSING_INT;
    double utilisation = utilisation_of(run, seconds);
    emit_memory(run, time, report);
    double rolling_accuracy = check_round(run, time, report->accuracy);
    EsRoundCompletedEvent row = {
        .n_episodes = run->n_episodes,
        .accuracy = report->accuracy,
        .accuracy_std = report->accuracy_std,
        .rolling_accuracy = rolling_accuracy,
        .reward = report->reward,
        .loss = report->loss,
        .n_seeds = report->n_seeds,
        .n_fossils = report->n_fossils,
        .n_steps = report->n_steps,
        .n_images = report->n_images,
        .seconds = seconds,
        .steps_per_second = (double)report->n_steps / seconds,
        .images_per_second = has_images ? (double)report->n_images / seconds : es_missing_real(),
        .utilisation = utilisation,
        .state_hash = report->state_hash[0] != '\0' ? report->state_hash : NULL,
        .total_steps = run->n_steps};
    es_emit_round_completed(run->hub, time, &row, 1);
    emit_metrics(run, time, &row);
    es_run_emit_phases(run, time);
}
