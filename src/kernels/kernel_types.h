// Small parameter types of the operations in kernel_list.h.
#ifndef ES_KERNELS_KERNEL_TYPES_H
#define ES_KERNELS_KERNEL_TYPES_H

#include "tensor/device.h"
#include "tensor/tensor.h"

typedef const EsTensor *EsIn;
typedef const EsTensor *EsOut; // the tensor value is constant, its memory is written

typedef enum EsActivation {
    ES_ACTIVATION_RELU,
    ES_ACTIVATION_TANH,
    ES_ACTIVATION_SIGMOID
} EsActivation;

// 2x2 windows have stride 2 and leave out an odd last row or column; GLOBAL averages the whole map.
typedef enum EsPool { ES_POOL_MAX2, ES_POOL_AVERAGE2, ES_POOL_GLOBAL } EsPool;

// Mode in which a seed's output enters its slot; a number per environment in device memory
// (kernels/kernel_list.h).
typedef enum EsBlendMode {
    ES_BLEND_NONE,     // y = h, there is no seed
    ES_BLEND_INCUBATE, // y = h, the seed learns from the gradient of y
    ES_BLEND_ADD,      // y = h + a (s - h)
    ES_BLEND_GATE,     // the same with a gate per image
    ES_BLEND_MULTIPLY  // y = h (1 + a tanh(s - h))
} EsBlendMode;

// Bits beside a mode in the same number: the gradient of y does not pass to the host beside the
// seed, or not into the seed and its gate. The forward pass does not read them.
enum { ES_BLEND_CLOSED_HOST = 256, ES_BLEND_CLOSED_SEED = 512 };

typedef struct EsNormOptions {
    float epsilon;  // added to the variance, 1e-5
    float momentum; // batch norm: share of the new batch in the running value, 0.1
    int n_groups;   // group norm
} EsNormOptions;

// The weights of one LSTM layer, gate order input, forget, cell, output; the same struct carries
// their gradients.
typedef struct EsLstmWeights {
    EsTensor input;          // [E, 4D, I]
    EsTensor recurrent;      // [E, 4D, D]
    EsTensor bias_input;     // [E, 4D]
    EsTensor bias_recurrent; // [E, 4D]
} EsLstmWeights;

typedef struct EsDropoutOptions {
    uint64_t seed;
    uint32_t layer;    // tells the dropouts of one network apart
    float probability; // of dropping, in [0, 1)
} EsDropoutOptions;

typedef enum EsDecay {
    ES_DECAY_CONSTANT,
    ES_DECAY_LINEAR,
    ES_DECAY_COSINE,
    ES_DECAY_STEP // kernels see a constant; the owner of the learning rates lowers them by epochs
} EsDecay;

// How a learning rate moves over a run (schedule_rules.h). All zero: it stays.
typedef struct EsLearningRateSchedule {
    EsDecay decay;
    float warmup;      // share of the updates in which it rises from 0
    float final_share; // of the learning rate, at the last update
    int64_t n_updates; // of the run
} EsLearningRateSchedule;

typedef struct EsSgdRates {
    EsTensor learning_rate; // [E]
    EsTensor momentum;      // [E]
    EsTensor weight_decay;  // [E]
    int is_nesterov;
    EsLearningRateSchedule schedule; // of the learning rate
    EsTensor update;                 // i32 [1]: number of this update, from 0; without data: none
} EsSgdRates;

typedef struct EsAdamOptions {
    float beta1, beta2, epsilon;
} EsAdamOptions;

#define ES_MAX_IMAGE_CHANNELS 4

// Assignment of a data set's samples to batches (gather in kernel_list.h).
typedef struct EsSampleOrder {
    uint64_t seed;
    int64_t n_samples;
    int64_t n_shares; // environments that share each pass; 1: everyone has its own
} EsSampleOrder;

// The pixels around an image, for crops that reach beyond it.
typedef enum EsBorder {
    ES_BORDER_BLACK,
    ES_BORDER_MEAN,   // of the channel, to the nearest byte
    ES_BORDER_REFLECT // mirrored about the outermost pixels; pad is below height and width
} EsBorder;

typedef struct EsGatherOptions {
    uint64_t seed;
    int pad;  // crop offsets in 0..2*pad from a border of so many pixels; 0 = no crop
    int flip; // horizontal flip with probability one half
    EsBorder border;
    float erase; // probability that a rectangle of the crop is erased; 0 = none
    float mean[ES_MAX_IMAGE_CHANNELS]; // of pixels scaled to 0..1
    float inv_std[ES_MAX_IMAGE_CHANNELS];
} EsGatherOptions;

#endif
