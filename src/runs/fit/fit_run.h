// A run of kind "fit": candidates that grow on the user's data, and the best network of them.
//
// A round is an epoch of all candidates that are left. Half of them is dropped at a few epochs in
// the first third (successive halving by validation accuracy). Whenever a candidate reaches the
// best validation accuracy so far its network is written to networks/1 of the run folder, so that
// it is there whenever the run ends. The test split drives nothing; it is measured at the end.
//
//     EsFitRun *fit; ES_TRY(es_fit_run_create(&settings, &fit));
//     EsRunWork work = es_fit_run_work(fit);
//     ES_TRY(es_run_rounds(run, &work));
//     EsFitReport report = es_fit_run_report(fit);
#ifndef ES_RUNS_FIT_RUN_H
#define ES_RUNS_FIT_RUN_H

#include "fit/host_choice.h"
#include "fit/network_report.h"
#include "runs/fit/fit_compare.h"
#include "runs/fit/fit_rails.h"
#include "runs/fit/fit_rollback.h"
#include "runs/run.h"

typedef struct EsFitRun EsFitRun;

// The settings are borrowed. CONFIG without data.
EsStatus es_fit_run_create(const EsFitSettings *settings, EsFitRun **fit);
void es_fit_run_destroy(EsFitRun *fit);
EsRunWork es_fit_run_work(EsFitRun *fit);

// Fills in the number of epochs and the learning rates where they are 0, before the run starts;
// `settings` are those of create.
EsStatus es_fit_run_choose(EsFitRun *fit, EsFitSettings *settings);

// SHA-256 of the samples.
const char *es_fit_run_data_hash(const EsFitRun *fit);

// Memory beside the fit as it was created: plans of hosts with seeds, states in memory for rollback
// (rails.rollback_mib at most), and copies of the state on their way to the disk.
EsStatus es_fit_run_need(EsFitRun *fit, EsRunNeed *need);

// Runs the first epoch of all candidates and measures its seconds. For a dry run.
EsStatus es_fit_run_predict(EsFitRun *fit, double *epoch_seconds);

// Faults that drills put in.
typedef struct EsFitDrill {
    void (*measured)(void *context, int64_t round, EsFitEpoch *epoch); // may change it; nullable
    EsRestoreDrill restore;
    void *context;
} EsFitDrill;
void es_fit_run_set_drill(EsFitRun *fit, const EsFitDrill *drill); // copied

// All of it is borrowed, and grows with the rounds.
typedef struct EsFitReport {
    const EsDataset *dataset;
    const char *hosts;  // why these, a paragraph
    const char *policy; // of the first group, and why it is that one
    const char *policy_reason;
    int64_t n_updates;             // of an epoch
    double epoch_seconds;          // that the number of epochs was chosen by; 0: it was not
    const EsGrownNetwork *network; // the best so far; NULL before the first epoch
    int64_t best_epoch, best_candidate;
    double best_accuracy;        // on the validation split, percent
    int n_candidates;            // that are left
    const EsNetworkScore *score; // on the test split; NULL until the run is over, and without test
    const EsFitComparison *comparison; // NULL without
    const char *halt_reason;           // the failed epochs' that made the rails end it; NULL: none
    int64_t halt_epoch;
    const EsRails *rails;    // NULL without
    const EsRunTimes *times; // of this session; NULL until the run is over
} EsFitReport;
EsFitReport es_fit_run_report(const EsFitRun *fit);

#endif
