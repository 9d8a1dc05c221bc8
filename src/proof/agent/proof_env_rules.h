// Rules of an environment of proofs: which query an episode has, how it ends and what that is
// worth, and the settings of it all. Written once for CPU and CUDA; proof_env.h is the whole.
#ifndef ES_PROOF_PROOF_ENV_RULES_H
#define ES_PROOF_PROOF_ENV_RULES_H

#include "base/random_rules.h"
#include "proof/ranking/corruption_rules.h"
#include "proof/search/proof_rules.h"

#define ES_N_PROOF_REWARDS 6

// The order in which an environment takes queries.
typedef enum EsQueryOrder {
    ES_QUERY_UNIFORM,    // any, with replacement
    ES_QUERY_ROUND_ROBIN // each environment goes through all of them, from a place of its own; the
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

// Outcome of an episode that ends in this state; OPEN when it does not end.
static inline ES_HOST_DEVICE EsProofOutcome es_goals_outcome(const EsKnowledgeGraph *graph,
                                                             const EsAtom *state, int32_t n_atoms) {
    int32_t special = n_atoms == 1 ? state[0].predicate - graph->n_predicates : 0;
    return special > 0 ? (EsProofOutcome)special : ES_PROOF_OPEN;
}

// The query of an episode, before a corruption is looked for.
typedef struct EsEpisodePlan {
    int32_t query; // index in the pool
    int is_negative;
    int32_t n_before; // negatives of this environment before this one: they take places in turn
} EsEpisodePlan;

// A function of its arguments: other environments and threads do not matter.
static inline ES_HOST_DEVICE EsEpisodePlan es_episode_plan(EsQueryOrder order, int32_t n_negatives,
                                                           int32_t n_queries, uint64_t seed,
                                                           uint32_t index, uint32_t episode) {
    uint32_t period = (uint32_t)n_negatives + 1;
    EsEpisodePlan plan;
    plan.is_negative = episode % period != 0;
    plan.n_before = (int32_t)((episode - episode / period - (episode % period != 0)) & 0x7fffffffu);
    uint32_t n = (uint32_t)n_queries;
    if (order == ES_QUERY_UNIFORM) {
        EsRandom4 random = es_random_draw(seed, index, ES_PURPOSE_DATA_ORDER, episode, 0);
        plan.query = (int32_t)es_random_below(random.word[0], n);
    } else {
        // multiples of the golden ratio: any number of first environments is spread evenly
        uint32_t place = es_random_below(index * 0x9E3779B1u, n);
        plan.query = (int32_t)(((uint64_t)place + episode / period) % n);
    }
    return plan;
}

// A policy that takes any successor: a function of the environment, its episode and how far that
// is.
static inline ES_HOST_DEVICE int32_t es_proof_random_action(uint64_t seed, uint32_t index,
                                                            uint32_t episode, int32_t depth,
                                                            int32_t n_successors) {
    EsRandom4 random =
        es_random_draw(seed, index, ES_PURPOSE_ACTION, episode, (uint32_t)depth >> 2);
    return (int32_t)es_random_below(random.word[depth & 3], (uint32_t)n_successors);
}

#define ES_PROOF_MAX_ENVS  65536
#define ES_PROOF_MAX_DEPTH 1000
// states passed over at a time; a longer chain is then a choice like others
#define ES_PROOF_MAX_SKIPS 20

typedef struct EsProofEnvSettings {
    int32_t n_envs;    // N
    int32_t first_env; // number of environment 0 among those of all processes; its queries follow
                       // from it and the seed
    uint64_t seed;

    // states and actions
    EsGoalSelection selection;
    int32_t max_atoms;  // A
    int32_t max_states; // S, End included; 0: as many as the graph can give, nothing is dropped
    int32_t max_depth;  // actions of an episode
    int has_end;        // End is offered wherever the proof is open
    int has_memory;     // states of this episode are not offered again
    int skips_unary;    // a state with one open successor is passed over: its successor is the next
                        // state, and no action is counted

    // queries
    EsKgSplit split;
    const EsAtom *queries; // these instead of the split's; copied. NULL: the split's
    int32_t n_queries;
    int32_t min_query_depth, max_query_depth; // published depth of the split's; 0 and 0: any
    EsQueryOrder order;
    int32_t n_negatives;  // corruptions after each positive
    int is_corrupting[2]; // by EsCorruptSide; of several places the environment takes one after the
                          // other
    int uses_domains;     // see corruptions.h
    int32_t reward_type;  // see es_proof_reward
} EsProofEnvSettings;

// --- episodes ---

// The place that an environment's next corruption of a query replaces: those of the sides wanted,
// in turn. -1 when the query has none.
static inline ES_HOST_DEVICE int es_episode_place(const EsKnowledgeGraph *graph,
                                                  const EsProofEnvSettings *settings,
                                                  const EsAtom *query, int32_t n_before) {
    int places[ES_KG_MAX_ARITY], n_places = 0;
    for (int place = 0; place < graph->arities[query->predicate]; place++) {
        if (settings->is_corrupting[es_corrupt_side(place)]) {
            places[n_places++] = place;
        }
    }
    return n_places > 0 ? places[n_before % n_places] : -1;
}

// The query of an episode, from those of the settings; `known` may be NULL without negatives.
// `number` is the environment's among those of all processes. Returns the label: 1, or 0 for a
// corruption; *is_uncorrupted says that there was none for a negative.
static inline ES_HOST_DEVICE int32_t es_episode_draw(const EsKnowledgeGraph *graph,
                                                     const EsKnownTable *known,
                                                     const EsProofEnvSettings *settings,
                                                     uint32_t number, uint32_t episode,
                                                     EsWideAtom *query, int *is_uncorrupted) {
    EsEpisodePlan plan = es_episode_plan(settings->order, settings->n_negatives,
                                         settings->n_queries, settings->seed, number, episode);
    const EsAtom *from = settings->queries + (size_t)plan.query * (size_t)graph->query_cells;
    const EsAtom none = {0, 0, 0};
    query->cells[0] = from[0];
    query->cells[1] = graph->query_cells == 2 ? from[1] : none;
    *is_uncorrupted = 0;
    if (!plan.is_negative) {
        return 1;
    }
    EsCorruptionSettings corruption = {settings->seed, settings->uses_domains};
    int place = es_episode_place(graph, settings, query->cells, plan.n_before);
    uint64_t draw = (uint64_t)number << 32 | episode;
    *is_uncorrupted = place < 0 || !es_corruption_draw_from(graph, known, &corruption, query->cells,
                                                            place, draw, query->cells);
    return *is_uncorrupted;
}

// How an action ended an episode, if it did.
typedef struct EsEpisodeEnd {
    int is_done, is_success, is_truncated, is_by_end;
    float reward; // 0 where it goes on
} EsEpisodeEnd;

// `depth` counts the action that led to a state of this outcome.
static inline ES_HOST_DEVICE EsEpisodeEnd es_episode_end(const EsProofEnvSettings *settings,
                                                         EsProofOutcome outcome, int32_t depth,
                                                         int32_t label) {
    EsEpisodeEnd end;
    end.is_success = outcome == ES_PROOF_PROVED;
    end.is_by_end = outcome == ES_PROOF_ENDED;
    end.is_truncated = outcome == ES_PROOF_OPEN && depth >= settings->max_depth;
    end.is_done = outcome != ES_PROOF_OPEN || end.is_truncated;
    end.reward = 0.0f;
    if (end.is_done) {
        end.reward = es_proof_reward(settings->reward_type, settings->n_negatives, label,
                                     end.is_success, end.is_by_end);
    }
    return end;
}

#endif
