// The beginning of both directions at a slot: the instance and images of a thread block, its data
// about them (EsSeedWork), and the slot's input, in shared memory.
//
// Everything here is part of the kernel's own function, where the launch's arguments are constants,
// and loads are issued as soon as their addresses are known.
#ifndef ES_GROWTH_FUSED_SEED_BEGIN_CUH
#define ES_GROWTH_FUSED_SEED_BEGIN_CUH

#include "growth/fused/fused_seed.cuh"
#include "growth/fused/fused_tile.cuh"

// --- windows of a pool ---

// A channel group's values in a 2x2 window that a pool reads, as they lie in memory: words of one
// float or two 16-bit numbers. Which pixel each channel's value came from is 16 bits per window, so
// that the gradient finds its way back with masks, without the values.

// A channel group of T.
template <typename T> struct EsC8Words {
    static constexpr int COUNT = ES_C8 * (int)sizeof(T) / 4;
    uint32_t word[COUNT];

    __device__ void load(const T *from) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            uint4 bits = ((const uint4 *)from)[i / 4];
            word[i] = bits.x, word[i + 1] = bits.y, word[i + 2] = bits.z, word[i + 3] = bits.w;
        }
    }
    // From memory that nothing writes while the kernel runs.
    __device__ void fetch(const T *from) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            uint4 bits = __ldg((const uint4 *)from + i / 4);
            word[i] = bits.x, word[i + 1] = bits.y, word[i + 2] = bits.z, word[i + 3] = bits.w;
        }
    }
    __device__ void store(T *to) const {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            ((uint4 *)to)[i / 4] = make_uint4(word[i], word[i + 1], word[i + 2], word[i + 3]);
        }
    }
};

static __device__ __forceinline__ void es_words_pack(EsC8Words<float> &words, const float (&v)[8]) {
#pragma unroll
    for (int c = 0; c < 8; c++) {
        words.word[c] = __float_as_uint(v[c]);
    }
}

template <typename T>
static __device__ __forceinline__ void es_words_pack(EsC8Words<T> &words, const float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        words.word[i] = es_pair_bits(v[2 * i], v[2 * i + 1], T());
    }
}

static __device__ __forceinline__ void es_words_unpack(const EsC8Words<float> &words,
                                                       float (&v)[8]) {
#pragma unroll
    for (int c = 0; c < 8; c++) {
        v[c] = __uint_as_float(words.word[c]);
    }
}

template <typename T>
static __device__ __forceinline__ void es_words_unpack(const EsC8Words<T> &words, float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = es_pair_floats(words.word[i], T());
        v[2 * i] = pair.x, v[2 * i + 1] = pair.y;
    }
}

// --- winners ---
//
// Pixel k = 2 row + column of channel c: the bit of `column` at 8 (c % 2) + c / 2, that of `row`
// four above it. Channels of a 16-bit pair are then a byte apart, as masks of both need them.

static __device__ __forceinline__ uint32_t es_winner_code(int k) {
    return (uint32_t)((k & 1) | (k & 2) << 3);
}

// From the codes of the channels' winners.
static __device__ __forceinline__ uint32_t es_winner_bits(const uint32_t (&code)[8]) {
    uint32_t bits = 0;
#pragma unroll
    for (int c = 0; c < 8; c++) {
        bits |= code[c] << (8 * (c % 2) + c / 2);
    }
    return bits;
}

// All ones for the channels of word i whose bit is set: of `column` in plane 0, of `row` in 1.
static __device__ __forceinline__ uint32_t es_winner_mask(uint32_t bits, int plane, int i, float) {
    return 0u - (bits >> (8 * (i % 2) + 4 * plane + i / 2) & 1);
}

template <typename T>
static __device__ __forceinline__ uint32_t es_winner_mask(uint32_t bits, int plane, int i, T) {
    uint32_t apart = __byte_perm(bits, 0, 0x4140);
    return (apart >> (4 * plane + i) & 0x00010001u) * 0xFFFFu;
}

// v = the winners' values in a window of a tile with rows of `side` channel groups.
template <typename T>
static __device__ __forceinline__ void es_window_pool(uint32_t bits, const T *window, int side,
                                                      EsC8Words<T> &v) {
    EsC8Words<T> pixel[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        pixel[k].load(window + (k / 2 * side + k % 2) * ES_C8);
    }
#pragma unroll
    for (int i = 0; i < EsC8Words<T>::COUNT; i++) {
        uint32_t column = es_winner_mask(bits, 0, i, T()), row = es_winner_mask(bits, 1, i, T());
        uint32_t upper = (pixel[1].word[i] & column) | (pixel[0].word[i] & ~column);
        uint32_t lower = (pixel[3].word[i] & column) | (pixel[2].word[i] & ~column);
        v.word[i] = (lower & row) | (upper & ~row);
    }
}

