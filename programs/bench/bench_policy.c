// The suite `policy`: one acting step of E environments, from an observation in device memory to
// logits and value; a whole decision, from the state to sampled heads; one
// training pass; and a whole update of PPO. On CUDA each of the first two is one replay of a
// capture.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_suite.h"
#include "control/decision/decision_device.h"
#include "control/policy/policy_inference_internal.h"
#include "control/policy/policy_training.h"

// --- decisions ---

// From the state of E environments in device memory over observation and network to the sampled
// heads. On CUDA that is one replay, as in a run.

typedef struct DecideBench {
    int n_hidden, n_slots, n_envs;
    int is_set; // version 2
} DecideBench;

typedef struct DecideFixture {
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
} DecideFixture;

static void end_decide(void *context) {
    DecideFixture *fixture = context;
    if (fixture == NULL) {
        return;
    }
    es_decision_destroy(fixture->decision);
    es_policy_destroy(fixture->policy);
    es_reward_destroy(fixture->reward);
    es_device_release(fixture->device, fixture->device_block);
    es_release(fixture->slab);
    es_release(fixture->masks);
    es_release(fixture->actions);
    es_release(fixture);
}

// Hosts after the first training step of an episode: all alike, with every operation that is legal
// then.
static EsStatus create_hosts(DecideFixture *fixture) {
    int n_slots = fixture->wanted->n_slots, n_envs = fixture->wanted->n_envs;
    size_t n = (size_t)n_envs;
    fixture->settings = es_growth_settings_default(n_slots, 10);
    for (int s = 0; s < n_slots; s++) {
        EsSlot *slot = &fixture->slots[s];
        snprintf(slot->name, sizeof slot->name, "r0c%d", s);
        slot->column = slot->order = s;
        fixture->settings.slot_column[s] = s;
        for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
            fixture->settings.blueprint_parameters[s][b] = 100 * (b + 1);
        }
    }
    ES_TRY(es_allocate(es_growth_state_bytes(n_envs, n_slots), &fixture->slab));
    ES_TRY(es_allocate(sizeof *fixture->masks * n, (void **)&fixture->masks));
    ES_TRY(es_allocate(sizeof *fixture->actions * n, (void **)&fixture->actions));
    float *numbers = NULL;
    ES_TRY(es_allocate(2 * sizeof *numbers * n, (void **)&numbers));
    for (size_t e = 0; e < n; e++) {
        numbers[e] = 2.0f;
        numbers[n + e] = 20.0f;
    }
    es_growth_state_bind(&fixture->state, fixture->slab, n_envs, n_slots);
    es_lifecycle_reset(&fixture->state, &fixture->settings);
    es_lifecycle_measure(&fixture->state, &fixture->settings, numbers, numbers + n);
    es_lifecycle_masks(&fixture->state, &fixture->settings, fixture->masks);
    es_release(numbers);
    return ES_STATUS_OK;
}

static EsStatus create_policy(DecideFixture *fixture) {
    const DecideBench *wanted = fixture->wanted;
    EsPolicySpec spec = es_policy_spec_default(wanted->n_slots, wanted->n_hidden);
    spec.is_set = wanted->is_set;
    EsPpoSettings ppo = es_policy_ppo_defaults();
    EsRewardSettings reward = es_reward_settings_default();
    EsPolicyContext context = {.settings = &fixture->settings,
                               .slots = fixture->slots,
                               .device = fixture->device,
                               .n_envs = wanted->n_envs,
                               .seed = 7};
    ES_TRY(es_reward_create(&reward, &fixture->settings, 5000, wanted->n_envs, &fixture->reward));
    return es_policy_create(&spec, &ppo, &context, 2, &fixture->policy);
}

static EsStatus queue_choose(DecideFixture *fixture) {
    return es_decision_choose(fixture->decision, &fixture->device_state, fixture->device_masks,
                              fixture->device_actions);
}

