// Settings of a run from file, resumed run and command line, paths made absolute; and the way from
// an open run to an exit code.
#include "cli/run_command.h"

#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config_value.h"
#include "base/file.h"
#include "base/macros.h"
#include "base/words.h"
#include "cli/frame.h"
#include "control/policy/policy.h"
#include "esper/version.h"
#include "runs/grow/grow_run.h"

// --- absolute paths ---

#define SCRIPT "script:"

static EsStatus make_absolute(const EsConfig *config, const EsConfigKey *key,
                              const char *relative) {
    char *path = realpath(relative, NULL);
    if (path == NULL) {
        return ES_FAIL(INPUT, "[%s] %s: %s: %s", key->section, key->key, relative, strerror(errno));
    }
    EsStatus status = es_config_value_parse(key, config->settings, path, key->key);
    free(path);
    return status;
}

// Finds the path in the name of a policy or a host; NULL: it is a name.
static const char *find_path(const EsConfigKey *key, const char *name) {
    size_t length = strlen(name);
    if (strcmp(key->key, "task") == 0) {
        int is_file =
            strchr(name, '/') != NULL || (length > 4 && strcmp(name + length - 4, ".ini") == 0);
        return is_file ? name : NULL;
    }
    switch (es_policy_parse_kind(name)) {
    case ES_POLICY_SCRIPT:
        return name + strlen(SCRIPT);
    case ES_POLICY_LEARNED:
        return strcmp(name, "ppo") != 0 && es_grow_baseline_parse(name) == ES_BASELINE_NONE ? name
                                                                                            : NULL;
    default:
        return NULL;
    }
}

// Add a name, its path in full where it has one, to the list.
static void add_name(const EsConfigKey *key, const char *name, char *list, size_t bytes) {
    const char *relative = find_path(key, name);
    char *path = relative != NULL ? realpath(relative, NULL) : NULL;
    size_t used = strlen(list);
    int n_prefix = path != NULL ? (int)(relative - name) : 0;
    snprintf(list + used, bytes - used, "%s%.*s%s", used > 0 ? "," : "", n_prefix, name,
             path != NULL ? path : name);
    free(path);
}

// One name, or several separated by commas, with blanks around them that do not count.
static void make_names_absolute(const EsConfig *config, const EsConfigKey *key, const char *names) {
    char list[ES_CONFIG_VALUE_BYTES], absolute[4 * ES_CONFIG_VALUE_BYTES] = "", *rest = NULL;
    const char *separators = strcmp(key->key, "against") == 0 ? "," : "\n";
    snprintf(list, sizeof list, "%s", names);
    for (char *name = strtok_r(list, separators, &rest); name != NULL;
         name = strtok_r(NULL, separators, &rest)) {
        name += strspn(name, " \t");
        size_t length = strlen(name);
        while (length > 0 && strchr(" \t", name[length - 1]) != NULL) {
            name[--length] = '\0';
        }
        if (length > 0) {
            add_name(key, name, absolute, sizeof absolute);
        }
    }
    EsStatus ignored = es_config_value_parse(key, config->settings, absolute, key->key);
    (void)ignored; // the value is then as it was
}

