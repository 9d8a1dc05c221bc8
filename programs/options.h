// Long options for all commands: typed, with defaults, and a --help made from the same table.
//
// Options are written --name=value or --name value; flags take no value; "--" ends the options.
// Arguments of the form --section.key=value are collected for es_config_override where the command
// wants them. --help is always there.
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

#include "esper/status.h"

typedef enum EsOptionType {
    ES_OPTION_TYPE_FLAG,
    ES_OPTION_TYPE_INT,
    ES_OPTION_TYPE_FLOAT,
    ES_OPTION_TYPE_TEXT
} EsOptionType;

typedef struct EsOption {
    const char *name; // without dashes
    EsOptionType type;
    void *target;              // borrowed: int (FLAG, INT), double, const char *
    const char *default_value; // as typed; NULL = flag off, or text NULL
    double min, max;           // INT, FLOAT: inclusive
    const char *placeholder;   // what --help calls the value
    const char *help;          // one line
} EsOption;

#define ES_OPTION_FLAG(name, target, help)                                                         \
    { name, ES_OPTION_TYPE_FLAG, target, NULL, 0, 1, NULL, help }
#define ES_OPTION_INT(name, target, value, min, max, placeholder, help)                            \
    { name, ES_OPTION_TYPE_INT, target, value, min, max, placeholder, help }
#define ES_OPTION_FLOAT(name, target, value, min, max, placeholder, help)                          \
    { name, ES_OPTION_TYPE_FLOAT, target, value, min, max, placeholder, help }
#define ES_OPTION_TEXT(name, target, value, placeholder, help)                                     \
    { name, ES_OPTION_TYPE_TEXT, target, value, 0, 0, placeholder, help }

typedef struct EsOptionTable {
    const char *command;
    const char *usage;       // what follows the command: "[options] [SUITE ...]"
    const char *summary;     // a sentence or two
    const char *example;     // a whole command line
    const EsOption *options; // borrowed
    int n_options;
    int max_positional;    // arguments that are no options
    int accepts_overrides; // --section.key=value
} EsOptionTable;

#define ES_MAX_ARGUMENTS 64

// What is left when the options are taken out; all borrowed from argv.
typedef struct EsArguments {
    const char *positional[ES_MAX_ARGUMENTS];
    int n_positional;
    const char *override[ES_MAX_ARGUMENTS];
    int n_overrides;
    int wants_help; // --help was there; nothing else was checked
} EsArguments;

// Set all targets to their defaults, then read the command line (argv[0] is the command). ARGUMENT
// when it is wrong.
EsStatus es_options_parse(const EsOptionTable *table, int argc, char **argv,
                          EsArguments *arguments);

void es_options_print_help(const EsOptionTable *table, FILE *stream);

#endif
