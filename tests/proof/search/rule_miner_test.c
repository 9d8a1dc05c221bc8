// The miner against counting by plain enumeration, and on families whose true rules are known.
#include "proof/search/rule_miner.h"

#include "proof/graph/kinship_graph.h"
#include "proof/graph/knowledge_builder.h"
#include "proof/random_graph.h"

#define C RANDOM_CONSTANTS
#define P RANDOM_PREDICATES

static EsMinedRules mine(const EsKnowledgeGraph *graph, const EsMinerSettings *settings,
                         int n_threads) {
    EsThreadPool *pool;
    EsMinedRules rules;
    REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
    REQUIRE_OK(es_rules_mine(graph, settings, pool, &rules));
    es_thread_pool_destroy(pool);
    return rules;
}

// --- plain enumeration ---

// Facts mined from and facts kept back.
typedef struct Facts {
    char is_fact[P + 1][C + 1][C + 1], is_kept[P + 1][C + 1][C + 1];
} Facts;

static EsAtom put_in(EsAtom atom, const int32_t values[5]) {
    return (EsAtom){atom.predicate, values[-atom.a], values[-atom.b]};
}

static int is_given(const Facts *facts, const EsHornRule *rule, int32_t x, int32_t y) {
    EsAtom head = {rule->head.predicate, x, y};
    for (int32_t zw = 0; zw < C * C; zw++) {
        int holds = 1;
        for (int k = 0; k < rule->n_body; k++) {
            EsAtom atom = put_in(rule->body[k], (int32_t[5]){0, x, y, 1 + zw / C, 1 + zw % C});
            holds = holds && facts->is_fact[atom.predicate][atom.a][atom.b] &&
                    es_atom_compare(&atom, &head) != 0;
        }
        if (holds) {
            return 1;
        }
    }
    return 0;
}

static EsMinedRule count_rule(const Facts *facts, const EsHornRule *rule) {
    EsMinedRule counted = {.rule = *rule};
    int32_t h = rule->head.predicate;
    for (int32_t x = 1; x <= C; x++) {
        int is_closed = 0;
        for (int32_t y = 1; y <= C; y++) {
            is_closed |= facts->is_fact[h][x][y];
        }
        for (int32_t y = 1; y <= C; y++) {
            if (is_given(facts, rule, x, y)) {
                counted.n_given++;
                counted.n_closed += is_closed;
                counted.support += facts->is_fact[h][x][y];
                counted.n_kept += facts->is_kept[h][x][y];
            }
        }
    }
    return counted;
}

// The second atom of a body: none, s(z,y) after r(x,z), and behind r(x,y): s(x,y), s(x,z), s(y,z).
enum { ONE, CHAIN, BOTH, FROM_X, FROM_Y, N_FORMS };

static EsAtom relation_atom(int32_t relation, int32_t u, int32_t v) {
    return relation % 2 ? (EsAtom){relation / 2 + 1, v, u} : (EsAtom){relation / 2 + 1, u, v};
}

static EsHornRule make_rule(int32_t first, int32_t second, int form, int32_t head) {
    EsHornRule rule = {.head = {head, -1, -2}, .n_body = form == ONE ? 1 : 2};
    rule.body[0] = relation_atom(first, -1, form == CHAIN ? -3 : -2);
    if (form != ONE) {
        rule.body[1] = relation_atom(second, form == CHAIN ? -3 : (form == FROM_Y ? -2 : -1),
                                     form == FROM_X || form == FROM_Y ? -3 : -2);
    }
    return rule;
}

static int has_head_in_body(const EsHornRule *rule) {
    return es_atom_compare(&rule->body[0], &rule->head) == 0 ||
           (rule->n_body > 1 && es_atom_compare(&rule->body[1], &rule->head) == 0);
}

static const EsMinedRule *find_rule(const EsMinedRules *rules, const EsHornRule *rule) {
    const EsMinedRule *found = NULL;
    for (int32_t i = 0; i < rules->count; i++) {
        const EsHornRule *other = &rules->items[i].rule;
        if (other->n_body == rule->n_body && es_atom_compare(&other->head, &rule->head) == 0) {
            int is_same = es_atom_compare(&other->body[0], &rule->body[0]) == 0 &&
                          es_atom_compare(&other->body[1], &rule->body[1]) == 0 &&
                          es_atom_compare(&other->body[2], &rule->body[2]) == 0;
            int is_swapped = rule->n_body == 2 &&
                             es_atom_compare(&other->body[0], &rule->body[1]) == 0 &&
                             es_atom_compare(&other->body[1], &rule->body[0]) == 0;
            if (is_same || is_swapped) {
                EXPECT(found == NULL); // listed once
                found = &rules->items[i];
            }
        }
    }
    return found;
}

static double confidence_of(const Facts *facts, EsHornRule rule) {
    EsMinedRule counted = count_rule(facts, &rule);
    return es_mined_rule_confidence(&counted);
}

