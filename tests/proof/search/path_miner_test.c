// The miner of paths and constants against plain enumeration, on graphs whose confidences are
// known, on any number of threads, and stopped.
#include "proof/search/path_miner.h"

#include <stddef.h>

#include "proof/graph/kinship_graph.h"
#include "proof/graph/knowledge_text.h"
#include "proof/path_case.h"
#include "proof/search/closure.h"

static EsPathMinerSettings all_rules(void) {
    EsPathMinerSettings settings = es_path_miner_defaults();
    settings.min_support = 1;
    settings.min_confidence = 0;
    return settings;
}

// --- graphs whose rules are known ---

static const EsPathRule *find_text(const EsKnowledgeGraph *graph, const EsPathRules *rules,
                                   const char *wanted) {
    for (int32_t i = 0; i < rules->count; i++) {
        char text[ES_PATH_RULE_TEXT_BYTES];
        es_path_rule_format(graph, &rules->items[i], text, sizeof text);
        if (strcmp(text, wanted) == 0) {
            return &rules->items[i];
        }
    }
    return NULL;
}

static void expect_rule(const EsKnowledgeGraph *graph, const EsPathRules *rules, const char *text,
                        int32_t support, int64_t n_given) {
    const EsPathRule *rule = find_text(graph, rules, text);
    if (rule == NULL) {
        ES_TEST_FAIL("no rule \"%s\"", text);
    }
    EXPECT_EQ(rule->support, support);
    EXPECT_EQ(rule->n_given, n_given);
}

TEST(counts_by_hand) {
    // grand holds of two of the three pairs two parents apart; lives, of ann and bob, in rome
    EsKnowledgeGraph *graph = make_small_graph(
        "parent(ann,bob) parent(bob,cy) parent(cy,dan) parent(dan,eve) grand(ann,cy) "
        "grand(bob,dan) lives(ann,rome) lives(bob,rome) lives(cy,oslo) speaks(ann,latin) "
        "speaks(bob,latin) great(ann,dan)",
        "", "");
    EsPathMinerSettings settings = all_rules();
    EsPathRules rules = mine_paths(graph, &settings, 1);
    expect_rule(graph, &rules, "parent(x,z), parent(z,y) -> grand(x,y)", 2, 3);
    expect_rule(graph, &rules, "parent(x,z), parent(z,w), parent(w,y) -> great(x,y)", 1, 2);
    expect_rule(graph, &rules, "grand(x,z), parent(z,y) -> great(x,y)", 1, 2);
    expect_rule(graph, &rules, "lives(x,'rome') -> speaks(x,'latin')", 2, 2);
    expect_rule(graph, &rules, "lives(x,z) -> speaks(x,'latin')", 2, 3);
    expect_rule(graph, &rules, "speaks(x,'latin') -> lives(x,'rome')", 2, 2);
    // the constant may stand first: lives(ann,y) is of rome, which bob lives in
    expect_rule(graph, &rules, "lives('bob',y) -> lives('ann',y)", 1, 1);
    // what one living in rome has in common with the other: no fact proves itself
    EXPECT(find_text(graph, &rules, "lives(x,'rome') -> lives(x,'rome')") == NULL);
    EXPECT(find_text(graph, &rules, "parent(x,y) -> parent(x,y)") == NULL);
    EXPECT_NEAR(
        es_path_rule_confidence(find_text(graph, &rules, "lives(x,z) -> speaks(x,'latin')"), 5),
        0.25, 1e-15);
    es_path_rules_destroy(&rules);
    es_kg_destroy(graph);
}

// --- text ---

