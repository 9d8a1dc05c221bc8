// Seeds' weights into the order that convolutions read, the parts of their gradients into the
// gradient slab, and the sizes of both.
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

    __device__ int in_units() const { return is_backward ? tensor.out_units() : tensor.in_units(); }
    __device__ int out_units() const {
        return is_backward ? tensor.in_units() : tensor.out_units();
    }
    // Between input i and output o of the tile's convolution; 0 where there is none.
    __device__ float at(int q, int i, int o) const {
        int taps = tensor.kernel * tensor.kernel, tap = q / in_units();
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

extern "C" void es_fused_seed_pack(EsStream *stream, EsDtype precision,
                                   const EsFusedArguments *args) {
    EsLaunch launch(stream, "fused_seed_pack");
    int64_t n_blocks = args->rows.n_rows * args->net.n_slots * PACK_BLOCKS;
    ES_DISPATCH_FUSED(
        precision, T,
        launch.start(fused_seed_pack_kernel<T>, dim3((unsigned)n_blocks), ES_FUSED_THREADS, *args));
}

// --- gradients ---

// Where sum i of a tensor goes, from its start: -1 for padding.
static __device__ int gradient_place(EsSeedTensor tensor, int i) {
    int n_out = tensor.out_units() * ES_FUSED_UNIT, taps = tensor.kernel * tensor.kernel;
    if (tensor.kind == ES_SEED_CONVOLUTION) {
        int o = i / ES_FUSED_UNIT % n_out, q = i / (ES_FUSED_UNIT * n_out);
        int in = q % tensor.in_units() * ES_FUSED_UNIT + i % ES_FUSED_UNIT;
        return in < tensor.n_in && o < tensor.n_out
                   ? (o * tensor.n_in + in) * taps + q / tensor.in_units()
                   : -1;
    }
    if (tensor.kind == ES_SEED_DEPTHWISE) {
        int channel = i % n_out, tap = 2 * (i / n_out % 5) + i / (5 * n_out);
        return channel < tensor.n_out && tap < taps ? channel * taps + tap : -1;
    }
    return i < tensor.n_out ? i : -1;
}

// Sum i of a part: the offset into an environment's parameters of what it is the gradient of; -1
// for padding, and for tensors without a gradient in this row.
static __device__ int64_t part_place(const EsFusedPlace &place, EsFusedSlot slot, int i) {
    for (int network = 0; network < 2; network++) {
        int blueprint = network == 0 ? ES_SEED_GATE : slot.blueprint;
        const EsFusedSeed &seed = network == 0 ? place.gate : place.seed[slot.blueprint];
        for (int k = 0; k < es_seed_tensor_count(blueprint); k++) {
            EsSeedTensor tensor = es_seed_tensor(place.n_channels, blueprint, k);
            if (i < tensor.part_length()) {
                int is_still = network == 0 && !(slot.mode == ES_BLEND_GATE && slot.has_gate);
                int at = is_still ? -1 : gradient_place(tensor, i);
                return at < 0 ? -1 : seed.offset[k] + at;
            }
            i -= tensor.part_length();
        }
    }
    return -1;
}

#define REDUCE_ELEMENTS 32
#define REDUCE_SLICES   (ES_FUSED_THREADS / REDUCE_ELEMENTS)

// Eight threads share a sum: each takes every eighth part, then the eight in turn.
static __global__ void __launch_bounds__(ES_FUSED_THREADS)
    fused_seed_reduce_kernel(const __grid_constant__ EsFusedArguments args, int slot_number,
                             int part_length, int blocks_per_row) {
    __shared__ double sums[REDUCE_SLICES][REDUCE_ELEMENTS];
    int row = (int)blockIdx.x / blocks_per_row;
    int element = (int)threadIdx.x % REDUCE_ELEMENTS, slice = (int)threadIdx.x / REDUCE_ELEMENTS;
    int i = (int)(blockIdx.x % blocks_per_row) * REDUCE_ELEMENTS + element;
    if (args.rows.n_active != NULL && row >= args.rows.n_active[0]) {
        return;
    }
    EsFusedSlot slot = es_row_slot(args, row, slot_number);
    if (slot.mode == ES_BLEND_NONE) {
        return;
    }
    int64_t place =
        i < part_length ? part_place(args.net.place[slot_number], slot, i) : (int64_t)-1;
    int n_parts = place < 0 ? 0 : args.n_seed_parts[slot_number];
    const float *parts = args.seed_parts[slot_number] +
                         (int64_t)row * args.n_seed_parts[slot_number] * part_length + i;
    double sum = 0.0;
#pragma unroll 8
    for (int p = slice; p < n_parts; p += REDUCE_SLICES) {
        sum += (double)parts[(int64_t)p * part_length];
    }
    sums[slice][element] = sum;
    __syncthreads();
    if (slice == 0 && place >= 0) {
        for (int k = 1; k < REDUCE_SLICES; k++) {
            sum += sums[k][element];
        }
        args.gradients[args.rows.env[row] * args.parameter_stride + place] = (float)sum;
    }
}

extern "C" int es_fused_seed_part_length(const EsFusedPlace *place) {
    int most = 0;
    for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
        most = ES_MAX(most, es_seed_part_offset(place->n_channels, b, es_seed_tensor_count(b)));
    }
    return most;
}

extern "C" void es_fused_seed_reduce(EsStream *stream, const EsFusedArguments *args, int slot) {
    EsLaunch launch(stream, "fused_seed_reduce");
    int part_length = es_fused_seed_part_length(&args->net.place[slot]);
    int blocks_per_row = (int)es_ceil_div(part_length, REDUCE_ELEMENTS);
    launch.start(fused_seed_reduce_kernel, dim3((unsigned)(args->rows.n_rows * blocks_per_row)),
                 ES_FUSED_THREADS, *args, slot, part_length, blocks_per_row);
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
                       "a seed on %d maps of %d x %d needs %zu bytes of shared memory; a block of "
                       "threads has %zu",
                       (int)place->n_channels, (int)place->size, (int)place->size,
                       es_fused_seed_backward_bytes(place, precision, 1), room->shared_limit);
    }
    return ES_STATUS_OK;
}
