// Weights and graph of a policy network: its spec, the one description that both plans are made
// from, and the life of their shared state. policy_inference.c acts, policy_training.c trains.
//
// G shards, T steps, N environments of a shard, S slots, H hidden units, A logits.
#include "control/policy/policy_network.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "control/policy/policy_inference.h"
#include "control/policy/policy_network_internal.h"
#include "growth/rules/growth_names.h"

EsPolicySpec es_policy_spec_default(int n_slots, int n_hidden) {
    return (EsPolicySpec){.n_slots = n_slots,
                          .n_hidden = n_hidden,
                          .n_features = n_hidden,
                          .dropout = 0.1f,
                          .aux_stops = 1};
}

EsStatus es_policy_spec_check(const EsPolicySpec *spec) {
    if (spec->n_slots < 1 || spec->n_slots > ES_SLOTS_MAX) {
        return ES_FAIL(ARGUMENT, "a policy has 1 to %d slots, not %d", ES_SLOTS_MAX, spec->n_slots);
    }
    if (spec->n_hidden < 8 || spec->n_hidden > ES_POLICY_WIDTH_MAX || spec->n_hidden % 8 != 0) {
        return ES_FAIL(ARGUMENT,
                       "the policy's hidden units must be a multiple of 8, 8 to %d, not %d",
                       ES_POLICY_WIDTH_MAX, spec->n_hidden);
    }
    if (spec->n_features < 1 || spec->n_features > ES_POLICY_WIDTH_MAX) {
        return ES_FAIL(ARGUMENT, "the policy's features must be 1 to %d, not %d",
                       ES_POLICY_WIDTH_MAX, spec->n_features);
    }
    // written so that NaN fails
    if (!(spec->dropout >= 0.0f && spec->dropout < 1.0f)) {
        return ES_FAIL(ARGUMENT, "the policy's dropout must be at least 0 and below 1, not %g",
                       (double)spec->dropout);
    }
    return ES_STATUS_OK;
}

int es_policy_spec_version(const EsPolicySpec *spec) {
    return spec->is_set ? ES_SET_OBSERVATION_VERSION : ES_OBSERVATION_VERSION;
}

int es_policy_spec_observed(const EsPolicySpec *spec) {
    return spec->is_set ? es_set_observation_size(spec->n_slots)
                        : es_observation_size(spec->n_slots);
}

int es_policy_spec_encoding(const EsPolicySpec *spec) { return ES_MAX(spec->n_features / 2, 1); }

EsPolicyShape es_policy_spec_shape(const EsPolicySpec *spec) {
    int head_size[ES_N_HEADS];
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        head_size[head] = es_head_size(head, spec->n_slots);
    }
    return es_policy_shape(ES_N_HEADS, head_size);
}

// --- counting, apart from the graph so that one can check the other ---

int64_t es_count_linear(int64_t n_in, int64_t n_out) { return n_in * n_out + n_out; }

int64_t es_count_value(int64_t n_in, int64_t H) {
    return es_count_linear(n_in, H / 2) + 2 * (H / 2) + es_count_linear(H / 2, H / 4) +
           2 * (H / 4) + es_count_linear(H / 4, H / 8) + es_count_linear(H / 8, 1);
}

int64_t es_policy_spec_count(const EsPolicySpec *spec) {
    if (spec->is_set) {
        return es_policy_set_count(spec);
    }
    int64_t H = spec->n_hidden, F = spec->n_features, S = spec->n_slots;
    int64_t count = (int64_t)ES_OBSERVATION_BLUEPRINTS * ES_POLICY_EMBEDDING_WIDTH;
    count +=
        es_count_linear(es_observation_size(spec->n_slots) + ES_POLICY_EMBEDDING_WIDTH * S, F) +
        2 * F;
    count += F != H ? es_count_linear(F, H) : 0;
    count += 2 * (4 * H * H + 4 * H) + 2 * H;
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        count += head == ES_HEAD_BLUEPRINT ? es_count_linear(H, H) : 0;
        count +=
            es_count_linear(H, H / 2) + es_count_linear(H / 2, es_head_size(head, spec->n_slots));
    }
    count += es_count_value(H, H) + es_count_value(H + ES_N_GROWTH_OPS, H);
    return count + es_count_linear(H, H / 2) + 2 * (H / 2) + es_count_linear(H / 2, H / 4) +
           es_count_linear(H / 4, S);
}

