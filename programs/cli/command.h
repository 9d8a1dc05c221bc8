// The commands of `esper`. Each is one thin file; main.c holds the table.
//
// To add one: write programs/<name>.c with a function of the type below, declare it here, add a
// line to the table in main.c and the file to CMakeLists.txt.
#ifndef ES_PROGRAMS_COMMAND_H
#define ES_PROGRAMS_COMMAND_H

#include "esper/status.h"

// Exit codes of the program.
typedef enum EsExit {
    ES_EXIT_DONE = 0,
    ES_EXIT_FAILED = 1,       // while running
    ES_EXIT_USAGE = 2,        // wrong usage, configuration or input
    ES_EXIT_LOST_EVENTS = 3,  // done, but a sink, stdout or stderr lost something
    ES_EXIT_INTERRUPTED = 130 // state saved
} EsExit;

// argv[0] is the command's name. Prints results to stdout, everything else to stderr.
typedef EsExit (*EsCommandFunction)(int argc, char **argv);

typedef struct EsCommand {
    const char *name;
    const char *summary; // one line for `esper --help`
    EsCommandFunction run;
} EsCommand;

// The exit code for a status; a failure is told on stderr as "esper COMMAND: detail" first, and a
// usage error is followed by where to find help.
EsExit es_command_finish(const char *command, EsStatus status);

EsExit es_bench_run(int argc, char **argv);
EsExit es_diff_run(int argc, char **argv);
EsExit es_grow_run(int argc, char **argv);
EsExit es_hosts_run(int argc, char **argv);
EsExit es_info_run(int argc, char **argv);
EsExit es_profile_run(int argc, char **argv);
EsExit es_prove_run(int argc, char **argv);
EsExit es_query_run(int argc, char **argv);
EsExit es_runs_run(int argc, char **argv);

#endif
