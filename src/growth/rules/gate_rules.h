// Gates: conditions for a seed's next stage. Each check that was asked is a bit, each one that
// failed too; a gate opens when none failed. Nothing unmeasured ever passes. There is no G4.
//
//   gate  permissive                                   strict
//   G0    blueprint legal, seed numbered               same
//   G1    stage is GERMINATED                          same
//   G2    dwell; gradient health measured,             dwell; improvement; ratio measured, high
//         none exploding, health high
//         (without a dwell time nothing)               (the same)
//   G3    target is 1; alpha rests on it               and dwell
//   G5    contribution measured; healthy               and contribution high
#ifndef ES_GROWTH_GATE_RULES_H
#define ES_GROWTH_GATE_RULES_H

#include "growth/rules/alpha_rules.h"

typedef enum EsGate {
    ES_GATE_G0 = 0,
    ES_GATE_G1 = 1,
    ES_GATE_G2 = 2,
    ES_GATE_G3 = 3,
    ES_GATE_G5 = 5
} EsGate;

// name, spelling in telemetry
#define ES_GATE_CHECK_LIST(X)                                                                      \
    X(SEED, seed_numbered)                                                                         \
    X(BLUEPRINT, blueprint_legal)                                                                  \
    X(STAGE, stage)                                                                                \
    X(DWELL, dwell)                                                                                \
    X(HEALTH_MEASURED, health_measured)                                                            \
    X(NOT_EXPLODING, not_exploding)                                                                \
    X(HEALTH, health)                                                                              \
    X(IMPROVEMENT, improvement)                                                                    \
    X(RATIO_MEASURED, ratio_measured)                                                              \
    X(RATIO, ratio)                                                                                \
    X(TARGET_FULL, target_full)                                                                    \
    X(TARGET_REACHED, target_reached)                                                              \
    X(CONTRIBUTION_MEASURED, contribution_measured)                                                \
    X(HEALTHY, healthy)                                                                            \
    X(CONTRIBUTION, contribution)

typedef enum EsGateCheck {
#define X(name, spelling) ES_GATE_CHECK_##name,
    ES_GATE_CHECK_LIST(X)
#undef X
        ES_N_GATE_CHECKS
} EsGateCheck;

typedef struct EsGateResult {
    int32_t gate;    // EsGate
    int32_t checked; // EsGateCheck asked, as bits
    int32_t failed;  // those that failed, as bits
    float score;     // 0..1, how far above the bar
} EsGateResult;

static inline ES_HOST_DEVICE int es_gate_is_open(const EsGateResult *result) {
    return result->checked != 0 && result->failed == 0;
}

static inline ES_HOST_DEVICE void es_gate_ask(EsGateResult *result, int32_t check, int holds) {
    result->checked |= 1 << check;
    if (!holds) {
        result->failed |= 1 << check;
    }
}

static inline ES_HOST_DEVICE EsGateResult es_gate_result(int32_t gate) {
    EsGateResult result;
    result.gate = gate;
    result.checked = 0;
    result.failed = 0;
    result.score = 0;
    return result;
}

static inline ES_HOST_DEVICE int es_blueprint_is_legal(const EsGrowthSettings *settings,
                                                       int32_t blueprint) {
    return blueprint > ES_BLUEPRINT_ID_NOOP && blueprint < ES_N_BLUEPRINT_IDS &&
           (settings->blueprints & ES_BLUEPRINT_ID_BIT(blueprint)) != 0;
}

static inline ES_HOST_DEVICE int es_contribution_is_measured(const EsSeed *seed) {
    return seed->contribution_age >= 0;
}

// Percent points since the stage began; 0 as long as either end is not measured.
static inline ES_HOST_DEVICE float es_seed_improvement(const EsSeed *seed) {
    int known = seed->accuracy_stage_start >= 0 && seed->accuracy_now >= 0;
    return known ? seed->accuracy_now - seed->accuracy_stage_start : 0.0f;
}

// Gradients were measured, and no tensor exploded when they last were.
static inline ES_HOST_DEVICE int es_seed_is_healthy(const EsSeed *seed) {
    return seed->gradient_health > 0 && seed->n_exploding == 0;
}

