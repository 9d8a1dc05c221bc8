// Random graphs, and path rules by plain enumeration of all constants in place of the variables.
#ifndef ES_TESTS_PATH_CASE_H
#define ES_TESTS_PATH_CASE_H

#include "proof/random_graph.h"
#include "proof/search/path_miner.h"

#define PATH_CONSTANTS  7
#define PATH_PREDICATES 3

// Facts p0..p2 over c0..c6, some of them p(c,c); `queries` may be "".
static inline EsKnowledgeGraph *draw_path_graph(uint32_t number, int n_facts, const char *queries) {
    char facts[2048] = "", names[512] = "";
    Dice dice = {number, 0};
    size_t length = 0;
    for (int i = 0; i < n_facts; i++) {
        int p = throw_dice(&dice, PATH_PREDICATES), a = throw_dice(&dice, PATH_CONSTANTS);
        int b = throw_dice(&dice, PATH_CONSTANTS);
        length += (size_t)snprintf(facts + length, sizeof facts - length, "p%d(c%d,c%d) ", p, a, b);
    }
    // every name is known, whatever was drawn
    snprintf(names, sizeof names, "p0(c0,c1) p1(c2,c3) p2(c4,c5) p0(c6,c6) %s", queries);
    return make_small_graph(facts, "", names);
}

static inline int path_step(const EsKnowledgeGraph *graph, int32_t relation, int32_t u, int32_t v) {
    EsAtom forward = {relation / 2 + 1, u, v}, backward = {relation / 2 + 1, v, u};
    return es_kg_has_fact(graph, relation % 2 == 0 ? forward : backward);
}

// Returns whether the body of a rule without constants goes from x to y.
static inline int path_leads(const EsKnowledgeGraph *graph, const EsPathRule *rule, int32_t x,
                             int32_t y) {
    const int32_t *r = rule->relations;
    int32_t n = graph->n_constants;
    if (rule->n_steps == 1) {
        return x != y && path_step(graph, r[0], x, y);
    }
    for (int32_t z = 1; z <= n; z++) {
        if (z == x || z == y || x == y || !path_step(graph, r[0], x, z)) {
            continue;
        }
        if (rule->n_steps == 2 && path_step(graph, r[1], z, y)) {
            return 1;
        }
        for (int32_t w = 1; w <= n && rule->n_steps == 3; w++) {
            if (w != x && w != y && w != z && path_step(graph, r[1], z, w) &&
                path_step(graph, r[2], w, y)) {
                return 1;
            }
        }
    }
    return 0;
}

// Returns whether the rule gives head(x,y).
static inline int path_fires(const EsKnowledgeGraph *graph, const EsPathRule *rule, int32_t x,
                             int32_t y) {
    if (rule->fixed == 0) {
        return path_leads(graph, rule, x, y);
    }
    int32_t variable = rule->is_fixed_a ? y : x;
    if ((rule->is_fixed_a ? x : y) != rule->fixed || variable == rule->fixed) {
        return 0;
    }
    for (int32_t z = 1; z <= graph->n_constants; z++) {
        if (z != variable && z != rule->fixed && (rule->end == 0 || rule->end == z) &&
            path_step(graph, rule->relations[0], variable, z)) {
            return 1;
        }
    }
    return 0;
}

// The counts of a rule.
static inline void count_path_rule(const EsKnowledgeGraph *graph, EsPathRule *rule) {
    rule->support = 0;
    rule->n_given = 0;
    for (int32_t x = 1; x <= graph->n_constants; x++) {
        for (int32_t y = 1; y <= graph->n_constants; y++) {
            if (path_fires(graph, rule, x, y)) {
                rule->n_given++;
                rule->support += es_kg_has_fact(graph, (EsAtom){rule->head, x, y});
            }
        }
    }
}

static inline EsPathRules mine_paths(const EsKnowledgeGraph *graph,
                                     const EsPathMinerSettings *settings, int n_threads) {
    EsThreadPool *pool;
    EsPathRules rules;
    REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
    REQUIRE_OK(es_path_rules_mine(graph, settings, pool, &rules));
    es_thread_pool_destroy(pool);
    return rules;
}

#endif
