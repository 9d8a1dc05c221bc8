// A run that trains hosts without seeds: rounds, progress, checkpoints and results.
#include "runs/grow/hosts_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "base/statistics.h"
#include "esper/log.h"
#include "growth/host/host_file.h"
#include "network/network_file.h"

// parts of a round between which a request to stop is noticed and progress is reported
#define CHUNKS_PER_ROUND 20

// progress is reported no more often than a console would draw it
#define SECONDS_BETWEEN_PROGRESS 0.2

struct EsHostsRun {
    const EsHostsSettings *settings; // borrowed
    EsHostSpec host;
    EsDevice *device;         // owned
    EsStream *stream;         // owned
    EsDataset dataset;        // owned
    EsHostTrainer *trainer;   // owned
    EsHostResult *training;   // owned [E], of the last batch
    EsHostResult *validation; // owned [E]
    EsHostResult *test;       // owned [E]
    int is_tested;            // validation and test are of the hosts as they are
    EsEnvSteppedEvent *rows;  // owned [E]
    double *losses;           // owned [E]
    int64_t batch;
    char data_hash[ES_SHA256_TEXT_BYTES]; // "" until a checkpoint needs it
};

// --- settings ---

static const EsConfigKey keys[] = {
    ES_RUN_CONFIG_KEYS(EsHostsSettings, run, "hosts", "20"),
    ES_CONFIG_TEXT(EsHostsSettings, task, "hosts", "task", "tiny",
                   "host and its data set, or the path of a host file"),
    ES_DATA_CONFIG_KEYS(
        EsHostsSettings, data, "hosts",
        "data set instead of the task's: tiny, generated, fashion-mnist, cifar10, idx, a path"),
    ES_CONFIG_INT(EsHostsSettings, n_envs, "hosts", "envs", "8", 1, 4096,
                  "hosts trained side by side"),
    ES_CONFIG_INT(EsHostsSettings, batch, "hosts", "batch", "0", 0, 65536,
                  "images per update, 0 = the task's"),
    ES_CONFIG_FLOAT(EsHostsSettings, learning_rate, "hosts", "rate", "0.01", 1e-9, 1e3,
                    "learning rate"),
    ES_CONFIG_INT(EsHostsSettings, recipe.pad, "hosts", "pad", "0", 0, 16,
                  "random crop from a border of N pixels"),
    ES_CONFIG_BOOL(EsHostsSettings, recipe.flip, "hosts", "flip", "off", "random horizontal flip"),
    ES_CONFIG_INT(EsHostsSettings, base, "hosts", "base", "0", 0, 1024,
                  "channels of the first block, 0 = the task's"),
    ES_CONFIG_INT(EsHostsSettings, n_blocks, "hosts", "blocks", "0", 0, 12,
                  "blocks, each with a pool, 0 = the task's"),
    ES_CONFIG_CHOICE(EsHostsSettings, precision, "hosts", "precision", "f32", "f32|bf16",
                     "precision of activations; bf16 on CUDA"),
    ES_CONFIG_CHOICE(EsHostsSettings, is_tf32, "hosts", "tf32", "on", "off|on",
                     "f32 convolutions on CUDA multiply in TF32"),
    ES_CONFIG_BOOL(EsHostsSettings, unfused, "hosts", "unfused", "off",
                   "run operation by operation, for debugging"),
    ES_RECIPE_CONFIG_KEYS(EsHostsSettings, recipe),
};

EsConfig es_hosts_run_config(EsHostsSettings *settings) {
    EsConfig config = {keys, ES_COUNT_OF(keys), settings, sizeof *settings};
    memset(settings, 0, sizeof *settings);
    es_config_reset(&config);
    return config;
}

// --- set-up ---

static EsStatus create_trainer(EsHostsRun *hosts) {
    const EsHostsSettings *settings = hosts->settings;
    EsHostTrainerOptions options = es_host_trainer_defaults(&hosts->host, settings->n_envs);
    hosts->batch = settings->batch > 0 ? settings->batch : hosts->host.batch;
    options.batch = hosts->batch;
    options.seed = (uint64_t)settings->run.seed;
    options.precision = settings->precision == 1 ? ES_DTYPE_BF16 : ES_DTYPE_F32;
    options.is_tf32 = settings->is_tf32;
    options.recipe = settings->recipe;
    options.epoch_updates = hosts->dataset.train.count / hosts->batch;
    options.n_updates = options.epoch_updates * settings->run.n_rounds;
    options.optimiser = es_recipe_optimiser(&settings->recipe, settings->learning_rate);
    options.mode = settings->unfused ? ES_COMPILE_OFF : ES_COMPILE_DEFAULT;
    options.stream = hosts->stream;
    if (hosts->batch > hosts->dataset.train.count) {
        return ES_FAIL(ARGUMENT, "a batch of %lld is larger than the %lld training images",
                       (long long)hosts->batch, (long long)hosts->dataset.train.count);
    }
    return es_host_trainer_create(&options, &hosts->dataset, hosts->device, &hosts->trainer);
}

