// Benchmark records: the JSON form that benchmarks/results/ keeps, the table for people, and
// baselines.
#ifndef ES_PROGRAMS_BENCH_RECORD_H
#define ES_PROGRAMS_BENCH_RECORD_H

#include <stdio.h>

#include "bench/bench_statistics.h"
#include "esper/status.h"
#include "telemetry/text.h"

// One measured value. Texts are borrowed and outlive the list they are in.
typedef struct EsBenchRecord {
    const char *suite, *name;
    const char *parameters; // "E=4 N=128"
    const char *metric;     // "time", "rate"
    const char *unit;       // "ms", "GFLOP/s"
    int is_lower_better;
    EsBenchSummary summary;
    const char *peer; // what `ratio` compares with; NULL = nothing
    double ratio;     // times better than the peer, 0 = no peer
    int is_change;    // against a baseline: over 3 % and outside the spread
} EsBenchRecord;

typedef struct EsBenchRecords {
    EsBenchRecord *record; // owned
    int n_records, capacity;
} EsBenchRecords;

// What all records of one run share.
typedef struct EsBenchOrigin {
    const char *commit, *device, *build;
    const char *command; // the arguments as typed: "esper bench growth --envs 4"
    char date[32];       // UTC, ISO 8601
} EsBenchOrigin;

EsStatus es_bench_records_add(EsBenchRecords *records, const EsBenchRecord *record);
void es_bench_records_destroy(EsBenchRecords *records);

// Compare with a former --json output: records that the file also has and that have no peer of
// their own get peer "baseline". INPUT when the file is no such output.
EsStatus es_bench_records_compare(EsBenchRecords *records, const char *path);

// A JSON array of {suite, case, parameters, metric, unit, value, spread, samples, peer, ratio,
// commit, device, build, command, date}.
EsStatus es_bench_records_print_json(const EsBenchRecords *records, const EsBenchOrigin *origin,
                                     FILE *stream);

// Adds a command line that a shell reads as these arguments, ended by 0: "esper" and them, quoted
// where they must be. What is not UTF-8 in them becomes U+FFFD, since records hold nothing else.
EsStatus es_bench_write_command(int argc, char *const *argv, EsText *text);

void es_bench_records_print_table(const EsBenchRecords *records, const EsBenchOrigin *origin,
                                  FILE *stream);

#endif
