#include "runs/grow/grow_play.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "esper/log.h"
#include "growth/engine/growth_device.h"
#include "growth/host/host_file.h"
#include "runs/grow/grow_play_device.h"
#include "tensor/profile.h"

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
    ES_TRY(es_grow_play_reserve(play));
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
    ES_TRY(es_growth_create(&options, &play->dataset, &play->growth));
    return es_grow_play_surround(play);
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

// --- an episode ---

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

EsStatus es_grow_play_begin(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode) {
    if (es_growth_device(play->growth) != NULL) {
        return es_grow_play_begin_on_device(play, policy, first_episode);
    }
    es_reward_reset(play->reward);
    return es_policy_begin(policy, first_episode);
}

EsStatus es_grow_play_step(EsGrowPlay *play, EsPolicy *policy, int64_t step,
                           const EsGrowWatch *watch) {
    if (es_growth_device(play->growth) != NULL) {
        return es_grow_play_step_on_device(play, policy, step, watch);
    }
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

EsStatus es_grow_play_end(EsGrowPlay *play, EsPolicy *policy) {
    return es_growth_device(play->growth) != NULL ? es_grow_play_end_on_device(play, policy)
                                                  : ES_STATUS_OK;
}

// On a GPU nothing is waited for before the first step is queued.
static EsStatus reset_hosts(EsGrowth *growth, int64_t first_episode) {
    if (es_growth_device(growth) == NULL) {
        return es_growth_reset(growth, first_episode);
    }
    ES_TRY(es_growth_queue_reset(growth, first_episode));
    return es_growth_queue_advance(growth);
}

EsStatus es_grow_play_episode(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode,
                              const EsGrowWatch *watch) {
    int64_t n_steps = es_growth_settings(play->growth)->episode_steps;
    ES_TRY(es_grow_play_begin(play, policy, first_episode));
    ES_TRY(reset_hosts(play->growth, first_episode));
    for (int64_t step = 0; step < n_steps; step++) {
        ES_TRY(es_grow_play_step(play, policy, step, watch));
    }
    return es_grow_play_end(play, policy);
}
