// The round loop with work that is only arithmetic: what is saved, resumed, dropped and told.
#include "runs/run.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/file.h"
#include "esper/log.h"
#include "temp_folder.h"

typedef struct Settings {
    EsRunSettings run;
    int multiplier;
} Settings;

static const EsConfigKey keys[] = {
    ES_RUN_CONFIG_KEYS(Settings, run, "toy", "6"),
    ES_CONFIG_INT(Settings, multiplier, "toy", "multiplier", "31", 1, 1000, "of the sum"),
};

// The work: a state that depends on every round before.
typedef struct Toy {
    const Settings *settings;
    uint64_t state;
    int64_t stop_in_round; // raise SIGINT there, -1 = never
    int64_t n_rounds_run;
    int64_t failing_saves;   // this many saves fail
    int64_t full_from_round; // the device's memory is nearly used up from there, 0 = never
    double round_seconds;    // what a round takes, at least
    double slow_seconds;     // what the one with the signal takes, unless it is dropped
    int64_t n_finished;      // times that finish came to its end
    int stops_finish;        // it is asked to stop there
    EsRanks *lost_ranks;     // of which one is lost there; NULL: none
    int64_t diverged_rounds; // bit r: nothing of round r is finite
    int64_t blocked_until;   // no folder of checkpoints can be made before this round, 0 = any
    int64_t failing_write;   // round that hands over a write that fails, 0 = none
    uint64_t enough;         // a state from which on nothing is left to do, 0 = none
} Toy;

static void describe(void *context, EsRunStartedEvent *row) {
    (void)context;
    row->task = "toy";
}

static EsStatus write_nothing(EsWriterJob *job) {
    (void)job;
    return ES_FAIL(IO, "no room for the write");
}

static void release_job(EsWriterJob *job) { es_release(job); }

static EsStatus submit_failing_write(EsRun *run) {
    EsWriterJob *job = NULL;
    ES_TRY(es_allocate(sizeof *job, (void **)&job));
    *job = (EsWriterJob){.kind = ES_WRITER_NETWORK, .write = write_nothing, .destroy = release_job};
    return es_run_submit(run, job);
}

// A file where the folder of checkpoints would be.
static void block_checkpoints(const Toy *toy, EsRun *run, int64_t round) {
    char path[ES_RUN_PATH_BYTES];
    es_run_folder_path(es_run_folder(run), "checkpoints", path);
    if (round == 1 && toy->blocked_until > 0) {
        REQUIRE_OK(es_file_write_all(path, "", 0));
    } else if (round == toy->blocked_until) {
        EXPECT_STATUS(es_run_drain(run), OK); // a save that failed is no failure of the run
        EXPECT_EQ(unlink(path), 0);
    }
}

static EsStatus run_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    Toy *toy = context;
    block_checkpoints(toy, run, round);
    if (round == toy->failing_write) {
        ES_TRY(submit_failing_write(run));
    }
    if (round == toy->stop_in_round) {
        raise(SIGINT);
    }
    int64_t start_ns = es_clock_ns();
    double seconds = round == toy->stop_in_round ? toy->slow_seconds : toy->round_seconds;
    do {
        if (es_run_must_drop(run)) {
            return ES_FAIL(INTERRUPTED, "dropped");
        }
    } while (es_clock_seconds_since(start_ns) < seconds);
    toy->state = toy->state * (uint64_t)toy->settings->multiplier + (uint64_t)round;
    toy->n_rounds_run++;
    report->accuracy = (double)(round % 4); // the best round is 3
    report->n_steps = 5;
    report->n_episodes = 2;
    if (round >= toy->full_from_round && toy->full_from_round > 0) {
        report->allocated_bytes = 86;
        report->device_bytes = 100;
    }
    report->has_diverged = (int)(toy->diverged_rounds >> round & 1);
    return ES_STATUS_OK;
}

static EsStatus save(void *context, EsCheckpoint *checkpoint) {
    Toy *toy = context;
    char path[ES_RUN_PATH_BYTES];
    if (toy->failing_saves > 0) {
        toy->failing_saves--;
        return ES_FAIL(IO, "no room for the toy");
    }
    ES_TRY(es_checkpoint_add_file(checkpoint, "toy.bin", path));
    return es_file_write_all(path, &toy->state, sizeof toy->state);
}

