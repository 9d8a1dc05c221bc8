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
    EsGrowth *here = create_growth(&options, &dataset);
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
        n_rollbacks += here->state.env.n_rollbacks[e];
        n_germinated += here->state.env.n_germinated[e];
    }
    EXPECT(n_rollbacks > 0 && n_germinated > E); // wild enough
    es_growth_destroy(here);
    es_growth_destroy(there);
    destroy_small_dataset(&dataset);
}

// Hosts and their running statistics as they start.
TEST(fresh_hosts_have_the_same_bits) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = stripes_options("r0c0,r1c1", E);
    EsGrowth *there = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(there);
    EsGrowth *here = create_growth(&options, &dataset);
    for (int64_t first = 3; first < 3 + 2 * E; first += E) {
        for (int e = 0; e < E; e++) {
            here->episode_ids[e] = (int32_t)first + e;
        }
        REQUIRE_OK(es_growth_weights_reset(here));
        es_lifecycle_reset(&here->state, &here->options.settings);
        es_growth_weights_update(here);
        REQUIRE_OK(es_growth_queue_reset(there, first));
        EXPECT(hash_slabs(here) == hash_slabs(there));
        EXPECT(hash_state(here) == hash_device_state(there));
    }
    es_growth_destroy(here);
    es_growth_destroy(there);
    destroy_small_dataset(&dataset);
}

// What the CPU's step measured, given to the kernels.
static void put_measurements(const EsGrowth *from, EsGrowth *to) {
    const EsGrowthParts *parts = &to->on_device->parts;
    size_t n = (size_t)from->options.n_envs, n_slots = (size_t)from->model.n_slots;
    put(to, parts->loss_row, from->loss_row, sizeof(float) * n);
    put(to, parts->accuracy_row, from->accuracy_row, sizeof(float) * n);
    put(to, parts->accuracy, from->accuracy, sizeof(float) * n * ES_ABLATION_PATTERNS_MAX);
    put(to, parts->host_sums, from->host_sums, sizeof *from->host_sums * n);
    put(to, parts->seed_sums, from->seed_sums, sizeof *from->seed_sums * n * n_slots);
}

// Trials in the order of environments, each pattern once, as the CPU lists them.
static void expect_trials(const EsGrowth *here, const EsGrowth *there) {
    const EsGrowthParts *parts = &there->on_device->parts;
    int32_t n = 0, env[E * ES_ABLATION_PATTERNS_MAX], off[E * ES_ABLATION_PATTERNS_MAX];
    EsFusedSlot slots[E * ES_ABLATION_PATTERNS_MAX][3];
    fetch(there, &n, parts->n_trials, sizeof n);
    EXPECT_EQ(n, here->n_trials);
    fetch(there, env, parts->trial_env, sizeof *env * (size_t)n);
    fetch(there, off, parts->trial_off, sizeof *off * (size_t)n);
    fetch(there, slots, parts->trial_slots, sizeof *slots * (size_t)n);
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
                EXPECT(slots[i][s].alpha == here->state.seed.alpha[at]);
            }
        }
    }
}

TEST(a_judgement_has_the_same_bits) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = stripes_options("r0c0,r0c1,r1c1", E);
    EsGrowth *there = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(there);
    EsGrowth *here = create_growth(&options, &dataset);
    const EsGrowthParts *parts = &there->on_device->parts;
    REQUIRE_OK(es_growth_reset(here, 5));
    int n_most = 0;
    for (int step = 0; step < STEPS - 1; step++) {
        EsAction actions[E];
        EsActionMasks masks[E];
        EsAblation lists[E];
        wild_actions(here, 4, actions);
        REQUIRE_OK(es_growth_decide(here, actions));
        copy_growth(here, there);
        REQUIRE_OK(es_growth_advance(here));
        es_growth_cuda_list_trials(parts, there->stream);
        expect_trials(here, there);
        put_measurements(here, there);
        es_growth_cuda_judge(parts, there->stream);
        EXPECT(hash_state(here) == hash_device_state(there));
        fetch(there, masks, parts->masks, sizeof masks);
        fetch(there, lists, parts->ablations, sizeof lists);
        EXPECT(memcmp(masks, here->masks, sizeof masks) == 0);
        EXPECT(memcmp(lists, here->ablations, sizeof lists) == 0);
        n_most = ES_MAX(n_most, here->n_trials);
    }
    EXPECT(n_most > 2 * E); // several seeds were switched off
    es_growth_destroy(here);
    es_growth_destroy(there);
    destroy_small_dataset(&dataset);
}

// --- float16 ---

enum { F = 4 };

static void update_with(EsGrowth *growth, const float *gradients, const float *scales,
                        const int32_t *n_good) {
    const EsGrowthParts *parts = &growth->on_device->parts;
    put(growth, parts->gradients, gradients, es_tensor_bytes(&growth->store->gradients));
    put(growth, parts->loss_scale, scales, sizeof(float) * F);
    put(growth, parts->n_good, n_good, sizeof(int32_t) * F);
    es_growth_cuda_begin_step(parts, growth->stream);
    es_growth_cuda_update(parts, growth->stream, 1);
}

TEST(loss_scales_follow_overflow) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = stripes_options("r0c0,r1c1", F);
    options.precision = ES_DTYPE_F16;
    EsGrowth *growth = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(growth);
    const EsGrowthParts *parts = &growth->on_device->parts;
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
    fetch(growth, scale, parts->loss_scale, sizeof scale);
    fetch(growth, good, parts->n_good, sizeof good);
    fetch(growth, sums, parts->host_sums, sizeof sums);
    EXPECT(scale[0] == 1024.0f && scale[1] == 32768.0f && scale[2] == 1.0f);
    EXPECT(scale[3] == 16777216.0f); // already the highest
    EXPECT(good[0] == 8 && good[1] == 0 && good[2] == 0 && good[3] == 0);
    for (int e = 0; e < F; e++) {
        int is_same =
            memcmp(before + e * width, after + e * width, sizeof(float) * (size_t)width) == 0;
        EXPECT_EQ(is_same, e == 1 || e == 2); // a step that overflowed is left out
    }
    // unscaled: 0.25 moves a parameter by rate (0.25 + decay p), whatever the scale
    float moved = before[0] - options.host_rate * (0.25f + options.host_decay * before[0]);
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
    fetch(growth, scale, parts->loss_scale, sizeof scale);
    fetch(growth, good, parts->n_good, sizeof good);
    EXPECT(scale[0] == 1024.0f && scale[1] == 512.0f);
    EXPECT(good[0] == 0 && good[1] == 1999);
    free(gradients);
    free(before);
    free(after);
    es_growth_destroy(growth);
    destroy_small_dataset(&dataset);
}
