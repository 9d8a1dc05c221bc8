// The parts of a policy: those common to its kinds, and those of the learned one.
//
// E environments, T steps, S slots, D features.
#ifndef ES_CONTROL_POLICY_INTERNAL_H
#define ES_CONTROL_POLICY_INTERNAL_H

#include "base/checksum.h"
#include "control/policy/policy.h"
#include "control/rules/heuristic_rules.h"
#include "control/rules/sampling_rules.h"
#include "growth/engine/schedule.h"

ES_EXTERN_C_BEGIN

typedef struct EsLearned {
    EsPolicyNetwork *network;     // owned
    EsFeatureNormaliser features; // frozen between updates
    float floor[ES_N_HEADS];      // least probabilities
    float *raw;                   // owned: observations                  [T, E, D], [E, D] acting
    float *normalised;            // owned                                [E, D]
    int32_t *blueprints;          // owned                                [E, S]
    uint8_t *is_reset;            // owned                                [E]
    EsActionStats *action_stats;  // owned                                [E]
    const float *logits;          // borrowed: of the last decision, or NULL  [E, A]
    EsPolicyRanges ranges;        // of hosts that its file accepts,
    EsPolicyRanges trained;       // and of those that it was trained on

    // training, else NULL
    EsPpo *ppo;         // owned; NULL of an actor, which keeps rows for another policy
    EsRollout *rollout; // owned
    int64_t t;          // the row that is decided or recorded next
    int is_decided;     // it was decided and waits for its reward
    int is_elsewhere;   // rows are written on a device (decision_device.h)
} EsLearned;

struct EsPolicy {
    EsPolicyKind kind;
    EsPolicyContext context;
    char hash[ES_SHA256_TEXT_BYTES];
    int is_greedy;
    int32_t *episodes; // owned [E]: their ids
    EsHeuristicSettings rules;
    EsHeuristic *memory; // owned [E]; heuristic
    EsSchedule schedule; // script
    EsLearned learned;
    int n_decisions; // that borrow it: decisions on a device
};

// Key of environment e's draws in this step.
EsActionKey es_policy_key(const EsPolicy *policy, int64_t e, int32_t step);

// After how many environments episodes repeat: E, or fewer with variants.
int64_t es_policy_episode_period(const EsPolicyContext *context);

// One environment of the state as the rules take it. seeds [ES_SLOTS_MAX].
EsGrowthEnv es_policy_load(const EsGrowthState *state, int64_t e, EsSeed *seeds);

// The learned kind; all of it is owned by the policy and ended by es_learned_destroy.
EsStatus es_learned_open(EsPolicy *policy, const char *path);
EsStatus es_learned_create(EsPolicy *policy, const EsPolicySpec *spec, const EsPpoSettings *ppo,
                           int64_t n_steps);
EsStatus es_learned_create_actor(EsPolicy *actor, const EsPolicy *learner, int64_t n_steps);
void es_learned_destroy(EsLearned *learned);
EsStatus es_learned_begin(EsPolicy *policy);
EsStatus es_learned_decide(EsPolicy *policy, const EsGrowthState *state, const EsActionMasks *masks,
                           EsAction *actions);

// Logits of one environment: A, or the size of a table.
int64_t es_learned_n_logits(const EsLearned *learned);

// Factor that brings a value of the network to the scale of scaled rewards.
double es_learned_value_scale(const EsLearned *learned);

// Observations of all environments, as they are and normalised. Shapes as in es_env_observe.
void es_learned_observe(const EsPolicy *policy, const EsGrowthState *state, float *raw,
                        float *normalised, int32_t *blueprints);

ES_EXTERN_C_END

#endif
