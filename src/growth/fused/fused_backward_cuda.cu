// Backward through one block of the host: from the gradient of its output (or of its ReLU, where a
// seed before the pool mixes) through pool, ReLU and batch norm to the raw output; then wgrad, and
// dgrad of the block's input, with the sums that the next batch norm down needs.
//
// d_x = scale (d_z - sum(d_z) / M - x_hat sum(d_z x_hat) / M), M = N H W.
#include "growth/fused/fused_convolve.cuh"
#include "growth/fused/fused_dgrad.cuh"
#include "growth/fused/fused_images.cuh"
#include "growth/fused/fused_kernels.h"
#include "growth/fused/fused_names.h"
#include "growth/fused/fused_wgrad.cuh"
#include "growth/fused/fused_window_gradient.cuh"

template <typename T, int IN, int OUT, int SIZE> struct BackwardShared {
    EsTile in_tile, d_tile, d_in_tile;
    T *in; // block input; for unknown shapes, later its gradient
    T *d;  // gradient of the raw output
    T *zeros;
    int *in_offsets, *d_offsets;
    float *norm, *norm_before;
    float *slopes; // EsNormGradient's table
    float *scratch, *kept;
    int *is_summed; // no seed mixes at the block before: the sums for its norm are made here
    size_t bytes;

    __host__ __device__ BackwardShared(const EsFusedNet &net, int b, int n_images,
                                       unsigned char *memory) {
        const EsFusedBlock block = EsBlockShape<IN, OUT, SIZE>::of(net.block[b]);
        EsSharedLayout layout = {memory, 0};
        int border = block.kernel / 2;
        in_tile = {block.in_c8, block.size, border, block.by_size, block.by_pixels};
        d_in_tile = {block.in_c8, block.size, 0, block.by_size, block.by_pixels};
        d_tile = {block.out_c8, block.size, border, block.by_size, block.by_pixels};
        in = layout.take<T>((size_t)n_images * in_tile.image_c8() * ES_C8);
        d = layout.take<T>((size_t)n_images * d_tile.image_c8() * ES_C8);
        zeros = layout.take<T>(ES_C8);
        in_offsets = layout.take<int>(es_tap_c8(in_tile, block.kernel) + 1);
        d_offsets = layout.take<int>(es_tap_c8(d_tile, block.kernel) + 1);
        norm = layout.take<float>(4 * block.out_c8 * ES_C8);
        norm_before = layout.take<float>(4 * block.in_c8 * ES_C8);
        slopes = layout.take<float>(3 * block.out_c8 * ES_C8);
        scratch = layout.take<float>(
            es_weight_scratch_bytes(es_tap_c8(in_tile, block.kernel), block.out_c8) /
            sizeof(float));
        kept = layout.take<float>(ES_FUSED_WARPS * 32);
        is_summed = layout.take<int>(1);
        bytes = layout.used;
    }
};

// Takes the gradient of the ReLU's output, pixel by pixel.
template <typename T, typename Shared>
static __device__ __forceinline__ void fill_from_relu(const EsFusedArguments &args,
                                                      const EsFusedInstance &at, int b,
                                                      const EsFusedBlock &block, const Shared &s,
                                                      const EsNormTable &norm, void *gradient) {
    int pixels = block.size * block.size, per_image = block.out_c8 * pixels;
    int count = at.n_images * pixels;
    const T *raw = es_instance_image<T>(args, at, args.memory[b].raw, at.first, per_image);
    EsThreadMap mine = es_thread_map(count);
    for (int c8 = mine.c8; c8 < block.out_c8; c8 += mine.c8_step) {
        EsNormGradient backward(norm, s.slopes, block.out_c8 * ES_C8, c8);
        for (int i = mine.first; i < count; i += mine.step) {
            int image = s.d_tile.image_of(i), pixel = i - image * pixels;
            int from = (image * per_image + c8 * pixels + pixel) * ES_C8;
            float x[8], g[8];
            es_c8_load(x, raw + from);
            // of full size, unlike the block's output; the last block has no d_out (NULL)
            if (gradient != NULL && gradient == args.memory[b].d_relu) {
                es_c8_load(g, es_instance_image<T>(args, at, gradient, at.first, per_image) + from);
            } else {
                es_load_gradient<T>(args, at, b, block, gradient, image, c8, pixel, g);
            }
#pragma unroll
            for (int c = 0; c < 8; c++) {
                g[c] = backward.whole(x[c], g[c], c);
            }
            es_c8_store(s.d + s.d_tile.at_pixel(image, c8, pixel) * ES_C8, g);
        }
    }
}

