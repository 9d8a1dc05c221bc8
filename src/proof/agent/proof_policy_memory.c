#include "proof/agent/proof_policy_memory.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "kernels/ops/double_sums.h"
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

EsStatus es_proof_memory_create(const EsProofPolicy *policy, EsThreadPool *pool,
                                EsProofMemory **memory_out) {
    *memory_out = NULL;
    EsProofMemory *memory = NULL;
    EsStatus status = ES_STATUS_OK;
    int n_workers = pool != NULL ? es_thread_pool_size(pool) : 1;
    ES_TRY(es_allocate(sizeof *memory, (void **)&memory));
    memory->policy = policy;
    memory->pool = pool;
    memory->version = policy->version;
    ES_TRY_GOTO(
        es_allocate(sizeof(EsProofWorker *) * (size_t)n_workers, (void **)&memory->workers));
    memory->n_workers = n_workers;
    for (int i = 0; i < n_workers; i++) {
        ES_TRY_GOTO(es_proof_worker_create(policy, 0, &memory->workers[i]));
    }
    *memory_out = memory;
done:
    if (status != ES_STATUS_OK) {
        es_proof_memory_destroy(memory);
    }
    return status;
}

void es_proof_memory_destroy(EsProofMemory *memory) {
    if (memory == NULL) {
        return;
    }
    for (int i = 0; i < memory->n_workers; i++) {
        es_proof_worker_destroy(memory->workers[i]);
    }
    es_release(memory->workers);
    es_proof_states_destroy(&memory->states);
    es_release(memory->encoding);
    es_release(memory->value);
    es_release(memory->known);
    es_release(memory->wanted);
    es_release(memory->waiting);
    es_release(memory->list);
    es_release(memory);
}

void es_proof_memory_clear(EsProofMemory *memory) {
    size_t count = (size_t)memory->states.count;
    if (count > 0) {
        memset(memory->known, 0, count);
        memset(memory->wanted, 0, count);
    }
    memory->n_waiting = 0;
    es_proof_states_clear(&memory->states);
}

void es_proof_memory_refresh(EsProofMemory *memory, EsGoalSelection selection) {
    if (memory->version == memory->policy->version && memory->selection == selection) {
        return;
    }
    if (memory->states.count > 0) {
        memset(memory->known, 0, (size_t)memory->states.count);
    }
    memory->version = memory->policy->version;
    memory->selection = selection;
}

// --- what is wanted ---

static EsStatus make_room(EsProofMemory *memory, int64_t wanted) {
    if (wanted <= memory->capacity) {
        return ES_STATUS_OK;
    }
    int64_t used = memory->capacity, capacity[4] = {0};
    size_t row_bytes = sizeof(float) * (size_t)memory->policy->settings.embed;
    ES_TRY(es_proof_array_grow((void **)&memory->encoding, row_bytes, used, wanted, &capacity[0]));
    ES_TRY(es_proof_array_grow((void **)&memory->value, sizeof(float), used, wanted, &capacity[1]));
    ES_TRY(es_proof_array_grow((void **)&memory->known, 1, used, wanted, &capacity[2]));
    ES_TRY(es_proof_array_grow((void **)&memory->wanted, 1, used, wanted, &capacity[3]));
    memory->capacity = capacity[0];
    return ES_STATUS_OK;
}

EsStatus es_proof_memory_want(EsProofMemory *memory, int32_t number, uint8_t wanted) {
    uint8_t missing = (uint8_t)(wanted & ~memory->known[number]);
    if (missing == 0) {
        return ES_STATUS_OK;
    }
    if (memory->wanted[number] != 0) {
        memory->wanted[number] |= missing;
        return ES_STATUS_OK;
    }
    // before the bits are set: without a place in the list they would never be computed
    ES_TRY(es_proof_array_grow((void **)&memory->waiting, sizeof *memory->waiting,
                               memory->n_waiting, memory->n_waiting + 1,
                               &memory->waiting_capacity));
    memory->wanted[number] = missing;
    memory->waiting[memory->n_waiting++] = number;
    return ES_STATUS_OK;
}

static EsStatus take_state(EsProofMemory *memory, EsAtomSpan state, uint8_t wanted,
                           int32_t *number) {
    ES_TRY(make_room(memory, (int64_t)memory->states.count + 1));
    ES_TRY(es_proof_states_add(&memory->states, state.atoms, state.count,
                               es_proof_hash(state.atoms, state.count), number));
    return es_proof_memory_want(memory, *number, wanted);
}

