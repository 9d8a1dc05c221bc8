// Inference with a policy network: one step of all environments by the acting plan, or fused on
// CUDA, with the recurrent state carried on. The fused step is its layers as jobs: which weights,
// which inputs, where to; the kernels are in policy_inference_cuda.cu. A line is a launch.
//
//     features   u = W [observation; embeddings], and the gates' share from h; sums of u
//     projection x = W ReLU(LN(u)), only where F is not H
//     lstm       h, c from x = ReLU(LN(u)); sums of h
//     first      first layers of all heads and the value, of z = LN(h) + x
//     second     the blueprint's and the value's; the other heads' last
//     tail       the blueprint's last, the value's last two; h and c into place
//
// Version 2, whose slots are rows of their own in some layers:
//
//     slots      first layer of the encoder, of all slots; the host's layer; sums of both
//     encodings  second layer of the encoder; the gates' share from h
//     features   u = W [ReLU(LN(host)); mean and maximum of the encodings]; slots' share of some
//                heads
//     lstm       as above
//     first      core's share of all heads, the value's first layer; slots' share of the others
//     second     last layers of all heads for all slots; beside it the tail: the value's last
//                three; h and c into place
#include "control/policy/policy_inference_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "control/rules/sampling_rules.h"
#include "growth/rules/growth_names.h"
#include "kernels/kernels.h"

#define LAYERS_BEFORE 3 // the LSTM, at most

struct EsPolicyAct {
    EsDevice *device; // borrowed
    int is_tf32, is_set;
    int has_projection; // version 1
    EsPolicyShape shape;
    void *memory; // owned: all intermediate values
    int n_before;
    EsActLayer before[LAYERS_BEFORE];
    EsActLayer first, second;
    EsActLstm lstm;
    EsActTail tail;
    // jobs whose inputs are the caller's
    EsActJob *observed; // features
    EsActJob *embedded; // blueprints; version 2: slots, too
    EsActJob *gates;    // h
};

// Finds weights by name and hands out memory: first counts, then divides the allocation.
typedef struct Builder {
    const EsGraph *graph;
    const float *parameters;
    float *memory; // NULL while counting
    int64_t used;
} Builder;

