// The list of views: columns with their descriptions, and the SELECT of each.
#include "telemetry/sinks/sqlite_views.h"

#include <stddef.h>

#include "base/macros.h"

#define TIME_OF(column) "strftime('%Y-%m-%d %H:%M:%S', " column ", 'unixepoch')"

static const EsViewColumn runs_columns[] = {
    {"run_id", "name of the run folder"},
    {"kind", "grow, fit, prove or hosts"},
    {"task", "preset of hosts and data"},
    {"device", "what it runs on"},
    {"build", "version, commit, compiler"},
    {"seed", "of the run"},
    {"n_envs", "environments of all ranks"},
    {"n_rounds", "rounds asked for, by the latest session"},
    {"last_round", "newest round that was completed"},
    {"n_host_parameters", "of one host before it grows"},
    {"n_ranks", "processes of the run"},
    {"started", "the first session, UTC"},
    {"n_sittings", "1 + how often it was resumed"},
    {"outcome", "of the last session that ended: done, interrupted, failed or halted"},
    {"detail", "why it failed"},
    {"seconds", "of all sessions that ended"},
    {"n_dropped", "packets of lossy events dropped by all sinks"},
    {"n_lost", "packets of kept events lost by all sinks"},
    {"config", "the effective configuration, INI"},
};
// settings as of the latest session
static const char runs_select[] =
    "SELECT s.run_id, s.kind, s.task, s.device, s.build, s.seed, s.n_envs, s.n_rounds,\n"
    "  (SELECT max(round) FROM event_round_completed), s.n_host_parameters, s.n_ranks,\n"
    "  (SELECT " TIME_OF(
        "min(unix_time)") " FROM event_run_started),\n"
                          "  1 + (SELECT count(*) FROM event_checkpoint_loaded),\n"
                          "  e.outcome, e.detail, t.seconds, t.n_dropped, t.n_lost, s.config\n"
                          "FROM event_run_started s\n"
                          "LEFT JOIN event_run_ended e ON e.rowid = (SELECT max(rowid) FROM "
                          "event_run_ended)\n"
                          "LEFT JOIN (SELECT sum(seconds) AS seconds, sum(n_dropped) AS "
                          "n_dropped,\n"
                          "  sum(n_lost) AS n_lost FROM event_run_ended) t\n"
                          "WHERE s.rowid = (SELECT max(rowid) FROM event_run_started)";

static const EsViewColumn rounds_columns[] = {
    {"round", "from 1"},
    {"time", "when it was completed, UTC"},
    {"n_episodes", "ended so far in the run"},
    {"accuracy", "mean final accuracy of the round's episodes, percent"},
    {"accuracy_std", "over the episodes"},
    {"rolling_accuracy", "mean of the last ten rounds"},
    {"reward", "mean reward of an episode"},
    {"loss", "mean final loss"},
    {"n_seeds", "alive at the end of the round"},
    {"n_fossils", "at the end of the round"},
    {"seconds", "of the round"},
    {"state_hash", "of every bit the run holds at its end; equal runs have equal ones"},
    {"policy_loss", "of the round's update; this and what follows is NULL without one"},
    {"value_loss", ""},
    {"entropy", ""},
    {"kl_divergence", ""},
    {"clip_fraction", ""},
    {"explained_variance", ""},
    {"n_plan_builds", "plans built so far in the session; CPU"},
    {"plan_build_ms", "of all of them"},
    {"n_captures", "parts of a step that are replayed; CUDA"},
    {"capture_ms", "of all of them"},
    {"n_replays", "so far in the session"},
    {"n_fallbacks", "parts of a step that could not be captured"},
};
static const char rounds_select[] = "SELECT r.round, " TIME_OF(
    "r.unix_time") ", r.n_episodes, r.accuracy, r.accuracy_std,\n"
                   "  r.rolling_accuracy, r.reward, r.loss, r.n_seeds, r.n_fossils, r.seconds, "
                   "r.state_hash, u.policy_loss,\n"
                   "  u.value_loss, u.entropy, u.kl_divergence, u.clip_fraction, "
                   "u.explained_variance,\n"
                   "  p.n_builds, p.build_ms, p.n_captures, p.capture_ms, p.n_replays, "
                   "p.n_fallbacks\n"
                   "FROM event_round_completed r\n"
                   "LEFT JOIN event_update_completed u ON u.rowid =\n"
                   "  (SELECT max(rowid) FROM event_update_completed WHERE round = r.round)\n"
                   "LEFT JOIN event_plans_measured p ON p.rowid =\n"
                   "  (SELECT max(rowid) FROM event_plans_measured WHERE round = r.round)";

