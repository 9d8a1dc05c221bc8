#include "bench/bench_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/words.h"
#include "cli/frame.h"

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
