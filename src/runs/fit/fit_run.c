// A search as a run: data and hosts, epochs with events, checkpoints, the network on disk, results.
#include "runs/fit/fit_run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "runs/fit/fit_search.h"
#include "runs/grow/grow_events.h"

#define SECONDS_BETWEEN_PROGRESS 0.2

// Progress of the epoch at hand, counted by the threads that train.
typedef struct Progress {
    atomic_llong n_batches; // done
    int64_t n_all;
    int64_t start_ns, reported_ns;
    pthread_t reporter; // the thread that emits it
} Progress;

struct EsFitRun {
    const EsFitSettings *settings;        // borrowed
    EsFitDevices devices;                 // owned
    EsDataset dataset;                    // owned
    EsFitPlan plan;                       // owned
    EsFitRails *rails;                    // owned; NULL without
    EsFitSearch *search;                  // owned
    EsGrowEvents *events[ES_HOST_SHAPES]; // owned, of the groups; NULL when all were dropped
    int n_watched[ES_HOST_SHAPES];        // candidates that events are for
    EsEnvSteppedEvent *rows;              // owned [candidates]
    int64_t start_ns;                     // of this session, with its data to be read
    double earlier_seconds;               // of the sessions since the last without a limit of time
    double epoch_seconds;                 // that the number of epochs was chosen by, or 0
    EsNetworkScore score;
    int has_score;
    EsFitComparison *comparison; // owned; NULL until it is made
    Progress progress;
    EsRun *run;    // borrowed, during a round
    int64_t round; // that is running, or was last; 0: none yet
    int is_halted; // by the rails
};

// --- settings ---

static const EsConfigKey keys[] = {
    ES_RUN_CONFIG_KEYS_CALLED(
        EsFitSettings, run, "fit", "epoch", "0", 0,
        "total number of epochs; 0 = 20, of rows at least 300 updates, or with max_seconds as many "
        "as end in time",
        "cpu, cuda or cuda:N"),
    ES_DATA_CONFIG_KEYS(EsFitSettings, data, "fit",
                        "data set: a folder of images by class, .npy, .csv, IDX or CIFAR-10 files, "
                        "fashion-mnist, tiny, generated"),
    ES_CONFIG_TEXT(EsFitSettings, task, "fit", "task", "",
                   "host to grow: a preset or the path of a host file (empty: chosen)"),
    ES_CONFIG_INT(EsFitSettings, max_parameters, "fit", "max_params", "100000", 100, 100000000,
                  "most parameters of the grown network"),
    ES_CONFIG_INT(EsFitSettings, n_candidates, "fit", "candidates", "4", 1, 256,
                  "networks that grow side by side; half of them is dropped again and again"),
    ES_CONFIG_TEXT(
        EsFitSettings, policy, "fit", "policy", "",
        "who decides on growth: eager, heuristic, random, wait, script:FILE or a policy's file "
        "(empty: chosen)"),
    ES_CONFIG_FLOAT(EsFitSettings, max_seconds, "fit", "max_seconds", "0", 0, 1e9,
                    "no epoch begins after this time, reading of data included, and earlier "
                    "sessions back to the last without a limit; 0 = no limit"),
    ES_CONFIG_FLOAT(EsFitSettings, target_accuracy, "fit", "target_accuracy", "0", 0, 100,
                    "validation accuracy at which the fit ends, percent; 0 = none"),
    ES_CONFIG_INT(EsFitSettings, n_compared, "fit", "compare", "0", 0, 32,
                  "seeds of a comparison with simple alternatives at the end, 0 = none"),
    ES_CONFIG_INT(EsFitSettings, batch, "fit", "batch", "0", 0, 65536,
                  "samples per update, 0 = 128, or fewer for small data"),
    ES_CONFIG_INT(EsFitSettings, epoch_batches, "fit", "epoch_batches", "0", 0, 100000,
                  "updates between two decisions, 0 = a pass over the training samples"),
    ES_CONFIG_FLOAT(EsFitSettings, host_learning_rate, "fit", "rate", "0", 0, 1e3,
                    "learning rate of hosts, at its highest; 0 = 0.1, of rows 0.01"),
    ES_CONFIG_FLOAT(EsFitSettings, seed_learning_rate, "fit", "seed_rate", "0", 0, 1e3,
                    "learning rate of seeds, at its highest; 0 = 0.1, of rows 0.01"),
    ES_CONFIG_FLOAT(EsFitSettings, clip, "fit", "clip", "5", 0, 1e6,
                    "most norm of a host's or seed's gradient, 0 = any"),
    ES_CONFIG_INT(EsFitSettings, recipe.pad, "fit", "pad", "2", 0, 16,
                  "images: random crop from a border of N pixels"),
    ES_CONFIG_BOOL(EsFitSettings, recipe.flip, "fit", "flip", "on",
                   "images: random horizontal flip; turn it off for letters and digits"),
    ES_RECIPE_CONFIG_KEYS_TUNED(EsFitSettings, recipe),
    ES_RAILS_CONFIG_KEYS(EsFitSettings, rails),
};

