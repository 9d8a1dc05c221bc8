// The TensorBoard sink: framing and messages byte for byte. read_tensorboard.py lets TensorBoard's
// own reader load what export_for_reader writes.
#include <errno.h>
#include <limits.h>

#include "base/checksum.h"
#include "telemetry/sink_case.h"

static EsSink open_sink(int64_t last_round) {
    EsSink sink = {0};
    REQUIRE_OK(es_tensorboard_sink_open(temp_folder(), last_round, &sink));
    return sink;
}

static void close_sink(EsSink *sink) {
    EXPECT_STATUS(sink->flush(sink->state), OK);
    sink->close(sink->state);
}

// The name that comes last, as readers sort them; returns how many there are.
static int find_last_file(char name[ES_FILE_NAME_BYTES]) {
    EsFolderEntry *entries = NULL;
    int n = 0;
    REQUIRE_OK(es_folder_list(temp_folder(), &entries, &n));
    snprintf(name, ES_FILE_NAME_BYTES, "%s", n > 0 ? entries[n - 1].name : "");
    es_release(entries);
    return n;
}

static char *read_last_file(size_t *bytes) {
    char name[ES_FILE_NAME_BYTES];
    find_last_file(name);
    return read_sink_file(temp_path(name), bytes);
}

static uint64_t load_little_endian(const char *bytes, int n_bytes) {
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++) {
        value |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    }
    return value;
}

// Check the frame at *next and step over it; returns its message.
static const char *take_frame(const char **next, const char *end, size_t *bytes) {
    const char *frame = *next;
    if (end - frame < 16) {
        printf("the file ends inside a frame\n");
        exit(1);
    }
    *bytes = (size_t)load_little_endian(frame, 8);
    if (*bytes > (size_t)(end - frame) - 16) {
        printf("a frame of %zu bytes does not fit\n", *bytes);
        exit(1);
    }
    EXPECT_EQ(load_little_endian(frame + 8, 4), es_crc32c_masked(frame, 8));
    EXPECT_EQ(load_little_endian(frame + 12 + *bytes, 4), es_crc32c_masked(frame + 12, *bytes));
    *next = frame + 16 + *bytes;
    return frame + 12;
}

// The message must be: wall time, then exactly `rest`.
static void expect_message(const char *message, size_t bytes, double wall_time, const char *rest,
                           size_t rest_bytes) {
    EXPECT_EQ(bytes, 9 + rest_bytes);
    EXPECT_EQ(message[0], 1 << 3 | 1);
    uint64_t bits = load_little_endian(message + 1, 8);
    double seen;
    memcpy(&seen, &bits, sizeof seen);
    if (wall_time >= 0) {
        EXPECT_NEAR(seen, wall_time, 1e-6);
    }
    EXPECT(bytes == 9 + rest_bytes && memcmp(message + 9, rest, rest_bytes) == 0);
}

#define ANY_TIME (-1.0)

// A seed and a layer are parts of the tag; a stage is not, so that a curve goes on.
TEST(labels_are_parts_of_the_tag) {
    EsSink sink = open_sink(-1);
    EsMetricEvent row = {.name = "n", .value = 1, .seed_id = "s", .stage = "X", .layer = "l"};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 3, -1, &row, 1), OK);
    close_sink(&sink);
    size_t bytes = 0, n = 0;
    char *file = read_last_file(&bytes);
    const char *next = file, *end = file + bytes;
    take_frame(&next, end, &n);
    const char *message = take_frame(&next, end, &n);
    static const char scalar[] = "\x10\x03\x2a\x0e\x0a\x0c\x0a\x05"
                                 "n/s/l\x15\0\0\x80\x3f";
    expect_message(message, n, CASE_UNIX_US * 1e-6, scalar, sizeof scalar - 1);
    es_release(file);
}

TEST(a_file_byte_for_byte) {
    EsSink sink = open_sink(-1);
    EXPECT_TEXT(sink.name, "tensorboard");
    EsMetricEvent rows[2] = {es_metric("a/b", 1.5), es_metric("c", -2)};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 300, -1, rows, 2), OK);
    close_sink(&sink);
    size_t bytes = 0, n = 0;
    char *file = read_last_file(&bytes);
    const char *next = file, *end = file + bytes;
    const char *message = take_frame(&next, end, &n);
    expect_message(message, n, ANY_TIME,
                   "\x1a\x0d"
                   "brain.Event:2",
                   15);
    message = take_frame(&next, end, &n);
    static const char scalars[] = "\x10\xac\x02" // step 300
                                  "\x2a\x16"     // summary, 22 bytes
                                  "\x0a\x0a\x0a\x03"
                                  "a/b\x15\0\0\xc0\x3f" // 1.5f
                                  "\x0a\x08\x0a\x01"
                                  "c\x15\0\0\0\xc0"; // -2f
    expect_message(message, n, CASE_UNIX_US * 1e-6, scalars, sizeof scalars - 1);
    EXPECT(next == end);
    es_release(file);
}

