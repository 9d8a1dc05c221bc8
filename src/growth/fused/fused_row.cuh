// What every fused kernel does before and after its tiles: which images of which row a block of
// threads has, batch-norm coefficients, bringing what a block of the host hands on into shared
// memory, and who of a row's blocks finishes last.
//
// Grids are [rows x parts] in x: part p of a row has images [p n, (p + 1) n), n = images_per_part.
#ifndef ES_GROWTH_FUSED_ROW_CUH
#define ES_GROWTH_FUSED_ROW_CUH

#include "growth/fused/fused_shape.cuh"
#include "growth/fused/fused_tile.cuh"
#include "kernels/ops/blend_rules.h"
#include "kernels/ops/gather_rules.h"

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

#define ES_EVERY_ROW (-1)

// Rows of a grid for what comes after `depth` slots, one part each.
static inline int64_t es_point_rows(const EsFusedArguments *args, int depth) {
    return args->sharing.leader == NULL ? args->rows.n_rows
                                        : ES_MIN(args->rows.n_rows, args->n_envs << depth);
}

// The rows that compute at a point (EsFusedSharing), or every active one. False for a block of
// threads beyond them: all its threads leave.
static __device__ __forceinline__ bool
es_row_begin(const EsFusedArguments &args, int images_per_part, int point, EsFusedRow &at) {
    at.n_parts = (args.n_images + images_per_part - 1) / images_per_part;
    at.row = (int)blockIdx.x / at.n_parts;
    at.part = (int)blockIdx.x % at.n_parts;
    if (args.sharing.leader != NULL && point >= 0) {
        at.row = args.sharing.listed[point * args.rows.n_rows + at.row];
        if (at.row < 0) {
            return false;
        }
    } else if (args.rows.n_active != NULL && at.row >= args.rows.n_active[0]) {
        return false;
    }
    at.env = args.rows.env[at.row];
    at.first = at.part * images_per_part;
    at.n_images = min(images_per_part, args.n_images - at.first);
    return true;
}

// The row that has this one's activations from behind `depth` slots.
static __device__ __forceinline__ int es_row_leader(const EsFusedArguments &args,
                                                    const EsFusedRow &at, int depth) {
    return args.sharing.leader == NULL ? at.row
                                       : args.sharing.leader[depth * args.rows.n_rows + at.row];
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

// The part's first image in memory that was written behind `depth` slots.
template <typename T>
static __device__ __forceinline__ const T *es_row_shared(const EsFusedArguments &args,
                                                         const EsFusedRow &at, const void *memory,
                                                         int depth, int image_units) {
    int64_t image = (int64_t)es_row_leader(args, at, depth) * args.row_images + at.first;
    return (const T *)memory + image * (int64_t)image_units * ES_FUSED_UNIT;
}

// es_block_is_last among the blocks of a row.
static __device__ __forceinline__ bool es_row_is_last(const EsFusedArguments &args,
                                                      const EsFusedRow &at) {
    return es_block_is_last(&args.counters[at.row], at.n_parts);
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

// Of one block, per channel, in shared memory, 16-byte aligned: z = x scale + shift,
// x_hat = (x - mean) inv_std.
struct EsNormTable {
    float *scale, *shift, *mean, *inv_std; // [channels of units]
};

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
        table.shift[c] = beta - mean * (inv_std * gamma);
        table.mean[c] = mean;
        table.inv_std[c] = inv_std;
    }
}

// The table's part that z of one unit needs, in registers.
struct EsNormUnit {
    float scale[8], shift[8];

    __device__ EsNormUnit(const EsNormTable &table, int unit) {
        es_unit_load(scale, table.scale + unit * ES_FUSED_UNIT);
        es_unit_load(shift, table.shift + unit * ES_FUSED_UNIT);
    }
    __device__ void apply(const float (&x)[8], float (&z)[8]) const {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            z[c] = fmaf(x[c], scale[c], shift[c]);
        }
    }
};

static __device__ __forceinline__ void es_norm_apply(const EsNormTable &table, int unit,
                                                     const float (&x)[8], float (&z)[8]) {
    EsNormUnit(table, unit).apply(x, z);
}

// max(z, 0), and NaN where z is.
static __device__ __forceinline__ float es_rectified(float z) { return z < 0.0f ? 0.0f : z; }

// Is `value` to be taken in place of `best`? NaN wins, so that divergence stays visible.
static __device__ __forceinline__ bool es_is_larger(float value, float best) {
    return best == best && !(value <= best); // two comparisons
}

// --- what a block hands on ---

