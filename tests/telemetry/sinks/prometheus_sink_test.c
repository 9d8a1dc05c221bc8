// The Prometheus sink over real sockets. read_prometheus.py lets Prometheus' own Python client
// parse what export_for_reader fetches.
#include <arpa/inet.h>
#include <errno.h>
#include <locale.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "telemetry/sink_case.h"

static int port;

static EsSink open_sink(const char *labels) {
    EsSink sink = {0};
    EsStatus status = es_prometheus_sink_open("127.0.0.1", 0, labels, &port, &sink);
    if (status == ES_STATUS_UNSUPPORTED) {
        EXPECT_CONTAINS(es_status_detail(), "libmicrohttpd");
        printf("skipped: no libmicrohttpd in this build\n");
        exit(77);
    }
    REQUIRE_OK(status);
    return sink;
}

// A connection on which `request` was sent; receiving gives up after two seconds.
static int begin_exchange(const char *request) {
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = 2};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        connect(connection, (struct sockaddr *)&address, sizeof address) != 0 ||
        send(connection, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request)) {
        perror("127.0.0.1");
        exit(1);
    }
    return connection;
}

// The whole answer to a request, head and body, ended by 0; free it.
static char *exchange(const char *request) {
    int connection = begin_exchange(request);
    size_t bytes = 0, capacity = (size_t)16 << 20;
    char *answer = malloc(capacity);
    for (ssize_t n; (n = recv(connection, answer + bytes, capacity - 1 - bytes, 0)) > 0;) {
        bytes += (size_t)n;
    }
    answer[bytes] = '\0';
    close(connection);
    return answer;
}

#define REQUEST(method, path) method " " path " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

// The body of GET /metrics; free it.
static char *get_metrics(void) {
    char *answer = exchange(REQUEST("GET", "/metrics"));
    EXPECT_EQ(strncmp(answer, "HTTP/1.1 200 ", 13), 0);
    char *body = strstr(answer, "\r\n\r\n");
    if (body == NULL) {
        printf("no body: %s\n", answer);
        exit(1);
    }
    memmove(answer, body + 4, strlen(body + 4) + 1);
    return answer;
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
        n++;
    }
    return n;
}

TEST(metrics_and_counters) {
    EsSink sink = open_sink(NULL);
    EXPECT_TEXT(sink.name, "prometheus");
    EXPECT(port > 0);
    EXPECT_STATUS(write_metric(&sink, 1, "tolaria.training.latency_ms", 18.5), OK);
    EXPECT_STATUS(write_metric(&sink, 2, "tolaria.training.latency_ms", 0.1), OK);
    EXPECT_STATUS(write_metric(&sink, 3, "tolaria.training.latency_ms", es_missing_real()), OK);
    EXPECT_STATUS(write_metric(&sink, 3, "never", es_missing_real()), OK);
    EsRoundCompletedEvent round = {0};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_ROUND_COMPLETED, 1, -1, &round, 1), OK);
    EXPECT_STATUS(sink.flush(sink.state), OK);
    char *body = get_metrics();
    EXPECT_CONTAINS(body, "\n# HELP tolaria_training_latency_ms Wall clock of the newest epoch, "
                          "milliseconds.\n"
                          "# TYPE tolaria_training_latency_ms gauge\n"
                          "tolaria_training_latency_ms 0.1\n");
    EXPECT_CONTAINS(body, "# TYPE esper_events_total counter\n");
    EXPECT_CONTAINS(body, "\nesper_events_total{type=\"metric\"} 4\n");
    EXPECT_CONTAINS(body, "\nesper_events_total{type=\"round_completed\"} 1\n");
    EXPECT_CONTAINS(body, "\nesper_events_total{type=\"run_ended\"} 0\n");
    EXPECT_EQ(count_of(body, "\nesper_events_total{"), ES_EVENT_COUNT);
    EXPECT_EQ(count_of(body, "never"), 0);
    free(body);
    sink.close(sink.state);
}

