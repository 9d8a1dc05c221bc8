// The rules that look for anomalies: in rounds, hosts, seeds, memory and updates of the policy.
//
// Every rule has an entry in RULE_LIST. A rule compares a measured number with a limit and adds a
// row to the caller's list; numbers that were not measured pass every rule.
#include "telemetry/anomaly_rules.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/range_check.h"

// name, rule, event in the source documents, severity
#define RULE_LIST(X)                                                                               \
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

typedef enum Rule {
#define X(NAME, rule, event, severity) ES_RULE_##NAME,
    RULE_LIST(X)
#undef X
} Rule;

// One deviation that a rule found. `part` is appended to the rule's name.
typedef struct Finding {
    Rule rule;
    const char *part;
    int64_t env;
    double value, threshold;
} Finding;

static Finding finding_of(Rule rule, double value, double threshold) {
    return (Finding){rule, NULL, ES_MISSING_INT, value, threshold};
}

// Computed and not finite, unlike missing.
static int is_broken(double value) { return !isfinite(value) && !es_is_missing_real(value); }

typedef struct RuleText {
    const char *rule, *event, *severity;
} RuleText;

static const RuleText rule_texts[] = {
#define X(NAME, rule, event, severity) {rule, event, severity},
    RULE_LIST(X)
#undef X
};

const EsAnomalyHead es_anomaly_growth_heads[ES_N_GROWTH_HEADS] = {
    {"slot", 0.10},         {"blueprint", 0.05},   {"style", 0.08},       {"tempo", 0.05},
    {"alpha_target", 0.08}, {"alpha_speed", 0.08}, {"alpha_curve", 0.08}, {"op", 0.08},
};

// --- the list ---

EsStatus es_anomaly_list_create(EsAnomalyList *list, int64_t capacity) {
    ES_ASSERT(capacity >= 1);
    *list = (EsAnomalyList){.capacity = capacity};
    EsStatus status = es_allocate((size_t)capacity * sizeof *list->rows, (void **)&list->rows);
    if (status == ES_STATUS_OK) {
        status = es_allocate(2 * (size_t)capacity * sizeof *list->texts, (void **)&list->texts);
    }
    if (status != ES_STATUS_OK) {
        es_anomaly_list_destroy(list);
    }
    return status;
}

void es_anomaly_list_reset(EsAnomalyList *list) {
    list->n_rows = 0;
    list->n_unlisted = 0;
}

void es_anomaly_list_destroy(EsAnomalyList *list) {
    if (list != NULL) {
        es_release(list->rows);
        es_release(list->texts);
        *list = (EsAnomalyList){0};
    }
}

