// Random programs with constants, comparisons, stratified negation, names in quotes and recursion
// against SWI-Prolog: everything that follows, open and ground questions by the closure and by
// search, the proofs, and questions of several goals. Skipped where it is not installed.
#include "proof/graph/knowledge_text.h"
#include "proof/graph/prolog_text.h"
#include "proof/random_graph.h"
#include "proof/search/answers.h"
#include "proof/search/closure.h"
#include "proof/search/conjunction.h"
#include "proof/search/proof_tree.h"
#include "temp_folder.h"

#define N_PROGRAMS   240
#define N_PREDICATES 4
#define N_QUESTIONS  6 // per program

// as rule files and facts have them
static const char *const constants[] = {"ann", "'two words'", "\"it's\"", "'Big'", "'x1'",
                                        "1",   "2",           "10",       "-4",    "007"};
#define N_CONSTANTS   ((int)ES_COUNT_OF(constants))
#define FIRST_INTEGER 5 // of four

typedef struct Text {
    char text[8192];
    size_t length;
} Text;

static void add(Text *text, const char *part) {
    size_t bytes = strlen(part);
    EXPECT(text->length + bytes < sizeof text->text);
    memcpy(text->text + text->length, part, bytes + 1);
    text->length += bytes;
}

static const char *draw_constant(Dice *dice) { return constants[throw_dice(dice, N_CONSTANTS)]; }

// --- programs ---

// One of the first n.
static void add_predicate(Text *text, Dice *dice, int n) {
    char name[8] = {'p', (char)('0' + throw_dice(dice, n)), '\0'};
    add(text, name);
}

static void add_facts(Dice *dice, Text *facts) {
    for (int n = 20 + throw_dice(dice, 30); n > 0; n--) {
        add_predicate(facts, dice, N_PREDICATES);
        add(facts, "(");
        add(facts, draw_constant(dice));
        add(facts, ",");
        add(facts, draw_constant(dice));
        add(facts, ")\n");
    }
}

// A variable that occurs in the body, or a constant.
static const char *draw_bound(Dice *dice, const char *const *bound, int n_bound) {
    return n_bound > 0 && throw_dice(dice, 5) > 0 ? bound[throw_dice(dice, n_bound)]
                                                  : draw_constant(dice);
}

// Constants that are compared in order are integers.
static void add_comparison(Dice *dice, Text *rules, const char *const *bound, int n_bound) {
    static const char *const tests[] = {" != ", "!=", " < ", "<=", " > ", " >= "};
    int test = throw_dice(dice, (int)ES_COUNT_OF(tests));
    for (int side = 0; side < 2; side++) {
        int is_variable = n_bound > 0 && throw_dice(dice, 5) > 0;
        add(rules, side == 0 ? ", " : tests[test]);
        add(rules, is_variable ? bound[throw_dice(dice, n_bound)]
                   : test < 2  ? draw_constant(dice)
                               : constants[FIRST_INTEGER + throw_dice(dice, 4)]);
    }
}

static void add_terms(Dice *dice, Text *rules, const char *const *bound, int n_bound) {
    add(rules, "(");
    add(rules, draw_bound(dice, bound, n_bound));
    add(rules, ",");
    add(rules, draw_bound(dice, bound, n_bound));
    add(rules, ")");
}

// With negation, bodies have predicates up to that of the head and negated ones below it, so that
// the program is stratified.
static void add_rule(Dice *dice, Text *rules, int has_negation) {
    static const char *const names[] = {"x", "Y", "_z", "?u", "v2"};
    const char *bound[16];
    int n_bound = 0, head = throw_dice(dice, N_PREDICATES);
    int n_below = has_negation ? head + 1 : N_PREDICATES;
    add(rules, "r:1:");
    for (int k = 0, n = 1 + throw_dice(dice, throw_dice(dice, 4) + 1); k < n; k++) {
        add(rules, k > 0 ? ", " : "");
        add_predicate(rules, dice, n_below);
        for (int side = 0; side < 2; side++) {
            int is_variable = throw_dice(dice, 8) > 0;
            const char *name = names[throw_dice(dice, 2 + n < 5 ? 2 + n : 5)];
            add(rules, side == 0 ? "(" : ",");
            add(rules, is_variable ? name : draw_constant(dice));
            if (is_variable) {
                bound[n_bound++] = name;
            }
        }
        add(rules, ")");
    }
    for (int n = throw_dice(dice, 4) - 1; n > 0; n--) {
        add_comparison(dice, rules, bound, n_bound);
    }
    if (has_negation && head > 0 && throw_dice(dice, 2) == 0) {
        add(rules, throw_dice(dice, 2) == 0 ? ", not " : ", \\+");
        add_predicate(rules, dice, head);
        add_terms(dice, rules, bound, n_bound);
    }
    char name[16];
    snprintf(name, sizeof name, " -> p%d", head);
    add(rules, name);
    add_terms(dice, rules, bound, n_bound);
    add(rules, "\n");
}

