// The outcome of a comparison: names of measures and baselines, intervals from the episodes of its
// variants, and evaluation.json.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "runs/grow/grow_evaluate.h"

const char *es_grow_measure_name(EsGrowMeasure measure) {
    static const char *const names[] = {
#define X(NAME, name) #name,
        ES_GROW_MEASURES(X)
#undef X
    };
    return names[measure];
}

EsGrowBaseline es_grow_baseline_parse(const char *name) {
    static const char *const names[] = {"",
#define X(NAME, name, meaning) #name,
                                        ES_GROW_BASELINES(X)
#undef X
    };
    for (int b = ES_BASELINE_NONE + 1; b < ES_N_BASELINES; b++) {
        if (strcmp(name, names[b]) == 0) {
            return (EsGrowBaseline)b;
        }
    }
    return ES_BASELINE_NONE;
}

const char *es_grow_baseline_meaning(EsGrowBaseline baseline) {
    static const char *const meanings[] = {"a policy",
#define X(NAME, name, meaning) meaning,
                                           ES_GROW_BASELINES(X)
#undef X
    };
    return meanings[baseline];
}

void es_grow_evaluation_destroy(EsGrowEvaluation *evaluation) {
    if (evaluation == NULL) {
        return;
    }
    for (int a = 0; a < evaluation->n_variants; a++) {
        es_release(evaluation->variants[a].outcomes);
    }
    es_release(evaluation);
}

// --- intervals ---

const char *es_grow_evaluation_difference(const EsGrowEvaluation *a, const EsGrowEvaluation *b) {
    if (a->n_episodes != b->n_episodes) {
        return "the number of held-out episodes";
    }
    if (a->n_tasks != b->n_tasks) {
        return "the number of held-out tasks";
    }
    if (a->is_greedy != b->is_greedy) {
        return "whether learned policies draw";
    }
    int same = a->n_variants == b->n_variants;
    for (int i = 0; same && i < a->n_variants; i++) {
        same = strcmp(a->variants[i].name, b->variants[i].name) == 0;
    }
    return same ? NULL : "the policies";
}

int es_grow_outcome_is_better(const EsGrowOutcome *outcome, const EsGrowOutcome *other) {
    double accuracy = outcome->measure[ES_MEASURE_VALIDATION_ACCURACY];
    double others = other->measure[ES_MEASURE_VALIDATION_ACCURACY];
    return accuracy > others || (isnan(others) && !isnan(accuracy));
}

void es_grow_outcomes_select(const EsGrowOutcome *outcomes, int64_t n, EsGrowOutcome *selected) {
    EsGrowOutcome best = outcomes[0];
    double flops = 0;
    for (int64_t i = 0; i < n; i++) {
        best = es_grow_outcome_is_better(&outcomes[i], &best) ? outcomes[i] : best;
        flops += outcomes[i].measure[ES_MEASURE_TRAINING_FLOPS] / (double)n;
    }
    best.measure[ES_MEASURE_TRAINING_FLOPS] = flops;
    for (int64_t i = 0; i < n; i++) {
        selected[i] = best;
    }
}

// Mean of measure m over each group of episodes, of a variant or of the difference of two.
static void average_groups(const EsGrowEvaluation *evaluation, const EsGrowOutcome *outcomes,
                           const EsGrowOutcome *taken_off, EsGrowMeasure m, double *means) {
    int64_t n = evaluation->group_size;
    for (int64_t g = 0; g < evaluation->n_episodes / n; g++) {
        double sum = 0;
        for (int64_t i = g * n; i < (g + 1) * n; i++) {
            sum += outcomes[i].measure[m] - (taken_off != NULL ? taken_off[i].measure[m] : 0);
        }
        means[g] = sum / (double)n;
    }
}

// The difference is of `first`.
static EsStatus compare_variant(EsGrowEvaluation *evaluation, const EsGrowOutcome *first, int a,
                                EsGrowMeasure m, uint64_t seed, double *means) {
    EsGrowVariant *variant = &evaluation->variants[a];
    int64_t n = evaluation->n_episodes / evaluation->group_size;
    uint32_t number = (uint32_t)m; // not the variant: equal outcomes have equal intervals
    average_groups(evaluation, variant->outcomes, NULL, m, means);
    ES_TRY(es_bootstrap_mean(means, n, sizeof *means, seed, number, &variant->mean[m]));
    average_groups(evaluation, first, variant->outcomes, m, means);
    return es_bootstrap_mean(means, n, sizeof *means, seed, number, &variant->difference[m]);
}

