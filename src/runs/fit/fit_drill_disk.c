// Drills of a whole run on disk: a folder that fills up, a process that is killed while it saves, a
// checkpoint that is damaged, epochs that are undone. Each is compared byte by byte with a run that
// nothing happened to, or with the state that it goes back to.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/file_fault.h"
#include "base/folder.h"
#include "base/memory.h"
#include "runs/fit/fit_drill.h"
#include "runs/fit/fit_run.h"
#include "runs/fit/fit_search.h"
#include "runs/run_removal.h"

enum { EPOCHS = 8, STOPPED = 5 };

// A temporary folder with runs: `whole` is never disturbed, `other` is; `twin` is there where a
// drill needs a third.
typedef struct Place {
    char root[ES_RUN_PATH_BYTES / 2];
    char whole[ES_RUN_PATH_BYTES], other[ES_RUN_PATH_BYTES], twin[ES_RUN_PATH_BYTES];
} Place;

// --- runs ---

// The work of a fit that is over early, so that another session goes on.
typedef struct Session {
    EsRunWork work;
    int64_t last, n_done;
} Session;

static EsStatus run_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    Session *session = context;
    session->n_done = round;
    return session->work.round(session->work.context, run, round, report);
}

static void describe(void *context, EsRunStartedEvent *row) {
    const Session *session = context;
    session->work.describe(session->work.context, row);
}

static EsStatus save(void *context, EsCheckpoint *checkpoint) {
    const Session *session = context;
    return session->work.save(session->work.context, checkpoint);
}

static EsStatus load(void *context, const EsCheckpoint *checkpoint) {
    const Session *session = context;
    return session->work.load(session->work.context, checkpoint);
}

static EsStatus finish(void *context, EsRun *run) {
    const Session *session = context;
    return session->work.finish(session->work.context, run);
}

static int is_over(void *context) {
    const Session *session = context;
    return session->n_done >= session->last || session->work.is_over(session->work.context);
}

// Of a session: its rails, a fault, and the counters at its end.
typedef struct Orders {
    EsRailsSettings rails; // all 0: none
    const EsFitDrill *drill;
    EsRailsCounts counts;
    int is_halted;
} Orders;

static EsConfig configure(EsFitSettings *settings) {
    EsConfig config = es_fit_run_config(settings);
    snprintf(settings->data.name, sizeof settings->data.name, "tiny");
    snprintf(settings->task, sizeof settings->task, "tiny");
    snprintf(settings->policy, sizeof settings->policy, "random");
    settings->run.n_rounds = EPOCHS;
    settings->run.n_threads = 1;
    settings->run.checkpoint_every = 1;
    settings->run.checkpoint_keep = 3;
    settings->run.level = ES_LEVEL_OFF;
    settings->n_candidates = 4;
    settings->epoch_batches = 2;
    settings->max_parameters = 3000;
    settings->host_learning_rate = settings->seed_learning_rate = ES_FIT_RATE;
    return config;
}

// A session of the run in that folder, up to epoch `last`, with orders.
static EsStatus run_ordered(const char *folder, int is_resumed, int64_t last, Orders *orders) {
    EsFitSettings settings;
    EsConfig config = configure(&settings);
    settings.rails = orders->rails.is_on ? orders->rails : settings.rails;
    EsRunOptions options = {.config = &config,
                            .settings = &settings.run,
                            .out = is_resumed ? NULL : folder,
                            .resume = is_resumed ? folder : NULL,
                            .may_restart = 1,
                            .build = "drill"};
    EsFitRun *fit = NULL;
    EsRun *run = NULL;
    ES_TRY(es_run_open(&options, &run));
    EsStatus status = es_fit_run_create(&settings, &fit);
    status = status == ES_STATUS_OK ? es_fit_run_choose(fit, &settings) : status;
    status = status == ES_STATUS_OK ? es_run_start(run) : status;
    if (status == ES_STATUS_OK && orders->drill != NULL) {
        es_fit_run_set_drill(fit, orders->drill);
    }
    if (status == ES_STATUS_OK) {
        Session session = {.work = es_fit_run_work(fit), .last = last};
        const EsRunWork work = {.context = &session,
                                .describe = describe,
                                .round = run_round,
                                .save = save,
                                .saved = session.work.saved,
                                .load = load,
                                .finish = finish,
                                .is_over = is_over};
        status = es_run_rounds(run, &work);
        EsFitReport report = es_fit_run_report(fit);
        orders->is_halted = report.halt_reason != NULL;
        orders->counts = report.rails != NULL ? report.rails->counts : orders->counts;
    }
    status = es_run_close(run, status, NULL);
    es_fit_run_destroy(fit);
    return status;
}

