// The rules over an update of the policy.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "telemetry/anomaly_internal.h"

// Every number of the report, for the search for those that are not finite.
typedef struct HealthField {
    const char *name;
    size_t offset;
} HealthField;

static const HealthField update_fields[] = {
    {"policy_loss", offsetof(EsUpdateHealth, policy_loss)},
    {"value_loss", offsetof(EsUpdateHealth, value_loss)},
    {"bellman_error", offsetof(EsUpdateHealth, bellman_error)},
    {"entropy", offsetof(EsUpdateHealth, entropy)},
    {"kl_divergence", offsetof(EsUpdateHealth, kl_divergence)},
    {"clip_fraction", offsetof(EsUpdateHealth, clip_fraction)},
    {"explained_variance", offsetof(EsUpdateHealth, explained_variance)},
    {"ratio_min", offsetof(EsUpdateHealth, ratio_min)},
    {"ratio_max", offsetof(EsUpdateHealth, ratio_max)},
    {"gradient_norm", offsetof(EsUpdateHealth, gradient_norm)},
    {"lstm_h.rms", offsetof(EsUpdateHealth, lstm_h.rms)},
    {"lstm_h.env_rms_max", offsetof(EsUpdateHealth, lstm_h.env_rms_max)},
    {"lstm_c.rms", offsetof(EsUpdateHealth, lstm_c.rms)},
    {"lstm_c.env_rms_max", offsetof(EsUpdateHealth, lstm_c.env_rms_max)},
};

EsUpdateHealth es_update_health_unmeasured(void) {
    EsUpdateHealth health = {.n_nonfinite_gradients = ES_MISSING_INT,
                             .n_usable_steps = ES_MISSING_INT};
    const double missing = es_missing_real();
    for (size_t i = 0; i < ES_COUNT_OF(update_fields); i++) {
        memcpy((char *)&health + update_fields[i].offset, &missing, sizeof missing);
    }
    return health;
}

// The names of what is not finite, as one row: one bad tensor makes many of these at once.
typedef struct BrokenNames {
    char text[200];
    size_t length;
    int n_broken;
    double first; // value of the first
} BrokenNames;

static void note_broken(BrokenNames *names, const char *prefix, const char *name, double value) {
    if (!es_is_broken_real(value)) {
        return;
    }
    if (names->n_broken++ == 0) {
        names->first = value;
    }
    char entry[64];
    int length =
        snprintf(entry, sizeof entry, "%s%s%.40s", names->length > 0 ? ", " : "", prefix, name);
    if (names->length + (size_t)length < sizeof names->text) {
        memcpy(names->text + names->length, entry, (size_t)length + 1);
        names->length += (size_t)length;
    }
}

static void check_finite(const EsAnomalyDetector *detector, const EsUpdateHealth *health,
                         EsAnomalyList *found) {
    BrokenNames names = {.first = es_missing_real()};
    for (size_t i = 0; i < ES_COUNT_OF(update_fields); i++) {
        double value;
        memcpy(&value, (const char *)health + update_fields[i].offset, sizeof value);
        note_broken(&names, "", update_fields[i].name, value);
    }
    for (int i = 0; i < detector->n_heads && health->head_entropy != NULL; i++) {
        note_broken(&names, "entropy of ", detector->heads[i].name, health->head_entropy[i]);
    }
    if (names.n_broken > 0) {
        es_anomaly_list_add(found, es_finding(ES_RULE_NOT_FINITE, names.first, es_missing_real()),
                            "not finite in this update (%d in all): %s", names.n_broken,
                            names.text);
    }
    if (health->n_nonfinite_gradients > 0) {
        es_anomaly_list_add(
            found, es_finding(ES_RULE_NOT_FINITE, (double)health->n_nonfinite_gradients, 0),
            "%lld gradient values of the policy are not finite",
            (long long)health->n_nonfinite_gradients);
    }
}

// One row for a finite value on the wrong side of its limit; returns whether it was.
static int check_above(EsAnomalyList *found, EsAnomalyRule rule, const char *what, double value,
                       double limit) {
    int is_found = isfinite(value) && value > limit;
    if (is_found) {
        es_anomaly_list_add(found, es_finding(rule, value, limit), "%s is %.6g, above %.6g", what,
                            value, limit);
    }
    return is_found;
}

static int check_below(EsAnomalyList *found, EsAnomalyRule rule, const char *what, double value,
                       double limit) {
    int is_found = isfinite(value) && value < limit;
    if (is_found) {
        es_anomaly_list_add(found, es_finding(rule, value, limit), "%s is %.6g, below %.6g", what,
                            value, limit);
    }
    return is_found;
}

static void check_ratios(const EsAnomalyLimits *limits, const EsUpdateHealth *health,
                         EsAnomalyList *found) {
    if (es_is_broken_real(health->ratio_max) || es_is_broken_real(health->ratio_min)) {
        double value = es_is_broken_real(health->ratio_max) ? health->ratio_max : health->ratio_min;
        es_anomaly_list_add(found, es_finding(ES_RULE_RATIO_NOT_FINITE, value, es_missing_real()),
                            "probability ratios run from %g to %g", health->ratio_min,
                            health->ratio_max);
    }
    check_above(found, ES_RULE_RATIO_HIGH, "the largest probability ratio", health->ratio_max,
                limits->highest_ratio);
    check_below(found, ES_RULE_RATIO_LOW, "the smallest probability ratio", health->ratio_min,
                limits->lowest_ratio);
}

