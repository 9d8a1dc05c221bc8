// One step of backward chaining over a knowledge graph: selects a goal, unifies it with rules
// and facts, and lists the states that follow. Written once for CPU and CUDA.
//
// A state is its goals, a list of atoms still to be proved, left to right, in cells: one for an
// atom of at most two arguments, two for one of three or four (knowledge_graph.h), so that graphs
// of narrow predicates have narrow states. Counts and limits of atoms are of cells. A term above
// the graph's n_constants is a variable; the variables of a state are numbered by first occurrence
// (left to right, a before b) from n_constants + 1, so that states equal up to renaming are equal,
// byte for byte. The list of successors is exact: a proof is noticed before any limit, and
// candidates that a limit drops are counted. A test (x != y) is a goal until its terms are known:
// it is never selected, goes when it holds, and takes the whole state with it when it does not.
// Nothing is allocated; the caller gives the buffers (es_successors_create in prover.h makes some).
//
//     es_proof_expand(graph, &settings, &query, &query, 1, NULL, &successors);
//     for (int32_t i = 0; i < successors.count; i++) {
//         EsAtomSpan state = es_successor(&successors, i);
//     }
//
// A is the most cells of a state, S the most successors; C and P as in knowledge_graph.h.
#ifndef ES_PROOF_PROOF_RULES_H
#define ES_PROOF_PROOF_RULES_H

#include "proof/graph/knowledge_graph.h"

// of a state; variables are then at most C + 2 * ES_PROOF_MAX_ATOMS
#define ES_PROOF_MAX_ATOMS 20

typedef enum EsGoalSelection {
    ES_GOAL_CONSTRAINED, // fewest free arguments, ties leftmost
    ES_GOAL_LEFTMOST
} EsGoalSelection;

typedef struct EsProofSettings {
    EsGoalSelection selection;
    int32_t max_atoms;         // A, 0 to ES_PROOF_MAX_ATOMS; with 0 the outcome alone is of use
    int32_t max_states;        // S, at least 2; the action End, if any, is one of them
    int has_end;               // give-up as last successor of an open state
    int uses_published_naming; // tests alone: fresh variables are C+1, C+2, ... even where the
                               // state has these, which loses proofs, as in the published depth
                               // files
} EsProofSettings;

typedef enum EsProofOutcome {
    ES_PROOF_OPEN,   // there are successors to choose from
    ES_PROOF_PROVED, // the only successor is True
    ES_PROOF_FAILED, // the only successor is False
    ES_PROOF_ENDED   // the state was End already
} EsProofOutcome;

// Successors of an expansion; the arrays are the caller's.
typedef struct EsSuccessors {
    EsAtom *atoms;      // all successors, one after the other                ((S + 1) max(A, 1))
    int32_t *start;     // successor i is atoms[start[i]] to atoms[start[i+1] - 1]        (S + 1)
    uint64_t *hash;     // es_proof_hash of each                                              (S)
    int32_t *place;     // of each in `table`                                                 (S)
    int32_t *table;     // finds duplicates; earlier contents are ignored           (table_size)
    int32_t table_size; // a power of two, at least 2 S
    // filled by es_proof_expand
    EsProofOutcome outcome;
    int32_t count;      // at least 1
    int32_t n_overlong; // candidates dropped because they had more than A atoms
    int32_t n_overflow; // candidates dropped because there were S already
} EsSuccessors;

// Goals of states already visited, which an expansion leaves out.
typedef struct EsVisitedGoals {
    const EsAtom *atoms;    // state i begins at atoms[i * stride]
    const int32_t *n_atoms; // of each
    const uint64_t *hash;   // es_proof_hash of each
    int32_t count, stride;
} EsVisitedGoals;

// as in knowledge_graph.h
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// --- atoms and states ---

// Atoms that end an episode have predicates above P and no terms: the states True, False, End.
static inline ES_HOST_DEVICE EsAtom es_proof_terminal(const EsKnowledgeGraph *graph,
                                                      EsProofOutcome outcome) {
    EsAtom atom = {graph->n_predicates + (int32_t)outcome, 0, 0};
    return atom;
}

static inline ES_HOST_DEVICE int es_atom_equals(EsAtom x, EsAtom y) {
    return x.predicate == y.predicate && x.a == y.a && x.b == y.b;
}

// Successor i of an expansion.
static inline ES_HOST_DEVICE EsAtomSpan es_successor(const EsSuccessors *successors, int32_t i) {
    EsAtomSpan span = {successors->atoms + successors->start[i],
                       successors->start[i + 1] - successors->start[i]};
    return span;
}

// Two multiply-xorshift rounds per atom, so that neither order nor exchanged terms cancel out.
static inline ES_HOST_DEVICE uint64_t es_proof_hash_atom(uint64_t hash, EsAtom atom) {
    hash ^= ((uint64_t)(uint32_t)atom.a << 32) | (uint32_t)atom.b;
    hash *= 0x9E3779B97F4A7C15u;
    hash ^= (hash >> 29) + (uint64_t)(uint32_t)atom.predicate;
    hash *= 0xBF58476D1CE4E5B9u;
    return hash ^ (hash >> 32);
}

