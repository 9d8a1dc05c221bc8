// A seed at work on the images of a part: its shared memory, and what its block of threads must
// know. Both directions run this; the backward one keeps more of it.
//
// Vectors of a part are [image][channel], channels of units; those that do not exist are 0
// everywhere.
#ifndef ES_GROWTH_FUSED_SEED_CUH
#define ES_GROWTH_FUSED_SEED_CUH

#include <stddef.h>
#include <string.h>

#include "growth/fused_seed_layout.cuh"

// --- shared memory ---

// A pointer whose target is known to be shared memory: loads through it need no 64-bit addresses.
// Elsewhere what a struct in shared memory points to could be anywhere. Never null.
template <typename T> static __device__ __forceinline__ T *es_shared(T *pointer) {
    __builtin_assume(__isShared(pointer));
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
    EsSharedPointer<float> gamma, beta;                 // [channels of units]
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
//
// Made once on the host, with offsets from the start of shared memory in place of pointers.
template <typename T> struct EsSeedShared {
    EsSharedPointer<T> x, n, c, a, d;
    EsSharedPointer<T> zeros;     // a unit
    EsSharedPointer<int> offsets; // of taps
    EsSharedPointer<float> host_norm;
    EsSharedPointer<float> kept, scratch;
    EsSharedPointer<float> taps; // float: depthwise weights [tap][channels of units]
    // vectors
    EsSharedPointer<float> totals; // two of them
    EsSharedPointer<float> average, d_average, hidden, d_hidden, offset, tilt;
    EsGroupNorm norm[2];                // the last norm, and conv_heavy's first
    EsSharedPointer<float> share, gate; // [image]
    // what follows are no pointers
    EsTile map, padded, narrow, narrow_padded;
    int stride;                             // floats of a vector's image
    int width;                              // channels of a norm's group
    uint32_t by_stride, by_width, by_units; // es_fused_reciprocal
    float per_pixel, per_channel;           // 1 / pixels of a map, 1 / width
    size_t bytes;

    void carve(const EsFusedPlace &place, int n_images, int is_backward);
};

// Shared memory of es_tile_weight_gradient for any layer of a blueprint.
static size_t es_seed_scratch_bytes(int units, int narrow_units) {
    const size_t bytes[] = {
        es_weight_scratch_bytes(9 * units, units), es_weight_scratch_bytes(units, units),
        es_weight_scratch_bytes(9 * narrow_units, narrow_units),
        es_weight_scratch_bytes(units, narrow_units), es_weight_scratch_bytes(narrow_units, units),
        // depthwise: a job per unit, as many as an output of two units has tens of taps
        es_weight_scratch_bytes(ES_FUSED_TAPS * units, 2)};
    size_t most = 0;
    for (int i = 0; i < 6; i++) {
        most = bytes[i] > most ? bytes[i] : most;
    }
    return most;
}

// Sums that es_seed_sums holds at a time: of image-units, or of a unit's pairs of taps.
#define ES_SEED_TASKS 64

static int es_seed_tasks_max(int n_images, int units) {
    int most = (n_images > 5 ? n_images : 5) * units;
    return most > ES_SEED_TASKS ? most : ES_SEED_TASKS;
}

template <typename T>
void EsSeedShared<T>::carve(const EsFusedPlace &place, int n_images, int is_backward) {
    int narrow_units = (es_seed_narrow(place.n_channels) + 7) / ES_FUSED_UNIT;
    EsCarve carve = {NULL, 0};
    map = {place.units, place.size, 0, place.by_size, place.by_pixels};
    padded = {place.units, place.size, 1, place.by_size, place.by_pixels};
    narrow = {narrow_units, place.size, 0, place.by_size, place.by_pixels};
    narrow_padded = {narrow_units, place.size, 1, place.by_size, place.by_pixels};
    size_t plain = (size_t)n_images * map.image_units() * ES_FUSED_UNIT;
    size_t with_border = (size_t)n_images * padded.image_units() * ES_FUSED_UNIT;
    x.pointer = carve.take<T>(with_border);
    n.pointer = carve.take<T>(with_border);
    c.pointer = carve.take<T>(is_backward ? with_border : plain);
    a.pointer = carve.take<T>(is_backward ? plain : 0);
    d.pointer = carve.take<T>(is_backward ? plain : 0);
    zeros.pointer = carve.take<T>(ES_FUSED_UNIT);
    offsets.pointer = carve.take<int>(9 * (size_t)place.units + 1);
    host_norm.pointer = carve.take<float>(4 * (size_t)place.units * ES_FUSED_UNIT);
    kept.pointer = carve.take<float>(16 * (size_t)es_seed_tasks_max(n_images, place.units));
    scratch.pointer = carve.take<float>(
        is_backward && sizeof(T) < 4 ? es_seed_scratch_bytes(place.units, narrow_units) / 4 : 0);
    stride = place.units * ES_FUSED_UNIT;
    size_t vector = (size_t)n_images * stride;
    totals.pointer = carve.take<float>(2 * vector);
    EsSharedPointer<float> *vectors[] = {&average, &d_average, &hidden, &d_hidden, &offset, &tilt};
    for (int i = 0; i < 6; i++) {
        vectors[i]->pointer = carve.take<float>(vector);
    }
    for (int i = 0; i < 2; i++) {
        norm[i].mean.pointer = carve.take<float>(vector);
        norm[i].inv_std.pointer = carve.take<float>(vector);
        norm[i].scale.pointer = carve.take<float>(vector);
        norm[i].shift.pointer = carve.take<float>(vector);
        norm[i].gamma.pointer = carve.take<float>(stride);
        norm[i].beta.pointer = carve.take<float>(stride);
    }
    taps.pointer = carve.take<float>(sizeof(T) < 4 ? 0 : 9 * (size_t)stride);
    share.pointer = carve.take<float>(n_images);
    gate.pointer = carve.take<float>(n_images);
    bytes = carve.used;
    width = place.n_channels / place.n_groups;
    by_stride = es_fused_reciprocal(stride);
    by_width = es_fused_reciprocal(width);
    by_units = es_fused_reciprocal(place.units);
    per_pixel = 1.0f / (float)map.pixels();
    per_channel = 1.0f / (float)width;
}

// --- a launch ---

// What all blocks of threads at a slot share, made on the host.
template <typename T> struct EsSeedPlan {
    EsSeedShared<T> shared;
    int gate_offset[ES_FUSED_GATE_TENSORS]; // in a part
    struct {
        int kernel[ES_FUSED_TENSORS_MAX], part_offset[ES_FUSED_TENSORS_MAX];
        int packed[ES_FUSED_TENSORS_MAX][2]; // from the start of the place
    } seed[ES_BLUEPRINT_COUNT];

    EsSeedPlan(const EsFusedPlace &place, int images_per_part, int is_backward) {
        shared.carve(place, images_per_part, is_backward);
        for (int k = 0; k < ES_FUSED_GATE_TENSORS; k++) {
            gate_offset[k] = es_seed_part_offset(place.n_channels, ES_SEED_GATE, k);
        }
        for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
            for (int k = 0; k < ES_FUSED_TENSORS_MAX; k++) {
                bool is_there = k < es_seed_tensor_count(b);
                int i = is_there ? k : 0;
                seed[b].kernel[k] = es_seed_tensor(place.n_channels, b, i).kernel;
                seed[b].part_offset[k] = es_seed_part_offset(place.n_channels, b, i);
                for (int j = 0; j < 2; j++) {
                    seed[b].packed[k][j] = (int)es_seed_packed_offset<T>(place.n_channels, b, i, j);
                }
            }
        }
    }
};

