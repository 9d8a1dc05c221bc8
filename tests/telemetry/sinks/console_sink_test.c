// The console sink: the lines people read, off and on a terminal (a real pseudo-terminal).
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <time.h>

#include "telemetry/sink_case.h"
#include "telemetry/sinks/console_line.h"

// --- a plain stream ---

typedef struct Plain {
    int descriptor;
    char text[4096]; // what was written; valid after read_plain
    EsSink sink;
} Plain;

static void open_plain(Plain *plain, EsConsoleOptions options) {
    plain->descriptor = memfd_create("console", 0);
    options.descriptor = plain->descriptor;
    REQUIRE_OK(es_console_sink_open(&options, &plain->sink));
}

static void read_plain(Plain *plain) {
    ssize_t n = pread(plain->descriptor, plain->text, sizeof plain->text - 1, 0);
    EXPECT(n >= 0 && n < (ssize_t)sizeof plain->text - 1);
    plain->text[n >= 0 ? n : 0] = '\0';
    close(plain->descriptor);
}

static void close_plain(Plain *plain, const char *expected) {
    plain->sink.close(plain->sink.state);
    read_plain(plain);
    EXPECT_TEXT(plain->text, expected);
}

static EsRoundCompletedEvent empty_round(void) {
    double missing = es_missing_real();
    return (EsRoundCompletedEvent){.n_episodes = ES_MISSING_INT,
                                   .accuracy = missing,
                                   .accuracy_std = missing,
                                   .rolling_accuracy = missing,
                                   .reward = missing,
                                   .loss = missing,
                                   .n_seeds = ES_MISSING_INT,
                                   .n_fossils = ES_MISSING_INT,
                                   .n_steps = ES_MISSING_INT,
                                   .n_images = ES_MISSING_INT,
                                   .seconds = missing,
                                   .steps_per_second = missing,
                                   .images_per_second = missing};
}

static EsRoundCompletedEvent full_round(double seconds) {
    EsRoundCompletedEvent row = empty_round();
    row.steps_per_second = 1234.4;
    row.accuracy = 71.3;
    row.reward = 4.2;
    row.n_seeds = 17;
    row.seconds = seconds;
    return row;
}

static void write_round(const EsSink *sink, int64_t round, EsRoundCompletedEvent row) {
    EXPECT_STATUS(write_rows(sink, ES_EVENT_ROUND_COMPLETED, round, -1, &row, 1), OK);
}

TEST(a_round_is_a_line) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 200, .first_round = 11});
    EXPECT_TEXT(plain.sink.name, "console");
    write_round(&plain.sink, 12, full_round(200.0 / 188));
    close_plain(&plain, "round 12/200  1,234 steps/s  validation 71.3 %  reward 4.20  seeds 17  "
                        "left 3 min 20 s\n");
}

TEST(an_update_stands_in_the_line_of_its_round) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 2});
    EsUpdateCompletedEvent update = {.entropy = 0.6149, .kl_divergence = 0.012149};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_UPDATE_COMPLETED, 1, -1, &update, 1), OK);
    write_round(&plain.sink, 1, full_round(NAN));
    write_round(&plain.sink, 2, full_round(NAN)); // no update came with it
    close_plain(&plain, "round 1/2  1,234 steps/s  validation 71.3 %  reward 4.20  entropy 0.61  "
                        "KL 0.0121  seeds 17\n"
                        "round 2/2  1,234 steps/s  validation 71.3 %  reward 4.20  seeds 17\n");
}

static void write_evaluation(const EsSink *sink, int64_t n_done, double seconds) {
    EsEvaluationProgressedEvent row = {
        .arm = "heuristic", .n_done = n_done, .n_episodes = 1200, .seconds = seconds};
    EXPECT_STATUS(write_rows(sink, ES_EVENT_EVALUATION_PROGRESSED, 3, -1, &row, 1), OK);
}

