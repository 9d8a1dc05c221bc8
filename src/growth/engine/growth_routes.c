// The updates of a step by route (gradient_routes.h): a host with two seeds or more that change its
// output runs once as ever, then once for every route with the other ways closed. Forward passes
// are the same each time; running statistics move once.
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "growth/engine/gradient_routes.h"
#include "growth/engine/growth_internal.h"
#include "growth/rules/alpha_rules.h"

EsRouteMemory es_growth_route_memory(const EsGrowth *growth, const EsGrowthWorker *worker) {
    int64_t n = growth->model.layout.n_parameters, n_routes = 1 + growth->model.n_slots;
    float *block = worker->routes;
    return (EsRouteMemory){block, block + n, block + 2 * n, block + 3 * n,
                           block + (3 + n_routes) * n};
}

// Tensors of a block, as es_growth_host_spans lists them: weight, gamma, beta.
#define BLOCK_TENSORS 3

EsStatus es_growth_routes_create(EsGrowth *growth) {
    EsSpans spans;
    if (growth->options.aggregation == ES_AGGREGATION_NONE) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_growth_host_spans(&growth->model, &spans));
    for (int s = 0; s < growth->model.n_slots; s++) {
        growth->behind_slot[s] = spans.offset[BLOCK_TENSORS * (growth->model.slots[s].column + 1)];
    }
    return es_allocate(sizeof *growth->routes * (size_t)growth->options.n_envs,
                       (void **)&growth->routes);
}

EsStatus es_growth_routes_create_worker(const EsGrowth *growth, EsGrowthWorker *worker) {
    const EsGrowthLayout *layout = &growth->model.layout;
    int64_t n = (4 + growth->model.n_slots) * layout->n_parameters + layout->n_states;
    if (growth->routes == NULL) {
        return ES_STATUS_OK;
    }
    return es_allocate(sizeof(float) * (size_t)n, (void **)&worker->routes);
}

// --- packed gradients ---

// Slots whose seeds have a share in the host's output, as bits.
static uint32_t slots_with_routes(const EsGrowth *growth, int64_t env) {
    const EsSeedView *seed = &growth->shown.state.seed;
    uint32_t slots = 0;
    for (int s = 0; s < growth->model.n_slots; s++) {
        int64_t i = env * growth->model.n_slots + s;
        slots |= (uint32_t)es_slot_is_on(seed->stage[i], seed->alpha[i], 0, s) << s;
    }
    return slots;
}

// Group 0 is the host, 1 + s slot s.
static int is_packed(int32_t group, uint32_t slots) {
    return group == 0 || (slots >> (group - 1) & 1);
}

// Copies between a row of the gradient slab and a packed gradient. Returns its numbers.
static int64_t copy_packed(const EsGrowthPlan *plan, uint32_t slots, float *row, float *packed,
                           int is_packing) {
    const int64_t *spans = plan->spans.data;
    const int32_t *groups = plan->groups.data;
    int64_t at = 0;
    for (int i = 0; i < plan->n_spans; i++) {
        if (!is_packed(groups[i], slots)) {
            continue;
        }
        float *of_row = row + spans[2 * i];
        size_t bytes = sizeof(float) * (size_t)spans[2 * i + 1];
        memcpy(is_packing ? packed + at : of_row, is_packing ? of_row : packed + at, bytes);
        at += spans[2 * i + 1];
    }
    return at;
}

// Clears what no route of the slot reaches: the host between it and the loss.
static void clear_behind(const EsGrowth *growth, const EsGrowthPlan *plan, uint32_t slots, int slot,
                         float *packed) {
    const int64_t *spans = plan->spans.data;
    const int32_t *groups = plan->groups.data;
    for (int i = 0; i < plan->n_spans; i++) {
        if (!is_packed(groups[i], slots)) {
            continue;
        }
        if (groups[i] == 0 && spans[2 * i] >= growth->behind_slot[slot]) {
            memset(packed, 0, sizeof *packed * (size_t)spans[2 * i + 1]);
        }
        packed += spans[2 * i + 1];
    }
}

// --- one route ---

// Order of slots from the input to the loss.
static int depth_of(const EsSlot *slot) { return 2 * slot->column + slot->row; }

// Leaves the ways of one route open: of a seed's that through its branch and, behind it, all of
// them; of the teacher's (-1) those past the seeds.
static void open_route(const EsGrowth *growth, EsGrowthWorker *worker, int64_t env, uint32_t slots,
                       int of) {
    const EsSlot *at = growth->model.slots;
    for (int s = 0; s < growth->model.n_slots; s++) {
        int32_t mode = (int32_t)es_growth_blend_mode(growth, env, s);
        int has_route = (int)(slots >> s & 1);
        int is_nearer = of < 0 || depth_of(&at[s]) > depth_of(&at[of]);
        int32_t closed = s == of                   ? ES_BLEND_CLOSED_HOST
                         : is_nearer || !has_route ? ES_BLEND_CLOSED_SEED
                                                   : 0;
        worker->mode[s] = mode | closed;
    }
}

static void open_all(const EsGrowth *growth, EsGrowthWorker *worker, int64_t env) {
    for (int s = 0; s < growth->model.n_slots; s++) {
        worker->mode[s] = (int32_t)es_growth_blend_mode(growth, env, s);
    }
}

