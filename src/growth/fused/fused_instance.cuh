// Prologue and epilogue of every fused kernel: which images of which instance a thread block has,
// batch-norm coefficients, loading the output of a block of the host into shared memory, and who of
// an instance's blocks finishes last.
//
// Grids are [instances x chunks] in x: chunk p of an instance has images [p n, (p + 1) n), n =
// images_per_chunk.
#ifndef ES_GROWTH_FUSED_INSTANCE_CUH
#define ES_GROWTH_FUSED_INSTANCE_CUH

#include "growth/fused/fused_net.h"
#include "growth/fused/fused_tile.cuh"
#include "kernels/ops/blend_rules.h"
#include "kernels/ops/gather_rules.h"

// --- known shapes: blocks of the host that kernels are compiled for ---

// A block's numbers, with its shape as constants where the kernel was compiled for one: 3x3, IN and
// OUT channel groups, maps of SIZE; the block has a pool, and so has the one before it. IN 0: any
// block.
template <int IN, int OUT, int SIZE> struct EsBlockShape {
    static __host__ __device__ __forceinline__ EsFusedBlock of(EsFusedBlock block) {
        if (IN > 0) {
            block.in_c8 = IN, block.out_c8 = OUT, block.size = SIZE;
            block.out_size = SIZE / 2, block.kernel = 3, block.has_pool = 1;
            block.by_size = block.by_pixels = block.by_out_size = block.by_out_pixels = 0;
        }
        return block;
    }
    // The block before it.
    static __host__ __device__ __forceinline__ EsFusedBlock before(EsFusedBlock block) {
        if (IN > 0) {
            block.out_c8 = IN, block.size = 2 * SIZE, block.out_size = SIZE, block.has_pool = 1;
            block.by_size = block.by_pixels = block.by_out_size = block.by_out_pixels = 0;
        }
        return block;
    }
    // One output channel group is known in the first block alone: the gradient of images is not
    // needed, and dgrad of other blocks (fused_dgrad.cuh) takes channel groups by twos.
    static bool fits(const EsFusedNet &net, int b) {
        const EsFusedBlock &block = net.block[b];
        return block.in_c8 == IN && block.out_c8 == OUT && block.size == SIZE &&
               block.kernel == 3 && block.has_pool &&
               (b == 0 || (OUT > 1 && net.block[b - 1].has_pool));
    }
};

// Run a statement with IN, OUT and SIZE of block b's shape: one of those that kernels are compiled
// for, or 0, 0, 0. f32 takes the last alone.
#define ES_DISPATCH_SHAPE(net, b, precision, ...)                                                  \
    do {                                                                                           \
        if ((precision) == ES_DTYPE_F32) {                                                         \
            ES_WITH_SHAPE(0, 0, 0, __VA_ARGS__);                                                   \
        } else if (EsBlockShape<1, 1, 32>::fits(net, b)) {                                         \
            ES_WITH_SHAPE(1, 1, 32, __VA_ARGS__);                                                  \
        } else if (EsBlockShape<1, 2, 16>::fits(net, b)) {                                         \
            ES_WITH_SHAPE(1, 2, 16, __VA_ARGS__);                                                  \
        } else if (EsBlockShape<2, 4, 8>::fits(net, b)) {                                          \
            ES_WITH_SHAPE(2, 4, 8, __VA_ARGS__);                                                   \
        } else {                                                                                   \
            ES_WITH_SHAPE(0, 0, 0, __VA_ARGS__);                                                   \
        }                                                                                          \
    } while (0)
#define ES_WITH_SHAPE(in, out, size, ...)                                                          \
    do {                                                                                           \
        constexpr int IN = in, OUT = out, SIZE = size;                                             \
        __VA_ARGS__;                                                                               \
    } while (0)

#define ES_FUSED_EPSILON 1e-5f

// --- shared memory ---

// Hands out pieces of shared memory, from 0 on the CPU to count bytes.
struct EsSharedLayout {
    unsigned char *base;
    size_t used;

    template <typename T> __host__ __device__ T *take(size_t count) {
        T *piece = (T *)(base + used);
        used += (count * sizeof(T) + 15) / 16 * 16;
        return piece;
    }
};

// --- instances ---

