// Execution of a lane program: hosts over threads, phases in order, groups inside a phase.
// lane_finish.c holds the work before the first phase and after each.
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/lanes/lanes.h"
#include "kernels/ops/blend_rules.h"
#include "network/lanes/lane_host.h"

// --- operations of seeds ---

// Seeds at work: one group of images through an operation of a seed, and the gradients of its
// parameters once a phase is over.

// The gamma and beta of a group norm; beta is no input of the gradient.
static EsLaneGroupNorm group_norm(const EsLaneHost *run, const EsNode *node) {
    int is_forward = node->op == ES_OP_GROUPNORM_FORWARD;
    return (EsLaneGroupNorm){
        .n_groups = node->attributes.norm.n_groups,
        .epsilon = node->attributes.norm.epsilon,
        .gamma = es_lane_env_data(run, node->input[is_forward ? 1 : 3]),
        .beta = is_forward ? es_lane_env_data(run, node->input[2]) : NULL,
    };
}

static EsLaneBlend blend_of(const EsLaneHost *run, const EsNode *node, const EsLaneMap *maps) {
    int32_t word = *es_lane_env_ints(run, node->input[ES_BLEND_INPUT_ALPHA + 1]);
    return (EsLaneBlend){.mode = es_blend_mode(word),
                         .alpha = *es_lane_env_data(run, node->input[ES_BLEND_INPUT_ALPHA]),
                         .h = &maps[0],
                         .s = &maps[1],
                         .gate = &maps[2],
                         .closed = word ^ es_blend_mode(word)};
}

static void run_seed(const EsLaneHost *run, const LaneInstruction *instruction, int group,
                     int shard, int worker) {
    const EsLaneProgram *p = run->program;
    const EsLaneSeedKernels *k = p->kernels->seeds;
    const EsNode *node = &p->graph->nodes[instruction->node];
    int operands[ES_LANE_OPERANDS];
    EsLaneMap m[ES_LANE_OPERANDS];
    es_lane_operands(instruction, operands);
    for (int i = 0; i < ES_LANE_OPERANDS; i++) {
        m[i] = es_lane_map(run, operands[i], group, worker);
    }
    int is_first = group == es_lane_first_group(p, shard);
    float *sums = NULL;
    if (instruction->sums >= 0) {
        sums = es_lane_accumulators(run, shard) + p->sums[instruction->sums].accumulator;
    }
    EsLaneGroupNorm norm;
    EsLaneBlend blend;
    switch (instruction->op) {
    case LANE_GROUPNORM_FORWARD:
        norm = group_norm(run, node);
        k->groupnorm_forward(&norm, &m[0], &m[1], &m[2], &m[3], &m[4]);
        break;
    case LANE_GROUPNORM_BACKWARD:
        norm = group_norm(run, node);
        k->groupnorm_backward(&norm, &m[0], &m[1], &m[2], &m[3], &m[4], is_first, sums);
        break;
    case LANE_DEPTHWISE_FORWARD:
        k->depthwise_forward(&m[0], es_lane_env_data(run, node->input[1]), 0, &m[1]);
        break;
    case LANE_DEPTHWISE_BACKWARD_INPUT:
        k->depthwise_forward(&m[0], es_lane_env_data(run, node->input[0]), 1, &m[1]);
        break;
    case LANE_DEPTHWISE_BACKWARD_WEIGHT:
        k->depthwise_backward_weight(&m[0], &m[1], is_first, sums);
        break;
    case LANE_CHANNEL_SCALE_FORWARD:
        k->channel_scale_forward(&m[0], &m[1], &m[2]);
        break;
    case LANE_CHANNEL_SCALE_BACKWARD:
        k->channel_scale_backward(&m[0], &m[1], &m[2], &m[3], &m[4]);
        break;
    case LANE_NORM_MIX_FORWARD:
        k->norm_mix_forward(&m[0], &m[1], tanhf(*es_lane_env_data(run, node->input[2])), &m[2]);
        break;
    case LANE_NORM_MIX_BACKWARD:
        k->norm_mix_backward(&m[0], &m[1], tanhf(*es_lane_env_data(run, node->input[2])), &m[2],
                             &m[3], &m[4], is_first, sums);
        break;
    case LANE_BLEND_FORWARD:
        blend = blend_of(run, node, m);
        k->blend_forward(&blend, &m[3]);
        break;
    case LANE_BLEND_BACKWARD:
        blend = blend_of(run, node, m);
        k->blend_backward(&blend, &m[3], &m[4], &m[5], &m[6]);
        break;
    case LANE_SEED_INPUT_BACKWARD:
        k->seed_input_backward(es_blend_mode(*es_lane_env_ints(run, node->input[0])), &m[0], &m[1],
                               &m[2]);
        break;
    default:
        ES_ASSERT(instruction->op >= LANE_GROUPNORM_FORWARD);
    }
}

