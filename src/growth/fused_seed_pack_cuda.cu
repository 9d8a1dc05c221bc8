// Sizes of what seeds need besides activations: packed weights, parts of gradients, and the images
// that fit a block of threads.
#include "growth/fused_seed_layout.cuh"

#define PACK_BLOCKS 8 // of threads per row and slot

// --- packing ---

// One direction of a convolution. In the backward one inputs and outputs of the tile's convolution
// are exchanged and the taps mirrored.
struct PackJob {
    EsSeedTensor tensor;
    int is_backward, is_tf32;
    const float *weight;
    void *packed;

    // Units that an output reads.
    __device__ int in_units() const {
        return tensor.kind == ES_SEED_DEPTHWISE ? 1
               : is_backward                    ? tensor.out_units()
                                                : tensor.in_units();
    }
    // Between input i and output o of the tile's convolution; 0 where there is none.
    __device__ float at(int q, int i, int o) const {
        int taps = tensor.kernel * tensor.kernel, tap = q / in_units();
        if (tensor.kind == ES_SEED_DEPTHWISE) {
            return tap < taps && o < tensor.n_out && i == o % ES_FUSED_UNIT
                       ? weight[o * taps + (is_backward ? taps - 1 - tap : tap)]
                       : 0.0f;
        }
        int input = q % in_units() * ES_FUSED_UNIT + i;
        int in = is_backward ? o : input, out = is_backward ? input : o;
        if (tap >= taps || in >= tensor.n_in || out >= tensor.n_out) {
            return 0.0f;
        }
        return weight[(out * tensor.n_in + in) * taps + (is_backward ? taps - 1 - tap : tap)];
    }
};

// Word j of the packed form: a float, or two 16-bit numbers.
static __device__ void pack_word(const PackJob &job, int n_taps, int j, float) {
    int i = j % 8, o = j / 8 % 8, q = j / 64 % n_taps, unit = j / (64 * n_taps);
    ((float *)job.packed)[j / 64 * 64 + es_packed_place(i, o)] =
        es_packed_float(job.at(q, i, unit * ES_FUSED_UNIT + o), job.is_tf32);
}

template <typename T> static __device__ void pack_word(const PackJob &job, int n_taps, int j, T) {
    int n_steps = (n_taps + 1) / 2;
    int lane = j / 2 % 32, step = j / 64 % n_steps, unit = j / (64 * n_steps);
    int q = 2 * step + j % 2, i = 2 * (lane % 4), o = unit * ES_FUSED_UNIT + lane / 4;
    ((uint32_t *)job.packed)[j] = es_pair_bits(job.at(q, i, o), job.at(q, i + 1, o), T());
}

template <typename T>
static __global__ void __launch_bounds__(ES_FUSED_THREADS)
    fused_seed_pack_kernel(const __grid_constant__ EsFusedArguments args) {
    int row = (int)blockIdx.x / PACK_BLOCKS / args.net.n_slots;
    int slot_number = (int)blockIdx.x / PACK_BLOCKS % args.net.n_slots;
    if (args.rows.n_active != NULL && row >= args.rows.n_active[0]) {
        return;
    }
    EsFusedSlot slot = es_row_slot(args, row, slot_number);
    if (slot.mode == ES_BLEND_NONE) {
        return;
    }
    const EsFusedPlace &place = args.net.place[slot_number];
    int64_t env = args.rows.env[row];
    unsigned char *packed = args.seed_packed + env * args.net.seed_packed_bytes + place.packed;
    for (int k = 0; k < es_seed_tensor_count(slot.blueprint); k++) {
        EsSeedTensor tensor = es_seed_tensor(place.n_channels, slot.blueprint, k);
        for (int is_backward = 0; is_backward < 2; is_backward++) {
            PackJob job = {tensor, is_backward, args.is_tf32,
                           args.parameters + env * args.parameter_stride +
                               place.seed[slot.blueprint].offset[k],
                           packed + es_seed_packed_offset<T>(place.n_channels, slot.blueprint, k,
                                                             is_backward)};
            int n_taps = tensor.kernel * tensor.kernel * job.in_units();
            int count = (int)(es_seed_packed_tensor_bytes<T>(tensor, is_backward) / 4);
            for (int j = (int)(blockIdx.x % PACK_BLOCKS * ES_FUSED_THREADS + threadIdx.x);
                 j < count; j += PACK_BLOCKS * ES_FUSED_THREADS) {
                pack_word(job, n_taps, j, T());
            }
        }
    }
}

extern "C" size_t es_fused_seed_packed_bytes(const EsFusedPlace *place, EsDtype precision) {
    size_t most = 0;
    for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
        size_t bytes = 0;
        ES_DISPATCH_FUSED(
            precision, T,
            bytes = es_seed_packed_offset<T>(place->n_channels, b, es_seed_tensor_count(b), 0));
        most = ES_MAX(most, bytes);
    }
    return (most + 255) / 256 * 256;
}

extern "C" int es_fused_seed_part_length(const EsFusedPlace *place) {
    int most = 0;
    for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
        most = ES_MAX(most, es_seed_part_offset(place->n_channels, b, es_seed_tensor_count(b)));
    }
    return most;
}

// --- images per part ---

typedef size_t (*BytesFunction)(const EsFusedPlace *place, EsDtype precision, int n_images);

// As many as let most_blocks blocks of threads share shared_limit bytes, else fewer blocks; fewer
// again where parts would leave more than every other multiprocessor idle. 0: not even one image
// fits.
static int most_images(const EsFusedPlace *place, EsDtype precision, const EsFusedRoom *room,
                       int most_blocks, BytesFunction bytes_of) {
    for (int n_blocks = most_blocks; n_blocks > 0; n_blocks--) {
        // a block's static shared memory, and what the device keeps for itself, are up to 2 KB
        size_t limit = room->shared_limit / (size_t)n_blocks - 2048;
        int n = 0;
        while (n < room->n_images && bytes_of(place, precision, n + 1) <= limit &&
               (n == 0 || 2 * room->n_rows * es_ceil_div(room->n_images, n + 1) >= room->n_units)) {
            n++;
        }
        if (n > 0) {
            return n;
        }
    }
    return 0;
}

extern "C" EsStatus es_fused_seed_images(const EsFusedPlace *place, EsDtype precision,
                                         const EsFusedRoom *room, int *forward_images,
                                         int *backward_images) {
    *forward_images =
        most_images(place, precision, room, ES_SEED_FORWARD_BLOCKS, es_fused_seed_forward_bytes);
    *backward_images =
        most_images(place, precision, room, ES_SEED_BACKWARD_BLOCKS, es_fused_seed_backward_bytes);
    if (*forward_images == 0 || *backward_images == 0) {
        return ES_FAIL(UNSUPPORTED,
                       "a seed on %d maps of %d x %d needs %zu bytes of shared "
                       "memory; a block of "
                       "threads has %zu",
                       (int)place->n_channels, (int)place->size, (int)place->size,
                       es_fused_seed_backward_bytes(place, precision, 1), room->shared_limit);
    }
    return ES_STATUS_OK;
}
