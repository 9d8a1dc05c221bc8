// Counts and times of a profile, on the CPU and, if there is one, on a GPU.
#include "tensor/profile.h"

#include <time.h>

#include "es_test.h"
#include "kernels/kernels.h"

typedef struct Machine {
    EsDevice *device;
    EsStream *stream;
} Machine;

static Machine open_machine(const char *name) {
    Machine machine = {0};
    REQUIRE_OK(es_device_open(name, NULL, &machine.device));
    REQUIRE_OK(es_stream_create(machine.device, &machine.stream));
    return machine;
}

static void close_machine(Machine machine) {
    es_stream_destroy(machine.stream);
    es_device_close(machine.device);
}

static void start(Machine machine, int capacity) {
    REQUIRE_OK(es_profile_start(machine.device, &(EsProfileOptions){.capacity = capacity}));
}

static void sleep_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

static const EsProfileRow *find(const EsProfileReport *report, const char *name) {
    for (int i = 0; i < report->n_rows; i++) {
        if (strcmp(report->rows[i].name, name) == 0) {
            return &report->rows[i];
        }
    }
    ES_TEST_FAIL("no row \"%s\"", name);
    static const EsProfileRow none;
    return &none;
}

TEST(nothing_is_noted_when_off) {
    Machine cpu = open_machine("cpu");
    EsProfileReport report;
    es_profile_range_begin(cpu.device, cpu.stream, "unseen");
    EXPECT_EQ(es_profile_span_begin(cpu.device, cpu.stream, ES_PROFILE_LAUNCH, "unseen"), -1);
    es_profile_span_end(cpu.device, cpu.stream, -1);
    es_profile_range_end(cpu.device, cpu.stream);
    es_profile_reset(cpu.device);
    EXPECT_STATUS(es_profile_report(cpu.device, &report), ARGUMENT);
    es_profile_report_destroy(&report);
    es_profile_stop(cpu.device);
    close_machine(cpu);
}

TEST(shapes_are_told) {
    Machine cpu = open_machine("cpu");
    EsProfileReport report;
    char text[ES_PROFILE_SHAPE_BYTES];
    const uint32_t grid[][3] = {{8, 1, 1}, {4, 6, 1}, {2, 1, 1}}, block[3] = {32, 2, 2};
    const int64_t dim[3] = {4, 16, 32};
    EsTensor result = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 3, dim);
    start(cpu, 2);
    int first = es_profile_next_span(cpu.device);
    int span = es_profile_span_begin(cpu.device, NULL, ES_PROFILE_LAUNCH, "work");
    EXPECT_EQ(span, first);
    for (int i = 0; i < 3; i++) { // that with most threads is kept
        es_profile_span_kernel(cpu.device, span, grid[i], block, i == 1 ? 4096 : 0);
    }
    es_profile_span_result(cpu.device, span, &result);
    es_profile_span_end(cpu.device, NULL, span);
    span = es_profile_span_begin(cpu.device, NULL, ES_PROFILE_COPY, "copy");
    es_profile_span_bytes(cpu.device, span, 512);
    es_profile_span_end(cpu.device, NULL, span);
    // beyond the capacity
    span = es_profile_span_begin(cpu.device, NULL, ES_PROFILE_COPY, "dropped");
    es_profile_span_bytes(cpu.device, span, 512);
    es_profile_span_result(cpu.device, es_profile_next_span(cpu.device), &result);
    REQUIRE_OK(es_profile_report(cpu.device, &report));
    EXPECT_TEXT(es_profile_shape_text(&find(&report, "work")->shape, text),
                "[4, 16, 32], grid 4x6, block 32x2x2, shared 4096 B, largest of 3 kernels");
    EXPECT_TEXT(es_profile_shape_text(&report.spans[1].shape, text), "512 B");
    es_profile_report_destroy(&report);
    close_machine(cpu);
}