// totals [count] of the sums from `first` on, over shards and lanes in order
static void total_sums(const EsLaneHost *run, const LaneSums *sums, int first, int count,
                       double *totals) {
    const EsLaneProgram *p = run->program;
    size_t start = sums->accumulator + (size_t)(first * p->kernels->n_lanes);
    p->kernels->lane_totals(es_lane_accumulators(run, 0) + start, p->shard_floats, p->n_shards,
                            count, totals);
}

void es_lane_finish_seed(const EsLaneHost *run, const LaneSums *sums) {
    const EsNode *node = &run->program->graph->nodes[sums->node];
    double totals[9];
    if (node->op == ES_OP_GROUPNORM_BACKWARD) {
        float *d_gamma = es_lane_env_data(run, node->output[1]);
        float *d_beta = es_lane_env_data(run, node->output[2]);
        for (int c = 0; c < sums->count / 2; c++) {
            total_sums(run, sums, 2 * c, 2, totals);
            d_beta[c] = (float)totals[0];
            d_gamma[c] = (float)totals[1];
        }
    } else if (node->op == ES_OP_DEPTHWISE_BACKWARD_WEIGHT) {
        float *d_weight = es_lane_env_data(run, node->output[0]);
        for (int i = 0; i < sums->count; i += 9, d_weight += 9) {
            total_sums(run, sums, i, 9, totals);
            for (int t = 0; t < 9; t++) {
                d_weight[t] = (float)totals[t];
            }
        }
    } else {
        total_sums(run, sums, 0, 1, totals);
        double t = tanh((double)*es_lane_env_data(run, node->input[2]));
        *es_lane_env_data(run, node->output[2]) = (float)((1.0 - t) * (1.0 + t) * totals[0]);
    }
}

// --- instructions ---

