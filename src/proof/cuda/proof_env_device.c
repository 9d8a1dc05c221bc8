// Environments of proofs in device memory: their life, the order of launches, and the copies by
// which the CPU's arrays show what was done. A step is one launch, two copies to the CPU (three
// with predicates of over two arguments) and one wait; a walk of any number of steps costs the
// same.
#include <string.h>

#include "base/memory.h"
#include "proof/agent/proof_env_internal.h"
#include "proof/cuda/proof_env_arrays.h"
#include "proof/graph/knowledge_device.h"

// Scratch of all warps together; with longer lists fewer warps are at work.
#define SCRATCH_BYTES ((size_t)4 << 30)

struct EsProofEnvOnDevice {
    EsDevice *device;         // borrowed, as is the stream
    EsStream *stream;         //
    EsKnowledgeDevice *graph; // owned, as is all below
    EsProofEnvArrays arrays;
    unsigned char *memory; // device: all arrays
    unsigned char *report; // device: what a step shows, and its copy in pinned memory
    unsigned char *shown;
    size_t report_bytes;
    int32_t *sent_actions; // pinned                                                           (N)
    // successors, once somebody asked for them: on the device, and in pinned memory
    EsAtom *atoms, *atoms_here;
    int32_t *start, *start_here;
    int64_t *first_here; // pinned                                                   (2 x (N + 1))
    int64_t atom_capacity, start_capacity;
};

// --- layout ---

// An array in device memory, and where its pointer goes.
static void place(size_t *bytes, unsigned char *memory, void *member, size_t size) {
    void **to = member;
    size_t at = es_slab_add(bytes, size);
    *to = memory != NULL && size > 0 ? memory + at : NULL;
}

// Arrays that stay on the device; the saved part comes first, as the CPU's slab. Returns the bytes;
// without memory it only counts.
static size_t lay_out(const EsProofEnv *env, EsProofEnvArrays *arrays, unsigned char *memory) {
    const EsProofEnvSettings *settings = &env->settings;
    size_t N = (size_t)settings->n_envs, S = (size_t)env->listing.max_states;
    size_t W = (size_t)arrays->n_warps, cells = (size_t)env->graph->query_cells, bytes = 0;
    const EsKnownTable none = {.n_slots = 0};
    const EsKnownTable *known = env->known != NULL ? es_known_atoms_table(env->known) : &none;
    size_t n_domains = (size_t)env->graph->domains.count;
    int has_domains = known->domain_start != NULL;
    size_t n_members = has_domains ? (size_t)known->domain_start[n_domains + 1] : 0;
    unsigned char *slab;
    place(&bytes, memory, &slab, env->slab_bytes);
    place(&bytes, memory, &arrays->counters, N * sizeof *arrays->counters);
    place(&bytes, memory, &arrays->n_atoms, N * sizeof *arrays->n_atoms);
    place(&bytes, memory, &arrays->outcome, N);
    place(&bytes, memory, &arrays->first, 2 * (N + 1) * sizeof *arrays->first);
    place(&bytes, memory, &arrays->actions, N * sizeof *arrays->actions);
    place(&bytes, memory, &arrays->settings.queries,
          (size_t)settings->n_queries * cells * sizeof(EsAtom));
    place(&bytes, memory, &arrays->known.keys, known->n_slots * sizeof *known->keys);
    place(&bytes, memory, &arrays->known.wide, 2 * (size_t)known->n_wide * sizeof *known->wide);
    place(&bytes, memory, &arrays->known.domain_start,
          has_domains ? (n_domains + 2) * sizeof *known->domain_start : 0);
    place(&bytes, memory, &arrays->known.members, n_members * sizeof *known->members);
    place(&bytes, memory, &arrays->candidates, N * S * sizeof *arrays->candidates);
    place(&bytes, memory, &arrays->epoch, W * sizeof *arrays->epoch);
    place(&bytes, memory, &arrays->hash, W * S * sizeof *arrays->hash);
    place(&bytes, memory, &arrays->table, W * (size_t)arrays->table_size * sizeof *arrays->table);
    if (slab != NULL) {
        ptrdiff_t to_slab = slab - env->slab;
#define SAVED(member) arrays->member = (void *)((unsigned char *)env->member + to_slab)
        SAVED(episodes);
        SAVED(states);
        SAVED(visited);
        SAVED(n_visited_atoms);
        SAVED(visited_hash);
        arrays->query_rest = NULL;
        if (env->query_rest != NULL) {
            SAVED(query_rest);
        }
#undef SAVED
    }
    return bytes;
}

