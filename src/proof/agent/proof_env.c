// Settings, queries and memory of the environment; proof_env_step.c moves it.
#include "proof/agent/proof_env.h"

#include <string.h>

#include "base/memory.h"
#include "proof/agent/proof_env_internal.h"
#include "proof/search/prover.h"

EsProofEnvSettings es_proof_env_defaults(void) {
    EsProofEnvSettings settings = {.n_slots = 128,
                                   .seed = 1,
                                   .selection = ES_GOAL_CONSTRAINED,
                                   .max_atoms = 6,
                                   .max_depth = 20,
                                   .has_end = 1,
                                   .has_memory = 1,
                                   .split = ES_KG_SPLIT_TRAIN,
                                   .order = ES_QUERY_UNIFORM,
                                   .n_negatives = 1,
                                   .is_corrupting = {1, 1},
                                   .reward_type = 4};
    return settings;
}

// --- settings ---

static EsStatus check_range(const char *name, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) {
        return ES_FAIL(ARGUMENT, "%s of a proof environment is %lld, not %lld to %lld", name,
                       (long long)value, (long long)least, (long long)most);
    }
    return ES_STATUS_OK;
}

static EsStatus check_settings(const EsProofEnvSettings *settings) {
    ES_TRY(check_range("n_slots", settings->n_slots, 1, ES_PROOF_MAX_SLOTS));
    ES_TRY(check_range("first_slot", settings->first_slot, 0, INT32_MAX - ES_PROOF_MAX_SLOTS));
    ES_TRY(check_range("selection", settings->selection, 0, ES_GOAL_LEFTMOST));
    ES_TRY(check_range("max_atoms", settings->max_atoms, 1, ES_PROOF_MAX_ATOMS));
    if (settings->max_states != 0) {
        ES_TRY(check_range("max_states", settings->max_states, 2, 1 << 24));
    }
    ES_TRY(check_range("max_depth", settings->max_depth, 1, ES_PROOF_MAX_DEPTH));
    ES_TRY(check_range("split", settings->split, 0, ES_KG_N_SPLITS - 1));
    ES_TRY(check_range("order", settings->order, 0, ES_QUERY_ROUND_ROBIN));
    ES_TRY(check_range("n_negatives", settings->n_negatives, 0, 1000));
    ES_TRY(check_range("reward_type", settings->reward_type, 0, ES_N_PROOF_REWARDS - 1));
    if (settings->n_negatives > 0 && !settings->is_corrupting[ES_CORRUPT_HEAD] &&
        !settings->is_corrupting[ES_CORRUPT_TAIL]) {
        return ES_FAIL(ARGUMENT, "a proof environment with negatives that corrupts neither side");
    }
    return ES_STATUS_OK;
}

// --- queries ---

static int is_wanted_query(const EsProofEnv *env, EsAtom atom, int32_t depth) {
    const EsProofEnvSettings *settings = &env->settings;
    int32_t n_rules;
    es_kg_rules_of(env->graph, atom.predicate, &n_rules);
    int is_any_depth = settings->min_query_depth == 0 && settings->max_query_depth == 0;
    return n_rules > 0 && (is_any_depth || (depth >= settings->min_query_depth &&
                                            depth <= settings->max_query_depth));
}

static EsStatus check_query(const EsKnowledgeGraph *graph, EsAtom atom, int32_t i) {
    if (!es_kg_is_ground(graph, atom)) {
        return ES_FAIL(ARGUMENT,
                       "query %d, %d(%d,%d), is not over the graph's %d predicates and %d "
                       "constants",
                       i, atom.predicate, atom.a, atom.b, graph->n_predicates, graph->n_constants);
    }
    return ES_STATUS_OK;
}