static EsStatus run_session(const char *folder, int is_resumed, int64_t last) {
    Orders none = {.drill = NULL};
    return run_ordered(folder, is_resumed, last, &none);
}

// --- the folder ---

static EsStatus open_place(Place *place) {
    const char *parent = getenv("TMPDIR");
    parent = parent != NULL && parent[0] != '\0' ? parent : "/tmp";
    snprintf(place->root, sizeof place->root, "%.1000s/esper-drill-XXXXXX", parent); // of mkdtemp
    if (mkdtemp(place->root) == NULL) {
        place->root[0] = '\0';
        return ES_FAIL(IO, "no folder for a drill can be made in %.100s", parent);
    }
    snprintf(place->whole, sizeof place->whole, "%s/whole", place->root);
    snprintf(place->other, sizeof place->other, "%s/other", place->root);
    snprintf(place->twin, sizeof place->twin, "%s/twin", place->root);
    return run_session(place->whole, 0, EPOCHS);
}

static void close_place(const Place *place) {
    EsRunRemoval removal = {.is_preview = 0};
    es_file_fault_clear();
    if (place->root[0] == '\0') {
        return;
    }
    // a folder that stays is named by the problem that left it there
    EsStatus ignored = es_run_remove(place->whole, &removal);
    ignored = es_run_remove(place->other, &removal);
    ignored = es_run_remove(place->twin, &removal);
    (void)ignored;
    (void)rmdir(place->root);
}

static int are_equal(const char *first_folder, const char *first, const char *second_folder,
                     const char *second) {
    char path[ES_RUN_PATH_BYTES + 64];
    char first_hash[ES_SHA256_TEXT_BYTES], second_hash[ES_SHA256_TEXT_BYTES];
    snprintf(path, sizeof path, "%s/%s", first_folder, first);
    int are_there = es_sha256_file(path, first_hash, NULL) == ES_STATUS_OK;
    snprintf(path, sizeof path, "%s/%s", second_folder, second);
    are_there = are_there && es_sha256_file(path, second_hash, NULL) == ES_STATUS_OK;
    return are_there && strcmp(first_hash, second_hash) == 0;
}

// The hash of everything in a checkpoint is that in DONE.
static void promise_same(EsDrillReport *report, const Place *place) {
    static const char *const names[] = {"checkpoints/8/DONE", "networks/1/network.safetensors",
                                        "networks/1/network.json"};
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        es_drill_promise(report, are_equal(place->whole, names[i], place->other, names[i]),
                         "%s differs from that of a run that nothing happened to", names[i]);
    }
}

// Epoch of the newest checkpoint whose hashes hold; 0 when there is none.
static int64_t newest_checkpoint(const Place *place) {
    EsRunFolder *folder = NULL;
    EsCheckpoint *checkpoint = NULL;
    int64_t round = 0;
    if (es_run_folder_open(place->other, &folder) == ES_STATUS_OK &&
        es_checkpoint_open_latest(folder, 0, 1, &checkpoint) == ES_STATUS_OK &&
        checkpoint != NULL) {
        round = es_checkpoint_round(checkpoint);
    }
    es_checkpoint_end(checkpoint);
    es_run_folder_close(folder);
    return round;
}

// --- drills ---

