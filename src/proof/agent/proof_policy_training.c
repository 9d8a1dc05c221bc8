// Acting goes through the scorer, whose cache never forgets within a rollout; a row is then numbers
// of states alone. Learning computes the states that rows need, scores the rows, and goes back.
//
// Gradients: first every state collects those of its encoding and value from the rows. Then the
// states go through the network once more, a batch at a time, and back: batch b adds to partial sum
// b % G of the layers' gradients, in the order of batches, and the partial sums are added in a
// tree. Gradients of the embedded states are scattered into the tables column by column, in the
// order of states. All orders are the same for any number of threads. Ranks divide the partial sums
// and the columns, each in the same order, and then gather them.
#include "proof/agent/proof_policy_training.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "network/network_file.h"
#include "proof/agent/proof_policy_file.h"
#include "proof/agent/proof_policy_internal.h"
#include "proof/search/proof_array.h"

#define ADAM_EPSILON 1e-5f
// actions of a rollout are int16
#define MAX_CHOICES INT16_MAX
// rows whose logits a piece computes
#define ROWS_PER_PIECE 64

EsRolloutShape es_proof_rollout_shape(int64_t n_steps, int64_t n_envs, int max_choices) {
    const int size[] = {0};
    EsRolloutShape shape = {
        .n_steps = n_steps, .n_envs = n_envs, .policy = es_policy_shape(1, size)};
    shape.policy.n_logits = max_choices;
    return shape;
}

// --- life ---

static EsStatus create_parts(EsProofPolicyTraining *t) {
    EsProofPolicy *policy = t->policy;
    size_t row_bytes = sizeof(float) * (size_t)es_proof_policy_input(policy);
    EsOptimiserOptions options = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    options.epsilon = ADAM_EPSILON;
    options.measures = options.skips_nonfinite = 1;
    ES_TRY(es_optimiser_create(policy->layout, policy->store, &options, &t->optimiser));
    ES_TRY(es_proof_policy_scorer_create(policy, t->pool, INT32_MAX, &t->scorer));
    ES_TRY(es_allocate(sizeof(EsProofWorker *) * (size_t)es_thread_pool_size(t->pool),
                       (void **)&t->workers));
    t->n_workers = es_thread_pool_size(t->pool);
    for (int i = 0; i < t->n_workers; i++) {
        ES_TRY(es_proof_worker_create(policy, 1, &t->workers[i]));
    }
    ES_TRY(es_allocate(sizeof(float) * ES_PROOF_PARTIAL_SUMS * (size_t)policy->n_layers,
                       (void **)&t->partial_sums));
    return es_allocate(row_bytes * ES_PROOF_BLOCKS_PER_ROUND * ES_PROOF_BATCH_STATES,
                       (void **)&t->d_input);
}

EsStatus es_proof_policy_training_create(EsProofPolicy *policy,
                                         EsProofPolicyTraining **training_out) {
    *training_out = NULL;
    EsProofPolicyTraining *training = NULL;
    ES_TRY(es_allocate(sizeof *training, (void **)&training));
    training->policy = policy;
    training->pool = es_stream_pool(policy->stream);
    EsStatus status = create_parts(training);
    if (status != ES_STATUS_OK) {
        es_proof_policy_training_destroy(training);
        return status;
    }
    *training_out = training;
    return ES_STATUS_OK;
}

void es_proof_policy_training_destroy(EsProofPolicyTraining *t) {
    if (t == NULL) {
        return;
    }
    es_proof_policy_scorer_destroy(t->scorer);
    es_optimiser_destroy(t->optimiser);
    for (int i = 0; i < t->n_workers; i++) {
        es_proof_worker_destroy(t->workers[i]);
    }
    void *const owned[] = {t->workers, t->row_state, t->row_first,    t->successor,  t->need,
                           t->logits,  t->list,      t->partial_sums, t->d_encoding, t->d_value,
                           t->d_input, t->columns,   t->is_own};
    for (size_t i = 0; i < ES_COUNT_OF(owned); i++) {
        es_release(owned[i]);
    }
    es_release(t);
}

