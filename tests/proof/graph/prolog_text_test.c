// Prolog text: what is read, what is passed over, what is refused, and that writing and reading
// come back to the same graph.
#include "proof/graph/knowledge_file.h"
#include "proof/random_graph.h"
#include "temp_folder.h"

static EsStatus read_text(const char *text, size_t bytes, EsPrologCounts *counts,
                          EsKnowledgeGraph **graph) {
    EsKgBuilder *builder;
    *graph = NULL;
    REQUIRE_OK(es_kg_builder_create(&builder));
    EsStatus status = es_prolog_text_read(builder, "a.pl", text, bytes, 1, counts);
    REQUIRE_OK(es_kg_builder_finish(builder, graph));
    es_kg_builder_destroy(builder);
    return status;
}

TEST(facts_rules_directives_and_helpers) {
    const char *text = ":- dynamic parent/2.\n"
                       ":- discontiguous parent/2.\n"
                       "% a comment with a period. And more\n"
                       "parent(\"ann lee\",'bob').parent(bob, cy) . /* p(a,b). */\n"
                       "'_hypernym'(00001740,-3.5).\n"
                       "parent('it''s','\\\\back\\'').\n"
                       "grand(X,Y) :-\n    parent(X,Z), parent(Z,Y).\n"
                       "same(X,X) :- parent(X,_).\n"
                       "one_step_list(Goal, Lists) :- findall(B, (clause(Goal, B)), Lists), !.\n"
                       "body_to_list((A,B), [A|T]) :- !, body_to_list(B, T).\n"
                       "parent(X,bob).\n"
                       "likes(X,bob) :- parent(X,bob).\n"
                       "free(X,Y) :- parent(X,Z).\n"
                       "long(A,E) :- parent(A,B), parent(B,C), parent(C,D), parent(D,E).\n"
                       "one(a).\nthree(a,b,c).\ncode(a,0'.).\n"
                       "done.";
    EsKnowledgeGraph *graph;
    EsPrologCounts counts;
    // a period with a letter behind it ends no clause
    REQUIRE_OK(read_text(text, strlen(text), &counts, &graph));
    EXPECT_EQ(counts.n_directives, 2);
    EXPECT_EQ(counts.n_facts, 5);
    EXPECT_EQ(counts.n_rules, 4);
    EXPECT_EQ(counts.n_skipped, 6);
    EXPECT_EQ(counts.first_skipped, 4);
    EXPECT(es_kg_has_fact(graph, (EsAtom){es_kg_predicate(graph, "hypernym"),
                                          es_kg_constant(graph, "00001740"),
                                          es_kg_constant(graph, "-3.5")}));
    EXPECT(es_kg_constant(graph, "it's") > 0 && es_kg_constant(graph, "\\back'") > 0);
    EXPECT_EQ(graph->rules[0].line, 7);
    EXPECT_EQ(graph->rules[0].n_body, 2);
    // by the names of their heads: grand, likes, long, same
    EXPECT_EQ(graph->rules[1].body[0].b, es_kg_constant(graph, "bob"));
    EXPECT_EQ(graph->rules[2].n_body, 4);
    EXPECT_EQ(graph->rules[3].head.a, graph->rules[3].head.b);
    EXPECT_EQ(graph->splits[ES_KG_SPLIT_TRAIN].count, 5);
    EXPECT_EQ(graph->arities[es_kg_predicate(graph, "done")], 0);
    EXPECT_EQ(graph->arities[es_kg_predicate(graph, "one")], 1);
    EXPECT_EQ(graph->arities[es_kg_predicate(graph, "three")], 3);
    EXPECT_EQ(graph->wide.count, 1);
    es_kg_destroy(graph);
    const char *more = "p(\"a b\",c). p(d,e).%x\np(f,g).";
    REQUIRE_OK(read_text(more, strlen(more), &counts, &graph));
    EXPECT_EQ(counts.n_facts, 3);
    EXPECT(es_kg_constant(graph, "a b") > 0);
    es_kg_destroy(graph);
}