// Normalised and rectified: block b's maps before its pool out of `raw`, or what it hands on
// without a seed out of `picked`, of the part's images into a tile of out_units units of that size
// (any border).
template <typename T>
static __device__ __forceinline__ void
es_load_rectified(const EsFusedArguments &args, const EsFusedRow &at, int b, const void *memory,
                  const EsNormTable &table, T *tile, const EsTile &shape) {
    int pixels = shape.pixels(), count = at.n_images * pixels, per_image = shape.units * pixels;
    const T *raw = es_row_shared<T>(args, at, memory, args.net.block[b].depth, per_image);
    EsSpread mine = es_spread(count);
    for (int unit = mine.unit; unit < shape.units; unit += mine.unit_step) {
        EsNormUnit norm(table, unit);
        for (int i = mine.first; i < count; i += mine.step) {
            int image = shape.image_of(i), pixel = i - image * pixels;
            float x[8], z[8];
            es_unit_load(x, raw + (image * per_image + unit * pixels + pixel) * ES_FUSED_UNIT);
            norm.apply(x, z);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                z[c] = es_rectified(z[c]);
            }
            es_unit_store(tile + shape.at_pixel(image, unit, pixel) * ES_FUSED_UNIT, z);
        }
    }
}

// The raw outputs of a 2x2 window, in row order.
template <typename T>
static __device__ __forceinline__ void es_window_load(const T *raw, int size, float (&x)[4][8]) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        es_unit_load(x[k], raw + (k / 2 * size + k % 2) * ES_FUSED_UNIT);
    }
}

// z of the first largest pixel of a window, not rectified, and its number 0..3. What a ReLU makes
// of equal ones below 0 has no gradient.
static __device__ __forceinline__ void
es_window_choose(const EsNormUnit &norm, const float (&x)[4][8], float (&z)[8], int (&winner)[8]) {
    norm.apply(x[0], z);
#pragma unroll
    for (int k = 1; k < 4; k++) {
        float z_k[8];
        norm.apply(x[k], z_k);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            bool wins = es_is_larger(z_k[c], z[c]);
            winner[c] = k == 1 ? (int)wins : wins ? k : winner[c];
            z[c] = wins ? z_k[c] : z[c];
        }
    }
}

// Add a pixel's share to the sums of d_z and d_z x: the gradient g of its rectified z counts where
// z is above 0. es_norm_add_parts makes x_hat of x.
template <int N>
static __device__ __forceinline__ void es_norm_add(float z, float x, float g, float (&sums)[2][N],
                                                   int c) {
    float d_z = z > 0.0f ? g : 0.0f;
    sums[0][c] += d_z;
    sums[1][c] = fmaf(d_z, x, sums[1][c]);
}

// Maps of the part's images out of activation memory [unit][pixel], written behind `depth` slots,
// into a tile of the same units and size.
template <typename T>
static __device__ __forceinline__ void es_load_maps(const EsFusedArguments &args,
                                                    const EsFusedRow &at, const void *memory,
                                                    int depth, T *tile, const EsTile &shape) {
    int pixels = shape.pixels(), count = at.n_images * pixels, per_image = shape.units * pixels;
    const T *from = es_row_shared<T>(args, at, memory, depth, per_image);
    EsSpread mine = es_spread(count);
    for (int unit = mine.unit; unit < shape.units; unit += mine.unit_step) {
        for (int i = mine.first; i < count; i += mine.step) {
            int image = shape.image_of(i), pixel = i - image * pixels;
            es_unit_copy(tile + shape.at_pixel(image, unit, pixel) * ES_FUSED_UNIT,
                         from + (image * per_image + unit * pixels + pixel) * ES_FUSED_UNIT);
        }
    }
}

// The same the other way.
template <typename T>
static __device__ __forceinline__ void es_store_maps(const EsFusedArguments &args,
                                                     const EsFusedRow &at, const T *tile,
                                                     const EsTile &shape, void *memory) {
    int pixels = shape.pixels(), count = at.n_images * pixels, per_image = shape.units * pixels;
    T *to = es_row_image<T>(args, at, memory, at.first, per_image);
    EsSpread mine = es_spread(count);
    for (int unit = mine.unit; unit < shape.units; unit += mine.unit_step) {
        for (int i = mine.first; i < count; i += mine.step) {
            int image = shape.image_of(i), pixel = i - image * pixels;
            es_unit_copy(to + (image * per_image + unit * pixels + pixel) * ES_FUSED_UNIT,
                         tile + shape.at_pixel(image, unit, pixel) * ES_FUSED_UNIT);
        }
    }
}