void es_proof_policy_training_share(EsProofPolicyTraining *t, EsRanks *ranks) {
    t->scorer->cache->ranks = ranks;
}

// --- acting ---

void es_proof_policy_training_reset(EsProofPolicyTraining *t) {
    es_proof_cache_clear(t->scorer->cache);
    t->n_rows = 0;
}

// Room for the rows of a step.
static EsStatus reserve_rows(EsProofPolicyTraining *t, const EsProofChoices *choices) {
    int64_t n = choices->n_states, m = choices->first[n];
    int64_t n_kept = t->n_rows > 0 ? t->row_first[t->n_rows] : 0;
    ES_TRY(es_proof_array_grow((void **)&t->row_state, sizeof *t->row_state, t->n_rows,
                               t->n_rows + n, &t->row_capacity));
    ES_TRY(es_proof_array_grow((void **)&t->row_first, sizeof *t->row_first,
                               t->n_rows > 0 ? t->n_rows + 1 : 0, t->n_rows + n + 1,
                               &t->first_capacity));
    ES_TRY(es_proof_array_grow((void **)&t->successor, sizeof *t->successor, n_kept, n_kept + m,
                               &t->successor_capacity));
    return es_proof_array_grow((void **)&t->logits, sizeof *t->logits, 0, m, &t->logit_capacity);
}

static EsStatus check_choices(const EsProofPolicyTraining *t, const EsProofChoices *choices,
                              const EsRollout *rollout, int64_t step) {
    int most = ES_MIN(rollout->shape.policy.n_logits, MAX_CHOICES);
    ES_ASSERT(rollout->first_logit != NULL && choices->n_states == rollout->shape.n_envs);
    ES_ASSERT(t->n_rows == step * rollout->shape.n_envs && step < rollout->shape.n_steps);
    for (int32_t i = 0; i < choices->n_states; i++) {
        int32_t n = choices->first[i + 1] - choices->first[i];
        if (n < 1 || n > most) {
            return ES_FAIL(ARGUMENT,
                           "proof training: step %lld, environment %d: %d successors, must be 1 to "
                           "%d",
                           (long long)step, i, n, most);
        }
    }
    return ES_STATUS_OK;
}

// Keeps the rows of the scorer's last call.
static void keep_rows(EsProofPolicyTraining *t, const EsProofChoices *choices) {
    const EsProofPolicyScorer *scorer = t->scorer;
    int64_t first = t->n_rows > 0 ? t->row_first[t->n_rows] : 0;
    t->row_first[t->n_rows] = first;
    memcpy(t->row_state + t->n_rows, scorer->state_number,
           sizeof *t->row_state * (size_t)choices->n_states);
    memcpy(t->successor + first, scorer->successor_number,
           sizeof *t->successor * (size_t)choices->first[choices->n_states]);
    for (int32_t i = 1; i <= choices->n_states; i++) {
        t->row_first[t->n_rows + i] = first + choices->first[i];
    }
    t->n_rows += choices->n_states;
}

static void fill_row(const EsProofPolicyTraining *t, EsRollout *rollout, int64_t row,
                     int32_t action) {
    rollout->first_logit[row] = t->row_first[row];
    rollout->first_logit[row + 1] = t->row_first[row + 1];
    rollout->action[row] = (int16_t)action;
    rollout->used[row] = rollout->available[row] = rollout->causal[row] = 1;
    rollout->is_forced[row] = t->row_first[row + 1] - t->row_first[row] == 1;
}