// The pairs that a rule gives when it is read from its text. Heads p0, p1, p2 are read as g0, g1,
// g2, so that the rule does not feed itself.
static int32_t count_read_pairs(const EsKnowledgeGraph *graph, const EsPathRule *rule) {
    char text[ES_PATH_RULE_TEXT_BYTES], line[ES_PATH_RULE_TEXT_BYTES + 16];
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *read = NULL;
    EsClosure *closure = NULL;
    int32_t n_read;
    es_path_rule_format(graph, rule, text, sizeof text);
    strstr(text, " -> p")[4] = 'g';
    int bytes = snprintf(line, sizeof line, "r1:1:%s\n", text);
    REQUIRE_OK(es_kg_builder_create(&builder));
    for (int32_t i = 0; i < graph->n_facts; i++) {
        EsAtom fact = graph->facts[i];
        char atom[64];
        int length =
            snprintf(atom, sizeof atom, "%s(%s,%s)", graph->predicate_names[fact.predicate],
                     graph->constant_names[fact.a], graph->constant_names[fact.b]);
        REQUIRE_OK(es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "facts", atom,
                                           (size_t)length, &n_read));
    }
    REQUIRE_OK(es_kg_text_read_rules(builder, "rules", line, (size_t)bytes, &n_read));
    REQUIRE_OK(es_kg_builder_finish(builder, &read));
    REQUIRE_OK(es_closure_create(read, 1000, &closure));
    int32_t count = closure->count - closure->n_facts;
    es_closure_destroy(closure);
    es_kg_destroy(read);
    es_kg_builder_destroy(builder);
    return count;
}

TEST(a_rule_with_constants_reads_as_it_was_counted) {
    int n_rules = 0, n_unequal = 0;
    for (uint32_t number = 0; number < 12; number++) {
        EsKnowledgeGraph *graph = draw_path_graph(number, 12 + (int)number, "");
        EsPathMinerSettings settings = all_rules();
        settings.max_steps = 1;
        EsPathRules rules = mine_paths(graph, &settings, 1);
        for (int32_t i = 0; i < rules.count; i++) {
            char text[ES_PATH_RULE_TEXT_BYTES];
            if (rules.items[i].fixed != 0) {
                EXPECT_EQ(count_read_pairs(graph, &rules.items[i]), rules.items[i].n_given);
                es_path_rule_format(graph, &rules.items[i], text, sizeof text);
                n_unequal += strstr(text, "!=") != NULL;
                n_rules++;
            }
        }
        es_path_rules_destroy(&rules);
        es_kg_destroy(graph);
    }
    EXPECT(n_rules > 500);
    EXPECT(n_unequal > 100 && n_unequal < n_rules);
}

// --- plain enumeration ---

static int compare_rules(const void *left, const void *right) {
    return memcmp(left, right, offsetof(EsPathRule, support));
}

static const EsPathRule *find_rule(const EsPathRules *rules, const EsPathRule *rule) {
    const EsPathRule *found = NULL;
    for (int32_t i = 0; i < rules->count; i++) {
        if (compare_rules(&rules->items[i], rule) == 0) {
            EXPECT(found == NULL); // listed once
            found = &rules->items[i];
        }
    }
    return found;
}

// Returns whether the rule must be in the list, and compares its counts.
static int compare_rule(const EsKnowledgeGraph *graph, const EsPathRules *rules, EsPathRule rule,
                        int32_t min_support) {
    count_path_rule(graph, &rule);
    int is_itself =
        rule.fixed == 0 && rule.n_steps == 1 && rule.relations[0] == 2 * (rule.head - 1);
    int is_wanted = rule.support >= min_support && !is_itself;
    const EsPathRule *found = find_rule(rules, &rule);
    EXPECT_EQ(found != NULL, is_wanted);
    if (found != NULL) {
        EXPECT_EQ(found->support, rule.support);
        EXPECT_EQ(found->n_given, rule.n_given);
    }
    return is_wanted;
}

static int32_t compare_paths(const EsKnowledgeGraph *graph, const EsPathRules *rules, int32_t head,
                             int32_t min_support) {
    int32_t n_wanted = 0, n = 2 * graph->n_predicates;
    for (int32_t r = 0; r < n; r++) {
        EsPathRule rule = {.head = head, .n_steps = 1, .relations = {r, -1, -1}};
        n_wanted += compare_rule(graph, rules, rule, min_support);
        for (int32_t s = 0; s < n; s++) {
            rule = (EsPathRule){.head = head, .n_steps = 2, .relations = {r, s, -1}};
            n_wanted += compare_rule(graph, rules, rule, min_support);
            for (int32_t t = 0; t < n; t++) {
                rule = (EsPathRule){.head = head, .n_steps = 3, .relations = {r, s, t}};
                n_wanted += compare_rule(graph, rules, rule, min_support);
            }
        }
    }
    return n_wanted;
}