TEST(rows_have_count_total_and_extremes) {
    Machine cpu = open_machine("cpu");
    EsProfileReport report;
    start(cpu, 16);
    EXPECT_STATUS(es_profile_start(cpu.device, &(EsProfileOptions){.capacity = 1}), ARGUMENT);
    es_profile_range_begin(cpu.device, cpu.stream, "step");
    for (int i = 0; i < 2; i++) {
        int span = es_profile_span_begin(cpu.device, cpu.stream, ES_PROFILE_LAUNCH, "work");
        sleep_ms(i == 0 ? 4 : 12);
        es_profile_span_end(cpu.device, cpu.stream, span);
    }
    sleep_ms(8); // nothing runs: idle
    es_profile_range_end(cpu.device, cpu.stream);
    REQUIRE_OK(es_profile_report(cpu.device, &report));
    EXPECT_EQ(report.n_rows, 2);
    EXPECT_EQ(report.n_spans, 3);
    EXPECT_EQ(report.n_dropped, 0);
    const EsProfileRow *step = find(&report, "step"), *work = find(&report, "work");
    EXPECT_EQ(step->kind, ES_PROFILE_RANGE);
    EXPECT_EQ(work->kind, ES_PROFILE_LAUNCH);
    EXPECT_EQ(work->count, 2);
    EXPECT(work->min_ms >= 4 && work->max_ms >= 12 && work->min_ms < work->max_ms);
    EXPECT_NEAR(work->total_ms, work->min_ms + work->max_ms, 1e-6);
    EXPECT_NEAR(report.busy_ms, work->total_ms, 1e-6);
    EXPECT_NEAR(report.window_ms, step->total_ms, 1e-6);
    EXPECT(report.window_ms - report.busy_ms >= 8);
    for (int i = 0; i < report.n_spans; i++) {
        const EsProfileSpan *span = &report.spans[i];
        EXPECT(span->queued_ms > 0 && span->queued_ms == span->begin_ms);
        EXPECT(span->begin_ms <= span->end_ms);
    }
    es_profile_report_destroy(&report);
    close_machine(cpu); // stops it, too
}

// Two threads' worth of overlapping work is busy once.
TEST(overlap_is_busy_once) {
    Machine cpu = open_machine("cpu");
    EsProfileReport report;
    start(cpu, 16);
    int outer = es_profile_span_begin(cpu.device, NULL, ES_PROFILE_LAUNCH, "outer");
    int inner = es_profile_span_begin(cpu.device, NULL, ES_PROFILE_LAUNCH, "inner");
    sleep_ms(3);
    es_profile_span_end(cpu.device, NULL, inner);
    es_profile_span_end(cpu.device, NULL, outer);
    REQUIRE_OK(es_profile_report(cpu.device, &report));
    EXPECT_NEAR(report.busy_ms, find(&report, "outer")->total_ms, 1e-6);
    es_profile_report_destroy(&report);
    close_machine(cpu);
}

TEST(reset_forgets_and_the_full_pool_counts) {
    Machine cpu = open_machine("cpu");
    EsProfileReport report;
    int value = 0, copy = 0;
    start(cpu, 3);
    es_profile_range_begin(cpu.device, NULL, "before");
    REQUIRE_OK(es_stream_copy(cpu.stream, &copy, &value, sizeof value, ES_COPY_TO_DEVICE));
    es_profile_reset(cpu.device);
    es_profile_range_end(cpu.device, NULL); // gone with the reset
    for (int i = 0; i < 5; i++) {
        REQUIRE_OK(es_stream_copy(cpu.stream, &copy, &value, sizeof value, ES_COPY_TO_HOST));
    }
    REQUIRE_OK(es_profile_report(cpu.device, &report));
    EXPECT_EQ(report.n_rows, 1);
    EXPECT_EQ(find(&report, "copy to host")->count, 3);
    EXPECT_EQ(report.n_dropped, 2);
    EXPECT_EQ(report.counters.n_copies, 5);
    EXPECT_EQ(report.counters.copied_bytes[ES_COPY_TO_HOST], (int64_t)(5 * sizeof value));
    EXPECT_EQ(report.counters.copied_bytes[ES_COPY_TO_DEVICE], 0);
    EXPECT_EQ(report.rows[0].shape.bytes, (int64_t)sizeof value);
    es_profile_report_destroy(&report);
    // a report is a reset
    REQUIRE_OK(es_profile_report(cpu.device, &report));
    EXPECT_EQ(report.n_spans, 0);
    EXPECT_EQ(report.counters.n_copies, 0);
    EXPECT(report.window_ms == 0 && report.busy_ms == 0);
    es_profile_report_destroy(&report);
    close_machine(cpu);
}

