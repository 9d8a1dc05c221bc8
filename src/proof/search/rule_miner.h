// Finds rules that a knowledge graph obeys, by counting.
//
// Rules have a head h(x,y) and one of these bodies, where r, s and t are predicates in either
// direction, r(x,y) standing for p(x,y) or p(y,x):
//
//     r(x,y)                     one atom
//     r(x,z), s(z,y)             a chain
//     r(x,z), s(z,w), t(w,y)     a path of three steps
//     r(x,y), s(x,y)             both at once
//     r(x,y), s(x,z)             only for an x that s leaves; likewise r(x,y), s(y,z)
//
// A body gives a pair (x,y) if some z, and w, makes all its atoms facts; an atom that is the head
// h(x,y) itself does not count as one, as a prover never uses the atom it proves. Then
//
//     support             pairs given that are facts h(x,y)
//     confidence          support / pairs given
//     PCA confidence      support / pairs given whose x has some fact h(x,?): where nothing is
//                         known of x, a pair is taken as unknown, not as false (Galarraga et al.,
//                         "AMIE", WWW 2013)
//
// Rules are mined on a part of the facts; the rest are kept back to see whether a rule predicts
// facts that it was not made from:
//
//     kept support        pairs given that are facts kept back
//     kept confidence     kept support / pairs given that are no fact mined from
//
// Each body is counted exactly, in time proportional to the paths of its length and in memory that
// does not grow with them. Rules that say nothing (a head in its own body) are left out, as are
// those of the last two forms that are no more confident than one of their atoms alone. Each is
// listed once, under any names of its variables.
//
//     EsMinerSettings settings = es_miner_defaults();
//     EsMinedRules rules; ES_TRY(es_rules_mine(graph, &settings, pool, &rules));
//     ES_TRY_GOTO(es_mined_rules_save(graph, &rules, NULL, "mined.txt"));
//     done: es_mined_rules_destroy(&rules);
#ifndef ES_PROOF_RULE_MINER_H
#define ES_PROOF_RULE_MINER_H

#include "base/thread_pool.h"
#include "proof/graph/knowledge_graph.h"
#include "proof/search/path_miner.h"

ES_EXTERN_C_BEGIN

// the tables of a thread are then 190 MB
#define ES_MINER_MAX_PREDICATES 1000

typedef struct EsMinerSettings {
    int64_t min_support;   // at least 1
    double min_confidence; // 0 to 1, of confidence, not of PCA confidence
    int max_body;          // 1 to 3 atoms
    double held_out;       // share of the facts kept back, 0 to 0.9
    uint64_t seed;         // of the facts kept back
    // Called from the calling thread now and then with the bodies counted so far; may be NULL.
    void (*report)(void *context, int64_t n_done, int64_t n_all);
    // Asked by all threads between bodies; a non-zero answer ends the mining. May be NULL.
    int (*should_stop)(void *context);
    void *report_context; // of both
} EsMinerSettings;

typedef struct EsMinedRule {
    EsHornRule rule;  // head h(-1,-2), z is -3, w is -4; line is its place in the list, from 1
    int64_t n_given;  // pairs that the body gives
    int64_t support;  // of these, facts
    int64_t n_closed; // of these, with an x that has a fact of the head's predicate
    int64_t n_kept;   // of these, facts kept back
} EsMinedRule;

typedef struct EsMinedRules {
    EsMinedRule *items; // by confidence, then support, highest first, then by name; owned
    int32_t count;
    int32_t n_facts; // mined from
    int32_t n_kept;  // kept back
} EsMinedRules;

// Support 10, confidence 0.5, two atoms, a tenth kept back.
EsMinerSettings es_miner_defaults(void);

// Returns whether the graph's fact `index` is kept back.
int es_miner_keeps_back(const EsMinerSettings *settings, int32_t index);

// The rules and queries of the graph are not looked at. The same for any number of threads.
// ARGUMENT when a setting is out of range, INPUT for more than ES_MINER_MAX_PREDICATES, INTERRUPTED
// when should_stop says so. After a failure there is nothing to destroy.
EsStatus es_rules_mine(const EsKnowledgeGraph *graph, const EsMinerSettings *settings,
                       EsThreadPool *pool, EsMinedRules *rules);
void es_mined_rules_destroy(EsMinedRules *rules);

double es_mined_rule_confidence(const EsMinedRule *rule);
double es_mined_rule_pca_confidence(const EsMinedRule *rule);
// 0 when the rule gives nothing but facts it was mined from.
double es_mined_rule_kept_confidence(const EsMinedRule *rule);

// Write all rules as a rule file, "r1:0.97:body -> head", behind them those of `constants`, which
// have constants; it may be NULL.
EsStatus es_mined_rules_save(const EsKnowledgeGraph *graph, const EsMinedRules *rules,
                             const EsPathRules *constants, const char *path);

ES_EXTERN_C_END

#endif
