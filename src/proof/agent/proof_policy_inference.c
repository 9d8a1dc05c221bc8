// The cache numbers states, marks the missing encoding or value of each, and computes all of
// it in batches over the pool's threads. The scorer above it reads logits and values, turns them
// into probabilities, and chooses. Guides are one scorer per thread of a search.
#include "proof/agent/proof_policy_inference.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "kernels/ops/double_sums.h"
#include "learning/choice_rules.h"
#include "proof/agent/proof_policy_internal.h"
#include "proof/search/proof_array.h"

void es_proof_run_pieces(EsThreadPool *pool, int64_t n_pieces, EsPieceFunction function,
                         void *context) {
    if (pool != NULL) {
        es_thread_pool_run(pool, n_pieces, function, context);
        return;
    }
    for (int64_t piece = 0; piece < n_pieces; piece++) {
        function(context, piece, 0);
    }
}

// --- life ---

EsStatus es_proof_cache_create(const EsProofPolicy *policy, EsThreadPool *pool,
                               EsProofCache **memory_out) {
    *memory_out = NULL;
    EsProofCache *cache = NULL;
    EsStatus status = ES_STATUS_OK;
    int n_workers = pool != NULL ? es_thread_pool_size(pool) : 1;
    ES_TRY(es_allocate(sizeof *cache, (void **)&cache));
    cache->policy = policy;
    cache->pool = pool;
    cache->version = policy->version;
    ES_TRY_GOTO(es_allocate(sizeof(EsProofWorker *) * (size_t)n_workers, (void **)&cache->workers));
    cache->n_workers = n_workers;
    for (int i = 0; i < n_workers; i++) {
        ES_TRY_GOTO(es_proof_worker_create(policy, 0, &cache->workers[i]));
    }
    *memory_out = cache;
done:
    if (status != ES_STATUS_OK) {
        es_proof_cache_destroy(cache);
    }
    return status;
}

void es_proof_cache_destroy(EsProofCache *cache) {
    if (cache == NULL) {
        return;
    }
    for (int i = 0; i < cache->n_workers; i++) {
        es_proof_worker_destroy(cache->workers[i]);
    }
    es_release(cache->workers);
    es_goal_table_destroy(&cache->goals);
    es_release(cache->encoding);
    es_release(cache->value);
    es_release(cache->known);
    es_release(cache->wanted);
    es_release(cache->waiting);
    es_release(cache->list);
    es_release(cache->results);
    es_release(cache);
}

size_t es_proof_cache_bytes(const EsProofPolicy *policy, int64_t n_states, double n_atoms,
                            size_t *moving) {
    int64_t before, n_places = 1;
    double capacity = (double)es_proof_array_capacity(n_states, &before);
    double row_bytes = (double)sizeof(float) * policy->settings.embed;
    while (n_places < 2 * n_states) {
        n_places *= 2;
    }
    // value, known and wanted, waiting and list; the state and its atoms
    double rest_bytes = sizeof(float) + 2 + 2 * sizeof(int32_t) + sizeof(EsStoredGoals) +
                        (double)sizeof(EsAtom) *
                            (n_atoms + (policy->features != NULL ? policy->graph->query_cells : 0));
    *moving = (size_t)((double)before * row_bytes);
    return (size_t)(capacity * (row_bytes + rest_bytes)) + (size_t)n_places * sizeof(int32_t);
}

void es_proof_cache_clear(EsProofCache *cache) {
    size_t count = (size_t)cache->goals.count;
    if (count > 0) {
        memset(cache->known, 0, count);
        memset(cache->wanted, 0, count);
    }
    cache->n_waiting = 0;
    es_goal_table_clear(&cache->goals);
}

void es_proof_cache_refresh(EsProofCache *cache, EsGoalSelection selection) {
    if (cache->version == cache->policy->version && cache->selection == selection) {
        return;
    }
    if (cache->goals.count > 0) {
        memset(cache->known, 0, (size_t)cache->goals.count);
    }
    cache->version = cache->policy->version;
    cache->selection = selection;
}

// --- wanted results ---