// The hash of every file of a checkpoint of `other`, by name; of nothing when it is not there.
static EsStatus hash_checkpoint(const Place *place, int64_t epoch, char hash[ES_SHA256_TEXT_BYTES],
                                int *n_files) {
    char folder[ES_RUN_PATH_BYTES + 64], path[ES_RUN_PATH_BYTES + 384];
    EsFolderEntry *entries = NULL;
    EsStatus status = ES_STATUS_OK;
    EsSha256 all;
    *n_files = 0;
    snprintf(folder, sizeof folder, "%s/checkpoints/%lld", place->other, (long long)epoch);
    ES_TRY(es_folder_list(folder, &entries, n_files));
    es_sha256_begin(&all);
    for (int i = 0; i < *n_files && status == ES_STATUS_OK; i++) {
        char own[ES_SHA256_TEXT_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i].name);
        status = es_sha256_file(path, own, NULL);
        es_sha256_append(&all, entries[i].name, strlen(entries[i].name) + 1);
        es_sha256_append(&all, own, sizeof own);
    }
    es_sha256_end(&all, hash);
    es_release(entries);
    return status;
}

// The checkpoint of before keeps its bytes; the error names the epoch, the reason and the way on.
static EsStatus fill_disk(EsDrillReport *report, const Place *place) {
    EsFileFault fault;
    char before[ES_SHA256_TEXT_BYTES], after[ES_SHA256_TEXT_BYTES];
    int n_before = 0, n_after = 0;
    ES_TRY(run_session(place->other, 0, STOPPED));
    ES_TRY(hash_checkpoint(place, STOPPED, before, &n_before));
    ES_TRY(es_file_fault_parse("disk:20000", &fault));
    es_file_fault_arm(&fault);
    EsStatus status = run_session(place->other, 1, EPOCHS);
    char detail[1024];
    snprintf(detail, sizeof detail, "%s", es_status_detail());
    int64_t n_struck = es_file_fault_clear();
    ES_TRY(hash_checkpoint(place, STOPPED, after, &n_after));
    int64_t newest = newest_checkpoint(place);
    es_drill_promise(report, n_struck > 0, "the disk never was full");
    es_drill_promise(report, status == ES_STATUS_IO, "the run ended with status %d", (int)status);
    es_drill_promise(report, strstr(detail, "No space left") != NULL, "it says \"%.100s\"", detail);
    es_drill_promise(report, strstr(detail, place->other) != NULL, "it names no file: \"%.100s\"",
                     detail);
    es_drill_promise(report, n_before > 3 && n_after == n_before && strcmp(before, after) == 0,
                     "the checkpoint of epoch %d has changed", STOPPED);
    es_drill_promise(report, newest >= STOPPED && newest < EPOCHS,
                     "the newest checkpoint is of epoch %lld", (long long)newest);
    ES_TRY(run_session(place->other, 1, EPOCHS));
    promise_same(report, place);
    snprintf(report->happened, sizeof report->happened,
             "%lld writes failed; the %d files of epoch %d's checkpoint kept their bytes; the run "
             "ended with \"%.160s...\"; resumed from epoch %lld to the same bytes",
             (long long)n_struck, n_after, STOPPED, detail, (long long)newest);
    return ES_STATUS_OK;
}

// Runs a session in a process of its own that dies at a chosen call; returns if it was killed.
static EsStatus run_killed(const Place *place, const char *fault_text, int *was_killed) {
    EsFileFault fault;
    int result = 0;
    ES_TRY(es_file_fault_parse(fault_text, &fault));
    pid_t child = fork();
    if (child < 0) {
        return ES_FAIL(MEMORY, "no process for a drill can be made");
    }
    if (child == 0) {
        es_file_fault_arm(&fault);
        EsStatus ignored = run_session(place->other, 1, EPOCHS);
        (void)ignored;
        signal(SIGUSR1, SIG_DFL);
        raise(SIGUSR1); // not struck: ends the process without running the parent's exit handlers
    }
    pid_t ended;
    do {
        ended = waitpid(child, &result, 0);
    } while (ended < 0 && errno == EINTR);
    *was_killed = ended == child && WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL;
    return ES_STATUS_OK;
}

