// The weights of growth: fresh hosts, fresh seeds, snapshots, and going back to them. The rules
// (lifecycle_rules.h) decide; this carries out.
#include <stdio.h>
#include <string.h>

#include "growth/engine/growth_internal.h"

// --- initial values ---

EsStatus es_growth_module_graph(const EsGrowthModel *model, int slot, int blueprint,
                                EsGraph **graph_out) {
    const EsSlot *place = &model->slots[slot];
    const EsGrowthLayout *layout = &model->layout;
    EsGraph *graph = NULL;
    *graph_out = NULL;
    ES_TRY(es_graph_create(1, &graph));
    EsValueId x =
        es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){1, place->n_channels, 2, 2});
    es_graph_seek_parameters(graph, blueprint < 0 ? layout->region[slot] : layout->seed[slot]);
    if (blueprint < 0) {
        es_graph_gate(graph, "gate", x);
    } else {
        es_blueprint_build(graph, (EsBlueprint)blueprint, place->name, x);
    }
    EsStatus status = es_graph_status(graph);
    if (status != ES_STATUS_OK) {
        es_graph_destroy(graph);
        return status;
    }
    *graph_out = graph;
    return ES_STATUS_OK;
}

EsStatus es_growth_weights_create(EsGrowth *growth) {
    for (int s = 0; s < growth->model.n_slots; s++) {
        ES_TRY(es_growth_module_graph(&growth->model, s, ES_NO_SEED, &growth->gate_graphs[s]));
        for (int b = 0; b < ES_BLUEPRINT_END; b++) {
            if (es_growth_fits(growth, b)) {
                ES_TRY(es_growth_module_graph(&growth->model, s, b, &growth->seed_graphs[s][b]));
            }
        }
    }
    return ES_STATUS_OK;
}

void es_growth_weights_destroy(EsGrowth *growth) {
    for (int s = 0; s < ES_SLOTS_MAX; s++) {
        es_graph_destroy(growth->gate_graphs[s]);
        for (int b = 0; b < ES_BLUEPRINT_END; b++) {
            es_graph_destroy(growth->seed_graphs[s][b]);
        }
    }
}

EsStatus es_growth_weights_reset(EsGrowth *growth) {
    EsTopology empty = es_topology_empty();
    EsGrowthPlan *plan = NULL;
    es_growth_plans_begin_step(growth->plans);
    ES_TRY(es_growth_plans_find(growth->plans, &empty, growth->options.batch, 1, &plan));
    const EsTensor *const moments[] = {&growth->momentum, &growth->moment2, &growth->adam_steps};
    for (size_t i = 0; i < ES_COUNT_OF(moments); i++) {
        if (moments[i]->data != NULL) {
            memset(moments[i]->data, 0, es_tensor_bytes(moments[i]));
        }
    }
    ES_TRY(es_store_initialise(growth->store, plan->graph.graph, growth->stream,
                               growth->options.seed, growth->episode_ids));
    const EsGrowthAverage *average = &growth->average;
    if (average->store != NULL) {
        memcpy(average->store->parameters.data, growth->store->parameters.data,
               es_tensor_bytes(&growth->store->parameters));
        memcpy(average->store->states.data, growth->store->states.data,
               es_tensor_bytes(&growth->store->states));
        memset(average->n_updates.data, 0, es_tensor_bytes(&average->n_updates));
    }
    return ES_STATUS_OK;
}

// --- requests ---

static float *row_of(const EsTensor *slab, int64_t env) {
    return (float *)slab->data + env * slab->stride[0];
}

static void zero(const EsTensor *slab, int64_t env, int64_t first, int64_t end) {
    memset(row_of(slab, env) + first, 0, (size_t)(end - first) * sizeof(float));
}

static void copy(const EsTensor *to, const EsTensor *from, int64_t env, int64_t first,
                 int64_t end) {
    memcpy(row_of(to, env) + first, row_of(from, env) + first,
           (size_t)(end - first) * sizeof(float));
}

// Host and fossils of `store` as the last snapshot has them. Everything else is pruned by then.
static void restore(const EsGrowth *growth, const EsStore *store, const EsTensor *saved_parameters,
                    const EsTensor *saved_states, int64_t env) {
    const EsGrowthLayout *layout = &growth->model.layout;
    copy(&store->parameters, saved_parameters, env, 0, layout->n_host_parameters);
    copy(&store->states, saved_states, env, 0, layout->n_states);
    for (int s = 0; s < growth->model.n_slots; s++) {
        if (growth->shown.state.seed.stage[env * growth->model.n_slots + s] ==
            ES_STAGE_FOSSILIZED) {
            copy(&store->parameters, saved_parameters, env, layout->region[s],
                 layout->region_end[s]);
        }
    }
}

static void take_snapshot(const EsGrowth *growth, const EsStore *store,
                          const EsTensor *saved_parameters, const EsTensor *saved_states,
                          int64_t env) {
    copy(saved_parameters, &store->parameters, env, 0, growth->model.layout.n_parameters);
    copy(saved_states, &store->states, env, 0, growth->model.layout.n_states);
}

