// A learned policy in training: its network as a PPO model, the outcome of every decision, the
// update at the end of a round, and the file that training goes on from.
//
//     ES_TRY(es_growth_decide(growth, actions));
//     ES_TRY(es_policy_training_record(policy, state, rewards, rollback_penalty));
//     ES_TRY(es_policy_training_update(policy, state, &report)); // after the last step
//
// For policies made by es_policy_create.
//
// E environments, T steps.
#ifndef ES_CONTROL_POLICY_TRAINING_H
#define ES_CONTROL_POLICY_TRAINING_H

#include "control/policy/policy.h"

ES_EXTERN_C_BEGIN

// Records the outcome of a decision, once, after es_growth_decide. rewards [E]; `state` after the
// tick. The row of an environment that was rolled back does not count: its last one gets this
// reward on top and ends. `rollback_penalty` is the part of such a reward, taken as positive, that
// is not divided by the scale of rewards. With no row before it, both are lost to training. Does
// nothing if a decision phase on a device has recorded it (decision_device.h).
EsStatus es_policy_training_record(EsPolicy *policy, const EsGrowthState *state,
                                   const float *rewards, float rollback_penalty);

// The update, after the last step; normalisers move. es_policy_begin starts the next episodes. With
// `bootstraps` 1 returns continue with the values of the states after the last step; those of a
// round that stops before the episode's end always do.
EsStatus es_policy_training_update(EsPolicy *policy, const EsGrowthState *state,
                                   EsPpoReport *report);

// Hands rows of an actor (es_policy_create_actor), whose episodes have come to an end in `state`,
// to the policy that learns from them: its environments 0 .. n_envs become the learner's first_env
// and following. Between es_policy_begin and the update, in which `state` is then NULL. Episodes
// may be shorter and hosts may have fewer slots than the learner's rows have room for. `baseline`
// [n_envs] is taken off the reward of each environment's last row; NULL: nothing.
EsStatus es_policy_training_collect(EsPolicy *learner, EsPolicy *actor, const EsGrowthState *state,
                                    const double *baseline, int64_t first_env, int64_t n_envs);

// Everything that training needs to go on after an update: weights, moments, normalisers, counters.
// Tensors are called "policy.<name of the network's>", moments "policy.moment1.<...>". INPUT names
// the tensor that is missing, of another shape, or has numbers that training cannot go on with; the
// policy is then as it was.
EsStatus es_policy_training_save(const EsPolicy *policy, const char *path);
EsStatus es_policy_training_load(EsPolicy *policy, const char *path);

// Append the same to a hash; of other policies nothing.
EsStatus es_policy_training_append_state(const EsPolicy *policy, EsStateHash *hash);

// The network as PPO sees it: rollouts of exactly T steps and E environments, whose ids are the
// blueprints and whose last head is the operation. begin copies the rows; outputs of forward are
// valid until the next forward; each step belongs to the forward before it. On CUDA it has a device
// form, too. Borrows the network, which needs a training plan.
EsPpoModel es_policy_training_model(EsPolicyNetwork *network);

ES_EXTERN_C_END

#endif
