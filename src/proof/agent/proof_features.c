// Statistics of predicates and constants and confidences of rules are counted once per graph; those
// of a goal when a state is described, by lookups in the graph's indices.
#include "proof/agent/proof_features.h"

#include <string.h>

#include "base/memory.h"
#include "proof/search/closure.h"

// rules that the higher cost of a goal looks ahead
#define LOOKAHEAD 2
// body atoms that count as 1
#define LONG_BODY 3
// atoms per fact of its head from which on a rule's confidence, below 1 / 50, is taken for 0
#define MANY_ATOMS 50

// Of a predicate; shares and squashed counts, all from 0 to 1.
typedef enum PredicateFeature {
    P_FACTS,       // share of all facts
    P_PER_A,       // facts per distinct first argument
    P_PER_B,       // facts per distinct other argument
    P_A_CONSTANTS, // share of constants that are a first argument
    P_B_CONSTANTS, // share of constants that are another argument
    P_MIRRORED,    // share of facts p(x,y,...) with a fact p(y,x,...)
    P_RULES,       // rules that it heads
    P_RECURSIVE,   // share of them with itself in the body
    P_SHORT,       // share of them with one body atom
    P_BODY,        // mean number of body atoms; tests are none
    P_SERVES,      // body atoms of all rules that have it
    P_PROVED,      // share of its facts that one rule proves from other facts, as cost_1 guesses
    P_CONFIDENCE,  // mean confidence of the rules that it heads
    N_P_FEATURES
} PredicateFeature;

typedef enum GoalFeature {
    G_A_CONSTANT, // the first argument; G_B_ are the others
    G_B_CONSTANT,
    G_TWICE,    // two arguments are one variable
    G_A_SHARED, // goals that share a variable in the first place
    G_B_SHARED,
    G_MATCHES, // facts
    G_NO_MATCH,
    G_A_FACTS, // of the predicate with this first argument
    G_B_FACTS,
    G_A_DEGREE, // facts of any predicate with this constant
    G_B_DEGREE,
    G_REPEATED, // another goal has its predicate
    G_COST_1,
    G_COST_2,
    G_NEAR_RULES, // rules whose body atoms all match facts
    G_HAS_NEAR,   // there is one
    G_NEAR_SHARE, // share of the rules
    G_HOPELESS,   // neither facts nor rules
    G_CONFIDENCE, // highest of the rules whose body atoms all match facts
    G_NOISY_OR,   // of them
    G_PREDICATE   // its features from here on
} GoalFeature;

typedef enum WholeFeature {
    W_TRUE,
    W_FALSE,
    W_END,
    W_GOALS,
    W_VARIABLES,
    W_GROUND,   // goals without variables
    W_NO_MATCH, // goals without a fact
    W_SUM_1,    // of costs
    W_SUM_2,
    W_MOST_1, // highest cost
    W_MOST_2,
    W_HOPELESS, // goals with neither facts nor rules
    W_CHANCE,   // product over the goals without a fact of G_NOISY_OR
    N_W_FEATURES
} WholeFeature;

_Static_assert((int)N_P_FEATURES == ES_PROOF_PREDICATE_FEATURES, "all of a predicate");
_Static_assert((int)G_PREDICATE + ES_PROOF_PREDICATE_FEATURES == ES_PROOF_GOAL_FEATURES,
               "of a goal");
_Static_assert((int)N_W_FEATURES == ES_PROOF_WHOLE_FEATURES, "of a state");

struct EsProofFeatures {
    const EsKnowledgeGraph *graph; // borrowed
    float *predicates; // owned                                (P + 1, ES_PROOF_PREDICATE_FEATURES)
    int32_t *degree;   // number of facts of a constant; owned                             (C + 1)
    float *confidence; // of rules; owned                                                (n_rules)
};

// A count of any size as a number from 0 to 1; no library function, so that all machines agree.
static float squash(double count) { return (float)(count / (count + 4.0)); }

static float share_of(double part, double whole) {
    return whole > 0 ? (float)(part / whole) : 0.0f;
}

// --- goals ---

