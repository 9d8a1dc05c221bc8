// Hosts, rewards and policies of a run, and the episodes that they run through: on the CPU step by
// step, on a GPU with the next step queued while this one is looked at.
#include "runs/grow/grow_episode.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "esper/log.h"
#include "growth/engine/growth_device.h"
#include "growth/host/host_file.h"
#include "tensor/profile.h"

// One way to run an episode, chosen when the hosts are there.
struct EsEpisodeBackend {
    EsStatus (*reset)(EsEpisodeRunner *runner,
                      int64_t first_episode); // the hosts, up to a decision
    EsStatus (*begin)(EsEpisodeRunner *runner, EsPolicy *policy, int64_t first_episode);
    EsStatus (*step)(EsEpisodeRunner *runner, EsPolicy *policy, int64_t step,
                     const EsGrowWatch *watch);
    EsStatus (*end)(EsEpisodeRunner *runner);
};

// --- an episode on the CPU ---

static void measure_size(EsEpisodeRunner *runner) {
    for (int64_t e = 0; e < runner->settings->n_envs; e++) {
        runner->parameter_ratio[e] = es_growth_parameter_ratio(runner->growth, e);
    }
}

static EsStatus decide(EsEpisodeRunner *runner, EsPolicy *policy) {
    EsGrowth *growth = runner->growth;
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    es_reward_latch(runner->reward, state);
    ES_TRY(es_policy_decide(policy, state, es_growth_masks(growth), runner->actions));
    for (int64_t e = state->n_envs - runner->n_controls; e < state->n_envs; e++) {
        runner->actions[e] = es_action_wait();
    }
    ES_TRY(es_growth_decide(growth, runner->actions));
    es_reward_compute(runner->reward, state);
    ES_TRY(es_growth_settle_prunes(growth, es_reward_settled_prunes(runner->reward)));
    const EsRewardTerms *terms = es_reward_terms(runner->reward);
    for (int64_t e = 0; e < runner->settings->n_envs; e++) {
        runner->rewards[e] = terms[e].total;
    }
    return ES_STATUS_OK;
}

static EsStatus reset_on_cpu(EsEpisodeRunner *runner, int64_t first_episode) {
    return es_growth_reset(runner->growth, first_episode);
}

static EsStatus begin_on_cpu(EsEpisodeRunner *runner, EsPolicy *policy, int64_t first_episode) {
    es_reward_reset(runner->reward);
    return es_policy_begin(policy, first_episode);
}

static EsStatus step_on_cpu(EsEpisodeRunner *runner, EsPolicy *policy, int64_t step,
                            const EsGrowWatch *watch) {
    measure_size(runner);
    ES_TRY(watch->measured(watch->context, step));
    int64_t start_ns = es_clock_ns();
    es_profile_range_begin(es_growth_store(runner->growth)->device, NULL, "decide");
    ES_TRY(decide(runner, policy));
    es_profile_range_end(es_growth_store(runner->growth)->device, NULL);
    runner->decide_ms = es_clock_seconds_since(start_ns) * 1e3;
    ES_TRY(watch->decided(watch->context, step));
    return es_growth_advance(runner->growth);
}

static EsStatus end_on_cpu(EsEpisodeRunner *runner) {
    (void)runner;
    return ES_STATUS_OK;
}

static const EsEpisodeBackend cpu_backend = {reset_on_cpu, begin_on_cpu, step_on_cpu, end_on_cpu};

// --- an episode on a GPU ---

// Growth, policy and reward are queued work there, and the CPU reads a step while the next one
// trains. A watch sees the same as on the CPU.

static EsStatus queue_decision(EsEpisodeRunner *runner) {
    const EsGrowthDevice *device = es_growth_device(runner->growth);
    ES_TRY(es_event_record(runner->decision_events[0], device->stream));
    ES_TRY(es_decision_choose(runner->decision, &device->state, device->masks, device->actions));
    ES_TRY(es_growth_queue_decision(runner->growth));
    ES_TRY(es_decision_reward(runner->decision, &device->state,
                              device->state.env.n_unrewarded_prunes));
    return es_event_record(runner->decision_events[1], device->stream);
}

