#include "proof/search/proof_tree.h"

#include "proof/graph/knowledge_graph.h"
#include "proof/random_graph.h"

#define N_GRAPHS 60

static EsProofTree *find_tree(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                              EsAtom query, int32_t *depth) {
    EsProofTree *tree = NULL;
    EsProverAnswer answer;
    REQUIRE_OK(es_proof_tree_find(graph, settings, &query, &tree, &answer));
    *depth = answer.depth;
    return tree;
}

static int32_t count_rules(const EsProofTree *tree) {
    int32_t n = 0;
    for (int32_t i = 0; i < tree->count; i++) {
        n += tree->nodes[i].rule != ES_PROOF_NODE_FACT;
    }
    return n;
}

TEST(the_worked_example) {
    EsKnowledgeGraph *graph = make_small_graph(
        "parent(ann,bob) parent(bob,cy)", "parent(x,y) parent(y,z) -> grand(x,z)", "grand(ann,cy)");
    EsProverSettings settings = es_prover_defaults();
    int32_t depth;
    EsAtom query = small_atom(graph, "grand(ann,cy)");
    EsProofTree *tree = find_tree(graph, &settings, query, &depth);
    EXPECT_EQ(depth, 2);
    EXPECT_EQ(tree->count, 3);
    EXPECT_EQ(tree->nodes[0].rule, 0);
    EXPECT(es_atom_equals(tree->nodes[1].atom, small_atom(graph, "parent(ann,bob)")));
    EXPECT(es_atom_equals(tree->nodes[2].atom, small_atom(graph, "parent(bob,cy)")));
    EXPECT_STATUS(es_proof_tree_check(tree), OK);
    char text[ES_RULE_TEXT_BYTES];
    es_horn_rule_format(graph, &graph->rules[0], text, sizeof text);
    EXPECT(strcmp(text, "parent(x,z), parent(z,y) -> grand(x,y)") == 0);
    // as snprintf: cut to the room, the length of the whole
    EXPECT_EQ(es_horn_rule_format(graph, &graph->rules[0], text, 12), 38);
    EXPECT(strcmp(text, "parent(x,z)") == 0);
    es_proof_tree_destroy(tree);
    es_proof_tree_destroy(NULL);
    es_kg_destroy(graph);
}

TEST(a_tree_as_text) {
    EsKnowledgeGraph *graph = make_small_graph(
        "parent(ann,bob) parent(bob,cy) man(ann,ann)",
        "parent(x,y) parent(y,z) -> grand(x,z); grand(x,y) man(x,x) -> grandpa(x,y)", "");
    EsProverSettings settings = es_prover_defaults();
    int32_t depth;
    EsProofTree *tree = find_tree(graph, &settings, small_atom(graph, "grandpa(ann,cy)"), &depth);
    static const char whole[] = "grandpa(ann,cy)\trule 2: grand(x,y), man(x,x) -> grandpa(x,y)\n"
                                "  grand(ann,cy)\trule 1: parent(x,z), parent(z,y) -> grand(x,y)\n"
                                "    parent(ann,bob)\tfact\n"
                                "    parent(bob,cy)\tfact\n"
                                "  man(ann,ann)\tfact\n";
    char text[sizeof whole + 8];
    EXPECT_EQ(es_proof_tree_format(tree, text, sizeof text), (int)sizeof whole - 1);
    EXPECT(strcmp(text, whole) == 0);
    EXPECT_EQ(es_proof_node_children(tree, 0), 2);
    // any room: the beginning, and the length of the whole
    for (size_t bytes = 0; bytes <= sizeof whole; bytes++) {
        memset(text, '#', sizeof text);
        EXPECT_EQ(es_proof_tree_format(tree, text, bytes), (int)sizeof whole - 1);
        size_t n = bytes > 0 ? ES_MIN(bytes, sizeof whole) - 1 : 0;
        EXPECT(memcmp(text, whole, n) == 0 && text[n] == (bytes > 0 ? '\0' : '#'));
        EXPECT(bytes == 0 || text[n + 1] == '#');
    }
    // a name that would end its line
    int32_t cy = es_kg_constant(graph, "cy");
    const char *name = graph->constant_names[cy];
    graph->constant_names[cy] = "c\ty\n";
    char strange[sizeof whole + 64];
    es_proof_tree_format(tree, strange, sizeof strange);
    EXPECT_CONTAINS(strange, "    parent(bob,'c?y?')\tfact\n  man(ann,ann)\tfact\n");
    graph->constant_names[cy] = name;
    es_proof_tree_destroy(tree);
    es_kg_destroy(graph);
}

TEST(a_fact_is_proved_without_itself) {
    EsKnowledgeGraph *graph =
        make_small_graph("p(a,b) q(b,a) p(c,d)", "q(y,x) -> p(x,y); p(x,y) -> p(x,y)", "");
    EsProverSettings settings = es_prover_defaults();
    int32_t depth;
    EsProofTree *tree = find_tree(graph, &settings, small_atom(graph, "p(a,b)"), &depth);
    EXPECT_EQ(depth, 1);
    EXPECT_EQ(tree->count, 2);
    EXPECT(es_atom_equals(tree->nodes[1].atom, small_atom(graph, "q(b,a)")));
    EXPECT_STATUS(es_proof_tree_check(tree), OK);
    es_proof_tree_destroy(tree);
    EXPECT(find_tree(graph, &settings, small_atom(graph, "p(c,d)"), &depth) == NULL);
    EXPECT_EQ(depth, ES_KG_DEPTH_NONE);
    es_kg_destroy(graph);
}

