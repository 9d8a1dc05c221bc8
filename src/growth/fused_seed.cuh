// A seed at work on the images of a part: shared memory, group norms, and what the seed makes of
// its input. Both directions run this; the backward one keeps more of it.
//
// Vectors of a part are [image][channel], channels of units; those that do not exist are 0
// everywhere.
#ifndef ES_GROWTH_FUSED_SEED_CUH
#define ES_GROWTH_FUSED_SEED_CUH

#include "growth/fused_seed_layout.cuh"

// --- shared memory ---

struct EsGroupNorm {
    float *mean, *inv_std; // vectors
    float *gamma, *beta;   // [channels of units]
};

// Tiles of the slot's channels; x, n and c have a border. What lies in them:
//
//             x       n             c                a (backward)   d (backward)
// conv        input   -             branch           d_x            d_y
// depthwise   input   d_m           branch           m, d_x         d_y
// bottleneck  input   r1            branch, d_r2     r2, d_r1       d_y, d_branch, d_x
// conv_heavy  input   relu, d_relu  branch           first conv     d_y
//
// Forward there are three: m, r1 and both of conv_heavy's go to n, r2 to c, and then the
// bottleneck's branch to n; c needs no border.
template <typename T> struct EsSeedShared {
    EsTile map, padded, narrow, narrow_padded;
    T *x, *n, *c, *a, *d;
    T *zeros;     // a unit
    int *offsets; // of taps
    float *host_norm;
    float *kept, *scratch;
    // vectors
    float *totals; // two of them
    float *average, *d_average, *hidden, *d_hidden, *offset, *tilt;
    EsGroupNorm norm[2]; // the last norm, and conv_heavy's first
    float *share, *gate; // [image]
    int stride;          // floats of a vector's image
    size_t bytes;

    __host__ __device__ void carve(const EsFusedPlace &place, int n_images, int is_backward,
                                   unsigned char *memory);
};

template <typename T>
__host__ __device__ void EsSeedShared<T>::carve(const EsFusedPlace &place, int n_images,
                                                int is_backward, unsigned char *memory) {
    int narrow_units = (es_seed_narrow(place.n_channels) + 7) / ES_FUSED_UNIT;
    EsCarve carve = {memory, 0};
    map = {place.units, place.size, 0, place.by_size, place.by_pixels};
    padded = {place.units, place.size, 1, place.by_size, place.by_pixels};
    narrow = {narrow_units, place.size, 0, place.by_size, place.by_pixels};
    narrow_padded = {narrow_units, place.size, 1, place.by_size, place.by_pixels};
    size_t plain = (size_t)n_images * map.image_units() * ES_FUSED_UNIT;
    size_t with_border = (size_t)n_images * padded.image_units() * ES_FUSED_UNIT;
    x = carve.take<T>(with_border);
    n = carve.take<T>(with_border);
    c = carve.take<T>(is_backward ? with_border : plain);
    a = carve.take<T>(is_backward ? plain : 0);
    d = carve.take<T>(is_backward ? plain : 0);
    zeros = carve.take<T>(ES_FUSED_UNIT);
    offsets = carve.take<int>(9 * (size_t)place.units + 1);
    host_norm = carve.take<float>(4 * (size_t)place.units * ES_FUSED_UNIT);
    kept = carve.take<float>(ES_FUSED_WARPS * 16);
    // es_tile_weight_gradient adds up slices of at most two sets of taps where there is one unit
    scratch = carve.take<float>(
        !is_backward || sizeof(T) == 4 ? 0 : ES_FUSED_SCRATCH_BYTES / (place.units == 1 ? 8 : 4));
    stride = place.units * ES_FUSED_UNIT;
    size_t vector = (size_t)n_images * stride;
    totals = carve.take<float>(2 * vector);
    float **vectors[] = {&average, &d_average, &hidden, &d_hidden, &offset, &tilt};
    for (int i = 0; i < 6; i++) {
        *vectors[i] = carve.take<float>(vector);
    }
    for (int i = 0; i < 2; i++) {
        norm[i].mean = carve.take<float>(vector);
        norm[i].inv_std = carve.take<float>(vector);
        norm[i].gamma = carve.take<float>(stride);
        norm[i].beta = carve.take<float>(stride);
    }
    share = carve.take<float>(n_images);
    gate = carve.take<float>(n_images);
    bytes = carve.used;
}

