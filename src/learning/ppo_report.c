// Sums and statistics of an update's report.
#include "learning/ppo_report.h"

#include "base/statistics.h"

// below this spread of normalised advantages their shape is noise
#define LEAST_SHAPE_SPREAD 0.05
// explained variances divide by no less: returns; auxiliary targets
#define LEAST_RETURN_VARIANCE 1.0
#define LEAST_TARGET_VARIANCE 0.01

EsRowStatistics es_row_statistics(int64_t n_rows, const float *values, double scale,
                                  const uint8_t *is_valid) {
    EsRowStatistics s = {.lowest = es_math_infinity(), .highest = -es_math_infinity()};
    for (int64_t r = 0; r < n_rows; r++) {
        if (is_valid[r]) {
            double x = (double)values[r] * scale;
            s.n++;
            s.mean += x;
            s.lowest = ES_MIN(s.lowest, x);
            s.highest = ES_MAX(s.highest, x);
        }
    }
    if (s.n == 0) {
        double nan = es_math_nan();
        return (EsRowStatistics){0, nan, nan, nan, nan, nan, nan};
    }
    double n = (double)s.n, squares = 0, cubes = 0, fourths = 0;
    s.mean /= n;
    for (int64_t r = 0; r < n_rows; r++) {
        if (is_valid[r]) {
            double distance = (double)values[r] * scale - s.mean;
            squares += distance * distance;
            cubes += distance * distance * distance;
            fourths += distance * distance * distance * distance;
        }
    }
    double variance = squares / n;
    s.deviation = es_math_sqrt(variance);
    s.skew = variance > 0 ? cubes / n / (variance * s.deviation) : es_math_nan();
    s.kurtosis = variance > 0 ? fourths / n / (variance * variance) - 3 : es_math_nan();
    return s;
}

static void clear_heads(EsPpoReport *report, int n_heads, double x) {
    for (int h = 0; h < n_heads; h++) {
        report->head_entropy[h] = x;
        report->head_clip_fraction[h] = x;
        report->head_ratio_max[h] = x;
        report->head_learnable[h] = x;
        report->head_norm[h] = x;
    }
}

// Everything that passes add to.
static void clear_passes(EsPpoReport *report, double x) {
    report->policy_loss = report->value_loss = x;
    report->action_value_loss = report->auxiliary_loss = x;
    report->entropy = report->floor_penalty = x;
    report->clip_fraction = report->clip_above = report->clip_below = x;
    report->ratio_mean = report->ratio_std = report->ratio_min = report->ratio_max = x;
    report->log_probability_min = report->log_probability_max = x;
    report->gradient_norm = report->gradient_spread = x;
    report->value_norm = report->action_value_norm = x;
}

void es_ppo_report_begin(EsPpoReport *report, int n_heads) {
    double nan = es_math_nan();
    *report = (EsPpoReport){0};
    clear_passes(report, nan);
    clear_heads(report, n_heads, nan);
    report->kl_divergence = nan;
    report->value_mean = report->value_std = report->value_min = report->value_max = nan;
    report->return_mean = report->return_std = report->return_skew = nan;
    report->return_p10 = report->return_p50 = report->return_p90 = nan;
    report->advantage_mean = report->advantage_std = nan;
    report->advantage_skew = report->advantage_kurtosis = report->advantage_positive = nan;
    report->explained_variance = report->value_error = report->value_correlation = nan;
    report->bellman_error = report->td_mean = report->td_std = nan;
    report->auxiliary_explained = report->auxiliary_correlation = nan;
    report->forced_ratio = nan;
}

static double correlate(const EsPpoPair *pair) {
    return pair->xx > 0 && pair->yy > 0
               ? pair->xy / (es_math_sqrt(pair->xx) * es_math_sqrt(pair->yy))
               : es_math_nan();
}

// 1 - Var(x - y) / max(Var x, least), variances of the sample
static double explain(const EsPpoPair *pair, double least) {
    if (pair->n < 2) {
        return es_math_nan();
    }
    double variance = pair->xx / (pair->n - 1);
    return 1 - pair->ee / (pair->n - 1) / ES_MAX(variance, least);
}

