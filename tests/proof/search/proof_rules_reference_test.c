// The expansion against a plain second writing of the successor function: no index, no shared work,
// substitution as a table over all terms. On states reached by random walks over random graphs.
#include "proof/random_graph.h"
#include "proof/search/prover.h"

#define MAX_CANDIDATES 256
// terms: constants, variables of the state, fresh ones
#define N_TERMS 128
#define FRESH   60

typedef struct Goals {
    EsAtom atoms[ES_PROOF_MAX_ATOMS + ES_HORN_MAX_BODY];
    int n;
} Goals;

typedef struct Reference {
    Goals states[MAX_CANDIDATES];
    int n;
    int is_proved;
} Reference;

static int is_fact(const EsKnowledgeGraph *graph, EsAtom atom) {
    int found = 0;
    for (int32_t i = 0; i < graph->n_facts; i++) {
        found |= memcmp(&graph->facts[i], &atom, sizeof atom) == 0;
    }
    return found;
}

// Unify by replacing one term by the other throughout the table.
static int unify(int32_t *table, int32_t x, int32_t y, int32_t n_constants) {
    x = table[x];
    y = table[y];
    if (x != y && x <= n_constants && y <= n_constants) {
        return 0;
    }
    int32_t from = x > n_constants ? x : y, to = x > n_constants ? y : x;
    for (int i = 0; i < N_TERMS; i++) {
        table[i] = table[i] == from ? to : table[i];
    }
    return 1;
}

// Substitute, prune, rename, and keep what is new.
static void keep(Reference *result, const EsKnowledgeGraph *graph, const Goals *raw,
                 const int32_t *table, EsAtom query, int max_atoms) {
    Goals state = {.n = 0};
    int32_t names[N_TERMS] = {0}, n_names = 0;
    for (int i = 0; i < raw->n; i++) {
        EsAtom atom = {raw->atoms[i].predicate, table[raw->atoms[i].a], table[raw->atoms[i].b]};
        if (atom.a <= graph->n_constants && atom.b <= graph->n_constants && is_fact(graph, atom) &&
            memcmp(&atom, &query, sizeof atom) != 0) {
            continue;
        }
        int32_t *terms[2] = {&atom.a, &atom.b};
        for (int k = 0; k < 2; k++) {
            if (*terms[k] > graph->n_constants) {
                names[*terms[k]] = names[*terms[k]] != 0 ? names[*terms[k]] : ++n_names;
                *terms[k] = graph->n_constants + names[*terms[k]];
            }
        }
        state.atoms[state.n++] = atom;
    }
    result->is_proved |= state.n == 0;
    int is_new = state.n <= max_atoms;
    for (int i = 0; i < result->n; i++) {
        is_new = is_new &&
                 !(result->states[i].n == state.n && memcmp(result->states[i].atoms, state.atoms,
                                                            (size_t)state.n * sizeof(EsAtom)) == 0);
    }
    if (is_new && result->n < MAX_CANDIDATES) {
        result->states[result->n++] = state;
    }
}

static int select_goal(const EsKnowledgeGraph *graph, const Goals *state,
                       EsGoalSelection selection) {
    for (int n_free = 0; n_free <= 2; n_free++) {
        for (int i = 0; i < state->n; i++) {
            if (selection == ES_GOAL_LEFTMOST || (state->atoms[i].a > graph->n_constants) +
                                                         (state->atoms[i].b > graph->n_constants) ==
                                                     n_free) {
                return i;
            }
        }
    }
    return 0;
}

static void start_table(int32_t *table) {
    for (int i = 0; i < N_TERMS; i++) {
        table[i] = i;
    }
}

static int32_t fresh(int32_t variable) { return FRESH - variable; }

static void expand_plainly(const EsKnowledgeGraph *graph, const EsProofSettings *settings,
                           EsAtom query, const Goals *state, Reference *result) {
    int selected = select_goal(graph, state, settings->selection);
    EsAtom goal = state->atoms[selected];
    int32_t table[N_TERMS];
    result->n = result->is_proved = 0;
    for (int32_t r = 0; r < graph->n_rules + graph->n_facts; r++) {
        int is_rule = r < graph->n_rules;
        const EsHornRule *rule = &graph->rules[is_rule ? r : 0];
        EsAtom head = is_rule ? rule->head : graph->facts[r - graph->n_rules];
        if (head.predicate != goal.predicate ||
            (!is_rule && memcmp(&head, &query, sizeof head) == 0)) {
            continue;
        }
        start_table(table);
        if (!unify(table, is_rule ? fresh(head.a) : head.a, goal.a, graph->n_constants) ||
            !unify(table, is_rule ? fresh(head.b) : head.b, goal.b, graph->n_constants)) {
            continue;
        }
        Goals raw = {.n = 0};
        for (int i = 0; is_rule && i < rule->n_body; i++) {
            EsAtom atom = {rule->body[i].predicate, fresh(rule->body[i].a), fresh(rule->body[i].b)};
            raw.atoms[raw.n++] = atom;
        }
        for (int i = 0; i < state->n; i++) {
            if (i != selected) {
                raw.atoms[raw.n++] = state->atoms[i];
            }
        }
        keep(result, graph, &raw, table, query, settings->max_atoms);
    }
}