static EsStatus collect_queries(EsProofEnv *env, const EsProofEnvSettings *wanted) {
    const EsQuerySplit *split = &env->graph->splits[wanted->split];
    int is_given = wanted->queries != NULL;
    const EsAtom *atoms = is_given ? wanted->queries : split->atoms;
    int32_t count = is_given ? wanted->n_queries : split->count;
    ES_TRY(es_allocate((size_t)ES_MAX(count, 1) * sizeof *env->queries, (void **)&env->queries));
    env->settings.queries = env->queries;
    env->settings.n_queries = 0;
    if (is_given) {
        env->settings.min_query_depth = env->settings.max_query_depth = 0;
    }
    for (int32_t i = 0; i < count; i++) {
        ES_TRY(check_query(env->graph, atoms[i], i));
        if (is_wanted_query(env, atoms[i], is_given ? 0 : split->depths[i])) {
            env->queries[env->settings.n_queries++] = atoms[i];
        }
    }
    if (env->settings.n_queries == 0) {
        return ES_FAIL(INPUT,
                       "none of %d queries is left to prove: its predicate must be the head of a "
                       "rule, and its published depth %d to %d (0 to 0: any)",
                       count, env->settings.min_query_depth, env->settings.max_query_depth);
    }
    return ES_STATUS_OK;
}

// --- memory ---

void es_proof_env_lay_out(EsProofEnv *env, unsigned char *slab) {
    size_t N = (size_t)env->settings.n_slots, A = (size_t)env->settings.max_atoms;
    size_t V = (size_t)env->max_visited, bytes = 0;
    size_t slots = es_slab_add(&bytes, N * sizeof *env->slots);
    size_t states = es_slab_add(&bytes, N * A * sizeof *env->states);
    size_t visited = es_slab_add(&bytes, N * V * A * sizeof *env->visited);
    size_t n_atoms = es_slab_add(&bytes, N * V * sizeof *env->n_visited_atoms);
    size_t hash = es_slab_add(&bytes, N * V * sizeof *env->visited_hash);
    size_t counters = es_slab_add(&bytes, (size_t)env->n_blocks * sizeof *env->counters);
    env->slab_bytes = bytes;
    if (slab == NULL) {
        return;
    }
    env->slab = slab;
    env->slots = (void *)(slab + slots);
    env->states = (void *)(slab + states);
    env->visited = (void *)(slab + visited);
    env->n_visited_atoms = (void *)(slab + n_atoms);
    env->visited_hash = (void *)(slab + hash);
    env->counters = (void *)(slab + counters);
}

static EsStatus create_results(EsProofEnv *env) {
    size_t N = (size_t)env->settings.n_slots, bytes = 0;
    EsProofResult *result = &env->result;
    unsigned char **const flags[] = {&result->is_done, &result->is_success, &result->is_truncated,
                                     &result->is_by_end, &result->label};
    size_t reward = es_slab_add(&bytes, N * sizeof *result->reward);
    size_t depth = es_slab_add(&bytes, N * sizeof *result->depth);
    size_t query = es_slab_add(&bytes, N * sizeof *result->query);
    size_t span = es_slab_add(&bytes, N * sizeof *result->reached);
    size_t atoms = es_slab_add(&bytes, N * (size_t)env->settings.max_atoms * sizeof *env->reached);
    size_t flag = es_slab_add(&bytes, N * ES_COUNT_OF(flags));
    ES_TRY(es_allocate(bytes, &env->result_memory));
    unsigned char *slab = env->result_memory;
    result->reward = (void *)(slab + reward);
    result->depth = (void *)(slab + depth);
    result->query = (void *)(slab + query);
    result->reached = (void *)(slab + span);
    env->reached = (void *)(slab + atoms);
    for (size_t i = 0; i < ES_COUNT_OF(flags); i++) {
        *flags[i] = slab + flag + i * N;
    }
    return ES_STATUS_OK;
}

