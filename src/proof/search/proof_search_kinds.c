// Breadth-first, best-first and beam search: states wait in a heap, and the first of them are
// expanded and scored together.
//
// An entry of the queue is a way to a state, so one state may wait several times: a way that is
// less probable but shorter may be the one that meets the limit on depth. A state is expanded again
// only when it was reached in fewer steps than before, which keeps the search exhaustive.
//
// Greedy and sampled walks: episodes that take one successor after the other, several walks in step
// so that the guide scores them together.
#include <math.h>
#include <string.h>

#include "base/random_rules.h"
#include "proof/search/proof_array.h"
#include "proof/search/proof_search_internal.h"
#include "proof/search/prover.h"

#define LEAST_VALUE 0.01

// --- the heap ---

// In breadth-first search the age is the order: entries come level by level.
static int precedes(const EsProofSearch *search, int32_t x, int32_t y) {
    double p = search->entries[x].promise, q = search->entries[y].promise;
    if (search->settings.kind != ES_SEARCH_BREADTH && p != q) {
        return p > q;
    }
    return x < y;
}

static void heap_insert(EsProofSearch *search, int32_t entry) {
    int32_t *heap = search->heap, i = search->n_heap++;
    for (; i > 0 && precedes(search, entry, heap[(i - 1) / 2]); i = (i - 1) / 2) {
        heap[i] = heap[(i - 1) / 2];
    }
    heap[i] = entry;
}

static int32_t heap_remove_first(EsProofSearch *search) {
    int32_t *heap = search->heap, n_heap = --search->n_heap;
    int32_t first = heap[0], last = heap[n_heap], i = 0;
    for (int32_t child; (child = 2 * i + 1) < n_heap; i = child) {
        if (child + 1 < n_heap && precedes(search, heap[child + 1], heap[child])) {
            child++;
        }
        if (!precedes(search, heap[child], last)) {
            break;
        }
        heap[i] = heap[child];
    }
    heap[i] = last;
    return first;
}

// --- entries ---

static EsStatus make_room(EsProofSearch *search) {
    int64_t n_entries = search->n_entries, n_heap = search->n_heap, n_states = search->goals.count;
    ES_TRY(es_proof_array_grow((void **)&search->entries, sizeof *search->entries, n_entries,
                               n_entries + 1, &search->entry_capacity));
    ES_TRY(es_proof_array_grow((void **)&search->heap, sizeof *search->heap, n_heap, n_heap + 1,
                               &search->heap_capacity));
    return es_proof_array_grow((void **)&search->reached, sizeof *search->reached, n_states,
                               n_states + 1, &search->reached_capacity);
}

// Returns whether an entry of the queue, or an expansion, stands for this one. Entries that a beam
// has cut off stand for nothing on the next levels.
static int is_dominated(const EsProofSearch *search, const EsReachedGoals *reached,
                        const EsSearchEntry *entry) {
    if (entry->depth >= reached->expanded_depth) {
        return 1;
    }
    switch (search->settings.kind) {
    case ES_SEARCH_BREADTH:
        return entry->depth >= reached->depth;
    case ES_SEARCH_BEAM:
        return entry->depth == reached->depth && entry->log_probability <= reached->log_probability;
    default:
        return entry->depth >= reached->depth && entry->log_probability <= reached->log_probability;
    }
}

// Queues a state unless an earlier entry makes it redundant.
static EsStatus queue_state(EsProofSearch *search, EsAtomSpan state, uint64_t hash,
                            EsSearchEntry entry) {
    ES_TRY(make_room(search));
    int32_t n_states = search->goals.count;
    ES_TRY(es_goal_table_add(&search->goals, state.atoms, state.count, hash, &entry.state));
    EsReachedGoals *reached = &search->reached[entry.state];
    int is_new = entry.state == n_states;
    if (is_new) {
        reached->expanded_depth = INT32_MAX;
    } else if (is_dominated(search, reached, &entry)) {
        return ES_STATUS_OK;
    }
    int is_beam = search->settings.kind == ES_SEARCH_BEAM;
    if (is_new || is_beam ||
        (entry.depth <= reached->depth && entry.log_probability >= reached->log_probability)) {
        reached->depth = entry.depth;
        reached->log_probability = entry.log_probability;
    }
    search->entries[search->n_entries] = entry;
    heap_insert(search, search->n_entries++);
    return ES_STATUS_OK;
}

