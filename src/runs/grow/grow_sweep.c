// Sweeps: reading their text, the settings of their variants, and all of them in one growth.
#include "runs/grow/grow_sweep.h"

#include <stdio.h>
#include <string.h>

#include "base/config_value.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/words.h"

// --- keys ---

// The nearest key, by its name alone.
static EsStatus fail_key(const EsConfig *config, const char *name) {
    const char *dot = strchr(name, '.');
    EsSpelling spelling = es_spelling_begin(dot != NULL ? dot + 1 : name);
    for (int i = 0; i < config->n_keys; i++) {
        es_spelling_offer(&spelling, config->keys[i].key);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    for (int i = 0; i < config->n_keys && nearest != NULL; i++) {
        const EsConfigKey *key = &config->keys[i];
        if (key->key == nearest) {
            return ES_FAIL(CONFIG, "sweep: unknown key \"%.100s\"; did you mean \"%s.%s\"?", name,
                           key->section, key->key);
        }
    }
    return ES_FAIL(CONFIG, "sweep: unknown key \"%.100s\"; --dry-run prints all keys", name);
}

// "host-rate", "host_rate" or "grow.host_rate".
static int is_named(const EsConfigKey *key, const char *name) {
    const char *dot = strchr(name, '.');
    if (dot != NULL) {
        size_t length = (size_t)(dot - name);
        return strlen(key->section) == length && strncmp(key->section, name, length) == 0 &&
               strcmp(key->key, dot + 1) == 0;
    }
    return strcmp(key->key, name) == 0;
}

static EsStatus find_key(const EsConfig *config, const char *name, const EsConfigKey **found) {
    *found = NULL;
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        if (!is_named(key, name)) {
            continue;
        }
        if (*found != NULL) {
            return ES_FAIL(CONFIG, "sweep: \"%s\" is a key of [%s] and of [%s]; write %s.%s", name,
                           (*found)->section, key->section, (*found)->section, name);
        }
        *found = key;
    }
    return *found != NULL ? ES_STATUS_OK : fail_key(config, name);
}

// Keys that are of the run and not of a variant, or that would give variants other episodes.
static EsStatus check_key(const EsConfigKey *key) {
    static const struct {
        const char *section, *key, *reason;
    } refused[] = {
        {"run", "seed", "--repeat N runs several seeds"},
        {"run", NULL, "it is of the whole sweep"},
        {"checkpoint", NULL, "it changes no result"},
        {"telemetry", NULL, "it changes no result"},
        {"evaluate", NULL, "variants are compared on the same episodes"},
        {"tasks", NULL, "variants would have other tasks, and their episodes were no pairs"},
        {"grow", "keep_best", "it changes no result"},
    };
    int is_rounds = strcmp(key->section, "run") == 0 && strcmp(key->key, "rounds") == 0;
    for (size_t i = 0; i < ES_COUNT_OF(refused) && !is_rounds; i++) {
        int is_here = refused[i].key == NULL || strcmp(refused[i].key, key->key) == 0;
        if (is_here && strcmp(refused[i].section, key->section) == 0) {
            return ES_FAIL(CONFIG, "sweep: %s.%s is not for sweeps: %s", key->section, key->key,
                           refused[i].reason);
        }
    }
    return ES_STATUS_OK;
}

// --- values ---

static EsStatus set_value(const EsSweptKey *swept, int value, void *settings) {
    char where[120];
    snprintf(where, sizeof where, "sweep: %s.%s", swept->key->section, swept->key->key);
    return es_config_value_parse(swept->key, settings, swept->values[value], where);
}

