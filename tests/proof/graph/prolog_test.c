// Closure and single steps against SWI-Prolog, which shares no line of code with us. Skipped where
// it is not installed.
//
// Random graphs are written as Prolog files, loaded each into a module of its own by one process,
// which prints all that follows in them (by tabling), and for states reached by a walk the lists
// that one resolution step on the first goal gives.
#include "proof/graph/prolog_text.h"
#include "proof/random_graph.h"
#include "proof/search/closure.h"
#include "proof/search/prover.h"
#include "temp_folder.h"

#define N_GRAPHS   40
#define N_STATES   3 // walked per graph
#define MAX_STATES 4096

static const char program[] =
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
    REQUIRE_OK(es_prover_find_depth(prover, query, &answer));
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
        es_proof_expand(graph, &settings, walked.query, walked.atoms, 1, NULL, successors);
    }
    for (int n = throw_dice(dice, 4); n > 0; n--) {
        es_proof_expand(graph, &settings, walked.query, walked.atoms, walked.n_atoms, NULL,
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

static void print_atom(FILE *file, const EsKnowledgeGraph *graph, EsAtom atom) {
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
    print_atom(file, graph, walked->query);
    fprintf(file, ", [");
    for (int32_t i = 0; i < walked->n_atoms; i++) {
        fputs(i > 0 ? "," : "", file);
        print_atom(file, graph, walked->atoms[i]);
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
        if (!es_proof_holds(graph, atom, walked->query)) {
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
    es_proof_expand(one->graph, &settings, walked->query, walked->atoms, walked->n_atoms, NULL,
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

static int says(const char *output, const char *module, const EsKnowledgeGraph *graph,
                EsAtom atom) {
    char line[256];
    snprintf(line, sizeof line, "\n%s %s(%s,%s)\n", module, graph->predicate_names[atom.predicate],
             graph->constant_names[atom.a], graph->constant_names[atom.b]);
    return strstr(output, line) != NULL;
}

static int compare_closure(const char *output, const char *module, const EsKnowledgeGraph *graph) {
    EsClosure *closure;
    REQUIRE_OK(es_closure_create(graph, 1000, &closure));
    const EsQuerySplit *all = &graph->splits[ES_KG_SPLIT_TEST];
    for (int32_t i = 0; i < all->count; i++) {
        EXPECT_EQ(es_closure_has(closure, all->atoms[i]),
                  says(output, module, graph, all->atoms[i]));
    }
    int n_derived = closure->count - closure->n_facts;
    es_closure_destroy(closure);
    return n_derived;
}

// A fact that is left out still follows if and only if the prover proves it without itself.
static int compare_proof(const char *output, const char *module, const Case *one) {
    int32_t depth = find_depth(one->graph, one->left_out);
    EXPECT_EQ(depth > 0, says(output, module, one->graph, one->left_out));
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

static char *run_prolog(void) {
    char command[512];
    size_t capacity = 4u << 20, used = 1;
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

TEST(closure_and_steps_agree_with_prolog) {
    if (system("command -v swipl > /dev/null 2>&1") != 0) {
        SKIP("swipl is not installed (Debian package swi-prolog-nox)");
    }
    static Case cases[N_GRAPHS];
    EsSuccessors successors;
    int n_derived = 0, n_lists = 0, n_proved = 0;
    REQUIRE_OK(es_successors_create(MAX_STATES, ES_PROOF_MAX_ATOMS, &successors));
    FILE *driver = fopen(temp_path("driver.pl"), "w");
    fputs(program, driver);
    for (uint32_t i = 0; i < N_GRAPHS; i++) {
        write_case(driver, i, &cases[i], &successors);
    }
    fclose(driver);
    char *output = run_prolog();
    for (int i = 0; i < N_GRAPHS; i++) {
        char with[16], without[16];
        snprintf(with, sizeof with, "g%d", i);
        snprintf(without, sizeof without, "w%d", i);
        n_derived += compare_closure(output, with, cases[i].graph);
        compare_closure(output, without, cases[i].without);
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
