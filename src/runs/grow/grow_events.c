// The events of growth, from the state of its hosts: rows of a step, of its decision with the seeds
// that it changed, and of an episode's end.
#include "runs/grow/grow_events.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "growth/engine/gradient_routes.h"
#include "growth/engine/growth_device.h"
#include "growth/rules/growth_names.h"
#include "runs/grow/route_events.h"

#define SEED_ID_BYTES  48
#define CHECKS_BYTES   128
#define PATH_STEPS_MAX 7 // transitions a stage path holds
#define SLOT_METRICS   3
#define CHOICE_BYTES   2048 // of a decision: every value of all heads with its name fits

// Memory of a slot from step to step: a slot that is emptied still had a seed.
typedef struct SlotMemory {
    char id[SEED_ID_BYTES];
    char checks[CHECKS_BYTES];
    char label[SEED_ID_BYTES]; // of metrics
    const char *blueprint;     // static
    int32_t gate, gate_failed; // last emitted
} SlotMemory;

struct EsGrowEvents {
    const EsGrowth *growth; // borrowed
    int64_t n_envs;
    int n_slots;
    SlotMemory *slots;                        // owned [E, S]
    int32_t *n_divergences;                   // owned [E], before the decision
    EsEnvSteppedEvent *stepped;               // owned [E]
    EsDecisionTakenEvent *decisions;          // owned [E]
    char (*choices)[CHOICE_BYTES];            // owned [E]: texts of their probabilities
    EsContributionMeasuredEvent *contributed; // owned [E, S]
    EsSeedMeasuredEvent *measured;            // owned [E, S]
    EsMetricEvent *metrics;                   // owned [E, S, SLOT_METRICS]
    EsEpisodeOutcomeEvent *outcomes;          // owned [E]
    EsGovernorRollbackEvent *rollbacks;       // owned [E]
    EsSeedGateEvaluatedEvent *gates;          // owned [E, S]
    EsSeedGerminatedEvent *germinated;        // owned [E, S]
    EsSeedFossilizedEvent *fossilized;        // owned [E, S]
    EsSeedPrunedEvent *pruned;                // owned [E, S]
    EsSeedStageChangedEvent *changed;         // owned [E, S, PATH_STEPS_MAX]
    EsRewardComputedEvent *rewards;           // owned [E]
};

// The value where it was measured, missing otherwise.
static double measured_or_missing(double value, int is_measured) {
    return is_measured ? value : es_missing_real();
}

EsStatus es_grow_events_create(const EsGrowth *growth, int64_t n_envs, EsGrowEvents **events_out) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    EsGrowEvents *events = NULL;
    EsStatus status = ES_STATUS_OK;
    size_t n = (size_t)n_envs, n_all = n * (size_t)state->n_slots;
    *events_out = NULL;
    ES_TRY(es_allocate(sizeof *events, (void **)&events));
    events->growth = growth;
    events->n_envs = n_envs;
    events->n_slots = state->n_slots;
    ES_TRY_GOTO(es_allocate(sizeof *events->slots * n_all, (void **)&events->slots));
    ES_TRY_GOTO(es_allocate(sizeof(int32_t) * n, (void **)&events->n_divergences));
    ES_TRY_GOTO(es_allocate(sizeof *events->stepped * n, (void **)&events->stepped));
    ES_TRY_GOTO(es_allocate(sizeof *events->decisions * n, (void **)&events->decisions));
    ES_TRY_GOTO(es_allocate(sizeof *events->choices * n, (void **)&events->choices));
    ES_TRY_GOTO(es_allocate(sizeof *events->contributed * n_all, (void **)&events->contributed));
    ES_TRY_GOTO(es_allocate(sizeof *events->measured * n_all, (void **)&events->measured));
    ES_TRY_GOTO(
        es_allocate(sizeof *events->metrics * n_all * SLOT_METRICS, (void **)&events->metrics));
    ES_TRY_GOTO(es_allocate(sizeof *events->outcomes * n, (void **)&events->outcomes));
    ES_TRY_GOTO(es_allocate(sizeof *events->rollbacks * n, (void **)&events->rollbacks));
    ES_TRY_GOTO(es_allocate(sizeof *events->gates * n_all, (void **)&events->gates));
    ES_TRY_GOTO(es_allocate(sizeof *events->germinated * n_all, (void **)&events->germinated));
    ES_TRY_GOTO(es_allocate(sizeof *events->fossilized * n_all, (void **)&events->fossilized));
    ES_TRY_GOTO(es_allocate(sizeof *events->pruned * n_all, (void **)&events->pruned));
    ES_TRY_GOTO(
        es_allocate(sizeof *events->changed * n_all * PATH_STEPS_MAX, (void **)&events->changed));
    ES_TRY_GOTO(es_allocate(sizeof *events->rewards * n, (void **)&events->rewards));
    *events_out = events;
