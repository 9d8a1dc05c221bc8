// The decision phase as kernels over environments; every decision is in the rules. Compiled without
// contraction, so that the bits are those of the CPU.
//
// Environments take different branches all the time, so none shares a warp with another: the lanes
// of a warp load the slots of one environment, then one lane goes on.
#include "control/decision/decision_internal.h"
#include "control/rules/set_observation_rules.h"
#include "kernels/cuda/cuda_common.cuh"
#include "learning/normaliser.h"

#define WARP             32
#define HOST_THREAD      WARP // observes the host while the warp before it observes slots
#define N_OBSERVING      (2 * WARP)
#define FEATURES_MAX     (ES_OBSERVATION_HOST + ES_OBSERVATION_SLOT * ES_SLOTS_MAX)
#define SET_FEATURES_MAX (ES_SET_OBSERVATION_HOST + ES_SET_OBSERVATION_SLOT * ES_SLOTS_MAX)
#define LOGITS_MAX       1024
static_assert(ES_SLOTS_MAX <= WARP, "a lane per slot, and per value of a head");

// --- before the decision ---

// Thread s < S takes seed s of environment e; all of the block must call.
static __device__ void load_and_latch(const EsDecisionView *view, const EsGrowthState *state,
                                      size_t e, EsSeed *seeds) {
    int32_t s = (int32_t)threadIdx.x;
    if (s < view->n_slots) {
        size_t index = e * (size_t)view->n_slots + (size_t)s;
        seeds[s] = es_seed_load(&state->seed, index);
        es_reward_view_latch(&view->reward, index, &seeds[s]);
    }
    __syncthreads();
}

// The row of environment e that is being filled; -1 without one.
static __device__ int64_t open_row(const EsDecisionView *view, int64_t e) {
    if (!view->has_rollout || view->t[e] >= view->rollout.shape.n_steps) {
        return -1;
    }
    return es_rollout_view_row(&view->rollout, view->t[e], e);
}

// A block per environment: a thread per slot and one for the host observe, all normalise.
static __global__ void observe_kernel(EsDecisionView view, EsGrowthState state) {
    __shared__ EsSeed seeds[ES_SLOTS_MAX];
    __shared__ float raw[FEATURES_MAX];
    const EsGrowthSettings *settings = &view.round->growth;
    int64_t e = blockIdx.x, row = open_row(&view, e);
    int32_t s = (int32_t)threadIdx.x, n_features = es_observation_size(view.n_slots);
    load_and_latch(&view, &state, (size_t)e, seeds);
    if (s < view.n_slots) {
        int32_t blueprint = es_observe_blueprint(&seeds[s]);
        es_observe_slot(settings, &seeds[s], raw + ES_OBSERVATION_HOST + ES_OBSERVATION_SLOT * s);
        view.inputs.blueprints[e * view.n_slots + s] = blueprint;
        if (row >= 0) {
            view.rollout.ids[row * view.n_slots + s] = blueprint;
        }
    } else if (s == HOST_THREAD) {
        EsGrowthEnv env = es_growth_env_load(&state.env, (size_t)e);
        es_observe_host(settings, &env, seeds, raw);
        // a host that was rolled back is not the one that the recurrent state remembers
        view.is_reset[e] = env.refusal == ES_REFUSAL_ROLLED_BACK;
    }
    __syncthreads();
    for (int32_t d = (int32_t)threadIdx.x; d < n_features; d += N_OBSERVING) {
        float x = es_feature_normalise(raw[d], view.mean[d], view.deviation[d]);
        view.inputs.features[e * n_features + d] = x;
        if (row >= 0) {
            view.rollout.features[row * n_features + d] = x;
            view.raw[row * n_features + d] = raw[d];
        }
    }
}

// Warps of a block that observe version 2: seeds, the episode so far, the settings; the others
// share places of slots and costs of blueprints, whose logarithms take longest.
enum { SEED_WARP, COURSE_WARP, SETTINGS_WARP, FIRST_PLACE_WARP, N_SET_WARPS = 8 };

// Returns the part of a slot in an observation.
static __device__ float *slot_part(float *raw, int32_t s) {
    return raw + ES_SET_OBSERVATION_HOST + ES_SET_OBSERVATION_SLOT * s;
}

// Places and costs: an item for each blueprint of each slot, and one for the slot itself.
static __device__ void observe_places(const EsGrowthSettings *settings, const EsSeed *seeds,
                                      int32_t first, float *raw) {
    int64_t left = es_observe_left(settings, seeds);
    const int32_t n_items = ES_N_BLUEPRINT_IDS + 1;
    for (int32_t i = first; i < settings->n_slots * n_items;
         i += (N_SET_WARPS - FIRST_PLACE_WARP) * WARP) {
        int32_t s = i / n_items, blueprint = i % n_items;
        if (blueprint < ES_N_BLUEPRINT_IDS) {
            es_set_observe_cost(settings, s, blueprint, left, slot_part(raw, s));
        } else {
            es_set_observe_place(settings, s, left, slot_part(raw, s));
        }
    }
}