static int32_t compare_constants(const EsKnowledgeGraph *graph, const EsPathRules *rules,
                                 int32_t head, int32_t min_support) {
    int32_t n_wanted = 0;
    for (int32_t k = 0; k < 2 * 2 * graph->n_predicates; k++) {
        for (int32_t fixed = 1; fixed <= graph->n_constants; fixed++) {
            for (int32_t end = 0; end <= graph->n_constants; end++) {
                EsPathRule rule = {.head = head,
                                   .n_steps = 1,
                                   .relations = {k / 2, -1, -1},
                                   .fixed = fixed,
                                   .is_fixed_a = k % 2,
                                   .end = end};
                n_wanted += compare_rule(graph, rules, rule, min_support);
            }
        }
    }
    return n_wanted;
}

TEST(rules_are_those_of_plain_enumeration) {
    int32_t n_all = 0;
    for (uint32_t number = 0; number < 12; number++) {
        EsKnowledgeGraph *graph = draw_path_graph(number, 12 + 5 * (int)(number % 5), "");
        EsPathMinerSettings settings = all_rules();
        settings.min_support = 1 + (int32_t)(number % 2);
        EsPathRules rules = mine_paths(graph, &settings, 1);
        int32_t n_wanted = 0;
        for (int32_t head = 1; head <= graph->n_predicates; head++) {
            n_wanted += compare_paths(graph, &rules, head, settings.min_support);
            n_wanted += compare_constants(graph, &rules, head, settings.min_support);
        }
        EXPECT_EQ(rules.count, n_wanted);
        EXPECT_EQ(rules.n_paths[0] + rules.n_paths[1] + rules.n_paths[2] + rules.n_paths[3],
                  n_wanted);
        EXPECT_EQ(rules.start[graph->n_predicates + 1], n_wanted);
        n_all += n_wanted;
        es_path_rules_destroy(&rules);
        es_kg_destroy(graph);
    }
    EXPECT(n_all > 2000);
}

// --- settings and threads ---

TEST(thresholds_and_steps_leave_rules_out) {
    EsKnowledgeGraph *graph = draw_path_graph(3, 20, "");
    EsPathMinerSettings settings = all_rules();
    EsPathRules all = mine_paths(graph, &settings, 1);
    settings.min_confidence = 0.5;
    settings.min_support = 2;
    settings.max_steps = 2;
    settings.finds_constants = 0;
    EsPathRules some = mine_paths(graph, &settings, 1);
    int32_t n_wanted = 0;
    for (int32_t i = 0; i < all.count; i++) {
        const EsPathRule *rule = &all.items[i];
        int is_wanted = rule->fixed == 0 && rule->n_steps <= 2 && rule->support >= 2 &&
                        es_path_rule_confidence(rule, 0) >= 0.5;
        EXPECT_EQ(find_rule(&some, rule) != NULL, is_wanted);
        n_wanted += is_wanted;
    }
    EXPECT_EQ(some.count, n_wanted);
    EXPECT(n_wanted > 0 && n_wanted < all.count);
    es_path_rules_destroy(&some);
    es_path_rules_destroy(&all);
    es_kg_destroy(graph);
}

TEST(threads_find_the_same_rules) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(120, 3, &graph));
    EsPathMinerSettings settings = es_path_miner_defaults();
    EsPathRules first = mine_paths(graph, &settings, 1);
    EXPECT(first.count > 1000);
    for (int n_threads = 2; n_threads <= 5; n_threads += 3) {
        EsPathRules other = mine_paths(graph, &settings, n_threads);
        EXPECT_EQ(other.count, first.count);
        for (int32_t i = 0; i < first.count; i++) {
            EXPECT_EQ(compare_rules(&other.items[i], &first.items[i]), 0);
            EXPECT_EQ(other.items[i].support, first.items[i].support);
            EXPECT_EQ(other.items[i].n_given, first.items[i].n_given);
        }
        es_path_rules_destroy(&other);
    }
    es_path_rules_destroy(&first);
    es_kg_destroy(graph);
}

