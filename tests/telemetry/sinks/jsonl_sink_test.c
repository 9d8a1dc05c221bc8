// The JSONL sink: every line is JSON that gives the row back, and resuming takes out exactly what
// it must.
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file_fault.h"
#include "telemetry/sink_case.h"
#include "telemetry/sinks/record_file.h"

static const char *events_path(void) { return temp_path("events.jsonl"); }

static EsSink open_sink(int64_t last_round) {
    EsSink sink = {0};
    REQUIRE_OK(es_jsonl_sink_open(events_path(), last_round, &sink));
    return sink;
}

static void close_sink(EsSink *sink) {
    EXPECT_STATUS(sink->flush(sink->state), OK);
    sink->close(sink->state);
}

// Line `n` of the file, parsed; json_decref it.
static json_t *load_line(int n) {
    char *text = read_sink_file(events_path(), NULL), *line = text;
    for (int i = 0; i < n; i++) {
        line = strchr(line, '\n') + 1;
    }
    line[strcspn(line, "\n")] = '\0';
    json_error_t error;
    json_t *object = json_loads(line, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (object == NULL) {
        printf("%s: %s\n", line, error.text);
        exit(1);
    }
    es_release(text);
    return object;
}

static int count_lines(void) {
    char *text = read_sink_file(events_path(), NULL);
    int n = 0;
    for (const char *at = text; *at != '\0'; at++) {
        n += *at == '\n';
    }
    es_release(text);
    return n;
}

static void expect_file(const char *expected) {
    char *text = read_sink_file(events_path(), NULL);
    EXPECT_TEXT(text, expected);
    es_release(text);
}

static int is_same_number(const json_t *value, double expected) {
    double read = json_real_value(value);
    return json_is_real(value) && memcmp(&read, &expected, sizeof read) == 0;
}

TEST(a_line_as_it_stands) {
    EsSink sink = open_sink(-1);
    EXPECT_TEXT(sink.name, "jsonl");
    EsMetricEvent rows[2] = {es_metric("charts/SPS", 1234), es_metric("losses/value_loss", 0.1)};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 3, -1, rows, 2), OK);
    close_sink(&sink);
    expect_file("{\"event\":\"metric\",\"time\":\"2023-11-14T22:13:20.123456Z\",\"sequence\":7,"
                "\"round\":3,\"step\":null,\"name\":\"charts/SPS\",\"value\":1234.0,"
                "\"seed_id\":null,\"stage\":null,\"layer\":null}\n"
                "{\"event\":\"metric\",\"time\":\"2023-11-14T22:13:20.123456Z\",\"sequence\":7,"
                "\"round\":3,\"step\":null,\"name\":\"losses/value_loss\","
                "\"value\":0.1,\"seed_id\":null,\"stage\":null,\"layer\":null}\n");
}

TEST(numbers_come_back_bit_for_bit) {
    static const double values[] = {0.0,
                                    -0.0,
                                    0.1,
                                    1.0 / 3,
                                    1e15,
                                    -1e15,
                                    1e17,
                                    123456.0,
                                    5e-324,
                                    1e308,
                                    0x1p-1022,
                                    1e22,
                                    -2.5,
                                    1e16,
                                    4503599627370497.5,
                                    0x1.fffffffffffffp1023};
    EsSink sink = open_sink(-1);
    EsMetricEvent rows[ES_COUNT_OF(values)];
    for (size_t i = 0; i < ES_COUNT_OF(values); i++) {
        rows[i] = es_metric("x", values[i]);
    }
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 1, -1, rows, (int64_t)ES_COUNT_OF(values)),
                  OK);
    close_sink(&sink);
    for (size_t i = 0; i < ES_COUNT_OF(values); i++) {
        json_t *line = load_line((int)i);
        if (!is_same_number(json_object_get(line, "value"), values[i])) {
            char *text = json_dumps(line, JSON_REAL_PRECISION(17));
            ES_TEST_FAIL("%.17g was written as %s", values[i], text);
            free(text);
        }
        json_decref(line);
    }
}

