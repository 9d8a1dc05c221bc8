// The sink's thread fills the table, the HTTP server's thread renders it; a mutex stands between.
//
// Clients that connect and then say nothing, or a byte now and then, must not keep a scrape out:
// when KEPT_CONNECTIONS are open, a new one takes the place of the oldest. A limit per address
// would not do, for all clients of one machine or behind one router share it.
#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "esper/log.h"
#include "telemetry/event.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/metric_families.h"
#include "telemetry/text.h"

// --- the table ---

// The Prometheus endpoint's table: labels checked once, metrics found by hash, rendered on request.

// The table behind the Prometheus endpoint: the latest value of every metric and a counter per
// event type, rendered in the text format 0.0.4.
//
// Names are made of [a-zA-Z0-9_:] and begin with esper_, those of the source documents with
// tolaria_, kasmina_ or tamiyo_. Metrics whose names become the same ("a.b", "a/b") are one
// family of samples: the first is bare, each with another name than it carries that in the label
// raw_name. A metric of a seed or a layer says so in labels. One thread at a time.

typedef struct EsPrometheusMetric {
    char *key;      // owned: its labels as they are shown, a line's end, raw_name, 0
    char *raw_name; // in key
    char *name;     // owned; as Prometheus sees it
    double value;
    int is_first;           // of its family
    int32_t next_in_family; // -1 at the end
    int32_t last_in_family; // only of the first one; itself when alone
} EsPrometheusMetric;

// Positions of metrics, found by a name: open addressing, a power of two, at most half full.
typedef struct EsPrometheusIndex {
    int32_t *slots; // owned; position + 1, 0 when free
    size_t n_slots;
} EsPrometheusIndex;

typedef struct EsPrometheusTable {
    EsText labels;               // run="demo",kind="hosts", or empty
    EsPrometheusMetric *metrics; // owned, in order of appearance
    size_t n_metrics, capacity;
    EsPrometheusIndex by_key, by_name; // by_name holds the first of each family
    EsText scratch;
    int64_t n_events[ES_EVENT_COUNT];
} EsPrometheusTable;

// `labels` (nullable) are shown with every sample: names of [a-zA-Z0-9_] not starting with a digit
// or "__", each once, none of taken_labels, at most 16; values in quotes, where \\ \" and \n are
// escapes. ARGUMENT says at which byte it is something else.
static EsStatus table_create(EsPrometheusTable *table, const char *labels);
static void table_destroy(EsPrometheusTable *table);

static void table_count(EsPrometheusTable *table, EsEventType type);

// A text of a packet: not ended by 0, without a zero byte; NULL: missing.
typedef struct Name {
    const char *bytes; // borrowed
    size_t length;
} Name;

// The labels of a metric.
enum { LABEL_SEED_ID, LABEL_STAGE, LABEL_LAYER, N_METRIC_LABELS };
static const char *const taken_labels[] = {"seed_id", "stage", "layer", "type", "raw_name"};

static EsStatus table_set(EsPrometheusTable *table, Name name, const Name labels[N_METRIC_LABELS],
                          double value);

static void table_render(const EsPrometheusTable *table, EsText *text);

// --- labels ---

#define MAX_LABELS 16

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
    for (size_t i = 0; i < ES_COUNT_OF(taken_labels); i++) {
        if (is_same(name, (Name){taken_labels[i], strlen(taken_labels[i])})) {
            return fail_here(parser,
                             "the names seed_id, stage, layer, type and raw_name are taken");
        }
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
// are those of table_create.
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
    return index == &table->by_name ? found->name : found->key;
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
    ES_TRY(grow_index(table, &table->by_key, capacity));
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

static EsStatus table_create(EsPrometheusTable *table, const char *labels) {
    memset(table, 0, sizeof *table);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(add_labels(labels != NULL ? labels : "", &table->labels));
    ES_TRY_GOTO(grow_table(table));
    return ES_STATUS_OK;
done:
    table_destroy(table);
    return status;
}

static void table_destroy(EsPrometheusTable *table) {
    for (size_t i = 0; i < table->n_metrics; i++) {
        es_release(table->metrics[i].key);
        es_release(table->metrics[i].name);
    }
    es_release(table->metrics);
    es_release(table->by_key.slots);
    es_release(table->by_name.slots);
    es_text_destroy(&table->labels);
    es_text_destroy(&table->scratch);
    memset(table, 0, sizeof *table);
}

static void table_count(EsPrometheusTable *table, EsEventType type) { table->n_events[type]++; }

// Returns whether a metric's name begins with a part that stays in front.
static int has_prefix(const char *raw_name) {
    static const char *const prefixes[] = {"esper", "tolaria", "kasmina", "tamiyo"};
    for (size_t i = 0; i < ES_COUNT_OF(prefixes); i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(raw_name, prefixes[i], length) == 0 && raw_name[length] != '\0' &&
            strchr("._/", raw_name[length]) != NULL) {
            return 1;
        }
    }
    return 0;
}

