// A thread per few elements of whole tensors; bf16 is computed in f32.
#include "kernels/cuda/cuda_common.cuh"

static __device__ float activate(EsActivation kind, float x) {
    switch (kind) {
    case ES_ACTIVATION_RELU:
        return x <= 0.0f ? 0.0f : x; // false for NaN, which passes
    case ES_ACTIVATION_TANH:
        return tanhf(x);
    default:
        return 1.0f / (1.0f + expf(-x));
    }
}

static __device__ float slope(EsActivation kind, float y) {
    switch (kind) {
    case ES_ACTIVATION_RELU:
        return y > 0.0f ? 1.0f : 0.0f;
    case ES_ACTIVATION_TANH:
        return 1.0f - y * y;
    default:
        return y * (1.0f - y);
    }
}

template <typename T>
static __global__ void activation_forward_kernel(EsActivation kind, const T *x, T *y,
                                                 int64_t count) {
    int64_t first = (int64_t)blockIdx.x * ES_TILE + threadIdx.x;
    for (int k = 0; k < ES_TILE / ES_THREADS; k++) {
        int64_t j = first + k * ES_THREADS;
        if (j < count) {
            es_store(y + j, activate(kind, es_load(x + j)));
        }
    }
}

template <typename T>
static __global__ void activation_backward_kernel(EsActivation kind, const T *y, const T *d_y,
                                                  T *d_x, int64_t count) {
    int64_t first = (int64_t)blockIdx.x * ES_TILE + threadIdx.x;
    for (int k = 0; k < ES_TILE / ES_THREADS; k++) {
        int64_t j = first + k * ES_THREADS;
        if (j < count) {
            float factor = slope(kind, es_load(y + j));
            // relu cuts the gradient off: 0, not 0 * d_y, which would let a NaN through
            bool is_cut = kind == ES_ACTIVATION_RELU && factor == 0.0f;
            es_store(d_x + j, is_cut ? 0.0f : es_load(d_y + j) * factor);
        }
    }
}

void es_activation_forward_cuda(EsStream *s, EsActivation kind, EsIn x, EsOut y) {
    EsLaunch launch(s, "activation_forward");
    int64_t count = es_tensor_count(y);
    dim3 grid((unsigned)es_ceil_div(count, ES_TILE));
    ES_DISPATCH_DTYPE(y->dtype, T,
                      launch.start(activation_forward_kernel<T>, grid, ES_THREADS, kind,
                                   es_data<T>(x), es_data<T>(y), count));
}

void es_activation_backward_cuda(EsStream *s, EsActivation kind, EsIn y, EsIn d_y, EsOut d_x) {
    EsLaunch launch(s, "activation_backward");
    int64_t count = es_tensor_count(d_x);
    dim3 grid((unsigned)es_ceil_div(count, ES_TILE));
    ES_DISPATCH_DTYPE(d_x->dtype, T,
                      launch.start(activation_backward_kernel<T>, grid, ES_THREADS, kind,
                                   es_data<T>(y), es_data<T>(d_y), es_data<T>(d_x), count));
}
