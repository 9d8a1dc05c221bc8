// Policies on the same held-out episodes, intervals of their differences, and evaluation.json.
#include "runs/grow/grow_evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "esper/log.h"
#include "runs/stop_signal.h"

const char *es_grow_measure_name(EsGrowMeasure measure) {
    static const char *const names[] = {
#define X(NAME, name) #name,
        ES_GROW_MEASURES(X)
#undef X
    };
    return names[measure];
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

// --- variants ---

// Policies by their position among the variants.
typedef struct Contest {
    EsEpisodeRunner *runner;      // borrowed
    EsRun *run;                   // borrowed
    EsGrowEvaluation *evaluation; // borrowed
    EsPolicy *policies[ES_GROW_VARIANTS_MAX];
    int64_t start_ns;
} Contest;

static void close_variants(Contest *contest) {
    for (int a = 0; a < ES_GROW_VARIANTS_MAX; a++) {
        es_grow_episode_destroy_policy(contest->runner, contest->policies[a]);
        contest->policies[a] = NULL;
    }
}

// A variant's name is its key: one that is there already is not taken again.
static EsStatus open_variant(Contest *contest, const char *name, const char *text) {
    EsGrowEvaluation *evaluation = contest->evaluation;
    for (int a = 0; a < evaluation->n_variants; a++) {
        if (strcmp(evaluation->variants[a].name, name) == 0) {
            return ES_STATUS_OK;
        }
    }
    if (evaluation->n_variants == ES_GROW_VARIANTS_MAX) {
        return ES_FAIL(CONFIG, "at most %d policies can be compared", ES_GROW_VARIANTS_MAX);
    }
    EsPolicy **policy = &contest->policies[evaluation->n_variants];
    EsGrowVariant *variant = &evaluation->variants[evaluation->n_variants];
    ES_TRY(es_grow_episode_open_policy(contest->runner, text, policy));
    if (es_policy_kind(*policy) == ES_POLICY_LEARNED) {
        es_policy_set_greedy(*policy, evaluation->is_greedy);
    }
    snprintf(variant->name, sizeof variant->name, "%s", name);
    snprintf(variant->hash, sizeof variant->hash, "%s", es_policy_hash(*policy));
    evaluation->n_variants++;
    return ES_STATUS_OK;
}

// Those of the settings: names separated by commas, blanks around them do not count.
static EsStatus open_rivals(Contest *contest) {
    char list[sizeof contest->runner->settings->against], *rest = NULL;
    snprintf(list, sizeof list, "%s", contest->runner->settings->against);
    for (char *name = strtok_r(list, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        name += strspn(name, " \t");
        size_t length = strlen(name);
        while (length > 0 && strchr(" \t", name[length - 1]) != NULL) {
            name[--length] = '\0';
        }
        EsStatus status = length > 0 ? open_variant(contest, name, name) : ES_STATUS_OK;
        if (status != ES_STATUS_OK) {
            char detail[1024];
            snprintf(detail, sizeof detail, "%s", es_status_detail());
            return es_status_set(status, __FILE__, __LINE__, "[evaluate] against: %s", detail);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus create_evaluation(const EsGrowSettings *settings, EsGrowEvaluation **evaluation) {
    ES_TRY(es_allocate(sizeof **evaluation, (void **)evaluation));
    (*evaluation)->n_episodes = es_grow_settings_evaluated(settings);
    (*evaluation)->is_greedy = settings->is_greedy;
    (*evaluation)->n_rounds = settings->run.n_rounds;
    return ES_STATUS_OK;
}

EsStatus es_grow_evaluate_check(EsEpisodeRunner *runner) {
    Contest contest = {.runner = runner};
    if (es_grow_settings_evaluated(runner->settings) == 0) {
        return ES_STATUS_OK;
    }
    if (runner->dataset.test.count < 1) {
        return ES_FAIL(INPUT, "policies are compared on test images, and the data set has none; "
                              "--eval 0 leaves the comparison out");
    }
    ES_TRY(create_evaluation(runner->settings, &contest.evaluation));
    // the first variant is the run's own policy, which may have no file before it is trained
    EsGrowVariant *first = &contest.evaluation->variants[contest.evaluation->n_variants++];
    snprintf(first->name, sizeof first->name, "%s", runner->settings->policy);
    EsStatus status = open_rivals(&contest);
    close_variants(&contest);
    es_grow_evaluation_destroy(contest.evaluation);
    return status;
}

// --- episodes ---

// The network that is tested is the one that was validated last: before the last decision, which
// may prune, blend or set back.
static EsStatus watch_measured(void *context, int64_t step) {
    const Contest *contest = context;
    EsGrowth *growth = contest->runner->growth;
    if (es_stop_signal_time_ns() != 0) {
        return ES_FAIL(INTERRUPTED, "the comparison was dropped");
    }
    return step + 1 == es_growth_settings(growth)->episode_steps ? es_growth_test(growth)
                                                                 : ES_STATUS_OK;
}

static EsStatus watch_decided(void *context, int64_t step) {
    const Contest *contest = context;
    (void)step;
    es_hub_tick(es_run_hub(contest->run));
    return ES_STATUS_OK;
}

static void take_outcomes(const EsEpisodeRunner *runner, EsGrowOutcome *outcomes, int64_t n) {
    const EsGrowthResult *results = es_growth_results(runner->growth);
    const EsGrowthEnvView *env = &es_growth_snapshot(runner->growth)->state.env;
    const double *rewards = es_reward_totals(runner->reward);
    for (int64_t e = 0; e < n; e++) {
        double *measure = outcomes[e].measure;
        measure[ES_MEASURE_TEST_ACCURACY] = results[e].test_accuracy;
        measure[ES_MEASURE_VALIDATION_ACCURACY] = results[e].validation_accuracy;
        measure[ES_MEASURE_REWARD] = rewards[e];
        measure[ES_MEASURE_PARAMETER_RATIO] = runner->parameter_ratio[e];
        measure[ES_MEASURE_FOSSILS] = env->n_fossils[e];
        measure[ES_MEASURE_ROLLBACKS] = env->n_rollbacks[e];
    }
}

static void emit_progress(const Contest *contest, int variant, int64_t n_done) {
    const EsGrowEvaluation *evaluation = contest->evaluation;
    EsEvaluationProgressedEvent row = {.arm = evaluation->variants[variant].name,
                                       .n_done = variant * evaluation->n_episodes + n_done,
                                       .n_episodes =
                                           evaluation->n_variants * evaluation->n_episodes,
                                       .seconds = es_clock_seconds_since(contest->start_ns)};
    es_emit_evaluation_progressed(es_run_hub(contest->run),
                                  (EsEventTime){.round = evaluation->n_rounds + 1, .step = -1},
                                  &row, 1);
}

// All environments run at once; of the last batch those beyond n_episodes do not count.
static EsStatus run_variant(Contest *contest, int a) {
    EsEpisodeRunner *runner = contest->runner;
    EsGrowVariant *variant = &contest->evaluation->variants[a];
    EsGrowWatch watch = {contest, watch_measured, watch_decided};
    int64_t n_envs = runner->settings->n_envs, n_all = contest->evaluation->n_episodes;
    ES_TRY(es_allocate(sizeof *variant->outcomes * (size_t)n_all, (void **)&variant->outcomes));
    for (int64_t first = 0; first < n_all; first += n_envs) {
        ES_TRY(
            es_grow_episode_run(runner, contest->policies[a], ES_HELD_OUT_EPISODE + first, &watch));
        take_outcomes(runner, variant->outcomes + first, ES_MIN(n_envs, n_all - first));
        emit_progress(contest, a, ES_MIN(first + n_envs, n_all));
    }
    return ES_STATUS_OK;
}

// --- earlier results ---

const char *es_grow_evaluation_difference(const EsGrowEvaluation *a, const EsGrowEvaluation *b) {
    if (a->n_episodes != b->n_episodes) {
        return "the number of held-out episodes";
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

static int is_same(const EsGrowEvaluation *a, const EsGrowEvaluation *b) {
    int same = es_grow_evaluation_difference(a, b) == NULL && a->n_rounds == b->n_rounds;
    for (int i = 0; same && i < a->n_variants; i++) {
        same = strcmp(a->variants[i].hash, b->variants[i].hash) == 0;
    }
    return same;
}

// The outcomes of the same policy in the same episodes. Policies without a file have no hash: their
// actions follow from settings that no later session can change.
static void take_variant(EsGrowEvaluation *saved, EsGrowVariant *variant) {
    for (int i = 0; i < saved->n_variants; i++) {
        EsGrowVariant *other = &saved->variants[i];
        if (strcmp(other->name, variant->name) == 0 && strcmp(other->hash, variant->hash) == 0) {
            variant->outcomes = other->outcomes;
            other->outcomes = NULL;
            return;
        }
    }
}

// The outcomes of earlier sessions, by variant, and whether it is the whole comparison. A file
// that cannot be used is made again; one for which memory is short is not lost for that.
static EsStatus take_saved(Contest *contest, const char *path, int *is_whole) {
    EsGrowEvaluation *saved = NULL;
    struct stat info;
    *is_whole = 0;
    if (stat(path, &info) != 0) {
        return ES_STATUS_OK;
    }
    EsStatus status = es_grow_evaluation_load(path, &saved);
    if (status == ES_STATUS_MEMORY) {
        return status;
    }
    if (status != ES_STATUS_OK) {
        es_log(ES_LOG_WARNING, "%s; the policies run again", es_status_detail());
        return ES_STATUS_OK;
    }
    EsGrowEvaluation *evaluation = contest->evaluation;
    *is_whole = is_same(saved, evaluation);
    if (saved->n_episodes == evaluation->n_episodes && saved->is_greedy == evaluation->is_greedy) {
        for (int a = 0; a < evaluation->n_variants; a++) {
            take_variant(saved, &evaluation->variants[a]);
        }
    }
    es_grow_evaluation_destroy(saved);
    return ES_STATUS_OK;
}

// --- the comparison ---

static EsStatus compare_variant(EsGrowEvaluation *evaluation, int a, EsGrowMeasure m, uint64_t seed,
                                double *differences) {
    const EsGrowOutcome *first = evaluation->variants[0].outcomes;
    EsGrowVariant *variant = &evaluation->variants[a];
    int64_t n = evaluation->n_episodes;
    uint32_t number = (uint32_t)m; // not the variant: equal outcomes have equal intervals
    for (int64_t i = 0; i < n; i++) {
        differences[i] = first[i].measure[m] - variant->outcomes[i].measure[m];
    }
    ES_TRY(es_bootstrap_mean(&variant->outcomes[0].measure[m], n, sizeof *variant->outcomes, seed,
                             number, &variant->mean[m]));
    return es_bootstrap_mean(differences, n, sizeof *differences, seed, number,
                             &variant->difference[m]);
}

EsStatus es_grow_evaluation_compare(EsGrowEvaluation *evaluation, uint64_t seed) {
    double *differences = NULL;
    ES_ASSERT(evaluation->variants[0].outcomes != NULL);
    ES_TRY(
        es_allocate(sizeof *differences * (size_t)evaluation->n_episodes, (void **)&differences));
    EsStatus status = ES_STATUS_OK;
    for (int a = 0; a < evaluation->n_variants && status == ES_STATUS_OK; a++) {
        int n_measures = evaluation->variants[a].outcomes != NULL ? ES_N_MEASURES : 0;
        for (int m = 0; m < n_measures && status == ES_STATUS_OK; m++) {
            status = compare_variant(evaluation, a, (EsGrowMeasure)m, seed, differences);
        }
    }
    es_release(differences);
    return status;
}

// In the round after the last one: a resumed run takes rows of later rounds back, and they are
// emitted again.
static EsStatus emit_outcomes(const Contest *contest) {
    const EsGrowEvaluation *evaluation = contest->evaluation;
    EsEventTime time = {.round = evaluation->n_rounds + 1, .step = -1};
    int64_t n = evaluation->n_episodes, n_envs = contest->runner->settings->n_envs;
    EsEpisodeOutcomeEvent *rows = NULL;
    ES_TRY(es_allocate(sizeof *rows * (size_t)n, (void **)&rows));
    for (int a = 0; a < evaluation->n_variants; a++) {
        for (int64_t i = 0; i < n; i++) {
            const double *measure = evaluation->variants[a].outcomes[i].measure;
            rows[i] = (EsEpisodeOutcomeEvent){
                .env = i % n_envs,
                .episode = ES_HELD_OUT_EPISODE + i,
                .arm = evaluation->variants[a].name,
                .final_accuracy = measure[ES_MEASURE_VALIDATION_ACCURACY],
                .final_loss = es_missing_real(),
                .test_accuracy = measure[ES_MEASURE_TEST_ACCURACY],
                .parameter_ratio = measure[ES_MEASURE_PARAMETER_RATIO],
                .n_fossils = (int64_t)measure[ES_MEASURE_FOSSILS],
                .n_contributing = ES_MISSING_INT,
                .reward = measure[ES_MEASURE_REWARD],
                .stability = es_missing_real(),
                .n_steps = es_growth_settings(contest->runner->growth)->episode_steps,
                .n_germinated = ES_MISSING_INT,
                .n_pruned = ES_MISSING_INT,
                .n_rollbacks = (int64_t)measure[ES_MEASURE_ROLLBACKS]};
        }
        es_emit_episode_outcome(es_run_hub(contest->run), time, rows, n);
    }
    es_release(rows);
    return ES_STATUS_OK;
}

// Runs the missing variants. Every finished variant is saved at once: a session may end in the
// next.
static EsStatus run_variants(Contest *contest, const char *path) {
    EsGrowEvaluation *evaluation = contest->evaluation;
    uint64_t seed = (uint64_t)contest->runner->settings->run.seed;
    int is_saved = 0;
    ES_TRY(take_saved(contest, path, &is_saved));
    for (int a = 0; a < evaluation->n_variants; a++) {
        if (evaluation->variants[a].outcomes != NULL) {
            continue;
        }
        ES_TRY(run_variant(contest, a));
        if (a + 1 < evaluation->n_variants) {
            ES_TRY(es_grow_evaluation_compare(evaluation, seed));
            ES_TRY(es_grow_evaluation_save(evaluation, path));
        }
    }
    ES_TRY(es_grow_evaluation_compare(evaluation, seed));
    return is_saved ? ES_STATUS_OK : es_grow_evaluation_save(evaluation, path);
}

static EsStatus hold_contest(Contest *contest, const char *name, const char *text) {
    char path[ES_RUN_PATH_BYTES];
    ES_TRY(open_variant(contest, name, text));
    ES_TRY(open_rivals(contest));
    es_run_folder_path(es_run_folder(contest->run), "evaluation.json", path);
    ES_TRY(run_variants(contest, path));
    return emit_outcomes(contest);
}

EsStatus es_grow_evaluate(EsEpisodeRunner *runner, const char *name, const char *text, EsRun *run,
                          EsGrowEvaluation **evaluation) {
    Contest contest = {.runner = runner, .run = run, .start_ns = es_clock_ns()};
    *evaluation = NULL;
    ES_TRY(create_evaluation(runner->settings, &contest.evaluation));
    EsStatus status = hold_contest(&contest, name, text);
    close_variants(&contest);
    if (status != ES_STATUS_OK) {
        es_grow_evaluation_destroy(contest.evaluation);
        return status;
    }
    *evaluation = contest.evaluation;
    return ES_STATUS_OK;
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
    return json_pack("{s:I, s:I, s:b, s:o}", "n_episodes", (json_int_t)evaluation->n_episodes,
                     "rounds", (json_int_t)evaluation->n_rounds, "greedy", evaluation->is_greedy,
                     "arms", variants);
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

static EsStatus load_variants(const json_t *root, EsGrowEvaluation *evaluation, const char *path) {
    const json_t *variants = json_object_get(root, "arms");
    json_int_t n_episodes = json_integer_value(json_object_get(root, "n_episodes"));
    size_t n_variants = json_array_size(variants);
    if (n_episodes < 1 || n_episodes > 1000000 || n_variants < 1 ||
        n_variants > ES_GROW_VARIANTS_MAX) {
        return ES_FAIL(INPUT, "%s is not a comparison of policies", path);
    }
    evaluation->n_episodes = n_episodes;
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