// Both events stand before the packed copy, which has arrived; the next decision is not queued yet.
static EsStatus read_decide_ms(EsEpisodeRunner *runner) {
    float ms = 0;
    ES_TRY(es_event_elapsed_ms(runner->decision_events[0], runner->decision_events[1], &ms));
    runner->decide_ms = (double)ms;
    return ES_STATUS_OK;
}

// Queues a decision of all environments, the copy of its outcome to the CPU, and the training and
// validation of the step after it: the device has work while the CPU reads this one.
static EsStatus queue_step(EsEpisodeRunner *runner) {
    EsGrowth *growth = runner->growth;
    EsStream *stream = es_growth_device(growth)->stream;
    ES_TRY(es_growth_queue_report(growth, ES_GROWTH_MEASURED));
    es_profile_range_begin(es_stream_device(stream), stream, "decide");
    EsStatus status = queue_decision(runner);
    es_profile_range_end(es_stream_device(stream), stream);
    ES_TRY(status);
    ES_TRY(es_growth_queue_report(growth, ES_GROWTH_DECIDED));
    ES_TRY(es_growth_queue_collect(growth));
    return es_growth_queue_advance(growth);
}

// Show a step that was queued, moment by moment.
static EsStatus show_step(EsEpisodeRunner *runner, const EsGrowWatch *watch, int64_t step) {
    EsGrowth *growth = runner->growth;
    ES_TRY(es_growth_receive(growth, ES_GROWTH_MEASURED));
    measure_size(runner);
    ES_TRY(watch->measured(watch->context, step));
    ES_TRY(es_growth_receive(growth, ES_GROWTH_DECIDED));
    es_decision_receive(runner->decision, es_growth_received_report(growth), runner->actions,
                        runner->rewards);
    ES_TRY(read_decide_ms(runner));
    return watch->decided(watch->context, step);
}

// Nothing is waited for before the first step is queued.
static EsStatus reset_on_device(EsEpisodeRunner *runner, int64_t first_episode) {
    ES_TRY(es_growth_queue_reset(runner->growth, first_episode));
    return es_growth_queue_advance(runner->growth);
}

// A decision serves all episodes of one policy: its captures outlive them.
static EsStatus begin_on_device(EsEpisodeRunner *runner, EsPolicy *policy, int64_t first_episode) {
    if (runner->decision == NULL || es_decision_policy(runner->decision) != policy) {
        es_decision_destroy(runner->decision);
        runner->decision = NULL;
        ES_TRY(es_decision_create(policy, runner->reward, es_growth_device(runner->growth)->stream,
                                  &runner->decision));
        es_decision_place_report(runner->decision, runner->report);
    }
    ES_TRY(es_decision_begin(runner->decision, first_episode)); // waits for copies on their way
    return es_decision_keep_logits(runner->decision, runner->keeps_logits);
}

static EsStatus step_on_device(EsEpisodeRunner *runner, EsPolicy *policy, int64_t step,
                               const EsGrowWatch *watch) {
    (void)policy; // the decision's, since the episode's begin
    ES_TRY(queue_step(runner));
    return show_step(runner, watch, step);
}

static EsStatus end_on_device(EsEpisodeRunner *runner) {
    runner->replays = es_decision_replays(runner->decision);
    return es_decision_end(runner->decision);
}

static const EsEpisodeBackend device_backend = {reset_on_device, begin_on_device, step_on_device,
                                                end_on_device};

// Makes room for decisions in growth's packed copy, and the events that time them.
static EsStatus reserve_on_device(EsEpisodeRunner *runner) {
    const EsGrowthDevice *device = es_growth_device(runner->growth);
    for (size_t i = 0; i < ES_COUNT_OF(runner->decision_events); i++) {
        ES_TRY(es_event_create(es_stream_device(device->stream), &runner->decision_events[i]));
    }
    return es_growth_reserve_report(
        runner->growth, es_decision_report_bytes(runner->settings->n_envs), &runner->report);
}

// --- set-up ---

