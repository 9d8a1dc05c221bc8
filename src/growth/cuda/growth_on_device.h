// The half of an EsGrowth that is in device memory: shared by growth_device.c (order of a step) and
// growth_device_memory.c (its life).
#ifndef ES_GROWTH_GROWTH_ON_DEVICE_H
#define ES_GROWTH_GROWTH_ON_DEVICE_H

#include "growth/cuda/growth_arrays.h"
#include "growth/engine/growth_internal.h"
#include "network/plan/graph_capture.h"

// images of all rows in one pass of evaluation: their activations are held in device memory
#define ES_GROWTH_EVALUATED_MAX 65536

// Byte offsets of the reported arrays, in a block that begins with the state. The block lives on
// the device; a packed block is a copy of it, followed by the state after the decision and reports
// of other modules.
typedef struct EsGrowthPacking {
    size_t masks, results, ablations, pairs, accuracy, n_invalid;
    size_t measured_bytes; // of all this
    size_t decided;        // the packed block goes on: state after the tick
    size_t others;         // es_growth_reserve_report
    size_t bytes;
} EsGrowthPacking;

// Parts of a step that are captured and replayed, each with the event at its start.
typedef enum EsGrowthWork {
    ES_GROWTH_WORK_TRAIN,
    ES_GROWTH_WORK_VALIDATE,
    ES_GROWTH_WORK_MEASURE,
    ES_GROWTH_WORK_DECIDE,
    ES_GROWTH_WORK_COUNT
} EsGrowthWork;

// A packed copy on its way, and the times of the step it belongs to.
typedef struct EsReadback {
    void *memory;      // owned, pinned
    EsEvent *arrived;  // owned
    EsEvent *began[4]; // owned: training, validation, rules, and the end of them
    int has_times;
} EsReadback;

struct EsGrowthOnDevice {
    EsGrowthDevice view; // view for other modules
    EsGrowthArrays arrays;
    EsFusedStep *fused;      // owned
    EsTensor images, labels; // owned: the data set
    void *tables;            // owned: settings, map, spans, chunks, places
    void *rows;              // owned: everything per environment that is not in `live`
    void *live;              // owned: the small state and the arrays reported with it
    void *packed;            // owned
    EsAction *sent_actions;  // owned, pinned [E]
    int32_t *sent_trials;    // owned, pinned: on their way to the device, and their results on the
                             // way back
    EsGrowthPacking packing;
    EsGraphCapture graph_captures[ES_GROWTH_WORK_COUNT];
    EsReadback readback[2];
    int64_t n_collected, n_received; // packed copies; the mirrors show number n_received - 1
    EsGrowthMoment moment;           // of it, that was asked for last
    int64_t max_trials;              // R
    int32_t step;                    // that the queued work is in
};

// numbers of a trial in sent_trials, and one for their count
#define ES_GROWTH_TRIAL_NUMBERS 5

// growth_device_memory.c: the device's half of es_growth_create and _destroy, and
// es_growth_reserve_report.
EsStatus es_growth_on_device_create(EsGrowth *growth);
void es_growth_on_device_destroy(EsGrowth *growth);
EsStatus es_growth_on_device_reserve(EsGrowth *growth, size_t bytes, void **device_memory);

// growth_device_memory.c: points the mirrors of `growth` at a packed block in CPU memory.
void es_growth_on_device_mirror(EsGrowth *growth, void *memory, EsGrowthMoment moment);

#endif
