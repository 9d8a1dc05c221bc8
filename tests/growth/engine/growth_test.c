// Growth as a whole: hosts with seeds trained for real, on a small generated data set.
#include "growth/engine/growth.h"

#include <stdatomic.h>

#include "es_test.h"
#include "growth/growth_with_device.h"
#include "growth/rules/growth_names.h"

static EsDataset dataset;

static EsGrowthOptions make_options(const char *slot_names, int64_t n_envs) {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_host_preset("tiny", &host));
    REQUIRE_OK(es_slots_parse(&host, slot_names, slots, &n_slots));
    if (dataset.images == NULL) {
        EsDatasetOptions wanted = {.seed = 3, .n_train = 640, .n_validation = 300, .n_test = 20};
        REQUIRE_OK(es_dataset_open(&dataset, "tiny", &wanted, NULL));
    }
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, n_envs);
    options.batch = 32;
    options.step_batches = 2;
    options.n_validation_images = 300; // a whole batch and a rest
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.settings.episode_steps = 14;
    return options;
}

static EsAction wait_action(void) {
    EsAction action;
    for (int head = 0; head < ES_N_HEADS; head++) {
        action.head[head] = (int8_t)es_head_placeholder(head);
    }
    return action;
}

static EsAction act(int op, int slot) {
    EsAction action = wait_action();
    action.head[ES_HEAD_OP] = (int8_t)op;
    action.head[ES_HEAD_SLOT] = (int8_t)slot;
    return action;
}

static EsAction germinate(int slot, int blueprint, int style) {
    EsAction action = act(ES_GROWTH_OP_GERMINATE, slot);
    action.head[ES_HEAD_BLUEPRINT] = (int8_t)blueprint;
    action.head[ES_HEAD_STYLE] = (int8_t)style;
    action.head[ES_HEAD_TEMPO] = 1;
    return action;
}

static int stage_of(const EsGrowth *growth, int64_t env, int slot) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    return state->seed.stage[env * state->n_slots + slot];
}

// A policy that is different in every environment and tries everything: a hash of (env, step).
static EsAction wild_action(const EsGrowth *growth, int64_t env, uint64_t salt) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    uint64_t h = (uint64_t)state->env.step[env] * 0x9E3779B97F4A7C15u + (uint64_t)env * 77 + salt;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    h ^= h >> 32;
    EsAction action = wait_action();
    for (int head = 0; head < ES_N_HEADS; head++) {
        int size = es_head_size(head, state->n_slots);
        action.head[head] = (int8_t)((h >> (6 * head)) % (uint64_t)size);
    }
    action.head[ES_HEAD_BLUEPRINT] = (int8_t)(1 + (h >> 50) % 7);
    int germinated = h % 3 != 0;
    action.head[ES_HEAD_OP] =
        (int8_t)(germinated ? ES_GROWTH_OP_GERMINATE : (int)((h >> 40) % ES_N_GROWTH_OPS));
    return action;
}

static void run_wild(EsGrowth *growth, uint64_t salt, int64_t n_envs) {
    EsAction actions[64];
    REQUIRE_OK(es_growth_reset(growth, 100));
    while (!es_growth_is_over(growth)) {
        for (int64_t e = 0; e < n_envs; e++) {
            actions[e] = wild_action(growth, e, salt);
        }
        REQUIRE_OK(es_growth_step(growth, actions));
    }
}

static uint64_t hash_bytes(const void *data, size_t bytes, uint64_t hash) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * 1099511628211u;
    }
    return hash;
}

// Weights, statistics and lifecycle of one environment.
static uint64_t hash_env(EsGrowth *growth, int64_t env) {
    const EsStore *store = es_growth_store(growth);
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    const EsTensor *slabs[] = {&store->parameters, &store->states};
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < 2; i++) {
        hash = hash_bytes((const float *)slabs[i]->data + env * slabs[i]->stride[0],
                          (size_t)slabs[i]->dim[1] * sizeof(float), hash);
    }
    for (int s = 0; s < state->n_slots; s++) {
        EsSeed seed = es_seed_load(&state->seed, (size_t)(env * state->n_slots + s));
        hash = hash_bytes(&seed, sizeof seed, hash);
    }
    EsGrowthEnv whole = es_growth_env_load(&state->env, (size_t)env);
    return hash_bytes(&whole, sizeof whole, hash);
}

