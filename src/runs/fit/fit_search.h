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

#include "data/dataset.h"
#include "fit/grown_network.h"
#include "fit/host_choice.h"
#include "growth/rules/recipe.h"
#include "runs/fit/fit_group.h"
#include "runs/run_settings.h"

// --- settings ---

// The settings of a run of kind "fit": data, hosts, budgets, the policy that grows them, and the
// recipe that trains them.

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
    int aggregation;       // EsAggregation
    EsRecipe recipe;       // [recipe], pad and flip
    EsRailsSettings rails; // [rails]
} EsFitSettings;

// The declared keys over `settings`, which is filled with defaults.
EsConfig es_fit_run_config(EsFitSettings *settings);

#define ES_FIT_CANDIDATES_MAX 256
#define ES_FIT_PATH_BYTES     4096
// where neither their number nor a time is given: so many epochs, and of rows so many updates
#define ES_FIT_EPOCHS       20
#define ES_FIT_ROWS_UPDATES 300
// the highest learning rate where none is given
#define ES_FIT_RATE      0.1f
#define ES_FIT_ROWS_RATE 0.01f

// Everything is borrowed.
typedef struct EsFitSearchOptions {
    const EsFitSettings *settings; // recipe, learning rates, limits; not candidates and policy
    const EsDataset *dataset;
    const char *data_sha256; // of its samples, for the networks' origin
    EsDevice *device;        // hosts grow there
    EsDevice *cpu;           // policies decide and networks predict there
    const EsHostSpec *hosts;
    int n_hosts; // at most ES_HOST_SHAPES
    int n_candidates;
    int first_candidate;      // its number: initial weights and orders of samples follow from it
    int64_t batch, n_updates; // samples of an update, updates of an epoch
    int64_t n_epochs;
    uint64_t seed;
    const char *policy;               // as in EsFitGroupOptions
    const EsFitTopology *planted;     // [n_candidates], nullable
    EsFitRails *rails;                // nullable
    int (*is_stopped)(void *context); // as in EsGrowthOptions
    void (*decided)(void *context);   // after decisions, before candidates are dropped; nullable
    void *context;
} EsFitSearchOptions;

// Hosts, batch and updates for a data set: those that the settings name, or those that suit it.
typedef struct EsFitPlan {
    EsHostChoice choice;
    EsHostSpec named_host;    // owned where it comes from a file
    int64_t batch, n_updates; // samples of an update, updates of an epoch
    char data_sha256[ES_SHA256_TEXT_BYTES];
} EsFitPlan;

// As in EsFitSearchOptions; the same one twice where hosts grow on the CPU.
typedef struct EsFitDevices {
    EsDevice *device, *cpu; // owned
} EsFitDevices;

// The device that the settings name, and a CPU.
EsStatus es_fit_devices_open(const EsFitSettings *settings, EsFitDevices *devices);
void es_fit_devices_close(EsFitDevices *devices);

// INPUT when the data cannot be fitted, CONFIG when the settings do not suit it, UNSUPPORTED when
// no host that suits it runs on the device.
EsStatus es_fit_plan_create(const EsFitSettings *settings, const EsDataset *dataset,
                            const EsFitDevices *devices, EsFitPlan *plan);
void es_fit_plan_destroy(EsFitPlan *plan);

// The search that the settings ask for; everything is borrowed.
EsFitSearchOptions es_fit_plan_search(const EsFitPlan *plan, const EsFitSettings *settings,
                                      const EsDataset *dataset, const EsFitDevices *devices);

// The candidates of one host, of n over all: as many for each host, one more for the first ones.
typedef struct EsFitShare {
    int first, n; // first from 0 on
} EsFitShare;
EsFitShare es_fit_share(int n, int n_hosts, int host);

// Sets options->n_epochs, which is 0: as many as probably end within settings->max_seconds, of
// which some are spent, so that the learning rate falls to its end; without that limit
// es_fit_usual_epochs. It trains all candidates a little: *epoch_seconds is the time of an epoch
// with all of them, 0 without the limit.
EsStatus es_fit_choose_epochs(EsFitSearchOptions *options, double spent_seconds,
                              double *epoch_seconds);

// A learning rate of the settings, or where it is 0 the one that suits the data.
float es_fit_learning_rate(const EsDataset *dataset, float learning_rate);

// ES_FIT_EPOCHS; more for rows that have few updates in an epoch.
int64_t es_fit_usual_epochs(const EsDataset *dataset, int64_t n_updates);

// The most epochs of n candidates that end within the time, from 1 to 200.
int es_fit_count_epochs(int n, double epoch_seconds, double seconds);

// Returns whether the time or the accuracy that the settings name is reached.
int es_fit_is_enough(const EsFitSettings *settings, double seconds, double best_accuracy);

typedef struct EsFitSearch {
    EsFitSearchOptions options;
    char policy_folder[ES_FIT_PATH_BYTES]; // of shipped policies; "" where there is none
    EsFitGroup *groups[ES_HOST_SHAPES];    // owned
    int n_groups;
    EsGrownNetwork *best; // owned, with its origin; NULL before the first epoch with a finite loss
    int64_t best_epoch, best_candidate;
    int best_group;
    double best_accuracy; // percent of the validation split; -1 without
    double best_loss;     // there; decides between equal accuracies
    double top_accuracy;  // of any epoch so far; above best_accuracy for rows alone
    int is_new_best;      // since the last advance
} EsFitSearch;

EsStatus es_fit_search_create(const EsFitSearchOptions *options, EsFitSearch **search);
void es_fit_search_destroy(EsFitSearch *search);

// Divides the candidates that are left over the ranks, by their place among all of them. When
// all ranks have all weights.
void es_fit_search_assign(EsFitSearch *search);

// Trains and measures all candidates that are left, and keeps the network of the best one when it
// is the best of all epochs so far; for rows, when it is not worse than that beyond chance.
EsStatus es_fit_search_advance(EsFitSearch *search, int64_t epoch);

// The policy's decisions, then half of the candidates is dropped where it is time.
EsStatus es_fit_search_decide(EsFitSearch *search, int64_t epoch);

// A candidate that is left.
typedef struct EsFitPlace {
    int group, position;
    double accuracy; // on the validation split, percent; -1 where the loss is not finite
    double loss;     // there
} EsFitPlace;

// Lists those that are left, the best first: by accuracy, then by loss, then by number. Returns how
// many.
int es_fit_search_list(const EsFitSearch *search, EsFitPlace places[ES_FIT_CANDIDATES_MAX]);

// A search in a checkpoint, after decisions (fit_search_file.c). Loading makes the candidates those
// that were saved.
EsStatus es_fit_search_save(const EsFitSearch *search, EsCheckpoint *checkpoint);
EsStatus es_fit_search_load(EsFitSearch *search, const EsCheckpoint *checkpoint);

// Candidates that go on after an epoch, of n at first: half as many after each of log2(n) epochs
// that divide the first third evenly.
int es_fit_count_kept(int n, int64_t n_epochs, int64_t epoch);

#endif
