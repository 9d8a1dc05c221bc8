// Loads the embedding model, fits the weights on validation queries where asked for, and prints
// them.
#include "prove/prove_fusion.h"

#include <math.h>
#include <stdio.h>

#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "proof/ranking/ranking.h"
#include "prove/prove_action.h"

EsStatus es_prove_fusion_check(const EsProveFusion *fusion, EsKgSplit split) {
    if (fusion->path == NULL && (fusion->fits || fusion->is_alone)) {
        return ES_FAIL(ARGUMENT, "--%s goes with --embedding FILE",
                       fusion->fits ? "fit" : "embedding-alone");
    }
    if (fusion->fits && fusion->is_alone) {
        return ES_FAIL(ARGUMENT, "--fit and --embedding-alone exclude each other: without proofs "
                                 "there is nothing to weigh");
    }
    if (fusion->fits && split == ES_KG_SPLIT_VALID) {
        return ES_FAIL(ARGUMENT,
                       "--fit takes the validation queries; --split names others to rank");
    }
    return ES_STATUS_OK;
}

static EsStatus fit_weights(EsProveFusion *fusion, const EsKnowledgeGraph *graph,
                            const EsKnownAtoms *known, const EsRankingSettings *settings,
                            EsThreadPool *pool) {
    const EsRankingChoice choice = {.split = ES_KG_SPLIT_VALID,
                                    .min_arity = 2,
                                    .max_arity = 2,
                                    .n = fusion->n_fit,
                                    .is_spaced = 1};
    EsAtom *queries;
    ES_TRY(es_ranking_take(graph, &choice, &queries, &fusion->n_fitted));
    if (fusion->n_fitted == 0) {
        es_release(queries);
        return ES_FAIL(INPUT, "--fit: the graph has no validation queries of two arguments");
    }
    EsStatus status = es_fusion_scorer_fit(fusion->scorer, known, settings, pool, queries,
                                           fusion->n_fitted, &fusion->report);
    es_release(queries);
    return status;
}

EsStatus es_prove_fusion_begin(EsProveFusion *fusion, const EsKnowledgeGraph *graph,
                               const EsKnownAtoms *known, const EsRankingSettings *settings,
                               EsThreadPool *pool, int gives_probability,
                               EsCandidateScorer *scorer) {
    if (fusion->path == NULL) {
        return ES_STATUS_OK;
    }
    EsFusionWeights weights = {.embedding = (float)fusion->weight,
                               .bonus = (float)fusion->bonus,
                               .penalty = (float)fusion->penalty,
                               .per_step = (float)fusion->per_step,
                               .log_probability = (float)fusion->log_weight};
    EsFusionProofs proofs = {.scorer = *scorer, .gives_probability = gives_probability};
    if (fusion->is_alone) {
        proofs = (EsFusionProofs){.gives_probability = 0};
    }
    ES_TRY(es_embedding_model_load(fusion->path, graph, &fusion->model));
    ES_TRY(es_fusion_create(graph, weights, &fusion->fusion));
    ES_TRY(
        es_fusion_scorer_create(fusion->model, fusion->fusion, &proofs, es_thread_pool_size(pool),
                                es_fusion_scorer_candidates_of(known, settings), &fusion->scorer));
    if (fusion->fits) {
        ES_TRY(fit_weights(fusion, graph, known, settings, pool));
    }
    *scorer = es_fusion_scorer_candidates(fusion->scorer);
    return ES_STATUS_OK;
}

void es_prove_fusion_end(EsProveFusion *fusion) {
    es_fusion_scorer_destroy(fusion->scorer);
    es_fusion_destroy(fusion->fusion);
    es_embedding_model_destroy(fusion->model);
}

json_t *es_prove_fusion_describe(const EsProveFusion *fusion) {
    if (fusion->path == NULL) {
        return json_null();
    }
    const EsFusionWeights *weights = &fusion->fusion->overall;
    const EsFusionReport *report = &fusion->report;
    json_t *fit = json_null();
    if (fusion->fits) {
        fit = json_pack("{s:i, s:f, s:f, s:f, s:f, s:i}", "queries", fusion->n_fitted,
                        "mrr_embedding", report->mrr_embedding, "mrr_before", report->mrr_before,
                        "mrr_overall", report->mrr_overall, "mrr_after", report->mrr_after,
                        "predicates_with_own", report->n_own);
    }
    // a path that is not UTF-8 cannot be written as JSON
    json_t *path = json_string(fusion->path);
    return json_pack(
        "{s:o, s:b, s:f, s:f, s:f, s:f, s:f, s:o}", "embedding", path != NULL ? path : json_null(),
        "alone", fusion->is_alone, "embedding_weight", (double)weights->embedding, "bonus",
        (double)weights->bonus, "penalty", (double)weights->penalty, "per_step",
        (double)weights->per_step, "log_probability", (double)weights->log_probability, "fit", fit);
}

void es_prove_fusion_print(const EsProveFusion *fusion) {
    if (fusion->path == NULL) {
        return;
    }
    const EsFusionWeights *weights = &fusion->fusion->overall;
    const EsFusionReport *report = &fusion->report;
    if (fusion->is_alone) {
        es_print("score by the embedding %s alone\n", fusion->path);
        return;
    }
    es_print("fused with %s: %g log k, %c %g with a proof, %c %g per further step, %c %g without\n",
             fusion->path, (double)weights->embedding, weights->bonus < 0 ? '-' : '+',
             fabs((double)weights->bonus), weights->per_step < 0 ? '+' : '-',
             fabs((double)weights->per_step), weights->penalty < 0 ? '+' : '-',
             fabs((double)weights->penalty));
    if (weights->log_probability != 0) {
        printf("and %g times the logarithm of its probability or odds\n",
               (double)weights->log_probability);
    }
    if (fusion->fits) {
        printf("fitted on %d validation %s, own weights for %d %s: MRR there %.4f by the "
               "embedding, %.4f before, %.4f after\n",
               fusion->n_fitted, es_prove_noun(fusion->n_fitted, "query", "queries"), report->n_own,
               es_prove_noun(report->n_own, "predicate", "predicates"), report->mrr_embedding,
               report->mrr_before, report->mrr_after);
    }
}