static inline ES_HOST_DEVICE uint64_t es_proof_hash(const EsAtom *atoms, int32_t n_atoms) {
    uint64_t hash = 0;
    for (int32_t i = 0; i < n_atoms; i++) {
        hash = es_proof_hash_atom(hash, atoms[i]);
    }
    return hash;
}

static inline ES_HOST_DEVICE int es_goals_equal(const EsAtom *x, const EsAtom *y, int32_t n_atoms) {
    for (int32_t i = 0; i < n_atoms; i++) {
        if (!es_atom_equals(x[i], y[i])) {
            return 0;
        }
    }
    return 1;
}

// The functions below take is_wide, a literal: 1 for graphs with predicates of over two arguments.
// With 0 the compiler leaves out all that these need, which would be a fifth of the instructions.
#define ES_PROOF_INLINE static inline __attribute__((always_inline))

ES_PROOF_INLINE ES_HOST_DEVICE int es_proof_cells(const EsKnowledgeGraph *graph, int32_t predicate,
                                                  int is_wide) {
    return is_wide ? es_kg_cells(graph, predicate) : 1;
}

// Returns whether an atom has no free argument.
ES_PROOF_INLINE ES_HOST_DEVICE int es_proof_is_ground_as(const EsKnowledgeGraph *graph,
                                                         const EsAtom *atom, int is_wide) {
    int32_t n = graph->n_constants;
    return atom->a <= n && atom->b <= n &&
           (es_proof_cells(graph, atom->predicate, is_wide) == 1 ||
            (atom[1].a <= n && atom[1].b <= n));
}

static inline ES_HOST_DEVICE int es_proof_is_ground(const EsKnowledgeGraph *graph,
                                                    const EsAtom *atom) {
    return es_proof_is_ground_as(graph, atom, graph->has_wide);
}

// Returns whether pruning takes this atom away: a ground fact other than the query.
ES_PROOF_INLINE ES_HOST_DEVICE int es_proof_holds_as(const EsKnowledgeGraph *graph,
                                                     const EsAtom *atom, const EsAtom *query,
                                                     int is_wide) {
    if (es_proof_cells(graph, atom->predicate, is_wide) == 2) {
        return es_proof_is_ground_as(graph, atom, 1) && es_kg_is_fact(graph, atom) &&
               !(query->predicate == atom->predicate && es_wide_atom_equals(atom, query));
    }
    return atom->a <= graph->n_constants && atom->b <= graph->n_constants &&
           es_kg_has_fact(graph, *atom) && !es_atom_equals(*atom, *query);
}

static inline ES_HOST_DEVICE int es_proof_holds(const EsKnowledgeGraph *graph, const EsAtom *atom,
                                                const EsAtom *query) {
    return es_proof_holds_as(graph, atom, query, graph->has_wide);
}

// Index of the first cell of the goal to resolve next; tests wait for others to bind their
// variables.
ES_PROOF_INLINE ES_HOST_DEVICE int32_t es_proof_select_as(const EsKnowledgeGraph *graph,
                                                          const EsAtom *state, int32_t n_atoms,
                                                          EsGoalSelection selection, int is_wide) {
    int32_t best = 0, fewest = ES_KG_MAX_ARITY + 1;
    const unsigned char *test_of = graph->has_tests ? graph->test_of : NULL;
    for (int32_t i = 0, n_cells; i < n_atoms && fewest > 0; i += n_cells) {
        n_cells = es_proof_cells(graph, state[i].predicate, is_wide);
        if (test_of != NULL && test_of[state[i].predicate] != ES_KG_NO_TEST) {
            continue;
        }
        if (selection == ES_GOAL_LEFTMOST) {
            return i;
        }
        int32_t n_free = (state[i].a > graph->n_constants) + (state[i].b > graph->n_constants);
        if (n_cells == 2) {
            n_free += (state[i + 1].a > graph->n_constants) + (state[i + 1].b > graph->n_constants);
        }
        if (n_free < fewest) {
            best = i;
            fewest = n_free;
        }
    }
    return best;
}

static inline ES_HOST_DEVICE int32_t es_proof_select(const EsKnowledgeGraph *graph,
                                                     const EsAtom *state, int32_t n_atoms,
                                                     EsGoalSelection selection) {
    return es_proof_select_as(graph, state, n_atoms, selection, graph->has_wide);
}

// --- unification ---

// Bindings of variables of the state by unification: one a term of the goal at most, because only a
// constant or a repeated variable of the head binds any.
typedef struct EsGoalBinding {
    int32_t count;
    int32_t variable[ES_KG_MAX_ARITY];
    int32_t value[ES_KG_MAX_ARITY]; // never one of the variables
} EsGoalBinding;

static inline ES_HOST_DEVICE int32_t es_binding_apply(const EsGoalBinding *binding, int32_t term) {
    for (int32_t i = 0; i < binding->count; i++) {
        if (term == binding->variable[i]) {
            return binding->value[i];
        }
    }
    return term;
}

