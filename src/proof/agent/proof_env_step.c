// One step of all environments on the CPU: takes the chosen successor, rewards an episode that
// ended and begins the next, then finds the successors of the new state. A block of environments is
// a piece of work for one thread. Also all views of the present states, of a device's environments,
// too: choices, padded observation, counters.
#include <string.h>

#include "base/memory.h"
#include "proof/agent/proof_env_internal.h"
#include "proof/search/proof_array.h"

// blocks from which on light work per environment, of some nanoseconds, pays for waking threads
#define ES_PROOF_LIGHT_BLOCKS 32

// Run a function for every block, over the threads if there are at least min_blocks.
static void run_blocks(const EsProofEnv *env, int32_t min_blocks, EsPieceFunction function,
                       void *context) {
    if (env->pool != NULL && env->n_blocks >= min_blocks) {
        es_thread_pool_run(env->pool, env->n_blocks, function, context);
        return;
    }
    for (int32_t b = 0; b < env->n_blocks; b++) {
        function(context, b, 0);
    }
}

// --- states ---

static int32_t block_of(int32_t index) { return index / ES_PROOF_BLOCK; }

// Successor k of an environment. A device's must have been listed.
static EsAtomSpan successor_of(const EsProofEnv *env, int32_t index, int32_t k) {
    if (env->backend != NULL) {
        return env->span[env->row_start[index] + k];
    }
    const EsProofBlock *block = &env->blocks[block_of(index)];
    const int32_t *start = block->start + env->first[index] + k;
    return (EsAtomSpan){block->atoms + start[0], start[1] - start[0]};
}

static void copy_atoms(EsAtom *to, const EsAtom *from, int32_t n_atoms) {
    for (int32_t i = 0; i < n_atoms; i++) {
        to[i] = from[i];
    }
}

// Make this the environment's state, and remember it.
static void enter_state(EsProofEnv *env, int32_t index, const EsAtom *atoms, int32_t n_atoms) {
    EsProofEpisode *at = &env->episodes[index];
    at->n_atoms = n_atoms;
    copy_atoms(es_proof_env_goals(env, index), atoms, n_atoms);
    if (env->max_visited == 0) {
        return;
    }
    ES_ASSERT(at->n_visited < env->max_visited);
    size_t i = (size_t)index * (size_t)env->max_visited + (size_t)at->n_visited++;
    copy_atoms(env->visited + i * (size_t)env->settings.max_atoms, atoms, n_atoms);
    env->n_visited_atoms[i] = n_atoms;
    env->visited_hash[i] = es_proof_hash(atoms, n_atoms);
}

// --- episodes ---

// Makes an atom the query of an environment's episode.
static void set_query(EsProofEnv *env, int32_t index, const EsAtom *query) {
    int cells = env->graph->query_cells;
    EsAtom *to = env->state_query + (size_t)index * (size_t)cells;
    env->episodes[index].query = to[0] = query[0];
    if (cells == 2) {
        env->query_rest[index] = to[1] = query[1];
    }
}

// Puts the two cells of a loaded query together again.
static void restore_query(EsProofEnv *env, int32_t index) {
    EsWideAtom query = {{env->episodes[index].query}};
    if (env->query_rest != NULL) {
        query.cells[1] = env->query_rest[index];
    }
    set_query(env, index, query.cells);
}

static void begin_episode(EsProofEnv *env, int32_t index, uint32_t episode,
                          EsProofEnvCounters *counters) {
    const EsProofEnvSettings *settings = &env->settings;
    uint32_t number = (uint32_t)(settings->first_env + index);
    EsProofEpisode *at = &env->episodes[index];
    EsWideAtom query;
    int is_uncorrupted;
    *at = (EsProofEpisode){.episode = episode};
    at->label =
        es_episode_draw(env->graph, env->known != NULL ? es_known_atoms_table(env->known) : NULL,
                        settings, number, episode, &query, &is_uncorrupted);
    counters->n_not_corrupted += is_uncorrupted;
    set_query(env, index, query.cells);
    enter_state(env, index, query.cells, es_kg_cells(env->graph, query.cells[0].predicate));
}

// A block's part of the arrays of bytes in EsProofResult. Neighbouring blocks share cache lines of
// these, so that they are written at once, at the end.
typedef struct BlockFlags {
    unsigned char is_done[ES_PROOF_BLOCK], is_success[ES_PROOF_BLOCK];
    unsigned char is_truncated[ES_PROOF_BLOCK], is_by_end[ES_PROOF_BLOCK], label[ES_PROOF_BLOCK];
} BlockFlags;

