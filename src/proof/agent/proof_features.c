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
// pairs per fact of its head from which on a rule's confidence, below 1 / 50, is taken for 0
#define MANY_PAIRS 50

// Of a predicate; shares and squashed counts, all from 0 to 1.
typedef enum PredicateFeature {
    P_FACTS,       // share of all facts
    P_PER_A,       // facts per distinct first argument
    P_PER_B,       // facts per distinct second argument
    P_A_CONSTANTS, // share of constants that are a first argument
    P_B_CONSTANTS, // share of constants that are a second argument
    P_MIRRORED,    // share of facts p(x,y) with a fact p(y,x)
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
    G_A_CONSTANT,
    G_B_CONSTANT,
    G_TWICE,    // both arguments are one variable
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

// Facts but for the hidden one that a goal's constants leave.
static int32_t count_matches(const EsKnowledgeGraph *graph, EsAtom goal, EsAtom hidden) {
    int is_a_free = goal.a > graph->n_constants, is_b_free = goal.b > graph->n_constants;
    int32_t is_hidden = hidden.predicate == goal.predicate && (is_a_free || hidden.a == goal.a) &&
                        (is_b_free || hidden.b == goal.b);
    if (is_a_free && is_b_free) {
        return es_kg_facts_of(graph, goal.predicate).count - is_hidden;
    }
    if (is_b_free) {
        return es_kg_facts_with_a(graph, goal.predicate, goal.a).count - is_hidden;
    }
    return (is_a_free ? es_kg_facts_with_b(graph, goal.predicate, goal.b).count
                      : es_kg_has_fact(graph, goal)) -
           is_hidden;
}

// A term of a rule whose head took `terms`; all variables that stay free are taken for one.
static int32_t term_of(const EsKnowledgeGraph *graph, int32_t term, const int32_t *terms) {
    int32_t value = term < 0 ? terms[-1 - term] : term;
    return value == 0 ? graph->n_constants + 1 : value;
}

static int find_cost(const EsKnowledgeGraph *graph, EsAtom goal, EsAtom hidden, int n_ahead);

// Sum of cost_{n_ahead} over the body; -1 where the head does not unify.
static int find_body_cost(const EsKnowledgeGraph *graph, const EsHornRule *rule, EsAtom goal,
                          EsAtom hidden, int n_ahead) {
    int32_t terms[ES_HORN_MAX_VARIABLES];
    EsGoalBinding binding;
    if (!es_proof_unify_head(graph, rule, &goal, terms, &binding)) {
        return -1;
    }
    int cost = 0;
    for (int i = 0; i < rule->n_body && cost < ES_PROOF_MAX_COST; i++) {
        EsAtom atom = {rule->body[i].predicate, term_of(graph, rule->body[i].a, terms),
                       term_of(graph, rule->body[i].b, terms)};
        cost += find_cost(graph, atom, hidden, n_ahead);
    }
    return cost;
}

// A test costs nothing unless it is known to fail.
static int find_test_cost(const EsKnowledgeGraph *graph, EsAtom goal) {
    int is_open = goal.a > graph->n_constants || goal.b > graph->n_constants;
    return is_open || es_kg_test_holds(graph, &goal) ? 0 : ES_PROOF_MAX_COST;
}

static int find_cost(const EsKnowledgeGraph *graph, EsAtom goal, EsAtom hidden, int n_ahead) {
    if (es_kg_is_test(graph, goal.predicate)) {
        return find_test_cost(graph, goal);
    }
    if (count_matches(graph, goal, hidden) > 0) {
        return 0;
    }
    int32_t n_rules;
    const EsHornRule *rules = es_kg_rules_of(graph, goal.predicate, &n_rules);
    int least = n_ahead == 0 && n_rules > 0 ? 0 : ES_PROOF_MAX_COST;
    for (int32_t r = 0; r < n_rules && n_ahead > 0 && least > 0; r++) {
        int cost = find_body_cost(graph, &rules[r], goal, hidden, n_ahead - 1);
        least = cost >= 0 ? ES_MIN(least, cost) : least;
    }
    return ES_MIN(1 + least, ES_PROOF_MAX_COST);
}

int es_proof_features_cost(const EsProofFeatures *features, EsAtom goal, EsAtom hidden,
                           int n_rules) {
    return find_cost(features->graph, goal, hidden, n_rules);
}

float es_proof_features_confidence(const EsProofFeatures *features, int32_t rule) {
    return features->confidence[rule];
}

// Counts the goals other than `i` with this variable.
static int count_sharing(const EsKnowledgeGraph *graph, EsAtomSpan state, int32_t i, int32_t term) {
    int n = 0;
    for (int32_t k = 0; k < state.count && term > graph->n_constants; k++) {
        n += k != i && (state.atoms[k].a == term || state.atoms[k].b == term);
    }
    return n;
}

static void describe_rules(const EsProofFeatures *features, EsAtom goal, EsAtom hidden,
                           float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    int32_t n_rules, n_near = 0;
    const EsHornRule *rules = es_kg_rules_of(graph, goal.predicate, &n_rules);
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
static float describe_degree(const EsProofFeatures *features, int32_t constant, EsAtom hidden) {
    return squash(features->degree[constant] - (hidden.a == constant) - (hidden.b == constant));
}

static void describe_terms(const EsProofFeatures *features, EsAtomSpan state, EsAtom hidden,
                           int32_t i, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    EsAtom goal = state.atoms[i];
    row[G_TWICE] = goal.a == goal.b && goal.a > graph->n_constants;
    row[G_A_SHARED] = 0.5f * (float)count_sharing(graph, state, i, goal.a);
    row[G_B_SHARED] = 0.5f * (float)count_sharing(graph, state, i, goal.b);
    if (goal.a <= graph->n_constants) {
        row[G_A_CONSTANT] = 1.0f;
        EsAtom open = {goal.predicate, goal.a, graph->n_constants + 1};
        row[G_A_FACTS] = squash(count_matches(graph, open, hidden));
        row[G_A_DEGREE] = describe_degree(features, goal.a, hidden);
    }
    if (goal.b <= graph->n_constants) {
        row[G_B_CONSTANT] = 1.0f;
        EsAtom open = {goal.predicate, graph->n_constants + 1, goal.b};
        row[G_B_FACTS] = squash(count_matches(graph, open, hidden));
        row[G_B_DEGREE] = describe_degree(features, goal.b, hidden);
    }
}

static void describe_goal(const EsProofFeatures *features, EsAtomSpan state, EsAtom hidden,
                          int32_t i, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    EsAtom goal = state.atoms[i];
    int32_t n_matches = count_matches(graph, goal, hidden);
    memset(row, 0, sizeof *row * ES_PROOF_GOAL_FEATURES);
    describe_terms(features, state, hidden, i, row);
    row[G_MATCHES] = squash(n_matches);
    row[G_NO_MATCH] = n_matches == 0 && !es_kg_is_test(graph, goal.predicate);
    for (int32_t k = 0; k < state.count; k++) {
        row[G_REPEATED] += k != i && state.atoms[k].predicate == goal.predicate ? 0.5f : 0.0f;
    }
    row[G_COST_1] = (float)find_cost(graph, goal, hidden, 1) / ES_PROOF_MAX_COST;
    row[G_COST_2] = (float)find_cost(graph, goal, hidden, LOOKAHEAD) / ES_PROOF_MAX_COST;
    describe_rules(features, goal, hidden, row);
    memcpy(row + G_PREDICATE,
           features->predicates + (size_t)goal.predicate * ES_PROOF_PREDICATE_FEATURES,
           sizeof *row * ES_PROOF_PREDICATE_FEATURES);
}

// --- states ---

// Adds a goal to the features of the whole state.
static void add_goal(const EsKnowledgeGraph *graph, EsAtom goal, const float *row, float *whole) {
    const float share = 1.0f / 6.0f; // of the usual limit on goals
    whole[W_GOALS] += share;
    whole[W_GROUND] += goal.a <= graph->n_constants && goal.b <= graph->n_constants ? share : 0.0f;
    whole[W_NO_MATCH] += row[G_NO_MATCH] * share;
    whole[W_SUM_1] += row[G_COST_1];
    whole[W_SUM_2] += row[G_COST_2];
    whole[W_MOST_1] = ES_MAX(whole[W_MOST_1], row[G_COST_1]);
    whole[W_MOST_2] = ES_MAX(whole[W_MOST_2], row[G_COST_2]);
    whole[W_HOPELESS] += row[G_HOPELESS];
    whole[W_CHANCE] *= row[G_NO_MATCH] > 0 ? row[G_NOISY_OR] : 1.0f;
    // canonical numbering: the highest variable is their number
    int32_t n_variables = ES_MAX(goal.a, goal.b) - graph->n_constants;
    whole[W_VARIABLES] = ES_MAX(whole[W_VARIABLES], (float)n_variables * share);
}

void es_proof_features_describe(const EsProofFeatures *features, EsAtomSpan state, EsAtom hidden,
                                EsGoalSelection selection, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    float *mean = row + ES_PROOF_GOAL_FEATURES, *whole = mean + ES_PROOF_GOAL_FEATURES;
    float goal[ES_PROOF_GOAL_FEATURES], share = 1.0f / (float)state.count;
    memset(row, 0, sizeof *row * ES_PROOF_FEATURES);
    int32_t special = state.atoms[0].predicate - graph->n_predicates;
    if (special > 0) {
        whole[W_TRUE + special - ES_PROOF_PROVED] = 1.0f;
        return;
    }
    whole[W_CHANCE] = 1.0f;
    int32_t selected = es_proof_select(graph, state.atoms, state.count, selection);
    for (int32_t i = 0; i < state.count; i++) {
        describe_goal(features, state, hidden, i, goal);
        add_goal(graph, state.atoms[i], goal, whole);
        for (int e = 0; e < ES_PROOF_GOAL_FEATURES; e++) {
            mean[e] += goal[e] * share;
        }
        if (i == selected) {
            memcpy(row, goal, sizeof goal);
        }
    }
}

// --- the graph ---

static void describe_facts(const EsKnowledgeGraph *graph, int32_t predicate, float *row) {
    EsAtomSpan facts = es_kg_facts_of(graph, predicate);
    int32_t n_a = 0, n_b = 0, n_mirrored = 0;
    for (int32_t i = 0; i < facts.count; i++) {
        EsAtom fact = facts.atoms[i], mirror = {predicate, fact.b, fact.a};
        n_a += i == 0 || fact.a != facts.atoms[i - 1].a;
        n_mirrored += es_kg_has_fact(graph, mirror);
        // the first fact with this second argument stands for all of them
        n_b += es_kg_facts_with_b(graph, predicate, fact.b).atoms[0].a == fact.a;
    }
    row[P_FACTS] = share_of(facts.count, graph->n_facts);
    row[P_PER_A] = squash((double)share_of(facts.count, n_a));
    row[P_PER_B] = squash((double)share_of(facts.count, n_b));
    row[P_A_CONSTANTS] = share_of(n_a, graph->n_constants);
    row[P_B_CONSTANTS] = share_of(n_b, graph->n_constants);
    row[P_MIRRORED] = share_of(n_mirrored, facts.count);
}

static void describe_heads(const EsProofFeatures *features, int32_t predicate, float *row) {
    const EsKnowledgeGraph *graph = features->graph;
    double confidence = 0;
    int32_t n_rules, n_recursive = 0, n_short = 0, n_body = 0;
    const EsHornRule *rules = es_kg_rules_of(graph, predicate, &n_rules);
    for (int32_t r = 0; r < n_rules; r++) {
        int is_recursive = 0, n_atoms = 0;
        for (int i = 0; i < rules[r].n_body; i++) {
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

static EsStatus add_facts(const EsKnowledgeGraph *graph, const EsHornRule *rule,
                          EsDatalog *datalog) {
    for (int i = 0; i < rule->n_body; i++) {
        int32_t predicate = rule->body[i].predicate, stride = sizeof(EsAtom) / sizeof(int32_t);
        EsAtomSpan facts = es_kg_facts_of(graph, predicate);
        if (facts.count > 0) {
            ES_TRY(es_datalog_add_facts(datalog, predicate, &facts.atoms[0].a, stride, facts.count,
                                        NULL));
        }
    }
    return ES_STATUS_OK;
}

// The pairs that one rule gives over the facts, in a relation of their own behind all predicates.
static EsStatus count_pairs(const EsKnowledgeGraph *graph, const EsHornRule *rule,
                            EsDatalog *datalog, float *confidence) {
    int32_t predicate = rule->head.predicate, given = graph->n_predicates + 1, n_right = 0;
    ES_TRY(add_facts(graph, rule, datalog));
    ES_TRY(es_datalog_run(datalog, NULL));
    int32_t n_pairs = es_datalog_count(datalog, given);
    for (int32_t i = 0; i < n_pairs; i++) {
        const int32_t *terms = es_datalog_tuple(datalog, given, i);
        n_right += es_kg_has_fact(graph, (EsAtom){predicate, terms[0], terms[1]});
    }
    *confidence = es_datalog_is_complete(datalog)
                      ? (float)((double)n_right / ((double)n_pairs + ES_PROOF_SMOOTHING))
                      : 0.0f;
    return ES_STATUS_OK;
}

static EsStatus find_confidence(const EsKnowledgeGraph *graph, const EsHornRule *rule,
                                const int32_t *arities, float *confidence) {
    EsLiteral body[ES_HORN_MAX_BODY];
    int64_t limit = MANY_PAIRS * (1 + (int64_t)es_kg_facts_of(graph, rule->head.predicate).count);
    for (int i = 0; i < rule->n_body; i++) {
        body[i] = es_closure_literal(graph, &rule->body[i]);
        limit += es_kg_facts_of(graph, rule->body[i].predicate).count;
    }
    EsDatalogRule alone = {es_closure_literal(graph, &rule->head), body, rule->n_body};
    alone.head.relation = graph->n_predicates + 1;
    EsDatalogProgram program = {.n_relations = graph->n_predicates + 2,
                                .n_constants = graph->n_constants,
                                .n_rules = 1,
                                .arities = arities,
                                .rules = &alone,
                                .values = graph->values};
    EsDatalogSettings settings = {.limit = limit};
    EsDatalog *datalog;
    ES_TRY(es_datalog_create(&program, &settings, &datalog));
    EsStatus status = count_pairs(graph, rule, datalog, confidence);
    es_datalog_destroy(datalog);
    return status;
}

static EsStatus find_confidences(EsProofFeatures *features) {
    const EsKnowledgeGraph *graph = features->graph;
    int32_t n_relations = graph->n_predicates + 2, *arities;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate((size_t)n_relations * sizeof *arities, (void **)&arities));
    for (int32_t p = 0; p < n_relations; p++) {
        arities[p] = 2;
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
    EsAtomSpan facts = es_kg_facts_of(graph, predicate);
    int32_t n_rules, n_near = 0;
    const EsHornRule *rules = es_kg_rules_of(graph, predicate, &n_rules);
    for (int32_t i = 0; i < facts.count; i++) {
        int is_near = 0;
        for (int32_t r = 0; r < n_rules && !is_near; r++) {
            is_near = find_body_cost(graph, &rules[r], facts.atoms[i], facts.atoms[i], 0) == 0;
        }
        n_near += is_near;
    }
    return share_of(n_near, facts.count);
}

static void count_services(const EsKnowledgeGraph *graph, float *predicates) {
    for (int32_t r = 0; r < graph->n_rules; r++) {
        for (int i = 0; i < graph->rules[r].n_body; i++) {
            size_t p = (size_t)graph->rules[r].body[i].predicate;
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
    for (int32_t i = 0; i < graph->n_facts; i++) {
        features->degree[graph->facts[i].a]++;
        features->degree[graph->facts[i].b]++;
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
