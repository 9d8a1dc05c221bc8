// The console: one line per round, the current round drawn again in place on a terminal, and a few
// of the warnings that come by the thousand.
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "telemetry/anomaly_rules.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/console_line.h"

// --- counting warnings ---

// Anomalies and rollbacks can come by the thousand, each one recorded elsewhere: of every kind the
// 1st, the 10th, the 100th ... gets a line, and the end a count.

#define MAX_WARNING_KINDS  32 // the last one takes all further kinds
#define WARNING_NAME_BYTES 48

typedef struct WarningKind {
    char name[WARNING_NAME_BYTES];
    int64_t n;
} WarningKind;

typedef struct Warnings {
    WarningKind kinds[MAX_WARNING_KINDS]; // in the order of their first
    int n_kinds;
} Warnings;

static WarningKind *find_kind(Warnings *warnings, const char *name, size_t bytes) {
    bytes = ES_MIN(bytes, WARNING_NAME_BYTES - 1);
    for (int i = 0; i < warnings->n_kinds; i++) {
        WarningKind *kind = &warnings->kinds[i];
        if (strlen(kind->name) == bytes && memcmp(kind->name, name, bytes) == 0) {
            return kind;
        }
    }
    if (warnings->n_kinds == MAX_WARNING_KINDS) {
        return &warnings->kinds[MAX_WARNING_KINDS - 1];
    }
    WarningKind *kind = &warnings->kinds[warnings->n_kinds++];
    *kind = (WarningKind){.n = 0};
    if (warnings->n_kinds == MAX_WARNING_KINDS) {
        name = "other";
        bytes = strlen(name);
    }
    memcpy(kind->name, name, bytes);
    return kind;
}

// Counts one more of a kind; *n receives their number. Returns 1 when it deserves a line.
static int count_warning(Warnings *warnings, const char *name, size_t bytes, int64_t *n) {
    WarningKind *kind = find_kind(warnings, name, bytes);
    *n = ++kind->n;
    int64_t power = 1;
    while (power < *n) {
        power *= 10;
    }
    return power == *n;
}

// "attribution_ratio 512, nan rollback 3", of kinds with more than one; nothing without them.
static void add_warning_counts(const Warnings *warnings, EsText *text) {
    const char *separator = "";
    for (int i = 0; i < warnings->n_kinds; i++) {
        const WarningKind *kind = &warnings->kinds[i];
        if (kind->n > 1) {
            es_text_add_string(text, separator);
            es_text_add_utf8(text, kind->name, strlen(kind->name), ES_TEXT_TERMINAL);
            es_text_add_string(text, " ");
            es_text_add_int(text, kind->n);
            separator = ", ";
        }
    }
}

// more often than this a person cannot read, and a slow link could not follow
#define SECONDS_BETWEEN_DRAWS 0.2

// the mean over these says how long a round takes: it follows growth, but not every hiccup
#define N_TIMED_ROUNDS 10

// off a terminal a round is printed while it runs only when it lasts longer than this
#define SECONDS_BETWEEN_PLAIN_LINES 30

typedef struct ConsoleSink {
    EsConsoleOptions options;
    double round_seconds[N_TIMED_ROUNDS]; // of this session, a ring
    int64_t n_timed;
    int64_t round_ended_us; // when the latest round ended; 0 before
    int64_t n_envs;         // rows of the latest env_stepped; 0 before
    int64_t n_run_envs;     // from the start of the run; 0 or missing when unknown
    int has_steps;          // rounds consist of steps: more than one per environment
    Warnings anomalies, rollbacks, trainer_events; // by rule, by reason, by name
    int64_t n_dependent;    // seeds of the rule that is printed once, at the end
    EsText dependence;      // the first of them
    double printed_seconds; // off a terminal: of the current round, when it last had a line
    int64_t update_round;   // of the latest update of the policy; 0 before
    double update_entropy, update_kl;
    int is_prove;         // accuracy is the share of episodes that ended as they should
    int is_fit;           // rounds are epochs, environments candidates
    double best_accuracy; // fit: of the best network so far; NaN before
    int64_t n_parameters; // fit: of that network
    int64_t n_candidates; // fit: that are left; 0 while unknown
    int64_t ranked_round; // of the latest validation; 0 before
    double mrr;

    // `progress` is the current round, or off a terminal a complete one that came too soon after
    // the last line
    EsConsoleProgress progress;
    int is_waiting;     // progress is not on the screen yet
    int is_complete;    // progress is a complete round that has no line of its own yet
    int is_drawn;       // the cursor stands behind a progress line
    int64_t drawn_ns;   // last drawing in place
    int64_t printed_ns; // last line of a complete round
    EsText out;         // goes to the stream next
} ConsoleSink;