// Compare one rule; returns whether it must be in the list.
static int compare_rule(const Facts *facts, const EsMinedRules *rules, int32_t r, int32_t s,
                        int form, int32_t h) {
    EsHornRule rule = make_rule(r, s, form, h);
    EsMinedRule counted = count_rule(facts, &rule);
    double confidence = es_mined_rule_confidence(&counted);
    int is_wanted = counted.support > 0 && !has_head_in_body(&rule);
    if (form != ONE && form != CHAIN) {
        is_wanted = is_wanted && confidence > confidence_of(facts, make_rule(r, 0, ONE, h)) &&
                    (form != BOTH || confidence > confidence_of(facts, make_rule(s, 0, ONE, h)));
    }
    const EsMinedRule *found = find_rule(rules, &rule);
    EXPECT_EQ(found != NULL, is_wanted);
    if (found != NULL) {
        EXPECT_EQ(found->support, counted.support);
        EXPECT_EQ(found->n_given, counted.n_given);
        EXPECT_EQ(found->n_closed, counted.n_closed);
        EXPECT_EQ(found->n_kept, counted.n_kept);
    }
    return is_wanted;
}

static int32_t compare_all(const Facts *facts, const EsMinedRules *rules) {
    int32_t n_wanted = 0;
    for (int32_t h = 1; h <= P; h++) {
        for (int32_t r = 0; r < 2 * P; r++) {
            n_wanted += compare_rule(facts, rules, r, 0, ONE, h);
            for (int32_t s = 0; s < 2 * P; s++) {
                n_wanted += compare_rule(facts, rules, r, s, CHAIN, h);
                n_wanted += s > r && compare_rule(facts, rules, r, s, BOTH, h);
                // r once more says nothing
                n_wanted += s != r && compare_rule(facts, rules, r, s, FROM_X, h);
                n_wanted += s != (r ^ 1) && compare_rule(facts, rules, r, s, FROM_Y, h);
            }
        }
    }
    return n_wanted;
}

// The same for paths of three steps.
static int32_t compare_paths(const Facts *facts, const EsMinedRules *rules) {
    int32_t n_wanted = 0;
    for (int32_t i = 0; i < P * 8 * P * P * P; i++) {
        int32_t first = i / P % (2 * P), second = i / P / (2 * P) % (2 * P);
        int32_t third = i / P / (4 * P * P);
        EsHornRule rule = {.head = {1 + i % P, -1, -2}, .n_body = 3, .n_variables = 4};
        rule.body[0] = relation_atom(first, -1, -3);
        rule.body[1] = relation_atom(second, -3, -4);
        rule.body[2] = relation_atom(third, -4, -2);
        EsMinedRule counted = count_rule(facts, &rule);
        const EsMinedRule *found = find_rule(rules, &rule);
        EXPECT_EQ(found != NULL, counted.support > 0);
        if (found != NULL) {
            EXPECT_EQ(found->support, counted.support);
            EXPECT_EQ(found->n_given, counted.n_given);
            EXPECT_EQ(found->n_closed, counted.n_closed);
            EXPECT_EQ(found->n_kept, counted.n_kept);
            EXPECT_EQ(found->rule.n_variables, 4);
        }
        n_wanted += counted.support > 0;
    }
    return n_wanted;
}

TEST(counts_are_those_of_plain_enumeration) {
    int64_t n_rules = 0, n_paths = 0;
    for (uint32_t number = 0; number < 12; number++) {
        char facts_text[2048] = "";
        Dice dice = {1000 + number, 0};
        for (int i = 0; i < 30; i++) {
            SmallAtom fact = draw_fact(&dice);
            size_t used = strlen(facts_text);
            snprintf(facts_text + used, sizeof facts_text - used, "%s(%s,%s) ", fact.predicate,
                     fact.a, fact.b);
        }
        EsKnowledgeGraph *graph =
            make_small_graph(facts_text, "", "p0(c0,c1) p1(c2,c3) p2(c4,c5) p3(c0,c0)");
        EsMinerSettings settings = es_miner_defaults();
        settings.min_support = 1;
        settings.min_confidence = 0;
        settings.held_out = number % 3 == 0 ? 0 : 0.3;
        settings.max_body = number % 4 < 2 ? 3 : 2;
        settings.seed = number;
        Facts facts;
        memset(&facts, 0, sizeof facts);
        for (int32_t i = 0; i < graph->n_facts; i++) {
            EsAtom atom = graph->facts[i];
            int is_kept = es_miner_keeps_back(&settings, i);
            facts.is_kept[atom.predicate][atom.a][atom.b] = (char)is_kept;
            facts.is_fact[atom.predicate][atom.a][atom.b] = (char)!is_kept;
        }
        EsMinedRules rules = mine(graph, &settings, 2);
        EXPECT_EQ(rules.n_facts + rules.n_kept, graph->n_facts);
        EXPECT_EQ(rules.n_kept > 0, settings.held_out > 0);
        int32_t n_two = compare_all(&facts, &rules);
        int32_t n_three = settings.max_body > 2 ? compare_paths(&facts, &rules) : 0;
        EXPECT_EQ(rules.count, n_two + n_three);
        n_rules += n_two;
        n_paths += n_three;
        es_mined_rules_destroy(&rules);
        es_kg_destroy(graph);
    }
    EXPECT(n_rules > 1000);
    EXPECT(n_paths > 1000);
}