// What block b hands on, seeds included, as the next block, the head or the slot after the pool
// (`before_last_slot`) reads it.
template <typename T>
static __device__ __forceinline__ void
es_load_handed_on(const EsFusedArguments &args, const EsFusedRow &at, int b,
                  const EsFusedBlock &block, int before_last_slot, const EsNormTable &table,
                  T *tile, const EsTile &shape) {
    if (!before_last_slot && es_row_mixes(args, at.row, block.slot[1])) {
        int depth = args.net.place[block.slot[1]].depth + 1;
        es_load_maps(args, at, args.memory[b].out, depth, tile, shape);
    } else if (es_row_mixes(args, at.row, block.slot[0])) {
        int depth = args.net.place[block.slot[0]].depth + 1;
        es_load_maps(args, at, args.memory[b].middle, depth, tile, shape);
    } else {
        es_load_rectified(args, at, b, args.memory[b].picked, table, tile, shape);
    }
}

// The gradient of what block b hands on to its pool's far side (`middle`), at one unit of one
// image: the head's, spread over the map, for the last block.
template <typename T>
static __device__ __forceinline__ void
es_load_gradient(const EsFusedArguments &args, const EsFusedRow &at, int b,
                 const EsFusedBlock &block, void *memory, int image, int unit, int pixel,
                 float (&g)[8]) {
    int pixels = block.out_size * block.out_size;
    if (b == args.net.n_blocks - 1 && memory == args.memory[b].d_out) {
        const float *d = args.d_features +
                         ((int64_t)at.row * args.row_images + at.first + image) * block.out_units *
                             ES_FUSED_UNIT +
                         unit * ES_FUSED_UNIT;
        es_unit_load(g, d);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            g[c] *= 1.0f / (float)pixels;
        }
    } else {
        es_unit_load(g,
                     es_row_image<T>(args, at, memory, at.first + image, block.out_units * pixels) +
                         (unit * pixels + pixel) * ES_FUSED_UNIT);
    }
}

// An image of the part: drawn in training, in the order of the data set in evaluation.
static __device__ __forceinline__ EsFusedSample es_row_sample(const EsFusedArguments &args,
                                                              const EsFusedRow &at, int image) {
    if (args.is_training) {
        // in one load
        int4 words =
            *(const int4 *)&args.samples[(int64_t)at.row * args.row_images + at.first + image];
        EsFusedSample drawn = {words.x, {words.y, words.z, words.w}};
        return drawn;
    }
    EsFusedSample sample = {(int32_t)args.first_image + at.first + image, {0, 0, 0}};
    return sample;
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

// Where this part's sums of d_z and d_z x (es_norm_add) for block b's batch norm go: [2][channels
// of units].
static __device__ __forceinline__ float *es_norm_part(const EsFusedArguments &args,
                                                      const EsFusedRow &at, int b) {
    int n = 2 * args.net.block[b].out_units * ES_FUSED_UNIT;
    return args.norm_parts + ((int64_t)at.row * at.n_parts + at.part) * n;
}

// Sums over the row's parts of [parts][2][n], in double: visit(c, first, second) once per channel.
// A warp takes four channels: a lane one of their eight sums, and every fourth part, so that all
// loads of a warp are under way together. n is a multiple of 8.
template <typename Visit>
static __device__ __forceinline__ void es_parts_visit(const float *parts, int n_parts, int n,
                                                      Visit visit) {
    int lane = (int)threadIdx.x % 32, which = lane / 4 % 2;
#pragma unroll 1
    for (int c = (int)threadIdx.x / 32 * 4 + lane % 4; c < n; c += ES_FUSED_WARPS * 4) {
        double sum = 0.0;
#pragma unroll 8
        for (int p = lane / 8; p < n_parts; p += 4) {
            sum += (double)parts[(p * 2 + which) * n + c];
        }
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 8);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 16);
        double second = __shfl_xor_sync(0xFFFFFFFFu, sum, 4);
        if (lane < 4) {
            visit(c, sum, second);
        }
    }
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
    es_parts_visit(parts, at.n_parts, n, [&](int c, double of_d, double of_d_x) {
        double mean = (double)args.memory[b].mean[(int64_t)at.row * n + c];
        double inv_std = (double)args.memory[b].inv_std[(int64_t)at.row * n + c];
        float of_x_hat = (float)((of_d_x - mean * of_d) * inv_std);
        sums[c] = (float)of_d;
        sums[n + c] = of_x_hat;
        if (c < block.n_out) {
            gradients[block.beta + c] = (float)of_d;
            gradients[block.gamma + c] = of_x_hat;
        }
    });
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
