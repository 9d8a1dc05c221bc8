// A run of kind "prove": a policy learns to prove queries of a knowledge graph. A round is some
// steps of all environments and one update. Now and then the policy ranks validation queries; the
// weights that did best are kept beside the last ones. When all rounds are done the best are
// compared, on test queries, with the untrained policy and with symbolic proofs; evaluation.json
// keeps that, and a later session with nothing left to do takes it from there.
//
//     EsProveRun *prove; ES_TRY(es_prove_run_create(&settings, &prove));
//     EsRunWork work = es_prove_run_work(prove);
//     ES_TRY(es_run_rounds(run, &work));
#ifndef ES_RUNS_PROVE_RUN_H
#define ES_RUNS_PROVE_RUN_H

#include "runs/prove/prove_evaluate.h"

typedef struct EsProveRun EsProveRun;

EsStatus es_prove_run_create(const EsProveSettings *settings, EsProveRun **prove);
void es_prove_run_destroy(EsProveRun *prove);
EsRunWork es_prove_run_work(EsProveRun *prove);

const char *es_prove_run_data_hash(const EsProveRun *prove); // SHA-256 of the graph, as text
const EsKnowledgeGraph *es_prove_run_graph(const EsProveRun *prove);
EsProofTraining *es_prove_run_training(EsProveRun *prove);

// Estimates the memory of rounds and rankings. None of it is sure: the number of states that a
// round or a search will meet is not known ahead.
EsStatus es_prove_run_need(EsProveRun *prove, EsRunNeed *need);

// The best validation so far: its round, 0 before any, and MRR.
int64_t es_prove_run_best(const EsProveRun *prove, double *mrr);

// The comparison at the end, made or taken; NULL when there was none.
const EsProveEvaluation *es_prove_run_evaluation(const EsProveRun *prove);

// Proofs of the best weights' searches; NULL when they were not counted.
const EsProveProofs *es_prove_run_proofs(const EsProveRun *prove);

// The report of the last round of this session; NULL without one.
const EsProofRound *es_prove_run_last(const EsProveRun *prove);

#endif