static void publish_flags(EsProofResult *result, int32_t begin, size_t n, const BlockFlags *flags) {
    memcpy(result->is_done + begin, flags->is_done, n);
    memcpy(result->is_success + begin, flags->is_success, n);
    memcpy(result->is_truncated + begin, flags->is_truncated, n);
    memcpy(result->is_by_end + begin, flags->is_by_end, n);
    memcpy(result->label + begin, flags->label, n);
}

// Keeps the states of an episode that ended with a proof; the next one overwrites them.
static void trace_proof(EsProofEnv *env, int32_t index) {
    EsProofTrace *trace = &env->traces[index];
    size_t V = (size_t)env->max_visited, A = (size_t)env->settings.max_atoms;
    size_t first = (size_t)index * V;
    trace->count = V > 0 ? env->episodes[index].n_visited : 0;
    for (size_t i = first; i < first + (size_t)trace->count; i++) {
        copy_atoms(env->traced + i * A, env->visited + i * A, env->n_visited_atoms[i]);
        trace->states[i - first] = (EsAtomSpan){env->traced + i * A, env->n_visited_atoms[i]};
    }
}

static void take_action(EsProofEnv *env, int32_t index, BlockFlags *flags,
                        EsProofEnvCounters *counters) {
    const EsProofEnvSettings *settings = &env->settings;
    EsProofEpisode *at = &env->episodes[index];
    EsProofResult *result = &env->result;
    EsAtomSpan next = successor_of(env, index, env->actions[index]);
    EsProofOutcome outcome = es_goals_outcome(env->graph, next.atoms, next.count);
    EsAtom *reached = env->reached + (size_t)index * (size_t)settings->max_atoms;
    int32_t i = index % ES_PROOF_BLOCK;
    at->depth++;
    EsEpisodeEnd end = es_episode_end(settings, outcome, at->depth, at->label);
    copy_atoms(reached, next.atoms, next.count);
    result->reached[index] = (EsAtomSpan){reached, next.count};
    size_t cells = (size_t)env->graph->query_cells;
    memcpy(result->query + (size_t)index * cells, es_proof_env_query(env, index),
           cells * sizeof *result->query);
    result->depth[index] = at->depth;
    result->reward[index] = end.reward;
    flags->label[i] = (unsigned char)at->label;
    flags->is_done[i] = (unsigned char)end.is_done;
    flags->is_success[i] = (unsigned char)end.is_success;
    flags->is_truncated[i] = (unsigned char)end.is_truncated;
    flags->is_by_end[i] = (unsigned char)end.is_by_end;
    counters->n_steps++;
    if (index < ES_PROOF_TRACED) {
        env->traces[index].count = 0;
        if (end.is_success) {
            trace_proof(env, index);
        }
    }
    if (!end.is_done) {
        enter_state(env, index, next.atoms, next.count);
        return;
    }
    counters->n_episodes[at->label]++;
    counters->n_proved[at->label] += end.is_success;
    counters->n_truncated[at->label] += end.is_truncated;
    counters->n_by_end[at->label] += end.is_by_end;
    counters->n_actions[at->label] += at->depth;
    counters->reward[at->label] += (double)end.reward;
    begin_episode(env, index, at->episode + 1, counters);
}

// --- successors ---

// Append an expansion to its block. Fails when there is no memory for it, or when the atoms of the
// block are more than an int32_t counts.
static EsStatus keep_successors(EsProofBlock *block, const EsSuccessors *out) {
    int64_t n_atoms = (int64_t)block->n_atoms + out->start[out->count];
    int64_t n_successors = (int64_t)block->n_successors + out->count;
    if (n_atoms > INT32_MAX) {
        return ES_FAIL(MEMORY, "more than %d atoms of %d states", INT32_MAX, ES_PROOF_BLOCK);
    }
    ES_TRY(es_proof_array_grow((void **)&block->atoms, sizeof *block->atoms, block->n_atoms,
                               n_atoms, &block->atom_capacity));
    // with nothing kept yet the first element is still the zero that new memory has
    ES_TRY(es_proof_array_grow((void **)&block->start, sizeof *block->start,
                               block->n_successors > 0 ? block->n_successors + 1 : 0,
                               n_successors + 1, &block->start_capacity));
    copy_atoms(block->atoms + block->n_atoms, out->atoms, out->start[out->count]);
    for (int32_t k = 1; k <= out->count; k++) {
        block->start[block->n_successors + k] = block->n_atoms + out->start[k];
    }
    block->n_atoms = (int32_t)n_atoms;
    block->n_successors = (int32_t)n_successors;
    return ES_STATUS_OK;
}