// --- a seed's life ---

TEST(a_seed_lives_by_the_timetable) {
    EsGrowthOptions options = make_options("r0c1", 2);
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    EsAction actions[2] = {germinate(0, ES_BLUEPRINT_ID_CONV_LIGHT, ES_STYLE_LINEAR_ADD),
                           wait_action()};
    REQUIRE_OK(es_growth_reset(growth, 0));
    // tiny: dwell 3, tempo 2: TRAINING from tick 1, BLENDING at 4, HOLDING at 5, fossil from 6
    const int stages[] = {ES_STAGE_TRAINING, ES_STAGE_TRAINING, ES_STAGE_TRAINING,
                          ES_STAGE_BLENDING, ES_STAGE_HOLDING,  ES_STAGE_FOSSILIZED};
    for (int step = 0; step < 6; step++) {
        if (step == 5) {
            actions[0] = act(ES_GROWTH_OP_FOSSILIZE, 0);
        }
        const EsGrowthSnapshot *shown = es_growth_snapshot(growth);
        EXPECT(shown->step == step + 1 && shown->moment == ES_GROWTH_MEASURED);
        REQUIRE_OK(es_growth_decide(growth, actions));
        EXPECT(shown->step == step + 1 && shown->moment == ES_GROWTH_DECIDED);
        REQUIRE_OK(es_growth_advance(growth));
        EXPECT_TEXT(es_stage_name(stage_of(growth, 0, 0)), es_stage_name(stages[step]));
        EXPECT_EQ(stage_of(growth, 1, 0), ES_STAGE_DORMANT);
        actions[0] = wait_action();
    }
    EXPECT(es_growth_parameter_ratio(growth, 0) > 2);
    EXPECT(es_growth_parameter_ratio(growth, 1) == 1);
    EXPECT_EQ(es_growth_plans(growth).n_plain, 0); // the vector engine runs all of it
    destroy_growth(growth);
}

// An incubating seed learns and does not disturb its host: the host's bits are those of a host that
// has none. The slots lie behind the pools; one before a pool opens a block that the vector engine
// fuses otherwise, and then sums are rounded in another order.
TEST(incubation_leaves_the_host_alone) {
    EsGrowthOptions options = make_options("r1c0,r1c1", 2);
    options.settings.training_dwell = 100;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    EsAction actions[2] = {germinate(0, ES_BLUEPRINT_ID_CONV_LIGHT, ES_STYLE_LINEAR_ADD),
                           wait_action()};
    REQUIRE_OK(es_growth_reset(growth, 0));
    const EsStore *store = es_growth_store(growth);
    const EsGrowthLayout *layout = &es_growth_model(growth)->layout;
    REQUIRE_OK(es_growth_step(growth, actions));
    size_t seed_bytes = (size_t)(layout->region_end[0] - layout->seed[0]) * sizeof(float);
    const float *seed = (const float *)store->parameters.data + layout->seed[0];
    uint64_t before = hash_bytes(seed, seed_bytes, 0);
    actions[0] = wait_action();
    for (int step = 0; step < 4; step++) {
        REQUIRE_OK(es_growth_step(growth, actions));
    }
    EXPECT_EQ(stage_of(growth, 0, 0), ES_STAGE_TRAINING);
    EXPECT(hash_bytes(seed, seed_bytes, 0) != before);

    EsGrowth *bare = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(bare, 0));
    actions[0] = wait_action();
    for (int step = 0; step < 5; step++) {
        REQUIRE_OK(es_growth_step(bare, actions));
    }
    size_t host_bytes = (size_t)layout->n_host_parameters * sizeof(float);
    EXPECT(memcmp(store->parameters.data, es_growth_store(bare)->parameters.data, host_bytes) == 0);
    destroy_growth(bare);
    destroy_growth(growth);
}

