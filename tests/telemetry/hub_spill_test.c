// Kept events whose sink is too slow: they go through the spill file, in order, and what is lost is
// counted.
#include <pthread.h>

#include "base/macros.h"
#include "hub_probe.h"

TEST(kept_events_survive_a_full_queue_in_order) {
    EsHubOptions options = es_hub_defaults();
    options.queue_packets = 4;
    options.spill_folder = temp_folder();
    EsHub *hub = create_hub(&options);
    Probe *probe = create_probe();
    block_probe(probe);
    add_probe(hub, probe, "probe");
    for (int64_t i = 0; i < 200; i++) {
        emit_kept(hub, i);
        emit_lossy(hub, 1);
    }
    EsHubHealth health;
    es_hub_health(hub, &health);
    EXPECT_EQ(health.sinks[0].n_dropped, 198); // 2 kept and 2 lossy were queued
    EXPECT_EQ(health.sinks[0].n_spilled, 198);
    EXPECT_EQ(health.sinks[0].n_lost, 0);
    EXPECT(case_file_bytes("spill-probe.bin") > 0);
    unblock_probe(probe);
    EXPECT_EQ(es_hub_flush(hub, 60), 1);
    EXPECT_EQ(probe->n_seen_at_flush, 202);
    EXPECT_EQ(case_file_bytes("spill-probe.bin"), 0);
    emit_kept(hub, 200); // nothing pending: by the queue again
    es_hub_close(hub, &health);
    int64_t next = 0;
    for (int i = 0; i < probe->n_seen; i++) {
        if (probe->seen[i].type == ES_EVENT_ROUND_COMPLETED) {
            EXPECT_EQ(probe->value[i], next);
            next++;
        }
    }
    EXPECT_EQ(next, 201);
    EXPECT_EQ(health.sinks[0].n_spilled, 198);
    EXPECT_EQ(health.sinks[0].n_written, 203);
    EXPECT_EQ(es_hub_health_has_losses(&health), 0);
    EXPECT_EQ(count_names(temp_folder()), 0);
    destroy_probe(probe);
}

TEST(without_room_to_spill_kept_events_are_lost) {
    CaseLog log;
    size_t packet_bytes = 48 + sizeof(EsRoundCompletedEvent);
    for (int has_folder = 0; has_folder <= 1; has_folder++) {
        EsHubOptions options = es_hub_defaults();
        options.queue_packets = 4;
        options.spill_folder = has_folder ? temp_folder() : NULL;
        options.spill_bytes = 10 * packet_bytes;
        EsHub *hub = create_hub(&options);
        Probe *probe = create_probe();
        block_probe(probe);
        add_probe(hub, probe, "probe");
        begin_log(&log);
        for (int64_t i = 0; i < 100; i++) {
            emit_kept(hub, i);
        }
        EXPECT_EQ(log.n_lines, 0);
        es_hub_tick(hub);
        EXPECT_EQ(log.n_lines, 1);
        EXPECT_CONTAINS(log.first, "sink probe misses a round_completed event: its queue");
        EXPECT_CONTAINS(log.first, has_folder ? "/spill-probe.bin are full" : "is full");
        unblock_probe(probe);
        EsHubHealth health;
        es_hub_close(hub, &health);
        int n_spilled = has_folder ? 10 : 0;
        EXPECT_EQ(health.sinks[0].n_spilled, n_spilled);
        EXPECT_EQ(health.sinks[0].n_lost, 96 - n_spilled);
        EXPECT_EQ(health.sinks[0].n_written, 4 + n_spilled);
        EXPECT_EQ(health.n_dropped_by_type[ES_EVENT_ROUND_COMPLETED], 96 - n_spilled);
        EXPECT_EQ(es_hub_health_has_losses(&health), 1);
        EXPECT_EQ(probe->n_seen, 4 + n_spilled);
        end_log();
        destroy_probe(probe);
    }
    EXPECT_EQ(count_names(temp_folder()), 0);
}

TEST(a_sink_left_behind_leaves_its_spill) {
    EsHubOptions options = es_hub_defaults();
    options.queue_packets = 2;
    options.spill_folder = temp_folder();
    options.close_seconds = 0.1;
    EsHub *hub = create_hub(&options);
    Probe *probe = create_probe();
    block_probe(probe);
    add_probe(hub, probe, "probe");
    for (int64_t i = 0; i < 10; i++) {
        emit_kept(hub, i);
    }
    EsHubHealth health;
    es_hub_close(hub, &health);
    EXPECT_EQ(health.sinks[0].n_lost, 10);
    EXPECT_EQ(health.sinks[0].is_blocked, 1);
    long long left = case_file_bytes("spill-probe.bin");
    EXPECT_EQ(left, 8 * (48 + (long long)sizeof(EsRoundCompletedEvent)));
    // the next session begins while the thread is still stuck
    Probe *second = create_probe();
    CaseLog log;
    begin_log(&log);
    hub = create_hub(&options);
    add_probe(hub, second, "probe");
    EXPECT_EQ(log.n_lines, 1);
    EXPECT_CONTAINS(log.first, "spill-probe-1.bin");
    end_log();
    unblock_probe(probe);
    wait_until(&probe->n_closed, 1);
    es_hub_close(hub, NULL);
    EXPECT_EQ(case_file_bytes("spill-probe-1.bin"), left);
    EXPECT_EQ(count_names(temp_folder()), 1);
    destroy_probe(probe);
    destroy_probe(second);
}

