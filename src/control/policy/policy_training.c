// Training of the learned policy: its network as a PPO model (rows of a rollout to shards and back,
// gradients, optimiser), rewards into rows, the update at the end of a round, and the file that
// training goes on from.
//
// G shards, T steps, E environments, N of a shard.
#include "control/policy/policy_training.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random_rules.h"
#include "base/range_check.h"
#include "control/policy/policy_internal.h"
#include "control/policy/policy_training_internal.h"
#include "control/rules/decision_rules.h"
#include "control/rules/sampling_rules.h"
#include "network/network_file.h"

// as published
#define ADAM_EPSILON 1e-5f

// --- the PPO model: life ---

static int is_on_cuda(const EsPolicyNetwork *network) {
    return es_device_info(network->device)->kind == ES_DEVICE_CUDA;
}

// Inputs that version 2 has beside those of version 1.
static EsStatus open_set_staging(EsPolicyNetwork *network, EsPolicyTraining *training) {
    const EsPolicyGraph *p = &training->graph;
    if (p->slots == ES_NO_VALUE) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_staging_open_input(&training->slots, network->device, training->plan, p->graph,
                                 p->slots));
    ES_TRY(
        es_staging_open_input(&training->slot, network->device, training->plan, p->graph, p->slot));
    ES_TRY(es_staging_open_input(&training->share, network->device, training->plan, p->graph,
                                 p->share));
    float *share = training->share.host;
    for (int64_t i = 0; i < es_tensor_count(&training->share.tensor); i++) {
        share[i] = 1.0f / (float)network->spec.n_slots; // every row has all slots
    }
    ES_TRY(es_staging_send(&training->share, network->stream));
    for (int head = 0; head < ES_N_HEADS; head++) {
        if (p->variant[head] != ES_NO_VALUE) {
            ES_TRY(es_staging_open_input(&training->variant[head], network->device, training->plan,
                                         p->graph, p->variant[head]));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus open_staging(EsPolicyNetwork *network, EsPolicyTraining *training) {
    const EsPolicyGraph *p = &training->graph;
    const struct {
        EsStagingTensor *staging;
        EsValueId value;
    } inputs[] =
        {
            {&training->features, p->features},
            {&training->blueprints, p->blueprints},
            {&training->reset, p->reset},
            {&training->op, p->op},
            {&training->episode, p->episode},
            {&training->pass, p->pass},
            {&training->d_logits, p->d_logits},
            {&training->d_value, p->d_value},
            {&training->d_action_value, p->d_action_value},
            {&training->d_contribution, p->d_contribution},
        },
      outputs[] = {
          {&training->logits, p->logits},
          {&training->value, p->value},
          {&training->action_value, p->action_value},
          {&training->contribution, p->contribution},
      };
    for (size_t i = 0; i < ES_COUNT_OF(inputs); i++) {
        ES_TRY(es_staging_open_input(inputs[i].staging, network->device, training->plan, p->graph,
                                     inputs[i].value));
    }
    ES_TRY(open_set_staging(network, training));
    for (size_t i = 0; i < ES_COUNT_OF(outputs); i++) {
        ES_TRY(es_staging_open_view(outputs[i].staging,
                                    es_plan_tensor(training->plan, outputs[i].value)));
    }
    return ES_STATUS_OK;
}

static EsStatus open_optimiser(EsPolicyNetwork *network, EsPolicyTraining *training) {
    EsOptimiserOptions options = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    options.epsilon = ADAM_EPSILON;
    options.measures = 1; // each step sets the norm to clip to
    options.skips_nonfinite = 1;
    const EsGraph *graph = training->graph.graph;
    ES_TRY(es_optimiser_create(graph, network->store, &options, &training->optimiser));
    size_t n = (size_t)training->optimiser->n_spans;
    ES_TRY(es_allocate(n * sizeof *training->part_of, (void **)&training->part_of));
    ES_TRY(es_allocate(n * sizeof *training->sum_squares, (void **)&training->sum_squares));
    ES_TRY(es_allocate(n * sizeof *training->n_nonfinite, (void **)&training->n_nonfinite));
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v].role == ES_ROLE_PARAMETER) {
            training->part_of[training->n_tensors++] = es_policy_part_of(graph->values[v].name);
        }
    }
    ES_ASSERT(training->n_tensors == training->optimiser->n_spans);
    return ES_STATUS_OK;
}

// Ranks beyond the number of shards run the first one again, and nobody looks at it.
static EsShare find_own(const EsPolicyNetwork *network) {
    EsShare own = es_ranks_own(network->ranks, ES_POLICY_SHARDS);
    return own.first < own.end ? own : (EsShare){0, 1};
}

// Room for any one output of all shards.
static EsStatus allocate_shards(const EsPolicyNetwork *network, EsPolicyTraining *training) {
    int64_t n_rows = ES_POLICY_SHARDS * network->n_steps * training->graph.size.n_rows;
    int64_t width = ES_MAX(network->shape.n_logits, network->spec.n_slots);
    return es_allocate(sizeof(float) * (size_t)(n_rows * width), (void **)&training->shards);
}

