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

typedef struct TelemetryState {
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
} TelemetryState;

// --- a sink that never comes back until it is let go ---

static EsStatus block(void *context, const EsPacket *packet) {
    TelemetryState *state = context;
    (void)packet;
    while (sem_wait(&state->release) != 0) {
    }
    sem_post(&state->release);
    return ES_STATUS_OK;
}

static EsStatus flush_nothing(void *context) {
    (void)context;
    return ES_STATUS_OK;
}

static void close_nothing(void *context) { (void)context; }

static EsStatus add_sinks(TelemetryState *state) {
    EsSink sink;
    char path[ES_BENCH_PATH_BYTES + 16];
    if (state->wanted->sinks == SINKS_BLOCKED) {
        sink = (EsSink){"blocked", state, block, flush_nothing, close_nothing};
        return es_hub_add_sink(state->hub, &sink);
    }
    snprintf(path, sizeof path, "%s/run.db", state->folder);
    ES_TRY(es_sqlite_sink_open(path, -1, &sink));
    ES_TRY(es_hub_add_sink(state->hub, &sink));
    snprintf(path, sizeof path, "%s/events.jsonl", state->folder);
    ES_TRY(es_jsonl_sink_open(path, -1, &sink));
    ES_TRY(es_hub_add_sink(state->hub, &sink));
    ES_TRY(es_tensorboard_sink_open(state->folder, -1, &sink));
    return es_hub_add_sink(state->hub, &sink);
}

// --- set-up ---

static void end_telemetry(void *context) {
    TelemetryState *state = context;
    if (state == NULL) {
        return;
    }
    sem_post(&state->release);
    es_hub_close(state->hub, NULL);
    es_bench_folder_remove(state->folder);
    es_host_trainer_destroy(state->trainer);
    es_dataset_destroy(&state->dataset);
    sem_destroy(&state->release);
    es_release(state->env_rows);
    es_release(state->decision_rows);
    es_release(state->reward_rows);
    es_release(state->contribution_rows);
    es_release(state->results);
    es_release(state);
}

static EsStatus allocate_rows(TelemetryState *state) {
    size_t n = (size_t)state->wanted->n_envs;
    ES_TRY(es_allocate(sizeof *state->env_rows * n, (void **)&state->env_rows));
    ES_TRY(es_allocate(sizeof *state->decision_rows * n, (void **)&state->decision_rows));
    ES_TRY(es_allocate(sizeof *state->reward_rows * n, (void **)&state->reward_rows));
    ES_TRY(es_allocate(sizeof *state->contribution_rows * n * SLOTS,
                       (void **)&state->contribution_rows));
    return es_allocate(sizeof *state->results * n, (void **)&state->results);
}

static EsStatus open_hub(TelemetryState *state) {
    EsHubOptions options = es_hub_defaults();
    ES_TRY(es_bench_folder_create(state->folder));
    options.stride = 1;
    options.spill_folder = state->folder;
    options.close_seconds = 5;
    ES_TRY(es_hub_create(&options, &state->hub));
    return add_sinks(state);
}

static EsStatus begin_telemetry(const EsBenchCase *bench_case, const EsBench *bench,
                                void **state_out) {
    const TelemetryCase *wanted = bench_case->settings;
    EsHostSpec host;
    TelemetryState *state = NULL;
    EsStatus status = ES_STATUS_OK;
    *state_out = NULL;
    ES_TRY(es_host_preset(wanted->task, &host));
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->wanted = wanted;
    sem_init(&state->release, 0, 0);
    EsDatasetOptions dataset_options = {.seed = 7, .n_validation = 10, .n_test = 10};
    ES_TRY_GOTO(es_dataset_create(&state->dataset, host.dataset, &dataset_options, NULL));
    EsHostTrainerOptions options = es_host_trainer_defaults(&host, wanted->n_envs);
    options.stream = bench->stream;
    ES_TRY_GOTO(es_host_trainer_create(&options, &state->dataset, bench->device, &state->trainer));
    ES_TRY_GOTO(allocate_rows(state));
    ES_TRY_GOTO(open_hub(state));
    *state_out = state;
done:
    if (status != ES_STATUS_OK) {
        end_telemetry(state);
    }
    return status;
}

// --- one step ---

static void emit_environments(TelemetryState *state, EsEventTime time) {
    static const char *const slots[SLOTS] = {"r0c0", "r0c1", "r0c2"};
    int n_envs = state->wanted->n_envs;
    for (int e = 0; e < n_envs; e++) {
        double loss = state->results[e].loss, accuracy = state->results[e].accuracy;
        state->env_rows[e] = (EsEnvSteppedEvent){e, e, loss, accuracy, loss, accuracy, 1.0, 2};
        state->decision_rows[e] = (EsDecisionTakenEvent){
            .env = e, .episode = e, .op = "WAIT", .confidence = 0.5, .entropy = 1.2, .value = loss};
        state->reward_rows[e] =
            (EsRewardComputedEvent){.env = e, .episode = e, .total = loss, .rent = -0.1};
        for (int slot = 0; slot < SLOTS; slot++) {
            state->contribution_rows[e * SLOTS + slot] = (EsContributionMeasuredEvent){
                .env = e, .episode = e, .slot = slots[slot], .contribution = accuracy};
        }
    }
    es_emit_env_stepped(state->hub, time, state->env_rows, n_envs);
    es_emit_decision_taken(state->hub, time, state->decision_rows, n_envs);
    es_emit_reward_computed(state->hub, time, state->reward_rows, n_envs);
    es_emit_contribution_measured(state->hub, time, state->contribution_rows,
                                  (int64_t)n_envs * SLOTS);
}

static EsStatus run_step(void *context, int variant) {
    static const char *const names[] = {"charts/SPS", "losses/value_loss", "esper.round.accuracy"};
    TelemetryState *state = context;
    ES_TRY(es_host_trainer_train(state->trainer, BATCHES_PER_STEP));
    ES_TRY(es_host_trainer_last_batch(state->trainer, state->results));
    if (variant == 1) {
        return ES_STATUS_OK;
    }
    EsEventTime time = {.round = 1 + state->step / 150, .step = state->step % 150};
    EsStepTimedEvent timed = {.total_ms = 1, .train_ms = 1};
    EsSeedStageChangedEvent stage = {.slot = "r0c1",
                                     .seed_id = "ep1_env0_seed_0",
                                     .blueprint = "norm",
                                     .from_stage = "TRAINING",
                                     .to_stage = "BLENDING"};
    EsMetricEvent metrics[METRICS];
    for (int i = 0; i < METRICS; i++) {
        metrics[i] = (EsMetricEvent){names[i % 3], (double)i};
    }
    emit_environments(state, time);
    es_emit_step_timed(state->hub, time, &timed, 1);
    es_emit_seed_stage_changed(state->hub, time, &stage, 1);
    es_emit_metric(state->hub, time, metrics, METRICS);
    es_hub_tick(state->hub);
    state->step++;
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
