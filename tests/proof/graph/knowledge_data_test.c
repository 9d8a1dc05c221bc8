// The published data sets: sizes, depths and closures as counted by independent programs. Needs
// ES_KG_DIR, the folder that holds countries_s3, family, umls and wn18rr.
#include "es_test.h"
#include "proof/graph/knowledge_file.h"
#include "proof/search/closure.h"

typedef struct DataCase {
    const char *folder, *rules;
    int n_constants, n_predicates, n_facts, n_rules, max_rules, max_body;
    int n_valid, n_test, n_train_depths;
    int closure; // 0: too large
    int valid_in_closure, test_in_closure;
} DataCase;

static const DataCase cases[] = {
    {"countries_s3", NULL, 271, 4, 983, 2, 2, 3, 24, 24, 111, 1387, 24, 24},
    {"family", NULL, 2968, 12, 19845, 87, 12, 2, 2799, 5626, 19845, 55715, 2694, 5420},
    {"family", "rules_amie.txt", 2968, 12, 19845, 48, 0, 2, 2799, 5626, 19845, 26422, 2172, 4395},
    {"umls", NULL, 134, 46, 1959, 104, 12, 2, 1300, 3245, 1959, 36791, 1094, 2710},
    {"wn18rr", NULL, 40559, 11, 86835, 32, 6, 2, 2824, 2924, 86835, 0, 0, 0},
};

static int load_case(const DataCase *data, EsKnowledgeGraph **graph) {
    const char *folder = getenv("ES_KG_DIR");
    if (folder == NULL || folder[0] == '\0') {
        return 0;
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, data->folder);
    REQUIRE_OK(es_kg_load(path, data->rules, graph));
    return 1;
}

TEST(data_sets_have_their_published_sizes) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EsKnowledgeGraph *graph;
        if (!load_case(&cases[i], &graph)) {
            SKIP("ES_KG_DIR is not set");
        }
        printf("%s\n", cases[i].folder);
        EXPECT_EQ(graph->n_constants, cases[i].n_constants);
        EXPECT_EQ(graph->n_predicates, cases[i].n_predicates);
        EXPECT_EQ(graph->n_facts, cases[i].n_facts);
        EXPECT_EQ(graph->n_rules, cases[i].n_rules);
        EXPECT_EQ(graph->max_body, cases[i].max_body);
        EXPECT(cases[i].max_rules == 0 || graph->max_rules == cases[i].max_rules);
        EXPECT_EQ(graph->splits[ES_KG_SPLIT_TRAIN].count, cases[i].n_facts);
        EXPECT_EQ(graph->splits[ES_KG_SPLIT_VALID].count, cases[i].n_valid);
        EXPECT_EQ(graph->splits[ES_KG_SPLIT_TEST].count, cases[i].n_test);
        for (int split = 0; split < ES_KG_N_SPLITS; split++) {
            const EsQuerySplit *queries = &graph->splits[split];
            int n_depths = 0;
            for (int32_t k = 0; k < queries->count; k++) {
                n_depths += queries->depths[k] != ES_KG_DEPTH_ABSENT;
            }
            EXPECT_EQ(n_depths,
                      split == ES_KG_SPLIT_TRAIN ? cases[i].n_train_depths : queries->count);
        }
        EXPECT_EQ(graph->domains.n_unknown, 0);
        es_kg_destroy(graph);
    }
}

TEST(closures_have_their_published_sizes) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EsKnowledgeGraph *graph;
        EsClosure *closure;
        if (!load_case(&cases[i], &graph)) {
            SKIP("ES_KG_DIR is not set");
        }
        // the closure of wn18rr has more than 40 million atoms: there the limit must be told
        int32_t limit = cases[i].closure > 0 ? ES_CLOSURE_DEFAULT_LIMIT : 200000;
        REQUIRE_OK(es_closure_create(graph, limit, &closure));
        EXPECT_EQ(closure->is_complete, cases[i].closure > 0);
        if (closure->is_complete) {
            EXPECT_EQ(closure->count, cases[i].closure);
            EXPECT_EQ(es_closure_count_queries(closure, ES_KG_SPLIT_VALID),
                      cases[i].valid_in_closure);
            EXPECT_EQ(es_closure_count_queries(closure, ES_KG_SPLIT_TEST),
                      cases[i].test_in_closure);
        } else {
            EXPECT_EQ(closure->count, 200000);
        }
        es_closure_destroy(closure);
        es_kg_destroy(graph);
    }
}

// A published derivation is in the closure; -1 only says that a bounded search found none.
TEST(published_depths_are_in_the_closure) {
    const DataCase *family = &cases[2];
    EsKnowledgeGraph *graph;
    EsClosure *closure;
    if (!load_case(family, &graph)) {
        SKIP("ES_KG_DIR is not set");
    }
    REQUIRE_OK(es_closure_create(graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
    const EsQuerySplit *test = &graph->splits[ES_KG_SPLIT_TEST];
    int n_proved = 0;
    for (int32_t i = 0; i < test->count; i++) {
        if (test->depths[i] > 0) {
            n_proved++;
            EXPECT(es_closure_has(closure, &test->atoms[i]));
        }
    }
    EXPECT(n_proved > 4000);
    es_closure_destroy(closure);
    es_kg_destroy(graph);
}