TEST(a_comparison_is_told_now_and_then) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 2});
    write_evaluation(&plain.sink, 100, 10);
    write_evaluation(&plain.sink, 400, 40);
    write_evaluation(&plain.sink, 500, 50);
    write_evaluation(&plain.sink, 1200, 60);
    close_plain(
        &plain,
        "comparing policies: 400 of 1,200 episodes, the last by heuristic  left 1 min 20 s\n"
        "comparing policies: 1,200 of 1,200 episodes, the last by heuristic\n");
}

// --- fits ---

static void start_fit(const EsSink *sink, int64_t n_candidates) {
    EsRunStartedEvent row = {.kind = "fit", .n_envs = n_candidates};
    EXPECT_STATUS(write_rows(sink, ES_EVENT_RUN_STARTED, 0, -1, &row, 1), OK);
}

static void write_seeds(const EsSink *sink, int64_t round) {
    EsSeedGerminatedEvent germinated[2] = {
        {.env = 2, .slot = "r1c0", .blueprint = "conv_light", .n_parameters = 1184},
        {.env = 0, .slot = "r0c1", .blueprint = "norm", .n_parameters = 41}};
    EsSeedFossilizedEvent fossilized = {
        .env = 2, .slot = "r1c0", .blueprint = "conv_light", .n_parameters = 1184};
    EsSeedPrunedEvent pruned = {
        .env = 0, .slot = "r0c1", .blueprint = "norm", .reason = "policy_prune"};
    EXPECT_STATUS(write_rows(sink, ES_EVENT_SEED_GERMINATED, round, 0, germinated, 2), OK);
    EXPECT_STATUS(write_rows(sink, ES_EVENT_SEED_FOSSILIZED, round, 0, &fossilized, 1), OK);
    EXPECT_STATUS(write_rows(sink, ES_EVENT_SEED_PRUNED, round, 0, &pruned, 1), OK);
}

TEST(an_epoch_of_a_fit_is_a_line_with_its_best_network) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 20});
    start_fit(&plain.sink, 4);
    EsRoundCompletedEvent row = full_round(10);
    row.reward = es_missing_real();
    write_round(&plain.sink, 1, row); // nothing was finite yet
    EXPECT_STATUS(write_metric(&plain.sink, 2, "esper.fit.best_accuracy", 91.23), OK);
    EXPECT_STATUS(write_metric(&plain.sink, 2, "esper.fit.parameters", 19123), OK);
    EXPECT_STATUS(write_metric(&plain.sink, 2, "esper.fit.candidates", 4), OK);
    EXPECT_STATUS(write_metric(&plain.sink, 2, "esper.round.accuracy", 12), OK);
    write_round(&plain.sink, 2, row);
    EsRoundProgressedEvent progress = {.percent = 35.4, .n_images = 1000, .seconds = 31};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_ROUND_PROGRESSED, 3, -1, &progress, 1), OK);
    EXPECT_STATUS(write_metric(&plain.sink, 3, "esper.fit.candidates", 2), OK);
    close_plain(&plain, "epoch 1/20  left 3 min 10 s\n"
                        "epoch 2/20  best 91.2 %  19,123 parameters  left 3 min 00 s\n"
                        "epoch 3/20  trained 35 %  best 91.2 %  19,123 parameters  "
                        "left 2 min 50 s\n"
                        "candidates dropped: 2, left: 2\n");
}

TEST(seeds_of_a_fit_have_lines) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 20});
    start_fit(&plain.sink, 4);
    write_seeds(&plain.sink, 1);
    close_plain(&plain, "candidate 2: conv_light germinated in r1c0, 1,184 parameters\n"
                        "candidate 0: norm germinated in r0c1, 41 parameters\n"
                        "candidate 2: conv_light fossilised in r1c0, 1,184 parameters\n"
                        "candidate 0: norm pruned in r0c1: policy_prune\n");
}

