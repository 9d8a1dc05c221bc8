// Policies behind one interface: wait, random, heuristic, script, and the learned kind, which
// observes, normalises, runs its network, draws, and keeps the row when it trains.
#include "control/policy/policy_internal.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/range_check.h"
#include "control/policy/policy_network_internal.h"
#include "control/rules/decision_rules.h"
#include "tensor/safetensors.h"

EsActionKey es_policy_key(const EsPolicy *policy, int64_t e, int32_t step) {
    EsActionKey key = {policy->context.seed, (uint32_t)policy->episodes[e], (uint32_t)step};
    return key;
}

EsGrowthEnv es_policy_load(const EsGrowthState *state, int64_t e, EsSeed *seeds) {
    for (int32_t s = 0; s < state->n_slots; s++) {
        seeds[s] = es_seed_load(&state->seed, (size_t)e * (size_t)state->n_slots + (size_t)s);
    }
    return es_growth_env_load(&state->env, (size_t)e);
}

// --- life ---

#define SCRIPT_PREFIX "script:"

EsPolicyKind es_policy_parse_kind(const char *text) {
    return strcmp(text, "wait") == 0                                  ? ES_POLICY_WAIT
           : strcmp(text, "random") == 0                              ? ES_POLICY_RANDOM
           : strcmp(text, "heuristic") == 0                           ? ES_POLICY_HEURISTIC
           : strcmp(text, "eager") == 0                               ? ES_POLICY_EAGER
           : strncmp(text, SCRIPT_PREFIX, strlen(SCRIPT_PREFIX)) == 0 ? ES_POLICY_SCRIPT
                                                                      : ES_POLICY_LEARNED;
}

static EsStatus allocate(const EsPolicyContext *context, EsPolicyKind kind, EsPolicy **policy) {
    ES_ASSERT(context->n_envs >= 1);
    ES_TRY(es_allocate(sizeof **policy, (void **)policy));
    (*policy)->kind = kind;
    (*policy)->context = *context;
    EsStatus status = es_allocate(sizeof *(*policy)->episodes * (size_t)context->n_envs,
                                  (void **)&(*policy)->episodes);
    if (status != ES_STATUS_OK) {
        es_release(*policy);
        *policy = NULL;
    }
    return status;
}

static EsStatus open_script(EsPolicy *policy, const char *path) {
    const EsPolicyContext *context = &policy->context;
    const EsScheduleLimits limits = {.slots = context->slots,
                                     .n_slots = context->settings->n_slots,
                                     .n_envs = context->n_envs,
                                     .n_steps = context->settings->episode_steps,
                                     .blueprints = context->settings->blueprints};
    ES_TRY(es_schedule_load(path, &limits, &policy->schedule));
    return es_sha256_file(path, policy->hash, NULL);
}

// Germinates from the second step on, the largest blueprints first, and takes out seeds that do
// harm beyond the noise of a validation.
static EsHeuristicSettings eager_settings(const EsGrowthSettings *growth) {
    static const int32_t order[] = {ES_BLUEPRINT_ID_CONV_HEAVY, ES_BLUEPRINT_ID_CONV_LIGHT,
                                    ES_BLUEPRINT_ID_BOTTLENECK, ES_BLUEPRINT_ID_DEPTHWISE,
                                    ES_BLUEPRINT_ID_MLP,        ES_BLUEPRINT_ID_MLP_SMALL,
                                    ES_BLUEPRINT_ID_CONV_SMALL, ES_BLUEPRINT_ID_NORM};
    EsHeuristicSettings rules = es_heuristic_settings(growth);
    rules.first_step = 2;
    rules.prune_points = -100;
    rules.ransom_gain = -100;
    rules.fossil_points = -0.25f;
    rules.n_rotation = 0;
    for (size_t i = 0; i < ES_COUNT_OF(order); i++) {
        if (rules.n_rotation < ES_ROTATION_MAX && es_blueprint_is_legal(growth, order[i])) {
            rules.rotation[rules.n_rotation++] = order[i];
        }
    }
    return rules;
}

static EsStatus open_heuristic(EsPolicy *policy) {
    const EsGrowthSettings *settings = policy->context.settings;
    policy->rules = policy->kind == ES_POLICY_EAGER ? eager_settings(settings)
                                                    : es_heuristic_settings(settings);
    return es_allocate(sizeof *policy->memory * (size_t)policy->context.n_envs,
                       (void **)&policy->memory);
}

