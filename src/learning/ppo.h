// Proximal policy optimisation (Schulman et al., 2017) over a rollout, for policies with several
// heads and a recurrent state.
//
// One update: advantages, normalised over all valid rows; then up to n_epochs full-batch passes:
// ratios and clipping per head over its causal rows, value loss, entropies, auxiliary losses,
// gradient, one optimiser step each; it stops early when the policy has moved too far (KL). Ratios
// compare with the outputs of the first pass, under the weights at the start of the update (the
// anchor), not with those of acting: in the first pass they are exactly 1. PPO sees a network
// through EsPpoModel alone: it fills in outputs for all rows, and takes gradients with respect to
// them.
//
// The default of `bootstraps`, 0, is for episodes of one length whose clock is observed; the
// published program has 1. EsAdvantageOptions says when which is right.
//
//     EsPpo *ppo; ES_TRY(es_ppo_create(&settings, &rollout_shape, &ppo));
//     ES_TRY(es_ppo_update(ppo, rollout, &model, &report));
//
// R rows (T x E), K heads, A logits of a row.
#ifndef ES_LEARNING_PPO_H
#define ES_LEARNING_PPO_H

#include "learning/normaliser.h"
#include "learning/rollout.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

// Per row, in the order of the rollout; values of a network, or gradients with respect to them.
typedef struct EsOutputs {
    float *logits;       // [R, A]; ragged: packed by first_logit
    float *value;        // state value                             [R]
    float *action_value; // auxiliary, of the sampled action        [R]
    float *auxiliary;    // predicted targets                       [R, n_targets]
} EsOutputs;

// Returns the row of outputs for row t E + e of a rollout; outputs keep environments in shards of
// N: [shard][T][N]. With N = E that is the rollout's own order.
static inline ES_HOST_DEVICE int64_t es_output_row(const EsRolloutShape *shape, int64_t shard_envs,
                                                   int64_t row) {
    int64_t t = row / shape->n_envs, e = row % shape->n_envs;
    return (e / shard_envs * shape->n_steps + t) * shard_envs + e % shard_envs;
}

typedef struct EsStepReport {
    double gradient_norm;                  // before clipping, all parameters
    double head_norm[ES_POLICY_HEADS_MAX]; // of each head's own parameters
    double value_norm, action_value_norm;  // likewise
    int64_t n_nonfinite;                   // gradient values
} EsStepReport;

// A model whose rows are in device memory: everything is queued on its stream, nothing waits. For
// policies that are not ragged.
typedef struct EsPpoDeviceModel {
    EsStream *stream; // borrowed
    // device memory, in place while the model lives
    EsOutputs outputs;   // filled by forward; action_value or auxiliary NULL: it has none
    EsOutputs gradients; // read by step; rows that no environment has stay 0
    int64_t shard_envs;  // order of the rows of both: es_output_row
    // Takes the rows, which are in device memory, and the learning rate and the clipping norm of
    // this update's steps. May wait.
    EsStatus (*begin)(void *context, const EsRolloutView *rows, float learning_rate,
                      float max_norm);
    EsStatus (*forward)(void *context, uint32_t pass);
    EsStatus (*step)(void *context, EsStepReport *report); // into device memory
} EsPpoDeviceModel;

// A network in training. `pass` numbers the passes of a run, for dropout. Dropout that reaches the
// logits makes ratios noise.
typedef struct EsPpoModel {
    void *context;
    EsStatus (*begin)(void *context, const EsRollout *rollout); // take the rows; before an update
    // `outputs` comes with room for all rows. The model fills it, or points a member at memory of
    // its own that is valid until its next call, or sets action_value or auxiliary to NULL: it has
    // none. Rows that are not valid may hold anything. A step need not follow.
    EsStatus (*forward)(void *context, uint32_t pass, EsOutputs *outputs);
    // gradients of the parameters from those of the last forward's outputs; clipping to max_norm
    // (0: none); an Adam step unless a value is not finite. Gradients of outputs that are NULL in
    // the last forward are 0.
    EsStatus (*step)(void *context, const EsOutputs *gradients, float learning_rate, float max_norm,
                     EsStepReport *report);
    // The same in device memory, borrowed; NULL: it has none. An update prefers it.
    const EsPpoDeviceModel *on_device;
} EsPpoModel;