// The first one runs directly, the second is captured: a replay is measured.
static EsStatus record_choose(DecideFixture *fixture) {
    ES_TRY(queue_choose(fixture));
    ES_TRY(queue_choose(fixture));
    EsDecisionReplays replays = es_decision_replays(fixture->decision);
    return replays.n_captures == 1
               ? es_stream_synchronize(fixture->stream)
               : ES_FAIL(UNSUPPORTED, "decisions are not replayed: %s", replays.fallback);
}

static EsStatus open_device(DecideFixture *fixture) {
    int n_slots = fixture->wanted->n_slots, n_envs = fixture->wanted->n_envs;
    size_t state_bytes = es_growth_state_bytes(n_envs, n_slots);
    size_t masks = (state_bytes + 63) / 64 * 64;
    size_t masks_bytes = sizeof *fixture->masks * (size_t)n_envs;
    size_t actions = masks + (masks_bytes + 63) / 64 * 64;
    ES_TRY(es_device_allocate(fixture->device, actions + sizeof *fixture->actions * (size_t)n_envs,
                              &fixture->device_block));
    char *block = fixture->device_block;
    es_growth_state_bind(&fixture->device_state, block, n_envs, n_slots);
    fixture->device_masks = (EsActionMasks *)(void *)(block + masks);
    fixture->device_actions = (EsAction *)(void *)(block + actions);
    ES_TRY(es_stream_copy(fixture->stream, block, fixture->slab, state_bytes, ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_copy(fixture->stream, fixture->device_masks, fixture->masks, masks_bytes,
                          ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_synchronize(fixture->stream));
    ES_TRY(
        es_decision_create(fixture->policy, fixture->reward, fixture->stream, &fixture->decision));
    ES_TRY(es_decision_begin(fixture->decision, 0));
    return record_choose(fixture);
}

static EsStatus open_parts(DecideFixture *fixture) {
    ES_TRY(create_hosts(fixture));
    ES_TRY(create_policy(fixture));
    return es_device_info(fixture->device)->kind == ES_DEVICE_CUDA ? open_device(fixture)
                                                                   : ES_STATUS_OK;
}

// settings of the case: DecideBench
static EsStatus begin_decide(const EsBenchCase *bench_case, const EsBench *bench,
                             void **fixture_out) {
    DecideFixture *fixture = NULL;
    *fixture_out = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->wanted = bench_case->settings;
    fixture->device = bench->device;
    fixture->stream = bench->stream;
    EsStatus status = open_parts(fixture);
    if (status != ES_STATUS_OK) {
        end_decide(fixture);
        return status;
    }
    *fixture_out = fixture;
    return ES_STATUS_OK;
}

// Every run decides the same step: on the CPU the episode begins again for that.
static EsStatus run_decide(void *context, int variant) {
    DecideFixture *fixture = context;
    (void)variant;
    if (fixture->decision != NULL) {
        return queue_choose(fixture);
    }
    ES_TRY(es_policy_begin(fixture->policy, 0));
    es_reward_latch(fixture->reward, &fixture->state);
    return es_policy_decide(fixture->policy, &fixture->state, fixture->masks, fixture->actions);
}

static double count_decisions(const EsBenchCase *bench_case) {
    const DecideBench *wanted = bench_case->settings;
    return wanted->n_envs;
}

typedef enum Way {
    WAY_ACT,    // as a run acts: the fused step on CUDA, the plan elsewhere
    WAY_TF32,   // the fused step with products in TF32; elsewhere the plan, in f32
    WAY_PLAN,   // the plan everywhere
    WAY_TRAIN,  // forward, gradients of the network, Adam; outputs and gradients in CPU memory
    WAY_UPDATE, // a whole update of N_PASSES passes, as a run makes it
} Way;

#define N_PASSES 4

typedef struct PolicyBench {
    Way way;
    int n_hidden, n_slots, n_envs;
    int n_steps; // of a training pass
    int is_set;  // version 2
} PolicyBench;

typedef struct PolicyFixture {
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
    EsTensor slots;            // version 2
    EsTensor h_after, c_after; // the plan's

    // training, owned
    EsPolicyNetwork *network;
    EsRollout *rollout;
    EsOutputs gradients;
    EsPpoModel model;
    uint32_t pass;
    EsPpo *ppo; // of an update
} PolicyFixture;

static void end_policy(void *context) {
    PolicyFixture *fixture = context;
    if (fixture == NULL) {
        return;
    }
    EsTensor *const tensors[] = {&fixture->features, &fixture->slots, &fixture->blueprints,
                                 &fixture->h,        &fixture->c,     &fixture->logits,
                                 &fixture->value};
    float *const arrays[] = {fixture->gradients.logits, fixture->gradients.value,
                             fixture->gradients.action_value, fixture->gradients.auxiliary};
    es_capture_destroy(fixture->capture);
    es_policy_act_destroy(fixture->act);
    es_plan_destroy(fixture->plan);
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        es_device_destroy_tensor(tensors[i]);
    }
    es_store_destroy(fixture->store);
    es_policy_graph_destroy(&fixture->graph);
    for (size_t i = 0; i < ES_COUNT_OF(arrays); i++) {
        es_release(arrays[i]);
    }
    es_ppo_destroy(fixture->ppo);
    es_rollout_destroy(fixture->rollout);
    es_policy_network_destroy(fixture->network);
    es_release(fixture);
}

// --- acting ---

static EsStatus create_input(PolicyFixture *fixture, EsValueId id, EsTensor *tensor) {
    const EsValue *value = &fixture->graph.graph->values[id];
    ES_TRY(es_device_create_tensor(fixture->device, value->dtype, value->rank, value->dim, tensor));
    return es_plan_bind(fixture->plan, id, tensor);
}

static EsStatus create_output(PolicyFixture *fixture, EsValueId id, EsTensor *tensor) {
    const EsValue *value = &fixture->graph.graph->values[id];
    return es_device_create_tensor(fixture->device, value->dtype, value->rank, value->dim, tensor);
}

// Numbers of the size that normalised observations have; their meaning does not matter here.
static EsStatus fill_features(const PolicyFixture *fixture, const EsTensor *features) {
    int64_t n = es_tensor_count(features);
    float *numbers = NULL;
    ES_TRY(es_allocate((size_t)n * sizeof *numbers, (void **)&numbers));
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = (float)(i * 7919 % 2001 - 1000) * 1e-3f;
    }
    EsStatus status = es_stream_copy(fixture->stream, features->data, numbers,
                                     (size_t)n * sizeof *numbers, ES_COPY_TO_DEVICE);
    if (status == ES_STATUS_OK) {
        status = es_stream_synchronize(fixture->stream);
    }
    es_release(numbers);
    return status;
}