// Returns whether a goal without one variable in two places matches the hidden fact.
static int32_t matches_hidden(const EsKnowledgeGraph *graph, const EsAtom *goal,
                              const EsAtom *hidden) {
    if (hidden->predicate != goal->predicate) {
        return 0;
    }
    for (int place = 0; place < graph->arities[goal->predicate]; place++) {
        int32_t term = es_atom_term(goal, place);
        if (term <= graph->n_constants && term != es_atom_term(hidden, place)) {
            return 0;
        }
    }
    return 1;
}

// The same count for a goal of three or four arguments; one variable in two places counts as two.
static int32_t count_wide_matches(const EsKnowledgeGraph *graph, const EsAtom *goal) {
    EsWideSpan span = es_kg_wide_facts(graph, goal);
    int n_constants = 0;
    int32_t n = 0;
    for (int place = 0; place < graph->arities[goal->predicate]; place++) {
        n_constants += es_atom_term(goal, place) <= graph->n_constants;
    }
    if (n_constants <= 1) {
        return span.end - span.begin;
    }
    for (int32_t i = span.begin; i < span.end; i++) {
        n += matches_hidden(graph, goal, graph->wide.atoms + 2 * (size_t)span.order[i]);
    }
    return n;
}

// Facts but for the hidden one that a goal's constants leave.
static int32_t count_matches(const EsKnowledgeGraph *graph, const EsAtom *goal,
                             const EsAtom *hidden) {
    int32_t is_hidden = matches_hidden(graph, goal, hidden);
    if (es_kg_cells(graph, goal->predicate) == 2) {
        return (es_proof_is_ground(graph, goal) ? es_kg_is_fact(graph, goal)
                                                : count_wide_matches(graph, goal)) -
               is_hidden;
    }
    int is_a_free = goal->a > graph->n_constants, is_b_free = goal->b > graph->n_constants;
    if (is_a_free && (is_b_free || graph->arities[goal->predicate] == 1)) {
        return es_kg_facts_of(graph, goal->predicate).count - is_hidden;
    }
    if (is_b_free) {
        return es_kg_facts_with_a(graph, goal->predicate, goal->a).count - is_hidden;
    }
    return (is_a_free ? es_kg_facts_with_b(graph, goal->predicate, goal->b).count
                      : es_kg_has_fact(graph, *goal)) -
           is_hidden;
}

// A term of a rule whose head took `terms`; all variables that stay free are taken for one.
static int32_t term_of(const EsKnowledgeGraph *graph, int32_t term, const int32_t *terms) {
    int32_t value = term < 0 ? terms[-1 - term] : term;
    return value == 0 ? graph->n_constants + 1 : value;
}

// The atom of a body as a goal, whose head took `terms`.
static EsWideAtom goal_of(const EsKnowledgeGraph *graph, const EsAtom *atom, const int32_t *terms) {
    int32_t arguments[ES_KG_MAX_ARITY] = {0};
    int arity = graph->arities[atom->predicate];
    for (int place = 0; place < arity; place++) {
        arguments[place] = term_of(graph, es_atom_term(atom, place), terms);
    }
    return es_wide_atom_make(atom->predicate, arguments, arity);
}

static int find_cost(const EsKnowledgeGraph *graph, const EsAtom *goal, const EsAtom *hidden,
                     int n_ahead);

// Sum of cost_{n_ahead} over the body; -1 where the head does not unify.
static int find_body_cost(const EsKnowledgeGraph *graph, const EsHornRule *rule, const EsAtom *goal,
                          const EsAtom *hidden, int n_ahead) {
    int32_t terms[ES_HORN_MAX_VARIABLES];
    EsGoalBinding binding;
    if (!es_proof_unify_head(graph, rule, goal, terms, &binding)) {
        return -1;
    }
    int cost = 0;
    for (int i = 0; i < rule->n_body && cost < ES_PROOF_MAX_COST;
         i += es_kg_cells(graph, rule->body[i].predicate)) {
        EsWideAtom atom = goal_of(graph, &rule->body[i], terms);
        cost += find_cost(graph, atom.cells, hidden, n_ahead);
    }
    return cost;
}

// A test costs nothing unless it is known to fail.
static int find_test_cost(const EsKnowledgeGraph *graph, const EsAtom *goal) {
    int is_open = !es_proof_is_ground(graph, goal);
    return is_open || es_kg_test_holds(graph, goal) ? 0 : ES_PROOF_MAX_COST;
}

