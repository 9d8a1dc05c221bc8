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

ES_EXTERN_C_END

#endif
