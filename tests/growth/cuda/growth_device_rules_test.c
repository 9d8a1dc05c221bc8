// The kernels of growth against the CPU's loops, from equal state: everything they decide, every
// weight they make, and every SGD step from equal gradients, bit for bit; and float16's loss
// scales.
#include "es_test.h"

#include "growth/device_case.h"

enum { E = 12, STEPS = 14 };

static EsDataset dataset;

// Break a host now and then, so that it panics and rolls back.
static void break_host(EsGrowth *growth, int step) {
    if (step % 5 == 3) {
        slab_row(&growth->store->parameters, step % E)[1] = NAN;
    }
}

// Decisions, ticks, requests: fresh seeds and gates, snapshots, rollbacks.
TEST(a_decision_has_the_same_bits) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = stripes_options("r0c0,r0c1,r1c1", E);
    EsGrowth *there = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(there);
    EsGrowth *here = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(here, 7));
    REQUIRE_OK(es_growth_reset(there, 7));
    int64_t n_rollbacks = 0, n_germinated = 0;
    for (int step = 0; step < STEPS; step++) {
        EsAction actions[E];
        wild_actions(here, 21, actions);
        copy_growth(here, there);
        REQUIRE_OK(es_growth_decide(here, actions));
        REQUIRE_OK(es_growth_decide(there, actions));
        EXPECT(hash_state(here) == hash_state(there));
        EXPECT(hash_state(here) == hash_device_state(there));
        EXPECT(hash_slabs(here) == hash_slabs(there));
        break_host(here, step);
        REQUIRE_OK(es_growth_advance(here));
    }
    for (int e = 0; e < E; e++) {
        n_rollbacks += here->shown.state.env.n_rollbacks[e];
        n_germinated += here->shown.state.env.n_germinated[e];
    }
    EXPECT(n_rollbacks > 0 && n_germinated > E); // wild enough
    destroy_growth(here);
    destroy_growth(there);
    destroy_small_dataset(&dataset);
}

// Hosts and their running statistics as they start.
TEST(fresh_hosts_have_the_same_bits) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = stripes_options("r0c0,r1c1", E);
    EsGrowth *there = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(there);
    EsGrowth *here = create_growth(&options, &dataset, 1);
    for (int64_t first = 3; first < 3 + 2 * E; first += E) {
        for (int e = 0; e < E; e++) {
            here->episode_ids[e] = (int32_t)first + e;
        }
        REQUIRE_OK(es_growth_weights_reset(here));
        es_lifecycle_reset(&here->shown.state, &here->options.settings);
        es_growth_weights_update(here);
        REQUIRE_OK(es_growth_queue_reset(there, first));
        EXPECT(hash_slabs(here) == hash_slabs(there));
        EXPECT(hash_state(here) == hash_device_state(there));
    }
    destroy_growth(here);
    destroy_growth(there);
    destroy_small_dataset(&dataset);
}

// Copies the measurements of the CPU's step to the kernels.
static void put_measurements(const EsGrowth *from, EsGrowth *to) {
    const EsGrowthArrays *arrays = &to->on_device->arrays;
    size_t n = (size_t)from->options.n_envs, n_slots = (size_t)from->model.n_slots;
    put(to, arrays->loss_row, from->loss_row, sizeof(float) * n);
    put(to, arrays->accuracy_row, from->accuracy_row, sizeof(float) * n);
    put(to, arrays->accuracy, from->accuracy, sizeof(float) * n * ES_ABLATION_PATTERNS_MAX);
    put(to, arrays->host_sums, from->host_sums, sizeof *from->host_sums * n);
    put(to, arrays->seed_sums, from->seed_sums, sizeof *from->seed_sums * n * n_slots);
}

