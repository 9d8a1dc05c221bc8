#include "runs/prove/prove_balance.h"

#include "base/memory.h"

// Facts of one depth whose predicate heads a rule, as an environment takes them; into `atoms`
// unless it is NULL. Returns how many.
static int32_t list_depth(const EsKnowledgeGraph *graph, int32_t depth, EsAtom *atoms) {
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TRAIN];
    int32_t count = 0;
    for (int32_t i = 0; i < split->count; i++) {
        int32_t n_rules;
        es_kg_rules_of(graph, split->atoms[i].predicate, &n_rules);
        if (split->depths[i] == depth && n_rules > 0) {
            if (atoms != NULL) {
                atoms[count] = split->atoms[i];
            }
            count++;
        }
    }
    return count;
}

EsStatus es_prove_balance_queries(const EsProveSettings *settings, const EsKnowledgeGraph *graph,
                                  EsProveQueries *queries) {
    int32_t most = 0, n_depths = 0;
    *queries = (EsProveQueries){.count = 0};
    for (int32_t d = settings->min_query_depth; d <= settings->max_query_depth; d++) {
        int32_t count = list_depth(graph, d, NULL);
        most = ES_MAX(most, count);
        n_depths += count > 0;
    }
    if (most == 0) {
        return ES_FAIL(INPUT, "no fact of %s has a depth of %d to %d to train on",
                       es_prove_settings_data(settings), settings->min_query_depth,
                       settings->max_query_depth);
    }
    size_t capacity = (size_t)n_depths * (size_t)most;
    if (capacity > INT32_MAX) {
        return ES_FAIL(MEMORY, "%zu queries of balanced depths, above %d", capacity, INT32_MAX);
    }
    ES_TRY(es_allocate(capacity * sizeof *queries->atoms, (void **)&queries->atoms));
    for (int32_t d = settings->min_query_depth; d <= settings->max_query_depth; d++) {
        EsAtom *atoms = queries->atoms + queries->count;
        int32_t count = list_depth(graph, d, atoms);
        for (int32_t i = count; count > 0 && i < most; i++) {
            atoms[i] = atoms[i - count];
        }
        queries->count += count > 0 ? most : 0;
    }
    return ES_STATUS_OK;
}