static EsStatus create_parts(EsHostsRun *hosts) {
    const EsHostsSettings *settings = hosts->settings;
    ES_TRY(es_host_find(settings->task, &hosts->host));
    if (settings->base > 0 && hosts->host.text != NULL) {
        es_log(ES_LOG_WARNING, "--base is of presets; %s says the channels of its blocks itself",
               settings->task);
    }
    if (settings->base > 0) {
        hosts->host.base = settings->base;
    }
    if (settings->n_blocks > 0) {
        hosts->host.n_blocks = settings->n_blocks;
        hosts->host.n_pools = hosts->host.kind == ES_HOST_DENSE ? 0 : settings->n_blocks;
    }
    EsDeviceOptions device_options = {.n_threads = settings->run.n_threads};
    ES_TRY(es_device_open(settings->run.device, &device_options, &hosts->device));
    ES_TRY(es_stream_create(hosts->device, &hosts->stream));
    EsDatasetOptions wanted = es_data_settings_options(&settings->data);
    ES_TRY(es_host_open_dataset(&hosts->host, settings->data.name, &wanted, settings->run.n_threads,
                                &hosts->dataset));
    ES_TRY(es_host_check(&hosts->host));
    ES_TRY(create_trainer(hosts));
    size_t n_envs = (size_t)settings->n_envs;
    ES_TRY(es_allocate(sizeof(EsHostResult) * n_envs, (void **)&hosts->training));
    ES_TRY(es_allocate(sizeof(EsHostResult) * n_envs, (void **)&hosts->validation));
    ES_TRY(es_allocate(sizeof(EsHostResult) * n_envs, (void **)&hosts->test));
    ES_TRY(es_allocate(sizeof(double) * n_envs, (void **)&hosts->losses));
    return es_allocate(sizeof(EsEnvSteppedEvent) * n_envs, (void **)&hosts->rows);
}

EsStatus es_hosts_run_create(const EsHostsSettings *settings, EsHostsRun **hosts_out) {
    EsHostsRun *hosts = NULL;
    *hosts_out = NULL;
    ES_TRY(es_allocate(sizeof *hosts, (void **)&hosts));
    hosts->settings = settings;
    EsStatus status = create_parts(hosts);
    if (status != ES_STATUS_OK) {
        es_hosts_run_destroy(hosts);
        return status;
    }
    *hosts_out = hosts;
    return ES_STATUS_OK;
}

void es_hosts_run_destroy(EsHostsRun *hosts) {
    if (hosts == NULL) {
        return;
    }
    es_host_trainer_destroy(hosts->trainer);
    es_stream_destroy(hosts->stream);
    es_dataset_destroy(&hosts->dataset);
    es_host_unload(&hosts->host);
    es_device_close(hosts->device);
    es_release(hosts->training);
    es_release(hosts->validation);
    es_release(hosts->test);
    es_release(hosts->rows);
    es_release(hosts->losses);
    es_release(hosts);
}

// --- a round ---

static void summarise(const EsHostResult *results, int n, EsRoundReport *report) {
    double loss_std = 0;
    report->has_diverged = 1;
    for (int e = 0; e < n && report->has_diverged; e++) {
        report->has_diverged = !isfinite(results[e].loss);
    }
    report->accuracy = es_mean(&results[0].accuracy, n, sizeof *results, &report->accuracy_std);
    if (n == 1) {
        report->accuracy_std = es_missing_real(); // one host has no spread
    }
    report->loss = es_mean(&results[0].loss, n, sizeof *results, &loss_std);
}

// Reports what runs the batches: fused kernels, a plan, and why not the faster one.
static void emit_executor(const EsHostsRun *hosts, EsHub *hub, EsEventTime time) {
    EsPlanReport plan = es_host_trainer_report(hosts->trainer);
    int is_cuda = es_device_info(hosts->device)->kind == ES_DEVICE_CUDA;
    EsPlansMeasuredEvent row = {.n_plans = 1,
                                .n_builds = 1,
                                .n_hits = ES_MISSING_INT,
                                .n_evictions = ES_MISSING_INT,
                                .build_ms = plan.build_ms,
                                .n_captures = is_cuda ? plan.is_captured : ES_MISSING_INT,
                                .n_replays = ES_MISSING_INT,
                                .n_fallbacks = plan.fallback[0] != '\0',
                                .capture_ms = is_cuda ? plan.capture_ms : es_missing_real(),
                                .fallback = plan.fallback[0] != '\0' ? plan.fallback : NULL,
                                .fused_bytes = plan.is_fused ? (int64_t)plan.activation_bytes
                                                             : ES_MISSING_INT};
    es_emit_plans_measured(hub, time, &row, 1);
}