// Names are those of policy_network.c, which made the graph.
static const float *parameter(const Builder *builder, const char *layer, const char *part) {
    char name[ES_NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    EsValueId id = es_graph_find(builder->graph, name);
    ES_ASSERT(id != ES_NO_VALUE && builder->graph->values[id].role == ES_ROLE_PARAMETER);
    return builder->parameters + builder->graph->values[id].slab_offset;
}

static float *cut(Builder *builder, int64_t n) {
    const int64_t boundary = ES_ALIGNMENT / (int64_t)sizeof(float);
    float *piece = builder->memory != NULL ? builder->memory + builder->used : NULL;
    builder->used += (n + boundary - 1) / boundary * boundary;
    return piece;
}

static int count_tiles(int n, int width) { return (n + width - 1) / width; }

// --- inputs ---

static EsActInput plain(const float *x, int width) {
    return (EsActInput){.source = ES_ACT_PLAIN, .width = width, .pitch = width, .x = x};
}

static EsActInput rectified(EsActInput input) {
    input.is_rectified = 1;
    return input;
}

static EsActInput normalised(const Builder *builder, EsActInput input, const char *norm,
                             const float *sums, int sum_width) {
    input.source = ES_ACT_NORMALISED;
    input.norm_width = input.width;
    input.gamma = parameter(builder, norm, "gamma");
    input.beta = parameter(builder, norm, "beta");
    input.sums = sums;
    input.sum_width = sum_width;
    return input;
}

// [observation; embeddings of n_slots blueprints]
static EsActInput observed(const Builder *builder, int n_observed, int n_slots) {
    const EsGraph *graph = builder->graph;
    EsValueId table = es_graph_find(graph, "blueprint_embedding.table");
    ES_ASSERT(table != ES_NO_VALUE);
    int embedding_width = (int)graph->values[table].dim[2];
    return (EsActInput){.source = ES_ACT_OBSERVED,
                        .width = n_observed + embedding_width * n_slots,
                        .pitch = n_observed,
                        .embedding = builder->parameters + graph->values[table].slab_offset,
                        .n_slots = n_slots,
                        .n_blueprints = (int)graph->values[table].dim[1],
                        .embedding_width = embedding_width};
}

// --- layers ---

// Rows of y are a multiple of four floats apart.
static EsActJob *add_product(EsActLayer *layer, int64_t n_rows, const float *weight,
                             const float *bias, EsActInput input, int n_outputs) {
    ES_ASSERT(layer->n_jobs < ES_ACT_JOBS_MAX);
    EsActJob *job = &layer->job[layer->n_jobs++];
    *job = (EsActJob){.input = input,
                      .n_rows = n_rows,
                      .weight = weight,
                      .bias = bias,
                      .n_outputs = n_outputs,
                      .pitch = (n_outputs + 3) / 4 * 4,
                      .n_members = 1};
    return job;
}

static EsActJob *add_job(const Builder *builder, EsActLayer *layer, int64_t n_rows,
                         const char *name, EsActInput input, int n_outputs) {
    return add_product(layer, n_rows, parameter(builder, name, "weight"),
                       parameter(builder, name, "bias"), input, n_outputs);
}

static EsActInput give_output(Builder *builder, EsActJob *job) {
    job->y = cut(builder, job->n_rows * job->pitch);
    EsActInput next = plain(job->y, job->n_outputs);
    next.pitch = job->pitch;
    return next;
}

// Returns ReLU(LN(y)) for the layer after the job.
static EsActInput give_normalised(Builder *builder, EsActJob *job, const char *norm) {
    EsActInput y = give_output(builder, job);
    int n_tiles = count_tiles(job->n_outputs, ES_ACT_COLUMNS);
    job->sums = cut(builder, job->n_rows * n_tiles * 2);
    return rectified(normalised(builder, y, norm, job->sums, ES_ACT_COLUMNS));
}

static void add_gates(Builder *builder, EsPolicyAct *act, EsActLayer *layer) {
    int H = act->lstm.n_hidden;
    act->gates = add_product(layer, act->lstm.n_rows, parameter(builder, "lstm", "weight_hh"),
                             parameter(builder, "lstm", "bias_hh"), plain(NULL, H), 4 * H);
    act->lstm.gates_h = give_output(builder, act->gates).x;
}

// Returns x as the LSTM reads it.
static EsActInput build_features(Builder *builder, EsPolicyAct *act, const EsPolicySpec *spec) {
    int64_t E = act->lstm.n_rows;
    EsActLayer *layer = &act->before[act->n_before++];
    act->observed = act->embedded = add_job(
        builder, layer, E, "feature",
        observed(builder, es_observation_size(spec->n_slots), spec->n_slots), spec->n_features);
    EsActInput x = give_normalised(builder, act->observed, "feature_norm");
    add_gates(builder, act, layer);
    if (!act->has_projection) {
        return x;
    }
    layer = &act->before[act->n_before++];
    return give_output(builder, add_job(builder, layer, E, "projection", x, spec->n_hidden));
}

// Returns z = LN(h) + x.
static EsActInput build_lstm(Builder *builder, EsPolicyAct *act, EsActInput x) {
    EsActLstm *lstm = &act->lstm;
    int64_t E = lstm->n_rows;
    int H = lstm->n_hidden;
    lstm->x = x;
    lstm->weight = parameter(builder, "lstm", "weight_ih");
    lstm->bias = parameter(builder, "lstm", "bias_ih");
    lstm->x_after = act->has_projection ? NULL : cut(builder, E * H);
    lstm->h_after = cut(builder, E * H);
    lstm->c_after = cut(builder, E * H);
    lstm->h_sums = cut(builder, E * (H / ES_ACT_UNITS) * 2);
    EsActInput z =
        normalised(builder, plain(lstm->h_after, H), "lstm_norm", lstm->h_sums, ES_ACT_UNITS);
    z.source = ES_ACT_RESIDUAL;
    z.residual = act->has_projection ? x.x : lstm->x_after;
    return z;
}

// First layers of all heads, then those after them; the blueprint's has one more.
static void build_heads(Builder *builder, EsPolicyAct *act, EsActInput z) {
    int64_t E = act->lstm.n_rows;
    int H = z.width;
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        int is_deep = head == ES_HEAD_BLUEPRINT, n = act->shape.head_size[head];
        char prefix[ES_NAME_BYTES / 2], name[ES_NAME_BYTES - 8];
        snprintf(prefix, sizeof prefix, "head.%s", es_head_name(head));
        snprintf(name, sizeof name, "%s.linear0", prefix);
        EsActJob *job = add_job(builder, &act->first, E, name, z, is_deep ? H : H / 2);
        EsActInput y = rectified(give_output(builder, job));
        snprintf(name, sizeof name, "%s.linear1", prefix);
        job = add_job(builder, &act->second, E, name, y, is_deep ? H / 2 : n);
        if (!is_deep) {
            job->pitch = act->shape.n_logits; // y is the caller's
            continue;
        }
        snprintf(name, sizeof name, "%s.linear2", prefix);
        act->tail.head_x = give_output(builder, job).x;
        act->tail.head_weight = parameter(builder, name, "weight");
        act->tail.head_bias = parameter(builder, name, "bias");
        act->tail.n_logits = n;
        act->tail.pitch = act->shape.n_logits;
    }
}

