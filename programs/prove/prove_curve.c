// `esper prove curve`: how many proofs searches find against how many states they expand.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/ranking/ranking.h"
#include "proof/search/proof_curve.h"
#include "proof/search/prover.h"
#include "prove/prove_action.h"

// NAME, name: guides of the searches that are compared
#define VARIANTS(X)                                                                                \
    X(TRAINED, trained)                                                                            \
    X(UNTRAINED, untrained)                                                                        \
    X(UNIFORM, uniform)                                                                            \
    X(BREADTH, breadth)

typedef enum Variant {
#define X(NAME, name) VARIANT_##NAME,
    VARIANTS(X)
#undef X
        N_VARIANTS
} Variant;

static const char *const variant_names[N_VARIANTS] = {
#define X(NAME, name) #name,
    VARIANTS(X)
#undef X
};

// shares of the queries at whose proofs the variants are compared, in percent
static const int32_t shares[] = {25, 50, 75, 90, 100};

typedef struct Curves {
    const EsProveSource *source;
    const char *policy_path; // NULL: the variants without a policy alone
    uint64_t policy_seed;    // of the untrained weights
    EsKgSplit split;
    int n_queries, min_depth, n_threads;
    EsProofSearchSettings settings;
    int32_t count;                   // queries that take min_depth to max_depth steps
    EsProofCurve *curve[N_VARIANTS]; // owned; NULL: not asked for
    double seconds;
} Curves;

// --- results ---

// The number of proofs that is a share of all queries.
static int32_t proofs_of_share(const Curves *curves, int32_t percent) {
    return ES_MAX((int32_t)(((int64_t)curves->count * percent + 99) / 100), 1);
}

static void print_count(int64_t count) {
    if (count < 0) {
        printf(" %10s", "-");
    } else {
        printf(" %10lld", (long long)count);
    }
}

static void print_head(const Curves *curves, const char *first, const char *last) {
    printf("%s", first);
    for (int a = 0; a < N_VARIANTS; a++) {
        if (curves->curve[a] != NULL) {
            printf(" %10s", variant_names[a]);
        }
    }
    printf("%s\n", curves->policy_path != NULL ? last : "");
}

// The fewer expansions of uniform and breadth-first search; -1 when neither has so many proofs.
static int64_t find_better(const int64_t counts[N_VARIANTS]) {
    int64_t uniform = counts[VARIANT_UNIFORM], breadth = counts[VARIANT_BREADTH];
    return uniform < 0 || breadth < 0 ? ES_MAX(uniform, breadth) : ES_MIN(uniform, breadth);
}

// A line of expansions, and how many times more the better search without a policy needs.
static void print_share(const Curves *curves, int32_t percent, int is_spent) {
    int32_t n_proofs = proofs_of_share(curves, percent);
    int64_t counts[N_VARIANTS];
    printf("%4d %% %8d", percent, n_proofs);
    for (int a = 0; a < N_VARIANTS; a++) {
        const EsProofCurve *curve = curves->curve[a];
        if (curve != NULL) {
            counts[a] = es_proof_curve_budget(curve, n_proofs);
            if (is_spent && counts[a] > 0) {
                counts[a] = es_proof_curve_spent(curve, counts[a]);
            }
            print_count(counts[a]);
        }
    }
    if (curves->policy_path == NULL) {
        printf("\n");
    } else if (counts[VARIANT_TRAINED] < 0 || find_better(counts) < 0) {
        printf("       -\n");
    } else {
        printf(" %7.2f\n", (double)find_better(counts) / (double)counts[VARIANT_TRAINED]);
    }
}