EsConfig es_fit_run_config(EsFitSettings *settings) {
    EsConfig config = {keys, ES_COUNT_OF(keys), settings, sizeof *settings};
    memset(settings, 0, sizeof *settings);
    es_config_reset(&config);
    return config;
}

// --- set-up ---

static EsStatus open_dataset(EsFitRun *fit) {
    const EsFitSettings *settings = fit->settings;
    if (settings->data.name[0] == '\0') {
        return ES_FAIL(CONFIG, "there is no data: --data takes a folder of images by class, .npy, "
                               ".csv or IDX files, or fashion-mnist");
    }
    EsDatasetOptions options = es_data_settings_options(&settings->data);
    options.folder = options.folder[0] != '\0' ? options.folder : getenv("ES_DATA_DIR");
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, settings->run.n_threads));
    EsStatus status = es_dataset_open(&fit->dataset, settings->data.name, &options, pool);
    es_thread_pool_destroy(pool);
    return status;
}

// Called by the threads that train, after every batch.
static int count_batch(void *context) {
    EsFitRun *fit = context;
    Progress *progress = &fit->progress;
    int64_t n_done = atomic_fetch_add(&progress->n_batches, 1) + 1;
    if (fit->run == NULL) { // measured before the run begins
        return 0;
    }
    if (pthread_equal(pthread_self(), progress->reporter) &&
        es_clock_seconds_since(progress->reported_ns) >= SECONDS_BETWEEN_PROGRESS) {
        progress->reported_ns = es_clock_ns();
        EsRoundProgressedEvent row = {.percent = 100 * (double)n_done / (double)progress->n_all,
                                      .n_images = n_done * fit->plan.batch,
                                      .seconds = es_clock_seconds_since(progress->start_ns)};
        es_emit_round_progressed(es_run_hub(fit->run),
                                 (EsEventTime){.round = fit->round, .step = -1}, &row, 1);
    }
    return es_run_must_drop(fit->run);
}

// --- events of groups ---

// Destination of a group's events; rows have the numbers of candidates.
static EsGrowMoment moment_of(const EsFitRun *fit, int g) {
    return (EsGrowMoment){.hub = fit->run != NULL ? es_run_hub(fit->run) : NULL,
                          .time = {.round = fit->round, .step = 0},
                          .envs = fit->search->groups[g]->candidates};
}

// After groups have become smaller or were loaded: another growth is to be watched then.
static EsStatus renew_events(EsFitRun *fit, int g) {
    const EsFitGroup *group = fit->search->groups[g];
    es_grow_events_destroy(fit->events[g]);
    fit->events[g] = NULL;
    fit->n_watched[g] = group->n;
    if (group->n > 0) {
        EsGrowMoment moment = moment_of(fit, g);
        ES_TRY(es_grow_events_create(group->growth, group->n, &fit->events[g]));
        es_grow_events_recall(fit->events[g], &moment);
    }
    return ES_STATUS_OK;
}

