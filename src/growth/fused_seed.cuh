// A seed at work on the images of a part: shared memory, group norms, and what the seed makes of
// its input. Both directions run this; the backward one keeps more of it.
//
// Vectors of a part are [image][channel], channels of units; those that do not exist are 0
// everywhere.
#ifndef ES_GROWTH_FUSED_SEED_CUH
#define ES_GROWTH_FUSED_SEED_CUH

#include "growth/fused_seed_layout.cuh"

// --- shared memory ---

// y = v scale + shift, x_hat = (v - mean) inv_std. Attention has its factors in `scale` of the last
// norm, whose mean is then 0.
struct EsGroupNorm {
    float *mean, *inv_std, *scale, *shift; // vectors
    float *gamma;                          // [channels of units]
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
    float *taps; // depthwise weights [tap][channels of units]
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

// Shared memory of es_tile_weight_gradient for any convolution of a blueprint.
static __host__ __device__ size_t es_seed_scratch_bytes(int units, int narrow_units) {
    const size_t bytes[] = {
        es_weight_scratch_bytes(9 * units, units), es_weight_scratch_bytes(units, units),
        es_weight_scratch_bytes(9 * narrow_units, narrow_units),
        es_weight_scratch_bytes(units, narrow_units), es_weight_scratch_bytes(narrow_units, units)};
    size_t most = 0;
    for (int i = 0; i < 5; i++) {
        most = bytes[i] > most ? bytes[i] : most;
    }
    return most;
}

// Sums that es_seed_sums holds at a time: of image-units, or of a unit's pairs of taps.
#define ES_SEED_TASKS 64

static __host__ __device__ int es_seed_tasks_max(int n_images, int units) {
    int most = (n_images > 5 ? n_images : 5) * units;
    return most > ES_SEED_TASKS ? most : ES_SEED_TASKS;
}

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
    kept = carve.take<float>(16 * (size_t)es_seed_tasks_max(n_images, place.units));
    scratch = carve.take<float>(
        is_backward && sizeof(T) < 4 ? es_seed_scratch_bytes(place.units, narrow_units) / 4 : 0);
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
        norm[i].scale = carve.take<float>(vector);
        norm[i].shift = carve.take<float>(vector);
        norm[i].gamma = carve.take<float>(stride);
    }
    taps = carve.take<float>(9 * (size_t)stride);
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
    float *part; // backward: where gradients go
    float mix;   // norm: tanh(g)
    T *branch;   // what the last norm, or attention, reads, in branch_tile
    EsTile branch_tile;
    int kernel[ES_FUSED_TENSORS_MAX];
    const unsigned char *packed[ES_FUSED_TENSORS_MAX][2]; // forward and mirrored
    int part_offset[ES_FUSED_TENSORS_MAX], gate_offset[ES_FUSED_GATE_TENSORS];
    EsSeedShared<T> s;
};

// The block's one. Not a variable of the type: that would have to be initialised.
#define ES_SEED_WORK(T, w)                                                                         \
    __shared__ __align__(16) unsigned char w##_bytes[sizeof(EsSeedWork<T>)];                       \
    EsSeedWork<T> &w = *(EsSeedWork<T> *)w##_bytes

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
    int is_mixed = es_slot_mixes(slot), k = threadIdx.x;
    if (!is_mixed && !(is_backward && slot.mode == ES_BLEND_INCUBATE)) {
        return false;
    }
    const EsFusedPlace &place = args.net.place[slot_number];
    if (k < es_seed_tensor_count(slot.blueprint)) {
        const unsigned char *packed =
            args.seed_packed + at.env * args.net.seed_packed_bytes + place.packed;
        w.kernel[k] = es_seed_tensor(place.n_channels, slot.blueprint, k).kernel;
        w.part_offset[k] = es_seed_part_offset(place.n_channels, slot.blueprint, k);
        for (int i = 0; i < 2; i++) {
            w.packed[k][i] =
                packed + es_seed_packed_offset<T>(place.n_channels, slot.blueprint, k, i);
        }
    }
    if (k < ES_FUSED_GATE_TENSORS) {
        w.gate_offset[k] = es_seed_part_offset(place.n_channels, ES_SEED_GATE, k);
    }
    if (k == ES_FUSED_THREADS - 1) {
        int blueprint = slot.blueprint;
        int is_alone = blueprint == ES_BLUEPRINT_NORM || blueprint == ES_BLUEPRINT_ATTENTION;
        slot.mode = slot.mode == ES_BLEND_GATE && !slot.has_gate ? ES_BLEND_ADD : slot.mode;
        w.args = &args;
        w.place = &place;
        w.block = &args.net.block[place.block];
        w.at = at;
        w.slot = slot;
        w.is_mixed = is_mixed;
        w.is_backward = is_backward;
        w.parameters = es_row_parameters(args, at);
        w.s.carve(place, images_per_part, is_backward, memory);
        w.mix = blueprint == ES_BLUEPRINT_NORM ? tanhf(*es_seed_parameter(w, 2)) : 0.0f;
        w.branch = is_alone                                               ? w.s.x
                   : blueprint == ES_BLUEPRINT_BOTTLENECK && !is_backward ? w.s.n
                                                                          : w.s.c;
        w.branch_tile = is_alone || (is_backward && (blueprint == ES_BLUEPRINT_CONV_LIGHT ||
                                                     blueprint == ES_BLUEPRINT_CONV_HEAVY))
                            ? w.s.padded
                            : w.s.map;
    }
    __syncthreads();
    return true;
}

