// One host at work: its areas of memory, shared by lane_run.c (instructions) and lane_finish.c (the
// ends of phases).
#ifndef ES_NETWORK_LANE_HOST_H
#define ES_NETWORK_LANE_HOST_H

#include "network/lanes/lane_internal.h"

typedef struct EsLaneHost {
    const EsLaneProgram *program;
    const EsTensor *tensors; // one per value
    int64_t env;             // its part of them
    int phase;
    float *workers; // [workers][worker_floats]
    float *area;    // layers, norms, accumulators
    double *sums;
    float *stored; // [groups][stored_floats]
} EsLaneHost;

// Memory of a host of a hosted program whose shards n_threads may run.
size_t es_lane_host_bytes(const EsLaneProgram *program, int n_threads);

// Places such a host in `memory`, which is aligned as device memory is. `tensors` are narrowed to
// the host, [1, ...].
EsLaneHost es_lane_host_in(const EsLaneProgram *program, const EsTensor *tensors, int n_threads,
                           void *memory);

// Writes zeros around the maps of the host, whose memory other programs have used. Runs keep them.
void es_lane_host_clear_borders(const EsLaneHost *host, int n_threads);

// Runs one step of the host, with the same bits as es_lane_program_run: on the calling thread with
// the scratch memory of `worker`, or, with a pool, its shards on the pool's threads. Reads the
// program alone, so that several threads can run it at once.
void es_lane_host_run(EsLaneHost *host, int worker);
void es_lane_host_run_on(EsLaneHost *host, EsThreadPool *pool);

static inline float *es_lane_env_data(const EsLaneHost *run, EsValueId value) {
    const EsTensor *tensor = &run->tensors[value];
    return (float *)tensor->data + run->env * tensor->stride[0];
}

static inline int32_t *es_lane_env_ints(const EsLaneHost *run, EsValueId value) {
    const EsTensor *tensor = &run->tensors[value];
    return (int32_t *)tensor->data + run->env * tensor->stride[0];
}

static inline EsLaneMap es_lane_map(const EsLaneHost *run, int activation_index, int group,
                                    int worker) {
    const EsLaneProgram *p = run->program;
    if (activation_index < 0) {
        return (EsLaneMap){0};
    }
    const LaneActivation *activation = &p->activations[activation_index];
    EsLaneMap map = activation->map;
    if (!activation->is_skipped) {
        float *base = activation->is_stored ? run->stored + (size_t)group * p->stored_floats
                                            : run->workers + (size_t)worker * p->worker_floats;
        map.data = base + activation->offset + activation->halo * (map.row + p->kernels->n_lanes);
    }
    return map;
}

static inline int es_lane_valid(const EsLaneProgram *p, int group) {
    return ES_MIN(p->kernels->n_lanes, p->n_images - group * p->kernels->n_lanes);
}

// Shard s has the groups from es_lane_first_group(s) up to es_lane_first_group(s + 1).
static inline int es_lane_first_group(const EsLaneProgram *p, int shard) {
    return (int)((int64_t)shard * p->n_groups / p->n_shards);
}

// The sums of a norm over one group, [channels][2].
static inline double *es_lane_norm_sums(const EsLaneHost *run, const LaneNormRecord *norm,
                                        int group) {
    return run->sums + norm->sums + (size_t)group * (size_t)norm->channels * 2;
}

// The accumulators of a shard.
static inline float *es_lane_accumulators(const EsLaneHost *run, int shard) {
    const EsLaneProgram *p = run->program;
    return run->area + p->accumulators_start + (size_t)shard * p->shard_floats;
}

// --- lane_run.c ---

// Writes the gradients of a seed's parameters from their sums.
void es_lane_finish_seed(const EsLaneHost *run, const LaneSums *sums);

// --- lane_finish.c ---

// Packs the weights, and derives the factors of norms with running statistics.
void es_lane_prepare_host(const EsLaneHost *run);

// Reduces the sums of run->phase: statistics, gradients of parameters.
void es_lane_finish_phase(const EsLaneHost *run);

// After the last phase: the loss.
void es_lane_end_host(const EsLaneHost *run);

#endif
