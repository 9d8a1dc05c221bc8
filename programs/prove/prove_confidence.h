// The part of `esper prove eval` that scores by the confidences of rules: its options, the mining,
// the choice of thresholds on validation queries, and their output.
#ifndef ES_PROGRAMS_PROVE_CONFIDENCE_H
#define ES_PROGRAMS_PROVE_CONFIDENCE_H

#include <jansson.h>

#include "cli/options.h"
#include "proof/ranking/confidence_scorer.h"

typedef struct EsProveConfidence {
    // filled by the options
    int is_used; // --score confidence; set by the command
    const char *aggregate;
    int max_steps, min_support, without_constants, n_choice;
    // filled by es_prove_confidence_begin
    EsConfidenceSettings settings;
    EsConfidenceChoice choice;
    int32_t n_chosen_on; // validation queries; 0: the defaults
    int32_t n_left_out;  // predicates that have not two arguments
    EsPathRules rules;
    EsConfidenceScorer *scorer;
    double mine_seconds, choose_seconds;
} EsProveConfidence;

// Entries for a table of options.
#define ES_PROVE_CONFIDENCE_OPTIONS(confidence)                                                    \
    ES_OPTION_TEXT("aggregate", &(confidence)->aggregate, "auto", "NAME",                          \
                   "confidences of rules: max, noisy_or, or auto (by validation)"),                \
        ES_OPTION_INT("rule-steps", &(confidence)->max_steps, "3", 1, ES_PATH_MAX_STEPS, "N",      \
                      "longest paths of the rules mined for confidences"),                         \
        ES_OPTION_INT("rule-support", &(confidence)->min_support, "2", 1, 2147483647, "N",         \
                      "minimum facts that such a rule derives"),                                   \
        ES_OPTION_FLAG("no-constants", &(confidence)->without_constants,                           \
                       "mine no rules with constants"),                                            \
        ES_OPTION_INT("choice-queries", &(confidence)->n_choice, "200", 1, 1000000000, "N",        \
                      "validation queries to choose thresholds on, evenly spaced")

// The names of these options, with blanks between.
#define ES_PROVE_CONFIDENCE_NAMES "aggregate rule-steps rule-support no-constants choice-queries"

// ARGUMENT for an unknown aggregation, or a split that the choice is made on.
EsStatus es_prove_confidence_check(EsProveConfidence *confidence, EsKgSplit split);

// Mine, choose, and make the scorer of the candidates. Borrows everything it is given.
EsStatus es_prove_confidence_begin(EsProveConfidence *confidence, const EsKnowledgeGraph *graph,
                                   const EsKnownAtoms *known, const EsRankingSettings *settings,
                                   EsThreadPool *pool, int gives_odds, EsCandidateScorer *scorer);
void es_prove_confidence_end(EsProveConfidence *confidence);

// Thresholds and counts; null where confidences are not used. NULL when memory ends.
json_t *es_prove_confidence_describe(const EsProveConfidence *confidence);
void es_prove_confidence_print(const EsProveConfidence *confidence);

#endif
