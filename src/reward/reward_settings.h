// Every number of the reward in one list: names, defaults, ranges, help. docs/reward.md has the
// formulas. Costs, penalties and caps are positive and taken off; bonuses are added. Every term has
// a weight, and a weight of 0 switches it off.
//
//     EsRewardSettings settings = es_reward_settings_default();
//     settings.mode = ES_REWARD_BASIC;
//     ES_TRY(es_reward_settings_check(&settings));
//
// As keys of a configuration, [reward] in the file:
//
//     static const EsConfigKey keys[] = {
//         ES_RUN_CONFIG_KEYS(EsGrowSettings, run, "grow", "10"),
//         ES_REWARD_CONFIG_KEYS(EsGrowSettings, reward),
//     };
#ifndef ES_REWARD_REWARD_SETTINGS_H
#define ES_REWARD_REWARD_SETTINGS_H

#include "base/macros.h"
#include "esper/config.h"

typedef enum EsRewardMode {
    ES_REWARD_SHAPED, // the worth of seeds, step by step
    ES_REWARD_BASIC,  // little: gain of accuracy, parameters, fossils
    ES_REWARD_SPARSE, // the final result, nothing before
    ES_REWARD_BUDGET, // what growing gained over a host that waits, less the budget it took
    ES_N_REWARD_MODES
} EsRewardMode;

#define ES_REWARD_MODE_CHOICES "shaped|basic|sparse|budget"

