// A proof policy as a file: safetensors with the weights by name, and metadata: its settings and a
// hash of the graph's names. With the encoder `names` a graph that differs is refused with a
// message; with `structure` only one without rules is. docs/file-formats.md has the bytes.
//
//     ES_TRY(es_proof_policy_file_save(policy, "policy.safetensors"));
//     ES_TRY(es_proof_policy_file_load(device, graph, "policy.safetensors", &policy));
#ifndef ES_PROOF_PROOF_POLICY_FILE_H
#define ES_PROOF_PROOF_POLICY_FILE_H

#include "proof/agent/proof_policy.h"
#include "tensor/safetensors.h"

ES_EXTERN_C_BEGIN

// A safetensors file, written atomically: weights, settings, and a hash of the graph's names.
EsStatus es_proof_policy_file_save(const EsProofPolicy *policy, const char *path);

// A policy with the file's settings and weights. INPUT when the file is damaged, no policy, or does
// not fit the graph, which the message says.
EsStatus es_proof_policy_file_load(EsDevice *device, const EsKnowledgeGraph *graph,
                                   const char *path, EsProofPolicy **policy);

// Take the weights of a file into a policy of the same graph and settings. INPUT when it is of
// others, or as above; the policy is then as it was.
EsStatus es_proof_policy_file_reload(EsProofPolicy *policy, const char *path);

// Returns whether a file that could not be loaded is a policy, but of another graph's names.
int es_proof_policy_file_is_foreign(const char *path, const EsKnowledgeGraph *graph);

// Metadata of a file, shared by policies and checkpoints of training; fills
// ES_PROOF_POLICY_METADATA entries whose values point into `text`.
#define ES_PROOF_POLICY_METADATA 15 // the last is the hash of the tensors
typedef struct EsProofPolicyMetadata {
    EsMetadata entry[ES_PROOF_POLICY_METADATA];
    int count;
    char text[ES_PROOF_POLICY_METADATA][72];
} EsProofPolicyMetadata;
void es_proof_policy_file_metadata(const EsProofPolicy *policy, EsProofPolicyMetadata *notes);

// INPUT unless the file was written for a policy of these settings and this graph.
EsStatus es_proof_policy_file_check(const EsProofPolicy *policy, const char *path);

ES_EXTERN_C_END

#endif
