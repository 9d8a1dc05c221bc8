// The suite `host`: training steps of E hosts side by side, in images per second. A run gathers its
// batches from the data set, so that nothing is left out of the time.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_cases.h"
#include "growth/engine/host_trainer.h"

typedef struct HostCase {
    EsBenchHost wanted;
    char parameters[96];
} HostCase;

typedef struct HostFixture {
    EsDataset dataset;      // owned
    EsHostTrainer *trainer; // owned
} HostFixture;

static EsStatus host_of(const EsBenchHost *wanted, EsHostSpec *host) {
    ES_TRY(es_host_preset(wanted->task, host));
    if (wanted->n_blocks > 0) {
        host->n_blocks = host->n_pools = wanted->n_blocks;
    }
    if (wanted->batch > 0) {
        host->batch = wanted->batch;
    }
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
        es_release(fixture);
    }
}

EsStatus es_bench_host_begin(const EsBenchHost *wanted, const EsBench *bench, void **fixture_out) {
    EsHostSpec host;
    HostFixture *fixture = NULL;
    EsStatus status = ES_STATUS_OK;
    *fixture_out = NULL;
    ES_TRY(host_of(wanted, &host));
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    // the content of the images does not matter here, their number does: more than the caches hold
    EsDatasetOptions dataset_options = {.seed = 7, .n_validation = 10, .n_test = 10};
    ES_TRY_GOTO(es_dataset_open(&fixture->dataset, host.dataset, &dataset_options, NULL));
    EsHostTrainerOptions options = es_host_trainer_defaults(&host, wanted->n_envs);
    options.stream = bench->stream;
    options.precision = strcmp(wanted->precision, "bf16") == 0 ? ES_DTYPE_BF16 : ES_DTYPE_F32;
    ES_TRY_GOTO(es_bench_parse_tf32(wanted, &options.is_tf32));
    ES_TRY_GOTO(
        es_host_trainer_create(&options, &fixture->dataset, bench->device, &fixture->trainer));
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
    EsHostSpec host;
    return host_of(wanted, &host) == ES_STATUS_OK ? (double)wanted->n_envs * host.batch : 0;
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
    ES_TRY(host_of(&chosen.wanted, &host));
    snprintf(chosen.parameters, sizeof chosen.parameters, "E=%d N=%d blocks=%d P=%s%s",
             chosen.wanted.n_envs, host.batch, host.n_blocks, wanted->precision,
             is_tf32 ? "" : " tf32=off");
    *custom = cases[0];
    custom->name = host.name;
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