// Make two terms one. Returns 0 when they are different constants.
static inline ES_HOST_DEVICE int es_binding_unify(const EsKnowledgeGraph *graph,
                                                  EsGoalBinding *binding, int32_t x, int32_t y) {
    x = es_binding_apply(binding, x);
    y = es_binding_apply(binding, y);
    if (x == y) {
        return 1;
    }
    int is_x_free = x > graph->n_constants;
    if (!is_x_free && y <= graph->n_constants) {
        return 0;
    }
    int32_t variable = is_x_free ? x : y, value = is_x_free ? y : x;
    for (int32_t i = 0; i < binding->count; i++) {
        binding->value[i] = binding->value[i] == variable ? value : binding->value[i];
    }
    binding->variable[binding->count] = variable;
    binding->value[binding->count++] = value;
    return 1;
}

// Unify one term of a rule's head with that of a goal.
static inline ES_HOST_DEVICE int es_proof_unify_term(const EsKnowledgeGraph *graph, int32_t head,
                                                     int32_t goal,
                                                     int32_t terms[ES_HORN_MAX_VARIABLES],
                                                     EsGoalBinding *binding) {
    if (head >= 0) {
        return es_binding_unify(graph, binding, head, goal);
    }
    if (terms[-1 - head] == 0) {
        terms[-1 - head] = goal;
        return 1;
    }
    return es_binding_unify(graph, binding, terms[-1 - head], goal);
}

// Unify a rule's head with a goal: `terms` receives the goal's term for each variable of the rule
// (index -1 - variable) and 0 for those that the head has not. A head p(X,X) makes the goal's terms
// one, a constant takes the place of a variable. Returns 0 when they do not unify.
ES_PROOF_INLINE ES_HOST_DEVICE int
es_proof_unify_head_as(const EsKnowledgeGraph *graph, const EsHornRule *rule, const EsAtom *goal,
                       int32_t terms[ES_HORN_MAX_VARIABLES], EsGoalBinding *binding, int is_wide) {
    binding->count = 0;
    for (int i = 0; i < rule->n_variables; i++) {
        terms[i] = 0;
    }
    // two variables take whatever the goal has, which is by far the most frequent case
    int n_cells = es_proof_cells(graph, goal->predicate, is_wide);
    if (rule->head.a < 0 && rule->head.b < 0 && rule->head.a != rule->head.b && n_cells == 1) {
        terms[-1 - rule->head.a] = goal->a;
        terms[-1 - rule->head.b] = goal->b;
        return 1;
    }
    for (int i = 0; i < n_cells; i++) {
        const EsAtom *head = &rule->head_cells[i];
        if (!es_proof_unify_term(graph, head->a, goal[i].a, terms, binding) ||
            !es_proof_unify_term(graph, head->b, goal[i].b, terms, binding)) {
            return 0;
        }
    }
    return 1;
}

static inline ES_HOST_DEVICE int es_proof_unify_head(const EsKnowledgeGraph *graph,
                                                     const EsHornRule *rule, const EsAtom *goal,
                                                     int32_t terms[ES_HORN_MAX_VARIABLES],
                                                     EsGoalBinding *binding) {
    return es_proof_unify_head_as(graph, rule, goal, terms, binding, graph->has_wide);
}

// --- candidates ---

// first number of a rule's fresh variables, behind all that a state can have
#define ES_PROOF_FIRST_FRESH (2 * ES_PROOF_MAX_ATOMS)
#define ES_PROOF_MAX_NAMES   (ES_PROOF_FIRST_FRESH + ES_HORN_MAX_VARIABLES)

// New numbers for variables, given at first sight.
typedef struct EsVariableNames {
    uint64_t is_named; // one bit per old number
    int32_t count;
    uint8_t name[ES_PROOF_MAX_NAMES]; // from 1, where is_named
} EsVariableNames;

// How a goal's facts are found.
typedef enum EsFactKind {
    ES_FACTS_NONE,   // a ground goal that does not hold
    ES_FACTS_GROUND, // a ground goal that holds: one fact, itself
    ES_FACTS_NARROW, // `facts`
    ES_FACTS_WIDE    // `wide`
} EsFactKind;

// A state about to be resolved: its goal, the others, and what the goal can be resolved with.
// Candidate c of es_resolvent_candidate is rule c of the goal's predicate, and behind the rules
// come the facts in their order.
typedef struct EsResolvent {
    const EsKnowledgeGraph *graph;
    const EsProofSettings *settings;
    const EsAtom *query;
    EsAtom goal[ES_ATOM_MAX_CELLS];
    EsAtom *rest; // the other goals, without ground facts                      (ES_PROOF_MAX_ATOMS)
    EsAtom *marked; // the same for facts, renamed; terms below 0 are the goal's: as many
    int32_t n_rest;
    const EsHornRule *rules;
    int32_t n_rules;
    EsFactKind fact_kind;
    int32_t n_facts;
    EsAtomSpan facts;
    EsWideSpan wide;
} EsResolvent;

// A candidate being written.
typedef struct EsCandidate {
    EsAtom *atoms;   // room for A
    int32_t n_atoms; // A + 1: too many
    int is_refuted;  // one of its tests does not hold
    uint64_t hash;
    EsVariableNames names;
} EsCandidate;

