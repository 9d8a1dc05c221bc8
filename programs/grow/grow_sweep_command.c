// `esper grow --sweep KEY=A,B,...`: variants of one run, compared on the same held-out episodes.
// Rates that environments hold each for themselves run side by side in one run, under a policy that
// is not trained. Other variants are runs of their own in OUT/variant-<n>, one after the other;
// several processes share the variants out.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "cli/frame.h"
#include "esper/log.h"
#include "grow/grow_command.h"
#include "grow/grow_tables.h"

// A group that is done waits for the others, whose variants may take longer by any time; one that
// hangs is noticed within it.
#define GROUPS_SECONDS 1e6

typedef struct Sweep {
    const EsRunCommand *command; // borrowed
    EsConfig config;             // its settings are the base of all variants
    EsGrowSettings settings;
    EsSweep sweep;
    char text[ES_SWEEP_TEXT_BYTES];
    int as_json;
    EsRanks *ranks;       // owned: all of them
    EsRanks *part;        // owned: those that run a variant with this one; NULL: it is alone
    int n_groups, group;  // of ranks, that each run variants
    EsRunOutcome outcome; // of the last run here
} Sweep;

static const char *root_of(const Sweep *sweep) {
    return sweep->command->resume != NULL ? sweep->command->resume : sweep->command->out;
}

static void variant_path(const Sweep *sweep, int variant, char path[ES_RUN_PATH_BYTES]) {
    snprintf(path, ES_RUN_PATH_BYTES, "%.4000s/variant-%d", root_of(sweep), variant + 1);
}

int es_grow_is_sweep_folder(const char *path) {
    char config[ES_RUN_PATH_BYTES], first[ES_RUN_PATH_BYTES];
    snprintf(config, sizeof config, "%.4000s/config.ini", path);
    snprintf(first, sizeof first, "%.4000s/variant-1", path);
    return access(config, F_OK) != 0 && access(first, F_OK) == 0;
}

// --- settings ---

// The key that an option's name stands for; else the name.
static const char *key_of(const EsOptionTable *table, const char *name, size_t length) {
    for (int i = 0; i < table->n_options; i++) {
        const EsOption *option = &table->options[i];
        if (option->type == ES_OPTION_TYPE_KEY && strlen(option->name) == length &&
            strncmp(option->name, name, length) == 0) {
            return option->key;
        }
    }
    return NULL;
}

// "key=a,b;key=c,d" of all --sweep.
static EsStatus join_texts(const EsOptionTable *table, const EsOptionList *list,
                           char text[ES_SWEEP_TEXT_BYTES]) {
    size_t used = 0;
    for (int i = 0; i < list->n; i++) {
        size_t length = strcspn(list->texts[i], "=");
        const char *key = key_of(table, list->texts[i], length);
        used +=
            (size_t)snprintf(text + used, ES_SWEEP_TEXT_BYTES - used, "%s%s%s", i > 0 ? ";" : "",
                             key != NULL ? key : "", list->texts[i] + (key != NULL ? length : 0));
        if (used >= ES_SWEEP_TEXT_BYTES) {
            return ES_FAIL(ARGUMENT, "--sweep: more than %d bytes of keys and values",
                           ES_SWEEP_TEXT_BYTES - 1);
        }
    }
    return ES_STATUS_OK;
}

// Settings as of one run: those of the command line, or of the first variant that is there.
static EsStatus configure(Sweep *sweep, const EsOptionTable *table, const EsArguments *arguments,
                          const EsOptionList *list) {
    EsGrowSettings before;
    EsRunCommand first = *sweep->command;
    char path[ES_RUN_PATH_BYTES];
    if (first.is_dry_run) {
        return ES_FAIL(ARGUMENT, "--dry-run describes one run; leave --sweep out");
    }
    if (first.resume == NULL && first.out == NULL) {
        return ES_FAIL(ARGUMENT, "--sweep needs --out DIR: the results go there");
    }
    if (first.resume != NULL && es_grow_is_sweep_folder(first.resume)) {
        variant_path(sweep, 0, path);
        first.resume = path;
    }
    ES_TRY(es_run_command_configure(&first, table, arguments, &before));
    sweep->settings = *(const EsGrowSettings *)table->config->settings;
    sweep->config = *table->config;
    sweep->config.settings = &sweep->settings;
    ES_TRY(join_texts(table, list, sweep->text));
    ES_TRY(es_sweep_parse(&sweep->config, sweep->text, &sweep->sweep));
    sweep->settings.against[0] = '\0'; // the variants are compared with each other
    return es_grow_settings_evaluated(&sweep->settings) > 0
               ? ES_STATUS_OK
               : ES_FAIL(CONFIG,
                         "--sweep compares variants by held-out episodes; it needs --eval N");
}