static void emit_decisions(void *context) {
    EsFitRun *fit = context;
    for (int g = 0; g < fit->search->n_groups; g++) {
        const EsFitGroup *group = fit->search->groups[g];
        if (group->n > 0) {
            EsGrowMoment moment = moment_of(fit, g);
            es_grow_events_decided(fit->events[g], &moment, group->actions,
                                   es_policy_action_stats(group->policy));
        }
    }
}

static EsFitSearchOptions options_of(EsFitRun *fit) {
    EsFitSearchOptions options =
        es_fit_plan_search(&fit->plan, fit->settings, &fit->dataset, &fit->devices);
    options.rails = fit->rails;
    options.is_stopped = count_batch;
    options.decided = emit_decisions;
    options.context = fit;
    return options;
}

static void destroy_search(EsFitRun *fit) {
    for (int g = 0; g < ES_HOST_SHAPES; g++) {
        es_grow_events_destroy(fit->events[g]);
        fit->events[g] = NULL;
    }
    es_fit_search_destroy(fit->search);
    fit->search = NULL;
}

static EsStatus create_search(EsFitRun *fit, const EsFitSearchOptions *options) {
    ES_TRY(es_fit_search_create(options, &fit->search));
    for (int g = 0; g < fit->search->n_groups; g++) {
        ES_TRY(renew_events(fit, g));
    }
    return ES_STATUS_OK;
}

static EsStatus create_parts(EsFitRun *fit) {
    const EsFitSettings *settings = fit->settings;
    if (settings->n_compared > 0 && (settings->max_seconds > 0 || settings->target_accuracy > 0)) {
        return ES_FAIL(CONFIG, "--compare needs fits of equal length: --max-seconds 0 and "
                               "--target-accuracy 0, or --compare 0");
    }
    ES_TRY(es_fit_devices_open(settings, &fit->devices));
    if (settings->n_compared > 0 && fit->devices.device != fit->devices.cpu) {
        return ES_FAIL(UNSUPPORTED, "--compare begins with grown topologies, which hosts on a GPU "
                                    "cannot; --device cpu");
    }
    ES_TRY(settings->rails.is_on ? es_fit_rails_create(&settings->rails, &fit->rails)
                                 : ES_STATUS_OK);
    ES_TRY(open_dataset(fit));
    if (settings->n_compared > 0 && fit->dataset.test.count < 1) {
        return ES_FAIL(INPUT, "data set \"%s\" has no test samples to compare on",
                       fit->dataset.name);
    }
    ES_TRY(es_fit_plan_create(settings, &fit->dataset, &fit->devices, &fit->plan));
    EsFitSearchOptions options = options_of(fit);
    if (options.n_epochs == 0) { // or chosen later
        options.n_epochs = es_fit_usual_epochs(&fit->dataset, options.n_updates);
    }
    ES_TRY(create_search(fit, &options));
    return es_allocate(sizeof *fit->rows * (size_t)settings->n_candidates, (void **)&fit->rows);
}

EsStatus es_fit_run_create(const EsFitSettings *settings, EsFitRun **fit_out) {
    EsFitRun *fit = NULL;
    *fit_out = NULL;
    ES_TRY(es_allocate(sizeof *fit, (void **)&fit));
    fit->settings = settings;
    fit->start_ns = es_clock_ns();
    EsStatus status = create_parts(fit);
    if (status != ES_STATUS_OK) {
        es_fit_run_destroy(fit);
        return status;
    }
    *fit_out = fit;
    return ES_STATUS_OK;
}

EsStatus es_fit_run_choose(EsFitRun *fit, EsFitSettings *settings) {
    ES_ASSERT(settings == fit->settings);
    settings->host_learning_rate =
        es_fit_learning_rate(&fit->dataset, settings->host_learning_rate);
    settings->seed_learning_rate =
        es_fit_learning_rate(&fit->dataset, settings->seed_learning_rate);
    if (settings->run.n_rounds > 0 || settings->max_seconds <= 0) {
        settings->run.n_rounds = (int)fit->search->options.n_epochs;
        return ES_STATUS_OK;
    }
    EsFitSearchOptions options = options_of(fit);
    destroy_search(fit); // its memory serves the measurement
    ES_TRY(
        es_fit_choose_epochs(&options, es_clock_seconds_since(fit->start_ns), &fit->epoch_seconds));
    settings->run.n_rounds = (int)options.n_epochs;
    return create_search(fit, &options);
}

