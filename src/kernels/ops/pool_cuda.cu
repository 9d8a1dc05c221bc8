// A thread per output, backward a thread per input; the average of a whole map takes a warp per
// map.
// Letters: E environments, N images, C channels, H W size of x. A plane is one (e, n, c).
#include "kernels/cuda/cuda_common.cuh"

#define PLANES_PER_BLOCK (ES_THREADS / 32)

// Returns the index, in row order, of the first largest of the four elements of a 2x2 window. NaN
// wins, as on the CPU.
static __device__ __forceinline__ int largest_of(const float (&window)[4]) {
    int best = 0;
    float largest = window[0];
#pragma unroll
    for (int i = 1; i < 4; i++) {
        if (window[i] > largest || (window[i] != window[i] && largest == largest)) {
            best = i;
            largest = window[i];
        }
    }
    return best;
}

template <typename T>
static __device__ __forceinline__ void load_window(float (&window)[4], const T *corner,
                                                   uint32_t width) {
    window[0] = es_load(corner);
    window[1] = es_load(corner + 1);
    window[2] = es_load(corner + width);
    window[3] = es_load(corner + width + 1);
}

template <typename T>
static __global__ void pool_forward_kernel(int is_max, const T *x, T *y, uint32_t height,
                                           uint32_t width, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    uint32_t rows = height / 2, columns = width / 2;
    int64_t planes = span.env * (tiles.count / (rows * columns));
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        uint32_t column = j % columns, row = j / columns % rows;
        int64_t plane = planes + j / columns / rows;
        float window[4];
        load_window(window, x + plane * height * width + 2 * row * width + 2 * column, width);
        // selects, not window[best]: an index known only at run time would put the array into local
        // memory
        int best = largest_of(window);
        float low = best == 0 ? window[0] : window[1], high = best == 2 ? window[2] : window[3];
        float average = 0.25f * ((window[0] + window[1]) + (window[2] + window[3]));
        es_store(y + span.env * tiles.count + j, is_max ? (best < 2 ? low : high) : average);
    }
}

template <typename T>
static __global__ void pool_backward_kernel(int is_max, const T *x, const T *d_y, T *d_x,
                                            uint32_t height, uint32_t width, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    uint32_t rows = height / 2, columns = width / 2;
    int64_t planes = span.env * (tiles.count / (height * width));
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        uint32_t column = j % width, row = j / width % height;
        int64_t plane = planes + j / width / height;
        float d = 0.0f;
        if (row / 2 < rows && column / 2 < columns) {
            float d_out = es_load(d_y + (plane * rows + row / 2) * columns + column / 2);
            const T *corner = x + (plane * height + row / 2 * 2) * width + column / 2 * 2;
            if (is_max) {
                float window[4];
                load_window(window, corner, width);
                d = largest_of(window) == (int)(row % 2 * 2 + column % 2) ? d_out : 0.0f;
            } else {
                d = 0.25f * d_out;
            }
        }
        es_store(d_x + span.env * tiles.count + j, d);
    }
}

template <typename T>
static __global__ void pool_global_forward_kernel(const T *x, T *y, uint32_t area,
                                                  int64_t n_planes) {
    int64_t plane = (int64_t)blockIdx.x * PLANES_PER_BLOCK + threadIdx.x / 32;
    if (plane >= n_planes) {
        return;
    }
    double sum = 0.0;
    for (uint32_t k = threadIdx.x % 32; k < area; k += 32) {
        sum += (double)es_load(x + plane * area + k);
    }
    sum = es_warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        es_store(y + plane, (float)(sum / area));
    }
}

template <typename T>
static __global__ void pool_global_backward_kernel(const T *d_y, T *d_x, uint32_t area,
                                                   EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    int64_t planes = span.env * (tiles.count / area);
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        float d = es_load(d_y + planes + j / area) / (float)area;
        es_store(d_x + span.env * tiles.count + j, d);
    }
}

void es_pool_forward_cuda(EsStream *s, EsPool kind, EsIn x, EsOut y) {
    EsLaunch launch(s, "pool_forward");
    int64_t n_planes = x->dim[0] * x->dim[1] * x->dim[2], height = x->dim[3], width = x->dim[4];
    if (kind == ES_POOL_GLOBAL) {
        dim3 grid((unsigned)es_ceil_div(n_planes, PLANES_PER_BLOCK));
        ES_DISPATCH_DTYPE(x->dtype, T,
                          launch.start(pool_global_forward_kernel<T>, grid, ES_THREADS,
                                       es_data<T>(x), es_data<T>(y), height * width, n_planes));
        return;
    }
    EsTiles tiles = es_tiles(x->dim[1] * x->dim[2] * (height / 2) * (width / 2));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(pool_forward_kernel<T>, es_tiles_grid(tiles, x->dim[0]),
                                   ES_THREADS, kind == ES_POOL_MAX2, es_data<T>(x), es_data<T>(y),
                                   height, width, tiles));
}

void es_pool_backward_cuda(EsStream *s, EsPool kind, EsIn x, EsIn d_y, EsOut d_x) {
    EsLaunch launch(s, "pool_backward");
    int64_t height = x->dim[3], width = x->dim[4];
    EsTiles tiles = es_tiles(x->dim[1] * x->dim[2] * height * width);
    dim3 grid = es_tiles_grid(tiles, x->dim[0]);
    if (kind == ES_POOL_GLOBAL) {
        ES_DISPATCH_DTYPE(d_x->dtype, T,
                          launch.start(pool_global_backward_kernel<T>, grid, ES_THREADS,
                                       es_data<T>(d_y), es_data<T>(d_x), height * width, tiles));
        return;
    }
    ES_DISPATCH_DTYPE(d_x->dtype, T,
                      launch.start(pool_backward_kernel<T>, grid, ES_THREADS, kind == ES_POOL_MAX2,
                                   es_data<T>(x), es_data<T>(d_y), es_data<T>(d_x), height, width,
                                   tiles));
}
