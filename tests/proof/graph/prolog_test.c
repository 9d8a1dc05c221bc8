// Closure, questions and single steps against SWI-Prolog, which shares no line of code with us.
// Skipped where it is not installed.
//
// Random programs are written as Prolog files, loaded each into a module of its own by one process.
// Graphs of binary predicates: all that follows (by tabling), and for states reached by a walk the
// lists that one resolution step on the first goal gives. Programs with predicates of none to four
// arguments, constants, comparisons, stratified negation, names in quotes and recursion: everything
// that follows, open and ground questions by the closure and by search, the proofs, and questions
// of several goals.
#include "proof/graph/knowledge_text.h"
#include "proof/graph/prolog_text.h"
#include "proof/random_graph.h"
#include "proof/search/answers.h"
#include "proof/search/proof_tree.h"
#include "temp_folder.h"

#define SKIP_WITHOUT_PROLOG()                                                                      \
    if (system("command -v swipl > /dev/null 2>&1") != 0) {                                        \
        SKIP("swipl is not installed (Debian package swi-prolog-nox)");                            \
    }

// What the driver prints, a line feed before it.
static char *run_prolog(void) {
    char command[512];
    size_t capacity = 32u << 20, used = 1;
    char *output = malloc(capacity);
    output[0] = '\n';
    snprintf(command, sizeof command, "cd %s && swipl -q -g halt driver.pl 2>&1", temp_folder());
    FILE *pipe = popen(command, "r");
    EXPECT(pipe != NULL);
    used += fread(output + used, 1, capacity - used - 1, pipe);
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

// --- steps on binary graphs ---

#define N_GRAPHS   40
#define N_STATES   3 // walked per graph
#define MAX_STATES 4096

static const char step_program[] =
    ":- set_prolog_flag(verbose, silent).\n:- style_check(-singleton).\n"
    "load(M) :- atom_concat(M, '.pl', F), load_files(M:F, []).\n"
    "follows(M) :- forall((member(P, [p0,p1,p2,p3]), G =.. [P,X,Y], call(M:G)),\n"
    "                     (ground(X-Y), format('~w ~w(~w,~w)~n', [M,P,X,Y]))).\n"
    "to_list(true, []) :- !.\n"
    "to_list((A,B), [A|L]) :- !, to_list(B, L).\n"
    "to_list(A, [A]).\n"
    "names([], _).\n"
    "names([V|Vs], N) :- atom_concat('V', N, V), N1 is N + 1, names(Vs, N1).\n"
    "one_step(M, Q, [G|R], Next) :- M:clause(G, B), \\+ (B == true, G == Q), to_list(B, L),\n"
    "                               append(L, R, Next).\n"
    "step(M, I, Q, State) :- findall(N, one_step(M, Q, State, N), Ns),\n"
    "    forall(member(N, Ns), (term_variables(N, Vs), names(Vs, 1), format('~w ~w', [M,I]),\n"
    "                           forall(member(A, N), format(' ~w', [A])), nl)).\n";

static int32_t find_depth(const EsKnowledgeGraph *graph, EsAtom query) {
    EsProverSettings settings = es_prover_defaults();
    settings.max_depth = 30;
    settings.max_atoms = ES_PROOF_MAX_ATOMS;
    EsProver *prover;
    EsProverAnswer answer;
    REQUIRE_OK(es_prover_create(graph, &settings, &prover));
    REQUIRE_OK(es_prover_find_depth(prover, &query, &answer));
    es_prover_destroy(prover);
    return answer.depth;
}

// --- the states asked about ---

typedef struct Walked {
    EsAtom query;
    EsAtom atoms[ES_PROOF_MAX_ATOMS];
    int32_t n_atoms;
} Walked;

typedef struct Case {
    EsKnowledgeGraph *graph;
    EsKnowledgeGraph *without; // the same without `left_out`, which was a fact
    EsAtom left_out;
    Walked walked[N_STATES];
} Case;

static EsProofSettings step_settings(void) {
    return (EsProofSettings){
        .selection = ES_GOAL_LEFTMOST, .max_atoms = ES_PROOF_MAX_ATOMS, .max_states = MAX_STATES};
}

static Walked walk(const EsKnowledgeGraph *graph, Dice *dice, EsSuccessors *successors) {
    EsProofSettings settings = step_settings();
    const EsQuerySplit *queries = &graph->splits[ES_KG_SPLIT_TEST];
    Walked walked = {.n_atoms = 1};
    // rather one that leads somewhere
    for (int n_tries = 0; n_tries == 0 || (n_tries < 20 && successors->outcome != ES_PROOF_OPEN);
         n_tries++) {
        walked.query = walked.atoms[0] = queries->atoms[throw_dice(dice, queries->count)];
        es_proof_expand(graph, &settings, &walked.query, walked.atoms, 1, NULL, successors);
    }
    for (int n = throw_dice(dice, 4); n > 0; n--) {
        es_proof_expand(graph, &settings, &walked.query, walked.atoms, walked.n_atoms, NULL,
                        successors);
        if (successors->outcome != ES_PROOF_OPEN) {
            break;
        }
        EsAtomSpan next = es_successor(successors, throw_dice(dice, successors->count));
        memcpy(walked.atoms, next.atoms, (size_t)next.count * sizeof *next.atoms);
        walked.n_atoms = next.count;
    }
    return walked;
}

static void print_state_atom(FILE *file, const EsKnowledgeGraph *graph, EsAtom atom) {
    int32_t n = graph->n_constants;
    fprintf(file, "%s(", graph->predicate_names[atom.predicate]);
    for (int side = 0; side < 2; side++) {
        int32_t term = side == 0 ? atom.a : atom.b;
        if (term > n) {
            fprintf(file, "V%d", term - n);
        } else {
            fprintf(file, "%s", graph->constant_names[term]);
        }
        fputs(side == 0 ? "," : ")", file);
    }
}

static void print_step(FILE *file, const EsKnowledgeGraph *graph, int number, int state,
                       const Walked *walked) {
    fprintf(file, ":- step(g%d, %d, ", number, state);
    print_state_atom(file, graph, walked->query);
    fprintf(file, ", [");
    for (int32_t i = 0; i < walked->n_atoms; i++) {
        fputs(i > 0 ? "," : "", file);
        print_state_atom(file, graph, walked->atoms[i]);
    }
    fprintf(file, "]).\n");
}

// --- what Prolog says ---

// One list of goals pruned, numbered and compared; remembers which successors were named.
static void match_list(const EsKnowledgeGraph *graph, const Walked *walked, const char *text,
                       const EsSuccessors *successors, char *is_named, int *n_empty) {
    EsAtom state[ES_PROOF_MAX_ATOMS + ES_HORN_MAX_BODY];
    int32_t n_atoms = 0, names[64] = {0}, n_names = 0;
    SmallAtom spelt;
    for (const char *at = scan_small_atom(text, &spelt); at != NULL;
         at = scan_small_atom(at, &spelt)) {
        char atom_text[256];
        snprintf(atom_text, sizeof atom_text, "%s(%s,%s)", spelt.predicate, spelt.a, spelt.b);
        EsAtom atom = small_atom(graph, atom_text);
        if (!es_proof_holds(graph, &atom, &walked->query)) {
            state[n_atoms++] = atom;
        }
    }
    for (int32_t i = 0; i < 2 * n_atoms; i++) {
        int32_t *term = i % 2 == 0 ? &state[i / 2].a : &state[i / 2].b;
        if (*term > graph->n_constants) {
            int32_t *name = &names[*term - graph->n_constants];
            *name = *name != 0 ? *name : ++n_names;
            *term = graph->n_constants + *name;
        }
    }
    *n_empty += n_atoms == 0;
    for (int32_t k = 0; k < successors->count; k++) {
        EsAtomSpan other = es_successor(successors, k);
        if (other.count == n_atoms && es_goals_equal(other.atoms, state, n_atoms)) {
            is_named[k] = 1;
            return;
        }
    }
    if (successors->outcome == ES_PROOF_OPEN) {
        ES_TEST_FAIL("Prolog has the successor \"%s\", the engine has not", text);
    }
}

// Lines "g3 1 p0(c1,V1) ..." of one state.
static int compare_steps(const char *output, const Case *one, int number, int state,
                         EsSuccessors *successors) {
    char head[32], is_named[MAX_STATES] = {0};
    const Walked *walked = &one->walked[state];
    EsProofSettings settings = step_settings();
    int n_lists = 0, n_empty = 0;
    es_proof_expand(one->graph, &settings, &walked->query, walked->atoms, walked->n_atoms, NULL,
                    successors);
    int length = snprintf(head, sizeof head, "\ng%d %d", number, state);
    for (const char *at = strstr(output, head); at != NULL; at = strstr(at + 1, head)) {
        char line[4096] = "";
        size_t n = strcspn(at + length, "\n");
        EXPECT(n < sizeof line);
        memcpy(line, at + length, n);
        match_list(one->graph, walked, line, successors, is_named, &n_empty);
        n_lists++;
    }
    EXPECT_EQ(successors->outcome == ES_PROOF_PROVED, n_empty > 0);
    EXPECT_EQ(successors->outcome == ES_PROOF_FAILED, n_lists == 0);
    for (int32_t k = 0; k < successors->count && successors->outcome == ES_PROOF_OPEN; k++) {
        EXPECT(is_named[k]);
    }
    return n_lists;
}

static int says_module(const char *output, const char *module, const EsKnowledgeGraph *graph,
                       EsAtom atom) {
    char line[256];
    snprintf(line, sizeof line, "\n%s %s(%s,%s)\n", module, graph->predicate_names[atom.predicate],
             graph->constant_names[atom.a], graph->constant_names[atom.b]);
    return strstr(output, line) != NULL;
}

static int compare_module(const char *output, const char *module, const EsKnowledgeGraph *graph) {
    EsClosure *closure;
    REQUIRE_OK(es_closure_create(graph, 1000, &closure));
    const EsQuerySplit *all = &graph->splits[ES_KG_SPLIT_TEST];
    for (int32_t i = 0; i < all->count; i++) {
        EXPECT_EQ(es_closure_has(closure, &all->atoms[i]),
                  says_module(output, module, graph, all->atoms[i]));
    }
    int n_derived = closure->count - closure->n_facts;
    es_closure_destroy(closure);
    return n_derived;
}

// A fact that is left out still follows if and only if the prover proves it without itself.
static int compare_proof(const char *output, const char *module, const Case *one) {
    int32_t depth = find_depth(one->graph, one->left_out);
    EXPECT_EQ(depth > 0, says_module(output, module, one->graph, one->left_out));
    return depth > 0;
}

// --- all together ---

static EsAtom fact_of(const EsKnowledgeGraph *graph, const RandomGraph *random, int i) {
    const SmallAtom *fact = &random->facts[i];
    char text[256];
    snprintf(text, sizeof text, "%s(%s,%s)", fact->predicate, fact->a, fact->b);
    return small_atom(graph, text);
}

static void write_case(FILE *driver, uint32_t number, Case *one, EsSuccessors *successors) {
    // every second graph is layered, so that a bounded proof decides it
    RandomGraph random = draw_graph(500 + number, (int)number % 2);
    char name[32];
    Dice dice = {9000 + number, 0};
    one->graph = build_graph(&random, 0, -1, "");
    // rather a fact that follows from the others
    int left_out = 0;
    for (int i = 0; i < random.n_facts && number % 2 == 1; i++) {
        if (find_depth(one->graph, fact_of(one->graph, &random, i)) > 0) {
            left_out = i;
        }
    }
    one->left_out = fact_of(one->graph, &random, left_out);
    one->without = build_graph(&random, 0, left_out, "");
    snprintf(name, sizeof name, "g%u.pl", number);
    REQUIRE_OK(es_prolog_text_save(one->graph, temp_path(name)));
    snprintf(name, sizeof name, "w%u.pl", number);
    REQUIRE_OK(es_prolog_text_save(one->without, temp_path(name)));
    fprintf(driver, ":- load(g%u), load(w%u).\n:- follows(g%u).\n:- follows(w%u).\n", number,
            number, number, number);
    for (int k = 0; k < N_STATES; k++) {
        one->walked[k] = walk(one->graph, &dice, successors);
        print_step(driver, one->graph, (int)number, k, &one->walked[k]);
    }
}

TEST(closure_and_steps_agree_with_prolog) {
    SKIP_WITHOUT_PROLOG();
    static Case cases[N_GRAPHS];
    EsSuccessors successors;
    int n_derived = 0, n_lists = 0, n_proved = 0;
    REQUIRE_OK(es_successors_create(MAX_STATES, ES_PROOF_MAX_ATOMS, &successors));
    FILE *driver = fopen(temp_path("driver.pl"), "w");
    fputs(step_program, driver);
    for (uint32_t i = 0; i < N_GRAPHS; i++) {
        write_case(driver, i, &cases[i], &successors);
    }
    fclose(driver);
    char *output = run_prolog();
    for (int i = 0; i < N_GRAPHS; i++) {
        char with[16], without[16];
        snprintf(with, sizeof with, "g%d", i);
        snprintf(without, sizeof without, "w%d", i);
        n_derived += compare_module(output, with, cases[i].graph);
        compare_module(output, without, cases[i].without);
        // a fact drawn twice is still there
        if (i % 2 == 1 && !es_kg_has_fact(cases[i].without, cases[i].left_out)) {
            n_proved += compare_proof(output, without, &cases[i]);
        }
        for (int k = 0; k < N_STATES; k++) {
            n_lists += compare_steps(output, &cases[i], i, k, &successors);
        }
        es_kg_destroy(cases[i].graph);
        es_kg_destroy(cases[i].without);
    }
    printf("%d atoms derived, %d lists of goals, %d facts proved without themselves\n", n_derived,
           n_lists, n_proved);
    EXPECT(n_derived > 5 * N_GRAPHS);
    EXPECT(n_lists > N_STATES * N_GRAPHS);
    EXPECT(n_proved > 3);
    free(output);
    es_successors_destroy(&successors);
}

// --- programs of any arity ---

#define N_PROGRAMS   240
#define N_PREDICATES 6
#define N_QUESTIONS  8 // per program

// as rule files, facts and questions have them, and as Prolog does
static const char *const constants[][2] = {{"ann", "ann"},
                                           {"'two words'", "'two words'"},
                                           {"\"it's\"", "'it\\'s'"},
                                           {"'Big'", "'Big'"},
                                           {"'x1'", "x1"},
                                           {"1", "1"},
                                           {"2", "2"},
                                           {"10", "10"},
                                           {"-4", "-4"},
                                           {"007", "'007'"}};
#define N_CONSTANTS   ((int)ES_COUNT_OF(constants))
#define FIRST_INTEGER 5 // of four

typedef struct Text {
    char text[16384];
    size_t length;
} Text;

static void add(Text *text, const char *part) {
    size_t bytes = strlen(part);
    EXPECT(text->length + bytes < sizeof text->text);
    memcpy(text->text + text->length, part, bytes + 1);
    text->length += bytes;
}

// A program at work: the number of arguments of p0, p1, ...
typedef struct Program {
    Dice dice;
    int first_constant, n_constants; // few that are drawn, so that bodies meet
    int arity[N_PREDICATES];
    Text facts, rules, queries;
} Program;

static const char *draw_constant(Program *program) {
    int i = program->first_constant + throw_dice(&program->dice, program->n_constants);
    return constants[i % N_CONSTANTS][0];
}

static void add_predicate(Text *text, int p) {
    char name[8] = {'p', 'r', (char)('0' + p), '\0'};
    add(text, name);
}

static void add_bracket(Text *text, int i, int arity) {
    add(text, i == arity ? (arity > 0 ? ")" : "") : i == 0 ? "(" : ",");
}

static void add_facts(Program *program) {
    Text *facts = &program->facts;
    for (int n = 25 + throw_dice(&program->dice, 45); n > 0; n--) {
        int p = throw_dice(&program->dice, N_PREDICATES);
        // rather few without arguments, which are true or not for the whole program
        if (program->arity[p] > 0 || throw_dice(&program->dice, 10) == 0) {
            add_predicate(facts, p);
            for (int i = 0; i < program->arity[p]; i++) {
                add_bracket(facts, i, program->arity[p]);
                add(facts, draw_constant(program));
            }
            add_bracket(facts, program->arity[p], program->arity[p]);
            add(facts, n % 2 == 0 || program->arity[p] == 0 ? ".\n" : "\n");
        }
    }
}

// A variable that occurs in the body, or a constant.
static const char *draw_bound(Program *program, const char *const *bound, int n_bound) {
    return n_bound > 0 && throw_dice(&program->dice, 5) > 0
               ? bound[throw_dice(&program->dice, n_bound)]
               : draw_constant(program);
}

// Constants that are compared in order are integers.
static void add_comparison(Program *program, const char *const *bound, int n_bound) {
    static const char *const tests[] = {" != ", "!=", " < ", "<=", " > ", " >= "};
    int test = throw_dice(&program->dice, (int)ES_COUNT_OF(tests));
    for (int side = 0; side < 2; side++) {
        int is_variable = n_bound > 0 && throw_dice(&program->dice, 5) > 0;
        add(&program->rules, side == 0 ? ", " : tests[test]);
        add(&program->rules, is_variable ? bound[throw_dice(&program->dice, n_bound)]
                             : test < 2
                                 ? draw_constant(program)
                                 : constants[FIRST_INTEGER + throw_dice(&program->dice, 4)][0]);
    }
}

static void add_bound_atom(Program *program, int p, const char *const *bound, int n_bound) {
    add_predicate(&program->rules, p);
    for (int i = 0; i < program->arity[p]; i++) {
        add_bracket(&program->rules, i, program->arity[p]);
        add(&program->rules, draw_bound(program, bound, n_bound));
    }
    add_bracket(&program->rules, program->arity[p], program->arity[p]);
}

// With negation, bodies have predicates up to that of the head and negated ones below it, so that
// the program is stratified.
static void add_rule(Program *program, int has_negation) {
    static const char *const names[] = {"x", "Y", "_z", "?u", "v2"};
    const char *bound[24];
    Dice *dice = &program->dice;
    Text *rules = &program->rules;
    int n_bound = 0, head = throw_dice(dice, N_PREDICATES);
    int n_below = has_negation ? head + 1 : N_PREDICATES;
    add(rules, "r:1:");
    for (int k = 0, n = 1 + throw_dice(dice, throw_dice(dice, 4) + 1); k < n; k++) {
        int p = throw_dice(dice, n_below);
        add(rules, k > 0 ? ", " : "");
        add_predicate(rules, p);
        for (int i = 0; i < program->arity[p]; i++) {
            int is_variable = throw_dice(dice, 8) > 0;
            const char *name = names[throw_dice(dice, 2 + n < 5 ? 2 + n : 5)];
            add_bracket(rules, i, program->arity[p]);
            add(rules, is_variable ? name : draw_constant(program));
            if (is_variable) {
                bound[n_bound++] = name;
            }
        }
        add_bracket(rules, program->arity[p], program->arity[p]);
    }
    for (int n = throw_dice(dice, 4) - 1; n > 0; n--) {
        add_comparison(program, bound, n_bound);
    }
    if (has_negation && head > 0 && throw_dice(dice, 2) == 0) {
        add(rules, throw_dice(dice, 2) == 0 ? ", not " : ", \\+");
        add_bound_atom(program, throw_dice(dice, head), bound, n_bound);
    }
    add(rules, " -> ");
    add_bound_atom(program, head, bound, n_bound);
    add(rules, "\n");
}

// All names are made known by queries.
static void add_queries(Program *program) {
    for (int k = 0; k < N_PREDICATES * N_CONSTANTS; k++) {
        int p = k % N_PREDICATES;
        add_predicate(&program->queries, p);
        for (int i = 0; i < program->arity[p]; i++) {
            add_bracket(&program->queries, i, program->arity[p]);
            add(&program->queries, constants[k / N_PREDICATES][0]);
        }
        add_bracket(&program->queries, program->arity[p], program->arity[p]);
        add(&program->queries, ".\n");
    }
}

static EsKnowledgeGraph *draw_program(Program *program, uint32_t number) {
    EsKgBuilder *builder;
    EsKnowledgeGraph *graph;
    int32_t n_read;
    memset(program, 0, sizeof *program);
    program->dice = (Dice){70000 + number, 0};
    program->first_constant = (int)number % N_CONSTANTS;
    program->n_constants = 3 + (int)number % 4;
    for (int p = 0; p < N_PREDICATES; p++) {
        // all arities from 0 to 4, and 2 twice, in any order
        static const int arities[N_PREDICATES] = {2, 1, 3, 2, 4, 0};
        program->arity[p] = arities[((uint32_t)p + number / 2) % N_PREDICATES];
    }
    add_facts(program);
    for (int n = 4 + throw_dice(&program->dice, 12); n > 0; n--) {
        add_rule(program, number % 2 == 1);
    }
    add_queries(program);
    REQUIRE_OK(es_kg_builder_create(&builder));
    REQUIRE_OK(es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "facts", program->facts.text,
                                       program->facts.length, &n_read));
    REQUIRE_OK(es_kg_text_read_triples(builder, ES_KG_SPLIT_TEST, "queries", program->queries.text,
                                       program->queries.length, &n_read));
    REQUIRE_OK(es_kg_text_read_rules(builder, "rules", program->rules.text, program->rules.length,
                                     &n_read));
    REQUIRE_OK(es_kg_builder_finish(builder, &graph));
    es_kg_builder_destroy(builder);
    EXPECT_EQ(graph->n_constants, N_CONSTANTS);
    return graph;
}