// Validation and test queries are no facts: rules are the same without them.
TEST(queries_are_not_mined_from) {
    const char *held_out = "p0(c1,c2) p1(c2,c1) p2(c1,c3) p0(c3,c2) p1(c5,c6) p2(c6,c5)";
    EsKnowledgeGraph *without = draw_path_graph(5, 16, "");
    EsKnowledgeGraph *with = draw_path_graph(5, 16, held_out);
    EXPECT_EQ(with->n_facts, without->n_facts);
    EsPathMinerSettings settings = all_rules();
    EsPathRules first = mine_paths(without, &settings, 1), second = mine_paths(with, &settings, 1);
    EXPECT_EQ(first.count, second.count);
    for (int32_t i = 0; i < first.count; i++) {
        EXPECT_EQ(compare_rules(&first.items[i], &second.items[i]), 0);
        EXPECT_EQ(first.items[i].support, second.items[i].support);
        EXPECT_EQ(first.items[i].n_given, second.items[i].n_given);
    }
    es_path_rules_destroy(&first);
    es_path_rules_destroy(&second);
    es_kg_destroy(without);
    es_kg_destroy(with);
}

// --- progress and failures ---

typedef struct Watch {
    int64_t n_done, n_all;
    int n_calls, stops_after;
} Watch;

static void watch(void *context, int64_t n_done, int64_t n_all) {
    Watch *seen = context;
    EXPECT(n_done > seen->n_done && n_done <= n_all);
    seen->n_calls++;
    seen->n_done = n_done;
    seen->n_all = n_all;
}

static int stop(void *context) {
    const Watch *seen = context;
    return seen->stops_after > 0 && seen->n_calls >= seen->stops_after;
}

TEST(progress_and_a_stop) {
    EsKnowledgeGraph *graph = draw_path_graph(7, 20, "");
    EsPathMinerSettings settings = all_rules();
    EsThreadPool *pool;
    EsPathRules rules;
    Watch seen = {.stops_after = 0};
    settings.report = watch;
    settings.should_stop = stop;
    settings.context = &seen;
    REQUIRE_OK(es_thread_pool_create(&pool, 1));
    REQUIRE_OK(es_path_rules_mine(graph, &settings, pool, &rules));
    EXPECT_EQ(seen.n_done, seen.n_all);
    EXPECT_EQ(seen.n_calls, seen.n_all);
    es_path_rules_destroy(&rules);
    seen = (Watch){.stops_after = 5};
    EXPECT_STATUS(es_path_rules_mine(graph, &settings, pool, &rules), INTERRUPTED);
    EXPECT(rules.items == NULL && rules.count == 0);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}

TEST(settings_out_of_range) {
    EsKnowledgeGraph *graph = draw_path_graph(1, 9, "");
    EsThreadPool *pool;
    EsPathRules rules;
    REQUIRE_OK(es_thread_pool_create(&pool, 1));
    for (int k = 0; k < 4; k++) {
        EsPathMinerSettings settings = es_path_miner_defaults();
        settings.min_support = k == 0 ? 0 : 1;
        settings.min_confidence = k == 1 ? 1.5 : 0.5;
        settings.max_steps = k == 2 ? 4 : (k == 3 ? 0 : 3);
        EXPECT_STATUS(es_path_rules_mine(graph, &settings, pool, &rules), ARGUMENT);
    }
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}

TEST(a_graph_without_facts_has_no_rules) {
    EsKnowledgeGraph *graph = make_small_graph("", "", "p(a,b)");
    EsPathMinerSettings settings = all_rules();
    EsPathRules rules = mine_paths(graph, &settings, 2);
    EXPECT_EQ(rules.count, 0);
    es_path_rules_destroy(&rules);
    es_kg_destroy(graph);
}