static int find_cost(const EsKnowledgeGraph *graph, const EsAtom *goal, const EsAtom *hidden,
                     int n_ahead) {
    if (es_kg_is_test(graph, goal->predicate)) {
        return find_test_cost(graph, goal);
    }
    if (count_matches(graph, goal, hidden) > 0) {
        return 0;
    }
    int32_t n_rules;
    const EsHornRule *rules = es_kg_rules_of(graph, goal->predicate, &n_rules);
    int least = n_ahead == 0 && n_rules > 0 ? 0 : ES_PROOF_MAX_COST;
    for (int32_t r = 0; r < n_rules && n_ahead > 0 && least > 0; r++) {
        int cost = find_body_cost(graph, &rules[r], goal, hidden, n_ahead - 1);
        least = cost >= 0 ? ES_MIN(least, cost) : least;
    }
    return ES_MIN(1 + least, ES_PROOF_MAX_COST);
}

int es_proof_features_cost(const EsProofFeatures *features, const EsAtom *goal,
                           const EsAtom *hidden, int n_rules) {
    return find_cost(features->graph, goal, hidden, n_rules);
}

float es_proof_features_confidence(const EsProofFeatures *features, int32_t rule) {
    return features->confidence[rule];
}

static int has_term(const EsKnowledgeGraph *graph, const EsAtom *atom, int32_t term) {
    return atom->a == term || atom->b == term ||
           (es_kg_cells(graph, atom->predicate) == 2 && (atom[1].a == term || atom[1].b == term));
}

// Counts the goals other than the one at cell `i` with this variable.
static int count_sharing(const EsKnowledgeGraph *graph, EsAtomSpan state, int32_t i, int32_t term) {
    int n = 0;
    for (int32_t k = 0; k < state.count && term > graph->n_constants;
         k += es_kg_cells(graph, state.atoms[k].predicate)) {
        n += k != i && has_term(graph, &state.atoms[k], term);
    }
    return n;
}

static void describe_rules(const EsProofFeatures *features, const EsAtom *goal,
                           const EsAtom *hidden, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    int32_t n_rules, n_near = 0;
    const EsHornRule *rules = es_kg_rules_of(graph, goal->predicate, &n_rules);
    float wrong = 1.0f;
    for (int32_t r = 0; r < n_rules; r++) {
        if (find_body_cost(graph, &rules[r], goal, hidden, 0) == 0) {
            float confidence = features->confidence[&rules[r] - graph->rules];
            row[G_CONFIDENCE] = ES_MAX(row[G_CONFIDENCE], confidence);
            wrong *= 1.0f - confidence;
            n_near++;
        }
    }
    row[G_NOISY_OR] = 1.0f - wrong;
    row[G_NEAR_RULES] = squash(n_near);
    row[G_HAS_NEAR] = n_near > 0;
    row[G_NEAR_SHARE] = share_of(n_near, n_rules);
    row[G_HOPELESS] = n_rules == 0 && row[G_NO_MATCH] > 0;
}

// Facts of any predicate with a constant, but for the hidden one.
static float describe_degree(const EsProofFeatures *features, int32_t constant,
                             const EsAtom *hidden) {
    const EsKnowledgeGraph *graph = features->graph;
    int32_t n_hidden = 0;
    int n_places = hidden->predicate > 0 ? graph->arities[hidden->predicate] : 0;
    for (int place = 0; place < n_places; place++) {
        n_hidden += es_atom_term(hidden, place) == constant;
    }
    return squash(features->degree[constant] - n_hidden);
}

// Facts of a goal's predicate with its term in one place.
static float describe_place(const EsKnowledgeGraph *graph, const EsAtom *goal, const EsAtom *hidden,
                            int place) {
    int32_t arguments[ES_KG_MAX_ARITY];
    int arity = graph->arities[goal->predicate];
    for (int i = 0; i < arity; i++) {
        arguments[i] = i == place ? es_atom_term(goal, i) : graph->n_constants + 1;
    }
    EsWideAtom open = es_wide_atom_make(goal->predicate, arguments, arity);
    return squash(count_matches(graph, open.cells, hidden));
}