struct EsFusedInstance {
    int instance, chunk, n_chunks;
    int env;
    int first, n_images; // images of this chunk
};

#define ES_EVERY_ROW (-1)

// Instances of a grid for the work after `depth` slots, one chunk each.
static inline int64_t es_point_instances(const EsFusedArguments *args, int depth) {
    return args->sharing.leader == NULL
               ? args->instances.n_instances
               : ES_MIN(args->instances.n_instances, args->n_envs << depth);
}

// The instances that compute at a point (EsFusedSharing), or every active one. False for a thread
// block beyond them: all its threads leave.
static __device__ __forceinline__ bool es_instance_begin(const EsFusedArguments &args,
                                                         int images_per_chunk, int point,
                                                         EsFusedInstance &at) {
    at.n_chunks = (args.n_images + images_per_chunk - 1) / images_per_chunk;
    at.instance = (int)blockIdx.x / at.n_chunks;
    at.chunk = (int)blockIdx.x % at.n_chunks;
    if (args.sharing.leader != NULL && point >= 0) {
        at.instance = args.sharing.listed[point * args.instances.n_instances + at.instance];
        if (at.instance < 0) {
            return false;
        }
    } else if (args.instances.n_active != NULL && at.instance >= args.instances.n_active[0]) {
        return false;
    }
    at.env = args.instances.env[at.instance];
    at.first = at.chunk * images_per_chunk;
    at.n_images = min(images_per_chunk, args.n_images - at.first);
    return true;
}

// The instance that has this one's activations from behind `depth` slots.
static __device__ __forceinline__ int es_instance_leader(const EsFusedArguments &args,
                                                         const EsFusedInstance &at, int depth) {
    return args.sharing.leader == NULL
               ? at.instance
               : args.sharing.leader[depth * args.instances.n_instances + at.instance];
}

static __device__ __forceinline__ const float *es_instance_parameters(const EsFusedArguments &args,
                                                                      const EsFusedInstance &at) {
    return args.parameters + at.env * args.parameter_stride;
}

// Image `image` (of the instance) in activation memory of `image_c8` channel groups per image.
template <typename T>
static __device__ __forceinline__ T *es_instance_image(const EsFusedArguments &args,
                                                       const EsFusedInstance &at, void *memory,
                                                       int image, int image_c8) {
    return (T *)memory +
           ((int64_t)at.instance * args.instance_images + image) * (int64_t)image_c8 * ES_C8;
}

// The chunk's first image in memory that was written behind `depth` slots.
template <typename T>
static __device__ __forceinline__ const T *
es_instance_shared(const EsFusedArguments &args, const EsFusedInstance &at, const void *memory,
                   int depth, int image_c8) {
    int64_t image = (int64_t)es_instance_leader(args, at, depth) * args.instance_images + at.first;
    return (const T *)memory + image * (int64_t)image_c8 * ES_C8;
}

// es_block_is_last among the blocks of an instance.
static __device__ __forceinline__ bool es_instance_is_last(const EsFusedArguments &args,
                                                           const EsFusedInstance &at) {
    return es_block_is_last(&args.counters[at.instance], at.n_chunks);
}

// --- slots ---

// The seed at a slot, or a slot that does nothing. A NOOP seed never changes anything.
static __device__ __forceinline__ EsFusedSlot es_instance_slot(const EsFusedArguments &args,
                                                               int instance, int slot) {
    EsFusedSlot nothing = {ES_NO_SEED, ES_BLEND_NONE, 0.0f, 0};
    if (slot < 0) {
        return nothing;
    }
    EsFusedSlot found = args.instances.slots[(int64_t)instance * args.net.n_slots + slot];
    return found.blueprint < 0 || found.blueprint == ES_BLUEPRINT_NOOP ? nothing : found;
}

// Returns whether the slot's output differs from the host's. Such a slot has its output in memory
// of its own.
static __device__ __forceinline__ bool es_slot_mixes(EsFusedSlot slot) {
    return es_blend_is_mixed(slot.mode);
}

static __device__ __forceinline__ bool es_instance_mixes(const EsFusedArguments &args, int instance,
                                                         int slot) {
    return es_slot_mixes(es_instance_slot(args, instance, slot));
}

// --- batch norm ---

