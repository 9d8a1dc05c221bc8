// `esper prove eval`: ranks queries against their corruptions.
#include "prove/prove_eval.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "esper/log.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "prove/prove_action.h"
#include "prove/prove_words.h"

#define PROGRESS_S 5.0

// --- the evaluation ---

typedef struct Progress {
    int64_t start_ns, last_ns;
} Progress;

static void show_progress(void *context, int32_t n_done, int32_t count) {
    Progress *progress = context;
    if (es_clock_seconds_since(progress->last_ns) >= PROGRESS_S) {
        progress->last_ns = es_clock_ns();
        es_log(ES_LOG_INFO, "ranked %d of %d queries in %.0f s", n_done, count,
               es_clock_seconds_since(progress->start_ns));
    }
}

// The policy and a judge per thread, where one was asked for.
static EsStatus open_policy(EsProveEval *eval, int n_workers) {
    if (eval->policy_path == NULL) {
        return ES_STATUS_OK;
    }
    // judges work in the threads of the ranking; the device's own are not used
    EsDeviceOptions options = {.n_threads = 1};
    ES_TRY(es_device_open("cpu", &options, &eval->device));
    ES_TRY(es_prove_source_load_policy(eval->source, eval->device, eval->graph, eval->policy_path,
                                       &eval->policy));
    return es_proof_guides_create(eval->policy, n_workers, &eval->guides);
}

static void close_policy(EsProveEval *eval) {
    es_proof_guides_destroy(&eval->guides);
    es_proof_policy_destroy(eval->policy);
    es_device_close(eval->device);
}

// What scores the candidates.
static EsStatus make_scorer(const EsProveEval *eval, int n_workers, EsProofScorer **scorer) {
    if (eval->search == 0) {
        return es_proof_scorer_create_prover(eval->graph, &eval->prover, eval->score, n_workers,
                                             scorer);
    }
    return es_proof_scorer_create_search(eval->graph, &eval->searches, eval->guides.guides,
                                         eval->score, n_workers, scorer);
}

// Shortest depths of the queries, where the scorer does not find them itself; else NULL.
static EsStatus find_reference_depths(const EsProveEval *eval, EsThreadPool *pool,
                                      const EsAtom *queries, int32_t count, int32_t **depths) {
    *depths = NULL;
    if (eval->search == 0 || eval->reference_depth == 0) {
        return ES_STATUS_OK;
    }
    EsProverSettings settings = eval->prover;
    EsProverReport report;
    settings.max_depth = eval->reference_depth;
    ES_TRY(es_allocate((size_t)count * sizeof **depths, (void **)depths));
    return es_prover_find_depths(eval->graph, &settings, pool, queries, count, *depths, &report);
}

// The chosen queries of the split, and how many.
static EsStatus choose_queries(const EsProveEval *eval, EsAtom **queries, int32_t *count) {
    const EsQuerySplit *split = &eval->graph->splits[eval->split];
    int32_t *numbers = NULL;
    if (split->count == 0) {
        return ES_FAIL(INPUT, "%s has no queries in the split %s",
                       es_prove_source_name(eval->source), es_prove_split_names[eval->split]);
    }
    ES_TRY(es_allocate((size_t)split->count * sizeof **queries, (void **)queries));
    ES_TRY(es_allocate((size_t)split->count * sizeof *numbers, (void **)&numbers));
    *count = es_ranking_choose(split->count, eval->n_queries, eval->is_spaced, numbers);
    for (int32_t i = 0; i < *count; i++) {
        (*queries)[i] = split->atoms[numbers[i]];
    }
    es_release(numbers);
    return ES_STATUS_OK;
}

static EsStatus rank_queries(EsProveEval *eval) {
    EsThreadPool *pool = NULL;
    EsKnownAtoms *known = NULL;
    EsProofScorer *proofs = NULL;
    EsAtom *queries = NULL;
    int32_t *depths = NULL, count = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(choose_queries(eval, &queries, &count));
    ES_TRY_GOTO(es_thread_pool_create(&pool, eval->n_threads));
    ES_TRY_GOTO(es_known_atoms_create(eval->graph, &known));
    ES_TRY_GOTO(open_policy(eval, es_thread_pool_size(pool)));
    ES_TRY_GOTO(make_scorer(eval, es_thread_pool_size(pool), &proofs));
    Progress progress = {es_clock_ns(), es_clock_ns()};
    eval->settings.progress = show_progress;
    eval->settings.progress_context = &progress;
    ES_TRY_GOTO(find_reference_depths(eval, pool, queries, count, &depths));
    EsCandidateScorer scorer = es_proof_scorer_candidates(proofs);
    ES_TRY_GOTO(es_prove_fusion_begin(&eval->fusion, eval->graph, known, &eval->settings, pool,
                                      eval->score >= ES_SCORE_PROBABILITY, &scorer));
    es_proof_scorer_reset_report(proofs); // what a fit has scored is not ranked
    ES_TRY_GOTO(es_ranking_create(known, &eval->settings, &scorer, pool, queries, depths, count,
                                  &eval->ranking));
    eval->report = es_proof_scorer_report(proofs);
    eval->seconds = es_clock_seconds_since(progress.start_ns);
done:
    es_proof_scorer_destroy(proofs);
    close_policy(eval);
    es_known_atoms_destroy(known);
    es_thread_pool_destroy(pool);
    es_release(queries);
    es_release(depths);
    return status;
}

