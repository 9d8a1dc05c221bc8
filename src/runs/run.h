// A run: rounds of work with telemetry, checkpoints, and an orderly end, in one folder.
//
// A kind of run (hosts, grow, prove) supplies the work of a round, saving and loading; this
// module owns the folder, the hub and its sinks, decides when to save, and answers
// Ctrl-C: the current round is finished when that takes under ten seconds, otherwise dropped.
// A resumed run goes on from the newest checkpoint and ends with the same bits as one that was
// never interrupted.
//
// Several ranks (settings->ranks) run the same rounds: rank 0 has folder, lock, sinks, checkpoints
// and the word on stopping; the others read its checkpoint and write nothing. All calls but open
// and close are then collective. A checkpoint holds nothing of a rank: any number of them resumes
// it.
//
//     EsRun *run; ES_TRY(es_run_open(&options, &run));
//     EsStatus status = build_work(&work);
//     if (status == ES_STATUS_OK) { status = es_run_start(run); }
//     if (status == ES_STATUS_OK) { status = es_run_rounds(run, &work); }
//     return es_run_close(run, status, &outcome);
#ifndef ES_RUNS_RUN_H
#define ES_RUNS_RUN_H

#include <stdio.h>

#include "base/machine.h"
#include "runs/checkpoint.h"
#include "runs/run_settings.h"
#include "runs/run_writer.h"
#include "telemetry/anomaly_rules.h"
#include "telemetry/hub.h"

typedef struct EsRunOptions {
    const EsConfig *config;        // complete and valid
    const EsRunSettings *settings; // part of config's settings
    const char *out;               // folder to make; NULL: runs/<kind>-...
    const char *resume;            // folder to go on with; NULL: a new run
    int may_restart;               // a resumed run without a checkpoint starts over
    FILE *progress;                // its descriptor gets the progress; NULL: none
    int is_terminal;               // progress may move the cursor
    const char *build;             // "0.1.0 commit, compiler" for the record
} EsRunOptions;

typedef struct EsRun EsRun;

// Checks everything that can be checked before the work is built: that a new run's folder can be
// made, or that a resumed run's is a run that is not locked, with a checkpoint and settings to go
// on with. Takes the lock of a resumed run; makes and changes nothing else, but for damaged
// checkpoints, which are renamed. `build` is copied; all else that is borrowed must outlive the
// run.
EsStatus es_run_open(const EsRunOptions *options, EsRun **run);

// Makes the folder of a new run, writes config.ini, opens the sinks, watches for signals. After a
// failure es_run_close leaves nothing of a new run on disk.
EsStatus es_run_start(EsRun *run);

// Valid once the run has started.
const EsRunFolder *es_run_folder(const EsRun *run);
EsHub *es_run_hub(EsRun *run);

// Rounds that were done and saved before this session's first.
int64_t es_run_rounds_done(const EsRun *run);

// Returns whether this process writes the run's files: rank 0, or the only one.
int es_run_is_writer(const EsRun *run);

// Returns whether progress is shown: without --quiet.
int es_run_has_progress(const EsRun *run);

// Memory that a run allocates beside its work as it was created.
typedef struct EsRunNeed {
    size_t sure_bytes; // by every run of these settings
    size_t peak_bytes; // estimate of the peak; topologies met later are not known ahead
} EsRunNeed;

// Memory of the process that is in use, in bytes; ES_MISSING_INT where the system does not say.
int64_t es_run_resident_bytes(void);

// Queues of the sinks that the settings ask for; `has_progress`: one more,
// of the console.
EsRunNeed es_run_need(const EsRunSettings *settings, int has_progress);

// --- supplied by a kind of run ---

// The results of a round; es_round_report_reset makes everything missing.
typedef struct EsRoundReport {
    double accuracy, accuracy_std; // percent, over the round's episodes
    double score;                  // of a checkpoint; missing: the accuracy
    double loss, reward;           // means over episodes
    int64_t n_episodes;            // of the round
    int64_t n_seeds, n_fossils;    // at its end
    int64_t n_steps;               // of environments
    int64_t n_images;              // trained on; missing where there are none
    int64_t allocated_bytes;       // on the device, by the work; missing on the CPU
    int64_t device_bytes;          // of the device in all; missing on the CPU
    char state_hash[20];           // of all that the work holds; "" = missing
    int has_diverged;              // no loss was finite, or no update had a finite step
    int is_spoiled;                // the state at hand is wrong: no checkpoint is made of it
} EsRoundReport;

void es_round_report_reset(EsRoundReport *report);

