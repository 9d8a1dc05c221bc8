// Benchmark suites: tables of cases that `esper bench` runs. bench.c holds the table of suites.
//
// The protocol: a case is set up once, runs untimed until it is warm and calibrated, then gives n
// samples, each long enough for the clock. A case with two variants alternates them, A B A B, and
// its ratio is the median of the paired ratios, so that a drifting clock rate hits both alike.
#ifndef ES_PROGRAMS_BENCH_SUITE_H
#define ES_PROGRAMS_BENCH_SUITE_H

#include "base/macros.h"
#include "tensor/device.h"

// What a case runs on; borrowed.
typedef struct EsBench {
    EsDevice *device;
    EsStream *stream;
} EsBench;

// What the command line asks for; each suite takes what concerns it. With all of that at its
// default the suite runs its own list.
typedef struct EsBenchHost {
    const char *task;      // NULL: the list
    int n_envs, batch;     // 0: 4, and the task's
    int n_blocks;          // 0: the task's
    const char *precision; // host: "f32" or "bf16"
    const char *tf32;      // host, growth: NULL or "on"; "off"
    int n_hidden;          // policy: 0: the list
    // growth
    int step_batches;      // 0: 8; -1: what passes over an environment's share of the images
    int n_validation;      // images; 0: 2000
    const char *seeds;     // NULL or "none"; "holding"; blueprints of the first slots, by commas
    const char *amp_dtype; // NULL or "off"; "auto", "bfloat16", "float16"
    const char *policy;    // NULL or "none": the engine alone; "learned": as `esper grow` plays
    const char *data;      // prove: folder of a knowledge graph; NULL: the generated one
} EsBenchHost;

// ARGUMENT for a word that is neither on nor off.
EsStatus es_bench_parse_tf32(const EsBenchHost *wanted, int *is_tf32);

// A part of the time of a case.
typedef struct EsBenchPart {
    const char *name; // and
    const char *unit; // which tables show: "% environment"; both static
    double share;     // 0 to 1
} EsBenchPart;
#define ES_BENCH_MAX_PARTS 8

typedef struct EsBenchCase EsBenchCase;
struct EsBenchCase {
    const char *name;
    const char *parameters; // "E=4 N=128": with the name, what tells cases apart
    const void *settings;   // the suite's own, borrowed

    // Allocate and fill everything; *state is what the others get. On failure nothing is kept.
    EsStatus (*begin)(const EsBenchCase *bench_case, const EsBench *bench, void **state);
    // Queue the measured work once: variant 0, or 1 where peer is not NULL.
    EsStatus (*run)(void *state, int variant);
    void (*end)(void *state);

    double (*work)(const EsBenchCase *bench_case); // amount done by one run, in units of rate_unit
                                                   // times one second
    const char *rate_unit;                         // "GFLOP/s", "GB/s", "images/s"
    const char *peer;                              // name of variant 1; NULL = one variant
    int64_t (*allocations)(void *state); // nullable: allocations so far; those after the warm-up
                                         // are a record of their own
    // nullable: where the time of all runs so far went; returns how many parts
    int (*parts)(void *state, EsBenchPart parts[ES_BENCH_MAX_PARTS]);
    EsDeviceCounters (*counters)(
        void *state); // suites that count: of the device that does the work
};

#define ES_BENCH_MAX_CUSTOM 8

typedef struct EsBenchSuite {
    const char *name;
    const char *summary;
    const EsBenchCase *cases;
    int n_cases;
    // nullable: put what the command line asks for in place of the list: up to ES_BENCH_MAX_CUSTOM
    // cases; 0 = the list. Names and parameters are copied, settings last until the next call.
    EsStatus (*choose)(const EsBenchHost *wanted, EsBenchCase *custom, int *n_custom);
    const char *sweeps; // names of --sweep that `choose` honours, by blanks; NULL: none
    int is_counted;     // cases are counted (bench_count.h), not timed
} EsBenchSuite;

extern const EsBenchSuite es_bench_growth;
extern const EsBenchSuite es_bench_host;
extern const EsBenchSuite es_bench_kernels;
extern const EsBenchSuite es_bench_policy;
extern const EsBenchSuite es_bench_prove;
extern const EsBenchSuite es_bench_sync;
extern const EsBenchSuite es_bench_telemetry;
extern const EsBenchSuite es_bench_transfer;

#endif
