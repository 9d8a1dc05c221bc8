#include "runs/grow_evaluation_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "runs/json_number.h"

// --- writing ---

static json_t *interval_json(const EsInterval *interval) {
    return json_pack("{s:o, s:o, s:o}", "mean", es_json_number(interval->mean), "low",
                     es_json_number(interval->low), "high", es_json_number(interval->high));
}

json_t *es_grow_intervals_json(const EsInterval *intervals) {
    json_t *object = json_object();
    for (int m = 0; m < ES_N_MEASURES && object != NULL; m++) {
        if (json_object_set_new(object, es_grow_measure_name((EsGrowMeasure)m),
                                interval_json(&intervals[m])) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

// {"test_accuracy": [per episode], ...}
static json_t *outcomes_json(const EsGrowArm *arm, int64_t n) {
    json_t *object = json_object();
    int is_complete = object != NULL;
    for (int m = 0; m < ES_N_MEASURES && is_complete; m++) {
        json_t *values = json_array();
        for (int64_t i = 0; i < n && is_complete; i++) {
            is_complete =
                json_array_append_new(values, es_json_number(arm->outcomes[i].measure[m])) == 0;
        }
        is_complete =
            json_object_set_new(object, es_grow_measure_name((EsGrowMeasure)m), values) == 0 &&
            is_complete;
    }
    if (!is_complete) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *es_grow_evaluation_json(const EsGrowEvaluation *evaluation) {
    json_t *arms = json_array();
    int is_complete = arms != NULL;
    for (int a = 0; a < evaluation->n_arms && is_complete; a++) {
        const EsGrowArm *arm = &evaluation->arms[a];
        if (arm->outcomes == NULL) {
            continue;
        }
        // json_pack gives NULL when a part is, and takes the others with it
        json_t *object = json_pack("{s:s, s:s, s:o, s:o, s:o}", "policy", arm->name, "sha256",
                                   arm->hash, "mean", es_grow_intervals_json(arm->mean),
                                   "policy_minus_this", es_grow_intervals_json(arm->difference),
                                   "episodes", outcomes_json(arm, evaluation->n_episodes));
        is_complete = json_array_append_new(arms, object) == 0;
    }
    if (!is_complete) {
        json_decref(arms);
        return NULL;
    }
    return json_pack("{s:I, s:I, s:b, s:o}", "n_episodes", (json_int_t)evaluation->n_episodes,
                     "rounds", (json_int_t)evaluation->n_rounds, "greedy", evaluation->is_greedy,
                     "arms", arms);
}

EsStatus es_grow_evaluation_save(const EsGrowEvaluation *evaluation, const char *path) {
    json_t *root = es_grow_evaluation_json(evaluation);
    char *text = root != NULL
                     ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17) | JSON_SORT_KEYS)
                     : NULL;
    EsStatus status = text != NULL ? es_file_write_all(path, text, strlen(text))
                                   : ES_FAIL(MEMORY, "no memory for %s", path);
    free(text);
    json_decref(root);
    return status;
}

// --- reading ---

static EsStatus load_outcomes(const json_t *episodes, int64_t n, EsGrowArm *arm, const char *path) {
    ES_TRY(es_allocate(sizeof *arm->outcomes * (size_t)n, (void **)&arm->outcomes));
    for (int m = 0; m < ES_N_MEASURES; m++) {
        const char *name = es_grow_measure_name((EsGrowMeasure)m);
        const json_t *values = json_object_get(episodes, name);
        if (!json_is_array(values) || (int64_t)json_array_size(values) != n) {
            return ES_FAIL(INPUT, "%s: \"%s\" of policy \"%.100s\" is no list of %lld numbers",
                           path, name, arm->name, (long long)n);
        }
        for (int64_t i = 0; i < n; i++) {
            const json_t *value = json_array_get(values, (size_t)i);
            arm->outcomes[i].measure[m] = json_is_number(value) ? json_number_value(value) : NAN;
        }
    }
    return ES_STATUS_OK;
}

static EsStatus load_arms(const json_t *root, EsGrowEvaluation *evaluation, const char *path) {
    const json_t *arms = json_object_get(root, "arms");
    json_int_t n_episodes = json_integer_value(json_object_get(root, "n_episodes"));
    size_t n_arms = json_array_size(arms);
    if (n_episodes < 1 || n_episodes > 1000000 || n_arms < 1 || n_arms > ES_GROW_ARMS_MAX) {
        return ES_FAIL(INPUT, "%s is no comparison of policies", path);
    }
    evaluation->n_episodes = n_episodes;
    evaluation->n_rounds = json_integer_value(json_object_get(root, "rounds"));
    evaluation->is_greedy = json_is_true(json_object_get(root, "greedy"));
    for (size_t a = 0; a < n_arms; a++) {
        const json_t *object = json_array_get(arms, a);
        const char *name = json_string_value(json_object_get(object, "policy"));
        const char *hash = json_string_value(json_object_get(object, "sha256"));
        EsGrowArm *arm = &evaluation->arms[evaluation->n_arms++];
        if (name == NULL || hash == NULL) {
            return ES_FAIL(INPUT, "%s: policy %d has no name or hash", path, (int)a + 1);
        }
        snprintf(arm->name, sizeof arm->name, "%s", name);
        snprintf(arm->hash, sizeof arm->hash, "%s", hash);
        ES_TRY(load_outcomes(json_object_get(object, "episodes"), n_episodes, arm, path));
    }
    return ES_STATUS_OK;
}

EsStatus es_grow_evaluation_load(const char *path, EsGrowEvaluation **evaluation) {
    json_error_t error;
    *evaluation = NULL;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return ES_FAIL(INPUT, "%s:%d: %s", path, error.line, error.text);
    }
    EsStatus status = es_allocate(sizeof **evaluation, (void **)evaluation);
    if (status == ES_STATUS_OK) {
        status = load_arms(root, *evaluation, path);
    }
    json_decref(root);
    if (status != ES_STATUS_OK) {
        es_grow_evaluation_destroy(*evaluation);
        *evaluation = NULL;
    }
    return status;
}
