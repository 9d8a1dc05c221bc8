// Minimal proof depths by breadth-first search with the rules of proof_rules.h.
//
// Level 0 is the query alone; its depth is the number of steps of the shortest proof, found when a
// state of some level has True as its successor. States are compared exactly. A query
// that is not decided within the limit on states is reported as such, never as unprovable.
//
//     EsProverSettings settings = es_prover_defaults();
//     EsProver *prover; ES_TRY(es_prover_create(graph, &settings, &prover));
//     EsProverAnswer answer; ES_TRY(es_prover_find_depth(prover, &query, &answer));
//     es_prover_destroy(prover);
#ifndef ES_PROOF_PROVER_H
#define ES_PROOF_PROVER_H

#include "base/thread_pool.h"
#include "proof/search/proof_rules.h"

ES_EXTERN_C_BEGIN

// the depth of a query whose search met the limit on states
#define ES_PROVER_DEPTH_UNKNOWN (-2)

typedef struct EsProverSettings {
    EsGoalSelection selection;
    int32_t max_depth;         // steps, at least 1
    int32_t max_atoms;         // of a state, 1 to ES_PROOF_MAX_ATOMS; see proof_rules.h
    int32_t max_states;        // kept per query, at least 1; memory grows on demand
    int uses_published_naming; // tests alone, see EsProofSettings; visited states are then compared
                               // as sets of atoms
} EsProverSettings;

typedef struct EsProverAnswer {
    int32_t depth;      // steps, ES_KG_DEPTH_NONE or ES_PROVER_DEPTH_UNKNOWN
    int32_t n_states;   // distinct states kept
    int64_t n_expanded; // expansions whose successors were listed
    int64_t n_overlong; // candidates dropped for the limit on atoms
} EsProverAnswer;

// Sums over many queries.
typedef struct EsProverReport {
    int32_t n_proved, n_unproved;
    int32_t n_unknown; // met the limit on states
    int64_t n_states, n_expanded, n_overlong;
} EsProverReport;

// Successor lists of a graph can be this long, duplicates included.
int32_t es_proof_max_candidates(const EsKnowledgeGraph *graph);

// Buffers for up to max_states successors of max_atoms atoms. MEMORY also when their atoms are more
// than an int32_t counts, which a predicate with 10^8 facts may ask for.
EsStatus es_successors_create(int32_t max_states, int32_t max_atoms, EsSuccessors *successors);
void es_successors_destroy(EsSuccessors *successors);

// Returns whether a state that was pruned may still be proved in n_steps; 0 is certain.
int es_proof_may_end(const EsKnowledgeGraph *graph, EsAtomSpan state, int32_t n_steps);

// INPUT when the rules have negations that were not decided (es_closure_decide).
EsStatus es_proof_check_graph(const EsKnowledgeGraph *graph);

// ARGUMENT when the query is not an atom over the graph's constants and predicates.
EsStatus es_proof_check_query(const EsKnowledgeGraph *graph, const EsAtom *query);

// Constrained selection, depth 4, 6 atoms, 4 million states.
EsProverSettings es_prover_defaults(void);

// One thread per prover. The graph is borrowed.
typedef struct EsProver EsProver;
EsStatus es_prover_create(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                          EsProver **prover);
void es_prover_destroy(EsProver *prover);

// ARGUMENT when the query is not an atom over the graph's constants and predicates.
EsStatus es_prover_find_depth(EsProver *prover, const EsAtom *query, EsProverAnswer *answer);

// All queries, each of the graph's query_cells, over the pool's threads; depths as in
// EsProverAnswer (count). The results do not depend on the number of threads.
EsStatus es_prover_find_depths(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                               EsThreadPool *pool, const EsAtom *queries, int32_t count,
                               int32_t *depths, EsProverReport *report);

ES_EXTERN_C_END

#endif
