// Execution of a lane program: hosts over threads, phases in order, groups inside a phase,
// reductions between phases.
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "network/lane_host.h"
#include "network/lane_seed.h"

static EsLaneNorm norm_view(const EsLaneHost *run, const LaneNormRecord *norm) {
    return (EsLaneNorm){run->area + norm->scale, run->area + norm->shift, run->area + norm->mean,
                        run->area + norm->inv_std};
}

static double *norm_sums(const EsLaneHost *run, const LaneNormRecord *norm, int group) {
    return run->sums + norm->sums + (size_t)group * (size_t)norm->channels * 2;
}

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

static void prepare_host(const EsLaneHost *run) {
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

// --- one group ---

// The first of the largest logits of every lane; from the last class down, so that there is nothing
// to guess.
static void find_largest(const EsLaneMap *logits, int n_lanes, const float *maximum,
                         int32_t *largest) {
    memset(largest, -1, sizeof *largest * (size_t)n_lanes);
    for (int k = logits->channels - 1; k >= 0; k--) {
        const float *logit = logits->data + k * logits->plane;
        for (int lane = 0; lane < n_lanes; lane++) {
            largest[lane] = logit[lane] == maximum[lane] ? k : largest[lane];
        }
    }
}

// Loss of a group; the plain kernel's formula (kernels/cross_entropy.h).
static void run_loss(const EsLaneHost *run, const EsLaneMap *logits, const EsLaneMap *d_logits,
                     int group) {
    const EsLaneProgram *p = run->program;
    int lanes = p->kernels->n_lanes, n_classes = logits->channels,
        n_valid = es_lane_valid(p, group);
    const int32_t *labels = es_lane_env_ints(run, p->labels) + (int64_t)group * lanes;
    _Alignas(ES_ALIGNMENT) float share[ES_LANES_MAX] = {0}, maximum[ES_LANES_MAX],
                                 sum[ES_LANES_MAX];
    for (int lane = 0; lane < lanes; lane++) {
        int is_counted = lane < n_valid && labels[lane] >= 0 && labels[lane] < n_classes;
        share[lane] = is_counted ? 1.0f / (float)p->n_images : 0.0f;
    }
    p->kernels->softmax(logits, share, d_logits, maximum, sum);
    int32_t largest[ES_LANES_MAX];
    find_largest(logits, lanes, maximum, largest);
    double loss = 0.0;
    int n_correct = 0, n_invalid = 0;
    for (int lane = 0; lane < n_valid; lane++) {
        if (share[lane] == 0.0f) {
            n_invalid++;
            continue;
        }
        loss += (double)(logf(sum[lane]) -
                         (logits->data[labels[lane] * logits->plane + lane] - maximum[lane]));
        n_correct += largest[lane] == labels[lane];
        if (d_logits->data != NULL) {
            d_logits->data[labels[lane] * d_logits->plane + lane] -= share[lane];
        }
    }
    double *sums = run->sums + p->loss_sums + (size_t)group * 3;
    sums[0] = loss;
    sums[1] = n_correct;
    sums[2] = n_invalid;
}

static void load_images(const EsLaneHost *run, const LaneInstruction *instruction,
                        const EsLaneMap *y, int group) {
    const EsLaneProgram *p = run->program;
    const EsNode *node = &p->graph->nodes[instruction->node];
    int lanes = p->kernels->n_lanes;
    const EsTensor *episode = node->input[2] >= 0 ? &run->tensors[node->input[2]] : NULL;
    const EsTensor *step = node->input[3] >= 0 ? &run->tensors[node->input[3]] : NULL;
    EsLaneImages source = {
        .images = run->tensors[node->input[0]].data,
        .index = es_lane_env_ints(run, node->input[1]) + (int64_t)group * lanes,
        .n_valid = es_lane_valid(p, group),
        .options = &node->attributes.gather,
        .episode = episode != NULL ? (uint32_t)((const int32_t *)episode->data)[run->env] : 0,
        .step = step != NULL ? (uint32_t)((const int32_t *)step->data)[0] : 0,
        .first = (uint32_t)(group * lanes),
    };
    p->kernels->load_images(&source, y);
}

static void run_norm(const EsLaneHost *run, const LaneInstruction *i, const EsLaneMap *a,
                     const EsLaneMap *b, const EsLaneMap *c, const EsLaneMap *d, int group) {
    const EsLaneProgram *p = run->program;
    const LaneNormRecord *norm = &p->norms[i->norm];
    EsLaneNorm view = norm_view(run, norm);
    const float *mean_d_z = run->area + norm->mean_d_z,
                *mean_d_z_xhat = run->area + norm->mean_d_z_xhat;
    if (i->op == LANE_NORMALISE) {
        p->kernels->normalise(a, &view, norm->has_relu, b);
    } else if (i->op == LANE_NORM_SUMS) {
        p->kernels->norm_sums(a, b, &view, norm->has_relu, norm_sums(run, norm, group));
    } else if (norm->is_pooled) {
        p->kernels->pooled_input(a, c, b, &view, mean_d_z, mean_d_z_xhat, es_lane_valid(p, group),
                                 d);
    } else {
        p->kernels->norm_input(a, b, &view, mean_d_z, mean_d_z_xhat, norm->has_relu,
                               es_lane_valid(p, group), d);
    }
}

static void run_layer(const EsLaneHost *run, const LaneInstruction *i, const EsLaneMap *a,
                      const EsLaneMap *b, const EsLaneMap *c, int group, int shard) {
    const EsLaneProgram *p = run->program;
    const LaneLayer *layer = &p->layers[i->layer];
    float *accumulators = es_lane_accumulators(run, shard);
    const LaneNormRecord *norm = i->norm >= 0 ? &p->norms[i->norm] : NULL;
    int is_first = group == es_lane_first_group(p, shard);
    switch (i->op) {
    case LANE_CONV:
        p->kernels->conv(a, run->area + layer->packed,
                         layer->bias != ES_NO_VALUE ? es_lane_env_data(run, layer->bias) : NULL,
                         layer->filter.kernel, b);
        break;
    case LANE_CONV_STATISTICS:
        p->kernels->conv_statistics(
            a, run->area + layer->packed, layer->filter.kernel, es_lane_valid(p, group), b,
            i->c >= 0 ? c : NULL, norm->statistics_phase >= 0 ? norm_sums(run, norm, group) : NULL);
        break;
    case LANE_CONV_INPUT:
        p->kernels->conv(a, run->area + layer->flipped, NULL, layer->filter.kernel, b);
        break;
    case LANE_PATCH_SUMS:
        p->kernels->patch_sums(a, es_lane_valid(p, group), is_first,
                               accumulators + layer->patch_accumulator);
        break;
    case LANE_PATCH_CONV:
        p->kernels->patch_conv(a, run->area + layer->packed, run->area + norm->shift, b, c);
        break;
    case LANE_PATCH_WEIGHT:
        p->kernels->patch_weight(a, b, c, is_first, accumulators + layer->accumulator);
        break;
    default:
        p->kernels->conv_weight(a, b, layer->filter.kernel, is_first,
                                accumulators + layer->accumulator);
        if (layer->d_bias != ES_NO_VALUE) {
            p->kernels->bias(b, is_first, accumulators + layer->bias_accumulator);
        }
    }
}

static void run_instruction(const EsLaneHost *run, const LaneInstruction *i, int group, int shard,
                            int worker) {
    const EsLaneProgram *p = run->program;
    const EsLaneKernels *k = p->kernels;
    const EsNode *node = &p->graph->nodes[i->node];
    EsLaneMap a = es_lane_map(run, i->a, group, worker), b = es_lane_map(run, i->b, group, worker);
    EsLaneMap c = es_lane_map(run, i->c, group, worker), d = es_lane_map(run, i->d, group, worker);
    size_t image_count = (size_t)a.channels * (size_t)(a.height * a.width);
    switch (i->op) {
    case LANE_LOAD_IMAGES:
        load_images(run, i, &a, group);
        break;
    case LANE_FROM_ROWS:
        k->from_rows(es_lane_env_data(run, i->value) + (size_t)(group * k->n_lanes) * image_count,
                     es_lane_valid(p, group), &a);
        break;
    case LANE_TO_ROWS:
        k->to_rows(&a, es_lane_valid(p, group),
                   es_lane_env_data(run, i->value) + (size_t)(group * k->n_lanes) * image_count);
        break;
    case LANE_CONV:
    case LANE_CONV_STATISTICS:
    case LANE_CONV_INPUT:
    case LANE_CONV_WEIGHT:
    case LANE_PATCH_SUMS:
    case LANE_PATCH_CONV:
    case LANE_PATCH_WEIGHT:
        run_layer(run, i, &a, &b, &c, group, shard);
        break;
    case LANE_NORMALISE:
    case LANE_NORM_SUMS:
    case LANE_NORM_INPUT:
        run_norm(run, i, &a, &b, &c, &d, group);
        break;
    case LANE_ACTIVATION:
        k->activation(node->attributes.activation, &a, &b);
        break;
    case LANE_ACTIVATION_INPUT:
        k->activation_input(node->attributes.activation, &a, &b, &c);
        break;
    case LANE_POOL:
        k->pool(node->attributes.pool, &a, &b);
        break;
    case LANE_POOL_INPUT:
        k->pool_input(node->attributes.pool, &a, &b, &c);
        break;
    case LANE_ADD:
        k->add(&a, &b, &c);
        break;
    case LANE_LOSS:
        run_loss(run, &a, &b, group);
        break;
    default:
        es_lane_run_seed(run, i, group, shard, worker);
    }
}

// All groups of one shard through the phase.
static void run_shard(void *context, int64_t shard, int worker) {
    const EsLaneHost *run = context;
    const EsLaneProgram *p = run->program;
    int first = es_lane_first_group(p, (int)shard), end = es_lane_first_group(p, (int)shard + 1);
    // instructions are sorted by phase
    int start = 0;
    while (start < p->n_instructions && p->instructions[start].phase < run->phase) {
        start++;
    }
    for (int group = first; group < end; group++) {
        for (int i = start; i < p->n_instructions && p->instructions[i].phase == run->phase; i++) {
            run_instruction(run, &p->instructions[i], group, (int)shard, worker);
        }
    }
}

// --- between phases ---

// Sum of entry `k` of [groups][channels][2] over groups, in order.
static double total(const EsLaneHost *run, const LaneNormRecord *norm, int k) {
    double sum = 0.0;
    for (int group = 0; group < run->program->n_groups; group++) {
        sum += norm_sums(run, norm, group)[k];
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
    p->kernels->reduce_weight(accumulators + layer->accumulator, p->shard_floats, p->n_shards, sign,
                              &layer->filter, es_lane_env_data(run, layer->d_weight));
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

static void finish_phase(const EsLaneHost *run) {
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

// --- hosts ---

static EsLaneHost host_of(const EsLaneProgram *p, int64_t env, int area) {
    return (EsLaneHost){
        .program = p,
        .tensors = p->tensors,
        .env = env,
        .workers = p->worker_memory,
        .area = p->host_memory + (size_t)area * p->host_floats,
        .sums = p->sum_memory + (size_t)area * p->host_doubles,
        .stored = p->stored_memory + (size_t)area * (size_t)p->n_groups * p->stored_floats,
    };
}

static void end_host(const EsLaneHost *run) {
    if (run->program->loss != ES_NO_VALUE) {
        finish_loss(run);
    }
}

// A whole host on one thread.
static void run_alone(EsLaneHost *run, int worker) {
    const EsLaneProgram *p = run->program;
    prepare_host(run);
    for (run->phase = 0; run->phase < p->n_phases; run->phase++) {
        for (int shard = 0; shard < p->n_shards; shard++) {
            run_shard(run, shard, worker);
        }
        finish_phase(run);
    }
    end_host(run);
}

static void run_host(void *context, int64_t env, int worker) {
    EsLaneHost run = host_of(context, env, worker);
    run_alone(&run, worker);
}

void es_lane_program_run(EsLaneProgram *program, EsStream *stream) {
    if (program->n_host_areas > 1 || program->n_workers == 1) {
        es_stream_parallel(stream, program->n_envs, run_host, program);
        return;
    }
    for (int64_t env = 0; env < program->n_envs; env++) {
        EsLaneHost run = host_of(program, env, 0);
        prepare_host(&run);
        for (run.phase = 0; run.phase < program->n_phases; run.phase++) {
            es_stream_parallel(stream, program->n_shards, run_shard, &run);
            finish_phase(&run);
        }
        end_host(&run);
    }
}

// One host's memory: a worker's maps, the host's floats and doubles, its stored maps.
static EsLaneHost host_in(const EsLaneProgram *p, const EsTensor *tensors, void *memory) {
    float *workers = memory, *area = workers + p->worker_floats;
    double *sums = (double *)(void *)(area + p->host_floats);
    return (EsLaneHost){.program = p,
                        .tensors = tensors,
                        .workers = workers,
                        .area = area,
                        .sums = sums,
                        .stored = (float *)(void *)(sums + p->host_doubles)};
}

void es_lane_program_run_host(const EsLaneProgram *program, const EsTensor *tensors, void *memory) {
    EsLaneHost run = host_in(program, tensors, memory);
    run_alone(&run, 0);
}

static void clear_border(const EsLaneMap *map, int halo, int n_lanes) {
    size_t side_bytes = (size_t)(halo * n_lanes) * sizeof(float);
    size_t row_bytes = (size_t)map->row * sizeof(float);
    for (int c = 0; c < map->channels; c++) {
        float *plane = map->data + c * map->plane - halo * n_lanes;
        for (int r = -halo; r < map->height + halo; r++) {
            if (r < 0 || r >= map->height) {
                memset(plane + r * map->row, 0, row_bytes);
            } else {
                memset(plane + r * map->row, 0, side_bytes);
                memset(plane + r * map->row + (map->width + halo) * n_lanes, 0, side_bytes);
            }
        }
    }
}

void es_lane_program_clear_borders(const EsLaneProgram *program, void *memory) {
    EsLaneHost run = host_in(program, NULL, memory);
    for (int i = 0; i < program->n_slots; i++) {
        const LaneSlot *slot = &program->slots[i];
        int n_maps = slot->is_skipped || slot->halo == 0 ? 0
                     : slot->is_stored                   ? program->n_groups
                                                         : 1;
        for (int group = 0; group < n_maps; group++) {
            EsLaneMap map = es_lane_map(&run, i, group, 0);
            clear_border(&map, slot->halo, program->kernels->n_lanes);
        }
    }
}