// The values as a configuration prints them, so that 0.10 and 0.1 are one.
static EsStatus check_value(const EsConfig *config, EsSweptKey *swept, void *settings) {
    char text[ES_CONFIG_VALUE_BYTES];
    int last = swept->n_values - 1;
    memcpy(settings, config->settings, config->settings_bytes);
    ES_TRY(set_value(swept, last, settings));
    es_config_value_format(swept->key, settings, text);
    snprintf(swept->values[last], ES_SWEEP_VALUE_BYTES, "%.*s", ES_SWEEP_VALUE_BYTES - 1, text);
    for (int i = 0; i < last; i++) {
        if (strcmp(swept->values[i], swept->values[last]) == 0) {
            return ES_FAIL(CONFIG, "sweep: %s is listed twice for %s.%s", swept->values[i],
                           swept->key->section, swept->key->key);
        }
    }
    return ES_STATUS_OK;
}

// "a,b,c"
static EsStatus parse_values(const EsConfig *config, char *list, EsSweptKey *swept,
                             void *settings) {
    char *rest = NULL;
    for (char *value = strtok_r(list, ",", &rest); value != NULL;
         value = strtok_r(NULL, ",", &rest)) {
        size_t length = strlen(value);
        if (swept->n_values == ES_SWEEP_VALUES_MAX || length >= ES_SWEEP_VALUE_BYTES) {
            return ES_FAIL(CONFIG, "sweep: %s.%s has more than %d values, or one of %d bytes",
                           swept->key->section, swept->key->key, ES_SWEEP_VALUES_MAX,
                           ES_SWEEP_VALUE_BYTES);
        }
        memcpy(swept->values[swept->n_values++], value, length + 1);
        ES_TRY(check_value(config, swept, settings));
    }
    return swept->n_values > 0 ? ES_STATUS_OK
                               : ES_FAIL(CONFIG, "sweep: %s.%s has no values; write %s=A,B",
                                         swept->key->section, swept->key->key, swept->key->key);
}

// "key=a,b,c"
static EsStatus parse_key(const EsConfig *config, char *text, EsSweep *sweep, void *settings) {
    char *equals = strchr(text, '=');
    const EsConfigKey *key = NULL;
    if (equals == NULL || equals == text) {
        return ES_FAIL(CONFIG, "sweep: \"%.100s\" is not KEY=A,B,...", text);
    }
    *equals = '\0';
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    ES_TRY(find_key(config, text, &key));
    ES_TRY(check_key(key));
    for (int i = 0; i < sweep->n_keys; i++) {
        if (sweep->keys[i].key == key) {
            return ES_FAIL(CONFIG, "sweep: %s.%s is there twice", key->section, key->key);
        }
    }
    if (sweep->n_keys == ES_SWEEP_KEYS_MAX) {
        return ES_FAIL(CONFIG, "sweep: more than %d keys", ES_SWEEP_KEYS_MAX);
    }
    EsSweptKey *swept = &sweep->keys[sweep->n_keys++];
    swept->key = key;
    ES_TRY(parse_values(config, equals + 1, swept, settings));
    sweep->n_variants *= swept->n_values;
    return sweep->n_variants <= ES_GROW_VARIANTS_MAX
               ? ES_STATUS_OK
               : ES_FAIL(CONFIG, "sweep: %d variants and more, at most %d can be compared",
                         sweep->n_variants, ES_GROW_VARIANTS_MAX);
}

EsStatus es_sweep_parse(const EsConfig *config, const char *text, EsSweep *sweep) {
    char list[ES_SWEEP_TEXT_BYTES], *rest = NULL;
    void *settings = NULL; // to try values on
    EsStatus status = ES_STATUS_OK;
    *sweep = (EsSweep){.n_variants = 1};
    if (strlen(text) >= sizeof list) {
        return ES_FAIL(CONFIG, "sweep: more than %zu bytes of keys and values", sizeof list - 1);
    }
    snprintf(list, sizeof list, "%s", text);
    ES_TRY(es_allocate(config->settings_bytes, &settings));
    for (char *key = strtok_r(list, ";", &rest); key != NULL && status == ES_STATUS_OK;
         key = strtok_r(NULL, ";", &rest)) {
        status = parse_key(config, key, sweep, settings);
    }
    es_release(settings);
    ES_TRY(status);
    return sweep->n_keys > 0 ? ES_STATUS_OK : ES_FAIL(CONFIG, "sweep: no key; write KEY=A,B,...");
}

