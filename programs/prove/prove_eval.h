// What `esper prove eval` was asked and what came of it, and the tables it prints.
#ifndef ES_PROGRAMS_PROVE_EVAL_H
#define ES_PROGRAMS_PROVE_EVAL_H

#include "proof/agent/proof_policy_inference.h"
#include "proof/ranking/ranking_scorers.h"
#include "prove/prove_fusion.h"
#include "prove/prove_source.h"

// what scores candidates: the prover, or one of the kinds of search
#define ES_PROVE_EVAL_N_SEARCHES (1 + ES_N_SEARCH_KINDS)

typedef struct EsProveEval {
    const EsProveSource *source;
    EsKgSplit split;
    int search; // 0: the prover, else 1 + EsSearchKind
    EsScoreKind score;
    EsProverSettings prover;        // also gives the depths that group queries
    EsProofSearchSettings searches; // with search > 0
    int reference_depth;            // of the prover that groups queries; 0: proofs found do
    EsRankingSettings settings;
    int n_queries, is_spaced;
    int n_threads, shows_predicates;
    const char *policy_path; // that guides the search; NULL: none
    EsProveFusion fusion;    // with an embedding model
    // filled by the evaluation
    const EsKnowledgeGraph *graph; // owned by the command
    EsRanking *ranking;            // likewise
    EsScorerReport report;
    double seconds;
    EsDevice *device;      // of the policy, as what follows; owned by the command
    EsProofPolicy *policy; //
    EsProofGuides guides;  //
} EsProveEval;

// "prover", "breadth", ...
const char *es_prove_eval_search_name(int search);

EsStatus es_prove_eval_print_json(const EsProveEval *eval);
void es_prove_eval_print_table(const EsProveEval *eval);

#endif
