#include "telemetry/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/file_fault.h"
#include "base/macros.h"
#include "hub_case.h"

// one row of this type has no text, so all packets are equally large
#define ROW_TYPE ES_EVENT_STEP_TIMED
enum { PACKET_BYTES = 48 + 4 * 8 };

static EsSpill *open_spill(size_t max_bytes) {
    EsSpill *spill = NULL;
    REQUIRE_OK(es_spill_open(temp_folder(), "test", max_bytes, &spill));
    return spill;
}

static int append(EsSpill *spill, int64_t sequence) {
    EsStepTimedEvent row = {.total_ms = (double)sequence};
    EsPacketHeader header = {.sequence = sequence};
    return es_spill_append(spill, ROW_TYPE, &row, 1, &header);
}

static void expect_next(EsSpill *spill, int64_t sequence) {
    EsPacket packet;
    REQUIRE_OK(es_spill_peek(spill, &packet));
    EXPECT_EQ(packet.type, ROW_TYPE);
    EXPECT_EQ(packet.header->sequence, sequence);
    EXPECT_NEAR(es_packet_real(&packet, 0, 0), sequence, 0);
    es_spill_release(spill);
}

TEST(packets_come_back_in_order_and_the_file_goes_away) {
    EsSpill *spill = open_spill(1 << 20);
    EXPECT_CONTAINS(es_spill_path(spill), "/spill-test.bin");
    EXPECT_EQ(case_file_bytes("spill-test.bin"), 0);
    for (int64_t i = 0; i < 10; i++) {
        EXPECT_EQ(append(spill, i), 0);
    }
    EXPECT_EQ(case_file_bytes("spill-test.bin"), 10 * PACKET_BYTES);
    for (int64_t i = 0; i < 5; i++) {
        expect_next(spill, i);
    }
    EXPECT_EQ(append(spill, 10), 0);
    EXPECT_EQ(es_spill_n_pending(spill), 6);
    EXPECT_EQ(es_spill_n_appended(spill), 11);
    EXPECT_EQ(es_spill_n_taken(spill), 5);
    for (int64_t i = 5; i < 11; i++) {
        expect_next(spill, i);
    }
    // all taken: empty, and filled again from the start
    EXPECT_EQ(es_spill_n_pending(spill), 0);
    EXPECT_EQ(case_file_bytes("spill-test.bin"), 0);
    EXPECT_EQ(append(spill, 11), 0);
    EXPECT_EQ(case_file_bytes("spill-test.bin"), PACKET_BYTES);
    expect_next(spill, 11);
    es_spill_close(spill);
    EXPECT_EQ(count_names(temp_folder()), 0);
    es_spill_close(NULL);
}

TEST(the_cap_holds) {
    EsSpill *spill = open_spill(3 * PACKET_BYTES + 8);
    EXPECT_EQ(append(spill, 0), 0);
    EXPECT_EQ(append(spill, 1), 0);
    EXPECT_EQ(append(spill, 2), 0);
    EXPECT_EQ(append(spill, 3), EFBIG);
    EXPECT_EQ(es_spill_n_pending(spill), 3);
    EXPECT_EQ(es_spill_n_appended(spill), 3);
    for (int64_t i = 0; i < 3; i++) {
        expect_next(spill, i);
    }
    EXPECT_EQ(append(spill, 4), 0);
    expect_next(spill, 4);
    es_spill_close(spill);
    // a single packet above the cap
    spill = open_spill(PACKET_BYTES - 8);
    EXPECT_EQ(append(spill, 5), EFBIG);
    es_spill_close(spill);
    EXPECT_EQ(count_names(temp_folder()), 0);
}

TEST(what_was_not_delivered_is_kept_for_the_next_sitting) {
    CaseLog log;
    begin_log(&log);
    for (int session = 0; session < 3; session++) {
        EsSpill *spill = open_spill(1 << 20);
        EXPECT_EQ(log.n_lines, session);
        EXPECT_EQ(append(spill, session), 0);
        EXPECT_EQ(append(spill, session), 0);
        expect_next(spill, session);
        es_spill_close(spill);
    }
    EXPECT_CONTAINS(log.first, "160 bytes of events that never reached sink test; kept as");
    EXPECT_CONTAINS(log.first, "/spill-test-1.bin");
    EXPECT_EQ(case_file_bytes("spill-test.bin"), 2 * PACKET_BYTES);
    EXPECT_EQ(case_file_bytes("spill-test-1.bin"), 2 * PACKET_BYTES);
    EXPECT_EQ(case_file_bytes("spill-test-2.bin"), 2 * PACKET_BYTES);
    EXPECT_EQ(count_names(temp_folder()), 3);
    end_log();
}

TEST(closing_late_leaves_a_newer_file_alone) {
    EsSpill *old = open_spill(1 << 20);
    EsSpill *new = open_spill(1 << 20);
    EXPECT_EQ(append(new, 1), 0);
    es_spill_close(old);
    EXPECT_EQ(case_file_bytes("spill-test.bin"), PACKET_BYTES);
    expect_next(new, 1);
    es_spill_close(new);
    EXPECT_EQ(count_names(temp_folder()), 0);
}

TEST(a_missing_folder_is_an_error) {
    EsSpill *spill = NULL;
    EXPECT_STATUS(es_spill_open("/nonexistent/folder", "test", 100, &spill), IO);
    EXPECT_CONTAINS(es_status_detail(), "/nonexistent/folder/spill-test.bin");
    EXPECT(spill == NULL);
    EXPECT_STATUS(es_spill_open("/tmp", "test", 0, &spill), ARGUMENT);
}