// Not through a FILE: a thread left behind in a blocked write would hold its lock, and the end of
// the process would wait for that.
static EsStatus write_out(ConsoleSink *sink) {
    EsStatus status = sink->out.status;
    size_t n_done = 0;
    while (status == ES_STATUS_OK && n_done < sink->out.length) {
        ssize_t n = write(sink->options.descriptor, (const char *)sink->out.bytes + n_done,
                          sink->out.length - n_done);
        if (n > 0) {
            n_done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            status = ES_FAIL(IO, "cannot write the progress: %s", strerror(errno));
        }
    }
    es_text_reset(&sink->out);
    return status;
}

// --- lines ---

// Columns a line may fill: on a terminal one less than there are, or some wrap.
static size_t count_columns(const ConsoleSink *sink) {
    struct winsize size = {0};
    if (!sink->options.is_terminal) {
        return SIZE_MAX;
    }
    int is_known = ioctl(sink->options.descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return is_known ? (size_t)size.ws_col - 1 : 79;
}

static void begin_line(ConsoleSink *sink) {
    es_text_add_string(&sink->out, sink->options.is_terminal ? "\r" : "");
}

// On a terminal the rest of a longer progress line is cleared.
static void end_line(ConsoleSink *sink) {
    es_text_add_string(&sink->out, sink->options.is_terminal ? "\x1b[K\n" : "\n");
    sink->is_waiting |= sink->is_drawn;
    sink->is_drawn = 0;
}

static void draw_in_place(ConsoleSink *sink) {
    if (sink->options.is_terminal && sink->is_waiting &&
        (sink->drawn_ns == 0 || es_clock_seconds_since(sink->drawn_ns) >= SECONDS_BETWEEN_DRAWS)) {
        begin_line(sink);
        es_console_add_progress(&sink->out, &sink->progress, count_columns(sink));
        es_text_add_string(&sink->out, "\x1b[K");
        sink->drawn_ns = es_clock_ns();
        sink->is_drawn = 1;
        sink->is_waiting = 0;
    }
}

static void print_complete_round(ConsoleSink *sink) {
    begin_line(sink);
    es_console_add_progress(&sink->out, &sink->progress, count_columns(sink));
    end_line(sink);
    sink->printed_ns = es_clock_ns();
    sink->is_complete = 0;
    sink->is_waiting = 0;
}

// --- time left ---

static double mean_round_seconds(const ConsoleSink *sink) {
    int64_t n = ES_MIN(sink->n_timed, N_TIMED_ROUNDS);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += sink->round_seconds[i];
    }
    return n > 0 ? sum / (double)n : es_missing_real();
}

static void time_round(ConsoleSink *sink, const EsPacket *packet, double seconds) {
    int64_t now_us = packet->header->unix_us;
    if (!isfinite(seconds) && sink->round_ended_us != 0) {
        seconds = (double)(now_us - sink->round_ended_us) * 1e-6;
    }
    if (isfinite(seconds) && seconds >= 0 && packet->header->round > sink->options.first_round) {
        sink->round_seconds[sink->n_timed++ % N_TIMED_ROUNDS] = seconds;
    }
    sink->round_ended_us = now_us;
}