static void report_critic(EsPpoReport *report, const EsRollout *r, double value_scale) {
    EsPpoPair pair = {0};
    double td_size = 0;
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (r->is_valid[row]) {
            es_ppo_pair_add_means(&pair, (double)r->returns[row],
                                  (double)r->value[row] * value_scale);
            td_size += es_math_abs((double)r->td_error[row]);
        }
    }
    es_ppo_pair_close_means(&pair);
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (r->is_valid[row]) {
            es_ppo_pair_add_products(&pair, (double)r->returns[row],
                                     (double)r->value[row] * value_scale);
        }
    }
    report->value_correlation = correlate(&pair);
    report->bellman_error = td_size / pair.n;
    report->explained_variance = explain(&pair, LEAST_RETURN_VARIANCE);
    if (pair.n >= 2) {
        double spread = es_math_sqrt(pair.xx / (pair.n - 1));
        report->value_error = es_math_sqrt(pair.ee / (pair.n - 1)) / (spread + 1);
        report->is_return_spread_low = pair.xx / (pair.n - 1) < LEAST_RETURN_VARIANCE;
    }
}

static void report_quantiles(EsPpoReport *report, const EsRollout *r, double *sorted) {
    int64_t n = 0;
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (r->is_valid[row]) {
            sorted[n++] = (double)r->returns[row];
        }
    }
    es_sort_doubles(sorted, n);
    report->return_p10 = es_quantile(sorted, n, 0.1);
    report->return_p50 = es_quantile(sorted, n, 0.5);
    report->return_p90 = es_quantile(sorted, n, 0.9);
}

void es_ppo_report_rows(EsPpoReport *report, const EsRollout *r, const float *advantage,
                        double value_scale, double *scratch) {
    int64_t n_positive = 0, n_forced = 0;
    report->n_valid = 0;
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (r->is_valid[row]) {
            report->n_valid++;
            n_forced += r->is_forced[row] != 0;
            n_positive += advantage[row] > 0;
        }
    }
    report->n_usable_steps = report->n_valid - n_forced;
    if (report->n_valid == 0) {
        return;
    }
    double n_valid = (double)report->n_valid;
    report->forced_ratio = (double)n_forced / n_valid;
    report->advantage_positive = (double)n_positive / n_valid;
    EsRowStatistics s = es_row_statistics(r->n_rows, r->value, value_scale, r->is_valid);
    report->value_mean = s.mean;
    report->value_std = s.deviation;
    report->value_min = s.lowest;
    report->value_max = s.highest;
    s = es_row_statistics(r->n_rows, r->returns, 1, r->is_valid);
    report->return_mean = s.mean;
    report->return_std = s.deviation;
    report->return_skew = s.skew;
    s = es_row_statistics(r->n_rows, advantage, 1, r->is_valid);
    if (s.deviation > LEAST_SHAPE_SPREAD) {
        report->advantage_skew = s.skew;
        report->advantage_kurtosis = s.kurtosis;
    }
    s = es_row_statistics(r->n_rows, r->td_error, 1, r->is_valid);
    report->td_mean = s.mean;
    report->td_std = s.deviation;
    report_critic(report, r, value_scale);
    report_quantiles(report, r, scratch);
}

void es_ppo_report_auxiliary(EsPpoReport *report, const EsPpoPair *pair) {
    report->auxiliary_explained = explain(pair, LEAST_TARGET_VARIANCE);
    report->auxiliary_correlation = correlate(pair);
}

EsPpoPair es_ppo_compare_targets(const EsPpoBatch *batch, const EsOutputs *outputs) {
    const EsRollout *r = batch->rollout;
    int64_t n_targets = r->shape.n_targets, n = r->n_rows * n_targets;
    double clip = (double)batch->settings->auxiliary_clip;
    EsPpoPair pair = {0};
    for (int sweep = 0; sweep < 2; sweep++) {
        for (int64_t at = 0; at < n; at++) {
            if (!r->is_valid[at / n_targets] || !r->has_target[at]) {
                continue;
            }
            double target = es_math_clamp((double)r->target[at], -clip, clip);
            double guess = (double)outputs->auxiliary[at];
            if (sweep == 0) {
                es_ppo_pair_add_means(&pair, target, guess);
            } else {
                es_ppo_pair_add_products(&pair, target, guess);
            }
        }
        if (sweep == 0) {
            es_ppo_pair_close_means(&pair);
        }
    }
    return pair;
}

