// Blending in a slot of the host's activation with its seed's, and the seed's input.
//
// h, seed, y and their gradients [E, N, ...]; gate [E, N] in [0, 1] (nullable); alpha f32 [E]; mode
// i32 [E] holds values of EsBlendMode. Both are read on the device, so that a change of stage
// rebuilds nothing. With s = seed, G = d_y, a = alpha taken into [0, 1]:
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
//
// Exact: a = 0 (or e = 0) gives h bit for bit in every mode, a = 1 (or e = 1) gives s in ADD and
// GATE; at a = 0 seed is not read.
#ifndef ES_KERNELS_BLEND_H
#define ES_KERNELS_BLEND_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_BLEND_KERNELS(X) \
    X(blend_forward, (EsStream *s, EsIn h, EsIn seed, EsIn gate, EsIn alpha, EsIn mode, EsOut y)) \
    X(blend_backward, (EsStream *s, EsIn h, EsIn seed, EsIn gate, EsIn alpha, EsIn mode, EsIn d_y, EsOut d_h, EsOut d_seed, EsOut d_gate)) \
    X(seed_input_backward, (EsStream *s, EsIn mode, EsIn d_x, EsOut d_h))
// clang-format on

#endif
