// The arguments of the kernels of a fused step: shapes and places of one network, and the memory of
// all of them. Plain structs, shared by C and CUDA; a launch takes EsFusedArguments by value.
//
// Channels come in *channel groups* (c8) of 8: 16 bytes of bf16. Activations in device memory are
// [instance][image][c8][pixel][8], without border; channels past the last real one are 0.
//
// R instances, N images of an instance, B blocks of the host, S slots, P parameters.
#ifndef ES_GROWTH_FUSED_NET_H
#define ES_GROWTH_FUSED_NET_H

#include "growth/fused/fused_step.h"
#include "kernels/ops/gather_rules.h"

#define ES_C8               8
#define ES_FUSED_BLOCKS_MAX 6
#define ES_FUSED_THREADS    256
// Parameter tensors of one seed, and of its gate.
#define ES_FUSED_TENSORS_MAX  6
#define ES_FUSED_GATE_TENSORS 4

// n / d = the upper half of n times this, for n d < 2^32; 0, which means a plain division, for 1.
static inline ES_HOST_DEVICE uint32_t es_fused_reciprocal(int32_t d) {
    return d <= 1 ? 0 : 0xFFFFFFFFu / (uint32_t)d + 1;
}

typedef struct EsFusedBlock {
    int32_t n_in, n_out;   // channels
    int32_t in_c8, out_c8; // the same in channel groups
    int32_t size;          // height and width of its maps
    int32_t out_size;      // of its output: half of it after a pool
    uint32_t by_size, by_pixels, by_out_size,
        by_out_pixels; // es_fused_reciprocal of sizes and squares
    int32_t kernel;    // 1 or 3
    int32_t has_pool;
    int32_t slot[2];             // before and after the pool, number in the model; -1: none
    int32_t depth;               // slots that come before the block in a forward pass
    int64_t weight, gamma, beta; // offsets into an environment's parameters
    int64_t running_mean, running_variance;  // into its states
    int64_t packed_forward, packed_backward; // bytes into an environment's packed weights
} EsFusedBlock;

// A seed's parameter tensors in the order of its blueprint's builder, and where their partial sums
// go.
typedef struct EsFusedSeed {
    int64_t offset[ES_FUSED_TENSORS_MAX]; // into an environment's parameters
    int32_t length[ES_FUSED_TENSORS_MAX];
    int32_t n_tensors;
} EsFusedSeed;

typedef struct EsFusedPlace { // a slot
    int32_t block, is_after_pool;
    int32_t depth;                  // slots that come before it in a forward pass
    int32_t n_channels, n_c8, size; // of the maps that flow there
    uint32_t by_size, by_pixels;    // es_fused_reciprocal of size and its square
    int32_t n_groups;               // of its group norms
    EsFusedSeed seed[ES_BLUEPRINT_COUNT];
    EsFusedSeed gate;
    int64_t packed; // bytes into an environment's packed seeds
} EsFusedPlace;

typedef struct EsFusedNet {
    int32_t n_blocks, n_slots, n_classes, image_channels;
    EsFusedBlock block[ES_FUSED_BLOCKS_MAX];
    EsFusedPlace place[ES_SLOTS_MAX];
    int32_t order[ES_SLOTS_MAX]; // slots in the order of a forward pass
    int64_t classifier_weight, classifier_bias;
    int64_t packed_bytes;      // of one environment's host
    int64_t seed_packed_bytes; // of its seeds
} EsFusedNet;

// Memory of a block: [R][N]... of activations, [R]... of sums. T is the precision's type.
typedef struct EsFusedMemory {
    void *raw;      // T: output of the convolution
    void *pooled;   // T: its value at the pixel that pooling selects in each window; `raw` itself
                    // in a block without a pool
    void *middle;   // T: after the slot before the pool, and the pool; instances that mix there
    void *out;      // T: after the slot after the pool; instances that mix there
    void *d_middle; // T: gradient of `middle`, where a seed after the pool mixes
    void *d_out;    // T: gradient of the block output; none for the last block
    void *d_relu;   // T, full size: gradient of the ReLU's output, where a seed before the pool
                    // mixes
    uint16_t *winners; // [R][N][n_c8][pixels of middle]: which pixel of each window its 8 channels
        // came from (fused_seed_begin.cuh); instances that mix before the pool, training
    float *mean, *inv_std; // f32 [R][padded C]: of the batch
    float *norm_sums;      // f32 [R][2][padded C]: sums of d_z and of d_z x_hat
} EsFusedMemory;

// Image of the data set that an instance takes, and its crop.
typedef struct EsFusedSample {
    int32_t number; // in the data set
    EsCrop crop;
} EsFusedSample;

// Work sharing in evaluation. Instances of one environment that agree in the first d slots of a
// forward pass have equal activations up to there: the first of them is their leader at depth d and
// alone computes: of an environment 2^d instances at most. A *point* is where instances compute:
// block b is point b, slot s point n_blocks + s.
typedef struct EsFusedSharing {
    int32_t *leader; // [S + 1][R]; NULL, in training: every instance is its own
    int32_t *listed; // [points][R]: instances that compute there, in their order; then -1
    int32_t *first;  // [E]: the environment's first instance; scratch of es_fused_share
} EsFusedSharing;

typedef struct EsFusedArguments {
    EsFusedNet net;
    EsFusedMemory memory[ES_FUSED_BLOCKS_MAX];
    EsFusedInstances instances;
    EsFusedSharing sharing;
    int64_t n_envs; // E

    // data
    const unsigned char *images;
    const uint16_t *labels;
    const int32_t *episode, *step; // [E], [1]
    EsGatherOptions gather;
    EsSampleOrder order; // of training
    int64_t first_image; // evaluation: of the pass
    int32_t n_images;    // N
    int32_t is_training;
    int32_t is_tf32;         // float alone: convolutions multiply in TF32
    EsFusedSample *samples;  // [R][N], in training
    int64_t instance_images; // images of an instance in the activation memory, N or more

    // slabs of the store
    float *parameters, *gradients, *states;
    int64_t parameter_stride, state_stride;
    const float *loss_scale;    // [E], nullable
    float smoothing;            // of labels, in training; else 0
    unsigned char *packed;      // [E][net.packed_bytes]
    unsigned char *seed_packed; // [E][net.seed_packed_bytes]

    // the classifier's gradient with respect to its features, f32 [R][N][padded C]
    float *d_features;

    // sums over thread blocks, [R][chunks]...; a counter per instance and kernel says who is last
    int32_t *counters;                               // [R], 0 between launches
    float *norm_partials;                            // [R][chunks][2][padded C]
    float *loss_partials;                            // [R][chunks][3]: loss, correct, invalid
    float *weight_partials[ES_FUSED_BLOCKS_MAX + 1]; // [R][chunks][...], the classifier last
    float *seed_partials[ES_SLOTS_MAX];              // [R][chunks][es_fused_seed_partial_length]
    int32_t n_chunks[ES_FUSED_BLOCKS_MAX + 1];       // of weight_partials
    int32_t n_seed_chunks[ES_SLOTS_MAX];

    float *loss; // [R]
    int32_t *n_correct, *n_invalid;
    int32_t adds; // evaluation: results are added to
} EsFusedArguments;

#endif
