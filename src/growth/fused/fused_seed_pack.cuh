// Seeds' weights in the order that convolutions read, and where the partial sums of their gradients
// go in the gradient slab.
#ifndef ES_GROWTH_FUSED_SEED_PACK_CUH
#define ES_GROWTH_FUSED_SEED_PACK_CUH

#include "growth/fused/fused_seed_layout.cuh"

// --- packing ---

// One direction of a convolution. In the backward one inputs and outputs of the tile's convolution
// are exchanged and the taps mirrored.
struct EsSeedPackJob {
    EsSeedTensor tensor;
    int is_backward, is_tf32;
    const float *weight;
    void *packed;

    // Channel groups that an output reads.
    __device__ int in_c8() const {
        return tensor.kind == ES_TENSOR_DEPTHWISE ? 1
               : is_backward                      ? tensor.out_c8()
                                                  : tensor.in_c8();
    }
    // Between input i and output o of the tile's convolution; 0 where there is none.
    __device__ float at(int q, int i, int o) const {
        int taps = tensor.kernel * tensor.kernel, tap = q / in_c8();
        if (tensor.kind == ES_TENSOR_DEPTHWISE) {
            return tap < taps && o < tensor.n_out && i == o % ES_C8
                       ? weight[o * taps + (is_backward ? taps - 1 - tap : tap)]
                       : 0.0f;
        }
        int input = q % in_c8() * ES_C8 + i;
        int in = is_backward ? o : input, out = is_backward ? input : o;
        if (tap >= taps || in >= tensor.n_in || out >= tensor.n_out) {
            return 0.0f;
        }
        return weight[(out * tensor.n_in + in) * taps + (is_backward ? taps - 1 - tap : tap)];
    }
};

// Word j of the packed form: a float, or two 16-bit numbers.
static __device__ void es_seed_pack_word(const EsSeedPackJob &job, int n_taps, int j, float) {
    int i = j % 8, o = j / 8 % 8, q = j / 64 % n_taps, c8 = j / (64 * n_taps);
    ((float *)job.packed)[j / 64 * 64 + es_packed_place(i, o)] =
        es_packed_float(job.at(q, i, c8 * ES_C8 + o), job.is_tf32);
}

template <typename T>
static __device__ void es_seed_pack_word(const EsSeedPackJob &job, int n_taps, int j, T) {
    int n_steps = (n_taps + 1) / 2;
    int lane = j / 2 % 32, step = j / 64 % n_steps, c8 = j / (64 * n_steps);
    int q = 2 * step + j % 2, i = 2 * (lane % 4), o = c8 * ES_C8 + lane / 4;
    ((uint32_t *)job.packed)[j] = es_pair_bits(job.at(q, i, o), job.at(q, i + 1, o), T());
}

// Thread block number `block` of n_blocks packs the seed that an instance runs at a slot.
template <typename T>
static __device__ void es_seed_pack(const EsFusedArguments &args, int instance, int slot_number,
                                    int block, int n_blocks) {
    EsFusedSlot slot = es_instance_slot(args, instance, slot_number);
    if (slot.mode == ES_BLEND_NONE) {
        return;
    }
    const EsFusedPlace &place = args.net.place[slot_number];
    int64_t env = args.instances.env[instance];
    const float *parameters = args.parameters + env * args.parameter_stride;
    // a tensor's offset follows from those before it (es_seed_packed_offset)
    unsigned char *packed = args.seed_packed + env * args.net.seed_packed_bytes + place.packed;
    for (int k = 0; k < es_seed_tensor_count(slot.blueprint); k++) {
        EsSeedTensor tensor = es_seed_tensor(place.n_channels, slot.blueprint, k);
        if (tensor.kind == ES_TENSOR_VECTOR) {
            continue;
        }
        for (int is_backward = 0; is_backward < 2; is_backward++) {
            EsSeedPackJob job = {tensor, is_backward, args.is_tf32,
                                 parameters + place.seed[slot.blueprint].offset[k], packed};
            int n_taps = tensor.kernel * tensor.kernel * job.in_c8();
            int bytes = (int)es_seed_packed_tensor_bytes<T>(tensor, is_backward);
            for (int j = block * ES_FUSED_THREADS + (int)threadIdx.x; j < bytes / 4;
                 j += n_blocks * ES_FUSED_THREADS) {
                es_seed_pack_word(job, n_taps, j, T());
            }
            packed += bytes;
        }
    }
}

// --- gradients ---

// Offset for sum i of a tensor, from its start: -1 for padding.
static __device__ int es_seed_gradient_place(EsSeedTensor tensor, int i) {
    int n_out = tensor.out_c8() * ES_C8, taps = tensor.kernel * tensor.kernel;
    if (tensor.kind == ES_TENSOR_CONV) {
        int o = i / ES_C8 % n_out, q = i / (ES_C8 * n_out);
        int in = q % tensor.in_c8() * ES_C8 + i % ES_C8;
        return in < tensor.n_in && o < tensor.n_out
                   ? (o * tensor.n_in + in) * taps + q / tensor.in_c8()
                   : -1;
    }
    if (tensor.kind == ES_TENSOR_DEPTHWISE) {
        int channel = i % n_out, tap = 2 * (i / n_out % 5) + i / (5 * n_out);
        return channel < tensor.n_out && tap < taps ? channel * taps + tap : -1;
    }
    return i < tensor.n_out ? i : -1;
}

static __host__ __device__ __forceinline__ int es_seed_gate_partial_length(int n_channels) {
    return es_seed_partial_offset(n_channels, ES_SEED_GATE, ES_FUSED_GATE_TENSORS);
}

static __device__ __forceinline__ bool es_seed_gate_learns(EsFusedSlot slot) {
    return slot.mode == ES_BLEND_GATE && slot.has_gate;
}

// Sum i of a chunk: the offset in an environment's parameters of the element whose gradient it is;
// -1 for padding, and for tensors without a gradient in this instance.
static __device__ int64_t es_seed_partial_place(const EsFusedPlace &place, EsFusedSlot slot,
                                                int i) {
    int gate_length = es_seed_gate_partial_length(place.n_channels);
    bool is_gate = i < gate_length;
    if (is_gate && !es_seed_gate_learns(slot)) {
        return -1;
    }
    int blueprint = is_gate ? ES_SEED_GATE : slot.blueprint;
    const EsFusedSeed &seed = is_gate ? place.gate : place.seed[slot.blueprint];
    i -= is_gate ? 0 : gate_length;
    for (int k = 0; k < es_seed_tensor_count(blueprint); k++) {
        EsSeedTensor tensor = es_seed_tensor(place.n_channels, blueprint, k);
        if (i < tensor.partial_length()) {
            int at = es_seed_gradient_place(tensor, i);
            return at < 0 ? -1 : seed.offset[k] + at;
        }
        i -= tensor.partial_length();
    }
    return -1;
}

#endif