done:
    if (status != ES_STATUS_OK) {
        es_grow_events_destroy(events);
    }
    return status;
}

void es_grow_events_destroy(EsGrowEvents *events) {
    if (events == NULL) {
        return;
    }
    void *const rows[] = {
        events->slots,       events->n_divergences, events->stepped,   events->decisions,
        events->contributed, events->outcomes,      events->rollbacks, events->gates,
        events->germinated,  events->fossilized,    events->pruned,    events->changed,
        events->rewards,     events->measured,      events->metrics,   events->choices};
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        es_release(rows[i]);
    }
    es_release(events);
}

// NULL where there is no such slot.
static const char *slot_name(const EsGrowEvents *events, int slot) {
    return slot >= 0 && slot < events->n_slots ? es_growth_model(events->growth)->slots[slot].name
                                               : NULL;
}

// The number of an environment in rows, and of its episode.
static int64_t env_number(const EsGrowMoment *moment, int64_t env) {
    return moment->envs != NULL ? moment->envs[env] : env;
}

static int64_t episode_number(const EsGrowMoment *moment, int64_t env) {
    return moment->first_episode + env_number(moment, env);
}

// Names the seed of slot i = [env, slot], where there is one.
static void remember_seed(EsGrowEvents *events, int64_t i, const EsGrowMoment *moment) {
    const EsSeedView *seed = &es_growth_snapshot(events->growth)->state.seed;
    int64_t env = i / events->n_slots;
    SlotMemory *memory = &events->slots[i];
    if (seed->number[i] > 0) {
        snprintf(memory->id, sizeof memory->id, "ep%lld_env%lld_seed_%d",
                 (long long)episode_number(moment, env), (long long)env_number(moment, env),
                 seed->number[i]);
        memory->blueprint = es_blueprint_id_name(seed->blueprint[i]);
    }
}

void es_grow_events_recall(EsGrowEvents *events, const EsGrowMoment *moment) {
    for (int64_t i = 0; i < events->n_envs * events->n_slots; i++) {
        remember_seed(events, i, moment);
    }
}

static int count_living(const EsGrowEvents *events, int64_t env) {
    const int32_t *stage =
        es_growth_snapshot(events->growth)->state.seed.stage + env * events->n_slots;
    int n = 0;
    for (int s = 0; s < events->n_slots; s++) {
        n += es_stage_in(stage[s], ES_STAGES_LIVING);
    }
    return n;
}

// --- up to the decision ---

// Of seed i = [env, slot]; Shapley values are measured at the end of an episode alone.
static EsContributionMeasuredEvent contribution_row(const EsGrowEvents *events,
                                                    const EsGrowMoment *moment, int64_t i,
                                                    double shapley, double shapley_error) {
    int64_t env = i / events->n_slots;
    const EsSeedView *seed = &es_growth_snapshot(events->growth)->state.seed;
    return (EsContributionMeasuredEvent){.env = env_number(moment, env),
                                         .episode = episode_number(moment, env),
                                         .slot = slot_name(events, (int)(i % events->n_slots)),
                                         .contribution = (double)seed->contribution[i],
                                         .velocity = (double)seed->contribution_velocity[i],
                                         .interaction = (double)seed->interaction_sum[i],
                                         .shapley = shapley,
                                         .shapley_error = shapley_error};
}

static void emit_contributions(EsGrowEvents *events, const EsGrowMoment *moment) {
    const EsSeedView *seed = &es_growth_snapshot(events->growth)->state.seed;
    int64_t n_rows = 0;
    for (int64_t i = 0; i < events->n_envs * events->n_slots; i++) {
        if (seed->contribution_age[i] == 0) {
            events->contributed[n_rows++] =
                contribution_row(events, moment, i, es_missing_real(), es_missing_real());
        }
    }
    es_emit_contribution_measured(moment->hub, moment->time, events->contributed, n_rows);
}