EsStatus es_policy_open(const char *text, const EsPolicyContext *context, EsPolicy **policy) {
    EsPolicyKind kind = es_policy_parse_kind(text);
    EsStatus status = ES_STATUS_OK;
    *policy = NULL;
    if (kind == ES_POLICY_LEARNED && access(text, F_OK) != 0) {
        return ES_FAIL(ARGUMENT,
                       "there is no policy \"%s\": a policy is wait, random, heuristic, "
                       "eager, script:FILE, or the path of a policy file; --policy ppo trains one",
                       text);
    }
    ES_TRY(allocate(context, kind, policy));
    switch (kind) {
    case ES_POLICY_SCRIPT:
        ES_TRY_GOTO(open_script(*policy, text + strlen(SCRIPT_PREFIX)));
        break;
    case ES_POLICY_HEURISTIC:
    case ES_POLICY_EAGER:
        ES_TRY_GOTO(open_heuristic(*policy));
        break;
    case ES_POLICY_LEARNED:
        ES_TRY_GOTO(es_learned_open(*policy, text));
        break;
    default:
        break;
    }
    ES_TRY_GOTO(es_policy_begin(*policy, 0));
done:
    if (status != ES_STATUS_OK) {
        es_policy_destroy(*policy);
        *policy = NULL;
    }
    return status;
}

// Ends what was begun where the status is a failure.
static EsStatus conclude(EsStatus status, EsPolicy **policy) {
    if (status == ES_STATUS_OK) {
        status = es_policy_begin(*policy, 0);
    }
    if (status != ES_STATUS_OK) {
        es_policy_destroy(*policy);
        *policy = NULL;
    }
    return status;
}

EsStatus es_policy_create(const EsPolicySpec *spec, const EsPpoSettings *ppo,
                          const EsPolicyContext *context, int64_t n_steps, EsPolicy **policy) {
    *policy = NULL;
    if (n_steps < 1 || spec->n_slots != context->settings->n_slots) {
        return ES_FAIL(ARGUMENT,
                       "policy: %lld steps for %d slots, the host has %d; at least 1 step",
                       (long long)n_steps, spec->n_slots, context->settings->n_slots);
    }
    ES_TRY(allocate(context, ES_POLICY_LEARNED, policy));
    return conclude(es_learned_create(*policy, spec, ppo, n_steps), policy);
}

EsStatus es_policy_create_actor(const EsPolicy *learner, const EsPolicyContext *context,
                                int64_t n_steps, EsPolicy **actor) {
    *actor = NULL;
    ES_ASSERT(learner->learned.ppo != NULL && n_steps >= 1);
    if (!es_policy_network_spec(learner->learned.network)->is_set) {
        return ES_FAIL(ARGUMENT, "policy: version 1 is for the slots of one host; [policy] version "
                                 "2 acts on others");
    }
    ES_TRY(allocate(context, ES_POLICY_LEARNED, actor));
    return conclude(es_learned_create_actor(*actor, learner, n_steps), actor);
}

void es_policy_destroy(EsPolicy *policy) {
    if (policy == NULL) {
        return;
    }
    ES_ASSERT(policy->n_decisions == 0);
    es_learned_destroy(&policy->learned);
    es_schedule_destroy(&policy->schedule);
    es_release(policy->memory);
    es_release(policy->episodes);
    es_release(policy);
}

// --- looking at it ---

EsPolicyKind es_policy_kind(const EsPolicy *policy) { return policy->kind; }

const char *es_policy_hash(const EsPolicy *policy) { return policy->hash; }

const EsActionStats *es_policy_action_stats(const EsPolicy *policy) {
    return policy->learned.action_stats;
}

