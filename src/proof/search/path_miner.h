// Finds rules whose confidences score candidates: paths of up to three steps, and rules with
// constants.
//
// A relation is a predicate in one direction: number 2 (p - 1) for p, one more for p the other way
// round. With relations r, s, t the rules are
//
//     h(x,y) <- r(x,y)                        a path of one step
//     h(x,y) <- r(x,z), s(z,y)                of two
//     h(x,y) <- r(x,z), s(z,w), t(w,y)        of three
//     h(x,c) <- r(x,d)                        c and d constants; likewise h(c,y) <- r(y,d)
//     h(x,c) <- r(x,z)                        for any z; likewise h(c,y) <- r(y,z)
//
// Different variables and constants of a rule stand for different constants (object identity, as in
// AnyBURL, Meilicke et al., IJCAI 2019). So a body never uses the atom that it is to prove, and a
// path does not count again what a shorter one says by going back and forth. The rules of
// rule_miner.h, which a prover may use, have no such condition.
//
//     support         pairs (x,y) that the body gives and that are facts of the head
//     n_given         pairs that the body gives
//     confidence      support / (n_given + smoothing): rules that were seen a few times count less
//
// Only the graph's facts are read, never its queries. Counts are exact. The time is proportional
// to the paths of three steps (umls 12 million, family 35, wn18rr 24), not to rules times pairs.
//
//     EsPathMinerSettings settings = es_path_miner_defaults();
//     EsPathRules rules; ES_TRY(es_path_rules_mine(graph, &settings, pool, &rules));
//     double confidence = es_path_rule_confidence(&rules.items[0], 5);
//     es_path_rules_destroy(&rules);
#ifndef ES_PROOF_PATH_MINER_H
#define ES_PROOF_PATH_MINER_H

#include "base/thread_pool.h"
#include "proof/graph/knowledge_graph.h"

ES_EXTERN_C_BEGIN

#define ES_PATH_MAX_STEPS 3
// holds any rule whose names are within ES_KG_MAX_NAME_BYTES, every byte of them escaped
#define ES_PATH_RULE_TEXT_BYTES 24576

typedef struct EsPathRule {
    int32_t head;                         // predicate
    int32_t n_steps;                      // of the body, 1 with `fixed`
    int32_t relations[ES_PATH_MAX_STEPS]; // from x to y, or from the variable on; -1 past n_steps
    int32_t fixed;                        // constant of the head, 0: none, the body is a path
    int32_t is_fixed_a;                   // it is the head's first argument
    int32_t end;                          // with `fixed`: constant d of the body, 0: any
    int32_t support;
    int32_t has_loop; // with `fixed` and any end: some fact is relations[0](u,u)
    int64_t n_given;
} EsPathRule;

typedef struct EsPathRules {
    EsPathRule *items; // by head, then steps, relations and constants; owned
    int32_t count;
    int32_t *start;     // rules with head p: start[p] to start[p + 1] - 1; owned        (P + 2)
    int64_t n_paths[4]; // rules by steps, [0]: with constants
} EsPathRules;

typedef struct EsPathMinerSettings {
    int32_t min_support;   // at least 1
    double min_confidence; // 0 to 1, without smoothing
    int max_steps;         // 1 to 3
    int finds_constants;   // rules with constants, too
    // Called from the calling thread now and then with the pieces counted so far; may be NULL.
    void (*report)(void *context, int64_t n_done, int64_t n_all);
    // Asked by all threads between pieces; a non-zero answer ends the mining. May be NULL.
    int (*should_stop)(void *context);
    void *context; // of both
} EsPathMinerSettings;

// Support 2, confidence 0.01, three steps, with constants.
EsPathMinerSettings es_path_miner_defaults(void);

// The same for any number of threads. ARGUMENT when a setting is out of range, INTERRUPTED when
// should_stop says so. After a failure there is nothing to destroy.
EsStatus es_path_rules_mine(const EsKnowledgeGraph *graph, const EsPathMinerSettings *settings,
                            EsThreadPool *pool, EsPathRules *rules);
void es_path_rules_destroy(EsPathRules *rules);

static inline double es_path_rule_confidence(const EsPathRule *rule, double smoothing) {
    return (double)rule->support / ((double)rule->n_given + smoothing);
}

// Write "r(x,z), s(z,y) -> h(x,y)" as snprintf does; names of constants stand in quotes. A rule
// with constants is as a rule file has it, with those of its inequalities that some fact needs.
int es_path_rule_format(const EsKnowledgeGraph *graph, const EsPathRule *rule, char *text,
                        size_t bytes);

// --- steps along relations ---

// The facts relation(u,?).
static inline EsAtomSpan es_path_facts_from(const EsKnowledgeGraph *graph, int32_t relation,
                                            int32_t u) {
    int32_t predicate = relation / 2 + 1;
    return relation % 2 ? es_kg_facts_with_b(graph, predicate, u)
                        : es_kg_facts_with_a(graph, predicate, u);
}

// The v of a fact relation(u,v).
static inline int32_t es_path_other_end(int32_t relation, EsAtom fact) {
    return relation % 2 ? fact.a : fact.b;
}

// Returns whether relation(u,v) is a fact.
static inline int es_path_has_step(const EsKnowledgeGraph *graph, int32_t relation, int32_t u,
                                   int32_t v) {
    EsAtom atom = {relation / 2 + 1, relation % 2 ? v : u, relation % 2 ? u : v};
    return es_kg_has_fact(graph, atom);
}

// Returns whether relation(u,z) is a fact for some z that is neither u nor `other`.
int es_path_leaves(const EsKnowledgeGraph *graph, int32_t relation, int32_t u, int32_t other);

ES_EXTERN_C_END

#endif
