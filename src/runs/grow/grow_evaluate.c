// Policies and baselines on the same held-out episodes.
#include "runs/grow/grow_evaluate.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/memory.h"
#include "esper/log.h"
#include "runs/grow/grow_sweep.h"

static int is_planted(EsGrowBaseline baseline) {
    return baseline == ES_BASELINE_SCRATCH || baseline == ES_BASELINE_TOPOLOGIES ||
           baseline == ES_BASELINE_SEARCH;
}

static int has_larger_budget(EsGrowBaseline baseline) {
    return baseline == ES_BASELINE_BUDGET2 || baseline == ES_BASELINE_BUDGET4;
}

// --- variants ---

// Policies by their position among the variants; NULL of baselines.
typedef struct Contest {
    EsEpisodeRunner *runner;      // borrowed
    EsRun *run;                   // borrowed
    EsGrowEvaluation *evaluation; // borrowed
    EsPolicy *policies[ES_GROW_VARIANTS_MAX];
    EsFitTopology *finals; // owned [n_episodes]: of the first variant's networks; NULL: unwanted
    const char *text;      // borrowed: name or file of the first variant's policy
    int64_t start_ns;
    // episodes [first, end) are run by `runner`: all of them, or a group with one task
    int64_t first, end;
    // of the episodes at hand
    EsEpisodeRunner *running;
    EsFitTopology *taken;    // [E]: gets those of their last networks; NULL: unwanted
    EsGrowOutcome *outcomes; // [E]: of them
    int64_t n_counted;       // hosts whose episodes count, at most E
} Contest;

static void close_variants(Contest *contest) {
    for (int a = 0; a < ES_GROW_VARIANTS_MAX; a++) {
        es_grow_episode_destroy_policy(contest->runner, contest->policies[a]);
        contest->policies[a] = NULL;
    }
    es_release(contest->finals);
    contest->finals = NULL;
}

// Can this device run the variant? Says so where it cannot: at the start, before the run.
static int can_run(const Contest *contest, const char *name) {
    int is_here = es_device_info(contest->runner->device)->kind == ES_DEVICE_CPU ||
                  es_policy_parse_kind(name) != ES_POLICY_EAGER;
    if (!is_here && contest->run == NULL) {
        es_log(ES_LOG_WARNING,
               "\"%s\" is left out of the comparison: it decides by size, which --device cpu does "
               "alone",
               name);
    }
    return is_here;
}

static EsStatus open_policy(const Contest *contest, EsEpisodeRunner *runner, const char *text,
                            EsPolicy **policy) {
    ES_TRY(es_grow_episode_open_policy(runner, text, policy));
    if (es_policy_kind(*policy) == ES_POLICY_LEARNED) {
        es_policy_set_greedy(*policy, contest->evaluation->is_greedy);
    }
    return ES_STATUS_OK;
}

// Adds a variant that is made from the first one.
static EsStatus add_baseline(Contest *contest, EsGrowBaseline baseline, const char *name) {
    EsGrowEvaluation *evaluation = contest->evaluation;
    const EsGrowSettings *settings = contest->runner->settings;
    EsGrowVariant *variant = &evaluation->variants[evaluation->n_variants];
    if (has_larger_budget(baseline) && evaluation->n_tasks == 0 && settings->max_parameters == 0) {
        return ES_FAIL(CONFIG, "\"%s\" is %s, and this run has none: --max-params", name,
                       es_grow_baseline_meaning(baseline));
    }
    snprintf(variant->hash, sizeof variant->hash, "%s", evaluation->variants[0].hash);
    evaluation->n_variants++;
    return ES_STATUS_OK;
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
    EsGrowBaseline baseline = es_grow_baseline_parse(name);
    snprintf(variant->name, sizeof variant->name, "%s", name);
    if (baseline != ES_BASELINE_NONE && evaluation->n_variants > 0) {
        return add_baseline(contest, baseline, name);
    }
    ES_TRY(open_policy(contest, contest->runner, text, policy));
    if (contest->run == NULL) { // at the start, before the run
        es_grow_episode_warn_outside(*policy, es_growth_settings(contest->runner->growth), name);
    }
    snprintf(variant->hash, sizeof variant->hash, "%s", es_policy_hash(*policy));
    evaluation->n_variants++;
    return ES_STATUS_OK;
}

