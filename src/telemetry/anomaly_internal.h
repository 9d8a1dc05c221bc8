// The rules' names, and how a rule adds what it found. Shared by the anomaly_*.c files.
#ifndef ES_TELEMETRY_ANOMALY_INTERNAL_H
#define ES_TELEMETRY_ANOMALY_INTERNAL_H

#include <math.h>

#include "telemetry/anomaly_rules.h"

// name, rule, event in the source documents, severity
#define ES_ANOMALY_RULE_LIST(X)                                                                    \
    X(NOT_FINITE, "numerical_instability", "NUMERICAL_INSTABILITY_DETECTED", "error")              \
    X(RATIO_NOT_FINITE, "ratio_nan_inf", "GRADIENT_ANOMALY", "error")                              \
    X(RATIO_HIGH, "ratio_explosion", "RATIO_EXPLOSION_DETECTED", "warning")                        \
    X(RATIO_LOW, "ratio_collapse", "RATIO_COLLAPSE_DETECTED", "warning")                           \
    X(VALUE, "value_collapse", "VALUE_COLLAPSE_DETECTED", "warning")                               \
    X(ENTROPY_COLLAPSED, "entropy_collapse", "GRADIENT_ANOMALY", "warning")                        \
    X(ENTROPY_LOW, "entropy_low", "GRADIENT_ANOMALY", "warning")                                   \
    X(HEAD, "entropy_collapse_", "GRADIENT_ANOMALY", "warning")                                    \
    X(KL_HIGH, "kl_spike", "GRADIENT_ANOMALY", "warning")                                          \
    X(KL_EXTREME, "kl_extreme", "GRADIENT_ANOMALY", "warning")                                     \
    X(NORM_DRIFT, "gradient_norm_drift", "GRADIENT_PATHOLOGY_DETECTED", "warning")                 \
    X(HEALTH_DRIFT, "gradient_health_drift", "GRADIENT_PATHOLOGY_DETECTED", "warning")             \
    X(LSTM_NAN, "lstm_nan", "GRADIENT_ANOMALY", "error")                                           \
    X(LSTM_INF, "lstm_inf", "GRADIENT_ANOMALY", "error")                                           \
    X(LSTM_H_HIGH, "lstm_h_explosion", "GRADIENT_ANOMALY", "warning")                              \
    X(LSTM_H_LOW, "lstm_h_vanishing", "GRADIENT_ANOMALY", "warning")                               \
    X(LSTM_C_HIGH, "lstm_c_explosion", "GRADIENT_ANOMALY", "warning")                              \
    X(LSTM_C_LOW, "lstm_c_vanishing", "GRADIENT_ANOMALY", "warning")                               \
    X(DEGRADATION, "performance_degradation", "PERFORMANCE_DEGRADATION", "warning")                \
    X(ATTRIBUTION, "attribution_ratio", "REWARD_HACKING_SUSPECTED", "warning")                     \
    X(DEPENDENCE, ES_RULE_COSTLY_DEPENDENCE, "REWARD_HACKING_SUSPECTED", "warning")                \
    X(MEMORY, "memory_warning", "MEMORY_WARNING", "warning")

typedef enum EsAnomalyRule {
#define X(NAME, rule, event, severity) ES_RULE_##NAME,
    ES_ANOMALY_RULE_LIST(X)
#undef X
} EsAnomalyRule;

// What a rule saw. `part` is appended to the rule's name.
typedef struct EsFinding {
    EsAnomalyRule rule;
    const char *part;
    int64_t env;
    double value, threshold;
} EsFinding;

static inline EsFinding es_finding(EsAnomalyRule rule, double value, double threshold) {
    return (EsFinding){rule, NULL, ES_MISSING_INT, value, threshold};
}

// Computed and not finite, unlike missing.
static inline int es_is_broken_real(double value) {
    return !isfinite(value) && !es_is_missing_real(value);
}

// The new row, NULL when the list is full. `format` makes the detail.
EsAnomalyDetectedEvent *es_anomaly_list_add(EsAnomalyList *found, EsFinding finding,
                                            const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