// The results of a step, packed; the same at `report` on the device and in pinned memory.
static size_t lay_out_report(const EsProofEnv *env, EsProofEnvArrays *arrays,
                             unsigned char *report) {
    size_t N = (size_t)env->settings.n_envs, A = (size_t)env->settings.max_atoms;
    size_t cells = (size_t)env->graph->query_cells, bytes = 0;
    size_t n_traced = ES_PROOF_TRACED * (size_t)env->max_visited;
    unsigned char **const flags[] = {&arrays->is_done, &arrays->is_success, &arrays->is_truncated,
                                     &arrays->is_by_end, &arrays->label};
    place(&bytes, report, &arrays->count, N * sizeof *arrays->count);
    place(&bytes, report, &arrays->reward, N * sizeof *arrays->reward);
    place(&bytes, report, &arrays->depth, N * sizeof *arrays->depth);
    place(&bytes, report, &arrays->query, N * cells * sizeof *arrays->query);
    place(&bytes, report, &arrays->reached, N * A * sizeof *arrays->reached);
    place(&bytes, report, &arrays->n_reached, N * sizeof *arrays->n_reached);
    for (size_t i = 0; i < ES_COUNT_OF(flags); i++) {
        place(&bytes, report, flags[i], N);
    }
    place(&bytes, report, &arrays->traced, n_traced * A * sizeof *arrays->traced);
    place(&bytes, report, &arrays->n_traced_atoms, n_traced * sizeof *arrays->n_traced_atoms);
    place(&bytes, report, &arrays->n_traced, ES_PROOF_TRACED * sizeof *arrays->n_traced);
    return bytes;
}

// --- life ---

static EsStatus send(const EsProofEnvOnDevice *there, const void *to, const void *from,
                     size_t bytes) {
    return bytes == 0 ? ES_STATUS_OK
                      : es_stream_copy(there->stream, (void *)(uintptr_t)to, from, bytes,
                                       ES_COPY_TO_DEVICE);
}

static EsStatus bring(const EsProofEnvOnDevice *there, void *to, const void *from, size_t bytes) {
    return es_stream_copy(there->stream, to, from, bytes, ES_COPY_TO_HOST);
}

static EsStatus send_tables(const EsProofEnv *env) {
    const EsProofEnvOnDevice *there = env->on_device;
    const EsProofEnvArrays *arrays = &there->arrays;
    size_t cells = (size_t)env->graph->query_cells;
    ES_TRY(send(there, arrays->settings.queries, env->queries,
                (size_t)env->settings.n_queries * cells * sizeof *env->queries));
    if (env->known == NULL) {
        return ES_STATUS_OK;
    }
    const EsKnownTable *known = es_known_atoms_table(env->known);
    ES_TRY(send(there, arrays->known.keys, known->keys, known->n_slots * sizeof *known->keys));
    ES_TRY(send(there, arrays->known.wide, known->wide,
                2 * (size_t)known->n_wide * sizeof *known->wide));
    if (known->domain_start == NULL) {
        return ES_STATUS_OK;
    }
    size_t n_domains = (size_t)env->graph->domains.count;
    ES_TRY(send(there, arrays->known.domain_start, known->domain_start,
                (n_domains + 2) * sizeof *known->domain_start));
    return send(there, arrays->known.members, known->members,
                (size_t)known->domain_start[n_domains + 1] * sizeof *known->members);
}

// Numbers that the layout depends on.
static void plan(const EsProofEnv *env, EsProofEnvArrays *arrays, EsStream *stream) {
    int32_t S = env->listing.max_states, table_size = 64;
    while (table_size < 2 * S) {
        table_size *= 2;
    }
    size_t of_warp = (size_t)S * sizeof *arrays->hash + (size_t)table_size * sizeof *arrays->table;
    int64_t n_warps =
        es_proof_env_cuda_warps(stream, env->graph->has_wide, env->settings.max_atoms);
    n_warps = ES_MIN(n_warps, (int64_t)(SCRATCH_BYTES / of_warp));
    arrays->n_envs = env->settings.n_envs;
    arrays->max_visited = env->max_visited;
    arrays->table_size = table_size;
    arrays->n_warps = (int32_t)ES_MAX(ES_MIN(n_warps, arrays->n_envs), 1);
    arrays->settings = env->settings;
    arrays->listing = env->listing;
    if (env->known != NULL) {
        arrays->known = *es_known_atoms_table(env->known);
    }
}