// Each process goes on where the one before was killed.
static EsStatus kill_saves(EsDrillReport *report, const Place *place) {
    static const char *const faults[] = {"write:9:kill", "fsync:5:kill", "rename:6:kill",
                                         "unlink:3:kill"};
    int64_t newest = STOPPED;
    int n_killed = 0;
    ES_TRY(run_session(place->other, 0, STOPPED));
    for (size_t i = 0; i < ES_COUNT_OF(faults); i++) {
        int was_killed = 0;
        ES_TRY(run_killed(place, faults[i], &was_killed));
        int64_t left = newest_checkpoint(place);
        es_drill_promise(report, was_killed, "%s struck nothing", faults[i]);
        es_drill_promise(report, left >= newest, "the checkpoint of epoch %lld is gone after %s",
                         (long long)newest, faults[i]);
        newest = left;
        n_killed += was_killed;
    }
    ES_TRY(run_session(place->other, 1, EPOCHS));
    promise_same(report, place);
    snprintf(report->happened, sizeof report->happened,
             "%d processes killed; a whole checkpoint after each; resumed to the same bytes",
             n_killed);
    return ES_STATUS_OK;
}

static EsStatus flip_byte(const char *path, off_t at) {
    unsigned char byte = 0;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    int is_done = descriptor >= 0 && pread(descriptor, &byte, 1, at) == 1;
    byte ^= 1;
    is_done = is_done && pwrite(descriptor, &byte, 1, at) == 1;
    if (descriptor >= 0) {
        close(descriptor);
    }
    return is_done ? ES_STATUS_OK : ES_FAIL(IO, "%.200s cannot be changed", path);
}

static EsStatus damage_checkpoint(EsDrillReport *report, const Place *place) {
    char path[ES_RUN_PATH_BYTES + 64];
    struct stat info;
    ES_TRY(run_session(place->other, 0, STOPPED));
    snprintf(path, sizeof path, "%s/checkpoints/%d/growth0.safetensors", place->other, STOPPED);
    ES_TRY(flip_byte(path, 1000));
    int64_t newest = newest_checkpoint(place);
    es_drill_promise(report, newest == STOPPED - 1, "the newest checkpoint is of epoch %lld",
                     (long long)newest);
    snprintf(path, sizeof path, "%s/checkpoints/damaged-%d/DONE", place->other, STOPPED);
    es_drill_promise(report, lstat(path, &info) == 0, "the damaged checkpoint was not kept");
    ES_TRY(run_session(place->other, 1, EPOCHS));
    promise_same(report, place);
    snprintf(report->happened, sizeof report->happened,
             "epoch %d's checkpoint renamed to damaged-%d; resumed from epoch %lld to the same "
             "bytes",
             STOPPED, STOPPED, (long long)newest);
    return ES_STATUS_OK;
}

// --- epochs that are undone ---

// A fault of one epoch, put into what is measured of it, and what happens to its way back. Static:
// a thread that is late may still read it.
typedef struct Spoiling {
    const Place *place;
    int has_no_loss, damages_wal, hangs;
    atomic_int is_over, n_inside;
} Spoiling;

static Spoiling spoiling;

// Waits until the record names the epoch: checkpoints are written beside the epochs.
static void await_record(const char *path, int64_t epoch) {
    char name[64];
    snprintf(name, sizeof name, "\"epoch\": %lld,", (long long)epoch);
    for (int i = 0; i < 10000; i++) {
        void *text = NULL;
        size_t bytes = 0;
        int is_there = access(path, F_OK) == 0 &&
                       es_file_read_all(path, 4096, &text, &bytes) == ES_STATUS_OK &&
                       strstr(text, name) != NULL;
        es_release(text);
        if (is_there) {
            return;
        }
        usleep(1000);
    }
}

static void spoil(void *context, int64_t round, EsFitEpoch *epoch) {
    char path[ES_RUN_PATH_BYTES + 64];
    (void)context;
    if (round != STOPPED) {
        return;
    }
    snprintf(path, sizeof path, "%s/" ES_WAL_FILE, spoiling.place->other);
    await_record(path, STOPPED - 1);
    if (spoiling.damages_wal) {
        EsStatus ignored = flip_byte(path, 28); // the epoch's digit
        (void)ignored;
    }
    epoch->has_diverged = spoiling.has_no_loss;
    epoch->gradient_norm = 1e30;
}

