// The network of a proof policy: its parameters, and workers that pass states through it, forward
// and backward.
//
// All parameters stand in one slab, laid out by a graph without nodes (network/store.h), those of
// the layers first, the tables of embeddings behind them where the encoder has any; gradients have
// the same offsets. A worker
// holds the scratch memory of one thread. All rows of a batch go through each layer together; the
// results of a row depend on its own state alone. Arithmetic is that of the kernels for the vector
// width of the policy's device.
//
// D width of embeddings, I of the input, H of the body, L residual blocks; C and P as in
// knowledge_graph.h; n rows of a batch, at most ES_PROOF_BATCH_STATES.
#ifndef ES_PROOF_PROOF_POLICY_NETWORK_H
#define ES_PROOF_PROOF_POLICY_NETWORK_H

#include "network/store.h"
#include "proof/agent/proof_features.h"
#include "proof/agent/proof_policy.h"
#include "proof/search/goal_table.h"

ES_EXTERN_C_BEGIN

// y = x weight^T + bias, weight [n_out, n_in]; offsets in the slab
typedef struct EsProofLinear {
    int64_t weight, bias;
    int64_t n_in, n_out;
} EsProofLinear;

// LayerNorm(ReLU(Linear)); offsets in the slab
typedef struct EsProofLayer {
    EsProofLinear linear;
    int64_t gamma, beta;
} EsProofLayer;

// Linear, ReLU, Linear
typedef struct EsProofHead {
    EsProofLinear first, last;
} EsProofHead;

typedef enum EsProofTower {
    ES_PROOF_TOWER_POLICY,
    ES_PROOF_TOWER_VALUE,
    ES_PROOF_N_TOWERS
} EsProofTower;

struct EsProofPolicy {
    EsProofPolicySettings settings;
    EsDevice *device;              // borrowed
    const EsKnowledgeGraph *graph; // borrowed
    EsProofFeatures *features;     // NULL with the encoder `names`; owned, as are the next three
    EsStream *stream;
    EsGraph *layout;  // parameters, no nodes
    EsStore *store;   // [1, slab]
    uint64_t version; // rises whenever weights change: encodings made before are old

    // of the policy; of the value's own body, where it has one
    EsProofLayer body[ES_PROOF_N_TOWERS][ES_PROOF_MAX_LAYERS + 1]; // [0] reads the embedding
    EsProofHead head[ES_PROOF_N_TOWERS];
    // of the encoder `names`
    int64_t constants;  // table [C + 1, D], row 0 is 0
    int64_t variables;  // table [2 ES_PROOF_MAX_ATOMS, D]
    int64_t predicates; // table [P + 1 + terminal states, D], row 0 is 0
    int64_t n_layers;   // elements of the slab before the tables
};

// The slab of all parameters, to read.
static inline const float *es_proof_policy_parameters(const EsProofPolicy *policy) {
    return policy->store->parameters.data;
}

// I, numbers that the body reads of a state.
static inline int64_t es_proof_policy_input(const EsProofPolicy *policy) {
    return policy->features != NULL ? ES_PROOF_FEATURES : 2 * (int64_t)policy->settings.embed;
}

// Rows of the table of predicates: 0, those of the graph, and True, False, End.
static inline int64_t es_proof_policy_predicate_rows(const EsKnowledgeGraph *graph) {
    return graph->n_predicates + 1 + ES_PROOF_ENDED;
}

// Offset of the row of a term: no term, a constant or a variable.
static inline int64_t es_proof_policy_term(const EsProofPolicy *policy, int32_t term) {
    int32_t n_constants = policy->graph->n_constants;
    int64_t D = policy->settings.embed;
    return term <= n_constants ? policy->constants + term * D
                               : policy->variables + (term - n_constants - 1) * D;
}

static inline int64_t es_proof_policy_predicate(const EsProofPolicy *policy, int32_t predicate) {
    return policy->predicates + (int64_t)predicate * policy->settings.embed;
}

// The sign of an atom's first argument; that of the second is -1.
static inline float es_proof_policy_sign(const EsProofPolicy *policy) {
    return policy->settings.embedder == ES_PROOF_EMBEDDER_TRANSE ? 1.0f : -1.0f;
}

