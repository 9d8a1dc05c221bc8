// One acting step of the policy network on CUDA, in a few launches: the same computation as the
// acting plan of policy_network_internal.h, its specification and fall-back.
//
// Weights are read straight from the store's slab at the graph's offsets, so training needs no
// repacking. Everything is read when the work runs; nothing allocates or waits after create, so a
// step can be captured.
//
//     EsPolicyActOptions options = {.is_tf32 = 0};
//     EsPolicyAct *act; ES_TRY(es_policy_act_create(&graph, &spec, store, options, &act));
//     es_policy_act_queue(act, stream, &inputs, is_reset, h, c, logits, value);
//
// Lower bounds on time for E = 64, S = 3, H = F = 512 on an H200: acting reads 3.5 M weights, 14
// MB, 3.3 us from memory at 4.3 TB/s and less from the second-level cache, which holds them all;
// 450 MFLOP are 7 us of f32 FMA and 3 us of split TF32; five launches in a captured graph about 10
// us. Version 2 reads 4.1 M weights and has 700 MFLOP, of which the slots' share of the heads is a
// quarter, in six launches.
//
// Its layers are job tables, from policy_inference.c to the kernels of policy_inference_cuda.cu.
// A layer norm is never a launch: who computes a layer leaves sums of each tile of its columns, and
// who reads the layer joins them and normalises on the way in.
//
// E environments, the rows of most layers; S slots, D features of an observation, F features,
// H hidden units, A logits; R rows of a layer, K inputs, N outputs.
#ifndef ES_CONTROL_POLICY_INFERENCE_INTERNAL_H
#define ES_CONTROL_POLICY_INFERENCE_INTERNAL_H

#include "control/policy/policy_inference.h"
#include "control/policy/policy_network_internal.h"

ES_EXTERN_C_BEGIN

typedef struct EsPolicyActOptions {
    // 0: products are split into three of TF32 and agree with f32 to about 1e-6. 1: one product of
    // operands rounded to TF32, 1e-3 to 2e-3 of the largest output off, for a third of the
    // arithmetic: actions are then drawn from probabilities that differ that much from those PPO
    // trains.
    int is_tf32;
} EsPolicyActOptions;

typedef struct EsPolicyAct EsPolicyAct;

// `graph` is the acting graph the store was laid out by; E is its number of rows. Graph and spec
// are read, the store is borrowed. UNSUPPORTED on a device that is not CUDA.
EsStatus es_policy_act_create(const EsPolicyGraph *graph, const EsPolicySpec *spec, EsStore *store,
                              EsPolicyActOptions options, EsPolicyAct **act);
void es_policy_act_destroy(EsPolicyAct *act);

// Queue one step. All pointers are device memory: the inputs; is_reset [E] (nullable): 1 where the
// state before the step is 0; h, c [E, H], 16-byte aligned, moved on in place; logits [E, A]
// (version 2: tables, sampling_rules.h), value [E] are written.
void es_policy_act_queue(EsPolicyAct *act, EsStream *stream, const EsPolicyInputs *inputs,
                         const uint8_t *is_reset, float *h, float *c, float *logits, float *value);

// The same without moving the state on.
void es_policy_act_peek(EsPolicyAct *act, EsStream *stream, const EsPolicyInputs *inputs,
                        const uint8_t *is_reset, const float *h, const float *c, float *logits,
                        float *value);

int es_policy_act_launches(const EsPolicyAct *act); // of one step, for any E

// --- layers as jobs ---

#define ES_ACT_COLUMNS  32 // outputs of a tile of a layer
#define ES_ACT_UNITS    8  // of a tile of the LSTM, four gates each
#define ES_ACT_JOBS_MAX (ES_N_HEADS + 4)

// Source of a layer's inputs.
typedef enum EsActSource {
    ES_ACT_PLAIN,      // x
    ES_ACT_NORMALISED, // LN(x)
    ES_ACT_RESIDUAL,   // LN(x) + residual
    ES_ACT_OBSERVED,   // [observation; embeddings of the blueprints]
    ES_ACT_POOLED,     // [ReLU(LN(x)); mean of ReLU(members); their maximum]
    ES_ACT_JOINED      // x of a slot + residual of its environment
} EsActSource;

typedef struct EsActInput {
    EsActSource source;
    int is_rectified;          // ReLU at the end
    int width;                 // K
    int pitch;                 // from row to row of x
    const float *x;            // [R, pitch]; OBSERVED: features [R, pitch]
    int norm_width;            // of x where it is normalised: K, but for POOLED
    const float *gamma, *beta; // [norm_width]
    const float *sums;         // of x: [R, ceil(norm_width / sum_width), 2], sum of a tile and its
    int sum_width;             //   squares about the tile's own mean
    const float *residual;     // [R, K]; JOINED: [R / n_members, K]
    const uint8_t *is_reset;   // [R], nullable: rows that are 0
    const int32_t *blueprints; // [R, n_slots]
    const float *embedding;    // [n_blueprints, embedding_width]
    int n_slots, n_blueprints, embedding_width;
    const float *members; // POOLED: [R, n_members, member_pitch], member_width of each are read
    int n_members, member_width, member_pitch;
} EsActInput;

// y = W input + b. A row of y begins at pitch times the row; where n_members > 1 rows are those of
// the slots of an environment, one after the other, and begin at pitch times the environment plus
// member_pitch times the slot.
typedef struct EsActJob {
    EsActInput input;
    int64_t n_rows;      // R
    const float *weight; // [N, K]
    const float *bias;   // [N], nullable
    int n_outputs;       // N
    int pitch;
    int n_members, member_pitch;
    float *y;
    float *sums; // nullable: of y, tiles of ES_ACT_COLUMNS
} EsActJob;

typedef struct EsActLayer {
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

// The small rest, a block for a row: the last two layers of the value, of version 2 the last three,
// and the last one of a head that is deeper than the others. The state moves on.
typedef struct EsActTail {
    int64_t n_rows;                           // E
    int n_hidden;                             // H
    const float *value_x;                     // before its norm [E, H/4]; version 2: [E, H/2], and
    const float *first_gamma, *first_beta;    //   its norm [H/2],
    const float *value_weight1, *value_bias1; //   the layer after it [H/4, H/2]; else NULL
    const float *gamma, *beta;                // [H/4]
    const float *value_weight2, *value_bias2; // [H/8, H/4]
    const float *value_weight3, *value_bias3; // [1, H/8]
    float *value;                             // [E]
    const float *head_x;                      // before its ReLU [E, H/2]
    const float *head_weight, *head_bias;     // [n_logits, H/2]
    int n_logits, pitch;                      // of this head, 0: none; and of all
    float *logits;                            // [E, pitch], the head's first
    const float *h_after, *c_after;           // [E, H]
    float *h, *c;                             // nullable: gets them
} EsActTail;

typedef struct EsActKernels {
    void (*run_layer)(EsStream *stream, const EsActLayer *layer, int is_tf32);
    void (*run_lstm)(EsStream *stream, const EsActLstm *lstm, int is_tf32);
    void (*run_tail)(EsStream *stream, const EsActTail *tail);
    // A layer and a tail that does not read it, in one launch.
    void (*run_last)(EsStream *stream, const EsActLayer *layer, const EsActTail *tail, int is_tf32);
} EsActKernels;

const EsActKernels *es_policy_act_kernels_cuda(void); // NULL in a build without CUDA

ES_EXTERN_C_END

#endif
