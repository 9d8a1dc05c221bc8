// The suite `host`: training steps of E hosts side by side, in images per second. A run gathers its
// batches from the data set, so that nothing is left out of the time.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_cases.h"
#include "cli/frame.h"
#include "esper/data.h"
#include "growth/engine/host_trainer.h"
#include "growth/host/host_file.h"

#define NOISE_IMAGES 20000 // of a host whose file names no data set, to train on

typedef struct HostCase {
    EsBenchHost wanted;
    char parameters[96];
    char name[64];
} HostCase;

typedef struct HostFixture {
    EsHostSpec host;        // owned: names of a host file
    EsDataset dataset;      // owned
    EsHostTrainer *trainer; // owned
} HostFixture;

EsStatus es_bench_open_host(const EsBenchHost *wanted, EsHostSpec *host) {
    ES_TRY(es_host_find(wanted->task, host));
    EsStatus status = ES_STATUS_OK;
    if (wanted->n_blocks > 0 && host->text != NULL) {
        ES_TRY_GOTO(ES_FAIL(ARGUMENT, "--blocks is of presets; %.200s says its blocks itself",
                            wanted->task));
    }
    if (wanted->n_blocks > 0) {
        host->n_blocks = host->n_pools = wanted->n_blocks;
    }
    if (wanted->batch > 0) {
        host->batch = wanted->batch;
    }
    ES_TRY_GOTO(es_host_check(host));
done:
    if (status != ES_STATUS_OK) {
        es_host_unload(host);
    }
    return status;
}

// Images of noise in the host's sizes; classes in turn.
static EsStatus draw_noise(const EsHostSpec *host, int64_t n_train, int64_t n_validation,
                           EsDataset *dataset) {
    int64_t n_wanted = (n_train > 0 ? n_train : NOISE_IMAGES) + n_validation;
    // shares are rounded for each class
    int64_t n = n_wanted + n_wanted / 8 + 8 * (int64_t)host->n_classes;
    size_t image_bytes =
        (size_t)host->image_channels * (size_t)host->image_size * (size_t)host->image_size;
    uint8_t *pixels = NULL;
    int32_t *labels = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((size_t)n * image_bytes, (void **)&pixels));
    ES_TRY_GOTO(es_allocate((size_t)n * sizeof *labels, (void **)&labels));
    for (size_t i = 0; i < (size_t)n * image_bytes; i++) {
        pixels[i] = (uint8_t)((i * 2654435761u) >> 13);
    }
    for (int64_t i = 0; i < n; i++) {
        labels[i] = (int32_t)(i % host->n_classes);
    }
    EsDataArrays arrays = {.name = "noise",
                           .pixels = pixels,
                           .labels = labels,
                           .n = n,
                           .n_channels = host->image_channels,
                           .height = host->image_size,
                           .width = host->image_size,
                           .n_classes = host->n_classes};
    double share = (double)(n_validation + 2 * host->n_classes) / (double)n;
    EsDatasetOptions options = {.seed = 7, .validation_share = share, .test_share = 0.01};
    ES_TRY_GOTO(es_dataset_copy(dataset, &arrays, &options));
done:
    es_release(pixels);
    es_release(labels);
    return status;
}

EsStatus es_bench_open_data(EsHostSpec *host, int64_t n_train, int64_t n_validation,
                            EsDataset *dataset) {
    EsDatasetOptions options = {
        .seed = 7, .n_train = n_train, .n_validation = n_validation, .n_test = 10};
    if (host->text == NULL) {
        return es_dataset_open(dataset, host->dataset, &options, NULL);
    }
    if (host->dataset[0] == '\0' && host->kind != ES_HOST_DENSE) {
        return draw_noise(host, n_train, n_validation, dataset);
    }
    options = (EsDatasetOptions){.seed = 7};
    ES_TRY(es_host_open_dataset(host, NULL, &options, 0, dataset));
    return es_host_check(host);
}

EsStatus es_bench_parse_tf32(const EsBenchHost *wanted, int *is_tf32) {
    const char *text = wanted->tf32 != NULL ? wanted->tf32 : "on";
    *is_tf32 = strcmp(text, "on") == 0;
    return *is_tf32 || strcmp(text, "off") == 0
               ? ES_STATUS_OK
               : ES_FAIL(ARGUMENT, "--tf32 \"%.40s\" is not on or off", text);
}

void es_bench_host_end(void *context) {
    HostFixture *fixture = context;
    if (fixture != NULL) {
        es_host_trainer_destroy(fixture->trainer);
        es_dataset_destroy(&fixture->dataset);
        es_host_unload(&fixture->host);
        es_release(fixture);
    }
}

// Says why hosts do not run in the fastest way, where they do not.
static void note_executor(const HostFixture *fixture) {
    char executor[ES_EXECUTOR_BYTES];
    EsPlanReport report = es_host_trainer_report(fixture->trainer);
    if (report.fallback[0] != '\0') {
        es_message("note: host \"%s\" runs as a %s\n", fixture->host.name,
                   es_plan_report_executor(&report, executor));
    }
}

