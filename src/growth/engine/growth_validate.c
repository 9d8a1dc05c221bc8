// Evaluation of the hosts as lists of trials: the validation part of a step (every environment as
// it is, and with seeds switched off, each combination once), the test split, shares of a batch's
// loss, and Shapley values. A seed that does not change the output is left out of the graph: y = h
// there, bit for bit.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "growth/engine/growth_internal.h"
#include "growth/rules/alpha_rules.h"

// --- trials ---

EsTopology es_growth_trial_topology(const EsGrowthState *state, int64_t env, int32_t slots_off) {
    EsTopology topology = es_topology_empty();
    for (int s = 0; s < state->n_slots; s++) {
        size_t i = (size_t)(env * state->n_slots + s);
        if (es_slot_is_on(state->seed.stage[i], state->seed.alpha[i], slots_off, s)) {
            topology.blueprint[s] = (int8_t)state->seed.blueprint[i];
            topology.has_gate[s] = state->seed.algorithm[i] == ES_ALGORITHM_GATE;
        }
    }
    return topology;
}

// Plans of earlier trials may make room for those of the set.
void es_growth_begin_trials(EsGrowth *growth) { es_growth_plans_begin_step(growth->plans); }

EsStatus es_growth_prepare_trial(EsGrowth *growth, EsGrowthTrial *trial) {
    int64_t batch = ES_MIN(trial->n_images, ES_GROWTH_EVALUATION_BATCH);
    return es_growth_find_trial(growth, &growth->shown.state, batch, trial);
}

EsStatus es_growth_find_trial(EsGrowth *growth, const EsGrowthState *state, int64_t batch,
                              EsGrowthTrial *trial) {
    int64_t rest = trial->n_images % batch;
    EsTopology topology = es_growth_trial_topology(state, trial->env, trial->slots_off);
    ES_TRY(es_growth_plans_find(growth->plans, &topology, batch, 0, &trial->plan));
    if (rest > 0) {
        ES_TRY(es_growth_plans_find(growth->plans, &topology, rest, 0, &trial->rest));
    }
    ES_TRY(es_growth_reserve(growth, trial->plan));
    return rest > 0 ? es_growth_reserve(growth, trial->rest) : ES_STATUS_OK;
}

// Samples of the data set, all splits counted through.
typedef struct Samples {
    int64_t first, count;
} Samples;

static Samples samples_of(const EsGrowth *growth, const EsSplit *split, int64_t count) {
    return (Samples){es_split_first(growth->model.dataset, split), count};
}

static EsStatus add_trial_on(EsGrowth *growth, Samples samples, int64_t env, int32_t slots_off) {
    EsGrowthTrial *trial = &growth->trials[growth->n_trials++];
    *trial = (EsGrowthTrial){.env = (int32_t)env,
                             .slots_off = slots_off,
                             .first_image = samples.first,
                             .n_images = samples.count};
    return growth->backend->prepare_trial(growth, trial);
}

static EsStatus add_trial(EsGrowth *growth, int64_t env, int32_t slots_off) {
    Samples samples =
        samples_of(growth, &growth->model.dataset->validation, growth->options.n_validation_images);
    return add_trial_on(growth, samples, env, slots_off);
}

static EsStatus list_trials(EsGrowth *growth) {
    es_lifecycle_list_ablations(&growth->shown.state, &growth->options.settings, growth->ablations);
    growth->n_trials = 0;
    for (int64_t i = 0; i < growth->n_own; i++) {
        int64_t e = growth->own[i];
        for (int32_t k = 0; k < es_ablation_count(&growth->ablations[e]); k++) {
            ES_TRY(add_trial(growth, e, es_ablation_slots_off(&growth->ablations[e], k)));
            growth->trials[growth->n_trials - 1].pattern = k;
        }
    }
    return ES_STATUS_OK;
}

// --- one of them ---

// Images [first, first + plan->batch) of the data set.
static void run_batch(const EsGrowth *growth, EsGrowthWorker *worker, EsGrowthTrial *trial,
                      const EsGrowthPlan *plan, int64_t first) {
    es_plan_worker_begin(worker->runner, plan->plan, trial->env);
    es_growth_bind_slots(growth, worker, plan, trial->env);
    for (int64_t i = 0; i < plan->batch; i++) {
        worker->index[i] = (int32_t)(first + i);
    }
    worker->batch_number = 0; // nothing is drawn in evaluation
    EsTensor index =
        es_tensor_view(worker->index, ES_DTYPE_I32, growth->device, 2, (int64_t[]){1, plan->batch});
    EsTensor number =
        es_tensor_view(&worker->batch_number, ES_DTYPE_I32, growth->device, 1, (int64_t[]){1});
    es_plan_worker_bind(worker->runner, plan->graph.index, &index);
    es_plan_worker_bind(worker->runner, plan->graph.step, &number);
    es_plan_worker_run(worker->runner);
    const EsLoss *loss = &plan->graph.loss;
    trial->loss += (double)*(float *)es_plan_worker_tensor(worker->runner, loss->loss).data *
                   (double)plan->batch;
    trial->n_correct += *(int32_t *)es_plan_worker_tensor(worker->runner, loss->n_correct).data;
    trial->n_invalid += *(int32_t *)es_plan_worker_tensor(worker->runner, loss->n_invalid).data;
}