static EsStatus make_room(EsProofCache *cache, int64_t wanted) {
    if (wanted <= cache->capacity) {
        return ES_STATUS_OK;
    }
    int64_t used = cache->capacity, capacity[4] = {0};
    size_t row_bytes = sizeof(float) * (size_t)cache->policy->settings.embed;
    ES_TRY(es_proof_array_grow((void **)&cache->encoding, row_bytes, used, wanted, &capacity[0]));
    ES_TRY(es_proof_array_grow((void **)&cache->value, sizeof(float), used, wanted, &capacity[1]));
    ES_TRY(es_proof_array_grow((void **)&cache->known, 1, used, wanted, &capacity[2]));
    ES_TRY(es_proof_array_grow((void **)&cache->wanted, 1, used, wanted, &capacity[3]));
    cache->capacity = capacity[0];
    return ES_STATUS_OK;
}

EsStatus es_proof_cache_want(EsProofCache *cache, int32_t number, uint8_t wanted) {
    uint8_t missing = (uint8_t)(wanted & ~cache->known[number]);
    if (missing == 0) {
        return ES_STATUS_OK;
    }
    if (cache->wanted[number] != 0) {
        cache->wanted[number] |= missing;
        return ES_STATUS_OK;
    }
    // before the bits are set: without a place in the list they would never be computed
    ES_TRY(es_proof_array_grow((void **)&cache->waiting, sizeof *cache->waiting, cache->n_waiting,
                               cache->n_waiting + 1, &cache->waiting_capacity));
    cache->wanted[number] = missing;
    cache->waiting[cache->n_waiting++] = number;
    return ES_STATUS_OK;
}

// The query of state i where it is a fact, which does not count; else no atom.
static EsWideAtom find_hidden(const EsProofCache *cache, const EsProofChoices *choices, int32_t i) {
    const EsKnowledgeGraph *graph = cache->policy->graph;
    size_t cells = (size_t)graph->query_cells;
    EsWideAtom hidden = {0};
    if (cache->policy->features == NULL || choices->queries == NULL) {
        return hidden;
    }
    const EsAtom *query = choices->queries + (choices->n_queries == 1 ? 0 : (size_t)i * cells);
    if (es_kg_is_fact(graph, query)) {
        memcpy(hidden.cells, query,
               (size_t)es_kg_cells(graph, query->predicate) * sizeof *hidden.cells);
    }
    return hidden;
}

static EsStatus take_state(EsProofCache *cache, EsAtomSpan state, const EsWideAtom *hidden,
                           uint8_t wanted, int32_t *number) {
    const EsProofPolicy *policy = cache->policy;
    EsAtom atoms[ES_PROOF_MAX_ATOMS + ES_ATOM_MAX_CELLS];
    if (policy->features != NULL) {
        // terminal states are the same under every query
        const EsWideAtom none = {0};
        int is_terminal = state.atoms[0].predicate > policy->graph->n_predicates;
        int cells = policy->graph->query_cells;
        memcpy(atoms, state.atoms, (size_t)state.count * sizeof *atoms);
        memcpy(atoms + state.count, is_terminal ? none.cells : hidden->cells,
               (size_t)cells * sizeof *atoms);
        state = (EsAtomSpan){atoms, state.count + cells};
    }
    ES_TRY(make_room(cache, (int64_t)cache->goals.count + 1));
    ES_TRY(es_goal_table_add(&cache->goals, state.atoms, state.count,
                             es_proof_hash(state.atoms, state.count), number));
    return es_proof_cache_want(cache, *number, wanted);
}

EsStatus es_proof_cache_take(EsProofCache *cache, const EsProofChoices *choices, int whose,
                             int32_t *state_number, int32_t *successor_number) {
    uint8_t state_value = whose & ES_PROOF_VALUES_OF_STATES ? ES_PROOF_KNOWS_VALUE : 0;
    uint8_t successor_value = whose & ES_PROOF_VALUES_OF_SUCCESSORS ? ES_PROOF_KNOWS_VALUE : 0;
    for (int32_t i = 0; i < choices->n_states; i++) {
        int has_choice = successor_number != NULL && choices->first[i + 1] - choices->first[i] > 1;
        uint8_t encoding = has_choice ? ES_PROOF_KNOWS_ENCODING : 0;
        EsWideAtom hidden = find_hidden(cache, choices, i);
        ES_TRY(take_state(cache, choices->states[i], &hidden, encoding | state_value,
                          &state_number[i]));
        for (int32_t k = choices->first[i]; successor_number != NULL && k < choices->first[i + 1];
             k++) {
            ES_TRY(take_state(cache, choices->successors[k], &hidden, encoding | successor_value,
                              &successor_number[k]));
        }
    }
    return ES_STATUS_OK;
}

