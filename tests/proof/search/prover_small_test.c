// Depths on graphs small enough to work out by hand, limits, and wrong arguments.
#include "proof/search/prover.h"
#include "proof/small_graph.h"

static EsProverAnswer ask(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                          const char *query) {
    EsProver *prover = NULL;
    EsProverAnswer answer;
    REQUIRE_OK(es_prover_create(graph, settings, &prover));
    REQUIRE_OK(es_prover_find_depth(prover, (EsAtom[]){small_atom(graph, query)}, &answer));
    es_prover_destroy(prover);
    return answer;
}

TEST(depth_counts_steps) {
    EsKnowledgeGraph *graph =
        make_small_graph("parent(ann,bob) parent(bob,cy) parent(cy,dan) married(ann,al)",
                         "parent(x,y) parent(y,z) -> grand(x,z); grand(x,y) parent(y,z) -> "
                         "great(x,z); married(y,x) -> married(x,y)",
                         "great(ann,cy)");
    for (int s = 0; s < 2; s++) {
        EsProverSettings settings = es_prover_defaults();
        settings.selection = s == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST;
        EXPECT_EQ(ask(graph, &settings, "married(al,ann)").depth, 1);
        EXPECT_EQ(ask(graph, &settings, "grand(ann,cy)").depth, 2);
        EXPECT_EQ(ask(graph, &settings, "grand(ann,dan)").depth, ES_KG_DEPTH_NONE);
        EXPECT_EQ(ask(graph, &settings, "great(ann,cy)").depth, ES_KG_DEPTH_NONE);
        // a fact may not prove itself
        EXPECT_EQ(ask(graph, &settings, "married(ann,al)").depth, ES_KG_DEPTH_NONE);
        // grand(ann,Y) parent(Y,dan), then the rule for grand, then a fact for each new variable
        EXPECT_EQ(ask(graph, &settings, "great(ann,dan)").depth, 4);
        settings.max_depth = 3;
        EXPECT_EQ(ask(graph, &settings, "great(ann,dan)").depth, ES_KG_DEPTH_NONE);
        settings.max_depth = 2;
        EXPECT_EQ(ask(graph, &settings, "great(ann,dan)").depth, ES_KG_DEPTH_NONE);
        EXPECT_EQ(ask(graph, &settings, "grand(ann,cy)").depth, 2);
        settings.max_atoms = 1;
        EsProverAnswer answer = ask(graph, &settings, "grand(ann,cy)");
        EXPECT_EQ(answer.depth, ES_KG_DEPTH_NONE);
        EXPECT_EQ(answer.n_overlong, 1);
    }
    es_kg_destroy(graph);
}

// top(a,d) becomes p(a,Y) q(Y,d); the rule for p opens a second variable, which the published
// naming takes for Y.
TEST(published_naming_loses_proofs) {
    EsProverSettings settings = es_prover_defaults();
    settings.selection = ES_GOAL_LEFTMOST;
    settings.max_depth = 8;
    EsKnowledgeGraph *graph = make_small_graph(
        "f(a,u) g(u,v) q(v,d)", "p(x,y) q(y,z) -> top(x,z); f(x,y) g(y,z) -> p(x,z)", "top(a,d)");
    EXPECT_EQ(ask(graph, &settings, "top(a,d)").depth, 4);
    settings.uses_published_naming = 1;
    EXPECT_EQ(ask(graph, &settings, "top(a,d)").depth, ES_KG_DEPTH_NONE);
    es_kg_destroy(graph);
}

TEST(loops_end) {
    EsKnowledgeGraph *graph = make_small_graph(
        "p(a,b)", "p(y,x) -> p(x,y); p(x,h) p(h,y) -> p(x,y); q(x,y) -> r(x,y); r(x,y) -> q(x,y)",
        "q(b,c)");
    EsProverSettings settings = es_prover_defaults();
    settings.max_depth = 1000;
    EsProverAnswer answer = ask(graph, &settings, "q(b,c)");
    EXPECT_EQ(answer.depth, ES_KG_DEPTH_NONE);
    EXPECT_EQ(answer.n_states, 2);
    es_kg_destroy(graph);
}

