// `esper grow`: hosts that grow seeds, many at once, under a policy that may be learned from them.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/words.h"
#include "cli/frame.h"
#include "grow/grow_command.h"
#include "grow/grow_tables.h"
#include "telemetry/sinks/console_line.h"

// --- results ---

static EsStatus print_json(const EsGrowRun *grow, const EsGrowSettings *settings,
                           const char *folder) {
    const EsGrowEvaluation *evaluation = es_grow_run_evaluation(grow);
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:o, s:o}", "run", folder, "task", settings->task, "policy",
        settings->policy, "seed", settings->run.seed, "rounds", settings->run.n_rounds, "hosts",
        es_grow_hosts_json(es_grow_run_endings(grow), settings->n_envs), "evaluation",
        evaluation != NULL ? es_grow_evaluation_json(evaluation) : json_null());
    return es_json_print(root, 10);
}

static void report_refusals(const EsGrowRun *grow) {
    const char *why = NULL;
    int64_t n_refused = es_grow_run_refusals(grow, &why);
    if (n_refused > 0) {
        es_message("note: %lld operations were refused and counted as waiting; the last because "
                   "%s (esper query RUN \"SELECT * FROM decisions WHERE refusal IS NOT NULL\")\n",
                   (long long)n_refused, why);
    }
}

static void report_redraws(const EsGrowRun *grow) {
    int64_t n_tasks = 0, n_redrawn = es_grow_run_redraws(grow, &n_tasks);
    if (n_redrawn > 0) {
        es_message("note: for %lld tasks %lld were drawn again, because the device does not run "
                   "their hosts fused\n",
                   (long long)n_tasks, (long long)n_redrawn);
    }
}

static void print_hosts(EsGrowRun *grow, const EsGrowSettings *settings) {
    es_grow_print_hosts(es_grow_run_endings(grow), settings,
                        es_growth_model(es_grow_run_runner(grow)->growth)->layout.n_host_weights);
}

static EsStatus print_results(void *grow, const EsRunInput *input, const char *folder) {
    const EsGrowSettings *settings = input->config->settings;
    const EsGrowEnding *endings = es_grow_run_endings(grow);
    const EsGrowEvaluation *evaluation = es_grow_run_evaluation(grow);
    report_refusals(grow);
    report_redraws(grow);
    if (input->as_json) {
        return print_json(grow, settings, folder);
    }
    if (evaluation != NULL) {
        es_grow_print_evaluation(evaluation, settings->run.seed);
    } else if (endings != NULL) {
        print_hosts(grow, settings);
    } else {
        es_message("all %d rounds were done before; `esper query %s` has their results\n",
                   settings->run.n_rounds, folder);
    }
    if (es_grow_settings_train(settings) && !input->command->is_quiet) {
        es_message("the policy is in %s/policy.safetensors: esper grow --policy takes it\n",
                   folder);
    }
    if (settings->keep_best > 0 && !input->command->is_quiet) {
        es_message("the best network%s in %s/networks: esper predict and export take %s\n",
                   settings->keep_best > 1 ? "s are" : " is", folder,
                   settings->keep_best > 1 ? "them" : "it");
    }
    return ES_STATUS_OK;
}

// All there is of rounds that could not be saved.
static void print_unsaved(void *grow, const EsRunInput *input) {
    if (!input->as_json && es_grow_run_endings(grow) != NULL) {
        print_hosts(grow, input->config->settings);
    }
}

// --- dry run ---

// "45 s", and from ten minutes on "12 min 30 s", "2 h 05 min".
static const char *write_seconds(double seconds, char text[32]) {
    EsText words = {0};
    if (seconds < 600) {
        snprintf(text, 32, "%.0f s", seconds);
        return text;
    }
    es_console_add_duration(&words, seconds);
    snprintf(text, 32, "%.*s", (int)words.length, words.length > 0 ? words.bytes : "");
    es_text_destroy(&words);
    return text;
}

// Draws a few tasks of the first round and prints them.
static EsStatus print_tasks(const EsGrowSettings *settings, const EsDevice *device) {
    int n_envs = es_grow_settings_group_envs(settings);
    int n_shown = ES_MIN(settings->tasks.n_groups, 8);
    es_print("# tasks       %d groups of %d hosts and a control; the first of round 1:\n",
             settings->tasks.n_groups, n_envs);
    for (int g = 0; g < n_shown; g++) {
        EsTask task;
        ES_TRY(es_grow_episode_draw_task(settings, (int64_t)g * n_envs, device, &task));
        es_print("#   %s\n", task.text);
    }
    return ES_STATUS_OK;
}

