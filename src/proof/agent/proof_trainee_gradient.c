// Gradients of a proof policy from those of its logits and values, over the rows of a rollout.
//
// First every state collects what the rows ask of its encoding and value. Then the states go
// through the network once more, a block of rows at a time, and back: block b adds to part b % G of
// the layers' gradients, in the order of blocks, and parts are summed in a tree. What reaches the
// embedded states is spread over the tables column by column, in the order of states. All orders
// are the same for any number of threads.
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "proof/agent/proof_trainee_internal.h"
#include "proof/search/proof_array.h"

// of an encoding or a table that a piece works on: a cache line
#define COLUMNS_PER_PIECE 16

// --- from rows to states ---

typedef struct Collection {
    EsProofTrainee *trainee;
    const EsOutputs *gradients;
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
    EsProofTrainee *t = job->trainee;
    int64_t E = t->policy->settings.embed, begin = piece * COLUMNS_PER_PIECE;
    int64_t count = ES_MIN(COLUMNS_PER_PIECE, E - begin);
    const float *encoding = t->judge->memory->encoding + begin;
    float *d_encoding = t->d_encoding + begin;
    float inverse = 1.0f / t->policy->settings.temperature;
    for (int64_t row = 0; row < t->n_rows; row++) {
        int64_t state = t->row_state[row] * E, first = t->row_first[row];
        // an only successor has no gradient, nor need it have an encoding
        int64_t end = t->row_first[row + 1] - first > 1 ? t->row_first[row + 1] : first;
        for (int64_t k = first; k < end; k++) {
            float d = job->gradients->logits[k] * inverse;
            int64_t successor = t->successor[k] * E;
            add_scaled(d_encoding + state, encoding + successor, d, count);
            add_scaled(d_encoding + successor, encoding + state, d, count);
        }
    }
}

static EsStatus collect(EsProofTrainee *t, const EsOutputs *gradients) {
    int64_t n_states = t->judge->memory->states.count, E = t->policy->settings.embed;
    ES_TRY(es_proof_array_grow((void **)&t->d_encoding, sizeof(float) * (size_t)E, 0, n_states,
                               &t->d_encoding_capacity));
    ES_TRY(es_proof_array_grow((void **)&t->d_value, sizeof(float), 0, n_states,
                               &t->d_value_capacity));
    memset(t->d_encoding, 0, sizeof(float) * (size_t)(n_states * E));
    memset(t->d_value, 0, sizeof(float) * (size_t)n_states);
    Collection job = {t, gradients};
    es_proof_run_pieces(t->pool, (E + COLUMNS_PER_PIECE - 1) / COLUMNS_PER_PIECE, collect_columns,
                        &job);
    for (int64_t row = 0; row < t->n_rows; row++) {
        t->d_value[t->row_state[row]] += gradients->value[row];
    }
    return ES_STATUS_OK;
}

// --- from states to parameters ---

typedef struct Round {
    EsProofTrainee *trainee;
    int64_t first_block, n_blocks;
} Round;

static EsProofRows block_of(const EsProofTrainee *t, int64_t block) {
    return es_proof_memory_block(t->judge->memory, t->list, t->n_listed, t->n_value,
                                 t->first_policy, block);
}

static void undo_block(EsProofTrainee *t, EsProofWorker *worker, int64_t block, float *part,
                       float *d_input) {
    float d_value[ES_PROOF_ROWS];
    int64_t E = t->policy->settings.embed;
    EsProofRows rows = block_of(t, block);
    es_proof_worker_forward(worker, &rows);
    for (int64_t i = 0; i < rows.n_value; i++) {
        d_value[i] = t->d_value[rows.numbers[i]];
    }
    // the block's own states in a row, in memory of this round
    for (int64_t i = rows.first_policy; i < rows.count; i++) {
        memcpy(worker->d_encoding + i * E, t->d_encoding + rows.numbers[i] * E,
               sizeof(float) * (size_t)E);
    }
    int64_t start_ns = es_clock_ns();
    es_proof_worker_backward(worker, &rows, worker->d_encoding, d_value, part, d_input);
    worker->layer_ns += es_clock_ns() - start_ns;
}

static void undo_part(void *context, int64_t piece, int worker_index) {
    const Round *job = context;
    EsProofTrainee *t = job->trainee;
    int64_t row_floats = 2 * (int64_t)t->policy->settings.embed;
    float *part = t->parts + piece * t->policy->n_layers;
    for (int64_t i = piece; i < job->n_blocks; i += ES_PROOF_GRADIENT_PARTS) {
        undo_block(t, t->workers[worker_index], job->first_block + i, part,
                   t->d_input + i * ES_PROOF_ROWS * row_floats);
    }
}

static void spread_columns(void *context, int64_t piece, int worker) {
    int64_t start_ns = es_clock_ns();
    const Round *job = context;
    EsProofTrainee *t = job->trainee;
    int64_t E = t->policy->settings.embed, begin = piece * COLUMNS_PER_PIECE;
    for (int64_t i = 0; i < job->n_blocks; i++) {
        EsProofRows rows = block_of(t, job->first_block + i);
        es_proof_policy_spread(t->policy, &rows, t->d_input + i * ES_PROOF_ROWS * 2 * E, begin,
                               ES_MIN(begin + COLUMNS_PER_PIECE, E),
                               t->policy->store->gradients.data);
    }
    t->workers[worker]->embed_ns += es_clock_ns() - start_ns;
}

// The parts of the layers' gradients become the first elements of the store's.
static void sum_parts(EsProofTrainee *t) {
    EsProofPolicy *policy = t->policy;
    int64_t n = policy->n_layers;
    EsTensor parts = es_tensor_view(t->parts, ES_DTYPE_F32, policy->device, 2,
                                    (int64_t[]){ES_PROOF_GRADIENT_PARTS, n});
    EsTensor sum = es_tensor_view(policy->store->gradients.data, ES_DTYPE_F32, policy->device, 2,
                                  (int64_t[]){1, n});
    es_kernels_of(policy->device)->tree_sum(policy->stream, &parts, &sum);
}

EsStatus es_proof_trainee_backward(EsProofTrainee *t, const EsOutputs *gradients) {
    const EsProofPolicy *policy = t->policy;
    int64_t n_blocks = (t->n_listed + ES_PROOF_ROWS - 1) / ES_PROOF_ROWS;
    int64_t n_pieces = (policy->settings.embed + COLUMNS_PER_PIECE - 1) / COLUMNS_PER_PIECE;
    ES_TRY(collect(t, gradients));
    memset(t->parts, 0, sizeof(float) * ES_PROOF_GRADIENT_PARTS * (size_t)policy->n_layers);
    memset(policy->store->gradients.data, 0, es_tensor_bytes(&policy->store->gradients));
    for (int64_t first = 0; first < n_blocks; first += ES_PROOF_BLOCKS_PER_ROUND) {
        Round job = {t, first, ES_MIN(ES_PROOF_BLOCKS_PER_ROUND, n_blocks - first)};
        int64_t start_ns = es_clock_ns();
        es_proof_run_pieces(t->pool, ES_PROOF_GRADIENT_PARTS, undo_part, &job);
        es_proof_run_pieces(t->pool, n_pieces, spread_columns, &job);
        t->undo_ns += es_clock_ns() - start_ns;
    }
    sum_parts(t);
    return ES_STATUS_OK;
}