// Those that were dropped before are no news; other kinds of run have thousands of seeds.
TEST(a_resumed_fit_and_other_runs_stay_silent) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 20, .first_round = 9});
    start_fit(&plain.sink, 4);
    EXPECT_STATUS(write_metric(&plain.sink, 10, "esper.fit.candidates", 1), OK);
    close_plain(&plain, "");
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 20});
    write_seeds(&plain.sink, 1);
    EXPECT_STATUS(write_metric(&plain.sink, 1, "esper.fit.candidates", 1), OK);
    close_plain(&plain, "");
}

TEST(missing_parts_are_left_out) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 0});
    write_round(&plain.sink, 1, empty_round());
    EsRoundCompletedEvent row = empty_round();
    row.images_per_second = 1e6;
    row.seconds = 5;
    write_round(&plain.sink, 2, row);
    row = empty_round();
    row.n_seeds = 0;
    row.accuracy = 0;
    write_round(&plain.sink, 3, row);
    close_plain(&plain,
                "round 1\nround 2  1,000,000 images/s\nround 3  validation 0.0 %  seeds 0\n");
}

TEST(rates_are_of_steps_where_a_round_has_some) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 0});
    EsRoundCompletedEvent row = empty_round();
    row.steps_per_second = 10;
    row.images_per_second = 500;
    EsStepTimedEvent timed = {.total_ms = 4};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_STEP_TIMED, 1, 0, &timed, 1), OK);
    write_round(&plain.sink, 1, row);
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_STEP_TIMED, 2, 10, &timed, 1), OK);
    write_round(&plain.sink, 2, row);
    close_plain(&plain, "round 1  500 images/s\nround 2  10.0 steps/s\n");
}

// known from the first round on, however few steps were recorded
TEST(the_unit_of_a_rate_does_not_change) {
    static const struct {
        int64_t n_steps;
        const char *line;
    } cases[] = {{4, "round 1  500 images/s\n"}, {32, "round 1  10.0 steps/s\n"}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        Plain plain;
        open_plain(&plain, (EsConsoleOptions){.n_rounds = 0});
        EsRunStartedEvent start = {.kind = "grow", .n_envs = 4};
        EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_RUN_STARTED, 0, -1, &start, 1), OK);
        EsRoundCompletedEvent row = empty_round();
        row.n_steps = cases[i].n_steps;
        row.steps_per_second = 10;
        row.images_per_second = 500;
        write_round(&plain.sink, 1, row);
        close_plain(&plain, cases[i].line);
    }
}

TEST(numbers_that_are_not_finite) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 2});
    EsRoundCompletedEvent row = full_round(NAN);
    row.accuracy = NAN;
    row.reward = -INFINITY;
    row.steps_per_second = INFINITY;
    write_round(&plain.sink, 1, row);
    close_plain(&plain,
                "round 1/2  infinite steps/s  validation NaN  reward -infinite  seeds 17\n");
}

TEST(numbers_of_every_size) {
    static const struct {
        double rate, reward;
        const char *words;
    } cases[] = {{0.004, 0.034, "0.004 steps/s  reward 0.03"},
                 {3.14159, -0.5, "3.1 steps/s  reward -0.50"},
                 {99.96, 1, "100 steps/s  reward 1.00"},
                 {999.6, -1234.56, "1,000 steps/s  reward -1234.56"},
                 {1234567, -0.001, "1,234,567 steps/s  reward 0.00"},
                 {1e300, 1e300, "1e+300 steps/s  reward 1e+300"}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        Plain plain;
        open_plain(&plain, (EsConsoleOptions){.n_rounds = 0});
        EsRoundCompletedEvent row = empty_round();
        row.steps_per_second = cases[i].rate;
        row.reward = cases[i].reward;
        write_round(&plain.sink, 1, row);
        char expected[200];
        snprintf(expected, sizeof expected, "round 1  %s\n", cases[i].words);
        close_plain(&plain, expected);
    }
}

