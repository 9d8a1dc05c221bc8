// The layers of an acting step as jobs: which weights, which inputs, where to. The kernels are in
// policy_act_cuda.cu.
//
//     features   u = W [observation; embeddings], and what the gates get from h; sums of u
//     projection x = W ReLU(LN(u)), only where F is not H
//     lstm       h, c from x = ReLU(LN(u)); sums of h
//     first      first layers of all heads and the value, of z = LN(h) + x
//     second     the blueprint's and the value's; the other heads' last
//     tail       the blueprint's last, the value's last two; h and c into place
#include "control/policy/policy_act.h"

#include <stdio.h>

#include "base/memory.h"
#include "control/policy/policy_act_internal.h"
#include "growth/rules/growth_names.h"

struct EsPolicyAct {
    EsDevice *device; // borrowed
    int is_tf32, has_projection;
    EsPolicyShape shape;
    void *memory; // owned: all intermediate values
    EsActLayer features, projection, first, second;
    EsActLstm lstm;
    EsActTail tail;
};

// Finds weights by name, and gives out memory: first counts, then cuts what was allocated.
typedef struct Builder {
    const EsGraph *graph;
    const float *parameters;
    float *memory; // NULL while counting
    int64_t used;
} Builder;

// Names are those of policy_graph.c, which made the graph.
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
    input.gamma = parameter(builder, norm, "gamma");
    input.beta = parameter(builder, norm, "beta");
    input.sums = sums;
    input.sum_width = sum_width;
    return input;
}

// --- layers ---

// Rows of y are a multiple of four floats apart.
static EsActJob *add_product(EsActLayer *layer, const float *weight, const float *bias,
                             EsActInput input, int n_outputs) {
    ES_ASSERT(layer->n_jobs < ES_ACT_JOBS_MAX);
    EsActJob *job = &layer->job[layer->n_jobs++];
    *job = (EsActJob){.input = input,
                      .weight = weight,
                      .bias = bias,
                      .n_outputs = n_outputs,
                      .pitch = (n_outputs + 3) / 4 * 4};
    return job;
}

static EsActJob *add_job(const Builder *builder, EsActLayer *layer, const char *name,
                         EsActInput input, int n_outputs) {
    return add_product(layer, parameter(builder, name, "weight"), parameter(builder, name, "bias"),
                       input, n_outputs);
}

static float *give_output(Builder *builder, const EsActLayer *layer, EsActJob *job) {
    job->y = cut(builder, layer->n_rows * job->pitch);
    return job->y;
}

static float *give_sums(Builder *builder, const EsActLayer *layer, EsActJob *job) {
    int n_tiles = count_tiles(job->n_outputs, ES_ACT_COLUMNS);
    job->sums = cut(builder, layer->n_rows * n_tiles * 2);
    return job->sums;
}

// Returns x as the LSTM reads it.
static EsActInput build_features(Builder *builder, EsPolicyAct *act, const EsPolicySpec *spec) {
    const EsGraph *graph = builder->graph;
    EsValueId table = es_graph_find(graph, "blueprint_embedding.table");
    ES_ASSERT(table != ES_NO_VALUE);
    int n_observed = es_observation_size(spec->n_slots);
    int embedding_width = (int)graph->values[table].dim[2];
    EsActInput observed = {.source = ES_ACT_OBSERVED,
                           .width = n_observed + embedding_width * spec->n_slots,
                           .pitch = n_observed,
                           .embedding = builder->parameters + graph->values[table].slab_offset,
                           .n_slots = spec->n_slots,
                           .n_blueprints = (int)graph->values[table].dim[1],
                           .embedding_width = embedding_width};
    EsActLayer *layer = &act->features;
    EsActJob *job = add_job(builder, layer, "feature", observed, spec->n_features);
    EsActInput x = plain(give_output(builder, layer, job), spec->n_features);
    x.pitch = job->pitch;
    x = rectified(
        normalised(builder, x, "feature_norm", give_sums(builder, layer, job), ES_ACT_COLUMNS));
    if (!act->has_projection) {
        return x;
    }
    job = add_job(builder, &act->projection, "projection", x, spec->n_hidden);
    return plain(give_output(builder, &act->projection, job), spec->n_hidden);
}

