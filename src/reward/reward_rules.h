// Reward of a step of one environment, written once for CPU and CUDA: the terms of
// reward_term_rules.h put together by mode. docs/reward.md gives the reason for each term.
//
//     for (s) latched[s] = es_reward_seed_latch(&seeds[s]);
//     es_env_apply(...); es_env_tick(...);
//     EsRewardTerms terms = es_reward_step(&rules, &memory, latched, &env, seeds);
#ifndef ES_REWARD_REWARD_RULES_H
#define ES_REWARD_REWARD_RULES_H

#include "reward/reward_term_rules.h"

// name, help: the terms of a reward in the order of the columns of `rewards`
#define ES_REWARD_TERMS(X)                                                                         \
    X(attribution, "what the seeds measured in this step add to the accuracy")                     \
    X(action, "costs and bonuses of the operation carried out")                                    \
    X(warning, "the worst warning about a seed that harms or lingers")                             \
    X(synergy, "seeds that are better together")                                                   \
    X(rent, "for parameters in use")                                                               \
    X(shock, "for sudden changes of alpha")                                                        \
    X(occupancy, "for slots in use beyond the first, and for fossils")                             \
    X(terminal, "for the accuracy at the end")                                                     \
    X(shaping, "change of the slots' potential")                                                   \
    X(penalty, "for a rollback, and for seeds that the governor took out")

typedef struct EsRewardTerms {
    float total;
#define X(name, help) float name;
    ES_REWARD_TERMS(X)
#undef X
} EsRewardTerms;

// The terms before they are rounded to float.
typedef struct EsRewardSums {
#define X(name, help) double name;
    ES_REWARD_TERMS(X)
#undef X
} EsRewardSums;

// --- modes ---

// Terms that look at each seed: attribution, the worst warning, and synergy with the largest
// interaction of a seed that earns. Credit may end after a number of steps; warnings go on.
static inline ES_HOST_DEVICE void
es_reward_measure_seeds(const EsRewardRules *rules, const EsRewardStep *step, EsRewardEnv *memory,
                        const EsRewardSeed *seeds, EsRewardSums *sums) {
    const EsRewardSettings *s = rules->settings;
    double earned_sum = 0, worst = 0, interaction = 0;
    for (int32_t i = 0; i < rules->growth->n_slots; i++) {
        const EsRewardSeed *seed = &seeds[i];
        double attribution = 0;
        if (!es_stage_in(seed->stage, ES_STAGES_RETARGETABLE)) {
            memory->harm_charged[i] = 0;
            memory->n_credited[i] = 0;
        } else if (es_reward_seed_is_measured(step, seed)) {
            double earned = es_reward_earned(s, step, seed, i, &memory->harm_charged[i]);
            double suspicion = es_reward_ratio_penalty(s, (double)seed->contribution, step->joint);
            int is_over = s->credit_steps > 0 && memory->n_credited[i] >= s->credit_steps;
            attribution = earned + suspicion;
            earned_sum += (is_over ? es_reward_min(earned, 0) : earned) + suspicion;
            memory->n_credited[i] += earned > 0;
            if (attribution > 0) {
                interaction = es_reward_max(interaction, (double)seed->interaction_sum);
            }
        }
        worst = es_reward_min(worst, es_reward_warning(s, step, seed, i, attribution));
    }
    sums->attribution = (double)s->contribution_weight * earned_sum;
    sums->warning = (double)s->warning_weight * worst;
    if (step->joint >= 0) {
        sums->synergy =
            (double)s->synergy_weight * es_math_tanh(interaction / (double)s->synergy_scale);
    }
}

static inline ES_HOST_DEVICE void
es_reward_step_shaped(const EsRewardRules *rules, const EsRewardStep *step, EsRewardEnv *memory,
                      const EsRewardSeed *latched, const EsSeed *seeds, EsRewardSums *sums) {
    const EsRewardSettings *s = rules->settings;
    es_reward_measure_seeds(rules, step, memory, latched, sums);
    if (step->slot >= 0) {
        sums->action =
            (double)s->action_weight * es_reward_action(rules, step, &latched[step->slot]);
    }
    sums->rent = es_reward_rent(rules, latched);
    sums->shock = es_reward_shock(rules, latched, seeds);
    sums->occupancy = es_reward_occupancy(rules, latched);
    if (step->is_last && step->accuracy >= 0) {
        sums->terminal = (double)s->terminal_weight * step->accuracy;
    }
    sums->shaping = es_reward_shaping(rules, step, memory, seeds);
}