TEST(work_side_by_side_is_busy_once) {
    Machine cpu = open_machine("cpu");
    EsProfileReport report;
    start(cpu, 8);
    int outer = es_profile_span_begin(cpu.device, NULL, ES_PROFILE_LAUNCH, "work");
    int inner = es_profile_span_begin(cpu.device, NULL, ES_PROFILE_LAUNCH, "work");
    sleep_ms(3);
    es_profile_span_end(cpu.device, NULL, inner);
    es_profile_span_end(cpu.device, NULL, outer);
    REQUIRE_OK(es_profile_report(cpu.device, &report));
    EXPECT_EQ(report.n_spans, 2);
    double outer_ms = report.spans[0].end_ms - report.spans[0].begin_ms;
    double inner_ms = report.spans[1].end_ms - report.spans[1].begin_ms;
    EXPECT_EQ(find(&report, "work")->count, 2);
    EXPECT_NEAR(find(&report, "work")->total_ms, outer_ms + inner_ms, 1e-6);
    EXPECT_NEAR(report.busy_ms, outer_ms, 1e-6); // the inner one ran meanwhile
    es_profile_report_destroy(&report);
    close_machine(cpu);
}

TEST(open_ranges_end_with_the_report) {
    Machine cpu = open_machine("cpu");
    EsProfileReport report;
    start(cpu, 8);
    es_profile_range_begin(cpu.device, NULL, "open");
    sleep_ms(2);
    REQUIRE_OK(es_profile_report(cpu.device, &report));
    EXPECT(find(&report, "open")->total_ms >= 2);
    es_profile_report_destroy(&report);
    close_machine(cpu);
}

static void note_piece(void *context, int64_t piece, int worker) {
    const Machine *cpu = context;
    (void)piece;
    (void)worker;
    int span = es_profile_span_begin(cpu->device, NULL, ES_PROFILE_LAUNCH, "piece");
    es_profile_span_end(cpu->device, NULL, span);
}

TEST(threads_note_side_by_side) {
    Machine cpu = open_machine("cpu");
    EsProfileReport report;
    start(cpu, 4096);
    es_stream_parallel(cpu.stream, 4000, note_piece, &cpu);
    REQUIRE_OK(es_profile_report(cpu.device, &report));
    EXPECT_EQ(find(&report, "piece")->count, 4000);
    EXPECT_EQ(report.n_rows, 1);
    es_profile_report_destroy(&report);
    close_machine(cpu);
}

// --- on a GPU ---

static EsTensor vector_on(Machine gpu, int64_t n) {
    EsTensor tensor;
    REQUIRE_OK(es_device_create_tensor(gpu.device, ES_DTYPE_F32, 2, (int64_t[]){1, n}, &tensor));
    return tensor;
}

TEST(cuda_launches_and_replays) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    Machine gpu = open_machine("cuda");
    EsProfileReport report;
    EsCapture *capture = NULL;
    const EsKernels *kernels = es_kernels_of(gpu.device);
    EsTensor a = vector_on(gpu, 1 << 20), b = vector_on(gpu, 1 << 20), c = vector_on(gpu, 1 << 20);
    start(gpu, 64);
    es_profile_range_begin(gpu.device, gpu.stream, "step");
    for (int i = 0; i < 3; i++) {
        kernels->add(gpu.stream, &a, &b, &c);
    }
    REQUIRE_OK(es_capture_begin(gpu.stream));
    kernels->add(gpu.stream, &a, &b, &c);
    REQUIRE_OK(es_capture_end(gpu.stream, &capture));
    REQUIRE_OK(es_capture_replay(capture, gpu.stream));
    es_profile_range_end(gpu.device, gpu.stream);
    REQUIRE_OK(es_profile_report(gpu.device, &report));
    EXPECT_EQ(find(&report, "add")->count, 3); // the recorded one did not run by itself
    EXPECT_EQ(find(&report, "captured work")->count, 1);
    EXPECT_EQ(find(&report, "add")->shape.n_kernels, 1);
    EXPECT(find(&report, "add")->shape.grid[0] > 1 && find(&report, "add")->shape.block[0] >= 32);
    EXPECT_EQ(report.counters.n_synchronizations, 0);
    EXPECT(report.busy_ms > 0 && report.busy_ms <= report.window_ms + 1e-3);
    EXPECT(find(&report, "step")->total_ms + 1e-3 >= report.busy_ms);
    es_profile_report_destroy(&report);
    es_profile_stop(gpu.device);
    REQUIRE_OK(
        es_profile_start(gpu.device, &(EsProfileOptions){.capacity = 4, .forbids_capture = 1}));
    EXPECT_STATUS(es_capture_begin(gpu.stream), UNSUPPORTED);
    es_profile_stop(gpu.device);
    es_capture_destroy(capture);
    es_device_destroy_tensor(&a);
    es_device_destroy_tensor(&b);
    es_device_destroy_tensor(&c);
    EXPECT_STATUS(es_device_status(gpu.device), OK);
    close_machine(gpu);
}