static const EsViewColumn episodes_columns[] = {
    {"round", ""},
    {"env", "global index"},
    {"episode", "id"},
    {"arm", "policy of a held-out episode; NULL in training"},
    {"final_accuracy", "validation, percent"},
    {"final_loss", ""},
    {"test_accuracy", "percent; held-out episodes alone"},
    {"parameter_ratio", "all parameters over the host's; 1 = no growth"},
    {"n_fossils", ""},
    {"n_contributing", "fossils that contributed when fossilised"},
    {"reward", "sum over the episode"},
    {"stability", "1 / (1 + variance of the last 20 rewards)"},
    {"n_steps", "length"},
    {"n_germinated", ""},
    {"n_pruned", ""},
    {"n_rollbacks", ""},
    {"query", "proofs alone, as the rest: a sample of the episodes"},
    {"label", "1: taken to be true, 0: a corruption"},
    {"is_proved", ""},
    {"task", "of growth: what was drawn for it"},
    {"control_accuracy", "of growth: validation, percent, of the host that waited beside it"},
};
// an episode that a later session took further has an outcome in each; the newest counts
static const char episodes_select[] =
    "SELECT round, env, episode, arm, final_accuracy, final_loss, test_accuracy,\n"
    "  parameter_ratio, n_fossils, n_contributing, reward, stability, n_steps, n_germinated,\n"
    "  n_pruned, n_rollbacks, NULL, NULL, NULL, task, control_accuracy\n"
    "FROM event_episode_outcome WHERE env IS NULL OR episode IS NULL OR rowid IN\n"
    "  (SELECT max(rowid) FROM event_episode_outcome GROUP BY env, episode, arm)\n"
    "UNION ALL\n"
    "SELECT round, env, episode, NULL, 100.0 * (label = is_proved), NULL, NULL, NULL, NULL, NULL,\n"
    "  reward, NULL, n_steps, NULL, NULL, NULL, query, label, is_proved, NULL, NULL\n"
    "FROM event_proof_episode";

static const EsViewColumn variants_columns[] = {
    {"variant", "policy, baseline, or settings of a sweep; NULL: training"},
    {"n_episodes", "held-out ones are the same for all"},
    {"test_accuracy", "mean, percent"},
    {"test_std", "over the episodes"},
    {"difference", "to the first variant, paired by episode: mean of this one less that one"},
    {"accuracy", "validation, mean, percent"},
    {"parameter_ratio", "all parameters over the host's, mean"},
    {"n_fossils", "mean"},
    {"reward", "of an episode, mean; NULL of what does not grow"},
};
static const char variants_select[] =
    "SELECT e.arm, count(*), avg(e.test_accuracy), CASE WHEN count(*) > 1 THEN\n"
    "  sqrt(max(sum((e.test_accuracy - m.test) * (e.test_accuracy - m.test)), 0) /\n"
    "  (count(*) - 1)) END,\n"
    "  avg(e.test_accuracy - f.test_accuracy), avg(e.final_accuracy), avg(e.parameter_ratio),\n"
    "  avg(e.n_fossils), avg(e.reward)\n"
    "FROM episodes e\n"
    "JOIN (SELECT arm, avg(test_accuracy) AS test FROM episodes GROUP BY arm) m\n"
    "  ON m.arm IS e.arm\n"
    "LEFT JOIN episodes f ON f.episode = e.episode AND f.arm = (SELECT arm FROM\n"
    "  event_episode_outcome WHERE arm IS NOT NULL ORDER BY rowid LIMIT 1)\n"
    "GROUP BY e.arm ORDER BY avg(e.test_accuracy) DESC";