static void build_value(Builder *builder, EsPolicyAct *act, EsActInput z) {
    int64_t E = act->lstm.n_rows;
    int H = z.width;
    EsActTail *tail = &act->tail;
    EsActJob *job = add_job(builder, &act->first, E, "value.linear0", z, H / 2);
    if (act->is_set) {
        tail->value_x = give_output(builder, job).x;
        tail->first_gamma = parameter(builder, "value.norm0", "gamma");
        tail->first_beta = parameter(builder, "value.norm0", "beta");
        tail->value_weight1 = parameter(builder, "value.linear1", "weight");
        tail->value_bias1 = parameter(builder, "value.linear1", "bias");
    } else {
        EsActInput y = give_normalised(builder, job, "value.norm0");
        job = add_job(builder, &act->second, E, "value.linear1", y, H / 4);
        job->pitch = H / 4;
        tail->value_x = give_output(builder, job).x;
    }
    tail->gamma = parameter(builder, "value.norm1", "gamma");
    tail->beta = parameter(builder, "value.norm1", "beta");
    tail->value_weight2 = parameter(builder, "value.linear2", "weight");
    tail->value_bias2 = parameter(builder, "value.linear2", "bias");
    tail->value_weight3 = parameter(builder, "value.linear3", "weight");
    tail->value_bias3 = parameter(builder, "value.linear3", "bias");
    tail->h_after = act->lstm.h_after;
    tail->c_after = act->lstm.c_after;
}

// --- layers of version 2 ---

// Slots' shares of so many heads are computed before the LSTM, of the others after it: about as
// many tiles in either launch.
#define HEADS_BEFORE 5

