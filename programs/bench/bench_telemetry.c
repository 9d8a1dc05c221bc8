// The suite `telemetry`: the cost of recording for training. A run is one step of E hosts, eight
// batches each, and the events a step of growth gives, at stride 1; the peer is the same step with
// no hub. The ratio is time off over time on: 0.97 is three percent slower.
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_suite.h"
#include "growth/engine/host_trainer.h"
#include "telemetry/hub.h"

#define BATCHES_PER_STEP 8
#define SLOTS            3
#define METRICS          24

typedef enum SinkSet { SINKS_FILES, SINKS_BLOCKED } SinkSet;

typedef struct TelemetryCase {
    const char *task;
    int n_envs;
    SinkSet sinks;
} TelemetryCase;

typedef struct TelemetryFixture {
    const TelemetryCase *wanted;
    EsDataset dataset;                // owned
    EsHostTrainer *trainer;           // owned
    EsHub *hub;                       // owned
    char folder[ES_BENCH_PATH_BYTES]; // owned: removed at the end
    int64_t step;
    sem_t release; // lets a blocked sink go
    EsEnvSteppedEvent *env_rows;
    EsDecisionTakenEvent *decision_rows;
    EsRewardComputedEvent *reward_rows;
    EsContributionMeasuredEvent *contribution_rows; // [E, SLOTS]
    EsHostResult *results;
} TelemetryFixture;

// --- a sink that never comes back until it is let go ---

static EsStatus block(void *context, const EsPacket *packet) {
    TelemetryFixture *fixture = context;
    (void)packet;
    while (sem_wait(&fixture->release) != 0) {
    }
    sem_post(&fixture->release);
    return ES_STATUS_OK;
}

static EsStatus flush_nothing(void *context) {
    (void)context;
    return ES_STATUS_OK;
}

static void close_nothing(void *context) { (void)context; }

static EsStatus add_sinks(TelemetryFixture *fixture) {
    EsSink sink;
    char path[ES_BENCH_PATH_BYTES + 16];
    if (fixture->wanted->sinks == SINKS_BLOCKED) {
        sink = (EsSink){"blocked", fixture, block, flush_nothing, close_nothing};
        return es_hub_add_sink(fixture->hub, &sink);
    }
    snprintf(path, sizeof path, "%s/run.db", fixture->folder);
    ES_TRY(es_sqlite_sink_open(path, -1, &sink));
    ES_TRY(es_hub_add_sink(fixture->hub, &sink));
    snprintf(path, sizeof path, "%s/events.jsonl", fixture->folder);
    ES_TRY(es_jsonl_sink_open(path, -1, &sink));
    ES_TRY(es_hub_add_sink(fixture->hub, &sink));
    ES_TRY(es_tensorboard_sink_open(fixture->folder, -1, &sink));
    return es_hub_add_sink(fixture->hub, &sink);
}

// --- set-up ---

static void end_telemetry(void *context) {
    TelemetryFixture *fixture = context;
    if (fixture == NULL) {
        return;
    }
    sem_post(&fixture->release);
    es_hub_close(fixture->hub, NULL);
    es_bench_folder_remove(fixture->folder);
    es_host_trainer_destroy(fixture->trainer);
    es_dataset_destroy(&fixture->dataset);
    sem_destroy(&fixture->release);
    es_release(fixture->env_rows);
    es_release(fixture->decision_rows);
    es_release(fixture->reward_rows);
    es_release(fixture->contribution_rows);
    es_release(fixture->results);
    es_release(fixture);
}

static EsStatus allocate_rows(TelemetryFixture *fixture) {
    size_t n = (size_t)fixture->wanted->n_envs;
    ES_TRY(es_allocate(sizeof *fixture->env_rows * n, (void **)&fixture->env_rows));
    ES_TRY(es_allocate(sizeof *fixture->decision_rows * n, (void **)&fixture->decision_rows));
    ES_TRY(es_allocate(sizeof *fixture->reward_rows * n, (void **)&fixture->reward_rows));
    ES_TRY(es_allocate(sizeof *fixture->contribution_rows * n * SLOTS,
                       (void **)&fixture->contribution_rows));
    return es_allocate(sizeof *fixture->results * n, (void **)&fixture->results);
}

static EsStatus open_hub(TelemetryFixture *fixture) {
    EsHubOptions options = es_hub_defaults();
    ES_TRY(es_bench_folder_create(fixture->folder));
    options.stride = 1;
    options.spill_folder = fixture->folder;
    options.close_seconds = 5;
    ES_TRY(es_hub_create(&options, &fixture->hub));
    return add_sinks(fixture);
}