static void run_trial(void *context, int64_t number, int worker_index) {
    EsGrowth *growth = context;
    EsGrowthWorker *worker = &growth->workers[worker_index];
    EsGrowthTrial *trial = &growth->trials[number];
    int64_t done = 0;
    for (; done + trial->plan->batch <= trial->n_images; done += trial->plan->batch) {
        run_batch(growth, worker, trial, trial->plan, trial->first_image + done);
    }
    if (trial->rest != NULL) {
        run_batch(growth, worker, trial, trial->rest, trial->first_image + done);
    }
}

// --- all of them ---

EsStatus es_growth_run_trials(EsGrowth *growth) {
    int64_t n_alone = es_growth_alone(growth, growth->n_trials);
    es_thread_pool_run(es_stream_pool(growth->stream), n_alone, run_trial, growth);
    for (int64_t i = n_alone; i < growth->n_trials; i++) {
        run_trial(growth, i, growth->n_workers);
    }
    return ES_STATUS_OK;
}

EsStatus es_growth_validate(EsGrowth *growth) {
    int64_t start_ns = es_clock_ns();
    double n_images = (double)growth->options.n_validation_images;
    ES_TRY(list_trials(growth));
    ES_TRY(growth->backend->run_trials(growth));
    for (int i = 0; i < growth->n_trials; i++) {
        const EsGrowthTrial *trial = &growth->trials[i];
        int64_t e = trial->env;
        double accuracy = 100.0 * (double)trial->n_correct / n_images;
        if (trial->n_invalid > 0) {
            return ES_FAIL(INPUT, "%lld validation labels are outside 0..%d",
                           (long long)trial->n_invalid, growth->model.host.n_classes - 1);
        }
        growth->accuracy[e * ES_ABLATION_PATTERNS_MAX + trial->pattern] = (float)accuracy;
        if (trial->pattern == 0) {
            growth->results[e].test_loss = growth->results[e].test_accuracy = NAN;
            growth->results[e].validation_loss = trial->loss / n_images;
            growth->results[e].validation_accuracy = accuracy;
            growth->loss_row[e] = (float)(trial->loss / n_images);
            growth->accuracy_row[e] = (float)accuracy;
        }
    }
    growth->times.validate_ms = es_clock_seconds_since(start_ns) * 1e3;
    return ES_STATUS_OK;
}

EsStatus es_growth_gather_step(EsGrowth *growth) {
    size_t n_slots = (size_t)growth->model.n_slots;
    // the last one is there with aggregation alone
    const EsRankColumn columns[] = {
        {growth->results, sizeof *growth->results},
        {growth->accuracy, sizeof *growth->accuracy * ES_ABLATION_PATTERNS_MAX},
        {growth->loss_row, sizeof *growth->loss_row},
        {growth->accuracy_row, sizeof *growth->accuracy_row},
        {growth->host_sums, sizeof *growth->host_sums},
        {growth->seed_sums, sizeof *growth->seed_sums * n_slots},
        {growth->routes, sizeof *growth->routes},
    };
    return es_growth_share_rows(growth, "measurements of a step", columns,
                                (int)ES_COUNT_OF(columns) - (growth->routes == NULL));
}

EsStatus es_growth_evaluate_own(EsGrowth *growth, const EsSplit *split, double *losses,
                                double *accuracies) {
    growth->n_trials = 0;
    for (int64_t i = 0; i < growth->n_own; i++) {
        int64_t e = growth->own[i];
        ES_TRY(add_trial_on(growth, samples_of(growth, split, split->count), e, 0));
    }
    ES_TRY(growth->backend->run_trials(growth));
    for (int i = 0; i < growth->n_trials; i++) {
        const EsGrowthTrial *trial = &growth->trials[i];
        if (trial->n_invalid > 0) {
            return ES_FAIL(INPUT, "%lld labels of the split are outside 0..%d",
                           (long long)trial->n_invalid, growth->model.host.n_classes - 1);
        }
        losses[trial->env] = trial->loss / (double)split->count;
        accuracies[trial->env] = 100.0 * (double)trial->n_correct / (double)split->count;
    }
    return ES_STATUS_OK;
}

