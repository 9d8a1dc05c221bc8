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
//                drawn per (episode, step, n). On the CPU images may be f32 instead, any number of
//                channels: rows that are normalised already, as images of one pixel. They are
//                copied as they are, and the options are ignored.
// gather_labels  y i32 [E, N] = labels u16 [M] by index.
// count_steps    step[0] += 1, the last operation of a training step.
// episode i32 [E], step i32 [1], all in device memory, so that a captured step needs no new
// arguments.
#ifndef ES_KERNELS_GATHER_H
#define ES_KERNELS_GATHER_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_GATHER_KERNELS(X) \
    X(gather_order, (EsStream *s, const EsSampleOrder *order, EsIn episode, EsIn step, EsOut index)) \
    X(gather_images, (EsStream *s, const EsGatherOptions *options, EsIn images, EsIn index, EsIn episode, EsIn step, EsOut y)) \
    X(gather_labels, (EsStream *s, EsIn labels, EsIn index, EsOut y)) \
    X(count_steps, (EsStream *s, EsOut step))
// clang-format on

#endif
