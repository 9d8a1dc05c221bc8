// A graph compiled for the vector engine of the CPU (kernels/lanes/lanes.h).
//
// The step of one host falls into *phases* at the sums over its batch: batch-norm statistics, the
// sums of batch norm's gradient, weight gradients. Inside a phase everything is per image, so a
// phase runs all its instructions on one group of images while the group sits in the second-level
// cache, then on the next group. Values that a later phase needs are stored for all groups; cheap
// ones (a normalisation) are computed again instead.
//
// While there are at least as many hosts as threads, a thread runs whole hosts, one after the
// other; else the groups of a host are shared out in fixed *shards*, with a barrier after each
// phase. Partial sums belong to groups or shards and are reduced in order, so the bits do not
// depend on the number of threads.
//
// Batch norm followed by ReLU and a 2x2 maximum is fused with the convolution before it: filters of
// channels with a negative gamma are negated ("folded"), the maximum is taken of the raw output,
// and the normalisation runs on the maxima alone. With a single input channel whose gradient is not
// wanted, the statistics come from sums over its 3x3 patches instead, before the convolution, and
// so do the gradients (kernels/lanes/lanes.h), which leaves out the last phase.
#ifndef ES_NETWORK_LANE_PROGRAM_H
#define ES_NETWORK_LANE_PROGRAM_H

#include "kernels/lanes/lanes.h"
#include "network/graph/graph.h"

ES_EXTERN_C_BEGIN

typedef struct EsLaneProgram EsLaneProgram;

// Compiles the graph. `tensors` (one per value, borrowed) gives the memory of all values that are
// not the program's own: inputs, parameters, gradients, states, results, and the outputs of the
// nodes in `is_left_out` (one flag per node, set here), which the caller runs beforehand. A hosted
// program has no memory of its own and is run host by host (lane_host.h). Fails with UNSUPPORTED,
// naming the node, for a graph the engine cannot run.
EsStatus es_lane_program_create(const EsGraph *graph, const EsTensor *tensors, EsDevice *device,
                                int is_hosted, unsigned char *is_left_out, EsLaneProgram **program);
void es_lane_program_destroy(EsLaneProgram *program);

// One step of all hosts.
void es_lane_program_run(EsLaneProgram *program, EsStream *stream);

// Memory of the program, or of one host of a hosted one.
size_t es_lane_program_bytes(const EsLaneProgram *program);

ES_EXTERN_C_END

#endif