// --- variants ---

// The value of a key in a variant.
static int value_of(const EsSweep *sweep, int variant, int key) {
    for (int k = sweep->n_keys - 1; k > key; k--) {
        variant /= sweep->keys[k].n_values;
    }
    return variant % sweep->keys[key].n_values;
}

EsStatus es_sweep_apply(const EsSweep *sweep, int variant, const EsConfig *config) {
    for (int k = 0; k < sweep->n_keys; k++) {
        ES_TRY(set_value(&sweep->keys[k], value_of(sweep, variant, k), config->settings));
    }
    return ES_STATUS_OK;
}

const char *es_sweep_name(const EsSweep *sweep, int variant, char name[ES_SWEEP_NAME_BYTES]) {
    size_t used = 0;
    for (int k = 0; k < sweep->n_keys; k++) {
        used += (size_t)snprintf(name + used, ES_SWEEP_NAME_BYTES - used, "%s%s=%s",
                                 k > 0 ? " " : "", sweep->keys[k].key->key,
                                 sweep->keys[k].values[value_of(sweep, variant, k)]);
    }
    return name;
}

// --- side by side ---

static int is_rate(const EsConfigKey *key) {
    static const char *const rates[] = {"grow.host_rate", "grow.seed_rate", "grow.clip",
                                        "recipe.momentum", "recipe.weight_decay"};
    char name[100];
    snprintf(name, sizeof name, "%s.%s", key->section, key->key);
    for (size_t i = 0; i < ES_COUNT_OF(rates); i++) {
        if (strcmp(name, rates[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

const char *es_sweep_find_obstacle(const EsSweep *sweep, const EsGrowSettings *settings) {
    for (int k = 0; k < sweep->n_keys; k++) {
        if (!is_rate(sweep->keys[k].key)) {
            return "environments of one run have it in common";
        }
    }
    return es_grow_settings_train(settings) ? "each variant trains a policy of its own"
           : settings->tasks.n_groups > 0   ? "it has tasks, each with rates of its own"
           : settings->data_split != 0      ? "the hosts share out the images"
           : es_policy_parse_kind(settings->policy) == ES_POLICY_SCRIPT
               ? "a schedule names environments"
               : NULL;
}

EsStatus es_sweep_of_settings(const EsGrowSettings *settings, EsSweep *sweep) {
    EsGrowSettings copy = *settings, unused;
    EsConfig config = es_grow_run_config(&unused); // the declaration
    config.settings = &copy;
    ES_TRY(es_sweep_parse(&config, settings->sweep, sweep));
    const char *obstacle = es_sweep_find_obstacle(sweep, settings);
    if (obstacle != NULL) {
        return ES_FAIL(CONFIG,
                       "[evaluate] sweep = %s cannot run side by side: %s; --sweep runs "
                       "the variants one after the other",
                       settings->sweep, obstacle);
    }
    return settings->against[0] == '\0'
               ? ES_STATUS_OK
               : ES_FAIL(CONFIG, "[evaluate] sweep compares settings under one policy, and "
                                 "[evaluate] against names others; leave one of them empty");
}

// Rates [n_variants * n_envs].
static EsStatus fill_rates(const EsSweep *sweep, const EsGrowSettings *settings, int64_t n_envs,
                           EsGrowthRates *rates) {
    EsGrowSettings own, unused;
    EsConfig config = es_grow_run_config(&unused);
    config.settings = &own;
    for (int v = 0; v < sweep->n_variants; v++) {
        own = *settings;
        ES_TRY(es_sweep_apply(sweep, v, &config));
        for (int64_t e = 0; e < n_envs; e++) {
            rates[v * n_envs + e] =
                (EsGrowthRates){own.host_learning_rate, own.seed_learning_rate, own.recipe.momentum,
                                own.recipe.weight_decay, own.clip};
        }
    }
    return ES_STATUS_OK;
}

// The context of the watch of an episode.
typedef struct SideBySide {
    EsEpisodeRunner *runner; // borrowed
    EsRun *run;              // borrowed
    EsGrowOutcome *outcomes; // owned [n_variants * n_envs]: of the episodes at hand
} SideBySide;

static EsStatus watch_measured(void *context, int64_t step) {
    const SideBySide *side = context;
    EsGrowth *growth = side->runner->growth;
    if (es_run_must_stop(side->run)) {
        return ES_FAIL(INTERRUPTED, "the comparison was dropped");
    }
    es_grow_outcomes_count_step(growth, es_growth_options(growth)->n_envs, side->outcomes);
    return step + 1 < es_growth_settings(growth)->episode_steps ? ES_STATUS_OK
                                                                : es_growth_test(growth);
}

static EsStatus watch_decided(void *context, int64_t step) {
    (void)step;
    es_hub_tick(es_run_hub(((SideBySide *)context)->run));
    return ES_STATUS_OK;
}

// Episodes [first, first + E) of all variants.
static EsStatus run_episodes(SideBySide *side, EsPolicy *policy, int64_t first, int64_t n_envs,
                             EsGrowEvaluation *evaluation) {
    EsGrowWatch watch = {side, watch_measured, watch_decided};
    int64_t n = evaluation->n_variants * n_envs;
    memset(side->outcomes, 0, sizeof *side->outcomes * (size_t)n);
    ES_TRY(es_grow_episode_run(side->runner, policy, ES_HELD_OUT_EPISODE + first, &watch));
    es_grow_outcomes_take(side->runner, n, side->outcomes);
    for (int v = 0; v < evaluation->n_variants; v++) {
        int64_t n_here = ES_MIN(n_envs, evaluation->n_episodes - first);
        memcpy(evaluation->variants[v].outcomes + first, side->outcomes + v * n_envs,
               sizeof *side->outcomes * (size_t)n_here);
    }
    return ES_STATUS_OK;
}

static EsStatus run_all(SideBySide *side, const char *text, int64_t n_envs,
                        EsGrowEvaluation *evaluation) {
    EsPolicy *policy = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_grow_episode_open_policy(side->runner, text, &policy));
    es_policy_set_greedy(policy,
                         es_policy_kind(policy) == ES_POLICY_LEARNED && evaluation->is_greedy);
    for (int v = 0; v < evaluation->n_variants && status == ES_STATUS_OK; v++) {
        EsGrowVariant *variant = &evaluation->variants[v];
        status = es_allocate(sizeof *variant->outcomes * (size_t)evaluation->n_episodes,
                             (void **)&variant->outcomes);
    }
    for (int64_t first = 0; first < evaluation->n_episodes && status == ES_STATUS_OK;
         first += n_envs) {
        status = run_episodes(side, policy, first, n_envs, evaluation);
    }
    es_grow_episode_destroy_policy(side->runner, policy);
    return status;
}

EsStatus es_sweep_run(const EsSweep *sweep, const EsEpisodeRunner *model, const char *text,
                      EsRun *run, EsGrowEvaluation *evaluation) {
    EsGrowSettings settings = *model->settings;
    int64_t n_envs = es_grow_settings_evaluated_envs(&settings), n = sweep->n_variants * n_envs;
    EsEpisodeRunner runner = {0};
    SideBySide side = {.runner = &runner, .run = run};
    EsGrowthRates *rates = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_ASSERT(evaluation->n_variants == sweep->n_variants);
    settings.n_envs = (int)n;
    ES_TRY_GOTO(es_allocate(sizeof *rates * (size_t)n, (void **)&rates));
    ES_TRY_GOTO(es_allocate(sizeof *side.outcomes * (size_t)n, (void **)&side.outcomes));
    ES_TRY_GOTO(fill_rates(sweep, model->settings, n_envs, rates));
    ES_TRY_GOTO(
        es_grow_episode_create_variants(model, &settings, sweep->n_variants, rates, &runner));
    status = run_all(&side, text, n_envs, evaluation);
done:
    es_grow_episode_destroy(&runner);
    es_release(side.outcomes);
    es_release(rates);
    return status;
}