// Trials in the order of environments, each pattern once, as the CPU lists them.
static void expect_trials(const EsGrowth *here, const EsGrowth *there) {
    const EsGrowthArrays *arrays = &there->on_device->arrays;
    int32_t n = 0, env[E * ES_ABLATION_PATTERNS_MAX], off[E * ES_ABLATION_PATTERNS_MAX];
    EsFusedSlot slots[E * ES_ABLATION_PATTERNS_MAX][3];
    fetch(there, &n, arrays->n_trials, sizeof n);
    EXPECT_EQ(n, here->n_trials);
    fetch(there, env, arrays->trial_env, sizeof *env * (size_t)n);
    fetch(there, off, arrays->trial_off, sizeof *off * (size_t)n);
    fetch(there, slots, arrays->trial_slots, sizeof *slots * (size_t)n);
    for (int i = 0; i < n; i++) {
        const EsTopology *topology = &here->trials[i].plan->topology;
        EXPECT_EQ(env[i], here->trials[i].env);
        EXPECT_EQ(off[i], here->trials[i].slots_off);
        for (int s = 0; s < 3; s++) {
            int64_t at = env[i] * 3 + s;
            EXPECT_EQ(slots[i][s].blueprint, topology->blueprint[s]);
            EXPECT_EQ(slots[i][s].mode == ES_BLEND_NONE, topology->blueprint[s] == ES_NO_SEED);
            if (topology->blueprint[s] != ES_NO_SEED) {
                EXPECT_EQ(slots[i][s].mode, es_growth_blend_mode(here, env[i], s));
                EXPECT_EQ(slots[i][s].has_gate, topology->has_gate[s]);
                EXPECT(slots[i][s].alpha == here->shown.state.seed.alpha[at]);
            }
        }
    }
}

// Environments whose masks a budget of parameters narrows.
static int count_limited(const EsActionMasks *masks) {
    int n = 0;
    for (int e = 0; e < E; e++) {
        for (int s = 0; s < 3; s++) {
            n += masks[e].over_budget[s] != 0 && masks[e].gate_over_budget[s] != 0;
        }
    }
    return n;
}

// max_parameters 0: no budget
static void compare_judgements(int32_t max_parameters) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = stripes_options("r0c0,r0c1,r1c1", E);
    options.settings.max_parameters = max_parameters;
    EsGrowth *there = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(there);
    EsGrowth *here = create_growth(&options, &dataset, 1);
    const EsGrowthArrays *arrays = &there->on_device->arrays;
    REQUIRE_OK(es_growth_reset(here, 5));
    int n_most = 0, n_limited = 0;
    for (int step = 0; step < STEPS - 1; step++) {
        EsAction actions[E];
        EsActionMasks masks[E];
        EsAblation lists[E];
        wild_actions(here, 4, actions);
        REQUIRE_OK(es_growth_decide(here, actions));
        copy_growth(here, there);
        REQUIRE_OK(es_growth_advance(here));
        es_growth_cuda_list_trials(arrays, there->stream);
        expect_trials(here, there);
        put_measurements(here, there);
        es_growth_cuda_measure(arrays, there->stream);
        EXPECT(hash_state(here) == hash_device_state(there));
        fetch(there, masks, arrays->masks, sizeof masks);
        fetch(there, lists, arrays->ablations, sizeof lists);
        EXPECT(memcmp(masks, here->masks, sizeof masks) == 0);
        EXPECT(memcmp(lists, here->ablations, sizeof lists) == 0);
        n_most = ES_MAX(n_most, here->n_trials);
        n_limited += count_limited(masks);
    }
    EXPECT(max_parameters > 0 ? n_limited > E : n_limited == 0);
    EXPECT(n_most > (max_parameters > 0 ? E : 2 * E)); // several seeds were switched off
    destroy_growth(here);
    destroy_growth(there);
    destroy_small_dataset(&dataset);
}

TEST(a_judgement_has_the_same_bits) { compare_judgements(0); }

TEST(masks_under_a_budget_have_the_same_bits) { compare_judgements(900); }

// --- clipping and SGD ---

enum { U = 3, UPDATED_SLOTS = 3 };

