// The course of a learning rate over the updates of a run: it rises from 0 during the warm-up, then
// falls to its final share; and how much an average of weights keeps. One rule for all devices.
#ifndef ES_KERNELS_SCHEDULE_RULES_H
#define ES_KERNELS_SCHEDULE_RULES_H

#include <math.h>

#include "kernels/kernel_types.h"

// The share of the learning rate at update number `update`, from 0 on. Beyond the last it stays.
static inline ES_HOST_DEVICE float es_schedule_share(const EsLearningRateSchedule *schedule,
                                                     int64_t update) {
    double n = (double)schedule->n_updates, warmup = (double)schedule->warmup * n;
    double at = (double)(update < schedule->n_updates ? update : schedule->n_updates - 1);
    double final_share = (double)schedule->final_share;
    if (at + 1 < warmup) {
        return (float)((at + 1) / warmup);
    }
    double progress = n > warmup ? (at + 1 - warmup) / (n - warmup) : 1;
    switch (schedule->decay) {
    case ES_DECAY_LINEAR:
        return (float)(1 - (1 - final_share) * progress);
    case ES_DECAY_COSINE:
        return (float)(final_share +
                       (1 - final_share) * 0.5 * (1 + cos(3.14159265358979323846 * progress)));
    default:
        return 1.0f;
    }
}

// Share of its old value that an average keeps at update number `update`, from 0 on:
// min(decay, (1 + update) / (10 + update)), so that the first weights are soon forgotten.
static inline ES_HOST_DEVICE float es_average_share(float decay, int64_t update) {
    double warming = (1.0 + (double)update) / (10.0 + (double)update);
    return (float)((double)decay < warming ? (double)decay : warming);
}

#endif
