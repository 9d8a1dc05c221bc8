// Sections of the terminal's view, and their places on it.
#include "view/watch_frame.h"

#include <ctype.h>
#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "telemetry/text.h"
#include "view/network_picture.h"

#define N_BARS 160 // of a curve, at most

// The place of the next line.
typedef struct Cursor {
    EsWatchFrame *frame;
    EsRunView *view;
    EsViewQuestion question;
    int64_t round; // curves end here; 0: none. The question's is the newest with environments
    int x, y, width, bottom; // `bottom` is the first line that is not ours
} Cursor;

// The names of a round, a step and an environment in runs of a kind.
typedef struct Words {
    const char *round, *step, *environment, *environments;
} Words;

static const Words *words_of(const Cursor *cursor) {
    static const Words of_fits = {"epoch", "epoch", "candidate", "Candidates"};
    static const Words of_others = {"round", "step", "environment", "Environments"};
    return strcmp(es_run_view_kind(cursor->view), "fit") == 0 ? &of_fits : &of_others;
}

// --- lines ---

// Sets a line's text; what is foreign in it is made safe for the terminal.
static void set_text(EsScreenLine *line, const char *raw) {
    size_t length = 0, bytes = strlen(raw);
    for (size_t at = 0; at < bytes;) {
        const char *shown;
        size_t n_shown;
        at += es_text_next_shown(raw + at, bytes - at, &shown, &n_shown);
        if (length + n_shown >= sizeof line->text) {
            break;
        }
        memcpy(line->text + length, shown, n_shown);
        length += n_shown;
    }
    line->text[length] = '\0';
}