// The CPU's views of the report: its arrays, and spans into them.
static EsStatus show_report(EsProofEnv *env) {
    EsProofEnvOnDevice *there = env->on_device;
    EsProofEnvArrays shown;
    EsProofResult *result = &env->result;
    lay_out_report(env, &shown, there->shown);
    env->count = shown.count;
    env->reached = shown.reached;
    env->traced = shown.traced;
    size_t N = (size_t)env->settings.n_envs, V = (size_t)env->max_visited, bytes = 0;
    size_t reached = es_slab_add(&bytes, N * sizeof *result->reached);
    size_t traces = es_slab_add(&bytes, ES_PROOF_TRACED * V * sizeof(EsAtomSpan));
    ES_TRY(es_allocate(bytes, &env->result_memory));
    *result = (EsProofResult){.reward = shown.reward,
                              .is_done = shown.is_done,
                              .is_success = shown.is_success,
                              .is_truncated = shown.is_truncated,
                              .is_by_end = shown.is_by_end,
                              .label = shown.label,
                              .depth = shown.depth,
                              .query = shown.query};
    result->reached = (void *)((unsigned char *)env->result_memory + reached);
    for (size_t i = 0; i < ES_PROOF_TRACED; i++) {
        env->traces[i].states =
            (EsAtomSpan *)(void *)((unsigned char *)env->result_memory + traces) + i * V;
    }
    return ES_STATUS_OK;
}

static EsStatus create(EsProofEnv *env, EsStream *stream) {
    EsProofEnvOnDevice *there = NULL;
    ES_TRY(es_allocate(sizeof *there, (void **)&there));
    env->on_device = there;
    there->stream = stream;
    there->device = es_stream_device(stream);
    ES_TRY(es_kg_device_create(env->graph, stream, &there->graph));
    plan(env, &there->arrays, stream);
    there->arrays.graph = es_kg_device_view(there->graph);
    size_t bytes = lay_out(env, &there->arrays, NULL), N = (size_t)env->settings.n_envs;
    there->report_bytes = lay_out_report(env, &there->arrays, NULL);
    ES_TRY(es_device_allocate(there->device, bytes, (void **)&there->memory));
    ES_TRY(es_device_allocate(there->device, there->report_bytes, (void **)&there->report));
    ES_TRY(es_device_allocate_host(there->device, there->report_bytes, (void **)&there->shown));
    ES_TRY(
        es_device_allocate_host(there->device, N * sizeof(int32_t), (void **)&there->sent_actions));
    ES_TRY(es_device_allocate_host(there->device, 2 * (N + 1) * sizeof(int64_t),
                                   (void **)&there->first_here));
    lay_out(env, &there->arrays, there->memory);
    lay_out_report(env, &there->arrays, there->report);
    ES_TRY(send_tables(env));
    return show_report(env);
}

static void destroy(EsProofEnv *env) {
    EsProofEnvOnDevice *there = env->on_device;
    env->count = NULL; // in the report
    if (there == NULL) {
        return;
    }
    es_device_release(there->device, there->memory);
    es_device_release(there->device, there->report);
    es_device_release(there->device, there->atoms);
    es_device_release(there->device, there->start);
    es_device_release_host(there->device, there->shown);
    es_device_release_host(there->device, there->sent_actions);
    es_device_release_host(there->device, there->first_here);
    es_device_release_host(there->device, there->atoms_here);
    es_device_release_host(there->device, there->start_here);
    es_kg_device_destroy(there->graph);
    es_release(there);
    env->on_device = NULL;
}

// --- steps ---