static const EsViewColumn seeds_columns[] = {
    {"seed_id", "unique in the run"},
    {"round", ""},
    {"env", "global index"},
    {"episode", "id"},
    {"slot", "r0c1, ..."},
    {"blueprint", ""},
    {"style", "ADD, MULTIPLY or GATE"},
    {"tempo", "steps a blend takes"},
    {"n_parameters", "of the seed"},
    {"germinated_step", "in the round"},
    {"stages", "the stages it went through, in order: TRAINING > BLENDING > ..."},
    {"last_stage", ""},
    {"n_gates_failed", "evaluations of a gate that did not let it pass"},
    {"outcome", "fossilized, pruned, or alive (when the episode ended, or still)"},
    {"end_step", "in the round; NULL when alive"},
    {"n_steps_alive", ""},
    {"improvement", "percent points since germination"},
    {"contribution", "percent points lost without it"},
    {"prune_reason", ""},
    {"prune_initiator", "policy, schedule or governor"},
};
// Every part is grouped once and joined by seed_id; a subquery per seed would be quadratic. Within
// a run (round, sequence, row) is the order of emission, also across sessions.
static const char seeds_select[] =
    "SELECT g.seed_id, g.round, g.env, g.episode, g.slot, g.blueprint, g.style, g.tempo,\n"
    "  g.n_parameters, g.step, s.stages, s.last_stage, coalesce(f.n_failed, 0),\n"
    "  CASE WHEN h.seed_id IS NOT NULL THEN 'fossilized' WHEN p.seed_id IS NOT NULL THEN 'pruned'\n"
    "    ELSE 'alive' END,\n"
    "  coalesce(h.step, p.step), coalesce(h.n_steps_alive, p.n_steps_alive),\n"
    "  CASE WHEN h.seed_id IS NOT NULL THEN h.improvement ELSE p.improvement END,\n"
    "  CASE WHEN h.seed_id IS NOT NULL THEN h.contribution ELSE p.contribution END,\n"
    "  p.reason, p.initiator\n"
    "FROM event_seed_germinated g\n"
    "LEFT JOIN (SELECT DISTINCT seed_id,\n"
    "    group_concat(to_stage, ' > ') OVER history AS stages,\n"
    "    last_value(to_stage) OVER history AS last_stage\n"
    "  FROM event_seed_stage_changed WINDOW history AS (PARTITION BY seed_id\n"
    "    ORDER BY round, sequence, row\n"
    "    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) s ON s.seed_id = g.seed_id\n"
    "LEFT JOIN (SELECT seed_id, count(*) AS n_failed FROM event_seed_gate_evaluated\n"
    "  WHERE passed = 0 GROUP BY seed_id) f ON f.seed_id = g.seed_id\n"
    "LEFT JOIN (SELECT max(rowid), * FROM event_seed_fossilized GROUP BY seed_id) h\n"
    "  ON h.seed_id = g.seed_id\n"
    "LEFT JOIN (SELECT max(rowid), * FROM event_seed_pruned GROUP BY seed_id) p\n"
    "  ON p.seed_id = g.seed_id";