void es_fit_run_destroy(EsFitRun *fit) {
    if (fit == NULL) {
        return;
    }
    es_network_score_destroy(&fit->score);
    destroy_search(fit);
    es_fit_rails_destroy(fit->rails);
    es_release(fit->rows);
    es_release(fit->comparison);
    es_fit_plan_destroy(&fit->plan);
    es_dataset_destroy(&fit->dataset);
    es_fit_devices_close(&fit->devices);
    es_release(fit);
}

// --- the best network ---

static EsStatus write_best(EsFitRun *fit) {
    char folder[ES_RUN_PATH_BYTES];
    es_run_folder_path(es_run_folder(fit->run), ES_RUN_NETWORKS "/1", folder);
    ES_TRY(es_folder_make(folder));
    return es_grown_network_save(fit->search->best, folder);
}

// --- events ---

static void emit_candidates(EsFitRun *fit, int64_t round) {
    EsEventTime time = {.round = round, .step = 0};
    const EsFitSearch *search = fit->search;
    int n = 0;
    for (int g = 0; g < search->n_groups; g++) {
        const EsFitGroup *group = search->groups[g];
        for (int i = 0; i < group->n; i++) {
            const EsGrowthResult *result = &es_growth_results(group->growth)[i];
            const EsGrowthState *state = &es_growth_snapshot(group->growth)->state;
            int n_seeds = 0;
            for (int s = 0; s < state->n_slots; s++) {
                n_seeds += es_stage_in(state->seed.stage[i * state->n_slots + s], ES_STAGES_LIVING);
            }
            fit->rows[n++] = (EsEnvSteppedEvent){.env = group->candidates[i],
                                                 .episode = group->candidates[i],
                                                 .train_loss = result->train_loss,
                                                 .train_accuracy = result->train_accuracy,
                                                 .validation_loss = group->loss[i],
                                                 .validation_accuracy = group->accuracy[i],
                                                 .host_gradient_norm = result->host_gradient_norm,
                                                 .n_seeds = n_seeds};
        }
    }
    es_emit_env_stepped(es_run_hub(fit->run), time, fit->rows, n);
    const EsMetricEvent metrics[] = {
        es_metric("esper.fit.best_accuracy", search->best_accuracy),
        es_metric("esper.fit.parameters",
                  search->best != NULL ? (double)search->best->n_parameters : 0)};
    es_emit_metric(es_run_hub(fit->run), (EsEventTime){.round = round, .step = -1}, metrics,
                   ES_COUNT_OF(metrics));
}

static void summarise(const EsFitSearch *search, EsRoundReport *report) {
    EsFitPlace places[ES_FIT_CANDIDATES_MAX];
    int n = es_fit_search_list(search, places);
    report->has_diverged = n == 0 || places[0].accuracy < 0;
    if (!report->has_diverged) {
        report->accuracy = places[0].accuracy;
        report->loss = search->groups[places[0].group]->loss[places[0].position];
    }
    report->score = search->best_accuracy;
    report->n_steps = n;
    report->n_images = n * search->options.n_updates * search->options.batch;
    report->n_seeds = report->n_fossils = 0;
    for (int g = 0; g < search->n_groups; g++) {
        for (int i = 0; i < search->groups[g]->n; i++) {
            const EsGrowthState *state = &es_growth_snapshot(search->groups[g]->growth)->state;
            report->n_fossils += state->env.n_fossils[i];
            for (int s = 0; s < state->n_slots; s++) {
                report->n_seeds +=
                    es_stage_in(state->seed.stage[i * state->n_slots + s], ES_STAGES_LIVING);
            }
        }
    }
}

// --- a round ---

