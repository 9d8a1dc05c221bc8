// Every operation of the engine, once. Each family lists its operations (name, parameters) under
// its contract; the CPU and CUDA tables are generated from their union, so an operation that one of
// them lacks fails at link time under its own name.
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

#include "kernels/kernel_types.h"

// --- activation ---

// ReLU, tanh, sigmoid, element by element; y may be x, d_x may be d_y.
//
// The gradient is taken from the result: relu d_x = d_y where y > 0, else 0 (0 at exactly 0); tanh
// d_y (1 - y^2); sigmoid d_y y (1 - y). relu of NaN is NaN, so that divergence stays visible. All
// tensors are contiguous over all axes, E too.

// clang-format off
#define ES_ACTIVATION_KERNELS(X) \
    X(activation_forward, (EsStream *s, EsActivation kind, EsIn x, EsOut y)) \
    X(activation_backward, (EsStream *s, EsActivation kind, EsIn y, EsIn d_y, EsOut d_x))
// clang-format on

// --- batchnorm ---

// Batch normalisation over (N, H, W) of each channel, in pieces, because each of its sums is a
// barrier over the batch.
//
// x, y [E, N, C, H, W] (H = W = 1 for rows); all the rest [E, C].
// statistics      mean, inv_std = 1/sqrt(biased variance + epsilon) of this batch; and, where
//                 running_mean is not NULL, running = (1 - momentum) running + momentum * (mean,
//                 unbiased variance). With one value per channel the unbiased variance is taken as
//                 the biased one.
// from_running    mean, inv_std from the running values, for evaluation.
// apply           y = (x - mean) inv_std gamma + beta; y may be x.
// backward_sums   d_beta = sum d_y, d_gamma = sum d_y xhat, with xhat = (x - mean) inv_std.
// backward_input  d_x = gamma inv_std (d_y - d_beta / n - xhat d_gamma / n), n = N H W; training
//                 mode. d_x may be d_y.
// Sums are taken in double, in a fixed order.

// clang-format off
#define ES_BATCHNORM_KERNELS(X) \
    X(batchnorm_statistics, (EsStream *s, EsNormOptions options, EsIn x, EsOut mean, EsOut inv_std, EsOut running_mean, EsOut running_variance)) \
    X(batchnorm_from_running, (EsStream *s, EsNormOptions options, EsIn running_mean, EsIn running_variance, EsOut mean, EsOut inv_std)) \
    X(batchnorm_apply, (EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn beta, EsOut y)) \
    X(batchnorm_backward_sums, (EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn d_y, EsOut d_gamma, EsOut d_beta)) \
    X(batchnorm_backward_input, (EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn d_gamma, EsIn d_beta, EsIn d_y, EsOut d_x))
// clang-format on

// --- blend ---

// Blending in a slot of the host's activation with its seed's, and the seed's input.
//
// h, seed, y and their gradients [E, N, ...]; gate [E, N] in [0, 1] (nullable); alpha f32 [E]; mode
// i32 [E] holds values of EsBlendMode, perhaps with bits ES_BLEND_CLOSED_*. Both are read on the
// device, so that a change of stage rebuilds nothing. With s = seed, G = d_y, a = alpha taken into
// [0, 1]:
//
// NONE      y = h. d_h = G, d_seed = 0, d_gate = 0. seed and gate are not read.
// INCUBATE  y = h. d_h = G, d_seed = G, d_gate = 0. seed and gate are not read: a NaN stays there.
// ADD       y = h + a (s - h). d_h = (1 - a) G, d_seed = a G, d_gate = 0.
// GATE      ADD with e = a gate[n] in place of a. d_gate[n] = a sum of G (s - h) over image n.
//           Without a gate tensor it is ADD.
// MULTIPLY  y = h (1 + a u) with u = tanh(s - h). d_seed = G h a (1 - u^2),
//           d_h = G (1 + a u) - d_seed, d_gate = 0.
// Any other mode counts as NONE.
//
// d_h leaves out the gradient that reaches the host through the seed's own input, which is h as
// well: it comes back through seed_input_backward, d_h = d_x, and 0 in NONE and INCUBATE, where the
// seed must not move the host. d_h, d_seed and d_gate of blend_backward are nullable.
// CLOSED_HOST makes d_h of blend_backward 0, CLOSED_SEED d_seed and d_gate: what is left is the
// part of the gradient that takes the other way.
//
// Exact: a = 0 (or e = 0) gives h bit for bit in every mode, a = 1 (or e = 1) gives s in ADD and
// GATE; at a = 0 seed is not read.