static EsStatus print_plan(void *grow, const EsConfig *config, const EsRunMemory *memory) {
    EsEpisodeRunner *runner = es_grow_run_runner(grow);
    const EsGrowthModel *model = es_growth_model(runner->growth);
    const EsGrowSettings *settings = config->settings;
    int n_steps = es_grow_run_mean_steps(grow);
    int64_t n_evaluated = es_grow_settings_evaluated(settings);
    ES_TRY(es_run_command_print_config(config));
    double step_seconds = 0, update_seconds = 0;
    ES_TRY(es_grow_run_predict(grow, &step_seconds, &update_seconds));
    int has_tasks = settings->tasks.n_groups > 0;
    printf("\n");
    if (has_tasks) {
        ES_TRY(print_tasks(settings, runner->device));
    }
    es_print(
        "# hosts       %d%s%s, %lld parameters each%s, up to %lld more for seeds in %d slots\n",
        settings->n_envs, has_tasks ? "" : " of ", has_tasks ? "" : model->host.name,
        (long long)model->layout.n_host_weights, has_tasks ? " at most" : "",
        (long long)(model->layout.n_parameters - model->layout.n_host_parameters), model->n_slots);
    printf("# memory      %.1f MiB parameters, gradients, momentum and snapshots of hosts\n",
           4.0 * 4.0 * (double)(model->layout.n_parameters * settings->n_envs) / 1048576);
    es_run_memory_print(memory);
    char text[ES_GROW_EXECUTION_BYTES];
    const EsDeviceInfo *device = es_device_info(runner->device);
    es_print("# device      %s, %s: %s\n", device->name, device->architecture,
             es_grow_describe_execution(settings, runner, text));
    if (es_grow_settings_train(settings)) {
        int64_t n_parameters = es_grow_run_policy_parameters(grow);
        printf("# policy      %lld parameters, %.1f MiB with gradients and moments, %.0f ms per "
               "update\n",
               (long long)n_parameters, 4.0 * 4.0 * (double)n_parameters / 1048576,
               1e3 * update_seconds);
    }
    double run_seconds = (step_seconds * n_steps + update_seconds) * settings->run.n_rounds;
    printf("# time        %.0f ms per step without seeds, %s for %d rounds of %d steps%s\n",
           1e3 * step_seconds, write_seconds(run_seconds, text), settings->run.n_rounds, n_steps,
           has_tasks ? " on average" : "");
    if (n_evaluated > 0) {
        int n_envs = es_grow_settings_evaluated_envs(settings);
        int64_t n_batches = (n_evaluated + n_envs - 1) / n_envs;
        double variant_seconds =
            step_seconds * n_steps * (double)n_batches * n_envs / settings->n_envs;
        printf("# comparison  %lld held-out episode%s, about %s for each policy\n",
               (long long)n_evaluated, n_evaluated == 1 ? "" : "s",
               write_seconds(variant_seconds, text));
    }
    return ES_STATUS_OK;
}

// --- the run ---

// Sizes of a network are of one that is trained; a policy's file has its own.
static void note_unused(const EsArguments *arguments, const EsGrowSettings *settings) {
    for (int i = 0; i < arguments->n_overrides && !es_grow_settings_train(settings); i++) {
        const EsOverride *override = &arguments->overrides[i];
        int is_hidden = override->option != NULL && strcmp(override->option->name, "hidden") == 0;
        const char *text = override->option == NULL ? override->text : "";
        int is_network = is_hidden || strncmp(text, "--policy.", strlen("--policy.")) == 0;
        if (is_network || strncmp(text, "--ppo.", strlen("--ppo.")) == 0) {
            es_message("note: %s is of the %s that --policy ppo trains%s; policy %s has no use "
                       "for it\n",
                       is_hidden ? "--hidden" : text, is_network ? "network" : "policy",
                       is_network ? "" : " with", settings->policy);
        }
    }
}

static EsStatus create_grow(const void *settings, void **grow) {
    return es_grow_run_create(settings, (EsGrowRun **)grow);
}

static void destroy_grow(void *grow) { es_grow_run_destroy(grow); }

