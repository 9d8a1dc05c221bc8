// Reports on a grown network for people: its accuracy on a split with an interval, recalls and
// confusions of classes with the samples that it was most wrongly sure of, and a drawing of its
// layers in text.
//
// K classes.
#ifndef ES_FIT_NETWORK_REPORT_H
#define ES_FIT_NETWORK_REPORT_H

#include <stdio.h>

#include "fit/grown_network.h"

ES_EXTERN_C_BEGIN

// A sample that was taken for another class.
typedef struct EsMistake {
    int64_t index; // in its split
    int label, found;
    double probability; // of `found`, 0 to 1
} EsMistake;

#define ES_MISTAKES_KEPT 24

typedef struct EsNetworkScore {
    int64_t n, n_correct;
    double accuracy;   // percent
    double low, high;  // percent: Wilson's interval, 95 %
    int n_classes;     // K
    int64_t *confused; // owned [K, K]: samples of the row's class that were taken for the column's
    EsMistake mistakes[ES_MISTAKES_KEPT]; // the most probable first, then by index
    int n_mistakes;
} EsNetworkScore;

// INPUT when the data set's samples are not of the network's kind, sizes or classes. `name` is the
// data's, for the message.
EsStatus es_network_check_data(const EsGrownNetwork *network, const EsDataset *dataset,
                               const char *name);

// Runs the network over a split of a data set that it fits, as above. The pool may be NULL.
EsStatus es_network_score(EsGrownNetwork *network, EsThreadPool *pool, const EsDataset *dataset,
                          const EsSplit *split, EsNetworkScore *score);
void es_network_score_destroy(EsNetworkScore *score);

// Share of a class's samples that were found, percent; NaN for a class without samples.
double es_network_score_recall(const EsNetworkScore *score, int k);

// The split that the confusions of a finished network are of: the test samples; where there are
// none those for validation, unless they are of more than 4,096 classes. NULL: neither.
const EsSplit *es_network_confusion_split(const EsDataset *dataset);

// Writes confusion.json (docs/networks.md) into the network's folder: the matrix of a score, and
// its mistakes with small pictures, or with columns of the rows. `split` is the one that was
// scored, `split_name` "test" or "validation". The file names the network by its hash.
EsStatus es_network_write_confusion(const EsGrownNetwork *network, const EsDataset *dataset,
                                    const EsSplit *split, const char *split_name,
                                    const EsNetworkScore *score, const char *folder);

// A line for each layer and seed: shape of the output, parameters.
void es_grown_network_draw(const EsGrownNetwork *network, FILE *stream);

ES_EXTERN_C_END

#endif
