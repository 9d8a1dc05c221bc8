// Preparation of a run, in one launch. Packs weights as the convolutions of fused_tile.cuh read
// them: forward, and with taps mirrored and channels exchanged for dgrad. Draws the images of a
// batch.
//
// A convolution *of the tile* has "inputs" and "outputs"; in the backward direction its inputs are
// the layer's output channels.
#include "growth/fused/fused_kernels.h"

#include "growth/fused/fused_seed_layout.cuh"
#include "growth/fused/fused_seed_pack.cuh"

// --- host weights ---

// One direction of one layer.
struct PackJob {
    int64_t weight;      // offset into an environment's parameters
    int64_t packed;      // bytes into its packed weights
    int n_in, n_out;     // channels of the layer
    int in_c8, out_c8;   // of the tile's convolution
    int n_tap_positions; // kernel^2
    int is_backward, is_tf32;
    int first,
        count; // elements of the packed form: of all jobs before, and its own
};

struct PackJobs {
    PackJob job[2 * ES_FUSED_BLOCKS_MAX];
    int n, count;
};

// The weight between input i and output o of the tile's convolution at a tap; 0 where there is
// none.
static __device__ float weight_at(const PackJob &job, const float *parameters, int tap, int i,
                                  int o) {
    int in = job.is_backward ? o : i, out = job.is_backward ? i : o;
    int position = job.is_backward ? job.n_tap_positions - 1 - tap : tap;
    if (tap >= job.n_tap_positions || in >= job.n_in || out >= job.n_out) {
        return 0.0f;
    }
    return parameters[job.weight + ((int64_t)out * job.n_in + in) * job.n_tap_positions + position];
}

// Element j of the packed form: a float, or two 16-bit numbers.
static __device__ void pack_element(const PackJob &job, const float *parameters,
                                    unsigned char *packed, int j, float) {
    int i = j % 8, o = j / 8 % 8, n_taps = job.n_tap_positions * job.in_c8;
    int q = j / 64 % n_taps, c8 = j / (64 * n_taps);
    float weight = weight_at(job, parameters, q / job.in_c8, q % job.in_c8 * 8 + i, c8 * 8 + o);
    ((float *)(packed + job.packed))[j / 64 * 64 + es_packed_place(i, o)] =
        es_packed_float(weight, job.is_tf32);
}

template <typename T>
static __device__ void pack_element(const PackJob &job, const float *parameters,
                                    unsigned char *packed, int j, T) {
    int n_steps = (job.n_tap_positions * job.in_c8 + 1) / 2;
    int word = j % 2, lane = j / 2 % 32, step = j / 64 % n_steps, c8 = j / (64 * n_steps);
    int q = 2 * step + word, i = q % job.in_c8 * 8 + 2 * (lane % 4), o = c8 * 8 + lane / 4;
    ((uint32_t *)(packed + job.packed))[j] =
        es_pair_bits(weight_at(job, parameters, q / job.in_c8, i, o),
                     weight_at(job, parameters, q / job.in_c8, i + 1, o), T());
}

template <typename T>
static __device__ void pack_host(const EsFusedArguments &args, const PackJobs &jobs, int64_t env,
                                 int block) {
    const float *parameters = args.parameters + env * args.parameter_stride;
    unsigned char *packed = args.packed + env * args.net.packed_bytes;
    int j = block * ES_FUSED_THREADS + (int)threadIdx.x;
    for (int k = 0; k < jobs.n; k++) {
        const PackJob &job = jobs.job[k];
        if (j >= job.first && j < job.first + job.count) {
            pack_element(job, parameters, packed, j - job.first, T());
        }
    }
}

static PackJob pack_job(const EsFusedBlock *block, int is_backward, EsDtype precision) {
    PackJob job = {};
    job.weight = block->weight;
    job.packed = is_backward ? block->packed_backward : block->packed_forward;
    job.n_in = block->n_in;
    job.n_out = block->n_out;
    job.in_c8 = is_backward ? block->out_c8 : block->in_c8;
    job.out_c8 = is_backward ? block->in_c8 : block->out_c8;
    job.n_tap_positions = block->kernel * block->kernel;
    job.is_backward = is_backward;
    int n_taps = job.n_tap_positions * job.in_c8;
    job.count = job.out_c8 * 64 * (precision == ES_DTYPE_F32 ? n_taps : (n_taps + 1) / 2);
    return job;
}

