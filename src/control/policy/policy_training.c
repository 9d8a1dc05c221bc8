// The learned policy in training: rewards into rows, the update at the end of a round.
#include "control/policy/policy_internal.h"
#include "control/rules/decision_rules.h"

EsStatus es_policy_record(EsPolicy *policy, const EsGrowthState *state, const float *rewards,
                          float rollback_penalty) {
    EsLearned *learned = &policy->learned;
    EsRollout *rollout = learned->rollout;
    ES_ASSERT(rollout != NULL);
    if (learned->is_elsewhere) {
        return ES_STATUS_OK;
    }
    ES_ASSERT(learned->is_decided);
    EsRolloutView view = es_rollout_view(rollout);
    for (int64_t e = 0; e < state->n_envs; e++) {
        es_decision_record(&view, learned->t, e, state, policy->context.settings->episode_steps,
                           rewards[e], rollback_penalty);
    }
    learned->t++;
    learned->is_decided = 0;
    return ES_STATUS_OK;
}

// Values of the states after the last step, for rows that may go on there.
static EsStatus bootstrap(EsPolicy *policy, const EsGrowthState *state) {
    EsLearned *learned = &policy->learned;
    EsRollout *rollout = learned->rollout;
    EsOutputs outputs;
    // peeked at, not counted: the observation of this state is no row
    float *raw = learned->normalised;
    es_learned_observe(policy, state, raw, learned->normalised, learned->blueprints);
    ES_TRY(es_policy_network_act(learned->network, learned->normalised, learned->blueprints, 1,
                                 &outputs));
    for (int64_t e = 0; e < state->n_envs; e++) {
        int64_t row = es_rollout_row(rollout, learned->t - 1, e);
        if (rollout->is_valid[row]) {
            rollout->bootstrap[row] = outputs.value[e];
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_policy_update(EsPolicy *policy, const EsGrowthState *state, EsPpoReport *report) {
    EsLearned *learned = &policy->learned;
    ES_ASSERT(learned->rollout != NULL && learned->t > 0 && !learned->is_decided);
    EsTrainee trainee = es_policy_network_trainee(learned->network);
    ES_TRY(bootstrap(policy, state));
    ES_TRY(es_ppo_update(learned->ppo, learned->rollout, &trainee, report));
    es_feature_normaliser_merge(&learned->features, learned->rollout->n_rows, learned->raw,
                                learned->rollout->is_valid);
    return ES_STATUS_OK;
}

EsStatus es_policy_save(const EsPolicy *policy, const char *path) {
    const EsLearned *learned = &policy->learned;
    ES_ASSERT(policy->kind == ES_POLICY_LEARNED);
    EsPolicyFacts facts = {.spec = *es_policy_network_spec(learned->network),
                           .observation_version = ES_OBSERVATION_VERSION,
                           .settings = *policy->context.settings};
    for (int head = 0; head < ES_N_HEADS; head++) {
        facts.floor[head] = learned->floor[head];
    }
    return es_policy_file_save(path, &facts, learned->network, &learned->features);
}