static void emit_hosts(EsHostsRun *hosts, EsRun *run, int64_t round,
                       const EsStepTimedEvent *timed) {
    EsHub *hub = es_run_hub(run);
    EsEventTime time = {.round = round, .step = 0};
    int n_envs = hosts->settings->n_envs;
    for (int e = 0; e < n_envs; e++) {
        hosts->losses[e] = hosts->validation[e].loss;
    }
    EsHostsHealth health = {hosts->losses, n_envs, 0};
    es_anomaly_check_hosts(es_run_detector(run), &health, es_run_anomalies(run));
    es_run_emit_anomalies(run, time);
    es_emit_step_timed(hub, time, timed, 1);
    emit_executor(hosts, hub, (EsEventTime){.round = round, .step = -1});
    if (es_hub_wants(hub, ES_EVENT_ENV_STEPPED, time.step)) {
        for (int e = 0; e < n_envs; e++) {
            hosts->rows[e] =
                (EsEnvSteppedEvent){.env = e,
                                    .episode = e,
                                    .train_loss = hosts->training[e].loss,
                                    .train_accuracy = hosts->training[e].accuracy,
                                    .validation_loss = hosts->validation[e].loss,
                                    .validation_accuracy = hosts->validation[e].accuracy,
                                    .host_gradient_norm = es_missing_real(),
                                    .n_seeds = 0};
        }
        es_emit_env_stepped(hub, time, hosts->rows, n_envs);
    }
    es_hub_tick(hub);
}

// The last round ends every host's only episode.
static EsStatus emit_outcomes(EsHostsRun *hosts, EsRun *run, int64_t round) {
    int n_envs = hosts->settings->n_envs;
    EsEpisodeOutcomeEvent *rows = NULL;
    ES_TRY(es_allocate(sizeof *rows * (size_t)n_envs, (void **)&rows));
    for (int e = 0; e < n_envs; e++) {
        rows[e] = (EsEpisodeOutcomeEvent){.env = e,
                                          .episode = e,
                                          .final_accuracy = hosts->validation[e].accuracy,
                                          .final_loss = hosts->validation[e].loss,
                                          .test_accuracy = es_missing_real(),
                                          .parameter_ratio = 1,
                                          .reward = es_missing_real(),
                                          .stability = es_missing_real(),
                                          .n_steps = round,
                                          .control_accuracy = es_missing_real()};
    }
    es_emit_episode_outcome(es_run_hub(run), (EsEventTime){.round = round, .step = -1}, rows,
                            n_envs);
    es_release(rows);
    return ES_STATUS_OK;
}

static void emit_progress(EsHostsRun *hosts, EsRun *run, int64_t round, double share,
                          int64_t n_batches, double seconds) {
    EsRoundProgressedEvent row = {.percent = 100 * share,
                                  .n_images = n_batches * hosts->batch * hosts->settings->n_envs,
                                  .seconds = seconds};
    es_emit_round_progressed(es_run_hub(run), (EsEventTime){.round = round, .step = -1}, &row, 1);
}

static EsStatus train_round(EsHostsRun *hosts, EsRun *run, int64_t round, int64_t n_batches) {
    int64_t chunk = ES_MAX((n_batches + CHUNKS_PER_ROUND - 1) / CHUNKS_PER_ROUND, 1);
    int64_t start_ns = es_clock_ns(), reported_ns = start_ns;
    for (int64_t done = 0; done < n_batches; done += chunk) {
        if (es_run_must_drop(run)) {
            return ES_FAIL(INTERRUPTED, "the round was dropped");
        }
        int64_t n = ES_MIN(chunk, n_batches - done);
        ES_TRY(es_host_trainer_train(hosts->trainer, n));
        ES_TRY(es_host_trainer_wait(hosts->trainer));
        if (es_clock_seconds_since(reported_ns) >= SECONDS_BETWEEN_PROGRESS) {
            reported_ns = es_clock_ns();
            emit_progress(hosts, run, round, (double)(done + n) / (double)n_batches, done + n,
                          es_clock_seconds_since(start_ns));
        }
    }
    return es_host_trainer_last_batch(hosts->trainer, hosts->training);
}

