// A thread per element, four of them; the gate's gradient takes a block per image, in double, in a
// fixed order. Letters: E environments, N images.
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/ops/blend_rules.h"

// State of the slots: the same for all images of an environment, apart from the gate.
template <typename T> struct BlendSlots {
    const T *gate; // [E, N], NULL when absent
    const float *alpha;
    const int32_t *word;    // [E]: mode and bits beside it
    uint32_t n_images, row; // images, elements of one image

    __device__ int32_t mode_at(int64_t env) const { return es_blend_mode(word[env]); }
    __device__ bool is_closed(int64_t env, int32_t way) const { return (word[env] & way) != 0; }

    // of element j of an environment
    __device__ float share_at(int64_t env, uint32_t j) const {
        bool is_gated = mode_at(env) == ES_BLEND_GATE && gate != NULL;
        float opened = is_gated ? es_load(gate + env * n_images + j / row) : 1.0f;
        return es_blend_share(mode_at(env), alpha[env], opened);
    }
};

template <typename T> static BlendSlots<T> blend_slots(EsIn h, EsIn gate, EsIn alpha, EsIn mode) {
    BlendSlots<T> slots;
    slots.gate = es_data<const T>(gate);
    slots.alpha = es_data<const float>(alpha);
    slots.word = es_data<const int32_t>(mode);
    slots.n_images = (uint32_t)h->dim[1];
    slots.row = (uint32_t)(es_tensor_count(h) / (h->dim[0] * h->dim[1]));
    return slots;
}

template <typename T>
static __global__ void blend_forward_kernel(const T *h, const T *seed, BlendSlots<T> slots, T *y,
                                            EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    int32_t mode = slots.mode_at(span.env);
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        int64_t at = span.env * tiles.count + j;
        float share = slots.share_at(span.env, j), host = es_load(h + at);
        bool is_host = share == 0.0f; // then seed is not read
        es_store(y + at, is_host ? host : es_blend_value(mode, share, host, es_load(seed + at)));
    }
}

template <typename T>
static __global__ void blend_backward_kernel(const T *h, const T *seed, BlendSlots<T> slots,
                                             const T *d_y, T *d_h, T *d_seed, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    int32_t mode = slots.mode_at(span.env);
    bool is_host_closed = slots.is_closed(span.env, ES_BLEND_CLOSED_HOST);
    bool is_seed_closed = slots.is_closed(span.env, ES_BLEND_CLOSED_SEED);
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        int64_t at = span.env * tiles.count + j;
        float share = slots.share_at(span.env, j), d = es_load(d_y + at);
        EsBlendGradient gradient = {d, mode == ES_BLEND_INCUBATE ? d : 0.0f};
        if (share != 0.0f) {
            gradient = es_blend_gradient(mode, share, es_load(h + at), es_load(seed + at), d);
        }
        if (d_h != NULL) {
            es_store(d_h + at, is_host_closed ? 0.0f : gradient.h);
        }
        if (d_seed != NULL) {
            es_store(d_seed + at, is_seed_closed ? 0.0f : gradient.s);
        }
    }
}

// one block per (environment, image)
template <typename T>
static __global__ void blend_backward_gate_kernel(const T *h, const T *seed, BlendSlots<T> slots,
                                                  const T *d_y, T *d_gate) {
    int64_t env = blockIdx.x / slots.n_images;
    float alpha = es_blend_clamp(slots.alpha[env]);
    bool is_moved = slots.mode_at(env) == ES_BLEND_GATE && alpha != 0.0f &&
                    !slots.is_closed(env, ES_BLEND_CLOSED_SEED);
    int64_t base = (int64_t)blockIdx.x * slots.row;
    double sum = 0.0;
    for (uint32_t k = threadIdx.x; is_moved && k < slots.row; k += blockDim.x) {
        double difference = (double)es_load(seed + base + k) - (double)es_load(h + base + k);
        sum += (double)es_load(d_y + base + k) * difference;
    }
    sum = es_block_sum(sum);
    if (threadIdx.x == 0) {
        es_store(d_gate + blockIdx.x, is_moved ? (float)((double)alpha * sum) : 0.0f);
    }
}

template <typename T>
static __global__ void seed_input_backward_kernel(const int32_t *mode, const T *d_x, T *d_h,
                                                  EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    bool is_passed = es_blend_is_mixed(es_blend_mode(mode[span.env]));
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        int64_t at = span.env * tiles.count + j;
        es_store(d_h + at, is_passed ? es_load(d_x + at) : 0.0f);
    }
}

static EsTiles blend_tiles(EsIn h) { return es_tiles(es_tensor_count(h) / h->dim[0]); }

void es_blend_forward_cuda(EsStream *s, EsIn h, EsIn seed, EsIn gate, EsIn alpha, EsIn mode,
                           EsOut y) {
    EsLaunch launch(s, "blend_forward");
    EsTiles tiles = blend_tiles(h);
    ES_DISPATCH_DTYPE(h->dtype, T,
                      launch.start(blend_forward_kernel<T>, es_tiles_grid(tiles, h->dim[0]),
                                   ES_THREADS, es_data<T>(h), es_data<T>(seed),
                                   blend_slots<T>(h, gate, alpha, mode), es_data<T>(y), tiles));
}

void es_blend_backward_cuda(EsStream *s, EsIn h, EsIn seed, EsIn gate, EsIn alpha, EsIn mode,
                            EsIn d_y, EsOut d_h, EsOut d_seed, EsOut d_gate) {
    EsLaunch launch(s, "blend_backward");
    EsTiles tiles = blend_tiles(h);
    dim3 images((unsigned)(h->dim[0] * h->dim[1]));
    ES_DISPATCH_DTYPE(
        h->dtype, T, BlendSlots<T> slots = blend_slots<T>(h, gate, alpha, mode); launch.start(
            blend_backward_kernel<T>, es_tiles_grid(tiles, h->dim[0]), ES_THREADS, es_data<T>(h),
            es_data<T>(seed), slots, es_data<T>(d_y), es_data<T>(d_h), es_data<T>(d_seed), tiles);
        if (d_gate != NULL) {
            launch.start(blend_backward_gate_kernel<T>, images, es_block_for(slots.row, ES_THREADS),
                         es_data<T>(h), es_data<T>(seed), slots, es_data<T>(d_y),
                         es_data<T>(d_gate));
        });
}

void es_seed_input_backward_cuda(EsStream *s, EsIn mode, EsIn d_x, EsOut d_h) {
    EsLaunch launch(s, "seed_input_backward");
    EsTiles tiles = blend_tiles(d_x);
    ES_DISPATCH_DTYPE(d_x->dtype, T,
                      launch.start(seed_input_backward_kernel<T>, es_tiles_grid(tiles, d_x->dim[0]),
                                   ES_THREADS, es_data<const int32_t>(mode), es_data<T>(d_x),
                                   es_data<T>(d_h), tiles));
}