// Every query of every graph that has a proof: the tree is right, no larger than the proof is long,
// and any change to a node is noticed or harmless.
static int check_graph(const EsKnowledgeGraph *graph, EsGoalSelection selection) {
    EsProverSettings settings = es_prover_defaults();
    settings.selection = selection;
    int n_proved = 0;
    for (int32_t q = 0; q < graph->splits[ES_KG_SPLIT_TEST].count; q++) {
        EsAtom query = graph->splits[ES_KG_SPLIT_TEST].atoms[q];
        int32_t depth;
        EsProofTree *tree = find_tree(graph, &settings, query, &depth);
        EXPECT_EQ(tree != NULL, depth > 0);
        if (tree == NULL) {
            continue;
        }
        n_proved++;
        EXPECT_STATUS(es_proof_tree_check(tree), OK);
        EXPECT(es_atom_equals(tree->nodes[0].atom, query));
        EXPECT(count_rules(tree) <= depth);
        for (int32_t i = 0; i < tree->count; i++) {
            EsProofNode node = tree->nodes[i];
            if (node.rule == ES_PROOF_NODE_FACT) {
                EXPECT(es_kg_has_fact(graph, node.atom) && !es_atom_equals(node.atom, query));
                tree->nodes[i].atom = query;
                EXPECT_STATUS(es_proof_tree_check(tree), INPUT);
            } else {
                tree->nodes[i].rule = ES_PROOF_NODE_FACT;
                EXPECT_STATUS(es_proof_tree_check(tree), INPUT);
                tree->nodes[i].rule = graph->n_rules;
                EXPECT_STATUS(es_proof_tree_check(tree), INPUT);
                tree->nodes[i].rule = node.rule;
                tree->nodes[i].first = i;
                EXPECT_STATUS(es_proof_tree_check(tree), INPUT);
            }
            tree->nodes[i] = node;
        }
        es_proof_tree_destroy(tree);
    }
    return n_proved;
}

TEST(trees_of_random_graphs_hold) {
    int n_proved = 0;
    for (uint32_t number = 0; number < N_GRAPHS; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        n_proved += check_graph(graph, number % 2 == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST);
        es_kg_destroy(graph);
    }
    EXPECT(n_proved > 10 * N_GRAPHS);
}

TEST(states_that_do_not_follow_are_refused) {
    EsKnowledgeGraph *graph = make_small_graph(
        "parent(ann,bob) parent(bob,cy)", "parent(x,y) parent(y,z) -> grand(x,z)", "grand(ann,cy)");
    EsAtom query = small_atom(graph, "grand(ann,cy)");
    EsAtom middle[2] = {small_atom(graph, "parent(ann,V1)"), small_atom(graph, "parent(V1,cy)")};
    EsAtom wrong[2] = {small_atom(graph, "parent(ann,V1)"), small_atom(graph, "parent(V1,ann)")};
    EsAtomSpan right[2] = {{&query, 1}, {middle, 2}}, other[2] = {{&query, 1}, {wrong, 2}};
    EsAtomSpan open[1] = {{middle, 1}}, empty[2] = {{&query, 1}, {middle, 0}};
    EsProofTree *tree;
    REQUIRE_OK(es_proof_tree_create(graph, ES_GOAL_CONSTRAINED, right, 2, &tree));
    EXPECT_STATUS(es_proof_tree_check(tree), OK);
    es_proof_tree_destroy(tree);
    EXPECT_STATUS(es_proof_tree_create(graph, ES_GOAL_CONSTRAINED, other, 2, &tree), ARGUMENT);
    EXPECT(tree == NULL);
    EXPECT_STATUS(es_proof_tree_create(graph, ES_GOAL_CONSTRAINED, right, 1, &tree), ARGUMENT);
    EXPECT_STATUS(es_proof_tree_create(graph, ES_GOAL_CONSTRAINED, open, 1, &tree), ARGUMENT);
    EXPECT_STATUS(es_proof_tree_create(graph, ES_GOAL_CONSTRAINED, empty, 2, &tree), ARGUMENT);
    EXPECT_STATUS(es_proof_tree_create(graph, ES_GOAL_CONSTRAINED, right, 0, &tree), ARGUMENT);
    es_kg_destroy(graph);
}

TEST(first_derivations_are_proofs) {
    int64_t n_trees = 0;
    for (uint32_t number = 0; number < N_GRAPHS; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        const EsClosureSettings settings = {.limit = 100000, .keeps_provenance = 1};
        EsClosure *closure;
        REQUIRE_OK(es_closure_create_with(graph, &settings, &closure));
        for (int32_t q = 0; q < graph->splits[ES_KG_SPLIT_TEST].count; q++) {
            EsAtom atom = graph->splits[ES_KG_SPLIT_TEST].atoms[q];
            EsProofTree *tree;
            int is_too_large;
            REQUIRE_OK(es_proof_tree_derive(closure, &atom, &tree, &is_too_large));
            EXPECT_EQ(is_too_large, 0);
            EXPECT_EQ(tree != NULL, es_closure_has(closure, &atom) && !es_kg_has_fact(graph, atom));
            if (tree != NULL) {
                EXPECT(es_atom_equals(tree->nodes[0].atom, atom));
                EXPECT_STATUS(es_proof_tree_check(tree), OK);
                n_trees++;
            }
            es_proof_tree_destroy(tree);
        }
        es_closure_destroy(closure);
        es_kg_destroy(graph);
    }
    EXPECT(n_trees > 5 * N_GRAPHS);
}
