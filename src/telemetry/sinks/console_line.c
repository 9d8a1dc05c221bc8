// Lines for a person, whose fields are given up in a fixed order until the line fits.
#include "telemetry/sinks/console_line.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

EsConsoleProgress es_console_progress(int64_t round, int64_t n_rounds) {
    double missing = es_missing_real();
    return (EsConsoleProgress){.unit = "round",
                               .round = round,
                               .n_rounds = n_rounds,
                               .percent = missing,
                               .n_steps_done = ES_MISSING_INT,
                               .rate = missing,
                               .rate_unit = "steps/s",
                               .accuracy = missing,
                               .measured = "validation",
                               .best = missing,
                               .n_parameters = ES_MISSING_INT,
                               .mrr = missing,
                               .reward = missing,
                               .entropy = missing,
                               .kl_divergence = missing,
                               .n_seeds = ES_MISSING_INT,
                               .seconds_left = missing};
}

// --- numbers ---

// 1,234,567
static void add_grouped(EsText *text, int64_t value) {
    EsText digits = {0};
    es_text_add_int(&digits, value);
    for (size_t i = 0; i < digits.length; i++) {
        size_t n_left = digits.length - i;
        if (i > 0 && n_left % 3 == 0 && digits.bytes[i - 1] != '-') {
            es_text_add(text, ",", 1);
        }
        es_text_add(text, digits.bytes + i, 1);
    }
    es_text_destroy(&digits);
}

// Add the name of a number that is not finite; 0 when it is.
static int add_not_finite(EsText *text, double value) {
    if (isfinite(value)) {
        return 0;
    }
    es_text_add_string(text, isnan(value) ? "NaN" : value > 0 ? "infinite" : "-infinite");
    return 1;
}

static void add_rate(EsText *text, double value) {
    if (add_not_finite(text, value)) {
        return;
    }
    if (fabs(value) >= 99.95 && fabs(value) < 1e15) {
        add_grouped(text, llround(value));
    } else if (fabs(value) >= 0.05 && fabs(value) < 1e15) {
        es_text_add_fixed(text, value, 1);
    } else {
        es_text_add_rounded(text, value, 2);
    }
}

static void add_percent(EsText *text, double value) {
    if (!add_not_finite(text, value)) {
        if (fabs(value) < 1e6) {
            es_text_add_fixed(text, value, 1);
        } else {
            es_text_add_rounded(text, value, 4);
        }
        es_text_add_string(text, " %");
    }
}

static void add_reward(EsText *text, double value) {
    if (add_not_finite(text, value)) {
        return;
    }
    if (fabs(value) < 1e6) {
        es_text_add_fixed(text, fabs(value) < 0.005 ? 0 : value, 2); // no -0.00
    } else {
        es_text_add_rounded(text, value, 4);
    }
}

static void add_small(EsText *text, double value, int digits) {
    if (!add_not_finite(text, value)) {
        es_text_add_rounded(text, value, digits);
    }
}

void es_console_add_duration(EsText *text, double seconds) {
    ES_ASSERT(seconds >= 0 && isfinite(seconds));
    int64_t whole = llround(ES_MIN(seconds, 1e9)), days = whole / 86400;
    int hours = (int)(whole / 3600 % 24), minutes = (int)(whole / 60 % 60);
    char words[64];
    if (days > 0) {
        snprintf(words, sizeof words, "%lld d %02d h", (long long)days, hours);
    } else if (hours > 0) {
        snprintf(words, sizeof words, "%d h %02d min", hours, minutes);
    } else if (minutes > 0) {
        snprintf(words, sizeof words, "%d min %02d s", minutes, (int)(whole % 60));
    } else {
        snprintf(words, sizeof words, "%d s", (int)whole);
    }
    es_text_add_string(text, words);
}

// --- progress ---

// The fields of a line, the one to give up first when there is no room for all.
typedef enum Field {
    FIELD_SEEDS,
    FIELD_KL,
    FIELD_ENTROPY,
    FIELD_REWARD,
    FIELD_STEP,
    FIELD_RATE,
    FIELD_MRR,
    FIELD_PARAMETERS,
    FIELD_ACCURACY,
    FIELD_BEST,
    FIELD_TRAINED,
    FIELD_LEFT
} Field;
#define N_FIELDS 12

static int is_known(const EsConsoleProgress *progress, Field field) {
    switch (field) {
    case FIELD_SEEDS:
        return progress->n_seeds != ES_MISSING_INT;
    case FIELD_KL:
        return !es_is_missing_real(progress->kl_divergence);
    case FIELD_ENTROPY:
        return !es_is_missing_real(progress->entropy);
    case FIELD_REWARD:
        return !es_is_missing_real(progress->reward);
    case FIELD_STEP:
        return progress->n_steps_done != ES_MISSING_INT;
    case FIELD_RATE:
        return !es_is_missing_real(progress->rate);
    case FIELD_MRR:
        return !es_is_missing_real(progress->mrr);
    case FIELD_PARAMETERS:
        return progress->n_parameters != ES_MISSING_INT;
    case FIELD_ACCURACY:
        return !es_is_missing_real(progress->accuracy);
    case FIELD_BEST:
        return !es_is_missing_real(progress->best);
    case FIELD_TRAINED:
        return isfinite(progress->percent);
    case FIELD_LEFT:
        return isfinite(progress->seconds_left) && progress->seconds_left >= 0;
    }
    return 0;
}