// Squeeze-excite on four channels has a single hidden unit; it must not be born dead.
TEST(attention_seeds_are_born_alive) {
    enum { N = 24 };
    EsGrowthOptions options = make_options("r0c0", N);
    EsGrowth *growth = create_growth(&options, &dataset, 2);
    EsAction actions[N];
    REQUIRE_OK(es_growth_reset(growth, 0));
    for (int step = 0; step < 5; step++) {
        for (int e = 0; e < N; e++) {
            actions[e] = step == 0 ? germinate(0, ES_BLUEPRINT_ID_ATTENTION, ES_STYLE_LINEAR_ADD)
                                   : wait_action();
        }
        REQUIRE_OK(es_growth_step(growth, actions));
    }
    int n_blended = 0;
    for (int e = 0; e < N; e++) {
        n_blended += es_stage_in(stage_of(growth, e, 0), ES_STAGES_BLENDED);
    }
    EXPECT_EQ(n_blended, N);
    destroy_growth(growth);
}

// --- sameness ---

TEST(threads_do_not_change_bits) {
    enum { N = 5, MOST = 6 }; // alone, in turns, and one after the other on all threads
    uint64_t hashes[MOST][N];
    for (int n_threads = 1; n_threads <= MOST; n_threads++) {
        EsGrowthOptions options = make_options("r0c0,r0c1,r1c1", N);
        EsGrowth *growth = create_growth(&options, &dataset, n_threads);
        run_wild(growth, 5, N);
        int n_germinated = 0;
        for (int64_t e = 0; e < N; e++) {
            hashes[n_threads - 1][e] = hash_env(growth, e);
            n_germinated += es_growth_snapshot(growth)->state.env.n_germinated[e];
        }
        EXPECT(n_germinated > N);
        destroy_growth(growth);
    }
    for (int e = 0; e < N; e++) {
        for (int i = 1; i < MOST; i++) {
            EXPECT(hashes[0][e] == hashes[i][e]);
        }
    }
}

TEST(an_environment_does_not_depend_on_the_others) {
    EsGrowthOptions many = make_options("r0c0,r1c1", 5), few = make_options("r0c0,r1c1", 2);
    EsGrowth *a = create_growth(&many, &dataset, 2), *b = create_growth(&few, &dataset, 1);
    run_wild(a, 9, 5);
    run_wild(b, 9, 2);
    EXPECT(hash_env(a, 0) == hash_env(b, 0));
    EXPECT(hash_env(a, 1) == hash_env(b, 1));
    destroy_growth(a);
    destroy_growth(b);
}

TEST(same_seed_same_bits_another_seed_others) {
    uint64_t hashes[3];
    for (int i = 0; i < 3; i++) {
        EsGrowthOptions options = make_options("r0c1", 2);
        options.seed = i < 2 ? 1 : 2;
        EsGrowth *growth = create_growth(&options, &dataset, 2);
        run_wild(growth, 1, 2);
        hashes[i] = hash_env(growth, 1);
        destroy_growth(growth);
    }
    EXPECT(hashes[0] == hashes[1]);
    EXPECT(hashes[0] != hashes[2]);
}

// A second episode on the same object is that of a fresh one.
TEST(reset_leaves_nothing_behind) {
    EsGrowthOptions options = make_options("r0c0,r0c1", 3);
    EsGrowth *used = create_growth(&options, &dataset, 1),
             *fresh = create_growth(&options, &dataset, 1);
    run_wild(used, 3, 3);
    run_wild(used, 4, 3);
    run_wild(fresh, 4, 3);
    for (int64_t e = 0; e < 3; e++) {
        EXPECT(hash_env(used, e) == hash_env(fresh, e));
    }
    destroy_growth(used);
    destroy_growth(fresh);
}