static inline ES_HOST_DEVICE int32_t es_candidate_name(const EsResolvent *resolvent,
                                                       EsVariableNames *names, int32_t term) {
    int32_t n_constants = resolvent->graph->n_constants;
    if (term <= n_constants) {
        return term;
    }
    int32_t old = term - n_constants - 1;
    if (old < ES_PROOF_FIRST_FRESH && resolvent->settings->uses_published_naming) {
        return term;
    }
    if ((names->is_named >> old & 1u) == 0) {
        names->is_named |= (uint64_t)1 << old;
        names->name[old] = (uint8_t)++names->count;
    }
    return n_constants + names->name[old];
}

static inline ES_HOST_DEVICE void es_candidate_begin(EsCandidate *candidate, EsAtom *atoms) {
    candidate->atoms = atoms;
    candidate->n_atoms = 0;
    candidate->is_refuted = 0;
    candidate->hash = 0;
    candidate->names.is_named = 0;
    candidate->names.count = 0;
}

// Adds a cell. Returns 0 when the candidate is too long, which is final.
static inline ES_HOST_DEVICE int es_candidate_append(const EsResolvent *resolvent,
                                                     EsCandidate *candidate, EsAtom atom) {
    if (candidate->n_atoms == resolvent->settings->max_atoms) {
        candidate->n_atoms++;
        return 0;
    }
    candidate->atoms[candidate->n_atoms++] = atom;
    candidate->hash = es_proof_hash_atom(candidate->hash, atom);
    return 1;
}

// Adds an atom of one or two cells.
ES_PROOF_INLINE ES_HOST_DEVICE int es_candidate_append_atom(const EsResolvent *resolvent,
                                                            EsCandidate *candidate,
                                                            const EsAtom *atom, int is_wide) {
    return es_candidate_append(resolvent, candidate, atom[0]) &&
           (es_proof_cells(resolvent->graph, atom->predicate, is_wide) == 1 ||
            es_candidate_append(resolvent, candidate, atom[1]));
}

// --- rules ---

// Add a test, unless its terms say already that it holds; a false one ends the candidate, and then
// 0 is returned. A variable equals itself, whatever it will be.
static inline ES_HOST_DEVICE int es_candidate_add_test(const EsResolvent *resolvent,
                                                       EsCandidate *candidate, const EsAtom *atom,
                                                       int is_wide) {
    const EsKnowledgeGraph *graph = resolvent->graph;
    int is_known = es_proof_is_ground_as(graph, atom, is_wide);
    int test = graph->test_of[atom->predicate];
    int is_false = is_known ? !es_kg_test_holds(graph, atom)
                            : atom->a == atom->b && (test == ES_KG_NOT_EQUAL ||
                                                     test == ES_KG_LESS || test == ES_KG_GREATER);
    if (!is_false) {
        return is_known || es_candidate_append_atom(resolvent, candidate, atom, is_wide);
    }
    candidate->is_refuted = 1;
    return 0;
}

// Add an atom whose terms have their names, unless it holds. Returns 0 when the candidate has
// become too long or a test is false.
ES_PROOF_INLINE ES_HOST_DEVICE int es_candidate_add_named(const EsResolvent *resolvent,
                                                          EsCandidate *candidate,
                                                          const EsAtom *atom, int is_wide) {
    if (es_kg_is_test(resolvent->graph, atom->predicate)) {
        return es_candidate_add_test(resolvent, candidate, atom, is_wide);
    }
    return es_proof_holds_as(resolvent->graph, atom, resolvent->query, is_wide) ||
           es_candidate_append_atom(resolvent, candidate, atom, is_wide);
}

// The same for an atom of a rule's body or of the rest, under the substitution; its terms are
// overwritten.
ES_PROOF_INLINE ES_HOST_DEVICE int es_candidate_add(const EsResolvent *resolvent,
                                                    EsCandidate *candidate, EsAtom *atom,
                                                    const EsGoalBinding *binding, int is_wide) {
    int n_cells = es_proof_cells(resolvent->graph, atom->predicate, is_wide);
    for (int i = 0; i < n_cells; i++) {
        if (binding->count > 0) {
            atom[i].a = es_binding_apply(binding, atom[i].a);
            atom[i].b = es_binding_apply(binding, atom[i].b);
        }
        atom[i].a = es_candidate_name(resolvent, &candidate->names, atom[i].a);
        atom[i].b = es_candidate_name(resolvent, &candidate->names, atom[i].b);
    }
    return es_candidate_add_named(resolvent, candidate, atom, is_wide);
}

