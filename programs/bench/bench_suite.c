// Running cases, timed or counted, and the records, baselines and sweeps around them.
#include "bench/bench_suite.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "base/words.h"
#include "cli/frame.h"

// --- statistics ---

EsBenchSummary es_bench_summarise(double *samples, int n_samples) {
    ES_ASSERT(n_samples >= 1);
    es_sort_doubles(samples, n_samples);
    EsBenchSummary summary;
    summary.median = es_quantile(samples, n_samples, 0.5);
    summary.spread = es_quantile(samples, n_samples, 0.75) - es_quantile(samples, n_samples, 0.25);
    summary.n_samples = n_samples;
    return summary;
}

int es_bench_is_change(EsBenchSummary value, EsBenchSummary reference) {
    double difference = fabs(value.median - reference.median);
    return difference > 0.03 * fabs(reference.median) &&
           difference > ES_MAX(value.spread, reference.spread);
}

// --- records ---

EsStatus es_bench_records_add(EsBenchRecords *records, const EsBenchRecord *record) {
    if (records->n_records == records->capacity) {
        int capacity = ES_MAX(64, 2 * records->capacity);
        EsBenchRecord *grown = realloc(records->record, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return ES_FAIL(MEMORY, "no memory for %d benchmark records", capacity);
        }
        records->record = grown;
        records->capacity = capacity;
    }
    records->record[records->n_records++] = *record;
    return ES_STATUS_OK;
}

void es_bench_records_destroy(EsBenchRecords *records) {
    free(records->record);
    memset(records, 0, sizeof *records);
}

// "E=4 N=128 mode=fast" as {"E": 4, "N": 128, "mode": "fast"}
static json_t *parameters_to_json(const char *parameters) {
    json_t *object = json_object();
    while (*parameters != '\0') {
        char key[64], value[128], *end = NULL;
        size_t length = strcspn(parameters, " ");
        size_t key_length = strcspn(parameters, "= ");
        snprintf(key, sizeof key, "%.*s", (int)key_length, parameters);
        size_t value_start = key_length + (parameters[key_length] == '=');
        snprintf(value, sizeof value, "%.*s", (int)(length - value_start),
                 parameters + value_start);
        long long number = strtoll(value, &end, 10);
        int is_number = end != value && *end == '\0';
        json_object_set_new(object, key, is_number ? json_integer(number) : json_string(value));
        parameters += length;
        parameters += strspn(parameters, " ");
    }
    return object;
}

static json_t *record_to_json(const EsBenchRecord *record, const EsBenchOrigin *origin) {
    json_t *object = json_object();
    json_object_set_new(object, "suite", json_string(record->suite));
    json_object_set_new(object, "case", json_string(record->name));
    json_object_set_new(object, "parameters", parameters_to_json(record->parameters));
    json_object_set_new(object, "metric", json_string(record->metric));
    json_object_set_new(object, "unit", json_string(record->unit));
    json_object_set_new(object, "value", json_real(record->summary.median));
    json_object_set_new(object, "spread", json_real(record->summary.spread));
    json_object_set_new(object, "samples", json_integer(record->summary.n_samples));
    json_object_set_new(object, "peer",
                        record->peer != NULL ? json_string(record->peer) : json_null());
    json_object_set_new(object, "ratio",
                        record->peer != NULL ? json_real(record->ratio) : json_null());
    json_object_set_new(object, "commit", json_string(origin->commit));
    json_object_set_new(object, "device", json_string(origin->device));
    json_object_set_new(object, "build", json_string(origin->build));
    json_object_set_new(object, "command", json_string(origin->command));
    json_object_set_new(object, "date", json_string(origin->date));
    return object;
}

EsStatus es_bench_records_print_json(const EsBenchRecords *records, const EsBenchOrigin *origin,
                                     FILE *stream) {
    json_t *array = json_array();
    for (int i = 0; i < records->n_records; i++) {
        json_array_append_new(array, record_to_json(&records->record[i], origin));
    }
    return es_json_write(array, JSON_INDENT(1) | JSON_REAL_PRECISION(15), stream);
}

EsStatus es_bench_write_command(int argc, char *const *argv, EsText *text) {
    es_text_add_string(text, "esper");
    for (int i = 0; i < argc; i++) {
        char *word = NULL;
        size_t word_bytes = 4 * strlen(argv[i]) + 3;
        ES_TRY(es_allocate(word_bytes, (void **)&word));
        es_shell_word(argv[i], word, word_bytes);
        es_text_add_string(text, " ");
        es_text_add_utf8(text, word, strlen(word), ES_TEXT_PLAIN);
        es_release(word);
    }
    es_text_add(text, "", 1);
    return text->status;
}