static void begin_progress(EsFitRun *fit) {
    EsFitPlace places[ES_FIT_CANDIDATES_MAX];
    atomic_store(&fit->progress.n_batches, 0);
    fit->progress.n_all = es_fit_search_list(fit->search, places) * fit->plan.n_updates;
    fit->progress.start_ns = fit->progress.reported_ns = es_clock_ns();
    fit->progress.reporter = pthread_self();
}

// Emits how many candidates go on, and watches those alone.
static EsStatus watch_candidates(EsFitRun *fit) {
    const EsFitSearch *search = fit->search;
    EsMetricEvent left = es_metric("esper.fit.candidates", 0);
    for (int g = 0; g < search->n_groups; g++) {
        left.value += search->groups[g]->n;
        if (search->groups[g]->n != fit->n_watched[g]) {
            ES_TRY(renew_events(fit, g));
        }
    }
    es_emit_metric(es_run_hub(fit->run), (EsEventTime){.round = fit->round, .step = -1}, &left, 1);
    return ES_STATUS_OK;
}

// Training of the best candidate, before the weak ones are dropped.
static EsFitEpoch epoch_of(const EsFitSearch *search, const EsRoundReport *report) {
    EsFitPlace places[ES_FIT_CANDIDATES_MAX];
    EsFitEpoch epoch = {.loss = es_missing_real(), .train_accuracy = es_missing_real()};
    if (es_fit_search_list(search, places) > 0) {
        const EsGrowthResult *result =
            &es_growth_results(search->groups[places[0].group]->growth)[places[0].position];
        epoch.loss = (double)result->train_loss;
        epoch.train_accuracy = (double)result->train_accuracy;
    }
    epoch.n_seeds = report->n_seeds;
    return epoch;
}

static void assess_epoch(EsFitRun *fit, EsFitEpoch *epoch, double hook_ms, double latency_ms) {
    if (fit->rails == NULL) {
        return;
    }
    epoch->hook_ms = hook_ms;
    epoch->latency_ms = latency_ms;
    EsRailsVerdict verdict =
        es_fit_rails_end_epoch(fit->rails, es_run_hub(fit->run), fit->round, epoch);
    fit->is_halted = verdict.must_halt;
}

static EsStatus run_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    EsFitRun *fit = context;
    int64_t start_ns = es_clock_ns();
    fit->run = run;
    fit->round = round;
    if (fit->rails != NULL) {
        es_fit_rails_open_signal(fit->rails, es_run_folder_root(es_run_folder(run)));
        es_rails_begin_epoch(&fit->rails->rails);
    }
    begin_progress(fit);
    ES_TRY(es_fit_search_advance(fit->search, round));
    es_run_phase_end(run, ES_PHASE_TRAIN, start_ns);
    if (fit->search->is_new_best) {
        ES_TRY(write_best(fit));
    }
    emit_candidates(fit, round);
    summarise(fit->search, report);
    EsFitEpoch best = epoch_of(fit->search, report);
    int64_t decide_ns = es_clock_ns();
    ES_TRY(es_fit_search_decide(fit->search, round));
    double hook_ms = es_run_phase_end(run, ES_PHASE_DECIDE, decide_ns);
    assess_epoch(fit, &best, hook_ms, 1e3 * es_clock_seconds_since(start_ns));
    ES_TRY(watch_candidates(fit));
    es_hub_tick(es_run_hub(run));
    return ES_STATUS_OK;
}

static double seconds_of(const EsFitRun *fit) {
    return fit->earlier_seconds + es_clock_seconds_since(fit->start_ns);
}

// One epoch is run in any case: without it there is no network.
static int is_over(void *context) {
    const EsFitRun *fit = context;
    return fit->is_halted || (fit->round > 0 && es_fit_is_enough(fit->settings, seconds_of(fit),
                                                                 fit->search->best_accuracy));
}

// --- state ---

