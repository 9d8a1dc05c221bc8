// What an episode of proving is about and what it earns. Written once for CPU and CUDA.
#ifndef ES_PROOF_PROOF_ENV_RULES_H
#define ES_PROOF_PROOF_ENV_RULES_H

#include "base/random_rules.h"
#include "proof/ranking/corruptions.h"
#include "proof/search/proof_rules.h"

#define ES_N_PROOF_REWARDS 6

// Which query a slot takes next.
typedef enum EsQueryOrder {
    ES_QUERY_UNIFORM,    // any, with replacement
    ES_QUERY_ROUND_ROBIN // each slot goes through all of them, from a place of its own; the
                         // negatives of a query follow it
} EsQueryOrder;

// The reward of a finished episode, by type:
//
//     type             proved, true   not, true   proved, false   not, false
//     0                     1             0             0              0
//     1                     1             0            -1              0
//     2                     1             0             0              1
//     3                     1          -0.5          -1.5              1
//     4                     1            -1            -1          1 / n_negatives
//     5                     1            -1            -1          1 / n_negatives, + 0.3 by End
//
// n_negatives are those per positive; 0 counts as 1.
static inline ES_HOST_DEVICE float es_proof_reward(int32_t type, int32_t n_negatives, int is_true,
                                                   int is_proved, int is_by_end) {
    float share = n_negatives > 0 ? 1.0f / (float)n_negatives : 1.0f;
    if (is_proved && is_true) {
        return 1.0f;
    }
    if (is_proved) {
        return type == 3 ? -1.5f : (type == 0 || type == 2 ? 0.0f : -1.0f);
    }
    if (is_true) {
        return type == 3 ? -0.5f : (type >= 4 ? -1.0f : 0.0f);
    }
    if (type >= 4) {
        return share + (type == 5 && is_by_end ? 0.3f : 0.0f);
    }
    return type >= 2 ? 1.0f : 0.0f;
}

// How a state ends an episode; OPEN when it does not.
static inline ES_HOST_DEVICE EsProofOutcome es_proof_state_outcome(const EsKnowledgeGraph *graph,
                                                                   const EsAtom *state,
                                                                   int32_t n_atoms) {
    int32_t special = n_atoms == 1 ? state[0].predicate - graph->n_predicates : 0;
    return special > 0 ? (EsProofOutcome)special : ES_PROOF_OPEN;
}

// What an episode of a slot is about, before a corruption is looked for.
typedef struct EsEpisodePlan {
    int32_t query; // index in the pool
    int is_negative;
    int32_t n_before; // negatives of this slot before this one: they take sides in turn
} EsEpisodePlan;

// A function of its arguments: other slots and threads do not matter.
static inline ES_HOST_DEVICE EsEpisodePlan es_episode_plan(EsQueryOrder order, int32_t n_negatives,
                                                           int32_t n_queries, uint64_t seed,
                                                           uint32_t slot, uint32_t episode) {
    uint32_t period = (uint32_t)n_negatives + 1;
    EsEpisodePlan plan;
    plan.is_negative = episode % period != 0;
    plan.n_before = (int32_t)((episode - episode / period - (episode % period != 0)) & 0x7fffffffu);
    uint32_t n = (uint32_t)n_queries;
    if (order == ES_QUERY_UNIFORM) {
        EsRandom4 random = es_random_draw(seed, slot, ES_PURPOSE_DATA_ORDER, episode, 0);
        plan.query = (int32_t)es_random_below(random.word[0], n);
    } else {
        // multiples of the golden ratio: any number of first slots is spread evenly
        uint32_t place = es_random_below(slot * 0x9E3779B1u, n);
        plan.query = (int32_t)(((uint64_t)place + episode / period) % n);
    }
    return plan;
}

// A policy that takes any successor: a function of the slot, its episode and how far that is.
static inline ES_HOST_DEVICE int32_t es_proof_random_action(uint64_t seed, uint32_t slot,
                                                            uint32_t episode, int32_t depth,
                                                            int32_t n_successors) {
    EsRandom4 random = es_random_draw(seed, slot, ES_PURPOSE_ACTION, episode, (uint32_t)depth >> 2);
    return (int32_t)es_random_below(random.word[depth & 3], (uint32_t)n_successors);
}

#endif
