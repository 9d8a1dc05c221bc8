// The terms of a reward one by one, for one environment, as double.
//
// Seeds are measured as they were before the decision (EsRewardSeed), the potential of the slots as
// they are after the tick (EsSeed). An operation counts as executed: a refused one is a WAIT. Only
// measurements of this step count; nothing unmeasured is rewarded. reward_rules.h puts the terms
// together. Numbers in comments are the defaults of the settings.
#ifndef ES_REWARD_REWARD_TERM_RULES_H
#define ES_REWARD_REWARD_TERM_RULES_H

#include "reward/reward_fields.h"
#include "reward/reward_settings.h"

// Inputs of the rules; all borrowed.
typedef struct EsRewardRules {
    const EsRewardSettings *settings;
    const EsGrowthSettings *growth;
    int64_t n_host_parameters;
} EsRewardRules;

// The part of a step that all its seeds share.
typedef struct EsRewardStep {
    int32_t op, slot; // carried out; slot -1 for WAIT
    int is_success;   // its gate opened
    int is_last;      // of the episode
    double accuracy;  // percent; below 0: not measured
    int has_joint;    // the next one is known
    double joint;     // CF: accuracy - accuracy with all ablatable seeds off
} EsRewardStep;

static inline ES_HOST_DEVICE double es_reward_min(double a, double b) { return a < b ? a : b; }

static inline ES_HOST_DEVICE double es_reward_max(double a, double b) { return a > b ? a : b; }

// An accuracy that is there: finite, and not ES_NOT_MEASURED.
static inline ES_HOST_DEVICE int es_reward_is_known(float accuracy) {
    return accuracy >= 0 && es_math_is_finite((double)accuracy);
}

// env after decision and tick; the measurements in it are still those of the step.
static inline ES_HOST_DEVICE EsRewardStep es_reward_step_read(const EsGrowthSettings *growth,
                                                              const EsGrowthEnv *env) {
    EsRewardStep step;
    step.op = env->effective_op;
    step.slot = env->acted_slot;
    step.is_success = env->is_success;
    step.is_last = env->step - 1 >= growth->episode_steps;
    step.accuracy = es_reward_is_known(env->accuracy) ? (double)env->accuracy : -1;
    step.has_joint =
        es_reward_is_known(env->accuracy) && es_reward_is_known(env->committed_accuracy);
    step.joint = step.has_joint ? (double)env->accuracy - (double)env->committed_accuracy : 0;
    return step;
}

static inline ES_HOST_DEVICE int es_reward_seed_is_measured(const EsRewardStep *step,
                                                            const EsRewardSeed *seed) {
    return step->has_joint && seed->contribution_age == 0 &&
           es_stage_in(seed->stage, ES_STAGES_RETARGETABLE);
}

// Was `op` carried out on this slot?
static inline ES_HOST_DEVICE int es_reward_did(const EsRewardStep *step, int32_t op, int32_t slot) {
    return step->is_success && step->op == op && step->slot == slot;
}

static inline ES_HOST_DEVICE double es_reward_harmonic(double a, double b) {
    return 2 * a * b / (a + b);
}

// Weight of a fossil after n steps in HOLDING: min(1, n / dwell).
static inline ES_HOST_DEVICE double es_reward_legitimacy(const EsGrowthSettings *growth,
                                                         int32_t steps_in_stage) {
    return growth->holding_dwell <= 0
               ? 1
               : es_reward_min(1, (double)steps_in_stage / growth->holding_dwell);
}

// --- attribution ---

// Early germinations earn less, because any seed looks good while the host is still learning:
//   1 from the warm-up on, floor + (1 - floor) step / warmup before.
static inline ES_HOST_DEVICE double es_reward_timing(const EsRewardSettings *s,
                                                     int32_t germinated_step) {
    if (germinated_step >= s->germination_warmup) {
        return 1;
    }
    double floor = (double)s->germination_floor;
    return floor + (1 - floor) * germinated_step / s->germination_warmup;
}

// c is worth its face where the host gained at least as much since germination; where it gained
// less, the harmonic mean of both; nothing where it gained nothing:
//   p <= 0: 0,  c >= p: 2pc / (p + c),  c < p: c.
static inline ES_HOST_DEVICE double es_reward_bounded(double contribution, double progress) {
    if (progress <= 0) {
        return 0;
    }
    return contribution >= progress ? es_reward_harmonic(progress, contribution) : contribution;
}

