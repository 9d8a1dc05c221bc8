// The loop over rounds: work, checkpoints, and when to stop.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "base/words.h"
#include "esper/log.h"
#include "runs/run_internal.h"
#include "runs/stop_signal.h"
#include "telemetry/sinks/run_database.h"

// a save for the sake of Ctrl-C waits until the work since the last one took this many times as
// long
#define SAVE_COST_SHARE 10

// of a command in a message; longer ones are cut
#define RESUME_BYTES 800

void es_round_report_reset(EsRoundReport *report) {
    double missing = es_missing_real();
    *report = (EsRoundReport){.accuracy = missing,
                              .accuracy_std = missing,
                              .score = missing,
                              .loss = missing,
                              .reward = missing,
                              .n_seeds = ES_MISSING_INT,
                              .n_fossils = ES_MISSING_INT,
                              .allocated_bytes = ES_MISSING_INT,
                              .device_bytes = ES_MISSING_INT};
}

// The most work that a dropped round may take with it. Rounds before it that are not saved are lost
// too, since the state at hand is in the midst of a round.
static double loss_limit(const EsRun *run) {
    return (double)run->options.settings->stop_seconds / 3;
}

// A failure of the ranks, in place of what came of it: work that they left is not the user's stop.
static EsStatus share_failure(const EsRun *run, EsStatus status) {
    EsStatus shared = es_ranks_status(run->options.settings->ranks);
    return shared == ES_STATUS_OK ? status : shared;
}

// Rank 0's answer, on all ranks; after a failure of theirs it is yes.
static int share_answer(EsRun *run, const char *what, int answer) {
    EsStatus status =
        es_ranks_broadcast(run->options.settings->ranks, what, 0, &answer, sizeof answer);
    return status == ES_STATUS_OK ? answer : 1;
}

int es_run_must_stop(EsRun *run) {
    return share_answer(run, "whether to stop", es_stop_signal_time_ns() != 0);
}

static int must_drop(const EsRun *run) {
    int64_t asked_ns = es_stop_signal_time_ns();
    if (asked_ns == 0 || run->unsaved_seconds > loss_limit(run)) {
        return 0;
    }
    double stop_seconds = (double)run->options.settings->stop_seconds;
    double elapsed_at_asking = (double)(asked_ns - run->round_start_ns) * 1e-9;
    if (run->round_seconds > 0 && run->round_seconds - elapsed_at_asking > stop_seconds) {
        return 1;
    }
    return es_clock_seconds_since(asked_ns) >= stop_seconds;
}

int es_run_must_drop(EsRun *run) {
    return share_answer(run, "whether to drop the round", must_drop(run));
}

// --- checkpoints ---

// The loop's own state is that of the anomaly rules, so that a resumed run has the findings of an
// uninterrupted one. Its bytes are kept as hexadecimal digits.
#define STATE_DIGITS (2 * sizeof(EsAnomalyState))

// in the checkpoints of a run that has diverged, and in no others
#define DIVERGED_KEY "diverged_since"

// not in checkpoints of programs that did not count, nor of runs that began with one
#define STEPS_KEY "n_steps"

