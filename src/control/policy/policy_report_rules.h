// What a step of a policy network measured, by parts of the network. Written once for CPU and CUDA.
#ifndef ES_CONTROL_POLICY_REPORT_RULES_H
#define ES_CONTROL_POLICY_REPORT_RULES_H

#include <math.h>
#include <string.h>

#include "control/policy/policy_graph.h"

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

#endif