// clang-format off
#define ES_BLEND_KERNELS(X) \
    X(blend_forward, (EsStream *s, EsIn h, EsIn seed, EsIn gate, EsIn alpha, EsIn mode, EsOut y)) \
    X(blend_backward, (EsStream *s, EsIn h, EsIn seed, EsIn gate, EsIn alpha, EsIn mode, EsIn d_y, EsOut d_h, EsOut d_seed, EsOut d_gate)) \
    X(seed_input_backward, (EsStream *s, EsIn mode, EsIn d_x, EsOut d_h))
// clang-format on

// --- channel scale ---

// Every channel of every image times a number of its own, as squeeze-and-excite wants it.
//
// x, y, d_x, d_y [E, N, C, H, W]; w, d_w [E, N, C]:  y = x w;  d_x = d_y w;  d_w = sum over H W of
// d_y x, in double. d_x and d_w are nullable.

// clang-format off
#define ES_CHANNEL_SCALE_KERNELS(X) \
    X(channel_scale_forward, (EsStream *s, EsIn x, EsIn w, EsOut y)) \
    X(channel_scale_backward, (EsStream *s, EsIn x, EsIn w, EsIn d_y, EsOut d_x, EsOut d_w))
// clang-format on

// --- concat ---

// Rows of several tensors side by side.
//
// x[i] [E, ..., D_i] for i < n, 1 <= n <= ES_CONCAT_MAX, equal in all axes but the last;
// y [E, ..., D] with D the sum of the D_i, in the order of i. forward: each row of y is the rows of
// the x[i] one after the other. backward, once per input: d_x = columns [first, first + D_i) of
// d_y. Values are copied, no bit changes.

#define ES_CONCAT_MAX 12

// clang-format off
#define ES_CONCAT_KERNELS(X) \
    X(concat_forward, (EsStream *s, int n, const EsIn *x, EsOut y)) \
    X(concat_backward, (EsStream *s, int64_t first, EsIn d_y, EsOut d_x))
// clang-format on

// --- conv2d ---

// Convolution with stride 1 and zero padding K/2, odd square kernel (1, 3, 5, 7), one weight set
// per environment.
//
// x [E, N, I, H, W], weight [E, O, I, K, K], bias [E, O] (nullable), y [E, N, O, H, W]:
// y[o, r, c] = bias[o] + sum over i, u, v of weight[o, i, u, v] * x[i, r + u - K/2, c + v - K/2].
// d_weight sums over images and positions; d_bias (nullable) sums d_y.

// clang-format off
#define ES_CONV2D_KERNELS(X) \
    X(conv2d_forward, (EsStream *s, EsIn x, EsIn weight, EsIn bias, EsOut y)) \
    X(conv2d_backward_input, (EsStream *s, EsIn weight, EsIn d_y, EsOut d_x)) \
    X(conv2d_backward_weight, (EsStream *s, EsIn x, EsIn d_y, EsOut d_weight, EsOut d_bias))
// clang-format on

// --- cross entropy ---

// Softmax cross-entropy, mean over rows, with the count of correct rows and of labels out of range.
//
// logits [E, N, K], labels i32 [E, N]; loss f32 [E]; n_correct, n_invalid i32 [E].
// With label smoothing s in 0..1, 0 = none:
//
//     loss     = (1/N) sum of (logsumexp(logits) - (1 - s) logits[label] - s mean(logits))
//     d_logits = (softmax - (1 - s) onehot - s / K) / N * d_loss[e]
//
// A row is correct when its label is the first largest logit. A label outside [0, K) is counted in
// n_invalid; its row adds nothing to loss, n_correct or the gradient (N stays). d_loss f32 [E] is
// nullable (= 1).

