// What a step came to: means over its batches, and the trials of its validation as accuracies.
#include "growth/cuda/growth_parts.h"
#include "kernels/cuda/cuda_common.cuh"

static __global__ void results_kernel(const __grid_constant__ EsGrowthParts parts) {
    int64_t e = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (e >= parts.n_envs) {
        return;
    }
    EsGrowthResult *result = &parts.results[e];
    double n_batches = (double)parts.step_batches, n_images = (double)parts.n_validation_images;
    result->train_loss = parts.train_loss[e] / n_batches;
    result->train_accuracy =
        100.0 * (double)parts.train_correct[e] / (double)(parts.step_batches * parts.batch);
    int64_t first = parts.first_trial[e];
    int32_t n_invalid = 0;
    for (int32_t k = 0; k < es_ablation_count(&parts.ablations[e]); k++) {
        double accuracy = 100.0 * (double)parts.evaluated_correct[first + k] / n_images;
        parts.accuracy[e * ES_ABLATION_PATTERNS_MAX + k] = (float)accuracy;
        n_invalid += parts.evaluated_invalid[first + k];
        if (k == 0) {
            double loss = (double)parts.evaluated_loss[first] / n_images;
            result->validation_loss = loss;
            result->validation_accuracy = accuracy;
            result->test_loss = result->test_accuracy = es_math_nan();
            parts.loss_row[e] = (float)loss;
            parts.accuracy_row[e] = (float)accuracy;
        }
    }
    parts.n_invalid[parts.n_envs + e] = n_invalid;
}

void es_growth_cuda_results(const EsGrowthParts *parts, EsStream *stream) {
    EsLaunch launch(stream, "growth_results");
    launch.start(results_kernel, dim3((unsigned)es_ceil_div(parts->n_envs, ES_THREADS)), ES_THREADS,
                 *parts);
}
