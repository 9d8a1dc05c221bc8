// Passes over the maps of a chunk, and sums over them.
//
// Image-channel groups, numbered image * channel groups + channel group, are [row][column] each;
// tile.at(0, image-channel group, row, column) is the offset of a pixel. Data common to all pixels
// of an image-channel group is read once: `make` takes an image-channel group and returns the
// function that is called with each of its pixels.
#ifndef ES_GROWTH_FUSED_SEED_SUMS_CUH
#define ES_GROWTH_FUSED_SEED_SUMS_CUH

#include "growth/fused/fused_seed_begin.cuh"

// visit(row, column) for each of the image-channel groups' pixels, each in one thread and always
// the same.
template <typename Make>
static __device__ __forceinline__ void es_seed_each(int n_c8, EsTile tile, Make make) {
    int pixels = tile.pixels();
    EsThreadMap mine = es_thread_map(pixels);
    for (int c8 = mine.c8; c8 < n_c8; c8 += mine.c8_step) {
        auto visit = make(c8);
        for (int pixel = mine.first; pixel < pixels; pixel += mine.step) {
            int row = tile.row_of(pixel);
            visit(row, pixel - row * tile.size);
        }
    }
}

// Rounds n threads up to whole warps.
static __device__ __forceinline__ int es_whole_warps(int n) { return (n + 31) / 32 * 32; }

// Two sums per channel of n_c8 channel groups of `count` positions. Channel groups are cut into
// slices, 1 to 8, so that all warps have as much to do: add(channel group, slice, n_slices, sums)
// adds positions 32 slice + lane and every 32 n_slices-th from there. Slices are added in a fixed
// order: finish(i, first, second) once for channel i % 8 of channel group i / 8, in whole warps, so
// that i may lie past the last. Begins and ends with a barrier.
template <typename Add, typename Finish>
static __device__ __forceinline__ void es_seed_slices(int n_c8, int count, float *kept, Add add,
                                                      Finish finish) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int log_slices = max(4 - __ffs(n_c8), 0);
    while (log_slices > 0 && 32 << log_slices > count) {
        log_slices--;
    }
    log_slices = n_c8 << log_slices > ES_SEED_TASKS ? 0 : log_slices;
    int n_slices = 1 << log_slices;
    __syncthreads(); // summands may be fresh, and `kept` still be read
    for (int task = warp; task < n_c8 << log_slices; task += ES_FUSED_WARPS) {
        float sums[2][8] = {};
        add(task >> log_slices, task & (n_slices - 1), n_slices, sums);
        float sum = es_warp_sums(sums);
        if (lane % 2 == 0) {
            kept[task * 16 + lane / 2] = sum;
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < es_whole_warps(n_c8 * 8); i += ES_FUSED_THREADS) {
        const float *of = kept + (min(i / 8, n_c8 - 1) << log_slices) * 16 + i % 8;
        float first = of[0], second = of[8];
#pragma unroll
        for (int s = 1; s < 8; s++) { // all loads at once
            first += s < n_slices ? of[s * 16] : 0.0f;
            second += s < n_slices ? of[s * 16 + 8] : 0.0f;
        }
        finish(i, first, second);
    }
    __syncthreads();
}

// Sums as they are, [2][n], anywhere.
struct EsSeedTotals {
    float *totals;
    int n;

    __device__ void operator()(int i, float first, float second) const {
        if (i < n) {
            totals[i] = first;
            totals[n + i] = second;
        }
    }
};

// The same position by position: visit(position, sums) adds one.
template <typename Make, typename Finish>
static __device__ __forceinline__ void es_seed_finish_sums(int n_c8, int count, float *kept,
                                                           Make make, Finish finish) {
    auto add = [&](int c8, int slice, int n_slices, float(&sums)[2][8]) {
        auto visit = make(c8);
        for (int i = slice * 32 + (int)threadIdx.x % 32; i < count; i += 32 * n_slices) {
            visit(i, sums);
        }
    };
    es_seed_slices(n_c8, count, kept, add, finish);
}

template <typename Make>
static __device__ __forceinline__ void es_seed_sums(int n_c8, int count, float *kept, float *totals,
                                                    Make make) {
    EsSeedTotals finish = {totals, n_c8 * ES_C8};
    es_seed_finish_sums(n_c8, count, kept, make, finish);
}

// Rounds 8 values to T.
static __device__ __forceinline__ void es_c8_round(float (&)[8], float) {}
template <typename T> static __device__ __forceinline__ void es_c8_round(float (&v)[8], T) {
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        float2 pair = es_pair_floats(es_pair_bits(v[i], v[i + 1], T()), T());
        v[i] = pair.x, v[i + 1] = pair.y;
    }
}

#endif