// Times range from microseconds to seconds, rates from hundredths to millions: four digits, no
// exponent.
static void format_value(double value, char text[24]) {
    int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : value >= 1 ? 3 : 4;
    snprintf(text, 24, "%.*f", decimals, value);
}

static int is_same_case(const EsBenchRecord *a, const EsBenchRecord *b) {
    return strcmp(a->suite, b->suite) == 0 && strcmp(a->name, b->name) == 0 &&
           strcmp(a->parameters, b->parameters) == 0;
}

void es_bench_records_print_table(const EsBenchRecords *records, const EsBenchOrigin *origin,
                                  FILE *stream) {
    fprintf(stream, "device ");
    es_padded_text_print(origin->device, 0, stream);
    fprintf(stream, "\nbuild  %s, commit %s\n", origin->build, origin->commit);
    const char *suite = "";
    for (int i = 0; i < records->n_records; i++) {
        const EsBenchRecord *record = &records->record[i];
        char median[24];
        if (strcmp(suite, record->suite) != 0) {
            suite = record->suite;
            fprintf(stream, "\n%-26s %-26s %4s %7s  %s\n", suite, "parameters", "n", "spread",
                    "medians");
        }
        fprintf(stream, "%-26s %-26s %4d %6.1f%%", record->name, record->parameters,
                record->summary.n_samples,
                record->summary.median > 0 ? 100.0 * record->summary.spread / record->summary.median
                                           : 0.0);
        // the other metrics of the case follow it and share its line
        for (;; i++) {
            format_value(records->record[i].summary.median, median);
            fprintf(stream, " %10s %-8s", median, records->record[i].unit);
            if (i + 1 == records->n_records || !is_same_case(record, &records->record[i + 1])) {
                break;
            }
        }
        if (record->peer != NULL) {
            fprintf(stream, " %6.3f x %s%s", record->ratio, record->peer,
                    record->is_change ? "  CHANGED" : "");
        }
        fputc('\n', stream);
    }
}

// The record of the baseline that measured the same thing, or NULL.
static json_t *find_baseline(json_t *baseline, const EsBenchRecord *record) {
    json_t *parameters = parameters_to_json(record->parameters);
    json_t *candidate, *match = NULL;
    size_t index;
    json_array_foreach(baseline, index, candidate) {
        const char *suite = json_string_value(json_object_get(candidate, "suite"));
        const char *name = json_string_value(json_object_get(candidate, "case"));
        const char *metric = json_string_value(json_object_get(candidate, "metric"));
        if (suite != NULL && name != NULL && metric != NULL && strcmp(suite, record->suite) == 0 &&
            strcmp(name, record->name) == 0 && strcmp(metric, record->metric) == 0 &&
            json_equal(json_object_get(candidate, "parameters"), parameters)) {
            match = candidate;
            break;
        }
    }
    json_decref(parameters);
    return match;
}

EsStatus es_bench_records_compare(EsBenchRecords *records, const char *path) {
    json_t *baseline = NULL;
    ES_TRY(es_json_load(path, &baseline));
    if (!json_is_array(baseline)) {
        json_decref(baseline);
        return ES_FAIL(INPUT, "%s: not an array of benchmark records", path);
    }
    int n_matches = 0;
    for (int i = 0; i < records->n_records; i++) {
        EsBenchRecord *record = &records->record[i];
        json_t *match = record->peer == NULL ? find_baseline(baseline, record) : NULL;
        EsBenchSummary reference = {json_number_value(json_object_get(match, "value")),
                                    json_number_value(json_object_get(match, "spread")), 0};
        if (match == NULL || !(reference.median > 0)) {
            continue;
        }
        n_matches++;
        record->peer = "baseline";
        record->ratio = record->is_lower_better ? reference.median / record->summary.median
                                                : record->summary.median / reference.median;
        record->is_change = es_bench_is_change(record->summary, reference);
    }
    json_decref(baseline);
    return n_matches > 0 ? ES_STATUS_OK
                         : ES_FAIL(INPUT, "%s: no record is of a case that was run", path);
}

// --- cases that are timed ---

// a sample lasts at least this long, so that the clock and one interruption weigh little
#define SAMPLE_SECONDS  0.004
#define WARM_UP_SECONDS 0.02

