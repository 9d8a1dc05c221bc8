// Forward through one block of the host: load the images or the output of the block before,
// convolve, keep the raw output and the pooled values, and in training its statistics.
// Its readers normalise, rectify and run seeds.
#include "growth/fused/fused_images.cuh"
#include "growth/fused/fused_kernels.h"
#include "growth/fused/fused_names.h"
#include "growth/fused/fused_raw.cuh"
#include "tensor/device_cuda.h"

template <typename T, int IN, int OUT, int SIZE> struct ForwardShared {
    EsTile in_tile, out_tile;
    T *in, *out; // out, offsets: where the shape is not known
    int *offsets;
    float *norm; // of the block before
    float *kept;
    size_t bytes;

    __host__ __device__ ForwardShared(const EsFusedNet &net, int b, int n_images,
                                      unsigned char *memory) {
        const EsFusedBlock block = EsBlockShape<IN, OUT, SIZE>::of(net.block[b]);
        EsSharedLayout layout = {memory, 0};
        in_tile = {block.in_c8, block.size, block.kernel / 2, block.by_size, block.by_pixels};
        out_tile = {block.out_c8, block.size, 0, block.by_size, block.by_pixels};
        in = layout.take<T>((size_t)n_images * in_tile.image_c8() * ES_C8);
        if (IN == 0) {
            out = layout.take<T>((size_t)n_images * out_tile.image_c8() * ES_C8);
            offsets = layout.take<int>(es_tap_c8(in_tile, block.kernel) + 1);
        }
        norm = layout.take<float>(4 * block.in_c8 * ES_C8);
        kept = layout.take<float>(ES_FUSED_WARPS * 2 * 16);
        bytes = layout.used;
    }
};

// In the last block of an instance: mean and deviation of the batch from the sums of x and x^2;
// running statistics move.
static __device__ void finish_statistics(const EsFusedArguments &args, const EsFusedInstance &at,
                                         int b) {
    const EsFusedBlock &block = args.net.block[b];
    int n = block.out_c8 * ES_C8;
    const float *partials = args.norm_partials + (int64_t)at.instance * at.n_chunks * 2 * n;
    float *states = args.states + at.env * args.state_stride;
    double count = (double)args.n_images * block.size * block.size;
    es_partials_visit(partials, at.n_chunks, n, [&](int c, double sum, double sum_squares) {
        double mean = sum / count, squares = sum_squares / count;
        // NaN must not become 0
        double variance = squares - mean * mean;
        variance = variance < 0.0 ? 0.0 : variance;
        args.memory[b].mean[(int64_t)at.instance * n + c] = (float)mean;
        args.memory[b].inv_std[(int64_t)at.instance * n + c] =
            (float)(1.0 / sqrt(variance + (double)ES_FUSED_EPSILON));
        if (c < block.n_out) {
            double unbiased = variance * count / (count > 1.0 ? count - 1.0 : 1.0);
            float *running_mean = &states[block.running_mean + c];
            float *running_variance = &states[block.running_variance + c];
            *running_mean = (float)(0.9 * (double)*running_mean + 0.1 * mean);
            *running_variance = (float)(0.9 * (double)*running_variance + 0.1 * unbiased);
        }
    });
}

// The pooled values of each window of the raw outputs in s.out; see fused_raw.cuh.
template <typename T, typename Shared>
static __device__ void store_pooled(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                                    const Shared &s) {
    const EsFusedBlock &block = args.net.block[b];
    const float *gamma = es_instance_parameters(args, at) + block.gamma;
    int size = block.out_size, pixels = size * size, per_image = block.out_c8 * pixels;
    T *pooled = es_instance_image<T>(args, at, args.memory[b].pooled, at.first, per_image);
    int count = at.n_images * pixels;
    EsThreadMap mine = es_thread_map(count);
    for (int c8 = mine.c8; c8 < block.out_c8; c8 += mine.c8_step) {
        float sign[8];
#pragma unroll
        for (int c = 0; c < 8; c++) {
            int channel = c8 * ES_C8 + c;
            float g = channel < block.n_out ? gamma[channel] : 1.0f;
            sign[c] = g == 0.0f ? 0.0f : g < 0.0f ? -1.0f : 1.0f;
        }
        for (int i = mine.first; i < count; i += mine.step) {
            int image = es_divide(i, pixels, block.by_out_pixels), pixel = i - image * pixels;
            int row = es_divide(pixel, size, block.by_out_size), column = pixel - row * size;
            float x[4][8];
            es_window_load(s.out + s.out_tile.at(image, c8, 2 * row, 2 * column) * ES_C8,
                           block.size, x);
#pragma unroll
            for (int k = 1; k < 4; k++) {
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    bool wins = es_is_larger(sign[c] * x[k][c], sign[c] * x[0][c]);
                    x[0][c] = wins ? x[k][c] : x[0][c];
                }
            }
            es_c8_store(pooled + (image * per_image + c8 * pixels + pixel) * ES_C8, x[0]);
        }
    }
}