static const EsViewColumn decisions_columns[] = {
    {"round", ""},
    {"step", "in the round; recorded on steps that are a multiple of the stride"},
    {"env", "global index"},
    {"episode", "id"},
    {"op", "WAIT, GERMINATE, ..."},
    {"slot", "NULL for WAIT"},
    {"blueprint", "only GERMINATE"},
    {"style", "GERMINATE and SET_ALPHA_TARGET"},
    {"tempo", "only GERMINATE"},
    {"alpha_target", "GERMINATE and SET_ALPHA_TARGET"},
    {"alpha_speed", "SET_ALPHA_TARGET and PRUNE"},
    {"alpha_curve", "SET_ALPHA_TARGET and PRUNE"},
    {"confidence", "probability of the op chosen"},
    {"entropy", "of the op head"},
    {"value", "of the state"},
    {"is_forced", "1 when no other op was legal"},
    {"is_success", "1 when the operation was carried out"},
    {"refusal", "why it was not"},
    {"op_probabilities", "JSON: legal ops with their probabilities; null: the policy has none"},
    {"slot_probabilities", "given the op; for WAIT the slots that other legal ops have"},
    {"blueprint_probabilities", "given op and slot; NULL where the op reads none, likewise below"},
    {"style_probabilities", ""},
    {"tempo_probabilities", ""},
    {"alpha_target_probabilities", ""},
    {"alpha_speed_probabilities", ""},
    {"alpha_curve_probabilities", ""},
};
static const char decisions_select[] =
    "SELECT round, step, env, episode, op, slot, blueprint, style, tempo, alpha_target,\n"
    "  alpha_speed, alpha_curve, confidence, entropy, value, is_forced, is_success, refusal,\n"
    "  op_probabilities, slot_probabilities, blueprint_probabilities, style_probabilities,\n"
    "  tempo_probabilities, alpha_target_probabilities, alpha_speed_probabilities,\n"
    "  alpha_curve_probabilities\n"
    "FROM event_decision_taken";

static const EsViewColumn rewards_columns[] = {
    {"round", ""},
    {"step", "in the round; recorded on steps that are a multiple of the stride"},
    {"env", "global index"},
    {"episode", "id"},
    {"total", "the reward of the step"},
    {"attribution", ""},
    {"action", "terms of the operation chosen"},
    {"warning", "about a seed that harms or lingers"},
    {"synergy", "seeds that are better together"},
    {"rent", ""},
    {"shock", ""},
    {"occupancy", ""},
    {"terminal", ""},
    {"shaping", "0.3 (discounted potential - previous potential)"},
    {"penalty", "for seeds that the governor took out, and for rollbacks"},
};
static const char rewards_select[] =
    "SELECT round, step, env, episode, total, attribution, action, warning, synergy,\n"
    "  rent, shock, occupancy, terminal, shaping, penalty\n"
    "FROM event_reward_computed";

static const EsViewColumn contributions_columns[] = {
    {"round", ""},
    {"step", "in the round; recorded on steps that are a multiple of the stride"},
    {"env", "global index"},
    {"episode", "id"},
    {"slot", ""},
    {"contribution", "percent points lost without the seed"},
    {"velocity", ""},
    {"interaction", ""},
    {"shapley", "at the end of an episode"},
    {"shapley_error", "standard error; 0 when exact"},
};
static const char contributions_select[] =
    "SELECT round, step, env, episode, slot, contribution, velocity, interaction, shapley,\n"
    "  shapley_error\n"
    "FROM event_contribution_measured";

static const EsViewColumn seed_metrics_columns[] = {
    {"round", ""},
    {"step", "in the round; recorded on steps that are a multiple of the stride"},
    {"env", "global index"},
    {"episode", "id"},
    {"slot", "r0c1, ..."},
    {"seed_id", "unique in the run"},
    {"blueprint", ""},
    {"stage", "TRAINING, BLENDING, ..."},
    {"alpha", "share of the seed in the blend, 0 to 1"},
    {"gradient_norm", "L2, before clipping; NULL when not measured"},
    {"health", "of its gradient, 0 to 1"},
    {"ratio", "running average, its gradient to the host's, per parameter"},
    {"weight", "by stage and alpha: 0.25, 0.5, 1 before, in, after blending, (1 + alpha) / 2"},
    {"share", "of the sum of gradient norms of host and seeds"},
    {"conflicts", "other routes that its gradient opposed, over the updates; --aggregation"},
    {"conflict_ratio", "of the other routes; --aggregation"},
    {"teacher_share", "of the norms of all routes, past the seeds; --aggregation"},
};
static const char seed_metrics_select[] =
    "SELECT round, step, env, episode, slot, seed_id, blueprint, stage, alpha, gradient_norm,\n"
    "  health, ratio, weight, share, conflicts, conflict_ratio, teacher_share\n"
    "FROM event_seed_measured";

