// Every operation of the engine, once. Each family's header lists its operations (name, parameters)
// under its contract; the CPU and CUDA tables are generated from their union, so an operation that
// one of them lacks fails at link time under its own name.
//
// Conventions for all of them:
// - The first parameter is the stream. Axis 0 is E, the number of independent environments, and one
//   call serves all of them. Shapes are read off the tensors and trusted: graph building checks
//   them.
// - Inner axes are contiguous; axis 0 of parameters (weights, biases, gamma, beta, tables), of
//   their gradients and of statistics (mean, inv_std, running values) has a stride of its own,
//   because those of one environment stand together in a slab [E, P]: environment e begins at
//   e * tensor->stride[0] elements. Operands of matmul and the slabs of slab and optimiser are such
//   tensors too. Activations, and rank-1 tensors [E], are contiguous; the CPU kernels read the
//   stride of every tensor (env_data.h) but in elementwise and activation (whole tensors).
// - Parameters, statistics and losses are f32. Activations (x, y, d_x, d_y, logits) are f32 on the
//   CPU; on CUDA f32 or bf16, all of one call alike, with f32 accumulation and with weights rounded
//   to bf16 where activations are bf16.
// - Gradients are written (=), not accumulated. Outputs never alias inputs unless the contract
//   allows it. A parameter marked "nullable" may be NULL.
// - Kernels return nothing; the device keeps a launch failure.
//
// Letters: E environments, N images or rows, C channels (I in, O out), H W height and width, K
// kernel size or classes, T time, D features, P parameters of one environment, S spans.
#ifndef ES_KERNELS_KERNEL_LIST_H
#define ES_KERNELS_KERNEL_LIST_H

#include "kernels/ops/activation.h"
#include "kernels/ops/batchnorm.h"
#include "kernels/ops/blend.h"
#include "kernels/ops/channel_scale.h"
#include "kernels/ops/concat.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/depthwise.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/gather.h"
#include "kernels/ops/groupnorm.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/lstm.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/norm_mix.h"
#include "kernels/ops/optimiser.h"
#include "kernels/ops/pool.h"
#include "kernels/ops/set_pool.h"
#include "kernels/ops/slab.h"

// families that the CPU also has for wider vectors (kernel_variant.h), and the rest
#define ES_WIDE_KERNEL_LIST(X)                                                                     \
    ES_ELEMENTWISE_KERNELS(X)                                                                      \
    ES_MATMUL_KERNELS(X)                                                                           \
    ES_LINEAR_KERNELS(X)                                                                           \
    ES_LAYERNORM_KERNELS(X)                                                                        \
    ES_ACTIVATION_KERNELS(X)                                                                       \
    ES_LSTM_KERNELS(X)                                                                             \
    ES_OPTIMISER_KERNELS(X)

#define ES_PLAIN_KERNEL_LIST(X)                                                                    \
    ES_CONCAT_KERNELS(X)                                                                           \
    ES_CONV2D_KERNELS(X)                                                                           \
    ES_DEPTHWISE_KERNELS(X)                                                                        \
    ES_BATCHNORM_KERNELS(X)                                                                        \
    ES_GROUPNORM_KERNELS(X)                                                                        \
    ES_POOL_KERNELS(X)                                                                             \
    ES_SET_POOL_KERNELS(X)                                                                         \
    ES_BLEND_KERNELS(X)                                                                            \
    ES_CHANNEL_SCALE_KERNELS(X)                                                                    \
    ES_NORM_MIX_KERNELS(X)                                                                         \
    ES_CROSS_ENTROPY_KERNELS(X)                                                                    \
    ES_EMBEDDING_KERNELS(X)                                                                        \
    ES_DROPOUT_KERNELS(X)                                                                          \
    ES_SLAB_KERNELS(X)                                                                             \
    ES_GATHER_KERNELS(X)

#define ES_KERNEL_LIST(X)                                                                          \
    ES_WIDE_KERNEL_LIST(X)                                                                         \
    ES_PLAIN_KERNEL_LIST(X)

#endif
