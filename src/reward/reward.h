// Rewards of all environments, as arrays: struct of arrays in, one reward and its terms out per
// environment. The rules are in reward_rules.h, compiled for host and device.
//
// The reward of a step is computed from what was measured before the decision (contributions,
// stages, ages), what was carried out, and the potential of the slots after the tick. So a step
// asks twice:
//
//     es_reward_latch(reward, state, ablations, accuracies);  // measured, not yet decided
//     ES_TRY(es_growth_decide(growth, actions));
//     es_reward_compute(reward, state);                       // decided and ticked
//     use(es_reward_terms(reward)[e].total);
//
// E environments, S slots.
#ifndef ES_REWARD_REWARD_H
#define ES_REWARD_REWARD_H

#include "growth/contribution_rules.h"
#include "growth/seed_fields.h"
#include "reward/reward_settings.h"

ES_EXTERN_C_BEGIN

// name, help: the terms of a reward in the order of the columns of `rewards`
#define ES_REWARD_TERMS(X)                                                                         \
    X(attribution, "what the seeds measured in this step add to the accuracy")                     \
    X(action, "costs and bonuses of the operation carried out")                                    \
    X(warning, "the worst warning about a seed that harms or lingers")                             \
    X(synergy, "seeds that are better together")                                                   \
    X(rent, "for parameters in use")                                                               \
    X(shock, "for sudden changes of alpha")                                                        \
    X(occupancy, "for slots in use beyond the first, and for fossils")                             \
    X(terminal, "for the accuracy at the end")                                                     \
    X(shaping, "change of the slots' potential")                                                   \
    X(penalty, "for seeds that the governor took out")

typedef struct EsRewardTerms {
    float total;
#define X(name, help) float name;
    ES_REWARD_TERMS(X)
#undef X
} EsRewardTerms;

typedef struct EsReward EsReward;

// `growth` is borrowed: slots, episode length, dwell times, parameter counts.
EsStatus es_reward_create(const EsRewardSettings *settings, const EsGrowthSettings *growth,
                          int64_t n_host_parameters, int64_t n_envs, EsReward **reward);
void es_reward_destroy(EsReward *reward);

// Episodes begin in all environments.
void es_reward_reset(EsReward *reward);

// Before the decision. `ablations` [E] and `accuracy` [E, ES_ABLATION_PATTERNS_MAX] are those of
// the step's validation (es_growth_ablations).
void es_reward_latch(EsReward *reward, const EsGrowthState *state, const EsAblation *ablations,
                     const float *accuracy);

// After decision and tick. Clears what it pays (n_unpaid_prunes).
void es_reward_compute(EsReward *reward, EsGrowthState *state);

const EsRewardTerms *es_reward_terms(const EsReward *reward); // [E], of the last compute
const double *es_reward_totals(const EsReward *reward);       // [E], of the episode so far
double es_reward_stability(const EsReward *reward, int64_t env); // 1 / (1 + variance of last 20)

ES_EXTERN_C_END

#endif
