// A seed at work on the images of a chunk: its shared memory, and the data of its thread block.
// Both directions run this; the backward one keeps more of it.
//
// Vectors of a chunk are [image][channel], padded channels; those that do not exist are 0
// everywhere.
#ifndef ES_GROWTH_FUSED_SEED_CUH
#define ES_GROWTH_FUSED_SEED_CUH

#include <stddef.h>
#include <string.h>

#include "growth/fused/fused_seed_layout.cuh"

// --- shared memory ---

// A pointer whose target is known to be shared memory: loads through it need no 64-bit addresses. A
// plain pointer in a struct in shared memory could point anywhere. Never null.
template <typename T> static __device__ __forceinline__ T *es_shared(T *pointer) {
    __builtin_assume(__isShared(pointer));
    return pointer;
}

// The same for memory of the device: stores through it then do not delay later loads from shared
// memory.
template <typename T> static __device__ __forceinline__ T *es_global(T *pointer) {
    __builtin_assume(__isGlobal(pointer));
    return pointer;
}

template <typename T> struct EsSharedPointer {
    T *pointer;

    __device__ operator T *() const { return es_shared(pointer); }
};

// y = v scale + shift, x_hat = (v - mean) inv_std. Attention has its factors in `scale` of the last
// norm, whose mean is then 0.
struct EsGroupNorm {
    EsSharedPointer<float> mean, inv_std, scale, shift; // vectors
    EsSharedPointer<float> gamma, beta;                 // [padded channels]
};

// Tiles of the slot's channels; x, n and c have a border. Their contents:
//
//             x       n             c                a (backward)   d (backward)
// conv        input   -             branch           d_x            d_y
// depthwise   input   d_m           branch           m, d_x         d_y
// bottleneck  input   r1            branch, d_r2     r2, d_r1       d_y, d_branch, d_x
// conv_heavy  input   relu, d_relu  branch           first conv     d_y
//
// Forward there are three: m, r1 and both of conv_heavy's go to n, r2 to c, and then the
// bottleneck's branch to n; c needs no border.
//
// Made once on the CPU, with offsets from the start of shared memory in place of pointers.
template <typename T> struct EsSeedShared {
    EsSharedPointer<T> x, n, c, a, d;
    EsSharedPointer<T> zeros;     // a channel group
    EsSharedPointer<int> offsets; // tables of them, one after the other (es_seed_table)
    EsSharedPointer<float> host_norm;
    EsSharedPointer<float> kept, scratch;
    EsSharedPointer<float> taps; // float: depthwise weights [tap][padded channels]
    // vectors
    EsSharedPointer<float> totals; // two of them
    EsSharedPointer<float> average, d_average, hidden, d_hidden, offset, tilt;
    EsGroupNorm norm[2];                // the last norm, and conv_heavy's first
    EsSharedPointer<float> share, gate; // [image]
    // the members below are no pointers
    EsTile map, padded, narrow, narrow_padded;
    int stride;                          // floats of a vector's image
    int width;                           // channels of a norm's group
    uint32_t by_stride, by_width, by_c8; // es_fused_reciprocal
    float per_pixel, per_channel;        // 1 / pixels of a map, 1 / width
    size_t bytes;

    void layout(const EsFusedPlace &place, int n_images, int is_backward);
};

// Offsets of taps (es_tap_offsets) of a blueprint's convolutions: all its 3x3 ones read tiles of
// one shape, 1x1 ones three.
enum EsSeedTable {
    ES_SEED_TAPS_3X3,
    ES_SEED_TAPS_PADDED, // 1x1, of the place's channels with a border
    ES_SEED_TAPS_MAP,    // without one
    ES_SEED_TAPS_NARROW, // of the bottleneck
    ES_SEED_TABLES
};

// Offset of a table.
static __host__ __device__ __forceinline__ int es_seed_table(int n_c8, int table) {
    return table == ES_SEED_TAPS_3X3 ? 0 : 9 * n_c8 + 1 + (table - 1) * (n_c8 + 1);
}

// Shared memory of es_tile_wgrad for any layer of a blueprint, and of its replacement in
// fused_seed_backward_cuda.cu for known shapes.
template <typename T>
static size_t es_seed_scratch_bytes(const EsFusedPlace &place, int narrow_c8) {
    int n_c8 = place.n_c8, known_c8 = 0;
    ES_DISPATCH_PLACE(place, T, P, known_c8 = P::C8);
    const size_t bytes[] = {
        es_weight_scratch_bytes(9 * n_c8, n_c8), es_weight_scratch_bytes(n_c8, n_c8),
        es_weight_scratch_bytes(9 * narrow_c8, narrow_c8), es_weight_scratch_bytes(n_c8, narrow_c8),
        es_weight_scratch_bytes(narrow_c8, n_c8),
        // depthwise: a job per channel group, as many as an output of two channel groups has tens
        // of taps
        es_weight_scratch_bytes(ES_FUSED_TAPS * n_c8, 2),
        // four sums per warp, channel group of the input and lane
        (size_t)(ES_FUSED_WARPS * known_c8 * 32) * sizeof(float4)};
    size_t most = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        most = bytes[i] > most ? bytes[i] : most;
    }
    return most;
}

