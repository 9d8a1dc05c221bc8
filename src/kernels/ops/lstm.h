// One LSTM layer over a sequence, with resets. Gate order input, forget, cell, output (i, f, g, o).
//
// x [E, T, N, I]; reset u8 [E, T, N] (nullable): where it is 1 the state before step t is 0;
// h_start, c_start [E, N, D] (nullable = 0); gates [E, T, N, 4D] after their activations; c, y [E,
// T, N, D]. g_t = W_x x_t + b_x + W_h h_{t-1} + b_h;  c_t = f c_{t-1} + i g;  y_t = h_t = o
// tanh(c_t). backward: d_gates [E, T, N, 4D] is scratch and result (before the activations); d_x
// (nullable) as x; d_h_start, d_c_start nullable; d_weights as the weights, both biases get the
// same gradient. The gradient stops at a reset.
#ifndef ES_KERNELS_LSTM_H
#define ES_KERNELS_LSTM_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_LSTM_KERNELS(X) \
    X(lstm_forward, (EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset, EsIn h_start, EsIn c_start, EsOut gates, EsOut c, EsOut y)) \
    X(lstm_backward, (EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset, EsIn h_start, EsIn c_start, EsIn gates, EsIn c, EsIn y, EsIn d_y, EsOut d_gates, EsOut d_x, EsOut d_h_start, EsOut d_c_start, const EsLstmWeights *d_weights))
// clang-format on

#endif