void es_grow_events_measured(EsGrowEvents *events, const EsGrowMoment *moment, double decide_ms) {
    EsGrowthTimes times = es_growth_times(events->growth);
    EsStepTimedEvent timed = {.total_ms = times.train_ms + times.validate_ms + decide_ms,
                              .train_ms = times.train_ms,
                              .validate_ms = times.validate_ms,
                              .decide_ms = decide_ms};
    es_emit_step_timed(moment->hub, moment->time, &timed, 1);
    memcpy(events->n_divergences, es_growth_snapshot(events->growth)->state.env.n_divergences,
           sizeof(int32_t) * (size_t)events->n_envs);
    if (es_hub_wants(moment->hub, ES_EVENT_ENV_STEPPED, moment->time.step)) {
        const EsGrowthResult *results = es_growth_results(events->growth);
        for (int64_t e = 0; e < events->n_envs; e++) {
            const EsGrowthResult *result = &results[e];
            events->stepped[e] = (EsEnvSteppedEvent){
                .env = env_number(moment, e),
                .episode = episode_number(moment, e),
                .train_loss = result->train_loss,
                .train_accuracy = result->train_accuracy,
                .validation_loss = result->validation_loss,
                .validation_accuracy = result->validation_accuracy,
                .host_gradient_norm = measured_or_missing(
                    result->host_gradient_norm, result->host_gradient_norm != ES_NOT_MEASURED),
                .n_seeds = count_living(events, e)};
        }
        es_emit_env_stepped(moment->hub, moment->time, events->stepped, events->n_envs);
    }
    if (es_hub_wants(moment->hub, ES_EVENT_CONTRIBUTION_MEASURED, moment->time.step)) {
        emit_contributions(events, moment);
    }
    es_grow_events_seeds(events, moment);
    if (es_hub_wants(moment->hub, ES_EVENT_METRIC, moment->time.step)) {
        EsRouteTotals totals = {0};
        es_route_totals_add(&totals, events->growth);
        es_route_totals_emit(&totals, moment->hub, moment->time);
    }
}

// --- seeds ---

// The columns that every event of a seed begins with.
#define SEED_COLUMNS                                                                               \
    .env = env_number(moment, env), .episode = episode_number(moment, env),                        \
    .slot = slot_name(events, slot), .seed_id = memory->id, .blueprint = memory->blueprint

// Sum of the gradient norms of an environment's host and living seeds; negative when one of them
// was not measured.
static double sum_norms(const EsGrowEvents *events, int64_t env) {
    const EsSeedView *seed = &es_growth_snapshot(events->growth)->state.seed;
    double sum = es_growth_results(events->growth)[env].host_gradient_norm;
    for (int64_t i = env * events->n_slots; i < (env + 1) * events->n_slots && sum >= 0; i++) {
        if (es_stage_in(seed->stage[i], ES_STAGES_LIVING)) {
            sum = seed->gradient_norm[i] >= 0 ? sum + (double)seed->gradient_norm[i] : -1;
        }
    }
    return sum;
}

// Of the last step; NULL where there is no such thing.
static const EsSeedRoute *route_of(const EsGrowEvents *events, int64_t env, int slot) {
    const EsRouteReport *reports = es_growth_routes(events->growth);
    const EsSeedRoute *route = reports == NULL ? NULL : &reports[env].seed[slot];
    return route != NULL && route->n_updates > 0 ? route : NULL;
}

static EsSeedMeasuredEvent measured_row(const EsGrowEvents *events, const EsGrowMoment *moment,
                                        int64_t env, int slot, double norms) {
    int64_t i = env * events->n_slots + slot;
    const EsSeed seed = es_seed_load(&es_growth_snapshot(events->growth)->state.seed, (size_t)i);
    const SlotMemory *memory = &events->slots[i];
    const EsSeedRoute *route = route_of(events, env, slot);
    double norm = (double)seed.gradient_norm;
    return (EsSeedMeasuredEvent){
        SEED_COLUMNS,
        .stage = es_stage_name(seed.stage),
        .alpha = (double)seed.alpha,
        .gradient_norm = measured_or_missing(norm, norm >= 0),
        .health = measured_or_missing((double)seed.gradient_health, seed.gradient_health >= 0),
        .ratio = measured_or_missing((double)seed.gradient_ratio, seed.gradient_ratio >= 0),
        .weight = es_route_weight(seed.stage, seed.alpha),
        .share = measured_or_missing(norms > 0 ? norm / norms : 0, norms >= 0),
        .conflicts = route != NULL ? route->n_conflicts : ES_MISSING_INT,
        .conflict_ratio = route != NULL ? route->conflict_ratio : es_missing_real(),
        .teacher_share = route != NULL ? es_growth_routes(events->growth)[env].teacher_share
                                       : es_missing_real()};
}

