// The suite `growth`: whole steps of E environments, training, validation with ablations, rules,
// with seeds in all slots. Steps are environment steps.
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "bench_suite.h"
#include "growth/growth.h"

typedef struct GrowthCase {
    const char *task, *slots;
    int n_envs;
    int blueprints[3]; // EsBlueprintId of the first slots; 0 = left empty
} GrowthCase;

typedef struct GrowthState {
    const GrowthCase *wanted;
    EsDataset dataset; // owned
    EsGrowth *growth;  // owned
    EsAction *actions; // owned [E]
} GrowthState;

static void end_growth(void *context) {
    GrowthState *state = context;
    if (state != NULL) {
        es_growth_destroy(state->growth);
        es_dataset_destroy(&state->dataset);
        es_release(state->actions);
        es_release(state);
    }
}

static EsStatus step_all(GrowthState *state, const EsAction *action) {
    for (int e = 0; e < state->wanted->n_envs; e++) {
        state->actions[e] = *action;
    }
    return es_growth_step(state->growth, state->actions);
}

// Seeds one after the other, since development is sequential, up to HOLDING.
static EsStatus plant(GrowthState *state) {
    const EsGrowthSettings *settings = es_growth_settings(state->growth);
    int n_steps = settings->training_dwell + settings->tempo[0] + 2;
    EsAction wait = es_action_wait();
    for (int s = 0; s < 3 && state->wanted->blueprints[s] != 0; s++) {
        EsAction action = es_action_wait();
        action.head[ES_HEAD_OP] = ES_GROWTH_OP_GERMINATE;
        action.head[ES_HEAD_SLOT] = (int8_t)s;
        action.head[ES_HEAD_BLUEPRINT] = (int8_t)state->wanted->blueprints[s];
        action.head[ES_HEAD_STYLE] = ES_STYLE_LINEAR_ADD;
        action.head[ES_HEAD_TEMPO] = 0;
        ES_TRY(step_all(state, &action));
        for (int i = 0; i < n_steps; i++) {
            ES_TRY(step_all(state, &wait));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus begin_growth(const EsBenchCase *bench_case, const EsBench *bench,
                             void **state_out) {
    const GrowthCase *wanted = bench_case->settings;
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    GrowthState *state = NULL;
    EsStatus status = ES_STATUS_OK;
    *state_out = NULL;
    ES_TRY(es_host_preset(wanted->task, &host));
    ES_TRY(es_slots_parse(&host, wanted->slots, slots, &n_slots));
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->wanted = wanted;
    EsDatasetOptions dataset_options = {.seed = 7, .n_validation = 2000, .n_test = 10};
    ES_TRY_GOTO(es_dataset_create(&state->dataset, host.dataset, &dataset_options, NULL));
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, wanted->n_envs);
    options.n_threads = es_device_info(bench->device)->n_units;
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.settings.episode_steps = 1000000;
    ES_TRY_GOTO(es_growth_create(&options, &state->dataset, &state->growth));
    ES_TRY_GOTO(
        es_allocate(sizeof *state->actions * (size_t)wanted->n_envs, (void **)&state->actions));
    ES_TRY_GOTO(es_growth_reset(state->growth, 0));
    ES_TRY_GOTO(plant(state));
    *state_out = state;
done:
    if (status != ES_STATUS_OK) {
        end_growth(state);
    }
    return status;
}

static EsStatus run_growth(void *context, int variant) {
    GrowthState *state = context;
    EsAction wait = es_action_wait();
    (void)variant;
    return step_all(state, &wait);
}

static double count_steps(const EsBenchCase *bench_case) {
    return ((const GrowthCase *)bench_case->settings)->n_envs;
}

static int64_t count_allocations(void *context) {
    return es_growth_allocations(((GrowthState *)context)->growth);
}

#define GROWTH_CASE(n, label, ...)                                                                 \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const GrowthCase){__VA_ARGS__},              \
        .begin = begin_growth, .run = run_growth, .end = end_growth, .work = count_steps,          \
        .rate_unit = "steps/s", .allocations = count_allocations                                   \
    }

static const EsBenchCase cases[] = {
    GROWTH_CASE("tiny", "E=16 seeds=none", "tiny", "r0c0,r0c1", 16, {0}),
    GROWTH_CASE("tiny", "E=16 seeds=norm,conv_light", "tiny", "r0c0,r0c1", 16,
                {ES_BLUEPRINT_ID_NORM, ES_BLUEPRINT_ID_CONV_LIGHT}),
    GROWTH_CASE("cifar_baseline", "E=4 seeds=norm,depthwise,conv_light", "cifar_baseline",
                "r0c0,r0c1,r0c2", 4,
                {ES_BLUEPRINT_ID_NORM, ES_BLUEPRINT_ID_DEPTHWISE, ES_BLUEPRINT_ID_CONV_LIGHT}),
};

const EsBenchSuite es_bench_growth = {
    .name = "growth",
    .summary = "whole steps of growing hosts, and what they allocate",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
};
