// The requests of the rules carried out on the weights of all environments in one launch, and fresh
// hosts. growth_weights.c is the specification; the order of effects on an element is its order.
#include "growth/cuda/growth_parts.h"
#include "kernels/cuda/cuda_common.cuh"

// Operations on the elements of one chunk.
struct Orders {
    bool is_restored, is_cleared, is_initialised, clears_momentum, is_saved;
    EsGrowthRange range; // of the initialised elements
    EsInitialKey key;
};

static __device__ Orders fresh_orders(const EsGrowthParts &parts, int64_t env,
                                      const EsGrowthChunk &chunk) {
    Orders orders = {};
    int is_host = chunk.part == ES_GROWTH_PART_HOST, is_state = chunk.part == ES_GROWTH_PART_STATE;
    orders.is_cleared = true;
    orders.is_initialised = is_host || is_state;
    orders.range = is_state ? parts.map->state : parts.map->host;
    orders.key.seed = parts.seed;
    orders.key.episode = (uint32_t)parts.episode[env];
    orders.key.purpose = ES_PURPOSE_INITIALISATION;
    orders.key.step = 0;
    return orders;
}

static __device__ void add_slot_orders(const EsGrowthParts &parts, int64_t env,
                                       const EsGrowthChunk &chunk, Orders *orders) {
    int64_t i = env * parts.n_slots + chunk.slot;
    int32_t requests = parts.state.seed.requests[i];
    int is_gate = chunk.part == ES_GROWTH_PART_GATE;
    int initialises =
        requests & (is_gate ? ES_SEED_REQUEST_INITIALISE_GATE : ES_SEED_REQUEST_INITIALISE);
    // only fossils outlive a rollback
    orders->is_restored &= parts.state.seed.stage[i] == ES_STAGE_FOSSILIZED;
    orders->is_cleared = requests & (ES_SEED_REQUEST_CLEAR | ES_SEED_REQUEST_INITIALISE);
    orders->clears_momentum = (requests & ES_SEED_REQUEST_ZERO_MOMENTUM) || initialises;
    if (initialises) {
        orders->is_initialised = true;
        orders->range = is_gate ? parts.map->gate[chunk.slot]
                                : parts.map->seed[chunk.slot][parts.state.seed.blueprint[i]];
        orders->key.seed = parts.seed;
        orders->key.episode = (uint32_t)parts.episode[env];
        orders->key.purpose = ES_PURPOSE_GERMINATION;
        orders->key.step = (uint32_t)parts.state.env.step[env];
    }
}

static __device__ Orders find_orders(const EsGrowthParts &parts, int64_t env,
                                     const EsGrowthChunk &chunk, int is_fresh) {
    int32_t requests = parts.state.env.requests[env];
    Orders orders = {};
    if (is_fresh) {
        orders = fresh_orders(parts, env, chunk);
    } else {
        orders.is_restored = requests & ES_ENV_REQUEST_RESTORE;
        if (chunk.part == ES_GROWTH_PART_HOST) {
            orders.clears_momentum = requests & ES_ENV_REQUEST_ZERO_MOMENTUM;
        } else if (chunk.part != ES_GROWTH_PART_STATE) {
            add_slot_orders(parts, env, chunk, &orders);
        }
    }
    orders.is_saved = requests & ES_ENV_REQUEST_SNAPSHOT;
    return orders;
}

// Element j of the row: the initial value of the tensor it is in, 0 between tensors.
static __device__ float initial_at(const EsGrowthParts &parts, const Orders &orders, int64_t j) {
    for (int32_t i = 0; i < orders.range.n; i++) {
        EsGrowthSpan span = parts.spans[orders.range.first + i];
        if (j >= span.offset && j < span.offset + span.tensor.count) {
            return es_initial_value(&span.tensor, &orders.key, span.offset, j - span.offset);
        }
    }
    return 0.0f;
}

static __global__ void weights_kernel(const __grid_constant__ EsGrowthParts parts, int is_fresh) {
    int64_t env = blockIdx.x / parts.n_chunks;
    EsGrowthChunk chunk = parts.chunks[blockIdx.x % parts.n_chunks];
    Orders orders = find_orders(parts, env, chunk, is_fresh);
    bool is_state = chunk.part == ES_GROWTH_PART_STATE;
    bool changes_value = orders.is_restored || orders.is_cleared || orders.is_initialised;
    int64_t row = env * (is_state ? parts.n_states : parts.n_parameters);
    float *values = (is_state ? parts.states : parts.parameters) + row;
    float *saved = (is_state ? parts.saved_states : parts.saved_parameters) + row;
    for (int64_t j = chunk.first + threadIdx.x; j < chunk.end; j += ES_THREADS) {
        if (changes_value) {
            values[j] = orders.is_initialised ? initial_at(parts, orders, j)
                        : orders.is_cleared   ? 0.0f
                                              : saved[j];
        }
        if (!is_state && (orders.is_cleared || orders.is_initialised)) {
            parts.gradients[row + j] = 0.0f;
        }
        if (!is_state && (orders.is_cleared || orders.clears_momentum)) {
            parts.momentum[row + j] = 0.0f;
        }
        if (orders.is_saved) {
            saved[j] = values[j];
        }
    }
}

void es_growth_cuda_weights(const EsGrowthParts *parts, EsStream *stream, int is_fresh) {
    EsLaunch launch(stream, "growth_weights");
    dim3 grid((unsigned)(parts->n_envs * parts->n_chunks));
    launch.start(weights_kernel, grid, ES_THREADS, *parts, is_fresh);
}
