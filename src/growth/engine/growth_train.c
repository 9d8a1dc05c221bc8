// The training part of a step: every environment on some thread, all its batches in a row.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "growth/engine/growth_internal.h"
#include "growth/rules/alpha_rules.h"
#include "kernels/ops/schedule_rules.h"

EsBlendMode es_growth_blend_mode(const EsGrowth *growth, int64_t env, int slot) {
    size_t i = (size_t)(env * growth->model.n_slots + slot);
    return (EsBlendMode)es_slot_blend_mode(growth->shown.state.seed.stage[i],
                                           growth->shown.state.seed.algorithm[i]);
}

// --- threads ---

// Of the speed of n threads on one host, to be sure.
#define TEAM_EFFICIENCY 0.6

int64_t es_growth_team_share(int n_workers, int64_t n) {
    int64_t n_left = n % n_workers; // which alone would take the time of one more host
    return (double)n_left < TEAM_EFFICIENCY * n_workers ? n_left : 0;
}

int64_t es_growth_alone(const EsGrowth *growth, int64_t n) {
    return n - (growth->has_team ? es_growth_team_share(growth->n_workers, n) : 0);
}

EsStatus es_growth_reserve(EsGrowth *growth, const EsGrowthPlan *plan) {
    for (int w = 0; w < growth->n_workers + growth->has_team; w++) {
        ES_TRY(es_plan_worker_reserve(growth->workers[w].runner, plan->plan));
    }
    return ES_STATUS_OK;
}

// --- plans ---

EsTopology es_growth_topology(const EsGrowthState *state, int64_t env) {
    EsTopology topology = es_topology_empty();
    for (int s = 0; s < state->n_slots; s++) {
        size_t i = (size_t)(env * state->n_slots + s);
        if (es_slot_blend_mode(state->seed.stage[i], state->seed.algorithm[i]) != ES_BLEND_NONE) {
            topology.blueprint[s] = (int8_t)state->seed.blueprint[i];
            topology.has_gate[s] = state->seed.algorithm[i] == ES_ALGORITHM_GATE;
        }
    }
    return topology;
}

static EsStatus find_plans(EsGrowth *growth) {
    es_growth_plans_begin_step(growth->plans);
    for (int64_t i = 0; i < growth->n_own; i++) {
        int64_t e = growth->own[i];
        EsTopology topology = es_growth_topology(&growth->shown.state, e);
        ES_TRY(es_growth_plans_find(growth->plans, &topology, growth->options.batch, 1,
                                    &growth->train_plans[e]));
        ES_TRY(es_growth_reserve(growth, growth->train_plans[e]));
    }
    return ES_STATUS_OK;
}

// --- one environment ---

// Elements [first, end) of an environment's row of a slab.
static EsTensor part_of(const EsTensor *slab, int64_t env, int64_t first, int64_t end) {
    return es_tensor_view((float *)slab->data + env * slab->stride[0] + first, ES_DTYPE_F32,
                          slab->device, 2, (int64_t[]){1, end - first});
}

static EsTensor vector_of(void *data, EsDtype dtype, EsDevice *device, int64_t count) {
    return es_tensor_view(data, dtype, device, 2, (int64_t[]){1, count});
}

// An incubating seed's gate is not asked, so it has no gradient to be measured by.
static int is_idle_gate(const EsGrowth *growth, int64_t env, int group, int64_t offset) {
    return group > 0 && offset < growth->model.layout.seed[group - 1] &&
           es_growth_blend_mode(growth, env, group - 1) == ES_BLEND_INCUBATE;
}

