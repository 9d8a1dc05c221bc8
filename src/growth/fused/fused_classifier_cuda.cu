// The end of a host: global average, linear layer, cross-entropy. In training also the gradients of
// both, down to the features, and the sums for the last block's batch norm.
//
// A warp takes an image from its maps to the gradients of its features; barriers stand only before
// the first image and after the last. The gradient of a feature is the same for all pixels of its
// map: so the norm's sums need the number of a map's pixels that the ReLU let through, and the sum
// of their raw values, which come with the average.
//
// N images of an instance, C channels of the last block, K classes.
#include "growth/fused/fused_instance.cuh"
#include "growth/fused/fused_kernels.h"

// --- maps of the classifier ---

// The classifier's input from an image: the average of every map of the last block, and the values
// that go into the sums for that block's norm. A warp takes an image, eight lanes a channel group
// of it.

#define ES_CLASSIFIER_C8_LANES 8

// Sums over the eight lanes that share a channel group: lane c of them gets that of v[c].
static __device__ __forceinline__ float es_classifier_sum_lanes(float (&v)[8]) {
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
        bool is_upper = threadIdx.x & half;
#pragma unroll
        for (int c = 0; c < half; c++) {
            float mine = is_upper ? v[c + half] : v[c];
            v[c] = mine + __shfl_xor_sync(0xFFFFFFFFu, is_upper ? v[c] : v[c + half], half);
        }
    }
    return v[0];
}

// The output of the last block of an instance.
template <typename T> struct EsClassifierMaps {
    const T *maps; // of the chunk's first image
    bool is_mixed; // made by a seed; else raw values of the block, as pooled

    __device__ EsClassifierMaps(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                                const EsFusedBlock &block) {
        const EsFusedMemory &memory = args.memory[b];
        int n_c8 = block.out_c8 * block.out_size * block.out_size;
        is_mixed = true;
        if (es_instance_mixes(args, at.instance, block.slot[1])) {
            maps = es_instance_shared<T>(args, at, memory.out,
                                         args.net.place[block.slot[1]].depth + 1, n_c8);
        } else if (es_instance_mixes(args, at.instance, block.slot[0])) {
            maps = es_instance_shared<T>(args, at, memory.middle,
                                         args.net.place[block.slot[0]].depth + 1, n_c8);
        } else {
            is_mixed = false;
            maps = es_instance_shared<T>(args, at, memory.pooled, args.net.block[b].depth, n_c8);
        }
    }
};

// The last block's norm; nothing is left to do to maps that a seed made.
static __device__ __forceinline__ void
es_classifier_norm_load(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                        bool is_mixed, const EsNormTable &norm, int n_channels) {
    if (!is_mixed) {
        es_norm_load(args, at, b, norm);
        return;
    }
    for (int c = threadIdx.x; c < n_channels; c += ES_FUSED_THREADS) {
        norm.scale[c] = 1.0f;
        norm.shift[c] = 0.0f;
    }
}

// A lane's sums over one channel group's pixels, by channel.
struct EsClassifierSums {
    float all[8];    // of the block output
    float n_open[8]; // pixels that pass the ReLU; NaN passes. Means nothing in mixed rows,
    float open[8];   // and the sum of their raw values
};

// One pixel of one channel group of an image.
template <typename T>
static __device__ __forceinline__ void
es_classifier_add_pixel(const EsClassifierMaps<T> &from, const EsTile &tile, const EsNormC8 &norm,
                        int image, int c8, int pixel, EsClassifierSums &sums) {
    float z[8], x[8];
    es_c8_load(x, from.maps + ((image * tile.n_c8 + c8) * tile.pixels() + pixel) * ES_C8);
    norm.apply(x, z);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        bool passes = from.is_mixed || !(z[c] <= 0.0f);
        sums.all[c] += passes ? z[c] : 0.0f;
        sums.n_open[c] += passes ? 1.0f : 0.0f;
        sums.open[c] += passes ? x[c] : 0.0f;
    }
}