extern "C" size_t es_fused_pack_layout(EsFusedNet *net, EsDtype precision) {
    size_t bytes = 0;
    for (int b = 0; b < net->n_blocks; b++) {
        for (int is_backward = 0; is_backward < 2; is_backward++) {
            PackJob job = pack_job(&net->block[b], is_backward, precision);
            *(is_backward ? &net->block[b].packed_backward : &net->block[b].packed_forward) =
                (int64_t)bytes;
            bytes += ((size_t)job.count * sizeof(uint32_t) + 255) / 256 * 256;
        }
    }
    net->packed_bytes = (int64_t)bytes;
    return bytes;
}

static PackJobs list_jobs(const EsFusedArguments *args, EsDtype precision) {
    PackJobs jobs = {};
    for (int b = 0; b < args->net.n_blocks; b++) {
        // the images need no gradient
        for (int is_backward = 0; is_backward < (b > 0 ? 2 : 1); is_backward++) {
            PackJob *job = &jobs.job[jobs.n++];
            *job = pack_job(&args->net.block[b], is_backward, precision);
            job->is_tf32 = args->is_tf32;
            job->first = jobs.count;
            jobs.count += job->count;
        }
    }
    return jobs;
}

// --- samples ---

static __device__ void draw_sample(const EsFusedArguments &args, int64_t i) {
    int instance = (int)(i / args.n_images), n = (int)(i % args.n_images);
    if (instance >= args.instances.n_instances ||
        (args.instances.n_active != NULL && instance >= args.instances.n_active[0])) {
        return;
    }
    uint32_t episode = (uint32_t)args.episode[args.instances.env[instance]],
             step = (uint32_t)args.step[0];
    uint64_t first = es_gather_first(&args.order, episode, step, args.n_images);
    EsFusedSample sample;
    sample.number = es_gather_sample(args.order.seed, es_gather_leader(&args.order, episode),
                                     first + (uint64_t)n, (uint32_t)args.order.n_samples);
    int size = args.net.block[0].size;
    sample.crop = es_gather_crop(&args.gather, episode, step, (uint32_t)n, size, size);
    args.samples[(int64_t)instance * args.instance_images + n] = sample;
}

// --- all of it ---

// Thread blocks per instance and slot; more than the fewest where all of them are few.
#define SEED_BLOCKS_MIN  8
#define SEED_BLOCKS_MAX  32
#define SEED_BLOCKS_LOAD 512

// Thread blocks: those of seeds, which take longest, first; of hosts; of samples.
struct PrepareShape {
    int n_seed_blocks, seed_blocks_per_slot, n_host_blocks, host_blocks_per_env;
};

// Instances of an environment run the same seed: one packs for all that share the work before it.
static __device__ __forceinline__ bool instance_packs(const EsFusedArguments &args, int instance,
                                                      int slot) {
    if (args.instances.n_active != NULL && instance >= args.instances.n_active[0]) {
        return false;
    }
    return args.sharing.leader == NULL ||
           args.sharing.leader[(args.net.place[slot].depth + 1) * args.instances.n_instances +
                               instance] == instance;
}

template <typename T>
static __global__ void __launch_bounds__(ES_FUSED_THREADS)
    prepare_kernel(const __grid_constant__ EsFusedArguments args,
                   const __grid_constant__ PackJobs jobs, PrepareShape shape) {
    int block = (int)blockIdx.x;
    if (block < shape.n_seed_blocks) {
        int per_slot = shape.seed_blocks_per_slot, at = block / per_slot;
        int instance = at / args.net.n_slots, slot = at % args.net.n_slots;
        if (instance_packs(args, instance, slot)) {
            es_seed_pack<T>(args, instance, slot, block % per_slot, per_slot);
        }
        return;
    }
    block -= shape.n_seed_blocks;
    if (block < shape.n_host_blocks) {
        pack_host<T>(args, jobs, block / shape.host_blocks_per_env,
                     block % shape.host_blocks_per_env);
        return;
    }
    block -= shape.n_host_blocks;
    draw_sample(args, (int64_t)block * ES_FUSED_THREADS + threadIdx.x);
}

