// Builds, keeps and evicts the plans of growth, one for each topology, batch and kind of run.
#include "growth/engine/growth_plans.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "network/plan/plan_host.h"

struct EsGrowthPlans {
    EsGrowthPlansOptions options;
    EsTensor images, labels; // the data set, where it lies
    EsGrowthPlan *plans;     // owned [capacity]
    int n_plans;
    int64_t step;
    EsGrowthPlansReport report;
};

EsStatus es_growth_plans_create(const EsGrowthPlansOptions *options, EsGrowthPlans **plans_out) {
    const EsDataset *dataset = options->model->dataset;
    const EsGrowthInputs inputs = es_growth_inputs(dataset);
    EsDevice *device = options->store->device;
    EsGrowthPlans *plans = NULL;
    *plans_out = NULL;
    ES_TRY(es_allocate(sizeof *plans, (void **)&plans));
    plans->options = *options;
    EsStatus status =
        es_allocate(sizeof *plans->plans * (size_t)options->capacity, (void **)&plans->plans);
    if (status != ES_STATUS_OK) {
        es_growth_plans_destroy(plans);
        return status;
    }
    // read only; tensors have no const
    plans->images =
        es_tensor_view((void *)(uintptr_t)inputs.values, inputs.dtype, device, 4, inputs.dims);
    plans->labels = es_tensor_view((void *)(uintptr_t)dataset->labels, ES_DTYPE_U16, device, 1,
                                   &dataset->n_images);
    if (options->images != NULL) {
        plans->images = *options->images;
        plans->labels = *options->labels;
    }
    *plans_out = plans;
    return ES_STATUS_OK;
}

static void destroy_plan(EsGrowthPlan *plan) {
    es_plan_destroy(plan->plan);
    es_growth_graph_destroy(&plan->graph);
    es_device_destroy_tensor(&plan->spans);
    es_device_destroy_tensor(&plan->groups);
    memset(plan, 0, sizeof *plan);
}

void es_growth_plans_destroy(EsGrowthPlans *plans) {
    if (plans == NULL) {
        return;
    }
    for (int i = 0; i < plans->n_plans; i++) {
        destroy_plan(&plans->plans[i]);
    }
    es_release(plans->plans);
    es_release(plans);
}

void es_growth_plans_begin_step(EsGrowthPlans *plans) { plans->step++; }

// --- building ---

static int group_of(const EsGrowthModel *model, int64_t offset) {
    for (int s = 0; s < model->n_slots; s++) {
        if (offset >= model->layout.region[s] && offset < model->layout.region_end[s]) {
            return 1 + s;
        }
    }
    return 0;
}

static EsStatus list_spans(const EsGrowthPlans *plans, EsGrowthPlan *plan) {
    const EsGraph *graph = plan->graph.graph;
    EsDevice *device = plans->options.store->device;
    for (int i = 0; i < graph->n_values; i++) {
        plan->n_spans += graph->values[i].role == ES_ROLE_PARAMETER;
    }
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_I64, 2, (int64_t[]){plan->n_spans, 2},
                                   &plan->spans));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_I32, 1, (int64_t[]){plan->n_spans},
                                   &plan->groups));
    int64_t *span = plan->spans.data;
    int32_t *group = plan->groups.data;
    for (int i = 0; i < graph->n_values; i++) {
        const EsValue *value = &graph->values[i];
        if (value->role == ES_ROLE_PARAMETER) {
            *span++ = value->slab_offset;
            *span++ = es_value_count(value);
            *group++ = group_of(plans->options.model, value->slab_offset);
        }
    }
    return ES_STATUS_OK;
}

// Keeps why the vector engine of a CPU does not run a plan.
static void note_executor(EsGrowthPlans *plans, const EsPlan *plan) {
    EsPlanReport report = es_plan_report(plan);
    int is_cpu = es_device_info(plans->options.store->device)->kind == ES_DEVICE_CPU;
    if (is_cpu && !report.uses_lanes) {
        snprintf(plans->report.fallback, sizeof plans->report.fallback, "%s",
                 report.fallback[0] != '\0' ? report.fallback : "as was asked for");
    }
}

// Its graph may be there already.
static EsStatus build_plan(EsGrowthPlans *plans, EsGrowthPlan *plan) {
    if (plan->graph.graph == NULL) {
        ES_TRY(es_growth_graph_create(plans->options.model, &plan->topology, plan->batch,
                                      plan->is_training, &plan->graph));
    }
    EsPlanOptions options = es_plan_defaults();
    options.mode = plans->options.mode;
    options.is_hosted = 1;
    options.activation_dtype = plans->options.precision;
    EsStore *store = plan->is_training ? plans->options.store : plans->options.evaluated;
    ES_TRY(es_plan_create(plan->graph.graph, store, &options, &plan->plan));
    note_executor(plans, plan->plan);
    ES_TRY(es_plan_bind(plan->plan, plan->graph.images, &plans->images));
    ES_TRY(es_plan_bind(plan->plan, plan->graph.labels, &plans->labels));
    ES_TRY(es_plan_bind(plan->plan, plan->graph.episode, plans->options.episode));
    int is_cpu = es_device_info(store->device)->kind == ES_DEVICE_CPU;
    return plan->is_training && is_cpu ? list_spans(plans, plan) : ES_STATUS_OK;
}

