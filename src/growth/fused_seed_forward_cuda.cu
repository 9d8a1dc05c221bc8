// Forward at a slot: the seed on each image, blended with the host's map, and the pool.
#include "growth/fused_seed_run.cuh"

// y of every unit, or the largest of each window.
template <typename T>
static __device__ __noinline__ void store_blended(const EsSeedWork<T> &w, void *memory,
                                                  int is_pooled) {
    const EsFusedBlock &block = *w.block;
    EsTile map = w.s.map, padded = w.s.padded, branch_tile = w.branch_tile, out = map;
    if (is_pooled) {
        out = {map.units, block.out_size, 0, block.by_out_size, block.by_out_pixels};
    }
    const T *x = w.s.x, *branch = w.branch;
    int n_window = is_pooled ? 4 : 1, step = is_pooled ? 2 : 1;
    // [image][unit][pixel] without a border is the order of image-units
    T *to = es_row_image<T>(*w.args, w.at, memory, w.at.first, map.units * out.pixels());
    es_seed_each(w.at.n_images * map.units, out, [&](int unit) {
        EsSeedUnit<T> seed(w, unit);
        return [=](int row, int column) {
            float best[8];
            for (int k = 0; k < n_window; k++) {
                int at_row = step * row + k / 2, at_column = step * column + k % 2;
                float u[8], v[8], y[8];
                es_unit_load(u, x + padded.at(0, unit, at_row, at_column) * ES_FUSED_UNIT);
                es_unit_load(v,
                             branch + branch_tile.at(0, unit, at_row, at_column) * ES_FUSED_UNIT);
                seed.blend(u, v, y);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    best[c] = k == 0 || es_is_larger(y[c], best[c]) ? y[c] : best[c];
                }
            }
            es_unit_store(to + out.at(0, unit, row, column) * ES_FUSED_UNIT, best);
        };
    });
}

template <typename T>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, ES_SEED_FORWARD_BLOCKS)
    fused_seed_forward_kernel(const __grid_constant__ EsFusedArguments args, int slot,
                              int images_per_part) {
    ES_DYNAMIC_SHARED(memory);
    ES_SEED_WORK(T, w);
    if (!es_seed_begin(args, slot, images_per_part, 0, memory, w)) {
        return;
    }
    es_seed_run(w);
    const EsFusedMemory &of = args.memory[w.place->block];
    if (w.place->is_after_pool) {
        store_blended(w, of.out, 0);
    } else {
        store_blended(w, of.middle, w.block->has_pool);
    }
}

extern "C" size_t es_fused_seed_forward_bytes(const EsFusedPlace *place, EsDtype precision,
                                              int n_images) {
    size_t bytes = 0;
    ES_DISPATCH_FUSED(precision, T, EsSeedShared<T> s; s.carve(*place, n_images, 0, NULL);
                      bytes = s.bytes);
    return bytes;
}

extern "C" void es_fused_seed_forward(EsStream *stream, EsDtype precision,
                                      const EsFusedArguments *args, int slot, int images_per_part) {
    EsLaunch launch(stream, "fused_seed_forward");
    int64_t n_parts = es_ceil_div(args->n_images, images_per_part);
    size_t bytes = es_fused_seed_forward_bytes(&args->net.place[slot], precision, images_per_part);
    ES_DISPATCH_FUSED(precision, T,
                      launch.start_shared(fused_seed_forward_kernel<T>,
                                          dim3((unsigned)(args->rows.n_rows * n_parts)),
                                          ES_FUSED_THREADS, bytes, *args, slot, images_per_part));
}
