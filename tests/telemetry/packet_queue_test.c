#include "telemetry/packet_queue.h"

#include <pthread.h>
#include <sched.h>

#include "es_test.h"

static EsPacketQueue *create_queue(size_t ring_bytes, int64_t max_packets) {
    EsPacketQueue *queue = NULL;
    REQUIRE_OK(es_packet_queue_create(ring_bytes, max_packets, &queue));
    return queue;
}

static int is_zero(const uint64_t *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (words[i] != 0) {
            return 0;
        }
    }
    return 1;
}

// Queue n_words of `value`; 0 when refused. Room must come cleared, wherever it lies.
static int push(EsPacketQueue *queue, size_t n_words, uint64_t value) {
    uint64_t *room = es_packet_queue_reserve(queue, n_words * 8);
    if (room == NULL) {
        return 0;
    }
    EXPECT(is_zero(room, n_words));
    for (size_t i = 0; i < n_words; i++) {
        room[i] = value;
    }
    es_packet_queue_publish(room, n_words * 8);
    return 1;
}

static void expect_pop(EsPacketQueue *queue, size_t n_words, uint64_t value) {
    size_t bytes = 0;
    const uint64_t *packet = es_packet_queue_peek(queue, &bytes);
    EXPECT(packet != NULL);
    if (packet == NULL) {
        return;
    }
    EXPECT_EQ(bytes, n_words * 8);
    for (size_t i = 0; i < ES_MIN(n_words, bytes / 8); i++) {
        EXPECT_EQ(packet[i], value);
    }
    es_packet_queue_release(queue);
}

static int is_empty(EsPacketQueue *queue) {
    size_t bytes = 0;
    return es_packet_queue_peek(queue, &bytes) == NULL;
}

TEST(bad_sizes_are_refused) {
    EsPacketQueue *queue = NULL;
    EXPECT_STATUS(es_packet_queue_create(32, 1, &queue), ARGUMENT);
    EXPECT_STATUS(es_packet_queue_create(96, 1, &queue), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "96 bytes");
    EXPECT_STATUS(es_packet_queue_create(64, 0, &queue), ARGUMENT);
    EXPECT(queue == NULL);
    es_packet_queue_destroy(NULL);
}

TEST(packets_come_out_in_order) {
    EsPacketQueue *queue = create_queue(256, 10);
    EXPECT(is_empty(queue));
    EXPECT(push(queue, 1, 11));
    EXPECT(push(queue, 3, 12));
    EXPECT(push(queue, 2, 13));
    uint64_t mark = es_packet_queue_head(queue);
    expect_pop(queue, 1, 11);
    expect_pop(queue, 3, 12);
    EXPECT(es_packet_queue_tail(queue) < mark);
    expect_pop(queue, 2, 13);
    EXPECT_EQ(es_packet_queue_tail(queue), mark);
    EXPECT(is_empty(queue));
    es_packet_queue_destroy(queue);
}

TEST(a_full_queue_refuses_at_once) {
    // by count
    EsPacketQueue *queue = create_queue(4096, 3);
    EXPECT(push(queue, 1, 1) && push(queue, 1, 2) && push(queue, 1, 3));
    EXPECT(!push(queue, 1, 4));
    expect_pop(queue, 1, 1);
    EXPECT(push(queue, 1, 5));
    EXPECT(!push(queue, 1, 6));
    es_packet_queue_destroy(queue);
    // by bytes: four records of 16 bytes fill 64
    queue = create_queue(64, 100);
    for (uint64_t i = 0; i < 4; i++) {
        EXPECT(push(queue, 1, i));
    }
    EXPECT(!push(queue, 1, 4));
    expect_pop(queue, 1, 0);
    EXPECT(!push(queue, 2, 5)); // 24 bytes where 16 are free
    EXPECT(push(queue, 1, 6));
    // a refused one leaves nothing behind: what follows is as before
    for (uint64_t i = 1; i < 4; i++) {
        expect_pop(queue, 1, i);
    }
    expect_pop(queue, 1, 6);
    EXPECT(is_empty(queue));
    es_packet_queue_destroy(queue);
}

TEST(half_a_ring_fits_at_every_offset) {
    for (size_t offset_words = 0; offset_words < 64; offset_words += 2) {
        EsPacketQueue *queue = create_queue(256, 100);
        for (size_t i = 0; i < offset_words; i += 2) {
            EXPECT(push(queue, 1, i));
            expect_pop(queue, 1, i);
        }
        EXPECT(!push(queue, 16, 7)); // 136 bytes with its state word, over half of 256
        EXPECT(push(queue, 15, 8));
        expect_pop(queue, 15, 8);
        EXPECT(is_empty(queue));
        es_packet_queue_destroy(queue);
    }
}

