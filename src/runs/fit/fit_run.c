// A search as a run: data and hosts, epochs with events, checkpoints, the network on disk, results.
#include "runs/fit/fit_run.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "runs/fit/fit_search.h"
#include "runs/grow/grow_events.h"
#include "runs/grow/route_events.h"

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
    EsStateHash *hash;                    // owned
    EsNetworkScore score;
    int has_score;
    EsFitComparison *comparison; // owned; NULL until it is made
    Progress progress;
    EsRun *run;         // borrowed, during a round
    int64_t round;      // that is running, or was last; 0: none yet
    int is_halted;      // by the rails, in that round
    int64_t unrecorded; // the checkpoint that was loaded, until wal.json names it; 0: none
    EsRailsReason halt_reason;
    EsFitRollback *rollback;    // owned; NULL without
    EsDeadline *restore_thread; // owned; NULL without
    EsStatus restore_status;    // of the last rollback: a failure has left no whole state
    int is_spoiled;             // by an epoch that was not undone
    EsFitDrill drill;
    int has_ended;
    EsRunTimes times; // once it has ended
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
    ES_CONFIG_CHOICE(EsFitSettings, aggregation, "fit", "aggregation", "none", "none|seed",
                     "seed: one gradient per seed, weighted, conflicts taken off (CPU; slower)"),
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

static int is_shared(const EsFitRun *fit) { return es_ranks_count(fit->settings->run.ranks) > 1; }

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
    // the answer is one of all ranks, which train apart: an epoch of theirs is finished
    return !is_shared(fit) && es_run_must_drop(fit->run);
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
            es_grow_events_decided(fit->events[g], &moment, group->actions, group->masks,
                                   group->is_answered ? group->policy : NULL);
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

static EsStatus create_rails(EsFitRun *fit) {
    const EsRailsSettings *rails = &fit->settings->rails;
    if (!rails->is_on) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_fit_rails_create(rails, &fit->rails));
    if (!rails->rollback) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_deadline_create(&fit->restore_thread));
    return es_fit_rollback_create((size_t)rails->rollback_mib << 20, &fit->rollback);
}

void es_fit_run_set_drill(EsFitRun *fit, const EsFitDrill *drill) { fit->drill = *drill; }

// Refuses what would let ranks decide apart, or would run whole on each.
static EsStatus check_ranks(const EsFitSettings *settings) {
    int count = es_ranks_count(settings->run.ranks);
    if (count > 1 && settings->rails.is_on) {
        return ES_FAIL(UNSUPPORTED,
                       "%d ranks: the deadlines of rails are of one process's clock, and ranks "
                       "would decide differently; --rails.on=off, or leave mpirun out",
                       count);
    }
    return count > 1 && settings->n_compared > 0
               ? ES_FAIL(UNSUPPORTED,
                         "%d ranks: --compare runs in one process; leave it out here, then esper "
                         "fit --resume RUN --compare %d makes it",
                         count, settings->n_compared)
               : ES_STATUS_OK;
}

static EsStatus create_parts(EsFitRun *fit) {
    const EsFitSettings *settings = fit->settings;
    if (settings->n_compared > 0 && (settings->max_seconds > 0 || settings->target_accuracy > 0)) {
        return ES_FAIL(CONFIG, "--compare needs fits of equal length: --max-seconds 0 and "
                               "--target-accuracy 0, or --compare 0");
    }
    ES_TRY(check_ranks(settings));
    ES_TRY(es_fit_devices_open(settings, &fit->devices));
    if (settings->n_compared > 0 && fit->devices.device != fit->devices.cpu) {
        return ES_FAIL(UNSUPPORTED, "--compare runs on the CPU alone; --device cpu");
    }
    ES_TRY(create_rails(fit));
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
    ES_TRY(es_state_hash_create(fit->devices.device, settings->n_candidates, &fit->hash));
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

// Refuses ranks whose policies are other files under the same names, or that chose others.
static EsStatus agree_policies(const EsFitRun *fit) {
    char text[ES_HOST_SHAPES * 1200] = "";
    size_t used = 0;
    for (int g = 0; g < fit->search->n_groups && used < sizeof text; g++) {
        const EsFitGroup *group = fit->search->groups[g];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s\n", group->policy_name,
                                 es_policy_hash(group->policy));
    }
    return es_ranks_agree(fit->settings->run.ranks, &(EsRankFact){"policies", text}, 1);
}