TEST(what_is_not_understood_is_refused_with_its_place) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"p(a,b).\n:- initialization(main).",
         "a.pl:2:1: a directive that is not understood; --skip-unknown passes over such clauses"},
        {"p(a,b).\nq(X,Y) :- p(X,Y), member(X,[a,b]).",
         "a.pl:2:28: an argument that is no name, number or variable; --skip-unknown passes over "
         "such clauses"},
        {"p(a,f(b)).", "a.pl:1:5: an argument that is no name, number or variable; --skip-unknown "
                       "passes over such clauses"},
        {"p(a,b).\np(a).", "a.pl:2:1: a predicate that had another number of arguments before; "
                           "--skip-unknown passes over such clauses"},
        {"p(X,b).", "a.pl:1:1: a fact with a variable; --skip-unknown passes over such clauses"},
        {"p(a,b,c,d,e).",
         "a.pl:1:11: a predicate of more than 4 arguments; --skip-unknown passes over "
         "such clauses"},
        {"q(X,Y) :- p(X,Z).", "a.pl:1:3: a variable of the head that is in no atom of the body; "
                              "--skip-unknown passes over such clauses"},
        {"q(X,Y) :- p(X,Y), Y =\\= 3.", "a.pl:1:19: neither an atom p(a,b) nor a comparison; "
                                        "--skip-unknown passes over such clauses"},
        {"q(X,Y) :- p(X,Y), Z < 3.",
         "a.pl:1:19: a compared or negated variable that is in no other "
         "atom of the body; --skip-unknown passes over such clauses"},
        {"h(X,X) :- p(X,_), \\+ q(X,_).",
         "a.pl:1:24: a compared or negated variable that is in no other "
         "atom of the body; --skip-unknown passes over such clauses"},
        {"h(X,X) :- p(X,_), X \\= _.",
         "a.pl:1:19: a compared or negated variable that is in no other "
         "atom of the body; --skip-unknown passes over such clauses"},
        {"h(X,_) :- p(X,_).", "a.pl:1:3: a variable of the head that is in no atom of the body; "
                              "--skip-unknown passes over such clauses"},
        {"q(X,Y) :- p(X,Y), Y < 9.5.", "a.pl:1:23: a comparison in order with a constant that is "
                                       "no integer of at most 18 digits; "
                                       "--skip-unknown passes over such clauses"},
        {"q(X,Y) :- p(X,Y), 1234567890123456789 >= Y.",
         "a.pl:1:19: a comparison in order with a constant that is no integer of at most 18 "
         "digits; "
         "--skip-unknown passes over such clauses"},
        {"q(X,Y) :- p(X,Y), Y > abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz.",
         "a.pl:1:23: a comparison in order with a constant that is no integer of at most 18 "
         "digits; "
         "--skip-unknown passes over such clauses"},
        {"q(X,Y) :- p(X,Y) ; p(Y,X).", "a.pl:1:18: something else than a comma after an atom; "
                                       "--skip-unknown passes over such clauses"},
        {"p(X) :- q('X').", "a.pl:1:3: a variable of the head that is in no atom of the body; "
                            "--skip-unknown passes over such clauses"},
        {"q(X,Y) :- p(X,Y), integer(X).", "a.pl:1:19: integer(X) without a comparison of X; "
                                          "--skip-unknown passes over such clauses"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsKgBuilder *builder;
        EsPrologCounts counts;
        REQUIRE_OK(es_kg_builder_create(&builder));
        EXPECT_STATUS(
            es_prolog_text_read(builder, "a.pl", cases[i].text, strlen(cases[i].text), 0, &counts),
            INPUT);
        if (strcmp(es_status_detail(), cases[i].message) != 0) {
            ES_TEST_FAIL("\"%s\", expected \"%s\"", es_status_detail(), cases[i].message);
        }
        EsKnowledgeGraph *graph;
        es_kg_builder_destroy(builder);
        REQUIRE_OK(read_text(cases[i].text, strlen(cases[i].text), &counts, &graph));
        EXPECT_EQ(counts.n_skipped, 1);
        es_kg_destroy(graph);
    }
}

// A clause that is passed over leaves neither numbers of arguments nor a negation behind.
TEST(skipped_clauses_leave_nothing) {
    const char *text = "t(a).\nh(X) :- v(X), \\+ u(X), t(X,X).\nv(a,b).\nu(a,b).\nh.\n"
                       "k(X,Y) :- v(X,Y), u(X,Y).\nm(X) :- n(X), n(X,X).\nn(a,b,c).\n";
    EsKnowledgeGraph *graph;
    EsPrologCounts counts;
    REQUIRE_OK(read_text(text, strlen(text), &counts, &graph));
    EXPECT_EQ(counts.n_skipped, 2);
    EXPECT_EQ(counts.n_facts, 5);
    EXPECT_EQ(counts.n_rules, 1);
    EXPECT(!graph->has_negation);
    EXPECT_EQ(es_kg_predicate(graph, "m"), 0);
    es_kg_destroy(graph);
}

