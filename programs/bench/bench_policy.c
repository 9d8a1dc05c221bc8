// The suite `policy`: one acting step of E environments, from an observation in device memory to
// logits and value; a whole decision, from the state to sampled heads; and one
// training pass. On CUDA each of the first two is one replay of a capture.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_suite.h"
#include "control/decision/decision_device.h"
#include "control/policy/policy_inference.h"

// --- decisions ---

// From the state of E environments in device memory over observation and network to the sampled
// heads. On CUDA that is one replay, as in a run.

typedef struct DecideBench {
    int n_hidden, n_slots, n_envs;
} DecideBench;

typedef struct DecideState {
    const DecideBench *wanted;
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
    EsDecisionDevice *decision; // owned; NULL: the CPU decides
    void *device_block;         // owned: the same state, masks, actions
    EsGrowthState device_state;
    EsActionMasks *device_masks;
    EsAction *device_actions;
} DecideState;

static void end_decide(void *context) {
    DecideState *state = context;
    if (state == NULL) {
        return;
    }
    es_decision_destroy(state->decision);
    es_policy_destroy(state->policy);
    es_reward_destroy(state->reward);
    es_device_release(state->device, state->device_block);
    es_release(state->slab);
    es_release(state->masks);
    es_release(state->actions);
    es_release(state);
}

// Hosts after the first training step of an episode: all alike, with every operation that is legal
// then.
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
    const DecideBench *wanted = state->wanted;
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

// The first one runs directly, the second is captured: a replay is measured.
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
    ES_TRY(es_decision_create(state->policy, state->reward, state->stream, &state->decision));
    ES_TRY(es_decision_begin(state->decision, 0));
    return record_choose(state);
}

static EsStatus open_parts(DecideState *state) {
    ES_TRY(create_hosts(state));
    ES_TRY(create_policy(state));
    return es_device_info(state->device)->kind == ES_DEVICE_CUDA ? open_device(state)
                                                                 : ES_STATUS_OK;
}

// settings of the case: DecideBench
static EsStatus begin_decide(const EsBenchCase *bench_case, const EsBench *bench,
                             void **state_out) {
    DecideState *state = NULL;
    *state_out = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->wanted = bench_case->settings;
    state->device = bench->device;
    state->stream = bench->stream;
    EsStatus status = open_parts(state);
    if (status != ES_STATUS_OK) {
        end_decide(state);
        return status;
    }
    *state_out = state;
    return ES_STATUS_OK;
}

// Every run decides the same step: on the CPU the episode begins again for that.
static EsStatus run_decide(void *context, int variant) {
    DecideState *state = context;
    (void)variant;
    if (state->decision != NULL) {
        return queue_choose(state);
    }
    ES_TRY(es_policy_begin(state->policy, 0));
    es_reward_latch(state->reward, &state->state);
    return es_policy_decide(state->policy, &state->state, state->masks, state->actions);
}

static double count_decisions(const EsBenchCase *bench_case) {
    const DecideBench *wanted = bench_case->settings;
    return wanted->n_envs;
}

typedef enum Way {
    WAY_ACT,   // as a run acts: the fused step on CUDA, the plan elsewhere
    WAY_TF32,  // the fused step with products in TF32; elsewhere the plan, in f32
    WAY_PLAN,  // the plan everywhere
    WAY_TRAIN, // forward, gradients of the network, Adam
} Way;

typedef struct PolicyBench {
    Way way;
    int n_hidden, n_slots, n_envs;
    int n_steps; // of a training pass
} PolicyBench;

typedef struct PolicyState {
    const PolicyBench *wanted;
    EsDevice *device; // borrowed
    EsStream *stream; // borrowed
    EsPolicySpec spec;

    // acting, owned
    EsPolicyGraph graph;
    EsStore *store;
    EsPlan *plan;
    EsPolicyAct *act;   // NULL: the plan acts
    EsCapture *capture; // of act
    EsTensor features, blueprints, h, c, logits, value;
    EsTensor h_after, c_after; // the plan's

    // training, owned
    EsPolicyNetwork *network;
    EsRollout *rollout;
    EsOutputs gradients;
    EsPpoModel model;
    uint32_t pass;
} PolicyState;