// --- work ---

// In shared memory of the block, the same for all its threads. P is the place's EsPlaceShape.
template <typename T, typename P> struct EsSeedWork {
    const EsFusedArguments *args;
    const EsFusedPlace *place;
    const EsFusedBlock *block;
    EsFusedRow at;
    EsFusedSlot slot; // mode GATE only where there is a gate
    int is_mixed;     // else the seed is incubated
    int is_backward;
    const float *parameters;
    float *part;               // backward: where gradients go
    float mix;                 // norm: tanh(g)
    EsSharedPointer<T> branch; // what the last norm, or attention, reads, in branch_tile
    int branch_border;
    int kernel[ES_FUSED_TENSORS_MAX];
    const unsigned char *packed[ES_FUSED_TENSORS_MAX][2]; // forward and mirrored
    int part_offset[ES_FUSED_TENSORS_MAX], gate_offset[ES_FUSED_GATE_TENSORS];
    EsSeedShared<T> s;

    __device__ int units() const { return P::UNITS > 0 ? P::UNITS : s.map.units; }
    __device__ int channels() const {
        return P::UNITS > 0 ? P::UNITS * ES_FUSED_UNIT : place->n_channels;
    }
    // Floats of a vector's image.
    __device__ int stride() const { return units() * ES_FUSED_UNIT; }
    __device__ EsTile tile(EsTile stored) const {
        return P::UNITS > 0 ? EsTile{stored.units, P::SIZE, stored.border} : stored;
    }
    __device__ EsTile wide(int border) const {
        EsTile stored = s.map;
        stored.units = units();
        stored.border = border;
        return tile(stored);
    }
    __device__ EsTile map() const { return wide(0); }
    __device__ EsTile padded() const { return wide(1); }
    __device__ EsTile narrow() const { return tile(s.narrow); }
    __device__ EsTile narrow_padded() const { return tile(s.narrow_padded); }
    __device__ EsTile branch_tile() const { return wide(branch_border); }

    // Of image-unit `unit`; of element i of a vector.
    __device__ int image_of(int unit) const {
        return es_divide(unit, units(), P::UNITS > 0 ? 0 : s.by_units);
    }
    __device__ int image_of_element(int i) const {
        return es_divide(i, stride(), P::UNITS > 0 ? 0 : s.by_stride);
    }
};

// The block's one. Not a variable of the type: that would have to be initialised.
#define ES_SEED_WORK(T, P, w)                                                                      \
    __shared__ __align__(16) unsigned char w##_bytes[sizeof(EsSeedWork<T, P>)];                    \
    EsSeedWork<T, P> &w = *(EsSeedWork<T, P> *)w##_bytes