// Returns the encodings, before their last ReLU, of all slots [E S, K]; and x as the LSTM reads it.
static EsActInput build_set_features(Builder *builder, EsPolicyAct *act, const EsPolicySpec *spec,
                                     EsActInput *x) {
    int64_t E = act->lstm.n_rows, n_slots = E * spec->n_slots;
    int K = es_policy_spec_encoding(spec), F = spec->n_features;
    EsActLayer *slots = &act->before[0], *encodings = &act->before[1];
    act->n_before = 3;
    act->embedded = add_job(builder, slots, n_slots, "slot.linear0",
                            observed(builder, ES_SET_OBSERVATION_SLOT, 1), K);
    EsActInput slot = give_normalised(builder, act->embedded, "slot.norm0");
    act->observed =
        add_job(builder, slots, E, "host", observed(builder, ES_SET_OBSERVATION_HOST, 0), F);
    EsActInput pooled = give_normalised(builder, act->observed, "host_norm");
    EsActInput e =
        give_output(builder, add_job(builder, encodings, n_slots, "slot.linear1", slot, K));
    add_gates(builder, act, slots); // which has the fewest tiles of its own
    pooled.source = ES_ACT_POOLED;
    pooled.width = F + 2 * K;
    pooled.members = e.x;
    pooled.n_members = spec->n_slots;
    pooled.member_width = K;
    pooled.member_pitch = e.pitch;
    EsActJob *feature = add_job(builder, &act->before[2], E, "feature", pooled, spec->n_hidden);
    *x = give_normalised(builder, feature, "feature_norm");
    return e;
}

// Heads but the operation's: the core's share and the slot's, joined by the last layer.
static void build_set_heads(Builder *builder, EsPolicyAct *act, int n_slots, EsActInput z,
                            EsActInput e) {
    int64_t E = act->lstm.n_rows;
    int H = z.width, table = es_choice_table_size(n_slots);
    for (int32_t head = 0; head < ES_HEAD_OP; head++) {
        char prefix[ES_NAME_BYTES / 2], name[ES_NAME_BYTES - 8];
        snprintf(prefix, sizeof prefix, "head.%s", es_head_name(head));
        snprintf(name, sizeof name, "%s.core", prefix);
        EsActInput core = give_output(builder, add_job(builder, &act->first, E, name, z, H / 2));
        snprintf(name, sizeof name, "%s.slot", prefix);
        EsActLayer *layer = head < HEADS_BEFORE ? &act->before[2] : &act->first;
        EsActJob *job = add_product(layer, E * n_slots, parameter(builder, name, "weight"), NULL,
                                    rectified(e), H / 2);
        EsActInput y = rectified(give_output(builder, job));
        y.source = ES_ACT_JOINED;
        y.residual = core.x;
        y.n_members = n_slots;
        snprintf(name, sizeof name, "%s.linear1", prefix);
        job = add_job(builder, &act->second, E * n_slots, name, y,
                      es_head_variants(head) * es_slot_logits(head));
        job->pitch = table; // y is the caller's
        job->n_members = n_slots;
        job->member_pitch = es_slot_first_logit(ES_HEAD_OP);
    }
    EsActInput y =
        give_output(builder, add_job(builder, &act->first, E, "head.op.linear0", z, H / 2));
    add_job(builder, &act->second, E, "head.op.linear1", rectified(y), ES_N_GROWTH_OPS)->pitch =
        table;
}

static void build(Builder *builder, EsPolicyAct *act, const EsPolicySpec *spec, int64_t n_rows) {
    memset(act->before, 0, sizeof act->before);
    act->n_before = act->first.n_jobs = act->second.n_jobs = 0;
    act->lstm = (EsActLstm){.n_rows = n_rows, .n_hidden = spec->n_hidden};
    act->tail = (EsActTail){.n_rows = n_rows, .n_hidden = spec->n_hidden};
    if (act->is_set) {
        EsActInput x, e = build_set_features(builder, act, spec, &x);
        EsActInput z = build_lstm(builder, act, x);
        build_set_heads(builder, act, spec->n_slots, z, e);
        build_value(builder, act, z);
    } else {
        EsActInput z = build_lstm(builder, act, build_features(builder, act, spec));
        build_heads(builder, act, z);
        build_value(builder, act, z);
    }
}

// --- life ---

