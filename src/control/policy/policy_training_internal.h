// Training a policy network on either device: the report of a step and the choice of a row, written
// once for both, and the launchers that move rows of a rollout into the inputs of the training plan
// in device memory. None of them allocates, waits or reads device memory.
#ifndef ES_CONTROL_POLICY_TRAINING_INTERNAL_H
#define ES_CONTROL_POLICY_TRAINING_INTERNAL_H

#include <math.h>
#include <string.h>

#include "control/policy/policy_network_internal.h"
#include "control/rules/sampling_rules.h"

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

// Inputs of the plan, in the order of shards (es_output_row); memory of either device. Version 2
// alone has those from `slots` on.
typedef struct EsPolicyRowInputs {
    float *features;     // [.., D], version 2: of the host [.., 39]
    int32_t *blueprints; // [.., S]
    uint8_t *is_reset;
    float *op; // one-hot; rows that were never filled may hold any number: they choose none
    int is_set, n_slots;
    float *slots;               // [.., S, 66]
    float *slot;                // one-hot of the slot that was drawn      [.., S]
    float *share;               // weights of slots in their mean          [.., S]
    float *variant[ES_N_HEADS]; // one-hots of variants, NULL: one alone   [.., V], slot: [.., S, V]
} EsPolicyRowInputs;

// One-hots of version 2 for row `to`: the slot that was drawn, and the variants of heads that were
// read. All are written; an operation that reads no slot leaves them 0, and so does a value out of
// range.
static inline ES_HOST_DEVICE void es_policy_set_choice(const EsPolicyRowInputs *inputs, int64_t to,
                                                       int32_t op, int32_t slot) {
    int S = inputs->n_slots;
    int is_read = op >= 0 && op < ES_N_GROWTH_OPS && slot >= 0 && slot < S &&
                  es_head_matters(op, ES_HEAD_SLOT);
    for (int s = 0; s < S; s++) {
        inputs->slot[to * S + s] = is_read && s == slot ? 1.0f : 0.0f;
    }
    for (int head = 0; head < ES_HEAD_OP; head++) {
        float *variants = inputs->variant[head];
        int n = es_head_variants(head), variant = is_read ? es_head_variant(head, op) : -1;
        int n_rows = head == ES_HEAD_SLOT ? S : 1; // every slot was scored for the operation
        for (int i = 0; variants != NULL && i < n_rows * n; i++) {
            variants[to * n_rows * n + i] = i % n == variant ? 1.0f : 0.0f;
        }
    }
}

#define ES_POLICY_ABSENT (-1) // blueprint of a slot that a row's host lacks

// Blueprints and shares of version 2 for row `to`, from the ids [S] of a rollout's row. Slots that
// the row's host lacks (es_policy_training_collect) have no blueprint: theirs becomes that of the
// first slot, and their weight in the mean 0; those that are there share it.
static inline ES_HOST_DEVICE void es_policy_set_shares(const EsPolicyRowInputs *inputs, int64_t to,
                                                       const int32_t *ids) {
    int S = inputs->n_slots, n = 0;
    for (int s = 0; s < S; s++) {
        n += ids[s] != ES_POLICY_ABSENT;
    }
    for (int s = 0; s < S; s++) {
        int is_there = ids[s] != ES_POLICY_ABSENT;
        inputs->share[to * S + s] = is_there ? 1.0f / (float)n : 0.0f;
        inputs->blueprints[to * S + s] = ids[is_there ? s : 0];
    }
}

ES_EXTERN_C_BEGIN

void es_policy_scatter_cuda(EsStream *stream, const EsRolloutView *rows, int64_t shard_envs,
                            const EsPolicyRowInputs *inputs);

// Norms of all parameters and of each part of them. part_of, sum_squares, n_nonfinite [n_tensors].
void es_policy_report_cuda(EsStream *stream, int n_tensors, const int32_t *part_of,
                           const double *sum_squares, const int32_t *n_nonfinite,
                           EsStepReport *report);

ES_EXTERN_C_END

#endif
