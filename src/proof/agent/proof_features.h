// A state in numbers that name nothing: what its predicates and constants do in the graph.
//
// A policy that reads these features knows no constant and no predicate, so it acts on any graph. A
// predicate is described by its facts (how many, how many partners a term has, which share is
// mirrored) and by the rules that it heads and serves; a constant by its number of facts; a goal by
// which of its arguments are free and shared with other goals, by the facts that match it, and by
// how many rules would be needed if body atoms could be proved one by one:
//   cost_0(goal) = 0 where a fact matches, else 1
//   cost_k(goal) = 0 where a fact matches, else 1 + min over its rules of the sum of cost_{k-1}
//                  over the body,
// at most ES_PROOF_MAX_COST, which is also the cost of a goal that neither facts nor rules match. A
// comparison costs nothing, or that where it is known to fail; it is no atom of a rule's body.
// Variables that body atoms share are ignored, which makes a cost a guess and cheap. All of it is
// read from the graph; nothing is learned here.
//
// A rule has a confidence: of the atoms that its body gives over the facts, the share that are
// facts, support / (atoms + ES_PROOF_SMOOTHING); a negation holds there of what is no fact. A goal
// has the confidences of those of its rules whose body atoms all match facts: the highest, and
// their noisy or, 1 - (1 - c1)(1 - c2)...
//
// Predicates have 0 to 4 arguments. What is said of the first argument is said of the others as the
// mean over them, which for two arguments is the second alone; it is 0 where there are none.
//
// A query that is a fact is to be proved without itself, as one that is none: it does not count in
// what a goal matches, nor in costs and degrees. Statistics of predicates and confidences of rules
// are of the whole graph and do count it.
//
// The features of a state are those of the selected goal, the mean over all goals, and of the whole
// state; ES_PROOF_FEATURES in all. Their meaning is part of the file format of policies: a change
// of any of them raises ES_PROOF_FEATURES_VERSION.
//
//     EsProofFeatures *features; ES_TRY(es_proof_features_create(graph, &features));
//     float row[ES_PROOF_FEATURES];
//     es_proof_features_describe(features, state, &query, ES_GOAL_CONSTRAINED, row);
//     es_proof_features_destroy(features);
#ifndef ES_PROOF_PROOF_FEATURES_H
#define ES_PROOF_PROOF_FEATURES_H

#include "proof/search/proof_rules.h"

ES_EXTERN_C_BEGIN

#define ES_PROOF_FEATURES_VERSION 2

#define ES_PROOF_PREDICATE_FEATURES 13 // a part of those of a goal
#define ES_PROOF_GOAL_FEATURES      (20 + ES_PROOF_PREDICATE_FEATURES)
#define ES_PROOF_WHOLE_FEATURES     13
#define ES_PROOF_FEATURES           (2 * ES_PROOF_GOAL_FEATURES + ES_PROOF_WHOLE_FEATURES)

#define ES_PROOF_MAX_COST  6
#define ES_PROOF_SMOOTHING 5

// Of one graph, which is borrowed; never changed once made, so any number of threads may read it.
// INPUT when the graph has no rules: there is then nothing to choose.
typedef struct EsProofFeatures EsProofFeatures;
EsStatus es_proof_features_create(const EsKnowledgeGraph *graph, EsProofFeatures **features);
void es_proof_features_destroy(EsProofFeatures *features);

// Cost of one goal of a state, looking `n_rules` rules ahead (k above), where the fact `hidden`
// does not count; no atom, {0}: all do.
int es_proof_features_cost(const EsProofFeatures *features, const EsAtom *goal,
                           const EsAtom *hidden, int n_rules);

// Confidence of a rule of the graph.
float es_proof_features_confidence(const EsProofFeatures *features, int32_t rule);

// The features of a state, terminal ones included, to row (ES_PROOF_FEATURES); `hidden` is the
// query where that is a fact, else no atom.
void es_proof_features_describe(const EsProofFeatures *features, EsAtomSpan state,
                                const EsAtom *hidden, EsGoalSelection selection, float *row);

ES_EXTERN_C_END

#endif
