#include "runs/prove/prove_evaluate.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "proof/agent/proof_policy_inference.h"
#include "runs/prove/prove_events.h"

const char *es_prove_arm_name(EsProveArmKind kind) {
    static const char *const names[] = {
#define X(NAME, name) #name,
        ES_PROVE_ARMS(X)
#undef X
    };
    return names[kind];
}

// --- queries ---

EsStatus es_prove_queries_create(const EsKnowledgeGraph *graph, EsKgSplit split, int32_t n,
                                 EsProveQueries *queries) {
    const EsQuerySplit *all = &graph->splits[split];
    int32_t *numbers = NULL;
    EsStatus status = ES_STATUS_OK;
    size_t capacity = (size_t)ES_MAX(all->count, 1);
    *queries = (EsProveQueries){.count = 0};
    ES_TRY_GOTO(es_allocate(capacity * sizeof *numbers, (void **)&numbers));
    ES_TRY_GOTO(es_allocate(capacity * sizeof *queries->atoms, (void **)&queries->atoms));
    queries->count = es_ranking_choose(all->count, n, 1, numbers);
    for (int32_t i = 0; i < queries->count; i++) {
        queries->atoms[i] = all->atoms[numbers[i]];
    }
done:
    es_release(numbers);
    return status;
}

void es_prove_queries_destroy(EsProveQueries *queries) {
    es_release(queries->atoms);
    queries->atoms = NULL;
    queries->count = 0;
}

// --- one ranking ---

// A scorer that asks before each piece of work whether it is still wanted.
typedef struct Guard {
    const EsProveRanker *ranker;
    EsCandidateScorer scorer;
} Guard;

static EsStatus score_guarded(void *context, int worker, const EsAtom *candidates, int32_t count,
                              EsCandidateScore *scores) {
    const Guard *guard = context;
    if (guard->ranker->must_stop(guard->ranker->context)) {
        return ES_FAIL(INTERRUPTED, "the ranking was given up");
    }
    return guard->scorer.score(guard->scorer.context, worker, candidates, count, scores);
}

static EsStatus rank(const EsProveRanker *ranker, EsProofScorer *scorer,
                     const EsProveQueries *queries, int n_corruptions, EsRanking **ranking,
                     EsScorerReport *report) {
    Guard guard = {ranker, es_proof_scorer_candidates(scorer)};
    EsCandidateScorer guarded = {.context = &guard, .score = score_guarded};
    EsRankingSettings settings = es_prove_settings_ranking(ranker->settings, n_corruptions);
    ES_TRY(es_ranking_create(ranker->known, &settings, &guarded, ranker->pool, queries->atoms, NULL,
                             queries->count, ranking));
    *report = es_proof_scorer_report(scorer);
    return ES_STATUS_OK;
}

EsStatus es_prove_rank(const EsProveRanker *ranker, const EsProofPolicy *policy,
                       const EsProveQueries *queries, int n_corruptions, EsRanking **ranking,
                       EsScorerReport *report) {
    EsProofSearchSettings search = es_prove_settings_search(ranker->settings);
    int n_workers = es_thread_pool_size(ranker->pool);
    EsProofGuides guides;
    EsProofScorer *scorer = NULL;
    EsStatus status = ES_STATUS_OK;
    *ranking = NULL;
    ES_TRY(es_proof_guides_create(policy, n_workers, &guides));
    ES_TRY_GOTO(es_proof_scorer_create_search(ranker->graph, &search, guides.guides,
                                              (EsScoreKind)ranker->settings->score, n_workers,
                                              &scorer));
    ES_TRY_GOTO(rank(ranker, scorer, queries, n_corruptions, ranking, report));
done:
    es_proof_scorer_destroy(scorer);
    es_proof_guides_destroy(&guides);
    return status;
}

// The bounded prover, with nothing learned.
static EsStatus rank_symbolic(const EsProveRanker *ranker, EsScoreKind kind,
                              const EsProveQueries *queries, EsRanking **ranking,
                              EsScorerReport *report) {
    EsProverSettings prover = es_prover_defaults();
    EsProofScorer *scorer = NULL;
    prover.selection = (EsGoalSelection)ranker->settings->selection;
    prover.max_depth = ranker->settings->search_depth;
    prover.max_atoms = ranker->settings->max_atoms;
    ES_TRY(es_proof_scorer_create_prover(ranker->graph, &prover, kind,
                                         es_thread_pool_size(ranker->pool), &scorer));
    EsStatus status =
        rank(ranker, scorer, queries, ranker->settings->n_evaluated_corruptions, ranking, report);
    es_proof_scorer_destroy(scorer);
    return status;
}

// --- the comparison ---

typedef struct Comparison {
    const EsProveRanker *ranker;
    const EsProofPolicy *policies[ES_N_PROVE_ARMS]; // NULL: symbolic
    EsProveQueries queries;                         // owned
    double *ranks[ES_N_PROVE_ARMS];                 // owned: reciprocal ranks of all queries
    EsProveEvaluation *evaluation;
} Comparison;

