// Seeds at work: one group of images through an operation of a seed, and the gradients of its
// parameters once a phase is over.
#include <math.h>

#include "kernels/lanes/lanes.h"
#include "network/lanes/lane_seed.h"

// The gamma and beta of a group norm; beta is no input of the gradient.
static EsLaneGroupNorm group_norm(const EsLaneHost *run, const EsNode *node) {
    int is_forward = node->op == ES_OP_GROUPNORM;
    return (EsLaneGroupNorm){
        .n_groups = node->attributes.norm.n_groups,
        .epsilon = node->attributes.norm.epsilon,
        .gamma = es_lane_env_data(run, node->input[is_forward ? 1 : 3]),
        .beta = is_forward ? es_lane_env_data(run, node->input[2]) : NULL,
    };
}

static EsLaneBlend blend_of(const EsLaneHost *run, const EsNode *node, const EsLaneMap *maps) {
    return (EsLaneBlend){.mode = *es_lane_env_ints(run, node->input[ES_BLEND_INPUT_ALPHA + 1]),
                         .alpha = *es_lane_env_data(run, node->input[ES_BLEND_INPUT_ALPHA]),
                         .h = &maps[0],
                         .s = &maps[1],
                         .gate = &maps[2]};
}

void es_lane_run_seed(const EsLaneHost *run, const LaneInstruction *instruction, int group,
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
    case LANE_GROUPNORM:
        norm = group_norm(run, node);
        k->groupnorm(&norm, &m[0], &m[1], &m[2], &m[3], &m[4]);
        break;
    case LANE_GROUPNORM_INPUT:
        norm = group_norm(run, node);
        k->groupnorm_input(&norm, &m[0], &m[1], &m[2], &m[3], &m[4], is_first, sums);
        break;
    case LANE_DEPTHWISE:
        k->depthwise(&m[0], es_lane_env_data(run, node->input[1]), 0, &m[1]);
        break;
    case LANE_DEPTHWISE_INPUT:
        k->depthwise(&m[0], es_lane_env_data(run, node->input[0]), 1, &m[1]);
        break;
    case LANE_DEPTHWISE_WEIGHT:
        k->depthwise_weight(&m[0], &m[1], is_first, sums);
        break;
    case LANE_CHANNEL_SCALE:
        k->channel_scale(&m[0], &m[1], &m[2]);
        break;
    case LANE_CHANNEL_SCALE_INPUT:
        k->channel_scale_input(&m[0], &m[1], &m[2], &m[3], &m[4]);
        break;
    case LANE_NORM_MIX:
        k->norm_mix(&m[0], &m[1], tanhf(*es_lane_env_data(run, node->input[2])), &m[2]);
        break;
    case LANE_NORM_MIX_INPUT:
        k->norm_mix_input(&m[0], &m[1], tanhf(*es_lane_env_data(run, node->input[2])), &m[2], &m[3],
                          &m[4], is_first, sums);
        break;
    case LANE_BLEND:
        blend = blend_of(run, node, m);
        k->blend(&blend, &m[3]);
        break;
    case LANE_BLEND_INPUT:
        blend = blend_of(run, node, m);
        k->blend_input(&blend, &m[3], &m[4], &m[5], &m[6]);
        break;
    case LANE_SEED_INPUT:
        k->seed_input(*es_lane_env_ints(run, node->input[0]), &m[0], &m[1], &m[2]);
        break;
    default:
        ES_ASSERT(instruction->op >= LANE_GROUPNORM);
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
    if (node->op == ES_OP_GROUPNORM_GRADIENT) {
        float *d_gamma = es_lane_env_data(run, node->output[1]);
        float *d_beta = es_lane_env_data(run, node->output[2]);
        for (int c = 0; c < sums->count / 2; c++) {
            total_sums(run, sums, 2 * c, 2, totals);
            d_beta[c] = (float)totals[0];
            d_gamma[c] = (float)totals[1];
        }
    } else if (node->op == ES_OP_DEPTHWISE_WEIGHT) {
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