static EsStatus allocate_outputs(const EsPolicyNetwork *network, EsOutputs *outputs) {
    size_t bytes = (size_t)(network->n_steps * network->n_envs) * sizeof(float);
    size_t n_logits = (size_t)network->shape.n_logits, n_slots = (size_t)network->spec.n_slots;
    ES_TRY(es_allocate(bytes * n_logits, (void **)&outputs->logits));
    ES_TRY(es_allocate(bytes, (void **)&outputs->value));
    ES_TRY(es_allocate(bytes, (void **)&outputs->action_value));
    return es_allocate(bytes * n_slots, (void **)&outputs->auxiliary);
}

EsStatus es_policy_training_create(EsPolicyNetwork *network) {
    EsPolicyTraining *training = NULL;
    ES_TRY(es_allocate(sizeof *training, (void **)&training));
    network->training = training; // ended with the network
    training->own = find_own(network);
    int is_shared = es_ranks_count(network->ranks) > 1;
    EsPolicyGraphSize size = {
        .is_training = 1,
        .n_shards = training->own.end - training->own.first,
        .n_steps = network->n_steps,
        .n_rows = (network->n_envs + ES_POLICY_SHARDS - 1) / ES_POLICY_SHARDS,
    };
    ES_TRY(es_policy_graph_create(&network->spec, size, &training->graph));
    ES_TRY(open_optimiser(network, training));
    EsPlanOptions options = es_plan_defaults();
    options.optimiser = is_shared ? NULL : training->optimiser;
    ES_TRY(es_plan_create(training->graph.graph, network->store, &options, &training->plan));
    ES_TRY(open_staging(network, training));
    ES_TRY(allocate_outputs(network, &training->outputs));
    ES_TRY(is_shared ? allocate_shards(network, training) : ES_STATUS_OK);
    return is_on_cuda(network) ? es_policy_training_open_device_form(network) : ES_STATUS_OK;
}

void es_policy_training_destroy(EsPolicyTraining *training) {
    if (training == NULL) {
        return;
    }
    EsStagingTensor *const staged_tensors[] = {&training->features,       &training->blueprints,
                                               &training->reset,          &training->op,
                                               &training->episode,        &training->pass,
                                               &training->d_logits,       &training->d_value,
                                               &training->d_action_value, &training->d_contribution,
                                               &training->logits,         &training->value,
                                               &training->action_value,   &training->contribution};
    for (size_t i = 0; i < ES_COUNT_OF(staged_tensors); i++) {
        es_staging_close(staged_tensors[i]);
    }
    es_staging_close(&training->slots);
    es_staging_close(&training->slot);
    es_staging_close(&training->share);
    for (int head = 0; head < ES_N_HEADS; head++) {
        es_staging_close(&training->variant[head]);
    }
    es_device_destroy_tensor(&training->parts);
    es_plan_destroy(training->plan);
    es_optimiser_destroy(training->optimiser);
    es_policy_graph_destroy(&training->graph);
    es_release(training->part_of);
    es_release(training->sum_squares);
    es_release(training->n_nonfinite);
    es_release(training->outputs.logits);
    es_release(training->outputs.value);
    es_release(training->outputs.action_value);
    es_release(training->outputs.auxiliary);
    es_release(training->shards);
    es_release(training);
}

EsStatus es_policy_training_initialise(EsPolicyTraining *training, EsStream *stream,
                                       uint64_t seed) {
    int32_t *episode = training->episode.host;
    for (int64_t g = training->own.first; g < training->own.end; g++) {
        EsRandom4 draw = es_random_draw(seed, (uint32_t)g, ES_PURPOSE_DROPOUT, 0, 0);
        episode[g - training->own.first] = (int32_t)(draw.word[0] & INT32_MAX);
    }
    training->has_rows = training->has_outputs = 0;
    ES_TRY(es_staging_send(&training->episode, stream));
    ES_TRY(es_stream_synchronize(stream));
    return es_optimiser_reset(training->optimiser, stream);
}

// --- rows ---

// Environments of the shards of this rank.
static EsShare own_envs(const EsPolicyNetwork *network) {
    const EsPolicyTraining *training = network->training;
    int64_t N = training->graph.size.n_rows;
    return (EsShare){ES_MIN(training->own.first * N, network->n_envs),
                     ES_MIN(training->own.end * N, network->n_envs)};
}

// Returns the index of rollout row (t, e) among the rows of the shards from `first` on.
static int64_t row_from(const EsPolicyNetwork *network, int64_t first, int64_t t, int64_t e) {
    int64_t N = network->training->graph.size.n_rows;
    return ((e / N - first) * network->n_steps + t) * N + e % N;
}

// The same among those of this rank, for an environment that it has.
static int64_t shard_row(const EsPolicyNetwork *network, int64_t t, int64_t e) {
    return row_from(network, network->training->own.first, t, e);
}

// The first row_bytes of every row, whose starts are pitch_bytes apart.
static void scatter_part(const EsPolicyNetwork *network, const EsStagingTensor *staging,
                         const void *rows, size_t pitch_bytes, size_t row_bytes) {
    EsShare own = own_envs(network);
    for (int64_t t = 0; t < network->n_steps; t++) {
        for (int64_t e = own.first; e < own.end; e++) {
            size_t to = (size_t)shard_row(network, t, e);
            size_t from = (size_t)(t * network->n_envs + e);
            memcpy((char *)staging->host + to * row_bytes, (const char *)rows + from * pitch_bytes,
                   row_bytes);
        }
    }
}

