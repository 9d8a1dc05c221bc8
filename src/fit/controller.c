// A policy with copies of all that it reads, asked through a deadline's mailbox.
#include "fit/controller.h"

#include <string.h>

#include "base/memory.h"

struct EsController {
    EsDevice *device; // owned, of one thread
    EsGrowthSettings settings;
    EsSlot slots[ES_SLOTS_MAX];
    EsPolicy *policy; // owned
    EsDeadlineDrill drill;
    // the question and its answer
    EsGrowthState state;  // over slab
    void *slab;           // owned
    EsActionMasks *masks; // owned [E]
    EsAction *actions;    // owned [E]
    int64_t n_envs;
};

void es_controller_destroy(EsController *controller) {
    if (controller == NULL) {
        return;
    }
    es_policy_destroy(controller->policy);
    es_device_close(controller->device);
    es_release(controller->slab);
    es_release(controller->masks);
    es_release(controller->actions);
    es_release(controller);
}

static EsStatus create_parts(EsController *controller, const char *policy,
                             const EsPolicyContext *context) {
    const EsDeviceOptions one_thread = {.n_threads = 1};
    size_t n = (size_t)context->n_envs;
    int32_t n_slots = context->settings->n_slots;
    controller->settings = *context->settings;
    memcpy(controller->slots, context->slots, sizeof context->slots[0] * (size_t)n_slots);
    controller->n_envs = context->n_envs;
    ES_TRY(es_device_open("cpu", &one_thread, &controller->device));
    EsPolicyContext own = *context;
    own.settings = &controller->settings;
    own.slots = controller->slots;
    own.device = controller->device;
    ES_TRY(es_policy_open(policy, &own, &controller->policy));
    ES_TRY(es_allocate(es_growth_state_bytes((int32_t)n, n_slots), &controller->slab));
    es_growth_state_bind(&controller->state, controller->slab, (int32_t)n, n_slots);
    ES_TRY(es_allocate(sizeof *controller->masks * n, (void **)&controller->masks));
    return es_allocate(sizeof *controller->actions * n, (void **)&controller->actions);
}

EsStatus es_controller_create(const char *policy, const EsPolicyContext *context,
                              const EsDeadlineDrill *drill, EsController **controller_out) {
    EsController *controller = NULL;
    *controller_out = NULL;
    ES_TRY(es_allocate(sizeof *controller, (void **)&controller));
    controller->drill = drill != NULL ? *drill : (EsDeadlineDrill){0};
    EsStatus status = create_parts(controller, policy, context);
    if (status != ES_STATUS_OK) {
        es_controller_destroy(controller);
        return status;
    }
    *controller_out = controller;
    return ES_STATUS_OK;
}

EsPolicy *es_controller_policy(const EsController *controller) { return controller->policy; }

static EsStatus decide(void *context) {
    EsController *controller = context;
    if (controller->drill.before != NULL) {
        ES_TRY(controller->drill.before(controller->drill.context));
    }
    return es_policy_decide(controller->policy, &controller->state, controller->masks,
                            controller->actions);
}

static void release(void *context) { es_controller_destroy(context); }

EsDeadlineOutcome es_controller_decide(EsController **controller_inout, EsDeadline *deadline,
                                       double ms, const EsGrowthState *state,
                                       const EsActionMasks *masks, EsAction *actions,
                                       EsStatus *status) {
    EsController *controller = *controller_inout;
    size_t n = (size_t)controller->n_envs;
    ES_ASSERT(state->n_envs == controller->n_envs && state->n_slots == controller->state.n_slots);
#define X(type, name, start, meaning)                                                              \
    memcpy(controller->state.seed.name, state->seed.name,                                          \
           sizeof(type) * n * (size_t)state->n_slots);
    ES_SEED_FIELDS(X)
#undef X
#define X(type, name, start, meaning)                                                              \
    memcpy(controller->state.env.name, state->env.name, sizeof(type) * n);
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    memcpy(controller->state.env.name, state->env.name, sizeof(type) * n * (count));
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
    memcpy(controller->masks, masks, sizeof *masks * n);
    const EsDeadlineJob job = {decide, release, controller};
    EsDeadlineOutcome outcome = es_deadline_run(deadline, &job, ms, status);
    if (outcome == ES_DEADLINE_MISSED) {
        *controller_inout = NULL;
    } else if (outcome == ES_DEADLINE_MET && *status == ES_STATUS_OK) {
        memcpy(actions, controller->actions, sizeof *actions * n);
    }
    return outcome;
}
