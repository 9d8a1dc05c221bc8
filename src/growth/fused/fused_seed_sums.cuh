// Passes over the maps of a part, and sums over them.
//
// Image-units, numbered image * units + unit, are [row][column] each; tile.at(0, image-unit, row,
// column) is where a pixel lies. What all pixels of an image-unit need is read once: `make` takes
// an image-unit and returns what is called with each of its pixels.
#ifndef ES_GROWTH_FUSED_SEED_SUMS_CUH
#define ES_GROWTH_FUSED_SEED_SUMS_CUH

#include "growth/fused/fused_seed_begin.cuh"

// visit(row, column) for each of the image-units' pixels, each in one thread and always the same.
template <typename Make>
static __device__ __forceinline__ void es_seed_each(int n_units, EsTile tile, Make make) {
    int pixels = tile.pixels();
    EsSpread mine = es_spread(pixels);
    for (int unit = mine.unit; unit < n_units; unit += mine.unit_step) {
        auto visit = make(unit);
        for (int pixel = mine.first; pixel < pixels; pixel += mine.step) {
            int row = tile.row_of(pixel);
            visit(row, pixel - row * tile.size);
        }
    }
}

// So many threads, as whole warps.
static __device__ __forceinline__ int es_whole_warps(int n) { return (n + 31) / 32 * 32; }

// Two sums per channel of n_units units of `count` positions. Units are cut into slices, 1 to 8, so
// that all warps have as much to do: add(unit, slice, n_slices, sums) adds positions 32 slice +
// lane and every 32 n_slices-th from there. Slices are added in a fixed order: finish(i, first,
// second) once for channel i % 8 of unit i / 8, in whole warps, so that i may lie past the last.
// Begins and ends with a barrier.
template <typename Add, typename Finish>
static __device__ __forceinline__ void es_seed_slices(int n_units, int count, float *kept, Add add,
                                                      Finish finish) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int log_slices = max(4 - __ffs(n_units), 0);
    while (log_slices > 0 && 32 << log_slices > count) {
        log_slices--;
    }
    log_slices = n_units << log_slices > ES_SEED_TASKS ? 0 : log_slices;
    int n_slices = 1 << log_slices;
    __syncthreads(); // what is summed may be fresh, and `kept` still be read
    for (int task = warp; task < n_units << log_slices; task += ES_FUSED_WARPS) {
        float sums[2][8] = {};
        add(task >> log_slices, task & (n_slices - 1), n_slices, sums);
        float sum = es_warp_sums(sums);
        if (lane % 2 == 0) {
            kept[task * 16 + lane / 2] = sum;
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < es_whole_warps(n_units * 8); i += ES_FUSED_THREADS) {
        const float *of = kept + (min(i / 8, n_units - 1) << log_slices) * 16 + i % 8;
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
static __device__ __forceinline__ void es_seed_finish_sums(int n_units, int count, float *kept,
                                                           Make make, Finish finish) {
    auto add = [&](int unit, int slice, int n_slices, float(&sums)[2][8]) {
        auto visit = make(unit);
        for (int i = slice * 32 + (int)threadIdx.x % 32; i < count; i += 32 * n_slices) {
            visit(i, sums);
        }
    };
    es_seed_slices(n_units, count, kept, add, finish);
}

template <typename Make>
static __device__ __forceinline__ void es_seed_sums(int n_units, int count, float *kept,
                                                    float *totals, Make make) {
    EsSeedTotals finish = {totals, n_units * ES_FUSED_UNIT};
    es_seed_finish_sums(n_units, count, kept, make, finish);
}

// What 8 values become when they are stored as T.
static __device__ __forceinline__ void es_unit_round(float (&)[8], float) {}
template <typename T> static __device__ __forceinline__ void es_unit_round(float (&v)[8], T) {
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        float2 pair = es_pair_floats(es_pair_bits(v[i], v[i + 1], T()), T());
        v[i] = pair.x, v[i + 1] = pair.y;
    }
}

#endif