// --- work ---

// In shared memory of the block, the same for all its threads.
template <typename T> struct EsSeedWork {
    const EsFusedArguments *args;
    const EsFusedPlace *place;
    const EsFusedBlock *block;
    EsFusedRow at;
    EsFusedSlot slot; // mode GATE only where there is a gate
    int is_mixed;     // else the seed is incubated
    int is_backward;
    const float *parameters;
    const unsigned char *packed; // of the place
    float *part;                 // backward: where gradients go
    float mix;                   // norm: tanh(g)
    T *branch;                   // what the last norm reads, in branch_tile
    EsTile branch_tile;
    EsSeedShared<T> s;
};

// A unit of a map of the part.
struct EsSpot {
    int image, unit, pixel, row, column;

    __device__ EsSpot(int image_unit, int at_pixel, const EsTile &tile)
        : image(image_unit / tile.units), unit(image_unit % tile.units), pixel(at_pixel),
          row(tile.row_of(at_pixel)), column(at_pixel - row * tile.size) {}
    __device__ int in(const EsTile &tile) const {
        return tile.at(image, unit, row, column) * ES_FUSED_UNIT;
    }
};

// Tensor k of the row's seed, or of its gate.
template <typename T>
static __device__ __forceinline__ const float *es_seed_parameter(const EsSeedWork<T> &w, int k) {
    return w.parameters + w.place->seed[w.slot.blueprint].offset[k];
}

template <typename T>
static __device__ __forceinline__ const float *es_gate_parameter(const EsSeedWork<T> &w, int k) {
    return w.parameters + w.place->gate.offset[k];
}

// False in rows that have nothing to do here. Ends with a barrier.
template <typename T>
static __device__ bool es_seed_begin(const EsFusedArguments &args, int slot_number,
                                     int images_per_part, int is_backward, unsigned char *memory,
                                     EsSeedWork<T> &w) {
    EsFusedRow at;
    if (!es_row_begin(args, images_per_part, at)) {
        return false;
    }
    EsFusedSlot slot = es_row_slot(args, at.row, slot_number);
    int is_mixed = es_slot_mixes(slot);
    if (!is_mixed && !(is_backward && slot.mode == ES_BLEND_INCUBATE)) {
        return false;
    }
    if (threadIdx.x == 0) {
        const EsFusedPlace &place = args.net.place[slot_number];
        slot.mode = slot.mode == ES_BLEND_GATE && !slot.has_gate ? ES_BLEND_ADD : slot.mode;
        w.args = &args;
        w.place = &place;
        w.block = &args.net.block[place.block];
        w.at = at;
        w.slot = slot;
        w.is_mixed = is_mixed;
        w.is_backward = is_backward;
        w.parameters = es_row_parameters(args, at);
        w.packed = args.seed_packed + at.env * args.net.seed_packed_bytes + place.packed;
        w.s.carve(place, images_per_part, is_backward, memory);
        w.mix = slot.blueprint == ES_BLUEPRINT_NORM ? tanhf(*es_seed_parameter(w, 2)) : 0.0f;
        w.branch = slot.blueprint == ES_BLUEPRINT_BOTTLENECK && !is_backward ? w.s.n : w.s.c;
        w.branch_tile = is_backward && (slot.blueprint == ES_BLUEPRINT_CONV_LIGHT ||
                                        slot.blueprint == ES_BLUEPRINT_CONV_HEAVY)
                            ? w.s.padded
                            : w.s.map;
    }
    __syncthreads();
    return true;
}

// --- layers ---