// Plans operation by operation give the same growth within rounding.
TEST(unfused_growth_is_near) {
    EsGrowthOptions options = make_options("r0c1", 1);
    options.settings.episode_steps = 6;
    EsGrowth *fused = create_growth(&options, &dataset, 1);
    options.mode = ES_COMPILE_OFF;
    EsGrowth *unfused = create_growth(&options, &dataset, 1);
    EsAction action = germinate(0, ES_BLUEPRINT_ID_NORM, ES_STYLE_LINEAR_ADD);
    REQUIRE_OK(es_growth_reset(fused, 0));
    REQUIRE_OK(es_growth_reset(unfused, 0));
    while (!es_growth_is_over(fused)) {
        EXPECT_NEAR(es_growth_results(fused)[0].train_loss,
                    es_growth_results(unfused)[0].train_loss, 1e-4);
        EXPECT_NEAR(es_growth_results(fused)[0].validation_loss,
                    es_growth_results(unfused)[0].validation_loss, 1e-4);
        REQUIRE_OK(es_growth_step(fused, &action));
        REQUIRE_OK(es_growth_step(unfused, &action));
        action = wait_action();
    }
    EXPECT(es_growth_plans(unfused).n_plain > 0);
    destroy_growth(fused);
    destroy_growth(unfused);
}

// --- attribution ---

// Values of all seeds add up to what they bring together, whatever the number of seeds; above four
// they are sampled and have errors.
TEST(shapley_values_add_up) {
    EsGrowthOptions options = make_options("r0c0", 1);
    options.host.n_blocks = options.host.n_pools = 3;
    REQUIRE_OK(es_slots_parse(&options.host, "all", options.slots, &options.n_slots));
    options.settings = es_growth_settings_tiny(options.n_slots, 10);
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.settings.episode_steps = 60;
    options.host_learning_rate = options.seed_learning_rate = 0.05f;
    EsGrowth *growth = create_growth(&options, &dataset, 2);
    REQUIRE_OK(es_growth_reset(growth, 0));
    int n_sampled = 0, n_exact = 0;
    while (!es_growth_is_over(growth)) {
        int step = es_growth_snapshot(growth)->state.env.step[0];
        EsAction action = wait_action();
        if (step % 8 == 1 && step / 8 < options.n_slots) {
            action = germinate(step / 8, ES_BLUEPRINT_ID_CONV_SMALL, ES_STYLE_LINEAR_ADD);
        }
        const EsAblation *list = &es_growth_ablations(growth)[0];
        if (list->n > 0 && step % 8 == 0) {
            const float *accuracy = es_growth_ablation_accuracy(growth);
            double together = (double)accuracy[0] - (double)accuracy[es_ablation_count(list) - 1];
            double sum = 0, errors = 0;
            REQUIRE_OK(es_growth_attribute(growth));
            for (int s = 0; s < options.n_slots; s++) {
                double value = es_growth_shapley(growth)[s];
                sum += isnan(value) ? 0 : value;
                errors += isnan(value) ? 0 : es_growth_shapley_error(growth)[s];
            }
            EXPECT_NEAR(sum, together, 1e-4); // accuracies are float32 percent
            n_exact += list->n <= 4 && errors == 0;
            n_sampled += list->n > 4 && errors > 0;
        }
        REQUIRE_OK(es_growth_step(growth, &action));
    }
    EXPECT(n_exact >= 3);
    EXPECT(n_sampled >= 1);
    destroy_growth(growth);
}

// --- rails ---

// A host blown up on purpose goes on from its snapshot, and its seeds are gone. That the weights
// are restored bit for bit is tested in growth_governor_test.c.
TEST(a_broken_host_goes_back) {
    EsGrowthOptions options = make_options("r0c1", 2);
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    EsAction actions[2] = {wait_action(), wait_action()};
    REQUIRE_OK(es_growth_reset(growth, 0));
    EsStore *store = es_growth_store(growth);
    float *row = store->parameters.data;
    for (int step = 1; step < 5; step++) {
        REQUIRE_OK(es_growth_step(growth, actions));
    }
    actions[0] = germinate(0, ES_BLUEPRINT_ID_CONV_SMALL, ES_STYLE_LINEAR_ADD);
    REQUIRE_OK(es_growth_step(growth, actions));
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.snapshot_step[0], 5);
    actions[0] = wait_action();
    row[3] = NAN;
    REQUIRE_OK(es_growth_step(growth, actions)); // trains on it and sees the loss
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.panic[0], ES_PANIC_NAN);
    REQUIRE_OK(es_growth_step(growth, actions));
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.n_rollbacks[0], 1);
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.n_rollbacks[1], 0);
    EXPECT(!es_stage_in(stage_of(growth, 0, 0), ES_STAGES_LIVING));
    EXPECT(isfinite(es_growth_results(growth)[0].validation_loss));
    destroy_growth(growth);
}