// Takes the gradient of the pooled map: a window's gradient belongs to its winner. IS_CLASSIFIERS:
// the gradient is the classifier's, of the mean over the map. The branch stands outside of the
// loop, so that all loads of a window are on their way at once.
template <bool IS_CLASSIFIERS, typename T, typename Shared>
static __device__ __forceinline__ void fill_from_pooled(const EsFusedArguments &args,
                                                        const EsFusedInstance &at, int b,
                                                        const EsFusedBlock &block, const Shared &s,
                                                        const EsNormTable &norm, void *gradient) {
    int size = block.out_size, pixels = size * size, count = at.n_images * pixels;
    int raw_pixels = block.size * block.size, per_image = block.out_c8 * raw_pixels;
    const T *raw = es_instance_image<T>(args, at, args.memory[b].raw, at.first, per_image);
    const T *d_map = es_instance_image<T>(args, at, gradient, at.first, block.out_c8 * pixels);
    const float *d_mean =
        es_instance_image<float>(args, at, args.d_features, at.first, block.out_c8);
    EsThreadMap mine = es_thread_map(count);
    for (int c8 = mine.c8; c8 < block.out_c8; c8 += mine.c8_step) {
        EsNormGradient backward(norm, s.slopes, block.out_c8 * ES_C8, c8);
        for (int i = mine.first; i < count; i += mine.step) {
            int image = es_divide(i, pixels, block.by_out_pixels), pixel = i - image * pixels;
            int row = es_divide(pixel, size, block.by_out_size), column = pixel - row * size;
            int plane = image * block.out_c8 + c8;
            int first = plane * raw_pixels + 2 * row * block.size + 2 * column;
            float g[8];
            if (IS_CLASSIFIERS) {
                es_c8_load(g, d_mean + plane * ES_C8);
            } else {
                es_c8_load(g, d_map + (plane * pixels + pixel) * ES_C8);
            }
#pragma unroll
            for (int c = 0; IS_CLASSIFIERS && c < 8; c++) {
                g[c] *= 1.0f / (float)pixels;
            }
            es_window_gradient(raw + first * ES_C8, block.size, backward, g,
                               s.d + s.d_tile.at(image, c8, 2 * row, 2 * column) * ES_C8,
                               s.d_tile.side());
        }
    }
}

template <typename T, typename Shared>
static __device__ __forceinline__ void
fill_gradient(const EsFusedArguments &args, const EsFusedInstance &at, int b,
              const EsFusedBlock &block, const Shared &s, const EsNormTable &norm) {
    const EsFusedMemory &memory = args.memory[b];
    void *pooled =
        es_instance_mixes(args, at.instance, block.slot[1]) ? memory.d_middle : memory.d_out;
    if (es_instance_mixes(args, at.instance, block.slot[0])) {
        fill_from_relu<T>(args, at, b, block, s, norm, memory.d_relu);
    } else if (!block.has_pool) {
        fill_from_relu<T>(args, at, b, block, s, norm, pooled);
    } else if (b == args.net.n_blocks - 1 && pooled == memory.d_out) {
        fill_from_pooled<true, T>(args, at, b, block, s, norm, pooled);
    } else {
        fill_from_pooled<false, T>(args, at, b, block, s, norm, pooled);
    }
}

// --- dgrad of the block input ---
//
// Into d_out of the block before, whose table is `norm`; where is_summed, with this chunk's sums
// for its norm.

