// The program `esper`: finds the command and runs it.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_fault.h"
#include "base/words.h"
#include "cli/frame.h"
#include "esper/log.h"
#include "esper/version.h"

static const EsCommand commands[] = {
    {"bench", "run the benchmarks, compare with a baseline", cmd_bench},
    {"data", "show what a data set holds", cmd_data},
    {"diff", "compare two runs", cmd_diff},
    {"drill", "rehearse faults of a fit and its rails", cmd_drill},
    {"export", "write a grown network as ONNX, C or PyTorch", cmd_export},
    {"fit", "grow a network on your data and keep it", cmd_fit},
    {"grow", "grow many hosts at once, under a policy", cmd_grow},
    {"hosts", "train hosts side by side, without growth", cmd_hosts},
    {"info", "describe this build and this machine", cmd_info},
    {"predict", "name images and rows with a grown network", cmd_predict},
    {"profile", "profile the steps of growth", cmd_profile},
    {"prove", "prove queries over a knowledge graph", cmd_prove},
    {"query", "query the records of a run, in SQL", cmd_query},
    {"report", "write a run as one HTML file", cmd_report},
    {"runs", "list runs, remove old ones", cmd_runs},
    {"serve", "show runs as a page in the browser", cmd_serve},
    {"signal", "watch the emergency level of a fit", cmd_signal},
    {"watch", "watch a run in the terminal", cmd_watch},
};

static void print_help(FILE *stream) {
    fprintf(stream, "usage: esper COMMAND [options]\n\n"
                    "Trains many small neural networks side by side, on a CPU or a GPU.\n\n"
                    "commands:\n");
    for (size_t i = 0; i < ES_COUNT_OF(commands); i++) {
        fprintf(stream, "  %-12s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(stream,
            "\n`esper COMMAND --help` describes a command. `esper --version` prints the version.\n"
            "ES_LOG=debug|info|warning|error sets how much is logged on stderr (default info).\n"
            "\nexample: esper info\n");
}

static EsStatus start_log(void) {
    EsLogLevel level = ES_LOG_INFO;
    const char *wanted = getenv("ES_LOG");
    if (wanted != NULL && wanted[0] != '\0' && !es_log_level_parse(wanted, &level)) {
        return ES_FAIL(ARGUMENT, "ES_LOG is \"%.100s\", not one of debug, info, warning, error",
                       wanted);
    }
    es_log_set_handler(es_message_log, NULL, level);
    return ES_STATUS_OK;
}

static EsExit fail_command(const char *name) {
    EsSpelling spelling = es_spelling_begin(name);
    for (size_t i = 0; i < ES_COUNT_OF(commands); i++) {
        es_spelling_offer(&spelling, commands[i].name);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    const char *kind = name[0] == '-' ? "option" : "command";
    EsStatus status =
        nearest != NULL
            ? ES_FAIL(ARGUMENT, "unknown %s \"%.100s\"; did you mean \"%s\"?", kind, name, nearest)
            : ES_FAIL(ARGUMENT, "unknown %s \"%.100s\"", kind, name);
    return es_command_finish("", status);
}

// Returns the command that is asked for; NULL when there is none to run, with the exit code.
static const EsCommand *choose_command(int argc, char **argv, EsExit *code) {
    *code = ES_EXIT_DONE;
    if (argc < 2) {
        print_help(stderr);
        *code = ES_EXIT_USAGE;
        return NULL;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return NULL;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("esper %s (%s)\n", ES_VERSION, es_build_commit());
        return NULL;
    }
    for (size_t i = 0; i < ES_COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return &commands[i];
        }
    }
    *code = fail_command(argv[1]);
    return NULL;
}

// Give blocks of 1 MiB and more back to the system when they are released. By default the C library
// raises that size with every block of that kind, and arrays that grow leave holes as large as
// themselves.
#define MAPPED_BYTES (1 << 20)

int main(int argc, char **argv) {
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    mallopt(M_TRIM_THRESHOLD, 2 * MAPPED_BYTES);
    es_output_start();
    es_message_start();
    EsStatus status = start_log();
    if (status == ES_STATUS_OK) {
        status = es_file_fault_start(getenv("ES_FILE_FAULT"));
    }
    if (status != ES_STATUS_OK) {
        return (int)es_output_finish(es_command_finish("", status));
    }
    EsExit code;
    const EsCommand *command = choose_command(argc, argv, &code);
    if (command != NULL) {
        code = command->run(argc - 1, argv + 1);
    }
    return (int)es_output_finish(code);
}
