// Lists, makes and hands over what planting seeds needs. The list comes from the rules themselves,
// applied to a copy of the small state: their requests name the seeds that want weights, and the
// stages behind them the topologies that want graphs.
#include "growth/engine/seed_preparation.h"

#include <string.h>

#include "base/memory.h"
#include "growth/engine/growth_internal.h"

// A slot that gets weights: a seed, its gate network, or both.
typedef struct PreparedSeed {
    int64_t env;
    int slot, blueprint, requests;
    int32_t episode, step; // that the draws are keyed by
    float *values;         // owned, from the start of the slot's region on; NULL until it is run
} PreparedSeed;

// A topology without a training plan.
typedef struct PreparedGraph {
    EsTopology topology;
    EsGrowthGraph graph; // owned until it is adopted
} PreparedGraph;

struct EsSeedPreparation {
    EsGrowthModel model; // a copy, over `dataset`
    EsDataset dataset;   // its sizes and scales; none of its samples
    int64_t batch;
    PreparedSeed *seeds; // owned [n_seeds]
    int n_seeds;
    PreparedGraph *graphs; // owned [n_graphs]
    int n_graphs;
};

void es_seed_preparation_destroy(EsSeedPreparation *preparation) {
    if (preparation == NULL) {
        return;
    }
    for (int i = 0; i < preparation->n_seeds; i++) {
        es_release(preparation->seeds[i].values);
    }
    for (int i = 0; i < preparation->n_graphs; i++) {
        es_growth_graph_destroy(&preparation->graphs[i].graph);
    }
    es_release(preparation->seeds);
    es_release(preparation->graphs);
    es_release(preparation);
}

// --- the list ---

// The model without what belongs to others.
static void copy_model(EsSeedPreparation *preparation, const EsGrowth *growth) {
    EsDataset *dataset = &preparation->dataset;
    *dataset = *growth->model.dataset;
    dataset->images = NULL;
    dataset->rows = NULL;
    dataset->labels = NULL;
    dataset->column_mean = dataset->column_std = NULL;
    dataset->class_names = dataset->column_names = NULL;
    preparation->model = growth->model;
    preparation->model.dataset = dataset;
    preparation->model.host.name = "host";
    preparation->model.host.dataset = "";
    preparation->model.host.text = NULL;
    preparation->batch = growth->options.batch;
}

static void list_seeds(EsSeedPreparation *preparation, const EsGrowth *growth,
                       const EsGrowthState *next, int64_t env) {
    for (int s = 0; s < next->n_slots; s++) {
        size_t i = (size_t)(env * next->n_slots + s);
        int requests =
            next->seed.requests[i] & (ES_SEED_REQUEST_INITIALISE | ES_SEED_REQUEST_INITIALISE_GATE);
        if (requests != 0) {
            preparation->seeds[preparation->n_seeds++] =
                (PreparedSeed){.env = env,
                               .slot = s,
                               .blueprint = next->seed.blueprint[i],
                               .requests = requests,
                               .episode = growth->episode_ids[env],
                               .step = next->env.step[env]};
        }
    }
}

static void list_graph(EsSeedPreparation *preparation, const EsGrowth *growth,
                       const EsTopology *topology) {
    if (es_growth_plans_has(growth->plans, topology, growth->options.batch, 1)) {
        return;
    }
    for (int i = 0; i < preparation->n_graphs; i++) {
        if (memcmp(&preparation->graphs[i].topology, topology, sizeof *topology) == 0) {
            return;
        }
    }
    preparation->graphs[preparation->n_graphs++].topology = *topology;
}