static int is_data_name(const char *value) {
    static const char *const names[] = {"tiny", "generated", "cifar10", "idx", "fashion-mnist"};
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        if (strcmp(value, names[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

// A data set that is a file or a folder, or a file of labels; a missing one is reported where it is
// opened.
static void make_data_absolute(const EsConfig *config, const EsConfigKey *key, const char *value) {
    char *path = realpath(value, NULL);
    if (path != NULL) {
        EsStatus ignored = es_config_value_parse(key, config->settings, path, key->key);
        (void)ignored; // the value is then as it was
        free(path);
    }
}

// Makes the paths of the configuration absolute, since a run may be resumed from anywhere: folders
// of data ("folder"), data sets ("data", "labels"), hosts described in a file ("task"), policies
// and schedules ("policy", "against"). INPUT when a folder is missing; a missing file is reported
// where it is opened. A list that would grow too long for a line of config.ini stays as it is.
EsStatus es_run_command_make_absolute(const EsConfig *config) {
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        const char *value = (const char *)config->settings + key->offset;
        if (key->type != ES_CONFIG_TYPE_TEXT || value[0] == '\0') {
            continue;
        }
        // rules without a slash are a file of their folder
        int is_path = strcmp(key->key, "folder") == 0 ||
                      (strcmp(key->key, "rules") == 0 && strchr(value, '/') != NULL);
        if (is_path && value[0] != '/') {
            ES_TRY(make_absolute(config, key, value));
        } else if ((strcmp(key->key, "data") == 0 && !is_data_name(value)) ||
                   strcmp(key->key, "labels") == 0) {
            make_data_absolute(config, key, value);
        } else if (strcmp(key->key, "task") == 0 || strcmp(key->key, "policy") == 0 ||
                   strcmp(key->key, "against") == 0) {
            make_names_absolute(config, key, value);
        }
    }
    return ES_STATUS_OK;
}

// --- settings ---

#define KIND_BYTES 32

static int note_kind(void *context, const char *section, const char *name, const char *value) {
    char *kind = context;
    if (strcmp(section, "run") == 0 && strcmp(name, "kind") == 0) {
        snprintf(kind, KIND_BYTES, "%s", value);
    }
    return 1;
}

// A file that cannot be read is wrong input when the user has named it. One of another kind of run
// is reported as that, not by the first section that is unknown here.
static EsStatus load_config(const EsConfig *config, const char *path) {
    char kind[KIND_BYTES] = "";
    EsStatus status = es_config_load(config, path);
    if (status == ES_STATUS_IO) {
        return ES_FAIL(INPUT, "--config: %s", es_status_detail());
    }
    if (status != ES_STATUS_CONFIG) {
        return status;
    }
    const char *wanted = es_run_settings_kind(config);
    ini_parse(path, note_kind, kind);
    if (kind[0] != '\0' && strcmp(kind, wanted) != 0) {
        return ES_FAIL(CONFIG,
                       "%s has the settings of a run of kind \"%.30s\"; this command takes those "
                       "of kind \"%s\"",
                       path, kind, wanted);
    }
    // the detail begins with the file's name alone
    const char *slash = strrchr(path, '/');
    return ES_FAIL(CONFIG, "%.*s%s", slash != NULL ? (int)(slash + 1 - path) : 0, path,
                   es_status_detail());
}

// A run of another kind has sections that this command does not know; its own command does.
static EsStatus check_resumed_kind(const EsRunCommand *command, const EsConfig *config) {
    EsRunSummary summary;
    ES_TRY(es_run_summarise(command->resume, &summary));
    const char *wanted = es_run_settings_kind(config);
    // "?" is no kind: loading reports the file's fault
    char word[600];
    return strcmp(summary.kind, wanted) == 0 || strcmp(summary.kind, "?") == 0
               ? ES_STATUS_OK
               : ES_FAIL(CONFIG, "%s is a run of kind %s; `esper %s --resume %s` goes on with it",
                         command->resume, summary.kind, es_run_kind_command(summary.kind),
                         es_shell_word(command->resume, word, sizeof word));
}

EsStatus es_run_command_configure(const EsRunCommand *command, const EsOptionTable *table,
                                  const EsArguments *arguments, void *before) {
    const EsConfig *config = table->config;
    if (command->resume == NULL) {
        if (command->may_restart) {
            return ES_FAIL(ARGUMENT, "--restart goes with --resume");
        }
        if (command->config_path != NULL) {
            ES_TRY(load_config(config, command->config_path));
        }
        ES_TRY(es_options_apply(table, arguments));
        ES_TRY(es_run_settings_check_kind(config));
        return es_run_command_make_absolute(config);
    }
    if (command->out != NULL || command->config_path != NULL) {
        return ES_FAIL(ARGUMENT,
                       "--resume goes on in its own folder with its own settings; %s has "
                       "no place beside it",
                       command->out != NULL ? "--out" : "--config");
    }
    char path[ES_RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%.4000s/config.ini", command->resume);
    if (access(path, F_OK) != 0) {
        return ES_FAIL(INPUT, "%s is not a run folder (config.ini is missing)", command->resume);
    }
    ES_TRY(check_resumed_kind(command, config));
    ES_TRY(es_config_load(config, path));
    ES_TRY(es_run_settings_check_kind(config));
    memcpy(before, config->settings, config->settings_bytes);
    ES_TRY(es_options_apply(table, arguments));
    ES_TRY(es_run_command_make_absolute(config));
    return es_run_settings_check_resumed(config, before, config->settings);
}

void es_run_command_note_unused(const EsOptionTable *table, const EsArguments *arguments,
                                const char *device, const char *data) {
    if (strcmp(device, "cpu") == 0) {
        es_options_note_unused(table, arguments, "tf32", "on the CPU");
    }
    if (strcmp(data, "cifar10") == 0 || strcmp(data, "idx") == 0) {
        es_options_note_unused(table, arguments, "data-seed",
                               "on data that come with their own splits");
    }
}

EsStatus es_run_command_print_config(const EsConfig *config) {
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *memory = open_memstream(&text, &text_bytes);
    if (memory == NULL) {
        return ES_FAIL(MEMORY, "no memory to print the configuration");
    }
    EsStatus status = es_config_print(config, memory);
    EsStatus closed = es_memory_stream_close(memory, &text);
    status = status == ES_STATUS_OK ? closed : status;
    // no value holds a newline: es_config_print has refused control characters
    for (char *line = text; status == ES_STATUS_OK && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + (line[length] == '\n');
        line[length] = '\0';
        es_padded_text_print(line, 0, stdout);
        putchar('\n');
        line = next;
    }
    free(text);
    return status;
}

// --- sessions ---

// A terminal that understands how to clear the rest of a line.
static int is_terminal(void) {
    const char *name = getenv("TERM");
    return isatty(STDERR_FILENO) && name != NULL && name[0] != '\0' && strcmp(name, "dumb") != 0;
}

static void print_start(const EsRunCommand *command, const EsRunSettings *settings,
                        const char *about, const EsRunSession *session) {
    const char *word = es_run_kind_round(settings->kind);
    char place[80] = "";
    if (command->resume != NULL && session->n_rounds_before >= settings->n_rounds) {
        snprintf(place, sizeof place, "; all %d %ss are done", settings->n_rounds, word);
    } else if (command->resume != NULL) {
        snprintf(place, sizeof place, "; it goes on with %s %lld of %d", word,
                 (long long)session->n_rounds_before + 1, settings->n_rounds);
    }
    // a message is one line
    for (const char *line = about; line != NULL && *line != '\0';) {
        int length = (int)strcspn(line, "\n");
        es_message("%.*s\n", length, line);
        line += length + (line[length] == '\n');
    }
    es_message("run folder: %s%s\n", session->folder, place);
}

EsStatus es_run_command_open(const EsRunCommand *command, const EsConfig *config,
                             const EsRunSettings *settings, EsRunSession *session) {
    char build[128];
    *session = (EsRunSession){.run = NULL};
    if (command->is_dry_run) {
        return ES_STATUS_OK;
    }
    snprintf(build, sizeof build, "esper %s %.40s, %.60s", ES_VERSION, es_build_commit(),
             es_build_compiler());
    EsRunOptions options = {.config = config,
                            .settings = settings,
                            .out = command->out,
                            .resume = command->resume,
                            .may_restart = command->may_restart,
                            .progress = command->is_quiet ? NULL : stderr,
                            .is_terminal = is_terminal(),
                            .build = build};
    return es_run_open(&options, &session->run);
}

EsStatus es_run_command_close(EsRunSession *session, EsStatus status) {
    EsRun *run = session->run;
    session->run = NULL;
    return es_run_close(run, status, &session->outcome);
}

EsStatus es_run_command_start(const EsRunCommand *command, const EsRunSettings *settings,
                              const char *about, EsRunSession *session) {
    EsRun *run = session->run;
    ES_TRY(es_run_start(run));
    es_output_begin_run();
    snprintf(session->folder, sizeof session->folder, "%s", es_run_folder_root(es_run_folder(run)));
    session->n_rounds_before = es_run_rounds_done(run);
    if (!command->is_quiet && es_ranks_number(settings->ranks) == 0) {
        print_start(command, settings, about, session);
    }
    return ES_STATUS_OK;
}

static void print_losses(const EsSinkHealth *sink) {
    if (sink->n_lost > 0 || sink->is_blocked) {
        es_message("warning: %s %s%lld packets of events%s%s\n", sink->name,
                   sink->is_blocked ? "stopped responding and lost at least " : "lost ",
                   (long long)sink->n_lost, sink->first_failure[0] != '\0' ? ": " : "",
                   sink->first_failure);
    } else if (sink->n_dropped > 0) {
        es_message("note: %s could not keep up; %lld packets of step events were dropped\n",
                   sink->name, (long long)sink->n_dropped);
    }
}

EsExit es_run_command_finish(const char *name, EsStatus status, const EsRunOutcome *outcome) {
    for (int i = 0; i < outcome->health.n_sinks; i++) {
        print_losses(&outcome->health.sinks[i]);
    }
    EsExit code = es_command_finish(name, status);
    if (code == ES_EXIT_DONE && outcome->diverged_since > 0) {
        es_message("esper %s: the run diverged: from %s %lld on no loss was finite, or no update "
                   "had a finite step. All of it is saved; a lower learning rate may help\n",
                   name, es_run_kind_round(name), (long long)outcome->diverged_since);
        return ES_EXIT_FAILED;
    }
    return code == ES_EXIT_DONE && outcome->has_lost_events ? ES_EXIT_LOST_EVENTS : code;
}