static void queue_act(PolicyFixture *fixture) {
    EsPolicyInputs inputs = {fixture->features.data, fixture->slots.data, fixture->blueprints.data};
    es_policy_act_queue(fixture->act, fixture->stream, &inputs, NULL, fixture->h.data,
                        fixture->c.data, fixture->logits.data, fixture->value.data);
}

static EsStatus open_act(PolicyFixture *fixture) {
    EsPolicyActOptions options = {.is_tf32 = fixture->wanted->way == WAY_TF32};
    ES_TRY(es_policy_act_create(&fixture->graph, &fixture->spec, fixture->store, options,
                                &fixture->act));
    ES_TRY(create_output(fixture, fixture->graph.logits, &fixture->logits));
    ES_TRY(create_output(fixture, fixture->graph.value, &fixture->value));
    ES_TRY(es_capture_begin(fixture->stream));
    queue_act(fixture);
    return es_capture_end(fixture->stream, &fixture->capture);
}

static EsStatus open_acting(PolicyFixture *fixture) {
    const PolicyBench *wanted = fixture->wanted;
    EsPolicyGraphSize size = {.n_shards = 1, .n_steps = 1, .n_rows = wanted->n_envs};
    EsPlanOptions options = es_plan_defaults();
    const int32_t episode = 0;
    ES_TRY(es_policy_graph_create(&fixture->spec, size, &fixture->graph));
    ES_TRY(es_store_create_shared(fixture->graph.graph, fixture->device, 1, &fixture->store));
    ES_TRY(es_store_initialise(fixture->store, fixture->graph.graph, fixture->stream, 7, &episode));
    ES_TRY(es_plan_create(fixture->graph.graph, fixture->store, &options, &fixture->plan));
    ES_TRY(create_input(fixture, fixture->graph.features, &fixture->features));
    ES_TRY(create_input(fixture, fixture->graph.blueprints, &fixture->blueprints));
    ES_TRY(create_input(fixture, fixture->graph.h_start, &fixture->h));
    ES_TRY(create_input(fixture, fixture->graph.c_start, &fixture->c));
    ES_TRY(fill_features(fixture, &fixture->features));
    if (fixture->graph.slots != ES_NO_VALUE) {
        ES_TRY(create_input(fixture, fixture->graph.slots, &fixture->slots));
        ES_TRY(fill_features(fixture, &fixture->slots));
    }
    fixture->h_after = es_plan_tensor(fixture->plan, fixture->graph.h);
    fixture->c_after = es_plan_tensor(fixture->plan, fixture->graph.c);
    int is_fused =
        wanted->way != WAY_PLAN && es_device_info(fixture->device)->kind == ES_DEVICE_CUDA;
    return is_fused ? open_act(fixture) : ES_STATUS_OK;
}

