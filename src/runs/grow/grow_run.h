// A run of kind "grow": E hosts that grow seeds under a policy. A round is one episode of every
// environment, and one update where the policy is being trained. When all rounds are done, policies
// are compared on episodes that no training has seen.
//
//     EsGrowRun *grow; ES_TRY(es_grow_run_create(&settings, &grow));
//     EsRunWork work = es_grow_run_work(grow);
//     ES_TRY(es_run_rounds(run, &work));
#ifndef ES_RUNS_GROW_RUN_H
#define ES_RUNS_GROW_RUN_H

#include "runs/grow/grow_episode.h"
#include "runs/grow/grow_sweep.h"
#include "runs/run.h"

typedef struct EsGrowRun EsGrowRun;

EsStatus es_grow_run_create(const EsGrowSettings *settings, EsGrowRun **grow);
void es_grow_run_destroy(EsGrowRun *grow);
EsRunWork es_grow_run_work(EsGrowRun *grow);

// Operations of this session that the rules refused; *last says why the last one was.
int64_t es_grow_run_refusals(const EsGrowRun *grow, const char **last);

// Draws of this session whose hosts the device does not run fused, and the tasks that were met
// instead.
int64_t es_grow_run_redraws(const EsGrowRun *grow, int64_t *n_tasks);

EsEpisodeRunner *es_grow_run_runner(EsGrowRun *grow);

// Parameters of the policy's network, 0 where it has none that is trained here.
int64_t es_grow_run_policy_parameters(const EsGrowRun *grow);

// Steps of an episode; with tasks their mean over the first tasks.
int es_grow_run_mean_steps(const EsGrowRun *grow);

// Measures a step of all hosts without seeds and estimates an update. Runs the first step of a
// round; with tasks that of the first few, and takes their mean.
EsStatus es_grow_run_predict(EsGrowRun *grow, double *step_seconds, double *update_seconds);

// Estimates the memory of rounds, checkpoints and the comparison. Seeds that hosts will have are
// not known ahead: the peak is that of hosts with all they may have, the sure part that of hosts
// without.
EsStatus es_grow_run_need(EsGrowRun *grow, EsRunNeed *need);

// End of an episode of the last round.
typedef struct EsGrowEnding {
    double validation_loss, validation_accuracy, parameter_ratio, reward;
    double control_accuracy; // of the host that waited beside it; NaN without
    int n_seeds, n_fossils, n_pruned, n_rollbacks;
    char seeds[256];               // "r0c1 norm HOLDING, ..."
    char task[ES_TASK_TEXT_BYTES]; // "" in a run of one task
} EsGrowEnding;

// [E]; NULL when this session has run no round.
const EsGrowEnding *es_grow_run_endings(const EsGrowRun *grow);

// The comparison at the end; NULL when there was none.
const EsGrowEvaluation *es_grow_run_evaluation(const EsGrowRun *grow);

#endif
