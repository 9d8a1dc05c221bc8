// Policies: who decides. All kinds see the same state and the same masks, in the same place of the
// step, so that they can be compared.
//
//   wait        nothing, ever
//   random      a legal operation, then legal values, uniformly
//   heuristic   waits for a plateau, germinates from a rotation, keeps those that contribute
//   eager       the same rules without waiting: germinates the largest blueprint that it may, keeps
//               seeds that do no harm; for networks with a limit of parameters
//   script      a written schedule (growth/engine/schedule.h)
//   learned     a policy network; draws, or takes the most likely
//
//     EsPolicy *policy; ES_TRY(es_policy_open("heuristic", &context, &policy));
//     ES_TRY(es_policy_begin(policy, first_episode));  // episodes begin in all environments
//     ES_TRY(es_policy_decide(policy, state, masks, actions));
//
// Draws are numbers of (seed, episode, step, head): an environment's actions do not depend on the
// others, nor on threads.
//
// E environments.
#ifndef ES_CONTROL_POLICY_H
#define ES_CONTROL_POLICY_H

#include "control/policy/policy_file.h"
#include "control/policy/policy_inference.h"
#include "growth/engine/growth.h"

ES_EXTERN_C_BEGIN

typedef enum EsPolicyKind {
    ES_POLICY_WAIT,
    ES_POLICY_RANDOM,
    ES_POLICY_HEURISTIC,
    ES_POLICY_EAGER,
    ES_POLICY_SCRIPT,
    ES_POLICY_LEARNED
} EsPolicyKind;

typedef struct EsPolicyContext {
    const EsGrowthSettings *settings; // borrowed
    const EsSlot *slots;              // borrowed, in the order of actions
    EsDevice *device;                 // borrowed, for a network
    int64_t n_envs;
    int n_variants; // of the same episodes, as of a growth (EsGrowthOptions); 0 or 1 = none
    uint64_t seed;  // of draws
    EsRanks *ranks; // borrowed: they share the training of a network; NULL: one process
} EsPolicyContext;

typedef struct EsPolicy EsPolicy;

// The kind that a text for es_policy_open names; any other text is the path of a learned policy's
// file, whether or not it exists.
EsPolicyKind es_policy_parse_kind(const char *text);

// "wait", "random", "heuristic", "eager", "script:FILE", or the path of a policy file. ARGUMENT for
// none of these; INPUT when a file is invalid, or was trained on another host.
EsStatus es_policy_open(const char *text, const EsPolicyContext *context, EsPolicy **policy);

// PPO with the heads of this policy: floors, entropy weights and entropy floors as published. An
// episode's last step is its end (bootstraps 0): the policy sees the clock, and the step's reward
// includes the worth of the end.
EsPpoSettings es_policy_ppo_defaults(void);

// A learned policy in training (policy_training.h): fresh weights from the seed, room for episodes
// of `n_steps`.
EsStatus es_policy_create(const EsPolicySpec *spec, const EsPpoSettings *ppo,
                          const EsPolicyContext *context, int64_t n_steps, EsPolicy **policy);

// A policy that acts for one in training on other hosts: slots, settings, environments and the
// length of episodes are its own, the weights those that the learner has now. Version 2 alone. It
// keeps its decisions as a policy in training does (es_policy_training_record), and
// es_policy_training_collect hands them to the learner.
EsStatus es_policy_create_actor(const EsPolicy *learner, const EsPolicyContext *context,
                                int64_t n_steps, EsPolicy **actor);
void es_policy_destroy(EsPolicy *policy); // after the decisions made with it (decision_device.h)

EsPolicyKind es_policy_kind(const EsPolicy *policy);
const char *es_policy_hash(const EsPolicy *policy); // SHA-256 of the file it was opened from, or ""

// Learned policies take the most likely action instead of drawing. Off at first.
void es_policy_set_greedy(EsPolicy *policy, int is_greedy);

// Episodes first_episode .. + E begin; with variants those of the first one, in each.
EsStatus es_policy_begin(EsPolicy *policy, int64_t first_episode);

// Actions [E] for the step that was measured; only those of a script may be illegal. Resets the
// recurrent state of environments that were rolled back at the last decision.
EsStatus es_policy_decide(EsPolicy *policy, const EsGrowthState *state, const EsActionMasks *masks,
                          EsAction *actions);

// --- in the midst of an episode; on the CPU, for policies that are not trained ---

// Its memory of the episodes between two decisions, in a file. A policy opened alike that loads it
// decides as this one would. Loading checks everything first: INPUT names the tensor and number.
EsStatus es_policy_save_episode(const EsPolicy *policy, const char *path);
EsStatus es_policy_load_episode(EsPolicy *policy, const char *path);

// Environment i goes on with the episode of environment envs[i] of `from`, for all E. Both were
// opened alike, for any number of environments.
EsStatus es_policy_take_envs(EsPolicy *policy, const EsPolicy *from, const int64_t *envs);

// Statistics of the last decision of a learned policy, per environment; NULL for other kinds.
typedef struct EsActionStats {
    float confidence; // probability of the op chosen
    float entropy;    // of the op head, 0..1
    float value;   // of the state: in training on the scale of scaled rewards, else the network's
    int is_forced; // no other op was legal
} EsActionStats;
const EsActionStats *es_policy_action_stats(const EsPolicy *policy); // [E]

// Probabilities of a head's values in the last decision of a learned policy for environment e, as
// it drew: from the masks it was given, given the operation and the heads before this one that
// `action` has. p [ES_SLOTS_MAX] is 0 for illegal values; that of the operation is the confidence.
// Returns 0 where they are not known: other kinds, before a decision, a head that the operation
// does not read, logits that stayed on a device (es_decision_keep_logits). Computed from the
// logits, which are there until the next decision.
int es_policy_head_probabilities(const EsPolicy *policy, int64_t e, const EsActionMasks *masks,
                                 const EsAction *action, int32_t head, double *p);

// The network of a learned policy, owned by it; NULL for other kinds.
EsPolicyNetwork *es_policy_network(const EsPolicy *policy);

EsRecurrentHealth es_policy_health(const EsPolicy *policy); // of the last decision

// Widens the ranges of hosts that the file of a policy of version 2 names by one that it is trained
// on beside those of its context.
void es_policy_include_host(EsPolicy *policy, const EsGrowthSettings *settings);

// Names what of this host the training of a policy of version 2 did not cover, though it is
// accepted: "6 slots (in training 1 to 5)". Returns whether there is such a thing.
int es_policy_describe_outside(const EsPolicy *policy, const EsGrowthSettings *settings,
                               char text[ES_POLICY_OUTSIDE_BYTES]);

// A file for es_policy_open.
EsStatus es_policy_save(const EsPolicy *policy, const char *path);

ES_EXTERN_C_END

#endif