// g to the winners of a window, 0 to the others.
template <typename T>
static __device__ __forceinline__ void es_window_scatter(uint32_t bits, T *window, int side,
                                                         const EsC8Words<T> &g) {
    EsC8Words<T> pixel[4];
#pragma unroll
    for (int i = 0; i < EsC8Words<T>::COUNT; i++) {
        uint32_t column = es_winner_mask(bits, 0, i, T()), row = es_winner_mask(bits, 1, i, T());
        pixel[0].word[i] = g.word[i] & ~row & ~column;
        pixel[1].word[i] = g.word[i] & ~row & column;
        pixel[2].word[i] = g.word[i] & row & ~column;
        pixel[3].word[i] = g.word[i] & row & column;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        pixel[k].store(window + (k / 2 * side + k % 2) * ES_C8);
    }
}

// --- the begin of a seed ---

// False in thread blocks that have nothing to do here. Instances beyond the active ones have a slot
// and an environment, too: all three are loaded at once, so that such blocks are gone soon.
template <typename T>
static __device__ __forceinline__ bool
es_seed_instance(const EsFusedArguments &args, const EsSeedPlan<T> &plan, int slot_number,
                 int is_backward, EsFusedInstance &at, EsFusedSlot &slot) {
    at.n_chunks = plan.n_chunks;
    at.instance = (int)(blockIdx.x / (unsigned)plan.n_chunks);
    at.chunk = (int)blockIdx.x - at.instance * plan.n_chunks;
    bool is_listed = args.sharing.leader != NULL;
    if (is_listed) {
        int point = args.net.n_blocks + slot_number;
        at.instance = args.sharing.listed[point * args.instances.n_instances + at.instance];
        if (at.instance < 0) {
            return false;
        }
    }
    // without a branch around any of them the loads do not wait for each other
    __builtin_assume(slot_number >= 0);
    bool has_limit = !is_listed && args.instances.n_active != NULL;
    int n_active = *(has_limit ? args.instances.n_active : args.instances.env);
    at.env = args.instances.env[at.instance];
    slot = es_instance_slot(args, at.instance, slot_number);
    at.first = at.chunk * plan.images_per_chunk;
    at.n_images = min(plan.images_per_chunk, args.n_images - at.first);
    return (!has_limit || at.instance < n_active) &&
           (es_slot_mixes(slot) || (is_backward && slot.mode == ES_BLEND_INCUBATE));
}

// --- data of the thread block ---