// Clients that say nothing, or never end their request, hold no scrape up.
TEST(slow_clients_do_not_keep_a_scrape_out) {
    enum { N_SLOW = 200 };
    static int slow[N_SLOW];
    EsSink sink = open_sink(NULL);
    EXPECT_STATUS(write_metric(&sink, 1, "x", 1), OK);
    for (int i = 0; i < N_SLOW; i++) {
        slow[i] = begin_exchange(i % 2 == 0 ? "" : "GET /metrics HTTP/1.1\r\nHost: ");
        // forty, then more than the server ever keeps
        if (i == 39 || i == N_SLOW - 1) {
            char *body = get_metrics();
            EXPECT_CONTAINS(body, "\nesper_x 1.0\n");
            free(body);
        }
    }
    // the oldest gave way, the youngest is still served
    char byte;
    EXPECT_EQ(recv(slow[0], &byte, 1, 0), 0);
    EXPECT_EQ(send(slow[N_SLOW - 1], "x\r\n\r\n", 5, MSG_NOSIGNAL), 5);
    EXPECT_EQ(recv(slow[N_SLOW - 1], &byte, 1, 0), 1);
    for (int i = 0; i < N_SLOW; i++) {
        close(slow[i]);
    }
    sink.close(sink.state);
}

TEST(names_and_values) {
    static const struct {
        const char *name;
        double value;
        const char *line;
    } cases[] = {{"charts/SPS", 1234, "esper_charts_SPS 1234.0"},
                 {"9lives", NAN, "esper_9lives NaN"},
                 {"a:b", INFINITY, "esper_a:b +Inf"},
                 {"gr\xc3\xbcn \xff.x", -INFINITY, "esper_gr_n___x -Inf"},
                 {"inject 1\n# TYPE evil counter\nevil", 5e-324,
                  "esper_inject_1___TYPE_evil_counter_evil 4.94065645841247e-324"},
                 {"esper_events_total", 1e300, "esper_events_total_ 1e+300"},
                 {"{}\"\\", -0.0, "esper_____ -0.0"}};
    EsSink sink = open_sink(NULL);
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EXPECT_STATUS(write_metric(&sink, 1, cases[i].name, cases[i].value), OK);
    }
    EXPECT_STATUS(write_metric(&sink, 1, "", 1), OK);
    EXPECT_STATUS(write_metric(&sink, 1, NULL, 1), OK);
    char *body = get_metrics();
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        char expected[200];
        snprintf(expected, sizeof expected, "\n%s\n", cases[i].line);
        EXPECT_CONTAINS(body, expected);
    }
    EXPECT_CONTAINS(
        body, "# HELP esper_____ The metric {}\"\\\\, which"); // only the backslash is escaped here
    EXPECT_CONTAINS(body, "# HELP esper_inject_1___TYPE_evil_counter_evil The metric inject "
                          "1\\n# TYPE evil");
    EXPECT_EQ(count_of(body, "\n# TYPE "), 1 + (int)ES_COUNT_OF(cases));
    free(body);
    sink.close(sink.state);
}

// Every family is ours by its first part, or has a name of the source documents.
TEST(prefixes_and_types) {
    static const struct {
        const char *name, *line;
    } cases[] = {
        {"esper.round.accuracy", "# TYPE esper_round_accuracy gauge"},
        {"tolaria.epochs.total", "# TYPE tolaria_epochs_total counter"},
        {"kasmina.seed.alpha", "# TYPE kasmina_seed_alpha gauge"},
        {"tamiyo.inference.latency_ms", "# TYPE tamiyo_inference_latency_ms gauge"},
        {"esperanto", "# TYPE esper_esperanto gauge"},
        {"tolaria", "# TYPE esper_tolaria gauge"},
        {"events_total", "# TYPE esper_events_total_ gauge"},
        {"policy/slot_entropy", "# HELP esper_policy_slot_entropy Entropy of one head of the "
                                "policy, nats."},
        {"policy/_entropy", "# HELP esper_policy__entropy The metric policy/_entropy, which "
                            "docs/telemetry.md does not describe."},
        {"losses/approx_kl", "# HELP esper_losses_approx_kl Estimated KL divergence"}};
    EsSink sink = open_sink(NULL);
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EXPECT_STATUS(write_metric(&sink, 1, cases[i].name, 1), OK);
    }
    char *body = get_metrics();
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EXPECT_CONTAINS(body, cases[i].line);
    }
    EXPECT_EQ(count_of(body, "# TYPE esper_events_total "), 1);
    free(body);
    sink.close(sink.state);
}

