// The events of proving: rounds, episodes and rankings as rows for the hub.
#ifndef ES_RUNS_PROVE_EVENTS_H
#define ES_RUNS_PROVE_EVENTS_H

#include "proof/agent/proof_training.h"
#include "proof/ranking/ranking_scorers.h"
#include "runs/run.h"

// The episodes of the first environments that the step at hand ended.
void es_prove_events_stepped(EsHub *hub, EsEventTime time, const EsKnowledgeGraph *graph,
                             const EsProofEnv *env);

// Counts of all episodes of a round, by depth and by predicate, and the first of its proofs.
//
// Every rank steps all environments and the counting is of their results alone, after the step:
// neither ranks nor threads matter, and nothing needs to be put together. Memory is taken once.
typedef struct EsProofCounts EsProofCounts;

// `graph` is borrowed. Depths are those that the graph has of the environment's queries.
EsStatus es_proof_counts_create(const EsKnowledgeGraph *graph, const EsProofEnv *env,
                                EsProofCounts **counts);
void es_proof_counts_destroy(EsProofCounts *counts);

// Begin a round.
void es_proof_counts_reset(EsProofCounts *counts);

// Count the episodes that the step at hand ended, whether or not anybody wants to know yet, and
// emit their proofs: trees of the states that the policy chose, derived again node by node.
void es_proof_counts_step(EsProofCounts *counts, EsHub *hub, EsEventTime time,
                          const EsProofEnv *env);

// Emit the round's counts.
void es_proof_counts_emit(const EsProofCounts *counts, EsHub *hub, EsEventTime time);

// A round: its event, its curves, the update and its anomalies.
void es_prove_events_round(EsRun *run, EsEventTime time, const EsProofRound *round);

// A ranking: the variant that scored, the split, and the time it took.
typedef struct EsProveRanked {
    const char *variant, *split;
    const EsRankingSummary *all;
    EsScorerReport report;
    double seconds;
    int64_t is_best; // ES_MISSING_INT when it is no validation
} EsProveRanked;

void es_prove_events_ranked(EsHub *hub, EsEventTime time, const EsProveRanked *ranked);

// Percent of episodes that ended as they should: true queries proved, corruptions not. NaN without
// an episode.
double es_prove_accuracy(const EsProofEnvCounters *counted);

#endif