static void expect_failure(const char *text, size_t bytes, const char *message) {
    EsKnowledgeGraph *graph;
    EsPrologCounts counts;
    EXPECT_STATUS(read_text(text, bytes, &counts, &graph), INPUT);
    if (strcmp(es_status_detail(), message) != 0) {
        ES_TEST_FAIL("\"%s\", expected \"%s\"", es_status_detail(), message);
    }
    es_kg_destroy(graph);
}

TEST(what_is_no_prolog_is_refused_with_its_place) {
    expect_failure("p(a,b).\n  q(a,b)", 16, "a.pl:2:3: no period ends the clause that begins here");
    expect_failure("p(a,b).\np(\"a,b).\n", 17, "a.pl:2:3: the quote is never closed");
    expect_failure("p(a,b).\n /* never\n", 18, "a.pl:2:2: the comment is never closed");
    expect_failure("p(a,b).\np(a\0,b).\n", 18, "a.pl:2:4: a zero byte; this is not a text file");
    expect_failure("'", 1, "a.pl:1:1: the quote is never closed");
}

TEST(a_long_line_and_long_names) {
    size_t bytes = 10u << 20;
    char *text = malloc(bytes);
    memset(text, 'x', bytes);
    expect_failure(text, bytes, "a.pl:1:1: no period ends the clause that begins here");
    static const char begin[] = {'p', '(', '\''}, end[] = {'\'', ',', 'b', ')', '.', '\n'};
    memcpy(text, begin, sizeof begin);
    memcpy(text + bytes - sizeof end, end, sizeof end);
    expect_failure(text, bytes, "a.pl:1:3: a name of 10485751 bytes, at most 1024 are allowed");
    free(text);
}

// The text with a name of so many bytes in the place of the #.
static size_t fill_in(const char *text, size_t n_name, char filled[4096]) {
    size_t before = strcspn(text, "#"), after = strlen(text) - before - 1;
    memcpy(filled, text, before);
    memset(filled + before, 'n', n_name);
    for (size_t i = 0; i < after; i++) {
        filled[before + n_name + i] = text[before + 1 + i];
    }
    return before + n_name + after;
}

TEST(names_of_facts_and_rules_have_a_limit) {
    static const struct {
        const char *text, *message; // NULL: the clause is passed over for something else
    } cases[] = {
        {"\np(a,#).", "a.pl:2:5: a name of 1025 bytes, at most 1024 are allowed"},
        {"p('#',b).", "a.pl:1:3: a name of 1025 bytes, at most 1024 are allowed"},
        {"#(a,b).", "a.pl:1:1: a name of 1025 bytes, at most 1024 are allowed"},
        {"h(X,Y) :- #(X,Y).", "a.pl:1:11: a name of 1025 bytes, at most 1024 are allowed"},
        {"h(X,X) :- p(X,_#).", "a.pl:1:15: a name of 1026 bytes, at most 1024 are allowed"},
        {"usage([#]).", NULL},
        {"h(X,Y) :- p(X,Y), q(X,#).", "a.pl:1:23: a name of 1025 bytes, at most 1024 are allowed"},
        {"h(X,Y) :- p(X,Z), q(X,f(#)).", NULL},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        char text[4096];
        EsKnowledgeGraph *graph;
        EsPrologCounts counts;
        if (cases[i].message != NULL) {
            expect_failure(text, fill_in(cases[i].text, 1025, text), cases[i].message);
        }
        size_t n_name = cases[i].message != NULL ? 1023 : 1025;
        REQUIRE_OK(read_text(text, fill_in(cases[i].text, n_name, text), &counts, &graph));
        EXPECT_EQ(counts.n_skipped, cases[i].message == NULL);
        es_kg_destroy(graph);
    }
}

