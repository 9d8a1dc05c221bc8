// The expansion of proof_rules.h as a kernel, a thread per state, for proof_rules_parity_test.c.
#ifndef ES_TESTS_EXPAND_CUDA_H
#define ES_TESTS_EXPAND_CUDA_H

#include "proof/search/proof_rules.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

#define EXPAND_VISITED 21

// A state to expand, and where its proof has been.
typedef struct ExpandTask {
    EsAtom query[ES_ATOM_MAX_CELLS];
    EsAtom state[ES_PROOF_MAX_ATOMS];
    int32_t n_atoms;
    EsAtom visited[EXPAND_VISITED][ES_PROOF_MAX_ATOMS];
    int32_t n_visited_atoms[EXPAND_VISITED];
    uint64_t visited_hash[EXPAND_VISITED];
    int32_t n_visited;
} ExpandTask;

// Expands a task on the device or the CPU.
static inline ES_HOST_DEVICE void expand_task(const EsKnowledgeGraph *graph,
                                              const EsProofSettings *settings,
                                              const ExpandTask *task, EsSuccessors *out) {
    EsVisitedGoals visited = {task->visited[0], task->n_visited_atoms, task->visited_hash,
                              task->n_visited, ES_PROOF_MAX_ATOMS};
    es_proof_expand(graph, settings, task->query, task->state, task->n_atoms, &visited, out);
}

// Tasks and successors (n) are in device memory, the graph's view is passed by value.
EsStatus expand_on_device(EsStream *stream, const EsKnowledgeGraph *view,
                          const EsProofSettings *settings, int32_t n, const ExpandTask *tasks,
                          EsSuccessors *out);

ES_EXTERN_C_END

#endif
