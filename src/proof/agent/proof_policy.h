// A policy over the steps of a proof: a network that gives every successor of a state a
// probability, and the state a value.
//
// With the encoder `names` a state is embedded as [embedding of its selected goal, mean of the
// embeddings of all its atoms]; an atom p(h,t) as p + h - t (transe) or p - h - t (sum). Constants
// and predicates have rows of their own, variables by their place in the state's canonical
// numbering, so that states equal up to renaming are the same. Such a policy belongs to the names
// of its graph. With the encoder `structure` a state is the features of proof_features.h, which
// name nothing, and the policy acts on any graph with rules.
//
// The body f is Linear, ReLU, LayerNorm, then residual blocks x + LayerNorm(ReLU(Linear x)); the
// head g is Linear, ReLU, Linear. State s and successor k have the encodings u = g(f(s)) and
// w_k = g(f(k)), both of length 1 where l2 is set (shorter than 1e-3 they are divided by that), and
//   logit_k = <u, w_k> / temperature.
// The value is a head of its own on f(s), or on a second body. There is no dropout: acting and
// learning see the same network.
//
// Any number of threads may read a policy. It runs on the CPU in float32. A row of any result
// depends on its own state alone, not on the rest of the call or on the number of threads, bit for
// bit. Its parts: proof_policy_network.h has the weights and passes through them,
// proof_policy_inference.h scores and chooses, proof_policy_training.h is the PPO model,
// proof_policy_file.h a policy on disk.
//
//     EsProofPolicySettings settings = es_proof_policy_defaults();
//     EsProofPolicy *policy;
//     ES_TRY(es_proof_policy_create(device, graph, &settings, seed, &policy));
//     ES_TRY(es_proof_policy_file_save(policy, "policy.safetensors"));
//     es_proof_policy_destroy(policy);
#ifndef ES_PROOF_PROOF_POLICY_H
#define ES_PROOF_PROOF_POLICY_H

#include "proof/search/proof_choices.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

// Embedding of an atom; positions in ES_PROOF_EMBEDDERS.
typedef enum EsProofEmbedder {
    ES_PROOF_EMBEDDER_TRANSE, // p + h - t
    ES_PROOF_EMBEDDER_SUM     // p - h - t
} EsProofEmbedder;
#define ES_PROOF_EMBEDDERS "transe|sum"

// Input of the network for a state; positions in ES_PROOF_ENCODERS.
typedef enum EsProofEncoder {
    ES_PROOF_ENCODER_NAMES,    // learned embeddings of constants and predicates
    ES_PROOF_ENCODER_STRUCTURE // features of what they do
} EsProofEncoder;
#define ES_PROOF_ENCODERS "names|structure"

#define ES_PROOF_MAX_LAYERS 64

// type, name, default as a configuration spells it, lowest, highest, help
#define ES_PROOF_POLICY_SETTINGS(X)                                                                \
    X(int, embed, 64, 1, 4096, "width of embeddings and encodings")                                \
    X(int, hidden, 128, 1, 4096, "width of the body")                                              \
    X(int, layers, 2, 0, ES_PROOF_MAX_LAYERS, "residual blocks of the body")                       \
    X(float, temperature, 0.2, 0.001, 1000, "temperature that logits are divided by")              \
    X(int, l2, 1, 0, 1, "scale encodings to length 1 before they are compared")                    \
    X(int, separate_value, 0, 0, 1, "give the value a body of its own")

typedef struct EsProofPolicySettings {
#define X(type, name, start, lowest, highest, help) type name;
    ES_PROOF_POLICY_SETTINGS(X)
#undef X
    EsProofEmbedder embedder; // of the encoder `names` alone
    EsProofEncoder encoder;
} EsProofPolicySettings;

EsProofPolicySettings es_proof_policy_defaults(void);

// CONFIG on a value out of range, naming it.
EsStatus es_proof_policy_settings_check(const EsProofPolicySettings *settings);

typedef struct EsProofPolicy EsProofPolicy;

// Fresh weights, a function of the seed: embeddings N(0,1); linear layers uniform in
// +- sqrt(6 / inputs), biases 0; the last layers orthogonal, gain sqrt(2) of the encodings and 1 of
// the value. The device, a CPU, and the graph are borrowed. The device's pool serves training.
EsStatus es_proof_policy_create(EsDevice *device, const EsKnowledgeGraph *graph,
                                const EsProofPolicySettings *settings, uint64_t seed,
                                EsProofPolicy **policy);
void es_proof_policy_destroy(EsProofPolicy *policy);

// The weights of `from`, which is of the same settings and, with the encoder `names`, graph.
void es_proof_policy_copy(EsProofPolicy *policy, const EsProofPolicy *from);

const EsProofPolicySettings *es_proof_policy_settings(const EsProofPolicy *policy);
const EsKnowledgeGraph *es_proof_policy_graph(const EsProofPolicy *policy);

// Numbers that training changes, rows of padding left out.
int64_t es_proof_policy_parameter_count(const EsProofPolicy *policy);

// Returns whether every weight is a number that can be calculated with.
int es_proof_policy_is_finite(const EsProofPolicy *policy);

ES_EXTERN_C_END

#endif
