// Life and acting of a policy network; policy_trainee.c is the other half.
#include "control/policy/policy_network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "control/policy/policy_network_internal.h"
#include "kernels/kernels.h"

// --- ports ---

static int is_on_host(const EsDevice *device) {
    return es_device_info(device)->kind == ES_DEVICE_CPU;
}

static EsStatus open_host(EsPort *port) {
    EsDevice *device = port->tensor.device;
    if (is_on_host(device)) {
        port->host = port->tensor.data;
        return ES_STATUS_OK;
    }
    size_t bytes = es_tensor_bytes(&port->tensor);
    ES_TRY(es_device_allocate_host(device, bytes, &port->host));
    port->owns_host = 1;
    memset(port->host, 0, bytes);
    return ES_STATUS_OK;
}

EsStatus es_port_open_input(EsPort *port, EsDevice *device, EsPlan *plan, const EsGraph *graph,
                            EsValueId id) {
    const EsValue *value = &graph->values[id];
    ES_TRY(es_device_create_tensor(device, value->dtype, value->rank, value->dim, &port->tensor));
    port->owns_tensor = 1;
    ES_TRY(es_plan_bind(plan, id, &port->tensor));
    return open_host(port);
}

EsStatus es_port_open_view(EsPort *port, EsTensor tensor) {
    port->tensor = tensor;
    return open_host(port);
}

void es_port_close(EsPort *port) {
    if (port->owns_host) {
        es_device_release_host(port->tensor.device, port->host);
    }
    if (port->owns_tensor) {
        es_device_destroy_tensor(&port->tensor);
    }
}

EsStatus es_port_send(const EsPort *port, EsStream *stream) {
    return port->owns_host ? es_stream_copy(stream, port->tensor.data, port->host,
                                            es_tensor_bytes(&port->tensor), ES_COPY_TO_DEVICE)
                           : ES_STATUS_OK;
}

EsStatus es_port_fetch(const EsPort *port, EsStream *stream) {
    return port->owns_host ? es_stream_copy(stream, port->host, port->tensor.data,
                                            es_tensor_bytes(&port->tensor), ES_COPY_TO_HOST)
                           : ES_STATUS_OK;
}

// --- life ---

// The fused step where the device has one; what is in its way is reported.
static EsStatus open_act(EsPolicyNetwork *network) {
    EsPolicyActing *acting = &network->acting;
    EsStatus status = es_policy_act_create(&acting->graph, &network->spec, network->store,
                                           (EsPolicyActOptions){.is_tf32 = 0}, &acting->act);
    if (status != ES_STATUS_UNSUPPORTED) {
        return status;
    }
    snprintf(acting->fallback, sizeof acting->fallback, "%s", es_status_detail());
    return ES_STATUS_OK;
}

static EsStatus open_acting(EsPolicyNetwork *network) {
    EsPolicyActing *acting = &network->acting;
    const EsPolicyGraph *p = &acting->graph;
    EsDevice *device = network->device;
    EsPlanOptions options = es_plan_defaults();
    ES_TRY(es_plan_create(p->graph, network->store, &options, &acting->plan));
    EsPlan *plan = acting->plan;
    ES_TRY(es_port_open_input(&acting->features, device, plan, p->graph, p->features));
    ES_TRY(es_port_open_input(&acting->blueprints, device, plan, p->graph, p->blueprints));
    ES_TRY(es_port_open_input(&acting->h, device, plan, p->graph, p->h_start));
    ES_TRY(es_port_open_input(&acting->c, device, plan, p->graph, p->c_start));
    ES_TRY(es_port_open_view(&acting->logits, es_plan_tensor(plan, p->logits)));
    ES_TRY(es_port_open_view(&acting->value, es_plan_tensor(plan, p->value)));
    acting->h_after = es_plan_tensor(plan, p->h);
    acting->c_after = es_plan_tensor(plan, p->c);
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_F32, 2, (int64_t[]){1, network->spec.n_hidden},
                                   &acting->zeros));
    return open_act(network);
}