static EsStatus begin_telemetry(const EsBenchCase *bench_case, const EsBench *bench,
                                void **fixture_out) {
    const TelemetryCase *wanted = bench_case->settings;
    EsHostSpec host;
    TelemetryFixture *fixture = NULL;
    EsStatus status = ES_STATUS_OK;
    *fixture_out = NULL;
    ES_TRY(es_host_preset(wanted->task, &host));
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->wanted = wanted;
    sem_init(&fixture->release, 0, 0);
    EsDatasetOptions dataset_options = {.seed = 7, .n_validation = 10, .n_test = 10};
    ES_TRY_GOTO(es_dataset_open(&fixture->dataset, host.dataset, &dataset_options, NULL));
    EsHostTrainerOptions options = es_host_trainer_defaults(&host, wanted->n_envs);
    options.stream = bench->stream;
    ES_TRY_GOTO(
        es_host_trainer_create(&options, &fixture->dataset, bench->device, &fixture->trainer));
    ES_TRY_GOTO(allocate_rows(fixture));
    ES_TRY_GOTO(open_hub(fixture));
    *fixture_out = fixture;
done:
    if (status != ES_STATUS_OK) {
        end_telemetry(fixture);
    }
    return status;
}

// --- one step ---

static void emit_environments(TelemetryFixture *fixture, EsEventTime time) {
    static const char *const slots[SLOTS] = {"r0c0", "r0c1", "r0c2"};
    int n_envs = fixture->wanted->n_envs;
    for (int e = 0; e < n_envs; e++) {
        double loss = fixture->results[e].loss, accuracy = fixture->results[e].accuracy;
        fixture->env_rows[e] = (EsEnvSteppedEvent){e, e, loss, accuracy, loss, accuracy, 1.0, 2};
        fixture->decision_rows[e] = (EsDecisionTakenEvent){
            .env = e, .episode = e, .op = "WAIT", .confidence = 0.5, .entropy = 1.2, .value = loss};
        fixture->reward_rows[e] =
            (EsRewardComputedEvent){.env = e, .episode = e, .total = loss, .rent = -0.1};
        for (int slot = 0; slot < SLOTS; slot++) {
            fixture->contribution_rows[e * SLOTS + slot] = (EsContributionMeasuredEvent){
                .env = e, .episode = e, .slot = slots[slot], .contribution = accuracy};
        }
    }
    es_emit_env_stepped(fixture->hub, time, fixture->env_rows, n_envs);
    es_emit_decision_taken(fixture->hub, time, fixture->decision_rows, n_envs);
    es_emit_reward_computed(fixture->hub, time, fixture->reward_rows, n_envs);
    es_emit_contribution_measured(fixture->hub, time, fixture->contribution_rows,
                                  (int64_t)n_envs * SLOTS);
}

static EsStatus run_step(void *context, int variant) {
    static const char *const names[] = {"charts/SPS", "losses/value_loss", "esper.round.accuracy"};
    TelemetryFixture *fixture = context;
    ES_TRY(es_host_trainer_train(fixture->trainer, BATCHES_PER_STEP));
    ES_TRY(es_host_trainer_last_batch(fixture->trainer, fixture->results));
    if (variant == 1) {
        return ES_STATUS_OK;
    }
    EsEventTime time = {.round = 1 + fixture->step / 150, .step = fixture->step % 150};
    EsStepTimedEvent timed = {.total_ms = 1, .train_ms = 1};
    EsSeedStageChangedEvent stage = {.slot = "r0c1",
                                     .seed_id = "ep1_env0_seed_0",
                                     .blueprint = "norm",
                                     .from_stage = "TRAINING",
                                     .to_stage = "BLENDING"};
    EsMetricEvent metrics[METRICS];
    for (int i = 0; i < METRICS; i++) {
        metrics[i] = es_metric(names[i % 3], (double)i);
    }
    emit_environments(fixture, time);
    es_emit_step_timed(fixture->hub, time, &timed, 1);
    es_emit_seed_stage_changed(fixture->hub, time, &stage, 1);
    es_emit_metric(fixture->hub, time, metrics, METRICS);
    es_hub_tick(fixture->hub);
    fixture->step++;
    return ES_STATUS_OK;
}

static double count_images(const EsBenchCase *bench_case) {
    const TelemetryCase *wanted = bench_case->settings;
    EsHostSpec host;
    return es_host_preset(wanted->task, &host) == ES_STATUS_OK
               ? (double)wanted->n_envs * host.batch * BATCHES_PER_STEP
               : 0;
}

#define TELEMETRY_CASE(n, label, ...)                                                              \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const TelemetryCase){__VA_ARGS__},           \
        .begin = begin_telemetry, .run = run_step, .end = end_telemetry, .work = count_images,     \
        .rate_unit = "images/s", .peer = "no telemetry"                                            \
    }

static const EsBenchCase cases[] = {
    TELEMETRY_CASE("files", "task=tiny E=16", "tiny", 16, SINKS_FILES),
    TELEMETRY_CASE("files", "task=cifar_baseline E=16", "cifar_baseline", 16, SINKS_FILES),
    TELEMETRY_CASE("blocked", "task=tiny E=16", "tiny", 16, SINKS_BLOCKED),
};

const EsBenchSuite es_bench_telemetry = {
    .name = "telemetry",
    .summary = "training with all events recorded, and with a sink that blocks, against none",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
};
