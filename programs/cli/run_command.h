// What the commands that train have in common: --config, --out, --resume, --dry-run, --quiet, and
// how a run's end becomes an exit code.
#ifndef ES_PROGRAMS_RUN_COMMAND_H
#define ES_PROGRAMS_RUN_COMMAND_H

#include "cli/frame.h"
#include "cli/options.h"
#include "runs/run.h"

// Filled by the options of ES_RUN_COMMAND_OPTIONS.
typedef struct EsRunCommand {
    const char *config_path, *out, *resume;
    int may_restart, is_dry_run, is_quiet;
    int is_further; // one of several runs, not the first: what they share has been told
} EsRunCommand;

#define ES_RUN_COMMAND_OPTIONS(command)                                                            \
    ES_OPTION_KEY("device", "run.device", "NAME"), ES_OPTION_KEY("threads", "run.threads", "N"),   \
        ES_OPTION_KEY("seed", "run.seed", "N"),                                                    \
        ES_OPTION_TEXT("config", &(command)->config_path, NULL, "FILE",                            \
                       "settings to begin with; what stands on the command line wins"),            \
        ES_OPTION_TEXT("out", &(command)->out, NULL, "DIR",                                        \
                       "folder for the run (default runs/<kind>-<date>-<time>-<id>)"),             \
        ES_OPTION_TEXT("resume", &(command)->resume, NULL, "DIR",                                  \
                       "go on with a run where its last checkpoint left it"),                      \
        ES_OPTION_FLAG("restart", &(command)->may_restart,                                         \
                       "with --resume: start again with round 1 where no checkpoint can be used"), \
        ES_OPTION_FLAG("dry-run", &(command)->is_dry_run,                                          \
                       "print settings, memory, plan and predicted time, then stop"),              \
        ES_OPTION_FLAG("quiet", &(command)->is_quiet, "no progress on stderr")

// Settle the table's configuration: defaults, then --config or the resumed run's, then the command
// line. Paths become absolute. `before` is room for a copy of the settings, of
// config->settings_bytes.
EsStatus es_run_command_configure(const EsRunCommand *command, const EsOptionTable *table,
                                  const EsArguments *arguments, void *before);

// Note which of the options that `hosts` and `grow` share have no effect on this device and with
// this data set ("" when the task says which).
void es_run_command_note_unused(const EsOptionTable *table, const EsArguments *arguments,
                                const char *device, const char *data);

// Print the configuration for a person, on stdout.
EsStatus es_run_command_print_config(const EsConfig *config);

// What playing a run leaves.
typedef struct EsRunPlayed {
    char folder[ES_RUN_PATH_BYTES]; // "" when it was not opened
    int64_t n_rounds_before;        // done in earlier sittings
    EsRunOutcome outcome;
} EsRunPlayed;

// Open the run, say `about` (nullable) and where it is, play its rounds, close it.
EsStatus es_run_command_play(const EsRunCommand *command, const EsConfig *config,
                             const EsRunSettings *settings, const EsRunWork *work,
                             const char *about, EsRunPlayed *played);

// Tell what the sinks lost, on stderr; the exit code of a run that ended with `status`.
EsExit es_run_command_finish(const char *name, EsStatus status, const EsRunOutcome *outcome);

#endif