// In the round after the last one.
static void tell_arm(const EsProveEvaluation *evaluation, EsProveArmKind kind, EsRun *run) {
    const EsProveArm *arm = &evaluation->arms[kind];
    EsProveRanked ranked = {es_prove_arm_name(kind), "test", &arm->all, arm->report, arm->seconds,
                            ES_MISSING_INT};
    EsEventTime time = {.round = evaluation->n_rounds + 1, .step = -1};
    es_prove_events_ranked(es_run_hub(run), time, &ranked);
}

void es_prove_evaluation_tell(const EsProveEvaluation *evaluation, EsRun *run) {
    for (int a = 0; a < ES_N_PROVE_ARMS; a++) {
        tell_arm(evaluation, (EsProveArmKind)a, run);
    }
}

static EsStatus rank_arm(Comparison *comparison, EsProveArmKind kind, EsRun *run) {
    const EsProveRanker *ranker = comparison->ranker;
    const EsProofPolicy *policy = comparison->policies[kind];
    EsProveArm *arm = &comparison->evaluation->arms[kind];
    EsRanking *ranking = NULL;
    EsStatus status = ES_STATUS_OK;
    int64_t start_ns = es_clock_ns();
    if (policy != NULL) {
        ES_TRY(es_prove_rank(ranker, policy, &comparison->queries,
                             ranker->settings->n_evaluated_corruptions, &ranking, &arm->report));
    } else {
        ES_TRY(rank_symbolic(ranker,
                             kind == ES_PROVE_ARM_PROVED ? ES_SCORE_PROVED : ES_SCORE_SHORTEST,
                             &comparison->queries, &ranking, &arm->report));
    }
    arm->seconds = es_clock_seconds_since(start_ns);
    arm->all = ranking->all;
    size_t n = (size_t)ES_MAX(ranking->n_queries, 1);
    ES_TRY_GOTO(es_allocate(n * sizeof(double), (void **)&comparison->ranks[kind]));
    for (int32_t i = 0; i < ranking->n_queries; i++) {
        comparison->ranks[kind][i] = ranking->queries[i].mean.reciprocal;
    }
    tell_arm(comparison->evaluation, kind, run);
done:
    es_ranking_destroy(ranking);
    return status;
}

// Queries without a corruption have rank 0 in all arms and change nothing but the divisor; they
// are left out of means, and so here.
static EsStatus compare_arms(Comparison *comparison) {
    EsProveEvaluation *evaluation = comparison->evaluation;
    const double *first = comparison->ranks[ES_PROVE_ARM_POLICY];
    double *difference = NULL;
    ES_TRY(
        es_allocate((size_t)comparison->queries.count * sizeof *difference, (void **)&difference));
    EsStatus status = ES_STATUS_OK;
    for (int a = 1; a < ES_N_PROVE_ARMS && status == ES_STATUS_OK; a++) {
        int64_t n = 0;
        for (int32_t i = 0; i < comparison->queries.count; i++) {
            if (first[i] > 0) {
                difference[n++] = first[i] - comparison->ranks[a][i];
            }
        }
        if (n > 0) {
            status = es_bootstrap_mean(difference, n, sizeof *difference,
                                       (uint64_t)comparison->ranker->settings->run.seed,
                                       (uint32_t)a, &evaluation->arms[a].difference);
        }
    }
    es_release(difference);
    return status;
}

int32_t es_prove_evaluated_queries(const EsProveSettings *settings, const EsKnowledgeGraph *graph) {
    int32_t n_all = graph->splits[ES_KG_SPLIT_TEST].count;
    return settings->n_evaluated > 0 ? ES_MIN(settings->n_evaluated, n_all) : n_all;
}

EsStatus es_prove_evaluate(const EsProveRanker *ranker, const EsProofPolicy *policy,
                           const EsProofPolicy *untrained, EsRun *run,
                           EsProveEvaluation *evaluation) {
    Comparison comparison = {.ranker = ranker, .evaluation = evaluation};
    EsStatus status = ES_STATUS_OK;
    memset(evaluation->arms, 0, sizeof evaluation->arms);
    comparison.policies[ES_PROVE_ARM_POLICY] = policy;
    comparison.policies[ES_PROVE_ARM_UNTRAINED] = untrained;
    ES_TRY(es_prove_queries_create(ranker->graph, ES_KG_SPLIT_TEST, ranker->settings->n_evaluated,
                                   &comparison.queries));
    ES_ASSERT(comparison.queries.count == evaluation->n_queries);
    for (int a = 0; a < ES_N_PROVE_ARMS; a++) {
        ES_TRY_GOTO(rank_arm(&comparison, (EsProveArmKind)a, run));
    }
    ES_TRY_GOTO(compare_arms(&comparison));
done:
    for (int a = 0; a < ES_N_PROVE_ARMS; a++) {
        es_release(comparison.ranks[a]);
    }
    es_prove_queries_destroy(&comparison.queries);
    return status;
}
