// `esper grow`: hosts that grow seeds, many at once, under a policy.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "growth/growth_names.h"
#include "json_number.h"
#include "message.h"
#include "run_command.h"
#include "runs/grow_run.h"

// --- results ---

// What stands in the slots of an environment: "r0c0 norm HOLDING 0.70, ...".
static void describe_slots(const EsGrowth *growth, int64_t env, char *text, size_t bytes) {
    const EsGrowthState *state = es_growth_state(growth);
    size_t used = 0;
    text[0] = '\0';
    for (int s = 0; s < state->n_slots; s++) {
        size_t i = (size_t)(env * state->n_slots + s);
        if (es_stage_in(state->seed.stage[i], ES_STAGES_LIVING) && used < bytes) {
            used += (size_t)snprintf(text + used, bytes - used, "%s%s %s %s", used > 0 ? ", " : "",
                                     es_growth_model(growth)->slots[s].name,
                                     es_blueprint_id_name(state->seed.blueprint[i]),
                                     es_stage_name(state->seed.stage[i]));
        }
    }
}

static void print_table(const EsGrowth *growth, const EsGrowSettings *settings) {
    const EsGrowthResult *results = es_growth_results(growth);
    const EsGrowthState *state = es_growth_state(growth);
    printf("last round: %d x %s, %lld parameters before growing, policy %s, seed %d\n",
           settings->n_envs, settings->task,
           (long long)es_growth_model(growth)->layout.n_host_weights, settings->policy,
           settings->run.seed);
    printf("host   validation %%   parameters   fossils   pruned   rollbacks   seeds\n");
    for (int64_t e = 0; e < ES_MIN(settings->n_envs, 16); e++) {
        char slots[512];
        describe_slots(growth, e, slots, sizeof slots);
        printf("%4d   %12.2f   %9.2f x   %7d   %6d   %9d   %s\n", (int)e,
               results[e].validation_accuracy, es_growth_parameter_ratio(growth, e),
               state->env.n_fossils[e], state->env.n_pruned[e], state->env.n_rollbacks[e], slots);
    }
    if (settings->n_envs > 16) {
        printf("        (%d more)\n", settings->n_envs - 16);
    }
}

static EsStatus print_json(const EsGrowth *growth, const EsGrowSettings *settings,
                           const char *folder) {
    const EsGrowthResult *results = es_growth_results(growth);
    const EsGrowthState *state = es_growth_state(growth);
    json_t *hosts = json_array();
    int is_complete = hosts != NULL;
    for (int64_t e = 0; e < settings->n_envs && is_complete; e++) {
        json_t *host =
            json_pack("{s:i, s:o, s:o, s:f, s:i, s:i, s:i}", "host", (int)e, "validation_loss",
                      es_json_number(results[e].validation_loss), "validation_accuracy",
                      es_json_number(results[e].validation_accuracy), "parameter_ratio",
                      es_growth_parameter_ratio(growth, e), "fossils", state->env.n_fossils[e],
                      "pruned", state->env.n_pruned[e], "rollbacks", state->env.n_rollbacks[e]);
        is_complete = host != NULL && json_array_append_new(hosts, host) == 0;
    }
    json_t *root = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "run", folder, "task",
                             settings->task, "policy", settings->policy, "seed", settings->run.seed,
                             "rounds", settings->run.n_rounds, "hosts", hosts);
    is_complete = is_complete && root != NULL &&
                  json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(10)) == 0 &&
                  printf("\n") == 1;
    json_decref(root);
    return is_complete ? ES_STATUS_OK : ES_FAIL(IO, "cannot write the result as JSON");
}

// --- what would happen ---

static EsStatus dry_run(EsGrowRun *grow, const EsConfig *config) {
    EsGrowth *growth = es_grow_run_growth(grow);
    const EsGrowthModel *model = es_growth_model(growth);
    const EsGrowSettings *settings = config->settings;
    ES_TRY(es_config_print(config, stdout));
    ES_TRY(es_growth_reset(growth, 0));
    EsGrowthTimes times = es_growth_times(growth);
    int n_steps = es_growth_settings(growth)->episode_steps;
    double step_ms = times.train_ms + times.validate_ms + times.decide_ms;
    printf("\n# host        %s, %lld parameters, room for %lld more in %d slots, %d of them\n",
           model->host.name, (long long)model->layout.n_host_weights,
           (long long)(model->layout.n_parameters - model->layout.n_host_parameters),
           model->n_slots, settings->n_envs);
    printf("# memory      %.1f MiB parameters, gradients, momentum and snapshots\n",
           4.0 * 4.0 * (double)(model->layout.n_parameters * settings->n_envs) / 1048576);
    printf("# time        %.0f ms per step without seeds, %.0f s for %d rounds of %d steps\n",
           step_ms, step_ms * n_steps * settings->run.n_rounds / 1e3, settings->run.n_rounds,
           n_steps);
    return ES_STATUS_OK;
}

