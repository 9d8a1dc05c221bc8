// A PPO update on the model's device: the order of queueing, copies and waits. Rows that a device
// wrote are read where they are; others are copied up.
//
// Each pass is queued behind the step before it, and the numbers of both come back in one copy: the
// CPU waits once per pass, and once after the last step.
#include <string.h>

#include "base/memory.h"
#include "learning/ppo_internal.h"
#include "learning/ppo_report.h"

struct EsPpoDevice {
    EsDevice *device;   // borrowed
    EsRolloutView rows; // of this update
    void *uploaded;     // owned, device memory: rows that came from the CPU; NULL before the first
    void *slab;         // owned, device memory: the arrays below
    float *advantage;
    float *value_target;
    double *reference;       // [R, K]
    double *log_probability; // [R, K]
    EsPpoSpace space;
    EsPpoNumbers *numbers; // owned, CPU memory for copies
};

// --- life ---

// Give every array its place in the slab; with slab NULL, measure it.
static size_t lay_out(EsPpoDevice *d, const EsRolloutShape *shape) {
    size_t rows = (size_t)(shape->n_steps * shape->n_envs), used_bytes = 0;
    size_t heads = rows * (size_t)shape->policy.n_heads;
#define TAKE(field, bytes)                                                                         \
    do {                                                                                           \
        size_t offset = es_slab_add(&used_bytes, (bytes));                                         \
        d->field = d->slab == NULL ? NULL : (void *)((unsigned char *)d->slab + offset);           \
    } while (0)
    TAKE(advantage, rows * sizeof *d->advantage);
    TAKE(value_target, rows * sizeof *d->value_target);
    TAKE(reference, heads * sizeof *d->reference);
    TAKE(log_probability, heads * sizeof *d->log_probability);
    TAKE(space.entropy, heads * sizeof *d->space.entropy);
    TAKE(space.n_legal, heads * sizeof *d->space.n_legal);
    TAKE(space.head_parts, ES_POLICY_HEADS_MAX * ES_PPO_CHUNKS * sizeof *d->space.head_parts);
    TAKE(space.row_parts, ES_PPO_CHUNKS * sizeof *d->space.row_parts);
    TAKE(space.numbers, sizeof *d->space.numbers);
#undef TAKE
    return used_bytes;
}

static EsStatus create_memory(EsDevice *device, const EsRolloutShape *shape, EsPpoDevice **space) {
    EsPpoDevice *d = NULL;
    ES_TRY(es_allocate(sizeof *d, (void **)&d));
    *space = d; // ended with its EsPpo, whole or not
    d->device = device;
    ES_TRY(es_device_allocate(device, lay_out(d, shape), &d->slab));
    lay_out(d, shape);
    return es_device_allocate_host(device, sizeof *d->numbers, (void **)&d->numbers);
}

void es_ppo_device_destroy(EsPpoDevice *d) {
    if (d != NULL) {
        es_device_release_host(d->device, d->numbers);
        es_device_release(d->device, d->slab);
        es_device_release(d->device, d->uploaded);
        es_release(d);
    }
}

// The memory, on the device of the model that trains now.
static EsStatus open_memory(EsPpo *ppo, const EsPpoDeviceModel *model) {
    EsDevice *device = es_stream_device(model->stream);
    if (ppo->device != NULL && ppo->device->device == device && ppo->device->numbers != NULL) {
        return ES_STATUS_OK;
    }
    es_ppo_device_destroy(ppo->device);
    ppo->device = NULL;
    return create_memory(device, &ppo->shape, &ppo->device);
}

// --- rows ---

static size_t bytes_between(const void *from, const void *to) {
    return (size_t)((const unsigned char *)to - (const unsigned char *)from);
}

// All columns but the finished ones, in one copy; nothing where they are on the device already.
static EsStatus place_rows(EsPpoDevice *d, EsStream *stream, const EsRollout *rollout) {
    if (rollout->on_device != NULL) {
        d->rows = *rollout->on_device;
        return ES_STATUS_OK;
    }
    if (d->uploaded == NULL) {
        ES_TRY(es_device_allocate(d->device, rollout->slab_bytes, &d->uploaded));
    }
    es_rollout_view_bind(&d->rows, d->uploaded, &rollout->shape);
    return es_stream_copy(stream, d->uploaded, rollout->slab,
                          bytes_between(rollout->slab, rollout->scaled_reward), ES_COPY_TO_DEVICE);
}

// The finished columns, in one copy.
static EsStatus download(const EsPpoDevice *d, EsStream *stream, EsRollout *rollout) {
    size_t bytes = rollout->slab_bytes - bytes_between(rollout->slab, rollout->scaled_reward);
    return es_stream_copy(stream, rollout->scaled_reward, d->rows.scaled_reward, bytes,
                          ES_COPY_TO_HOST);
}

