// The parts of a decision phase on a device, as kernels take them.
//
// E environments, S slots, T steps, D features, A logits.
#ifndef ES_CONTROL_DECISION_INTERNAL_H
#define ES_CONTROL_DECISION_INTERNAL_H

#include "control/decision/decision_device.h"
#include "control/rules/decision_rules.h"
#include "control/rules/heuristic_rules.h"
#include "growth/engine/schedule.h"
#include "network/plan/graph_capture.h"

ES_EXTERN_C_BEGIN

// Constants of a round. Kernels read it from device memory: captured work follows it.
typedef struct EsDecisionRound {
    EsGrowthSettings growth;
    EsHeuristicSettings rules;
    uint64_t seed;                         // of draws
    int64_t first_episode, episode_period; // environment e is in first + e % period
    double value_scale;                    // values times this are on the scale of scaled rewards
    float floor[ES_N_HEADS];               // least probabilities
    int32_t is_greedy;
} EsDecisionRound;

// Sizes by value; every pointer is device memory.
typedef struct EsDecisionView {
    int32_t kind; // EsPolicyKind
    int32_t n_envs, n_slots;
    int32_t n_entries;
    const EsDecisionRound *round;   // [1]
    EsRewardView reward;            // its terms are the report's
    EsHeuristic *memory;            // heuristic                              [E]
    const EsScheduleEntry *entries; // script                                 [n_entries]
    EsAction *actions;              // of the report                          [E]
    double *totals;                 // of the report                          [E]

    // learned
    int32_t is_set;                 // version 2: features are not normalised, logits are tables
    const double *mean, *deviation; // of features, version 1                 [D]
    EsActionStats *action_stats;    // of the report                          [E]
    uint8_t *is_reset;              // the network forgets before this step   [E]
    EsPolicyInputs inputs;          // the network's
    const float *logits, *value;    // its outputs                            [E, A], [E]

    // in training
    int32_t has_rollout;
    int32_t *t; // the row that is decided or rewarded next, the same for all [E]
    EsRolloutView rollout;
    float *raw; // observations, version 1: its normaliser merges them        [T, E, D]
} EsDecisionView;

typedef struct EsDecisionKernels {
    // Learned policies: latch, observe, normalise; which environments the network forgets.
    void (*observe)(EsStream *stream, const EsDecisionView *view, const EsGrowthState *state);
    // Then, from the network's outputs: actions, action stats, the row.
    void (*sample)(EsStream *stream, const EsDecisionView *view, const EsGrowthState *state,
                   const EsActionMasks *masks, EsAction *actions);
    // Other policies: latch, decide.
    void (*decide)(EsStream *stream, const EsDecisionView *view, const EsGrowthState *state,
                   const EsActionMasks *masks, EsAction *actions);
    // Rewards, totals, the row; t moves on.
    void (*reward)(EsStream *stream, const EsDecisionView *view, const EsGrowthState *state,
                   int32_t *n_unrewarded_prunes);
} EsDecisionKernels;

// NULL in a build without CUDA.
const EsDecisionKernels *es_decision_kernels_cuda(void);

// Half of a step, as it is captured: it holds for these arguments.
typedef struct EsDecisionWork {
    EsGraphCapture graph_capture;
    int may_capture; // 0: always directly, and graph_capture.fallback says why
    EsGrowthState state;
    const EsActionMasks *masks; // choose
    EsAction *actions;          // choose
} EsDecisionWork;

struct EsDecisionDevice {
    EsPolicy *policy;                 // borrowed
    EsReward *reward;                 // borrowed
    EsStream *stream;                 // borrowed
    EsDevice *device;                 // borrowed: the stream's
    const EsDecisionKernels *kernels; // borrowed, constant
    int32_t *n_unrewarded_prunes;     // borrowed: of growth, [E]; of the last reward
    EsDecisionView view;
    EsDecisionReport report;
    EsDecisionWork choose_work, reward_work;
    unsigned char *memory; // owned: device memory of everything here
    unsigned char *staged; // owned: pinned CPU memory, the first n bytes of `memory` at a begin
    size_t staged_bytes;
    float *logits;      // owned: pinned CPU memory, [E, A]; NULL: they are not kept
    size_t returned_at; // from here on copied back at the end of a round
};

ES_EXTERN_C_END

#endif