TEST(durations_are_readable) {
    static const struct {
        double seconds;
        const char *words;
    } cases[] = {{0, "0 s"},           {45.4, "45 s"},         {59.6, "1 min 00 s"},
                 {200, "3 min 20 s"},  {7500, "2 h 05 min"},   {86399, "23 h 59 min"},
                 {270000, "3 d 03 h"}, {1e300, "11574 d 01 h"}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsText text = {0};
        es_console_add_duration(&text, cases[i].seconds);
        es_text_add(&text, "", 1);
        EXPECT_TEXT(text.bytes, cases[i].words);
        es_text_destroy(&text);
    }
}

// rounds before this session say nothing about its speed; a slow first round is forgotten
TEST(time_left_follows_the_last_rounds) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 30, .first_round = 10});
    EsRoundCompletedEvent row = empty_round();
    row.seconds = 1000;
    write_round(&plain.sink, 11, row);
    row.seconds = 2;
    for (int round = 12; round <= 21; round++) {
        write_round(&plain.sink, round, row);
    }
    plain.sink.close(plain.sink.state);
    read_plain(&plain);
    EXPECT_CONTAINS(plain.text, "round 11/30  left 5 h 16 min\n");
    EXPECT_CONTAINS(plain.text, "round 12/30  left 2 h 30 min\n"); // 18 x 501 s
    EXPECT_CONTAINS(plain.text, "round 21/30  left 18 s\n");
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 3});
    row.seconds = es_missing_real(); // measured between the ends of two rounds instead
    REQUIRE_OK(write_rows_at(&plain.sink, ES_EVENT_ROUND_COMPLETED, 1000000, 1, -1, &row, 1));
    REQUIRE_OK(write_rows_at(&plain.sink, ES_EVENT_ROUND_COMPLETED, 9000000, 2, -1, &row, 1));
    close_plain(&plain, "round 1/3\nround 2/3  left 8 s\n");
}

TEST(plain_lines_keep_their_distance) {
    Plain plain;
    EsRoundCompletedEvent row = empty_round();
    row.seconds = 60;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 9, .seconds_between = 1000});
    for (int round = 1; round <= 5; round++) {
        write_round(&plain.sink, round, row);
        EsStepTimedEvent step = {.total_ms = 5};
        EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_STEP_TIMED, round + 1, 0, &step, 1), OK);
    }
    // the first, and where it stood at the end
    close_plain(&plain, "round 1/9  left 8 min 00 s\nround 5/9  left 4 min 00 s\n");
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 3, .seconds_between = 1000});
    for (int round = 1; round <= 3; round++) {
        write_round(&plain.sink, round, row);
    }
    close_plain(&plain, "round 1/3  left 2 min 00 s\nround 3/3\n");
}

static void write_progress(const EsSink *sink, int64_t round, double percent, double seconds) {
    EsRoundProgressedEvent row = {
        .percent = percent, .n_images = llround(1000 * seconds), .seconds = seconds};
    EXPECT_STATUS(write_rows(sink, ES_EVENT_ROUND_PROGRESSED, round, -1, &row, 1), OK);
}

// a pipe hears of the current round only when it lasts, and then every thirty seconds
TEST(a_long_round_has_lines_off_a_terminal) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 2});
    for (int second = 10; second <= 100; second += 10) {
        write_progress(&plain.sink, 1, second, second);
    }
    EsRoundCompletedEvent row = empty_round();
    row.seconds = 110;
    write_round(&plain.sink, 1, row);
    write_progress(&plain.sink, 2, 10, 11);
    write_progress(&plain.sink, 2, 30, 33);
    close_plain(&plain, "round 1/2  trained 30 %  1,000 images/s  left 2 min 50 s\n"
                        "round 1/2  trained 60 %  1,000 images/s  left 2 min 20 s\n"
                        "round 1/2  trained 90 %  1,000 images/s  left 1 min 50 s\n"
                        "round 1/2  left 1 min 50 s\n"
                        "round 2/2  trained 30 %  1,000 images/s  left 1 min 17 s\n");
}