// Averages of an image's maps, and the inputs of the norm's sums: [2][channels], of
// EsClassifierSums. A warp takes four channel groups at a time.
template <typename T>
static __device__ __forceinline__ void
es_classifier_average(const EsClassifierMaps<T> &from, const EsTile &tile, const EsNormTable &norm,
                      int image, float *features, float *open) {
    int lane = threadIdx.x % 32, pixels = tile.pixels();
    int n_channels = tile.n_c8 * ES_C8;
    for (int first = 0; first < tile.n_c8; first += 32 / ES_CLASSIFIER_C8_LANES) {
        int c8 = first + lane / ES_CLASSIFIER_C8_LANES;
        EsClassifierSums sums = {};
        EsNormC8 coefficients(norm, c8 < tile.n_c8 ? c8 : 0);
        for (int turn = 0; turn < pixels; turn += ES_CLASSIFIER_C8_LANES) {
            int pixel = turn + lane % ES_CLASSIFIER_C8_LANES;
            if (c8 < tile.n_c8 && pixel < pixels) {
                es_classifier_add_pixel(from, tile, coefficients, image, c8, pixel, sums);
            }
        }
        float total = es_classifier_sum_lanes(sums.all),
              n_open = es_classifier_sum_lanes(sums.n_open);
        float of_open = es_classifier_sum_lanes(sums.open);
        if (c8 < tile.n_c8) {
            int channel = first * ES_C8 + lane;
            features[channel] = total / (float)pixels;
            open[channel] = n_open;
            open[n_channels + channel] = of_open;
        }
    }
}

// --- kernels ---

// Shapes that the kernel is compiled for: cifar_baseline's last block in 16 bits, and everything
// else.
struct BaselineClassifier {
    using Shape = EsBlockShape<2, 4, 8>;
    static constexpr bool IS_STAGED = true; // the linear layer's weights come into shared memory
    static constexpr int N_SHARING = 4;     // thread blocks on a multiprocessor
};
struct AnyClassifier {
    using Shape = EsBlockShape<0, 0, 0>;
    static constexpr bool IS_STAGED = false;
    static constexpr int N_SHARING = 2;
};

static __host__ __device__ __forceinline__ int padded_classes(const EsFusedNet &net) {
    return (net.n_classes + 3) / 4 * 4;
}

// From one class's weights to the next's: four more than a power of two keep the lanes, a class
// each, out of each other's banks.
static __host__ __device__ __forceinline__ int weight_stride(int n_channels) {
    return n_channels + 4;
}

template <typename Classifier> struct ClassifierShared {
    int n_channels;   // padded
    int n_classes;    // padded
    float *weight;    // [classes][weight_stride], rounded; where staged
    float *features;  // [images][channels]
    float *d_logits;  // [images][classes]: logits first
    float *losses;    // [images][3]: sum of exponentials, largest logit less the label's, outcome
    float *open;      // [warps][2][channels] of an image: pixels that pass the ReLU, sum of raw
    float *norm_sums; // [warps][2][channels] over a warp's images
    float *norm;
    size_t bytes;

    __host__ __device__ ClassifierShared(const EsFusedNet &net, int n_images,
                                         unsigned char *memory) {
        const EsFusedBlock block = Classifier::Shape::of(net.block[net.n_blocks - 1]);
        n_channels = block.out_c8 * ES_C8;
        n_classes = padded_classes(net);
        size_t n_weights = (size_t)n_classes * (size_t)weight_stride(n_channels);
        EsSharedLayout layout = {memory, 0};
        // those of a size known when compiled first
        norm = layout.take<float>(4 * (size_t)n_channels);
        norm_sums = layout.take<float>(2 * ES_FUSED_WARPS * (size_t)n_channels);
        open = layout.take<float>(2 * ES_FUSED_WARPS * (size_t)n_channels);
        features = layout.take<float>((size_t)n_images * n_channels);
        losses = layout.take<float>(3 * (size_t)n_images);
        weight = Classifier::IS_STAGED ? layout.take<float>(n_weights) : NULL;
        d_logits = layout.take<float>((size_t)n_images * n_classes);
        bytes = layout.used;
    }
};

// --- the linear layer's weights ---

