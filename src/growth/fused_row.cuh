// What every fused kernel does before and after its tiles: which images of which row a block of
// threads has, batch-norm coefficients, bringing what a block of the host hands on into shared
// memory, and who of a row's blocks finishes last.
//
// Grids are [rows x parts] in x: part p of a row has images [p n, (p + 1) n), n = images_per_part.
#ifndef ES_GROWTH_FUSED_ROW_CUH
#define ES_GROWTH_FUSED_ROW_CUH

#include "growth/fused_tile.cuh"
#include "kernels/blend_rules.h"
#include "kernels/gather_rules.h"

#define ES_FUSED_EPSILON 1e-5f

// --- shared memory ---

// Hands out pieces of shared memory, from 0 on the host to count bytes.
struct EsCarve {
    unsigned char *base;
    size_t used;

    template <typename T> __host__ __device__ T *take(size_t count) {
        T *piece = (T *)(base + used);
        used += (count * sizeof(T) + 15) / 16 * 16;
        return piece;
    }
};

// --- rows ---

struct EsFusedRow {
    int row, part, n_parts;
    int env;
    int first, n_images; // images of this part
};

// False for a row past the active ones; then every thread of the block leaves.
static __device__ __forceinline__ bool es_row_begin(const EsFusedArguments &args,
                                                    int images_per_part, EsFusedRow &at) {
    at.n_parts = (args.n_images + images_per_part - 1) / images_per_part;
    at.row = (int)blockIdx.x / at.n_parts;
    at.part = (int)blockIdx.x % at.n_parts;
    if (args.rows.n_active != NULL && at.row >= args.rows.n_active[0]) {
        return false;
    }
    at.env = args.rows.env[at.row];
    at.first = at.part * images_per_part;
    at.n_images = min(images_per_part, args.n_images - at.first);
    return true;
}

static __device__ __forceinline__ const float *es_row_parameters(const EsFusedArguments &args,
                                                                 const EsFusedRow &at) {
    return args.parameters + at.env * args.parameter_stride;
}

// Image `image` (of the row) in activation memory of so many units per image.
template <typename T>
static __device__ __forceinline__ T *es_row_image(const EsFusedArguments &args,
                                                  const EsFusedRow &at, void *memory, int image,
                                                  int image_units) {
    return (T *)memory +
           ((int64_t)at.row * args.row_images + image) * (int64_t)image_units * ES_FUSED_UNIT;
}

// Every thread calls, after the block's results are written: true in all threads of the block that
// is the last of its row. What the other blocks of the row wrote is then visible. Ends with a
// barrier.
static __device__ __forceinline__ bool es_row_is_last(const EsFusedArguments &args,
                                                      const EsFusedRow &at) {
    __shared__ int is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(&args.counters[at.row], 1) == at.n_parts - 1;
        if (is_last) {
            args.counters[at.row] = 0;
        }
    }
    __syncthreads();
    __threadfence();
    return is_last != 0;
}

// --- slots ---

// The seed at a slot, or a slot that does nothing. A NOOP seed never changes anything.
static __device__ __forceinline__ EsFusedSlot es_row_slot(const EsFusedArguments &args, int row,
                                                          int slot) {
    EsFusedSlot nothing = {ES_NO_SEED, ES_BLEND_NONE, 0.0f, 0};
    if (slot < 0) {
        return nothing;
    }
    EsFusedSlot found = args.rows.slots[(int64_t)row * args.net.n_slots + slot];
    return found.blueprint < 0 || found.blueprint == ES_BLUEPRINT_NOOP ? nothing : found;
}

// Does its output differ from the host's? Such a slot has its output in memory of its own.
static __device__ __forceinline__ bool es_slot_mixes(EsFusedSlot slot) {
    return es_blend_is_mixed(slot.mode);
}

static __device__ __forceinline__ bool es_row_mixes(const EsFusedArguments &args, int row,
                                                    int slot) {
    return es_slot_mixes(es_row_slot(args, row, slot));
}

// --- batch norm ---

// Of one block, per channel, in shared memory: z = x scale + shift, x_hat = (x - mean) inv_std.
struct EsNormTable {
    float *scale, *shift, *mean, *inv_std; // [channels of units]
};

static __host__ __device__ __forceinline__ size_t es_norm_bytes(int units) {
    return 4 * sizeof(float) * (size_t)units * ES_FUSED_UNIT;
}

static __device__ __forceinline__ EsNormTable es_norm_table(float *memory, int units) {
    int n = units * ES_FUSED_UNIT;
    EsNormTable table = {memory, memory + n, memory + 2 * n, memory + 3 * n};
    return table;
}

