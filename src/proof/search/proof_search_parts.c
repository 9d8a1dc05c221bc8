#include "proof/search/proof_search_parts.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_array.h"

// --- paths ---

EsStatus es_proof_path_create(int32_t max_depth, int32_t max_atoms, EsProofPath *path) {
    size_t bytes = 0, n_states = (size_t)max_depth;
    size_t hash = es_slab_add(&bytes, n_states * sizeof *path->hash);
    size_t atoms = es_slab_add(&bytes, n_states * (size_t)max_atoms * sizeof *path->atoms);
    size_t n_atoms = es_slab_add(&bytes, n_states * sizeof *path->n_atoms);
    size_t actions = es_slab_add(&bytes, n_states * sizeof *path->actions);
    void *memory;
    memset(path, 0, sizeof *path);
    ES_TRY(es_allocate(bytes, &memory));
    unsigned char *slab = memory;
    path->hash = (void *)(slab + hash); // first in the slab: what destroy releases
    path->atoms = (void *)(slab + atoms);
    path->n_atoms = (void *)(slab + n_atoms);
    path->actions = (void *)(slab + actions);
    path->stride = max_atoms;
    return ES_STATUS_OK;
}

void es_proof_path_destroy(EsProofPath *path) {
    es_release(path->hash);
    memset(path, 0, sizeof *path);
}

void es_proof_path_push(EsProofPath *path, EsAtomSpan state, uint64_t hash) {
    size_t i = (size_t)path->count++;
    memcpy(path->atoms + i * (size_t)path->stride, state.atoms,
           (size_t)state.count * sizeof *state.atoms);
    path->n_atoms[i] = state.count;
    path->hash[i] = hash;
}

EsAtomSpan es_proof_path_state(const EsProofPath *path, int32_t i) {
    EsAtomSpan state = {path->atoms + (size_t)i * (size_t)path->stride, path->n_atoms[i]};
    return state;
}

EsVisitedStates es_proof_path_visited(const EsProofPath *path) {
    EsVisitedStates visited = {path->atoms, path->n_atoms, path->hash, path->count, path->stride};
    return visited;
}

// --- batches ---

EsStatus es_search_batch_create(int32_t batch, EsSearchBatch *made) {
    size_t bytes = 0, n_states = (size_t)batch;
    size_t owner = es_slab_add(&bytes, n_states * sizeof *made->owner);
    size_t states = es_slab_add(&bytes, n_states * sizeof *made->states);
    size_t first = es_slab_add(&bytes, (n_states + 1) * sizeof *made->first);
    void *memory;
    memset(made, 0, sizeof *made);
    ES_TRY(es_allocate(bytes, &memory));
    unsigned char *slab = memory;
    made->owner = (void *)(slab + owner); // first in the slab: what destroy releases
    made->states = (void *)(slab + states);
    made->first = (void *)(slab + first);
    return ES_STATUS_OK;
}

void es_search_batch_destroy(EsSearchBatch *batch) {
    es_release(batch->owner);
    es_release(batch->atoms);
    es_release(batch->successors);
    es_release(batch->start);
    es_release(batch->hash);
    es_release(batch->log_probability);
    es_release(batch->value);
    memset(batch, 0, sizeof *batch);
}

// Room for `wanted` successors.
static EsStatus grow_successors(EsSearchBatch *batch, int64_t used, int64_t wanted) {
    const struct {
        void **array;
        size_t element_bytes;
    } arrays[] = {{(void **)&batch->successors, sizeof *batch->successors},
                  {(void **)&batch->start, sizeof *batch->start},
                  {(void **)&batch->hash, sizeof *batch->hash},
                  {(void **)&batch->log_probability, sizeof *batch->log_probability},
                  {(void **)&batch->value, sizeof *batch->value}};
    int64_t capacity = batch->capacity;
    for (size_t i = 0; i < ES_COUNT_OF(arrays); i++) {
        capacity = batch->capacity;
        ES_TRY(
            es_proof_array_grow(arrays[i].array, arrays[i].element_bytes, used, wanted, &capacity));
    }
    batch->capacity = capacity;
    return ES_STATUS_OK;
}