int es_policy_head_probabilities(const EsPolicy *policy, int64_t e, const EsActionMasks *masks,
                                 const EsAction *action, int32_t head, double *p) {
    const EsLearned *learned = &policy->learned;
    int32_t n_slots = policy->context.settings->n_slots;
    int32_t op = es_action_value(action, ES_HEAD_OP), slot = es_action_value(action, ES_HEAD_SLOT);
    if (learned->logits == NULL || !es_head_matters(op, head) || slot < 0 || slot >= n_slots) {
        return 0;
    }
    float scores[ES_SLOTS_MAX];
    int is_table = es_policy_network_spec(learned->network)->is_set;
    const float *row = learned->logits + e * es_learned_n_logits(learned);
    const float *logits = is_table ? es_choice_table_logits(row, n_slots, head, op, slot, scores)
                                   : row + es_head_first_logit(head, n_slots);
    uint32_t mask =
        head == ES_HEAD_OP ? masks->head[ES_HEAD_OP] : es_masks_next(masks, action, op, head);
    es_choice_probabilities(logits, es_head_size(head, n_slots), mask, learned->floor[head], p);
    return 1;
}

EsPolicyNetwork *es_policy_network(const EsPolicy *policy) { return policy->learned.network; }

EsRecurrentHealth es_policy_health(const EsPolicy *policy) {
    EsRecurrentHealth none = {0};
    return policy->kind == ES_POLICY_LEARNED ? es_policy_inference_health(policy->learned.network)
                                             : none;
}

void es_policy_set_greedy(EsPolicy *policy, int is_greedy) { policy->is_greedy = is_greedy; }

// --- deciding ---

int64_t es_policy_episode_period(const EsPolicyContext *context) {
    return context->n_envs / ES_MAX(context->n_variants, 1);
}

EsStatus es_policy_begin(EsPolicy *policy, int64_t first_episode) {
    int64_t period = es_policy_episode_period(&policy->context);
    for (int64_t e = 0; e < policy->context.n_envs; e++) {
        policy->episodes[e] = (int32_t)(first_episode + e % period);
    }
    for (int64_t e = 0; policy->memory != NULL && e < policy->context.n_envs; e++) {
        policy->memory[e] = es_heuristic_start();
    }
    return policy->kind == ES_POLICY_LEARNED ? es_learned_begin(policy) : ES_STATUS_OK;
}

static void decide_heuristic(EsPolicy *policy, const EsGrowthState *state,
                             const EsActionMasks *masks, EsAction *actions) {
    EsSeed seeds[ES_SLOTS_MAX];
    for (int64_t e = 0; e < policy->context.n_envs; e++) {
        EsGrowthEnv env = es_policy_load(state, e, seeds);
        if (policy->kind == ES_POLICY_EAGER) { // does not wait for the host
            env.is_stabilised = 1;
            env.plateau_steps = policy->rules.plateau_steps;
        }
        actions[e] = es_heuristic_decide(&policy->rules, policy->context.settings, &env, seeds,
                                         &masks[e], &policy->memory[e]);
    }
}

EsStatus es_policy_decide(EsPolicy *policy, const EsGrowthState *state, const EsActionMasks *masks,
                          EsAction *actions) {
    ES_ASSERT(state->n_envs == policy->context.n_envs);
    ES_ASSERT(state->n_slots == policy->context.settings->n_slots);
    switch (policy->kind) {
    case ES_POLICY_RANDOM:
        for (int64_t e = 0; e < state->n_envs; e++) {
            EsActionKey key = es_policy_key(policy, e, state->env.step[e]);
            actions[e] = es_uniform_action(&key, &masks[e]);
        }
        return ES_STATUS_OK;
    case ES_POLICY_HEURISTIC:
    case ES_POLICY_EAGER:
        decide_heuristic(policy, state, masks, actions);
        return ES_STATUS_OK;
    case ES_POLICY_SCRIPT:
        es_schedule_actions(&policy->schedule, state->env.step[0], state->n_envs, actions);
        return ES_STATUS_OK;
    case ES_POLICY_LEARNED:
        return es_learned_decide(policy, state, masks, actions);
    default:
        for (int64_t e = 0; e < state->n_envs; e++) {
            actions[e] = es_action_wait();
        }
        return ES_STATUS_OK;
    }
}