// Seconds of `n_runs` runs of a variant, until the device has finished them.
static EsStatus time_runs(const EsBench *bench, const EsBenchCase *bench_case, void *fixture,
                          int variant, int n_runs, double *seconds) {
    int64_t start_ns = es_clock_ns();
    for (int i = 0; i < n_runs; i++) {
        ES_TRY(bench_case->run(fixture, variant));
    }
    ES_TRY(es_stream_synchronize(bench->stream));
    *seconds = es_clock_seconds_since(start_ns);
    return es_device_status(bench->device);
}

// Run until warm; returns how many runs make one sample.
static EsStatus warm_up(const EsBench *bench, const EsBenchCase *bench_case, void *fixture,
                        int variant, int *n_runs) {
    double spent = 0, seconds = 0;
    *n_runs = 1;
    do {
        ES_TRY(time_runs(bench, bench_case, fixture, variant, *n_runs, &seconds));
        spent += seconds;
        if (seconds < SAMPLE_SECONDS && *n_runs < (1 << 20)) {
            *n_runs *= 2;
        }
    } while (spent < WARM_UP_SECONDS || (seconds < SAMPLE_SECONDS && *n_runs < (1 << 20)));
    return ES_STATUS_OK;
}

static EsStatus add_records(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                            double *seconds, int n_samples, double ratio, EsBenchRecords *records) {
    double work = bench_case->work(bench_case);
    double rates[ES_BENCH_MAX_SAMPLES];
    for (int i = 0; i < n_samples; i++) {
        rates[i] = work / seconds[i];
        seconds[i] *= 1e3;
    }
    EsBenchRecord record = {
        .suite = suite->name,
        .name = bench_case->name,
        .parameters = bench_case->parameters,
        .metric = "time",
        .unit = "ms",
        .is_lower_better = 1,
        .summary = es_bench_summarise(seconds, n_samples),
        .peer = bench_case->peer,
        .ratio = ratio,
    };
    ES_TRY(es_bench_records_add(records, &record));
    record.metric = "rate";
    record.unit = bench_case->rate_unit;
    record.is_lower_better = 0;
    record.summary = es_bench_summarise(rates, n_samples);
    return es_bench_records_add(records, &record);
}

// Allocations of the samples, which should be none.
static EsStatus add_allocations(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                                int64_t n_allocations, EsBenchRecords *records) {
    double count[1] = {(double)n_allocations};
    EsBenchRecord record = {.suite = suite->name,
                            .name = bench_case->name,
                            .parameters = bench_case->parameters,
                            .metric = "allocations",
                            .unit = "in all samples",
                            .is_lower_better = 1,
                            .summary = es_bench_summarise(count, 1)};
    return es_bench_records_add(records, &record);
}

static EsStatus add_shares(const EsBenchSuite *suite, const EsBenchCase *bench_case, void *fixture,
                           EsBenchRecords *records) {
    EsBenchShare shares[ES_BENCH_MAX_SHARES];
    int n_shares = bench_case->shares(fixture, shares);
    for (int i = 0; i < n_shares; i++) {
        double percent[1] = {100 * shares[i].share};
        EsBenchRecord record = {.suite = suite->name,
                                .name = bench_case->name,
                                .parameters = bench_case->parameters,
                                .metric = shares[i].name,
                                .unit = shares[i].unit,
                                .is_lower_better = 1,
                                .summary = es_bench_summarise(percent, 1)};
        ES_TRY(es_bench_records_add(records, &record));
    }
    return ES_STATUS_OK;
}

#define BYTES "B " // how units begin of counts that may grow with the environments

