// `esper grow --repeat N`: finds where the runs of the seeds are, runs one after the other, and
// saves the table over them.
#include "grow/grow_command.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "cli/frame.h"
#include "grow/grow_tables.h"

// --- where the runs are ---

// The lowest seed among the folders seed-<n> under `root`; -1 when there is none.
static int find_first_seed(const char *root) {
    DIR *folder = opendir(root);
    int first = -1;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char *end = NULL;
        if (strncmp(entry->d_name, "seed-", 5) == 0) {
            long seed = strtol(entry->d_name + 5, &end, 10);
            int is_number = end != entry->d_name + 5 && *end == '\0' && seed >= 0;
            first = is_number && (first < 0 || seed < first) ? (int)seed : first;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return first;
}

int es_grow_is_repeat_folder(const char *path) {
    char config[ES_RUN_PATH_BYTES];
    struct stat info;
    snprintf(config, sizeof config, "%.4000s/config.ini", path);
    return stat(config, &info) != 0 && find_first_seed(path) >= 0;
}

// Settings as of one run: those of the command line, or of the first run that is there.
static EsStatus configure(const EsRunCommand *command, const EsOptionTable *table,
                          const EsArguments *arguments, int n_repeats) {
    EsGrowSettings before;
    EsRunCommand first = *command;
    char path[ES_RUN_PATH_BYTES];
    if (es_ranks_launched() > 1) {
        return ES_FAIL(UNSUPPORTED, "--repeat runs in one process, and %d were started together",
                       es_ranks_launched());
    }
    if (command->resume != NULL) {
        int seed = find_first_seed(command->resume);
        if (seed < 0) {
            return ES_FAIL(INPUT, "%s has no runs seed-<n> to go on with", command->resume);
        }
        snprintf(path, sizeof path, "%.4000s/seed-%d", command->resume, seed);
        first.resume = path;
    } else if (command->out == NULL) {
        return ES_FAIL(ARGUMENT, "--repeat needs --out DIR: the runs go to DIR/seed-<n>");
    }
    ES_TRY(es_run_command_configure(&first, table, arguments, &before));
    const EsGrowSettings *settings = table->config->settings;
    if (settings->run.seed > INT32_MAX - (n_repeats - 1)) {
        return ES_FAIL(CONFIG, "--repeat %d from seed %d on; seeds go up to %d", n_repeats,
                       settings->run.seed, INT32_MAX);
    }
    return es_grow_settings_evaluated(settings) > 0
               ? ES_STATUS_OK
               : ES_FAIL(CONFIG, "--repeat compares runs by held-out episodes; it needs --eval N");
}

// --- one seed ---

typedef struct Repeat {
    const EsRunCommand *command; // borrowed
    const EsConfig *config;      // borrowed; its settings have the first seed
    int n, as_json, first_seed;
    EsGrowEvaluation **evaluations; // owned [n], with their targets
    EsRunOutcome outcome;           // of the last run
} Repeat;

static EsStatus take_evaluation(Repeat *repeat, int i, const char *folder) {
    char path[ES_RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%.4000s/evaluation.json", folder);
    ES_TRY(es_grow_evaluation_load(path, &repeat->evaluations[i]));
    ES_TRY(es_grow_evaluation_compare(repeat->evaluations[i], (uint64_t)(repeat->first_seed + i)));
    const char *what =
        es_grow_evaluation_difference(repeat->evaluations[i], repeat->evaluations[0]);
    return what == NULL ? ES_STATUS_OK
                        : ES_FAIL(INPUT, "%s differs from the run of seed %d in %s", path,
                                  repeat->first_seed, what);
}

void es_grow_join_outcome(EsRunOutcome *all, const EsRunOutcome *last) {
    int has_lost = all->has_lost_events || last->has_lost_events;
    int64_t diverged_since = ES_MAX(all->diverged_since, last->diverged_since);
    *all = *last;
    all->has_lost_events = has_lost;
    all->diverged_since = diverged_since;
}

static EsStatus run_seed(Repeat *repeat, int i) {
    EsGrowSettings settings = *(const EsGrowSettings *)repeat->config->settings;
    EsConfig config = *repeat->config;
    EsRunCommand command = *repeat->command;
    const EsRunInput input = {&command, &config, &settings.run, &settings.n_envs, repeat->as_json};
    struct stat info;
    char path[ES_RUN_PATH_BYTES];
    settings.run.seed = repeat->first_seed + i;
    config.settings = &settings;
    snprintf(path, sizeof path, "%.4000s/seed-%d",
             command.resume != NULL ? command.resume : command.out, settings.run.seed);
    command.resume = command.resume != NULL && stat(path, &info) == 0 ? path : NULL;
    command.out = command.resume == NULL ? path : NULL;
    command.is_further = i > 0;
    if (!command.is_quiet) {
        es_message("seed %d, %d of %d\n", settings.run.seed, i + 1, repeat->n);
    }
    EsProgramRun run = es_run_program_begin(&es_grow_program, &input);
    if (run.is_started) {
        run.status = es_run_rounds(run.session.run, &run.rounds);
    }
    es_run_program_close(&run);
    es_grow_run_destroy(run.work);
    es_grow_join_outcome(&repeat->outcome, &run.session.outcome);
    ES_TRY(run.status);
    return take_evaluation(repeat, i, path);
}

// --- all of them ---

static const char *repeat_root(const EsRunCommand *command) {
    return command->resume != NULL ? command->resume : command->out;
}

static EsStatus save_seeds(const Repeat *repeat, json_t *root) {
    char path[ES_RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%.4000s/seeds.json", repeat_root(repeat->command));
    char *text = NULL;
    // the value is printed as well, so that it keeps an owner
    ES_TRY(es_json_dump(path, json_incref(root), JSON_INDENT(1) | JSON_REAL_PRECISION(17), &text));
    EsStatus status = es_file_write_all(path, text, strlen(text));
    free(text);
    return status;
}

static EsStatus report_seeds(const Repeat *repeat) {
    json_t *root = es_grow_seeds_json(repeat->evaluations, repeat->n, repeat->first_seed);
    EsStatus saved = save_seeds(repeat, root);
    if (repeat->as_json && root != NULL) {
        EsStatus printed = es_json_print(root, 10);
        return saved != ES_STATUS_OK ? saved : printed;
    }
    json_decref(root);
    es_grow_print_seeds(repeat->evaluations, repeat->n, repeat->first_seed);
    return saved;
}

// One hint in the place of the run's own, which would go on with one seed alone.
static EsStatus fail_interrupted(const Repeat *repeat, int n_done) {
    char folder[ES_RUN_PATH_BYTES];
    return ES_FAIL(INTERRUPTED,
                   "interrupted in seed %d, %d of %d are done, and its saved rounds stay. Go "
                   "on with: esper grow --repeat %d --resume %s%s",
                   repeat->first_seed + n_done, n_done, repeat->n, repeat->n,
                   es_shell_word(repeat_root(repeat->command), folder, sizeof folder),
                   repeat->outcome.n_rounds_done > 0 ? "" : " --restart");
}

EsExit cmd_grow_repeat(const EsRunCommand *command, const EsOptionTable *table,
                       const EsArguments *arguments, int n_repeats, int as_json) {
    Repeat repeat = {
        .command = command, .config = table->config, .n = n_repeats, .as_json = as_json};
    EsStatus status = command->is_dry_run
                          ? ES_FAIL(ARGUMENT, "--dry-run describes one run; leave --repeat out")
                          : configure(command, table, arguments, n_repeats);
    if (status == ES_STATUS_OK) {
        repeat.first_seed = ((const EsGrowSettings *)table->config->settings)->run.seed;
        status = es_allocate(sizeof(void *) * (size_t)n_repeats, (void **)&repeat.evaluations);
    }
    int n_done = 0;
    while (n_done < n_repeats && status == ES_STATUS_OK) {
        status = run_seed(&repeat, n_done);
        n_done += status == ES_STATUS_OK;
    }
    if (status == ES_STATUS_OK) {
        status = report_seeds(&repeat);
    }
    if (status == ES_STATUS_INTERRUPTED) {
        status = fail_interrupted(&repeat, n_done);
    }
    for (int i = 0; i < n_repeats && repeat.evaluations != NULL; i++) {
        es_grow_evaluation_destroy(repeat.evaluations[i]);
    }
    es_release(repeat.evaluations);
    return es_run_command_finish("grow", status, &repeat.outcome);
}
