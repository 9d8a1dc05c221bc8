// The decision phase on a GPU: es_reward_latch, es_policy_decide, es_reward_compute and
// es_policy_training_record of the CPU, for all environments in a few launches, from state in
// device memory to actions and rollout rows in device memory. Equal states give equal bits; a
// network's logits are the device's own.
//
//     EsDecisionDevice *decision; ES_TRY(es_decision_create(policy, reward, stream, &decision));
//     ES_TRY(es_decision_begin(decision, first_episode));           // episodes begin
//     ES_TRY(es_decision_choose(decision, &state, masks, actions)); // measured, not yet decided
//     ...                                                           // carried out, tick
//     ES_TRY(es_decision_reward(decision, &state, state.env.n_unrewarded_prunes));
//     es_stream_copy(stream, host, report.memory, report.bytes, ES_COPY_TO_HOST);
//     ES_TRY(es_decision_end(decision));                            // after the last step
//
// choose and reward queue work and nothing else: no waits, no allocations, no copies to the CPU but
// those of es_decision_keep_logits.
// Each runs directly once, is captured the second time and is one replay from then on, for any E
// (network/plan/graph_capture.h); where a capture is refused it goes on directly to the end of the
// decision phase, with the same bits. A network that runs a plan captures itself: choose is then
// direct, and es_decision_replays says why. Values that change between rounds are read from device
// memory, so a capture outlives them.
//
// E environments, S slots, T steps, D features.
#ifndef ES_CONTROL_DECISION_DEVICE_H
#define ES_CONTROL_DECISION_DEVICE_H

#include "control/policy/policy.h"
#include "reward/reward.h"

ES_EXTERN_C_BEGIN

typedef struct EsDecisionDevice EsDecisionDevice;

// Report of a step for the CPU, in one piece of device memory; offsets in bytes from its start, the
// same for every policy.
typedef struct EsDecisionReport {
    void *memory; // on the device
    size_t bytes;
    size_t actions;      // EsAction [E]
    size_t terms;        // EsRewardTerms [E]
    size_t totals;       // double [E], of the episode so far
    size_t action_stats; // EsActionStats [E]; written by learned policies alone
} EsDecisionReport;

// The decision phase of a policy. Policy, reward and stream are borrowed and must outlive it; the
// reward's hosts are the policy's, the stream is on the GPU of the network where there is one.
// UNSUPPORTED where the stream is not CUDA's.
EsStatus es_decision_create(EsPolicy *policy, EsReward *reward, EsStream *stream,
                            EsDecisionDevice **decision);
void es_decision_destroy(EsDecisionDevice *decision);

const EsPolicy *es_decision_policy(const EsDecisionDevice *decision);

// Episodes first_episode .. + E begin: es_policy_begin and es_reward_reset, and all that holds for
// the round goes to the device (settings, normaliser, weights of rewards, schedule, greedy or not).
// Waits for work of the round before.
EsStatus es_decision_begin(EsDecisionDevice *decision, int64_t first_episode);

// From now on choose also queues a copy of its logits to the CPU, for es_policy_head_probabilities;
// it has arrived when what is queued after it has, and es_decision_receive then shows it. Of
// policies that are not learned nothing is copied. Off at first; called before the first step.
EsStatus es_decision_keep_logits(EsDecisionDevice *decision, int is_kept);

// Latches the reward's inputs, then decides. state, masks [E] and actions [E] are device memory;
// other places than in the step before are captured anew, unless a capture was refused before:
// nothing is captured after that. Not while the stream is being captured.
EsStatus es_decision_choose(EsDecisionDevice *decision, const EsGrowthState *state,
                            const EsActionMasks *masks, EsAction *actions);

// After decision and tick: rewards, and the outcome columns of the row. n_unrewarded_prunes [E] is
// that of the state, device memory: prunes that the rewards account for are taken off there.
EsStatus es_decision_reward(EsDecisionDevice *decision, const EsGrowthState *state,
                            int32_t *n_unrewarded_prunes);

// The same place in every step: memory of its own, or that of es_decision_place_report, of as many
// bytes, aligned to 64 and on the same device. Placed between rounds.
EsDecisionReport es_decision_report(const EsDecisionDevice *decision);
void es_decision_place_report(EsDecisionDevice *decision, void *memory);

// Size of the report of E environments.
size_t es_decision_report_bytes(int64_t n_envs);

// Counts of direct and replayed launches of choose and reward.
typedef struct EsDecisionReplays {
    int n_captures;     // that exist: 2 from the second step on, less n_fallbacks
    int n_fallbacks;    // of the two, those that are not captured
    int64_t n_replays;  // of both
    double capture_ms;  // of the last of each
    char fallback[256]; // why one is not; "" = none
} EsDecisionReplays;
EsDecisionReplays es_decision_replays(const EsDecisionDevice *decision);

// Unpacks a report in CPU memory: the reward's terms and totals, the action stats, actions [E] and
// rewards [E].
void es_decision_receive(EsDecisionDevice *decision, const void *report, EsAction *actions,
                         float *rewards);

// Waits, and copies back the reward's memory (es_reward_stability) and, of a policy in training,
// what the CPU reads of its rows: choices and outcomes, and the observations that a normaliser
// merges. Features and ids stay where they are, for es_policy_training_update (the rollout's
// on_device), until the next begin or the decision's end. An actor's rows come back whole:
// es_policy_training_collect hands them on.
EsStatus es_decision_end(EsDecisionDevice *decision);

// Brings back what es_decision_end left: all rows are in CPU memory then. Waits.
EsStatus es_decision_fetch_rows(EsDecisionDevice *decision);

ES_EXTERN_C_END

#endif
