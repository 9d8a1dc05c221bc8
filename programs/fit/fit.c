// `esper fit`: grows networks on the user's data and keeps the best one.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/words.h"
#include "cli/run_program.h"
#include "runs/fit/fit_run.h"

// classes whose confusions are printed as a table; with more, the worst pairs are
#define TABLE_CLASSES 12
#define WORST_PAIRS   10
#define NAME_COLUMNS  14

// --- results for people ---

static const char *class_name(const EsGrownNetwork *network, int k) {
    return network->spec.class_names[k];
}

static void print_recalls(const EsGrownNetwork *network, const EsNetworkScore *score) {
    printf("\nrecall by class:\n");
    for (int k = 0; k < score->n_classes; k++) {
        double recall = es_network_score_recall(score, k);
        if (isfinite(recall)) {
            es_print("  %-24.60s %6.2f %%\n", class_name(network, k), recall);
        }
    }
}

static void print_confusions(const EsGrownNetwork *network, const EsNetworkScore *score) {
    int K = score->n_classes;
    printf("\nconfusions (row: the sample's class; column: the class it was taken for):\n");
    printf("  %-*s", NAME_COLUMNS, "");
    for (int k = 0; k < K; k++) {
        printf(" %6d", k);
    }
    printf("\n");
    for (int k = 0; k < K; k++) {
        es_print("  %2d %-*.*s", k, NAME_COLUMNS - 3, NAME_COLUMNS - 3, class_name(network, k));
        for (int j = 0; j < K; j++) {
            printf(" %6lld", (long long)score->confused[k * K + j]);
        }
        printf("\n");
    }
}

// The pairs of classes that were confused most, the worst first.
static void print_worst_pairs(const EsGrownNetwork *network, const EsNetworkScore *score) {
    int K = score->n_classes;
    int64_t below = INT64_MAX;
    printf("\nmost frequent confusions:\n");
    for (int printed = 0; printed < WORST_PAIRS;) {
        int64_t next = 0;
        for (int64_t i = 0; i < (int64_t)K * K; i++) {
            int is_error = i / K != i % K && score->confused[i] < below;
            next = is_error && score->confused[i] > next ? score->confused[i] : next;
        }
        if (next == 0) {
            return;
        }
        for (int64_t i = 0; i < (int64_t)K * K && printed < WORST_PAIRS; i++) {
            if (i / K != i % K && score->confused[i] == next) {
                es_print("  %6lld x %.60s taken for %.60s\n", (long long)next,
                         class_name(network, (int)(i / K)), class_name(network, (int)(i % K)));
                printed++;
            }
        }
        below = next;
    }
}

static void print_variant(const EsFitComparison *comparison, EsFitVariant variant) {
    const EsInterval *mean = &comparison->mean[variant], *other = &comparison->difference[variant];
    int n_diverged = comparison->n_diverged[variant];
    char interval[32] = "", difference[48] = "";
    if (isnan(mean->mean)) {
        printf("  %-38s diverged\n", es_fit_variant_meaning(variant));
        return;
    }
    if (isfinite(mean->low)) {
        snprintf(interval, sizeof interval, "[%.2f, %.2f]", mean->low, mean->high);
    }
    if (variant != ES_FIT_FIT && isfinite(other->low)) {
        snprintf(difference, sizeof difference, "%+.2f [%+.2f, %+.2f]", other->mean, other->low,
                 other->high);
    } else if (variant != ES_FIT_FIT && isfinite(other->mean)) {
        snprintf(difference, sizeof difference, "%+.2f", other->mean);
    }
    printf("  %-38s %6.2f  %-16s %-22s %10.0f", es_fit_variant_meaning(variant), mean->mean,
           interval, difference, comparison->n_parameters[variant]);
    if (n_diverged > 0) {
        printf("  without %d seed%s that diverged", n_diverged, n_diverged == 1 ? "" : "s");
    }
    printf("\n");
}

// The winner is printed first.
static void print_comparison(const EsFitComparison *comparison) {
    printf("\ncomparison, %d seed%s, test accuracy in %%, same epochs and recipe:\n"
           "  %-38s %6s  %-16s %-22s %10s\n",
           comparison->n_seeds, comparison->n_seeds == 1 ? "" : "s", "", "mean", "  [95 %]",
           "against the fit", "parameters");
    for (int k = 0; k < ES_FIT_VARIANTS; k++) {
        print_variant(comparison, (EsFitVariant)comparison->order[k]);
    }
}