TEST(damaged_text_never_breaks_the_reader) {
    const char *seed =
        ":- dynamic p/2.\np(\"a\",'b''c').\n/* x */ p(d,e).\n"
        "h(X,Y) :- p(X,Z), p(Z,Y), X \\= Y, \\+ p(Y,Z), Z < 3. % end\nq(X) :- X = 0'a.\n";
    static const char special[] = "(),.:-'\"`\\%/* \n_A0\0\xff";
    int n_read = 0, n_refused = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        Dice dice = {round, 0};
        size_t bytes = strlen(seed) - (size_t)throw_dice(&dice, (int)strlen(seed) / 2);
        // exactly as many bytes as there are, so that a sanitizer sees a step beyond
        char *copy = malloc(bytes);
        for (size_t i = 0; i < bytes; i++) {
            copy[i] = seed[i];
        }
        int n_changes = throw_dice(&dice, 6);
        for (int i = 0; i < n_changes; i++) {
            copy[throw_dice(&dice, (int)bytes)] = special[throw_dice(&dice, sizeof special - 1)];
        }
        EsKnowledgeGraph *graph;
        EsPrologCounts counts;
        EsStatus status = read_text(copy, bytes, &counts, &graph);
        n_read += status == ES_STATUS_OK;
        n_refused += status == ES_STATUS_INPUT;
        if (status != ES_STATUS_OK && strncmp(es_status_detail(), "a.pl:", 5) != 0) {
            ES_TEST_FAIL("round %u: \"%s\"", round, es_status_detail());
        }
        es_kg_destroy(graph);
        free(copy);
    }
    EXPECT_EQ(n_read + n_refused, 20000);
    EXPECT(n_read > 400 && n_refused > 2000);
}

TEST(writing_and_reading_come_back) {
    const char *path = temp_path("graph.pl");
    for (uint32_t number = 0; number < 20; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "p0(it's,\\x) "), *again;
        REQUIRE_OK(es_prolog_text_save(graph, path));
        REQUIRE_OK(es_kg_load(path, NULL, &again));
        EXPECT_EQ(again->n_facts, graph->n_facts);
        for (int32_t i = 0; i < graph->n_facts; i++) {
            EsAtom atom = graph->facts[i];
            EsAtom other = {
                es_kg_predicate(again, graph->predicate_names[atom.predicate]),
                es_kg_constant(again, graph->constant_names[atom.a]),
                es_kg_constant(again, graph->constant_names[atom.b]),
            };
            EXPECT(other.predicate > 0 && other.a > 0 && other.b > 0 &&
                   es_kg_has_fact(again, other));
        }
        EXPECT_EQ(again->n_rules, graph->n_rules);
        for (int32_t i = 0; i < graph->n_rules; i++) {
            const EsHornRule *rule = &graph->rules[i], *other = &again->rules[i];
            EXPECT_EQ(other->n_body, rule->n_body);
            EXPECT_EQ(other->n_variables, rule->n_variables);
            for (int k = 0; k < rule->n_body; k++) {
                EXPECT_EQ(other->body[k].a, rule->body[k].a);
                EXPECT_EQ(other->body[k].b, rule->body[k].b);
                EXPECT(strcmp(again->predicate_names[other->body[k].predicate],
                              graph->predicate_names[rule->body[k].predicate]) == 0);
            }
        }
        es_kg_destroy(graph);
        es_kg_destroy(again);
    }
}

// integer(X) of both sides is written with each comparison and does not count as one.
TEST(a_full_body_of_comparisons_comes_back) {
    char text[1024] = "age(ann,7).\nolder(X,Y) :- age(X,A), age(Y,B)";
    for (int i = 2; i < ES_HORN_MAX_BODY; i++) {
        strcat(text, ", A > B");
    }
    strcat(text, ".\n");
    EsKnowledgeGraph *graph, *again;
    EsPrologCounts counts;
    const char *path = temp_path("full.pl");
    REQUIRE_OK(read_text(text, strlen(text), &counts, &graph));
    EXPECT(graph->n_rules == 1 && graph->rules[0].n_body == ES_HORN_MAX_BODY);
    REQUIRE_OK(es_prolog_text_save(graph, path));
    REQUIRE_OK(es_kg_load(path, NULL, &again));
    EXPECT(again->n_rules == 1);
    EXPECT_EQ(again->rules[0].n_body, ES_HORN_MAX_BODY);
    es_kg_destroy(again);
    es_kg_destroy(graph);
    text[strlen(text) - 2] = '\0';
    strcat(text, ", A > B.");
    EXPECT_EQ(read_text(text, strlen(text), &counts, &graph), ES_STATUS_INPUT);
    EXPECT(strstr(es_status_detail(), "more than 16 atoms in a body") != NULL);
    es_kg_destroy(graph);
}
