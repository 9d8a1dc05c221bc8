// Properties that hold for every graph, on small random ones: depths against the closure, and
// against the same graph told in another way.
#include "proof/random_graph.h"
#include "proof/search/prover.h"

#define N_QUERIES (RANDOM_PREDICATES * RANDOM_CONSTANTS * RANDOM_CONSTANTS)

typedef struct Depths {
    EsProverAnswer answer[N_QUERIES];
} Depths;

static EsProverSettings settings_of(EsGoalSelection selection, int32_t max_depth,
                                    int32_t max_atoms) {
    EsProverSettings settings = es_prover_defaults();
    settings.selection = selection;
    settings.max_depth = max_depth;
    settings.max_atoms = max_atoms;
    return settings;
}

// Answers to the queries of the split TEST, which are all atoms in the order of their names.
static Depths ask_all(const EsKnowledgeGraph *graph, const EsProverSettings *settings) {
    Depths depths;
    EsProver *prover = NULL;
    REQUIRE_OK(es_prover_create(graph, settings, &prover));
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_TEST].count, N_QUERIES);
    for (int i = 0; i < N_QUERIES; i++) {
        EsAtom query = graph->splits[ES_KG_SPLIT_TEST].atoms[i];
        REQUIRE_OK(es_prover_find_depth(prover, &query, &depths.answer[i]));
    }
    es_prover_destroy(prover);
    return depths;
}

// Layered rules make every search end by itself: both selections prove what the closure holds, and
// nothing else. The published naming proves no more than that.
TEST(proved_means_in_the_closure) {
    int n_proved = 0, n_lost = 0;
    for (uint32_t number = 0; number < 150; number++) {
        RandomGraph random = draw_graph(number, 1);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        EsProverSettings constrained = settings_of(ES_GOAL_CONSTRAINED, 20, 20);
        EsProverSettings leftmost = settings_of(ES_GOAL_LEFTMOST, 20, 20);
        EsProverSettings published = leftmost;
        published.uses_published_naming = 1;
        Depths first = ask_all(graph, &constrained), second = ask_all(graph, &leftmost);
        Depths third = ask_all(graph, &published);
        for (int i = 0; i < N_QUERIES; i++) {
            EsAtom query = graph->splits[ES_KG_SPLIT_TEST].atoms[i];
            SmallClosure closure = close_graph(graph, query, 100);
            int holds = *closure_cell(&closure, query, NULL);
            EXPECT_EQ(first.answer[i].depth > 0, holds);
            EXPECT_EQ(second.answer[i].depth > 0, holds);
            EXPECT(holds || third.answer[i].depth < 0);
            n_proved += holds;
            n_lost += holds && third.answer[i].depth < 0;
        }
        es_kg_destroy(graph);
    }
    printf("%d atoms proved, %d of them lost by the published naming\n", n_proved, n_lost);
    EXPECT(n_proved > 1000);
}

// Any rules: a proof is in the closure. Two rounds of rules with at most two body atoms are undone
// in 1 + 2 (1 + 2) steps at most, and never need more than three atoms at a time.
TEST(two_rounds_are_found) {
    int n_found = 0;
    EsProverSettings settings = settings_of(ES_GOAL_CONSTRAINED, 7, 3);
    for (uint32_t number = 1000; number < 1060; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        for (int s = 0; s < 2; s++) {
            settings.selection = s == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST;
            Depths depths = ask_all(graph, &settings);
            for (int i = 0; i < N_QUERIES; i++) {
                EsAtom query = graph->splits[ES_KG_SPLIT_TEST].atoms[i];
                SmallClosure all = close_graph(graph, query, 100);
                SmallClosure two = close_graph(graph, query, 2);
                int is_near = *closure_cell(&two, query, NULL);
                EXPECT(depths.answer[i].depth < 0 || *closure_cell(&all, query, NULL));
                EXPECT(!is_near || depths.answer[i].depth > 0);
                n_found += is_near;
            }
        }
        es_kg_destroy(graph);
    }
    EXPECT(n_found > 1000);
}

static void expect_same_search(const Depths *x, const Depths *y, const char *what,
                               uint32_t number) {
    for (int i = 0; i < N_QUERIES; i++) {
        if (x->answer[i].depth != y->answer[i].depth ||
            x->answer[i].n_states != y->answer[i].n_states) {
            ES_TEST_FAIL("graph %u, query %d, %s: depth %d of %d states, then %d of %d", number, i,
                         what, x->answer[i].depth, x->answer[i].n_states, y->answer[i].depth,
                         y->answer[i].n_states);
            return;
        }
    }
}

// Give every constant another place in the order of names: c0 becomes z9, c1 z8, ...
static void rename_constants(char *text) {
    for (; *text != '\0'; text++) {
        if (text[0] == 'c' && text[1] >= '0' && text[1] <= '9') {
            text[0] = 'z';
            text[1] = (char)('9' - (text[1] - '0'));
        }
    }
}

