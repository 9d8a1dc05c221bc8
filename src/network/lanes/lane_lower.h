// The lowering of a graph to lane instructions, shared by lane_program.c (nodes, fusion),
// lane_seed.c (nodes of seeds) and lane_emit.c (activations, instructions, phases).
#ifndef ES_NETWORK_LANE_LOWER_H
#define ES_NETWORK_LANE_LOWER_H

#include "network/lanes/lane_internal.h"

typedef struct EsLowering {
    EsLaneProgram *program;
    const EsGraph *graph;
    unsigned char *is_left_out; // per node, for the caller
    unsigned char *is_absorbed; // per node: part of a block
    int *activation_of;         // per value, -1
    int *norm_of;               // per node: the batch norm of its backward nodes, -1
    EsStatus status;
} EsLowering;

// Note that the engine cannot run this node, unless something failed already.
void es_lane_fail_node(EsLowering *l, int node, const char *why);

// A map of the program; value is ES_NO_VALUE for one that the graph does not know. -1 on failure.
int es_lane_add_activation(EsLowering *l, EsValueId value, int channels, int height, int width);

// The activation of a value that an instruction is about to write: images [E, N, C, H, W], rows
// [E, N, C], or one number per image [E, N].
int es_lane_output_activation(EsLowering *l, EsValueId value);

// The activation of a value to read, loaded from outside at its first use, with at least this
// border.
int es_lane_input_activation(EsLowering *l, int node, EsValueId value, int halo);

// An instruction without layer, norm or plain value.
LaneInstruction es_lane_make(LaneOp op, int node, int a, int b, int c);

// Append an instruction in the first phase in which all it reads is there, at least
// instruction.phase. Returns that phase.
int es_lane_emit(EsLowering *l, LaneInstruction instruction);

// Copies a value out if the caller wants to see it.
void es_lane_copy_result(EsLowering *l, EsValueId value, int node);

// The next node at or after `from` that reads the value, or -1.
int es_graph_next_reader(const EsGraph *graph, EsValueId value, int from);

// Lowers a node that hosts without seeds do not have (lane_seed.c); fails for an operation that the
// engine does not know.
void es_lane_lower_seed(EsLowering *l, int node);

#endif