// --- layers ---

static void declare_vector(const EsSignal *x, const char *name, const char *part, int64_t n,
                           float start) {
    char full[ES_NAME_BYTES];
    snprintf(full, sizeof full, "%s.%s", name, part);
    es_graph_parameter(x->graph, full, 1, &n, 0.0f, start);
}

static void declare_weight(const EsSignal *x, const char *name, int64_t n_out, float gain) {
    char full[ES_NAME_BYTES];
    snprintf(full, sizeof full, "%s.weight", name);
    es_graph_parameter_with(x->graph, full, 2, (int64_t[]){n_out, x->width}, ES_INITIAL_ORTHOGONAL,
                            gain, 0.0f);
}

static EsSignal multiply(EsSignal x, const char *name, int64_t n_out, float gain, int has_bias) {
    if (!x.is_declared) {
        x.value = es_graph_linear_with(x.graph, name, x.value, n_out,
                                       (EsLinearOptions){.has_bias = has_bias,
                                                         .initial = ES_INITIAL_ORTHOGONAL,
                                                         .scale = gain});
    } else {
        declare_weight(&x, name, n_out, gain);
        if (has_bias) {
            declare_vector(&x, name, "bias", n_out, 0.0f);
        }
    }
    x.width = n_out;
    return x;
}

EsSignal es_signal_linear(EsSignal x, const char *name, int64_t n_out, float gain) {
    return multiply(x, name, n_out, gain, 1);
}

EsSignal es_signal_product(EsSignal x, const char *name, int64_t n_out, float gain) {
    return multiply(x, name, n_out, gain, 0);
}

EsSignal es_signal_normalise(EsSignal x, const char *name) {
    if (x.is_declared) {
        declare_vector(&x, name, "gamma", x.width, 1.0f);
        declare_vector(&x, name, "beta", x.width, 0.0f);
    } else {
        x.value = es_graph_layernorm(x.graph, name, x.value);
    }
    return x;
}

EsSignal es_signal_rectify(EsSignal x) {
    if (!x.is_declared) {
        x.value = es_graph_activation(x.graph, ES_ACTIVATION_RELU, x.value);
    }
    return x;
}

EsSignal es_signal_stack(EsSignal x, const char *name, int n_layers, const int64_t *widths,
                         int n_norms, float last_gain) {
    for (int i = 0; i < n_layers; i++) {
        char layer[ES_NAME_BYTES - 8];
        int is_last = i == n_layers - 1;
        snprintf(layer, sizeof layer, "%s.linear%d", name, i);
        x = es_signal_linear(x, layer, widths[i], is_last ? last_gain : ES_GAIN_LAYER);
        if (i < n_norms) {
            snprintf(layer, sizeof layer, "%s.norm%d", name, i);
            x = es_signal_normalise(x, layer);
        }
        x = is_last ? x : es_signal_rectify(x);
    }
    return x;
}

EsSignal es_signal_value(EsSignal x, const char *name, int64_t H) {
    return es_signal_stack(x, name, 4, (int64_t[]){H / 2, H / 4, H / 8, 1}, 2, ES_GAIN_VALUE);
}

EsValueId es_signal_reshape(EsGraph *graph, EsValueId x, int64_t n_rows, int64_t width) {
    return es_graph_reshape(graph, x, 2, (int64_t[]){n_rows, width});
}

// --- building ---

// x = ReLU(LN(W [observation; embeddings])), projected to H where F differs
static EsSignal build_features(EsPolicyGraph *p, const EsPolicySpec *spec) {
    EsGraph *graph = p->graph;
    int64_t n_rows = p->size.n_steps * p->size.n_rows, S = spec->n_slots;
    int64_t n_observed = es_observation_size(spec->n_slots), n_ids = n_rows * S;
    p->features =
        es_graph_input(graph, "features", ES_DTYPE_F32, 2, (int64_t[]){n_rows, n_observed});
    p->blueprints = es_graph_input(graph, "blueprints", ES_DTYPE_I32, 1, &n_ids);
    EsValueId embedded = es_graph_embedding_normal(
        graph, "blueprint_embedding", p->blueprints, ES_OBSERVATION_BLUEPRINTS,
        ES_POLICY_EMBEDDING_WIDTH, ES_POLICY_EMBEDDING_SPREAD);
    embedded = es_signal_reshape(graph, embedded, n_rows, ES_POLICY_EMBEDDING_WIDTH * S);
    EsValueId both = es_graph_concat(graph, 2, (EsValueId[]){p->features, embedded});
    EsSignal x = {graph, both, n_observed + ES_POLICY_EMBEDDING_WIDTH * S, 0};
    x = es_signal_rectify(es_signal_normalise(
        es_signal_linear(x, "feature", spec->n_features, ES_GAIN_LAYER), "feature_norm"));
    return spec->n_features != spec->n_hidden
               ? es_signal_linear(x, "projection", spec->n_hidden, ES_GAIN_LAYER)
               : x;
}

