// `esper runs`: which runs there are, and getting rid of old ones.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "runs/checkpoint.h"
#include "runs/run_removal.h"

#define DEFAULT_FOLDER "runs"

typedef struct RunsOptions {
    int as_json, prunes, is_dry_run, is_confirmed;
    const char *keep_text;
    int keep;          // -1: whole runs go
    double older_days; // 0: of any age
} RunsOptions;

// --- words for numbers ---

static const char *say_bytes(int64_t bytes, char text[32]) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;
    // 999.95 would be printed as 1000.0
    while (value >= 999.95 && unit + 1 < ES_COUNT_OF(units)) {
        value /= 1000;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

static const char *say_age(int64_t seconds, char text[32]) {
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t unit = 0;
    seconds = ES_MAX(seconds, 0); // a clock may have been set back
    while (unit + 1 < ES_COUNT_OF(units) && seconds < 2 * units[unit].seconds) {
        unit++;
    }
    snprintf(text, 32, "%lld %s", (long long)(seconds / units[unit].seconds), units[unit].name);
    return text;
}

// "38 s", "12 min", "1.5 h"; "-" when not known
static const char *say_duration(double seconds, char text[32]) {
    if (!isfinite(seconds)) {
        strcpy(text, "-");
    } else if (seconds < 120) {
        snprintf(text, 32, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
    } else if (seconds < 7200) {
        snprintf(text, 32, "%.0f min", seconds / 60);
    } else {
        snprintf(text, 32, "%.1f h", seconds / 3600);
    }
    return text;
}

static const char *say_number(double value, const char *format, char text[32]) {
    if (isfinite(value)) {
        snprintf(text, 32, format, value);
    } else {
        strcpy(text, "-");
    }
    return text;
}

// "12/40": saved and asked for, as far as they are known
static const char *say_rounds(const EsRunSummary *run, char text[48]) {
    char saved[20] = "-", asked[24] = "";
    if (run->last_round >= 0) {
        snprintf(saved, sizeof saved, "%lld", (long long)run->last_round);
    }
    if (run->n_rounds >= 0) {
        snprintf(asked, sizeof asked, "/%lld", (long long)run->n_rounds);
    }
    snprintf(text, 48, "%s%s", saved, asked);
    return text;
}

static const char *name_of(const EsRunSummary *run) {
    const char *slash = strrchr(run->path, '/');
    return slash != NULL ? slash + 1 : run->path;
}

// --- the table ---

static EsStatus print_run(const EsRunSummary *run, int width, int has_proofs, int64_t now) {
    char size[32], age[32], rounds[48], accuracy[32], mrr[32], parameters[32], duration[32];
    EsRunResults results;
    ES_TRY(es_run_results(run, &results));
    es_padded_text_print(name_of(run), width, stdout);
    es_print("  %-8s %9s %13s ", run->kind, say_rounds(run, rounds),
             say_number(results.test_accuracy, "%.2f %%", accuracy));
    if (has_proofs) {
        es_print("%9s ", say_number(results.test_mrr, "%.4f", mrr));
    }
    es_print("%10s %8s %11d %9s %7s  %s\n", say_number(results.parameters, "%.0f", parameters),
             say_duration(results.seconds, duration), run->n_checkpoints,
             say_bytes(run->bytes, size), say_age(now - run->changed_unix_s, age),
             results.outcome[0] != '\0' ? results.outcome : "-");
    return ES_STATUS_OK;
}

static EsStatus print_table(const char *folder, const EsRunSummary *runs, int n_runs) {
    if (n_runs == 0) {
        es_print("no runs in %s\n", folder);
        return ES_STATUS_OK;
    }
    int width = 4, has_proofs = 0;
    int64_t total = 0, now = (int64_t)time(NULL);
    for (int i = 0; i < n_runs; i++) {
        width = ES_MAX(width, es_padded_text_width(name_of(&runs[i])));
        has_proofs |= strcmp(runs[i].kind, "prove") == 0;
        total += runs[i].bytes;
    }
    char size[32];
    printf("%-*s  %-8s %9s %13s %s%10s %8s %11s %9s %7s  %s\n", width, "name", "kind", "rounds",
           "test accuracy", has_proofs ? " test MRR " : "", "parameters", "duration", "checkpoints",
           "size", "age", "outcome");
    for (int i = 0; i < n_runs; i++) {
        ES_TRY(print_run(&runs[i], width, has_proofs, now));
    }
    printf("%d run%s, %s\n", n_runs, n_runs == 1 ? "" : "s", say_bytes(total, size));
    return ES_STATUS_OK;
}

static EsStatus print_json(json_t *value) {
    return es_output_status(es_json_write(value, JSON_INDENT(2), stdout));
}

static EsStatus describe_run(const EsRunSummary *run, json_t *all) {
    EsRunResults results;
    ES_TRY(es_run_results(run, &results));
    // a name that is not UTF-8 cannot be written as JSON
    json_t *name = json_string(name_of(run)), *path = json_string(run->path);
    json_t *object = json_pack(
        "{s:o, s:o, s:s, s:b, s:o, s:o, s:o, s:i, s:I, s:I, s:I, s:b}", "name",
        name != NULL ? name : json_null(), "path", path != NULL ? path : json_null(), "kind",
        run->kind, "marked", run->is_marked, "rounds",
        run->last_round >= 0 ? json_integer(run->last_round) : json_null(), "rounds_asked",
        run->n_rounds >= 0 ? json_integer(run->n_rounds) : json_null(), "outcome",
        results.outcome[0] != '\0' ? json_string(results.outcome) : json_null(), "checkpoints",
        run->n_checkpoints, "bytes", (json_int_t)run->bytes, "checkpoint_bytes",
        (json_int_t)run->checkpoint_bytes, "changed_unix_s", (json_int_t)run->changed_unix_s,
        "active", run->is_active);
    json_object_set_new(object, "test_accuracy", es_json_number(results.test_accuracy));
    json_object_set_new(object, "test_mrr", es_json_number(results.test_mrr));
    json_object_set_new(object, "parameters", es_json_number(results.parameters));
    json_object_set_new(object, "seconds", es_json_number(results.seconds));
    json_array_append_new(all, object);
    return ES_STATUS_OK;
}

// The runs in a folder, or the folder itself when it is a run.
static EsStatus find_runs(const char *folder, int is_given, EsRunSummary **runs, int *n_runs) {
    struct stat info;
    if (stat(folder, &info) != 0 && is_given) {
        return ES_FAIL(INPUT, "there is no folder %s", folder);
    }
    ES_TRY(es_allocate(sizeof **runs, (void **)runs));
    *n_runs = 1;
    EsStatus status = es_run_summarise(folder, *runs);
    if (status == ES_STATUS_OK) {
        return status;
    }
    es_release(*runs);
    *runs = NULL;
    return status == ES_STATUS_INPUT ? es_run_list(folder, runs, n_runs) : status;
}

static EsStatus list_runs(const RunsOptions *options, const EsArguments *arguments) {
    if (options->keep >= 0 || options->older_days > 0 || options->is_confirmed ||
        options->is_dry_run) {
        return ES_FAIL(ARGUMENT, "--keep, --older-than, --dry-run and --yes go with --prune");
    }
    if (arguments->n_positional > 1) {
        return ES_FAIL(ARGUMENT, "one folder at a time; with --prune several runs can be named");
    }
    const char *folder = arguments->n_positional > 0 ? arguments->positional[0] : DEFAULT_FOLDER;
    EsRunSummary *runs = NULL;
    int n_runs = 0;
    ES_TRY(find_runs(folder, arguments->n_positional > 0, &runs, &n_runs));
    EsStatus status = ES_STATUS_OK;
    if (options->as_json) {
        json_t *all = json_array();
        for (int i = 0; i < n_runs && status == ES_STATUS_OK; i++) {
            status = describe_run(&runs[i], all);
        }
        if (status == ES_STATUS_OK) {
            status = print_json(all);
        } else {
            json_decref(all);
        }
    } else {
        status = print_table(folder, runs, n_runs);
    }
    es_release(runs);
    return status;
}

// --- pruning ---

// The plan for one run; filled before anything is removed.
typedef struct Removal {
    char path[ES_RUN_PATH_BYTES];
    int is_run; // verified to be ours; otherwise it is left alone
    int is_due; // old enough, and there is something to remove
    int n_checkpoints;
    int64_t bytes;
    json_t *kept; // owned: paths that are not the run's and stay
} Removal;

// A run by its path, or by its name under runs/.
static void find_run(const char *given, char path[ES_RUN_PATH_BYTES]) {
    struct stat info;
    snprintf(path, ES_RUN_PATH_BYTES, "%s", given);
    if (strchr(given, '/') == NULL && stat(given, &info) != 0) {
        char under[ES_RUN_PATH_BYTES];
        snprintf(under, sizeof under, "%s/%.3000s", DEFAULT_FOLDER, given);
        if (stat(under, &info) == 0) {
            memcpy(path, under, sizeof under);
        }
    }
}

static void note_kept(void *context, const char *path) {
    Removal *removal = context;
    json_t *name = json_string(path);
    json_array_append_new(removal->kept, name != NULL ? name : json_string("(not UTF-8)"));
}

// Checks whether the run is ours to remove from. Other entries that runs/* matches are skipped with
// a message; a name without a run is a mistake.
static EsStatus verify_run(const char *given, Removal *removal, EsRunSummary *run) {
    struct stat info;
    find_run(given, removal->path);
    if (lstat(removal->path, &info) != 0) {
        return ES_FAIL(INPUT, "there is no run %s", removal->path);
    }
    EsStatus status = es_run_summarise(removal->path, run);
    if (status == ES_STATUS_INPUT) {
        es_message("esper runs: %s: left alone\n", es_status_detail());
        return ES_STATUS_OK;
    }
    ES_TRY(status);
    status = es_run_marker_verify(removal->path);
    if (status == ES_STATUS_INPUT) {
        es_message("esper runs: %s: left alone; %s\n", es_status_detail(),
                   run->is_marked
                       ? "resume the run, which backs a damaged database up, or remove it by hand"
                       : "a run from before there were markers is marked when it is resumed");
        return ES_STATUS_OK;
    }
    ES_TRY(status);
    removal->is_run = 1;
    return ES_STATUS_OK;
}

// Links are not followed: checkpoints that lie elsewhere stay there.
static int has_linked_checkpoints(const EsRunFolder *folder, char path[ES_RUN_PATH_BYTES]) {
    struct stat info;
    es_run_folder_path(folder, "checkpoints", path);
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

static EsStatus measure_removal(const RunsOptions *options, Removal *removal) {
    EsRunFolder *folder = NULL;
    EsRunRemoval walk = {.is_preview = 1, .report_kept = note_kept, .context = removal};
    EsStatus status = ES_STATUS_OK;
    char path[ES_RUN_PATH_BYTES];
    // refuses a run that is going on, whether or not anything is removed in the end
    ES_TRY(es_run_folder_hold(removal->path, 1, &folder));
    if (options->keep < 0) {
        ES_TRY_GOTO(es_run_remove(removal->path, &walk));
    } else if (has_linked_checkpoints(folder, path)) {
        removal->n_checkpoints = 0;
        removal->is_due = 0;
        note_kept(removal, path);
    } else {
        ES_TRY_GOTO(
            es_checkpoint_prune_with(folder, options->keep, &walk, &removal->n_checkpoints));
        removal->is_due = walk.bytes > 0 || removal->n_checkpoints > 0;
    }
    removal->bytes = walk.bytes;
done:
    es_run_folder_close(folder);
    return status;
}

static EsStatus plan_removal(const RunsOptions *options, const char *given, Removal *removal) {
    EsRunSummary *run = NULL;
    EsStatus status = ES_STATUS_OK;
    removal->kept = json_array();
    ES_TRY(es_allocate(sizeof *run, (void **)&run));
    ES_TRY_GOTO(verify_run(given, removal, run));
    if (removal->is_run) {
        double age_days = (double)((int64_t)time(NULL) - run->changed_unix_s) / 86400.0;
        removal->is_due = age_days >= options->older_days;
        removal->n_checkpoints = run->n_checkpoints;
    }
    if (removal->is_due) {
        ES_TRY_GOTO(measure_removal(options, removal));
    }
done:
    es_release(run);
    return status;
}

static EsStatus carry_out(const RunsOptions *options, const Removal *removal) {
    if (options->keep < 0) {
        EsRunRemoval walk = {.is_preview = 0};
        return es_run_remove(removal->path, &walk);
    }
    EsRunFolder *folder = NULL;
    ES_TRY(es_run_folder_hold(removal->path, 0, &folder));
    EsStatus status = es_checkpoint_prune(folder, options->keep);
    es_run_folder_close(folder);
    return status;
}

static void print_removal(const RunsOptions *options, const Removal *removal) {
    char size[32];
    const char *verb = options->is_confirmed ? "removed" : "would remove";
    if (!removal->is_due) {
        es_print("%s: nothing to remove\n", removal->path);
    } else if (options->keep < 0) {
        es_print("%s %s, %s\n", verb, removal->path, say_bytes(removal->bytes, size));
    } else {
        es_print("%s %d checkpoint%s of %s, %s\n", verb, removal->n_checkpoints,
                 removal->n_checkpoints == 1 ? "" : "s", removal->path,
                 say_bytes(removal->bytes, size));
    }
    for (size_t i = 0; i < json_array_size(removal->kept); i++) {
        es_print("  %s is not the run's and stays\n",
                 json_string_value(json_array_get(removal->kept, i)));
    }
}

static EsStatus report_removals(const RunsOptions *options, const Removal *removals, int n_done) {
    char size[32];
    int64_t total = 0;
    json_t *runs = json_array();
    for (int i = 0; i < n_done; i++) {
        const Removal *removal = &removals[i];
        if (!removal->is_run) {
            continue;
        }
        total += removal->is_due ? removal->bytes : 0;
        json_t *path = json_string(removal->path);
        json_array_append_new(runs,
                              json_pack("{s:o, s:b, s:i, s:I, s:O}", "path",
                                        path != NULL ? path : json_null(), "due", removal->is_due,
                                        "checkpoints", removal->is_due ? removal->n_checkpoints : 0,
                                        "bytes", (json_int_t)(removal->is_due ? removal->bytes : 0),
                                        "kept", removal->kept));
        if (!options->as_json) {
            print_removal(options, removal);
        }
    }
    if (options->as_json) {
        return print_json(json_pack("{s:b, s:I, s:o}", "removed", options->is_confirmed, "bytes",
                                    (json_int_t)total, "runs", runs));
    }
    json_decref(runs);
    if (total > 0 && !options->is_confirmed) {
        printf("%s in all; nothing is removed without --yes\n", say_bytes(total, size));
    } else if (total > 0) {
        printf("%s freed\n", say_bytes(total, size));
    }
    return ES_STATUS_OK;
}

// All runs are looked at before the first is touched: a wrong name or a run that is going on stops
// everything. Folders that are not verified to be runs of ours are passed over.
static EsStatus prune_runs(const RunsOptions *options, const EsArguments *arguments) {
    int n_runs = arguments->n_positional, n_done = 0;
    if (n_runs == 0) {
        return ES_FAIL(ARGUMENT, "--prune needs the runs to look at, for example: esper runs "
                                 "--prune --older-than 30 runs/*");
    }
    if (options->is_dry_run && options->is_confirmed) {
        return ES_FAIL(ARGUMENT, "--dry-run removes nothing and --yes removes: give one of them");
    }
    Removal *removals = NULL;
    ES_TRY(es_allocate(sizeof *removals * (size_t)n_runs, (void **)&removals));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_runs; i++) {
        ES_TRY_GOTO(plan_removal(options, arguments->positional[i], &removals[i]));
    }
    while (n_done < n_runs && status == ES_STATUS_OK) {
        if (options->is_confirmed && removals[n_done].is_due) {
            status = carry_out(options, &removals[n_done]);
        }
        n_done += status == ES_STATUS_OK;
    }
    EsStatus reported = report_removals(options, removals, n_done);
    status = status == ES_STATUS_OK ? reported : status;
done:
    for (int i = 0; i < n_runs; i++) {
        json_decref(removals[i].kept);
    }
    es_release(removals);
    return status;
}

// Not an INT option: its default, whole runs, is no number that one should be able to type.
static EsStatus read_keep(RunsOptions *options) {
    const char *text = options->keep_text;
    options->keep = -1;
    if (text == NULL) {
        return ES_STATUS_OK;
    }
    size_t length = strlen(text);
    if (length < 1 || length > 6 || strspn(text, "0123456789") != length || atoi(text) < 1) {
        return ES_FAIL(ARGUMENT, "--keep: \"%.100s\" is not a whole number in 1..999999", text);
    }
    options->keep = atoi(text);
    return ES_STATUS_OK;
}

EsExit cmd_runs(int argc, char **argv) {
    RunsOptions options;
    const EsOption table_options[] = {
        ES_OPTION_FLAG("json", &options.as_json, "print JSON"),
        ES_OPTION_FLAG("prune", &options.prunes, "list everything removable of the named runs"),
        ES_OPTION_TEXT("keep", &options.keep_text, NULL, "N",
                       "keep the runs, remove all checkpoints but the last N and the best"),
        ES_OPTION_FLOAT("older-than", &options.older_days, "0", 0, 100000, "DAYS",
                        "only runs unchanged for DAYS days"),
        ES_OPTION_FLAG("dry-run", &options.is_dry_run,
                       "remove nothing, print the preview (default without --yes)"),
        ES_OPTION_FLAG("yes", &options.is_confirmed, "remove, instead of a preview"),
    };
    const EsOptionTable table = {
        .command = "runs",
        .usage = "[--json] [DIR]\n"
                 "       esper runs --prune [--keep N] [--older-than DAYS] [--dry-run | --yes] "
                 "[--json] RUN...",
        .summary =
            "List the runs in a folder (default runs/): rounds saved of those asked for,\n"
            "accuracy on the test split (of grow the mean of its policy's held-out episodes,\n"
            "of hosts their mean; prove has the mean reciprocal rank of its policy, 0 to 1),\n"
            "parameters (of a fit the network it keeps, else the mean of a host), duration,\n"
            "checkpoints, size, age since the last change, and the outcome: running, done,\n"
            "interrupted, failed, halted by its rails, or killed when it ended without a\n"
            "record. A dash: not recorded, or not yet. With --prune, remove whole runs, or with "
            "--keep their old checkpoints.\n"
            "Runs that are going on are refused. Only files that a run wrote are removed, and\n"
            "only from folders with its marker (esper-run.json); everything else is named and\n"
            "stays.",
        .example = "esper runs\n"
                   "         esper runs --prune --older-than 30 runs/*\n"
                   "         esper runs --prune --keep 2 --yes runs/hosts-20260102-030405-0a1b",
        .options = table_options,
        .n_options = ES_COUNT_OF(table_options),
        .max_positional = ES_MAX_ARGUMENTS,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = read_keep(&options);
    if (status == ES_STATUS_OK) {
        status =
            options.prunes ? prune_runs(&options, &arguments) : list_runs(&options, &arguments);
    }
    return es_command_finish("runs", status);
}
