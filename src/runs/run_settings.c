#include "runs/run_settings.h"

#include <string.h>

#include "base/config_value.h"

int es_run_setting_is_free(const EsConfigKey *key) {
    static const char *const free_keys[] = {"rounds", "threads", "stop_seconds"};
    static const char *const free_sections[] = {"checkpoint", "telemetry", "evaluate"};
    for (size_t i = 0; i < ES_COUNT_OF(free_sections); i++) {
        if (strcmp(key->section, free_sections[i]) == 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < ES_COUNT_OF(free_keys); i++) {
        if (strcmp(key->section, "run") == 0 && strcmp(key->key, free_keys[i]) == 0) {
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
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        char old_text[ES_CONFIG_VALUE_BYTES], new_text[ES_CONFIG_VALUE_BYTES];
        es_config_value_format(key, before, old_text);
        es_config_value_format(key, now, new_text);
        if (!es_run_setting_is_free(key) && strcmp(old_text, new_text) != 0) {
            return ES_FAIL(CONFIG,
                           "[%s] %s is %s in the run that is resumed and cannot become %s: its "
                           "results would be neither run's; start a new one",
                           key->section, key->key, old_text, new_text);
        }
    }
    return ES_STATUS_OK;
}
