// A bounded queue of packets in one ring of bytes: any number of producers, one consumer, no locks.
//
// A producer reserves room, writes its packet in place and publishes it; the consumer sees packets
// in the order of their reservation. A full queue refuses at once. A producer that has reserved
// must publish soon: the consumer cannot pass its packet.
//
//     void *room = es_packet_queue_reserve(queue, bytes);
//     if (room != NULL) { es_packet_encode(..., room); es_packet_queue_publish(room, bytes); }
#ifndef ES_TELEMETRY_PACKET_QUEUE_H
#define ES_TELEMETRY_PACKET_QUEUE_H

#include <stddef.h>

#include "base/macros.h"
#include "esper/status.h"

typedef struct EsPacketQueue EsPacketQueue;

// `ring_bytes` is a power of two, at least 64. A packet may take up to half of it, less 8 bytes:
// such a one always finds room once the queue is empty.
EsStatus es_packet_queue_create(size_t ring_bytes, int64_t max_packets, EsPacketQueue **queue);
void es_packet_queue_destroy(EsPacketQueue *queue);

// --- producers, from any thread ---

// Room for `bytes` (a multiple of 8, at least 8), 8-byte aligned; NULL when the ring or the count
// of packets is full, or the packet is too large for the ring. Near the limit a reservation may be
// refused because of another that is being refused at the same moment.
void *es_packet_queue_reserve(EsPacketQueue *queue, size_t bytes);

// Hand the packet to the consumer; `bytes` as reserved.
void es_packet_queue_publish(void *room, size_t bytes);

// --- the consumer, one thread ---

// The oldest packet, or NULL when there is none, or its producer has not published it yet. It stays
// valid, and the oldest, until it is released.
const void *es_packet_queue_peek(EsPacketQueue *queue, size_t *bytes);
void es_packet_queue_release(EsPacketQueue *queue);

// --- positions, from any thread ---

// Bytes ever reserved and ever released. A packet whose reservation happened before a call of head
// is released once tail has reached the value of that call.
uint64_t es_packet_queue_head(const EsPacketQueue *queue);
uint64_t es_packet_queue_tail(const EsPacketQueue *queue);

#endif
