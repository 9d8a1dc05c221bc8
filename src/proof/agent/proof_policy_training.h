// A proof policy in training: it acts, keeps the rows of a rollout, and is the model that PPO
// (learning/ppo.h) updates.
//
// The states of a rollout are kept ragged, each distinct one once, and rows by their numbers.
// Acting and learning run the same code over the same rows, so that the first pass of an update
// finds the probabilities of acting, bit for bit; until the first step it even finds the encodings
// still there. Weights move by Adam (epsilon 1e-5) after the whole gradient was clipped; tables of
// embeddings are stepped as a whole.
//
// Results do not depend on the number of threads: gradients are summed in a fixed number of parts.
//
//     EsProofPolicyTraining *training; ES_TRY(es_proof_policy_training_create(policy, &training));
//     es_rollout_reset(rollout); es_proof_policy_training_reset(training);
//     for (int64_t t = 0; t < T; t++) {
//         es_proof_policy_training_act(training, &choices, seed, keys, rollout, t, action);
//         // step the environments; reward, is_valid, is_done, ... of the rows are theirs
//     }
//     EsPpoModel model = es_proof_policy_training_model(training);
//     ES_TRY(es_ppo_update(ppo, rollout, &model, &report));
//
// R rows (T x E), N states of a step, M successors as in proof_choices.h.
#ifndef ES_PROOF_PROOF_POLICY_TRAINING_H
#define ES_PROOF_PROOF_POLICY_TRAINING_H

#include "distributed/ranks.h"
#include "learning/ppo.h"
#include "network/state_hash.h"
#include "proof/agent/proof_policy_inference.h"

ES_EXTERN_C_BEGIN

typedef struct EsProofPolicyTraining EsProofPolicyTraining;

// The shape of a rollout for such a policy: one ragged head of up to max_choices successors.
EsRolloutShape es_proof_rollout_shape(int64_t n_steps, int64_t n_envs, int max_choices);

// The policy is borrowed; its device's pool must not be in use during calls.
EsStatus es_proof_policy_training_create(EsProofPolicy *policy, EsProofPolicyTraining **training);
void es_proof_policy_training_destroy(EsProofPolicyTraining *training);

// From here on the ranks (borrowed) share the work on states: batches in forward passes, partial
// sums of gradients on the way back. Acting and the model's calls are then collective, on the same
// rows everywhere.
void es_proof_policy_training_share(EsProofPolicyTraining *training, EsRanks *ranks);

// Forget all rows, before a new rollout.
void es_proof_policy_training_reset(EsProofPolicyTraining *training);

// Acts once in all environments, E = N: chooses among the successors of each state as
// es_proof_policy_scorer_choose does, keeps the rows t E .. t E + N - 1, and fills the policy's
// fields of them (places of the logits, action, value, whether there was a choice). Steps come in
// order. ARGUMENT when a state has more successors than the rollout's shape allows, or when the
// selection of goals changes within a rollout.
EsStatus es_proof_policy_training_act(EsProofPolicyTraining *training,
                                      const EsProofChoices *choices, uint64_t seed,
                                      const EsDrawKey *keys, EsRollout *rollout, int64_t t,
                                      int32_t *action);

// Values (N) of states that are no rows: where a rollout was cut.
EsStatus es_proof_policy_training_values(EsProofPolicyTraining *training,
                                         const EsProofChoices *choices, float *value);

// For es_ppo_update, over the rows kept.
EsPpoModel es_proof_policy_training_model(EsProofPolicyTraining *training);

// Weights and optimiser state, to go on later with the same bits; the file also serves as a policy
// (es_proof_policy_file_load). Loading checks everything before it changes anything.
EsStatus es_proof_policy_training_save(const EsProofPolicyTraining *training, const char *path);
EsStatus es_proof_policy_training_load(EsProofPolicyTraining *training, const char *path);

// Weights and optimiser state, all that a saved one has.
EsStatus es_proof_policy_training_append_state(const EsProofPolicyTraining *training,
                                               EsStateHash *hash);

// Bytes of a round of n_rows, with n_successors and n_states distinct states of n_atoms each on
// average: the kept states, and the update.
size_t es_proof_policy_training_round_bytes(const EsProofPolicyTraining *training, double n_rows,
                                            double n_successors, double n_states, double n_atoms);

typedef struct EsProofPolicyTrainingCounters {
    int64_t n_rows, n_successors; // kept
    int32_t n_states;             // distinct ones among both
    int64_t n_encoded, n_valued;  // states that acting and forward passes computed, ever
    // ever, in milliseconds: of the threads' own work on embeddings and on layers, summed over the
    // threads; and until the last of them was done, which is how long the caller waited
    double embed_ms, layer_ms, network_ms;
} EsProofPolicyTrainingCounters;
EsProofPolicyTrainingCounters
es_proof_policy_training_counters(const EsProofPolicyTraining *training);

ES_EXTERN_C_END

#endif