// Weights, momenta and gradients of U environments, and what their slots hold.
typedef struct Update {
    EsGrowth *growth;
    int64_t width;
    size_t bytes;
    float *parameters, *momentum, *gradients; // owned [U, width]
    EsFusedSlot slots[U][UPDATED_SLOTS];
} Update;

static EsGrowth *create_updated(void) {
    EsDatasetOptions small = {.seed = 7, .n_train = 32, .n_validation = 8, .n_test = 8};
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_host_preset("cifar_baseline", &host)); // tensors of several pieces
    REQUIRE_OK(es_slots_parse(&host, "r0c0,r0c1,r0c2", slots, &n_slots));
    REQUIRE_OK(es_dataset_open(&dataset, host.dataset, &small, NULL));
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, U);
    options.batch = options.n_validation_images = 4;
    return create_on_cuda(options, &dataset);
}

// Elements [first, end) of an environment's gradients and momenta.
static void fill_stretch(Update *u, int env, int64_t first, int64_t end) {
    for (int64_t i = env * u->width + first; i < env * u->width + end; i++) {
        // one environment's are below the limit
        u->gradients[i] = (env == 1 ? 1e-4f : 1.0f) * small_draw((uint32_t)i);
        u->momentum[i] = 0.1f * small_draw((uint32_t)(i + 1000));
    }
}

static void fill_spans(Update *u, int env, const EsSpans *spans) {
    for (int k = 0; k < spans->n; k++) {
        fill_stretch(u, env, spans->offset[k], spans->offset[k] + spans->length[k]);
    }
}

// Seeds of two kinds and none; a gate in use at the middle slot. What lies between tensors is 0.
static void fill_update(Update *u) {
    static const int blueprint[U] = {ES_BLUEPRINT_CONV_HEAVY, ES_BLUEPRINT_BOTTLENECK, ES_NO_SEED};
    const EsGrowthModel *model = &u->growth->model;
    EsSpans spans;
    for (int e = 0; e < U; e++) {
        REQUIRE_OK(es_growth_host_spans(model, &spans));
        fill_spans(u, e, &spans);
        for (int s = 0; s < UPDATED_SLOTS; s++) {
            int kind = blueprint[(e + s) % U], is_empty = kind == ES_NO_SEED, is_gated = s == 1;
            u->slots[e][s] = (EsFusedSlot){kind,
                                           is_empty   ? ES_BLEND_NONE
                                           : is_gated ? ES_BLEND_GATE
                                                      : ES_BLEND_ADD,
                                           0.5f, is_gated};
            if (is_empty) {
                fill_stretch(u, e, model->layout.region[s], model->layout.region_end[s]);
                continue;
            }
            REQUIRE_OK(es_growth_gate_spans(model, s, &spans));
            fill_spans(u, e, &spans);
            REQUIRE_OK(es_growth_seed_spans(model, s, (EsBlueprint)kind, &spans));
            fill_spans(u, e, &spans);
        }
    }
}

static double sum_squares_of(const Update *u, int env, const EsSpans *spans) {
    const float *gradient = u->gradients + env * u->width;
    double sum = 0;
    for (int k = 0; k < spans->n; k++) {
        for (int64_t i = spans->offset[k]; i < spans->offset[k] + spans->length[k]; i++) {
            sum += (double)gradient[i] * (double)gradient[i];
        }
    }
    return sum;
}

// Clipped by the group's norm, then a step of SGD.
static void move_spans(Update *u, int env, const EsSpans *spans, double sum_squares,
                       float learning_rate, float decay) {
    float limit = u->growth->options.clip, keep = u->growth->options.recipe.momentum;
    float factor = limit / ((float)sqrt(sum_squares) + 1e-6f);
    factor = limit > 0 && factor < 1.0f ? factor : 1.0f;
    EXPECT_EQ(factor == 1.0f, env == 1);
    for (int k = 0; k < spans->n; k++) {
        int64_t first = env * u->width + spans->offset[k];
        for (int64_t i = first; i < first + spans->length[k]; i++) {
            float d = u->gradients[i] * factor + decay * u->parameters[i];
            u->momentum[i] = keep * u->momentum[i] + d;
            u->parameters[i] -= learning_rate * u->momentum[i];
        }
    }
}