// Returns the new row, NULL when the list is full. `format` makes the detail.
__attribute__((format(printf, 3, 4))) static EsAnomalyDetectedEvent *
add_finding(EsAnomalyList *found, Finding finding, const char *format, ...) {
    if (found->n_rows == found->capacity) {
        found->n_unlisted++;
        return NULL;
    }
    char *rule = found->texts[2 * found->n_rows], *detail = found->texts[2 * found->n_rows + 1];
    EsAnomalyDetectedEvent *row = &found->rows[found->n_rows++];
    const RuleText *text = &rule_texts[finding.rule];
    snprintf(rule, ES_ANOMALY_TEXT_BYTES, "%s%s", text->rule,
             finding.part != NULL ? finding.part : "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, ES_ANOMALY_TEXT_BYTES, format, arguments);
    va_end(arguments);
    *row = (EsAnomalyDetectedEvent){.rule = rule,
                                    .severity = text->severity,
                                    .event_name = text->event,
                                    .env = finding.env,
                                    .value = finding.value,
                                    .threshold = finding.threshold,
                                    .detail = detail};
    return row;
}

// --- limits and detector ---

EsAnomalyLimits es_anomaly_limits_defaults(void) {
    return (EsAnomalyLimits){.highest_ratio = 5,
                             .lowest_ratio = 0.1,
                             .highest_value_loss = 5,
                             .highest_bellman_error = 5,
                             .collapsed_entropy = 0.1,
                             .low_entropy = 0.3,
                             .n_low_head_updates = 3,
                             .head_recovery = 1.5,
                             .high_kl = 0.1,
                             .extreme_kl = 0.5,
                             .gradient_momentum = 0.99,
                             .n_gradients_before = 20,
                             .highest_drift = 0.5,
                             .vanishing_gradient = 1e-7,
                             .exploding_gradient = 100,
                             .unhealthy_gradient = 0.3,
                             .highest_lstm_rms = 10,
                             .lowest_lstm_rms = 1e-6,
                             .accuracy_drop = 0.1,
                             .first_progress = 0.1,
                             .plateau_points = 0.5,
                             .trend_points = 2,
                             .attribution_ratio = 5,
                             .costly_contribution = 10,
                             .costly_loss = 10,
                             .critical_contribution = 20,
                             .memory_share = 0.85,
                             .memory_quiet_seconds = 60,
                             .n_listed_hosts = 100};
}

void es_anomaly_detector_reset(EsAnomalyDetector *detector, const EsAnomalyLimits *limits,
                               const EsAnomalyHead *heads, int n_heads) {
    ES_ASSERT(n_heads >= 0 && n_heads <= ES_ANOMALY_MAX_HEADS);
    *detector = (EsAnomalyDetector){.heads = heads, .n_heads = n_heads};
    detector->limits = limits != NULL ? *limits : es_anomaly_limits_defaults();
    for (int i = 0; i < ES_ANOMALY_MAX_DEVICES; i++) {
        detector->memory_warned_s[i] = es_missing_real();
    }
}

static EsStatus check_finite(const char *path, const char *name, int64_t index, double value) {
    return es_check_real((EsFileField){path, name, index}, value, -DBL_MAX, DBL_MAX);
}

EsStatus es_anomaly_state_check(const EsAnomalyState *state, const char *path) {
    ES_TRY(check_finite(path, "anomaly_state: gradient_norm_mean", ES_NO_INDEX,
                        state->gradient_norm_mean));
    ES_TRY(check_finite(path, "anomaly_state: gradient_health_mean", ES_NO_INDEX,
                        state->gradient_health_mean));
    ES_TRY(es_check_counter((EsFileField){path, "anomaly_state: n_gradients", ES_NO_INDEX},
                            state->n_gradients));
    for (int i = 0; i < ES_ANOMALY_MAX_HEADS; i++) {
        ES_TRY(es_check_integer((EsFileField){path, "anomaly_state: n_low_updates", i},
                                state->n_low_updates[i], 0, INT32_MAX));
    }
    for (int i = 0; i < ES_ANOMALY_WINDOW; i++) {
        ES_TRY(check_finite(path, "anomaly_state: accuracy", i, state->accuracy[i]));
    }
    ES_TRY(es_check_counter((EsFileField){path, "anomaly_state: n_accuracies", ES_NO_INDEX},
                            state->n_accuracies));
    return check_finite(path, "anomaly_state: rolling_accuracy", ES_NO_INDEX,
                        state->rolling_accuracy);
}

// --- rounds ---

static double add_accuracy(EsAnomalyState *state, double accuracy) {
    state->accuracy[state->n_accuracies % ES_ANOMALY_WINDOW] = accuracy;
    state->n_accuracies++;
    int64_t n = ES_MIN(state->n_accuracies, ES_ANOMALY_WINDOW);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += state->accuracy[i];
    }
    return sum / (double)n;
}

static const char *name_trend(const EsAnomalyLimits *limits, double delta) {
    if (fabs(delta) < limits->plateau_points) {
        return "plateau";
    }
    if (delta < -limits->trend_points) {
        return "degradation";
    }
    return delta > limits->trend_points ? "improvement" : NULL;
}

int es_anomaly_check_round(EsAnomalyDetector *detector, const EsRoundHealth *health,
                           EsAnomalyList *found, EsTrendDetectedEvent *trend) {
    const EsAnomalyLimits *limits = &detector->limits;
    EsAnomalyState *state = &detector->state;
    if (is_broken(health->accuracy)) {
        add_finding(found, finding_of(ES_RULE_NOT_FINITE, health->accuracy, es_missing_real()),
                    "the accuracy of the round is %g", health->accuracy);
    }
    if (!isfinite(health->accuracy)) {
        return 0;
    }
    int has_previous = state->n_accuracies > 0;
    double previous = state->rolling_accuracy;
    double rolling = add_accuracy(state, health->accuracy);
    state->rolling_accuracy = rolling;
    double drop = rolling > 0 ? (rolling - health->accuracy) / rolling : 0;
    if (health->progress >= limits->first_progress && drop >= limits->accuracy_drop) {
        add_finding(found, finding_of(ES_RULE_DEGRADATION, drop, limits->accuracy_drop),
                    "accuracy %.2f is %.1f %% below the mean of the last rounds, %.2f",
                    health->accuracy, 100 * drop, rolling);
    }
    const char *name = has_previous ? name_trend(limits, rolling - previous) : NULL;
    if (name == NULL) {
        return 0;
    }
    *trend = (EsTrendDetectedEvent){name, rolling - previous, rolling, previous};
    return 1;
}