// Returns z = LN(h) + x.
static EsActInput build_lstm(Builder *builder, EsPolicyAct *act, EsActInput x) {
    EsActLstm *lstm = &act->lstm;
    int64_t E = lstm->n_rows;
    int H = lstm->n_units;
    // h is the caller's
    EsActJob *gates = add_product(&act->features, parameter(builder, "lstm", "weight_hh"),
                                  parameter(builder, "lstm", "bias_hh"), plain(NULL, H), 4 * H);
    lstm->x = x;
    lstm->gates_h = give_output(builder, &act->features, gates);
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
    int H = z.width;
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        int is_deep = head == ES_HEAD_BLUEPRINT, n = act->shape.head_size[head];
        char prefix[ES_NAME_BYTES / 2], name[ES_NAME_BYTES - 8];
        snprintf(prefix, sizeof prefix, "head.%s", es_head_name(head));
        snprintf(name, sizeof name, "%s.linear0", prefix);
        EsActJob *job = add_job(builder, &act->first, name, z, is_deep ? H : H / 2);
        EsActInput y = rectified(plain(give_output(builder, &act->first, job), job->n_outputs));
        snprintf(name, sizeof name, "%s.linear1", prefix);
        job = add_job(builder, &act->second, name, y, is_deep ? H / 2 : n);
        if (!is_deep) {
            job->pitch = act->shape.n_logits; // y is the caller's
            continue;
        }
        snprintf(name, sizeof name, "%s.linear2", prefix);
        act->tail.head_x = give_output(builder, &act->second, job);
        act->tail.head_weight = parameter(builder, name, "weight");
        act->tail.head_bias = parameter(builder, name, "bias");
        act->tail.n_logits = n;
        act->tail.pitch = act->shape.n_logits;
    }
}

static void build_value(Builder *builder, EsPolicyAct *act, EsActInput z) {
    int H = z.width;
    EsActTail *tail = &act->tail;
    EsActJob *job = add_job(builder, &act->first, "value.linear0", z, H / 2);
    EsActInput y = plain(give_output(builder, &act->first, job), H / 2);
    y = rectified(normalised(builder, y, "value.norm0", give_sums(builder, &act->first, job),
                             ES_ACT_COLUMNS));
    job = add_job(builder, &act->second, "value.linear1", y, H / 4);
    job->pitch = H / 4;
    tail->value_x = give_output(builder, &act->second, job);
    tail->gamma = parameter(builder, "value.norm1", "gamma");
    tail->beta = parameter(builder, "value.norm1", "beta");
    tail->value_weight2 = parameter(builder, "value.linear2", "weight");
    tail->value_bias2 = parameter(builder, "value.linear2", "bias");
    tail->value_weight3 = parameter(builder, "value.linear3", "weight");
    tail->value_bias3 = parameter(builder, "value.linear3", "bias");
    tail->h_after = act->lstm.h_after;
    tail->c_after = act->lstm.c_after;
}

static void build(Builder *builder, EsPolicyAct *act, const EsPolicySpec *spec, int64_t n_rows) {
    EsActLayer *const layers[] = {&act->features, &act->projection, &act->first, &act->second};
    for (size_t i = 0; i < ES_COUNT_OF(layers); i++) {
        *layers[i] = (EsActLayer){.n_rows = n_rows};
    }
    act->lstm = (EsActLstm){.n_rows = n_rows, .n_units = spec->n_hidden};
    act->tail = (EsActTail){.n_rows = n_rows, .n_units = spec->n_hidden};
    EsActInput z = build_lstm(builder, act, build_features(builder, act, spec));
    build_heads(builder, act, z);
    build_value(builder, act, z);
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
    act->has_projection = spec->n_features != spec->n_hidden;
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

int es_policy_act_launches(const EsPolicyAct *act) { return act->has_projection ? 6 : 5; }

// --- a step ---

static void run(EsPolicyAct *act, EsStream *stream) {
    const EsActKernels *kernels = es_policy_act_kernels_cuda();
    kernels->run_layer(stream, &act->features, act->is_tf32);
    if (act->has_projection) {
        kernels->run_layer(stream, &act->projection, act->is_tf32);
    }
    kernels->run_lstm(stream, &act->lstm, act->is_tf32);
    kernels->run_layer(stream, &act->first, act->is_tf32);
    kernels->run_layer(stream, &act->second, act->is_tf32);
    kernels->run_tail(stream, &act->tail);
}

void es_policy_act_peek(EsPolicyAct *act, EsStream *stream, const float *features,
                        const int32_t *blueprints, const uint8_t *is_reset, const float *h,
                        const float *c, float *logits, float *value) {
    ES_ASSERT((uintptr_t)h % 16 == 0);
    act->features.job[0].input.x = features;
    act->features.job[0].input.blueprints = blueprints;
    act->features.job[1].input.x = h;
    act->features.job[1].input.is_reset = is_reset;
    act->lstm.c_before = c;
    act->lstm.is_reset = is_reset;
    float *first = logits;
    for (int head = 0; head < ES_N_HEADS; head++) {
        if (head == ES_HEAD_BLUEPRINT) {
            act->tail.logits = first;
        } else {
            act->second.job[head].y = first;
        }
        first += act->shape.head_size[head];
    }
    act->tail.value = value;
    run(act, stream);
}

void es_policy_act_queue(EsPolicyAct *act, EsStream *stream, const float *features,
                         const int32_t *blueprints, const uint8_t *is_reset, float *h, float *c,
                         float *logits, float *value) {
    act->tail.h = h;
    act->tail.c = c;
    es_policy_act_peek(act, stream, features, blueprints, is_reset, h, c, logits, value);
    act->tail.h = act->tail.c = NULL;
}
