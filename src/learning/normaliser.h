// Running scales of observations, rewards and values. Frozen while a round runs; merged at its end,
// in the order of rows, so that results do not depend on threads.
//
//     EsFeatureNormaliser normaliser; ES_TRY(es_feature_normaliser_create(D, &normaliser));
//     es_feature_normaliser_apply(&normaliser, n_envs, raw, normalised);      // while it runs
//     es_feature_normaliser_merge(&normaliser, n_rows, all_raw, is_valid);    // at its end
#ifndef ES_LEARNING_NORMALISER_H
#define ES_LEARNING_NORMALISER_H

#include "base/macros.h"
#include "base/math_rules.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// Features: x -> clip((x - mean) / sqrt(variance + 1e-4), +-10). Starts with mean 0, variance 1;
// each round moves them by 1 % (mean, variance of the round's rows, and the square of the
// distance between the means).
typedef struct EsFeatureNormaliser {
    int n_features;
    int64_t n_merged; // rounds
    double *mean;     // owned [D]
    double *variance; // owned [D]
} EsFeatureNormaliser;

EsStatus es_feature_normaliser_create(int n_features, EsFeatureNormaliser *normaliser);
void es_feature_normaliser_destroy(EsFeatureNormaliser *normaliser);

// raw, normalised [n_rows, D]; they may be the same. NaN stays NaN.
void es_feature_normaliser_apply(const EsFeatureNormaliser *normaliser, int64_t n_rows,
                                 const float *raw, float *normalised);

// raw [n_rows, D]; rows with is_counted 0 are left out (NULL: all count). Features with a value
// that is not finite stay as they were; returns how many. Without a row nothing moves.
int es_feature_normaliser_merge(EsFeatureNormaliser *normaliser, int64_t n_rows, const float *raw,
                                const uint8_t *is_counted);

// A scale without a centre: rewards (all samples, Welford) and returns (Welford until 32 samples,
// then 1 % per merge). The scale is 1 until there are two samples (rewards) or 32 (returns).
typedef struct EsScaleNormaliser {
    double mean, variance; // population
    double n_samples;
} EsScaleNormaliser;

EsScaleNormaliser es_scale_normaliser_start(void); // mean 0, variance 1, no samples

// Standard deviation of the sample; 1 while it is below 1e-8, where any other reward would become
// the clip.
double es_reward_scale(const EsScaleNormaliser *normaliser);
double es_value_scale(const EsScaleNormaliser *normaliser); // sqrt(variance + 1e-4)

// values [n_rows], finite where they count; is_counted as above.
void es_reward_scale_merge(EsScaleNormaliser *normaliser, int64_t n_rows, const float *values,
                           const uint8_t *is_counted);
void es_value_scale_merge(EsScaleNormaliser *normaliser, int64_t n_rows, const float *values,
                          const uint8_t *is_counted);

#define ES_VARIANCE_FLOOR 1e-4
#define ES_FEATURE_CLIP   10.0

// Divisor of distances from the mean.
static inline ES_HOST_DEVICE double es_feature_deviation(double variance) {
    return es_math_sqrt(variance + ES_VARIANCE_FLOOR);
}

// clip((x - mean) / deviation, +-10). NaN stays NaN: comparisons with it are false.
static inline ES_HOST_DEVICE float es_feature_normalise(float x, double mean, double deviation) {
    double scaled = ((double)x - mean) / deviation;
    scaled = scaled > ES_FEATURE_CLIP ? ES_FEATURE_CLIP : scaled;
    scaled = scaled < -ES_FEATURE_CLIP ? -ES_FEATURE_CLIP : scaled;
    return (float)scaled;
}

ES_EXTERN_C_END

#endif
