// Mines the rules, chooses thresholds on validation queries, and prints them.
#include "prove/prove_confidence.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "proof/ranking/ranking.h"
#include "prove/prove_action.h"

// between two lines of progress
#define PROGRESS_S 5.0

EsStatus es_prove_confidence_check(EsProveConfidence *confidence, EsKgSplit split) {
    static const char *const words[] = {"auto", "max", "noisy_or"};
    int index = 0;
    ES_TRY(
        es_prove_parse_word("aggregate", confidence->aggregate, words, ES_COUNT_OF(words), &index));
    confidence->choice.fixes_aggregation = index > 0;
    confidence->choice.aggregation = (EsConfidenceAggregation)ES_MAX(index - 1, 0);
    if (confidence->is_used && split == ES_KG_SPLIT_VALID) {
        return ES_FAIL(ARGUMENT, "--score confidence chooses its thresholds on the validation "
                                 "queries; --split names others to rank");
    }
    return ES_STATUS_OK;
}

// --- mining and choice ---

typedef struct Progress {
    int64_t start_ns, last_ns;
} Progress;

static void report_mining(void *context, int64_t n_done, int64_t n_all) {
    Progress *progress = context;
    if (es_clock_seconds_since(progress->last_ns) >= PROGRESS_S) {
        progress->last_ns = es_clock_ns();
        es_message("mined %lld of %lld pieces in %.0f s\n", (long long)n_done, (long long)n_all,
                   es_clock_seconds_since(progress->start_ns));
    }
}

static EsStatus mine(EsProveConfidence *confidence, const EsKnowledgeGraph *graph,
                     EsThreadPool *pool) {
    EsPathMinerSettings settings = es_path_miner_defaults();
    Progress progress = {es_clock_ns(), es_clock_ns()};
    settings.max_steps = confidence->max_steps;
    settings.min_support = confidence->min_support;
    settings.finds_constants = !confidence->without_constants;
    settings.report = report_mining;
    settings.context = &progress;
    EsKnowledgeGraph *part = NULL;
    confidence->n_left_out = es_prove_note_left_out(graph, "mining rules");
    if (confidence->n_left_out > 0) {
        ES_TRY(es_kg_binary_part(graph, &part));
    }
    EsStatus status =
        es_path_rules_mine(part != NULL ? part : graph, &settings, pool, &confidence->rules);
    es_kg_destroy(part);
    ES_TRY(status);
    confidence->mine_seconds = es_clock_seconds_since(progress.start_ns);
    return ES_STATUS_OK;
}

static EsStatus choose(EsProveConfidence *confidence, const EsKnowledgeGraph *graph,
                       const EsKnownAtoms *known, const EsRankingSettings *ranking,
                       EsThreadPool *pool) {
    const EsRankingChoice choice = {.split = ES_KG_SPLIT_VALID,
                                    .min_arity = 2,
                                    .max_arity = 2,
                                    .n = confidence->n_choice,
                                    .is_spaced = 1};
    EsAtom *queries;
    int64_t start_ns = es_clock_ns();
    confidence->settings = es_confidence_defaults();
    ES_TRY(es_ranking_take(graph, &choice, &queries, &confidence->n_chosen_on));
    if (confidence->n_chosen_on == 0) {
        es_release(queries);
        es_message("note: the graph has no validation queries of two arguments; confidences count "
                   "by default thresholds\n");
        if (confidence->choice.fixes_aggregation) {
            confidence->settings.aggregation = confidence->choice.aggregation;
        }
        return ES_STATUS_OK;
    }
    EsStatus status =
        es_confidence_choose(known, graph, &confidence->rules, ranking, pool, queries,
                             confidence->n_chosen_on, &confidence->settings, &confidence->choice);
    confidence->choose_seconds = es_clock_seconds_since(start_ns);
    es_release(queries);
    return status;
}

