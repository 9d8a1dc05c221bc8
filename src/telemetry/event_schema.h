// The schema of all events: every type and every column once. Row structs, tables, JSON keys and
// docs/telemetry.md are made from these lists; add to them and everything follows.
//
// A column is INT (int64_t), REAL (double) or TEXT (const char *). Any value may be missing:
// ES_MISSING_INT, es_missing_real() and NULL, which become NULL in SQL and null in JSON, never 0.
// Accuracies are in percent. Adding a column, a type or a
// summary (sinks/sqlite_summaries.c) raises ES_EVENT_SCHEMA_VERSION.
#ifndef ES_TELEMETRY_EVENT_SCHEMA_H
#define ES_TELEMETRY_EVENT_SCHEMA_H

#define ES_EVENT_SCHEMA_VERSION 10

// X(NAME, Name, name, delivery, level, pace, help)
//   delivery  KEPT: spilled to a file when a sink's queue is full; LOSSY: dropped and counted
//   level     lowest verbosity that emits it: MINIMAL, NORMAL, DEBUG
//   pace      STRIDED: only on steps that are a multiple of the stride; ALWAYS
#define ES_EVENT_LIST(X)                                                                           \
    X(RUN_STARTED, RunStarted, run_started, KEPT, MINIMAL, ALWAYS, "a session of the run begins")  \
    X(RUN_ENDED, RunEnded, run_ended, KEPT, MINIMAL, ALWAYS, "a session of the run ends")          \
    X(CHECKPOINT_SAVED, CheckpointSaved, checkpoint_saved, KEPT, MINIMAL, ALWAYS,                  \
      "a checkpoint is complete on disk")                                                          \
    X(CHECKPOINT_LOADED, CheckpointLoaded, checkpoint_loaded, KEPT, MINIMAL, ALWAYS,               \
      "a session goes on from a checkpoint")                                                       \
    X(ROUND_PROGRESSED, RoundProgressed, round_progressed, LOSSY, MINIMAL, ALWAYS,                 \
      "training within a round, at most twenty times and five a second; for the console")          \
    X(ROUND_COMPLETED, RoundCompleted, round_completed, KEPT, MINIMAL, ALWAYS,                     \
      "all environments have ended their episodes and the policy was updated")                     \
    X(EVALUATION_PROGRESSED, EvaluationProgressed, evaluation_progressed, LOSSY, MINIMAL, ALWAYS,  \
      "held-out episodes were run; for the console")                                               \
    X(STEP_TIMED, StepTimed, step_timed, LOSSY, NORMAL, STRIDED, "where the time of a step went")  \
    X(ENV_STEPPED, EnvStepped, env_stepped, LOSSY, NORMAL, STRIDED,                                \
      "one row per environment: what a step of the host reached")                                  \
    X(EPISODE_OUTCOME, EpisodeOutcome, episode_outcome, KEPT, MINIMAL, ALWAYS,                     \
      "one row per environment: how its episode ended")                                            \
    X(SEED_GERMINATED, SeedGerminated, seed_germinated, KEPT, NORMAL, ALWAYS,                      \
      "a seed was put into a slot")                                                                \
    X(SEED_STAGE_CHANGED, SeedStageChanged, seed_stage_changed, KEPT, NORMAL, ALWAYS,              \
      "a seed went from one stage to another")                                                     \
    X(SEED_GATE_EVALUATED, SeedGateEvaluated, seed_gate_evaluated, LOSSY, NORMAL, ALWAYS,          \
      "a gate let a seed pass, or did not")                                                        \
    X(SEED_FOSSILIZED, SeedFossilized, seed_fossilized, KEPT, NORMAL, ALWAYS,                      \
      "a seed became a part of its host")                                                          \
    X(SEED_PRUNED, SeedPruned, seed_pruned, KEPT, NORMAL, ALWAYS, "a seed was taken out")          \
    X(DECISION_TAKEN, DecisionTaken, decision_taken, LOSSY, NORMAL, ALWAYS,                        \
      "what the policy chose: every environment on the stride, else those that did not wait")      \
    X(REWARD_COMPUTED, RewardComputed, reward_computed, LOSSY, NORMAL, STRIDED,                    \
      "one row per environment: the reward and its terms")                                         \
    X(CONTRIBUTION_MEASURED, ContributionMeasured, contribution_measured, LOSSY, NORMAL, STRIDED,  \
      "one row per environment and slot: what the seed is worth")                                  \
    X(SEED_MEASURED, SeedMeasured, seed_measured, LOSSY, NORMAL, STRIDED,                          \
      "one row per living seed: its place in the blend, its gradient, its share of the network's") \
    X(UPDATE_COMPLETED, UpdateCompleted, update_completed, KEPT, MINIMAL, ALWAYS,                  \
      "the policy was updated (PPO)")                                                              \
    X(ANOMALY_DETECTED, AnomalyDetected, anomaly_detected, KEPT, MINIMAL, ALWAYS,                  \
      "a rule of docs/telemetry.md found something wrong")                                         \
    X(TREND_DETECTED, TrendDetected, trend_detected, LOSSY, MINIMAL, ALWAYS,                       \
      "accuracy over rounds: plateau, degradation or improvement")                                 \
    X(GOVERNOR_ROLLBACK, GovernorRollback, governor_rollback, KEPT, MINIMAL, ALWAYS,               \
      "a diverging host was set back to its snapshot")                                             \
    X(PROOF_ROUND, ProofRound, proof_round, KEPT, MINIMAL, ALWAYS,                                 \
      "what the episodes of a round of proving came to")                                           \
    X(PROOF_EPISODE, ProofEpisode, proof_episode, LOSSY, NORMAL, ALWAYS,                           \
      "how an episode of proving ended; a sample: those of the first environments")                \
    X(PROOF_DEPTH_COUNTED, ProofDepthCounted, proof_depth_counted, KEPT, NORMAL, ALWAYS,           \
      "one row per depth of a round of proving: all episodes that ended, none left out")           \
    X(PROOF_PREDICATE_COUNTED, ProofPredicateCounted, proof_predicate_counted, KEPT, NORMAL,       \
      ALWAYS, "one row per predicate of a round of proving: all episodes that ended")              \
    X(PROOF_FOUND, ProofFound, proof_found, LOSSY, NORMAL, ALWAYS,                                 \
      "a proof as a tree; the first four of a round, of true queries in the first environments")   \
    X(PROOF_RANKED, ProofRanked, proof_ranked, KEPT, MINIMAL, ALWAYS,                              \
      "queries were ranked against their corruptions")                                             \
    X(PHASE_PROFILED, PhaseProfiled, phase_profiled, LOSSY, MINIMAL, ALWAYS,                       \
      "one row per phase of a round: calls and the distribution of their time; one more of the "   \
      "last round for what was written after it")                                                  \
    X(MEMORY_MEASURED, MemoryMeasured, memory_measured, LOSSY, MINIMAL, ALWAYS,                    \
      "one row per device and round")                                                              \
    X(PLANS_MEASURED, PlansMeasured, plans_measured, KEPT, MINIMAL, ALWAYS,                        \
      "one row per round: plans on the CPU, captures on a GPU")                                    \
    X(TRAINER_EVENT, TrainerEvent, trainer_event, KEPT, MINIMAL, ALWAYS,                           \
      "the rails of a fit did something: a budget, a deadline, the breaker, a rollback")           \
    X(METRIC, Metric, metric, LOSSY, MINIMAL, ALWAYS,                                              \
      "one row per named number; what TensorBoard and Prometheus show")

