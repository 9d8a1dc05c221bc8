// A fit compared with the simple alternatives, honestly: same data, epochs, recipe and limit of
// parameters, paired seeds, test accuracies with intervals.
//
//   fit       the whole fit, once for each seed: the best of its candidates by validation
//   host      the host that the fit ended with, without seeds
//   wider     that host with more channels, deeper: with more blocks; of at most 1.1 times the
//             final size, within the limit
//   scratch   the final topology, trained from its first step on; these four have one candidate,
//             which starts as the fit's winner did
//   random    the same search with random growth, as many candidates
//   search    as many candidates that are random topologies of the same hosts
//
// These two have the candidates, halvings, epochs and samples of the fit; their compute differs as
// far as their seeds and the fit's ablations do. A seed that diverges is counted and left out.
//
// Networks of the fits are in networks/1, 2, ... of the run folder; outcomes are written to
// comparison.json as they come, and a resumed run goes on behind them.
//
//     EsFitComparison comparison;
//     ES_TRY(es_fit_compare(&options, run, n_seeds, &comparison));
//     print(comparison.mean[comparison.order[0]].mean); // of the winner
#ifndef ES_RUNS_FIT_COMPARE_H
#define ES_RUNS_FIT_COMPARE_H

#include "base/statistics.h"
#include "runs/fit/fit_search.h"
#include "runs/run.h"

#define ES_FIT_SEEDS_MAX 32

// NAME, name, meaning
#define ES_FIT_VARIANT_LIST(X)                                                                     \
    X(FIT, fit, "this fit")                                                                        \
    X(HOST, host, "its host alone")                                                                \
    X(WIDER, wider, "a wider host of the final size")                                              \
    X(DEEPER, deeper, "a deeper host of the final size")                                           \
    X(SCRATCH, scratch, "the final topology from scratch")                                         \
    X(RANDOM, random, "random growth, equal candidates")                                           \
    X(SEARCH, search, "random topologies, equal candidates")

typedef enum EsFitVariant {
#define X(NAME, name, meaning) ES_FIT_##NAME,
    ES_FIT_VARIANT_LIST(X)
#undef X
        ES_FIT_VARIANTS
} EsFitVariant;

const char *es_fit_variant_name(EsFitVariant variant);    // "wider"
const char *es_fit_variant_meaning(EsFitVariant variant); // "a wider host of the final size"

typedef struct EsFitOutcome {
    int is_known;
    double test_accuracy, validation_accuracy; // percent; NaN when all candidates diverged
    double n_parameters;                       // likewise
} EsFitOutcome;

typedef struct EsFitComparison {
    int n_seeds;
    EsFitOutcome outcomes[ES_FIT_VARIANTS][ES_FIT_SEEDS_MAX];
    int n_diverged[ES_FIT_VARIANTS];        // seeds, which all below leave out
    EsInterval mean[ES_FIT_VARIANTS];       // of the test accuracy; NaN where none is left
    EsInterval difference[ES_FIT_VARIANTS]; // this variant - fit, paired
    double n_parameters[ES_FIT_VARIANTS];   // mean
    int order[ES_FIT_VARIANTS];             // the best mean first
} EsFitComparison;

// `options` are those of the fit, whose network is in networks/1 of the run. Seeds are the fit's
// and those after it; the data set has test samples. INTERRUPTED when the user asks to stop.
EsStatus es_fit_compare(const EsFitSearchOptions *options, EsRun *run, int n_seeds,
                        EsFitComparison *comparison);

// Runs one variant of a fit of these options, which ended with `fitted` (unused by fit, random and
// search). *network is the best one of the variant, the caller's; NULL when it diverged.
EsStatus es_fit_variant_run(const EsFitSearchOptions *options, EsFitVariant variant,
                            const EsGrownNetwork *fitted, EsGrownNetwork **network);

// Means, differences and order from the outcomes. A seed whose fit diverged has no host, wider,
// deeper and scratch.
void es_fit_comparison_measure(EsFitComparison *comparison);

#endif