const char *es_fit_run_data_hash(const EsFitRun *fit) { return fit->plan.data_sha256; }

EsStatus es_fit_run_choose(EsFitRun *fit, EsFitSettings *settings) {
    ES_ASSERT(settings == fit->settings);
    ES_TRY(agree_policies(fit));
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
    ES_TRY(es_ranks_broadcast(settings->run.ranks, "number of epochs", 0, &options.n_epochs,
                              sizeof options.n_epochs)); // clocks differ
    settings->run.n_rounds = (int)options.n_epochs;
    return create_search(fit, &options);
}

void es_fit_run_destroy(EsFitRun *fit) {
    if (fit == NULL) {
        return;
    }
    es_network_score_destroy(&fit->score);
    es_state_hash_destroy(fit->hash);
    destroy_search(fit);
    es_fit_rails_destroy(fit->rails);
    es_fit_rollback_destroy(fit->rollback);
    es_deadline_destroy(fit->restore_thread);
    es_release(fit->rows);
    es_release(fit->comparison);
    es_fit_plan_destroy(&fit->plan);
    es_dataset_destroy(&fit->dataset);
    es_fit_devices_close(&fit->devices);
    es_release(fit);
}

// --- memory ---

// A state in memory: all that a checkpoint has, which is nearly all but the gradients.
static size_t state_bytes(const EsFitRun *fit) {
    size_t bytes = 0;
    for (int g = 0; g < fit->search->n_groups; g++) {
        EsGrowth *growth = fit->search->groups[g]->growth;
        bytes +=
            es_growth_weight_bytes(growth) - es_tensor_bytes(&es_growth_store(growth)->gradients);
    }
    return bytes;
}

EsStatus es_fit_run_need(EsFitRun *fit, EsRunNeed *need) {
    const EsRailsSettings *rails = &fit->settings->rails;
    size_t one = state_bytes(fit);
    *need = (EsRunNeed){.sure_bytes = one, .peak_bytes = 2 * one}; // in work, and waiting
    for (int g = 0; g < fit->search->n_groups; g++) {
        const EsFitGroup *group = fit->search->groups[g];
        int grows = strcmp(group->policy_name, "wait") != 0;
        size_t least = 0, most = 0;
        ES_TRY(es_growth_episode_bytes(group->growth, group->n, 0, &least));
        ES_TRY(es_growth_episode_bytes(group->growth, group->n,
                                       grows ? es_growth_settings(group->growth)->n_slots : 0,
                                       &most));
        need->sure_bytes += least;
        need->peak_bytes += most;
    }
    if (fit->rollback != NULL) {
        size_t capacity = (size_t)rails->rollback_mib << 20;
        size_t n_kept = one <= capacity
                            ? 1 + (size_t)ES_MAX(fit->settings->run.n_rounds, ES_FIT_EPOCHS) /
                                      (size_t)rails->rollback_every
                            : 0;
        need->sure_bytes += n_kept > 0 ? one : 0;
        need->peak_bytes += ES_MIN(n_kept * one, capacity) + one; // and one about to be kept
    }
    return ES_STATUS_OK;
}

// --- the best network ---

// The files of a network on their way to the disk.
typedef struct NetworkJob {
    EsWriterJob job;
    EsHeldFiles *files; // owned
    char folder[ES_RUN_PATH_BYTES];
} NetworkJob;

static EsStatus write_network(EsWriterJob *job) {
    const NetworkJob *network = (const NetworkJob *)job;
    char path[ES_RUN_PATH_BYTES + sizeof ES_NETWORK_CONFUSION_FILE];
    ES_TRY(es_folder_make(network->folder));
    // it is of the network before; the last network of a fit brings its own
    snprintf(path, sizeof path, "%s/" ES_NETWORK_CONFUSION_FILE, network->folder);
    (void)unlink(path);
    return es_grown_network_replace(network->folder, network->files);
}