void es_search_batch_clear(EsSearchBatch *batch) {
    batch->n_states = 0;
    batch->n_atoms = 0;
    batch->first[0] = 0;
}

static EsStatus add_state(EsProofSearch *search, int32_t owner, EsAtomSpan state) {
    const EsSuccessors *from = &search->successors;
    EsSearchBatch *batch = &search->batch;
    int64_t n_atoms = from->start[from->count];
    int64_t begin = batch->first[batch->n_states], count = from->count;
    if (begin + count > INT32_MAX) {
        return ES_FAIL(MEMORY, "a batch of proof search with more than %d successors", INT32_MAX);
    }
    ES_TRY(es_proof_array_grow((void **)&batch->atoms, sizeof *batch->atoms, batch->n_atoms,
                               batch->n_atoms + n_atoms, &batch->atom_capacity));
    ES_TRY(grow_successors(batch, begin, begin + count));
    memcpy(batch->atoms + batch->n_atoms, from->atoms, (size_t)n_atoms * sizeof *batch->atoms);
    memcpy(batch->hash + begin, from->hash, (size_t)count * sizeof *batch->hash);
    for (int64_t k = 0; k < count; k++) {
        batch->start[begin + k] = batch->n_atoms + from->start[k];
        batch->successors[begin + k].count = from->start[k + 1] - from->start[k];
    }
    batch->n_atoms += n_atoms;
    batch->owner[batch->n_states] = owner;
    batch->states[batch->n_states] = state;
    batch->first[++batch->n_states] = (int32_t)(begin + count);
    return ES_STATUS_OK;
}

EsStatus es_search_expand(EsProofSearch *search, const EsProofPath *path, EsAtomSpan state,
                          int32_t owner, int is_last, EsProofOutcome *outcome) {
    EsSuccessors *successors = &search->successors;
    EsVisitedStates visited = es_proof_path_visited(path);
    es_proof_expand(search->graph, is_last ? &search->deciding : &search->listing, search->query,
                    state.atoms, state.count, &visited, successors);
    search->answer->n_expanded++;
    *outcome = successors->outcome;
    if (is_last) {
        return ES_STATUS_OK;
    }
    search->answer->n_overlong += successors->n_overlong;
    search->answer->n_overflow += successors->n_overflow;
    return *outcome == ES_PROOF_OPEN ? add_state(search, owner, state) : ES_STATUS_OK;
}

EsStatus es_search_judge(EsProofSearch *search) {
    EsSearchBatch *batch = &search->batch;
    int32_t n_successors = batch->first[batch->n_states];
    for (int32_t k = 0; k < n_successors; k++) {
        batch->successors[k].atoms = batch->atoms + batch->start[k];
    }
    if (search->guide == NULL || batch->n_states == 0) {
        for (int32_t i = 0; i < batch->n_states; i++) {
            float equal = -logf((float)(batch->first[i + 1] - batch->first[i]));
            for (int32_t k = batch->first[i]; k < batch->first[i + 1]; k++) {
                batch->log_probability[k] = equal;
            }
        }
        return ES_STATUS_OK;
    }
    EsProofChoices choices = {.states = batch->states,
                              .first = batch->first,
                              .successors = batch->successors,
                              .n_states = batch->n_states,
                              .selection = search->settings.selection};
    float *value = es_search_uses_values(search) ? batch->value : NULL;
    ES_TRY(search->guide->judge(search->guide->context, &choices, batch->log_probability, value));
    for (int32_t k = 0; k < n_successors; k++) {
        // rounding may leave a little above 0; NaN fails too
        if (!(batch->log_probability[k] <= 1e-3f)) {
            return ES_FAIL(NUMERIC, "the guide of a proof search gives the log-probability %g",
                           (double)batch->log_probability[k]);
        }
        // of True, False and End, whose numbers follow the predicates', nobody asks the value
        int is_terminal = batch->successors[k].atoms[0].predicate > search->graph->n_predicates;
        if (value != NULL && !is_terminal && !isfinite(value[k])) {
            return ES_FAIL(NUMERIC, "the guide of a proof search gives the value %g",
                           (double)value[k]);
        }
    }
    return ES_STATUS_OK;
}