// Adds the rest behind the atoms of the candidate. Ground facts are out of it already, so that
// without a binding no atom needs to be looked up.
ES_PROOF_INLINE ES_HOST_DEVICE void es_candidate_add_rest(const EsResolvent *resolvent,
                                                          EsCandidate *candidate,
                                                          const EsGoalBinding *binding,
                                                          int is_wide) {
    const EsKnowledgeGraph *graph = resolvent->graph;
    int goes_on = candidate->n_atoms <= resolvent->settings->max_atoms && !candidate->is_refuted;
    for (int32_t i = 0; i < resolvent->n_rest && goes_on && binding->count == 0; i++) {
        EsAtom cell = resolvent->rest[i];
        cell.a = es_candidate_name(resolvent, &candidate->names, cell.a);
        cell.b = es_candidate_name(resolvent, &candidate->names, cell.b);
        goes_on = es_candidate_append(resolvent, candidate, cell);
    }
    for (int32_t i = 0; i < resolvent->n_rest && goes_on && binding->count > 0;) {
        EsAtom atom[ES_ATOM_MAX_CELLS];
        int n_cells = es_proof_cells(graph, resolvent->rest[i].predicate, is_wide);
        atom[0] = resolvent->rest[i];
        if (n_cells == 2) {
            atom[1] = resolvent->rest[i + 1];
        }
        goes_on = es_candidate_add(resolvent, candidate, atom, binding, is_wide);
        i += n_cells;
    }
}

// The term that stands for a rule's term in a candidate.
static inline ES_HOST_DEVICE int32_t es_proof_instance(const EsKnowledgeGraph *graph,
                                                       const int32_t *terms, int32_t of_rule) {
    if (of_rule >= 0) {
        return of_rule;
    }
    int32_t term = terms[-1 - of_rule];
    return term != 0 ? term : graph->n_constants + ES_PROOF_FIRST_FRESH - of_rule;
}

// The candidate body + rest of a rule of the goal's predicate, into `atoms`. Returns 0 where its
// head does not unify.
ES_PROOF_INLINE ES_HOST_DEVICE int es_resolvent_apply_rule(const EsResolvent *resolvent, int32_t r,
                                                           EsAtom *atoms, EsCandidate *candidate,
                                                           int is_wide) {
    int32_t terms[ES_HORN_MAX_VARIABLES];
    const EsKnowledgeGraph *graph = resolvent->graph;
    const EsHornRule *rule = &resolvent->rules[r];
    EsGoalBinding binding;
    if (!es_proof_unify_head_as(graph, rule, resolvent->goal, terms, &binding, is_wide)) {
        return 0;
    }
    es_candidate_begin(candidate, atoms);
    for (int i = 0, goes_on = 1; i < rule->n_body && goes_on;) {
        EsAtom atom[ES_ATOM_MAX_CELLS];
        int n_cells = es_proof_cells(graph, rule->body[i].predicate, is_wide);
        for (int k = 0; k < n_cells; k++, i++) {
            atom[k] = rule->body[i];
            atom[k].a = es_proof_instance(graph, terms, atom[k].a);
            atom[k].b = es_proof_instance(graph, terms, atom[k].b);
        }
        goes_on = es_candidate_add(resolvent, candidate, atom, &binding, is_wide);
    }
    es_candidate_add_rest(resolvent, candidate, &binding, is_wide);
    return 1;
}

// --- facts ---

// Facts that may unify with a goal of at most two arguments, one of them free, in sorted order.
static inline ES_HOST_DEVICE EsAtomSpan es_proof_matching_facts(const EsKnowledgeGraph *graph,
                                                                EsAtom goal) {
    if (goal.a <= graph->n_constants) {
        return es_kg_facts_with_a(graph, goal.predicate, goal.a);
    }
    return goal.b <= graph->n_constants ? es_kg_facts_with_b(graph, goal.predicate, goal.b)
                                        : es_kg_facts_of(graph, goal.predicate);
}

// Terms that a fact will fill in: -1 its first, -2 its second, ...
ES_PROOF_INLINE ES_HOST_DEVICE int32_t es_resolvent_mark(const EsResolvent *resolvent,
                                                         EsVariableNames *names, int n_cells,
                                                         int32_t term) {
    for (int i = 0; i < n_cells && term > resolvent->graph->n_constants; i++) {
        if (term == resolvent->goal[i].a) {
            return -1 - 2 * i;
        }
        if (term == resolvent->goal[i].b) {
            return -2 - 2 * i;
        }
    }
    return es_candidate_name(resolvent, names, term);
}

// Renames the rest and marks what a fact will fill in, for the facts that were found.
//
// Only ground atoms are pruned, so that the variables which stay, and their order, are the same for
// every fact: the rest is renamed once, and each fact fills in its constants.
ES_PROOF_INLINE ES_HOST_DEVICE void es_resolvent_mark_rest(const EsResolvent *resolvent) {
    int n_cells = resolvent->fact_kind == ES_FACTS_WIDE ? 2 : 1;
    EsVariableNames names;
    names.is_named = 0;
    names.count = 0;
    for (int32_t i = 0; i < resolvent->n_rest && resolvent->fact_kind >= ES_FACTS_NARROW; i++) {
        EsAtom atom = resolvent->rest[i];
        atom.a = es_resolvent_mark(resolvent, &names, n_cells, atom.a);
        atom.b = es_resolvent_mark(resolvent, &names, n_cells, atom.b);
        resolvent->marked[i] = atom;
    }
}

