// The end of a host: global average, linear layer, cross-entropy. In training also the gradients of
// both, down to the features, and the sums for the last block's batch norm.
//
// N images of a row, C channels of the last block, K classes.
#include "growth/fused_kernels.h"
#include "growth/fused_row.cuh"

template <typename T> struct HeadShared {
    EsTile tile;
    T *maps;
    float *features;   // [images][C of units]
    float *d_features; // likewise
    float *d_logits;   // [images][K]: logits first
    float *loss;       // [images][3]: loss, correct, invalid
    float *norm, *kept;
    size_t bytes;

    __host__ __device__ HeadShared(const EsFusedNet &net, int n_images, unsigned char *memory) {
        const EsFusedBlock &block = net.block[net.n_blocks - 1];
        size_t n_channels = (size_t)block.out_units * ES_FUSED_UNIT;
        EsCarve carve = {memory, 0};
        tile = {block.out_units, block.out_size, 0, block.by_out_size, block.by_out_pixels};
        maps = carve.take<T>((size_t)n_images * tile.image_units() * ES_FUSED_UNIT);
        features = carve.take<float>(n_images * n_channels);
        d_features = carve.take<float>(n_images * n_channels);
        d_logits = carve.take<float>((size_t)n_images * net.n_classes);
        loss = carve.take<float>(3 * (size_t)n_images);
        norm = carve.take<float>(4 * n_channels);
        kept = carve.take<float>(ES_FUSED_WARPS * 16);
        bytes = carve.used;
    }
};

template <typename T>
static __device__ void average_maps(const EsFusedRow &at, const HeadShared<T> &s) {
    int pixels = s.tile.pixels(), units = s.tile.units;
    for (int i = threadIdx.x; i < at.n_images * units; i += ES_FUSED_THREADS) {
        float sum[8] = {};
        for (int p = 0; p < pixels; p++) {
            float x[8];
            es_unit_load(x, s.maps + (i * pixels + p) * ES_FUSED_UNIT);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                sum[c] += x[c];
            }
        }
#pragma unroll
        for (int c = 0; c < 8; c++) {
            s.features[i * ES_FUSED_UNIT + c] = sum[c] / (float)pixels;
        }
    }
}

template <typename T>
static __device__ void compute_logits(const EsFusedArguments &args, const EsFusedRow &at,
                                      const HeadShared<T> &s) {
    int K = args.net.n_classes, stride = s.tile.units * ES_FUSED_UNIT;
    int C = args.net.block[args.net.n_blocks - 1].n_out;
    const float *parameters = es_row_parameters(args, at);
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < at.n_images * K; i += ES_FUSED_WARPS) {
        int image = i / K, k = i - image * K;
        const float *weight = parameters + args.net.head_weight + (int64_t)k * C;
        float sum = 0.0f;
        for (int c = lane; c < C; c += 32) {
            sum = fmaf(es_rounded(weight[c], T()), s.features[image * stride + c], sum);
        }
        sum = es_warp_sum(sum);
        if (lane == 0) {
            s.d_logits[i] = sum + parameters[args.net.head_bias + k];
        }
    }
}

// The first largest of K logits; a warp calls together, all lanes get its number.
static __device__ __forceinline__ int find_first_largest(const float *logits, int K) {
    int best = (int)threadIdx.x % 32;
    float largest = best < K ? logits[best] : -INFINITY;
    for (int k = best + 32; k < K; k += 32) {
        if (logits[k] > largest) {
            largest = logits[k], best = k;
        }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, largest, offset);
        int number = __shfl_xor_sync(0xFFFFFFFFu, best, offset);
        if (other > largest || (other == largest && number < best)) {
            largest = other, best = number;
        }
    }
    return best < K ? best : 0;
}