TEST(missing_and_not_finite_differ) {
    EsSink sink = open_sink(-1);
    EsMetricEvent metrics[] = {es_metric(NULL, es_missing_real()), es_metric("", NAN),
                               es_metric("a", INFINITY), es_metric("b", -INFINITY)};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 1, -1, metrics, 4), OK);
    EsCheckpointSavedEvent saved[] = {{.path = "checkpoints/1", .bytes = ES_MISSING_INT},
                                      {.bytes = INT64_MAX, .is_best = INT64_MIN + 1}};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_CHECKPOINT_SAVED, 1, -1, saved, 2), OK);
    close_sink(&sink);
    static const char *const expected[] = {"null", "\"NaN\"", "\"Infinity\"", "\"-Infinity\""};
    for (int i = 0; i < 4; i++) {
        json_t *line = load_line(i);
        char *value = json_dumps(json_object_get(line, "value"), JSON_ENCODE_ANY);
        EXPECT_TEXT(value, expected[i]);
        EXPECT_EQ(json_is_null(json_object_get(line, "name")), i == 0);
        free(value);
        json_decref(line);
    }
    json_t *line = load_line(4);
    EXPECT(json_is_null(json_object_get(line, "bytes")));
    json_decref(line);
    line = load_line(5);
    EXPECT_EQ(json_integer_value(json_object_get(line, "bytes")), INT64_MAX);
    EXPECT_EQ(json_integer_value(json_object_get(line, "is_best")), INT64_MIN + 1);
    json_decref(line);
}

// malformed UTF-8 becomes one U+FFFD per longest valid start, as decoders on the web count them
TEST(hostile_texts) {
    static const struct {
        const char *written, *read;
    } cases[] = {
        {"plain \"quoted\" back\\slash /", "plain \"quoted\" back\\slash /"},
        {"\b\f\n\r\t\x01\x1f\x7f", "\b\f\n\r\t\x01\x1f\x7f"},
        {"grün 語 🌱 \xe2\x80\xa8", "grün 語 🌱 \xe2\x80\xa8"},
        {"\xef\xbf\xbd kept", "\xef\xbf\xbd kept"},
        {"\xff", "\xef\xbf\xbd"},
        {"a\x80z", "a\xef\xbf\xbdz"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe2\x82", "\xef\xbf\xbd"},
        {"\xf0\x9f\x8c\"", "\xef\xbf\xbd\""},
        {"\xe2\x82\xe2\x82\xac", "\xef\xbf\xbd€"},
        {"\xc2\x85", "\xc2\x85"},
        {"},{\"round\":99", "},{\"round\":99"},
    };
    EsSink sink = open_sink(-1);
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EXPECT_STATUS(write_metric(&sink, 1, cases[i].written, 1), OK);
    }
    close_sink(&sink);
    EXPECT_EQ(count_lines(), ES_COUNT_OF(cases));
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        json_t *line = load_line((int)i);
        EXPECT_TEXT(json_string_value(json_object_get(line, "name")), cases[i].read);
        json_decref(line);
    }
}

TEST(every_event_type_has_its_columns) {
    EsSink sink = open_sink(-1);
    static const int64_t zeros[64]; // every row struct is made of 8-byte cells; 0 is a missing text
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        EXPECT_STATUS(write_rows(&sink, (EsEventType)type, 2, 5, zeros, 1), OK);
    }
    close_sink(&sink);
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        const EsEventSchema *schema = es_event_schema((EsEventType)type);
        json_t *line = load_line(type);
        EXPECT_TEXT(json_string_value(json_object_get(line, "event")), schema->name);
        EXPECT_EQ(json_object_size(line), 5 + (size_t)schema->n_columns);
        for (int i = 0; i < schema->n_columns; i++) {
            if (json_object_get(line, schema->columns[i].name) == NULL) {
                ES_TEST_FAIL("%s has no %s", schema->name, schema->columns[i].name);
            }
        }
        json_decref(line);
    }
}

TEST(numbers_do_not_follow_the_locale) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < ES_COUNT_OF(names) && found == NULL; i++) {
        found = setlocale(LC_NUMERIC, names[i]);
    }
    if (found == NULL) {
        SKIP("no locale with a decimal comma is installed");
    }
    EsSink sink = open_sink(-1);
    EXPECT_STATUS(write_metric(&sink, 1, "x", 0.25), OK);
    close_sink(&sink);
    setlocale(LC_NUMERIC, "C");
    char *text = read_sink_file(events_path(), NULL);
    EXPECT_CONTAINS(text, "\"value\":0.25,");
    es_release(text);
}

// --- resuming ---

// Rounds out of order, as when spilled events come late; the names tell the lines apart.
static void write_rounds(const int64_t *rounds, int n_rounds) {
    EsSink sink = open_sink(-1);
    for (int i = 0; i < n_rounds; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d", i);
        EXPECT_STATUS(write_metric(&sink, rounds[i], name, 1), OK);
    }
    close_sink(&sink);
}

