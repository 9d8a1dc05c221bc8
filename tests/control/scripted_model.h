// A trainee whose outputs are written down beforehand, in host memory and on a device: both forms
// of an update then see the same numbers, and their gradients are kept.
//
// R rows, A logits of a row, S targets.
#ifndef ES_TESTS_CONTROL_SCRIPTED_MODEL_H
#define ES_TESTS_CONTROL_SCRIPTED_MODEL_H

#include "control/ppo_case.h"

enum { SCRIPT_PASSES = 6 };

typedef struct ScriptedModel {
    EsRolloutShape shape;
    EsOutputs outputs[SCRIPT_PASSES];   // owned, in the order of the rollout
    EsOutputs gradients[SCRIPT_PASSES]; // owned: what the steps were given
    int n_begun, n_forward, n_steps;
    int spoilt_step; // its gradients are said to be not finite; -1: none
    // on a device
    EsPpoDeviceModel on_device;
    float *memory; // owned, device: outputs, then gradients
    float *staged; // owned: one set of outputs in the order of shards
    EsStepReport report;
} ScriptedModel;

static int64_t script_rows(const ScriptedModel *s) { return s->shape.n_steps * s->shape.n_envs; }

static EsOutputs allocate_script(const EsRolloutShape *shape) {
    size_t R = (size_t)(shape->n_steps * shape->n_envs);
    return (EsOutputs){.logits = calloc(R * (size_t)shape->policy.n_logits, sizeof(float)),
                       .value = calloc(R, sizeof(float)),
                       .action_value = calloc(R, sizeof(float)),
                       .auxiliary = calloc(R * (size_t)shape->n_targets, sizeof(float))};
}

// Random outputs that move on by `drift` from pass to pass.
static ScriptedModel create_script(const EsRolloutShape *shape, float drift) {
    ScriptedModel s = {.shape = *shape, .spoilt_step = -1};
    int64_t R = script_rows(&s), A = shape->policy.n_logits;
    for (int pass = 0; pass < SCRIPT_PASSES; pass++) {
        EsOutputs *o = &s.outputs[pass];
        *o = allocate_script(shape);
        s.gradients[pass] = allocate_script(shape);
        for (int64_t i = 0; i < R * A; i++) {
            o->logits[i] = 2.0f * draw_uniform(300, i) + drift * (float)pass * draw_uniform(301, i);
        }
        for (int64_t i = 0; i < R; i++) {
            o->value[i] = draw_uniform(302, i) + drift * (float)pass;
            o->action_value[i] = draw_uniform(303, i) - drift * (float)pass;
        }
        for (int64_t i = 0; i < R * shape->n_targets; i++) {
            o->auxiliary[i] = 12.0f * draw_uniform(304, i);
        }
    }
    return s;
}

static void free_outputs(EsOutputs *outputs) {
    free(outputs->logits);
    free(outputs->value);
    free(outputs->action_value);
    free(outputs->auxiliary);
}

static void destroy_script(ScriptedModel *s) {
    for (int pass = 0; pass < SCRIPT_PASSES; pass++) {
        free_outputs(&s->outputs[pass]);
        free_outputs(&s->gradients[pass]);
    }
    if (s->on_device.stream != NULL) {
        es_device_release(es_stream_device(s->on_device.stream), s->memory);
        es_stream_destroy(s->on_device.stream);
    }
    free(s->staged);
}

// --- in host memory ---

static EsStatus script_begin(void *context, const EsRollout *rollout) {
    ScriptedModel *s = context;
    (void)rollout;
    s->n_begun++;
    s->n_forward = s->n_steps = 0;
    return ES_STATUS_OK;
}

static EsStatus script_forward(void *context, uint32_t pass, EsOutputs *outputs) {
    ScriptedModel *s = context;
    (void)pass;
    *outputs = s->outputs[s->n_forward++];
    return ES_STATUS_OK;
}

static EsStepReport script_report(const ScriptedModel *s) {
    return (EsStepReport){.gradient_norm = 1 + s->n_steps,
                          .head_norm = {0.5 * s->n_steps, 2, 3},
                          .value_norm = 0.25,
                          .n_nonfinite = s->n_steps == s->spoilt_step ? 3 : 0};
}

