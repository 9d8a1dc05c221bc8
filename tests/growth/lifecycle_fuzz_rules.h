// A random life under the growth rules, for tests, on the CPU and on a GPU: one environment whose
// hosts are of all kinds (1 to 16 slots, two presets, strict or not, automatic or not) and who gets
// legal, illegal and nonsensical actions, and losses, gradients and accuracies that may be missing,
// huge, infinite or NaN. Equal seeds live equal lives, bit for bit, on either device.
//
//     FuzzLife life;
//     fuzz_begin(&life, seed);
//     for (int i = 0; i < n_steps; i++) fuzz_step(&life);
//     // life.hash is of every state that was passed
#ifndef ES_TEST_LIFECYCLE_FUZZ_RULES_H
#define ES_TEST_LIFECYCLE_FUZZ_RULES_H

#include "base/random_rules.h"
#include "growth/rules/contribution_rules.h"
#include "growth/rules/lifecycle_rules.h"

typedef struct FuzzLife {
    EsGrowthSettings settings; // of this world
    EsGrowthEnv env;
    EsSeed seeds[ES_SLOTS_MAX];
    EsActionMasks masks;
    EsAction action;
    EsAblation ablations;
    float accuracy[ES_ABLATION_PATTERNS_MAX]; // of the ablations
    EsInteractions pairs;
    uint64_t seed;
    uint32_t world, step, draw; // where the random numbers are
    uint64_t hash;              // of every state that was passed
} FuzzLife;

// --- random choices ---

static inline ES_HOST_DEVICE uint32_t fuzz_below(FuzzLife *f, uint32_t n) {
    EsRandom4 r = es_random_draw(f->seed, f->world, ES_PURPOSE_EVALUATION, f->step, f->draw++);
    return es_random_below(r.word[0], n);
}

static inline ES_HOST_DEVICE int fuzz_chance(FuzzLife *f, uint32_t percent) {
    return fuzz_below(f, 100) < percent;
}

static inline ES_HOST_DEVICE float fuzz_between(FuzzLife *f, float low, float high) {
    return low + (high - low) * (float)fuzz_below(f, 1u << 20) * 0x1p-20f;
}

// One of the bits; -1 where there is none, which no mask should have.
static inline ES_HOST_DEVICE int32_t fuzz_pick_bit(FuzzLife *f, uint32_t bits) {
    uint32_t n_bits = 0;
    for (uint32_t rest = bits; rest != 0; rest &= rest - 1) {
        n_bits++;
    }
    uint32_t nth = fuzz_below(f, n_bits);
    for (int32_t bit = 0; bit < 32; bit++) {
        if ((bits >> bit) & 1u && nth-- == 0) {
            return bit;
        }
    }
    return -1;
}

// From bits: converting a NaN from double leaves other bits on a GPU than on the CPU.
static inline ES_HOST_DEVICE float fuzz_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define FUZZ_NAN      fuzz_float(0x7fc00000u)
#define FUZZ_INFINITY fuzz_float(0x7f800000u)

// --- the hash ---

// Whole words of four bytes.
static inline ES_HOST_DEVICE void fuzz_mix(FuzzLife *f, const void *data, size_t n_bytes) {
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t i = 0; i + 4 <= n_bytes; i += 4) {
        uint32_t word;
        memcpy(&word, bytes + i, 4);
        f->hash = (f->hash ^ word) * 1099511628211u;
    }
}

// --- a life ---

static inline ES_HOST_DEVICE void fuzz_begin(FuzzLife *f, uint64_t seed) {
    memset(f, 0, sizeof *f);
    f->seed = seed;
    f->hash = 14695981039346656037u;
}

static inline ES_HOST_DEVICE int fuzz_needs_world(const FuzzLife *f) {
    return f->world == 0 || (int32_t)f->step >= f->settings.episode_steps;
}

static inline ES_HOST_DEVICE void fuzz_begin_world(FuzzLife *f) {
    const int32_t slots[] = {1, 2, 3, 5, 8, 16};
    f->world++;
    f->step = f->draw = 0;
    int32_t n_slots = slots[fuzz_below(f, 6)];
    f->settings = fuzz_chance(f, 70) ? es_growth_settings_tiny(n_slots, 10)
                                     : es_growth_settings_default(n_slots, 10);
    EsGrowthSettings *s = &f->settings;
    s->episode_steps = 30 + (int32_t)fuzz_below(f, 120);
    s->is_strict = fuzz_chance(f, 30);
    s->auto_forward = (int32_t)fuzz_below(f, 8);
    s->max_seeds = fuzz_chance(f, 50) ? (int32_t)fuzz_below(f, (uint32_t)n_slots + 1) : 0;
    s->blueprints = fuzz_chance(f, 20) ? ES_BLUEPRINTS_TRANSFORMER : ES_BLUEPRINTS_CNN;
    if (fuzz_chance(f, 30)) { // two rows
        int32_t columns = (n_slots + 1) / 2;
        for (int32_t i = 0; i < n_slots; i++) {
            s->slot_row[i] = i / columns;
            s->slot_column[i] = i % columns;
        }
    }
    fuzz_mix(f, s, sizeof *s);
    es_env_reset(s, &f->env, f->seeds);
}

