#include "proof/graph/kinship_graph.h"

#include "es_test.h"
#include "proof/search/closure.h"

static int is_query(const EsKnowledgeGraph *graph, EsKgSplit split, EsAtom atom) {
    const EsQuerySplit *queries = &graph->splits[split];
    for (int32_t i = 0; i < queries->count; i++) {
        if (memcmp(&queries->atoms[i], &atom, sizeof atom) == 0) {
            return 1;
        }
    }
    return 0;
}

TEST(the_rules_derive_nothing_false) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        EsKnowledgeGraph *graph;
        EsClosure *closure;
        REQUIRE_OK(es_kinship_graph_create(400, seed, &graph));
        REQUIRE_OK(es_closure_create(graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
        EXPECT_EQ(closure->is_complete, 1);
        // facts and held-out atoms are all that is true
        for (int32_t p = 1; p <= graph->n_predicates; p++) {
            for (int32_t i = es_closure_count_facts(closure, p); i < es_closure_count(closure, p);
                 i++) {
                EsAtom atom = es_closure_atom(closure, p, i).cells[0];
                if (!is_query(graph, ES_KG_SPLIT_VALID, atom) &&
                    !is_query(graph, ES_KG_SPLIT_TEST, atom)) {
                    char text[128];
                    es_kg_format_atom(graph, &atom, text, sizeof text);
                    ES_TEST_FAIL("seed %d: %s was derived and is false", (int)seed, text);
                }
            }
        }
        // most can be proved, not all
        int32_t n_test = graph->splits[ES_KG_SPLIT_TEST].count;
        int32_t n_provable = es_closure_count_queries(closure, ES_KG_SPLIT_TEST);
        EXPECT(n_provable > n_test * 9 / 10);
        EXPECT(n_provable < n_test);
        es_closure_destroy(closure);
        es_kg_destroy(graph);
    }
}

TEST(nobody_is_a_relative_of_themselves) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(1000, 5, &graph));
    for (int32_t i = 0; i < graph->n_facts; i++) {
        EXPECT(graph->facts[i].a != graph->facts[i].b);
    }
    // a man has one wife, a child one father and one mother
    int32_t father = es_kg_predicate(graph, "father"), wife = es_kg_predicate(graph, "wife");
    for (int32_t x = 1; x <= graph->n_constants; x++) {
        EXPECT(es_kg_facts_with_b(graph, father, x).count <= 1);
        EXPECT(es_kg_facts_with_b(graph, wife, x).count <= 1);
    }
    es_kg_destroy(graph);
}

TEST(splits_are_apart_and_have_their_shares) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(2000, 1, &graph));
    const EsQuerySplit *splits = graph->splits;
    double total = 0;
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        total += splits[split].count;
    }
    EXPECT_EQ(splits[ES_KG_SPLIT_TRAIN].count, graph->n_facts);
    EXPECT_NEAR(splits[ES_KG_SPLIT_VALID].count / total, 0.1, 0.01);
    EXPECT_NEAR(splits[ES_KG_SPLIT_TEST].count / total, 0.2, 0.01);
    for (int split = ES_KG_SPLIT_VALID; split <= ES_KG_SPLIT_TEST; split++) {
        for (int32_t i = 0; i < splits[split].count; i++) {
            EXPECT(!es_kg_has_fact(graph, splits[split].atoms[i]));
        }
    }
    EXPECT_EQ(graph->n_predicates, 15);
    EXPECT_EQ(graph->n_rules, 53);
    es_kg_destroy(graph);
}

static uint64_t hash_graph(int32_t n_people, uint64_t seed) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(n_people, seed, &graph));
    uint64_t hash = 14695981039346656037u;
    for (int32_t i = 0; i < graph->n_facts; i++) {
        char text[128];
        es_kg_format_atom(graph, &graph->facts[i], text, sizeof text);
        for (const char *byte = text; *byte != '\0'; byte++) {
            hash = (hash ^ (unsigned char)*byte) * 1099511628211u;
        }
    }
    es_kg_destroy(graph);
    return hash;
}

TEST(a_graph_is_a_function_of_its_seed) {
    EXPECT(hash_graph(300, 1) == hash_graph(300, 1));
    EXPECT(hash_graph(300, 1) != hash_graph(300, 2));
    EXPECT(hash_graph(300, 1) != hash_graph(301, 1));
    // recorded: the graph of results quoted elsewhere must not change unseen
    uint64_t hash = hash_graph(300, 1);
    if (hash != 0x7b3667d25467dd14u) {
        ES_TEST_FAIL("the facts hash to %#llx", (unsigned long long)hash);
    }
}

TEST(any_size_is_met_exactly) {
    EsKnowledgeGraph *graph;
    for (int32_t n = ES_KINSHIP_MIN_PEOPLE; n <= 120; n++) {
        REQUIRE_OK(es_kinship_graph_create(n, 9, &graph));
        EXPECT_EQ(graph->n_constants, n);
        es_kg_destroy(graph);
    }
    EXPECT_STATUS(es_kinship_graph_create(1, 1, &graph), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "a generated graph has 2 to 1000000 people, not 1");
    EXPECT_STATUS(es_kinship_graph_create(1000001, 1, &graph), ARGUMENT);
}
