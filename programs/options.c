#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/spelling.h"

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
        return ES_FAIL(ARGUMENT, "--%s: %.100s is outside %.10g..%.10g", option->name, text,
                       option->min, option->max);
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
    }
    return ES_STATUS_OK;
}

static void set_default(const EsOption *option) {
    if (option->type == ES_OPTION_TYPE_FLAG) {
        *(int *)option->target = 0;
    } else {
        ES_ASSERT(option->default_value != NULL || option->type == ES_OPTION_TYPE_TEXT);
        EsStatus status = set_option(option, option->default_value);
        ES_ASSERT(status == ES_STATUS_OK);
    }
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
    if (table->accepts_overrides && memchr(name, '.', length) != NULL) {
        if (arguments->n_overrides == ES_MAX_ARGUMENTS) {
            return ES_FAIL(ARGUMENT, "more than %d settings on the command line; use a file",
                           ES_MAX_ARGUMENTS);
        }
        arguments->override[arguments->n_overrides++] = argv[*index];
        return ES_STATUS_OK;
    }
    for (int i = 0; i < table->n_options; i++) {
        const EsOption *option = &table->options[i];
        if (strlen(option->name) != length || strncmp(option->name, name, length) != 0) {
            continue;
        }
        if (option->type == ES_OPTION_TYPE_FLAG) {
            return value == NULL ? set_option(option, NULL)
                                 : ES_FAIL(ARGUMENT, "--%s takes no value", option->name);
        }
        if (value == NULL && *index + 1 < argc) {
            value = argv[++*index];
        }
        return value != NULL ? set_option(option, value)
                             : ES_FAIL(ARGUMENT, "--%s needs a value (%s)", option->name,
                                       option->placeholder);
    }
    return fail_option(table, name, length);
}

EsStatus es_options_parse(const EsOptionTable *table, int argc, char **argv,
                          EsArguments *arguments) {
    memset(arguments, 0, sizeof *arguments);
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

void es_options_print_help(const EsOptionTable *table, FILE *stream) {
    fprintf(stream, "usage: esper %s %s\n\n%s\n\noptions:\n", table->command, table->usage,
            table->summary);
    for (int i = 0; i < table->n_options; i++) {
        const EsOption *option = &table->options[i];
        char spelled[64];
        snprintf(spelled, sizeof spelled, "--%s%s%s", option->name,
                 option->placeholder != NULL ? " " : "",
                 option->placeholder != NULL ? option->placeholder : "");
        fprintf(stream, "  %-20s %s", spelled, option->help);
        if (option->default_value != NULL && option->default_value[0] != '\0') {
            fprintf(stream, " (default %s)", option->default_value);
        }
        fputc('\n', stream);
    }
    if (table->accepts_overrides) {
        fprintf(stream, "  %-20s %s\n", "--section.key=value",
                "set one value of the configuration");
    }
    fprintf(stream, "  %-20s %s\n\nexample: %s\n", "--help", "this text", table->example);
}