static EsStatus script_step(void *context, const EsOutputs *gradients, float rate, float max_norm,
                            EsStepReport *report) {
    ScriptedModel *s = context;
    EsOutputs *kept = &s->gradients[s->n_steps];
    size_t row_bytes = (size_t)script_rows(s) * sizeof(float);
    (void)rate;
    (void)max_norm;
    memcpy(kept->logits, gradients->logits, row_bytes * (size_t)s->shape.policy.n_logits);
    memcpy(kept->value, gradients->value, row_bytes);
    memcpy(kept->action_value, gradients->action_value, row_bytes);
    memcpy(kept->auxiliary, gradients->auxiliary, row_bytes * (size_t)s->shape.n_targets);
    *report = script_report(s);
    s->n_steps++;
    return ES_STATUS_OK;
}

static EsPpoModel script_interface(ScriptedModel *s) {
    return (EsPpoModel){.context = s,
                        .begin = script_begin,
                        .forward = script_forward,
                        .step = script_step,
                        .on_device = s->on_device.stream != NULL ? &s->on_device : NULL};
}

// --- on a device ---

// Rows of one set in the order of shards, those of no environment among them.
static int64_t script_shard_rows(const ScriptedModel *s) {
    int64_t N = s->on_device.shard_envs;
    return (s->shape.n_envs + N - 1) / N * N * s->shape.n_steps;
}

// The arrays of one set, one after another.
static EsOutputs script_bind(const ScriptedModel *s, float *memory) {
    int64_t rows = script_shard_rows(s);
    EsOutputs o = {.logits = memory};
    o.value = o.logits + rows * s->shape.policy.n_logits;
    o.action_value = o.value + rows;
    o.auxiliary = o.action_value + rows;
    return o;
}

static size_t script_bytes(const ScriptedModel *s) {
    int width = s->shape.policy.n_logits + 2 + s->shape.n_targets;
    return (size_t)(script_shard_rows(s) * width) * sizeof(float);
}

// Between the order of the rollout and that of the shards.
static void script_reorder(const ScriptedModel *s, const EsOutputs *rows, const EsOutputs *shards,
                           int to_shards) {
    const int64_t widths[] = {s->shape.policy.n_logits, 1, 1, s->shape.n_targets};
    float *const from[] = {rows->logits, rows->value, rows->action_value, rows->auxiliary};
    float *const to[] = {shards->logits, shards->value, shards->action_value, shards->auxiliary};
    for (int64_t row = 0; row < script_rows(s); row++) {
        int64_t there = es_output_row(&s->shape, s->on_device.shard_envs, row);
        for (int k = 0; k < 4; k++) {
            float *a = from[k] + row * widths[k], *b = to[k] + there * widths[k];
            memcpy(to_shards ? b : a, to_shards ? a : b, (size_t)widths[k] * sizeof(float));
        }
    }
}

static EsStatus script_begin_device(void *context, const EsRolloutView *rows, float rate,
                                    float max_norm) {
    (void)rows;
    (void)rate;
    (void)max_norm;
    return script_begin(context, NULL);
}

static EsStatus script_forward_device(void *context, uint32_t pass) {
    ScriptedModel *s = context;
    EsOutputs staged = script_bind(s, s->staged);
    (void)pass;
    script_reorder(s, &s->outputs[s->n_forward++], &staged, 1);
    ES_TRY(es_stream_copy(s->on_device.stream, s->memory, s->staged, script_bytes(s),
                          ES_COPY_TO_DEVICE));
    return es_stream_synchronize(s->on_device.stream);
}

static EsStatus script_step_device(void *context, EsStepReport *report) {
    ScriptedModel *s = context;
    EsStream *stream = s->on_device.stream;
    EsOutputs staged = script_bind(s, s->staged);
    s->report = script_report(s);
    ES_TRY(es_stream_copy(stream, s->staged, s->on_device.gradients.logits, script_bytes(s),
                          ES_COPY_TO_HOST));
    ES_TRY(es_stream_copy(stream, report, &s->report, sizeof s->report, ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_synchronize(stream));
    script_reorder(s, &s->gradients[s->n_steps++], &staged, 0);
    return ES_STATUS_OK;
}

// Give the script a device form with shards of shard_envs environments.
static void move_script(ScriptedModel *s, EsDevice *device, int64_t shard_envs) {
    void *memory;
    s->on_device = (EsPpoDeviceModel){.shard_envs = shard_envs,
                                      .begin = script_begin_device,
                                      .forward = script_forward_device,
                                      .step = script_step_device};
    size_t bytes = script_bytes(s);
    REQUIRE_OK(es_stream_create(device, &s->on_device.stream));
    REQUIRE_OK(es_device_allocate(device, 2 * bytes, &memory));
    s->memory = memory;
    s->staged = calloc(1, bytes);
    s->on_device.outputs = script_bind(s, s->memory);
    s->on_device.gradients = script_bind(s, s->memory + bytes / sizeof(float));
}

#endif