// --- reports ---

void es_growth_routes_begin_step(EsGrowth *growth, int64_t env) {
    if (growth->routes != NULL) {
        growth->routes[env] = (EsRouteReport){0};
    }
}

static void add_update(EsRouteReport *report, const EsRoutes *routes, const EsRouteMeasures *m,
                       const int *slots) {
    double norms = 0, weights = 0;
    int n = routes->n;
    for (int i = 0; i < n; i++) {
        norms += sqrt(m->dot[i][i]);
        weights += routes->weight[i];
    }
    report->n_routed++;
    report->n_conflicts += m->n_conflicts;
    report->conflict_ratio += m->n_conflicts / (0.5 * n * (n - 1));
    report->teacher_share += norms > 0 ? sqrt(m->dot[0][0]) / norms : 0;
    for (int i = 1; i < n; i++) {
        EsSeedRoute *seed = &report->seed[slots[i]];
        seed->n_updates++;
        seed->n_conflicts += m->n_opposed[i];
        seed->conflict_ratio += m->n_opposed[i] / (n - 1.0);
        seed->weight += routes->weight[i] * n / weights;
        seed->norm += sqrt(m->dot[i][i]);
        seed->share += norms > 0 ? sqrt(m->dot[i][i]) / norms : 0;
    }
}

// Sums over updates become means.
void es_growth_routes_end_step(EsGrowth *growth, int64_t env) {
    if (growth->routes == NULL) {
        return;
    }
    EsRouteReport *report = &growth->routes[env];
    double n = report->n_routed;
    report->conflict_ratio /= n; // NaN where no update was routed: not measured
    report->teacher_share /= n;
    for (int s = 0; s < growth->model.n_slots; s++) {
        EsSeedRoute *seed = &report->seed[s];
        double n_updates = seed->n_updates;
        seed->conflict_ratio /= n_updates;
        seed->weight /= n_updates;
        seed->norm /= n_updates;
        seed->share /= n_updates;
    }
}

// --- an update ---

// Runs the host once for every route; slot_of [R] says whose each is.
static void run_routes(EsGrowth *growth, EsGrowthWorker *worker, const EsGrowthPlan *plan,
                       int64_t env, uint32_t slots, EsRoutes *routes, int *slot_of) {
    EsRouteMemory memory = es_growth_route_memory(growth, worker);
    const EsStore *store = growth->store;
    const EsSeedView *seed = &growth->shown.state.seed;
    float *row = (float *)store->gradients.data + env * store->gradients.stride[0];
    for (int s = -1; s < growth->model.n_slots; s++) {
        if (s >= 0 && !(slots >> s & 1)) {
            continue;
        }
        float *packed = memory.routes + routes->n * growth->model.layout.n_parameters;
        open_route(growth, worker, env, slots, s);
        es_plan_worker_run(worker->runner);
        routes->count = copy_packed(plan, slots, row, packed, 1);
        if (s >= 0) {
            clear_behind(growth, plan, slots, s, packed);
        }
        int64_t i = env * growth->model.n_slots + s;
        routes->weight[routes->n] = s < 0 ? 1 : es_route_weight(seed->stage[i], seed->alpha[i]);
        routes->gradient[routes->n] = packed;
        slot_of[routes->n++] = s;
    }
    open_all(growth, worker, env);
}

void es_growth_routes_update(EsGrowth *growth, EsGrowthWorker *worker, const EsGrowthPlan *plan,
                             int64_t env) {
    if (growth->routes == NULL) {
        return;
    }
    const EsStore *store = growth->store;
    const EsGrowthLayout *layout = &growth->model.layout;
    uint32_t slots = slots_with_routes(growth, env);
    EsRouteReport *report = &growth->routes[env];
    report->n_updates++;
    // a single seed has nothing to be in conflict with but the host that it grows from: the plain
    // update
    if ((slots & (slots - 1)) == 0) {
        return;
    }
    EsRouteMemory memory = es_growth_route_memory(growth, worker);
    float *row = (float *)store->gradients.data + env * store->gradients.stride[0];
    float *states = (float *)store->states.data + env * store->states.stride[0];
    size_t row_bytes = sizeof *row * (size_t)layout->n_parameters;
    size_t state_bytes = sizeof *states * (size_t)layout->n_states;
    EsRoutes routes = {0};
    int slot_of[ES_ROUTES_MAX];
    memcpy(memory.row, row, row_bytes);
    memcpy(memory.states, states, state_bytes);
    run_routes(growth, worker, plan, env, slots, &routes, slot_of);
    memcpy(row, memory.row, row_bytes);
    memcpy(states, memory.states, state_bytes);
    EsRouteMeasures measures = es_routes_measure(&routes);
    EsRouteKey key = {growth->model.seed, (uint32_t)growth->episode_ids[env],
                      (uint32_t)worker->batch_number};
    copy_packed(plan, slots, row, memory.plain, 1);
    es_routes_combine(&routes, &measures, &key, memory.plain, memory.out);
    copy_packed(plan, slots, row, memory.out, 0);
    if (measures.is_finite) {
        add_update(report, &routes, &measures, slot_of);
    }
}