// Adds a line.
static void add_line(Cursor *cursor, EsLineStyle style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_line(Cursor *cursor, EsLineStyle style, const char *format, ...) {
    if (cursor->y >= cursor->bottom || cursor->frame->n_lines == ES_WATCH_MAX_LINES) {
        return;
    }
    char raw[ES_LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    EsScreenLine *line = &cursor->frame->lines[cursor->frame->n_lines++];
    *line =
        (EsScreenLine){.x = cursor->x, .y = cursor->y++, .width = cursor->width, .style = style};
    set_text(line, raw);
}

// Adds n items of a line to `text`, which has room for `bytes`.
static void append(char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t bytes, const char *format, ...) {
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, bytes - length, format, arguments);
    va_end(arguments);
}

static EsStatus read_table(Cursor *cursor, const char *name, json_t **table) {
    return es_run_view_read(cursor->view, name, &cursor->question, table);
}

// Rows up to the round that is looked at.
static int count_rows(const json_t *table, int64_t round) {
    int n = es_table_n_rows(table);
    while (round > 0 && n > 0 && es_column_real(table, "round", n - 1) > (double)round) {
        n--;
    }
    return n;
}

// --- curves ---

// The mean of a column's numbers in rows [begin, end); NaN without any.
static double mean_of(const json_t *table, const char *column, int begin, int end) {
    double sum = 0;
    int n = 0;
    for (int i = begin; i < end; i++) {
        double value = es_column_real(table, column, i);
        sum += isfinite(value) ? value : 0;
        n += isfinite(value) ? 1 : 0;
    }
    return n > 0 ? sum / n : NAN;
}

// The first n values of a column as small bars, all of them: the mean of several where there are
// more than fit.
static void draw_sparkline(const json_t *table, const char *column, int n, int width, char *text,
                           size_t bytes) {
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
    int is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    double low = INFINITY, high = -INFINITY, bars[N_BARS];
    int n_bars = ES_MIN(ES_MIN(n, width), N_BARS);
    for (int i = 0; i < n_bars; i++) {
        bars[i] = mean_of(table, column, i * n / n_bars, (i + 1) * n / n_bars);
        low = fmin(low, bars[i]);
        high = fmax(high, bars[i]);
    }
    for (int i = 0; i < n_bars; i++) {
        double share = (bars[i] - low) / (high - low); // NaN where all are equal, too
        int level = isfinite(share) ? (int)(7.99 * share) : 3;
        append(text, bytes, "%s",
               isnan(bars[i]) ? " " : (is_utf8 ? blocks : letters)[ES_MIN(ES_MAX(level, 0), 7)]);
    }
}

// A line of a curve: the number of `newest`'s first row, and all rows of the table as bars.
static void draw_curve(Cursor *cursor, const json_t *table, const json_t *newest,
                       const char *column, const char *label, const char *format) {
    double last = es_column_real(newest, column, 0);
    if (isfinite(last)) {
        char number[32], bars[ES_LINE_BYTES] = "";
        snprintf(number, sizeof number, format, last);
        draw_sparkline(table, column, count_rows(table, cursor->round), cursor->width - 23, bars,
                       sizeof bars);
        add_line(cursor, ES_LINE_PLAIN, "%-11s%10s %s", label, number, bars);
    }
}

// Reads a table about the round that is looked at, the newest without one.
static EsStatus read_reached(Cursor *cursor, const char *name, json_t **table) {
    EsViewQuestion question = cursor->question;
    question.round = cursor->round;
    return es_run_view_read(cursor->view, name, &question, table);
}

static EsStatus draw_curves(Cursor *cursor) {
    json_t *table = NULL, *newest = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_table(cursor, "curves", &table));
    ES_TRY_GOTO(read_reached(cursor, "reached", &newest));
    int64_t bucket = es_run_view_bucket(cursor->view, &cursor->question);
    if (bucket > 1) {
        add_line(cursor, ES_LINE_TITLE, "Curves, newest %s and means of %lld %ss",
                 words_of(cursor)->round, (long long)bucket, words_of(cursor)->round);
    } else {
        add_line(cursor, ES_LINE_TITLE, "Curves, by %s", words_of(cursor)->round);
    }
    if (es_table_n_rows(table) == 0) {
        add_line(cursor, ES_LINE_PLAIN, "accuracy, reward and loss appear after the first %s",
                 words_of(cursor)->round);
    }
    draw_curve(cursor, table, newest, "accuracy", "accuracy", "%.2f %%");
    draw_curve(cursor, table, newest, "reward", "reward", "%.3f");
    draw_curve(cursor, table, newest, "loss", "loss", "%.4f");
    draw_curve(cursor, table, newest, "n_fossils", "fossils", "%.0f");
done:
    json_decref(table);
    json_decref(newest);
    return status;
}

static EsStatus draw_policy(Cursor *cursor) {
    json_t *newest = NULL;
    ES_TRY(read_reached(cursor, "reached", &newest));
    double kl = es_column_real(newest, "kl_divergence", 0);
    double entropy = es_column_real(newest, "entropy", 0);
    if (isfinite(entropy)) {
        add_line(cursor, ES_LINE_TITLE, "Policy (PPO)");
        add_line(cursor, kl > 0.1 || entropy < 0.1 ? ES_LINE_WARNING : ES_LINE_PLAIN,
                 "entropy %.3f  KL %.4f  clipped %.2f  explained %.2f  gradient %.2f", entropy, kl,
                 es_column_real(newest, "clip_fraction", 0),
                 es_column_real(newest, "explained_variance", 0),
                 es_column_real(newest, "gradient_norm", 0));
    }
    json_decref(newest);
    return ES_STATUS_OK;
}

// Adds the phases with at least half a percent of the time, as many as fit into a line.
static void append_phases(const json_t *phases, int width, char *line, size_t bytes) {
    double total = 0;
    int n = es_table_n_rows(phases);
    for (int i = 0; i < n; i++) {
        total += es_column_real(phases, "total_ms", i);
    }
    for (int i = 0; i < n; i++) {
        char item[80];
        double percent = 100 * es_column_real(phases, "total_ms", i) / fmax(total, 1e-9);
        int length = snprintf(item, sizeof item, "  %.40s %.0f %%",
                              es_column_text(phases, "phase", i), percent);
        if (percent < 0.5 || (int)strlen(line) + length > width) {
            break; // the longest come first
        }
        append(line, bytes, "%s", item);
    }
}

