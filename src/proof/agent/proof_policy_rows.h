// A few states through the network of a proof policy, on one thread: embeddings, bodies, heads, and
// back again.
//
// A worker holds what one thread needs. All rows of a call go through each layer together; each
// row's results depend on its own state alone, whatever the others are. Arithmetic is that of the
// kernels for the vector width of the policy's device.
//
// E width of embeddings, H of the body, n rows of a call, at most ES_PROOF_ROWS.
#ifndef ES_PROOF_PROOF_POLICY_ROWS_H
#define ES_PROOF_PROOF_POLICY_ROWS_H

#include "proof/agent/proof_policy_internal.h"
#include "proof/search/proof_states.h"

ES_EXTERN_C_BEGIN

// n at most: a block of the matrix product, and few enough that a layer's rows stay in the
// second-level cache
#define ES_PROOF_ROWS 96

// Encodings shorter than this are divided by it instead of by their length. When all units of a
// head are off an encoding is its bias, at first exactly 0: gradients must stay bounded there.
#define ES_PROOF_SHORTEST 1e-3f

// The states of a call. Those that need a value stand first, those that need an encoding last;
// the two may overlap.
typedef struct EsProofRows {
    const EsProofStates *states;
    const int32_t *numbers;    // of the states                                            (count)
    int64_t count;             // n
    int64_t n_value;           // rows before this one get a value,
    int64_t first_policy;      // rows from this one on an encoding
    EsGoalSelection selection; // which goal is embedded apart
} EsProofRows;

// What a body keeps of each of its layers for the way back; without one, layers share memory.
typedef struct EsProofLayerMemory {
    float *active;         // ReLU(Linear)                                                    (n, H)
    float *mean, *inv_std; // of the normalisation                                              (n)
    float *x;              // output of the layer                                             (n, H)
} EsProofLayerMemory;

typedef struct EsProofHeadMemory {
    float *active; // ReLU(Linear)                                                            (n, H)
    float *y;      //                                                                  (n, E) or (n)
} EsProofHeadMemory;

// Transparent for the files that run it.
typedef struct EsProofWorker {
    const EsProofPolicy *policy; // borrowed
    EsDevice *device;            // owned: one thread
    EsStream *stream;            // owned
    const EsKernels *kernels;
    int keeps;    // layers have memory of their own: backward may follow forward
    void *slab;   // owned: the arrays below
    float *input; // [goal, mean of all]                                                     (n, 2E)
    EsProofLayerMemory layer[ES_PROOF_N_PARTS][ES_PROOF_MAX_LAYERS + 1];
    EsProofHeadMemory head[ES_PROOF_N_PARTS];
    float *branch;     // what a residual block adds                                        (n, H)
    float *length;     // of encodings before they were brought to 1; 1 where they are not    (n)
    float *d_encoding; // room for the caller of backward                                   (n, E)
    float *d_x;      // gradient of a body's output, then of its layers'                      (n, H)
    float *d_active; //                                                                       (n, H)
    float *d_in;     // of a layer's input                                           (n, max(H, 2E))
    float *d_gamma, *d_beta; //                                                                 (H)
    int64_t embed_ns, layer_ns; // spent by this thread: on embeddings, on the layers; both ways
} EsProofWorker;

// `keeps`: for backward, which needs memory for every layer. The policy is borrowed.
EsStatus es_proof_worker_create(const EsProofPolicy *policy, int keeps, EsProofWorker **worker);
void es_proof_worker_destroy(EsProofWorker *worker);

// Encodings to head[POLICY].y with their lengths, values to head[VALUE].y, at the rows' own places.
void es_proof_worker_forward(EsProofWorker *worker, const EsProofRows *rows);

// After forward over the same rows, by a worker that keeps: gradients of the layers, from those of
// encodings d_encoding (n, E), read from first_policy on and overwritten, and of values d_value
// (n), are added to `gradient`, a slab of n_layers; those of the embedded states replace d_input
// (n, 2E).
void es_proof_worker_backward(EsProofWorker *worker, const EsProofRows *rows, float *d_encoding,
                              const float *d_value, float *gradient, float *d_input);

// Columns [begin, end) of the tables' gradients, += those of the embedded states, rows in order;
// `gradient` is the slab of the whole policy.
void es_proof_policy_spread(const EsProofPolicy *policy, const EsProofRows *rows,
                            const float *d_input, int64_t begin, int64_t end, float *gradient);

// --- views for the kernels ---

static inline EsTensor es_proof_view_rows(const EsProofWorker *w, float *data, int64_t n,
                                          int64_t width) {
    return es_tensor_view(data, ES_DTYPE_F32, w->device, 3, (int64_t[]){1, n, width});
}

static inline EsTensor es_proof_view_vector(const EsProofWorker *w, float *data, int64_t width) {
    return es_tensor_view(data, ES_DTYPE_F32, w->device, 2, (int64_t[]){1, width});
}

// The weight of a layer in a slab of parameters or gradients.
static inline EsTensor es_proof_view_weight(const EsProofWorker *w, float *slab,
                                            const EsProofLinear *linear) {
    return es_proof_view_rows(w, slab + linear->weight, linear->n_out, linear->n_in);
}

ES_EXTERN_C_END

#endif