// All names are made known by queries.
static EsKnowledgeGraph *draw_program(Dice *dice, int has_negation) {
    Text facts = {.length = 0}, rules = {.length = 0}, queries = {.length = 0};
    EsKgBuilder *builder;
    EsKnowledgeGraph *graph;
    int32_t n_read;
    add_facts(dice, &facts);
    for (int n = 2 + throw_dice(dice, 6); n > 0; n--) {
        add_rule(dice, &rules, has_negation);
    }
    for (int i = 0; i < N_PREDICATES * N_CONSTANTS; i++) {
        char predicate[8];
        snprintf(predicate, sizeof predicate, "p%d(", i % N_PREDICATES);
        add(&queries, predicate);
        add(&queries, constants[i / N_PREDICATES]);
        add(&queries, ",");
        add(&queries, constants[i / N_PREDICATES]);
        add(&queries, ")\n");
    }
    REQUIRE_OK(es_kg_builder_create(&builder));
    REQUIRE_OK(es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "facts", facts.text,
                                       facts.length, &n_read));
    REQUIRE_OK(es_kg_text_read_triples(builder, ES_KG_SPLIT_TEST, "queries", queries.text,
                                       queries.length, &n_read));
    REQUIRE_OK(es_kg_text_read_rules(builder, "rules", rules.text, rules.length, &n_read));
    REQUIRE_OK(es_kg_builder_finish(builder, &graph));
    es_kg_builder_destroy(builder);
    EXPECT_EQ(graph->n_constants, N_CONSTANTS);
    return graph;
}

// --- what Prolog says ---

static const char program[] =
    ":- set_prolog_flag(verbose, silent).\n:- style_check(-singleton).\n"
    "follows(M) :- atom_concat(M, '.pl', F), load_files(M:F, []), format('begin ~w~n', [M]),\n"
    "    forall((member(P, [p0,p1,p2,p3]), G =.. [P,X,Y], call(M:G)),\n"
    "           (ground(X-Y), format('~w(~w,~w)~n', [P,X,Y]))), format('end~n').\n";

// What follows in one program, a line each; written into `part`.
static void find_part(const char *output, int number, char *part, size_t bytes) {
    char head[32];
    snprintf(head, sizeof head, "begin g%d\n", number);
    const char *begin = strstr(output, head), *end;
    EXPECT(begin != NULL);
    begin += strlen(head) - 1;
    end = strstr(begin, "\nend\n");
    EXPECT(end != NULL && (size_t)(end - begin) + 2 < bytes);
    memcpy(part, begin, (size_t)(end - begin) + 1);
    part[end - begin + 1] = '\0';
}

static int says(const char *part, const EsKnowledgeGraph *graph, EsAtom atom) {
    char line[256];
    snprintf(line, sizeof line, "\n%s(%s,%s)\n", graph->predicate_names[atom.predicate],
             graph->constant_names[atom.a], graph->constant_names[atom.b]);
    return strstr(part, line) != NULL;
}

static int compare_closure(const char *part, const EsKnowledgeGraph *graph) {
    EsClosure *closure;
    int n_said = 0;
    REQUIRE_OK(es_closure_create(graph, 100000, &closure));
    for (int p = 0; p < N_PREDICATES; p++) {
        char name[8] = {'p', (char)('0' + p), '\0'};
        for (int32_t i = 0; i < N_CONSTANTS * N_CONSTANTS; i++) {
            EsAtom atom = {es_kg_predicate(graph, name), 1 + i / N_CONSTANTS, 1 + i % N_CONSTANTS};
            EXPECT_EQ(es_closure_has(closure, atom), says(part, graph, atom));
            n_said += says(part, graph, atom);
        }
    }
    EXPECT_EQ(closure->count, n_said);
    EXPECT(closure->is_complete);
    int n_derived = closure->count - closure->n_facts;
    es_closure_destroy(closure);
    return n_derived;
}

// --- questions ---

typedef struct Totals {
    int n_derived, n_answers, n_trees, n_searched, n_ground, n_rows;
} Totals;

static int count_said(const char *part, const EsKnowledgeGraph *graph, EsAtom form) {
    int n = 0;
    for (int32_t i = 0; i < N_CONSTANTS * N_CONSTANTS; i++) {
        EsAtom atom = {form.predicate, 1 + i / N_CONSTANTS, 1 + i % N_CONSTANTS};
        n += es_question_matches(form, atom) && says(part, graph, atom);
    }
    return n;
}

