// The loss of PPO on given outputs, and its gradients with respect to them.
//
// Rows that are not valid weigh nothing. Means are over all rows of the batch, summed in double in
// the order of rows. With M_h = causal rows of head h that were not forced, n_h their number:
//
//   policy        sum_h -1/n_h sum_M min(rho A, clip(rho, 1 +- clip) A),
//                 rho = exp(clamp(log p - log p at the anchor, +-20)); 1 for a head not used
//   value         1/2 sum w (V - y)^2 / max(1, sum w), w = forced_value_weight if forced, else 1
//   action_value  the same with Q
//   entropy       sum_h weight_h * mean over M_h of H_h
//   floor         cf sum_h penalty_h max(0, entropy_floor_h - mean of H_h)^2, the mean over
//                 available unforced rows
//   auxiliary     mean over measured targets of (prediction - clip(target))^2
//   total         policy + cv (value + cq action_value) - ce entropy + floor + ca auxiliary
//
// Entropies are those under `mask`, the legal values given that the head is read: a head that was
// legal but not chosen is still kept from collapsing.
//
//     es_ppo_loss(&batch, &outputs, log_probability, &loss);
//     es_ppo_loss_gradient(&batch, &outputs, log_probability, &loss, &gradients);
//
// R rows, K heads.
#ifndef ES_LEARNING_PPO_LOSS_H
#define ES_LEARNING_PPO_LOSS_H

#include "learning/ppo.h"

ES_EXTERN_C_BEGIN

// In force in one update: warm-ups and schedules are in them.
typedef struct EsPpoCoefficients {
    double value, entropy, floor, auxiliary;
} EsPpoCoefficients;

EsPpoCoefficients es_ppo_coefficients(const EsPpoSettings *settings, int64_t n_updates);

// Inputs of a loss apart from outputs; the same in all passes of an update. All borrowed.
typedef struct EsPpoBatch {
    const EsPpoSettings *settings;
    const EsRollout *rollout;
    const float *advantage;    // normalised                              [R]
    const float *value_target; // returns over the value scale            [R]
    const double *reference;   // log-probabilities at the anchor [R, K]; NULL: the outputs' own
    double *scratch;           // n_logits of the policy's shape
    EsPpoCoefficients coefficients;
} EsPpoBatch;

typedef struct EsPpoHeadLoss {
    int64_t n_causal, n_available, n_learnable; // unforced rows; causal ones with > 1 legal value
    int64_t n_clipped;                          // causal rows with a ratio beyond 1 +- clip
    double policy;
    double entropy;           // mean over causal rows; 0 where none
    double available_entropy; // mean over available rows; 0 where none
    double floor_gap;         // max(0, floor - available_entropy); 0 where there is no such row
    double kl;                // mean over causal rows of rho - 1 - log rho
    double ratio_max;         // over causal rows; 0 where none
} EsPpoHeadLoss;

typedef struct EsPpoLoss {
    double total, policy, value, action_value, entropy, floor, auxiliary;
    double kl; // mean of rho - 1 - log rho over causal rows of all heads
    // of the joint ratio exp(clamp(sum of the heads' log ratios, +-30)), over unforced rows
    double ratio_mean, ratio_std, ratio_min, ratio_max;
    int64_t n_above, n_below; // beyond 1 + clip, below 1 - clip
    double log_probability_min, log_probability_max;
    int64_t n_actor;     // unforced rows
    double value_weight; // max(1, sum of weights of the value loss)
    int64_t n_targets;
    int64_t n_nonfinite; // outputs that count and are not finite; > 0: the rest means nothing
    EsPpoHeadLoss head[ES_POLICY_HEADS_MAX];
} EsPpoLoss;

// log_probability [R, K] receives those of used heads in unforced valid rows, else 0.
void es_ppo_loss(const EsPpoBatch *batch, const EsOutputs *outputs, double *log_probability,
                 EsPpoLoss *loss);

// d total / d outputs, all rows; 0 for members that are NULL in `outputs`. `log_probability` and
// `loss` as es_ppo_loss gave them.
void es_ppo_loss_gradient(const EsPpoBatch *batch, const EsOutputs *outputs,
                          const double *log_probability, const EsPpoLoss *loss,
                          EsOutputs *gradients);

ES_EXTERN_C_END

#endif