// --- passes over maps ---
//
// Image-units, numbered image * units + unit, are [row][column] each; tile.at(0, image-unit, row,
// column) is where a pixel lies. What all pixels of an image-unit need is read once: `make` takes
// an image-unit and returns what is called with each of its pixels.

// visit(row, column) for each of the image-units' pixels, each in one thread and always the same.
template <typename Make>
static __device__ __forceinline__ void es_seed_each(int n_units, EsTile tile, Make make) {
    int pixels = tile.pixels();
    EsSpread mine = es_spread(pixels);
    for (int unit = mine.unit; unit < n_units; unit += mine.unit_step) {
        auto visit = make(unit);
        for (int pixel = mine.first; pixel < pixels; pixel += mine.step) {
            int row = tile.row_of(pixel);
            visit(row, pixel - row * tile.size);
        }
    }
}

// Sums over a warp of 16 numbers: lanes 2 i and 2 i + 1 get that of number i. Each exchange halves
// what a lane still adds up.
static __device__ __forceinline__ float es_warp_sums(const float (&values)[2][8]) {
    int lane = threadIdx.x % 32;
    float v[8];
#pragma unroll
    for (int c = 0; c < 8; c++) {
        bool is_upper = lane & 16;
        float mine = is_upper ? values[1][c] : values[0][c];
        v[c] = mine + __shfl_xor_sync(0xFFFFFFFFu, is_upper ? values[0][c] : values[1][c], 16);
    }
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
#pragma unroll
        for (int c = 0; c < half; c++) {
            bool is_upper = lane & 2 * half;
            float mine = is_upper ? v[c + half] : v[c];
            v[c] = mine + __shfl_xor_sync(0xFFFFFFFFu, is_upper ? v[c] : v[c + half], 2 * half);
        }
    }
    return v[0] + __shfl_xor_sync(0xFFFFFFFFu, v[0], 1);
}

// As es_channel_sums, of n_units units of `count` positions; visit(position, sums) adds. Units are
// cut into slices so that all warps have as much to do. Begins and ends with a barrier.
template <typename Make>
static __device__ __forceinline__ void es_seed_sums(int n_units, int count, float *kept,
                                                    float *totals, Make make) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_slices = ES_FUSED_WARPS / min(ES_FUSED_WARPS, n_units & -n_units);
    n_slices = n_units * n_slices > ES_SEED_TASKS ? 1 : min(n_slices, max(count / 32, 1));
    __syncthreads(); // what is summed may be fresh, and `kept` still be read
    for (int task = warp; task < n_units * n_slices; task += ES_FUSED_WARPS) {
        int slice = task / n_units;
        auto visit = make(task - slice * n_units);
        float sums[2][8] = {};
        for (int i = slice * 32 + lane; i < count; i += n_slices * 32) {
            visit(i, sums);
        }
        float sum = es_warp_sums(sums);
        if (lane % 2 == 0) {
            kept[task * 16 + lane / 2] = sum;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n_units * 16; i += ES_FUSED_THREADS) {
        float total = kept[i];
        for (int s = 1; s < n_slices; s++) {
            total += kept[s * n_units * 16 + i];
        }
        totals[(i / 8 % 2 * n_units + i / 16) * ES_FUSED_UNIT + i % 8] = total;
    }
    __syncthreads();
}

// What 8 values become when they are stored as T.
static __device__ __forceinline__ void es_unit_round(float (&)[8], float) {}
template <typename T> static __device__ __forceinline__ void es_unit_round(float (&v)[8], T) {
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        float2 pair = es_pair_floats(es_pair_bits(v[i], v[i + 1], T()), T());
        v[i] = pair.x, v[i + 1] = pair.y;
    }
}

