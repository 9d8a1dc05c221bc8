// Weights and activations of an exported network in 8 bits: scales found on sample inputs, and what
// that costs in accuracy, by the arithmetic of the exported C.
//
// A weighted call reads its input as q = round(x / s), one s per call, from the largest |x| that
// the samples bring: -127..127, or 0..255 where it is never negative. Weights have one scale per
// output channel. Sums are 32-bit integers, y = sum s s_w[o] + bias[o]; all other calls are float.
#ifndef ES_FIT_EXPORT_INT8_H
#define ES_FIT_EXPORT_INT8_H

#include "fit/export_plan.h"

ES_EXTERN_C_BEGIN

// One weighted call.
typedef struct EsInt8Call {
    float input_scale;   // s
    int is_unsigned;     // 0..255
    int8_t *weight;      // owned [n_weights]
    float *weight_scale; // owned [n_channels]
    float *bias;         // owned [n_channels]
    int64_t n_weights;
} EsInt8Call;

struct EsInt8Plan {
    EsInt8Call *calls; // owned, by call of the plan; without weights for the others
    int n_calls;
    int64_t n_scratch; // numbers of the largest quantised input
};

// Plain samples [n, C, H, W] with their classes: the first ES_INT8_CALIBRATED give the scales, and
// all of them are predicted.
#define ES_INT8_CALIBRATED 512
typedef struct EsInt8Samples {
    const float *inputs;
    const uint16_t *labels;
    int64_t n;
} EsInt8Samples;

EsStatus es_int8_plan_create(const EsExportPlan *plan, const EsInt8Samples *samples,
                             EsInt8Plan *int8);
void es_int8_plan_destroy(EsInt8Plan *int8);

// Accuracies in percent of the samples, with floats and with 8 bits.
EsStatus es_int8_plan_measure(const EsExportPlan *plan, const EsInt8Plan *int8,
                              const EsInt8Samples *samples, double *float_accuracy,
                              double *int8_accuracy);

// q of a number: nearest, halves away from 0.
static inline int es_int8_round(float x, float inv_scale, int is_unsigned) {
    float scaled = x * inv_scale;
    int q = (int)(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
    int least = is_unsigned ? 0 : -127, most = is_unsigned ? 255 : 127;
    return q < least ? least : (q > most ? most : q);
}

ES_EXTERN_C_END

#endif
