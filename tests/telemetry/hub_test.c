// Events of a hub, and sinks in trouble. Spilling is in hub_spill_test.c.
#include "telemetry/hub.h"

#include <time.h>

#include "base/clock.h"
#include "hub_probe.h"

// --- what is emitted ---

TEST(bad_options_and_sinks_are_refused) {
    EsHub *hub = NULL;
    EsHubOptions options = es_hub_defaults();
    options.stride = 0;
    EXPECT_STATUS(es_hub_create(&options, &hub), ARGUMENT);
    options = es_hub_defaults();
    options.level = (EsTelemetryLevel)4;
    EXPECT_STATUS(es_hub_create(&options, &hub), ARGUMENT);
    options = es_hub_defaults();
    options.close_seconds = -1;
    EXPECT_STATUS(es_hub_create(&options, &hub), ARGUMENT);
    options = es_hub_defaults();
    options.queue_bytes = 1000;
    hub = create_hub(&options);
    Probe *probe = create_probe();
    EsSink sink = {"probe", probe, probe_write, probe_flush, probe_close};
    EXPECT_STATUS(es_hub_add_sink(hub, &sink), ARGUMENT);
    EXPECT_EQ(probe->n_closed, 1); // owned although refused
    es_hub_close(hub, NULL);

    options = es_hub_defaults();
    options.queue_bytes = 1 << 12;
    hub = create_hub(&options);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (int i = 0; i < ES_HUB_MAX_SINKS; i++) {
        add_probe(hub, probe, names[i]);
        sink.name = names[i];
        EXPECT_STATUS(es_hub_add_sink(hub, &sink), ARGUMENT);
    }
    EXPECT_EQ(probe->n_closed, 1 + ES_HUB_MAX_SINKS);
    sink.name = "ninth";
    EXPECT_STATUS(es_hub_add_sink(hub, &sink), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "at most 8");
    es_hub_close(hub, NULL);
    EXPECT_EQ(probe->n_closed, 2 + 2 * ES_HUB_MAX_SINKS);
    destroy_probe(probe);
}

TEST(no_hub_wants_nothing) {
    EXPECT_EQ(es_hub_wants(NULL, ES_EVENT_RUN_STARTED, 0), 0);
    emit_kept(NULL, 1);
    es_hub_escalate(NULL);
    es_hub_tick(NULL);
    EXPECT_EQ(es_hub_flush(NULL, 1), 1);
    EsHubHealth health = {.n_sinks = 5};
    es_hub_health(NULL, &health);
    EXPECT_EQ(health.n_sinks, 0);
    es_hub_close(NULL, NULL);
}

TEST(levels_and_stride_decide) {
    for (int level = ES_LEVEL_OFF; level <= ES_LEVEL_DEBUG; level++) {
        EsHubOptions options = es_hub_defaults();
        options.level = (EsTelemetryLevel)level;
        EsHub *hub = create_hub(&options);
        for (int type = 0; type < ES_EVENT_COUNT; type++) {
            const EsEventSchema *schema = es_event_schema((EsEventType)type);
            int is_in_level = level != ES_LEVEL_OFF && (int)schema->level <= level;
            int is_strided = schema->pace == ES_PACE_STRIDED;
            for (int64_t step = -1; step <= 21; step++) {
                int expected = is_in_level && (!is_strided || step < 0 || step % 10 == 0);
                EXPECT_EQ(es_hub_wants(hub, (EsEventType)type, step), expected);
            }
        }
        es_hub_close(hub, NULL);
    }
}

TEST(what_is_not_wanted_is_not_emitted) {
    EsHubOptions options = es_hub_defaults();
    options.level = ES_LEVEL_MINIMAL;
    EsHub *hub = create_hub(&options);
    Probe *probe = create_probe();
    add_probe(hub, probe, "probe");
    EsStepTimedEvent timed = {.total_ms = 1};
    es_emit_step_timed(hub, (EsEventTime){.round = 1, .step = 10}, &timed, 1);
    emit_lossy(hub, 2);
    EsMetricEvent none = {0};
    es_emit_metric(hub, (EsEventTime){.round = 1}, &none, 0);
    es_hub_close(hub, NULL);
    EXPECT_EQ(probe->n_seen, 2);
    destroy_probe(probe);
}