// --- computing ---

int64_t es_proof_cache_arrange(const int32_t *states, int64_t count, const uint8_t *wanted,
                               int32_t *list, int64_t *n_value, int64_t *first_policy) {
    const uint8_t order[] = {ES_PROOF_KNOWS_VALUE, ES_PROOF_KNOWS_VALUE | ES_PROOF_KNOWS_ENCODING,
                             ES_PROOF_KNOWS_ENCODING};
    int64_t end[ES_COUNT_OF(order)], n = 0;
    for (size_t group = 0; group < ES_COUNT_OF(order); group++) {
        for (int64_t i = 0; i < count; i++) {
            int32_t state = states != NULL ? states[i] : (int32_t)i;
            if (wanted[state] == order[group]) {
                list[n++] = state;
            }
        }
        end[group] = n;
    }
    *first_policy = end[0];
    *n_value = end[1];
    return n;
}

EsProofBatch es_proof_cache_batch(const EsProofCache *cache, const int32_t *list, int64_t count,
                                  int64_t n_value, int64_t first_policy, int64_t block_states,
                                  int64_t block) {
    int64_t begin = block * block_states, n = ES_MIN(block_states, count - begin);
    return (EsProofBatch){.goals = &cache->goals,
                          .numbers = list + begin,
                          .count = n,
                          .n_value = ES_MIN(ES_MAX(n_value - begin, 0), n),
                          .first_policy = ES_MIN(ES_MAX(first_policy - begin, 0), n),
                          .selection = cache->selection};
}

typedef struct Filling {
    EsProofCache *cache;
    int64_t count, n_value, first_policy;
    int64_t block_states;  // at most ES_PROOF_BATCH_STATES; a state's results do not depend on it
    int64_t first, stride; // this process computes blocks first, first + stride, ...
    float *rows; // of the results that others get, in the same order; NULL: they compute their own
} Filling;

// Between a block's results in the cache and their rows, in the order of its states.
static void move_results(const EsProofCache *cache, const EsProofBatch *batch, float *rows,
                         int is_taken) {
    size_t D = (size_t)cache->policy->settings.embed;
    for (int64_t i = 0; i < batch->count; i++, rows += 1 + D) {
        float *value = &cache->value[batch->numbers[i]];
        float *encoding = cache->encoding + (size_t)batch->numbers[i] * D;
        if (i < batch->n_value) {
            memcpy(is_taken ? value : rows, is_taken ? rows : value, sizeof *rows);
        }
        if (i >= batch->first_policy) {
            memcpy(is_taken ? encoding : rows + 1, is_taken ? rows + 1 : encoding,
                   sizeof *rows * D);
        }
    }
}

static EsProofBatch filled_block(const Filling *job, int64_t block) {
    return es_proof_cache_batch(job->cache, job->cache->list, job->count, job->n_value,
                                job->first_policy, job->block_states, block);
}

static int64_t block_floats(const EsProofCache *cache) {
    return ES_PROOF_BATCH_STATES * (1 + (int64_t)cache->policy->settings.embed);
}

static void fill_block(void *context, int64_t piece, int worker_index) {
    const Filling *job = context;
    EsProofCache *cache = job->cache;
    EsProofWorker *worker = cache->workers[worker_index];
    EsProofBatch batch = filled_block(job, job->first + piece * job->stride);
    int64_t D = cache->policy->settings.embed;
    es_proof_worker_forward(worker, &batch);
    for (int64_t i = 0; i < batch.n_value; i++) {
        cache->value[batch.numbers[i]] = worker->head[ES_PROOF_TOWER_VALUE].y[i];
    }
    for (int64_t i = batch.first_policy; i < batch.count; i++) {
        memcpy(cache->encoding + batch.numbers[i] * D,
               worker->head[ES_PROOF_TOWER_POLICY].y + i * D, sizeof(float) * (size_t)D);
    }
    if (job->rows != NULL) {
        move_results(cache, &batch, job->rows + piece * block_floats(cache), 0);
    }
}