// type, name, default as a configuration spells it, lowest, highest, help
#define ES_PPO_SETTINGS(X)                                                                         \
    X(float, rate, 3e-4, 0, 1, "learning rate of the policy (Adam, epsilon 1e-5)")                 \
    X(int, n_epochs, 4, 1, 64, "passes over a round's rows per update")                            \
    X(float, target_kl, 0.015, 0, 10,                                                              \
      "KL divergence; an update stops at 1.5 times this, 0 = never")                               \
    X(float, clip, 0.2, 0.001, 10, "clip of probability ratios to 1 +- this, per head")            \
    X(float, gamma, 0.995, 0.01, 1, "discount per step")                                           \
    X(float, lambda, 0.98, 0, 1, "lambda of generalised advantage estimation")                     \
    X(float, max_norm, 5, 0, 1e6, "clip of the gradient's norm; 0 = none")                         \
    X(float, value_coefficient, 0.5, 0, 100, "value loss coefficient")                             \
    X(float, value_start, 0.1, 0, 1, "share of the value loss coefficient in the first update")    \
    X(int, value_warmup, 10, 0, 1000000, "updates until the value loss has its full coefficient")  \
    X(float, entropy_start, 0.05, 0, 100, "entropy bonus coefficient at first")                    \
    X(float, entropy_end, 0.05, 0, 100, "entropy bonus coefficient after annealing")               \
    X(int, entropy_anneal, 0, 0, 10000000,                                                         \
      "updates from entropy_start to entropy_end; 0 = it stays")                                   \
    X(float, entropy_floor_scale, 1, 0, 100,                                                       \
      "factor of the penalties for heads below their entropy floor")                               \
    X(int, total_updates, 0, 0, 1000000000,                                                        \
      "updates of the run, which entropy penalties follow; 0 = unknown")                           \
    X(float, forced_value_weight, 0.2, 0, 1, "weight of rows without a choice in the value loss")  \
    X(float, action_value_coefficient, 0.5, 0, 100,                                                \
      "auxiliary Q loss, as a multiple of the value loss coefficient")                             \
    X(float, auxiliary_coefficient, 0.05, 0, 100,                                                  \
      "coefficient of the loss of predicted contributions")                                        \
    X(int, auxiliary_warmup, 1000, 0, 10000000,                                                    \
      "updates until auxiliary_coefficient is in full force")                                      \
    X(float, auxiliary_clip, 10, 0, 1e6, "clip of predicted targets to +- this")                   \
    X(float, advantage_floor, 0.1, 0, 100,                                                         \
      "least standard deviation that advantages are divided by")                                   \
    X(float, reward_clip, 10, 0.01, 1e6, "clip of scaled rewards to +- this")                      \
    X(int, bootstraps, 0, 0, 1, "bootstrap episodes that end by the clock, as published")

// Settings of one head.
typedef struct EsPpoHead {
    float floor;          // least probability of a legal value
    float entropy_weight; // in the bonus
    float entropy_floor;  // below this mean entropy,
    float floor_penalty;  // coefficient (floor - mean)^2 is added
} EsPpoHead;

typedef struct EsPpoSettings {
#define X(type, name, start, lowest, highest, help) type name;
    ES_PPO_SETTINGS(X)
#undef X
    EsPpoHead head[ES_POLICY_HEADS_MAX];
} EsPpoSettings;

// Defaults; heads without floors, weight 1.
EsPpoSettings es_ppo_defaults(void);

// Fails with CONFIG on a value out of range, naming it.
EsStatus es_ppo_settings_check(const EsPpoSettings *settings, int n_heads);