// Norms of every tensor of this batch, kept per environment: the last measured batch of a step
// wins.
static void measure_gradients(EsGrowth *growth, const EsGrowthWorker *worker,
                              const EsGrowthPlan *plan, int64_t env) {
    const EsGrowthSettings *settings = &growth->options.settings;
    EsGradientSums *host = &growth->host_sums[env];
    EsGradientSums *seeds = &growth->seed_sums[env * growth->model.n_slots];
    const int64_t *spans = plan->spans.data;
    const int32_t *groups = plan->groups.data;
    *host = es_gradient_sums_empty();
    for (int s = 0; s < growth->model.n_slots; s++) {
        seeds[s] = es_gradient_sums_empty();
    }
    for (int i = 0; i < plan->n_spans; i++) {
        if (is_idle_gate(growth, env, groups[i], spans[2 * i])) {
            continue;
        }
        double sum = worker->n_nonfinite[i] > 0 ? INFINITY : worker->sum_squares[i];
        es_gradient_add(settings, groups[i] == 0 ? host : &seeds[groups[i] - 1], sum,
                        spans[2 * i + 1], es_growth_rates(growth, env).clip);
    }
    double norm = sqrt(host->sum_squares);
    growth->results[env].host_gradient_norm = norm;
}

// A part of an environment's parameters (growth_internal.h) and the rates of its updates.
typedef struct ParameterRange {
    int number;
    int64_t first, end;
    float learning_rate, weight_decay;
} ParameterRange;

static void average_part(EsGrowth *growth, EsGrowthWorker *worker, int64_t env,
                         const ParameterRange *part) {
    const EsGrowthAverage *average = &growth->average;
    int64_t n_states = growth->model.layout.n_states;
    int32_t *n_updates = (int32_t *)average->n_updates.data + env * average->n_updates.stride[0];
    float share = es_average_share(growth->options.recipe.average, n_updates[part->number]++);
    EsTensor weights = part_of(&growth->store->parameters, env, part->first, part->end);
    EsTensor averaged = part_of(&average->store->parameters, env, part->first, part->end);
    es_average_update(worker->stream, share, &weights, &averaged);
    if (part->number == ES_GROWTH_HOST) {
        weights = part_of(&growth->store->states, env, 0, n_states);
        averaged = part_of(&average->store->states, env, 0, n_states);
        es_average_update(worker->stream, share, &weights, &averaged);
    }
}

static EsTensor number_of(const EsGrowth *growth, void *data, EsDtype dtype) {
    return es_tensor_view(data, dtype, growth->device, 1, (int64_t[]){1});
}

static void step_adamw(EsGrowth *growth, EsGrowthWorker *worker, int64_t env,
                       const ParameterRange *part, const EsSgdRates *rates) {
    const EsTensor *steps = &growth->adam_steps;
    EsOptimiserOptions options = es_recipe_optimiser(&growth->options.recipe, part->learning_rate);
    EsAdamOptions adam = {options.beta1, options.beta2, options.epsilon};
    float learning_rate = 0;
    EsTensor scheduled = number_of(growth, &learning_rate, ES_DTYPE_F32);
    EsTensor n_steps = number_of(
        growth, (int32_t *)steps->data + env * steps->stride[0] + part->number, ES_DTYPE_I32);
    EsTensor gradient = part_of(&growth->store->gradients, env, part->first, part->end);
    EsTensor moment1 = part_of(&growth->momentum, env, part->first, part->end);
    EsTensor moment2 = part_of(&growth->moment2, env, part->first, part->end);
    EsTensor parameter = part_of(&growth->store->parameters, env, part->first, part->end);
    es_adamw_step(worker->stream, adam, rates, &scheduled, &gradient, &moment1, &moment2, &n_steps,
                  &parameter);
}

static void step_sgd(EsGrowth *growth, EsGrowthWorker *worker, int64_t env,
                     const ParameterRange *part, const EsSgdRates *rates) {
    EsTensor gradient = part_of(&growth->store->gradients, env, part->first, part->end);
    EsTensor momentum = part_of(&growth->momentum, env, part->first, part->end);
    EsTensor parameter = part_of(&growth->store->parameters, env, part->first, part->end);
    es_kernels_of(growth->device)
        ->sgd_step(worker->stream, rates, &gradient, &momentum, &parameter);
}

