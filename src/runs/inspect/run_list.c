// Looking at runs from outside: the contents of a folder, and the progress of each run.
#include <errno.h>
#include <ini.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/memory.h"
#include "runs/round_folder.h"
#include "runs/run_folder.h"
#include "telemetry/sinks/run_database.h"

// far more than any configuration has
#define MAX_CONFIG_BYTES ((size_t)1 << 20)

// more than that of the largest network
#define MAX_NETWORK_BYTES ((size_t)4 << 20)

static int is_at(char path[ES_RUN_PATH_BYTES], const char *root, const char *name) {
    int length = snprintf(path, ES_RUN_PATH_BYTES, "%s/%s", root, name);
    return length > 0 && length < ES_RUN_PATH_BYTES - ES_FILE_NAME_BYTES;
}

// --- one run ---

static int take_setting(void *context, const char *section, const char *name, const char *value) {
    EsRunSummary *summary = context;
    if (!summary->is_marked && strcmp(section, "run") == 0 && strcmp(name, "kind") == 0 &&
        es_run_kind_is_valid(value)) {
        strcpy(summary->kind, value);
    }
    size_t length = strlen(value);
    if (strcmp(section, "run") == 0 && strcmp(name, "rounds") == 0 && length > 0 && length < 12 &&
        strspn(value, "0123456789") == length) {
        summary->n_rounds = strtoll(value, NULL, 10);
    }
    return 1;
}

static EsStatus read_config(EsRunSummary *summary) {
    char path[ES_RUN_PATH_BYTES];
    void *text = NULL;
    size_t bytes = 0;
    summary->n_rounds = -1;
    if (es_run_has_config(summary->path) && is_at(path, summary->path, "config.ini")) {
        EsStatus status = es_file_read_all(path, MAX_CONFIG_BYTES, &text, &bytes);
        // inih's -2 is lack of memory
        if (status == ES_STATUS_OK && ini_parse_string(text, take_setting, summary) == -2) {
            status = ES_FAIL(MEMORY, "not enough memory to parse %s", path);
        }
        es_release(text);
        if (status == ES_STATUS_MEMORY) {
            return status;
        }
    }
    return ES_STATUS_OK;
}

// A folder is a run when it has a marker, or, from before there were markers, a config.ini that
// names a kind of run.
static EsStatus recognise(EsRunSummary *summary) {
    EsStatus status = es_run_marker_read(summary->path, summary->kind);
    if (status != ES_STATUS_OK && status != ES_STATUS_INPUT) {
        return status;
    }
    summary->is_marked = summary->kind[0] != '\0';
    ES_TRY(read_config(summary));
    if (summary->kind[0] != '\0') {
        return ES_STATUS_OK;
    }
    return ES_FAIL(INPUT, "%s is not a run folder (%s)", summary->path,
                   es_run_has_config(summary->path) ? "its config.ini does not name a kind of run"
                                                    : "config.ini is missing");
}

// Sizes and the newest change; files that every visit touches do not count.
static EsStatus measure_run(const char *root, EsRunSummary *summary) {
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    ES_TRY(es_folder_list(root, &entries, &n_entries));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_entries && status == ES_STATUS_OK; i++) {
        const EsFolderEntry *entry = &entries[i];
        EsFolderSize size = {1, entry->bytes, entry->changed_unix_s};
        char path[ES_RUN_PATH_BYTES];
        if (entry->kind == ES_FOLDER_ENTRY_OTHER || !is_at(path, root, entry->name)) {
            continue;
        }
        if (entry->kind == ES_FOLDER_ENTRY_FOLDER) {
            status = es_folder_measure(path, &size);
        }
        summary->bytes += size.bytes;
        if (strcmp(entry->name, "checkpoints") == 0) {
            summary->checkpoint_bytes = size.bytes;
        }
        if (strcmp(entry->name, ES_RUN_LOCK_NAME) != 0 && strcmp(entry->name, "run.db-shm") != 0) {
            summary->changed_unix_s = ES_MAX(summary->changed_unix_s, size.changed_unix_s);
        }
    }
    es_release(entries);
    return status;
}

EsStatus es_run_summarise(const char *path, EsRunSummary *summary) {
    memset(summary, 0, sizeof *summary);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    if (length + 2 * ES_FILE_NAME_BYTES > sizeof summary->path) {
        return ES_FAIL(ARGUMENT, "the path %.100s... is too long for a run", path);
    }
    memcpy(summary->path, path, length);
    struct stat info;
    if (stat(summary->path, &info) != 0) {
        return ES_FAIL(INPUT, "there is no run %s: %s", summary->path, strerror(errno));
    }
    ES_TRY(recognise(summary));
    ES_TRY(measure_run(summary->path, summary));
    EsCheckpointInfo *infos = NULL;
    ES_TRY(es_round_folder_list(summary->path, &infos, &summary->n_checkpoints));
    summary->last_round = summary->n_checkpoints > 0 ? infos[summary->n_checkpoints - 1].round : -1;
    es_release(infos);
    summary->is_active = es_run_lock_is_held(summary->path);
    return ES_STATUS_OK;
}

