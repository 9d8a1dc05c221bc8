// `esper prove depths`: counts the steps of the shortest proof of each query.
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "proof/search/prover.h"
#include "prove/prove_action.h"

#define MAX_DEPTH 1000

typedef struct Depths {
    const EsProveSource *source;
    EsProverSettings settings;
    EsKgSplit split;
    EsProverReport report;
    int32_t n_queries;
    int32_t histogram[MAX_DEPTH + 1]; // by depth; [0]: no proof
    double seconds;
} Depths;

// --- results ---

static json_t *describe_histogram(const Depths *depths) {
    json_t *histogram = json_object();
    for (int depth = 0; depth <= depths->settings.max_depth && histogram != NULL; depth++) {
        char key[16];
        snprintf(key, sizeof key, "%d", depth > 0 ? depth : ES_KG_DEPTH_NONE);
        if (depths->histogram[depth] > 0 &&
            json_object_set_new(histogram, key, json_integer(depths->histogram[depth])) != 0) {
            json_decref(histogram);
            return NULL;
        }
    }
    return histogram;
}

static EsStatus print_json(const Depths *depths) {
    const EsProverReport *report = &depths->report;
    // a path that is not UTF-8 cannot be written as JSON
    json_t *name = json_string(es_prove_source_name(depths->source));
    json_t *root = json_pack(
        "{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:i, s:i, s:i, s:I, s:I, s:I, s:f}", "data",
        name != NULL ? name : json_null(), "split", es_prove_split_names[depths->split],
        "selection", es_prove_selection_names[depths->settings.selection], "max_depth",
        depths->settings.max_depth, "max_atoms", depths->settings.max_atoms, "max_states",
        depths->settings.max_states, "queries", depths->n_queries, "histogram",
        describe_histogram(depths), "proved", report->n_proved, "unproved", report->n_unproved,
        "unknown", report->n_unknown, "states", (json_int_t)report->n_states, "expanded",
        (json_int_t)report->n_expanded, "overlong", (json_int_t)report->n_overlong, "seconds",
        depths->seconds);
    return es_json_print(root, 6);
}

static void print_line(const char *depth, int32_t count, int32_t n_queries) {
    printf("%7s %9d   %5.1f %%\n", depth, count, 100.0 * count / ES_MAX(n_queries, 1));
}

static void print_table(const Depths *depths) {
    const EsProverReport *report = &depths->report;
    const EsProverSettings *settings = &depths->settings;
    es_print("%s: %d %s of the split %s, %s goals, at most %d %s and %d %s\n",
             es_prove_source_name(depths->source), depths->n_queries,
             es_prove_noun(depths->n_queries, "query", "queries"),
             es_prove_split_names[depths->split], es_prove_selection_names[settings->selection],
             settings->max_depth, es_prove_noun(settings->max_depth, "step", "steps"),
             settings->max_atoms, es_prove_noun(settings->max_atoms, "atom", "atoms"));
    printf("  depth   queries\n");
    for (int depth = 1; depth <= depths->settings.max_depth; depth++) {
        if (depths->histogram[depth] > 0) {
            char text[16];
            snprintf(text, sizeof text, "%d", depth);
            print_line(text, depths->histogram[depth], depths->n_queries);
        }
    }
    print_line("none", report->n_unproved, depths->n_queries);
    if (report->n_unknown > 0) {
        print_line("unknown", report->n_unknown, depths->n_queries);
    }
    printf("%lld %s kept, %lld expanded, %lld dropped for the limit on atoms; %.2f s\n",
           (long long)report->n_states, es_prove_noun(report->n_states, "state", "states"),
           (long long)report->n_expanded, (long long)report->n_overlong, depths->seconds);
}

// --- the search ---

