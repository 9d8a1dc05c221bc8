// A lane program between its phases: a host's weights before the first one, and after each the
// reductions of sums over the batch, in fixed order.
#include <math.h>
#include <string.h>

#include "network/lanes/lane_host.h"

// --- before the first phase ---

// Scale and shift from mean and inv_std, and the weights that depend on them.
static void derive_scale(const EsLaneHost *run, const LaneNormRecord *norm) {
    const float *gamma = es_lane_env_data(run, norm->gamma);
    const float *beta = es_lane_env_data(run, norm->beta);
    for (int c = 0; c < norm->channels; c++) {
        float sign = run->area[norm->sign + (size_t)c];
        float scale = gamma[c] * sign * run->area[norm->inv_std + (size_t)c];
        run->area[norm->scale + (size_t)c] = scale;
        run->area[norm->shift + (size_t)c] = beta[c] - run->area[norm->mean + (size_t)c] * scale;
    }
    if (norm->is_patched) {
        const LaneLayer *layer = &run->program->layers[norm->layer];
        run->program->kernels->patch_pack(es_lane_env_data(run, layer->weight),
                                          run->area + norm->scale, norm->channels,
                                          run->area + layer->packed);
    }
}

void es_lane_prepare_host(const EsLaneHost *run) {
    const EsLaneProgram *p = run->program;
    for (int i = 0; i < p->n_norms; i++) {
        const LaneNormRecord *norm = &p->norms[i];
        const float *gamma = es_lane_env_data(run, norm->gamma);
        for (int c = 0; c < norm->channels; c++) {
            run->area[norm->sign + (size_t)c] = norm->is_folded && gamma[c] < 0.0f ? -1.0f : 1.0f;
        }
        if (norm->statistics_phase < 0) {
            const float *mean = es_lane_env_data(run, norm->running_mean);
            const float *variance = es_lane_env_data(run, norm->running_variance);
            for (int c = 0; c < norm->channels; c++) {
                run->area[norm->mean + (size_t)c] = mean[c] * run->area[norm->sign + (size_t)c];
                run->area[norm->inv_std + (size_t)c] =
                    1.0f / sqrtf(variance[c] + norm->options.epsilon);
            }
            derive_scale(run, norm);
        }
    }
    for (int i = 0; i < p->n_layers; i++) {
        const LaneLayer *layer = &p->layers[i];
        if (layer->is_patched) {
            continue; // packed with its norm
        }
        const float *weight = es_lane_env_data(run, layer->weight);
        const float *sign = layer->norm >= 0 ? run->area + p->norms[layer->norm].sign : NULL;
        p->kernels->pack_weights(weight, sign, &layer->filter, run->area + layer->packed);
        if (layer->needs_flipped) {
            p->kernels->pack_weights_flipped(weight, sign, &layer->filter,
                                             run->area + layer->flipped);
        }
    }
}

// --- between phases ---

// Sum of entry `k` of [groups][channels][2] over groups, in order.
static double total(const EsLaneHost *run, const LaneNormRecord *norm, int k) {
    double sum = 0.0;
    for (int group = 0; group < run->program->n_groups; group++) {
        sum += es_lane_norm_sums(run, norm, group)[k];
    }
    return sum;
}

// Sum of nine taps, weighted; row by row, so that the sums run side by side.
static double weighted(const float *weight, const double *tap) {
    double row[3];
    for (int r = 0; r < 3; r++) {
        row[r] = (double)weight[3 * r] * tap[3 * r] + (double)weight[3 * r + 1] * tap[3 * r + 1] +
                 (double)weight[3 * r + 2] * tap[3 * r + 2];
    }
    return row[0] + row[1] + row[2];
}

static EsLanePatches *patches_of(const EsLaneHost *run, const LaneNormRecord *norm) {
    return (EsLanePatches *)(run->sums + norm->patches);
}

