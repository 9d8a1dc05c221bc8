#include "proof/agent/proof_policy_inference.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "kernels/ops/double_sums.h"
#include "learning/choice_rules.h"
#include "proof/agent/proof_policy_inference_internal.h"
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

EsStatus es_proof_judge_create(const EsProofPolicy *policy, EsThreadPool *pool, int32_t max_states,
                               EsProofJudge **judge_out) {
    *judge_out = NULL;
    EsProofJudge *judge = NULL;
    if (max_states < 0) {
        return ES_FAIL(ARGUMENT, "a judge cannot remember %d states", max_states);
    }
    ES_TRY(es_allocate(sizeof *judge, (void **)&judge));
    judge->max_states = max_states;
    EsStatus status = es_proof_memory_create(policy, pool, &judge->memory);
    if (status != ES_STATUS_OK) {
        es_proof_judge_destroy(judge);
        return status;
    }
    *judge_out = judge;
    return ES_STATUS_OK;
}

void es_proof_judge_destroy(EsProofJudge *judge) {
    if (judge != NULL) {
        es_proof_memory_destroy(judge->memory);
        es_release(judge->state_number);
        es_release(judge->successor_number);
        es_release(judge->probability);
        es_release(judge);
    }
}

// --- logits and values ---

// Numbers for the states of a call.
static EsStatus begin_call(EsProofJudge *judge, const EsProofChoices *choices) {
    es_proof_memory_refresh(judge->memory, choices->selection);
    if (judge->memory->states.count > judge->max_states) {
        es_proof_memory_clear(judge->memory);
    }
    ES_TRY(es_proof_array_grow((void **)&judge->state_number, sizeof *judge->state_number, 0,
                               choices->n_states, &judge->state_capacity));
    return es_proof_array_grow((void **)&judge->successor_number, sizeof *judge->successor_number,
                               0, choices->first[choices->n_states], &judge->successor_capacity);
}

// `value` may be NULL.
static void read_values(const EsProofJudge *judge, const int32_t *numbers, int32_t count,
                        float *value) {
    for (int32_t i = 0; value != NULL && i < count; i++) {
        value[i] = judge->memory->value[numbers[i]];
    }
}

// logits (M); state_value (N) and successor_value (M) may be NULL.
static EsStatus judge_choices(EsProofJudge *judge, const EsProofChoices *choices, float *logits,
                              float *state_value, float *successor_value) {
    int whose = (state_value != NULL ? ES_PROOF_VALUES_OF_STATES : 0) |
                (successor_value != NULL ? ES_PROOF_VALUES_OF_SUCCESSORS : 0);
    ES_TRY(begin_call(judge, choices));
    ES_TRY(es_proof_memory_take(judge->memory, choices, whose, judge->state_number,
                                judge->successor_number));
    ES_TRY(es_proof_memory_fill(judge->memory));
    for (int32_t i = 0; i < choices->n_states; i++) {
        int32_t first = choices->first[i];
        es_proof_memory_score(judge->memory, judge->state_number[i],
                              judge->successor_number + first, choices->first[i + 1] - first,
                              logits + first);
    }
    read_values(judge, judge->state_number, choices->n_states, state_value);
    read_values(judge, judge->successor_number, choices->first[choices->n_states], successor_value);
    return ES_STATUS_OK;
}

EsStatus es_proof_judge_logits(EsProofJudge *judge, const EsProofChoices *choices, float *logits,
                               float *value) {
    return judge_choices(judge, choices, logits, value, NULL);
}

EsStatus es_proof_judge_values(EsProofJudge *judge, const EsProofChoices *choices, float *value) {
    ES_TRY(begin_call(judge, choices));
    ES_TRY(es_proof_memory_take(judge->memory, choices, ES_PROOF_VALUES_OF_STATES,
                                judge->state_number, NULL));
    ES_TRY(es_proof_memory_fill(judge->memory));
    read_values(judge, judge->state_number, choices->n_states, value);
    return ES_STATUS_OK;
}

