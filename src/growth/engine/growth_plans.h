// A cache of plans by topology: the plan that runs a host with this set of seeds, in training or
// evaluation.
//
// Finding a plan that exists allocates nothing. The least recently used one makes room for a new
// one; plans found since the last es_growth_plans_begin_step stay.
#ifndef ES_GROWTH_GROWTH_PLANS_H
#define ES_GROWTH_GROWTH_PLANS_H

#include "growth/host/growth_graph.h"
#include "network/plan/plan.h"

ES_EXTERN_C_BEGIN

typedef struct EsGrowthPlan {
    EsTopology topology;
    int64_t batch;
    int is_training;
    EsGrowthGraph graph; // owned
    EsPlan *plan;        // owned, hosted
    // training on the CPU: the parameter tensors, for norms and clipping
    int n_spans;
    EsTensor spans;    // owned, i64 [n_spans, 2]: offset, length
    EsTensor groups;   // owned, i32 [n_spans]: 0 the host, 1 + s slot s
    int64_t last_step; // when it was last found
} EsGrowthPlan;

typedef struct EsGrowthPlans EsGrowthPlans;

typedef struct EsGrowthPlansOptions {
    const EsGrowthModel *model; // borrowed
    EsStore *store;             // borrowed: the weights that are trained,
    EsStore *evaluated;         // borrowed: and those that are evaluated; may be the same
    const EsTensor *episode;    // borrowed, i32 [E]
    // borrowed: the data set on the store's device; NULL: where the model's lies
    const EsTensor *images, *labels;
    EsDtype precision; // of activations
    EsCompileMode mode;
    int capacity; // plans kept
} EsGrowthPlansOptions;

EsStatus es_growth_plans_create(const EsGrowthPlansOptions *options, EsGrowthPlans **plans);
void es_growth_plans_destroy(EsGrowthPlans *plans);

void es_growth_plans_begin_step(EsGrowthPlans *plans);

// The plan for a topology, built when it is not there. MEMORY when more plans are needed in one
// step than the cache holds.
EsStatus es_growth_plans_find(EsGrowthPlans *plans, const EsTopology *topology, int64_t batch,
                              int is_training, EsGrowthPlan **plan);

// Is the plan there already?
int es_growth_plans_has(const EsGrowthPlans *plans, const EsTopology *topology, int64_t batch,
                        int is_training);

// Makes the training plan of a graph that was built elsewhere by es_growth_graph_create, and takes
// the graph over; not where the plan is there already, nor in another's place.
EsStatus es_growth_plans_adopt(EsGrowthPlans *plans, const EsTopology *topology,
                               EsGrowthGraph *graph);

// Measures the bytes of a plan that is built and not kept, so that nothing of it is reported: its
// own, and those in each worker that runs it.
EsStatus es_growth_plans_measure(EsGrowthPlans *plans, const EsTopology *topology, int64_t batch,
                                 int is_training, size_t *plan_bytes, size_t *worker_bytes);

typedef struct EsGrowthPlansReport {
    int64_t n_hits, n_builds, n_evictions;
    int n_plans, n_plain; // present; of them not run by the vector engine
    double build_ms;      // of all builds
    char fallback[256];   // why the last that was built is not run by it; "": all were
} EsGrowthPlansReport;
EsGrowthPlansReport es_growth_plans_report(const EsGrowthPlans *plans);

// Largest number of parameter tensors any topology can have.
int es_growth_plans_max_spans(const EsGrowthModel *model);

ES_EXTERN_C_END

#endif
