// The Prometheus endpoint's table: labels checked once, metrics found by hash, rendered on request.
#include "telemetry/sinks/prometheus_table.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

// --- labels ---

#define MAX_LABELS 16

typedef struct Name {
    const char *bytes; // borrowed
    size_t length;
} Name;

typedef struct LabelParser {
    const char *labels, *next; // the whole list, and its rest
    Name names[MAX_LABELS];
    int n_names;
} LabelParser;

static EsStatus fail_here(const LabelParser *parser, const char *problem) {
    return ES_FAIL(ARGUMENT, "labels %s: at byte %zu: %s", parser->labels,
                   (size_t)(parser->next - parser->labels), problem);
}

static int is_name_byte(char byte, int is_first) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (!is_first && byte >= '0' && byte <= '9');
}

static int is_same(Name a, Name b) {
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

static EsStatus take_name(LabelParser *parser, EsText *text) {
    Name name = {parser->next, 0};
    while (is_name_byte(name.bytes[name.length], name.length == 0)) {
        name.length++;
    }
    if (name.length == 0) {
        return fail_here(parser, "expected a name of letters, digits and underscores");
    }
    if (strncmp(name.bytes, "__", 2) == 0) {
        return fail_here(parser, "names that begin with __ belong to Prometheus");
    }
    if (is_same(name, (Name){"type", 4}) || is_same(name, (Name){"raw_name", 8})) {
        return fail_here(parser, "the names type and raw_name are taken");
    }
    for (int i = 0; i < parser->n_names; i++) {
        if (is_same(name, parser->names[i])) {
            return fail_here(parser, "this name was given before");
        }
    }
    if (parser->n_names == MAX_LABELS) {
        return fail_here(parser, "more than 16 labels");
    }
    parser->names[parser->n_names++] = name;
    es_text_add(text, name.bytes, name.length);
    parser->next += name.length;
    return ES_STATUS_OK;
}

static EsStatus take_value(LabelParser *parser, EsText *text) {
    if (strncmp(parser->next, "=\"", 2) != 0) {
        return fail_here(parser, "expected =\" and a value");
    }
    parser->next += 2;
    es_text_add_string(text, "=\"");
    while (*parser->next != '"') {
        if (*parser->next == '\\') {
            char escaped = parser->next[1];
            if (escaped == '\0' || strchr("\\\"n", escaped) == NULL) {
                return fail_here(parser, "expected \\\\, \\\" or \\n");
            }
            es_text_add(text, parser->next, 2);
            parser->next += 2;
            continue;
        }
        size_t bytes = strcspn(parser->next, "\"\\");
        if (parser->next[bytes] == '\0') {
            parser->next += bytes;
            return fail_here(parser, "the value has no closing quote");
        }
        es_text_add_utf8(text, parser->next, bytes, ES_TEXT_LABEL);
        parser->next += bytes;
    }
    es_text_add_string(text, "\"");
    parser->next++;
    return ES_STATUS_OK;
}

// Add `labels` (a list like run="demo",kind="hosts") to `text` as Prometheus wants them; the rules
// are those of es_prometheus_table_create.
static EsStatus add_labels(const char *labels, EsText *text) {
    LabelParser parser = {.labels = labels, .next = labels};
    while (*parser.next != '\0') {
        if (parser.n_names > 0) {
            if (*parser.next != ',') {
                return fail_here(&parser, "expected a comma");
            }
            parser.next++;
            es_text_add_string(text, ",");
        }
        ES_TRY(take_name(&parser, text));
        ES_TRY(take_value(&parser, text));
    }
    return text->status;
}

#define COUNTER_NAME "esper_events_total"

// FNV-1a
static uint64_t hash_text(const char *text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return hash ^ hash >> 32;
}

static const char *key_of(const EsPrometheusTable *table, const EsPrometheusIndex *index,
                          int32_t metric) {
    const EsPrometheusMetric *found = &table->metrics[metric];
    return index == &table->by_name ? found->name : found->raw_name;
}

// The slot of `key`, or the free one where it belongs.
static int32_t *find_slot(const EsPrometheusTable *table, const EsPrometheusIndex *index,
                          const char *key) {
    size_t mask = index->n_slots - 1, at = (size_t)hash_text(key) & mask;
    while (index->slots[at] != 0 && strcmp(key_of(table, index, index->slots[at] - 1), key) != 0) {
        at = (at + 1) & mask;
    }
    return &index->slots[at];
}

// Room for all metrics of a table of `capacity`: built anew, since half of its entries changed.
static EsStatus grow_index(const EsPrometheusTable *table, EsPrometheusIndex *index,
                           size_t capacity) {
    EsPrometheusIndex bigger = {.n_slots = 2 * capacity};
    ES_TRY(es_allocate(bigger.n_slots * sizeof bigger.slots[0], (void **)&bigger.slots));
    es_release(index->slots);
    *index = bigger;
    for (size_t i = 0; i < table->n_metrics; i++) {
        if (index != &table->by_name || table->metrics[i].is_first) {
            *find_slot(table, index, key_of(table, index, (int32_t)i)) = (int32_t)i + 1;
        }
    }
    return ES_STATUS_OK;
}

static EsStatus grow_table(EsPrometheusTable *table) {
    size_t capacity = ES_MAX(2 * table->capacity, 256);
    ES_TRY(grow_index(table, &table->by_raw_name, capacity));
    ES_TRY(grow_index(table, &table->by_name, capacity));
    EsPrometheusMetric *metrics = NULL;
    ES_TRY(es_allocate(capacity * sizeof metrics[0], (void **)&metrics));
    if (table->n_metrics > 0) {
        memcpy(metrics, table->metrics, table->n_metrics * sizeof metrics[0]);
    }
    es_release(table->metrics);
    table->metrics = metrics;
    table->capacity = capacity;
    return ES_STATUS_OK;
}

EsStatus es_prometheus_table_create(EsPrometheusTable *table, const char *labels) {
    memset(table, 0, sizeof *table);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(add_labels(labels != NULL ? labels : "", &table->labels));
    ES_TRY_GOTO(grow_table(table));
    return ES_STATUS_OK;
done:
    es_prometheus_table_destroy(table);
    return status;
}

void es_prometheus_table_destroy(EsPrometheusTable *table) {
    for (size_t i = 0; i < table->n_metrics; i++) {
        es_release(table->metrics[i].raw_name);
        es_release(table->metrics[i].name);
    }
    es_release(table->metrics);
    es_release(table->by_raw_name.slots);
    es_release(table->by_name.slots);
    es_text_destroy(&table->labels);
    es_text_destroy(&table->scratch);
    memset(table, 0, sizeof *table);
}

void es_prometheus_table_count(EsPrometheusTable *table, EsEventType type) {
    table->n_events[type]++;
}

// Every character outside the alphabet becomes one underscore, however many bytes it has. A digit
// in front and the name of our own counter are moved out of the way.
static void add_exposed_name(EsText *text, const char *raw_name) {
    size_t begin = text->length, bytes = strlen(raw_name);
    if (bytes == 0 || (raw_name[0] >= '0' && raw_name[0] <= '9')) {
        es_text_add_string(text, "_");
    }
    for (size_t at = 0; at < bytes;) {
        uint32_t letter;
        size_t length = es_utf8_next(raw_name + at, bytes - at, &letter);
        int is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == ':';
        es_text_add(text, is_plain ? raw_name + at : "_", 1);
        at += length;
    }
    if (text->length - begin == strlen(COUNTER_NAME) && text->status == ES_STATUS_OK &&
        memcmp(text->bytes + begin, COUNTER_NAME, strlen(COUNTER_NAME)) == 0) {
        es_text_add_string(text, "_");
    }
}

static EsStatus copy_text(const EsText *text, char **copy) {
    ES_TRY(text->status);
    ES_TRY(es_allocate(text->length + 1, (void **)copy));
    memcpy(*copy, text->bytes, text->length);
    return ES_STATUS_OK;
}

// A metric seen for the first time: the raw name is in table->scratch, ended by 0.
static EsStatus add_metric(EsPrometheusTable *table, double value) {
    if (table->n_metrics == table->capacity) {
        ES_TRY(grow_table(table));
    }
    int32_t position = (int32_t)table->n_metrics;
    EsPrometheusMetric *metric = &table->metrics[position];
    *metric = (EsPrometheusMetric){
        .value = value, .next_in_family = -1, .last_in_family = position, .is_first = 1};
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(copy_text(&table->scratch, &metric->raw_name));
    es_text_reset(&table->scratch);
    add_exposed_name(&table->scratch, metric->raw_name);
    ES_TRY_GOTO(copy_text(&table->scratch, &metric->name));
    table->n_metrics++;
    *find_slot(table, &table->by_raw_name, metric->raw_name) = position + 1;
    int32_t *family = find_slot(table, &table->by_name, metric->name);
    if (*family == 0) {
        *family = position + 1;
    } else {
        EsPrometheusMetric *first = &table->metrics[*family - 1];
        metric->is_first = 0;
        table->metrics[first->last_in_family].next_in_family = position;
        first->last_in_family = position;
    }
    return ES_STATUS_OK;
done:
    es_release(metric->raw_name);
    return status;
}

EsStatus es_prometheus_table_set(EsPrometheusTable *table, const char *name, size_t name_bytes,
                                 double value) {
    es_text_reset(&table->scratch);
    es_text_add(&table->scratch, name, name_bytes);
    es_text_add(&table->scratch, "", 1);
    ES_TRY(table->scratch.status);
    int32_t found = *find_slot(table, &table->by_raw_name, table->scratch.bytes);
    if (found == 0) {
        return add_metric(table, value);
    }
    table->metrics[found - 1].value = value;
    return ES_STATUS_OK;
}

static void add_head(EsText *text, const char *name, const char *help, const char *type) {
    es_text_add_string(text, "# HELP ");
    es_text_add_string(text, name);
    es_text_add_string(text, " ");
    es_text_add_utf8(text, help, strlen(help), ES_TEXT_HELP);
    es_text_add_string(text, "\n# TYPE ");
    es_text_add_string(text, name);
    es_text_add_string(text, type);
}

// name{labels,label="value"} and a space; `label` is nullable.
static void add_series(EsText *text, const EsPrometheusTable *table, const char *name,
                       const char *label, const char *value) {
    es_text_add_string(text, name);
    if (table->labels.length > 0 || label != NULL) {
        es_text_add_string(text, "{");
        es_text_add(text, table->labels.bytes, table->labels.length);
        if (label != NULL) {
            es_text_add_string(text, table->labels.length > 0 ? "," : "");
            es_text_add_string(text, label);
            es_text_add_string(text, "=\"");
            es_text_add_utf8(text, value, strlen(value), ES_TEXT_LABEL);
            es_text_add_string(text, "\"");
        }
        es_text_add_string(text, "}");
    }
    es_text_add_string(text, " ");
}

static void add_family(EsText *text, const EsPrometheusTable *table, int32_t first) {
    const EsPrometheusMetric *metric = &table->metrics[first];
    add_head(text, metric->name, metric->raw_name, " gauge\n");
    for (int32_t i = first; i >= 0; i = metric->next_in_family) {
        metric = &table->metrics[i];
        add_series(text, table, metric->name, i == first ? NULL : "raw_name", metric->raw_name);
        if (isfinite(metric->value)) {
            es_text_add_real(text, metric->value);
        } else {
            es_text_add_string(text, isnan(metric->value) ? "NaN"
                                     : metric->value > 0  ? "+Inf"
                                                          : "-Inf");
        }
        es_text_add_string(text, "\n");
    }
}

void es_prometheus_table_render(const EsPrometheusTable *table, EsText *text) {
    add_head(text, COUNTER_NAME, "Events taken in by this process, by type.", " counter\n");
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        const char *name = es_event_schema((EsEventType)type)->name;
        add_series(text, table, COUNTER_NAME, "type", name);
        es_text_add_int(text, table->n_events[type]);
        es_text_add_string(text, "\n");
    }
    for (size_t i = 0; i < table->n_metrics; i++) {
        if (table->metrics[i].is_first) {
            add_family(text, table, (int32_t)i);
        }
    }
}
