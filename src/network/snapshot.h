// Snapshots: a copy of chosen environments' parameters, states and momentum on their device, to go
// back to.
//
// Taking and restoring are queued kernels over all environments with a mask in device memory, so a
// captured step may contain them. Restoring is bit for bit exact.
#ifndef ES_NETWORK_SNAPSHOT_H
#define ES_NETWORK_SNAPSHOT_H

#include "network/slab_optimiser.h"

ES_EXTERN_C_BEGIN

typedef struct EsSnapshot EsSnapshot;

// Room for a copy of the store and, when given, of the optimiser's moments; both are borrowed. Its
// first content is undefined until es_snapshot_take has covered an environment.
EsStatus es_snapshot_create(EsStore *store, EsOptimiser *optimiser, EsSnapshot **snapshot);
void es_snapshot_destroy(EsSnapshot *snapshot);

// mask u8 [E] on the store's device: copy these environments in, or back.
void es_snapshot_take(EsSnapshot *snapshot, EsStream *stream, const EsTensor *mask);
void es_snapshot_restore(EsSnapshot *snapshot, EsStream *stream, const EsTensor *mask);

ES_EXTERN_C_END

#endif
