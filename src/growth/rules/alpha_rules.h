// The alpha controller: moves a seed's share of the blend along a curve, one tick per step.
//
// A ramp is set in HOLD alone, runs monotonically from start to target and snaps to the target at
// its last tick. Alpha is the controller's own value; nothing else holds a copy. Stage and
// algorithm decide how host and seed are blended with it.
#ifndef ES_GROWTH_ALPHA_RULES_H
#define ES_GROWTH_ALPHA_RULES_H

#include "growth/rules/action_rules.h"
#include "growth/rules/seed_fields.h"
#include "growth/rules/stage_rules.h"
#include "kernels/kernel_types.h"

#define ES_ALPHA_EPSILON       1e-6 // nearer than this is reached
#define ES_ALPHA_MIN_STEEPNESS 0.1

// Progress of a ramp at t in [0, 1]:
//   LINEAR  t
//   COSINE  (1 - cos(pi t)) / 2
//   SIGMOID (s(k(t - 1/2)) - s(-k/2)) / (s(k/2) - s(-k/2)), s the logistic function
static inline ES_HOST_DEVICE double es_alpha_progress(int32_t curve, double steepness, double t) {
    if (curve == ES_CURVE_COSINE) {
        return (1 - es_math_cos(0x1.921fb54442d18p+1 * t)) / 2;
    }
    if (curve == ES_CURVE_SIGMOID) {
        double k = steepness > ES_ALPHA_MIN_STEEPNESS ? steepness : ES_ALPHA_MIN_STEEPNESS;
        double low = es_math_sigmoid(-k / 2);
        double span = es_math_sigmoid(k / 2) - low;
        return span > 0 ? (es_math_sigmoid(k * (t - 0.5)) - low) / span : t;
    }
    return t;
}

// Rest at a value: no ramp is left.
static inline ES_HOST_DEVICE void es_alpha_set(EsSeed *seed, float alpha) {
    seed->alpha = alpha;
    seed->alpha_start = alpha;
    seed->alpha_target = alpha;
    seed->alpha_mode = ES_ALPHA_HOLD;
    seed->alpha_ticks = 0;
    seed->alpha_ticks_done = 0;
}

// Begin a ramp of n_ticks to `target`; 0 ticks jump, and where alpha is there already it rests.
// Returns 0, and changes nothing, unless the controller is in HOLD.
static inline ES_HOST_DEVICE int es_alpha_retarget(EsSeed *seed, float target, int32_t n_ticks,
                                                   int32_t curve, float steepness) {
    if (seed->alpha_mode != ES_ALPHA_HOLD) {
        return 0;
    }
    float goal = (float)es_math_clamp(target, 0, 1);
    seed->alpha_curve = curve;
    seed->alpha_steepness =
        steepness > (float)ES_ALPHA_MIN_STEEPNESS ? steepness : (float)ES_ALPHA_MIN_STEEPNESS;
    if (n_ticks <= 0 || goal == seed->alpha) {
        es_alpha_set(seed, goal);
        return 1;
    }
    seed->alpha_start = seed->alpha;
    seed->alpha_target = goal;
    seed->alpha_ticks = n_ticks;
    seed->alpha_ticks_done = 0;
    seed->alpha_mode = goal > seed->alpha ? ES_ALPHA_UP : ES_ALPHA_DOWN;
    return 1;
}

// One tick. Returns 1 when it was the ramp's last one.
//   alpha = start + (target - start) progress(done / total), kept between start and target
static inline ES_HOST_DEVICE int es_alpha_step(EsSeed *seed) {
    if (seed->alpha_mode == ES_ALPHA_HOLD || seed->alpha_ticks <= 0) {
        return 0;
    }
    seed->alpha_ticks_done++;
    if (seed->alpha_ticks_done >= seed->alpha_ticks) {
        seed->alpha = seed->alpha_target;
        seed->alpha_mode = ES_ALPHA_HOLD;
        return 1;
    }
    double start = seed->alpha_start, target = seed->alpha_target;
    double t = (double)seed->alpha_ticks_done / seed->alpha_ticks;
    double alpha = start + (target - start) * es_alpha_progress(seed->alpha_curve,
                                                                (double)seed->alpha_steepness, t);
    double low = start < target ? start : target, high = start < target ? target : start;
    seed->alpha = (float)es_math_clamp(alpha, low, high);
    return 0;
}

// Mean change per tick of the ramp; 0 at rest.
static inline ES_HOST_DEVICE float es_alpha_velocity(const EsSeed *seed) {
    int moves = seed->alpha_mode != ES_ALPHA_HOLD && seed->alpha_ticks > 0;
    return moves ? (seed->alpha_target - seed->alpha_start) / (float)seed->alpha_ticks : 0.0f;
}

// At rest on its target?
static inline ES_HOST_DEVICE int es_alpha_is_reached(const EsSeed *seed) {
    double distance = es_math_abs((double)seed->alpha - (double)seed->alpha_target);
    return seed->alpha_mode == ES_ALPHA_HOLD && distance <= ES_ALPHA_EPSILON;
}

// A seed on its way down is frozen: its parameters get no update, since a seed that fades out must
// not learn to hold on. Lifts with the ramp's last tick.
static inline ES_HOST_DEVICE int es_seed_is_frozen(const EsSeed *seed) {
    return seed->alpha_mode == ES_ALPHA_DOWN;
}

// --- blending of a slot's seed ---

// EsBlendMode in training; NONE where there is nothing to run.
static inline ES_HOST_DEVICE int32_t es_slot_blend_mode(int32_t stage, int32_t algorithm) {
    if (stage == ES_STAGE_TRAINING) {
        return ES_BLEND_INCUBATE;
    }
    if (!es_stage_in(stage, ES_STAGES_BLENDED)) {
        return ES_BLEND_NONE;
    }
    return algorithm == ES_ALGORITHM_MULTIPLY ? ES_BLEND_MULTIPLY
           : algorithm == ES_ALGORITHM_GATE   ? ES_BLEND_GATE
                                              : ES_BLEND_ADD;
}

// Does the seed change the output of the host, with these slots (bits) switched off?
static inline ES_HOST_DEVICE int es_slot_is_on(int32_t stage, float alpha, int32_t slots_off,
                                               int32_t slot) {
    return es_stage_in(stage, ES_STAGES_BLENDED) && alpha > 0 && !((slots_off >> slot) & 1);
}

#endif