// clang-format off
#define ES_CROSS_ENTROPY_KERNELS(X) \
    X(cross_entropy_forward, (EsStream *s, float smoothing, EsIn logits, EsIn labels, EsOut loss, EsOut n_correct, EsOut n_invalid)) \
    X(cross_entropy_backward, (EsStream *s, float smoothing, EsIn logits, EsIn labels, EsIn d_loss, EsOut d_logits))
// clang-format on

// --- depthwise ---

// Depthwise convolution: channel c of y depends on channel c of x alone. Stride 1, zero padding
// K/2, odd square kernel.
//
// x, y [E, N, C, H, W], weight [E, C, K, K].

// clang-format off
#define ES_DEPTHWISE_KERNELS(X) \
    X(depthwise_forward, (EsStream *s, EsIn x, EsIn weight, EsOut y)) \
    X(depthwise_backward_input, (EsStream *s, EsIn weight, EsIn d_y, EsOut d_x)) \
    X(depthwise_backward_weight, (EsStream *s, EsIn x, EsIn d_y, EsOut d_weight))
// clang-format on

// --- dropout ---

// Dropout: each element is dropped with the probability, the rest divided by (1 - probability).
//
// x, y of one shape [E, ...]; y may be x. The mask is a pure function of (seed, episode[e], step,
// layer, element), so the backward pass is the same call on d_y. episode i32 [E], step i32 [1],
// both in device memory. Element j of environment e uses word j % 4 of es_random_draw(seed,
// episode[e], DROPOUT, step, (layer << 24) ^ (j / 4)) and is kept where the uniform is >=
// probability.

// clang-format off
#define ES_DROPOUT_KERNELS(X) \
    X(dropout, (EsStream *s, EsDropoutOptions options, EsIn episode, EsIn step, EsIn x, EsOut y))
// clang-format on

// --- elementwise ---

// Sums and conversions of whole tensors.
//
// add      y = a + b, all of one shape; y may be a or b.
// convert  y = x in y's dtype (f32 <-> bf16, round to nearest even); same count.
// All tensors are contiguous over all axes, E too.

// clang-format off
#define ES_ELEMENTWISE_KERNELS(X) \
    X(add, (EsStream *s, EsIn a, EsIn b, EsOut y)) \
    X(convert, (EsStream *s, EsIn x, EsOut y))
// clang-format on

// --- embedding ---

// Rows of a table by number.
//
// table [E, V, D], ids i32 [E, N], y [E, N, D]; n_invalid i32 [E] counts ids outside [0, V), whose
// rows are 0. d_table = for each id the sum of its rows of d_y, in row order; rows never named are
// 0; invalid ids are left out.

// clang-format off
#define ES_EMBEDDING_KERNELS(X) \
    X(embedding_forward, (EsStream *s, EsIn table, EsIn ids, EsOut y, EsOut n_invalid)) \
    X(embedding_backward, (EsStream *s, EsIn ids, EsIn d_y, EsOut d_table))
// clang-format on

// --- gather ---

// Batches out of a data set that stays in memory: bytes of images, or rows of numbers. The
// per-element rules are in gather_rules.h, shared by all devices.
//
// gather_order   index i32 [E, N]: which samples environment e takes at this step. Sample number q
// = step N + n belongs to pass
//                q / n_samples; each (episode, pass) walks its own permutation of [0, n_samples).
//                With S > 1 shares, episodes S g .. S g + S - 1 walk one permutation together: of
//                every S N samples each takes N, so that no two of them see the same one in a pass.
// gather_images  y f32 or bf16 [E, N, C, H, W] = (pixel / 255 - mean[c]) inv_std[c] of images u8
// [M, C, H, W], after a crop from
//                an image with a border (EsBorder), a horizontal flip, and an erased rectangle, all
//                drawn per (episode, step, n). Images may be f32 instead, any number of channels:
//                rows that are normalised already, as images of one pixel. They are copied as they
//                are (bf16: rounded), and the options are ignored.
// gather_labels  y i32 [E, N] = labels u16 [M] by index.
// count_steps    step[0] += 1, the last operation of a training step.
// episode i32 [E], step i32 [1], all in device memory, so that a captured step needs no new
// arguments.

