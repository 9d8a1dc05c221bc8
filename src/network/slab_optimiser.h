// Optimisers over the slabs of a store: gradient norms, clipping per group, SGD or Adam, and the
// moving average of weights. All rates are arrays over environments, in device memory, so that
// sweeps run side by side and a captured step sees changes.
//
// On a shared store there is one network: E is 1 below. A step first sums the gradients of all
// environments in a fixed tree (kernels/kernel_list.h) into row 0 of the store's gradients;
// norms, clipping and update are those of the sum.
//
//     EsOptimiserOptions options = es_optimiser_defaults(ES_OPTIMISER_SGD);
//     EsOptimiser *optimiser; ES_TRY(es_optimiser_create(graph, store, &options, &optimiser));
//     es_optimiser_step(optimiser, stream);      // after a backward pass
#ifndef ES_NETWORK_SLAB_OPTIMISER_H
#define ES_NETWORK_SLAB_OPTIMISER_H

#include "network/store.h"

ES_EXTERN_C_BEGIN

typedef enum EsOptimiserKind {
    ES_OPTIMISER_SGD,
    ES_OPTIMISER_ADAM, // without weight decay and schedule
    ES_OPTIMISER_ADAMW // with both (es_adamw_step); on the CPU
} EsOptimiserKind;

typedef struct EsOptimiserOptions {
    EsOptimiserKind kind;
    // the same for all environments; es_optimiser_set_rates for others
    float learning_rate, momentum, weight_decay;
    float beta1, beta2, epsilon; // Adam, AdamW
    float max_norm;              // clip of each group's gradient norm; 0 = no clipping
    int measures;        // norms and counts also without clipping, so that it can be set later
    int skips_nonfinite; // an environment with a gradient that is not finite makes no step
} EsOptimiserOptions;

// Adam steps that a file may claim: as many again fit in the counter.
#define ES_OPTIMISER_STEPS_MAX (INT32_MAX / 2)

typedef struct EsOptimiser {
    EsOptimiserOptions options;
    EsStore *store;   // borrowed
    EsSgdRates rates; // [E] each; Adam uses rates.learning_rate. Nesterov and a schedule are set by
                      // the owner, before the first step; rates.update is borrowed
    EsTensor moment1; // [E, P] momentum, or Adam's first moment
    EsTensor moment2; // [E, P] Adam, AdamW
    EsTensor n_steps; // i32 [E] Adam, AdamW
    EsTensor scheduled_rate; // [E] AdamW: learning rates of the last step

    // one span per parameter tensor, in the order of the graph's values; one clip group until slots
    // bring more
    int n_spans;
    EsTensor spans;       // i64 [S, 2]
    EsTensor groups;      // i32 [S]
    EsTensor max_norm;    // [E, 1]
    EsTensor sum_squares; // f64 [E, S]     filled by es_optimiser_step when it measures:
    EsTensor n_nonfinite; // i32 [E, S]     max_norm, measures or skips_nonfinite are set
    EsTensor group_norm;  // [E, 1]
} EsOptimiser;

// SGD as the hosts use it: learning rate 0.01, momentum 0.9, weight decay 5e-4. Adam and AdamW:
// learning rate 1e-3, moments 0.9 and 0.999, epsilon 1e-8, no weight decay. No clipping.
EsOptimiserOptions es_optimiser_defaults(EsOptimiserKind kind);

// UNSUPPORTED: weight decay of Adam; AdamW on a GPU, or with skips_nonfinite.
EsStatus es_optimiser_create(const EsGraph *graph, EsStore *store,
                             const EsOptimiserOptions *options, EsOptimiser **optimiser);
void es_optimiser_destroy(EsOptimiser *optimiser);

// Per-environment values, arrays of E on the CPU (NULL = leave alone). Waits for the stream.
EsStatus es_optimiser_set_rates(EsOptimiser *optimiser, EsStream *stream,
                                const float *learning_rate, const float *momentum,
                                const float *weight_decay);

// Clip the norm of every environment's gradient to max_norm from now on, 0 = no clipping. ARGUMENT
// for an optimiser that does not measure. Waits for the stream.
EsStatus es_optimiser_set_clip(EsOptimiser *optimiser, EsStream *stream, float max_norm);

// Copies the last step's measurements, before clipping, into arrays of the CPU (NULL = leave out):
// the norm of all finite gradients [E], their sum of squares per span [E, S], and the count of the
// others [E, S]. Waits for the stream.
EsStatus es_optimiser_read_norms(const EsOptimiser *optimiser, EsStream *stream, float *norm,
                                 double *sum_squares, int32_t *n_nonfinite);

// Forget all momentum.
EsStatus es_optimiser_reset(EsOptimiser *optimiser, EsStream *stream);

// Norms and clipping (when asked for), then the update. Non-finite gradients are left out of the
// norms and, with skips_nonfinite, keep their environment from moving. Queued; can be captured.
void es_optimiser_step(EsOptimiser *optimiser, EsStream *stream);

// One step of AdamW in memory of the CPU, the tensors as in kernels/kernel_list.h: with lr the
// learning rate after its schedule p -= lr weight_decay p, then Adam's step by lr. Fills
// scheduled_rate [E] with lr; momentum and Nesterov of the rates have no part in it.
void es_adamw_step(EsStream *stream, EsAdamOptions options, const EsSgdRates *rates,
                   const EsTensor *scheduled_rate, const EsTensor *gradient,
                   const EsTensor *moment1, const EsTensor *moment2, const EsTensor *n_steps,
                   const EsTensor *parameter);

// --- averaged weights ---

// average += (1 - share) (weights - average), both f32 [E, P], with a share of es_average_share
// (kernels/ops/schedule_rules.h). On the CPU.
void es_average_update(EsStream *stream, float share, const EsTensor *weights,
                       const EsTensor *average);

ES_EXTERN_C_END

#endif
