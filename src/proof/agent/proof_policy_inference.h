// Inference with a policy: logits, probabilities and values of choices, and the choice itself.
//
// A scorer belongs to one thread; each thread of a search has its own, and all give the same bits.
// It caches the encodings of states until the weights change or it is full. With a pool
// one call is spread over its threads; then nothing else may use the pool during the call.
//
//     EsProofPolicyScorer *scorer;
//     ES_TRY(es_proof_policy_scorer_create(policy, NULL, 1 << 16, &scorer));
//     EsProofGuide guide = es_proof_policy_scorer_guide(scorer);
//     ES_TRY(guide.score(guide.context, &choices, log_probability, value));
//
// N states and M successors as in proof_choices.h.
#ifndef ES_PROOF_PROOF_POLICY_INFERENCE_H
#define ES_PROOF_PROOF_POLICY_INFERENCE_H

#include "proof/agent/proof_policy.h"

ES_EXTERN_C_BEGIN

typedef struct EsProofPolicyScorer EsProofPolicyScorer;

// Policy and pool are borrowed; pool NULL: the calling thread alone. Caches up to max_states,
// and those of one call more.
EsStatus es_proof_policy_scorer_create(const EsProofPolicy *policy, EsThreadPool *pool,
                                       int32_t max_states, EsProofPolicyScorer **scorer);
void es_proof_policy_scorer_destroy(EsProofPolicyScorer *scorer);

// logits (M), that of an only successor 0; value (N), may be NULL.
EsStatus es_proof_policy_scorer_logits(EsProofPolicyScorer *scorer, const EsProofChoices *choices,
                                       float *logits, float *value);

// Values (N) alone; successors are not looked at.
EsStatus es_proof_policy_scorer_values(EsProofPolicyScorer *scorer, const EsProofChoices *choices,
                                       float *value);

// As EsProofGuide's score; `context` is an EsProofPolicyScorer.
EsStatus es_proof_policy_score(void *context, const EsProofChoices *choices, float *log_probability,
                               float *value);
EsProofGuide es_proof_policy_scorer_guide(EsProofPolicyScorer *scorer);

// Identifies the random draw of a choice: it depends on this key and the seed alone.
typedef struct EsDrawKey {
    uint32_t env, episode, step;
} EsDrawKey;

// Choose a successor of each state by its logits (M): `action` (N) counts from the state's first
// successor. With keys (N) it is drawn, with NULL the most likely is taken, the first of equals.
EsStatus es_proof_policy_scorer_choose(EsProofPolicyScorer *scorer, const EsProofChoices *choices,
                                       const float *logits, uint64_t seed, const EsDrawKey *keys,
                                       int32_t *action);

// Counts of states computed so far, which show the savings of the cache.
typedef struct EsProofPolicyScorerCounters {
    int64_t n_encoded, n_valued; // states encoded, states valued
    int32_t n_states;            // remembered now
} EsProofPolicyScorerCounters;
EsProofPolicyScorerCounters es_proof_policy_scorer_counters(const EsProofPolicyScorer *scorer);

// A policy as the guides of a search: one scorer per thread.
//
//     EsProofGuides guides; ES_TRY(es_proof_guides_create(policy, n_threads, &guides));
//     ES_TRY(es_proof_scorer_create_search(graph, &search, guides.guides, kind, n_threads, &s));
//     es_proof_guides_destroy(&guides);
typedef struct EsProofGuides {
    int n_guides;
    EsProofPolicyScorer *
        *scorers;         // owned                                                   (n_guides)
    EsProofGuide *guides; // owned                                                   (n_guides)
} EsProofGuides;

// The policy is borrowed; its weights may change between searches.
EsStatus es_proof_guides_create(const EsProofPolicy *policy, int n_guides, EsProofGuides *guides);
void es_proof_guides_destroy(EsProofGuides *guides);

// Bytes of one guide that meets n_states of n_atoms each on average; its cache holds a limited
// number of them.
size_t es_proof_guide_bytes(const EsProofPolicy *policy, double n_states, double n_atoms);

ES_EXTERN_C_END

#endif
