// What a judge holds, for the trainee that keeps the rows of its calls.
#ifndef ES_PROOF_PROOF_POLICY_JUDGE_INTERNAL_H
#define ES_PROOF_PROOF_POLICY_JUDGE_INTERNAL_H

#include "proof/agent/proof_policy_judge.h"
#include "proof/agent/proof_policy_memory.h"

ES_EXTERN_C_BEGIN

struct EsProofJudge {
    EsProofMemory *memory; // owned
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
