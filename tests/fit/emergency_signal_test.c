// Signals: byte by byte, from another process, and never half written. Messages: within their time
// and their number.
#include "fit/emergency_signal.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "es_test.h"
#include "temp_folder.h"

// What a supervisor of another make sees.
static void read_bytes(const char *folder, unsigned char bytes[ES_SIGNAL_BYTES]) {
    char name[ES_SIGNAL_NAME_BYTES];
    REQUIRE_OK(es_signal_name(folder, name));
    int descriptor = shm_open(name, O_RDONLY, 0);
    EXPECT(descriptor >= 0);
    EXPECT_EQ(read(descriptor, bytes, ES_SIGNAL_BYTES), ES_SIGNAL_BYTES);
    close(descriptor);
}

TEST(bytes_as_documented) {
    EsEmergencySignal *signal;
    unsigned char bytes[ES_SIGNAL_BYTES];
    const char *folder = temp_folder();
    REQUIRE_OK(es_emergency_signal_create(folder, &signal));
    read_bytes(folder, bytes);
    EXPECT_EQ(bytes[0], 0);
    uint64_t before_ms = (uint64_t)es_clock_ns() / 1000000;
    es_emergency_signal_raise(signal, 3, "breaker_open");
    uint64_t after_ms = (uint64_t)es_clock_ns() / 1000000, raised_ms = 0;
    read_bytes(folder, bytes);
    EXPECT_EQ(bytes[0], 1);
    EXPECT_EQ(bytes[1], 3);
    for (int i = 7; i >= 0; i--) {
        raised_ms = raised_ms << 8 | bytes[2 + i];
    }
    EXPECT(raised_ms >= before_ms && raised_ms <= after_ms);
    EXPECT_EQ(bytes[10], 12);
    EXPECT(memcmp(bytes + 11, "breaker_open", 12) == 0);
    es_emergency_signal_clear(signal);
    read_bytes(folder, bytes);
    EXPECT_EQ(bytes[0], 0);
    es_emergency_signal_destroy(signal);
}

TEST(reading_what_was_raised) {
    EsEmergencySignal *signal;
    EsSignal seen;
    const char *folder = temp_folder();
    EXPECT_STATUS(es_signal_read(folder, &seen), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "no fit with rails is going on there");
    EXPECT_STATUS(es_signal_read("no/such/folder", &seen), INPUT);
    REQUIRE_OK(es_emergency_signal_create(folder, &signal));
    REQUIRE_OK(es_signal_read(folder, &seen));
    EXPECT_EQ(seen.is_raised, 0);
    EXPECT_EQ(seen.level, 1);
    char reason[100];
    memset(reason, 'x', sizeof reason);
    reason[99] = '\0';
    es_emergency_signal_raise(signal, 4, reason);
    REQUIRE_OK(es_signal_read(folder, &seen));
    EXPECT_EQ(seen.level, 4);
    EXPECT_EQ(strlen(seen.reason), ES_SIGNAL_REASON_BYTES - 1);
    // a second one takes the first one's place, as after a kill
    EsEmergencySignal *next;
    REQUIRE_OK(es_emergency_signal_create(folder, &next));
    REQUIRE_OK(es_signal_read(folder, &seen));
    EXPECT_EQ(seen.is_raised, 0);
    es_emergency_signal_destroy(next);
    EXPECT_STATUS(es_signal_read(folder, &seen), INPUT);
    es_emergency_signal_destroy(signal);
}

