// The words of the console: progress of a round, warnings, numbers and durations for people.
#ifndef ES_TELEMETRY_CONSOLE_LINE_H
#define ES_TELEMETRY_CONSOLE_LINE_H

#include "telemetry/event.h"
#include "telemetry/text.h"

// The progress of a round. Missing parts are left out of its line.
typedef struct EsConsoleProgress {
    const char *unit;        // "round" or "epoch"
    int64_t round, n_rounds; // n_rounds 0: unknown
    double percent;          // of the round's training; missing once it is complete
    int64_t n_steps_done;    // ES_MISSING_INT once the round is complete
    double rate;
    const char *rate_unit; // "images/s" or "steps/s"
    double accuracy;       // percent of the validation images, mean over environments
    const char *measured;  // the accuracy's name: "validation", "right"
    double best;           // percent of the validation samples, of the best network so far
    int64_t n_parameters;  // of that network
    double mrr;            // of a validation
    double reward;
    double entropy, kl_divergence; // of the policy's update
    int64_t n_seeds;
    double seconds_left;
} EsConsoleProgress;

EsConsoleProgress es_console_progress(int64_t round, int64_t n_rounds);

// round 12/200  1,234 steps/s  validation 71.3 %  reward 4.20  entropy 0.61  KL 0.0121  seeds 17
// left 3 min 20 s, in one line. The current round has "trained 35 %" or "step 12" after its number.
// A validation that ranked queries adds "MRR 0.412" behind it. A fit has
// epoch 7/20  trained 35 %  best 91.2 %  19,123 parameters  left 1 min 20 s
// When the line would be longer than max_columns, seeds, KL, entropy, reward, step, rate, MRR,
// parameters, accuracy, best, the share trained and the time left are given up, in this order.
void es_console_add_progress(EsText *text, const EsConsoleProgress *progress, size_t max_columns);

// A row of evaluation_progressed, as
// comparing policies: 128 of 256 episodes, the last by heuristic  left 12 s
// When the line would be longer than max_columns, the policy and the time left are given up.
void es_console_add_evaluation(EsText *text, const EsPacket *packet, size_t max_columns);

// A row of anomaly_detected, as
// warning: ratio_explosion in round 12, environment 3: <detail>
// and without a detail "12.5 against a threshold of 10" in its place.
void es_console_add_anomaly(EsText *text, const EsPacket *packet, int64_t row);

// A row of governor_rollback.
void es_console_add_rollback(EsText *text, const EsPacket *packet, int64_t row);
void es_console_add_trainer_event(EsText *text, const EsPacket *packet, int64_t row);

// A row of seed_germinated, seed_fossilized or seed_pruned of a fit, as
// candidate 2: conv_light germinated in r1c0, 1,184 parameters
// candidate 2: conv_light pruned in r1c0: policy_prune
void es_console_add_seed(EsText *text, const EsPacket *packet, int64_t row);

// "45 s", "3 min 20 s", "2 h 05 min", "3 d 04 h"; `seconds` >= 0 and finite.
void es_console_add_duration(EsText *text, double seconds);

#endif