// The sums over a batch of y and y^2 for every channel, from group partials or from sums of
// patches: y is a sum of weighted taps.
static void total_outputs(const EsLaneHost *run, const LaneNormRecord *norm, double *sums) {
    const EsLaneProgram *p = run->program;
    if (!norm->is_patched) {
        for (int k = 0; k < 2 * norm->channels; k++) {
            sums[k] = total(run, norm, k);
        }
        return;
    }
    const LaneLayer *layer = &p->layers[norm->layer];
    EsLanePatches *patches = patches_of(run, norm);
    double totals[ES_LANES_PATCH_SUMS];
    p->kernels->lane_totals(run->area + p->accumulators_start + layer->patch_accumulator,
                            p->shard_floats, p->n_shards, ES_LANES_PATCH_SUMS, totals);
    *patches = es_lane_patches(totals);
    const float *weight = es_lane_env_data(run, layer->weight);
    for (int c = 0; c < norm->channels; c++, weight += 9) {
        double products[9];
        for (int t = 0; t < 9; t++) {
            products[t] = weighted(weight, patches->product[t]);
        }
        sums[2 * c] = weighted(weight, patches->tap);
        sums[2 * c + 1] = weighted(weight, products);
    }
}

static void finish_statistics(const EsLaneHost *run, const LaneNormRecord *norm) {
    double sums[2 * ES_LANES_CHANNEL_LIMIT];
    total_outputs(run, norm, sums);
    float *running_mean = es_lane_env_data(run, norm->running_mean);
    float *running_variance = es_lane_env_data(run, norm->running_variance);
    float momentum = norm->options.momentum;
    for (int c = 0; c < norm->channels; c++) {
        double mean = sums[2 * c] / norm->n_elements;
        double variance = sums[2 * c + 1] / norm->n_elements - mean * mean;
        // not fmax: a NaN must stay one
        variance = variance < 0.0 ? 0.0 : variance;
        double unbiased = norm->n_elements > 1.0
                              ? variance * norm->n_elements / (norm->n_elements - 1.0)
                              : variance;
        float true_mean = (float)mean * run->area[norm->sign + (size_t)c];
        run->area[norm->mean + (size_t)c] = (float)mean;
        run->area[norm->inv_std + (size_t)c] =
            (float)(1.0 / sqrt(variance + (double)norm->options.epsilon));
        running_mean[c] = (1.0f - momentum) * running_mean[c] + momentum * true_mean;
        running_variance[c] = (1.0f - momentum) * running_variance[c] + momentum * (float)unbiased;
    }
    derive_scale(run, norm);
}

static void finish_norm_gradient(const EsLaneHost *run, const LaneNormRecord *norm) {
    float *d_gamma = es_lane_env_data(run, norm->d_gamma);
    float *d_beta = es_lane_env_data(run, norm->d_beta);
    for (int c = 0; c < norm->channels; c++) {
        double sum = total(run, norm, 2 * c), sum_xhat = total(run, norm, 2 * c + 1);
        d_beta[c] = (float)sum;
        d_gamma[c] = (float)sum_xhat * run->area[norm->sign + (size_t)c];
        run->area[norm->mean_d_z + (size_t)c] = (float)(sum / norm->n_elements);
        run->area[norm->mean_d_z_xhat + (size_t)c] = (float)(sum_xhat / norm->n_elements);
    }
}