static EsStatus draw_time(Cursor *cursor) {
    json_t *phases = NULL, *newest = NULL, *utilisation = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_table(cursor, "phases", &phases));
    ES_TRY_GOTO(read_reached(cursor, "reached", &newest));
    ES_TRY_GOTO(read_reached(cursor, "reached_utilisation", &utilisation));
    if (es_table_n_rows(newest) > 0) {
        char line[256] = "";
        double percent = es_column_real(utilisation, "utilisation", 0);
        int is_fit = strcmp(es_run_view_kind(cursor->view), "fit") == 0;
        append(line, sizeof line, "%.2f s per %s, %.0f %s/s", es_column_real(newest, "seconds", 0),
               words_of(cursor)->round,
               es_column_real(newest, is_fit ? "images_per_second" : "steps_per_second", 0),
               is_fit ? "images" : "steps");
        if (isfinite(percent)) {
            append(line, sizeof line, ", %.0f %% busy", percent);
        }
        append_phases(phases, cursor->width, line, sizeof line);
        add_line(cursor, ES_LINE_TITLE, "Speed, and where time goes");
        add_line(cursor, ES_LINE_PLAIN, "%s", line);
    }
done:
    json_decref(phases);
    json_decref(newest);
    json_decref(utilisation);
    return status;
}

// --- growth ---

static EsStatus draw_environments(Cursor *cursor) {
    json_t *table = NULL;
    ES_TRY(read_table(cursor, "environments", &table));
    int n = es_table_n_rows(table), per_line = ES_MAX(cursor->width / 12, 1);
    add_line(cursor, ES_LINE_TITLE, "%s: validation accuracy, %%, and seeds",
             words_of(cursor)->environments);
    if (n == 0) {
        add_line(cursor, ES_LINE_PLAIN, "they appear after the first recorded step");
    }
    for (int begin = 0; begin < ES_MIN(n, 4 * per_line); begin += per_line) {
        char line[ES_LINE_BYTES] = "";
        for (int i = begin; i < ES_MIN(begin + per_line, n); i++) {
            int is_chosen = es_column_real(table, "env", i) == (double)cursor->question.env;
            char cell[24];
            snprintf(cell, sizeof cell, "%s%.0f:%.1f/%.0f", is_chosen ? ">" : "",
                     es_column_real(table, "env", i),
                     es_column_real(table, "validation_accuracy", i),
                     es_column_real(table, "n_seeds", i));
            append(line, sizeof line, "%-12s", cell);
        }
        add_line(cursor, ES_LINE_PLAIN, "%s", line);
    }
    if (n > 4 * per_line) {
        add_line(cursor, ES_LINE_PLAIN, "and %d more", n - 4 * per_line);
    }
    json_decref(table);
    return ES_STATUS_OK;
}

// Fills a lane: a letter for each part of the episode, '.' where the slot is empty.
static void fill_lane(const json_t *stages, const char *slot, int n_steps, int width, char *lane) {
    memset(lane, '.', (size_t)width);
    lane[width] = '\0';
    for (int i = 0; i < es_table_n_rows(stages); i++) {
        const char *stage = es_column_text(stages, "to_stage", i);
        if (strcmp(es_column_text(stages, "slot", i), slot) == 0) {
            int begin = (int)(es_column_real(stages, "step", i) * width / ES_MAX(n_steps + 1, 1));
            char letter = strcmp(stage, "DORMANT") == 0           ? '.'
                          : isupper((unsigned char)stage[0]) != 0 ? stage[0]
                                                                  : '?';
            begin = ES_MIN(ES_MAX(begin, 0), width);
            memset(lane + begin, letter, (size_t)(width - begin));
        }
    }
}

