// Slabs of parameters, gradients and states, and their initial values.
#include "network/store.h"

#include <string.h>

#include "base/memory.h"
#include "network/graph/initial_rules.h"

// --- initial values ---

// The kinds that are computed element by element are in initial_rules.h; here are orthogonal
// matrices, which need a whole tensor at once.

// columns made orthogonal together: while they are, each earlier one is read once for all of them
#define BLOCK 8
// a vector that shrinks below this share of its length has lost digits and is projected again
#define SHRUNK 1e-3

// --- orthogonal matrices ---

static int64_t rows_of(const EsValue *value) { return value->dim[1]; }

static int64_t columns_of(const EsValue *value) { return es_value_count(value) / value->dim[1]; }

// Eight running sums in a fixed order, which the compiler can turn into vectors.
static double dot(const double *a, const double *b, int64_t n) {
    double part[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int j = 0; j < 8; j++) {
            part[j] += a[i + j] * b[i + j];
        }
    }
    for (int j = 0; i + j < n; j++) {
        part[j] += a[i + j] * b[i + j];
    }
    return ((part[0] + part[1]) + (part[2] + part[3])) +
           ((part[4] + part[5]) + (part[6] + part[7]));
}

// v -= (unit . v) unit
static void remove_projection(const double *ES_RESTRICT unit, double *ES_RESTRICT v, int64_t n) {
    double share = dot(unit, v, n);
    for (int64_t i = 0; i < n; i++) {
        v[i] -= share * unit[i];
    }
}

// The last of the earlier vectors, then length 1.
static void finish_vector(double *vectors, int64_t block, int64_t j, int64_t n, double before) {
    double *v = vectors + j * n;
    for (int64_t i = block; i < j; i++) {
        remove_projection(vectors + i * n, v, n);
    }
    double length = es_math_sqrt(dot(v, v, n));
    if (length < SHRUNK * before) {
        for (int64_t i = 0; i < j; i++) {
            remove_projection(vectors + i * n, v, n);
        }
        length = es_math_sqrt(dot(v, v, n));
    }
    for (int64_t i = 0; i < n; i++) {
        v[i] /= length;
    }
}

// Modified Gram-Schmidt over `count` vectors of `n` elements, count <= n: the Q of their QR
// decomposition with the diagonal of R positive.
static void make_orthonormal(double *vectors, int64_t count, int64_t n) {
    for (int64_t block = 0; block < count; block += BLOCK) {
        int64_t end = ES_MIN(block + BLOCK, count);
        double before[BLOCK];
        for (int64_t j = block; j < end; j++) {
            before[j - block] = es_math_sqrt(dot(vectors + j * n, vectors + j * n, n));
        }
        for (int64_t i = 0; i < block; i++) {
            for (int64_t j = block; j < end; j++) {
                remove_projection(vectors + i * n, vectors + j * n, n);
            }
        }
        for (int64_t j = block; j < end; j++) {
            finish_vector(vectors, block, j, n, before[j - block]);
        }
    }
}

// gain times a matrix whose columns, or rows where those are fewer, are orthonormal.
static void fill_orthogonal(const EsValue *value, const EsInitialKey *key, double *vectors,
                            int64_t base, float *part) {
    int64_t n_rows = rows_of(value), n_columns = columns_of(value);
    int64_t count = ES_MIN(n_rows, n_columns), n = ES_MAX(n_rows, n_columns);
    // element i of vector j stands at j vector_step + i element_step
    int64_t vector_step = n_rows < n_columns ? n_columns : 1;
    int64_t element_step = n_rows < n_columns ? 1 : n_columns;
    float *first = part + (value->slab_offset - base);
    for (int64_t j = 0; j < count; j++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t place = value->slab_offset + j * vector_step + i * element_step;
            vectors[j * n + i] = es_initial_gaussian(key, place);
        }
    }
    make_orthonormal(vectors, count, n);
    for (int64_t j = 0; j < count; j++) {
        for (int64_t i = 0; i < n; i++) {
            first[j * vector_step + i * element_step] =
                (float)((double)value->bound * vectors[j * n + i]);
        }
    }
}