// Declares every parameter by name in policy->layout, with initial values, and sets the offsets.
void es_proof_network_declare(EsProofPolicy *policy);

// Zeroes the rows of padding, which a file or an initialisation may have filled.
void es_proof_network_clear_padding(EsProofPolicy *policy);

// n at most: a block of the matrix product, and few enough that a layer's rows stay in the
// second-level cache
#define ES_PROOF_BATCH_STATES 96

// Encodings shorter than this are divided by it instead of by their length. When all units of a
// head are off an encoding is its bias, at first exactly 0: gradients must stay bounded there.
#define ES_PROOF_SHORTEST 1e-3f

// The states of one pass. Those that need a value stand first, those that need an encoding last;
// the two may overlap.
typedef struct EsProofBatch {
    const EsGoalTable *goals;
    const int32_t *numbers;    // of the states                                            (count)
    int64_t count;             // n
    int64_t n_value;           // rows before this one get a value,
    int64_t first_policy;      // rows from this one on an encoding
    EsGoalSelection selection; // of the goal that is embedded apart
} EsProofBatch;

// Activations of a layer that backward reads; a worker that runs forward alone shares one among
// all.
typedef struct EsProofLayerMemory {
    float *active;         // ReLU(Linear)                                                    (n, H)
    float *mean, *inv_std; // of the normalisation                                              (n)
    float *x;              // output of the layer                                             (n, H)
} EsProofLayerMemory;

typedef struct EsProofHeadMemory {
    float *active; // ReLU(Linear)                                                            (n, H)
    float *y;      //                                                                  (n, D) or (n)
} EsProofHeadMemory;

// Transparent for the files that run it.
typedef struct EsProofWorker {
    const EsProofPolicy *policy; // borrowed
    EsDevice *device;            // owned: one thread (es_device_open_serial)
    EsStream *stream;            // owned
    const EsKernels *kernels;
    int keeps;    // layers have memory of their own: backward may follow forward
    void *slab;   // owned: the arrays below
    float *input; // [goal, mean of all], or features                                        (n, I)
    EsProofLayerMemory layer[ES_PROOF_N_TOWERS][ES_PROOF_MAX_LAYERS + 1];
    EsProofHeadMemory head[ES_PROOF_N_TOWERS];
    float *branch;     // output of a residual branch                                        (n, H)
    float *length;     // of encodings before they were brought to 1; 1 where they are not    (n)
    float *d_encoding; // room for the caller of backward                                   (n, D)
    float *d_x;      // gradient of a body's output, then of its layers'                      (n, H)
    float *d_active; //                                                                       (n, H)
    float *d_in; // of a layer's input                                             (n, max(H, I))
    float *d_gamma, *d_beta; //                                                                 (H)
    int64_t embed_ns, layer_ns; // spent by this thread: on embeddings, on the layers; both ways
} EsProofWorker;

// `keeps`: for backward, which needs memory for every layer. The policy is borrowed.
EsStatus es_proof_worker_create(const EsProofPolicy *policy, int keeps, EsProofWorker **worker);
void es_proof_worker_destroy(EsProofWorker *worker);

// Encodings to head[POLICY].y with their lengths, values to head[VALUE].y, at the rows' own places.
void es_proof_worker_forward(EsProofWorker *worker, const EsProofBatch *batch);

// After forward over the same rows, by a worker that keeps: gradients of the layers, from those of
// encodings d_encoding (n, D), read from first_policy on and overwritten, and of values d_value
// (n), are added to `gradient`, a slab of n_layers; those of the embedded states replace d_input
// (n, 2E).
void es_proof_worker_backward(EsProofWorker *worker, const EsProofBatch *batch, float *d_encoding,
                              const float *d_value, float *gradient, float *d_input);

// Columns [begin, end) of the tables' gradients, += those of the embedded states, rows in order;
// `gradient` is the slab of the whole policy.
void es_proof_network_scatter(const EsProofPolicy *policy, const EsProofBatch *batch,
                              const float *d_input, int64_t begin, int64_t end, float *gradient);

ES_EXTERN_C_END

#endif
