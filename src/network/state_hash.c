// Hashes slabs row by row on their device and joins the rows in order.
#include "network/state_hash.h"

#include <string.h>

#include "base/memory.h"
#include "kernels/ops/hash_rules.h"

struct EsStateHash {
    uint64_t value;
    EsTensor rows;    // owned i64 [max_rows], on the device
    uint64_t *copied; // owned, pinned [max_rows]
};

EsStatus es_state_hash_create(EsDevice *device, int64_t max_rows, EsStateHash **hash_out) {
    EsStateHash *hash = NULL;
    EsStatus status = ES_STATUS_OK;
    *hash_out = NULL;
    ES_TRY(es_allocate(sizeof *hash, (void **)&hash));
    ES_TRY_GOTO(es_device_create_tensor(device, ES_DTYPE_I64, 1, &max_rows, &hash->rows));
    ES_TRY_GOTO(es_device_allocate_host(device, sizeof *hash->copied * (size_t)max_rows,
                                        (void **)&hash->copied));
    *hash_out = hash;
done:
    if (status != ES_STATUS_OK) {
        es_state_hash_destroy(hash);
    }
    return status;
}

void es_state_hash_destroy(EsStateHash *hash) {
    if (hash == NULL) {
        return;
    }
    if (hash->copied != NULL) {
        es_device_release_host(hash->rows.device, hash->copied);
    }
    es_device_destroy_tensor(&hash->rows);
    es_release(hash);
}

void es_state_hash_begin(EsStateHash *hash) { hash->value = 0; }

EsStatus es_state_hash_rows(EsStateHash *hash, EsStream *stream, const EsTensor *slab,
                            uint64_t *rows) {
    int64_t n_rows = slab->dim[0];
    EsDevice *device = es_stream_device(stream);
    ES_ASSERT(slab->rank == 2 && slab->dtype == ES_DTYPE_F32 && n_rows <= hash->rows.dim[0]);
    if (slab->dim[1] == 0 || n_rows == 0) {
        return ES_STATUS_OK;
    }
    es_kernels_of(device)->slab_hash(stream, slab, &hash->rows);
    ES_TRY(es_stream_copy(stream, hash->copied, hash->rows.data,
                          sizeof *hash->copied * (size_t)n_rows, ES_COPY_TO_HOST));
    ES_TRY(es_stream_synchronize(stream));
    ES_TRY(es_device_status(device));
    memmove(rows, hash->copied, sizeof *rows * (size_t)n_rows);
    return ES_STATUS_OK;
}

void es_state_hash_join(EsStateHash *hash, const uint64_t *rows, int64_t n_rows) {
    for (int64_t i = 0; i < n_rows; i++) {
        hash->value = es_hash_join(hash->value, rows[i]);
    }
}

EsStatus es_state_hash_append(EsStateHash *hash, EsStream *stream, const EsTensor *slab) {
    ES_TRY(es_state_hash_rows(hash, stream, slab, hash->copied));
    es_state_hash_join(hash, hash->copied, slab->dim[1] > 0 ? slab->dim[0] : 0);
    return ES_STATUS_OK;
}

void es_state_hash_append_bytes(EsStateHash *hash, const void *data, size_t bytes) {
    const unsigned char *next = data;
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i += sizeof(uint32_t)) {
        uint32_t word = 0;
        memcpy(&word, next + i, ES_MIN(sizeof word, bytes - i));
        sum += es_hash_word(i / sizeof word, word);
    }
    hash->value = es_hash_join(hash->value, sum);
}

uint64_t es_state_hash_value(const EsStateHash *hash) { return hash->value; }