static void zero_counts(const EsTensor *counts, int64_t env, int part, int n_parts) {
    int32_t *row = (int32_t *)counts->data + env * counts->stride[0];
    memset(row + part, 0, sizeof *row * (size_t)n_parts);
}

// Elements [first, end), which are n_parts parts from `part` on, have new weights: their averages
// begin with them.
static void begin_average(const EsGrowth *growth, int64_t env, int64_t first, int64_t end, int part,
                          int n_parts) {
    const EsGrowthAverage *average = &growth->average;
    if (average->store != NULL) {
        copy(&average->store->parameters, &growth->store->parameters, env, first, end);
        zero_counts(&average->n_updates, env, part, n_parts);
    }
}

// Their optimiser begins anew.
static void forget_moments(const EsGrowth *growth, int64_t env, int64_t first, int64_t end,
                           int part, int n_parts) {
    zero(&growth->momentum, env, first, end);
    if (growth->moment2.data != NULL) {
        zero(&growth->moment2, env, first, end);
        zero_counts(&growth->adam_steps, env, part, n_parts);
    }
}

// Fresh weights of one module, as they were prepared or else made here: the same.
static void initialise(EsGrowth *growth, const EsGraph *graph, int64_t env, int slot) {
    const float *prepared = growth->preparation != NULL
                                ? es_seed_preparation_values(growth->preparation, growth, env, slot)
                                : NULL;
    if (prepared != NULL) {
        es_store_set_region(growth->store, graph, env, growth->model.layout.region[slot], prepared);
    } else {
        es_store_initialise_region(growth->store, graph, env, growth->options.seed,
                                   (uint32_t)growth->episode_ids[env],
                                   (uint32_t)growth->shown.state.env.step[env]);
    }
}

static void update_slot(EsGrowth *growth, int64_t env, int slot) {
    const EsGrowthLayout *layout = &growth->model.layout;
    size_t i = (size_t)(env * growth->model.n_slots + slot);
    int32_t requests = growth->shown.state.seed.requests[i];
    int64_t first = layout->region[slot], end = layout->region_end[slot];
    if (requests & (ES_SEED_REQUEST_CLEAR | ES_SEED_REQUEST_INITIALISE)) {
        zero(&growth->store->parameters, env, first, end);
        zero(&growth->store->gradients, env, first, end);
        forget_moments(growth, env, first, end, ES_GROWTH_GATE(slot), 2);
    }
    if (requests & ES_SEED_REQUEST_INITIALISE) {
        initialise(growth, growth->seed_graphs[slot][growth->shown.state.seed.blueprint[i]], env,
                   slot);
    }
    if (requests & (ES_SEED_REQUEST_CLEAR | ES_SEED_REQUEST_INITIALISE)) {
        begin_average(growth, env, first, end, ES_GROWTH_GATE(slot), 2);
    }
    if (requests & ES_SEED_REQUEST_INITIALISE_GATE) {
        initialise(growth, growth->gate_graphs[slot], env, slot);
        forget_moments(growth, env, first, layout->seed[slot], ES_GROWTH_GATE(slot), 1);
        begin_average(growth, env, first, layout->seed[slot], ES_GROWTH_GATE(slot), 1);
    }
    if (requests & ES_SEED_REQUEST_ZERO_MOMENTUM) {
        forget_moments(growth, env, first, end, ES_GROWTH_GATE(slot), 2);
    }
}

void es_growth_weights_update_env(EsGrowth *growth, int64_t env) {
    const EsGrowthAverage *average = &growth->average;
    int32_t requests = growth->shown.state.env.requests[env];
    if (requests & ES_ENV_REQUEST_RESTORE) {
        restore(growth, growth->store, &growth->saved_parameters, &growth->saved_states, env);
    }
    if (requests & ES_ENV_REQUEST_RESTORE && average->store != NULL) {
        restore(growth, average->store, &average->saved_parameters, &average->saved_states, env);
    }
    if (requests & ES_ENV_REQUEST_ZERO_MOMENTUM) {
        forget_moments(growth, env, 0, growth->model.layout.n_host_parameters, ES_GROWTH_HOST, 1);
    }
    for (int s = 0; s < growth->model.n_slots; s++) {
        update_slot(growth, env, s);
    }
    if (requests & ES_ENV_REQUEST_SNAPSHOT) {
        take_snapshot(growth, growth->store, &growth->saved_parameters, &growth->saved_states, env);
    }
    if (requests & ES_ENV_REQUEST_SNAPSHOT && average->store != NULL) {
        take_snapshot(growth, average->store, &average->saved_parameters, &average->saved_states,
                      env);
    }
}

void es_growth_weights_update(EsGrowth *growth) {
    for (int64_t i = 0; i < growth->n_own; i++) {
        es_growth_weights_update_env(growth, growth->own[i]);
    }
}
