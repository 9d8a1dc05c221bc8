// Gathers between ranks that each have a GPU, from device memory to device memory, over NCCL.
//
// The same as es_ranks_gather: row i of n belongs to the rank whose share has it, and everybody
// gets all rows. Nothing is summed on the way, so the bits are those of one process: the
// rows of a gradient are summed afterwards, in the tree of the eight shards. One rank goes through
// NCCL as well, so that a machine with one GPU can try it.
//
//     EsDeviceRanks *nccl; ES_TRY(es_device_ranks_open(ranks, device, &nccl));
//     ES_TRY(es_device_ranks_gather(nccl, stream, "gradients", ES_POLICY_SHARDS, &column));
//     ES_TRY(es_device_ranks_wait(nccl, stream, "gradients"));
//     es_device_ranks_close(nccl);
//
// The library is looked for when the first is opened: ES_NCCL_LIBRARY names it, else libnccl.so.2
// of the system. A build without the headers of NCCL, or for no GPU, has the functions, and open is
// UNSUPPORTED. Growth and proofs on GPUs do not run over several ranks yet.
#ifndef ES_DISTRIBUTED_DEVICE_RANKS_H
#define ES_DISTRIBUTED_DEVICE_RANKS_H

#include "distributed/ranks.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

typedef struct EsDeviceRanks EsDeviceRanks;

// Collective; `ranks` (NULL: one process) and the device are borrowed. UNSUPPORTED without NCCL or
// on a CPU.
EsStatus es_device_ranks_open(EsRanks *ranks, EsDevice *device, EsDeviceRanks **device_ranks);

// Accepts NULL.
void es_device_ranks_close(EsDeviceRanks *device_ranks);

// Queues a gather of rows in device memory; collective, in the same order on all ranks.
EsStatus es_device_ranks_gather(EsDeviceRanks *device_ranks, EsStream *stream, const char *what,
                                int64_t n_rows, const EsRankColumn *column);

// Waits for the queued work, until the deadline of the ranks: a peer that hangs or has died is an
// IO failure then, and only close makes sense.
EsStatus es_device_ranks_wait(EsDeviceRanks *device_ranks, EsStream *stream, const char *what);

ES_EXTERN_C_END

#endif