// Of one block, per channel, in shared memory, 16-byte aligned: z = x scale + shift,
// x_hat = (x - mean) inv_std.
struct EsNormTable {
    float *scale, *shift, *mean, *inv_std; // [padded channels]
};

static __device__ __forceinline__ EsNormTable es_norm_table(float *memory, int n_c8) {
    int n = n_c8 * ES_C8;
    EsNormTable table = {memory, memory + n, memory + 2 * n, memory + 3 * n};
    return table;
}

// Statistics of the batch in training, running ones in evaluation; channels that do not exist
// become 0.
static __device__ void es_norm_load(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                                    const EsNormTable &table) {
    const EsFusedBlock &block = args.net.block[b];
    const float *parameters = es_instance_parameters(args, at);
    int n = block.out_c8 * ES_C8;
    for (int c = threadIdx.x; c < n; c += ES_FUSED_THREADS) {
        float mean = 0.0f, inv_std = 0.0f, gamma = 0.0f, beta = 0.0f;
        if (c < block.n_out) {
            gamma = parameters[block.gamma + c];
            beta = parameters[block.beta + c];
            if (args.is_training) {
                mean = args.memory[b].mean[(int64_t)at.instance * n + c];
                inv_std = args.memory[b].inv_std[(int64_t)at.instance * n + c];
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

// The coefficients that z of one channel group needs, in registers.
struct EsNormC8 {
    float scale[8], shift[8];

    __device__ EsNormC8(const EsNormTable &table, int c8) {
        es_c8_load(scale, table.scale + c8 * ES_C8);
        es_c8_load(shift, table.shift + c8 * ES_C8);
    }
    __device__ void apply(const float (&x)[8], float (&z)[8]) const {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            z[c] = fmaf(x[c], scale[c], shift[c]);
        }
    }
};

static __device__ __forceinline__ void es_norm_apply(const EsNormTable &table, int c8,
                                                     const float (&x)[8], float (&z)[8]) {
    EsNormC8(table, c8).apply(x, z);
}

// max(z, 0), and NaN where z is.
static __device__ __forceinline__ float es_rectified(float z) { return z < 0.0f ? 0.0f : z; }

// Is `value` to be taken in place of `best`? NaN wins, so that divergence stays visible.
static __device__ __forceinline__ bool es_is_larger(float value, float best) {
    return best == best && !(value <= best); // two comparisons
}

// --- the block output ---

// Normalised and rectified: block b's maps before its pool out of `raw`, or its output
// without a seed out of `pooled`, of the chunk's images into a tile of out_c8 channel groups of
// that size (any border).
template <typename T>
static __device__ __forceinline__ void
es_load_rectified(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                  const void *memory, const EsNormTable &table, T *tile, const EsTile &shape) {
    int pixels = shape.pixels(), count = at.n_images * pixels, per_image = shape.n_c8 * pixels;
    const T *raw = es_instance_shared<T>(args, at, memory, args.net.block[b].depth, per_image);
    EsThreadMap mine = es_thread_map(count);
    for (int c8 = mine.c8; c8 < shape.n_c8; c8 += mine.c8_step) {
        EsNormC8 norm(table, c8);
        for (int i = mine.first; i < count; i += mine.step) {
            int image = shape.image_of(i), pixel = i - image * pixels;
            float x[8], z[8];
            es_c8_load(x, raw + (image * per_image + c8 * pixels + pixel) * ES_C8);
            norm.apply(x, z);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                z[c] = es_rectified(z[c]);
            }
            es_c8_store(tile + shape.at_pixel(image, c8, pixel) * ES_C8, z);
        }
    }
}

// The raw outputs of a 2x2 window, in row order.
template <typename T>
static __device__ __forceinline__ void es_window_load(const T *raw, int size, float (&x)[4][8]) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        es_c8_load(x[k], raw + (k / 2 * size + k % 2) * ES_C8);
    }
}

