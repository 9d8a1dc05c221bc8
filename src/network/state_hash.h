// One number for the bits of everything that a run holds: two runs that agree on it after every
// round have computed the same.
//
//     EsStateHash *hash; ES_TRY(es_state_hash_create(device, E, &hash));
//     es_state_hash_begin(hash);
//     ES_TRY(es_state_hash_append(hash, stream, &store->parameters));
//     es_state_hash_append_bytes(hash, &counters, sizeof counters);
//     uint64_t number = es_state_hash_value(hash);
//
// Slabs stay where they are: a kernel hashes their rows, and a number for each comes back. The hash
// depends on the order of appending and not on the device.
#ifndef ES_NETWORK_STATE_HASH_H
#define ES_NETWORK_STATE_HASH_H

#include "kernels/kernels.h"

ES_EXTERN_C_BEGIN

typedef struct EsStateHash EsStateHash;

// For slabs of up to max_rows rows; the device is borrowed.
EsStatus es_state_hash_create(EsDevice *device, int64_t max_rows, EsStateHash **hash);
void es_state_hash_destroy(EsStateHash *hash);

void es_state_hash_begin(EsStateHash *hash);

// slab f32 [rows, P], in memory of the kind that the device has; waits for the stream, which is of
// such a device.
EsStatus es_state_hash_append(EsStateHash *hash, EsStream *stream, const EsTensor *slab);

// The two halves of es_state_hash_append, for slabs whose rows are in several processes: a number
// for each row, into rows [rows of the slab], and joining such numbers in order.
EsStatus es_state_hash_rows(EsStateHash *hash, EsStream *stream, const EsTensor *slab,
                            uint64_t *rows);
void es_state_hash_join(EsStateHash *hash, const uint64_t *rows, int64_t n_rows);

// Host memory. The last word is filled up with zeros.
void es_state_hash_append_bytes(EsStateHash *hash, const void *data, size_t bytes);

uint64_t es_state_hash_value(const EsStateHash *hash);

ES_EXTERN_C_END

#endif