TEST(resuming_starts_a_session_in_a_later_file) {
    EsSink sink = open_sink(-1);
    close_sink(&sink);
    char first[ES_FILE_NAME_BYTES], second[ES_FILE_NAME_BYTES];
    EXPECT_EQ(find_last_file(first), 1);
    sink = open_sink(41); // within the same second, most likely
    close_sink(&sink);
    EXPECT_EQ(find_last_file(second), 2);
    EXPECT(strcmp(second, first) > 0);
    EXPECT_EQ(strncmp(first, "events.out.tfevents.", 20), 0);
    EXPECT_TEXT(first + strlen(first) - 6, ".esper");
    size_t bytes = 0, n = 0;
    char *file = read_last_file(&bytes);
    const char *next = file, *end = file + bytes;
    take_frame(&next, end, &n);
    const char *message = take_frame(&next, end, &n);
    expect_message(message, n, ANY_TIME, "\x10\x2a\x3a\x02\x08\x01", 6); // step 42, START
    EXPECT(next == end);
    es_release(file);
}

TEST(a_clock_set_back_keeps_the_order) {
    char name[ES_FILE_NAME_BYTES];
    write_temp_text("events.out.tfevents.4000000000.zzz.9.esper", "");
    EsSink sink = open_sink(1);
    close_sink(&sink);
    find_last_file(name);
    EXPECT_EQ(strncmp(name, "events.out.tfevents.4000000001.", 31), 0);
}

TEST(what_is_no_measured_metric_is_skipped) {
    EsSink sink = open_sink(-1);
    EsMetricEvent rows[3] = {es_metric("missing", es_missing_real()), es_metric(NULL, 1),
                             es_metric("", 2)};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_METRIC, 1, -1, rows, 3), OK);
    EsRoundCompletedEvent round = {.accuracy = 50, .total_steps = ES_MISSING_INT};
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_ROUND_COMPLETED, 1, -1, &round, 1), OK);
    close_sink(&sink);
    size_t bytes = 0, n = 0;
    char *file = read_last_file(&bytes);
    const char *next = file;
    take_frame(&next, file + bytes, &n);
    EXPECT(next == file + bytes); // nothing after the version
    es_release(file);
}