static void append(const char *bytes, size_t n_bytes) {
    FILE *stream = fopen(events_path(), "ab");
    if (stream == NULL || fwrite(bytes, 1, n_bytes, stream) != n_bytes || fclose(stream) != 0) {
        perror(events_path());
        exit(1);
    }
}

// The names left, in order, as "0 2 3".
static void expect_names(const char *expected) {
    char names[256] = "";
    int n = count_lines();
    for (int i = 0; i < n; i++) {
        json_t *line = load_line(i);
        const char *name = json_string_value(json_object_get(line, "name"));
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? " " : "",
                 name != NULL ? name : "?");
        json_decref(line);
    }
    EXPECT_TEXT(names, expected);
}

TEST(resume_drops_later_rounds) {
    write_rounds((int64_t[]){0, 1, 5, 2, 6, 3, 4, 10}, 8);
    EsSink sink = open_sink(3);
    EXPECT_STATUS(write_metric(&sink, 4, "new", 1), OK);
    close_sink(&sink);
    expect_names("0 1 3 5 new");
    EXPECT_EQ(count_names(temp_folder()), 1); // no temporary is left
    sink = open_sink(0);
    close_sink(&sink);
    expect_names("0");
    sink = open_sink(-1);
    close_sink(&sink);
    expect_names("0");
}

TEST(resume_drops_a_torn_end) {
    static const char *const ends[] = {"{\"event\":\"metric\",\"time\":\"2023", "{", "garbage",
                                       "{\"event\":\"metric\",\"round\":1}"};
    for (size_t i = 0; i < ES_COUNT_OF(ends); i++) {
        for (int64_t last_round = -1; last_round <= 1; last_round += 2) {
            clear_temp_folder();
            write_rounds((int64_t[]){1, 1}, 2);
            append(ends[i], strlen(ends[i]));
            EsSink sink = open_sink(last_round);
            EXPECT_STATUS(write_metric(&sink, 2, "new", 1), OK);
            close_sink(&sink);
            expect_names("0 1 new");
        }
    }
}

TEST(a_file_that_is_all_torn) {
    append("\0\0\0\0", 4); // what a power failure may leave
    EsSink sink = open_sink(5);
    EXPECT_STATUS(write_metric(&sink, 6, "new", 1), OK);
    close_sink(&sink);
    expect_names("new");
}

TEST(nothing_to_remove_leaves_the_file_alone) {
    write_rounds((int64_t[]){1, 2}, 2);
    struct stat before, after;
    EXPECT_EQ(stat(events_path(), &before), 0);
    EsSink sink = open_sink(2);
    close_sink(&sink);
    EXPECT_EQ(stat(events_path(), &after), 0);
    EXPECT_EQ(after.st_ino, before.st_ino);
}

TEST(foreign_lines_stay) {
    static const char foreign[] = "\n# a note\n{\"round\":99}\n{\"event\":\"x\",\"round\":\"99\"}\n"
                                  "{\"event\":\"x\",\"round\":99999999999999999999}\n";
    append(foreign, strlen(foreign));
    EsSink sink = open_sink(3);
    close_sink(&sink);
    expect_file(foreign);
}

TEST(reason_of_a_refused_file_survives) {
    EXPECT_EQ(mkfifo(events_path(), 0600), 0);
    int reader = open(events_path(), O_RDWR);
    EsRecordFile file;
    EXPECT_STATUS(es_record_file_open(events_path(), 0, &file), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "is not a regular file");
    close(reader);
}

// longer than the pieces in which the file is read, and a round beyond the first of them
TEST(resume_streams_large_files) {
    EsSink sink = open_sink(-1);
    static char config[60001];
    memset(config, 'c', sizeof config - 1);
    memset(config, '\n', 20000); // two bytes each once escaped
    EsRunStartedEvent started = {.kind = "hosts", .config = config};
    for (int i = 0; i < 100; i++) {
        EXPECT_STATUS(write_rows(&sink, ES_EVENT_RUN_STARTED, i, -1, &started, 1), OK);
        EXPECT_STATUS(write_metric(&sink, i, "small", 1), OK);
    }
    close_sink(&sink);
    sink = open_sink(49);
    close_sink(&sink);
    EXPECT_EQ(count_lines(), 100);
    for (int i = 0; i < 100; i += 33) {
        json_t *line = load_line(i);
        EXPECT_EQ(json_integer_value(json_object_get(line, "round")), i / 2);
        if (i % 2 == 0) {
            EXPECT_TEXT(json_string_value(json_object_get(line, "config")), config);
        }
        json_decref(line);
    }
}