// --- all kinds ---

static size_t initial_workspace(const EsGraph *graph) {
    int64_t most = 0;
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == ES_ROLE_PARAMETER && value->initial == ES_INITIAL_ORTHOGONAL) {
            most = ES_MAX(most, es_value_count(value));
        }
    }
    return (size_t)most;
}

// `part` begins with element `base` of an environment's slab.
static void set_initial_values(const EsValue *value, const EsInitialKey *key, double *workspace,
                               int64_t base, float *part) {
    if (value->initial == ES_INITIAL_ORTHOGONAL) {
        ES_ASSERT(workspace != NULL);
        fill_orthogonal(value, key, workspace, base, part);
        return;
    }
    int64_t first = value->slab_offset;
    EsInitialTensor tensor = {.count = es_value_count(value),
                              .initial = (int32_t)value->initial,
                              .bound = value->bound,
                              .start = value->start};
    for (int64_t k = 0; k < tensor.count; k++) {
        part[first - base + k] = es_initial_value(&tensor, key, first, k);
    }
}

// --- slabs ---

static EsStatus create_slab(EsDevice *device, int64_t n_envs, int64_t count, EsTensor *slab) {
    void *memory = NULL;
    // an empty slab still has an address
    int64_t n_elements = ES_MAX(n_envs, 1) * ES_MAX(count, 1);
    ES_TRY(es_device_allocate(device, (size_t)n_elements * sizeof(float), &memory));
    *slab = es_tensor_view(memory, ES_DTYPE_F32, device, 2, (int64_t[]){n_envs, count});
    return ES_STATUS_OK;
}

// FNV-1a over everything that decides the offset of each value, apart from the number of
// environments.
static uint64_t hash_layout(const EsGraph *graph) {
    uint64_t hash = 14695981039346656037u;
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role != ES_ROLE_PARAMETER && value->role != ES_ROLE_STATE) {
            continue;
        }
        for (const char *c = value->name; *c != '\0'; c++) {
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
        }
        for (int axis = 1; axis < ES_MAX_RANK; axis++) {
            hash = (hash ^ (uint64_t)value->dim[axis]) * 1099511628211u;
        }
        hash = (hash ^ (uint64_t)value->slab_offset) * 1099511628211u;
    }
    return hash;
}

EsStatus es_store_create(const EsGraph *graph, EsDevice *device, EsStore **store) {
    *store = NULL;
    ES_TRY(es_graph_status(graph));
    ES_TRY(
        es_store_create_sized(device, graph->n_envs, graph->n_parameters, graph->n_states, store));
    (*store)->layout = hash_layout(graph);
    return ES_STATUS_OK;
}

static EsStatus create_slabs(EsDevice *device, int64_t n_envs, int64_t n_gradients,
                             int64_t n_parameters, int64_t n_states, EsStore **store_out) {
    *store_out = NULL;
    EsStore *store = NULL;
    ES_TRY(es_allocate(sizeof *store, (void **)&store));
    store->device = device;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_slab(device, n_envs, n_parameters, &store->parameters));
    ES_TRY_GOTO(create_slab(device, n_gradients, n_parameters, &store->gradients));
    ES_TRY_GOTO(create_slab(device, n_envs, n_states, &store->states));
done:
    if (status != ES_STATUS_OK) {
        es_store_destroy(store);
        return status;
    }
    *store_out = store;
    return ES_STATUS_OK;
}

EsStatus es_store_create_sized(EsDevice *device, int64_t n_envs, int64_t n_parameters,
                               int64_t n_states, EsStore **store) {
    return create_slabs(device, n_envs, n_envs, n_parameters, n_states, store);
}

