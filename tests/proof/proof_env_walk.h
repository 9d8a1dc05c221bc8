// Random walks through an environment, and what every observation must hold.
#ifndef ES_TESTS_PROOF_PROOF_ENV_WALK_H
#define ES_TESTS_PROOF_PROOF_ENV_WALK_H

#include "es_test.h"
#include "proof/agent/proof_env.h"

// One step of random actions for up to 64 environments.
static inline void walk_step(EsProofEnv *env) {
    int32_t actions[64];
    es_proof_env_draw_actions(env, actions);
    REQUIRE_OK(es_proof_env_step(env, actions));
}

static inline uint64_t mix_trace(uint64_t trace, uint64_t value) {
    trace = (trace ^ value) * 0x9E3779B97F4A7C15u;
    return trace ^ (trace >> 29);
}

static inline uint64_t trace_atoms(uint64_t trace, EsAtomSpan span) {
    return mix_trace(mix_trace(trace, es_proof_hash(span.atoms, span.count)), (uint64_t)span.count);
}

// Everything an environment shows after a step, mixed into its trace.
static inline uint64_t trace_env(uint64_t trace, EsProofEnv *env, int32_t i) {
    EsProofChoices choices;
    const EsProofResult *result = es_proof_env_result(env);
    REQUIRE_OK(es_proof_env_choices(env, &choices));
    trace = trace_atoms(trace, choices.states[i]);
    for (int32_t k = choices.first[i]; k < choices.first[i + 1]; k++) {
        trace = trace_atoms(trace, choices.successors[k]);
    }
    uint32_t reward_bits;
    memcpy(&reward_bits, &result->reward[i], sizeof reward_bits);
    const unsigned values[] = {reward_bits,
                               result->is_done[i],
                               result->is_success[i],
                               result->is_truncated[i],
                               result->is_by_end[i],
                               result->label[i],
                               (unsigned)result->depth[i],
                               es_proof_env_episode(env, i).episode};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        trace = mix_trace(trace, values[v]);
    }
    trace = trace_atoms(trace, (EsAtomSpan){&result->query[i], 1});
    return result->reached[i].count > 0 ? trace_atoms(trace, result->reached[i]) : trace;
}

#endif