TEST(state_limit_is_told_apart) {
    EsKnowledgeGraph *graph = make_small_graph(
        "e(a,b) e(b,c) e(c,d)", "e(x,h) t(h,y) -> t(x,y); t(x,h) t(h,y) -> t(x,y)", "t(d,a)");
    EsProverSettings settings = es_prover_defaults();
    settings.max_depth = 12;
    settings.max_states = 10;
    EXPECT_EQ(ask(graph, &settings, "t(d,a)").depth, ES_PROVER_DEPTH_UNKNOWN);
    EsThreadPool *pool = NULL;
    EsProverReport report;
    int32_t depth = 0;
    EsAtom query = small_atom(graph, "t(d,a)");
    REQUIRE_OK(es_thread_pool_create(&pool, 1));
    REQUIRE_OK(es_prover_find_depths(graph, &settings, pool, &query, 1, &depth, &report));
    EXPECT_EQ(depth, ES_PROVER_DEPTH_UNKNOWN);
    EXPECT_EQ(report.n_unknown, 1);
    EXPECT_EQ(report.n_proved + report.n_unproved, 0);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}

// Asking one prover again and again gives what a new one gives: nothing stays behind.
TEST(prover_forgets) {
    EsKnowledgeGraph *graph = make_small_graph(
        "e(a,b) e(b,c) e(c,d) e(d,a)", "e(x,h) t(h,y) -> t(x,y); e(x,y) -> t(x,y)", "t(a,a)");
    EsProverSettings settings = es_prover_defaults();
    settings.max_depth = 9;
    EsProver *prover = NULL;
    REQUIRE_OK(es_prover_create(graph, &settings, &prover));
    for (int k = 0; k < 64; k++) {
        EsAtom query = {es_kg_predicate(graph, "t"), 1 + k % 4, 1 + k / 4 % 4};
        EsProver *fresh = NULL;
        EsProverAnswer answer, again;
        REQUIRE_OK(es_prover_find_depth(prover, &query, &answer));
        REQUIRE_OK(es_prover_create(graph, &settings, &fresh));
        REQUIRE_OK(es_prover_find_depth(fresh, &query, &again));
        EXPECT_EQ(answer.depth, again.depth);
        EXPECT_EQ(answer.n_states, again.n_states);
        EXPECT(answer.depth > 0);
        es_prover_destroy(fresh);
    }
    es_prover_destroy(prover);
    es_kg_destroy(graph);
}

// A graph may ask for more than its lists can count; that is no mistake of ours.
TEST(lists_that_cannot_be_counted_are_refused) {
    const int32_t sizes[][2] = {{1 << 28, ES_PROOF_MAX_ATOMS}, {INT32_MAX, 0}, {INT32_MAX, 1}};
    for (size_t i = 0; i < ES_COUNT_OF(sizes); i++) {
        EsSuccessors successors;
        EXPECT_STATUS(es_successors_create(sizes[i][0], sizes[i][1], &successors), MEMORY);
        EXPECT(successors.atoms == NULL);
    }
}

TEST(wrong_arguments) {
    EsKnowledgeGraph *graph = make_small_graph("p(a,b)", "p(y,x) -> p(x,y)", "");
    EsProverSettings settings = es_prover_defaults();
    EsProver *prover = NULL;
    settings.max_atoms = ES_PROOF_MAX_ATOMS + 1;
    EXPECT_STATUS(es_prover_create(graph, &settings, &prover), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "21 atoms");
    EXPECT(prover == NULL);
    settings = es_prover_defaults();
    settings.max_depth = 0;
    EXPECT_STATUS(es_prover_create(graph, &settings, &prover), ARGUMENT);
    settings = es_prover_defaults();
    REQUIRE_OK(es_prover_create(graph, &settings, &prover));
    EsProverAnswer answer;
    EsAtom queries[] = {{0, 1, 1}, {2, 1, 1}, {1, 0, 1}, {1, 3, 1}, {1, 1, -1}, {1, 1, 3}};
    for (size_t i = 0; i < ES_COUNT_OF(queries); i++) {
        EXPECT_STATUS(es_prover_find_depth(prover, &queries[i], &answer), ARGUMENT);
    }
    EXPECT_CONTAINS(es_status_detail(), "1(1,3)");
    es_prover_destroy(prover);
    EsThreadPool *pool = NULL;
    EsProverReport report;
    int32_t depths[ES_COUNT_OF(queries)];
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    EXPECT_STATUS(es_prover_find_depths(graph, &settings, pool, queries, 6, depths, &report),
                  ARGUMENT);
    // what the worker's thread had to say; of which query depends on who took it
    EXPECT_CONTAINS(es_status_detail(), "is not over the graph's");
    REQUIRE_OK(es_prover_find_depths(graph, &settings, pool, queries, 0, depths, &report));
    EXPECT_EQ(report.n_proved + report.n_unproved + report.n_unknown, 0);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}
