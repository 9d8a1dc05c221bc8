// `esper hosts`: trains hosts side by side without growing them, and prints the accuracies they
// reach: the starting point that growth has to beat.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/statistics.h"
#include "cli/frame.h"
#include "cli/run_program.h"
#include "runs/grow/hosts_run.h"

// Without the sign that a NaN may have: people read "-nan" as something else.
static double plain(double value) { return isnan(value) ? (double)NAN : value; }

static void print_table(const EsHostsReport *report, const EsHostsSettings *settings) {
    double validation_deviation = 0, test_deviation = 0;
    double validation = es_mean(&report->validation[0].accuracy, report->n_envs,
                                sizeof *report->validation, &validation_deviation);
    double test =
        es_mean(&report->test[0].accuracy, report->n_envs, sizeof *report->test, &test_deviation);
    es_print("%d x %s, %lld parameters each, data set \"%s\", %d round%s, seed %d\n",
             report->n_envs, report->host->name, (long long)report->n_parameters,
             report->dataset->name, settings->run.n_rounds, settings->run.n_rounds == 1 ? "" : "s",
             settings->run.seed);
    printf("host   validation loss   validation %%   test %%\n");
    for (int e = 0; e < ES_MIN(report->n_envs, 16); e++) {
        printf("%4d   %15.4f   %12.2f   %6.2f\n", e, plain(report->validation[e].loss),
               plain(report->validation[e].accuracy), plain(report->test[e].accuracy));
    }
    if (report->n_envs > 16) {
        printf("        (%d more)\n", report->n_envs - 16);
    }
    if (report->n_envs > 1) {
        printf("mean                     %12.2f   %6.2f\n", plain(validation), plain(test));
        printf("std                      %12.2f   %6.2f\n", plain(validation_deviation),
               plain(test_deviation));
    }
}

static json_t *describe_mean(const EsHostResult *results, int n) {
    double spread = 0, mean = es_mean(&results[0].accuracy, n, sizeof *results, &spread);
    spread = n > 1 ? spread : NAN; // one host has no spread
    return json_pack("{s:o, s:o}", "mean", es_json_number(mean), "std", es_json_number(spread));
}

static EsStatus print_json(const EsHostsReport *report, const EsHostsSettings *settings,
                           const char *folder) {
    json_t *hosts = json_array();
    for (int e = 0; e < report->n_envs && hosts != NULL; e++) {
        json_t *host = json_pack("{s:i, s:o, s:o, s:o}", "host", e, "validation_loss",
                                 es_json_number(report->validation[e].loss), "validation_accuracy",
                                 es_json_number(report->validation[e].accuracy), "test_accuracy",
                                 es_json_number(report->test[e].accuracy));
        if (json_array_append_new(hosts, host) != 0) {
            json_decref(hosts);
            hosts = NULL;
        }
    }
    json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:i, s:i, s:o, s:o, s:o}", "run", folder, "task",
                             report->host->name, "data", report->dataset->name, "parameters",
                             (json_int_t)report->n_parameters, "seed", settings->run.seed, "rounds",
                             settings->run.n_rounds, "validation_accuracy",
                             describe_mean(report->validation, report->n_envs), "test_accuracy",
                             describe_mean(report->test, report->n_envs), "hosts", hosts);
    // a double keeps 15 digits of any decimal number: 54.3 stays 54.3
    return es_json_print(root, 15);
}

// Reports hosts whose numbers are no longer finite, once at the end.
static void warn_diverged(const EsHostsReport *report) {
    int n_diverged = 0;
    for (int e = 0; e < report->n_envs; e++) {
        n_diverged += !isfinite(report->validation[e].loss);
    }
    if (n_diverged > 0) {
        es_message(
            "warning: %d of %d hosts diverged (their loss is not finite); try a lower --rate\n",
            n_diverged, report->n_envs);
    }
}

// --- dry run ---

static EsStatus print_plan(void *hosts, const EsConfig *config, const EsRunMemory *memory) {
    double seconds = 0;
    char executor[ES_EXECUTOR_BYTES];
    const EsHostsSettings *settings = config->settings;
    ES_TRY(es_hosts_run_predict(hosts, &seconds));
    EsHostsReport report = es_hosts_run_report(hosts); // with what predicting has captured
    ES_TRY(es_run_command_print_config(config));
    es_print("\n# device      %s, %s, %d units\n", report.device->name, report.device->architecture,
             report.device->n_processors);
    es_print("# hosts       %d of %s, %lld parameters each\n", report.n_envs, report.host->name,
             (long long)report.n_parameters);
    printf("# memory      %.1f MiB parameters and optimiser, %.1f MiB activations, %.1f MiB data\n",
           (double)report.store_bytes / 1048576, (double)report.activation_bytes / 1048576,
           (double)report.dataset_bytes / 1048576);
    es_run_memory_print(memory);
    printf("# precision   %s%s\n", settings->precision == 1 ? "bf16" : "f32",
           report.plan.is_fused && settings->precision == 0 && settings->is_tf32
               ? ", convolutions in TF32"
               : "");
    es_print("# executor    %s\n", es_plan_report_executor(&report.plan, executor));
    if (report.device->kind == ES_DEVICE_CUDA) {
        printf("# launches    %s\n", report.plan.is_captured ? "captured as one" : "one by one");
    }
    printf("# time        %.2f s per round, %.0f s for %d round%s (from a few timed batches)\n",
           seconds, seconds * settings->run.n_rounds, settings->run.n_rounds,
           settings->run.n_rounds == 1 ? "" : "s");
    return ES_STATUS_OK;
}