// Takes the results of the blocks that other ranks have computed: those of rank r are r, r + R, ...
static EsStatus take_results(const Filling *job, int64_t n_blocks) {
    EsProofCache *cache = job->cache;
    EsRankColumn column = {cache->results, sizeof(float) * (size_t)block_floats(cache)};
    ES_TRY(es_ranks_gather(cache->ranks, "encodings of states", n_blocks, &column, 1));
    for (int rank = 0; rank < job->stride; rank++) {
        EsShare share = es_ranks_share(cache->ranks, rank, n_blocks);
        for (int64_t row = share.first; row < share.end && rank != job->first; row++) {
            EsProofBatch batch = filled_block(job, rank + (row - share.first) * job->stride);
            move_results(cache, &batch, cache->results + row * block_floats(cache), 1);
        }
    }
    return ES_STATUS_OK;
}

// Ranks take blocks in turn, because those at the end of the list cost less. Few blocks are
// computed by every rank alone: that is sooner done than sent.
static EsStatus fill_blocks(Filling *job) {
    EsProofCache *cache = job->cache;
    int64_t n_blocks = (job->count + ES_PROOF_BATCH_STATES - 1) / ES_PROOF_BATCH_STATES;
    int n_ranks = es_ranks_count(cache->ranks);
    job->stride = 1;
    job->block_states = ES_PROOF_BATCH_STATES;
    if (n_ranks == 1 || n_blocks < n_ranks) {
        es_proof_run_pieces(cache->pool, n_blocks, fill_block, job);
        return ES_STATUS_OK;
    }
    // as many blocks for each, of one size: a step of acting has few
    int64_t n_each = (n_blocks + n_ranks - 1) / n_ranks;
    job->block_states = (job->count + n_each * n_ranks - 1) / (n_each * n_ranks);
    n_blocks = (job->count + job->block_states - 1) / job->block_states;
    ES_TRY(es_proof_array_grow((void **)&cache->results,
                               sizeof(float) * (size_t)block_floats(cache), 0, n_blocks,
                               &cache->results_capacity));
    EsShare own = es_ranks_own(cache->ranks, n_blocks);
    job->first = es_ranks_number(cache->ranks);
    job->stride = n_ranks;
    job->rows = cache->results + own.first * block_floats(cache);
    es_proof_run_pieces(cache->pool, own.end - own.first, fill_block, job);
    return take_results(job, n_blocks);
}

EsStatus es_proof_cache_fill(EsProofCache *cache) {
    Filling job = {.cache = cache};
    ES_TRY(es_proof_array_grow((void **)&cache->list, sizeof *cache->list, 0, cache->n_waiting,
                               &cache->list_capacity));
    job.count = es_proof_cache_arrange(cache->waiting, cache->n_waiting, cache->wanted, cache->list,
                                       &job.n_value, &job.first_policy);
    int64_t start_ns = es_clock_ns();
    ES_TRY(fill_blocks(&job));
    cache->fill_ns += es_clock_ns() - start_ns;
    for (int64_t i = 0; i < job.count; i++) {
        cache->known[cache->list[i]] |= cache->wanted[cache->list[i]];
        cache->wanted[cache->list[i]] = 0;
    }
    cache->n_encoded += job.count - job.first_policy;
    cache->n_valued += job.n_value;
    cache->n_waiting = 0;
    return ES_STATUS_OK;
}

void es_proof_cache_score(const EsProofCache *cache, int32_t state, const int32_t *successors,
                          int64_t n, float *logits) {
    int64_t D = cache->policy->settings.embed;
    const float *u = cache->encoding + state * D;
    double temperature = (double)cache->policy->settings.temperature;
    for (int64_t k = 0; k < n; k++) {
        const float *w = cache->encoding + successors[k] * D;
        logits[k] = n == 1 ? 0.0f : (float)(es_double_centred_dot(u, 0.0, w, 0.0, D) / temperature);
    }
}

