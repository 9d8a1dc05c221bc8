// The list of summaries, and the SQL that makes and reads them.
#include "telemetry/sinks/sqlite_views.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

// --- the list ---

static const char *const round_columns[] = {
    "accuracy",         "accuracy_std",      "rolling_accuracy", "reward",   "loss",
    "n_seeds",          "n_fossils",         "n_steps",          "n_images", "seconds",
    "steps_per_second", "images_per_second", "utilisation"};
static const char *const update_columns[] = {
    "policy_loss",   "value_loss",    "entropy",    "kl_divergence",
    "clip_fraction", "gradient_norm", "ratio_min",  "ratio_max",
    "learning_rate", "n_nonfinite",   "is_skipped", "explained_variance"};
static const char *const proof_columns[] = {"positives_proved", "negatives_proved", "depth",
                                            "successors",       "n_positives",      "n_negatives",
                                            "n_truncated"};
static const char *const episode_columns[] = {"final_accuracy", "final_loss", "parameter_ratio",
                                              "n_fossils",      "reward",     "n_steps",
                                              "n_germinated",   "n_pruned",   "n_rollbacks"};
static const char *const decision_columns[] = {"is_forced", "is_success"};

#define COLUMNS(list) .columns = (list), .n_columns = ES_COUNT_OF(list)

static const EsSummary summaries[] = {
    {.type = ES_EVENT_ROUND_COMPLETED, .help = "all rows", COLUMNS(round_columns)},
    {.type = ES_EVENT_UPDATE_COMPLETED, .help = "all rows", COLUMNS(update_columns)},
    {.type = ES_EVENT_PROOF_ROUND, .help = "all rows", COLUMNS(proof_columns)},
    {.type = ES_EVENT_EPISODE_OUTCOME,
     .help = "episodes of training, no held-out ones",
     .where = "arm IS NULL",
     .has_level_1 = 1,
     COLUMNS(episode_columns)},
    {.type = ES_EVENT_DECISION_TAKEN,
     .help = "decisions on the stride, where waiting is recorded, too",
     .key = "op",
     .is_on_stride = 1,
     .has_level_1 = 1,
     COLUMNS(decision_columns)},
};

int es_summary_count(void) { return (int)ES_COUNT_OF(summaries); }

const EsSummary *es_summary(int index) {
    ES_ASSERT(index >= 0 && index < es_summary_count());
    return &summaries[index];
}

static const char *name_of(const EsSummary *summary) {
    return es_event_schema(summary->type)->name;
}

const EsSummary *es_summary_find(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(summaries); i++) {
        if (strcmp(name_of(&summaries[i]), name) == 0) {
            return &summaries[i];
        }
    }
    return NULL;
}

const EsSummary *es_summary_of(EsEventType type) {
    for (size_t i = 0; i < ES_COUNT_OF(summaries); i++) {
        if (summaries[i].type == type) {
            return &summaries[i];
        }
    }
    return NULL;
}

// --- statements ---

