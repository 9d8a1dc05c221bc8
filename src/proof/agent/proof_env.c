// Settings, queries and memory of the environments, and their saved form: a header with the hash of
// graph and settings, then the slab; successors are found again. The slab steers loops and indexes
// arrays of fixed size, so loading checks every number, even under a valid checksum.
// proof_env_step.c moves the environments.
#include "proof/agent/proof_env.h"

#include <stddef.h>
#include <string.h>

#include "base/checksum.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "proof/agent/proof_env_internal.h"
#include "proof/search/prover.h"

EsProofEnvSettings es_proof_env_defaults(void) {
    EsProofEnvSettings settings = {.n_envs = 128,
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
        return ES_FAIL(ARGUMENT, "proof environment: %s is %lld, expected %lld to %lld", name,
                       (long long)value, (long long)least, (long long)most);
    }
    return ES_STATUS_OK;
}

static EsStatus check_settings(const EsKnowledgeGraph *graph, const EsProofEnvSettings *settings) {
    ES_TRY(check_range("n_envs", settings->n_envs, 1, ES_PROOF_MAX_ENVS));
    ES_TRY(check_range("first_env", settings->first_env, 0, INT32_MAX - ES_PROOF_MAX_ENVS));
    ES_TRY(check_range("selection", settings->selection, 0, ES_GOAL_LEFTMOST));
    // a query must fit
    ES_TRY(check_range("max_atoms", settings->max_atoms, graph->query_cells, ES_PROOF_MAX_ATOMS));
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
        return ES_FAIL(ARGUMENT,
                       "proof environment: negatives need a side to corrupt, head or tail");
    }
    return ES_STATUS_OK;
}

// --- queries ---

static int is_wanted_query(const EsProofEnv *env, const EsAtom *atom, int32_t depth) {
    const EsProofEnvSettings *settings = &env->settings;
    int32_t n_rules;
    es_kg_rules_of(env->graph, atom->predicate, &n_rules);
    int is_any_depth = settings->min_query_depth == 0 && settings->max_query_depth == 0;
    return n_rules > 0 && (is_any_depth || (depth >= settings->min_query_depth &&
                                            depth <= settings->max_query_depth));
}

static EsStatus check_query(const EsKnowledgeGraph *graph, const EsAtom *atom, int32_t i) {
    if (!es_kg_is_ground(graph, atom)) {
        return ES_FAIL(ARGUMENT,
                       "query %d, %d(%d,%d), is not over the graph's %d predicates and %d "
                       "constants",
                       i, atom->predicate, atom->a, atom->b, graph->n_predicates,
                       graph->n_constants);
    }
    return ES_STATUS_OK;
}