static EsStatus draw_lanes(Cursor *cursor) {
    json_t *stages = NULL, *seeds = NULL, *contributions = NULL, *steps = NULL, *ends = NULL;
    EsPicture picture = {.n_slots = 0};
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_table(cursor, "stages", &stages));
    ES_TRY_GOTO(read_table(cursor, "seeds", &seeds));
    ES_TRY_GOTO(read_table(cursor, "contributions", &contributions));
    ES_TRY_GOTO(read_table(cursor, "steps", &steps));
    ES_TRY_GOTO(read_table(cursor, "ends", &ends));
    const EsEpisodeTables episode = {seeds, stages, contributions, steps, ends};
    int last = es_episode_last_step(&episode), width = ES_MIN(cursor->width - 36, 200);
    add_line(cursor, ES_LINE_TITLE, "Seeds of %s %lld, %ss 0 to %d", words_of(cursor)->environment,
             (long long)cursor->question.env, words_of(cursor)->step, ES_MAX(last, 0));
    for (int i = 0; i < es_table_n_rows(seeds); i++) {
        es_picture_add_slot(&picture, es_column_text(seeds, "slot", i));
    }
    if (picture.n_slots == 0) {
        add_line(cursor, ES_LINE_PLAIN, "no seed in this episode yet");
    }
    es_picture_set_step(&picture, &episode, last);
    for (int i = 0; i < picture.n_slots && width > 4; i++) {
        const EsPictureSlot *slot = &picture.slots[i];
        char lane[208], worth[16] = "";
        fill_lane(stages, slot->name, last, width, lane);
        if (isfinite(slot->contribution)) {
            snprintf(worth, sizeof worth, "%+.1f", slot->contribution);
        }
        add_line(cursor, ES_LINE_PLAIN, "%-6s%s %-12s %s", slot->name, lane, slot->blueprint,
                 worth);
    }
done:
    json_decref(stages);
    json_decref(seeds);
    json_decref(contributions);
    json_decref(steps);
    json_decref(ends);
    return status;
}

static EsStatus draw_decisions(Cursor *cursor) {
    json_t *table = NULL;
    ES_TRY(read_table(cursor, "decisions", &table));
    int n = es_table_n_rows(table), n_by_op[6] = {0};
    static const char *const ops[] = {"WAIT",  "GERMINATE", "SET_ALPHA_TARGET",
                                      "PRUNE", "FOSSILIZE", "ADVANCE"};
    for (int i = 0; i < n; i++) {
        for (size_t op = 0; op < ES_COUNT_OF(ops); op++) {
            n_by_op[op] += strcmp(es_column_text(table, "op", i), ops[op]) == 0;
        }
    }
    if (n > 0) {
        char line[256] = "";
        for (size_t op = 0; op < ES_COUNT_OF(ops); op++) {
            if (n_by_op[op] > 0) {
                append(line, sizeof line, "%s %d  ", ops[op], n_by_op[op]);
            }
        }
        add_line(cursor, ES_LINE_TITLE, "Its %sdecisions: %s",
                 es_table_is_full(table) ? "newest " : "", line);
        int n_shown = cursor->bottom - cursor->y > 8 ? 3 : 1; // the log needs room, too
        for (int i = ES_MAX(n - n_shown, 0); i < n; i++) {
            char chance[40] = ""; // of a policy that has learned one
            double confidence = es_column_real(table, "confidence", i);
            if (isfinite(confidence)) {
                snprintf(chance, sizeof chance, "  probability %.2f", confidence);
            }
            add_line(cursor, ES_LINE_PLAIN, "%s %3.0f  %s %s %s%s", words_of(cursor)->step,
                     es_column_real(table, "step", i), es_column_text(table, "op", i),
                     es_column_text(table, "slot", i), es_column_text(table, "blueprint", i),
                     chance);
        }
    }
    json_decref(table);
    return ES_STATUS_OK;
}

