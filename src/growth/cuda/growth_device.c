// The order of a step on a GPU, and the copy of its results to the CPU. growth_train.c,
// growth_validate.c, growth_weights.c and lifecycle.c are the specification of its pieces.
#include <stdio.h>
#include <string.h>

#include "growth/cuda/growth_on_device.h"
#include "tensor/profile.h"

static const EsGrowthDevice *view_device(const EsGrowth *growth) {
    return &growth->on_device->view;
}

static EsGrowthDeviceReport report_captures(const EsGrowth *growth) {
    const EsGrowthOnDevice *d = growth->on_device;
    EsGrowthDeviceReport report = {0};
    for (int work = 0; work < ES_GROWTH_WORK_COUNT; work++) {
        const EsGraphCapture *graph_capture = &d->graph_captures[work];
        report.n_captures += graph_capture->capture != NULL;
        report.n_replays += graph_capture->n_replays;
        report.capture_ms += graph_capture->capture_ms;
        if (graph_capture->fallback[0] != '\0') {
            report.n_fallbacks++;
            snprintf(report.fallback, sizeof report.fallback, "%s", graph_capture->fallback);
        }
    }
    report.is_fused = d->executor == es_growth_executor_fused();
    report.executor_bytes = d->executor->bytes(growth);
    if (!report.is_fused) {
        report.n_fallbacks++;
        snprintf(report.fallback, sizeof report.fallback, "%s", d->not_fused);
    }
    return report;
}

// --- the pieces of a step ---

static EsStatus queue_training(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    const EsGrowthArrays *arrays = &d->arrays;
    es_growth_cuda_begin_step(arrays, growth->stream);
    for (int64_t b = 0; b < arrays->step_batches; b++) {
        const int32_t *number = arrays->batch_number + b;
        ES_TRY(d->executor->train(growth, number));
        es_growth_cuda_update(arrays, number, growth->stream,
                              b % growth->options.gradient_stride == 0);
    }
    return ES_STATUS_OK;
}

static EsStatus queue_validation(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    const EsDataset *dataset = growth->model.dataset;
    const EsGrowthArrays *arrays = &d->arrays;
    es_growth_cuda_list_trials(arrays, growth->stream);
    ES_TRY(d->executor->evaluate(growth, NULL, 0, es_split_first(dataset, &dataset->validation),
                                 arrays->n_validation_images));
    es_growth_cuda_results(arrays, growth->stream);
    return ES_STATUS_OK;
}

// A part of a step, as it is captured.
typedef struct Job {
    EsGrowth *growth;
    EsGrowthWork work;
} Job;

static EsStatus queue_job(void *context, EsStream *stream) {
    const Job *job = context;
    const EsGrowthArrays *arrays = &job->growth->on_device->arrays;
    switch (job->work) {
    case ES_GROWTH_WORK_TRAIN:
        ES_TRY(queue_training(job->growth));
        break;
    case ES_GROWTH_WORK_VALIDATE:
        ES_TRY(queue_validation(job->growth));
        break;
    case ES_GROWTH_WORK_MEASURE:
        es_growth_cuda_measure(arrays, stream);
        break;
    default:
        es_growth_cuda_decide(arrays, stream);
        es_growth_cuda_weights(arrays, stream, 0);
        break;
    }
    return es_device_status(job->growth->device);
}

static EsStatus run_work(EsGrowth *growth, EsGrowthWork work) {
    Job job = {growth, work};
    return es_graph_capture_run(&growth->on_device->graph_captures[work], growth->stream,
                                growth->options.mode == ES_COMPILE_DEFAULT, queue_job, &job);
}

// --- the state that queued work starts from ---

EsStatus es_growth_on_device_ahead(EsGrowth *growth, EsGrowthState *state) {
    EsGrowthOnDevice *d = growth->on_device;
    *state = growth->shown.state;
    if (d->ahead == ES_GROWTH_AHEAD_FRESH) {
        *state = d->fresh;
    } else if (d->ahead == ES_GROWTH_AHEAD_COPY) {
        EsReadback *readback = &d->readback[(d->n_collected - 1) % 2];
        ES_TRY(es_event_synchronize(readback->arrived));
        ES_TRY(es_device_status(growth->device));
        es_growth_state_bind(state, (char *)readback->memory + d->packing.decided, d->arrays.n_envs,
                             d->arrays.n_slots);
    } else if (d->ahead != ES_GROWTH_AHEAD_MIRROR) {
        return ES_FAIL(ARGUMENT, "plans need the decision before they run: collect the decided "
                                 "state first");
    }
    return ES_STATUS_OK;
}