// --- results ---

// Number of a query's first row by column; NaN without a row, or where its tables or columns are
// not there, as in runs of other schemas.
static EsStatus ask(EsRunDatabase *database, const char *sql, int n_columns, double *numbers) {
    EsRunQuery *query = NULL;
    int has_row = 0;
    EsStatus status = es_run_query_begin(database, sql, &query);
    if (status == ES_STATUS_OK) {
        status = es_run_query_step(query, &has_row);
    }
    for (int i = 0; i < n_columns; i++) {
        numbers[i] = status == ES_STATUS_OK && has_row ? es_run_query_real(query, i) : (double)NAN;
    }
    es_run_query_end(query);
    return status == ES_STATUS_MEMORY ? status : ES_STATUS_OK;
}

static EsStatus read_outcome(EsRunDatabase *database, EsRunOutcomeName name) {
    // a session begins with one of the first two
    static const char sql[] =
        "SELECT outcome, unix_time >= max((SELECT coalesce(max(unix_time), 0) FROM "
        "event_run_started), (SELECT coalesce(max(unix_time), 0) FROM event_checkpoint_loaded)) "
        "FROM event_run_ended UNION ALL SELECT NULL, 0 FROM event_run_started "
        "ORDER BY 2 DESC LIMIT 1";
    EsRunQuery *query = NULL;
    int has_row = 0;
    EsStatus status = es_run_query_begin(database, sql, &query);
    if (status == ES_STATUS_OK) {
        status = es_run_query_step(query, &has_row);
    }
    if (status == ES_STATUS_OK && has_row) {
        const char *outcome = es_run_query_text(query, 0, NULL);
        int is_of_last = es_run_query_int(query, 1) != 0;
        size_t n_letters =
            outcome != NULL ? strspn(outcome, "abcdefghijklmnopqrstuvwxyz") : SIZE_MAX;
        if (!is_of_last) {
            strcpy(name, "killed");
        } else if (n_letters < sizeof(EsRunOutcomeName) && outcome[n_letters] == '\0') {
            strcpy(name, outcome);
        }
    }
    es_run_query_end(query);
    return status == ES_STATUS_MEMORY ? status : ES_STATUS_OK;
}

// Sessions that were killed before the last one have left no time.
static EsStatus read_seconds(EsRunDatabase *database, EsRunResults *results) {
    double times[3], last_round = NAN;
    ES_TRY(ask(database,
               "SELECT (SELECT sum(seconds) FROM event_run_ended), "
               "(SELECT max(unix_time) FROM event_run_started), "
               "(SELECT max(unix_time) FROM event_run_ended)",
               3, times));
    ES_TRY(ask(database, "SELECT unix_time FROM event_round_completed ORDER BY rowid DESC LIMIT 1",
               1, &last_round));
    results->seconds = times[0];
    int has_end = isfinite(times[2]) && times[2] >= times[1];
    if (!has_end && isfinite(times[1]) && last_round > times[1]) {
        results->seconds = last_round - times[1] + (isfinite(times[0]) ? times[0] : 0);
    }
    return ES_STATUS_OK;
}

// The value of a metric that is emitted at the end of a run: among the last rows alone, and of the
// newest round, since a run may go on for longer.
#define LAST_METRIC(name)                                                                          \
    "SELECT value FROM (SELECT name, value, round FROM event_metric "                              \
    "ORDER BY rowid DESC LIMIT 4096) WHERE name = '" name "' AND round >= "                        \
    "(SELECT coalesce(max(round), 0) FROM event_round_completed) LIMIT 1"

#define NEWEST_OUTCOME "(SELECT round FROM event_episode_outcome ORDER BY rowid DESC LIMIT 1)"

// The held-out episodes of the first policy, which is the run's own; before there are any, the size
// of the last hosts in training. Hosts of drawn tasks have no size in common.
static EsStatus read_grown(EsRunDatabase *database, double n_host_parameters,
                           EsRunResults *results) {
    double means[2], n_tasks;
    ES_TRY(ask(database,
               "SELECT count(task) FROM event_episode_outcome WHERE round = " NEWEST_OUTCOME, 1,
               &n_tasks)); // earlier schemas have no such column, nor tasks
    ES_TRY(ask(database,
               "SELECT avg(test_accuracy), avg(parameter_ratio) FROM event_episode_outcome "
               "WHERE round = " NEWEST_OUTCOME " AND arm IS (SELECT arm FROM event_episode_outcome "
               "WHERE round = " NEWEST_OUTCOME " ORDER BY rowid LIMIT 1)",
               2, means));
    results->test_accuracy = means[0];
    results->parameters = n_tasks > 0 ? (double)NAN : means[1] * n_host_parameters;
    return ES_STATUS_OK;
}

