// Forward at a slot: the seed on each image, blended with the host's map, and the pool.
#include "growth/fused_seed_run.cuh"

// y of every unit, or the largest of each window.
template <typename T>
static __device__ __noinline__ void store_blended(const EsSeedWork<T> &w, void *memory,
                                                  int is_pooled) {
    EsTile map = w.s.map;
    int out_size = is_pooled ? w.block->out_size : map.size, pixels = out_size * out_size;
    int count = w.at.n_images * map.units * pixels;
    for (int i = threadIdx.x; i < count; i += ES_FUSED_THREADS) {
        int image_unit = i / pixels, row = i % pixels / out_size, column = i % out_size;
        float best[8];
        for (int k = 0; k < (is_pooled ? 4 : 1); k++) {
            int pixel = is_pooled ? (2 * row + k / 2) * map.size + 2 * column + k % 2 : i % pixels;
            float y[8];
            es_seed_blend(w, EsSpot(image_unit, pixel, map), y);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                best[c] = k == 0 || es_is_larger(y[c], best[c]) ? y[c] : best[c];
            }
        }
        // [image][unit][pixel] without a border is the order of i
        es_unit_store(es_row_image<T>(*w.args, w.at, memory, w.at.first, map.units * pixels) +
                          (int64_t)i * ES_FUSED_UNIT,
                      best);
    }
}

template <typename T>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, ES_SEED_FORWARD_BLOCKS)
    fused_seed_forward_kernel(const __grid_constant__ EsFusedArguments args, int slot,
                              int images_per_part) {
    ES_DYNAMIC_SHARED(memory);
    __shared__ EsSeedWork<T> w;
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
