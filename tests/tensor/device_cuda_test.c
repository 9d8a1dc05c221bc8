// The CUDA device: memory, copies, events, captures, and what becomes of a launch that fails.
// Skipped without a GPU.
#include <stdint.h>

#include "es_test.h"
#include "kernels/kernels.h"
#include "tensor/device.h"

#define REQUIRE_CUDA()                                                                             \
    do {                                                                                           \
        if (es_device_cuda_count() == 0) {                                                         \
            SKIP("no CUDA device");                                                                \
        }                                                                                          \
    } while (0)

typedef struct Gpu {
    EsDevice *device;
    EsStream *stream;
    const EsKernels *kernels;
} Gpu;

static Gpu open_gpu(void) {
    Gpu gpu = {0};
    REQUIRE_OK(es_device_open("cuda", NULL, &gpu.device));
    REQUIRE_OK(es_stream_create(gpu.device, &gpu.stream));
    gpu.kernels = es_kernels_of(gpu.device);
    return gpu;
}

static void close_gpu(Gpu gpu) {
    EXPECT_STATUS(es_device_status(gpu.device), OK);
    es_stream_destroy(gpu.stream);
    es_device_close(gpu.device);
}

static void *take(Gpu gpu, size_t bytes) {
    void *memory = NULL;
    REQUIRE_OK(es_device_allocate(gpu.device, bytes, &memory));
    return memory;
}

