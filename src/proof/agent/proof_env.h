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

#include "base/thread_pool.h"
#include "proof/agent/proof_env_rules.h"
#include "proof/ranking/corruptions.h"
#include "proof/search/proof_choices.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

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

// The same on the device of a stream, which is borrowed. On a CPU its pool does the work. On CUDA
// all state is in device memory, laid out as on the CPU, and a step is one launch; what this header
// shows is copied to the CPU behind each step, the successors when they are asked for. All results
// have the same bits. UNSUPPORTED in a build without CUDA.
EsStatus es_proof_env_create_on(const EsKnowledgeGraph *graph, const EsProofEnvSettings *settings,
                                EsStream *stream, EsProofEnv **env);

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

// Rows of a rollout, time-major, where the environments are: device memory on CUDA. Any of them may
// be NULL.
typedef struct EsProofRows {
    int32_t *action;        // index of the successor taken                                (T x N)
    int32_t *count;         // of successors to take from                                  (T x N)
    float *reward;          //                                                             (T x N)
    unsigned char *is_done; //                                                             (T x N)
} EsProofRows;

// n_steps steps of uniform actions, those of es_proof_env_draw_actions; results are those of the
// last. `rows` may be NULL. On CUDA this is one launch.
EsStatus es_proof_env_walk(EsProofEnv *env, int32_t n_steps, const EsProofRows *rows);

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

// All zero where a device has failed (es_device_status).
EsProofEnvCounters es_proof_env_counters(const EsProofEnv *env);

// The padded observation: the state, its first max_states successors and which of these exist, zero
// elsewhere. Any of the arrays may be NULL. Returns how many successors of all environments did not
// fit; 0 where a device has failed.
int64_t es_proof_env_pad(EsProofEnv *env, int32_t max_states,
                         int32_t *sub_index,           // (N x 1 x A x 3)
                         int32_t *derived_sub_indices, // (N x max_states x A x 3)
                         unsigned char *action_mask);  // (N x max_states)

// --- checkpoints ---

// All that the future of the environments depends on, and the counters, as es_proof_env_saved_bytes
// bytes. It fits an environment of the same graph and settings, on any device; another one, or a
// number out of its range, fails with INPUT and leaves the environment as it was. `path` is for
// messages.
size_t es_proof_env_saved_bytes(const EsProofEnv *env);
EsStatus es_proof_env_save(EsProofEnv *env, void *saved);
EsStatus es_proof_env_load(EsProofEnv *env, const char *path, const void *saved,
                           size_t saved_bytes);

ES_EXTERN_C_END

#endif