// A warp per image: loss, and logits become their gradients. A label out of range counts and adds
// nothing else.
template <typename T>
static __device__ void compare_labels(const EsFusedArguments &args, const EsFusedRow &at,
                                      const HeadShared<T> &s) {
    int K = args.net.n_classes, lane = threadIdx.x % 32;
    float scale = args.loss_scale != NULL ? args.loss_scale[at.env] : 1.0f;
    scale /= (float)args.n_images;
    for (int image = threadIdx.x / 32; image < at.n_images; image += ES_FUSED_WARPS) {
        int label = args.labels[es_row_sample(args, at, image).number], is_valid = label < K;
        float *logits = s.d_logits + image * K;
        int best = find_first_largest(logits, K);
        float largest = logits[best], of_label = logits[is_valid ? label : 0], sum = 0.0f;
        for (int k = lane; k < K; k += 32) {
            sum += expf(logits[k] - largest);
        }
        sum = es_warp_sum(sum);
        __syncwarp(); // logits are replaced by what follows
        for (int k = lane; k < K; k += 32) {
            float p = expf(logits[k] - largest) / sum;
            logits[k] = is_valid ? (p - (k == label ? 1.0f : 0.0f)) * scale : 0.0f;
        }
        if (lane == 0) {
            s.loss[3 * image] = is_valid ? logf(sum) + (largest - of_label) : 0.0f;
            s.loss[3 * image + 1] = is_valid && best == label ? 1.0f : 0.0f;
            s.loss[3 * image + 2] = is_valid ? 0.0f : 1.0f;
        }
    }
}

// The part's sums of loss and counts.
template <typename T>
static __device__ void add_losses(const EsFusedArguments &args, const EsFusedRow &at,
                                  const HeadShared<T> &s) {
    if (threadIdx.x < 3) {
        float sum = 0.0f;
        for (int image = 0; image < at.n_images; image++) {
            sum += s.loss[3 * image + threadIdx.x];
        }
        args.loss_parts[((int64_t)at.row * at.n_parts + at.part) * 3 + threadIdx.x] = sum;
    }
}

template <typename T>
static __device__ void differentiate_linear(const EsFusedArguments &args, const EsFusedRow &at,
                                            const HeadShared<T> &s) {
    int K = args.net.n_classes, stride = s.tile.units * ES_FUSED_UNIT;
    int C = args.net.block[args.net.n_blocks - 1].n_out;
    const float *weight = es_row_parameters(args, at) + args.net.head_weight;
    for (int i = threadIdx.x; i < at.n_images * stride; i += ES_FUSED_THREADS) {
        int image = i / stride, c = i % stride;
        float sum = 0.0f;
        for (int k = 0; c < C && k < K; k++) {
            sum = fmaf(s.d_logits[image * K + k], es_rounded(weight[(int64_t)k * C + c], T()), sum);
        }
        s.d_features[i] = sum;
        args.d_features[((int64_t)at.row * args.row_images + at.first + image) * stride + c] = sum;
    }
    float *part = args.weight_parts[args.net.n_blocks] +
                  ((int64_t)at.row * at.n_parts + at.part) * (int64_t)K * (C + 1);
    for (int i = threadIdx.x; i < K * (C + 1); i += ES_FUSED_THREADS) {
        int k = i < K * C ? i / C : i - K * C, c = i < K * C ? i % C : -1;
        float sum = 0.0f;
        for (int image = 0; image < at.n_images; image++) {
            float x = c >= 0 ? s.features[image * stride + c] : 1.0f;
            sum = fmaf(s.d_logits[image * K + k], x, sum);
        }
        part[i] = sum;
    }
}