EsStatus es_prove_confidence_begin(EsProveConfidence *confidence, const EsKnowledgeGraph *graph,
                                   const EsKnownAtoms *known, const EsRankingSettings *settings,
                                   EsThreadPool *pool, int gives_odds, EsCandidateScorer *scorer) {
    ES_TRY(mine(confidence, graph, pool));
    ES_TRY(choose(confidence, graph, known, settings, pool));
    ES_TRY(es_confidence_scorer_create(graph, &confidence->rules, &confidence->settings,
                                       es_thread_pool_size(pool), &confidence->scorer));
    *scorer = es_confidence_scorer_candidates(confidence->scorer, gives_odds);
    return ES_STATUS_OK;
}

void es_prove_confidence_end(EsProveConfidence *confidence) {
    es_confidence_scorer_destroy(confidence->scorer);
    es_path_rules_destroy(&confidence->rules);
}

// --- output ---

json_t *es_prove_confidence_describe(const EsProveConfidence *confidence) {
    const EsConfidenceSettings *settings = &confidence->settings;
    if (!confidence->is_used) {
        return json_null();
    }
    return json_pack(
        "{s:s, s:i, s:f, s:i, s:f, s:i, s:b, s:i, s:i, s:o, s:i, s:[I, I, I, I], s:i, s:f, s:f}",
        "aggregate", es_confidence_aggregation_names[settings->aggregation], "top", settings->top,
        "smoothing", settings->smoothing, "min_support", settings->min_support, "min_confidence",
        settings->min_confidence, "max_steps", settings->max_steps, "constants",
        settings->uses_constants, "rules", es_confidence_scorer_n_rules(confidence->scorer),
        "chosen_on", confidence->n_chosen_on, "mrr_chosen",
        confidence->n_chosen_on > 0 ? json_real(confidence->choice.mrr) : json_null(), "tried",
        confidence->choice.n_tried, "mined_by_steps", (json_int_t)confidence->rules.n_paths[0],
        (json_int_t)confidence->rules.n_paths[1], (json_int_t)confidence->rules.n_paths[2],
        (json_int_t)confidence->rules.n_paths[3], "predicates_left_out", confidence->n_left_out,
        "mine_seconds", confidence->mine_seconds, "choose_seconds", confidence->choose_seconds);
}

void es_prove_confidence_print(const EsProveConfidence *confidence) {
    const EsConfidenceSettings *settings = &confidence->settings;
    if (!confidence->is_used) {
        return;
    }
    printf("mined from the facts: %lld, %lld, %lld rules of 1, 2, 3 steps and %lld with constants "
           "in %.1f s\n",
           (long long)confidence->rules.n_paths[1], (long long)confidence->rules.n_paths[2],
           (long long)confidence->rules.n_paths[3], (long long)confidence->rules.n_paths[0],
           confidence->mine_seconds);
    char top[32] = "all";
    if (settings->top > 0) {
        snprintf(top, sizeof top, "the %d best", settings->top);
    }
    printf("%d of them count: %s%s%s, smoothing %g, support from %d, confidence from %g, at most "
           "%d steps, %s constants\n",
           es_confidence_scorer_n_rules(confidence->scorer),
           settings->aggregation == ES_CONFIDENCE_MAX ? "max" : "noisy or",
           settings->aggregation == ES_CONFIDENCE_MAX ? "" : " of ",
           settings->aggregation == ES_CONFIDENCE_MAX ? "" : top, settings->smoothing,
           settings->min_support, settings->min_confidence, settings->max_steps,
           settings->uses_constants ? "with" : "without");
    if (confidence->n_chosen_on > 0) {
        printf("chosen from %d settings on %d validation %s in %.1f s: MRR there %.4f\n",
               confidence->choice.n_tried, confidence->n_chosen_on,
               es_prove_noun(confidence->n_chosen_on, "query", "queries"),
               confidence->choose_seconds, confidence->choice.mrr);
    }
}
