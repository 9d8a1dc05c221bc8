// The learned policy: observe, normalise, run the network, draw, and keep the row when it trains.
#include "base/memory.h"
#include "control/policy/policy_internal.h"
#include "control/rules/decision_rules.h"

// --- settings ---

EsPpoSettings es_policy_ppo_defaults(void) {
    static const struct {
        int head;
        EsPpoHead numbers; // floor, entropy weight, entropy floor, its penalty
    } heads[] = {
        {ES_HEAD_SLOT, {0.05f, 1.0f, 0.15f, 0.1f}},
        {ES_HEAD_BLUEPRINT, {0.12f, 1.3f, 0.20f, 0.3f}},
        {ES_HEAD_STYLE, {0.08f, 1.2f, 0.15f, 0.1f}},
        {ES_HEAD_TEMPO, {0.12f, 1.3f, 0.20f, 0.3f}},
        {ES_HEAD_ALPHA_TARGET, {0.08f, 1.2f, 0.10f, 0.1f}},
        {ES_HEAD_ALPHA_SPEED, {0.06f, 1.2f, 0.10f, 0.1f}},
        {ES_HEAD_ALPHA_CURVE, {0.06f, 1.2f, 0.10f, 0.1f}},
        {ES_HEAD_OP, {0.15f, 1.0f, 0.30f, 0.3f}},
    };
    EsPpoSettings settings = es_ppo_defaults();
    for (size_t i = 0; i < ES_COUNT_OF(heads); i++) {
        settings.head[heads[i].head] = heads[i].numbers;
    }
    return settings;
}

// --- life ---

// Room for one step of all environments, and for the observations of n_rows steps.
static EsStatus allocate_step(EsPolicy *policy, int64_t n_rows) {
    EsLearned *learned = &policy->learned;
    size_t n_envs = (size_t)policy->context.n_envs;
    size_t n_slots = (size_t)policy->context.settings->n_slots;
    int n_features = es_observation_size(policy->context.settings->n_slots);
    size_t row_bytes = sizeof(float) * n_envs * (size_t)n_features;
    ES_TRY(es_feature_normaliser_create(n_features, &learned->features));
    ES_TRY(es_allocate(row_bytes * (size_t)n_rows, (void **)&learned->raw));
    ES_TRY(es_allocate(row_bytes, (void **)&learned->normalised));
    ES_TRY(es_allocate(sizeof(int32_t) * n_envs * n_slots, (void **)&learned->blueprints));
    ES_TRY(es_allocate(n_envs, (void **)&learned->is_reset));
    return es_allocate(sizeof *learned->thoughts * n_envs, (void **)&learned->thoughts);
}

EsStatus es_learned_open(EsPolicy *policy, const char *path) {
    const EsPolicyContext *context = &policy->context;
    EsLearned *learned = &policy->learned;
    EsPolicyFacts facts;
    ES_TRY(es_policy_file_facts(path, &facts));
    ES_TRY(es_policy_facts_check(&facts, context->settings, path));
    ES_TRY(es_sha256_file(path, policy->hash, NULL));
    for (int head = 0; head < ES_N_HEADS; head++) {
        learned->floor[head] = facts.floor[head];
    }
    ES_TRY(allocate_step(policy, 1));
    ES_TRY(es_policy_network_create(context->device, &facts.spec, context->n_envs, 0,
                                    &learned->network));
    return es_policy_file_load(path, learned->network, &learned->features);
}

EsStatus es_learned_create(EsPolicy *policy, const EsPolicySpec *spec, const EsPpoSettings *ppo,
                           int64_t n_steps) {
    const EsPolicyContext *context = &policy->context;
    EsLearned *learned = &policy->learned;
    const EsRolloutShape shape = {.n_steps = n_steps,
                                  .n_envs = context->n_envs,
                                  .n_features = es_observation_size(spec->n_slots),
                                  .n_ids = spec->n_slots,
                                  .n_targets = spec->n_slots,
                                  .policy = es_policy_spec_shape(spec)};
    for (int head = 0; head < ES_N_HEADS; head++) {
        learned->floor[head] = ppo->head[head].floor;
    }
    ES_TRY(allocate_step(policy, n_steps));
    ES_TRY(es_rollout_create(&shape, &learned->rollout));
    ES_TRY(es_ppo_create(ppo, &shape, &learned->ppo));
    ES_TRY(es_policy_network_create(context->device, spec, context->n_envs, n_steps,
                                    &learned->network));
    return es_policy_network_initialise(learned->network, context->seed);
}

