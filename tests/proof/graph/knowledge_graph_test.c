#include "base/memory.h"
#include "base/random_rules.h"
#include "proof/graph/text_line.h"
#include "proof/knowledge_case.h"

TEST(names_are_numbered_in_byte_order) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("likes(bob,Zoe).\nlikes(010,bob).\n", "hates(ann,bob)\n",
                          "r:1:likes(x,y) -> knows(x,y)\n", &graph));
    EXPECT_EQ(graph->n_constants, 4);
    EXPECT_TEXT(graph->constant_names[0], "");
    EXPECT_TEXT(graph->constant_names[1], "010");
    EXPECT_TEXT(graph->constant_names[2], "Zoe");
    EXPECT_TEXT(graph->constant_names[3], "ann");
    EXPECT_TEXT(graph->constant_names[4], "bob");
    EXPECT_EQ(graph->n_predicates, 3);
    EXPECT_TEXT(graph->predicate_names[1], "hates");
    EXPECT_TEXT(graph->predicate_names[2], "knows");
    EXPECT_TEXT(graph->predicate_names[3], "likes");
    EXPECT_EQ(es_kg_constant(graph, "ann"), 3);
    EXPECT_EQ(es_kg_constant(graph, "an"), 0);
    EXPECT_EQ(es_kg_constant(graph, ""), 0);
    EXPECT_EQ(es_kg_predicate(graph, "likes"), 3);
    EXPECT_EQ(es_kg_predicate(graph, "zzz"), 0);
    char text[64];
    es_kg_format_atom(graph, &graph->splits[ES_KG_SPLIT_TEST].atoms[0], text, sizeof text);
    EXPECT_TEXT(text, "hates(ann,bob)");
    es_kg_format_atom(graph, &graph->rules[0].head, text, sizeof text);
    EXPECT_TEXT(text, "knows(V1,V2)");
    es_kg_destroy(graph);
}

TEST(repeated_facts_count_once_but_stay_queries) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("p(b,a)\np(a,b)\np(b,a).\n", NULL, NULL, &graph));
    EXPECT_EQ(graph->n_facts, 2);
    EXPECT_EQ(graph->facts[0].a, 1);
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_TRAIN].count, 3);
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_TRAIN].atoms[0].a, 2);
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_TRAIN].depths[0], ES_KG_DEPTH_ABSENT);
    es_kg_destroy(graph);
}

TEST(rules_stand_by_head_in_the_order_of_the_file) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("a(u,v)\n", NULL,
                          "% not a rule\n"
                          "r1:1:a(x,y) -> z(x,y)\n"
                          "r2:1:a(x,y), b(y,k), a(k,w) -> m(x,w)\n"
                          "r3:0.5:b(y,x) -> z(x,y)\n"
                          "r4:23498.55:z(x,y) , z(y,x) -> z(y,x).\n",
                          &graph));
    EXPECT_EQ(graph->n_rules, 4);
    EXPECT_EQ(graph->max_body, 3);
    EXPECT_EQ(graph->max_rules, 3);
    int32_t count;
    EXPECT_EQ((es_kg_rules_of(graph, es_kg_predicate(graph, "a"), &count), count), 0);
    const EsHornRule *rules = es_kg_rules_of(graph, es_kg_predicate(graph, "z"), &count);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(rules[0].line, 2);
    EXPECT_EQ(rules[1].line, 4);
    EXPECT_EQ(rules[2].line, 5);
    // numbered by first appearance, the head before the body
    EXPECT_EQ(rules[1].head.a, -1);
    EXPECT_EQ(rules[1].head.b, -2);
    EXPECT_EQ(rules[1].body[0].a, -2);
    EXPECT_EQ(rules[1].body[0].b, -1);
    const EsHornRule *long_rule = es_kg_rules_of(graph, es_kg_predicate(graph, "m"), &count);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(long_rule->n_body, 3);
    EXPECT_EQ(long_rule->n_variables, 4);
    EXPECT_EQ(long_rule->head.b, -2);
    EXPECT_EQ(long_rule->body[0].b, -3);
    EXPECT_EQ(long_rule->body[1].b, -4);
    EXPECT_EQ(long_rule->body[2].b, -2);
    EXPECT_EQ(long_rule->body[2].predicate, es_kg_predicate(graph, "a"));
    es_kg_destroy(graph);
}