static void destroy_network(EsWriterJob *job) {
    es_held_files_destroy(((NetworkJob *)job)->files);
    es_release(job);
}

// A copy of the best network's files, with its confusions where it was scored on a split.
static EsStatus hold_best(const EsFitRun *fit, const EsSplit *split, NetworkJob *network) {
    const EsDataset *dataset = &fit->dataset;
    ES_TRY(es_held_files_begin(&network->files));
    EsStatus status = es_grown_network_write(fit->search->best, network->folder);
    if (status == ES_STATUS_OK && split != NULL) {
        status = es_network_write_confusion(fit->search->best, dataset, split,
                                            split == &dataset->test ? "test" : "validation",
                                            &fit->score, network->folder);
    }
    es_held_files_end();
    return status;
}

// Hands a copy to the run's writer thread; one that still waits there is out of date. `split` is
// the one that fit->score is of, NULL before the end.
static EsStatus send_best(EsFitRun *fit, const EsSplit *split) {
    NetworkJob *network = NULL;
    if (!es_run_is_writer(fit->run)) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *network, (void **)&network));
    network->job = (EsWriterJob){.kind = ES_WRITER_NETWORK,
                                 .may_replace = 1,
                                 .write = write_network,
                                 .destroy = destroy_network};
    es_run_folder_path(es_run_folder(fit->run), ES_RUN_NETWORKS "/1", network->folder);
    EsStatus status = hold_best(fit, split, network);
    if (status != ES_STATUS_OK) {
        destroy_network(&network->job);
        return status;
    }
    return es_run_submit(fit->run, &network->job);
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
    for (int g = 0; g < search->n_groups; g++) {
        EsGrowMoment moment = moment_of(fit, g);
        if (search->groups[g]->n > 0) {
            es_grow_events_seeds(fit->events[g], &moment);
        }
        if (search->groups[g]->n > 0 && fit->rails != NULL) {
            moment.time.step = -1;
            es_grow_events_slots(fit->events[g], &moment);
        }
    }
    EsRouteTotals totals = {0};
    for (int g = 0; g < search->n_groups; g++) {
        if (search->groups[g]->n > 0) {
            es_route_totals_add(&totals, search->groups[g]->growth);
        }
    }
    es_route_totals_emit(&totals, es_run_hub(fit->run), (EsEventTime){.round = round, .step = -1});
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

static EsStatus save(void *context, EsCheckpoint *checkpoint);
static EsStatus load_search(EsFitRun *fit, const EsCheckpoint *checkpoint);

