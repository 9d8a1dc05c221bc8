// Slots: the places of a host where seeds can be put, and the seeds that fit there.
//
// A slot is called r<row>c<column>: the column is the block, row 0 lies between its ReLU and its
// pool, row 1 after the pool. Lists of slots are row-major, which is the order of actions and
// observations; they run in another, block by block (`order`).
//
//     EsSlot slots[ES_SLOTS_MAX]; int n_slots;
//     ES_TRY(es_slots_parse(&host, "r0c0,r0c1,r0c2", slots, &n_slots));
#ifndef ES_GROWTH_SLOT_H
#define ES_GROWTH_SLOT_H

#include "growth/host/host.h"
#include "growth/rules/action_rules.h"

ES_EXTERN_C_BEGIN

typedef struct EsSlot {
    char name[28]; // room for any two numbers
    int row, column;
    int order; // position among the slots of the list, as they run
    int64_t n_channels;
} EsSlot;

// All slots a host has, row by row. Returns their number, at most 2 * ES_SLOTS_MAX.
int es_slots_of(const EsHostSpec *host, EsSlot slots[2 * ES_SLOTS_MAX]);

// The slots named in a list separated by commas, "all" for every one, sorted row by row. ARGUMENT
// for one that the host does not have (naming those it has), that comes twice, or more than
// ES_SLOTS_MAX.
EsStatus es_slots_parse(const EsHostSpec *host, const char *names, EsSlot slots[ES_SLOTS_MAX],
                        int *n_slots);

// Blueprints that seeds in the host's slots may have, as bits of EsBlueprintId: noop, and those of
// its kind.
int32_t es_slots_blueprints(const EsHostSpec *host);

// The slot at a place of the host, or -1.
int es_slot_at(const EsSlot *slots, int n_slots, int block, int is_after_pool);

ES_EXTERN_C_END

#endif