// Statistics of the batch in training, running ones in evaluation; channels that do not exist
// become 0.
static __device__ void es_norm_load(const EsFusedArguments &args, const EsFusedRow &at, int b,
                                    const EsNormTable &table) {
    const EsFusedBlock &block = args.net.block[b];
    const float *parameters = es_row_parameters(args, at);
    int n = block.out_units * ES_FUSED_UNIT;
    for (int c = threadIdx.x; c < n; c += ES_FUSED_THREADS) {
        float mean = 0.0f, inv_std = 0.0f, gamma = 0.0f, beta = 0.0f;
        if (c < block.n_out) {
            gamma = parameters[block.gamma + c];
            beta = parameters[block.beta + c];
            if (args.is_training) {
                mean = args.memory[b].mean[(int64_t)at.row * n + c];
                inv_std = args.memory[b].inv_std[(int64_t)at.row * n + c];
            } else {
                const float *states = args.states + at.env * args.state_stride;
                mean = states[block.running_mean + c];
                inv_std = 1.0f / sqrtf(states[block.running_variance + c] + ES_FUSED_EPSILON);
            }
        }
        table.scale[c] = inv_std * gamma;
        table.shift[c] = beta;
        table.mean[c] = mean;
        table.inv_std[c] = inv_std;
    }
}

// z of the 8 channels of a unit.
static __device__ __forceinline__ void es_norm_apply(const EsNormTable &table, int unit,
                                                     const float (&x)[8], float (&z)[8]) {
#pragma unroll
    for (int c = 0; c < 8; c++) {
        int channel = unit * ES_FUSED_UNIT + c;
        z[c] = (x[c] - table.mean[channel]) * table.scale[channel] + table.shift[channel];
    }
}

// max(z, 0), and NaN where z is.
static __device__ __forceinline__ float es_rectified(float z) { return z < 0.0f ? 0.0f : z; }

// Is `value` to be taken in place of `best`? NaN wins, so that divergence stays visible.
static __device__ __forceinline__ bool es_is_larger(float value, float best) {
    return value > best || (value != value && best == best);
}

// --- what a block hands on ---

// Rectified maps of block b before its pool, of the part's images into a tile of out_units units of
// its size (any border).
template <typename T>
static __device__ void es_load_rectified(const EsFusedArguments &args, const EsFusedRow &at, int b,
                                         const EsNormTable &table, T *tile, EsTile shape) {
    const EsFusedBlock &block = args.net.block[b];
    int pixels = block.size * block.size, count = at.n_images * block.out_units * pixels;
    for (int i = threadIdx.x; i < count; i += ES_FUSED_THREADS) {
        int pixel = i % pixels, unit = i / pixels % block.out_units;
        int image = i / (pixels * block.out_units);
        const T *raw = es_row_image<T>(args, at, args.memory[b].raw, at.first + image,
                                       block.out_units * pixels) +
                       (unit * pixels + pixel) * ES_FUSED_UNIT;
        float x[8], z[8];
        es_unit_load(x, raw);
        es_norm_apply(table, unit, x, z);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            z[c] = es_rectified(z[c]);
        }
        es_unit_store(tile + shape.at(image, unit, pixel / block.size, pixel % block.size) *
                                 ES_FUSED_UNIT,
                      z);
    }
}

// z of the first largest pixel of a 2x2 window of raw outputs, in row order; x is its raw value and
// `winner` its number 0..3.
template <typename T>
static __device__ __forceinline__ void es_window_largest(const EsNormTable &table, int unit,
                                                         const T *raw, int size, float (&z)[8],
                                                         float (&x)[8], int (&winner)[8]) {
    es_unit_load(x, raw);
    es_norm_apply(table, unit, x, z);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        winner[c] = 0;
        z[c] = es_rectified(z[c]);
    }
#pragma unroll
    for (int k = 1; k < 4; k++) {
        float x_k[8], z_k[8];
        es_unit_load(x_k, raw + (k / 2 * size + k % 2) * ES_FUSED_UNIT);
        es_norm_apply(table, unit, x_k, z_k);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            float value = es_rectified(z_k[c]);
            if (es_is_larger(value, z[c])) {
                z[c] = value, x[c] = x_k[c], winner[c] = k;
            }
        }
    }
}

// Where what a block hands on at one pixel comes from, without seeds: the winner of its window, or
// the pixel itself in a block without a pool.
template <typename T>
static __device__ __forceinline__ void es_window_value(const EsNormTable &table, int unit,
                                                       const T *raw, const EsFusedBlock &block,
                                                       float (&z)[8], float (&x)[8]) {
    if (block.has_pool) {
        int winner[8];
        es_window_largest(table, unit, raw, block.size, z, x, winner);
    } else {
        es_unit_load(x, raw);
        es_norm_apply(table, unit, x, z);
    }
}

