// Hosts, rewards and policies of a run, and the episodes that they run through: on the CPU step by
// step, on a GPU with the next step queued while this one is looked at.
#include "runs/grow/grow_play.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "esper/log.h"
#include "growth/engine/growth_device.h"
#include "growth/host/host_file.h"
#include "tensor/profile.h"

// One way to run an episode, chosen when the hosts are there.
struct EsEpisodeBackend {
    EsStatus (*reset)(EsGrowPlay *play, int64_t first_episode); // the hosts, up to a decision
    EsStatus (*begin)(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode);
    EsStatus (*step)(EsGrowPlay *play, EsPolicy *policy, int64_t step, const EsGrowWatch *watch);
    EsStatus (*end)(EsGrowPlay *play);
};

// --- an episode on the CPU ---

static void measure_size(EsGrowPlay *play) {
    for (int64_t e = 0; e < play->settings->n_envs; e++) {
        play->parameter_ratio[e] = es_growth_parameter_ratio(play->growth, e);
    }
}

static EsStatus decide(EsGrowPlay *play, EsPolicy *policy) {
    EsGrowth *growth = play->growth;
    const EsGrowthState *state = es_growth_state(growth);
    es_reward_latch(play->reward, state);
    ES_TRY(es_policy_decide(policy, state, es_growth_masks(growth), play->actions));
    ES_TRY(es_growth_decide(growth, play->actions));
    es_reward_compute(play->reward, state);
    es_growth_settle_prunes(growth, es_reward_settled_prunes(play->reward));
    const EsRewardTerms *terms = es_reward_terms(play->reward);
    for (int64_t e = 0; e < play->settings->n_envs; e++) {
        play->paid[e] = terms[e].total;
    }
    return ES_STATUS_OK;
}

static EsStatus reset_on_cpu(EsGrowPlay *play, int64_t first_episode) {
    return es_growth_reset(play->growth, first_episode);
}

static EsStatus begin_on_cpu(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode) {
    es_reward_reset(play->reward);
    return es_policy_begin(policy, first_episode);
}

static EsStatus step_on_cpu(EsGrowPlay *play, EsPolicy *policy, int64_t step,
                            const EsGrowWatch *watch) {
    measure_size(play);
    ES_TRY(watch->measured(watch->context, step));
    int64_t start_ns = es_clock_ns();
    es_profile_range_begin(es_growth_store(play->growth)->device, NULL, "decide");
    ES_TRY(decide(play, policy));
    es_profile_range_end(es_growth_store(play->growth)->device, NULL);
    play->decide_ms = es_clock_seconds_since(start_ns) * 1e3;
    ES_TRY(watch->decided(watch->context, step));
    return es_growth_advance(play->growth);
}

static EsStatus end_on_cpu(EsGrowPlay *play) {
    (void)play;
    return ES_STATUS_OK;
}

static const EsEpisodeBackend cpu_backend = {reset_on_cpu, begin_on_cpu, step_on_cpu, end_on_cpu};

// --- an episode on a GPU ---

// Growth, policy and reward are queued work there, and the host looks at a step while the next one
// trains. A watch sees what it would see on the CPU.

static EsStatus queue_decision(EsGrowPlay *play) {
    const EsGrowthDevice *device = es_growth_device(play->growth);
    ES_TRY(es_event_record(play->decision_events[0], device->stream));
    ES_TRY(es_decision_choose(play->decision, &device->state, device->masks, device->actions));
    ES_TRY(es_growth_queue_decision(play->growth));
    ES_TRY(es_decision_pay(play->decision, &device->state));
    return es_event_record(play->decision_events[1], device->stream);
}

// Both events stand before the packed copy, which has arrived; the next decision is not queued yet.
static EsStatus read_decide_ms(EsGrowPlay *play) {
    float ms = 0;
    ES_TRY(es_event_elapsed_ms(play->decision_events[0], play->decision_events[1], &ms));
    play->decide_ms = (double)ms;
    return ES_STATUS_OK;
}

// A decision of all environments, what came of it on its way to the host, and the training and
// validation of the step after it: the device has work while the host looks at this one.
static EsStatus queue_step(EsGrowPlay *play) {
    EsGrowth *growth = play->growth;
    EsStream *stream = es_growth_device(growth)->stream;
    ES_TRY(es_growth_queue_report(growth, ES_GROWTH_MEASURED));
    es_profile_range_begin(es_stream_device(stream), stream, "decide");
    EsStatus status = queue_decision(play);
    es_profile_range_end(es_stream_device(stream), stream);
    ES_TRY(status);
    ES_TRY(es_growth_queue_report(growth, ES_GROWTH_DECIDED));
    ES_TRY(es_growth_queue_collect(growth));
    return es_growth_queue_advance(growth);
}

