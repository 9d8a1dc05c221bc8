// A warp per row. The sums of an environment take one block: each warp walks its rows, then the
// warps are added in order.
// Letters: E environments, N rows, K classes.
#include "kernels/cuda/cuda_common.cuh"

#define N_WARPS (ES_THREADS / 32)

// Summary of a warp's row; the same in all lanes.
struct RowSummary {
    uint32_t best; // the first largest logit
    float largest;
    double sum; // of exp(logit - largest), at least 1
};

template <typename T>
static __device__ RowSummary summarise_row(const T *logits, uint32_t n_classes) {
    uint32_t lane = threadIdx.x % 32;
    float largest = -INFINITY;
    uint32_t best = UINT32_MAX;
    for (uint32_t k = lane; k < n_classes; k += 32) {
        float value = es_load(logits + k);
        if (value > largest || (value == largest && k < best)) {
            largest = value;
            best = k;
        }
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, largest, offset);
        uint32_t other_best = __shfl_xor_sync(0xFFFFFFFFu, best, offset);
        if (other > largest || (other == largest && other_best < best)) {
            largest = other;
            best = other_best;
        }
    }
    // nothing compares above a NaN in front, so a scan from the left would have stayed there
    float first = es_load(logits);
    RowSummary row = {first != first ? 0 : best, first != first ? first : largest, 0.0};
    double sum = 0.0;
    for (uint32_t k = lane; k < n_classes; k += 32) {
        sum += (double)expf(es_load(logits + k) - row.largest);
    }
    row.sum = es_warp_sum(sum);
    return row;
}

template <typename T>
static __global__ void cross_entropy_forward_kernel(float smoothing, const T *logits,
                                                    const int32_t *labels, float *loss,
                                                    int32_t *n_correct, int32_t *n_invalid,
                                                    uint32_t n_rows, uint32_t n_classes) {
    int64_t env = blockIdx.x;
    double loss_sum = 0.0;
    int32_t correct = 0, invalid = 0;
    for (uint32_t n = threadIdx.x / 32; n < n_rows; n += N_WARPS) {
        int64_t row = env * n_rows + n;
        int32_t label = labels[row];
        if (label < 0 || (uint32_t)label >= n_classes) {
            invalid++;
            continue;
        }
        RowSummary summary = summarise_row(logits + row * n_classes, n_classes);
        float chosen = es_load(logits + row * n_classes + label);
        loss_sum += log(summary.sum) + ((double)summary.largest - (double)chosen);
        if (smoothing > 0.0f) {
            double sum = 0.0;
            for (uint32_t k = threadIdx.x % 32; k < n_classes; k += 32) {
                sum += (double)es_load(logits + row * n_classes + k);
            }
            loss_sum += (double)smoothing * ((double)chosen - es_warp_sum(sum) / n_classes);
        }
        correct += summary.best == (uint32_t)label;
    }
    // every lane of a warp holds the warp's sums: one lane counts
    bool is_counted = threadIdx.x % 32 == 0;
    loss_sum = es_block_sum(is_counted ? loss_sum : 0.0);
    correct = es_block_sum(is_counted ? correct : 0);
    invalid = es_block_sum(is_counted ? invalid : 0);
    if (threadIdx.x == 0) {
        loss[env] = (float)(loss_sum / n_rows);
        n_correct[env] = correct;
        n_invalid[env] = invalid;
    }
}

template <typename T>
static __global__ void cross_entropy_backward_kernel(float smoothing, const T *logits,
                                                     const int32_t *labels, const float *d_loss,
                                                     T *d_logits, uint32_t n_rows,
                                                     uint32_t n_classes, int64_t n_all_rows) {
    int64_t row = (int64_t)blockIdx.x * N_WARPS + threadIdx.x / 32;
    if (row >= n_all_rows) {
        return;
    }
    int32_t label = labels[row];
    bool is_valid = label >= 0 && (uint32_t)label < n_classes;
    RowSummary summary = summarise_row(logits + row * n_classes, n_classes);
    float inv_sum = (float)(1.0 / summary.sum);
    float scale = (d_loss == NULL ? 1.0f : d_loss[row / n_rows]) / (float)n_rows;
    float others = smoothing / (float)n_classes, of_label = 1.0f - smoothing + others;
    for (uint32_t k = threadIdx.x % 32; k < n_classes; k += 32) {
        int64_t j = row * n_classes + k;
        float probability = expf(es_load(logits + j) - summary.largest) * inv_sum;
        float d = (probability - ((uint32_t)label == k ? of_label : others)) * scale;
        es_store(d_logits + j, is_valid ? d : 0.0f);
    }
}

void es_cross_entropy_forward_cuda(EsStream *s, float smoothing, EsIn logits, EsIn labels,
                                   EsOut loss, EsOut n_correct, EsOut n_invalid) {
    EsLaunch launch(s, "cross_entropy_forward");
    dim3 grid((unsigned)logits->dim[0]);
    ES_DISPATCH_DTYPE(logits->dtype, T,
                      launch.start(cross_entropy_forward_kernel<T>, grid, ES_THREADS, smoothing,
                                   es_data<T>(logits), es_data<int32_t>(labels),
                                   es_data<float>(loss), es_data<int32_t>(n_correct),
                                   es_data<int32_t>(n_invalid), logits->dim[1], logits->dim[2]));
}

void es_cross_entropy_backward_cuda(EsStream *s, float smoothing, EsIn logits, EsIn labels,
                                    EsIn d_loss, EsOut d_logits) {
    EsLaunch launch(s, "cross_entropy_backward");
    int64_t n_all_rows = logits->dim[0] * logits->dim[1];
    dim3 grid((unsigned)es_ceil_div(n_all_rows, N_WARPS));
    ES_DISPATCH_DTYPE(logits->dtype, T,
                      launch.start(cross_entropy_backward_kernel<T>, grid, ES_THREADS, smoothing,
                                   es_data<T>(logits), es_data<int32_t>(labels),
                                   es_data<float>(d_loss), es_data<T>(d_logits), logits->dim[1],
                                   logits->dim[2], n_all_rows));
}