static EsStatus load(void *context, const EsCheckpoint *checkpoint) {
    Toy *toy = context;
    char path[ES_RUN_PATH_BYTES];
    void *data = NULL;
    size_t bytes = 0;
    ES_TRY(es_file_read_all(es_checkpoint_path(checkpoint, "toy.bin", path), 64, &data, &bytes));
    memcpy(&toy->state, data, sizeof toy->state);
    es_release(data);
    return ES_STATUS_OK;
}

static EsStatus finish(void *context, EsRun *run) {
    Toy *toy = context;
    EXPECT(toy->enough > 0 || es_run_rounds_done(run) == toy->settings->run.n_rounds);
    if (toy->lost_ranks != NULL) {
        *toy->lost_ranks = (EsRanks){.count = 2, .status = ES_STATUS_IO, .detail = "rank 1 hangs"};
        EXPECT_EQ(es_run_must_stop(run), 1);
    }
    if (toy->stops_finish) {
        return ES_FAIL(INTERRUPTED, "stopped");
    }
    toy->n_finished++;
    return ES_STATUS_OK;
}

static int is_over(void *context) {
    const Toy *toy = context;
    return toy->enough > 0 && toy->state >= toy->enough;
}

// The run of that name: a new one (0), or a resumed one that may start over (2) or not (1).
static EsRunOptions describe_run(const char *name, int is_resumed, const EsConfig *config) {
    const char *path = temp_path(name);
    return (EsRunOptions){.config = config,
                          .settings = &((const Settings *)config->settings)->run,
                          .out = is_resumed ? NULL : path,
                          .resume = is_resumed ? path : NULL,
                          .may_restart = is_resumed == 2,
                          .build = "test"};
}

// A session of the run of that name, as above. The toy ends up with the state.
static EsStatus sit(const char *name, int is_resumed, Settings *settings, Toy *toy,
                    EsRunOutcome *outcome) {
    EsConfig config = {keys, (int)ES_COUNT_OF(keys), settings, sizeof *settings};
    EsRunOptions options = describe_run(name, is_resumed, &config);
    EsRunWork work = {.context = toy,
                      .describe = describe,
                      .round = run_round,
                      .save = save,
                      .load = load,
                      .finish = finish,
                      .is_over = is_over};
    EsRun *run = NULL;
    toy->settings = settings;
    ES_TRY(es_run_open(&options, &run));
    EsStatus status = es_run_start(run);
    if (status == ES_STATUS_OK) {
        status = es_run_rounds(run, &work);
    }
    return es_run_close(run, status, outcome);
}

static Settings defaults(void) {
    Settings settings;
    memset(&settings, 0, sizeof settings);
    EsConfig config = {keys, (int)ES_COUNT_OF(keys), &settings, sizeof settings};
    es_config_reset(&config);
    settings.run.checkpoint_every = 2;
    settings.run.checkpoint_keep = 2;
    settings.run.jsonl = 1;
    return settings;
}

static int exists(const char *name) { return access(temp_path(name), F_OK) == 0; }

static int has_checkpoint(const char *name, int round) {
    char path[64];
    snprintf(path, sizeof path, "%s/checkpoints/%d/DONE", name, round);
    return exists(path);
}

static void read_text(const char *name, char *text, size_t bytes) {
    void *data = NULL;
    size_t n = 0;
    REQUIRE_OK(es_file_read_all(temp_path(name), bytes - 1, &data, &n));
    memcpy(text, data, n + 1);
    es_release(data);
}

static void read_events(const char *name, char *text, size_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "%s/events.jsonl", name);
    read_text(path, text, bytes);
}