// Spans over what the report brought.
static void point_to_report(EsProofEnv *env) {
    EsProofEnvArrays shown;
    size_t A = (size_t)env->settings.max_atoms, V = (size_t)env->max_visited;
    lay_out_report(env, &shown, env->on_device->shown);
    for (size_t e = 0; e < (size_t)env->settings.n_envs; e++) {
        env->result.reached[e] = (EsAtomSpan){shown.reached + e * A, shown.n_reached[e]};
    }
    for (size_t i = 0; i < ES_PROOF_TRACED && i < (size_t)env->settings.n_envs; i++) {
        env->traces[i].count = shown.n_traced[i];
        for (size_t v = i * V; v < i * V + (size_t)shown.n_traced[i]; v++) {
            env->traces[i].states[v - i * V] =
                (EsAtomSpan){shown.traced + v * A, shown.n_traced_atoms[v]};
        }
    }
}

// Waits for the queued work, and shows it on the CPU: the report, episodes and states.
static EsStatus show(EsProofEnv *env) {
    EsProofEnvOnDevice *there = env->on_device;
    size_t shown_bytes = (size_t)((unsigned char *)env->visited - env->slab);
    ES_TRY(bring(there, there->shown, there->report, there->report_bytes));
    ES_TRY(bring(there, env->slab, there->arrays.episodes, shown_bytes));
    if (env->query_rest != NULL) {
        ES_TRY(bring(there, env->query_rest, there->arrays.query_rest,
                     (size_t)env->settings.n_envs * sizeof *env->query_rest));
    }
    ES_TRY(es_stream_synchronize(there->stream));
    ES_TRY(es_device_status(there->device));
    env->is_listed = 0;
    point_to_report(env);
    es_proof_env_show_states(env);
    return ES_STATUS_OK;
}

static EsStatus begin(EsProofEnv *env) {
    EsProofEnvOnDevice *there = env->on_device;
    es_proof_env_cuda_run(&there->arrays, there->stream, ES_PROOF_ENV_BEGIN, 1, NULL);
    return show(env);
}

static EsStatus step(EsProofEnv *env, const int32_t *actions) {
    EsProofEnvOnDevice *there = env->on_device;
    size_t bytes = (size_t)env->settings.n_envs * sizeof *actions;
    memcpy(there->sent_actions, actions, bytes);
    ES_TRY(send(there, there->arrays.actions, there->sent_actions, bytes));
    es_proof_env_cuda_run(&there->arrays, there->stream, ES_PROOF_ENV_TAKE, 1, NULL);
    return show(env);
}

static EsStatus walk(EsProofEnv *env, int32_t n_steps, const EsProofRows *rows) {
    EsProofEnvOnDevice *there = env->on_device;
    if (n_steps == 0) {
        return ES_STATUS_OK;
    }
    es_proof_env_cuda_run(&there->arrays, there->stream, ES_PROOF_ENV_UNIFORM, n_steps, rows);
    return show(env);
}

// --- successors ---

// Makes room for so many elements, on the device and in pinned memory; old contents go.
static EsStatus reserve(EsProofEnvOnDevice *there, size_t element_bytes, int64_t wanted,
                        int64_t *capacity, void **on_device, void **here) {
    if (wanted <= *capacity) {
        return ES_STATUS_OK;
    }
    int64_t more = wanted + wanted / 2;
    es_device_release(there->device, *on_device);
    es_device_release_host(there->device, *here);
    *on_device = *here = NULL;
    *capacity = 0;
    ES_TRY(es_device_allocate(there->device, (size_t)more * element_bytes, on_device));
    ES_TRY(es_device_allocate_host(there->device, (size_t)more * element_bytes, here));
    *capacity = more;
    return ES_STATUS_OK;
}