// --- the learned kind ---

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
static EsStatus allocate_step(EsPolicy *policy, const EsPolicySpec *spec, int64_t n_rows) {
    EsLearned *learned = &policy->learned;
    size_t n_envs = (size_t)policy->context.n_envs;
    size_t n_slots = (size_t)policy->context.settings->n_slots;
    int n_features = es_policy_spec_observed(spec);
    size_t row_bytes = sizeof(float) * n_envs * (size_t)n_features;
    if (!spec->is_set) {
        ES_TRY(es_feature_normaliser_create(n_features, &learned->features));
    }
    ES_TRY(es_allocate(row_bytes * (size_t)n_rows, (void **)&learned->raw));
    ES_TRY(es_allocate(row_bytes, (void **)&learned->normalised));
    ES_TRY(es_allocate(sizeof(int32_t) * n_envs * n_slots, (void **)&learned->blueprints));
    ES_TRY(es_allocate(n_envs, (void **)&learned->is_reset));
    return es_allocate(sizeof *learned->action_stats * n_envs, (void **)&learned->action_stats);
}

EsStatus es_learned_open(EsPolicy *policy, const char *path) {
    const EsPolicyContext *context = &policy->context;
    EsLearned *learned = &policy->learned;
    EsPolicyMetadata metadata;
    ES_TRY(es_policy_file_metadata(path, &metadata));
    ES_TRY(es_policy_metadata_check(&metadata, context->settings, path));
    ES_TRY(es_sha256_file(path, policy->hash, NULL));
    for (int head = 0; head < ES_N_HEADS; head++) {
        learned->floor[head] = metadata.floor[head];
    }
    learned->ranges = metadata.ranges;
    learned->trained = metadata.trained;
    if (metadata.spec.is_set) { // the same weights for any number of slots
        metadata.spec.n_slots = context->settings->n_slots;
    }
    ES_TRY(allocate_step(policy, &metadata.spec, 1));
    ES_TRY(es_policy_network_create(context->device, &metadata.spec, context->n_envs, 0,
                                    &learned->network));
    return es_policy_file_load(path, learned->network, &learned->features);
}

static EsRolloutShape rollout_shape(const EsPolicySpec *spec, int64_t n_envs, int64_t n_steps) {
    return (EsRolloutShape){.n_steps = n_steps,
                            .n_envs = n_envs,
                            .n_features = es_policy_spec_observed(spec),
                            .n_ids = spec->n_slots,
                            .n_targets = spec->n_slots,
                            .policy = es_policy_spec_shape(spec)};
}

EsStatus es_learned_create(EsPolicy *policy, const EsPolicySpec *spec, const EsPpoSettings *ppo,
                           int64_t n_steps) {
    const EsPolicyContext *context = &policy->context;
    EsLearned *learned = &policy->learned;
    const EsRolloutShape shape = rollout_shape(spec, context->n_envs, n_steps);
    for (int head = 0; head < ES_N_HEADS; head++) {
        learned->floor[head] = ppo->head[head].floor;
    }
    learned->ranges = es_policy_ranges_default();
    es_policy_ranges_include(&learned->ranges, context->settings);
    es_policy_ranges_include(&learned->trained, context->settings);
    ES_TRY(allocate_step(policy, spec, n_steps));
    ES_TRY(es_rollout_create(&shape, &learned->rollout));
    ES_TRY(es_ppo_create(ppo, &shape, &learned->ppo));
    ES_TRY(es_policy_network_create_shared(context->device, spec, context->n_envs, n_steps,
                                           context->ranks, &learned->network));
    return es_policy_network_initialise(learned->network, context->seed);
}

// The parameters of version 2 are the same for any number of slots, and so is their order.
EsStatus es_learned_create_actor(EsPolicy *actor, const EsPolicy *learner, int64_t n_steps) {
    const EsPolicyContext *context = &actor->context;
    EsLearned *learned = &actor->learned;
    EsPolicyNetwork *from = learner->learned.network;
    EsPolicySpec spec = *es_policy_network_spec(from);
    spec.n_slots = context->settings->n_slots;
    const EsRolloutShape shape = rollout_shape(&spec, context->n_envs, n_steps);
    memcpy(learned->floor, learner->learned.floor, sizeof learned->floor);
    ES_TRY(allocate_step(actor, &spec, n_steps));
    ES_TRY(es_rollout_create(&shape, &learned->rollout));
    ES_TRY(es_policy_network_create(context->device, &spec, context->n_envs, 0, &learned->network));
    const EsTensor *weights = &es_policy_network_store(from)->parameters;
    const EsTensor *own = &es_policy_network_store(learned->network)->parameters;
    ES_ASSERT(es_tensor_bytes(weights) == es_tensor_bytes(own));
    EsStream *stream = es_policy_network_stream(learned->network);
    ES_TRY(
        es_stream_copy(stream, own->data, weights->data, es_tensor_bytes(own), ES_COPY_ON_DEVICE));
    return es_stream_synchronize(stream);
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
    es_release(learned->action_stats);
}

