#include "proof/knowledge_case.h"

// --- what is read ---

TEST(atoms_may_be_spelt_in_several_ways) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("\xef\xbb\xbf% comment, with (brackets\n"
                          "p(a,b).\r\n"
                          "\n   \n"
                          "p(\"c\",'d')\n"
                          "  p( e , f ) .\n"
                          "/film/film.genre(/m/08966,/m/01z4y)",
                          NULL, NULL, &graph));
    EXPECT_EQ(graph->n_facts, 4);
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "p", "a", "b")));
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "p", "c", "d")));
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "p", "e", "f")));
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "/film/film.genre", "/m/08966", "/m/01z4y")));
    es_kg_destroy(graph);
}

TEST(columns_are_head_relation_tail) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(
        build_case("Paris (France)\tcapital of\tFrance\n\n%x\tp\ta,b\r\n", NULL, NULL, &graph));
    EXPECT_EQ(graph->n_facts, 2);
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "capital of", "Paris (France)", "France")));
    EXPECT(es_kg_has_fact(graph, find_atom(graph, "p", "%x", "a,b")));
    es_kg_destroy(graph);
}

TEST(rule_predicates_keep_their_slashes) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("/a/b./c/d(u,v)\n", NULL,
                          "r:0.9:/a/b./c/d(x,y) , /a/b./c/d(y,z)->/e(x,z)\n", &graph));
    EXPECT_EQ(graph->n_predicates, 2);
    EXPECT_EQ(graph->rules[0].body[1].predicate, es_kg_predicate(graph, "/a/b./c/d"));
    es_kg_destroy(graph);
}

TEST(depths_go_to_the_queries_they_name) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("p(a,b)\n", "p(b,a)\np(a,a)\np(b,b)\np(b,a)\n", NULL, &graph));
    const char depths[] = "p(a,a) -1\np(b,a) 12\n";
    REQUIRE_OK(es_kg_text_read_depths(graph, ES_KG_SPLIT_TEST, "d", depths, strlen(depths)));
    const EsQuerySplit *test = &graph->splits[ES_KG_SPLIT_TEST];
    EXPECT_EQ(test->depths[0], 12);
    EXPECT_EQ(test->depths[1], ES_KG_DEPTH_NONE);
    EXPECT_EQ(test->depths[2], ES_KG_DEPTH_ABSENT);
    EXPECT_EQ(test->depths[3], 12);
    es_kg_destroy(graph);
}

// The first constant of a fact that is read from one line.
static void expect_first(const char *line, const char *name) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case(line, NULL, NULL, &graph));
    EXPECT_EQ(graph->n_facts, 1);
    EXPECT_TEXT(graph->constant_names[graph->facts[0].a], name);
    es_kg_destroy(graph);
}

TEST(a_tab_makes_columns_outside_of_quotes_and_brackets) {
    expect_first("p('a\tb','c\td').\n", "a\tb");
    expect_first("'p\tq'(a,b).\n", "a");
    expect_first("p( a,\tb )\n", "a");
    expect_first("p(\"a)\tb\",'c\\'\td').\n", "a)\tb");
    expect_first("O'Neil\tp\tO'Hara\n", "O'Neil");
    expect_first("'t Hooft\tp\t's-Hertogenbosch\n", "'t Hooft");
    expect_first("'a'\tp\t'b'\n", "'a'");
    expect_first("open (\tp\tx\n", "open (");
    expect_first("shut )\tp\t(y)\n", "shut )");
}

// Quotes belong to the names of columns, and to no others.
TEST(depths_may_quote_their_names) {
    const char *const triples[] = {"p('a',\"b\").\n", "'a'\tp\t\"b\"\n"};
    for (size_t i = 0; i < sizeof triples / sizeof triples[0]; i++) {
        EsKgBuilder *builder = NULL;
        EsKnowledgeGraph *graph = NULL;
        int32_t n_read;
        REQUIRE_OK(es_kg_builder_create(&builder));
        REQUIRE_OK(es_kg_text_read_triples(builder, ES_KG_SPLIT_TEST, "t", triples[i],
                                           strlen(triples[i]), &n_read));
        REQUIRE_OK(es_kg_builder_finish(builder, &graph));
        const char depths[] = "p('a',\"b\") 3\n";
        REQUIRE_OK(es_kg_text_read_depths(graph, ES_KG_SPLIT_TEST, "d", depths, strlen(depths)));
        EXPECT_EQ(graph->splits[ES_KG_SPLIT_TEST].depths[0], 3);
        es_kg_destroy(graph);
        es_kg_builder_destroy(builder);
    }
}