// The accuracy counts by its change over the whole episode.
static inline ES_HOST_DEVICE void
es_reward_step_basic(const EsRewardRules *rules, const EsRewardStep *step, EsRewardEnv *memory,
                     const EsRewardSeed *latched, const EsSeed *seeds, EsRewardSums *sums) {
    const EsRewardSettings *s = rules->settings;
    if (step->op == ES_GROWTH_OP_FOSSILIZE) {
        sums->action =
            (double)s->action_weight * es_reward_basic_fossilize(rules, step, &latched[step->slot]);
    }
    sums->rent =
        -(double)s->param_penalty * es_reward_parameters(rules, latched) / es_reward_budget(rules);
    if (step->is_last && memory->first_accuracy >= 0) {
        sums->terminal = (double)s->basic_terminal *
                         ((double)memory->last_accuracy - (double)memory->first_accuracy) / 100;
    }
    sums->shaping = es_reward_shaping(rules, step, memory, seeds);
}

// scale clamp(committed / 100 - 0.1 fossil parameters / budget, -1, 1) at the end. Both are those
// before the last decision, so that they belong together.
static inline ES_HOST_DEVICE void
es_reward_step_sparse(const EsRewardRules *rules, const EsRewardStep *step,
                      const EsRewardEnv *memory, const EsRewardSeed *latched, EsRewardSums *sums) {
    const EsRewardSettings *s = rules->settings;
    double n_fossil_parameters = 0;
    if (!step->is_last) {
        return;
    }
    for (int32_t i = 0; i < rules->growth->n_slots; i++) {
        n_fossil_parameters +=
            latched[i].stage == ES_STAGE_FOSSILIZED ? latched[i].n_parameters : 0;
    }
    double committed = es_reward_max((double)memory->last_committed, 0);
    double cost = (double)s->param_penalty * n_fossil_parameters / es_reward_budget(rules);
    sums->terminal = (double)s->sparse_scale * es_math_clamp(committed / 100 - cost, -1, 1);
}

// Rewards the gain over the control, a host that only waits in the same episode, both as last
// measured, before the decision; without a control over the episode's first accuracy:
//   attribution = curve gain / steps in every step, terminal = terminal gain in the last one;
//   rent = -rent share of the room for seeds in the last one, and in every step as much of it as
//   the curve weighs beside the end, curve / terminal / steps.
// So a point costs the same size on the way as at the end, and a seed that is taken out before the
// end has paid for the part of the curve that it earned. A host that waits beside its control earns
// exactly 0.
static inline ES_HOST_DEVICE void
es_reward_step_budget(const EsRewardRules *rules, const EsRewardStep *step,
                      const EsRewardEnv *memory, const EsRewardSeed *latched, EsRewardSums *sums) {
    const EsRewardSettings *s = rules->settings;
    float other = s->control > 0 ? memory->control_accuracy : memory->first_accuracy;
    if (memory->last_accuracy < 0 || other < 0) {
        return;
    }
    double gain = ((double)memory->last_accuracy - (double)other) / 100;
    double rent = (double)s->budget_rent * es_reward_budget_share(rules, latched);
    double curve = (double)s->budget_curve, terminal = (double)s->budget_terminal;
    int32_t n_steps = rules->growth->episode_steps;
    sums->attribution = curve * gain / n_steps;
    if (curve > 0) { // at most the whole rent, where the curve weighs more than the end
        sums->rent = -rent * curve / es_reward_max(curve, terminal) / n_steps;
    }
    if (step->is_last) {
        sums->terminal = terminal * gain;
        sums->rent -= rent;
    }
}

// A rolled-back step has no row of its own: its cost goes to the last valid row before, which it
// ends. So the potential is closed as seen from that row, and later steps begin at 0.
static inline ES_HOST_DEVICE void es_reward_step_rollback(const EsRewardRules *rules,
                                                          EsRewardEnv *memory, EsRewardSums *sums) {
    const EsRewardSettings *s = rules->settings;
    sums->penalty = -(double)s->rollback_penalty;
    sums->shaping = -(double)s->shaping_weight * (double)s->gamma * (double)memory->potential;
    memory->potential = 0;
}

// --- a step ---

static inline ES_HOST_DEVICE void es_reward_remember(EsRewardEnv *memory, const EsGrowthEnv *env) {
    if (es_reward_is_known(env->accuracy)) {
        memory->last_accuracy = env->accuracy;
        if (memory->first_accuracy < 0) {
            memory->first_accuracy = env->accuracy;
        }
    }
    if (es_reward_is_known(env->committed_accuracy)) {
        memory->last_committed = env->committed_accuracy;
    }
}

