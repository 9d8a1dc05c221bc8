// The parts of a lane program, which lane_program.c builds and lane_run.c executes.
#ifndef ES_NETWORK_LANE_INTERNAL_H
#define ES_NETWORK_LANE_INTERNAL_H

#include <string.h>

#include "network/lanes/lane_program.h"

// Shards a batch is cut into, at most: threads that can share one host.
#define ES_LANE_MAX_SHARDS 8
// Groups of a shard, at least: every shard has accumulators to fill and to reduce, which costs a
// small host a percent or two.
#define ES_LANE_SHARD_GROUPS 2
#define ES_LANE_MAX_CLASSES  1024
// Floats of a group's images, up to which they are kept rather than loaded twice.
#define ES_LANE_STORED_IMAGES 8192

typedef enum LaneOp {
    LANE_LOAD_IMAGES,              // -> a
    LANE_FROM_ROWS,                // plain value -> a
    LANE_TO_ROWS,                  // a -> plain value
    LANE_CONV2D_FORWARD,           // a -> b, layer
    LANE_CONV2D_STATISTICS,        // a -> b, maxima c, layer, norm
    LANE_CONV2D_BACKWARD_INPUT,    // a = d_y -> b = d_x, layer
    LANE_CONV2D_BACKWARD_WEIGHT,   // a = x, b = d_y, layer
    LANE_PATCH_SUMS,               // a = x, layer
    LANE_PATCH_FORWARD,            // a -> b, choice c, layer, norm
    LANE_PATCH_BACKWARD_WEIGHT,    // a = x, b = d_y, c = choice, layer
    LANE_BATCHNORM_APPLY,          // a -> b, norm
    LANE_BATCHNORM_BACKWARD_SUMS,  // a = x, b = d_y, norm
    LANE_BATCHNORM_BACKWARD_INPUT, // a = x, b = d_y -> d; c = maxima where pooled; norm
    LANE_ACTIVATION_FORWARD,       // a -> b
    LANE_ACTIVATION_BACKWARD,      // a = y, b = d_y -> c
    LANE_POOL_FORWARD,             // a -> b
    LANE_POOL_BACKWARD,            // a = x, b = d_y -> c
    LANE_ADD,                      // a, b -> c
    LANE_LOSS,                     // a = logits -> b = d_logits (nullable)
    // of seeds; maps that a node leaves out are -1
    LANE_GROUPNORM_FORWARD,         // a = x, b = residual -> c = mean, d = inv_std, e = y
    LANE_GROUPNORM_BACKWARD,        // a = x, b = mean, c = inv_std, d = d_y -> e = d_x; sums
    LANE_DEPTHWISE_FORWARD,         // a -> b
    LANE_DEPTHWISE_BACKWARD_INPUT,  // a = d_y -> b = d_x
    LANE_DEPTHWISE_BACKWARD_WEIGHT, // a = x, b = d_y; sums
    LANE_CHANNEL_SCALE_FORWARD,     // a = x, b = w -> c
    LANE_CHANNEL_SCALE_BACKWARD,    // a = x, b = w, c = d_y -> d = d_x, e = d_w
    LANE_NORM_MIX_FORWARD,          // a = x, b = n -> c
    LANE_NORM_MIX_BACKWARD,         // a = x, b = n, c = d_y -> d = d_x, e = d_n; sums
    LANE_BLEND_FORWARD,             // a = h, b = s, c = gate -> d
    LANE_BLEND_BACKWARD,      // a = h, b = s, c = gate, d = d_y -> e = d_h, f = d_s, g = d_gate
    LANE_SEED_INPUT_BACKWARD, // a = d_x, b = the rest of d_h -> c = d_h
} LaneOp;

#define ES_LANE_OPERANDS 7

typedef struct LaneInstruction {
    LaneOp op;
    int phase;
    int a, b, c, d;        // maps, -1 when absent
    int e, f, g;           // likewise, of seeds alone
    int layer, norm, sums; // records below, -1 when absent
    EsValueId value;       // plain value of LOAD_IMAGES (index), FROM_ROWS, TO_ROWS
    int32_t node;          // graph node with the attributes
} LaneInstruction;

// A map of the program: the activation of one group.
typedef struct LaneActivation {
    int channels, height, width, halo;
    EsValueId value; // of the graph, ES_NO_VALUE for raw maxima
    int producer;    // instruction, first incarnation
    int last_phase;  // of its readers
    int is_stored;   // kept for all groups
    int is_skipped;  // never read: not written
    int is_placed;   // lane_layout.c: has its offset
    int is_reused;   // lane_layout.c: a later map lies on it
    int overwrites;  // lane_layout.c: the stored map in whose place it is computed, or -1
    size_t count;    // floats of one group, border included
    size_t offset;   // floats, in the worker's or the host's area
    EsLaneMap map;   // lane_layout.c: as its instructions see it, but for the data
} LaneActivation;