// --- layers ---

// Tensor k's convolution, or its input gradient. Begins with a barrier.
template <typename T>
static __device__ __noinline__ void es_seed_convolve(const EsSeedWork<T> &w, int k, int is_backward,
                                                     const T *in, EsTile in_tile, T *out,
                                                     EsTile out_tile) {
    int kernel = w.kernel[k];
    __syncthreads();
    es_tap_offsets(w.s.offsets, in_tile, kernel);
    __syncthreads();
    es_tile_convolve(in, in_tile, w.s.offsets, es_tap_units(in_tile, kernel),
                     w.packed[k][is_backward], out, out_tile, w.at.n_images);
}

// Begins with a barrier.
template <typename T>
static __device__ __noinline__ void es_seed_rectify(const EsSeedWork<T> &w, T *tile, EsTile shape) {
    __syncthreads();
    es_seed_each(w.at.n_images * shape.units, shape, [=](int unit) {
        return [=](int row, int column) {
            T *at = tile + shape.at(0, unit, row, column) * ES_FUSED_UNIT;
            float v[8];
            es_unit_load(v, at);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                v[c] = es_rectified(v[c]);
            }
            es_unit_store(at, v);
        };
    });
}

// to = depthwise 3x3 of a tile with a border, with the weights in w.s.taps, mirrored where sign is
// -1. Begins with a barrier.
template <typename T>
static __device__ __noinline__ void es_seed_depthwise(const EsSeedWork<T> &w, const T *from,
                                                      int sign, T *to) {
    EsTile padded = w.s.padded, map = w.s.map;
    const float *taps = w.s.taps;
    int stride = w.s.stride, units = map.units;
    __syncthreads();
    es_seed_each(w.at.n_images * units, map, [=](int unit) {
        const float *weight = taps + unit % units * ES_FUSED_UNIT;
        return [=](int row, int column) {
            const T *centre = from + padded.at(0, unit, row, column) * ES_FUSED_UNIT;
            float sum[8] = {};
#pragma unroll
            for (int tap = 0; tap < 9; tap++) {
                int shift = sign * ((tap / 3 - 1) * padded.side() + tap % 3 - 1);
                float near[8], tap_weight[8];
                es_unit_load(near, centre + shift * ES_FUSED_UNIT);
                es_unit_load(tap_weight, weight + tap * stride);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    sum[c] = fmaf(tap_weight[c], near[c], sum[c]);
                }
            }
            es_unit_store(to + map.at(0, unit, row, column) * ES_FUSED_UNIT, sum);
        };
    });
}

// --- group norm ---

// From sums of v - v_0 and their squares per image and channel in w.s.totals, v_0 the channel's
// first pixel: the norm of each image's group. Statistics of channels are put together as
// n var = sum over channels of (squares - sum^2 / n + n (channel's mean - mean)^2), which loses
// nothing to a mean far from 0. Ends with a barrier.
template <typename T>
static __device__ __forceinline__ void es_group_combine(const EsSeedWork<T> &w, const T *tile,
                                                        EsTile shape, int k, EsGroupNorm norm) {
    const float *gamma = es_seed_parameter(w, k), *beta = es_seed_parameter(w, k + 1);
    int stride = w.s.stride, n_channels = w.place->n_channels, n = w.at.n_images * stride;
    int width = n_channels / w.place->n_groups;
    float per_pixel = 1.0f / (float)shape.pixels(), per_channel = 1.0f / (float)width;
    float *means = w.s.offset, *squares = w.s.totals + n;
    for (int i = threadIdx.x; i < n; i += ES_FUSED_THREADS) {
        float sum = w.s.totals[i];
        const T *first = tile + shape.at(0, i / ES_FUSED_UNIT, 0, 0) * ES_FUSED_UNIT;
        means[i] = fmaf(sum, per_pixel, (float)first[i % ES_FUSED_UNIT]);
        squares[i] = fmaf(-sum * per_pixel, sum, squares[i]) * per_pixel;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += ES_FUSED_THREADS) {
        int channel = i % stride, first = i - channel + channel / width * width;
        float mean = 0.0f, variance = 0.0f, inv_std = 0.0f, scale = 0.0f, shift = 0.0f;
        if (channel < n_channels) {
#pragma unroll 4
            for (int j = first; j < first + width; j++) {
                mean += means[j];
            }
            mean *= per_channel;
#pragma unroll 4
            for (int j = first; j < first + width; j++) {
                float apart = means[j] - mean;
                variance += fmaf(apart, apart, squares[j]);
            }
            variance *= per_channel;
            inv_std = 1.0f / sqrtf((variance < 0.0f ? 0.0f : variance) + ES_FUSED_EPSILON);
            scale = inv_std * gamma[channel];
            shift = fmaf(-mean, scale, beta[channel]);
        }
        norm.mean[i] = mean;
        norm.inv_std[i] = inv_std;
        norm.scale[i] = scale;
        norm.shift[i] = shift;
    }
    for (int i = threadIdx.x; i < stride; i += ES_FUSED_THREADS) {
        norm.gamma[i] = i < n_channels ? gamma[i] : 0.0f;
    }
    __syncthreads();
}

