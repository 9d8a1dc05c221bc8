// The validation part of a step: every environment as it is, and with seeds switched off, each
// combination once. A seed that does not change the output is left out of the graph: y = h there,
// bit for bit.
#include <math.h>

#include "base/clock.h"
#include "growth/engine/growth_internal.h"
#include "growth/rules/slot_rules.h"

// --- what is to be evaluated ---

static EsTopology trial_topology(const EsGrowth *growth, int64_t env, int32_t slots_off) {
    EsTopology topology = es_topology_empty();
    for (int s = 0; s < growth->model.n_slots; s++) {
        size_t i = (size_t)(env * growth->model.n_slots + s);
        int is_on =
            es_slot_is_on(growth->state.seed.stage[i], growth->state.seed.alpha[i], slots_off, s);
        if (is_on) {
            topology.blueprint[s] = (int8_t)growth->state.seed.blueprint[i];
            topology.has_gate[s] = growth->state.seed.algorithm[i] == ES_ALGORITHM_GATE;
        }
    }
    return topology;
}

// The first n_images of a split of the data set.
static EsStatus add_trial_on(EsGrowth *growth, const EsSplit *split, int64_t n_images, int64_t env,
                             int32_t slots_off) {
    const EsDataset *dataset = growth->model.dataset;
    EsGrowthTrial *trial = &growth->trials[growth->n_trials++];
    int64_t batch = ES_MIN(n_images, ES_GROWTH_EVALUATION_BATCH), rest = n_images % batch;
    *trial = (EsGrowthTrial){
        .env = (int32_t)env,
        .slots_off = slots_off,
        .first_image = (int64_t)((size_t)(split->images - dataset->images) / dataset->image_bytes),
        .n_images = n_images};
    if (growth->on_device != NULL) {
        return ES_STATUS_OK; // what a trial runs is a row of a table there
    }
    EsTopology topology = trial_topology(growth, env, trial->slots_off);
    ES_TRY(es_growth_plans_find(growth->plans, &topology, batch, 0, &trial->plan));
    if (rest > 0) {
        ES_TRY(es_growth_plans_find(growth->plans, &topology, rest, 0, &trial->rest));
    }
    for (int w = 0; w < growth->n_workers; w++) {
        ES_TRY(es_plan_worker_reserve(growth->workers[w].runner, trial->plan->plan));
        if (rest > 0) {
            ES_TRY(es_plan_worker_reserve(growth->workers[w].runner, trial->rest->plan));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_growth_add_trial(EsGrowth *growth, int64_t env, int32_t slots_off) {
    return add_trial_on(growth, &growth->model.dataset->validation,
                        growth->options.n_validation_images, env, slots_off);
}

static EsStatus list_trials(EsGrowth *growth) {
    es_lifecycle_list_ablations(&growth->state, &growth->options.settings, growth->ablations);
    growth->n_trials = 0;
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        for (int32_t k = 0; k < es_ablation_count(&growth->ablations[e]); k++) {
            ES_TRY(es_growth_add_trial(growth, e, es_ablation_slots_off(&growth->ablations[e], k)));
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
    if (growth->on_device != NULL) {
        return es_growth_on_device_run_trials(growth);
    }
    es_thread_pool_run(es_stream_pool(growth->stream), growth->n_trials, run_trial, growth);
    return ES_STATUS_OK;
}

EsStatus es_growth_validate(EsGrowth *growth) {
    int64_t start_ns = es_clock_ns();
    double n_images = (double)growth->options.n_validation_images;
    ES_TRY(list_trials(growth));
    ES_TRY(es_growth_run_trials(growth));
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

EsStatus es_growth_test(EsGrowth *growth) {
    const EsSplit *split = &growth->model.dataset->test;
    if (split->count < 1) {
        return ES_FAIL(INPUT, "the data set has no test images");
    }
    growth->n_trials = 0;
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        ES_TRY(add_trial_on(growth, split, split->count, e, 0));
    }
    ES_TRY(es_growth_run_trials(growth));
    for (int i = 0; i < growth->n_trials; i++) {
        const EsGrowthTrial *trial = &growth->trials[i];
        if (trial->n_invalid > 0) {
            return ES_FAIL(INPUT, "%lld test labels are outside 0..%d", (long long)trial->n_invalid,
                           growth->model.host.n_classes - 1);
        }
        growth->results[trial->env].test_loss = trial->loss / (double)split->count;
        growth->results[trial->env].test_accuracy =
            100.0 * (double)trial->n_correct / (double)split->count;
    }
    return ES_STATUS_OK;
}
