// A spill file: packets that found a sink's queue full, in order, until the sink catches up.
//
// Producers append, from any thread, one at a time; one consumer takes. A packet can be read as
// soon as it is appended, and the consumer never holds the lock while it reads or works on a
// packet. The file is emptied when all of it was taken, and removed at close when it is empty.
#ifndef ES_TELEMETRY_SPILL_H
#define ES_TELEMETRY_SPILL_H

#include "telemetry/event.h"

typedef struct EsSpill EsSpill;

// Open <folder>/spill-<name>.bin, at most `max_bytes` large. One that an earlier session left
// undelivered is kept as spill-<name>-<n>.bin, with a warning in the log.
EsStatus es_spill_open(const char *folder, const char *name, size_t max_bytes, EsSpill **spill);

// Remove the file, or leave it when something in it was not taken. Accepts NULL.
void es_spill_close(EsSpill *spill);

// Add a packet, encoded as es_packet_encode does. Allocates nothing. Returns 0; else a number as in
// errno: EFBIG when it would exceed the cap, or the system's. The file is then as before.
int es_spill_append(EsSpill *spill, EsEventType type, const void *rows, int64_t n_rows,
                    const EsPacketHeader *header);

// Packets ever appended, and ever taken (released or discarded); from any thread.
int64_t es_spill_n_appended(const EsSpill *spill);
int64_t es_spill_n_taken(const EsSpill *spill);

// Packets appended and not taken; exact without concurrent appends and takes.
int64_t es_spill_n_pending(const EsSpill *spill);
const char *es_spill_path(const EsSpill *spill);

// The consumer: the oldest packet, checked, valid until release. Only when one is pending. On a
// failure the file can no longer be read; the consumer can only discard it.
EsStatus es_spill_peek(EsSpill *spill, EsPacket *packet);
void es_spill_release(EsSpill *spill);

// Give up all that is pending and empty the file; *n_by_type counts the losses by type.
void es_spill_discard(EsSpill *spill, int64_t n_by_type[ES_EVENT_COUNT]);

#endif
