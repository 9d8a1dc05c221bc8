// Life of a decision phase on a device: memory, the begin and end of a round, and the order of its
// launches.
#include "control/decision/decision_device.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "control/decision/decision_internal.h"
#include "control/policy/policy_internal.h"
#include "learning/normaliser.h"

// --- memory ---

// Offsets in device memory. The first part is staged: written on the CPU at a begin and sent in one
// copy; the end of it comes back in one.
typedef struct Layout {
    size_t round, mean, deviation, memory, entries, reward, t;
    size_t is_reset, report, rollout, raw;
    size_t staged_bytes, bytes;
} Layout;

static Layout lay_out(const EsPolicy *policy, const EsRewardView *reward, size_t report_bytes) {
    const EsRollout *rollout = policy->learned.rollout;
    size_t n_envs = (size_t)policy->context.n_envs;
    size_t n_scales = (size_t)policy->learned.features.n_features;
    Layout l;
    memset(&l, 0, sizeof l);
    l.round = es_slab_add(&l.bytes, sizeof(EsDecisionRound));
    l.mean = es_slab_add(&l.bytes, n_scales * sizeof(double));
    l.deviation = es_slab_add(&l.bytes, n_scales * sizeof(double));
    l.memory = es_slab_add(&l.bytes, policy->memory != NULL ? n_envs * sizeof(EsHeuristic) : 0);
    l.entries = es_slab_add(&l.bytes, (size_t)policy->schedule.n_entries * sizeof(EsScheduleEntry));
    l.reward = es_slab_add(&l.bytes, reward->memory_bytes);
    l.t = es_slab_add(&l.bytes, n_envs * sizeof(int32_t));
    l.staged_bytes = l.bytes;
    l.is_reset = es_slab_add(&l.bytes, n_envs);
    l.report = es_slab_add(&l.bytes, report_bytes);
    if (rollout != NULL) {
        l.rollout = es_slab_add(&l.bytes, rollout->slab_bytes);
        l.raw = es_slab_add(&l.bytes, (size_t)rollout->n_rows * n_scales * sizeof(float));
    }
    return l;
}

static EsDecisionReport lay_out_report(size_t n_envs) {
    EsDecisionReport report = {.memory = NULL};
    report.actions = es_slab_add(&report.bytes, n_envs * sizeof(EsAction));
    report.terms = es_slab_add(&report.bytes, n_envs * sizeof(EsRewardTerms));
    report.totals = es_slab_add(&report.bytes, n_envs * sizeof(double));
    report.action_stats = es_slab_add(&report.bytes, n_envs * sizeof(EsActionStats));
    return report;
}

size_t es_decision_report_bytes(int64_t n_envs) { return lay_out_report((size_t)n_envs).bytes; }

void es_decision_place_report(EsDecisionDevice *decision, void *place) {
    EsDecisionView *view = &decision->view;
    unsigned char *memory = place;
    if (place != decision->report.memory) {
        es_graph_capture_forget(&decision->choose_work.graph_capture);
        es_graph_capture_forget(&decision->reward_work.graph_capture);
    }
    decision->report.memory = place;
    view->actions = (void *)(memory + decision->report.actions);
    view->reward.terms = (void *)(memory + decision->report.terms);
    view->totals = (void *)(memory + decision->report.totals);
    view->action_stats = (void *)(memory + decision->report.action_stats);
}