static void add(EsText *sql, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(EsText *sql, const char *format, ...) {
    char piece[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    ES_ASSERT(length >= 0 && length < (int)sizeof piece);
    es_text_add_string(sql, piece);
}

void es_summary_add_table(EsText *sql, const EsSummary *summary) {
    add(sql, "CREATE TABLE IF NOT EXISTS summary_%s (level INTEGER, first INTEGER, last INTEGER",
        name_of(summary));
    if (summary->key != NULL) {
        add(sql, ", %s TEXT", summary->key);
    }
    add(sql, ", n_rows INTEGER");
    for (int i = 0; i < summary->n_columns; i++) {
        const char *column = summary->columns[i];
        add(sql, ", %s_n INTEGER, %s_sum, %s_min, %s_max", column, column, column, column);
    }
    add(sql, ", PRIMARY KEY (level, first%s%s)) WITHOUT ROWID;\n", summary->key != NULL ? ", " : "",
        summary->key != NULL ? summary->key : "");
}

// The last round that a level has; its buckets are in the order of their rounds.
static void add_end(EsText *sql, const EsSummary *summary, int level) {
    add(sql,
        "coalesce((SELECT last FROM summary_%s WHERE level = %d ORDER BY first DESC LIMIT 1), 0)",
        name_of(summary), level);
}

// A condition on the round of a row: after the end of a level, and up to `last` if there is one.
static void add_range(EsText *sql, const EsSummary *summary, int level, const char *last) {
    add(sql, "round > ");
    add_end(sql, summary, level);
    if (last != NULL) {
        add(sql, " AND round <= %s", last);
    }
}

// "FROM event_x WHERE": the rows after the end of a level that are summed.
static void add_source(EsText *sql, const EsSummary *summary, int level, const char *last) {
    add(sql, " FROM event_%s WHERE ", name_of(summary));
    add_range(sql, summary, level, last);
    if (summary->where != NULL) {
        add(sql, " AND %s", summary->where);
    }
    if (summary->is_on_stride) {
        // +: by the index on rounds the statement is to find rows, and only then their steps
        add(sql, " AND (+round, step) IN (SELECT round, step FROM event_env_stepped WHERE ");
        add_range(sql, summary, level, last);
        add(sql, ")");
    }
}

static void add_build_from_rows(EsText *sql, const EsSummary *summary, int level) {
    char last[40];
    snprintf(last, sizeof last, "?1 / %d * %d", level, level);
    add(sql, "SELECT %d, (round - 1) / %d * %d + 1, (round - 1) / %d * %d + %d", level, level,
        level, level, level, level);
    if (summary->key != NULL) {
        add(sql, ", coalesce(%s, '')", summary->key);
    }
    add(sql, ", count(*)");
    for (int i = 0; i < summary->n_columns; i++) {
        const char *column = summary->columns[i];
        add(sql, ", count(%s), sum(%s), min(%s), max(%s)", column, column, column, column);
    }
    add_source(sql, summary, level, last);
    add(sql, " GROUP BY 2");
}

static void add_build_from_level_1(EsText *sql, const EsSummary *summary, int level) {
    add(sql, "SELECT %d, (first - 1) / %d * %d + 1, (first - 1) / %d * %d + %d", level, level,
        level, level, level, level);
    if (summary->key != NULL) {
        add(sql, ", %s", summary->key);
    }
    add(sql, ", sum(n_rows)");
    for (int i = 0; i < summary->n_columns; i++) {
        const char *column = summary->columns[i];
        add(sql, ", sum(%s_n), sum(%s_sum), min(%s_min), max(%s_max)", column, column, column,
            column);
    }
    add(sql, " FROM summary_%s WHERE level = 1 AND first > ", name_of(summary));
    add_end(sql, summary, level);
    add(sql, " AND last <= ?1 / %d * %d GROUP BY 2", level, level);
}

void es_summary_add_build(EsText *sql, const EsSummary *summary, int level) {
    add(sql, "INSERT INTO summary_%s ", name_of(summary));
    if (level > 1 && summary->has_level_1) {
        add_build_from_level_1(sql, summary, level);
    } else {
        add_build_from_rows(sql, summary, level);
    }
    add(sql, summary->key != NULL ? ", 4" : ""); // the key
}

// Buckets of a level whose first round is after the end of another, 0: all.
static void add_buckets(EsText *sql, const EsSummary *summary, int level, int after) {
    add(sql, "SELECT first, last");
    if (summary->key != NULL) {
        add(sql, ", %s", summary->key);
    }
    add(sql, ", n_rows");
    for (int i = 0; i < summary->n_columns; i++) {
        const char *column = summary->columns[i];
        add(sql, ", %s_n, %s_sum, %s_min, %s_max", column, column, column, column);
    }
    add(sql, " FROM summary_%s WHERE level = %d", name_of(summary), level);
    if (after != 0) {
        add(sql, " AND first > ");
        add_end(sql, summary, after);
    }
    add(sql, " UNION ALL ");
}

void es_summary_add_rows(EsText *sql, const EsSummary *summary, int level) {
    add_buckets(sql, summary, level, 0);
    if (level > 1 && summary->has_level_1) {
        add_buckets(sql, summary, 1, level);
    }
    add(sql, "SELECT round, round");
    if (summary->key != NULL) {
        add(sql, ", coalesce(%s, '')", summary->key);
    }
    add(sql, ", 1");
    for (int i = 0; i < summary->n_columns; i++) {
        const char *column = summary->columns[i];
        add(sql, ", %s IS NOT NULL, %s, %s, %s", column, column, column, column);
    }
    add_source(sql, summary, summary->has_level_1 ? 1 : level, NULL);
}
