// The successors of a state are the same, as a set of canonical states, when the graph is told in
// another way: constants under other names, facts and rules in another order, predicates that have
// nothing to do with it. States are those that random walks reach from every query.
#include "proof/random_graph.h"
#include "proof/search/prover.h"

#define N_STEPS   4
#define MAX_ATOMS 5

// --- one graph in the words of another ---

// c0 becomes z9, c1 z8, ...: another name, and another place in the order of names.
static void rename_constant(char name[64]) {
    name[0] = 'z';
    name[1] = (char)('9' - (name[1] - '0'));
}

static RandomGraph rename_constants(const RandomGraph *random) {
    RandomGraph renamed = *random;
    for (int i = 0; i < renamed.n_facts; i++) {
        rename_constant(renamed.facts[i].a);
        rename_constant(renamed.facts[i].b);
    }
    for (char *text = renamed.queries; (text = strchr(text, 'c')) != NULL;) {
        rename_constant(text);
    }
    return renamed;
}

// Any order: each fact changes places with one drawn from those before it.
static RandomGraph permute_facts(const RandomGraph *random, uint32_t number) {
    RandomGraph permuted = *random;
    Dice dice = {number, 7000};
    for (int i = permuted.n_facts - 1; i > 0; i--) {
        int k = throw_dice(&dice, i + 1);
        SmallAtom kept = permuted.facts[i];
        permuted.facts[i] = permuted.facts[k];
        permuted.facts[k] = kept;
    }
    return permuted;
}

// Mapping of numbers from one graph to another.
typedef struct Translation {
    const EsKnowledgeGraph *from, *to;
    int32_t constants[RANDOM_CONSTANTS + 1];
    int32_t predicates[RANDOM_PREDICATES + 1];
} Translation;

static Translation translate_names(const EsKnowledgeGraph *from, const EsKnowledgeGraph *to,
                                   int is_renamed) {
    Translation translation = {.from = from, .to = to};
    EXPECT_EQ(from->n_constants, RANDOM_CONSTANTS);
    EXPECT_EQ(from->n_predicates, RANDOM_PREDICATES);
    for (int32_t c = 1; c <= from->n_constants; c++) {
        char name[64];
        snprintf(name, sizeof name, "%s", from->constant_names[c]);
        if (is_renamed) {
            rename_constant(name);
        }
        translation.constants[c] = es_kg_constant(to, name);
        EXPECT(translation.constants[c] > 0);
    }
    for (int32_t p = 1; p <= from->n_predicates; p++) {
        translation.predicates[p] = es_kg_predicate(to, from->predicate_names[p]);
        EXPECT(translation.predicates[p] > 0);
    }
    return translation;
}

// Variables keep their number above the constants; so do True, False and End above the predicates,
// whose terms are 0.
static EsAtom translate(const Translation *by, EsAtom atom) {
    int32_t *terms[] = {&atom.a, &atom.b};
    for (int i = 0; i < 2; i++) {
        int32_t above = *terms[i] - by->from->n_constants;
        *terms[i] = above > 0 ? by->to->n_constants + above : by->constants[*terms[i]];
    }
    int32_t above = atom.predicate - by->from->n_predicates;
    atom.predicate = above > 0 ? by->to->n_predicates + above : by->predicates[atom.predicate];
    return atom;
}

static EsAtomSpan translate_state(const Translation *by, EsAtomSpan state, EsAtom *atoms) {
    for (int32_t i = 0; i < state.count; i++) {
        atoms[i] = translate(by, state.atoms[i]);
    }
    return (EsAtomSpan){atoms, state.count};
}

// --- sets of states ---

static int has_state(const EsSuccessors *successors, EsAtomSpan state) {
    for (int32_t i = 0; i < successors->count; i++) {
        EsAtomSpan other = es_successor(successors, i);
        if (other.count == state.count && es_goals_equal(other.atoms, state.atoms, state.count)) {
            return 1;
        }
    }
    return 0;
}

// As many states, none of them twice, each of them in the other list, are the same set. A proof
// ends an expansion, so that what was too long before it depends on the order.
static int are_same(const Translation *by, const EsSuccessors *x, const EsSuccessors *y) {
    int is_same = x->outcome == y->outcome && x->count == y->count && x->n_overflow == 0 &&
                  y->n_overflow == 0 &&
                  (x->outcome == ES_PROOF_PROVED || x->n_overlong == y->n_overlong);
    for (int32_t i = 0; i < x->count && is_same; i++) {
        EsAtom atoms[ES_PROOF_MAX_ATOMS];
        is_same = has_state(y, translate_state(by, es_successor(x, i), atoms));
    }
    for (int32_t i = 0; i < x->count && is_same; i++) {
        EsSuccessors before = *x;
        before.count = i;
        is_same = !has_state(&before, es_successor(x, i));
    }
    return is_same;
}

// --- walks ---

typedef struct Counts {
    int n_states, n_branching, n_proved;
} Counts;

typedef struct Case {
    const char *what;
    uint32_t number; // of the graph
    EsProofSettings settings;
    Translation by;
    EsSuccessors here, there;
} Case;

