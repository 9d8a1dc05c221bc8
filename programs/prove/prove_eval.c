// `esper prove eval`: ranks queries against their corruptions.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "esper/log.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/ranking/ranking_scorers.h"
#include "prove/prove_action.h"
#include "prove/prove_confidence.h"
#include "prove/prove_fusion.h"
#include "telemetry/text.h"

#define PROGRESS_S 5.0

// scorers of candidates: the prover, and the kinds of search
#define N_SEARCHES (1 + ES_N_SEARCH_KINDS)

typedef struct Evaluation {
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
    const char *policy_path;      // that guides the search; NULL: none
    EsProveFusion fusion;         // with an embedding model
    EsProveConfidence confidence; // in the place of proofs
    // filled by the evaluation
    const EsKnowledgeGraph *graph; // owned by the command
    EsRanking *ranking;            // likewise
    int32_t n_left_out;            // queries of the split that no ranking of this kind can have
    EsProveProofs proofs;          // of a search that a policy guides
    int has_proofs;
    EsScorerReport report;
    double seconds;
    EsDevice *device;      // of the policy, like the next two; owned by the command
    EsProofPolicy *policy; //
    EsProofGuides guides;  //
} Evaluation;

// --- results ---

// columns of a name; longer ones are cut
#define NAME_WIDTH 28

static const char *const side_names[ES_N_CORRUPT_SIDES] = {"head", "tail"};

// a score besides those of proofs
#define CONFIDENCE "confidence"

// "proved", ..., "confidence".
static const char *score_name(const Evaluation *eval) {
    return eval->confidence.is_used ? CONFIDENCE : es_score_kind_names[eval->score];
}