EsStatus es_learned_begin(EsPolicy *policy) {
    EsLearned *learned = &policy->learned;
    learned->t = 0;
    learned->is_decided = 0;
    learned->is_elsewhere = 0;
    learned->logits = NULL;
    if (learned->rollout != NULL) {
        es_rollout_reset(learned->rollout);
    }
    return es_policy_inference_reset(learned->network, NULL);
}

// --- a decision ---

int64_t es_learned_n_logits(const EsLearned *learned) {
    const EsPolicySpec *spec = es_policy_network_spec(learned->network);
    return spec->is_set ? es_choice_table_size(spec->n_slots)
                        : es_head_first_logit(ES_N_HEADS, spec->n_slots);
}

double es_learned_value_scale(const EsLearned *learned) {
    return learned->ppo != NULL ? es_value_scale(&es_ppo_state(learned->ppo)->values) : 1.0;
}

void es_learned_observe(const EsPolicy *policy, const EsGrowthState *state, float *raw,
                        float *normalised, int32_t *blueprints) {
    EsSeed seeds[ES_SLOTS_MAX];
    const EsPolicySpec *spec = es_policy_network_spec(policy->learned.network);
    int64_t n_features = es_policy_spec_observed(spec);
    for (int64_t e = 0; e < state->n_envs; e++) {
        EsGrowthEnv env = es_policy_load(state, e, seeds);
        (spec->is_set ? es_set_observe : es_env_observe)(policy->context.settings, &env, seeds,
                                                         raw + e * n_features,
                                                         blueprints + e * state->n_slots);
    }
    if (!spec->is_set) {
        es_feature_normaliser_apply(&policy->learned.features, state->n_envs, raw, normalised);
    } else if (raw != normalised) { // scaled as they are
        memcpy(normalised, raw, sizeof *raw * (size_t)(state->n_envs * n_features));
    }
}

// A host that was rolled back is not the one that the recurrent state remembers.
static EsStatus forget_rolled_back(EsLearned *learned, const EsGrowthState *state) {
    int n_reset = 0;
    for (int64_t e = 0; e < state->n_envs; e++) {
        learned->is_reset[e] = state->env.refusal[e] == ES_REFUSAL_ROLLED_BACK;
        n_reset += learned->is_reset[e];
    }
    return n_reset > 0 ? es_policy_inference_reset(learned->network, learned->is_reset)
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
    int is_table = es_policy_network_spec(learned->network)->is_set;
    int64_t n_logits = es_learned_n_logits(learned);
    double scale = es_learned_value_scale(learned);
    for (int64_t e = 0; e < state->n_envs; e++) {
        EsActionKey key = es_policy_key(policy, e, state->env.step[e]);
        EsLogits logits = {outputs->logits + e * n_logits, state->n_slots, is_table};
        EsSampled sampled =
            es_policy_sample_from(&logits, &masks[e], learned->floor, &key, policy->is_greedy);
        actions[e] = sampled.action;
        learned->action_stats[e] = (EsActionStats){
            .confidence = sampled.confidence,
            .entropy = sampled.entropy,
            .value = (float)((double)outputs->value[e] * scale),
            .is_forced = masks[e].head[ES_HEAD_OP] == 1u << ES_GROWTH_OP_WAIT,
        };
        if (learned->rollout != NULL) {
            int64_t row = es_rollout_row(learned->rollout, learned->t, e);
            es_decision_keep_choice(&rollout, row, &masks[e], is_table, &sampled,
                                    outputs->value[e]);
            es_decision_keep_targets(&rollout, row, state, e);
        }
    }
}

