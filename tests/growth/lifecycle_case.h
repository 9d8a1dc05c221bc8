// One host under the growth rules, for tests: a step as the engine makes it, with healthy gradients
// and the accuracy that the test says.
#ifndef ES_TEST_LIFECYCLE_CASE_H
#define ES_TEST_LIFECYCLE_CASE_H

#include "growth/rules/contribution_rules.h"
#include "growth/rules/lifecycle_rules.h"

typedef struct LifecycleCase {
    EsGrowthSettings settings;
    EsGrowthEnv env;
    EsSeed seeds[ES_SLOTS_MAX];
    float loss, accuracy;     // of the validations to come
    float contribution;       // of every ablatable seed
    int has_no_gradients;     // gradients are not measured
    EsActionMasks masks;      // of the last decision
    int32_t contribution_age; // of slot 0 at the last decision
} LifecycleCase;

static inline LifecycleCase case_begin(EsGrowthSettings settings) {
    LifecycleCase c;
    memset(&c, 0, sizeof c);
    c.settings = settings;
    c.loss = 1;
    c.accuracy = 50;
    c.contribution = 2;
    es_env_reset(&c.settings, &c.env, c.seeds);
    return c;
}

static inline EsAction action_on(int32_t op, int32_t slot) {
    EsAction action = es_action_wait();
    action.head[ES_HEAD_OP] = (int8_t)op;
    action.head[ES_HEAD_SLOT] = (int8_t)slot;
    action.head[ES_HEAD_BLUEPRINT] = 1; // conv_light
    return action;
}

// Gradients of 4 tensors with norm 0.5 each.
static inline EsGradientSums healthy_sums(const EsGrowthSettings *settings) {
    EsGradientSums sums = es_gradient_sums_empty();
    for (int i = 0; i < 4; i++) {
        es_gradient_add(settings, &sums, 0.25, 100, 1);
    }
    return sums;
}

// Everything of a step before the decision.
static inline void case_measure(LifecycleCase *c) {
    es_env_measure(&c->settings, &c->env, c->seeds, c->loss, c->accuracy);
    EsGradientSums sums = healthy_sums(&c->settings);
    for (int32_t s = 0; s < c->settings.n_slots && !c->has_no_gradients; s++) {
        es_gradient_record(&c->settings, &c->seeds[s], &sums, &sums);
    }
    EsAblation list = es_ablation_list(&c->settings, c->seeds);
    float accuracy[ES_ABLATION_PATTERNS_MAX];
    EsInteractions pairs;
    for (int32_t k = 0; k < es_ablation_count(&list); k++) {
        int32_t off = es_ablation_off(&list, k);
        accuracy[k] = c->accuracy;
        for (int32_t i = 0; i < list.n; i++) {
            accuracy[k] -= (off >> i) & 1 ? c->contribution : 0;
        }
    }
    es_contribution_record(&c->settings, &c->env, c->seeds, &list, accuracy, &pairs);
    c->masks = es_env_masks(&c->settings, &c->env, c->seeds);
    c->contribution_age = c->seeds[0].contribution_age;
}

// One whole step.
static inline void case_step(LifecycleCase *c, EsAction action) {
    case_measure(c);
    es_env_apply(&c->settings, &c->env, c->seeds, &action);
    es_env_tick(&c->settings, &c->env, c->seeds);
}

static inline void case_wait(LifecycleCase *c, int n_steps) {
    for (int i = 0; i < n_steps; i++) {
        case_step(c, es_action_wait());
    }
}

// Is the op legal for the slot at the last decision?
static inline int case_allows(const LifecycleCase *c, int32_t op, int32_t slot) {
    return (c->masks.slot_by_op[op] >> slot) & 1;
}

// Settings with everything automatic.
static inline EsGrowthSettings automatic(EsGrowthSettings settings) {
    settings.auto_forward = ES_AUTO_FORWARD_ALL;
    return settings;
}

// Germinate in slot 0 and wait until the seed is in HOLDING.
static inline void case_grow(LifecycleCase *c, int32_t slot) {
    case_step(c, action_on(ES_GROWTH_OP_GERMINATE, slot));
    for (int i = 0; i < 100 && c->seeds[slot].stage != ES_STAGE_HOLDING; i++) {
        case_step(c, es_action_wait());
    }
}

#endif