EsStatus es_bench_host_begin(const EsBenchHost *wanted, const EsBench *bench, void **fixture_out) {
    HostFixture *fixture = NULL;
    EsStatus status = ES_STATUS_OK;
    *fixture_out = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    ES_TRY_GOTO(es_bench_open_host(wanted, &fixture->host));
    // the content of the images does not matter here, their number does: more than the caches hold
    ES_TRY_GOTO(es_bench_open_data(&fixture->host, 0, 10, &fixture->dataset));
    EsHostTrainerOptions options = es_host_trainer_defaults(&fixture->host, wanted->n_envs);
    options.stream = bench->stream;
    options.precision = strcmp(wanted->precision, "bf16") == 0 ? ES_DTYPE_BF16 : ES_DTYPE_F32;
    ES_TRY_GOTO(es_bench_parse_tf32(wanted, &options.is_tf32));
    ES_TRY_GOTO(
        es_host_trainer_create(&options, &fixture->dataset, bench->device, &fixture->trainer));
    note_executor(fixture);
    *fixture_out = fixture;
done:
    if (status != ES_STATUS_OK) {
        es_bench_host_end(fixture);
    }
    return status;
}

static EsStatus begin_host(const EsBenchCase *bench_case, const EsBench *bench, void **fixture) {
    return es_bench_host_begin(bench_case->settings, bench, fixture);
}

EsStatus es_bench_host_step(void *context, int variant) {
    HostFixture *fixture = context;
    (void)variant;
    return es_host_trainer_train(fixture->trainer, 1);
}

static double count_images(const EsBenchCase *bench_case) {
    const EsBenchHost *wanted = bench_case->settings;
    return (double)wanted->n_envs * wanted->batch;
}

#define HOST_CASE(n, label, ...)                                                                   \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const EsBenchHost){__VA_ARGS__},             \
        .begin = begin_host, .run = es_bench_host_step, .end = es_bench_host_end,                  \
        .work = count_images, .rate_unit = "images/s"                                              \
    }

static const EsBenchCase cases[] = {
    HOST_CASE("cifar_baseline", "E=1 N=128 P=f32", .task = "cifar_baseline", .n_envs = 1,
              .batch = 128, .precision = "f32"),
    HOST_CASE("cifar_baseline", "E=4 N=128 P=f32", .task = "cifar_baseline", .n_envs = 4,
              .batch = 128, .precision = "f32"),
    HOST_CASE("cifar_baseline", "E=16 N=128 P=f32", .task = "cifar_baseline", .n_envs = 16,
              .batch = 128, .precision = "f32"),
    HOST_CASE("tiny", "E=16 N=64 P=f32", .task = "tiny", .n_envs = 16, .batch = 64,
              .precision = "f32"),
};

// The command line's host as the only case.
static EsStatus choose_host(const EsBenchHost *wanted, EsBenchCase *custom, int *n_custom) {
    static HostCase chosen; // cases run one after the other
    int is_tf32;
    ES_TRY(es_bench_parse_tf32(wanted, &is_tf32));
    *n_custom = wanted->task != NULL || wanted->n_envs > 0 || wanted->batch > 0 ||
                wanted->n_blocks > 0 || strcmp(wanted->precision, "f32") != 0 || !is_tf32;
    if (!*n_custom) {
        return ES_STATUS_OK;
    }
    if (strcmp(wanted->precision, "f32") != 0 && strcmp(wanted->precision, "bf16") != 0) {
        return ES_FAIL(ARGUMENT, "precision \"%.100s\" is not f32 or bf16", wanted->precision);
    }
    chosen.wanted = *wanted;
    chosen.wanted.task = wanted->task != NULL ? wanted->task : "cifar_baseline";
    chosen.wanted.n_envs = wanted->n_envs > 0 ? wanted->n_envs : 4;
    EsHostSpec host;
    ES_TRY(es_bench_open_host(&chosen.wanted, &host));
    chosen.wanted.batch = host.batch;
    snprintf(chosen.name, sizeof chosen.name, "%s", host.name);
    snprintf(chosen.parameters, sizeof chosen.parameters, "E=%d N=%d blocks=%d P=%s%s",
             chosen.wanted.n_envs, host.batch, host.n_blocks, wanted->precision,
             is_tf32 ? "" : " tf32=off");
    es_host_unload(&host);
    *custom = cases[0];
    custom->name = chosen.name;
    custom->parameters = chosen.parameters;
    custom->settings = &chosen.wanted;
    return ES_STATUS_OK;
}

const EsBenchSuite es_bench_host = {
    .name = "host",
    .summary = "training steps of many hosts at once, in images per second",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
    .choose = choose_host,
    .sweeps = "envs batch",
};