// The term that a fact gives for a marked one.
ES_PROOF_INLINE ES_HOST_DEVICE int32_t es_proof_filled(const EsAtom *fact, int32_t marked) {
    if (marked >= 0) {
        return marked;
    }
    return marked == -1 ? fact->a : marked == -2 ? fact->b : es_atom_term(fact, -1 - marked);
}

// The rest under the substitution of one fact, from the marked rest.
ES_PROOF_INLINE ES_HOST_DEVICE void es_candidate_add_marked(const EsResolvent *resolvent,
                                                            EsCandidate *candidate,
                                                            const EsAtom *fact, int is_wide) {
    const EsAtom *marked = resolvent->marked;
    int goes_on = 1;
    for (int32_t i = 0; i < resolvent->n_rest && goes_on;) {
        EsAtom atom[ES_ATOM_MAX_CELLS];
        int n_cells = es_proof_cells(resolvent->graph, marked[i].predicate, is_wide),
            is_changed = 0;
        for (int k = 0; k < n_cells; k++, i++) {
            atom[k] = marked[i];
            if (atom[k].a < 0 || atom[k].b < 0) {
                atom[k].a = es_proof_filled(fact, atom[k].a);
                atom[k].b = es_proof_filled(fact, atom[k].b);
                is_changed = 1;
            }
        }
        goes_on = is_changed ? es_candidate_add_named(resolvent, candidate, atom, is_wide)
                             : es_candidate_append_atom(resolvent, candidate, atom, is_wide);
    }
}

// Returns whether a fact has the constants of a goal of three or four arguments, and one term where
// that has one variable twice.
static inline ES_HOST_DEVICE int es_proof_matches(const EsKnowledgeGraph *graph, const EsAtom *goal,
                                                  const EsAtom *fact) {
    for (int i = 0; i < graph->arities[goal->predicate]; i++) {
        int32_t term = es_atom_term(goal, i), wanted = term;
        for (int k = 0; k < i && term > graph->n_constants; k++) {
            wanted = es_atom_term(goal, k) == term ? es_atom_term(fact, k) : wanted;
        }
        if (wanted <= graph->n_constants && wanted != es_atom_term(fact, i)) {
            return 0;
        }
    }
    return 1;
}

// Finds the facts that may unify with the goal.
ES_PROOF_INLINE ES_HOST_DEVICE void es_resolvent_find_facts(EsResolvent *resolvent, int is_wide) {
    const EsKnowledgeGraph *graph = resolvent->graph;
    const EsAtom *goal = resolvent->goal;
    if (es_proof_is_ground_as(graph, goal, is_wide)) {
        resolvent->n_facts = es_proof_holds_as(graph, goal, resolvent->query, is_wide);
        resolvent->fact_kind = resolvent->n_facts > 0 ? ES_FACTS_GROUND : ES_FACTS_NONE;
    } else if (es_proof_cells(graph, goal->predicate, is_wide) == 2) {
        resolvent->fact_kind = ES_FACTS_WIDE;
        resolvent->wide = es_kg_wide_facts(graph, goal);
        resolvent->n_facts = resolvent->wide.end - resolvent->wide.begin;
    } else {
        resolvent->fact_kind = ES_FACTS_NARROW;
        resolvent->facts = es_proof_matching_facts(graph, *goal);
        resolvent->n_facts = resolvent->facts.count;
    }
}

// The candidate rest under fact i. Returns 0 where the fact does not unify or is the query.
ES_PROOF_INLINE ES_HOST_DEVICE int es_resolvent_apply_fact(const EsResolvent *resolvent, int32_t i,
                                                           EsAtom *atoms, EsCandidate *candidate,
                                                           int is_wide) {
    const EsKnowledgeGraph *graph = resolvent->graph;
    const EsAtom *goal = resolvent->goal, *query = resolvent->query, *fact;
    if (resolvent->fact_kind == ES_FACTS_GROUND) {
        EsGoalBinding none;
        none.count = 0;
        es_candidate_begin(candidate, atoms);
        es_candidate_add_rest(resolvent, candidate, &none, is_wide);
        return 1;
    }
    if (is_wide && resolvent->fact_kind == ES_FACTS_WIDE) {
        int32_t number = resolvent->wide.order[resolvent->wide.begin + i];
        fact = graph->wide.atoms + 2 * (size_t)number;
        if (!es_proof_matches(graph, goal, fact) ||
            (query->predicate == goal->predicate && es_wide_atom_equals(fact, query))) {
            return 0;
        }
    } else {
        fact = &resolvent->facts.atoms[i];
        if (es_atom_equals(*fact, *query) || (goal->a == goal->b && fact->a != fact->b)) {
            return 0;
        }
    }
    es_candidate_begin(candidate, atoms);
    es_candidate_add_marked(resolvent, candidate, fact, is_wide);
    return 1;
}

// --- a state to resolve ---

// Everything but the goal and the other goals; `memory` is for those (2 ES_PROOF_MAX_ATOMS).
ES_PROOF_INLINE ES_HOST_DEVICE void es_resolvent_begin(EsResolvent *resolvent,
                                                       const EsKnowledgeGraph *graph,
                                                       const EsProofSettings *settings,
                                                       const EsAtom *query, EsAtom *memory) {
    resolvent->graph = graph;
    resolvent->settings = settings;
    resolvent->query = query;
    resolvent->rest = memory;
    resolvent->marked = memory + ES_PROOF_MAX_ATOMS;
    resolvent->n_rest = 0;
}