void es_grow_events_seeds(EsGrowEvents *events, const EsGrowMoment *moment) {
    const EsSeedView *seed = &es_growth_snapshot(events->growth)->state.seed;
    int64_t n_rows = 0;
    if (!es_hub_wants(moment->hub, ES_EVENT_SEED_MEASURED, moment->time.step)) {
        return;
    }
    for (int64_t e = 0; e < events->n_envs; e++) {
        double norms = sum_norms(events, e);
        for (int s = 0; s < events->n_slots; s++) {
            if (es_stage_in(seed->stage[e * events->n_slots + s], ES_STAGES_LIVING)) {
                events->measured[n_rows++] = measured_row(events, moment, e, s, norms);
            }
        }
    }
    es_emit_seed_measured(moment->hub, moment->time, events->measured, n_rows);
}

void es_grow_events_slots(EsGrowEvents *events, const EsGrowMoment *moment) {
    const EsSeedView *seed = &es_growth_snapshot(events->growth)->state.seed;
    int64_t n_rows = 0;
    if (!es_hub_wants(moment->hub, ES_EVENT_METRIC, moment->time.step)) {
        return;
    }
    for (int64_t i = 0; i < events->n_envs * events->n_slots; i++) {
        SlotMemory *memory = &events->slots[i];
        if (memory->id[0] == '\0') {
            continue;
        }
        snprintf(memory->label, sizeof memory->label, "env%lld.%s",
                 (long long)env_number(moment, i / events->n_slots),
                 slot_name(events, (int)(i % events->n_slots)));
        EsMetricEvent *rows = events->metrics + n_rows;
        rows[0] = es_metric("kasmina.seed.stage", seed->stage[i]);
        rows[1] = es_metric("kasmina.seed.alpha", (double)seed->alpha[i]);
        rows[2] = es_metric("kasmina.seed.alpha_steps", seed->alpha_ticks_done[i]);
        for (int k = 0; k < SLOT_METRICS; k++) {
            rows[k].seed_id = memory->label;
        }
        n_rows += SLOT_METRICS;
    }
    es_emit_metric(moment->hub, moment->time, events->metrics, n_rows);
}

// Seed events of a step, by kind.
typedef struct SeedEventCounts {
    int64_t n_gates, n_germinated, n_fossilized, n_pruned, n_changed;
} SeedEventCounts;

static void add_transition(EsGrowEvents *events, SeedEventCounts *counts,
                           const EsGrowMoment *moment, int64_t env, int slot, int32_t from,
                           int32_t to, int is_last) {
    const EsGrowthState *state = &es_growth_snapshot(events->growth)->state;
    size_t i = (size_t)(env * events->n_slots + slot);
    EsSeed seed = es_seed_load(&state->seed, i);
    const SlotMemory *memory = &events->slots[i];
    double improvement =
        measured_or_missing((double)(seed.accuracy_now - seed.accuracy_germination),
                            seed.accuracy_now >= 0 && seed.accuracy_germination >= 0);
    double contribution =
        measured_or_missing((double)seed.contribution, seed.contribution_age >= 0);
    if (to == ES_STAGE_GERMINATED) {
        events->germinated[counts->n_germinated++] = (EsSeedGerminatedEvent){
            SEED_COLUMNS, .n_parameters = seed.n_parameters,
            .style = es_algorithm_name(seed.algorithm), .tempo = seed.tempo};
    } else if (to == ES_STAGE_FOSSILIZED) {
        events->fossilized[counts->n_fossilized++] = (EsSeedFossilizedEvent){
            SEED_COLUMNS, .n_parameters = seed.n_parameters, .improvement = improvement,
            .contribution = contribution, .n_steps_alive = seed.age};
    } else if (to == ES_STAGE_PRUNED) {
        events->pruned[counts->n_pruned++] =
            (EsSeedPrunedEvent){SEED_COLUMNS,
                                .reason = es_prune_reason_name(seed.prune_reason),
                                .initiator = es_prune_initiator_name(seed.prune_reason),
                                .improvement = improvement,
                                .contribution = contribution,
                                .n_steps_alive = seed.age};
    }
    // of several transitions in one step the state knows the last one's circumstances
    events->changed[counts->n_changed++] = (EsSeedStageChangedEvent){
        SEED_COLUMNS,
        .from_stage = es_stage_name(from),
        .to_stage = es_stage_name(to),
        .alpha = measured_or_missing((double)seed.alpha, is_last),
        .n_steps_in_stage =
            is_last && seed.stage != ES_STAGE_DORMANT ? seed.previous_stage_steps : ES_MISSING_INT,
        .accuracy_delta = improvement};
}