TEST(warnings_have_lines_of_their_own) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 9});
    EsAnomalyDetectedEvent anomalies[] = {
        {.rule = "ratio_explosion",
         .severity = "warning",
         .env = 3,
         .value = 12.5,
         .threshold = 10,
         .detail = "the policy moved too far"},
        {.rule = "nan_gradient",
         .severity = "critical",
         .env = ES_MISSING_INT,
         .value = NAN,
         .threshold = es_missing_real()},
        {.env = ES_MISSING_INT, .value = es_missing_real(), .threshold = 0.1}};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_ANOMALY_DETECTED, 4, -1, anomalies, 3), OK);
    EsGovernorRollbackEvent rollback = {
        .env = 5, .reason = "divergence", .loss = INFINITY, .threshold = 4.5};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_GOVERNOR_ROLLBACK, 4, 2, &rollback, 1), OK);
    EsCheckpointSavedEvent saved = {.path = "checkpoints/4"};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_CHECKPOINT_SAVED, 4, -1, &saved, 1), OK);
    EsRunEndedEvent ended = {.outcome = "done"};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_RUN_ENDED, 4, -1, &ended, 1), OK);
    close_plain(&plain,
                "warning: ratio_explosion in round 4, environment 3: the policy moved too "
                "far\n"
                "critical: nan_gradient in round 4: NaN\n"
                "warning: anomaly in round 4: threshold 0.1\n"
                "rollback: divergence in round 4, environment 5: loss infinite against a threshold "
                "of 4.5\n");
}

TEST(shares_are_told_as_percent) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 9});
    EsAnomalyDetectedEvent row = {.rule = "performance_degradation",
                                  .severity = "warning",
                                  .env = ES_MISSING_INT,
                                  .value = 0.10125,
                                  .threshold = 0.1};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_ANOMALY_DETECTED, 3, -1, &row, 1), OK);
    close_plain(&plain, "warning: performance_degradation in round 3: 10.1 % against a threshold "
                        "of 10 %\n");
}

// however many packets they come in
TEST(a_kind_of_warning_has_few_lines) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 9});
    EsGovernorRollbackEvent row = {
        .env = 1, .reason = "nan", .loss = es_missing_real(), .threshold = es_missing_real()};
    for (int step = 0; step < 10; step++) {
        EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_GOVERNOR_ROLLBACK, 1, step, &row, 1), OK);
    }
    write_round(&plain.sink, 1, empty_round());
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_GOVERNOR_ROLLBACK, 2, 0, &row, 1), OK);
    row.reason = "divergence";
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_GOVERNOR_ROLLBACK, 2, 0, &row, 1), OK);
    close_plain(&plain, "rollback: nan in round 1, environment 1\n"
                        "rollback: nan in round 1, environment 1 (10 so far)\n"
                        "round 1/9\n"
                        "rollback: divergence in round 2, environment 1\n"
                        "rollbacks in all: nan 11\n");
}

TEST(a_flood_of_warnings_is_counted) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 9});
    EsGovernorRollbackEvent rows[64];
    for (int i = 0; i < 64; i++) {
        rows[i] = (EsGovernorRollbackEvent){
            .env = i, .reason = "nan", .loss = es_missing_real(), .threshold = es_missing_real()};
    }
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_GOVERNOR_ROLLBACK, 2, 0, rows, 64), OK);
    close_plain(&plain, "rollback: nan in round 2, environment 0\n"
                        "rollback: nan in round 2, environment 9 (10 so far)\n"
                        "rollbacks in all: nan 64\n");
}

TEST(costly_dependence_is_told_once_at_the_end) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 9});
    EsAnomalyDetectedEvent rows[64];
    for (int i = 0; i < 64; i++) {
        rows[i] = (EsAnomalyDetectedEvent){.rule = "costly_dependence",
                                           .severity = "critical",
                                           .env = i,
                                           .value = 12.5,
                                           .threshold = 10,
                                           .detail = "slot r0c1: it is dear"};
    }
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_ANOMALY_DETECTED, 2, 0, rows, 64), OK);
    write_round(&plain.sink, 2, empty_round());
    close_plain(&plain, "round 2/9\n"
                        "critical: costly_dependence in round 2, environment 0: slot r0c1: it is "
                        "dear (seeds in all: 64)\n");
}