static void print_summary(const EsFitReport *report, const char *folder) {
    const EsNetworkScore *score = report->score;
    const EsGrownNetwork *network = report->network;
    printf("\nthe network:\n");
    es_grown_network_draw(network, stdout);
    if (score != NULL) {
        print_recalls(network, score);
        if (score->n_classes <= TABLE_CLASSES) {
            print_confusions(network, score);
        } else {
            print_worst_pairs(network, score);
        }
        printf("\ntest accuracy %.2f %% [%.2f, %.2f] on %lld samples that decided nothing; "
               "validation %.2f %%\n",
               score->accuracy, score->low, score->high, (long long)score->n,
               report->best_accuracy);
    } else {
        printf("\nvalidation accuracy %.2f %%; the data has no test samples\n",
               report->best_accuracy);
    }
    if (report->comparison != NULL) {
        print_comparison(report->comparison);
    }
    es_print("%lld parameters; candidate %lld, epoch %lld; written to %s/" ES_RUN_NETWORKS "/1\n",
             (long long)network->n_parameters, (long long)report->best_candidate,
             (long long)report->best_epoch, folder);
    if (report->halt_reason != NULL) {
        char word[512];
        es_print("the rails ended the fit at epoch %lld (%s); go on with: esper fit --resume %s\n",
                 (long long)report->halt_epoch, report->halt_reason,
                 es_shell_word(folder, word, sizeof word));
    }
    es_print("predict with it: esper predict %s INPUT...\n", folder);
}

static EsStatus print_json(const EsFitReport *report, const EsFitSettings *settings,
                           const char *folder) {
    const EsNetworkScore *score = report->score;
    const EsGrownNetwork *network = report->network;
    json_t *root =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:s, s:o, s:o}", "run", folder, "data",
                  report->dataset->name, "parameters", (json_int_t)network->n_parameters, "epoch",
                  (json_int_t)report->best_epoch, "candidate", (json_int_t)report->best_candidate,
                  "seed", settings->run.seed, "epochs", settings->run.n_rounds, "policy",
                  report->policy, "validation_accuracy", es_json_number(report->best_accuracy),
                  "test_accuracy", es_json_number(score != NULL ? score->accuracy : NAN));
    if (report->halt_reason != NULL) {
        json_object_set_new(root, "halted",
                            json_pack("{s:I, s:s}", "epoch", (json_int_t)report->halt_epoch,
                                      "reason", report->halt_reason));
    }
    if (score != NULL && root != NULL) {
        json_object_set_new(
            root, "test_interval",
            json_pack("[o, o]", es_json_number(score->low), es_json_number(score->high)));
        json_t *recalls = json_array();
        for (int k = 0; k < score->n_classes; k++) {
            json_array_append_new(recalls, es_json_number(es_network_score_recall(score, k)));
        }
        json_object_set_new(root, "recall", recalls);
    }
    for (int v = 0; report->comparison != NULL && root != NULL && v < ES_FIT_VARIANTS; v++) {
        const EsFitComparison *comparison = report->comparison;
        const EsInterval *mean = &comparison->mean[v], *other = &comparison->difference[v];
        json_t *row = json_pack("{s:[o, o, o], s:[o, o, o], s:i}", "test_accuracy",
                                es_json_number(mean->mean), es_json_number(mean->low),
                                es_json_number(mean->high), "against_fit",
                                es_json_number(other->mean), es_json_number(other->low),
                                es_json_number(other->high), "diverged", comparison->n_diverged[v]);
        json_object_set_new(root, es_fit_variant_name((EsFitVariant)v), row);
    }
    return es_json_print(root, 15);
}

// --- the run ---

static EsStatus create_fit(const void *settings, void **fit) {
    return es_fit_run_create(settings, (EsFitRun **)fit);
}

static void destroy_fit(void *fit) { es_fit_run_destroy(fit); }

static EsStatus find_fit_need(void *fit, EsRunNeed *need) { return es_fit_run_need(fit, need); }

static EsStatus choose(void *fit, void *settings) { return es_fit_run_choose(fit, settings); }

static const char *find_input_hash(void *fit) { return es_fit_run_data_hash(fit); }

