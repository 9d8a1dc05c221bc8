// States with their successors, as a policy sees them, and the interface of the guide of a search.
//
// The rows are ragged: state i has its own number of successors, nothing is padded. Terms and the
// terminal states True, False, End are as in proof_rules.h.
#ifndef ES_PROOF_PROOF_CHOICES_H
#define ES_PROOF_PROOF_CHOICES_H

#include "proof/search/proof_rules.h"

ES_EXTERN_C_BEGIN

// N states with M successors in all. Everything is borrowed.
typedef struct EsProofChoices {
    const EsAtomSpan *states;     // not terminal                                             (N)
    const int32_t *first;         // successors of state i: first[i] to first[i+1] - 1    (N + 1)
    const EsAtomSpan *successors; // at least one per state                                   (M)
    int32_t n_states;
    EsGoalSelection selection; // of the goal that these successors resolve
    const EsAtom *queries;     // of the proofs that the states belong to, each of the graph's
                               // query_cells; NULL: not known
    int32_t n_queries;         // N, or 1: the same for all
} EsProofChoices;

// Guides a search by the probability of each successor.
typedef struct EsProofGuide {
    void *context;
    // log_probability (M): over the successors of one state their exponentials sum to 1. value (M):
    // the expected return of each successor, for a terminal one anything; may be NULL.
    // The result for a state depends on its query, which counts as no fact, and not on the other
    // states of the call.
    EsStatus (*score)(void *context, const EsProofChoices *choices, float *log_probability,
                      float *value);
} EsProofGuide;

ES_EXTERN_C_END

#endif
