#include "runs/inspect/run_facts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "base/memory.h"
#include "runs/inspect/run_facts_internal.h"

static const struct {
    const char *name, *unit;
} about[] = {
#define X(NAME, name, unit, floor) {name, unit},
    ES_FACT_LIST(X)
#undef X
};

const char *es_fact_name(EsFact fact) { return about[fact].name; }
const char *es_fact_unit(EsFact fact) { return about[fact].unit; }

EsStatus es_run_facts_keep(EsRunFacts *facts, const char *text, const char **kept) {
    EsRunText *entry = NULL;
    size_t length = strlen(text);
    ES_TRY(es_allocate(sizeof *entry + length + 1, (void **)&entry));
    memcpy(entry->text, text, length + 1);
    entry->next = facts->texts;
    facts->texts = entry;
    *kept = entry->text;
    return ES_STATUS_OK;
}

// --- rows ---

EsStatus es_run_facts_each(EsRunDatabase *database, const char *sql, EsTakeRow take,
                           void *context) {
    EsRunQuery *query = NULL;
    int has_row = 0;
    ES_TRY(es_run_query_begin(database, sql, &query));
    EsStatus status = es_run_query_step(query, &has_row);
    while (status == ES_STATUS_OK && has_row) {
        status = take(context, query);
        if (status == ES_STATUS_OK) {
            status = es_run_query_step(query, &has_row);
        }
    }
    es_run_query_end(query);
    return status;
}

int64_t es_run_facts_event_rows(const EsRunFacts *facts, const char *name) {
    for (int i = 0; i < facts->n_events; i++) {
        if (strcmp(facts->events[i].name, name) == 0) {
            return facts->events[i].n_rows;
        }
    }
    return 0;
}

typedef struct Tables {
    EsRunFacts *facts;
    EsRunDatabase *database;
} Tables;

static EsStatus take_count(void *context, const EsRunQuery *query) {
    *(int64_t *)context = es_run_query_int(query, 0);
    return ES_STATUS_OK;
}

static EsStatus take_table(void *context, const EsRunQuery *query) {
    Tables *tables = context;
    EsRunFacts *facts = tables->facts;
    const char *name = es_run_query_text(query, 0, NULL);
    char sql[256];
    int64_t n_rows = 0;
    if (name == NULL || strlen(name) > 100 || strchr(name, '"') != NULL) {
        return ES_STATUS_OK; // not one of ours
    }
    snprintf(sql, sizeof sql, "SELECT count(*) FROM \"%s\"", name);
    ES_TRY(es_run_facts_each(tables->database, sql, take_count, &n_rows));
    if (n_rows == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_list_grow((void **)&facts->events, facts->n_events, sizeof *facts->events));
    EsRunEventCount *event = &facts->events[facts->n_events];
    event->n_rows = n_rows;
    ES_TRY(es_run_facts_keep(facts, name + strlen("event_"), &event->name));
    facts->n_events++;
    return ES_STATUS_OK;
}

static EsStatus read_events(EsRunFacts *facts, EsRunDatabase *database) {
    Tables tables = {facts, database};
    return es_run_facts_each(database,
                             "SELECT name FROM sqlite_schema WHERE type = 'table' AND "
                             "substr(name, 1, 6) = 'event_' ORDER BY name",
                             take_table, &tables);
}

// --- what the run is ---

typedef struct Summary {
    EsRunFacts *facts;
    int64_t n_envs;
    int64_t n_rounds;
    EsMeasure best;
    EsSamples seconds, steps_per_second, images_per_second; // of rounds
    EsSamples rewards, losses, parameter_ratios;            // of the last episodes
} Summary;

static EsStatus keep_cell(EsRunFacts *facts, const EsRunQuery *query, int column,
                          const char **kept) {
    const char *text = es_run_query_text(query, column, NULL);
    return text != NULL ? es_run_facts_keep(facts, text, kept) : ES_STATUS_OK;
}

static EsStatus take_start(void *context, const EsRunQuery *query) {
    Summary *summary = context;
    EsRunFacts *facts = summary->facts;
    ES_TRY(keep_cell(facts, query, 0, &facts->kind));
    ES_TRY(keep_cell(facts, query, 1, &facts->task));
    ES_TRY(keep_cell(facts, query, 2, &facts->device));
    summary->n_envs = es_run_query_int(query, 3);
    facts->measures[ES_FACT_HOST_PARAMETERS] = es_measure_exact(es_run_query_real(query, 4));
    return ES_STATUS_OK;
}