extern "C" void es_fused_prepare(EsStream *stream, EsDtype precision,
                                 const EsFusedArguments *args) {
    EsLaunch launch(stream, "fused_prepare");
    PackJobs jobs = list_jobs(args, precision);
    PrepareShape shape = {};
    shape.host_blocks_per_env = (int)es_ceil_div(jobs.count, ES_FUSED_THREADS);
    shape.n_host_blocks = (int)args->n_envs * shape.host_blocks_per_env;
    int n_seeds = (int)args->instances.n_instances * args->net.n_slots;
    int per_slot = SEED_BLOCKS_LOAD / ES_MAX(n_seeds, 1);
    shape.seed_blocks_per_slot = ES_MIN(ES_MAX(per_slot, SEED_BLOCKS_MIN), SEED_BLOCKS_MAX);
    shape.n_seed_blocks = n_seeds * shape.seed_blocks_per_slot;
    int64_t n_samples = args->is_training ? args->instances.n_instances * args->n_images : 0;
    int64_t n_blocks =
        shape.n_seed_blocks + shape.n_host_blocks + es_ceil_div(n_samples, ES_FUSED_THREADS);
    ES_DISPATCH_FUSED(precision, T,
                      launch.start(prepare_kernel<T>, dim3((unsigned)n_blocks), ES_FUSED_THREADS,
                                   *args, jobs, shape));
}

// --- memory of seeds ---

// Memory that seeds need besides activations: packed weights, partial sums of gradients, and the
// images that fit a thread block.

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

extern "C" int es_fused_seed_partial_length(const EsFusedPlace *place) {
    int most = 0;
    for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
        most = ES_MAX(most, es_seed_partial_offset(place->n_channels, b, es_seed_tensor_count(b)));
    }
    return most;
}

// --- images per chunk ---

typedef size_t (*BytesFunction)(const EsFusedPlace *place, EsDtype precision, int n_images);

// As many as let most_blocks thread blocks share shared_limit bytes, else fewer blocks; fewer again
// where chunks would leave more than every other multiprocessor idle. 0: not even one image fits.
static int most_images(const EsFusedPlace *place, EsDtype precision, const EsFusedLimits *limits,
                       int most_blocks, BytesFunction bytes_of) {
    for (int n_blocks = most_blocks; n_blocks > 0; n_blocks--) {
        // a block's static shared memory, and the device's own reserve, are up to 2 KB
        size_t limit = limits->shared_limit / (size_t)n_blocks - 2048;
        int n = 0;
        while (n < limits->n_images && bytes_of(place, precision, n + 1) <= limit &&
               (n == 0 ||
                2 * limits->n_instances * es_ceil_div(limits->n_images, n + 1) >= limits->n_sms)) {
            n++;
        }
        if (n > 0) {
            return n;
        }
    }
    return 0;
}

extern "C" EsStatus es_fused_seed_images(const EsFusedPlace *place, EsDtype precision,
                                         const EsFusedLimits *limits, int *forward_images,
                                         int *backward_images) {
    *forward_images =
        most_images(place, precision, limits, ES_SEED_FORWARD_BLOCKS, es_fused_seed_forward_bytes);
    *backward_images = most_images(place, precision, limits, ES_SEED_BACKWARD_BLOCKS,
                                   es_fused_seed_backward_bytes);
    if (*forward_images == 0 || *backward_images == 0) {
        return ES_FAIL(UNSUPPORTED,
                       "a seed on %d maps of %d x %d needs %zu bytes of shared "
                       "memory; a block of "
                       "threads has %zu",
                       (int)place->n_channels, (int)place->size, (int)place->size,
                       es_fused_seed_backward_bytes(place, precision, 1), limits->shared_limit);
    }
    return ES_STATUS_OK;
}