// Adds a line of how often the values of the head at row i were chosen, as many as fit. Returns the
// row of the next head.
static int draw_head(Cursor *cursor, const json_t *table, int i, const char *label) {
    const char *head = es_column_text(table, "head", i);
    char line[ES_LINE_BYTES] = "";
    size_t room = (size_t)ES_MAX(cursor->width - 3, 16); // for dots
    int n_hidden = 0;
    for (; strcmp(es_column_text(table, "head", i), head) == 0; i++) {
        char item[80];
        int bytes =
            snprintf(item, sizeof item, "%.40s %.0f %%  ", es_column_text(table, "value", i),
                     es_column_real(table, "percent", i));
        n_hidden += n_hidden > 0 || strlen(label) + strlen(line) + (size_t)bytes > room + 2;
        append(line, sizeof line, "%s", n_hidden > 0 ? "" : item);
    }
    add_line(cursor, ES_LINE_PLAIN, "%s%s%s", label, line, n_hidden > 0 ? "..." : "");
    return i;
}

// The heads of a policy; where there is little room the operations alone.
static EsStatus draw_heads(Cursor *cursor) {
    json_t *table = NULL;
    ES_TRY(read_table(cursor, "heads", &table));
    int n = es_table_n_rows(table), has_room = cursor->bottom - cursor->y > 16;
    const char *rounds = es_run_view_is_one_episode(cursor->view) ? "all epochs" : "last 20 rounds";
    if (n > 0 && has_room) {
        add_line(cursor, ES_LINE_TITLE, "Chosen, by head, %s", rounds);
    }
    for (int i = 0; i < n;) {
        const char *head = es_column_text(table, "head", i);
        int is_op = strcmp(head, "op") == 0;
        char label[40];
        if (!has_room && !is_op) {
            break;
        }
        if (has_room) {
            snprintf(label, sizeof label, "%-13.20s", is_op ? "operation" : head);
        } else {
            snprintf(label, sizeof label, "Chosen, %s: ", rounds);
        }
        i = draw_head(cursor, table, i, label);
    }
    json_decref(table);
    return ES_STATUS_OK;
}

// --- fits and proofs ---

// Its number is the last of the n rows.
static void draw_latency(Cursor *cursor, const json_t *epochs, int n) {
    char bars[ES_LINE_BYTES] = "";
    draw_sparkline(epochs, "latency_ms", n, cursor->width - 23, bars, sizeof bars);
    add_line(cursor, ES_LINE_PLAIN, "%-11s%7.1f ms %s", "epoch",
             es_column_real(epochs, "latency_ms", n - 1), bars);
}

static EsStatus draw_rails(Cursor *cursor) {
    json_t *epochs = NULL, *events = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_table(cursor, "epochs", &epochs));
    ES_TRY_GOTO(read_table(cursor, "rails", &events));
    int n = count_rows(epochs, cursor->round);
    add_line(cursor, ES_LINE_TITLE, "Rails");
    if (n == 0) {
        add_line(cursor, ES_LINE_PLAIN, "off (configuration section [rails])");
    } else {
        static const char *const states[] = {"?", "closed", "open", "half open"};
        int breaker = (int)fmin(fmax(es_column_real(epochs, "breaker", n - 1), 0), 3);
        int is_careful = es_column_real(epochs, "is_conservative", n - 1) == 1;
        draw_latency(cursor, epochs, n);
        add_line(cursor, breaker != 1 || is_careful ? ES_LINE_WARNING : ES_LINE_PLAIN,
                 "breaker %s  mode %s  failed epochs %.0f", states[breaker],
                 is_careful ? "conservative" : "normal", es_column_real(epochs, "n_failed", n - 1));
    }
    for (int i = 0; i < ES_MIN(es_table_n_rows(events), 4); i++) {
        add_line(cursor, ES_LINE_PLAIN, "epoch %.0f  %s %s", es_column_real(events, "round", i),
                 es_column_text(events, "name", i), es_column_text(events, "attributes", i));
    }