// The reward of a step, after decision and tick. latched [S] from before the decision, seeds [S]
// and env as they are now. Prunes that env has not been rewarded for are accounted for now.
static inline ES_HOST_DEVICE EsRewardTerms es_reward_step(const EsRewardRules *rules,
                                                          EsRewardEnv *memory,
                                                          const EsRewardSeed *latched,
                                                          const EsGrowthEnv *env,
                                                          const EsSeed *seeds) {
    EsRewardStep step = es_reward_step_read(rules->growth, env);
    EsRewardSums sums;
#define X(name, help) sums.name = 0;
    ES_REWARD_TERMS(X)
#undef X
    es_reward_remember(memory, env);
    if (env->refusal == ES_REFUSAL_ROLLED_BACK) {
        es_reward_step_rollback(rules, memory, &sums);
    } else if (rules->settings->mode == ES_REWARD_SHAPED) {
        es_reward_step_shaped(rules, &step, memory, latched, seeds, &sums);
    } else if (rules->settings->mode == ES_REWARD_BASIC) {
        es_reward_step_basic(rules, &step, memory, latched, seeds, &sums);
    } else if (rules->settings->mode == ES_REWARD_SPARSE) {
        es_reward_step_sparse(rules, &step, memory, latched, &sums);
    } else {
        es_reward_step_budget(rules, &step, memory, latched, &sums);
    }
    sums.penalty += (double)rules->growth->governor_prune_penalty * env->n_unrewarded_prunes;

    EsRewardTerms terms;
    double total = 0;
#define X(name, help)                                                                              \
    terms.name = (float)sums.name;                                                                 \
    total += sums.name;
    ES_REWARD_TERMS(X)
#undef X
    terms.total = (float)total;
    memory->total += total;
    memory->recent[memory->n_rewards % ES_REWARD_WINDOW] = terms.total;
    memory->n_rewards++;
    return terms;
}

// 1 / (1 + population variance of the last 20 rewards); 1 before the first.
static inline ES_HOST_DEVICE double es_reward_env_stability(const EsRewardEnv *memory) {
    int32_t n = memory->n_rewards < ES_REWARD_WINDOW ? memory->n_rewards : ES_REWARD_WINDOW;
    double mean = 0, squares = 0;
    for (int32_t i = 0; i < n; i++) {
        mean += (double)memory->recent[i] / n;
    }
    for (int32_t i = 0; i < n; i++) {
        double off = (double)memory->recent[i] - mean;
        squares += off * off / n;
    }
    return 1 / (1 + squares);
}

// --- arrays on one device ---

typedef struct EsRewardView {
    // laid out over one piece of memory by es_reward_view_bind, so that one copy moves all of it
    void *memory;               // borrowed
    size_t memory_bytes;        //
    EsRewardSettings *settings; // [E]
    EsRewardState state;
    // set by the owner
    const EsGrowthSettings *growth; // borrowed
    int64_t n_host_parameters;
    EsRewardTerms *terms; // borrowed: of the last step                       [E]
} EsRewardView;

// Lay the arrays out over memory aligned to 8 bytes at least, which may be device memory. Returns
// its size; with NULL the size alone.
static inline size_t es_reward_view_bind(EsRewardView *view, void *memory, int32_t n_envs,
                                         int32_t n_slots) {
    size_t settings_bytes = es_reward_array_bytes((size_t)n_envs, sizeof *view->settings);
    char *state = memory != NULL ? (char *)memory + settings_bytes : NULL;
    view->memory = memory;
    view->settings = (EsRewardSettings *)memory;
    view->memory_bytes =
        settings_bytes + es_reward_state_bind(&view->state, state, n_envs, n_slots);
    return view->memory_bytes;
}

// Before the decision: keeps the fields of seed `index` of [E, S] that the reward depends on.
static inline ES_HOST_DEVICE void es_reward_view_latch(const EsRewardView *view, size_t index,
                                                       const EsSeed *seed) {
    EsRewardSeed latched = es_reward_seed_latch(seed);
    es_reward_seed_store(&view->state, index, &latched);
}

// After decision and tick: reward environment e, whose seeds [S] and latched [S] are at hand.
// Returns in *n_settled the prunes by the governor that are now accounted for: the owner of the
// state takes them off env.n_unrewarded_prunes.
static inline ES_HOST_DEVICE EsRewardTerms
es_reward_view_step(const EsRewardView *view, const EsGrowthState *growth, size_t e,
                    const EsRewardSeed *latched, const EsSeed *seeds, int32_t *n_settled) {
    EsRewardRules rules = {&view->settings[e], view->growth, view->n_host_parameters};
    EsRewardEnv memory = es_reward_env_load(&view->state, e);
    EsGrowthEnv env = es_growth_env_load(&growth->env, e);
    int32_t control = rules.settings->control;
    if (control > 0 && es_reward_is_known(growth->env.accuracy[control - 1])) {
        memory.control_accuracy = growth->env.accuracy[control - 1];
    }
    EsRewardTerms terms = es_reward_step(&rules, &memory, latched, &env, seeds);
    es_reward_env_store(&view->state, e, &memory);
    *n_settled = env.n_unrewarded_prunes;
    view->terms[e] = terms;
    return terms;
}

#endif
