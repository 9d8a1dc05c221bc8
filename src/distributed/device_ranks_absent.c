// Ranks on GPUs in a build without CUDA, or without the headers of NCCL: there are none.
#include "distributed/device_ranks.h"

const char *es_nccl_version(void) { return NULL; }

EsStatus es_device_ranks_open(EsRanks *ranks, EsDevice *device, EsDeviceRanks **device_ranks) {
    (void)ranks;
    (void)device;
    *device_ranks = NULL;
    return ES_FAIL(UNSUPPORTED,
                   "this build has no NCCL, over which GPUs speak to each other; build "
                   "with -DES_CUDA=ON where its headers are installed");
}

void es_device_ranks_close(EsDeviceRanks *device_ranks) { (void)device_ranks; }

EsStatus es_device_ranks_gather(EsDeviceRanks *device_ranks, EsStream *stream, const char *what,
                                int64_t n_rows, const EsRankColumn *column) {
    (void)device_ranks;
    (void)stream;
    (void)n_rows;
    (void)column;
    return ES_FAIL(UNSUPPORTED, "%s: this build has no NCCL", what);
}

EsStatus es_device_ranks_wait(EsDeviceRanks *device_ranks, EsStream *stream, const char *what) {
    (void)device_ranks;
    (void)stream;
    return ES_FAIL(UNSUPPORTED, "%s: this build has no NCCL", what);
}
