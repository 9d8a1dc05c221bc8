#include "bench/bench_decide.h"

#include <stdio.h>

#include "base/memory.h"
#include "control/decision/decision_device.h"

// E environments.
typedef struct DecideState {
    const EsDecideBench *wanted;
    EsDevice *device; // borrowed
    EsStream *stream; // borrowed
    EsGrowthSettings settings;
    EsSlot slots[ES_SLOTS_MAX];
    EsPolicy *policy;     // owned
    EsReward *reward;     // owned
    void *slab;           // owned
    EsGrowthState state;  // over slab: hosts before their first decision
    EsActionMasks *masks; // owned [E]
    EsAction *actions;    // owned [E]

    // CUDA
    EsDecisionDevice *decision; // borrowed from the policy; NULL: the CPU decides
    void *device_block;         // owned: the same state, masks, actions
    EsGrowthState device_state;
    EsActionMasks *device_masks;
    EsAction *device_actions;
} DecideState;

void es_bench_decide_end(void *context) {
    DecideState *state = context;
    if (state == NULL) {
        return;
    }
    es_policy_destroy(state->policy);
    es_reward_destroy(state->reward);
    es_device_release(state->device, state->device_block);
    es_release(state->slab);
    es_release(state->masks);
    es_release(state->actions);
    es_release(state);
}

// Hosts after the first training step of an episode: all alike, and free to do what is legal then.
static EsStatus create_hosts(DecideState *state) {
    int n_slots = state->wanted->n_slots, n_envs = state->wanted->n_envs;
    size_t n = (size_t)n_envs;
    state->settings = es_growth_settings_default(n_slots, 10);
    for (int s = 0; s < n_slots; s++) {
        EsSlot *slot = &state->slots[s];
        snprintf(slot->name, sizeof slot->name, "r0c%d", s);
        slot->column = slot->order = s;
        state->settings.slot_column[s] = s;
        for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
            state->settings.blueprint_parameters[s][b] = 100 * (b + 1);
        }
    }
    ES_TRY(es_allocate(es_growth_state_bytes(n_envs, n_slots), &state->slab));
    ES_TRY(es_allocate(sizeof *state->masks * n, (void **)&state->masks));
    ES_TRY(es_allocate(sizeof *state->actions * n, (void **)&state->actions));
    float *numbers = NULL;
    ES_TRY(es_allocate(2 * sizeof *numbers * n, (void **)&numbers));
    for (size_t e = 0; e < n; e++) {
        numbers[e] = 2.0f;
        numbers[n + e] = 20.0f;
    }
    es_growth_state_bind(&state->state, state->slab, n_envs, n_slots);
    es_lifecycle_reset(&state->state, &state->settings);
    es_lifecycle_measure(&state->state, &state->settings, numbers, numbers + n);
    es_lifecycle_masks(&state->state, &state->settings, state->masks);
    es_release(numbers);
    return ES_STATUS_OK;
}

static EsStatus create_policy(DecideState *state) {
    const EsDecideBench *wanted = state->wanted;
    EsPolicySpec spec = es_policy_spec_default(wanted->n_slots, wanted->n_hidden);
    EsPpoSettings ppo = es_policy_ppo_defaults();
    EsRewardSettings reward = es_reward_settings_default();
    EsPolicyContext context = {.settings = &state->settings,
                               .slots = state->slots,
                               .device = state->device,
                               .n_envs = wanted->n_envs,
                               .seed = 7};
    ES_TRY(es_reward_create(&reward, &state->settings, 5000, wanted->n_envs, &state->reward));
    return es_policy_create(&spec, &ppo, &context, 2, &state->policy);
}

static EsStatus queue_choose(DecideState *state) {
    return es_decision_choose(state->decision, &state->device_state, state->device_masks,
                              state->device_actions);
}

// The first one runs directly, the second is recorded: what is measured is a replay.
static EsStatus record_choose(DecideState *state) {
    ES_TRY(queue_choose(state));
    ES_TRY(queue_choose(state));
    EsDecisionReplays replays = es_decision_replays(state->decision);
    return replays.n_captures == 1
               ? es_stream_synchronize(state->stream)
               : ES_FAIL(UNSUPPORTED, "decisions are not replayed: %s", replays.fallback);
}

static EsStatus open_device(DecideState *state) {
    int n_slots = state->wanted->n_slots, n_envs = state->wanted->n_envs;
    size_t state_bytes = es_growth_state_bytes(n_envs, n_slots);
    size_t masks = (state_bytes + 63) / 64 * 64;
    size_t masks_bytes = sizeof *state->masks * (size_t)n_envs;
    size_t actions = masks + (masks_bytes + 63) / 64 * 64;
    ES_TRY(es_device_allocate(state->device, actions + sizeof *state->actions * (size_t)n_envs,
                              &state->device_block));
    char *block = state->device_block;
    es_growth_state_bind(&state->device_state, block, n_envs, n_slots);
    state->device_masks = (EsActionMasks *)(void *)(block + masks);
    state->device_actions = (EsAction *)(void *)(block + actions);
    ES_TRY(es_stream_copy(state->stream, block, state->slab, state_bytes, ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_copy(state->stream, state->device_masks, state->masks, masks_bytes,
                          ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_synchronize(state->stream));
    ES_TRY(es_policy_decision(state->policy, state->reward, state->stream, &state->decision));
    ES_TRY(es_decision_begin(state->decision, 0));
    return record_choose(state);
}

static EsStatus open_parts(DecideState *state) {
    ES_TRY(create_hosts(state));
    ES_TRY(create_policy(state));
    return es_device_info(state->device)->kind == ES_DEVICE_CUDA ? open_device(state)
                                                                 : ES_STATUS_OK;
}

EsStatus es_bench_decide_begin(const EsBenchCase *bench_case, const EsBench *bench,
                               void **state_out) {
    DecideState *state = NULL;
    *state_out = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->wanted = bench_case->settings;
    state->device = bench->device;
    state->stream = bench->stream;
    EsStatus status = open_parts(state);
    if (status != ES_STATUS_OK) {
        es_bench_decide_end(state);
        return status;
    }
    *state_out = state;
    return ES_STATUS_OK;
}

// Every run decides the same step: on the CPU the episode begins again for that.
EsStatus es_bench_decide_run(void *context, int variant) {
    DecideState *state = context;
    (void)variant;
    if (state->decision != NULL) {
        return queue_choose(state);
    }
    ES_TRY(es_policy_begin(state->policy, 0));
    es_reward_latch(state->reward, &state->state);
    return es_policy_decide(state->policy, &state->state, state->masks, state->actions);
}

double es_bench_decide_work(const EsBenchCase *bench_case) {
    const EsDecideBench *wanted = bench_case->settings;
    return wanted->n_envs;
}
