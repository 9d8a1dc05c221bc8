// Running scales of observations, rewards and values. Frozen while a round runs; merged at its end,
// in the order of rows, so that results do not depend on threads.
#ifndef ES_LEARNING_NORMALISER_H
#define ES_LEARNING_NORMALISER_H

#include "learning/rollout.h"

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
void es_feature_normaliser_apply(const EsFeatureNormaliser *normaliser, int64_t n_rows,
                                 const float *raw, float *normalised);
// raw [n_rows, D]; rows with is_counted 0 are left out (NULL: all count).
void es_feature_normaliser_merge(EsFeatureNormaliser *normaliser, int64_t n_rows, const float *raw,
                                 const uint8_t *is_counted);

// A scale without a centre: rewards (all samples, Welford) and returns (Welford until 32 samples,
// then 1 % per merge). The scale is 1 until there are two samples (rewards) or 32 (returns).
typedef struct EsScaleNormaliser {
    double mean, variance; // population
    double n_samples;
} EsScaleNormaliser;

EsScaleNormaliser es_scale_normaliser_start(void);
double es_reward_scale(const EsScaleNormaliser *normaliser);  // max(sample std, 1e-8)
double es_value_scale(const EsScaleNormaliser *normaliser);   // sqrt(variance + 1e-4)
void es_reward_scale_merge(EsScaleNormaliser *normaliser, int64_t n_rows, const float *values,
                           const uint8_t *is_counted);
void es_value_scale_merge(EsScaleNormaliser *normaliser, int64_t n_rows, const float *values,
                          const uint8_t *is_counted);

ES_EXTERN_C_END

#endif
