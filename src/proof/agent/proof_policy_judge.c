#include "base/memory.h"
#include "base/random_rules.h"
#include "learning/choice_rules.h"
#include "proof/agent/proof_policy_judge_internal.h"
#include "proof/search/proof_array.h"

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