// texts must not be able to move the cursor, ring, or fake a line
TEST(hostile_texts) {
    Plain plain;
    open_plain(&plain, (EsConsoleOptions){.n_rounds = 9});
    EsAnomalyDetectedEvent row = {.rule = "a\x1b[2Jb\rc\nd\ae\x7f",
                                  .severity = "\xc2\x9b"
                                              "31m",
                                  .env = ES_MISSING_INT,
                                  .value = es_missing_real(),
                                  .threshold = es_missing_real(),
                                  .detail = "gr\xc3\xbcn \xff"};
    EXPECT_STATUS(write_rows(&plain.sink, ES_EVENT_ANOMALY_DETECTED, 1, -1, &row, 1), OK);
    close_plain(&plain, "\xef\xbf\xbd"
                        "31m: a\xef\xbf\xbd[2Jb\xef\xbf\xbd"
                        "c\xef\xbf\xbd"
                        "d\xef\xbf\xbd"
                        "e\xef\xbf\xbd in round 1: gr\xc3\xbcn \xef\xbf\xbd\n");
}

TEST(a_stream_that_refuses) {
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) {
        SKIP("no /dev/full");
    }
    EsConsoleOptions options = {.descriptor = full, .n_rounds = 9};
    EsSink sink;
    REQUIRE_OK(es_console_sink_open(&options, &sink));
    EsRoundCompletedEvent row = empty_round();
    EXPECT_STATUS(write_rows(&sink, ES_EVENT_ROUND_COMPLETED, 1, -1, &row, 1), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(ENOSPC));
    sink.close(sink.state);
    close(full);
}

// --- a terminal ---

typedef struct Terminal {
    int master;
    int stream; // the program's end
    EsSink sink;
    char text[20000]; // everything the program wrote
    size_t bytes;
} Terminal;

static void set_columns(const Terminal *terminal, int columns) {
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    EXPECT_EQ(ioctl(terminal->master, TIOCSWINSZ, &size), 0);
}

static int open_terminal(Terminal *terminal, int columns, EsConsoleOptions options) {
    memset(terminal, 0, sizeof *terminal);
    terminal->master = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal->master < 0 || grantpt(terminal->master) != 0 || unlockpt(terminal->master) != 0 ||
        (terminal->stream = open(ptsname(terminal->master), O_WRONLY | O_NOCTTY)) < 0) {
        return 0;
    }
    struct termios mode;
    tcgetattr(terminal->stream, &mode);
    cfmakeraw(&mode); // bytes come as they were written
    tcsetattr(terminal->stream, TCSANOW, &mode);
    fcntl(terminal->master, F_SETFL, O_NONBLOCK);
    set_columns(terminal, columns);
    options.descriptor = terminal->stream;
    options.is_terminal = 1;
    REQUIRE_OK(es_console_sink_open(&options, &terminal->sink));
    return 1;
}

// Returns the text written since the last call.
static const char *read_terminal(Terminal *terminal) {
    size_t begin = terminal->bytes;
    for (ssize_t n; (n = read(terminal->master, terminal->text + terminal->bytes,
                              sizeof terminal->text - 1 - terminal->bytes)) > 0;) {
        terminal->bytes += (size_t)n;
    }
    terminal->text[terminal->bytes] = '\0';
    return terminal->text + begin;
}

static void close_terminal(Terminal *terminal) {
    close(terminal->stream);
    close(terminal->master);
}

static void pause_between_draws(void) { nanosleep(&(struct timespec){.tv_nsec = 220000000}, NULL); }

