// Interface of the CUDA kernels of the environments of proofs (proof_env.h): one struct of device
// pointers that every launcher takes, and the launchers. Nothing here allocates, waits or reads
// device memory; all of it can be captured.
//
// A warp serves an environment: its lanes write candidates side by side, 32 at a time, and drop
// those that came before. What a step leaves is the number of the candidate behind each successor,
// not its atoms: taking a successor, or listing all of them for a policy, writes the candidate
// again from the state. Lists are first counted, then filled; their order is the CPU's.
//
// The floor of a uniform step on `family`, constrained goals (7.5 successors, states of some 3
// atoms): 40 bytes read of hashes of visited states, 0.1 KB written (state, visited state, numbers
// of candidates), and some 15 rows, rules and facts of the graph, which caches hold
// (knowledge_device.h): 14 GB/s of memory at 100 million steps a second, so instructions are the
// bound. Those are estimates; docs/proving.md has what was measured, 147 million.
//
// N environments, V states remembered, A cells of a state, S successors; W warps at work.
#ifndef ES_PROOF_PROOF_ENV_ARRAYS_H
#define ES_PROOF_PROOF_ENV_ARRAYS_H

#include "proof/agent/proof_env.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

// of one warp's hash table: epoch << 32 | number of a successor; another epoch is a free place
typedef unsigned long long EsListSlot;

typedef struct EsProofEnvArrays {
    EsKnowledgeGraph graph; // its view
    EsKnownTable known;     // without negatives all zero
    EsProofEnvSettings settings;
    EsProofSettings listing;
    int32_t n_envs, max_visited, n_warps, table_size;
    // the saved part, laid out as the slab of an EsProofEnv
    EsProofEpisode *episodes; //                                                               (N)
    EsAtom *states;           //                                                           (N x A)
    EsAtom *visited;          //                                                       (N x V x A)
    int32_t *n_visited_atoms; //                                                           (N x V)
    uint64_t *visited_hash;   //                                                           (N x V)
    EsAtom *query_rest;       // NULL without predicates of over two arguments                 (N)
    // successors
    int32_t *count, *n_atoms; // of each environment, and their atoms                          (N)
    unsigned char *outcome;   // EsProofOutcome of its state                                   (N)
    int32_t *candidates;      //                                                           (N x S)
    int64_t *first;           // sums of count and of n_atoms                        (2 x (N + 1))
    // results, as EsProofResult has them
    float *reward;
    int32_t *depth;
    EsAtom *query;      //                                                       (N x query_cells)
    EsAtom *reached;    //                                                                 (N x A)
    int32_t *n_reached; //                                                                     (N)
    unsigned char *is_done, *is_success, *is_truncated, *is_by_end, *label;
    EsAtom *traced;          // proofs of the first environments         (ES_PROOF_TRACED x V x A)
    int32_t *n_traced_atoms; //                                              (ES_PROOF_TRACED x V)
    int32_t *n_traced;       //                                                  (ES_PROOF_TRACED)
    EsProofEnvCounters *counters; //                                                           (N)
    // scratch of a warp
    uint64_t *hash;    //                                                                  (W x S)
    EsListSlot *table; //                                                         (W x table_size)
    uint32_t *epoch;   //                                                                      (W)
    // given
    int32_t *actions; //                                                                       (N)
} EsProofEnvArrays;

typedef enum EsProofEnvWork {
    ES_PROOF_ENV_BEGIN,  // the first episode of every environment
    ES_PROOF_ENV_LIST,   // the successors of states that are as they were saved
    ES_PROOF_ENV_TAKE,   // `actions`
    ES_PROOF_ENV_UNIFORM // uniform actions (es_proof_random_action)
} EsProofEnvWork;

// Moves all environments; n_steps is 1 save for uniform actions.
void es_proof_env_cuda_run(const EsProofEnvArrays *arrays, EsStream *stream, EsProofEnvWork work,
                           int32_t n_steps, const EsProofRows *rows);

// Sums of counts and atoms into `first`; the last of each is the sum of all.
void es_proof_env_cuda_number(const EsProofEnvArrays *arrays, EsStream *stream);

// Writes the successors of all environments: `atoms` one behind the other, successor k from
// start[k] on; start has one more.
void es_proof_env_cuda_fill(const EsProofEnvArrays *arrays, EsStream *stream, EsAtom *atoms,
                            int32_t *start);

// Warps that can be at work at once.
int32_t es_proof_env_cuda_warps(EsStream *stream, int has_wide, int32_t max_atoms);

ES_EXTERN_C_END

#endif