static EsStatus find_grow_need(void *grow, EsRunNeed *need) { return es_grow_run_need(grow, need); }

static EsRunWork rounds_of_grow(void *grow) { return es_grow_run_work(grow); }

static void describe(void *grow, const void *settings, char text[ES_RUN_ABOUT_BYTES]) {
    const EsDataset *data = &es_grow_run_runner(grow)->dataset;
    const EsGrowSettings *own = settings;
    if (own->tasks.n_groups > 0) {
        snprintf(text, ES_RUN_ABOUT_BYTES,
                 "tasks: %d in each round, images of at most %d x %d x %d", own->tasks.n_groups,
                 data->height, data->width, data->n_channels);
        return;
    }
    const EsDeviceInfo *device = es_device_info(es_grow_run_runner(grow)->device);
    int used = snprintf(
        text, ES_RUN_ABOUT_BYTES,
        "data: %.100s, %lld training, %lld validation and %lld test images of %d x %d x %d in "
        "%d classes",
        data->name, (long long)data->train.count, (long long)data->validation.count,
        (long long)data->test.count, data->height, data->width, data->n_channels, data->n_classes);
    char execution[ES_GROW_EXECUTION_BYTES];
    snprintf(text + used, ES_RUN_ABOUT_BYTES - (size_t)used, "\n%.100s: %s", device->name,
             es_grow_describe_execution(settings, es_grow_run_runner(grow), execution));
}

static const char *find_input_hash(void *grow) { return es_grow_run_runner(grow)->data_hash; }

const EsRunProgram es_grow_program = {.name = "grow",
                                      .smaller = "a smaller --batch or --validation-images",
                                      .create = create_grow,
                                      .destroy = destroy_grow,
                                      .find_need = find_grow_need,
                                      .rounds = rounds_of_grow,
                                      .describe = describe,
                                      .print_plan = print_plan,
                                      .print_results = print_results,
                                      .print_unsaved = print_unsaved,
                                      .input_hash = find_input_hash};

static const char summary[] =
    "Grow many hosts at once: each trains, and the policy may put seeds (small modules) into its\n"
    "slots, blend them in, keep them or take them out. A round is one episode of every host; "
    "--policy\nppo learns from it, and at the end runs held-out episodes against others. The run "
    "folder keeps\neverything: `esper query RUN \"SELECT * FROM seeds\"`.\n\n--device cuda runs "
    "all of it on a GPU, every host: those of up to 6 blocks with kernels of 1 or 3,\nat most 256 "
    "channels and even pooled sizes in fused kernels, the others by plans, which is slower\nand "
    "which the run says. --amp-dtype auto takes the best type of the GPU, and the run names "
    "it.\n\n`mpirun -n R esper grow ...` shares the hosts among R processes, with the bits of "
    "one\n(docs/scaling.md).\n\nA "
    "schedule (--policy script:FILE) is a text file, one operation per line:\n  # step "
    " environments  operation  "
    "arguments\n  1       *             germinate  "
    "r0c1 conv_light style=sigmoid_add tempo=standard\n  9       0-3,7         fossilize  "
    "r0c1\n  12      *             prune      r0c0 speed=fast curve=cosine";

// A command line that was understood.
typedef struct GrowCommand {
    EsRunCommand run;
    EsGrowSettings settings;
    EsConfig config; // of the settings
    int as_json;
} GrowCommand;

// The failure of a --resume: where --repeat wrote the folder, with the command that goes on.
static EsStatus explain_resume(const char *resume, EsStatus status) {
    char folder[ES_RUN_PATH_BYTES];
    if (es_grow_is_sweep_folder(resume)) {
        return ES_FAIL(INPUT,
                       "%s has the runs of a sweep; the same --sweep goes on with them: esper grow "
                       "--sweep ... --resume %s",
                       resume, es_shell_word(resume, folder, sizeof folder));
    }
    if (!es_grow_is_repeat_folder(resume)) {
        return status;
    }
    return ES_FAIL(INPUT,
                   "%s has the runs of several seeds; --repeat N goes on with them: "
                   "esper grow --repeat N --resume %s",
                   resume, es_shell_word(resume, folder, sizeof folder));
}