// A gate is emitted when it opens, and when it stays closed for another reason than last time.
static void add_gate(EsGrowEvents *events, SeedEventCounts *counts, const EsGrowMoment *moment,
                     int64_t env, int slot) {
    const EsSeedView *seed = &es_growth_snapshot(events->growth)->state.seed;
    size_t i = (size_t)(env * events->n_slots + slot);
    SlotMemory *memory = &events->slots[i];
    int32_t gate = seed->gate[i], failed = seed->gate_failed[i];
    if (gate < 0 || (failed != 0 && gate == memory->gate && failed == memory->gate_failed)) {
        return;
    }
    memory->gate = gate;
    memory->gate_failed = failed;
    events->gates[counts->n_gates++] = (EsSeedGateEvaluatedEvent){
        SEED_COLUMNS, .gate = es_gate_name(gate), .passed = failed == 0,
        .failed_checks = failed == 0
                             ? NULL
                             : es_gate_checks_write(failed, memory->checks, sizeof memory->checks)};
}

static void add_slot(EsGrowEvents *events, SeedEventCounts *counts, const EsGrowMoment *moment,
                     int64_t env, int slot) {
    int64_t i = env * events->n_slots + slot;
    remember_seed(events, i, moment);
    int32_t path = es_growth_snapshot(events->growth)->state.seed.stage_path[i];
    int32_t from = 0, to = 0, n = es_stage_path_length(path);
    for (int32_t k = 0; k < n; k++) {
        es_stage_path_step(path, k, &from, &to);
        if (to == ES_STAGE_GERMINATED) {
            events->slots[i].gate = -1;
        }
        add_transition(events, counts, moment, env, slot, from, to, k == n - 1);
    }
    add_gate(events, counts, moment, env, slot);
}

// Stages, gates, germinations, fossils and prunes of the last decision.
static void emit_seeds(EsGrowEvents *events, const EsGrowMoment *moment) {
    EsHub *hub = moment->hub;
    EsEventTime time = moment->time;
    SeedEventCounts counts = {0};
    for (int64_t e = 0; e < events->n_envs; e++) {
        for (int s = 0; s < events->n_slots; s++) {
            add_slot(events, &counts, moment, e, s);
        }
    }
    es_emit_seed_germinated(hub, time, events->germinated, counts.n_germinated);
    es_emit_seed_gate_evaluated(hub, time, events->gates, counts.n_gates);
    es_emit_seed_stage_changed(hub, time, events->changed, counts.n_changed);
    es_emit_seed_fossilized(hub, time, events->fossilized, counts.n_fossilized);
    es_emit_seed_pruned(hub, time, events->pruned, counts.n_pruned);
}

// --- effects of the decision ---

// Name of the action's value for a head; NULL if its operation does not read the head.
static const char *name_choice(const EsAction *action, int32_t head, const char *(*name)(int32_t)) {
    return es_head_matters(es_action_value(action, ES_HEAD_OP), head)
               ? name(es_action_value(action, head))
               : NULL;
}

static const char *value_name(const EsGrowEvents *events, int32_t head, int32_t value) {
    switch (head) {
    case ES_HEAD_SLOT:
        return es_growth_model(events->growth)->slots[value].name;
    case ES_HEAD_BLUEPRINT:
        return es_blueprint_id_name(value);
    case ES_HEAD_STYLE:
        return es_style_name(value);
    case ES_HEAD_TEMPO:
        return es_tempo_name(value);
    case ES_HEAD_ALPHA_TARGET:
        return es_alpha_target_name(value);
    case ES_HEAD_ALPHA_SPEED:
        return es_alpha_speed_name(value);
    case ES_HEAD_ALPHA_CURVE:
        return es_curve_choice_name(value);
    default:
        return es_growth_op_name(value);
    }
}

// Legal values of a head that the action's operation reads, given the heads before it. Of the slot
// head also where it does not: slots that some legal operation may act on.
static uint32_t legal_values(const EsActionMasks *masks, const EsAction *action, int32_t head) {
    int32_t op = es_action_value(action, ES_HEAD_OP);
    if (head == ES_HEAD_OP || es_head_matters(op, head)) {
        return head == ES_HEAD_OP ? masks->head[ES_HEAD_OP]
                                  : es_masks_next(masks, action, op, head);
    }
    uint32_t slots = 0;
    for (int32_t other = 0; other < ES_N_GROWTH_OPS; other++) {
        slots |= other != ES_GROWTH_OP_WAIT ? masks->slot_by_op[other] : 0u;
    }
    return slots;
}

