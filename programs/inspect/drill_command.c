// `esper drill`: faults put into a small fit on purpose, and whether its rails kept their promises.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "esper/drill.h"

static void print_names(void) {
    printf("\ndrills:\n");
    for (int i = 0; i < es_drill_count(); i++) {
        printf("  %s\n", es_drill_name(i));
    }
}

static void print_report(const EsDrillReport *report, double seconds) {
    printf("%s: %s (%.1f s)\n", report->name, report->has_passed ? "pass" : "FAIL", seconds);
    printf("  injected  %s\n", report->injected);
    printf("  happened  %s\n", report->happened);
    printf("  shown     %s\n", report->shown);
    if (!report->has_passed) {
        printf("  broken    %s\n", report->problem);
    }
    fflush(stdout);
}

static EsStatus run_drills(const char *name, int *n_failed) {
    int n_run = 0;
    for (int i = 0; i < es_drill_count(); i++) {
        if (strcmp(name, "all") != 0 && strcmp(name, es_drill_name(i)) != 0) {
            continue;
        }
        EsDrillReport report;
        int64_t start_ns = es_clock_ns();
        ES_TRY(es_drill_run(es_drill_name(i), &report));
        print_report(&report, es_clock_seconds_since(start_ns));
        *n_failed += !report.has_passed;
        n_run++;
    }
    return n_run > 0 ? ES_STATUS_OK
                     : ES_FAIL(ARGUMENT,
                               "there is no drill \"%.100s\"; esper drill --help lists them", name);
}

static EsStatus run_stress(int n_epochs, int seed, int *n_failed) {
    EsDrillReport report;
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_drill_stress(n_epochs, (uint64_t)seed, &report));
    print_report(&report, es_clock_seconds_since(start_ns));
    *n_failed += !report.has_passed;
    return ES_STATUS_OK;
}

EsExit cmd_drill(int argc, char **argv) {
    int n_epochs, seed;
    const EsOption table_options[] = {
        ES_OPTION_INT("epochs", &n_epochs, "1000", 1, ES_DRILL_EPOCHS_MAX, "N",
                      "of stress: epochs of the fit"),
        ES_OPTION_INT("seed", &seed, "1", 0, 2147483647, "N",
                      "of stress: which faults strike, and when"),
    };
    const EsOptionTable table = {
        .command = "drill",
        .usage = "NAME | all | stress [--epochs N] [--seed N]",
        .summary =
            "Run a small fit with rails, put a fault into it, and check what it does: events,\n"
            "counters, and the bits of its networks. Drills of the disk use a temporary folder.\n"
            "stress draws faults from a seed and counts them by name. Ends with 1 when a promise\n"
            "was broken.",
        .example = "esper drill all",
        .options = table_options,
        .n_options = ES_COUNT_OF(table_options),
        .print_more = print_names,
        .max_positional = 1,
    };
    EsArguments arguments;
    EsExit code;
    int n_failed = 0;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = arguments.n_positional < 1
                          ? ES_FAIL(ARGUMENT, "name a drill, or all: esper drill --help lists them")
                      : strcmp(arguments.positional[0], "stress") == 0
                          ? run_stress(n_epochs, seed, &n_failed)
                          : run_drills(arguments.positional[0], &n_failed);
    code = es_command_finish("drill", status);
    return code == ES_EXIT_DONE && n_failed > 0 ? ES_EXIT_FAILED : code;
}