static void describe_terms(const EsProofFeatures *features, EsAtomSpan state, const EsAtom *hidden,
                           int32_t i, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    const EsAtom *goal = &state.atoms[i];
    int arity = graph->arities[goal->predicate];
    float share = 1.0f / (float)ES_MAX(arity - 1, 1); // of one of the others
    for (int place = 0; place < arity; place++) {
        int32_t term = es_atom_term(goal, place);
        int side = place > 0; // features of the first argument stand before those of the others
        float part = side ? share : 1.0f;
        row[G_A_SHARED + side] += 0.5f * (float)count_sharing(graph, state, i, term) * part;
        if (term <= graph->n_constants) {
            row[G_A_CONSTANT + side] += part;
            row[G_A_FACTS + side] += describe_place(graph, goal, hidden, place) * part;
            row[G_A_DEGREE + side] += describe_degree(features, term, hidden) * part;
        }
        for (int k = 0; k < place && term > graph->n_constants; k++) {
            row[G_TWICE] = es_atom_term(goal, k) == term ? 1.0f : row[G_TWICE];
        }
    }
}

static void describe_goal(const EsProofFeatures *features, EsAtomSpan state, const EsAtom *hidden,
                          int32_t i, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    const EsAtom *goal = &state.atoms[i];
    int32_t n_matches = count_matches(graph, goal, hidden);
    memset(row, 0, sizeof *row * ES_PROOF_GOAL_FEATURES);
    describe_terms(features, state, hidden, i, row);
    row[G_MATCHES] = squash(n_matches);
    row[G_NO_MATCH] = n_matches == 0 && !es_kg_is_test(graph, goal->predicate);
    for (int32_t k = 0; k < state.count; k += es_kg_cells(graph, state.atoms[k].predicate)) {
        row[G_REPEATED] += k != i && state.atoms[k].predicate == goal->predicate ? 0.5f : 0.0f;
    }
    row[G_COST_1] = (float)find_cost(graph, goal, hidden, 1) / ES_PROOF_MAX_COST;
    row[G_COST_2] = (float)find_cost(graph, goal, hidden, LOOKAHEAD) / ES_PROOF_MAX_COST;
    describe_rules(features, goal, hidden, row);
    memcpy(row + G_PREDICATE,
           features->predicates + (size_t)goal->predicate * ES_PROOF_PREDICATE_FEATURES,
           sizeof *row * ES_PROOF_PREDICATE_FEATURES);
}

// --- states ---

// Adds a goal to the features of the whole state.
static void add_goal(const EsKnowledgeGraph *graph, const EsAtom *goal, const float *row,
                     float *whole) {
    const float share = 1.0f / 6.0f; // of the usual limit on goals
    whole[W_GOALS] += share;
    whole[W_GROUND] += es_proof_is_ground(graph, goal) ? share : 0.0f;
    whole[W_NO_MATCH] += row[G_NO_MATCH] * share;
    whole[W_SUM_1] += row[G_COST_1];
    whole[W_SUM_2] += row[G_COST_2];
    whole[W_MOST_1] = ES_MAX(whole[W_MOST_1], row[G_COST_1]);
    whole[W_MOST_2] = ES_MAX(whole[W_MOST_2], row[G_COST_2]);
    whole[W_HOPELESS] += row[G_HOPELESS];
    whole[W_CHANCE] *= row[G_NO_MATCH] > 0 ? row[G_NOISY_OR] : 1.0f;
    // canonical numbering: the highest variable is their number
    for (int place = 0; place < graph->arities[goal->predicate]; place++) {
        int32_t n_variables = es_atom_term(goal, place) - graph->n_constants;
        whole[W_VARIABLES] = ES_MAX(whole[W_VARIABLES], (float)n_variables * share);
    }
}

