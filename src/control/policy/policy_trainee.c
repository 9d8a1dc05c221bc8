// A policy network in training: rows of a rollout to shards and back, gradients, optimiser.
//
// G shards, T steps, E environments, N of a shard.
#include <string.h>

#include "base/memory.h"
#include "base/random_rules.h"
#include "control/policy/policy_network_internal.h"
#include "control/policy/policy_report_rules.h"

// as published
#define ADAM_EPSILON 1e-5f

// --- life ---

static int is_on_cuda(const EsPolicyNetwork *network) {
    return es_device_info(network->device)->kind == ES_DEVICE_CUDA;
}

static EsStatus open_ports(EsPolicyNetwork *network, EsPolicyTraining *training) {
    const EsPolicyGraph *p = &training->graph;
    const struct {
        EsPort *port;
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
        ES_TRY(es_port_open_input(inputs[i].port, network->device, training->plan, p->graph,
                                  inputs[i].value));
    }
    for (size_t i = 0; i < ES_COUNT_OF(outputs); i++) {
        ES_TRY(
            es_port_open_view(outputs[i].port, es_plan_tensor(training->plan, outputs[i].value)));
    }
    return ES_STATUS_OK;
}

static EsStatus open_optimiser(EsPolicyNetwork *network, EsPolicyTraining *training) {
    EsOptimiserOptions options = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    options.epsilon = ADAM_EPSILON;
    options.measures = 1; // each step says what to clip to
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
    EsPolicyGraphSize size = {
        .is_training = 1,
        .n_shards = ES_POLICY_SHARDS,
        .n_steps = network->n_steps,
        .n_rows = (network->n_envs + ES_POLICY_SHARDS - 1) / ES_POLICY_SHARDS,
    };
    ES_TRY(es_policy_graph_create(&network->spec, size, &training->graph));
    ES_TRY(open_optimiser(network, training));
    EsPlanOptions options = es_plan_defaults();
    options.optimiser = training->optimiser;
    ES_TRY(es_plan_create(training->graph.graph, network->store, &options, &training->plan));
    ES_TRY(open_ports(network, training));
    ES_TRY(allocate_outputs(network, &training->outputs));
    return is_on_cuda(network) ? es_policy_open_device_form(network) : ES_STATUS_OK;
}