// --- stopping in the midst of a step ---

typedef struct Stop {
    atomic_int n_batches, n_left; // trained; 0: stop, below 0: never
} Stop;

static int count_batch(void *context) {
    Stop *stop = context;
    atomic_fetch_add(&stop->n_batches, 1);
    return atomic_fetch_sub(&stop->n_left, 1) == 1;
}

TEST(training_stops_after_the_batch_that_is_asked) {
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        Stop stop = {.n_left = -1};
        EsGrowthOptions options = make_options("r0c0", 2);
        options.step_batches = 20;
        options.is_stopped = count_batch;
        options.context = &stop;
        EsGrowth *growth = create_growth(&options, &dataset, n_threads);
        REQUIRE_OK(es_growth_reset(growth, 0));
        EXPECT_EQ(atomic_load(&stop.n_batches), 2 * 20);
        EsAction actions[2] = {wait_action(), wait_action()};
        REQUIRE_OK(es_growth_decide(growth, actions));
        atomic_store(&stop.n_batches, 0);
        atomic_store(&stop.n_left, 3);
        EXPECT_STATUS(es_growth_advance(growth), INTERRUPTED);
        // another thread may be in the midst of a batch
        EXPECT(atomic_load(&stop.n_batches) <= 3 + n_threads - 1);
        // a new episode is as good as any
        atomic_store(&stop.n_left, -1);
        EXPECT_STATUS(es_growth_reset(growth, 0), OK);
        destroy_growth(growth);
    }
}

TEST(nothing_is_allocated_once_plans_exist) {
    EsGrowthOptions options = make_options("r0c0,r0c1", 3);
    EsGrowth *growth = create_growth(&options, &dataset, 2);
    run_wild(growth, 6, 3);
    const EsDevice *device = es_growth_store(growth)->device;
    int64_t n_allocations = es_device_counters(device).n_allocations;
    int64_t n_builds = es_growth_plans(growth).n_builds;
    run_wild(growth, 6, 3);
    EXPECT_EQ(es_device_counters(device).n_allocations, n_allocations);
    EXPECT_EQ(es_growth_plans(growth).n_builds, n_builds);
    destroy_growth(growth);
}

TEST(bad_input_is_refused) {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_host_preset("tiny", &host));
    EXPECT_STATUS(es_slots_parse(&host, "r0c7", slots, &n_slots), ARGUMENT);
    EXPECT_TEXT(es_status_detail(),
                "host \"tiny\" has no slot \"r0c7\"; it has r0c0, r0c1, r1c0, r1c1");
    EXPECT_STATUS(es_slots_parse(&host, "r0c0,r0c0", slots, &n_slots), ARGUMENT);
    EXPECT_STATUS(es_slots_parse(&host, "", slots, &n_slots), ARGUMENT);
    EXPECT_STATUS(es_slots_parse(&host, "early", slots, &n_slots), ARGUMENT);
    EsGrowthOptions options = make_options("r0c1", 2);
    EsGrowth *growth = NULL;
    options.batch = 100000;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options, &dataset, &growth), ARGUMENT);
    options = make_options("r0c1", 2);
    options.n_validation_images = 301;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options, &dataset, &growth), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "301 validation images are asked for, the data set has 300");
    options = make_options("r0c1", 2);
    options.host.image_size = 32;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options, &dataset, &growth), INPUT);
}
