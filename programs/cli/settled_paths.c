#include "cli/settled_paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_value.h"
#include "control/policy/policy.h"

#define SCRIPT "script:"

static EsStatus settle_path(const EsConfig *config, const EsConfigKey *key, const char *relative) {
    char *path = realpath(relative, NULL);
    if (path == NULL) {
        return ES_FAIL(INPUT, "[%s] %s: %s: %s", key->section, key->key, relative, strerror(errno));
    }
    EsStatus status = es_config_value_parse(key, config->settings, path, key->key);
    free(path);
    return status;
}

// Where the path begins in what names a policy, or a host; NULL: it is a name.
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
        return strcmp(name, "ppo") != 0 ? name : NULL;
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
static void settle_names(const EsConfig *config, const EsConfigKey *key, const char *names) {
    char list[ES_CONFIG_VALUE_BYTES], settled[4 * ES_CONFIG_VALUE_BYTES] = "", *rest = NULL;
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
            add_name(key, name, settled, sizeof settled);
        }
    }
    EsStatus ignored = es_config_value_parse(key, config->settings, settled, key->key);
    (void)ignored; // the value is then as it was
}

EsStatus es_settle_paths(const EsConfig *config) {
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
            ES_TRY(settle_path(config, key, value));
        } else if (strcmp(key->key, "task") == 0 || strcmp(key->key, "policy") == 0 ||
                   strcmp(key->key, "against") == 0) {
            settle_names(config, key, value);
        }
    }
    return ES_STATUS_OK;
}