static void expand_state(const EsProofEnv *env, int32_t index, EsSuccessors *out,
                         EsProofEnvCounters *counters) {
    const EsProofEpisode *at = &env->episodes[index];
    size_t first = (size_t)index * (size_t)env->max_visited;
    EsVisitedGoals visited = {.atoms = env->visited + first * (size_t)env->settings.max_atoms,
                              .n_atoms = env->n_visited_atoms + first,
                              .hash = env->visited_hash + first,
                              .count = at->n_visited,
                              .stride = env->settings.max_atoms};
    es_proof_expand(env->graph, &env->listing, es_proof_env_query(env, index),
                    es_proof_env_goals(env, index), at->n_atoms,
                    env->max_visited > 0 ? &visited : NULL, out);
    counters->n_overlong += out->n_overlong;
    counters->n_overflow += out->n_overflow;
}

static void list_successors(EsProofEnv *env, int32_t index, int max_skips, EsSuccessors *out,
                            EsProofEnvCounters *counters) {
    EsProofBlock *block = &env->blocks[block_of(index)];
    expand_state(env, index, out, counters);
    int n_ends = env->settings.has_end != 0;
    for (int n_skips = 0;
         n_skips < max_skips && out->outcome == ES_PROOF_OPEN && out->count - n_ends == 1;
         n_skips++) {
        EsAtomSpan only = es_successor(out, 0);
        enter_state(env, index, only.atoms, only.count);
        counters->n_skipped++;
        expand_state(env, index, out, counters);
    }
    counters->n_successors += out->count;
    env->first[index] = block->n_successors;
    env->count[index] = out->count;
    if (keep_successors(block, out) != ES_STATUS_OK) {
        env->count[index] = 0; // so that no action of the environment is taken
        block->is_out_of_memory = 1;
    }
}

// --- blocks ---

typedef enum StepKind {
    STEP_BEGIN,  // the first episode of every environment
    STEP_TAKE,   // an action in every environment
    STEP_RESTORE // states as they are, which were passed over already
} StepKind;

typedef struct StepJob {
    EsProofEnv *env;
    StepKind kind;
} StepJob;

// All actions of a block first: its old successors are overwritten afterwards.
static void step_block(void *context, int64_t piece, int worker) {
    const StepJob *job = context;
    EsProofEnv *env = job->env;
    EsProofEnvCounters counters = env->counters[piece];
    BlockFlags flags;
    int32_t begin = (int32_t)piece * ES_PROOF_BLOCK;
    int32_t end = ES_MIN(begin + ES_PROOF_BLOCK, env->settings.n_envs);
    int skips = env->settings.skips_unary && job->kind != STEP_RESTORE;
    for (int32_t index = begin; index < end; index++) {
        if (job->kind == STEP_TAKE) {
            take_action(env, index, &flags, &counters);
        } else if (job->kind == STEP_BEGIN) {
            begin_episode(env, index, 0, &counters);
        } else {
            restore_query(env, index);
        }
    }
    if (job->kind == STEP_TAKE) {
        publish_flags(&env->result, begin, (size_t)(end - begin), &flags);
    }
    env->blocks[piece].n_atoms = env->blocks[piece].n_successors = 0;
    env->blocks[piece].is_out_of_memory = 0;
    for (int32_t index = begin; index < end; index++) {
        list_successors(env, index, skips ? ES_PROOF_MAX_SKIPS : 0, &env->scratch[worker],
                        &counters);
    }
    env->counters[piece] = counters;
}

