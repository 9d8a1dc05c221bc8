// A policy network in training whose rows stay in device memory.
#include "control/policy/policy_network_internal.h"
#include "control/policy/policy_training_internal.h"

static EsPolicyRowInputs inputs_of(const EsPolicyNetwork *network) {
    const EsPolicyTraining *training = network->training;
    EsPolicyRowInputs inputs = {.features = training->features.tensor.data,
                                .blueprints = training->blueprints.tensor.data,
                                .is_reset = training->reset.tensor.data,
                                .op = training->op.tensor.data,
                                .is_set = network->spec.is_set,
                                .n_slots = network->spec.n_slots,
                                .slots = training->slots.tensor.data,
                                .slot = training->slot.tensor.data,
                                .share = training->share.tensor.data};
    for (int head = 0; head < ES_N_HEADS; head++) {
        inputs.variant[head] = training->variant[head].tensor.data;
    }
    return inputs;
}

static EsStatus begin(void *context, const EsRolloutView *rows, float learning_rate,
                      float max_norm) {
    EsPolicyNetwork *network = context;
    EsPolicyTraining *training = network->training;
    ES_TRY(es_policy_training_check_rollout(network, &rows->shape));
    training->has_rows = training->has_outputs = 0;
    EsPolicyRowInputs inputs = inputs_of(network);
    es_policy_scatter_cuda(network->stream, rows, training->on_device.shard_envs, &inputs);
    ES_TRY(
        es_optimiser_set_rates(training->optimiser, network->stream, &learning_rate, NULL, NULL));
    ES_TRY(es_optimiser_set_clip(training->optimiser, network->stream, max_norm));
    training->has_rows = 1;
    return ES_STATUS_OK;
}

static EsStatus forward(void *context, uint32_t pass) {
    EsPolicyNetwork *network = context;
    ES_TRY(es_policy_training_queue_forward(network, pass));
    network->training->has_outputs = 1;
    return ES_STATUS_OK;
}

static EsStatus step(void *context, EsStepReport *report) {
    EsPolicyNetwork *network = context;
    EsPolicyTraining *training = network->training;
    const EsOptimiser *optimiser = training->optimiser;
    ES_TRY(es_policy_training_take_outputs(training));
    ES_TRY(es_plan_run_backward(training->plan, network->stream));
    es_policy_report_cuda(network->stream, training->n_tensors, training->parts.data,
                          optimiser->sum_squares.data, optimiser->n_nonfinite.data, report);
    return ES_STATUS_OK;
}

static EsOutputs memory_of(const EsStagingTensor *logits, const EsStagingTensor *value,
                           const EsStagingTensor *action_value,
                           const EsStagingTensor *contribution) {
    return (EsOutputs){.logits = logits->tensor.data,
                       .value = value->tensor.data,
                       .action_value = action_value->tensor.data,
                       .auxiliary = contribution->tensor.data};
}

EsStatus es_policy_training_open_device_form(EsPolicyNetwork *network) {
    EsPolicyTraining *t = network->training;
    int64_t n = t->n_tensors;
    ES_TRY(es_device_create_tensor(network->device, ES_DTYPE_I32, 1, &n, &t->parts));
    ES_TRY(es_stream_copy(network->stream, t->parts.data, t->part_of, es_tensor_bytes(&t->parts),
                          ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_synchronize(network->stream));
    t->on_device = (EsPpoDeviceModel){
        .stream = network->stream,
        .outputs = memory_of(&t->logits, &t->value, &t->action_value, &t->contribution),
        .gradients = memory_of(&t->d_logits, &t->d_value, &t->d_action_value, &t->d_contribution),
        .shard_envs = t->graph.size.n_rows,
        .begin = begin,
        .forward = forward,
        .step = step,
    };
    return ES_STATUS_OK;
}
