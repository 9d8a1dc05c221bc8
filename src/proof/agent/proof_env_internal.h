// The insides of an EsProofEnv, for its own files and tests: episodes and states of all
// environments in one slab, and blocks of environments as pieces of work for threads.
#ifndef ES_PROOF_PROOF_ENV_INTERNAL_H
#define ES_PROOF_PROOF_ENV_INTERNAL_H

#include "base/memory.h"
#include "proof/agent/proof_env.h"

// environments of a block: enough to make taking one cheap, few enough to share out evenly
#define ES_PROOF_BLOCK 16

// The successors of a block's environments, one after the other. They grow on demand.
typedef struct EsProofBlock {
    _Alignas(ES_ALIGNMENT) EsAtom *atoms; // owned
    int32_t *start; // successor k is atoms[start[k]] to atoms[start[k+1] - 1]; owned
    int32_t n_atoms, n_successors;
    int64_t atom_capacity, start_capacity;
    int is_out_of_memory; // in the last step
} EsProofBlock;

// The work of a device in place of the loops over blocks. The CPU's arrays are then mirrors: behind
// every call but `list` and `fetch` they show episodes, states, counts and results.
typedef struct EsProofEnvBackend {
    EsStatus (*create)(EsProofEnv *env, EsStream *stream);
    void (*destroy)(EsProofEnv *env); // of all that create has made, even where it failed
    EsStatus (*begin)(EsProofEnv *env);
    EsStatus (*restore)(EsProofEnv *env); // from the slab
    EsStatus (*step)(EsProofEnv *env, const int32_t *actions);
    EsStatus (*walk)(EsProofEnv *env, int32_t n_steps, const EsProofRows *rows);
    EsStatus (*list)(EsProofEnv *env);  // row_start, span
    EsStatus (*fetch)(EsProofEnv *env); // the whole slab
    EsProofEnvCounters (*count)(const EsProofEnv *env);
} EsProofEnvBackend;

// NULL in a build without CUDA.
const EsProofEnvBackend *es_proof_env_backend_cuda(void);

typedef struct EsProofEnvOnDevice EsProofEnvOnDevice;

// V is the most states that an environment remembers, 0 without memory.
struct EsProofEnv {
    const EsProofEnvBackend *backend; // NULL: the CPU
    EsProofEnvOnDevice *on_device;    // owned by the backend
    EsProofEnvSettings settings;      // n_queries and queries are those of the pool below
    const EsKnowledgeGraph *graph;    // borrowed
    EsThreadPool *pool;               // borrowed, may be NULL
    EsKnownAtoms *known;              // owned, NULL without negatives
    EsAtom *queries;                  // owned                          (n_queries x query_cells)
    EsProofSettings listing;          // as es_proof_expand takes them
    EsSuccessors *scratch;            // owned                                             (workers)
    int n_workers;
    int32_t max_visited; // V

    // the saved part, one slab; owned
    unsigned char *slab;
    size_t slab_bytes;
    EsProofEpisode *episodes;     //                                                           (N)
    EsAtom *states;               //                                                       (N x A)
    EsAtom *visited;              //                                                   (N x V x A)
    int32_t *n_visited_atoms;     //                                                       (N x V)
    uint64_t *visited_hash;       //                                                       (N x V)
    EsProofEnvCounters *counters; // of a block                                           (blocks)
    EsAtom *query_rest;           // second cells of queries, where the graph has any          (N)

    // successors
    EsProofBlock *blocks; // owned, as are the next four
    int32_t n_blocks;
    int32_t *first; // of an environment among those of its block                              (N)
    int32_t *count; // of an environment                                                       (N)
    int32_t *row_start;     // as EsProofChoices.first                                     (N + 1)
    EsAtomSpan *state_span; //                                                                 (N)
    EsAtom *state_query;    // of the episodes                                (N x query_cells)
    EsAtomSpan *span;       // of all successors; owned                            (span_capacity)
    int32_t span_capacity;
    int is_listed; // spans are those of the present states

    const int32_t *actions; // of the step at work; borrowed
    EsProofResult result;
    EsAtom *reached; // the atoms of result.reached                                  (N x A)
    // proofs of the first environments
    EsProofTrace traces[ES_PROOF_TRACED]; // in result_memory, as their atoms
    EsAtom *traced;                       //                              (ES_PROOF_TRACED x V x A)
    void *result_memory;                  // owned
};

static inline EsAtom *es_proof_env_goals(const EsProofEnv *env, int32_t index) {
    return env->states + (size_t)index * (size_t)env->settings.max_atoms;
}

// Begin the first episode of every environment. MEMORY when the successors do not fit, as below.
EsStatus es_proof_env_begin(EsProofEnv *env);

// Find the successors of all environments again, after the slab was written.
EsStatus es_proof_env_restore(EsProofEnv *env);

// Adds the counters of a part to a sum.
void es_proof_env_counters_add(EsProofEnvCounters *sum, const EsProofEnvCounters *part);

// Room for the spans of n_all successors.
EsStatus es_proof_env_reserve_spans(EsProofEnv *env, int64_t n_all);

// Makes state_span and state_query those of the episodes and states.
void es_proof_env_show_states(EsProofEnv *env);

#endif
