// Rewards of all environments, as arrays: struct of arrays in, one reward and its terms out per
// environment. The rules are in reward_rules.h, compiled for the CPU and the GPU.
//
// The reward of a step is computed from the measurements before the decision (contributions,
// stages, alphas), the executed operation, and the potential of the slots after the tick. So it is
// called twice in a step:
//
//     es_reward_latch(reward, state);   // measured, not yet decided
//     ES_TRY(es_growth_decide(growth, actions));
//     es_reward_compute(reward, state); // decided and ticked
//     ES_TRY(es_growth_settle_prunes(growth, es_reward_settled_prunes(reward)));
//     use(es_reward_terms(reward)[e].total);
//
// A step that was rolled back (refusal ROLLED_BACK) has no valid row; its total is added to the
// last valid row of that environment (es_rollout_break). Before the first valid row it reaches no
// row: it counts in es_reward_totals alone.
//
// E environments, S slots.
#ifndef ES_REWARD_REWARD_H
#define ES_REWARD_REWARD_H

#include "reward/reward_rules.h"

ES_EXTERN_C_BEGIN

typedef struct EsReward EsReward;

// `growth` is borrowed: slots, episode length, dwell times, thresholds. The settings hold for all
// environments. CONFIG when they are out of range.
EsStatus es_reward_create(const EsRewardSettings *settings, const EsGrowthSettings *growth,
                          int64_t n_host_parameters, int64_t n_envs, EsReward **reward);
void es_reward_destroy(EsReward *reward);

// Other settings for environments [first, first + n). Between episodes.
EsStatus es_reward_configure(EsReward *reward, int64_t first, int64_t n,
                             const EsRewardSettings *settings);

// Episodes begin in all environments.
void es_reward_reset(EsReward *reward);

// After the step's validation, before the decision.
void es_reward_latch(EsReward *reward, const EsGrowthState *state);

// After decision and tick, once per latch. Reads the state; the prunes that the rewards account for
// are taken off it by its owner (es_growth_settle_prunes, es_lifecycle_settle_prunes).
void es_reward_compute(EsReward *reward, const EsGrowthState *state);

const EsRewardTerms *es_reward_terms(const EsReward *reward);    // [E], of the last compute
const int32_t *es_reward_settled_prunes(const EsReward *reward); // [E], of the last compute
const double *es_reward_totals(const EsReward *reward);          // [E], of the episode so far

// 1 / (1 + population variance of the last 20 rewards); 1 before the first.
double es_reward_stability(const EsReward *reward, int64_t env);

// Its arrays, for rewards that are computed elsewhere and brought back
// (control/decision/decision_device.h). A view is a set of places: es_reward_view_latch and
// es_reward_view_step take it as const, since no place moves, and write the arrays behind it. latch
// writes state.seed, step writes state.env and terms; nothing writes settings but
// es_reward_configure. Their caller owns the view and the memory of its arrays.
EsRewardView *es_reward_view(EsReward *reward);

ES_EXTERN_C_END

#endif
