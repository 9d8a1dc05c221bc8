// The requests of the rules carried out on the weights of all environments in one launch, and fresh
// hosts. growth_weights.c is the specification; the order of effects on an element is its order.
#include "growth/cuda/growth_arrays.h"
#include "kernels/cuda/cuda_common.cuh"

// Operations on the elements of one chunk.
struct Orders {
    bool is_restored, is_cleared, is_initialised, clears_momentum, is_saved;
    EsGrowthRange range; // of the initialised elements
    EsInitialKey key;
};

static __device__ Orders fresh_orders(const EsGrowthArrays &arrays, int64_t env,
                                      const EsGrowthChunk &chunk) {
    Orders orders = {};
    int is_host = chunk.section == ES_GROWTH_SECTION_HOST,
        is_state = chunk.section == ES_GROWTH_SECTION_STATE;
    orders.is_cleared = true;
    orders.is_initialised = is_host || is_state;
    orders.range = is_state ? arrays.map->state : arrays.map->host;
    orders.key.seed = arrays.seed;
    orders.key.episode = (uint32_t)arrays.episode[env];
    orders.key.purpose = ES_PURPOSE_INITIALISATION;
    orders.key.step = 0;
    return orders;
}

static __device__ void add_slot_orders(const EsGrowthArrays &arrays, int64_t env,
                                       const EsGrowthChunk &chunk, Orders *orders) {
    int64_t i = env * arrays.n_slots + chunk.slot;
    int32_t requests = arrays.state.seed.requests[i];
    int is_gate = chunk.section == ES_GROWTH_SECTION_GATE;
    int initialises =
        requests & (is_gate ? ES_SEED_REQUEST_INITIALISE_GATE : ES_SEED_REQUEST_INITIALISE);
    // only fossils outlive a rollback
    orders->is_restored &= arrays.state.seed.stage[i] == ES_STAGE_FOSSILIZED;
    orders->is_cleared = requests & (ES_SEED_REQUEST_CLEAR | ES_SEED_REQUEST_INITIALISE);
    orders->clears_momentum = (requests & ES_SEED_REQUEST_ZERO_MOMENTUM) || initialises;
    if (initialises) {
        orders->is_initialised = true;
        orders->range = is_gate ? arrays.map->gate[chunk.slot]
                                : arrays.map->seed[chunk.slot][arrays.state.seed.blueprint[i]];
        orders->key.seed = arrays.seed;
        orders->key.episode = (uint32_t)arrays.episode[env];
        orders->key.purpose = ES_PURPOSE_GERMINATION;
        orders->key.step = (uint32_t)arrays.state.env.step[env];
    }
}

static __device__ Orders find_orders(const EsGrowthArrays &arrays, int64_t env,
                                     const EsGrowthChunk &chunk, int is_fresh) {
    int32_t requests = arrays.state.env.requests[env];
    Orders orders = {};
    if (is_fresh) {
        orders = fresh_orders(arrays, env, chunk);
    } else {
        orders.is_restored = requests & ES_ENV_REQUEST_RESTORE;
        if (chunk.section == ES_GROWTH_SECTION_HOST) {
            orders.clears_momentum = requests & ES_ENV_REQUEST_ZERO_MOMENTUM;
        } else if (chunk.section != ES_GROWTH_SECTION_STATE) {
            add_slot_orders(arrays, env, chunk, &orders);
        }
    }
    orders.is_saved = requests & ES_ENV_REQUEST_SNAPSHOT;
    return orders;
}

// Element j of the row: the initial value of the tensor it is in, 0 between tensors.
static __device__ float initial_at(const EsGrowthArrays &arrays, const Orders &orders, int64_t j) {
    for (int32_t i = 0; i < orders.range.n; i++) {
        EsGrowthSpan span = arrays.spans[orders.range.first + i];
        if (j >= span.offset && j < span.offset + span.tensor.count) {
            return es_initial_value(&span.tensor, &orders.key, span.offset, j - span.offset);
        }
    }
    return 0.0f;
}

// The average of a value that is made anew begins with it; one that goes back goes back to its own.
static __device__ void follow_average(const EsGrowthArrays &arrays, const Orders &orders,
                                      bool is_state, int64_t at, float value) {
    float *average = (is_state ? arrays.average_states : arrays.average) + at;
    float *saved = (is_state ? arrays.saved_average_states : arrays.saved_average) + at;
    if (orders.is_cleared || orders.is_initialised) {
        *average = value;
    } else if (orders.is_restored) {
        *average = *saved;
    }
    if (orders.is_saved) {
        *saved = *average;
    }
}

// Averages that begin anew have seen no update.
static __device__ void reset_average_count(const EsGrowthArrays &arrays, const Orders &orders,
                                           int64_t env, const EsGrowthChunk &chunk) {
    int32_t part = chunk.section == ES_GROWTH_SECTION_GATE   ? ES_GROWTH_GATE(chunk.slot)
                   : chunk.section == ES_GROWTH_SECTION_SEED ? ES_GROWTH_SEED(chunk.slot)
                                                             : ES_GROWTH_HOST;
    if (orders.is_cleared || orders.is_initialised) {
        arrays.average_updates[env * ES_GROWTH_PARTS(arrays.n_slots) + part] = 0;
    }
}

static __global__ void weights_kernel(const __grid_constant__ EsGrowthArrays arrays, int is_fresh) {
    int64_t env = blockIdx.x / arrays.n_chunks;
    EsGrowthChunk chunk = arrays.chunks[blockIdx.x % arrays.n_chunks];
    Orders orders = find_orders(arrays, env, chunk, is_fresh);
    bool is_state = chunk.section == ES_GROWTH_SECTION_STATE;
    bool changes_value = orders.is_restored || orders.is_cleared || orders.is_initialised;
    int64_t row = env * (is_state ? arrays.n_states : arrays.n_parameters);
    float *values = (is_state ? arrays.states : arrays.parameters) + row;
    float *saved = (is_state ? arrays.saved_states : arrays.saved_parameters) + row;
    for (int64_t j = chunk.first + threadIdx.x; j < chunk.end; j += ES_THREADS) {
        if (changes_value) {
            values[j] = orders.is_initialised ? initial_at(arrays, orders, j)
                        : orders.is_cleared   ? 0.0f
                                              : saved[j];
        }
        if (!is_state && (orders.is_cleared || orders.is_initialised)) {
            arrays.gradients[row + j] = 0.0f;
        }
        if (!is_state && (orders.is_cleared || orders.clears_momentum)) {
            arrays.momentum[row + j] = 0.0f;
        }
        if (orders.is_saved) {
            saved[j] = values[j];
        }
        if (arrays.average_decay > 0.0f) {
            follow_average(arrays, orders, is_state, row + j, values[j]);
        }
    }
    if (arrays.average_decay > 0.0f && threadIdx.x == 0) {
        reset_average_count(arrays, orders, env, chunk);
    }
}

void es_growth_cuda_weights(const EsGrowthArrays *arrays, EsStream *stream, int is_fresh) {
    EsLaunch launch(stream, "growth_weights");
    dim3 grid((unsigned)(arrays->n_envs * arrays->n_chunks));
    launch.start(weights_kernel, grid, ES_THREADS, *arrays, is_fresh);
}