// Sums that es_seed_sums holds at a time: of image-channel groups, or of a channel group's pairs of
// taps.
#define ES_SEED_TASKS 64

static int es_seed_tasks_max(int n_images, int n_c8) {
    int most = (n_images > 5 ? n_images : 5) * n_c8;
    return most > ES_SEED_TASKS ? most : ES_SEED_TASKS;
}

template <typename T>
void EsSeedShared<T>::layout(const EsFusedPlace &place, int n_images, int is_backward) {
    int narrow_c8 = (es_blueprint_narrow(place.n_channels) + 7) / ES_C8;
    EsSharedLayout layout = {NULL, 0};
    map = {place.n_c8, place.size, 0, place.by_size, place.by_pixels};
    padded = {place.n_c8, place.size, 1, place.by_size, place.by_pixels};
    narrow = {narrow_c8, place.size, 0, place.by_size, place.by_pixels};
    narrow_padded = {narrow_c8, place.size, 1, place.by_size, place.by_pixels};
    size_t plain = (size_t)n_images * map.image_c8() * ES_C8;
    size_t with_border = (size_t)n_images * padded.image_c8() * ES_C8;
    x.pointer = layout.take<T>(with_border);
    n.pointer = layout.take<T>(with_border);
    c.pointer = layout.take<T>(is_backward ? with_border : plain);
    a.pointer = layout.take<T>(is_backward ? plain : 0);
    d.pointer = layout.take<T>(is_backward ? plain : 0);
    zeros.pointer = layout.take<T>(ES_C8);
    offsets.pointer = layout.take<int>((size_t)es_seed_table(place.n_c8, ES_SEED_TABLES));
    host_norm.pointer = layout.take<float>(4 * (size_t)place.n_c8 * ES_C8);
    kept.pointer = layout.take<float>(16 * (size_t)es_seed_tasks_max(n_images, place.n_c8));
    scratch.pointer = layout.take<float>(
        is_backward && sizeof(T) < 4 ? es_seed_scratch_bytes<T>(place, narrow_c8) / 4 : 0);
    stride = place.n_c8 * ES_C8;
    size_t vector = (size_t)n_images * stride;
    totals.pointer = layout.take<float>(2 * vector);
    EsSharedPointer<float> *vectors[] = {&average, &d_average, &hidden, &d_hidden, &offset, &tilt};
    for (int i = 0; i < 6; i++) {
        vectors[i]->pointer = layout.take<float>(vector);
    }
    for (int i = 0; i < 2; i++) {
        norm[i].mean.pointer = layout.take<float>(vector);
        norm[i].inv_std.pointer = layout.take<float>(vector);
        norm[i].scale.pointer = layout.take<float>(vector);
        norm[i].shift.pointer = layout.take<float>(vector);
        norm[i].gamma.pointer = layout.take<float>(stride);
        norm[i].beta.pointer = layout.take<float>(stride);
    }
    taps.pointer = layout.take<float>(sizeof(T) < 4 ? 0 : 9 * (size_t)stride);
    share.pointer = layout.take<float>(n_images);
    gate.pointer = layout.take<float>(n_images);
    bytes = layout.used;
    width = place.n_channels / place.n_groups;
    by_stride = es_fused_reciprocal(stride);
    by_width = es_fused_reciprocal(width);
    by_c8 = es_fused_reciprocal(place.n_c8);
    per_pixel = 1.0f / (float)map.pixels();
    per_channel = 1.0f / (float)width;
}

// A piece of the plan's in a block's shared memory.
template <typename T>
static __device__ __forceinline__ T *es_seed_piece(unsigned char *memory,
                                                   const EsSharedPointer<T> &of) {
    return (T *)(memory + (size_t)of.pointer);
}

// --- a launch ---

// Data shared by all thread blocks at a slot, made on the CPU.
template <typename T> struct EsSeedPlan {
    EsSeedShared<T> shared;
    int images_per_chunk, n_chunks;         // of an instance
    int gate_offset[ES_FUSED_GATE_TENSORS]; // in a chunk's partial sums
    struct {
        int kernel[ES_FUSED_TENSORS_MAX], partial_offset[ES_FUSED_TENSORS_MAX];
        int packed[ES_FUSED_TENSORS_MAX][2]; // from the start of the place
    } seed[ES_BLUEPRINT_COUNT];

    EsSeedPlan(const EsFusedPlace &place, int n_images, int per_chunk, int is_backward)
        : images_per_chunk(per_chunk), n_chunks((n_images + per_chunk - 1) / per_chunk) {
        shared.layout(place, images_per_chunk, is_backward);
        for (int k = 0; k < ES_FUSED_GATE_TENSORS; k++) {
            gate_offset[k] = es_seed_partial_offset(place.n_channels, ES_SEED_GATE, k);
        }
        for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
            for (int k = 0; k < ES_FUSED_TENSORS_MAX; k++) {
                bool is_there = k < es_seed_tensor_count(b);
                int i = is_there ? k : 0;
                seed[b].kernel[k] = es_seed_tensor(place.n_channels, b, i).kernel;
                seed[b].partial_offset[k] = es_seed_partial_offset(place.n_channels, b, i);
                for (int j = 0; j < 2; j++) {
                    seed[b].packed[k][j] = (int)es_seed_packed_offset<T>(place.n_channels, b, i, j);
                }
            }
        }
    }
};