// q <= 0, for a seed that seems worth far more than all seeds together:
//   CF > 0.1: -min(0.3, 0.1 (c/CF - 5) / 5) where c/CF > 5;  else -0.3 min(1, c/10); for c > 1.
// None where CF < 0: there the discount takes the credit.
static inline ES_HOST_DEVICE double es_reward_ratio_penalty(const EsRewardSettings *s,
                                                            double contribution, double joint) {
    double most = (double)s->ratio_penalty, limit = (double)s->ratio_limit;
    if (!(contribution > (double)s->ratio_contribution) || joint < 0) {
        return 0;
    }
    if (!(joint > (double)s->ratio_total) || !(joint > 0)) {
        return -most * es_reward_min(1, contribution / (double)s->ratio_full);
    }
    double above = contribution / joint - limit;
    return above > 0 ? -es_reward_min(most, (double)s->ratio_slope * above / limit) : 0;
}

// Worth of a measured seed in this step, before the operation. Harm counts in full; credit is
// bounded by the host's progress, and discounted where all seeds together harm.
static inline ES_HOST_DEVICE double
es_reward_worth(const EsRewardSettings *s, const EsRewardStep *step, const EsRewardSeed *seed) {
    double c = (double)seed->contribution, start = (double)seed->accuracy_germination;
    double progress = es_reward_is_known(seed->accuracy_germination) ? step->accuracy - start : 0;
    if (c < 0) {
        return c;
    }
    double discount =
        step->joint < 0 ? es_math_sigmoid((double)s->discount_steepness * step->joint) : 1;
    return es_reward_bounded(c, progress) * discount * es_reward_timing(s, seed->germinated_step);
}

// The same, given the operation on the seed. PRUNE reverses the sign: removing a harmful seed is
// good, but returns no more than was charged for the harm before. Else germinating something
// harmful and pruning it at first sight would be rewarded.
static inline ES_HOST_DEVICE double es_reward_earned(const EsRewardSettings *s,
                                                     const EsRewardStep *step,
                                                     const EsRewardSeed *seed, int32_t slot,
                                                     float *harm_charged) {
    double worth = es_reward_worth(s, step, seed);
    if (es_reward_did(step, ES_GROWTH_OP_PRUNE, slot)) {
        double refund = es_reward_min(-worth, (double)*harm_charged);
        *harm_charged -= (float)es_reward_max(refund, 0);
        return refund;
    }
    if (es_reward_did(step, ES_GROWTH_OP_FOSSILIZE, slot) && step->joint < 0) {
        return 0;
    }
    *harm_charged += (float)es_reward_max(-worth, 0);
    return worth;
}

// --- warnings ---

// A seed blends while all seeds together harm, or a useful one lingers in HOLDING. 0 or below.
static inline ES_HOST_DEVICE double es_reward_warning(const EsRewardSettings *s,
                                                      const EsRewardStep *step,
                                                      const EsRewardSeed *seed, int32_t slot,
                                                      double attribution) {
    double n = seed->steps_in_stage;
    if (seed->stage == ES_STAGE_BLENDING && step->has_joint && step->joint < 0) {
        return -(double)s->blending_warning -
               es_reward_min((double)s->blending_growth * n, (double)s->blending_cap);
    }
    int is_settled = es_reward_did(step, ES_GROWTH_OP_FOSSILIZE, slot) ||
                     es_reward_did(step, ES_GROWTH_OP_PRUNE, slot);
    if (seed->stage == ES_STAGE_HOLDING && !is_settled && attribution > 0 &&
        seed->steps_in_stage >= s->holding_patience) {
        return -es_reward_min((double)s->holding_warning +
                                  (double)s->holding_growth * (n - s->holding_patience),
                              (double)s->holding_cap);
    }
    return 0;
}

// --- operations ---

// FOSSILIZE in SHAPED, without its cost.
static inline ES_HOST_DEVICE double es_reward_fossilize(const EsRewardRules *rules,
                                                        const EsRewardStep *step,
                                                        const EsRewardSeed *seed) {
    const EsRewardSettings *s = rules->settings;
    double c = (double)seed->contribution;
    int is_measured = es_reward_seed_is_measured(step, seed);
    if (!step->is_success || !step->has_joint) {
        return -(double)s->fossil_invalid;
    }
    if (step->joint < 0) {
        int is_ransom = is_measured && c > (double)s->ransom_contribution &&
                        step->joint < -(double)s->ransom_total;
        return -(double)s->fossil_harm -
               es_reward_min((double)s->fossil_harm_scale * -step->joint,
                             (double)s->fossil_harm_cap) -
               (is_ransom ? (double)s->ransom_penalty : 0);
    }
    if (is_measured && c >= (double)rules->growth->min_contribution) {
        return ((double)s->fossil_base + (double)s->fossil_scale * c + (double)s->fossil_bonus) *
               es_reward_legitimacy(rules->growth, seed->steps_in_stage);
    }
    return -(double)s->fossil_weak;
}