static int count_parts(const char *text, const char *part) {
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

TEST(runs_to_the_end_and_keeps_the_last_and_the_best) {
    Settings settings = defaults();
    settings.run.checkpoint_every = 1;
    Toy toy = {.stop_in_round = -1};
    EsRunOutcome outcome;
    EXPECT_STATUS(sit("a", 0, &settings, &toy, &outcome), OK);
    EXPECT_EQ(toy.n_rounds_run, 6);
    EXPECT_EQ(outcome.n_rounds_done, 6);
    EXPECT_EQ(outcome.has_lost_events, 0);
    EXPECT(has_checkpoint("a", 6) && has_checkpoint("a", 5));
    EXPECT(has_checkpoint("a", 3)); // the best
    EXPECT(!has_checkpoint("a", 4) && !has_checkpoint("a", 2));
    static char text[1 << 20];
    read_events("a", text, sizeof text);
    EXPECT_EQ(count_parts(text, "\"event\":\"round_completed\""), 6);
    EXPECT_EQ(count_parts(text, "\"event\":\"run_started\""), 1);
    EXPECT_EQ(count_parts(text, "\"event\":\"checkpoint_saved\""), 6);
    EXPECT_CONTAINS(text, "\"outcome\":\"done\"");
}

TEST(of_equal_scores_the_later_is_the_best) {
    Settings settings = defaults();
    settings.run.checkpoint_every = 1;
    settings.run.n_rounds = 8;
    Toy toy = {.stop_in_round = -1};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), OK);
    static char text[1 << 20];
    read_events("a", text, sizeof text);
    // scores 1 2 3 0 1 2 3 0: every rise, and the second 3
    EXPECT_EQ(count_parts(text, "\"is_best\":1"), 4);
}

TEST(resumed_run_ends_in_the_same_state) {
    for (int64_t stop = 1; stop <= 6; stop++) {
        char whole[32], parts[32];
        snprintf(whole, sizeof whole, "whole%d", (int)stop);
        snprintf(parts, sizeof parts, "parts%d", (int)stop);
        Settings settings = defaults();
        Toy once = {.stop_in_round = -1}, twice = {.stop_in_round = stop};
        EXPECT_STATUS(sit(whole, 0, &settings, &once, NULL), OK);
        // the round in which the signal comes is finished and saved; the sixth is the last anyway
        EsStatus status = sit(parts, 0, &settings, &twice, NULL);
        EXPECT_EQ(status, stop < 6 ? ES_STATUS_INTERRUPTED : ES_STATUS_OK);
        EXPECT_EQ(twice.n_rounds_run, stop);
        Toy resumed = {.stop_in_round = -1};
        EXPECT_STATUS(sit(parts, 1, &settings, &resumed, NULL), OK);
        EXPECT_EQ(resumed.n_rounds_run, 6 - stop);
        EXPECT(resumed.state == once.state);
        static char text[1 << 20];
        read_events(parts, text, sizeof text);
        EXPECT_EQ(count_parts(text, "\"event\":\"round_completed\""), 6);
        EXPECT_EQ(count_parts(text, "\"event\":\"checkpoint_loaded\""), 1);
    }
}

TEST(what_comes_after_the_rounds_is_done_in_every_session_that_gets_there) {
    Settings settings = defaults();
    Toy stopped = {.stop_in_round = 3}, late = {.stop_in_round = -1, .stops_finish = 1};
    EXPECT_STATUS(sit("a", 0, &settings, &stopped, NULL), INTERRUPTED);
    EXPECT_EQ(stopped.n_finished, 0);
    EXPECT_STATUS(sit("a", 1, &settings, &late, NULL), INTERRUPTED);
    EXPECT_CONTAINS(es_status_detail(), "all 6 rounds are saved, but the work after them is not");
    for (int i = 0; i < 2; i++) {
        Toy again = {.stop_in_round = -1};
        EXPECT_STATUS(sit("a", 1, &settings, &again, NULL), OK);
        EXPECT_EQ(again.n_rounds_run, 0);
        EXPECT_EQ(again.n_finished, 1);
    }
}

// Work that is left because a rank was lost was not stopped by the user.
TEST(a_rank_that_is_lost_after_the_rounds_is_a_failure) {
    Settings settings = defaults();
    EsRanks ranks = {.count = 1};
    Toy toy = {.stop_in_round = -1, .stops_finish = 1, .lost_ranks = &ranks};
    settings.run.ranks = &ranks;
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), IO);
    EXPECT_TEXT(es_status_detail(), "rank 1 hangs");
}