// The first variant and those with larger budgets, each with each.
static EsStatus compare_budgets(EsGrowEvaluation *evaluation, uint64_t seed, double *means) {
    int64_t n = evaluation->n_episodes / evaluation->group_size;
    int of[3] = {0}, n_of = 1;
    for (int b = ES_BASELINE_BUDGET2; b <= ES_BASELINE_BUDGET4; b++) {
        for (int a = 1; a < evaluation->n_variants; a++) {
            const EsGrowVariant *variant = &evaluation->variants[a];
            if (variant->outcomes != NULL && (int)es_grow_baseline_parse(variant->name) == b) {
                of[n_of++] = a;
            }
        }
    }
    evaluation->n_budget_gains = 0;
    for (int from = 0; from < n_of; from++) {
        for (int to = from + 1; to < n_of; to++) {
            struct EsGrowBudgetGain *gain = &evaluation->budget_gains[evaluation->n_budget_gains++];
            gain->from = of[from];
            gain->to = of[to];
            average_groups(evaluation, evaluation->variants[gain->to].outcomes,
                           evaluation->variants[gain->from].outcomes, ES_MEASURE_TEST_ACCURACY,
                           means);
            ES_TRY(es_bootstrap_mean(means, n, sizeof *means, seed, ES_MEASURE_TEST_ACCURACY,
                                     &gain->gained));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_grow_evaluation_compare(EsGrowEvaluation *evaluation, uint64_t seed) {
    const EsGrowOutcome *first = evaluation->variants[0].outcomes;
    size_t n_episodes = (size_t)evaluation->n_episodes;
    int64_t n_group = evaluation->group_size;
    double *means = NULL;
    EsGrowOutcome *best = NULL; // of the first variant, group by group
    EsStatus status = ES_STATUS_OK;
    ES_ASSERT(first != NULL && n_group >= 1);
    ES_TRY(es_allocate(sizeof *means * n_episodes, (void **)&means));
    ES_TRY_GOTO(es_allocate(sizeof *best * n_episodes, (void **)&best));
    for (int64_t i = 0; i < evaluation->n_episodes; i += n_group) {
        es_grow_outcomes_select(first + i, n_group, best + i);
    }
    for (int a = 0; a < evaluation->n_variants; a++) {
        const EsGrowVariant *variant = &evaluation->variants[a];
        int is_search = es_grow_baseline_parse(variant->name) == ES_BASELINE_SEARCH;
        for (int m = 0; variant->outcomes != NULL && m < ES_N_MEASURES; m++) {
            ES_TRY_GOTO(compare_variant(evaluation, is_search ? best : first, a, (EsGrowMeasure)m,
                                        seed, means));
        }
    }
    status = compare_budgets(evaluation, seed, means);
done:
    es_release(best);
    es_release(means);
    return status;
}

void es_grow_evaluation_order(const double *means, int n, int *order) {
    for (int a = 0; a < n; a++) {
        int at = a;
        for (; at > 0 && !(means[a] <= means[order[at - 1]]) && !isnan(means[a]); at--) {
            order[at] = order[at - 1];
        }
        order[at] = a;
    }
}

// --- writing as JSON ---

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
static json_t *outcomes_json(const EsGrowVariant *variant, int64_t n) {
    json_t *object = json_object();
    int is_complete = object != NULL;
    for (int m = 0; m < ES_N_MEASURES && is_complete; m++) {
        json_t *values = json_array();
        for (int64_t i = 0; i < n && is_complete; i++) {
            is_complete =
                json_array_append_new(values, es_json_number(variant->outcomes[i].measure[m])) == 0;
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

// [{"from": "ppo", "to": "budget2", "test_accuracy": {...}}, ...]
static json_t *budget_gains_json(const EsGrowEvaluation *evaluation) {
    json_t *gains = json_array();
    for (int i = 0; i < evaluation->n_budget_gains; i++) {
        const struct EsGrowBudgetGain *gain = &evaluation->budget_gains[i];
        json_t *object = json_pack("{s:s, s:s, s:o}", "from", evaluation->variants[gain->from].name,
                                   "to", evaluation->variants[gain->to].name, "test_accuracy",
                                   interval_json(&gain->gained));
        if (json_array_append_new(gains, object) != 0) {
            json_decref(gains);
            return NULL;
        }
    }
    return gains;
}

json_t *es_grow_evaluation_json(const EsGrowEvaluation *evaluation) {
    json_t *variants = json_array();
    int is_complete = variants != NULL;
    for (int a = 0; a < evaluation->n_variants && is_complete; a++) {
        const EsGrowVariant *variant = &evaluation->variants[a];
        if (variant->outcomes == NULL) {
            continue;
        }
        // json_pack gives NULL when a part is, and takes the others with it
        json_t *object = json_pack("{s:s, s:s, s:o, s:o, s:o}", "policy", variant->name, "sha256",
                                   variant->hash, "mean", es_grow_intervals_json(variant->mean),
                                   "policy_minus_this", es_grow_intervals_json(variant->difference),
                                   "episodes", outcomes_json(variant, evaluation->n_episodes));
        is_complete = json_array_append_new(variants, object) == 0;
    }
    if (!is_complete) {
        json_decref(variants);
        return NULL;
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "n_episodes",
                     (json_int_t)evaluation->n_episodes, "tasks", (json_int_t)evaluation->n_tasks,
                     "task_episodes", (json_int_t)evaluation->group_size, "rounds",
                     (json_int_t)evaluation->n_rounds, "greedy", evaluation->is_greedy, "arms",
                     variants, "budget_gains", budget_gains_json(evaluation));
}

EsStatus es_grow_evaluation_save(const EsGrowEvaluation *evaluation, const char *path) {
    char *text = NULL;
    ES_TRY(es_json_dump(path, es_grow_evaluation_json(evaluation),
                        JSON_INDENT(1) | JSON_REAL_PRECISION(17) | JSON_SORT_KEYS, &text));
    EsStatus status = es_file_write_all(path, text, strlen(text));
    free(text);
    return status;
}

// --- reading JSON ---

// Reads a measure of a finished episode. Counts are always known; the others are null where they
// are not finite.
static EsStatus read_measure(EsFileField field, EsGrowMeasure m, const json_t *value,
                             double *number) {
    int is_count = m == ES_MEASURE_FOSSILS || m == ES_MEASURE_ROLLBACKS;
    int is_percent = m == ES_MEASURE_TEST_ACCURACY || m == ES_MEASURE_VALIDATION_ACCURACY;
    if (!json_is_number(value) && !(json_is_null(value) && !is_count)) {
        return ES_FAIL(INPUT, "%s: %s[%lld] is not a number%s", field.path, field.name,
                       (long long)field.index, is_count ? "" : " or null");
    }
    *number = json_is_number(value) ? json_number_value(value) : NAN;
    return json_is_null(value)
               ? ES_STATUS_OK
               : es_check_real(field, *number, m == ES_MEASURE_REWARD ? -DBL_MAX : 0,
                               is_count ? INT32_MAX : (is_percent ? 100 : DBL_MAX));
}

static EsStatus load_outcomes(const json_t *episodes, int64_t n, EsGrowVariant *variant,
                              const char *path) {
    for (int m = 0; m < ES_N_MEASURES; m++) {
        const char *name = es_grow_measure_name((EsGrowMeasure)m);
        const json_t *values = json_object_get(episodes, name);
        if (values == NULL && m >= ES_MEASURE_PARAMETERS) { // files of earlier versions lack these
            for (int64_t i = 0; i < n; i++) {
                variant->outcomes[i].measure[m] = NAN;
            }
            continue;
        }
        if (!json_is_array(values) || (int64_t)json_array_size(values) != n) {
            return ES_FAIL(INPUT, "%s: \"%s\" of policy \"%.100s\" is not a list of %lld numbers",
                           path, name, variant->name, (long long)n);
        }
        if (variant->outcomes == NULL) { // the file is as large as it says
            ES_TRY(es_allocate(sizeof *variant->outcomes * (size_t)n, (void **)&variant->outcomes));
        }
        for (int64_t i = 0; i < n; i++) {
            ES_TRY(read_measure((EsFileField){path, name, i}, (EsGrowMeasure)m,
                                json_array_get(values, (size_t)i),
                                &variant->outcomes[i].measure[m]));
        }
    }
    return ES_STATUS_OK;
}

// Files of earlier versions lack "tasks": theirs have several episodes each. Still earlier ones had
// none.
static EsStatus load_tasks(const json_t *root, EsGrowEvaluation *evaluation, const char *path) {
    const json_t *group = json_object_get(root, "task_episodes");
    const json_t *tasks = json_object_get(root, "tasks");
    int64_t n = evaluation->n_episodes;
    evaluation->group_size = group != NULL ? json_integer_value(group) : 1;
    if (evaluation->group_size < 1 || n % evaluation->group_size != 0) {
        return ES_FAIL(INPUT, "%s: %lld episodes do not make tasks of %lld", path, (long long)n,
                       (long long)evaluation->group_size);
    }
    int64_t n_groups = n / evaluation->group_size;
    evaluation->n_tasks = evaluation->group_size > 1 ? n_groups : 0;
    if (tasks != NULL) {
        evaluation->n_tasks = json_is_integer(tasks) ? json_integer_value(tasks) : -1;
    }
    int is_right = evaluation->n_tasks == n_groups ||
                   (evaluation->n_tasks == 0 && evaluation->group_size == 1);
    return is_right ? ES_STATUS_OK
                    : ES_FAIL(INPUT, "%s: \"tasks\" is not the number of tasks of %lld episodes",
                              path, (long long)evaluation->group_size);
}

static EsStatus load_variants(const json_t *root, EsGrowEvaluation *evaluation, const char *path) {
    const json_t *variants = json_object_get(root, "arms");
    json_int_t n_episodes = json_integer_value(json_object_get(root, "n_episodes"));
    size_t n_variants = json_array_size(variants);
    if (n_episodes < 1 || n_episodes > 1000000 || n_variants < 1 ||
        n_variants > ES_GROW_VARIANTS_MAX) {
        return ES_FAIL(INPUT, "%s is not a comparison of policies", path);
    }
    evaluation->n_episodes = n_episodes;
    ES_TRY(load_tasks(root, evaluation, path));
    evaluation->n_rounds = json_integer_value(json_object_get(root, "rounds"));
    ES_TRY(es_check_integer((EsFileField){path, "rounds", ES_NO_INDEX}, evaluation->n_rounds, 0,
                            INT32_MAX));
    evaluation->is_greedy = json_is_true(json_object_get(root, "greedy"));
    for (size_t a = 0; a < n_variants; a++) {
        const json_t *object = json_array_get(variants, a);
        const char *name = json_string_value(json_object_get(object, "policy"));
        const char *hash = json_string_value(json_object_get(object, "sha256"));
        EsGrowVariant *variant = &evaluation->variants[evaluation->n_variants++];
        if (name == NULL || hash == NULL) {
            return ES_FAIL(INPUT, "%s: policy %d has no name or hash", path, (int)a + 1);
        }
        snprintf(variant->name, sizeof variant->name, "%s", name);
        snprintf(variant->hash, sizeof variant->hash, "%s", hash);
        ES_TRY(load_outcomes(json_object_get(object, "episodes"), n_episodes, variant, path));
    }
    return ES_STATUS_OK;
}

EsStatus es_grow_evaluation_load(const char *path, EsGrowEvaluation **evaluation) {
    json_t *root = NULL;
    *evaluation = NULL;
    ES_TRY(es_json_load(path, &root));
    EsStatus status = es_allocate(sizeof **evaluation, (void **)evaluation);
    if (status == ES_STATUS_OK) {
        status = load_variants(root, *evaluation, path);
    }
    json_decref(root);
    if (status != ES_STATUS_OK) {
        es_grow_evaluation_destroy(*evaluation);
        *evaluation = NULL;
    }
    return status;
}
