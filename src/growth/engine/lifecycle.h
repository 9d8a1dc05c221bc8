// The lifecycle of all seeds of all environments on the CPU: plain loops over the rules of
// lifecycle_rules.h. the same rules compile for CUDA.
//
// The state is one slab (seed_fields.h), borrowed from the caller; nothing here allocates. Calls
// are made in the order below, once per step. Environments are independent of each other.
//
//     void *slab = ...;   // es_growth_state_bytes(n_envs, settings.n_slots)
//     EsGrowthState state; es_growth_state_bind(&state, slab, n_envs, settings.n_slots);
//     es_lifecycle_reset(&state, &settings);
//     es_lifecycle_measure(&state, &settings, loss, accuracy);
//     es_lifecycle_masks(&state, &settings, masks);
//     es_lifecycle_apply(&state, &settings, actions);
//     es_lifecycle_tick(&state, &settings);
//
// E environments, S slots.
#ifndef ES_GROWTH_LIFECYCLE_H
#define ES_GROWTH_LIFECYCLE_H

#include "esper/status.h"
#include "growth/rules/contribution_rules.h"
#include "growth/rules/lifecycle_rules.h"
#include "tensor/tensor.h"

ES_EXTERN_C_BEGIN

// --- the slab, for checkpoints and snapshots ---

typedef struct EsGrowthField {
    const char *name;    // "seed.stage", "env.step"
    const char *meaning; // may be ""
    EsDtype dtype;       // F32 or I32
    int64_t n_columns;   // elements per environment
    size_t offset_bytes; // of its [E, n_columns] array in the slab
} EsGrowthField;

int32_t es_growth_field_count(void);

// Field i of a slab for n_envs environments with n_slots slots.
EsGrowthField es_growth_field_at(int32_t i, int32_t n_envs, int32_t n_slots);

// --- a step ---

// An episode begins in every environment.
void es_lifecycle_reset(EsGrowthState *state, const EsGrowthSettings *settings);

// loss and accuracy (percent) [E] of this step's validation.
void es_lifecycle_measure(EsGrowthState *state, const EsGrowthSettings *settings, const float *loss,
                          const float *accuracy);

// Gradients of the hosts [E] and of their seeds [E, S].
void es_lifecycle_record_gradients(EsGrowthState *state, const EsGrowthSettings *settings,
                                   const EsGradientSums *host, const EsGradientSums *seed);

// Writes the seeds to switch off in the next validation into lists [E].
void es_lifecycle_list_ablations(const EsGrowthState *state, const EsGrowthSettings *settings,
                                 EsAblation *lists);

// accuracy [E, ES_ABLATION_PATTERNS_MAX] of the patterns of those lists; pairs [E], nullable.
void es_lifecycle_record_contributions(EsGrowthState *state, const EsGrowthSettings *settings,
                                       const EsAblation *lists, const float *accuracy,
                                       EsInteractions *pairs);

// Writes the legal actions into masks [E].
void es_lifecycle_masks(const EsGrowthState *state, const EsGrowthSettings *settings,
                        EsActionMasks *masks);

// actions [E]: carry them out, or refuse and say why in env.refusal; hosts in panic roll back.
void es_lifecycle_apply(EsGrowthState *state, const EsGrowthSettings *settings,
                        const EsAction *actions);

// Prunes by the governor that a reward has accounted for, [E]: none of them is rewarded again.
void es_lifecycle_settle_prunes(EsGrowthState *state, const int32_t *n_settled);

// The step ends. Requests are then to be carried out before the next batch.
void es_lifecycle_tick(EsGrowthState *state, const EsGrowthSettings *settings);

ES_EXTERN_C_END

#endif