// PRUNE, without its cost: a bonus for a harmful seed, a penalty for any other.
static inline ES_HOST_DEVICE double
es_reward_prune(const EsRewardSettings *s, const EsRewardStep *step, const EsRewardSeed *seed) {
    double c = (double)seed->contribution;
    if (!es_reward_seed_is_measured(step, seed)) {
        return 0;
    }
    if (c < 0) {
        return c < -(double)s->hurting_limit ? (double)s->prune_hurting : (double)s->prune_harmful;
    }
    return -es_reward_min((double)s->prune_useful + (double)s->prune_useful_scale * c,
                          (double)s->prune_useful_cap);
}

// Costs are those of the attempt: a gate that stays closed does not give them back.
static inline ES_HOST_DEVICE double
es_reward_action(const EsRewardRules *rules, const EsRewardStep *step, const EsRewardSeed *seed) {
    const EsRewardSettings *s = rules->settings;
    switch (step->op) {
    case ES_GROWTH_OP_GERMINATE:
        return -(double)s->germinate_cost;
    case ES_GROWTH_OP_SET_ALPHA_TARGET:
        return -(double)s->retarget_cost;
    case ES_GROWTH_OP_ADVANCE:
        return seed->stage == ES_STAGE_TRAINING ? -(double)s->advance_cost : 0;
    case ES_GROWTH_OP_PRUNE:
        return es_reward_prune(s, step, seed) - (double)s->prune_cost;
    case ES_GROWTH_OP_FOSSILIZE:
        return es_reward_fossilize(rules, step, seed) - (double)s->fossilize_cost;
    default:
        return 0;
    }
}

// FOSSILIZE in BASIC:
//   (0.3 + 0.5 h(CF, c)) L for a contributing seed among seeds that help, h the harmonic mean;
//   -0.5 where the gate stays closed, or a seed seems useful while all seeds do not help; else
//   -0.2.
static inline ES_HOST_DEVICE double es_reward_basic_fossilize(const EsRewardRules *rules,
                                                              const EsRewardStep *step,
                                                              const EsRewardSeed *seed) {
    const EsRewardSettings *s = rules->settings;
    double c = (double)seed->contribution;
    int is_measured = es_reward_seed_is_measured(step, seed);
    if (!step->is_success) {
        return -(double)s->basic_invalid;
    }
    // c > 0 keeps the harmonic mean defined when a strict threshold is set below 0
    if (step->joint > 0 && is_measured && c > 0 && c >= (double)rules->growth->min_contribution) {
        return ((double)s->basic_base +
                (double)s->basic_scale * es_reward_harmonic(step->joint, c)) *
               es_reward_legitimacy(rules->growth, seed->steps_in_stage);
    }
    if (step->joint <= 0 && is_measured && c > (double)s->ransom_contribution) {
        return -(double)s->basic_invalid;
    }
    return -(double)s->basic_weak;
}

// --- parameters, slots ---

// Parameters in use: seeds that change the output, by their alpha, and a little for each such slot.
static inline ES_HOST_DEVICE double es_reward_parameters(const EsRewardRules *rules,
                                                         const EsRewardSeed *seeds) {
    double slot = (double)rules->settings->slot_rent * (double)rules->n_host_parameters, sum = 0;
    for (int32_t i = 0; i < rules->growth->n_slots; i++) {
        if (es_stage_in(seeds[i].stage, ES_STAGES_BLENDED)) {
            sum += slot + (double)seeds[i].alpha * seeds[i].n_parameters;
        }
    }
    return sum;
}

static inline ES_HOST_DEVICE double es_reward_host_size(const EsRewardRules *rules) {
    return es_reward_max((double)rules->n_host_parameters, (double)rules->settings->rent_floor);
}

static inline ES_HOST_DEVICE double es_reward_rent(const EsRewardRules *rules,
                                                   const EsRewardSeed *seeds) {
    const EsRewardSettings *s = rules->settings;
    double share = es_reward_parameters(rules, seeds) / es_reward_host_size(rules);
    return -es_reward_min((double)s->rent_weight * es_math_log(1 + share), (double)s->rent_cap);
}