EsStatus es_proof_policy_scorer_create(const EsProofPolicy *policy, EsThreadPool *pool,
                                       int32_t max_states, EsProofPolicyScorer **scorer_out) {
    *scorer_out = NULL;
    EsProofPolicyScorer *scorer = NULL;
    if (max_states < 0) {
        return ES_FAIL(ARGUMENT, "proof policy scorer: max_states is %d, expected 0 or more",
                       max_states);
    }
    ES_TRY(es_allocate(sizeof *scorer, (void **)&scorer));
    scorer->max_states = max_states;
    EsStatus status = es_proof_cache_create(policy, pool, &scorer->cache);
    if (status != ES_STATUS_OK) {
        es_proof_policy_scorer_destroy(scorer);
        return status;
    }
    *scorer_out = scorer;
    return ES_STATUS_OK;
}

void es_proof_policy_scorer_destroy(EsProofPolicyScorer *scorer) {
    if (scorer != NULL) {
        es_proof_cache_destroy(scorer->cache);
        es_release(scorer->state_number);
        es_release(scorer->successor_number);
        es_release(scorer->probability);
        es_release(scorer);
    }
}

// --- logits and values ---

// Numbers for the states of a call.
static EsStatus begin_call(EsProofPolicyScorer *scorer, const EsProofChoices *choices) {
    es_proof_cache_refresh(scorer->cache, choices->selection);
    if (scorer->cache->goals.count > scorer->max_states) {
        es_proof_cache_clear(scorer->cache);
    }
    ES_TRY(es_proof_array_grow((void **)&scorer->state_number, sizeof *scorer->state_number, 0,
                               choices->n_states, &scorer->state_capacity));
    return es_proof_array_grow((void **)&scorer->successor_number, sizeof *scorer->successor_number,
                               0, choices->first[choices->n_states], &scorer->successor_capacity);
}

// `value` may be NULL.
static void read_values(const EsProofPolicyScorer *scorer, const int32_t *numbers, int32_t count,
                        float *value) {
    for (int32_t i = 0; value != NULL && i < count; i++) {
        value[i] = scorer->cache->value[numbers[i]];
    }
}

// logits (M); state_value (N) and successor_value (M) may be NULL.
static EsStatus score_choices(EsProofPolicyScorer *scorer, const EsProofChoices *choices,
                              float *logits, float *state_value, float *successor_value) {
    int whose = (state_value != NULL ? ES_PROOF_VALUES_OF_STATES : 0) |
                (successor_value != NULL ? ES_PROOF_VALUES_OF_SUCCESSORS : 0);
    ES_TRY(begin_call(scorer, choices));
    ES_TRY(es_proof_cache_take(scorer->cache, choices, whose, scorer->state_number,
                               scorer->successor_number));
    ES_TRY(es_proof_cache_fill(scorer->cache));
    for (int32_t i = 0; i < choices->n_states; i++) {
        int32_t first = choices->first[i];
        es_proof_cache_score(scorer->cache, scorer->state_number[i],
                             scorer->successor_number + first, choices->first[i + 1] - first,
                             logits + first);
    }
    read_values(scorer, scorer->state_number, choices->n_states, state_value);
    read_values(scorer, scorer->successor_number, choices->first[choices->n_states],
                successor_value);
    return ES_STATUS_OK;
}

EsStatus es_proof_policy_scorer_logits(EsProofPolicyScorer *scorer, const EsProofChoices *choices,
                                       float *logits, float *value) {
    return score_choices(scorer, choices, logits, value, NULL);
}

EsStatus es_proof_policy_scorer_values(EsProofPolicyScorer *scorer, const EsProofChoices *choices,
                                       float *value) {
    ES_TRY(begin_call(scorer, choices));
    ES_TRY(es_proof_cache_take(scorer->cache, choices, ES_PROOF_VALUES_OF_STATES,
                               scorer->state_number, NULL));
    ES_TRY(es_proof_cache_fill(scorer->cache));
    read_values(scorer, scorer->state_number, choices->n_states, value);
    return ES_STATUS_OK;
}

// --- probabilities and choices ---