static EsStatus take_end(void *context, const EsRunQuery *query) {
    Summary *summary = context;
    return keep_cell(summary->facts, query, 0, &summary->facts->outcome);
}

// Mean and deviation over the environments of a round.
static EsMeasure measure_envs(double mean, double deviation, int64_t n_envs) {
    if (!isfinite(mean)) {
        return es_measure_missing();
    }
    if (n_envs < 2 || !isfinite(deviation)) {
        return (EsMeasure){mean, NAN, NAN, 1};
    }
    return (EsMeasure){mean, deviation, 2 * deviation / sqrt((double)n_envs), n_envs};
}

static EsStatus take_round(void *context, const EsRunQuery *query) {
    Summary *summary = context;
    EsMeasure *measures = summary->facts->measures;
    EsMeasure accuracy =
        measure_envs(es_run_query_real(query, 0), es_run_query_real(query, 1), summary->n_envs);
    summary->n_rounds++;
    if (accuracy.n > 0) {
        measures[ES_FACT_FINAL_ACCURACY] = accuracy;
        if (summary->best.n == 0 || accuracy.value > summary->best.value) {
            summary->best = accuracy;
        }
    }
    // means without a spread, for runs that record no episodes
    const struct {
        EsFact fact;
        double value;
    } means[] = {{ES_FACT_FINAL_LOSS, es_run_query_real(query, 2)},
                 {ES_FACT_REWARD, es_run_query_real(query, 3)}};
    for (size_t i = 0; i < ES_COUNT_OF(means); i++) {
        measures[means[i].fact] = isfinite(means[i].value)
                                      ? (EsMeasure){means[i].value, NAN, NAN, 1}
                                      : es_measure_missing();
    }
    ES_TRY(es_samples_add(&summary->seconds, es_run_query_real(query, 4)));
    ES_TRY(es_samples_add(&summary->steps_per_second, es_run_query_real(query, 5)));
    return es_samples_add(&summary->images_per_second, es_run_query_real(query, 6));
}

static EsStatus take_episode(void *context, const EsRunQuery *query) {
    Summary *summary = context;
    ES_TRY(es_samples_add(&summary->losses, es_run_query_real(query, 0)));
    ES_TRY(es_samples_add(&summary->rewards, es_run_query_real(query, 1)));
    return es_samples_add(&summary->parameter_ratios, es_run_query_real(query, 2));
}

static void finish_summary(Summary *summary) {
    EsMeasure *measures = summary->facts->measures;
    measures[ES_FACT_ROUNDS] = es_measure_exact((double)summary->n_rounds);
    measures[ES_FACT_BEST_ACCURACY] = summary->best;
    const struct {
        EsFact fact;
        const EsSamples *samples;
    } episodes[] = {{ES_FACT_FINAL_LOSS, &summary->losses},
                    {ES_FACT_REWARD, &summary->rewards},
                    {ES_FACT_PARAMETER_RATIO, &summary->parameter_ratios}};
    for (size_t i = 0; i < ES_COUNT_OF(episodes); i++) {
        if (episodes[i].samples->n > 0) {
            measures[episodes[i].fact] = es_samples_mean(episodes[i].samples, 0);
        }
    }
    // of n rounds: n times the mean, and sqrt(n) times the deviation
    EsMeasure mean = es_samples_mean(&summary->seconds, 0);
    double n = (double)mean.n;
    measures[ES_FACT_SECONDS] =
        (EsMeasure){n * mean.value, n * mean.noise / 2, n * mean.noise, mean.n};
    measures[ES_FACT_STEPS_PER_SECOND] = es_samples_quantile(&summary->steps_per_second, 0.5);
    measures[ES_FACT_IMAGES_PER_SECOND] = es_samples_quantile(&summary->images_per_second, 0.5);
    measures[ES_FACT_ANOMALIES] =
        es_measure_exact((double)es_run_facts_event_rows(summary->facts, "anomaly_detected"));
}

