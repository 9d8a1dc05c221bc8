// Policies compared: every one runs the same held-out episodes, so that their outcomes can be
// paired. Episodes of training count from 0, held-out ones from 2^30. Test and validation accuracy
// and the parameters are of one network: the one before the last decision. The reward is that of
// all decisions; fossils and rollbacks count the last one.
//
// In a run with tasks held-out episodes have tasks of their own, group by group, and an interval is
// over the groups' means: episodes with one task are not independent.
//
// Beside policies, networks that never grow can be compared: baselines of the size that the
// policy's networks end with, trained for as long, by the same recipe, on the same episodes; a
// random search with the same training FLOPs; and the policy itself with larger budgets.
//
//     EsGrowEvaluation *evaluation;
//     ES_TRY(es_grow_evaluate(&runner, "ppo", "policy.safetensors", run, &evaluation));
//     print(evaluation->variants[1].difference[ES_MEASURE_TEST_ACCURACY].low);
#ifndef ES_RUNS_GROW_EVALUATE_H
#define ES_RUNS_GROW_EVALUATE_H

#include <jansson.h>

#include "base/statistics.h"
#include "runs/grow/grow_episode.h"
#include "runs/run.h"

#define ES_HELD_OUT_EPISODE  ((int64_t)1 << 30)
#define ES_GROW_VARIANTS_MAX 16

// NAME, name: measures of a finished episode. flops are of one image (es_host_flops),
// training_flops three times those for every image of every update (forward, and backward twice as
// much); over_budget counts the steps in which the network had more parameters than its budget.
#define ES_GROW_MEASURES(X)                                                                        \
    X(TEST_ACCURACY, test_accuracy)                                                                \
    X(VALIDATION_ACCURACY, validation_accuracy)                                                    \
    X(REWARD, reward)                                                                              \
    X(PARAMETER_RATIO, parameter_ratio)                                                            \
    X(FOSSILS, fossils)                                                                            \
    X(ROLLBACKS, rollbacks)                                                                        \
    X(PARAMETERS, parameters)                                                                      \
    X(FLOPS, flops)                                                                                \
    X(TRAINING_FLOPS, training_flops)                                                              \
    X(OVER_BUDGET, over_budget)

typedef enum EsGrowMeasure {
#define X(NAME, name) ES_MEASURE_##NAME,
    ES_GROW_MEASURES(X)
#undef X
        ES_N_MEASURES
} EsGrowMeasure;

const char *es_grow_measure_name(EsGrowMeasure measure); // "test_accuracy"

// NAME, name, meaning: variants that are no other policies. The size of the policy's networks is
// the mean over the held-out episodes, with tasks over those of the task. SCRATCH, TOPOLOGIES and
// SEARCH plant seeds. A search is paired with BEST, which has chosen
// among as much training; without tasks, where an episode is alone, that is the policy.
#define ES_GROW_BASELINES(X)                                                                       \
    X(WIDER, wider, "a host with more channels, of at most 1.1 times the mean final size")         \
    X(DEEPER, deeper, "a host with more blocks, likewise")                                         \
    X(SCRATCH, scratch, "each episode's final topology, from its first step on")                   \
    X(TOPOLOGIES, topologies, "random topologies of at most the mean final size, one per episode") \
    X(BEST, best, "the policy's network of each task that is best by validation")                  \
    X(SEARCH, search, "the best by validation of random topologies, for the FLOPs of the policy")  \
    X(BUDGET2, budget2, "the policy with twice the budget")                                        \
    X(BUDGET4, budget4, "the policy with four times the budget")

typedef enum EsGrowBaseline {
    ES_BASELINE_NONE, // a policy
#define X(NAME, name, meaning) ES_BASELINE_##NAME,
    ES_GROW_BASELINES(X)
#undef X
        ES_N_BASELINES
} EsGrowBaseline;

EsGrowBaseline es_grow_baseline_parse(const char *name);       // "wider"
const char *es_grow_baseline_meaning(EsGrowBaseline baseline); // "a host with more channels, ..."

// One episode.
typedef struct EsGrowOutcome {
    double measure[ES_N_MEASURES]; // by EsGrowMeasure; accuracies in percent; NaN: no reward
} EsGrowOutcome;

