// Anomaly rules: reports of training in, rows of anomaly_detected out. docs/telemetry.md ("Anomaly
// rules") lists every rule with its event and numbers.
//
// Checks are plain functions over plain structs. The detector holds the limits and the little that
// must be remembered between reports; it prints, emits and allocates nothing, so it runs whether
// telemetry is on or off. A value that was not measured (es_missing_real, ES_MISSING_INT) never
// triggers a rule and never counts as healthy: it leaves averages and counts as they were. A number
// that was computed and is not finite triggers numerical_instability and leaves them, too.
//
//     EsAnomalyDetector detector;
//     es_anomaly_detector_reset(&detector, NULL, es_anomaly_growth_heads, ES_N_GROWTH_HEADS);
//     EsUpdateHealth health = es_update_health_unmeasured();
//     health.ratio_max = 7.5;
//     es_anomaly_check_update(&detector, &health, &found);
//     es_emit_anomaly_detected(hub, time, found.rows, found.n_rows);
#ifndef ES_TELEMETRY_ANOMALY_RULES_H
#define ES_TELEMETRY_ANOMALY_RULES_H

#include "telemetry/event.h"

// --- findings ---

// The rule that the console prints once, at the end of a run.
#define ES_RULE_COSTLY_DEPENDENCE "costly_dependence"

#define ES_ANOMALY_TEXT_BYTES 256

// Rows for es_emit_anomaly_detected. Their texts live in the list, until its reset.
typedef struct EsAnomalyList {
    EsAnomalyDetectedEvent *rows;         // owned [capacity]
    char (*texts)[ES_ANOMALY_TEXT_BYTES]; // owned [2 * capacity]: rule and detail of each row
    int64_t capacity;
    int64_t n_rows;
    int64_t n_unlisted; // found, but without a row: the list was full, or a rule had its share
} EsAnomalyList;

EsStatus es_anomaly_list_create(EsAnomalyList *list, int64_t capacity);
void es_anomaly_list_reset(EsAnomalyList *list);
void es_anomaly_list_destroy(EsAnomalyList *list);

// --- limits and detector ---

typedef struct EsAnomalyLimits {
    double highest_ratio;         // 5: ratio_explosion above it
    double lowest_ratio;          // 0.1: ratio_collapse below it
    double highest_value_loss;    // 5: value_collapse above it, or
    double highest_bellman_error; // 5: above this
    double collapsed_entropy;     // 0.1: entropy_collapse below it, as a share of the largest
    double low_entropy;           // 0.3: entropy_low below it
    int n_low_head_updates;       // 3: updates until a head counts as collapsed
    double head_recovery;         // 1.5: times its lowest entropy, above which a head is clear
    double high_kl;               // 0.1: kl_spike above it
    double extreme_kl;            // 0.5: kl_extreme above it
    double gradient_momentum;     // 0.99: of the running means, plain ones until the 100th
    int64_t n_gradients_before;   // 20: in the running mean before drift is checked
    double highest_drift;         // 0.5: distance from the running mean, relative to it
    double vanishing_gradient;    // 1e-7: a policy gradient below it is not healthy,
    double exploding_gradient;    // 100: nor one above this
    double unhealthy_gradient;    // 0.3: health of such a gradient; 1 otherwise
    double highest_lstm_rms;      // 10: lstm_{h,c}_explosion above it, worst environment
    double lowest_lstm_rms;       // 1e-6: lstm_{h,c}_vanishing below it
    double accuracy_drop;         // 0.1: share of rolling accuracy, performance_degradation from
    double first_progress;        // 0.1: share of the run before which that is not looked at
    double plateau_points;        // 0.5: change of rolling accuracy below which it is a plateau
    double trend_points;          // 2: change above which it is a trend
    double attribution_ratio;     // 5: contribution over improvement, from it reward hacking
    double costly_contribution;   // 10: costly_dependence from it, when all seeds together cost
    double costly_loss;           // 10: this many points or more
    double critical_contribution; // 20: costly_dependence is critical from it
    double memory_share;          // 0.85: of the device, memory_warning from it
    double memory_quiet_seconds;  // 60: between two memory warnings of a device
    int64_t n_listed_hosts;       // 100: rows of one es_anomaly_check_hosts
} EsAnomalyLimits;

EsAnomalyLimits es_anomaly_limits_defaults(void);

// A head of the policy: its entropy is a share of the largest possible, 0 to 1.
typedef struct EsAnomalyHead {
    const char *name;
    double lowest_entropy;
} EsAnomalyHead;

#define ES_ANOMALY_MAX_HEADS   16
#define ES_ANOMALY_MAX_DEVICES 8
#define ES_ANOMALY_WINDOW      10 // rounds of rolling accuracy

// The heads of the growth policy, in its order.
#define ES_N_GROWTH_HEADS 8
extern const EsAnomalyHead es_anomaly_growth_heads[ES_N_GROWTH_HEADS];