static EsStatus run_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    EsHostsRun *hosts = context;
    int n_envs = hosts->settings->n_envs;
    int64_t n_batches = hosts->dataset.train.count / hosts->batch;
    EsStepTimedEvent timed = {.decide_ms = es_missing_real()};
    int64_t start_ns = es_clock_ns();
    ES_TRY(train_round(hosts, run, round, n_batches));
    timed.train_ms = es_run_phase_end(run, ES_PHASE_TRAIN, start_ns);
    int64_t validate_ns = es_clock_ns();
    ES_TRY(es_host_trainer_evaluate(hosts->trainer, &hosts->dataset.validation, hosts->validation));
    timed.validate_ms = es_run_phase_end(run, ES_PHASE_VALIDATE, validate_ns);
    timed.total_ms = es_clock_seconds_since(start_ns) * 1e3;
    summarise(hosts->validation, n_envs, report);
    report->n_steps = n_envs;
    report->n_images = n_batches * hosts->batch * n_envs;
    const EsDeviceInfo *device = es_device_info(hosts->device);
    if (device->kind != ES_DEVICE_CPU) {
        EsHostsReport parts = es_hosts_run_report(hosts);
        report->allocated_bytes =
            (int64_t)(parts.store_bytes + parts.activation_bytes + parts.dataset_bytes);
        report->device_bytes = (int64_t)device->memory_bytes;
    }
    emit_hosts(hosts, run, round, &timed);
    return round == hosts->settings->run.n_rounds ? emit_outcomes(hosts, run, round) : ES_STATUS_OK;
}

// --- state ---

static void describe(void *context, EsRunStartedEvent *row) {
    const EsHostsRun *hosts = context;
    row->task = hosts->settings->task;
    row->n_envs = hosts->settings->n_envs;
    row->n_host_parameters = es_graph_parameter_count(es_host_trainer_graph(hosts->trainer));
}

static const char *data_hash(EsHostsRun *hosts) {
    if (hosts->data_hash[0] == '\0') {
        es_dataset_fingerprint(&hosts->dataset, hosts->data_hash);
    }
    return hosts->data_hash;
}

static EsStatus save(void *context, EsCheckpoint *checkpoint) {
    EsHostsRun *hosts = context;
    char path[ES_RUN_PATH_BYTES];
    int32_t step = 0;
    EsTensor counter = es_host_trainer_step(hosts->trainer);
    ES_TRY(es_stream_copy(hosts->stream, &step, counter.data, sizeof step, ES_COPY_TO_HOST));
    ES_TRY(es_stream_synchronize(hosts->stream));
    ES_TRY(es_checkpoint_put_int(checkpoint, "batches", step));
    ES_TRY(es_checkpoint_put_text(checkpoint, "data_sha256", data_hash(hosts)));
    const EsGraph *graph = es_host_trainer_graph(hosts->trainer);
    const EsStore *average = es_host_trainer_average(hosts->trainer);
    ES_TRY(es_checkpoint_add_file(checkpoint, "hosts.safetensors", path));
    ES_TRY(es_network_file_save(path, graph, es_host_trainer_store(hosts->trainer),
                                es_host_trainer_optimiser(hosts->trainer), hosts->stream, NULL, 0));
    if (average == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_checkpoint_add_file(checkpoint, "average.safetensors", path));
    return es_network_file_save(path, graph, average, NULL, hosts->stream, NULL, 0);
}

static EsStatus load(void *context, const EsCheckpoint *checkpoint) {
    EsHostsRun *hosts = context;
    char path[ES_RUN_PATH_BYTES];
    int64_t batches = 0, round = es_checkpoint_round(checkpoint);
    ES_TRY(es_checkpoint_check_input(checkpoint, "data_sha256", data_hash(hosts), "the data set"));
    ES_TRY(es_checkpoint_int(checkpoint, "batches", &batches));
    // every round has trained on as many, and the trainer counts them in 32 bits
    int64_t expected = ES_MIN(round * (hosts->dataset.train.count / hosts->batch), INT32_MAX);
    ES_TRY(es_check_integer(
        (EsFileField){es_checkpoint_path(checkpoint, "rank0.json", path), "batches", ES_NO_INDEX},
        batches, expected, expected));
    const EsGraph *graph = es_host_trainer_graph(hosts->trainer);
    EsStore *average = es_host_trainer_average(hosts->trainer);
    ES_TRY(es_network_file_load(es_checkpoint_path(checkpoint, "hosts.safetensors", path), graph,
                                es_host_trainer_store(hosts->trainer),
                                es_host_trainer_optimiser(hosts->trainer), hosts->stream,
                                ES_NUMBERS_ANY));
    if (average != NULL) {
        ES_TRY(es_network_file_load(es_checkpoint_path(checkpoint, "average.safetensors", path),
                                    graph, average, NULL, hosts->stream, ES_NUMBERS_ANY));
    }
    EsTensor counter = es_host_trainer_step(hosts->trainer);
    int32_t step = (int32_t)batches;
    ES_TRY(es_stream_copy(hosts->stream, counter.data, &step, sizeof step, ES_COPY_TO_DEVICE));
    return es_stream_synchronize(hosts->stream);
}