// Seconds until n_left rounds of `mean` seconds are done, when the first of them has run for
// `elapsed`; missing when that is not known or nothing is left.
static double estimate_left(const ConsoleSink *sink, double mean, int64_t n_left, double elapsed) {
    if (sink->options.n_rounds <= 0 || n_left <= 0 || es_is_missing_real(mean)) {
        return es_missing_real();
    }
    return mean * (double)n_left - ES_MIN(ES_MAX(elapsed, 0), mean);
}

// --- events ---

static double real_cell(const EsPacket *packet, const char *column) {
    return es_packet_real(packet, 0, es_event_column(packet->type, column));
}

static int is_text(const EsPacket *packet, int64_t row, const char *column, const char *text) {
    size_t bytes = 0;
    const char *cell = es_packet_text(packet, row, es_event_column(packet->type, column), &bytes);
    return cell != NULL && bytes == strlen(text) && memcmp(cell, text, bytes) == 0;
}

static void take_start(ConsoleSink *sink, const EsPacket *packet) {
    sink->n_run_envs = es_packet_int(packet, 0, es_event_column(packet->type, "n_envs"));
    sink->is_prove = is_text(packet, 0, "kind", "prove");
    sink->is_fit = is_text(packet, 0, "kind", "fit");
    // a resumed fit may have dropped some
    sink->n_candidates = sink->options.first_round == 0 ? sink->n_run_envs : 0;
}

// --- a fit ---

static EsConsoleProgress begin_progress(const ConsoleSink *sink, int64_t round) {
    EsConsoleProgress progress = es_console_progress(round, sink->options.n_rounds);
    if (sink->is_fit) {
        progress.unit = "epoch";
        progress.best = sink->best_accuracy;
        progress.n_parameters =
            es_is_missing_real(progress.best) ? ES_MISSING_INT : sink->n_parameters;
    }
    return progress;
}

static void print_dropped(ConsoleSink *sink, int64_t n_left) {
    begin_line(sink);
    es_text_add_string(&sink->out, "candidates dropped: ");
    es_text_add_int(&sink->out, sink->n_candidates - n_left);
    es_text_add_string(&sink->out, ", left: ");
    es_text_add_int(&sink->out, n_left);
    end_line(sink);
}

static void take_metrics(ConsoleSink *sink, const EsPacket *packet) {
    for (int64_t row = 0; sink->is_fit && row < packet->n_rows; row++) {
        double value = es_packet_real(packet, row, es_event_column(packet->type, "value"));
        if (!(value >= 0 && value < 1e15)) {
            continue;
        }
        if (is_text(packet, row, "name", "esper.fit.best_accuracy")) {
            sink->best_accuracy = value;
        } else if (is_text(packet, row, "name", "esper.fit.parameters")) {
            sink->n_parameters = llround(value);
        } else if (is_text(packet, row, "name", "esper.fit.candidates")) {
            int64_t n_left = llround(value);
            if (n_left < sink->n_candidates) {
                print_dropped(sink, n_left);
            }
            sink->n_candidates = n_left;
        }
    }
}

static void print_seeds(ConsoleSink *sink, const EsPacket *packet) {
    for (int64_t row = 0; sink->is_fit && row < packet->n_rows; row++) {
        begin_line(sink);
        es_console_add_seed(&sink->out, packet, row);
        end_line(sink);
    }
}

// --- rounds ---

