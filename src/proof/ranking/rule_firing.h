// The rules that fire for the candidates of one query, behind confidence_scorer.h.
//
//     EsFiringRules rules; ES_TRY(es_firing_rules_create(graph, mined, &settings, &rules));
//     EsFiring *firing; ES_TRY(es_firing_create(graph, &rules, &firing));
//     ES_TRY(es_firing_gather(firing, candidates, count));
//     for (int32_t k = firing->start[i]; k < firing->start[i + 1]; k++) { use(firing->fired[k]); }
#ifndef ES_PROOF_RULE_FIRING_H
#define ES_PROOF_RULE_FIRING_H

#include "proof/ranking/confidence_scorer.h"

ES_EXTERN_C_BEGIN

typedef struct EsFiringRule {
    EsPathRule rule;
    double confidence; // smoothed
    double evidence;   // -log(1 - confidence), which a noisy or adds up
} EsFiringRule;

typedef struct EsFiringRules {
    EsFiringRule *items; // by head, then confidence, highest first, then as mined; owned
    int32_t *start;      // rules with head p: start[p] to start[p + 1] - 1; owned       (P + 2)
    int32_t count;
} EsFiringRules;

// The rules that pass the settings' thresholds; aggregation and top are not read. After a failure
// there is nothing to destroy.
EsStatus es_firing_rules_create(const EsKnowledgeGraph *graph, const EsPathRules *mined,
                                const EsConfidenceSettings *settings, EsFiringRules *rules);
void es_firing_rules_destroy(EsFiringRules *rules);

// Returns whether a rule passes the thresholds.
int es_firing_rule_passes(const EsPathRule *rule, const EsConfidenceSettings *settings);

// Scratch of one thread, and the lists of its last call.
typedef struct EsFiring {
    const EsKnowledgeGraph *graph; // borrowed
    const EsFiringRules *rules;    // borrowed
    // filled by es_firing_gather
    int32_t *start; // of the candidates' lists                              (count + 1)
    int32_t *fired; // numbers of rules, ascending in each list; owned
    // at work
    int64_t start_capacity, fired_capacity;
    struct EsFiringEntry *entries; // of the call, by rule; owned
    int64_t n_entries, entries_capacity;
    int32_t *slots;         // by constant: the candidate, where slot_stamps says so       (C + 1)
    uint32_t *slot_stamps;  //                                                             (C + 1)
    uint32_t *end_stamps;   // of the constants that a rule has reached                    (C + 1)
    uint32_t side, reached; // current stamps
    const EsAtom *candidates;
    int32_t n_candidates;
    EsStatus status; // of the walk
} EsFiring;

EsStatus es_firing_create(const EsKnowledgeGraph *graph, const EsFiringRules *rules,
                          EsFiring **firing);
// Accepts NULL.
void es_firing_destroy(EsFiring *firing);

// List the rules that fire for each candidate. The first is the query; every other is distinct and
// differs from it in one argument.
EsStatus es_firing_gather(EsFiring *firing, const EsAtom *candidates, int32_t count);

ES_EXTERN_C_END

#endif