static void hang(void *context) {
    (void)context;
    atomic_fetch_add(&spoiling.n_inside, 1);
    while (spoiling.hangs && !atomic_load(&spoiling.is_over)) {
        usleep(1000);
    }
    atomic_fetch_sub(&spoiling.n_inside, 1);
}

static EsStatus run_spoiled(const Place *place, Spoiling what, int rollback_mib, Orders *orders) {
    static const EsFitDrill drill = {.measured = spoil, .restore = {.before = hang}};
    atomic_store(&spoiling.is_over, 0);
    spoiling.place = place;
    spoiling.has_no_loss = what.has_no_loss;
    spoiling.damages_wal = what.damages_wal;
    spoiling.hangs = what.hangs;
    *orders = (Orders){.rails = {.is_on = 1,
                                 .breaker_failures = 3,
                                 .breaker_successes = 1,
                                 .breaker_seconds = 3,
                                 .gradient_limit = 1e6f,
                                 .rollback = 1,
                                 .rollback_every = 1,
                                 .emergency_timeout_ms = 2000,
                                 .emergency_per_minute = 60,
                                 .rollback_mib = rollback_mib,
                                 .rollback_deadline_ms = what.hangs ? 100 : 60e3f},
                       .drill = &drill};
    EsStatus status = run_ordered(place->other, 0, STOPPED, orders);
    atomic_store(&spoiling.is_over, 1);
    while (atomic_load(&spoiling.n_inside) > 0) {
        usleep(1000);
    }
    return status;
}

// The checkpoint of the epoch that was undone is that of the epoch before.
static void promise_undone(EsDrillReport *report, const Place *place, const Orders *orders,
                           int from_memory) {
    static const char *const names[] = {"growth0.safetensors", "policy0.safetensors",
                                        "network.safetensors"};
    char before[64], after[64], earlier[64];
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        snprintf(before, sizeof before, "checkpoints/%d/%s", STOPPED - 1, names[i]);
        snprintf(after, sizeof after, "checkpoints/%d/%s", STOPPED, names[i]);
        es_drill_promise(report, are_equal(place->other, before, place->other, after),
                         "%s is not as it was before the epoch", names[i]);
    }
    es_drill_promise(report,
                     are_equal(place->other, after, place->other, "networks/1/network.safetensors"),
                     "the network in networks/1 is not the one before the epoch");
    snprintf(before, sizeof before, "checkpoints/%d/%s", STOPPED - 1, names[0]);
    snprintf(earlier, sizeof earlier, "checkpoints/%d/%s", STOPPED - 2, names[0]);
    es_drill_promise(report, !are_equal(place->other, before, place->other, earlier),
                     "an epoch changes nothing");
    const EsRailsCounts *counts = &orders->counts;
    es_drill_promise(report, counts->failed == 1, "%lld failed epochs", (long long)counts->failed);
    es_drill_promise(report,
                     counts->fast_hits == from_memory && counts->fast_misses == !from_memory,
                     "%lld states from memory, %lld from elsewhere", (long long)counts->fast_hits,
                     (long long)counts->fast_misses);
    es_drill_promise(report, counts->restore_failures + counts->restore_deadlines == 0,
                     "going back failed");
    snprintf(report->happened, sizeof report->happened,
             "epoch %d undone, from %s: growth, policy and network have the bytes of epoch %d",
             STOPPED, from_memory ? "memory" : "the checkpoint", STOPPED - 1);
}

static EsStatus lose_loss(EsDrillReport *report, const Place *place) {
    Orders orders;
    ES_TRY(run_spoiled(place, (Spoiling){.has_no_loss = 1}, 32, &orders));
    promise_undone(report, place, &orders, 1);
    return ES_STATUS_OK;
}

static EsStatus explode_gradient(EsDrillReport *report, const Place *place) {
    Orders orders;
    ES_TRY(run_spoiled(place, (Spoiling){.has_no_loss = 0}, 32, &orders));
    promise_undone(report, place, &orders, 1);
    return ES_STATUS_OK;
}

static EsStatus go_back_on_disk(EsDrillReport *report, const Place *place) {
    Orders orders;
    ES_TRY(run_spoiled(place, (Spoiling){.has_no_loss = 1}, 0, &orders));
    promise_undone(report, place, &orders, 0);
    return ES_STATUS_OK;
}

