// The governor: watches a host's validation loss, panics when the host is lost, and says when a
// snapshot may be taken.
//
// A panic leads to a rollback in the operation of the same step (lifecycle_rules.h). While a
// divergence is pending nothing is blessed: no snapshot, and no seed becomes a fossil.
#ifndef ES_GROWTH_GOVERNOR_RULES_H
#define ES_GROWTH_GOVERNOR_RULES_H

#include "growth/rules/seed_fields.h"

// name, spelling
#define ES_PANIC_LIST(X)                                                                           \
    X(NONE, none)                                                                                  \
    X(NAN, governor_nan)                                                                           \
    X(LOBOTOMY, governor_lobotomy)                                                                 \
    X(DIVERGENCE, governor_divergence)

typedef enum EsPanic {
#define X(name, spelling) ES_PANIC_##name,
    ES_PANIC_LIST(X)
#undef X
        ES_N_PANICS
} EsPanic;

static inline ES_HOST_DEVICE void es_governor_append(const EsGrowthSettings *settings,
                                                     EsGrowthEnv *env, float loss) {
    env->governed_loss[env->next_governed] = loss;
    env->next_governed = (env->next_governed + 1) % settings->governor_window;
    if (env->n_governed < settings->governor_window) {
        env->n_governed++;
    }
}

// Mean and population variance of the remembered losses, oldest position first.
static inline ES_HOST_DEVICE double es_governor_mean(const EsGrowthEnv *env, double *variance) {
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < env->n_governed; i++) {
        sum += (double)env->governed_loss[i];
    }
    double mean = sum / env->n_governed;
    for (int32_t i = 0; i < env->n_governed; i++) {
        double off = (double)env->governed_loss[i] - mean;
        squares += off * off;
    }
    *variance = squares / env->n_governed;
    return mean;
}

// Vital signs of one step, once per step, with the validation loss of the unablated host:
//   1. not finite                                                         -> panic NAN
//   2. fewer than the minimum of losses remembered                        -> remember, healthy
//   3. mean < 0.6 L0 and |loss - L0| < 0.065 L0, L0 the loss of guessing  -> panic LOBOTOMY
//   4. loss > 12, > mean + 6 sigma and > 3 mean: not remembered; the third in a row
//                                                                         -> panic DIVERGENCE
//   5. otherwise remember; a pending divergence is over
// Sets and returns env->panic.
static inline ES_HOST_DEVICE int32_t es_governor_check(const EsGrowthSettings *settings,
                                                       EsGrowthEnv *env, float loss) {
    env->panic = ES_PANIC_NONE;
    if (!es_math_is_finite((double)loss)) {
        env->panic = ES_PANIC_NAN;
        return env->panic;
    }
    if (env->n_governed >= settings->governor_minimum) {
        double variance;
        double mean = es_governor_mean(env, &variance);
        double guess = (double)settings->random_loss;
        if (mean < (double)settings->lobotomy_mean * guess &&
            es_math_abs((double)loss - guess) < (double)settings->lobotomy_band * guess) {
            env->panic = ES_PANIC_LOBOTOMY;
            return env->panic;
        }
        // loss > mean + 6 sigma, squared on both sides
        double above = (double)loss - mean;
        double sigmas = (double)settings->divergence_sigmas;
        if (loss > settings->divergence_loss && above > 0 &&
            above * above > sigmas * sigmas * variance &&
            (double)loss > (double)settings->divergence_means * mean) {
            env->n_divergences++;
            if (env->n_divergences >= settings->divergences_to_panic) {
                env->panic = ES_PANIC_DIVERGENCE;
            }
            return env->panic;
        }
    }
    es_governor_append(settings, env, loss);
    env->n_divergences = 0;
    return env->panic;
}

// After a rollback: nothing is pending; the remembered losses stay.
static inline ES_HOST_DEVICE void es_governor_reset(EsGrowthEnv *env) { env->n_divergences = 0; }

// Take a snapshot in this step? Asked after the operation, before the tick, and the answer is to be
// followed: weights are still those measured, so that a fossil of this step is covered. Due
// every few steps and after a fossilisation, never in a panic or while a divergence is pending; a
// request then stays due.
static inline ES_HOST_DEVICE int es_governor_snapshot(const EsGrowthSettings *settings,
                                                      EsGrowthEnv *env) {
    int is_due = env->is_snapshot_due || env->step % settings->snapshot_every == 0;
    if (!is_due || env->panic != ES_PANIC_NONE || env->n_divergences > 0) {
        env->is_snapshot_due = is_due;
        return 0;
    }
    env->is_snapshot_due = 0;
    env->snapshot_step = env->step;
    return 1;
}

#endif
