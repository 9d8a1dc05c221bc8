// Benchmark suites: tables of cases that `esper bench` runs, and the records that they give.
// bench.c holds the table of suites.
//
// The protocol: a case is set up once, runs untimed until it is warm and calibrated, then gives n
// samples, each long enough for the clock. A case with two variants alternates them, A B A B, and
// its ratio is the median of the paired ratios, so that a drifting clock rate hits both alike.
#ifndef ES_PROGRAMS_BENCH_SUITE_H
#define ES_PROGRAMS_BENCH_SUITE_H

#include <stdio.h>

#include "base/macros.h"
#include "telemetry/text.h"
#include "tensor/device.h"

// --- statistics ---

typedef struct EsBenchSummary {
    double median;
    double spread; // interquartile range
    int n_samples;
} EsBenchSummary;

// Quantiles interpolate linearly between samples. Sorts `samples`; n_samples >= 1.
EsBenchSummary es_bench_summarise(double *samples, int n_samples);

// Returns whether `value` differs from `reference` by more than 3 % and by more than both spreads.
int es_bench_is_change(EsBenchSummary value, EsBenchSummary reference);

// --- records ---

// Records become the JSON that benchmarks/results/ keeps and the table for people, and are compared
// with baselines.

// One measured value. Texts are borrowed and outlive the list they are in.
typedef struct EsBenchRecord {
    const char *suite, *name;
    const char *parameters; // "E=4 N=128"
    const char *metric;     // "time", "rate"
    const char *unit;       // "ms", "GFLOP/s"
    int is_lower_better;
    EsBenchSummary summary;
    const char *peer; // the other side of `ratio`; NULL = none
    double ratio;     // times better than the peer, 0 = no peer
    int is_change;    // against a baseline: over 3 % and outside the spread
} EsBenchRecord;

typedef struct EsBenchRecords {
    EsBenchRecord *record; // owned
    int n_records, capacity;
} EsBenchRecords;

// Shared by all records of one run.
typedef struct EsBenchOrigin {
    const char *commit, *device, *build;
    const char *command; // the arguments as typed: "esper bench growth --envs 4"
    char date[32];       // UTC, ISO 8601
} EsBenchOrigin;

EsStatus es_bench_records_add(EsBenchRecords *records, const EsBenchRecord *record);
void es_bench_records_destroy(EsBenchRecords *records);

// Compares with a former --json output: records that the file also has and that have no peer of
// their own get peer "baseline". INPUT when the file is no such output.
EsStatus es_bench_records_compare(EsBenchRecords *records, const char *path);

// A JSON array of {suite, case, parameters, metric, unit, value, spread, samples, peer, ratio,
// commit, device, build, command, date}.
EsStatus es_bench_records_print_json(const EsBenchRecords *records, const EsBenchOrigin *origin,
                                     FILE *stream);

// Adds a command line that a shell reads as these arguments, ended by 0: "esper" and them, quoted
// where they must be. Bytes that are not UTF-8 become U+FFFD, since records hold nothing else.
EsStatus es_bench_write_command(int argc, char *const *argv, EsText *text);

void es_bench_records_print_table(const EsBenchRecords *records, const EsBenchOrigin *origin,
                                  FILE *stream);

// --- cases and suites ---

// The device and stream that a case runs on; borrowed.
typedef struct EsBench {
    EsDevice *device;
    EsStream *stream;
} EsBench;

// The request of the command line; each suite takes its own part. With all of that at its
// default the suite runs its own list.
typedef struct EsBenchHost {
    const char *task;      // NULL: the list
    int n_envs, batch;     // 0: 4, and the task's
    int n_blocks;          // 0: the task's
    const char *precision; // host: "f32" or "bf16"
    const char *tf32;      // host, growth: NULL or "on"; "off"
    int n_hidden;          // policy: 0: the list
    // growth
    int step_batches;      // 0: 8; -1: one pass over an environment's share of the images
    int n_validation;      // images; 0: 2000
    const char *seeds;     // NULL or "none"; "holding"; blueprints of the first slots, by commas
    const char *amp_dtype; // NULL or "off"; "auto", "bfloat16", "float16"
    const char *policy;    // NULL or "none": the engine alone; "learned": as `esper grow` runs
    const char *data;      // prove: folder of a knowledge graph; NULL: the generated one
} EsBenchHost;

// ARGUMENT for a word that is neither on nor off.
EsStatus es_bench_parse_tf32(const EsBenchHost *wanted, int *is_tf32);

// A share of the time of a case.
typedef struct EsBenchShare {
    const char *name; // and
    const char *unit; // shown in tables: "% environment"; both static
    double share;     // 0 to 1
} EsBenchShare;
#define ES_BENCH_MAX_SHARES 8

typedef struct EsBenchCase EsBenchCase;
struct EsBenchCase {
    const char *name;
    const char *parameters; // "E=4 N=128": with the name, distinguishes cases
    const void *settings;   // the suite's own, borrowed