static void update_part(EsGrowth *growth, EsGrowthWorker *worker, int64_t env,
                        ParameterRange part) {
    float momentum = es_growth_rates(growth, env).momentum;
    EsLearningRateSchedule schedule = es_growth_schedule(&growth->options);
    int64_t epoch = growth->shown.state.env.step[env] - 1;
    part.learning_rate *= es_recipe_epoch_share(&growth->options.recipe, epoch);
    EsSgdRates rates = {.learning_rate = number_of(growth, &part.learning_rate, ES_DTYPE_F32),
                        .momentum = number_of(growth, &momentum, ES_DTYPE_F32),
                        .weight_decay = number_of(growth, &part.weight_decay, ES_DTYPE_F32),
                        .is_nesterov = growth->options.recipe.nesterov,
                        .schedule = schedule};
    if (schedule.n_updates > 0) {
        rates.update = number_of(growth, &worker->batch_number, ES_DTYPE_I32);
    }
    if (growth->moment2.data != NULL) {
        step_adamw(growth, worker, env, &part, &rates);
    } else {
        step_sgd(growth, worker, env, &part, &rates);
    }
    if (growth->average.store != NULL) {
        average_part(growth, worker, env, &part);
    }
}

// Clip the host's gradient and each seed's by its own norm, then one step of the optimiser. A seed
// on its way out is frozen: neither weights nor moments nor average move.
static void update_host(EsGrowth *growth, EsGrowthWorker *worker, const EsGrowthPlan *plan,
                        int64_t env, int is_measured) {
    const EsKernels *kernels = es_kernels_of(growth->device);
    const EsGrowthLayout *layout = &growth->model.layout;
    int n_slots = growth->model.n_slots;
    EsTensor gradients = part_of(&growth->store->gradients, env, 0, layout->n_parameters);
    EsTensor sums = vector_of(worker->sum_squares, ES_DTYPE_F64, growth->device, plan->n_spans);
    EsTensor counts = vector_of(worker->n_nonfinite, ES_DTYPE_I32, growth->device, plan->n_spans);
    EsTensor limits = vector_of(worker->max_norm, ES_DTYPE_F32, growth->device, 1 + n_slots);
    EsTensor norms = vector_of(worker->group_norm, ES_DTYPE_F32, growth->device, 1 + n_slots);
    kernels->slab_norms(worker->stream, &gradients, &plan->spans, &sums, &counts);
    if (is_measured) {
        measure_gradients(growth, worker, plan, env);
    }
    kernels->slab_clip(worker->stream, &plan->spans, &plan->groups, &sums, &limits, &gradients,
                       &norms);
    update_part(growth, worker, env,
                (ParameterRange){ES_GROWTH_HOST, 0, layout->n_host_parameters,
                                 es_growth_rates(growth, env).host_learning_rate,
                                 es_growth_rates(growth, env).weight_decay});
    float learning_rate = es_growth_rates(growth, env).seed_learning_rate;
    for (int s = 0; s < n_slots; s++) {
        int is_frozen = growth->shown.state.seed.alpha_mode[env * n_slots + s] == ES_ALPHA_DOWN;
        if (plan->topology.blueprint[s] == ES_NO_SEED || is_frozen) {
            continue;
        }
        // a gate that is not in use has no gradient of this batch
        if (plan->topology.has_gate[s]) {
            update_part(growth, worker, env,
                        (ParameterRange){ES_GROWTH_GATE(s), layout->region[s], layout->seed[s],
                                         learning_rate, 0.0f});
        }
        update_part(growth, worker, env,
                    (ParameterRange){ES_GROWTH_SEED(s), layout->seed[s], layout->region_end[s],
                                     learning_rate, 0.0f});
    }
}