static EsAnswers ask(const EsKnowledgeGraph *graph, EsThreadPool *pool, EsAtom form,
                     int32_t closure_limit) {
    EsAnswersSettings settings = es_answers_defaults();
    EsAnswers answers;
    settings.closure_limit = closure_limit;
    settings.keeps_closure = 1;
    settings.prover.max_states = 20000;
    REQUIRE_OK(es_answers_find(graph, &settings, pool, form, &answers));
    return answers;
}

static int replay_proofs(const EsKnowledgeGraph *graph, const EsAnswers *answers) {
    EsProverSettings settings = es_prover_defaults();
    int n_trees = 0;
    settings.max_states = 20000;
    for (int32_t i = 0; i < answers->count && n_trees < 4; i++) {
        EsProofTree *tree;
        EsProverAnswer found;
        EsAnswer answer = answers->items[i];
        if (answer.n_steps > 0) {
            if (answer.n_steps == ES_ANSWER_BEYOND) {
                REQUIRE_OK(es_proof_tree_derive(answers->closure, answer.atom, &tree));
            } else {
                REQUIRE_OK(es_proof_tree_find(graph, &settings, answer.atom, &tree, &found));
                EXPECT_EQ(found.depth, answer.n_steps);
            }
            REQUIRE_OK(es_proof_tree_check(tree));
            es_proof_tree_destroy(tree);
            n_trees++;
        }
    }
    return n_trees;
}

static void compare_question(const char *part, const EsKnowledgeGraph *graph, EsThreadPool *pool,
                             EsAtom form, Totals *totals) {
    int n_said = count_said(part, graph, form);
    EsAnswers answers = ask(graph, pool, form, 100000);
    EXPECT_EQ(answers.count, n_said);
    for (int32_t i = 0; i < answers.count; i++) {
        EXPECT(says(part, graph, answers.items[i].atom));
    }
    totals->n_answers += answers.count;
    totals->n_trees += replay_proofs(graph, &answers);
    // the search finds the same within its limits
    EsAnswers searched = ask(graph, pool, form, 0);
    if (searched.is_complete && answers.n_undecided == 0) {
        EXPECT_EQ(searched.count, answers.count - answers.n_deeper);
        for (int32_t i = 0; i < ES_MIN(searched.count, answers.count); i++) {
            EXPECT(es_atom_equals(searched.items[i].atom, answers.items[i].atom));
        }
        totals->n_searched++;
    }
    es_answers_destroy(&answers);
    es_answers_destroy(&searched);
}

static void compare_questions(const char *part, const EsKnowledgeGraph *graph, EsThreadPool *pool,
                              Dice *dice, Totals *totals) {
    for (int i = 0; i < N_QUESTIONS; i++) {
        char name[8] = {'p', (char)('0' + throw_dice(dice, N_PREDICATES)), '\0'};
        EsAtom form = {es_kg_predicate(graph, name), 1 + throw_dice(dice, N_CONSTANTS),
                       1 + throw_dice(dice, N_CONSTANTS)};
        int kind = i % 4;
        EsAtom open = {form.predicate, kind == 1 ? form.a : -1, kind == 2 ? form.b : -2};
        open.b = kind == 3 ? -1 : (kind == 1 ? -1 : open.b);
        compare_question(part, graph, pool, open, totals);
        // a ground question
        EsAnswers answers = ask(graph, pool, form, 100000);
        EXPECT_EQ(answers.count, says(part, graph, form));
        totals->n_ground++;
        es_answers_destroy(&answers);
    }
}

// --- questions of several goals ---

// Plain counting over all constants for X, Y and Z; `atoms` are the goals, terms -1, -2, -3.
static int count_rows(const char *part, const EsKnowledgeGraph *graph, const EsAtom *goals,
                      int n_goals, int differs) {
    int n = 0;
    for (int32_t i = 0; i < N_CONSTANTS * N_CONSTANTS * N_CONSTANTS; i++) {
        int32_t row[3] = {1 + i % N_CONSTANTS, 1 + i / N_CONSTANTS % N_CONSTANTS,
                          1 + i / N_CONSTANTS / N_CONSTANTS};
        int holds = !differs || row[0] != row[2];
        for (int k = 0; k < n_goals && holds; k++) {
            EsAtom atom = {goals[k].predicate, goals[k].a < 0 ? row[-1 - goals[k].a] : goals[k].a,
                           goals[k].b < 0 ? row[-1 - goals[k].b] : goals[k].b};
            holds = says(part, graph, atom);
        }
        n += holds;
    }
    return n;
}