static const EsViewColumn anomalies_columns[] = {
    {"round", ""},
    {"step", "in the round, NULL when it concerns the whole round"},
    {"time", "UTC"},
    {"rule", "name under \"Anomaly rules\", or governor_rollback"},
    {"severity", "warning, error or critical"},
    {"event_name", "the source documents' event name"},
    {"env", "NULL when it concerns all"},
    {"value", "what was seen"},
    {"threshold", "what it was compared with"},
    {"detail", "a sentence"},
};
static const char anomalies_select[] = "SELECT round, step, " TIME_OF(
    "unix_time") ",\n"
                 "  CASE rule WHEN 'ransomware_signature' THEN 'costly_dependence' ELSE rule END,\n"
                 "  severity, event_name, env, value, threshold, detail\n"
                 "FROM event_anomaly_detected\n"
                 "UNION ALL\n"
                 "SELECT round, step, " TIME_OF(
                     "unix_time") ", 'governor_rollback', 'critical',\n"
                                  "  'GOVERNOR_ROLLBACK', env, loss, threshold,\n"
                                  "  'set back to its snapshot: ' || coalesce(reason, 'unknown "
                                  "reason')\n"
                                  "    || coalesce(', ' || n_consecutive || ' in a row', '')\n"
                                  "FROM event_governor_rollback";

static const EsViewColumn proofs_columns[] = {
    {"round", ""},
    {"time", "when it was completed, UTC"},
    {"n_positives", "episodes with a query taken to be true that ended"},
    {"n_negatives", "episodes with a corruption that ended"},
    {"positives_proved", "percent"},
    {"negatives_proved", "percent; they should not be"},
    {"depth", "mean actions of an episode"},
    {"successors", "mean choices of a step"},
    {"n_truncated", "episodes that the limit on depth ended"},
    {"n_by_end", "episodes that were given up"},
    {"n_overlong", "successors dropped for the limit on atoms"},
    {"n_overflow", "successors dropped for the limit on choices"},
    {"mrr", "of the validation after this round; NULL where there was none"},
};
static const char proofs_select[] = "SELECT p.round, " TIME_OF(
    "p.unix_time") ", p.n_positives, p.n_negatives, p.positives_proved,\n"
                   "  p.negatives_proved, p.depth, p.successors, p.n_truncated, p.n_by_end,\n"
                   "  p.n_overlong, p.n_overflow, v.mrr\n"
                   "FROM event_proof_round p\n"
                   "LEFT JOIN (SELECT round, max(rowid), mrr FROM event_proof_ranked\n"
                   "  WHERE split = 'valid' GROUP BY round) v ON v.round = p.round";

static const EsViewColumn proof_depths_columns[] = {
    {"round", ""},
    {"label", "1: queries taken to be true, 0: corruptions"},
    {"counted_by", "proof: depth is known before; actions: it is not"},
    {"depth", "steps of the query's shortest proof, or actions of the episode"},
    {"n_asked", "episodes that ended; all of them"},
    {"n_proved", ""},
    {"proved", "percent"},
    {"actions", "mean of an episode"},
};
static const char proof_depths_select[] =
    "SELECT round, label, counted_by, depth, n_asked, n_proved, 100.0 * n_proved / n_asked,\n"
    "  actions FROM event_proof_depth_counted";

static const EsViewColumn proof_predicates_columns[] = {
    {"round", ""},
    {"predicate", "of the query"},
    {"label", "1: queries taken to be true, 0: corruptions"},
    {"n_asked", "episodes that ended; all of them"},
    {"n_proved", ""},
    {"proved", "percent"},
    {"actions", "mean of an episode"},
};
static const char proof_predicates_select[] =
    "SELECT round, predicate, label, n_asked, n_proved, 100.0 * n_proved / n_asked, actions\n"
    "FROM event_proof_predicate_counted";