void es_policy_training_destroy(EsPolicyTraining *training) {
    if (training == NULL) {
        return;
    }
    EsPort *const ports[] = {&training->features,       &training->blueprints,
                             &training->reset,          &training->op,
                             &training->episode,        &training->pass,
                             &training->d_logits,       &training->d_value,
                             &training->d_action_value, &training->d_contribution,
                             &training->logits,         &training->value,
                             &training->action_value,   &training->contribution};
    for (size_t i = 0; i < ES_COUNT_OF(ports); i++) {
        es_port_close(ports[i]);
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
    es_release(training);
}

EsStatus es_policy_training_initialise(EsPolicyTraining *training, EsStream *stream,
                                       uint64_t seed) {
    int32_t *episode = training->episode.host;
    for (uint32_t g = 0; g < ES_POLICY_SHARDS; g++) {
        EsRandom4 draw = es_random_draw(seed, g, ES_PURPOSE_DROPOUT, 0, 0);
        episode[g] = (int32_t)(draw.word[0] & INT32_MAX);
    }
    training->has_rows = training->has_outputs = 0;
    ES_TRY(es_port_send(&training->episode, stream));
    ES_TRY(es_stream_synchronize(stream));
    return es_optimiser_reset(training->optimiser, stream);
}

// --- rows ---

// Where row (t, e) of a rollout stands among the rows of the shards.
static int64_t shard_row(const EsPolicyNetwork *network, int64_t t, int64_t e) {
    int64_t N = network->training->graph.size.n_rows;
    return (e / N * network->n_steps + t) * N + e % N;
}

static void scatter(const EsPolicyNetwork *network, const EsPort *port, const void *rows,
                    size_t row_bytes) {
    for (int64_t t = 0; t < network->n_steps; t++) {
        for (int64_t e = 0; e < network->n_envs; e++) {
            size_t to = (size_t)shard_row(network, t, e);
            size_t from = (size_t)(t * network->n_envs + e);
            memcpy((char *)port->host + to * row_bytes, (const char *)rows + from * row_bytes,
                   row_bytes);
        }
    }
}

static void gather(const EsPolicyNetwork *network, const EsPort *port, void *rows,
                   size_t row_bytes) {
    for (int64_t t = 0; t < network->n_steps; t++) {
        for (int64_t e = 0; e < network->n_envs; e++) {
            size_t from = (size_t)shard_row(network, t, e);
            size_t to = (size_t)(t * network->n_envs + e);
            memcpy((char *)rows + to * row_bytes, (const char *)port->host + from * row_bytes,
                   row_bytes);
        }
    }
}

// Gradients with respect to an output; NULL: nothing depends on it.
static EsStatus scatter_gradient(const EsPolicyNetwork *network, const EsPort *port,
                                 const float *rows, int64_t width) {
    if (rows != NULL) {
        scatter(network, port, rows, (size_t)width * sizeof(float));
    } else {
        memset(port->host, 0, es_tensor_bytes(&port->tensor));
    }
    return es_port_send(port, network->stream);
}

// Rows that were never filled may hold any number: they choose no operation.
static void scatter_ops(const EsPolicyNetwork *network, const EsRollout *rollout) {
    float *one_hot = network->training->op.host;
    int n_heads = rollout->shape.policy.n_heads;
    memset(one_hot, 0, es_tensor_bytes(&network->training->op.tensor));
    for (int64_t t = 0; t < network->n_steps; t++) {
        for (int64_t e = 0; e < network->n_envs; e++) {
            int op = rollout->action[(t * network->n_envs + e) * n_heads + ES_HEAD_OP];
            if (op >= 0 && op < ES_N_GROWTH_OPS) {
                one_hot[shard_row(network, t, e) * ES_N_GROWTH_OPS + op] = 1.0f;
            }
        }
    }
}

// --- EsTrainee ---

EsStatus es_policy_check_rollout(const EsPolicyNetwork *network, const EsRolloutShape *shape) {
    const struct {
        const char *name;
        int64_t given, wanted;
    } sizes[] = {
        {"steps", shape->n_steps, network->n_steps},
        {"environments", shape->n_envs, network->n_envs},
        {"features", shape->n_features, es_observation_size(network->spec.n_slots)},
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
    ES_TRY(es_policy_check_rollout(network, &rollout->shape));
    training->has_rows = training->has_outputs = 0;
    scatter(network, &training->features, rollout->features,
            (size_t)rollout->shape.n_features * sizeof *rollout->features);
    scatter(network, &training->blueprints, rollout->ids,
            (size_t)rollout->shape.n_ids * sizeof *rollout->ids);
    scatter(network, &training->reset, rollout->is_reset, sizeof *rollout->is_reset);
    scatter_ops(network, rollout);
    const EsPort *const ports[] = {&training->features, &training->blueprints, &training->reset,
                                   &training->op};
    for (size_t i = 0; i < ES_COUNT_OF(ports); i++) {
        ES_TRY(es_port_send(ports[i], network->stream));
    }
    ES_TRY(es_stream_synchronize(network->stream));
    training->has_rows = 1;
    return ES_STATUS_OK;
}

EsStatus es_policy_queue_forward(EsPolicyNetwork *network, uint32_t pass) {
    EsPolicyTraining *training = network->training;
    if (!training->has_rows) {
        return ES_FAIL(ARGUMENT,
                       "the policy network has no rollout to run over: begin comes first");
    }
    *(int32_t *)training->pass.host = (int32_t)(pass & INT32_MAX);
    ES_TRY(es_port_send(&training->pass, network->stream));
    return es_plan_run_forward(training->plan, network->stream);
}

EsStatus es_policy_take_outputs(EsPolicyTraining *training) {
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
    ES_TRY(es_policy_queue_forward(network, pass));
    const EsPort *const ports[] = {&training->logits, &training->value, &training->action_value,
                                   &training->contribution};
    for (size_t i = 0; i < ES_COUNT_OF(ports); i++) {
        ES_TRY(es_port_fetch(ports[i], stream));
    }
    ES_TRY(es_stream_synchronize(stream));
    const EsOutputs *own = &training->outputs;
    gather(network, &training->logits, own->logits,
           (size_t)network->shape.n_logits * sizeof(float));
    gather(network, &training->value, own->value, sizeof(float));
    gather(network, &training->action_value, own->action_value, sizeof(float));
    gather(network, &training->contribution, own->auxiliary,
           (size_t)network->spec.n_slots * sizeof(float));
    training->has_outputs = 1;
    *outputs = *own;
    return ES_STATUS_OK;
}

static EsStatus step(void *context, const EsOutputs *gradients, float rate, float max_norm,
                     EsStepReport *report) {
    EsPolicyNetwork *network = context;
    EsPolicyTraining *training = network->training;
    EsStream *stream = network->stream;
    ES_TRY(es_policy_take_outputs(training));
    ES_TRY(
        scatter_gradient(network, &training->d_logits, gradients->logits, network->shape.n_logits));
    ES_TRY(scatter_gradient(network, &training->d_value, gradients->value, 1));
    ES_TRY(scatter_gradient(network, &training->d_action_value, gradients->action_value, 1));
    ES_TRY(scatter_gradient(network, &training->d_contribution, gradients->auxiliary,
                            network->spec.n_slots));
    ES_TRY(es_optimiser_set_rates(training->optimiser, stream, &rate, NULL, NULL));
    ES_TRY(es_optimiser_set_clip(training->optimiser, stream, max_norm));
    ES_TRY(es_plan_run_backward(training->plan, stream));
    ES_TRY(es_optimiser_read_norms(training->optimiser, stream, NULL, training->sum_squares,
                                   training->n_nonfinite));
    es_policy_fill_report(training->n_tensors, training->part_of, training->sum_squares,
                          training->n_nonfinite, report);
    return ES_STATUS_OK;
}

EsTrainee es_policy_network_trainee(EsPolicyNetwork *network) {
    ES_ASSERT(network->training != NULL);
    return (EsTrainee){.context = network,
                       .begin = begin,
                       .forward = forward,
                       .step = step,
                       .on_device = is_on_cuda(network) ? &network->training->on_device : NULL};
}