// C(TYPE, name, help) for each event, in table order
#define ES_RUN_STARTED_COLUMNS(C)                                                                  \
    C(TEXT, kind, "grow, fit, prove or hosts")                                                     \
    C(TEXT, run_id, "name of the run folder")                                                      \
    C(TEXT, task, "preset of hosts and data")                                                      \
    C(TEXT, device, "what it runs on")                                                             \
    C(TEXT, build, "version, commit, compiler")                                                    \
    C(TEXT, config, "the effective configuration, INI")                                            \
    C(INT, seed, "of the run")                                                                     \
    C(INT, n_envs, "environments of all ranks")                                                    \
    C(INT, n_rounds, "rounds asked for")                                                           \
    C(INT, n_host_parameters, "of one host before it grows")                                       \
    C(INT, rank, "of this process")                                                                \
    C(INT, n_ranks, "processes of the run")
#define ES_RUN_ENDED_COLUMNS(C)                                                                    \
    C(TEXT, outcome, "done, interrupted, failed or halted")                                        \
    C(TEXT, detail, "why it failed")                                                               \
    C(REAL, seconds, "of this session")                                                            \
    C(INT, n_dropped, "packets of lossy events dropped by all sinks")                              \
    C(INT, n_lost, "packets of kept events lost by all sinks")
