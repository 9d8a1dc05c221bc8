// A sink for tests of the hub that notes what it is given, and events to give it.
#ifndef ES_TESTS_HUB_PROBE_H
#define ES_TESTS_HUB_PROBE_H

#include <semaphore.h>

#include "hub_case.h"
#include "telemetry/hub.h"

enum { MAX_SEEN = 20000 };

// A sink that notes what it is given and can be made to block, fail or be slow. Its memory is the
// test's and outlives it.
typedef struct Probe {
    _Atomic int is_blocking; // write waits for `gate`
    sem_t gate;              // one post lets one write through
    _Atomic int write_fails, flush_fails;
    _Atomic int write_us; // time a write takes
    _Atomic int n_seen, n_flushes, n_closed;
    _Atomic int n_seen_at_flush; // packets before the last flush
    _Atomic int n_seen_at_first_flush;
    EsPacketHeader seen[MAX_SEEN];
    int64_t value[MAX_SEEN]; // the first cell when it is an integer
} Probe;

static inline EsStatus probe_write(void *state, const EsPacket *packet) {
    Probe *probe = state;
    if (probe->is_blocking) {
        sem_wait(&probe->gate);
    }
    if (probe->write_us > 0) {
        usleep((useconds_t)probe->write_us);
    }
    if (probe->write_fails) {
        return ES_FAIL(IO, "the disk is full");
    }
    int i = probe->n_seen;
    if (i < MAX_SEEN) {
        probe->seen[i] = *packet->header;
        probe->value[i] = packet->schema->columns[0].type == ES_COLUMN_INT
                              ? es_packet_int(packet, packet->n_rows - 1, 0)
                              : -1;
    }
    probe->n_seen++;
    return ES_STATUS_OK;
}

static inline EsStatus probe_flush(void *state) {
    Probe *probe = state;
    if (probe->flush_fails) {
        return ES_FAIL(IO, "cannot sync");
    }
    if (probe->n_flushes++ == 0) {
        probe->n_seen_at_first_flush = probe->n_seen;
    }
    probe->n_seen_at_flush = probe->n_seen;
    return ES_STATUS_OK;
}

static inline void probe_close(void *state) { ((Probe *)state)->n_closed++; }

static inline Probe *create_probe(void) {
    Probe *probe = calloc(1, sizeof *probe);
    sem_init(&probe->gate, 0, 0);
    return probe;
}

static inline void destroy_probe(Probe *probe) {
    sem_destroy(&probe->gate);
    free(probe);
}

static inline void add_probe(EsHub *hub, Probe *probe, const char *name) {
    EsSink sink = {name, probe, probe_write, probe_flush, probe_close};
    REQUIRE_OK(es_hub_add_sink(hub, &sink));
}

static inline void block_probe(Probe *probe) { probe->is_blocking = 1; }

static inline void unblock_probe(Probe *probe) {
    probe->is_blocking = 0;
    sem_post(&probe->gate); // at most one write waits
}

// Wait, for a minute at most, until *count has reached n.
static inline void wait_until(const _Atomic int *count, int n) {
    for (int i = 0; i < 60000 && *count < n; i++) {
        usleep(1000);
    }
    if (*count < n) {
        ES_TEST_FAIL("waited a minute: count is %d, expected %d", *count, n);
        exit(1);
    }
}

static inline EsHub *create_hub(const EsHubOptions *options) {
    EsHub *hub = NULL;
    REQUIRE_OK(es_hub_create(options, &hub));
    return hub;
}

// A kept event that carries a number: n_episodes.
static inline void emit_kept(EsHub *hub, int64_t value) {
    EsRoundCompletedEvent row = {.n_episodes = value};
    es_emit_round_completed(hub, (EsEventTime){.round = value, .step = -1}, &row, 1);
}

static inline void emit_lossy(EsHub *hub, int64_t n) {
    EsMetricEvent row = es_metric("charts/SPS", 1);
    for (int64_t i = 0; i < n; i++) {
        es_emit_metric(hub, (EsEventTime){.round = 1, .step = i}, &row, 1);
    }
}

#endif