TEST(an_empty_graph_answers) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case(NULL, "p(a,b)\n", NULL, &graph));
    EXPECT_EQ(graph->n_facts, 0);
    EXPECT_EQ(es_kg_has_fact(graph, (EsAtom){1, 1, 2}), 0);
    EXPECT_EQ(es_kg_facts_of(graph, 1).count, 0);
    es_kg_destroy(graph);
    REQUIRE_OK(build_case(NULL, NULL, NULL, &graph));
    EXPECT_EQ(graph->n_constants, 0);
    es_kg_destroy(graph);
    es_kg_destroy(NULL);
}

#define N_CONSTANTS  23
#define N_PREDICATES 5

// Every lookup against a plain table, on facts drawn at random; the names are their own numbers.
static void check_lookups(uint32_t round) {
    static char is_fact[N_PREDICATES + 1][N_CONSTANTS + 1][N_CONSTANTS + 1];
    memset(is_fact, 0, sizeof is_fact);
    EsKgBuilder *builder;
    REQUIRE_OK(es_kg_builder_create(&builder));
    int32_t number;
    for (int i = N_CONSTANTS; i >= 1; i--) {
        char name[8];
        int bytes = snprintf(name, sizeof name, "%02d", i);
        REQUIRE_OK(es_kg_builder_intern(builder, ES_KG_CONSTANT, name, (size_t)bytes, &number));
        EXPECT_EQ(number, N_CONSTANTS + 1 - i);
        if (i <= N_PREDICATES) {
            REQUIRE_OK(
                es_kg_builder_intern(builder, ES_KG_PREDICATE, name, (size_t)bytes, &number));
        }
    }
    int n_facts = 0;
    for (uint32_t i = 0; i < 40 * round; i++) {
        EsRandom4 r = es_random_draw(1, round, ES_PURPOSE_EVALUATION, i, 0);
        int p = 1 + (int)es_random_below(r.word[0], N_PREDICATES);
        int a = 1 + (int)es_random_below(r.word[1], N_CONSTANTS);
        int b = 1 + (int)es_random_below(r.word[2], N_CONSTANTS);
        n_facts += !is_fact[p][a][b];
        is_fact[p][a][b] = 1;
        EsAtom provisional = {N_PREDICATES + 1 - p, N_CONSTANTS + 1 - a, N_CONSTANTS + 1 - b};
        REQUIRE_OK(es_kg_builder_add_fact(builder, &provisional));
    }
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kg_builder_finish(builder, &graph));
    es_kg_builder_destroy(builder);
    EXPECT_EQ(graph->n_facts, n_facts);
    for (int p = 1; p <= N_PREDICATES; p++) {
        int n_of = 0;
        for (int x = 1; x <= N_CONSTANTS; x++) {
            EsAtomSpan with_a = es_kg_facts_with_a(graph, p, x);
            EsAtomSpan with_b = es_kg_facts_with_b(graph, p, x);
            int n_a = 0, n_b = 0;
            for (int y = 1; y <= N_CONSTANTS; y++) {
                EXPECT_EQ(es_kg_has_fact(graph, (EsAtom){p, x, y}), is_fact[p][x][y]);
                if (is_fact[p][x][y] && n_a < with_a.count) {
                    EXPECT_EQ(with_a.atoms[n_a].a, x);
                    EXPECT_EQ(with_a.atoms[n_a].b, y);
                }
                if (is_fact[p][y][x] && n_b < with_b.count) {
                    EXPECT_EQ(with_b.atoms[n_b].a, y);
                    EXPECT_EQ(with_b.atoms[n_b].b, x);
                }
                n_a += is_fact[p][x][y];
                n_b += is_fact[p][y][x];
            }
            EXPECT_EQ(with_a.count, n_a);
            EXPECT_EQ(with_b.count, n_b);
            n_of += n_a;
        }
        EXPECT_EQ(es_kg_facts_of(graph, p).count, n_of);
    }
    es_kg_destroy(graph);
}

TEST(lookups_agree_with_a_table) {
    for (uint32_t round = 0; round < 12; round++) {
        check_lookups(round);
    }
}

// --- many predicates on many constants ---

#define MANY_CONSTANTS  60000
#define MANY_PREDICATES 300
#define MANY_FACTS      40000

// Predicate 1 has most of the facts, so that it has rows; the others have slots.
static EsAtom draw_fact(uint32_t i) {
    EsRandom4 r = es_random_draw(7, 0, ES_PURPOSE_EVALUATION, i, 0);
    int32_t p = i % 2 == 0 ? 1 : 2 + (int32_t)es_random_below(r.word[0], MANY_PREDICATES - 1);
    return (EsAtom){p, 1 + (int32_t)es_random_below(r.word[1], MANY_CONSTANTS),
                    1 + (int32_t)es_random_below(r.word[2], i % 3 == 0 ? 10 : MANY_CONSTANTS)};
}

