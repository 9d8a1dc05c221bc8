// Seeds in a lane program: lowering and running of the operations in kernels/lanes/lanes.h.
#ifndef ES_NETWORK_LANE_SEED_H
#define ES_NETWORK_LANE_SEED_H

#include "network/lanes/lane_host.h"
#include "network/lanes/lane_lower.h"

// lane_seed.c: lower a node that hosts without seeds do not have; notes a failure for one that the
// engine does not know.
void es_lane_lower_seed(EsLowering *l, int node);

// lane_seed_run.c: run such an instruction on one group.
void es_lane_run_seed(const EsLaneHost *run, const LaneInstruction *instruction, int group,
                      int shard, int worker);

// Write the gradients of parameters from their sums.
void es_lane_finish_seed(const EsLaneHost *run, const LaneSums *sums);

#endif
