// What the environment shows: successors of all slots as one list, the padded observation, sums.
#include <string.h>

#include "base/memory.h"
#include "proof/agent/proof_env_internal.h"

EsProofSlot es_proof_env_slot(const EsProofEnv *env, int32_t slot) {
    ES_ASSERT(slot >= 0 && slot < env->settings.n_slots);
    return env->slots[slot];
}

// --- choices ---

// Spans of a block's slots, from row_start.
static void list_block(void *context, int64_t piece, int worker) {
    EsProofEnv *env = context;
    (void)worker;
    int32_t begin = (int32_t)piece * ES_PROOF_BLOCK;
    int32_t end = ES_MIN(begin + ES_PROOF_BLOCK, env->settings.n_slots);
    const EsProofBlock *block = &env->blocks[piece];
    EsAtomSpan *span = env->span + env->row_start[begin];
    for (int32_t k = 0; k < block->n_successors; k++) {
        span[k] =
            (EsAtomSpan){block->atoms + block->start[k], block->start[k + 1] - block->start[k]};
    }
    for (int32_t slot = begin; slot < end; slot++) {
        env->state_span[slot] =
            (EsAtomSpan){es_proof_env_state(env, slot), env->slots[slot].n_atoms};
    }
}

// Number the successors of all slots through.
static EsStatus number_rows(EsProofEnv *env) {
    int64_t n_all = 0;
    for (int32_t slot = 0; slot < env->settings.n_slots; slot++) {
        env->row_start[slot] = (int32_t)n_all;
        n_all += env->count[slot];
        if (n_all > INT32_MAX / 2) {
            return ES_FAIL(MEMORY, "more than %d successors of %d states", INT32_MAX / 2,
                           env->settings.n_slots);
        }
    }
    env->row_start[env->settings.n_slots] = (int32_t)n_all;
    if (n_all > env->span_capacity) {
        int32_t capacity = (int32_t)ES_MAX(n_all, 2 * (int64_t)env->span_capacity);
        void *memory;
        ES_TRY(es_allocate((size_t)capacity * sizeof *env->span, &memory));
        es_release(env->span);
        env->span = memory;
        env->span_capacity = capacity;
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_env_choices(EsProofEnv *env, EsProofChoices *choices) {
    if (!env->is_listed) {
        ES_TRY(number_rows(env));
        es_proof_env_run(env, ES_PROOF_LIGHT_BLOCKS, list_block, env);
        env->is_listed = 1;
    }
    *choices = (EsProofChoices){.states = env->state_span,
                                .first = env->row_start,
                                .successors = env->span,
                                .n_states = env->settings.n_slots,
                                .selection = env->settings.selection};
    return ES_STATUS_OK;
}

// --- random actions ---

typedef struct DrawJob {
    const EsProofEnv *env;
    int32_t *actions;
} DrawJob;

static void draw_block(void *context, int64_t piece, int worker) {
    const DrawJob *job = context;
    const EsProofEnv *env = job->env;
    (void)worker;
    int32_t begin = (int32_t)piece * ES_PROOF_BLOCK;
    int32_t end = ES_MIN(begin + ES_PROOF_BLOCK, env->settings.n_slots);
    for (int32_t slot = begin; slot < end; slot++) {
        const EsProofSlot *at = &env->slots[slot];
        uint32_t number = (uint32_t)(env->settings.first_slot + slot);
        job->actions[slot] = es_proof_random_action(env->settings.seed, number, at->episode,
                                                    at->depth, env->count[slot]);
    }
}

void es_proof_env_draw_actions(EsProofEnv *env, int32_t *actions) {
    DrawJob job = {env, actions};
    es_proof_env_run(env, ES_PROOF_LIGHT_BLOCKS, draw_block, &job);
}

// --- padded observation ---

typedef struct PadJob {
    EsProofEnv *env;
    int32_t max_states;
    int32_t *state, *successors;
    unsigned char *mask;
} PadJob;

// A list of atoms as integers, zero up to max_atoms.
static void pad_atoms(EsAtomSpan span, int32_t max_atoms, int32_t *row) {
    for (int32_t i = 0; i < span.count; i++) {
        row[3 * i] = span.atoms[i].predicate;
        row[3 * i + 1] = span.atoms[i].a;
        row[3 * i + 2] = span.atoms[i].b;
    }
    memset(row + 3 * (size_t)span.count, 0, 3 * (size_t)(max_atoms - span.count) * sizeof *row);
}

static void pad_block(void *context, int64_t piece, int worker) {
    const PadJob *job = context;
    EsProofEnv *env = job->env;
    (void)worker;
    int32_t begin = (int32_t)piece * ES_PROOF_BLOCK;
    int32_t end = ES_MIN(begin + ES_PROOF_BLOCK, env->settings.n_slots);
    int32_t max_atoms = env->settings.max_atoms;
    size_t row = 3 * (size_t)max_atoms, S = (size_t)job->max_states;
    for (int32_t slot = begin; slot < end; slot++) {
        size_t n_shown = (size_t)ES_MIN(env->count[slot], job->max_states), i = (size_t)slot;
        if (job->state != NULL) {
            EsAtomSpan state = {es_proof_env_state(env, slot), env->slots[slot].n_atoms};
            pad_atoms(state, max_atoms, job->state + i * row);
        }
        if (job->successors != NULL) {
            int32_t *rows = job->successors + i * S * row;
            for (size_t k = 0; k < n_shown; k++) {
                pad_atoms(es_proof_env_successor(env, slot, (int32_t)k), max_atoms, rows + k * row);
            }
            memset(rows + n_shown * row, 0, (S - n_shown) * row * sizeof *rows);
        }
        if (job->mask != NULL) {
            memset(job->mask + i * S, 1, n_shown);
            memset(job->mask + i * S + n_shown, 0, S - n_shown);
        }
    }
}

int64_t es_proof_env_pad(EsProofEnv *env, int32_t max_states, int32_t *sub_index,
                         int32_t *derived_sub_indices, unsigned char *action_mask) {
    ES_ASSERT(max_states >= 1);
    PadJob job = {env, max_states, sub_index, derived_sub_indices, action_mask};
    es_proof_env_run(env, 1, pad_block, &job);
    int64_t n_left_out = 0;
    for (int32_t slot = 0; slot < env->settings.n_slots; slot++) {
        n_left_out += ES_MAX(env->count[slot] - max_states, 0);
    }
    return n_left_out;
}

// --- counters ---

EsProofEnvCounters es_proof_env_counters(const EsProofEnv *env) {
    EsProofEnvCounters sum = {0};
    for (int32_t b = 0; b < env->n_blocks; b++) {
        const EsProofEnvCounters *part = &env->counters[b];
        for (int label = 0; label < 2; label++) {
            sum.n_episodes[label] += part->n_episodes[label];
            sum.n_proved[label] += part->n_proved[label];
            sum.n_truncated[label] += part->n_truncated[label];
            sum.n_by_end[label] += part->n_by_end[label];
            sum.n_actions[label] += part->n_actions[label];
            sum.reward[label] += part->reward[label];
        }
        sum.n_steps += part->n_steps;
        sum.n_not_corrupted += part->n_not_corrupted;
        sum.n_skipped += part->n_skipped;
        sum.n_successors += part->n_successors;
        sum.n_overlong += part->n_overlong;
        sum.n_overflow += part->n_overflow;
    }
    return sum;
}
