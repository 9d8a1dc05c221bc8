// Many environments stepped together, each with one query to prove at a time; an action is the next
// state to go to.
//
// The state of an environment is the list of atoms still to be proved. An action is the index of
// one of its successors; True ends the episode as proved, False and End as not proved, and the
// limit on depth truncates it. An environment whose episode ended starts its next query within the
// same step: es_proof_env_step reports the episode that ended, es_proof_env_choices shows the one
// that began. An environment is a function of (seed, its number, actions) alone: neither the number
// of environments nor that of threads matters. One thread at a time may use an EsProofEnv. Arrays
// of queries have the graph's query_cells for each, as EsQuerySplit has them, and limits on atoms
// count cells.
//
//     EsProofEnvSettings settings = es_proof_env_defaults();
//     EsProofEnv *env; ES_TRY(es_proof_env_create(graph, &settings, pool, &env));
//     for (int step = 0; step < n_steps; step++) {
//         EsProofChoices choices; ES_TRY(es_proof_env_choices(env, &choices));
//         choose(&choices, actions);
//         ES_TRY(es_proof_env_step(env, actions));
//         learn(es_proof_env_result(env));
//     }
//     es_proof_env_destroy(env);
//
// N is the number of environments; A, S, C and P as in proof_rules.h.
#ifndef ES_PROOF_PROOF_ENV_H
#define ES_PROOF_PROOF_ENV_H

#include "base/random_rules.h"
#include "base/thread_pool.h"
#include "proof/ranking/corruptions.h"
#include "proof/search/proof_choices.h"
#include "proof/search/proof_rules.h"

ES_EXTERN_C_BEGIN

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

// Results of the last es_proof_env_step, each an array of N; borrowed. Where is_done is 0 the
// episode goes on and the reward is 0.
typedef struct EsProofResult {
    float *reward;
    unsigned char *is_done;      // proved, not proved or truncated
    unsigned char *is_success;   // proved
    unsigned char *is_truncated; // by the limit on depth
    unsigned char *is_by_end;    // gave up
    unsigned char *label;        // 1: the query is taken to be true, 0: it is a corruption
    int32_t *depth;              // actions of the episode so far, this one included
    EsAtom *query;               // of the episode                             (N x query_cells)
    EsAtomSpan *reached;         // the state that the action led to: the last of the episode where
                                 // is_done, before any is passed over
} EsProofResult;

// Sums since the environment was created.
typedef struct EsProofEnvCounters {
    int64_t n_steps;                                                 // of single environments
    int64_t n_episodes[2], n_proved[2], n_truncated[2], n_by_end[2]; // finished, by label
    int64_t n_actions[2];    // of finished episodes, by label
    double reward[2];        // by label
    int64_t n_not_corrupted; // negatives that became positives because there is no corruption
    int64_t n_skipped;       // states passed over
    int64_t n_successors;    // offered
    int64_t n_overlong, n_overflow; // candidates that limits dropped, as in EsSuccessors
} EsProofEnvCounters;

// 128 environments; constrained goals, 6 atoms, depth 20, End, memory; queries of TRAIN in uniform
// order, one negative per positive, all places in turn, reward 4.
EsProofEnvSettings es_proof_env_defaults(void);

// Graph and pool are borrowed; pool NULL: the caller's thread alone. Every environment has begun
// its first episode. ARGUMENT for settings out of range; INPUT when no query is left: its predicate
// must head a rule, and its published depth must be in the range asked for.
typedef struct EsProofEnv EsProofEnv;
EsStatus es_proof_env_create(const EsKnowledgeGraph *graph, const EsProofEnvSettings *settings,
                             EsThreadPool *pool, EsProofEnv **env);
void es_proof_env_destroy(EsProofEnv *env);

// The settings in force: max_states and n_queries as they were found. Borrowed.
const EsProofEnvSettings *es_proof_env_settings(const EsProofEnv *env);

// Queries that episodes are drawn from; borrowed. `count` is of queries.
EsAtomSpan es_proof_env_queries(const EsProofEnv *env);

// --- stepping ---

// States of all environments and their successors; borrowed, until the next step.
EsStatus es_proof_env_choices(EsProofEnv *env, EsProofChoices *choices);

// Take successor actions[i] in every environment i. ARGUMENT when one is out of range; nothing has
// then changed.
EsStatus es_proof_env_step(EsProofEnv *env, const int32_t *actions);
const EsProofResult *es_proof_env_result(const EsProofEnv *env);

// Draws uniform actions (N), a function of (seed, environment, episode, depth).
void es_proof_env_draw_actions(EsProofEnv *env, int32_t *actions);

// --- inspection ---

// The episode that an environment is in.
typedef struct EsProofEpisode {
    EsAtom query;      // its first cell
    uint32_t episode;  // from 0
    int32_t label;     // 1: taken to be true
    int32_t depth;     // actions so far
    int32_t n_atoms;   // of the state
    int32_t n_visited; // states remembered
} EsProofEpisode;
EsProofEpisode es_proof_env_episode(const EsProofEnv *env, int32_t index);

// The query of that episode, all its cells; borrowed, until the next step.
const EsAtom *es_proof_env_query(const EsProofEnv *env, int32_t index);

// environments whose proofs can be asked for
#define ES_PROOF_TRACED 4

// The proof that the last step ended an episode of environment `index` with: its states, the query
// first, as es_proof_tree_create takes them; borrowed, until the next step. It has none where the
// step proved nothing, past the first ES_PROOF_TRACED environments, and without has_memory.
typedef struct EsProofTrace {
    EsAtomSpan *states;
    int32_t count; // 0: none
} EsProofTrace;
EsProofTrace es_proof_env_proof(const EsProofEnv *env, int32_t index);

EsProofEnvCounters es_proof_env_counters(const EsProofEnv *env);

// The padded observation: the state, its first max_states successors and which of these exist, zero
// elsewhere. Any of the arrays may be NULL. Returns how many successors of all environments did not
// fit.
int64_t es_proof_env_pad(EsProofEnv *env, int32_t max_states,
                         int32_t *sub_index,           // (N x 1 x A x 3)
                         int32_t *derived_sub_indices, // (N x max_states x A x 3)
                         unsigned char *action_mask);  // (N x max_states)

// --- checkpoints ---

// All that the future of the environments depends on, and the counters, as es_proof_env_saved_bytes
// bytes. It fits an environment of the same graph and settings; another one, or a number out of its
// range, fails with INPUT and leaves the environment as it was. `path` is for messages.
size_t es_proof_env_saved_bytes(const EsProofEnv *env);
void es_proof_env_save(const EsProofEnv *env, void *saved);
EsStatus es_proof_env_load(EsProofEnv *env, const char *path, const void *saved,
                           size_t saved_bytes);

ES_EXTERN_C_END

#endif