static void bind(EsDecisionDevice *decision, const Layout *l) {
    const EsPolicy *policy = decision->policy;
    const EsRewardView *reward = es_reward_view(decision->reward);
    EsDecisionView *view = &decision->view;
    unsigned char *memory = decision->memory;
    view->kind = (int32_t)policy->kind;
    view->n_envs = (int32_t)policy->context.n_envs;
    view->n_slots = policy->context.settings->n_slots;
    view->n_entries = policy->schedule.n_entries;
    view->round = (void *)(memory + l->round);
    view->mean = (void *)(memory + l->mean);
    view->deviation = (void *)(memory + l->deviation);
    view->memory = (void *)(memory + l->memory);
    view->entries = (void *)(memory + l->entries);
    es_reward_view_bind(&view->reward, memory + l->reward, view->n_envs, view->n_slots);
    view->reward.growth = &view->round->growth;
    view->reward.n_host_parameters = reward->n_host_parameters;
    view->t = (void *)(memory + l->t);
    view->is_reset = memory + l->is_reset;
    es_decision_place_report(decision, memory + l->report);
    if (policy->kind == ES_POLICY_LEARNED) {
        view->is_set = es_policy_network_spec(policy->learned.network)->is_set;
        view->inputs = es_policy_inference_inputs(policy->learned.network);
    }
    if (policy->learned.rollout != NULL) {
        view->has_rollout = 1;
        es_rollout_view_bind(&view->rollout, memory + l->rollout, &policy->learned.rollout->shape);
        view->raw = (void *)(memory + l->raw);
    }
    decision->staged_bytes = l->staged_bytes;
    decision->returned_at = l->reward;
}

// --- life ---

static EsStatus check_parts(const EsPolicy *policy, const EsRewardView *reward,
                            const EsStream *stream) {
    const EsDeviceInfo *info = es_device_info(es_stream_device(stream));
    if (info->kind != ES_DEVICE_CUDA || es_decision_kernels_cuda() == NULL) {
        return ES_FAIL(UNSUPPORTED, "decisions are made on a CUDA device, or by es_policy_decide");
    }
    if (policy->kind == ES_POLICY_EAGER) {
        return ES_FAIL(UNSUPPORTED, "the eager policy decides on the CPU; --device cpu");
    }
    if (policy->kind == ES_POLICY_LEARNED) {
        const EsDeviceInfo *other = es_device_info(policy->context.device);
        if (other->kind != info->kind || other->index != info->index) {
            return ES_FAIL(ARGUMENT, "decisions: the policy's network is on another device");
        }
    }
    if (reward->state.n_envs != policy->context.n_envs ||
        reward->state.n_slots != policy->context.settings->n_slots) {
        return ES_FAIL(ARGUMENT,
                       "decisions: a policy for %lld hosts of %d slots, rewards for %d of %d",
                       (long long)policy->context.n_envs, policy->context.settings->n_slots,
                       reward->state.n_envs, reward->state.n_slots);
    }
    return ES_STATUS_OK;
}

// A plan has a capture of its own, which cannot stand in another.
static void allow_captures(EsDecisionDevice *decision) {
    const EsPolicy *policy = decision->policy;
    EsGraphCapture *choose = &decision->choose_work.graph_capture;
    decision->choose_work.may_capture = decision->reward_work.may_capture = 1;
    if (policy->kind == ES_POLICY_LEARNED) {
        EsActingReport acting = es_policy_inference_report(policy->learned.network);
        if (!acting.is_fused) {
            decision->choose_work.may_capture = 0;
            snprintf(choose->fallback, sizeof choose->fallback,
                     "choosing is not captured, the network runs a plan: %.180s", acting.fallback);
        }
    }
}

static EsStatus create_memory(EsDecisionDevice *decision) {
    const EsPolicy *policy = decision->policy;
    decision->report = lay_out_report((size_t)policy->context.n_envs);
    Layout layout = lay_out(policy, es_reward_view(decision->reward), decision->report.bytes);
    ES_TRY(es_device_allocate(decision->device, layout.bytes, (void **)&decision->memory));
    ES_TRY(
        es_device_allocate_host(decision->device, layout.staged_bytes, (void **)&decision->staged));
    bind(decision, &layout);
    return ES_STATUS_OK;
}

EsStatus es_decision_create(EsPolicy *policy, EsReward *reward, EsStream *stream,
                            EsDecisionDevice **decision) {
    EsDecisionDevice *made = NULL;
    *decision = NULL;
    ES_TRY(check_parts(policy, es_reward_view(reward), stream));
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    policy->n_decisions++;
    made->policy = policy;
    made->reward = reward;
    made->stream = stream;
    made->device = es_stream_device(stream);
    made->kernels = es_decision_kernels_cuda();
    allow_captures(made);
    EsStatus status = create_memory(made);
    if (status != ES_STATUS_OK) {
        es_decision_destroy(made);
        return status;
    }
    *decision = made;
    return ES_STATUS_OK;
}