// Encodings of one rollout all belong to one way of selecting goals.
static EsStatus check_selection(const EsProofPolicyTraining *t, const EsProofChoices *choices) {
    if (t->n_rows > 0 && choices->selection != t->scorer->cache->selection) {
        return ES_FAIL(ARGUMENT,
                       "proof training: after row %lld goals are selected in another way than "
                       "before it",
                       (long long)t->n_rows);
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_policy_training_act(EsProofPolicyTraining *t, const EsProofChoices *choices,
                                      uint64_t seed, const EsDrawKey *keys, EsRollout *rollout,
                                      int64_t step, int32_t *action) {
    ES_TRY(check_choices(t, choices, rollout, step));
    ES_TRY(check_selection(t, choices));
    ES_TRY(reserve_rows(t, choices));
    float *value = rollout->value + step * rollout->shape.n_envs;
    ES_TRY(es_proof_policy_scorer_logits(t->scorer, choices, t->logits, value));
    ES_TRY(es_proof_policy_scorer_choose(t->scorer, choices, t->logits, seed, keys, action));
    int64_t row = t->n_rows;
    keep_rows(t, choices);
    for (int32_t i = 0; i < choices->n_states; i++) {
        fill_row(t, rollout, row + i, action[i]);
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_policy_training_values(EsProofPolicyTraining *t, const EsProofChoices *choices,
                                         float *value) {
    ES_TRY(check_selection(t, choices));
    return es_proof_policy_scorer_values(t->scorer, choices, value);
}

// of an encoding or a table that a piece works on: a cache line
#define COLUMNS_PER_PIECE 16

// --- from rows to states ---

static EsProofBatch block_of(const EsProofPolicyTraining *t, int64_t block) {
    return es_proof_cache_batch(t->scorer->cache, t->list, t->n_listed, t->n_value, t->first_policy,
                                ES_PROOF_BATCH_STATES, block);
}

typedef struct Collection {
    EsProofPolicyTraining *training;
    const EsOutputs *gradients;
    const uint8_t *is_own; // [states]: those whose gradients this rank takes further; NULL: all
} Collection;

// to[] += factor from[]
static void add_scaled(float *to, const float *from, float factor, int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        to[e] += factor * from[e];
    }
}

// With logit_k = <u, w_k> / temperature: d_u += d_k w_k / temperature, d_w_k += d_k u /
// temperature. The piece owns some columns of all encodings.
static void collect_columns(void *context, int64_t piece, int worker) {
    (void)worker;
    const Collection *job = context;
    EsProofPolicyTraining *t = job->training;
    int64_t D = t->policy->settings.embed, begin = piece * COLUMNS_PER_PIECE;
    int64_t count = ES_MIN(COLUMNS_PER_PIECE, D - begin);
    const float *encoding = t->scorer->cache->encoding + begin;
    float *d_encoding = t->d_encoding + begin;
    float inverse = 1.0f / t->policy->settings.temperature;
    for (int64_t row = 0; row < t->n_rows; row++) {
        int64_t state = t->row_state[row] * D, first = t->row_first[row];
        // an only successor has no gradient, nor need it have an encoding
        int64_t end = t->row_first[row + 1] - first > 1 ? t->row_first[row + 1] : first;
        for (int64_t k = first; k < end; k++) {
            float d = job->gradients->logits[k] * inverse;
            int64_t successor = t->successor[k] * D;
            if (job->is_own == NULL || job->is_own[t->row_state[row]]) {
                add_scaled(d_encoding + state, encoding + successor, d, count);
            }
            if (job->is_own == NULL || job->is_own[t->successor[k]]) {
                add_scaled(d_encoding + successor, encoding + state, d, count);
            }
        }
    }
}

// Marks the states of the blocks whose partial sums are this rank's.
static EsStatus mark_own(EsProofPolicyTraining *t) {
    int64_t n_states = t->scorer->cache->goals.count;
    int64_t n_blocks = (t->n_listed + ES_PROOF_BATCH_STATES - 1) / ES_PROOF_BATCH_STATES;
    EsShare own = es_ranks_own(t->scorer->cache->ranks, ES_PROOF_PARTIAL_SUMS);
    ES_TRY(es_proof_array_grow((void **)&t->is_own, 1, 0, n_states, &t->is_own_capacity));
    memset(t->is_own, 0, (size_t)n_states);
    for (int64_t block = 0; block < n_blocks; block++) {
        int64_t number = block % ES_PROOF_BLOCKS_PER_ROUND % ES_PROOF_PARTIAL_SUMS;
        EsProofBatch batch = block_of(t, block);
        for (int64_t i = 0; i < batch.count && number >= own.first && number < own.end; i++) {
            t->is_own[batch.numbers[i]] = 1;
        }
    }
    return ES_STATUS_OK;
}

static EsStatus collect(EsProofPolicyTraining *t, const EsOutputs *gradients) {
    int64_t n_states = t->scorer->cache->goals.count, D = t->policy->settings.embed;
    ES_TRY(es_proof_array_grow((void **)&t->d_encoding, sizeof(float) * (size_t)D, 0, n_states,
                               &t->d_encoding_capacity));
    ES_TRY(es_proof_array_grow((void **)&t->d_value, sizeof(float), 0, n_states,
                               &t->d_value_capacity));
    memset(t->d_encoding, 0, sizeof(float) * (size_t)(n_states * D));
    memset(t->d_value, 0, sizeof(float) * (size_t)n_states);
    Collection job = {t, gradients, NULL};
    if (es_ranks_count(t->scorer->cache->ranks) > 1) {
        ES_TRY(mark_own(t));
        job.is_own = t->is_own;
    }
    es_proof_run_pieces(t->pool, (D + COLUMNS_PER_PIECE - 1) / COLUMNS_PER_PIECE, collect_columns,
                        &job);
    for (int64_t row = 0; row < t->n_rows; row++) {
        t->d_value[t->row_state[row]] += gradients->value[row];
    }
    return ES_STATUS_OK;
}

// --- from states to parameters ---

typedef struct Round {
    EsProofPolicyTraining *training;
    int64_t first_block, n_blocks;
    EsShare own;     // partial sums of this rank
    EsShare columns; // groups of columns that it scatters
} Round;

#define BLOCKS_PER_SUM (ES_PROOF_BLOCKS_PER_ROUND / ES_PROOF_PARTIAL_SUMS)
_Static_assert(BLOCKS_PER_SUM *ES_PROOF_PARTIAL_SUMS == ES_PROOF_BLOCKS_PER_ROUND, "all alike");

// Gradients with respect to the inputs of block i of a round.
static float *input_gradients(const EsProofPolicyTraining *t, int64_t i) {
    int64_t place = i % ES_PROOF_PARTIAL_SUMS * BLOCKS_PER_SUM + i / ES_PROOF_PARTIAL_SUMS;
    return t->d_input + place * ES_PROOF_BATCH_STATES * es_proof_policy_input(t->policy);
}

static void block_backward(EsProofPolicyTraining *t, EsProofWorker *worker, int64_t block,
                           float *partial_sum, float *d_input) {
    float d_value[ES_PROOF_BATCH_STATES];
    int64_t D = t->policy->settings.embed;
    EsProofBatch batch = block_of(t, block);
    es_proof_worker_forward(worker, &batch);
    for (int64_t i = 0; i < batch.n_value; i++) {
        d_value[i] = t->d_value[batch.numbers[i]];
    }
    // the block's own states in a row, in memory of this round
    for (int64_t i = batch.first_policy; i < batch.count; i++) {
        memcpy(worker->d_encoding + i * D, t->d_encoding + batch.numbers[i] * D,
               sizeof(float) * (size_t)D);
    }
    int64_t start_ns = es_clock_ns();
    es_proof_worker_backward(worker, &batch, worker->d_encoding, d_value, partial_sum, d_input);
    worker->layer_ns += es_clock_ns() - start_ns;
}

static void partial_backward(void *context, int64_t piece, int worker_index) {
    const Round *job = context;
    EsProofPolicyTraining *t = job->training;
    int64_t number = job->own.first + piece;
    float *partial_sum = t->partial_sums + number * t->policy->n_layers;
    for (int64_t i = number; i < job->n_blocks; i += ES_PROOF_PARTIAL_SUMS) {
        block_backward(t, t->workers[worker_index], job->first_block + i, partial_sum,
                       input_gradients(t, i));
    }
}

static void scatter_columns(void *context, int64_t piece, int worker) {
    int64_t start_ns = es_clock_ns();
    const Round *job = context;
    EsProofPolicyTraining *t = job->training;
    int64_t D = t->policy->settings.embed;
    int64_t begin = (job->columns.first + piece) * COLUMNS_PER_PIECE;
    for (int64_t i = 0; i < job->n_blocks; i++) {
        EsProofBatch batch = block_of(t, job->first_block + i);
        es_proof_network_scatter(t->policy, &batch, input_gradients(t, i), begin,
                                 ES_MIN(begin + COLUMNS_PER_PIECE, D),
                                 t->policy->store->gradients.data);
    }
    t->workers[worker]->embed_ns += es_clock_ns() - start_ns;
}

// --- tables over ranks ---

typedef struct Table {
    int64_t first, n_rows; // place in the slab, rows of D
} Table;

#define N_TABLES 3

static void list_tables(const EsProofPolicy *policy, Table tables[N_TABLES]) {
    tables[0] = (Table){policy->constants, policy->graph->n_constants + 1};
    tables[1] = (Table){policy->variables, 2 * ES_PROOF_MAX_ATOMS};
    tables[2] = (Table){policy->predicates, es_proof_policy_predicate_rows(policy->graph)};
}

// Between group g of columns of all tables' gradients and its rows, which lie together.
static void move_columns(const EsProofPolicyTraining *t, const Table tables[N_TABLES], int64_t g,
                         float *rows, int is_taken) {
    int64_t D = t->policy->settings.embed, begin = g * COLUMNS_PER_PIECE;
    size_t bytes = sizeof(float) * (size_t)ES_MIN(COLUMNS_PER_PIECE, D - begin);
    float *gradients = t->policy->store->gradients.data;
    for (int i = 0; i < N_TABLES; i++) {
        for (int64_t row = 0; row < tables[i].n_rows; row++, rows += COLUMNS_PER_PIECE) {
            float *place = gradients + tables[i].first + row * D + begin;
            memcpy(is_taken ? place : rows, is_taken ? rows : place, bytes);
        }
    }
}

// Gives every rank the columns that the others have scattered.
static EsStatus gather_columns(EsProofPolicyTraining *t, EsShare own, int64_t n_groups) {
    Table tables[N_TABLES];
    list_tables(t->policy, tables);
    int64_t group_floats = 0;
    for (int i = 0; i < N_TABLES; i++) {
        group_floats += tables[i].n_rows * COLUMNS_PER_PIECE;
    }
    ES_TRY(es_proof_array_grow((void **)&t->columns, sizeof *t->columns * (size_t)group_floats, 0,
                               n_groups, &t->columns_capacity));
    for (int64_t g = own.first; g < own.end; g++) {
        move_columns(t, tables, g, t->columns + g * group_floats, 0);
    }
    EsRankColumn column = {t->columns, sizeof *t->columns * (size_t)group_floats};
    ES_TRY(es_ranks_gather(t->scorer->cache->ranks, "gradients of tables", n_groups, &column, 1));
    for (int64_t g = 0; g < n_groups; g++) {
        if (g < own.first || g >= own.end) {
            move_columns(t, tables, g, t->columns + g * group_floats, 1);
        }
    }
    return ES_STATUS_OK;
}

// Returns whether columns are divided: where there are more states to scatter than rows to send.
static int has_divided_columns(const EsProofPolicyTraining *t, int64_t n_groups) {
    return es_ranks_count(t->scorer->cache->ranks) > 1 && n_groups > 0 &&
           t->n_listed >= t->policy->graph->n_constants;
}

// --- all of it ---

// The parts of the layers' gradients become the first elements of the store's.
static void sum_parts(EsProofPolicyTraining *t) {
    EsProofPolicy *policy = t->policy;
    int64_t n = policy->n_layers;
    EsTensor parts = es_tensor_view(t->partial_sums, ES_DTYPE_F32, policy->device, 2,
                                    (int64_t[]){ES_PROOF_PARTIAL_SUMS, n});
    EsTensor sum = es_tensor_view(policy->store->gradients.data, ES_DTYPE_F32, policy->device, 2,
                                  (int64_t[]){1, n});
    es_kernels_of(policy->device)->tree_sum(policy->stream, &parts, &sum);
}

// Gives every rank the rows of all partial sums.
static EsStatus gather_sums(EsProofPolicyTraining *t, const char *what, float *rows,
                            int64_t row_floats) {
    EsRankColumn column = {rows, sizeof *rows * (size_t)row_floats};
    return es_ranks_gather(t->scorer->cache->ranks, what, ES_PROOF_PARTIAL_SUMS, &column, 1);
}

EsStatus es_proof_policy_training_backward(EsProofPolicyTraining *t, const EsOutputs *gradients) {
    const EsProofPolicy *policy = t->policy;
    EsShare own = es_ranks_own(t->scorer->cache->ranks, ES_PROOF_PARTIAL_SUMS);
    int64_t sum_inputs = BLOCKS_PER_SUM * ES_PROOF_BATCH_STATES * es_proof_policy_input(policy);
    int64_t n_blocks = (t->n_listed + ES_PROOF_BATCH_STATES - 1) / ES_PROOF_BATCH_STATES;
    // features have no tables to scatter into
    int64_t n_columns = policy->features == NULL ? policy->settings.embed : 0;
    int64_t n_pieces = (n_columns + COLUMNS_PER_PIECE - 1) / COLUMNS_PER_PIECE;
    int is_divided = has_divided_columns(t, n_pieces);
    EsShare columns =
        is_divided ? es_ranks_own(t->scorer->cache->ranks, n_pieces) : (EsShare){0, n_pieces};
    ES_TRY(collect(t, gradients));
    memset(t->partial_sums + own.first * policy->n_layers, 0,
           sizeof(float) * (size_t)((own.end - own.first) * policy->n_layers));
    memset(policy->store->gradients.data, 0, es_tensor_bytes(&policy->store->gradients));
    for (int64_t first = 0; first < n_blocks; first += ES_PROOF_BLOCKS_PER_ROUND) {
        Round job = {t, first, ES_MIN(ES_PROOF_BLOCKS_PER_ROUND, n_blocks - first), own, columns};
        int64_t start_ns = es_clock_ns();
        es_proof_run_pieces(t->pool, own.end - own.first, partial_backward, &job);
        ES_TRY(n_pieces > 0 ? gather_sums(t, "gradients of states", t->d_input, sum_inputs)
                            : ES_STATUS_OK);
        es_proof_run_pieces(t->pool, columns.end - columns.first, scatter_columns, &job);
        t->backward_ns += es_clock_ns() - start_ns;
    }
    ES_TRY(is_divided ? gather_columns(t, columns, n_pieces) : ES_STATUS_OK);
    ES_TRY(gather_sums(t, "gradients of layers", t->partial_sums, policy->n_layers));
    sum_parts(t);
    return ES_STATUS_OK;
}

// --- learning ---

static EsStatus begin(void *context, const EsRollout *rollout) {
    EsProofPolicyTraining *t = context;
    if (rollout->n_rows != t->n_rows) {
        return ES_FAIL(ARGUMENT, "proof training: it kept %lld rows, the rollout has %lld",
                       (long long)t->n_rows, (long long)rollout->n_rows);
    }
    for (int64_t row = 0; row <= t->n_rows; row++) {
        if (rollout->first_logit[row] != t->row_first[row]) {
            return ES_FAIL(ARGUMENT, "proof training: row %lld of the rollout is not the one kept",
                           (long long)row);
        }
    }
    int64_t n_states = t->scorer->cache->goals.count;
    ES_TRY(es_proof_array_grow((void **)&t->need, 1, 0, n_states, &t->need_capacity));
    ES_TRY(es_proof_array_grow((void **)&t->list, sizeof *t->list, 0, n_states, &t->list_capacity));
    memset(t->need, 0, (size_t)n_states);
    for (int64_t row = 0; row < t->n_rows; row++) {
        int has_choice = t->row_first[row + 1] - t->row_first[row] > 1;
        uint8_t encoding = has_choice ? ES_PROOF_KNOWS_ENCODING : 0;
        t->need[t->row_state[row]] |= ES_PROOF_KNOWS_VALUE | encoding;
        for (int64_t k = t->row_first[row]; k < t->row_first[row + 1]; k++) {
            t->need[t->successor[k]] |= encoding;
        }
    }
    t->n_listed =
        es_proof_cache_arrange(NULL, n_states, t->need, t->list, &t->n_value, &t->first_policy);
    return ES_STATUS_OK;
}

typedef struct Scoring {
    const EsProofPolicyTraining *training;
    float *logits, *value;
} Scoring;

static void score_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Scoring *job = context;
    const EsProofPolicyTraining *t = job->training;
    int64_t begin_row = piece * ROWS_PER_PIECE;
    for (int64_t row = begin_row; row < ES_MIN(begin_row + ROWS_PER_PIECE, t->n_rows); row++) {
        int64_t first = t->row_first[row], n = t->row_first[row + 1] - first;
        es_proof_cache_score(t->scorer->cache, t->row_state[row], t->successor + first, n,
                             job->logits + first);
        job->value[row] = t->scorer->cache->value[t->row_state[row]];
    }
}

static EsStatus forward(void *context, uint32_t pass, EsOutputs *outputs) {
    EsProofPolicyTraining *t = context;
    EsProofCache *cache = t->scorer->cache;
    (void)pass;
    es_proof_cache_refresh(cache, cache->selection);
    for (int64_t i = 0; i < t->n_listed; i++) {
        ES_TRY(es_proof_cache_want(cache, t->list[i], t->need[t->list[i]]));
    }
    ES_TRY(es_proof_cache_fill(cache));
    Scoring job = {t, outputs->logits, outputs->value};
    es_proof_run_pieces(t->pool, (t->n_rows + ROWS_PER_PIECE - 1) / ROWS_PER_PIECE, score_rows,
                        &job);
    outputs->action_value = NULL;
    outputs->auxiliary = NULL;
    return ES_STATUS_OK;
}

// Norms by the purpose of the parameters: spans stand in the order of the layout's values.
static EsStatus report_norms(const EsProofPolicyTraining *t, EsStepReport *report) {
    const EsProofPolicy *policy = t->policy;
    const double *squares = t->optimiser->sum_squares.data;
    const int32_t *n_nonfinite = t->optimiser->n_nonfinite.data;
    double all = 0, head = 0, value = 0;
    for (int i = 0; i < t->optimiser->n_spans; i++) {
        const char *name = policy->layout->values[i].name;
        all += squares[i];
        head += strncmp(name, "head", 4) == 0 ? squares[i] : 0;
        value += strncmp(name, "value", 5) == 0 ? squares[i] : 0;
        report->n_nonfinite += n_nonfinite[i];
    }
    report->gradient_norm = sqrt(all);
    report->head_norm[0] = sqrt(head);
    report->value_norm = sqrt(value);
    return ES_STATUS_OK;
}

static EsStatus step(void *context, const EsOutputs *gradients, float learning_rate, float max_norm,
                     EsStepReport *report) {
    EsProofPolicyTraining *t = context;
    EsProofPolicy *policy = t->policy;
    *report = (EsStepReport){0};
    ES_TRY(es_proof_policy_training_backward(t, gradients));
    ES_TRY(es_optimiser_set_rates(t->optimiser, policy->stream, &learning_rate, NULL, NULL));
    ES_TRY(es_optimiser_set_clip(t->optimiser, policy->stream, max_norm));
    es_optimiser_step(t->optimiser, policy->stream);
    policy->version++;
    return report_norms(t, report);
}

EsPpoModel es_proof_policy_training_model(EsProofPolicyTraining *training) {
    return (EsPpoModel){.context = training, .begin = begin, .forward = forward, .step = step};
}

// --- files ---

EsStatus es_proof_policy_training_save(const EsProofPolicyTraining *t, const char *path) {
    EsProofPolicyMetadata notes;
    es_proof_policy_file_metadata(t->policy, &notes);
    return es_network_file_save(path, t->policy->layout, t->policy->store, t->optimiser,
                                t->policy->stream, notes.entry, notes.count);
}

EsStatus es_proof_policy_training_load(EsProofPolicyTraining *t, const char *path) {
    EsProofPolicy *policy = t->policy;
    ES_TRY(es_proof_policy_file_check(policy, path));
    ES_TRY(es_network_file_load(path, policy->layout, policy->store, t->optimiser, policy->stream,
                                ES_NUMBERS_FINITE));
    es_proof_network_clear_padding(policy);
    policy->version++;
    return ES_STATUS_OK;
}

EsStatus es_proof_policy_training_append_state(const EsProofPolicyTraining *t, EsStateHash *hash) {
    const EsOptimiser *optimiser = t->optimiser;
    EsStream *stream = t->policy->stream;
    ES_TRY(es_state_hash_append(hash, stream, &t->policy->store->parameters));
    ES_TRY(es_state_hash_append(hash, stream, &optimiser->moment1));
    return es_state_hash_append(hash, stream, &optimiser->moment2);
}

EsProofPolicyTrainingCounters es_proof_policy_training_counters(const EsProofPolicyTraining *t) {
    EsProofPolicyScorerCounters scorer = es_proof_policy_scorer_counters(t->scorer);
    const EsProofCache *cache = t->scorer->cache;
    int64_t embed_ns = 0, layer_ns = 0;
    for (int i = 0; i < t->n_workers; i++) {
        embed_ns += cache->workers[i]->embed_ns + t->workers[i]->embed_ns;
        layer_ns += cache->workers[i]->layer_ns + t->workers[i]->layer_ns;
    }
    return (EsProofPolicyTrainingCounters){
        .n_rows = t->n_rows,
        .n_successors = t->n_rows > 0 ? t->row_first[t->n_rows] : 0,
        .n_states = scorer.n_states,
        .n_encoded = scorer.n_encoded,
        .n_valued = scorer.n_valued,
        .embed_ms = (double)embed_ns * 1e-6,
        .layer_ms = (double)layer_ns * 1e-6,
        .network_ms = (double)(cache->fill_ns + t->backward_ns) * 1e-6};
}

size_t es_proof_policy_training_round_bytes(const EsProofPolicyTraining *t, double n_rows,
                                            double n_successors, double n_states, double n_atoms) {
    size_t moving = 0;
    size_t kept = es_proof_cache_bytes(t->policy, (int64_t)n_states, n_atoms, &moving);
    // arrays have half as much again as they hold
    double row_bytes = 1.5 * (sizeof *t->row_state + sizeof *t->row_first);
    double successor_bytes = 1.5 * (sizeof *t->successor + 2 * sizeof(float)); // logits, gradients
    double state_bytes = 1.5 * (sizeof *t->need + sizeof *t->list + sizeof *t->d_value +
                                sizeof *t->d_encoding * (double)t->policy->settings.embed);
    double update = n_rows * row_bytes + n_successors * successor_bytes + n_states * state_bytes;
    return kept + ES_MAX((size_t)update, moving);
}
