// The shortest proof of an atom: the search of prover.c once more, with the way kept. The prover
// says first whether there is a proof and how long it is, which leaves out most states.
#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_array.h"
#include "proof/search/proof_states.h"
#include "proof/search/proof_tree.h"

// How a state was reached.
typedef struct Origin {
    int32_t parent; // number of the state before, -1: none
    int32_t n_steps;
} Origin;

typedef struct Search {
    const EsKnowledgeGraph *graph;
    EsProofSettings settings;
    EsAtom query;
    EsProofStates states;
    Origin *origins; // of each state; owned
    int64_t capacity;
    EsSuccessors successors;
} Search;

static EsStatus add_state(Search *search, EsAtomSpan state, uint64_t hash, Origin origin) {
    int32_t n_before = search->states.count, number;
    ES_TRY(es_proof_states_add(&search->states, state.atoms, state.count, hash, &number));
    if (number < n_before) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_proof_array_grow((void **)&search->origins, sizeof origin, number,
                               (int64_t)number + 1, &search->capacity));
    search->origins[number] = origin;
    return ES_STATUS_OK;
}

// The number of the last state before True of a proof of `depth` steps, which there is.
static EsStatus find_last(Search *search, int32_t depth, int32_t *last) {
    EsSuccessors *successors = &search->successors;
    EsAtomSpan first = {&search->query, 1};
    ES_TRY(add_state(search, first, es_proof_hash(first.atoms, 1), (Origin){-1, 0}));
    for (int32_t i = 0; i < search->states.count; i++) {
        int32_t n_steps = search->origins[i].n_steps + 1;
        EsAtomSpan state = es_proof_state(&search->states, i);
        es_proof_expand(search->graph, &search->settings, search->query, state.atoms, state.count,
                        NULL, successors);
        ES_ASSERT(successors->n_overflow == 0);
        if (successors->outcome == ES_PROOF_PROVED) {
            *last = i;
            return ES_STATUS_OK;
        }
        for (int32_t k = 0; k < successors->count && n_steps < depth; k++) {
            EsAtomSpan next = es_successor(successors, k);
            if (successors->outcome == ES_PROOF_OPEN &&
                es_proof_may_end(search->graph, next, depth - n_steps)) {
                ES_TRY(add_state(search, next, successors->hash[k], (Origin){i, n_steps}));
            }
        }
    }
    return ES_FAIL(NUMERIC, "the proof of %d steps that the prover found is not there", depth);
}

static EsStatus make_tree(const Search *search, int32_t last, EsProofTree **tree) {
    int32_t n_states = search->origins[last].n_steps + 1;
    void *memory;
    ES_TRY(es_allocate((size_t)n_states * sizeof(EsAtomSpan), &memory));
    EsAtomSpan *way = memory;
    for (int32_t i = last, k = n_states; i >= 0; i = search->origins[i].parent) {
        way[--k] = es_proof_state(&search->states, i);
    }
    EsStatus status =
        es_proof_tree_create(search->graph, search->settings.selection, way, n_states, tree);
    es_release(memory);
    return status;
}

EsStatus es_proof_tree_find(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                            EsAtom query, EsProofTree **tree, EsProverAnswer *answer) {
    *tree = NULL;
    EsProver *prover = NULL;
    ES_ASSERT(!settings->uses_published_naming);
    ES_TRY(es_prover_create(graph, settings, &prover));
    EsStatus status = es_prover_find_depth(prover, query, answer);
    es_prover_destroy(prover);
    if (status != ES_STATUS_OK || answer->depth < 1) {
        return status;
    }
    Search search;
    memset(&search, 0, sizeof search);
    search.graph = graph;
    search.query = query;
    search.settings = (EsProofSettings){.selection = settings->selection,
                                        .max_atoms = settings->max_atoms,
                                        .max_states = es_proof_max_candidates(graph)};
    int32_t last = 0;
    ES_TRY_GOTO(
        es_successors_create(search.settings.max_states, settings->max_atoms, &search.successors));
    ES_TRY_GOTO(find_last(&search, answer->depth, &last));
    ES_TRY_GOTO(make_tree(&search, last, tree));
done:
    es_successors_destroy(&search.successors);
    es_proof_states_destroy(&search.states);
    es_release(search.origins);
    return status;
}