static inline ES_HOST_DEVICE void es_gate_check_g2(const EsGrowthSettings *settings,
                                                   const EsSeed *seed, EsGateResult *result) {
    float improvement = es_seed_improvement(seed);
    es_gate_ask(result, ES_GATE_CHECK_DWELL, seed->steps_in_stage >= settings->training_dwell);
    if (settings->training_dwell == 0) {
        return; // an untrained seed is the identity: nothing was measured that could be asked for
    }
    if (settings->is_strict) {
        es_gate_ask(result, ES_GATE_CHECK_IMPROVEMENT,
                    seed->accuracy_stage_start >= 0 && improvement >= settings->min_improvement);
        es_gate_ask(result, ES_GATE_CHECK_RATIO_MEASURED, seed->gradient_ratio >= 0);
        es_gate_ask(result, ES_GATE_CHECK_RATIO, seed->gradient_ratio >= settings->min_ratio);
    } else {
        es_gate_ask(result, ES_GATE_CHECK_HEALTH_MEASURED, seed->gradient_health >= 0);
        es_gate_ask(result, ES_GATE_CHECK_NOT_EXPLODING, seed->n_exploding == 0);
        es_gate_ask(result, ES_GATE_CHECK_HEALTH, seed->gradient_health >= settings->min_health);
    }
    result->score = (float)es_math_clamp((double)improvement / 5, 0, 1);
}

static inline ES_HOST_DEVICE void es_gate_check_g3(const EsGrowthSettings *settings,
                                                   const EsSeed *seed, EsGateResult *result) {
    es_gate_ask(result, ES_GATE_CHECK_TARGET_FULL,
                (double)seed->alpha_target >= 1 - ES_ALPHA_EPSILON);
    es_gate_ask(result, ES_GATE_CHECK_TARGET_REACHED, es_alpha_is_reached(seed));
    if (settings->is_strict) {
        es_gate_ask(result, ES_GATE_CHECK_DWELL, seed->steps_in_stage >= settings->blending_dwell);
    }
    result->score = seed->alpha;
}

static inline ES_HOST_DEVICE void es_gate_check_g5(const EsGrowthSettings *settings,
                                                   const EsSeed *seed, EsGateResult *result) {
    int measured = es_contribution_is_measured(seed);
    es_gate_ask(result, ES_GATE_CHECK_CONTRIBUTION_MEASURED, measured);
    es_gate_ask(result, ES_GATE_CHECK_HEALTHY, es_seed_is_healthy(seed));
    if (settings->is_strict) {
        es_gate_ask(result, ES_GATE_CHECK_CONTRIBUTION,
                    measured && seed->contribution >= settings->min_contribution);
    }
    result->score = measured ? (float)es_math_clamp((double)seed->contribution / 10, 0, 1) : 0.0f;
}

// Ask a gate about a seed. G0 is asked about the seed as it would germinate. Changes nothing.
static inline ES_HOST_DEVICE EsGateResult es_gate_check(const EsGrowthSettings *settings,
                                                        const EsSeed *seed, int32_t gate) {
    EsGateResult result = es_gate_result(gate);
    switch (gate) {
    case ES_GATE_G0:
        es_gate_ask(&result, ES_GATE_CHECK_SEED, seed->number > 0);
        es_gate_ask(&result, ES_GATE_CHECK_BLUEPRINT,
                    es_blueprint_is_legal(settings, seed->blueprint));
        result.score = es_gate_is_open(&result) ? 1.0f : 0.0f;
        break;
    case ES_GATE_G1:
        es_gate_ask(&result, ES_GATE_CHECK_STAGE, seed->stage == ES_STAGE_GERMINATED);
        result.score = es_gate_is_open(&result) ? 1.0f : 0.0f;
        break;
    case ES_GATE_G2:
        es_gate_check_g2(settings, seed, &result);
        break;
    case ES_GATE_G3:
        es_gate_check_g3(settings, seed, &result);
        break;
    case ES_GATE_G5:
        es_gate_check_g5(settings, seed, &result);
        break;
    default:
        es_gate_ask(&result, ES_GATE_CHECK_STAGE, 0);
        break;
    }
    return result;
}

#endif