// clang-format off
#define ES_GATHER_KERNELS(X) \
    X(gather_order, (EsStream *s, const EsSampleOrder *order, EsIn episode, EsIn step, EsOut index)) \
    X(gather_images, (EsStream *s, const EsGatherOptions *options, EsIn images, EsIn index, EsIn episode, EsIn step, EsOut y)) \
    X(gather_labels, (EsStream *s, EsIn labels, EsIn index, EsOut y)) \
    X(count_steps, (EsStream *s, EsOut step))
// clang-format on

// --- groupnorm ---

// Group normalisation: each image's channels in options.n_groups equal groups, normalised over (C /
// n_groups, H, W).
//
// x, y, d_x, d_y [E, N, C, H, W]; gamma, beta, d_gamma, d_beta [E, C]; mean, inv_std [E, N,
// n_groups]. y = (x - mean) inv_std gamma + beta, biased variance. backward gives d_x, d_gamma =
// sum d_y xhat, d_beta = sum d_y.

// clang-format off
#define ES_GROUPNORM_KERNELS(X) \
    X(groupnorm_forward, (EsStream *s, EsNormOptions options, EsIn x, EsIn gamma, EsIn beta, EsOut mean, EsOut inv_std, EsOut y)) \
    X(groupnorm_backward, (EsStream *s, EsNormOptions options, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn d_y, EsOut d_x, EsOut d_gamma, EsOut d_beta))
// clang-format on

// --- layernorm ---

// Layer normalisation over the last axis.
//
// x, y, d_x, d_y [E, N, D]; gamma, beta, d_gamma, d_beta [E, D]; mean, inv_std [E, N].
// y = (x - mean) inv_std gamma + beta, biased variance.

// clang-format off
#define ES_LAYERNORM_KERNELS(X) \
    X(layernorm_forward, (EsStream *s, EsNormOptions options, EsIn x, EsIn gamma, EsIn beta, EsOut mean, EsOut inv_std, EsOut y)) \
    X(layernorm_backward, (EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn d_y, EsOut d_x, EsOut d_gamma, EsOut d_beta))
// clang-format on

// --- linear ---

// Fully connected layer, one weight set per environment.
//
// x [E, N, I], weight [E, O, I], bias [E, O] (nullable), y [E, N, O]:  y = x weight^T + bias.
// d_x = d_y weight;  d_weight = d_y^T x;  d_bias = sum over N of d_y (d_bias nullable).

// clang-format off
#define ES_LINEAR_KERNELS(X) \
    X(linear_forward, (EsStream *s, EsIn x, EsIn weight, EsIn bias, EsOut y)) \
    X(linear_backward_input, (EsStream *s, EsIn weight, EsIn d_y, EsOut d_x)) \
    X(linear_backward_weight, (EsStream *s, EsIn x, EsIn d_y, EsOut d_weight, EsOut d_bias))
// clang-format on

// --- lstm ---

// One LSTM layer over a sequence, with resets. Gate order input, forget, cell, output (i, f, g, o).
//
// x [E, T, N, I]; reset u8 [E, T, N] (nullable): where it is 1 the state before step t is 0;
// h_start, c_start [E, N, D] (nullable = 0); gates [E, T, N, 4D] after their activations; c, y [E,
// T, N, D]. g_t = W_x x_t + b_x + W_h h_{t-1} + b_h;  c_t = f c_{t-1} + i g;  y_t = h_t = o
// tanh(c_t). backward: d_gates [E, T, N, 4D] is scratch and result (before the activations); d_x
// (nullable) as x; d_h_start, d_c_start nullable; d_weights as the weights, both biases get the
// same gradient. The gradient stops at a reset. Without a step (T = 0) all gradients are 0.