static void describe(void *context, EsRunStartedEvent *row) {
    const EsFitRun *fit = context;
    row->task = fit->plan.choice.hosts[0].name;
    row->n_envs = fit->settings->n_candidates;
    row->n_host_parameters = es_host_parameter_count(&fit->plan.choice.hosts[0]);
}

static EsStatus save_group(EsCheckpoint *checkpoint, EsFitGroup *group, int g) {
    char name[64], growth_path[ES_RUN_PATH_BYTES], policy_path[ES_RUN_PATH_BYTES];
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return ES_FAIL(MEMORY, "no memory for the candidates' numbers");
    }
    for (int i = 0; i < group->n; i++) {
        fprintf(stream, "%s%d", i > 0 ? "," : "", group->candidates[i]);
    }
    EsStatus status = es_memory_stream_close(stream, &text);
    snprintf(name, sizeof name, "candidates%d", g);
    status = status == ES_STATUS_OK ? es_checkpoint_put_text(checkpoint, name, text) : status;
    free(text);
    ES_TRY(status);
    if (group->n == 0) {
        return ES_STATUS_OK;
    }
    snprintf(name, sizeof name, "policy%d", g);
    ES_TRY(es_checkpoint_put_text(checkpoint, name, group->policy_name));
    snprintf(name, sizeof name, "policy%d_sha256", g);
    ES_TRY(es_checkpoint_put_text(checkpoint, name, es_policy_hash(group->policy)));
    snprintf(name, sizeof name, "growth%d.safetensors", g);
    ES_TRY(es_checkpoint_add_file(checkpoint, name, growth_path));
    snprintf(name, sizeof name, "policy%d.safetensors", g);
    ES_TRY(es_checkpoint_add_file(checkpoint, name, policy_path));
    return es_fit_group_save(group, growth_path, policy_path);
}

static EsStatus save_best(const EsFitSearch *search, EsCheckpoint *checkpoint) {
    char tensors_path[ES_RUN_PATH_BYTES], json_path[ES_RUN_PATH_BYTES];
    ES_TRY(es_checkpoint_put_int(checkpoint, "best_epoch", search->best_epoch));
    if (search->best == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_checkpoint_put_int(checkpoint, "best_candidate", search->best_candidate));
    ES_TRY(es_checkpoint_put_real(checkpoint, "best_accuracy", search->best_accuracy));
    ES_TRY(es_checkpoint_put_real(checkpoint, "best_loss", search->best_loss));
    if (search->top_accuracy > search->best_accuracy) { // of rows
        ES_TRY(es_checkpoint_put_real(checkpoint, "top_accuracy", search->top_accuracy));
    }
    ES_TRY(es_checkpoint_add_file(checkpoint, ES_NETWORK_TENSORS_FILE, tensors_path));
    ES_TRY(es_checkpoint_add_file(checkpoint, ES_NETWORK_JSON_FILE, json_path));
    *strrchr(json_path, '/') = '\0';
    return es_grown_network_save(search->best, json_path);
}

static EsStatus save(void *context, EsCheckpoint *checkpoint) {
    EsFitRun *fit = context;
    ES_TRY(es_checkpoint_put_text(checkpoint, "data_sha256", fit->plan.data_sha256));
    ES_TRY(es_checkpoint_put_int(checkpoint, "epochs", fit->settings->run.n_rounds));
    // without a limit equal fits have equal checkpoints, and the time so far is forgotten
    if (fit->settings->max_seconds > 0) {
        ES_TRY(es_checkpoint_put_real(checkpoint, "seconds", seconds_of(fit)));
    }
    ES_TRY(fit->rails != NULL ? es_fit_rails_save(fit->rails, checkpoint) : ES_STATUS_OK);
    for (int g = 0; g < fit->search->n_groups; g++) {
        ES_TRY(save_group(checkpoint, fit->search->groups[g], g));
    }
    return save_best(fit->search, checkpoint);
}