TEST(packets_too_large_for_the_queue) {
    EsHubOptions options = es_hub_defaults();
    options.queue_bytes = 1 << 12;
    options.spill_folder = temp_folder();
    EsHub *hub = create_hub(&options);
    Probe *probe = create_probe();
    add_probe(hub, probe, "probe");
    EsRoundCompletedEvent kept[100] = {{.n_episodes = 0}};
    kept[99].n_episodes = 99;
    EsMetricEvent lossy[200] = {{.value = 1}};
    CaseLog log;
    begin_log(&log);
    es_emit_round_completed(hub, (EsEventTime){.round = 1}, kept, 100);
    es_emit_metric(hub, (EsEventTime){.round = 1}, lossy, 200);
    // more rows than a packet may have: refused before they are read
    es_emit_metric(hub, (EsEventTime){.round = 1}, lossy, INT64_C(1) << 40);
    es_emit_round_completed(hub, (EsEventTime){.round = 1}, kept, INT64_C(1) << 40);
    EsHubHealth health;
    es_hub_close(hub, &health);
    end_log();
    EXPECT_EQ(probe->n_seen, 1);
    EXPECT_EQ(probe->value[0], 99);
    EXPECT_EQ(health.sinks[0].n_spilled, 1);
    EXPECT_EQ(health.sinks[0].n_dropped, 2);
    EXPECT_EQ(health.sinks[0].n_lost, 1);
    EXPECT_EQ(count_names(temp_folder()), 0);
    destroy_probe(probe);
}

// --- many threads ---

enum { N_EMITTERS = 4, N_EACH = 2000 };

typedef struct Emitter {
    EsHub *hub;
    int64_t index;
} Emitter;

static void *emit_from_thread(void *argument) {
    Emitter *emitter = argument;
    for (int64_t i = 0; i < N_EACH; i++) {
        emit_kept(emitter->hub, emitter->index * N_EACH + i);
        emit_lossy(emitter->hub, i % 3);
        if (i % 10 == 0) {
            usleep(400); // lets the sink catch up, so that queue and spill take turns
        }
    }
    return NULL;
}

// Wait until the first sink's spill was used.
static void wait_for_spill(EsHub *hub) {
    EsHubHealth health;
    do {
        usleep(100);
        es_hub_health(hub, &health);
    } while (health.sinks[0].n_spilled == 0);
}

// The order of kept events, thread by thread, and how many there are.
static int count_kept_in_order(const Probe *probe) {
    int64_t next[N_EMITTERS] = {0};
    int n_kept = 0;
    EXPECT(probe->n_seen <= MAX_SEEN);
    for (int i = 0; i < ES_MIN(probe->n_seen, MAX_SEEN); i++) {
        if (probe->seen[i].type == ES_EVENT_ROUND_COMPLETED) {
            n_kept += probe->value[i] % N_EACH == next[probe->value[i] / N_EACH]++;
        }
    }
    return n_kept;
}

// No kept event is lost or overtakes another of its thread, whichever way each went.
TEST(kept_events_of_many_threads_keep_their_order) {
    EsHubOptions options = es_hub_defaults();
    options.queue_packets = 8;
    options.spill_folder = temp_folder();
    EsHub *hub = create_hub(&options);
    Probe *probe = create_probe();
    block_probe(probe);
    add_probe(hub, probe, "probe");
    pthread_t threads[N_EMITTERS];
    Emitter emitters[N_EMITTERS];
    for (int64_t e = 0; e < N_EMITTERS; e++) {
        emitters[e] = (Emitter){hub, e};
        EXPECT_EQ(pthread_create(&threads[e], NULL, emit_from_thread, &emitters[e]), 0);
    }
    wait_for_spill(hub);
    unblock_probe(probe);
    for (int e = 0; e < N_EMITTERS; e++) {
        es_hub_flush(hub, 0.01); // flushes come in between, whether they succeed or not
        pthread_join(threads[e], NULL);
    }
    EsHubHealth health;
    es_hub_close(hub, &health);
    EXPECT_EQ(count_kept_in_order(probe), N_EMITTERS * N_EACH);
    EXPECT_EQ(health.sinks[0].n_lost, 0);
    EXPECT(health.sinks[0].n_spilled > 0);
    // 0 + 1 + 2 lossy ones in three turns, 0 + 1 in the last two
    int64_t n_lossy = N_EMITTERS * (N_EACH / 3 * 3 + 1);
    EXPECT_EQ(health.sinks[0].n_written + health.sinks[0].n_dropped, N_EMITTERS * N_EACH + n_lossy);
    EXPECT_EQ(count_names(temp_folder()), 0);
    printf("%lld of %d kept events went through the spill, %lld lossy ones were dropped\n",
           (long long)health.sinks[0].n_spilled, N_EMITTERS * N_EACH,
           (long long)health.sinks[0].n_dropped);
    destroy_probe(probe);
}