// The last four bytes of a message with one scalar are its value.
static float value_of(const char *message, size_t bytes) {
    uint32_t bits = (uint32_t)load_little_endian(message + bytes - 4, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TEST(not_finite_and_too_large) {
    EsSink sink = open_sink(-1);
    static const double values[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 3.4028234663852886e38};
    for (size_t i = 0; i < ES_COUNT_OF(values); i++) {
        EXPECT_STATUS(write_metric(&sink, 1, "x", values[i]), OK);
    }
    close_sink(&sink);
    size_t bytes = 0, n = 0;
    char *file = read_last_file(&bytes);
    const char *next = file;
    take_frame(&next, file + bytes, &n);
    static const float expected[] = {NAN, INFINITY, -INFINITY, INFINITY, -INFINITY, 3.4028235e38f};
    for (size_t i = 0; i < ES_COUNT_OF(values); i++) {
        const char *message = take_frame(&next, file + bytes, &n);
        float value = value_of(message, n);
        EXPECT(isnan(expected[i]) ? isnan(value) : value == expected[i]);
    }
    es_release(file);
}

TEST(long_tags_and_large_steps) {
    EsSink sink = open_sink(-1);
    static char tag[301];
    memset(tag, 't', 300);
    EXPECT_STATUS(write_metric(&sink, INT64_MAX, tag, 1), OK);
    close_sink(&sink);
    size_t bytes = 0, n = 0;
    char *file = read_last_file(&bytes);
    const char *next = file;
    take_frame(&next, file + bytes, &n);
    const char *message = take_frame(&next, file + bytes, &n);
    // step: key and 9 bytes; summary 311, value 308, tag 300, all with lengths of two bytes
    static const char head[] = "\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x2a\xb7\x02\x0a\xb4\x02"
                               "\x0a\xac\x02t";
    EXPECT_EQ(n, 9 + 10 + 3 + 3 + 3 + 300 + 5);
    EXPECT_EQ(memcmp(message + 9, head, sizeof head - 1), 0);
    EXPECT(next == file + bytes);
    es_release(file);
}

TEST(places_that_cannot_be_opened) {
    EsSink sink = {.name = "untouched"};
    EXPECT_STATUS(es_tensorboard_sink_open("/tmp/es_no_such_folder/tensorboard", -1, &sink), IO);
    EXPECT_CONTAINS(es_status_detail(), "/tmp/es_no_such_folder/tensorboard");
    EXPECT_STATUS(es_tensorboard_sink_open(write_temp_text("file", ""), -1, &sink), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(ENOTDIR));
    EXPECT_TEXT(sink.name, "untouched");
    const char *made = temp_path("made"); // a missing last folder is made
    REQUIRE_OK(es_tensorboard_sink_open(made, -1, &sink));
    sink.close(sink.state);
    EXPECT_EQ(count_names(made), 1);
}

// The only event file of env_steps/, NULL when there is none; es_release it.
static char *read_steps_file(size_t *bytes) {
    EsFolderEntry *entries = NULL;
    int n = 0;
    char path[ES_FILE_NAME_BYTES + 16];
    if (es_folder_list(temp_path("env_steps"), &entries, &n) != ES_STATUS_OK || n == 0) {
        es_release(entries);
        return NULL;
    }
    EXPECT_EQ(n, 1);
    snprintf(path, sizeof path, "env_steps/%s", entries[0].name);
    es_release(entries);
    return read_sink_file(temp_path(path), bytes);
}

static void write_outcome(const EsSink *sink, int64_t round, const char *variant, double ratio) {
    EsEpisodeOutcomeEvent row = {.arm = variant,
                                 .parameter_ratio = ratio,
                                 .final_accuracy = es_missing_real(),
                                 .test_accuracy = variant != NULL ? 50 : es_missing_real(),
                                 .reward = es_missing_real()};
    EXPECT_STATUS(write_rows(sink, ES_EVENT_EPISODE_OUTCOME, round, -1, &row, 1), OK);
}

static void write_round(const EsSink *sink, int64_t round, int64_t total_steps) {
    EsRoundCompletedEvent row = {.accuracy = 25,
                                 .reward = es_missing_real(),
                                 .loss = es_missing_real(),
                                 .n_seeds = ES_MISSING_INT,
                                 .n_fossils = ES_MISSING_INT,
                                 .total_steps = total_steps};
    EXPECT_STATUS(write_rows(sink, ES_EVENT_ROUND_COMPLETED, round, -1, &row, 1), OK);
}

// Scalars of a round wait for its steps; those of a round that was dropped are forgotten.
TEST(curves_by_environment_steps) {
    EsSink sink = open_sink(-1);
    write_outcome(&sink, 1, NULL, 3);
    write_outcome(&sink, 2, NULL, 1); // one packet for each group of tasks
    write_outcome(&sink, 2, NULL, 3);
    write_round(&sink, 2, 300);
    write_outcome(&sink, 3, "a", 7);
    close_sink(&sink);
    size_t bytes = 0, n = 0;
    char *file = read_steps_file(&bytes);
    const char *next = file, *end = file + bytes;
    take_frame(&next, end, &n);
    const char *message = take_frame(&next, end, &n);
    static const char first[] = "\x10\xac\x02\x2a\x37" // step 300, 55 bytes
                                "\x0a\x16\x0a\x0fgrowth/accuracy\x15\0\0\xc8\x41"
                                "\x0a\x1d\x0a\x16growth/parameter_ratio\x15\0\0\0\x40";
    expect_message(message, n, CASE_UNIX_US * 1e-6, first, sizeof first - 1);
    message = take_frame(&next, end, &n);
    // the run's own policy: with and without its name
    static const char second[] = "\x0a\x1b\x0a\x14growth/test_accuracy\x15\0\0\x48\x42"
                                 "\x0a\x1d\x0a\x16growth/test_accuracy/a\x15\0\0\x48\x42";
    EXPECT(n > sizeof second + 13 && memcmp(message + 9, "\x10\xac\x02", 3) == 0);
    EXPECT(n > sizeof second + 13 && memcmp(message + 15, second, sizeof second - 1) == 0);
    EXPECT(next == end);
    es_release(file);
}

TEST(steps_after_a_resume) {
    EsCheckpointLoadedEvent loaded = {.path = "checkpoints/4", .total_steps = 299};
    EsSink sink = open_sink(4);
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_CHECKPOINT_LOADED, 4, -1, &loaded, 1), OK);
    write_outcome(&sink, 5, "a", 7); // of a run that was complete
    close_sink(&sink);
    size_t bytes = 0, n = 0;
    char *file = read_steps_file(&bytes);
    const char *next = file, *end = file + bytes;
    take_frame(&next, end, &n);
    const char *message = take_frame(&next, end, &n);
    expect_message(message, n, CASE_UNIX_US * 1e-6, "\x10\xac\x02\x3a\x02\x08\x01", 7);
    message = take_frame(&next, end, &n);
    EXPECT(n > 12 && memcmp(message + 9, "\x10\xab\x02", 3) == 0);
    EXPECT(next == end);
    es_release(file);
}

