// Launchers of PPO's kernels: advantages, loss and gradients over rows in device memory. None of
// them allocates, waits or reads device memory.
//
// R rows, K heads.
#ifndef ES_LEARNING_PPO_CUDA_H
#define ES_LEARNING_PPO_CUDA_H

#include "learning/ppo_internal.h"

ES_EXTERN_C_BEGIN

#define ES_PPO_CHUNKS 16 // pieces of the rows that are summed side by side

// Numbers copied back after a pass.
typedef struct EsPpoNumbers {
    EsPpoLoss loss;
    EsPpoPair targets; // of the first pass
    EsStepReport step; // of the step before this pass
} EsPpoNumbers;

// Device memory between the kernels.
typedef struct EsPpoSpace {
    double *entropy;           // [R, K]
    int32_t *n_legal;          // [R, K]
    EsPpoHeadLoss *head_parts; // sums of pieces of the rows  [K, ES_PPO_CHUNKS]
    EsPpoRowSums *row_parts;   // [ES_PPO_CHUNKS]
    EsPpoNumbers *numbers;
} EsPpoSpace;

// es_rollout_finish, a thread per environment.
void es_ppo_finish_cuda(EsStream *stream, const EsRolloutView *rows,
                        const EsAdvantageOptions *options);

// Normalised advantages (0 in rows that are not valid) and value targets [R].
void es_ppo_scale_cuda(EsStream *stream, const EsRolloutView *rows, const EsPpoScales *scales,
                       float *advantage, float *value_target);

// es_ppo_loss into numbers->loss. Sums: each of ES_PPO_CHUNKS pieces of the rows by 128 threads in
// steps of 128, joined in a binary tree; then the pieces in order.
void es_ppo_loss_cuda(EsStream *stream, const EsPpoProblem *problem, double *log_probability,
                      const EsPpoSpace *space);

// es_ppo_compare_targets into numbers->targets, for outputs with an auxiliary one.
void es_ppo_compare_targets_cuda(EsStream *stream, const EsPpoProblem *problem,
                                 const EsPpoSpace *space);

// es_ppo_loss_gradient for numbers->loss, in the order of the outputs' rows. Rows that no
// environment has are left alone.
void es_ppo_gradient_cuda(EsStream *stream, const EsPpoProblem *problem,
                          const double *log_probability, const EsPpoSpace *space,
                          const EsOutputs *gradients);

ES_EXTERN_C_END

#endif
