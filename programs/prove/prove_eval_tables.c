// The figures of `esper prove eval`, as tables and as JSON.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/frame.h"
#include "prove/prove_eval.h"
#include "prove/prove_words.h"
#include "telemetry/text.h"

// columns of a name; longer ones are cut
#define NAME_WIDTH 28

static const char *const side_names[ES_N_CORRUPT_SIDES] = {"head", "tail"};

const char *es_prove_eval_search_name(int search) {
    return search == 0 ? "prover" : es_search_kind_names[search - 1];
}

// --- JSON ---

// JSON has no NaN, which stands for an interval of one query.
static json_t *describe_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *describe_summary(const EsRankingSummary *summary) {
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:I, s:I, s:I}", "queries",
                     summary->n_queries, "mrr", describe_number(summary->reciprocal.mean),
                     "mrr_low", describe_number(summary->reciprocal.low), "mrr_high",
                     describe_number(summary->reciprocal.high), "hits_1",
                     describe_number(summary->hits[0]), "hits_3", describe_number(summary->hits[1]),
                     "hits_10", describe_number(summary->hits[2]), "proved", summary->n_proved,
                     "limited", summary->n_limited, "negatives", (json_int_t)summary->n_negatives,
                     "negatives_proved", (json_int_t)summary->n_negatives_proved,
                     "negatives_limited", (json_int_t)summary->n_negatives_limited);
}

