// Assembles an update's report: statistics of the rows before it, and the contribution of each
// pass.
//
//     es_ppo_report_begin(&report, n_heads);
//     es_ppo_report_rows(&report, rollout, normalised_advantage, value_scale, scratch);
//     es_ppo_report_pass(&report, n_heads, &loss, &step);      // once per step taken
//     es_ppo_report_end(&report, n_heads);
#ifndef ES_LEARNING_PPO_REPORT_H
#define ES_LEARNING_PPO_REPORT_H

#include "learning/ppo_rules.h"

ES_EXTERN_C_BEGIN

// Count, mean, deviation (population) and extremes of the valid rows of an array.
typedef struct EsRowStatistics {
    int64_t n;
    double mean, deviation, lowest, highest;
    double skew, kurtosis; // kurtosis minus 3; NaN when all are equal
} EsRowStatistics;

// values [n_rows], each times `scale`; in the order of rows. NaN everywhere when no row is valid.
EsRowStatistics es_row_statistics(int64_t n_rows, const float *values, double scale,
                                  const uint8_t *is_valid);

// Everything NaN or 0.
void es_ppo_report_begin(EsPpoReport *report, int n_heads);

// Statistics of the rows, for a rollout that es_rollout_finish went over with `value_scale`.
// advantage [R] normalised; scratch [R].
void es_ppo_report_rows(EsPpoReport *report, const EsRollout *rollout, const float *advantage,
                        double value_scale, double *scratch);

// Compares predictions with targets, at the first pass; outputs have an auxiliary one.
EsPpoPair es_ppo_compare_targets(const EsPpoBatch *batch, const EsOutputs *outputs);
void es_ppo_report_auxiliary(EsPpoReport *report, const EsPpoPair *pair);

// A pass whose step was taken.
void es_ppo_report_pass(EsPpoReport *report, int n_heads, const EsPpoLoss *loss,
                        const EsStepReport *step);

// Sums over the passes become means.
void es_ppo_report_end(EsPpoReport *report, int n_heads);

ES_EXTERN_C_END

#endif
