// Networks fitted to data, for programs of your own: what `esper fit` does, without a run folder.
//
// Several candidates train side by side, each from its own start. After every epoch a policy may
// put seeds into them, within the limit of parameters, and at a few epochs of the first third the
// weak half is dropped. The best network by validation is the result; the test samples are looked
// at once, at the end. The same data and options give the same bits, on any number of threads.
//
//     EsFitOptions options = {.max_parameters = 20000, .n_epochs = 10};
//     ES_TRY_GOTO(es_data_open("photos/", NULL, &data));
//     ES_TRY_GOTO(es_fit(data, &options, &network));
//     printf("%.1f %%\n", es_network_info(network)->test_accuracy);
//     ES_TRY_GOTO(es_network_save(network, "photos.network"));
//     es_network_close(network);
//
// es_data_copy makes data sets of samples in memory. With a data seed of 1 the network is that of
// the command with the same settings.
#ifndef ESPER_FIT_H
#define ESPER_FIT_H

#include "esper/data.h"
#include "esper/network.h"

#ifdef __cplusplus
extern "C" {
#endif

// After an epoch.
typedef struct EsFitProgress {
    int epoch, n_epochs;  // from 1
    int n_candidates;     // that go on
    double accuracy;      // of the best candidate now, percent of validation; -1: none is finite
    double best_accuracy; // of the best network so far
    int64_t n_parameters; // of the best network so far; 0: there is none
    int n_seeds;          // of it
} EsFitProgress;

// Everything 0 or NULL is a sensible choice. Texts are borrowed during the call.
typedef struct EsFitOptions {
    int64_t max_parameters; // of the network; 0 = 100,000
    int n_epochs;           // 0 = 20 (rows: at least 300 updates), or what max_seconds allows
    int n_candidates;       // 0 = 4
    const char
        *policy; // "eager", "heuristic", "random", "wait", a file; NULL: as `esper fit` chooses
    const char *task;       // host: a preset or a host file; NULL: chosen for the data
    double max_seconds;     // no epoch begins after this time; 0 = no limit
    double target_accuracy; // percent of validation that is enough; 0 = none
    int seed;               // of everything random; 0 = 42
    int n_threads;          // 0 = one per processor
    const char *const
        *settings;  // more of them, "fit.flip=off" or "recipe.erase=0.5" as `esper fit`
    int n_settings; // takes them; they win over the fields above
    int (*is_stopped)(void *context, const EsFitProgress *progress); // 1: the best so far is enough
    void *context;
} EsFitOptions;

// Fits a network. `options` may be NULL. ARGUMENT or CONFIG when the options do not suit the data,
// INPUT when it has no validation samples or no candidate kept a finite loss, UNSUPPORTED when the
// GPU that the settings name ("run.device=cuda") is not there or cannot run it. Close the network
// with es_network_close.
ES_API EsStatus es_fit(const EsData *data, const EsFitOptions *options, EsNetwork **network);

#ifdef __cplusplus
}
#endif

#endif