// A block per environment: the parts of es_set_observe, side by side.
static __global__ void observe_set_kernel(EsDecisionView view, EsGrowthState state) {
    __shared__ EsSeed seeds[ES_SLOTS_MAX];
    __shared__ float raw[SET_FEATURES_MAX];
    const EsGrowthSettings *settings = &view.round->growth;
    int64_t e = blockIdx.x, row = open_row(&view, e);
    int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    int32_t n_features = es_set_observation_size(view.n_slots);
    load_and_latch(&view, &state, (size_t)e, seeds);
    if (warp == SEED_WARP && lane < view.n_slots) {
        int32_t blueprint = es_observe_blueprint(&seeds[lane]);
        es_set_observe_seed(settings, &seeds[lane], slot_part(raw, lane));
        view.inputs.blueprints[e * view.n_slots + lane] = blueprint;
        if (row >= 0) {
            view.rollout.ids[row * view.n_slots + lane] = blueprint;
        }
    } else if (warp == COURSE_WARP && lane == 0) {
        EsGrowthEnv env = es_growth_env_load(&state.env, (size_t)e);
        es_set_observe_course(settings, &env, seeds, raw);
        view.is_reset[e] = env.refusal == ES_REFUSAL_ROLLED_BACK; // as in version 1
    } else if (warp == SETTINGS_WARP && lane == 0) {
        EsGrowthEnv env = es_growth_env_load(&state.env, (size_t)e);
        es_set_observe_settings(settings, &env, seeds, raw);
    } else if (warp >= FIRST_PLACE_WARP) {
        observe_places(settings, seeds, (int32_t)threadIdx.x - FIRST_PLACE_WARP * WARP, raw);
    }
    __syncthreads();
    for (int32_t d = (int32_t)threadIdx.x; d < n_features; d += N_SET_WARPS * WARP) {
        const int32_t n_host = ES_SET_OBSERVATION_HOST;
        if (d < n_host) {
            view.inputs.features[e * n_host + d] = raw[d];
        } else {
            view.inputs.slots[e * (n_features - n_host) + d - n_host] = raw[d];
        }
        if (row >= 0) {
            view.rollout.features[row * n_features + d] = raw[d];
        }
    }
}

static void queue_observe(EsStream *stream, const EsDecisionView *view,
                          const EsGrowthState *state) {
    EsLaunch launch(stream, "decision_observe");
    launch.start(view->is_set ? observe_set_kernel : observe_kernel, dim3((unsigned)view->n_envs),
                 dim3(view->is_set ? N_SET_WARPS * WARP : N_OBSERVING), *view, *state);
}

// --- the decision ---

static __device__ EsActionKey action_key(const EsDecisionRound *round, const EsGrowthState *state,
                                         int64_t e) {
    EsActionKey key = {round->seed, (uint32_t)(round->first_episode + e % round->episode_period),
                       (uint32_t)state->env.step[e]};
    return key;
}

// The environment that the others' rewards are measured against only waits.
static __device__ int is_control(const EsDecisionView *view, int64_t e) {
    return view->reward.settings[e].control == (int32_t)e + 1;
}

// es_choice_probabilities by a warp: a lane takes the exponential of an action, on which a draw
// spends most of its time. All lanes call with the same arguments and get the same p.
static __device__ int share_probabilities(const float *logits, int n, uint64_t mask, float floor,
                                          double *p) {
    int n_legal = 0, lane = (int)threadIdx.x % WARP;
    double top = es_choice_top(logits, n, mask, &n_legal);
    double own = lane < n ? es_choice_weight(logits, lane, mask, top) : 0.0;
    for (int i = 0; i < n; i++) {
        p[i] = __shfl_sync(0xFFFFFFFFu, own, i);
    }
    es_choice_mix(n, mask, floor, n_legal, p);
    return n_legal;
}

// A warp per environment: its lanes load the logits and draw together, one of them writes.
static __global__ void sample_kernel(EsDecisionView view, EsGrowthState state,
                                     const EsActionMasks *masks, EsAction *actions) {
    __shared__ float logits[LOGITS_MAX];
    const EsDecisionRound *round = view.round;
    int64_t e = blockIdx.x;
    int32_t n_logits = view.is_set ? es_choice_table_size(view.n_slots)
                                   : es_head_first_logit(ES_N_HEADS, view.n_slots);
    for (int32_t i = (int32_t)threadIdx.x; i < n_logits; i += WARP) {
        logits[i] = view.logits[e * n_logits + i];
    }
    __syncthreads();
    EsActionMasks legal = masks[e];
    EsActionKey key = action_key(round, &state, e);
    EsLogits given = {logits, view.n_slots, view.is_set};
    EsSampled sampled = es_policy_sample_by(share_probabilities, &given, &legal, round->floor, &key,
                                            round->is_greedy);
    if (threadIdx.x != 0) {
        return;
    }
    if (is_control(&view, e)) {
        sampled.action = es_action_wait();
    }
    EsActionStats stats;
    stats.confidence = sampled.confidence;
    stats.entropy = sampled.entropy;
    stats.value = (float)((double)view.value[e] * round->value_scale);
    stats.is_forced = legal.head[ES_HEAD_OP] == 1u << ES_GROWTH_OP_WAIT;
    actions[e] = sampled.action;
    view.actions[e] = sampled.action;
    view.action_stats[e] = stats;
    int64_t row = open_row(&view, e);
    if (row >= 0) {
        es_decision_keep_choice(&view.rollout, row, &legal, view.is_set, &sampled, view.value[e]);
        es_decision_keep_targets(&view.rollout, row, &state, e);
    }
}