// Numbers between commas, rising, of candidates that the group had at first.
static EsStatus read_candidates(const EsCheckpoint *checkpoint, const char *name, int first, int n,
                                int *numbers, int *n_numbers) {
    const char *text = NULL;
    char path[ES_RUN_PATH_BYTES];
    int least = first;
    ES_TRY(es_checkpoint_text(checkpoint, name, &text));
    EsFileField field = {es_checkpoint_path(checkpoint, "rank0.json", path), name, ES_NO_INDEX};
    *n_numbers = 0;
    while (*text != '\0') {
        char *end = NULL;
        long number = strtol(text, &end, 10);
        ES_TRY(es_check_integer(field, end == text ? -1 : number, least, first + n - 1));
        numbers[(*n_numbers)++] = (int)number;
        least = (int)number + 1;
        text = *end == ',' ? end + 1 : end;
    }
    return ES_STATUS_OK;
}

static EsStatus load_group(const EsCheckpoint *checkpoint, EsFitGroup *group, int g) {
    char name[64], growth_path[ES_RUN_PATH_BYTES], policy_path[ES_RUN_PATH_BYTES];
    const char *policy = NULL;
    int numbers[ES_FIT_CANDIDATES_MAX], n = 0;
    snprintf(name, sizeof name, "candidates%d", g);
    ES_TRY(read_candidates(checkpoint, name, group->candidates[0], group->n, numbers, &n));
    if (n == 0) {
        return es_fit_group_keep(group, NULL, 0);
    }
    snprintf(name, sizeof name, "policy%d", g);
    ES_TRY(es_checkpoint_text(checkpoint, name, &policy)); // where it was chosen, the same again
    snprintf(group->policy_name, sizeof group->policy_name, "%s", policy);
    snprintf(name, sizeof name, "growth%d.safetensors", g);
    es_checkpoint_path(checkpoint, name, growth_path);
    snprintf(name, sizeof name, "policy%d.safetensors", g);
    es_checkpoint_path(checkpoint, name, policy_path);
    ES_TRY(es_fit_group_load(group, numbers, n, growth_path, policy_path));
    snprintf(name, sizeof name, "policy%d_sha256", g);
    return es_checkpoint_check_input(checkpoint, name, es_policy_hash(group->policy), "the policy");
}

static EsStatus load_best(EsFitSearch *search, const EsCheckpoint *checkpoint) {
    char path[ES_RUN_PATH_BYTES];
    EsFileField field = {es_checkpoint_path(checkpoint, "rank0.json", path), "best_epoch",
                         ES_NO_INDEX};
    ES_TRY(es_checkpoint_int(checkpoint, field.name, &search->best_epoch));
    ES_TRY(es_check_integer(field, search->best_epoch, 0, es_checkpoint_round(checkpoint)));
    if (search->best_epoch == 0) {
        return ES_STATUS_OK;
    }
    field.name = "best_candidate";
    ES_TRY(es_checkpoint_int(checkpoint, field.name, &search->best_candidate));
    ES_TRY(es_check_integer(field, search->best_candidate, 0, search->options.n_candidates - 1));
    field.name = "best_accuracy";
    ES_TRY(es_checkpoint_real(checkpoint, field.name, &search->best_accuracy));
    ES_TRY(es_check_real(field, search->best_accuracy, 0, 100));
    field.name = "best_loss";
    ES_TRY(es_checkpoint_real(checkpoint, field.name, &search->best_loss));
    ES_TRY(es_check_real(field, search->best_loss, 0, 1e30));
    search->top_accuracy = search->best_accuracy;
    field.name = "top_accuracy";
    if (es_checkpoint_has(checkpoint, field.name)) {
        ES_TRY(es_checkpoint_real(checkpoint, field.name, &search->top_accuracy));
        ES_TRY(es_check_real(field, search->top_accuracy, search->best_accuracy, 100));
    }
    es_grown_network_destroy(search->best);
    search->best = NULL;
    ES_TRY(es_grown_network_load(es_checkpoint_path(checkpoint, ES_NETWORK_JSON_FILE, path),
                                 search->options.cpu, &search->best));
    return es_network_check_data(search->best, search->options.dataset,
                                 search->options.dataset->name);
}