// Show a step that was queued, moment by moment.
static EsStatus show_step(EsGrowPlay *play, const EsGrowWatch *watch, int64_t step) {
    EsGrowth *growth = play->growth;
    ES_TRY(es_growth_receive(growth, ES_GROWTH_MEASURED));
    measure_size(play);
    ES_TRY(watch->measured(watch->context, step));
    ES_TRY(es_growth_receive(growth, ES_GROWTH_DECIDED));
    es_decision_receive(play->decision, es_growth_received_report(growth), play->actions,
                        play->paid);
    ES_TRY(read_decide_ms(play));
    return watch->decided(watch->context, step);
}

// Nothing is waited for before the first step is queued.
static EsStatus reset_on_device(EsGrowPlay *play, int64_t first_episode) {
    ES_TRY(es_growth_queue_reset(play->growth, first_episode));
    return es_growth_queue_advance(play->growth);
}

// A decision serves all episodes of one policy: its captures outlive them.
static EsStatus begin_on_device(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode) {
    if (play->decision == NULL || es_decision_policy(play->decision) != policy) {
        es_decision_destroy(play->decision);
        play->decision = NULL;
        ES_TRY(es_decision_create(policy, play->reward, es_growth_device(play->growth)->stream,
                                  &play->decision));
        es_decision_place_report(play->decision, play->report);
    }
    return es_decision_begin(play->decision, first_episode);
}

static EsStatus step_on_device(EsGrowPlay *play, EsPolicy *policy, int64_t step,
                               const EsGrowWatch *watch) {
    (void)policy; // the decision's, since the episode's begin
    ES_TRY(queue_step(play));
    return show_step(play, watch, step);
}

static EsStatus end_on_device(EsGrowPlay *play) {
    play->replays = es_decision_replays(play->decision);
    return es_decision_end(play->decision);
}

static const EsEpisodeBackend device_backend = {reset_on_device, begin_on_device, step_on_device,
                                                end_on_device};

// Makes room for decisions in growth's packed copy, and the events that time them.
static EsStatus reserve_on_device(EsGrowPlay *play) {
    const EsGrowthDevice *device = es_growth_device(play->growth);
    for (size_t i = 0; i < ES_COUNT_OF(play->decision_events); i++) {
        ES_TRY(es_event_create(es_stream_device(device->stream), &play->decision_events[i]));
    }
    return es_growth_reserve_report(play->growth, es_decision_report_bytes(play->settings->n_envs),
                                    &play->report);
}

// --- set-up ---

