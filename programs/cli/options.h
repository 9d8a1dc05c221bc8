// Long options for all commands: typed, with defaults, and a --help made from the same table.
//
// Options are written --name=value or --name value; flags take no value; "--" ends the options. For
// commands with a configuration, --section.key=value and short names for keys are collected and
// applied later, so that a file read in between does not undo them. --help is always there.
//
//     int n_samples; const char *device;
//     const EsOption options[] = {
//         ES_OPTION_INT("samples", &n_samples, "11", 5, 100000, "N", "timed samples per case"),
//         ES_OPTION_TEXT("device", &device, "cpu", "NAME", "cpu, cuda or cuda:N"),
//     };
#ifndef ES_PROGRAMS_OPTIONS_H
#define ES_PROGRAMS_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "cli/frame.h"
#include "esper/config.h"

typedef enum EsOptionType {
    ES_OPTION_TYPE_FLAG,
    ES_OPTION_TYPE_INT,
    ES_OPTION_TYPE_FLOAT,
    ES_OPTION_TYPE_TEXT,
    ES_OPTION_TYPE_LIST, // TEXT that may be given several times
    ES_OPTION_TYPE_KEY   // a short name for a key of the configuration
} EsOptionType;

#define ES_OPTION_LIST_MAX 8

typedef struct EsOptionList {
    const char *texts[ES_OPTION_LIST_MAX]; // borrowed from argv
    int n;
} EsOptionList;

typedef struct EsOption {
    const char *name; // without dashes
    EsOptionType type;
    void *target;              // borrowed: int (FLAG, INT), double, const char *, EsOptionList
    const char *default_value; // as typed; NULL = flag off, or text NULL
    double min, max;           // INT, FLOAT: inclusive
    const char *placeholder;   // name of the value in --help
    const char *help;          // one line
    const char *key;           // KEY: "section.key"; help, default and range are the key's
} EsOption;

#define ES_OPTION_FLAG(name, target, help)                                                         \
    { name, ES_OPTION_TYPE_FLAG, target, NULL, 0, 1, NULL, help, NULL }
#define ES_OPTION_INT(name, target, value, min, max, placeholder, help)                            \
    { name, ES_OPTION_TYPE_INT, target, value, min, max, placeholder, help, NULL }
#define ES_OPTION_FLOAT(name, target, value, min, max, placeholder, help)                          \
    { name, ES_OPTION_TYPE_FLOAT, target, value, min, max, placeholder, help, NULL }
#define ES_OPTION_TEXT(name, target, value, placeholder, help)                                     \
    { name, ES_OPTION_TYPE_TEXT, target, value, 0, 0, placeholder, help, NULL }
#define ES_OPTION_LIST(name, target, placeholder, help)                                            \
    { name, ES_OPTION_TYPE_LIST, target, NULL, 0, 0, placeholder, help, NULL }
#define ES_OPTION_KEY(name, key, placeholder)                                                      \
    { name, ES_OPTION_TYPE_KEY, NULL, NULL, 0, 0, placeholder, NULL, key }

typedef struct EsOptionTable {
    const char *command;
    const char *usage;        // follows the command: "[options] [SUITE ...]"
    const char *summary;      // a sentence or two
    const char *example;      // a whole command line
    void (*print_more)(void); // more of --help; nullable
    const EsOption *options;  // borrowed
    int n_options;
    int max_positional;     // arguments that are no options
    const EsConfig *config; // borrowed; its keys may be set with --section.key=value; NULL: none
} EsOptionTable;

#define ES_MAX_ARGUMENTS 64

// A setting from the command line: --section.key=value, or a short option and its value.
typedef struct EsOverride {
    const EsOption *option; // NULL: `text` is the whole argument
    const char *text;       // borrowed from argv
} EsOverride;

// The arguments without options; all borrowed from argv.
typedef struct EsArguments {
    const char *positional[ES_MAX_ARGUMENTS];
    int n_positional;
    EsOverride overrides[ES_MAX_ARGUMENTS];
    int n_overrides;
    int wants_help; // --help was there; nothing else was checked
    uint64_t given; // bit i: option i of the table was there
} EsArguments;

// Set all targets to their defaults, then read the command line (argv[0] is the command). ARGUMENT
// when it is wrong.
EsStatus es_options_parse(const EsOptionTable *table, int argc, char **argv,
                          EsArguments *arguments);

// Put the command line's settings over the table's configuration, in their order.
EsStatus es_options_apply(const EsOptionTable *table, const EsArguments *arguments);

// Returns whether an option of the table stood on the command line.
int es_options_is_given(const EsOptionTable *table, const EsArguments *arguments, const char *name);

// Print a note for each of the options `names` (with blanks between) that was given: it has no
// effect `where`, such as "without --soft". A value that is set and not used would otherwise look
// as if it had been.
void es_options_note_unused(const EsOptionTable *table, const EsArguments *arguments,
                            const char *names, const char *where);

void es_options_print_help(const EsOptionTable *table, FILE *stream);

// Begins a command: reads the command line, and answers --help and mistakes. Returns 0 when the
// command ends here with *code, 1 when it goes on.
int es_options_begin(const EsOptionTable *table, int argc, char **argv, EsArguments *arguments,
                     EsExit *code);

#endif