void es_proof_features_describe(const EsProofFeatures *features, EsAtomSpan state,
                                const EsAtom *hidden, EsGoalSelection selection, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    float *mean = row + ES_PROOF_GOAL_FEATURES, *whole = mean + ES_PROOF_GOAL_FEATURES;
    float goal[ES_PROOF_GOAL_FEATURES];
    int32_t n_goals = 0;
    memset(row, 0, sizeof *row * ES_PROOF_FEATURES);
    int32_t special = state.atoms[0].predicate - graph->n_predicates;
    if (special > 0) {
        whole[W_TRUE + special - ES_PROOF_PROVED] = 1.0f;
        return;
    }
    for (int32_t i = 0; i < state.count; i += es_kg_cells(graph, state.atoms[i].predicate)) {
        n_goals++;
    }
    float share = 1.0f / (float)n_goals;
    whole[W_CHANCE] = 1.0f;
    int32_t selected = es_proof_select(graph, state.atoms, state.count, selection);
    for (int32_t i = 0; i < state.count; i += es_kg_cells(graph, state.atoms[i].predicate)) {
        describe_goal(features, state, hidden, i, goal);
        add_goal(graph, &state.atoms[i], goal, whole);
        for (int e = 0; e < ES_PROOF_GOAL_FEATURES; e++) {
            mean[e] += goal[e] * share;
        }
        if (i == selected) {
            memcpy(row, goal, sizeof goal);
        }
    }
}

// --- the graph ---

// Fact i of a predicate, in the order of all its arguments.
static const EsAtom *fact_at(const EsKnowledgeGraph *graph, int32_t predicate, int32_t i) {
    if (es_kg_cells(graph, predicate) == 2) {
        return graph->wide.atoms + 2 * ((size_t)graph->wide.start[predicate] + (size_t)i);
    }
    return graph->facts + graph->fact_start[predicate] + i;
}

// The term of fact i of a predicate in a place, by which the facts are sorted here.
static int32_t sorted_term(const EsKnowledgeGraph *graph, int32_t predicate, int place, int32_t i) {
    if (es_kg_cells(graph, predicate) == 2) {
        int32_t fact = graph->wide.order[place][graph->wide.start[predicate] + i];
        return es_atom_term(graph->wide.atoms + 2 * (size_t)fact, place);
    }
    const EsAtom *facts = place == 0 ? graph->facts : graph->facts_by_b;
    return es_atom_term(facts + graph->fact_start[predicate] + i, place);
}

static int32_t count_distinct(const EsKnowledgeGraph *graph, int32_t predicate, int place) {
    int32_t n_facts = es_kg_count_facts_of(graph, predicate), n = 0, last = 0;
    for (int32_t i = 0; i < n_facts; i++) {
        int32_t term = sorted_term(graph, predicate, place, i);
        n += term != last;
        last = term;
    }
    return n;
}

static void describe_facts(const EsKnowledgeGraph *graph, int32_t predicate, float *row) {
    int arity = graph->arities[predicate];
    int32_t n_facts = es_kg_count_facts_of(graph, predicate), n_mirrored = 0;
    float share = 1.0f / (float)ES_MAX(arity - 1, 1); // of one of the arguments behind the first
    for (int32_t i = 0; i < n_facts && arity >= 2; i++) {
        const EsAtom *fact = fact_at(graph, predicate, i);
        EsWideAtom mirror = {{{predicate, fact->b, fact->a}}};
        if (arity > 2) {
            mirror.cells[1] = fact[1];
        }
        n_mirrored += es_kg_is_fact(graph, mirror.cells);
    }
    row[P_FACTS] = share_of(n_facts, es_kg_count_facts(graph));
    for (int place = 0; place < arity; place++) {
        int32_t n_terms = count_distinct(graph, predicate, place);
        int side = place > 0; // features of the first argument stand before those of the others
        float part = side ? share : 1.0f;
        row[P_PER_A + side] += squash((double)share_of(n_facts, n_terms)) * part;
        row[P_A_CONSTANTS + side] += share_of(n_terms, graph->n_constants) * part;
    }
    row[P_MIRRORED] = share_of(n_mirrored, n_facts);
}

