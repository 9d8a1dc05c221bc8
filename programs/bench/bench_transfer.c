// The suite `transfer`: copies between CPU and device memory, and on the device, in bytes per
// second. On the CPU all of them are memcpy.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_suite.h"

typedef struct TransferCase {
    size_t bytes;
    EsCopy direction;
    int is_pinned; // CPU memory
} TransferCase;

typedef struct TransferFixture {
    const TransferCase *wanted;
    EsDevice *device;       // borrowed
    EsStream *stream;       // borrowed
    void *device_memory[2]; // owned; the second for copies on the device
    void *host_memory;      // owned, NULL for copies on the device
} TransferFixture;

static void end_transfer(void *context) {
    TransferFixture *fixture = context;
    if (fixture == NULL) {
        return;
    }
    es_device_release(fixture->device, fixture->device_memory[0]);
    es_device_release(fixture->device, fixture->device_memory[1]);
    if (fixture->wanted->is_pinned) {
        es_device_release_host(fixture->device, fixture->host_memory);
    } else {
        es_release(fixture->host_memory);
    }
    es_release(fixture);
}

static EsStatus begin_transfer(const EsBenchCase *bench_case, const EsBench *bench,
                               void **fixture_out) {
    const TransferCase *wanted = bench_case->settings;
    TransferFixture *fixture = NULL;
    EsStatus status = ES_STATUS_OK;
    *fixture_out = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->wanted = wanted;
    fixture->device = bench->device;
    fixture->stream = bench->stream;
    ES_TRY_GOTO(es_device_allocate(fixture->device, wanted->bytes, &fixture->device_memory[0]));
    if (wanted->direction == ES_COPY_ON_DEVICE) {
        ES_TRY_GOTO(es_device_allocate(fixture->device, wanted->bytes, &fixture->device_memory[1]));
    } else if (wanted->is_pinned) {
        ES_TRY_GOTO(es_device_allocate_host(fixture->device, wanted->bytes, &fixture->host_memory));
    } else {
        ES_TRY_GOTO(es_allocate(wanted->bytes, &fixture->host_memory));
    }
    // pages that were never written are all the same one
    ES_TRY_GOTO(es_stream_fill(fixture->stream, fixture->device_memory[0], 1, wanted->bytes));
    if (fixture->host_memory != NULL) {
        memset(fixture->host_memory, 2, wanted->bytes);
    }
    *fixture_out = fixture;
done:
    if (status != ES_STATUS_OK) {
        end_transfer(fixture);
    }
    return status;
}

static EsStatus run_transfer(void *context, int variant) {
    TransferFixture *fixture = context;
    const TransferCase *wanted = fixture->wanted;
    (void)variant;
    void *to = wanted->direction == ES_COPY_TO_HOST     ? fixture->host_memory
               : wanted->direction == ES_COPY_TO_DEVICE ? fixture->device_memory[0]
                                                        : fixture->device_memory[1];
    const void *from =
        wanted->direction == ES_COPY_TO_DEVICE ? fixture->host_memory : fixture->device_memory[0];
    return es_stream_copy(fixture->stream, to, from, wanted->bytes, wanted->direction);
}

static double count_gigabytes(const EsBenchCase *bench_case) {
    return 1e-9 * (double)((const TransferCase *)bench_case->settings)->bytes;
}

#define TRANSFER_CASE(n, label, ...)                                                               \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const TransferCase){__VA_ARGS__},            \
        .begin = begin_transfer, .run = run_transfer, .end = end_transfer,                         \
        .work = count_gigabytes, .rate_unit = "GB/s"                                               \
    }
#define CASES_OF(label, bytes)                                                                     \
    TRANSFER_CASE("to_device", label " memory=pinned", bytes, ES_COPY_TO_DEVICE, 1),               \
        TRANSFER_CASE("to_device", label " memory=pageable", bytes, ES_COPY_TO_DEVICE, 0),         \
        TRANSFER_CASE("to_host", label " memory=pinned", bytes, ES_COPY_TO_HOST, 1),               \
        TRANSFER_CASE("to_host", label " memory=pageable", bytes, ES_COPY_TO_HOST, 0),             \
        TRANSFER_CASE("on_device", label, bytes, ES_COPY_ON_DEVICE, 0)

static const EsBenchCase cases[] = {
    CASES_OF("B=4KiB", (size_t)4 << 10),
    CASES_OF("B=256KiB", (size_t)256 << 10),
    CASES_OF("B=16MiB", (size_t)16 << 20),
    CASES_OF("B=128MiB", (size_t)128 << 20),
};

const EsBenchSuite es_bench_transfer = {
    .name = "transfer",
    .summary = "copies between CPU and device, pinned and pageable, and on the device",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
};
