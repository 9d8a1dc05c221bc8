// The insides of a plan, shared by plan.c, which builds and runs it, and plan_host.c, which runs
// one host of it.
#ifndef ES_NETWORK_PLAN_INTERNAL_H
#define ES_NETWORK_PLAN_INTERNAL_H

#include "network/graph/graph.h"
#include "network/lanes/lane_program.h"
#include "network/plan/graph_capture.h"
#include "network/plan/plan.h"

ES_EXTERN_C_BEGIN

#define ES_PLAN_NO_OFFSET SIZE_MAX

// The range of a run; each has a graph capture of its own.
typedef enum PlanRange { PLAN_WHOLE, PLAN_FORWARD, PLAN_BACKWARD, PLAN_RANGES } PlanRange;

struct EsPlan {
    const EsGraph *graph; // borrowed
    EsStore *store;       // borrowed
    EsPlanOptions options;
    int64_t created_ns;         // differs from that of an earlier plan at the same address
    EsTensor *tensors;          // owned array, one per value; hosted: [1, ...] without data where
                                // the memory is a worker's
    size_t *offsets;            // owned array, one per value: bytes into the slab, or
                                // ES_PLAN_NO_OFFSET
    size_t slab_bytes;          // activations and results; hosted: of one host
    void *slab;                 // owned; NULL when hosted
    unsigned char *is_left_out; // owned, per node: runs before the lane program
    EsLaneProgram *lanes;       // owned, nullable
    EsGraphCapture graph_capture[PLAN_RANGES];
    int all_bound;
    int has_forward;      // the forward half has run, the backward half not yet
    int clears_gradients; // some part of the gradient slab is not written here, but read
    EsPlanReport report;
};

// Discards captures: the next runs capture again.
void es_plan_forget_captures(EsPlan *plan);

// One node of a graph as one kernel call.

// `tensors` has one entry per value of the graph.
void es_execute_node(const EsKernels *kernels, EsStream *stream, const EsNode *node,
                     const EsTensor *tensors);

// The same with spans of a profile; on a CPU for a device that one thread uses.
void es_plan_run_node(EsDevice *device, const EsNode *node, const EsTensor *tensors,
                      EsStream *stream);

// The first output of a node, whose shape a profile shows.
const EsTensor *es_node_result(const EsNode *node, const EsTensor *tensors);

ES_EXTERN_C_END

#endif