TEST(an_unpublished_packet_holds_back_later_ones) {
    EsPacketQueue *queue = create_queue(256, 10);
    uint64_t *first = es_packet_queue_reserve(queue, 16);
    EXPECT(push(queue, 2, 22));
    EXPECT(is_empty(queue));
    first[0] = first[1] = 21;
    es_packet_queue_publish(first, 16);
    expect_pop(queue, 2, 21);
    expect_pop(queue, 2, 22);
    es_packet_queue_destroy(queue);
}

// Thousands of laps with sizes that make every wrap different, against a plain list.
TEST(small_rings_wrap_without_a_trace) {
    for (size_t ring_bytes = 64; ring_bytes <= 1024; ring_bytes *= 2) {
        EsPacketQueue *queue = create_queue(ring_bytes, 1000000);
        size_t sizes[200];
        uint64_t n_pushed = 0, n_popped = 0, random = ring_bytes;
        int n_refused = 0;
        while (n_popped < 20000) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t n_words = 1 + (size_t)(random >> 33) % (ring_bytes / 16 - 1);
            if ((random >> 60) < 9) {
                if (push(queue, n_words, n_pushed)) {
                    sizes[n_pushed++ % 200] = n_words;
                } else {
                    n_refused++;
                }
            } else if (n_popped < n_pushed) {
                expect_pop(queue, sizes[n_popped % 200], n_popped);
                n_popped++;
            } else {
                EXPECT(is_empty(queue));
            }
        }
        EXPECT(n_refused > 100); // it was full again and again
        es_packet_queue_destroy(queue);
    }
}

enum { N_PRODUCERS = 4 };

typedef struct Producer {
    EsPacketQueue *queue;
    uint64_t index, n_packets, max_words;
} Producer;

// Packet i of a producer: its size and words follow from (producer, i) alone.
static size_t packet_words(uint64_t producer, uint64_t i, uint64_t max_words) {
    return 2 + (size_t)((i * 2654435761u + producer * 40503u) % (max_words - 1));
}

static void *produce(void *argument) {
    Producer *producer = argument;
    for (uint64_t i = 0; i < producer->n_packets; i++) {
        size_t n_words = packet_words(producer->index, i, producer->max_words);
        uint64_t *room = NULL;
        while ((room = es_packet_queue_reserve(producer->queue, n_words * 8)) == NULL) {
            sched_yield();
        }
        room[0] = producer->index;
        for (size_t k = 1; k < n_words; k++) {
            room[k] = i + k - 1;
        }
        es_packet_queue_publish(room, n_words * 8);
    }
    return NULL;
}

// Check one packet against what its producer must send next; 0 when it is wrong.
static int is_expected(const uint64_t *packet, size_t bytes, uint64_t *next, uint64_t max_words) {
    if (packet[0] >= N_PRODUCERS) {
        return 0;
    }
    uint64_t i = next[packet[0]]++;
    size_t n_words = packet_words(packet[0], i, max_words);
    if (bytes != n_words * 8) {
        return 0;
    }
    for (size_t k = 1; k < n_words; k++) {
        if (packet[k] != i + k - 1) {
            return 0;
        }
    }
    return 1;
}

static void run_producers(size_t ring_bytes, int64_t max_packets, uint64_t n_each,
                          uint64_t max_words) {
    EsPacketQueue *queue = create_queue(ring_bytes, max_packets);
    Producer producers[N_PRODUCERS];
    pthread_t threads[N_PRODUCERS];
    for (uint64_t p = 0; p < N_PRODUCERS; p++) {
        producers[p] = (Producer){queue, p, n_each, max_words};
        EXPECT_EQ(pthread_create(&threads[p], NULL, produce, &producers[p]), 0);
    }
    uint64_t next[N_PRODUCERS] = {0}, n_wrong = 0;
    for (uint64_t n_seen = 0; n_seen < N_PRODUCERS * n_each;) {
        size_t bytes = 0;
        const uint64_t *packet = es_packet_queue_peek(queue, &bytes);
        if (packet == NULL) {
            sched_yield();
            continue;
        }
        n_wrong += !is_expected(packet, bytes, next, max_words);
        es_packet_queue_release(queue);
        n_seen++;
    }
    for (int p = 0; p < N_PRODUCERS; p++) {
        pthread_join(threads[p], NULL);
        EXPECT_EQ(next[p], n_each);
    }
    EXPECT_EQ(n_wrong, 0);
    EXPECT(is_empty(queue));
    EXPECT_EQ(es_packet_queue_head(queue), es_packet_queue_tail(queue));
    es_packet_queue_destroy(queue);
}

TEST(four_producers_keep_order_and_content) { run_producers(1 << 16, 1000, 100000, 40); }
TEST(four_producers_on_a_tiny_ring) { run_producers(256, 1000, 20000, 15); }
TEST(four_producers_on_two_packets) { run_producers(1 << 12, 2, 20000, 15); }
