// The controller of a fit: a policy that decides under a deadline.
//
// It owns all that it reads: a device of one thread, settings, slots, and a copy of the state that
// it decides on. So it may take as long as it likes without training noticing, and one whose
// deadline was missed is given up, with its memory of the episodes; another is created then.
//
//     EsController *controller;
//     ES_TRY(es_controller_create("eager", &context, NULL, &controller));
//     ES_TRY(es_policy_begin(es_controller_policy(controller), first_episode));
//     switch (es_controller_decide(&controller, deadline, 5, state, masks, actions, &status)) {
//     case ES_DEADLINE_MISSED: // controller is NULL
#ifndef ES_FIT_CONTROLLER_H
#define ES_FIT_CONTROLLER_H

#include "control/policy/policy.h"
#include "fit/deadline.h"

typedef struct EsController EsController;

// `context` is copied; its device is not used. `drill` runs before each decision; it is nullable
// and copied.
EsStatus es_controller_create(const char *policy, const EsPolicyContext *context,
                              const EsDeadlineDrill *drill, EsController **controller);
void es_controller_destroy(EsController *controller);

// Its policy, owned by it, for use between decisions.
EsPolicy *es_controller_policy(const EsController *controller);

// es_policy_decide within `ms`. *controller is NULL after a missed deadline: its thread has it.
// *status is the policy's, with its detail, when the deadline was met.
EsDeadlineOutcome es_controller_decide(EsController **controller, EsDeadline *deadline, double ms,
                                       const EsGrowthState *state, const EsActionMasks *masks,
                                       EsAction *actions, EsStatus *status);

#endif
