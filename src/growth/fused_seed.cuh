// A seed at work on the images of a part: its shared memory, and what its block of threads must
// know. Both directions run this; the backward one keeps more of it.
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
    float *taps; // float: depthwise weights [tap][channels of units]
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

// Shared memory of es_tile_weight_gradient for any layer of a blueprint.
static __host__ __device__ size_t es_seed_scratch_bytes(int units, int narrow_units) {
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
    taps = carve.take<float>(sizeof(T) < 4 ? 0 : 9 * (size_t)stride);
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
    if (!es_row_begin(args, images_per_part, args.net.n_blocks + slot_number, at)) {
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

#endif
