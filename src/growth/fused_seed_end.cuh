// The end of a seed's backward pass: the gradient of what entered the slot is put together, stored,
// and summed up for the host's batch norm, all in one pass.
#ifndef ES_GROWTH_FUSED_SEED_END_CUH
#define ES_GROWTH_FUSED_SEED_END_CUH

#include "growth/fused_seed_gradient.cuh"

// The gradient of what entered the slot: [image-unit][pixel], as tiles without a border are.
template <typename T> static __device__ __forceinline__ T *es_seed_d_input(const EsSeedWork<T> &w) {
    const EsFusedMemory &memory = w.args->memory[w.place->block];
    return es_row_image<T>(*w.args, w.at, w.place->is_after_pool ? memory.d_middle : memory.d_relu,
                           w.at.first, w.s.map.image_units());
}

// What it is made of, in [image-unit][pixel] but for the tile.
template <typename T> struct EsSeedEnd {
    const T *beside; // what comes beside the branch
    const T *tile;   // what comes through it; nullable
    EsTile tile_shape;
    const float *d_average;
    float per_pixel;
    T *to;

    // At a pixel; also stored.
    __device__ void finish(int unit, int pixel, int row, int column, float (&g)[8]) const {
        int at = (unit * tile_shape.pixels() + pixel) * ES_FUSED_UNIT;
        float average[8];
        es_unit_load(g, beside + at);
        es_unit_load(average, d_average + unit * ES_FUSED_UNIT);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            g[c] = fmaf(average[c], per_pixel, g[c]);
        }
        if (tile != NULL) {
            float v[8];
            es_unit_load(v, tile + tile_shape.at(0, unit, row, column) * ES_FUSED_UNIT);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                g[c] += v[c];
            }
        }
        es_unit_store(to + at, g);
        es_unit_round(g, T());
    }
};

// A slot after the pool: each gradient belongs to the winner of its window.
template <typename T>
static __device__ __noinline__ void es_seed_end_pooled(const EsSeedWork<T> &w, EsSeedEnd<T> end) {
    const EsFusedBlock &block = *w.block;
    EsTile map = w.s.map;
    int pixels = map.pixels(), size = block.size, step = block.has_pool ? 2 : 1;
    EsNormTable table = es_norm_table(w.s.host_norm, map.units);
    const T *raw = es_row_image<T>(*w.args, w.at, w.args->memory[w.place->block].raw, w.at.first,
                                   map.units * size * size);
    es_seed_sums(map.units, w.at.n_images * pixels, w.s.kept,
                 es_norm_part(*w.args, w.at, w.place->block), [&](int unit) {
                     return [&, unit](int i, float(&sums)[2][8]) {
                         int image = map.image_of(i), pixel = i - image * pixels;
                         int row = map.row_of(pixel), column = pixel - row * map.size;
                         int of = image * map.units + unit;
                         float g[8], x[8], z[8];
                         es_window_value(table, unit,
                                         raw + (of * size * size + step * (row * size + column)) *
                                                   ES_FUSED_UNIT,
                                         block, z, x);
                         end.finish(of, pixel, row, column, g);
#pragma unroll
                         for (int c = 0; c < 8; c++) {
                             es_norm_add(z[c], x[c], g[c], sums, c);
                         }
                     };
                 });
    es_norm_finish_sums(*w.args, w.at, w.place->block);
}

template <typename T>
static __device__ __noinline__ void es_seed_end_full(const EsSeedWork<T> &w, EsSeedEnd<T> end) {
    EsTile map = w.s.map;
    int pixels = map.pixels();
    EsNormTable table = es_norm_table(w.s.host_norm, map.units);
    const T *raw = es_row_image<T>(*w.args, w.at, w.args->memory[w.place->block].raw, w.at.first,
                                   map.image_units());
    es_seed_sums(map.units, w.at.n_images * pixels, w.s.kept,
                 es_norm_part(*w.args, w.at, w.place->block), [=](int unit) {
                     EsNormUnit norm(table, unit);
                     return [=](int i, float(&sums)[2][8]) {
                         int image = map.image_of(i), pixel = i - image * pixels;
                         int row = map.row_of(pixel), of = image * map.units + unit;
                         float g[8], x[8], z[8];
                         es_unit_load(x, raw + (of * pixels + pixel) * ES_FUSED_UNIT);
                         end.finish(of, pixel, row, pixel - row * map.size, g);
                         norm.apply(x, z);
#pragma unroll
                         for (int c = 0; c < 8; c++) {
                             es_norm_add(z[c], x[c], g[c], sums, c);
                         }
                     };
                 });
    es_norm_finish_sums(*w.args, w.at, w.place->block);
}

template <typename T>
static __device__ __noinline__ void es_seed_end_alone(const EsSeedWork<T> &w, EsSeedEnd<T> end) {
    EsTile map = w.s.map;
    __syncthreads();
    es_seed_each(w.at.n_images * map.units, map, [=](int unit) {
        return [=](int row, int column) {
            float g[8];
            end.finish(unit, row * map.size + column, row, column, g);
        };
    });
}

// The gradient of what entered the slot, from what comes beside the branch (w.s.d, or memory) and
// the tile with what comes through it, nullable; and the sums for the host's batch norm, unless
// another mixing slot between this one and the norm will make them. Begins with a barrier.
template <typename T>
static __device__ void es_seed_end(const EsSeedWork<T> &w, const T *beside, const T *tile) {
    EsSeedEnd<T> end = {beside, tile, w.s.map, w.s.d_average, w.s.per_pixel, es_seed_d_input(w)};
    if (!w.place->is_after_pool) {
        es_seed_end_full(w, end);
    } else if (!es_row_mixes(*w.args, w.at.row, w.block->slot[0])) {
        es_seed_end_pooled(w, end);
    } else {
        es_seed_end_alone(w, end);
    }
}

#endif
