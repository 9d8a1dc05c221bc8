// The device interface on the CPU: opening, memory, streams, events, counters, captures.
#include "tensor/device.h"

#include <time.h>

#include "es_test.h"

static EsDevice *open_cpu(int n_threads) {
    EsDevice *device = NULL;
    EsDeviceOptions options = {.n_threads = n_threads};
    REQUIRE_OK(es_device_open("cpu", &options, &device));
    return device;
}

TEST(names) {
    EsDevice *device = NULL;
    static const char *const wrong[] = {
        "", "gpu", "cpu:0", "cudax", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:99999"};
    for (size_t i = 0; i < ES_COUNT_OF(wrong); i++) {
        char expected[80];
        EXPECT_STATUS(es_device_open(wrong[i], NULL, &device), ARGUMENT);
        snprintf(expected, sizeof expected, "device \"%s\" is not one of cpu, cuda, cuda:N",
                 wrong[i]);
        EXPECT_TEXT(es_status_detail(), expected);
        EXPECT(device == NULL);
    }
    es_device_close(NULL);
}

TEST(cuda_is_absent_cleanly) {
    if (es_device_cuda_count() > 0) {
        SKIP("this machine has a CUDA device");
    }
    EsDevice *device = NULL;
    EXPECT_STATUS(es_device_open("cuda", NULL, &device), UNSUPPORTED);
    EXPECT(device == NULL);
    EXPECT_STATUS(es_device_open("cuda:1", NULL, &device), UNSUPPORTED);
    EXPECT(device == NULL);
}

TEST(describes_the_cpu) {
    EsDevice *device = open_cpu(3);
    const EsDeviceInfo *info = es_device_info(device);
    EXPECT_EQ(info->kind, ES_DEVICE_CPU);
    EXPECT_EQ(info->n_processors, 3);
    EXPECT(info->n_lanes == 4 || info->n_lanes == 8 || info->n_lanes == 16);
    EXPECT(info->memory_bytes > (size_t)64 << 20);
    EXPECT(info->name[0] != '\0');
    EXPECT_TEXT(info->architecture, info->n_lanes == 16  ? "AVX-512"
                                    : info->n_lanes == 8 ? "AVX2"
                                                         : "baseline");
    EXPECT_STATUS(es_device_status(device), OK);
    es_device_close(device);
}

TEST(checks_lanes) {
    EsDevice *device = NULL;
    EsDeviceOptions options = {.n_threads = 1, .n_lanes = 5};
    EXPECT_STATUS(es_device_open("cpu", &options, &device), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "lanes must be 4, 8 or 16, not 5");
    options.n_lanes = 4;
    REQUIRE_OK(es_device_open("cpu", &options, &device));
    EXPECT_EQ(es_device_info(device)->n_lanes, 4);
    EXPECT_TEXT(es_device_info(device)->architecture, "baseline");
    es_device_close(device);
    options = (EsDeviceOptions){.n_threads = -2};
    EXPECT_STATUS(es_device_open("cpu", &options, &device), ARGUMENT);
    EXPECT(device == NULL);
}

TEST(a_serial_device_has_the_lanes_of_its_model) {
    EsDevice *device = NULL, *serial = NULL;
    EsDeviceOptions options = {.n_threads = 3, .n_lanes = 4};
    REQUIRE_OK(es_device_open("cpu", &options, &device));
    REQUIRE_OK(es_device_open_serial(device, &serial));
    EXPECT_EQ(es_device_info(serial)->n_lanes, 4);
    EXPECT_EQ(es_device_info(serial)->n_processors, 1);
    es_device_close(serial);
    es_device_close(device);
}

TEST(memory_is_zeroed_and_counted) {
    EsDevice *device = open_cpu(1);
    unsigned char *memory = NULL;
    void *pinned = NULL;
    REQUIRE_OK(es_device_allocate(device, 1000, (void **)&memory));
    REQUIRE_OK(es_device_allocate_host(device, 10, &pinned));
    int n_nonzero = 0;
    for (int i = 0; i < 1000; i++) {
        n_nonzero += memory[i] != 0;
    }
    EXPECT_EQ(n_nonzero, 0);
    EXPECT_EQ((uintptr_t)memory % 64, 0);
    EXPECT_EQ(es_device_counters(device).n_allocations, 2);
    void *too_much = memory;
    EXPECT_STATUS(es_device_allocate(device, (size_t)1 << 60, &too_much), MEMORY);
    EXPECT(too_much == NULL);
    es_device_release(device, memory);
    es_device_release_host(device, pinned);
    es_device_release(device, NULL);
    es_device_release_host(device, NULL);
    es_device_close(device);
}

TEST(streams_copy_and_fill) {
    EsDevice *device = open_cpu(1);
    EsStream *stream = NULL;
    REQUIRE_OK(es_stream_create(device, &stream));
    EXPECT(es_stream_device(stream) == device);
    unsigned char *memory = NULL;
    REQUIRE_OK(es_device_allocate(device, 16, (void **)&memory));
    unsigned char in[16] = {1, 2, 3}, out[16] = {0};
    REQUIRE_OK(es_stream_copy(stream, memory, in, 16, ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_fill(stream, memory + 8, 0xab, 8));
    REQUIRE_OK(es_stream_copy(stream, memory + 4, memory, 4, ES_COPY_ON_DEVICE));
    REQUIRE_OK(es_stream_copy(stream, out, memory, 16, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    static const unsigned char expected[16] = {1,    2,    3,    0,    1,    2,    3,    0,
                                               0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab};
    EXPECT(memcmp(out, expected, 16) == 0);
    EsDeviceCounters counters = es_device_counters(device);
    EXPECT_EQ(counters.n_copies, 3);
    EXPECT_EQ(counters.n_synchronizations, 1);
    EXPECT_EQ(counters.copied_bytes[ES_COPY_TO_DEVICE], 16);
    EXPECT_EQ(counters.copied_bytes[ES_COPY_ON_DEVICE], 4);
    EXPECT_EQ(counters.copied_bytes[ES_COPY_TO_HOST], 16);
    REQUIRE_OK(es_stream_copy(stream, out, memory, 5, ES_COPY_TO_HOST));
    EsDeviceCounters since = es_device_counters_since(device, counters);
    EXPECT_EQ(since.n_copies, 1);
    EXPECT_EQ(since.copied_bytes[ES_COPY_TO_HOST], 5);
    EXPECT_EQ(since.copied_bytes[ES_COPY_TO_DEVICE], 0);
    es_device_release(device, memory);
    es_stream_destroy(stream);
    es_stream_destroy(NULL);
    es_device_close(device);
}

static void square_piece(void *context, int64_t piece, int worker) {
    (void)worker;
    ((int64_t *)context)[piece] = piece * piece;
}

TEST(streams_run_pieces) {
    EsDevice *device = open_cpu(2);
    EsStream *stream = NULL;
    REQUIRE_OK(es_stream_create(device, &stream));
    EXPECT_EQ(es_thread_pool_size(es_stream_pool(stream)), 2);
    int64_t squares[100] = {0};
    es_stream_parallel(stream, 100, square_piece, squares);
    for (int64_t i = 0; i < 100; i++) {
        EXPECT_EQ(squares[i], i * i);
    }
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(events_measure_time) {
    EsDevice *device = open_cpu(1);
    EsStream *stream = NULL;
    EsEvent *from = NULL, *to = NULL;
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_event_create(device, &from));
    REQUIRE_OK(es_event_create(device, &to));
    REQUIRE_OK(es_event_record(from, stream));
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
    REQUIRE_OK(es_event_record(to, stream));
    REQUIRE_OK(es_event_wait(to, stream));
    REQUIRE_OK(es_event_synchronize(to));
    float ms = 0;
    REQUIRE_OK(es_event_elapsed_ms(from, to, &ms));
    EXPECT(ms >= 5.0f && ms < 20000.0f);
    EXPECT_EQ(es_device_counters(device).n_synchronizations, 1);
    es_event_destroy(from);
    es_event_destroy(to);
    es_event_destroy(NULL);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(captures_are_refused) {
    EsDevice *device = open_cpu(1);
    EsStream *stream = NULL;
    EsCapture *capture = NULL;
    REQUIRE_OK(es_stream_create(device, &stream));
    EXPECT_STATUS(es_capture_begin(stream), UNSUPPORTED);
    EXPECT_STATUS(es_capture_end(stream, &capture), UNSUPPORTED);
    EXPECT(capture == NULL);
    es_capture_destroy(NULL);
    es_stream_destroy(stream);
    es_device_close(device);
}
