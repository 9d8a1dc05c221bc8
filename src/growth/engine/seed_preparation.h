// Seeds made ready before the decision that plants them: fresh weights, and the graphs of hosts
// that have them.
//
// A preparation owns all that it reads and writes, so that its long half may run on any thread, be
// late, or never return, without training noticing. The trainer lists what actions will need
// (create), a worker makes it (run), the trainer puts it in (es_growth_decide_prepared). Planting
// without a preparation, or with one for another step, gives the same bits: it is made then.
//
//     EsSeedPreparation *preparation; // NULL: the actions need nothing new
//     ES_TRY(es_seed_preparation_create(growth, actions, &preparation));
//     if (preparation != NULL) { ES_TRY(es_seed_preparation_run(preparation)); }
//     ES_TRY(es_growth_decide_prepared(growth, actions, preparation));
//     es_seed_preparation_destroy(preparation);
#ifndef ES_GROWTH_SEED_PREPARATION_H
#define ES_GROWTH_SEED_PREPARATION_H

#include "growth/engine/growth.h"
#include "growth/host/growth_graph.h"

// Lists what these actions [E] will need in the state at hand; *preparation is NULL when that is
// nothing, and on a GPU, where kernels make weights and no topology has a graph of its own.
EsStatus es_seed_preparation_create(const EsGrowth *growth, const EsAction *actions,
                                    EsSeedPreparation **preparation);
void es_seed_preparation_destroy(EsSeedPreparation *preparation);

// Lists the graph of a host that may come later (fit/seed_prefetch.h): that of environment `env`
// when its germinated seeds train, and with a seed of `blueprint` in `slot`, unless that is -1.
// *preparation is NULL when the slot has a seed, when there is a plan of it already, and on a GPU.
EsStatus es_seed_preparation_foresee(const EsGrowth *growth, int64_t env, int slot, int blueprint,
                                     EsSeedPreparation **preparation);

// Makes what is missing, on any thread; touches nothing but the preparation.
EsStatus es_seed_preparation_run(EsSeedPreparation *preparation);

// The topology that was foreseen.
const EsTopology *es_seed_preparation_topology(const EsSeedPreparation *preparation);

// Returns whether it lists a graph of this topology that is not made yet.
int es_seed_preparation_lacks(const EsSeedPreparation *preparation, const EsTopology *topology);

// Moves graphs that `to` lacks and `from`, of the same growth, has made. Returns how many.
int es_seed_preparation_take(EsSeedPreparation *to, EsSeedPreparation *from);

// Makes plans of the graphs, which are the plans' from here on.
EsStatus es_seed_preparation_adopt(EsSeedPreparation *preparation, EsGrowthPlans *plans);

#endif