static void end_policy(void *context) {
    PolicyState *state = context;
    if (state == NULL) {
        return;
    }
    EsTensor *const tensors[] = {&state->features, &state->blueprints, &state->h,
                                 &state->c,        &state->logits,     &state->value};
    float *const arrays[] = {state->gradients.logits, state->gradients.value,
                             state->gradients.action_value, state->gradients.auxiliary};
    es_capture_destroy(state->capture);
    es_policy_act_destroy(state->act);
    es_plan_destroy(state->plan);
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        es_device_destroy_tensor(tensors[i]);
    }
    es_store_destroy(state->store);
    es_policy_graph_destroy(&state->graph);
    for (size_t i = 0; i < ES_COUNT_OF(arrays); i++) {
        es_release(arrays[i]);
    }
    es_rollout_destroy(state->rollout);
    es_policy_network_destroy(state->network);
    es_release(state);
}

// --- acting ---

static EsStatus create_input(PolicyState *state, EsValueId id, EsTensor *tensor) {
    const EsValue *value = &state->graph.graph->values[id];
    ES_TRY(es_device_create_tensor(state->device, value->dtype, value->rank, value->dim, tensor));
    return es_plan_bind(state->plan, id, tensor);
}

static EsStatus create_output(PolicyState *state, EsValueId id, EsTensor *tensor) {
    const EsValue *value = &state->graph.graph->values[id];
    return es_device_create_tensor(state->device, value->dtype, value->rank, value->dim, tensor);
}

// Numbers of the size that normalised observations have; their meaning does not matter here.
static EsStatus fill_features(PolicyState *state) {
    int64_t n = es_tensor_count(&state->features);
    float *numbers = NULL;
    ES_TRY(es_allocate((size_t)n * sizeof *numbers, (void **)&numbers));
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = (float)(i * 7919 % 2001 - 1000) * 1e-3f;
    }
    EsStatus status = es_stream_copy(state->stream, state->features.data, numbers,
                                     (size_t)n * sizeof *numbers, ES_COPY_TO_DEVICE);
    if (status == ES_STATUS_OK) {
        status = es_stream_synchronize(state->stream);
    }
    es_release(numbers);
    return status;
}

static void queue_act(PolicyState *state) {
    es_policy_act_queue(state->act, state->stream, state->features.data, state->blueprints.data,
                        NULL, state->h.data, state->c.data, state->logits.data, state->value.data);
}

static EsStatus open_act(PolicyState *state) {
    EsPolicyActOptions options = {.is_tf32 = state->wanted->way == WAY_TF32};
    ES_TRY(es_policy_act_create(&state->graph, &state->spec, state->store, options, &state->act));
    ES_TRY(create_output(state, state->graph.logits, &state->logits));
    ES_TRY(create_output(state, state->graph.value, &state->value));
    ES_TRY(es_capture_begin(state->stream));
    queue_act(state);
    return es_capture_end(state->stream, &state->capture);
}

static EsStatus open_acting(PolicyState *state) {
    const PolicyBench *wanted = state->wanted;
    EsPolicyGraphSize size = {.n_shards = 1, .n_steps = 1, .n_rows = wanted->n_envs};
    EsPlanOptions options = es_plan_defaults();
    const int32_t episode = 0;
    ES_TRY(es_policy_graph_create(&state->spec, size, &state->graph));
    ES_TRY(es_store_create_shared(state->graph.graph, state->device, 1, &state->store));
    ES_TRY(es_store_initialise(state->store, state->graph.graph, state->stream, 7, &episode));
    ES_TRY(es_plan_create(state->graph.graph, state->store, &options, &state->plan));
    ES_TRY(create_input(state, state->graph.features, &state->features));
    ES_TRY(create_input(state, state->graph.blueprints, &state->blueprints));
    ES_TRY(create_input(state, state->graph.h_start, &state->h));
    ES_TRY(create_input(state, state->graph.c_start, &state->c));
    ES_TRY(fill_features(state));
    state->h_after = es_plan_tensor(state->plan, state->graph.h);
    state->c_after = es_plan_tensor(state->plan, state->graph.c);
    int is_fused = wanted->way != WAY_PLAN && es_device_info(state->device)->kind == ES_DEVICE_CUDA;
    return is_fused ? open_act(state) : ES_STATUS_OK;
}