// The limit on file sizes makes the system write a part and then refuse, as a full disk does.
TEST(a_full_disk_leaves_no_part_behind) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, tight;
    getrlimit(RLIMIT_FSIZE, &before);
    tight = before;
    tight.rlim_cur = 2 * PACKET_BYTES + 40;
    EsSpill *spill = open_spill(1 << 20);
    setrlimit(RLIMIT_FSIZE, &tight);
    EXPECT_EQ(append(spill, 0), 0);
    EXPECT_EQ(append(spill, 1), 0);
    EXPECT(append(spill, 2) != 0);
    EXPECT_EQ(case_file_bytes("spill-test.bin"), 2 * PACKET_BYTES);
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(es_spill_n_pending(spill), 2);
    EXPECT_EQ(append(spill, 3), 0);
    expect_next(spill, 0);
    expect_next(spill, 1);
    expect_next(spill, 3);
    es_spill_close(spill);
}

static void damage_file(const char *path, long offset, const char *bytes) {
    int descriptor = open(path, O_WRONLY);
    EXPECT_EQ(pwrite(descriptor, bytes, strlen(bytes), offset), strlen(bytes));
    close(descriptor);
}

TEST(a_damaged_file_is_noticed_and_given_up) {
    EsSpill *spill = open_spill(1 << 20);
    int64_t n_by_type[ES_EVENT_COUNT];
    EsPacket packet;

    for (int64_t i = 0; i < 3; i++) {
        EXPECT_EQ(append(spill, i), 0);
    }
    expect_next(spill, 0);
    damage_file(es_spill_path(spill), PACKET_BYTES, "zzzz");
    EXPECT_STATUS(es_spill_peek(spill, &packet), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "not a packet");
    es_spill_discard(spill, n_by_type);
    EXPECT_EQ(n_by_type[ROW_TYPE], 2);
    EXPECT_EQ(es_spill_n_taken(spill), 3);
    EXPECT_EQ(es_spill_n_pending(spill), 0);

    // a size beyond the end, then a file that somebody cut
    EXPECT_EQ(append(spill, 3), 0);
    damage_file(es_spill_path(spill), 8, "\xf0\xff\xff\x7f");
    EXPECT_STATUS(es_spill_peek(spill, &packet), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "size as 2147483632 bytes");
    es_spill_discard(spill, n_by_type);
    EXPECT_EQ(append(spill, 4), 0);
    EXPECT_EQ(truncate(es_spill_path(spill), 60), 0);
    EXPECT_STATUS(es_spill_peek(spill, &packet), IO);
    EXPECT_CONTAINS(es_status_detail(), "ends at byte 60");
    es_spill_discard(spill, n_by_type);
    EXPECT_EQ(n_by_type[ROW_TYPE], 1);

    EXPECT_EQ(append(spill, 5), 0);
    expect_next(spill, 5);
    es_spill_close(spill);
    EXPECT_EQ(count_names(temp_folder()), 0);
}

enum { N_PRODUCERS = 3, N_EACH = 3000 };

typedef struct Producer {
    EsSpill *spill;
    int64_t index;
} Producer;

static void *produce(void *argument) {
    Producer *producer = argument;
    for (int64_t i = 0; i < N_EACH; i++) {
        EXPECT_EQ(append(producer->spill, producer->index * N_EACH + i), 0);
    }
    return NULL;
}

TEST(producers_append_while_the_consumer_takes) {
    EsSpill *spill = open_spill(1 << 24);
    pthread_t threads[N_PRODUCERS];
    Producer producers[N_PRODUCERS];
    for (int64_t p = 0; p < N_PRODUCERS; p++) {
        producers[p] = (Producer){spill, p};
        EXPECT_EQ(pthread_create(&threads[p], NULL, produce, &producers[p]), 0);
    }
    int64_t next[N_PRODUCERS] = {0};
    int n_wrong = 0;
    for (int n_seen = 0; n_seen < N_PRODUCERS * N_EACH;) {
        EsPacket packet;
        if (es_spill_n_pending(spill) == 0) {
            sched_yield();
            continue;
        }
        REQUIRE_OK(es_spill_peek(spill, &packet));
        int64_t producer = packet.header->sequence / N_EACH;
        n_wrong += packet.header->sequence % N_EACH != next[producer]++;
        es_spill_release(spill);
        n_seen++;
    }
    for (int p = 0; p < N_PRODUCERS; p++) {
        pthread_join(threads[p], NULL);
    }
    EXPECT_EQ(n_wrong, 0);
    EXPECT_EQ(es_spill_n_pending(spill), 0);
    EXPECT_EQ(case_file_bytes("spill-test.bin"), 0);
    es_spill_close(spill);
}

static void arm(const char *text) {
    EsFileFault fault;
    REQUIRE_OK(es_file_fault_parse(text, &fault));
    es_file_fault_arm(&fault);
}

TEST(faults_of_the_disk_reach_the_spill) {
    EsSpill *spill = NULL;
    arm("open:1:EMFILE");
    EXPECT_STATUS(es_spill_open(temp_folder(), "test", 1 << 20, &spill), IO);
    EXPECT_EQ(es_file_fault_clear(), 1);
    spill = open_spill(1 << 20);
    EXPECT_EQ(append(spill, 0), 0);
    arm("write:1:ENOSPC");
    EXPECT_EQ(append(spill, 1), ENOSPC);
    EXPECT_EQ(es_file_fault_clear(), 1);
    arm("write:1:short"); // no failure: the rest follows
    EXPECT_EQ(append(spill, 2), 0);
    EXPECT_EQ(es_file_fault_clear(), 1);
    EsPacket packet;
    arm("read:2:EIO");
    EXPECT_STATUS(es_spill_peek(spill, &packet), IO);
    EXPECT_EQ(es_file_fault_clear(), 1);
    expect_next(spill, 0);
    expect_next(spill, 2);
    es_spill_close(spill);
}