static void begin_progress(EsFitRun *fit) {
    atomic_store(&fit->progress.n_batches, 0);
    fit->progress.n_all = 0;
    for (int g = 0; g < fit->search->n_groups; g++) {
        fit->progress.n_all += es_fit_group_own(fit->search->groups[g]) * fit->plan.n_updates;
    }
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

// Keeps the state of a good epoch in memory.
static EsStatus keep_state(EsFitRun *fit) {
    EsCheckpoint *state = NULL;
    ES_TRY(es_checkpoint_hold(es_run_folder(fit->run), fit->round, &state));
    EsStatus status = save(fit, state);
    es_checkpoint_hold_end(state);
    if (status != ES_STATUS_OK) {
        es_checkpoint_end(state);
        return status;
    }
    if (es_fit_rollback_push(fit->rollback, state)) {
        es_rails_noted_snapshot(&fit->rails->rails);
    }
    fit->rails->snapshot_bytes = es_fit_rollback_bytes(fit->rollback);
    return ES_STATUS_OK;
}

// In the first round of a resumed session: the loaded checkpoint becomes the first state to go back
// to, as if the session before had gone on. Its record may be missing: that session was killed
// before it wrote one, or newer checkpoints were taken away since.
static EsStatus recall_state(EsFitRun *fit) {
    const char *root = es_run_folder_root(es_run_folder(fit->run));
    EsCheckpoint *state = NULL;
    int64_t epoch = fit->unrecorded;
    fit->unrecorded = 0;
    if (fit->rollback == NULL || epoch == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_fit_wal_write(root, epoch));
    ES_TRY(es_checkpoint_hold_saved(root, epoch, &state));
    es_fit_rollback_push(fit->rollback, state);
    fit->rails->snapshot_bytes = es_fit_rollback_bytes(fit->rollback);
    return ES_STATUS_OK;
}

static EsStatus take_state(EsFitRun *fit, const EsCheckpoint *state) {
    es_checkpoint_read_begin(state);
    EsStatus status = load_search(fit, state);
    es_checkpoint_read_end();
    return status;
}

// From memory, else from the newest checkpoint. A state that cannot be taken ends the run, since
// the one at hand is gone then.
static void roll_back(void *context, EsRails *rails, EsRailsReason reason) {
    EsFitRun *fit = context;
    int64_t start_ns = es_clock_ns();
    const EsCheckpoint *state = es_fit_rollback_nearest(fit->rollback, fit->round - 1);
    double deadline_ms = (double)rails->settings.rollback_deadline_ms;
    EsRestore restore = {.checkpoint = NULL};
    fit->is_spoiled = 1;
    if (state == NULL) {
        switch (es_fit_restore(fit->restore_thread, es_run_folder_root(es_run_folder(fit->run)),
                               deadline_ms, &fit->drill.restore, &restore)) {
        case ES_RESTORE_DONE:
            break;
        case ES_RESTORE_ABSENT:
            es_rails_restore_absent(rails);
            return;
        case ES_RESTORE_FAILED:
            es_rails_restore_failed(rails, restore.stage, restore.detail,
                                    1e3 * es_clock_seconds_since(start_ns));
            return;
        case ES_RESTORE_LATE:
            es_rails_restore_late(rails, reason, deadline_ms);
            return;
        }
    }
    fit->restore_status = take_state(fit, state != NULL ? state : restore.checkpoint);
    double ms = 1e3 * es_clock_seconds_since(start_ns);
    if (fit->restore_status == ES_STATUS_OK) {
        fit->is_spoiled = 0;
        es_rails_rolled_back(rails, state != NULL, ms);
    } else {
        es_rails_restore_failed(rails, "model_load", es_status_detail(), ms);
    }
    es_checkpoint_end(restore.checkpoint);
}

// The largest gradient of a host, and whether any loss is finite.
static void measure_health(const EsFitRun *fit, const EsRoundReport *report, EsFitEpoch *epoch) {
    epoch->has_diverged = report->has_diverged;
    epoch->gradient_norm = -1;
    for (int g = 0; g < fit->search->n_groups; g++) {
        const EsFitGroup *group = fit->search->groups[g];
        for (int i = 0; i < group->n; i++) {
            double norm = es_growth_results(group->growth)[i].host_gradient_norm;
            epoch->gradient_norm = isnan(norm) ? INFINITY : fmax(epoch->gradient_norm, norm);
        }
    }
}

static EsStatus assess_epoch(EsFitRun *fit, EsFitEpoch *epoch, double hook_ms, double latency_ms) {
    const EsFitUndo undo = {roll_back, fit};
    if (fit->rails == NULL) {
        return ES_STATUS_OK;
    }
    epoch->hook_ms = hook_ms;
    epoch->latency_ms = latency_ms;
    if (fit->drill.measured != NULL) {
        fit->drill.measured(fit->drill.context, fit->round, epoch);
    }
    EsRailsVerdict verdict =
        es_fit_rails_end_epoch(fit->rails, es_run_hub(fit->run), fit->round, epoch, &undo);
    fit->is_halted = verdict.must_halt;
    fit->halt_reason = verdict.reason;
    if (!verdict.must_roll_back) {
        fit->is_spoiled = 0;
        return ES_STATUS_OK;
    }
    // the epoch that was undone may have had the best network
    int has_gone_back = fit->restore_status == ES_STATUS_OK && !fit->is_spoiled;
    return has_gone_back && fit->search->best != NULL ? send_best(fit, NULL) : fit->restore_status;
}

// All candidates that go on, as the next epoch finds them.
static EsStatus hash_candidates(EsFitRun *fit, EsRoundReport *report) {
    es_state_hash_begin(fit->hash);
    for (int g = 0; g < fit->search->n_groups; g++) {
        if (fit->search->groups[g]->n > 0) {
            ES_TRY(es_growth_append_state(fit->search->groups[g]->growth, fit->hash));
        }
    }
    snprintf(report->state_hash, sizeof report->state_hash, "%016llx",
             (unsigned long long)es_state_hash_value(fit->hash));
    return ES_STATUS_OK;
}

static EsStatus run_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    EsFitRun *fit = context;
    int64_t start_ns = es_clock_ns();
    fit->run = run;
    fit->round = round;
    if (fit->rails != NULL) {
        es_rails_begin_epoch(&fit->rails->rails);
        ES_TRY(es_fit_rails_open_signal(fit->rails, es_run_folder_root(es_run_folder(run)), round));
    }
    ES_TRY(recall_state(fit));
    begin_progress(fit);
    ES_TRY(es_fit_search_advance(fit->search, round));
    es_run_phase_end(run, ES_PHASE_TRAIN, start_ns);
    if (fit->search->is_new_best) {
        ES_TRY(send_best(fit, NULL));
    }
    emit_candidates(fit, round);
    summarise(fit->search, report);
    EsFitEpoch best = epoch_of(fit->search, report);
    measure_health(fit, report, &best);
    int64_t decide_ns = es_clock_ns();
    ES_TRY(es_fit_search_decide(fit->search, round));
    double hook_ms = es_run_phase_end(run, ES_PHASE_DECIDE, decide_ns);
    ES_TRY(assess_epoch(fit, &best, hook_ms, 1e3 * es_clock_seconds_since(start_ns)));
    report->is_spoiled = fit->is_spoiled;
    ES_TRY(hash_candidates(fit, report));
    ES_TRY(watch_candidates(fit));
    es_hub_tick(es_run_hub(run));
    // the first good one, too: until then there is nothing to go back to in memory
    int is_kept = fit->rollback != NULL && !fit->is_spoiled &&
                  (round % fit->settings->rails.rollback_every == 0 ||
                   es_fit_rollback_count(fit->rollback) == 0);
    return is_kept ? keep_state(fit) : ES_STATUS_OK;
}