EsSignal es_policy_graph_recurrence(EsPolicyGraph *p, const EsPolicySpec *spec, EsSignal x) {
    EsGraph *graph = p->graph;
    int64_t T = p->size.n_steps, N = p->size.n_rows, H = spec->n_hidden;
    if (p->size.is_training) {
        p->reset = es_graph_input(graph, "reset", ES_DTYPE_U8, 2, (int64_t[]){T, N});
    } else {
        p->h_start = es_graph_input(graph, "h_start", ES_DTYPE_F32, 2, (int64_t[]){N, H});
        p->c_start = es_graph_input(graph, "c_start", ES_DTYPE_F32, 2, (int64_t[]){N, H});
    }
    EsValueId sequence = es_graph_reshape(graph, x.value, 3, (int64_t[]){T, N, H});
    EsRecurrent state = es_graph_lstm_with(
        graph, "lstm", sequence, p->reset, p->h_start, p->c_start, H,
        (EsLstmOptions){.initial = ES_INITIAL_ORTHOGONAL, .scale = 1.0f, .forget_bias = 1.0f});
    if (!p->size.is_training) {
        p->h = state.y;
        p->c = state.c;
    }
    EsSignal y = {graph, es_signal_reshape(graph, state.y, T * N, H), H, 0};
    y = es_signal_normalise(y, "lstm_norm");
    y.value = es_graph_add(graph, y.value, x.value);
    return y;
}

static void build_heads(EsPolicyGraph *p, const EsPolicySpec *spec, EsSignal z) {
    int64_t H = spec->n_hidden;
    EsValueId logits[ES_N_HEADS];
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        int64_t n = es_head_size(head, spec->n_slots);
        char name[ES_NAME_BYTES / 2];
        snprintf(name, sizeof name, "head.%s", es_head_name(head));
        EsSignal y = head == ES_HEAD_BLUEPRINT
                         ? es_signal_stack(z, name, 3, (int64_t[]){H, H / 2, n}, 0, ES_GAIN_HEAD)
                         : es_signal_stack(z, name, 2, (int64_t[]){H / 2, n}, 0, ES_GAIN_HEAD);
        logits[head] = y.value;
    }
    p->logits = es_graph_concat(p->graph, ES_N_HEADS, logits);
}

EsSignal es_policy_graph_dropout(EsPolicyGraph *p, const EsPolicySpec *spec, EsSignal x) {
    if (!x.is_declared) {
        int64_t one = 1;
        p->episode = es_graph_input(p->graph, "episode", ES_DTYPE_I32, 0, NULL);
        p->pass = es_graph_shared_input(p->graph, "pass", ES_DTYPE_I32, 1, &one);
        x.value = es_graph_dropout(p->graph, (EsDropoutOptions){.probability = spec->dropout},
                                   p->episode, p->pass, x.value);
    }
    return x;
}

// Linear, LN, ReLU, dropout, then two more layers: a prediction for every slot
static EsSignal build_contribution(EsPolicyGraph *p, const EsPolicySpec *spec, EsSignal x) {
    int64_t H = spec->n_hidden;
    x = es_signal_linear(x, "contribution.linear0", H / 2, ES_GAIN_LAYER);
    x = es_signal_rectify(es_signal_normalise(x, "contribution.norm0"));
    x = es_policy_graph_dropout(p, spec, x);
    x = es_signal_rectify(es_signal_linear(x, "contribution.linear1", H / 4, ES_GAIN_LAYER));
    return es_signal_linear(x, "contribution.linear2", spec->n_slots, ES_GAIN_VALUE);
}

