// Opening and closing a run: folder, configuration, sinks, signals. The loop is in run_rounds.c.
#include "runs/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/memory.h"
#include "esper/log.h"
#include "runs/run_internal.h"
#include "runs/run_removal.h"
#include "runs/stop_signal.h"
#include "telemetry/sinks/run_database.h"
#include "telemetry/text.h"

// rows of one step or round; further findings are counted in their details
#define MAX_ANOMALIES 256

// For a signal handler: whole texts, for kinds of run with rounds and with epochs.
static const char stop_after_round[] =
    "\nstopping after this round, or soon without it; Ctrl-C again quits at once\n";
static const char stop_after_epoch[] =
    "\nstopping after this epoch, or soon without it; Ctrl-C again quits at once\n";

static const char quit_message[] =
    "\nquit at once: what the last checkpoint does not have is lost\n";

// "round" or "epoch".
static const char *word_of(const EsRun *run) {
    return es_run_kind_round(run->options.settings->kind);
}

// A run without a usable checkpoint starts again when the user agrees; its telemetry is kept beside
// it, for it may be all that is left of hours.
static EsStatus start_again(const EsRun *run) {
    char backup[ES_RUN_PATH_BYTES];
    const char *root = es_run_folder_root(run->folder);
    ES_TRY(es_run_back_up_telemetry(run->folder, backup));
    es_log(ES_LOG_WARNING, "%s has no checkpoint to go on from: the run starts again with %s 1%s%s",
           root, word_of(run), backup[0] != '\0' ? "; earlier records are in " : "", backup);
    return ES_STATUS_OK;
}

// The score to beat, from the checkpoints that are there.
static EsStatus find_best_score(EsRun *run) {
    EsCheckpointInfo *infos = NULL;
    int n_infos = 0;
    ES_TRY(es_checkpoint_list(run->folder, &infos, &n_infos));
    for (int i = 0; i < n_infos; i++) {
        run->best_score = infos[i].is_best ? infos[i].score : run->best_score;
    }
    es_release(infos);
    return ES_STATUS_OK;
}

// Checks that the run goes on as it was saved, even if its config.ini was edited. The first
// checkpoints of schema 1 do not hold the settings; they are in config.ini alone.
static EsStatus check_settings(const EsRun *run) {
    const char *saved = NULL;
    if (!es_checkpoint_has(run->checkpoint, ES_RUN_SETTINGS_KEY)) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_checkpoint_text(run->checkpoint, ES_RUN_SETTINGS_KEY, &saved));
    return es_run_settings_check_fixed(run->options.config, saved);
}

// Before anything of the run is touched: its database must not be one of a later program.
static EsStatus check_database(const EsRun *run) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    EsRunDatabase *database = NULL;
    es_run_folder_path(run->folder, "run.db", path);
    if (!run->options.settings->sqlite || lstat(path, &info) != 0) {
        return ES_STATUS_OK;
    }
    EsStatus status = es_run_database_open(path, &database);
    if (status != ES_STATUS_OK) {
        // INPUT: damaged, and backed up when the sinks open
        return status == ES_STATUS_INPUT || status == ES_STATUS_UNSUPPORTED ? ES_STATUS_OK : status;
    }
    status = es_run_database_check_schema(database);
    es_run_database_close(database);
    return status;
}

// Takes the folder of a resumed run and finds the checkpoint to go on from.
static EsStatus open_resumed(EsRun *run) {
    const EsRunOptions *options = &run->options;
    ES_TRY(es_run_folder_open(options->resume, &run->folder));
    ES_TRY(check_database(run));
    ES_TRY(es_checkpoint_open_latest(run->folder, 0, 1, &run->checkpoint));
    if (run->checkpoint == NULL) {
        // a run of no rounds never has one, and nothing to lose
        return options->may_restart || options->settings->n_rounds == 0
                   ? ES_STATUS_OK
                   : ES_FAIL(INPUT,
                             "%s has no checkpoint to go on from; with --restart it starts again "
                             "with %s 1, and keeps its telemetry in before-<n>/",
                             es_run_folder_root(run->folder), word_of(run));
    }
    ES_TRY(check_settings(run));
    run->n_rounds_done = run->n_rounds_saved = es_checkpoint_round(run->checkpoint);
    run->n_rounds_sent = run->n_rounds_saved;
    if (options->settings->n_rounds < run->n_rounds_done) {
        return ES_FAIL(CONFIG, "%s has %lld %ss already; it cannot go on to %s %d", options->resume,
                       (long long)run->n_rounds_done, word_of(run), word_of(run),
                       options->settings->n_rounds);
    }
    return find_best_score(run);
}

