// A thread per few elements of whole tensors.
#include "kernels/cuda/cuda_common.cuh"

template <typename T>
static __global__ void add_kernel(const T *a, const T *b, T *y, int64_t count) {
    int64_t first = (int64_t)blockIdx.x * ES_TILE + threadIdx.x;
    for (int k = 0; k < ES_TILE / ES_THREADS; k++) {
        int64_t j = first + k * ES_THREADS;
        if (j < count) {
            es_store(y + j, es_load(a + j) + es_load(b + j));
        }
    }
}

template <typename From, typename To>
static __global__ void convert_kernel(const From *x, To *y, int64_t count) {
    int64_t first = (int64_t)blockIdx.x * ES_TILE + threadIdx.x;
    for (int k = 0; k < ES_TILE / ES_THREADS; k++) {
        int64_t j = first + k * ES_THREADS;
        if (j < count) {
            es_store(y + j, es_load(x + j));
        }
    }
}

void es_add_cuda(EsStream *s, EsIn a, EsIn b, EsOut y) {
    EsLaunch launch(s, "add");
    int64_t count = es_tensor_count(y);
    dim3 grid((unsigned)es_ceil_div(count, ES_TILE));
    ES_DISPATCH_DTYPE(y->dtype, T,
                      launch.start(add_kernel<T>, grid, ES_THREADS, es_data<T>(a), es_data<T>(b),
                                   es_data<T>(y), count));
}

void es_convert_cuda(EsStream *s, EsIn x, EsOut y) {
    EsLaunch launch(s, "convert");
    int64_t count = es_tensor_count(y);
    dim3 grid((unsigned)es_ceil_div(count, ES_TILE));
    ES_DISPATCH_DTYPE(x->dtype, From,
                      ES_DISPATCH_DTYPE(y->dtype, To,
                                        launch.start(convert_kernel<From, To>, grid, ES_THREADS,
                                                     es_data<From>(x), es_data<To>(y), count)));
}