// Statistics per image and group of a tile; tensors k and k + 1 are gamma and beta. Begins and ends
// with a barrier.
template <typename T>
static __device__ __noinline__ void es_group_statistics(const EsSeedWork<T> &w, const T *tile,
                                                        EsTile shape, int k, EsGroupNorm norm) {
    es_seed_sums(w.at.n_images * shape.units, shape.pixels(), w.s.kept, w.s.totals, [=](int unit) {
        float first[8];
        es_unit_load(first, tile + shape.at(0, unit, 0, 0) * ES_FUSED_UNIT);
        return [=](int pixel, float(&sums)[2][8]) {
            float v[8];
            es_unit_load(v, tile + shape.at_pixel(0, unit, pixel) * ES_FUSED_UNIT);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                float apart = v[c] - first[c];
                sums[0][c] += apart;
                sums[1][c] = fmaf(apart, apart, sums[1][c]);
            }
        };
    });
    es_group_combine(w, tile, shape, k, norm);
}

// The norm of one image-unit, in registers.
struct EsGroupUnit {
    float scale[8], shift[8];

    __device__ EsGroupUnit(const EsGroupNorm &norm, int unit) {
        es_unit_load(scale, norm.scale + unit * ES_FUSED_UNIT);
        es_unit_load(shift, norm.shift + unit * ES_FUSED_UNIT);
    }
    // The norm's output, as it would be stored.
    template <typename T> __device__ void apply(const float (&v)[8], float (&y)[8], T) const {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            y[c] = fmaf(v[c], scale[c], shift[c]);
        }
        es_unit_round(y, T());
    }
};

// --- the seed ---

// What a seed and its blend do in one image-unit, in registers.
template <typename T> struct EsSeedUnit {
    EsGroupUnit norm;
    float share, mix;
    int blueprint, mode;

    __device__ EsSeedUnit(const EsSeedWork<T> &w, int unit)
        : norm(w.s.norm[0], unit), share(w.s.share[unit / w.place->units]), mix(w.mix),
          blueprint(w.slot.blueprint), mode(w.slot.mode) {}

    // s from the slot's input x and the branch v.
    __device__ void value(const float (&x)[8], const float (&v)[8], float (&s)[8]) const {
        float y[8];
        if (blueprint == ES_BLUEPRINT_ATTENTION) {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                s[c] = x[c] * norm.scale[c];
            }
        } else if (blueprint == ES_BLUEPRINT_NORM) {
            norm.apply(v, y, T());
#pragma unroll
            for (int c = 0; c < 8; c++) {
                s[c] = x[c] + mix * (y[c] - x[c]);
            }
        } else {
            norm.apply(v, y, T());
#pragma unroll
            for (int c = 0; c < 8; c++) {
                s[c] = x[c] + y[c];
            }
        }
        es_unit_round(s, T());
    }

    // What the slot hands on, as it would be stored.
    __device__ void blend(const float (&x)[8], const float (&v)[8], float (&y)[8]) const {
        float s[8];
        if (share == 0.0f) {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y[c] = x[c];
            }
            return;
        }
        value(x, v, s);
        if (mode == ES_BLEND_MULTIPLY) {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y[c] = es_blend_value(ES_BLEND_MULTIPLY, share, x[c], s[c]);
            }
        } else {
            // es_blend_value, with what all values share taken out
            bool is_near_x = share < 0.5f, is_seed = share >= 1.0f;
            float part = is_near_x ? share : share - 1.0f;
#pragma unroll
            for (int c = 0; c < 8; c++) {
                float mixed = (is_near_x ? x[c] : s[c]) + part * (s[c] - x[c]);
                y[c] = is_seed ? s[c] : mixed;
            }
        }
        es_unit_round(y, T());
    }
};

#endif
