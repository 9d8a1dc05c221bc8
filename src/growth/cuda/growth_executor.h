// The executor of growth's hosts on a GPU: forward, loss and backward of a batch in every
// environment, and evaluations. It is chosen when growth is created: the fused step where it can
// run the host, else the planned step. All else of a step (growth_device.c) reads only the
// gradients in the store, and losses and counts in device memory, which every executor leaves.
//
//     ES_TRY(executor->begin_step(growth));
//     ES_TRY(executor->train(growth, batch_number));      // may be captured, like the next
//     ES_TRY(executor->evaluate(growth, NULL, 0, first_image, n_images));
#ifndef ES_GROWTH_GROWTH_EXECUTOR_H
#define ES_GROWTH_GROWTH_EXECUTOR_H

#include "growth/engine/growth_internal.h"
#include "growth/fused/fused_step.h"

ES_EXTERN_C_BEGIN

typedef struct EsGrowthExecutor {
    const char *name;
    EsStatus (*create)(EsGrowth *growth); // tables and rows of growth on the device exist
    void (*destroy)(EsGrowth *growth);    // of everything that create made

    // Before training and validation of a step are queued. It may wait for the decision before it.
    EsStatus (*begin_step)(EsGrowth *growth);

    // A batch of training in every environment, by train_slots. step i32 [1]: its number in the
    // episode.
    EsStatus (*train)(EsGrowth *growth, const int32_t *step);

    // Images [first_image, first_image + n_images) of the data set through the first n trials in
    // the trial rows, which prepare_trial has made ready; NULL: through those of the step.
    EsStatus (*prepare_trial)(EsGrowth *growth, EsGrowthTrial *trial);
    EsStatus (*evaluate)(EsGrowth *growth, const EsGrowthTrial *trials, int64_t n,
                         int64_t first_image, int64_t n_images);

    // Results, valid until the next run of the kind.
    EsFusedResults (*trained)(const EsGrowth *growth);   // [E]
    EsFusedResults (*evaluated)(const EsGrowth *growth); // [R]
    size_t (*bytes)(const EsGrowth *growth);             // device memory that it holds
} EsGrowthExecutor;

// fused_executor.c: the fused step (fused/fused_step.h).
const EsGrowthExecutor *es_growth_executor_fused(void);

// planned_executor.c: plans of single operations, each host with the plan of its own topology
// (engine/growth_plans.h).
const EsGrowthExecutor *es_growth_executor_planned(void);

ES_EXTERN_C_END

#endif