// Tensor k's convolution, or its input gradient. Begins with a barrier.
template <typename T>
static __device__ __noinline__ void es_seed_convolve(const EsSeedWork<T> &w, int k, int is_backward,
                                                     const T *in, EsTile in_tile, T *out,
                                                     EsTile out_tile) {
    int n_channels = w.place->n_channels;
    int kernel = es_seed_tensor(n_channels, w.slot.blueprint, k).kernel;
    const unsigned char *packed =
        w.packed + es_seed_packed_offset<T>(n_channels, w.slot.blueprint, k, is_backward);
    __syncthreads();
    es_tap_offsets(w.s.offsets, in_tile, kernel);
    __syncthreads();
    es_tile_convolve(in, in_tile, w.s.offsets, es_tap_units(in_tile, kernel), packed, out, out_tile,
                     w.at.n_images);
}

// Replace v by f(v) in the part's maps. Begins with a barrier.
template <typename T, typename Function>
static __device__ __forceinline__ void es_seed_transform(const EsSeedWork<T> &w, const T *from,
                                                         EsTile from_tile, T *to, EsTile to_tile,
                                                         Function function) {
    int pixels = to_tile.pixels(), count = w.at.n_images * to_tile.units * pixels;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += ES_FUSED_THREADS) {
        int image_unit = to_tile.image_of(i);
        EsSpot spot(image_unit, i - image_unit * pixels, to_tile);
        float v[8];
        es_unit_load(v, from + spot.in(from_tile));
        function(spot, v);
        es_unit_store(to + spot.in(to_tile), v);
    }
}

template <typename T>
static __device__ __noinline__ void es_seed_rectify(const EsSeedWork<T> &w, T *tile, EsTile shape) {
    es_seed_transform(w, tile, shape, tile, shape, [](const EsSpot &, float(&v)[8]) {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            v[c] = es_rectified(v[c]);
        }
    });
}

// m = depthwise 3x3 of x. Begins with a barrier.
template <typename T>
static __device__ __noinline__ void es_seed_depthwise(const EsSeedWork<T> &w, T *m) {
    const T *x = w.s.x;
    EsTile padded = w.s.padded;
    const float *weight = es_seed_parameter(w, 0);
    int n_channels = w.place->n_channels;
    es_seed_transform(w, x, padded, m, w.s.map, [&](const EsSpot &spot, float(&v)[8]) {
        float sum[8] = {};
        for (int tap = 0; tap < 9; tap++) {
            float near[8];
            es_unit_load(near, x + spot.in(padded) +
                                   ((tap / 3 - 1) * padded.side() + tap % 3 - 1) * ES_FUSED_UNIT);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                int channel = spot.unit * ES_FUSED_UNIT + c;
                float tap_weight = channel < n_channels ? weight[channel * 9 + tap] : 0.0f;
                sum[c] = fmaf(tap_weight, near[c], sum[c]);
            }
        }
#pragma unroll
        for (int c = 0; c < 8; c++) {
            v[c] = sum[c];
        }
    });
}

// --- group norm ---

// Averages of a vector's sums over the channels of each group and their pixels, weighted by
// `weight` [channel] where there is one.
template <typename T>
static __device__ void es_group_average(const EsSeedWork<T> &w, const float *sums,
                                        const float *weight, float *average) {
    int stride = w.s.stride, n_channels = w.place->n_channels;
    int width = n_channels / w.place->n_groups;
    float scale = 1.0f / (float)(width * w.place->size * w.place->size);
    for (int i = threadIdx.x; i < w.at.n_images * stride; i += ES_FUSED_THREADS) {
        int channel = i % stride, first = channel / width * width;
        float sum = 0.0f;
        for (int k = first; channel < n_channels && k < first + width; k++) {
            sum += sums[i - channel + k] * (weight != NULL ? weight[k] : 1.0f);
        }
        average[i] = sum * scale;
    }
}