static void print_tables(const Curves *curves) {
    es_print(
        "%s: %d %s of the split %s that %s %d to %d steps, best first, %s goals, at most %d %s",
        es_prove_source_name(curves->source), curves->count,
        es_prove_noun(curves->count, "query", "queries"), es_prove_split_names[curves->split],
        es_prove_noun(curves->count, "takes", "take"), curves->min_depth,
        curves->settings.max_depth, es_prove_selection_names[curves->settings.selection],
        curves->settings.max_atoms, es_prove_noun(curves->settings.max_atoms, "atom", "atoms"));
    es_prove_print_value_weight(curves->settings.value_weight);
    printf("\n");
    print_head(curves, "proofs within\n    expansions ", "");
    static const int64_t steps[] = {1, 2, 5};
    int64_t scale = 1;
    for (int i = 0;; i++) {
        int64_t budget = ES_MIN(steps[i % 3] * scale, curves->settings.max_expanded);
        printf("    %10lld ", (long long)budget);
        for (int a = 0; a < N_VARIANTS; a++) {
            if (curves->curve[a] != NULL) {
                print_count(es_proof_curve_proofs(curves->curve[a], budget));
            }
        }
        printf("\n");
        if (budget == curves->settings.max_expanded) {
            break;
        }
        scale *= i % 3 == 2 ? 10 : 1;
    }
    for (int is_spent = 0; is_spent < 2; is_spent++) {
        print_head(curves,
                   is_spent ? "expansions of all queries under that limit\n share   proofs"
                            : "limit on the expansions of each query that gives this many proofs\n"
                              " share   proofs",
                   "   ratio");
        for (size_t i = 0; i < ES_COUNT_OF(shares); i++) {
            print_share(curves, shares[i], is_spent);
        }
    }
    if (curves->policy_path != NULL) {
        printf("ratio: the better of uniform and breadth over trained\n");
    }
    printf("%.1f s\n", curves->seconds);
}

static json_t *describe_variant(const Curves *curves, const EsProofCurve *curve) {
    json_t *limits = json_array(), *spent = json_array(), *expanded = json_array();
    for (size_t i = 0; i < ES_COUNT_OF(shares); i++) {
        int64_t budget = es_proof_curve_budget(curve, proofs_of_share(curves, shares[i]));
        int64_t sum = budget > 0 ? es_proof_curve_spent(curve, budget) : -1;
        json_array_append_new(limits, budget > 0 ? json_integer(budget) : json_null());
        json_array_append_new(spent, budget > 0 ? json_integer(sum) : json_null());
    }
    for (int32_t i = 0; i < curve->n_queries; i++) {
        json_array_append_new(expanded,
                              curve->depth[i] > 0 ? json_integer(curve->expanded[i]) : json_null());
    }
    return json_pack("{s:i, s:o, s:o, s:o}", "proved", curve->n_proved, "limits", limits, "spent",
                     spent, "expanded", expanded);
}

static EsStatus print_json(const Curves *curves) {
    // a path that is not UTF-8 cannot be written as JSON
    json_t *name = json_string(es_prove_source_name(curves->source));
    json_t *list = json_array(), *variants = json_object();
    for (size_t i = 0; i < ES_COUNT_OF(shares); i++) {
        json_array_append_new(list, json_integer(shares[i]));
    }
    for (int a = 0; a < N_VARIANTS; a++) {
        if (curves->curve[a] != NULL) {
            json_object_set_new(variants, variant_names[a],
                                describe_variant(curves, curves->curve[a]));
        }
    }
    json_t *root = json_pack(
        "{s:o, s:s, s:i, s:i, s:i, s:I, s:f, s:i, s:b, s:o, s:o, s:f}", "data",
        name != NULL ? name : json_null(), "split", es_prove_split_names[curves->split],
        "min_depth", curves->min_depth, "max_depth", curves->settings.max_depth, "max_atoms",
        curves->settings.max_atoms, "nodes", (json_int_t)curves->settings.max_expanded,
        "value_weight", curves->settings.value_weight, "queries", curves->count, "end",
        curves->settings.has_end, "shares", list, "arms", variants, "seconds", curves->seconds);
    return es_json_print(root, 6);
}

// --- the searches ---