// Room for texts of one row.
typedef struct Room {
    char *next;
    size_t bytes;
} Room;

// Writes {"name":p,...} of the legal values; p NULL, or not finite, is null. Returns the text.
static const char *write_choice(const EsGrowEvents *events, int32_t head, uint32_t legal,
                                const double *p, Room *room) {
    char *text = room->next;
    size_t used = 0;
    for (int32_t value = 0; value < es_head_size(head, events->n_slots); value++) {
        if ((legal >> value & 1) == 0) {
            continue;
        }
        ES_ASSERT(used + 64 < room->bytes);
        used += (size_t)snprintf(text + used, 64, "%c\"%.32s\":", used == 0 ? '{' : ',',
                                 value_name(events, head, value));
        ES_ASSERT(used + 64 < room->bytes);
        used +=
            (size_t)(p != NULL && isfinite(p[value]) ? snprintf(text + used, 64, "%.5g", p[value])
                                                     : snprintf(text + used, 64, "null"));
    }
    used += (size_t)snprintf(text + used, room->bytes - used, used == 0 ? "{}" : "}");
    room->next += used + 1;
    room->bytes -= used + 1;
    return text;
}

// The choice that a decision had in each head that its operation reads, in the text room of a row.
static void describe_choices(const EsGrowEvents *events, int64_t env, const EsAction *action,
                             const EsActionMasks *masks, const EsPolicy *policy, char *memory,
                             EsDecisionTakenEvent *row) {
    const char **const columns[ES_N_HEADS] = {
        [ES_HEAD_OP] = &row->op_probabilities,
        [ES_HEAD_SLOT] = &row->slot_probabilities,
        [ES_HEAD_BLUEPRINT] = &row->blueprint_probabilities,
        [ES_HEAD_STYLE] = &row->style_probabilities,
        [ES_HEAD_TEMPO] = &row->tempo_probabilities,
        [ES_HEAD_ALPHA_TARGET] = &row->alpha_target_probabilities,
        [ES_HEAD_ALPHA_SPEED] = &row->alpha_speed_probabilities,
        [ES_HEAD_ALPHA_CURVE] = &row->alpha_curve_probabilities};
    int32_t op = es_action_value(action, ES_HEAD_OP), slot = es_action_value(action, ES_HEAD_SLOT);
    Room room = {memory, CHOICE_BYTES};
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        double p[ES_SLOTS_MAX];
        int is_read = es_head_matters(op, head);
        if ((is_read || head == ES_HEAD_SLOT) && slot >= 0 && slot < events->n_slots) {
            int is_known = is_read && policy != NULL &&
                           es_policy_head_probabilities(policy, env, masks, action, head, p);
            if (is_known && head == ES_HEAD_OP) { // a fit may carry out another than was drawn
                row->confidence = (double)(float)p[op];
            }
            *columns[head] = write_choice(events, head, legal_values(masks, action, head),
                                          is_known ? p : NULL, &room);
        }
    }
}

static EsDecisionTakenEvent decision_row(const EsGrowEvents *events, int64_t env,
                                         const EsGrowMoment *moment, const EsAction *action,
                                         const EsActionStats *stats) {
    const EsGrowthEnvView *view = &es_growth_snapshot(events->growth)->state.env;
    const EsGrowthSettings *settings = es_growth_settings(events->growth);
    int op = es_action_value(action, ES_HEAD_OP);
    EsDecisionTakenEvent row = {.env = env_number(moment, env),
                                .episode = episode_number(moment, env),
                                .op = es_growth_op_name(op),
                                .tempo = ES_MISSING_INT,
                                .alpha_target = es_missing_real(),
                                .confidence = es_missing_real(),
                                .entropy = es_missing_real(),
                                .value = es_missing_real(),
                                .is_forced = ES_MISSING_INT,
                                .is_success = view->is_success[env],
                                .refusal = view->refusal[env] != ES_REFUSAL_NONE
                                               ? es_refusal_message(view->refusal[env])
                                               : NULL};
    if (stats != NULL) {
        row.confidence = (double)stats->confidence;
        row.entropy = (double)stats->entropy;
        row.value = (double)stats->value;
        row.is_forced = stats->is_forced;
    }
    int target = es_action_value(action, ES_HEAD_ALPHA_TARGET);
    int tempo = es_action_value(action, ES_HEAD_TEMPO);
    row.slot = es_head_matters(op, ES_HEAD_SLOT)
                   ? slot_name(events, es_action_value(action, ES_HEAD_SLOT))
                   : NULL;
    row.blueprint = name_choice(action, ES_HEAD_BLUEPRINT, es_blueprint_id_name);
    row.style = name_choice(action, ES_HEAD_STYLE, es_style_name);
    row.alpha_speed = name_choice(action, ES_HEAD_ALPHA_SPEED, es_alpha_speed_name);
    row.alpha_curve = name_choice(action, ES_HEAD_ALPHA_CURVE, es_curve_choice_name);
    if (es_head_matters(op, ES_HEAD_TEMPO) && tempo >= 0 && tempo < 3) {
        row.tempo = settings->tempo[tempo];
    }
    if (es_head_matters(op, ES_HEAD_ALPHA_TARGET) && target >= 0 && target < 3) {
        row.alpha_target = (double)settings->alpha_target[target];
    }
    return row;
}