// Double sums in another order may differ in their last bits: norms are what the device measured.
static void move_env(Update *u, int env, const EsGradientSums *host, const EsGradientSums *seeds) {
    const EsGrowthOptions *options = &u->growth->options;
    EsSpans spans, gate;
    REQUIRE_OK(es_growth_host_spans(&u->growth->model, &spans));
    EXPECT_NEAR(host->sum_squares, sum_squares_of(u, env, &spans), 1e-12 * host->sum_squares);
    EXPECT_EQ(host->n_tensors, spans.n);
    move_spans(u, env, &spans, host->sum_squares, options->host_learning_rate,
               options->recipe.weight_decay);
    for (int s = 0; s < UPDATED_SLOTS; s++) {
        const EsFusedSlot *slot = &u->slots[env][s];
        if (slot->blueprint == ES_NO_SEED) {
            EXPECT_EQ(seeds[s].n_tensors, 0);
            continue;
        }
        REQUIRE_OK(
            es_growth_seed_spans(&u->growth->model, s, (EsBlueprint)slot->blueprint, &spans));
        REQUIRE_OK(es_growth_gate_spans(&u->growth->model, s, &gate));
        gate.n = slot->mode == ES_BLEND_GATE ? gate.n : 0;
        double sum = sum_squares_of(u, env, &spans) + sum_squares_of(u, env, &gate);
        EXPECT_NEAR(seeds[s].sum_squares, sum, 1e-12 * sum);
        EXPECT_EQ(seeds[s].n_tensors, spans.n + gate.n);
        move_spans(u, env, &spans, seeds[s].sum_squares, options->seed_learning_rate, 0);
        move_spans(u, env, &gate, seeds[s].sum_squares, options->seed_learning_rate, 0);
    }
}

// Every weight and momentum has the bits of a plain loop, norms are right, and empty slots and
// gates that are not in use stay as they are.
TEST(an_update_has_the_bits_of_a_plain_loop) {
    Update u = {.growth = create_updated()};
    if (u.growth == NULL) {
        es_dataset_destroy(&dataset);
        SKIP("no CUDA device that runs this host");
    }
    EsGrowth *growth = u.growth;
    const EsGrowthArrays *arrays = &growth->on_device->arrays;
    REQUIRE_OK(es_growth_queue_reset(growth, 0));
    es_growth_cuda_begin_step(arrays, growth->stream);
    u.width = growth->store->gradients.dim[1];
    u.bytes = es_tensor_bytes(&growth->store->gradients);
    u.parameters = fetch_slab(growth, &growth->store->parameters);
    u.momentum = calloc(1, u.bytes);
    u.gradients = calloc(1, u.bytes);
    fill_update(&u);
    put(growth, arrays->gradients, u.gradients, u.bytes);
    put(growth, arrays->momentum, u.momentum, u.bytes);
    put(growth, arrays->train_slots, u.slots, sizeof u.slots);
    es_growth_cuda_update(arrays, arrays->batch_number, growth->stream, 1);
    EsGradientSums hosts[U], seeds[U][UPDATED_SLOTS];
    fetch(growth, hosts, arrays->host_sums, sizeof hosts);
    fetch(growth, seeds, arrays->seed_sums, sizeof seeds);
    for (int e = 0; e < U; e++) {
        move_env(&u, e, &hosts[e], seeds[e]);
    }
    float *parameters = fetch_slab(growth, &growth->store->parameters);
    float *momentum = fetch_slab(growth, &growth->momentum);
    EXPECT(memcmp(parameters, u.parameters, u.bytes) == 0);
    EXPECT(memcmp(momentum, u.momentum, u.bytes) == 0);
    void *const owned[] = {u.parameters, u.momentum, u.gradients, parameters, momentum};
    for (size_t i = 0; i < ES_COUNT_OF(owned); i++) {
        free(owned[i]);
    }
    destroy_growth(growth);
    es_dataset_destroy(&dataset);
}