void es_growth_bind_slots(const EsGrowth *growth, EsGrowthWorker *worker, const EsGrowthPlan *plan,
                          int64_t env) {
    for (int s = 0; s < growth->model.n_slots; s++) {
        if (plan->topology.blueprint[s] == ES_NO_SEED) {
            continue;
        }
        worker->alpha[s] = growth->shown.state.seed.alpha[env * growth->model.n_slots + s];
        worker->mode[s] = (int32_t)es_growth_blend_mode(growth, env, s);
        EsTensor alpha =
            es_tensor_view(&worker->alpha[s], ES_DTYPE_F32, growth->device, 1, (int64_t[]){1});
        EsTensor mode =
            es_tensor_view(&worker->mode[s], ES_DTYPE_I32, growth->device, 1, (int64_t[]){1});
        es_plan_worker_bind(worker->runner, plan->graph.alpha[s], &alpha);
        es_plan_worker_bind(worker->runner, plan->graph.mode[s], &mode);
    }
}

// Trains environment number `piece` of this rank.
static void train_host(void *context, int64_t piece, int worker_index) {
    EsGrowth *growth = context;
    int64_t env = growth->own[piece];
    EsGrowthWorker *worker = &growth->workers[worker_index];
    const EsGrowthPlan *plan = growth->train_plans[env];
    EsGrowthResult *result = &growth->results[env];
    int64_t n_batches = growth->options.step_batches, n_correct = 0;
    int64_t first = (growth->shown.state.env.step[env] - 1) * n_batches;
    double loss = 0;
    es_plan_worker_begin(worker->runner, plan->plan, env);
    es_growth_bind_slots(growth, worker, plan, env);
    EsTensor number =
        es_tensor_view(&worker->batch_number, ES_DTYPE_I32, growth->device, 1, (int64_t[]){1});
    es_plan_worker_bind(worker->runner, plan->graph.step, &number);
    const float *batch_loss = es_plan_worker_tensor(worker->runner, plan->graph.loss.loss).data;
    const int32_t *correct = es_plan_worker_tensor(worker->runner, plan->graph.loss.n_correct).data;
    const int32_t *invalid = es_plan_worker_tensor(worker->runner, plan->graph.loss.n_invalid).data;
    growth->n_invalid[env] = 0;
    es_growth_routes_begin_step(growth, env);
    for (int g = 0; g <= growth->model.n_slots; g++) {
        worker->max_norm[g] = es_growth_rates(growth, env).clip;
    }
    for (int64_t b = 0; b < n_batches && !atomic_load(&growth->is_stopped); b++) {
        worker->batch_number = (int32_t)(first + b);
        es_plan_worker_run(worker->runner);
        loss += (double)*batch_loss;
        n_correct += *correct;
        growth->n_invalid[env] += *invalid;
        es_growth_routes_update(growth, worker, plan, env);
        update_host(growth, worker, plan, env, b % growth->options.gradient_stride == 0);
        if (growth->options.is_stopped != NULL &&
            growth->options.is_stopped(growth->options.context)) {
            atomic_store(&growth->is_stopped, 1);
        }
    }
    es_growth_routes_end_step(growth, env);
    result->train_loss = loss / (double)n_batches;
    result->train_accuracy =
        100.0 * (double)n_correct / (double)(n_batches * growth->options.batch);
}

EsStatus es_growth_train(EsGrowth *growth) {
    int64_t start_ns = es_clock_ns(), n_own = growth->n_own;
    ES_TRY(find_plans(growth));
    int64_t n_alone = es_growth_alone(growth, n_own);
    es_thread_pool_run(es_stream_pool(growth->stream), n_alone, train_host, growth);
    for (int64_t i = n_alone; i < n_own; i++) {
        train_host(growth, i, growth->n_workers);
    }
    growth->times.train_ms = es_clock_seconds_since(start_ns) * 1e3;
    if (atomic_exchange(&growth->is_stopped, 0)) {
        return ES_FAIL(INTERRUPTED, "the step was dropped");
    }
    for (int64_t i = 0; i < n_own; i++) {
        int64_t e = growth->own[i];
        if (growth->n_invalid[e] > 0) {
            return ES_FAIL(INPUT, "%d labels of environment %lld's batches are outside 0..%d",
                           growth->n_invalid[e], (long long)e, growth->model.host.n_classes - 1);
        }
    }
    return ES_STATUS_OK;
}