// 1, 31 + 2, 33 * 31 + 3: the state reaches 1000 in round 3.
TEST(a_run_that_is_over_early_is_done) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1, .enough = 1000};
    EsRunOutcome outcome;
    EXPECT_STATUS(sit("a", 0, &settings, &toy, &outcome), OK);
    EXPECT_EQ(toy.n_rounds_run, 3);
    EXPECT_EQ(toy.n_finished, 1);
    EXPECT_EQ(outcome.n_rounds_done, 3);
    EXPECT(has_checkpoint("a", 3)); // though every second round has one
    static char text[1 << 20];
    read_events("a", text, sizeof text);
    EXPECT_CONTAINS(text, "\"outcome\":\"done\"");
    // resumed, it is over from the start
    Toy again = {.stop_in_round = -1, .enough = 1000};
    EXPECT_STATUS(sit("a", 1, &settings, &again, &outcome), OK);
    EXPECT_EQ(again.n_rounds_run, 0);
    EXPECT_EQ(again.n_finished, 1);
    EXPECT(again.state == toy.state);
    EXPECT_EQ(outcome.n_rounds_done, 3);
    // with another goal it goes on
    Toy further = {.stop_in_round = -1};
    EXPECT_STATUS(sit("a", 1, &settings, &further, NULL), OK);
    EXPECT_EQ(further.n_rounds_run, 3);
}

// The round in which the user asked to stop was the last one that was needed.
TEST(a_run_that_is_stopped_when_it_is_over_is_done) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = 3, .enough = 1000}, early = {.stop_in_round = 2, .enough = 1000};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), OK);
    EXPECT_EQ(toy.n_finished, 1);
    EXPECT_STATUS(sit("b", 0, &settings, &early, NULL), INTERRUPTED);
    EXPECT_CONTAINS(es_status_detail(), "2 of 6 rounds are saved");
    EXPECT_EQ(early.n_finished, 0);
}

TEST(dropped_round_is_done_again) {
    Settings settings = defaults();
    settings.run.stop_seconds = 0; // nothing may be finished
    Toy toy = {.stop_in_round = 4}, resumed = {.stop_in_round = -1}, once = {.stop_in_round = -1};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), INTERRUPTED);
    EXPECT_CONTAINS(es_status_detail(), "3 of 6 rounds are saved. Go on with: esper ");
    EXPECT_EQ(toy.n_rounds_run, 3);
    EXPECT_STATUS(sit("a", 1, &settings, &resumed, NULL), OK);
    EXPECT_EQ(resumed.n_rounds_run, 3);
    EXPECT_STATUS(sit("b", 0, &settings, &once, NULL), OK);
    EXPECT(resumed.state == once.state);
}

TEST(dropped_round_takes_no_others_with_it) {
    Settings settings = defaults();
    settings.run.checkpoint_every = 1000;
    settings.run.stop_seconds = 1.5F;
    Toy toy = {.stop_in_round = 3, .round_seconds = 0.3, .slow_seconds = 60};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), INTERRUPTED);
    EXPECT_CONTAINS(es_status_detail(), "interrupted; the current round ");
    EXPECT_CONTAINS(es_status_detail(), " of 6 rounds are saved. Go on with: esper ");
    EXPECT_EQ(toy.n_rounds_run, 2);
    Toy resumed = {.stop_in_round = -1}, once = {.stop_in_round = -1};
    EXPECT_STATUS(sit("a", 1, &settings, &resumed, NULL), OK);
    EXPECT(resumed.n_rounds_run <= 5); // at most one was lost, of less than half a second
    EXPECT_STATUS(sit("b", 0, &settings, &once, NULL), OK);
    EXPECT(resumed.state == once.state);
}

TEST(nothing_is_dropped_while_much_is_unsaved) {
    Settings settings = defaults();
    settings.run.stop_seconds = 0;
    // rounds 1 to 3 could not be saved, so round 4 is finished although it has no time
    Toy toy = {.stop_in_round = 4, .failing_saves = 3, .slow_seconds = 0.05};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), INTERRUPTED);
    EXPECT_EQ(toy.n_rounds_run, 4);
    EXPECT_CONTAINS(es_status_detail(), "interrupted; 4 of 6 rounds are saved");
}