// --- queued steps ---

static EsStatus queue_reset(EsGrowth *growth, int64_t first_episode) {
    EsGrowthOnDevice *d = growth->on_device;
    int64_t period = es_growth_episode_period(&growth->options);
    d->step = 1;
    d->ahead = ES_GROWTH_AHEAD_FRESH;
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        int64_t id = first_episode + e % period;
        growth->episode_ids[e] = (int32_t)id;
    }
    es_growth_cuda_reset(&d->arrays, growth->stream, first_episode, period);
    es_growth_cuda_weights(&d->arrays, growth->stream, 1);
    return es_device_status(growth->device);
}

static EsStatus queue_advance(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    static const char *const phases[] = {"train", "validate", "measure"};
    EsReadback *readback = &d->readback[d->n_collected % 2];
    readback->has_times = d->step <= growth->options.settings.episode_steps;
    if (!readback->has_times) {
        return ES_STATUS_OK;
    }
    ES_TRY(d->executor->begin_step(growth));
    for (int work = ES_GROWTH_WORK_TRAIN; work <= ES_GROWTH_WORK_MEASURE; work++) {
        ES_TRY(es_event_record(readback->began[work], growth->stream));
        es_profile_range_begin(growth->device, growth->stream, phases[work]);
        EsStatus status = run_work(growth, (EsGrowthWork)work);
        es_profile_range_end(growth->device, growth->stream); // of failed work, too
        ES_TRY(status);
    }
    return es_event_record(readback->began[ES_GROWTH_WORK_MEASURE + 1], growth->stream);
}

static EsStatus queue_decision(EsGrowth *growth) {
    growth->on_device->step++;
    growth->on_device->ahead = ES_GROWTH_AHEAD_DECIDED;
    return run_work(growth, ES_GROWTH_WORK_DECIDE);
}

static EsStatus queue_report(EsGrowth *growth, EsGrowthMoment moment) {
    EsGrowthOnDevice *d = growth->on_device;
    int is_decided = moment == ES_GROWTH_DECIDED;
    if (is_decided && d->ahead == ES_GROWTH_AHEAD_DECIDED) {
        d->ahead = ES_GROWTH_AHEAD_REPORTED;
    }
    size_t bytes = is_decided ? es_growth_state_bytes(d->arrays.n_envs, d->arrays.n_slots)
                              : d->packing.measured_bytes;
    return es_stream_copy(growth->stream, (char *)d->packed + (is_decided ? d->packing.decided : 0),
                          d->live, bytes, ES_COPY_ON_DEVICE);
}

static EsStatus queue_collect(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    EsReadback *readback = &d->readback[d->n_collected % 2];
    if (d->n_collected > d->n_received) {
        return ES_FAIL(ARGUMENT, "the packed copy before this one was not received yet");
    }
    ES_TRY(es_stream_copy(growth->stream, readback->memory, d->packed, d->packing.bytes,
                          ES_COPY_TO_HOST));
    ES_TRY(es_event_record(readback->arrived, growth->stream));
    d->n_collected++;
    if (d->ahead == ES_GROWTH_AHEAD_REPORTED) {
        d->ahead = ES_GROWTH_AHEAD_COPY;
    }
    return ES_STATUS_OK;
}

// --- results on the CPU ---

static EsStatus read_times(EsGrowth *growth, const EsReadback *readback) {
    float ms[3] = {0};
    for (int i = 0; readback->has_times && i < 3; i++) {
        ES_TRY(es_event_elapsed_ms(readback->began[i], readback->began[i + 1], &ms[i]));
    }
    growth->times = (EsGrowthTimes){(double)ms[0], (double)ms[1], (double)ms[2]};
    return ES_STATUS_OK;
}