// Facts p(?,b) come by a from both, so that even the order must be the same.
static int expect_same(const EsKnowledgeGraph *graph, const Reference *expected,
                       const EsSuccessors *actual, const char *where) {
    int n_expected = expected->is_proved || expected->n == 0 ? 1 : expected->n;
    EsProofOutcome outcome = expected->is_proved ? ES_PROOF_PROVED
                             : expected->n == 0  ? ES_PROOF_FAILED
                                                 : ES_PROOF_OPEN;
    if (actual->outcome != outcome || actual->count != n_expected) {
        ES_TEST_FAIL("%s: outcome %d with %d successors, expected %d with %d", where,
                     (int)actual->outcome, actual->count, (int)outcome, n_expected);
        return 0;
    }
    for (int i = 0; i < expected->n && outcome == ES_PROOF_OPEN; i++) {
        EsAtomSpan state = es_successor(actual, i);
        if (state.count != expected->states[i].n ||
            memcmp(state.atoms, expected->states[i].atoms, (size_t)state.count * sizeof(EsAtom)) !=
                0 ||
            actual->hash[i] != es_proof_hash(state.atoms, state.count)) {
            ES_TEST_FAIL("%s: successor %d is another", where, i);
            return 0;
        }
        for (int32_t k = 0; k < state.count; k++) {
            EXPECT(state.atoms[k].a <= graph->n_constants + 2 * state.count);
            EXPECT(state.atoms[k].b <= graph->n_constants + 2 * state.count);
        }
    }
    return 1;
}

// Any one to four atoms: facts among them, variables in any order and repeated.
static Goals draw_state(const EsKnowledgeGraph *graph, Dice *dice, int n_variables) {
    Goals state = {.n = 1 + throw_dice(dice, 4)};
    for (int i = 0; i < state.n; i++) {
        EsAtom atom = {1 + throw_dice(dice, graph->n_predicates),
                       1 + throw_dice(dice, graph->n_constants + n_variables),
                       1 + throw_dice(dice, graph->n_constants + n_variables)};
        state.atoms[i] =
            throw_dice(dice, 4) == 0 ? graph->facts[throw_dice(dice, graph->n_facts)] : atom;
    }
    return state;
}

// Walk at random until an end, comparing at every step; returns the number of comparisons.
static int walk(const EsKnowledgeGraph *graph, const EsProofSettings *settings, Dice *dice,
                EsSuccessors *successors) {
    static Reference reference;
    EsAtom query = {1 + throw_dice(dice, graph->n_predicates),
                    1 + throw_dice(dice, graph->n_constants),
                    1 + throw_dice(dice, graph->n_constants)};
    Goals state = {.n = 1};
    state.atoms[0] = query;
    if (throw_dice(dice, 2) == 0) {
        state = draw_state(graph, dice, 4);
    }
    for (int step = 0; step < 12; step++) {
        char where[64];
        snprintf(where, sizeof where, "graph %u, step %d", dice->graph, step);
        es_proof_expand(graph, settings, &query, state.atoms, state.n, NULL, successors);
        expand_plainly(graph, settings, query, &state, &reference);
        if (!expect_same(graph, &reference, successors, where) ||
            successors->outcome != ES_PROOF_OPEN) {
            return step + 1;
        }
        EsAtomSpan next = es_successor(successors, throw_dice(dice, successors->count));
        memcpy(state.atoms, next.atoms, (size_t)next.count * sizeof(EsAtom));
        state.n = next.count;
    }
    return 12;
}

TEST(same_as_the_plain_writing) {
    EsSuccessors successors;
    REQUIRE_OK(es_successors_create(MAX_CANDIDATES, ES_PROOF_MAX_ATOMS, &successors));
    int n_compared = 0;
    for (uint32_t number = 0; number < 400 && es_test_failures == 0; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        Dice dice = {number, 10000};
        for (int k = 0; k < 40; k++) {
            EsProofSettings settings = {.selection = k % 2 ? ES_GOAL_LEFTMOST : ES_GOAL_CONSTRAINED,
                                        .max_atoms = 3 + k % 5,
                                        .max_states = MAX_CANDIDATES};
            n_compared += walk(graph, &settings, &dice, &successors);
        }
        es_kg_destroy(graph);
    }
    printf("%d expansions compared\n", n_compared);
    EXPECT(n_compared > 30000);
    es_successors_destroy(&successors);
}