static EsStatus run_plan(PolicyFixture *fixture) {
    size_t bytes = es_tensor_bytes(&fixture->h);
    ES_TRY(es_plan_run(fixture->plan, fixture->stream));
    ES_TRY(es_stream_copy(fixture->stream, fixture->h.data, fixture->h_after.data, bytes,
                          ES_COPY_ON_DEVICE));
    return es_stream_copy(fixture->stream, fixture->c.data, fixture->c_after.data, bytes,
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

static EsStatus open_training(PolicyFixture *fixture) {
    const PolicyBench *wanted = fixture->wanted;
    EsRolloutShape shape = {.n_steps = wanted->n_steps,
                            .n_envs = wanted->n_envs,
                            .n_features = es_policy_spec_observed(&fixture->spec),
                            .n_ids = wanted->n_slots,
                            .n_targets = wanted->n_slots,
                            .policy = es_policy_spec_shape(&fixture->spec)};
    int64_t R = shape.n_steps * shape.n_envs;
    ES_TRY(es_policy_network_create(fixture->device, &fixture->spec, shape.n_envs, shape.n_steps,
                                    &fixture->network));
    ES_TRY(es_policy_network_initialise(fixture->network, 7));
    ES_TRY(es_rollout_create(&shape, &fixture->rollout));
    for (int64_t i = 0; i < R * shape.n_features; i++) {
        fixture->rollout->features[i] = (float)(i * 7919 % 2001 - 1000) * 1e-3f;
    }
    memset(fixture->rollout->is_reset, 1, (size_t)shape.n_envs);
    for (int64_t r = 0; r < R; r++) {
        fixture->rollout->action[r * ES_N_HEADS + ES_HEAD_OP] = (int16_t)(r % ES_N_GROWTH_OPS);
    }
    ES_TRY(create_gradient(R * shape.policy.n_logits, &fixture->gradients.logits));
    ES_TRY(create_gradient(R, &fixture->gradients.value));
    ES_TRY(create_gradient(R, &fixture->gradients.action_value));
    ES_TRY(create_gradient(R * shape.n_targets, &fixture->gradients.auxiliary));
    fixture->model = es_policy_training_model(fixture->network);
    return fixture->model.begin(fixture->model.context, fixture->rollout);
}

// Rows that all count, with every value of every head legal, and settings that never end an update
// before its last pass.
static EsStatus open_update(PolicyFixture *fixture) {
    ES_TRY(open_training(fixture));
    EsRollout *rollout = fixture->rollout;
    int n_heads = rollout->shape.policy.n_heads;
    EsPpoSettings settings = es_policy_ppo_defaults();
    settings.n_epochs = N_PASSES;
    settings.target_kl = 0;
    settings.total_updates = 0;
    for (int64_t row = 0; row < rollout->n_rows; row++) {
        rollout->used[row] = rollout->available[row] = rollout->causal[row] = (1u << n_heads) - 1;
        rollout->is_valid[row] = 1;
        rollout->reward[row] = (float)(row * 7919 % 201 - 100) * 1e-2f;
        for (int head = 0; head < n_heads; head++) {
            int size = rollout->shape.policy.head_size[head];
            rollout->mask[row * n_heads + head] = ~0ull >> (64 - size);
            rollout->action[row * n_heads + head] = (int16_t)(row % size);
        }
    }
    return es_ppo_create(&settings, &rollout->shape, &fixture->ppo);
}

static EsStatus run_update(PolicyFixture *fixture) {
    EsPpoReport report;
    ES_TRY(es_ppo_update(fixture->ppo, fixture->rollout, &fixture->model, &report));
    return report.n_epochs == N_PASSES
               ? ES_STATUS_OK
               : ES_FAIL(NUMERIC, "the update ended after %d passes", report.n_epochs);
}

static EsStatus run_pass(PolicyFixture *fixture) {
    EsOutputs outputs = {0};
    EsStepReport report;
    ES_TRY(fixture->model.forward(fixture->model.context, fixture->pass++, &outputs));
    return fixture->model.step(fixture->model.context, &fixture->gradients, 1e-4f, 0.5f, &report);
}

// --- cases ---

static EsStatus begin_policy(const EsBenchCase *bench_case, const EsBench *bench,
                             void **fixture_out) {
    PolicyFixture *fixture = NULL;
    *fixture_out = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->wanted = bench_case->settings;
    fixture->device = bench->device;
    fixture->stream = bench->stream;
    fixture->spec = es_policy_spec_default(fixture->wanted->n_slots, fixture->wanted->n_hidden);
    fixture->spec.is_set = fixture->wanted->is_set;
    EsStatus status = fixture->wanted->way == WAY_TRAIN    ? open_training(fixture)
                      : fixture->wanted->way == WAY_UPDATE ? open_update(fixture)
                                                           : open_acting(fixture);
    if (status != ES_STATUS_OK) {
        end_policy(fixture);
        return status;
    }
    *fixture_out = fixture;
    return ES_STATUS_OK;
}

static EsStatus run_policy(void *context, int variant) {
    PolicyFixture *fixture = context;
    (void)variant;
    if (fixture->wanted->way == WAY_TRAIN) {
        return run_pass(fixture);
    }
    if (fixture->wanted->way == WAY_UPDATE) {
        return run_update(fixture);
    }
    return fixture->act != NULL ? es_capture_replay(fixture->capture, fixture->stream)
                                : run_plan(fixture);
}

static double count_rows(const EsBenchCase *bench_case) {
    const PolicyBench *wanted = bench_case->settings;
    double n_steps = wanted->way >= WAY_TRAIN ? wanted->n_steps : 1;
    return wanted->n_envs * n_steps * (wanted->way == WAY_UPDATE ? N_PASSES : 1);
}

#define POLICY_CASE(n, label, ...)                                                                 \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const PolicyBench){__VA_ARGS__},             \
        .begin = begin_policy, .run = run_policy, .end = end_policy, .work = count_rows,           \
        .rate_unit = "decisions/s"                                                                 \
    }

#define DECIDE_CASE(n, label, ...)                                                                 \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const DecideBench){__VA_ARGS__},             \
        .begin = begin_decide, .run = run_decide, .end = end_decide, .work = count_decisions,      \
        .rate_unit = "decisions/s"                                                                 \
    }

