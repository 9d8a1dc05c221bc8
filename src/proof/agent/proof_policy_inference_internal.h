// The insides of inference, for its source and for training: a cache of states with their encodings
// and values, each distinct state once.
//
// An encoding depends on its state, on the weights and on how goals are selected; with the encoder
// `structure` also on the query where that is a fact, which then stands behind the state's atoms. Within a rollout
// or a search these stay, and most states come again: a successor now is the state of the next
// step. All missing results are computed together, in batches over the threads of a pool; the
// bits do not depend on the batches.
//
//     ES_TRY(es_proof_cache_take(cache, choices, ES_PROOF_VALUES_OF_STATES, state_number,
//                                 successor_number));
//     ES_TRY(es_proof_cache_fill(cache));
//     es_proof_cache_score(cache, state_number[0], successor_number, n, logits);
//
// D width of embeddings; N states and M successors as in proof_choices.h.
#ifndef ES_PROOF_PROOF_POLICY_INFERENCE_INTERNAL_H
#define ES_PROOF_PROOF_POLICY_INFERENCE_INTERNAL_H

#include "proof/agent/proof_policy_inference.h"
#include "proof/agent/proof_policy_network.h"

ES_EXTERN_C_BEGIN

// Bits of the results of a state, known or wanted.
enum { ES_PROOF_KNOWS_ENCODING = 1, ES_PROOF_KNOWS_VALUE = 2 };

// Whose values a call wants.
enum { ES_PROOF_VALUES_OF_STATES = 1, ES_PROOF_VALUES_OF_SUCCESSORS = 2 };

typedef struct EsProofCache {
    const EsProofPolicy *policy; // borrowed
    EsThreadPool *pool;          // borrowed; NULL: the calling thread alone
    EsProofWorker **workers;     // owned, one per thread
    int n_workers;
    EsGoalTable goals; // states; of the encoder `structure` with the query, or no atom, behind them
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

// Computes all results that are wanted and not known.
EsStatus es_proof_cache_fill(EsProofCache *cache);

// The n logits of a state; that of an only successor is 0, since it is taken anyway.
void es_proof_cache_score(const EsProofCache *cache, int32_t state, const int32_t *successors,
                          int64_t n, float *logits);

// Put `count` states (NULL: all from 0 on) in the order that EsProofBatch asks for, by their bits
// of `wanted`; those without any are left out. Returns how many there are.
int64_t es_proof_cache_arrange(const int32_t *states, int64_t count, const uint8_t *wanted,
                               int32_t *list, int64_t *n_value, int64_t *first_policy);

// Block `block` of an arranged list.
EsProofBatch es_proof_cache_batch(const EsProofCache *cache, const int32_t *list, int64_t count,
                                  int64_t n_value, int64_t first_policy, int64_t block);

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

ES_EXTERN_C_END

#endif