// --- hosts, seeds, memory ---

int64_t es_anomaly_check_hosts(const EsAnomalyDetector *detector, const EsHostsHealth *health,
                               EsAnomalyList *found) {
    int64_t n_broken = 0, n_listed = 0;
    for (int64_t e = 0; e < health->n_hosts; e++) {
        n_broken += is_broken(health->loss[e]);
    }
    for (int64_t e = 0; e < health->n_hosts && n_listed < n_broken; e++) {
        if (!is_broken(health->loss[e])) {
            continue;
        }
        if (n_listed == detector->limits.n_listed_hosts) {
            found->n_unlisted += n_broken - n_listed;
            break;
        }
        Finding finding = {ES_RULE_NOT_FINITE, NULL, health->first_env + e, health->loss[e],
                           es_missing_real()};
        add_finding(
            found, finding, "loss of environment %lld is %g; %lld of %lld hosts have such a loss",
            (long long)finding.env, finding.value, (long long)n_broken, (long long)health->n_hosts);
        n_listed++;
    }
    return n_broken;
}

// Removing the seed alone would hurt, removing all would help: the seed's worth is the loss of a
// host that has adapted to the others. A missing joint value compares false.
static void check_dependence(const EsAnomalyLimits *limits, const EsRewardHealth *seed,
                             EsAnomalyList *found) {
    if (!(seed->contribution >= limits->costly_contribution &&
          seed->joint <= -limits->costly_loss)) {
        return;
    }
    Finding finding = {ES_RULE_DEPENDENCE, NULL, seed->env, seed->contribution,
                       limits->costly_contribution};
    EsAnomalyDetectedEvent *row = add_finding(
        found, finding,
        "slot %.40s: removing the seed would cost %.4g points, yet without any seed the host would "
        "have %.4g points more",
        seed->slot, seed->contribution, -seed->joint);
    if (row != NULL && seed->contribution >= limits->critical_contribution) {
        row->severity = "critical";
    }
}

static void check_seed(const EsAnomalyLimits *limits, const EsRewardHealth *seed,
                       EsAnomalyList *found) {
    double contribution = seed->contribution, improvement = seed->improvement;
    Finding finding = {ES_RULE_NOT_FINITE, NULL, seed->env, contribution, es_missing_real()};
    if (is_broken(contribution) || is_broken(improvement)) {
        finding.value = is_broken(contribution) ? contribution : improvement;
        add_finding(found, finding, "slot %.40s: contribution %g, improvement %g", seed->slot,
                    contribution, improvement);
    }
    if (!isfinite(contribution) || !isfinite(improvement)) {
        return;
    }
    check_dependence(limits, seed, found);
    if (contribution > 0 && improvement > 0 &&
        contribution / improvement >= limits->attribution_ratio) {
        finding.rule = ES_RULE_ATTRIBUTION;
        finding.value = contribution / improvement;
        finding.threshold = limits->attribution_ratio;
        add_finding(
            found, finding,
            "slot %.40s: a contribution of %.4g points is %.4g times the improvement of %.4g",
            seed->slot, contribution, finding.value, improvement);
    }
}

void es_anomaly_check_reward(const EsAnomalyDetector *detector, const EsRewardHealth *seeds,
                             int64_t n_seeds, EsAnomalyList *found) {
    for (int64_t i = 0; i < n_seeds; i++) {
        check_seed(&detector->limits, &seeds[i], found);
    }
}