static void warn_of_limits(const EsProveEval *eval) {
    if (eval->report.n_limited > 0) {
        es_message("warning: %lld of %lld candidates met a limit without a proof and %s as "
                   "unproved (%s raises it)\n",
                   (long long)eval->report.n_limited, (long long)eval->report.n_candidates,
                   es_prove_noun(eval->report.n_limited, "counts", "count"),
                   eval->search == 0 ? "--max-states" : "--nodes or --max-states");
    }
    if (eval->ranking->n_without > 0) {
        es_message("warning: %d %s no corruption and %s left out\n", eval->ranking->n_without,
                   es_prove_noun(eval->ranking->n_without, "query has", "queries have"),
                   es_prove_noun(eval->ranking->n_without, "is", "are"));
    }
}

static EsStatus run_eval(EsProveEval *eval, int as_json) {
    EsKnowledgeGraph *graph = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_prove_source_load(eval->source, &graph));
    eval->graph = graph;
    if (eval->settings.corruptions.uses_domains) {
        ES_TRY_GOTO(
            es_corruptions_need_domains(graph, "--domains", es_prove_source_name(eval->source)));
    }
    ES_TRY_GOTO(rank_queries(eval));
    warn_of_limits(eval);
    if (as_json) {
        ES_TRY_GOTO(es_prove_eval_print_json(eval));
    } else {
        es_prove_eval_print_table(eval);
    }
done:
    es_prove_fusion_end(&eval->fusion);
    es_ranking_destroy(eval->ranking);
    es_kg_destroy(graph);
    return status;
}

// --- the command line ---

