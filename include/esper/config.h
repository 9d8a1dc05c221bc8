// Configuration files: INI text, read against a declared list of keys into a struct of yours.
//
// A key declares the offset, range and meaning of its value; an undeclared key is an error, and
// every error names the file and line (or the argument) and the nearest valid name. A failed call
// leaves the settings as they were. Values are written so that reading them back gives the same
// bits.
//
//     typedef struct Settings { int n_envs; float rate; } Settings;
//     static const EsConfigKey keys[] = {
//         ES_CONFIG_INT(Settings, n_envs, "run", "environments", "64", 1, 4096, "hosts"),
//         ES_CONFIG_FLOAT(Settings, rate, "host", "learning_rate", "0.05", 0, 10, "of SGD"),
//     };
//     Settings settings;
//     EsConfig config = {keys, 2, &settings, sizeof settings};
//     es_config_reset(&config);
//     ES_TRY(es_config_load(&config, "run.ini"));
//     ES_TRY(es_config_override(&config, "--host.learning_rate=0.1"));
#ifndef ESPER_CONFIG_H
#define ESPER_CONFIG_H

#include <stddef.h>
#include <stdio.h>

#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum EsConfigType {
    ES_CONFIG_TYPE_INT,   // int32_t or int64_t, decimal
    ES_CONFIG_TYPE_FLOAT, // float or double, decimal and finite
    ES_CONFIG_TYPE_BOOL,  // int 0 or 1: true false yes no on off 1 0
    ES_CONFIG_TYPE_TEXT,  // char array, ended by 0
    ES_CONFIG_TYPE_CHOICE // int or enum: position in the list of choices
} EsConfigType;

typedef struct EsConfigKey {
    const char *section, *key; // up to 47 bytes each
    EsConfigType type;
    size_t offset, bytes;      // the field in the settings struct
    const char *default_value; // as a file would spell it
    double min, max;           // INT, FLOAT: inclusive
    const char *choices;       // CHOICE: "off|default|max-autotune"
    const char *help;          // one line
} EsConfigKey;

// The declared keys and the settings they fill. Keys of one section stand together.
typedef struct EsConfig {
    const EsConfigKey *keys; // borrowed
    int n_keys;
    void *settings; // borrowed; written by reset, load and override
    size_t settings_bytes;
} EsConfig;

#define ES_CONFIG_FIELD_(type, field) offsetof(type, field), sizeof(((type *)0)->field)
#define ES_CONFIG_INT(type, field, section, key, value, min, max, help)                            \
    { section, key, ES_CONFIG_TYPE_INT, ES_CONFIG_FIELD_(type, field), value, min, max, NULL, help }
#define ES_CONFIG_FLOAT(type, field, section, key, value, min, max, help)                          \
    {                                                                                              \
        section, key, ES_CONFIG_TYPE_FLOAT, ES_CONFIG_FIELD_(type, field), value, min, max, NULL,  \
            help                                                                                   \
    }
#define ES_CONFIG_BOOL(type, field, section, key, value, help)                                     \
    { section, key, ES_CONFIG_TYPE_BOOL, ES_CONFIG_FIELD_(type, field), value, 0, 1, NULL, help }
#define ES_CONFIG_TEXT(type, field, section, key, value, help)                                     \
    { section, key, ES_CONFIG_TYPE_TEXT, ES_CONFIG_FIELD_(type, field), value, 0, 0, NULL, help }
#define ES_CONFIG_CHOICE(type, field, section, key, value, choices, help)                          \
    {                                                                                              \
        section, key, ES_CONFIG_TYPE_CHOICE, ES_CONFIG_FIELD_(type, field), value, 0, 0, choices,  \
            help                                                                                   \
    }

// Fill the settings with the defaults. Aborts when the declaration itself is wrong (a default
// outside its range, a key declared twice, a field of the wrong size).
ES_API void es_config_reset(const EsConfig *config);

// Read a file over the current settings. IO or INPUT when it cannot be read, CONFIG when anything
// in it is wrong:
//     run.ini:12: unknown key "learnig_rate" in [host]; did you mean "learning_rate"?
ES_API EsStatus es_config_load(const EsConfig *config, const char *path);

// Apply "section.key=value", with or without leading "--".
ES_API EsStatus es_config_override(const EsConfig *config, const char *argument);

// Print the complete effective configuration, help as comments, in a form es_config_load reads.
ES_API EsStatus es_config_print(const EsConfig *config, FILE *stream);

// The same into a file, through a temporary and rename: after a crash there is the old file or the
// new.
ES_API EsStatus es_config_write(const EsConfig *config, const char *path);

#ifdef __cplusplus
}
#endif

#endif