// A struct of the arguments into shared memory, a thread per word from FIRST on.
template <int FIRST, typename S>
static __device__ __forceinline__ void es_seed_copy(S &to, const S &from) {
    constexpr int N_WORDS = (int)(sizeof from / sizeof(uint64_t));
    static_assert(sizeof from % sizeof(uint64_t) == 0, "");
    static_assert(FIRST + N_WORDS <= ES_FUSED_THREADS, "");
    int i = (int)threadIdx.x - FIRST;
    if (i >= 0 && i < N_WORDS) {
        uint64_t word;
        memcpy(&word, (const uint64_t *)&from + i, sizeof word);
        memcpy((uint64_t *)&to + i, &word, sizeof word);
    }
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

// Tables of the instance's blueprint, by the threads from `first` on.
template <typename T, typename P>
static __device__ __forceinline__ void
es_seed_tables(const EsSeedPlan<T> &plan, const EsFusedPlace &place, int blueprint,
               const float *parameters, const unsigned char *packed, int first,
               EsSeedWork<T, P> &w) {
    int k = (int)threadIdx.x - first;
    if (k >= 0 && k < ES_FUSED_TENSORS_MAX) {
        w.kernel[k] = plan.seed[blueprint].kernel[k];
        w.partial_offset[k] = plan.seed[blueprint].partial_offset[k];
        w.parameter[k] = parameters + place.seed[blueprint].offset[k];
        w.packed[k][0] = packed + plan.seed[blueprint].packed[k][0];
        w.packed[k][1] = packed + plan.seed[blueprint].packed[k][1];
    }
    if (k >= 0 && k < ES_FUSED_GATE_TENSORS) {
        w.gate_offset[k] = plan.gate_offset[k];
        w.gate_parameter[k] = parameters + place.gate.offset[k];
    }
}

// Input of the last norm, or attention.
template <typename T, typename P>
static __device__ __forceinline__ void es_seed_branch(const EsSeedShared<T> &plan,
                                                      unsigned char *memory, int blueprint,
                                                      int is_backward, EsSeedWork<T, P> &w) {
    bool is_alone = blueprint == ES_BLUEPRINT_NORM || blueprint == ES_BLUEPRINT_ATTENTION;
    bool is_narrow = blueprint == ES_BLUEPRINT_BOTTLENECK && !is_backward;
    bool is_padded = is_alone || (is_backward && (blueprint == ES_BLUEPRINT_CONV_LIGHT ||
                                                  blueprint == ES_BLUEPRINT_CONV_HEAVY));
    const EsSharedPointer<T> &of = is_alone ? plan.x : is_narrow ? plan.n : plan.c;
    w.branch.pointer = es_seed_piece(memory, of);
    w.branch_border = is_padded;
}

// By one thread.
template <typename T>
static __device__ void es_seed_memory(const EsFusedArguments &args, const EsFusedInstance &at,
                                      const EsFusedPlace &place, const EsFusedBlock &block,
                                      EsSeedMemory<T> &to) {
    const EsFusedMemory &of = args.memory[place.block];
    bool is_after = place.is_after_pool, is_pooled = !is_after && block.has_pool;
    bool other_mixes = es_instance_mixes(args, at.instance, block.slot[is_after ? 0 : 1]);
    int map = place.n_c8 * place.size * place.size;
    int out_length = place.n_c8 * block.out_size * block.out_size;
    int64_t image = (int64_t)at.instance * args.instance_images + at.first;
    void *d_output = !is_after && other_mixes ? of.d_middle : of.d_out;
    bool is_classifier = place.block == args.net.n_blocks - 1 && d_output == of.d_out;
    to.raw = es_instance_shared<T>(args, at, is_after ? of.pooled : of.raw, block.depth, map);
    to.output = (T *)(is_after ? of.out : of.middle) + image * out_length * ES_C8;
    to.winners = args.is_training && is_pooled ? of.winners + image * out_length : NULL;
    to.d_output = is_classifier ? NULL : (const T *)d_output + image * out_length * ES_C8;
    to.d_classifier = args.d_features + image * place.n_c8 * ES_C8;
    to.d_input = (T *)(is_after ? of.d_middle : of.d_relu) + image * map * ES_C8;
    to.norm_partial = is_after && other_mixes ? NULL : es_norm_partial(args, at, place.block);
}

// Fill w; warps take different fields of it.
template <typename T, typename P>
static __device__ __forceinline__ void
es_seed_describe(const EsFusedArguments &args, const EsSeedPlan<T> &plan, const EsFusedInstance &at,
                 EsFusedSlot slot, int slot_number, int is_backward, unsigned char *memory,
                 EsSeedWork<T, P> &w) {
    const EsFusedPlace &place = args.net.place[slot_number];
    const EsFusedBlock &block = args.net.block[place.block];
    const float *parameters = es_instance_parameters(args, at);
    es_seed_place(w.s, plan.shared, memory);
    es_seed_copy<ES_FUSED_THREADS - 64>(w.block, block);
    es_seed_tables(plan, place, slot.blueprint, parameters,
                   args.seed_packed + at.env * args.net.seed_packed_bytes + place.packed,
                   ES_FUSED_THREADS - 96, w);
    if (threadIdx.x == ES_FUSED_THREADS - 128) {
        es_seed_memory(args, at, place, block, w.memory);
    }
    if (threadIdx.x == ES_FUSED_THREADS - 32) {
        w.mix = slot.blueprint == ES_BLUEPRINT_NORM
                    ? tanhf(parameters[place.seed[ES_BLUEPRINT_NORM].offset[2]])
                    : 0.0f;
    }
    if (threadIdx.x == ES_FUSED_THREADS - 160) {
        w.at = at;
        w.slot = slot;
        w.is_mixed = es_slot_mixes(slot);
        w.is_backward = is_backward;
        w.is_tf32 = args.is_tf32;
        w.is_after_pool = place.is_after_pool;
        w.n_channels = place.n_channels;
        es_seed_branch(plan.shared, memory, slot.blueprint, is_backward, w);
    }
}

// --- input of the slot ---

// Channel groups that a thread has under way from memory at a time: 16 registers.
template <typename T> constexpr int ES_SEED_BATCH = 16 / EsC8Words<T>::COUNT;

// The host's maps on their way from memory, as they are stored: channel groups of the chunk, which
// follow each other there.
template <typename T> struct EsSeedFresh {
    EsC8Words<T> words[ES_SEED_BATCH<T>];

    __device__ static int index(int first, int j) {
        return first + j * ES_FUSED_THREADS + (int)threadIdx.x;
    }
    __device__ void fetch(const T *raw, int first, int count) {
#pragma unroll
        for (int j = 0; j < ES_SEED_BATCH<T>; j++) {
            if (index(first, j) < count) {
                words[j].fetch(raw + (int64_t)index(first, j) * ES_C8);
            }
        }
    }
    // Normalised and rectified into a tile.
    __device__ void place(int first, int count, const EsNormTable &table, T *tile,
                          const EsTile &shape, uint32_t by_c8) {
#pragma unroll
        for (int j = 0; j < ES_SEED_BATCH<T>; j++) {
            int c8 = shape.image_of(index(first, j));
            int of = c8 - es_divide(c8, shape.n_c8, by_c8) * shape.n_c8;
            EsNormC8 norm(table, of); // loaded even if unused: mostly all j share it
            float x[8], z[8];
            if (index(first, j) < count) {
                es_words_unpack(words[j], x);
                norm.apply(x, z);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    z[c] = es_rectified(z[c]);
                }
                es_words_pack(words[j], z);
            }
        }
#pragma unroll
        for (int j = 0; j < ES_SEED_BATCH<T>; j++) {
            int i = index(first, j), c8 = shape.image_of(i);
            if (i < count) {
                words[j].store(tile + shape.at_pixel(0, c8, i - c8 * shape.pixels()) * ES_C8);
            }
        }
    }
};