// A config.ini that was edited since is ignored or refused.
TEST(a_run_goes_on_with_its_own_settings_alone) {
    Settings settings = defaults(), other;
    Toy toy = {.stop_in_round = 3}, resumed = {.stop_in_round = -1};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), INTERRUPTED);
    other = settings;
    other.multiplier = 32;
    EXPECT_STATUS(sit("a", 1, &other, &resumed, NULL), CONFIG);
    EXPECT_CONTAINS(es_status_detail(),
                    "[toy] multiplier was 31 when the run was saved and is 32 in its config.ini");
    other = settings;
    other.run.seed++;
    EXPECT_STATUS(sit("a", 1, &other, &resumed, NULL), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "[run] seed was 42");
    other = settings;
    snprintf(other.run.device, sizeof other.run.device, "%s", "cp\xff\\u");
    EXPECT_STATUS(sit("a", 1, &other, &resumed, NULL), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "is cp\\xff\\x5cu in");
    EXPECT_EQ(resumed.n_rounds_run, 0);
    other = settings;
    other.run.n_rounds++;
    other.run.n_threads = 1;
    other.run.checkpoint_keep++;
    EXPECT_STATUS(sit("a", 1, &other, &resumed, NULL), OK);
    EXPECT_EQ(resumed.n_rounds_run, 4);
}

TEST(run_without_a_checkpoint_starts_again) {
    Settings settings = defaults();
    settings.run.stop_seconds = 0;
    Toy toy = {.stop_in_round = 1}, resumed = {.stop_in_round = -1};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), INTERRUPTED);
    EXPECT_CONTAINS(es_status_detail(), "the current round was dropped; nothing was saved yet. "
                                        "Start again with: esper toy --resume ");
    EXPECT_CONTAINS(es_status_detail(), "/a --restart");
    EXPECT_EQ(toy.n_rounds_run, 0);
    EXPECT_STATUS(sit("a", 1, &settings, &resumed, NULL), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "/a has no checkpoint to go on from; with --restart it ");
    EXPECT_EQ(resumed.n_rounds_run, 0);
    EXPECT(!exists("a/before-1")); // nothing was touched
    EXPECT_STATUS(sit("a", 2, &settings, &resumed, NULL), OK);
    EXPECT_EQ(resumed.n_rounds_run, 6);
    static char text[1 << 20];
    read_events("a", text, sizeof text);
    EXPECT_EQ(count_parts(text, "\"event\":\"run_started\""), 1);
    EXPECT_EQ(count_parts(text, "\"event\":\"round_completed\""), 6);
}

static void keep_line(void *context, EsLogLevel level, const char *line) {
    (void)level;
    snprintf(context, 1024, "%s", line);
}

TEST(telemetry_of_a_run_that_starts_again_is_kept) {
    Settings settings = defaults();
    char line[1024] = "";
    for (int n = 1; n <= 2; n++) {
        Toy toy = {.stop_in_round = -1}, again = {.stop_in_round = -1};
        if (n == 1) {
            EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), OK);
        }
        // what a damaged disk and killed programs may leave
        EXPECT_STATUS(es_folder_remove(temp_path("a/checkpoints")), OK);
        write_temp_text("a/run.db-journal", "");
        write_temp_text("a/run.db.new", "x");
        es_log_set_handler(keep_line, line, ES_LOG_WARNING);
        EXPECT_STATUS(sit("a", 2, &settings, &again, NULL), OK);
        es_log_set_handler(NULL, NULL, ES_LOG_WARNING);
        EXPECT_CONTAINS(line, "/a has no checkpoint to go on from: the run starts again with round "
                              "1; earlier records are in ");
        EXPECT_CONTAINS(line, n == 1 ? "/a/before-1" : "/a/before-2");
        EXPECT_EQ(again.n_rounds_run, 6);
        EXPECT(exists("a/before-1/events.jsonl") && exists("a/before-1/tensorboard"));
        EXPECT(exists("a/before-1/run.db-journal") && exists("a/before-1/run.db.new"));
        EXPECT(!exists("a/run.db.new") && !exists("a/run.db-journal") && !exists("a/before-next"));
    }
    static char text[1 << 20];
    read_events("a", text, sizeof text);
    EXPECT_EQ(count_parts(text, "\"event\":\"round_completed\""), 6);
    read_events("a/before-2", text, sizeof text);
    EXPECT_EQ(count_parts(text, "\"event\":\"round_completed\""), 6);
}