static void describe_heads(const EsProofFeatures *features, int32_t predicate, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    double confidence = 0;
    int32_t n_rules, n_recursive = 0, n_short = 0, n_body = 0;
    const EsHornRule *rules = es_kg_rules_of(graph, predicate, &n_rules);
    for (int32_t r = 0; r < n_rules; r++) {
        int is_recursive = 0, n_atoms = 0;
        for (int i = 0; i < rules[r].n_body; i += es_kg_cells(graph, rules[r].body[i].predicate)) {
            is_recursive |= rules[r].body[i].predicate == predicate;
            n_atoms += !es_kg_is_test(graph, rules[r].body[i].predicate);
        }
        confidence += (double)features->confidence[&rules[r] - graph->rules];
        n_recursive += is_recursive;
        n_short += n_atoms == 1;
        n_body += n_atoms;
    }
    row[P_RULES] = squash(n_rules);
    row[P_CONFIDENCE] = share_of(confidence, n_rules);
    row[P_RECURSIVE] = share_of(n_recursive, n_rules);
    row[P_SHORT] = share_of(n_short, n_rules);
    row[P_BODY] = ES_MIN(share_of(n_body, n_rules) / LONG_BODY, 1.0f);
}

// --- confidences ---

// The body of a rule as literals, *n_body of them. *n_facts are the facts that it reads, each once,
// which `datalog` receives unless it is NULL.
static EsStatus read_body(const EsKnowledgeGraph *graph, const EsHornRule *rule, EsLiteral *body,
                          int *n_body, int64_t *n_facts, EsDatalog *datalog) {
    *n_body = 0;
    *n_facts = 0;
    for (int i = 0; i < rule->n_body; i += es_kg_cells(graph, rule->body[i].predicate)) {
        EsLiteral literal = es_closure_literal(graph, &rule->body[i]);
        int is_new = literal.kind == ES_LITERAL_ATOM || literal.kind == ES_LITERAL_NOT;
        for (int k = 0; k < *n_body; k++) {
            is_new &= body[k].relation != literal.relation;
        }
        body[(*n_body)++] = literal;
        if (is_new) {
            *n_facts += es_kg_count_facts_of(graph, literal.relation);
        }
        if (is_new && datalog != NULL) {
            ES_TRY(es_closure_add_facts(graph, literal.relation, NULL, datalog));
        }
    }
    return ES_STATUS_OK;
}

// The atoms that one rule gives over the facts, in a relation of their own behind all predicates.
static EsStatus count_given(const EsKnowledgeGraph *graph, const EsHornRule *rule,
                            EsDatalog *datalog, float *confidence) {
    int32_t predicate = rule->head.predicate, given = graph->n_predicates + 1, n_right = 0;
    EsLiteral body[ES_HORN_MAX_BODY];
    int64_t n_facts;
    int n_body;
    ES_TRY(read_body(graph, rule, body, &n_body, &n_facts, datalog));
    ES_TRY(es_datalog_run(datalog, NULL));
    int32_t n_given = es_datalog_count(datalog, given);
    for (int32_t i = 0; i < n_given; i++) {
        EsWideAtom atom = es_wide_atom_make(predicate, es_datalog_tuple(datalog, given, i),
                                            graph->arities[predicate]);
        n_right += es_kg_is_fact(graph, atom.cells);
    }
    *confidence = es_datalog_is_complete(datalog)
                      ? (float)((double)n_right / ((double)n_given + ES_PROOF_SMOOTHING))
                      : 0.0f;
    return ES_STATUS_OK;
}

static EsStatus find_confidence(const EsKnowledgeGraph *graph, const EsHornRule *rule,
                                int32_t *arities, float *confidence) {
    EsLiteral body[ES_HORN_MAX_BODY];
    int64_t n_facts;
    int n_body;
    ES_TRY(read_body(graph, rule, body, &n_body, &n_facts, NULL));
    EsDatalogRule alone = {es_closure_literal(graph, &rule->head), body, n_body};
    alone.head.relation = graph->n_predicates + 1;
    arities[alone.head.relation] = graph->arities[rule->head.predicate];
    EsDatalogProgram program = {.n_relations = graph->n_predicates + 2,
                                .n_constants = graph->n_constants,
                                .n_rules = 1,
                                .arities = arities,
                                .rules = &alone,
                                .values = graph->values};
    EsDatalogSettings settings = {
        .limit = MANY_ATOMS * (1 + (int64_t)es_kg_count_facts_of(graph, rule->head.predicate)) +
                 n_facts};
    EsDatalog *datalog;
    ES_TRY(es_datalog_create(&program, &settings, &datalog));
    EsStatus status = count_given(graph, rule, datalog, confidence);
    es_datalog_destroy(datalog);
    return status;
}