static void add_field(EsText *text, const EsConsoleProgress *progress, Field field) {
    switch (field) {
    case FIELD_SEEDS:
        es_text_add_string(text, "  seeds ");
        add_grouped(text, progress->n_seeds);
        break;
    case FIELD_KL:
        es_text_add_string(text, "  KL ");
        add_small(text, progress->kl_divergence, 3);
        break;
    case FIELD_ENTROPY:
        es_text_add_string(text, "  entropy ");
        add_small(text, progress->entropy, 2);
        break;
    case FIELD_REWARD:
        es_text_add_string(text, "  reward ");
        add_reward(text, progress->reward);
        break;
    case FIELD_STEP:
        es_text_add_string(text, "  step ");
        es_text_add_int(text, progress->n_steps_done);
        break;
    case FIELD_RATE:
        es_text_add_string(text, "  ");
        add_rate(text, progress->rate);
        es_text_add_string(text, " ");
        es_text_add_string(text, progress->rate_unit);
        break;
    case FIELD_ACCURACY:
        es_text_add_string(text, "  ");
        es_text_add_string(text, progress->measured);
        es_text_add_string(text, " ");
        add_percent(text, progress->accuracy);
        break;
    case FIELD_BEST:
        es_text_add_string(text, "  best ");
        add_percent(text, progress->best);
        break;
    case FIELD_PARAMETERS:
        es_text_add_string(text, "  ");
        add_grouped(text, progress->n_parameters);
        es_text_add_string(text, " parameters");
        break;
    case FIELD_MRR:
        es_text_add_string(text, "  MRR ");
        add_small(text, progress->mrr, 3);
        break;
    case FIELD_TRAINED:
        es_text_add_string(text, "  trained ");
        es_text_add_int(text, (int64_t)ES_MIN(ES_MAX(progress->percent, 0), 100));
        es_text_add_string(text, " %");
        break;
    case FIELD_LEFT:
        es_text_add_string(text, "  left ");
        es_console_add_duration(text, progress->seconds_left);
        break;
    }
}

static void add_round(EsText *text, const EsConsoleProgress *progress) {
    es_text_add_string(text, progress->unit);
    es_text_add_string(text, " ");
    es_text_add_int(text, progress->round);
    if (progress->n_rounds > 0) {
        es_text_add_string(text, "/");
        es_text_add_int(text, progress->n_rounds);
    }
}

void es_console_add_progress(EsText *text, const EsConsoleProgress *progress, size_t max_columns) {
    static const Field order[N_FIELDS] = {
        FIELD_TRAINED, FIELD_STEP,   FIELD_RATE,    FIELD_ACCURACY, FIELD_BEST,  FIELD_PARAMETERS,
        FIELD_MRR,     FIELD_REWARD, FIELD_ENTROPY, FIELD_KL,       FIELD_SEEDS, FIELD_LEFT};
    size_t begin = text->length;
    for (int n_given_up = 0; n_given_up <= N_FIELDS; n_given_up++) {
        text->length = begin;
        add_round(text, progress);
        for (int i = 0; i < N_FIELDS; i++) {
            if ((int)order[i] >= n_given_up && is_known(progress, order[i])) {
                add_field(text, progress, order[i]);
            }
        }
        // all fields are ASCII: a byte is a column
        if (text->length - begin <= max_columns) {
            return;
        }
    }
    text->length = begin + max_columns;
}

// --- warnings ---

// A text cell, or `otherwise` when it is missing or empty.
static void add_text_cell(EsText *text, const EsPacket *packet, int64_t row, const char *column,
                          const char *otherwise) {
    size_t bytes = 0;
    const char *cell = es_packet_text(packet, row, es_event_column(packet->type, column), &bytes);
    if (cell == NULL || bytes == 0) {
        cell = otherwise;
        bytes = strlen(otherwise);
    }
    es_text_add_utf8(text, cell, bytes, ES_TEXT_TERMINAL);
}

static void add_measured(EsText *text, double value, int is_share) {
    if (!add_not_finite(text, value)) {
        es_text_add_rounded(text, is_share ? 100 * value : value, is_share ? 3 : 4);
        es_text_add_string(text, is_share ? " %" : "");
    }
}

// ": 12.5 against a threshold of 10", as far as it is known; shares of 1 as percent.
static void add_comparison(EsText *text, const char *what, double value, double threshold,
                           int is_share) {
    int has_value = !es_is_missing_real(value);
    if (has_value) {
        es_text_add_string(text, ": ");
        es_text_add_string(text, what);
        add_measured(text, value, is_share);
    }
    if (!es_is_missing_real(threshold)) {
        es_text_add_string(text, has_value ? " against a threshold of " : ": threshold ");
        add_measured(text, threshold, is_share);
    }
}

