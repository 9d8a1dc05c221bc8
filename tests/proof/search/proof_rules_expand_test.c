// One expansion on graphs small enough to work out by hand.
#include "proof/search/prover.h"
#include "proof/small_graph.h"

// The successors as text: atoms separated by spaces, states by " | ".
static const char *text_of(const EsKnowledgeGraph *graph, const EsSuccessors *successors) {
    static const char *const terminals[] = {"?", "True", "False", "End"};
    static char text[4096];
    size_t length = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < successors->count; i++) {
        EsAtomSpan state = es_successor(successors, i);
        for (int32_t k = 0; k < state.count; k++) {
            EsAtom atom = state.atoms[k];
            const char *between = k > 0 ? " " : (i > 0 ? " | " : "");
            if (atom.predicate > graph->n_predicates) {
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", between,
                                           terminals[atom.predicate - graph->n_predicates]);
                continue;
            }
            // es_kg_format_atom writes variables of rules, which are negative, as V1, V2, ...
            atom.a = atom.a > graph->n_constants ? graph->n_constants - atom.a : atom.a;
            atom.b = atom.b > graph->n_constants ? graph->n_constants - atom.b : atom.b;
            char one[256];
            es_kg_format_atom(graph, &atom, one, sizeof one);
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", between, one);
        }
    }
    return text;
}

#define MAX_STATES 32

static EsSuccessors successors;
static EsProofSettings settings;

static void begin(void) {
    EsProofSettings defaults = {
        .selection = ES_GOAL_CONSTRAINED, .max_atoms = 6, .max_states = MAX_STATES};
    settings = defaults;
    if (successors.atoms == NULL) {
        REQUIRE_OK(es_successors_create(MAX_STATES, ES_PROOF_MAX_ATOMS, &successors));
    }
}

// Expand the state written as text.
static const char *expand(const EsKnowledgeGraph *graph, const char *query, const char *state) {
    EsAtom atoms[ES_PROOF_MAX_ATOMS];
    int32_t n_atoms = 0;
    SmallAtom names;
    for (const char *end; (end = scan_small_atom(state, &names)) != NULL; state = end) {
        atoms[n_atoms++] = small_atom(graph, state);
    }
    es_proof_expand(graph, &settings, (EsAtom[]){small_atom(graph, query)}, atoms, n_atoms, NULL,
                    &successors);
    return text_of(graph, &successors);
}

TEST(worked_example) {
    begin();
    settings.has_end = 1;
    EsKnowledgeGraph *graph = make_small_graph("parent(ann,bob) parent(bob,cy)",
                                               "parent(x,y) parent(y,z) -> grand(x,z)", "");
    EXPECT_TEXT(expand(graph, "grand(ann,cy)", "grand(ann,cy)"),
                "parent(ann,V1) parent(V1,cy) | End");
    EXPECT_EQ(successors.outcome, ES_PROOF_OPEN);
    EXPECT_TEXT(expand(graph, "grand(ann,cy)", "parent(ann,V1) parent(V1,cy)"), "True");
    EXPECT_EQ(successors.outcome, ES_PROOF_PROVED);
    EXPECT_TEXT(expand(graph, "grand(ann,bob)", "parent(ann,V1) parent(V1,bob)"),
                "parent(bob,bob) | End");
    EXPECT_TEXT(expand(graph, "grand(ann,bob)", "parent(bob,bob)"), "False");
    EXPECT_EQ(successors.outcome, ES_PROOF_FAILED);
    es_kg_destroy(graph);
}

TEST(terminal_states_stay) {
    begin();
    EsKnowledgeGraph *graph = make_small_graph("p(a,b)", "p(x,y) -> q(x,y)", "");
    for (int i = ES_PROOF_PROVED; i <= ES_PROOF_ENDED; i++) {
        EsAtom state = es_proof_terminal(graph, (EsProofOutcome)i);
        EsAtom query = small_atom(graph, "q(a,b)");
        es_proof_expand(graph, &settings, &query, &state, 1, NULL, &successors);
        EXPECT_EQ(successors.outcome, i);
        EXPECT_EQ(successors.count, 1);
        EXPECT(es_atom_equals(successors.atoms[0], state));
    }
    // False stands for the whole, True is dropped
    EsAtom mixed[2] = {es_proof_terminal(graph, ES_PROOF_PROVED), small_atom(graph, "q(b,a)")};
    es_proof_expand(graph, &settings, &mixed[1], mixed, 2, NULL, &successors);
    EXPECT_TEXT(text_of(graph, &successors), "p(b,a)");
    mixed[0] = es_proof_terminal(graph, ES_PROOF_FAILED);
    es_proof_expand(graph, &settings, &mixed[1], mixed, 2, NULL, &successors);
    EXPECT_TEXT(text_of(graph, &successors), "False");
    es_kg_destroy(graph);
}