static EsGrowthOptions growth_options(const EsGrowSettings *settings, const EsHostSpec *host,
                                      const EsSlot *slots, int n_slots, int64_t n_validation) {
    EsGrowthOptions options = es_growth_defaults(host, slots, n_slots, settings->n_envs);
    options.batch = settings->batch > 0 ? settings->batch : options.batch;
    options.step_batches = settings->step_batches;
    options.n_validation_images = n_validation;
    options.seed = (uint64_t)settings->run.seed;
    options.ranks = settings->run.ranks;
    options.is_tf32 = settings->is_tf32;
    options.recipe = settings->recipe;
    options.mode = settings->unfused ? ES_COMPILE_OFF : ES_COMPILE_DEFAULT;
    options.host_learning_rate = settings->host_learning_rate;
    options.seed_learning_rate = settings->seed_learning_rate;
    options.clip = settings->clip;
    options.gradient_stride = settings->gradient_stride;
    options.aggregation = (EsAggregation)settings->aggregation;
    options.settings.max_seeds = settings->max_seeds;
    if (settings->pace > 0) {
        es_growth_settings_set_pace(&options.settings, (EsGrowthPace)(settings->pace - 1));
    }
    options.settings.max_parameters = settings->max_parameters;
    options.settings.hidden_inputs = settings->hidden_inputs;
    options.settings.is_strict = settings->gates == 1;
    options.settings.auto_forward = settings->auto_forward ? ES_AUTO_FORWARD_ALL : 0;
    if (settings->episode_steps > 0) {
        options.settings.episode_steps = settings->episode_steps;
    }
    return options;
}

// A seed that germinates in the first step can be fossilised after its training and the fastest
// blend.
static void warn_of_short_episodes(const EsGrowthSettings *settings) {
    int fastest = ES_MIN(settings->tempo[0], ES_MIN(settings->tempo[1], settings->tempo[2]));
    int first = 1 + settings->training_dwell + fastest;
    if (settings->episode_steps < first) {
        es_log(ES_LOG_WARNING,
               "an episode has %d steps, and the earliest in which a seed can be fossilised is %d: "
               "no seed will become a part of its host",
               settings->episode_steps, first);
    }
}

EsStatus es_grow_episode_open_device(const EsGrowSettings *settings, EsDevice **device) {
    EsDeviceOptions options = {.n_threads = settings->run.n_threads};
    return es_device_open(settings->run.device, &options, device);
}

static EsStatus open_dataset(EsEpisodeRunner *runner) {
    const EsGrowSettings *settings = runner->settings;
    EsDatasetOptions wanted = es_data_settings_options(&settings->data);
    ES_TRY(es_host_open_dataset(&runner->host, settings->data.name, &wanted,
                                settings->run.n_threads, &runner->dataset));
    es_dataset_fingerprint(&runner->dataset, runner->data_hash);
    return ES_STATUS_OK;
}

EsStatus es_grow_episode_create_reward_and_buffers(EsEpisodeRunner *runner) {
    size_t n_envs = (size_t)runner->settings->n_envs;
    EsRewardSettings reward = runner->settings->reward;
    reward.gamma = runner->settings->ppo.gamma;
    reward.control = runner->n_controls > 0 ? runner->settings->n_envs : 0;
    runner->backend = &cpu_backend;
    if (es_growth_device(runner->growth) != NULL) {
        runner->backend = &device_backend;
        ES_TRY(reserve_on_device(runner));
    }
    ES_TRY(es_reward_create(&reward, es_growth_settings(runner->growth),
                            es_growth_model(runner->growth)->layout.n_host_weights,
                            runner->settings->n_envs, &runner->reward));
    ES_TRY(es_allocate(sizeof *runner->rewards * n_envs, (void **)&runner->rewards));
    ES_TRY(
        es_allocate(sizeof *runner->parameter_ratio * n_envs, (void **)&runner->parameter_ratio));
    return es_allocate(sizeof *runner->actions * n_envs, (void **)&runner->actions);
}

// Host, slots and data of the settings' own.
static EsStatus open_host(EsEpisodeRunner *runner, EsSlot slots[ES_SLOTS_MAX], int *n_slots) {
    const EsGrowSettings *settings = runner->settings;
    ES_TRY(es_host_find(settings->task, &runner->host));
    ES_TRY(es_slots_parse(&runner->host, settings->slots, slots, n_slots));
    if (es_grow_settings_train(settings)) {
        EsPolicySpec spec;
        ES_TRY(es_grow_settings_spec(settings, *n_slots, 0, &spec)); // before the data is made
    }
    return open_dataset(runner);
}