// Queries whose shortest proof takes min_depth to max_depth steps, evenly spaced among those.
static EsStatus choose_queries(Curves *curves, const EsKnowledgeGraph *graph, EsThreadPool *pool,
                               EsAtom **queries) {
    const EsQuerySplit *split = &graph->splits[curves->split];
    size_t capacity = (size_t)ES_MAX(split->count, 1);
    int32_t *depths = NULL, *numbers = NULL, n_deep = 0;
    EsProverSettings settings = es_prover_defaults();
    EsProverReport report;
    EsStatus status = ES_STATUS_OK;
    settings.selection = curves->settings.selection;
    settings.max_depth = curves->settings.max_depth;
    settings.max_atoms = curves->settings.max_atoms;
    ES_TRY_GOTO(es_allocate(capacity * sizeof *depths, (void **)&depths));
    ES_TRY_GOTO(es_allocate(capacity * sizeof *numbers, (void **)&numbers));
    size_t query_bytes = (size_t)graph->query_cells * sizeof **queries;
    ES_TRY_GOTO(es_allocate(capacity * query_bytes, (void **)queries));
    ES_TRY_GOTO(
        es_prover_find_depths(graph, &settings, pool, split->atoms, split->count, depths, &report));
    for (int32_t i = 0; i < split->count; i++) {
        if (depths[i] >= curves->min_depth) {
            depths[n_deep++] = i;
        }
    }
    if (n_deep == 0) {
        status = ES_FAIL(INPUT, "%s has no queries in the split %s that take %d to %d steps",
                         es_prove_source_name(curves->source), es_prove_split_names[curves->split],
                         curves->min_depth, settings.max_depth);
        goto done;
    }
    curves->count = es_ranking_choose(n_deep, curves->n_queries, 1, numbers);
    for (int32_t i = 0; i < curves->count; i++) {
        memcpy(*queries + (size_t)i * (size_t)graph->query_cells,
               es_kg_query(graph, curves->split, depths[numbers[i]]), query_bytes);
    }
done:
    es_release(depths);
    es_release(numbers);
    return status;
}

// Runs one variant; policy NULL: equal probabilities, or breadth first.
static EsStatus run_variant(Curves *curves, Variant variant, const EsKnowledgeGraph *graph,
                            const EsProofPolicy *policy, EsThreadPool *pool,
                            const EsAtom *queries) {
    EsProofSearchSettings settings = curves->settings;
    EsProofGuides guides = {.n_guides = 0};
    EsStatus status = ES_STATUS_OK;
    if (variant == VARIANT_BREADTH) {
        settings.kind = ES_SEARCH_BREADTH;
        settings.value_weight = 0;
    }
    if (policy != NULL) {
        ES_TRY(es_proof_guides_create(policy, es_thread_pool_size(pool), &guides));
    }
    ES_TRY_GOTO(es_proof_curve_create(graph, &settings, guides.guides, pool, queries, curves->count,
                                      &curves->curve[variant]));
done:
    es_proof_guides_destroy(&guides);
    return status;
}

static EsStatus run_policies(Curves *curves, const EsKnowledgeGraph *graph, EsThreadPool *pool,
                             const EsAtom *queries) {
    EsDevice *device = NULL;
    EsProofPolicy *trained = NULL, *untrained = NULL;
    EsStatus status = ES_STATUS_OK;
    // scorers work in the threads of the searches; the device's own are not used
    EsDeviceOptions options = {.n_threads = 1};
    ES_TRY_GOTO(es_device_open("cpu", &options, &device));
    ES_TRY_GOTO(
        es_prove_source_load_policy(curves->source, device, graph, curves->policy_path, &trained));
    ES_TRY_GOTO(es_proof_policy_create(device, graph, es_proof_policy_settings(trained),
                                       curves->policy_seed, &untrained));
    ES_TRY_GOTO(run_variant(curves, VARIANT_TRAINED, graph, trained, pool, queries));
    ES_TRY_GOTO(run_variant(curves, VARIANT_UNTRAINED, graph, untrained, pool, queries));
done:
    es_proof_policy_destroy(trained);
    es_proof_policy_destroy(untrained);
    es_device_close(device);
    return status;
}

static EsStatus run_curves(Curves *curves, int as_json) {
    EsKnowledgeGraph *graph = NULL;
    EsThreadPool *pool = NULL;
    EsAtom *queries = NULL;
    EsStatus status = ES_STATUS_OK;
    int64_t start_ns = es_clock_ns();
    ES_TRY_GOTO(es_prove_source_load(curves->source, &graph));
    ES_TRY_GOTO(es_thread_pool_create(&pool, curves->n_threads));
    ES_TRY_GOTO(choose_queries(curves, graph, pool, &queries));
    if (curves->policy_path != NULL) {
        ES_TRY_GOTO(run_policies(curves, graph, pool, queries));
    }
    ES_TRY_GOTO(run_variant(curves, VARIANT_UNIFORM, graph, NULL, pool, queries));
    ES_TRY_GOTO(run_variant(curves, VARIANT_BREADTH, graph, NULL, pool, queries));
    curves->seconds = es_clock_seconds_since(start_ns);
    if (as_json) {
        ES_TRY_GOTO(print_json(curves));
    } else {
        print_tables(curves);
    }
done:
    for (int a = 0; a < N_VARIANTS; a++) {
        es_proof_curve_destroy(curves->curve[a]);
    }
    es_release(queries);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
    return status;
}

