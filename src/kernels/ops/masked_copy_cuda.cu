#include "kernels/cuda/cuda_common.cuh"

static __global__ void masked_copy_kernel(const uint8_t *mask, EsEnvs<const float> from,
                                          EsEnvs<float> to, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    if (mask[span.env] == 0) {
        return;
    }
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        to.at(span.env)[j] = from.at(span.env)[j];
    }
}

void es_masked_copy_cuda(EsStream *s, EsIn mask, EsIn from, EsOut to) {
    EsLaunch launch(s, "masked_copy");
    EsTiles tiles = es_tiles(from->dim[1]);
    launch.start(masked_copy_kernel, es_tiles_grid(tiles, from->dim[0]), ES_THREADS,
                 es_data<const uint8_t>(mask), es_in<float>(from), es_out<float>(to), tiles);
}