static void check_heads(EsAnomalyDetector *detector, const EsUpdateHealth *health,
                        EsAnomalyList *found) {
    const EsAnomalyLimits *limits = &detector->limits;
    for (int i = 0; i < detector->n_heads && health->head_entropy != NULL; i++) {
        const EsAnomalyHead *head = &detector->heads[i];
        double entropy = health->head_entropy[i];
        int32_t *n_low = &detector->state.n_low_updates[i];
        // between the limit and its recovery the count stays: NaN and missing stay out as well
        if (entropy > limits->head_recovery * head->lowest_entropy) {
            *n_low = 0;
        } else if (isfinite(entropy) && entropy < head->lowest_entropy) {
            *n_low = ES_MIN(*n_low, INT32_MAX - 1) + 1;
            if (*n_low >= limits->n_low_head_updates) {
                EsFinding finding = es_finding(ES_RULE_HEAD, entropy, head->lowest_entropy);
                finding.part = head->name;
                es_anomaly_list_add(
                    found, finding,
                    "entropy of head %.40s is %.6g, below %.6g, in %d updates without one above "
                    "%.6g",
                    head->name, entropy, head->lowest_entropy, (int)*n_low,
                    limits->head_recovery * head->lowest_entropy);
            }
        }
    }
}

// Compare with the running mean once it is one of enough updates, then let the value into it. The
// mean is a plain one until its momentum is reached: the first update is no better than the others.
static void check_drift(const EsAnomalyDetector *detector, EsAnomalyRule rule, const char *what,
                        double value, double *mean, EsAnomalyList *found) {
    const EsAnomalyLimits *limits = &detector->limits;
    double n = (double)detector->state.n_gradients;
    double drift = fabs(value - *mean) / (*mean + 1e-8);
    if (detector->state.n_gradients >= limits->n_gradients_before &&
        drift > limits->highest_drift) {
        es_anomaly_list_add(found, es_finding(rule, drift, limits->highest_drift),
                            "%s is %.6g, its running mean %.6g: a drift of %.4g, above %.4g", what,
                            value, *mean, drift, limits->highest_drift);
    }
    double momentum = ES_MIN(limits->gradient_momentum, n / (n + 1));
    *mean = momentum * *mean + (1 - momentum) * value;
}

static void check_gradient(EsAnomalyDetector *detector, double norm, EsAnomalyList *found) {
    if (!isfinite(norm)) {
        return;
    }
    const EsAnomalyLimits *limits = &detector->limits;
    EsAnomalyState *state = &detector->state;
    int is_healthy = norm >= limits->vanishing_gradient && norm <= limits->exploding_gradient;
    check_drift(detector, ES_RULE_NORM_DRIFT, "the gradient norm", norm, &state->gradient_norm_mean,
                found);
    check_drift(detector, ES_RULE_HEALTH_DRIFT, "gradient health",
                is_healthy ? 1 : limits->unhealthy_gradient, &state->gradient_health_mean, found);
    state->n_gradients++;
}

static void check_lstm(const EsAnomalyLimits *limits, const EsUpdateHealth *health,
                       EsAnomalyList *found) {
    if (health->lstm_has_nan) {
        es_anomaly_list_add(found,
                            es_finding(ES_RULE_LSTM_NAN, es_missing_real(), es_missing_real()),
                            "the recurrent state contains NaN");
    }
    if (health->lstm_has_inf) {
        es_anomaly_list_add(found,
                            es_finding(ES_RULE_LSTM_INF, es_missing_real(), es_missing_real()),
                            "the recurrent state contains infinity");
    }
    check_above(found, ES_RULE_LSTM_H_HIGH, "RMS of h in the worst environment",
                health->lstm_h.env_rms_max, limits->highest_lstm_rms);
    check_below(found, ES_RULE_LSTM_H_LOW, "RMS of h", health->lstm_h.rms, limits->lowest_lstm_rms);
    check_above(found, ES_RULE_LSTM_C_HIGH, "RMS of c in the worst environment",
                health->lstm_c.env_rms_max, limits->highest_lstm_rms);
    check_below(found, ES_RULE_LSTM_C_LOW, "RMS of c", health->lstm_c.rms, limits->lowest_lstm_rms);
}

void es_anomaly_check_update(EsAnomalyDetector *detector, const EsUpdateHealth *health,
                             EsAnomalyList *found) {
    const EsAnomalyLimits *limits = &detector->limits;
    check_finite(detector, health, found);
    check_ratios(limits, health, found);
    // without steps that trained the actor there is nothing the critic could have been wrong about;
    // a missing count is negative
    if (health->n_usable_steps > 0 &&
        !check_above(found, ES_RULE_VALUE, "value loss", health->value_loss,
                     limits->highest_value_loss)) {
        check_above(found, ES_RULE_VALUE, "the mean Bellman error", health->bellman_error,
                    limits->highest_bellman_error);
    }
    if (!check_below(found, ES_RULE_ENTROPY_COLLAPSED, "entropy", health->entropy,
                     limits->collapsed_entropy)) {
        check_below(found, ES_RULE_ENTROPY_LOW, "entropy", health->entropy, limits->low_entropy);
    }
    check_heads(detector, health, found);
    if (!check_above(found, ES_RULE_KL_EXTREME, "KL divergence", health->kl_divergence,
                     limits->extreme_kl)) {
        check_above(found, ES_RULE_KL_HIGH, "KL divergence", health->kl_divergence,
                    limits->high_kl);
    }
    check_gradient(detector, health->gradient_norm, found);
    check_lstm(limits, health, found);
}