static EsStatus read_summary(EsRunFacts *facts, EsRunDatabase *database) {
    Summary summary = {.facts = facts, .best = es_measure_missing()};
    const struct {
        const char *event, *sql;
        EsTakeRow take;
    } queries[] = {
        {"run_started",
         "SELECT kind, task, device, n_envs, n_host_parameters FROM event_run_started "
         "ORDER BY rowid LIMIT 1",
         take_start},
        {"run_ended", "SELECT outcome FROM event_run_ended ORDER BY rowid DESC LIMIT 1", take_end},
        {"round_completed",
         "SELECT accuracy, accuracy_std, loss, reward, seconds, steps_per_second, "
         "images_per_second FROM event_round_completed ORDER BY round, rowid",
         take_round},
        {"episode_outcome",
         "SELECT final_loss, reward, parameter_ratio FROM event_episode_outcome "
         "WHERE arm IS NULL AND round = (SELECT max(round) FROM event_episode_outcome "
         "WHERE arm IS NULL) ORDER BY env",
         take_episode},
    };
    EsStatus status = ES_STATUS_OK;
    for (size_t i = 0; i < ES_COUNT_OF(queries) && status == ES_STATUS_OK; i++) {
        if (es_run_facts_event_rows(facts, queries[i].event) > 0) {
            status = es_run_facts_each(database, queries[i].sql, queries[i].take, &summary);
        }
    }
    if (status == ES_STATUS_OK) {
        finish_summary(&summary);
    }
    es_samples_destroy(&summary.seconds);
    es_samples_destroy(&summary.steps_per_second);
    es_samples_destroy(&summary.images_per_second);
    es_samples_destroy(&summary.rewards);
    es_samples_destroy(&summary.losses);
    es_samples_destroy(&summary.parameter_ratios);
    return status;
}

// --- the whole ---

// Messages for what users do wrong, before SQLite and the parser say it in their words.
static EsStatus check_folder(const char *path) {
    struct stat info;
    char inside[4096];
    if (stat(path, &info) != 0) {
        int reason = errno;
        snprintf(inside, sizeof inside, "runs/%s", path);
        const char *hint = path[0] != '/' && stat(inside, &info) == 0 ? inside : NULL;
        return hint != NULL ? ES_FAIL(INPUT, "no such run: %s; did you mean %s?", path, hint)
                            : ES_FAIL(INPUT, "no such run: %s: %s", path, strerror(reason));
    }
    if (!S_ISDIR(info.st_mode)) {
        return ES_FAIL(INPUT, "%s is not a run folder: it is a file", path);
    }
    int length = snprintf(inside, sizeof inside, "%s/config.ini", path);
    if (length >= (int)sizeof inside) {
        return ES_FAIL(INPUT, "the path of the run is too long: %.60s...", path);
    }
    if (stat(inside, &info) != 0) {
        return ES_FAIL(INPUT, "%s is not a run folder: there is no config.ini in it", path);
    }
    snprintf(inside, sizeof inside, "%s/run.db", path);
    if (stat(inside, &info) != 0) {
        return ES_FAIL(INPUT,
                       "%s has no run.db: the run was made without a database, with "
                       "--telemetry.sqlite=off or by a build without SQLite",
                       path);
    }
    return ES_STATUS_OK;
}

EsStatus es_run_facts_read(const char *path, EsRunFacts **facts) {
    EsRunDatabase *database = NULL;
    EsRunFacts *read = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(check_folder(path));
    ES_TRY(es_allocate(sizeof *read, (void **)&read));
    read->kind = read->task = read->device = "?";
    read->outcome = "unfinished";
    for (int i = 0; i < ES_FACT_COUNT; i++) {
        read->measures[i] = es_measure_missing();
    }
    ES_TRY_GOTO(es_run_facts_keep(read, path, &read->path));
    ES_TRY_GOTO(es_run_facts_read_settings(read));
    ES_TRY_GOTO(es_run_database_open(path, &database));
    ES_TRY_GOTO(read_events(read, database));
    ES_TRY_GOTO(read_summary(read, database));
    ES_TRY_GOTO(es_run_facts_read_metrics(read, database));
    ES_TRY_GOTO(es_run_facts_read_latencies(read, database));
    *facts = read;
    read = NULL;
done:
    es_run_database_close(database);
    es_run_facts_destroy(read);
    return status;
}

void es_run_facts_destroy(EsRunFacts *facts) {
    if (facts == NULL) {
        return;
    }
    while (facts->texts != NULL) {
        EsRunText *next = facts->texts->next;
        es_release(facts->texts);
        facts->texts = next;
    }
    es_release(facts->settings);
    es_release(facts->metrics);
    es_release(facts->latencies);
    es_release(facts->events);
    es_release(facts);
}