typedef struct EsRunWork {
    void *context;
    // Fills in the start of the run; kind, run_id, config, seed and n_rounds are filled in already.
    void (*describe)(void *context, EsRunStartedEvent *row);
    // Round `round` (from 1). Asks es_run_must_drop between steps and then returns INTERRUPTED.
    EsStatus (*round)(void *context, EsRun *run, int64_t round, EsRoundReport *report);
    EsStatus (*save)(void *context, EsCheckpoint *checkpoint);
    // On the writer's thread, after a checkpoint is complete, so it may read nothing that rounds
    // change; nullable. Its failure is logged.
    EsStatus (*saved)(const char *root, int64_t round);
    EsStatus (*load)(void *context, const EsCheckpoint *checkpoint);
    // After the last round, in every session that gets there; nullable. INTERRUPTED when the user
    // asks to stop: a resumed run comes here again.
    EsStatus (*finish)(void *context, EsRun *run);
    // Asked before every round, also after a load: returns whether nothing is left to do; the run
    // then ends as if all its rounds were done. Nullable: never.
    int (*is_over)(void *context);
} EsRunWork;

// Loads the checkpoint when there is one, then runs until settings->n_rounds are done or the user
// asks to stop. INTERRUPTED when a round was dropped or rounds are left; the detail names the saved
// round.
EsStatus es_run_rounds(EsRun *run, const EsRunWork *work);

// The work ends before its time, and is saved: recorded as "halted" with the reason, unless a
// failure follows.
void es_run_note_halt(EsRun *run, const char *reason);

// Hands a durable write to the run's writer thread; the job is the run's from here on. Fails with
// the failure of an earlier one: a run that cannot write does not go on as if it could.
EsStatus es_run_submit(EsRun *run, EsWriterJob *job);

// Waits until all that was handed over is on disk. Fails as es_run_submit does; a checkpoint that
// failed is not among these.
EsStatus es_run_drain(EsRun *run);

// Returns whether the current round must be given up: the user wants to stop and it would not end
// in time. Never while more than a third of that time was worked since the last save; with rounds
// that long there is a checkpoint after each.
int es_run_must_drop(EsRun *run);

// Returns whether the user has asked to stop; for work after the last round.
int es_run_must_stop(EsRun *run);

// Rules over a round's numbers: check into the list, then emit the findings (events, and
// everything recorded for the next steps). es_run_rounds itself checks accuracy over rounds.
EsAnomalyDetector *es_run_detector(EsRun *run);
EsAnomalyList *es_run_anomalies(EsRun *run);
void es_run_emit_anomalies(EsRun *run, EsEventTime time);

// --- wall-clock times of the phases of a round ---

// X(NAME, name)
#define ES_PHASE_LIST(X)                                                                           \
    X(TRAIN, train)                                                                                \
    X(ENVIRONMENT, environment)                                                                    \
    X(VALIDATE, validate)                                                                          \
    X(DECIDE, decide)                                                                              \
    X(UPDATE, update)                                                                              \
    X(CHECKPOINT, checkpoint)                                                                      \
    X(WRITE, write)                                                                                \
    X(ROUND, round)

typedef enum EsPhase {
#define X(NAME, name) ES_PHASE_##NAME,
    ES_PHASE_LIST(X)
#undef X
        ES_PHASE_COUNT
} EsPhase;

// `checkpoint` is the copy of what is saved, `write` the time of the writer thread, which runs
// beside the rounds.

// Counts one call of a phase that began at start_ns (es_clock_ns) and ends now; returns its
// milliseconds.
double es_run_phase_end(EsRun *run, EsPhase phase, int64_t start_ns);

// Wall clock of this session's rounds, each with its events and the copies for the writer thread,
// and of the durable writes, which run beside them. Percentiles are over the last
// ES_RUN_TIMES_KEPT; NaN where there are none.
#define ES_RUN_TIMES_KEPT 16384

typedef struct EsRunTimes {
    int64_t n_rounds;              // without the first
    double first_ms;               // the cold start: the session's first round
    double p50_ms, p95_ms, p99_ms; // of the rounds after it
    int64_t n_writes;              // checkpoints and networks
    double write_p50_ms, write_p95_ms, write_max_ms;
} EsRunTimes;
EsRunTimes es_run_times(const EsRun *run);

// --- the end ---

typedef struct EsRunOutcome {
    int64_t n_rounds_done;  // saved
    int has_lost_events;    // a requested sink lost something: exit code 3
    int64_t diverged_since; // round from which on every one had diverged; 0 = the last had not
    EsHubHealth health;
} EsRunOutcome;

// Emits how it ended, closes the sinks, releases the folder. Of a new run that has not started
// nothing stays on disk. Returns `status` and keeps its detail. `outcome` is nullable. Accepts
// NULL.
EsStatus es_run_close(EsRun *run, EsStatus status, EsRunOutcome *outcome);

#endif
