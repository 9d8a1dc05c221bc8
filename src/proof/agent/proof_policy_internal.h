// The insides of a proof policy in inference and in training, for their sources and tests: a cache
// of states with their encodings and values, each distinct state once, and the rows of a rollout.
//
// An encoding depends on its state, on the weights and on how goals are selected; with the encoder
// `structure` also on the query where that is a fact, which then stands behind the state's atoms.
// Within a rollout or a search these stay, and most states come again: a successor now is the state
// of the next step. All missing results are computed together, in batches over the threads of a
// pool; the bits do not depend on the batches.
//
//     ES_TRY(es_proof_cache_take(cache, choices, ES_PROOF_VALUES_OF_STATES, state_number,
//                                 successor_number));
//     ES_TRY(es_proof_cache_fill(cache));
//     es_proof_cache_score(cache, state_number[0], successor_number, n, logits);
//
// D width of embeddings; N states and M successors as in proof_choices.h; G partial sums of a
// gradient, R rows, S distinct states.
#ifndef ES_PROOF_PROOF_POLICY_INTERNAL_H
#define ES_PROOF_PROOF_POLICY_INTERNAL_H

#include "distributed/ranks.h"
#include "network/slab_optimiser.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/agent/proof_policy_network.h"
#include "proof/agent/proof_policy_training.h"

ES_EXTERN_C_BEGIN

// Bits of the results of a state, known or wanted.
enum { ES_PROOF_KNOWS_ENCODING = 1, ES_PROOF_KNOWS_VALUE = 2 };

// Whose values a call wants.
enum { ES_PROOF_VALUES_OF_STATES = 1, ES_PROOF_VALUES_OF_SUCCESSORS = 2 };

typedef struct EsProofCache {
    const EsProofPolicy *policy; // borrowed
    EsThreadPool *pool;          // borrowed; NULL: the calling thread alone
    EsRanks *ranks;              // borrowed: they share the batches of a fill; NULL: one process
    float *results; // of a fill by ranks: value and encoding    (batches of states, 1 + D)
    int64_t results_capacity; // batches
    EsProofWorker **workers;  // owned, one per thread
    int n_workers;
    EsGoalTable goals; // states; of the encoder `structure` with the query, or no atom, behind
                       // them, in the graph's query_cells
    float *encoding;   // of length 1 where l2 is set                                  (capacity, D)
    float *value;      //                                                              (capacity)
    uint8_t *known;    // bits as above                                                (capacity)
    uint8_t *wanted;   // likewise; a state with a bit waits to be computed            (capacity)
    int64_t capacity;
    int32_t *waiting; // states that wait, each once
    int64_t n_waiting, waiting_capacity;
    int32_t *list; // the same in the order of computing
    int64_t list_capacity;
    int64_t n_encoded, n_valued; // rows computed ever
    int64_t fill_ns;             // until all threads had computed them
    uint64_t version;            // of the weights,
    EsGoalSelection selection;   // and of the goals, that all known results were computed with
} EsProofCache;

EsStatus es_proof_cache_create(const EsProofPolicy *policy, EsThreadPool *pool,
                               EsProofCache **cache);
void es_proof_cache_destroy(EsProofCache *cache);

// Bytes of a cache of n states of n_atoms each on average, without the workers; *moving: more of
// them while it grows to that.
size_t es_proof_cache_bytes(const EsProofPolicy *policy, int64_t n_states, double n_atoms,
                            size_t *moving);

// Forgets all states.
void es_proof_cache_clear(EsProofCache *cache);

// Forgets results of other weights or of another selection of goals; the states keep their numbers.
void es_proof_cache_refresh(EsProofCache *cache, EsGoalSelection selection);

// Marks results of a known state as wanted.
EsStatus es_proof_cache_want(EsProofCache *cache, int32_t number, uint8_t wanted);