// --- runs of their own ---

// A variant goes on with the settings that it began with: its results are those of its name.
static EsStatus check_variant(const EsConfig *config, const char *folder) {
    EsGrowSettings before;
    EsConfig stored = es_grow_run_config(&before);
    char path[ES_RUN_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/config.ini", folder);
    ES_TRY(es_config_load(&stored, path));
    return es_run_settings_check_resumed(config, &before, config->settings);
}

static EsStatus run_variant(Sweep *sweep, int variant) {
    EsGrowSettings settings = sweep->settings;
    EsConfig config = sweep->config;
    EsRunCommand command = *sweep->command;
    char path[ES_RUN_PATH_BYTES], name[ES_SWEEP_NAME_BYTES];
    struct stat info;
    config.settings = &settings;
    const EsRunInput input = {&command, &config, &settings.run, &settings.n_envs, sweep->as_json};
    ES_TRY(es_sweep_apply(&sweep->sweep, variant, &config));
    ES_TRY(es_run_command_make_absolute(&config));
    variant_path(sweep, variant, path);
    command.resume = command.resume != NULL && stat(path, &info) == 0 ? path : NULL;
    command.out = command.resume == NULL ? path : NULL;
    ES_TRY(command.resume != NULL ? check_variant(&config, path) : ES_STATUS_OK);
    command.is_further = variant > 0;
    command.is_quiet |= sweep->group > 0; // lines of several runs are not told apart
    command.has_ranks = 1;
    settings.run.ranks = sweep->part;
    if (!command.is_quiet && es_ranks_number(sweep->ranks) == 0) {
        es_message("%s, variant %d of %d\n", es_sweep_name(&sweep->sweep, variant, name),
                   variant + 1, sweep->sweep.n_variants);
    }
    EsProgramRun run = es_run_program_begin(&es_grow_program, &input);
    if (run.is_started) {
        run.status = es_run_rounds(run.session.run, &run.rounds);
    }
    es_run_program_close(&run);
    ES_TRY(es_ranks_status(sweep->part)); // MPI still has the buffers of the work, and all end
    es_grow_run_destroy(run.work);
    es_grow_join_outcome(&sweep->outcome, &run.session.outcome);
    return run.status;
}

// The variants of this group, up to the first that fails or is stopped.
static EsStatus run_own(Sweep *sweep) {
    for (int v = sweep->group; v < sweep->sweep.n_variants; v += sweep->n_groups) {
        ES_TRY(run_variant(sweep, v));
    }
    return ES_STATUS_OK;
}

static EsStatus open_groups(Sweep *sweep) {
    ES_TRY(es_ranks_open(&sweep->ranks));
    int count = es_ranks_count(sweep->ranks);
    sweep->n_groups = ES_MIN(count, sweep->sweep.n_variants);
    sweep->group = es_ranks_group(sweep->ranks, sweep->n_groups);
    if (es_ranks_number(sweep->ranks) > 0) { // rank 0 speaks for all
        es_log_set_handler(es_message_log, NULL, ES_LOG_ERROR);
    }
    const EsRankFact fact = {"sweep", sweep->text};
    ES_TRY(es_ranks_agree(sweep->ranks, &fact, 1));
    return es_ranks_divide(sweep->ranks, sweep->n_groups, &sweep->part);
}

// Makes a stop of one group known to all. A failure is not waited with: it ends all (end_apart).
static EsStatus share_stop(Sweep *sweep, EsStatus status) {
    int has_failed = status != ES_STATUS_OK && status != ES_STATUS_INTERRUPTED;
    int count = es_ranks_count(sweep->ranks), is_stopped = status == ES_STATUS_INTERRUPTED;
    int *stopped = NULL;
    if (count == 1 || has_failed) {
        return status;
    }
    ES_TRY(es_allocate(sizeof *stopped * (size_t)count, (void **)&stopped));
    sweep->ranks->deadline_seconds = GROUPS_SECONDS;
    stopped[es_ranks_number(sweep->ranks)] = is_stopped;
    const EsRankColumn column = {stopped, sizeof *stopped};
    EsStatus gathered = es_ranks_gather(sweep->ranks, "the end of a variant", count, &column, 1);
    for (int r = 0; r < count; r++) {
        is_stopped |= stopped[r];
    }
    es_release(stopped);
    ES_TRY(gathered);
    return is_stopped ? ES_FAIL(INTERRUPTED, "interrupted") : status;
}

// --- results ---

static EsStatus take_variant(Sweep *sweep, int variant, EsGrowEvaluation *all) {
    EsGrowVariant *to = &all->variants[variant];
    EsGrowEvaluation *own = NULL;
    char folder[ES_RUN_PATH_BYTES - 32], path[ES_RUN_PATH_BYTES], name[ES_SWEEP_NAME_BYTES];
    snprintf(folder, sizeof folder, "%.3900s/variant-%d", root_of(sweep), variant + 1);
    snprintf(path, sizeof path, "%s/evaluation.json", folder);
    ES_TRY(es_grow_evaluation_load(path, &own));
    if (variant == 0) {
        all->n_episodes = own->n_episodes;
        all->group_size = own->group_size;
        all->n_tasks = own->n_tasks;
        all->n_rounds = own->n_rounds;
        all->is_greedy = own->is_greedy;
    }
    int is_same = own->n_episodes == all->n_episodes && own->n_tasks == all->n_tasks &&
                  own->is_greedy == all->is_greedy;
    snprintf(to->name, sizeof to->name, "%s", es_sweep_name(&sweep->sweep, variant, name));
    snprintf(to->hash, sizeof to->hash, "%s", own->variants[0].hash);
    to->outcomes = own->variants[0].outcomes;
    own->variants[0].outcomes = NULL;
    all->n_variants++;
    es_grow_evaluation_destroy(own);
    return is_same ? ES_STATUS_OK
                   : ES_FAIL(INPUT, "%s has other held-out episodes than variant 1", path);
}

// Episodes of all variants in OUT/run.db, as a run's own comparison is in its database.
static EsStatus record(const Sweep *sweep, const EsGrowEvaluation *all) {
    char path[ES_RUN_PATH_BYTES];
    EsHubOptions options = es_hub_defaults();
    EsEpisodeOutcomeEvent *rows = NULL;
    EsHub *hub = NULL;
    EsSink sink;
    size_t n = (size_t)all->n_episodes;
    snprintf(path, sizeof path, "%.4000s/run.db", root_of(sweep));
    (void)unlink(path); // of an earlier session
    EsStatus status = es_sqlite_sink_open(path, -1, &sink);
    if (status != ES_STATUS_OK) {
        es_log(ES_LOG_WARNING, "%s: the sweep has no database", es_status_detail());
        return status == ES_STATUS_UNSUPPORTED ? ES_STATUS_OK : status;
    }
    options.level = ES_LEVEL_MINIMAL;
    ES_TRY(es_hub_create(&options, &hub));
    ES_TRY_GOTO(es_hub_add_sink(hub, &sink));
    ES_TRY_GOTO(es_allocate(sizeof *rows * n, (void **)&rows));
    for (int v = 0; v < all->n_variants; v++) {
        for (size_t i = 0; i < n; i++) {
            rows[i] = es_grow_evaluation_row(all, v, (int64_t)i);
        }
        es_emit_episode_outcome(hub, (EsEventTime){.round = all->n_rounds + 1, .step = -1}, rows,
                                (int64_t)n);
        (void)es_hub_flush(hub, options.close_seconds);
    }
done:
    es_hub_close(hub, NULL);
    es_release(rows);
    return status;
}

static EsStatus report(Sweep *sweep, EsGrowEvaluation *all) {
    char path[ES_RUN_PATH_BYTES];
    all->is_sweep = 1;
    for (int v = 0; v < sweep->sweep.n_variants; v++) {
        ES_TRY(take_variant(sweep, v, all));
    }
    ES_TRY(es_grow_evaluation_compare(all, (uint64_t)sweep->settings.run.seed));
    snprintf(path, sizeof path, "%.4000s/sweep.json", root_of(sweep));
    ES_TRY(es_grow_evaluation_save(all, path));
    ES_TRY(record(sweep, all));
    if (sweep->as_json) {
        return es_json_print(es_grow_evaluation_json(all), 10);
    }
    es_grow_print_evaluation(all, sweep->settings.run.seed);
    return ES_STATUS_OK;
}

static EsStatus fail_interrupted(const Sweep *sweep) {
    char folder[ES_RUN_PATH_BYTES];
    return ES_FAIL(INTERRUPTED,
                   "interrupted; finished variants and saved rounds stay. Go on with the same "
                   "--sweep: esper grow --sweep ... --resume %s --restart",
                   es_shell_word(root_of(sweep), folder, sizeof folder));
}

// One after the other, or over groups of ranks; rank 0 reports.
static EsStatus run_apart(Sweep *sweep) {
    EsGrowEvaluation *all = NULL;
    EsStatus status = share_stop(sweep, run_own(sweep));
    if (status == ES_STATUS_INTERRUPTED) {
        return fail_interrupted(sweep);
    }
    if (status != ES_STATUS_OK || es_ranks_number(sweep->ranks) > 0) {
        return status;
    }
    ES_TRY(es_allocate(sizeof *all, (void **)&all));
    status = report(sweep, all);
    es_grow_evaluation_destroy(all);
    return status;
}

// As es_run_program_end does: ranks that are left alone by a failure are ended.
static EsExit end_apart(Sweep *sweep, EsStatus status) {
    int is_first = es_ranks_number(sweep->ranks) == 0;
    int is_orderly =
        status == ES_STATUS_OK || status == ES_STATUS_INTERRUPTED || es_ranks_differ(sweep->ranks);
    EsExit code = is_first || !is_orderly ? es_run_command_finish("grow", status, &sweep->outcome)
                                          : ES_EXIT_DONE;
    if (!is_orderly && es_ranks_count(sweep->ranks) > 1) {
        es_ranks_abort(sweep->ranks, (int)code);
    }
    es_ranks_close(sweep->part);
    es_ranks_close(sweep->ranks);
    return code;
}

// --- side by side ---

static EsExit run_together(Sweep *sweep) {
    EsGrowSettings *settings = &sweep->settings;
    snprintf(settings->sweep, sizeof settings->sweep, "%s", sweep->text);
    settings->run.n_rounds = 0; // episodes of training change nothing about those held out
    const EsRunInput input = {sweep->command, &sweep->config, &settings->run, &settings->n_envs,
                              sweep->as_json};
    EsProgramRun run = es_run_program_begin(&es_grow_program, &input);
    if (run.is_started) {
        run.status = es_run_rounds(run.session.run, &run.rounds);
    }
    return es_run_program_end(&run);
}

EsExit cmd_grow_sweep(const EsRunCommand *command, const EsOptionTable *table,
                      const EsArguments *arguments, const EsOptionList *list, int as_json) {
    Sweep sweep = {.command = command, .as_json = as_json};
    EsStatus status = configure(&sweep, table, arguments, list);
    if (status != ES_STATUS_OK) {
        return es_command_finish("grow", status);
    }
    const char *obstacle = es_sweep_find_obstacle(&sweep.sweep, &sweep.settings);
    if (obstacle == NULL) {
        return run_together(&sweep);
    }
    status = open_groups(&sweep);
    if (status == ES_STATUS_OK && !command->is_quiet && es_ranks_number(sweep.ranks) == 0) {
        es_message("%d variants, each a run of its own (%s)\n", sweep.sweep.n_variants, obstacle);
    }
    return end_apart(&sweep, status == ES_STATUS_OK ? run_apart(&sweep) : status);
}
