// The events of seeds: what the stages passed in a step say.
#include <stdio.h>

#include "growth/rules/growth_names.h"
#include "runs/grow/grow_events_internal.h"

// The columns that every event of a seed begins with.
#define SEED_COLUMNS                                                                               \
    .env = env, .episode = episode, .slot = es_grow_events_slot(events, slot),                     \
    .seed_id = memory->id, .blueprint = memory->blueprint

// Rows of a step, by kind.
typedef struct SeedRows {
    int64_t n_gates, n_germinated, n_fossilized, n_pruned, n_changed;
} SeedRows;

static void add_transition(EsGrowEvents *events, SeedRows *rows, int64_t env, int slot,
                           int64_t episode, int32_t from, int32_t to, int is_last) {
    const EsGrowthState *state = es_growth_state(events->growth);
    size_t i = (size_t)(env * events->n_slots + slot);
    EsSeed seed = es_seed_load(&state->seed, i);
    const EsSlotMemory *memory = &events->slots[i];
    double improvement = es_grow_measured((double)(seed.accuracy_now - seed.accuracy_germination),
                                          seed.accuracy_now >= 0 && seed.accuracy_germination >= 0);
    double contribution = es_grow_measured((double)seed.contribution, seed.contribution_age >= 0);
    if (to == ES_STAGE_GERMINATED) {
        events->germinated[rows->n_germinated++] = (EsSeedGerminatedEvent){
            SEED_COLUMNS, .n_parameters = seed.n_parameters,
            .style = es_algorithm_name(seed.algorithm), .tempo = seed.tempo};
    } else if (to == ES_STAGE_FOSSILIZED) {
        events->fossilized[rows->n_fossilized++] = (EsSeedFossilizedEvent){
            SEED_COLUMNS, .n_parameters = seed.n_parameters, .improvement = improvement,
            .contribution = contribution, .n_steps_alive = seed.age};
    } else if (to == ES_STAGE_PRUNED) {
        events->pruned[rows->n_pruned++] =
            (EsSeedPrunedEvent){SEED_COLUMNS,
                                .reason = es_prune_reason_name(seed.prune_reason),
                                .initiator = es_prune_initiator_name(seed.prune_reason),
                                .improvement = improvement,
                                .contribution = contribution,
                                .n_steps_alive = seed.age};
    }
    // of several transitions in one step the state knows the last one's circumstances
    events->changed[rows->n_changed++] = (EsSeedStageChangedEvent){
        SEED_COLUMNS,
        .from_stage = es_stage_name(from),
        .to_stage = es_stage_name(to),
        .alpha = es_grow_measured((double)seed.alpha, is_last),
        .n_steps_in_stage =
            is_last && seed.stage != ES_STAGE_DORMANT ? seed.previous_stage_steps : ES_MISSING_INT,
        .accuracy_delta = improvement};
}

// A gate is told when it opens, and when it stays closed for another reason than last time.
static void add_gate(EsGrowEvents *events, SeedRows *rows, int64_t env, int slot, int64_t episode) {
    const EsSeedView *seed = &es_growth_state(events->growth)->seed;
    size_t i = (size_t)(env * events->n_slots + slot);
    EsSlotMemory *memory = &events->slots[i];
    int32_t gate = seed->gate[i], failed = seed->gate_failed[i];
    if (gate < 0 || (failed != 0 && gate == memory->gate && failed == memory->gate_failed)) {
        return;
    }
    memory->gate = gate;
    memory->gate_failed = failed;
    events->gates[rows->n_gates++] = (EsSeedGateEvaluatedEvent){
        SEED_COLUMNS, .gate = es_gate_name(gate), .passed = failed == 0,
        .failed_checks = failed == 0
                             ? NULL
                             : es_gate_checks_write(failed, memory->checks, sizeof memory->checks)};
}

static void add_slot(EsGrowEvents *events, SeedRows *rows, int64_t env, int slot, int64_t episode) {
    const EsSeedView *seed = &es_growth_state(events->growth)->seed;
    size_t i = (size_t)(env * events->n_slots + slot);
    EsSlotMemory *memory = &events->slots[i];
    if (seed->number[i] > 0) {
        snprintf(memory->id, sizeof memory->id, "ep%lld_env%lld_seed_%d", (long long)episode,
                 (long long)env, seed->number[i]);
        memory->blueprint = es_blueprint_id_name(seed->blueprint[i]);
    }
    int32_t path = seed->stage_path[i], from = 0, to = 0, n = es_stage_path_length(path);
    for (int32_t k = 0; k < n; k++) {
        es_stage_path_step(path, k, &from, &to);
        if (to == ES_STAGE_GERMINATED) {
            memory->gate = -1;
        }
        add_transition(events, rows, env, slot, episode, from, to, k == n - 1);
    }
    add_gate(events, rows, env, slot, episode);
}

void es_grow_events_emit_seeds(EsGrowEvents *events, const EsGrowMoment *moment) {
    EsHub *hub = moment->hub;
    EsEventTime time = moment->time;
    SeedRows rows = {0};
    for (int64_t e = 0; e < events->n_envs; e++) {
        for (int s = 0; s < events->n_slots; s++) {
            add_slot(events, &rows, e, s, moment->first_episode + e);
        }
    }
    es_emit_seed_germinated(hub, time, events->germinated, rows.n_germinated);
    es_emit_seed_gate_evaluated(hub, time, events->gates, rows.n_gates);
    es_emit_seed_stage_changed(hub, time, events->changed, rows.n_changed);
    es_emit_seed_fossilized(hub, time, events->fossilized, rows.n_fossilized);
    es_emit_seed_pruned(hub, time, events->pruned, rows.n_pruned);
}