static void scatter(const EsPolicyNetwork *network, const EsStagingTensor *staging,
                    const void *rows, size_t row_bytes) {
    scatter_part(network, staging, rows, row_bytes, row_bytes);
}

// Gives every rank an output of all shards; returns where it is.
static EsStatus gather_shards(const EsPolicyNetwork *network, const EsStagingTensor *staging,
                              size_t row_bytes, const void **shards) {
    const EsPolicyTraining *training = network->training;
    size_t shard_bytes = (size_t)(network->n_steps * training->graph.size.n_rows) * row_bytes;
    *shards = staging->host;
    if (training->shards == NULL) {
        return ES_STATUS_OK;
    }
    EsShare own = es_ranks_own(network->ranks, ES_POLICY_SHARDS);
    memcpy((char *)training->shards + (size_t)own.first * shard_bytes, staging->host,
           (size_t)(own.end - own.first) * shard_bytes);
    EsRankColumn column = {training->shards, shard_bytes};
    *shards = training->shards;
    return es_ranks_gather(network->ranks, "outputs of the policy", ES_POLICY_SHARDS, &column, 1);
}

static EsStatus gather(const EsPolicyNetwork *network, const EsStagingTensor *staging, void *rows,
                       size_t row_bytes) {
    const void *shards = NULL;
    ES_TRY(gather_shards(network, staging, row_bytes, &shards));
    for (int64_t t = 0; t < network->n_steps; t++) {
        for (int64_t e = 0; e < network->n_envs; e++) {
            size_t from = (size_t)row_from(network, 0, t, e);
            size_t to = (size_t)(t * network->n_envs + e);
            memcpy((char *)rows + to * row_bytes, (const char *)shards + from * row_bytes,
                   row_bytes);
        }
    }
    return ES_STATUS_OK;
}

// Gradients with respect to an output; NULL: nothing depends on it.
static EsStatus scatter_gradient(const EsPolicyNetwork *network, const EsStagingTensor *staging,
                                 const float *rows, int64_t width) {
    if (rows != NULL) {
        scatter(network, staging, rows, (size_t)width * sizeof(float));
    } else {
        memset(staging->host, 0, es_tensor_bytes(&staging->tensor));
    }
    return es_staging_send(staging, network->stream);
}

// Rows that were never filled may hold any number: they choose no operation.
static void scatter_ops(const EsPolicyNetwork *network, const EsRollout *rollout) {
    float *one_hot = network->training->op.host;
    int n_heads = rollout->shape.policy.n_heads;
    EsShare own = own_envs(network);
    memset(one_hot, 0, es_tensor_bytes(&network->training->op.tensor));
    for (int64_t t = 0; t < network->n_steps; t++) {
        for (int64_t e = own.first; e < own.end; e++) {
            int op = rollout->action[(t * network->n_envs + e) * n_heads + ES_HEAD_OP];
            if (op >= 0 && op < ES_N_GROWTH_OPS) {
                one_hot[shard_row(network, t, e) * ES_N_GROWTH_OPS + op] = 1.0f;
            }
        }
    }
}

// Observations: whole rows, or the host's part and those of the slots.
static void scatter_features(const EsPolicyNetwork *network, const EsRollout *rollout) {
    const EsPolicyTraining *training = network->training;
    size_t D = (size_t)rollout->shape.n_features, D_host = ES_SET_OBSERVATION_HOST;
    if (!network->spec.is_set) {
        scatter(network, &training->features, rollout->features, D * sizeof(float));
        return;
    }
    scatter_part(network, &training->features, rollout->features, D * sizeof(float),
                 D_host * sizeof(float));
    scatter_part(network, &training->slots, rollout->features + D_host, D * sizeof(float),
                 (D - D_host) * sizeof(float));
}

static EsStatus scatter_choices(const EsPolicyNetwork *network, const EsRollout *rollout) {
    EsPolicyTraining *training = network->training;
    if (!network->spec.is_set) {
        return ES_STATUS_OK;
    }
    EsPolicyRowInputs inputs = {.is_set = 1,
                                .n_slots = network->spec.n_slots,
                                .slot = training->slot.host,
                                .share = training->share.host,
                                .blueprints = training->blueprints.host};
    for (int head = 0; head < ES_N_HEADS; head++) {
        inputs.variant[head] = training->variant[head].host;
    }
    EsShare own = own_envs(network);
    for (int64_t t = 0; t < network->n_steps; t++) {
        for (int64_t e = own.first; e < own.end; e++) {
            int64_t row = t * network->n_envs + e, to = shard_row(network, t, e);
            const int16_t *action = rollout->action + row * ES_N_HEADS;
            es_policy_set_choice(&inputs, to, action[ES_HEAD_OP], action[ES_HEAD_SLOT]);
            es_policy_set_shares(&inputs, to, rollout->ids + row * rollout->shape.n_ids);
        }
    }
    ES_TRY(es_staging_send(&training->slots, network->stream));
    ES_TRY(es_staging_send(&training->slot, network->stream));
    ES_TRY(es_staging_send(&training->share, network->stream));
    for (int head = 0; head < ES_N_HEADS; head++) {
        ES_TRY(es_staging_send(&training->variant[head], network->stream));
    }
    return ES_STATUS_OK;
}

// --- EsPpoModel ---