// --- questions, as we and as Prolog are asked them ---

// A goal; terms are numbers of constants, or -1, -2, ... for X, Y, Z, U.
static void add_goal(Text *text, int dialect, int p, const int *terms, int arity) {
    static const char *const names[] = {"X", "Y", "Z", "U"};
    add_predicate(text, p);
    for (int i = 0; i < arity; i++) {
        add_bracket(text, i, arity);
        add(text, terms[i] < 0 ? names[-1 - terms[i]] : constants[terms[i]][dialect]);
    }
    add_bracket(text, arity, arity);
}

typedef struct Asked {
    Text ours, prologs;
    int is_single;
} Asked;

// The first three kinds are of one goal: variables in some places, the same variable in several,
// and none; the others of two or three goals.
static void draw_question(Program *program, int kind, Asked *asked) {
    Dice *dice = &program->dice;
    memset(asked, 0, sizeof *asked);
    asked->is_single = kind < 6;
    int n_goals = kind < 6 ? 1 : 2 + throw_dice(dice, 2), used[4] = {0};
    for (int k = 0; k < n_goals; k++) {
        int p = throw_dice(dice, N_PREDICATES), terms[4];
        for (int i = 0; i < program->arity[p]; i++) {
            int is_variable =
                kind < 5 ? throw_dice(dice, 3) > 0 : kind > 5 && throw_dice(dice, 8) > 0;
            int v = kind < 3 ? i : throw_dice(dice, kind < 6 ? 2 : 4);
            terms[i] = is_variable
                           ? -1 - v
                           : (program->first_constant + throw_dice(dice, program->n_constants)) %
                                 N_CONSTANTS;
            used[v] |= is_variable;
        }
        add(&asked->ours, k > 0 ? ", " : "");
        add(&asked->prologs, k > 0 ? ", " : "");
        add_goal(&asked->ours, 0, p, terms, program->arity[p]);
        add_goal(&asked->prologs, 1, p, terms, program->arity[p]);
    }
    if (kind >= 6 && used[0] && used[1] && throw_dice(dice, 2) == 0) {
        add(&asked->ours, ", X != Y");
        add(&asked->prologs, ", X \\== Y");
    }
}