// --- work ---

// Addresses of a chunk's images, from the first on.
template <typename T> struct EsSeedMemory {
    const T *raw; // values of the host's convolution that the slot's input is made of
    T *output;    // y, behind the pool where one follows
    uint16_t
        *winners; // of a pool's windows, [image-channel group][pixel of the pooled map]; nullable
    // backward
    const T *d_output;         // gradient of `output`; NULL: the classifier's
    const float *d_classifier; // vectors
    T *d_input;                // gradient of the slot's input
    float *norm_partial;       // sums for the host's batch norm; NULL where another slot makes them
};

// In shared memory of the block, the same for all its threads. P is the place's EsPlaceShape.
// Copies of the launch's arguments are here: through a pointer each of them would be a load from
// memory.
template <typename T, typename P> struct EsSeedWork {
    EsFusedInstance at;
    EsFusedSlot slot; // mode GATE only where there is a gate
    int is_mixed;     // else the seed is incubated
    int is_backward, is_tf32, is_after_pool;
    int n_channels;
    EsFusedBlock block; // of the host
    EsSeedMemory<T> memory;
    float *partial;            // backward: where gradients go
    float mix;                 // norm: tanh(g)
    EsSharedPointer<T> branch; // input of the last norm, or attention, in branch_tile
    int branch_border;
    int kernel[ES_FUSED_TENSORS_MAX];
    const float *parameter[ES_FUSED_TENSORS_MAX], *gate_parameter[ES_FUSED_GATE_TENSORS];
    const unsigned char *packed[ES_FUSED_TENSORS_MAX][2]; // forward and mirrored
    int partial_offset[ES_FUSED_TENSORS_MAX], gate_offset[ES_FUSED_GATE_TENSORS];
    EsSeedShared<T> s;

    __device__ int n_c8() const { return P::C8 > 0 ? P::C8 : s.map.n_c8; }
    __device__ int channels() const { return P::C8 > 0 ? P::C8 * ES_C8 : n_channels; }
    // Floats of a vector's image.
    __device__ int stride() const { return n_c8() * ES_C8; }
    __device__ EsTile tile(EsTile stored) const {
        return P::C8 > 0 ? EsTile{stored.n_c8, P::SIZE, stored.border} : stored;
    }
    __device__ EsTile wide(int border) const {
        EsTile stored = s.map;
        stored.n_c8 = n_c8();
        stored.border = border;
        return tile(stored);
    }
    __device__ EsTile map() const { return wide(0); }
    __device__ EsTile padded() const { return wide(1); }
    __device__ EsTile narrow() const { return tile(s.narrow); }
    __device__ EsTile narrow_padded() const { return tile(s.narrow_padded); }
    __device__ EsTile branch_tile() const { return wide(branch_border); }
    // Tile of the slot's maps behind a pool.
    __device__ EsTile pooled() const {
        return P::C8 > 0
                   ? EsTile{P::C8, P::SIZE / 2, 0}
                   : EsTile{s.map.n_c8, block.out_size, 0, block.by_out_size, block.by_out_pixels};
    }
    __device__ bool is_pooled() const { return !is_after_pool && block.has_pool; }

    // Of image-channel group `c8`; of element i of a vector.
    __device__ int image_of(int c8) const { return es_divide(c8, n_c8(), P::C8 > 0 ? 0 : s.by_c8); }
    __device__ int image_of_element(int i) const {
        return es_divide(i, stride(), P::C8 > 0 ? 0 : s.by_stride);
    }
};

// The block's one. Not a variable of the type: that would have to be initialised.
#define ES_SEED_WORK(T, P, w)                                                                      \
    __shared__ __align__(16) unsigned char w##_bytes[sizeof(EsSeedWork<T, P>)];                    \
    EsSeedWork<T, P> &w = *(EsSeedWork<T, P> *)w##_bytes

// Tensor k of the instance's seed, or of its gate.
template <typename T, typename P>
static __device__ __forceinline__ const float *es_seed_parameter(const EsSeedWork<T, P> &w, int k) {
    return w.parameter[k];
}

template <typename T, typename P>
static __device__ __forceinline__ const float *es_gate_parameter(const EsSeedWork<T, P> &w, int k) {
    return w.gate_parameter[k];
}

#endif