// Borders that a blueprint's 3x3 convolutions and their gradients read.
template <typename T>
static __device__ __forceinline__ void es_seed_clear_borders(T *x, T *n, T *c, EsTile padded,
                                                             EsTile narrow, int blueprint,
                                                             int is_backward, int n_images) {
    bool is_light = blueprint == ES_BLUEPRINT_CONV_LIGHT;
    bool is_heavy = blueprint == ES_BLUEPRINT_CONV_HEAVY;
    bool is_depthwise = blueprint == ES_BLUEPRINT_DEPTHWISE;
    bool is_narrow = blueprint == ES_BLUEPRINT_BOTTLENECK;
    if (is_light || is_heavy || is_depthwise) {
        es_tile_clear_border(x, padded, n_images);
    }
    if (is_heavy || is_narrow || (is_depthwise && is_backward)) {
        padded.n_c8 = is_narrow ? narrow.n_c8 : padded.n_c8;
        es_tile_clear_border(n, padded, n_images);
    }
    if (is_backward && (is_light || is_heavy)) {
        es_tile_clear_border(c, padded, n_images);
    }
}

// Offsets of all convolutions of a blueprint.
static __device__ __forceinline__ void es_seed_fill_tables(int *offsets, EsTile padded,
                                                           EsTile narrow, int blueprint) {
    int n_c8 = padded.n_c8;
    if (blueprint == ES_BLUEPRINT_NORM || blueprint == ES_BLUEPRINT_ATTENTION) {
        return;
    }
    if (blueprint != ES_BLUEPRINT_CONV_SMALL) {
        EsTile tile = padded;
        tile.n_c8 = blueprint == ES_BLUEPRINT_DEPTHWISE ? 1 : n_c8;
        tile.n_c8 = blueprint == ES_BLUEPRINT_BOTTLENECK ? narrow.n_c8 : tile.n_c8;
        es_tap_offsets(offsets, tile, 3);
    }
    if (blueprint != ES_BLUEPRINT_CONV_LIGHT && blueprint != ES_BLUEPRINT_CONV_HEAVY) {
        es_tap_offsets(offsets + es_seed_table(n_c8, ES_SEED_TAPS_PADDED), padded, 1);
        padded.border = narrow.border = 0;
        es_tap_offsets(offsets + es_seed_table(n_c8, ES_SEED_TAPS_MAP), padded, 1);
        es_tap_offsets(offsets + es_seed_table(n_c8, ES_SEED_TAPS_NARROW), narrow, 1);
    }
}