static void close_acting(EsPolicyActing *acting) {
    EsPort *const ports[] = {&acting->features, &acting->blueprints, &acting->logits,
                             &acting->value,    &acting->h,          &acting->c};
    for (size_t i = 0; i < ES_COUNT_OF(ports); i++) {
        es_port_close(ports[i]);
    }
    es_recording_destroy(&acting->steps);
    es_recording_destroy(&acting->peeks);
    es_policy_act_destroy(acting->act);
    es_device_destroy_tensor(&acting->zeros);
    es_plan_destroy(acting->plan);
    es_policy_graph_destroy(&acting->graph);
}

static EsStatus check_sizes(int64_t n_envs, int64_t n_steps) {
    const int64_t most = 1 << 20;
    if (n_envs < 1 || n_envs > most || n_steps < 0 || n_steps > most) {
        return ES_FAIL(ARGUMENT,
                       "a policy network runs 1 to %lld environments and trains on at most as many "
                       "steps, not %lld and %lld",
                       (long long)most, (long long)n_envs, (long long)n_steps);
    }
    return ES_STATUS_OK;
}

static EsStatus build(EsPolicyNetwork *network) {
    int64_t E = network->n_envs, G = ES_POLICY_SHARDS;
    EsPolicyGraphSize acting = {.n_shards = 1, .n_steps = 1, .n_rows = E};
    ES_TRY(es_stream_create(network->device, &network->stream));
    ES_TRY(es_policy_graph_create(&network->spec, acting, &network->acting.graph));
    ES_TRY(es_store_create_shared(network->acting.graph.graph, network->device,
                                  network->n_steps > 0 ? G : 1, &network->store));
    ES_TRY(open_acting(network));
    return network->n_steps > 0 ? es_policy_training_create(network) : ES_STATUS_OK;
}

EsStatus es_policy_network_create(EsDevice *device, const EsPolicySpec *spec, int64_t n_envs,
                                  int64_t n_steps, EsPolicyNetwork **network_out) {
    *network_out = NULL;
    ES_TRY(es_policy_spec_check(spec));
    ES_TRY(check_sizes(n_envs, n_steps));
    EsPolicyNetwork *network = NULL;
    ES_TRY(es_allocate(sizeof *network, (void **)&network));
    network->device = device;
    network->spec = *spec;
    network->shape = es_policy_spec_shape(spec);
    network->n_envs = n_envs;
    network->n_steps = n_steps;
    EsStatus status = build(network);
    if (status != ES_STATUS_OK) {
        es_policy_network_destroy(network);
        return status;
    }
    *network_out = network;
    return ES_STATUS_OK;
}

void es_policy_network_destroy(EsPolicyNetwork *network) {
    if (network == NULL) {
        return;
    }
    es_policy_training_destroy(network->training);
    close_acting(&network->acting);
    es_store_destroy(network->store);
    es_stream_destroy(network->stream);
    es_release(network);
}

EsStatus es_policy_network_initialise(EsPolicyNetwork *network, uint64_t seed) {
    // the policy is nobody's episode: its draws are those of episode 0
    const int32_t episode = 0;
    ES_TRY(es_store_initialise(network->store, network->acting.graph.graph, network->stream, seed,
                               &episode));
    if (network->training != NULL) {
        ES_TRY(es_policy_training_initialise(network->training, network->stream, seed));
    }
    return es_policy_network_reset(network, NULL);
}

// --- acting ---

EsStatus es_policy_network_reset(EsPolicyNetwork *network, const uint8_t *is_reset) {
    EsTensor *const states[] = {&network->acting.h.tensor, &network->acting.c.tensor};
    size_t row_bytes = (size_t)network->spec.n_hidden * sizeof(float);
    for (size_t i = 0; i < ES_COUNT_OF(states); i++) {
        unsigned char *rows = states[i]->data;
        if (is_reset == NULL) {
            ES_TRY(es_stream_fill(network->stream, rows, 0, es_tensor_bytes(states[i])));
            continue;
        }
        for (int64_t e = 0; e < network->n_envs; e++) {
            if (is_reset[e]) {
                ES_TRY(es_stream_fill(network->stream, rows + (size_t)e * row_bytes, 0, row_bytes));
            }
        }
    }
    return ES_STATUS_OK;
}