// Takes the selected goal of a state, and finds its rules.
ES_PROOF_INLINE ES_HOST_DEVICE void es_resolvent_take_goal(EsResolvent *resolvent,
                                                           const EsAtom *goal, int is_wide) {
    resolvent->goal[0] = goal[0];
    if (es_proof_cells(resolvent->graph, goal->predicate, is_wide) == 2) {
        resolvent->goal[1] = goal[1];
    }
    resolvent->rules = es_kg_rules_of(resolvent->graph, goal->predicate, &resolvent->n_rules);
}

// The state of n_atoms cells, none of them terminal, without its facts (es_resolvent_find_facts).
ES_PROOF_INLINE ES_HOST_DEVICE void
es_resolvent_take_state(EsResolvent *resolvent, const EsAtom *state, int32_t n_atoms, int is_wide) {
    const EsKnowledgeGraph *graph = resolvent->graph;
    int32_t selected =
        es_proof_select_as(graph, state, n_atoms, resolvent->settings->selection, is_wide);
    es_resolvent_take_goal(resolvent, state + selected, is_wide);
    for (int32_t i = 0, n_cells; i < n_atoms; i += n_cells) {
        n_cells = es_proof_cells(graph, state[i].predicate, is_wide);
        int is_rest =
            i != selected && !es_proof_holds_as(graph, &state[i], resolvent->query, is_wide);
        for (int32_t k = 0; k < n_cells && is_rest; k++) {
            resolvent->rest[resolvent->n_rest++] = state[i + k];
        }
    }
}

// --- the list of successors ---

// An expansion at work.
typedef struct EsExpansion {
    EsResolvent resolvent;
    EsCandidate candidate;
    const EsVisitedGoals *visited; // may be NULL
    EsSuccessors *out;
} EsExpansion;

// The place of the next candidate: behind the last successor.
static inline ES_HOST_DEVICE EsAtom *es_expansion_end(const EsExpansion *expansion) {
    return expansion->out->atoms + expansion->out->start[expansion->out->count];
}

static inline ES_HOST_DEVICE int es_candidate_was_visited(const EsCandidate *candidate,
                                                          const EsVisitedGoals *visited) {
    for (int32_t i = 0; visited != NULL && i < visited->count; i++) {
        if (visited->hash[i] == candidate->hash && visited->n_atoms[i] == candidate->n_atoms &&
            es_goals_equal(visited->atoms + (size_t)i * (size_t)visited->stride, candidate->atoms,
                           candidate->n_atoms)) {
            return 1;
        }
    }
    return 0;
}

// The place of an equal successor in the table, or the free place where the candidate belongs. A
// place is in use when the successor it names says so too; old contents are therefore harmless.
static inline ES_HOST_DEVICE int32_t es_expansion_find_place(const EsExpansion *expansion,
                                                             int *is_duplicate) {
    const EsSuccessors *out = expansion->out;
    const EsCandidate *candidate = &expansion->candidate;
    int32_t place = (int32_t)(candidate->hash & (uint64_t)(out->table_size - 1));
    for (;; place = (place + 1) & (out->table_size - 1)) {
        int32_t i = out->table[place];
        if (i < 0 || i >= out->count || out->place[i] != place) {
            *is_duplicate = 0;
            return place;
        }
        if (out->hash[i] == candidate->hash &&
            out->start[i + 1] - out->start[i] == candidate->n_atoms &&
            es_goals_equal(out->atoms + out->start[i], candidate->atoms, candidate->n_atoms)) {
            *is_duplicate = 1;
            return place;
        }
    }
}

// Keep the candidate if it is new. Returns 0 when it is the empty list: a proof, which ends the
// expansion.
static inline ES_HOST_DEVICE int es_expansion_end_candidate(EsExpansion *expansion) {
    EsSuccessors *out = expansion->out;
    const EsProofSettings *settings = expansion->resolvent.settings;
    const EsCandidate *candidate = &expansion->candidate;
    if (candidate->is_refuted) {
        return 1;
    }
    if (candidate->n_atoms == 0) {
        return 0;
    }
    if (candidate->n_atoms > settings->max_atoms) {
        out->n_overlong++;
        return 1;
    }
    int is_duplicate;
    int32_t place = es_expansion_find_place(expansion, &is_duplicate);
    if (is_duplicate || es_candidate_was_visited(candidate, expansion->visited)) {
        return 1;
    }
    if (out->count == settings->max_states - (settings->has_end != 0)) {
        out->n_overflow++;
        return 1;
    }
    out->table[place] = out->count;
    out->place[out->count] = place;
    out->hash[out->count] = candidate->hash;
    out->start[out->count + 1] = out->start[out->count] + candidate->n_atoms;
    out->count++;
    return 1;
}

// --- the expansion ---