// State from report to report. Plain numbers: a checkpoint may keep them as they are.
typedef struct EsAnomalyState {
    double gradient_norm_mean; // running means, of finite values alone
    double gradient_health_mean;
    int64_t n_gradients;                         // in these means
    int32_t n_low_updates[ES_ANOMALY_MAX_HEADS]; // per head, since it was last clear
    double accuracy[ES_ANOMALY_WINDOW];          // ring: round n is at n % ES_ANOMALY_WINDOW
    int64_t n_accuracies;                        // ever put in
    double rolling_accuracy;                     // mean of the ring; valid when n_accuracies > 0
} EsAnomalyState;

typedef struct EsAnomalyDetector {
    EsAnomalyLimits limits;
    const EsAnomalyHead *heads; // borrowed [n_heads]
    int n_heads;
    EsAnomalyState state;
    double memory_warned_s[ES_ANOMALY_MAX_DEVICES]; // clock of the last warning, missing = none
} EsAnomalyDetector;

// A state that was read from the file `path`: INPUT names the number that no report can have left.
EsStatus es_anomaly_state_check(const EsAnomalyState *state, const char *path);

// Start with nothing remembered. `limits` NULL: the defaults. At most ES_ANOMALY_MAX_HEADS heads;
// they stay borrowed while the detector is used.
void es_anomaly_detector_reset(EsAnomalyDetector *detector, const EsAnomalyLimits *limits,
                               const EsAnomalyHead *heads, int n_heads);

// --- reports and checks: rows are added to `found`, which the caller resets ---

typedef struct EsLstmHealth {
    double rms;         // over all environments
    double env_rms_max; // of the environment where it is largest
} EsLstmHealth;

// One update of the policy. Begin with es_update_health_unmeasured and fill in the known ones.
typedef struct EsUpdateHealth {
    double policy_loss, value_loss, bellman_error;
    double entropy; // of all heads, a share of the largest possible, 0 to 1
    double kl_divergence, clip_fraction, explained_variance;
    double ratio_min, ratio_max;
    double gradient_norm;          // before clipping
    int64_t n_nonfinite_gradients; // values
    int64_t n_usable_steps;        // rows that trained the actor; value_collapse needs some
    const double *head_entropy;    // borrowed [n_heads] in the detector's order, nullable
    EsLstmHealth lstm_h, lstm_c;
    int lstm_has_nan, lstm_has_inf;
} EsUpdateHealth;

EsUpdateHealth es_update_health_unmeasured(void);

// Ratios, value fit, entropies, KL, gradient drift, recurrent state, numbers that are not finite.
void es_anomaly_check_update(EsAnomalyDetector *detector, const EsUpdateHealth *health,
                             EsAnomalyList *found);

typedef struct EsRoundHealth {
    double accuracy; // mean of the round, percent
    double progress; // share of the run that is done, 0 to 1
} EsRoundHealth;

// Accuracy over rounds. The rolling accuracy is the mean of the last ten rounds, this one among
// them, as in round_completed. Performance degradation goes to `found`. Returns 1 when there is a
// trend, then in *trend: plateau, degradation or improvement of the rolling accuracy since the
// round before.
int es_anomaly_check_round(EsAnomalyDetector *detector, const EsRoundHealth *health,
                           EsAnomalyList *found, EsTrendDetectedEvent *trend);

typedef struct EsHostsHealth {
    const double *loss; // borrowed [n_hosts]
    int64_t n_hosts;
    int64_t first_env; // global index of the first host
} EsHostsHealth;

// One row of numerical_instability per host whose loss is not finite, n_listed_hosts at most; the
// detail of each gives the exact count. Returns that count.
int64_t es_anomaly_check_hosts(const EsAnomalyDetector *detector, const EsHostsHealth *health,
                               EsAnomalyList *found);

typedef struct EsRewardHealth {
    int64_t env;
    const char *slot;    // borrowed
    double contribution; // percent points lost without the seed
    double improvement;  // percent points of the host since germination
    double joint;        // percent points lost without any of the seeds that can be taken out
} EsRewardHealth;

// Seeds that are rewarded for more than came of them (attribution_ratio), and seeds that a host
// cannot do without although it would do better without any (costly_dependence; in records before
// it was called so, ransomware_signature).
void es_anomaly_check_reward(const EsAnomalyDetector *detector, const EsRewardHealth *seeds,
                             int64_t n_seeds, EsAnomalyList *found);

typedef struct EsMemoryHealth {
    int device;       // 0 to ES_ANOMALY_MAX_DEVICES - 1, has its own quiet time
    const char *name; // borrowed, "cuda:0"
    int64_t allocated_bytes, total_bytes;
} EsMemoryHealth;

// `now_s` are seconds of a clock that does not go back.
void es_anomaly_check_memory(EsAnomalyDetector *detector, const EsMemoryHealth *health,
                             double now_s, EsAnomalyList *found);

#endif
