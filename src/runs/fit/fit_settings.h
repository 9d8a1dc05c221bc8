// The settings of a run of kind "fit": data, hosts, budgets, the policy that grows them, and the
// recipe that trains them.
#ifndef ES_RUNS_FIT_SETTINGS_H
#define ES_RUNS_FIT_SETTINGS_H

#include "data/dataset.h"
#include "growth/rules/recipe.h"
#include "runs/run_settings.h"

typedef struct EsFitSettings {
    EsRunSettings run; // a round is an epoch
    // [fit]
    EsDataSettings data;
    char task[1024]; // host; "" = chosen by the data and max_parameters
    int max_parameters;
    int n_candidates;
    char policy[1024];     // "" = chosen
    float max_seconds;     // 0 = no limit
    float target_accuracy; // percent of validation, 0 = none
    int n_compared;        // seeds of the comparison, 0 = none
    int batch;             // 0 = the host's
    int epoch_batches;     // 0 = a pass over the training samples
    float host_learning_rate, seed_learning_rate, clip;
    EsRecipe recipe; // [recipe], pad and flip
} EsFitSettings;

// The declared keys over `settings`, which is filled with defaults.
EsConfig es_fit_run_config(EsFitSettings *settings);

#endif
