// Features of states: costs against a search of its own, and nothing of names in any of them.
#include "proof/agent/proof_features.h"

#include "base/random_rules.h"
#include "proof/graph/kinship_graph.h"
#include "proof/search/prover.h"
#include "proof/small_graph.h"

static const EsAtom NOTHING = {0};

static EsProofFeatures *make_features(const EsKnowledgeGraph *graph) {
    EsProofFeatures *features = NULL;
    REQUIRE_OK(es_proof_features_create(graph, &features));
    return features;
}

static EsAtom atom_of(const EsKnowledgeGraph *graph, const char *predicate, const char *a,
                      const char *b) {
    EsAtom atom = {es_kg_predicate(graph, predicate), es_kg_constant(graph, a),
                   es_kg_constant(graph, b)};
    return atom;
}

// --- costs ---

// Cost one rule ahead.
static int cost_of(const EsProofFeatures *features, EsAtom goal) {
    return es_proof_features_cost(features, &goal, &NOTHING, 1);
}

TEST(costs_by_hand) {
    EsKnowledgeGraph *graph = make_small_graph(
        "parent(ann,bob) parent(bob,cy) likes(cy,ann)",
        "parent(x,y) parent(y,z) -> grand(x,z); grand(x,y) parent(y,z) -> great(x,z); "
        "grand(x,z) likes(z,y) -> odd(x,y); none(x,y) -> never(x,y); loop(x,x) -> same(x,x)",
        "loop(ann,ann)");
    EsProofFeatures *features = make_features(graph);
    int32_t free = graph->n_constants + 1;
    EsAtom fact = atom_of(graph, "parent", "ann", "bob");
    EXPECT_EQ(es_proof_features_cost(features, &fact, &NOTHING, 2), 0);
    EsAtom half = {fact.predicate, fact.a, free};
    EXPECT_EQ(es_proof_features_cost(features, &half, &NOTHING, 0), 0);
    half.a = es_kg_constant(graph, "cy"); // nobody's parent, and no rule says so
    EXPECT_EQ(es_proof_features_cost(features, &half, &NOTHING, 0), ES_PROOF_MAX_COST);
    EsAtom grand = atom_of(graph, "grand", "ann", "cy");
    EXPECT_EQ(es_proof_features_cost(features, &grand, &NOTHING, 0), 1);
    EXPECT_EQ(es_proof_features_cost(features, &grand, &NOTHING, 1), 1);
    // parent(bob,?) and parent(?,bob) both match, though no child of bob's is bob's parent
    EsAtom guess = atom_of(graph, "grand", "bob", "bob");
    EXPECT_EQ(es_proof_features_cost(features, &guess, &NOTHING, 2), 1);
    // grand(cy,?) needs parent(cy,?), which nothing gives
    EsAtom odd = atom_of(graph, "odd", "cy", "ann");
    EXPECT_EQ(es_proof_features_cost(features, &odd, &NOTHING, 1), 2);
    EXPECT_EQ(es_proof_features_cost(features, &odd, &NOTHING, 2), ES_PROOF_MAX_COST);
    odd.a = es_kg_constant(graph, "ann");
    EXPECT_EQ(es_proof_features_cost(features, &odd, &NOTHING, 2), 2);
    // a rule whose body nothing can prove
    EsAtom never = atom_of(graph, "never", "ann", "bob");
    EXPECT_EQ(es_proof_features_cost(features, &never, &NOTHING, 1), ES_PROOF_MAX_COST);
    // a head that does not unify is no rule of the goal
    EsAtom same = atom_of(graph, "same", "ann", "bob");
    EXPECT_EQ(es_proof_features_cost(features, &same, &NOTHING, 1), ES_PROOF_MAX_COST);
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

// A rule that compares is described as the same rule without: a comparison is no relation.
TEST(comparisons_are_no_goals) {
    const char *facts = "p(a,b) p(b,c) p(c,a) p(a,d)";
    EsKnowledgeGraph *graph =
        make_small_graph(facts, "p(x,z) p(z,y) !=(x,y) -> q(x,y); p(x,z) !=(x,z) -> s(x,x)", "");
    EsKnowledgeGraph *plain =
        make_small_graph(facts, "p(x,z) p(z,y) -> q(x,y); p(x,z) -> s(x,x)", "");
    EsProofFeatures *features = make_features(graph), *plain_features = make_features(plain);
    EXPECT_EQ(cost_of(features, small_atom(graph, "q(a,c)")), 1);
    EXPECT_EQ(cost_of(features, small_atom(graph, "q(a,V1)")), 1);
    EXPECT_EQ(cost_of(features, small_atom(graph, "s(a,a)")), 1);
    // what is known to fail is no way to a proof
    EXPECT_EQ(cost_of(features, small_atom(graph, "q(a,a)")), ES_PROOF_MAX_COST);
    EXPECT_EQ(cost_of(plain_features, small_atom(plain, "q(a,a)")), 1);
    const char *goals[] = {"q(a,V1)", "q(a,c)", "s(d,d)", "p(V1,V2)"};
    for (size_t i = 0; i < ES_COUNT_OF(goals); i++) {
        float row[ES_PROOF_FEATURES], plain_row[ES_PROOF_FEATURES];
        EsAtom goal = small_atom(graph, goals[i]), plain_goal = small_atom(plain, goals[i]);
        es_proof_features_describe(features, (EsAtomSpan){&goal, 1}, &NOTHING, ES_GOAL_CONSTRAINED,
                                   row);
        es_proof_features_describe(plain_features, (EsAtomSpan){&plain_goal, 1}, &NOTHING,
                                   ES_GOAL_CONSTRAINED, plain_row);
        for (int e = 0; e < ES_PROOF_FEATURES; e++) {
            EXPECT(row[e] == plain_row[e]);
        }
        if (i ==
            0) { // its tenth feature of a predicate, part of the format: two body atoms of three
            EXPECT(row[ES_PROOF_GOAL_FEATURES - ES_PROOF_PREDICATE_FEATURES + 9] == 2.0f / 3.0f);
        }
    }
    // an open comparison in a state is not taken for a goal without hope
    EsAtom state[2] = {small_atom(graph, "p(a,V1)"), small_atom(graph, "!=(V1,b)")};
    float row[ES_PROOF_FEATURES];
    es_proof_features_describe(features, (EsAtomSpan){state, 2}, &NOTHING, ES_GOAL_CONSTRAINED,
                               row);
    EXPECT(row[ES_PROOF_FEATURES - 2] == 0.0f);
    EXPECT(row[ES_PROOF_FEATURES - 1] == 1.0f);
    es_proof_features_destroy(features);
    es_proof_features_destroy(plain_features);
    es_kg_destroy(graph);
    es_kg_destroy(plain);
}

// The formula of the header over lists of facts and rules, without indices; 0 stands for a free
// term.
static int slow_cost(const EsKnowledgeGraph *graph, EsAtom goal, int n_ahead) {
    for (int32_t i = 0; i < graph->n_facts; i++) {
        EsAtom fact = graph->facts[i];
        if (fact.predicate == goal.predicate && (goal.a == 0 || goal.a == fact.a) &&
            (goal.b == 0 || goal.b == fact.b)) {
            return 0;
        }
    }
    int best = ES_PROOF_MAX_COST, has_rule = 0;
    for (int32_t r = 0; r < graph->n_rules; r++) {
        const EsHornRule *rule = &graph->rules[r];
        if (rule->head.predicate != goal.predicate) {
            continue;
        }
        has_rule = 1;
        int cost = 0;
        for (int i = 0; i < rule->n_body && n_ahead > 0; i++) {
            EsAtom atom = rule->body[i];
            int32_t a = atom.a == rule->head.a ? goal.a : atom.a == rule->head.b ? goal.b : 0;
            int32_t b = atom.b == rule->head.a ? goal.a : atom.b == rule->head.b ? goal.b : 0;
            cost += slow_cost(graph, (EsAtom){atom.predicate, a, b}, n_ahead - 1);
        }
        best = cost < best ? cost : best;
    }
    if (n_ahead == 0) {
        return has_rule ? 1 : ES_PROOF_MAX_COST;
    }
    return 1 + best < ES_PROOF_MAX_COST ? 1 + best : ES_PROOF_MAX_COST;
}

TEST(costs_follow_the_formula) {
    EsKnowledgeGraph *graph = NULL;
    REQUIRE_OK(es_kinship_graph_create(40, 5, &graph)); // no head of its rules has a variable twice
    EsProofFeatures *features = make_features(graph);
    int n_of_cost[ES_PROOF_MAX_COST + 1] = {0};
    for (uint32_t i = 0; i < 400; i++) {
        EsRandom4 draw = es_random_draw(1, i, ES_PURPOSE_DATA_ORDER, 0, 0);
        int32_t free = graph->n_constants + 1;
        EsAtom goal = {1 + (int32_t)es_random_below(draw.word[0], (uint32_t)graph->n_predicates),
                       1 + (int32_t)es_random_below(draw.word[1], (uint32_t)graph->n_constants),
                       1 + (int32_t)es_random_below(draw.word[2], (uint32_t)graph->n_constants)};
        EsAtom slow = goal;
        goal.a = i % 4 == 1 ? free : goal.a;
        goal.b = i % 4 == 2 ? free : goal.b;
        slow.a = i % 4 == 1 ? 0 : slow.a;
        slow.b = i % 4 == 2 ? 0 : slow.b;
        for (int n_ahead = 0; n_ahead <= 2; n_ahead++) {
            int cost = es_proof_features_cost(features, &goal, &NOTHING, n_ahead);
            EXPECT_EQ(cost, slow_cost(graph, slow, n_ahead));
            n_of_cost[cost]++;
        }
    }
    EXPECT(n_of_cost[0] > 50 && n_of_cost[1] > 50 && n_of_cost[2] > 50);
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

// --- names ---

// Number i of n, the last first.
static int32_t turned(int32_t i, int32_t n) { return n + 1 - i; }

static int32_t intern_turned(EsKgBuilder *builder, EsKgNameKind kind, int32_t i, int32_t n) {
    char name[32];
    int32_t number = 0;
    int bytes = snprintf(name, sizeof name, "other%06d", turned(i, n));
    REQUIRE_OK(es_kg_builder_intern(builder, kind, name, (size_t)bytes, &number));
    return number;
}

static EsAtom intern_turned_atom(EsKgBuilder *builder, const EsKnowledgeGraph *graph, EsAtom atom) {
    EsAtom turned_atom = {
        intern_turned(builder, ES_KG_PREDICATE, atom.predicate, graph->n_predicates), atom.a,
        atom.b};
    if (atom.a > 0) {
        turned_atom.a = intern_turned(builder, ES_KG_CONSTANT, atom.a, graph->n_constants);
        turned_atom.b = intern_turned(builder, ES_KG_CONSTANT, atom.b, graph->n_constants);
    }
    return turned_atom;
}

// The same graph under names of another order: constant i becomes C + 1 - i, predicates likewise.
static EsKnowledgeGraph *turn_graph(const EsKnowledgeGraph *graph) {
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *other = NULL;
    REQUIRE_OK(es_kg_builder_create(&builder));
    for (int32_t i = 1; i <= graph->n_constants; i++) {
        intern_turned(builder, ES_KG_CONSTANT, i, graph->n_constants);
    }
    for (int32_t i = 0; i < graph->n_facts; i++) {
        REQUIRE_OK(es_kg_builder_add_fact(
            builder, (EsAtom[]){intern_turned_atom(builder, graph, graph->facts[i])}));
    }
    for (int32_t r = 0; r < graph->n_rules; r++) {
        EsHornRule rule = graph->rules[r];
        rule.head = intern_turned_atom(builder, graph, rule.head);
        for (int i = 0; i < rule.n_body; i++) {
            rule.body[i] = intern_turned_atom(builder, graph, rule.body[i]);
        }
        REQUIRE_OK(es_kg_builder_add_rule(builder, &rule));
    }
    REQUIRE_OK(es_kg_builder_finish(builder, &other));
    es_kg_builder_destroy(builder);
    return other;
}

static int32_t turn_term(const EsKnowledgeGraph *graph, int32_t term) {
    return term <= graph->n_constants ? turned(term, graph->n_constants) : term;
}

typedef struct NamesCase {
    EsKnowledgeGraph *graph, *other;
    EsProofFeatures *features, *other_features;
    int n_compared;
} NamesCase;

static void compare_state(NamesCase *test, EsAtomSpan state) {
    EsAtom atoms[ES_PROOF_MAX_ATOMS];
    float row[ES_PROOF_FEATURES], other[ES_PROOF_FEATURES];
    for (int32_t i = 0; i < state.count; i++) {
        EsAtom atom = state.atoms[i];
        atoms[i] = (EsAtom){turned(atom.predicate, test->graph->n_predicates),
                            turn_term(test->graph, atom.a), turn_term(test->graph, atom.b)};
    }
    es_proof_features_describe(test->features, state, &NOTHING, ES_GOAL_CONSTRAINED, row);
    es_proof_features_describe(test->other_features, (EsAtomSpan){atoms, state.count}, &NOTHING,
                               ES_GOAL_CONSTRAINED, other);
    EXPECT_EQ(memcmp(row, other, sizeof row), 0);
    for (int i = 0; i < ES_PROOF_FEATURES; i++) {
        EXPECT(row[i] >= 0 && row[i] <= 6);
    }
    test->n_compared++;
}

TEST(names_and_their_order_change_no_bit) {
    NamesCase test = {.graph = NULL};
    REQUIRE_OK(es_kinship_graph_create(60, 2, &test.graph));
    test.other = turn_graph(test.graph);
    EXPECT_EQ(test.other->n_constants, test.graph->n_constants);
    EXPECT_EQ(test.other->n_predicates, test.graph->n_predicates);
    test.features = make_features(test.graph);
    test.other_features = make_features(test.other);
    EsSuccessors successors = {0};
    int32_t most = es_proof_max_candidates(test.graph) + 1;
    REQUIRE_OK(es_successors_create(most, 6, &successors));
    EsProofSettings settings = {.max_atoms = 6, .max_states = most};
    const EsQuerySplit *split = &test.graph->splits[ES_KG_SPLIT_TEST];
    for (int32_t q = 0; q < split->count; q++) {
        EsAtom query = split->atoms[q], state[ES_PROOF_MAX_ATOMS] = {query};
        int32_t n_atoms = 1;
        compare_state(&test, (EsAtomSpan){&query, 1});
        for (int step = 0; step < 3; step++) {
            es_proof_expand(test.graph, &settings, &query, state, n_atoms, NULL, &successors);
            if (successors.outcome != ES_PROOF_OPEN) {
                break;
            }
            for (int32_t k = 0; k < successors.count; k++) {
                compare_state(&test, es_successor(&successors, k));
            }
            EsAtomSpan next = es_successor(&successors, (q + step) % successors.count);
            n_atoms = next.count;
            memcpy(state, next.atoms, sizeof *state * (size_t)n_atoms);
        }
    }
    EXPECT(test.n_compared > 300);
    es_successors_destroy(&successors);
    es_proof_features_destroy(test.features);
    es_proof_features_destroy(test.other_features);
    es_kg_destroy(test.graph);
    es_kg_destroy(test.other);
}

// --- states ---

// A graph of facts and rules without one of the facts.
static EsKnowledgeGraph *drop_fact(const EsKnowledgeGraph *graph, EsAtom dropped) {
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *other = NULL;
    REQUIRE_OK(es_kg_builder_create(&builder));
    for (int32_t i = 1; i <= graph->n_constants; i++) {
        int32_t number;
        REQUIRE_OK(es_kg_builder_intern(builder, ES_KG_CONSTANT, graph->constant_names[i],
                                        strlen(graph->constant_names[i]), &number));
    }
    for (int32_t i = 1; i <= graph->n_predicates; i++) {
        int32_t number;
        REQUIRE_OK(es_kg_builder_intern(builder, ES_KG_PREDICATE, graph->predicate_names[i],
                                        strlen(graph->predicate_names[i]), &number));
    }
    for (int32_t i = 0; i < graph->n_facts; i++) {
        if (!es_atom_equals(graph->facts[i], dropped)) {
            REQUIRE_OK(es_kg_builder_add_fact(builder, &graph->facts[i]));
        }
    }
    for (int32_t r = 0; r < graph->n_rules; r++) {
        REQUIRE_OK(es_kg_builder_add_rule(builder, &graph->rules[r]));
    }
    REQUIRE_OK(es_kg_builder_finish(builder, &other));
    es_kg_builder_destroy(builder);
    return other;
}

// Compares all but confidences and statistics of predicates, which are of the graph.
static int same_but_statistics(const float *row, const float *other) {
    size_t n_goal = ES_PROOF_GOAL_FEATURES - ES_PROOF_PREDICATE_FEATURES - 2;
    const float *whole = row + 2 * ES_PROOF_GOAL_FEATURES;
    const float *other_whole = other + 2 * ES_PROOF_GOAL_FEATURES;
    return memcmp(row, other, n_goal * sizeof *row) == 0 &&
           memcmp(row + ES_PROOF_GOAL_FEATURES, other + ES_PROOF_GOAL_FEATURES,
                  n_goal * sizeof *row) == 0 &&
           memcmp(whole, other_whole, (ES_PROOF_WHOLE_FEATURES - 1) * sizeof *row) == 0;
}

TEST(a_query_that_is_a_fact_counts_as_one_that_is_none) {
    EsKnowledgeGraph *graph = NULL;
    REQUIRE_OK(es_kinship_graph_create(40, 5, &graph));
    EsProofFeatures *features = make_features(graph);
    int n_changed = 0;
    for (int32_t i = 0; i < graph->n_facts; i += 7) {
        EsAtom fact = graph->facts[i];
        EsKnowledgeGraph *without = drop_fact(graph, fact);
        EsProofFeatures *other_features = make_features(without);
        int32_t free = graph->n_constants + 1;
        EsAtom states[][2] = {{fact, fact},
                              {{fact.predicate, fact.a, free}, {fact.predicate, free, fact.b}},
                              {{fact.predicate, free, free + 1}, graph->facts[(i + 3) % 50]}};
        for (size_t k = 0; k < ES_COUNT_OF(states); k++) {
            float seen[ES_PROOF_FEATURES], row[ES_PROOF_FEATURES], other[ES_PROOF_FEATURES];
            EsAtomSpan state = {states[k], k == 0 ? 1 : 2};
            es_proof_features_describe(features, state, &NOTHING, ES_GOAL_CONSTRAINED, seen);
            es_proof_features_describe(features, state, &fact, ES_GOAL_CONSTRAINED, row);
            es_proof_features_describe(other_features, state, &NOTHING, ES_GOAL_CONSTRAINED, other);
            EXPECT(same_but_statistics(row, other));
            n_changed += !same_but_statistics(row, seen);
        }
        es_proof_features_destroy(other_features);
        es_kg_destroy(without);
    }
    EXPECT(n_changed > 50);
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

TEST(confidences_of_rules) {
    // of the pairs (b,a) (a,b) (c,a) that the first rule gives two are facts; of (a,b) (b,a) that
    // the second gives one; the third gives none
    EsKnowledgeGraph *graph =
        make_small_graph("knows(a,b) knows(b,a) knows(a,c) likes(a,b) likes(c,a)",
                         "knows(y,x) -> likes(x,y); knows(x,y) knows(y,x) !=(x,y) -> likes(x,y); "
                         "likes(x,x) -> likes(x,x)",
                         "");
    EsProofFeatures *features = make_features(graph);
    EXPECT(es_proof_features_confidence(features, 0) == 2.0f / (3 + ES_PROOF_SMOOTHING));
    EXPECT(es_proof_features_confidence(features, 1) == 1.0f / (2 + ES_PROOF_SMOOTHING));
    EXPECT(es_proof_features_confidence(features, 2) == 0.0f);
    // both bodies match for likes(b,a), the first alone for likes(c,a)
    float row[ES_PROOF_FEATURES];
    int highest = ES_PROOF_GOAL_FEATURES - ES_PROOF_PREDICATE_FEATURES - 2;
    EsAtom goal = small_atom(graph, "likes(b,a)");
    es_proof_features_describe(features, (EsAtomSpan){&goal, 1}, &NOTHING, ES_GOAL_CONSTRAINED,
                               row);
    EXPECT(row[highest] == 0.25f);
    EXPECT_NEAR(row[highest + 1], 1 - 0.75 * 6 / 7, 1e-6);
    EXPECT(row[ES_PROOF_FEATURES - 1] == row[highest + 1]); // the one goal's
    goal = small_atom(graph, "likes(c,a)");
    es_proof_features_describe(features, (EsAtomSpan){&goal, 1}, &NOTHING, ES_GOAL_CONSTRAINED,
                               row);
    EXPECT(row[highest] == 0.25f && row[highest + 1] == 0.25f);
    EXPECT(row[ES_PROOF_FEATURES - 1] == 1.0f); // a fact
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

// Pairs of the rules of a village by trying all of them.
TEST(confidences_by_enumeration) {
    EsKnowledgeGraph *graph = NULL;
    REQUIRE_OK(es_kinship_graph_create(24, 3, &graph));
    EsProofFeatures *features = make_features(graph);
    int n_above = 0, C = graph->n_constants;
    for (int32_t r = 0; r < graph->n_rules; r++) {
        const EsHornRule *rule = &graph->rules[r];
        int n_pairs = 0, n_right = 0;
        for (int32_t x = 1; x <= C; x++) {
            for (int32_t y = 1; y <= C; y++) {
                int is_given = 0;
                for (int32_t z = 1; z <= C && !is_given; z++) {
                    is_given = 1;
                    for (int i = 0; i < rule->n_body; i++) {
                        EsAtom atom = rule->body[i];
                        int32_t a = atom.a == rule->head.a ? x : atom.a == rule->head.b ? y : z;
                        int32_t b = atom.b == rule->head.a ? x : atom.b == rule->head.b ? y : z;
                        EsAtom ground = {atom.predicate, a, b};
                        is_given &= es_kg_has_fact(graph, ground);
                    }
                }
                n_pairs += is_given;
                n_right += is_given && es_kg_has_fact(graph, (EsAtom){rule->head.predicate, x, y});
            }
        }
        float expected = (float)((double)n_right / (n_pairs + ES_PROOF_SMOOTHING));
        EXPECT(es_proof_features_confidence(features, r) == expected);
        n_above += expected > 0.3f;
    }
    EXPECT(n_above > 5);
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

TEST(terminal_states_differ_and_nothing_else_does) {
    EsKnowledgeGraph *graph = make_small_graph("parent(ann,bob) parent(bob,cy)",
                                               "parent(x,y) parent(y,z) -> grand(x,z)", "");
    EsProofFeatures *features = make_features(graph);
    float rows[3][ES_PROOF_FEATURES];
    for (int outcome = ES_PROOF_PROVED; outcome <= ES_PROOF_ENDED; outcome++) {
        EsAtom atom = es_proof_terminal(graph, (EsProofOutcome)outcome);
        float *row = rows[outcome - ES_PROOF_PROVED], sum = 0;
        es_proof_features_describe(features, (EsAtomSpan){&atom, 1}, &NOTHING, ES_GOAL_CONSTRAINED,
                                   row);
        for (int i = 0; i < ES_PROOF_FEATURES; i++) {
            sum += row[i];
        }
        EXPECT(sum == 1);
    }
    EXPECT(memcmp(rows[0], rows[1], sizeof rows[0]) != 0);
    EXPECT(memcmp(rows[1], rows[2], sizeof rows[0]) != 0);
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

TEST(the_selected_goal_stands_first) {
    EsKnowledgeGraph *graph = make_small_graph("parent(ann,bob) parent(bob,cy)",
                                               "parent(x,y) parent(y,z) -> grand(x,z)", "");
    EsProofFeatures *features = make_features(graph);
    int32_t free = graph->n_constants + 1;
    EsAtom state[2] = {{es_kg_predicate(graph, "parent"), free, free + 1},
                       atom_of(graph, "grand", "ann", "cy")};
    float constrained[ES_PROOF_FEATURES], leftmost[ES_PROOF_FEATURES], alone[ES_PROOF_FEATURES];
    es_proof_features_describe(features, (EsAtomSpan){state, 2}, &NOTHING, ES_GOAL_CONSTRAINED,
                               constrained);
    es_proof_features_describe(features, (EsAtomSpan){state, 2}, &NOTHING, ES_GOAL_LEFTMOST,
                               leftmost);
    es_proof_features_describe(features, (EsAtomSpan){state + 1, 1}, &NOTHING, ES_GOAL_CONSTRAINED,
                               alone);
    size_t goal_bytes = sizeof(float) * ES_PROOF_GOAL_FEATURES;
    EXPECT_EQ(memcmp(constrained, alone, goal_bytes), 0);
    EXPECT(memcmp(constrained, leftmost, goal_bytes) != 0);
    // all but the first goal is the same
    EXPECT_EQ(memcmp(constrained + ES_PROOF_GOAL_FEATURES, leftmost + ES_PROOF_GOAL_FEATURES,
                     sizeof constrained - goal_bytes),
              0);
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

TEST(a_graph_without_rules_is_refused) {
    EsKnowledgeGraph *graph = make_small_graph("parent(ann,bob)", "", "");
    EsProofFeatures *features = NULL;
    EXPECT_STATUS(es_proof_features_create(graph, &features), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "without rules");
    EXPECT(features == NULL);
    es_kg_destroy(graph);
}