// --- float16 ---

enum { F = 4 };

static void update_with(EsGrowth *growth, const float *gradients, const float *scales,
                        const int32_t *n_good) {
    const EsGrowthArrays *arrays = &growth->on_device->arrays;
    put(growth, arrays->gradients, gradients, es_tensor_bytes(&growth->store->gradients));
    put(growth, arrays->loss_scale, scales, sizeof(float) * F);
    put(growth, arrays->n_good, n_good, sizeof(int32_t) * F);
    es_growth_cuda_begin_step(arrays, growth->stream);
    es_growth_cuda_update(arrays, arrays->batch_number, growth->stream, 1);
}

TEST(loss_scales_follow_overflow) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = stripes_options("r0c0,r1c1", F);
    options.precision = ES_DTYPE_F16;
    EsGrowth *growth = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(growth);
    const EsGrowthArrays *arrays = &growth->on_device->arrays;
    REQUIRE_OK(es_growth_queue_reset(growth, 0));
    size_t bytes = es_tensor_bytes(&growth->store->gradients);
    int64_t width = growth->store->gradients.dim[1];
    float *gradients = calloc(1, bytes), *before = fetch_slab(growth, &growth->store->parameters);
    // 0: sound; 1: an infinity; 2: NaN at the lowest scale; 3: the last good step before doubling
    const float scales[F] = {1024.0f, 65536.0f, 1.0f, 16777216.0f};
    const int32_t n_good[F] = {7, 7, 7, 1999};
    for (int e = 0; e < F; e++) {
        gradients[e * width] = 0.25f * scales[e];
    }
    gradients[1 * width + 2] = INFINITY;
    gradients[2 * width + 2] = NAN;
    update_with(growth, gradients, scales, n_good);
    float scale[F], *after = fetch_slab(growth, &growth->store->parameters);
    int32_t good[F];
    EsGradientSums sums[F];
    fetch(growth, scale, arrays->loss_scale, sizeof scale);
    fetch(growth, good, arrays->n_good, sizeof good);
    fetch(growth, sums, arrays->host_sums, sizeof sums);
    EXPECT(scale[0] == 1024.0f && scale[1] == 32768.0f && scale[2] == 1.0f);
    EXPECT(scale[3] == 16777216.0f); // already the highest
    EXPECT(good[0] == 8 && good[1] == 0 && good[2] == 0 && good[3] == 0);
    for (int e = 0; e < F; e++) {
        int is_same =
            memcmp(before + e * width, after + e * width, sizeof(float) * (size_t)width) == 0;
        EXPECT_EQ(is_same, e == 1 || e == 2); // a step that overflowed is left out
    }
    // unscaled: 0.25 moves a parameter by rate (0.25 + decay p), whatever the scale
    float moved =
        before[0] - options.host_learning_rate * (0.25f + options.recipe.weight_decay * before[0]);
    EXPECT(after[0] == moved);
    EXPECT(sums[0].sum_squares == 0.0625);
    EXPECT_EQ(sums[1].n_tensors, 0);  // the scale was too high: nothing is known
    EXPECT(sums[2].n_exploding == 1); // it cannot fall: these are the gradients
    const float lower[F] = {512.0f, 512.0f, 512.0f, 512.0f};
    const int32_t late[F] = {1999, 1998, 0, 0};
    for (int e = 0; e < F; e++) {
        gradients[e * width + 2] = 0.0f;
    }
    update_with(growth, gradients, lower, late);
    fetch(growth, scale, arrays->loss_scale, sizeof scale);
    fetch(growth, good, arrays->n_good, sizeof good);
    EXPECT(scale[0] == 1024.0f && scale[1] == 512.0f);
    EXPECT(good[0] == 0 && good[1] == 1999);
    free(gradients);
    free(before);
    free(after);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}