static EsStatus search(Depths *depths, const EsKnowledgeGraph *graph, int n_threads) {
    const EsQuerySplit *split = &graph->splits[depths->split];
    EsThreadPool *pool = NULL;
    void *memory = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((size_t)ES_MAX(split->count, 1) * sizeof(int32_t), &memory));
    ES_TRY_GOTO(es_thread_pool_create(&pool, n_threads));
    int32_t *found = memory;
    int64_t start_ns = es_clock_ns();
    ES_TRY_GOTO(es_prover_find_depths(graph, &depths->settings, pool, split->atoms, split->count,
                                      found, &depths->report));
    depths->seconds = es_clock_seconds_since(start_ns);
    depths->n_queries = split->count;
    for (int32_t i = 0; i < split->count; i++) {
        if (found[i] != ES_PROVER_DEPTH_UNKNOWN) {
            depths->histogram[ES_MAX(found[i], 0)]++;
        }
    }
done:
    es_thread_pool_destroy(pool);
    es_release(memory);
    return status;
}

static EsStatus run_depths(Depths *depths, int n_threads, int as_json) {
    EsKnowledgeGraph *graph = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_prove_source_load(depths->source, &graph));
    if (graph->splits[depths->split].count == 0) {
        status = ES_FAIL(INPUT, "%s has no queries in the split %s",
                         es_prove_source_name(depths->source), es_prove_split_names[depths->split]);
        goto done;
    }
    ES_TRY_GOTO(search(depths, graph, n_threads));
    if (depths->report.n_unknown > 0) {
        es_message("warning: %d of %d %s met the limit of %d %s and %s undecided "
                   "(--max-states raises it)\n",
                   depths->report.n_unknown, depths->n_queries,
                   es_prove_noun(depths->n_queries, "query", "queries"),
                   depths->settings.max_states,
                   es_prove_noun(depths->settings.max_states, "state", "states"),
                   es_prove_noun(depths->report.n_unknown, "stays", "stay"));
    }
    if (as_json) {
        ES_TRY_GOTO(print_json(depths));
    } else {
        print_table(depths);
    }
done:
    es_kg_destroy(graph);
    return status;
}

EsExit cmd_prove_depths(int argc, char **argv) {
    EsProveSource source = {.folder = NULL};
    Depths depths = {.source = &source, .settings = es_prover_defaults()};
    const char *split, *selection;
    int max_depth, max_atoms, max_states, n_threads, as_json;
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&source),
        ES_OPTION_TEXT("split", &split, "test", "NAME", "queries to prove: train, valid or test"),
        ES_OPTION_INT("max-depth", &max_depth, "4", 1, MAX_DEPTH, "N", "maximum steps of a proof"),
        ES_OPTION_INT("max-atoms", &max_atoms, "6", 1, ES_PROOF_MAX_ATOMS, "N",
                      "maximum atoms left to prove at a time"),
        ES_OPTION_INT("max-states", &max_states, "4000000", 1, 1 << 28, "N",
                      "maximum states per query; ~0.2 kB each: 4000000 take 0.8 GB per thread"),
        ES_OPTION_TEXT("selection", &selection, "constrained", "NAME",
                       "goal resolved next: constrained (fewest variables) or leftmost"),
        ES_OPTION_INT("threads", &n_threads, "0", 0, 1024, "N", "threads; 0: one per processor"),
        ES_OPTION_FLAG("json", &as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove depths",
        .usage = "[options]",
        .summary = "Searches the shortest proof of every query, breadth first, and counts the "
                   "depths. A query\nthat is a fact is never used to prove itself.",
        .example = "esper prove depths --data kg/family --split valid --json",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsExit code;
    if (!es_prove_source_begin(&source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status =
        es_prove_parse_queries(split, selection, &depths.split, &depths.settings.selection);
    if (status == ES_STATUS_OK) {
        depths.settings.max_depth = max_depth;
        depths.settings.max_atoms = max_atoms;
        depths.settings.max_states = max_states;
        status = run_depths(&depths, n_threads, as_json);
    }
    return es_command_finish("prove depths", status);
}