static EsStatus collect_queries(EsProofEnv *env, const EsProofEnvSettings *wanted) {
    const EsQuerySplit *split = &env->graph->splits[wanted->split];
    int is_given = wanted->queries != NULL;
    const EsAtom *atoms = is_given ? wanted->queries : split->atoms;
    int32_t count = is_given ? wanted->n_queries : split->count;
    size_t cells = (size_t)env->graph->query_cells;
    ES_TRY(es_allocate((size_t)ES_MAX(count, 1) * cells * sizeof *env->queries,
                       (void **)&env->queries));
    env->settings.queries = env->queries;
    env->settings.n_queries = 0;
    if (is_given) {
        env->settings.min_query_depth = env->settings.max_query_depth = 0;
    }
    for (int32_t i = 0; i < count; i++) {
        const EsAtom *atom = atoms + (size_t)i * cells;
        ES_TRY(check_query(env->graph, atom, i));
        if (is_wanted_query(env, atom, is_given ? 0 : split->depths[i])) {
            memcpy(env->queries + (size_t)env->settings.n_queries++ * cells, atom,
                   cells * sizeof *atom);
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

// Lay out the slab of an environment whose settings are known, at `slab`; NULL only counts.
static void lay_out(EsProofEnv *env, unsigned char *slab) {
    size_t N = (size_t)env->settings.n_envs, A = (size_t)env->settings.max_atoms;
    size_t V = (size_t)env->max_visited, bytes = 0;
    size_t episodes = es_slab_add(&bytes, N * sizeof *env->episodes);
    size_t states = es_slab_add(&bytes, N * A * sizeof *env->states);
    size_t visited = es_slab_add(&bytes, N * V * A * sizeof *env->visited);
    size_t n_atoms = es_slab_add(&bytes, N * V * sizeof *env->n_visited_atoms);
    size_t hash = es_slab_add(&bytes, N * V * sizeof *env->visited_hash);
    size_t counters = es_slab_add(&bytes, (size_t)env->n_blocks * sizeof *env->counters);
    size_t rest = bytes;
    if (env->graph->has_wide) {
        rest = es_slab_add(&bytes, N * sizeof *env->query_rest);
    }
    env->slab_bytes = bytes;
    if (slab == NULL) {
        return;
    }
    env->slab = slab;
    env->episodes = (void *)(slab + episodes);
    env->states = (void *)(slab + states);
    env->visited = (void *)(slab + visited);
    env->n_visited_atoms = (void *)(slab + n_atoms);
    env->visited_hash = (void *)(slab + hash);
    env->counters = (void *)(slab + counters);
    env->query_rest = env->graph->has_wide ? (void *)(slab + rest) : NULL;
}

static EsStatus create_results(EsProofEnv *env) {
    size_t N = (size_t)env->settings.n_envs, bytes = 0;
    EsProofResult *result = &env->result;
    unsigned char **const flags[] = {&result->is_done, &result->is_success, &result->is_truncated,
                                     &result->is_by_end, &result->label};
    size_t reward = es_slab_add(&bytes, N * sizeof *result->reward);
    size_t depth = es_slab_add(&bytes, N * sizeof *result->depth);
    size_t cells = (size_t)env->graph->query_cells;
    size_t query = es_slab_add(&bytes, N * cells * sizeof *result->query);
    size_t span = es_slab_add(&bytes, N * sizeof *result->reached);
    size_t atoms = es_slab_add(&bytes, N * (size_t)env->settings.max_atoms * sizeof *env->reached);
    size_t flag = es_slab_add(&bytes, N * ES_COUNT_OF(flags));
    size_t n_traced = ES_PROOF_TRACED * (size_t)env->max_visited;
    size_t traces = es_slab_add(&bytes, n_traced * sizeof *env->traces->states);
    size_t traced =
        es_slab_add(&bytes, n_traced * (size_t)env->settings.max_atoms * sizeof *env->traced);
    ES_TRY(es_allocate(bytes, &env->result_memory));
    unsigned char *slab = env->result_memory;
    env->traced = (void *)(slab + traced);
    for (int i = 0; i < ES_PROOF_TRACED; i++) {
        env->traces[i].states = (EsAtomSpan *)(void *)(slab + traces) + i * env->max_visited;
    }
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
    size_t N = (size_t)env->settings.n_envs;
    ES_TRY(es_allocate((N + 1) * sizeof *env->row_start, (void **)&env->row_start));
    ES_TRY(es_allocate(N * sizeof *env->state_span, (void **)&env->state_span));
    ES_TRY(es_allocate(N * (size_t)env->graph->query_cells * sizeof *env->state_query,
                       (void **)&env->state_query));
    if (env->backend != NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate((size_t)env->n_blocks * sizeof *env->blocks, (void **)&env->blocks));
    ES_TRY(es_allocate(N * sizeof *env->first, (void **)&env->first));
    ES_TRY(es_allocate(N * sizeof *env->count, (void **)&env->count));
    env->n_workers = env->pool != NULL ? es_thread_pool_size(env->pool) : 1;
    ES_TRY(es_allocate((size_t)env->n_workers * sizeof *env->scratch, (void **)&env->scratch));
    for (int i = 0; i < env->n_workers; i++) {
        ES_TRY(es_successors_create(env->listing.max_states, env->listing.max_atoms,
                                    &env->scratch[i]));
    }
    return ES_STATUS_OK;
}

static EsStatus build(EsProofEnv *env, const EsProofEnvSettings *wanted, EsStream *stream) {
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
    env->n_blocks = (settings->n_envs + ES_PROOF_BLOCK - 1) / ES_PROOF_BLOCK;
    lay_out(env, NULL);
    void *slab;
    ES_TRY(es_allocate(env->slab_bytes, &slab));
    lay_out(env, slab);
    ES_TRY(create_successors(env));
    ES_TRY(env->backend != NULL ? env->backend->create(env, stream) : create_results(env));
    return es_proof_env_begin(env);
}

static EsStatus create(const EsKnowledgeGraph *graph, const EsProofEnvSettings *settings,
                       EsThreadPool *pool, EsStream *stream, const EsProofEnvBackend *backend,
                       EsProofEnv **env) {
    *env = NULL;
    ES_TRY(check_settings(graph, settings));
    if (graph->has_negation) {
        return ES_FAIL(INPUT, "rules with negation are for the closure and for questions; training "
                              "sees atoms and comparisons alone");
    }
    EsProofEnv *made = NULL;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    made->graph = graph;
    made->pool = pool;
    made->settings = *settings;
    made->backend = backend;
    EsStatus status = build(made, settings, stream);
    if (status != ES_STATUS_OK) {
        es_proof_env_destroy(made);
        return status;
    }
    *env = made;
    return ES_STATUS_OK;
}

EsStatus es_proof_env_create(const EsKnowledgeGraph *graph, const EsProofEnvSettings *settings,
                             EsThreadPool *pool, EsProofEnv **env) {
    return create(graph, settings, pool, NULL, NULL, env);
}

EsStatus es_proof_env_create_on(const EsKnowledgeGraph *graph, const EsProofEnvSettings *settings,
                                EsStream *stream, EsProofEnv **env) {
    if (es_device_info(es_stream_device(stream))->kind == ES_DEVICE_CPU) {
        return create(graph, settings, es_stream_pool(stream), stream, NULL, env);
    }
    const EsProofEnvBackend *backend = es_proof_env_backend_cuda();
    *env = NULL;
    if (backend == NULL) {
        return ES_FAIL(UNSUPPORTED, "this build has no CUDA");
    }
    return create(graph, settings, NULL, stream, backend, env);
}

void es_proof_env_destroy(EsProofEnv *env) {
    if (env == NULL) {
        return;
    }
    if (env->backend != NULL) {
        env->backend->destroy(env);
    }
    for (int i = 0; i < env->n_workers && env->scratch != NULL; i++) {
        es_successors_destroy(&env->scratch[i]);
    }
    for (int32_t b = 0; env->blocks != NULL && b < env->n_blocks; b++) {
        es_release(env->blocks[b].atoms);
        es_release(env->blocks[b].start);
    }
    void *const owned[] = {env->queries,     env->scratch, env->slab,         env->blocks,
                           env->first,       env->count,   env->row_start,    env->state_span,
                           env->state_query, env->span,    env->result_memory};
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

// --- saving ---

// "esproof1" in the order of bytes of this machine, which a file of another order lacks
#define SAVED_MAGIC UINT64_C(0x31666f6f72707365)

// Settings and checksums that must agree; no padding, so that bytes can be compared.
typedef struct SavedHead {
    uint64_t magic, seed, slab_bytes;
    int32_t n_envs, first_env, selection, max_atoms, max_states, max_depth;
    int32_t has_end, has_memory, skips_unary, order, n_negatives, corrupts_head, corrupts_tail;
    int32_t uses_domains, reward_type, n_constants, n_predicates, n_facts, n_rules, n_queries;
    uint32_t facts_crc, rules_crc, queries_crc, slab_crc;
} SavedHead;

_Static_assert(sizeof(SavedHead) == 3 * sizeof(uint64_t) + 24 * sizeof(int32_t), "no padding");

static SavedHead describe(const EsProofEnv *env) {
    const EsProofEnvSettings *settings = &env->settings;
    const EsKnowledgeGraph *graph = env->graph;
    SavedHead head = {.magic = SAVED_MAGIC,
                      .seed = settings->seed,
                      .slab_bytes = env->slab_bytes,
                      .n_envs = settings->n_envs,
                      .first_env = settings->first_env,
                      .selection = (int32_t)settings->selection,
                      .max_atoms = settings->max_atoms,
                      .max_states = settings->max_states,
                      .max_depth = settings->max_depth,
                      .has_end = settings->has_end != 0,
                      .has_memory = settings->has_memory != 0,
                      .skips_unary = settings->skips_unary != 0,
                      .order = (int32_t)settings->order,
                      .n_negatives = settings->n_negatives,
                      .corrupts_head = settings->is_corrupting[ES_CORRUPT_HEAD] != 0,
                      .corrupts_tail = settings->is_corrupting[ES_CORRUPT_TAIL] != 0,
                      .uses_domains = settings->uses_domains != 0,
                      .reward_type = settings->reward_type,
                      .n_constants = graph->n_constants,
                      .n_predicates = graph->n_predicates,
                      .n_facts = es_kg_count_facts(graph),
                      .n_rules = graph->n_rules,
                      .n_queries = settings->n_queries};
    head.facts_crc = es_crc32c(graph->facts, (size_t)graph->n_facts * sizeof *graph->facts);
    for (int32_t r = 0; r < graph->n_rules; r++) {
        const EsHornRule *rule = &graph->rules[r];
        head.rules_crc =
            31 * head.rules_crc + es_crc32c(&rule->head, sizeof rule->head) +
            es_crc32c(rule->body, (size_t)ES_MAX(rule->n_body, 3) * sizeof *rule->body);
        if (graph->has_wide) {
            head.rules_crc =
                31 * head.rules_crc + es_crc32c(&rule->head_cells[1], sizeof rule->head);
        }
    }
    if (graph->has_wide) {
        head.facts_crc =
            31 * head.facts_crc +
            es_crc32c(graph->wide.atoms, 2 * (size_t)graph->wide.count * sizeof(EsAtom));
    }
    head.queries_crc =
        es_crc32c(env->queries,
                  (size_t)settings->n_queries * (size_t)graph->query_cells * sizeof *env->queries);
    return head;
}

size_t es_proof_env_saved_bytes(const EsProofEnv *env) {
    return sizeof(SavedHead) + env->slab_bytes;
}

EsStatus es_proof_env_save(EsProofEnv *env, void *saved) {
    if (env->backend != NULL) {
        ES_TRY(env->backend->fetch(env));
    }
    SavedHead head = describe(env);
    head.slab_crc = es_crc32c(env->slab, env->slab_bytes);
    memcpy(saved, &head, sizeof head);
    memcpy((unsigned char *)saved + sizeof head, env->slab, env->slab_bytes);
    return ES_STATUS_OK;
}

// --- loading ---

// One atom of a state from cell i on; *highest is the first variable that has not occurred.
static EsStatus check_atom(const char *path, const EsProofEnv *env, int32_t index,
                           const EsAtom *atom, int32_t *highest) {
    const EsFileField term = {path, "term in a state of environment", index};
    int arity = env->graph->arities[atom->predicate];
    int n_places = 2 * es_kg_cells(env->graph, atom->predicate);
    for (int place = 0; place < n_places; place++) {
        int32_t value = es_atom_term(atom, place);
        ES_TRY(es_check_integer(term, value, place < arity, place < arity ? *highest : 0));
        *highest += value == *highest;
    }
    return ES_STATUS_OK;
}

// A state: predicates of the graph; constants, and variables numbered by first occurrence.
static EsStatus check_atoms(const char *path, const EsProofEnv *env, int32_t index,
                            const EsAtom *atoms, int32_t n_atoms) {
    const EsFileField predicate = {path, "predicate in a state of environment", index};
    int32_t highest = env->graph->n_constants + 1;
    for (int32_t i = 0, n_cells; i < n_atoms; i += n_cells) {
        ES_TRY(es_check_integer(predicate, atoms[i].predicate, 1, env->graph->n_predicates));
        n_cells = es_kg_cells(env->graph, atoms[i].predicate);
        if (n_cells == 2) {
            // the second cell of the last atom is there, too
            ES_TRY(es_check_integer((EsFileField){path, "n_atoms", index}, n_atoms, i + 2,
                                    env->settings.max_atoms));
            ES_TRY(es_check_integer(predicate, atoms[i + 1].predicate, ES_ATOM_MORE, ES_ATOM_MORE));
        }
        ES_TRY(check_atom(path, env, index, &atoms[i], &highest));
    }
    return ES_STATUS_OK;
}

static EsStatus check_visited(const char *path, const EsProofEnv *env, int32_t index) {
    int32_t max_atoms = env->settings.max_atoms;
    for (int32_t i = 0; i < env->episodes[index].n_visited; i++) {
        size_t at = (size_t)index * (size_t)env->max_visited + (size_t)i;
        const EsAtom *atoms = env->visited + at * (size_t)max_atoms;
        int32_t n_atoms = env->n_visited_atoms[at];
        ES_TRY(es_check_integer((EsFileField){path, "n_visited_atoms", (int64_t)at}, n_atoms, 1,
                                max_atoms));
        ES_TRY(check_atoms(path, env, index, atoms, n_atoms));
        if (env->visited_hash[at] != es_proof_hash(atoms, n_atoms)) {
            return ES_FAIL(INPUT, "%s: visited_hash[%zu] is not the hash of its state", path, at);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_episode(const char *path, const EsProofEnv *env, int32_t index) {
    const EsProofEpisode *at = &env->episodes[index];
    const EsProofEnvSettings *settings = &env->settings;
    // an action remembers the state it leads to and those passed over
    int32_t per_action = env->max_visited / (settings->max_depth + 1);
    EsWideAtom query = {{at->query}};
    if (env->query_rest != NULL) {
        query.cells[1] = env->query_rest[index];
    }
    // the cell that a narrow query has not is zero
    const EsAtom none = {0, 0, 0};
    int has_rest = at->query.predicate > 0 && at->query.predicate <= env->graph->n_predicates &&
                   es_kg_cells(env->graph, at->query.predicate) == 2;
    if (!es_kg_is_ground(env->graph, query.cells) ||
        (!has_rest && !es_atom_equals(query.cells[1], none))) {
        return ES_FAIL(INPUT, "%s: query[%d] is %d(%d,%d), not over %d predicates and %d constants",
                       path, index, at->query.predicate, at->query.a, at->query.b,
                       env->graph->n_predicates, env->graph->n_constants);
    }
    ES_TRY(es_check_integer((EsFileField){path, "label", index}, at->label, 0, 1));
    ES_TRY(es_check_integer((EsFileField){path, "depth", index}, at->depth, 0,
                            settings->max_depth - 1));
    ES_TRY(es_check_integer((EsFileField){path, "n_atoms", index}, at->n_atoms, 1,
                            settings->max_atoms));
    ES_TRY(es_check_integer((EsFileField){path, "n_visited", index}, at->n_visited,
                            env->max_visited > 0, (at->depth + 1) * per_action));
    ES_TRY(check_atoms(path, env, index, es_proof_env_goals(env, index), at->n_atoms));
    return check_visited(path, env, index);
}

static EsStatus check_counters(const char *path, const EsProofEnvCounters *counters,
                               int64_t block) {
#define FIELD(member)                                                                              \
    { #member, offsetof(EsProofEnvCounters, member) }
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
        FIELD(n_steps),     FIELD(n_episodes[0]),  FIELD(n_episodes[1]),  FIELD(n_proved[0]),
        FIELD(n_proved[1]), FIELD(n_truncated[0]), FIELD(n_truncated[1]), FIELD(n_by_end[0]),
        FIELD(n_by_end[1]), FIELD(n_actions[0]),   FIELD(n_actions[1]),   FIELD(n_not_corrupted),
        FIELD(n_skipped),   FIELD(n_successors),   FIELD(n_overlong),     FIELD(n_overflow)};
#undef FIELD
    const double most = 2 * (double)ES_COUNTER_MAX; // a reward is at most 1.5
    _Static_assert(sizeof *counters == (ES_COUNT_OF(fields) + 2) * sizeof(int64_t), "all of them");
    for (size_t i = 0; i < ES_COUNT_OF(fields); i++) {
        int64_t value;
        memcpy(&value, (const unsigned char *)counters + fields[i].offset, sizeof value);
        ES_TRY(es_check_counter((EsFileField){path, fields[i].name, block}, value));
    }
    for (int label = 0; label < 2; label++) {
        ES_TRY(es_check_real((EsFileField){path, "reward", block}, counters->reward[label], -most,
                             most));
    }
    return ES_STATUS_OK;
}

// An environment that differs in its slab alone.
static EsStatus check_slab(const char *path, const EsProofEnv *env) {
    for (int32_t index = 0; index < env->settings.n_envs; index++) {
        ES_TRY(check_episode(path, env, index));
    }
    for (int32_t b = 0; b < env->n_blocks; b++) {
        ES_TRY(check_counters(path, &env->counters[b], b));
    }
    return ES_STATUS_OK;
}

static EsStatus check_head(const EsProofEnv *env, const char *path, const unsigned char *saved,
                           size_t saved_bytes) {
    SavedHead expected = describe(env), head;
    if (saved_bytes != es_proof_env_saved_bytes(env)) {
        return ES_FAIL(INPUT, "%s: the saved proof environment has %zu bytes, expected %zu", path,
                       saved_bytes, es_proof_env_saved_bytes(env));
    }
    memcpy(&head, saved, sizeof head);
    expected.slab_crc = head.slab_crc;
    if (memcmp(&head, &expected, sizeof head) != 0) {
        return ES_FAIL(
            INPUT, "%s: the saved proof environment is of another graph or other settings", path);
    }
    if (es_crc32c(saved + sizeof head, env->slab_bytes) != head.slab_crc) {
        return ES_FAIL(
            INPUT, "%s: the saved proof environment is damaged (its checksum does not fit)", path);
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_env_load(EsProofEnv *env, const char *path, const void *saved,
                           size_t saved_bytes) {
    ES_TRY(check_head(env, path, saved, saved_bytes));
    EsProofEnv loaded = *env;
    unsigned char *slab = NULL;
    ES_TRY(es_allocate(env->slab_bytes, (void **)&slab)); // aligned, unlike `saved`
    memcpy(slab, (const unsigned char *)saved + sizeof(SavedHead), env->slab_bytes);
    lay_out(&loaded, slab);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(check_slab(path, &loaded));
    memcpy(env->slab, slab, env->slab_bytes);
    status = es_proof_env_restore(env);
    // finding the successors again has counted them a second time
    memcpy(env->counters, loaded.counters, (size_t)env->n_blocks * sizeof *env->counters);
done:
    es_release(slab);
    return status;
}
