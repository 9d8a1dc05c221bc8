// The ring holds records of 8-byte words: a header, then the packet. `head` and `tail` are byte
// positions that only grow; position modulo the ring's size is the place in it. A record never
// wraps: when it would, the producer reserves the rest of the ring with it and marks that rest as
// padding.
//
// Memory ordering. Two chains make every access to ring memory ordered:
//   - consumer to producer: the consumer clears the words of a record, then stores `tail` with
//     release. A producer loads `tail` with acquire before it reserves, and reserves only words
//     that this tail has freed; so its writes come after the clearing.
//   - producer to consumer: the producer writes the packet, then stores the header with
//     release. The consumer loads the header with acquire; it then reads the packet.
// Because released words are zero, the header of a reserved, unpublished record reads as 0
// wherever it lies, also where the middle of an older packet was. The consumer looks at one word
// alone, the one at `tail`, which is always the start of a record.
// `head` itself carries no data: its compare-and-swap may be relaxed. `n_packets` only limits.
#include "telemetry/packet_queue.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"

#define WORD_BYTES     sizeof(uint64_t)
#define MIN_RING_BYTES 64

// times that a reservation retries because the consumer moved on between two loads, which makes a
// ring look full that may not be; beyond that it counts as full
#define MAX_LOOKS 8

// the header: a record's bytes (a multiple of 8), this word included, and a flag in bit 0
#define HEADER_UNPUBLISHED 0u
#define HEADER_PADDING     1u

typedef _Atomic uint64_t RecordHeader;

struct EsPacketQueue {
    unsigned char *ring; // owned
    uint64_t ring_bytes;
    int64_t max_packets;

    // a cache line each: producers contend for the first, the consumer owns the second
    _Alignas(ES_ALIGNMENT) _Atomic uint64_t head;
    _Atomic int64_t n_packets; // reserved and not released; briefly also those about to be refused
    _Alignas(ES_ALIGNMENT) _Atomic uint64_t tail;
    uint64_t peeked_bytes; // of the record at tail; 0 when it was not peeked
};

static RecordHeader *header_at(const EsPacketQueue *queue, uint64_t position) {
    return (RecordHeader *)(void *)(queue->ring + (position & (queue->ring_bytes - 1)));
}

EsStatus es_packet_queue_create(size_t ring_bytes, int64_t max_packets, EsPacketQueue **queue_out) {
    *queue_out = NULL;
    if (ring_bytes < MIN_RING_BYTES || (ring_bytes & (ring_bytes - 1)) != 0) {
        return ES_FAIL(ARGUMENT, "a queue of %zu bytes: expected a power of two, at least %d",
                       ring_bytes, MIN_RING_BYTES);
    }
    if (max_packets < 1) {
        return ES_FAIL(ARGUMENT, "a queue of %lld packets: expected at least 1",
                       (long long)max_packets);
    }
    EsPacketQueue *queue = NULL;
    ES_TRY(es_allocate(sizeof *queue, (void **)&queue));
    EsStatus status = es_allocate(ring_bytes, (void **)&queue->ring);
    if (status != ES_STATUS_OK) {
        es_release(queue);
        return status;
    }
    queue->ring_bytes = ring_bytes;
    queue->max_packets = max_packets;
    *queue_out = queue;
    return ES_STATUS_OK;
}

void es_packet_queue_destroy(EsPacketQueue *queue) {
    if (queue != NULL) {
        es_release(queue->ring);
        es_release(queue);
    }
}

// Move `head` over a record, and over the rest of the ring when the record does not fit there.
// Returns 0 when there is no room; else *start is where both begin, *padding_bytes that rest.
static int advance_head(EsPacketQueue *queue, uint64_t record_bytes, uint64_t *start,
                        uint64_t *padding_bytes) {
    for (int n_looks = 0;;) {
        // tail first: the head loaded after it is never behind it
        uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
        uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
        uint64_t to_end = queue->ring_bytes - (head & (queue->ring_bytes - 1));
        uint64_t padding = record_bytes > to_end ? to_end : 0;
        if (head - tail + padding + record_bytes > queue->ring_bytes) {
            n_looks++;
            if (n_looks == MAX_LOOKS ||
                atomic_load_explicit(&queue->tail, memory_order_relaxed) == tail) {
                return 0;
            }
            continue;
        }
        // a failure means that another producer went ahead, so this loop as a whole makes progress
        if (atomic_compare_exchange_weak_explicit(&queue->head, &head,
                                                  head + padding + record_bytes,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            *start = head;
            *padding_bytes = padding;
            return 1;
        }
    }
}

void *es_packet_queue_reserve(EsPacketQueue *queue, size_t bytes) {
    ES_ASSERT(bytes >= WORD_BYTES && bytes % WORD_BYTES == 0);
    uint64_t record_bytes = bytes + WORD_BYTES;
    if (record_bytes > queue->ring_bytes / 2) {
        return NULL;
    }
    uint64_t start = 0, padding = 0;
    if (atomic_fetch_add_explicit(&queue->n_packets, 1, memory_order_relaxed) >=
            queue->max_packets ||
        !advance_head(queue, record_bytes, &start, &padding)) {
        atomic_fetch_sub_explicit(&queue->n_packets, 1, memory_order_relaxed);
        return NULL;
    }
    if (padding > 0) {
        atomic_store_explicit(header_at(queue, start), padding | HEADER_PADDING,
                              memory_order_release);
    }
    return header_at(queue, start + padding) + 1;
}

void es_packet_queue_publish(void *room, size_t bytes) {
    RecordHeader *header = (RecordHeader *)room - 1;
    atomic_store_explicit(header, bytes + WORD_BYTES, memory_order_release);
}

static void clear_record(EsPacketQueue *queue, uint64_t tail, uint64_t record_bytes) {
    memset((void *)header_at(queue, tail), 0, record_bytes);
    atomic_store_explicit(&queue->tail, tail + record_bytes, memory_order_release);
}

const void *es_packet_queue_peek(EsPacketQueue *queue, size_t *bytes) {
    for (;;) {
        uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
        RecordHeader *word = header_at(queue, tail);
        uint64_t header = atomic_load_explicit(word, memory_order_acquire);
        if (header == HEADER_UNPUBLISHED) {
            return NULL;
        }
        if ((header & HEADER_PADDING) == 0) {
            queue->peeked_bytes = header;
            *bytes = (size_t)(header - WORD_BYTES);
            return word + 1;
        }
        clear_record(queue, tail, header & ~(uint64_t)HEADER_PADDING);
    }
}

void es_packet_queue_release(EsPacketQueue *queue) {
    ES_ASSERT(queue->peeked_bytes > 0);
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    clear_record(queue, tail, queue->peeked_bytes);
    queue->peeked_bytes = 0;
    atomic_fetch_sub_explicit(&queue->n_packets, 1, memory_order_relaxed);
}

uint64_t es_packet_queue_head(const EsPacketQueue *queue) {
    return atomic_load_explicit(&queue->head, memory_order_relaxed);
}

uint64_t es_packet_queue_tail(const EsPacketQueue *queue) {
    return atomic_load_explicit(&queue->tail, memory_order_acquire);
}
