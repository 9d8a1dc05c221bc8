// Gradient health of a seed, from the norms of its tensors. Part of training, not of telemetry: G2
// asks for it. A seed without gradients is not measured, which is neither healthy nor norm 0.
#ifndef ES_GROWTH_GRADIENT_RULES_H
#define ES_GROWTH_GRADIENT_RULES_H

#include "growth/rules/alpha_rules.h"

// Sums over the tensors of one group (host, or a seed with its gate network) in one batch, before
// clipping.
typedef struct EsGradientSums {
    double sum_squares;
    int64_t n_elements;
    int32_t n_tensors;
    int32_t n_vanishing;
    int32_t n_exploding; // not finite ones among them
} EsGradientSums;

static inline ES_HOST_DEVICE EsGradientSums es_gradient_sums_empty(void) {
    EsGradientSums sums;
    sums.sum_squares = 0;
    sums.n_elements = 0;
    sums.n_tensors = 0;
    sums.n_vanishing = 0;
    sums.n_exploding = 0;
    return sums;
}

// Add one tensor. `clip` is the norm the group is clipped to, 0 for none: exploding is above 10
// times that, vanishing below 1e-7.
static inline ES_HOST_DEVICE void es_gradient_add(const EsGrowthSettings *settings,
                                                  EsGradientSums *sums, double sum_squares,
                                                  int64_t n_elements, float clip) {
    double explodes = (double)settings->exploding_clips * (double)clip;
    double vanishes = (double)settings->vanishing_norm;
    sums->sum_squares += sum_squares;
    sums->n_elements += n_elements;
    sums->n_tensors++;
    if (!es_math_is_finite(sum_squares) || (clip > 0 && sum_squares > explodes * explodes)) {
        sums->n_exploding++;
    } else if (sum_squares < vanishes * vanishes) {
        sums->n_vanishing++;
    }
}

// health = clamp01(1 - 0.5 share vanishing - 0.8 share exploding), 0 when the norm is not finite,
// ES_NOT_MEASURED without tensors.
static inline ES_HOST_DEVICE float es_gradient_health(const EsGrowthSettings *settings,
                                                      const EsGradientSums *sums) {
    if (sums->n_tensors <= 0) {
        return ES_NOT_MEASURED;
    }
    if (!es_math_is_finite(sums->sum_squares)) {
        return 0;
    }
    double vanishing = (double)sums->n_vanishing / sums->n_tensors;
    double exploding = (double)sums->n_exploding / sums->n_tensors;
    return (float)es_math_clamp(1 - (double)settings->vanishing_penalty * vanishing -
                                    (double)settings->exploding_penalty * exploding,
                                0, 1);
}

// ratio = (|g_seed| / sqrt(n_seed)) / (|g_host| / sqrt(n_host) + 1e-8); 0 when either norm is below
// 1e-8, ES_NOT_MEASURED when one of them has no elements or is not finite.
static inline ES_HOST_DEVICE double es_gradient_ratio(const EsGradientSums *seed,
                                                      const EsGradientSums *host) {
    if (seed->n_elements <= 0 || host->n_elements <= 0 || !es_math_is_finite(seed->sum_squares) ||
        !es_math_is_finite(host->sum_squares)) {
        return ES_NOT_MEASURED;
    }
    double seed_norm = es_math_sqrt(seed->sum_squares);
    double host_norm = es_math_sqrt(host->sum_squares);
    if (seed_norm < 1e-8 || host_norm < 1e-8) {
        return 0;
    }
    return seed_norm / es_math_sqrt((double)seed->n_elements) /
           (host_norm / es_math_sqrt((double)host->n_elements) + 1e-8);
}

// The first value is taken as it is, later ones are averaged in.
static inline ES_HOST_DEVICE float es_gradient_average(const EsGrowthSettings *settings, float old,
                                                       double value) {
    double decay = (double)settings->gradient_decay;
    double mixed = old < 0 ? value : decay * (double)old + (1 - decay) * value;
    return (float)es_math_clamp(mixed, 0, 3e38);
}

// Record a step's gradients of one seed; the last batch measured in a step wins. Nothing changes
// where nothing can be measured: no weights, not yet trained, frozen, or no tensors.
static inline ES_HOST_DEVICE void es_gradient_record(const EsGrowthSettings *settings, EsSeed *seed,
                                                     const EsGradientSums *sums,
                                                     const EsGradientSums *host) {
    if (!es_stage_in(seed->stage, ES_STAGES_TRAINED) || es_seed_is_frozen(seed) ||
        sums->n_tensors <= 0) {
        return;
    }
    seed->gradient_health = es_gradient_health(settings, sums);
    seed->n_vanishing = sums->n_vanishing;
    seed->n_exploding = sums->n_exploding;
    if (!es_math_is_finite(sums->sum_squares)) {
        // measured, and beyond any number; averages keep to finite values
        seed->gradient_norm = 3e38f;
        return;
    }
    double norm = es_math_sqrt(sums->sum_squares);
    seed->gradient_norm = (float)es_math_clamp(norm, 0, 3e38);
    seed->gradient_norm_average = es_gradient_average(settings, seed->gradient_norm_average, norm);
    double ratio = es_gradient_ratio(sums, host);
    if (ratio >= 0) {
        seed->gradient_ratio = es_gradient_average(settings, seed->gradient_ratio, ratio);
    }
}

// Forgets the measurements, when the weights behind them have gone.
static inline ES_HOST_DEVICE void es_gradient_forget(EsSeed *seed) {
    seed->gradient_norm = ES_NOT_MEASURED;
    seed->gradient_norm_average = ES_NOT_MEASURED;
    seed->gradient_health = ES_NOT_MEASURED;
    seed->previous_health = ES_NOT_MEASURED;
    seed->gradient_ratio = ES_NOT_MEASURED;
    seed->n_vanishing = ES_NOT_MEASURED;
    seed->n_exploding = ES_NOT_MEASURED;
}

#endif