EsStatus es_policy_act_create(const EsPolicyGraph *graph, const EsPolicySpec *spec, EsStore *store,
                              EsPolicyActOptions options, EsPolicyAct **act_out) {
    *act_out = NULL;
    if (es_device_info(store->device)->kind != ES_DEVICE_CUDA ||
        es_policy_act_kernels_cuda() == NULL) {
        return ES_FAIL(UNSUPPORTED, "the fused acting step runs on CUDA alone");
    }
    ES_ASSERT(!graph->size.is_training && graph->size.n_shards == 1 && store->is_shared);
    ES_TRY(es_store_check(store, graph->graph));
    EsPolicyAct *act = NULL;
    ES_TRY(es_allocate(sizeof *act, (void **)&act));
    act->device = store->device;
    act->is_tf32 = options.is_tf32;
    act->is_set = spec->is_set;
    act->has_projection = !spec->is_set && spec->n_features != spec->n_hidden;
    act->shape = es_policy_spec_shape(spec);
    Builder builder = {.graph = graph->graph, .parameters = store->parameters.data};
    build(&builder, act, spec, graph->size.n_rows);
    size_t bytes = (size_t)builder.used * sizeof(float);
    EsStatus status = es_device_allocate(act->device, bytes, &act->memory);
    if (status != ES_STATUS_OK) {
        es_policy_act_destroy(act);
        return status;
    }
    builder.memory = act->memory;
    builder.used = 0;
    build(&builder, act, spec, graph->size.n_rows);
    *act_out = act;
    return ES_STATUS_OK;
}

void es_policy_act_destroy(EsPolicyAct *act) {
    if (act != NULL) {
        es_device_release(act->device, act->memory);
        es_release(act);
    }
}

int es_policy_act_launches(const EsPolicyAct *act) { return act->n_before + (act->is_set ? 3 : 4); }

// --- a step ---

static void run(EsPolicyAct *act, EsStream *stream) {
    const EsActKernels *kernels = es_policy_act_kernels_cuda();
    for (int i = 0; i < act->n_before; i++) {
        kernels->run_layer(stream, &act->before[i], act->is_tf32);
    }
    kernels->run_lstm(stream, &act->lstm, act->is_tf32);
    kernels->run_layer(stream, &act->first, act->is_tf32);
    if (act->is_set) {
        kernels->run_last(stream, &act->second, &act->tail, act->is_tf32);
    } else {
        kernels->run_layer(stream, &act->second, act->is_tf32);
        kernels->run_tail(stream, &act->tail);
    }
}

// The first logit of each head; of version 2 in the table.
static void place_logits(EsPolicyAct *act, float *logits) {
    float *first = logits;
    for (int head = 0; head < ES_N_HEADS; head++) {
        if (act->is_set) {
            int is_op = head == ES_HEAD_OP;
            act->second.job[head].y =
                is_op ? logits : logits + ES_N_GROWTH_OPS + es_slot_first_logit(head);
        } else if (head == ES_HEAD_BLUEPRINT) {
            act->tail.logits = first;
        } else {
            act->second.job[head].y = first;
        }
        first += act->shape.head_size[head];
    }
}

void es_policy_act_peek(EsPolicyAct *act, EsStream *stream, const EsPolicyInputs *inputs,
                        const uint8_t *is_reset, const float *h, const float *c, float *logits,
                        float *value) {
    ES_ASSERT((uintptr_t)h % 16 == 0);
    act->observed->input.x = inputs->features;
    if (act->is_set) {
        act->embedded->input.x = inputs->slots;
    }
    act->embedded->input.blueprints = inputs->blueprints;
    act->gates->input.x = h;
    act->gates->input.is_reset = is_reset;
    act->lstm.c_before = c;
    act->lstm.is_reset = is_reset;
    place_logits(act, logits);
    act->tail.value = value;
    run(act, stream);
}

void es_policy_act_queue(EsPolicyAct *act, EsStream *stream, const EsPolicyInputs *inputs,
                         const uint8_t *is_reset, float *h, float *c, float *logits, float *value) {
    act->tail.h = h;
    act->tail.c = c;
    es_policy_act_peek(act, stream, inputs, is_reset, h, c, logits, value);
    act->tail.h = act->tail.c = NULL;
}