// Applies the actions to a copy of the state and lists the needs of what it becomes.
static EsStatus list_needs(EsSeedPreparation *preparation, const EsGrowth *growth,
                           const EsAction *actions) {
    const EsGrowthSettings *settings = &growth->options.settings;
    int32_t n_envs = (int32_t)growth->options.n_envs, n_slots = growth->model.n_slots;
    size_t bytes = es_growth_state_bytes(n_envs, n_slots);
    EsGrowthState next;
    void *slab = NULL;
    ES_TRY(es_allocate(bytes, &slab));
    memcpy(slab, growth->slab, bytes);
    es_growth_state_bind(&next, slab, n_envs, n_slots);
    es_lifecycle_apply(&next, settings, actions);
    es_lifecycle_tick(&next, settings);
    for (int64_t e = 0; e < n_envs; e++) {
        const EsTopology topology = es_growth_topology(&next, e);
        list_seeds(preparation, growth, &next, e);
        list_graph(preparation, growth, &topology);
    }
    es_release(slab);
    return ES_STATUS_OK;
}

static EsStatus create_lists(EsSeedPreparation *preparation, const EsGrowth *growth,
                             const EsAction *actions) {
    size_t n_envs = (size_t)growth->options.n_envs, n_slots = (size_t)growth->model.n_slots;
    copy_model(preparation, growth);
    ES_TRY(
        es_allocate(sizeof *preparation->seeds * n_envs * n_slots, (void **)&preparation->seeds));
    ES_TRY(es_allocate(sizeof *preparation->graphs * n_envs, (void **)&preparation->graphs));
    return list_needs(preparation, growth, actions);
}

EsStatus es_seed_preparation_create(const EsGrowth *growth, const EsAction *actions,
                                    EsSeedPreparation **preparation_out) {
    EsSeedPreparation *preparation = NULL;
    *preparation_out = NULL;
    if (growth->on_device != NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *preparation, (void **)&preparation));
    EsStatus status = create_lists(preparation, growth, actions);
    int is_needed = preparation->n_seeds + preparation->n_graphs > 0;
    if (status != ES_STATUS_OK || !is_needed) {
        es_seed_preparation_destroy(preparation);
        return status;
    }
    *preparation_out = preparation;
    return ES_STATUS_OK;
}

// Lists the one graph where it has no plan yet.
static EsStatus create_foreseen(EsSeedPreparation *preparation, const EsGrowth *growth,
                                const EsTopology *topology) {
    copy_model(preparation, growth);
    ES_TRY(es_allocate(sizeof *preparation->graphs, (void **)&preparation->graphs));
    list_graph(preparation, growth, topology);
    return ES_STATUS_OK;
}

// That of an environment, with seeds that have germinated and begin to train next.
static EsTopology next_topology(const EsGrowthState *state, int64_t env) {
    EsTopology topology = es_growth_topology(state, env);
    for (int s = 0; s < state->n_slots; s++) {
        size_t i = (size_t)(env * state->n_slots + s);
        if (state->seed.stage[i] == ES_STAGE_GERMINATED) {
            topology.blueprint[s] = (int8_t)state->seed.blueprint[i];
            topology.has_gate[s] = state->seed.algorithm[i] == ES_ALGORITHM_GATE;
        }
    }
    return topology;
}

EsStatus es_seed_preparation_foresee(const EsGrowth *growth, int64_t env, int slot, int blueprint,
                                     EsSeedPreparation **preparation_out) {
    EsSeedPreparation *preparation = NULL;
    *preparation_out = NULL;
    if (growth->on_device != NULL) {
        return ES_STATUS_OK;
    }
    EsTopology topology = next_topology(&growth->shown.state, env);
    if (slot >= 0 && topology.blueprint[slot] != ES_NO_SEED) {
        return ES_STATUS_OK;
    }
    if (slot >= 0) {
        topology.blueprint[slot] = (int8_t)blueprint;
    }
    ES_TRY(es_allocate(sizeof *preparation, (void **)&preparation));
    EsStatus status = create_foreseen(preparation, growth, &topology);
    if (status != ES_STATUS_OK || preparation->n_graphs == 0) {
        es_seed_preparation_destroy(preparation);
        return status;
    }
    *preparation_out = preparation;
    return ES_STATUS_OK;
}

// --- the work ---

static EsStatus add_values(const EsGrowthModel *model, const PreparedSeed *seed, int blueprint) {
    EsGraph *graph = NULL;
    ES_TRY(es_growth_module_graph(model, seed->slot, blueprint, &graph));
    es_graph_initial_values(graph, model->seed, (uint32_t)seed->episode, (uint32_t)seed->step,
                            model->layout.region[seed->slot], seed->values);
    es_graph_destroy(graph);
    return ES_STATUS_OK;
}