TEST(escalation_lasts_five_ticks) {
    EsHubOptions options = es_hub_defaults();
    options.level = ES_LEVEL_MINIMAL;
    EsHub *hub = create_hub(&options);
    EXPECT_EQ(es_hub_wants(hub, ES_EVENT_ENV_STEPPED, 10), 0);
    es_hub_escalate(hub);
    for (int tick = 0; tick < 5; tick++) {
        EXPECT_EQ(es_hub_wants(hub, ES_EVENT_ENV_STEPPED, 13 + tick), 1);
        if (tick == 2) {
            es_hub_escalate(hub); // begins anew
            es_hub_tick(hub);
            es_hub_tick(hub);
            EXPECT_EQ(es_hub_wants(hub, ES_EVENT_ENV_STEPPED, 13), 1);
        }
        es_hub_tick(hub);
    }
    EXPECT_EQ(es_hub_wants(hub, ES_EVENT_ENV_STEPPED, 10), 0);
    es_hub_tick(hub);
    EXPECT_EQ(es_hub_wants(hub, ES_EVENT_ENV_STEPPED, 10), 0);
    es_hub_close(hub, NULL);

    options.level = ES_LEVEL_OFF;
    hub = create_hub(&options);
    es_hub_escalate(hub);
    EXPECT_EQ(es_hub_wants(hub, ES_EVENT_ENV_STEPPED, 10), 0);
    es_hub_close(hub, NULL);
}

// The clock of the packets; time() may lag it by a tick.
static int64_t unix_us_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

TEST(packets_carry_time_place_and_sequence) {
    EsHubOptions options = es_hub_defaults();
    EsHub *hub = create_hub(&options);
    Probe *probe = create_probe();
    add_probe(hub, probe, "probe");
    int64_t before_us = unix_us_now();
    for (int64_t i = 0; i < 100; i++) {
        emit_kept(hub, i);
    }
    EXPECT_EQ(es_hub_flush(hub, 60), 1);
    EXPECT_EQ(probe->n_seen, 100);
    EXPECT_EQ(probe->n_seen_at_flush, 100);
    int64_t after_us = unix_us_now();
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(probe->seen[i].sequence, i + 1);
        EXPECT_EQ(probe->seen[i].round, i);
        EXPECT_EQ(probe->seen[i].step, -1);
        EXPECT_EQ(probe->seen[i].type, ES_EVENT_ROUND_COMPLETED);
        EXPECT(probe->seen[i].unix_us >= before_us && probe->seen[i].unix_us <= after_us);
        EXPECT_EQ(probe->value[i], i);
    }
    EsHubHealth health;
    es_hub_close(hub, &health);
    EXPECT_EQ(health.n_sinks, 1);
    EXPECT_TEXT(health.sinks[0].name, "probe");
    EXPECT_EQ(health.sinks[0].n_written, 100);
    EXPECT_EQ(health.sinks[0].is_blocked, 0);
    EXPECT_EQ(es_hub_health_has_losses(&health), 0);
    EXPECT_EQ(probe->n_closed, 1);
    destroy_probe(probe);
}

// --- sinks in trouble ---

TEST(a_blocked_sink_harms_nobody) {
    EsHubOptions options = es_hub_defaults();
    options.queue_packets = 100;
    options.close_seconds = 0.2;
    EsHub *hub = create_hub(&options);
    Probe *blocked = create_probe(), *healthy = create_probe();
    block_probe(blocked);
    add_probe(hub, blocked, "blocked");
    add_probe(hub, healthy, "healthy");
    CaseLog log;
    begin_log(&log);
    int64_t start_ns = es_clock_ns();
    for (int i = 0; i < 10000; i += 50) {
        int n_lines = log.n_lines;
        emit_lossy(hub, 50);
        EXPECT_EQ(log.n_lines, n_lines); // a log line may wait for its reader, emitting may not
        wait_until(&healthy->n_seen, i + 50); // keeps its queue of 100 from filling
        es_hub_tick(hub);
    }
    EXPECT(es_clock_seconds_since(start_ns) < 60);
    EsHubHealth health;
    es_hub_health(hub, &health);
    // the packet it is at stays in the queue
    EXPECT_EQ(health.sinks[0].n_dropped, 9900);
    EXPECT_EQ(health.sinks[1].n_dropped, 0);
    EXPECT_EQ(health.n_dropped_by_type[ES_EVENT_METRIC], 9900);
    EXPECT_EQ(es_hub_health_has_losses(&health), 0);
    EXPECT_EQ(log.n_lines, 10); // at 50, 1050, ..., 9050 missed
    EXPECT_CONTAINS(log.first, "sink blocked misses a metric event: its queue is full");

    EXPECT_EQ(es_hub_flush(hub, 0.1), 0);
    start_ns = es_clock_ns();
    EXPECT_EQ(es_hub_flush(hub, 600), 0); // not waited for again
    EXPECT(es_clock_seconds_since(start_ns) < 60);
    es_hub_health(hub, &health);
    EXPECT_EQ(health.sinks[0].is_blocked, 1);
    EXPECT_EQ(health.sinks[1].is_blocked, 0);
    EXPECT_EQ(health.sinks[1].n_written, 10000);

    es_hub_close(hub, &health);
    EXPECT_EQ(log.n_lines, 11);
    end_log();
    EXPECT_EQ(health.sinks[0].is_blocked, 1);
    EXPECT_EQ(health.sinks[0].n_written, 0);
    EXPECT_EQ(health.sinks[0].n_lost, 100);
    EXPECT_EQ(health.sinks[1].n_written, 10000);
    EXPECT_EQ(health.n_dropped_by_type[ES_EVENT_METRIC], 10000);
    EXPECT_EQ(es_hub_health_has_losses(&health), 1);
    EXPECT_EQ(blocked->n_closed, 0);
    EXPECT_EQ(healthy->n_closed, 1);
    // the thread that was left behind ends by itself, without writing the rest
    unblock_probe(blocked);
    wait_until(&blocked->n_closed, 1);
    EXPECT_EQ(blocked->n_seen, 1);
    destroy_probe(blocked);
    destroy_probe(healthy);
}