#define REDRAWS_MOST 1000 // of a task whose host the device does not run fused

static EsStatus check_task(const EsGrowSettings *settings, const EsTask *task,
                           const EsDevice *device) {
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    ES_TRY(es_slots_parse(&task->host, task->slots, slots, &n_slots));
    EsDtype automatic = es_growth_auto_precision(&task->host, slots, n_slots, device);
    return es_growth_check_fused(&task->host, slots, n_slots, device,
                                 es_grow_settings_precision(settings, automatic));
}

EsStatus es_grow_episode_draw_task(const EsGrowSettings *settings, int64_t number,
                                   const EsDevice *device, EsTask *task) {
    uint64_t seed = (uint64_t)settings->run.seed;
    es_task_draw(&settings->tasks, seed, number, task);
    EsStatus status = check_task(settings, task, device);
    while (status == ES_STATUS_UNSUPPORTED && task->n_redrawn < REDRAWS_MOST) {
        es_task_redraw(&settings->tasks, seed, task);
        status = check_task(settings, task, device);
    }
    if (status == ES_STATUS_UNSUPPORTED) { // there are no others: plans run the first one
        es_task_draw(&settings->tasks, seed, number, task);
        return ES_STATUS_OK;
    }
    return status;
}

EsStatus es_grow_episode_largest_task(const EsGrowSettings *settings, EsTaskPools pools,
                                      const EsDevice *device, EsTask *task) {
    es_task_largest(&settings->tasks, (uint64_t)settings->run.seed, pools, task);
    ES_TRY(es_host_check(&task->host));
    EsTask met;
    EsStatus status = check_task(settings, task, device);
    if (status == ES_STATUS_UNSUPPORTED) {
        ES_TRY(es_grow_episode_draw_task(settings, 0, device, &met));
        if (check_task(settings, &met, device) == ES_STATUS_UNSUPPORTED) {
            return ES_STATUS_OK; // none runs fused: they are met as they come
        }
    }
    while (status == ES_STATUS_UNSUPPORTED && es_task_shrink(&settings->tasks, task)) {
        status = check_task(settings, task, device);
    }
    return status;
}

static EsStatus draw_task(EsEpisodeRunner *runner, const EsTask *task, EsSlot slots[ES_SLOTS_MAX],
                          int *n_slots) {
    const EsGrowSettings *settings = runner->settings;
    const int64_t counts[3] = {task->n_images, settings->validation_images,
                               settings->validation_images};
    EsThreadPool *pool = NULL;
    runner->host = task->host;
    snprintf(runner->task, sizeof runner->task, "%s", task->text);
    ES_TRY(es_slots_parse(&runner->host, task->slots, slots, n_slots));
    ES_TRY(es_thread_pool_create(&pool, settings->run.n_threads));
    EsStatus status =
        es_dataset_draw(&runner->dataset, "task", &task->images, task->data_seed, counts, pool);
    es_thread_pool_destroy(pool);
    ES_TRY(status);
    es_dataset_fingerprint(&runner->dataset, runner->data_hash);
    return ES_STATUS_OK;
}

// Those of the model, whose host has taken on the sizes of the data; or `host`, with one slot,
// because growth needs some.
static EsStatus borrow_host(EsEpisodeRunner *runner, const EsEpisodeRunner *model,
                            const EsHostSpec *host, EsSlot slots[ES_SLOTS_MAX], int *n_slots) {
    EsSlot all[2 * ES_SLOTS_MAX];
    runner->host = host != NULL ? *host : model->host;
    runner->host.text = NULL;
    runner->dataset = model->dataset;
    runner->has_borrowed_dataset = 1;
    memcpy(runner->data_hash, model->data_hash, sizeof runner->data_hash);
    if (host == NULL) {
        return es_slots_parse(&runner->host, runner->settings->slots, slots, n_slots);
    }
    int n_all = es_slots_of(host, all);
    ES_ASSERT(n_all > 0); // it is an enlarged one of a host with slots
    return es_slots_parse(&runner->host, all[0].name, slots, n_slots);
}

