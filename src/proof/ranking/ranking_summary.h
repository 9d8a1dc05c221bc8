// The figures of a ranking from the ranks of its queries; called by es_ranking_create.
#ifndef ES_PROOF_RANKING_SUMMARY_H
#define ES_PROOF_RANKING_SUMMARY_H

#include "proof/ranking/ranking.h"

ES_EXTERN_C_BEGIN

// Fill everything but `queries`; depths as in es_ranking_create.
EsStatus es_ranking_summarise(EsRanking *ranking, const EsAtom *queries, const int32_t *depths,
                              uint64_t seed);

ES_EXTERN_C_END

#endif
