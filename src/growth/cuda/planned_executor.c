// The planned step as growth's executor: every host with the plan of its own topology, on a few
// streams side by side, which wait for growth's and are waited for. growth_train.c and
// growth_validate.c do the same on the CPU, by threads.
//
// Alpha and mode of a slot are inputs of a plan, and are read from the rows of the device when the
// work runs. The topology itself (which blueprint a slot holds, and whether it has a gate) has to
// be known when the work is queued: begin_step waits for the packed copy with the decision, where a
// step is queued ahead. While the topologies stay as they are, so do all launches, and the step is
// captured and replayed.
#include <string.h>

#include "base/memory.h"
#include "growth/cuda/growth_on_device.h"

// images of one pass of evaluation, and numbers of a map over all of them
#define PASS_IMAGES_MAX  1024
#define PASS_NUMBERS_MAX (1 << 24)
// hosts that run side by side, each in memory of its own
#define STREAMS_MAX 8

struct EsPlannedStep {
    // one for each worker of growth
    EsStream *streams[STREAMS_MAX]; // owned
    EsEvent *done[STREAMS_MAX];     // owned
    EsEvent *begun;                 // owned
    EsTensor order;                 // owned i32 [M]: 0, 1, ...; the index of evaluated images
    EsTensor none;                  // owned i32 [1]: 0; nothing is drawn in evaluation
    EsFusedResults trained;         // owned [E]
    EsFusedResults evaluated;       // owned [R]
    EsFusedResults pass;            // owned [R]: of one pass of evaluation
    EsAblation *lists;              // owned [E]: seeds to switch off in the step's validation
    EsGrowthTrial *trials;          // owned [R]: of the step
    int64_t n_trials;
    // the launches that are captured, if any
    EsTopology *launched;  // owned [E + R]: of training, then of trials
    int64_t n_launched;    // trials among them
    int32_t *launched_env; // owned [R]: of the trials
    size_t launched_bytes; // of the workers' memory, which moves when it grows
};

// --- create ---

static EsStatus create_results(EsDevice *device, int64_t n, EsFusedResults *results) {
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_F32, 1, &n, &results->loss));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_I32, 1, &n, &results->n_correct));
    return es_device_create_tensor(device, ES_DTYPE_I32, 1, &n, &results->n_invalid);
}

static void destroy_results(EsFusedResults *results) {
    es_device_destroy_tensor(&results->loss);
    es_device_destroy_tensor(&results->n_correct);
    es_device_destroy_tensor(&results->n_invalid);
}

// 0, 1, ... on the device, one for each sample.
static EsStatus create_order(EsGrowth *growth, EsTensor *order) {
    int64_t n = growth->model.dataset->n_images;
    int32_t *numbers = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_device_create_tensor(growth->device, ES_DTYPE_I32, 1, &n, order));
    ES_TRY(es_allocate(sizeof *numbers * (size_t)n, (void **)&numbers));
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = (int32_t)i;
    }
    ES_TRY_GOTO(es_stream_copy(growth->stream, order->data, numbers, sizeof *numbers * (size_t)n,
                               ES_COPY_TO_DEVICE));
    ES_TRY_GOTO(es_stream_synchronize(growth->stream));
done:
    es_release(numbers);
    return status;
}

static EsStatus create_lists(EsGrowth *growth) {
    EsPlannedStep *planned = growth->on_device->planned;
    size_t n = (size_t)growth->options.n_envs, n_trials = (size_t)growth->on_device->max_trials;
    ES_TRY(es_allocate(sizeof *planned->lists * n, (void **)&planned->lists));
    ES_TRY(es_allocate(sizeof *planned->trials * n_trials, (void **)&planned->trials));
    ES_TRY(es_allocate(sizeof *planned->launched * (n + n_trials), (void **)&planned->launched));
    ES_TRY(es_allocate(sizeof *planned->launched_env * n_trials, (void **)&planned->launched_env));
    return es_allocate(sizeof *growth->train_plans * n, (void **)&growth->train_plans);
}