// The next name of a list that is separated by commas, "" for none, NULL at its end; blanks around
// it do not count. `list` at first, then NULL.
static char *next_name(char *list, char **rest) {
    char *name = strtok_r(list, ",", rest);
    if (name == NULL) {
        return NULL;
    }
    name += strspn(name, " \t");
    for (size_t n = strlen(name); n > 0 && strchr(" \t", name[n - 1]) != NULL; n--) {
        name[n - 1] = '\0';
    }
    return name;
}

int es_grow_evaluate_has_static(const EsGrowSettings *settings) {
    char list[sizeof settings->against], *rest = NULL;
    int has_static = 0;
    snprintf(list, sizeof list, "%s", settings->against);
    for (char *name = next_name(list, &rest); name != NULL; name = next_name(NULL, &rest)) {
        EsGrowBaseline baseline = es_grow_baseline_parse(name);
        has_static |=
            baseline != ES_BASELINE_NONE && baseline != ES_BASELINE_BEST && !is_planted(baseline);
    }
    return has_static;
}

// Opens a name of the settings' list. A search brings the row that it is paired with.
static EsStatus open_rival(Contest *contest, const char *name) {
    if (name[0] == '\0' || !can_run(contest, name)) {
        return ES_STATUS_OK;
    }
    if (es_grow_baseline_parse(name) == ES_BASELINE_SEARCH && contest->evaluation->group_size > 1) {
        ES_TRY(open_variant(contest, "best", "best"));
    }
    return open_variant(contest, name, name);
}