// Gradients of gamma, beta and weights of a layer that goes by patches. With g the sums of d_z
// times the patch of each winner, s those of all patches, P their products, y = w . patch:
//   sum of d_z y = w . g
//   d_w = scale (g - s sum(d_z) / n - (P w - mean s) inv_std sum(d_z xhat) / n)
static void finish_patches(const EsLaneHost *run, const LaneNormRecord *norm) {
    const EsLaneProgram *p = run->program;
    const LaneLayer *layer = &p->layers[norm->layer];
    const EsLanePatches *patches = patches_of(run, norm);
    const float *weight = es_lane_env_data(run, layer->weight);
    float *d_weight = es_lane_env_data(run, layer->d_weight);
    float *d_gamma = es_lane_env_data(run, norm->d_gamma);
    float *d_beta = es_lane_env_data(run, norm->d_beta);
    for (size_t c = 0; c < (size_t)norm->channels; c++, weight += 9, d_weight += 9) {
        double g[ES_LANES_PATCH_GRADIENT];
        size_t first = c * ES_LANES_PATCH_GRADIENT * (size_t)p->kernels->n_lanes;
        p->kernels->lane_totals(run->area + p->accumulators_start + layer->accumulator + first,
                                p->shard_floats, p->n_shards, ES_LANES_PATCH_GRADIENT, g);
        double mean = (double)run->area[norm->mean + c], sum = g[9];
        double inv_std = (double)run->area[norm->inv_std + c];
        double scale = (double)run->area[norm->scale + c];
        double sum_xhat = (weighted(weight, g) - mean * sum) * inv_std;
        d_beta[c] = (float)sum;
        d_gamma[c] = (float)sum_xhat;
        double slope = inv_std * sum_xhat / norm->n_elements;
        double constant = mean * slope - sum / norm->n_elements;
        for (int t = 0; t < 9; t++) {
            d_weight[t] = (float)(scale * (g[t] + constant * patches->tap[t] -
                                           slope * weighted(weight, patches->product[t])));
        }
    }
}

static void finish_layer(const EsLaneHost *run, const LaneLayer *layer) {
    const EsLaneProgram *p = run->program;
    const float *accumulators = run->area + p->accumulators_start;
    const float *sign = layer->norm >= 0 ? run->area + p->norms[layer->norm].sign : NULL;
    p->kernels->conv2d_reduce_weight(accumulators + layer->accumulator, p->shard_floats,
                                     p->n_shards, sign, &layer->filter,
                                     es_lane_env_data(run, layer->d_weight));
    if (layer->d_bias != ES_NO_VALUE) {
        double sums[ES_LANES_CHANNEL_LIMIT];
        p->kernels->lane_totals(accumulators + layer->bias_accumulator, p->shard_floats,
                                p->n_shards, layer->filter.n_out, sums);
        for (int o = 0; o < layer->filter.n_out; o++) {
            es_lane_env_data(run, layer->d_bias)[o] = (float)sums[o];
        }
    }
}

static void finish_loss(const EsLaneHost *run) {
    const EsLaneProgram *p = run->program;
    double sums[3] = {0.0, 0.0, 0.0};
    for (int group = 0; group < p->n_groups; group++) {
        for (int k = 0; k < 3; k++) {
            sums[k] += run->sums[p->loss_sums + (size_t)group * 3 + (size_t)k];
        }
    }
    *es_lane_env_data(run, p->loss) = (float)(sums[0] / p->n_images);
    *es_lane_env_ints(run, p->n_correct) = (int32_t)sums[1];
    *es_lane_env_ints(run, p->n_invalid) = (int32_t)sums[2];
}

void es_lane_finish_phase(const EsLaneHost *run) {
    const EsLaneProgram *p = run->program;
    for (int i = 0; i < p->n_norms; i++) {
        if (p->norms[i].statistics_phase == run->phase) {
            finish_statistics(run, &p->norms[i]);
        }
        if (p->norms[i].sums_phase == run->phase && p->norms[i].is_patched) {
            finish_patches(run, &p->norms[i]);
        } else if (p->norms[i].sums_phase == run->phase) {
            finish_norm_gradient(run, &p->norms[i]);
        }
    }
    for (int i = 0; i < p->n_sums; i++) {
        if (p->sums[i].phase == run->phase) {
            es_lane_finish_seed(run, &p->sums[i]);
        }
    }
    for (int i = 0; i < p->n_layers; i++) {
        if (p->layers[i].gradient_phase == run->phase && !p->layers[i].is_patched) {
            finish_layer(run, &p->layers[i]);
        }
    }
}

void es_lane_end_host(const EsLaneHost *run) {
    if (run->program->loss != ES_NO_VALUE) {
        finish_loss(run);
    }
}
