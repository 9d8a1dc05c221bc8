// A search for one network: groups of candidates, epoch by epoch, the weak half dropped again and
// again, and the best network by validation kept.
//
//     EsFitSearch *search; ES_TRY(es_fit_search_create(&options, &search));
//     for (int64_t epoch = 1; epoch <= options.n_epochs; epoch++) {
//         ES_TRY(es_fit_search_advance(search, epoch)); // search->best is the best so far
//         ES_TRY(es_fit_search_decide(search, epoch));
//     }
#ifndef ES_RUNS_FIT_SEARCH_H
#define ES_RUNS_FIT_SEARCH_H

#include "fit/grown_network.h"
#include "fit/host_choice.h"
#include "runs/fit/fit_group.h"
#include "runs/fit/fit_settings.h"

#define ES_FIT_CANDIDATES_MAX 256

// Everything is borrowed.
typedef struct EsFitSearchOptions {
    const EsFitSettings *settings; // recipe, learning rates, limits; not candidates and policy
    const EsDataset *dataset;
    EsDevice *device; // a CPU
    const EsHostSpec *hosts;
    int n_hosts; // at most ES_HOST_SHAPES
    int n_candidates;
    int first_candidate;      // its number: initial weights and orders of samples follow from it
    int64_t batch, n_updates; // samples of an update, updates of an epoch
    int64_t n_epochs;
    uint64_t seed;
    const char *policy;               // as in EsFitGroupOptions
    const EsFitTopology *planted;     // [n_candidates], nullable
    int (*is_stopped)(void *context); // as in EsGrowthOptions
    void (*decided)(void *context);   // after decisions, before candidates are dropped; nullable
    void *context;
} EsFitSearchOptions;

// Hosts, batch and updates for a data set: those that the settings name, or those that suit it.
typedef struct EsFitPlan {
    EsHostChoice choice;
    EsHostSpec named_host;    // owned where it comes from a file
    int64_t batch, n_updates; // samples of an update, updates of an epoch
} EsFitPlan;

// The device that the settings name. UNSUPPORTED when it is no CPU.
EsStatus es_fit_open_device(const EsFitSettings *settings, EsDevice **device);

// INPUT when the data cannot be fitted, CONFIG when the settings do not suit it.
EsStatus es_fit_plan_create(const EsFitSettings *settings, const EsDataset *dataset,
                            EsFitPlan *plan);
void es_fit_plan_destroy(EsFitPlan *plan);

// The search that the settings ask for; everything is borrowed.
EsFitSearchOptions es_fit_plan_search(const EsFitPlan *plan, const EsFitSettings *settings,
                                      const EsDataset *dataset, EsDevice *device);

// Returns whether the time or the accuracy that the settings name is reached.
int es_fit_is_enough(const EsFitSettings *settings, double seconds, double best_accuracy);

typedef struct EsFitSearch {
    EsFitSearchOptions options;
    EsFitGroup *groups[ES_HOST_SHAPES]; // owned
    int n_groups;
    EsGrownNetwork *best; // owned; NULL before the first epoch with a finite loss
    int64_t best_epoch, best_candidate;
    int best_group;
    double best_accuracy; // percent of the validation split; -1 without
    double best_loss;     // there; decides between equal accuracies
    int is_new_best;      // since the last advance
} EsFitSearch;

EsStatus es_fit_search_create(const EsFitSearchOptions *options, EsFitSearch **search);
void es_fit_search_destroy(EsFitSearch *search);

// Trains and measures all candidates that are left, and keeps the network of the best one when it
// is the best of all epochs so far.
EsStatus es_fit_search_advance(EsFitSearch *search, int64_t epoch);

// The policy's decisions, then half of the candidates is dropped where it is time.
EsStatus es_fit_search_decide(EsFitSearch *search, int64_t epoch);

// Notes in the best network where it comes from; its test accuracy is not known yet.
void es_fit_search_note_origin(EsFitSearch *search, const char *data_sha256);

// A candidate that is left.
typedef struct EsFitPlace {
    int group, position;
    double accuracy; // on the validation split, percent; -1 where the loss is not finite
    double loss;     // there
} EsFitPlace;

// Lists those that are left, the best first: by accuracy, then by loss, then by number. Returns how
// many.
int es_fit_search_list(const EsFitSearch *search, EsFitPlace places[ES_FIT_CANDIDATES_MAX]);

// Candidates that go on after an epoch, of n at first: half as many after each of log2(n) epochs
// that divide the first third evenly.
int es_fit_count_kept(int n, int64_t n_epochs, int64_t epoch);

#endif
