#include "telemetry/anomaly_rules.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "telemetry/anomaly_internal.h"

typedef struct RuleText {
    const char *rule, *event, *severity;
} RuleText;

static const RuleText rule_texts[] = {
#define X(NAME, rule, event, severity) {rule, event, severity},
    ES_ANOMALY_RULE_LIST(X)
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

EsAnomalyDetectedEvent *es_anomaly_list_add(EsAnomalyList *found, EsFinding finding,
                                            const char *format, ...) {
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
    if (es_is_broken_real(health->accuracy)) {
        es_anomaly_list_add(found,
                            es_finding(ES_RULE_NOT_FINITE, health->accuracy, es_missing_real()),
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
        es_anomaly_list_add(found, es_finding(ES_RULE_DEGRADATION, drop, limits->accuracy_drop),
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
        n_broken += es_is_broken_real(health->loss[e]);
    }
    for (int64_t e = 0; e < health->n_hosts && n_listed < n_broken; e++) {
        if (!es_is_broken_real(health->loss[e])) {
            continue;
        }
        if (n_listed == detector->limits.n_listed_hosts) {
            found->n_unlisted += n_broken - n_listed;
            break;
        }
        EsFinding finding = {ES_RULE_NOT_FINITE, NULL, health->first_env + e, health->loss[e],
                             es_missing_real()};
        es_anomaly_list_add(
            found, finding, "loss of environment %lld is %g; %lld of %lld hosts have such a loss",
            (long long)finding.env, finding.value, (long long)n_broken, (long long)health->n_hosts);
        n_listed++;
    }
    return n_broken;
}

// Removing the seed alone would hurt, removing all would help: what it is worth is what the host
// has lost by adapting to the others. A missing joint value compares false.
static void check_dependence(const EsAnomalyLimits *limits, const EsRewardHealth *seed,
                             EsAnomalyList *found) {
    if (!(seed->contribution >= limits->costly_contribution &&
          seed->joint <= -limits->costly_loss)) {
        return;
    }
    EsFinding finding = {ES_RULE_DEPENDENCE, NULL, seed->env, seed->contribution,
                         limits->costly_contribution};
    EsAnomalyDetectedEvent *row = es_anomaly_list_add(
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
    EsFinding finding = {ES_RULE_NOT_FINITE, NULL, seed->env, contribution, es_missing_real()};
    if (es_is_broken_real(contribution) || es_is_broken_real(improvement)) {
        finding.value = es_is_broken_real(contribution) ? contribution : improvement;
        es_anomaly_list_add(found, finding, "slot %.40s: contribution %g, improvement %g",
                            seed->slot, contribution, improvement);
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
        es_anomaly_list_add(
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
    es_anomaly_list_add(found, es_finding(ES_RULE_MEMORY, share, limits->memory_share),
                        "%.80s: %.2f of %.2f GiB are allocated, %.1f %%", health->name,
                        (double)health->allocated_bytes / gib, (double)health->total_bytes / gib,
                        100 * share);
}