static void take_round(ConsoleSink *sink, const EsPacket *packet) {
    int64_t round = packet->header->round;
    time_round(sink, packet, real_cell(packet, "seconds"));
    EsConsoleProgress progress = begin_progress(sink, round);
    // a round of one step is a pass over the images (hosts without growth): steps say nothing then
    int64_t n_steps = es_packet_int(packet, 0, es_event_column(packet->type, "n_steps"));
    sink->has_steps |= sink->n_run_envs > 0 && n_steps > sink->n_run_envs;
    progress.rate = real_cell(packet, "images_per_second");
    progress.rate_unit = "images/s";
    if (sink->has_steps || !(progress.rate > 0)) {
        progress.rate = real_cell(packet, "steps_per_second");
        progress.rate_unit = "steps/s";
    }
    if (sink->is_fit) { // its best is all that counts
        progress.rate = es_missing_real();
    } else {
        progress.accuracy = real_cell(packet, "accuracy");
        progress.n_seeds = es_packet_int(packet, 0, es_event_column(packet->type, "n_seeds"));
    }
    progress.measured = sink->is_prove ? "right" : progress.measured;
    progress.mrr = sink->ranked_round == round ? sink->mrr : progress.mrr;
    progress.reward = real_cell(packet, "reward");
    if (sink->update_round == round) {
        progress.entropy = sink->update_entropy;
        progress.kl_divergence = sink->update_kl;
    }
    progress.seconds_left =
        estimate_left(sink, mean_round_seconds(sink), sink->options.n_rounds - round, 0);
    sink->progress = progress;
    sink->printed_seconds = 0;
    sink->is_complete = 1;
    sink->is_waiting = 1;
    if (sink->options.is_terminal || sink->printed_ns == 0 || round == sink->options.n_rounds ||
        es_clock_seconds_since(sink->printed_ns) >= sink->options.seconds_between) {
        print_complete_round(sink);
    }
}

// The current round, from events of its steps. Off a terminal they are not shown, and must not take
// the place of a complete round that waits for its line.
static int begin_step(ConsoleSink *sink, const EsPacket *packet) {
    int64_t round = packet->header->round;
    sink->has_steps |= packet->header->step > 0;
    int has_share = sink->progress.round == round && isfinite(sink->progress.percent);
    if (!sink->options.is_terminal || has_share || sink->is_fit) {
        return 0;
    }
    if (sink->is_complete || sink->progress.round != round) {
        sink->progress = es_console_progress(round, sink->options.n_rounds);
        sink->is_complete = 0;
    }
    double elapsed = sink->round_ended_us == 0
                         ? 0
                         : (double)(packet->header->unix_us - sink->round_ended_us) * 1e-6;
    sink->progress.n_steps_done = packet->header->step + 1;
    sink->progress.seconds_left =
        estimate_left(sink, mean_round_seconds(sink), sink->options.n_rounds - round + 1, elapsed);
    sink->is_waiting = 1;
    return 1;
}

// Shows the progress of a round's training. The first round estimates its time from its own share.
static void take_progress(ConsoleSink *sink, const EsPacket *packet) {
    int64_t round = packet->header->round;
    int64_t n_images = es_packet_int(packet, 0, es_event_column(packet->type, "n_images"));
    double percent = real_cell(packet, "percent"), seconds = real_cell(packet, "seconds");
    if (!(percent > 0 && seconds > 0)) {
        return;
    }
    int is_printed =
        sink->options.is_terminal || seconds - sink->printed_seconds >= SECONDS_BETWEEN_PLAIN_LINES;
    if (!is_printed) {
        return;
    }
    double mean = sink->n_timed > 0 ? mean_round_seconds(sink) : seconds * 100 / percent;
    EsConsoleProgress progress = begin_progress(sink, round);
    progress.percent = percent;
    progress.rate = n_images > 0 && !sink->is_fit ? (double)n_images / seconds : es_missing_real();
    progress.rate_unit = "images/s";
    progress.seconds_left = estimate_left(sink, mean, sink->options.n_rounds - round + 1, seconds);
    if (sink->options.is_terminal) {
        sink->progress = progress;
        sink->is_complete = 0;
        sink->is_waiting = 1;
    } else {
        // not print_complete_round: one that waits for its line goes on waiting
        es_console_add_progress(&sink->out, &progress, SIZE_MAX);
        es_text_add_string(&sink->out, "\n");
        sink->printed_seconds = seconds;
    }
}

static void take_update(ConsoleSink *sink, const EsPacket *packet) {
    sink->update_round = packet->header->round;
    sink->update_entropy = real_cell(packet, "entropy");
    sink->update_kl = real_cell(packet, "kl_divergence");
}