static EsStatus list(EsProofEnv *env) {
    EsProofEnvOnDevice *there = env->on_device;
    size_t N = (size_t)env->settings.n_envs;
    es_proof_env_cuda_number(&there->arrays, there->stream);
    ES_TRY(bring(there, there->first_here, there->arrays.first,
                 2 * (N + 1) * sizeof *there->first_here));
    ES_TRY(es_stream_synchronize(there->stream));
    ES_TRY(es_device_status(there->device));
    int64_t n_all = there->first_here[N], n_atoms = there->first_here[2 * N + 1];
    if (n_all > INT32_MAX / 2 || n_atoms > INT32_MAX) {
        return ES_FAIL(MEMORY, "more than %d successors, or %d atoms, of %d states", INT32_MAX / 2,
                       INT32_MAX, env->settings.n_envs);
    }
    ES_TRY(reserve(there, sizeof *there->atoms, n_atoms, &there->atom_capacity,
                   (void **)&there->atoms, (void **)&there->atoms_here));
    ES_TRY(reserve(there, sizeof *there->start, n_all + 1, &there->start_capacity,
                   (void **)&there->start, (void **)&there->start_here));
    ES_TRY(es_proof_env_reserve_spans(env, n_all));
    es_proof_env_cuda_fill(&there->arrays, there->stream, there->atoms, there->start);
    ES_TRY(bring(there, there->atoms_here, there->atoms, (size_t)n_atoms * sizeof *there->atoms));
    ES_TRY(
        bring(there, there->start_here, there->start, ((size_t)n_all + 1) * sizeof *there->start));
    ES_TRY(es_stream_synchronize(there->stream));
    ES_TRY(es_device_status(there->device));
    for (size_t e = 0; e <= N; e++) {
        env->row_start[e] = (int32_t)there->first_here[e];
    }
    const int32_t *start = there->start_here;
    for (int64_t k = 0; k < n_all; k++) {
        env->span[k] = (EsAtomSpan){there->atoms_here + start[k], start[k + 1] - start[k]};
    }
    return ES_STATUS_OK;
}

// --- the saved part ---

// Counters are per environment on the device. Adds those of environment e to sums[e / n_each].
static EsStatus sum_counters(const EsProofEnv *env, int32_t n_each, EsProofEnvCounters *sums) {
    const EsProofEnvOnDevice *there = env->on_device;
    int32_t N = env->settings.n_envs;
    EsProofEnvCounters *all = NULL;
    ES_TRY(es_allocate((size_t)N * sizeof *all, (void **)&all));
    EsStatus status = bring(there, all, there->arrays.counters, (size_t)N * sizeof *all);
    if (status == ES_STATUS_OK) {
        status = es_stream_synchronize(there->stream);
    }
    for (int32_t e = 0; e < N && status == ES_STATUS_OK; e++) {
        es_proof_env_counters_add(&sums[e / n_each], &all[e]);
    }
    es_release(all);
    return status;
}

static EsProofEnvCounters count(const EsProofEnv *env) {
    EsProofEnvCounters sum = {0};
    const EsProofEnvCounters none = {0};
    return sum_counters(env, INT32_MAX, &sum) == ES_STATUS_OK ? sum : none;
}

static EsStatus fetch(EsProofEnv *env) {
    EsProofEnvOnDevice *there = env->on_device;
    ES_TRY(bring(there, env->slab, there->arrays.episodes, env->slab_bytes));
    ES_TRY(es_stream_synchronize(there->stream));
    memset(env->counters, 0, (size_t)env->n_blocks * sizeof *env->counters);
    ES_TRY(sum_counters(env, ES_PROOF_BLOCK, env->counters));
    return es_device_status(there->device);
}

// The counters of a block go to its first environment.
static EsStatus send_counters(EsProofEnv *env) {
    const EsProofEnvOnDevice *there = env->on_device;
    size_t N = (size_t)env->settings.n_envs;
    EsProofEnvCounters *all = NULL;
    ES_TRY(es_allocate(N * sizeof *all, (void **)&all));
    for (size_t b = 0; b < (size_t)env->n_blocks; b++) {
        all[b * ES_PROOF_BLOCK] = env->counters[b];
    }
    EsStatus status = send(there, there->arrays.counters, all, N * sizeof *all);
    if (status == ES_STATUS_OK) {
        status = es_stream_synchronize(there->stream);
    }
    es_release(all);
    return status;
}

static EsStatus restore(EsProofEnv *env) {
    EsProofEnvOnDevice *there = env->on_device;
    ES_TRY(send(there, there->arrays.episodes, env->slab, env->slab_bytes));
    es_proof_env_cuda_run(&there->arrays, there->stream, ES_PROOF_ENV_LIST, 1, NULL);
    ES_TRY(show(env));
    // finding the successors again has counted them a second time
    return send_counters(env);
}

const EsProofEnvBackend *es_proof_env_backend_cuda(void) {
    static const EsProofEnvBackend backend = {.create = create,
                                              .destroy = destroy,
                                              .begin = begin,
                                              .restore = restore,
                                              .step = step,
                                              .walk = walk,
                                              .list = list,
                                              .fetch = fetch,
                                              .count = count};
    return &backend;
}