// The way from the query to an entry's state.
static void trace_path(EsProofSearch *search, int32_t index) {
    EsProofPath *path = &search->path;
    const EsSearchEntry *entry = &search->entries[index];
    path->count = entry->depth + 1;
    for (int32_t i = entry->depth; i >= 0; i--, entry = &search->entries[entry->parent]) {
        EsAtomSpan state = es_goal_table_at(&search->goals, entry->state);
        memcpy(path->atoms + (size_t)i * (size_t)path->stride, state.atoms,
               (size_t)state.count * sizeof *state.atoms);
        path->n_atoms[i] = state.count;
        path->hash[i] = search->goals.stored[entry->state].hash;
        if (i > 0) {
            path->actions[i - 1] = entry->action;
        }
    }
}

// --- the search ---

// Take the first entries of the heap whose states were not expanded at their depth or above.
static void take_entries(EsProofSearch *search) {
    const EsProofSearchSettings *settings = &search->settings;
    int is_beam = settings->kind == ES_SEARCH_BEAM;
    int32_t most = is_beam ? settings->beam_width : settings->batch;
    search->n_taken = 0;
    while (search->n_heap > 0 && search->n_taken < most) {
        int32_t index = heap_remove_first(search);
        const EsSearchEntry *entry = &search->entries[index];
        EsReachedGoals *reached = &search->reached[entry->state];
        if (entry->depth < reached->expanded_depth) {
            reached->expanded_depth = entry->depth;
            search->taken[search->n_taken++] = index;
        }
    }
    if (is_beam) {
        search->n_heap = 0;
    }
}

// Count a proof; its last step is to True. The weights of all are summed in the order found.
static void note_proof(EsProofSearch *search, int32_t index) {
    EsProofAnswer *answer = search->answer;
    double log_probability = search->entries[index].log_probability;
    if (answer->n_proofs++ == 0) {
        answer->is_proved = 1;
        answer->log_probability = log_probability;
        search->first_proof = index;
    }
    search->weight += exp(log_probability / search->settings.temperature);
}

// Expand the entries taken[begin] to taken[end - 1]. Stops at the limit on expansions, or at a
// proof where one is enough.
static EsStatus expand_entries(EsProofSearch *search, int32_t begin, int32_t end) {
    EsProofAnswer *answer = search->answer;
    es_search_batch_clear(&search->batch);
    for (int32_t i = begin; i < end; i++) {
        if (answer->n_expanded == search->settings.max_expanded) {
            answer->met_expanded = 1;
            return ES_STATUS_OK;
        }
        const EsSearchEntry *entry = &search->entries[search->taken[i]];
        EsProofOutcome outcome;
        trace_path(search, search->taken[i]);
        ES_TRY(es_search_expand(search, &search->path,
                                es_goal_table_at(&search->goals, entry->state), search->taken[i],
                                entry->depth + 1 == search->settings.max_depth, &outcome));
        if (outcome == ES_PROOF_PROVED) {
            note_proof(search, search->taken[i]);
            if (!search->settings.finds_all) {
                return ES_STATUS_OK;
            }
        }
    }
    return ES_STATUS_OK;
}

// Of successor k of the batch, reached with this probability. A value is an estimate and may even
// be negative; the floor keeps a wrong one from hiding a state for good.
static double promise_of(const EsProofSearch *search, int32_t k, double log_probability) {
    if (!es_search_uses_values(search)) {
        return log_probability;
    }
    double value = ES_MAX((double)search->batch.value[k], LEAST_VALUE);
    return log_probability + search->settings.value_weight * log(value);
}

