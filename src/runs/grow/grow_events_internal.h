// What grow_events.c and grow_seed_events.c share.
#ifndef ES_RUNS_GROW_EVENTS_INTERNAL_H
#define ES_RUNS_GROW_EVENTS_INTERNAL_H

#include "runs/grow/grow_events.h"

#define ES_SEED_ID_BYTES  48
#define ES_CHECKS_BYTES   128
#define ES_PATH_STEPS_MAX 7 // transitions a stage path holds

// What is remembered of a slot from step to step: a slot that is emptied still had a seed.
typedef struct EsSlotMemory {
    char id[ES_SEED_ID_BYTES];
    char checks[ES_CHECKS_BYTES];
    const char *blueprint;     // static
    int32_t gate, gate_failed; // last told
} EsSlotMemory;

struct EsGrowEvents {
    const EsEpisodeRunner *runner; // borrowed
    const EsGrowth *growth;        // borrowed: its hosts
    int64_t n_envs;
    int n_slots;
    EsSlotMemory *slots;                      // owned [E, S]
    int32_t *n_divergences;                   // owned [E], before the decision
    EsEnvSteppedEvent *stepped;               // owned [E]
    EsDecisionTakenEvent *decisions;          // owned [E]
    EsContributionMeasuredEvent *contributed; // owned [E, S]
    EsEpisodeOutcomeEvent *outcomes;          // owned [E]
    EsGovernorRollbackEvent *rollbacks;       // owned [E]
    EsSeedGateEvaluatedEvent *gates;          // owned [E, S]
    EsSeedGerminatedEvent *germinated;        // owned [E, S]
    EsSeedFossilizedEvent *fossilized;        // owned [E, S]
    EsSeedPrunedEvent *pruned;                // owned [E, S]
    EsSeedStageChangedEvent *changed;         // owned [E, S, ES_PATH_STEPS_MAX]
    EsRewardComputedEvent *rewards;           // owned [E]
};

// The value where it was measured, missing otherwise.
static inline double es_grow_measured(double value, int is_measured) {
    return is_measured ? value : es_missing_real();
}

// NULL where there is no such slot.
const char *es_grow_events_slot(const EsGrowEvents *events, int slot);

// Stages, gates, germinations, fossils and prunes of the last decision.
void es_grow_events_emit_seeds(EsGrowEvents *events, const EsGrowMoment *moment);

#endif
