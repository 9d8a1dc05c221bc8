// Forward at a slot: the seed on each image, blended with the host's map, and the pool.
#include "growth/fused/fused_names.h"
#include "growth/fused/fused_seed_run.cuh"

// y of every channel group.
template <typename T, typename P>
static __device__ __noinline__ void store_blended(const EsSeedWork<T, P> &w) {
    EsTile map = w.map(), padded = w.padded(), branch_tile = w.branch_tile();
    const T *x = w.s.x, *branch = w.branch;
    // [image][c8][pixel] without a border is the order of image-channel groups
    T *to = w.memory.output;
    es_seed_each(w.at.n_images * map.n_c8, map, [&](int c8) {
        EsSeedC8<T> seed(w, c8);
        return [=](int row, int column) {
            float u[8], v[8], y[8];
            es_c8_load(u, x + padded.at(0, c8, row, column) * ES_C8);
            es_c8_load(v, branch + branch_tile.at(0, c8, row, column) * ES_C8);
            seed.blend(u, v, y);
            es_c8_store(es_global(to) + map.at(0, c8, row, column) * ES_C8, y);
        };
    });
}

// The first largest of each window, and in training which that is.
template <typename T, typename P>
static __device__ __noinline__ void store_pooled(const EsSeedWork<T, P> &w) {
    EsTile map = w.map(), padded = w.padded(), branch_tile = w.branch_tile(), out = w.pooled();
    const T *x = w.s.x, *branch = w.branch;
    T *to = w.memory.output;
    uint16_t *winners = w.memory.winners;
    es_seed_each(w.at.n_images * map.n_c8, out, [&](int c8) {
        EsSeedC8<T> seed(w, c8);
        return [=](int row, int column) {
            int at = out.at(0, c8, row, column);
            float best[8];
            uint32_t code[8];
#pragma unroll
            for (int c = 0; c < 8; c++) {
                best[c] = -INFINITY; // of the first pixel, unless another is larger
                code[c] = es_winner_code(0);
            }
#pragma unroll 1
            for (int k = 0; k < 4; k++) {
                int at_row = 2 * row + k / 2, at_column = 2 * column + k % 2;
                uint32_t code_k = es_winner_code(k);
                float u[8], v[8], y[8];
                es_c8_load(u, x + padded.at(0, c8, at_row, at_column) * ES_C8);
                es_c8_load(v, branch + branch_tile.at(0, c8, at_row, at_column) * ES_C8);
                seed.blend(u, v, y);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    bool wins = es_is_larger(y[c], best[c]);
                    best[c] = wins ? y[c] : best[c];
                    code[c] = wins ? code_k : code[c];
                }
            }
            es_c8_store(es_global(to) + at * ES_C8, best);
            if (winners != NULL) {
                winners[at] = (uint16_t)es_winner_bits(code);
            }
        };
    });
}

template <typename T, typename P>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, ES_SEED_FORWARD_BLOCKS)
    fused_seed_forward_kernel(const __grid_constant__ EsFusedArguments args,
                              const __grid_constant__ EsSeedPlan<T> plan, int slot) {
    ES_DYNAMIC_SHARED(memory);
    ES_SEED_WORK(T, P, w);
    if (!es_seed_begin(args, plan, slot, 0, memory, w)) {
        return;
    }
    es_seed_run(w);
    if (w.is_pooled()) {
        store_pooled(w);
    } else {
        store_blended(w);
    }
}

extern "C" size_t es_fused_seed_forward_bytes(const EsFusedPlace *place, EsDtype precision,
                                              int n_images) {
    size_t bytes = 0;
    ES_DISPATCH_FUSED(precision, T, EsSeedShared<T> s; s.layout(*place, n_images, 0);
                      bytes = s.bytes);
    return bytes;
}

extern "C" void es_fused_seed_forward(EsStream *stream, EsDtype precision,
                                      const EsFusedArguments *args, int slot,
                                      int images_per_chunk) {
    EsLaunch launch(stream, es_fused_slot_name(ES_FUSED_PASS_FORWARD, slot));
    int64_t n_chunks = es_ceil_div(args->n_images, images_per_chunk);
    const EsFusedPlace &place = args->net.place[slot];
    int64_t n_instances = es_point_instances(args, place.depth);
    ES_DISPATCH_FUSED(
        precision, T, EsSeedPlan<T> plan(place, args->n_images, images_per_chunk, 0);
        ES_DISPATCH_PLACE(place, T, P,
                          launch.start_shared(fused_seed_forward_kernel<T, P>,
                                              dim3((unsigned)(n_instances * n_chunks)),
                                              ES_FUSED_THREADS, plan.shared.bytes, *args, plan,
                                              slot)));
}