static EsExit cmd_grow_once(GrowCommand *grow, const EsOptionTable *table,
                            const EsArguments *arguments) {
    EsGrowSettings before;
    EsStatus status = es_run_command_configure(&grow->run, table, arguments, &before);
    if (status != ES_STATUS_OK) {
        const char *resume = grow->run.resume;
        return es_command_finish("grow", resume != NULL ? explain_resume(resume, status) : status);
    }
    note_unused(arguments, &grow->settings);
    es_run_command_note_unused(table, arguments, grow->settings.run.device,
                               grow->settings.data.name);
    const EsRunInput input = {&grow->run, &grow->config, &grow->settings.run,
                              &grow->settings.n_envs, grow->as_json};
    EsProgramRun run = es_run_program_begin(&es_grow_program, &input);
    if (run.is_started) {
        run.status = es_run_rounds(run.session.run, &run.rounds);
    }
    return es_run_program_end(&run);
}

EsExit cmd_grow(int argc, char **argv) {
    GrowCommand grow = {0};
    int n_repeats;
    EsOptionList sweeps;
    grow.config = es_grow_run_config(&grow.settings);
    const EsOption options[] = {
        ES_OPTION_KEY("task", "grow.task", "NAME"),
        ES_OPTION_KEY("envs", "grow.envs", "N"),
        ES_OPTION_KEY("rounds", "run.rounds", "N"),
        ES_OPTION_KEY("policy", "grow.policy", "P"),
        ES_OPTION_KEY("eval", "evaluate.episodes", "N"),
        ES_OPTION_INT("repeat", &n_repeats, "0", 0, 1000, "N",
                      "runs with seeds SEED, SEED+1, ... in OUT/seed-<n>, and a table over them"),
        ES_OPTION_LIST("sweep", &sweeps, "KEY=A,B",
                       "compare variants of a setting on the same held-out episodes; several make "
                       "the product"),
        ES_OPTION_KEY("episode-steps", "grow.episode_steps", "N"),
        ES_OPTION_KEY("slots", "grow.slots", "LIST"),
        ES_OPTION_KEY("max-seeds", "grow.max_seeds", "N"),
        ES_OPTION_KEY("pace", "grow.pace", "P"),
        ES_OPTION_KEY("max-params", "grow.max_params", "N"),
        ES_OPTION_KEY("gates", "grow.gates", "G"),
        ES_OPTION_KEY("keep-best", "grow.keep_best", "K"),
        ES_OPTION_KEY("batch", "grow.batch", "N"),
        ES_OPTION_KEY("step-batches", "grow.step_batches", "N"),
        ES_OPTION_KEY("validation-images", "grow.validation_images", "N"),
        ES_OPTION_KEY("reward", "reward.mode", "MODE"),
        ES_OPTION_KEY("hidden", "policy.hidden", "N"),
        ES_OPTION_KEY("data", "grow.data", "NAME"),
        ES_DATA_OPTIONS("grow"),
        ES_OPTION_KEY("aggregation", "grow.aggregation", "none|seed"),
        ES_OPTION_KEY("data-split", "grow.data_split", "whole|share"),
        ES_OPTION_KEY("pad", "grow.pad", "N"),
        ES_OPTION_KEY("flip", "grow.flip", NULL),
        ES_OPTION_KEY("amp-dtype", "grow.amp_dtype", "TYPE"),
        ES_OPTION_KEY("tf32", "grow.tf32", "on|off"),
        ES_RUN_COMMAND_OPTIONS(&grow.run),
        ES_OPTION_FLAG("json", &grow.as_json, "print the results as JSON"),
    };
    const EsOptionTable table = {
        .command = "grow",
        .usage = "[options]",
        .summary = summary,
        .example = "esper grow --task tiny --envs 16 --rounds 100 --out runs/first",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .config = &grow.config,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (grow.run.is_dry_run && grow.as_json) {
        return es_command_finish("grow", ES_FAIL(ARGUMENT, "--dry-run prints settings and figures, "
                                                           "not JSON; leave --json out"));
    }
    if (n_repeats > 0 && sweeps.n > 0) {
        return es_command_finish("grow", ES_FAIL(ARGUMENT, "--repeat and --sweep exclude each "
                                                           "other: sweep once for each --seed"));
    }
    if (sweeps.n > 0) {
        return cmd_grow_sweep(&grow.run, &table, &arguments, &sweeps, grow.as_json);
    }
    return n_repeats > 0 ? cmd_grow_repeat(&grow.run, &table, &arguments, n_repeats, grow.as_json)
                         : cmd_grow_once(&grow, &table, &arguments);
}