static void take_ranking(ConsoleSink *sink, const EsPacket *packet) {
    sink->ranked_round = packet->header->round;
    sink->mrr = real_cell(packet, "mrr");
}

// On a terminal in place; elsewhere now and then, and the last.
static void take_evaluation(ConsoleSink *sink, const EsPacket *packet) {
    double seconds = real_cell(packet, "seconds");
    int is_last = es_packet_int(packet, 0, es_event_column(packet->type, "n_done")) ==
                  es_packet_int(packet, 0, es_event_column(packet->type, "n_episodes"));
    int is_printed = sink->options.is_terminal || is_last ||
                     seconds - sink->printed_seconds >= SECONDS_BETWEEN_PLAIN_LINES;
    if (!is_printed) {
        return;
    }
    begin_line(sink);
    es_console_add_evaluation(&sink->out, packet, count_columns(sink));
    if (sink->options.is_terminal && !is_last) {
        es_text_add_string(&sink->out, "\x1b[K");
        sink->is_drawn = 1;
        sink->is_waiting = 0;
    } else {
        sink->is_drawn = 0;
        end_line(sink);
        sink->printed_seconds = seconds;
    }
}

static void take_step_time(ConsoleSink *sink, const EsPacket *packet) {
    double total_ms = real_cell(packet, "total_ms");
    if (begin_step(sink, packet) && sink->n_envs > 0 && total_ms > 0) {
        sink->progress.rate = (double)sink->n_envs * 1000 / total_ms;
    }
}

static void take_env_steps(ConsoleSink *sink, const EsPacket *packet) {
    sink->n_envs = packet->n_rows;
    if (!begin_step(sink, packet)) {
        return;
    }
    int accuracy_column = es_event_column(packet->type, "validation_accuracy");
    int seeds_column = es_event_column(packet->type, "n_seeds");
    double accuracy_sum = 0;
    int64_t n_measured = 0, n_seeds = ES_MISSING_INT;
    for (int64_t row = 0; row < packet->n_rows; row++) {
        double accuracy = es_packet_real(packet, row, accuracy_column);
        if (!es_is_missing_real(accuracy)) {
            accuracy_sum += accuracy;
            n_measured++;
        }
        int64_t seeds = es_packet_int(packet, row, seeds_column);
        if (seeds != ES_MISSING_INT) {
            n_seeds = n_seeds == ES_MISSING_INT ? seeds : n_seeds + seeds;
        }
    }
    sink->progress.accuracy =
        n_measured > 0 ? accuracy_sum / (double)n_measured : es_missing_real();
    sink->progress.n_seeds = n_seeds;
}

// One costly dependence says little, and a run that has it has many: they are counted, the first is
// kept, and the end prints both. Returns 0 for every other rule.
static int count_dependence(ConsoleSink *sink, const EsPacket *packet, int64_t row,
                            const char *rule, size_t bytes) {
    static const char name[] = ES_RULE_COSTLY_DEPENDENCE;
    if (bytes != strlen(name) || memcmp(rule, name, bytes) != 0) {
        return 0;
    }
    if (sink->n_dependent++ == 0) {
        es_console_add_anomaly(&sink->dependence, packet, row);
    }
    return 1;
}

// `column` names the kind of a row.
static void print_warnings(ConsoleSink *sink, Warnings *warnings, const EsPacket *packet,
                           const char *column, void (*add)(EsText *, const EsPacket *, int64_t)) {
    for (int64_t row = 0; row < packet->n_rows; row++) {
        size_t bytes = 0;
        int64_t n = 0;
        const char *kind =
            es_packet_text(packet, row, es_event_column(packet->type, column), &bytes);
        if (packet->type == ES_EVENT_ANOMALY_DETECTED && kind != NULL &&
            count_dependence(sink, packet, row, kind, bytes)) {
            continue;
        }
        if (count_warning(warnings, kind != NULL ? kind : "", bytes, &n)) {
            begin_line(sink);
            add(&sink->out, packet, row);
            if (n > 1) {
                es_text_add_string(&sink->out, " (");
                es_text_add_int(&sink->out, n);
                es_text_add_string(&sink->out, " so far)");
            }
            end_line(sink);
        }
    }
}