static EsStatus run_step(EsProofEnv *env, StepKind kind) {
    StepJob job = {env, kind};
    env->is_listed = 0;
    run_blocks(env, 1, step_block, &job);
    for (int32_t b = 0; b < env->n_blocks; b++) {
        if (env->blocks[b].is_out_of_memory) {
            return ES_FAIL(MEMORY, "no memory for the successors of %d states",
                           env->settings.n_envs);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_env_begin(EsProofEnv *env) {
    return env->backend != NULL ? env->backend->begin(env) : run_step(env, STEP_BEGIN);
}

EsStatus es_proof_env_restore(EsProofEnv *env) {
    return env->backend != NULL ? env->backend->restore(env) : run_step(env, STEP_RESTORE);
}

EsStatus es_proof_env_step(EsProofEnv *env, const int32_t *actions) {
    for (int32_t index = 0; index < env->settings.n_envs; index++) {
        if (actions[index] < 0 || actions[index] >= env->count[index]) {
            return ES_FAIL(ARGUMENT, "action %d of environment %d, which has %d successors",
                           actions[index], index, env->count[index]);
        }
    }
    if (env->backend != NULL) {
        return env->backend->step(env, actions);
    }
    env->actions = actions;
    return run_step(env, STEP_TAKE);
}

// Row t of a walk, behind its step.
static void write_row(const EsProofEnv *env, const EsProofRows *rows, int32_t t,
                      const int32_t *actions, const int32_t *counts) {
    size_t N = (size_t)env->settings.n_envs, at = (size_t)t * N;
    if (rows->action != NULL) {
        memcpy(rows->action + at, actions, N * sizeof *actions);
    }
    if (rows->count != NULL) {
        memcpy(rows->count + at, counts, N * sizeof *counts);
    }
    if (rows->reward != NULL) {
        memcpy(rows->reward + at, env->result.reward, N * sizeof *rows->reward);
    }
    if (rows->is_done != NULL) {
        memcpy(rows->is_done + at, env->result.is_done, N);
    }
}

EsStatus es_proof_env_walk(EsProofEnv *env, int32_t n_steps, const EsProofRows *rows) {
    ES_ASSERT(n_steps >= 0);
    if (env->backend != NULL) {
        return env->backend->walk(env, n_steps, rows);
    }
    size_t N = (size_t)env->settings.n_envs;
    int32_t *actions = NULL;
    ES_TRY(es_allocate(2 * N * sizeof *actions, (void **)&actions));
    EsStatus status = ES_STATUS_OK;
    for (int32_t t = 0; t < n_steps && status == ES_STATUS_OK; t++) {
        memcpy(actions + N, env->count, N * sizeof *actions);
        es_proof_env_draw_actions(env, actions);
        status = es_proof_env_step(env, actions);
        if (rows != NULL && status == ES_STATUS_OK) {
            write_row(env, rows, t, actions, actions + N);
        }
    }
    es_release(actions);
    return status;
}

const EsProofResult *es_proof_env_result(const EsProofEnv *env) { return &env->result; }

// --- choices ---

static void show_state(EsProofEnv *env, int32_t index) {
    env->state_span[index] =
        (EsAtomSpan){es_proof_env_goals(env, index), env->episodes[index].n_atoms};
}

// Spans of a block's environments, from row_start.
static void list_block(void *context, int64_t piece, int worker) {
    EsProofEnv *env = context;
    (void)worker;
    int32_t begin = (int32_t)piece * ES_PROOF_BLOCK;
    int32_t end = ES_MIN(begin + ES_PROOF_BLOCK, env->settings.n_envs);
    const EsProofBlock *block = &env->blocks[piece];
    EsAtomSpan *span = env->span + env->row_start[begin];
    for (int32_t k = 0; k < block->n_successors; k++) {
        span[k] =
            (EsAtomSpan){block->atoms + block->start[k], block->start[k + 1] - block->start[k]};
    }
    for (int32_t index = begin; index < end; index++) {
        show_state(env, index);
    }
}

void es_proof_env_show_states(EsProofEnv *env) {
    for (int32_t index = 0; index < env->settings.n_envs; index++) {
        show_state(env, index);
        restore_query(env, index);
    }
}

EsStatus es_proof_env_reserve_spans(EsProofEnv *env, int64_t n_all) {
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

// Number the successors of all environments through.
static EsStatus number_rows(EsProofEnv *env) {
    int64_t n_all = 0;
    for (int32_t index = 0; index < env->settings.n_envs; index++) {
        env->row_start[index] = (int32_t)n_all;
        n_all += env->count[index];
        if (n_all > INT32_MAX / 2) {
            return ES_FAIL(MEMORY, "more than %d successors of %d states", INT32_MAX / 2,
                           env->settings.n_envs);
        }
    }
    env->row_start[env->settings.n_envs] = (int32_t)n_all;
    return es_proof_env_reserve_spans(env, n_all);
}

EsStatus es_proof_env_choices(EsProofEnv *env, EsProofChoices *choices) {
    if (!env->is_listed && env->backend != NULL) {
        ES_TRY(env->backend->list(env));
        env->is_listed = 1;
    }
    if (!env->is_listed) {
        ES_TRY(number_rows(env));
        run_blocks(env, ES_PROOF_LIGHT_BLOCKS, list_block, env);
        env->is_listed = 1;
    }
    *choices = (EsProofChoices){.states = env->state_span,
                                .first = env->row_start,
                                .successors = env->span,
                                .n_states = env->settings.n_envs,
                                .selection = env->settings.selection,
                                .queries = env->state_query,
                                .n_queries = env->settings.n_envs};
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
    int32_t end = ES_MIN(begin + ES_PROOF_BLOCK, env->settings.n_envs);
    for (int32_t index = begin; index < end; index++) {
        const EsProofEpisode *at = &env->episodes[index];
        uint32_t number = (uint32_t)(env->settings.first_env + index);
        job->actions[index] = es_proof_random_action(env->settings.seed, number, at->episode,
                                                     at->depth, env->count[index]);
    }
}

void es_proof_env_draw_actions(EsProofEnv *env, int32_t *actions) {
    DrawJob job = {env, actions};
    run_blocks(env, ES_PROOF_LIGHT_BLOCKS, draw_block, &job);
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
    int32_t end = ES_MIN(begin + ES_PROOF_BLOCK, env->settings.n_envs);
    int32_t max_atoms = env->settings.max_atoms;
    size_t row = 3 * (size_t)max_atoms, S = (size_t)job->max_states;
    for (int32_t index = begin; index < end; index++) {
        size_t n_shown = (size_t)ES_MIN(env->count[index], job->max_states), i = (size_t)index;
        if (job->state != NULL) {
            EsAtomSpan state = {es_proof_env_goals(env, index), env->episodes[index].n_atoms};
            pad_atoms(state, max_atoms, job->state + i * row);
        }
        if (job->successors != NULL) {
            int32_t *rows = job->successors + i * S * row;
            for (size_t k = 0; k < n_shown; k++) {
                pad_atoms(successor_of(env, index, (int32_t)k), max_atoms, rows + k * row);
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
    EsProofChoices choices;
    if (env->backend != NULL && es_proof_env_choices(env, &choices) != ES_STATUS_OK) {
        return 0;
    }
    PadJob job = {env, max_states, sub_index, derived_sub_indices, action_mask};
    run_blocks(env, 1, pad_block, &job);
    int64_t n_left_out = 0;
    for (int32_t index = 0; index < env->settings.n_envs; index++) {
        n_left_out += ES_MAX(env->count[index] - max_states, 0);
    }
    return n_left_out;
}

// --- inspection ---

EsProofEpisode es_proof_env_episode(const EsProofEnv *env, int32_t index) {
    ES_ASSERT(index >= 0 && index < env->settings.n_envs);
    return env->episodes[index];
}

EsProofTrace es_proof_env_proof(const EsProofEnv *env, int32_t index) {
    return index < ES_PROOF_TRACED ? env->traces[index] : (EsProofTrace){NULL, 0};
}

const EsAtom *es_proof_env_query(const EsProofEnv *env, int32_t index) {
    return env->state_query + (size_t)index * (size_t)env->graph->query_cells;
}

void es_proof_env_counters_add(EsProofEnvCounters *sum, const EsProofEnvCounters *part) {
    for (int label = 0; label < 2; label++) {
        sum->n_episodes[label] += part->n_episodes[label];
        sum->n_proved[label] += part->n_proved[label];
        sum->n_truncated[label] += part->n_truncated[label];
        sum->n_by_end[label] += part->n_by_end[label];
        sum->n_actions[label] += part->n_actions[label];
        sum->reward[label] += part->reward[label];
    }
    sum->n_steps += part->n_steps;
    sum->n_not_corrupted += part->n_not_corrupted;
    sum->n_skipped += part->n_skipped;
    sum->n_successors += part->n_successors;
    sum->n_overlong += part->n_overlong;
    sum->n_overflow += part->n_overflow;
}

EsProofEnvCounters es_proof_env_counters(const EsProofEnv *env) {
    EsProofEnvCounters sum = {0};
    if (env->backend != NULL) {
        return env->backend->count(env);
    }
    for (int32_t b = 0; b < env->n_blocks; b++) {
        es_proof_env_counters_add(&sum, &env->counters[b]);
    }
    return sum;
}