// clang-format off
#define ES_LSTM_KERNELS(X) \
    X(lstm_forward, (EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset, EsIn h_start, EsIn c_start, EsOut gates, EsOut c, EsOut y)) \
    X(lstm_backward, (EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset, EsIn h_start, EsIn c_start, EsIn gates, EsIn c, EsIn y, EsIn d_y, EsOut d_gates, EsOut d_x, EsOut d_h_start, EsOut d_c_start, const EsLstmWeights *d_weights))
// clang-format on

// --- matmul ---

// Batched matrix product: c[e] = op(a[e]) op(b[e]) + beta c[e].
//
// op(a) is [E, M, K], op(b) is [E, K, N], c is [E, M, N]; trans_a says that a is stored [E, K, M],
// trans_b that b is stored [E, N, K]. Each of the three has its own stride over E. With beta = 0
// the old c is not read. Sums over K run in a fixed order, for any number of threads. Bound against
// float64: |error| <= 2e-6 * sqrt(K) * max|a| * max|b| * 4.

// clang-format off
#define ES_MATMUL_KERNELS(X) \
    X(matmul, (EsStream *s, int trans_a, int trans_b, float beta, EsIn a, EsIn b, EsOut c))
// clang-format on

// --- norm mix ---

// An activation moved towards its normalised form by one learned number per environment.
//
// x, n, y and their gradients [E, ...], all of one shape; g, d_g [E, 1]. With t = tanh(g[e]):
// y = x + t (n - x);  d_x = (1 - t) d_y;  d_n = t d_y;  d_g = (1 - t^2) sum of d_y (n - x) over the
// environment, in double, in a fixed order. g = 0 gives y = x. d_x, d_n and d_g are nullable.

// clang-format off
#define ES_NORM_MIX_KERNELS(X) \
    X(norm_mix_forward, (EsStream *s, EsIn x, EsIn n, EsIn g, EsOut y)) \
    X(norm_mix_backward, (EsStream *s, EsIn x, EsIn n, EsIn g, EsIn d_y, EsOut d_x, EsOut d_n, EsOut d_g))
// clang-format on

// --- optimiser ---

// Optimiser steps over a whole slab of parameters, rates per environment.
//
// parameter, gradient, momentum, moment1, moment2 f32 [E, P], each with its own stride over E;
// rates f32 [E], contiguous. With lr the learning rate:
//
//     sgd   d = gradient + weight_decay p; buffer = momentum buffer + d; p -= lr buffer
//           (a zero buffer is the first step); by Nesterov p -= lr (d + momentum buffer).
//           lr follows its schedule (schedule_rules.h) where there is one
//     adam  n_steps i32 [E] is advanced first; moment1 = b1 moment1 + (1 - b1) g;
//           moment2 = b2 moment2 + (1 - b2) g^2;
//           p -= lr (moment1 / (1 - b1^n)) / (sqrt(moment2 / (1 - b2^n)) + epsilon)
//
// The _finite ones leave an environment as it is, its step count too, where n_nonfinite i32 [E, S]
// (slab_norms) has a count above 0.

// clang-format off
#define ES_OPTIMISER_KERNELS(X) \
    X(sgd_step, (EsStream *s, const EsSgdRates *rates, EsIn gradient, EsOut momentum, \
                 EsOut parameter)) \
    X(adam_step, (EsStream *s, EsAdamOptions options, EsIn learning_rate, EsIn gradient, \
                  EsOut moment1, EsOut moment2, EsOut n_steps, EsOut parameter)) \
    X(sgd_step_finite, (EsStream *s, const EsSgdRates *rates, EsIn n_nonfinite, EsIn gradient, \
                        EsOut momentum, EsOut parameter)) \
    X(adam_step_finite, (EsStream *s, EsAdamOptions options, EsIn learning_rate, EsIn n_nonfinite, \
                         EsIn gradient, EsOut moment1, EsOut moment2, EsOut n_steps, \
                         EsOut parameter))
// clang-format on

// --- pool ---

// Pooling: maximum or average of 2x2 windows with stride 2, or the average of the whole map.
//
// x [E, N, C, H, W]; y [E, N, C, H/2, W/2] (an odd last row or column is left out, its gradient is
// 0), GLOBAL y [E, N, C]. The gradient of a maximum goes to the first largest element in row order.

