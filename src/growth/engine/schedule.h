// Written schedules: which operation happens in which environment at which step, from a text file.
//
//     # step  environments  operation   arguments
//     1       *             germinate   r0c1 conv_light style=sigmoid_add tempo=standard
//     9       0-3,7         fossilize   r0c1
//     12      *             prune       r0c0 speed=fast curve=cosine
//     15      2             set_alpha   r0c0 target=seventy speed=slow curve=linear
//     20      *             advance     r0c0
//
// One operation per environment and step; a later line for the same wins. Without a line the
// environment waits. An operation that the rules refuse counts as waiting, as for any policy.
#ifndef ES_GROWTH_SCHEDULE_H
#define ES_GROWTH_SCHEDULE_H

#include "growth/host/host.h"
#include "growth/rules/action_rules.h"

ES_EXTERN_C_BEGIN

typedef struct EsScheduleEntry {
    int32_t step;               // from 1
    int32_t first_env, end_env; // [first, end); end 0 = all
    EsAction action;
} EsScheduleEntry;

typedef struct EsSchedule {
    EsScheduleEntry *entries; // owned, in the order of the file
    int n_entries;
} EsSchedule;

// Limits of the run; a line beyond them would never apply and is refused.
typedef struct EsScheduleLimits {
    const EsSlot *slots; // borrowed
    int n_slots;
    int64_t n_envs;
    int32_t n_steps;
    int32_t blueprints; // legal ones, as bits
} EsScheduleLimits;

// INPUT names file, line and column, the text there and the valid ones.
EsStatus es_schedule_load(const char *path, const EsScheduleLimits *limits, EsSchedule *schedule);
void es_schedule_destroy(EsSchedule *schedule);

// The actions [E] of a step.
void es_schedule_actions(const EsSchedule *schedule, int32_t step, int64_t n_envs,
                         EsAction *actions);

ES_EXTERN_C_END

#endif