EsStatus es_growth_evaluate_gather(EsGrowth *growth, double *losses, double *accuracies) {
    const EsRankColumn columns[] = {{losses, sizeof *losses}, {accuracies, sizeof *accuracies}};
    return es_growth_share_rows(growth, "an evaluation", columns, ES_COUNT_OF(columns));
}

EsStatus es_growth_evaluate(EsGrowth *growth, const EsSplit *split, double *losses,
                            double *accuracies) {
    ES_TRY(es_growth_evaluate_own(growth, split, losses, accuracies));
    return es_growth_evaluate_gather(growth, losses, accuracies);
}

EsStatus es_growth_test(EsGrowth *growth) {
    const EsSplit *split = &growth->model.dataset->test;
    double *measured = NULL;
    size_t n = (size_t)growth->options.n_envs;
    if (split->count < 1) {
        return ES_FAIL(INPUT, "the data set has no test images");
    }
    ES_TRY(es_allocate(2 * n * sizeof *measured, (void **)&measured));
    EsStatus status = es_growth_evaluate(growth, split, measured, measured + n);
    for (size_t e = 0; status == ES_STATUS_OK && e < n; e++) {
        growth->results[e].test_loss = measured[e];
        growth->results[e].test_accuracy = measured[n + e];
    }
    es_release(measured);
    return status;
}

// --- shares of a batch's loss ---

// Trials of one environment: as it is, then without each seed that changes the output, by slot.
static EsStatus list_shares(EsGrowth *growth, Samples samples, int64_t env) {
    const EsSeedView *seed = &growth->shown.state.seed;
    ES_TRY(add_trial_on(growth, samples, env, 0));
    for (int s = 0; s < growth->model.n_slots; s++) {
        int64_t i = env * growth->model.n_slots + s;
        if (es_slot_is_on(seed->stage[i], seed->alpha[i], 0, s)) {
            ES_TRY(add_trial_on(growth, samples, env, 1 << s));
        }
    }
    return ES_STATUS_OK;
}

// Gains of an environment's seeds, which are not negative, to shares of their sum.
static void divide_by_sum(double *weights, int n) {
    double sum = 0;
    for (int s = 0; s < n; s++) {
        sum += weights[s];
    }
    for (int s = 0; s < n && sum > 0; s++) {
        weights[s] /= sum;
    }
}

EsStatus es_growth_attribute_batch(EsGrowth *growth, int64_t first, int64_t count,
                                   double *weights) {
    const EsSplit *train = &growth->model.dataset->train;
    int n_slots = growth->model.n_slots;
    double loss = NAN; // of the environment as it is
    if (first < 0 || count < 1 || first > train->count - count) {
        return ES_FAIL(ARGUMENT, "samples %lld to %lld are not among the %lld of the training set",
                       (long long)first, (long long)(first + count - 1), (long long)train->count);
    }
    Samples samples = samples_of(growth, train, count);
    samples.first += first;
    memset(weights, 0, sizeof *weights * (size_t)(growth->options.n_envs * n_slots));
    growth->n_trials = 0;
    growth->backend->begin_trials(growth);
    for (int64_t i = 0; i < growth->n_own; i++) {
        int64_t e = growth->own[i];
        ES_TRY(list_shares(growth, samples, e));
    }
    ES_TRY(growth->backend->run_trials(growth));
    for (int i = 0; i < growth->n_trials; i++) {
        const EsGrowthTrial *trial = &growth->trials[i];
        if (trial->slots_off == 0) {
            loss = trial->loss;
            continue;
        }
        double gain = trial->loss - loss;
        int slot = __builtin_ctz((unsigned)trial->slots_off);
        weights[trial->env * n_slots + slot] = gain > 0 && isfinite(gain) ? gain : 0;
    }
    for (int64_t i = 0; i < growth->n_own; i++) {
        int64_t e = growth->own[i];
        divide_by_sum(weights + e * n_slots, n_slots);
    }
    const EsRankColumn column = {weights, sizeof *weights * (size_t)n_slots};
    return es_growth_share_rows(growth, "shares of a batch", &column, 1);
}

// --- Shapley values ---

// Shapley values of the validation accuracy: the worth of each seed, averaged over all orders of
// adding them. Exact from the table of all subsets up to four seeds; above, means over random
// orders and their reverses, with standard errors.

// orders drawn per environment; each is walked forwards and backwards
#define ORDERS 8

typedef struct Orders {
    int n;
    int8_t seed[2 * ORDERS][ES_SLOTS_MAX]; // positions in the ablation list
} Orders;