#define ES_CHECKPOINT_SAVED_COLUMNS(C)                                                             \
    C(TEXT, path, "inside the run folder")                                                         \
    C(INT, bytes, "of all files")                                                                  \
    C(REAL, seconds, "to write")                                                                   \
    C(REAL, score, "by which the best is chosen")                                                  \
    C(INT, is_best, "1 when no earlier one scored more")
#define ES_CHECKPOINT_LOADED_COLUMNS(C)                                                            \
    C(TEXT, path, "inside the run folder")                                                         \
    C(INT, total_steps, "environment steps of the run up to it; missing when not known")
#define ES_ROUND_PROGRESSED_COLUMNS(C)                                                             \
    C(REAL, percent, "of the round's training batches")                                            \
    C(INT, n_images, "training images so far, all environments")                                   \
    C(REAL, seconds, "since the round began")
#define ES_ROUND_COMPLETED_COLUMNS(C)                                                              \
    C(INT, n_episodes, "ended so far in the run")                                                  \
    C(REAL, accuracy, "mean final accuracy of the round's episodes, percent")                      \
    C(REAL, accuracy_std, "over the episodes")                                                     \
    C(REAL, rolling_accuracy, "mean of the last ten rounds")                                       \
    C(REAL, reward, "mean reward of an episode")                                                   \
    C(REAL, loss, "mean final loss")                                                               \
    C(INT, n_seeds, "alive at the end of the round")                                               \
    C(INT, n_fossils, "at the end of the round")                                                   \
    C(INT, n_steps, "environment steps of the round")                                              \
    C(INT, n_images, "training images of the round")                                               \
    C(REAL, seconds, "of the round")                                                               \
    C(REAL, steps_per_second, "environment steps")                                                 \
    C(REAL, images_per_second, "training images")                                                  \
    C(REAL, utilisation, "percent: processor time of the process over wall clock times threads")   \
    C(TEXT, state_hash, "of every bit the run holds at its end; equal runs have equal ones")       \
    C(INT, total_steps, "environment steps of the run so far; missing when not known")
#define ES_EVALUATION_PROGRESSED_COLUMNS(C)                                                        \
    C(TEXT, arm, "policy that acted")                                                              \
    C(INT, n_done, "episodes of all policies")                                                     \
    C(INT, n_episodes, "of all policies that there will be")                                       \
    C(REAL, seconds, "since the comparison began")
#define ES_STEP_TIMED_COLUMNS(C)                                                                   \
    C(REAL, total_ms, "wall clock of the step, all environments")                                  \
    C(REAL, train_ms, "training batches")                                                          \
    C(REAL, validate_ms, "validation and ablations")                                               \
    C(REAL, decide_ms, "observation to reward")
#define ES_ENV_STEPPED_COLUMNS(C)                                                                  \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "id")                                                                          \
    C(REAL, train_loss, "mean over the step's batches; hosts: the last")                           \
    C(REAL, train_accuracy, "percent")                                                             \
    C(REAL, validation_loss, "")                                                                   \
    C(REAL, validation_accuracy, "percent")                                                        \
    C(REAL, host_gradient_norm, "before clipping, missing off stride")                             \
    C(INT, n_seeds, "alive")