static void write_env_step(const EsSink *sink, int64_t round, int64_t step, double accuracy) {
    EsEnvSteppedEvent rows[2] = {
        {.validation_accuracy = accuracy, .n_seeds = 2},
        {.env = 1, .validation_accuracy = es_missing_real(), .n_seeds = ES_MISSING_INT}};
    EXPECT_STATUS(write_rows(sink, ES_EVENT_ENV_STEPPED, round, step, rows, 2), OK);
}

TEST(the_round_at_hand_is_drawn_in_place) {
    static Terminal terminal;
    if (!open_terminal(&terminal, 80, (EsConsoleOptions){.n_rounds = 20})) {
        SKIP("no pseudo-terminals here");
    }
    write_env_step(&terminal.sink, 1, 9, 50);
    EXPECT_TEXT(read_terminal(&terminal),
                "\rround 1/20  step 10  validation 50.0 %  seeds 2\x1b[K");
    EsStepTimedEvent timed = {.total_ms = 4};
    EXPECT_STATUS(write_rows(&terminal.sink, ES_EVENT_STEP_TIMED, 1, 9, &timed, 1), OK);
    pause_between_draws(); // too soon for a drawing of its own
    EXPECT_STATUS(terminal.sink.flush(terminal.sink.state), OK);
    EXPECT_TEXT(read_terminal(&terminal),
                "\rround 1/20  step 10  500 steps/s  validation 50.0 %  seeds 2\x1b[K");
    write_round(&terminal.sink, 1, full_round(2));
    EXPECT_TEXT(read_terminal(&terminal), "\rround 1/20  1,234 steps/s  validation 71.3 %  "
                                          "reward 4.20  seeds 17  left 38 s\x1b[K\n");
    pause_between_draws();
    // half a second into the second round
    EsEnvSteppedEvent row = {.validation_accuracy = 60, .n_seeds = ES_MISSING_INT};
    EXPECT_STATUS(
        write_rows_at(&terminal.sink, ES_EVENT_ENV_STEPPED, CASE_UNIX_US + 1000000, 2, 0, &row, 1),
        OK);
    EXPECT_TEXT(read_terminal(&terminal),
                "\rround 2/20  step 1  validation 60.0 %  left 37 s\x1b[K");
    // a warning takes the line's place; the line comes back below it
    EsGovernorRollbackEvent rollback = {
        .env = 1, .reason = "nan", .loss = es_missing_real(), .threshold = es_missing_real()};
    pause_between_draws();
    EXPECT_STATUS(write_rows(&terminal.sink, ES_EVENT_GOVERNOR_ROLLBACK, 2, 0, &rollback, 1), OK);
    EXPECT_TEXT(read_terminal(&terminal),
                "\rrollback: nan in round 2, environment 1\x1b[K\n"
                "\rround 2/20  step 1  validation 60.0 %  left 37 s\x1b[K");
    terminal.sink.close(terminal.sink.state);
    EXPECT_TEXT(read_terminal(&terminal), "\n");
    close_terminal(&terminal);
}

TEST(training_of_a_round_is_drawn_in_place) {
    static Terminal terminal;
    if (!open_terminal(&terminal, 80, (EsConsoleOptions){.n_rounds = 2})) {
        SKIP("no pseudo-terminals here");
    }
    write_progress(&terminal.sink, 1, 5, 0.5);
    EXPECT_TEXT(read_terminal(&terminal),
                "\rround 1/2  trained 5 %  1,000 images/s  left 20 s\x1b[K");
    pause_between_draws();
    write_progress(&terminal.sink, 1, 100, 10);
    EXPECT_TEXT(read_terminal(&terminal),
                "\rround 1/2  trained 100 %  1,000 images/s  left 10 s\x1b[K");
    pause_between_draws();
    write_env_step(&terminal.sink, 1, 0, 50); // the round's line follows at once
    EXPECT_TEXT(read_terminal(&terminal), "");
    write_round(&terminal.sink, 1, full_round(12));
    EXPECT_CONTAINS(read_terminal(&terminal), "\rround 1/2  1,234 steps/s");
    terminal.sink.close(terminal.sink.state);
    EXPECT_TEXT(read_terminal(&terminal), "");
    close_terminal(&terminal);
}

