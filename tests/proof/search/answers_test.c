// Answers against a prover asked for every ground atom one by one, and against a closure made by
// plain enumeration.
#include "proof/search/answers.h"

#include "proof/random_graph.h"

#define N_GRAPHS 100

static EsThreadPool *make_pool(int n_threads) {
    EsThreadPool *pool = NULL;
    REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
    return pool;
}

static EsAnswers ask(const EsKnowledgeGraph *graph, const char *text, int32_t closure_limit,
                     int32_t max_depth, EsThreadPool *pool) {
    EsAnswersSettings settings = es_answers_defaults();
    settings.closure_limit = closure_limit;
    settings.prover.max_depth = max_depth;
    EsQuestion question;
    EsAnswers answers;
    REQUIRE_OK(es_question_parse(graph, text, &question));
    REQUIRE_OK(es_answers_find(graph, &settings, pool, question.goals[0].cells, &answers));
    return answers;
}

TEST(a_grandparent) {
    EsKnowledgeGraph *graph =
        make_small_graph("parent(ann,bob) parent(bob,cy) parent(bob,dan) grand(ann,eve)",
                         "parent(x,y) parent(y,z) -> grand(x,z)", "");
    EsThreadPool *pool = make_pool(1);
    EsAnswers answers = ask(graph, "grand(ann,X)", 1000, 4, pool);
    EXPECT_EQ(answers.count, 3);
    EXPECT_EQ(answers.is_complete && answers.is_closure_known, 1);
    EXPECT_EQ(answers.items[0].n_steps, 0);
    EXPECT(es_atom_equals(answers.items[0].atom, small_atom(graph, "grand(ann,eve)")));
    EXPECT_EQ(answers.items[1].n_steps, 2);
    EXPECT(es_atom_equals(answers.items[1].atom, small_atom(graph, "grand(ann,cy)")));
    EXPECT(es_atom_equals(answers.items[2].atom, small_atom(graph, "grand(ann,dan)")));
    es_answers_destroy(&answers);
    // one step is too few, but the closure knows the answers
    answers = ask(graph, "grand(ann,_)", 1000, 1, pool);
    EXPECT_EQ(answers.count, 3);
    EXPECT_EQ(answers.n_deeper, 2);
    EXPECT_EQ(answers.items[1].n_steps, ES_ANSWER_BEYOND);
    EXPECT(es_atom_equals(answers.items[1].atom, small_atom(graph, "grand(ann,cy)")));
    EXPECT(answers.closure == NULL);
    es_answers_destroy(&answers);
    answers = ask(graph, "grand(ann,dan)", 1000, 1, pool);
    EXPECT(answers.count == 1 && answers.items[0].n_steps == ES_ANSWER_BEYOND);
    EXPECT_EQ(answers.is_closure_known, 1);
    es_answers_destroy(&answers);
    // without the closure nothing is said about what takes more steps
    answers = ask(graph, "grand(ann,_)", 0, 1, pool);
    EXPECT_EQ(answers.count, 1);
    EXPECT_EQ(answers.is_closure_known, 0);
    es_answers_destroy(&answers);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}

TEST(ground_questions) {
    EsKnowledgeGraph *graph = make_small_graph(
        "p(a,b) q(b,a) p(c,d)", "q(y,x) -> p(x,y); p(x,y) p(y,z) -> r(x,z)", "r(a,c) p(b,a)");
    EsThreadPool *pool = make_pool(1);
    EsAnswers answers = ask(graph, "p(a,b)", 1000, 4, pool);
    EXPECT_EQ(answers.count, 1);
    EXPECT_EQ(answers.items[0].n_steps, 0);
    EXPECT_EQ(answers.n_steps_otherwise, 1);
    es_answers_destroy(&answers);
    answers = ask(graph, "p(c,d)", 1000, 4, pool);
    EXPECT_EQ(answers.count, 1);
    EXPECT_EQ(answers.n_steps_otherwise, ES_KG_DEPTH_NONE);
    es_answers_destroy(&answers);
    answers = ask(graph, "r(a,c)", 1000, 4, pool);
    EXPECT_EQ(answers.count, 0);
    EXPECT_EQ(answers.is_closure_known, 1);
    EXPECT_EQ(answers.n_deeper, 0);
    es_answers_destroy(&answers);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}

// --- random graphs ---

static int is_next(EsAnswer before, EsAnswer after) {
    return before.n_steps < after.n_steps ||
           (before.n_steps == after.n_steps && es_atom_compare(&before.atom, &after.atom) < 0);
}