// Parameters that the linear rent of BASIC and SPARSE is measured by.
static inline ES_HOST_DEVICE double es_reward_budget(const EsRewardRules *rules) {
    int32_t budget = rules->settings->param_budget;
    return budget > 0 ? (double)budget : es_reward_max(5 * (double)rules->n_host_parameters, 1);
}

// Share of the room for seeds that living ones take, in BUDGET: all of a seed's parameters,
// whatever its alpha, over what the budget leaves beside the host; without a limit over
// es_reward_budget.
static inline ES_HOST_DEVICE double es_reward_budget_share(const EsRewardRules *rules,
                                                           const EsRewardSeed *seeds) {
    double most = (double)rules->growth->max_parameters, sum = 0;
    double room = most > 0 ? most - (double)rules->n_host_parameters : es_reward_budget(rules);
    for (int32_t i = 0; i < rules->growth->n_slots; i++) {
        sum += es_stage_in(seeds[i].stage, ES_STAGES_LIVING) ? seeds[i].n_parameters : 0;
    }
    return sum / es_reward_max(room, 1);
}

// shock = sum over slots of (change of alpha)^2 params / host, charged to the step that moved it.
static inline ES_HOST_DEVICE double
es_reward_shock(const EsRewardRules *rules, const EsRewardSeed *before, const EsSeed *after) {
    const EsRewardSettings *s = rules->settings;
    double sum = 0;
    for (int32_t i = 0; i < rules->growth->n_slots; i++) {
        double change = (double)after[i].alpha - (double)before[i].alpha;
        sum += change * change * before[i].n_parameters / es_reward_host_size(rules);
    }
    return -es_reward_min((double)s->shock_weight * sum, (double)s->shock_cap);
}

// Slots that cool down are not in use: no decision keeps them busy.
static inline ES_HOST_DEVICE double es_reward_occupancy(const EsRewardRules *rules,
                                                        const EsRewardSeed *seeds) {
    const EsRewardSettings *s = rules->settings;
    int32_t n_living = 0, n_fossils = 0;
    for (int32_t i = 0; i < rules->growth->n_slots; i++) {
        n_living += es_stage_in(seeds[i].stage, ES_STAGES_LIVING);
        n_fossils += seeds[i].stage == ES_STAGE_FOSSILIZED;
    }
    return -(double)s->occupancy_cost * es_reward_max(0, n_living - s->occupancy_free) -
           (double)s->fossil_upkeep * n_fossils;
}

// --- shaping ---

// Potential of one slot: phi(stage) + min(0.3 n, 2), 0 without a living seed.
static inline ES_HOST_DEVICE double es_reward_slot_potential(const EsRewardSettings *s,
                                                             int32_t stage, int32_t n_steps) {
    double phi;
    switch (stage) {
    case ES_STAGE_GERMINATED:
        phi = (double)s->potential_germinated;
        break;
    case ES_STAGE_TRAINING:
        phi = (double)s->potential_training;
        break;
    case ES_STAGE_BLENDING:
        phi = (double)s->potential_blending;
        break;
    case ES_STAGE_HOLDING:
        phi = (double)s->potential_holding;
        break;
    case ES_STAGE_FOSSILIZED:
        phi = (double)s->potential_fossilized;
        break;
    default:
        return 0;
    }
    return phi + es_reward_min((double)s->progress_step * n_steps, (double)s->progress_cap);
}

// Potential-based shaping (Ng, Harada, Russell 1999) over the whole state:
//   F = w (gamma Phi_t - Phi_{t-1}),  Phi = sum over slots after the tick, 0 after the last step.
// The discounted sum of F over an episode is 0. Phi is rounded once, before either use, so that it
// cancels exactly.
static inline ES_HOST_DEVICE double es_reward_shaping(const EsRewardRules *rules,
                                                      const EsRewardStep *step, EsRewardEnv *memory,
                                                      const EsSeed *seeds) {
    const EsRewardSettings *s = rules->settings;
    double before = (double)memory->potential, sum = 0;
    for (int32_t i = 0; i < rules->growth->n_slots && !step->is_last; i++) {
        sum += es_reward_slot_potential(s, seeds[i].stage, seeds[i].steps_in_stage);
    }
    memory->potential = (float)sum;
    return (double)s->shaping_weight * ((double)s->gamma * (double)memory->potential - before);
}

#endif
