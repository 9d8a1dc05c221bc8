// A thread per element of the result, four of them. The inputs' addresses travel as a kernel
// argument, so that one launch serves them all.
#include "kernels/cuda/cuda_common.cuh"

template <typename T> struct Inputs {
    const T *data[ES_CONCAT_MAX];
    uint32_t first[ES_CONCAT_MAX + 1]; // column of y where each begins; the last: all columns
    int n;
};

template <typename T>
static __global__ void concat_forward_kernel(Inputs<T> inputs, T *y, int64_t count) {
    uint32_t width = inputs.first[inputs.n];
    int64_t start = (int64_t)blockIdx.x * ES_TILE + threadIdx.x;
    for (int k = 0; k < ES_TILE / ES_THREADS; k++) {
        int64_t j = start + k * ES_THREADS;
        if (j < count) {
            int64_t row = j / width;
            uint32_t column = (uint32_t)(j - row * width);
            int i = 0;
            while (column >= inputs.first[i + 1]) {
                i++;
            }
            uint32_t input_width = inputs.first[i + 1] - inputs.first[i];
            y[j] = inputs.data[i][row * input_width + (column - inputs.first[i])];
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

template <typename T> static Inputs<T> list_inputs(int n, const EsIn *x) {
    Inputs<T> inputs = {};
    ES_ASSERT(n >= 1 && n <= ES_CONCAT_MAX);
    inputs.n = n;
    for (int i = 0; i < n; i++) {
        inputs.data[i] = es_data<const T>(x[i]);
        inputs.first[i + 1] = inputs.first[i] + (uint32_t)last_dim(x[i]);
    }
    return inputs;
}

void es_concat_forward_cuda(EsStream *s, int n, const EsIn *x, EsOut y) {
    EsLaunch launch(s, "concat_forward");
    int64_t count = es_tensor_count(y);
    dim3 grid((unsigned)es_ceil_div(count, ES_TILE));
    ES_DISPATCH_DTYPE(y->dtype, T,
                      launch.start(concat_forward_kernel<T>, grid, ES_THREADS, list_inputs<T>(n, x),
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
