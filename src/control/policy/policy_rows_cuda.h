// Launchers that move rows of a rollout into the inputs of a policy network's training plan, and
// the norms of a step into a report, in device memory. None of them allocates, waits or reads
// device memory.
#ifndef ES_CONTROL_POLICY_ROWS_CUDA_H
#define ES_CONTROL_POLICY_ROWS_CUDA_H

#include "control/policy/policy_network.h"

ES_EXTERN_C_BEGIN

// Inputs of the plan, in the order of shards (es_output_row); device memory.
typedef struct EsPolicyRowInputs {
    float *features;     // [.., D]
    int32_t *blueprints; // [.., S]
    uint8_t *is_reset;
    float *op; // one-hot; rows that were never filled may hold any number: they choose none
} EsPolicyRowInputs;

void es_policy_scatter_cuda(EsStream *stream, const EsRolloutView *rows, int64_t shard_envs,
                            const EsPolicyRowInputs *inputs);

// Norms of all parameters and of each part of them. part_of, sum_squares, n_nonfinite [n_tensors].
void es_policy_report_cuda(EsStream *stream, int n_tensors, const int32_t *part_of,
                           const double *sum_squares, const int32_t *n_nonfinite,
                           EsStepReport *report);

ES_EXTERN_C_END

#endif