template <typename T, typename Shared>
static __device__ void read_any(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                                const Shared &s, const EsNormTable &norm) {
    const EsFusedBlock &block = args.net.block[b];
    __syncthreads(); // the gradient overwrites the input
    es_tile_convolve(s.d, s.d_tile, s.d_offsets, es_tap_c8(s.d_tile, block.kernel),
                     args.packed + at.env * args.net.packed_bytes + block.packed_backward, s.in,
                     s.d_in_tile, at.n_images, args.is_tf32);
    __syncthreads();
    es_store_maps(args, at, s.in, s.d_in_tile, args.memory[b - 1].d_out);
    if (!*s.is_summed) {
        return;
    }
    int pixels = s.d_in_tile.pixels(), per_image = block.in_c8 * pixels;
    const T *pooled =
        es_instance_image<T>(args, at, args.memory[b - 1].pooled, at.first, per_image);
    es_channel_sums(block.in_c8, at.n_images * pixels, s.kept, es_norm_partial(args, at, b - 1),
                    [&](int c8, int i, float(&sums)[2][8]) {
                        int image = s.d_in_tile.image_of(i);
                        int from = (image * (per_image - pixels) + c8 * pixels + i) * ES_C8;
                        float z[8], x[8], g[8];
                        es_c8_load(x, pooled + from);
                        es_norm_apply(norm, c8, x, z);
                        es_c8_load(g, s.in + from);
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            es_norm_add(z[c], x[c], g[c], sums, c);
                        }
                    });
}

template <typename T, typename Read, typename Shared>
static __device__ __forceinline__ void read_known(const EsFusedArguments &args,
                                                  const EsFusedInstance &at, int b, const Shared &s,
                                                  const EsNormTable &norm) {
    constexpr int PER_IMAGE = Read::IN * Read::PIXELS;
    const EsFusedMemory &before = args.memory[b - 1];
    EsRawSums<Read::C8> sums = {};
    es_dgrad_convolve<T, Read>(
        s.d, args.packed + at.env * args.net.packed_bytes + args.net.block[b].packed_backward, norm,
        at.n_images, es_instance_image<T>(args, at, before.pooled, at.first, PER_IMAGE),
        es_instance_image<T>(args, at, before.d_out, at.first, PER_IMAGE), sums);
    if (*s.is_summed) {
        es_raw_sum<Read::IN, Read::GROUPS>(sums, s.kept, es_norm_partial(args, at, b - 1));
    }
}

// Whole rows of eight by all channel groups where that leaves no warp idle, else smaller pieces. A
// known block of one channel group is the first (EsBlockShape::fits) and never comes here.
template <typename T, int IN, int OUT, int SIZE, typename Shared>
static __device__ __forceinline__ void read_gradient(const EsFusedArguments &args,
                                                     const EsFusedInstance &at, int b,
                                                     const Shared &s, const EsNormTable &norm) {
    if constexpr (IN == 0) {
        read_any<T>(args, at, b, s, norm);
    } else if constexpr (OUT > 1) {
        using Large = EsReadShape<OUT, IN, SIZE, IN, 8>;
        using Small = EsReadShape<OUT, IN, SIZE, 1, 4>;
        if (IN == 1 || at.n_images * Large::SETS > ES_FUSED_WARPS / 2) {
            read_known<T, Large>(args, at, b, s, norm);
        } else {
            read_known<T, Small>(args, at, b, s, norm);
        }
    }
}

// Loads tables, borders and the block input.
template <typename T, int IN, typename Shape, typename Shared>
static __device__ __forceinline__ void
prepare(const EsFusedArguments &args, const EsFusedInstance &at, int b, const EsFusedBlock &block,
        const Shared &s, const EsNormTable &norm, const EsNormTable &norm_before) {
    int n = block.out_c8 * ES_C8;
    float per_pixel = 1.0f / ((float)args.n_images * (float)(block.size * block.size));
    const float *sums = args.memory[b].norm_sums + (int64_t)at.instance * 2 * n;
    es_tile_clear_border(s.in, s.in_tile, at.n_images);
    es_tile_clear_border(s.d, s.d_tile, at.n_images);
    if constexpr (IN == 0) {
        es_tap_offsets(s.in_offsets, s.in_tile, block.kernel);
        es_tap_offsets(s.d_offsets, s.d_tile, block.kernel);
        if (threadIdx.x == 0) {
            es_c8_zero(s.zeros);
        }
    }
    es_norm_load(args, at, b, norm);
    for (int c = threadIdx.x; c < n; c += ES_FUSED_THREADS) {
        // the same thread wrote the table's entry
        float slope = -norm.scale[c] * (sums[n + c] * per_pixel) * norm.inv_std[c];
        float level = -norm.scale[c] * (sums[c] * per_pixel) - slope * norm.mean[c];
        EsNormGradient::write(s.slopes, n, c, slope, level, norm.scale[c] > 0.0f);
    }
    if (b > 0) {
        es_norm_load(args, at, b - 1, norm_before);
        if (threadIdx.x == 0) {
            const EsFusedBlock &before = args.net.block[b - 1];
            *s.is_summed = !es_instance_mixes(args, at.instance, before.slot[0]) &&
                           !es_instance_mixes(args, at.instance, before.slot[1]);
        }
    }
    __syncthreads();
    if (b > 0) {
        es_load_block_output(args, at, b - 1, Shape::before(args.net.block[b - 1]), 0, norm_before,
                             s.in, s.in_tile);
    } else {
        es_load_images(args, at, s.in, s.in_tile);
    }
    fill_gradient<T>(args, at, b, block, s, norm);
    __syncthreads();
}