// The policy may show them still.
static void forget_logits(EsDecisionDevice *decision) {
    if (decision->logits != NULL) {
        decision->policy->learned.logits = NULL;
        es_device_release_host(decision->device, decision->logits);
        decision->logits = NULL;
    }
}

static size_t logits_bytes(const EsDecisionDevice *decision) {
    return (size_t)(decision->view.n_envs * es_learned_n_logits(&decision->policy->learned)) *
           sizeof *decision->logits;
}

EsStatus es_decision_keep_logits(EsDecisionDevice *decision, int is_kept) {
    if (!is_kept) {
        forget_logits(decision);
        return ES_STATUS_OK;
    }
    return decision->policy->kind != ES_POLICY_LEARNED || decision->logits != NULL
               ? ES_STATUS_OK
               : es_device_allocate_host(decision->device, logits_bytes(decision),
                                         (void **)&decision->logits);
}

void es_decision_destroy(EsDecisionDevice *decision) {
    if (decision == NULL) {
        return;
    }
    decision->policy->n_decisions--;
    EsLearned *learned = &decision->policy->learned;
    if (learned->rollout != NULL && learned->rollout->on_device == &decision->view.rollout) {
        learned->rollout->on_device = NULL; // the rows are gone: there is nothing to learn from
        learned->t = 0;
    }
    es_graph_capture_destroy(&decision->choose_work.graph_capture);
    es_graph_capture_destroy(&decision->reward_work.graph_capture);
    forget_logits(decision);
    if (decision->staged != NULL) {
        es_device_release_host(decision->device, decision->staged);
    }
    if (decision->memory != NULL) {
        es_device_release(decision->device, decision->memory);
    }
    es_release(decision);
}

// --- a round ---

// Address in the staged copy of something in the first part of the device's memory.
static void *staged(const EsDecisionDevice *decision, const void *on_device) {
    return decision->staged + ((const unsigned char *)on_device - decision->memory);
}

static void stage_learned(EsDecisionDevice *decision) {
    const EsLearned *learned = &decision->policy->learned;
    const EsDecisionView *view = &decision->view;
    double *mean = staged(decision, view->mean), *deviation = staged(decision, view->deviation);
    EsDecisionRound *round = staged(decision, view->round);
    for (int d = 0; d < learned->features.n_features; d++) {
        mean[d] = learned->features.mean[d];
        deviation[d] = es_feature_deviation(learned->features.variance[d]);
    }
    memcpy(round->floor, learned->floor, sizeof round->floor);
    round->value_scale = es_learned_value_scale(learned);
}

static void stage(EsDecisionDevice *decision) {
    const EsPolicy *policy = decision->policy;
    const EsRewardView *reward = es_reward_view(decision->reward);
    const EsDecisionView *view = &decision->view;
    size_t n_envs = (size_t)view->n_envs;
    memset(decision->staged, 0, decision->staged_bytes);
    EsDecisionRound *round = staged(decision, view->round);
    round->growth = *policy->context.settings;
    round->rules = policy->rules;
    round->seed = policy->context.seed;
    round->first_episode = policy->episodes[0]; // they follow each other on a device
    round->episode_period = es_policy_episode_period(&policy->context);
    round->is_greedy = policy->is_greedy;
    if (policy->kind == ES_POLICY_LEARNED) {
        stage_learned(decision);
    }
    if (policy->memory != NULL) {
        memcpy(staged(decision, view->memory), policy->memory, n_envs * sizeof *policy->memory);
    }
    if (policy->schedule.n_entries > 0) {
        memcpy(staged(decision, view->entries), policy->schedule.entries,
               (size_t)policy->schedule.n_entries * sizeof *policy->schedule.entries);
    }
    memcpy(staged(decision, view->reward.memory), reward->memory, reward->memory_bytes);
}

