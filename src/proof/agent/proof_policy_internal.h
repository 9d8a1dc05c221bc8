// The parameters of a proof policy and where they lie, for the files that run, teach and store it.
//
// All parameters stand in one slab, laid out by a graph without nodes (network/store.h), those of
// the layers first, the tables of embeddings behind them; gradients have the same offsets.
//
// E width of embeddings, H of the body, L residual blocks; C and P as in knowledge_graph.h.
#ifndef ES_PROOF_PROOF_POLICY_INTERNAL_H
#define ES_PROOF_PROOF_POLICY_INTERNAL_H

#include "network/checkpoint.h"
#include "proof/agent/proof_policy.h"

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

typedef enum EsProofPart {
    ES_PROOF_PART_POLICY,
    ES_PROOF_PART_VALUE,
    ES_PROOF_N_PARTS
} EsProofPart;

struct EsProofPolicy {
    EsProofPolicySettings settings;
    EsDevice *device;              // borrowed
    const EsKnowledgeGraph *graph; // borrowed
    EsStream *stream;              // owned, as are the next two
    EsGraph *layout;               // parameters, no nodes
    EsStore *store;                // [1, slab]
    uint64_t version;              // rises whenever weights change: encodings made before are old

    // of the policy; of the value's own body, where it has one
    EsProofLayer body[ES_PROOF_N_PARTS][ES_PROOF_MAX_LAYERS + 1]; // [0] reads the embedding
    EsProofHead head[ES_PROOF_N_PARTS];
    int64_t constants;  // table [C + 1, E], row 0 is 0
    int64_t variables;  // table [2 ES_PROOF_MAX_ATOMS, E]
    int64_t predicates; // table [P + 1 + terminal states, E], row 0 is 0
    int64_t n_layers;   // elements of the slab before the tables
};

static inline float *es_proof_policy_parameters(const EsProofPolicy *policy) {
    return policy->store->parameters.data;
}

// Rows of the table of predicates: 0, those of the graph, and True, False, End.
static inline int64_t es_proof_policy_predicate_rows(const EsKnowledgeGraph *graph) {
    return graph->n_predicates + 1 + ES_PROOF_ENDED;
}

// Offset of the row of a term: no term, a constant or a variable.
static inline int64_t es_proof_policy_term(const EsProofPolicy *policy, int32_t term) {
    int32_t n_constants = policy->graph->n_constants;
    int64_t E = policy->settings.embed;
    return term <= n_constants ? policy->constants + term * E
                               : policy->variables + (term - n_constants - 1) * E;
}

static inline int64_t es_proof_policy_predicate(const EsProofPolicy *policy, int32_t predicate) {
    return policy->predicates + (int64_t)predicate * policy->settings.embed;
}

// The sign of an atom's first argument; that of the second is -1.
static inline float es_proof_policy_sign(const EsProofPolicy *policy) {
    return policy->settings.embedder == ES_PROOF_EMBEDDER_TRANSE ? 1.0f : -1.0f;
}

// Rows of padding are 0 whatever a file or an initialisation says.
void es_proof_policy_clear_padding(EsProofPolicy *policy);

// Metadata of a file, shared by policies and checkpoints of training: create fills
// ES_PROOF_POLICY_METADATA entries whose values point into `text`.
#define ES_PROOF_POLICY_METADATA 12 // the last is the hash of the tensors
typedef struct EsProofPolicyNotes {
    EsMetadata entry[ES_PROOF_POLICY_METADATA];
    int count;
    char text[ES_PROOF_POLICY_METADATA][72];
} EsProofPolicyNotes;
void es_proof_policy_note(const EsProofPolicy *policy, EsProofPolicyNotes *notes);

// INPUT unless the file was written for a policy of these settings and this graph.
EsStatus es_proof_policy_check_notes(const EsProofPolicy *policy, const char *path);

ES_EXTERN_C_END

#endif