// --- acting ---

// Opens the fused step if the device has one; the obstacle is reported otherwise.
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

EsStatus es_policy_acting_create(EsPolicyNetwork *network) {
    EsPolicyActing *acting = &network->acting;
    const EsPolicyGraph *p = &acting->graph;
    EsDevice *device = network->device;
    EsPlanOptions options = es_plan_defaults();
    ES_TRY(es_plan_create(p->graph, network->store, &options, &acting->plan));
    EsPlan *plan = acting->plan;
    ES_TRY(es_staging_open_input(&acting->features, device, plan, p->graph, p->features));
    ES_TRY(es_staging_open_input(&acting->blueprints, device, plan, p->graph, p->blueprints));
    if (p->slots != ES_NO_VALUE) {
        ES_TRY(es_staging_open_input(&acting->slots, device, plan, p->graph, p->slots));
    }
    ES_TRY(es_staging_open_input(&acting->h, device, plan, p->graph, p->h_start));
    ES_TRY(es_staging_open_input(&acting->c, device, plan, p->graph, p->c_start));
    ES_TRY(es_staging_open_view(&acting->logits, es_plan_tensor(plan, p->logits)));
    ES_TRY(es_staging_open_view(&acting->value, es_plan_tensor(plan, p->value)));
    acting->h_after = es_plan_tensor(plan, p->h);
    acting->c_after = es_plan_tensor(plan, p->c);
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_F32, 2, (int64_t[]){1, network->spec.n_hidden},
                                   &acting->zeros));
    return open_act(network);
}

void es_policy_acting_destroy(EsPolicyActing *acting) {
    EsStagingTensor *const staged_tensors[] = {
        &acting->features, &acting->blueprints, &acting->slots, &acting->logits,
        &acting->value,    &acting->h,          &acting->c};
    for (size_t i = 0; i < ES_COUNT_OF(staged_tensors); i++) {
        es_staging_close(staged_tensors[i]);
    }
    es_graph_capture_destroy(&acting->steps);
    es_graph_capture_destroy(&acting->peeks);
    es_policy_act_destroy(acting->act);
    es_device_destroy_tensor(&acting->zeros);
    es_plan_destroy(acting->plan);
    es_policy_graph_destroy(&acting->graph);
}

