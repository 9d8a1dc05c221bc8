// A thread per element of the result, four of them. The inputs' addresses travel as a kernel
// argument, so that one launch serves them all.
#include "kernels/cuda/cuda_common.cuh"

template <typename T> struct Parts {
    const T *data[ES_CONCAT_MAX];
    uint32_t first[ES_CONCAT_MAX + 1]; // column of y where each begins; the last: all columns
    int n;
};

template <typename T>
static __global__ void concat_forward_kernel(Parts<T> parts, T *y, int64_t count) {
    uint32_t width = parts.first[parts.n];
    int64_t start = (int64_t)blockIdx.x * ES_TILE + threadIdx.x;
    for (int k = 0; k < ES_TILE / ES_THREADS; k++) {
        int64_t j = start + k * ES_THREADS;
        if (j < count) {
            int64_t row = j / width;
            uint32_t column = (uint32_t)(j - row * width);
            int part = 0;
            while (column >= parts.first[part + 1]) {
                part++;
            }
            uint32_t part_width = parts.first[part + 1] - parts.first[part];
            y[j] = parts.data[part][row * part_width + (column - parts.first[part])];
        }
    }
}

template <typename T>
static __global__ void concat_backward_kernel(const T *d_y, T *d_x, uint32_t first,
                                              uint32_t d_y_width, uint32_t width, int64_t count) {
    int64_t start = (int64_t)blockIdx.x * ES_TILE + threadIdx.x;
    for (int k = 0; k < ES_TILE / ES_THREADS; k++) {
        int64_t j = start + k * ES_THREADS;
        if (j < count) {
            int64_t row = j / width;
            d_x[j] = d_y[row * d_y_width + first + (j - row * width)];
        }
    }
}

static int64_t last_dim(EsIn x) { return x->dim[x->rank - 1]; }

template <typename T> static Parts<T> list_parts(int n, const EsIn *x) {
    Parts<T> parts = {};
    ES_ASSERT(n >= 1 && n <= ES_CONCAT_MAX);
    parts.n = n;
    for (int i = 0; i < n; i++) {
        parts.data[i] = es_data<const T>(x[i]);
        parts.first[i + 1] = parts.first[i] + (uint32_t)last_dim(x[i]);
    }
    return parts;
}

void es_concat_forward_cuda(EsStream *s, int n, const EsIn *x, EsOut y) {
    EsLaunch launch(s, "concat_forward");
    int64_t count = es_tensor_count(y);
    dim3 grid((unsigned)es_ceil_div(count, ES_TILE));
    ES_DISPATCH_DTYPE(y->dtype, T,
                      launch.start(concat_forward_kernel<T>, grid, ES_THREADS, list_parts<T>(n, x),
                                   es_data<T>(y), count));
}

void es_concat_backward_cuda(EsStream *s, int64_t first, EsIn d_y, EsOut d_x) {
    EsLaunch launch(s, "concat_backward");
    int64_t count = es_tensor_count(d_x);
    dim3 grid((unsigned)es_ceil_div(count, ES_TILE));
    ES_DISPATCH_DTYPE(d_y->dtype, T,
                      launch.start(concat_backward_kernel<T>, grid, ES_THREADS, es_data<T>(d_y),
                                   es_data<T>(d_x), first, last_dim(d_y), last_dim(d_x), count));
}