#define ES_EPISODE_OUTCOME_COLUMNS(C)                                                              \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "id")                                                                          \
    C(TEXT, arm, "policy of a held-out episode; missing in training")                              \
    C(REAL, final_accuracy, "validation, percent")                                                 \
    C(REAL, final_loss, "")                                                                        \
    C(REAL, test_accuracy, "percent; held-out episodes alone")                                     \
    C(REAL, parameter_ratio, "all parameters over the host's; 1 = no growth")                      \
    C(INT, n_fossils, "")                                                                          \
    C(INT, n_contributing, "fossils that contributed when fossilised")                             \
    C(REAL, reward, "sum over the episode")                                                        \
    C(REAL, stability, "1 / (1 + variance of the last 20 rewards)")                                \
    C(INT, n_steps, "length")                                                                      \
    C(INT, n_germinated, "")                                                                       \
    C(INT, n_pruned, "")                                                                           \
    C(INT, n_rollbacks, "")                                                                        \
    C(TEXT, task, "what was drawn for it; missing in a run of one task")                           \
    C(REAL, control_accuracy, "validation, percent, of the host that waited beside it")
#define ES_SEED_COLUMNS_(C)                                                                        \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "id")                                                                          \
    C(TEXT, slot, "r0c1, ...")                                                                     \
    C(TEXT, seed_id, "unique in the run")                                                          \
    C(TEXT, blueprint, "")
#define ES_SEED_GERMINATED_COLUMNS(C)                                                              \
    ES_SEED_COLUMNS_(C)                                                                            \
    C(INT, n_parameters, "of the seed")                                                            \
    C(TEXT, style, "ADD, MULTIPLY or GATE")                                                        \
    C(INT, tempo, "steps a blend takes")
#define ES_SEED_STAGE_CHANGED_COLUMNS(C)                                                           \
    ES_SEED_COLUMNS_(C)                                                                            \
    C(TEXT, from_stage, "")                                                                        \
    C(TEXT, to_stage, "")                                                                          \
    C(REAL, alpha, "share of the seed in the blend")                                               \
    C(INT, n_steps_in_stage, "")                                                                   \
    C(REAL, accuracy_delta, "percent points since the stage began")
#define ES_SEED_GATE_EVALUATED_COLUMNS(C)                                                          \
    ES_SEED_COLUMNS_(C)                                                                            \
    C(TEXT, gate, "G0 to G5")                                                                      \
    C(INT, passed, "0 or 1")                                                                       \
    C(TEXT, failed_checks, "separated by commas")
#define ES_SEED_FOSSILIZED_COLUMNS(C)                                                              \
    ES_SEED_COLUMNS_(C)                                                                            \
    C(INT, n_parameters, "added to the host")                                                      \
    C(REAL, improvement, "percent points since germination")                                       \
    C(REAL, contribution, "percent points lost without it")                                        \
    C(INT, n_steps_alive, "")
#define ES_SEED_PRUNED_COLUMNS(C)                                                                  \
    ES_SEED_COLUMNS_(C)                                                                            \
    C(TEXT, reason, "")                                                                            \
    C(TEXT, initiator, "policy, schedule or governor")                                             \
    C(REAL, improvement, "percent points since germination")                                       \
    C(REAL, contribution, "percent points lost without it")                                        \
    C(INT, n_steps_alive, "")
#define ES_DECISION_TAKEN_COLUMNS(C)                                                               \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "id")                                                                          \
    C(TEXT, op, "WAIT, GERMINATE, ...")                                                            \
    C(TEXT, slot, "missing for WAIT")                                                              \
    C(TEXT, blueprint, "only GERMINATE")                                                           \
    C(TEXT, style, "GERMINATE and SET_ALPHA_TARGET")                                               \
    C(INT, tempo, "only GERMINATE")                                                                \
    C(REAL, alpha_target, "GERMINATE and SET_ALPHA_TARGET")                                        \
    C(TEXT, alpha_speed, "SET_ALPHA_TARGET and PRUNE")                                             \
    C(TEXT, alpha_curve, "SET_ALPHA_TARGET and PRUNE")                                             \
    C(REAL, confidence, "probability of the op chosen")                                            \
    C(REAL, entropy, "of the op head")                                                             \
    C(REAL, value, "of the state")                                                                 \
    C(INT, is_forced, "1 when no other op was legal")                                              \
    C(INT, is_success, "1 when the operation was carried out")                                     \
    C(TEXT, refusal, "why it was not")                                                             \
    C(TEXT, op_probabilities,                                                                      \
      "JSON, legal ops and their probabilities: {\"WAIT\":0.81,\"GERMINATE\":0.19}; illegal ones " \
      "are absent; null for policies that are not learned")                                        \
    C(TEXT, slot_probabilities,                                                                    \
      "likewise of slots, given the op; for WAIT the slots that other legal ops have, with null")  \
    C(TEXT, blueprint_probabilities, "given op and slot; only GERMINATE")                          \
    C(TEXT, style_probabilities, "given op, slot and blueprint; as style")                         \
    C(TEXT, tempo_probabilities, "FAST, STANDARD, SLOW; only GERMINATE")                           \
    C(TEXT, alpha_target_probabilities, "HALF, SEVENTY, FULL; as alpha_target")                    \
    C(TEXT, alpha_speed_probabilities, "as alpha_speed")                                           \
    C(TEXT, alpha_curve_probabilities, "as alpha_curve")
