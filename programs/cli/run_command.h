// The common part of commands that train: --config, --out, --resume, --dry-run, --quiet, a session
// of a run, and its exit code. run_program.h puts them in order.
#ifndef ES_PROGRAMS_RUN_COMMAND_H
#define ES_PROGRAMS_RUN_COMMAND_H

#include "cli/frame.h"
#include "cli/options.h"
#include "runs/run.h"

// Filled by the options of ES_RUN_COMMAND_OPTIONS.
typedef struct EsRunCommand {
    const char *config_path, *out, *resume;
    int may_restart, is_dry_run, is_quiet;
    int is_further; // one of several runs, not the first: their common part has been printed
    int has_ranks;  // those of the settings are open, and stay so
} EsRunCommand;

#define ES_RUN_COMMAND_OPTIONS(command)                                                            \
    ES_OPTION_KEY("device", "run.device", "NAME"), ES_OPTION_KEY("threads", "run.threads", "N"),   \
        ES_OPTION_KEY("seed", "run.seed", "N"),                                                    \
        ES_OPTION_TEXT("config", &(command)->config_path, NULL, "FILE",                            \
                       "read settings from FILE; options on the command line win"),                \
        ES_OPTION_TEXT("out", &(command)->out, NULL, "DIR",                                        \
                       "folder for the run (default runs/<kind>-<date>-<time>-<id>)"),             \
        ES_OPTION_TEXT("resume", &(command)->resume, NULL, "DIR",                                  \
                       "resume a run from its last checkpoint"),                                   \
        ES_OPTION_FLAG("restart", &(command)->may_restart,                                         \
                       "with --resume: start over if no checkpoint is usable"),                    \
        ES_OPTION_FLAG("dry-run", &(command)->is_dry_run,                                          \
                       "print settings, memory, plan and predicted time, then stop"),              \
        ES_OPTION_FLAG("quiet", &(command)->is_quiet, "no progress on stderr")

// How a data set is read: keys of ES_DATA_CONFIG_KEYS beside "data".
#define ES_DATA_OPTIONS(section)                                                                   \
    ES_OPTION_KEY("folder", section ".folder", "DIR"),                                             \
        ES_OPTION_KEY("data-seed", section ".data_seed", "N"),                                     \
        ES_OPTION_KEY("image-size", section ".image_size", "N"),                                   \
        ES_OPTION_KEY("label", section ".label", "COLUMN"),                                        \
        ES_OPTION_KEY("labels", section ".labels", "FILE")

// Completes the table's configuration: defaults, then --config or the resumed run's, then the
// command line. Paths become absolute. `before` is room for a copy of the settings, of
// config->settings_bytes.
EsStatus es_run_command_configure(const EsRunCommand *command, const EsOptionTable *table,
                                  const EsArguments *arguments, void *before);

// Makes the paths in the settings absolute, as es_run_command_configure does.
EsStatus es_run_command_make_absolute(const EsConfig *config);

// Notes which of the options that `hosts` and `grow` share have no effect on this device and with
// this data set ("" when the task says which).
void es_run_command_note_unused(const EsOptionTable *table, const EsArguments *arguments,
                                const char *device, const char *data);

// Prints the configuration for a person, on stdout.
EsStatus es_run_command_print_config(const EsConfig *config);

// A run from its opening to its end, in one process.
typedef struct EsRunSession {
    EsRun *run;                     // owned; NULL when it is closed, and in a dry run
    char folder[ES_RUN_PATH_BYTES]; // "" until it has started
    int64_t n_rounds_before;        // done in earlier sessions
    EsRunOutcome outcome;           // once it is closed
} EsRunSession;

// Opens the run, so that a folder or lock that cannot be had is known before the work is built; a
// dry run opens none. config must outlive the session.
EsStatus es_run_command_open(const EsRunCommand *command, const EsConfig *config,
                             const EsRunSettings *settings, EsRunSession *session);

// Starts the run, prints `about` (nullable) and its folder. es_run_rounds comes next.
EsStatus es_run_command_start(const EsRunCommand *command, const EsRunSettings *settings,
                              const char *about, EsRunSession *session);

// Closes the run, unless that was done before; returns `status`, or that of a failing close.
EsStatus es_run_command_close(EsRunSession *session, EsStatus status);

// Prints the losses of the sinks on stderr and returns the exit code of a run that ended with
// `status`.
EsExit es_run_command_finish(const char *name, EsStatus status, const EsRunOutcome *outcome);

#endif
