// Growth on a GPU: the functions behind es_growth_* of a growth created on a CUDA device, and the
// same work as queued pieces, for a decision that is made on the device, too.
//
// Everything lives in device memory: weights, momentum, snapshots, the small state, masks, lists of
// ablations, results. A step is a fixed number of launches for any number of environments, and the
// CPU waits once, for one packed copy of the results. es_growth_snapshot, _masks, _results,
// _ablations are mirrors of the copy last received.
//
//     const EsGrowthDevice *device = es_growth_device(growth);
//     ES_TRY(es_growth_queue_reset(growth, first_episode));
//     ES_TRY(es_growth_queue_advance(growth));
//     for (int t = 0; t < n_steps; t++) {
//         ES_TRY(es_growth_queue_report(growth, ES_GROWTH_MEASURED));
//         choose(device->stream, &device->state, device->masks, device->actions);
//         ES_TRY(es_growth_queue_decision(growth));
//         ES_TRY(es_growth_queue_report(growth, ES_GROWTH_DECIDED));
//         ES_TRY(es_growth_queue_collect(growth));
//         ES_TRY(es_growth_queue_advance(growth)); // step t + 1 is queued, then t is looked at
//         ES_TRY(es_growth_receive(growth, ES_GROWTH_MEASURED));
//         ES_TRY(es_growth_receive(growth, ES_GROWTH_DECIDED));
//     }
//
// E environments, S slots.
#ifndef ES_GROWTH_GROWTH_DEVICE_H
#define ES_GROWTH_GROWTH_DEVICE_H

#include "growth/engine/growth.h"

ES_EXTERN_C_BEGIN

// Numbers of SGD for each environment; device memory, [E] each, read when the work runs.
typedef struct EsGrowthSgd {
    float *host_learning_rate, *seed_learning_rate;
    float *momentum;
    float *host_decay; // seeds have none
    float *clip;       // 0 = none
} EsGrowthSgd;

// All pointers are device memory.
typedef struct EsGrowthDevice {
    EsStream *stream; // all of growth's work is queued here
    EsGrowthState state;
    const EsGrowthSettings *settings;
    const EsActionMasks *masks; // [E]
    const int32_t *episode;     // [E]
    EsAction *actions;          // [E]: written before es_growth_queue_decision
    EsGrowthSgd rates;
    int64_t n_envs;
} EsGrowthDevice;

// NULL where growth runs on the CPU.
const EsGrowthDevice *es_growth_device(const EsGrowth *growth);

// --- queued work, only where es_growth_device is not NULL: nothing here waits ---

// New episodes in all environments, with ids from first_episode on.
EsStatus es_growth_queue_reset(EsGrowth *growth, int64_t first_episode);

// Trains, validates and applies the rules, up to the masks. Does nothing after the last decision of
// an episode.
EsStatus es_growth_queue_advance(EsGrowth *growth);

// Carry out the actions in device memory, tick, and change the weights as the rules ask.
EsStatus es_growth_queue_decision(EsGrowth *growth);

// Keep the state as it is at this point of the stream, to go out with the next packed copy.
EsStatus es_growth_queue_report(EsGrowth *growth, EsGrowthMoment moment);

// Copies the kept block into the next of two pinned buffers. A third copy may be queued once the
// first has been received.
EsStatus es_growth_queue_collect(EsGrowth *growth);

// Wait for a packed copy, when it was not waited for yet, and let the mirrors show that moment of
// it. Moments of one copy are asked for in their order; asking for a moment that does not come
// after the one shown goes on to the next copy. ES_GROWTH_DECIDED leaves masks and results as they
// were measured.
EsStatus es_growth_receive(EsGrowth *growth, EsGrowthMoment moment);

// Reserves space in the packed copy for reports of other modules: device memory that they write
// before es_growth_queue_collect; es_growth_receive brings its copy. Once, before the first step.
EsStatus es_growth_reserve_report(EsGrowth *growth, size_t bytes, void **device_memory);
const void *es_growth_received_report(const EsGrowth *growth);

// --- looking at it ---

typedef struct EsGrowthDeviceReport {
    int64_t n_captures, n_replays;
    int64_t n_fallbacks; // parts of a step that could not be captured and are launched one by one,
                         // and a host that does not run fused
    double capture_ms;   // of all captures
    char fallback[256];  // why the last one could not; "" = none
    int is_fused;        // the fused step runs the hosts, else plans
    size_t executor_bytes; // device memory of either, without weights and results
} EsGrowthDeviceReport;
EsGrowthDeviceReport es_growth_device_report(const EsGrowth *growth); // zeroed on the CPU

ES_EXTERN_C_END

#endif