// Convolution or linear layer of a host.
typedef struct LaneLayer {
    EsLaneFilter filter;
    int norm;                   // folded by this norm, or -1
    EsValueId weight, bias;     // bias ES_NO_VALUE when absent
    EsValueId d_weight, d_bias; // likewise
    int gradient_phase;         // -1 when it has none
    int is_patched;             // one channel by its patches; packed once its norm is known
    int needs_flipped;
    size_t packed, flipped; // offsets in the host's area, floats
    size_t accumulator, bias_accumulator;
    size_t patch_accumulator; // is_patched: sums of patches
} LaneLayer;

// Batch norm of a host. Arrays of `channels` floats in the host's area.
typedef struct LaneNormRecord {
    int channels;
    int has_relu, is_pooled, is_folded;
    int is_patched;    // lanes.h: scale has the sign of gamma, mean is not folded
    double n_elements; // per channel and batch
    EsNormOptions options;
    EsValueId gamma, beta, running_mean, running_variance;
    EsValueId d_gamma, d_beta; // ES_NO_VALUE when not differentiated
    EsValueId gradient_in;     // enters from behind; ES_NO_VALUE likewise
    int statistics_phase;      // -1: running statistics, ready from the start
    int sums_phase;            // -1: no gradient
    int x;                     // map the norm reads; is_patched: the convolution
    int choice;                // is_patched: map of the winners, -1 without a gradient
    int layer;                 // whose output it normalises
    size_t sign, scale, shift, mean, inv_std, mean_d_z,
        mean_d_z_xhat; // offsets in the host's area, floats
    size_t sums;       // offset of double [groups][channels][2], in doubles
    size_t patches;    // is_patched: offset of EsLanePatches, in doubles
} LaneNormRecord;

// The gradient of a parameter outside of layers and batch norms, as sums in every lane.
typedef struct LaneSums {
    int32_t node;       // of the gradient
    int count;          // sums in a lane
    int phase;          // after which they are complete
    size_t accumulator; // floats [count][L], in a shard's part
} LaneSums;

struct EsLaneProgram {
    const EsGraph *graph; // borrowed, like the tensors
    const EsTensor *tensors;
    const EsLaneKernels *kernels;
    int64_t n_envs;
    int n_images, n_groups, n_shards, n_phases;

    LaneInstruction *instructions; // owned, in running order
    int n_instructions, instructions_capacity;
    LaneActivation *activations; // owned
    int n_activations, activations_capacity;
    LaneLayer *layers; // owned
    int n_layers;
    LaneNormRecord *norms; // owned
    int n_norms;
    LaneSums *sums; // owned
    int n_sums;

    // the loss
    EsValueId labels, loss, n_correct, n_invalid; // ES_NO_VALUE without one

    // memory
    int n_workers, n_host_areas;
    size_t worker_floats;      // one group's transient maps, per worker
    size_t host_floats;        // one host's layers, norms, accumulators
    size_t host_doubles;       // one host's partial sums
    size_t accumulators_start; // floats; shard s's accumulators start at accumulators_start + s *
                               // shard_floats
    size_t shard_floats;
    size_t stored_floats; // one group's stored maps
    size_t loss_sums;     // doubles [groups]: loss; counts follow as two int32
    size_t total_bytes;   // of all that follows
    float *worker_memory; // owned [n_workers][worker_floats]; NULL when hosted, like the rest
    float *host_memory;   // owned [n_host_areas][host_floats]
    double *sum_memory;   // owned [n_host_areas][host_doubles]
    float *stored_memory; // owned [n_host_areas][n_groups][stored_floats]
};

// The maps of an instruction in order.
static inline void es_lane_operands(const LaneInstruction *i, int operands[ES_LANE_OPERANDS]) {
    const int all[ES_LANE_OPERANDS] = {i->a, i->b, i->c, i->d, i->e, i->f, i->g};
    memcpy(operands, all, sizeof all);
}

// lane_layout.c: offsets, once instructions and records are complete; then memory.
EsStatus es_lane_program_place(EsLaneProgram *program, int n_workers);
EsStatus es_lane_program_allocate(EsLaneProgram *program);

// --- lowering ---

// The lowering of a graph to lane instructions, shared by lane_program.c (nodes, fusion),
// lane_seed.c (nodes of seeds) and lane_emit.c (activations, instructions, phases).

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