TEST(labels_of_a_metric) {
    EsSink sink = open_sink("run=\"r\"");
    EsMetricEvent rows[] = {
        {.name = "n", .value = 1},
        {.name = "n", .value = 2, .seed_id = "s1", .stage = "BLENDING"},
        {.name = "n", .value = 3, .seed_id = "s1", .stage = "BLENDING", .layer = "a\"b\n"},
        {.name = "n", .value = 4, .seed_id = "s2"},
        {.name = "n.", .value = 5, .seed_id = "s2"}};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 1, -1, rows, ES_COUNT_OF(rows)), OK);
    rows[3].value = 6;
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 2, -1, &rows[3], 1), OK);
    char *body = get_metrics();
    EXPECT_CONTAINS(body,
                    "# TYPE esper_n gauge\n"
                    "esper_n{run=\"r\"} 1.0\n"
                    "esper_n{run=\"r\",seed_id=\"s1\",stage=\"BLENDING\"} 2.0\n"
                    "esper_n{run=\"r\",seed_id=\"s1\",stage=\"BLENDING\",layer=\"a\\\"b\\n\"} "
                    "3.0\n"
                    "esper_n{run=\"r\",seed_id=\"s2\"} 6.0\n");
    EXPECT_CONTAINS(body, "\nesper_n_{run=\"r\",seed_id=\"s2\"} 5.0\n");
    EXPECT_EQ(count_of(body, "# TYPE esper_n gauge\n"), 1);
    free(body);
    sink.close(sink.state);
    // without labels of the run, and one in a family of two names
    sink = open_sink(NULL);
    rows[0] = (EsMetricEvent){.name = "a.b", .value = 1, .layer = "l"};
    rows[1] = (EsMetricEvent){.name = "a/b", .value = 2, .layer = "l"};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 1, -1, rows, 2), OK);
    body = get_metrics();
    EXPECT_CONTAINS(body,
                    "esper_a_b{layer=\"l\"} 1.0\nesper_a_b{layer=\"l\",raw_name=\"a/b\"} 2.0\n");
    free(body);
    sink.close(sink.state);
}

TEST(names_that_become_the_same) {
    EsSink sink = open_sink("run=\"r\"");
    EXPECT_STATUS(write_metric(&sink, 1, "a.b", 1), OK);
    EXPECT_STATUS(write_metric(&sink, 1, "other", 9), OK);
    EXPECT_STATUS(write_metric(&sink, 1, "a/b", 2), OK);
    EXPECT_STATUS(write_metric(&sink, 1, "a\"b\n", 4), OK); // a_b_, a name of its own
    EXPECT_STATUS(write_metric(&sink, 1, "a\\b", 3), OK);
    EXPECT_STATUS(write_metric(&sink, 1, "a\"b", 6), OK);
    EXPECT_STATUS(write_metric(&sink, 2, "a/b", 5), OK);
    char *body = get_metrics();
    EXPECT_CONTAINS(body, "# TYPE esper_a_b gauge\n"
                          "esper_a_b{run=\"r\"} 1.0\n"
                          "esper_a_b{run=\"r\",raw_name=\"a/b\"} 5.0\n"
                          "esper_a_b{run=\"r\",raw_name=\"a\\\\b\"} 3.0\n"
                          "esper_a_b{run=\"r\",raw_name=\"a\\\"b\"} 6.0\n");
    EXPECT_EQ(count_of(body, "# TYPE esper_a_b gauge\n"), 1);
    EXPECT_CONTAINS(body, "\nesper_a_b_{run=\"r\"} 4.0\n");
    free(body);
    sink.close(sink.state);
}