// Those of the settings.
static EsStatus open_rivals(Contest *contest) {
    char list[sizeof contest->runner->settings->against], *rest = NULL;
    snprintf(list, sizeof list, "%s", contest->runner->settings->against);
    for (char *name = next_name(list, &rest); name != NULL; name = next_name(NULL, &rest)) {
        EsStatus status = open_rival(contest, name);
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
    (*evaluation)->group_size = 1;
    if (settings->tasks.n_groups > 0) {
        (*evaluation)->group_size = es_grow_settings_group_envs(settings);
        (*evaluation)->n_tasks = (*evaluation)->n_episodes / (*evaluation)->group_size;
    }
    (*evaluation)->is_greedy = settings->is_greedy;
    (*evaluation)->is_sweep = settings->sweep[0] != '\0';
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
    if (runner->settings->sweep[0] != '\0') {
        EsSweep sweep;
        return es_sweep_of_settings(runner->settings, &sweep);
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

static EsStatus take_topology(const EsGrowth *growth, int64_t env, EsFitTopology *topology) {
    const EsGrowthModel *model = es_growth_model(growth);
    EsGrownSpec spec = {.n_seeds = 0};
    EsTopology unused;
    es_grown_seeds_list(growth, env, &spec, &unused);
    return es_fit_topology_of(topology, &spec, model->slots, model->n_slots);
}

void es_grow_outcomes_count_step(const EsGrowth *growth, int64_t n, EsGrowOutcome *outcomes) {
    const EsGrowthOptions *options = es_growth_options(growth);
    double n_images = (double)(options->batch * options->step_batches);
    int64_t most = options->settings.max_parameters;
    for (int64_t e = 0; e < n; e++) {
        double *measure = outcomes[e].measure, flops = es_growth_flops(growth, e);
        int64_t n_parameters = es_growth_parameter_count(growth, e);
        measure[ES_MEASURE_PARAMETERS] = (double)n_parameters;
        measure[ES_MEASURE_FLOPS] = flops;
        measure[ES_MEASURE_TRAINING_FLOPS] += 3 * flops * n_images;
        measure[ES_MEASURE_OVER_BUDGET] += most > 0 && n_parameters > most;
    }
}

// The network that is tested is the one that was validated last: before the last decision, which
// may prune, blend or set back.
static EsStatus watch_measured(void *context, int64_t step) {
    const Contest *contest = context;
    EsGrowth *growth = contest->running->growth;
    if (es_run_must_stop(contest->run)) {
        return ES_FAIL(INTERRUPTED, "the comparison was dropped");
    }
    es_grow_outcomes_count_step(growth, contest->n_counted, contest->outcomes);
    if (step + 1 < es_growth_settings(growth)->episode_steps) {
        return ES_STATUS_OK;
    }
    for (int64_t e = 0; contest->taken != NULL && e < contest->n_counted; e++) {
        ES_TRY(take_topology(growth, e, &contest->taken[e]));
    }
    return es_growth_test(growth);
}

static EsStatus watch_decided(void *context, int64_t step) {
    const Contest *contest = context;
    (void)step;
    es_hub_tick(es_run_hub(contest->run));
    return ES_STATUS_OK;
}

void es_grow_outcomes_take(const EsEpisodeRunner *runner, int64_t n, EsGrowOutcome *outcomes) {
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

// Sizes are over the host that the policies grow. What never grew has no reward.
static void take_outcomes(const Contest *contest, EsGrowBaseline baseline,
                          EsGrowOutcome *outcomes) {
    const EsEpisodeRunner *runner = contest->running;
    double scale = (double)es_growth_model(runner->growth)->layout.n_host_weights /
                   (double)es_growth_model(contest->runner->growth)->layout.n_host_weights;
    es_grow_outcomes_take(runner, contest->n_counted, outcomes);
    for (int64_t e = 0; e < contest->n_counted; e++) {
        double *measure = outcomes[e].measure;
        measure[ES_MEASURE_REWARD] =
            baseline == ES_BASELINE_NONE ? measure[ES_MEASURE_REWARD] : NAN;
        measure[ES_MEASURE_PARAMETER_RATIO] *= scale;
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

// All environments run at once; of the last batch those beyond n_episodes do not count. Hosts begin
// with `planted` [n_episodes], where there are such.
static EsStatus run_episodes(Contest *contest, EsEpisodeRunner *runner, EsPolicy *policy,
                             const EsFitTopology *planted, int a) {
    EsGrowVariant *variant = &contest->evaluation->variants[a];
    EsGrowWatch watch = {contest, watch_measured, watch_decided};
    int64_t n_envs = runner->settings->n_envs;
    EsGrowBaseline baseline = a > 0 ? es_grow_baseline_parse(variant->name) : ES_BASELINE_NONE;
    contest->running = runner;
    memset(variant->outcomes + contest->first, 0, // of a try that the device refused
           sizeof *variant->outcomes * (size_t)(contest->end - contest->first));
    for (int64_t first = contest->first; first < contest->end; first += n_envs) {
        int64_t episode = ES_HELD_OUT_EPISODE + first;
        contest->n_counted = ES_MIN(n_envs, contest->end - first);
        contest->outcomes = variant->outcomes + first;
        contest->taken = a == 0 && contest->finals != NULL ? contest->finals + first : NULL;
        ES_TRY(planted != NULL
                   ? es_grow_episode_run_planted(runner, policy, episode, planted + first,
                                                 contest->n_counted, &watch)
                   : es_grow_episode_run(runner, policy, episode, &watch));
        take_outcomes(contest, baseline, variant->outcomes + first);
        emit_progress(contest, a, first + contest->n_counted);
    }
    return ES_STATUS_OK;
}

// --- baselines ---

// Parameters of the first variant's networks, mean over the runner's episodes.
static int64_t find_final_size(const Contest *contest) {
    const EsGrowVariant *first = &contest->evaluation->variants[0];
    const EsGrowthModel *model = es_growth_model(contest->runner->growth);
    double ignored,
        ratio = es_mean(&first->outcomes[contest->first].measure[ES_MEASURE_PARAMETER_RATIO],
                        contest->end - contest->first, sizeof *first->outcomes, &ignored);
    return (int64_t)(ratio * (double)model->layout.n_host_weights + 0.5);
}

// In `runner`, where nothing grows.
static EsStatus run_alone(Contest *contest, EsEpisodeRunner *runner, const EsFitTopology *planted,
                          int a) {
    EsPolicy *policy = NULL;
    ES_TRY(es_grow_episode_open_policy(runner, "wait", &policy));
    EsStatus status = run_episodes(contest, runner, policy, planted, a);
    es_grow_episode_destroy_policy(runner, policy);
    return status;
}

static EsStatus run_static(Contest *contest, const EsHostSpec *host, int a) {
    EsEpisodeRunner runner;
    ES_TRY(es_grow_episode_create_static(contest->runner, host, &runner));
    EsStatus status = run_alone(contest, &runner, NULL, a);
    es_grow_episode_destroy(&runner);
    return status;
}

// As deep as the device runs it; where that is not as deep as the size allows, the rest goes into
// width.
static EsStatus run_deeper(Contest *contest, int64_t n_parameters, int a) {
    const EsHostSpec *plain = &contest->runner->host;
    EsHostSpec host = es_host_deepen(plain, n_parameters, ES_HOST_BLOCKS_MAX);
    EsStatus status = run_static(contest, &host, a);
    while (status == ES_STATUS_UNSUPPORTED && host.n_blocks > plain->n_blocks + 1) {
        host = es_host_deepen(plain, n_parameters, host.n_blocks - 1);
        EsHostSpec wider = es_host_widen(&host, n_parameters);
        status = run_static(contest, &wider, a);
    }
    return status;
}

// Runs random topologies, one in each episode; passes draw others.
static EsStatus run_drawn(Contest *contest, int64_t n_parameters, int64_t pass, int a) {
    const EsGrowthModel *model = es_growth_model(contest->runner->growth);
    int64_t n = contest->evaluation->n_episodes;
    EsFitTopology *drawn = NULL;
    ES_TRY(es_allocate(sizeof *drawn * (size_t)n, (void **)&drawn));
    for (int64_t i = contest->first; i < contest->end; i++) {
        es_fit_topology_draw(&drawn[i], &contest->runner->host, model->slots, model->n_slots,
                             n_parameters, (uint64_t)contest->runner->settings->run.seed,
                             (uint32_t)(pass * n + i));
    }
    EsStatus status = run_alone(contest, contest->runner, drawn, a);
    es_release(drawn);
    return status;
}

// A random search for the network of a task (without tasks: of an episode).
typedef struct Search {
    double most_flops; // of the first variant's training in the same episodes
    double flops;      // of the topologies that were tried
    int64_t n_tried;
    int is_over;        // they have taken as much
    EsGrowOutcome best; // by validation
} Search;

// Tries the topologies that were trained, in their order, until they have taken the FLOPs: the last
// one is finished, so that a search has no less than the policy.
static void take_candidates(Search *search, const EsGrowOutcome *outcomes, int64_t n) {
    for (int64_t i = 0; i < n && !search->is_over; i++) {
        if (search->n_tried == 0 || es_grow_outcome_is_better(&outcomes[i], &search->best)) {
            search->best = outcomes[i];
        }
        search->flops += outcomes[i].measure[ES_MEASURE_TRAINING_FLOPS];
        search->n_tried++;
        search->is_over = !(search->flops < search->most_flops);
    }
}

// Random topologies, trained whole and by the same recipe, until they have taken the FLOPs of the
// policy's episodes. All episodes of a task have the outcome of the best, and an equal share of the
// training.
static EsStatus run_search(Contest *contest, int64_t n_parameters, int a) {
    const EsGrowEvaluation *evaluation = contest->evaluation;
    const EsGrowOutcome *first = evaluation->variants[0].outcomes;
    EsGrowOutcome *outcomes = evaluation->variants[a].outcomes;
    int64_t n_group = evaluation->group_size;
    Search *searches = NULL; // of the groups, by their first episode
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *searches * (size_t)evaluation->n_episodes, (void **)&searches));
    for (int64_t i = contest->first; i < contest->end; i++) {
        searches[i / n_group * n_group].most_flops += first[i].measure[ES_MEASURE_TRAINING_FLOPS];
    }
    int is_over = 0;
    for (int64_t pass = 0; !is_over; pass++) {
        ES_TRY_GOTO(run_drawn(contest, n_parameters, pass, a));
        is_over = 1;
        for (int64_t i = contest->first; i < contest->end; i += n_group) {
            take_candidates(&searches[i], outcomes + i, n_group);
            is_over &= searches[i].is_over;
        }
    }
    for (int64_t i = contest->first; i < contest->end; i++) {
        const Search *search = &searches[i / n_group * n_group];
        outcomes[i] = search->best;
        outcomes[i].measure[ES_MEASURE_TRAINING_FLOPS] = search->flops / (double)n_group;
    }
done:
    es_release(searches);
    return status;
}

// The first variant's policy with `factor` times the budget; without one in the task as it was.
static EsStatus run_larger_budget(Contest *contest, int64_t factor, int a) {
    EsGrowSettings settings = *contest->runner->settings;
    EsEpisodeRunner runner;
    EsPolicy *policy = NULL;
    settings.max_parameters = (int)ES_MIN(factor * settings.max_parameters, INT32_MAX);
    ES_TRY(es_grow_episode_create_like(contest->runner, &settings, &runner));
    EsStatus status = open_policy(contest, &runner, contest->text, &policy);
    if (status == ES_STATUS_OK) {
        status = run_episodes(contest, &runner, policy, NULL, a);
    }
    es_grow_episode_destroy_policy(&runner, policy);
    es_grow_episode_destroy(&runner);
    return status;
}

// The first variant's networks that are best by validation, group by group.
static EsStatus take_best(Contest *contest, int a) {
    const EsGrowEvaluation *evaluation = contest->evaluation;
    for (int64_t i = contest->first; i < contest->end; i += evaluation->group_size) {
        es_grow_outcomes_select(evaluation->variants[0].outcomes + i, evaluation->group_size,
                                evaluation->variants[a].outcomes + i);
    }
    return ES_STATUS_OK;
}

// The baseline of variant a in the episodes of the runner at hand.
static EsStatus run_baseline(Contest *contest, int a) {
    EsEpisodeRunner *runner = contest->runner;
    int64_t n_parameters = find_final_size(contest);
    // hosts come in a few sizes: a tenth more, so that the nearest is rarely the host itself
    int64_t n_static = n_parameters + n_parameters / 10;
    int64_t budget = runner->settings->max_parameters;
    n_static = budget > 0 ? ES_MIN(n_static, budget) : n_static;
    EsHostSpec host;
    switch (es_grow_baseline_parse(contest->evaluation->variants[a].name)) {
    case ES_BASELINE_WIDER:
        host = es_host_widen(&runner->host, n_static);
        return run_static(contest, &host, a);
    case ES_BASELINE_DEEPER:
        return run_deeper(contest, n_static, a);
    case ES_BASELINE_SCRATCH:
        return run_alone(contest, runner, contest->finals, a);
    case ES_BASELINE_TOPOLOGIES:
        return run_drawn(contest, n_parameters, 0, a);
    case ES_BASELINE_SEARCH: // knows the limit, not what the policy ends with
        return run_search(contest, budget > 0 ? budget : n_parameters, a);
    case ES_BASELINE_BUDGET2:
        return run_larger_budget(contest, 2, a);
    case ES_BASELINE_BUDGET4:
        return run_larger_budget(contest, 4, a);
    default:
        return take_best(contest, a);
    }
}

// One group of held-out episodes: the hosts and data of its task, and a policy opened for them.
static EsStatus run_task(Contest *contest, int a, const EsGrowSettings *settings) {
    EsEpisodeRunner *whole = contest->runner, runner;
    EsPolicy *policy = NULL;
    EsTask task;
    ES_TRY(es_grow_episode_draw_task(settings, ES_HELD_OUT_EPISODE + contest->first, whole->device,
                                     &task));
    EsGrowSettings own =
        es_grow_settings_of_task(settings, &task, (int)(contest->end - contest->first));
    ES_TRY(es_grow_episode_create_task(&own, &task, 0, whole->device, &runner));
    contest->runner = &runner;
    EsStatus status = ES_STATUS_OK;
    if (contest->policies[a] == NULL) {
        status = run_baseline(contest, a);
        goto done;
    }
    ES_TRY_GOTO(open_policy(
        contest, &runner, a == 0 ? contest->text : contest->evaluation->variants[a].name, &policy));
    status = run_episodes(contest, &runner, policy, NULL, a);
done:
    es_grow_episode_destroy_policy(&runner, policy);
    es_grow_episode_destroy(&runner);
    contest->runner = whole;
    return status;
}

static EsStatus run_variant(Contest *contest, int a) {
    EsGrowEvaluation *evaluation = contest->evaluation;
    EsGrowVariant *variant = &evaluation->variants[a];
    const EsGrowSettings *settings = contest->runner->settings;
    int64_t n = evaluation->n_episodes;
    ES_TRY(es_allocate(sizeof *variant->outcomes * (size_t)n, (void **)&variant->outcomes));
    if (evaluation->n_tasks == 0) {
        contest->first = 0;
        contest->end = n;
        return contest->policies[a] != NULL
                   ? run_episodes(contest, contest->runner, contest->policies[a], NULL, a)
                   : run_baseline(contest, a);
    }
    for (int64_t first = 0; first < n; first += evaluation->group_size) {
        contest->first = first;
        contest->end = first + evaluation->group_size;
        ES_TRY(run_task(contest, a, settings));
    }
    return ES_STATUS_OK;
}

// --- earlier results ---

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
    if (saved->n_episodes == evaluation->n_episodes && saved->is_greedy == evaluation->is_greedy &&
        saved->n_tasks == evaluation->n_tasks) {
        for (int a = 0; a < evaluation->n_variants; a++) {
            take_variant(saved, &evaluation->variants[a]);
        }
    }
    es_grow_evaluation_destroy(saved);
    return ES_STATUS_OK;
}

// --- the comparison ---

EsEpisodeOutcomeEvent es_grow_evaluation_row(const EsGrowEvaluation *evaluation, int variant,
                                             int64_t i) {
    const double *measure = evaluation->variants[variant].outcomes[i].measure;
    return (EsEpisodeOutcomeEvent){.env = i,
                                   .episode = ES_HELD_OUT_EPISODE + i,
                                   .arm = evaluation->variants[variant].name,
                                   .final_accuracy = measure[ES_MEASURE_VALIDATION_ACCURACY],
                                   .final_loss = es_missing_real(),
                                   .test_accuracy = measure[ES_MEASURE_TEST_ACCURACY],
                                   .parameter_ratio = measure[ES_MEASURE_PARAMETER_RATIO],
                                   .n_fossils = (int64_t)measure[ES_MEASURE_FOSSILS],
                                   .n_contributing = ES_MISSING_INT,
                                   .reward = measure[ES_MEASURE_REWARD],
                                   .stability = es_missing_real(),
                                   .n_steps = ES_MISSING_INT,
                                   .n_germinated = ES_MISSING_INT,
                                   .n_pruned = ES_MISSING_INT,
                                   .n_rollbacks = (int64_t)measure[ES_MEASURE_ROLLBACKS],
                                   .control_accuracy = es_missing_real()};
}

// In the round after the last one: a resumed run takes rows of later rounds back, and they are
// emitted again.
static EsStatus emit_outcomes(const Contest *contest) {
    const EsGrowEvaluation *evaluation = contest->evaluation;
    EsEventTime time = {.round = evaluation->n_rounds + 1, .step = -1};
    const EsGrowSettings *settings = contest->runner->settings;
    int64_t n = evaluation->n_episodes, n_group = evaluation->group_size;
    int64_t n_envs = evaluation->n_tasks > 0 ? n_group : settings->n_envs;
    EsEpisodeOutcomeEvent *rows = NULL;
    EsTask *tasks = NULL; // of the groups
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *rows * (size_t)n, (void **)&rows));
    if (evaluation->n_tasks > 0) {
        ES_TRY_GOTO(es_allocate(sizeof *tasks * (size_t)evaluation->n_tasks, (void **)&tasks));
    }
    for (int64_t g = 0; g < evaluation->n_tasks; g++) {
        ES_TRY_GOTO(es_grow_episode_draw_task(settings, ES_HELD_OUT_EPISODE + g * n_group,
                                              contest->runner->device, &tasks[g]));
    }
    for (int a = 0; a < evaluation->n_variants; a++) {
        for (int64_t i = 0; i < n; i++) {
            rows[i] = es_grow_evaluation_row(evaluation, a, i);
            rows[i].env = i % n_envs;
            rows[i].n_steps = tasks != NULL
                                  ? tasks[i / n_group].n_steps
                                  : es_growth_settings(contest->runner->growth)->episode_steps;
            rows[i].task = tasks != NULL ? tasks[i / n_group].text : NULL;
        }
        es_emit_episode_outcome(es_run_hub(contest->run), time, rows, n);
    }
done:
    es_release(tasks);
    es_release(rows);
    return status;
}

// Makes room for the topologies of the first variant where "scratch" is still to run. The file of
// an earlier session does not have them: the first variant runs again, with the same outcomes.
static EsStatus want_finals(Contest *contest) {
    EsGrowEvaluation *evaluation = contest->evaluation;
    int is_wanted = 0;
    for (int a = 1; a < evaluation->n_variants; a++) {
        const EsGrowVariant *variant = &evaluation->variants[a];
        is_wanted |= variant->outcomes == NULL &&
                     es_grow_baseline_parse(variant->name) == ES_BASELINE_SCRATCH;
    }
    if (!is_wanted) {
        return ES_STATUS_OK;
    }
    es_release(evaluation->variants[0].outcomes);
    evaluation->variants[0].outcomes = NULL;
    return es_allocate(sizeof *contest->finals * (size_t)evaluation->n_episodes,
                       (void **)&contest->finals);
}

// Leaves out a baseline that the device cannot run, for the reason that was just given.
static void drop_baseline(Contest *contest, int a) {
    EsGrowEvaluation *evaluation = contest->evaluation;
    es_log(ES_LOG_WARNING, "\"%s\" is left out of the comparison: %s", evaluation->variants[a].name,
           es_status_detail());
    es_release(evaluation->variants[a].outcomes);
    for (int b = a + 1; b < evaluation->n_variants; b++) {
        evaluation->variants[b - 1] = evaluation->variants[b];
        contest->policies[b - 1] = contest->policies[b];
    }
    evaluation->n_variants--;
    evaluation->variants[evaluation->n_variants] = (EsGrowVariant){.outcomes = NULL};
    contest->policies[evaluation->n_variants] = NULL;
}

static EsStatus save_evaluation(const Contest *contest, const char *path) {
    return es_run_is_writer(contest->run) ? es_grow_evaluation_save(contest->evaluation, path)
                                          : ES_STATUS_OK;
}

// Runs the missing variants. Every finished variant is saved at once: a session may end in the
// next.
static EsStatus run_variants(Contest *contest, const char *path) {
    EsGrowEvaluation *evaluation = contest->evaluation;
    uint64_t seed = (uint64_t)contest->runner->settings->run.seed;
    int is_saved = 0;
    ES_TRY(take_saved(contest, path, &is_saved));
    ES_TRY(want_finals(contest));
    for (int a = 0; a < evaluation->n_variants; a++) {
        if (evaluation->variants[a].outcomes != NULL) {
            continue;
        }
        int is_baseline = contest->policies[a] == NULL;
        EsStatus status = run_variant(contest, a);
        if (status == ES_STATUS_UNSUPPORTED && is_baseline) {
            drop_baseline(contest, a--);
            continue;
        }
        ES_TRY(status);
        if (a + 1 < evaluation->n_variants) {
            ES_TRY(es_grow_evaluation_compare(evaluation, seed));
            ES_TRY(save_evaluation(contest, path));
        }
    }
    ES_TRY(es_grow_evaluation_compare(evaluation, seed));
    return is_saved ? ES_STATUS_OK : save_evaluation(contest, path);
}

// Refuses ranks whose files of policies differ: each would decide otherwise in the same episodes.
static EsStatus check_ranks(const Contest *contest) {
    const EsGrowEvaluation *evaluation = contest->evaluation;
    char text[ES_GROW_VARIANTS_MAX *
              (sizeof evaluation->variants->name + sizeof evaluation->variants->hash)] = "";
    size_t used = 0;
    for (int a = 0; a < evaluation->n_variants; a++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s\n",
                                 evaluation->variants[a].name, evaluation->variants[a].hash);
    }
    return es_ranks_agree(contest->runner->settings->run.ranks,
                          &(EsRankFact){"compared policies", text}, 1);
}