TEST(domains_group_constants) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("p(a,b)\np(c,d)\n", NULL, NULL, &graph));
    const char text[] = "left a c nobody\nright  d b a\np:left:right\n";
    REQUIRE_OK(es_kg_text_read_domains(graph, "domains", text, strlen(text)));
    const EsDomains *domains = &graph->domains;
    EXPECT_EQ(domains->count, 2);
    EXPECT_TEXT(domains->names[2], "right");
    EXPECT_EQ(domains->start[2] - domains->start[1], 2);
    EXPECT_EQ(domains->start[3] - domains->start[2], 3);
    EXPECT_EQ(domains->members[domains->start[2]], es_kg_constant(graph, "d"));
    EXPECT_EQ(domains->of_constant[es_kg_constant(graph, "a")], 1);
    EXPECT_EQ(domains->of_constant[es_kg_constant(graph, "b")], 2);
    EXPECT_EQ(domains->of_argument[2 * 1], 1);
    EXPECT_EQ(domains->of_argument[2 * 1 + 1], 2);
    EXPECT_EQ(domains->n_unknown, 1);
    es_kg_destroy(graph);
}

// --- what is refused ---

typedef struct BadText {
    const char *text, *message;
} BadText;

TEST(bad_triples_are_refused_with_their_place) {
    static const BadText cases[] = {
        {"p(a,b).\n\nlikes ann bob\n", "train.txt:3:1: no opening bracket in \"likes ann bob\", "
                                       "expected predicate(a,b), or a period "
                                       "behind a predicate without arguments"},
        {"p(a,b", "train.txt:1:2: the bracket of \"p\" is never closed"},
        {"p(a,b,c,d,e).", "train.txt:1:3: \"p\" has 5 arguments, at most 4 are allowed"},
        {"p(a,b)\np(a).",
         "train.txt:2:1: \"p\" has 1 argument here and 2 before; a predicate has one number of "
         "arguments"},
        {"pq.\npq(a,b,c).",
         "train.txt:2:1: \"pq\" has 3 arguments here and 0 before; a predicate has one number of "
         "arguments"},
        {"p,q.", "train.txt:1:2: ',' where a predicate is expected"},
        {"p(a,).", "train.txt:1:5: the second argument has no name"},
        {"p('',b).", "train.txt:1:4: the first argument has no name"},
        {"(a,b).", "train.txt:1:1: the predicate has no name"},
        {"p(a,b c).",
         "train.txt:1:6: a blank inside the second argument \"b c\"; a name with blanks needs "
         "quotes"},
        {"p q(a,b).",
         "train.txt:1:2: a blank inside the predicate \"p q\"; a name with blanks needs "
         "quotes"},
        {"p,q(a,b).", "train.txt:1:2: ',' where a predicate is expected"},
        {"p(a,q(b).", "train.txt:1:6: an opening bracket inside the arguments of \"p\""},
        {"p(a,b). q(c,d).",
         "train.txt:1:7: \". q(c,d).\" after the atom; only a period may follow"},
        {"p(a,b) 3", "train.txt:1:8: \"3\" after the atom; only a period may follow"},
        {"a\tp\tb\na\tp\n",
         "train.txt:2:1: 2 columns, expected 3 with tabs between them: head, relation, tail"},
        {"a\tp\tb\tc\n",
         "train.txt:1:1: 4 columns, expected 3 with tabs between them: head, relation, tail"},
        {"a\t\tb\n", "train.txt:1:3: the relation has a name of 0 bytes, expected 1 to 1024"},
        {"\x1b[2J", "train.txt:1:1: no opening bracket in \"?[2J\", expected predicate(a,b), or a "
                    "period behind a "
                    "predicate without arguments"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EsKnowledgeGraph *graph;
        EXPECT_STATUS(build_case(cases[i].text, NULL, NULL, &graph), INPUT);
        EXPECT_TEXT(es_status_detail(), cases[i].message);
    }
}

TEST(bad_rules_are_refused_with_their_place) {
    static const BadText cases[] = {
        {"p(x,y) -> q(x,y)",
         "rules.txt:1:1: \"p(x,y) -> q(x,y)\" is no rule, expected NAME:CONFIDENCE:BODY -> HEAD"},
        {"r:high:p(x,y) -> q(x,y)", "rules.txt:1:3: the confidence \"high\" is not a number"},
        {"r::p(x,y) -> q(x,y)", "rules.txt:1:3: the confidence \"\" is not a number"},
        {"r:nan:p(x,y) -> q(x,y)", "rules.txt:1:3: the confidence \"nan\" is not a number"},
        {"r:-inf:p(x,y) -> q(x,y)", "rules.txt:1:3: the confidence \"-inf\" is not a number"},
        {"r:1e999:p(x,y) -> q(x,y)", "rules.txt:1:3: the confidence \"1e999\" is not a number"},
        {"r:1:p(x,y), -> p(x,y)", "rules.txt:1:11: an atom is missing after the comma"},
        {"r:1:p(x,y),-> p(x,y)", "rules.txt:1:11: an atom is missing after the comma"},
        {"r:1:p(x,y) ,", "rules.txt:1:12: an atom is missing after the comma"},
        {"r:1: -> q(x,y)", "rules.txt:1:6: the rule has no body before ->"},
        {"r:1:p(x,y)", "rules.txt:1:11: the rule ends after its body, expected -> and a head"},
        {"r:1:p(x,y) q(x,y) -> q(x,y)",
         "rules.txt:1:12: \"q(x,y) -> q(x,y)\" after an atom of the body, expected , or ->"},
        {"r:1:p(x,y) ->",
         "rules.txt:1:14: the line ends where an atom is expected, predicate(a,b)"},
        {"r:1:p(x,y),, p(y,z) -> q(x,z)", "rules.txt:1:12: ',' where an atom is expected"},
        {"r:1:p(x,y),,p(y,z) -> q(x,z)", "rules.txt:1:12: ',' where an atom is expected"},
        {"r:1:p(x,y) -> q(x,y) -> s(x,y)",
         "rules.txt:1:22: \"-> s(x,y)\" after the head of the rule"},
        {"r:1:a(x,y),a(x,y),a(x,y),a(x,y),a(x,y),a(x,y),a(x,y),a(x,y),a(x,y),a(x,y),a(x,y),a(x,y),"
         "a(x,y),a(x,y),a(x,y),a(x,y),x != y -> q(x,y)",
         "rules.txt:1:117: more than 16 atoms before ->"},
        {"r:1:a(a1,a2),a(a3,a4),a(a5,a6),a(a7,a8),a(a9,b1),a(b2,b3),a(b4,b5),a(b6,b7),a(b8,b9),"
         "a(c1,c2),a(c3,c4),a(c5,c6),a(c7,a1) -> q(a1,a1)",
         "rules.txt:1:115: more than 24 variables in one rule"},
        {"r:1:p(x,y), x ! y -> q(x,y)", "rules.txt:1:13: \"x ! y -> q(x,y)\" is neither an atom "
                                        "predicate(a,b) nor a comparison by "
                                        "!=, <, <=, > or >="},
        {"r:1:p(x,y), x < -> q(x,y)", "rules.txt:1:17: the term of a comparison has no name"},
        {"r:1:p(x,y), x < z -> q(x,y)",
         "rules.txt:1:17: the variable \"z\" of the comparison or negation "
         "is not in the body, in an atom predicate(a,b)"},
        {"r:1:p(x,y), y < 9.5 -> q(x,y)",
         "rules.txt:1:17: \"9.5\" is compared by <, which takes integers of at most 18 digits, "
         "without leading zeros"},
        {"r:1:p(x,y), -1234567890123456789 >= y -> q(x,y)",
         "rules.txt:1:13: \"-1234567890123456789\" is compared by >=, which takes integers of at "
         "most 18 digits, without leading zeros"},
        {"r:1:p(x,y), 'old' <= y -> q(x,y)",
         "rules.txt:1:13: \"old\" is compared by <=, which takes integers of at most 18 digits, "
         "without leading zeros"},
        {"r:1:1 < 2 -> q(a,b)",
         "rules.txt:1:1: the body has no atom but comparisons and negations"},
        {"\n\nr:1:p(x,y) -> q(x,z)",
         "rules.txt:3:19: the variable \"z\" of the head is not in the body"},
        {"r:1:p(x,y), 'not p'(x,y) -> q(x,y)",
         "rules.txt:1:14: a predicate with the name of a comparison or negation"},
        {"r:1:p(x,y), not p(x,z) -> q(x,y)", "rules.txt:1:21: the variable \"z\" of the comparison "
                                             "or negation is not in the body, in an atom "
                                             "predicate(a,b)"},
        {"r:1:p(x,y) -> x < y", "rules.txt:1:15: \"x\" where an atom is expected; without "
                                "arguments a predicate that looks like "
                                "a variable needs quotes"},
        {"r:1:p(x) -> q(x,x)",
         "rules.txt:1:5: \"p\" has 1 argument here and 2 before; a predicate has one number of "
         "arguments"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EsKnowledgeGraph *graph;
        EXPECT_STATUS(build_case("p(a,b)\n", NULL, cases[i].text, &graph), INPUT);
        EXPECT_TEXT(es_status_detail(), cases[i].message);
    }
}

// A rule read and written again.
static void expect_rule(const char *text, const char *written) {
    EsKnowledgeGraph *graph;
    char line[1024], again[ES_RULE_TEXT_BYTES];
    snprintf(line, sizeof line, "r:1:%s\n", text);
    REQUIRE_OK(build_case("p(a,b)\n", NULL, line, &graph));
    es_horn_rule_format(graph, &graph->rules[0], again, sizeof again);
    EXPECT_TEXT(again, written);
    es_kg_destroy(graph);
}

TEST(variables_constants_and_comparisons) {
    expect_rule("lives(x,paris) -> french(x,x)", "lives(x,paris) -> french(x,x)");
    // written again, a constant that looks like a variable is in quotes
    expect_rule("lives(X,'Paris') -> french(X,\"x1\")", "lives(x,'Paris') -> french(x,'x1')");
    expect_rule("lives(?who,_x), p(_x,Y) -> is(?who,Y)", "lives(x,z), p(z,y) -> is(x,y)");
    // predicates of another graph keep their bytes
    expect_rule("/film/a.b=c(x,y) -> q(x,y)", "/film/a.b=c(x,y) -> q(x,y)");
}

TEST(comparisons_have_many_spellings) {
    static const char written[] = "p(x,y), x != y, y < 10, x != '<' -> q(x,y)";
    expect_rule("p(x,y), x != y, y < 10, x != '<' -> q(x,y)", written);
    expect_rule("p(x,y),x!=y,y<10,x!='<'->q(x,y).", written);
    expect_rule(" p( x , y ) ,x  !=y, y<10 , x!=\"<\" -> q(x,y)", written);
    expect_rule("p(x,y), -3 <= y, 'it''s' != \"a\\\"b\", y>='7' -> q(x,y)",
                "p(x,y), -3 <= y, it's != a\"b, y >= 7 -> q(x,y)");
    expect_rule("'two words'(x,y), \"a,b\"(y,'c d') -> '->'(x,y)",
                "'two words'(x,y), 'a,b'(y,'c d') -> '->'(x,y)");
    expect_rule("p(x,y), not q(x,paris), \\+'r s'(y,x) -> q(x,y)",
                "p(x,y), not q(x,paris), not 'r s'(y,x) -> q(x,y)");
    // a plain _ is a variable of its own each time
    expect_rule("p(x,_), p(_,x) -> q(x,x)", "p(x,y), p(z,x) -> q(x,x)");
}

TEST(bad_depths_and_domains_are_refused_with_their_place) {
    static const BadText depths[] = {
        {"p(a,b)", "d:1:7: no depth after the atom"},
        {"p(a,b) x", "d:1:8: \"x\" where a depth is expected, -1 to 1000000"},
        {"p(a,b) -2", "d:1:8: \"-2\" where a depth is expected, -1 to 1000000"},
        {"p(a,b) 99999999999999999999",
         "d:1:8: \"99999999999999999999\" where a depth is expected, -1 to 1000000"},
        {"p(a,b) 1\np(b,a) 1\n", "d:2:1: \"p(b,a)\" is not among the queries it gives depths for"},
        {"q(a,b) 1", "d:1:1: \"q(a,b)\" is not among the queries it gives depths for"},
    };
    static const BadText domains[] = {
        {"alone", "d:1:1: \"alone\" is neither a domain with its constants nor "
                  "predicate:domain:domain"},
        {"one a\none b\n", "d:2:1: the domain \"one\" is there twice"},
        {"one a\nq:one:one\n", "d:2:1: no fact, query or rule has the predicate \"q\""},
        {"one a\np:one:two\n", "d:2:7: no line above lists the domain \"two\""},
        {"one a\np::one\n", "d:2:3: the domain has no name"},
    };
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("p(a,b)\n", "p(a,b)\n", NULL, &graph));
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        EXPECT_STATUS(es_kg_text_read_depths(graph, ES_KG_SPLIT_TEST, "d", depths[i].text,
                                             strlen(depths[i].text)),
                      INPUT);
        EXPECT_TEXT(es_status_detail(), depths[i].message);
    }
    es_kg_destroy(graph);
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++) {
        REQUIRE_OK(build_case("p(a,b)\n", NULL, NULL, &graph));
        EXPECT_STATUS(es_kg_text_read_domains(graph, "d", domains[i].text, strlen(domains[i].text)),
                      INPUT);
        EXPECT_TEXT(es_status_detail(), domains[i].message);
        es_kg_destroy(graph);
    }
}