EsStatus es_policy_training_check_rollout(const EsPolicyNetwork *network,
                                          const EsRolloutShape *shape) {
    const struct {
        const char *name;
        int64_t given, wanted;
    } sizes[] = {
        {"steps", shape->n_steps, network->n_steps},
        {"environments", shape->n_envs, network->n_envs},
        {"features", shape->n_features, es_policy_spec_observed(&network->spec)},
        {"ids", shape->n_ids, network->spec.n_slots},
        {"targets", shape->n_targets, network->spec.n_slots},
        {"heads", shape->policy.n_heads, network->shape.n_heads},
        {"logits", shape->policy.n_logits, network->shape.n_logits},
    };
    for (size_t i = 0; i < ES_COUNT_OF(sizes); i++) {
        if (sizes[i].given != sizes[i].wanted) {
            return ES_FAIL(ARGUMENT,
                           "the rollout has %lld %s, the policy network was made for %lld",
                           (long long)sizes[i].given, sizes[i].name, (long long)sizes[i].wanted);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus begin(void *context, const EsRollout *rollout) {
    EsPolicyNetwork *network = context;
    EsPolicyTraining *training = network->training;
    ES_ASSERT(rollout->on_device == NULL);
    ES_TRY(es_policy_training_check_rollout(network, &rollout->shape));
    training->has_rows = training->has_outputs = 0;
    scatter_features(network, rollout);
    scatter(network, &training->blueprints, rollout->ids,
            (size_t)rollout->shape.n_ids * sizeof *rollout->ids);
    scatter(network, &training->reset, rollout->is_reset, sizeof *rollout->is_reset);
    scatter_ops(network, rollout);
    ES_TRY(scatter_choices(network, rollout));
    const EsStagingTensor *const staged_tensors[] = {&training->features, &training->blueprints,
                                                     &training->reset, &training->op};
    for (size_t i = 0; i < ES_COUNT_OF(staged_tensors); i++) {
        ES_TRY(es_staging_send(staged_tensors[i], network->stream));
    }
    ES_TRY(es_stream_synchronize(network->stream));
    training->has_rows = 1;
    return ES_STATUS_OK;
}

EsStatus es_policy_training_queue_forward(EsPolicyNetwork *network, uint32_t pass) {
    EsPolicyTraining *training = network->training;
    if (!training->has_rows) {
        return ES_FAIL(ARGUMENT,
                       "the policy network has no rollout to run over: begin comes first");
    }
    *(int32_t *)training->pass.host = (int32_t)(pass & INT32_MAX);
    ES_TRY(es_staging_send(&training->pass, network->stream));
    return es_plan_run_forward(training->plan, network->stream);
}

EsStatus es_policy_training_take_outputs(EsPolicyTraining *training) {
    if (!training->has_outputs) {
        return ES_FAIL(ARGUMENT, "a step of the policy network needs a forward pass of its own");
    }
    training->has_outputs = 0;
    return ES_STATUS_OK;
}

static EsStatus forward(void *context, uint32_t pass, EsOutputs *outputs) {
    EsPolicyNetwork *network = context;
    EsPolicyTraining *training = network->training;
    EsStream *stream = network->stream;
    ES_TRY(es_policy_training_queue_forward(network, pass));
    const EsStagingTensor *const staged_tensors[] = {
        &training->logits, &training->value, &training->action_value, &training->contribution};
    for (size_t i = 0; i < ES_COUNT_OF(staged_tensors); i++) {
        ES_TRY(es_staging_fetch(staged_tensors[i], stream));
    }
    ES_TRY(es_stream_synchronize(stream));
    const EsOutputs *own = &training->outputs;
    ES_TRY(gather(network, &training->logits, own->logits,
                  (size_t)network->shape.n_logits * sizeof(float)));
    ES_TRY(gather(network, &training->value, own->value, sizeof(float)));
    ES_TRY(gather(network, &training->action_value, own->action_value, sizeof(float)));
    ES_TRY(gather(network, &training->contribution, own->auxiliary,
                  (size_t)network->spec.n_slots * sizeof(float)));
    training->has_outputs = 1;
    *outputs = *own;
    return ES_STATUS_OK;
}

// Gives every rank the gradients of all shards, and steps: the optimiser sums them in its tree. The
// plan leaves those of this rank in the first rows.
static EsStatus step_shared(EsPolicyNetwork *network) {
    const EsTensor *gradients = &network->store->gradients;
    EsShare own = es_ranks_own(network->ranks, ES_POLICY_SHARDS);
    size_t row_bytes = es_tensor_bytes(gradients) / ES_POLICY_SHARDS;
    char *rows = gradients->data;
    memmove(rows + (size_t)own.first * row_bytes, rows, (size_t)(own.end - own.first) * row_bytes);
    EsRankColumn column = {rows, row_bytes};
    ES_TRY(
        es_ranks_gather(network->ranks, "gradients of the policy", ES_POLICY_SHARDS, &column, 1));
    es_optimiser_step(network->training->optimiser, network->stream);
    return ES_STATUS_OK;
}

static EsStatus step(void *context, const EsOutputs *gradients, float learning_rate, float max_norm,
                     EsStepReport *report) {
    EsPolicyNetwork *network = context;
    EsPolicyTraining *training = network->training;
    EsStream *stream = network->stream;
    ES_TRY(es_policy_training_take_outputs(training));
    ES_TRY(
        scatter_gradient(network, &training->d_logits, gradients->logits, network->shape.n_logits));
    ES_TRY(scatter_gradient(network, &training->d_value, gradients->value, 1));
    ES_TRY(scatter_gradient(network, &training->d_action_value, gradients->action_value, 1));
    ES_TRY(scatter_gradient(network, &training->d_contribution, gradients->auxiliary,
                            network->spec.n_slots));
    ES_TRY(es_optimiser_set_rates(training->optimiser, stream, &learning_rate, NULL, NULL));
    ES_TRY(es_optimiser_set_clip(training->optimiser, stream, max_norm));
    ES_TRY(es_plan_run_backward(training->plan, stream));
    ES_TRY(training->shards != NULL ? step_shared(network) : ES_STATUS_OK);
    ES_TRY(es_optimiser_read_norms(training->optimiser, stream, NULL, training->sum_squares,
                                   training->n_nonfinite));
    es_policy_fill_report(training->n_tensors, training->part_of, training->sum_squares,
                          training->n_nonfinite, report);
    return ES_STATUS_OK;
}

EsPpoModel es_policy_training_model(EsPolicyNetwork *network) {
    ES_ASSERT(network->training != NULL);
    return (EsPpoModel){.context = network,
                        .begin = begin,
                        .forward = forward,
                        .step = step,
                        .on_device = is_on_cuda(network) ? &network->training->on_device : NULL};
}

// --- rounds ---

EsStatus es_policy_training_record(EsPolicy *policy, const EsGrowthState *state,
                                   const float *rewards, float rollback_penalty) {
    EsLearned *learned = &policy->learned;
    EsRollout *rollout = learned->rollout;
    ES_ASSERT(rollout != NULL);
    if (learned->is_elsewhere) {
        return ES_STATUS_OK;
    }
    ES_ASSERT(learned->is_decided);
    EsRolloutView view = es_rollout_view(rollout);
    for (int64_t e = 0; e < state->n_envs; e++) {
        es_decision_record(&view, learned->t, e, state, policy->context.settings->episode_steps,
                           rewards[e], rollback_penalty);
    }
    learned->t++;
    learned->is_decided = 0;
    return ES_STATUS_OK;
}

// The last step's to rows that are on a device; the stream is that of the update.
static EsStatus send_bootstrap(const EsLearned *learned) {
    const EsRollout *rollout = learned->rollout;
    int64_t row = es_rollout_row(rollout, learned->t - 1, 0);
    return es_stream_copy(es_policy_network_stream(learned->network),
                          rollout->on_device->bootstrap + row, rollout->bootstrap + row,
                          (size_t)rollout->shape.n_envs * sizeof *rollout->bootstrap,
                          ES_COPY_TO_DEVICE);
}

// Values of the states after the last step, for rows that may go on there.
static EsStatus bootstrap(EsPolicy *policy, const EsGrowthState *state) {
    EsLearned *learned = &policy->learned;
    EsRollout *rollout = learned->rollout;
    EsOutputs outputs;
    // peeked at, not counted: the observation of this state is no row
    float *raw = learned->normalised;
    es_learned_observe(policy, state, raw, learned->normalised, learned->blueprints);
    ES_TRY(es_policy_inference_act(learned->network, learned->normalised, learned->blueprints, 1,
                                   &outputs));
    for (int64_t e = 0; e < state->n_envs; e++) {
        int64_t row = es_rollout_row(rollout, learned->t - 1, e);
        if (rollout->is_valid[row]) {
            rollout->bootstrap[row] = outputs.value[e];
        }
    }
    return rollout->on_device != NULL ? send_bootstrap(learned) : ES_STATUS_OK;
}

// Copies row `from` of an actor to row `to`. Slots that the actor's host lacks are copies of its
// first one, without targets; no mask allows them.
static void collect_row(const EsRollout *rows, int64_t to, const EsRollout *actor, int64_t from) {
#define X(type, name, count, meaning)                                                              \
    {                                                                                              \
        const EsRolloutShape *S = &rows->shape;                                                    \
        type *into = rows->name + to * (count);                                                    \
        S = &actor->shape; /* whose count this is from here on */                                  \
        (void)S;                                                                                   \
        memcpy(into, actor->name + from * (count), sizeof(type) * (size_t)(count));                \
    }
    ES_ROLLOUT_SEEN_COLUMNS(X)
    ES_ROLLOUT_CHOSEN_COLUMNS(X)
    ES_ROLLOUT_PAID_COLUMNS(X)
#undef X
    float *slots = rows->features + to * rows->shape.n_features + ES_SET_OBSERVATION_HOST;
    int32_t *ids = rows->ids + to * rows->shape.n_ids;
    for (int64_t s = actor->shape.n_ids; s < rows->shape.n_ids; s++) {
        memcpy(slots + s * ES_SET_OBSERVATION_SLOT, slots, sizeof(float) * ES_SET_OBSERVATION_SLOT);
        ids[s] = ES_POLICY_ABSENT;
    }
}

// Takes a number off the reward of the last row of an environment that counts, if there is one.
static void lower_last_reward(const EsRollout *rows, int64_t env, double baseline) {
    for (int64_t t = rows->shape.n_steps - 1; t >= 0; t--) {
        int64_t row = es_rollout_row(rows, t, env);
        if (rows->is_valid[row]) {
            rows->reward[row] -= (float)baseline;
            return;
        }
    }
}

EsStatus es_policy_training_collect(EsPolicy *learner, EsPolicy *actor, const EsGrowthState *state,
                                    const double *baseline, int64_t first_env, int64_t n_envs) {
    EsRollout *rows = learner->learned.rollout, *own = actor->learned.rollout;
    ES_ASSERT(rows != NULL && own != NULL && !actor->learned.is_decided);
    ES_ASSERT(rows->on_device == NULL && own->on_device == NULL);
    ES_ASSERT(es_policy_network_spec(actor->learned.network)->is_set);
    ES_ASSERT(own->shape.n_steps <= rows->shape.n_steps && own->shape.n_ids <= rows->shape.n_ids);
    ES_ASSERT(n_envs <= own->shape.n_envs && first_env + n_envs <= rows->shape.n_envs);
    ES_TRY(bootstrap(actor, state));
    for (int64_t t = 0; t < actor->learned.t; t++) {
        for (int64_t e = 0; e < n_envs; e++) {
            collect_row(rows, es_rollout_row(rows, t, first_env + e), own,
                        es_rollout_row(own, t, e));
        }
    }
    for (int64_t e = 0; baseline != NULL && e < n_envs; e++) {
        lower_last_reward(rows, first_env + e, baseline[e]);
    }
    learner->learned.t = rows->shape.n_steps;
    return ES_STATUS_OK;
}

EsStatus es_policy_training_update(EsPolicy *policy, const EsGrowthState *state,
                                   EsPpoReport *report) {
    EsLearned *learned = &policy->learned;
    ES_ASSERT(learned->rollout != NULL && learned->t > 0 && !learned->is_decided);
    EsPpoModel model = es_policy_training_model(learned->network);
    if (state != NULL) {
        ES_TRY(bootstrap(policy, state));
    }
    ES_TRY(es_ppo_update(learned->ppo, learned->rollout, &model, report));
    if (learned->features.n_features > 0) {
        es_feature_normaliser_merge(&learned->features, learned->rollout->n_rows, learned->raw,
                                    learned->rollout->is_valid);
    }
    return ES_STATUS_OK;
}

// --- the file that training goes on from ---

// One list of tensors serves saving and loading: weights and moments by name, normalisers,
// counters. Loading checks everything before it changes anything.

#define FORMAT "esper.policy.training.1"

enum { SLAB_PARAMETERS, SLAB_MOMENT1, SLAB_MOMENT2, N_SLABS };
enum { N_FIXED = 7 }; // tensors beside those of the slabs
enum { COUNTER_UPDATES, COUNTER_PASSES, COUNTER_SKIPPED, COUNTER_MERGED, N_COUNTERS };

typedef char TensorName[ES_NAME_BYTES + 24];

// The state in CPU memory, and the list of its tensors as they stand in the file.
typedef struct TrainingState {
    EsTensor device[N_SLABS]; // borrowed [1, P]
    EsTensor device_steps;    // borrowed [1]: Adam's step
    float *slab[N_SLABS];     // owned
    double *mean, *variance;  // owned [D]
    int64_t n_features;       // 0 where nothing is normalised
    int32_t n_steps;
    int64_t counters[N_COUNTERS];
    double rewards[3], values[3]; // mean, variance, samples
    EsNamedTensor *tensors;       // owned; views of the above
    TensorName *names;            // owned
    int count;
} TrainingState;

static void list_tensor(TrainingState *state, const char *prefix, const char *name, void *data,
                        EsDtype dtype, int rank, const int64_t *dims) {
    int i = state->count++;
    snprintf(state->names[i], sizeof state->names[i], "policy.%s%s", prefix, name);
    state->tensors[i] =
        (EsNamedTensor){state->names[i], es_tensor_view(data, dtype, NULL, rank, dims)};
}

static void list_all(TrainingState *state, const EsGraph *graph) {
    static const char *const prefix[N_SLABS] = {"", "moment1.", "moment2."};
    const int64_t one = 1, three = 3, n_counters = N_COUNTERS;
    for (int i = 0; i < N_SLABS; i++) {
        for (int v = 0; v < graph->n_values; v++) {
            const EsValue *value = &graph->values[v];
            if (value->role == ES_ROLE_PARAMETER) {
                list_tensor(state, prefix[i], value->name, state->slab[i] + value->slab_offset,
                            ES_DTYPE_F32, value->rank, value->dim);
            }
        }
    }
    list_tensor(state, "", "n_steps", &state->n_steps, ES_DTYPE_I32, 1, &one);
    if (state->n_features > 0) {
        list_tensor(state, "", "features.mean", state->mean, ES_DTYPE_F64, 1, &state->n_features);
        list_tensor(state, "", "features.variance", state->variance, ES_DTYPE_F64, 1,
                    &state->n_features);
    }
    list_tensor(state, "", "reward_scale", state->rewards, ES_DTYPE_F64, 1, &three);
    list_tensor(state, "", "value_scale", state->values, ES_DTYPE_F64, 1, &three);
    list_tensor(state, "", "counters", state->counters, ES_DTYPE_I64, 1, &n_counters);
}

static EsStatus create_state(const EsLearned *learned, TrainingState *state) {
    const EsGraph *graph = es_policy_network_graph(learned->network);
    const EsOptimiser *optimiser = es_policy_network_optimiser(learned->network);
    *state = (TrainingState){.n_features = learned->features.n_features};
    state->device[SLAB_PARAMETERS] = es_policy_network_store(learned->network)->parameters;
    state->device[SLAB_MOMENT1] = optimiser->moment1;
    state->device[SLAB_MOMENT2] = optimiser->moment2;
    state->device_steps = optimiser->n_steps;
    size_t most = (size_t)graph->n_values * N_SLABS + N_FIXED;
    size_t row_bytes = sizeof(double) * (size_t)state->n_features;
    for (int i = 0; i < N_SLABS; i++) {
        // one network: the values of a slab's only row are contiguous
        ES_ASSERT(state->device[i].rank == 2 && state->device[i].dim[0] == 1);
        ES_TRY(es_allocate(es_tensor_bytes(&state->device[i]), (void **)&state->slab[i]));
    }
    ES_TRY(es_allocate(row_bytes, (void **)&state->mean));
    ES_TRY(es_allocate(row_bytes, (void **)&state->variance));
    ES_TRY(es_allocate(sizeof *state->tensors * most, (void **)&state->tensors));
    ES_TRY(es_allocate(sizeof *state->names * most, (void **)&state->names));
    list_all(state, graph);
    ES_ASSERT((size_t)state->count <= most);
    return ES_STATUS_OK;
}

static void destroy_state(TrainingState *state) {
    for (int i = 0; i < N_SLABS; i++) {
        es_release(state->slab[i]);
    }
    es_release(state->mean);
    es_release(state->variance);
    es_release(state->tensors);
    es_release(state->names);
}

// --- between the file and the policy ---

static void scale_to_numbers(const EsScaleNormaliser *scale, double *numbers) {
    numbers[0] = scale->mean;
    numbers[1] = scale->variance;
    numbers[2] = scale->n_samples;
}

static EsScaleNormaliser scale_from_numbers(const double *numbers) {
    return (EsScaleNormaliser){.mean = numbers[0], .variance = numbers[1], .n_samples = numbers[2]};
}

static EsPpoState ppo_state_of(const TrainingState *state) {
    return (EsPpoState){.rewards = scale_from_numbers(state->rewards),
                        .values = scale_from_numbers(state->values),
                        .n_updates = state->counters[COUNTER_UPDATES],
                        .n_passes = state->counters[COUNTER_PASSES],
                        .n_skipped = state->counters[COUNTER_SKIPPED]};
}

static EsStatus fetch_state(const EsLearned *learned, TrainingState *state) {
    EsStream *stream = es_policy_network_stream(learned->network);
    const EsPpoState *ppo = es_ppo_state(learned->ppo);
    size_t row_bytes = sizeof(double) * (size_t)state->n_features;
    for (int i = 0; i < N_SLABS; i++) {
        ES_TRY(es_stream_copy(stream, state->slab[i], state->device[i].data,
                              es_tensor_bytes(&state->device[i]), ES_COPY_TO_HOST));
    }
    ES_TRY(es_stream_copy(stream, &state->n_steps, state->device_steps.data, sizeof state->n_steps,
                          ES_COPY_TO_HOST));
    ES_TRY(es_stream_synchronize(stream));
    if (state->n_features > 0) {
        memcpy(state->mean, learned->features.mean, row_bytes);
        memcpy(state->variance, learned->features.variance, row_bytes);
    }
    scale_to_numbers(&ppo->rewards, state->rewards);
    scale_to_numbers(&ppo->values, state->values);
    state->counters[COUNTER_UPDATES] = ppo->n_updates;
    state->counters[COUNTER_PASSES] = ppo->n_passes;
    state->counters[COUNTER_SKIPPED] = ppo->n_skipped;
    state->counters[COUNTER_MERGED] = learned->features.n_merged;
    return ES_STATUS_OK;
}

static EsStatus store_state(EsLearned *learned, const TrainingState *state) {
    EsStream *stream = es_policy_network_stream(learned->network);
    size_t row_bytes = sizeof(double) * (size_t)state->n_features;
    for (int i = 0; i < N_SLABS; i++) {
        ES_TRY(es_stream_copy(stream, state->device[i].data, state->slab[i],
                              es_tensor_bytes(&state->device[i]), ES_COPY_TO_DEVICE));
    }
    ES_TRY(es_stream_copy(stream, state->device_steps.data, &state->n_steps, sizeof state->n_steps,
                          ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_synchronize(stream));
    if (state->n_features > 0) {
        memcpy(learned->features.mean, state->mean, row_bytes);
        memcpy(learned->features.variance, state->variance, row_bytes);
    }
    *es_ppo_state(learned->ppo) = ppo_state_of(state);
    learned->features.n_merged = state->counters[COUNTER_MERGED];
    return ES_STATUS_OK;
}

// --- saving and loading ---

static EsStatus read_tensors(const EsSafetensors *file, const char *path, TrainingState *state) {
    for (int i = 0; i < state->count; i++) {
        const EsNamedTensor *wanted = &state->tensors[i];
        EsTensor view;
        ES_TRY(es_safetensors_find(file, wanted->name, &view));
        if (view.dtype != wanted->tensor.dtype || !es_tensor_same_shape(&view, &wanted->tensor)) {
            char found[96], expected[96];
            return ES_FAIL(INPUT, "%s: \"%s\" is %s, this policy needs %s", path, wanted->name,
                           es_tensor_describe(&view, found, sizeof found),
                           es_tensor_describe(&wanted->tensor, expected, sizeof expected));
        }
        memcpy(wanted->tensor.data, view.data, es_tensor_bytes(&wanted->tensor));
    }
    return ES_STATUS_OK;
}

// All weights and moments are finite; squares and variances are not negative. `policy.counters` are
// checked as the state of PPO.
static EsStatus check_floats(const char *path, const EsNamedTensor *named) {
    const EsTensor *tensor = &named->tensor;
    int64_t count = es_tensor_count(tensor);
    const char *name = named->name + strlen("policy.");
    int is_square = strncmp(name, "moment2.", 8) == 0 || strcmp(name, "features.variance") == 0;
    for (int64_t i = 0; i < count; i++) {
        double number = tensor->dtype == ES_DTYPE_F32 ? (double)((const float *)tensor->data)[i]
                                                      : ((const double *)tensor->data)[i];
        ES_TRY(es_check_real((EsFileField){path, named->name, i}, number, is_square ? 0 : -DBL_MAX,
                             DBL_MAX));
    }
    return ES_STATUS_OK;
}

// Numbers that training could not go on with.
static EsStatus check_numbers(const char *path, const TrainingState *state) {
    for (int i = 0; i < state->count; i++) {
        EsDtype dtype = state->tensors[i].tensor.dtype;
        if (dtype == ES_DTYPE_F32 || dtype == ES_DTYPE_F64) {
            ES_TRY(check_floats(path, &state->tensors[i]));
        }
    }
    EsPpoState ppo = ppo_state_of(state);
    ES_TRY(es_ppo_state_check(&ppo, path));
    ES_TRY(es_check_counter((EsFileField){path, "rounds in the normaliser", ES_NO_INDEX},
                            state->counters[COUNTER_MERGED]));
    return es_check_integer((EsFileField){path, "policy.n_steps", ES_NO_INDEX}, state->n_steps, 0,
                            ES_OPTIMISER_STEPS_MAX);
}

EsStatus es_policy_training_save(const EsPolicy *policy, const char *path) {
    const EsMetadata metadata[] = {{"format", FORMAT}};
    ES_ASSERT(policy->learned.rollout != NULL);
    TrainingState state;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_state(&policy->learned, &state));
    ES_TRY_GOTO(fetch_state(&policy->learned, &state));
    ES_TRY_GOTO(es_safetensors_save(path, state.tensors, state.count, metadata,
                                    (int)ES_COUNT_OF(metadata)));
done:
    destroy_state(&state);
    return status;
}

EsStatus es_policy_training_load(EsPolicy *policy, const char *path) {
    EsSafetensors *file = NULL;
    ES_ASSERT(policy->learned.rollout != NULL);
    TrainingState state;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_state(&policy->learned, &state));
    ES_TRY_GOTO(es_safetensors_open(path, &file));
    const char *format = es_safetensors_metadata(file, "format");
    if (format == NULL || strcmp(format, FORMAT) != 0) {
        status = ES_FAIL(INPUT, "%s: its format is %s, not " FORMAT, path,
                         format != NULL ? format : "not said");
        goto done;
    }
    ES_TRY_GOTO(read_tensors(file, path, &state));
    ES_TRY_GOTO(check_numbers(path, &state));
    ES_TRY_GOTO(store_state(&policy->learned, &state));
done:
    es_safetensors_close(file);
    destroy_state(&state);
    return status;
}

// Adam's count of steps follows from the counters.
EsStatus es_policy_training_append_state(const EsPolicy *policy, EsStateHash *hash) {
    const EsLearned *learned = &policy->learned;
    if (learned->rollout == NULL) {
        return ES_STATUS_OK;
    }
    EsStream *stream = es_policy_network_stream(learned->network);
    const EsOptimiser *optimiser = es_policy_network_optimiser(learned->network);
    const EsTensor *const slabs[] = {&es_policy_network_store(learned->network)->parameters,
                                     &optimiser->moment1, &optimiser->moment2};
    for (size_t i = 0; i < ES_COUNT_OF(slabs); i++) {
        ES_TRY(es_state_hash_append(hash, stream, slabs[i]));
    }
    const EsPpoState *ppo = es_ppo_state(learned->ppo);
    size_t row_bytes = sizeof(double) * (size_t)learned->features.n_features;
    const int64_t counters[N_COUNTERS] = {ppo->n_updates, ppo->n_passes, ppo->n_skipped,
                                          learned->features.n_merged};
    double scales[6];
    scale_to_numbers(&ppo->rewards, scales);
    scale_to_numbers(&ppo->values, scales + 3);
    if (row_bytes > 0) {
        es_state_hash_append_bytes(hash, learned->features.mean, row_bytes);
        es_state_hash_append_bytes(hash, learned->features.variance, row_bytes);
    }
    es_state_hash_append_bytes(hash, scales, sizeof scales);
    es_state_hash_append_bytes(hash, counters, sizeof counters);
    return ES_STATUS_OK;
}
