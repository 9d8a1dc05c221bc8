// Turning the report of an update into its event, its metrics and the findings of the anomaly
// rules.
#include "runs/update_events.h"

#include <math.h>
#include <stdio.h>

// One name per head and kind of number, beside those below.
#define HEAD_METRICS 3
#define NAME_BYTES   64

typedef struct Curves {
    EsMetricEvent rows[24 + ES_POLICY_HEADS_MAX * HEAD_METRICS];
    char names[ES_POLICY_HEADS_MAX * HEAD_METRICS][NAME_BYTES];
    int n_rows, n_names;
} Curves;

// A number that could not be computed has no point on its curve.
static void add(Curves *curves, const char *name, double value) {
    if (!isnan(value)) {
        ES_ASSERT(curves->n_rows < (int)ES_COUNT_OF(curves->rows));
        curves->rows[curves->n_rows++] = es_metric(name, value);
    }
}

static void add_head(Curves *curves, const char *head, const char *what, double value) {
    char *name = curves->names[curves->n_names++];
    snprintf(name, NAME_BYTES, "policy/%s_%s", head, what);
    add(curves, name, value);
}

// The first ones have the names that CleanRL gave them.
static void emit_curves(EsHub *hub, EsEventTime time, const EsPpoReport *report,
                        const EsUpdatedPolicy *policy, double learning_rate) {
    Curves curves = {.n_rows = 0};
    add(&curves, "charts/learning_rate", learning_rate);
    add(&curves, "losses/policy_loss", report->policy_loss);
    add(&curves, "losses/value_loss", report->value_loss);
    add(&curves, "losses/entropy", report->entropy);
    add(&curves, "losses/approx_kl", report->kl_divergence);
    add(&curves, "losses/clipfrac", report->clip_fraction);
    add(&curves, "losses/explained_variance", report->explained_variance);
    add(&curves, "losses/action_value_loss", report->action_value_loss);
    add(&curves, "losses/auxiliary_loss", report->auxiliary_loss);
    add(&curves, "losses/entropy_floor", report->floor_penalty);
    add(&curves, "policy/gradient_norm", report->gradient_norm);
    add(&curves, "policy/value_gradient_norm", report->value_norm);
    add(&curves, "policy/value_mean", report->value_mean);
    add(&curves, "policy/value_std", report->value_std);
    add(&curves, "policy/return_mean", report->return_mean);
    add(&curves, "policy/return_std", report->return_std);
    add(&curves, "policy/value_scale", report->value_scale);
    add(&curves, "policy/reward_scale", report->reward_scale);
    add(&curves, "policy/advantage_std", report->advantage_std);
    add(&curves, "policy/bellman_error", report->bellman_error);
    add(&curves, "policy/value_correlation", report->value_correlation);
    add(&curves, "policy/auxiliary_explained", report->auxiliary_explained);
    add(&curves, "policy/forced_ratio", report->forced_ratio);
    add(&curves, "policy/epochs", report->n_epochs);
    for (int h = 0; h < policy->n_heads; h++) {
        const char *head = policy->head_name(h);
        add_head(&curves, head, "entropy", report->head_entropy[h]);
        add_head(&curves, head, "clipfrac", report->head_clip_fraction[h]);
        add_head(&curves, head, "gradient_norm", report->head_norm[h]);
    }
    es_emit_metric(hub, time, curves.rows, curves.n_rows);
}

static void emit_update(EsHub *hub, EsEventTime time, const EsPpoReport *report,
                        double learning_rate, double update_ms) {
    EsUpdateCompletedEvent row = {.policy_loss = report->policy_loss,
                                  .value_loss = report->value_loss,
                                  .entropy = report->entropy,
                                  .kl_divergence = report->kl_divergence,
                                  .clip_fraction = report->clip_fraction,
                                  .gradient_norm = report->gradient_norm,
                                  .explained_variance = report->explained_variance,
                                  .ratio_min = report->ratio_min,
                                  .ratio_max = report->ratio_max,
                                  .value_mean = report->value_mean,
                                  .return_mean = report->return_mean,
                                  .advantage_std = report->advantage_std,
                                  .learning_rate = learning_rate,
                                  .entropy_coefficient = report->entropy_coefficient,
                                  .n_epochs = report->n_epochs,
                                  .n_nonfinite = report->n_nonfinite,
                                  .n_usable_steps = report->n_usable_steps,
                                  .forced_ratio = report->forced_ratio,
                                  .is_skipped = report->is_skipped,
                                  .update_ms = update_ms};
    es_emit_update_completed(hub, time, &row, 1);
}

static double when(int is_measured, double value) {
    return is_measured ? value : es_missing_real();
}

// A report has NaN where there is no number (one row has no variance, an update without rows
// of the actor no ratios), which is no number that was computed and went wrong.
static void check_update(EsRun *run, EsEventTime time, const EsPpoReport *report,
                         const EsUpdatedPolicy *policy) {
    double head_entropy[ES_POLICY_HEADS_MAX];
    const EsRecurrentHealth *recurrent = policy->recurrent;
    EsUpdateHealth health = es_update_health_unmeasured();
    // no step, because numbers were not finite, is one that went wrong
    int has_passes = report->n_epochs > 0 || report->is_skipped;
    int has_actor = has_passes && report->n_usable_steps > 0;
    health.policy_loss = when(has_passes, report->policy_loss);
    health.value_loss = when(has_passes, report->value_loss);
    health.bellman_error = when(report->n_valid > 0, report->bellman_error);
    health.entropy = when(has_actor, report->entropy);
    health.kl_divergence = when(report->n_usable_steps > 0, report->kl_divergence);
    health.clip_fraction = when(has_actor, report->clip_fraction);
    health.explained_variance = when(report->n_valid > 1, report->explained_variance);
    health.ratio_min = when(has_actor, report->ratio_min);
    health.ratio_max = when(has_actor, report->ratio_max);
    health.gradient_norm = when(has_passes, report->gradient_norm);
    health.n_nonfinite_gradients = report->n_nonfinite;
    health.n_usable_steps = report->n_usable_steps;
    for (int h = 0; h < policy->n_heads; h++) {
        // a head that no row asked for has no entropy, and one that had a single legal value in
        // every row (one slot) nothing to choose: not measured, which is no anomaly
        double entropy = report->head_entropy[h];
        int has_choice = report->head_learnable[h] > 0 || entropy != 0;
        head_entropy[h] = isnan(entropy) || !has_choice ? es_missing_real() : entropy;
    }
    health.head_entropy = policy->has_head_rules ? head_entropy : NULL;
    if (recurrent != NULL) {
        health.lstm_h = (EsLstmHealth){recurrent->h_rms, recurrent->h_env_rms_max};
        health.lstm_c = (EsLstmHealth){recurrent->c_rms, recurrent->c_env_rms_max};
        health.lstm_has_nan = recurrent->has_nan;
        health.lstm_has_inf = recurrent->has_inf;
    }
    es_anomaly_check_update(es_run_detector(run), &health, es_run_anomalies(run));
    es_run_emit_anomalies(run, time);
}

void es_update_emit(EsRun *run, EsEventTime time, const EsPpoReport *report,
                    const EsUpdatedPolicy *policy, double learning_rate, double update_ms) {
    emit_update(es_run_hub(run), time, report, learning_rate, update_ms);
    emit_curves(es_run_hub(run), time, report, policy, learning_rate);
    check_update(run, time, report, policy);
}