// --- probabilities and choices ---

// Of the successors of state i, into judge->probability; returns how many there are.
static EsStatus find_probabilities(EsProofJudge *judge, const EsProofChoices *choices,
                                   const float *logits, int32_t i, int *n) {
    int32_t first = choices->first[i];
    *n = choices->first[i + 1] - first;
    ES_TRY(es_proof_array_grow((void **)&judge->probability, sizeof *judge->probability, 0, *n,
                               &judge->probability_capacity));
    es_choice_probabilities(logits + first, *n, ES_CHOICE_ALL, 0.0f, judge->probability);
    return ES_STATUS_OK;
}

EsStatus es_proof_policy_judge(void *context, const EsProofChoices *choices, float *log_probability,
                               float *value) {
    EsProofJudge *judge = context;
    ES_TRY(judge_choices(judge, choices, log_probability, NULL, value));
    for (int32_t i = 0; i < choices->n_states; i++) {
        int n = 0;
        ES_TRY(find_probabilities(judge, choices, log_probability, i, &n));
        for (int k = 0; k < n; k++) {
            log_probability[choices->first[i] + k] =
                (float)es_choice_log_probability(judge->probability, k);
        }
    }
    return ES_STATUS_OK;
}

EsProofGuide es_proof_judge_guide(EsProofJudge *judge) {
    return (EsProofGuide){.context = judge, .judge = es_proof_policy_judge};
}

EsStatus es_proof_judge_choose(EsProofJudge *judge, const EsProofChoices *choices,
                               const float *logits, uint64_t seed, const EsProofTurn *turns,
                               int32_t *action) {
    for (int32_t i = 0; i < choices->n_states; i++) {
        int n = 0;
        ES_TRY(find_probabilities(judge, choices, logits, i, &n));
        if (turns == NULL) {
            action[i] = es_choice_best(judge->probability, n, ES_CHOICE_ALL);
            continue;
        }
        EsRandom4 draw =
            es_random_draw(seed, turns[i].episode, ES_PURPOSE_ACTION, turns[i].step, turns[i].slot);
        action[i] =
            es_choice_draw(judge->probability, n, ES_CHOICE_ALL, es_random_uniform(draw.word[0]));
    }
    return ES_STATUS_OK;
}

EsProofJudgeCounters es_proof_judge_counters(const EsProofJudge *judge) {
    const EsProofMemory *memory = judge->memory;
    return (EsProofJudgeCounters){memory->n_encoded, memory->n_valued, memory->states.count};
}

// --- guides of a search ---

// states whose encodings a thread remembers
#define REMEMBERED (1 << 16)

EsStatus es_proof_guides_create(const EsProofPolicy *policy, int n_guides, EsProofGuides *guides) {
    EsStatus status = ES_STATUS_OK;
    size_t n = (size_t)n_guides;
    memset(guides, 0, sizeof *guides);
    ES_TRY_GOTO(es_allocate(n * sizeof(EsProofJudge *), (void **)&guides->judges));
    ES_TRY_GOTO(es_allocate(n * sizeof *guides->guides, (void **)&guides->guides));
    guides->n_guides = n_guides;
    for (int i = 0; i < n_guides; i++) {
        ES_TRY_GOTO(es_proof_judge_create(policy, NULL, REMEMBERED, &guides->judges[i]));
        guides->guides[i] = es_proof_judge_guide(guides->judges[i]);
    }
done:
    if (status != ES_STATUS_OK) {
        es_proof_guides_destroy(guides);
    }
    return status;
}

void es_proof_guides_destroy(EsProofGuides *guides) {
    for (int i = 0; i < guides->n_guides; i++) {
        es_proof_judge_destroy(guides->judges[i]);
    }
    es_release(guides->judges);
    es_release(guides->guides);
    memset(guides, 0, sizeof *guides);
}
