// A policy as the guides of a search: a judge for every thread.
//
//     EsProofGuides guides; ES_TRY(es_proof_guides_create(policy, n_threads, &guides));
//     ES_TRY(es_proof_scorer_create_search(graph, &search, guides.guides, kind, n_threads, &s));
//     es_proof_guides_destroy(&guides);
#ifndef ES_PROOF_PROOF_POLICY_GUIDES_H
#define ES_PROOF_PROOF_POLICY_GUIDES_H

#include "proof/agent/proof_policy_judge.h"

ES_EXTERN_C_BEGIN

typedef struct EsProofGuides {
    int n_guides;
    EsProofJudge **judges; // owned                                                   (n_guides)
    EsProofGuide *guides;  // owned                                                   (n_guides)
} EsProofGuides;

// The policy is borrowed; its weights may change between searches.
EsStatus es_proof_guides_create(const EsProofPolicy *policy, int n_guides, EsProofGuides *guides);
void es_proof_guides_destroy(EsProofGuides *guides);

ES_EXTERN_C_END

#endif