void es_learned_destroy(EsLearned *learned) {
    es_ppo_destroy(learned->ppo);
    es_rollout_destroy(learned->rollout);
    es_policy_network_destroy(learned->network);
    es_feature_normaliser_destroy(&learned->features);
    es_release(learned->raw);
    es_release(learned->normalised);
    es_release(learned->blueprints);
    es_release(learned->is_reset);
    es_release(learned->thoughts);
}

EsStatus es_learned_begin(EsPolicy *policy) {
    EsLearned *learned = &policy->learned;
    learned->t = 0;
    learned->is_decided = 0;
    learned->is_elsewhere = 0;
    if (learned->rollout != NULL) {
        es_rollout_reset(learned->rollout);
    }
    return es_policy_network_reset(learned->network, NULL);
}

// --- a decision ---

double es_learned_value_scale(const EsLearned *learned) {
    return learned->ppo != NULL ? es_value_scale(&es_ppo_state(learned->ppo)->values) : 1.0;
}

void es_learned_observe(const EsPolicy *policy, const EsGrowthState *state, float *raw,
                        float *normalised, int32_t *blueprints) {
    EsSeed seeds[ES_SLOTS_MAX];
    int64_t n_features = es_observation_size(state->n_slots);
    for (int64_t e = 0; e < state->n_envs; e++) {
        EsGrowthEnv env = es_policy_load(state, e, seeds);
        es_env_observe(policy->context.settings, &env, seeds, raw + e * n_features,
                       blueprints + e * state->n_slots);
    }
    es_feature_normaliser_apply(&policy->learned.features, state->n_envs, raw, normalised);
}

// A host that was rolled back is not the one that the recurrent state remembers.
static EsStatus forget_rolled_back(EsLearned *learned, const EsGrowthState *state) {
    int n_reset = 0;
    for (int64_t e = 0; e < state->n_envs; e++) {
        learned->is_reset[e] = state->env.refusal[e] == ES_REFUSAL_ROLLED_BACK;
        n_reset += learned->is_reset[e];
    }
    return n_reset > 0 ? es_policy_network_reset(learned->network, learned->is_reset)
                       : ES_STATUS_OK;
}

// Draw all environments' actions from the network's outputs.
static void sample_all(EsPolicy *policy, const EsGrowthState *state, const EsActionMasks *masks,
                       const EsOutputs *outputs, EsAction *actions) {
    EsLearned *learned = &policy->learned;
    EsRolloutView rollout = {0};
    if (learned->rollout != NULL) {
        rollout = es_rollout_view(learned->rollout);
    }
    int64_t n_logits = es_head_first_logit(ES_N_HEADS, state->n_slots);
    double scale = es_learned_value_scale(learned);
    for (int64_t e = 0; e < state->n_envs; e++) {
        EsActionKey key = es_policy_key(policy, e, state->env.step[e]);
        EsSampled sampled = es_policy_sample(outputs->logits + e * n_logits, state->n_slots,
                                             &masks[e], learned->floor, &key, policy->is_greedy);
        actions[e] = sampled.action;
        learned->thoughts[e] = (EsThought){
            .confidence = sampled.confidence,
            .entropy = sampled.entropy,
            .value = (float)((double)outputs->value[e] * scale),
            .is_forced = masks[e].head[ES_HEAD_OP] == 1u << ES_GROWTH_OP_WAIT,
        };
        if (learned->rollout != NULL) {
            int64_t row = es_rollout_row(learned->rollout, learned->t, e);
            es_decision_keep_choice(&rollout, row, &masks[e], &sampled, outputs->value[e]);
            es_decision_keep_targets(&rollout, row, state, e);
        }
    }
}

EsStatus es_learned_decide(EsPolicy *policy, const EsGrowthState *state, const EsActionMasks *masks,
                           EsAction *actions) {
    EsLearned *learned = &policy->learned;
    EsRollout *rollout = learned->rollout;
    int64_t n_features = es_observation_size(state->n_slots);
    float *raw = learned->raw, *normalised = learned->normalised;
    int32_t *blueprints = learned->blueprints;
    if (rollout != NULL) {
        ES_ASSERT(learned->t < rollout->shape.n_steps && !learned->is_decided);
        int64_t row = es_rollout_row(rollout, learned->t, 0);
        raw += row * n_features;
        normalised = rollout->features + row * n_features;
        blueprints = rollout->ids + row * state->n_slots;
        learned->is_decided = 1;
    }
    EsOutputs outputs;
    ES_TRY(forget_rolled_back(learned, state));
    es_learned_observe(policy, state, raw, normalised, blueprints);
    ES_TRY(es_policy_network_act(learned->network, normalised, blueprints, 0, &outputs));
    sample_all(policy, state, masks, &outputs, actions);
    return ES_STATUS_OK;
}