// The epoch stays as it is and is not saved; the run goes on from the checkpoint before.
static EsStatus promise_kept(EsDrillReport *report, const Place *place, const Orders *orders) {
    static const char *const names[] = {"checkpoints/8/growth0.safetensors",
                                        "checkpoints/8/policy0.safetensors",
                                        "checkpoints/8/network.safetensors"};
    Orders calm = {.rails = orders->rails};
    int64_t newest = newest_checkpoint(place);
    es_drill_promise(report, newest == STOPPED - 1, "the newest checkpoint is of epoch %lld",
                     (long long)newest);
    ES_TRY(run_ordered(place->other, 1, EPOCHS, &calm));
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        es_drill_promise(report, are_equal(place->whole, names[i], place->other, names[i]),
                         "%s differs from that of a run that nothing happened to", names[i]);
    }
    snprintf(report->happened, sizeof report->happened,
             "%lld restores failed, %lld were late; epoch %d was not saved; resumed from epoch "
             "%lld to the same bytes",
             (long long)orders->counts.restore_failures,
             (long long)orders->counts.restore_deadlines, STOPPED, (long long)newest);
    return ES_STATUS_OK;
}

static EsStatus miss_deadline(EsDrillReport *report, const Place *place) {
    Orders orders;
    ES_TRY(run_spoiled(place, (Spoiling){.has_no_loss = 1, .hangs = 1}, 0, &orders));
    es_drill_promise(report, orders.counts.restore_deadlines == 1, "%lld deadlines missed",
                     (long long)orders.counts.restore_deadlines);
    es_drill_promise(report, orders.is_halted && orders.counts.halts == 1, "the fit was not ended");
    return promise_kept(report, place, &orders);
}

static EsStatus damage_record(EsDrillReport *report, const Place *place) {
    Orders orders;
    ES_TRY(run_spoiled(place, (Spoiling){.has_no_loss = 1, .damages_wal = 1}, 0, &orders));
    es_drill_promise(report, orders.counts.restore_failures == 1, "%lld restores failed",
                     (long long)orders.counts.restore_failures);
    es_drill_promise(report, !orders.is_halted, "the fit was ended");
    return promise_kept(report, place, &orders);
}

// --- messages that nobody takes ---

static void make_late(void *context, int64_t round, EsFitEpoch *epoch) {
    (void)context;
    epoch->latency_ms = round == STOPPED ? 1e9 : 1;
}

// One epoch is late, and its message goes into a pipe that nobody reads; the twin's goes into a
// file.
static EsStatus stop_messages(EsDrillReport *report, const Place *place) {
    static const EsFitDrill drill = {.measured = make_late};
    char pipe[ES_RUN_PATH_BYTES + 16], file[ES_RUN_PATH_BYTES + 16], last[64];
    struct stat info;
    snprintf(pipe, sizeof pipe, "%s/pipe", place->root);
    snprintf(file, sizeof file, "%s/file", place->root);
    Orders orders = {.rails = {.is_on = 1,
                               .epoch_budget_ms = 1e6f,
                               .breaker_failures = 3,
                               .breaker_successes = 1,
                               .rollback_every = 1,
                               .emergency_timeout_ms = 100,
                               .emergency_per_minute = 60},
                     .drill = &drill};
    Orders calm = orders;
    calm.rails.emergency_timeout_ms = 60e3f;
    snprintf(orders.rails.emergency_file, sizeof orders.rails.emergency_file, "%.1000s", pipe);
    snprintf(calm.rails.emergency_file, sizeof calm.rails.emergency_file, "%.1000s", file);
    if (mkfifo(pipe, 0600) != 0) {
        return ES_FAIL(IO, "no pipe can be made in %.200s", place->root);
    }
    EsStatus status = run_ordered(place->other, 0, EPOCHS, &orders);
    int reader = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // threads that wait may end
    status = status == ES_STATUS_OK ? run_ordered(place->twin, 0, EPOCHS, &calm) : status;
    es_drill_promise(report, lstat(file, &info) == 0 && info.st_size > 0,
                     "no message has arrived in the file");
    usleep(50000);
    close(reader);
    (void)unlink(pipe);
    (void)unlink(file);
    ES_TRY(status);
    // the one of the late epoch, once: its thread still has it, and a second one would repeat it
    int64_t n_failed = orders.counts.dispatch_failures;
    es_drill_promise(report, n_failed == 1, "%lld messages failed", (long long)n_failed);
    es_drill_promise(report, calm.counts.dispatch_failures == 0, "messages to a file fail");
    es_drill_promise(report, orders.counts.failed == 1, "%lld epochs failed",
                     (long long)orders.counts.failed);
    snprintf(last, sizeof last, "checkpoints/%d/growth0.safetensors", EPOCHS);
    es_drill_promise(report, are_equal(place->other, last, place->twin, last),
                     "the networks differ from those of a fit whose message arrives");
    snprintf(report->happened, sizeof report->happened,
             "%lld message was given up after 100 ms; the fit ended with the bytes of one whose "
             "message arrives",
             (long long)n_failed);
    return ES_STATUS_OK;
}