// --- the command line ---

// Values as typed that are checked or moved before they are used.
typedef struct Typed {
    const char *split, *selection;
    int policy_seed, max_depth, max_atoms, n_nodes, has_end;
} Typed;

static EsStatus apply_options(const Typed *typed, Curves *curves) {
    ES_TRY(es_prove_parse_queries(typed->split, typed->selection, &curves->split,
                                  &curves->settings.selection));
    if (curves->settings.value_weight > 0 && curves->policy_path == NULL) {
        return ES_FAIL(ARGUMENT, "--value-weight needs --policy, which gives the values");
    }
    curves->policy_seed = (uint64_t)typed->policy_seed;
    curves->settings.max_depth = typed->max_depth;
    curves->settings.max_atoms = typed->max_atoms;
    curves->settings.max_expanded = typed->n_nodes;
    curves->settings.max_entries = 1 << 24;
    curves->settings.has_end = typed->has_end;
    return ES_STATUS_OK;
}

EsExit cmd_prove_curve(int argc, char **argv) {
    EsProveSource source = {.folder = NULL};
    Curves curves = {.source = &source, .settings = es_proof_search_defaults()};
    Typed typed;
    int as_json;
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&source),
        ES_OPTION_TEXT("split", &typed.split, "test", "NAME", "queries: train, valid or test"),
        ES_OPTION_INT("queries", &curves.n_queries, "0", 0, 2147483647, "N",
                      "queries to search, evenly spaced among those deep enough; 0: all"),
        ES_OPTION_INT("min-depth", &curves.min_depth, "3", 1, ES_SEARCH_MAX_DEPTH, "N",
                      "minimum steps of a query's shortest proof"),
        ES_OPTION_INT("max-depth", &typed.max_depth, "4", 1, ES_SEARCH_MAX_DEPTH, "N",
                      "maximum steps of any proof"),
        ES_OPTION_INT("max-atoms", &typed.max_atoms, "6", 1, ES_PROOF_MAX_ATOMS, "N",
                      "maximum atoms left to prove at a time"),
        ES_OPTION_TEXT("policy", &curves.policy_path, NULL, "FILE",
                       "a trained policy (esper prove train), compared with fresh weights"),
        ES_OPTION_INT("policy-seed", &typed.policy_seed, "42", 0, 2147483647, "N",
                      "seed of the fresh weights; that of a run gives those it began with"),
        ES_OPTION_FLOAT("value-weight", &curves.settings.value_weight, "0", 0,
                        ES_SEARCH_MAX_VALUE_WEIGHT, "W",
                        "order states by log-probability + W log(value); needs --policy"),
        ES_OPTION_INT("nodes", &typed.n_nodes, "10000", 1, 2147483647, "N",
                      "maximum expansions of a query"),
        ES_OPTION_INT("batch", &curves.settings.batch, "1", 1, 1 << 16, "N",
                      "states scored together"),
        ES_OPTION_FLAG("end", &typed.has_end, "offer giving up as a choice"),
        ES_OPTION_TEXT("selection", &typed.selection, "constrained", "NAME",
                       "goal resolved next: constrained (fewest variables) or leftmost"),
        ES_OPTION_INT("threads", &curves.n_threads, "0", 0, 1024, "N",
                      "threads; 0: one per processor"),
        ES_OPTION_FLAG("json", &as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove curve",
        .usage = "[options]",
        .summary = "Counts the proofs that best-first search finds against the states it expands, "
                   "steered by a\ntrained policy, by fresh weights, by equal probabilities, and "
                   "breadth first.",
        .example = "esper prove curve --generated 300 --min-depth 2",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsExit code;
    if (!es_prove_source_begin(&source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = apply_options(&typed, &curves);
    if (status == ES_STATUS_OK && curves.policy_path == NULL) {
        es_options_note_unused(&table, &arguments, "policy-seed", "without --policy");
    }
    if (status == ES_STATUS_OK) {
        status = run_curves(&curves, as_json);
    }
    return es_command_finish("prove curve", status);
}