// Source of host, slots and data: one of the first two, or the settings.
typedef struct Origin {
    const EsTask *task;
    const EsEpisodeRunner *model;
    const EsHostSpec *host;     // instead of the model's; nullable
    int n_variants;             // of the model; 0: none,
    const EsGrowthRates *rates; // and their rates [E]
} Origin;

static EsStatus create_parts(EsEpisodeRunner *runner, const Origin *origin) {
    const EsEpisodeRunner *model = origin->model;
    const EsGrowSettings *settings = runner->settings;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    ES_TRY(origin->task != NULL ? draw_task(runner, origin->task, slots, &n_slots)
           : model != NULL      ? borrow_host(runner, model, origin->host, slots, &n_slots)
                                : open_host(runner, slots, &n_slots));
    EsGrowthOptions options =
        growth_options(settings, &runner->host, slots, n_slots,
                       ES_MIN(settings->validation_images, runner->dataset.validation.count));
    options.precision = es_grow_settings_precision(
        settings, es_growth_auto_precision(&runner->host, slots, n_slots, runner->device));
    // an episode sees the same images for any number of hosts
    int n_shares = model != NULL ? model->settings->n_envs : settings->n_envs;
    options.n_shares = settings->data_split == 1 ? n_shares : 1;
    options.is_paired = runner->n_controls > 0;
    options.n_variants = origin->n_variants;
    options.rates = origin->rates;
    size_t before = es_allocation_held();
    ES_TRY(es_growth_create(&options, &runner->dataset, runner->device, &runner->growth));
    ES_TRY(es_grow_episode_create_reward_and_buffers(runner));
    runner->hosts_bytes = es_allocation_held() - before;
    return ES_STATUS_OK;
}

static EsStatus create_runner(const Origin *origin, const EsGrowSettings *settings, int n_controls,
                              EsDevice *device, EsEpisodeRunner *runner) {
    *runner = (EsEpisodeRunner){.settings = settings, .device = device, .n_controls = n_controls};
    EsStatus status = create_parts(runner, origin);
    if (status != ES_STATUS_OK) {
        es_grow_episode_destroy(runner);
    }
    return status;
}

EsStatus es_grow_episode_create_like(const EsEpisodeRunner *model, const EsGrowSettings *settings,
                                     EsEpisodeRunner *runner) {
    return create_runner(&(Origin){.model = model}, settings, 0, model->device, runner);
}

EsStatus es_grow_episode_create_variants(const EsEpisodeRunner *model,
                                         const EsGrowSettings *settings, int n_variants,
                                         const EsGrowthRates *rates, EsEpisodeRunner *runner) {
    return create_runner(&(Origin){.model = model, .n_variants = n_variants, .rates = rates},
                         settings, 0, model->device, runner);
}

EsStatus es_grow_episode_create_static(const EsEpisodeRunner *model, const EsHostSpec *host,
                                       EsEpisodeRunner *runner) {
    return create_runner(&(Origin){.model = model, .host = host}, model->settings, 0, model->device,
                         runner);
}

EsStatus es_grow_episode_create_task(const EsGrowSettings *settings, const EsTask *task,
                                     int n_controls, EsDevice *device, EsEpisodeRunner *runner) {
    return create_runner(&(Origin){.task = task}, settings, n_controls, device, runner);
}

EsStatus es_grow_episode_create(const EsGrowSettings *settings, EsDevice *device,
                                EsEpisodeRunner *runner) {
    ES_TRY(create_runner(&(Origin){.task = NULL}, settings, 0, device, runner));
    warn_of_short_episodes(es_growth_settings(runner->growth));
    return ES_STATUS_OK;
}

void es_grow_episode_destroy(EsEpisodeRunner *runner) {
    es_decision_destroy(runner->decision);
    es_event_destroy(runner->decision_events[0]);
    es_event_destroy(runner->decision_events[1]);
    es_reward_destroy(runner->reward);
    es_growth_destroy(runner->growth);
    if (!runner->has_borrowed_dataset) {
        es_dataset_destroy(&runner->dataset);
    }
    es_host_unload(&runner->host);
    es_release(runner->actions);
    es_release(runner->rewards);
    es_release(runner->parameter_ratio);
    *runner = (EsEpisodeRunner){0};
}

// --- policies ---