#define ES_REWARD_COMPUTED_COLUMNS(C)                                                              \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "id")                                                                          \
    C(REAL, total, "")                                                                             \
    C(REAL, attribution, "")                                                                       \
    C(REAL, action, "terms of the operation chosen")                                               \
    C(REAL, warning, "about a seed that harms or lingers")                                         \
    C(REAL, synergy, "seeds that are better together")                                             \
    C(REAL, rent, "")                                                                              \
    C(REAL, shock, "")                                                                             \
    C(REAL, occupancy, "")                                                                         \
    C(REAL, terminal, "")                                                                          \
    C(REAL, shaping, "0.3 (discounted potential - previous potential)")                            \
    C(REAL, penalty, "for seeds that the governor took out, and for rollbacks")
#define ES_CONTRIBUTION_MEASURED_COLUMNS(C)                                                        \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "id")                                                                          \
    C(TEXT, slot, "")                                                                              \
    C(REAL, contribution, "percent points lost without the seed")                                  \
    C(REAL, velocity, "")                                                                          \
    C(REAL, interaction, "")                                                                       \
    C(REAL, shapley, "at the end of an episode")                                                   \
    C(REAL, shapley_error, "standard error; 0 when exact")
#define ES_SEED_MEASURED_COLUMNS(C)                                                                \
    ES_SEED_COLUMNS_(C)                                                                            \
    C(TEXT, stage, "TRAINING, BLENDING, ...")                                                      \
    C(REAL, alpha, "share of the seed in the blend, 0 to 1")                                       \
    C(REAL, gradient_norm, "L2, before clipping; missing when not measured")                       \
    C(REAL, health, "of its gradient, 0 to 1")                                                     \
    C(REAL, ratio, "running average, its gradient to the host's, per parameter")                   \
    C(REAL, weight,                                                                                \
      "by stage and alpha: 0.25, 0.5, 1 before, in, after blending, (1 + alpha) / 2")              \
    C(REAL, share, "of the sum of gradient norms of host and seeds")                               \
    C(INT, conflicts, "other routes that its gradient opposed, over the updates; --aggregation")   \
    C(REAL, conflict_ratio, "of the other routes; --aggregation")                                  \
    C(REAL, teacher_share, "of the norms of all routes, past the seeds; --aggregation")
#define ES_UPDATE_COMPLETED_COLUMNS(C)                                                             \
    C(REAL, policy_loss, "")                                                                       \
    C(REAL, value_loss, "")                                                                        \
    C(REAL, entropy, "")                                                                           \
    C(REAL, kl_divergence, "")                                                                     \
    C(REAL, clip_fraction, "")                                                                     \
    C(REAL, gradient_norm, "before clipping")                                                      \
    C(REAL, explained_variance, "")                                                                \
    C(REAL, ratio_min, "")                                                                         \
    C(REAL, ratio_max, "")                                                                         \
    C(REAL, value_mean, "")                                                                        \
    C(REAL, return_mean, "")                                                                       \
    C(REAL, advantage_std, "before normalising")                                                   \
    C(REAL, learning_rate, "")                                                                     \
    C(REAL, entropy_coefficient, "")                                                               \
    C(INT, n_epochs, "internal epochs before the KL stop")                                         \
    C(INT, n_nonfinite, "gradient values")                                                         \
    C(INT, n_usable_steps, "rows that train the actor")                                            \
    C(REAL, forced_ratio, "share of steps without a choice")                                       \
    C(INT, is_skipped, "1 when nothing was updated")                                               \
    C(REAL, update_ms, "")