EsValueId es_policy_graph_action_value(EsPolicyGraph *p, const EsPolicySpec *spec, EsSignal z) {
    EsGraph *graph = p->graph;
    int64_t H = spec->n_hidden, n_rows = p->size.n_steps * p->size.n_rows;
    EsSignal with_op = {graph, ES_NO_VALUE, H + ES_N_GROWTH_OPS, !p->size.is_training};
    EsValueId detached = ES_NO_VALUE;
    if (p->size.is_training) {
        detached = es_graph_detach(graph, z.value);
        p->op = es_graph_input(graph, "op", ES_DTYPE_F32, 2, (int64_t[]){n_rows, ES_N_GROWTH_OPS});
        with_op.value = es_graph_concat(graph, 2, (EsValueId[]){detached, p->op});
    }
    p->action_value = es_signal_value(with_op, "action_value", H).value;
    return detached;
}

// Version 1: one layer over all features, every head over the core.
static void build_flat(EsPolicyGraph *p, const EsPolicySpec *spec) {
    EsSignal z = es_policy_graph_recurrence(p, spec, build_features(p, spec));
    build_heads(p, spec, z);
    p->value = es_signal_value(z, "value", spec->n_hidden).value;
    EsValueId detached = es_policy_graph_action_value(p, spec, z);
    EsSignal trunk = {p->graph, spec->aux_stops ? detached : z.value, spec->n_hidden,
                      !p->size.is_training};
    p->contribution = build_contribution(p, spec, trunk).value;
}

static EsValueId gradient_input(EsGraph *graph, const char *name, EsValueId of) {
    if (es_graph_status(graph) != ES_STATUS_OK) {
        return ES_NO_VALUE;
    }
    const EsValue *value = &graph->values[of];
    return es_graph_input(graph, name, ES_DTYPE_F32, 2, (int64_t[]){value->dim[1], value->dim[2]});
}

static EsStatus differentiate(EsPolicyGraph *p) {
    p->d_logits = gradient_input(p->graph, "d_logits", p->logits);
    p->d_value = gradient_input(p->graph, "d_value", p->value);
    p->d_action_value = gradient_input(p->graph, "d_action_value", p->action_value);
    p->d_contribution = gradient_input(p->graph, "d_contribution", p->contribution);
    const EsValueId values[] = {p->logits, p->value, p->action_value, p->contribution};
    const EsValueId d_values[] = {p->d_logits, p->d_value, p->d_action_value, p->d_contribution};
    return es_graph_differentiate_from(p->graph, (int)ES_COUNT_OF(values), values, d_values);
}

EsStatus es_policy_graph_create(const EsPolicySpec *spec, EsPolicyGraphSize size,
                                EsPolicyGraph *p) {
    *p = (EsPolicyGraph){.size = size};
    EsValueId *const absent[] = {&p->h_start, &p->c_start, &p->reset,          &p->op,
                                 &p->episode, &p->pass,    &p->d_logits,       &p->d_value,
                                 &p->h,       &p->c,       &p->d_action_value, &p->d_contribution,
                                 &p->slots,   &p->slot,    &p->share};
    for (size_t i = 0; i < ES_COUNT_OF(absent); i++) {
        *absent[i] = ES_NO_VALUE;
    }
    for (int head = 0; head < ES_N_HEADS; head++) {
        p->variant[head] = ES_NO_VALUE;
    }
    ES_TRY(es_policy_spec_check(spec));
    ES_TRY(es_graph_create(size.n_shards, &p->graph));
    if (spec->is_set) {
        es_policy_set_build(p, spec);
    } else {
        build_flat(p, spec);
    }
    const EsValueId kept[] = {p->logits, p->value, p->h, p->c, p->action_value, p->contribution};
    for (size_t i = 0; i < ES_COUNT_OF(kept); i++) {
        if (kept[i] != ES_NO_VALUE) {
            es_graph_keep(p->graph, kept[i]);
        }
    }
    EsStatus status = es_graph_status(p->graph);
    if (status == ES_STATUS_OK && size.is_training) {
        status = differentiate(p);
    }
    if (status != ES_STATUS_OK) {
        es_policy_graph_destroy(p);
    }
    return status;
}