static EsKnowledgeGraph *build_many(void) {
    EsKgBuilder *builder;
    EsKnowledgeGraph *graph;
    int32_t number;
    char name[16];
    REQUIRE_OK(es_kg_builder_create(&builder));
    for (int i = 1; i <= MANY_CONSTANTS; i++) {
        int bytes = snprintf(name, sizeof name, "%06d", i);
        REQUIRE_OK(es_kg_builder_intern(builder, ES_KG_CONSTANT, name, (size_t)bytes, &number));
        if (i <= MANY_PREDICATES) {
            REQUIRE_OK(
                es_kg_builder_intern(builder, ES_KG_PREDICATE, name, (size_t)bytes, &number));
        }
    }
    for (uint32_t i = 0; i < MANY_FACTS; i++) {
        REQUIRE_OK(es_kg_builder_add_fact(builder, (EsAtom[]){draw_fact(i)}));
    }
    REQUIRE_OK(es_kg_builder_finish(builder, &graph));
    es_kg_builder_destroy(builder);
    return graph;
}

TEST(an_index_of_few_facts_is_small_and_exact) {
    size_t before = es_allocation_held();
    EsKnowledgeGraph *graph = build_many();
    // a row per predicate and constant would take 144 MB
    EXPECT(es_allocation_held() - before < 8u << 20);
    EXPECT(graph->by_a.rows[1].mask == -1 && graph->by_a.rows[2].mask >= 0);
    int64_t n_found_a = 0, n_found_b = 0;
    for (uint32_t i = 0; i < MANY_FACTS; i++) {
        EXPECT(es_kg_has_fact(graph, draw_fact(i)));
    }
    for (int32_t p = 1; p <= MANY_PREDICATES; p++) {
        for (int32_t x = 1; x <= MANY_CONSTANTS; x += p == 1 || p > 295 ? 1 : 7) {
            EsAtomSpan with_a = es_kg_facts_with_a(graph, p, x);
            EsAtomSpan with_b = es_kg_facts_with_b(graph, p, x);
            for (int32_t i = 0; i < with_a.count; i++) {
                EXPECT(with_a.atoms[i].predicate == p && with_a.atoms[i].a == x);
                EXPECT(i == 0 || with_a.atoms[i - 1].b < with_a.atoms[i].b);
            }
            for (int32_t i = 0; i < with_b.count; i++) {
                EXPECT(with_b.atoms[i].predicate == p && with_b.atoms[i].b == x);
                EXPECT(i == 0 || with_b.atoms[i - 1].a < with_b.atoms[i].a);
            }
            n_found_a += p == 1 || p > 295 ? with_a.count : 0;
            n_found_b += p == 1 || p > 295 ? with_b.count : 0;
        }
    }
    int64_t n_facts = es_kg_facts_of(graph, 1).count;
    for (int32_t p = 296; p <= MANY_PREDICATES; p++) {
        n_facts += es_kg_facts_of(graph, p).count;
    }
    EXPECT_EQ(n_found_a, n_facts);
    EXPECT_EQ(n_found_b, n_facts);
    es_kg_destroy(graph);
}

// Every cut of the room: the length is that of the whole, what fits is there and ended, and not a
// byte behind it is touched.
TEST(text_that_does_not_fit_is_counted) {
    static const char whole[] = "a'it\\'s \\\\ x'b";
    for (size_t bytes = 0; bytes <= sizeof whole; bytes++) {
        char text[sizeof whole + 1];
        memset(text, '#', sizeof text);
        EsTextOut out = {bytes > 0 ? text : NULL, bytes, 0};
        es_text_out_add_text(&out, "a");
        es_text_out_add_quoted(&out, "it's \\ x");
        es_text_out_add(&out, "bc", 1);
        EXPECT_EQ(es_text_out_end(&out), (int)sizeof whole - 1);
        size_t shown = bytes > 0 ? ES_MIN(bytes, sizeof whole) - 1 : 0;
        EXPECT(memcmp(text, whole, shown) == 0);
        EXPECT(bytes == 0 || text[shown] == '\0');
        EXPECT(text[bytes > 0 ? shown + 1 : 0] == '#');
    }
}
