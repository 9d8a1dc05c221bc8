// The frame around the commands of `esper`: exit codes, messages on stderr, text and JSON on
// stdout, the standard streams, and the description of the build.
//
// Each command is one thin file; main.c holds their table. To add one: write
// programs/<room>/<name>.c with a function of the type EsCommandFunction, declare it here, add a
// line to the table in main.c and the file to CMakeLists.txt.
#ifndef ES_PROGRAMS_FRAME_H
#define ES_PROGRAMS_FRAME_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "esper/log.h"
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

// Returns the exit code for a status. A failure is printed on stderr first as "esper COMMAND:
// detail", a usage error with the command that shows help.
EsExit es_command_finish(const char *command, EsStatus status);

EsExit cmd_bench(int argc, char **argv);
EsExit cmd_data(int argc, char **argv);
EsExit cmd_diff(int argc, char **argv);
EsExit cmd_drill(int argc, char **argv);
EsExit cmd_export(int argc, char **argv);
EsExit cmd_fit(int argc, char **argv);
EsExit cmd_grow(int argc, char **argv);
EsExit cmd_hosts(int argc, char **argv);
EsExit cmd_info(int argc, char **argv);
EsExit cmd_predict(int argc, char **argv);
EsExit cmd_profile(int argc, char **argv);
EsExit cmd_prove(int argc, char **argv);
EsExit cmd_query(int argc, char **argv);
EsExit cmd_report(int argc, char **argv);
EsExit cmd_runs(int argc, char **argv);
EsExit cmd_serve(int argc, char **argv);
EsExit cmd_signal(int argc, char **argv);
EsExit cmd_watch(int argc, char **argv);

// --- messages on stderr ---

// A pipe without a reader or a stopped terminal blocks a plain write for ever, and with it the run.
// Here a line that finds no room is dropped and counted, and the next one that does says so.
//
// Names, paths and values come from outside: bytes that could command a terminal or are not UTF-8
// are shown as U+FFFD. No other code does that on stderr.

// Called once, before anything else; until then lines go to stderr all the same.
void es_message_start(void);

// Returns whether a line was lost for good: stderr is closed or has no reader any more. One that
// found no room is counted and reported instead.
int es_message_is_lost(void);

// Handler for es_log: waits for nothing.
void es_message_log(void *context, EsLogLevel level, const char *line);

// Prints one line of at most 4000 bytes; the format ends with its newline. Meant for messages
// before and after the work: a slow reader gets a second.
void es_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

// --- text on stdout ---

// Text from outside (names, paths, values) on stdout: bytes that could command a terminal or are
// not UTF-8 are shown as U+FFFD, as es_message does on stderr. Output for programs (--json, --csv)
// has escapes of its own. Nothing here needs memory.
//
//     es_padded_text_print(name, width, stdout);
//     es_print("%s: %d rules\n", path, n_rules);

// Columns the text takes when printed by es_padded_text_print.
int es_padded_text_width(const char *text);

// Prints it and blanks up to `width` columns.
void es_padded_text_print(const char *text, int width, FILE *stream);

// printf for a line with text from outside, of at most 16,000 bytes. Newlines at the begin and the
// end of the format are kept; all others come from outside and are shown as U+FFFD.
void es_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

// --- the standard streams ---

// The loss of a standard stream and the exit code: a command that prints ends quietly with 0
// when its reader goes away (`esper query ... | head`) and fails on any other loss (a full disk). A
// run goes on without stdout or stderr, is saved, and ends with exit code 3.

// Called once, before anything is opened or printed. Ignores SIGPIPE and SIGXFSZ, so that a write
// that cannot be done fails like one to a full disk instead of ending the process. A stream that is
// closed is put on /dev/null for reading: no file of a run can become descriptor 0, 1 or 2, and
// output there counts as lost.
void es_output_start(void);

// Takes the status of a call that prints on stdout. Its failing write is no failure of the command
// yet: es_output_finish decides and reports.
EsStatus es_output_status(EsStatus status);

// Returns whether stdout has refused something, so that printing on is of no use.
int es_output_is_lost(void);

// From here on a lost stream is a loss of the run.
void es_output_begin_run(void);

// Called once, at the end: flushes stdout, reports a loss, and returns the exit code of a command
// that ended with `code`.
EsExit es_output_finish(EsExit code);

// --- JSON ---

// Prints a command's result for --json, reals with n_digits digits, and releases `root`, which may
// be NULL. Fails when memory was short for a part of it; es_output_finish reports a stdout that
// does not take it all.
EsStatus es_json_print(json_t *root, size_t n_digits);

// --- the build ---

// For `esper info`, benchmark records and run folders.

// `git describe` of the tree at build time, with "-dirty" when it had changes; "unknown" outside a
// repository.
const char *es_build_commit(void);

// "Release", "Debug"; "Debug+sanitizers".
const char *es_build_type(void);

const char *es_build_compiler(void);

// "built in", "not built in"; "emulated on the CPU": for tests, far slower than the CPU device.
const char *es_build_cuda(void);

// "inih" as pkg-config knew it at build time; the library itself cannot be asked.
const char *es_build_inih_version(void);

// 16 hexadecimal digits that change with the program's bytes ("unknown" when it cannot be read).
char *es_build_binary_hash(char text[17]);

#endif
