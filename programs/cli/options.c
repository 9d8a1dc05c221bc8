// Parsing a command line by its table: typed values, overrides of settings, --help from the table
// itself, and the nearest name for one that is unknown.
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_value.h"
#include "base/macros.h"
#include "base/words.h"
#include "cli/frame.h"

static EsStatus set_number(const EsOption *option, const char *text) {
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    int is_whole =
        option->type == ES_OPTION_TYPE_FLOAT || strspn(text, "+-0123456789") == strlen(text);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !is_whole ||
        !isfinite(value)) {
        return ES_FAIL(ARGUMENT, "--%s: \"%.100s\" is not a %s", option->name, text,
                       option->type == ES_OPTION_TYPE_INT ? "whole number" : "number");
    }
    if (!(value >= option->min && value <= option->max)) {
        char min[32], max[32];
        return ES_FAIL(ARGUMENT, "--%s: %.100s is outside %s..%s", option->name, text,
                       es_config_bound_format(option->min, min),
                       es_config_bound_format(option->max, max));
    }
    if (option->type == ES_OPTION_TYPE_FLOAT) {
        *(double *)option->target = value;
    } else {
        ES_ASSERT(option->min >= INT_MIN && option->max <= INT_MAX);
        *(int *)option->target = (int)value;
    }
    return ES_STATUS_OK;
}

static EsStatus set_option(const EsOption *option, const char *text) {
    switch (option->type) {
    case ES_OPTION_TYPE_FLAG:
        *(int *)option->target = 1;
        return ES_STATUS_OK;
    case ES_OPTION_TYPE_TEXT:
        *(const char **)option->target = text;
        return ES_STATUS_OK;
    case ES_OPTION_TYPE_INT:
    case ES_OPTION_TYPE_FLOAT:
        return set_number(option, text);
    case ES_OPTION_TYPE_LIST: {
        EsOptionList *list = option->target;
        if (list->n == ES_OPTION_LIST_MAX) {
            return ES_FAIL(ARGUMENT, "--%s is there more than %d times", option->name,
                           ES_OPTION_LIST_MAX);
        }
        list->texts[list->n++] = text;
        return ES_STATUS_OK;
    }
    case ES_OPTION_TYPE_KEY:
        break;
    }
    return ES_STATUS_OK;
}

static void set_default(const EsOption *option) {
    if (option->type == ES_OPTION_TYPE_FLAG) {
        *(int *)option->target = 0;
    } else if (option->type == ES_OPTION_TYPE_LIST) {
        *(EsOptionList *)option->target = (EsOptionList){.n = 0};
    } else if (option->type != ES_OPTION_TYPE_KEY) {
        ES_ASSERT(option->default_value != NULL || option->type == ES_OPTION_TYPE_TEXT);
        EsStatus status = set_option(option, option->default_value);
        ES_ASSERT(status == ES_STATUS_OK);
    }
}

// The declared key of a KEY option.
static const EsConfigKey *find_key(const EsOptionTable *table, const EsOption *option) {
    for (int i = 0; i < table->config->n_keys; i++) {
        const EsConfigKey *key = &table->config->keys[i];
        size_t section = strlen(key->section);
        if (strncmp(option->key, key->section, section) == 0 && option->key[section] == '.' &&
            strcmp(option->key + section + 1, key->key) == 0) {
            return key;
        }
    }
    es_assert_failed("an option names a key that is declared", __FILE__, __LINE__);
}

// Options that are given without a value: flags, and keys that are on or off.
static int is_switch(const EsOptionTable *table, const EsOption *option) {
    return option->type == ES_OPTION_TYPE_FLAG ||
           (option->type == ES_OPTION_TYPE_KEY &&
            find_key(table, option)->type == ES_CONFIG_TYPE_BOOL);
}