EsStatus es_learned_decide(EsPolicy *policy, const EsGrowthState *state, const EsActionMasks *masks,
                           EsAction *actions) {
    EsLearned *learned = &policy->learned;
    EsRollout *rollout = learned->rollout;
    int64_t n_features = es_policy_spec_observed(es_policy_network_spec(learned->network));
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
    learned->logits = NULL;
    ES_TRY(es_policy_inference_act(learned->network, normalised, blueprints, 0, &outputs));
    learned->logits = outputs.logits;
    sample_all(policy, state, masks, &outputs, actions);
    return ES_STATUS_OK;
}

void es_policy_include_host(EsPolicy *policy, const EsGrowthSettings *settings) {
    es_policy_ranges_include(&policy->learned.ranges, settings);
    es_policy_ranges_include(&policy->learned.trained, settings);
}

int es_policy_describe_outside(const EsPolicy *policy, const EsGrowthSettings *settings,
                               char text[ES_POLICY_OUTSIDE_BYTES]) {
    int is_set = policy->kind == ES_POLICY_LEARNED &&
                 es_policy_network_spec(policy->learned.network)->is_set;
    text[0] = '\0';
    return is_set && es_policy_ranges_describe_outside(&policy->learned.trained, settings, text);
}

EsStatus es_policy_save(const EsPolicy *policy, const char *path) {
    const EsLearned *learned = &policy->learned;
    ES_ASSERT(policy->kind == ES_POLICY_LEARNED);
    const EsPolicySpec *spec = es_policy_network_spec(learned->network);
    EsPolicyMetadata metadata = {.spec = *spec,
                                 .observation_version = es_policy_spec_version(spec),
                                 .settings = *policy->context.settings,
                                 .ranges = learned->ranges,
                                 .trained = learned->trained};
    for (int head = 0; head < ES_N_HEADS; head++) {
        metadata.floor[head] = learned->floor[head];
    }
    return es_policy_file_save(path, &metadata, learned->network, &learned->features);
}

// --- in the midst of an episode ---

// The memory of a policy is tensors with a row for each environment, in a file or moved to a policy
// of other environments. Draws follow from episode and step, so that nothing else is needed to
// decide alike.

#define EPISODE_FORMAT    "esper.policy_episode.1"
#define N_EPISODE_TENSORS 3

#define HEURISTIC_WORDS (sizeof(EsHeuristic) / sizeof(int32_t))
_Static_assert(HEURISTIC_WORDS * sizeof(int32_t) == sizeof(EsHeuristic), "all of it is saved");

// Episodes, and the memory of a heuristic or the recurrent state of a network, over the policy's
// own memory. Returns their number.
static int list_tensors(const EsPolicy *policy, EsNamedTensor tensors[N_EPISODE_TENSORS]) {
    EsDevice *device = policy->context.device;
    int64_t n_envs = policy->context.n_envs;
    int n = 0;
    tensors[n++] = (EsNamedTensor){
        "episode", es_tensor_view(policy->episodes, ES_DTYPE_I32, device, 1, &n_envs)};
    if (policy->memory != NULL) {
        tensors[n++] = (EsNamedTensor){
            "heuristic", es_tensor_view(policy->memory, ES_DTYPE_I32, device, 2,
                                        (int64_t[]){n_envs, (int64_t)HEURISTIC_WORDS})};
    }
    if (policy->learned.network != NULL) {
        const EsPolicyActing *acting = &policy->learned.network->acting;
        const int64_t dims[] = {n_envs, policy->learned.network->spec.n_hidden};
        tensors[n++] = (EsNamedTensor){
            "h", es_tensor_view(acting->h.tensor.data, ES_DTYPE_F32, device, 2, dims)};
        tensors[n++] = (EsNamedTensor){
            "c", es_tensor_view(acting->c.tensor.data, ES_DTYPE_F32, device, 2, dims)};
    }
    return n;
}

static EsStatus check_kind(const EsPolicy *policy) {
    const EsLearned *learned = &policy->learned;
    ES_ASSERT(learned->rollout == NULL);
    if (learned->network != NULL &&
        es_device_info(learned->network->device)->kind != ES_DEVICE_CPU) {
        return ES_FAIL(UNSUPPORTED, "the memory of a policy is saved and moved on the CPU alone");
    }
    return ES_STATUS_OK;
}

