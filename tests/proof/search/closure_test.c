#include "proof/search/closure.h"

#include "base/random_rules.h"
#include "proof/knowledge_case.h"

TEST(a_transitive_chain_closes) {
    char facts[4096] = "";
    const int n = 30;
    for (int i = 0; i < n; i++) {
        size_t used = strlen(facts);
        snprintf(facts + used, sizeof facts - used, "next(c%02d,c%02d)\n", i, i + 1);
    }
    EsKnowledgeGraph *graph;
    EsClosure *closure;
    REQUIRE_OK(build_case(
        facts, "before(c00,c30)\nbefore(c30,c00)\nnext(c00,c01)\n",
        "r1:1:next(x,y) -> before(x,y)\nr2:1:before(x,y), next(y,z) -> before(x,z)\n", &graph));
    REQUIRE_OK(es_closure_create(graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
    EXPECT_EQ(closure->is_complete, 1);
    EXPECT_EQ(closure->n_facts, n);
    EXPECT_EQ(closure->count, n + n * (n + 1) / 2);
    // one join per derived atom and pair: nothing is found twice on a chain
    EXPECT_EQ(closure->n_joined, n * (n + 1) / 2);
    EXPECT_EQ(es_closure_count_queries(closure, ES_KG_SPLIT_TEST), 2);
    EXPECT(es_closure_has(closure, (EsAtom[]){find_atom(graph, "before", "c03", "c17")}));
    EXPECT(!es_closure_has(closure, (EsAtom[]){find_atom(graph, "before", "c17", "c03")}));
    es_closure_destroy(closure);
    es_kg_destroy(graph);
    es_closure_destroy(NULL);
}

TEST(the_limit_is_told_and_kept) {
    EsKnowledgeGraph *graph;
    EsClosure *closure;
    REQUIRE_OK(build_case("p(a,b)\np(b,c)\np(c,d)\np(d,a)\n", NULL,
                          "r:1:p(x,y), p(y,z) -> p(x,z)\n", &graph));
    for (int32_t limit = 1; limit <= 20; limit++) {
        REQUIRE_OK(es_closure_create(graph, limit, &closure));
        // 16 atoms are all there are; reaching that number exactly is no overflow
        EXPECT_EQ(closure->is_complete, limit >= 16);
        EXPECT_EQ(closure->count, limit < 4 ? 4 : (limit < 16 ? limit : 16));
        es_closure_destroy(closure);
    }
    es_kg_destroy(graph);
}

TEST(without_facts_or_rules_nothing_is_derived) {
    EsKnowledgeGraph *graph;
    EsClosure *closure;
    REQUIRE_OK(build_case(NULL, "p(a,b)\n", "r:1:p(x,y) -> p(y,x)\n", &graph));
    REQUIRE_OK(es_closure_create(graph, 100, &closure));
    EXPECT_EQ(closure->count, 0);
    EXPECT_EQ(es_closure_count_queries(closure, ES_KG_SPLIT_TEST), 0);
    es_closure_destroy(closure);
    es_kg_destroy(graph);
    REQUIRE_OK(build_case("p(a,b)\n", NULL, NULL, &graph));
    REQUIRE_OK(es_closure_create(graph, 100, &closure));
    EXPECT_EQ(closure->count, 1);
    es_closure_destroy(closure);
    es_kg_destroy(graph);
}

TEST(negation_without_every_clause_is_refused) {
    EsKnowledgeGraph *graph;
    EsClosure *closure;
    REQUIRE_OK(build_case("p(a,b)\nq(b,a)\n", NULL, "r:1:p(x,y), not q(x,y) -> r(x,y)\n", &graph));
    graph->n_skipped = 2;
    EXPECT_STATUS(es_closure_create(graph, 100, &closure), INPUT);
    EXPECT(strstr(es_status_detail(), "2 were passed over") != NULL);
    EXPECT_STATUS(es_closure_decide(graph, 100), INPUT);
    EXPECT(graph->n_decided < 0);
    graph->n_skipped = 0;
    REQUIRE_OK(es_closure_create(graph, 100, &closure));
    EXPECT_EQ(closure->count, 3);
    es_closure_destroy(closure);
    es_kg_destroy(graph);
    // without negation more may follow, and nothing less
    REQUIRE_OK(build_case("p(a,b)\n", NULL, "r:1:p(x,y) -> r(x,y)\n", &graph));
    graph->n_skipped = 2;
    REQUIRE_OK(es_closure_create(graph, 100, &closure));
    es_closure_destroy(closure);
    es_kg_destroy(graph);
}

// --- against a plain fixpoint over tables ---

#define N 6 // constants
#define P 4 // predicates

typedef char Table[P + 1][N + 1][N + 1];

// All assignments of all variables of a rule, tried one by one.
static int apply_rule(const EsHornRule *rule, Table table) {
    int term[ES_HORN_MAX_VARIABLES + 1] = {0};
    int n_new = 0, n_assignments = 1;
    for (int v = 0; v < rule->n_variables; v++) {
        n_assignments *= N;
    }
    for (int assignment = 0; assignment < n_assignments; assignment++) {
        for (int v = 1, rest = assignment; v <= rule->n_variables; v++, rest /= N) {
            term[v] = 1 + rest % N;
        }
        int holds = 1;
        for (int k = 0; k < rule->n_body; k++) {
            EsAtom atom = rule->body[k];
            holds = holds && table[atom.predicate][term[-atom.a]][term[-atom.b]];
        }
        char *head = &table[rule->head.predicate][term[-rule->head.a]][term[-rule->head.b]];
        n_new += holds && !*head;
        *head = (char)(*head || holds);
    }
    return n_new;
}

static uint32_t draw(uint32_t round, uint32_t index, uint32_t n) {
    return es_random_below(es_random_draw(3, round, ES_PURPOSE_EVALUATION, index, 0).word[0], n);
}

// A random graph as text: every name occurs in the facts, so numbers follow from names.
static void draw_graph(uint32_t round, char facts[1024], char rules[1024]) {
    facts[0] = rules[0] = '\0';
    for (uint32_t i = 0; i < 3 + draw(round, 0, 10); i++) {
        size_t used = strlen(facts);
        snprintf(facts + used, 1024 - used, "p%u(c%u,c%u)\n", draw(round, 10 + 3 * i, P),
                 draw(round, 11 + 3 * i, N), draw(round, 12 + 3 * i, N));
    }
    for (uint32_t i = 0; i < 1 + draw(round, 1, 5); i++) {
        uint32_t base = 100 + 20 * i, n_body = 1 + draw(round, base, 3), used_variables[8];
        size_t used = strlen(rules);
        used += (size_t)snprintf(rules + used, 1024 - used, "r%u:1:", i);
        for (uint32_t k = 0; k < n_body; k++) {
            used_variables[2 * k] = draw(round, base + 1 + 3 * k, 4);
            used_variables[2 * k + 1] = draw(round, base + 2 + 3 * k, 4);
            used += (size_t)snprintf(rules + used, 1024 - used, "%sp%u(v%u,v%u)", k > 0 ? ", " : "",
                                     draw(round, base + 3 + 3 * k, P), used_variables[2 * k],
                                     used_variables[2 * k + 1]);
        }
        snprintf(rules + used, 1024 - used, " -> p%u(v%u,v%u)\n", draw(round, base + 17, P),
                 used_variables[draw(round, base + 18, 2 * n_body)],
                 used_variables[draw(round, base + 19, 2 * n_body)]);
    }
}

TEST(random_graphs_agree_with_a_plain_fixpoint) {
    int64_t n_derived = 0;
    for (uint32_t round = 0; round < 400; round++) {
        char facts[1024], rules[1024];
        draw_graph(round, facts, rules);
        EsKnowledgeGraph *graph;
        EsClosure *closure;
        REQUIRE_OK(build_case(facts, NULL, rules, &graph));
        REQUIRE_OK(es_closure_create(graph, 100000, &closure));
        Table table;
        memset(table, 0, sizeof table);
        for (int32_t i = 0; i < graph->n_facts; i++) {
            EsAtom fact = graph->facts[i];
            table[fact.predicate][fact.a][fact.b] = 1;
        }
        int n_new = 1;
        while (n_new > 0) {
            n_new = 0;
            for (int32_t r = 0; r < graph->n_rules; r++) {
                n_new += apply_rule(&graph->rules[r], table);
            }
        }
        int n_atoms = 0;
        for (int p = 1; p <= graph->n_predicates; p++) {
            for (int a = 1; a <= graph->n_constants; a++) {
                for (int b = 1; b <= graph->n_constants; b++) {
                    EXPECT_EQ(es_closure_has(closure, &(EsAtom){p, a, b}), table[p][a][b]);
                    n_atoms += table[p][a][b];
                }
            }
        }
        EXPECT_EQ(closure->count, n_atoms);
        n_derived += closure->count - closure->n_facts;
        es_closure_destroy(closure);
        es_kg_destroy(graph);
    }
    EXPECT(n_derived > 1000);
}
