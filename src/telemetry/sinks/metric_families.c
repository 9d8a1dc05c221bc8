// The table of metrics, and finding one by its name.
#include "telemetry/sinks/metric_families.h"

#include <string.h>

#include "base/macros.h"

static const EsMetricFamily families[] = {
    // every kind of run, of the newest round or epoch
    {"charts/SPS", "gauge", "Environment steps per second of the newest round."},
    {"charts/episodic_return", "gauge", "Mean reward of an episode of the newest round."},
    {"charts/learning_rate", "gauge", "Learning rate of the newest update of the policy."},
    {"esper.round.images_per_second", "gauge", "Training images per second of the newest round."},
    {"esper.round.accuracy", "gauge",
     "Accuracy of the newest round, percent: mean of its episodes or hosts on the validation "
     "split, the best candidate of a fit, true queries proved."},
    {"esper.round.rolling_accuracy", "gauge", "Mean accuracy of the last ten rounds, percent."},
    {"esper.round.loss", "gauge", "Validation loss of the newest round, nats per sample."},
    {"esper.round.seconds", "gauge", "Wall clock of the newest round, seconds."},
    {"esper.round.utilisation", "gauge",
     "Processor time of the process over wall clock times threads, newest round, percent."},
    {"esper.round.seeds", "gauge", "Living seeds of all hosts at the end of the newest round."},
    {"esper.round.fossils", "gauge", "Fossilised seeds of all hosts at the end of the round."},
    {"esper.tasks.gain", "gauge",
     "Validation accuracy gained over hosts that waited, percent points, mean of the round."},
    // updates of a policy (PPO)
    {"losses/policy_loss", "gauge", "Clipped policy loss of the newest update."},
    {"losses/value_loss", "gauge", "Value loss of the newest update."},
    {"losses/entropy", "gauge", "Entropy of the policy in the newest update, nats per decision."},
    {"losses/approx_kl", "gauge", "Estimated KL divergence from the policy before it, nats."},
    {"losses/clipfrac", "gauge", "Share of ratios that were clipped, 0 to 1."},
    {"losses/explained_variance", "gauge", "Share of the returns' variance explained by values."},
    {"losses/action_value_loss", "gauge", "Loss of the values of actions in the newest update."},
    {"losses/auxiliary_loss", "gauge", "Loss of the auxiliary predictions in the newest update."},
    {"losses/entropy_floor", "gauge", "Penalty for heads whose entropy is below their floor."},
    {"policy/gradient_norm", "gauge", "L2 norm of the policy's gradient before clipping."},
    {"policy/value_gradient_norm", "gauge", "L2 norm of the value head's gradient."},
    {"policy/value_mean", "gauge", "Mean of the predicted values, in units of reward."},
    {"policy/value_std", "gauge", "Standard deviation of the predicted values."},
    {"policy/return_mean", "gauge", "Mean of the returns, in units of reward."},
    {"policy/return_std", "gauge", "Standard deviation of the returns."},
    {"policy/value_scale", "gauge", "Scale by which values are normalised."},
    {"policy/reward_scale", "gauge", "Scale by which rewards are divided."},
    {"policy/advantage_std", "gauge", "Standard deviation of advantages before normalising."},
    {"policy/bellman_error", "gauge", "Mean squared temporal difference of the values."},
    {"policy/value_correlation", "gauge", "Correlation of values and returns, -1 to 1."},
    {"policy/auxiliary_explained", "gauge", "Explained variance of the auxiliary predictions."},
    {"policy/forced_ratio", "gauge", "Share of decisions without a choice, 0 to 1."},
    {"policy/epochs", "gauge", "Passes over the round's decisions in the newest update."},
    {"policy/*_entropy", "gauge", "Entropy of one head of the policy, nats."},
    {"policy/*_clipfrac", "gauge", "Share of clipped ratios of one head, 0 to 1."},
    {"policy/*_gradient_norm", "gauge", "L2 norm of the gradient of one head."},
    // proofs
    {"proof/positives_proved", "gauge", "True queries proved in the newest round, percent."},
    {"proof/negatives_proved", "gauge", "Corrupted queries proved in the round, percent."},
    {"proof/depth", "gauge", "Mean actions of an episode of the newest round."},
    {"proof/successors", "gauge", "Mean choices of a step of the newest round."},
    {"proof/entropy_coefficient", "gauge", "Weight of the entropy bonus in the newest update."},
    {"proof/overlong", "gauge", "Successors dropped in the round for the limit on atoms."},
    {"proof/overflow", "gauge", "Successors dropped in the round for the limit on choices."},
    {"proof/states", "gauge", "Distinct states that the newest round saw or was offered."},
    {"proof/validation_mrr", "gauge", "Mean reciprocal rank of the newest validation, 0 to 1."},
    {"proof/validation_hits_10", "gauge", "Share of ranks up to 10 of the validation, 0 to 1."},
    {"proof/validation_proved", "gauge", "Queries proved in the newest validation, percent."},
    {"proof/validation_negatives_proved", "gauge",
     "Corruptions proved in the newest validation, percent."},
    // hosts that never grow
    {"esper.hosts.test_accuracy", "gauge", "Mean test accuracy of the hosts at the end, percent."},
    {"esper.hosts.test_accuracy_std", "gauge", "Its standard deviation over hosts, percent."},
    // fits
    {"esper.fit.best_accuracy", "gauge",
     "Validation accuracy of the best network so far, percent; -1 before there is one."},
    {"esper.fit.test_accuracy", "gauge",
     "Test accuracy of the network that the fit keeps, percent; at its end."},
    {"esper.fit.parameters", "gauge", "Parameters of the best network so far; 0 before."},
    {"esper.fit.candidates", "gauge", "Candidates that go on after the newest epoch."},
    {"esper.fit.epoch_first_ms", "gauge", "First epoch of the session, milliseconds."},
    {"esper.fit.epoch_p50_ms", "gauge", "Median epoch of the session, milliseconds."},
    {"esper.fit.epoch_p95_ms", "gauge", "95th percentile of its epochs, milliseconds."},
    {"esper.fit.epoch_p99_ms", "gauge", "99th percentile of its epochs, milliseconds."},
    {"esper.fit.write_p50_ms", "gauge", "Median durable write of the session, milliseconds."},
    {"esper.fit.write_p95_ms", "gauge", "95th percentile of its writes, milliseconds."},
    {"esper.rails.threads_abandoned", "gauge",
     "Threads of controller and seeds that did not return in time, at most 4."},
    // names of the source documents
    {"tolaria.training.loss", "gauge", "Training loss of the best candidate, nats per sample."},
    {"tolaria.training.accuracy", "gauge", "Its training accuracy, share from 0 to 1."},
    {"tolaria.training.latency_ms", "gauge", "Wall clock of the newest epoch, milliseconds."},
    {"tolaria.seeds.active", "gauge", "Living seeds of all candidates."},
    {"tolaria.epoch_hook.latency_ms", "gauge", "Decisions of the newest epoch, milliseconds."},
    {"tolaria.hook.latency_ms", "gauge",
     "Decisions of the newest epoch, milliseconds, by its other name."},
    {"tolaria.breaker.state", "gauge", "Circuit breaker: 1 closed, 2 open, 3 half open."},
    {"tolaria.mode.conservative", "gauge", "1 while the controller is not asked, otherwise 0."},
    {"tolaria.epochs.total", "counter", "Epochs since the run began, sessions included."},
    {"tolaria.epochs.failed", "counter", "Epochs that failed since the run began."},
    {"tolaria.timeout.tamiyo_total", "counter", "Decisions that missed their deadline."},
    {"tolaria.timeout.tamiyo_last_ms", "gauge",
     "Last decision in time, milliseconds; 0 after a time-out."},
    {"tolaria.timeout.kasmina_total", "counter",
     "Preparations of seeds that missed their deadline."},
    {"tolaria.timeout.kasmina_last_ms", "gauge",
     "Last preparation in time, milliseconds; 0 after a time-out or an error."},
    {"tolaria.emergency.halt", "gauge", "1 when the rails end the fit, otherwise 0."},
    {"tolaria.emergency.halts_total", "counter", "Times that the rails ended the fit."},
    {"tolaria.emergency.level", "gauge", "Emergency level, 1 to 4."},
    {"tolaria.emergency.broadcasts_total", "counter", "Lines written to the emergency file."},
    {"tolaria.emergency.broadcast_failures_total", "counter",
     "Lines of the emergency file that failed or were late."},
    {"tolaria.emergency.last_broadcast_latency_ms", "gauge",
     "Last line of the emergency file, milliseconds."},
    {"tolaria.emergency.bypass_applied_total", "counter",
     "Lines of the emergency file that arrived after they had failed."},
    {"tolaria.emergency.bypass_dropped_total", "counter",
     "Lines of the emergency file that were dropped."},
    {"tolaria.rollback.fast_size_bytes", "gauge", "States of good epochs in memory, bytes."},
    {"tolaria.rollback.snapshots_total", "counter", "States put into memory in this session."},
    {"tolaria.rollback.fast_hits_total", "counter", "Epochs undone from memory."},
    {"tolaria.rollback.fast_misses_total", "counter", "Rollbacks without a state in memory."},
    {"tolaria.rollback.failures_total", "counter", "Restores of a checkpoint that failed."},
    {"tolaria.rollback.deadline_exceeded_total", "counter", "Restores that were late."},
    {"tolaria.rollback.restore_latency_ms", "gauge", "Last rollback, milliseconds."},
    {"tolaria.grad_agg.microbatches_total", "gauge", "Updates of the epoch, all candidates."},
    {"tolaria.grad_agg.conflicts", "gauge", "Pairs of routes in conflict, over the epoch."},
    {"tolaria.grad_agg.pcgrad_applied", "gauge", "1 when conflicts were taken off, otherwise 0."},
    {"tolaria.grad_agg.conflict_ratio", "gauge",
     "Share of the pairs of routes in conflict, mean over the epoch, 0 to 1."},
    {"tolaria.grad_agg.teacher_share", "gauge",
     "Share of the gradient past the seeds in the norms of all routes, mean over the epoch."},
    {"kasmina.seeds.active", "gauge", "Living seeds of all candidates, as the seeds count them."},
    {"kasmina.seed.stage", "gauge",
     "Stage of a seed: 1 dormant, 2 germinated, 3 training, 4 blending, 6 holding, "
     "7 fossilised, 8 to 10 cooling down."},
    {"kasmina.seed.alpha", "gauge", "Share of a seed in the blend, 0 to 1."},
    {"kasmina.seed.alpha_steps", "gauge", "Steps of a seed's ramp so far."},
    {"kasmina.prefetch.inflight", "gauge", "Graphs of possible seeds that wait or are being made."},
    {"kasmina.prefetch.requests_total", "counter", "Graphs of possible seeds that were requested."},
    {"kasmina.prefetch.ready_total", "counter", "Graphs of possible seeds that were made ahead."},
    {"kasmina.prefetch.used_total", "counter", "Graphs made ahead that a decision took."},
    {"kasmina.prefetch.stale_total", "counter", "Graphs made ahead that were not wanted any more."},
    {"kasmina.prefetch.error_total", "counter", "Graphs that could not be made ahead."},
    {"kasmina.prefetch.timeout_total", "counter", "Graphs that were not made ahead in time."},
    {"kasmina.prefetch.canceled_total", "counter",
     "Graphs that were needed, or not wanted any more, before they were made."},
    {"kasmina.prefetch.latency_ms", "gauge",
     "Mean time from request to ready of graphs made ahead, milliseconds."},
    {"kasmina.prefetch.last_latency_ms", "gauge",
     "Time from request to ready of the last graph made ahead, milliseconds."},
    {"tamiyo.inference.latency_ms", "gauge",
     "Last decision of the policy in time, milliseconds; 0 after a time-out."},
};

static int is_family_of(const EsMetricFamily *family, const char *raw_name) {
    const char *star = strchr(family->name, '*');
    if (star == NULL) {
        return strcmp(family->name, raw_name) == 0;
    }
    size_t head = (size_t)(star - family->name), tail = strlen(star + 1), bytes = strlen(raw_name);
    return bytes > head + tail && strncmp(family->name, raw_name, head) == 0 &&
           strcmp(raw_name + bytes - tail, star + 1) == 0;
}

const EsMetricFamily *es_metric_family_find(const char *raw_name) {
    for (size_t i = 0; i < ES_COUNT_OF(families); i++) {
        if (is_family_of(&families[i], raw_name)) {
            return &families[i];
        }
    }
    return NULL;
}