// The state after the plan's last step becomes that before the next.
static EsStatus move_on(EsPolicyActing *acting, EsStream *stream) {
    size_t bytes = es_tensor_bytes(&acting->h.tensor);
    ES_TRY(es_stream_copy(stream, acting->h.tensor.data, acting->h_after.data, bytes,
                          ES_COPY_ON_DEVICE));
    return es_stream_copy(stream, acting->c.tensor.data, acting->c_after.data, bytes,
                          ES_COPY_ON_DEVICE);
}

static EsStatus queue_step(void *context, EsStream *stream) {
    EsPolicyActing *acting = context;
    es_policy_act_queue(acting->act, stream, acting->features.tensor.data,
                        acting->blueprints.tensor.data, NULL, acting->h.tensor.data,
                        acting->c.tensor.data, acting->logits.tensor.data,
                        acting->value.tensor.data);
    return ES_STATUS_OK;
}

static EsStatus queue_peek(void *context, EsStream *stream) {
    EsPolicyActing *acting = context;
    es_policy_act_peek(acting->act, stream, acting->features.tensor.data,
                       acting->blueprints.tensor.data, NULL, acting->h.tensor.data,
                       acting->c.tensor.data, acting->logits.tensor.data,
                       acting->value.tensor.data);
    return ES_STATUS_OK;
}

// One step of the inputs that stand in the ports.
static EsStatus run_step(EsPolicyActing *acting, EsStream *stream, int is_peek) {
    if (acting->act != NULL) {
        return es_recording_run(is_peek ? &acting->peeks : &acting->steps, stream, 1,
                                is_peek ? queue_peek : queue_step, acting);
    }
    ES_TRY(es_plan_run(acting->plan, stream));
    return is_peek ? ES_STATUS_OK : move_on(acting, stream);
}

EsStatus es_policy_network_act(EsPolicyNetwork *network, const float *features,
                               const int32_t *blueprints, int is_peek, EsOutputs *outputs) {
    EsPolicyActing *acting = &network->acting;
    EsStream *stream = network->stream;
    memcpy(acting->features.host, features, es_tensor_bytes(&acting->features.tensor));
    memcpy(acting->blueprints.host, blueprints, es_tensor_bytes(&acting->blueprints.tensor));
    ES_TRY(es_port_send(&acting->features, stream));
    ES_TRY(es_port_send(&acting->blueprints, stream));
    ES_TRY(run_step(acting, stream, is_peek));
    ES_TRY(es_port_fetch(&acting->logits, stream));
    ES_TRY(es_port_fetch(&acting->value, stream));
    ES_TRY(es_stream_synchronize(stream));
    *outputs = (EsOutputs){.logits = acting->logits.host, .value = acting->value.host};
    return ES_STATUS_OK;
}

EsPolicyInputs es_policy_network_inputs(const EsPolicyNetwork *network) {
    return (EsPolicyInputs){network->acting.features.tensor.data,
                            network->acting.blueprints.tensor.data};
}

// Zero the rows of the recurrent state that the mask in device memory names.
static void queue_reset(EsPolicyNetwork *network, EsStream *stream, const uint8_t *is_reset) {
    EsPolicyActing *acting = &network->acting;
    const EsKernels *kernels = es_kernels_of(network->device);
    const int64_t dims[] = {network->n_envs, network->spec.n_hidden};
    EsTensor mask = es_tensor_view((void *)is_reset, ES_DTYPE_U8, network->device, 1, dims);
    EsTensor h = es_tensor_view(acting->h.tensor.data, ES_DTYPE_F32, network->device, 2, dims);
    EsTensor c = es_tensor_view(acting->c.tensor.data, ES_DTYPE_F32, network->device, 2, dims);
    EsTensor zeros = acting->zeros;
    zeros.dim[0] = network->n_envs;
    zeros.stride[0] = 0; // every environment reads the one row
    kernels->masked_copy(stream, &mask, &zeros, &h);
    kernels->masked_copy(stream, &mask, &zeros, &c);
}