// Makes the folder of a new run, or tidies that of a resumed one, and writes its settings.
static EsStatus start_folder(EsRun *run) {
    const EsRunOptions *options = &run->options;
    char path[ES_RUN_PATH_BYTES];
    if (options->resume == NULL) {
        struct stat info;
        run->had_folder = options->out != NULL && stat(options->out, &info) == 0;
        ES_TRY(es_run_folder_create(options->out, options->settings->kind, &run->folder));
    } else {
        ES_TRY(run->checkpoint != NULL ? ES_STATUS_OK : start_again(run));
        ES_TRY(es_checkpoint_prune(run->folder, options->settings->checkpoint_keep));
        ES_TRY(es_run_remove_strays(run->folder));
    }
    es_run_folder_path(run->folder, "config.ini", path);
    return es_config_write(options->config, path);
}

static EsStatus add_sink(EsRun *run, EsStatus status, const EsSink *sink) {
    return status == ES_STATUS_OK ? es_hub_add_sink(run->hub, sink) : status;
}

static EsStatus add_file_sinks(EsRun *run) {
    const EsRunSettings *settings = run->options.settings;
    int64_t last_round = run->checkpoint != NULL ? run->n_rounds_done : -1;
    char path[ES_RUN_PATH_BYTES];
    EsSink sink;
    int has_jsonl = settings->jsonl;
    if (settings->sqlite) {
        es_run_folder_path(run->folder, "run.db", path);
        EsStatus status = es_sqlite_sink_open(path, last_round, &sink);
        if (status == ES_STATUS_INPUT) {
            char backup[ES_RUN_PATH_BYTES], damage[512];
            snprintf(damage, sizeof damage, "%s", es_status_detail());
            ES_TRY(es_run_back_up_database(run->folder, backup));
            es_log(ES_LOG_WARNING, "%s; it is now in %s, and a new one begins with %s %lld", damage,
                   backup, word_of(run), (long long)run->n_rounds_done + 1);
            status = es_sqlite_sink_open(path, last_round, &sink);
        }
        if (status == ES_STATUS_UNSUPPORTED) {
            es_log(ES_LOG_WARNING, "%s: events go to events.jsonl instead", es_status_detail());
            has_jsonl = 1;
        } else {
            ES_TRY(add_sink(run, status, &sink));
        }
    }
    if (has_jsonl) {
        es_run_folder_path(run->folder, "events.jsonl", path);
        ES_TRY(add_sink(run, es_jsonl_sink_open(path, last_round, &sink), &sink));
    }
    if (settings->tensorboard) {
        es_run_folder_path(run->folder, "tensorboard", path);
        ES_TRY(es_folder_make(path));
        ES_TRY(add_sink(run, es_tensorboard_sink_open(path, last_round, &sink), &sink));
    }
    return ES_STATUS_OK;
}

// A folder's name may have any characters.
static EsStatus add_prometheus_sink(EsRun *run) {
    const EsRunSettings *settings = run->options.settings;
    const char *name = es_run_folder_name(run->folder);
    EsText labels = {0};
    EsSink sink;
    es_text_add_string(&labels, "run=\"");
    es_text_add_utf8(&labels, name, strlen(name), ES_TEXT_LABEL);
    es_text_add_string(&labels, "\",kind=\"");
    es_text_add_utf8(&labels, settings->kind, strlen(settings->kind), ES_TEXT_LABEL);
    es_text_add(&labels, "\"", 2); // with the end of the string
    EsStatus status = labels.status;
    if (status == ES_STATUS_OK) {
        status = es_prometheus_sink_open(settings->prometheus_address, settings->prometheus_port,
                                         labels.bytes, &run->prometheus_port, &sink);
    }
    es_text_destroy(&labels);
    ES_TRY(add_sink(run, status, &sink));
    es_log(ES_LOG_INFO, "metrics at http://%s:%d/metrics", settings->prometheus_address,
           run->prometheus_port);
    return ES_STATUS_OK;
}

// A person's progress does not depend on recording: without telemetry the hub has the
// console alone.
static EsStatus open_hub(EsRun *run) {
    const EsRunSettings *settings = run->options.settings;
    EsHubOptions options = es_hub_defaults();
    options.level = (EsTelemetryLevel)settings->level;
    int is_recorded = options.level != ES_LEVEL_OFF && es_run_is_writer(run);
    if (!is_recorded) {
        options.level = ES_LEVEL_MINIMAL;
    }
    options.stride = settings->stride;
    options.queue_packets = settings->queue_packets;
    options.spill_bytes = (size_t)settings->spill_mib << 20;
    int may_spill = settings->spill_mib > 0 && es_run_is_writer(run);
    options.spill_folder = may_spill ? es_run_folder_root(run->folder) : NULL;
    ES_TRY(es_hub_create(&options, &run->hub));
    if (is_recorded) {
        ES_TRY(add_file_sinks(run));
        if (settings->prometheus_port >= 0) {
            ES_TRY(add_prometheus_sink(run));
        }
    }
    if (run->options.progress != NULL && es_run_is_writer(run)) {
        EsConsoleOptions console = {.descriptor = fileno(run->options.progress),
                                    .is_terminal = run->options.is_terminal,
                                    .n_rounds = settings->n_rounds,
                                    .first_round = (int)run->n_rounds_done,
                                    .seconds_between = 0};
        EsSink sink;
        ES_TRY(add_sink(run, es_console_sink_open(&console, &sink), &sink));
    }
    return ES_STATUS_OK;
}

