// The launchers of a fused step, in the order in which fused_step.c calls them. All read the
// arguments when they are called and queue work on the stream; none allocates or waits.
#ifndef ES_GROWTH_FUSED_KERNELS_H
#define ES_GROWTH_FUSED_KERNELS_H

#include "growth/fused/fused_net.h"

ES_EXTERN_C_BEGIN

// Shared memory that a thread block may have on this device.
EsStatus es_fused_shared_limit(const EsDevice *device, size_t *bytes);

// Bytes of one environment's packed weights; fills packed_forward and packed_backward of the
// blocks.
size_t es_fused_pack_layout(EsFusedNet *net, EsDtype precision);

// Shared memory of a kernel with n_images per chunk.
size_t es_fused_forward_bytes(const EsFusedNet *net, EsDtype precision, int block, int n_images);
size_t es_fused_classifier_bytes(const EsFusedNet *net, EsDtype precision, int n_images);
size_t es_fused_backward_bytes(const EsFusedNet *net, EsDtype precision, int block, int n_images);

// Floats of a chunk's partial sums in weight_partials; block n_blocks is the classifier.
int es_fused_partial_length(const EsFusedNet *net, int block);

// Evaluation: leaders of the instances, and who computes where (EsFusedSharing).
void es_fused_share(EsStream *stream, const EsFusedArguments *args);

// Prepares a run in one launch: packs the weights of all hosts and of the seeds that instances run,
// in the order that convolutions read; in training also draws the images of each instance.
void es_fused_prepare(EsStream *stream, EsDtype precision, const EsFusedArguments *args);

// Block b: the output of block b - 1 (or the images) through the convolution, into memory[b].raw;
// in training the statistics of the batch.
void es_fused_forward(EsStream *stream, EsDtype precision, const EsFusedArguments *args, int block,
                      int images_per_chunk);

// Average, linear layer, loss; in training the gradient down to the features, and sums for the last
// block's norm where no seed mixes there.
void es_fused_classifier(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                         int images_per_chunk);

// wgrad of block b, and dgrad into memory[b - 1].d_out, with the sums for
// that block's norm where no seed mixes there.
void es_fused_backward(EsStream *stream, EsDtype precision, const EsFusedArguments *args, int block,
                       int images_per_chunk);

// Partial sums of the weights' gradients, of the host and of the seeds that instances run (of a
// gate where mode is GATE), summed in their order, in double, into the gradient slab; one launch.
void es_fused_reduce(EsStream *stream, const EsFusedArguments *args);

// --- slots ---

// Seeds in a fused step: the launchers for the work at a slot, and the sizes they need.
//
// An instance whose slot mixes its seed in (EsBlendMode from ADD on) has the slot's output in
// memory of its own; its gradient goes back to the slot's input. An instance that incubates its
// seed only learns the seed's parameters. Thread blocks of all other instances leave at once, so
// one launch per slot and direction serves every instance.
//
// In a training step: forward of each slot after its block's convolution; backward of each slot
// before its block's, slot after the pool first. Packing their weights and summing their gradients
// goes with the host's (fused_kernels.h).

// Bytes of packed weights of the largest blueprint at a place, forward and for input gradients.
size_t es_fused_seed_packed_bytes(const EsFusedPlace *place, EsDtype precision);

// Floats of a chunk's partial sums of the gradients of a place's gate and seed.
int es_fused_seed_partial_length(const EsFusedPlace *place);

// Shared memory of the kernels with n_images per chunk.
size_t es_fused_seed_forward_bytes(const EsFusedPlace *place, EsDtype precision, int n_images);
size_t es_fused_seed_backward_bytes(const EsFusedPlace *place, EsDtype precision, int n_images);

// The limits within which images are shared out.
typedef struct EsFusedLimits {
    int64_t n_instances, n_images; // of an instance
    int n_sms;                     // multiprocessors
    size_t shared_limit;           // bytes of shared memory of a thread block
} EsFusedLimits;

// Images per chunk (es_instance_begin) of both directions: as many as let three thread blocks
// (backward two) share a multiprocessor, else fewer blocks; fewer images where chunks would leave
// more than every other multiprocessor idle. UNSUPPORTED when one image is too many.
EsStatus es_fused_seed_images(const EsFusedPlace *place, EsDtype precision,
                              const EsFusedLimits *limits, int *forward_images,
                              int *backward_images);

// Instances that mix: y = blend(h, seed(h)), into memory[b].middle (before the pool; pooled where
// the block has one) or memory[b].out (after it).
void es_fused_seed_forward(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                           int slot, int images_per_chunk);

// Instances whose seed runs: gradients of its parameters, a chunk's partial sums each, into
// seed_partials[slot], [R] [n_seed_chunks[slot] = ceil(N /
// images_per_chunk)][es_fused_seed_partial_length]. Where it mixes, the gradient of the slot's
// input too: memory[b].d_relu (before the pool) or d_middle (after it), and the sums for the
// block's batch norm unless another mixing slot of the block lies before this one.
void es_fused_seed_backward(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                            int slot, int images_per_chunk);

ES_EXTERN_C_END

#endif