EsStatus es_decision_begin(EsDecisionDevice *decision, int64_t first_episode) {
    EsPolicy *policy = decision->policy;
    EsLearned *learned = &policy->learned;
    const EsRolloutView *rollout = &decision->view.rollout;
    // an earlier copy from the staged memory may still be in flight
    ES_TRY(es_stream_synchronize(decision->stream));
    ES_TRY(es_policy_begin(policy, first_episode));
    if (policy->kind == ES_POLICY_LEARNED) {
        // it forgot on a stream of its own, and may still read the rows of the round before
        ES_TRY(es_stream_synchronize(es_policy_network_stream(learned->network)));
    }
    es_reward_reset(decision->reward);
    stage(decision);
    ES_TRY(es_stream_copy(decision->stream, decision->memory, decision->staged,
                          decision->staged_bytes, ES_COPY_TO_DEVICE));
    if (learned->rollout != NULL) {
        learned->is_elsewhere = 1;
        ES_TRY(
            es_stream_fill(decision->stream, rollout->features, 0, learned->rollout->slab_bytes));
        ES_TRY(
            es_stream_fill(decision->stream, rollout->is_reset, 1, (size_t)rollout->shape.n_envs));
    }
    return ES_STATUS_OK;
}

// The columns of the rollout from `first` up to `end`, in one copy.
static EsStatus fetch_columns(const EsDecisionDevice *decision, const void *first,
                              const void *end) {
    const unsigned char *slab = (const unsigned char *)decision->view.rollout.features;
    size_t at = (size_t)((const unsigned char *)first - slab);
    size_t bytes = (size_t)((const unsigned char *)end - (const unsigned char *)first);
    unsigned char *here = decision->policy->learned.rollout->slab;
    return es_stream_copy(decision->stream, here + at, first, bytes, ES_COPY_TO_HOST);
}

// Copies all columns that the CPU reads: not features and ids; those of es_rollout_finish are 0.
static EsStatus fetch_outcomes(const EsDecisionDevice *decision) {
    const EsLearned *learned = &decision->policy->learned;
    const EsRolloutView *rollout = &decision->view.rollout;
    size_t n_raw = (size_t)rollout->n_rows * (size_t)learned->features.n_features;
    ES_TRY(fetch_columns(decision, rollout->is_reset, rollout->scaled_reward));
    return n_raw == 0 ? ES_STATUS_OK
                      : es_stream_copy(decision->stream, learned->raw, decision->view.raw,
                                       n_raw * sizeof *learned->raw, ES_COPY_TO_HOST);
}

EsStatus es_decision_fetch_rows(EsDecisionDevice *decision) {
    const EsRolloutView *rollout = &decision->view.rollout;
    ES_TRY(fetch_columns(decision, rollout->features, rollout->is_reset));
    ES_TRY(es_stream_synchronize(decision->stream));
    decision->policy->learned.rollout->on_device = NULL;
    return ES_STATUS_OK;
}

EsStatus es_decision_end(EsDecisionDevice *decision) {
    EsLearned *learned = &decision->policy->learned;
    EsRewardView *reward = es_reward_view(decision->reward);
    size_t at = decision->returned_at;
    ES_TRY(es_stream_copy(decision->stream, decision->staged + at, decision->memory + at,
                          decision->staged_bytes - at, ES_COPY_TO_HOST));
    if (learned->rollout != NULL) {
        ES_TRY(fetch_outcomes(decision));
    }
    ES_TRY(es_stream_synchronize(decision->stream));
    memcpy(reward->memory, staged(decision, decision->view.reward.memory), reward->memory_bytes);
    if (learned->rollout != NULL) {
        const int32_t *t = staged(decision, decision->view.t);
        learned->t = t[0];
        learned->rollout->on_device = &decision->view.rollout;
    }
    int is_actor = learned->rollout != NULL && learned->ppo == NULL;
    return is_actor ? es_decision_fetch_rows(decision) : ES_STATUS_OK;
}

// --- a step ---

static EsStatus queue_choose(void *context, EsStream *stream) {
    EsDecisionDevice *decision = context;
    const EsDecisionWork *work = &decision->choose_work;
    EsDecisionView *view = &decision->view;
    if (view->kind != ES_POLICY_LEARNED) {
        decision->kernels->decide(stream, view, &work->state, work->masks, work->actions);
        return es_device_status(decision->device);
    }
    decision->kernels->observe(stream, view, &work->state);
    ES_TRY(es_policy_inference_act_queued(decision->policy->learned.network, stream, view->is_reset,
                                          &view->logits, &view->value));
    decision->kernels->sample(stream, view, &work->state, work->masks, work->actions);
    return es_device_status(decision->device);
}

