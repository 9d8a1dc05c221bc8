#include "runs/grow/grow_play_device.h"

#include "control/decision/decision_device.h"
#include "growth/engine/growth_device.h"
#include "tensor/profile.h"

EsStatus es_grow_play_reserve(EsGrowPlay *play) {
    const EsGrowthDevice *device = es_growth_device(play->growth);
    if (device == NULL) {
        return ES_STATUS_OK;
    }
    for (size_t i = 0; i < ES_COUNT_OF(play->decision_events); i++) {
        ES_TRY(es_event_create(es_stream_device(device->stream), &play->decision_events[i]));
    }
    return es_growth_reserve_report(play->growth, es_decision_report_bytes(play->settings->n_envs),
                                    &play->report);
}

static EsStatus queue_decision(EsGrowPlay *play, EsDecisionDevice *decision) {
    const EsGrowthDevice *device = es_growth_device(play->growth);
    ES_TRY(es_event_record(play->decision_events[0], device->stream));
    ES_TRY(es_decision_choose(decision, &device->state, device->masks, device->actions));
    ES_TRY(es_growth_queue_decision(play->growth));
    ES_TRY(es_decision_pay(decision, &device->state));
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
static EsStatus queue_step(EsGrowPlay *play, EsDecisionDevice *decision) {
    EsGrowth *growth = play->growth;
    EsStream *stream = es_growth_device(growth)->stream;
    ES_TRY(es_growth_queue_report(growth, ES_GROWTH_MEASURED));
    es_profile_range_begin(es_stream_device(stream), stream, "decide");
    EsStatus status = queue_decision(play, decision);
    es_profile_range_end(es_stream_device(stream), stream);
    ES_TRY(status);
    ES_TRY(es_growth_queue_report(growth, ES_GROWTH_DECIDED));
    ES_TRY(es_growth_queue_collect(growth));
    return es_growth_queue_advance(growth);
}

// Show a step that was queued, moment by moment.
static EsStatus show_step(EsGrowPlay *play, EsDecisionDevice *decision, const EsGrowWatch *watch,
                          int64_t step) {
    EsGrowth *growth = play->growth;
    ES_TRY(es_growth_receive(growth, ES_GROWTH_MEASURED));
    for (int64_t e = 0; e < play->settings->n_envs; e++) {
        play->parameter_ratio[e] = es_growth_parameter_ratio(growth, e);
    }
    ES_TRY(watch->measured(watch->context, step));
    ES_TRY(es_growth_receive(growth, ES_GROWTH_DECIDED));
    es_decision_receive(decision, es_growth_received_report(growth), play->actions, play->paid);
    ES_TRY(read_decide_ms(play));
    return watch->decided(watch->context, step);
}

// Made at the first call, then the same one.
static EsStatus find_decision(EsGrowPlay *play, EsPolicy *policy, EsDecisionDevice **decision) {
    return es_policy_decision(policy, play->reward, es_growth_device(play->growth)->stream,
                              decision);
}

EsStatus es_grow_play_begin_on_device(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode) {
    EsDecisionDevice *decision = NULL;
    ES_TRY(find_decision(play, policy, &decision));
    es_decision_place_report(decision, play->report);
    return es_decision_begin(decision, first_episode);
}

EsStatus es_grow_play_step_on_device(EsGrowPlay *play, EsPolicy *policy, int64_t step,
                                     const EsGrowWatch *watch) {
    EsDecisionDevice *decision = NULL;
    ES_TRY(find_decision(play, policy, &decision));
    ES_TRY(queue_step(play, decision));
    return show_step(play, decision, watch, step);
}

EsStatus es_grow_play_end_on_device(EsGrowPlay *play, EsPolicy *policy) {
    EsDecisionDevice *decision = NULL;
    ES_TRY(find_decision(play, policy, &decision));
    play->replays = es_decision_replays(decision);
    return es_decision_end(decision);
}
