#include "proof/agent/proof_policy_guides.h"

#include <string.h>

#include "base/memory.h"

// states whose encodings a thread remembers
#define REMEMBERED (1 << 16)

EsStatus es_proof_guides_create(const EsProofPolicy *policy, int n_guides, EsProofGuides *guides) {
    EsStatus status = ES_STATUS_OK;
    size_t n = (size_t)n_guides;
    memset(guides, 0, sizeof *guides);
    ES_TRY_GOTO(es_allocate(n * sizeof(EsProofJudge *), (void **)&guides->judges));
    ES_TRY_GOTO(es_allocate(n * sizeof *guides->guides, (void **)&guides->guides));
    guides->n_guides = n_guides;
    for (int i = 0; i < n_guides; i++) {
        ES_TRY_GOTO(es_proof_judge_create(policy, NULL, REMEMBERED, &guides->judges[i]));
        guides->guides[i] = es_proof_judge_guide(guides->judges[i]);
    }
done:
    if (status != ES_STATUS_OK) {
        es_proof_guides_destroy(guides);
    }
    return status;
}

void es_proof_guides_destroy(EsProofGuides *guides) {
    for (int i = 0; i < guides->n_guides; i++) {
        es_proof_judge_destroy(guides->judges[i]);
    }
    es_release(guides->judges);
    es_release(guides->guides);
    memset(guides, 0, sizeof *guides);
}