static inline ES_HOST_DEVICE void
es_successors_end(EsSuccessors *out, const EsKnowledgeGraph *graph, EsProofOutcome outcome) {
    out->outcome = outcome;
    out->count = 1;
    out->atoms[0] = es_proof_terminal(graph, outcome);
    out->hash[0] = es_proof_hash(out->atoms, 1);
    out->start[1] = 1;
}

// A state that contains a terminal atom: False and End stand for the whole, True is dropped.
// Returns the outcome, OPEN when ordinary atoms are left; these are then in `kept`.
static inline ES_HOST_DEVICE EsProofOutcome es_proof_keep_ordinary(const EsKnowledgeGraph *graph,
                                                                   const EsAtom *state,
                                                                   int32_t n_atoms, EsAtom *kept,
                                                                   int32_t *n_kept) {
    *n_kept = 0;
    EsProofOutcome outcome = ES_PROOF_PROVED;
    for (int32_t i = 0; i < n_atoms; i++) {
        int32_t special = state[i].predicate - graph->n_predicates;
        if (special == ES_PROOF_FAILED || special == ES_PROOF_ENDED) {
            return (EsProofOutcome)special;
        }
        if (special != ES_PROOF_PROVED) {
            kept[(*n_kept)++] = state[i];
            outcome = ES_PROOF_OPEN;
        }
    }
    return outcome;
}

// Resolves the goal of a state without terminal atoms. Returns 0 at a proof.
ES_PROOF_INLINE ES_HOST_DEVICE int es_proof_resolve(const EsKnowledgeGraph *graph,
                                                    const EsProofSettings *settings,
                                                    const EsAtom *query, const EsAtom *kept,
                                                    int32_t n_atoms, const EsVisitedGoals *visited,
                                                    EsSuccessors *out, int is_wide) {
    EsAtom memory[2 * ES_PROOF_MAX_ATOMS];
    EsExpansion expansion;
    EsResolvent *resolvent = &expansion.resolvent;
    expansion.visited = visited;
    expansion.out = out;
    es_resolvent_begin(resolvent, graph, settings, query, memory);
    es_resolvent_take_state(resolvent, kept, n_atoms, is_wide);
    for (int32_t r = 0; r < resolvent->n_rules; r++) {
        if (es_resolvent_apply_rule(resolvent, r, es_expansion_end(&expansion),
                                    &expansion.candidate, is_wide) &&
            !es_expansion_end_candidate(&expansion)) {
            return 0;
        }
    }
    es_resolvent_find_facts(resolvent, is_wide);
    es_resolvent_mark_rest(resolvent);
    for (int32_t i = 0; i < resolvent->n_facts; i++) {
        if (es_resolvent_apply_fact(resolvent, i, es_expansion_end(&expansion),
                                    &expansion.candidate, is_wide) &&
            !es_expansion_end_candidate(&expansion)) {
            return 0;
        }
    }
    return 1;
}

static inline ES_HOST_DEVICE int
es_proof_resolve_wide(const EsKnowledgeGraph *graph, const EsProofSettings *settings,
                      const EsAtom *query, const EsAtom *kept, int32_t n_atoms,
                      const EsVisitedGoals *visited, EsSuccessors *out) {
    return es_proof_resolve(graph, settings, query, kept, n_atoms, visited, out, 1);
}

// The successors of a state of at most ES_PROOF_MAX_ATOMS cells, when the atom `query` is to be
// proved: rules in the order of their file, then facts in sorted order, without duplicates and
// without `visited` (may be NULL). The query itself is never used as a fact. A proof leaves True as
// the only successor, no successor leaves False.
static inline ES_HOST_DEVICE void es_proof_expand(const EsKnowledgeGraph *graph,
                                                  const EsProofSettings *settings,
                                                  const EsAtom *query, const EsAtom *state,
                                                  int32_t n_atoms, const EsVisitedGoals *visited,
                                                  EsSuccessors *out) {
    EsAtom kept[ES_PROOF_MAX_ATOMS];
    out->outcome = ES_PROOF_OPEN;
    out->count = out->n_overlong = out->n_overflow = 0;
    out->start[0] = 0;
    EsProofOutcome outcome = es_proof_keep_ordinary(graph, state, n_atoms, kept, &n_atoms);
    if (outcome != ES_PROOF_OPEN) {
        es_successors_end(out, graph, outcome);
        return;
    }
    int goes_on = graph->has_wide
                      ? es_proof_resolve_wide(graph, settings, query, kept, n_atoms, visited, out)
                      : es_proof_resolve(graph, settings, query, kept, n_atoms, visited, out, 0);
    if (!goes_on) {
        es_successors_end(out, graph, ES_PROOF_PROVED);
    } else if (out->count == 0) {
        es_successors_end(out, graph, ES_PROOF_FAILED);
    } else if (settings->has_end) {
        int32_t end = out->start[out->count];
        out->atoms[end] = es_proof_terminal(graph, ES_PROOF_ENDED);
        out->hash[out->count] = es_proof_hash(out->atoms + end, 1);
        out->start[++out->count] = end + 1;
    }
}

#pragma GCC diagnostic pop

#endif
