// A thread per element of the result; sums run over the members in their order, as on the CPU.
// Letters: E environments, R sets, S members of a set, D features.
#include "kernels/cuda/cuda_common.cuh"

struct SetShape {
    int64_t n_sets; // E R
    uint32_t S, D;
};

static SetShape shape_of(EsIn members) {
    return SetShape{members->dim[0] * members->dim[1], (uint32_t)members->dim[2],
                    (uint32_t)members->dim[3]};
}

// Weights may be activations of the plan's type.
template <typename T> static __device__ float weight_of(const T *w, float scale, int64_t member) {
    return w != NULL ? scale * es_load(w + member) : scale;
}

template <typename T>
static __global__ void set_sum_kernel(float scale, const T *x, const T *w, T *y, SetShape shape) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (i >= shape.n_sets * shape.D) {
        return;
    }
    int64_t set = i / shape.D;
    uint32_t d = (uint32_t)(i - set * shape.D);
    float sum = 0.0f;
    for (uint32_t s = 0; s < shape.S; s++) {
        int64_t member = set * shape.S + s;
        sum += weight_of(w, scale, member) * es_load(x + member * shape.D + d);
    }
    es_store(y + i, sum);
}

template <typename T>
static __global__ void set_broadcast_kernel(float scale, const T *y, const T *w, T *x,
                                            SetShape shape) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (i >= shape.n_sets * shape.S * shape.D) {
        return;
    }
    int64_t member = i / shape.D;
    uint32_t d = (uint32_t)(i - member * shape.D);
    es_store(x + i, weight_of(w, scale, member) * es_load(y + member / shape.S * shape.D + d));
}

template <typename T>
static __global__ void set_max_forward_kernel(const T *x, T *y, SetShape shape) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (i >= shape.n_sets * shape.D) {
        return;
    }
    int64_t set = i / shape.D;
    uint32_t d = (uint32_t)(i - set * shape.D);
    float largest = es_load(x + set * shape.S * shape.D + d);
    for (uint32_t s = 1; s < shape.S; s++) {
        float value = es_load(x + (set * shape.S + s) * shape.D + d);
        largest = value > largest || value != value ? value : largest;
    }
    es_store(y + i, largest);
}

template <typename T>
static __global__ void set_max_backward_kernel(const T *x, const T *y, const T *d_y, T *d_x,
                                               SetShape shape) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (i >= shape.n_sets * shape.D) {
        return;
    }
    int64_t set = i / shape.D;
    uint32_t d = (uint32_t)(i - set * shape.D);
    int is_given = 0;
    for (uint32_t s = 0; s < shape.S; s++) {
        int64_t at = (set * shape.S + s) * shape.D + d;
        int is_first = !is_given && es_load(x + at) == es_load(y + i);
        es_store(d_x + at, is_first ? es_load(d_y + i) : 0.0f);
        is_given |= is_first;
    }
}

static dim3 grid_for(int64_t count) { return dim3((unsigned)es_ceil_div(count, ES_THREADS)); }

void es_set_sum_cuda(EsStream *s, float scale, EsIn x, EsIn w, EsOut y) {
    EsLaunch launch(s, "set_sum");
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(set_sum_kernel<T>, grid_for(es_tensor_count(y)), ES_THREADS,
                                   scale, es_data<const T>(x), es_data<const T>(w), es_data<T>(y),
                                   shape_of(x)));
}

void es_set_broadcast_cuda(EsStream *s, float scale, EsIn y, EsIn w, EsOut x) {
    EsLaunch launch(s, "set_broadcast");
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(set_broadcast_kernel<T>, grid_for(es_tensor_count(x)),
                                   ES_THREADS, scale, es_data<const T>(y), es_data<const T>(w),
                                   es_data<T>(x), shape_of(x)));
}

void es_set_max_forward_cuda(EsStream *s, EsIn x, EsOut y) {
    EsLaunch launch(s, "set_max_forward");
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(set_max_forward_kernel<T>, grid_for(es_tensor_count(y)),
                                   ES_THREADS, es_data<const T>(x), es_data<T>(y), shape_of(x)));
}

void es_set_max_backward_cuda(EsStream *s, EsIn x, EsIn y, EsIn d_y, EsOut d_x) {
    EsLaunch launch(s, "set_max_backward");
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(set_max_backward_kernel<T>, grid_for(es_tensor_count(y)),
                                   ES_THREADS, es_data<const T>(x), es_data<const T>(y),
                                   es_data<const T>(d_y), es_data<T>(d_x), shape_of(x)));
}