static void add_head(EsPpoReport *report, int h, const EsPpoLoss *loss, const EsStepReport *step) {
    const EsPpoHeadLoss *head = &loss->head[h];
    double nan = es_math_nan();
    report->head_entropy[h] += head->n_available > 0 ? head->available_entropy : nan;
    if (head->n_causal > 0) {
        report->head_clip_fraction[h] += (double)head->n_clipped / (double)head->n_causal;
        report->head_ratio_max[h] = ES_MAX(report->head_ratio_max[h], head->ratio_max);
    } else {
        report->head_clip_fraction[h] = report->head_ratio_max[h] = nan;
    }
    report->head_learnable[h] = (double)head->n_learnable / (double)report->n_valid;
    report->head_norm[h] = ES_MAX(report->head_norm[h], step->head_norm[h]);
}

static double mean_entropy(int n_heads, const EsPpoLoss *loss) {
    double sum = 0, n = 0;
    for (int h = 0; h < n_heads; h++) {
        if (loss->head[h].n_causal > 0) {
            sum += loss->head[h].entropy;
            n += 1;
        }
    }
    return n > 0 ? sum / n : es_math_nan();
}

static void add_ratios(EsPpoReport *report, const EsPpoLoss *loss) {
    if (loss->n_actor == 0) {
        report->clip_fraction = report->clip_above = report->clip_below = es_math_nan();
        report->ratio_mean = report->ratio_std = es_math_nan();
        report->ratio_min = report->ratio_max = es_math_nan();
        report->log_probability_min = report->log_probability_max = es_math_nan();
        return;
    }
    double n = (double)loss->n_actor;
    report->clip_above += (double)loss->n_above / n;
    report->clip_below += (double)loss->n_below / n;
    report->clip_fraction += (double)(loss->n_above + loss->n_below) / n;
    report->ratio_mean += loss->ratio_mean;
    report->ratio_std += loss->ratio_std;
    report->ratio_min = ES_MIN(report->ratio_min, loss->ratio_min);
    report->ratio_max = ES_MAX(report->ratio_max, loss->ratio_max);
    report->log_probability_min = ES_MIN(report->log_probability_min, loss->log_probability_min);
    report->log_probability_max = ES_MAX(report->log_probability_max, loss->log_probability_max);
}

void es_ppo_report_pass(EsPpoReport *report, int n_heads, const EsPpoLoss *loss,
                        const EsStepReport *step) {
    if (report->n_epochs == 0) {
        clear_passes(report, 0);
        clear_heads(report, n_heads, 0);
        report->ratio_min = report->log_probability_min = es_math_infinity();
        report->log_probability_max = -es_math_infinity();
    }
    report->n_epochs++;
    report->policy_loss += loss->policy;
    report->value_loss += loss->value;
    report->action_value_loss += loss->action_value;
    report->auxiliary_loss += loss->auxiliary;
    report->entropy += mean_entropy(n_heads, loss);
    report->floor_penalty += loss->floor;
    add_ratios(report, loss);
    report->gradient_norm = ES_MAX(report->gradient_norm, step->gradient_norm);
    report->value_norm = ES_MAX(report->value_norm, step->value_norm);
    report->action_value_norm = ES_MAX(report->action_value_norm, step->action_value_norm);
    for (int h = 0; h < n_heads; h++) {
        add_head(report, h, loss, step);
    }
}

void es_ppo_report_end(EsPpoReport *report, int n_heads) {
    if (report->n_epochs == 0) {
        return;
    }
    double n = report->n_epochs;
    report->policy_loss /= n;
    report->value_loss /= n;
    report->action_value_loss /= n;
    report->auxiliary_loss /= n;
    report->entropy /= n;
    report->floor_penalty /= n;
    report->clip_fraction /= n;
    report->clip_above /= n;
    report->clip_below /= n;
    report->ratio_mean /= n;
    report->ratio_std /= n;
    double mean = 0, squares = 0;
    for (int h = 0; h < n_heads; h++) {
        report->head_entropy[h] /= n;
        report->head_clip_fraction[h] /= n;
        mean += report->head_norm[h] / n_heads;
    }
    for (int h = 0; h < n_heads; h++) {
        squares += (report->head_norm[h] - mean) * (report->head_norm[h] - mean) / n_heads;
    }
    report->gradient_spread = mean > 0 ? es_math_sqrt(squares) / mean : es_math_nan();
}
