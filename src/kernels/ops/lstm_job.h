// A pass of the LSTM layer over a sequence, as data for the CPU versions, and the
// addresses of its states. E environments, T steps, N rows, D units.
#ifndef ES_KERNELS_LSTM_JOB_H
#define ES_KERNELS_LSTM_JOB_H

#include <string.h>

#include "kernels/env_data.h"
#include "kernels/kernel_types.h"

typedef struct EsLstmJob {
    EsIn recurrent, bias_recurrent;
    EsIn reset;            // nullable
    EsIn h_start, c_start; // nullable
    EsOut gates, c, y;
    EsIn d_y;
    EsOut d_gates, d_recurrent;
    EsOut d_h_start, d_c_start; // nullable
    int64_t E, T, N, D;
    int64_t n_row_blocks; // pieces of d_recurrent
} EsLstmJob;

// Fills the part that both directions need; backward adds the gradients.
static inline EsLstmJob es_lstm_job(const EsLstmWeights *weights, EsIn x, EsIn reset, EsIn h_start,
                                    EsIn c_start, EsOut gates, EsOut c, EsOut y) {
    return (EsLstmJob){.recurrent = &weights->recurrent,
                       .bias_recurrent = &weights->bias_recurrent,
                       .reset = reset,
                       .h_start = h_start,
                       .c_start = c_start,
                       .gates = gates,
                       .c = c,
                       .y = y,
                       .E = x->dim[0],
                       .T = x->dim[1],
                       .N = x->dim[2],
                       .D = y->dim[3]};
}

// Both biases are added to the same sums: their gradients are equal.
static inline void es_lstm_copy_bias_gradient(const EsLstmJob *job,
                                              const EsLstmWeights *d_weights) {
    for (int64_t e = 0; e < job->E; e++) {
        memcpy(es_env_f32(&d_weights->bias_recurrent, e), es_env_f32(&d_weights->bias_input, e),
               (size_t)(4 * job->D) * sizeof(float));
    }
}

// Zeroes an environment's gradient [N, D] of a start; NULL is fine.
static inline void es_lstm_clear_start(const EsLstmJob *job, const EsTensor *d_start, int64_t e) {
    if (d_start != NULL) {
        memset(es_env_f32(d_start, e), 0, (size_t)(job->N * job->D) * sizeof(float));
    }
}

// [E, T, N, width] as [E, T N, width]; the environments stay where they are
static inline EsTensor es_lstm_merge_steps(const EsTensor *sequence) {
    const int64_t *dim = sequence->dim;
    EsTensor rows = es_tensor_view(sequence->data, sequence->dtype, sequence->device, 3,
                                   (int64_t[]){dim[0], dim[1] * dim[2], dim[3]});
    rows.stride[0] = sequence->stride[0];
    return rows;
}

// The state [D] of row n before step t, or NULL where it is 0. Resets are the caller's business.
static inline const float *es_lstm_state_before(const EsLstmJob *job, EsIn sequence, EsIn start,
                                                int64_t e, int64_t t, int64_t n) {
    if (t > 0) {
        return es_env_f32(sequence, e) + ((t - 1) * job->N + n) * job->D;
    }
    return start != NULL ? es_env_f32(start, e) + n * job->D : NULL;
}

// Address at which step t leaves the gradient of the cell before it: for t > 0 in the first quarter
// of the row of d_gates that step t - 1 will overwrite, before the first step in d_c_start; NULL
// when it is not wanted.
static inline float *es_lstm_d_cell_before(const EsLstmJob *job, int64_t e, int64_t t, int64_t n) {
    if (t > 0) {
        return es_env_f32(job->d_gates, e) + ((t - 1) * job->N + n) * 4 * job->D;
    }
    return job->d_c_start != NULL ? es_env_f32(job->d_c_start, e) + n * job->D : NULL;
}

#endif