static EsStatus read_as_facts(const char *text, size_t bytes) {
    EsKgBuilder *builder;
    int32_t n_read;
    REQUIRE_OK(es_kg_builder_create(&builder));
    EsStatus status =
        es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "f", text, bytes, &n_read);
    es_kg_builder_destroy(builder);
    return status;
}

TEST(zero_bytes_are_refused) {
    EXPECT_STATUS(read_as_facts("p(a,b)\np(\0,b)\n", 14), INPUT);
    EXPECT_TEXT(es_status_detail(), "f:2:3: a zero byte; this is not a text file");
}

TEST(a_line_of_ten_megabytes_is_refused_in_one_short_message) {
    size_t bytes = 10 * 1024 * 1024;
    char *text = malloc(bytes);
    memset(text, 'x', bytes);
    EXPECT_STATUS(read_as_facts(text, bytes), INPUT);
    EXPECT_TEXT(es_status_detail(),
                "f:1:1: the predicate has a name of 10485760 bytes, at most 1024 are allowed");
    text[0] = 'p';
    text[1] = '(';
    text[bytes - 3] = ',';
    text[bytes - 1] = ')';
    EXPECT_STATUS(read_as_facts(text, bytes), INPUT);
    EXPECT_TEXT(es_status_detail(),
                "f:1:3: the first argument has a name of 10485755 bytes, at most 1024 are allowed");
    memset(text, ',', bytes);
    text[0] = 'p';
    text[1] = '(';
    text[bytes - 1] = ')';
    EXPECT_STATUS(read_as_facts(text, bytes), INPUT);
    EXPECT_TEXT(es_status_detail(), "f:1:3: \"p\" has 10485758 arguments, at most 4 are allowed");
    free(text);
}

TEST(a_domain_line_may_be_long) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("p(a,b)\n", NULL, NULL, &graph));
    size_t bytes = 10 * 1024 * 1024;
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i += 2) {
        text[i] = 'a';
        text[i + 1] = ' ';
    }
    REQUIRE_OK(es_kg_text_read_domains(graph, "d", text, bytes));
    EXPECT_EQ(graph->domains.start[2], bytes / 2 - 1);
    free(text);
    es_kg_destroy(graph);
}