// Add a pixel's share to the sums of d_z and d_z x_hat: the gradient g of its rectified z counts
// where z is above 0.
static __device__ __forceinline__ void es_norm_add(const EsNormTable &table, int channel, float z,
                                                   float x, float g, float (&sums)[2][8], int c) {
    float d_z = z > 0.0f ? g : 0.0f;
    sums[0][c] += d_z;
    sums[1][c] = fmaf(d_z, (x - table.mean[channel]) * table.inv_std[channel], sums[1][c]);
}

// What block b hands on without a seed: normalised, rectified, pooled.
template <typename T>
static __device__ void es_load_pooled(const EsFusedArguments &args, const EsFusedRow &at, int b,
                                      const EsNormTable &table, T *tile, EsTile shape) {
    const EsFusedBlock &block = args.net.block[b];
    if (!block.has_pool) {
        es_load_rectified(args, at, b, table, tile, shape);
        return;
    }
    int size = block.out_size, pixels = size * size;
    int raw_pixels = block.size * block.size, count = at.n_images * block.out_units * pixels;
    for (int i = threadIdx.x; i < count; i += ES_FUSED_THREADS) {
        int row = i % pixels / size, column = i % size;
        int unit = i / pixels % block.out_units, image = i / (pixels * block.out_units);
        const T *raw = es_row_image<T>(args, at, args.memory[b].raw, at.first + image,
                                       block.out_units * raw_pixels) +
                       (unit * raw_pixels + 2 * row * block.size + 2 * column) * ES_FUSED_UNIT;
        float z[8], x[8];
        int winner[8];
        es_window_largest(table, unit, raw, block.size, z, x, winner);
        es_unit_store(tile + shape.at(image, unit, row, column) * ES_FUSED_UNIT, z);
    }
}

// Maps of the part's images out of activation memory [unit][pixel] into a tile of the same units
// and size.
template <typename T>
static __device__ void es_load_maps(const EsFusedArguments &args, const EsFusedRow &at,
                                    void *memory, T *tile, EsTile shape) {
    int pixels = shape.pixels(), per_image = shape.units * pixels;
    int count = at.n_images * per_image;
    for (int i = threadIdx.x; i < count; i += ES_FUSED_THREADS) {
        int pixel = i % pixels, unit = i / pixels % shape.units, image = i / per_image;
        const T *from = es_row_image<T>(args, at, memory, at.first + image, per_image) +
                        (unit * pixels + pixel) * ES_FUSED_UNIT;
        float v[8];
        es_unit_load(v, from);
        es_unit_store(tile + shape.at(image, unit, pixel / shape.size, pixel % shape.size) *
                                 ES_FUSED_UNIT,
                      v);
    }
}

// The same the other way.
template <typename T>
static __device__ void es_store_maps(const EsFusedArguments &args, const EsFusedRow &at,
                                     const T *tile, EsTile shape, void *memory) {
    int pixels = shape.pixels(), per_image = shape.units * pixels;
    int count = at.n_images * per_image;
    for (int i = threadIdx.x; i < count; i += ES_FUSED_THREADS) {
        int pixel = i % pixels, unit = i / pixels % shape.units, image = i / per_image;
        T *to = es_row_image<T>(args, at, memory, at.first + image, per_image) +
                (unit * pixels + pixel) * ES_FUSED_UNIT;
        float v[8];
        es_unit_load(v, tile + shape.at(image, unit, pixel / shape.size, pixel % shape.size) *
                                   ES_FUSED_UNIT);
        es_unit_store(to, v);
    }
}

// What block b hands on, seeds included, as the next block, the head or the slot after the pool
// (`before_last_slot`) reads it.
template <typename T>
static __device__ void es_load_handed_on(const EsFusedArguments &args, const EsFusedRow &at, int b,
                                         int before_last_slot, const EsNormTable &table, T *tile,
                                         EsTile shape) {
    const EsFusedBlock &block = args.net.block[b];
    if (!before_last_slot && es_row_mixes(args, at.row, block.slot[1])) {
        es_load_maps(args, at, args.memory[b].out, tile, shape);
    } else if (es_row_mixes(args, at.row, block.slot[0])) {
        es_load_maps(args, at, args.memory[b].middle, tile, shape);
    } else {
        es_load_pooled(args, at, b, table, tile, shape);
    }
}