EsStatus es_policy_inference_reset(EsPolicyNetwork *network, const uint8_t *is_reset) {
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

static EsPolicyInputs inputs_of(const EsPolicyActing *acting) {
    return (EsPolicyInputs){.features = acting->features.tensor.data,
                            .slots = acting->slots.tensor.data,
                            .blueprints = acting->blueprints.tensor.data};
}

static EsStatus queue_step(void *context, EsStream *stream) {
    EsPolicyActing *acting = context;
    EsPolicyInputs inputs = inputs_of(acting);
    es_policy_act_queue(acting->act, stream, &inputs, NULL, acting->h.tensor.data,
                        acting->c.tensor.data, acting->logits.tensor.data,
                        acting->value.tensor.data);
    return ES_STATUS_OK;
}

static EsStatus queue_peek(void *context, EsStream *stream) {
    EsPolicyActing *acting = context;
    EsPolicyInputs inputs = inputs_of(acting);
    es_policy_act_peek(acting->act, stream, &inputs, NULL, acting->h.tensor.data,
                       acting->c.tensor.data, acting->logits.tensor.data,
                       acting->value.tensor.data);
    return ES_STATUS_OK;
}

// One step of the inputs that stand in the ports.
static EsStatus run_step(EsPolicyActing *acting, EsStream *stream, int is_peek) {
    if (acting->act != NULL) {
        return es_graph_capture_run(is_peek ? &acting->peeks : &acting->steps, stream, 1,
                                    is_peek ? queue_peek : queue_step, acting);
    }
    ES_TRY(es_plan_run(acting->plan, stream));
    return is_peek ? ES_STATUS_OK : move_on(acting, stream);
}

// Observations [E, D] to the inputs: whole rows, or the host's part and those of the slots.
static void stage_features(const EsPolicyNetwork *network, const float *features) {
    const EsPolicyActing *acting = &network->acting;
    if (!network->spec.is_set) {
        memcpy(acting->features.host, features, es_tensor_bytes(&acting->features.tensor));
        return;
    }
    int64_t D = es_policy_spec_observed(&network->spec), D_host = ES_SET_OBSERVATION_HOST;
    float *hosts = acting->features.host, *slots = acting->slots.host;
    for (int64_t e = 0; e < network->n_envs; e++) {
        const float *row = features + e * D;
        memcpy(hosts + e * D_host, row, sizeof *row * (size_t)D_host);
        memcpy(slots + e * (D - D_host), row + D_host, sizeof *row * (size_t)(D - D_host));
    }
}

EsStatus es_policy_inference_act(EsPolicyNetwork *network, const float *features,
                                 const int32_t *blueprints, int is_peek, EsOutputs *outputs) {
    EsPolicyActing *acting = &network->acting;
    EsStream *stream = network->stream;
    stage_features(network, features);
    memcpy(acting->blueprints.host, blueprints, es_tensor_bytes(&acting->blueprints.tensor));
    ES_TRY(es_staging_send(&acting->features, stream));
    ES_TRY(es_staging_send(&acting->blueprints, stream));
    ES_TRY(es_staging_send(&acting->slots, stream));
    ES_TRY(run_step(acting, stream, is_peek));
    ES_TRY(es_staging_fetch(&acting->logits, stream));
    ES_TRY(es_staging_fetch(&acting->value, stream));
    ES_TRY(es_stream_synchronize(stream));
    *outputs = (EsOutputs){.logits = acting->logits.host, .value = acting->value.host};
    return ES_STATUS_OK;
}

EsPolicyInputs es_policy_inference_inputs(const EsPolicyNetwork *network) {
    return inputs_of(&network->acting);
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

EsStatus es_policy_inference_act_queued(EsPolicyNetwork *network, EsStream *stream,
                                        const uint8_t *is_reset, const float **logits,
                                        const float **value) {
    EsPolicyActing *acting = &network->acting;
    const EsDeviceInfo *info = es_device_info(network->device);
    const EsDeviceInfo *other = es_device_info(es_stream_device(stream));
    ES_ASSERT(info->kind == other->kind && info->index == other->index);
    *logits = acting->logits.tensor.data;
    *value = acting->value.tensor.data;
    if (acting->act != NULL) {
        EsPolicyInputs inputs = inputs_of(acting);
        es_policy_act_queue(acting->act, stream, &inputs, is_reset, acting->h.tensor.data,
                            acting->c.tensor.data, acting->logits.tensor.data,
                            acting->value.tensor.data);
        return es_device_status(network->device);
    }
    if (is_reset != NULL) {
        queue_reset(network, stream, is_reset);
    }
    ES_TRY(es_plan_run(acting->plan, stream));
    return move_on(acting, stream);
}

// --- looking at it ---

EsActingReport es_policy_inference_report(const EsPolicyNetwork *network) {
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

EsRecurrentHealth es_policy_inference_health(const EsPolicyNetwork *network) {
    const EsPolicyActing *acting = &network->acting;
    EsRecurrentHealth health = {0};
    if (es_staging_fetch(&acting->h, network->stream) != ES_STATUS_OK ||
        es_staging_fetch(&acting->c, network->stream) != ES_STATUS_OK ||
        es_stream_synchronize(network->stream) != ES_STATUS_OK) {
        health.has_nan = 1;
        return health;
    }
    int64_t E = network->n_envs, H = network->spec.n_hidden;
    measure(acting->h.host, E, H, &health.h_rms, &health.h_env_rms_max, &health);
    measure(acting->c.host, E, H, &health.c_rms, &health.c_env_rms_max, &health);
    return health;
}