static EsPolicyContext policy_context(const EsEpisodeRunner *runner) {
    return (EsPolicyContext){.settings = es_growth_settings(runner->growth),
                             .slots = es_growth_model(runner->growth)->slots,
                             .device = runner->device,
                             .n_envs = runner->settings->n_envs,
                             .n_variants = es_growth_options(runner->growth)->n_variants,
                             .seed = (uint64_t)runner->settings->run.seed,
                             .ranks = runner->settings->run.ranks};
}

EsStatus es_grow_episode_open_policy(const EsEpisodeRunner *runner, const char *text,
                                     EsPolicy **policy) {
    EsPolicyContext context = policy_context(runner);
    return es_policy_open(text, &context, policy);
}

void es_grow_episode_warn_outside(const EsPolicy *policy, const EsGrowthSettings *settings,
                                  const char *name) {
    char outside[ES_POLICY_OUTSIDE_BYTES];
    if (es_policy_describe_outside(policy, settings, outside)) {
        es_log(ES_LOG_WARNING, "%s: its training did not cover this run: %s", name, outside);
    }
}

EsStatus es_grow_episode_create_policy(const EsEpisodeRunner *runner, int64_t n_envs,
                                       EsPolicy **policy) {
    EsPolicyContext context = policy_context(runner);
    EsPpoSettings ppo = es_grow_settings_ppo(runner->settings);
    EsPolicySpec spec;
    context.n_envs = n_envs;
    ES_TRY(es_grow_settings_spec(runner->settings, context.settings->n_slots,
                                 es_growth_model(runner->growth)->layout.n_host_weights, &spec));
    return es_policy_create(&spec, &ppo, &context, context.settings->episode_steps, policy);
}

EsStatus es_grow_episode_create_actor(const EsEpisodeRunner *runner, const EsPolicy *learner,
                                      EsPolicy **policy) {
    EsPolicyContext context = policy_context(runner);
    return es_policy_create_actor(learner, &context, context.settings->episode_steps, policy);
}

void es_grow_episode_destroy_policy(EsEpisodeRunner *runner, EsPolicy *policy) {
    if (runner->decision != NULL && es_decision_policy(runner->decision) == policy) {
        es_decision_destroy(runner->decision);
        runner->decision = NULL;
    }
    es_policy_destroy(policy);
}

// --- an episode ---

EsStatus es_grow_episode_begin(EsEpisodeRunner *runner, EsPolicy *policy, int64_t first_episode) {
    return runner->backend->begin(runner, policy, first_episode);
}

EsStatus es_grow_episode_step(EsEpisodeRunner *runner, EsPolicy *policy, int64_t step,
                              const EsGrowWatch *watch) {
    return runner->backend->step(runner, policy, step, watch);
}

EsStatus es_grow_episode_end(EsEpisodeRunner *runner) { return runner->backend->end(runner); }

static EsStatus run_steps(EsEpisodeRunner *runner, EsPolicy *policy, const EsGrowWatch *watch) {
    int64_t n_steps = es_growth_settings(runner->growth)->episode_steps;
    for (int64_t step = 0; step < n_steps; step++) {
        ES_TRY(runner->backend->step(runner, policy, step, watch));
    }
    return es_grow_episode_end(runner);
}

EsStatus es_grow_episode_run(EsEpisodeRunner *runner, EsPolicy *policy, int64_t first_episode,
                             const EsGrowWatch *watch) {
    ES_TRY(es_grow_episode_begin(runner, policy, first_episode));
    ES_TRY(runner->backend->reset(runner, first_episode));
    return run_steps(runner, policy, watch);
}

EsStatus es_grow_episode_run_planted(EsEpisodeRunner *runner, EsPolicy *policy,
                                     int64_t first_episode, const EsFitTopology *topologies,
                                     int64_t n, const EsGrowWatch *watch) {
    ES_TRY(es_grow_episode_begin(runner, policy, first_episode));
    ES_TRY(es_growth_begin(runner->growth, first_episode));
    for (int64_t e = 0; e < n; e++) {
        ES_TRY(es_fit_topology_plant(&topologies[e], runner->growth, e));
    }
    ES_TRY(es_growth_advance(runner->growth));
    return run_steps(runner, policy, watch);
}
