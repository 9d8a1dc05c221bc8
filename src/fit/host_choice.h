// Hosts for a data set and a limit of parameters, where the user names none.
//
// Images are pooled until 4 to 8 pixels a side are left, and channels double with each pool. There
// are two shapes: *wide* has one block at each resolution, *deep* has two narrower ones. A part of
// the parameters is left for seeds, which are put where pixels are few.
//
//     EsHostChoice choice;
//     ES_TRY(es_host_choose(&dataset, max_parameters, 0.6, &choice));
//     printf("%s\n", choice.reason);
#ifndef ES_FIT_HOST_CHOICE_H
#define ES_FIT_HOST_CHOICE_H

#include "data/dataset.h"
#include "growth/host/host.h"

ES_EXTERN_C_BEGIN

#define ES_HOST_SHAPES 2

typedef struct EsHostChoice {
    EsHostSpec hosts[ES_HOST_SHAPES]; // the shapes that fit, at least one
    int n_hosts;
    char reason[1024]; // a paragraph for the user
} EsHostChoice;

// Hosts of at most `share` of max_parameters. ARGUMENT says how many parameters the smallest host
// for this data has, when even that is too large.
EsStatus es_host_choose(const EsDataset *dataset, int64_t max_parameters, double share,
                        EsHostChoice *choice);

ES_EXTERN_C_END

#endif
