// The text of questions, good, bad and damaged.
#include <stdlib.h>

#include "proof/knowledge_case.h"
#include "proof/random_graph.h"
#include "proof/search/answers.h"

static EsKnowledgeGraph *make_graph(void) {
    return make_small_graph("parent(ann,bob) parent(Bob,cy) likes(ann,New York)",
                            "parent(x,y) -> parent(x,y)", "");
}

static void expect_form(const EsKnowledgeGraph *graph, const char *text, int32_t a, int32_t b) {
    EsQuestion question;
    EXPECT_STATUS(es_question_parse(graph, text, &question), OK);
    EXPECT_EQ(question.goals[0].cells[0].a, a);
    EXPECT_EQ(question.goals[0].cells[0].b, b);
}

TEST(constants_and_variables) {
    EsKnowledgeGraph *graph = make_graph();
    int32_t ann = es_kg_constant(graph, "ann"), bob = es_kg_constant(graph, "bob");
    int32_t capital = es_kg_constant(graph, "Bob"), city = es_kg_constant(graph, "New York");
    expect_form(graph, "parent(ann,bob)", ann, bob);
    expect_form(graph, " parent ( ann , X ) . ", ann, -1);
    expect_form(graph, "parent(X,ann)", -1, ann);
    expect_form(graph, "parent(X,Y)", -1, -2);
    expect_form(graph, "parent(X,X)", -1, -1);
    expect_form(graph, "parent(_,_)", -1, -2);
    expect_form(graph, "parent(?who,?who)", -1, -1);
    expect_form(graph, "'parent'(\"Bob\",Y).", capital, -1);
    expect_form(graph, "likes(ann,'New York')", ann, city);
    EsQuestion question;
    REQUIRE_OK(es_question_parse(graph, "parent(Bob,X)", &question));
    EXPECT_EQ(question.goals[0].cells[0].a, -1);
    EXPECT_EQ(question.shadowed, capital);
    EXPECT_EQ(question.n_variables, 2);
    EXPECT_EQ(question.variables[0].bytes, 3);
    es_kg_destroy(graph);
}

static void expect_failure(const EsKnowledgeGraph *graph, const char *text, const char *message) {
    EsQuestion question;
    EXPECT_STATUS(es_question_parse(graph, text, &question), INPUT);
    if (strcmp(es_status_detail(), message) != 0) {
        ES_TEST_FAIL("%s: \"%s\", expected \"%s\"", text, es_status_detail(), message);
    }
}

TEST(what_is_wrong_is_said_with_its_column) {
    EsKnowledgeGraph *graph = make_graph();
    expect_failure(graph, "",
                   "question:1:1: the line ends where an atom is expected, predicate(a,b)");
    expect_failure(graph, ".", "question:1:1: '.' where an atom is expected");
    expect_failure(graph, "parent(ann,X), .", "question:1:16: '.' where an atom is expected");
    expect_failure(graph, "p1",
                   "question:1:1: \"p1\" alone looks like a variable; a predicate of that name "
                   "without arguments needs quotes");
    expect_failure(graph, "parent(ann,X), p1, X != ann",
                   "question:1:16: \"p1\" alone looks like a variable; a predicate of that name "
                   "without arguments needs quotes");
    expect_failure(graph, "parent", "question:1:1: \"parent\" has 2 arguments, not 0");
    expect_failure(graph, "parnt(ann,X)",
                   "question:1:1: unknown predicate \"parnt\"; did you mean \"parent\"?");
    expect_failure(graph, "parent(anne,X)",
                   "question:1:8: unknown constant \"anne\"; did you mean \"ann\"?");
    expect_failure(graph, "parent(zzzzzzzz,X)", "question:1:8: unknown constant \"zzzzzzzz\"");
    expect_failure(graph, "parent(ann)", "question:1:1: \"parent\" has 2 arguments, not 1");
    expect_failure(graph, "parent(ann,bob,cy)", "question:1:1: \"parent\" has 2 arguments, not 3");
    expect_failure(graph, "parent(ann,)", "question:1:12: the second argument has no name");
    expect_failure(graph, "parent(\"ann,X)",
                   "question:1:8: unknown constant \"\"ann\"; did you mean \"ann\"?");
    expect_failure(graph, "parent(ann,X) or more",
                   "question:1:15: \"or more\" after a goal, expected a comma");
    es_kg_destroy(graph);
}

TEST(long_and_damaged_questions) {
    EsKnowledgeGraph *graph = make_graph();
    EsQuestion question;
    size_t bytes = 10u << 20;
    char *text = malloc(bytes + 1);
    memset(text, 'x', bytes);
    text[bytes] = '\0';
    EXPECT_STATUS(es_question_parse(graph, text, &question), INPUT);
    memcpy(text, "parent(", 7);
    EXPECT_STATUS(es_question_parse(graph, text, &question), INPUT);
    free(text);
    static const char special[] = "(),.'\"_?X \\\xff";
    int n_read = 0, n_refused = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        char damaged[32] = "parent(ann,'bob').";
        Dice dice = {round, 0};
        int n_changes = throw_dice(&dice, 4);
        for (int i = 0; i < n_changes; i++) {
            int at = throw_dice(&dice, 18);
            damaged[at] = throw_dice(&dice, 8) == 0 ? '\0' : special[throw_dice(&dice, 12)];
        }
        // exactly as many bytes as there are, so that a sanitizer sees a step beyond
        char *copy = malloc(strlen(damaged) + 1);
        strcpy(copy, damaged);
        EsStatus status = es_question_parse(graph, copy, &question);
        n_read += status == ES_STATUS_OK;
        n_refused += status == ES_STATUS_INPUT;
        if (status != ES_STATUS_OK && strncmp(es_status_detail(), "question:1:", 11) != 0) {
            ES_TEST_FAIL("%s: %s", copy, es_status_detail());
        }
        free(copy);
    }
    EXPECT_EQ(n_read + n_refused, 20000);
    EXPECT(n_read > 1000 && n_refused > 1000);
    es_kg_destroy(graph);
}

TEST(a_predicate_that_looks_like_a_variable_is_asked_in_quotes) {
    EsKnowledgeGraph *graph;
    EsQuestion question;
    REQUIRE_OK(build_case("'p1'.\nparent(ann,bob).\n", NULL, NULL, &graph));
    EXPECT_STATUS(es_question_parse(graph, "p1", &question), INPUT);
    REQUIRE_OK(es_question_parse(graph, "'p1'", &question));
    EXPECT_EQ(question.goals[0].cells[0].predicate, es_kg_predicate(graph, "p1"));
    es_kg_destroy(graph);
}
