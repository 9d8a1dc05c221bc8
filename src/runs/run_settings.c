// Settings that a resumed run may change and those it may not, compared with the run or with the
// text that its checkpoints keep.
#include "runs/run_settings.h"

#include <string.h>

#include "base/config_value.h"
#include "base/macros.h"
#include "base/memory.h"

int es_run_setting_is_free(const EsConfigKey *key) {
    static const struct {
        const char *section, *key;
    } free_keys[] = {{"run", "rounds"},      {"run", "threads"},         {"run", "stop_seconds"},
                     {"fit", "max_seconds"}, {"fit", "target_accuracy"}, {"fit", "compare"}};
    static const char *const free_sections[] = {"checkpoint", "telemetry", "evaluate", "rails"};
    for (size_t i = 0; i < ES_COUNT_OF(free_sections); i++) {
        if (strcmp(key->section, free_sections[i]) == 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < ES_COUNT_OF(free_keys); i++) {
        if (strcmp(key->section, free_keys[i].section) == 0 &&
            strcmp(key->key, free_keys[i].key) == 0) {
            return 1;
        }
    }
    return 0;
}

static const EsConfigKey *find_kind(const EsConfig *config) {
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        if (strcmp(key->section, "run") == 0 && strcmp(key->key, "kind") == 0) {
            return key;
        }
    }
    es_assert_failed("ES_RUN_CONFIG_KEYS declare a kind", __FILE__, __LINE__);
}

const char *es_run_settings_kind(const EsConfig *config) {
    return find_kind(config)->default_value;
}

const char *es_run_kind_command(const char *kind) {
    return strcmp(kind, "prove") == 0 ? "prove train" : kind;
}

const char *es_run_kind_round(const char *kind) {
    return strcmp(kind, "fit") == 0 ? "epoch" : "round";
}

EsStatus es_run_settings_check_kind(const EsConfig *config) {
    const EsConfigKey *key = find_kind(config);
    char kind[ES_CONFIG_VALUE_BYTES];
    es_config_value_format(key, config->settings, kind);
    return strcmp(kind, key->default_value) == 0
               ? ES_STATUS_OK
               : ES_FAIL(CONFIG,
                         "[run] kind is \"%.100s\", and these are the settings of a run of "
                         "kind \"%s\"; each kind has a command of its own",
                         kind, key->default_value);
}

EsStatus es_run_settings_check_resumed(const EsConfig *config, const void *before,
                                       const void *now) {
    // learning rates of a fit follow the number of its epochs
    int has_fixed_rounds = strcmp(es_run_settings_kind(config), "fit") == 0;
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        char old_text[ES_CONFIG_VALUE_BYTES], new_text[ES_CONFIG_VALUE_BYTES];
        es_config_value_format(key, before, old_text);
        es_config_value_format(key, now, new_text);
        int is_rounds = strcmp(key->section, "run") == 0 && strcmp(key->key, "rounds") == 0;
        int is_free = es_run_setting_is_free(key) && !(has_fixed_rounds && is_rounds);
        if (!is_free && strcmp(old_text, new_text) != 0) {
            return ES_FAIL(CONFIG,
                           "[%s] %s is %s in the run that is resumed and cannot become %s: its "
                           "results would be neither run's; start a new one",
                           key->section, key->key, old_text, new_text);
        }
    }
    return ES_STATUS_OK;
}

// --- settings in checkpoints ---

// "section.key=value" and a line's end, with every byte of the value as \xHH
#define FIXED_LINE_BYTES (2 * 48 + 4 * ES_CONFIG_VALUE_BYTES)

// "section.key=value": checkpoints take UTF-8 alone, so that other bytes are spelled. Returns the
// length of the name before the value.
static size_t write_line(const EsConfig *config, const EsConfigKey *key,
                         char line[FIXED_LINE_BYTES]) {
    char value[ES_CONFIG_VALUE_BYTES];
    size_t n_name = (size_t)snprintf(line, FIXED_LINE_BYTES, "%s.%s=", key->section, key->key);
    size_t length = n_name;
    es_config_value_format(key, config->settings, value);
    for (const char *c = value; *c != '\0'; c++) {
        int is_plain = *c >= ' ' && *c < 0x7f && *c != '\\';
        length += (size_t)snprintf(line + length, FIXED_LINE_BYTES - length,
                                   is_plain ? "%c" : "\\x%02x", (unsigned char)*c);
    }
    return n_name;
}

EsStatus es_run_settings_write_fixed(const EsConfig *config, char **text) {
    size_t bytes = (size_t)config->n_keys * FIXED_LINE_BYTES + 1, length = 0;
    ES_TRY(es_allocate(bytes, (void **)text));
    for (int i = 0; i < config->n_keys; i++) {
        char line[FIXED_LINE_BYTES];
        if (!es_run_setting_is_free(&config->keys[i])) {
            write_line(config, &config->keys[i], line);
            length += (size_t)snprintf(*text + length, bytes - length, "%s\n", line);
        }
    }
    return ES_STATUS_OK;
}

// Finds the value behind the name in its line of `saved`; NULL where there is none.
static const char *find_value(const char *saved, const char *name, size_t n_name) {
    for (const char *line = saved; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n_name) == 0) {
            return line + n_name;
        }
    }
    return NULL;
}

EsStatus es_run_settings_check_fixed(const EsConfig *config, const char *saved) {
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        char line[FIXED_LINE_BYTES];
        size_t n_name = write_line(config, key, line);
        const char *now = line + n_name;
        const char *before = es_run_setting_is_free(key) ? NULL : find_value(saved, line, n_name);
        if (before == NULL) {
            continue;
        }
        size_t length = strcspn(before, "\n");
        if (strlen(now) != length || strncmp(now, before, length) != 0) {
            return ES_FAIL(CONFIG,
                           "[%s] %s was %.*s when the run was saved and is %s in its config.ini: "
                           "its results would be neither run's; set it back or start a new one",
                           key->section, key->key, (int)length, before, now);
        }
    }
    return ES_STATUS_OK;
}