// Checks the answers by asking for each ground atom; returns the number of answers that took a
// step.
static int check_answers(const EsKnowledgeGraph *graph, EsAtom form, const EsAnswers *answers,
                         int32_t max_depth) {
    EsProverSettings settings = es_prover_defaults();
    settings.max_depth = max_depth;
    EsProver *prover;
    REQUIRE_OK(es_prover_create(graph, &settings, &prover));
    int32_t n_expected = 0, n_deeper = 0, n_steps = 0;
    for (int32_t q = 0; q < graph->splits[ES_KG_SPLIT_TEST].count; q++) {
        EsAtom atom = graph->splits[ES_KG_SPLIT_TEST].atoms[q];
        if (!es_question_matches(graph, &form, &atom)) {
            continue;
        }
        EsProverAnswer proof;
        REQUIRE_OK(es_prover_find_depth(prover, &atom, &proof));
        int32_t expected = es_kg_has_fact(graph, atom) ? 0 : proof.depth;
        EsAtom absent = {1, 0, 0};
        SmallClosure closure = close_graph(graph, absent, 1000);
        int follows = *closure_cell(&closure, atom, NULL);
        EXPECT(follows || expected < 0);
        n_deeper += follows && expected < 0;
        n_steps += expected > 0;
        if (follows && expected < 0 && answers->is_closure_known) {
            expected = ES_ANSWER_BEYOND;
        }
        n_expected += expected >= 0;
        int is_found = 0;
        for (int32_t i = 0; i < answers->count; i++) {
            is_found |= es_atom_equals(answers->items[i].atom, atom) &&
                        answers->items[i].n_steps == expected;
        }
        EXPECT_EQ(is_found, expected >= 0);
    }
    EXPECT_EQ(answers->count, n_expected);
    if (answers->is_closure_known) {
        EXPECT_EQ(answers->n_deeper, n_deeper);
    }
    for (int32_t i = 1; i < answers->count; i++) {
        EXPECT(is_next(answers->items[i - 1], answers->items[i]));
    }
    es_prover_destroy(prover);
    return n_steps;
}

static const char *const forms[] = {"p1(c0,X)", "p2(X,c1)", "p0(X,Y)", "p3(X,X)", "p2(_,_)"};

TEST(answers_of_random_graphs_are_exact) {
    EsThreadPool *one = make_pool(1), *three = make_pool(3);
    int n_steps = 0;
    for (uint32_t number = 0; number < N_GRAPHS; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, (int)number % 2, -1, "");
        for (size_t f = 0; f < ES_COUNT_OF(forms); f++) {
            int32_t max_depth = 1 + (int32_t)((number + f) % 4);
            EsQuestion question;
            REQUIRE_OK(es_question_parse(graph, forms[f], &question));
            EsAnswers by_closure = ask(graph, forms[f], 1000, max_depth, one);
            EsAnswers by_search = ask(graph, forms[f], 0, max_depth, three);
            EXPECT_EQ(by_closure.method, ES_ANSWERS_CLOSURE);
            EXPECT_EQ(by_search.method, ES_ANSWERS_SEARCH);
            EXPECT_EQ(by_closure.is_complete && by_search.is_complete, 1);
            n_steps += check_answers(graph, question.goals[0].cells[0], &by_closure, max_depth);
            check_answers(graph, question.goals[0].cells[0], &by_search, max_depth);
            es_answers_destroy(&by_closure);
            es_answers_destroy(&by_search);
        }
        es_kg_destroy(graph);
    }
    EXPECT(n_steps > 3 * N_GRAPHS);
    es_thread_pool_destroy(one);
    es_thread_pool_destroy(three);
}

TEST(a_limit_on_states_is_told) {
    EsKnowledgeGraph *graph =
        make_small_graph("p(a,b) p(b,c) p(c,d) p(d,e) p(e,a)", "p(x,y) p(y,z) -> p(x,z)", "");
    EsThreadPool *pool = make_pool(1);
    EsAnswersSettings settings = es_answers_defaults();
    settings.closure_limit = 0;
    settings.prover.max_states = 3;
    EsAnswers answers;
    EsAtom form = {1, es_kg_constant(graph, "a"), -1};
    REQUIRE_OK(es_answers_find(graph, &settings, pool, &form, &answers));
    EXPECT_EQ(answers.is_complete, 0);
    EXPECT_EQ(answers.search.is_full, 1);
    EXPECT_EQ(answers.search.n_overlong, 0);
    // what was found is right all the same
    EXPECT(answers.count >= 1);
    EXPECT(es_atom_equals(answers.items[0].atom, small_atom(graph, "p(a,b)")));
    es_answers_destroy(&answers);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}

// Goals that grow with the steps and are never ground: no number of states helps.
TEST(a_limit_on_atoms_is_told_apart) {
    EsKnowledgeGraph *graph = make_small_graph(
        "p(a,b) p(b,c) q(c,d) q(d,e)",
        "p(x,z) p(z,y) -> p(x,y); q(x,z) p(z,y) -> p(x,y); p(x,z) q(z,y) -> p(x,y); "
        "p(x,z) p(z,u) q(u,y) -> q(x,y)",
        "");
    EsThreadPool *pool = make_pool(1);
    EsAnswers answers = ask(graph, "q(e,X)", 1, 20, pool);
    EXPECT_EQ(answers.is_complete, 0);
    EXPECT_EQ(answers.search.is_full, 0);
    EXPECT(answers.search.n_overlong > 0);
    es_answers_destroy(&answers);
    // the closure needs no search
    answers = ask(graph, "q(e,X)", 1000, 20, pool);
    EXPECT_EQ(answers.is_complete, 1);
    EXPECT_EQ(answers.search.n_overlong, 0);
    es_answers_destroy(&answers);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}