TEST(other_words_same_depths) {
    for (uint32_t number = 2000; number < 2040; number++) {
        RandomGraph random = draw_graph(number, 0);
        for (int s = 0; s < 2; s++) {
            EsProverSettings settings =
                settings_of(s == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST, 4, 4);
            EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
            Depths depths = ask_all(graph, &settings);
            es_kg_destroy(graph);

            graph = build_graph(&random, 1, -1, "");
            Depths permuted = ask_all(graph, &settings);
            expect_same_search(&depths, &permuted, "facts and rules in another order", number);
            es_kg_destroy(graph);

            graph = build_graph(&random, 0, -1, "aa(c1,c2) zz(c3,c3) zz(c5,c1)");
            Depths unrelated = ask_all(graph, &settings);
            expect_same_search(&depths, &unrelated, "two unrelated predicates", number);
            es_kg_destroy(graph);

            RandomGraph renamed = random;
            for (int i = 0; i < renamed.n_facts; i++) {
                rename_constants(renamed.facts[i].a);
                rename_constants(renamed.facts[i].b);
            }
            rename_constants(renamed.queries);
            graph = build_graph(&renamed, 0, -1, "");
            Depths after = ask_all(graph, &settings);
            expect_same_search(&depths, &after, "constants renamed", number);
            es_kg_destroy(graph);
        }
    }
}

TEST(a_fact_more_never_deepens) {
    int n_nearer = 0;
    for (uint32_t number = 3000; number < 3080; number++) {
        RandomGraph random = draw_graph(number, 0);
        Dice dice = {number, 5000};
        SmallAtom names = draw_fact(&dice);
        char more[256];
        snprintf(more, sizeof more, "%s(%s,%s)", names.predicate, names.a, names.b);
        for (int s = 0; s < 2; s++) {
            EsProverSettings settings =
                settings_of(s == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST, 4, 4);
            EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
            EsKnowledgeGraph *larger = build_graph(&random, 0, -1, more);
            Depths before = ask_all(graph, &settings), after = ask_all(larger, &settings);
            for (int i = 0; i < N_QUERIES; i++) {
                int32_t old = before.answer[i].depth, new = after.answer[i].depth;
                if (old > 0 && (new < 0 || new > old)) {
                    ES_TEST_FAIL("graph %u, query %d, fact %s: depth %d became %d", number, i, more,
                                 old, new);
                }
                n_nearer += new > 0 && (old < 0 || new < old);
            }
            es_kg_destroy(graph);
            es_kg_destroy(larger);
        }
    }
    EXPECT(n_nearer > 100);
}

TEST(the_query_as_a_fact_changes_nothing) {
    for (uint32_t number = 4000; number < 4040; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        for (int i = 0; i < random.n_facts; i++) {
            char text[256];
            snprintf(text, sizeof text, "%s(%s,%s)", random.facts[i].predicate, random.facts[i].a,
                     random.facts[i].b);
            EsKnowledgeGraph *smaller = build_graph(&random, 0, i, "");
            if (smaller->n_facts == graph->n_facts) { // drawn twice
                es_kg_destroy(smaller);
                continue;
            }
            for (int s = 0; s < 2; s++) {
                EsProverSettings settings =
                    settings_of(s == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST, 5, 4);
                EsProver *with = NULL, *without = NULL;
                EsProverAnswer x, y;
                REQUIRE_OK(es_prover_create(graph, &settings, &with));
                REQUIRE_OK(es_prover_create(smaller, &settings, &without));
                REQUIRE_OK(es_prover_find_depth(with, (EsAtom[]){small_atom(graph, text)}, &x));
                REQUIRE_OK(
                    es_prover_find_depth(without, (EsAtom[]){small_atom(smaller, text)}, &y));
                EXPECT_EQ(x.depth, y.depth);
                EXPECT_EQ(x.n_states, y.n_states);
                es_prover_destroy(with);
                es_prover_destroy(without);
            }
            es_kg_destroy(smaller);
        }
        es_kg_destroy(graph);
    }
}

// A lower limit finds the same depths up to it.
TEST(the_depth_limit_only_cuts) {
    int n_deep = 0;
    for (uint32_t number = 6000; number < 6030; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        for (int s = 0; s < 2; s++) {
            EsGoalSelection selection = s == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST;
            EsProverSettings settings = settings_of(selection, 6, 3);
            Depths deep = ask_all(graph, &settings);
            for (settings.max_depth = 1; settings.max_depth < 6; settings.max_depth++) {
                Depths shallow = ask_all(graph, &settings);
                for (int i = 0; i < N_QUERIES; i++) {
                    int32_t depth = deep.answer[i].depth;
                    EXPECT_EQ(shallow.answer[i].depth,
                              depth <= settings.max_depth ? depth : ES_KG_DEPTH_NONE);
                    n_deep += depth == settings.max_depth && depth >= 3;
                }
            }
        }
        es_kg_destroy(graph);
    }
    EXPECT(n_deep > 20);
}

TEST(threads_give_the_same) {
    RandomGraph random = draw_graph(5000, 0);
    EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
    EsProverSettings settings = settings_of(ES_GOAL_LEFTMOST, 5, 5);
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TEST];
    int32_t depths[2][N_QUERIES];
    EsProverReport reports[2];
    for (int k = 0; k < 2; k++) {
        EsThreadPool *pool = NULL;
        REQUIRE_OK(es_thread_pool_create(&pool, k == 0 ? 1 : 3));
        REQUIRE_OK(es_prover_find_depths(graph, &settings, pool, split->atoms, split->count,
                                         depths[k], &reports[k]));
        es_thread_pool_destroy(pool);
    }
    EXPECT_EQ(memcmp(depths[0], depths[1], sizeof depths[0]), 0);
    EXPECT_EQ(reports[0].n_states, reports[1].n_states);
    EXPECT_EQ(reports[0].n_expanded, reports[1].n_expanded);
    EXPECT_EQ(reports[0].n_overlong, reports[1].n_overlong);
    EXPECT_EQ(reports[0].n_proved + reports[0].n_unproved + reports[0].n_unknown, N_QUERIES);
    es_kg_destroy(graph);
}