static void put(Gpu gpu, void *to, const void *from, size_t bytes) {
    REQUIRE_OK(es_stream_copy(gpu.stream, to, from, bytes, ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_synchronize(gpu.stream));
}

static void fetch(Gpu gpu, void *to, const void *from, size_t bytes) {
    REQUIRE_OK(es_stream_copy(gpu.stream, to, from, bytes, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(gpu.stream));
}

TEST(describes_the_device) {
    REQUIRE_CUDA();
    Gpu gpu = open_gpu();
    const EsDeviceInfo *info = es_device_info(gpu.device);
    EXPECT_EQ(info->kind, ES_DEVICE_CUDA);
    EXPECT_EQ(info->index, 0);
    EXPECT_CONTAINS(info->architecture, "sm_");
    EXPECT(info->name[0] != '\0');
    EXPECT(info->memory_bytes > (size_t)1 << 30);
    EXPECT(info->n_processors > 0);
    close_gpu(gpu);
}

TEST(refuses_a_device_that_is_not_there) {
    REQUIRE_CUDA();
    EsDevice *device = NULL;
    EXPECT_STATUS(es_device_open("cuda:1000", NULL, &device), UNSUPPORTED);
    EXPECT(device == NULL);
    EXPECT_CONTAINS(es_status_detail(), "cuda:1000");
}

TEST(memory_is_zeroed_and_counted) {
    REQUIRE_CUDA();
    enum { BYTES = 100003 };
    static unsigned char host[BYTES];
    Gpu gpu = open_gpu();
    unsigned char *memory = take(gpu, BYTES);
    EXPECT_EQ((uintptr_t)memory % 64, 0);
    memset(host, 1, sizeof host);
    fetch(gpu, host, memory, BYTES);
    for (int i = 0; i < BYTES; i++) {
        if (host[i] != 0) {
            ES_TEST_FAIL("byte %d is %d", i, host[i]);
            break;
        }
    }
    REQUIRE_OK(es_stream_fill(gpu.stream, memory, 7, BYTES));
    fetch(gpu, host, memory, BYTES);
    EXPECT_EQ(host[0], 7);
    EXPECT_EQ(host[BYTES - 1], 7);
    EsDeviceCounters counters = es_device_counters(gpu.device);
    EXPECT_EQ(counters.n_allocations, 1);
    EXPECT_EQ(counters.n_copies, 2);
    EXPECT_EQ(counters.n_synchronizations, 2);
    void *too_much = NULL;
    EXPECT_STATUS(es_device_allocate(gpu.device, (size_t)1 << 50, &too_much), MEMORY);
    EXPECT(too_much == NULL);
    es_device_release(gpu.device, memory);
    close_gpu(gpu);
}

TEST(pinned_memory_round_trip) {
    REQUIRE_CUDA();
    Gpu gpu = open_gpu();
    float *host = NULL;
    REQUIRE_OK(es_device_allocate_host(gpu.device, 1000 * sizeof *host, (void **)&host));
    EXPECT(host[999] == 0.0f);
    for (int i = 0; i < 1000; i++) {
        host[i] = (float)i;
    }
    float *first = take(gpu, 1000 * sizeof *host), *second = take(gpu, 1000 * sizeof *host);
    size_t bytes = 1000 * sizeof *host;
    REQUIRE_OK(es_stream_copy(gpu.stream, first, host, bytes, ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_copy(gpu.stream, second, first, bytes, ES_COPY_ON_DEVICE));
    REQUIRE_OK(es_stream_synchronize(gpu.stream));
    memset(host, 0, bytes);
    fetch(gpu, host, second, bytes);
    for (int i = 0; i < 1000; i++) {
        EXPECT_NEAR(host[i], i, 0.0);
    }
    es_device_release(gpu.device, first);
    es_device_release(gpu.device, second);
    es_device_release_host(gpu.device, host);
    close_gpu(gpu);
}

TEST(events_order_and_time) {
    REQUIRE_CUDA();
    Gpu gpu = open_gpu();
    size_t bytes = (size_t)256 << 20;
    void *memory = take(gpu, bytes);
    EsStream *other = NULL;
    EsEvent *from = NULL, *to = NULL;
    REQUIRE_OK(es_stream_create(gpu.device, &other));
    REQUIRE_OK(es_event_create(gpu.device, &from));
    REQUIRE_OK(es_event_create(gpu.device, &to));
    REQUIRE_OK(es_event_record(from, gpu.stream));
    for (int i = 0; i < 8; i++) {
        REQUIRE_OK(es_stream_fill(gpu.stream, memory, i, bytes));
    }
    REQUIRE_OK(es_event_record(to, gpu.stream));
    // the other stream sees the last fill, because it waits for the event
    unsigned char last = 0;
    REQUIRE_OK(es_event_wait(to, other));
    REQUIRE_OK(
        es_stream_copy(other, &last, (unsigned char *)memory + bytes - 1, 1, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(other));
    EXPECT_EQ(last, 7);
    float ms = -1.0f;
    REQUIRE_OK(es_event_synchronize(to));
    REQUIRE_OK(es_event_elapsed_ms(from, to, &ms));
    // 2 GiB at no more than 20 TB/s
    EXPECT(ms > 0.1f);
    es_event_destroy(from);
    es_event_destroy(to);
    es_stream_destroy(other);
    es_device_release(gpu.device, memory);
    close_gpu(gpu);
}

// --- captures ---

enum { SIDE = 37, COUNT = SIDE * SIDE };

typedef struct Work {
    EsTensor a, b, y, step;
} Work;

static Work make_work(Gpu gpu) {
    static float host[COUNT];
    Work work;
    int64_t square[3] = {1, SIDE, SIDE}, one[1] = {1};
    EsTensor *tensors[3] = {&work.a, &work.b, &work.y};
    for (int i = 0; i < 3; i++) {
        void *memory = take(gpu, sizeof host);
        *tensors[i] = es_tensor_view(memory, ES_DTYPE_F32, gpu.device, 3, square);
        for (int k = 0; k < COUNT; k++) {
            host[k] = (float)((k * 37 + i * 11) % 101) / 101.0f - 0.5f;
        }
        put(gpu, memory, host, sizeof host);
    }
    work.step = es_tensor_view(take(gpu, sizeof(int32_t)), ES_DTYPE_I32, gpu.device, 1, one);
    return work;
}

static void queue_work(Gpu gpu, const Work *work) {
    gpu.kernels->matmul(gpu.stream, 0, 1, 0.0f, &work->a, &work->b, &work->y);
    gpu.kernels->activation_forward(gpu.stream, ES_ACTIVATION_TANH, &work->y, &work->y);
    gpu.kernels->count_steps(gpu.stream, &work->step);
}

static void release_work(Gpu gpu, Work *work) {
    es_device_release(gpu.device, work->a.data);
    es_device_release(gpu.device, work->b.data);
    es_device_release(gpu.device, work->y.data);
    es_device_release(gpu.device, work->step.data);
}

TEST(captured_work_gives_the_same_bits) {
    REQUIRE_CUDA();
    static float direct[COUNT], replayed[COUNT];
    Gpu gpu = open_gpu();
    Work work = make_work(gpu);
    float *spare = take(gpu, 64);
    queue_work(gpu, &work);
    fetch(gpu, direct, work.y.data, sizeof direct);

    EsCapture *capture = NULL;
    REQUIRE_OK(es_stream_fill(gpu.stream, work.y.data, 0xFF, sizeof direct));
    EsDeviceCounters before = es_device_counters(gpu.device);
    REQUIRE_OK(es_capture_begin(gpu.stream));
    queue_work(gpu, &work);
    REQUIRE_OK(es_stream_copy(gpu.stream, spare, work.y.data, 64, ES_COPY_ON_DEVICE));
    REQUIRE_OK(es_capture_end(gpu.stream, &capture));
    EsDeviceCounters counted = es_device_counters_since(gpu.device, before);
    EXPECT_EQ(counted.copied_bytes[ES_COPY_ON_DEVICE], 0);
    fetch(gpu, replayed, work.y.data, sizeof replayed);
    EXPECT(isnan(replayed[0]) && isnan(replayed[COUNT - 1])); // recorded, not run

    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(es_capture_replay(capture, gpu.stream));
    }
    fetch(gpu, replayed, work.y.data, sizeof replayed);
    EXPECT(memcmp(direct, replayed, sizeof direct) == 0);
    counted = es_device_counters_since(gpu.device, before);
    EXPECT_EQ(counted.copied_bytes[ES_COPY_ON_DEVICE], 3 * 64); // moved by every replay
    int32_t n_steps = 0;
    fetch(gpu, &n_steps, work.step.data, sizeof n_steps);
    EXPECT_EQ(n_steps, 4); // once directly, three times replayed
    es_capture_destroy(capture);
    es_device_release(gpu.device, spare);
    release_work(gpu, &work);
    close_gpu(gpu);
}

// --- failures ---

TEST(a_failed_launch_is_kept_and_does_not_spread) {
    REQUIRE_CUDA();
    static float before[COUNT], after[COUNT];
    Gpu gpu = open_gpu();
    Work work = make_work(gpu);
    queue_work(gpu, &work);
    fetch(gpu, before, work.y.data, sizeof before);
    // more blocks than a grid can have: the launch is refused, no memory is touched
    int64_t huge[2] = {(int64_t)1 << 31, 256};
    EsTensor bogus = es_tensor_view(work.y.data, ES_DTYPE_F32, gpu.device, 2, huge);
    EsNormOptions options = {.epsilon = 1e-5f};
    gpu.kernels->batchnorm_from_running(gpu.stream, options, &bogus, &bogus, &bogus, &bogus);
    EXPECT_STATUS(es_device_status(gpu.device), DEVICE);
    EXPECT_CONTAINS(es_status_detail(), "batchnorm_from_running");
    EXPECT_CONTAINS(es_status_detail(), "cudaError");
    // the next launch is not blamed for it and works
    queue_work(gpu, &work);
    fetch(gpu, after, work.y.data, sizeof after);
    EXPECT(memcmp(before, after, sizeof before) == 0);
    release_work(gpu, &work);
    es_stream_destroy(gpu.stream);
    es_device_close(gpu.device);
}

TEST(checked_launches_give_the_same_bits) {
    REQUIRE_CUDA();
    static float plain[COUNT], checked[COUNT];
    float *results[2] = {plain, checked};
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            setenv("ES_CUDA_SYNC", "1", 1);
        } else {
            unsetenv("ES_CUDA_SYNC");
        }
        Gpu gpu = open_gpu();
        Work work = make_work(gpu);
        EsCapture *capture = NULL;
        // a stream that is being captured must not be waited for, in checked mode too
        REQUIRE_OK(es_capture_begin(gpu.stream));
        queue_work(gpu, &work);
        REQUIRE_OK(es_capture_end(gpu.stream, &capture));
        REQUIRE_OK(es_capture_replay(capture, gpu.stream));
        queue_work(gpu, &work);
        fetch(gpu, results[i], work.y.data, sizeof plain);
        es_capture_destroy(capture);
        release_work(gpu, &work);
        close_gpu(gpu);
    }
    unsetenv("ES_CUDA_SYNC");
    EXPECT(memcmp(plain, checked, sizeof plain) == 0);
}