EsRunNeed es_run_need(const EsRunSettings *settings, int has_progress) {
    int n_sinks = settings->sqlite + settings->jsonl + settings->tensorboard +
                  (settings->prometheus_port >= 0);
    n_sinks = (settings->level != ES_LEVEL_OFF ? n_sinks : 0) + (has_progress != 0);
    size_t bytes = es_hub_defaults().queue_bytes * (size_t)n_sinks +
                   sizeof(EsAnomalyDetectedEvent) * MAX_ANOMALIES;
    return (EsRunNeed){bytes, bytes + ES_SHA256_FILE_BYTES}; // buffer to read saved files with
}

static void release_run(EsRun *run) {
    es_run_writer_stop(run->writer); // it reads hub and folder
    if (run->is_watching) {
        es_stop_signal_end();
    }
    es_hub_close(run->hub, NULL);
    es_checkpoint_end(run->checkpoint);
    es_run_folder_close(run->folder);
    es_anomaly_list_destroy(&run->anomalies);
    es_release(run);
}

// Ends a run that has not started: a new one is removed again, so that the same command can be
// repeated. Keeps the detail of the failure.
static EsStatus give_up(EsRun *run, EsStatus status) {
    char root[ES_RUN_PATH_BYTES] = "", detail[1024];
    int had_folder = run->had_folder;
    snprintf(detail, sizeof detail, "%s", es_status_detail());
    if (run->options.resume == NULL && run->folder != NULL && es_run_is_writer(run)) {
        snprintf(root, sizeof root, "%s", es_run_folder_root(run->folder));
    }
    release_run(run);
    EsRunRemoval removal = {.is_preview = 0};
    if (root[0] != '\0' && es_run_remove(root, &removal) == ES_STATUS_OK && had_folder) {
        EsStatus ignored = es_folder_make(root);
        (void)ignored; // an empty folder is no loss
    }
    return status == ES_STATUS_OK ? status
                                  : es_status_set(status, __FILE__, __LINE__, "%s", detail);
}

// Mark a run from before there were markers; last, when folder and database have proved to be a
// run's.
static EsStatus mark_resumed(const EsRun *run) {
    const char *root = es_run_folder_root(run->folder);
    char kind[ES_RUN_KIND_BYTES];
    ES_TRY(es_run_marker_read(root, kind));
    return kind[0] == '\0' ? es_run_marker_write(root, run->options.settings->kind) : ES_STATUS_OK;
}

EsStatus es_run_open(const EsRunOptions *options, EsRun **run_out) {
    EsRun *run = NULL;
    *run_out = NULL;
    ES_TRY(es_allocate(sizeof *run, (void **)&run));
    run->options = *options;
    snprintf(run->build, sizeof run->build, "%s", options->build != NULL ? options->build : "");
    run->options.build = options->build != NULL ? run->build : NULL;
    run->best_score = -INFINITY;
    es_anomaly_detector_reset(&run->detector, NULL, es_anomaly_growth_heads, ES_N_GROWTH_HEADS);
    EsStatus status = es_anomaly_list_create(&run->anomalies, MAX_ANOMALIES);
    if (status == ES_STATUS_OK && es_run_is_writer(run)) {
        status =
            options->resume != NULL ? open_resumed(run) : es_run_folder_check_new(options->out);
    }
    if (status != ES_STATUS_OK) {
        return give_up(run, status);
    }
    *run_out = run;
    return ES_STATUS_OK;
}

// Folder and place of the run, from rank 0 to the others.
typedef struct RankStart {
    char root[ES_RUN_PATH_BYTES];
    int64_t n_rounds_done;
    int64_t is_resumed; // there is a checkpoint
} RankStart;

// A rank other than 0 takes the folder that rank 0 has made or opened, and the same checkpoint. It
// changes nothing there, whatever it reads.
static EsStatus join_folder(EsRun *run, const RankStart *start) {
    ES_TRY(es_run_folder_join(start->root, &run->folder));
    if (!start->is_resumed) {
        return ES_STATUS_OK;
    }
    EsStatus status = es_checkpoint_open(start->root, start->n_rounds_done, &run->checkpoint);
    if (status != ES_STATUS_OK) {
        return es_status_set(status, __FILE__, __LINE__,
                             "rank %d cannot go on from the checkpoint that rank 0 has read in %s: "
                             "%.500s; do all ranks see the same files?",
                             es_ranks_number(run->options.settings->ranks), start->root,
                             es_status_detail());
    }
    run->n_rounds_done = run->n_rounds_saved = run->n_rounds_sent = start->n_rounds_done;
    return ES_STATUS_OK;
}