// A free place, or that of the plan that was not found for the longest time.
static EsStatus make_room(EsGrowthPlans *plans, EsGrowthPlan **place) {
    if (plans->n_plans < plans->options.capacity) {
        *place = &plans->plans[plans->n_plans++];
        return ES_STATUS_OK;
    }
    EsGrowthPlan *oldest = &plans->plans[0];
    for (int i = 1; i < plans->n_plans; i++) {
        oldest = plans->plans[i].last_step < oldest->last_step ? &plans->plans[i] : oldest;
    }
    if (oldest->last_step == plans->step) {
        return ES_FAIL(MEMORY, "a step needs more than the %d plans that are kept; raise the limit",
                       plans->options.capacity);
    }
    destroy_plan(oldest);
    plans->report.n_evictions++;
    *place = oldest;
    return ES_STATUS_OK;
}

// NULL when it is not there.
static EsGrowthPlan *look_up(const EsGrowthPlans *plans, const EsTopology *topology, int64_t batch,
                             int is_training) {
    for (int i = 0; i < plans->n_plans; i++) {
        EsGrowthPlan *plan = &plans->plans[i];
        if (plan->batch == batch && plan->is_training == is_training &&
            memcmp(&plan->topology, topology, sizeof *topology) == 0) {
            return plan;
        }
    }
    return NULL;
}

int es_growth_plans_has(const EsGrowthPlans *plans, const EsTopology *topology, int64_t batch,
                        int is_training) {
    return look_up(plans, topology, batch, is_training) != NULL;
}

// Takes the graph over where there is one, also when it fails.
static EsStatus add_plan(EsGrowthPlans *plans, const EsTopology *topology, int64_t batch,
                         int is_training, EsGrowthGraph *graph, EsGrowthPlan **plan_out) {
    EsGrowthPlan *plan = NULL;
    int64_t start_ns = es_clock_ns();
    ES_TRY(make_room(plans, &plan));
    plan->topology = *topology;
    plan->batch = batch;
    plan->is_training = is_training;
    plan->last_step = plans->step;
    if (graph != NULL) {
        plan->graph = *graph;
        graph->graph = NULL;
    }
    EsStatus status = build_plan(plans, plan);
    if (status != ES_STATUS_OK) {
        destroy_plan(plan); // an empty place: batch 0 is never asked for
        return status;
    }
    plans->report.n_builds++;
    plans->report.build_ms += es_clock_seconds_since(start_ns) * 1e3;
    *plan_out = plan;
    return ES_STATUS_OK;
}

EsStatus es_growth_plans_find(EsGrowthPlans *plans, const EsTopology *topology, int64_t batch,
                              int is_training, EsGrowthPlan **plan) {
    *plan = look_up(plans, topology, batch, is_training);
    if (*plan == NULL) {
        return add_plan(plans, topology, batch, is_training, NULL, plan);
    }
    (*plan)->last_step = plans->step;
    plans->report.n_hits++;
    return ES_STATUS_OK;
}

EsStatus es_growth_plans_adopt(EsGrowthPlans *plans, const EsTopology *topology,
                               EsGrowthGraph *graph) {
    EsGrowthPlan *plan = NULL;
    int is_of_use = plans->n_plans < plans->options.capacity &&
                    !es_growth_plans_has(plans, topology, graph->batch, 1);
    return is_of_use ? add_plan(plans, topology, graph->batch, 1, graph, &plan) : ES_STATUS_OK;
}

EsStatus es_growth_plans_measure(EsGrowthPlans *plans, const EsTopology *topology, int64_t batch,
                                 int is_training, size_t *plan_bytes, size_t *worker_bytes) {
    EsGrowthPlan plan = {.topology = *topology, .batch = batch, .is_training = is_training};
    size_t before = es_allocation_held();
    EsStatus status = build_plan(plans, &plan);
    if (status == ES_STATUS_OK) {
        *plan_bytes = es_allocation_held() - before;
        *worker_bytes = es_plan_worker_bytes(plan.plan);
    }
    destroy_plan(&plan);
    return status;
}

EsGrowthPlansReport es_growth_plans_report(const EsGrowthPlans *plans) {
    EsGrowthPlansReport report = plans->report;
    report.n_plans = plans->n_plans;
    for (int i = 0; i < plans->n_plans; i++) {
        report.n_plain +=
            plans->plans[i].plan != NULL && !es_plan_report(plans->plans[i].plan).uses_lanes;
    }
    return report;
}

int es_growth_plans_max_spans(const EsGrowthModel *model) {
    // conv and norm per block, classifier; a gate and the largest blueprint per slot
    enum { PER_BLOCK = 3, HEAD = 2, PER_SLOT = 4 + 8 };
    return PER_BLOCK * model->host.n_blocks + HEAD + PER_SLOT * model->n_slots;
}