static EsStatus add_override(EsArguments *arguments, const EsOption *option, const char *text) {
    if (arguments->n_overrides == ES_MAX_ARGUMENTS) {
        return ES_FAIL(ARGUMENT, "more than %d settings on the command line; use a file",
                       ES_MAX_ARGUMENTS);
    }
    arguments->overrides[arguments->n_overrides++] = (EsOverride){option, text};
    return ES_STATUS_OK;
}

static EsStatus fail_option(const EsOptionTable *table, const char *name, size_t length) {
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)ES_MIN(length, 60), name);
    EsSpelling spelling = es_spelling_begin(word);
    for (int i = 0; i < table->n_options; i++) {
        es_spelling_offer(&spelling, table->options[i].name);
    }
    es_spelling_offer(&spelling, "help");
    const char *nearest = es_spelling_suggestion(&spelling);
    if (nearest != NULL) {
        return ES_FAIL(ARGUMENT, "unknown option \"--%s\"; did you mean \"--%s\"?", word, nearest);
    }
    return ES_FAIL(ARGUMENT, "unknown option \"--%s\"", word);
}

// Take the option at argv[*index] and, where it is written apart, its value from the next argument.
static EsStatus take_option(const EsOptionTable *table, int argc, char **argv, int *index,
                            EsArguments *arguments) {
    const char *name = argv[*index] + 2;
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (table->config != NULL && memchr(name, '.', length) != NULL) {
        const char *next = *index + 1 < argc ? argv[*index + 1] : "--";
        if (value == NULL && strncmp(next, "--", 2) != 0) {
            return ES_FAIL(ARGUMENT,
                           "--%.100s takes its value after an equals sign: --%.100s=%.100s", name,
                           name, next);
        }
        return add_override(arguments, NULL, argv[*index]);
    }
    for (int i = 0; i < table->n_options; i++) {
        const EsOption *option = &table->options[i];
        if (strlen(option->name) != length || strncmp(option->name, name, length) != 0) {
            continue;
        }
        int is_key = option->type == ES_OPTION_TYPE_KEY;
        arguments->given |= (uint64_t)1 << i;
        if (is_switch(table, option)) {
            if (value != NULL) {
                return ES_FAIL(ARGUMENT, "--%s takes no value", option->name);
            }
            value = "on";
        } else if (value == NULL && *index + 1 < argc) {
            value = argv[++*index];
        }
        if (value == NULL) {
            return ES_FAIL(ARGUMENT, "--%s needs a value (%s)", option->name, option->placeholder);
        }
        return is_key ? add_override(arguments, option, value) : set_option(option, value);
    }
    return fail_option(table, name, length);
}

EsStatus es_options_parse(const EsOptionTable *table, int argc, char **argv,
                          EsArguments *arguments) {
    memset(arguments, 0, sizeof *arguments);
    ES_ASSERT(table->n_options <= 64); // bits of `given`
    for (int i = 0; i < table->n_options; i++) {
        set_default(&table->options[i]);
    }
    int is_ended = 0;
    for (int i = 1; i < argc && !is_ended; i++) {
        if (strcmp(argv[i], "--") == 0) {
            is_ended = 1;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            arguments->wants_help = 1;
            return ES_STATUS_OK;
        }
    }
    is_ended = 0;
    for (int i = 1; i < argc; i++) {
        if (!is_ended && strcmp(argv[i], "--") == 0) {
            is_ended = 1;
        } else if (!is_ended && strncmp(argv[i], "--", 2) == 0) {
            ES_TRY(take_option(table, argc, argv, &i, arguments));
        } else if (!is_ended && argv[i][0] == '-' && argv[i][1] != '\0') {
            return ES_FAIL(ARGUMENT, "unknown option \"%.100s\"; options are written --name",
                           argv[i]);
        } else if (arguments->n_positional < ES_MIN(table->max_positional, ES_MAX_ARGUMENTS)) {
            arguments->positional[arguments->n_positional++] = argv[i];
        } else {
            return ES_FAIL(ARGUMENT, "unexpected argument \"%.100s\"", argv[i]);
        }
    }
    return ES_STATUS_OK;
}