// Bring an input to where the plan reads it.
static EsStatus queue_input(EsStream *stream, const EsPort *port, const void *from) {
    return from == port->tensor.data
               ? ES_STATUS_OK
               : es_stream_copy(stream, port->tensor.data, from, es_tensor_bytes(&port->tensor),
                                ES_COPY_ON_DEVICE);
}

EsStatus es_policy_network_act_queued(EsPolicyNetwork *network, EsStream *stream,
                                      const float *features, const int32_t *blueprints,
                                      const uint8_t *is_reset, const float **logits,
                                      const float **value) {
    EsPolicyActing *acting = &network->acting;
    const EsDeviceInfo *info = es_device_info(network->device);
    const EsDeviceInfo *other = es_device_info(es_stream_device(stream));
    ES_ASSERT(info->kind == other->kind && info->index == other->index);
    *logits = acting->logits.tensor.data;
    *value = acting->value.tensor.data;
    if (acting->act != NULL) {
        es_policy_act_queue(acting->act, stream, features, blueprints, is_reset,
                            acting->h.tensor.data, acting->c.tensor.data,
                            acting->logits.tensor.data, acting->value.tensor.data);
        return es_device_status(network->device);
    }
    if (is_reset != NULL) {
        queue_reset(network, stream, is_reset);
    }
    ES_TRY(queue_input(stream, &acting->features, features));
    ES_TRY(queue_input(stream, &acting->blueprints, blueprints));
    ES_TRY(es_plan_run(acting->plan, stream));
    return move_on(acting, stream);
}

// --- looking at it ---

EsActingReport es_policy_network_acting(const EsPolicyNetwork *network) {
    const EsPolicyActing *acting = &network->acting;
    EsActingReport report = {.is_fused = acting->act != NULL};
    report.n_launches = report.is_fused ? es_policy_act_launches(acting->act)
                                        : es_plan_report(acting->plan).n_nodes;
    const char *fallback = report.is_fused ? acting->steps.fallback : acting->fallback;
    snprintf(report.fallback, sizeof report.fallback, "%s", fallback);
    return report;
}

// RMS over all rows, and the largest of any row.
static void measure(const float *rows, int64_t n_rows, int64_t width, double *rms, double *row_max,
                    EsRecurrentHealth *health) {
    double total = 0.0;
    *row_max = 0.0;
    for (int64_t r = 0; r < n_rows; r++) {
        double sum = 0.0;
        for (int64_t i = 0; i < width; i++) {
            double x = (double)rows[r * width + i];
            health->has_nan |= isnan(x);
            health->has_inf |= isinf(x);
            sum += isfinite(x) ? x * x : 0.0;
        }
        total += sum;
        *row_max = fmax(*row_max, sqrt(sum / (double)width));
    }
    *rms = sqrt(total / (double)(n_rows * width));
}

EsRecurrentHealth es_policy_network_health(const EsPolicyNetwork *network) {
    const EsPolicyActing *acting = &network->acting;
    EsRecurrentHealth health = {0};
    if (es_port_fetch(&acting->h, network->stream) != ES_STATUS_OK ||
        es_port_fetch(&acting->c, network->stream) != ES_STATUS_OK ||
        es_stream_synchronize(network->stream) != ES_STATUS_OK) {
        health.has_nan = 1;
        return health;
    }
    int64_t E = network->n_envs, H = network->spec.n_hidden;
    measure(acting->h.host, E, H, &health.h_rms, &health.h_env_rms_max, &health);
    measure(acting->c.host, E, H, &health.c_rms, &health.c_env_rms_max, &health);
    return health;
}

const EsGraph *es_policy_network_graph(const EsPolicyNetwork *network) {
    return network->acting.graph.graph;
}

EsStore *es_policy_network_store(const EsPolicyNetwork *network) { return network->store; }

EsOptimiser *es_policy_network_optimiser(const EsPolicyNetwork *network) {
    return network->training != NULL ? network->training->optimiser : NULL;
}

EsStream *es_policy_network_stream(const EsPolicyNetwork *network) { return network->stream; }

const EsPolicySpec *es_policy_network_spec(const EsPolicyNetwork *network) {
    return &network->spec;
}