done:
    json_decref(epochs);
    json_decref(events);
    return status;
}

// "2: 98 % of 527" for as many depths as fit into a line, a line after the other.
static void draw_depths(Cursor *cursor, const json_t *depths, int begin, int end) {
    char line[256] = "";
    for (int i = begin; i < end; i++) {
        char item[48];
        double n = es_column_real(depths, "n", i);
        snprintf(item, sizeof item, "%.0f: %.0f %% of %.0f", es_column_real(depths, "depth", i),
                 100 * es_column_real(depths, "n_proved", i) / n, n);
        if (line[0] != '\0' &&
            strlen(line) + 3 + strlen(item) > (size_t)ES_MIN(cursor->width, 200)) {
            add_line(cursor, ES_LINE_PLAIN, "%s", line);
            line[0] = '\0';
        }
        append(line, sizeof line, "%s%s", line[0] != '\0' ? "   " : "", item);
    }
    if (line[0] != '\0') {
        add_line(cursor, ES_LINE_PLAIN, "%s", line);
    }
}

// Queries by depth: `is_counted` where all episodes are, known depths first.
static void draw_proved(Cursor *cursor, const json_t *depths, int is_counted) {
    int n = es_table_n_rows(depths), n_known = 0;
    while (n_known < n && strcmp(es_column_text(depths, "counted_by", n_known), "proof") == 0) {
        n_known++;
    }
    if (n == 0) {
        add_line(cursor, ES_LINE_TITLE, "Proved, by depth");
        add_line(cursor, ES_LINE_PLAIN, "appears after the first round");
    }
    if (n_known > 0) {
        add_line(cursor, ES_LINE_TITLE, "Proved, by steps of the shortest proof");
        draw_depths(cursor, depths, 0, n_known);
    }
    if (n > n_known) {
        add_line(cursor, ES_LINE_TITLE, "Proved, by actions of the episode%s",
                 is_counted ? "" : " (sample)");
        draw_depths(cursor, depths, n_known, n);
    }
}

static void draw_predicates(Cursor *cursor, const json_t *predicates) {
    int n = es_table_n_rows(predicates), n_shown = cursor->bottom - cursor->y > 12 ? 5 : 3;
    add_line(cursor, ES_LINE_TITLE, "Best and worst predicates");
    for (int i = 0; i < n; i++) {
        if (i < n_shown || i >= n - n_shown) {
            add_line(cursor, ES_LINE_PLAIN, "%-20s %5.1f %% of %.0f",
                     es_column_text(predicates, "predicate", i),
                     100 * es_column_real(predicates, "n_proved", i) /
                         es_column_real(predicates, "n", i),
                     es_column_real(predicates, "n", i));
        }
    }
}

// The newest proof that was recorded, whole, where there is room for it and for events below.
static EsStatus draw_proof(Cursor *cursor) {
    json_t *trees = NULL;
    ES_TRY(read_table(cursor, "proof_trees", &trees));
    const char *proof = es_column_text(trees, "proof", 0);
    int n_lines = 0;
    for (const char *at = proof; *at != '\0'; at++) {
        n_lines += *at == '\n';
    }
    if (n_lines > 0 && n_lines + 10 < cursor->bottom - cursor->y) {
        add_line(cursor, ES_LINE_TITLE, "Newest proof, round %.0f",
                 es_column_real(trees, "round", 0));
        while (*proof != '\0') {
            int bytes = (int)strcspn(proof, "\n"), n_atom = (int)strcspn(proof, "\t\n");
            int has_reason = n_atom < bytes;
            add_line(cursor, ES_LINE_PLAIN, "%.*s  %.*s", n_atom, proof,
                     has_reason ? bytes - n_atom - 1 : 0, proof + n_atom + has_reason);
            proof += bytes + (proof[bytes] == '\n');
        }
    }
    json_decref(trees);
    return ES_STATUS_OK;
}