static void compare_conjunctions(const char *part, const EsKnowledgeGraph *graph, Dice *dice,
                                 Totals *totals) {
    static const char *const names[] = {"X", "Y", "Z"};
    // every variable is in some goal: p(X,Y), q(Y,Z), perhaps r(.,.) and X != Z
    Text text = {.length = 0};
    EsAtom goals[3];
    int n_goals = 2 + throw_dice(dice, 2), differs = throw_dice(dice, 2);
    for (int k = 0; k < n_goals; k++) {
        char predicate[8] = {'p', (char)('0' + throw_dice(dice, N_PREDICATES)), '\0'};
        int first = k < 2 ? k : throw_dice(dice, 3), second = k < 2 ? k + 1 : throw_dice(dice, 3);
        goals[k] = (EsAtom){es_kg_predicate(graph, predicate), -1 - first, -1 - second};
        add(&text, k > 0 ? ", " : "");
        add(&text, predicate);
        add(&text, "(");
        add(&text, names[first]);
        add(&text, ",");
        add(&text, names[second]);
        add(&text, ")");
    }
    add(&text, differs ? ", X != Z" : "");
    EsConjunction question;
    EsConjunctionAnswers answers;
    EXPECT(es_question_is_conjunction(text.text));
    REQUIRE_OK(es_conjunction_parse(graph, text.text, &question));
    const EsClosureSettings settings = {.limit = 100000};
    REQUIRE_OK(es_conjunction_find(graph, &question, &settings, &answers));
    EXPECT(answers.is_complete);
    EXPECT_EQ(answers.count, count_rows(part, graph, goals, n_goals, differs));
    for (int32_t i = 0; i < answers.count; i++) {
        for (int k = 0; k < n_goals; k++) {
            EXPECT(says(part, graph,
                        es_conjunction_goal(&question, k, es_conjunction_row(&answers, i))));
        }
    }
    totals->n_rows += answers.count;
    es_conjunction_answers_destroy(&answers);
}

// --- all together ---

static char *run_prolog(void) {
    char command[512];
    size_t capacity = 8u << 20, used;
    char *output = malloc(capacity);
    snprintf(command, sizeof command, "cd %s && swipl -q -g halt driver.pl 2>&1", temp_folder());
    FILE *pipe = popen(command, "r");
    EXPECT(pipe != NULL);
    used = fread(output, 1, capacity - 1, pipe);
    output[used] = '\0';
    EXPECT(used < capacity - 1);
    EXPECT_EQ(pclose(pipe), 0);
    const char *complaint = strstr(output, "Warning");
    complaint = complaint != NULL ? complaint : strstr(output, "ERROR");
    if (complaint != NULL) {
        ES_TEST_FAIL("Prolog complains: %.400s", complaint);
    }
    return output;
}

TEST(programs_agree_with_prolog) {
    if (system("command -v swipl > /dev/null 2>&1") != 0) {
        SKIP("swipl is not installed (Debian package swi-prolog-nox)");
    }
    static EsKnowledgeGraph *graphs[N_PROGRAMS];
    static char part[1 << 16];
    Totals totals = {0, 0, 0, 0, 0, 0};
    EsThreadPool *pool;
    int n_negations = 0;
    FILE *driver = fopen(temp_path("driver.pl"), "w");
    fputs(program, driver);
    for (uint32_t i = 0; i < N_PROGRAMS; i++) {
        Dice dice = {70000 + i, 0};
        char name[32];
        graphs[i] = draw_program(&dice, i % 2 == 1);
        n_negations += graphs[i]->has_negation;
        snprintf(name, sizeof name, "g%u.pl", i);
        REQUIRE_OK(es_prolog_text_save(graphs[i], temp_path(name)));
        fprintf(driver, ":- follows(g%u).\n", i);
    }
    fclose(driver);
    char *output = run_prolog();
    REQUIRE_OK(es_thread_pool_create(&pool, 1));
    for (int i = 0; i < N_PROGRAMS; i++) {
        Dice dice = {80000 + (uint32_t)i, 0};
        find_part(output, i, part, sizeof part);
        totals.n_derived += compare_closure(part, graphs[i]);
        REQUIRE_OK(es_closure_decide(graphs[i], 100000));
        compare_questions(part, graphs[i], pool, &dice, &totals);
        compare_conjunctions(part, graphs[i], &dice, &totals);
        es_kg_destroy(graphs[i]);
    }
    printf("%d atoms derived, %d answers, %d proofs replayed, %d questions searched, %d ground, "
           "%d rows\n",
           totals.n_derived, totals.n_answers, totals.n_trees, totals.n_searched, totals.n_ground,
           totals.n_rows);
    printf("%d programs with negation\n", n_negations);
    EXPECT(n_negations > N_PROGRAMS / 4);
    EXPECT(totals.n_derived > 5 * N_PROGRAMS);
    EXPECT(totals.n_trees > N_PROGRAMS);
    EXPECT(totals.n_searched > N_PROGRAMS);
    EXPECT(totals.n_rows > 5 * N_PROGRAMS);
    es_thread_pool_destroy(pool);
    free(output);
}