static double seconds_of(const EsFitRun *fit) {
    return fit->earlier_seconds + es_clock_seconds_since(fit->start_ns);
}

// One epoch is run in any case: without it there is no network.
static int is_over(void *context) {
    const EsFitRun *fit = context;
    EsRanks *ranks = fit->settings->run.ranks;
    int answer = fit->is_halted ||
                 (fit->round > 0 &&
                  es_fit_is_enough(fit->settings, seconds_of(fit), fit->search->best_accuracy));
    // rank 0's clock; after a failure of the ranks the next step of the run reports it
    EsStatus status =
        es_ranks_broadcast(ranks, "whether the fit is over", 0, &answer, sizeof answer);
    return status == ES_STATUS_OK ? answer : 1;
}

// --- state ---

static void describe(void *context, EsRunStartedEvent *row) {
    const EsFitRun *fit = context;
    row->task = fit->plan.choice.hosts[0].name;
    row->n_envs = fit->settings->n_candidates;
    row->n_host_parameters = es_host_parameter_count(&fit->plan.choice.hosts[0]);
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
    return es_fit_search_save(fit->search, checkpoint);
}

// Candidates and the best network: all that training changes.
static EsStatus load_search(EsFitRun *fit, const EsCheckpoint *checkpoint) {
    ES_TRY(es_fit_search_load(fit->search, checkpoint));
    for (int g = 0; g < fit->search->n_groups; g++) {
        ES_TRY(renew_events(fit, g));
    }
    return ES_STATUS_OK;
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
    fit->round = es_checkpoint_round(checkpoint);
    fit->unrecorded = fit->round;
    return load_search(fit, checkpoint);
}