// Of one instance, rounded to T; 0 for classes and channels that do not exist.
template <typename T, bool IS_STAGED> struct ClassifierWeights {
    const float *staged; // shared memory
    const float *device;
    int n_channels, K, C;

    __device__ float from_device(int k, int c) const {
        return k < K && c < C ? es_rounded(device[k * C + c], T()) : 0.0f;
    }
    __device__ float at(int k, int c) const {
        return IS_STAGED ? staged[k * weight_stride(n_channels) + c] : from_device(k, c);
    }
    // Product of class k with an image's features.
    __device__ float product(int k, const float *features) const {
        float sums[4] = {};
        for (int c = 0; c < n_channels; c += 4) {
            float4 w = IS_STAGED ? *(const float4 *)(staged + k * weight_stride(n_channels) + c)
                                 : make_float4(from_device(k, c), from_device(k, c + 1),
                                               from_device(k, c + 2), from_device(k, c + 3));
            float4 x = *(const float4 *)(features + c);
            sums[0] = fmaf(w.x, x.x, sums[0]), sums[1] = fmaf(w.y, x.y, sums[1]);
            sums[2] = fmaf(w.z, x.z, sums[2]), sums[3] = fmaf(w.w, x.w, sums[3]);
        }
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    // Every thread calls; a barrier must follow.
    __device__ void stage(float *to, int n_classes) const {
        for (int k = (int)threadIdx.x / 32; k < n_classes; k += ES_FUSED_WARPS) {
            for (int c = (int)threadIdx.x % 32; c < n_channels; c += 32) {
                to[k * weight_stride(n_channels) + c] = from_device(k, c);
            }
        }
    }
};

// --- loss ---

// Logits of an image; all lanes get the largest and the number of the first that is as large.
template <typename Weights>
static __device__ __forceinline__ int find_logits(const Weights &weights, const float *bias,
                                                  const float *features, int n_classes,
                                                  float *logits, float &largest) {
    int K = weights.K, best = K;
    float mine = -INFINITY;
#pragma unroll 1
    for (int k = (int)threadIdx.x % 32; k < n_classes; k += 32) {
        float logit = k < K ? weights.product(k, features) + bias[k] : -INFINITY;
        logits[k] = logit;
        if (logit > mine) {
            mine = logit, best = k;
        }
    }
    largest = mine;
    for (int offset = 16; offset > 0; offset /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset));
    }
    best = mine == largest ? best : K;
    for (int offset = 16; offset > 0; offset /= 2) {
        best = min(best, __shfl_xor_sync(0xFFFFFFFFu, best, offset));
    }
    return best < K ? best : 0;
}

// Logits become their gradients, and 0 for classes that do not exist; the numbers for the loss are
// kept. A label out of range counts and adds nothing else.
static __device__ __forceinline__ void compare_label(int K, int n_classes, int label, int best,
                                                     float largest, float scale, float smoothing,
                                                     float *logits, float *losses) {
    int lane = threadIdx.x % 32, is_valid = label < K;
    float of_label = logits[is_valid ? label : 0], sum = 0.0f, total = 0.0f;
    float others = smoothing / (float)K, target = 1.0f - smoothing + others;
    __syncwarp(); // logits are overwritten below
#pragma unroll 1
    for (int k = lane; k < n_classes; k += 32) {
        float e = expf(logits[k] - largest);
        total += smoothing > 0.0f && k < K ? logits[k] : 0.0f;
        logits[k] = e;
        sum += e;
    }
    sum = es_warp_sum(sum);
    if (smoothing > 0.0f) {
        total = es_warp_sum(total);
    }
#pragma unroll 1
    for (int k = lane; k < n_classes; k += 32) {
        float p = logits[k] / sum;
        logits[k] = is_valid && k < K ? (p - (k == label ? target : others)) * scale : 0.0f;
    }
    if (lane == 0) {
        losses[0] = is_valid ? sum : 1.0f;
        float smoothed = smoothing > 0.0f ? smoothing * (of_label - total / (float)K) : 0.0f;
        losses[1] = is_valid ? largest - of_label + smoothed : 0.0f;
        losses[2] = !is_valid ? -1.0f : best == label ? 1.0f : 0.0f;
    }
}

// The chunk's sums of loss and counts; one warp calls.
static __device__ void add_losses(const EsFusedArguments &args, const EsFusedInstance &at,
                                  const float *losses) {
    float loss = 0.0f, n_correct = 0.0f, n_invalid = 0.0f;
#pragma unroll 1
    for (int image = (int)threadIdx.x % 32; image < at.n_images; image += 32) {
        const float *of = losses + 3 * image;
        loss += logf(of[0]) + of[1];
        n_correct += of[2] > 0.0f ? 1.0f : 0.0f;
        n_invalid += of[2] < 0.0f ? 1.0f : 0.0f;
    }
    loss = es_warp_sum(loss), n_correct = es_warp_sum(n_correct);
    n_invalid = es_warp_sum(n_invalid);
    if (threadIdx.x % 32 == 0) {
        float *partial = args.loss_partials + ((int64_t)at.instance * at.n_chunks + at.chunk) * 3;
        partial[0] = loss, partial[1] = n_correct, partial[2] = n_invalid;
    }
}

// --- gradients ---

