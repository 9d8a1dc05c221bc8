// Queries of balanced depths: each depth as often, nothing else, and what is refused.
#include "runs/prove/prove_settings.h"

#include "es_test.h"

#define MOST_DEPTH 4

static EsProveSettings make_settings(int min_depth, int max_depth) {
    EsProveSettings settings;
    es_prove_run_config(&settings);
    settings.n_people = 100;
    settings.min_query_depth = min_depth;
    settings.max_query_depth = max_depth;
    settings.finds_depths = settings.is_balanced = 1;
    return settings;
}

static int32_t index_of(const EsQuerySplit *split, EsAtom atom) {
    for (int32_t i = 0; i < split->count; i++) {
        if (es_atom_compare(&split->atoms[i], &atom) == 0) {
            return i;
        }
    }
    return -1;
}

TEST(every_depth_comes_as_often) {
    EsProveSettings settings = make_settings(1, MOST_DEPTH);
    EsKnowledgeGraph *graph = NULL;
    EsProveQueries queries;
    REQUIRE_OK(es_prove_settings_check(&settings));
    REQUIRE_OK(es_prove_settings_graph(&settings, &graph));
    REQUIRE_OK(es_prove_balance_queries(&settings, graph, &queries));
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TRAIN];
    int32_t n_facts[MOST_DEPTH + 1] = {0}, n_queries[MOST_DEPTH + 1] = {0}, most = 0;
    int32_t *times = calloc((size_t)split->count, sizeof *times);
    for (int32_t i = 0; i < split->count; i++) {
        n_facts[ES_MAX(split->depths[i], 0)]++;
    }
    for (int32_t i = 0; i < queries.count; i++) {
        int32_t fact = index_of(split, queries.atoms[i]);
        EXPECT(fact >= 0 && split->depths[fact] >= 1);
        times[fact]++;
        n_queries[split->depths[fact]]++;
    }
    int n_depths = 0;
    for (int d = 1; d <= MOST_DEPTH; d++) {
        most = ES_MAX(most, n_facts[d]);
        n_depths += n_facts[d] > 0;
    }
    EXPECT(n_depths >= 2);
    for (int d = 1; d <= MOST_DEPTH; d++) {
        EXPECT_EQ(n_queries[d], n_facts[d] > 0 ? most : 0);
    }
    for (int32_t i = 0; i < split->count; i++) {
        int32_t depth = split->depths[i], share = depth > 0 ? most / n_facts[depth] : 0;
        EXPECT(times[i] == share || (depth > 0 && times[i] == share + 1));
    }
    free(times);
    es_prove_queries_destroy(&queries);
    es_kg_destroy(graph);
}

TEST(what_does_not_fit_is_refused) {
    EsProveSettings settings = make_settings(0, 0);
    EsKnowledgeGraph *graph = NULL;
    EsProveQueries queries;
    EXPECT_STATUS(es_prove_settings_check(&settings), CONFIG);
    settings = make_settings(9, 9);
    REQUIRE_OK(es_prove_settings_graph(&settings, &graph));
    EXPECT_STATUS(es_prove_balance_queries(&settings, graph, &queries), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "no fact of generated has a depth of 9 to 9");
    EXPECT(queries.atoms == NULL);
    es_kg_destroy(graph);
}
