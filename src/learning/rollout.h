// Rollout: observations, choices and rewards of T steps of E environments, time-major. One row is
// one decision.
//
// Nothing here depends on the meaning of a head. A row says which values of each head were legal,
// which heads the sampled action reads (`used`), which ones the executed action reads (`causal`:
// they are credited), and which ones some legal action would have read (`available`).
//
// Life of a row: es_rollout_row is its place in all arrays; the decision fills the first two
// groups, the reward the third. Rows that were not filled are not valid and do not count.
//
//     EsRollout *rollout; ES_TRY(es_rollout_create(&shape, &rollout));
//     es_rollout_reset(rollout);                       // before each round
//     int64_t row = es_rollout_row(rollout, t, env);
//     rollout->reward[row] = reward; rollout->is_valid[row] = 1;
//
// T steps, E environments, D features, K heads.
#ifndef ES_LEARNING_ROLLOUT_H
#define ES_LEARNING_ROLLOUT_H

#include <stddef.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

#define ES_POLICY_HEADS_MAX 16

// The heads of a policy. Logits of a row stand head after head. A policy that chooses among a
// varying number of candidates is ragged: one head of size 0, every candidate legal, and row r has
// the logits first_logit[r] .. first_logit[r + 1].
typedef struct EsPolicyShape {
    int n_heads;
    int head_size[ES_POLICY_HEADS_MAX]; // number of values, at most ES_CHOICE_MAX
    int n_logits;                       // of a row: their sum; ragged: most of any row
} EsPolicyShape;

// The sum of the sizes becomes n_logits; a ragged shape's is set by the caller.
EsPolicyShape es_policy_shape(int n_heads, const int *head_size);

static inline int es_policy_shape_is_ragged(const EsPolicyShape *shape) {
    return shape->n_heads == 1 && shape->head_size[0] == 0;
}

typedef struct EsRolloutShape {
    int64_t n_steps; // T
    int64_t n_envs;  // E
    int n_features;  // D
    int n_ids;       // integers beside the features (embedding indices)
    int n_targets;   // measured values that the auxiliary output is taught
    EsPolicyShape policy;
} EsRolloutShape;

// Columns: type, name, values per row of a shape S, meaning. Row t * E + e; all of a column stands
// together.
//
// Observations; written by it.
#define ES_ROLLOUT_SEEN_COLUMNS(X)                                                                 \
    X(float, features, (S)->n_features, "normalised")                                              \
    X(int32_t, ids, (S)->n_ids, "embedding indices")                                               \
    X(uint8_t, is_reset, 1, "the recurrent state before this row is 0")

// Choices; written by it.
#define ES_ROLLOUT_CHOSEN_COLUMNS(X)                                                               \
    X(int16_t, action, (S)->policy.n_heads, "within its head")                                     \
    X(uint64_t, mask, (S)->policy.n_heads,                                                         \
      "legal values of a head, if an action that reads it is taken")                               \
    X(uint32_t, used, 1, "bits of heads that the sampled action reads")                            \
    X(uint32_t, available, 1, "bits of heads that some legal action reads")                        \
    X(uint8_t, is_forced, 1, "there was no choice: no actor loss")                                 \
    X(float, value, 1, "on the normalised scale")

// Outcomes; written by the owner of the environments.
#define ES_ROLLOUT_PAID_COLUMNS(X)                                                                 \
    X(uint32_t, causal, 1, "bits of heads that what was carried out reads")                        \
    X(uint8_t, is_valid, 1, "the row counts")                                                      \
    X(uint8_t, is_done, 1, "the episode ended with this row,")                                     \
    X(uint8_t, is_truncated, 1, "by the clock, not by the environment")                            \
    X(float, reward, 1, "as computed, before normalising")                                         \
    X(float, penalty, 1, "of a broken episode, on the scale of scaled rewards")                    \
    X(float, bootstrap, 1, "value after a truncated or last row, normalised scale")                \
    X(float, target, (S)->n_targets, "auxiliary targets")                                          \
    X(uint8_t, has_target, (S)->n_targets, "measured at this row")

// Written by es_rollout_finish; 0 in rows that are not valid.
#define ES_ROLLOUT_FINISHED_COLUMNS(X)                                                             \
    X(float, scaled_reward, 1, "reward over the scale in force + penalty, clipped")                \
    X(float, advantage, 1, "generalised, not normalised")                                          \
    X(float, returns, 1, "advantage + value, on the scale of scaled_reward")                       \
    X(float, td_error, 1, "")