static const EsViewColumn proof_trees_columns[] = {
    {"round", ""},
    {"env", "global index"},
    {"episode", "of this environment, from 0"},
    {"query", ""},
    {"n_steps", "actions of the episode"},
    {"n_atoms", "of the tree, the query included"},
    {"proof", "a line per atom, two blanks a level: the atom, a tab, its rule or fact"},
};
static const char proof_trees_select[] =
    "SELECT round, env, episode, query, n_steps, n_atoms, proof FROM event_proof_found";

static const EsViewColumn rankings_columns[] = {
    {"round", "rounds that the policy had learned"},
    {"arm", "what scored: policy, untrained, proved, shortest, uniform, breadth"},
    {"split", "valid or test"},
    {"n_queries", ""},
    {"mrr", "mean reciprocal rank, 0 to 1"},
    {"mrr_low", "of its interval of 95 %"},
    {"mrr_high", ""},
    {"hits_1", "share of ranks up to 1"},
    {"hits_3", ""},
    {"hits_10", ""},
    {"queries_proved", "percent"},
    {"negatives_proved", "percent"},
    {"n_candidates", "queries and corruptions scored"},
    {"n_expanded", "states expanded for them"},
    {"n_limited", "candidates undecided at a limit"},
    {"seconds", ""},
    {"is_best", "1: of a validation, when none before was better"},
};
static const char rankings_select[] =
    "SELECT round, arm, split, n_queries, mrr, mrr_low, mrr_high, hits_1, hits_3, hits_10,\n"
    "  queries_proved, negatives_proved, n_candidates, n_expanded, n_limited, seconds, is_best\n"
    "FROM event_proof_ranked";

static const EsViewColumn throughput_columns[] = {
    {"round", ""},
    {"time", "when it was completed, UTC"},
    {"seconds", "of the round"},
    {"n_steps", "environment steps of the round"},
    {"n_images", "training images of the round"},
    {"steps_per_second", "environment steps"},
    {"images_per_second", "training images"},
    {"n_timed", "steps of all environments that were timed (on the stride)"},
    {"step_ms", "mean wall clock of those"},
    {"train_ms", "of that, training batches"},
    {"validate_ms", "validation and ablations"},
    {"decide_ms", "observation to reward"},
    {"utilisation", "percent: processor time of the process over wall clock times threads"},
};
static const char throughput_select[] = "SELECT r.round, " TIME_OF(
    "r.unix_time") ", r.seconds, r.n_steps, r.n_images,\n"
                   "  r.steps_per_second, r.images_per_second, coalesce(t.n_timed, 0), t.step_ms, "
                   "t.train_ms,\n"
                   "  t.validate_ms, t.decide_ms, r.utilisation\n"
                   "FROM event_round_completed r\n"
                   "LEFT JOIN (SELECT round, count(*) AS n_timed, avg(total_ms) AS step_ms,\n"
                   "    avg(train_ms) AS train_ms, avg(validate_ms) AS validate_ms, avg(decide_ms) "
                   "AS decide_ms\n"
                   "  FROM event_step_timed GROUP BY round) t ON t.round = r.round";

static const EsViewColumn metrics_columns[] = {
    {"name", "charts/SPS, losses/value_loss, tolaria.training.latency_ms, ..."},
    {"round", ""},
    {"time", "UTC"},
    {"value", ""},
    {"seed_id", "label: the seed it is of; NULL where it is of no single one"},
    {"stage", "label: of that seed"},
    {"layer", "label: the layer it is of"},
};
static const char metrics_select[] =
    "SELECT name, round, " TIME_OF("unix_time") ", value, seed_id, stage, layer FROM event_metric";