// One policy, or a baseline.
typedef struct EsGrowVariant {
    char name[1024];                      // ppo, heuristic, a file, wider
    char hash[ES_SHA256_TEXT_BYTES];      // of the file it comes from, "" for none; of a baseline
                                          // that of the first variant
    EsGrowOutcome *outcomes;              // owned [n_episodes]; NULL until it has run
    EsInterval mean[ES_N_MEASURES];       // bootstrap over episodes
    EsInterval difference[ES_N_MEASURES]; // first variant (of SEARCH: its best) - this one, paired
} EsGrowVariant;

typedef struct EsGrowEvaluation {
    int64_t n_episodes;
    int64_t n_tasks;    // that the episodes share out; 0: they have one, the run's own
    int64_t group_size; // episodes whose mean is one sample of an interval: those of a task, or 1
    int n_variants;
    int is_greedy;
    int is_sweep;     // the variants are settings, not policies
    int64_t n_rounds; // the policy was trained for
    EsGrowVariant variants[ES_GROW_VARIANTS_MAX];
    // by es_grow_evaluation_compare, where the variants have larger budgets:
    int n_budget_gains;
    struct EsGrowBudgetGain {
        int from, to;      // variants: a budget, and a larger one
        EsInterval gained; // test accuracy with the larger one - with the other, paired
    } budget_gains[3];
} EsGrowEvaluation;

// Chooses among n episodes by validation: all of selected [n] get the measures of the best one, of
// equals of the first, with the training of all.
void es_grow_outcomes_select(const EsGrowOutcome *outcomes, int64_t n, EsGrowOutcome *selected);

// Returns whether a network is better by validation than another; any than one without a number.
int es_grow_outcome_is_better(const EsGrowOutcome *outcome, const EsGrowOutcome *other);

// Episode i of a variant, for the records; without its task and number of steps.
EsEpisodeOutcomeEvent es_grow_evaluation_row(const EsGrowEvaluation *evaluation, int variant,
                                             int64_t i);

// The work of the step that was measured, and whether a budget was exceeded, of n environments.
void es_grow_outcomes_count_step(const EsGrowth *growth, int64_t n, EsGrowOutcome *outcomes);

// The measures at the end of an episode, of n environments.
void es_grow_outcomes_take(const EsEpisodeRunner *runner, int64_t n, EsGrowOutcome *outcomes);

// The policy `text` (name or file) as the variant `name`, against the settings'. Variants that
// evaluation.json in the folder of `run` has (same name, hash and episodes) are taken from there;
// the others run, and each is kept there when it is over. With a sweep in the settings the variants
// are those of the sweep instead. INTERRUPTED when the user asks to stop.
EsStatus es_grow_evaluate(EsEpisodeRunner *runner, const char *name, const char *text, EsRun *run,
                          EsGrowEvaluation **evaluation);
void es_grow_evaluation_destroy(EsGrowEvaluation *evaluation);

// Intervals from the outcomes, of the variants that have run; the first one must have.
EsStatus es_grow_evaluation_compare(EsGrowEvaluation *evaluation, uint64_t seed);

// Names the difference that keeps two comparisons out of one table ("the policies"); NULL: none.
// Files behind equal names may differ, as those of runs with other seeds do.
const char *es_grow_evaluation_difference(const EsGrowEvaluation *a, const EsGrowEvaluation *b);

// Checks whether the comparison that the settings ask for can be made: before hours of training.
EsStatus es_grow_evaluate_check(EsEpisodeRunner *runner);

// Returns whether that comparison has hosts of other sizes.
int es_grow_evaluate_has_static(const EsGrowSettings *settings);

// Variants by their mean of a measure, the highest first; of equal ones the first is.
void es_grow_evaluation_order(const double *means, int n, int *order);

// --- as JSON, evaluation.json of a run folder ---

// {"test_accuracy": [mean, low, high], ...} of intervals [ES_N_MEASURES]. The caller owns it; NULL
// without memory.
json_t *es_grow_intervals_json(const EsInterval *intervals);

// Everything of the variants that have run: episodes, means, differences. The caller owns it; NULL
// without memory.
json_t *es_grow_evaluation_json(const EsGrowEvaluation *evaluation);

// Written atomically, every number with all its bits.
EsStatus es_grow_evaluation_save(const EsGrowEvaluation *evaluation, const char *path);

// The outcomes; es_grow_evaluation_compare makes the intervals anew. INPUT names the fault.
EsStatus es_grow_evaluation_load(const char *path, EsGrowEvaluation **evaluation);

#endif
