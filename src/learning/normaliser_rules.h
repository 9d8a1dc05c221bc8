// How a feature is normalised, written once for CPU and CUDA.
#ifndef ES_LEARNING_NORMALISER_RULES_H
#define ES_LEARNING_NORMALISER_RULES_H

#include "base/math_rules.h"

#define ES_VARIANCE_FLOOR 1e-4
#define ES_FEATURE_CLIP   10.0

// What distances from the mean are divided by.
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

#endif