static const EsViewColumn trainer_events_columns[] = {
    {"round", "the epoch"},
    {"time", "UTC"},
    {"name", "tolaria.epoch_budget_exceeded, ..."},
    {"level", "info, warning, error or critical"},
    {"attributes", "a JSON object; use json_extract(attributes, '$.latency_ms')"},
};
static const char trainer_events_select[] =
    "SELECT round, " TIME_OF("unix_time") ", name, level, attributes FROM event_trainer_event";

static const EsViewColumn epochs_columns[] = {
    {"epoch", "from 1"},
    {"time", "UTC"},
    {"latency_ms", "wall clock of training, measuring and deciding"},
    {"hook_ms", "of the controller's decisions"},
    {"loss", "of training, of the best candidate"},
    {"accuracy", "of training, of the best candidate, 0 to 1"},
    {"breaker", "1 closed, 2 open, 3 half open"},
    {"is_conservative", "1 while the controller is not asked"},
    {"n_failed", "epochs so far that broke a budget or a deadline"},
};
static const char epochs_select[] =
    "SELECT e.round, e.time, l.value, h.value, t.value, a.value, b.value, c.value, f.value\n"
    "FROM (SELECT round, max(time) AS time FROM metrics\n"
    "  WHERE name = 'tolaria.training.latency_ms' GROUP BY round) e\n"
    "JOIN metrics l ON l.round = e.round AND l.name = 'tolaria.training.latency_ms'\n"
    "LEFT JOIN metrics h ON h.round = e.round AND h.name = 'tolaria.hook.latency_ms'\n"
    "LEFT JOIN metrics t ON t.round = e.round AND t.name = 'tolaria.training.loss'\n"
    "LEFT JOIN metrics a ON a.round = e.round AND a.name = 'tolaria.training.accuracy'\n"
    "LEFT JOIN metrics b ON b.round = e.round AND b.name = 'tolaria.breaker.state'\n"
    "LEFT JOIN metrics c ON c.round = e.round AND c.name = 'tolaria.mode.conservative'\n"
    "LEFT JOIN metrics f ON f.round = e.round AND f.name = 'tolaria.epochs.failed'";

static const EsViewColumn action_distribution_columns[] = {
    {"round", ""},
    {"op", "WAIT, GERMINATE, ..."},
    {"n", "recorded decisions"},
    {"percent", "of the recorded decisions of the round"},
    {"n_forced", "no other op was legal"},
    {"n_success", "carried out"},
};
static const char action_distribution_select[] =
    "SELECT round, op, count(*),\n"
    "  100.0 * count(*) / sum(count(*)) OVER (PARTITION BY round), sum(is_forced),\n"
    "  sum(is_success)\n"
    "FROM event_decision_taken GROUP BY round, op";

