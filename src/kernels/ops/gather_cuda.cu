// The rules of gather_rules.h over all environments. Compiled without contraction, so that values
// have the CPU's bits.
// Letters: E environments, N images of a batch, C H W their shape, M images of
// the data set.
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/ops/gather_rules.h"

static __global__ void gather_order_kernel(EsSampleOrder order, const int32_t *episode,
                                           const int32_t *step, int32_t *index, int64_t n_images,
                                           int64_t count) {
    int64_t j = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (j < count) {
        int64_t env = j / n_images, n = j % n_images;
        uint32_t own = (uint32_t)episode[env];
        uint64_t first = es_gather_first(&order, own, (uint32_t)step[0], n_images);
        index[j] = es_gather_sample(order.seed, es_gather_leader(&order, own), first + (uint64_t)n,
                                    (uint32_t)order.n_samples);
    }
}

// One block per image.
template <typename T>
static __global__ void
gather_images_kernel(const __grid_constant__ EsGatherOptions options, const unsigned char *images,
                     const int32_t *index, const int32_t *episode, const int32_t *step, T *y,
                     uint32_t n_images, uint32_t n_channels, uint32_t height, uint32_t width) {
    int64_t env = blockIdx.x / n_images;
    uint32_t n = blockIdx.x % n_images;
    uint32_t plane = height * width, count = n_channels * plane;
    EsCrop crop = es_gather_crop(&options, (uint32_t)episode[env], (uint32_t)step[0], n,
                                 (int)height, (int)width);
    const unsigned char *image = images + (int64_t)index[blockIdx.x] * count;
    for (uint32_t j = threadIdx.x; j < count; j += blockDim.x) {
        uint32_t channel = j / plane, position = j % plane;
        unsigned char pixel =
            es_gather_pixel(&options, (int)channel, image + channel * plane, (int)height,
                            (int)width, &crop, (int)(position / width), (int)(position % width));
        es_store(y + (int64_t)blockIdx.x * count + j,
                 es_gather_value(&options, (int)channel, pixel));
    }
}

// A thread per number of a row.
template <typename T>
static __global__ void gather_rows_kernel(const float *rows, const int32_t *index, T *y,
                                          int64_t n_columns, int64_t count) {
    int64_t j = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (j < count) {
        es_store(y + j, rows[index[j / n_columns] * n_columns + j % n_columns]);
    }
}

static __global__ void gather_labels_kernel(const uint16_t *labels, const int32_t *index,
                                            int32_t *y, int64_t count) {
    int64_t j = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (j < count) {
        y[j] = labels[index[j]];
    }
}

static __global__ void count_steps_kernel(int32_t *step) { step[0] += 1; }

void es_gather_order_cuda(EsStream *s, const EsSampleOrder *order, EsIn episode, EsIn step,
                          EsOut index) {
    EsLaunch launch(s, "gather_order");
    ES_ASSERT(order->n_samples > 0 && order->n_samples <= INT32_MAX && order->n_shares > 0);
    int64_t count = es_tensor_count(index);
    launch.start(gather_order_kernel, dim3((unsigned)es_ceil_div(count, ES_THREADS)), ES_THREADS,
                 *order, es_data<int32_t>(episode), es_data<int32_t>(step), es_data<int32_t>(index),
                 index->dim[1], count);
}

void es_gather_images_cuda(EsStream *s, const EsGatherOptions *options, EsIn images, EsIn index,
                           EsIn episode, EsIn step, EsOut y) {
    EsLaunch launch(s, "gather_images");
    int64_t count = images->dim[1] * images->dim[2] * images->dim[3];
    if (images->dtype == ES_DTYPE_F32) {
        int64_t n_all = es_tensor_count(index) * count;
        dim3 rows_grid((unsigned)es_ceil_div(n_all, ES_THREADS));
        ES_DISPATCH_DTYPE(y->dtype, T,
                          launch.start(gather_rows_kernel<T>, rows_grid, ES_THREADS,
                                       es_data<float>(images), es_data<int32_t>(index),
                                       es_data<T>(y), count, n_all));
        return;
    }
    ES_ASSERT(images->dim[1] <= ES_MAX_IMAGE_CHANNELS);
    dim3 grid((unsigned)es_tensor_count(index)), block(es_block_for(count, ES_THREADS));
    ES_DISPATCH_DTYPE(y->dtype, T,
                      launch.start(gather_images_kernel<T>, grid, block, *options,
                                   es_data<unsigned char>(images), es_data<int32_t>(index),
                                   es_data<int32_t>(episode), es_data<int32_t>(step), es_data<T>(y),
                                   index->dim[1], images->dim[1], images->dim[2], images->dim[3]));
}

void es_gather_labels_cuda(EsStream *s, EsIn labels, EsIn index, EsOut y) {
    EsLaunch launch(s, "gather_labels");
    int64_t count = es_tensor_count(index);
    launch.start(gather_labels_kernel, dim3((unsigned)es_ceil_div(count, ES_THREADS)), ES_THREADS,
                 es_data<uint16_t>(labels), es_data<int32_t>(index), es_data<int32_t>(y), count);
}

void es_count_steps_cuda(EsStream *s, EsOut step) {
    EsLaunch launch(s, "count_steps");
    launch.start(count_steps_kernel, dim3(1), dim3(1), es_data<int32_t>(step));
}