#define ES_ANOMALY_DETECTED_COLUMNS(C)                                                             \
    C(TEXT, rule, "name in docs/telemetry.md")                                                     \
    C(TEXT, severity, "warning, error or critical")                                                \
    C(TEXT, event_name, "the name in the source documents")                                        \
    C(INT, env, "missing when it concerns all")                                                    \
    C(REAL, value, "what was seen")                                                                \
    C(REAL, threshold, "what it was compared with")                                                \
    C(TEXT, detail, "a sentence")
#define ES_TREND_DETECTED_COLUMNS(C)                                                               \
    C(TEXT, trend, "plateau, degradation or improvement")                                          \
    C(REAL, delta, "percent points of rolling accuracy")                                           \
    C(REAL, rolling_accuracy, "percent")                                                           \
    C(REAL, previous_accuracy, "percent")
#define ES_GOVERNOR_ROLLBACK_COLUMNS(C)                                                            \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "id")                                                                          \
    C(TEXT, reason, "nan, divergence or lobotomy")                                                 \
    C(REAL, loss, "that caused it")                                                                \
    C(REAL, threshold, "it was compared with")                                                     \
    C(INT, n_consecutive, "panics in a row")                                                       \
    C(REAL, penalty, "for the rollback alone; the view rewards has all terms")
#define ES_PROOF_ROUND_COLUMNS(C)                                                                  \
    C(INT, n_positives, "episodes with a query taken to be true that ended")                       \
    C(INT, n_negatives, "episodes with a corruption that ended")                                   \
    C(REAL, positives_proved, "percent")                                                           \
    C(REAL, negatives_proved, "percent; they should not be")                                       \
    C(REAL, depth, "mean actions of an episode")                                                   \
    C(REAL, successors, "mean choices of a step")                                                  \
    C(INT, n_truncated, "episodes that the limit on depth ended")                                  \
    C(INT, n_by_end, "episodes that were given up")                                                \
    C(INT, n_not_corrupted, "queries without a corruption, asked as they are")                     \
    C(INT, n_skipped, "states without a choice that were passed over")                             \
    C(INT, n_overlong, "successors dropped for the limit on atoms")                                \
    C(INT, n_overflow, "successors dropped for the limit on choices")                              \
    C(INT, n_states, "distinct states that the round saw or was offered")                          \
    C(REAL, env_ms, "expanding and stepping")                                                      \
    C(REAL, policy_ms, "acting")                                                                   \
    C(REAL, update_ms, "learning")
#define ES_PROOF_EPISODE_COLUMNS(C)                                                                \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "of this environment, from 0")                                                 \
    C(TEXT, query, "")                                                                             \
    C(INT, label, "1: taken to be true, 0: a corruption")                                          \
    C(INT, is_proved, "")                                                                          \
    C(INT, is_truncated, "by the limit on depth")                                                  \
    C(INT, is_by_end, "given up")                                                                  \
    C(INT, n_steps, "actions")                                                                     \
    C(REAL, reward, "")
#define ES_PROOF_DEPTH_COUNTED_COLUMNS(C)                                                          \
    C(INT, label, "1: queries taken to be true, 0: corruptions")                                   \
    C(TEXT, counted_by, "proof where the query has a known depth, else actions")                   \
    C(INT, depth, "proof: steps of the query's shortest proof; actions: of the episode")           \
    C(INT, n_asked, "episodes that ended")                                                         \
    C(INT, n_proved, "of them")                                                                    \
    C(REAL, actions, "mean of an episode")
#define ES_PROOF_PREDICATE_COUNTED_COLUMNS(C)                                                      \
    C(TEXT, predicate, "of the query")                                                             \
    C(INT, label, "1: queries taken to be true, 0: corruptions")                                   \
    C(INT, n_asked, "episodes that ended")                                                         \
    C(INT, n_proved, "of them")                                                                    \
    C(REAL, actions, "mean of an episode")