static EsStatus create_successors(EsProofEnv *env) {
    size_t N = (size_t)env->settings.n_slots;
    ES_TRY(es_allocate((size_t)env->n_blocks * sizeof *env->blocks, (void **)&env->blocks));
    ES_TRY(es_allocate(N * sizeof *env->first, (void **)&env->first));
    ES_TRY(es_allocate(N * sizeof *env->count, (void **)&env->count));
    ES_TRY(es_allocate((N + 1) * sizeof *env->row_start, (void **)&env->row_start));
    ES_TRY(es_allocate(N * sizeof *env->state_span, (void **)&env->state_span));
    env->n_workers = env->pool != NULL ? es_thread_pool_size(env->pool) : 1;
    ES_TRY(es_allocate((size_t)env->n_workers * sizeof *env->scratch, (void **)&env->scratch));
    for (int i = 0; i < env->n_workers; i++) {
        ES_TRY(es_successors_create(env->listing.max_states, env->listing.max_atoms,
                                    &env->scratch[i]));
    }
    return ES_STATUS_OK;
}

static EsStatus build(EsProofEnv *env, const EsProofEnvSettings *wanted) {
    EsProofEnvSettings *settings = &env->settings;
    ES_TRY(collect_queries(env, wanted));
    if (settings->n_negatives > 0) {
        ES_TRY(es_known_atoms_create(env->graph, &env->known));
    }
    if (settings->max_states == 0) {
        settings->max_states = ES_MAX(es_proof_max_candidates(env->graph) + 1, 2);
    }
    env->listing = (EsProofSettings){.selection = settings->selection,
                                     .max_atoms = settings->max_atoms,
                                     .max_states = settings->max_states,
                                     .has_end = settings->has_end};
    int32_t per_action = settings->skips_unary ? 1 + ES_PROOF_MAX_SKIPS : 1;
    env->max_visited = settings->has_memory ? (settings->max_depth + 1) * per_action : 0;
    env->n_blocks = (settings->n_slots + ES_PROOF_BLOCK - 1) / ES_PROOF_BLOCK;
    es_proof_env_lay_out(env, NULL);
    void *slab;
    ES_TRY(es_allocate(env->slab_bytes, &slab));
    es_proof_env_lay_out(env, slab);
    ES_TRY(create_results(env));
    ES_TRY(create_successors(env));
    return es_proof_env_begin(env);
}

EsStatus es_proof_env_create(const EsKnowledgeGraph *graph, const EsProofEnvSettings *settings,
                             EsThreadPool *pool, EsProofEnv **env) {
    *env = NULL;
    ES_TRY(check_settings(settings));
    EsProofEnv *made = NULL;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    made->graph = graph;
    made->pool = pool;
    made->settings = *settings;
    EsStatus status = build(made, settings);
    if (status != ES_STATUS_OK) {
        es_proof_env_destroy(made);
        return status;
    }
    *env = made;
    return ES_STATUS_OK;
}

void es_proof_env_destroy(EsProofEnv *env) {
    if (env == NULL) {
        return;
    }
    for (int i = 0; i < env->n_workers && env->scratch != NULL; i++) {
        es_successors_destroy(&env->scratch[i]);
    }
    for (int32_t b = 0; b < env->n_blocks && env->blocks != NULL; b++) {
        es_release(env->blocks[b].atoms);
        es_release(env->blocks[b].start);
    }
    void *const owned[] = {env->queries, env->scratch,      env->slab,      env->blocks,
                           env->first,   env->count,        env->row_start, env->state_span,
                           env->span,    env->result_memory};
    for (size_t i = 0; i < ES_COUNT_OF(owned); i++) {
        es_release(owned[i]);
    }
    es_known_atoms_destroy(env->known);
    es_release(env);
}

const EsProofEnvSettings *es_proof_env_settings(const EsProofEnv *env) { return &env->settings; }

EsAtomSpan es_proof_env_queries(const EsProofEnv *env) {
    return (EsAtomSpan){env->queries, env->settings.n_queries};
}