// Statistics per image and group of a tile; tensors k and k + 1 are gamma and beta. Begins and ends
// with a barrier.
template <typename T>
static __device__ __noinline__ void es_group_statistics(const EsSeedWork<T> &w, const T *tile,
                                                        EsTile shape, int k, EsGroupNorm norm) {
    const float *gamma = es_seed_parameter(w, k), *beta = es_seed_parameter(w, k + 1);
    int stride = w.s.stride, n_channels = w.place->n_channels;
    int n_units = w.at.n_images * shape.units;
    es_channel_sums(n_units, shape.pixels(), w.s.kept, w.s.totals,
                    [&](int image_unit, int pixel, float(&sums)[2][8]) {
                        float v[8];
                        es_unit_load(v, tile + EsSpot(image_unit, pixel, shape).in(shape));
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            sums[0][c] += v[c];
                        }
                    });
    es_group_average(w, w.s.totals, NULL, norm.mean);
    es_channel_sums(n_units, shape.pixels(), w.s.kept, w.s.totals,
                    [&](int image_unit, int pixel, float(&sums)[2][8]) {
                        float v[8];
                        es_unit_load(v, tile + EsSpot(image_unit, pixel, shape).in(shape));
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            float centred = v[c] - norm.mean[image_unit * ES_FUSED_UNIT + c];
                            sums[0][c] = fmaf(centred, centred, sums[0][c]);
                        }
                    });
    es_group_average(w, w.s.totals, NULL, norm.inv_std);
    for (int i = threadIdx.x; i < w.at.n_images * stride; i += ES_FUSED_THREADS) {
        int exists = i % stride < n_channels; // written by this thread just now
        norm.inv_std[i] = exists ? 1.0f / sqrtf(norm.inv_std[i] + ES_FUSED_EPSILON) : 0.0f;
    }
    for (int i = threadIdx.x; i < stride; i += ES_FUSED_THREADS) {
        norm.gamma[i] = i < n_channels ? gamma[i] : 0.0f;
        norm.beta[i] = i < n_channels ? beta[i] : 0.0f;
    }
    __syncthreads();
}

// The norm's output at a unit, as it would be stored.
template <typename T>
static __device__ __forceinline__ void es_group_apply(const EsGroupNorm &norm, int stride,
                                                      const EsSpot &spot, const float (&v)[8],
                                                      float (&y)[8]) {
#pragma unroll
    for (int c = 0; c < 8; c++) {
        int channel = spot.unit * ES_FUSED_UNIT + c, i = spot.image * stride + channel;
        y[c] = es_rounded((v[c] - norm.mean[i]) * (norm.inv_std[i] * norm.gamma[channel]) +
                              norm.beta[channel],
                          T());
    }
}

// --- the seed ---

// s at a unit, from x there.
template <typename T>
static __device__ __forceinline__ void es_seed_value(const EsSeedWork<T> &w, const EsSpot &spot,
                                                     const float (&x)[8], float (&s)[8]) {
    if (w.slot.blueprint == ES_BLUEPRINT_ATTENTION) {
        const float *factor = w.s.norm[0].mean + spot.image * w.s.stride + spot.unit * 8;
#pragma unroll
        for (int c = 0; c < 8; c++) {
            s[c] = es_rounded(x[c] * factor[c], T());
        }
        return;
    }
    int is_norm = w.slot.blueprint == ES_BLUEPRINT_NORM;
    float v[8], y[8];
    es_unit_load(v, is_norm ? w.s.x + spot.in(w.s.padded) : w.branch + spot.in(w.branch_tile));
    es_group_apply<T>(w.s.norm[0], w.s.stride, spot, v, y);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        s[c] = es_rounded(x[c] + (is_norm ? w.mix * (y[c] - x[c]) : y[c]), T());
    }
}

// What the slot hands on at a unit, as it would be stored.
template <typename T>
static __device__ __forceinline__ void es_seed_blend(const EsSeedWork<T> &w, const EsSpot &spot,
                                                     float (&y)[8]) {
    float x[8], s[8], share = w.s.share[spot.image];
    es_unit_load(x, w.s.x + spot.in(w.s.padded));
    es_seed_value(w, spot, x, s);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        y[c] =
            share == 0.0f ? x[c] : es_rounded(es_blend_value(w.slot.mode, share, x[c], s[c]), T());
    }
}

#endif
