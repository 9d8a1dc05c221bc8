// Parts of PPO shared by its updates on the CPU and on a device.
#ifndef ES_LEARNING_PPO_INTERNAL_H
#define ES_LEARNING_PPO_INTERNAL_H

#include "learning/ppo_rules.h"

ES_EXTERN_C_BEGIN

// Device memory of an EsPpo, made by its first update there.
typedef struct EsPpoDevice EsPpoDevice;

struct EsPpo {
    EsPpoSettings settings;
    EsRolloutShape shape;
    int64_t n_rows;
    EsPpoState state;
    void *slab;        // owned: the arrays below, but for logits
    size_t slab_bytes; //
    float *advantage;
    float *value_target;
    double *reference;       // [R, K]
    double *log_probability; // [R, K]
    double *scratch;         // [max(A, R)]
    EsOutputs outputs;       // memory for the model
    EsOutputs gradients;     //
    void *logits;            // owned: those of outputs, then of gradients
    int64_t logit_capacity;  // of either
    EsPpoDevice *device;     // owned; NULL before the first update on a device
};

// Scaling of rows for a pass.
typedef struct EsPpoScales {
    double advantage_mean, advantage_divisor;
    double value; // targets are returns over it
} EsPpoScales;

// One update under way.
typedef struct EsPpoUpdate {
    EsPpo *ppo;
    EsRollout *rollout;
    const EsPpoModel *model;
    EsPpoReport *report;
    EsPpoBatch batch;
    EsPpoScales scales;       // set by es_ppo_prepare_targets
    EsScaleNormaliser values; // with this round's returns; kept when a step was taken
} EsPpoUpdate;

EsAdvantageOptions es_ppo_advantage_options(const EsPpo *ppo);

// After es_rollout_finish: checks the returns, finds the scales and coefficients, writes normalised
// advantages and targets, reports on the rows.
EsStatus es_ppo_prepare_targets(EsPpoUpdate *update);

// Returns whether a step may follow the loss of a pass: its numbers are finite and the policy has
// not moved too far. Counts the pass's findings into the report.
int es_ppo_should_continue(EsPpoUpdate *update, const EsPpoLoss *loss, int is_first);

// Count a step; returns whether it was taken: its gradients are finite.
int es_ppo_count_step(EsPpoUpdate *update, const EsPpoLoss *loss, const EsStepReport *step);

// --- on a device; UNSUPPORTED in a build without CUDA ---

// Finish the update's rollout on the model's device, and bring the finished columns back. Waits.
EsStatus es_ppo_device_finish(EsPpoUpdate *update);

// The passes of an update over the rows that were finished last.
EsStatus es_ppo_device_passes(EsPpoUpdate *update);

void es_ppo_device_destroy(EsPpoDevice *device); // NULL is fine

// --- launchers of its kernels: advantages, loss and gradients over rows in device memory ---

// None of them allocates, waits or reads device memory. R rows, K heads.

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