static void queue_sample(EsStream *stream, const EsDecisionView *view, const EsGrowthState *state,
                         const EsActionMasks *masks, EsAction *actions) {
    ES_ASSERT(es_choice_table_size(view->n_slots) <= LOGITS_MAX); // version 1 has fewer
    EsLaunch launch(stream, "decision_sample");
    launch.start(sample_kernel, dim3((unsigned)view->n_envs), dim3(WARP), *view, *state, masks,
                 actions);
}

// The last line of the schedule for this environment and the step of the first.
static __device__ EsAction scheduled_action(const EsDecisionView *view, int32_t step, int64_t e) {
    for (int32_t i = view->n_entries - 1; i >= 0; i--) {
        EsScheduleEntry entry = view->entries[i];
        if (entry.step == step && e >= entry.first_env &&
            (entry.end_env == 0 || e < entry.end_env)) {
            return entry.action;
        }
    }
    return es_action_wait();
}

static __global__ void decide_kernel(EsDecisionView view, EsGrowthState state,
                                     const EsActionMasks *masks, EsAction *actions) {
    __shared__ EsSeed seeds[ES_SLOTS_MAX];
    const EsDecisionRound *round = view.round;
    int64_t e = blockIdx.x;
    load_and_latch(&view, &state, (size_t)e, seeds);
    if (threadIdx.x != 0) {
        return;
    }
    EsAction action = es_action_wait();
    EsActionMasks legal = masks[e];
    if (view.kind == ES_POLICY_RANDOM) {
        EsActionKey key = action_key(round, &state, e);
        action = es_uniform_action(&key, &legal);
    } else if (view.kind == ES_POLICY_HEURISTIC) {
        EsGrowthEnv env = es_growth_env_load(&state.env, (size_t)e);
        EsHeuristic memory = view.memory[e];
        action = es_heuristic_decide(&round->rules, &round->growth, &env, seeds, &legal, &memory);
        view.memory[e] = memory;
    } else if (view.kind == ES_POLICY_SCRIPT) {
        action = scheduled_action(&view, state.env.step[0], e);
    }
    if (is_control(&view, e)) {
        action = es_action_wait();
    }
    actions[e] = action;
    view.actions[e] = action;
}

static void queue_decide(EsStream *stream, const EsDecisionView *view, const EsGrowthState *state,
                         const EsActionMasks *masks, EsAction *actions) {
    EsLaunch launch(stream, "decision_decide");
    launch.start(decide_kernel, dim3((unsigned)view->n_envs), dim3(WARP), *view, *state, masks,
                 actions);
}

// --- after the tick ---

static __global__ void reward_kernel(EsDecisionView view, EsGrowthState state,
                                     int32_t *n_unrewarded_prunes) {
    __shared__ EsSeed seeds[ES_SLOTS_MAX];
    __shared__ EsRewardSeed latched[ES_SLOTS_MAX];
    int64_t e = blockIdx.x;
    int32_t s = (int32_t)threadIdx.x;
    if (s < view.n_slots) {
        size_t index = (size_t)e * (size_t)view.n_slots + (size_t)s;
        seeds[s] = es_seed_load(&state.seed, index);
        latched[s] = es_reward_seed_load(&view.reward.state, index);
    }
    __syncthreads();
    if (s != 0) {
        return;
    }
    int32_t n_settled = 0;
    EsRewardTerms terms =
        es_reward_view_step(&view.reward, &state, (size_t)e, latched, seeds, &n_settled);
    n_unrewarded_prunes[e] -= n_settled;
    view.totals[e] = view.reward.state.env.total[e];
    if (open_row(&view, e) >= 0) {
        es_decision_record(&view.rollout, view.t[e], e, &state, view.round->growth.episode_steps,
                           terms.total, view.reward.settings[e].rollback_penalty);
        view.t[e]++;
    }
}

static void queue_reward(EsStream *stream, const EsDecisionView *view, const EsGrowthState *state,
                         int32_t *n_unrewarded_prunes) {
    EsLaunch launch(stream, "decision_reward");
    launch.start(reward_kernel, dim3((unsigned)view->n_envs), dim3(WARP), *view, *state,
                 n_unrewarded_prunes);
}

// --- the table ---

const EsDecisionKernels *es_decision_kernels_cuda(void) {
    static const EsDecisionKernels kernels = {queue_observe, queue_sample, queue_decide,
                                              queue_reward};
    return &kernels;
}