// Sums of d_z and d_z x_hat over the maps that the pool's windows chose.
template <typename T>
static __device__ void sum_norm_gradients(const EsFusedArguments &args, const EsFusedRow &at,
                                          const HeadShared<T> &s, const EsNormTable &norm) {
    int b = args.net.n_blocks - 1, pixels = s.tile.pixels(), size = s.tile.size;
    const EsFusedBlock &block = args.net.block[b];
    int raw_pixels = block.size * block.size, stride = block.has_pool ? 2 : 1;
    float share = 1.0f / (float)pixels;
    es_channel_sums(
        block.out_units, at.n_images * pixels, s.kept, es_norm_part(args, at, b),
        [&](int unit, int i, float(&sums)[2][8]) {
            int image = s.tile.image_of(i), pixel = i - image * pixels;
            int row = s.tile.row_of(pixel), column = pixel - row * size;
            const T *raw =
                es_row_image<T>(args, at, args.memory[b].raw, at.first + image,
                                block.out_units * raw_pixels) +
                (unit * raw_pixels + stride * row * block.size + stride * column) * ES_FUSED_UNIT;
            float z[8], x[8];
            es_window_value(norm, unit, raw, block, z, x);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                float g =
                    s.d_features[(image * block.out_units + unit) * ES_FUSED_UNIT + c] * share;
                es_norm_add(z[c], x[c], g, sums, c);
            }
        });
}

static __device__ void finish_losses(const EsFusedArguments &args, const EsFusedRow &at) {
    int warp = (int)threadIdx.x / 32;
    if (warp >= 3) {
        return;
    }
    const float *parts = args.loss_parts + (int64_t)at.row * at.n_parts * 3;
    double total = es_parts_sum(parts, at.n_parts, 3, warp);
    if (threadIdx.x % 32 == 0) {
        if (warp == 0) {
            double mean = args.is_training ? total / (double)args.n_images : total;
            args.loss[at.row] = (float)((args.adds ? (double)args.loss[at.row] : 0.0) + mean);
        } else {
            int32_t *counts = warp == 1 ? args.n_correct : args.n_invalid;
            counts[at.row] = (args.adds ? counts[at.row] : 0) + (int32_t)total;
        }
    }
}

template <typename T>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, 2)
    fused_head_kernel(const __grid_constant__ EsFusedArguments args, int images_per_part) {
    ES_DYNAMIC_SHARED(memory);
    EsFusedRow at;
    if (!es_row_begin(args, images_per_part, ES_EVERY_ROW, at)) {
        return;
    }
    int b = args.net.n_blocks - 1;
    const EsFusedBlock &block = args.net.block[b];
    HeadShared<T> s(args.net, images_per_part, memory);
    EsNormTable norm = es_norm_table(s.norm, block.out_units);
    es_norm_load(args, at, b, norm);
    __syncthreads();
    es_load_handed_on(args, at, b, block, 0, norm, s.maps, s.tile);
    __syncthreads();
    average_maps(at, s);
    __syncthreads();
    compute_logits(args, at, s);
    __syncthreads();
    compare_labels(args, at, s);
    __syncthreads();
    add_losses(args, at, s);
    bool sums_norm = args.is_training && !es_row_mixes(args, at.row, block.slot[0]) &&
                     !es_row_mixes(args, at.row, block.slot[1]);
    if (args.is_training) {
        differentiate_linear(args, at, s);
        __syncthreads();
    }
    if (sums_norm) {
        sum_norm_gradients(args, at, s, norm);
    }
    if (es_row_is_last(args, at)) {
        finish_losses(args, at);
        if (sums_norm) {
            es_norm_add_parts(args, at, b);
        }
    }
}

extern "C" size_t es_fused_head_bytes(const EsFusedNet *net, EsDtype precision, int n_images) {
    size_t bytes = 0;
    ES_DISPATCH_FUSED(precision, T, bytes = HeadShared<T>(*net, n_images, NULL).bytes);
    return bytes;
}

extern "C" void es_fused_head(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                              int images_per_part) {
    EsLaunch launch(stream, "fused_head");
    int64_t n_parts = es_ceil_div(args->n_images, images_per_part);
    size_t bytes = es_fused_head_bytes(&args->net, precision, images_per_part);
    ES_DISPATCH_FUSED(precision, T,
                      launch.start_shared(fused_head_kernel<T>,
                                          dim3((unsigned)(args->rows.n_rows * n_parts)),
                                          ES_FUSED_THREADS, bytes, *args, images_per_part));
}