static EsStatus run_plan(PolicyState *state) {
    size_t bytes = es_tensor_bytes(&state->h);
    ES_TRY(es_plan_run(state->plan, state->stream));
    ES_TRY(es_stream_copy(state->stream, state->h.data, state->h_after.data, bytes,
                          ES_COPY_ON_DEVICE));
    return es_stream_copy(state->stream, state->c.data, state->c_after.data, bytes,
                          ES_COPY_ON_DEVICE);
}

// --- training ---

static EsStatus create_gradient(int64_t n, float **gradient) {
    ES_TRY(es_allocate((size_t)n * sizeof **gradient, (void **)gradient));
    for (int64_t i = 0; i < n; i++) {
        (*gradient)[i] = (float)(i % 5 - 2) * 1e-4f;
    }
    return ES_STATUS_OK;
}

static EsStatus open_training(PolicyState *state) {
    const PolicyBench *wanted = state->wanted;
    EsRolloutShape shape = {.n_steps = wanted->n_steps,
                            .n_envs = wanted->n_envs,
                            .n_features = es_observation_size(wanted->n_slots),
                            .n_ids = wanted->n_slots,
                            .n_targets = wanted->n_slots,
                            .policy = es_policy_spec_shape(&state->spec)};
    int64_t R = shape.n_steps * shape.n_envs;
    ES_TRY(es_policy_network_create(state->device, &state->spec, shape.n_envs, shape.n_steps,
                                    &state->network));
    ES_TRY(es_policy_network_initialise(state->network, 7));
    ES_TRY(es_rollout_create(&shape, &state->rollout));
    for (int64_t i = 0; i < R * shape.n_features; i++) {
        state->rollout->features[i] = (float)(i * 7919 % 2001 - 1000) * 1e-3f;
    }
    memset(state->rollout->is_reset, 1, (size_t)shape.n_envs);
    ES_TRY(create_gradient(R * shape.policy.n_logits, &state->gradients.logits));
    ES_TRY(create_gradient(R, &state->gradients.value));
    ES_TRY(create_gradient(R, &state->gradients.action_value));
    ES_TRY(create_gradient(R * shape.n_targets, &state->gradients.auxiliary));
    state->model = es_policy_network_ppo_model(state->network);
    return state->model.begin(state->model.context, state->rollout);
}

static EsStatus run_pass(PolicyState *state) {
    EsOutputs outputs = {0};
    EsStepReport report;
    ES_TRY(state->model.forward(state->model.context, state->pass++, &outputs));
    return state->model.step(state->model.context, &state->gradients, 1e-4f, 0.5f, &report);
}

// --- cases ---

static EsStatus begin_policy(const EsBenchCase *bench_case, const EsBench *bench,
                             void **state_out) {
    PolicyState *state = NULL;
    *state_out = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->wanted = bench_case->settings;
    state->device = bench->device;
    state->stream = bench->stream;
    state->spec = es_policy_spec_default(state->wanted->n_slots, state->wanted->n_hidden);
    EsStatus status = state->wanted->way == WAY_TRAIN ? open_training(state) : open_acting(state);
    if (status != ES_STATUS_OK) {
        end_policy(state);
        return status;
    }
    *state_out = state;
    return ES_STATUS_OK;
}

static EsStatus run_policy(void *context, int variant) {
    PolicyState *state = context;
    (void)variant;
    if (state->wanted->way == WAY_TRAIN) {
        return run_pass(state);
    }
    return state->act != NULL ? es_capture_replay(state->capture, state->stream) : run_plan(state);
}

static double count_rows(const EsBenchCase *bench_case) {
    const PolicyBench *wanted = bench_case->settings;
    return (double)wanted->n_envs * (wanted->way == WAY_TRAIN ? wanted->n_steps : 1);
}

