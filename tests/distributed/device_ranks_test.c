// Gathers over NCCL. One rank without mpirun: the library is found, joins, and leaves the rows as
// they are, in the order of the stream. Two GPUs are not tried here.
#include "distributed/device_ranks.h"

#include <stdlib.h>

#include "es_test.h"

#define N_ROWS 8 // shards of a gradient
#define WIDTH  1000

// Rows that are written, gathered and read in one stream, without waits between.
TEST(one_rank) {
    EsDevice *device = NULL;
    EsDeviceRanks *nccl = NULL;
    if (es_nccl_version() == NULL || es_device_open("cuda:0", NULL, &device) != ES_STATUS_OK) {
        es_test_skipped = 1;
        return;
    }
    EsStatus status = es_device_ranks_open(NULL, device, &nccl);
    if (status == ES_STATUS_UNSUPPORTED) { // no library here; the message says so
        printf("%s\n", es_status_detail());
        es_test_skipped = 1;
        es_device_close(device);
        return;
    }
    EXPECT_STATUS(status, OK);
    EsStream *stream = NULL;
    EsTensor rows;
    float written[N_ROWS * WIDTH], read[N_ROWS * WIDTH] = {0};
    for (int i = 0; i < N_ROWS * WIDTH; i++) {
        written[i] = (float)i;
    }
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_device_create_tensor(device, ES_DTYPE_F32, 2, (int64_t[]){N_ROWS, WIDTH}, &rows));
    EsRankColumn column = {rows.data, WIDTH * sizeof(float)};
    REQUIRE_OK(es_stream_copy(stream, rows.data, written, sizeof written, ES_COPY_TO_DEVICE));
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(es_device_ranks_gather(nccl, stream, "rows", N_ROWS, &column), OK);
    }
    REQUIRE_OK(es_stream_copy(stream, read, rows.data, sizeof read, ES_COPY_TO_HOST));
    EXPECT_STATUS(es_device_ranks_wait(nccl, stream, "rows"), OK);
    REQUIRE_OK(es_stream_synchronize(stream));
    EXPECT(memcmp(written, read, sizeof read) == 0);
    printf("NCCL %s: one rank gathers\n", es_nccl_version());
    es_device_ranks_close(nccl);
    es_device_destroy_tensor(&rows);
    es_stream_destroy(stream);
    es_device_close(device);
}

// Refused with a reason where there is no NCCL or no GPU.
TEST(refused) {
    EsDevice *cpu = NULL;
    EsDeviceRanks *nccl = NULL;
    REQUIRE_OK(es_device_open("cpu", NULL, &cpu));
    EXPECT_STATUS(es_device_ranks_open(NULL, cpu, &nccl), UNSUPPORTED);
    EXPECT(nccl == NULL);
    EXPECT(strstr(es_status_detail(), "NCCL") != NULL);
    es_device_ranks_close(nccl);
    es_device_close(cpu);
}