// z of the first largest pixel of a window, not rectified, and its number 0..3. Ties below 0 do not
// matter: behind the ReLU they have no gradient.
static __device__ __forceinline__ void
es_window_choose(const EsNormC8 &norm, const float (&x)[4][8], float (&z)[8], int (&winner)[8]) {
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
// z is above 0. es_norm_add_partials makes x_hat of x.
template <int N>
static __device__ __forceinline__ void es_norm_add(float z, float x, float g, float (&sums)[2][N],
                                                   int c) {
    float d_z = z > 0.0f ? g : 0.0f;
    sums[0][c] += d_z;
    sums[1][c] = fmaf(d_z, x, sums[1][c]);
}

// Maps of the chunk's images out of activation memory [c8][pixel], written behind `depth` slots,
// into a tile of the same channel groups and size.
template <typename T>
static __device__ __forceinline__ void es_load_maps(const EsFusedArguments &args,
                                                    const EsFusedInstance &at, const void *memory,
                                                    int depth, T *tile, const EsTile &shape) {
    int pixels = shape.pixels(), count = at.n_images * pixels, per_image = shape.n_c8 * pixels;
    const T *from = es_instance_shared<T>(args, at, memory, depth, per_image);
    EsThreadMap mine = es_thread_map(count);
    for (int c8 = mine.c8; c8 < shape.n_c8; c8 += mine.c8_step) {
        for (int i = mine.first; i < count; i += mine.step) {
            int image = shape.image_of(i), pixel = i - image * pixels;
            es_c8_copy(tile + shape.at_pixel(image, c8, pixel) * ES_C8,
                       from + (image * per_image + c8 * pixels + pixel) * ES_C8);
        }
    }
}

// The same the other way.
template <typename T>
static __device__ __forceinline__ void es_store_maps(const EsFusedArguments &args,
                                                     const EsFusedInstance &at, const T *tile,
                                                     const EsTile &shape, void *memory) {
    int pixels = shape.pixels(), count = at.n_images * pixels, per_image = shape.n_c8 * pixels;
    T *to = es_instance_image<T>(args, at, memory, at.first, per_image);
    EsThreadMap mine = es_thread_map(count);
    for (int c8 = mine.c8; c8 < shape.n_c8; c8 += mine.c8_step) {
        for (int i = mine.first; i < count; i += mine.step) {
            int image = shape.image_of(i), pixel = i - image * pixels;
            es_c8_copy(to + (image * per_image + c8 * pixels + pixel) * ES_C8,
                       tile + shape.at_pixel(image, c8, pixel) * ES_C8);
        }
    }
}

// The output of block b, seeds included, as the next block, the classifier or the slot after the
// pool (`before_last_slot`) reads it.
template <typename T>
static __device__ __forceinline__ void
es_load_block_output(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                     const EsFusedBlock &block, int before_last_slot, const EsNormTable &table,
                     T *tile, const EsTile &shape) {
    if (!before_last_slot && es_instance_mixes(args, at.instance, block.slot[1])) {
        int depth = args.net.place[block.slot[1]].depth + 1;
        es_load_maps(args, at, args.memory[b].out, depth, tile, shape);
    } else if (es_instance_mixes(args, at.instance, block.slot[0])) {
        int depth = args.net.place[block.slot[0]].depth + 1;
        es_load_maps(args, at, args.memory[b].middle, depth, tile, shape);
    } else {
        es_load_rectified(args, at, b, args.memory[b].pooled, table, tile, shape);
    }
}

// The gradient of the output of block b behind its pool (`middle`), at one channel group of one
// image: the classifier's, spread over the map, for the last block.
template <typename T>
static __device__ __forceinline__ void
es_load_gradient(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                 const EsFusedBlock &block, void *memory, int image, int c8, int pixel,
                 float (&g)[8]) {
    int pixels = block.out_size * block.out_size;
    if (b == args.net.n_blocks - 1 && memory == args.memory[b].d_out) {
        const float *d = args.d_features +
                         ((int64_t)at.instance * args.instance_images + at.first + image) *
                             block.out_c8 * ES_C8 +
                         c8 * ES_C8;
        es_c8_load(g, d);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            g[c] *= 1.0f / (float)pixels;
        }
    } else {
        es_c8_load(g,
                   es_instance_image<T>(args, at, memory, at.first + image, block.out_c8 * pixels) +
                       (c8 * pixels + pixel) * ES_C8);
    }
}