static EsRunWork rounds_of_fit(void *fit) { return es_fit_run_work(fit); }

#define REASON_BYTES 160

// " (as many as ...)", or "" where they were asked for.
static const char *write_epochs_reason(const EsFitReport *report, const EsFitSettings *settings,
                                       char text[REASON_BYTES]) {
    text[0] = '\0';
    if (report->epoch_seconds > 0) {
        snprintf(text, REASON_BYTES,
                 " (as many as --max-seconds %g allows; with all candidates one takes %.1f s)",
                 (double)settings->max_seconds, report->epoch_seconds);
    }
    return text;
}

static void describe(void *fit, const void *settings, char text[ES_RUN_ABOUT_BYTES]) {
    const EsFitSettings *fitted = settings;
    EsFitReport report = es_fit_run_report(fit);
    es_dataset_describe(report.dataset, text, ES_RUN_ABOUT_BYTES);
    size_t used = strlen(text);
    char reason[REASON_BYTES];
    snprintf(text + used, ES_RUN_ABOUT_BYTES - used,
             "%s\n%d candidates, %d epochs of %lld updates%s; grown by %s (%s)\n", report.hosts,
             fitted->n_candidates, fitted->run.n_rounds, (long long)report.n_updates,
             write_epochs_reason(&report, fitted, reason), report.policy, report.policy_reason);
}

static EsStatus print_plan(void *fit, const EsConfig *config, const EsRunMemory *memory) {
    double seconds = 0;
    EsFitReport report = es_fit_run_report(fit);
    const EsFitSettings *settings = config->settings;
    ES_TRY(es_fit_run_predict(fit, &seconds));
    ES_TRY(es_run_command_print_config(config));
    es_print("\n# hosts       %s\n", report.hosts);
    es_print("# policy      %s: %s\n", report.policy, report.policy_reason);
    es_run_memory_print(memory);
    printf("# time        %.1f s for the first of %d epochs, with all %d candidates; half of them "
           "is dropped again and again in the first third\n",
           seconds, settings->run.n_rounds, settings->n_candidates);
    return ES_STATUS_OK;
}

static EsStatus print_results(void *fit, const EsRunInput *input, const char *folder) {
    EsFitReport report = es_fit_run_report(fit);
    if (input->as_json) {
        return print_json(&report, input->config->settings, folder);
    }
    print_summary(&report, folder);
    return ES_STATUS_OK;
}

static void print_stopped(void *fit, const char *folder) {
    EsFitReport report = es_fit_run_report(fit);
    if (report.network != NULL) {
        es_message(
            "the best network so far, %.2f %% of the validation samples and %lld parameters, "
            "is in %s/" ES_RUN_NETWORKS "/1\n",
            report.best_accuracy, (long long)report.network->n_parameters, folder);
    }
}

static const EsRunProgram program = {.name = "fit",
                                     .smaller = "a smaller --batch",
                                     .create = create_fit,
                                     .destroy = destroy_fit,
                                     .find_need = find_fit_need,
                                     .choose = choose,
                                     .rounds = rounds_of_fit,
                                     .describe = describe,
                                     .print_plan = print_plan,
                                     .print_results = print_results,
                                     .print_stopped = print_stopped,
                                     .input_hash = find_input_hash};

// Augmentation that was asked for where there are no images.
static void note_ignored(const EsFitReport *report, const EsFitSettings *settings) {
    EsFitSettings usual;
    es_fit_run_config(&usual);
    int is_changed = settings->recipe.pad != usual.recipe.pad ||
                     settings->recipe.flip != usual.recipe.flip ||
                     settings->recipe.erase != usual.recipe.erase;
    if (report->dataset->kind == ES_DATASET_ROWS && is_changed) {
        es_message("note: pad, flip and erase have no effect on rows of numbers\n");
    }
}

// Epochs that fail for a reason that repeats are undone until the last.
static void warn_endless(const EsRailsSettings *rails) {
    if (rails->is_on && rails->rollback && rails->halt_failures == 0) {
        es_message("warning: rails.rollback is on and rails.halt_failures is 0: a fault that "
                   "repeats is undone again and again, until the last epoch; "
                   "--rails.halt_failures=5 ends such a fit\n");
    }
}