// As many as there are trials to run at once; each has a stream.
static EsStatus create_workers(EsGrowth *growth) {
    EsPlannedStep *planned = growth->on_device->planned;
    int n = (int)ES_MIN(growth->on_device->max_trials, STREAMS_MAX);
    ES_TRY(es_allocate(sizeof *growth->workers * (size_t)n, (void **)&growth->workers));
    growth->n_workers = n;
    ES_TRY(es_event_create(growth->device, &planned->begun));
    for (int w = 0; w < n; w++) {
        EsGrowthWorker *worker = &growth->workers[w];
        ES_TRY(es_event_create(growth->device, &planned->done[w]));
        ES_TRY(es_stream_create(growth->device, &planned->streams[w]));
        ES_TRY(es_plan_stream_worker_create(planned->streams[w], &worker->runner));
        worker->stream = planned->streams[w];
    }
    return ES_STATUS_OK;
}

static EsStatus create(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    ES_TRY(es_allocate(sizeof *d->planned, (void **)&d->planned));
    EsPlannedStep *planned = d->planned;
    EsGrowthPlansOptions plans = {.model = &growth->model,
                                  .store = growth->store,
                                  .evaluated = growth->evaluated,
                                  .episode = &growth->episode,
                                  .images = &d->images,
                                  .labels = &d->labels,
                                  .precision = growth->options.precision,
                                  .mode = growth->options.mode,
                                  .capacity = growth->options.plan_capacity};
    ES_TRY(es_growth_plans_create(&plans, &growth->plans));
    ES_TRY(create_workers(growth));
    ES_TRY(create_lists(growth));
    ES_TRY(create_order(growth, &planned->order));
    ES_TRY(
        es_device_create_tensor(growth->device, ES_DTYPE_I32, 1, (int64_t[]){1}, &planned->none));
    ES_TRY(create_results(growth->device, growth->options.n_envs, &planned->trained));
    ES_TRY(create_results(growth->device, d->max_trials, &planned->evaluated));
    return create_results(growth->device, d->max_trials, &planned->pass);
}

static void destroy(EsGrowth *growth) {
    EsPlannedStep *planned = growth->on_device->planned;
    if (planned == NULL) {
        return;
    }
    for (int w = 0; growth->workers != NULL && w < growth->n_workers; w++) {
        es_plan_worker_destroy(growth->workers[w].runner);
        es_stream_destroy(planned->streams[w]);
        es_event_destroy(planned->done[w]);
    }
    es_event_destroy(planned->begun);
    es_growth_plans_destroy(growth->plans);
    es_device_destroy_tensor(&planned->order);
    es_device_destroy_tensor(&planned->none);
    destroy_results(&planned->trained);
    destroy_results(&planned->evaluated);
    destroy_results(&planned->pass);
    es_release(planned->lists);
    es_release(planned->trials);
    es_release(planned->launched);
    es_release(planned->launched_env);
    es_release(planned);
}

// --- what a step will run ---

// The worker of host or trial number i.
static EsPlanWorker *runner_of(const EsGrowth *growth, int64_t i) {
    return growth->workers[i % growth->n_workers].runner;
}

// Numbers of the largest map of an image.
static int64_t widest_map(const EsHostSpec *host) {
    int64_t side = host->image_size, most = host->image_channels * side * side;
    for (int b = 0; b < host->n_blocks; b++) {
        const EsHostBlock block = es_host_block(host, b);
        most = ES_MAX(most, block.n_channels * side * side);
        side = block.has_pool ? side / 2 : side;
    }
    return most;
}

// Images of a pass: of equal length, but for the last.
static int64_t pass_images(const EsGrowth *growth, int64_t n_images) {
    int64_t most = PASS_NUMBERS_MAX / widest_map(&growth->model.host);
    most = ES_MIN(ES_MAX(most, 1), PASS_IMAGES_MAX);
    int64_t n_passes = (n_images + most - 1) / most;
    return (n_images + n_passes - 1) / n_passes;
}

static EsStatus find_trial(EsGrowth *growth, const EsGrowthState *state, EsGrowthTrial *trial) {
    return es_growth_find_trial(growth, state, pass_images(growth, trial->n_images), trial);
}