// The gradient of what block b hands on to its pool's far side (`middle`), at one unit of one
// image: the head's, spread over the map, for the last block.
template <typename T>
static __device__ __forceinline__ void
es_load_gradient(const EsFusedArguments &args, const EsFusedRow &at, int b, void *memory, int image,
                 int unit, int pixel, float (&g)[8]) {
    const EsFusedBlock &block = args.net.block[b];
    int pixels = block.out_size * block.out_size;
    if (b == args.net.n_blocks - 1 && memory == args.memory[b].d_out) {
        const float *d = args.d_features +
                         ((int64_t)at.row * args.row_images + at.first + image) * block.out_units *
                             ES_FUSED_UNIT +
                         unit * ES_FUSED_UNIT;
        es_unit_load(g, d);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            g[c] /= (float)pixels;
        }
    } else {
        es_unit_load(g,
                     es_row_image<T>(args, at, memory, at.first + image, block.out_units * pixels) +
                         (unit * pixels + pixel) * ES_FUSED_UNIT);
    }
}

// --- images ---

// Number in the data set and crop of the part's images. Ends with a barrier.
static __device__ void es_choose_samples(const EsFusedArguments &args, const EsFusedRow &at,
                                         int *sample, EsCrop *crop) {
    for (int i = threadIdx.x; i < at.n_images; i += ES_FUSED_THREADS) {
        sample[i] = (int)args.first_image + at.first + i;
        crop[i].row = crop[i].column = crop[i].flip = 0;
        if (args.is_training) {
            uint32_t episode = (uint32_t)args.episode[at.env], step = (uint32_t)args.step[0];
            uint32_t n = (uint32_t)(at.first + i);
            uint64_t position = (uint64_t)step * (uint64_t)args.n_images + n;
            sample[i] =
                es_gather_sample(args.gather.seed, episode, position, (uint32_t)args.n_samples);
            crop[i] = es_gather_crop(&args.gather, episode, step, n);
        }
    }
    __syncthreads();
}

template <typename T>
static __device__ void es_load_images(const EsFusedArguments &args, const EsFusedRow &at,
                                      const int *sample, const EsCrop *crop, T *tile,
                                      EsTile shape) {
    int pixels = shape.pixels(), n_channels = args.net.image_channels;
    for (int i = threadIdx.x; i < at.n_images * pixels; i += ES_FUSED_THREADS) {
        int image = i / pixels, row = i % pixels / shape.size, column = i % shape.size;
        const unsigned char *from = args.images + (int64_t)sample[image] * n_channels * pixels;
        float v[8] = {};
#pragma unroll
        for (int c = 0; c < 8; c++) {
            if (c < n_channels) {
                v[c] = es_gather_value(&args.gather, c,
                                       es_gather_pixel(from + c * pixels, shape.size, shape.size,
                                                       crop[image], row, column));
            }
        }
        es_unit_store(tile + shape.at(image, 0, row, column) * ES_FUSED_UNIT, v);
    }
}

// --- sums over the parts of a row ---

// Sum over the row's parts of element i of [parts][length], in double: lanes take every 32nd part,
// then a butterfly. A warp calls together; all lanes get the sum.
static __device__ __forceinline__ double es_parts_sum(const float *parts, int n_parts, int length,
                                                      int i) {
    double sum = 0.0;
    for (int p = (int)threadIdx.x % 32; p < n_parts; p += 32) {
        sum += (double)parts[(int64_t)p * length + i];
    }
    return es_warp_sum(sum);
}

// Where this part's sums for block b's batch norm go: [2][channels of units].
static __device__ __forceinline__ float *es_norm_part(const EsFusedArguments &args,
                                                      const EsFusedRow &at, int b) {
    int n = 2 * args.net.block[b].out_units * ES_FUSED_UNIT;
    return args.norm_parts + ((int64_t)at.row * at.n_parts + at.part) * n;
}

// In the last block of a row: totals of d_z and d_z x_hat of block b, which are also the gradients
// of beta and gamma.
static __device__ void es_norm_add_parts(const EsFusedArguments &args, const EsFusedRow &at,
                                         int b) {
    const EsFusedBlock &block = args.net.block[b];
    int n = block.out_units * ES_FUSED_UNIT;
    const float *parts = args.norm_parts + (int64_t)at.row * at.n_parts * 2 * n;
    float *sums = args.memory[b].norm_sums + (int64_t)at.row * 2 * n;
    float *gradients = args.gradients + at.env * args.parameter_stride;
    for (int i = (int)threadIdx.x / 32; i < 2 * n; i += ES_FUSED_WARPS) {
        double total = es_parts_sum(parts, at.n_parts, 2 * n, i);
        if (threadIdx.x % 32 == 0) {
            sums[i] = (float)total;
            if (i % n < block.n_out) {
                gradients[(i < n ? block.beta : block.gamma) + i % n] = (float)total;
            }
        }
    }
}

// After every part has written its sums (es_norm_part): the last block of the row adds them up.
// Every thread calls.
static __device__ void es_norm_finish_sums(const EsFusedArguments &args, const EsFusedRow &at,
                                           int b) {
    if (es_row_is_last(args, at)) {
        es_norm_add_parts(args, at, b);
    }
}

#endif
