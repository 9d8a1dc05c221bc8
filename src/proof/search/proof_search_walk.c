// Greedy and sampled walks: episodes that take one successor after the other, several walks in
// step so that the guide scores them together.
#include <math.h>
#include <string.h>

#include "base/random_rules.h"
#include "proof/search/proof_search_internal.h"

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
