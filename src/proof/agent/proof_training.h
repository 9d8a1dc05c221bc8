// Training of a proof policy: an environment, the policy that acts in it, and PPO, round by round.
//
// A round is n_steps steps of all environments and one update. Episodes go on from round to round;
// where a rollout is cut, the value of the next state stands for the rewards to come. An episode
// that the limit on depth ends is over: nothing is expected after it. Everything is a function of
// (graph, settings, rounds done): threads do not matter.
//
//     EsProofTrainingSettings settings = es_proof_training_defaults();
//     EsProofTraining *training;
//     ES_TRY(es_proof_training_create(device, graph, &settings, &training));
//     for (int64_t round = 0; round < n_rounds; round++) {
//         EsProofRound report; ES_TRY(es_proof_training_round(training, NULL, &report));
//     }
//     ES_TRY(es_proof_policy_file_save(es_proof_training_policy(training), "policy.safetensors"));
#ifndef ES_PROOF_PROOF_TRAINING_H
#define ES_PROOF_PROOF_TRAINING_H

#include "proof/agent/proof_env.h"
#include "proof/agent/proof_policy_training.h"

ES_EXTERN_C_BEGIN

// Schedules of learning rate and entropy bonus over n_rounds; shares are of the rounds, 0 to 1.
//
//     learning_rate(x)  peak (start + (1 - start) x / warmup)  while x < warmup, then by a cosine
//                       down to peak end at x = 1
//     entropy(x)        from entropy_start by a cosine to entropy_end at x = entropy_share
#define ES_PROOF_SCHEDULE_SETTINGS(X)                                                              \
    X(float, warmup, 0.05, 0, 1, "share of the rounds in which the learning rate rises")           \
    X(float, warmup_start, 0.1, 0.001, 1, "share of the learning rate that it rises from")         \
    X(float, rate_end, 0.1, 0, 1, "share of the learning rate that is left at the end")            \
    X(float, entropy_share, 0.8, 0, 1, "share of the rounds after which entropy_end is reached")

typedef struct EsProofSchedule {
    int64_t n_rounds; // 0: learning rate and entropy stay as they are
#define X(type, name, start, lowest, highest, help) type name;
    ES_PROOF_SCHEDULE_SETTINGS(X)
#undef X
} EsProofSchedule;

typedef struct EsProofTrainingSettings {
    EsProofEnvSettings env; // its seed is the training's
    EsProofPolicySettings policy;
    EsPpoSettings ppo; // entropy_anneal and bootstraps are the schedule's and 0
    EsProofSchedule schedule;
    int32_t n_steps; // of a round
    uint64_t seed;
    // Borrowed; NULL: one process. All ranks step all environments, which takes a hundredth of a
    // round, and share the network's work (es_proof_policy_training_share); rounds are collective.
    EsRanks *ranks;
} EsProofTrainingSettings;

// Those of the parts; 32 steps, no schedule, rates and discounts as published for proofs.
EsProofTrainingSettings es_proof_training_defaults(void);

// The settings of the update after n_done rounds; past the last round they stay at its end.
EsPpoSettings es_proof_schedule_settings(const EsProofSchedule *schedule, const EsPpoSettings *ppo,
                                         int64_t n_done);

// The report of a round.
typedef struct EsProofRound {
    EsProofEnvCounters counted; // in this round alone
    EsPpoReport update;
    double learning_rate;                // of the update
    double env_ms, policy_ms, update_ms; // expanding and stepping; acting; learning
    EsProofPolicyTrainingCounters kept;  // after its rollout
} EsProofRound;

typedef struct EsProofTraining EsProofTraining;

// Device (a CPU) and graph are borrowed. The device's pool serves all parts.
EsStatus es_proof_training_create(EsDevice *device, const EsKnowledgeGraph *graph,
                                  const EsProofTrainingSettings *settings,
                                  EsProofTraining **training);
void es_proof_training_destroy(EsProofTraining *training);

// Called after every step of a round with its number, from 0: the environment's result is that of
// the step. A failure ends the round, which then cannot be gone on with.
typedef struct EsProofWatch {
    void *context;
    EsStatus (*stepped)(void *context, const EsProofEnv *env, int32_t step);
} EsProofWatch;

// Collect one rollout; `watch` may be NULL. Fills all of the report but update, learning_rate and
// update_ms.
EsStatus es_proof_training_rollout(EsProofTraining *training, const EsProofWatch *watch,
                                   EsProofRound *report);

// Learn from the last rollout.
EsStatus es_proof_training_update(EsProofTraining *training, EsProofRound *report);

// Both.
EsStatus es_proof_training_round(EsProofTraining *training, const EsProofWatch *watch,
                                 EsProofRound *report);

// A schedule of another length, from the next update on.
void es_proof_training_set_rounds(EsProofTraining *training, int64_t n_rounds);

// Estimates of a round, from the present states of the environments.
typedef struct EsProofSample {
    double n_successors; // of a state
    double n_atoms;      // of a successor
    size_t round_bytes;  // memory of a round in which no successor comes twice
    size_t least_bytes;  // memory of a round with one successor a step, all of them known
} EsProofSample;
EsStatus es_proof_training_sample(EsProofTraining *training, EsProofSample *sample);

EsProofPolicy *es_proof_training_policy(EsProofTraining *training);
const EsProofEnv *es_proof_training_env(const EsProofTraining *training);
int64_t es_proof_training_rounds_done(const EsProofTraining *training);
EsProofPolicyTrainingCounters es_proof_training_counters(const EsProofTraining *training);

// The device's threads; nothing else may use them during a round.
EsThreadPool *es_proof_training_pool(const EsProofTraining *training);

// --- checkpoints ---

// All that the future depends on, as saved; may allocate.
EsStatus es_proof_training_append_state(const EsProofTraining *training, EsStateHash *hash);

// Two files: weights and optimiser, which also serve as a policy; and the rest, environment and
// PPO. Loading goes on with the same bits; INPUT when they are of other settings or damaged.
EsStatus es_proof_training_save(const EsProofTraining *training, const char *weights_path,
                                const char *state_path);
EsStatus es_proof_training_load(EsProofTraining *training, const char *weights_path,
                                const char *state_path);

ES_EXTERN_C_END

#endif