// Of an image's features, and its share of the norm's sums.
template <typename Weights>
static __device__ __forceinline__ void
differentiate_features(const Weights &weights, const float *d_logits, int n_classes,
                       const float *open, float share, float *d_features, float *norm_sums) {
    int n = weights.n_channels;
    for (int c = (int)threadIdx.x % 32; c < n; c += 32) {
        float d = 0.0f;
#pragma unroll 1
        for (int k = 0; k < n_classes; k += 4) {
            float4 d_k = *(const float4 *)(d_logits + k);
            d = fmaf(d_k.x, weights.at(k, c), d);
            d = fmaf(d_k.y, weights.at(k + 1, c), d);
            d = fmaf(d_k.z, weights.at(k + 2, c), d);
            d = fmaf(d_k.w, weights.at(k + 3, c), d);
        }
        d_features[c] = d;
        // a closed map adds nothing, even if its gradient is not finite
        float d_z = open[c] > 0.0f ? d * share : 0.0f;
        norm_sums[c] = fmaf(d_z, open[c], norm_sums[c]);
        norm_sums[n + c] = fmaf(d_z, open[n + c], norm_sums[n + c]);
    }
}

// The chunk's gradients of weights [K][C] and bias [K].
template <typename Shared>
static __device__ __forceinline__ void differentiate_weights(const EsFusedArguments &args,
                                                             const EsFusedInstance &at,
                                                             const Shared &s, int C) {
    int K = args.net.n_classes, lane = threadIdx.x % 32;
    float *partial = args.weight_partials[args.net.n_blocks] +
                     ((int64_t)at.instance * at.n_chunks + at.chunk) * (int64_t)K * (C + 1);
    for (int k = (int)threadIdx.x / 32; k < K; k += ES_FUSED_WARPS) {
        for (int c = lane; c < C; c += 32) {
            float sum = 0.0f;
#pragma unroll 4
            for (int image = 0; image < at.n_images; image++) {
                sum = fmaf(s.d_logits[image * s.n_classes + k],
                           s.features[image * s.n_channels + c], sum);
            }
            partial[k * C + c] = sum;
        }
    }
#pragma unroll 1
    for (int k = ES_FUSED_THREADS - 1 - (int)threadIdx.x; k < K; k += ES_FUSED_THREADS) {
        float sum = 0.0f;
#pragma unroll 4
        for (int image = 0; image < at.n_images; image++) {
            sum += s.d_logits[image * s.n_classes + k];
        }
        partial[K * C + k] = sum;
    }
}

static __device__ __forceinline__ void add_warps(const float *norm_sums, int n, float *partial) {
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * n; i += ES_FUSED_THREADS) {
        float sum = norm_sums[i];
#pragma unroll
        for (int warp = 1; warp < ES_FUSED_WARPS; warp++) {
            sum += norm_sums[warp * 2 * n + i];
        }
        partial[i] = sum;
    }
}

static __device__ void finish_losses(const EsFusedArguments &args, const EsFusedInstance &at) {
    int warp = (int)threadIdx.x / 32;
    if (warp >= 3) {
        return;
    }
    const float *partials = args.loss_partials + (int64_t)at.instance * at.n_chunks * 3;
    double total = es_partials_sum(partials, at.n_chunks, 3, warp);
    if (threadIdx.x % 32 == 0) {
        if (warp == 0) {
            double mean = args.is_training ? total / (double)args.n_images : total;
            args.loss[at.instance] =
                (float)((args.adds ? (double)args.loss[at.instance] : 0.0) + mean);
        } else {
            int32_t *counts = warp == 1 ? args.n_correct : args.n_invalid;
            counts[at.instance] = (args.adds ? counts[at.instance] : 0) + (int32_t)total;
        }
    }
}

// All images of the chunk, a warp each.
template <typename T, typename Shared, typename Weights>
static __device__ __forceinline__ void
run_images(const EsFusedArguments &args, const EsFusedInstance &at, const Shared &s,
           const Weights &weights, const EsFusedBlock &block, const EsClassifierMaps<T> &maps) {
    int warp = threadIdx.x / 32, n = s.n_channels;
    const EsTile tile = {block.out_c8, block.out_size, 0, block.by_out_size, block.by_out_pixels};
    EsNormTable norm = es_norm_table(s.norm, block.out_c8);
    const float *bias = es_instance_parameters(args, at) + args.net.classifier_bias;
    float *open = s.open + warp * 2 * n;
    float scale = args.loss_scale != NULL ? args.loss_scale[at.env] : 1.0f;
    scale /= (float)args.n_images;
    for (int image = warp; image < at.n_images; image += ES_FUSED_WARPS) {
        int number = es_instance_sample(args, at, image).number;
        float *features = s.features + image * n, *logits = s.d_logits + image * s.n_classes;
        __syncwarp(); // `open` may still be read
        es_classifier_average(maps, tile, norm, image, features, open);
        int label = args.labels[number];
        __syncwarp();
        float largest;
        int best = find_logits(weights, bias, features, s.n_classes, logits, largest);
        __syncwarp();
        compare_label(args.net.n_classes, s.n_classes, label, best, largest, scale, args.smoothing,
                      logits, s.losses + 3 * image);
        __syncwarp();
        if (args.is_training) {
            differentiate_features(
                weights, logits, s.n_classes, open, 1.0f / (float)tile.pixels(),
                args.d_features +
                    ((int64_t)at.instance * args.instance_images + at.first + image) * n,
                s.norm_sums + warp * 2 * n);
        }
    }
}