static EsStatus queue_reward(void *context, EsStream *stream) {
    EsDecisionDevice *decision = context;
    decision->kernels->reward(stream, &decision->view, &decision->reward_work.state,
                              decision->n_unrewarded_prunes);
    return es_device_status(decision->device);
}

static EsStatus run_work(EsDecisionDevice *decision, EsDecisionWork *work, EsQueueFunction queue,
                         const EsGrowthState *state, const EsActionMasks *masks,
                         EsAction *actions) {
    ES_ASSERT(state->n_envs == decision->view.n_envs && state->n_slots == decision->view.n_slots);
    if (memcmp(&work->state, state, sizeof *state) != 0 || work->masks != masks ||
        work->actions != actions) {
        es_graph_capture_forget(&work->graph_capture);
        memcpy(&work->state, state, sizeof work->state); // as it is compared: padding too
        work->masks = masks;
        work->actions = actions;
    }
    return es_graph_capture_run(&work->graph_capture, decision->stream, work->may_capture, queue,
                                decision);
}

EsStatus es_decision_choose(EsDecisionDevice *decision, const EsGrowthState *state,
                            const EsActionMasks *masks, EsAction *actions) {
    ES_TRY(run_work(decision, &decision->choose_work, queue_choose, state, masks, actions));
    return decision->logits == NULL
               ? ES_STATUS_OK
               : es_stream_copy(decision->stream, decision->logits, decision->view.logits,
                                logits_bytes(decision), ES_COPY_TO_HOST);
}

EsStatus es_decision_reward(EsDecisionDevice *decision, const EsGrowthState *state,
                            int32_t *n_unrewarded_prunes) {
    ES_ASSERT(n_unrewarded_prunes == state->env.n_unrewarded_prunes); // captured with the state
    decision->n_unrewarded_prunes = n_unrewarded_prunes;
    return run_work(decision, &decision->reward_work, queue_reward, state, NULL, NULL);
}

// --- looking at it ---

const EsPolicy *es_decision_policy(const EsDecisionDevice *decision) { return decision->policy; }

EsDecisionReport es_decision_report(const EsDecisionDevice *decision) { return decision->report; }

EsDecisionReplays es_decision_replays(const EsDecisionDevice *decision) {
    const EsGraphCapture *const graph_captures[] = {&decision->choose_work.graph_capture,
                                                    &decision->reward_work.graph_capture};
    EsDecisionReplays replays = {0};
    for (size_t i = 0; i < ES_COUNT_OF(graph_captures); i++) {
        replays.n_captures += graph_captures[i]->capture != NULL;
        replays.n_replays += graph_captures[i]->n_replays;
        replays.capture_ms += graph_captures[i]->capture_ms;
        if (graph_captures[i]->fallback[0] != '\0') {
            replays.n_fallbacks++;
            snprintf(replays.fallback, sizeof replays.fallback, "%s", graph_captures[i]->fallback);
        }
    }
    return replays;
}

void es_decision_receive(EsDecisionDevice *decision, const void *report, EsAction *actions,
                         float *rewards) {
    const EsDecisionReport *places = &decision->report;
    const unsigned char *from = report;
    EsRewardView *reward = es_reward_view(decision->reward);
    size_t n_envs = (size_t)decision->view.n_envs;
    memcpy(actions, from + places->actions, n_envs * sizeof *actions);
    memcpy(reward->terms, from + places->terms, n_envs * sizeof *reward->terms);
    memcpy(reward->state.env.total, from + places->totals, n_envs * sizeof(double));
    for (size_t e = 0; e < n_envs; e++) {
        rewards[e] = reward->terms[e].total;
    }
    if (decision->policy->kind == ES_POLICY_LEARNED) {
        EsActionStats *action_stats = decision->policy->learned.action_stats;
        memcpy(action_stats, from + places->action_stats, n_envs * sizeof *action_stats);
        decision->policy->learned.logits = decision->logits;
    }
}
