// Searches for a proof of a query, or for all of them, blind or steered by a guide, under explicit
// limits.
//
// Every kind expands states by proof_rules.h and leaves out the states already on the way from the
// query, as an episode with memory does, so that the probability of a proof is that of the guide
// taking it step by step. A proof of depth d is d states, the query first, and d actions: the
// number of the successor taken from each, the last of them True. es_proof_replay checks one.
//
//     EsProofSearchSettings settings = es_proof_search_defaults();
//     EsProofSearch *search; ES_TRY(es_proof_search_create(graph, &settings, NULL, &search));
//     EsProofAnswer answer; ES_TRY(es_proof_search_find(search, &query, &answer));
//     es_proof_search_destroy(search);
#ifndef ES_PROOF_PROOF_SEARCH_H
#define ES_PROOF_PROOF_SEARCH_H

#include "proof/search/proof_choices.h"

ES_EXTERN_C_BEGIN

typedef enum EsSearchKind {
    ES_SEARCH_BREADTH,    // shortest proof first; exhaustive up to the limits
    ES_SEARCH_BEST_FIRST, // most promising state first, ties by age; exhaustive up to the limits
    ES_SEARCH_BEAM,       // level by level, the beam_width most promising states of each
    ES_SEARCH_GREEDY,     // one walk, always the most probable successor, ties the first
    ES_SEARCH_SAMPLED,    // n_samples walks by the guide's probabilities; the most probable proof
    ES_N_SEARCH_KINDS
} EsSearchKind;

// "breadth", "best_first", ... by kind.
extern const char *const es_search_kind_names[ES_N_SEARCH_KINDS];

#define ES_SEARCH_MAX_DEPTH        1000
#define ES_SEARCH_MAX_VALUE_WEIGHT 1000

typedef struct EsProofSearchSettings {
    EsSearchKind kind;
    EsGoalSelection selection;
    int64_t max_expanded;   // expansions per query, at least 1
    int32_t max_depth;      // steps, 1 to ES_SEARCH_MAX_DEPTH
    int32_t max_atoms;      // of a state, 1 to ES_PROOF_MAX_ATOMS
    int32_t max_successors; // of a state, 0: all; a proof is noticed before
    int32_t max_entries;    // waiting or done per query, at least 1: the limit on memory
    int32_t beam_width;     // at least 1
    int32_t n_samples;      // at least 1
    int32_t batch;          // states per call of the guide, at least 1. Best-first takes a whole
                            // batch from the queue, which makes its order a little coarser.
    int finds_all;          // go on after a proof, up to the limits, and weigh all that are found;
                            // breadth, best-first and beam
    double temperature;     // of that weighing, above 0
    double value_weight;    // W, 0 or more: best-first and beam prefer the greatest
                            // log-probability + W log(max(value, 0.01)), by the guide's value of
                            // the state: the chance of a proof, for guides taught by reward 0
    int has_end;            // giving up is a choice, with its share of the probability
    uint64_t seed;          // of the sampled walks; draws are those of (seed, query, walk, step)
} EsProofSearchSettings;

typedef struct EsProofAnswer {
    int is_proved;
    int32_t depth;          // steps of the first proof, ES_KG_DEPTH_NONE without one
    double log_probability; // of the proof; of the best walk when walks found none, else 0
    int32_t n_proofs;       // found; more than one with finds_all alone
    double evidence;        // with finds_all: log of the sum over proofs of exp(log_probability /
                            // temperature), 0 without one
    int64_t n_expanded;
    int64_t n_overlong;     // successors dropped for the limit on atoms
    int64_t n_overflow;     // successors dropped for max_successors
    int32_t n_entries;      // states put into the queue, or steps of all walks
    int met_expanded;       // stopped by max_expanded: unproved means undecided
    int met_entries;        // stopped by max_entries: likewise
    const EsAtomSpan *path; // states of the proof, until the next search                 (depth)
    const int32_t *actions; // successor taken from each, likewise                        (depth)
} EsProofAnswer;

// Best-first, constrained, 1,000 expansions, depth 20, 6 atoms, all successors, a million entries,
// width 16, 16 samples, one state a call, the first proof, temperature 3, values not asked for, no
// End, seed 0.
EsProofSearchSettings es_proof_search_defaults(void);

// One thread per search. The graph is borrowed, and so is the guide; NULL stands for equal
// probabilities of all successors.
typedef struct EsProofSearch EsProofSearch;
EsStatus es_proof_search_create(const EsKnowledgeGraph *graph,
                                const EsProofSearchSettings *settings, const EsProofGuide *guide,
                                EsProofSearch **search);
void es_proof_search_destroy(EsProofSearch *search);

// ARGUMENT when the query is not an atom over the graph's constants and predicates; failures of the
// guide are passed on.
EsStatus es_proof_search_find(EsProofSearch *search, const EsAtom *query, EsProofAnswer *answer);

// Take the actions from the query on. PROVED: the last of them, and none before, led to True. OPEN:
// they end in a state that is not terminal. FAILED: one of them is no successor, or led to a
// terminal state too early or other than True.
EsStatus es_proof_replay(const EsKnowledgeGraph *graph, const EsProofSearchSettings *settings,
                         const EsAtom *query, const int32_t *actions, int32_t n_actions,
                         EsProofOutcome *outcome);

ES_EXTERN_C_END

#endif