// The counts of a device between two moments, divided by a number of runs, or of steps where
// is_timed.
static EsStatus add_counts(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                           const EsDeviceCounters *before, const EsDeviceCounters *after,
                           int divisor, int is_timed, EsBenchRecords *records) {
    const int64_t *from = before->copied_bytes, *to = after->copied_bytes;
    const struct {
        const char *metric, *unit, *per_step;
        int64_t count;
    } counts[] = {
        {"synchronisations", "syncs", "syncs/step",
         after->n_synchronizations - before->n_synchronizations},
        {"copies", "copies", "copies/step", after->n_copies - before->n_copies},
        {"launches", "launches", "launches/step", after->n_launches - before->n_launches},
        {"allocations", "allocs", "allocs/step", after->n_allocations - before->n_allocations},
        {"bytes to device", BYTES "to", "B to/step",
         to[ES_COPY_TO_DEVICE] - from[ES_COPY_TO_DEVICE]},
        {"bytes from device", BYTES "from", "B from/step",
         to[ES_COPY_TO_HOST] - from[ES_COPY_TO_HOST]},
        {"bytes on device", BYTES "on", "B on/step",
         to[ES_COPY_ON_DEVICE] - from[ES_COPY_ON_DEVICE]}};
    for (size_t i = 0; i < ES_COUNT_OF(counts); i++) {
        EsBenchRecord record = {
            .suite = suite->name,
            .name = bench_case->name,
            .parameters = bench_case->parameters,
            .metric = counts[i].metric,
            .unit = is_timed ? counts[i].per_step : counts[i].unit,
            .is_lower_better = 1,
            .summary = {(double)counts[i].count / divisor, 0, is_timed ? 1 : divisor}};
        ES_TRY(es_bench_records_add(records, &record));
    }
    return ES_STATUS_OK;
}

// The counts of one more run, per step.
static EsStatus add_step_counts(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                                void *fixture, EsBenchRecords *records) {
    EsDeviceCounters before = bench_case->counters(fixture);
    ES_TRY(bench_case->run(fixture, 0));
    EsDeviceCounters after = bench_case->counters(fixture);
    return add_counts(suite, bench_case, &before, &after, bench_case->n_steps, 1, records);
}

EsStatus es_bench_time_case(const EsBench *bench, const EsBenchSuite *suite,
                            const EsBenchCase *bench_case, int n_samples, EsBenchRecords *records) {
    EsStatus status = ES_STATUS_OK;
    int n_variants = bench_case->peer != NULL ? 2 : 1;
    int n_runs[2] = {1, 1};
    double seconds[2][ES_BENCH_MAX_SAMPLES], ratios[ES_BENCH_MAX_SAMPLES];
    void *fixture = NULL;
    ES_TRY(bench_case->begin(bench_case, bench, &fixture));
    for (int variant = 0; variant < n_variants; variant++) {
        ES_TRY_GOTO(warm_up(bench, bench_case, fixture, variant, &n_runs[variant]));
    }
    int64_t n_before = bench_case->allocations != NULL ? bench_case->allocations(fixture) : 0;
    for (int i = 0; i < n_samples; i++) {
        for (int variant = 0; variant < n_variants; variant++) {
            double *sample = &seconds[variant][i];
            ES_TRY_GOTO(time_runs(bench, bench_case, fixture, variant, n_runs[variant], sample));
            *sample /= n_runs[variant];
        }
        ratios[i] = seconds[n_variants - 1][i] / seconds[0][i];
    }
    double ratio = n_variants == 2 ? es_bench_summarise(ratios, n_samples).median : 0;
    ES_TRY_GOTO(add_records(suite, bench_case, seconds[0], n_samples, ratio, records));
    if (bench_case->shares != NULL) {
        ES_TRY_GOTO(add_shares(suite, bench_case, fixture, records));
    }
    if (bench_case->n_steps > 0) {
        ES_TRY_GOTO(add_step_counts(suite, bench_case, fixture, records));
    }
    if (bench_case->allocations != NULL) {
        status = add_allocations(suite, bench_case, bench_case->allocations(fixture) - n_before,
                                 records);
    }
done:
    bench_case->end(fixture);
    return status;
}

// --- cases that are counted ---

// captures and plans are made in the first runs
#define WARM_UP_RUNS 4
#define COUNTED_RUNS 8

// a record that has no peer yet is compared with this one
#define PEER "fewest environments"

EsStatus es_bench_count_case(const EsBench *bench, const EsBenchSuite *suite,
                             const EsBenchCase *bench_case, EsBenchRecords *records) {
    EsStatus status = ES_STATUS_OK;
    void *fixture = NULL;
    EsDeviceCounters before = {0};
    ES_TRY(bench_case->begin(bench_case, bench, &fixture));
    for (int i = 0; i < WARM_UP_RUNS + COUNTED_RUNS; i++) {
        if (i == WARM_UP_RUNS) {
            before = bench_case->counters(fixture);
        }
        ES_TRY_GOTO(bench_case->run(fixture, 0));
    }
    EsDeviceCounters after = bench_case->counters(fixture);
    ES_TRY_GOTO(add_counts(suite, bench_case, &before, &after, COUNTED_RUNS, 0, records));
done:
    bench_case->end(fixture);
    return status;
}