TEST(labels_are_checked) {
    EsSink sink = open_sink("run=\"de\\\"mo\\\\ \\n\xff\ttab\nline\",kind=\"\"");
    EXPECT_STATUS(write_metric(&sink, 1, "x", 1), OK);
    char *body = get_metrics();
    EXPECT_CONTAINS(body, "\nesper_x{run=\"de\\\"mo\\\\ \\n\xef\xbf\xbd\xef\xbf\xbdtab\\nline\","
                          "kind=\"\"} 1.0\n");
    EXPECT_CONTAINS(body, "kind=\"\",type=\"metric\"} 1\n");
    free(body);
    sink.close(sink.state);
    static const struct {
        const char *labels, *problem;
    } cases[] = {{"run", "at byte 3: expected =\""},
                 {"run=demo", "at byte 3: expected =\""},
                 {"run=\"demo", "at byte 9: the value has no closing quote"},
                 {"run=\"a\\", "expected \\\\"},
                 {"run=\"a\\t\"", "expected \\\\"},
                 {"run=\"a\"kind=\"b\"", "at byte 7: expected a comma"},
                 {"run=\"a\",", "at byte 8: expected a name"},
                 {",run=\"a\"", "at byte 0: expected a name"},
                 {"1run=\"a\"", "expected a name"},
                 {"run=\"a\",run=\"b\"", "at byte 8: this name was given before"},
                 {"type=\"a\"", "taken"},
                 {"raw_name=\"a\"", "taken"},
                 {"__name__=\"a\"", "belong to Prometheus"}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        sink.name = "untouched";
        EXPECT_STATUS(es_prometheus_sink_open("127.0.0.1", 0, cases[i].labels, &port, &sink),
                      ARGUMENT);
        EXPECT_CONTAINS(es_status_detail(), cases[i].problem);
        EXPECT_TEXT(sink.name, "untouched");
    }
}

TEST(other_paths_and_methods) {
    EsSink sink = open_sink(NULL);
    static const struct {
        const char *request, *start, *part;
    } cases[] = {
        {REQUEST("GET", "/metrics"), "HTTP/1.1 200 ", "text/plain; version=0.0.4; charset=utf-8"},
        {REQUEST("GET", "/metrics?x=1"), "HTTP/1.1 200 ", "esper_events_total"},
        {REQUEST("GET", "/"), "HTTP/1.1 404 ", "The metrics are at /metrics."},
        {REQUEST("GET", "/metrics/x"), "HTTP/1.1 404 ", "The metrics are at /metrics."},
        {REQUEST("DELETE", "/metrics"), "HTTP/1.1 405 ", "Allow: GET, HEAD"},
        {REQUEST("PUT", "/"), "HTTP/1.1 405 ", "Allow: GET, HEAD"},
        {"POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
         "HTTP/1.1 405 ", "Metrics can only be read."},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        char *answer = exchange(cases[i].request);
        if (strncmp(answer, cases[i].start, strlen(cases[i].start)) != 0) {
            ES_TEST_FAIL("%s gives %.60s, expected %s", cases[i].request, answer, cases[i].start);
        }
        EXPECT_CONTAINS(answer, cases[i].part);
        free(answer);
    }
    char *answer = exchange(REQUEST("HEAD", "/metrics"));
    EXPECT_EQ(strncmp(answer, "HTTP/1.1 200 ", 13), 0);
    EXPECT_TEXT(strstr(answer, "\r\n\r\n"), "\r\n\r\n"); // no body
    free(answer);
    answer = exchange("nonsense\r\n\r\n");
    EXPECT(strstr(answer, "esper_events_total") == NULL);
    free(answer);
    answer = get_metrics(); // it lives on
    free(answer);
    sink.close(sink.state);
}

TEST(addresses_that_do_not_work) {
    EsSink first = open_sink(NULL), second = {.name = "untouched"};
    int taken = port, other = 0;
    char number[16];
    snprintf(number, sizeof number, "%d", taken);
    EXPECT_STATUS(es_prometheus_sink_open("127.0.0.1", taken, NULL, &other, &second), IO);
    EXPECT_CONTAINS(es_status_detail(), number);
    EXPECT_CONTAINS(es_status_detail(), strerror(EADDRINUSE));
    EXPECT_STATUS(es_prometheus_sink_open("192.0.2.1", 0, NULL, &other, &second), IO);
    EXPECT_CONTAINS(es_status_detail(), "192.0.2.1");
    EXPECT_STATUS(es_prometheus_sink_open("not an address", 0, NULL, &other, &second), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "not an address");
    EXPECT_STATUS(es_prometheus_sink_open("127.0.0.1", 65536, NULL, &other, &second), ARGUMENT);
    EXPECT_STATUS(es_prometheus_sink_open("127.0.0.1", -1, NULL, &other, &second), ARGUMENT);
    EXPECT_TEXT(second.name, "untouched");
    first.close(first.state);
    // the port is free again at once
    REQUIRE_OK(es_prometheus_sink_open("127.0.0.1", taken, NULL, &port, &first));
    EXPECT_EQ(port, taken);
    free(get_metrics());
    first.close(first.state);
}