static EsStatus load(void *context, const EsCheckpoint *checkpoint) {
    EsFitRun *fit = context;
    ES_TRY(es_checkpoint_check_input(checkpoint, "data_sha256", fit->plan.data_sha256,
                                     "the data set"));
    int64_t n_epochs = 0;
    ES_TRY(es_checkpoint_int(checkpoint, "epochs", &n_epochs));
    if (n_epochs != fit->settings->run.n_rounds) {
        return ES_FAIL(CONFIG,
                       "the fit began with %lld epochs, which its learning rates follow, and "
                       "cannot go on with %d",
                       (long long)n_epochs, fit->settings->run.n_rounds);
    }
    if (es_checkpoint_has(checkpoint, "seconds")) {
        char path[ES_RUN_PATH_BYTES];
        EsFileField field = {es_checkpoint_path(checkpoint, "rank0.json", path), "seconds",
                             ES_NO_INDEX};
        ES_TRY(es_checkpoint_real(checkpoint, field.name, &fit->earlier_seconds));
        ES_TRY(es_check_real(field, fit->earlier_seconds, 0, 1e12));
    }
    ES_TRY(fit->rails != NULL ? es_fit_rails_load(fit->rails, checkpoint) : ES_STATUS_OK);
    for (int g = 0; g < fit->search->n_groups; g++) {
        ES_TRY(load_group(checkpoint, fit->search->groups[g], g));
        ES_TRY(renew_events(fit, g));
    }
    fit->round = es_checkpoint_round(checkpoint);
    return load_best(fit->search, checkpoint);
}

// --- the end ---

// The test split is looked at here, once, after everything was decided.
static EsStatus finish(void *context, EsRun *run) {
    EsFitRun *fit = context;
    EsGrownNetwork *best = fit->search->best;
    fit->run = run;
    if (best == NULL) {
        return ES_FAIL(INPUT, "no candidate had a finite loss; try a lower --rate");
    }
    if (fit->dataset.test.count > 0) {
        EsThreadPool *pool = NULL;
        ES_TRY(es_thread_pool_create(&pool, fit->settings->run.n_threads));
        EsStatus status =
            es_network_score(best, pool, &fit->dataset, &fit->dataset.test, &fit->score);
        es_thread_pool_destroy(pool);
        ES_TRY(status);
        fit->has_score = 1;
        best->origin.test_accuracy = fit->score.accuracy;
    }
    ES_TRY(write_best(fit));
    if (fit->settings->n_compared == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *fit->comparison, (void **)&fit->comparison));
    return es_fit_compare(&fit->search->options, run, fit->settings->n_compared, fit->comparison);
}

EsRunWork es_fit_run_work(EsFitRun *fit) {
    return (EsRunWork){.context = fit,
                       .describe = describe,
                       .round = run_round,
                       .save = save,
                       .load = load,
                       .is_over = is_over,
                       .finish = finish};
}

EsStatus es_fit_run_predict(EsFitRun *fit, double *epoch_seconds) {
    int64_t start_ns = es_clock_ns();
    begin_progress(fit);
    ES_TRY(es_fit_search_advance(fit->search, 1));
    *epoch_seconds = es_clock_seconds_since(start_ns);
    return ES_STATUS_OK;
}

EsFitReport es_fit_run_report(const EsFitRun *fit) {
    const EsFitSearch *search = fit->search;
    EsFitPlace places[ES_FIT_CANDIDATES_MAX];
    return (EsFitReport){.dataset = &fit->dataset,
                         .hosts = fit->plan.choice.reason,
                         .policy = search->groups[0]->policy_name,
                         .policy_reason = search->groups[0]->reason,
                         .n_updates = fit->plan.n_updates,
                         .epoch_seconds = fit->epoch_seconds,
                         .network = search->best,
                         .best_epoch = search->best_epoch,
                         .best_candidate = search->best_candidate,
                         .best_accuracy = search->best_accuracy,
                         .n_candidates = es_fit_search_list(search, places),
                         .score = fit->has_score ? &fit->score : NULL,
                         .comparison = fit->comparison};
}