// E of "E=16 seeds=holding".
static long environments_of(const EsBenchRecord *record) {
    const char *at = strstr(record->parameters, "E=");
    return at != NULL ? strtol(at + 2, NULL, 10) : 0;
}

// The parameters behind E: cases that differ in it too are not compared.
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

EsStatus es_bench_count_compare(EsBenchRecords *records, const char *suite) {
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < records->n_records; i++) {
        EsBenchRecord *record = &records->record[i];
        const EsBenchRecord *fewest = find_fewest(records, record);
        if (strcmp(record->suite, suite) != 0 || fewest == record ||
            strncmp(record->unit, BYTES, strlen(BYTES)) == 0) {
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

// --- folders ---

EsStatus es_bench_folder_create(char path[ES_BENCH_PATH_BYTES]) {
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0') {
        parent = "/tmp";
    }
    char made[ES_BENCH_PATH_BYTES];
    int length = snprintf(made, sizeof made, "%s/esper-bench-XXXXXX", parent);
    if (length < 0 || length >= (int)sizeof made) {
        return ES_FAIL(IO, "TMPDIR is longer than a path may be, %d bytes",
                       ES_BENCH_PATH_BYTES - 1);
    }
    if (mkdtemp(made) == NULL) {
        return ES_FAIL(IO, "cannot make a temporary folder %s: %s", made, strerror(errno));
    }
    memcpy(path, made, sizeof made);
    return ES_STATUS_OK;
}

void es_bench_folder_remove(const char *path) {
    if (path[0] != '\0') {
        (void)es_folder_remove(path);
    }
}

// --- sweeps ---

static const struct {
    const char *name;
    EsBenchSwept what;
    long most;
} names[] = {{"envs", ES_BENCH_SWEPT_ENVS, 65536},
             {"batch", ES_BENCH_SWEPT_BATCH, 65536},
             {"hidden", ES_BENCH_SWEPT_HIDDEN, 4096},
             {"threads", ES_BENCH_SWEPT_THREADS, 1024}};

const char *es_bench_swept_name(EsBenchSwept what) {
    return what == ES_BENCH_SWEPT_NONE ? "" : names[what - ES_BENCH_SWEPT_ENVS].name;
}

static EsStatus find_name(const char *text, size_t length, long *most, EsBenchSwept *what) {
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)ES_MIN(length, 60), text);
    EsSpelling spelling = es_spelling_begin(word);
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        if (strcmp(names[i].name, word) == 0) {
            *most = names[i].most;
            *what = names[i].what;
            return ES_STATUS_OK;
        }
        es_spelling_offer(&spelling, names[i].name);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    return nearest != NULL ? ES_FAIL(ARGUMENT, "--sweep: unknown name \"%s\"; did you mean \"%s\"?",
                                     word, nearest)
                           : ES_FAIL(ARGUMENT,
                                     "--sweep: unknown name \"%s\"; it is envs, batch, hidden or "
                                     "threads",
                                     word);
}

EsStatus es_bench_sweep_parse(const char *text, EsBenchSweep *sweep) {
    long most = 0;
    memset(sweep, 0, sizeof *sweep);
    sweep->n_values = 1;
    if (text == NULL) {
        return ES_STATUS_OK;
    }
    size_t length = strcspn(text, "=");
    ES_TRY(find_name(text, length, &most, &sweep->what));
    sweep->n_values = 0;
    const char *at = text + length;
    while (*at != '\0') {
        char *end = NULL;
        at++; // the equals sign or a comma
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || (*end != ',' && *end != '\0') || errno != 0 ||
            value < 1 || value > most) {
            return ES_FAIL(ARGUMENT, "--sweep %.100s: \"%.*s\" is not a number from 1 to %ld", text,
                           (int)ES_MIN(strcspn(at, ","), 40), at, most);
        }
        for (int i = 0; i < sweep->n_values; i++) {
            if (sweep->values[i] == value) {
                return ES_FAIL(ARGUMENT, "--sweep %.100s: %ld is listed twice", text, value);
            }
        }
        if (sweep->n_values == ES_BENCH_MAX_SWEPT) {
            return ES_FAIL(ARGUMENT, "--sweep: more than %d values", ES_BENCH_MAX_SWEPT);
        }
        sweep->values[sweep->n_values++] = (int)value;
        at = end;
    }
    return sweep->n_values > 0
               ? ES_STATUS_OK
               : ES_FAIL(ARGUMENT, "--sweep %.100s has no values; write --sweep %.*s=1,4,16", text,
                         (int)length, text);
}