static void emit_rollbacks(EsGrowEvents *events, const EsGrowMoment *moment, double penalty) {
    const EsGrowthEnvView *env = &es_growth_snapshot(events->growth)->state.env;
    int64_t n_rows = 0;
    for (int64_t e = 0; e < events->n_envs; e++) {
        if (env->requests[e] & ES_ENV_REQUEST_RESTORE) {
            events->rollbacks[n_rows++] =
                (EsGovernorRollbackEvent){.env = env_number(moment, e),
                                          .episode = episode_number(moment, e),
                                          .reason = es_panic_name(env->panic[e]),
                                          .loss = (double)env->loss[e],
                                          .threshold = es_missing_real(),
                                          .n_consecutive = events->n_divergences[e],
                                          .penalty = penalty};
        }
    }
    es_emit_governor_rollback(moment->hub, moment->time, events->rollbacks, n_rows);
}

// All environments on the stride; in between those that did something.
static void emit_decisions(EsGrowEvents *events, const EsGrowMoment *moment,
                           const EsAction *actions, const EsActionMasks *masks,
                           const EsPolicy *policy) {
    const EsActionStats *stats = policy != NULL ? es_policy_action_stats(policy) : NULL;
    int is_whole = es_hub_wants(moment->hub, ES_EVENT_ENV_STEPPED, moment->time.step);
    int64_t n_rows = 0;
    for (int64_t e = 0; e < events->n_envs; e++) {
        int op = es_action_value(&actions[e], ES_HEAD_OP);
        if (is_whole || op != ES_GROWTH_OP_WAIT) {
            EsDecisionTakenEvent *row = &events->decisions[n_rows];
            *row = decision_row(events, e, moment, &actions[e], stats != NULL ? &stats[e] : NULL);
            describe_choices(events, e, &actions[e], &masks[e], policy, events->choices[n_rows],
                             row);
            n_rows++;
        }
    }
    es_emit_decision_taken(moment->hub, moment->time, events->decisions, n_rows);
}

static void emit_rewards(EsGrowEvents *events, const EsGrowMoment *moment, const EsReward *reward) {
    const EsRewardTerms *terms = es_reward_terms(reward);
    for (int64_t e = 0; e < events->n_envs; e++) {
        events->rewards[e] = (EsRewardComputedEvent){.env = env_number(moment, e),
                                                     .episode = episode_number(moment, e),
                                                     .total = (double)terms[e].total,
#define X(name, help) .name = (double)terms[e].name,
                                                     ES_REWARD_TERMS(X)
#undef X
        };
    }
    es_emit_reward_computed(moment->hub, moment->time, events->rewards, events->n_envs);
}

void es_grow_events_decided(EsGrowEvents *events, const EsGrowMoment *moment,
                            const EsAction *actions, const EsActionMasks *masks,
                            const EsPolicy *policy) {
    if (es_hub_wants(moment->hub, ES_EVENT_DECISION_TAKEN, moment->time.step)) {
        emit_decisions(events, moment, actions, masks, policy);
    }
    if (es_hub_wants(moment->hub, ES_EVENT_SEED_STAGE_CHANGED, moment->time.step)) {
        emit_seeds(events, moment);
    }
}

void es_grow_events_rewarded(EsGrowEvents *events, const EsGrowMoment *moment,
                             const EsEpisodeRunner *runner) {
    if (es_hub_wants(moment->hub, ES_EVENT_REWARD_COMPUTED, moment->time.step)) {
        emit_rewards(events, moment, runner->reward);
    }
    emit_rollbacks(events, moment, (double)-runner->settings->reward.rollback_penalty);
}