EsStatus es_policy_save_episode(const EsPolicy *policy, const char *path) {
    EsNamedTensor tensors[N_EPISODE_TENSORS];
    const EsMetadata metadata[] = {{"format", EPISODE_FORMAT}, ES_TENSORS_HASH_ENTRY};
    ES_TRY(check_kind(policy));
    int n = list_tensors(policy, tensors);
    return es_safetensors_save(path, tensors, n, metadata, ES_COUNT_OF(metadata));
}

// Places in the rotation index it; penalties are compared.
static EsStatus check_heuristic(const char *path, const EsTensor *found) {
    const EsHeuristic *memory = found->data;
    for (int64_t e = 0; e < found->dim[0]; e++) {
        const EsFileField field = {path, "heuristic", e * (int64_t)HEURISTIC_WORDS};
        ES_TRY(es_check_integer(field, memory[e].next, 0, ES_ROTATION_MAX - 1));
        ES_TRY(es_check_integer(field, memory[e].last_prune_step, -100, INT32_MAX));
        ES_TRY(es_check_integer(field, memory[e].last_decay_step, -1, INT32_MAX));
        for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
            ES_TRY(es_check_real(field, (double)memory[e].penalty[b], 0.0, 1e6));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_tensor(const char *path, const EsNamedTensor *own, const EsTensor *found) {
    if (found->dtype != own->tensor.dtype || !es_tensor_same_shape(found, &own->tensor)) {
        return ES_FAIL(INPUT, "%s: tensor \"%s\" is not of this policy and its environments", path,
                       own->name);
    }
    if (strcmp(own->name, "heuristic") == 0) {
        return check_heuristic(path, found);
    }
    for (int64_t i = 0; i < es_tensor_count(found); i++) {
        const EsFileField field = {path, own->name, i};
        if (found->dtype == ES_DTYPE_I32) {
            ES_TRY(es_check_integer(field, ((const int32_t *)found->data)[i], 0, INT32_MAX));
        } else {
            ES_TRY(es_check_real(field, (double)((const float *)found->data)[i], -1e6, 1e6));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_file(const char *path, const EsSafetensors *file, const EsNamedTensor *own,
                           int n, EsTensor *found) {
    const char *format = es_safetensors_metadata(file, "format");
    if (format == NULL || strcmp(format, EPISODE_FORMAT) != 0) {
        return ES_FAIL(INPUT, "%s: its format is \"%s\", not \"%s\"", path,
                       format != NULL ? format : "", EPISODE_FORMAT);
    }
    for (int i = 0; i < n; i++) {
        ES_TRY(es_safetensors_find(file, own[i].name, &found[i]));
        ES_TRY(check_tensor(path, &own[i], &found[i]));
    }
    return ES_STATUS_OK;
}

EsStatus es_policy_load_episode(EsPolicy *policy, const char *path) {
    EsNamedTensor own[N_EPISODE_TENSORS];
    EsTensor found[N_EPISODE_TENSORS];
    EsSafetensors *file = NULL;
    ES_TRY(check_kind(policy));
    int n = list_tensors(policy, own);
    ES_TRY(es_safetensors_open(path, &file));
    EsStatus status = check_file(path, file, own, n, found);
    for (int i = 0; status == ES_STATUS_OK && i < n; i++) {
        memcpy(own[i].tensor.data, found[i].data, es_tensor_bytes(&own[i].tensor));
    }
    es_safetensors_close(file);
    return status;
}

EsStatus es_policy_take_envs(EsPolicy *policy, const EsPolicy *from, const int64_t *envs) {
    EsNamedTensor own[N_EPISODE_TENSORS], theirs[N_EPISODE_TENSORS];
    ES_TRY(check_kind(policy));
    ES_ASSERT(policy->kind == from->kind);
    int n = list_tensors(policy, own);
    list_tensors(from, theirs);
    for (int i = 0; i < n; i++) {
        size_t row_bytes = es_tensor_bytes(&own[i].tensor) / (size_t)policy->context.n_envs;
        for (int64_t e = 0; e < policy->context.n_envs; e++) {
            memcpy((unsigned char *)own[i].tensor.data + (size_t)e * row_bytes,
                   (const unsigned char *)theirs[i].tensor.data + (size_t)envs[e] * row_bytes,
                   row_bytes);
        }
    }
    return ES_STATUS_OK;
}
