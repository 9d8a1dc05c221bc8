// `esper signal`: the emergency signal of a fit with rails, once or whenever it changes.
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "esper/signal.h"

#define POLL_US 100000

static const char *level_name(int level) {
    static const char *const names[] = {"unknown", "notice", "elevated", "conservative", "halt"};
    return names[level >= 1 && level <= 4 ? level : 0];
}

// Seconds since a moment of the monotonic clock.
static double age_of(uint64_t moment_ms) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double now_ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    return (now_ms - (double)moment_ms) * 1e-3;
}

// A reason may have been written by anybody: what is not plain is shown as ?.
static void print_signal(const EsSignal *signal, int as_json) {
    char reason[ES_SIGNAL_REASON_BYTES];
    for (size_t i = 0; i < sizeof reason; i++) {
        char byte = signal->reason[i];
        reason[i] = byte == '\0' || (byte >= ' ' && byte <= '~' && byte != '"' && byte != '\\')
                        ? byte
                        : '?';
    }
    if (as_json) {
        printf("{\"raised\": %s, \"level\": %d, \"level_name\": \"%s\", \"reason\": \"%s\", "
               "\"seconds\": %.3f, \"deadline_missed\": %s, \"deadline_seconds\": %.3f, "
               "\"abandoned\": %s}\n",
               signal->is_raised ? "true" : "false", signal->level, level_name(signal->level),
               reason, signal->is_raised ? age_of(signal->raised_ms) : 0,
               signal->has_missed_deadline ? "true" : "false",
               signal->has_missed_deadline ? age_of(signal->deadline_ms) : 0,
               signal->is_abandoned ? "true" : "false");
    } else if (signal->is_raised) {
        printf("level %d (%s): %s, %.1f s ago\n", signal->level, level_name(signal->level), reason,
               age_of(signal->raised_ms));
    } else {
        printf("level 1 (notice): nothing has failed since the last good epoch\n");
    }
    if (!as_json && signal->has_missed_deadline) {
        printf("a rollback missed its deadline, %.1f s ago\n", age_of(signal->deadline_ms));
    }
    if (!as_json && signal->is_abandoned) {
        printf("the fit was killed: its process is gone, and this is what it left\n");
    }
    fflush(stdout);
}

// Prints a signal that has changed. Returns 0 when it cannot be read any more.
static int show_change(const EsSignalView *view, EsSignal *before, int as_json) {
    EsSignal now;
    if (es_signal_look(view, &now) != ES_STATUS_OK) {
        return 0;
    }
    if (memcmp(before, &now, sizeof now) != 0) {
        print_signal(&now, as_json);
        *before = now;
    }
    return 1;
}

// The view is held until the next is open: its last look says how the fit ended.
static EsStatus watch(const char *folder, int as_json) {
    EsSignal before;
    EsSignalView *view = NULL, *next = NULL;
    ES_TRY(es_signal_open(folder, &view));
    EsStatus status = es_signal_look(view, &before);
    if (status == ES_STATUS_OK) {
        print_signal(&before, as_json);
    }
    while (status == ES_STATUS_OK && !before.is_abandoned &&
           es_signal_open(folder, &next) == ES_STATUS_OK) {
        es_signal_close(view);
        view = next;
        if (!show_change(view, &before, as_json)) {
            break;
        }
        usleep(POLL_US);
    }
    if (status == ES_STATUS_OK) {
        show_change(view, &before, as_json);
    }
    es_signal_close(view);
    ES_TRY(status);
    if (!as_json && !before.is_abandoned) {
        printf("the fit has ended\n");
    }
    return ES_STATUS_OK;
}

EsExit cmd_signal(int argc, char **argv) {
    int as_json, watches;
    const EsOption table_options[] = {
        ES_OPTION_FLAG("watch", &watches, "print every change, until the fit ends"),
        ES_OPTION_FLAG("json", &as_json, "print a JSON object per line"),
    };
    const EsOptionTable table = {
        .command = "signal",
        .usage = "[--watch] [--json] RUN",
        .summary =
            "Print the emergency level of a fit with rails (esper fit --rails.on=on) that is\n"
            "going on: 1 notice, 2 elevated: an epoch failed, 3 conservative: the breaker is\n"
            "open, 4 halt; and whether a rollback missed its deadline. Both are read from\n"
            "shared memory and cost the fit nothing.",
        .example = "esper signal runs/demo --watch",
        .options = table_options,
        .n_options = ES_COUNT_OF(table_options),
        .max_positional = 1,
    };
    EsArguments arguments;
    EsExit code;
    EsSignal signal;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = arguments.n_positional < 1
                          ? ES_FAIL(ARGUMENT, "name a run folder: esper signal RUN")
                          : ES_STATUS_OK;
    if (status == ES_STATUS_OK && watches) {
        status = watch(arguments.positional[0], as_json);
    } else if (status == ES_STATUS_OK) {
        status = es_signal_read(arguments.positional[0], &signal);
        if (status == ES_STATUS_OK) {
            print_signal(&signal, as_json);
        }
    }
    return es_command_finish("signal", status);
}