// --- the end ---

static void emit_shapley(EsGrowEvents *events, const EsGrowMoment *moment) {
    const double *value = es_growth_shapley(events->growth);
    const double *error = es_growth_shapley_error(events->growth);
    int64_t n_rows = 0;
    for (int64_t i = 0; i < events->n_envs * events->n_slots; i++) {
        if (!isnan(value[i])) {
            events->contributed[n_rows++] = contribution_row(events, moment, i, value[i], error[i]);
        }
    }
    es_emit_contribution_measured(moment->hub, moment->time, events->contributed, n_rows);
}

// Reports the cost of preparation and the execution of steps: plans where they run the hosts,
// captures of growth and of decisions on a GPU.
static void emit_plans(const EsGrowMoment *moment, const EsEpisodeRunner *runner) {
    EsGrowth *growth = runner->growth;
    EsPlansMeasuredEvent row = {.n_plans = ES_MISSING_INT,
                                .n_builds = ES_MISSING_INT,
                                .n_hits = ES_MISSING_INT,
                                .n_evictions = ES_MISSING_INT,
                                .build_ms = es_missing_real(),
                                .n_captures = ES_MISSING_INT,
                                .n_replays = ES_MISSING_INT,
                                .n_fallbacks = ES_MISSING_INT,
                                .capture_ms = es_missing_real(),
                                .fused_bytes = ES_MISSING_INT};
    EsGrowthDeviceReport device = es_growth_device_report(growth);
    const EsDecisionReplays *decisions = &runner->replays;
    EsGrowthPlansReport plans = es_growth_plans(growth);
    if (!device.is_fused) {
        row.n_plans = plans.n_plans;
        row.n_builds = plans.n_builds;
        row.n_hits = plans.n_hits;
        row.n_evictions = plans.n_evictions;
        row.build_ms = plans.build_ms;
    }
    if (es_growth_device(growth) == NULL) {
        row.n_fallbacks = plans.n_plain;
        row.fallback = plans.fallback[0] != '\0' ? plans.fallback : NULL;
    } else {
        // hosts that do not run fused cost more than a decision that is not captured
        int is_of_growth = !device.is_fused || decisions->fallback[0] == '\0';
        const char *fallback = is_of_growth ? device.fallback : decisions->fallback;
        row.n_captures = device.n_captures + decisions->n_captures;
        row.n_replays = device.n_replays + decisions->n_replays;
        row.n_fallbacks = device.n_fallbacks + decisions->n_fallbacks;
        row.capture_ms = device.capture_ms + decisions->capture_ms;
        row.fallback = fallback[0] != '\0' ? fallback : NULL;
        row.fused_bytes = device.is_fused ? (int64_t)device.executor_bytes : ES_MISSING_INT;
    }
    es_emit_plans_measured(moment->hub, moment->time, &row, 1);
}

void es_grow_events_ended(EsGrowEvents *events, const EsGrowMoment *moment,
                          const EsEpisodeRunner *runner) {
    const EsGrowthEnvView *env = &es_growth_snapshot(events->growth)->state.env;
    const EsGrowthResult *results = es_growth_results(events->growth);
    const double *totals = es_reward_totals(runner->reward);
    for (int64_t e = 0; e < events->n_envs; e++) {
        events->outcomes[e] = (EsEpisodeOutcomeEvent){
            .env = env_number(moment, e),
            .episode = episode_number(moment, e),
            .final_accuracy = results[e].validation_accuracy,
            .final_loss = results[e].validation_loss,
            .test_accuracy = es_missing_real(),
            .parameter_ratio = runner->parameter_ratio[e],
            .n_fossils = env->n_fossils[e],
            .n_contributing = env->n_contributing[e],
            .reward = totals[e],
            .stability = es_reward_stability(runner->reward, e),
            .n_steps = env->step[e] - 1,
            .n_germinated = env->n_germinated[e],
            .n_pruned = env->n_pruned[e],
            .n_rollbacks = env->n_rollbacks[e],
            .task = runner->task[0] != '\0' ? runner->task : NULL,
            .control_accuracy = measured_or_missing(
                results[events->n_envs - 1 + runner->n_controls].validation_accuracy,
                runner->n_controls > 0)};
    }
    es_emit_episode_outcome(moment->hub, moment->time, events->outcomes, events->n_envs);
    emit_shapley(events, moment);
    emit_plans(moment, runner);
}
