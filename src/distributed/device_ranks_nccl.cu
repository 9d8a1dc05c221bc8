// Gathers between GPUs: a broadcast of every rank's share in one group of NCCL. The library is
// opened at run time, so that the program starts where it is missing.
#include <dlfcn.h>
#include <nccl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "distributed/device_ranks.h"
#include "tensor/device_cuda.h"

#define NCCL_LIBRARY                      "libnccl.so.2"
#define DEADLINE_SECONDS                  120.0 // of one process, which has no ranks to ask
#define TEXT_OF(number)                   #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

// NAME: functions of the library that are used.
#define NCCL_FUNCTIONS(X)                                                                          \
    X(GetUniqueId)                                                                                 \
    X(CommInitRank)                                                                                \
    X(CommAbort)                                                                                   \
    X(CommDestroy)                                                                                 \
    X(CommGetAsyncError)                                                                           \
    X(Broadcast)                                                                                   \
    X(GroupStart)                                                                                  \
    X(GroupEnd)                                                                                    \
    X(GetErrorString)

typedef struct Nccl {
#define X(NAME) decltype(&nccl##NAME) NAME;
    NCCL_FUNCTIONS(X)
#undef X
} Nccl;

struct EsDeviceRanks {
    void *library; // owned, of dlopen
    Nccl nccl;
    EsRanks *ranks;   // borrowed; NULL: one process
    EsDevice *device; // borrowed
    ncclComm_t comm;  // owned; NULL: there is none
    int has_failed;   // work may be stuck in it
};

const char *es_nccl_version(void) { return VERSION_TEXT(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH); }

static EsStatus fail_nccl(const EsDeviceRanks *d, ncclResult_t result, const char *what) {
    return ES_FAIL(IO, "NCCL, %s: %s", what, d->nccl.GetErrorString(result));
}

static EsStatus check(EsDeviceRanks *d, ncclResult_t result, const char *what) {
    d->has_failed |= result != ncclSuccess;
    return result == ncclSuccess ? ES_STATUS_OK : fail_nccl(d, result, what);
}

static EsStatus load_library(EsDeviceRanks *d) {
    const char *named = getenv("ES_NCCL_LIBRARY");
    const char *name = named != NULL && named[0] != '\0' ? named : NCCL_LIBRARY;
    d->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (d->library == NULL) {
        return ES_FAIL(UNSUPPORTED,
                       "several GPUs speak to each other over NCCL, and %.200s cannot be opened "
                       "(%.300s); the package nvidia-nccl-cu13 of PyPI has it: ES_NCCL_LIBRARY "
                       "names the file",
                       name, dlerror());
    }
    const struct {
        const char *name;
        void *function; // address of the pointer
    } functions[] = {
#define X(NAME) {"nccl" #NAME, &d->nccl.NAME},
        NCCL_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < ES_COUNT_OF(functions); i++) {
        void *found = dlsym(d->library, functions[i].name);
        if (found == NULL) {
            return ES_FAIL(UNSUPPORTED, "%.200s has no %s: it is not NCCL 2", name,
                           functions[i].name);
        }
        memcpy(functions[i].function, &found, sizeof found);
    }
    return ES_STATUS_OK;
}

static EsStatus join(EsDeviceRanks *d) {
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    int number = es_ranks_number(d->ranks);
    ES_TRY(number == 0 ? check(d, d->nccl.GetUniqueId(&id), "an id") : ES_STATUS_OK);
    ES_TRY(es_ranks_broadcast(d->ranks, "NCCL's id", 0, &id, sizeof id));
    ES_CUDA_TRY(cudaSetDevice(es_device_info(d->device)->index));
    return check(d, d->nccl.CommInitRank(&d->comm, es_ranks_count(d->ranks), id, number),
                 "joining");
}

EsStatus es_device_ranks_open(EsRanks *ranks, EsDevice *device, EsDeviceRanks **device_ranks) {
    EsDeviceRanks *d = NULL;
    void *memory = NULL;
    *device_ranks = NULL;
    if (es_device_info(device)->kind != ES_DEVICE_CUDA) {
        return ES_FAIL(UNSUPPORTED, "NCCL joins GPUs; ranks on CPUs use MPI alone");
    }
    ES_TRY(es_allocate(sizeof *d, &memory));
    d = (EsDeviceRanks *)memory;
    d->ranks = ranks;
    d->device = device;
    EsStatus status = load_library(d);
    status = status == ES_STATUS_OK ? join(d) : status;
    if (status != ES_STATUS_OK) {
        es_device_ranks_close(d);
        return status;
    }
    *device_ranks = d;
    return ES_STATUS_OK;
}

void es_device_ranks_close(EsDeviceRanks *d) {
    if (d == NULL) {
        return;
    }
    if (d->comm != NULL && d->has_failed) { // destroy would wait for peers that do not answer
        d->nccl.CommAbort(d->comm);
    } else if (d->comm != NULL) {
        d->nccl.CommDestroy(d->comm);
    }
    // the library stays loaded: it has threads of its own
    es_release(d);
}

EsStatus es_device_ranks_gather(EsDeviceRanks *d, EsStream *stream, const char *what,
                                int64_t n_rows, const EsRankColumn *column) {
    cudaStream_t queue = (cudaStream_t)stream->handle;
    ES_CUDA_TRY(cudaSetDevice(es_device_info(d->device)->index));
    ES_TRY(check(d, d->nccl.GroupStart(), what));
    for (int root = 0; root < es_ranks_count(d->ranks); root++) {
        EsShare share = es_ranks_share(d->ranks, root, n_rows);
        char *rows = (char *)column->rows + (size_t)share.first * column->row_bytes;
        size_t bytes = (size_t)(share.end - share.first) * column->row_bytes;
        if (bytes > 0) {
            ES_TRY(check(d, d->nccl.Broadcast(rows, rows, bytes, ncclChar, root, d->comm, queue),
                         what));
        }
    }
    return check(d, d->nccl.GroupEnd(), what);
}

EsStatus es_device_ranks_wait(EsDeviceRanks *d, EsStream *stream, const char *what) {
    double deadline = d->ranks != NULL ? d->ranks->deadline_seconds : DEADLINE_SECONDS;
    int64_t start_ns = es_clock_ns();
    for (;;) {
        cudaError_t done = cudaStreamQuery((cudaStream_t)stream->handle);
        ncclResult_t state = ncclSuccess;
        if (done != cudaErrorNotReady) {
            ES_CUDA_TRY(done);
            return ES_STATUS_OK;
        }
        ES_TRY(check(d, d->nccl.CommGetAsyncError(d->comm, &state), what));
        ES_TRY(check(d, state, what));
        if (es_clock_seconds_since(start_ns) > deadline) {
            d->has_failed = 1;
            return ES_FAIL(IO, "rank %d waited %g s (ES_RANK_DEADLINE) at \"%s\" for another GPU",
                           es_ranks_number(d->ranks), deadline, what);
        }
        sched_yield();
    }
}