// Numbers of the states (N) and of their successors (M), and all that scoring them needs as wanted,
// with the values of `whose`: where there is but one successor, no encoding. The numbers of
// successors may be NULL: then the values of the states alone are wanted.
EsStatus es_proof_cache_take(EsProofCache *cache, const EsProofChoices *choices, int whose,
                             int32_t *state_number, int32_t *successor_number);

// Computes all results that are wanted and not known; collective where ranks share it.
EsStatus es_proof_cache_fill(EsProofCache *cache);

// The n logits of a state; that of an only successor is 0, since it is taken anyway.
void es_proof_cache_score(const EsProofCache *cache, int32_t state, const int32_t *successors,
                          int64_t n, float *logits);

// Put `count` states (NULL: all from 0 on) in the order that EsProofBatch asks for, by their bits
// of `wanted`; those without any are left out. Returns how many there are.
int64_t es_proof_cache_arrange(const int32_t *states, int64_t count, const uint8_t *wanted,
                               int32_t *list, int64_t *n_value, int64_t *first_policy);

// Block `block` of an arranged list, in blocks of so many states.
EsProofBatch es_proof_cache_batch(const EsProofCache *cache, const int32_t *list, int64_t count,
                                  int64_t n_value, int64_t first_policy, int64_t block_states,
                                  int64_t block);

// Run pieces on the pool, or on the calling thread where there is none.
void es_proof_run_pieces(EsThreadPool *pool, int64_t n_pieces, EsPieceFunction function,
                         void *context);

struct EsProofPolicyScorer {
    EsProofCache *cache; // owned
    int32_t max_states;
    int32_t *state_number; // of the choices of a call                                         (N)
    int64_t state_capacity;
    int32_t *successor_number; //                                                              (M)
    int64_t successor_capacity;
    double *probability; // of the successors of one state
    int64_t probability_capacity;
};

// --- training ---

// G: threads that can work on a gradient; each sums a whole set of layers
#define ES_PROOF_PARTIAL_SUMS 8
// blocks of rows whose gradients with respect to embeddings wait to be spread over the tables
#define ES_PROOF_BLOCKS_PER_ROUND 64

struct EsProofPolicyTraining {
    EsProofPolicy *policy;       // borrowed
    EsProofPolicyScorer *scorer; // owned; its cache holds the states of all rows
    EsOptimiser *optimiser;      // owned
    EsThreadPool *pool;          // borrowed from the policy's device
    EsProofWorker **workers;     // owned, one per thread; keep layers for the way back
    int n_workers;

    // the rows of a rollout
    int64_t n_rows;
    int32_t *row_state; // number of the state                                                  (R)
    int64_t row_capacity;
    int64_t *row_first; // successors of row r: row_first[r] to row_first[r+1] - 1          (R + 1)
    int64_t first_capacity;
    int32_t *successor; // numbers of the states
    int64_t successor_capacity;
    uint8_t *need; // bits of results that rows need of a state                                  (S)
    int64_t need_capacity;
    uint8_t *is_own; // with ranks: its gradient is taken further here                          (S)
    int64_t is_own_capacity;
    float *logits; // of one call of act
    int64_t logit_capacity;

    // an update
    int32_t *list; // states that rows need, arranged                                           (S)
    int64_t list_capacity;
    int64_t n_listed, n_value, first_policy;
    float *d_encoding; //                                                                    (S, D)
    int64_t d_encoding_capacity;
    float *d_value; //                                                                          (S)
    int64_t d_value_capacity;
    float *partial_sums; // gradients of the layers                                   (G, n_layers)
    float *d_input;      // of the embedded states of a round: block i stands with those of its
                         // partial sum, at i % G of (G, blocks / G)
    float *columns;      // of the tables' gradients, as ranks exchange them: column groups of rows
    int64_t columns_capacity;
    int64_t backward_ns; // ever, until all threads had gone back through the network
};

// Gradients of all parameters, into the policy's store, from those of the last forward's outputs:
// logits by row_first, value (R).
EsStatus es_proof_policy_training_backward(EsProofPolicyTraining *training,
                                           const EsOutputs *gradients);

ES_EXTERN_C_END

#endif
