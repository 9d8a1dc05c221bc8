// Hosts for a data set and a limit of parameters, where the user names none; and alternatives to
// grown networks: larger hosts, and topologies that hosts have from their first step on.
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

#include "fit/grown_network.h"

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

// The host with more channels in every block, or with more blocks: as many as max_parameters allow,
// and max_blocks (at most ES_HOST_BLOCKS_MAX). The host itself where they allow no more.
EsHostSpec es_host_widen(const EsHostSpec *host, int64_t max_parameters);
EsHostSpec es_host_deepen(const EsHostSpec *host, int64_t max_parameters, int max_blocks);

// Seeds that a host has from its first step on; slots are numbered as in the list of its growth.
typedef struct EsFitTopology {
    int n_seeds;
    struct {
        int slot, blueprint, style;
    } seeds[ES_SLOTS_MAX];
} EsFitTopology;

// That of a network, in these slots. INPUT when they lack the slot of a seed.
EsStatus es_fit_topology_of(EsFitTopology *topology, const EsGrownSpec *spec, const EsSlot *slots,
                            int n_slots);

// Seeds of random blueprints in half of the slots, as far as max_parameters go: a function of the
// host, the seed and the number.
void es_fit_topology_draw(EsFitTopology *topology, const EsHostSpec *host, const EsSlot *slots,
                          int n_slots, int64_t max_parameters, uint64_t seed, uint32_t number);

// Between es_growth_begin and es_growth_advance (es_growth_plant).
EsStatus es_fit_topology_plant(const EsFitTopology *topology, EsGrowth *growth, int64_t env);

ES_EXTERN_C_END

#endif