EsStatus es_proof_memory_take(EsProofMemory *memory, const EsProofChoices *choices, int whose,
                              int32_t *state_number, int32_t *successor_number) {
    uint8_t state_value = whose & ES_PROOF_VALUES_OF_STATES ? ES_PROOF_KNOWS_VALUE : 0;
    uint8_t successor_value = whose & ES_PROOF_VALUES_OF_SUCCESSORS ? ES_PROOF_KNOWS_VALUE : 0;
    for (int32_t i = 0; i < choices->n_states; i++) {
        int has_choice = successor_number != NULL && choices->first[i + 1] - choices->first[i] > 1;
        uint8_t encoding = has_choice ? ES_PROOF_KNOWS_ENCODING : 0;
        ES_TRY(take_state(memory, choices->states[i], encoding | state_value, &state_number[i]));
        for (int32_t k = choices->first[i]; successor_number != NULL && k < choices->first[i + 1];
             k++) {
            ES_TRY(take_state(memory, choices->successors[k], encoding | successor_value,
                              &successor_number[k]));
        }
    }
    return ES_STATUS_OK;
}

// --- computing ---

int64_t es_proof_memory_arrange(const int32_t *states, int64_t count, const uint8_t *wanted,
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

EsProofRows es_proof_memory_block(const EsProofMemory *memory, const int32_t *list, int64_t count,
                                  int64_t n_value, int64_t first_policy, int64_t block) {
    int64_t begin = block * ES_PROOF_ROWS, n = ES_MIN(ES_PROOF_ROWS, count - begin);
    return (EsProofRows){.states = &memory->states,
                         .numbers = list + begin,
                         .count = n,
                         .n_value = ES_MIN(ES_MAX(n_value - begin, 0), n),
                         .first_policy = ES_MIN(ES_MAX(first_policy - begin, 0), n),
                         .selection = memory->selection};
}

typedef struct Filling {
    EsProofMemory *memory;
    int64_t count, n_value, first_policy;
} Filling;

static void fill_block(void *context, int64_t piece, int worker_index) {
    const Filling *job = context;
    EsProofMemory *memory = job->memory;
    EsProofWorker *worker = memory->workers[worker_index];
    EsProofRows rows = es_proof_memory_block(memory, memory->list, job->count, job->n_value,
                                             job->first_policy, piece);
    int64_t E = memory->policy->settings.embed;
    es_proof_worker_forward(worker, &rows);
    for (int64_t i = 0; i < rows.n_value; i++) {
        memory->value[rows.numbers[i]] = worker->head[ES_PROOF_PART_VALUE].y[i];
    }
    for (int64_t i = rows.first_policy; i < rows.count; i++) {
        memcpy(memory->encoding + rows.numbers[i] * E, worker->head[ES_PROOF_PART_POLICY].y + i * E,
               sizeof(float) * (size_t)E);
    }
}

EsStatus es_proof_memory_fill(EsProofMemory *memory) {
    Filling job = {.memory = memory};
    ES_TRY(es_proof_array_grow((void **)&memory->list, sizeof *memory->list, 0, memory->n_waiting,
                               &memory->list_capacity));
    job.count = es_proof_memory_arrange(memory->waiting, memory->n_waiting, memory->wanted,
                                        memory->list, &job.n_value, &job.first_policy);
    int64_t start_ns = es_clock_ns();
    es_proof_run_pieces(memory->pool, (job.count + ES_PROOF_ROWS - 1) / ES_PROOF_ROWS, fill_block,
                        &job);
    memory->fill_ns += es_clock_ns() - start_ns;
    for (int64_t i = 0; i < job.count; i++) {
        memory->known[memory->list[i]] |= memory->wanted[memory->list[i]];
        memory->wanted[memory->list[i]] = 0;
    }
    memory->n_encoded += job.count - job.first_policy;
    memory->n_valued += job.n_value;
    memory->n_waiting = 0;
    return ES_STATUS_OK;
}

void es_proof_memory_score(const EsProofMemory *memory, int32_t state, const int32_t *successors,
                           int64_t n, float *logits) {
    int64_t E = memory->policy->settings.embed;
    const float *u = memory->encoding + state * E;
    double temperature = (double)memory->policy->settings.temperature;
    for (int64_t k = 0; k < n; k++) {
        const float *w = memory->encoding + successors[k] * E;
        logits[k] = n == 1 ? 0.0f : (float)(es_double_centred_dot(u, 0.0, w, 0.0, E) / temperature);
    }
}