// Parameters of the norms, each by a warp or more of its own, and the blend's factors without a
// gate.
template <typename T>
static __device__ __forceinline__ void
es_seed_load_scalars(const EsFusedArguments &args, const EsSeedShared<T> &plan,
                     const EsFusedInstance &at, const EsFusedPlace &place, EsFusedSlot slot,
                     unsigned char *memory) {
    const float *parameters = es_instance_parameters(args, at);
    int last = es_blueprint_last_norm(slot.blueprint);
    for (int k = 0; k < 2; k++) {
        int tensor = k == 0 ? last : slot.blueprint == ES_BLUEPRINT_CONV_HEAVY ? 1 : -1;
        float *gamma = es_seed_piece(memory, plan.norm[k].gamma);
        float *beta = es_seed_piece(memory, plan.norm[k].beta);
        int first = (int)(threadIdx.x + (unsigned)(k + 1) * 64) % ES_FUSED_THREADS;
#pragma unroll 1
        for (int i = first; tensor >= 0 && i < plan.stride; i += ES_FUSED_THREADS) {
            const int64_t *offset = place.seed[slot.blueprint].offset + tensor;
            gamma[i] = i < place.n_channels ? parameters[offset[0] + i] : 0.0f;
            beta[i] = i < place.n_channels ? parameters[offset[1] + i] : 0.0f;
        }
    }
    float *share = es_seed_piece(memory, plan.share), *gate = es_seed_piece(memory, plan.gate);
    float *d_average = es_seed_piece(memory, plan.d_average);
#pragma unroll 1
    for (int i = threadIdx.x; slot.mode != ES_BLEND_GATE && i < at.n_images;
         i += ES_FUSED_THREADS) {
        gate[i] = 1.0f;
        share[i] = es_blend_share(slot.mode, slot.alpha, 1.0f);
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < at.n_images * plan.stride; i += ES_FUSED_THREADS) {
        d_average[i] = 0.0f;
    }
}

// False in thread blocks that have nothing to do here; else w is filled and x holds the slot's
// input. Ends with a barrier.
template <typename T, typename P>
static __device__ __forceinline__ bool
es_seed_begin(const EsFusedArguments &args, const EsSeedPlan<T> &plan, int slot_number,
              int is_backward, unsigned char *memory, EsSeedWork<T, P> &w) {
    EsFusedInstance at;
    EsFusedSlot slot;
    EsSeedFresh<T> fresh;
    if (!es_seed_instance(args, plan, slot_number, is_backward, at, slot)) {
        return false;
    }
    const EsFusedPlace &place = args.net.place[slot_number];
    const EsSeedShared<T> &s = plan.shared;
    EsTile padded = P::C8 > 0 ? EsTile{P::C8, P::SIZE, 1} : s.padded;
    EsTile narrow = P::C8 > 0 ? EsTile{s.narrow.n_c8, P::SIZE, 1} : s.narrow_padded;
    uint32_t by_c8 = P::C8 > 0 ? 0 : s.by_c8;
    int per_image = padded.n_c8 * padded.pixels();
    int count = place.is_after_pool ? 0 : at.n_images * per_image;
    const T *raw = es_instance_shared<T>(args, at, args.memory[place.block].raw,
                                         args.net.block[place.block].depth, per_image);
    T *x = es_seed_piece(memory, s.x);
    EsNormTable table = es_norm_table(es_seed_piece(memory, s.host_norm), padded.n_c8);
    fresh.fetch(raw, 0, count);
    slot.mode = slot.mode == ES_BLEND_GATE && !slot.has_gate ? ES_BLEND_ADD : slot.mode;
    es_norm_load(args, at, place.block, table);
    es_seed_load_scalars(args, s, at, place, slot, memory);
    es_seed_describe(args, plan, at, slot, slot_number, is_backward, memory, w);
    es_seed_clear_borders(x, es_seed_piece(memory, s.n), es_seed_piece(memory, s.c), padded, narrow,
                          slot.blueprint, is_backward, at.n_images);
    es_seed_fill_tables(es_seed_piece(memory, s.offsets), padded, narrow, slot.blueprint);
    if (threadIdx.x == 0) {
        es_c8_zero(es_seed_piece(memory, s.zeros));
    }
    __syncthreads();
    if (place.is_after_pool) {
        es_load_block_output(args, at, place.block, args.net.block[place.block], 1, table, x,
                             padded);
    }
    for (int first = 0; first < count; first += ES_SEED_BATCH<T> * ES_FUSED_THREADS) {
        if (first > 0) {
            fresh.fetch(raw, first, count);
        }
        fresh.place(first, count, table, x, padded, by_c8);
    }
    __syncthreads();
    return true;
}

#endif