int es_options_is_given(const EsOptionTable *table, const EsArguments *arguments,
                        const char *name) {
    for (int i = 0; i < table->n_options; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return (arguments->given >> i & 1) != 0;
        }
    }
    es_assert_failed("an option is one of the table's", __FILE__, __LINE__);
}

void es_options_note_unused(const EsOptionTable *table, const EsArguments *arguments,
                            const char *names, const char *where) {
    while (*names != '\0') {
        char name[64];
        size_t length = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        if (es_options_is_given(table, arguments, name)) {
            es_message("note: --%s has no effect %s\n", name, where);
        }
        names += length + (names[length] == ' ');
    }
}

EsStatus es_options_apply(const EsOptionTable *table, const EsArguments *arguments) {
    for (int i = 0; i < arguments->n_overrides; i++) {
        const EsOverride *override = &arguments->overrides[i];
        if (override->option == NULL) {
            ES_TRY(es_config_override(table->config, override->text));
            continue;
        }
        char where[64];
        snprintf(where, sizeof where, "--%.60s", override->option->name);
        ES_TRY(es_config_value_parse(find_key(table, override->option), table->config->settings,
                                     override->text, where));
    }
    return ES_STATUS_OK;
}

// The range of a number, where it has one worth printing.
static void print_range(const EsConfigKey *key, FILE *stream) {
    if (key->type == ES_CONFIG_TYPE_CHOICE) {
        fprintf(stream, " (%s)", key->choices);
    } else if ((key->type == ES_CONFIG_TYPE_INT || key->type == ES_CONFIG_TYPE_FLOAT) &&
               key->max < 1e6) {
        char min[32], max[32];
        fprintf(stream, " (%s to %s)", es_config_bound_format(key->min, min),
                es_config_bound_format(key->max, max));
    }
}

static void print_option(const EsOptionTable *table, const EsOption *option, FILE *stream) {
    const EsConfigKey *key = option->type == ES_OPTION_TYPE_KEY ? find_key(table, option) : NULL;
    const char *value = key != NULL ? key->default_value : option->default_value;
    int has_value = option->placeholder != NULL && !is_switch(table, option);
    char spelled[64];
    snprintf(spelled, sizeof spelled, "--%s%s%s", option->name, has_value ? " " : "",
             has_value ? option->placeholder : "");
    fprintf(stream, "  %-24s %s", spelled, key != NULL ? key->help : option->help);
    if (key != NULL) {
        print_range(key, stream);
    }
    if (value != NULL && value[0] != '\0' && !is_switch(table, option)) {
        fprintf(stream, " (default %s)", value);
    }
    fputc('\n', stream);
}

void es_options_print_help(const EsOptionTable *table, FILE *stream) {
    fprintf(stream, "usage: esper %s %s\n\n%s\n\noptions:\n", table->command, table->usage,
            table->summary);
    for (int i = 0; i < table->n_options; i++) {
        print_option(table, &table->options[i], stream);
    }
    if (table->config != NULL) {
        fprintf(stream, "  %-24s %s\n", "--section.key=value",
                "set any value of the configuration (--dry-run prints it)");
    }
    fprintf(stream, "  %-24s %s\n\nexample: %s\n", "--help", "this text", table->example);
}

int es_options_begin(const EsOptionTable *table, int argc, char **argv, EsArguments *arguments,
                     EsExit *code) {
    EsStatus status = es_options_parse(table, argc, argv, arguments);
    if (status != ES_STATUS_OK) {
        *code = es_command_finish(table->command, status);
        return 0;
    }
    if (!arguments->wants_help) {
        return 1;
    }
    es_options_print_help(table, stdout);
    if (table->print_more != NULL) {
        table->print_more();
    }
    *code = ES_EXIT_DONE;
    return 0;
}