// An image of the chunk: drawn in training, in the order of the data set in evaluation.
static __device__ __forceinline__ EsFusedSample es_instance_sample(const EsFusedArguments &args,
                                                                   const EsFusedInstance &at,
                                                                   int image) {
    if (args.is_training) {
        // number and crop in one load, the erased rectangle in another where there is one
        const int4 *words =
            (const int4 *)&args
                .samples[(int64_t)at.instance * args.instance_images + at.first + image];
        int4 first = words[0], erased = {0, 0, 0, 0};
        if (args.gather.erase > 0.0f) {
            erased = words[1];
        }
        EsFusedSample drawn = {first.x,
                               {first.y, first.z, first.w, erased.x, erased.y, erased.z, erased.w}};
        return drawn;
    }
    EsFusedSample sample = {(int32_t)args.first_image + at.first + image, {0, 0, 0, 0, 0, 0, 0}};
    return sample;
}

// --- sums over the chunks of an instance ---

// Sum over the instance's chunks of element i of [chunks][length], in double: lanes take every 32nd
// chunk, then a butterfly. A warp calls together; all lanes get the sum.
static __device__ __forceinline__ double es_partials_sum(const float *partials, int n_chunks,
                                                         int length, int i) {
    double sum = 0.0;
    for (int p = (int)threadIdx.x % 32; p < n_chunks; p += 32) {
        sum += (double)partials[(int64_t)p * length + i];
    }
    return es_warp_sum(sum);
}

// Address of this chunk's sums of d_z and d_z x (es_norm_add) for block b's batch norm: [2][padded
// channels].
static __device__ __forceinline__ float *es_norm_partial(const EsFusedArguments &args,
                                                         const EsFusedInstance &at, int b) {
    int n = 2 * args.net.block[b].out_c8 * ES_C8;
    return args.norm_partials + ((int64_t)at.instance * at.n_chunks + at.chunk) * n;
}

// Sums over the instance's chunks of [chunks][2][n], in double: visit(c, first, second) once per
// channel. A warp takes four channels: a lane one of their eight sums, and every fourth chunk, so
// that all loads of a warp are under way together. n is a multiple of 8.
template <typename Visit>
static __device__ __forceinline__ void es_partials_visit(const float *partials, int n_chunks, int n,
                                                         Visit visit) {
    int lane = (int)threadIdx.x % 32, which = lane / 4 % 2;
#pragma unroll 1
    for (int c = (int)threadIdx.x / 32 * 4 + lane % 4; c < n; c += ES_FUSED_WARPS * 4) {
        double sum = 0.0;
#pragma unroll 8
        for (int p = lane / 8; p < n_chunks; p += 4) {
            sum += (double)partials[(p * 2 + which) * n + c];
        }
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 8);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 16);
        double second = __shfl_xor_sync(0xFFFFFFFFu, sum, 4);
        if (lane < 4) {
            visit(c, sum, second);
        }
    }
}

// In the last block of an instance: totals of d_z and d_z x_hat of block b, which are also the
// gradients of beta and gamma.
static __device__ void es_norm_add_partials(const EsFusedArguments &args, const EsFusedInstance &at,
                                            int b) {
    const EsFusedBlock &block = args.net.block[b];
    int n = block.out_c8 * ES_C8;
    const float *partials = args.norm_partials + (int64_t)at.instance * at.n_chunks * 2 * n;
    float *sums = args.memory[b].norm_sums + (int64_t)at.instance * 2 * n;
    float *gradients = args.gradients + at.env * args.parameter_stride;
    es_partials_visit(partials, at.n_chunks, n, [&](int c, double of_d, double of_d_x) {
        double mean = (double)args.memory[b].mean[(int64_t)at.instance * n + c];
        double inv_std = (double)args.memory[b].inv_std[(int64_t)at.instance * n + c];
        float of_x_hat = (float)((of_d_x - mean * of_d) * inv_std);
        sums[c] = (float)of_d;
        sums[n + c] = of_x_hat;
        if (c < block.n_out) {
            gradients[block.beta + c] = (float)of_d;
            gradients[block.gamma + c] = of_x_hat;
        }
    });
}

// After every chunk has written its sums (es_norm_partial): the last block of the instance adds
// them up. Every thread calls.
static __device__ void es_norm_finish_sums(const EsFusedArguments &args, const EsFusedInstance &at,
                                           int b) {
    if (es_instance_is_last(args, at)) {
        es_norm_add_partials(args, at, b);
    }
}

#endif