TEST(no_curves_by_unknown_steps) {
    EsCheckpointLoadedEvent loaded = {.path = "checkpoints/4", .total_steps = ES_MISSING_INT};
    EsSink sink = open_sink(4);
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_CHECKPOINT_LOADED, 4, -1, &loaded, 1), OK);
    write_outcome(&sink, 5, NULL, 7);
    write_round(&sink, 5, ES_MISSING_INT);
    write_outcome(&sink, 6, "a", 7);
    close_sink(&sink);
    EXPECT(read_steps_file(NULL) == NULL);
}

// Settings that are cut short, empty, or not UTF-8 are no harm.
TEST(configurations_of_any_text) {
    static const char *const texts[] = {"",
                                        "[",
                                        "[]",
                                        "=",
                                        "[a]\n=x\nk=",
                                        "[a",
                                        "a\n\n[b]\r\n k = 1e999 ",
                                        "[\xff]\n\xfe=\xfd",
                                        "[s]\nn = 0x10\nm = -1.5e3\n"};
    for (size_t i = 0; i < ES_COUNT_OF(texts); i++) {
        EsSink sink = open_sink(-1);
        EsRunStartedEvent row = {.kind = "grow", .config = texts[i], .n_host_parameters = 5};
        EXPECT_STATUS(write_rows(&sink, ES_EVENT_RUN_STARTED, 0, -1, &row, 1), OK);
        close_sink(&sink);
        size_t bytes = 0, n = 0;
        char *file = read_last_file(&bytes);
        const char *next = file;
        take_frame(&next, file + bytes, &n);
        take_frame(&next, file + bytes, &n);
        EXPECT(next == file + bytes);
        es_release(file);
    }
}

// 200 rounds, then a session that goes on from round 150: what read_tensorboard.py expects to find.
// ES_TEST_EXPORT names the folder; without it there is nothing to do.
TEST(export_for_reader) {
    const char *target = getenv("ES_TEST_EXPORT");
    if (target == NULL) {
        SKIP("ES_TEST_EXPORT is not set; read_tensorboard.py sets it");
    }
    EsSink sink;
    REQUIRE_OK(es_tensorboard_sink_open(target, -1, &sink));
    for (int round = 1; round <= 200; round++) {
        EsMetricEvent rows[] = {es_metric("losses/value_loss", 1.0 / round),
                                es_metric("charts/SPS", 1000.0 + round),
                                es_metric("only/first", round),
                                es_metric("hostile/\xff\xfe tag", round == 7 ? NAN : INFINITY),
                                es_metric("sometimes", round % 2 ? es_missing_real() : 2.0)};
        REQUIRE_OK(write_rows_at(&sink, ES_EVENT_METRIC, CASE_UNIX_US + 1000000 * round, round, -1,
                                 rows, ES_COUNT_OF(rows)));
    }
    close_sink(&sink);
    if (getenv("ES_TEST_RESUME") != NULL) {
        REQUIRE_OK(es_tensorboard_sink_open(target, 150, &sink));
        for (int round = 151; round <= 160; round++) {
            EsMetricEvent rows[] = {es_metric("losses/value_loss", -1.0),
                                    es_metric("charts/SPS", 5.0)};
            REQUIRE_OK(write_rows(&sink, ES_EVENT_METRIC, round, -1, rows, ES_COUNT_OF(rows)));
        }
        close_sink(&sink);
    }
}
