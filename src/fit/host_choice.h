// Hosts for a data set and a limit of parameters, where the user names none; and larger hosts to
// compare grown networks with.
//
// Images are pooled until 4 to 8 pixels a side are left, and channels double with each pool; *wide*
// hosts have one block at each resolution, *deep* ones two narrower ones, the *deepest* as many as
// fit. Rows get one layer or two. Some hosts take nearly all parameters, others leave four tenths
// to seeds. Seeds are put where pixels are few.
//
//     EsHostChoice choice;
//     ES_TRY(es_host_choose(&dataset, max_parameters, &choice));
//     printf("%s\n", choice.reason);
#ifndef ES_FIT_HOST_CHOICE_H
#define ES_FIT_HOST_CHOICE_H

#include "data/dataset.h"
#include "growth/host/host.h"

ES_EXTERN_C_BEGIN

#define ES_HOST_SHAPES 5

typedef struct EsHostChoice {
    EsHostSpec hosts[ES_HOST_SHAPES]; // those that fit, at least one
    int n_hosts;
    char reason[2048]; // a paragraph for the user
} EsHostChoice;

// Hosts of at most max_parameters, the most promising first. ARGUMENT says how many the smallest
// host for this data takes, when even that is too large.
EsStatus es_host_choose(const EsDataset *dataset, int64_t max_parameters, EsHostChoice *choice);

// The host with more channels in every block, or with more blocks: as many as max_parameters allow.
// The host itself where they allow no more.
EsHostSpec es_host_widen(const EsHostSpec *host, int64_t max_parameters);
EsHostSpec es_host_deepen(const EsHostSpec *host, int64_t max_parameters);

ES_EXTERN_C_END

#endif
