// The layers of an acting step as tables of jobs, from policy_inference.c to the kernels of
// policy_inference_cuda.cu.
//
// A layer norm is never a launch: who computes a layer leaves sums of each tile of its columns, and
// who reads the layer joins them and normalises on the way in.
//
// E rows, K inputs of a layer, N outputs.
#ifndef ES_CONTROL_POLICY_ACT_INTERNAL_H
#define ES_CONTROL_POLICY_ACT_INTERNAL_H

#include "control/policy/policy_inference.h"

ES_EXTERN_C_BEGIN

#define ES_ACT_COLUMNS  32 // outputs of a tile of a layer
#define ES_ACT_UNITS    8  // of a tile of the LSTM, four gates each
#define ES_ACT_JOBS_MAX (ES_N_HEADS + 1)

// Source of a layer's inputs.
typedef enum EsActSource {
    ES_ACT_PLAIN,      // x
    ES_ACT_NORMALISED, // LN(x)
    ES_ACT_RESIDUAL,   // LN(x) + residual
    ES_ACT_OBSERVED    // [observation; embeddings of the blueprints]
} EsActSource;

typedef struct EsActInput {
    EsActSource source;
    int is_rectified;          // ReLU at the end
    int width;                 // K
    int pitch;                 // from row to row of x
    const float *x;            // [E, pitch]; OBSERVED: features [E, pitch]
    const float *gamma, *beta; // [K]
    const float *sums;         // of x: [E, ceil(K / sum_width), 2], sum of a tile and its squares
    int sum_width;             //   about the tile's own mean
    const float *residual;     // [E, K]
    const uint8_t *is_reset;   // [E], nullable: rows that are 0
    const int32_t *blueprints; // [E, n_slots]
    const float *embedding;    // [n_blueprints, embedding_width]
    int n_slots, n_blueprints, embedding_width;
} EsActInput;

// y = W input + b
typedef struct EsActJob {
    EsActInput input;
    const float *weight; // [N, K]
    const float *bias;   // [N]
    int n_outputs;       // N
    int pitch;
    float *y;    // [E, pitch]
    float *sums; // nullable: of y, tiles of ES_ACT_COLUMNS
} EsActJob;

typedef struct EsActLayer {
    int64_t n_rows; // E
    int n_jobs;
    EsActJob job[ES_ACT_JOBS_MAX];
} EsActLayer;

// gates = W_x x + b_x + gates_h and the cell; the state of before is left alone.
typedef struct EsActLstm {
    int64_t n_rows;           // E
    int n_hidden;             // H
    EsActInput x;             // PLAIN, or NORMALISED and rectified
    const float *weight;      // W_x [4H, H]
    const float *bias;        // b_x [4H]
    const float *gates_h;     // W_h h + b_h of another launch [E, 4H]
    const float *c_before;    // [E, H],
    const uint8_t *is_reset;  // [E], nullable: where that counts as 0
    float *x_after;           // nullable: x as it was read [E, H]
    float *h_after, *c_after; // [E, H]
    float *h_sums;            // of h_after, tiles of ES_ACT_UNITS
} EsActLstm;

// The small rest: the last layer of one head, the last two of the value, a block for a row.
typedef struct EsActTail {
    int64_t n_rows;                           // E
    int n_hidden;                             // H
    const float *value_x;                     // before its norm [E, H/4]
    const float *gamma, *beta;                // [H/4]
    const float *value_weight2, *value_bias2; // [H/8, H/4]
    const float *value_weight3, *value_bias3; // [1, H/8]
    float *value;                             // [E]
    const float *head_x;                      // before its ReLU [E, H/2]
    const float *head_weight, *head_bias;     // [n_logits, H/2]
    int n_logits, pitch;                      // of this head, and of all
    float *logits;                            // [E, pitch], the head's first
    const float *h_after, *c_after;           // [E, H]
    float *h, *c;                             // nullable: gets them
} EsActTail;

typedef struct EsActKernels {
    void (*run_layer)(EsStream *stream, const EsActLayer *layer, int is_tf32);
    void (*run_lstm)(EsStream *stream, const EsActLstm *lstm, int is_tf32);
    void (*run_tail)(EsStream *stream, const EsActTail *tail);
} EsActKernels;

const EsActKernels *es_policy_act_kernels_cuda(void); // NULL in a build without CUDA

ES_EXTERN_C_END

#endif