static void print_summary(ConsoleSink *sink, const char *title, const Warnings *warnings) {
    size_t before = sink->out.length;
    es_text_add_string(&sink->out, title);
    size_t titled = sink->out.length;
    add_warning_counts(warnings, &sink->out);
    if (sink->out.length == titled) {
        sink->out.length = before;
        return;
    }
    es_text_add_string(&sink->out, "\n");
}

static EsStatus write_packet(void *state, const EsPacket *packet) {
    ConsoleSink *sink = state;
    switch (packet->type) {
    case ES_EVENT_RUN_STARTED:
        take_start(sink, packet);
        break;
    case ES_EVENT_ROUND_COMPLETED:
        take_round(sink, packet);
        break;
    case ES_EVENT_UPDATE_COMPLETED:
        take_update(sink, packet);
        break;
    case ES_EVENT_PROOF_RANKED:
        take_ranking(sink, packet);
        break;
    case ES_EVENT_EVALUATION_PROGRESSED:
        take_evaluation(sink, packet);
        break;
    case ES_EVENT_ROUND_PROGRESSED:
        take_progress(sink, packet);
        break;
    case ES_EVENT_STEP_TIMED:
        take_step_time(sink, packet);
        break;
    case ES_EVENT_ENV_STEPPED:
        take_env_steps(sink, packet);
        break;
    case ES_EVENT_METRIC:
        take_metrics(sink, packet);
        break;
    case ES_EVENT_SEED_GERMINATED:
    case ES_EVENT_SEED_FOSSILIZED:
    case ES_EVENT_SEED_PRUNED:
        print_seeds(sink, packet);
        break;
    case ES_EVENT_ANOMALY_DETECTED:
        print_warnings(sink, &sink->anomalies, packet, "rule", es_console_add_anomaly);
        break;
    case ES_EVENT_GOVERNOR_ROLLBACK:
        print_warnings(sink, &sink->rollbacks, packet, "reason", es_console_add_rollback);
        break;
    case ES_EVENT_TRAINER_EVENT:
        print_warnings(sink, &sink->trainer_events, packet, "name", es_console_add_trainer_event);
        break;
    default:
        return ES_STATUS_OK;
    }
    draw_in_place(sink);
    return write_out(sink);
}

static EsStatus flush_lines(void *state) {
    ConsoleSink *sink = state;
    draw_in_place(sink);
    return write_out(sink);
}

// Leaves the cursor at the start of a line, and no complete round untold.
static void close_sink(void *state) {
    ConsoleSink *sink = state;
    if (sink->is_complete) {
        print_complete_round(sink);
    } else if (sink->is_drawn) {
        es_text_add_string(&sink->out, "\n");
        sink->is_drawn = 0;
    }
    if (sink->n_dependent > 0 && sink->dependence.status == ES_STATUS_OK) {
        es_text_add(&sink->out, sink->dependence.bytes, sink->dependence.length);
        es_text_add_string(&sink->out, " (seeds in all: ");
        es_text_add_int(&sink->out, sink->n_dependent);
        es_text_add_string(&sink->out, ")\n");
    }
    print_summary(sink, "anomalies in all: ", &sink->anomalies);
    print_summary(sink, "rollbacks in all: ", &sink->rollbacks);
    print_summary(sink, "trainer events in all: ", &sink->trainer_events);
    EsStatus status = write_out(sink);
    (void)status;
    es_text_destroy(&sink->out);
    es_text_destroy(&sink->dependence);
    es_release(sink);
}

EsStatus es_console_sink_open(const EsConsoleOptions *options, EsSink *sink) {
    ConsoleSink *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->options = *options;
    state->progress = es_console_progress(0, options->n_rounds);
    state->best_accuracy = es_missing_real();
    *sink = (EsSink){"console", state, write_packet, flush_lines, close_sink};
    return ES_STATUS_OK;
}