#define POLICY_CASE(n, label, ...)                                                                 \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const PolicyBench){__VA_ARGS__},             \
        .begin = begin_policy, .run = run_policy, .end = end_policy, .work = count_rows,           \
        .rate_unit = "decisions/s"                                                                 \
    }

#define DECIDE_CASE(label, ...)                                                                    \
    {                                                                                              \
        .name = "decide", .parameters = label, .settings = &(const DecideBench){__VA_ARGS__},      \
        .begin = begin_decide, .run = run_decide, .end = end_decide, .work = count_decisions,      \
        .rate_unit = "decisions/s"                                                                 \
    }

// 512 hidden units and three slots as published; tiny has 64 and two
static const EsBenchCase cases[] = {
    POLICY_CASE("act", "E=1 H=512 S=3", WAY_ACT, 512, 3, 1, 0),
    POLICY_CASE("act", "E=4 H=512 S=3", WAY_ACT, 512, 3, 4, 0),
    POLICY_CASE("act", "E=16 H=512 S=3", WAY_ACT, 512, 3, 16, 0),
    POLICY_CASE("act", "E=64 H=512 S=3", WAY_ACT, 512, 3, 64, 0),
    POLICY_CASE("act", "E=256 H=512 S=3", WAY_ACT, 512, 3, 256, 0),
    POLICY_CASE("act", "E=16 H=64 S=2", WAY_ACT, 64, 2, 16, 0),
    POLICY_CASE("act", "E=256 H=64 S=2", WAY_ACT, 64, 2, 256, 0),
    POLICY_CASE("act_tf32", "E=64 H=512 S=3", WAY_TF32, 512, 3, 64, 0),
    POLICY_CASE("act_tf32", "E=256 H=512 S=3", WAY_TF32, 512, 3, 256, 0),
    POLICY_CASE("act_plan", "E=64 H=512 S=3", WAY_PLAN, 512, 3, 64, 0),
    DECIDE_CASE("E=16 H=512 S=3", 512, 3, 16),
    DECIDE_CASE("E=64 H=512 S=3", 512, 3, 64),
    DECIDE_CASE("E=256 H=512 S=3", 512, 3, 256),
    DECIDE_CASE("E=16 H=64 S=2", 64, 2, 16),
    POLICY_CASE("train", "E=16 T=150 H=512 S=3", WAY_TRAIN, 512, 3, 16, 150),
    POLICY_CASE("train", "E=16 T=30 H=64 S=2", WAY_TRAIN, 64, 2, 16, 30),
};

// Acting and deciding of as many environments as the command line says.
static EsStatus choose_policy(const EsBenchHost *wanted, EsBenchCase *custom, int *n_custom) {
    static PolicyBench chosen; // one run of the program has one command line
    static DecideBench decided;
    static char parameters[64];
    int is_custom = wanted->n_envs > 0 || wanted->n_hidden > 0;
    *n_custom = is_custom ? 2 : 0;
    if (wanted->n_hidden % 8 != 0) {
        return ES_FAIL(ARGUMENT, "%d hidden units are not a multiple of 8", wanted->n_hidden);
    }
    if (is_custom) {
        chosen = (PolicyBench){.way = WAY_ACT, .n_hidden = 512, .n_slots = 3, .n_envs = 64};
        chosen.n_envs = wanted->n_envs > 0 ? wanted->n_envs : chosen.n_envs;
        chosen.n_hidden = wanted->n_hidden > 0 ? wanted->n_hidden : chosen.n_hidden;
        decided = (DecideBench){chosen.n_hidden, chosen.n_slots, chosen.n_envs};
        snprintf(parameters, sizeof parameters, "E=%d H=%d S=3", chosen.n_envs, chosen.n_hidden);
        custom[0] = cases[0];
        custom[0].parameters = parameters;
        custom[0].settings = &chosen;
        custom[1] = (EsBenchCase)DECIDE_CASE(parameters, 0);
        custom[1].settings = &decided;
    }
    return ES_STATUS_OK;
}

const EsBenchSuite es_bench_policy = {
    .name = "policy",
    .summary = "acting of the policy network, whole decisions, and training passes",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
    .choose = choose_policy,
    .sweeps = "envs hidden",
};