    // Allocate and fill everything; *fixture goes to the others. On failure nothing is kept.
    EsStatus (*begin)(const EsBenchCase *bench_case, const EsBench *bench, void **fixture);
    // Queue the measured work once: variant 0, or 1 where peer is not NULL.
    EsStatus (*run)(void *fixture, int variant);
    void (*end)(void *fixture);

    double (*work)(const EsBenchCase *bench_case); // amount done by one run, in units of rate_unit
                                                   // times one second
    const char *rate_unit;                         // "GFLOP/s", "GB/s", "images/s"
    const char *peer;                              // name of variant 1; NULL = one variant
    int64_t (*allocations)(void *fixture); // nullable: allocations so far; those after the warm-up
                                           // are a record of their own
    // nullable: where the time of all runs so far went; returns how many shares
    int (*shares)(void *fixture, EsBenchShare shares[ES_BENCH_MAX_SHARES]);
    EsDeviceCounters (*counters)(
        void *fixture); // suites that count: of the device that does the work
    int n_steps;        // of a timed run whose counters are records, too, per step; 0: they are not
    int is_cpu_only;    // left out with --device cuda
};

#define ES_BENCH_MAX_CUSTOM 8

typedef struct EsBenchSuite {
    const char *name;
    const char *summary;
    const EsBenchCase *cases;
    int n_cases;
    // nullable: put the request of the command line in place of the list: up to ES_BENCH_MAX_CUSTOM
    // cases; 0 = the list. Names and parameters are copied, settings last until the next call.
    EsStatus (*choose)(const EsBenchHost *wanted, EsBenchCase *custom, int *n_custom);
    const char *sweeps; // names of --sweep that `choose` honours, by blanks; NULL: none
    int is_counted;     // cases are counted, not timed
    int is_apart;       // runs only when it is named
} EsBenchSuite;

extern const EsBenchSuite es_bench_growth;
extern const EsBenchSuite es_bench_host;
extern const EsBenchSuite es_bench_kernels;
extern const EsBenchSuite es_bench_policy;
extern const EsBenchSuite es_bench_prove;
extern const EsBenchSuite es_bench_ranks;
extern const EsBenchSuite es_bench_sync;
extern const EsBenchSuite es_bench_telemetry;
extern const EsBenchSuite es_bench_transfer;

// The workload of a process that the suite `ranks` has started; NULL: it has not. Then serve runs
// its rounds until nobody asks for any.
const char *es_bench_ranks_asked(void);
EsStatus es_bench_ranks_serve(const char *work);

// --- running cases ---

#define ES_BENCH_MAX_SAMPLES 1000

// Time and rate of a run, and where the case counts them the allocations of all samples, as
// records.
EsStatus es_bench_time_case(const EsBench *bench, const EsBenchSuite *suite,
                            const EsBenchCase *bench_case, int n_samples, EsBenchRecords *records);

// Synchronisations, copies, launches and allocations of a run, averaged over a few, as records.
EsStatus es_bench_count_case(const EsBench *bench, const EsBenchSuite *suite,
                             const EsBenchCase *bench_case, EsBenchRecords *records);

// Compares each count with the same case's at the fewest environments (E=n of the parameters): peer
// and ratio are filled in; NUMERIC names the first that grows.
EsStatus es_bench_count_compare(EsBenchRecords *records, const char *suite);

// --- folders ---

#define ES_BENCH_PATH_BYTES 4096

// Makes a folder in $TMPDIR or /tmp for the files that a case writes. `path` stays as it is on
// failure.
EsStatus es_bench_folder_create(char path[ES_BENCH_PATH_BYTES]);

// Removes it with its contents; an empty path is no folder. One that cannot be removed is no
// failure of the benchmark.
void es_bench_folder_remove(const char *path);

// --- sweeps ---

// `esper bench --sweep NAME=V,V,...`: the cases of a suite once per value.

#define ES_BENCH_MAX_SWEPT 64

typedef enum EsBenchSwept {
    ES_BENCH_SWEPT_NONE,
    ES_BENCH_SWEPT_ENVS,
    ES_BENCH_SWEPT_BATCH,
    ES_BENCH_SWEPT_HIDDEN,
    ES_BENCH_SWEPT_THREADS
} EsBenchSwept;

typedef struct EsBenchSweep {
    EsBenchSwept what;
    int values[ES_BENCH_MAX_SWEPT];
    int n_values; // 1 where nothing is swept
} EsBenchSweep;

// NULL: nothing is swept. ARGUMENT names the mistake: an unknown name, no number, out of range,
// twice the same.
EsStatus es_bench_sweep_parse(const char *text, EsBenchSweep *sweep);

const char *es_bench_swept_name(EsBenchSwept what); // "envs"

#endif