TEST(damaged_database_is_set_aside) {
    Settings settings = defaults();
    settings.run.n_rounds = 4;
    Toy toy = {.stop_in_round = -1}, more = {.stop_in_round = -1};
    EsRunOutcome outcome;
    EXPECT_STATUS(sit("a", 0, &settings, &toy, &outcome), OK);
    if (!exists("a/run.db")) {
        SKIP("no SQLite");
    }
    write_temp_text("a/run.db", "this was a database once, and then the disk thought otherwise");
    settings.run.n_rounds = 6;
    char line[1024] = "";
    es_log_set_handler(keep_line, line, ES_LOG_WARNING);
    EXPECT_STATUS(sit("a", 1, &settings, &more, &outcome), OK);
    es_log_set_handler(NULL, NULL, ES_LOG_WARNING);
    EXPECT_CONTAINS(line, "/a/run.db: ");
    EXPECT_CONTAINS(line, "/a/before-1, and a new one begins with round 5");
    EXPECT_EQ(more.n_rounds_run, 2);
    EXPECT_EQ(outcome.has_lost_events, 0);
    EXPECT(exists("a/before-1/run.db") && exists("a/run.db") && exists("a/events.jsonl"));
}

TEST(failing_save_does_not_end_training) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1, .failing_saves = 2};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), OK);
    EXPECT(has_checkpoint("a", 4) && has_checkpoint("a", 6)); // rounds 2 and 3 failed
    Toy unlucky = {.stop_in_round = -1, .failing_saves = 100};
    EXPECT_STATUS(sit("b", 0, &settings, &unlucky, NULL), IO);
    EXPECT_CONTAINS(es_status_detail(), "round 6 could not be saved: no room for the toy. 0 of 6 "
                                        "rounds are saved; when the cause is gone, go on with: "
                                        "esper toy --resume ");
    EXPECT_EQ(unlucky.n_rounds_run, 6);
}

TEST(save_that_fails_on_the_disk_is_noted_and_tried_again) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1, .blocked_until = 6};
    char line[1024] = "";
    es_log_set_handler(keep_line, line, ES_LOG_WARNING);
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), OK);
    es_log_set_handler(NULL, NULL, ES_LOG_WARNING);
    EXPECT_CONTAINS(line, "checkpoint of round 2 failed: ");
    EXPECT_CONTAINS(line, "the run goes on and tries again");
    EXPECT(has_checkpoint("a", 6));
    EXPECT(!has_checkpoint("a", 2));
    Toy unlucky = {.stop_in_round = -1, .blocked_until = 7};
    EXPECT_STATUS(sit("b", 0, &settings, &unlucky, NULL), IO);
    EXPECT_CONTAINS(es_status_detail(), "round 6 could not be saved: ");
    EXPECT_CONTAINS(es_status_detail(), "0 of 6 rounds are saved");
}

TEST(write_that_fails_ends_the_run_with_its_reason) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1, .failing_write = 2};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), IO);
    EXPECT_CONTAINS(es_status_detail(), "no room for the write");
    EXPECT_EQ(toy.n_finished, 0);
}