// Values as typed, which are then checked and moved into an EsProveEval.
typedef struct Typed {
    EsProveSource source;
    EsProveFusion fusion;
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

static EsStatus parse_words(const Typed *typed, EsProveEval *eval) {
    const char *searches[ES_PROVE_EVAL_N_SEARCHES];
    int score = 0;
    for (int i = 0; i < ES_PROVE_EVAL_N_SEARCHES; i++) {
        searches[i] = es_prove_eval_search_name(i);
    }
    ES_TRY(es_prove_parse_queries(typed->split, typed->selection, &eval->split,
                                  &eval->prover.selection));
    ES_TRY(
        es_prove_parse_word("score", typed->score, es_score_kind_names, ES_N_SCORE_KINDS, &score));
    ES_TRY(es_prove_parse_word("search", typed->search, searches, ES_PROVE_EVAL_N_SEARCHES,
                               &eval->search));
    ES_TRY(parse_sides(typed->sides, eval->settings.uses_side));
    eval->score = (EsScoreKind)score;
    eval->searches.selection = eval->prover.selection;
    if (eval->search == 0 && eval->score >= ES_SCORE_PROBABILITY) {
        return ES_FAIL(ARGUMENT, "--score %s needs a --search other than prover", typed->score);
    }
    if (typed->policy_path != NULL && eval->search <= 1 + ES_SEARCH_BREADTH) {
        return ES_FAIL(ARGUMENT, "--policy guides a --search: best_first, beam, greedy or sampled");
    }
    if (typed->value_weight > 0 && typed->policy_path == NULL) {
        return ES_FAIL(ARGUMENT, "--value-weight needs a --policy, whose values they are");
    }
    eval->policy_path = typed->policy_path;
    return ES_STATUS_OK;
}

static EsStatus settle(const Typed *typed, EsProveEval *eval) {
    EsProveEval made = {.source = &typed->source,
                        .prover = es_prover_defaults(),
                        .searches = es_proof_search_defaults(),
                        .settings = es_ranking_defaults()};
    ES_TRY(parse_words(typed, &made));
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

// Entries for the table of options: what is ranked against what; and what looks for proofs.
#define QUERY_OPTIONS(typed)                                                                       \
    ES_OPTION_TEXT("split", &(typed)->split, "test", "NAME", "queries: train, valid or test"),     \
        ES_OPTION_INT("queries", &(typed)->n_queries, "500", 0, 2147483647, "N",                   \
                      "the first N queries of the split; 0: all"),                                 \
        ES_OPTION_FLAG("spaced", &(typed)->is_spaced,                                              \
                       "evenly spaced queries instead of the first"),                              \
        ES_OPTION_INT("corruptions", &(typed)->n_corruptions, "100", 0, 2147483647, "N",           \
                      "negatives per query and side; 0: all"),                                     \
        ES_OPTION_TEXT("sides", &(typed)->sides, "head,tail", "LIST", "arguments to replace"),     \
        ES_OPTION_FLAG("domains", &(typed)->uses_domains,                                          \
                       "replace by constants of the same domain"),                                 \
        ES_OPTION_INT("draw-seed", &(typed)->draw_seed, "0", 0, 2147483647, "N",                   \
                      "of corruptions, sampled walks and intervals")

#define SEARCH_OPTIONS(typed)                                                                      \
    ES_OPTION_TEXT("search", &(typed)->search, "prover", "NAME",                                   \
                   "prover, breadth, best_first, beam, greedy or sampled"),                        \
        ES_OPTION_TEXT(                                                                            \
            "score", &(typed)->score, "proved", "NAME",                                            \
            "proved, shortest (proof first), probability, or evidence (of all proofs)"),           \
        ES_OPTION_FLOAT("temperature", &(typed)->temperature, "3", 0.001, 1e6, "X",                \
                        "of evidence: log-probabilities of proofs are divided by it"),             \
        ES_OPTION_INT("max-depth", &(typed)->max_depth, "4", 1, ES_SEARCH_MAX_DEPTH, "N",          \
                      "most steps of a proof"),                                                    \
        ES_OPTION_INT("max-atoms", &(typed)->max_atoms, "6", 1, ES_PROOF_MAX_ATOMS, "N",           \
                      "most atoms left to prove at a time"),                                       \
        ES_OPTION_INT(                                                                             \
            "max-states", &(typed)->max_states, "4000000", 1, 1 << 28, "N",                        \
            "of a candidate, then undecided; ~0.2 kB each: 4000000 are 0.8 GB per thread"),        \
        ES_OPTION_INT("max-successors", &(typed)->max_successors, "0", 0, 1 << 28, "N",            \
                      "of a state, for a search; 0: all"),                                         \
        ES_OPTION_TEXT("policy", &(typed)->policy_path, NULL, "FILE",                              \
                       "a trained policy (esper prove train) that guides the search"),             \
        ES_OPTION_FLOAT("value-weight", &(typed)->value_weight, "0", 0,                            \
                        ES_SEARCH_MAX_VALUE_WEIGHT, "W",                                           \
                        "order states by log-probability + W log(value); needs --policy"),         \
        ES_OPTION_INT("nodes", &(typed)->n_nodes, "1000", 1, 2147483647, "N",                      \
                      "expansions of a search per candidate"),                                     \
        ES_OPTION_INT("beam-width", &(typed)->beam_width, "16", 1, 1 << 20, "N",                   \
                      "states of a level"),                                                        \
        ES_OPTION_INT("samples", &(typed)->n_samples, "16", 1, 1 << 20, "N", "sampled walks"),     \
        ES_OPTION_INT("batch", &(typed)->batch, "1", 1, 1 << 16, "N", "states judged together"),   \
        ES_OPTION_FLAG("end", &(typed)->has_end, "giving up is one of the choices"),               \
        ES_OPTION_INT("reference-depth", &(typed)->reference_depth, "4", 0, ES_SEARCH_MAX_DEPTH,   \
                      "N", "group queries of a search by depths up to N; 0: by proofs found")

// What the chosen search and score have no use for.
static void note_unused(const EsOptionTable *table, const EsArguments *arguments,
                        const EsProveEval *eval, const Typed *typed) {
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
    if (typed->fusion.path == NULL || typed->fusion.is_alone) {
        es_options_note_unused(table, arguments, "embedding-weight bonus penalty per-step",
                               typed->fusion.is_alone ? "with --embedding-alone"
                                                      : "without --embedding");
    }
}

EsExit es_prove_eval_run(int argc, char **argv) {
    Typed typed = {.n_threads = 0};
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&typed.source),
        QUERY_OPTIONS(&typed),
        SEARCH_OPTIONS(&typed),
        ES_OPTION_FLAG("by-predicate", &typed.shows_predicates, "a line per predicate, too"),
        ES_OPTION_TEXT("selection", &typed.selection, "constrained", "NAME",
                       "goal resolved next: constrained (fewest variables) or leftmost"),
        ES_PROVE_FUSION_OPTIONS(&typed.fusion),
        ES_OPTION_INT("threads", &typed.n_threads, "0", 0, 1024, "N", "0: one per processor"),
        ES_OPTION_FLAG("json", &typed.as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove eval",
        .usage = "[options]",
        .summary = "Ranks queries against corruptions that are not known to be true, by whether "
                   "and how they\ncan be proved: MRR, Hits@k and proof rates. Ties count by "
                   "expectation.",
        .example = "esper prove eval --data kg/family --spaced --score shortest",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsProveEval eval;
    EsExit code;
    if (!es_prove_source_begin(&typed.source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = settle(&typed, &eval);
    if (status == ES_STATUS_OK) {
        note_unused(&table, &arguments, &eval, &typed);
        status = run_eval(&eval, typed.as_json);
    }
    return es_command_finish("prove eval", status);
}