template <typename T, typename Classifier>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, Classifier::N_SHARING)
    fused_classifier_kernel(const __grid_constant__ EsFusedArguments args, int images_per_chunk) {
    ES_DYNAMIC_SHARED(memory);
    EsFusedInstance at;
    if (!es_instance_begin(args, images_per_chunk, ES_EVERY_ROW, at)) {
        return;
    }
    int b = args.net.n_blocks - 1;
    const EsFusedBlock block = Classifier::Shape::of(args.net.block[b]);
    ClassifierShared<Classifier> s(args.net, images_per_chunk, memory);
    ClassifierWeights<T, Classifier::IS_STAGED> weights = {
        s.weight, es_instance_parameters(args, at) + args.net.classifier_weight, s.n_channels,
        args.net.n_classes, block.n_out};
    if (Classifier::IS_STAGED) {
        weights.stage(s.weight, s.n_classes);
    }
    EsClassifierMaps<T> maps(args, at, b, block);
    es_classifier_norm_load(args, at, b, maps.is_mixed, es_norm_table(s.norm, block.out_c8),
                            s.n_channels);
    for (int i = threadIdx.x; i < 2 * ES_FUSED_WARPS * s.n_channels; i += ES_FUSED_THREADS) {
        s.norm_sums[i] = 0.0f;
    }
    __syncthreads();
    run_images(args, at, s, weights, block, maps);
    __syncthreads();
    bool sums_norm = args.is_training && !maps.is_mixed;
    if (threadIdx.x / 32 == ES_FUSED_WARPS - 1) {
        add_losses(args, at, s.losses);
    }
    if (args.is_training) {
        differentiate_weights(args, at, s, block.n_out);
    }
    if (sums_norm) {
        add_warps(s.norm_sums, s.n_channels, es_norm_partial(args, at, b));
    }
    if (es_instance_is_last(args, at)) {
        finish_losses(args, at);
        if (sums_norm) {
            es_norm_add_partials(args, at, b);
        }
    }
}

static bool is_baseline(const EsFusedNet *net, EsDtype precision) {
    return precision != ES_DTYPE_F32 && BaselineClassifier::Shape::fits(*net, net->n_blocks - 1);
}

extern "C" size_t es_fused_classifier_bytes(const EsFusedNet *net, EsDtype precision,
                                            int n_images) {
    return is_baseline(net, precision)
               ? ClassifierShared<BaselineClassifier>(*net, n_images, NULL).bytes
               : ClassifierShared<AnyClassifier>(*net, n_images, NULL).bytes;
}

template <typename T, typename Classifier>
static void start(EsLaunch &launch, dim3 grid, size_t bytes, const EsFusedArguments *args,
                  int images_per_chunk) {
    launch.start_shared(fused_classifier_kernel<T, Classifier>, grid, ES_FUSED_THREADS, bytes,
                        *args, images_per_chunk);
}

extern "C" void es_fused_classifier(EsStream *stream, EsDtype precision,
                                    const EsFusedArguments *args, int images_per_chunk) {
    EsLaunch launch(stream, "fused_classifier");
    int64_t n_chunks = es_ceil_div(args->n_images, images_per_chunk);
    size_t bytes = es_fused_classifier_bytes(&args->net, precision, images_per_chunk);
    dim3 grid((unsigned)(args->instances.n_instances * n_chunks));
    if (!is_baseline(&args->net, precision)) {
        ES_DISPATCH_FUSED(precision, T,
                          (start<T, AnyClassifier>(launch, grid, bytes, args, images_per_chunk)));
    } else if (precision == ES_DTYPE_BF16) {
        start<__nv_bfloat16, BaselineClassifier>(launch, grid, bytes, args, images_per_chunk);
    } else {
        start<__half, BaselineClassifier>(launch, grid, bytes, args, images_per_chunk);
    }
}
