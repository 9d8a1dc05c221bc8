#include "proof/graph/knowledge_file.h"

#include "proof/graph/knowledge_builder.h"
#include "proof/knowledge_case.h"

static EsStatus read_soft(const char *text, EsSoftFilter filter, EsSoftCounts *counts,
                          EsKnowledgeGraph **graph) {
    EsKnowledgeGraph *before;
    EsKgBuilder *builder;
    REQUIRE_OK(build_case("p(a,b)\np(b,c)\n", "p(a,c)\nq(c,a)\n", NULL, &before));
    REQUIRE_OK(es_kg_builder_create_from(before, &builder));
    for (int32_t i = 0; i < before->n_facts; i++) {
        REQUIRE_OK(es_kg_builder_add_fact(builder, &before->facts[i]));
    }
    EsStatus status =
        es_soft_facts_read(builder, before, &filter, "soft.txt", text, strlen(text), counts);
    REQUIRE_OK(es_kg_builder_finish(builder, graph));
    es_kg_builder_destroy(builder);
    es_kg_destroy(before);
    return status;
}

TEST(score_rank_and_queries) {
    const char *text = "# predicted\n"
                       "p(a,c) 0.9 1\n"     // a query
                       "p(a,b) 0.9 1\n"     // a fact
                       "p(c,b) 0.9 1\n"     // new
                       "q(c,'b') 0.5 2\n"   // new
                       "q(a,b) 0.4 1\n"     // too low
                       "q(b,b) 1e1 3\n"     // too far down
                       "r(new,other) 2 1\n" // names the graph has not
                       "\n";
    EsSoftCounts counts;
    EsKnowledgeGraph *graph;
    EsSoftFilter filter = {0.5, 2};
    REQUIRE_OK(read_soft(text, filter, &counts, &graph));
    EXPECT_EQ(counts.n_read, 7);
    EXPECT_EQ(counts.n_queries, 1);
    EXPECT_EQ(counts.n_known, 1);
    EXPECT_EQ(counts.n_filtered, 2);
    EXPECT_EQ(counts.n_added, 3);
    EXPECT_EQ(graph->n_facts, 5);
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "p", "c", "b")));
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "q", "c", "b")));
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "r", "new", "other")));
    EXPECT(!es_kg_has_fact(graph, find_atom(graph, "p", "a", "c")));
    // the queries are still there and no soft fact became one
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_TEST].count, 2);
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_TRAIN].count, 2);
    es_kg_destroy(graph);
    EsSoftFilter any = {-1e300, 0};
    REQUIRE_OK(read_soft(text, any, &counts, &graph));
    EXPECT_EQ(counts.n_added, 5);
    EXPECT_EQ(counts.n_queries, 1);
    es_kg_destroy(graph);
}

TEST(what_is_wrong_is_said_with_its_place) {
    static const char *const cases[][2] = {
        {"p(a,b) 0.9 1\np(a,b)\n", "soft.txt:2:7: the score \"\" is not a number"},
        {"p(a,b) high 1\n", "soft.txt:1:8: the score \"high\" is not a number"},
        {"p(a,b) nan 1\n", "soft.txt:1:8: the score \"nan\" is not a number"},
        {"p(a,b) 0.9\n", "soft.txt:1:11: the rank \"\" is not a number"},
        {"p(a,b) 0.9 0\n", "soft.txt:1:12: the rank is 0, expected a whole number from 1"},
        {"p(a,b) 0.9 1.5\n", "soft.txt:1:12: the rank is 1.5, expected a whole number from 1"},
        {"p(a,b) 0.9 1 x\n", "soft.txt:1:14: \"x\" after the rank"},
        {"p(\"\",b) 0.9 1\n", "soft.txt:1:4: the first argument has no name"},
        {"p(a,b,c) 0.9 1\n", "soft.txt:1:1: \"p\" has 3 arguments here and 2 before; a predicate "
                             "has one number of arguments"},
        {"nothing\n", "soft.txt:1:8: the score \"\" is not a number"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsSoftCounts counts;
        EsKnowledgeGraph *graph;
        EsSoftFilter any = {-1e300, 0};
        EXPECT_STATUS(read_soft(cases[i][0], any, &counts, &graph), INPUT);
        if (strcmp(es_status_detail(), cases[i][1]) != 0) {
            ES_TEST_FAIL("\"%s\", expected \"%s\"", es_status_detail(), cases[i][1]);
        }
        es_kg_destroy(graph);
    }
}