// The file of the network that a fit keeps, which is there in every version.
static EsStatus read_network(const EsRunSummary *summary, EsRunResults *results) {
    char path[ES_RUN_PATH_BYTES];
    void *text = NULL;
    size_t bytes = 0;
    struct stat info;
    if (!is_at(path, summary->path, "networks/1/network.json") || stat(path, &info) != 0 ||
        !S_ISREG(info.st_mode)) {
        return ES_STATUS_OK;
    }
    EsStatus status = es_file_read_all(path, MAX_NETWORK_BYTES, &text, &bytes);
    json_t *root = status == ES_STATUS_OK ? json_loadb(text, bytes, 0, NULL) : NULL;
    const json_t *parameters = json_object_get(root, "parameters");
    const json_t *test = json_object_get(json_object_get(root, "made_by"), "test_accuracy");
    if (json_is_number(parameters)) {
        results->parameters = json_number_value(parameters);
    }
    if (json_is_number(test)) {
        results->test_accuracy = json_number_value(test);
    }
    json_decref(root);
    es_release(text);
    return status == ES_STATUS_MEMORY ? status : ES_STATUS_OK;
}

static EsStatus read_results(EsRunDatabase *database, const EsRunSummary *summary,
                             EsRunResults *results) {
    double n_host_parameters = NAN;
    ES_TRY(read_seconds(database, results));
    ES_TRY(ask(database,
               "SELECT n_host_parameters FROM event_run_started ORDER BY rowid DESC LIMIT 1", 1,
               &n_host_parameters));
    if (strcmp(summary->kind, "grow") == 0) {
        return read_grown(database, n_host_parameters, results);
    }
    if (strcmp(summary->kind, "hosts") == 0) {
        results->parameters = n_host_parameters;
        return ask(database, LAST_METRIC("esper.hosts.test_accuracy"), 1, &results->test_accuracy);
    }
    if (strcmp(summary->kind, "prove") == 0) {
        return ask(database,
                   "SELECT mrr FROM event_proof_ranked WHERE split = 'test' AND arm = 'policy' "
                   "ORDER BY rowid DESC LIMIT 1",
                   1, &results->test_mrr);
    }
    return ES_STATUS_OK;
}

EsStatus es_run_results(const EsRunSummary *summary, EsRunResults *results) {
    EsRunDatabase *database = NULL;
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    *results =
        (EsRunResults){.test_accuracy = NAN, .test_mrr = NAN, .parameters = NAN, .seconds = NAN};
    EsStatus status = ES_STATUS_OK;
    if (strcmp(summary->kind, "fit") == 0) {
        ES_TRY(read_network(summary, results));
    }
    if (is_at(path, summary->path, "run.db") && stat(path, &info) == 0) {
        status = es_run_database_open(summary->path, &database);
        if (status == ES_STATUS_OK) {
            status = read_outcome(database, results->outcome);
        }
        if (status == ES_STATUS_OK) {
            status = read_results(database, summary, results);
        }
        es_run_database_close(database);
    }
    if (summary->is_active) {
        strcpy(results->outcome, "running");
    }
    // a database that cannot be read says nothing
    return status == ES_STATUS_MEMORY ? status : ES_STATUS_OK;
}

EsStatus es_run_outcome_name(const EsRunSummary *summary, EsRunOutcomeName name) {
    EsRunResults results;
    ES_TRY(es_run_results(summary, &results));
    memcpy(name, results.outcome, sizeof results.outcome);
    return ES_STATUS_OK;
}

// --- all runs ---

static int compare_age(const void *a, const void *b) {
    const EsRunSummary *x = a, *y = b;
    if (x->changed_unix_s != y->changed_unix_s) {
        return x->changed_unix_s < y->changed_unix_s ? -1 : 1;
    }
    return strcmp(x->path, y->path);
}

EsStatus es_run_list(const char *root, EsRunSummary **summaries, int *n_summaries) {
    *summaries = NULL;
    *n_summaries = 0;
    struct stat info;
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    if (stat(root, &info) != 0 && errno == ENOENT) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_folder_list(root, &entries, &n_entries));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(sizeof **summaries * (size_t)(n_entries + 1), (void **)summaries));
    size_t root_length = strlen(root);
    while (root_length > 0 && root[root_length - 1] == '/') {
        root_length--;
    }
    for (int i = 0; i < n_entries; i++) {
        char path[ES_RUN_PATH_BYTES];
        int length =
            snprintf(path, sizeof path, "%.*s/%s", (int)root_length, root, entries[i].name);
        if (entries[i].kind == ES_FOLDER_ENTRY_FOLDER && length < (int)sizeof path) {
            EsStatus found = es_run_summarise(path, &(*summaries)[*n_summaries]);
            // INPUT: not a run, or removed while we looked
            ES_TRY_GOTO(found == ES_STATUS_INPUT ? ES_STATUS_OK : found);
            *n_summaries += found == ES_STATUS_OK;
        }
    }
    qsort(*summaries, (size_t)*n_summaries, sizeof **summaries, compare_age);
done:
    es_release(entries);
    if (status != ES_STATUS_OK) {
        es_release(*summaries);
        *summaries = NULL;
        *n_summaries = 0;
    }
    return status;
}
