// Masked copies between live slabs and their second slabs.
#include "network/snapshot.h"

#include "base/memory.h"

#define MAX_SLABS 5

struct EsSnapshot {
    EsDevice *device;         // borrowed
    EsTensor live[MAX_SLABS]; // borrowed memory
    EsTensor copy[MAX_SLABS]; // owned memory, same shapes
};

EsStatus es_snapshot_create(EsStore *store, EsOptimiser *optimiser, EsSnapshot **snapshot_out) {
    *snapshot_out = NULL;
    EsSnapshot *snapshot = NULL;
    ES_TRY(es_allocate(sizeof *snapshot, (void **)&snapshot));
    snapshot->device = store->device;
    snapshot->live[0] = store->parameters;
    snapshot->live[1] = store->states;
    if (optimiser != NULL) {
        snapshot->live[2] = optimiser->moment1;
        snapshot->live[3] = optimiser->moment2;
        // counts i32 [E] are copied as bits
        snapshot->live[4] = es_tensor_view(optimiser->n_steps.data, ES_DTYPE_F32, store->device, 2,
                                           (int64_t[]){store->parameters.dim[0], 1});
    }
    for (int i = 0; i < MAX_SLABS; i++) {
        const EsTensor *live = &snapshot->live[i];
        if (live->data != NULL && live->dim[1] > 0) {
            EsStatus status = es_device_create_tensor(store->device, ES_DTYPE_F32, 2, live->dim,
                                                      &snapshot->copy[i]);
            if (status != ES_STATUS_OK) {
                es_snapshot_destroy(snapshot);
                return status;
            }
        }
    }
    *snapshot_out = snapshot;
    return ES_STATUS_OK;
}

void es_snapshot_destroy(EsSnapshot *snapshot) {
    for (int i = 0; snapshot != NULL && i < MAX_SLABS; i++) {
        es_device_destroy_tensor(&snapshot->copy[i]);
    }
    es_release(snapshot);
}

void es_snapshot_take(EsSnapshot *snapshot, EsStream *stream, const EsTensor *mask) {
    for (int i = 0; i < MAX_SLABS; i++) {
        if (snapshot->copy[i].data != NULL) {
            es_kernels_of(snapshot->device)
                ->masked_copy(stream, mask, &snapshot->live[i], &snapshot->copy[i]);
        }
    }
}

void es_snapshot_restore(EsSnapshot *snapshot, EsStream *stream, const EsTensor *mask) {
    for (int i = 0; i < MAX_SLABS; i++) {
        if (snapshot->copy[i].data != NULL) {
            es_kernels_of(snapshot->device)
                ->masked_copy(stream, mask, &snapshot->copy[i], &snapshot->live[i]);
        }
    }
}