// Of the successors of state i, into scorer->probability; returns how many there are.
static EsStatus find_probabilities(EsProofPolicyScorer *scorer, const EsProofChoices *choices,
                                   const float *logits, int32_t i, int *n) {
    int32_t first = choices->first[i];
    *n = choices->first[i + 1] - first;
    ES_TRY(es_proof_array_grow((void **)&scorer->probability, sizeof *scorer->probability, 0, *n,
                               &scorer->probability_capacity));
    es_choice_probabilities(logits + first, *n, ES_CHOICE_ALL, 0.0f, scorer->probability);
    return ES_STATUS_OK;
}

EsStatus es_proof_policy_score(void *context, const EsProofChoices *choices, float *log_probability,
                               float *value) {
    EsProofPolicyScorer *scorer = context;
    ES_TRY(score_choices(scorer, choices, log_probability, NULL, value));
    for (int32_t i = 0; i < choices->n_states; i++) {
        int n = 0;
        ES_TRY(find_probabilities(scorer, choices, log_probability, i, &n));
        for (int k = 0; k < n; k++) {
            log_probability[choices->first[i] + k] =
                (float)es_choice_log_probability(scorer->probability, k);
        }
    }
    return ES_STATUS_OK;
}

EsProofGuide es_proof_policy_scorer_guide(EsProofPolicyScorer *scorer) {
    return (EsProofGuide){.context = scorer, .score = es_proof_policy_score};
}

EsStatus es_proof_policy_scorer_choose(EsProofPolicyScorer *scorer, const EsProofChoices *choices,
                                       const float *logits, uint64_t seed, const EsDrawKey *keys,
                                       int32_t *action) {
    for (int32_t i = 0; i < choices->n_states; i++) {
        int n = 0;
        ES_TRY(find_probabilities(scorer, choices, logits, i, &n));
        if (keys == NULL) {
            action[i] = es_choice_best(scorer->probability, n, ES_CHOICE_ALL);
            continue;
        }
        EsRandom4 draw =
            es_random_draw(seed, keys[i].episode, ES_PURPOSE_ACTION, keys[i].step, keys[i].env);
        action[i] =
            es_choice_draw(scorer->probability, n, ES_CHOICE_ALL, es_random_uniform(draw.word[0]));
    }
    return ES_STATUS_OK;
}

EsProofPolicyScorerCounters es_proof_policy_scorer_counters(const EsProofPolicyScorer *scorer) {
    const EsProofCache *cache = scorer->cache;
    return (EsProofPolicyScorerCounters){cache->n_encoded, cache->n_valued, cache->goals.count};
}

// --- guides of a search ---

// states whose encodings a thread remembers
#define REMEMBERED (1 << 16)

EsStatus es_proof_guides_create(const EsProofPolicy *policy, int n_guides, EsProofGuides *guides) {
    EsStatus status = ES_STATUS_OK;
    size_t n = (size_t)n_guides;
    memset(guides, 0, sizeof *guides);
    ES_TRY_GOTO(es_allocate(n * sizeof(EsProofPolicyScorer *), (void **)&guides->scorers));
    ES_TRY_GOTO(es_allocate(n * sizeof *guides->guides, (void **)&guides->guides));
    guides->n_guides = n_guides;
    for (int i = 0; i < n_guides; i++) {
        ES_TRY_GOTO(es_proof_policy_scorer_create(policy, NULL, REMEMBERED, &guides->scorers[i]));
        guides->guides[i] = es_proof_policy_scorer_guide(guides->scorers[i]);
    }
done:
    if (status != ES_STATUS_OK) {
        es_proof_guides_destroy(guides);
    }
    return status;
}

void es_proof_guides_destroy(EsProofGuides *guides) {
    for (int i = 0; i < guides->n_guides; i++) {
        es_proof_policy_scorer_destroy(guides->scorers[i]);
    }
    es_release(guides->scorers);
    es_release(guides->guides);
    memset(guides, 0, sizeof *guides);
}

size_t es_proof_guide_bytes(const EsProofPolicy *policy, double n_states, double n_atoms) {
    size_t moving = 0;
    size_t bytes = es_proof_cache_bytes(policy, (int64_t)ES_MIN(n_states, (double)REMEMBERED),
                                        n_atoms, &moving);
    return bytes + moving;
}