static const EsViewColumn reward_calibration_columns[] = {
    {"arm", "policy of held-out episodes; NULL: training"},
    {"n", "episodes with both numbers"},
    {"accuracy_mean", "percent"},
    {"accuracy_std", "of the sample"},
    {"reward_mean", ""},
    {"reward_std", "of the sample"},
    {"reward_min", ""},
    {"reward_max", ""},
    {"correlation", "Pearson's, of final accuracy and reward"},
    {"status", "well_calibrated (>= 0.7), moderate (>= 0.3), weak (>= 0), inverted, or "
               "insufficient_data (fewer than 3 episodes, or no spread)"},
};
// sums of squares around the mean, not differences of large sums, which would cancel
static const char reward_calibration_select[] =
    "SELECT arm, n, x_mean, CASE WHEN n > 1 THEN sqrt(xx / (n - 1)) END, y_mean,\n"
    "  CASE WHEN n > 1 THEN sqrt(yy / (n - 1)) END, y_min, y_max, r,\n"
    "  CASE WHEN r IS NULL THEN 'insufficient_data' WHEN r >= 0.7 THEN 'well_calibrated'\n"
    "    WHEN r >= 0.3 THEN 'moderate' WHEN r >= 0 THEN 'weak' ELSE 'inverted' END\n"
    "FROM (SELECT *, CASE WHEN n >= 3 AND xx > 0 AND yy > 0\n"
    "    THEN xy / (sqrt(xx) * sqrt(yy)) END AS r\n"
    "  FROM (SELECT m.arm AS arm, m.n AS n, m.x_mean AS x_mean, m.y_mean AS y_mean,\n"
    "      m.y_min AS y_min, m.y_max AS y_max,\n"
    "      sum((e.final_accuracy - m.x_mean) * (e.final_accuracy - m.x_mean)) AS xx,\n"
    "      sum((e.reward - m.y_mean) * (e.reward - m.y_mean)) AS yy,\n"
    "      sum((e.final_accuracy - m.x_mean) * (e.reward - m.y_mean)) AS xy\n"
    "    FROM (SELECT arm, count(*) AS n, avg(final_accuracy) AS x_mean, avg(reward) AS y_mean,\n"
    "        min(reward) AS y_min, max(reward) AS y_max\n"
    "      FROM episodes WHERE final_accuracy IS NOT NULL AND reward IS NOT NULL\n"
    "      GROUP BY arm) m\n"
    "    JOIN episodes e ON e.arm IS m.arm\n"
    "      AND e.final_accuracy IS NOT NULL AND e.reward IS NOT NULL\n"
    "    GROUP BY m.arm))";

static const EsViewColumn raw_events_columns[] = {
    {"event", "name of the event"},
    {"sequence", "position in the order of emission, from 1 in each session"},
    {"row", "position in its packet, from 0"},
    {"unix_time", "seconds"},
    {"round", "0 before the first"},
    {"step", "in the round, NULL for events of a whole round"},
    {"data", "the event's own columns, a JSON object; use json_extract(data, '$.name')"},
};

#define VIEW(name, help)                                                                           \
    { #name, help, name##_select, name##_columns, ES_COUNT_OF(name##_columns) }

static const EsView views[] = {
    VIEW(runs, "the run: one row"),
    VIEW(rounds, "one row per round: accuracy, reward, growth, the policy's update"),
    VIEW(episodes, "one row per environment and episode: how it ended"),
    VIEW(variants, "one row per policy or setting of a comparison, the best first"),
    VIEW(seeds, "one row per seed: where it came from, its stages, how it ended"),
    VIEW(decisions, "one row per environment and recorded step: what the policy chose"),
    VIEW(rewards, "one row per environment and recorded step: the reward and its terms"),
    VIEW(contributions, "one row per environment, slot and recorded step: what a seed is worth"),
    VIEW(seed_metrics, "one row per living seed and recorded step: blend, gradient, share"),
    VIEW(anomalies, "what a rule found wrong, and rollbacks of the governor"),
    VIEW(proofs, "one row per round of proving: what was proved, what limits dropped"),
    VIEW(proof_depths, "one row per round and depth: queries asked and proved, exact"),
    VIEW(proof_predicates, "one row per round and predicate: queries asked and proved, exact"),
    VIEW(proof_trees, "proofs that were found, as trees: a sample"),
    VIEW(rankings, "one row per ranking: validations, and the comparison at the end"),
    VIEW(throughput, "one row per round: speed, and where the time of a step went"),
    VIEW(metrics, "named numbers by round; what TensorBoard and Prometheus show"),
    VIEW(epochs, "one row per epoch of a fit with rails: latency against budgets, breaker, mode"),
    VIEW(trainer_events, "what the rails of a fit did"),
    VIEW(action_distribution, "one row per round and op: how often it was chosen"),
    VIEW(reward_calibration,
         "one row per policy: whether episodes with more reward end more accurate"),
    {"raw_events", "every row of every event table, columns as JSON", NULL, raw_events_columns,
     ES_COUNT_OF(raw_events_columns)},
};

int es_view_count(void) { return (int)ES_COUNT_OF(views); }

const EsView *es_view(int index) {
    ES_ASSERT(index >= 0 && index < es_view_count());
    return &views[index];
}