static Orders draw_orders(const EsGrowth *growth, int64_t env, int n) {
    Orders orders = {.n = n};
    uint32_t episode = (uint32_t)growth->episode_ids[env];
    for (int k = 0; k < ORDERS; k++) {
        int8_t *order = orders.seed[2 * k];
        for (int i = 0; i < n; i++) {
            order[i] = (int8_t)i;
        }
        for (int i = n - 1; i > 0; i--) {
            EsRandom4 draw = es_random_draw(growth->options.seed, episode, ES_PURPOSE_SHAPLEY,
                                            (uint32_t)k, (uint32_t)i);
            int other = (int)(draw.word[0] % (uint32_t)(i + 1));
            int8_t held = order[i];
            order[i] = order[other];
            order[other] = held;
        }
        for (int i = 0; i < n; i++) {
            orders.seed[2 * k + 1][i] = order[n - 1 - i];
        }
    }
    return orders;
}

// Seeds that are still off when the first `n_on` of an order are on, as bits of slots.
static int32_t slots_off(const EsAblation *list, const int8_t *order, int n_on) {
    int32_t off = 0;
    for (int i = n_on; i < list->n; i++) {
        off |= 1 << list->slot[order[i]];
    }
    return off;
}

// The trial of this environment with these slots off; added when it is new.
static EsStatus find_trial(EsGrowth *growth, int64_t env, int32_t off, int *position) {
    for (int i = 0; i < growth->n_trials; i++) {
        if (growth->trials[i].slots_off == off) {
            *position = i;
            return ES_STATUS_OK;
        }
    }
    *position = growth->n_trials;
    return add_trial(growth, env, off);
}

static EsStatus sample(EsGrowth *growth, int64_t env, const EsAblation *list) {
    int position[2 * ORDERS][ES_SLOTS_MAX + 1];
    Orders orders = draw_orders(growth, env, list->n);
    growth->n_trials = 0;
    growth->backend->begin_trials(growth);
    for (int k = 0; k < 2 * ORDERS; k++) {
        for (int n_on = 0; n_on <= list->n; n_on++) {
            ES_TRY(
                find_trial(growth, env, slots_off(list, orders.seed[k], n_on), &position[k][n_on]));
        }
    }
    ES_TRY(growth->backend->run_trials(growth));
    double n_images = (double)growth->options.n_validation_images;
    for (int i = 0; i < list->n; i++) {
        double sum = 0, squares = 0;
        // an order and its reverse are one draw: their mean varies less than two independent ones
        for (int k = 0; k < ORDERS; k++) {
            double pair = 0;
            for (int side = 0; side < 2; side++) {
                const int8_t *order = orders.seed[2 * k + side];
                int place = 0;
                while (order[place] != i) {
                    place++;
                }
                const int *at = position[2 * k + side];
                pair += 50.0 *
                        (double)(growth->trials[at[place + 1]].n_correct -
                                 growth->trials[at[place]].n_correct) /
                        n_images;
            }
            sum += pair;
            squares += pair * pair;
        }
        double mean = sum / ORDERS, variance = (squares - sum * mean) / (ORDERS - 1);
        int64_t at = env * growth->model.n_slots + list->slot[i];
        growth->shapley[at] = mean;
        growth->shapley_error[at] = sqrt(ES_MAX(variance, 0) / ORDERS);
    }
    return ES_STATUS_OK;
}

EsStatus es_growth_attribute(EsGrowth *growth) {
    int64_t n_all = growth->options.n_envs * growth->model.n_slots;
    for (int64_t i = 0; i < n_all; i++) {
        growth->shapley[i] = growth->shapley_error[i] = NAN;
    }
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        const EsAblation *list = &growth->ablations[e];
        if (list->n > ES_ABLATION_FULL_MAX) {
            int is_own = growth->owner[e] == es_ranks_number(growth->options.ranks);
            ES_TRY(is_own ? sample(growth, e, list) : ES_STATUS_OK);
            continue;
        }
        double values[ES_ABLATION_FULL_MAX];
        es_shapley_exact(list->n, growth->accuracy + e * ES_ABLATION_PATTERNS_MAX, values);
        for (int i = 0; i < list->n; i++) {
            growth->shapley[e * growth->model.n_slots + list->slot[i]] = values[i];
            growth->shapley_error[e * growth->model.n_slots + list->slot[i]] = 0;
        }
    }
    size_t row_bytes = sizeof(double) * (size_t)growth->model.n_slots;
    const EsRankColumn columns[] = {{growth->shapley, row_bytes},
                                    {growth->shapley_error, row_bytes}};
    return es_growth_share_rows(growth, "Shapley values", columns, ES_COUNT_OF(columns));
}
