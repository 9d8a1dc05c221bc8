// Emergency signals: byte by byte, from another process, and never half written.
#include "fit/emergency_signal.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
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