TEST(times_are_measured_and_writes_apart) {
    Settings settings = defaults();
    EsConfig config = {keys, (int)ES_COUNT_OF(keys), &settings, sizeof settings};
    EsRunOptions options = describe_run("a", 0, &config);
    Toy toy = {.settings = &settings, .stop_in_round = -1, .round_seconds = 0.002};
    EsRunWork work = {.context = &toy, .describe = describe, .round = run_round, .save = save};
    EsRun *run = NULL;
    REQUIRE_OK(es_run_open(&options, &run));
    REQUIRE_OK(es_run_start(run));
    EXPECT_EQ(es_run_times(run).n_rounds, 0);
    EXPECT_STATUS(es_run_rounds(run, &work), OK);
    EsRunTimes times = es_run_times(run);
    EXPECT_EQ(times.n_rounds, 5); // the first is apart
    EXPECT(times.first_ms >= 2 && times.p50_ms >= 2);
    EXPECT(times.p50_ms <= times.p95_ms && times.p95_ms <= times.p99_ms);
    EXPECT_EQ(times.n_writes, 3); // checkpoints of rounds 2, 4 and 6
    EXPECT(times.write_p50_ms > 0 && times.write_p95_ms <= times.write_max_ms);
    EXPECT_STATUS(es_run_close(run, ES_STATUS_OK, NULL), OK);
}

TEST(a_run_knows_since_when_it_has_diverged) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1, .diverged_rounds = 1 << 2 | 1 << 5 | 1 << 6};
    EsRunOutcome outcome;
    char text[32768];
    // rounds 3 and 4 were healthy again
    EXPECT_STATUS(sit("a", 0, &settings, &toy, &outcome), OK);
    EXPECT_EQ(outcome.diverged_since, 5);
    EXPECT(has_checkpoint("a", 6));
    // a resumed run remembers, whether it has rounds to go or not
    EXPECT_STATUS(sit("a", 1, &settings, &toy, &outcome), OK);
    EXPECT_EQ(outcome.diverged_since, 5);
    settings.run.n_rounds = 7;
    toy.diverged_rounds |= 1 << 7;
    EXPECT_STATUS(sit("a", 1, &settings, &toy, &outcome), OK);
    EXPECT_EQ(outcome.diverged_since, 5);
    settings.run.n_rounds = 8;
    EXPECT_STATUS(sit("a", 1, &settings, &toy, &outcome), OK);
    EXPECT_EQ(outcome.diverged_since, 0);
    // a healthy checkpoint has the bytes that it always had
    read_text("a/checkpoints/7/rank0.json", text, sizeof text);
    EXPECT_CONTAINS(text, "\"diverged_since\"");
    read_text("a/checkpoints/8/rank0.json", text, sizeof text);
    EXPECT(strstr(text, "diverged") == NULL);
}

TEST(more_rounds_can_be_asked_for_later) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1}, more = {.stop_in_round = -1}, once = {.stop_in_round = -1};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), OK);
    settings.run.n_rounds = 9;
    EXPECT_STATUS(sit("a", 1, &settings, &more, NULL), OK);
    EXPECT_EQ(more.n_rounds_run, 3);
    EXPECT_STATUS(sit("b", 0, &settings, &once, NULL), OK);
    EXPECT(more.state == once.state);
}

TEST(resumed_run_may_not_change_what_results_depend_on) {
    Settings before = defaults(), now = defaults();
    EsConfig config = {keys, (int)ES_COUNT_OF(keys), &now, sizeof now};
    now.run.n_rounds = 100;
    now.run.n_threads = 7;
    now.run.jsonl = 0;
    now.run.checkpoint_keep = 9;
    EXPECT_STATUS(es_run_settings_check_resumed(&config, &before, &now), OK);
    now.multiplier = 32;
    EXPECT_STATUS(es_run_settings_check_resumed(&config, &before, &now), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "[toy] multiplier is 31 in the run that is resumed");
    now = before;
    now.run.seed++;
    EXPECT_STATUS(es_run_settings_check_resumed(&config, &before, &now), CONFIG);
}