// --- the run ---

static void tell_refusals(const EsGrowRun *grow) {
    const char *why = NULL;
    int64_t n_refused = es_grow_run_refusals(grow, &why);
    if (n_refused > 0) {
        es_message("note: %lld operations were refused and counted as waiting; the last because "
                   "%s (esper query RUN \"SELECT * FROM decisions WHERE refusal IS NOT NULL\")\n",
                   (long long)n_refused, why);
    }
}

static EsStatus print_results(EsGrowRun *grow, const EsGrowSettings *settings, int as_json,
                              const EsRunPlayed *played) {
    tell_refusals(grow);
    if (played->n_rounds_before >= settings->run.n_rounds) {
        es_message("all %d rounds were done before; `esper query %s` has their results\n",
                   settings->run.n_rounds, played->folder);
        return ES_STATUS_OK;
    }
    if (as_json) {
        return print_json(es_grow_run_growth(grow), settings, played->folder);
    }
    print_table(es_grow_run_growth(grow), settings);
    return ES_STATUS_OK;
}

static EsExit run_grow(const EsRunCommand *command, const EsConfig *config, int as_json) {
    const EsGrowSettings *settings = config->settings;
    EsGrowRun *grow = NULL;
    EsRunPlayed played = {.folder = ""};
    EsStatus status = es_grow_run_create(settings, &grow);
    if (status == ES_STATUS_OK && command->is_dry_run) {
        status = dry_run(grow, config);
    } else if (status == ES_STATUS_OK) {
        char text[512];
        es_dataset_describe(es_grow_run_dataset(grow), text, sizeof text);
        EsRunWork work = es_grow_run_work(grow);
        status = es_run_command_play(command, config, &settings->run, &work, text, &played);
        if (status == ES_STATUS_OK) {
            status = print_results(grow, settings, as_json, &played);
        }
    }
    es_grow_run_destroy(grow);
    return es_run_command_finish("grow", status, &played.outcome);
}

EsExit es_grow_run(int argc, char **argv) {
    EsRunCommand command;
    EsGrowSettings settings, before;
    int as_json;
    EsConfig config = es_grow_run_config(&settings);
    const EsOption options[] = {
        ES_OPTION_KEY("task", "grow.task", "NAME"),
        ES_OPTION_KEY("envs", "grow.envs", "N"),
        ES_OPTION_KEY("rounds", "run.rounds", "N"),
        ES_OPTION_KEY("episode-steps", "grow.episode_steps", "N"),
        ES_OPTION_KEY("slots", "grow.slots", "LIST"),
        ES_OPTION_KEY("max-seeds", "grow.max_seeds", "N"),
        ES_OPTION_KEY("policy", "grow.policy", "P"),
        ES_OPTION_KEY("gates", "grow.gates", "G"),
        ES_OPTION_KEY("batch", "grow.batch", "N"),
        ES_OPTION_KEY("step-batches", "grow.step_batches", "N"),
        ES_OPTION_KEY("validation-images", "grow.validation_images", "N"),
        ES_OPTION_KEY("data", "grow.data", "NAME"),
        ES_OPTION_KEY("folder", "grow.folder", "DIR"),
        ES_OPTION_KEY("data-seed", "grow.data_seed", "N"),
        ES_RUN_COMMAND_OPTIONS(&command),
        ES_OPTION_FLAG("json", &as_json, "print the last round as JSON"),
    };
    const EsOptionTable table = {
        .command = "grow",
        .usage = "[options]",
        .summary =
            "Grow many hosts at once: each trains, and the policy may put seeds (small modules) "
            "into its\nslots, blend them in, keep them or take them out. A round is one episode "
            "of every host. The run\nfolder keeps everything: `esper query RUN \"SELECT * FROM "
            "seeds\"`.\n\nA schedule (--policy script:FILE) is a text file, one operation per "
            "line:\n  # step  environments  operation  arguments\n  1       *             "
            "germinate  "
            "r0c1 conv_light style=sigmoid_add tempo=standard\n  9       0-3,7         fossilize  "
            "r0c1\n  12      *             prune      r0c0 speed=fast curve=cosine",
        .example = "esper grow --task tiny --envs 16 --rounds 2 --policy script:plan.txt",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .config = &config,
    };
    EsArguments arguments;
    EsStatus status = es_options_parse(&table, argc, argv, &arguments);
    if (status == ES_STATUS_OK && arguments.wants_help) {
        es_options_print_help(&table, stdout);
        return ES_EXIT_DONE;
    }
    if (status == ES_STATUS_OK) {
        status = es_run_command_configure(&command, &table, &arguments, &before);
    }
    return status == ES_STATUS_OK ? run_grow(&command, &config, as_json)
                                  : es_command_finish("grow", status);
}
