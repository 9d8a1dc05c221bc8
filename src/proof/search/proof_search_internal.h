// The insides of a proof search, shared by its kinds: the path that leads to a state, and batches
// of states that are expanded and scored together.
#ifndef ES_PROOF_PROOF_SEARCH_INTERNAL_H
#define ES_PROOF_PROOF_SEARCH_INTERNAL_H

#include "proof/search/goal_table.h"
#include "proof/search/proof_search.h"

ES_EXTERN_C_BEGIN

// States from the query on, with the action taken from each. L is max_depth.
typedef struct EsProofPath {
    EsAtom *atoms;    // state i begins at atoms[i * stride]                         (L x stride)
    int32_t *n_atoms; //                                                                      (L)
    uint64_t *hash;   // es_proof_hash of each                                                (L)
    int32_t *actions; //                                                                      (L)
    int32_t count, stride;
} EsProofPath;

// One walk of the walking kinds.
typedef struct EsProofWalk {
    EsProofPath path;
    double log_probability;
    int is_over, is_proved;
} EsProofWalk;

// Expanded states that leave something to choose, and their successors, M in all; arrays of
// (M) grow.
typedef struct EsSearchBatch {
    int32_t *owner;     // entry or walk that each belongs to                        (batch)
    EsAtomSpan *states; // borrowed                                                   (batch)
    int32_t *first;     // successors of state i: first[i] to first[i+1] - 1        (batch + 1)
    int32_t n_states;
    EsAtom *atoms; // of all successors
    int64_t n_atoms, atom_capacity;
    EsAtomSpan *successors; // (M); .atoms valid after es_search_score
    int64_t *start;         // offset of each in `atoms`                                     (M)
    uint64_t *hash;         // es_proof_hash of each                                          (M)
    float *log_probability; // by es_search_score                                             (M)
    float *value;           // likewise, where es_search_uses_values                          (M)
    int64_t capacity;       // of the last five
} EsSearchBatch;

// A state in the queue, with how it was reached.
typedef struct EsSearchEntry {
    double log_probability;
    double promise; // the greatest is expanded next, but for breadth-first search
    int32_t state;  // in the store
    int32_t parent; // entry, -1: the query
    int32_t depth;  // steps from the query
    int32_t action; // taken from the parent
} EsSearchEntry;

// The best way found to a stored state.
typedef struct EsReachedGoals {
    double log_probability; // of an entry that was queued
    int32_t depth;          // of the same entry
    int32_t expanded_depth; // the least at which it was expanded; INT32_MAX: not yet
} EsReachedGoals;

struct EsProofSearch {
    const EsKnowledgeGraph *graph; // borrowed
    const EsProofGuide *guide;     // borrowed, NULL: equal probabilities
    EsProofSearchSettings settings;
    EsProofSettings listing;  // every successor
    EsProofSettings deciding; // none of them: whether a proof is one step away
    EsSuccessors successors;
    EsSearchBatch batch;
    EsProofPath path;   // to the state at hand; of the proof in the end
    EsAtomSpan *proof;  // states of the path                                       (max_depth)
    EsProofWalk *walks; // of the walking kinds, else NULL                              (batch)
    // of the kinds with a queue
    EsGoalTable goals;
    EsReachedGoals *reached; // by number of the state
    int64_t reached_capacity;
    EsSearchEntry *entries;
    int32_t n_entries;
    int64_t entry_capacity;
    int32_t *heap; // entries, the next one to expand first
    int32_t n_heap;
    int64_t heap_capacity;
    int32_t *taken; // entries of the level or batch at hand         (max of beam_width and batch)
    int32_t n_taken;
    int32_t first_proof; // entry whose state was the first to be proved
    double weight;       // sum over proofs of exp(log_probability / temperature)
    // of the query at hand
    EsAtom query[ES_ATOM_MAX_CELLS];
    int32_t query_cells;
    EsProofAnswer *answer;
};

EsStatus es_proof_path_create(int32_t max_depth, int32_t max_atoms, EsProofPath *path);
void es_proof_path_destroy(EsProofPath *path);
void es_proof_path_push(EsProofPath *path, EsAtomSpan state, uint64_t hash);
EsAtomSpan es_proof_path_goals(const EsProofPath *path, int32_t i);
EsVisitedGoals es_proof_path_visited(const EsProofPath *path);

EsStatus es_search_batch_create(int32_t batch, EsSearchBatch *made);
void es_search_batch_destroy(EsSearchBatch *batch);

// Expand a state, the last of the path, and count it. When there is something to choose it goes
// into the batch, which borrows it. With is_last nothing but a proof is of interest.
EsStatus es_search_expand(EsProofSearch *search, const EsProofPath *path, EsAtomSpan state,
                          int32_t owner, int is_last, EsProofOutcome *outcome);
void es_search_batch_clear(EsSearchBatch *batch);

// Returns whether values of the guide take part in the order of states.
static inline int es_search_uses_values(const EsProofSearch *search) {
    return search->guide != NULL && search->settings.value_weight > 0;
}

// Probabilities of all successors of the batch, and values where they are used; NUMERIC when the
// guide gives none.
EsStatus es_search_score(EsProofSearch *search);

// The kinds with a queue, and the walking ones. Proof and log-probability go to search->path and
// search->answer.
EsStatus es_search_tree(EsProofSearch *search);
EsStatus es_search_walks(EsProofSearch *search);

ES_EXTERN_C_END

#endif