// kind, name, default, lowest, highest, help; T and m go through to X (see ES_REWARD_CONFIG_KEYS).
// Potentials are at least 0: else going round a cycle would be rewarded.
#define ES_REWARD_SETTINGS(X, T, m)                                                                \
    X(T, m, FLOAT, contribution_weight, 1, 0, 100, "weight of the accuracy that seeds add")        \
    X(T, m, FLOAT, discount_steepness, 3, 0, 1000,                                                 \
      "rate at which credit fades when all seeds together harm")                                   \
    X(T, m, INT, germination_warmup, 10, 0, 1000000,                                               \
      "steps until a germination earns full credit")                                               \
    X(T, m, FLOAT, germination_floor, 0.4, 0, 1,                                                   \
      "share of full credit for a germination at step 0")                                          \
    X(T, m, INT, credit_steps, 0, 0, 1000000,                                                      \
      "steps of its life in which a seed can earn, 0 = no limit")                                  \
    X(T, m, FLOAT, ratio_penalty, 0.3, 0, 100,                                                     \
      "largest penalty for a seed worth more than all seeds together")                             \
    X(T, m, FLOAT, ratio_slope, 0.1, 0, 100, "ratio penalty per ratio_limit above the limit")      \
    X(T, m, FLOAT, ratio_limit, 5, 0.001, 1e6,                                                     \
      "ratio of a seed's worth to that of all seeds from which it is penalised")                   \
    X(T, m, FLOAT, ratio_contribution, 1, 0, 100,                                                  \
      "percent points from which a seed's ratio is checked")                                       \
    X(T, m, FLOAT, ratio_total, 0.1, 0, 100,                                                       \
      "percent points of all seeds below which their worth counts as none")                        \
    X(T, m, FLOAT, ratio_full, 10, 0.001, 100,                                                     \
      "percent points that cost the whole ratio penalty if all are worth none")                    \
    X(T, m, FLOAT, action_weight, 1, 0, 100, "weight of the costs and bonuses of operations")      \
    X(T, m, FLOAT, germinate_cost, 0.15, 0, 100, "cost of GERMINATE")                              \
    X(T, m, FLOAT, retarget_cost, 0.005, 0, 100, "cost of SET_ALPHA_TARGET")                       \
    X(T, m, FLOAT, advance_cost, 0.1, 0, 100, "cost of ADVANCE out of TRAINING")                   \
    X(T, m, FLOAT, prune_cost, 0.005, 0, 100, "cost of PRUNE")                                     \
    X(T, m, FLOAT, prune_hurting, 0.15, 0, 100, "bonus for pruning a seed that harms badly")       \
    X(T, m, FLOAT, hurting_limit, 0.5, 0, 100, "percent points from which harm is bad")            \
    X(T, m, FLOAT, prune_harmful, 0.1, 0, 100,                                                     \
      "bonus for pruning a seed that harms less than that")                                        \
    X(T, m, FLOAT, prune_useful, 0.3, 0, 100, "penalty for pruning a seed that does not harm")     \
    X(T, m, FLOAT, prune_useful_scale, 0.05, 0, 100,                                               \
      "further prune_useful penalty per percent point the seed added")                             \
    X(T, m, FLOAT, prune_useful_cap, 0.9, 0, 100, "largest prune_useful penalty")                  \
    X(T, m, FLOAT, fossilize_cost, 0.01, 0, 100, "cost of FOSSILIZE")                              \
    X(T, m, FLOAT, fossil_base, 0.5, 0, 100, "bonus for a fossil that contributes")                \
    X(T, m, FLOAT, fossil_scale, 0.1, 0, 100, "further fossil bonus per percent point")            \
    X(T, m, FLOAT, fossil_bonus, 0.964538, 0, 100, "further fossil bonus for permanence")          \
    X(T, m, FLOAT, fossil_weak, 0.2, 0, 100, "penalty for a fossil that adds too little")          \
    X(T, m, FLOAT, fossil_invalid, 1, 0, 100, "penalty for FOSSILIZE at a closed gate")            \
    X(T, m, FLOAT, fossil_harm, 0.5, 0, 100, "penalty for FOSSILIZE when all seeds together harm") \
    X(T, m, FLOAT, fossil_harm_scale, 0.2, 0, 100,                                                 \
      "further fossil_harm penalty per percent point of harm")                                     \
    X(T, m, FLOAT, fossil_harm_cap, 1, 0, 100, "largest further fossil_harm penalty")              \
    X(T, m, FLOAT, ransom_penalty, 0.3, 0, 100,                                                    \
      "further penalty for fossilizing a seed that others depend on")                              \
    X(T, m, FLOAT, ransom_contribution, 0.1, 0, 100,                                               \
      "percent points such a seed seems to add, at least")                                         \
    X(T, m, FLOAT, ransom_total, 0.2, 0, 100,                                                      \
      "percent points by which all seeds together then harm, at least")                            \
    X(T, m, FLOAT, warning_weight, 1, 0, 100, "weight of the worst warning")                       \
    X(T, m, FLOAT, blending_warning, 0.1, 0, 100, "warning when all seeds harm while one blends")  \
    X(T, m, FLOAT, blending_growth, 0.05, 0, 100,                                                  \
      "growth of the blending warning per step in BLENDING")                                       \
    X(T, m, FLOAT, blending_cap, 0.3, 0, 100, "largest growth of the blending warning")            \
    X(T, m, FLOAT, holding_warning, 0.1, 0, 100, "warning when a useful seed lingers in HOLDING")  \
    X(T, m, FLOAT, holding_growth, 0.05, 0, 100, "growth of the holding warning per step")         \
    X(T, m, FLOAT, holding_cap, 0.3, 0, 100, "largest holding warning")                            \
    X(T, m, INT, holding_patience, 2, 0, 1000000, "steps in HOLDING before the holding warning")   \
    X(T, m, FLOAT, synergy_weight, 0.1, 0, 100, "weight of seeds that are better together")        \
    X(T, m, FLOAT, synergy_scale, 2, 0.001, 100,                                                   \
      "percent points of interaction that earn most of the synergy")                               \
    X(T, m, FLOAT, rent_weight, 0.5, 0, 100,                                                       \
      "weight of the rent for parameters in use (logarithm)")                                      \
    X(T, m, FLOAT, rent_cap, 1.5, 0, 100, "largest rent of a step")                                \
    X(T, m, FLOAT, rent_floor, 200, 1, 1e9,                                                        \
      "parameters of the smallest host that rent is relative to")                                  \
    X(T, m, FLOAT, slot_rent, 0.0039, 0, 100,                                                      \
      "parameters that an occupied slot counts for, per host parameter")                           \
    X(T, m, FLOAT, shock_weight, 0.1958, 0, 100, "weight of sudden changes of alpha")              \
    X(T, m, FLOAT, shock_cap, 1, 0, 100, "largest shock of a step")                                \
    X(T, m, FLOAT, occupancy_cost, 0.01, 0, 100, "cost of an occupied slot per step")              \
    X(T, m, INT, occupancy_free, 1, 0, 16, "occupied slots that cost nothing")                     \
    X(T, m, FLOAT, fossil_upkeep, 0.002, 0, 100, "cost of a fossil per step")                      \
    X(T, m, FLOAT, terminal_weight, 0.05, 0, 100,                                                  \
      "reward per percent point of accuracy at the end")                                           \
    X(T, m, FLOAT, shaping_weight, 0.3, 0, 100, "weight of the change of the slots' potential")    \
    X(T, m, FLOAT, potential_germinated, 1, 0, 100, "potential of a seed in GERMINATED")           \
    X(T, m, FLOAT, potential_training, 2, 0, 100, "potential of a seed in TRAINING")               \
    X(T, m, FLOAT, potential_blending, 3.5, 0, 100, "potential of a seed in BLENDING")             \
    X(T, m, FLOAT, potential_holding, 5.5, 0, 100, "potential of a seed in HOLDING")               \
    X(T, m, FLOAT, potential_fossilized, 6, 0, 100, "potential of a seed in FOSSILIZED")           \
    X(T, m, FLOAT, progress_step, 0.3, 0, 100, "further potential per step in a stage")            \
    X(T, m, FLOAT, progress_cap, 2, 0, 100, "largest further potential of a stage")                \
    X(T, m, FLOAT, rollback_penalty, 10, 0, 1e6, "penalty for a host that had to be rolled back")  \
    X(T, m, INT, param_budget, 0, 0, 2147483647,                                                   \
      "basic, sparse: budget of parameters; 0 = 5 times the host's")                               \
    X(T, m, FLOAT, param_penalty, 0.1, 0, 100, "basic, sparse: penalty for a budget used up")      \
    X(T, m, FLOAT, basic_terminal, 5, 0, 1000, "basic: reward for 100 percent points gained")      \
    X(T, m, FLOAT, basic_base, 0.3, 0, 100, "basic: bonus for a fossil that contributes")          \
    X(T, m, FLOAT, basic_scale, 0.5, 0, 100, "basic: further fossil bonus per percent point")      \
    X(T, m, FLOAT, basic_weak, 0.2, 0, 100, "basic: penalty for a fossil that adds too little")    \
    X(T, m, FLOAT, basic_invalid, 0.5, 0, 100,                                                     \
      "basic: penalty for FOSSILIZE at a closed gate or of a harmful seed")                        \
    X(T, m, FLOAT, sparse_scale, 1, 0, 1000, "sparse: scale of the reward at the end")             \
    X(T, m, FLOAT, budget_terminal, 10, 0, 1000,                                                   \
      "budget: reward for 100 percent points over the control at the end")                         \
    X(T, m, FLOAT, budget_curve, 1, 0, 1000,                                                       \
      "budget: reward for 100 percent points over the control, mean of the episode")               \
    X(T, m, FLOAT, budget_rent, 0.1, 0, 1000,                                                      \
      "budget: cost of seeds that fill what the budget leaves beside the host")