// --- what Prolog says ---

static const char program_text[] =
    ":- set_prolog_flag(verbose, silent).\n:- style_check(-singleton).\n"
    "show(G) :- G =.. [P|As], format('~w', [P]), arguments(As, '('), nl.\n"
    "arguments([], '(') :- !.\narguments([], _) :- format(')').\n"
    "arguments([A|As], S) :- format('~w~w', [S,A]), arguments(As, ',').\n"
    "follows(M, Ps) :- atom_concat(M, '.pl', F), load_files(M:F, []), format('begin ~w~n', [M]),\n"
    "    forall((member(P/N, Ps), functor(G, P, N), call(M:G)), (ground(G), show(G))),\n"
    "    format('end~n').\n"
    "single(M, I, G) :- format('asked ~w ~w~n', [M,I]), forall(call(M:G), (ground(G), show(G))),\n"
    "    format('end~n').\n"
    "several(M, I, G) :- term_variables(G, Vs), findall(Vs, call(M:G), All), sort(All, Rows),\n"
    "    length(Rows, N), format('rows ~w ~w ~w~n', [M,I,N]).\n";

// The lines between a head and "end", sorted.
typedef struct Said {
    char *text;         // owned
    const char **lines; // owned
    int count;
} Said;

static int compare_lines(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static Said find_said(const char *output, const char *head) {
    const char *begin = strstr(output, head), *end;
    EXPECT(begin != NULL);
    begin += strlen(head);
    end = strstr(begin - 1, "\nend\n");
    EXPECT(end != NULL);
    Said said = {malloc((size_t)(end - begin) + 2), NULL, 0};
    size_t bytes = end < begin ? 0 : (size_t)(end - begin);
    memcpy(said.text, begin, bytes);
    said.text[bytes] = '\0';
    said.lines = calloc(bytes + 1, sizeof *said.lines);
    for (char *line = strtok(said.text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        said.lines[said.count++] = line;
    }
    qsort(said.lines, (size_t)said.count, sizeof *said.lines, compare_lines);
    return said;
}

static void forget(Said *said) {
    free(said->text);
    free(said->lines);
}

// Returns whether Prolog has an atom; it prints names without quotes.
static int says(const Said *said, const EsKnowledgeGraph *graph, const EsAtom *atom) {
    char text[256];
    const char *line = text;
    int arity = graph->arities[atom->predicate];
    int length = snprintf(text, sizeof text, "%s", graph->predicate_names[atom->predicate]);
    for (int i = 0; i < arity; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%s", i == 0 ? "(" : ",",
                           graph->constant_names[es_atom_term(atom, i)]);
    }
    snprintf(text + length, sizeof text - (size_t)length, arity > 0 ? ")" : "");
    return bsearch(&line, said->lines, (size_t)said->count, sizeof *said->lines, compare_lines) !=
           NULL;
}

typedef struct Totals {
    int n_derived, n_wide, n_answers, n_trees, n_searched, n_ground, n_rows;
} Totals;

static void compare_closure(const Said *said, const EsKnowledgeGraph *graph, Totals *totals) {
    EsClosure *closure;
    REQUIRE_OK(es_closure_create(graph, 1000000, &closure));
    EXPECT(closure->is_complete);
    EXPECT_EQ(closure->count, said->count);
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        for (int32_t i = 0; i < es_closure_count(closure, p); i++) {
            EsWideAtom atom = es_closure_atom(closure, p, i);
            EXPECT(says(said, graph, atom.cells));
            totals->n_wide += graph->arities[p] > 2 && i >= es_closure_count_facts(closure, p);
        }
    }
    totals->n_derived += closure->count - closure->n_facts;
    es_closure_destroy(closure);
}

static EsAnswers ask(const EsKnowledgeGraph *graph, EsThreadPool *pool, const EsAtom *form,
                     int32_t closure_limit) {
    EsAnswersSettings settings = es_answers_defaults();
    EsAnswers answers;
    settings.closure_limit = closure_limit;
    settings.keeps_closure = 1;
    settings.prover.max_states = 3000;
    REQUIRE_OK(es_answers_find(graph, &settings, pool, form, &answers));
    return answers;
}

static int replay_proofs(const EsKnowledgeGraph *graph, const EsAnswers *answers) {
    EsProverSettings settings = es_prover_defaults();
    int n_trees = 0;
    settings.max_states = 3000;
    for (int32_t i = 0; i < answers->count && n_trees < 4; i++) {
        EsProofTree *tree;
        EsProverAnswer found;
        int is_too_large;
        EsAnswer answer = answers->items[i];
        if (answer.n_steps > 0) {
            if (answer.n_steps == ES_ANSWER_BEYOND) {
                REQUIRE_OK(
                    es_proof_tree_derive(answers->closure, answer.cells, &tree, &is_too_large));
            } else {
                REQUIRE_OK(es_proof_tree_find(graph, &settings, answer.cells, &tree, &found));
                EXPECT_EQ(found.depth, answer.n_steps);
            }
            REQUIRE_OK(es_proof_tree_check(tree));
            es_proof_tree_destroy(tree);
            n_trees++;
        }
    }
    return n_trees;
}

static void compare_single(const Said *said, const EsKnowledgeGraph *graph, EsThreadPool *pool,
                           const EsAtom *form, Totals *totals) {
    EsAnswers answers = ask(graph, pool, form, 1000000);
    EXPECT_EQ(answers.count, said->count);
    for (int32_t i = 0; i < answers.count; i++) {
        EXPECT(says(said, graph, answers.items[i].cells));
    }
    totals->n_answers += answers.count;
    totals->n_trees += replay_proofs(graph, &answers);
    if (es_kg_is_ground(graph, form)) {
        totals->n_ground++;
        es_answers_destroy(&answers);
        return;
    }
    // the search finds the same within its limits
    EsAnswers searched = ask(graph, pool, form, 0);
    if (searched.is_complete && answers.n_undecided == 0) {
        EXPECT_EQ(searched.count, answers.count - answers.n_deeper);
        for (int32_t i = 0; i < ES_MIN(searched.count, answers.count); i++) {
            EXPECT(es_wide_atom_compare(searched.items[i].cells, answers.items[i].cells) == 0);
        }
        totals->n_searched++;
    }
    es_answers_destroy(&answers);
    es_answers_destroy(&searched);
}

static void compare_several(const char *output, const char *module, int number,
                            const EsKnowledgeGraph *graph, const EsQuestion *question,
                            Totals *totals) {
    char head[64];
    EsJoinedAnswers answers;
    const EsClosureSettings settings = {.limit = 1000000};
    int length = snprintf(head, sizeof head, "\nrows %s %d ", module, number);
    const char *line = strstr(output, head);
    EXPECT(line != NULL);
    REQUIRE_OK(es_question_join(graph, question, &settings, &answers));
    EXPECT(answers.is_complete);
    EXPECT_EQ(answers.count, atoi(line + length));
    totals->n_rows += answers.count;
    es_joined_answers_destroy(&answers);
}

static void write_program(FILE *driver, uint32_t number, const Program *program,
                          const EsKnowledgeGraph *graph, const Asked *asked) {
    char name[32];
    snprintf(name, sizeof name, "g%u.pl", number);
    REQUIRE_OK(es_prolog_text_save(graph, temp_path(name)));
    fprintf(driver, ":- follows(g%u, [", number);
    for (int p = 0; p < N_PREDICATES; p++) {
        fprintf(driver, "%spr%d/%d", p > 0 ? "," : "", p, program->arity[p]);
    }
    fprintf(driver, "]).\n");
    for (int k = 0; k < N_QUESTIONS; k++) {
        fprintf(driver, ":- %s(g%u, %d, (%s)).\n", asked[k].is_single ? "single" : "several",
                number, k, asked[k].prologs.text);
    }
}

static void compare_program(const char *output, uint32_t number, EsKnowledgeGraph *graph,
                            EsThreadPool *pool, const Asked *asked, Totals *totals) {
    char module[16], head[64];
    snprintf(module, sizeof module, "g%u", number);
    snprintf(head, sizeof head, "\nbegin %s\n", module);
    Said all = find_said(output, head);
    compare_closure(&all, graph, totals);
    forget(&all);
    REQUIRE_OK(es_closure_decide(graph, 1000000));
    for (int k = 0; k < N_QUESTIONS; k++) {
        EsQuestion question;
        REQUIRE_OK(es_question_parse(graph, asked[k].ours.text, &question));
        EXPECT_EQ(es_question_is_single(&question), asked[k].is_single);
        if (!asked[k].is_single) {
            compare_several(output, module, k, graph, &question, totals);
            continue;
        }
        snprintf(head, sizeof head, "\nasked %s %d\n", module, k);
        Said said = find_said(output, head);
        compare_single(&said, graph, pool, question.goals[0].cells, totals);
        forget(&said);
    }
}

TEST(programs_agree_with_prolog) {
    SKIP_WITHOUT_PROLOG();
    static EsKnowledgeGraph *graphs[N_PROGRAMS];
    static Asked asked[N_PROGRAMS][N_QUESTIONS];
    static Program program;
    Totals totals = {0, 0, 0, 0, 0, 0, 0};
    EsThreadPool *pool;
    int n_negations = 0;
    FILE *driver = fopen(temp_path("driver.pl"), "w");
    fputs(program_text, driver);
    for (uint32_t i = 0; i < N_PROGRAMS; i++) {
        graphs[i] = draw_program(&program, i);
        n_negations += graphs[i]->has_negation;
        for (int k = 0; k < N_QUESTIONS; k++) {
            draw_question(&program, k, &asked[i][k]);
        }
        write_program(driver, i, &program, graphs[i], asked[i]);
    }
    fclose(driver);
    char *output = run_prolog();
    REQUIRE_OK(es_thread_pool_create(&pool, 1));
    for (uint32_t i = 0; i < N_PROGRAMS; i++) {
        compare_program(output, i, graphs[i], pool, asked[i], &totals);
        es_kg_destroy(graphs[i]);
    }
    printf("%d atoms derived, %d of them of 3 or 4 arguments, %d answers, %d proofs replayed, %d "
           "questions searched, %d ground, %d rows, %d programs with negation\n",
           totals.n_derived, totals.n_wide, totals.n_answers, totals.n_trees, totals.n_searched,
           totals.n_ground, totals.n_rows, n_negations);
    EXPECT(n_negations > N_PROGRAMS / 4);
    EXPECT(totals.n_derived > 5 * N_PROGRAMS);
    EXPECT(totals.n_wide > 2 * N_PROGRAMS);
    EXPECT(totals.n_trees > N_PROGRAMS);
    EXPECT(totals.n_searched > N_PROGRAMS);
    EXPECT(totals.n_ground >= N_PROGRAMS);
    EXPECT(totals.n_rows > 5 * N_PROGRAMS);
    es_thread_pool_destroy(pool);
    free(output);
}
