// Rankings of a run of kind "prove": validations, and the comparison at the end. There the trained
// policy, the untrained one, the symbolic baselines of the same depth and searches without a policy
// rank the same queries against the same corruptions, so that their ranks can be paired. A second
// comparison counts the proofs that searches find, by depth.
#ifndef ES_RUNS_PROVE_EVALUATE_H
#define ES_RUNS_PROVE_EVALUATE_H

#include <jansson.h>

#include "base/checksum.h"
#include "proof/agent/proof_policy.h"
#include "proof/ranking/ranking_scorers.h"
#include "proof/search/proof_curve.h"
#include "runs/prove/prove_settings.h"
#include "runs/run.h"

// The inputs of a ranking; all borrowed.
typedef struct EsProveRanker {
    const EsProveSettings *settings;
    const EsKnowledgeGraph *graph;
    const EsKnownAtoms *known;
    EsThreadPool *pool;
    // Returns whether to give up, asked by all threads; the ranking then fails with INTERRUPTED.
    int (*must_stop)(void *context);
    void *context;
} EsProveRanker;

// Rank by searches that the policy guides. The report is filled too.
EsStatus es_prove_rank(const EsProveRanker *ranker, const EsProofPolicy *policy,
                       const EsProveQueries *queries, int n_corruptions, EsRanking **ranking,
                       EsScorerReport *report);

// --- the comparison ---

// NAME, name
#define ES_PROVE_VARIANTS(X)                                                                       \
    X(POLICY, policy)                                                                              \
    X(UNTRAINED, untrained)                                                                        \
    X(PROVED, proved)                                                                              \
    X(SHORTEST, shortest)                                                                          \
    X(UNIFORM, uniform)                                                                            \
    X(BREADTH, breadth)

typedef enum EsProveVariantKind {
#define X(NAME, name) ES_PROVE_VARIANT_##NAME,
    ES_PROVE_VARIANTS(X)
#undef X
        ES_N_PROVE_VARIANTS
} EsProveVariantKind;

const char *es_prove_variant_name(EsProveVariantKind kind);

typedef struct EsProveVariant {
    EsRankingSummary all;
    EsScorerReport report;
    double seconds;
    EsInterval difference; // reciprocal rank of the policy less this one's, over queries
} EsProveVariant;

typedef struct EsProveEvaluation {
    // filled by the caller: the weights and queries compared
    int64_t n_rounds;                       // that were trained
    int64_t best_round;                     // of the best validation, 0: there was none
    double best_mrr;                        // in it
    char policy_hash[ES_SHA256_TEXT_BYTES]; // of the file with the weights compared
    char last_hash[ES_SHA256_TEXT_BYTES];   // of that with the last weights
    int32_t n_queries;
    int32_t n_corruptions; // per query and side, 0: all
    // filled by es_prove_evaluate
    EsProveVariant variants[ES_N_PROVE_VARIANTS];
} EsProveEvaluation;

// Counts the queries of the split test that the settings compare on.
int32_t es_prove_evaluated_queries(const EsProveSettings *settings, const EsKnowledgeGraph *graph);

// Compare on the split test; each ranking is emitted to the hub of `run`, in the round after
// n_rounds.
EsStatus es_prove_evaluate(const EsProveRanker *ranker, const EsProofPolicy *policy,
                           const EsProofPolicy *untrained, EsRun *run,
                           EsProveEvaluation *evaluation);

// Emits the rankings of a comparison that an earlier session made: a resumed run takes back rows of
// later rounds than its last.
void es_prove_evaluation_emit(const EsProveEvaluation *evaluation, EsRun *run);

// --- the file ---
//
// A comparison as JSON: evaluation.json of the run's folder, and the output of --json. It says
// which weights it is of, so that a finished run that is resumed reports it and ranks nothing
// again.
//
//     ES_TRY(es_prove_evaluation_take(path, &wanted, &evaluation, &is_taken));
//     if (!is_taken) {
//         ... rank, then es_prove_evaluation_save(&evaluation, path)
//     }

// Equal runs have equal bytes but for the times ("seconds" of each variant). The caller owns it;
// NULL without memory.
json_t *es_prove_evaluation_json(const EsProveEvaluation *evaluation);

// Written atomically, every number with all its bits.
EsStatus es_prove_evaluation_save(const EsProveEvaluation *evaluation, const char *path);

// Fields that the file lacks are missing (seconds) or 0 (the scorers' further counts); null is NaN.
// INPUT names the wrong field.
EsStatus es_prove_evaluation_load(const char *path, EsProveEvaluation *evaluation);

// Checks whether the file has the comparison that is wanted: after as many rounds, with the same
// last weights, of as many queries and corruptions. Then it is loaded. A file that cannot be used
// is warned of; one that is not there is not. Fails with MEMORY alone.
EsStatus es_prove_evaluation_take(const char *path, const EsProveEvaluation *wanted,
                                  EsProveEvaluation *evaluation, int *is_taken);

// --- proofs within a limit ---
//
// A search that proves more with as many expansions is worth its policy. Three searches of the same
// queries stand beside the trained one: that of the weights it began with, one under equal
// probabilities, and breadth first.

// NAME, name
#define ES_PROVE_GUIDES(X)                                                                         \
    X(TRAINED, trained)                                                                            \
    X(UNTRAINED, untrained)                                                                        \
    X(UNIFORM, uniform)                                                                            \
    X(BREADTH, breadth)

typedef enum EsProveGuide {
#define X(NAME, name) ES_PROVE_GUIDE_##NAME,
    ES_PROVE_GUIDES(X)
#undef X
        ES_N_PROVE_GUIDES
} EsProveGuide;

const char *es_prove_guide_name(EsProveGuide guide);

// groups of queries: all, those of three steps or more, then those of 2, 3, ... steps
#define ES_PROVE_MOST_STEPS 10
#define ES_N_PROVE_GROUPS   (2 + ES_PROVE_MOST_STEPS - 1)

typedef struct EsProveProofs {
    int64_t n_nodes; // expansions that each search may make
    int32_t max_steps;
    int has_untrained;
    EsProofTally tallies[ES_N_PROVE_GUIDES][ES_N_PROVE_GROUPS];
} EsProveProofs;

// "all", "3 or more", "2", ...
void es_prove_group_name(int group, char text[16]);

// The searches to compare; all borrowed. Queries count whose shortest proof, found breadth first,
// takes from two to max_steps steps; of more than n_most of these evenly spaced ones (0: all).
typedef struct EsProveContest {
    const EsKnowledgeGraph *graph;
    EsProofSearchSettings settings; // of the trained search; the others have its limits
    const EsProofPolicy *trained;
    const EsProofPolicy *untrained; // NULL: left out
    EsThreadPool *pool;             // its threads change no result
    const EsAtom *queries;
    int32_t n_queries, max_steps, n_most;
} EsProveContest;

EsStatus es_prove_proofs_count(const EsProveContest *contest, EsProveProofs *proofs);

// The caller owns it; NULL without memory.
json_t *es_prove_proofs_json(const EsProveProofs *proofs);

#endif