// An object of summaries; predicates by name, depths by number.
static json_t *describe_groups(const EsRankingGroup *groups, int32_t n_groups,
                               const char *const *names) {
    json_t *object = json_object();
    for (int32_t i = 0; i < n_groups && object != NULL; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", groups[i].key);
        const char *key = names != NULL ? names[groups[i].key] : number;
        if (json_object_set_new(object, key, describe_summary(&groups[i].summary)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *describe_sides(const EsProveEval *eval) {
    json_t *object = json_object();
    for (int side = 0; side < ES_N_CORRUPT_SIDES && object != NULL; side++) {
        if (eval->settings.uses_side[side] &&
            json_object_set_new(object, side_names[side],
                                describe_summary(&eval->ranking->sides[side])) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *describe_settings(const EsProveEval *eval) {
    const EsRankingSettings *settings = &eval->settings;
    // a path that is not UTF-8 cannot be written as JSON
    json_t *name = json_string(es_prove_source_name(eval->source));
    return json_pack(
        "{s:o, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:i, s:b, s:I, s:i}", "data",
        name != NULL ? name : json_null(), "split", es_prove_split_names[eval->split], "search",
        es_prove_eval_search_name(eval->search), "score", es_score_kind_names[eval->score],
        "selection", es_prove_selection_names[eval->prover.selection], "max_depth",
        eval->prover.max_depth, "max_atoms", eval->prover.max_atoms, "max_states",
        eval->prover.max_states, "spaced", eval->is_spaced, "corruptions", settings->n_corruptions,
        "domains", settings->corruptions.uses_domains, "draw_seed",
        (json_int_t)settings->corruptions.seed, "queries", eval->ranking->n_queries);
}

// The settings of a search; null for the prover, which has none of them.
static json_t *describe_search(const EsProveEval *eval) {
    const EsProofSearchSettings *search = &eval->searches;
    if (eval->search == 0) {
        return json_null();
    }
    // as the name of the data, above
    json_t *policy = eval->policy_path != NULL ? json_string(eval->policy_path) : NULL;
    return json_pack("{s:o, s:f, s:I, s:i, s:i, s:i, s:i, s:b, s:i}", "policy",
                     policy != NULL ? policy : json_null(), "value_weight", search->value_weight,
                     "nodes", (json_int_t)search->max_expanded, "max_successors",
                     search->max_successors, "beam_width", search->beam_width, "samples",
                     search->n_samples, "batch", search->batch, "end", search->has_end,
                     "reference_depth", eval->reference_depth);
}

EsStatus es_prove_eval_print_json(const EsProveEval *eval) {
    const EsRanking *ranking = eval->ranking;
    const EsScorerReport *report = &eval->report;
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:f}",
        "settings", describe_settings(eval), "search_settings", describe_search(eval), "fusion",
        es_prove_fusion_describe(&eval->fusion), "all", describe_summary(&ranking->all), "sides",
        describe_sides(eval), "by_depth",
        describe_groups(ranking->by_depth, ranking->n_depths, NULL), "by_predicate",
        describe_groups(ranking->by_predicate, ranking->n_predicates, eval->graph->predicate_names),
        "without_negatives", ranking->n_without, "work", "candidates",
        (json_int_t)report->n_candidates, "proved", (json_int_t)report->n_proved, "limited",
        (json_int_t)report->n_limited, "expanded", (json_int_t)report->n_expanded, "overlong",
        (json_int_t)report->n_overlong, "overflow", (json_int_t)report->n_overflow, "seconds",
        eval->seconds);
    return es_json_print(root, 6);
}

// --- tables ---

static void print_summary(const char *name, const EsRankingSummary *summary) {
    char interval[32] = "-";
    if (isfinite(summary->reciprocal.low)) {
        snprintf(interval, sizeof interval, "%.3f-%.3f", summary->reciprocal.low,
                 summary->reciprocal.high);
    }
    char cut[4 * NAME_WIDTH + 1];
    size_t n_kept = es_text_fit(name, ES_MIN(strlen(name), sizeof cut - 1), NAME_WIDTH);
    snprintf(cut, sizeof cut, "%.*s", (int)n_kept, name);
    es_padded_text_print(cut, NAME_WIDTH, stdout);
    printf(" %7d   %.3f  %-11s  %.3f  %.3f  %.3f   %5.1f %%  %6.2f %%\n", summary->n_queries,
           summary->reciprocal.mean, interval, summary->hits[0], summary->hits[1], summary->hits[2],
           100.0 * summary->n_proved / ES_MAX(summary->n_queries, 1),
           100.0 * (double)summary->n_negatives_proved / (double)ES_MAX(summary->n_negatives, 1));
}

// What queries without a proof are called: none within the depth that was searched.
static void print_depths(const EsProveEval *eval) {
    const EsRanking *ranking = eval->ranking;
    int by_prover = eval->search > 0 && eval->reference_depth > 0;
    int max_depth = by_prover ? eval->reference_depth : eval->prover.max_depth;
    for (int32_t i = 0; i < ranking->n_depths; i++) {
        int32_t key = ranking->by_depth[i].key;
        char name[32];
        if (key == ES_KG_DEPTH_NONE) {
            snprintf(name, sizeof name, "none up to %d", max_depth);
        } else if (key == ES_PROVER_DEPTH_UNKNOWN) {
            snprintf(name, sizeof name, "undecided");
        } else {
            snprintf(name, sizeof name, "depth %d", key);
        }
        print_summary(name, &ranking->by_depth[i].summary);
    }
}

static void print_predicates(const EsProveEval *eval) {
    const EsRanking *ranking = eval->ranking;
    for (int32_t i = 0; i < ranking->n_predicates; i++) {
        const EsRankingGroup *group = &ranking->by_predicate[i];
        print_summary(eval->graph->predicate_names[group->key], &group->summary);
    }
}

static void print_work(const EsProveEval *eval) {
    const EsScorerReport *report = &eval->report;
    printf(
        "%lld candidates, %lld proved, %lld undecided at a limit; %lld %s, "
        "%lld %s too long, %lld over the limit on successors; %.1f s\n",
        (long long)report->n_candidates, (long long)report->n_proved, (long long)report->n_limited,
        (long long)report->n_expanded, es_prove_noun(report->n_expanded, "expansion", "expansions"),
        (long long)report->n_overlong, es_prove_noun(report->n_overlong, "successor", "successors"),
        (long long)report->n_overflow, eval->seconds);
}

void es_prove_eval_print_table(const EsProveEval *eval) {
    const EsRanking *ranking = eval->ranking;
    const EsRankingSettings *settings = &eval->settings;
    char corruptions[32] = "all";
    if (settings->n_corruptions > 0) {
        snprintf(corruptions, sizeof corruptions, "%d", settings->n_corruptions);
    }
    es_print(
        "%s: %d %s of the split %s against %s %s a side%s, score %s by %s, %s goals, at most %d "
        "%s and %d %s\n",
        es_prove_source_name(eval->source), ranking->n_queries,
        es_prove_noun(ranking->n_queries, "query", "queries"), es_prove_split_names[eval->split],
        corruptions, es_prove_noun(settings->n_corruptions, "corruption", "corruptions"),
        settings->corruptions.uses_domains ? " of the same domain" : "",
        es_score_kind_names[eval->score], es_prove_eval_search_name(eval->search),
        es_prove_selection_names[eval->prover.selection], eval->prover.max_depth,
        es_prove_noun(eval->prover.max_depth, "step", "steps"), eval->prover.max_atoms,
        es_prove_noun(eval->prover.max_atoms, "atom", "atoms"));
    if (eval->policy_path != NULL) {
        es_print("guided by %s", eval->policy_path);
        es_prove_print_value_weight(eval->searches.value_weight);
        printf(", at most %lld %s\n", (long long)eval->searches.max_expanded,
               es_prove_noun(eval->searches.max_expanded, "node", "nodes"));
    }
    es_prove_fusion_print(&eval->fusion);
    printf("%-*s %7s   %-5s  %-11s  %-5s  %-5s  %-5s   %7s  %8s\n", NAME_WIDTH, "", "queries",
           "MRR", "95 %", "H@1", "H@3", "H@10", "proved", "negatives");
    print_summary("all", &ranking->all);
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        if (settings->uses_side[side]) {
            print_summary(side_names[side], &ranking->sides[side]);
        }
    }
    print_depths(eval);
    if (eval->shows_predicates) {
        print_predicates(eval);
    }
    print_work(eval);
}
