// The two passes of the LSTM layer, the same for lstm_cpu.c and lstm_simd.c, which include this as
// their end: each has tiles of its own (Steps, run_steps, forward_tile, backward_tile,
// sum_d_recurrent, and their sizes).
#ifndef ES_KERNELS_LSTM_PASSES_H
#define ES_KERNELS_LSTM_PASSES_H

#include "kernels/kernel_variant.h"

void ES_CPU_KERNEL(lstm_forward)(EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset,
                                 EsIn h_start, EsIn c_start, EsOut gates, EsOut c, EsOut y) {
    EsTensor x_rows = es_lstm_merge_steps(x), gate_rows = es_lstm_merge_steps(gates);
    ES_CPU_KERNEL(linear_forward)(s, &x_rows, &weights->input, &weights->bias_input, &gate_rows);
    EsLstmJob job = es_lstm_job(weights, x, reset, h_start, c_start, gates, c, y);
    Steps steps = {.job = &job,
                   .run_tile = forward_tile,
                   .first = 0,
                   .last = job.T - 1,
                   .direction = 1,
                   .units_per_tile = HIDDEN_TILE};
    run_steps(s, &steps);
}

void ES_CPU_KERNEL(lstm_backward)(EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset,
                                  EsIn h_start, EsIn c_start, EsIn gates, EsIn c, EsIn y, EsIn d_y,
                                  EsOut d_gates, EsOut d_x, EsOut d_h_start, EsOut d_c_start,
                                  const EsLstmWeights *d_weights) {
    EsLstmJob job = es_lstm_job(weights, x, reset, h_start, c_start, gates, c, y);
    job.d_y = d_y;
    job.d_gates = d_gates;
    job.d_recurrent = &d_weights->recurrent;
    job.d_h_start = d_h_start;
    job.d_c_start = d_c_start;
    job.n_row_blocks = (4 * job.D + ROWS - 1) / ROWS;
    Steps steps = {.job = &job,
                   .run_tile = backward_tile,
                   .first = job.T - 1,
                   .last = d_h_start != NULL ? -1 : 0,
                   .direction = -1,
                   .units_per_tile = COLUMNS};
    run_steps(s, &steps);
    for (int64_t e = 0; e < job.E && job.T == 0; e++) { // no step writes them
        es_lstm_clear_start(&job, d_h_start, e);
        es_lstm_clear_start(&job, d_c_start, e);
    }

    EsTensor x_rows = es_lstm_merge_steps(x), d_gate_rows = es_lstm_merge_steps(d_gates);
    ES_CPU_KERNEL(linear_backward_weight)
    (s, &x_rows, &d_gate_rows, &d_weights->input, &d_weights->bias_input);
    es_lstm_copy_bias_gradient(&job, d_weights);
    es_stream_parallel(s, job.E * job.n_row_blocks, sum_d_recurrent, &job);
    if (d_x != NULL) {
        EsTensor d_x_rows = es_lstm_merge_steps(d_x);
        ES_CPU_KERNEL(linear_backward_input)(s, &weights->input, &d_gate_rows, &d_x_rows);
    }
}

#endif