// Any shape: the raw output goes through a tile in shared memory.
template <typename T, typename Shared>
static __device__ void convolve_any(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                                    const Shared &s) {
    const EsFusedBlock &block = args.net.block[b];
    es_tile_convolve(s.in, s.in_tile, s.offsets, es_tap_c8(s.in_tile, block.kernel),
                     args.packed + at.env * args.net.packed_bytes + block.packed_forward, s.out,
                     s.out_tile, at.n_images, args.is_tf32);
    __syncthreads();
    if (block.has_pool) {
        store_pooled<T>(args, at, b, s);
    }
    if (!args.is_training) {
        es_store_maps(args, at, s.out, s.out_tile, args.memory[b].raw);
        return;
    }
    int pixels = s.out_tile.pixels(), per_image = block.out_c8 * pixels;
    T *raw = es_instance_image<T>(args, at, args.memory[b].raw, at.first, per_image);
    es_channel_sums(block.out_c8, at.n_images * pixels, s.kept, es_norm_partial(args, at, b),
                    [&](int c8, int i, float(&sums)[2][8]) {
                        int image = s.out_tile.image_of(i);
                        int from = image * (per_image - pixels) + c8 * pixels + i;
                        float x[8];
                        es_c8_copy(raw + from * ES_C8, s.out + from * ES_C8);
                        es_c8_load(x, s.out + from * ES_C8);
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            sums[0][c] += x[c];
                            sums[1][c] = fmaf(x[c], x[c], sums[1][c]);
                        }
                    });
}

template <typename T, int IN, int OUT, int SIZE, typename Shared>
static __device__ __forceinline__ void
convolve_known(const EsFusedArguments &args, const EsFusedInstance &at, int b, const Shared &s) {
    using Raw = EsRawShape<IN, OUT, SIZE>;
    const EsFusedBlock &block = args.net.block[b];
    constexpr int PIXELS = SIZE * SIZE;
    EsRawSums<Raw::C8> sums = {};
    es_raw_convolve<T, IN, OUT, SIZE>(
        s.in, args.packed + at.env * args.net.packed_bytes + block.packed_forward,
        es_instance_parameters(args, at) + block.gamma, block.n_out, at.n_images,
        es_instance_image<T>(args, at, args.memory[b].raw, at.first, OUT * PIXELS),
        es_instance_image<T>(args, at, args.memory[b].pooled, at.first, OUT * PIXELS / 4), sums);
    if (args.is_training) {
        es_raw_sum<OUT, Raw::GROUPS>(sums, s.kept, es_norm_partial(args, at, b));
    }
}

template <typename T, int IN, int OUT, int SIZE>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, 3)
    fused_forward_kernel(const __grid_constant__ EsFusedArguments args, int b,
                         int images_per_chunk) {
    ES_DYNAMIC_SHARED(memory);
    EsFusedInstance at;
    if (!es_instance_begin(args, images_per_chunk, b, at)) {
        return;
    }
    using Shape = EsBlockShape<IN, OUT, SIZE>;
    const EsFusedBlock block = Shape::of(args.net.block[b]);
    ForwardShared<T, IN, OUT, SIZE> s(args.net, b, images_per_chunk, memory);
    EsNormTable norm = es_norm_table(s.norm, block.in_c8);
    es_tile_clear_border(s.in, s.in_tile, at.n_images);
    if constexpr (IN == 0) {
        es_tap_offsets(s.offsets, s.in_tile, block.kernel);
    }
    if (b > 0) {
        es_norm_load(args, at, b - 1, norm);
        __syncthreads();
        es_load_block_output(args, at, b - 1, Shape::before(args.net.block[b - 1]), 0, norm, s.in,
                             s.in_tile);
    } else {
        es_load_images(args, at, s.in, s.in_tile);
    }
    __syncthreads();
    if constexpr (IN == 0) {
        convolve_any<T>(args, at, b, s);
    } else {
        convolve_known<T, IN, OUT, SIZE>(args, at, b, s);
    }
    if (args.is_training && es_instance_is_last(args, at)) {
        finish_statistics(args, at, b);
    }
}

extern "C" EsStatus es_fused_shared_limit(const EsDevice *device, size_t *bytes) {
    int limit = 0;
    *bytes = 0;
    ES_CUDA_TRY(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                       es_device_info(device)->index));
    *bytes = (size_t)limit;
    return ES_STATUS_OK;
}

extern "C" size_t es_fused_forward_bytes(const EsFusedNet *net, EsDtype precision, int block,
                                         int n_images) {
    size_t bytes = 0;
    ES_DISPATCH_SHAPE(
        *net, block, precision,
        ES_DISPATCH_FUSED(precision, T,
                          bytes =
                              ForwardShared<T, IN, OUT, SIZE>(*net, block, n_images, NULL).bytes));
    return bytes;
}

// Kernels for known shapes exist in 16-bit types alone.
template <typename T, int IN, int OUT, int SIZE>
static void start(EsLaunch &launch, dim3 grid, size_t bytes, const EsFusedArguments *args,
                  int block, int images_per_chunk) {
    if constexpr (IN == 0 || sizeof(T) == 2) {
        launch.start_shared(fused_forward_kernel<T, IN, OUT, SIZE>, grid, ES_FUSED_THREADS, bytes,
                            *args, block, images_per_chunk);
    }
}

extern "C" void es_fused_forward(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                                 int block, int images_per_chunk) {
    EsLaunch launch(stream, es_fused_block_name(ES_FUSED_PASS_FORWARD, block));
    int64_t n_chunks = es_ceil_div(args->n_images, images_per_chunk);
    size_t bytes = es_fused_forward_bytes(&args->net, precision, block, images_per_chunk);
    int64_t n_instances = es_point_instances(args, args->net.block[block].depth);
    dim3 grid((unsigned)(n_instances * n_chunks));
    ES_DISPATCH_SHAPE(args->net, block, precision,
                      ES_DISPATCH_FUSED(precision, T,
                                        (start<T, IN, OUT, SIZE>(launch, grid, bytes, args, block,
                                                                 images_per_chunk))));
}