TEST(a_sink_that_catches_up_is_waited_for_again) {
    EsHubOptions options = es_hub_defaults();
    EsHub *hub = create_hub(&options);
    Probe *probe = create_probe();
    block_probe(probe);
    add_probe(hub, probe, "probe");
    emit_lossy(hub, 3);
    EXPECT_EQ(es_hub_flush(hub, 0.05), 0);
    EXPECT_EQ(es_hub_flush(hub, 0.05), 0);
    unblock_probe(probe);
    wait_until(&probe->n_seen_at_flush, 3);
    emit_lossy(hub, 4);
    // its late answer may still be on the way, which counts as not caught up
    int is_flushed = 0;
    for (int i = 0; i < 1000 && !is_flushed; i++) {
        is_flushed = es_hub_flush(hub, 60);
        usleep(1000);
    }
    EXPECT_EQ(is_flushed, 1);
    EXPECT_EQ(probe->n_seen_at_flush, 7);
    EsHubHealth health;
    es_hub_health(hub, &health);
    EXPECT_EQ(health.sinks[0].is_blocked, 0);
    EXPECT_EQ(health.sinks[0].n_written, 7);
    es_hub_close(hub, &health);
    EXPECT_EQ(es_hub_health_has_losses(&health), 0);
    destroy_probe(probe);
}

TEST(a_failing_sink_is_counted_and_told_once) {
    EsHubOptions options = es_hub_defaults();
    EsHub *hub = create_hub(&options);
    Probe *failing = create_probe(), *healthy = create_probe();
    failing->write_fails = 1;
    add_probe(hub, failing, "failing");
    add_probe(hub, healthy, "healthy");
    CaseLog log;
    begin_log(&log);
    emit_lossy(hub, 10);
    emit_kept(hub, 1);
    EXPECT_EQ(es_hub_flush(hub, 60), 1);
    EsHubHealth health;
    es_hub_health(hub, &health);
    EXPECT_EQ(health.sinks[0].n_failures, 11);
    EXPECT_EQ(health.sinks[0].n_lost, 11);
    EXPECT_EQ(health.sinks[0].n_written, 0);
    EXPECT_TEXT(health.sinks[0].first_failure, "the disk is full");
    EXPECT_EQ(health.sinks[1].n_written, 11);
    EXPECT_TEXT(health.sinks[1].first_failure, "");
    EXPECT_EQ(health.n_dropped_by_type[ES_EVENT_METRIC], 10);
    EXPECT_EQ(health.n_dropped_by_type[ES_EVENT_ROUND_COMPLETED], 1);
    // a flush that fails loses what was written since the last
    failing->write_fails = 0;
    failing->flush_fails = 1;
    emit_lossy(hub, 5);
    EXPECT_EQ(es_hub_flush(hub, 60), 1);
    es_hub_health(hub, &health);
    EXPECT_EQ(health.sinks[0].n_lost, 16);
    EXPECT_EQ(health.n_dropped_by_type[ES_EVENT_METRIC], 15);
    // it works again
    failing->flush_fails = 0;
    emit_lossy(hub, 7);
    es_hub_close(hub, &health);
    EXPECT_EQ(health.sinks[0].n_written, 7);
    EXPECT_EQ(health.sinks[0].n_lost, 16);
    EXPECT_EQ(health.sinks[1].n_written, 23);
    EXPECT_EQ(es_hub_health_has_losses(&health), 1);
    EXPECT_EQ(log.n_lines, 1);
    EXPECT_CONTAINS(log.first, "sink failing cannot write: the disk is full");
    end_log();
    destroy_probe(failing);
    destroy_probe(healthy);
}

TEST(a_busy_sink_is_flushed_every_second) {
    EsHubOptions options = es_hub_defaults();
    EsHub *hub = create_hub(&options);
    Probe *probe = create_probe();
    probe->write_us = 20000;
    add_probe(hub, probe, "probe");
    emit_lossy(hub, 75); // a second and a half: the queue does not run empty before
    es_hub_close(hub, NULL);
    EXPECT_EQ(probe->n_seen, 75);
    EXPECT_EQ(probe->n_seen_at_flush, 75);
    EXPECT(probe->n_flushes >= 2);
    EXPECT(probe->n_seen_at_first_flush < 75);
    destroy_probe(probe);
}