static EsGrowthOptions growth_options(const EsGrowSettings *settings, const EsHostSpec *host,
                                      const EsSlot *slots, int n_slots, int64_t n_validation) {
    EsGrowthOptions options = es_growth_defaults(host, slots, n_slots, settings->n_envs);
    options.batch = settings->batch > 0 ? settings->batch : options.batch;
    options.step_batches = settings->step_batches;
    options.n_validation_images = n_validation;
    options.seed = (uint64_t)settings->run.seed;
    options.n_threads = settings->run.n_threads;
    options.device = settings->run.device;
    options.is_tf32 = settings->is_tf32;
    options.pad = settings->pad;
    options.flip = settings->flip;
    options.mode = settings->unfused ? ES_COMPILE_OFF : ES_COMPILE_DEFAULT;
    options.host_rate = settings->host_rate;
    options.seed_rate = settings->seed_rate;
    options.clip = settings->clip;
    options.gradient_stride = settings->gradient_stride;
    options.settings.max_seeds = settings->max_seeds;
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

static EsStatus open_dataset(EsGrowPlay *play) {
    const EsGrowSettings *settings = play->settings;
    ES_TRY(es_host_open_dataset(&play->host, settings->data, settings->folder,
                                (uint64_t)settings->data_seed, settings->run.n_threads,
                                &play->dataset));
    es_dataset_fingerprint(&play->dataset, play->data_hash);
    return ES_STATUS_OK;
}

EsStatus es_grow_play_surround(EsGrowPlay *play) {
    size_t n_envs = (size_t)play->settings->n_envs;
    EsRewardSettings reward = play->settings->reward;
    reward.gamma = play->settings->ppo.gamma;
    play->backend = &cpu_backend;
    if (es_growth_device(play->growth) != NULL) {
        play->backend = &device_backend;
        ES_TRY(reserve_on_device(play));
    }
    ES_TRY(es_reward_create(&reward, es_growth_settings(play->growth),
                            es_growth_model(play->growth)->layout.n_host_weights,
                            play->settings->n_envs, &play->reward));
    ES_TRY(es_allocate(sizeof *play->paid * n_envs, (void **)&play->paid));
    ES_TRY(es_allocate(sizeof *play->parameter_ratio * n_envs, (void **)&play->parameter_ratio));
    return es_allocate(sizeof *play->actions * n_envs, (void **)&play->actions);
}

// `model` is nullable.
static EsStatus create_parts(EsGrowPlay *play, const EsGrowPlay *model) {
    const EsGrowSettings *settings = play->settings;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    ES_TRY(es_host_find(settings->task, &play->host));
    EsDeviceOptions device = {.n_threads = settings->run.n_threads};
    ES_TRY(es_device_open(settings->run.device, &device, &play->device)); // before the data is made
    ES_TRY(es_slots_parse(&play->host, settings->slots, slots, &n_slots));
    if (es_grow_settings_train(settings)) {
        EsPolicySpec spec;
        ES_TRY(es_grow_settings_spec(settings, n_slots, 0, &spec)); // likewise
    }
    if (model != NULL) {
        play->dataset = model->dataset;
        play->has_borrowed_dataset = 1;
        memcpy(play->data_hash, model->data_hash, sizeof play->data_hash);
    } else {
        ES_TRY(open_dataset(play));
    }
    EsGrowthOptions options =
        growth_options(settings, &play->host, slots, n_slots,
                       ES_MIN(settings->validation_images, play->dataset.validation.count));
    options.precision = es_grow_settings_precision(settings, es_device_info(play->device));
    // an episode sees the same images whatever number of hosts plays it
    int n_shares = model != NULL ? model->settings->n_envs : settings->n_envs;
    options.n_shares = settings->data_split == 1 ? n_shares : 1;
    size_t before = es_allocation_held();
    ES_TRY(es_growth_create(&options, &play->dataset, &play->growth));
    ES_TRY(es_grow_play_surround(play));
    play->hosts_bytes = es_allocation_held() - before;
    return ES_STATUS_OK;
}

EsStatus es_grow_play_create_like(const EsGrowPlay *model, const EsGrowSettings *settings,
                                  EsGrowPlay *play) {
    *play = (EsGrowPlay){.settings = settings};
    EsStatus status = create_parts(play, model);
    if (status != ES_STATUS_OK) {
        es_grow_play_destroy(play);
    }
    return status;
}

EsStatus es_grow_play_create(const EsGrowSettings *settings, EsGrowPlay *play) {
    ES_TRY(es_grow_play_create_like(NULL, settings, play));
    warn_of_short_episodes(es_growth_settings(play->growth));
    return ES_STATUS_OK;
}

void es_grow_play_destroy(EsGrowPlay *play) {
    es_decision_destroy(play->decision);
    es_event_destroy(play->decision_events[0]); // of growth's device
    es_event_destroy(play->decision_events[1]);
    es_reward_destroy(play->reward);
    es_growth_destroy(play->growth);
    if (!play->has_borrowed_dataset) {
        es_dataset_destroy(&play->dataset);
    }
    es_host_unload(&play->host);
    if (play->device != NULL) {
        es_device_close(play->device);
    }
    es_release(play->actions);
    es_release(play->paid);
    es_release(play->parameter_ratio);
    *play = (EsGrowPlay){0};
}

// --- policies ---

static EsPolicyContext policy_context(const EsGrowPlay *play) {
    return (EsPolicyContext){.settings = es_growth_settings(play->growth),
                             .slots = es_growth_model(play->growth)->slots,
                             .device = play->device,
                             .n_envs = play->settings->n_envs,
                             .seed = (uint64_t)play->settings->run.seed};
}

EsStatus es_grow_play_open_policy(const EsGrowPlay *play, const char *text, EsPolicy **policy) {
    EsPolicyContext context = policy_context(play);
    return es_policy_open(text, &context, policy);
}

EsStatus es_grow_play_create_policy(const EsGrowPlay *play, EsPolicy **policy) {
    EsPolicyContext context = policy_context(play);
    EsPpoSettings ppo = es_grow_settings_ppo(play->settings);
    EsPolicySpec spec;
    ES_TRY(es_grow_settings_spec(play->settings, context.settings->n_slots,
                                 es_growth_model(play->growth)->layout.n_host_weights, &spec));
    return es_policy_create(&spec, &ppo, &context, context.settings->episode_steps, policy);
}

void es_grow_play_destroy_policy(EsGrowPlay *play, EsPolicy *policy) {
    if (play->decision != NULL && es_decision_policy(play->decision) == policy) {
        es_decision_destroy(play->decision);
        play->decision = NULL;
    }
    es_policy_destroy(policy);
}

// --- an episode ---

EsStatus es_grow_play_begin(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode) {
    return play->backend->begin(play, policy, first_episode);
}

EsStatus es_grow_play_step(EsGrowPlay *play, EsPolicy *policy, int64_t step,
                           const EsGrowWatch *watch) {
    return play->backend->step(play, policy, step, watch);
}

EsStatus es_grow_play_end(EsGrowPlay *play) { return play->backend->end(play); }

EsStatus es_grow_play_episode(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode,
                              const EsGrowWatch *watch) {
    int64_t n_steps = es_growth_settings(play->growth)->episode_steps;
    ES_TRY(es_grow_play_begin(play, policy, first_episode));
    ES_TRY(play->backend->reset(play, first_episode));
    for (int64_t step = 0; step < n_steps; step++) {
        ES_TRY(es_grow_play_step(play, policy, step, watch));
    }
    return es_grow_play_end(play);
}