// "prover", "breadth", ...
static const char *search_name(int search) {
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

static json_t *describe_sides(const Evaluation *eval) {
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

static json_t *describe_settings(const Evaluation *eval) {
    const EsRankingSettings *settings = &eval->settings;
    // a path that is not UTF-8 cannot be written as JSON
    json_t *name = json_string(es_prove_source_name(eval->source));
    return json_pack(
        "{s:o, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:i, s:b, s:I, s:i}", "data",
        name != NULL ? name : json_null(), "split", es_prove_split_names[eval->split], "search",
        eval->confidence.is_used ? "rules" : search_name(eval->search), "score", score_name(eval),
        "selection", es_prove_selection_names[eval->prover.selection], "max_depth",
        eval->prover.max_depth, "max_atoms", eval->prover.max_atoms, "max_states",
        eval->prover.max_states, "spaced", eval->is_spaced, "corruptions", settings->n_corruptions,
        "domains", settings->corruptions.uses_domains, "draw_seed",
        (json_int_t)settings->corruptions.seed, "queries", eval->ranking->n_queries);
}

// The settings of a search; null for the prover, which has none of them.
static json_t *describe_search(const Evaluation *eval) {
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

static EsStatus print_json(const Evaluation *eval) {
    const EsRanking *ranking = eval->ranking;
    const EsScorerReport *report = &eval->report;
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:o, "
        "s:f}",
        "settings", describe_settings(eval), "search_settings", describe_search(eval), "fusion",
        es_prove_fusion_describe(&eval->fusion), "confidence",
        es_prove_confidence_describe(&eval->confidence), "all", describe_summary(&ranking->all),
        "sides", describe_sides(eval), "by_depth",
        describe_groups(ranking->by_depth, ranking->n_depths, NULL), "by_predicate",
        describe_groups(ranking->by_predicate, ranking->n_predicates, eval->graph->predicate_names),
        "without_negatives", ranking->n_without, "left_out", eval->n_left_out, "work", "candidates",
        (json_int_t)report->n_candidates, "proved", (json_int_t)report->n_proved, "limited",
        (json_int_t)report->n_limited, "expanded", (json_int_t)report->n_expanded, "overlong",
        (json_int_t)report->n_overlong, "overflow", (json_int_t)report->n_overflow, "proofs",
        eval->has_proofs ? es_prove_proofs_json(&eval->proofs) : json_null(), "seconds",
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

// Queries without a proof are called "none up to" the depth that was searched.
static void print_depths(const Evaluation *eval) {
    const EsRanking *ranking = eval->ranking;
    int by_prover = eval->search > 0 && eval->reference_depth > 0;
    int max_depth = by_prover ? eval->reference_depth : eval->prover.max_depth;
    for (int32_t i = 0; i < ranking->n_depths; i++) {
        int32_t key = ranking->by_depth[i].key;
        char name[32];
        if (key == ES_KG_DEPTH_NONE && eval->confidence.is_used) {
            snprintf(name, sizeof name, "no rule fires");
        } else if (key == ES_KG_DEPTH_NONE) {
            snprintf(name, sizeof name, "none up to %d", max_depth);
        } else if (key == ES_PROVER_DEPTH_UNKNOWN) {
            snprintf(name, sizeof name, "undecided");
        } else {
            snprintf(name, sizeof name, "depth %d", key);
        }
        print_summary(name, &ranking->by_depth[i].summary);
    }
}

static void print_predicates(const Evaluation *eval) {
    const EsRanking *ranking = eval->ranking;
    for (int32_t i = 0; i < ranking->n_predicates; i++) {
        const EsRankingGroup *group = &ranking->by_predicate[i];
        print_summary(eval->graph->predicate_names[group->key], &group->summary);
    }
}

static void print_work(const Evaluation *eval) {
    const EsScorerReport *report = &eval->report;
    if (eval->confidence.is_used) {
        printf("%lld candidates, a rule fires for %lld; %.1f s\n", (long long)report->n_candidates,
               (long long)report->n_proved, eval->seconds);
        return;
    }
    printf(
        "%lld candidates, %lld proved, %lld undecided at a limit; %lld %s, "
        "%lld %s too long, %lld over the limit on successors; %.1f s\n",
        (long long)report->n_candidates, (long long)report->n_proved, (long long)report->n_limited,
        (long long)report->n_expanded, es_prove_noun(report->n_expanded, "expansion", "expansions"),
        (long long)report->n_overlong, es_prove_noun(report->n_overlong, "successor", "successors"),
        (long long)report->n_overflow, eval->seconds);
}

// The first line of a table, and what the scores come from.
static void print_head(const Evaluation *eval) {
    const EsRankingSettings *settings = &eval->settings;
    char corruptions[32] = "all";
    if (settings->n_corruptions > 0) {
        snprintf(corruptions, sizeof corruptions, "%d", settings->n_corruptions);
    }
    es_print("%s: %d %s of the split %s against %s %s %s%s, score %s",
             es_prove_source_name(eval->source), eval->ranking->n_queries,
             es_prove_noun(eval->ranking->n_queries, "query", "queries"),
             es_prove_split_names[eval->split], corruptions,
             es_prove_noun(settings->n_corruptions, "corruption", "corruptions"),
             es_prove_per_place(eval->graph),
             settings->corruptions.uses_domains ? " of the same domain" : "", score_name(eval));
    if (eval->confidence.is_used) {
        printf(" of rules\n");
        return;
    }
    printf(" by %s, %s goals, at most %d %s and %d %s\n", search_name(eval->search),
           es_prove_selection_names[eval->prover.selection], eval->prover.max_depth,
           es_prove_noun(eval->prover.max_depth, "step", "steps"), eval->prover.max_atoms,
           es_prove_noun(eval->prover.max_atoms, "atom", "atoms"));
    if (eval->policy_path != NULL) {
        es_print("guided by %s", eval->policy_path);
        es_prove_print_value_weight(eval->searches.value_weight);
        printf(", at most %lld %s\n", (long long)eval->searches.max_expanded,
               es_prove_noun(eval->searches.max_expanded, "node", "nodes"));
    }
}

static void print_table(const Evaluation *eval) {
    const EsRanking *ranking = eval->ranking;
    const EsRankingSettings *settings = &eval->settings;
    print_head(eval);
    es_prove_confidence_print(&eval->confidence);
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
    if (eval->has_proofs) {
        es_prove_print_proofs(&eval->proofs);
    }
}

// --- the evaluation ---

typedef struct Progress {
    int64_t start_ns, last_ns;
    const char *what; // is ranked
} Progress;

static void show_progress(void *context, int32_t n_done, int32_t count) {
    Progress *progress = context;
    if (es_clock_seconds_since(progress->last_ns) >= PROGRESS_S) {
        progress->last_ns = es_clock_ns();
        es_log(ES_LOG_INFO, "ranked %d of %d %s in %.0f s", n_done, count, progress->what,
               es_clock_seconds_since(progress->start_ns));
    }
}

// The policy and a scorer per thread, where one was asked for.
static EsStatus open_policy(Evaluation *eval, int n_workers) {
    if (eval->policy_path == NULL) {
        return ES_STATUS_OK;
    }
    // scorers work in the threads of the ranking; the device's own are not used
    EsDeviceOptions options = {.n_threads = 1};
    ES_TRY(es_device_open("cpu", &options, &eval->device));
    ES_TRY(es_prove_source_load_policy(eval->source, eval->device, eval->graph, eval->policy_path,
                                       &eval->policy));
    return es_proof_guides_create(eval->policy, n_workers, &eval->guides);
}

static void close_policy(Evaluation *eval) {
    es_proof_guides_destroy(&eval->guides);
    es_proof_policy_destroy(eval->policy);
    es_device_close(eval->device);
}

// Creates the scorer of proofs.
static EsStatus make_scorer(const Evaluation *eval, int n_workers, EsProofScorer **scorer) {
    if (eval->search == 0) {
        return es_proof_scorer_create_prover(eval->graph, &eval->prover, eval->score, n_workers,
                                             scorer);
    }
    return es_proof_scorer_create_search(eval->graph, &eval->searches, eval->guides.guides,
                                         eval->score, n_workers, scorer);
}

// Shortest depths of the queries, where the scorer does not find them itself; else NULL.
static EsStatus find_reference_depths(const Evaluation *eval, EsThreadPool *pool,
                                      const EsAtom *queries, int32_t count, int32_t **depths) {
    *depths = NULL;
    if (eval->search == 0 || eval->reference_depth == 0 || eval->confidence.is_used) {
        return ES_STATUS_OK;
    }
    EsProverSettings settings = eval->prover;
    EsProverReport report;
    settings.max_depth = eval->reference_depth;
    ES_TRY(es_allocate((size_t)count * sizeof **depths, (void **)depths));
    return es_prover_find_depths(eval->graph, &settings, pool, queries, count, *depths, &report);
}

// Returns whether candidates are scored by rules mined or by an embedding, which know predicates of
// two arguments alone.
static int is_ranking_pairs(const Evaluation *eval) {
    return eval->confidence.is_used || eval->fusion.path != NULL;
}

// The chosen queries of the split, and how many.
static EsStatus choose_queries(Evaluation *eval, EsAtom **queries, int32_t *count) {
    int32_t n_all = eval->graph->splits[eval->split].count;
    int is_binary = is_ranking_pairs(eval);
    EsRankingChoice choice = {.split = eval->split,
                              .min_arity = is_binary ? 2 : 1,
                              .max_arity = is_binary ? 2 : ES_KG_MAX_ARITY,
                              .n = eval->n_queries,
                              .is_spaced = eval->is_spaced};
    int32_t n_ranked = es_ranking_count(eval->graph, &choice);
    if (n_ranked == 0) {
        return ES_FAIL(INPUT, "%s has no queries%s in the split %s",
                       es_prove_source_name(eval->source),
                       n_all == 0  ? ""
                       : is_binary ? " of predicates of two arguments"
                                   : " of predicates with arguments",
                       es_prove_split_names[eval->split]);
    }
    eval->n_left_out = n_all - n_ranked;
    return es_ranking_take(eval->graph, &choice, queries, count);
}

// Proofs of the policy's search by depth, beside searches without it.
static EsStatus count_proofs(Evaluation *eval, EsThreadPool *pool, const EsAtom *queries,
                             int32_t count) {
    if (eval->policy == NULL || eval->reference_depth == 0) {
        return ES_STATUS_OK;
    }
    EsProveContest contest = {.graph = eval->graph,
                              .settings = eval->searches,
                              .trained = eval->policy,
                              .pool = pool,
                              .queries = queries,
                              .n_queries = count,
                              .max_steps = ES_MIN(eval->reference_depth, eval->searches.max_depth)};
    eval->has_proofs = 1;
    return es_prove_proofs_count(&contest, &eval->proofs);
}

// The scorer of the candidates, by proofs or by confidences.
static EsStatus begin_scores(Evaluation *eval, const EsKnownAtoms *known, EsThreadPool *pool,
                             EsProofScorer **proofs, EsCandidateScorer *scorer) {
    if (eval->confidence.is_used) {
        return es_prove_confidence_begin(&eval->confidence, eval->graph, known, &eval->settings,
                                         pool, eval->fusion.path != NULL, scorer);
    }
    ES_TRY(open_policy(eval, es_thread_pool_size(pool)));
    ES_TRY(make_scorer(eval, es_thread_pool_size(pool), proofs));
    *scorer = es_proof_scorer_candidates(*proofs);
    return ES_STATUS_OK;
}

static void reset_report(const Evaluation *eval, EsProofScorer *proofs) {
    if (eval->confidence.is_used) {
        es_confidence_scorer_reset_count(eval->confidence.scorer);
    } else {
        es_proof_scorer_reset_report(proofs);
    }
}

static void make_report(Evaluation *eval, const EsProofScorer *proofs) {
    if (eval->confidence.is_used) {
        es_confidence_scorer_count(eval->confidence.scorer, &eval->report.n_candidates,
                                   &eval->report.n_proved);
    } else {
        eval->report = es_proof_scorer_report(proofs);
    }
}

static EsStatus rank_queries(Evaluation *eval) {
    EsThreadPool *pool = NULL;
    EsKnownAtoms *known = NULL;
    EsProofScorer *proofs = NULL;
    EsAtom *queries = NULL;
    int32_t *depths = NULL, count = 0;
    EsCandidateScorer scorer;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(choose_queries(eval, &queries, &count));
    ES_TRY_GOTO(es_thread_pool_create(&pool, eval->n_threads));
    ES_TRY_GOTO(es_known_atoms_create(eval->graph, &known));
    int64_t start_ns = es_clock_ns();
    Progress progress = {start_ns, start_ns,
                         "validation queries of the choice, each several times,"};
    eval->settings.progress = show_progress;
    eval->settings.progress_context = &progress;
    ES_TRY_GOTO(begin_scores(eval, known, pool, &proofs, &scorer));
    progress = (Progress){es_clock_ns(), es_clock_ns(), "validation queries of the fit"};
    ES_TRY_GOTO(find_reference_depths(eval, pool, queries, count, &depths));
    int gives_probability = eval->confidence.is_used || eval->score >= ES_SCORE_PROBABILITY;
    ES_TRY_GOTO(es_prove_fusion_begin(&eval->fusion, eval->graph, known, &eval->settings, pool,
                                      gives_probability, &scorer));
    reset_report(eval, proofs); // candidates of a fit are not ranked
    progress = (Progress){es_clock_ns(), es_clock_ns(), "queries"};
    ES_TRY_GOTO(es_ranking_create(known, &eval->settings, &scorer, pool, queries, depths, count,
                                  &eval->ranking));
    make_report(eval, proofs);
    eval->seconds = es_clock_seconds_since(start_ns);
    ES_TRY_GOTO(count_proofs(eval, pool, queries, count));
done:
    es_proof_scorer_destroy(proofs);
    close_policy(eval);
    es_known_atoms_destroy(known);
    es_thread_pool_destroy(pool);
    es_release(queries);
    es_release(depths);
    return status;
}

static void warn_of_limits(const Evaluation *eval) {
    if (eval->report.n_limited > 0) {
        es_message("warning: %lld of %lld candidates met a limit without a proof and %s as "
                   "unproved (%s raises it)\n",
                   (long long)eval->report.n_limited, (long long)eval->report.n_candidates,
                   es_prove_noun(eval->report.n_limited, "counts", "count"),
                   eval->search == 0 ? "--max-states" : "--nodes or --max-states");
    }
    if (eval->n_left_out > 0) {
        es_message("note: %d %s of the split %s %s left out: %s\n", eval->n_left_out,
                   es_prove_noun(eval->n_left_out, "query", "queries"),
                   es_prove_split_names[eval->split], es_prove_noun(eval->n_left_out, "is", "are"),
                   is_ranking_pairs(eval)
                       ? "confidences and embeddings are of predicates of two arguments"
                       : "without arguments there is no corruption");
    }
    if (eval->ranking->n_without > 0) {
        es_message("warning: %d %s no corruption and %s left out\n", eval->ranking->n_without,
                   es_prove_noun(eval->ranking->n_without, "query has", "queries have"),
                   es_prove_noun(eval->ranking->n_without, "is", "are"));
    }
}

static EsStatus run_eval(Evaluation *eval, int as_json) {
    EsKnowledgeGraph *graph = NULL;
    EsStatus status = ES_STATUS_OK;
    // without proofs a graph needs no rules, but their names are the graph's where there are some
    ES_TRY_GOTO(es_prove_source_load_using(
        eval->source, eval->confidence.is_used ? ES_KG_RULES_IF_THERE : ES_KG_RULES_NEEDED,
        &graph));
    eval->graph = graph;
    if (eval->settings.corruptions.uses_domains) {
        ES_TRY_GOTO(
            es_corruptions_need_domains(graph, "--domains", es_prove_source_name(eval->source)));
    }
    ES_TRY_GOTO(rank_queries(eval));
    warn_of_limits(eval);
    if (as_json) {
        ES_TRY_GOTO(print_json(eval));
    } else {
        print_table(eval);
    }
done:
    es_prove_fusion_end(&eval->fusion);
    es_prove_confidence_end(&eval->confidence);
    es_ranking_destroy(eval->ranking);
    es_kg_destroy(graph);
    return status;
}

// --- the command line ---

// Values as typed, which are then checked and moved into an Evaluation.
typedef struct Typed {
    EsProveSource source;
    EsProveFusion fusion;
    EsProveConfidence confidence;
    const char *split, *sides, *search, *score, *selection, *policy_path;
    int n_queries, is_spaced, n_corruptions, uses_domains, draw_seed;
    int max_depth, max_atoms, max_states, max_successors, n_nodes, beam_width, n_samples, batch;
    int has_end, reference_depth, shows_predicates, n_threads, as_json;
    double temperature, value_weight;
} Typed;

// "head", "tail" or both, with a comma.
static EsStatus parse_sides(const char *text, int uses_side[ES_N_CORRUPT_SIDES]) {
    static const char *const words[] = {"head", "tail", "head,tail", "tail,head"};
    int index = 0;
    ES_TRY(es_prove_parse_word("sides", text, words, ES_COUNT_OF(words), &index));
    uses_side[ES_CORRUPT_HEAD] = index != 1;
    uses_side[ES_CORRUPT_TAIL] = index != 0;
    return ES_STATUS_OK;
}

static EsStatus parse_words(const Typed *typed, Evaluation *eval) {
    const char *searches[N_SEARCHES], *scores[ES_N_SCORE_KINDS + 1];
    int score = 0;
    for (int i = 0; i < N_SEARCHES; i++) {
        searches[i] = search_name(i);
    }
    memcpy(scores, es_score_kind_names, sizeof es_score_kind_names);
    scores[ES_N_SCORE_KINDS] = CONFIDENCE;
    ES_TRY(es_prove_parse_queries(typed->split, typed->selection, &eval->split,
                                  &eval->prover.selection));
    ES_TRY(es_prove_parse_word("score", typed->score, scores, ES_COUNT_OF(scores), &score));
    ES_TRY(es_prove_parse_word("search", typed->search, searches, N_SEARCHES, &eval->search));
    ES_TRY(parse_sides(typed->sides, eval->settings.uses_side));
    eval->confidence.is_used = score == ES_N_SCORE_KINDS;
    eval->score = eval->confidence.is_used ? ES_SCORE_PROVED : (EsScoreKind)score;
    if (eval->confidence.is_used && (eval->search != 0 || typed->policy_path != NULL)) {
        return ES_FAIL(ARGUMENT, "--score confidence walks rules; it goes with neither --search "
                                 "nor --policy");
    }
    eval->searches.selection = eval->prover.selection;
    if (eval->search == 0 && eval->score >= ES_SCORE_PROBABILITY) {
        return ES_FAIL(ARGUMENT, "--score %s needs a --search other than prover", typed->score);
    }
    if (typed->policy_path != NULL && eval->search <= 1 + ES_SEARCH_BREADTH) {
        return ES_FAIL(ARGUMENT, "--policy guides a --search: best_first, beam, greedy or sampled");
    }
    if (typed->value_weight > 0 && typed->policy_path == NULL) {
        return ES_FAIL(ARGUMENT, "--value-weight needs --policy, which gives the values");
    }
    eval->policy_path = typed->policy_path;
    return ES_STATUS_OK;
}

static EsStatus apply_options(const Typed *typed, Evaluation *eval) {
    Evaluation made = {.source = &typed->source,
                       .prover = es_prover_defaults(),
                       .searches = es_proof_search_defaults(),
                       .settings = es_ranking_defaults()};
    made.confidence = typed->confidence;
    ES_TRY(parse_words(typed, &made));
    ES_TRY(es_prove_confidence_check(&made.confidence, made.split));
    ES_TRY(es_prove_fusion_check(&typed->fusion, made.split));
    made.fusion = typed->fusion;
    made.n_queries = typed->n_queries;
    made.is_spaced = typed->is_spaced;
    made.n_threads = typed->n_threads;
    made.shows_predicates = typed->shows_predicates;
    made.reference_depth = typed->reference_depth;
    made.settings.n_corruptions = typed->n_corruptions;
    made.settings.corruptions.seed = (uint64_t)typed->draw_seed;
    made.settings.corruptions.uses_domains = typed->uses_domains;
    made.prover.max_depth = made.searches.max_depth = typed->max_depth;
    made.prover.max_atoms = made.searches.max_atoms = typed->max_atoms;
    made.prover.max_states = made.searches.max_entries = typed->max_states;
    made.searches.kind = (EsSearchKind)ES_MAX(made.search - 1, 0);
    made.searches.max_expanded = typed->n_nodes;
    made.searches.max_successors = typed->max_successors;
    made.searches.beam_width = typed->beam_width;
    made.searches.n_samples = typed->n_samples;
    made.searches.batch = typed->batch;
    made.searches.has_end = typed->has_end;
    made.searches.temperature = typed->temperature;
    made.searches.value_weight = typed->value_weight;
    made.searches.seed = (uint64_t)typed->draw_seed;
    *eval = made;
    return ES_STATUS_OK;
}

// Entries for the table of options: queries and corruptions; and the search for proofs.
#define QUERY_OPTIONS(typed)                                                                       \
    ES_OPTION_TEXT("split", &(typed)->split, "test", "NAME", "queries: train, valid or test"),     \
        ES_OPTION_INT("queries", &(typed)->n_queries, "500", 0, 2147483647, "N",                   \
                      "the first N queries of the split; 0: all"),                                 \
        ES_OPTION_FLAG("spaced", &(typed)->is_spaced,                                              \
                       "evenly spaced queries instead of the first"),                              \
        ES_OPTION_INT("corruptions", &(typed)->n_corruptions, "100", 0, 2147483647, "N",           \
                      "negatives per query and argument; 0: all"),                                 \
        ES_OPTION_TEXT("sides", &(typed)->sides, "head,tail", "LIST",                              \
                       "arguments that corruptions replace: head (the first), tail (the others)"), \
        ES_OPTION_FLAG("domains", &(typed)->uses_domains,                                          \
                       "replace by constants of the same domain"),                                 \
        ES_OPTION_INT("draw-seed", &(typed)->draw_seed, "0", 0, 2147483647, "N",                   \
                      "seed of corruptions, sampled walks and intervals")

#define SEARCH_OPTIONS(typed)                                                                      \
    ES_OPTION_TEXT("search", &(typed)->search, "prover", "NAME",                                   \
                   "prover, breadth, best_first, beam, greedy or sampled"),                        \
        ES_OPTION_TEXT(                                                                            \
            "score", &(typed)->score, "proved", "NAME",                                            \
            "proved, shortest, probability, evidence (of all proofs) or confidence (of rules)"),   \
        ES_OPTION_FLOAT("temperature", &(typed)->temperature, "3", 0.001, 1e6, "X",                \
                        "divisor of log-probabilities of proofs in --score evidence"),             \
        ES_OPTION_INT("max-depth", &(typed)->max_depth, "4", 1, ES_SEARCH_MAX_DEPTH, "N",          \
                      "maximum steps of a proof"),                                                 \
        ES_OPTION_INT("max-atoms", &(typed)->max_atoms, "6", 1, ES_PROOF_MAX_ATOMS, "N",           \
                      "maximum atoms left to prove at a time"),                                    \
        ES_OPTION_INT(                                                                             \
            "max-states", &(typed)->max_states, "4000000", 1, 1 << 28, "N",                        \
            "maximum states per candidate; ~0.2 kB each: 4000000 take 0.8 GB per thread"),         \
        ES_OPTION_INT("max-successors", &(typed)->max_successors, "0", 0, 1 << 28, "N",            \
                      "maximum successors of a state in a search; 0: all"),                        \
        ES_OPTION_TEXT("policy", &(typed)->policy_path, NULL, "FILE",                              \
                       "a trained policy (esper prove train) that guides the search"),             \
        ES_OPTION_FLOAT("value-weight", &(typed)->value_weight, "0", 0,                            \
                        ES_SEARCH_MAX_VALUE_WEIGHT, "W",                                           \
                        "order states by log-probability + W log(value); needs --policy"),         \
        ES_OPTION_INT("nodes", &(typed)->n_nodes, "1000", 1, 2147483647, "N",                      \
                      "maximum expansions of a search per candidate"),                             \
        ES_OPTION_INT("beam-width", &(typed)->beam_width, "16", 1, 1 << 20, "N",                   \
                      "states kept per level of a beam"),                                          \
        ES_OPTION_INT("samples", &(typed)->n_samples, "16", 1, 1 << 20, "N",                       \
                      "walks of a sampled search"),                                                \
        ES_OPTION_INT("batch", &(typed)->batch, "1", 1, 1 << 16, "N", "states scored together"),   \
        ES_OPTION_FLAG("end", &(typed)->has_end, "offer giving up as a choice"),                   \
        ES_OPTION_INT("reference-depth", &(typed)->reference_depth, "4", 0, ES_SEARCH_MAX_DEPTH,   \
                      "N", "group queries of a search by depths up to N; 0: by proofs found")

// Notes options that the chosen search and score have no use for.
static void note_unused(const EsOptionTable *table, const EsArguments *arguments,
                        const Evaluation *eval, const Typed *typed) {
    if (!eval->confidence.is_used) {
        es_options_note_unused(table, arguments, ES_PROVE_CONFIDENCE_NAMES,
                               "without --score confidence");
    } else {
        es_options_note_unused(table, arguments, "max-depth max-atoms max-states selection",
                               "with --score confidence, which proves nothing");
    }
    if (eval->search == 0) {
        es_options_note_unused(table, arguments, "max-successors nodes batch end reference-depth",
                               "with --search prover");
    }
    if (eval->search != 1 + ES_SEARCH_BEAM) {
        es_options_note_unused(table, arguments, "beam-width", "without --search beam");
    }
    if (eval->search != 1 + ES_SEARCH_SAMPLED) {
        es_options_note_unused(table, arguments, "samples", "without --search sampled");
    }
    if (eval->score != ES_SCORE_EVIDENCE) {
        es_options_note_unused(table, arguments, "temperature", "without --score evidence");
    }
    if (typed->n_queries == 0) {
        es_options_note_unused(table, arguments, "spaced", "with --queries 0, which takes all");
    }
    if (!typed->fusion.fits) {
        es_options_note_unused(table, arguments, "fit-queries", "without --fit");
    }
    if (!eval->confidence.is_used && eval->score < ES_SCORE_PROBABILITY) {
        es_options_note_unused(table, arguments, "log-weight",
                               "without --score probability, evidence or confidence");
    }
    if (typed->fusion.path == NULL || typed->fusion.is_alone) {
        es_options_note_unused(
            table, arguments, "embedding-weight bonus penalty per-step log-weight",
            typed->fusion.is_alone ? "with --embedding-alone" : "without --embedding");
    }
}

EsExit cmd_prove_eval(int argc, char **argv) {
    Typed typed = {.n_threads = 0};
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&typed.source),
        QUERY_OPTIONS(&typed),
        SEARCH_OPTIONS(&typed),
        ES_OPTION_FLAG("by-predicate", &typed.shows_predicates, "print a line per predicate, too"),
        ES_OPTION_TEXT("selection", &typed.selection, "constrained", "NAME",
                       "goal resolved next: constrained (fewest variables) or leftmost"),
        ES_PROVE_FUSION_OPTIONS(&typed.fusion),
        ES_PROVE_CONFIDENCE_OPTIONS(&typed.confidence),
        ES_OPTION_INT("threads", &typed.n_threads, "0", 0, 1024, "N",
                      "threads; 0: one per processor"),
        ES_OPTION_FLAG("json", &typed.as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove eval",
        .usage = "[options]",
        .summary = "Ranks queries against corruptions that are not known to be true, by whether "
                   "and how they\ncan be proved: MRR, Hits@k and proof rates. Ties count by "
                   "expectation. Queries of 1 to 4\narguments are ranked, of one to four places; "
                   "confidences and embeddings rank those of two.",
        .example = "esper prove eval --data kg/family --spaced --score shortest",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    Evaluation eval;
    EsExit code;
    if (!es_prove_source_begin(&typed.source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = apply_options(&typed, &eval);
    if (status == ES_STATUS_OK) {
        note_unused(&table, &arguments, &eval, &typed);
        status = run_eval(&eval, typed.as_json);
    }
    return es_command_finish("prove eval", status);
}