// 512 hidden units and three slots as published; tiny has 64 and two
static const EsBenchCase cases[] = {
    POLICY_CASE("act", "E=1 H=512 S=3", WAY_ACT, 512, 3, 1, 0, 0),
    POLICY_CASE("act", "E=4 H=512 S=3", WAY_ACT, 512, 3, 4, 0, 0),
    POLICY_CASE("act", "E=16 H=512 S=3", WAY_ACT, 512, 3, 16, 0, 0),
    POLICY_CASE("act", "E=64 H=512 S=3", WAY_ACT, 512, 3, 64, 0, 0),
    POLICY_CASE("act", "E=256 H=512 S=3", WAY_ACT, 512, 3, 256, 0, 0),
    POLICY_CASE("act", "E=16 H=64 S=2", WAY_ACT, 64, 2, 16, 0, 0),
    POLICY_CASE("act", "E=256 H=64 S=2", WAY_ACT, 64, 2, 256, 0, 0),
    POLICY_CASE("act_tf32", "E=64 H=512 S=3", WAY_TF32, 512, 3, 64, 0, 0),
    POLICY_CASE("act_tf32", "E=256 H=512 S=3", WAY_TF32, 512, 3, 256, 0, 0),
    POLICY_CASE("act_plan", "E=64 H=512 S=3", WAY_PLAN, 512, 3, 64, 0, 0),
    DECIDE_CASE("decide", "E=1 H=512 S=3", 512, 3, 1, 0),
    DECIDE_CASE("decide", "E=16 H=512 S=3", 512, 3, 16, 0),
    DECIDE_CASE("decide", "E=64 H=512 S=3", 512, 3, 64, 0),
    DECIDE_CASE("decide", "E=256 H=512 S=3", 512, 3, 256, 0),
    DECIDE_CASE("decide", "E=16 H=64 S=2", 64, 2, 16, 0),
    POLICY_CASE("train", "E=16 T=150 H=512 S=3", WAY_TRAIN, 512, 3, 16, 150, 0),
    POLICY_CASE("train", "E=16 T=30 H=64 S=2", WAY_TRAIN, 64, 2, 16, 30, 0),
    POLICY_CASE("update", "E=16 T=150 H=512 S=3, 4 passes", WAY_UPDATE, 512, 3, 16, 150, 0),
    POLICY_CASE("update", "E=64 T=150 H=512 S=3, 4 passes", WAY_UPDATE, 512, 3, 64, 150, 0),
    POLICY_CASE("act_set", "E=1 H=512 S=3", WAY_ACT, 512, 3, 1, 0, 1),
    POLICY_CASE("act_set", "E=16 H=512 S=3", WAY_ACT, 512, 3, 16, 0, 1),
    POLICY_CASE("act_set", "E=64 H=512 S=3", WAY_ACT, 512, 3, 64, 0, 1),
    POLICY_CASE("act_set", "E=64 H=512 S=12", WAY_ACT, 512, 12, 64, 0, 1),
    POLICY_CASE("act_set_plan", "E=64 H=512 S=3", WAY_PLAN, 512, 3, 64, 0, 1),
    DECIDE_CASE("decide_set", "E=1 H=512 S=3", 512, 3, 1, 1),
    DECIDE_CASE("decide_set", "E=16 H=512 S=3", 512, 3, 16, 1),
    DECIDE_CASE("decide_set", "E=64 H=512 S=3", 512, 3, 64, 1),
    DECIDE_CASE("decide_set", "E=64 H=512 S=12", 512, 12, 64, 1),
    POLICY_CASE("train_set", "E=16 T=150 H=512 S=3", WAY_TRAIN, 512, 3, 16, 150, 1),
    POLICY_CASE("train_set", "E=16 T=30 H=64 S=2", WAY_TRAIN, 64, 2, 16, 30, 1),
    POLICY_CASE("update_set", "E=64 T=150 H=512 S=3, 4 passes", WAY_UPDATE, 512, 3, 64, 150, 1),
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
        decided = (DecideBench){chosen.n_hidden, chosen.n_slots, chosen.n_envs, 0};
        snprintf(parameters, sizeof parameters, "E=%d H=%d S=3", chosen.n_envs, chosen.n_hidden);
        custom[0] = cases[0];
        custom[0].parameters = parameters;
        custom[0].settings = &chosen;
        custom[1] = (EsBenchCase)DECIDE_CASE("decide", parameters, 0, 0, 0, 0);
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