// --- failures ---

// a limit on the file's size stands for a full disk
static void limit_file_bytes(rlim_t bytes) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(a_full_disk_tears_no_line) {
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    EsSink sink = open_sink(-1);
    EXPECT_STATUS(write_metric(&sink, 1, "0", 1), OK);
    EXPECT_STATUS(sink.flush(sink.state), OK);
    limit_file_bytes(200); // in the middle of the second line
    EXPECT_STATUS(write_metric(&sink, 1, "1", 1), OK);
    EXPECT_STATUS(sink.flush(sink.state), IO);
    EXPECT_CONTAINS(es_status_detail(), events_path());
    EXPECT_CONTAINS(es_status_detail(), strerror(EFBIG));
    EXPECT_EQ(count_lines(), 1);
    expect_names("0");
    limit_file_bytes(RLIM_INFINITY); // there is room again
    EXPECT_STATUS(write_metric(&sink, 1, "2", 1), OK);
    close_sink(&sink);
    signal(SIGXFSZ, handler);
    expect_names("0 1 2");
}

// while the disk stays full, every packet is either kept for later or refused, none is forgotten
TEST(a_full_disk_loses_only_what_it_reports) {
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    EsSink sink = open_sink(-1);
    limit_file_bytes(1000);
    int n_accepted = 0;
    for (int i = 0; i < 10000; i++) {
        n_accepted += write_metric(&sink, 1, "x", 1) == ES_STATUS_OK;
    }
    EXPECT(n_accepted > 100 && n_accepted < 9000);
    EXPECT_EQ(count_lines(), 0);
    limit_file_bytes(RLIM_INFINITY);
    close_sink(&sink);
    signal(SIGXFSZ, handler);
    EXPECT_EQ(count_lines(), n_accepted);
}

// what ES_FILE_FAULT does to a whole program
TEST(short_writes_and_faults) {
    static const struct {
        const char *fault;
        EsStatus first_flush;
    } cases[] = {{"write:1:short", ES_STATUS_OK},
                 {"write:1:EINTR", ES_STATUS_OK},
                 {"write:1:EIO", ES_STATUS_IO},
                 {"disk:100", ES_STATUS_IO}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        clear_temp_folder();
        EsSink sink = open_sink(-1);
        EXPECT_STATUS(write_metric(&sink, 1, "0", 1), OK);
        EsFileFault fault;
        REQUIRE_OK(es_file_fault_parse(cases[i].fault, &fault));
        es_file_fault_arm(&fault);
        EsStatus status = sink.flush(sink.state);
        EXPECT(es_file_fault_clear() > 0);
        EXPECT_EQ(status, cases[i].first_flush);
        EXPECT_EQ(count_lines(), status == ES_STATUS_OK);
        close_sink(&sink);
        expect_names("0");
    }
}

TEST(a_file_that_was_removed_is_reported) {
    const char *path = temp_path("events.jsonl");
    EsSink sink;
    REQUIRE_OK(es_jsonl_sink_open(path, -1, &sink));
    REQUIRE_OK(write_metric(&sink, 1, "a", 1));
    REQUIRE_OK(sink.flush(sink.state));
    EXPECT_EQ(unlink(path), 0);
    REQUIRE_OK(write_metric(&sink, 2, "a", 2));
    EXPECT_STATUS(sink.flush(sink.state), IO);
    EXPECT_CONTAINS(es_status_detail(), "events.jsonl was removed or renamed");
    sink.close(sink.state);
}

TEST(places_that_cannot_be_opened) {
    EsSink sink = {.name = "untouched"};
    EXPECT_STATUS(es_jsonl_sink_open("/tmp/es_no_such_folder/events.jsonl", -1, &sink), IO);
    EXPECT_CONTAINS(es_status_detail(), "/tmp/es_no_such_folder/events.jsonl");
    EXPECT_STATUS(es_jsonl_sink_open(temp_folder(), -1, &sink), INPUT);
    EXPECT_CONTAINS(es_status_detail(), temp_folder());
    EXPECT_EQ(mkfifo(events_path(), 0600), 0); // must not wait for a reader
    EXPECT_STATUS(es_jsonl_sink_open(events_path(), -1, &sink), INPUT);
    EXPECT_TEXT(sink.name, "untouched");
}