#define ES_ROLLOUT_COLUMNS(X)                                                                      \
    ES_ROLLOUT_SEEN_COLUMNS(X)                                                                     \
    ES_ROLLOUT_CHOSEN_COLUMNS(X)                                                                   \
    ES_ROLLOUT_PAID_COLUMNS(X)                                                                     \
    ES_ROLLOUT_FINISHED_COLUMNS(X)

// The columns of a rollout in one slab, which is borrowed and may be device memory. The slab is
// laid out in the order of the list: one copy moves a rollout, or the columns from any one on,
// between devices.
typedef struct EsRolloutView {
    EsRolloutShape shape;
    int64_t n_rows; // T * E
#define X(type, name, count, meaning) type *name;
    ES_ROLLOUT_COLUMNS(X)
#undef X
    int64_t
        *first_logit; // ragged policies, else NULL; rows that are not valid count, too [T E + 1]
} EsRolloutView;

// Rollouts in CPU memory: a view with a slab of its own.
typedef struct EsRollout {
    EsRolloutShape shape;
    int64_t n_rows;    // T * E; row t * E + e
    void *slab;        // owned: all columns
    size_t slab_bytes; //
#define X(type, name, count, meaning) type *name;
    ES_ROLLOUT_COLUMNS(X)
#undef X
    int64_t *first_logit; // as in a view
    // The same rows in device memory, where a device writes them: features and ids are there alone.
    // Borrowed, until the next es_rollout_reset; NULL: everything is here.
    const EsRolloutView *on_device;
} EsRollout;

// Lay the columns out over a slab of es_rollout_bytes, aligned to 64 bytes; nothing is read or
// written here. Columns start at multiples of 64.
void es_rollout_view_bind(EsRolloutView *view, void *slab, const EsRolloutShape *shape);
size_t es_rollout_bytes(const EsRolloutShape *shape);

EsRolloutView es_rollout_view(const EsRollout *rollout);

// Fails with ARGUMENT on a shape that makes no sense. The rollout is reset.
EsStatus es_rollout_create(const EsRolloutShape *shape, EsRollout **rollout);
void es_rollout_destroy(EsRollout *rollout);

static inline int64_t es_rollout_row(const EsRollout *rollout, int64_t t, int64_t env) {
    return t * rollout->shape.n_envs + env;
}

// Forget all rows: everything is 0, none is valid, none is on a device. The first rows are marked
// as resets.
void es_rollout_reset(EsRollout *rollout);

// The environment broke down at step t: this row does not count, the last valid one before it gets
// `reward` on top and ends the episode without bootstrap, and the next row starts from a reset.
// `penalty` too is added to it, after scaling: a breakdown costs the same at any scale of rewards.
// A row that had ended its episode already is left alone: it did not cause this breakdown. Without
// a valid row before (step 0, or all before it broke, too) reward and penalty reach no row: no
// decision led to them. Sums of an episode's rewards count them all the same.
void es_rollout_break(EsRollout *rollout, int64_t t, int64_t env, float reward, float penalty);

typedef struct EsAdvantageOptions {
    double gamma, lambda;
    double reward_scale; // rewards are divided by it,
    double reward_clip;  // then clipped to +- this
    double value_scale;  // value and bootstrap times this are on the scale of scaled rewards
    // 0: truncated rows are ends. Right where every episode has the same length, the clock is
    //    observed and the end is paid for: nothing is left to come. There 1 goes astray: the state
    //    after the end looks like the last one, so the target of its value contains that value, and
    //    both climb towards reward / (1 - gamma) (docs/decisions/0009-episodes-end.md).
    // 1: they go on with their bootstrap. Right where the task has no end of its own, and a limit
    //    that is not observed cut it short.
    int bootstraps;
} EsAdvantageOptions;

// Rewards scaled, then generalised advantages per environment over its valid rows (Schulman et al.,
// 2016):
//   delta_t = r_t + gamma next - V_t,   A_t = delta_t + gamma lambda A_next,   R_t = A_t + V_t
// next is V of the following valid row; 0 after an end; after a truncated row as `bootstraps` says.
// A_next is 0 after is_done. An environment's last valid row without is_done always goes on with
// its bootstrap: the rollout was cut there, not the episode. A reward that is not finite is not
// clipped: it shows in the returns.
void es_rollout_finish(EsRollout *rollout, const EsAdvantageOptions *options);

ES_EXTERN_C_END

#endif