TEST(every_round_leaves_a_line_and_drawing_is_bounded) {
    static Terminal terminal;
    if (!open_terminal(&terminal, 80, (EsConsoleOptions){.n_rounds = 100000})) {
        SKIP("no pseudo-terminals here");
    }
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int n_lines = 0, n_drawn = 0;
    for (int round = 1; round <= 2000; round++) { // far more than a person could read
        write_env_step(&terminal.sink, round, 0, 50);
        write_round(&terminal.sink, round, full_round(0.001));
        terminal.bytes = 0; // the buffer holds one round
        for (const char *at = read_terminal(&terminal); *at != '\0'; at++) {
            n_lines += *at == '\n';
            n_drawn += *at == '\r';
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    EXPECT_EQ(n_lines, 2000);
    n_drawn -= n_lines;
    EXPECT(n_drawn >= 1 && n_drawn <= 2 + (int)(seconds * 5)); // in place five times a second
    terminal.sink.close(terminal.sink.state);
    EXPECT_TEXT(read_terminal(&terminal), "");
    close_terminal(&terminal);
}

TEST(the_line_in_place_never_wraps) {
    static Terminal terminal;
    if (!open_terminal(&terminal, 80, (EsConsoleOptions){.n_rounds = 200, .first_round = 12})) {
        SKIP("no pseudo-terminals here");
    }
    write_round(&terminal.sink, 13, full_round(60));
    read_terminal(&terminal);
    static const struct {
        int columns;
        const char *line;
    } cases[] = {
        {200, "round 14/200  step 31  validation 50.0 %  seeds 2  left 3 h 07 min"},
        {67, "round 14/200  step 31  validation 50.0 %  seeds 2  left 3 h 07 min"},
        {66, "round 14/200  step 31  validation 50.0 %  left 3 h 07 min"},
        {52, "round 14/200  validation 50.0 %  left 3 h 07 min"},
        {40, "round 14/200  left 3 h 07 min"},
        {20, "round 14/200"},
        {13, "round 14/200"},
        {6, "round"},
        {0, "round 14/200  step 31  validation 50.0 %  seeds 2  left 3 h 07 min"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        set_columns(&terminal, cases[i].columns);
        pause_between_draws();
        write_env_step(&terminal.sink, 14, 30, 50);
        char expected[200];
        snprintf(expected, sizeof expected, "\r%s\x1b[K", cases[i].line);
        EXPECT_TEXT(read_terminal(&terminal), expected);
    }
    terminal.sink.close(terminal.sink.state);
    close_terminal(&terminal);
}

TEST(lines_of_rounds_and_comparisons_never_wrap) {
    static Terminal terminal;
    if (!open_terminal(&terminal, 62, (EsConsoleOptions){.n_rounds = 2})) {
        SKIP("no pseudo-terminals here");
    }
    write_round(&terminal.sink, 1, full_round(60));
    EXPECT_TEXT(read_terminal(&terminal),
                "\rround 1/2  1,234 steps/s  validation 71.3 %  left 1 min 00 s\x1b[K\n");
    static const struct {
        int columns;
        const char *line;
    } cases[] = {
        {100, "comparing policies: 400 of 1,200 episodes, the last by heuristic  left 1 min 20 s"},
        {80, "comparing policies: 400 of 1,200 episodes  left 1 min 20 s"},
        {50, "comparing policies: 400 of 1,200 episodes"},
        {20, "comparing policies:"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        set_columns(&terminal, cases[i].columns);
        write_evaluation(&terminal.sink, 400, 40);
        char expected[200];
        snprintf(expected, sizeof expected, "\r%s\x1b[K", cases[i].line);
        EXPECT_TEXT(read_terminal(&terminal), expected);
    }
    terminal.sink.close(terminal.sink.state);
    close_terminal(&terminal);
}