static EsStatus find_confidences(EsProofFeatures *features) {
    const EsKnowledgeGraph *graph = features->graph;
    int32_t n_relations = graph->n_predicates + 2, *arities;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate((size_t)n_relations * sizeof *arities, (void **)&arities));
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        arities[p] = graph->arities[p];
    }
    for (int32_t r = 0; r < graph->n_rules && status == ES_STATUS_OK; r++) {
        status = find_confidence(graph, &graph->rules[r], arities, &features->confidence[r]);
    }
    es_release(arities);
    return status;
}

// --- predicates and constants ---

// Share of a predicate's facts that have a rule whose body atoms match facts.
static float find_proved_share(const EsKnowledgeGraph *graph, int32_t predicate) {
    int32_t n_facts = es_kg_count_facts_of(graph, predicate), n_rules, n_near = 0;
    const EsHornRule *rules = es_kg_rules_of(graph, predicate, &n_rules);
    for (int32_t i = 0; i < n_facts; i++) {
        const EsAtom *fact = fact_at(graph, predicate, i);
        int is_near = 0;
        for (int32_t r = 0; r < n_rules && !is_near; r++) {
            is_near = find_body_cost(graph, &rules[r], fact, fact, 0) == 0;
        }
        n_near += is_near;
    }
    return share_of(n_near, n_facts);
}

static void count_services(const EsKnowledgeGraph *graph, float *predicates) {
    for (int32_t r = 0; r < graph->n_rules; r++) {
        const EsHornRule *rule = &graph->rules[r];
        for (int i = 0; i < rule->n_body; i += es_kg_cells(graph, rule->body[i].predicate)) {
            size_t p = (size_t)rule->body[i].predicate;
            predicates[p * ES_PROOF_PREDICATE_FEATURES + P_SERVES] +=
                es_kg_is_test(graph, (int32_t)p) ? 0.0f : 1.0f;
        }
    }
}

static void describe_graph(EsProofFeatures *features) {
    const EsKnowledgeGraph *graph = features->graph;
    count_services(graph, features->predicates);
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        float *row = features->predicates + (size_t)p * ES_PROOF_PREDICATE_FEATURES;
        describe_facts(graph, p, row);
        describe_heads(features, p, row);
        row[P_SERVES] = squash((double)row[P_SERVES]);
        row[P_PROVED] = find_proved_share(graph, p);
    }
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        int32_t n_facts = es_kg_count_facts_of(graph, p);
        for (int32_t i = 0; i < n_facts; i++) {
            const EsAtom *fact = fact_at(graph, p, i);
            for (int place = 0; place < graph->arities[p]; place++) {
                features->degree[es_atom_term(fact, place)]++;
            }
        }
    }
}

EsStatus es_proof_features_create(const EsKnowledgeGraph *graph, EsProofFeatures **features_out) {
    EsProofFeatures *features = NULL;
    EsStatus status = ES_STATUS_OK;
    *features_out = NULL;
    if (graph->n_rules == 0) {
        return ES_FAIL(INPUT, "a graph without rules has no steps for a policy to choose from");
    }
    ES_TRY(es_allocate(sizeof *features, (void **)&features));
    features->graph = graph;
    ES_TRY_GOTO(
        es_allocate(sizeof(float) * ES_PROOF_PREDICATE_FEATURES * ((size_t)graph->n_predicates + 1),
                    (void **)&features->predicates));
    ES_TRY_GOTO(es_allocate(sizeof(int32_t) * ((size_t)graph->n_constants + 1),
                            (void **)&features->degree));
    ES_TRY_GOTO(
        es_allocate(sizeof(float) * (size_t)graph->n_rules, (void **)&features->confidence));
    ES_TRY_GOTO(find_confidences(features));
    describe_graph(features);
    *features_out = features;
done:
    if (status != ES_STATUS_OK) {
        es_proof_features_destroy(features);
    }
    return status;
}

void es_proof_features_destroy(EsProofFeatures *features) {
    if (features != NULL) {
        es_release(features->predicates);
        es_release(features->degree);
        es_release(features->confidence);
        es_release(features);
    }
}
