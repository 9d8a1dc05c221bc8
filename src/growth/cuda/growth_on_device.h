// The half of an EsGrowth that is in device memory: shared by growth_device.c (order of a step) and
// growth_device_memory.c (its life).
#ifndef ES_GROWTH_GROWTH_ON_DEVICE_H
#define ES_GROWTH_GROWTH_ON_DEVICE_H

#include "growth/cuda/growth_arrays.h"
#include "growth/cuda/growth_executor.h"
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

// The place where the CPU finds the small state that the work queued last starts from.
typedef enum EsGrowthAhead {
    ES_GROWTH_AHEAD_FRESH,    // an episode was queued: hosts without seeds
    ES_GROWTH_AHEAD_MIRROR,   // the mirror has gone through the same
    ES_GROWTH_AHEAD_DECIDED,  // a decision was queued: there is none yet
    ES_GROWTH_AHEAD_REPORTED, // likewise; its outcome is kept on the device
    ES_GROWTH_AHEAD_COPY      // in the packed copy that was queued last
} EsGrowthAhead;

typedef struct EsPlannedStep EsPlannedStep; // of planned_executor.c

struct EsGrowthOnDevice {
    EsGrowthDevice view; // view for other modules
    EsGrowthArrays arrays;
    const EsGrowthExecutor *executor; // constant
    char not_fused[256];              // why it is not the fused one; "": it is
    EsFusedStep *fused;               // owned by the executor that needs it, as the next
    EsPlannedStep *planned;
    EsGrowthAhead ahead;
    EsGrowthState fresh;     // what AHEAD_FRESH shows, in fresh_slab
    void *fresh_slab;        // owned
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
    int64_t max_trials;              // R, and the trials of a run
    int32_t step;                    // that the queued work is in
};

// numbers of a trial in sent_trials, and one for their count
#define ES_GROWTH_TRIAL_NUMBERS 5

// growth_device_memory.c: the device's half of es_growth_create and _destroy, and
// es_growth_reserve_report.
EsStatus es_growth_on_device_create(EsGrowth *growth);
void es_growth_on_device_destroy(EsGrowth *growth);
EsStatus es_growth_on_device_reserve(EsGrowth *growth, size_t bytes, void **device_memory);

// growth_device.c: the small state that the training of the step queued next, or trials queued now,
// start from: its stages, alphas, blueprints and algorithms. Waits for the packed copy that has it.
EsStatus es_growth_on_device_ahead(EsGrowth *growth, EsGrowthState *state);

// growth_device_memory.c: points the mirrors of `growth` at a packed block in CPU memory.
void es_growth_on_device_mirror(EsGrowth *growth, void *memory, EsGrowthMoment moment);

#endif