// A head p(X,X) unifies with p(a,V) by V := a, with p(V,W) by making them one, not with p(a,b).
TEST(repeated_head_variable) {
    begin();
    settings.selection = ES_GOAL_LEFTMOST;
    EsKnowledgeGraph *graph =
        make_small_graph("self(a,c) self(c,c) r(c,d) r(a,d)", "self(x,y) -> p(x,x)", "p(a,b)");
    EXPECT_TEXT(expand(graph, "p(a,b)", "p(a,b)"), "False");
    EXPECT_TEXT(expand(graph, "p(a,b)", "p(b,V1) r(V1,V2)"), "self(b,V1) r(b,V2)");
    EXPECT_TEXT(expand(graph, "p(a,b)", "p(V1,b) r(V1,V2)"), "self(b,V1) r(b,V2)");
    EXPECT_TEXT(expand(graph, "p(a,b)", "p(V1,V2) r(V2,V1)"), "self(V1,V2) r(V1,V1)");
    // the rest is pruned under the binding: r(a,d) is a fact
    EXPECT_TEXT(expand(graph, "p(a,b)", "p(a,V1) r(V1,d)"), "self(a,V1)");
    es_kg_destroy(graph);
}

TEST(repeated_goal_variable) {
    begin();
    EsKnowledgeGraph *graph =
        make_small_graph("p(a,b) p(b,b) p(c,c) q(b,d)", "q(x,z) p(z,y) -> p(x,y)", "q(a,a)");
    // q(V1,a) is selected, and has neither fact nor rule
    EXPECT_TEXT(expand(graph, "q(a,a)", "p(V1,V1) q(V1,a)"), "False");
    settings.selection = ES_GOAL_LEFTMOST;
    EXPECT_TEXT(expand(graph, "q(a,a)", "p(V1,V1) q(V1,a)"),
                "q(V1,V2) p(V2,V1) q(V1,a) | q(b,a) | q(c,a)");
    es_kg_destroy(graph);
}

TEST(query_is_no_fact) {
    begin();
    EsKnowledgeGraph *graph =
        make_small_graph("p(a,b) p(b,c) q(a,b)", "q(x,y) p(y,z) -> p(x,z); p(y,x) -> q(x,y)", "");
    // as the goal itself
    EXPECT_TEXT(expand(graph, "p(a,b)", "p(a,b)"), "q(a,V1) p(V1,b)");
    EXPECT_TEXT(expand(graph, "p(b,c)", "p(a,b)"), "True");
    // as one of the facts that match, and as an atom to be pruned
    EXPECT_TEXT(expand(graph, "p(a,b)", "p(a,V1)"), "q(a,V1) p(V1,V2)");
    EXPECT_TEXT(expand(graph, "p(a,b)", "q(a,V1) p(a,V1)"), "p(V1,a) p(a,V1) | p(a,b)");
    // another fact is pruned, or costs a step where it is selected
    EXPECT_TEXT(expand(graph, "q(a,b)", "p(b,V1) p(a,b)"), "q(a,V1) p(V1,b) p(b,V2) | p(b,V1)");
    settings.selection = ES_GOAL_LEFTMOST;
    EXPECT_TEXT(expand(graph, "q(a,b)", "p(b,V1) p(a,b)"), "True");
    es_kg_destroy(graph);
}

TEST(canonical_names) {
    begin();
    EsKnowledgeGraph *graph = make_small_graph("e(a,b)", "e(x,h) f(h,y) -> f(x,y)", "f(b,a)");
    // the fresh variable comes first, the others follow in order of appearance
    EXPECT_TEXT(expand(graph, "f(b,a)", "e(V1,V2) f(V2,a) e(V3,V1)"),
                "e(V1,V2) f(V2,a) e(V3,V1) e(V4,V3)");
    settings.selection = ES_GOAL_LEFTMOST;
    EXPECT_TEXT(expand(graph, "f(b,a)", "f(V1,a) e(V2,V1)"), "e(V1,V2) f(V2,a) e(V3,V1)");
    EXPECT_TEXT(expand(graph, "f(b,a)", "e(V1,V2) f(V2,V3) e(V4,V3)"), "f(b,V1) e(V2,V1)");
    // as published: the fresh variable is mistaken for one of the state
    settings.uses_published_naming = 1;
    EXPECT_TEXT(expand(graph, "f(b,a)", "f(V1,a) e(V2,V1)"), "e(V1,V1) f(V1,a) e(V2,V1)");
    es_kg_destroy(graph);
}

TEST(selection) {
    begin();
    EsKnowledgeGraph *graph = make_small_graph("p(a,b)", "", "");
    EsAtom state[3] = {small_atom(graph, "p(V1,V2)"), small_atom(graph, "p(V1,b)"),
                       small_atom(graph, "p(a,V2)")};
    EXPECT_EQ(es_proof_select(graph, state, 3, ES_GOAL_CONSTRAINED), 1);
    EXPECT_EQ(es_proof_select(graph, state, 3, ES_GOAL_LEFTMOST), 0);
    state[2] = small_atom(graph, "p(b,a)");
    EXPECT_EQ(es_proof_select(graph, state, 3, ES_GOAL_CONSTRAINED), 2);
    es_kg_destroy(graph);
}