// Labels out of range, in the batches of the step and in its validation.
static EsStatus check_labels(const EsGrowth *growth) {
    int64_t n_envs = growth->options.n_envs;
    for (int64_t i = 0; i < 2 * n_envs; i++) {
        if (growth->n_invalid[i] > 0) {
            return ES_FAIL(INPUT, "%d labels of environment %lld's %s are outside 0..%d",
                           growth->n_invalid[i], (long long)(i % n_envs),
                           i < n_envs ? "batches" : "validation", growth->model.host.n_classes - 1);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus receive(EsGrowth *growth, EsGrowthMoment moment) {
    EsGrowthOnDevice *d = growth->on_device;
    if (d->n_received == 0 || moment <= d->moment) {
        if (d->n_received == d->n_collected) {
            return ES_FAIL(ARGUMENT, "no packed copy is in flight");
        }
        EsReadback *readback = &d->readback[d->n_received % 2];
        ES_TRY(es_event_synchronize(readback->arrived));
        ES_TRY(es_device_status(growth->device));
        d->n_received++;
        ES_TRY(read_times(growth, readback));
    }
    d->moment = moment;
    es_growth_on_device_mirror(growth, d->readback[(d->n_received - 1) % 2].memory, moment);
    // the tick of a decision counts the step up
    growth->shown.step = growth->shown.state.env.step[0] - (moment == ES_GROWTH_DECIDED);
    growth->shown.moment = moment;
    return check_labels(growth);
}

static const void *received_report(const EsGrowth *growth) {
    const EsGrowthOnDevice *d = growth->on_device;
    const EsReadback *readback = &d->readback[(d->n_received + 1) % 2]; // number n_received - 1
    return (const char *)readback->memory + d->packing.others;
}

// --- steps that the CPU waits for ---

// Queue a step up to its decision and wait for it.
static EsStatus run_to_decision(EsGrowth *growth) {
    ES_TRY(queue_advance(growth));
    ES_TRY(queue_report(growth, ES_GROWTH_MEASURED));
    ES_TRY(queue_collect(growth));
    return receive(growth, ES_GROWTH_MEASURED);
}

// The mirror begins the episode, too, for those who plant seeds in it.
static EsStatus reset(EsGrowth *growth, int64_t first_episode) {
    EsGrowthOnDevice *d = growth->on_device;
    d->n_received = d->n_collected; // copies in flight belong to a finished episode
    ES_TRY(queue_reset(growth, first_episode));
    es_lifecycle_reset(&growth->shown.state, &growth->options.settings);
    d->ahead = ES_GROWTH_AHEAD_MIRROR;
    return ES_STATUS_OK;
}

// The mirror goes through the same rules as the device: equal bits without a copy back.
static EsStatus decide(EsGrowth *growth, const EsAction *actions) {
    EsGrowthOnDevice *d = growth->on_device;
    size_t bytes = sizeof *actions * (size_t)growth->options.n_envs;
    memcpy(d->sent_actions, actions, bytes);
    ES_TRY(es_stream_copy(growth->stream, d->arrays.actions, d->sent_actions, bytes,
                          ES_COPY_TO_DEVICE));
    ES_TRY(queue_decision(growth));
    es_lifecycle_apply(&growth->shown.state, &growth->options.settings, actions);
    es_lifecycle_tick(&growth->shown.state, &growth->options.settings);
    growth->shown.moment = ES_GROWTH_DECIDED;
    d->ahead = ES_GROWTH_AHEAD_MIRROR;
    return ES_STATUS_OK;
}

// The mirror has changed; the device follows.
static EsStatus settle_prunes(EsGrowth *growth) {
    return es_stream_copy(growth->stream, growth->on_device->arrays.state.env.n_unrewarded_prunes,
                          growth->shown.state.env.n_unrewarded_prunes,
                          sizeof(int32_t) * (size_t)growth->options.n_envs, ES_COPY_TO_DEVICE);
}

static EsStatus adopt_state(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    d->step = growth->shown.state.env.step[0];
    d->ahead = ES_GROWTH_AHEAD_MIRROR;
    return es_stream_copy(growth->stream, d->live, growth->slab,
                          es_growth_state_bytes(d->arrays.n_envs, d->arrays.n_slots),
                          ES_COPY_TO_DEVICE);
}

// The mirror has a seed more. The weights of all environments follow their requests once more: the
// same bits as before, and those of the seed.
static EsStatus plant(EsGrowth *growth, int64_t env) {
    (void)env;
    ES_TRY(adopt_state(growth));
    es_growth_cuda_weights(&growth->on_device->arrays, growth->stream, 0);
    ES_TRY(es_stream_synchronize(growth->stream)); // the next seed changes the mirror again
    return es_device_status(growth->device);
}

// --- trials that the CPU asks for ---

// As many trials as there is room for, all on the same images; results into the trials. The pinned
// block holds count, environments and slots on the way out, losses and counts on the way back.
static EsStatus run_trials(EsGrowth *growth, EsGrowthTrial *trials, int64_t n) {
    EsGrowthOnDevice *d = growth->on_device;
    const EsGrowthArrays *arrays = &d->arrays;
    EsFusedResults results = d->executor->evaluated(growth);
    size_t bytes = sizeof(int32_t) * (size_t)n;
    int32_t *count = d->sent_trials, *env = count + 1, *off = env + n;
    float *loss = (float *)(off + n);
    int32_t *n_correct = off + 2 * n, *n_invalid = off + 3 * n;
    *count = (int32_t)n;
    for (int64_t i = 0; i < n; i++) {
        env[i] = trials[i].env;
        off[i] = trials[i].slots_off;
    }
    EsStream *stream = growth->stream;
    ES_TRY(es_stream_copy(stream, arrays->n_trials, count, sizeof *count, ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_copy(stream, arrays->trial_env, env, bytes, ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_copy(stream, arrays->trial_off, off, bytes, ES_COPY_TO_DEVICE));
    es_growth_cuda_fill_trials(arrays, stream, n);
    ES_TRY(d->executor->evaluate(growth, trials, n, trials->first_image, trials->n_images));
    ES_TRY(es_stream_copy(stream, loss, results.loss.data, bytes, ES_COPY_TO_HOST));
    ES_TRY(es_stream_copy(stream, n_correct, results.n_correct.data, bytes, ES_COPY_TO_HOST));
    ES_TRY(es_stream_copy(stream, n_invalid, results.n_invalid.data, bytes, ES_COPY_TO_HOST));
    ES_TRY(es_stream_synchronize(stream));
    ES_TRY(es_device_status(growth->device));
    for (int64_t i = 0; i < n; i++) {
        trials[i].loss = (double)loss[i];
        trials[i].n_correct = n_correct[i];
        trials[i].n_invalid = n_invalid[i];
    }
    return ES_STATUS_OK;
}

static EsStatus run_all_trials(EsGrowth *growth) {
    int64_t room = growth->on_device->max_trials;
    for (int64_t first = 0; first < growth->n_trials; first += room) {
        ES_TRY(run_trials(growth, growth->trials + first, ES_MIN(room, growth->n_trials - first)));
    }
    return ES_STATUS_OK;
}

// Plans of earlier trials may make room for those of the set.
static void begin_trials(EsGrowth *growth) {
    if (growth->plans != NULL) {
        es_growth_plans_begin_step(growth->plans);
    }
}

static EsStatus prepare_trial(EsGrowth *growth, EsGrowthTrial *trial) {
    return growth->on_device->executor->prepare_trial(growth, trial);
}

// --- episodes to come ---

// The fused step has allocated everything; plans and their memory come with topologies.
static EsStatus measure_episodes(EsGrowth *growth, int64_t n_episodes, int n_seeds, size_t *bytes) {
    (void)growth, (void)n_episodes, (void)n_seeds;
    *bytes = 0;
    return ES_STATUS_OK;
}

// --- the backend ---

const EsGrowthBackend *es_growth_backend_cuda(void) {
    static const EsGrowthQueue queue = {.device = view_device,
                                        .report = report_captures,
                                        .queue_reset = queue_reset,
                                        .queue_advance = queue_advance,
                                        .queue_decision = queue_decision,
                                        .queue_report = queue_report,
                                        .queue_collect = queue_collect,
                                        .receive = receive,
                                        .reserve_report = es_growth_on_device_reserve,
                                        .received_report = received_report};
    static const EsGrowthBackend backend = {.create = es_growth_on_device_create,
                                            .destroy = es_growth_on_device_destroy,
                                            .reset = reset,
                                            .decide = decide,
                                            .advance = run_to_decision,
                                            .plant = plant,
                                            .settle_prunes = settle_prunes,
                                            .adopt_state = adopt_state,
                                            .begin_trials = begin_trials,
                                            .prepare_trial = prepare_trial,
                                            .run_trials = run_all_trials,
                                            .measure_episodes = measure_episodes,
                                            .queue = &queue};
    return &backend;
}