static EsStatus put_counters(const EsRun *run, EsCheckpoint *checkpoint) {
    const unsigned char *bytes = (const unsigned char *)&run->detector.state;
    char text[STATE_DIGITS + 1];
    for (size_t i = 0; i < sizeof run->detector.state; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    char *settings = NULL;
    ES_TRY(es_run_settings_write_fixed(run->options.config, &settings));
    EsStatus status = es_checkpoint_put_text(checkpoint, ES_RUN_SETTINGS_KEY, settings);
    es_release(settings);
    ES_TRY(status);
    ES_TRY(es_checkpoint_put_int(checkpoint, "n_episodes", run->n_episodes));
    if (run->diverged_since > 0) {
        ES_TRY(es_checkpoint_put_int(checkpoint, DIVERGED_KEY, run->diverged_since));
    }
    if (run->n_steps != ES_MISSING_INT) {
        ES_TRY(es_checkpoint_put_int(checkpoint, STEPS_KEY, run->n_steps));
    }
    return es_checkpoint_put_text(checkpoint, "anomaly_state", text);
}

// Steps of earlier sessions whose checkpoint does not say: those that the database has. Missing
// where there is none, or where it lacks a round.
static int64_t sum_steps(const EsRun *run) {
    static const char sql[] = "SELECT sum(n_steps), count(n_steps) FROM event_round_completed "
                              "WHERE round BETWEEN 1 AND ?";
    EsRunDatabase *database = NULL;
    EsRunQuery *query = NULL;
    int has_row = 0;
    int64_t n_steps = ES_MISSING_INT;
    EsStatus status = es_run_database_open(es_run_folder_root(run->folder), &database);
    if (status == ES_STATUS_OK) {
        status = es_run_query_begin(database, sql, &query);
    }
    if (status == ES_STATUS_OK) {
        status = es_run_query_bind_int(query, 1, run->n_rounds_done);
    }
    if (status == ES_STATUS_OK) {
        status = es_run_query_step(query, &has_row);
    }
    if (status == ES_STATUS_OK && has_row && es_run_query_int(query, 1) == run->n_rounds_done) {
        n_steps = es_run_query_int(query, 0);
    }
    es_run_query_end(query);
    es_run_database_close(database);
    return n_steps;
}

static EsStatus take_steps(EsRun *run, const char *path) {
    if (!es_checkpoint_has(run->checkpoint, STEPS_KEY)) {
        run->n_steps = es_run_is_writer(run) ? sum_steps(run) : ES_MISSING_INT;
        return ES_STATUS_OK;
    }
    ES_TRY(es_checkpoint_int(run->checkpoint, STEPS_KEY, &run->n_steps));
    return es_check_counter((EsFileField){path, STEPS_KEY, ES_NO_INDEX}, run->n_steps);
}

static EsStatus take_counters(EsRun *run) {
    EsAnomalyState state;
    unsigned char *bytes = (unsigned char *)&state;
    const char *text = NULL;
    char path[ES_RUN_PATH_BYTES];
    es_checkpoint_path(run->checkpoint, "rank0.json", path);
    ES_TRY(es_checkpoint_int(run->checkpoint, "n_episodes", &run->n_episodes));
    ES_TRY(es_check_counter((EsFileField){path, "n_episodes", ES_NO_INDEX}, run->n_episodes));
    ES_TRY(take_steps(run, path));
    if (es_checkpoint_has(run->checkpoint, DIVERGED_KEY)) {
        ES_TRY(es_checkpoint_int(run->checkpoint, DIVERGED_KEY, &run->diverged_since));
        ES_TRY(es_check_integer((EsFileField){path, DIVERGED_KEY, ES_NO_INDEX}, run->diverged_since,
                                1, run->n_rounds_done));
    }
    ES_TRY(es_checkpoint_text(run->checkpoint, "anomaly_state", &text));
    if (strlen(text) != STATE_DIGITS || strspn(text, "0123456789abcdef") != STATE_DIGITS) {
        return ES_FAIL(INPUT, "%s: anomaly_state is not in the form that this program writes",
                       path);
    }
    for (size_t i = 0; i < sizeof state; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    ES_TRY(es_anomaly_state_check(&state, path));
    run->detector.state = state;
    return ES_STATUS_OK;
}

// "round" or "epoch".
static const char *word_of(const EsRun *run) {
    return es_run_kind_round(run->options.settings->kind);
}

// The command that goes on with the run.
static const char *write_resume(const EsRun *run, char command[RESUME_BYTES]) {
    char folder[RESUME_BYTES - 40];
    snprintf(command, RESUME_BYTES, "esper %.16s --resume %s%s",
             es_run_kind_command(run->options.settings->kind),
             es_shell_word(es_run_folder_root(run->folder), folder, sizeof folder),
             run->n_rounds_saved > 0 ? "" : " --restart");
    return command;
}

// Fails when the folder is no longer the one this run writes into, and says where it is.
static EsStatus check_folder(const EsRun *run) {
    char moved_to[ES_RUN_PATH_BYTES], folder[RESUME_BYTES - 40];
    if (!es_run_is_writer(run)) {
        return ES_STATUS_OK;
    }
    EsStatus status = es_run_folder_check(run->folder, moved_to);
    if (status == ES_STATUS_OK || moved_to[0] == '\0') {
        return status;
    }
    char saved[64] = "";
    if (run->n_rounds_saved > 0) {
        snprintf(saved, sizeof saved, "; %lld of %lld %ss are saved there",
                 (long long)run->n_rounds_saved, (long long)run->n_rounds_done, word_of(run));
    }
    return ES_FAIL(IO, "%s%s. Go on with: esper %s --resume %s", es_status_detail(), saved,
                   es_run_kind_command(run->options.settings->kind),
                   es_shell_word(moved_to, folder, sizeof folder));
}

// Logs the first failure of a save that may be tried again, unless the folder is gone, which ends
// the run.
static void warn_unsaved(EsRun *run, int64_t round, const char *reason) {
    char detail[1024];
    snprintf(detail, sizeof detail, "%s", reason);
    if (!run->has_failed_save && check_folder(run) == ES_STATUS_OK) {
        es_log(ES_LOG_WARNING, "checkpoint of %s %lld failed: %s; the run goes on and tries again",
               word_of(run), (long long)round, detail);
        run->has_failed_save = 1;
    }
}

// --- the writer thread ---

// A checkpoint on its way to the disk.
typedef struct SaveJob {
    EsWriterJob job;
    EsCheckpoint *checkpoint;  // owned
    const EsRunFolder *folder; // borrowed, with hub
    EsHub *hub;
    int keep;                                           // checkpoints beside the best
    EsStatus (*saved)(const char *root, int64_t round); // nullable
    int64_t round, bytes;
    int is_last; // it has to succeed, and its failure is the run's
    double score, unsaved_seconds;
} SaveJob;

// The sinks get the chance to write all earlier events, so that a database never lacks rounds that
// its checkpoint has.
static EsStatus write_checkpoint(EsWriterJob *job) {
    SaveJob *save = (SaveJob *)job;
    EsStatus status = es_checkpoint_write(save->checkpoint);
    if (status == ES_STATUS_OK) {
        es_hub_flush(save->hub, ES_RUN_FLUSH_SECONDS);
        status = es_checkpoint_complete(save->checkpoint, save->score);
    }
    save->bytes = status == ES_STATUS_OK ? es_checkpoint_bytes(save->checkpoint) : 0;
    es_checkpoint_end(save->checkpoint);
    save->checkpoint = NULL;
    ES_TRY(status);
    if (save->saved != NULL &&
        save->saved(es_run_folder_root(save->folder), save->round) != ES_STATUS_OK) {
        es_log(ES_LOG_WARNING, "after the checkpoint of %lld: %s", (long long)save->round,
               es_status_detail());
        return ES_STATUS_OK; // the record still names an older one, which stays
    }
    if (es_checkpoint_prune(save->folder, save->keep) != ES_STATUS_OK) {
        es_log(ES_LOG_WARNING, "old checkpoints could not be removed: %s", es_status_detail());
    }
    return ES_STATUS_OK;
}

static void destroy_save(EsWriterJob *job) {
    es_checkpoint_end(((SaveJob *)job)->checkpoint);
    es_release(job);
}

static void note_saved(EsRun *run, const SaveJob *save) {
    int is_best = save->score >= run->best_score; // the later of equal ones, as the store has it
    char path[64];
    run->best_score = is_best ? save->score : run->best_score;
    run->n_rounds_saved = save->round;
    run->save_seconds = save->job.seconds;
    snprintf(path, sizeof path, "checkpoints/%lld", (long long)save->round);
    EsCheckpointSavedEvent row = {.path = path,
                                  .bytes = save->bytes,
                                  .seconds = save->job.seconds,
                                  .score = save->score,
                                  .is_best = is_best};
    es_emit_checkpoint_saved(run->hub, (EsEventTime){.round = save->round, .step = -1}, &row, 1);
}

static void note_unsaved(EsRun *run, const SaveJob *save) {
    if (run->n_rounds_sent == save->round) { // no later one is on its way
        run->n_rounds_sent = run->n_rounds_saved;
    }
    run->unsaved_seconds += save->unsaved_seconds;
    snprintf(run->save_detail, sizeof run->save_detail, "%s", save->job.detail);
    if (!save->is_last) {
        warn_unsaved(run, save->round, save->job.detail);
    }
}

void es_run_collect(EsRun *run) {
    for (EsWriterJob *job = es_run_writer_take(run->writer); job != NULL;
         job = es_run_writer_take(run->writer)) {
        es_run_add_phase(&run->phases, ES_PHASE_WRITE, 1e3 * job->seconds);
        es_run_add_time(&run->write_times, 1e3 * job->seconds);
        if (job->kind == ES_WRITER_CHECKPOINT) {
            run->save_status = job->status;
            if (job->status == ES_STATUS_OK) {
                note_saved(run, (const SaveJob *)job);
            } else {
                note_unsaved(run, (const SaveJob *)job);
            }
        } else if (job->status != ES_STATUS_OK && run->write_status == ES_STATUS_OK) {
            run->write_status = job->status;
            snprintf(run->write_detail, sizeof run->write_detail, "%s", job->detail);
        }
        job->destroy(job);
    }
}

static EsStatus check_writes(EsRun *run) {
    es_run_collect(run);
    return run->write_status == ES_STATUS_OK
               ? ES_STATUS_OK
               : es_status_set(run->write_status, __FILE__, __LINE__, "%s", run->write_detail);
}

EsStatus es_run_submit(EsRun *run, EsWriterJob *job) {
    EsStatus status = check_writes(run);
    if (status != ES_STATUS_OK) {
        job->destroy(job);
        return status;
    }
    es_run_writer_submit(run->writer, job);
    return ES_STATUS_OK;
}

EsStatus es_run_drain(EsRun *run) {
    es_run_writer_drain(run->writer);
    return check_writes(run);
}

// Copies what the run has and hands it to the writer thread.
static EsStatus send_round(EsRun *run, const EsRunWork *work, int is_last) {
    int64_t start_ns = es_clock_ns();
    SaveJob *save = NULL;
    ES_TRY(es_allocate(sizeof *save, (void **)&save));
    save->job = (EsWriterJob){
        .kind = ES_WRITER_CHECKPOINT, .write = write_checkpoint, .destroy = destroy_save};
    save->folder = run->folder;
    save->hub = run->hub;
    save->keep = run->options.settings->checkpoint_keep;
    save->saved = work->saved;
    save->round = run->n_rounds_done;
    save->is_last = is_last;
    save->score = run->score;
    save->unsaved_seconds = run->unsaved_seconds;
    EsStatus status = es_checkpoint_hold(run->folder, run->n_rounds_done, &save->checkpoint);
    if (status == ES_STATUS_OK) {
        status = put_counters(run, save->checkpoint);
        status = status == ES_STATUS_OK ? work->save(work->context, save->checkpoint) : status;
        es_checkpoint_hold_end(save->checkpoint);
    }
    if (status != ES_STATUS_OK) {
        destroy_save(&save->job);
        return status;
    }
    run->n_rounds_sent = run->n_rounds_done;
    run->unsaved_seconds = 0;
    es_run_writer_submit(run->writer, &save->job);
    es_run_phase_end(run, ES_PHASE_CHECKPOINT, start_ns);
    return ES_STATUS_OK;
}

// Sends it and waits until it is on disk.
static EsStatus save_round(EsRun *run, const EsRunWork *work) {
    ES_TRY(send_round(run, work, 1));
    es_run_writer_drain(run->writer);
    es_run_collect(run);
    return run->save_status == ES_STATUS_OK
               ? ES_STATUS_OK
               : es_status_set(run->save_status, __FILE__, __LINE__, "%s", run->save_detail);
}

// Fails for a save that had to succeed, naming the loss and the way on.
static EsStatus fail_save(const EsRun *run, EsStatus status) {
    char command[RESUME_BYTES];
    return es_status_set(status, __FILE__, __LINE__,
                         "%s %lld could not be saved: %s. %lld of %lld %ss are saved; when "
                         "the cause is gone, go on with: %s",
                         word_of(run), (long long)run->n_rounds_done, es_status_detail(),
                         (long long)run->n_rounds_saved, (long long)run->n_rounds_done,
                         word_of(run), write_resume(run, command));
}

// Saves when it is due. A failure is logged once and training goes on, since the next one may
// succeed; only the last save has to.
static EsStatus save_when_due(EsRun *run, const EsRunWork *work) {
    const EsRunSettings *settings = run->options.settings;
    es_run_collect(run);
    if (run->is_spoiled || !es_run_is_writer(run)) {
        return check_writes(run);
    }
    int is_last = run->n_rounds_done >= settings->n_rounds || es_stop_signal_time_ns() != 0;
    // a round that is dropped after Ctrl-C must find nearly everything before it saved, unless
    // saving would take a tenth of the time; a round that would surely be dropped, in any case
    int is_long =
        run->round_seconds > (double)settings->stop_seconds ||
        run->unsaved_seconds > ES_MAX(loss_limit(run), SAVE_COST_SHARE * run->save_seconds);
    int is_due = run->n_rounds_done - run->n_rounds_sent >= settings->checkpoint_every;
    if (!is_last && !is_long && !is_due) {
        return check_writes(run);
    }
    EsStatus status = is_last ? save_round(run, work) : send_round(run, work, 0);
    if (status != ES_STATUS_OK && !is_last) {
        warn_unsaved(run, run->n_rounds_done, es_status_detail());
        return check_folder(run);
    }
    ES_TRY(status != ES_STATUS_OK ? check_folder(run) : ES_STATUS_OK);
    return status == ES_STATUS_OK ? check_writes(run) : fail_save(run, status);
}

// --- the loop ---

// Names the saved part of a run that was asked to stop.
static EsStatus fail_interrupted(const EsRun *run, int is_dropped) {
    int64_t n_lost = run->n_rounds_done - run->n_rounds_saved; // beside the current one
    char dropped[120] = "", command[RESUME_BYTES];
    if (is_dropped && n_lost > 0) {
        snprintf(dropped, sizeof dropped,
                 "the current %s and %lld unsaved before it were dropped; ", word_of(run),
                 (long long)n_lost);
    } else if (is_dropped) {
        snprintf(dropped, sizeof dropped, "the current %s was dropped; ", word_of(run));
    }
    return run->n_rounds_saved > 0
               ? ES_FAIL(INTERRUPTED, "interrupted; %s%lld of %lld %ss are saved. Go on with: %s",
                         dropped, (long long)run->n_rounds_saved,
                         (long long)run->options.settings->n_rounds, word_of(run),
                         write_resume(run, command))
               : ES_FAIL(INTERRUPTED, "interrupted; %snothing was saved yet. Start again with: %s",
                         dropped, write_resume(run, command));
}

static EsStatus load_checkpoint(EsRun *run, const EsRunWork *work) {
    char path[64];
    ES_TRY(take_counters(run));
    ES_TRY(work->load(work->context, run->checkpoint));
    snprintf(path, sizeof path, "checkpoints/%lld", (long long)run->n_rounds_done);
    EsCheckpointLoadedEvent row = {.path = path, .total_steps = run->n_steps};
    es_emit_checkpoint_loaded(run->hub, (EsEventTime){.round = run->n_rounds_done, .step = -1},
                              &row, 1);
    es_checkpoint_end(run->checkpoint);
    run->checkpoint = NULL;
    return ES_STATUS_OK;
}

// In every session: an earlier one may have had other settings, or recorded nothing.
static EsStatus emit_start(EsRun *run, const EsRunWork *work) {
    EsEventTime time = {.round = run->n_rounds_done, .step = -1};
    char *config = NULL;
    size_t config_bytes = 0;
    FILE *stream = open_memstream(&config, &config_bytes);
    if (stream == NULL) {
        return ES_FAIL(MEMORY, "no memory for the configuration's text");
    }
    EsStatus status = es_config_print(run->options.config, stream);
    EsStatus closed = es_memory_stream_close(stream, &config);
    status = status == ES_STATUS_OK ? closed : status;
    EsRunStartedEvent row = {.kind = run->options.settings->kind,
                             .run_id = es_run_folder_name(run->folder),
                             .device = run->options.settings->device,
                             .build = run->options.build,
                             .config = config,
                             .seed = run->options.settings->seed,
                             .n_envs = ES_MISSING_INT,
                             .n_rounds = run->options.settings->n_rounds,
                             .n_host_parameters = ES_MISSING_INT,
                             .rank = 0,
                             .n_ranks = es_ranks_count(run->options.settings->ranks)};
    if (status == ES_STATUS_OK) {
        work->describe(work->context, &row);
        es_emit_run_started(run->hub, time, &row, 1);
    }
    free(config);
    return status;
}

static EsStatus begin_rounds(EsRun *run, const EsRunWork *work) {
    ES_TRY(emit_start(run, work));
    return run->checkpoint != NULL ? load_checkpoint(run, work) : ES_STATUS_OK;
}

// Compares the state that every rank holds after a round: files that ranks read from their own
// disks (policies, scripts, hosts) may differ, and the rows that they exchange would be of no run.
static EsStatus check_ranks(const EsRun *run, const EsRoundReport *report) {
    char name[64], detail[1024];
    snprintf(name, sizeof name, "state after %s %lld", word_of(run),
             (long long)run->n_rounds_done + 1);
    EsStatus status =
        es_ranks_agree(run->options.settings->ranks, &(EsRankFact){name, report->state_hash}, 1);
    if (status != ES_STATUS_CONFIG) {
        return status;
    }
    snprintf(detail, sizeof detail, "%s", es_status_detail());
    return es_status_set(status, __FILE__, __LINE__,
                         "%s; it is not saved. Do all ranks read the same files (policy, host, "
                         "schedule)?",
                         detail);
}

// Counts a round that went well, emits its events and saves when that is due.
static EsStatus end_round(EsRun *run, const EsRunWork *work, const EsRoundReport *report) {
    ES_TRY(check_ranks(run, report));
    run->round_seconds = es_run_phase_end(run, ES_PHASE_ROUND, run->round_start_ns) * 1e-3;
    run->unsaved_seconds += run->round_seconds;
    run->n_rounds_done++;
    run->n_episodes += report->n_episodes;
    run->n_steps += run->n_steps != ES_MISSING_INT ? report->n_steps : 0;
    if (!report->has_diverged || run->diverged_since == 0) {
        run->diverged_since = report->has_diverged ? run->n_rounds_done : 0;
    }
    run->is_spoiled = report->is_spoiled;
    run->score = es_is_missing_real(report->score) ? report->accuracy : report->score;
    es_run_emit_round(run, report, run->round_seconds);
    ES_TRY(check_folder(run));
    return save_when_due(run, work);
}

static EsStatus finish_work(EsRun *run, const EsRunWork *work) {
    char command[RESUME_BYTES];
    int has_epochs = strcmp(word_of(run), "epoch") == 0;
    es_stop_signal_set_message(
        !es_run_is_writer(run) ? NULL
        : has_epochs           ? "\nstopping; the epochs are saved; Ctrl-C again quits at once\n"
                               : "\nstopping; the rounds are saved; Ctrl-C again quits at once\n");
    EsStatus status = work->finish != NULL ? work->finish(work->context, run) : ES_STATUS_OK;
    status = share_failure(run, status);
    if (status != ES_STATUS_INTERRUPTED || run->n_rounds_saved == 0) {
        return status;
    }
    return ES_FAIL(INTERRUPTED,
                   "interrupted; all %lld %ss are saved, but the work after them is not done. "
                   "Go on with: %s",
                   (long long)run->n_rounds_saved, word_of(run), write_resume(run, command));
}

static int has_rounds_left(const EsRun *run, const EsRunWork *work) {
    return run->n_rounds_done < run->options.settings->n_rounds &&
           (work->is_over == NULL || !work->is_over(work->context));
}

// After the last round: says which rounds have no checkpoint because they went wrong.
static void warn_spoiled(const EsRun *run) {
    if (run->is_spoiled && run->n_rounds_done > run->n_rounds_saved) {
        es_log(ES_LOG_WARNING,
               "the last %lld of %lld %ss went wrong, could not be undone, and are not saved",
               (long long)(run->n_rounds_done - run->n_rounds_saved), (long long)run->n_rounds_done,
               word_of(run));
    }
}

EsStatus es_run_rounds(EsRun *run, const EsRunWork *work) {
    ES_ASSERT(run->is_started);
    int n_asked = run->options.settings->n_threads;
    run->n_threads = n_asked > 0 ? n_asked : es_processor_count();
    EsStatus status = begin_rounds(run, work);
    while (status == ES_STATUS_OK && has_rounds_left(run, work) && !es_run_must_stop(run)) {
        EsRoundReport report;
        es_round_report_reset(&report);
        run->round_start_ns = es_clock_ns();
        run->processor_start = es_run_processor_seconds();
        status = work->round(work->context, run, run->n_rounds_done + 1, &report);
        status = status == ES_STATUS_OK ? end_round(run, work, &report) : status;
        es_run_add_round_time(run, run->round_start_ns);
    }
    es_run_writer_drain(run->writer);
    es_run_collect(run);
    status = share_failure(run, status);
    if (status == ES_STATUS_OK || status == ES_STATUS_INTERRUPTED) {
        EsStatus checked = check_folder(run);
        status = checked == ES_STATUS_OK ? status : checked;
    }
    // the request to stop may have come after the round had decided that it need not save
    if (status == ES_STATUS_OK && run->n_rounds_done > run->n_rounds_saved && !run->is_spoiled &&
        es_run_is_writer(run)) {
        status = save_round(run, work);
        status = status == ES_STATUS_OK ? status : fail_save(run, status);
    }
    warn_spoiled(run);
    if (status == ES_STATUS_OK || status == ES_STATUS_INTERRUPTED) { // saved in any case
        EsStatus written = check_writes(run);
        status = written == ES_STATUS_OK ? status : written;
    }
    // the last checkpoint was written after the events of its round
    es_run_emit_phases(run, (EsEventTime){.round = run->n_rounds_done, .step = -1});
    int is_stopped =
        status == ES_STATUS_INTERRUPTED || (status == ES_STATUS_OK && has_rounds_left(run, work));
    if (!is_stopped) {
        ES_TRY(status);
        ES_TRY(finish_work(run, work));
        return check_folder(run);
    }
    return fail_interrupted(run, status == ES_STATUS_INTERRUPTED);
}