// Tensor k of the row's seed, or of its gate.
template <typename T, typename P>
static __device__ __forceinline__ const float *es_seed_parameter(const EsSeedWork<T, P> &w, int k) {
    return w.parameters + w.place->seed[w.slot.blueprint].offset[k];
}

template <typename T, typename P>
static __device__ __forceinline__ const float *es_gate_parameter(const EsSeedWork<T, P> &w, int k) {
    return w.parameters + w.place->gate.offset[k];
}

// w.s = the plan's, with pointers into `memory`, a thread per word.
template <typename T>
static __device__ __forceinline__ void
es_seed_place(EsSeedShared<T> &s, const EsSeedShared<T> &plan, unsigned char *memory) {
    constexpr int N_WORDS = (int)(sizeof plan / sizeof(uint64_t));
    constexpr int N_POINTERS = (int)(offsetof(EsSeedShared<T>, map) / sizeof(uint64_t));
    static_assert(sizeof plan % sizeof(uint64_t) == 0 && N_WORDS <= ES_FUSED_THREADS, "");
    int i = threadIdx.x;
    if (i < N_WORDS) {
        uint64_t word;
        memcpy(&word, (const uint64_t *)&plan + i, sizeof word);
        word += i < N_POINTERS ? (uint64_t)memory : 0;
        memcpy((uint64_t *)&s + i, &word, sizeof word);
    }
}

// Tables of the row's blueprint.
template <typename T, typename P>
static __device__ __forceinline__ void es_seed_tables(const EsSeedPlan<T> &plan, int blueprint,
                                                      const unsigned char *packed,
                                                      EsSeedWork<T, P> &w) {
    int k = threadIdx.x;
    if (k < ES_FUSED_TENSORS_MAX) {
        w.kernel[k] = plan.seed[blueprint].kernel[k];
        w.part_offset[k] = plan.seed[blueprint].part_offset[k];
        w.packed[k][0] = packed + plan.seed[blueprint].packed[k][0];
        w.packed[k][1] = packed + plan.seed[blueprint].packed[k][1];
    }
    if (k < ES_FUSED_GATE_TENSORS) {
        w.gate_offset[k] = plan.gate_offset[k];
    }
}

// Where the last norm, or attention, reads.
template <typename T, typename P>
static __device__ __forceinline__ void es_seed_branch(const EsSeedShared<T> &plan,
                                                      unsigned char *memory, int blueprint,
                                                      EsSeedWork<T, P> &w) {
    bool is_alone = blueprint == ES_BLUEPRINT_NORM || blueprint == ES_BLUEPRINT_ATTENTION;
    bool is_narrow = blueprint == ES_BLUEPRINT_BOTTLENECK && !w.is_backward;
    bool is_padded = is_alone || (w.is_backward && (blueprint == ES_BLUEPRINT_CONV_LIGHT ||
                                                    blueprint == ES_BLUEPRINT_CONV_HEAVY));
    const EsSharedPointer<T> &of = is_alone ? plan.x : is_narrow ? plan.n : plan.c;
    w.branch.pointer = (T *)(memory + (size_t)of.pointer);
    w.branch_border = is_padded;
}

// False in rows that have nothing to do here. Ends with a barrier. Warps fill different parts of w.
template <typename T, typename P>
static __device__ bool es_seed_begin(const EsFusedArguments &args, const EsSeedPlan<T> &plan,
                                     int slot_number, int images_per_part, int is_backward,
                                     unsigned char *memory, EsSeedWork<T, P> &w) {
    EsFusedRow at;
    if (!es_row_begin(args, images_per_part, args.net.n_blocks + slot_number, at)) {
        return false;
    }
    EsFusedSlot slot = es_row_slot(args, at.row, slot_number);
    int is_mixed = es_slot_mixes(slot), k = threadIdx.x;
    if (!is_mixed && !(is_backward && slot.mode == ES_BLEND_INCUBATE)) {
        return false;
    }
    const EsFusedPlace &place = args.net.place[slot_number];
    const float *parameters = es_row_parameters(args, at);
    es_seed_place(w.s, plan.shared, memory);
    es_seed_tables(plan, slot.blueprint,
                   args.seed_packed + at.env * args.net.seed_packed_bytes + place.packed, w);
    if (k == ES_FUSED_THREADS - 32) {
        w.mix = slot.blueprint == ES_BLUEPRINT_NORM
                    ? tanhf(parameters[place.seed[ES_BLUEPRINT_NORM].offset[2]])
                    : 0.0f;
    }
    if (k == ES_FUSED_THREADS - 64) {
        slot.mode = slot.mode == ES_BLEND_GATE && !slot.has_gate ? ES_BLEND_ADD : slot.mode;
        w.args = &args;
        w.place = &place;
        w.block = &args.net.block[place.block];
        w.at = at;
        w.slot = slot;
        w.is_mixed = is_mixed;
        w.is_backward = is_backward;
        w.parameters = parameters;
        es_seed_branch(plan.shared, memory, slot.blueprint, w);
    }
    __syncthreads();
    return true;
}

#endif