static EsLaneNorm norm_view(const EsLaneHost *run, const LaneNormRecord *norm) {
    return (EsLaneNorm){run->area + norm->scale, run->area + norm->shift, run->area + norm->mean,
                        run->area + norm->inv_std};
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

// Takes smoothing's share off the gradients of all classes; returns its part of the loss.
static double smooth_lane(float smoothing, const EsLaneMap *logits, const EsLaneMap *d_logits,
                          int label, int lane, float share) {
    double sum = 0.0;
    for (int k = 0; k < logits->channels; k++) {
        sum += (double)logits->data[k * logits->plane + lane];
        if (d_logits->data != NULL) {
            d_logits->data[k * d_logits->plane + lane] -= share;
        }
    }
    return (double)smoothing *
           ((double)logits->data[label * logits->plane + lane] - sum / logits->channels);
}

// Loss of a group; the plain kernel's formula (kernels/kernel_list.h).
static void run_loss(const EsLaneHost *run, float smoothing, const EsLaneMap *logits,
                     const EsLaneMap *d_logits, int group) {
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
            d_logits->data[labels[lane] * d_logits->plane + lane] -=
                share[lane] * (1.0f - smoothing);
        }
        loss += smoothing > 0.0f ? smooth_lane(smoothing, logits, d_logits, labels[lane], lane,
                                               share[lane] * smoothing / (float)n_classes)
                                 : 0.0;
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
    const EsTensor *data = &run->tensors[node->input[0]];
    int is_rows = data->dtype == ES_DTYPE_F32;
    EsLaneImages source = {
        .images = is_rows ? NULL : data->data,
        .rows = is_rows ? data->data : NULL,
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
    if (i->op == LANE_BATCHNORM_APPLY) {
        p->kernels->batchnorm_apply(a, &view, norm->has_relu, b);
    } else if (i->op == LANE_BATCHNORM_BACKWARD_SUMS) {
        p->kernels->batchnorm_backward_sums(a, b, &view, norm->has_relu,
                                            es_lane_norm_sums(run, norm, group));
    } else if (norm->is_pooled) {
        p->kernels->pooled_batchnorm_backward(a, c, b, &view, mean_d_z, mean_d_z_xhat,
                                              es_lane_valid(p, group), d);
    } else {
        p->kernels->batchnorm_backward_input(a, b, &view, mean_d_z, mean_d_z_xhat, norm->has_relu,
                                             es_lane_valid(p, group), d);
    }
}

// Instructions with weights: convolutions, by tiles, directly or by patches.
static void run_layer(const EsLaneHost *run, const LaneInstruction *i, int group, int shard,
                      int worker) {
    const EsLaneProgram *p = run->program;
    EsLaneMap a = es_lane_map(run, i->a, group, worker), b = es_lane_map(run, i->b, group, worker);
    EsLaneMap c = es_lane_map(run, i->c, group, worker);
    const LaneLayer *layer = &p->layers[i->layer];
    float *accumulators = es_lane_accumulators(run, shard);
    const LaneNormRecord *norm = i->norm >= 0 ? &p->norms[i->norm] : NULL;
    int is_first = group == es_lane_first_group(p, shard);
    switch (i->op) {
    case LANE_CONV2D_FORWARD:
        p->kernels->conv2d_forward(&a, run->area + layer->packed,
                                   layer->bias != ES_NO_VALUE ? es_lane_env_data(run, layer->bias)
                                                              : NULL,
                                   layer->filter.kernel, &b);
        break;
    case LANE_CONV2D_STATISTICS:
        p->kernels->conv2d_statistics(
            &a, run->area + layer->packed, layer->filter.kernel, es_lane_valid(p, group), &b,
            i->c >= 0 ? &c : NULL,
            norm->statistics_phase >= 0 ? es_lane_norm_sums(run, norm, group) : NULL);
        break;
    case LANE_CONV2D_BACKWARD_INPUT:
        p->kernels->conv2d_forward(&a, run->area + layer->flipped, NULL, layer->filter.kernel, &b);
        break;
    case LANE_PATCH_SUMS:
        p->kernels->patch_sums(&a, es_lane_valid(p, group), is_first,
                               accumulators + layer->patch_accumulator);
        break;
    case LANE_PATCH_FORWARD:
        p->kernels->patch_forward(&a, run->area + layer->packed, run->area + norm->shift, &b, &c);
        break;
    case LANE_PATCH_BACKWARD_WEIGHT:
        p->kernels->patch_backward_weight(&a, &b, &c, is_first, accumulators + layer->accumulator);
        break;
    default:
        p->kernels->conv2d_backward_weight(&a, &b, layer->filter.kernel, is_first,
                                           accumulators + layer->accumulator);
        if (layer->d_bias != ES_NO_VALUE) {
            p->kernels->bias(&b, is_first, accumulators + layer->bias_accumulator);
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
    case LANE_BATCHNORM_APPLY:
    case LANE_BATCHNORM_BACKWARD_SUMS:
    case LANE_BATCHNORM_BACKWARD_INPUT:
        run_norm(run, i, &a, &b, &c, &d, group);
        break;
    case LANE_ACTIVATION_FORWARD:
        k->activation_forward(node->attributes.activation, &a, &b);
        break;
    case LANE_ACTIVATION_BACKWARD:
        k->activation_backward(node->attributes.activation, &a, &b, &c);
        break;
    case LANE_POOL_FORWARD:
        k->pool_forward(node->attributes.pool, &a, &b);
        break;
    case LANE_POOL_BACKWARD:
        k->pool_backward(node->attributes.pool, &a, &b, &c);
        break;
    case LANE_ADD:
        k->add(&a, &b, &c);
        break;
    case LANE_LOSS:
        run_loss(run, node->attributes.smoothing, &a, &b, group);
        break;
    default:
        run_seed(run, i, group, shard, worker);
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
            const LaneInstruction *instruction = &p->instructions[i];
            if (instruction->layer >= 0) {
                run_layer(run, instruction, group, (int)shard, worker);
            } else {
                run_instruction(run, instruction, group, (int)shard, worker);
            }
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

void es_lane_host_run(EsLaneHost *run, int worker) {
    const EsLaneProgram *p = run->program;
    es_lane_prepare_host(run);
    for (run->phase = 0; run->phase < p->n_phases; run->phase++) {
        for (int shard = 0; shard < p->n_shards; shard++) {
            run_shard(run, shard, worker);
        }
        es_lane_finish_phase(run);
    }
    es_lane_end_host(run);
}

static void run_host(void *context, int64_t env, int worker) {
    EsLaneHost run = host_of(context, env, worker);
    es_lane_host_run(&run, worker);
}

void es_lane_host_run_on(EsLaneHost *run, EsThreadPool *pool) {
    const EsLaneProgram *p = run->program;
    es_lane_prepare_host(run);
    for (run->phase = 0; run->phase < p->n_phases; run->phase++) {
        es_thread_pool_run(pool, p->n_shards, run_shard, run);
        es_lane_finish_phase(run);
    }
    es_lane_end_host(run);
}

void es_lane_program_run(EsLaneProgram *program, EsStream *stream) {
    if (program->n_host_areas > 1 || program->n_workers == 1) {
        es_stream_parallel(stream, program->n_envs, run_host, program);
        return;
    }
    for (int64_t env = 0; env < program->n_envs; env++) {
        EsLaneHost run = host_of(program, env, 0);
        es_lane_host_run_on(&run, es_stream_pool(stream));
    }
}

size_t es_lane_host_bytes(const EsLaneProgram *p, int n_threads) {
    return p->total_bytes + p->worker_floats * (size_t)(n_threads - 1) * sizeof(float);
}

EsLaneHost es_lane_host_in(const EsLaneProgram *p, const EsTensor *tensors, int n_threads,
                           void *memory) {
    float *workers = memory, *area = workers + p->worker_floats * (size_t)n_threads;
    double *sums = (double *)(void *)(area + p->host_floats);
    return (EsLaneHost){.program = p,
                        .tensors = tensors,
                        .workers = workers,
                        .area = area,
                        .sums = sums,
                        .stored = (float *)(void *)(sums + p->host_doubles)};
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

void es_lane_host_clear_borders(const EsLaneHost *run, int n_threads) {
    const EsLaneProgram *p = run->program;
    for (int i = 0; i < p->n_activations; i++) {
        const LaneActivation *activation = &p->activations[i];
        // one map of each group, or one in each thread's scratch memory
        int n_maps = activation->is_skipped || activation->halo == 0 ? 0
                     : activation->is_stored                         ? p->n_groups
                                                                     : n_threads;
        for (int k = 0; k < n_maps; k++) {
            EsLaneMap map = es_lane_map(run, i, k, k);
            clear_border(&map, activation->halo, p->kernels->n_lanes);
        }
    }
}