template <typename T, int IN, int OUT, int SIZE>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, 2)
    fused_backward_kernel(const __grid_constant__ EsFusedArguments args, int b,
                          int images_per_chunk) {
    ES_DYNAMIC_SHARED(memory);
    EsFusedInstance at;
    if (!es_instance_begin(args, images_per_chunk, ES_EVERY_ROW, at)) {
        return;
    }
    using Shape = EsBlockShape<IN, OUT, SIZE>;
    const EsFusedBlock block = Shape::of(args.net.block[b]);
    BackwardShared<T, IN, OUT, SIZE> s(args.net, b, images_per_chunk, memory);
    EsNormTable norm = es_norm_table(s.norm, block.out_c8);
    EsNormTable norm_before = es_norm_table(s.norm_before, block.in_c8);
    prepare<T, IN, Shape>(args, at, b, block, s, norm, norm_before);
    int n_taps = es_tap_c8(s.in_tile, block.kernel);
    float *partial = args.weight_partials[b] + ((int64_t)at.instance * at.n_chunks + at.chunk) *
                                                   es_weight_partial_length(n_taps, block.out_c8);
    if constexpr (IN > 0) {
        es_tile_wgrad(EsKnownMaps<IN, OUT, SIZE>(), s.in, s.d, at.n_images, s.scratch, partial);
    } else {
        es_tile_wgrad(s.in, s.in_tile, s.in_offsets, n_taps, s.d, s.d_tile, at.n_images, s.zeros,
                      s.scratch, partial, args.is_tf32);
    }
    if (b == 0) {
        return;
    }
    // so that no later address is kept in registers through the products above
    asm volatile("" : "+r"(at.instance), "+r"(at.chunk));
    read_gradient<T, IN, OUT, SIZE>(args, at, b, s, norm_before);
    if (*s.is_summed) {
        es_norm_finish_sums(args, at, b - 1);
    }
}

extern "C" size_t es_fused_backward_bytes(const EsFusedNet *net, EsDtype precision, int block,
                                          int n_images) {
    size_t bytes = 0;
    ES_DISPATCH_FUSED(precision, T,
                      bytes = BackwardShared<T, 0, 0, 0>(*net, block, n_images, NULL).bytes);
    return bytes;
}

// Kernels for known shapes exist in 16-bit types alone.
template <typename T, int IN, int OUT, int SIZE>
static void start(EsLaunch &launch, dim3 grid, size_t bytes, const EsFusedArguments *args,
                  int block, int images_per_chunk) {
    if constexpr (IN == 0 || sizeof(T) == 2) {
        launch.start_shared(fused_backward_kernel<T, IN, OUT, SIZE>, grid, ES_FUSED_THREADS, bytes,
                            *args, block, images_per_chunk);
    }
}

extern "C" void es_fused_backward(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                                  int block, int images_per_chunk) {
    EsLaunch launch(stream, es_fused_block_name(ES_FUSED_PASS_BACKWARD, block));
    int64_t n_chunks = es_ceil_div(args->n_images, images_per_chunk);
    size_t bytes = es_fused_backward_bytes(&args->net, precision, block, images_per_chunk);
    dim3 grid((unsigned)(args->instances.n_instances * n_chunks));
    ES_DISPATCH_SHAPE(args->net, block, precision,
                      ES_DISPATCH_FUSED(precision, T,
                                        (start<T, IN, OUT, SIZE>(launch, grid, bytes, args, block,
                                                                 images_per_chunk))));
}