// --- families ---

// The graph with its queries as facts: everything that is true of the families.
static EsKnowledgeGraph *make_whole(const EsKnowledgeGraph *graph) {
    EsKgBuilder *builder;
    EsKnowledgeGraph *whole;
    REQUIRE_OK(es_kg_builder_create_from(graph, &builder));
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        for (int32_t i = 0; i < graph->splits[split].count; i++) {
            REQUIRE_OK(es_kg_builder_add_fact(builder, &graph->splits[split].atoms[i]));
        }
    }
    REQUIRE_OK(es_kg_builder_finish(builder, &whole));
    es_kg_builder_destroy(builder);
    return whole;
}

TEST(the_rules_of_kinship_are_recovered) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(300, 1, &graph));
    EsKnowledgeGraph *whole = make_whole(graph);
    EsMinerSettings settings = es_miner_defaults();
    settings.held_out = 0;
    settings.min_confidence = 1;
    EsMinedRules rules = mine(whole, &settings, 2);
    int n_true = 0;
    for (int32_t i = 0; i < graph->n_rules; i++) {
        if (graph->rules[i].n_body <= 2) {
            const EsMinedRule *found = find_rule(&rules, &graph->rules[i]);
            EXPECT(found != NULL && es_mined_rule_confidence(found) == 1);
            n_true++;
        }
    }
    EXPECT_EQ(n_true, 51);
    es_mined_rules_destroy(&rules);
    // where three facts of ten are missing, confidence tells them from what is not so
    settings.min_confidence = 0.5;
    settings.held_out = 0.1;
    rules = mine(graph, &settings, 2);
    int n_kept = 0;
    for (int32_t i = 0; i < rules.count; i++) {
        const EsMinedRule *rule = &rules.items[i];
        EXPECT(rule->support >= 10 && es_mined_rule_confidence(rule) >= 0.5);
        EXPECT(es_mined_rule_pca_confidence(rule) >= es_mined_rule_confidence(rule));
        EXPECT(i == 0 ||
               es_mined_rule_confidence(rule) <= es_mined_rule_confidence(&rules.items[i - 1]));
        EXPECT_EQ(rule->rule.line, i + 1);
        n_kept += rule->n_kept > 0;
    }
    EXPECT(rules.count > 20);
    EXPECT(n_kept > rules.count / 2);
    es_mined_rules_destroy(&rules);
    es_kg_destroy(whole);
    es_kg_destroy(graph);
}

TEST(threads_change_nothing) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(200, 3, &graph));
    EsMinerSettings settings = es_miner_defaults();
    settings.min_support = 2;
    settings.min_confidence = 0.1;
    settings.max_body = 3;
    EsMinedRules one = mine(graph, &settings, 1), four = mine(graph, &settings, 4);
    EXPECT(one.count > 100);
    EXPECT_EQ(one.count, four.count);
    for (int32_t i = 0; i < one.count; i++) {
        const EsMinedRule *x = &one.items[i], *y = &four.items[i];
        EXPECT(memcmp(&x->rule, &y->rule, sizeof x->rule) == 0);
        EXPECT(x->n_given == y->n_given && x->support == y->support && x->n_closed == y->n_closed &&
               x->n_kept == y->n_kept);
    }
    settings.max_body = 1;
    EsMinedRules shorter = mine(graph, &settings, 1);
    for (int32_t i = 0; i < shorter.count; i++) {
        EXPECT_EQ(shorter.items[i].rule.n_body, 1);
        EXPECT(find_rule(&one, &shorter.items[i].rule) != NULL);
    }
    EXPECT(shorter.count > 0);
    es_mined_rules_destroy(&one);
    es_mined_rules_destroy(&four);
    es_mined_rules_destroy(&shorter);
    es_kg_destroy(graph);
}

static int stop_at_once(void *context) {
    (void)context;
    return 1;
}

TEST(a_stop_keeps_nothing) {
    EsKnowledgeGraph *graph = make_small_graph("p(a,b) q(a,b)", "", "");
    EsMinerSettings settings = es_miner_defaults();
    EsThreadPool *pool;
    EsMinedRules rules;
    settings.should_stop = stop_at_once;
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    EXPECT_STATUS(es_rules_mine(graph, &settings, pool, &rules), INTERRUPTED);
    EXPECT(rules.items == NULL && rules.count == 0);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}

TEST(settings_out_of_range) {
    EsKnowledgeGraph *graph = make_small_graph("p(a,b)", "", "");
    EsThreadPool *pool;
    EsMinedRules rules;
    REQUIRE_OK(es_thread_pool_create(&pool, 1));
    EsMinerSettings bad[4];
    for (int i = 0; i < 4; i++) {
        bad[i] = es_miner_defaults();
    }
    bad[0].min_support = 0;
    bad[1].min_confidence = 1.5;
    bad[2].max_body = 4;
    bad[3].held_out = 1;
    for (int i = 0; i < 4; i++) {
        EXPECT_STATUS(es_rules_mine(graph, &bad[i], pool, &rules), ARGUMENT);
    }
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}
