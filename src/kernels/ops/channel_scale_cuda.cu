// A thread per element, four of them; the gradient of a channel's number takes a warp, in double,
// in a fixed order. A plane is one (e, n, c).
#include "kernels/cuda/cuda_common.cuh"

#define PLANES_PER_BLOCK (ES_THREADS / 32)

// y = x w, and backward d_x = d_y w
template <typename T>
static __global__ void channel_scale_forward_kernel(const T *x, const T *w, T *y, uint32_t area,
                                                    EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    int64_t planes = span.env * (tiles.count / area);
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        int64_t at = span.env * tiles.count + j;
        es_store(y + at, es_load(x + at) * es_load(w + planes + j / area));
    }
}

template <typename T>
static __global__ void channel_scale_backward_sums_kernel(const T *x, const T *d_y, T *d_w,
                                                          uint32_t area, int64_t n_planes) {
    int64_t plane = (int64_t)blockIdx.x * PLANES_PER_BLOCK + threadIdx.x / 32;
    if (plane >= n_planes) {
        return;
    }
    double sum = 0.0;
    for (uint32_t k = threadIdx.x % 32; k < area; k += 32) {
        sum += (double)es_load(d_y + plane * area + k) * (double)es_load(x + plane * area + k);
    }
    sum = es_warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        es_store(d_w + plane, (float)sum);
    }
}

static void start_scale(EsLaunch &launch, EsIn x, EsIn w, EsOut y) {
    int64_t area = x->dim[3] * x->dim[4];
    EsTiles tiles = es_tiles(x->dim[1] * x->dim[2] * area);
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(channel_scale_forward_kernel<T>, es_tiles_grid(tiles, x->dim[0]),
                                   ES_THREADS, es_data<T>(x), es_data<T>(w), es_data<T>(y), area,
                                   tiles));
}

void es_channel_scale_forward_cuda(EsStream *s, EsIn x, EsIn w, EsOut y) {
    EsLaunch launch(s, "channel_scale_forward");
    start_scale(launch, x, w, y);
}

void es_channel_scale_backward_cuda(EsStream *s, EsIn x, EsIn w, EsIn d_y, EsOut d_x, EsOut d_w) {
    EsLaunch launch(s, "channel_scale_backward");
    if (d_x != NULL) {
        start_scale(launch, d_y, w, d_x);
    }
    if (d_w != NULL) {
        int64_t n_planes = x->dim[0] * x->dim[1] * x->dim[2];
        dim3 grid((unsigned)es_ceil_div(n_planes, PLANES_PER_BLOCK));
        ES_DISPATCH_DTYPE(x->dtype, T,
                          launch.start(channel_scale_backward_sums_kernel<T>, grid, ES_THREADS,
                                       es_data<T>(x), es_data<T>(d_y), es_data<T>(d_w),
                                       x->dim[3] * x->dim[4], n_planes));
    }
}
