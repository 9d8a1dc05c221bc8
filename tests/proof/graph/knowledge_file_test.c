#include "proof/graph/knowledge_file.h"

#include "temp_folder.h"

static void expect_failure(const char *folder, const char *rules, const char *message) {
    EsKnowledgeGraph *graph;
    EXPECT_STATUS(es_kg_load(folder, rules, &graph), INPUT);
    EXPECT(graph == NULL);
    EXPECT_CONTAINS(es_status_detail(), message);
}

TEST(a_folder_is_read) {
    const char *folder = temp_folder();
    write_temp_text("train.txt", "p(a,b).\np(b,c).\n");
    write_temp_text("rules.txt", "r:1:p(x,y), p(y,z) -> q(x,z)\n");
    write_temp_text("other.txt", "r:1:p(x,y) -> q(x,y)\nr:1:q(x,y) -> s(x,y)\n");
    EsKnowledgeGraph *graph;
    // splits, depths and domains may be missing
    REQUIRE_OK(es_kg_load(folder, NULL, &graph));
    EXPECT_EQ(graph->n_facts, 2);
    EXPECT_EQ(graph->n_rules, 1);
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_VALID].count, 0);
    EXPECT_EQ(graph->domains.count, 0);
    es_kg_destroy(graph);

    write_temp_text("valid.txt", "q(a,c)\n");
    write_temp_text("valid_depths.txt", "q(a,c) 1\n");
    write_temp_text("test.tsv", "d\tq\ta\n");
    write_temp_text("domain2constants.txt", "all a b c d\n");
    REQUIRE_OK(es_kg_load(folder, "other.txt", &graph));
    EXPECT_EQ(graph->n_rules, 2);
    EXPECT_EQ(graph->n_constants, 4);
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_VALID].depths[0], 1);
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_TEST].count, 1);
    EXPECT_EQ(graph->domains.count, 1);
    es_kg_destroy(graph);
    REQUIRE_OK(es_kg_load(folder, temp_path("other.txt"), &graph));
    EXPECT_EQ(graph->n_rules, 2);
    es_kg_destroy(graph);
}

TEST(what_is_missing_or_wrong_is_named) {
    const char *folder = temp_folder();
    expect_failure("no/such/folder", NULL,
                   "no/such/folder: No such file or directory; expected a folder with train.txt");
    expect_failure(folder, NULL,
                   ": neither train.txt nor train.tsv, one of which must hold the facts");
    write_temp_text("train.txt", "");
    expect_failure(folder, NULL, "/train.txt: holds no facts");
    write_temp_text("train.txt", "p(a,b).\n");
    expect_failure(folder, NULL, "/rules.txt: no such rule file");
    write_temp_text("rules.txt", "% none yet\n");
    expect_failure(folder, NULL, "/rules.txt: holds no rules");
    write_temp_text("rules.txt", "r:1:p(x,y) -> q(x,y)\n");
    expect_failure(folder, "amie.txt", "/amie.txt: no such rule file");
    write_temp_text("valid.txt", "q(a,b).\nq(a)\n");
    expect_failure(folder, NULL, "/valid.txt:2:1: \"q\" has 1 argument here and 2 before");
    write_temp_text("valid.txt", "q(a,b).\n");
    write_temp_text("valid_depths.txt", "q(b,a) 1\n");
    expect_failure(folder, NULL, "/valid_depths.txt:1:1: \"q(b,a)\" is not among the queries");
    write_temp_text("valid_depths.txt", "");
    write_temp_text("domain2constants.txt", "x\n");
    expect_failure(folder, NULL, "/domain2constants.txt:1:1: \"x\" is neither a domain");
    expect_failure(temp_path("train.txt"), NULL, "/train.txt: not a folder");
}

static void expect_sizes(const EsKgSource *source, int32_t n_predicates, int32_t n_rules) {
    EsKnowledgeGraph *graph = NULL;
    REQUIRE_OK(es_kg_load_source(source, NULL, &graph));
    EXPECT_EQ(graph->n_predicates, n_predicates);
    EXPECT_EQ(graph->n_rules, n_rules);
    es_kg_destroy(graph);
}

TEST(rules_may_be_missing_where_they_are_not_needed) {
    const char *folder = temp_folder();
    write_temp_text("train.txt", "p(a,b).\n");
    EsKgSource if_there = {.path = folder, .rules_use = ES_KG_RULES_IF_THERE};
    EsKgSource left_out = {.path = folder, .rules_use = ES_KG_RULES_LEFT_OUT};
    expect_sizes(&if_there, 1, 0);
    expect_sizes(&left_out, 1, 0);
    write_temp_text("rules.txt", "% none yet\n");
    expect_sizes(&if_there, 1, 0);
    write_temp_text("rules.txt", "r:1:p(x,y) -> q(x,y)\n");
    expect_sizes(&if_there, 2, 1);
    expect_sizes(&left_out, 1, 0);
    // what is there must be right, and what is named must be there
    EsKnowledgeGraph *graph = NULL;
    write_temp_text("rules.txt", "r:1:p(x,y) -> q(z)\n");
    EXPECT_STATUS(es_kg_load_source(&if_there, NULL, &graph), INPUT);
    if_there.rules = "amie.txt";
    EXPECT_STATUS(es_kg_load_source(&if_there, NULL, &graph), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "/amie.txt: no such rule file");
}
