#include "network/snapshot.h"

#include "base/arena.h"

#define MAX_SLABS 4

struct EsSnapshot {
    EsDevice *device; // borrowed
    int n_slabs;
    const EsTensor *live[MAX_SLABS]; // borrowed
    EsTensor copy[MAX_SLABS];        // owned memory, same shapes
};

EsStatus es_snapshot_create(EsStore *store, EsOptimiser *optimiser, EsSnapshot **snapshot_out) {
    *snapshot_out = NULL;
    EsSnapshot *snapshot = NULL;
    ES_TRY(es_allocate(sizeof *snapshot, (void **)&snapshot));
    snapshot->device = store->device;
    const EsTensor *const slabs[MAX_SLABS] = {&store->parameters, &store->states,
                                              optimiser != NULL ? &optimiser->moment1 : NULL,
                                              optimiser != NULL ? &optimiser->moment2 : NULL};
    for (int i = 0; i < MAX_SLABS; i++) {
        if (slabs[i] == NULL || slabs[i]->data == NULL || slabs[i]->dim[1] == 0) {
            continue;
        }
        int n = snapshot->n_slabs;
        snapshot->live[n] = slabs[i];
        snapshot->copy[n] = es_tensor_view(NULL, ES_DTYPE_F32, store->device, 2, slabs[i]->dim);
        EsStatus status = es_device_allocate(store->device, es_tensor_bytes(&snapshot->copy[n]),
                                             &snapshot->copy[n].data);
        if (status != ES_STATUS_OK) {
            es_snapshot_destroy(snapshot);
            return status;
        }
        snapshot->n_slabs++;
    }
    *snapshot_out = snapshot;
    return ES_STATUS_OK;
}

void es_snapshot_destroy(EsSnapshot *snapshot) {
    for (int i = 0; snapshot != NULL && i < snapshot->n_slabs; i++) {
        es_device_release(snapshot->device, snapshot->copy[i].data);
    }
    es_release(snapshot);
}

void es_snapshot_take(EsSnapshot *snapshot, EsStream *stream, const EsTensor *mask) {
    for (int i = 0; i < snapshot->n_slabs; i++) {
        es_kernels_of(snapshot->device)
            ->masked_copy(stream, mask, snapshot->live[i], &snapshot->copy[i]);
    }
}

void es_snapshot_restore(EsSnapshot *snapshot, EsStream *stream, const EsTensor *mask) {
    for (int i = 0; i < snapshot->n_slabs; i++) {
        es_kernels_of(snapshot->device)
            ->masked_copy(stream, mask, &snapshot->copy[i], snapshot->live[i]);
    }
}
