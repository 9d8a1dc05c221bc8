// A group of candidates: networks that grow side by side from one host, each from its own seed.
//
// An epoch trains all of them, measures them on the whole validation split, and lets the policy
// decide on each, within a limit of parameters. Candidates that fall behind are dropped: the others
// go on in a smaller growth with the same bits.
//
//     ES_TRY(es_fit_group_create(&options, n_candidates, first_candidate, &group));
//     ES_TRY(es_fit_group_advance(group));            // to a decision; group->accuracy is known
//     ES_TRY(es_fit_group_decide(group));
//     ES_TRY(es_fit_group_keep(group, kept, n_kept)); // positions in the group
//
// N candidates of the group.
#ifndef ES_RUNS_FIT_GROUP_H
#define ES_RUNS_FIT_GROUP_H

#include "control/policy/policy.h"
#include "fit/host_choice.h"
#include "runs/fit/fit_rails.h"

// Common to all groups of a fit; everything is borrowed.
typedef struct EsFitGroupOptions {
    EsGrowthOptions growth; // n_envs is set by the group
    const EsDataset *dataset;
    EsDevice *device;          // hosts grow there
    EsDevice *cpu;             // the policy decides there
    const char *policy;        // for es_policy_open; "": the first of the folder that fits, else
    const char *policy_folder; // the eager one; "": no folder
    int64_t max_parameters;
    const EsFitTopology *planted; // [N] of a new group; NULL: they begin as hosts alone
    EsFitRails *rails;            // nullable: the policy decides without them
} EsFitGroupOptions;

typedef struct EsFitGroup {
    EsFitGroupOptions options;
    EsGrowth *growth;                    // owned
    EsController *controller;            // owned; of rails with a deadline for it, else NULL
    EsPolicy *policy;                    // owned, by the controller where there is one
    char policy_name[1024], reason[512]; // of the policy, and why it is this one
    int n;                               // N; 0: all were dropped, and growth and policy are NULL
    int *candidates;                     // owned [N]: their numbers in the fit
    double *loss;                        // owned [N]: on the whole validation split, after advance
    double *accuracy;                    // owned [N]: likewise, percent
    EsAction *actions;                   // owned [N]: of the last decision
    EsActionMasks *masks;                // owned [N]: that it was drawn from
    int is_answered;                     // by the policy; 0: it was not asked, or gave no answer
    EsSeedPrefetch *prefetch;            // owned; NULL unless the rails have graphs made ahead
    EsPrefetchCounts prefetched;         // that the rails know of
    EsTopology *foreseen;                // owned [rails' prefetch]: that may come next
    int n_foreseen;
} EsFitGroup;

// Candidates first .. first + n - 1, at the begin of their episodes, which have their numbers.
EsStatus es_fit_group_create(const EsFitGroupOptions *options, int n, int first,
                             EsFitGroup **group);
void es_fit_group_destroy(EsFitGroup *group);

// The candidates are numbers first, first + 1, ... of n_all that are left: ranks divide them by
// these. When all ranks have all weights (es_growth_assign).
void es_fit_group_assign(EsFitGroup *group, int first, int n_all);

// Candidates that this rank trains.
int es_fit_group_own(const EsFitGroup *group);

// Trains and validates up to the next decision, and measures on the whole validation split.
// INTERRUPTED when growth's is_stopped says so: the group is of no more use then.
EsStatus es_fit_group_advance(EsFitGroup *group);

// The same in parts: train, measure the step, evaluate, gather. Odd ones wait for other ranks, so
// that all groups do one part before any does the next.
#define ES_FIT_ADVANCE_PARTS 4
EsStatus es_fit_group_advance_part(EsFitGroup *group, int part);

// The policy's decision for every candidate. A seed that would exceed the limit of parameters is
// put into another slot where it does not, or not at all. With rails all wait in conservative mode,
// and when the policy fails or misses its deadline; after that another policy of the same name goes
// on, which has seen nothing yet. So they do when the seeds that were decided on are not ready in
// time (growth/engine/seed_preparation.h). Graphs that the rails want made ahead change no bit.
EsStatus es_fit_group_decide(EsFitGroup *group);

// Drops all candidates but those at these positions, in rising order. After a decision.
EsStatus es_fit_group_keep(EsFitGroup *group, const int *kept, int n_kept);

// After a decision; loading makes the group that of the candidates [n] that were saved.
EsStatus es_fit_group_save(EsFitGroup *group, const char *growth_path, const char *policy_path);
EsStatus es_fit_group_load(EsFitGroup *group, const int *candidates, int n, const char *growth_path,
                           const char *policy_path);

#endif