EsStatus es_store_create_shared(const EsGraph *graph, EsDevice *device, int64_t n_gradients,
                                EsStore **store) {
    *store = NULL;
    ES_TRY(es_graph_status(graph));
    if (n_gradients < 1) {
        return ES_FAIL(ARGUMENT, "a shared store needs at least one row of gradients, not %lld",
                       (long long)n_gradients);
    }
    if (graph->n_states > 0) {
        return ES_FAIL(UNSUPPORTED, "a network with running statistics cannot be shared");
    }
    ES_TRY(create_slabs(device, 1, n_gradients, graph->n_parameters, 0, store));
    (*store)->layout = hash_layout(graph);
    (*store)->is_shared = 1;
    return ES_STATUS_OK;
}

EsStatus es_store_create_twin(const EsStore *store, EsStore **twin) {
    ES_TRY(create_slabs(store->device, store->parameters.dim[0], 0, store->parameters.dim[1],
                        store->states.dim[1], twin));
    (*twin)->layout = store->layout;
    (*twin)->is_shared = store->is_shared;
    return ES_STATUS_OK;
}

void es_store_destroy(EsStore *store) {
    if (store != NULL) {
        es_device_release(store->device, store->parameters.data);
        es_device_release(store->device, store->gradients.data);
        es_device_release(store->device, store->states.data);
        es_release(store);
    }
}

void es_graph_initial_values(const EsGraph *graph, uint64_t seed, uint32_t episode, uint32_t step,
                             int64_t base, float *region) {
    const EsInitialKey key = {seed, episode, ES_PURPOSE_GERMINATION, step};
    for (int i = 0; i < graph->n_values; i++) {
        if (graph->values[i].role == ES_ROLE_PARAMETER) {
            set_initial_values(&graph->values[i], &key, NULL, base, region);
        }
    }
}

// An environment's parameters, after the gradients of those in `graph` were cleared.
static float *renew_region(EsStore *store, const EsGraph *graph, int64_t env) {
    ES_ASSERT(es_device_info(store->device)->kind == ES_DEVICE_CPU);
    float *gradients = (float *)store->gradients.data + env * store->gradients.stride[0];
    for (int i = 0; i < graph->n_values; i++) {
        const EsValue *value = &graph->values[i];
        if (value->role == ES_ROLE_PARAMETER) {
            memset(gradients + value->slab_offset, 0,
                   (size_t)es_value_count(value) * sizeof(float));
        }
    }
    return (float *)store->parameters.data + env * store->parameters.stride[0];
}

void es_store_set_region(EsStore *store, const EsGraph *graph, int64_t env, int64_t base,
                         const float *region) {
    float *part = renew_region(store, graph, env);
    for (int i = 0; i < graph->n_values; i++) {
        const EsValue *value = &graph->values[i];
        if (value->role == ES_ROLE_PARAMETER) {
            memcpy(part + value->slab_offset, region + (value->slab_offset - base),
                   (size_t)es_value_count(value) * sizeof(float));
        }
    }
}

void es_store_initialise_region(EsStore *store, const EsGraph *graph, int64_t env, uint64_t seed,
                                uint32_t episode, uint32_t step) {
    es_graph_initial_values(graph, seed, episode, step, 0, renew_region(store, graph, env));
}

// Parameters and states of one environment.
static void initialise_environment(const EsGraph *graph, uint64_t seed, uint32_t episode,
                                   double *workspace, float *parameters, float *states) {
    EsInitialKey key = {seed, episode, ES_PURPOSE_INITIALISATION, 0};
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == ES_ROLE_PARAMETER || value->role == ES_ROLE_STATE) {
            set_initial_values(value, &key, workspace, 0,
                               value->role == ES_ROLE_STATE ? states : parameters);
        }
    }
}

