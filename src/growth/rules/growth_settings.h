// Every number of the growth rules in one plain struct: slots, dwell times in steps, thresholds.
// Defaults are those of the published program; a pace shortens the dwell times.
//
//     EsGrowthSettings settings = es_growth_settings_default(3, 10);
//     settings.auto_forward = ES_AUTO_FORWARD_ALL;
//     ES_TRY(es_growth_settings_check(&settings));
#ifndef ES_GROWTH_GROWTH_SETTINGS_H
#define ES_GROWTH_GROWTH_SETTINGS_H

#include <string.h>

#include "base/math_rules.h"
#include "esper/status.h"
#include "growth/rules/action_rules.h"

#define ES_GOVERNOR_WINDOW_MAX 20

// Gates that the tick opens on its own.
enum {
    ES_AUTO_FORWARD_G1 = 1,
    ES_AUTO_FORWARD_G2 = 2,
    ES_AUTO_FORWARD_G3 = 4,
    ES_AUTO_FORWARD_ALL = 7
};

// Place of a slot in its block.
typedef enum EsSlotPool {
    ES_SLOT_POOL_NONE, // the block has no pool
    ES_SLOT_POOL_BEFORE,
    ES_SLOT_POOL_AFTER
} EsSlotPool;

typedef struct EsGrowthSettings {
    // slots, in the order of actions: row by row
    int32_t n_slots;                   // 1..16
    int32_t slot_row[ES_SLOTS_MAX];    // r of "r0c1"
    int32_t slot_column[ES_SLOTS_MAX]; // c of "r0c1"
    int32_t blueprints;                // legal ones, as bits
    int32_t max_seeds;                 // living and fossils; 0 = no limit
    // trainable numbers of each blueprint in each slot, and of a gate network on top; filled in by
    // the owner of the host, 0 = unknown
    int32_t blueprint_parameters[ES_SLOTS_MAX][ES_N_BLUEPRINT_IDS];
    int32_t gate_parameters[ES_SLOTS_MAX];

    // stages
    int32_t episode_steps;
    int32_t is_strict;    // strict gates ask for evidence of use, permissive ones for safety
    int32_t auto_forward; // bits ES_AUTO_FORWARD_*

    // dwell times, in steps
    int32_t training_dwell; // in TRAINING before G2; 0: that stage has no batch
    int32_t blending_dwell; // in BLENDING before a strict G3
    int32_t embargo_dwell;  // in EMBARGOED
    int32_t reset_dwell;    // in RESETTING
    int32_t holding_dwell;  // in HOLDING until a fossil counts in full (rewards)
    int32_t prune_age;      // least age at which a policy may prune
    int32_t tempo[3];       // ticks of the first ramp, by the tempo head
    int32_t alpha_speed[4]; // ticks of later ramps, by the speed head
    float alpha_target[3];  // by the target head

    // gates
    float min_health;       // of gradients, G2
    float min_improvement;  // percent points since the stage began, strict G2
    float min_ratio;        // of gradients, seed to host, strict G2
    float min_contribution; // percent points, strict G5; a fossil from here on is "contributing"

    // gradients
    float vanishing_norm;    // a tensor's norm below it is vanishing
    float exploding_clips;   // times the clip in force: above it a norm is exploding
    float vanishing_penalty; // health lost when all tensors vanish
    float exploding_penalty; // health lost when all tensors explode
    float gradient_decay;    // of the running averages of ratio and norm

    float velocity_decay; // of the running change of a contribution

    // governor
    int32_t governor_window;      // losses remembered, at most 20
    int32_t governor_minimum;     // losses needed before anything but NaN counts
    int32_t divergences_to_panic; // consecutive
    int32_t snapshot_every;       // steps
    float divergence_sigmas;      // above the mean
    float divergence_means;       // times the mean
    float divergence_loss;        // absolute
    float random_loss;            // ln(classes): the loss of guessing
    float lobotomy_mean;          // times random_loss: the mean must have been below
    float lobotomy_band;          // times random_loss: how near to guessing the loss is now
    float governor_prune_penalty; // reward for each seed the governor takes out

    // tracker
    float plateau_points; // accuracy gain below which a step counts as plateau
    int32_t stable_steps; // in a row until the host counts as stabilised
    float stable_gain;    // relative: a loss falling faster is not stable,
    float stable_loss;    // nor one rising faster

    // the budget: parameters of the host and its living seeds together; 0 = no limit
    int32_t max_parameters;

    // the host and the course of its learning rate, for observations; filled in by the owner of the
    // host, 0 = unknown
    int32_t n_host_parameters, n_classes, n_blocks;
    int32_t slot_channels[ES_SLOTS_MAX];
    int32_t slot_side[ES_SLOTS_MAX]; // height and width of the maps there
    int32_t slot_pool[ES_SLOTS_MAX]; // EsSlotPool
    int32_t rate_decay;              // EsDecay
    float rate_warmup, rate_final;   // shares of the episode, of the learning rate
    int32_t rate_steps;              // ES_DECAY_STEP: steps between drops,
    float rate_factor;               // to this share
    int32_t hidden_inputs;           // EsHiddenInputs, for ablations
} EsGrowthSettings;