// clang-format off
#define ES_POOL_KERNELS(X) \
    X(pool_forward, (EsStream *s, EsPool kind, EsIn x, EsOut y)) \
    X(pool_backward, (EsStream *s, EsPool kind, EsIn x, EsIn d_y, EsOut d_x))
// clang-format on

// --- set pool ---

// Sets of rows: sums, broadcasts and maxima over the members of a set. Nothing depends on the order
// of the members but the rounding of sums.
//
// x [E, R, S, D]: R sets of S members of D features; w [E, R, S] weighs members (nullable: all 1)
// and has no gradient; y [E, R, D] is one row for each set.
//
//   set_sum        y[r] = scale * sum_s w[r, s] x[r, s], members added in their order
//   set_broadcast  x[r, s] = scale * w[r, s] y[r]: the gradient of set_sum, and the other way round
//   set_max        y[r] = max_s x[r, s], feature by feature; NaN of any member stays NaN
//
// Weights 1 and scale 1/S make set_sum a mean; weights that are one-hot select a member.
// set_max_backward gives d_y to the first member that is as large as y, 0 to the others; a feature
// that is NaN goes to none.
//
// Error bounds: set_broadcast two roundings, set_sum S of them, set_max none.

// clang-format off
#define ES_SET_POOL_KERNELS(X) \
    X(set_sum, (EsStream *s, float scale, EsIn x, EsIn w, EsOut y)) \
    X(set_broadcast, (EsStream *s, float scale, EsIn y, EsIn w, EsOut x)) \
    X(set_max_forward, (EsStream *s, EsIn x, EsOut y)) \
    X(set_max_backward, (EsStream *s, EsIn x, EsIn y, EsIn d_y, EsOut d_x))
// clang-format on

// --- slab ---

// Whole slabs in one call: norms, non-finite counts and clipping of the tensors in it, the sum of
// its rows, hashes of its rows, and copies of chosen environments.
//
// slab f32 [E, P], with its own stride over E, holds all parameters or all gradients of an
// environment; all the rest is contiguous. spans i64 [S, 2] = (offset, length) of each tensor in
// the slab; groups i32 [S] = the clip group of each span; sum_squares f64 [E, S]; n_nonfinite i32
// [E, S]; group_norm, max_norm f32 [E, G].
//
// slab_norms   sum of squares of the finite elements of each span (double, fixed order), and the
//              count of the others.
// slab_clip    group_norm[g] = sqrt(sum of sum_squares over the spans of g); the group's elements
//              are multiplied by min(1, max_norm[e, g] / (group_norm + 1e-6)); max_norm <= 0: no
//              clipping.
// tree_sum     y f32 [1, P] = the sum of the slab's rows, neighbours first: ((0 + 1) + (2 + 3)) +
//              ((4 + 5) + (6 + 7)), for any number of rows; absent rows are left out. The order is
//              the same everywhere, and so are the bits. y may be row 0 of the slab.
// slab_hash    hash i64 [E]: the bits of the unsigned sum over j of es_hash_word(j, bits of
//              slab[e, j]) (hash_rules.h), to compare the bits of two runs. Equal on every device.
// masked_copy  from, to f32 [E, P], mask u8 [E]: to[e] = from[e] where mask[e] is not 0; the other
//              environments are left alone.

// clang-format off
#define ES_SLAB_KERNELS(X) \
    X(slab_norms, (EsStream *s, EsIn slab, EsIn spans, EsOut sum_squares, EsOut n_nonfinite)) \
    X(slab_clip, (EsStream *s, EsIn spans, EsIn groups, EsIn sum_squares, EsIn max_norm, \
                  EsOut slab, EsOut group_norm)) \
    X(tree_sum, (EsStream *s, EsIn slab, EsOut y)) \
    X(slab_hash, (EsStream *s, EsIn slab, EsOut hash)) \
    X(masked_copy, (EsStream *s, EsIn mask, EsIn from, EsOut to))
// clang-format on

// --- the lists ---

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
