// The state of a run, shared by run.c (opening, closing) and run_rounds.c (the loop).
#ifndef ES_RUNS_RUN_INTERNAL_H
#define ES_RUNS_RUN_INTERNAL_H

#include "runs/run.h"

// seconds a checkpoint may wait for the sinks to have written all earlier events
#define ES_RUN_FLUSH_SECONDS 2.0

// the settings of the run in a checkpoint's values
#define ES_RUN_SETTINGS_KEY "settings"

// Calls of each phase of a round, and the distribution of their times. Percentiles are over the
// first ES_PHASE_SAMPLES calls of a round; counts, totals and the maximum are over all. Plain data
// without locks: one thread measures.
#define ES_PHASE_SAMPLES 1024

typedef struct EsPhaseTimes {
    int64_t n_calls[ES_PHASE_COUNT];
    double total_ms[ES_PHASE_COUNT];
    double max_ms[ES_PHASE_COUNT];
    float samples[ES_PHASE_COUNT][ES_PHASE_SAMPLES]; // ms
} EsPhaseTimes;

// The last times of one kind; a ring.
typedef struct EsTimeRing {
    int64_t n; // ever
    double max_ms;
    float ms[ES_RUN_TIMES_KEPT];
} EsTimeRing;

struct EsRun {
    EsRunOptions options;     // pointers borrowed
    EsRunFolder *folder;      // owned
    EsHub *hub;               // owned
    EsCheckpoint *checkpoint; // owned; the one to load, NULL for a fresh start
    char build[128];          // options.build points at it
    int had_folder;           // a new run in a folder that was there, empty
    int is_started;           // by es_run_start
    int is_watching;          // for signals
    int prometheus_port;
    int64_t n_rounds_done;  // in this run
    int64_t n_rounds_saved; // round of the newest checkpoint, 0 = none
    int64_t n_rounds_sent;  // round of the newest one on disk or handed to the writer
    int64_t n_episodes;
    int64_t n_steps; // of environments, all sessions; ES_MISSING_INT: an earlier one did not count
    int64_t diverged_since;   // round from which on every one has diverged; 0 = the last has not
    double score, best_score; // of the last round, of all checkpoints
    int64_t session_start_ns, round_start_ns;
    double round_seconds;   // of the last round, 0 = not known yet
    double processor_start; // seconds of the process when the round began; NaN: not known
    int n_threads;          // that the work may use
    double unsaved_seconds; // of the rounds since the newest checkpoint
    double save_seconds;    // of the last save, on the writer thread
    int is_spoiled;         // by the last round: it is not saved
    int has_failed_save;    // and it was logged
    char halt_reason[64];   // "": the work was not halted
    EsRunWriter *writer;    // owned; from start to close
    EsStatus save_status;   // of the last checkpoint that came back from the writer
    EsStatus write_status;  // the first failure of another job
    char save_detail[1024], write_detail[1024];
    double first_round_ms; // of this session; 0: none yet
    EsTimeRing round_times, write_times;
    EsPhaseTimes phases;
    EsAnomalyDetector detector;
    EsAnomalyList anomalies; // owned
};

// Takes back what the writer thread has done: events, counters, failures.
void es_run_collect(EsRun *run);

// --- round_events.c ---

void es_run_add_phase(EsPhaseTimes *times, EsPhase phase, double ms);
void es_run_add_time(EsTimeRing *ring, double ms);
// The first round of a session stands apart.
void es_run_add_round_time(EsRun *run, int64_t start_ns);
// Of the process; missing where the machine does not say.
double es_run_processor_seconds(void);
void es_run_emit_round(EsRun *run, const EsRoundReport *report, double seconds);
// Emits what was added since the last time, and begins anew.
void es_run_emit_phases(EsRun *run, EsEventTime time);

#endif
