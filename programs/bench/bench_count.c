#include "bench/bench_count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// captures and plans are made in the first runs
#define WARM_UP_RUNS 4
#define COUNTED_RUNS 8

// a record that has no peer yet is compared with this one
#define PEER "fewest environments"

EsStatus es_bench_count_case(const EsBench *bench, const EsBenchSuite *suite,
                             const EsBenchCase *bench_case, EsBenchRecords *records) {
    EsStatus status = ES_STATUS_OK;
    void *state = NULL;
    EsDeviceCounters before = {0};
    ES_TRY(bench_case->begin(bench_case, bench, &state));
    for (int i = 0; i < WARM_UP_RUNS + COUNTED_RUNS; i++) {
        if (i == WARM_UP_RUNS) {
            before = bench_case->counters(state);
        }
        ES_TRY_GOTO(bench_case->run(state, 0));
    }
    EsDeviceCounters after = bench_case->counters(state);
    const struct {
        const char *metric, *unit;
        int64_t count;
    } counts[] = {
        {"synchronisations", "syncs", after.n_synchronizations - before.n_synchronizations},
        {"copies", "copies", after.n_copies - before.n_copies},
        {"launches", "launches", after.n_launches - before.n_launches},
        {"allocations", "allocs", after.n_allocations - before.n_allocations}};
    for (size_t i = 0; i < ES_COUNT_OF(counts); i++) {
        double per_run = (double)counts[i].count / COUNTED_RUNS;
        EsBenchRecord record = {.suite = suite->name,
                                .name = bench_case->name,
                                .parameters = bench_case->parameters,
                                .metric = counts[i].metric,
                                .unit = counts[i].unit,
                                .is_lower_better = 1,
                                .summary = {per_run, 0, COUNTED_RUNS}};
        ES_TRY_GOTO(es_bench_records_add(records, &record));
    }
done:
    bench_case->end(state);
    return status;
}

// E of "E=16 seeds=holding".
static long environments_of(const EsBenchRecord *record) {
    const char *at = strstr(record->parameters, "E=");
    return at != NULL ? strtol(at + 2, NULL, 10) : 0;
}

// What stands behind E: cases that differ in it too are not compared.
static const char *rest_of(const EsBenchRecord *record) {
    const char *space = strchr(record->parameters, ' ');
    return space != NULL ? space : "";
}

static const EsBenchRecord *find_fewest(const EsBenchRecords *records,
                                        const EsBenchRecord *record) {
    const EsBenchRecord *fewest = record;
    for (int i = 0; i < records->n_records; i++) {
        const EsBenchRecord *other = &records->record[i];
        int is_alike = strcmp(other->suite, record->suite) == 0 &&
                       strcmp(other->name, record->name) == 0 &&
                       strcmp(other->metric, record->metric) == 0 &&
                       strcmp(rest_of(other), rest_of(record)) == 0;
        if (is_alike && environments_of(other) < environments_of(fewest)) {
            fewest = other;
        }
    }
    return fewest;
}

EsStatus es_bench_count_judge(EsBenchRecords *records, const char *suite) {
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < records->n_records; i++) {
        EsBenchRecord *record = &records->record[i];
        const EsBenchRecord *fewest = find_fewest(records, record);
        if (strcmp(record->suite, suite) != 0 || fewest == record) {
            continue;
        }
        double value = record->summary.median, reference = fewest->summary.median;
        record->peer = PEER;
        record->ratio = value == reference ? 1 : value > 0 ? reference / value : 0;
        record->is_change = value > reference;
        if (record->is_change && status == ES_STATUS_OK) {
            status = ES_FAIL(NUMERIC,
                             "%s/%s: %s grow with the number of environments: %.4g per step at "
                             "E=%ld, %.4g at E=%ld",
                             suite, record->name, record->metric, reference,
                             environments_of(fewest), value, environments_of(record));
        }
    }
    return status;
}