// --- the run ---

static EsStatus create_hosts(const void *settings, void **hosts) {
    return es_hosts_run_create(settings, (EsHostsRun **)hosts);
}

static void destroy_hosts(void *hosts) { es_hosts_run_destroy(hosts); }

static EsRunWork rounds_of_hosts(void *hosts) { return es_hosts_run_work(hosts); }

static void describe(void *hosts, const void *settings, char text[ES_RUN_ABOUT_BYTES]) {
    EsHostsReport report = es_hosts_run_report(hosts);
    char executor[ES_EXECUTOR_BYTES];
    (void)settings;
    es_dataset_describe(report.dataset, text, ES_RUN_ABOUT_BYTES);
    size_t used = strlen(text);
    snprintf(text + used, ES_RUN_ABOUT_BYTES - used, "\n%.100s: %s", report.device->name,
             es_plan_report_executor(&report.plan, executor));
}

static EsStatus print_results(void *hosts, const EsRunInput *input, const char *folder) {
    const EsHostsSettings *settings = input->config->settings;
    ES_TRY(es_hosts_run_test(hosts));
    EsHostsReport report = es_hosts_run_report(hosts);
    warn_diverged(&report);
    if (input->as_json) {
        return print_json(&report, settings, folder);
    }
    print_table(&report, settings);
    return ES_STATUS_OK;
}

static const EsRunProgram program = {.name = "hosts",
                                     .smaller = "a smaller --batch",
                                     .create = create_hosts,
                                     .destroy = destroy_hosts,
                                     .rounds = rounds_of_hosts,
                                     .describe = describe,
                                     .print_plan = print_plan,
                                     .print_results = print_results};

static void print_tasks(void) {
    printf("\nhosts:\n");
    for (int i = 0; i < es_host_preset_count(); i++) {
        const EsHostSpec *host = es_host_preset_at(i);
        if (host->kind == ES_HOST_DENSE) {
            printf("  %-24s for rows (--data): layers %d, first width %d, batch %d\n", host->name,
                   host->n_blocks, host->base, host->batch);
            continue;
        }
        printf(
            "  %-24s blocks %d, first channels %d, kernel %dx%d, pools %d, batch %d, data \"%s\"\n",
            host->name, host->n_blocks, host->base, host->kernel, host->kernel, host->n_pools,
            host->batch, host->dataset);
    }
}

EsExit cmd_hosts(int argc, char **argv) {
    EsRunCommand command = {0};
    EsHostsSettings settings, before;
    int as_json;
    EsConfig config = es_hosts_run_config(&settings);
    const EsOption options[] = {
        ES_OPTION_KEY("task", "hosts.task", "NAME"),
        ES_OPTION_KEY("envs", "hosts.envs", "N"),
        ES_OPTION_KEY("rounds", "run.rounds", "N"),
        ES_OPTION_KEY("batch", "hosts.batch", "N"),
        ES_OPTION_KEY("rate", "hosts.rate", "X"),
        ES_OPTION_KEY("pad", "hosts.pad", "N"),
        ES_OPTION_KEY("flip", "hosts.flip", NULL),
        ES_OPTION_KEY("base", "hosts.base", "N"),
        ES_OPTION_KEY("blocks", "hosts.blocks", "N"),
        ES_OPTION_KEY("data", "hosts.data", "NAME"),
        ES_DATA_OPTIONS("hosts"),
        ES_OPTION_KEY("precision", "hosts.precision", "P"),
        ES_OPTION_KEY("tf32", "hosts.tf32", "on|off"),
        ES_OPTION_KEY("unfused", "hosts.unfused", NULL),
        ES_RUN_COMMAND_OPTIONS(&command),
        ES_OPTION_FLAG("json", &as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "hosts",
        .usage = "[options]",
        .summary = "Train hosts side by side without growing them, each from its own start and in "
                   "its own\norder of the samples, and print the accuracies they reach. A round "
                   "is one pass over the images.\nThe run folder keeps settings, checkpoints and "
                   "telemetry; "
                   "Ctrl-C saves and says how to go on.",
        .example = "esper hosts --task cifar_baseline --envs 3 --rounds 20",
        .print_more = print_tasks,
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .config = &config,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (command.is_dry_run && as_json) {
        return es_command_finish("hosts",
                                 ES_FAIL(ARGUMENT, "--dry-run prints settings and figures, "
                                                   "not JSON; leave --json out"));
    }
    EsStatus status = es_run_command_configure(&command, &table, &arguments, &before);
    if (status == ES_STATUS_OK) {
        es_run_command_note_unused(&table, &arguments, settings.run.device, settings.data.name);
    }
    const EsRunInput input = {&command, &config, &settings.run, &settings.n_envs, as_json};
    if (status != ES_STATUS_OK) {
        return es_command_finish("hosts", status);
    }
    EsProgramRun run = es_run_program_begin(&program, &input);
    if (run.is_started) {
        run.status = es_run_rounds(run.session.run, &run.rounds);
    }
    return es_run_program_end(&run);
}