// On stderr: results are the same in every run, times are not.
static void print_times(const EsRunTimes *times) {
    char writes[96] = "";
    if (times->n_writes > 0) {
        snprintf(writes, sizeof writes, "; beside them %lld durable writes: p50 %.3g, p95 %.3g ms",
                 (long long)times->n_writes, times->write_p50_ms, times->write_p95_ms);
    }
    es_message("epochs: first %.3g ms, then p50 %.3g, p95 %.3g, p99 %.3g ms%s\n", times->first_ms,
               times->p50_ms, times->p95_ms, times->p99_ms, writes);
}

// A fit that the rails ended is no success, though its network is written.
static EsExit end_fit(EsProgramRun *run) {
    EsFitReport report = {0};
    EsRunTimes times = {0};
    if (run->is_started) {
        report = es_fit_run_report(run->work);
        times = report.times != NULL ? *report.times : times;
    }
    EsExit code = es_run_program_end(run);
    if (times.n_rounds > 0 && !run->input->command->is_quiet) {
        print_times(&times);
    }
    if (code != ES_EXIT_DONE || report.halt_reason == NULL) {
        return code;
    }
    es_message("esper fit: the rails ended the fit at epoch %lld: %s\n",
               (long long)report.halt_epoch, report.halt_reason);
    return ES_EXIT_FAILED;
}

EsExit cmd_fit(int argc, char **argv) {
    EsRunCommand command = {0};
    EsFitSettings settings, before;
    int as_json;
    EsConfig config = es_fit_run_config(&settings);
    const EsOption options[] = {
        ES_OPTION_KEY("data", "fit.data", "DATA"),
        ES_OPTION_KEY("max-params", "fit.max_params", "N"),
        ES_OPTION_KEY("aggregation", "fit.aggregation", "none|seed"),
        ES_OPTION_KEY("epochs", "run.rounds", "N"),
        ES_OPTION_KEY("candidates", "fit.candidates", "K"),
        ES_OPTION_KEY("policy", "fit.policy", "NAME"),
        ES_OPTION_KEY("max-seconds", "fit.max_seconds", "X"),
        ES_OPTION_KEY("target-accuracy", "fit.target_accuracy", "X"),
        ES_OPTION_KEY("compare", "fit.compare", "SEEDS"),
        ES_OPTION_KEY("task", "fit.task", "NAME"),
        ES_DATA_OPTIONS("fit"),
        ES_OPTION_KEY("batch", "fit.batch", "N"),
        ES_OPTION_KEY("epoch-batches", "fit.epoch_batches", "N"),
        ES_OPTION_KEY("rate", "fit.rate", "X"),
        ES_OPTION_KEY("pad", "fit.pad", "N"),
        ES_OPTION_KEY("flip", "fit.flip", "on|off"),
        ES_RUN_COMMAND_OPTIONS(&command),
        ES_OPTION_FLAG("json", &as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "fit",
        .usage = "--data DATA [options]",
        .summary =
            "Grow a network on your data. Several candidates train side by side, each from its "
            "own\n"
            "start; a policy puts seeds into them within --max-params; weak candidates are "
            "dropped.\n"
            "The best network by validation is in the run folder from the first epoch on, and the\n"
            "test samples are looked at once, at the end. DATA is a folder of images with a\n"
            "sub-folder per class, a .npy array, a .csv table, IDX or CIFAR-10 files, or\n"
            "fashion-mnist; `esper data DATA` shows how it is read.\n"
            "`mpirun -n R esper fit ...` shares the candidates among R processes, with the same "
            "bits.\n"
            "Ctrl-C saves, keeps the best so far and says how to go on. With --resume,\n"
            "--max-seconds, --target-accuracy and --compare may be changed.",
        .example = "esper fit --data photos/ --max-params 50000 --epochs 30",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .config = &config,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = es_run_command_configure(&command, &table, &arguments, &before);
    if (status != ES_STATUS_OK) {
        return es_command_finish("fit", status);
    }
    const EsRunInput input = {&command, &config, &settings.run, &settings.n_candidates, as_json};
    warn_endless(&settings.rails);
    EsProgramRun run = es_run_program_begin(&program, &input);
    if (run.is_started) {
        EsFitReport report = es_fit_run_report(run.work);
        note_ignored(&report, &settings);
        run.status = es_run_rounds(run.session.run, &run.rounds);
    }
    return end_fit(&run);
}