// Of all episodes where the run has counts of them, else of its sample.
static EsStatus draw_proofs(Cursor *cursor) {
    json_t *depths = NULL, *predicates = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_table(cursor, "proof_depths", &depths));
    int is_counted = es_table_n_rows(depths) > 0;
    if (!is_counted) {
        json_decref(depths);
        depths = NULL;
        ES_TRY_GOTO(read_table(cursor, "depths", &depths));
    }
    ES_TRY_GOTO(read_table(cursor, is_counted ? "proof_predicates" : "predicates", &predicates));
    draw_proved(cursor, depths, is_counted);
    draw_predicates(cursor, predicates);
done:
    json_decref(depths);
    json_decref(predicates);
    return status;
}

// --- events ---

static EsStatus draw_anomalies(Cursor *cursor) {
    json_t *table = NULL;
    ES_TRY(read_table(cursor, "anomalies", &table));
    int n = es_table_n_rows(table);
    char line[256] = "";
    for (int i = 0; i < ES_MIN(n, 4); i++) {
        append(line, sizeof line, "%s%s %.0f", i > 0 ? "  " : "", es_column_text(table, "rule", i),
               es_column_real(table, "n", i));
    }
    add_line(cursor, n > 0 ? ES_LINE_WARNING : ES_LINE_PLAIN, "Anomalies: %s",
             n > 0 ? line : "all clear");
    json_decref(table);
    return ES_STATUS_OK;
}

static EsStatus draw_log(Cursor *cursor) {
    json_t *table = NULL;
    ES_TRY(read_table(cursor, "log", &table));
    int n = ES_MIN(es_table_n_rows(table), 12);
    if (n > 0) {
        add_line(cursor, ES_LINE_TITLE, "Newest events (UTC)");
    }
    for (int i = 0; i < n; i++) {
        char moment[16] = "";
        double unix_time = es_column_real(table, "unix_time", i);
        time_t seconds = fabs(unix_time) < 1e12 ? (time_t)unix_time : 0; // none where it is NaN
        struct tm parts;
        if (seconds != 0 && gmtime_r(&seconds, &parts) != NULL) {
            strftime(moment, sizeof moment, "%H:%M:%S", &parts);
        }
        add_line(cursor, ES_LINE_PLAIN, "%s %s %.0f  %s", moment, words_of(cursor)->round,
                 es_column_real(table, "round", i), es_column_text(table, "text", i));
    }
    json_decref(table);
    return ES_STATUS_OK;
}

// --- the whole ---

static const char keys[] =
    "q quit  \xe2\x86\x90 \xe2\x86\x92 environment  \xe2\x86\x91 \xe2\x86\x93 "
    "round  r replay  l live  ? help";
static const char ascii_keys[] = "q quit  arrows: environment, round  r replay  l live  ? help";

static EsStatus draw_title(Cursor *cursor, const EsWatchPosition *position) {
    json_t *run = NULL;
    ES_TRY(read_table(cursor, "run", &run));
    double last = es_column_real(run, "last_round", 0), n_envs = es_column_real(run, "n_envs", 0);
    const char *outcome = es_column_text(run, "outcome", 0);
    cursor->frame->last_round = isfinite(last) ? (int64_t)last : 0;
    cursor->frame->n_envs = isfinite(n_envs) ? (int64_t)n_envs : 1;
    char at[64] = "";
    if (position->round > 0) {
        snprintf(at, sizeof at, "  [%s %s %lld]", position->is_replay ? "replay," : "at",
                 words_of(cursor)->round, (long long)position->round);
    }
    add_line(cursor, ES_LINE_BAR, " %s  %s %s on %s  %s %.0f of %.0f  %s%s",
             es_column_text(run, "run_id", 0), es_column_text(run, "kind", 0),
             es_column_text(run, "task", 0), es_column_text(run, "device", 0),
             words_of(cursor)->round, isfinite(last) ? last : 0, es_column_real(run, "n_rounds", 0),
             outcome[0] != '\0' ? outcome : "going on", at);
    json_decref(run);
    return ES_STATUS_OK;
}