EsStatus es_store_initialise(EsStore *store, const EsGraph *graph, EsStream *stream, uint64_t seed,
                             const int32_t *episode) {
    ES_TRY(es_store_check(store, graph));
    size_t parameter_bytes = es_tensor_bytes(&store->parameters),
           state_bytes = es_tensor_bytes(&store->states);
    size_t workspace_bytes = sizeof(double) * initial_workspace(graph);
    double *workspace = NULL; // then the parameters, then the states
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(workspace_bytes + parameter_bytes + state_bytes, (void **)&workspace));
    float *staging = (float *)workspace + workspace_bytes / sizeof(float);
    float *states = staging + parameter_bytes / sizeof(float);
    for (int64_t e = 0; e < store->parameters.dim[0]; e++) {
        initialise_environment(graph, seed, (uint32_t)episode[e], workspace,
                               staging + e * store->parameters.dim[1],
                               states + e * store->states.dim[1]);
    }
    ES_TRY_GOTO(es_stream_copy(stream, store->parameters.data, staging, parameter_bytes,
                               ES_COPY_TO_DEVICE));
    ES_TRY_GOTO(es_stream_copy(stream, store->states.data, states, state_bytes, ES_COPY_TO_DEVICE));
    ES_TRY_GOTO(
        es_stream_fill(stream, store->gradients.data, 0, es_tensor_bytes(&store->gradients)));
    ES_TRY_GOTO(es_stream_synchronize(stream));
done:
    es_release(workspace);
    return status;
}

EsStatus es_store_check_weights(const EsStore *store, const EsGraph *graph) {
    int is_sized = store->layout == 0;
    int is_same =
        store->parameters.dim[1] == graph->n_parameters && store->states.dim[1] == graph->n_states;
    int is_room =
        store->parameters.dim[1] >= graph->n_parameters && store->states.dim[1] >= graph->n_states;
    int has_envs = store->is_shared || store->parameters.dim[0] == graph->n_envs;
    if (!has_envs || !(is_sized ? is_room : is_same)) {
        return ES_FAIL(ARGUMENT,
                       "the graph has %lld environments, %lld parameter and %lld state elements; "
                       "the store was made for "
                       "%lld, %lld and %lld",
                       (long long)graph->n_envs, (long long)graph->n_parameters,
                       (long long)graph->n_states, (long long)store->parameters.dim[0],
                       (long long)store->parameters.dim[1], (long long)store->states.dim[1]);
    }
    if (!is_sized && store->layout != hash_layout(graph)) {
        return ES_FAIL(ARGUMENT, "the graph names or orders its parameters otherwise than the one "
                                 "the store was made for");
    }
    return ES_STATUS_OK;
}

EsStatus es_store_check(const EsStore *store, const EsGraph *graph) {
    ES_TRY(es_store_check_weights(store, graph));
    if (graph->n_forward_nodes > 0 && graph->n_envs > store->gradients.dim[0]) {
        return ES_FAIL(ARGUMENT,
                       "the graph has gradients of %lld environments; the store has room for %lld",
                       (long long)graph->n_envs, (long long)store->gradients.dim[0]);
    }
    return ES_STATUS_OK;
}

EsTensor es_store_tensor(const EsStore *store, const EsGraph *graph, EsValueId id) {
    const EsValue *value = &graph->values[id];
    const EsTensor *slab = value->role == ES_ROLE_STATE      ? &store->states
                           : value->role == ES_ROLE_GRADIENT ? &store->gradients
                                                             : &store->parameters;
    ES_ASSERT(value->role == ES_ROLE_STATE || value->role == ES_ROLE_GRADIENT ||
              value->role == ES_ROLE_PARAMETER);
    EsTensor tensor = es_tensor_view((float *)slab->data + value->slab_offset, ES_DTYPE_F32,
                                     store->device, value->rank, value->dim);
    int is_one = store->is_shared && value->role == ES_ROLE_PARAMETER;
    tensor.stride[0] = is_one ? 0 : slab->stride[0];
    return tensor;
}
