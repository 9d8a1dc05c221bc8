// One acting step of the policy network on CUDA, in a few launches: the same computation as the
// acting plan of policy_network_internal.h, its specification and fall-back.
//
// Weights are read straight from the store's slab at the graph's offsets, so training needs no
// repacking. Everything is read when the work runs; nothing allocates or waits after create, so a
// step can be captured.
//
//     EsPolicyActOptions options = {.is_tf32 = 0};
//     EsPolicyAct *act; ES_TRY(es_policy_act_create(&graph, &spec, store, options, &act));
//     es_policy_act_queue(act, stream, features, blueprints, is_reset, h, c, logits, value);
//
// Lower bounds on time for E = 64, S = 3, H = F = 512 on an H200: acting reads 3.5 M weights, 14
// MB, 3.3 us from memory at 4.3 TB/s and less from the second-level cache, which holds them all;
// 450 MFLOP are 7 us of f32 FMA and 3 us of split TF32; five launches in a captured graph about 10
// us.
//
// E environments, S slots, D features of an observation, F features, H hidden units, A logits.
#ifndef ES_CONTROL_POLICY_ACT_H
#define ES_CONTROL_POLICY_ACT_H

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

// Queue one step. All pointers are device memory: features [E, D], blueprints [E, S]; is_reset [E]
// (nullable): 1 where the state before the step is 0; h, c [E, H], 16-byte aligned, moved on in
// place; logits [E, A], value [E] are written.
void es_policy_act_queue(EsPolicyAct *act, EsStream *stream, const float *features,
                         const int32_t *blueprints, const uint8_t *is_reset, float *h, float *c,
                         float *logits, float *value);

// The same without moving the state on.
void es_policy_act_peek(EsPolicyAct *act, EsStream *stream, const float *features,
                        const int32_t *blueprints, const uint8_t *is_reset, const float *h,
                        const float *c, float *logits, float *value);

int es_policy_act_launches(const EsPolicyAct *act); // of one step, for any E

ES_EXTERN_C_END

#endif
