// The counting behind rule_miner.h: all bodies that begin with one relation.
//
// A relation is a predicate in one direction: number 2 (p - 1) for p, one more for p the other way
// round.
#ifndef ES_PROOF_RULE_MINER_COUNT_H
#define ES_PROOF_RULE_MINER_COUNT_H

#include "proof/search/rule_miner.h"

ES_EXTERN_C_BEGIN

// predicates that a body has at most
#define ES_RULE_COUNTER_TOUCHED 3

// The tables of one thread; P predicates, C constants. Row 0 of the tables is the body of one
// atom; then come 2P rows, by the second relation, for each of the four forms of two atoms. Paths
// of three steps are counted apart from them, two relations at a time, in the rows 0 to 2P - 1, by
// the third.
typedef struct EsRuleCounter {
    const EsKnowledgeGraph *graph; // to mine from; its valid split holds the facts kept back
    const EsMinerSettings *settings;
    const int32_t *kept_row; // first kept fact with a given x                        (C + 2)
    const double *one_atom;  // confidence of the rules of one atom, by relation and head
                             //                                                   (2P x P + 1)
    int32_t relation;        // the first one of all bodies
    int is_clear;            // all counts are 0
    // counts                                                                (8P + 1 rows)
    int64_t *n_given;
    int64_t *n_refused; // pairs that only the head itself would give, for each predicate of the
                        // body                                                      (x 3)
    int64_t *support, *n_closed, *n_kept; //                                         (x P + 1)
    // of the x at hand
    int32_t *first_head; // by y: 1 + first entry below, where head_stamp says so     (C + 1)
    int32_t *head_stamp; //                                                           (C + 1)
    int32_t *head_next;  // 1 + next entry of the same y, 0: last            (most facts of an x)
    int32_t *head_of;    // its predicate, negative: kept back
    int32_t n_heads;
    int32_t *closed; // predicates with a fact of x                                     (P + 1)
    int32_t n_closed_predicates;
    // of the body at hand: the y it gives, each once
    int32_t *y_list, *y_stamp; //                                                       (C + 1)
    unsigned char *y_kinds;    // bits of how z lies to x and y                         (C + 1)
    int32_t n_y, stamp;
    // rules found
    EsMinedRule *rules; // owned
    int32_t n_rules;
    int64_t capacity;
    EsStatus status;
} EsRuleCounter;

EsStatus es_rule_counter_create(const EsKnowledgeGraph *graph, const EsMinerSettings *settings,
                                const int32_t *kept_row, const double *one_atom,
                                EsRuleCounter *counter);
void es_rule_counter_destroy(EsRuleCounter *counter);

// The confidence of the rules whose body is the relation alone, by head (P + 1).
void es_rule_counter_take_one(EsRuleCounter *counter, int32_t relation, double *confidence);

// Count all bodies that begin with the relation and add the rules that are good enough to
// counter->rules.
EsStatus es_rule_counter_take(EsRuleCounter *counter, int32_t relation);

// Likewise for the paths of three steps that begin with two relations.
EsStatus es_rule_counter_take_paths(EsRuleCounter *counter, int32_t first, int32_t second);

ES_EXTERN_C_END

#endif