#define ES_REWARD_TYPE_INT   int32_t
#define ES_REWARD_TYPE_FLOAT float

typedef struct EsRewardSettings {
    int32_t mode; // EsRewardMode
    // Discount of the learner. No key of its own: the shaping sums to nothing under the learner's
    // discount alone, so the owner of both copies it.
    float gamma;
    // 1 + the environment that only waits in the same episode; 0: none. Set by the owner, no key.
    int32_t control;
#define ES_REWARD_FIELD_(T, m, kind, name, value, lowest, highest, help) ES_REWARD_TYPE_##kind name;
    ES_REWARD_SETTINGS(ES_REWARD_FIELD_, , )
#undef ES_REWARD_FIELD_
} EsRewardSettings;

#define ES_REWARD_KEY_(T, m, kind, name, value, lowest, highest, help)                             \
    , ES_CONFIG_##kind(T, m.name, "reward", #name, #value, lowest, highest, help)

// EsConfigKeys for a member `m` of type EsRewardSettings in a settings struct T. es_config_reset
// does not know gamma and control: set them.
#define ES_REWARD_CONFIG_KEYS(T, m)                                                                \
    ES_CONFIG_CHOICE(T, m.mode, "reward", "mode", "shaped", ES_REWARD_MODE_CHOICES,                \
                     "kind of reward")                                                             \
    ES_REWARD_SETTINGS(ES_REWARD_KEY_, T, m)

ES_EXTERN_C_BEGIN

// SHAPED, discount 0.995, the numbers of the published program.
EsRewardSettings es_reward_settings_default(void);

// CONFIG names the first setting that the rules cannot work with, its value and its range.
EsStatus es_reward_settings_check(const EsRewardSettings *settings);

const char *es_reward_mode_name(int32_t mode); // "shaped"; "?" for an unknown mode

ES_EXTERN_C_END

#endif
