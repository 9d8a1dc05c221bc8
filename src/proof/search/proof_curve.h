// Number of proofs that a search finds against the number of states it may expand.
//
// A search takes the same way under any budget and only stops earlier, so one search per query with
// the largest budget gives the results of every smaller one.
//
//     EsProofCurve *curve;
//     ES_TRY(es_proof_curve_create(graph, &settings, guides, pool, queries, count, &curve));
//     int64_t budget = es_proof_curve_budget(curve, count / 2); // proves half of them
//     es_proof_curve_destroy(curve);
#ifndef ES_PROOF_PROOF_CURVE_H
#define ES_PROOF_PROOF_CURVE_H

#include "base/thread_pool.h"
#include "proof/search/proof_search.h"

ES_EXTERN_C_BEGIN

typedef struct EsProofCurve {
    int32_t n_queries, n_proved;
    int64_t *expanded; // by query: until the proof, or in all; owned                 (n_queries)
    int32_t *depth;    // of the proof found, ES_KG_DEPTH_NONE without one; owned     (n_queries)
    int64_t *needed;   // expansions of the proved ones, ascending; owned              (n_proved)
} EsProofCurve;

// Search every query, each of the graph's query_cells; settings->max_expanded is the largest
// budget. `guides` holds one per thread of the pool, NULL: equal probabilities. Nothing depends on
// the number of threads.
EsStatus es_proof_curve_create(const EsKnowledgeGraph *graph, const EsProofSearchSettings *settings,
                               const EsProofGuide *guides, EsThreadPool *pool,
                               const EsAtom *queries, int32_t count, EsProofCurve **curve);
void es_proof_curve_destroy(EsProofCurve *curve);

// Counts the queries proved when each search may expand `budget` states.
int32_t es_proof_curve_proofs(const EsProofCurve *curve, int64_t budget);

// The least budget that proves n_proofs queries, 1 or more; -1 when they are not reached.
int64_t es_proof_curve_budget(const EsProofCurve *curve, int32_t n_proofs);

// Expansions of all searches together under that budget.
int64_t es_proof_curve_spent(const EsProofCurve *curve, int64_t budget);

// Queries of one kind, how many of them a search proved, and its expansions.
typedef struct EsProofTally {
    int32_t n_queries, n_proved;
    double low, high; // of the share that was proved, percent: Wilson's interval, 95 %
    int64_t n_expanded;
} EsProofTally;

// Counts the queries whose shortest proof takes lowest to highest steps, by their depths
// (n_queries), when each search may expand `budget` states. The interval of no query is NaN.
EsProofTally es_proof_curve_tally(const EsProofCurve *curve, const int32_t *depths, int32_t lowest,
                                  int32_t highest, int64_t budget);

ES_EXTERN_C_END

#endif