TEST(another_process_reads_it) {
    EsEmergencySignal *signal;
    const char *folder = temp_folder();
    REQUIRE_OK(es_emergency_signal_create(folder, &signal));
    es_emergency_signal_raise(signal, 2, "epoch_budget");
    pid_t child = fork();
    if (child == 0) {
        EsSignal seen;
        int is_right = es_signal_read(folder, &seen) == ES_STATUS_OK && seen.level == 2 &&
                       strcmp(seen.reason, "epoch_budget") == 0;
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    es_emergency_signal_destroy(signal);
}

// Two signals whose every byte differs, written again and again, with pauses of all lengths up to a
// few times that of a read.
typedef struct Writer {
    EsEmergencySignal *signal;
    atomic_int is_over;
} Writer;

static void *write_signals(void *context) {
    Writer *writer = context;
    for (int n = 0; !atomic_load(&writer->is_over); n++) {
        es_emergency_signal_raise(writer->signal, 2, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        es_emergency_signal_raise(writer->signal, 3, "bbbbbbbbbb");
        for (int i = 0; i < n % 1000; i++) {
            atomic_load(&writer->is_over);
        }
    }
    return NULL;
}

TEST(nothing_half_written_is_read) {
    Writer writer = {.is_over = 0};
    pthread_t thread;
    const char *folder = temp_folder();
    int n_seen = 0;
    REQUIRE_OK(es_emergency_signal_create(folder, &writer.signal));
    EXPECT_EQ(pthread_create(&thread, NULL, write_signals, &writer), 0);
    for (int i = 0; i < 20000; i++) {
        EsSignal seen;
        REQUIRE_OK(es_signal_read(folder, &seen));
        if (seen.is_raised) {
            char expected = seen.level == 2 ? 'a' : 'b';
            EXPECT_EQ(strlen(seen.reason), seen.level == 2 ? 40 : 10);
            EXPECT_EQ(strspn(seen.reason, (char[]){expected, '\0'}), strlen(seen.reason));
            n_seen++;
        }
    }
    EXPECT(n_seen > 0);
    atomic_store(&writer.is_over, 1);
    pthread_join(thread, NULL);
    es_emergency_signal_destroy(writer.signal);
}

// A child that raises its signal, tells the parent, and is killed.
static pid_t start_fit(const char *folder) {
    int ends[2];
    char byte;
    EXPECT_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        EsEmergencySignal *signal;
        REQUIRE_OK(es_emergency_signal_create(folder, &signal));
        es_emergency_signal_raise(signal, 3, "breaker_open");
        _exit(write(ends[1], "r", 1) == 1 && pause() == 0);
    }
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return child;
}

TEST(a_killed_fit_leaves_an_abandoned_signal) {
    EsEmergencySignal *next;
    EsSignalView *view;
    EsSignal seen;
    const char *folder = temp_folder();
    pid_t child = start_fit(folder);
    REQUIRE_OK(es_signal_open(folder, &view));
    REQUIRE_OK(es_signal_look(view, &seen));
    EXPECT(!seen.is_abandoned);
    kill(child, SIGKILL);
    EXPECT_EQ(waitpid(child, NULL, 0), child);
    REQUIRE_OK(es_signal_look(view, &seen));
    EXPECT(seen.is_abandoned);
    EXPECT_EQ(seen.level, 3);
    REQUIRE_OK(es_signal_read(folder, &seen));
    EXPECT(seen.is_abandoned);
    // resumed: another fit takes its place, and takes its own signal along when it ends
    REQUIRE_OK(es_emergency_signal_create(folder, &next));
    REQUIRE_OK(es_signal_read(folder, &seen));
    EXPECT(!seen.is_abandoned);
    REQUIRE_OK(es_signal_look(view, &seen));
    EXPECT(!seen.is_abandoned); // removed, as by a fit that ended
    es_signal_close(view);
    REQUIRE_OK(es_signal_open(folder, &view));
    es_emergency_signal_destroy(next);
    REQUIRE_OK(es_signal_look(view, &seen));
    EXPECT(!seen.is_abandoned);
    es_signal_close(view);
}

TEST(the_deadline_signal_has_sixteen_bytes) {
    EsEmergencySignal *signal;
    EsSignalView *view;
    EsSignal seen;
    char name[ES_SIGNAL_NAME_BYTES + 16];
    unsigned char bytes[ES_SIGNAL_DEADLINE_BYTES + 1];
    const char *folder = temp_folder();
    REQUIRE_OK(es_emergency_signal_create(folder, &signal));
    REQUIRE_OK(es_signal_read(folder, &seen));
    EXPECT_EQ(seen.has_missed_deadline, 0);
    uint64_t before_ms = (uint64_t)es_clock_ns() / 1000000, missed_ms = 0;
    es_emergency_signal_miss_deadline(signal);
    REQUIRE_OK(es_signal_name(folder, name));
    strcat(name, "-deadline");
    int descriptor = shm_open(name, O_RDONLY, 0);
    EXPECT_EQ(read(descriptor, bytes, sizeof bytes), ES_SIGNAL_DEADLINE_BYTES);
    close(descriptor);
    EXPECT_EQ(bytes[0], 1);
    for (int i = 7; i >= 0; i--) {
        missed_ms = missed_ms << 8 | bytes[8 + i];
    }
    EXPECT(missed_ms >= before_ms && missed_ms <= (uint64_t)es_clock_ns() / 1000000);
    REQUIRE_OK(es_signal_read(folder, &seen));
    EXPECT_EQ(seen.has_missed_deadline, 1);
    EXPECT_EQ(seen.deadline_ms, missed_ms);
    es_emergency_signal_clear(signal);
    REQUIRE_OK(es_signal_read(folder, &seen));
    EXPECT_EQ(seen.has_missed_deadline, 0);
    // whoever has it open sees the end, after the names are gone
    REQUIRE_OK(es_signal_open(folder, &view));
    es_emergency_signal_raise(signal, 4, "loss_not_finite");
    es_emergency_signal_miss_deadline(signal);
    es_emergency_signal_destroy(signal);
    EXPECT_EQ(shm_open(name, O_RDONLY, 0), -1);
    EXPECT_STATUS(es_signal_read(folder, &seen), INPUT);
    REQUIRE_OK(es_signal_look(view, &seen));
    EXPECT_EQ(seen.level, 4);
    EXPECT_EQ(seen.has_missed_deadline, 1);
    es_signal_close(view);
}

// --- messages ---

static EsEmergencyDispatch *create_dispatch(const char *path, double timeout_ms, int per_minute) {
    EsEmergencyDispatch *dispatch = NULL;
    const EsEmergencyDispatchOptions options = {
        .path = path, .run = "runs/\"demo\"", .timeout_ms = timeout_ms, .per_minute = per_minute};
    REQUIRE_OK(es_emergency_dispatch_create(&options, &dispatch));
    return dispatch;
}

static const EsEmergency emergency = {3, "breaker_open", 7};

TEST(a_message_is_a_line_of_json) {
    EsEmergencyDispatch *dispatch = create_dispatch(temp_path("messages"), 60e3, 60);
    char line[1024] = "";
    EXPECT_EQ((int)es_emergency_dispatch_send(dispatch, &emergency, 0), (int)ES_DISPATCH_SENT);
    EXPECT_EQ((int)es_emergency_dispatch_send(dispatch, &emergency, 0), (int)ES_DISPATCH_SENT);
    EsDispatchCounts counts = es_emergency_dispatch_counts(dispatch);
    EXPECT_EQ(counts.sent, 2);
    EXPECT_EQ(counts.failed + counts.dropped + counts.applied, 0);
    EXPECT(counts.last_ms > 0);
    FILE *file = fopen(temp_path("messages"), "re");
    for (int i = 0; i < 2; i++) {
        EXPECT(fgets(line, sizeof line, file) != NULL);
        EXPECT_CONTAINS(line, "\"level\":3,\"reason\":\"breaker_open\",\"origin\":\"tolaria\"");
        EXPECT_CONTAINS(line, "\"run\":\"runs/\\\"demo\\\"\",\"epoch\":7");
    }
    EXPECT(fgets(line, sizeof line, file) == NULL);
    fclose(file);
    es_emergency_dispatch_destroy(dispatch);
}

TEST(no_more_messages_than_a_minute_allows) {
    const int64_t second = 1000000000;
    EsEmergencyDispatch *dispatch = create_dispatch(temp_path("many"), 60e3, 3);
    for (int i = 0; i < 10; i++) {
        EsDispatchResult result = es_emergency_dispatch_send(dispatch, &emergency, i * second);
        EXPECT_EQ((int)result, (int)(i < 3 ? ES_DISPATCH_SENT : ES_DISPATCH_DROPPED));
    }
    EXPECT_EQ(es_emergency_dispatch_counts(dispatch).dropped, 7);
    EXPECT_EQ((int)es_emergency_dispatch_send(dispatch, &emergency, 59 * second),
              (int)ES_DISPATCH_DROPPED);
    EXPECT_EQ((int)es_emergency_dispatch_send(dispatch, &emergency, 60 * second),
              (int)ES_DISPATCH_SENT);
    // a clock that goes back begins a minute
    EXPECT_EQ((int)es_emergency_dispatch_send(dispatch, &emergency, 0), (int)ES_DISPATCH_SENT);
    EXPECT_EQ(es_emergency_dispatch_counts(dispatch).sent, 5);
    es_emergency_dispatch_destroy(dispatch);
}

TEST(a_message_that_fails_is_sent_later) {
    EsEmergencyDispatch *dispatch = create_dispatch(temp_path("no/messages"), 60e3, 60);
    EXPECT_EQ((int)es_emergency_dispatch_retry(dispatch, 0), (int)ES_DISPATCH_SENT); // none waits
    EXPECT_EQ((int)es_emergency_dispatch_send(dispatch, &emergency, 0), (int)ES_DISPATCH_FAILED);
    EXPECT_CONTAINS(es_status_detail(), "no/messages: No such file or directory");
    EXPECT_EQ((int)es_emergency_dispatch_retry(dispatch, 0), (int)ES_DISPATCH_FAILED);
    EXPECT_EQ(mkdir(temp_path("no"), 0700), 0);
    EXPECT_EQ((int)es_emergency_dispatch_retry(dispatch, 0), (int)ES_DISPATCH_SENT);
    EsDispatchCounts counts = es_emergency_dispatch_counts(dispatch);
    EXPECT_EQ(counts.failed, 2);
    EXPECT_EQ(counts.sent, 1);
    EXPECT_EQ(counts.applied, 1);
    es_emergency_dispatch_destroy(dispatch);
}

// Nobody reads the pipe until the end: training goes on, with at most four threads that wait.
TEST(a_pipe_that_nobody_reads_makes_nobody_wait) {
    const char *path = temp_path("pipe");
    char line[1024];
    EXPECT_EQ(mkfifo(path, 0600), 0);
    EsEmergencyDispatch *dispatch = create_dispatch(path, 20, 60);
    for (int i = 0; i < 8; i++) {
        int64_t start_ns = es_clock_ns();
        EsDispatchResult result = es_emergency_dispatch_send(dispatch, &emergency, 0);
        EXPECT_EQ((int)result, (int)(i < 4 ? ES_DISPATCH_LATE : ES_DISPATCH_FAILED));
        EXPECT(es_clock_seconds_since(start_ns) < 10);
    }
    EXPECT_CONTAINS(es_status_detail(), "4 threads hang");
    EXPECT_EQ(es_emergency_dispatch_counts(dispatch).failed, 8);
    EXPECT_EQ(es_emergency_dispatch_counts(dispatch).sent, 0);
    EXPECT_EQ(es_emergency_dispatch_waiting(dispatch), 4); // late ones would come twice
    es_emergency_dispatch_destroy(dispatch);
    // late ones arrive when somebody reads, and the threads end
    FILE *pipe = fopen(path, "r+e"); // open for both, it never ends
    int n = 0;
    while (n < 4 && fgets(line, sizeof line, pipe) != NULL) {
        n++;
    }
    EXPECT_EQ(n, 4);
    fclose(pipe);
    usleep(50000);
}