// Returns 0 at the first difference, which it tells.
static int walk(Case *c, EsAtom query, Dice *dice, Counts *counts) {
    EsAtom atoms[ES_PROOF_MAX_ATOMS] = {query}, other[ES_PROOF_MAX_ATOMS];
    EsAtomSpan state = {atoms, 1};
    EsAtom other_query = translate(&c->by, query);
    for (int step = 0; step < N_STEPS; step++) {
        EsAtomSpan translated = translate_state(&c->by, state, other);
        es_proof_expand(c->by.from, &c->settings, &query, state.atoms, state.count, NULL, &c->here);
        es_proof_expand(c->by.to, &c->settings, &other_query, translated.atoms, translated.count,
                        NULL, &c->there);
        counts->n_states++;
        counts->n_branching += c->here.count > 2;
        counts->n_proved += c->here.outcome == ES_PROOF_PROVED;
        if (!are_same(&c->by, &c->here, &c->there)) {
            ES_TEST_FAIL("graph %u, %s, query %d(%d,%d), step %d: %d successors, then %d others",
                         c->number, c->what, query.predicate, query.a, query.b, step, c->here.count,
                         c->there.count);
            return 0;
        }
        if (c->here.outcome != ES_PROOF_OPEN) {
            return 1;
        }
        EsAtomSpan next = es_successor(&c->here, throw_dice(dice, c->here.count));
        memcpy(atoms, next.atoms, (size_t)next.count * sizeof *atoms);
        state.count = next.count;
    }
    return 1;
}

static Counts compare_graphs(const char *what, uint32_t number, const EsKnowledgeGraph *from,
                             const EsKnowledgeGraph *to, int is_renamed) {
    Counts counts = {0};
    Case c = {.what = what, .number = number, .by = translate_names(from, to, is_renamed)};
    const EsQuerySplit *queries = &from->splits[ES_KG_SPLIT_TEST];
    int32_t most = ES_MAX(es_proof_max_candidates(from), es_proof_max_candidates(to)) + 2;
    REQUIRE_OK(es_successors_create(most, MAX_ATOMS, &c.here));
    REQUIRE_OK(es_successors_create(most, MAX_ATOMS, &c.there));
    for (int s = 0, is_same = 1; s < 2; s++) {
        Dice dice = {number, 20000 + 10000 * (uint32_t)s};
        c.settings = (EsProofSettings){.selection = s == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST,
                                       .max_atoms = MAX_ATOMS - (int32_t)(number % 3),
                                       .max_states = most,
                                       .has_end = number % 2 == 0};
        for (int32_t i = 0; i < queries->count && is_same; i++) {
            is_same = walk(&c, queries->atoms[i], &dice, &counts);
        }
    }
    es_successors_destroy(&c.here);
    es_successors_destroy(&c.there);
    return counts;
}

// On 100 graphs; `tell` makes the same graph in other words.
static void expect_same_successors(const char *what, int is_renamed,
                                   EsKnowledgeGraph *(*tell)(const RandomGraph *, uint32_t)) {
    Counts sum = {0};
    for (uint32_t number = 7000; number < 7100; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        EsKnowledgeGraph *other = tell(&random, number);
        Counts counts = compare_graphs(what, number, graph, other, is_renamed);
        sum.n_states += counts.n_states;
        sum.n_branching += counts.n_branching;
        sum.n_proved += counts.n_proved;
        es_kg_destroy(graph);
        es_kg_destroy(other);
    }
    printf("%s: %d states, %d with three successors or more, %d proved\n", what, sum.n_states,
           sum.n_branching, sum.n_proved);
    EXPECT(sum.n_branching > 5000);
    EXPECT(sum.n_proved > 500);
}

static EsKnowledgeGraph *tell_renamed(const RandomGraph *random, uint32_t number) {
    RandomGraph renamed = rename_constants(random);
    (void)number;
    return build_graph(&renamed, 0, -1, "");
}

static EsKnowledgeGraph *tell_permuted(const RandomGraph *random, uint32_t number) {
    RandomGraph permuted = permute_facts(random, number);
    return build_graph(&permuted, 0, -1, "");
}

static EsKnowledgeGraph *tell_reversed(const RandomGraph *random, uint32_t number) {
    (void)number;
    return build_graph(random, 1, -1, "");
}

static EsKnowledgeGraph *tell_renamed_and_permuted(const RandomGraph *random, uint32_t number) {
    RandomGraph renamed = rename_constants(random);
    RandomGraph permuted = permute_facts(&renamed, number);
    return build_graph(&permuted, 1, -1, "");
}

static EsKnowledgeGraph *tell_unrelated(const RandomGraph *random, uint32_t number) {
    (void)number;
    return build_graph(random, 0, -1, "aa(c1,c2) zz(c3,c3) zz(c5,c1)");
}

TEST(constants_under_other_names) { expect_same_successors("constants renamed", 1, tell_renamed); }

TEST(facts_in_another_order) { expect_same_successors("facts permuted", 0, tell_permuted); }

TEST(facts_and_rules_backwards) { expect_same_successors("all reversed", 0, tell_reversed); }

TEST(names_and_order_at_once) {
    expect_same_successors("renamed and permuted", 1, tell_renamed_and_permuted);
}

TEST(predicates_that_no_rule_has) {
    expect_same_successors("two unrelated predicates", 0, tell_unrelated);
}
