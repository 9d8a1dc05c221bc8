// Training a policy network on either device: the report of a step, written once for both, and the
// launchers that move rows of a rollout into the inputs of the training plan in device memory. None
// of them allocates, waits or reads device memory.
#ifndef ES_CONTROL_POLICY_TRAINING_INTERNAL_H
#define ES_CONTROL_POLICY_TRAINING_INTERNAL_H

#include <math.h>
#include <string.h>

#include "control/policy/policy_network_internal.h"

// One of each array per parameter tensor: part_of as es_policy_part_of says, the sum of squares of
// its gradient, the count of values in it that are not finite. Square roots are correctly rounded
// on both devices.
static inline ES_HOST_DEVICE void es_policy_fill_report(int n_tensors, const int32_t *part_of,
                                                        const double *sum_squares,
                                                        const int32_t *n_nonfinite,
                                                        EsStepReport *report) {
    double parts[ES_POLICY_PART_OTHER + 1] = {0}, total = 0.0;
    memset(report, 0, sizeof *report);
    for (int i = 0; i < n_tensors; i++) {
        parts[part_of[i]] += sum_squares[i];
        total += sum_squares[i];
        report->n_nonfinite += n_nonfinite[i];
    }
    report->gradient_norm = sqrt(total);
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        report->head_norm[head] = sqrt(parts[head]);
    }
    report->value_norm = sqrt(parts[ES_POLICY_PART_VALUE]);
    report->action_value_norm = sqrt(parts[ES_POLICY_PART_ACTION_VALUE]);
}

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