static void add_place(EsText *text, const EsPacket *packet, int64_t row) {
    es_text_add_string(text, " in round ");
    es_text_add_int(text, packet->header->round);
    int64_t env = es_packet_int(packet, row, es_event_column(packet->type, "env"));
    if (env != ES_MISSING_INT) {
        es_text_add_string(text, ", environment ");
        es_text_add_int(text, env);
    }
}

static double real_cell(const EsPacket *packet, int64_t row, const char *column) {
    return es_packet_real(packet, row, es_event_column(packet->type, column));
}

// Rules whose numbers are shares of 1.
static int is_share(const EsPacket *packet, int64_t row) {
    static const char *const rules[] = {"performance_degradation", "memory_warning"};
    size_t bytes = 0;
    const char *rule = es_packet_text(packet, row, es_event_column(packet->type, "rule"), &bytes);
    for (size_t i = 0; i < ES_COUNT_OF(rules) && rule != NULL; i++) {
        if (strlen(rules[i]) == bytes && memcmp(rules[i], rule, bytes) == 0) {
            return 1;
        }
    }
    return 0;
}

void es_console_add_anomaly(EsText *text, const EsPacket *packet, int64_t row) {
    add_text_cell(text, packet, row, "severity", "warning");
    es_text_add_string(text, ": ");
    add_text_cell(text, packet, row, "rule", "anomaly");
    add_place(text, packet, row);
    size_t before = text->length;
    es_text_add_string(text, ": ");
    size_t detail = text->length;
    add_text_cell(text, packet, row, "detail", "");
    // a detail says the numbers in words
    if (text->length == detail) {
        text->length = before;
        add_comparison(text, "", real_cell(packet, row, "value"),
                       real_cell(packet, row, "threshold"), is_share(packet, row));
    }
}

void es_console_add_rollback(EsText *text, const EsPacket *packet, int64_t row) {
    es_text_add_string(text, "rollback: ");
    add_text_cell(text, packet, row, "reason", "unknown reason");
    add_place(text, packet, row);
    add_comparison(text, "loss ", real_cell(packet, row, "loss"),
                   real_cell(packet, row, "threshold"), 0);
}

void es_console_add_trainer_event(EsText *text, const EsPacket *packet, int64_t row) {
    add_text_cell(text, packet, row, "level", "info");
    es_text_add_string(text, ": ");
    add_text_cell(text, packet, row, "name", "trainer event");
    es_text_add_string(text, " ");
    add_text_cell(text, packet, row, "attributes", "");
}

void es_console_add_seed(EsText *text, const EsPacket *packet, int64_t row) {
    es_text_add_string(text, "candidate ");
    es_text_add_int(text, es_packet_int(packet, row, es_event_column(packet->type, "env")));
    es_text_add_string(text, ": ");
    add_text_cell(text, packet, row, "blueprint", "seed");
    es_text_add_string(text, packet->type == ES_EVENT_SEED_GERMINATED   ? " germinated in "
                             : packet->type == ES_EVENT_SEED_FOSSILIZED ? " fossilised in "
                                                                        : " pruned in ");
    add_text_cell(text, packet, row, "slot", "?");
    if (packet->type == ES_EVENT_SEED_PRUNED) {
        es_text_add_string(text, ": ");
        add_text_cell(text, packet, row, "reason", "unknown reason");
    } else {
        es_text_add_string(text, ", ");
        add_grouped(text,
                    es_packet_int(packet, row, es_event_column(packet->type, "n_parameters")));
        es_text_add_string(text, " parameters");
    }
}

void es_console_add_evaluation(EsText *text, const EsPacket *packet, size_t max_columns) {
    int64_t n_done = es_packet_int(packet, 0, es_event_column(packet->type, "n_done"));
    int64_t n_all = es_packet_int(packet, 0, es_event_column(packet->type, "n_episodes"));
    double seconds = real_cell(packet, 0, "seconds");
    double left = n_done > 0 ? seconds * (double)(n_all - n_done) / (double)n_done : -1;
    int has_left = n_done < n_all && left >= 0 && isfinite(left);
    size_t begin = text->length;
    // first without the policy's name, then without the time
    for (int n_given_up = 0; n_given_up <= 2; n_given_up++) {
        text->length = begin;
        es_text_add_string(text, "comparing policies: ");
        add_grouped(text, n_done);
        es_text_add_string(text, " of ");
        add_grouped(text, n_all);
        es_text_add_string(text, " episodes");
        if (n_given_up < 1) {
            es_text_add_string(text, ", the last by ");
            add_text_cell(text, packet, 0, "arm", "?");
        }
        if (n_given_up < 2 && has_left) {
            es_text_add_string(text, "  left ");
            es_console_add_duration(text, left);
        }
        if (es_text_width(text->bytes + begin, text->length - begin) <= max_columns) {
            return;
        }
    }
    text->length = begin + es_text_fit(text->bytes + begin, text->length - begin, max_columns);
}