// Folder and checkpoint on every rank; rank 0 comes first.
static EsStatus share_folder(EsRun *run) {
    EsRanks *ranks = run->options.settings->ranks;
    RankStart start = {.root = ""};
    if (es_run_is_writer(run)) {
        ES_TRY(start_folder(run));
        snprintf(start.root, sizeof start.root, "%s", es_run_folder_root(run->folder));
        start.n_rounds_done = run->n_rounds_done;
        start.is_resumed = run->checkpoint != NULL;
    }
    ES_TRY(es_ranks_broadcast(ranks, "start of the run", 0, &start, sizeof start));
    return es_run_is_writer(run) ? ES_STATUS_OK : join_folder(run, &start);
}

EsStatus es_run_start(EsRun *run) {
    ES_ASSERT(!run->is_started);
    run->session_start_ns = es_clock_ns();
    run->is_watching = 1;
    int has_epochs = strcmp(word_of(run), "epoch") == 0, is_heard = es_run_is_writer(run);
    ES_TRY(es_stop_signal_begin(!is_heard    ? NULL
                                : has_epochs ? stop_after_epoch
                                             : stop_after_round,
                                is_heard ? quit_message : NULL));
    ES_TRY(share_folder(run));
    ES_TRY(open_hub(run));
    ES_TRY(es_run_writer_start(&run->writer));
    int is_marked = run->options.resume != NULL && es_run_is_writer(run);
    ES_TRY(is_marked ? mark_resumed(run) : ES_STATUS_OK);
    run->is_started = 1;
    return ES_STATUS_OK;
}

const EsRunFolder *es_run_folder(const EsRun *run) { return run->folder; }

EsHub *es_run_hub(EsRun *run) { return run->hub; }

int es_run_is_writer(const EsRun *run) {
    return es_ranks_number(run->options.settings->ranks) == 0;
}

int64_t es_run_rounds_done(const EsRun *run) { return run->n_rounds_done; }

int es_run_has_progress(const EsRun *run) { return run->options.progress != NULL; }

EsAnomalyDetector *es_run_detector(EsRun *run) { return &run->detector; }

EsAnomalyList *es_run_anomalies(EsRun *run) { return &run->anomalies; }

void es_run_note_halt(EsRun *run, const char *reason) {
    snprintf(run->halt_reason, sizeof run->halt_reason, "%s", reason);
}

static void emit_end(EsRun *run, EsStatus status, const char *detail) {
    EsHubHealth health;
    es_hub_health(run->hub, &health);
    int is_halted = status == ES_STATUS_OK && run->halt_reason[0] != '\0';
    EsRunEndedEvent row = {.outcome = is_halted                         ? "halted"
                                      : status == ES_STATUS_OK          ? "done"
                                      : status == ES_STATUS_INTERRUPTED ? "interrupted"
                                                                        : "failed",
                           .detail = is_halted                ? run->halt_reason
                                     : status == ES_STATUS_OK ? NULL
                                                              : detail,
                           .seconds = es_clock_seconds_since(run->session_start_ns)};
    for (int i = 0; i < health.n_sinks; i++) {
        row.n_dropped += health.sinks[i].n_dropped;
        row.n_lost += health.sinks[i].n_lost;
    }
    es_emit_run_ended(run->hub, (EsEventTime){.round = run->n_rounds_done, .step = -1}, &row, 1);
}

EsStatus es_run_close(EsRun *run, EsStatus status, EsRunOutcome *outcome) {
    if (run == NULL) {
        return status;
    }
    if (!run->is_started) {
        return give_up(run, status);
    }
    char detail[1024];
    snprintf(detail, sizeof detail, "%s", es_status_detail());
    es_run_writer_drain(run->writer);
    es_run_collect(run);
    emit_end(run, status, detail);
    EsRunOutcome ended = {.n_rounds_done = run->n_rounds_saved,
                          .diverged_since = run->diverged_since};
    es_run_writer_stop(run->writer); // it flushes the hub
    run->writer = NULL;
    es_hub_close(run->hub, &ended.health);
    run->hub = NULL;
    ended.has_lost_events = es_hub_health_has_losses(&ended.health);
    release_run(run);
    if (outcome != NULL) {
        *outcome = ended;
    }
    // closing may have overwritten the text of the failure
    return status == ES_STATUS_OK ? status
                                  : es_status_set(status, __FILE__, __LINE__, "%s", detail);
}