// Inputs that observations of version 2 leave out: none, the budget, or the places of slots.
typedef enum EsHiddenInputs { ES_HIDE_NONE, ES_HIDE_BUDGET, ES_HIDE_PLACE } EsHiddenInputs;

// How soon a seed becomes a part of its host: as published (10 steps in TRAINING), in short stages
// for episodes of 30 steps, after one step, or with the first batch after its germination. A seed
// begins as the identity (blueprint.h): blended in at once it does its host no harm, and trains
// with it for most of an episode.
typedef enum EsGrowthPace {
    ES_PACE_PUBLISHED,
    ES_PACE_SHORT,
    ES_PACE_SWIFT,
    ES_PACE_INSTANT
} EsGrowthPace;

// Sets dwell times, first ramps and the governor's patience.
static inline ES_HOST_DEVICE void es_growth_settings_set_pace(EsGrowthSettings *s,
                                                              EsGrowthPace pace) {
    int is_published = pace == ES_PACE_PUBLISHED, is_swift = pace >= ES_PACE_SWIFT;
    s->training_dwell = s->blending_dwell = is_published              ? 10
                                            : pace == ES_PACE_INSTANT ? 0
                                            : is_swift                ? 1
                                                                      : 3;
    s->embargo_dwell = is_published ? 5 : is_swift ? 1 : 2;
    s->reset_dwell = 1;
    s->holding_dwell = s->prune_age = is_published ? 5 : is_swift ? 1 : 2;
    s->tempo[0] = is_published ? 3 : 1;
    s->tempo[1] = is_published ? 5 : 2;
    s->tempo[2] = is_published ? 8 : 3;
    s->governor_minimum = is_published ? 10 : 5;
}

// n_slots in one row (r0c0, r0c1, ...), CNN blueprints, permissive gates, nothing automatic, any
// number of seeds.
static inline ES_HOST_DEVICE EsGrowthSettings es_growth_settings_default(int32_t n_slots,
                                                                         int32_t n_classes) {
    EsGrowthSettings s;
    memset(&s, 0, sizeof s);
    s.n_slots = n_slots;
    for (int32_t i = 0; i < ES_SLOTS_MAX; i++) {
        s.slot_column[i] = i;
    }
    s.blueprints = ES_BLUEPRINTS_CNN;
    s.episode_steps = 150;
    es_growth_settings_set_pace(&s, ES_PACE_PUBLISHED);
    s.alpha_speed[0] = 0;
    s.alpha_speed[1] = 3;
    s.alpha_speed[2] = 5;
    s.alpha_speed[3] = 8;
    s.alpha_target[0] = 0.5f;
    s.alpha_target[1] = 0.7f;
    s.alpha_target[2] = 1.0f;
    s.min_health = 0.7f;
    s.min_improvement = 0.5f;
    s.min_ratio = 0.1f;
    s.min_contribution = 1.0f;
    s.vanishing_norm = 1e-7f;
    s.exploding_clips = 10.0f;
    s.vanishing_penalty = 0.5f;
    s.exploding_penalty = 0.8f;
    s.gradient_decay = 0.9f;
    s.velocity_decay = 0.7f;
    s.governor_window = ES_GOVERNOR_WINDOW_MAX;
    s.divergences_to_panic = 3;
    s.snapshot_every = 5;
    s.divergence_sigmas = 6.0f;
    s.divergence_means = 3.0f;
    s.divergence_loss = 12.0f;
    s.random_loss = (float)es_math_log(n_classes);
    s.lobotomy_mean = 0.6f;
    s.lobotomy_band = 0.065f;
    s.governor_prune_penalty = -0.2f;
    s.plateau_points = 0.5f;
    s.stable_steps = 3;
    s.stable_gain = 0.03f;
    s.stable_loss = 0.05f;
    return s;
}

// The defaults of `tiny`: short episodes and stages.
static inline ES_HOST_DEVICE EsGrowthSettings es_growth_settings_tiny(int32_t n_slots,
                                                                      int32_t n_classes) {
    EsGrowthSettings s = es_growth_settings_default(n_slots, n_classes);
    s.episode_steps = 30;
    es_growth_settings_set_pace(&s, ES_PACE_SHORT);
    return s;
}

ES_EXTERN_C_BEGIN

// CONFIG names the first setting that the rules cannot work with, its value and its range.
EsStatus es_growth_settings_check(const EsGrowthSettings *settings);

ES_EXTERN_C_END

// Does slot i run before slot j? Actions count slots row by row, execution goes column by column:
// r0c0, r1c0, r0c1, r1c1, ...
static inline ES_HOST_DEVICE int es_slot_runs_before(const EsGrowthSettings *settings, int32_t i,
                                                     int32_t j) {
    int32_t columns = settings->slot_column[i] - settings->slot_column[j];
    return columns != 0 ? columns < 0 : settings->slot_row[i] < settings->slot_row[j];
}

#endif