void es_policy_graph_destroy(EsPolicyGraph *p) {
    es_graph_destroy(p->graph);
    p->graph = NULL;
}

int es_policy_part_of(const char *parameter) {
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        char prefix[ES_NAME_BYTES];
        int length = snprintf(prefix, sizeof prefix, "head.%s.", es_head_name(head));
        if (strncmp(parameter, prefix, (size_t)length) == 0) {
            return head;
        }
    }
    if (strncmp(parameter, "value.", strlen("value.")) == 0) {
        return ES_POLICY_PART_VALUE;
    }
    return strncmp(parameter, "action_value.", strlen("action_value.")) == 0
               ? ES_POLICY_PART_ACTION_VALUE
               : ES_POLICY_PART_OTHER;
}

// --- staging tensors ---

static int is_on_host(const EsDevice *device) {
    return es_device_info(device)->kind == ES_DEVICE_CPU;
}

static EsStatus open_host(EsStagingTensor *staging) {
    EsDevice *device = staging->tensor.device;
    if (is_on_host(device)) {
        staging->host = staging->tensor.data;
        return ES_STATUS_OK;
    }
    size_t bytes = es_tensor_bytes(&staging->tensor);
    ES_TRY(es_device_allocate_host(device, bytes, &staging->host));
    staging->owns_host = 1;
    memset(staging->host, 0, bytes);
    return ES_STATUS_OK;
}

EsStatus es_staging_open_input(EsStagingTensor *staging, EsDevice *device, EsPlan *plan,
                               const EsGraph *graph, EsValueId id) {
    const EsValue *value = &graph->values[id];
    ES_TRY(
        es_device_create_tensor(device, value->dtype, value->rank, value->dim, &staging->tensor));
    staging->owns_tensor = 1;
    ES_TRY(es_plan_bind(plan, id, &staging->tensor));
    return open_host(staging);
}

EsStatus es_staging_open_view(EsStagingTensor *staging, EsTensor tensor) {
    staging->tensor = tensor;
    return open_host(staging);
}

void es_staging_close(EsStagingTensor *staging) {
    if (staging->owns_host) {
        es_device_release_host(staging->tensor.device, staging->host);
    }
    if (staging->owns_tensor) {
        es_device_destroy_tensor(&staging->tensor);
    }
}

EsStatus es_staging_send(const EsStagingTensor *staging, EsStream *stream) {
    return staging->owns_host ? es_stream_copy(stream, staging->tensor.data, staging->host,
                                               es_tensor_bytes(&staging->tensor), ES_COPY_TO_DEVICE)
                              : ES_STATUS_OK;
}

EsStatus es_staging_fetch(const EsStagingTensor *staging, EsStream *stream) {
    return staging->owns_host ? es_stream_copy(stream, staging->host, staging->tensor.data,
                                               es_tensor_bytes(&staging->tensor), ES_COPY_TO_HOST)
                              : ES_STATUS_OK;
}

// --- life ---

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
    ES_TRY(es_policy_acting_create(network));
    return network->n_steps > 0 ? es_policy_training_create(network) : ES_STATUS_OK;
}

EsStatus es_policy_network_create(EsDevice *device, const EsPolicySpec *spec, int64_t n_envs,
                                  int64_t n_steps, EsPolicyNetwork **network_out) {
    return es_policy_network_create_shared(device, spec, n_envs, n_steps, NULL, network_out);
}

EsStatus es_policy_network_create_shared(EsDevice *device, const EsPolicySpec *spec, int64_t n_envs,
                                         int64_t n_steps, EsRanks *ranks,
                                         EsPolicyNetwork **network_out) {
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
    network->ranks = ranks;
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
    es_policy_acting_destroy(&network->acting);
    es_store_destroy(network->store);
    es_stream_destroy(network->stream);
    es_release(network);
}

EsStatus es_policy_network_initialise(EsPolicyNetwork *network, uint64_t seed) {
    // a policy belongs to no episode: its draws are those of episode 0
    const int32_t episode = 0;
    ES_TRY(es_store_initialise(network->store, network->acting.graph.graph, network->stream, seed,
                               &episode));
    if (network->training != NULL) {
        ES_TRY(es_policy_training_initialise(network->training, network->stream, seed));
    }
    return es_policy_inference_reset(network, NULL);
}

// --- looking at it ---

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