static void draw_help(Cursor *cursor) {
    static const char *const lines[] = {
        "q        quit; the run is not touched",
        "left, right   the environment before, after; a: the most accurate",
        "up, down      a round later, earlier; l: the newest, live",
        "r        replay: all rounds from the first, one a second",
        "Seeds    G germinated, T training, B blending, H holding, F fossilized,",
        "         P pruned, E embargoed, R resetting, . empty; then its blueprint",
        "         and its contribution in percent points",
        "More: esper serve RUN shows all panels in the browser; docs/watching.md",
    };
    add_line(cursor, ES_LINE_TITLE, "Help");
    for (size_t i = 0; i < ES_COUNT_OF(lines); i++) {
        add_line(cursor, ES_LINE_PLAIN, "%s", lines[i]);
    }
}

typedef struct Section {
    const char *kinds;
    int column; // 1: right, where there are two
    EsStatus (*draw)(Cursor *cursor);
} Section;

static const Section sections[] = {
    {"grow fit hosts prove", 0, draw_curves},
    {"grow prove", 0, draw_policy},
    {"grow fit hosts prove", 0, draw_time},
    {"grow fit hosts", 0, draw_environments},
    {"fit", 0, draw_rails},
    {"prove", 0, draw_proofs},
    {"prove", 0, draw_proof},
    {"grow fit", 1, draw_lanes},
    {"grow fit", 1, draw_decisions},
    {"grow fit", 1, draw_heads},
    {"grow fit hosts prove", 1, draw_anomalies},
    {"grow fit hosts prove", 1, draw_log},
};

EsStatus es_watch_frame_draw(EsWatchFrame *frame, EsRunView *view, const EsWatchPosition *position,
                             int width, int height) {
    int is_plain = height == 0, n_columns = width >= 120 ? 2 : 1;
    frame->n_lines = frame->is_old = 0;
    Cursor cursor = {.frame = frame,
                     .view = view,
                     .question = {.round = position->round, .env = position->env},
                     .round = position->round,
                     .width = width,
                     .bottom = is_plain ? ES_WATCH_MAX_LINES : height - 1};
    cursor.question.n_points = N_BARS;
    ES_TRY(draw_title(&cursor, position));
    ES_TRY(es_run_view_resolve(view, &cursor.question));
    cursor.width = n_columns == 2 ? width / 2 - 1 : width;
    int top = cursor.y;
    for (size_t i = 0; i < ES_COUNT_OF(sections) && !position->wants_help; i++) {
        if (n_columns == 2 && sections[i].column == 1 && cursor.x == 0) {
            cursor.x = width / 2 + 1;
            cursor.y = top;
        }
        if (strstr(sections[i].kinds, es_run_view_kind(view)) != NULL) {
            ES_TRY(sections[i].draw(&cursor));
        }
    }
    if (position->wants_help) {
        draw_help(&cursor);
    }
    if (!is_plain) {
        int is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        cursor = (Cursor){.frame = frame, .y = height - 1, .width = width, .bottom = height};
        add_line(&cursor, ES_LINE_BAR, " %s", is_utf8 ? keys : ascii_keys);
    }
    return ES_STATUS_OK;
}

void es_watch_frame_mark_old(EsWatchFrame *frame, const char *reason) {
    if (!frame->is_old && frame->n_lines > 0) {
        char raw[2 * ES_LINE_BYTES];
        snprintf(raw, sizeof raw, " not up to date: %.*s %s", ES_LINE_BYTES / 2, reason,
                 frame->lines[0].text);
        set_text(&frame->lines[0], raw);
        frame->is_old = 1;
    }
}