TEST(thousands_of_metrics) {
    enum { N = 5000 };
    EsSink sink = open_sink("run=\"big\"");
    static EsMetricEvent rows[N];
    static char names[N][40];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "hosts.%d/accuracy", i);
        rows[i] = es_metric(names[i], i);
    }
    for (int repeat = 0; repeat < 20; repeat++) {
        EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, repeat, -1, rows, N), OK);
    }
    char *body = get_metrics();
    EXPECT_EQ(count_of(body, " gauge\n"), N);
    EXPECT_EQ(count_of(body, "\nesper_hosts_"), N);
    EXPECT_CONTAINS(body, "\nesper_hosts_4999_accuracy{run=\"big\"} 4999.0\n");
    free(body);
    sink.close(sink.state);
}

// --- both threads at once, for the thread sanitizer ---

typedef struct Writer {
    EsSink sink;
    atomic_int is_stopping;
    int n_rounds;
} Writer;

// two metrics that always change together, and more and more new ones
static void *write_metrics(void *argument) {
    Writer *writer = argument;
    while (!atomic_load(&writer->is_stopping)) {
        writer->n_rounds++;
        char name[32];
        snprintf(name, sizeof name, "new/%d", writer->n_rounds % 3000);
        EsMetricEvent rows[3] = {es_metric("left", writer->n_rounds),
                                 es_metric("right", writer->n_rounds), es_metric(name, 1)};
        EXPECT_STATUS(write_rows(&writer->sink, ES_EVENT_METRIC, 1, -1, rows, 3), OK);
    }
    return NULL;
}

static double value_after(const char *body, const char *name) {
    const char *at = strstr(body, name);
    return at != NULL ? strtod(at + strlen(name), NULL) : -1;
}

TEST(scrapes_while_the_sink_writes) {
    Writer writer = {.sink = open_sink(NULL)};
    EXPECT_STATUS(write_metric(&writer.sink, 1, "left", 0), OK);
    EXPECT_STATUS(write_metric(&writer.sink, 1, "right", 0), OK);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, write_metrics, &writer), 0);
    double last = -1;
    for (int i = 0; i < 50; i++) {
        char *body = get_metrics();
        double left = value_after(body, "\nesper_left "),
               right = value_after(body, "\nesper_right ");
        EXPECT_NEAR(left, right, 0); // a packet is seen as a whole
        EXPECT(left >= ES_MAX(last, 0));
        last = left;
        free(body);
    }
    atomic_store(&writer.is_stopping, 1);
    pthread_join(thread, NULL);
    EXPECT(writer.n_rounds > 0);
    writer.sink.close(writer.sink.state);
}

// Writes the data that read_prometheus.py expects to the file that ES_TEST_EXPORT names.
TEST(export_for_reader) {
    const char *target = getenv("ES_TEST_EXPORT");
    if (target == NULL) {
        SKIP("ES_TEST_EXPORT is not set; read_prometheus.py sets it");
    }
    EsSink sink = open_sink("run=\"de\\\"mo \\\\ x\",kind=\"hosts\"");
    EsMetricEvent rows[] = {es_metric("charts/SPS", 0.1),
                            es_metric("a.b", 1),
                            es_metric("a/b", 2),
                            es_metric("a\\b\"\n", NAN),
                            es_metric("a b\xff\xf0\x9f\x8c\xb1", INFINITY),
                            es_metric("9", -INFINITY),
                            es_metric("missing", es_missing_real())};
    REQUIRE_OK(write_rows(&sink, ES_EVENT_METRIC, 1, -1, rows, ES_COUNT_OF(rows)));
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "many.%d", i);
        REQUIRE_OK(write_metric(&sink, 1, name, i / 3.0));
    }
    char *body = get_metrics();
    REQUIRE_OK(es_file_write_all(target, body, strlen(body)));
    free(body);
    sink.close(sink.state);
}