#define ES_PROOF_FOUND_COLUMNS(C)                                                                  \
    C(INT, env, "global index")                                                                    \
    C(INT, episode, "of this environment, from 0")                                                 \
    C(TEXT, query, "")                                                                             \
    C(INT, n_steps, "actions of the episode; states that were passed over are not counted")        \
    C(INT, n_atoms, "of the tree, the query included")                                             \
    C(TEXT, proof, "a line per atom, two blanks a level: the atom, a tab, its rule or fact")
#define ES_PROOF_RANKED_COLUMNS(C)                                                                 \
    C(TEXT, arm, "scorer: policy, untrained, proved, shortest, uniform, breadth")                  \
    C(TEXT, split, "valid or test")                                                                \
    C(INT, n_queries, "")                                                                          \
    C(REAL, mrr, "mean reciprocal rank, 0 to 1")                                                   \
    C(REAL, mrr_low, "of its interval of 95 %")                                                    \
    C(REAL, mrr_high, "")                                                                          \
    C(REAL, hits_1, "share of ranks up to 1")                                                      \
    C(REAL, hits_3, "")                                                                            \
    C(REAL, hits_10, "")                                                                           \
    C(REAL, queries_proved, "percent")                                                             \
    C(REAL, negatives_proved, "percent")                                                           \
    C(INT, n_candidates, "queries and corruptions scored")                                         \
    C(INT, n_expanded, "states expanded for them")                                                 \
    C(INT, n_limited, "candidates undecided at a limit")                                           \
    C(REAL, seconds, "")                                                                           \
    C(INT, is_best, "1: of a validation, when none before was better")
#define ES_PHASE_PROFILED_COLUMNS(C)                                                               \
    C(TEXT, phase, "train, environment, validate, decide, update, checkpoint, write, round")       \
    C(INT, n_calls, "in the round")                                                                \
    C(REAL, total_ms, "wall clock")                                                                \
    C(REAL, p50_ms, "")                                                                            \
    C(REAL, p95_ms, "")                                                                            \
    C(REAL, max_ms, "")
#define ES_MEMORY_MEASURED_COLUMNS(C)                                                              \
    C(TEXT, device, "")                                                                            \
    C(INT, allocated_bytes, "by the program")                                                      \
    C(INT, total_bytes, "of the device; missing when unknown")                                     \
    C(INT, resident_bytes, "of the process")
#define ES_PLANS_MEASURED_COLUMNS(C)                                                               \
    C(INT, n_plans, "that are kept, one for each topology of a host; none of fused hosts")         \
    C(INT, n_builds, "plans built so far in this session")                                         \
    C(INT, n_hits, "times that a plan was there already, so far in this session")                  \
    C(INT, n_evictions, "plans given up for others, so far in this session")                       \
    C(REAL, build_ms, "of all builds")                                                             \
    C(INT, n_captures, "parts of a step that are replayed; CUDA")                                  \
    C(INT, n_replays, "so far in this session")                                                    \
    C(INT, n_fallbacks, "parts of a step, or plans, that do not run in the fastest way")           \
    C(REAL, capture_ms, "of all captures; CUDA")                                                   \
    C(TEXT, fallback, "why the last of them does not: not fused, not captured, no vector engine")  \
    C(INT, fused_bytes, "device memory of the fused kernels, where they run")
#define ES_TRAINER_EVENT_COLUMNS(C)                                                                \
    C(TEXT, name, "tolaria.epoch_budget_exceeded, ...; docs/telemetry.md has all")                 \
    C(TEXT, level, "info, warning, error or critical")                                             \
    C(TEXT, attributes, "a JSON object")
#define ES_METRIC_COLUMNS(C)                                                                       \
    C(TEXT, name, "charts/SPS, losses/value_loss, tolaria.training.latency_ms, ...")               \
    C(REAL, value, "")                                                                             \
    C(TEXT, seed_id, "label: the seed it is of; missing where it is of no single one")             \
    C(TEXT, stage, "label: of that seed")                                                          \
    C(TEXT, layer, "label: the layer it is of")

#endif