// The trials of the step, in the order in which list_kernel lists them.
static EsStatus list_trials(EsGrowth *growth, const EsGrowthState *state) {
    EsPlannedStep *planned = growth->on_device->planned;
    const EsDataset *dataset = growth->model.dataset;
    es_lifecycle_list_ablations(state, &growth->options.settings, planned->lists);
    planned->n_trials = 0;
    for (int32_t e = 0; e < (int32_t)growth->options.n_envs; e++) {
        for (int32_t k = 0; k < es_ablation_count(&planned->lists[e]); k++) {
            EsGrowthTrial *trial = &planned->trials[planned->n_trials++];
            *trial = (EsGrowthTrial){.env = e,
                                     .pattern = k,
                                     .slots_off = es_ablation_slots_off(&planned->lists[e], k),
                                     .first_image = es_split_first(dataset, &dataset->validation),
                                     .n_images = growth->options.n_validation_images};
            ES_TRY(find_trial(growth, state, trial));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus find_training(EsGrowth *growth, const EsGrowthState *state) {
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        EsTopology topology = es_growth_topology(state, e);
        ES_TRY(es_growth_plans_find(growth->plans, &topology, growth->options.batch, 1,
                                    &growth->train_plans[e]));
        ES_TRY(es_plan_worker_reserve(runner_of(growth, e), growth->train_plans[e]->plan));
    }
    return ES_STATUS_OK;
}

static size_t held_bytes(const EsGrowth *growth) {
    size_t bytes = 0;
    for (int w = 0; w < growth->n_workers; w++) {
        bytes += es_plan_worker_held(growth->workers[w].runner);
    }
    return bytes;
}

// Notes one of the launches; returns whether it is another than before.
static int note_launch(EsTopology *launched, const EsTopology *topology) {
    int is_new = memcmp(launched, topology, sizeof *topology) != 0;
    *launched = *topology;
    return is_new;
}

// Forgets the captures of a step whose launches are others than in the step before.
static void forget_captures(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    EsPlannedStep *planned = d->planned;
    int64_t n_envs = growth->options.n_envs;
    size_t bytes = held_bytes(growth);
    int is_new = bytes != planned->launched_bytes || planned->n_trials != planned->n_launched;
    planned->launched_bytes = bytes;
    planned->n_launched = planned->n_trials;
    for (int64_t e = 0; e < n_envs; e++) {
        is_new |= note_launch(&planned->launched[e], &growth->train_plans[e]->topology);
    }
    for (int64_t i = 0; i < planned->n_trials; i++) {
        const EsGrowthTrial *trial = &planned->trials[i];
        is_new |= note_launch(&planned->launched[n_envs + i], &trial->plan->topology);
        is_new |= planned->launched_env[i] != trial->env;
        planned->launched_env[i] = trial->env;
    }
    for (int work = 0; is_new && work < ES_GROWTH_WORK_MEASURE; work++) {
        es_graph_capture_renew(&d->graph_captures[work]);
    }
}

static EsStatus begin_step(EsGrowth *growth) {
    EsGrowthState state;
    ES_TRY(es_growth_on_device_ahead(growth, &state));
    es_growth_plans_begin_step(growth->plans);
    ES_TRY(find_training(growth, &state));
    ES_TRY(list_trials(growth, &state));
    forget_captures(growth);
    return ES_STATUS_OK;
}

static EsStatus prepare_trial(EsGrowth *growth, EsGrowthTrial *trial) {
    EsGrowthState state;
    ES_TRY(es_growth_on_device_ahead(growth, &state));
    return find_trial(growth, &state, trial);
}

// --- side by side ---

// The workers of n hosts go on where growth's stream is now.
static EsStatus fork_streams(EsGrowth *growth, int64_t n) {
    EsPlannedStep *planned = growth->on_device->planned;
    ES_TRY(es_event_record(planned->begun, growth->stream));
    for (int w = 0; w < ES_MIN(n, growth->n_workers); w++) {
        ES_TRY(es_event_wait(planned->begun, planned->streams[w]));
    }
    return ES_STATUS_OK;
}

// And growth's stream goes on where all of them are done.
static EsStatus join_streams(EsGrowth *growth, int64_t n) {
    EsPlannedStep *planned = growth->on_device->planned;
    for (int w = 0; w < ES_MIN(n, growth->n_workers); w++) {
        ES_TRY(es_event_record(planned->done[w], planned->streams[w]));
        ES_TRY(es_event_wait(planned->done[w], growth->stream));
    }
    return ES_STATUS_OK;
}

// --- one host ---

// A number of a row in device memory, as an input or a result of one host.
static EsTensor number_at(const EsGrowth *growth, EsDtype dtype, void *data) {
    return es_tensor_view(data, dtype, growth->device, 1, (int64_t[]){1});
}

// Behaviour of the plan's slots, read from a row of the device's slots; losses and counts into
// place number `row` of the results.
static void bind_host(EsGrowth *growth, EsPlanWorker *runner, const EsGrowthPlan *plan,
                      EsFusedSlot *slots, const EsFusedResults *results, int64_t row) {
    for (int s = 0; s < growth->model.n_slots; s++) {
        if (plan->topology.blueprint[s] != ES_NO_SEED) {
            EsTensor alpha = number_at(growth, ES_DTYPE_F32, &slots[s].alpha);
            EsTensor mode = number_at(growth, ES_DTYPE_I32, &slots[s].mode);
            es_plan_worker_bind(runner, plan->graph.alpha[s], &alpha);
            es_plan_worker_bind(runner, plan->graph.mode[s], &mode);
        }
    }
    EsTensor loss = es_tensor_slice(&results->loss, 0, row, 1);
    EsTensor correct = es_tensor_slice(&results->n_correct, 0, row, 1);
    EsTensor invalid = es_tensor_slice(&results->n_invalid, 0, row, 1);
    es_plan_worker_place(runner, plan->graph.loss.loss, &loss);
    es_plan_worker_place(runner, plan->graph.loss.n_correct, &correct);
    es_plan_worker_place(runner, plan->graph.loss.n_invalid, &invalid);
}

static EsStatus train(EsGrowth *growth, const int32_t *step) {
    EsGrowthOnDevice *d = growth->on_device;
    EsTensor number = number_at(growth, ES_DTYPE_I32, (void *)(uintptr_t)step); // read only
    ES_TRY(fork_streams(growth, growth->options.n_envs));
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        const EsGrowthPlan *plan = growth->train_plans[e];
        EsPlanWorker *runner = runner_of(growth, e);
        es_plan_worker_begin(runner, plan->plan, e);
        bind_host(growth, runner, plan, d->arrays.train_slots + e * growth->model.n_slots,
                  &d->planned->trained, e);
        es_plan_worker_bind(runner, plan->graph.step, &number);
        es_plan_worker_run(runner);
    }
    return join_streams(growth, growth->options.n_envs);
}

// --- evaluation ---

// Trial number `row` on the images from first_image on, as many as the plan takes.
static void run_trial(EsGrowth *growth, const EsGrowthPlan *plan, int32_t env, int64_t row,
                      int64_t first_image) {
    EsGrowthOnDevice *d = growth->on_device;
    EsPlanWorker *runner = runner_of(growth, row);
    EsTensor index = es_tensor_view((int32_t *)d->planned->order.data + first_image, ES_DTYPE_I32,
                                    growth->device, 2, (int64_t[]){1, plan->batch});
    es_plan_worker_begin(runner, plan->plan, env);
    bind_host(growth, runner, plan, d->arrays.trial_slots + row * growth->model.n_slots,
              &d->planned->pass, row);
    es_plan_worker_bind(runner, plan->graph.index, &index);
    es_plan_worker_bind(runner, plan->graph.step, &d->planned->none);
    es_plan_worker_run(runner);
}

static EsStatus evaluate(EsGrowth *growth, const EsGrowthTrial *trials, int64_t n,
                         int64_t first_image, int64_t n_images) {
    EsPlannedStep *planned = growth->on_device->planned;
    int64_t batch = pass_images(growth, n_images);
    n = trials == NULL ? planned->n_trials : n;
    trials = trials == NULL ? planned->trials : trials;
    for (int64_t done = 0; done < n_images; done += batch) {
        int64_t n_pass = ES_MIN(batch, n_images - done);
        ES_TRY(fork_streams(growth, n));
        for (int64_t i = 0; i < n; i++) {
            run_trial(growth, n_pass == batch ? trials[i].plan : trials[i].rest, trials[i].env, i,
                      first_image + done);
        }
        ES_TRY(join_streams(growth, n));
        es_growth_cuda_add_pass(growth->stream, &planned->pass, &planned->evaluated, n, n_pass,
                                done > 0);
    }
    return ES_STATUS_OK;
}

// --- the executor ---

static EsFusedResults trained(const EsGrowth *growth) {
    return growth->on_device->planned->trained;
}

static EsFusedResults evaluated(const EsGrowth *growth) {
    return growth->on_device->planned->evaluated;
}

static size_t bytes(const EsGrowth *growth) { return held_bytes(growth); }

const EsGrowthExecutor *es_growth_executor_planned(void) {
    static const EsGrowthExecutor executor = {.name = "plans of single operations",
                                              .create = create,
                                              .destroy = destroy,
                                              .begin_step = begin_step,
                                              .train = train,
                                              .prepare_trial = prepare_trial,
                                              .evaluate = evaluate,
                                              .trained = trained,
                                              .evaluated = evaluated,
                                              .bytes = bytes};
    return &executor;
}