void es_anomaly_check_memory(EsAnomalyDetector *detector, const EsMemoryHealth *health,
                             double now_s, EsAnomalyList *found) {
    ES_ASSERT(health->device >= 0 && health->device < ES_ANOMALY_MAX_DEVICES);
    const EsAnomalyLimits *limits = &detector->limits;
    double *warned_s = &detector->memory_warned_s[health->device];
    // a missing count is negative
    if (health->total_bytes <= 0 || health->allocated_bytes < 0) {
        return;
    }
    double share = (double)health->allocated_bytes / (double)health->total_bytes;
    int is_quiet =
        !es_is_missing_real(*warned_s) && now_s - *warned_s < limits->memory_quiet_seconds;
    if (share < limits->memory_share || is_quiet) {
        return;
    }
    *warned_s = now_s;
    const double gib = 1024.0 * 1024.0 * 1024.0;
    add_finding(found, finding_of(ES_RULE_MEMORY, share, limits->memory_share),
                "%.80s: %.2f of %.2f GiB are allocated, %.1f %%", health->name,
                (double)health->allocated_bytes / gib, (double)health->total_bytes / gib,
                100 * share);
}

// --- an update of the policy ---

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

// The names of all numbers that are not finite, as one row: one bad tensor makes many of these at
// once.
typedef struct BrokenNames {
    char text[200];
    size_t length;
    int n_broken;
    double first; // value of the first
} BrokenNames;

static void note_broken(BrokenNames *names, const char *prefix, const char *name, double value) {
    if (!is_broken(value)) {
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

static void check_update_finite(const EsAnomalyDetector *detector, const EsUpdateHealth *health,
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
        add_finding(found, finding_of(ES_RULE_NOT_FINITE, names.first, es_missing_real()),
                    "not finite in this update (%d in all): %s", names.n_broken, names.text);
    }
    if (health->n_nonfinite_gradients > 0) {
        add_finding(found, finding_of(ES_RULE_NOT_FINITE, (double)health->n_nonfinite_gradients, 0),
                    "%lld gradient values of the policy are not finite",
                    (long long)health->n_nonfinite_gradients);
    }
}

// One row for a finite value on the wrong side of its limit; returns whether it was.
static int check_above(EsAnomalyList *found, Rule rule, const char *what, double value,
                       double limit) {
    int is_found = isfinite(value) && value > limit;
    if (is_found) {
        add_finding(found, finding_of(rule, value, limit), "%s is %.6g, above %.6g", what, value,
                    limit);
    }
    return is_found;
}

static int check_below(EsAnomalyList *found, Rule rule, const char *what, double value,
                       double limit) {
    int is_found = isfinite(value) && value < limit;
    if (is_found) {
        add_finding(found, finding_of(rule, value, limit), "%s is %.6g, below %.6g", what, value,
                    limit);
    }
    return is_found;
}

static void check_ratios(const EsAnomalyLimits *limits, const EsUpdateHealth *health,
                         EsAnomalyList *found) {
    if (is_broken(health->ratio_max) || is_broken(health->ratio_min)) {
        double value = is_broken(health->ratio_max) ? health->ratio_max : health->ratio_min;
        add_finding(found, finding_of(ES_RULE_RATIO_NOT_FINITE, value, es_missing_real()),
                    "probability ratios run from %g to %g", health->ratio_min, health->ratio_max);
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
                Finding finding = finding_of(ES_RULE_HEAD, entropy, head->lowest_entropy);
                finding.part = head->name;
                add_finding(
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
static void check_drift(const EsAnomalyDetector *detector, Rule rule, const char *what,
                        double value, double *mean, EsAnomalyList *found) {
    const EsAnomalyLimits *limits = &detector->limits;
    double n = (double)detector->state.n_gradients;
    double drift = fabs(value - *mean) / (*mean + 1e-8);
    if (detector->state.n_gradients >= limits->n_gradients_before &&
        drift > limits->highest_drift) {
        add_finding(found, finding_of(rule, drift, limits->highest_drift),
                    "%s is %.6g, its running mean %.6g: a drift of %.4g, above %.4g", what, value,
                    *mean, drift, limits->highest_drift);
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
        add_finding(found, finding_of(ES_RULE_LSTM_NAN, es_missing_real(), es_missing_real()),
                    "the recurrent state contains NaN");
    }
    if (health->lstm_has_inf) {
        add_finding(found, finding_of(ES_RULE_LSTM_INF, es_missing_real(), es_missing_real()),
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
    check_update_finite(detector, health, found);
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