// Every character outside the alphabet becomes one underscore, however many bytes it has. The name
// of our own counter is moved out of the way.
static void add_exposed_name(EsText *text, const char *raw_name) {
    size_t begin = text->length, bytes = strlen(raw_name);
    es_text_add_string(text, has_prefix(raw_name) ? "" : "esper_");
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

// A metric seen for the first time: its key is in table->scratch, ended by 0.
static EsStatus add_metric(EsPrometheusTable *table, double value) {
    if (table->n_metrics == table->capacity) {
        ES_TRY(grow_table(table));
    }
    int32_t position = (int32_t)table->n_metrics;
    EsPrometheusMetric *metric = &table->metrics[position];
    *metric = (EsPrometheusMetric){
        .value = value, .next_in_family = -1, .last_in_family = position, .is_first = 1};
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(copy_text(&table->scratch, &metric->key));
    metric->raw_name = strchr(metric->key, '\n') + 1;
    es_text_reset(&table->scratch);
    add_exposed_name(&table->scratch, metric->raw_name);
    ES_TRY_GOTO(copy_text(&table->scratch, &metric->name));
    table->n_metrics++;
    *find_slot(table, &table->by_key, metric->key) = position + 1;
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
    es_release(metric->key);
    return status;
}

static void add_label(EsText *text, const char *name, Name value) {
    es_text_add_string(text, name);
    es_text_add_string(text, "=\"");
    es_text_add_utf8(text, value.bytes, value.length, ES_TEXT_LABEL);
    es_text_add_string(text, "\"");
}

static EsStatus table_set(EsPrometheusTable *table, Name name, const Name labels[N_METRIC_LABELS],
                          double value) {
    es_text_reset(&table->scratch);
    for (int i = 0; i < N_METRIC_LABELS; i++) {
        if (labels[i].bytes != NULL) {
            es_text_add_string(&table->scratch, table->scratch.length > 0 ? "," : "");
            add_label(&table->scratch, taken_labels[i], labels[i]);
        }
    }
    es_text_add_string(&table->scratch, "\n"); // which labels have only escaped
    es_text_add(&table->scratch, name.bytes, name.length);
    es_text_add(&table->scratch, "", 1);
    ES_TRY(table->scratch.status);
    int32_t found = *find_slot(table, &table->by_key, table->scratch.bytes);
    if (found == 0) {
        return add_metric(table, value);
    }
    table->metrics[found - 1].value = value;
    return ES_STATUS_OK;
}

static void begin_head(EsText *text, const char *name) {
    es_text_add_string(text, "# HELP ");
    es_text_add_string(text, name);
    es_text_add_string(text, " ");
}

static void end_head(EsText *text, const char *name, const char *type) {
    es_text_add_string(text, "\n# TYPE ");
    es_text_add_string(text, name);
    es_text_add_string(text, " ");
    es_text_add_string(text, type);
    es_text_add_string(text, "\n");
}

static void add_head(EsText *text, const char *name, const char *raw_name) {
    const EsMetricFamily *family = es_metric_family_find(raw_name);
    begin_head(text, name);
    if (family != NULL) {
        es_text_add_string(text, family->help);
    } else {
        es_text_add_string(text, "The metric ");
        es_text_add_utf8(text, raw_name, strlen(raw_name), ES_TEXT_HELP);
        es_text_add_string(text, ", which docs/telemetry.md does not describe.");
    }
    end_head(text, name, family != NULL ? family->type : "gauge");
}

// name{labels,own,label="value"} and a space; `own` is a metric's labels or empty, `label` is
// nullable.
static void add_series(EsText *text, const EsPrometheusTable *table, const char *name, Name own,
                       const char *label, const char *value) {
    es_text_add_string(text, name);
    if (table->labels.length > 0 || own.length > 0 || label != NULL) {
        es_text_add_string(text, "{");
        es_text_add(text, table->labels.bytes, table->labels.length);
        es_text_add_string(text, table->labels.length > 0 && own.length > 0 ? "," : "");
        es_text_add(text, own.bytes, own.length);
        if (label != NULL) {
            es_text_add_string(text, table->labels.length > 0 || own.length > 0 ? "," : "");
            add_label(text, label, (Name){value, strlen(value)});
        }
        es_text_add_string(text, "}");
    }
    es_text_add_string(text, " ");
}

static void add_family(EsText *text, const EsPrometheusTable *table, int32_t first) {
    const EsPrometheusMetric *metric = &table->metrics[first];
    add_head(text, metric->name, metric->raw_name);
    for (int32_t i = first; i >= 0; i = metric->next_in_family) {
        metric = &table->metrics[i];
        int is_alias = strcmp(metric->raw_name, table->metrics[first].raw_name) != 0;
        add_series(text, table, metric->name,
                   (Name){metric->key, (size_t)(metric->raw_name - metric->key) - 1},
                   is_alias ? "raw_name" : NULL, metric->raw_name);
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

static void table_render(const EsPrometheusTable *table, EsText *text) {
    begin_head(text, COUNTER_NAME);
    es_text_add_string(text, "Events taken in by this process, by type.");
    end_head(text, COUNTER_NAME, "counter");
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        const char *name = es_event_schema((EsEventType)type)->name;
        add_series(text, table, COUNTER_NAME, (Name){"", 0}, "type", name);
        es_text_add_int(text, table->n_events[type]);
        es_text_add_string(text, "\n");
    }
    for (size_t i = 0; i < table->n_metrics; i++) {
        if (table->metrics[i].is_first) {
            add_family(text, table, (int32_t)i);
        }
    }
}

// --- the sink ---

// A scrape takes milliseconds and Prometheus keeps one connection; these bound the resources of
// idle or hostile clients. The server stops accepting at MAX_CONNECTIONS: room for those that were
// cut off and are not closed yet.
#define KEPT_CONNECTIONS 32
#define MAX_CONNECTIONS  128
#define TIMEOUT_SECONDS  5

typedef struct PrometheusSink {
    pthread_mutex_t lock; // guards table
    EsPrometheusTable table;
    struct MHD_Daemon *daemon; // owns the socket once started
    int name_column, value_column, label_columns[N_METRIC_LABELS];
    // of the server's thread: sockets that are open and not cut off, the oldest first
    int connections[KEPT_CONNECTIONS];
    int n_connections;
} PrometheusSink;

// --- the HTTP server's thread ---

static void forget_connection(PrometheusSink *sink, int index) {
    sink->n_connections--;
    memmove(&sink->connections[index], &sink->connections[index + 1],
            (size_t)(sink->n_connections - index) * sizeof sink->connections[0]);
}

// Called when a connection begins and before its socket is closed.
static void note_connection(void *state, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code) {
    PrometheusSink *sink = state;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    (void)context;
    if (info == NULL) {
        return;
    }
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        if (sink->n_connections == KEPT_CONNECTIONS) {
            // the server sees its end and closes it
            shutdown(sink->connections[0], SHUT_RDWR);
            forget_connection(sink, 0);
        }
        sink->connections[sink->n_connections++] = info->connect_fd;
        return;
    }
    for (int i = 0; i < sink->n_connections; i++) {
        if (sink->connections[i] == info->connect_fd) {
            forget_connection(sink, i);
            return;
        }
    }
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned code, char *text,
                                 size_t bytes, const char *content_type) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(bytes, text, es_release);
    if (response == NULL) {
        es_release(text);
        return MHD_NO;
    }
    enum MHD_Result result =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (result == MHD_YES && code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    if (result == MHD_YES) {
        result = MHD_queue_response(connection, code, response);
    }
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_hint(struct MHD_Connection *connection, unsigned code,
                                 const char *hint) {
    EsText text = {0};
    es_text_add_string(&text, hint);
    if (text.status != ES_STATUS_OK) {
        return MHD_NO;
    }
    return send_text(connection, code, text.bytes, text.length, "text/plain; charset=utf-8");
}

static enum MHD_Result send_metrics(PrometheusSink *sink, struct MHD_Connection *connection) {
    EsText text = {0};
    pthread_mutex_lock(&sink->lock);
    table_render(&sink->table, &text);
    pthread_mutex_unlock(&sink->lock);
    if (text.status != ES_STATUS_OK) {
        es_text_destroy(&text);
        return send_hint(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.\n");
    }
    return send_text(connection, MHD_HTTP_OK, text.bytes, text.length,
                     "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result answer(void *state, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request) {
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)request;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        return send_hint(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Metrics can only be read.\n");
    }
    if (strcmp(url, "/metrics") != 0) {
        return send_hint(connection, MHD_HTTP_NOT_FOUND, "The metrics are at /metrics.\n");
    }
    return send_metrics(state, connection);
}

static void log_line(void *state, const char *format, va_list arguments) {
    (void)state;
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\r\n")] = '\0';
    es_log(ES_LOG_DEBUG, "metrics server: %s", line);
}

// --- the sink's thread ---

static Name text_of(const EsPacket *packet, int64_t row, int column) {
    Name text = {NULL, 0};
    text.bytes = es_packet_text(packet, row, column, &text.length);
    return text;
}

static EsStatus write_packet(void *state, const EsPacket *packet) {
    PrometheusSink *sink = state;
    EsStatus status = ES_STATUS_OK;
    pthread_mutex_lock(&sink->lock);
    table_count(&sink->table, packet->type);
    if (packet->type == ES_EVENT_METRIC) {
        for (int64_t row = 0; row < packet->n_rows && status == ES_STATUS_OK; row++) {
            Name name = text_of(packet, row, sink->name_column), labels[N_METRIC_LABELS];
            double value = es_packet_real(packet, row, sink->value_column);
            for (int i = 0; i < N_METRIC_LABELS; i++) {
                labels[i] = text_of(packet, row, sink->label_columns[i]);
            }
            // not measured this time: the latest measured value stays
            if (name.length > 0 && !es_is_missing_real(value)) {
                status = table_set(&sink->table, name, labels, value);
            }
        }
    }
    pthread_mutex_unlock(&sink->lock);
    return status;
}

static EsStatus flush_nothing(void *state) {
    (void)state;
    return ES_STATUS_OK;
}

static void close_sink(void *state) {
    PrometheusSink *sink = state;
    if (sink->daemon != NULL) {
        MHD_stop_daemon(sink->daemon);
    }
    table_destroy(&sink->table);
    pthread_mutex_destroy(&sink->lock);
    es_release(sink);
}

// --- opening ---

static EsStatus fail_to_listen(const char *address, int port, int error) {
    const char *advice = error == EADDRINUSE ? "; choose another port, or 0 for any free one" : "";
    return ES_FAIL(IO, "cannot serve metrics at %s port %d: %s%s", address, port, strerror(error),
                   advice);
}

// A listening socket at one of the address's candidates; -1 with errno of the last one.
static int listen_at(const struct addrinfo *candidate) {
    for (; candidate != NULL; candidate = candidate->ai_next) {
        int listener = socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        // a port whose last connections are still winding down may be taken again
        int yes = 1;
        if (listener >= 0 &&
            setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
            bind(listener, candidate->ai_addr, candidate->ai_addrlen) == 0 &&
            listen(listener, MAX_CONNECTIONS) == 0) {
            return listener;
        }
        int error = errno;
        if (listener >= 0) {
            close(listener);
        }
        errno = error;
    }
    return -1;
}

static EsStatus open_listener(const char *address, int port, int *listener) {
    if (port < 0 || port > 65535) {
        return ES_FAIL(ARGUMENT, "cannot serve metrics at port %d: ports are 0 to 65535", port);
    }
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo wanted = {.ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(address, service, &wanted, &found);
    if (problem != 0) {
        return ES_FAIL(ARGUMENT, "cannot serve metrics at \"%s\": %s", address,
                       gai_strerror(problem));
    }
    *listener = listen_at(found);
    int error = errno;
    freeaddrinfo(found);
    return *listener < 0 ? fail_to_listen(address, port, error) : ES_STATUS_OK;
}

static int port_of(int listener) {
    struct sockaddr_storage name = {0};
    socklen_t bytes = sizeof name;
    int problem = getsockname(listener, (struct sockaddr *)&name, &bytes);
    ES_ASSERT(problem == 0);
    uint16_t port = name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                               : ((struct sockaddr_in *)&name)->sin_port;
    return ntohs(port);
}

// The server's thread blocks all signals: Ctrl-C belongs to the program's own threads.
static struct MHD_Daemon *start_daemon(PrometheusSink *sink, int listener) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, answer,
                         sink, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL, MHD_OPTION_LISTEN_SOCKET,
                         listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_SECONDS,
                         MHD_OPTION_NOTIFY_CONNECTION, note_connection, sink, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

const char *es_prometheus_sink_version(void) { return MHD_get_version(); }

EsStatus es_prometheus_sink_open(const char *address, int port, const char *labels, int *port_taken,
                                 EsSink *sink) {
    PrometheusSink *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    pthread_mutex_init(&state->lock, NULL);
    state->name_column = es_event_column(ES_EVENT_METRIC, "name");
    state->value_column = es_event_column(ES_EVENT_METRIC, "value");
    for (int i = 0; i < N_METRIC_LABELS; i++) {
        state->label_columns[i] = es_event_column(ES_EVENT_METRIC, taken_labels[i]);
    }
    int listener = -1;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(table_create(&state->table, labels));
    ES_TRY_GOTO(open_listener(address, port, &listener));
    *port_taken = port_of(listener);
    state->daemon = start_daemon(state, listener);
    if (state->daemon == NULL) {
        close(listener);
        status = ES_FAIL(IO, "cannot serve metrics at %s port %d: the HTTP server does not start",
                         address, port);
        goto done;
    }
    *sink = (EsSink){"prometheus", state, write_packet, flush_nothing, close_sink};
    return ES_STATUS_OK;
done:
    close_sink(state);
    return status;
}