static EsStatus queue_successors(EsProofSearch *search) {
    const EsSearchBatch *batch = &search->batch;
    for (int32_t i = 0; i < batch->n_states; i++) {
        int32_t parent = batch->owner[i];
        int32_t depth = search->entries[parent].depth + 1;
        for (int32_t k = batch->first[i]; k < batch->first[i + 1]; k++) {
            EsAtomSpan state = batch->successors[k];
            if (state.atoms[0].predicate > search->graph->n_predicates ||
                !es_proof_may_end(search->graph, state, search->settings.max_depth - depth)) {
                continue;
            }
            if (search->n_entries == search->settings.max_entries) {
                search->answer->met_entries = 1;
                return ES_STATUS_OK;
            }
            double log_probability =
                search->entries[parent].log_probability + (double)batch->log_probability[k];
            EsSearchEntry entry = {.log_probability = log_probability,
                                   .promise = promise_of(search, k, log_probability),
                                   .parent = parent,
                                   .depth = depth,
                                   .action = k - batch->first[i]};
            ES_TRY(queue_state(search, state, batch->hash[k], entry));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_search_tree(EsProofSearch *search) {
    EsProofAnswer *answer = search->answer;
    EsAtomSpan query = {search->query, search->query_cells};
    EsSearchEntry root = {.parent = -1};
    es_goal_table_clear(&search->goals);
    search->n_entries = search->n_heap = 0;
    search->weight = 0;
    ES_TRY(queue_state(search, query, es_proof_hash(query.atoms, query.count), root));
    int goes_on = 1;
    while (goes_on && search->n_heap > 0) {
        take_entries(search);
        for (int32_t begin = 0; goes_on && begin < search->n_taken;
             begin += search->settings.batch) {
            int32_t end = ES_MIN(begin + search->settings.batch, search->n_taken);
            ES_TRY(expand_entries(search, begin, end));
            int is_over = answer->is_proved && !search->settings.finds_all;
            goes_on = !is_over && !answer->met_expanded;
            if (goes_on) {
                ES_TRY(es_search_score(search));
                ES_TRY(queue_successors(search));
                goes_on = !answer->met_entries;
            }
        }
    }
    answer->n_entries = search->n_entries;
    if (answer->is_proved) {
        trace_path(search, search->first_proof);
        search->path.actions[search->path.count - 1] = 0;
        answer->evidence = search->settings.finds_all ? log(search->weight) : 0;
    }
    return ES_STATUS_OK;
}

// --- walks ---

// The most probable successor of state i of the batch, ties the first.
static int32_t choose_best(const EsSearchBatch *batch, int32_t i) {
    int32_t best = batch->first[i];
    for (int32_t k = best + 1; k < batch->first[i + 1]; k++) {
        if (batch->log_probability[k] > batch->log_probability[best]) {
            best = k;
        }
    }
    return best;
}

// A successor of state i by its probability; u in [0, 1). The sum makes up for rounding.
static int32_t choose_random(const EsSearchBatch *batch, int32_t i, double u) {
    double sum = 0, reached = 0;
    for (int32_t k = batch->first[i]; k < batch->first[i + 1]; k++) {
        sum += exp((double)batch->log_probability[k]);
    }
    for (int32_t k = batch->first[i]; k < batch->first[i + 1]; k++) {
        reached += exp((double)batch->log_probability[k]);
        if (u * sum < reached) {
            return k;
        }
    }
    return batch->first[i + 1] - 1;
}

// Expand the state each walk stands on. Returns how many go on through *n_open.
static EsStatus expand_walks(EsProofSearch *search, int32_t n_walks, int32_t *n_open) {
    EsProofAnswer *answer = search->answer;
    *n_open = 0;
    for (int32_t w = 0; w < n_walks; w++) {
        EsProofWalk *walk = &search->walks[w];
        EsProofPath *path = &walk->path;
        if (walk->is_over) {
            continue;
        }
        if (answer->n_expanded == search->settings.max_expanded) {
            answer->met_expanded = 1;
            walk->is_over = 1;
            continue;
        }
        EsProofOutcome outcome;
        ES_TRY(es_search_expand(search, path, es_proof_path_goals(path, path->count - 1), w,
                                path->count == search->settings.max_depth, &outcome));
        if (outcome == ES_PROOF_PROVED) {
            path->actions[path->count - 1] = 0;
            walk->is_proved = 1;
        }
        walk->is_over = outcome != ES_PROOF_OPEN || path->count == search->settings.max_depth;
        *n_open += !walk->is_over;
    }
    return ES_STATUS_OK;
}

// One step of every walk that is in the batch; `number` is that of the first walk.
static void step_walks(EsProofSearch *search, int32_t number) {
    const EsSearchBatch *batch = &search->batch;
    uint64_t seed = search->settings.seed ^ es_proof_hash(search->query, search->query_cells);
    for (int32_t i = 0; i < batch->n_states; i++) {
        int32_t w = batch->owner[i];
        EsProofWalk *walk = &search->walks[w];
        EsProofPath *path = &walk->path;
        int32_t chosen;
        if (search->settings.kind == ES_SEARCH_GREEDY) {
            chosen = choose_best(batch, i);
        } else {
            EsRandom4 draw = es_random_draw(seed, (uint32_t)(number + w), ES_PURPOSE_ACTION,
                                            (uint32_t)path->count, 0);
            chosen = choose_random(batch, i, (double)es_random_uniform(draw.word[0]));
        }
        walk->log_probability += (double)batch->log_probability[chosen];
        EsAtomSpan state = batch->successors[chosen];
        path->actions[path->count - 1] = chosen - batch->first[i];
        if (state.atoms[0].predicate > search->graph->n_predicates) {
            walk->is_over = 1;
        } else {
            es_proof_path_push(path, state, batch->hash[chosen]);
        }
        search->answer->n_entries++;
    }
}

static void copy_path(const EsProofPath *from, EsProofPath *to) {
    size_t count = (size_t)from->count;
    to->count = from->count;
    memcpy(to->atoms, from->atoms, count * (size_t)from->stride * sizeof *to->atoms);
    memcpy(to->n_atoms, from->n_atoms, count * sizeof *to->n_atoms);
    memcpy(to->hash, from->hash, count * sizeof *to->hash);
    memcpy(to->actions, from->actions, count * sizeof *to->actions);
}

// Keeps a walk in the answer when it is better than the one there.
static void keep_best(EsProofSearch *search, int32_t n_walks, int is_first) {
    EsProofAnswer *answer = search->answer;
    for (int32_t w = 0; w < n_walks; w++) {
        const EsProofWalk *walk = &search->walks[w];
        int is_better = walk->is_proved != answer->is_proved
                            ? walk->is_proved
                            : walk->log_probability > answer->log_probability;
        if (is_better || (is_first && w == 0)) {
            answer->is_proved = walk->is_proved;
            answer->log_probability = walk->log_probability;
            copy_path(&walk->path, &search->path);
        }
    }
}

EsStatus es_search_walks(EsProofSearch *search) {
    const EsProofSearchSettings *settings = &search->settings;
    EsAtomSpan query = {search->query, search->query_cells};
    int32_t n_all = settings->kind == ES_SEARCH_GREEDY ? 1 : settings->n_samples;
    for (int32_t number = 0; number < n_all && !search->answer->met_expanded;
         number += settings->batch) {
        int32_t n_walks = ES_MIN(settings->batch, n_all - number), n_open;
        for (int32_t w = 0; w < n_walks; w++) {
            EsProofWalk *walk = &search->walks[w];
            walk->log_probability = 0;
            walk->is_over = walk->is_proved = 0;
            walk->path.count = 0;
            es_proof_path_push(&walk->path, query, es_proof_hash(query.atoms, query.count));
        }
        do {
            es_search_batch_clear(&search->batch);
            ES_TRY(expand_walks(search, n_walks, &n_open));
            ES_TRY(es_search_score(search));
            step_walks(search, number);
        } while (n_open > 0);
        keep_best(search, n_walks, number == 0);
    }
    return ES_STATUS_OK;
}