// --- the end ---

static void emit_times(EsFitRun *fit, const EsRunTimes *times) {
    const EsMetricEvent rows[] = {es_metric("esper.fit.epoch_first_ms", times->first_ms),
                                  es_metric("esper.fit.epoch_p50_ms", times->p50_ms),
                                  es_metric("esper.fit.epoch_p95_ms", times->p95_ms),
                                  es_metric("esper.fit.epoch_p99_ms", times->p99_ms),
                                  es_metric("esper.fit.write_p50_ms", times->write_p50_ms),
                                  es_metric("esper.fit.write_p95_ms", times->write_p95_ms)};
    if (times->n_rounds > 0 && times->n_writes > 0) {
        es_emit_metric(es_run_hub(fit->run), (EsEventTime){.round = fit->round, .step = -1}, rows,
                       ES_COUNT_OF(rows));
    }
}

// Scores the best network on the test split, which is looked at here, once, after everything was
// decided; where there is none on the validation split, for its confusions alone. *split is NULL
// where neither is done.
static EsStatus score_best(EsFitRun *fit, const EsSplit **split) {
    const EsDataset *dataset = &fit->dataset;
    EsGrownNetwork *best = fit->search->best;
    EsThreadPool *pool = NULL;
    *split = es_run_is_writer(fit->run) ? es_network_confusion_split(dataset) : NULL;
    int has_test = *split == &dataset->test;
    if (*split == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_thread_pool_create(&pool, fit->settings->run.n_threads));
    EsStatus status = es_network_score(best, pool, dataset, *split, &fit->score);
    es_thread_pool_destroy(pool);
    ES_TRY(status);
    fit->has_score = has_test;
    if (has_test) {
        best->origin.test_accuracy = fit->score.accuracy;
        EsMetricEvent row = es_metric("esper.fit.test_accuracy", fit->score.accuracy);
        es_emit_metric(es_run_hub(fit->run), (EsEventTime){.round = fit->round, .step = -1}, &row,
                       1);
    }
    return ES_STATUS_OK;
}

static EsStatus conclude(EsFitRun *fit, EsRun *run) {
    const EsSplit *split = NULL;
    if (fit->search->best == NULL) {
        return ES_FAIL(INPUT, "no candidate had a finite loss; try a lower --rate");
    }
    ES_TRY(score_best(fit, &split));
    ES_TRY(send_best(fit, split));
    ES_TRY(es_run_drain(run));
    fit->times = es_run_times(run);
    fit->has_ended = 1;
    emit_times(fit, &fit->times);
    if (fit->settings->n_compared == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *fit->comparison, (void **)&fit->comparison));
    return es_fit_compare(&fit->search->options, run, fit->settings->n_compared, fit->comparison);
}

static EsStatus finish(void *context, EsRun *run) {
    EsFitRun *fit = context;
    fit->run = run;
    if (fit->is_halted) {
        es_run_note_halt(run, es_rails_reason_name(fit->halt_reason));
    }
    EsStatus status = conclude(fit, run);
    return fit->rails != NULL ? es_fit_rails_end(fit->rails, es_run_hub(run), fit->round, status)
                              : status;
}

EsRunWork es_fit_run_work(EsFitRun *fit) {
    return (EsRunWork){.context = fit,
                       .describe = describe,
                       .round = run_round,
                       .save = save,
                       .saved = fit->rollback != NULL ? es_fit_wal_write : NULL,
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
                         .comparison = fit->comparison,
                         .halt_reason =
                             fit->is_halted ? es_rails_reason_name(fit->halt_reason) : NULL,
                         .halt_epoch = fit->round,
                         .rails = fit->rails != NULL ? &fit->rails->rails : NULL,
                         .times = fit->has_ended ? &fit->times : NULL};
}