static inline ES_HOST_DEVICE EsGradientSums fuzz_gradients(FuzzLife *f) {
    EsGradientSums sums = es_gradient_sums_empty();
    uint32_t kind = fuzz_below(f, 100);
    int n_tensors = kind < 5 ? 0 : 1 + (int)fuzz_below(f, 4);
    for (int i = 0; i < n_tensors; i++) {
        double norm = (double)fuzz_between(f, 0.01f, 3);
        norm = kind < 8    ? 0
               : kind < 11 ? 1e6
               : kind < 12 ? es_math_nan()
               : kind < 13 ? es_math_infinity()
                           : norm;
        es_gradient_add(&f->settings, &sums, norm * norm, 50, 1);
    }
    return sums;
}

// Stands in for the training and validation of a step.
static inline ES_HOST_DEVICE void fuzz_measure(FuzzLife *f) {
    uint32_t kind = fuzz_below(f, 400);
    float loss = kind == 0   ? FUZZ_NAN
                 : kind == 1 ? FUZZ_INFINITY
                 : kind < 12 ? 60.0f
                 : kind < 14 ? f->settings.random_loss
                             : fuzz_between(f, 0.2f, 1.2f);
    float accuracy = kind == 20 ? FUZZ_NAN : fuzz_between(f, 10, 90);
    es_env_measure(&f->settings, &f->env, f->seeds, loss, accuracy);
    EsGradientSums host = fuzz_gradients(f);
    for (int32_t s = 0; s < f->settings.n_slots; s++) {
        if (f->seeds[s].stage != ES_STAGE_DORMANT && fuzz_chance(f, 90)) {
            EsGradientSums sums = fuzz_gradients(f);
            es_gradient_record(&f->settings, &f->seeds[s], &sums, &host);
        }
    }
    f->ablations = es_ablation_list(&f->settings, f->seeds);
    for (int32_t k = 0; k < es_ablation_count(&f->ablations); k++) {
        f->accuracy[k] =
            fuzz_chance(f, 2) ? FUZZ_NAN : accuracy + fuzz_between(f, -5, k > 0 ? 2 : 0);
    }
    memset(&f->pairs, 0, sizeof f->pairs);
    es_contribution_record(&f->settings, &f->env, f->seeds, &f->ablations, f->accuracy, &f->pairs);
}

// Legal, half-legal (a legal op on any slot) or any bytes at all.
static inline ES_HOST_DEVICE EsAction fuzz_action(FuzzLife *f) {
    EsAction action = es_action_wait();
    uint32_t kind = fuzz_below(f, 100);
    if (kind < 40) {
        return action;
    }
    if (kind < 85) {
        int32_t op = fuzz_pick_bit(f, f->masks.head[ES_HEAD_OP]);
        for (int32_t head = 0; head < ES_HEAD_OP; head++) {
            action.head[head] = (int8_t)fuzz_pick_bit(f, es_masks_head(&f->masks, op, head));
        }
        action.head[ES_HEAD_OP] = (int8_t)op;
        return action;
    }
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        int32_t size = es_head_size(head, f->settings.n_slots);
        action.head[head] =
            (int8_t)(kind < 95 ? fuzz_below(f, (uint32_t)size + 1) : fuzz_below(f, 256));
    }
    return action;
}

// --- a step, and its parts ---

// Up to the decision, in a world that goes on.
static inline ES_HOST_DEVICE void fuzz_decide(FuzzLife *f) {
    f->step++;
    f->draw = 0;
    fuzz_measure(f);
    f->masks = es_env_masks(&f->settings, &f->env, f->seeds);
    f->action = fuzz_action(f);
}

static inline ES_HOST_DEVICE void fuzz_note(FuzzLife *f) {
    fuzz_mix(f, f->seeds, (size_t)f->settings.n_slots * sizeof f->seeds[0]);
    fuzz_mix(f, &f->env, sizeof f->env);
    fuzz_mix(f, &f->masks, sizeof f->masks);
    fuzz_mix(f, &f->action, sizeof f->action);
    fuzz_mix(f, &f->pairs, sizeof f->pairs);
}

static inline ES_HOST_DEVICE void fuzz_step(FuzzLife *f) {
    if (fuzz_needs_world(f)) {
        fuzz_begin_world(f);
    }
    fuzz_decide(f);
    es_env_apply(&f->settings, &f->env, f->seeds, &f->action);
    es_env_tick(&f->settings, &f->env, f->seeds);
    fuzz_note(f);
}

#endif
