// Policies behind one interface; the kinds that need no network.
#include "control/policy/policy_internal.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"

EsActionKey es_policy_key(const EsPolicy *policy, int64_t e, int32_t step) {
    EsActionKey key = {policy->context.seed, (uint32_t)(policy->first_episode + e), (uint32_t)step};
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
           : strncmp(text, SCRIPT_PREFIX, strlen(SCRIPT_PREFIX)) == 0 ? ES_POLICY_SCRIPT
                                                                      : ES_POLICY_LEARNED;
}

static EsStatus allocate(const EsPolicyContext *context, EsPolicyKind kind, EsPolicy **policy) {
    ES_ASSERT(context->n_envs >= 1);
    ES_TRY(es_allocate(sizeof **policy, (void **)policy));
    (*policy)->kind = kind;
    (*policy)->context = *context;
    return ES_STATUS_OK;
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

static EsStatus open_heuristic(EsPolicy *policy) {
    policy->rules = es_heuristic_settings(policy->context.settings);
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
                       "script:FILE, or the path of a policy file; --policy ppo trains one",
                       text);
    }
    ES_TRY(allocate(context, kind, policy));
    switch (kind) {
    case ES_POLICY_SCRIPT:
        ES_TRY_GOTO(open_script(*policy, text + strlen(SCRIPT_PREFIX)));
        break;
    case ES_POLICY_HEURISTIC:
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

EsStatus es_policy_create(const EsPolicySpec *spec, const EsPpoSettings *ppo,
                          const EsPolicyContext *context, int64_t n_steps, EsPolicy **policy) {
    EsStatus status = ES_STATUS_OK;
    *policy = NULL;
    if (n_steps < 1 || spec->n_slots != context->settings->n_slots) {
        return ES_FAIL(ARGUMENT,
                       "policy: %lld steps for %d slots, the host has %d; at least 1 step",
                       (long long)n_steps, spec->n_slots, context->settings->n_slots);
    }
    ES_TRY(allocate(context, ES_POLICY_LEARNED, policy));
    ES_TRY_GOTO(es_learned_create(*policy, spec, ppo, n_steps));
    ES_TRY_GOTO(es_policy_begin(*policy, 0));
done:
    if (status != ES_STATUS_OK) {
        es_policy_destroy(*policy);
        *policy = NULL;
    }
    return status;
}

void es_policy_destroy(EsPolicy *policy) {
    if (policy == NULL) {
        return;
    }
    es_decision_destroy(policy->decision);
    es_learned_destroy(&policy->learned);
    es_schedule_destroy(&policy->schedule);
    es_release(policy->memory);
    es_release(policy);
}

// --- looking at it ---

EsPolicyKind es_policy_kind(const EsPolicy *policy) { return policy->kind; }

const char *es_policy_hash(const EsPolicy *policy) { return policy->hash; }

const EsThought *es_policy_thoughts(const EsPolicy *policy) { return policy->learned.thoughts; }

EsPolicyNetwork *es_policy_network(const EsPolicy *policy) { return policy->learned.network; }

EsRecurrentHealth es_policy_health(const EsPolicy *policy) {
    EsRecurrentHealth none = {0};
    return policy->kind == ES_POLICY_LEARNED ? es_policy_network_health(policy->learned.network)
                                             : none;
}

void es_policy_set_greedy(EsPolicy *policy, int is_greedy) { policy->is_greedy = is_greedy; }

// --- deciding ---

EsStatus es_policy_begin(EsPolicy *policy, int64_t first_episode) {
    policy->first_episode = first_episode;
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