// Report of an update. Statistics of rows are over valid ones; over passes with a step: maxima of
// ratios and norms, minima of ratio_min, means of losses and shares. NaN where there is nothing to
// measure.
typedef struct EsPpoReport {
    double policy_loss, value_loss, action_value_loss, auxiliary_loss;
    double entropy; // mean over heads of the mean over rows that credit them, 0..1
    double floor_penalty;
    double kl_divergence; // from the anchor at the last pass, also if it stopped the update
    double clip_fraction, clip_above, clip_below; // joint ratios beyond 1 +- clip, and either side
    double ratio_mean, ratio_std, ratio_min, ratio_max;
    double log_probability_min, log_probability_max; // of used heads
    double gradient_norm;
    double gradient_spread;                         // deviation of head_norm over its mean
    double head_entropy[ES_POLICY_HEADS_MAX];       // over available rows; NaN where none
    double head_clip_fraction[ES_POLICY_HEADS_MAX]; // over causal rows; NaN where none
    double head_ratio_max[ES_POLICY_HEADS_MAX];     // likewise
    double head_learnable[ES_POLICY_HEADS_MAX];     // share of rows: causal, with a choice
    double head_norm[ES_POLICY_HEADS_MAX];
    double value_norm, action_value_norm;
    double value_mean, value_std, value_min, value_max; // scale of scaled rewards
    double return_mean, return_std, return_skew;
    double return_p10, return_p50, return_p90;
    double value_scale, reward_scale;                              // of targets; of rewards
    double advantage_mean, advantage_std;                          // before normalising
    double advantage_skew, advantage_kurtosis, advantage_positive; // after; excess kurtosis
    double explained_variance; // 1 - Var(return - value) / max(Var return, 1)
    double value_error;        // deviation of return - value over (that of returns + 1)
    double value_correlation, bellman_error, td_mean, td_std;
    double auxiliary_explained, auxiliary_correlation; // of targets; NaN where none
    double forced_ratio;
    double entropy_coefficient, value_coefficient, auxiliary_coefficient;
    int64_t n_usable_steps; // rows that trained the actor
    int64_t n_valid;
    int64_t n_nonfinite;      // outputs and gradient values, all passes
    int n_epochs;             // optimiser steps taken
    int is_stopped;           // by KL
    int is_skipped;           // no step at all because numbers were not finite
    int is_spread_floored;    // advantages were divided by the floor of their spread
    int is_return_spread_low; // Var return < 1: explained_variance says little
} EsPpoReport;

// State that a checkpoint keeps.
typedef struct EsPpoState {
    EsScaleNormaliser rewards, values;
    int64_t n_updates; // with at least one step
    int64_t n_passes;  // forward passes ever made: the number of the next
    int64_t n_skipped; // updates in a row without a finite step
} EsPpoState;

typedef struct EsPpo EsPpo;

EsStatus es_ppo_create(const EsPpoSettings *settings, const EsRolloutShape *shape, EsPpo **ppo);
void es_ppo_destroy(EsPpo *ppo); // before the device of its model is closed
EsPpoState *es_ppo_state(EsPpo *ppo);

// A state that was read from the file `path`: INPUT names the number that no update can have left.
EsStatus es_ppo_state_check(const EsPpoState *state, const char *path);

// Other settings from the next update on, for schedules that are not among them. CONFIG, with those
// before still in force, when a value is out of range.
EsStatus es_ppo_change(EsPpo *ppo, const EsPpoSettings *settings);

// One update. Fills in the last group of the rollout. A rollout without a valid row changes
// nothing. Numbers of the model that are not finite end the update; when there was no step before
// them, nothing moves but n_passes and n_skipped, and the third such update in a row fails with
// NUMERIC. Returns that are not finite fail with NUMERIC at once.
//
// With a model on a device the update runs there: rows that are not there yet (rollout->on_device)
// are copied up once, the finished columns down once, and each pass brings back a few numbers in
// one copy. The CPU waits once per pass and a fixed number of times per update, and looks at the
// rows for the report while the first pass runs. Advantages are those of the CPU bit for bit; sums
// over rows run in another fixed tree. The first such update takes device memory.
EsStatus es_ppo_update(EsPpo *ppo, EsRollout *rollout, const EsPpoModel *model,
                       EsPpoReport *report);

ES_EXTERN_C_END

#endif
