// The parts that all kinds of search share: paths of visited states, batches of expanded states
// with their successors, settings, and the replay of a proof. The kinds themselves are in
// proof_search_kinds.c.
#include "proof/search/proof_search.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_array.h"
#include "proof/search/proof_search_internal.h"
#include "proof/search/prover.h"

const char *const es_search_kind_names[ES_N_SEARCH_KINDS] = {"breadth", "best_first", "beam",
                                                             "greedy", "sampled"};

// beyond these a setting is a slip
#define MAX_BATCH   (1 << 16)
#define MAX_SAMPLES (1 << 24)
#define MAX_ENTRIES (1 << 28)

// --- paths ---

EsStatus es_proof_path_create(int32_t max_depth, int32_t max_atoms, EsProofPath *path) {
    size_t bytes = 0, n_states = (size_t)max_depth;
    // the query fits, whatever the limit
    max_atoms = ES_MAX(max_atoms, ES_ATOM_MAX_CELLS);
    size_t hash = es_slab_add(&bytes, n_states * sizeof *path->hash);
    size_t atoms = es_slab_add(&bytes, n_states * (size_t)max_atoms * sizeof *path->atoms);
    size_t n_atoms = es_slab_add(&bytes, n_states * sizeof *path->n_atoms);
    size_t actions = es_slab_add(&bytes, n_states * sizeof *path->actions);
    void *memory;
    memset(path, 0, sizeof *path);
    ES_TRY(es_allocate(bytes, &memory));
    unsigned char *slab = memory;
    path->hash = (void *)(slab + hash); // first in the slab, released by destroy
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

EsAtomSpan es_proof_path_goals(const EsProofPath *path, int32_t i) {
    EsAtomSpan state = {path->atoms + (size_t)i * (size_t)path->stride, path->n_atoms[i]};
    return state;
}

EsVisitedGoals es_proof_path_visited(const EsProofPath *path) {
    EsVisitedGoals visited = {path->atoms, path->n_atoms, path->hash, path->count, path->stride};
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
    made->owner = (void *)(slab + owner); // first in the slab, released by destroy
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
        return ES_FAIL(MEMORY, "proof search: a batch has more than %d successors", INT32_MAX);
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
    EsVisitedGoals visited = es_proof_path_visited(path);
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

EsStatus es_search_score(EsProofSearch *search) {
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
                              .selection = search->settings.selection,
                              .queries = search->query,
                              .n_queries = 1};
    float *value = es_search_uses_values(search) ? batch->value : NULL;
    ES_TRY(search->guide->score(search->guide->context, &choices, batch->log_probability, value));
    for (int32_t k = 0; k < n_successors; k++) {
        // rounding may leave a little above 0; NaN fails too
        if (!(batch->log_probability[k] <= 1e-3f)) {
            return ES_FAIL(NUMERIC, "the guide of a proof search gives the log-probability %g",
                           (double)batch->log_probability[k]);
        }
        // values of True, False and End, whose numbers follow the predicates', are not used
        int is_terminal = batch->successors[k].atoms[0].predicate > search->graph->n_predicates;
        if (value != NULL && !is_terminal && !isfinite(value[k])) {
            return ES_FAIL(NUMERIC, "the guide of a proof search gives the value %g",
                           (double)value[k]);
        }
    }
    return ES_STATUS_OK;
}

// --- settings ---

EsProofSearchSettings es_proof_search_defaults(void) {
    EsProofSearchSettings settings = {.kind = ES_SEARCH_BEST_FIRST,
                                      .selection = ES_GOAL_CONSTRAINED,
                                      .max_expanded = 1000,
                                      .max_depth = 20,
                                      .max_atoms = 6,
                                      .max_entries = 1000000,
                                      .beam_width = 16,
                                      .n_samples = 16,
                                      .batch = 1,
                                      .temperature = 3};
    return settings;
}

static int is_walking(EsSearchKind kind) {
    return kind == ES_SEARCH_GREEDY || kind == ES_SEARCH_SAMPLED;
}

static EsStatus check_settings(const EsProofSearchSettings *settings) {
    if ((int)settings->kind < 0 || settings->kind >= ES_N_SEARCH_KINDS) {
        return ES_FAIL(ARGUMENT, "proof search: there is no kind %d", (int)settings->kind);
    }
    const struct {
        const char *name;
        int64_t value, min, max;
    } limits[] = {{"max_expanded", settings->max_expanded, 1, INT64_MAX},
                  {"max_depth", settings->max_depth, 1, ES_SEARCH_MAX_DEPTH},
                  {"max_atoms", settings->max_atoms, 1, ES_PROOF_MAX_ATOMS},
                  {"max_successors", settings->max_successors, 0, MAX_ENTRIES},
                  {"max_entries", settings->max_entries, 1, MAX_ENTRIES},
                  {"beam_width", settings->beam_width, 1, MAX_ENTRIES},
                  {"n_samples", settings->n_samples, 1, MAX_SAMPLES},
                  {"batch", settings->batch, 1, MAX_BATCH}};
    for (size_t i = 0; i < ES_COUNT_OF(limits); i++) {
        if (limits[i].value < limits[i].min || limits[i].value > limits[i].max) {
            return ES_FAIL(ARGUMENT, "proof search: %s is %lld, expected %lld to %lld",
                           limits[i].name, (long long)limits[i].value, (long long)limits[i].min,
                           (long long)limits[i].max);
        }
    }
    if (!(settings->temperature > 0 && settings->temperature <= 1e6)) {
        return ES_FAIL(ARGUMENT, "proof search: temperature is %g, expected above 0 up to 1e6",
                       settings->temperature);
    }
    if (!(settings->value_weight >= 0 && settings->value_weight <= ES_SEARCH_MAX_VALUE_WEIGHT)) {
        return ES_FAIL(ARGUMENT, "proof search: value_weight is %g, expected 0 to %d",
                       settings->value_weight, ES_SEARCH_MAX_VALUE_WEIGHT);
    }
    if (settings->value_weight > 0 && settings->kind != ES_SEARCH_BEST_FIRST &&
        settings->kind != ES_SEARCH_BEAM) {
        return ES_FAIL(ARGUMENT,
                       "proof search: values order the states of best_first and beam, not of %s",
                       es_search_kind_names[settings->kind]);
    }
    if (settings->finds_all && is_walking(settings->kind)) {
        return ES_FAIL(ARGUMENT,
                       "all proofs are searched for by breadth, best_first or beam, not by %s",
                       es_search_kind_names[settings->kind]);
    }
    return ES_STATUS_OK;
}

// The settings of an expansion that lists successors.
static EsProofSettings make_listing(const EsKnowledgeGraph *graph,
                                    const EsProofSearchSettings *settings) {
    int32_t all = es_proof_max_candidates(graph);
    int32_t most = settings->max_successors > 0 ? ES_MIN(settings->max_successors, all) : all;
    EsProofSettings listing = {.selection = settings->selection,
                               .max_atoms = settings->max_atoms,
                               .max_states = most + (settings->has_end != 0),
                               .has_end = settings->has_end};
    return listing;
}

// --- life ---

static EsStatus make_buffers(EsProofSearch *search) {
    const EsProofSearchSettings *settings = &search->settings;
    void *memory;
    ES_TRY(
        es_successors_create(search->listing.max_states, settings->max_atoms, &search->successors));
    ES_TRY(es_search_batch_create(settings->batch, &search->batch));
    ES_TRY(es_proof_path_create(settings->max_depth, settings->max_atoms, &search->path));
    ES_TRY(es_allocate((size_t)settings->max_depth * sizeof *search->proof, &memory));
    search->proof = memory;
    if (is_walking(settings->kind)) {
        ES_TRY(es_allocate((size_t)settings->batch * sizeof *search->walks, &memory));
        search->walks = memory;
        for (int32_t w = 0; w < settings->batch; w++) {
            ES_TRY(es_proof_path_create(settings->max_depth, settings->max_atoms,
                                        &search->walks[w].path));
        }
        return ES_STATUS_OK;
    }
    size_t n_taken = (size_t)ES_MAX(settings->beam_width, settings->batch);
    ES_TRY(es_allocate(n_taken * sizeof *search->taken, &memory));
    search->taken = memory;
    return ES_STATUS_OK;
}

EsStatus es_proof_search_create(const EsKnowledgeGraph *graph,
                                const EsProofSearchSettings *settings, const EsProofGuide *guide,
                                EsProofSearch **search) {
    *search = NULL;
    ES_TRY(check_settings(settings));
    ES_TRY(es_proof_check_graph(graph));
    void *memory;
    ES_TRY(es_allocate(sizeof(EsProofSearch), &memory));
    EsProofSearch *made = memory;
    made->graph = graph;
    made->guide = guide;
    made->settings = *settings;
    made->listing = make_listing(graph, settings);
    made->deciding = made->listing;
    made->deciding.max_atoms = 0;
    EsStatus status = make_buffers(made);
    if (status != ES_STATUS_OK) {
        es_proof_search_destroy(made);
        return status;
    }
    *search = made;
    return ES_STATUS_OK;
}

void es_proof_search_destroy(EsProofSearch *search) {
    if (search == NULL) {
        return;
    }
    for (int32_t w = 0; search->walks != NULL && w < search->settings.batch; w++) {
        es_proof_path_destroy(&search->walks[w].path);
    }
    es_release(search->walks);
    es_successors_destroy(&search->successors);
    es_search_batch_destroy(&search->batch);
    es_proof_path_destroy(&search->path);
    es_release(search->proof);
    es_goal_table_destroy(&search->goals);
    es_release(search->reached);
    es_release(search->entries);
    es_release(search->heap);
    es_release(search->taken);
    es_release(search);
}

// --- a query ---

EsStatus es_proof_search_find(EsProofSearch *search, const EsAtom *query, EsProofAnswer *answer) {
    memset(answer, 0, sizeof *answer);
    answer->depth = ES_KG_DEPTH_NONE;
    ES_TRY(es_proof_check_query(search->graph, query));
    search->query_cells = es_kg_cells(search->graph, query->predicate);
    memcpy(search->query, query, (size_t)search->query_cells * sizeof *query);
    search->answer = answer;
    ES_TRY(is_walking(search->settings.kind) ? es_search_walks(search) : es_search_tree(search));
    if (answer->is_proved) {
        answer->n_proofs = ES_MAX(answer->n_proofs, 1);
        answer->depth = search->path.count;
        for (int32_t i = 0; i < answer->depth; i++) {
            search->proof[i] = es_proof_path_goals(&search->path, i);
        }
        answer->path = search->proof;
        answer->actions = search->path.actions;
    }
    return ES_STATUS_OK;
}

// --- replay ---

static EsProofOutcome replay_actions(const EsKnowledgeGraph *graph, const EsProofSettings *listing,
                                     const EsAtom *query, const int32_t *actions, int32_t n_actions,
                                     EsProofPath *path, EsSuccessors *successors) {
    EsAtomSpan state = {query, es_kg_cells(graph, query->predicate)};
    uint64_t hash = es_proof_hash(state.atoms, state.count);
    for (int32_t i = 0; i < n_actions; i++) {
        es_proof_path_push(path, state, hash);
        state = es_proof_path_goals(path, i);
        EsVisitedGoals visited = es_proof_path_visited(path);
        es_proof_expand(graph, listing, query, state.atoms, state.count, &visited, successors);
        if (actions[i] < 0 || actions[i] >= successors->count) {
            return ES_PROOF_FAILED;
        }
        state = es_successor(successors, actions[i]);
        hash = successors->hash[actions[i]];
        if (state.atoms[0].predicate > graph->n_predicates) {
            int is_end = i == n_actions - 1 && successors->outcome == ES_PROOF_PROVED;
            return is_end ? ES_PROOF_PROVED : ES_PROOF_FAILED;
        }
    }
    return ES_PROOF_OPEN;
}

EsStatus es_proof_replay(const EsKnowledgeGraph *graph, const EsProofSearchSettings *settings,
                         const EsAtom *query, const int32_t *actions, int32_t n_actions,
                         EsProofOutcome *outcome) {
    EsSuccessors successors = {0};
    EsProofPath path = {0};
    EsStatus status = ES_STATUS_OK;
    *outcome = ES_PROOF_FAILED;
    ES_TRY(check_settings(settings));
    ES_TRY(es_proof_check_query(graph, query));
    if (n_actions < 0 || n_actions > ES_SEARCH_MAX_DEPTH) {
        return ES_FAIL(ARGUMENT, "a proof of %d actions, expected 0 to %d", n_actions,
                       ES_SEARCH_MAX_DEPTH);
    }
    EsProofSettings listing = make_listing(graph, settings);
    ES_TRY_GOTO(es_successors_create(listing.max_states, listing.max_atoms, &successors));
    ES_TRY_GOTO(es_proof_path_create(n_actions + 1, listing.max_atoms, &path));
    *outcome = replay_actions(graph, &listing, query, actions, n_actions, &path, &successors);
done:
    es_successors_destroy(&successors);
    es_proof_path_destroy(&path);
    return status;
}
