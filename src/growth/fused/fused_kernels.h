// The launchers of a fused step, in the order in which fused_step.c calls them. All read the
// arguments when they are called and queue work on the stream; none allocates or waits.
#ifndef ES_GROWTH_FUSED_KERNELS_H
#define ES_GROWTH_FUSED_KERNELS_H

#include "growth/fused/fused_net.h"

ES_EXTERN_C_BEGIN

// Shared memory that a block of threads may have on this device.
EsStatus es_fused_shared_limit(const EsDevice *device, size_t *bytes);

// Bytes of one environment's packed weights; fills packed_forward and packed_backward of the
// blocks.
size_t es_fused_pack_layout(EsFusedNet *net, EsDtype precision);

// Shared memory of a kernel with so many images per part.
size_t es_fused_forward_bytes(const EsFusedNet *net, EsDtype precision, int block, int n_images);
size_t es_fused_head_bytes(const EsFusedNet *net, EsDtype precision, int n_images);
size_t es_fused_backward_bytes(const EsFusedNet *net, EsDtype precision, int block, int n_images);

// Floats of one part of weight_parts; block n_blocks is the head.
int es_fused_part_length(const EsFusedNet *net, int block);

// Evaluation: leaders of the rows, and who computes where (EsFusedSharing).
void es_fused_share(EsStream *stream, const EsFusedArguments *args);

// What a run needs that follows from weights and numbers alone, in one launch: weights of all hosts
// and of the seeds that rows run, in the order that convolutions read; in training which images the
// rows take.
void es_fused_prepare(EsStream *stream, EsDtype precision, const EsFusedArguments *args);

// Block b: what block b - 1 hands on (or the images) through the convolution, into memory[b].raw;
// in training the statistics of the batch.
void es_fused_forward(EsStream *stream, EsDtype precision, const EsFusedArguments *args, int block,
                      int images_per_part);

// Average, linear layer, loss; in training the gradient down to the features, and sums for the last
// block's norm where no seed mixes there.
void es_fused_head(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                   int images_per_part);

// Gradients of block b's weights, and of what it read: into memory[b - 1].d_out, with the sums for
// that block's norm where no seed mixes there.
void es_fused_backward(EsStream *stream, EsDtype precision, const EsFusedArguments *args, int block,
                       int images_per_part);

// Parts of the weights' gradients, of the host and of the seeds that rows run (of a gate where mode
// is GATE), summed in their order, in double, into the gradient slab; one launch.
void es_fused_reduce(EsStream *stream, const EsFusedArguments *args);

ES_EXTERN_C_END

#endif