TEST(duplicates_are_dropped) {
    begin();
    EsKnowledgeGraph *graph = make_small_graph("p(a,b) p(a,c) p(a,d) r(b,c)",
                                               "p(x,y) -> q(x,y); p(x,z) -> q(x,y)", "q(b,a)");
    EXPECT_TEXT(expand(graph, "q(b,a)", "p(a,V1) q(b,a)"), "p(b,a) p(a,V1) | p(b,V1) p(a,V2)");
    settings.selection = ES_GOAL_LEFTMOST;
    EXPECT_TEXT(expand(graph, "q(b,a)", "p(a,V1) q(b,a)"), "q(b,a)");
    EXPECT_TEXT(expand(graph, "q(b,a)", "q(V1,V2) r(V1,V2)"),
                "p(V1,V2) r(V1,V2) | p(V1,V2) r(V1,V3)");
    es_kg_destroy(graph);
}

TEST(atom_limit) {
    begin();
    EsKnowledgeGraph *graph =
        make_small_graph("p(a,b)", "p(x,u) p(u,v) p(v,y) -> q(x,y); p(y,x) -> q(x,y)", "q(c,d)");
    settings.max_atoms = 2;
    EXPECT_TEXT(expand(graph, "q(c,d)", "q(c,d)"), "p(d,c)");
    EXPECT_EQ(successors.n_overlong, 1);
    settings.max_atoms = 3;
    EXPECT_TEXT(expand(graph, "q(c,d)", "q(c,d)"), "p(c,V1) p(V1,V2) p(V2,d) | p(d,c)");
    EXPECT_EQ(successors.n_overlong, 0);
    // no room at all: only a proof counts
    settings.max_atoms = 0;
    EXPECT_TEXT(expand(graph, "q(c,d)", "q(c,d)"), "False");
    EXPECT_EQ(successors.n_overlong, 2);
    EXPECT_TEXT(expand(graph, "q(b,a)", "q(b,a)"), "True");
    es_kg_destroy(graph);
}

// The proof is the last of all candidates: it must be seen although the list is full.
TEST(proof_before_truncation) {
    begin();
    EsKnowledgeGraph *graph = make_small_graph("p(a,b) p(a,c) p(a,d) p(a,e) r(e,f) s(a,b)",
                                               "s(x,z) s(z,y) -> p(x,y)", "t(e,f)");
    settings.max_states = 2;
    EXPECT_TEXT(expand(graph, "t(e,f)", "p(a,V1) r(V1,f)"), "True");
    EXPECT_TEXT(expand(graph, "t(e,f)", "p(a,V1) t(V1,f)"), "s(a,V1) s(V1,V2) t(V2,f) | t(b,f)");
    EXPECT_EQ(successors.n_overflow, 3);
    settings.has_end = 1;
    EXPECT_TEXT(expand(graph, "t(e,f)", "p(a,V1) t(V1,f)"), "s(a,V1) s(V1,V2) t(V2,f) | End");
    EXPECT_EQ(successors.n_overflow, 4);
    es_kg_destroy(graph);
}

TEST(visited_states_are_left_out) {
    begin();
    EsKnowledgeGraph *graph = make_small_graph("p(a,b)", "p(y,x) -> p(x,y)", "p(c,d)");
    EsAtom state = small_atom(graph, "p(c,d)"), seen = small_atom(graph, "p(d,c)");
    int32_t n_atoms = 1;
    uint64_t hash = es_proof_hash(&seen, 1);
    EsVisitedGoals visited = {&seen, &n_atoms, &hash, 1, 1};
    es_proof_expand(graph, &settings, &state, &state, 1, NULL, &successors);
    EXPECT_TEXT(text_of(graph, &successors), "p(d,c)");
    es_proof_expand(graph, &settings, &state, &state, 1, &visited, &successors);
    EXPECT_TEXT(text_of(graph, &successors), "False");
    es_kg_destroy(graph);
}

// The linear mix of the original took {p(a,b) p(c,d)} and {p(a,d) p(c,b)} for the same.
TEST(hash_separates_exchanged_terms) {
    EsAtom x[2] = {{1, 1, 2}, {1, 3, 4}}, y[2] = {{1, 1, 4}, {1, 3, 2}};
    EsAtom z[2] = {{1, 3, 4}, {1, 1, 2}};
    EXPECT(es_proof_hash(x, 2) != es_proof_hash(y, 2));
    EXPECT(es_proof_hash(x, 2) != es_proof_hash(z, 2));
}