EsStatus es_ppo_device_finish(EsPpoUpdate *u) {
    const EsPpoDeviceModel *model = u->model->on_device;
    EsStream *stream = model->stream;
    EsRollout *rollout = u->rollout;
    ES_ASSERT(rollout->first_logit == NULL); // a thread has room for a head of ES_CHOICE_MAX values
    ES_TRY(open_memory(u->ppo, model));
    EsPpoDevice *d = u->ppo->device;
    EsAdvantageOptions options = es_ppo_advantage_options(u->ppo);
    ES_TRY(place_rows(d, stream, rollout));
    es_ppo_finish_cuda(stream, &d->rows, &options);
    ES_TRY(download(d, stream, rollout));
    ES_TRY(es_stream_synchronize(stream));
    return es_device_status(d->device);
}

// --- passes ---

// The update as the kernels see it; the first pass computes the anchor.
static EsPpoProblem pose(const EsPpoUpdate *u, int is_first) {
    const EsPpoDevice *d = u->ppo->device;
    const EsPpoDeviceModel *model = u->model->on_device;
    return (EsPpoProblem){.rollout = d->rows,
                          .settings = u->ppo->settings,
                          .coefficients = u->batch.coefficients,
                          .outputs = model->outputs,
                          .shard_envs = model->shard_envs,
                          .advantage = d->advantage,
                          .value_target = d->value_target,
                          .reference = is_first ? NULL : d->reference};
}

static EsStatus queue_forward(const EsPpoUpdate *u) {
    const EsPpoModel *model = u->model;
    return model->on_device->forward(model->context, (uint32_t)u->ppo->state.n_passes);
}

// Loss of the outputs, and how far off the auxiliary ones are at first.
static void queue_loss(const EsPpoUpdate *u, int is_first) {
    const EsPpoDevice *d = u->ppo->device;
    EsStream *stream = u->model->on_device->stream;
    EsPpoProblem problem = pose(u, is_first);
    es_ppo_loss_cuda(stream, &problem, is_first ? d->reference : d->log_probability, &d->space);
    if (is_first && problem.outputs.auxiliary != NULL) {
        es_ppo_compare_targets_cuda(stream, &problem, &d->space);
    }
}

static EsStatus queue_step(const EsPpoUpdate *u, int is_first) {
    const EsPpoDevice *d = u->ppo->device;
    const EsPpoDeviceModel *model = u->model->on_device;
    EsPpoProblem problem = pose(u, 0);
    es_ppo_gradient_cuda(model->stream, &problem, is_first ? d->reference : d->log_probability,
                         &d->space, &model->gradients);
    return model->step(u->model->context, &d->space.numbers->step);
}

// Waits for the queued work.
static EsStatus fetch(const EsPpoUpdate *u) {
    const EsPpoDevice *d = u->ppo->device;
    EsStream *stream = u->model->on_device->stream;
    ES_TRY(
        es_stream_copy(stream, d->numbers, d->space.numbers, sizeof *d->numbers, ES_COPY_TO_HOST));
    ES_TRY(es_stream_synchronize(stream));
    return es_device_status(d->device);
}

EsStatus es_ppo_device_passes(EsPpoUpdate *u) {
    EsPpo *ppo = u->ppo;
    EsPpoDevice *d = ppo->device;
    const EsPpoSettings *s = &ppo->settings;
    const EsPpoDeviceModel *model = u->model->on_device;
    ES_TRY(model->begin(u->model->context, &d->rows, s->rate, s->max_norm));
    ES_TRY(queue_forward(u));
    ES_TRY(es_ppo_prepare_targets(u)); // while the first pass runs
    es_ppo_scale_cuda(model->stream, &d->rows, &u->scales, d->advantage, d->value_target);
    queue_loss(u, 1);
    ES_TRY(fetch(u));
    for (int k = 0; k < s->n_epochs; k++) {
        EsPpoLoss loss = d->numbers->loss;
        ppo->state.n_passes++;
        if (!es_ppo_should_continue(u, &loss, k == 0)) {
            break;
        }
        if (k == 0 && model->outputs.auxiliary != NULL) {
            es_ppo_report_auxiliary(u->report, &d->numbers->targets);
        }
        ES_TRY(queue_step(u, k == 0));
        if (k + 1 < s->n_epochs) {
            ES_TRY(queue_forward(u));
            queue_loss(u, 0);
        }
        ES_TRY(fetch(u));
        if (!es_ppo_count_step(u, &loss, &d->numbers->step)) {
            break; // the weights stay: the pass behind the step says nothing new and is not counted
        }
    }
    return ES_STATUS_OK;
}