// A port of this machine that is in use; the socket keeps it so.
static int take_port(int *socket_out) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    *socket_out = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(bind(*socket_out, (struct sockaddr *)&address, sizeof address), 0);
    EXPECT_EQ(listen(*socket_out, 1), 0);
    EXPECT_EQ(getsockname(*socket_out, (struct sockaddr *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

TEST(opening_that_fails_leaves_no_run) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1};
    const char *path = temp_path("b");
    int taken = -1;
    settings.run.prometheus_port = take_port(&taken);
    EsStatus status = sit("a", 0, &settings, &toy, NULL);
    EXPECT(status == ES_STATUS_IO || status == ES_STATUS_UNSUPPORTED || status == ES_STATUS_CONFIG);
    EXPECT(!exists("a"));
    // a folder that was there stays, empty
    EXPECT_STATUS(es_folder_make(path), OK);
    EXPECT_EQ(sit("b", 0, &settings, &toy, NULL), status);
    EXPECT_EQ(rmdir(path), 0);
    close(taken);
    // a run that was there stays as it is
    settings.run.prometheus_port = -1;
    EXPECT_STATUS(sit("c", 0, &settings, &toy, NULL), OK);
    settings.run.prometheus_port = take_port(&taken);
    EXPECT_EQ(sit("c", 1, &settings, &toy, NULL), status);
    EXPECT(has_checkpoint("c", 6) && exists("c/events.jsonl"));
    close(taken);
}

TEST(folder_and_lock_are_checked_before_anything_is_made) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1};
    EsConfig config = {keys, (int)ES_COUNT_OF(keys), &settings, sizeof settings};
    EsRun *run = NULL, *other = NULL;
    // a new run that is opened and never started leaves nothing
    EsRunOptions options = describe_run("a", 0, &config);
    REQUIRE_OK(es_run_open(&options, &run));
    EXPECT(!exists("a"));
    EXPECT_STATUS(es_run_close(run, ES_FAIL(INPUT, "no data"), NULL), INPUT);
    EXPECT_TEXT(es_status_detail(), "no data");
    EXPECT(!exists("a"));
    // a folder that is taken is known at once
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), OK);
    EXPECT_STATUS(es_run_open(&options, &run), ARGUMENT);
    EXPECT(run == NULL);
    // a resumed run holds its lock from its opening on
    options = describe_run("a", 1, &config);
    REQUIRE_OK(es_run_open(&options, &run));
    EXPECT_STATUS(es_run_open(&options, &other), INPUT);
    EXPECT(other == NULL);
    EXPECT_STATUS(es_run_close(run, ES_FAIL(MEMORY, "no memory"), NULL), MEMORY);
    EXPECT(has_checkpoint("a", 6) && exists("a/events.jsonl"));
    EXPECT_STATUS(sit("a", 1, &settings, &toy, NULL), OK);
}

TEST(name_of_a_run_may_have_any_characters) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1};
    settings.run.prometheus_port = 0;
    EsStatus status = sit("a\"b\\c\nd", 0, &settings, &toy, NULL);
    EXPECT(status == ES_STATUS_OK || status == ES_STATUS_UNSUPPORTED);
}

TEST(memory_is_measured_and_judged_every_round) {
    Settings settings = defaults();
    Toy toy = {.stop_in_round = -1, .full_from_round = 3};
    EXPECT_STATUS(sit("a", 0, &settings, &toy, NULL), OK);
    static char text[1 << 20];
    read_events("a", text, sizeof text);
    EXPECT_EQ(count_parts(text, "\"event\":\"memory_measured\""), 6);
    EXPECT_EQ(count_parts(text, "\"allocated_bytes\":null,\"total_bytes\":null"), 2);
    EXPECT_EQ(count_parts(text, "\"allocated_bytes\":86,\"total_bytes\":100"), 4);
    EXPECT_EQ(count_parts(text, "\"resident_bytes\":null"), 0);
    EXPECT_EQ(count_parts(text, "GiB are allocated, 86.0 %"), 1); // then quiet for a minute
}

TEST(telemetry_does_not_change_results) {
    Settings settings = defaults();
    settings.run.jsonl = settings.run.tensorboard = 0;
    settings.run.sqlite = 0;
    settings.run.level = ES_LEVEL_OFF;
    Toy quiet = {.stop_in_round = -1}, loud = {.stop_in_round = -1};
    EsRunOutcome outcome;
    EXPECT_STATUS(sit("off", 0, &settings, &quiet, &outcome), OK);
    EXPECT_EQ(outcome.health.n_sinks, 0);
    settings = defaults();
    settings.run.spill_mib = 0; // allowed: what finds no room in a queue is lost
    EXPECT_STATUS(sit("on", 0, &settings, &loud, &outcome), OK);
    EXPECT(outcome.health.n_sinks >= 2);
    EXPECT(quiet.state == loud.state); // telemetry changes nothing
}