static EsStatus run_on_disk(EsDrillReport *report,
                            EsStatus (*happen)(EsDrillReport *report, const Place *place)) {
    Place place = {.root = ""};
    EsStatus status = open_place(&place);
    status = status == ES_STATUS_OK ? happen(report, &place) : status;
    char detail[512];
    snprintf(detail, sizeof detail, "%s", es_status_detail());
    close_place(&place);
    return status == ES_STATUS_OK ? status
                                  : es_status_set(status, __FILE__, __LINE__, "%s", detail);
}

static EsStatus drill_full_disk(EsDrillReport *report) { return run_on_disk(report, fill_disk); }

static EsStatus drill_kill(EsDrillReport *report) { return run_on_disk(report, kill_saves); }

static EsStatus drill_damage(EsDrillReport *report) {
    return run_on_disk(report, damage_checkpoint);
}

static EsStatus drill_nan(EsDrillReport *report) { return run_on_disk(report, lose_loss); }

static EsStatus drill_gradient(EsDrillReport *report) {
    return run_on_disk(report, explode_gradient);
}

static EsStatus drill_rollback(EsDrillReport *report) {
    return run_on_disk(report, go_back_on_disk);
}

static EsStatus drill_deadline(EsDrillReport *report) { return run_on_disk(report, miss_deadline); }

static EsStatus drill_messages(EsDrillReport *report) { return run_on_disk(report, stop_messages); }

static EsStatus drill_record(EsDrillReport *report) { return run_on_disk(report, damage_record); }

const EsDrill es_disk_drills[] = {
    {"full-disk", "the disk is full after a few kilobytes",
     "an error that names file and epoch, and the command to go on with", drill_full_disk},
    {"kill-in-checkpoint", "kill -9 in the middle of saving, four times",
     "nothing; --resume goes on from the last whole checkpoint", drill_kill},
    {"corrupted-checkpoint", "a bit of the newest checkpoint is changed",
     "a warning; --resume goes on from the one before, the damaged one is kept", drill_damage},
    {"nan-loss", "an epoch is measured without a finite loss",
     "esper.rails.loss_not_finite, tolaria.rollback.restored (fast)", drill_nan},
    {"exploding-gradient", "an epoch is measured with a gradient of norm 1e30",
     "esper.rails.gradient_exploded, tolaria.rollback.restored (fast)", drill_gradient},
    {"rollback", "an epoch without a finite loss, and no state in memory",
     "esper.rails.loss_not_finite, tolaria.rollback.restored (full)", drill_rollback},
    {"rollback-deadline", "the same, and the disk does not answer in time",
     "tolaria.rollback.restore_failed (deadline_exceeded), tolaria.emergency.halt", drill_deadline},
    {"corrupted-wal", "the same, and a bit of wal.json is changed",
     "tolaria.rollback.restore_failed (wal_crc_mismatch); the epoch is not saved", drill_record},
    {"dispatch-timeout", "a late epoch, whose message goes into a pipe that nobody reads",
     "tolaria.emergency.dispatch_timeout; training goes on", drill_messages},
};

const int es_n_disk_drills = (int)ES_COUNT_OF(es_disk_drills);
