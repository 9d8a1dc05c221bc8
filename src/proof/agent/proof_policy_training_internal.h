// The insides of a proof policy in training, for its source and tests.
//
// D width of embeddings, G partial sums of a gradient, R rows, S distinct states.
#ifndef ES_PROOF_PROOF_POLICY_TRAINING_INTERNAL_H
#define ES_PROOF_PROOF_POLICY_TRAINING_INTERNAL_H

#include "network/slab_optimiser.h"
#include "proof/agent/proof_policy_inference_internal.h"
#include "proof/agent/proof_policy_training.h"

ES_EXTERN_C_BEGIN

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
    float *d_input;      // of the embedded states of a round
    int64_t backward_ns; // ever, until all threads had gone back through the network
};

// Gradients of all parameters, into the policy's store, from those of the last forward's outputs:
// logits by row_first, value (R).
EsStatus es_proof_policy_training_backward(EsProofPolicyTraining *training,
                                           const EsOutputs *gradients);

ES_EXTERN_C_END

#endif