// --- a sweep ---

static int has_outcomes(const EsGrowEvaluation *evaluation) {
    int has_all = 1;
    for (int a = 0; a < evaluation->n_variants; a++) {
        has_all &= evaluation->variants[a].outcomes != NULL;
    }
    return has_all;
}

static void drop_outcomes(EsGrowEvaluation *evaluation) {
    for (int a = 0; a < evaluation->n_variants; a++) {
        es_release(evaluation->variants[a].outcomes);
        evaluation->variants[a].outcomes = NULL;
    }
}

// The variants are settings, under one policy: they run side by side, and end together.
static EsStatus hold_sweep(Contest *contest, const char *text) {
    EsGrowEvaluation *evaluation = contest->evaluation;
    char path[ES_RUN_PATH_BYTES], name[ES_SWEEP_NAME_BYTES];
    EsSweep sweep;
    int is_saved = 0;
    ES_TRY(es_sweep_of_settings(contest->runner->settings, &sweep));
    ES_TRY(open_policy(contest, contest->runner, text, &contest->policies[0]));
    for (int v = 0; v < sweep.n_variants; v++) {
        EsGrowVariant *variant = &evaluation->variants[evaluation->n_variants++];
        snprintf(variant->name, sizeof variant->name, "%s", es_sweep_name(&sweep, v, name));
        snprintf(variant->hash, sizeof variant->hash, "%s", es_policy_hash(contest->policies[0]));
    }
    ES_TRY(check_ranks(contest));
    es_run_folder_path(es_run_folder(contest->run), "evaluation.json", path);
    ES_TRY(take_saved(contest, path, &is_saved));
    if (!has_outcomes(evaluation)) {
        is_saved = 0;
        drop_outcomes(evaluation);
        ES_TRY(es_sweep_run(&sweep, contest->runner, text, contest->run, evaluation));
    }
    ES_TRY(es_grow_evaluation_compare(evaluation, (uint64_t)contest->runner->settings->run.seed));
    ES_TRY(is_saved ? ES_STATUS_OK : save_evaluation(contest, path));
    return emit_outcomes(contest);
}

static EsStatus hold_contest(Contest *contest, const char *name, const char *text) {
    char path[ES_RUN_PATH_BYTES];
    ES_TRY(open_variant(contest, name, text));
    ES_TRY(open_rivals(contest));
    ES_TRY(check_ranks(contest));
    es_run_folder_path(es_run_folder(contest->run), "evaluation.json", path);
    ES_TRY(run_variants(contest, path));
    return emit_outcomes(contest);
}

EsStatus es_grow_evaluate(EsEpisodeRunner *runner, const char *name, const char *text, EsRun *run,
                          EsGrowEvaluation **evaluation) {
    Contest contest = {.runner = runner, .run = run, .text = text, .start_ns = es_clock_ns()};
    *evaluation = NULL;
    ES_TRY(create_evaluation(runner->settings, &contest.evaluation));
    EsStatus status = runner->settings->sweep[0] != '\0' ? hold_sweep(&contest, text)
                                                         : hold_contest(&contest, name, text);
    close_variants(&contest);
    if (status != ES_STATUS_OK) {
        es_grow_evaluation_destroy(contest.evaluation);
        return status;
    }
    *evaluation = contest.evaluation;
    return ES_STATUS_OK;
}