// --- results ---

EsStatus es_hosts_run_test(EsHostsRun *hosts) {
    if (hosts->is_tested) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_host_trainer_evaluate(hosts->trainer, &hosts->dataset.validation, hosts->validation));
    ES_TRY(es_host_trainer_evaluate(hosts->trainer, &hosts->dataset.test, hosts->test));
    hosts->is_tested = 1;
    return ES_STATUS_OK;
}

// The test split is looked at after the last round, outside of its time.
static EsStatus finish(void *context, EsRun *run) {
    EsHostsRun *hosts = context;
    int64_t n_envs = hosts->settings->n_envs;
    double deviation = 0;
    ES_TRY(es_hosts_run_test(hosts));
    double mean = es_mean(&hosts->test[0].accuracy, n_envs, sizeof hosts->test[0], &deviation);
    const EsMetricEvent rows[] = {
        es_metric("esper.hosts.test_accuracy", mean),
        es_metric("esper.hosts.test_accuracy_std", n_envs > 1 ? deviation : es_missing_real())};
    es_emit_metric(es_run_hub(run), (EsEventTime){.round = es_run_rounds_done(run), .step = -1},
                   rows, n_envs > 1 ? 2 : 1);
    return ES_STATUS_OK;
}

EsRunWork es_hosts_run_work(EsHostsRun *hosts) {
    return (EsRunWork){.context = hosts,
                       .describe = describe,
                       .round = run_round,
                       .save = save,
                       .load = load,
                       .finish = finish};
}

EsHostsReport es_hosts_run_report(const EsHostsRun *hosts) {
    const EsStore *store = es_host_trainer_store(hosts->trainer);
    const EsOptimiser *optimiser = es_host_trainer_optimiser(hosts->trainer);
    const EsStore *average = es_host_trainer_average(hosts->trainer);
    const EsDataset *dataset = &hosts->dataset;
    int64_t n_images = dataset->train.count + dataset->validation.count + dataset->test.count;
    size_t average_bytes =
        average == NULL ? 0
                        : es_tensor_bytes(&average->parameters) + es_tensor_bytes(&average->states);
    return (EsHostsReport){
        .host = &hosts->host,
        .dataset = dataset,
        .n_envs = hosts->settings->n_envs,
        .batch = hosts->batch,
        .n_parameters = es_graph_parameter_count(es_host_trainer_graph(hosts->trainer)),
        .validation = hosts->validation,
        .test = hosts->test,
        .store_bytes = es_tensor_bytes(&store->parameters) + es_tensor_bytes(&store->gradients) +
                       es_tensor_bytes(&store->states) + es_tensor_bytes(&optimiser->moment1) +
                       es_tensor_bytes(&optimiser->moment2) + average_bytes,
        .activation_bytes = es_host_trainer_report(hosts->trainer).activation_bytes,
        .dataset_bytes = (size_t)n_images * dataset->image_bytes,
        .plan = es_host_trainer_report(hosts->trainer),
        .device = es_device_info(hosts->device)};
}

EsStatus es_hosts_run_predict(EsHostsRun *hosts, double *round_seconds) {
    int64_t n_batches = hosts->dataset.train.count / hosts->batch;
    int64_t n_timed = ES_MIN(n_batches, 20);
    ES_TRY(es_host_trainer_train(hosts->trainer, 2));
    ES_TRY(es_host_trainer_wait(hosts->trainer));
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_host_trainer_train(hosts->trainer, n_timed));
    ES_TRY(es_host_trainer_wait(hosts->trainer));
    *round_seconds = es_clock_seconds_since(start_ns) * (double)n_batches / (double)n_timed;
    start_ns = es_clock_ns();
    ES_TRY(es_host_trainer_evaluate(hosts->trainer, &hosts->dataset.validation, hosts->validation));
    *round_seconds += es_clock_seconds_since(start_ns);
    return ES_STATUS_OK;
}