static EsStatus make_seed(const EsGrowthModel *model, PreparedSeed *seed) {
    const EsGrowthLayout *layout = &model->layout;
    size_t count = (size_t)(layout->region_end[seed->slot] - layout->region[seed->slot]);
    ES_TRY(es_allocate(sizeof *seed->values * count, (void **)&seed->values));
    if (seed->requests & ES_SEED_REQUEST_INITIALISE) {
        ES_TRY(add_values(model, seed, seed->blueprint));
    }
    return seed->requests & ES_SEED_REQUEST_INITIALISE_GATE ? add_values(model, seed, ES_NO_SEED)
                                                            : ES_STATUS_OK;
}

EsStatus es_seed_preparation_run(EsSeedPreparation *preparation) {
    for (int i = 0; i < preparation->n_seeds; i++) {
        ES_TRY(make_seed(&preparation->model, &preparation->seeds[i]));
    }
    for (int i = 0; i < preparation->n_graphs; i++) {
        PreparedGraph *graph = &preparation->graphs[i];
        if (graph->graph.graph == NULL) {
            ES_TRY(es_growth_graph_create(&preparation->model, &graph->topology, preparation->batch,
                                          1, &graph->graph));
        }
    }
    return ES_STATUS_OK;
}

const EsTopology *es_seed_preparation_topology(const EsSeedPreparation *preparation) {
    return &preparation->graphs[0].topology;
}

// NULL when it lists none of this topology that is not made yet.
static PreparedGraph *find_lacking(const EsSeedPreparation *preparation,
                                   const EsTopology *topology) {
    for (int i = 0; i < preparation->n_graphs; i++) {
        PreparedGraph *graph = &preparation->graphs[i];
        if (graph->graph.graph == NULL &&
            memcmp(&graph->topology, topology, sizeof *topology) == 0) {
            return graph;
        }
    }
    return NULL;
}

int es_seed_preparation_lacks(const EsSeedPreparation *preparation, const EsTopology *topology) {
    return find_lacking(preparation, topology) != NULL;
}

int es_seed_preparation_take(EsSeedPreparation *to, EsSeedPreparation *from) {
    int n_taken = 0;
    for (int i = 0; i < from->n_graphs; i++) {
        PreparedGraph *made = &from->graphs[i], *lacking = find_lacking(to, &made->topology);
        if (lacking != NULL && made->graph.graph != NULL) {
            lacking->graph = made->graph;
            made->graph = (EsGrowthGraph){0};
            n_taken++;
        }
    }
    return n_taken;
}

// --- putting it in ---

const float *es_seed_preparation_values(const EsSeedPreparation *preparation,
                                        const EsGrowth *growth, int64_t env, int slot) {
    const EsGrowthState *state = &growth->shown.state;
    size_t place = (size_t)(env * state->n_slots + slot);
    for (int i = 0; i < preparation->n_seeds; i++) {
        const PreparedSeed *seed = &preparation->seeds[i];
        int wanted = state->seed.requests[place] &
                     (ES_SEED_REQUEST_INITIALISE | ES_SEED_REQUEST_INITIALISE_GATE);
        if (seed->env == env && seed->slot == slot && seed->requests == wanted &&
            seed->blueprint == state->seed.blueprint[place] &&
            seed->episode == growth->episode_ids[env] && seed->step == state->env.step[env]) {
            return seed->values;
        }
    }
    return NULL;
}

EsStatus es_seed_preparation_adopt(EsSeedPreparation *preparation, EsGrowthPlans *plans) {
    for (int i = 0; i < preparation->n_graphs; i++) {
        PreparedGraph *graph = &preparation->graphs[i];
        if (graph->graph.graph != NULL) {
            ES_TRY(es_growth_plans_adopt(plans, &graph->topology, &graph->graph));
        }
    }
    return ES_STATUS_OK;
}
