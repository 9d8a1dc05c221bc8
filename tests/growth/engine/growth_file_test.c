// An episode that is saved, loaded into another growth and gone on with: the same bits, and the
// same for environments that move to a smaller growth. Files that do not fit, or whose numbers make
// no sense, are refused and change nothing.
#include "es_test.h"

#include "growth/growing_case.h"
#include "temp_folder.h"
#include "tensor/safetensors.h"

enum { N_ENVS = 3, N_STEPS = 14 };

static EsDataset dataset;

static EsGrowthOptions make_options(const char *slot_names) {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_host_preset("tiny", &host));
    REQUIRE_OK(es_slots_parse(&host, slot_names, slots, &n_slots));
    if (dataset.images == NULL) {
        EsDatasetOptions wanted = {.seed = 3, .n_train = 640, .n_validation = 300, .n_test = 20};
        REQUIRE_OK(es_dataset_open(&dataset, "tiny", &wanted, NULL));
    }
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, N_ENVS);
    options.batch = 32;
    options.step_batches = 2;
    options.n_validation_images = 300;
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.settings.episode_steps = N_STEPS;
    options.recipe.decay = ES_DECAY_COSINE;
    options.recipe.nesterov = 1;
    return options;
}

// Seeds of several blueprints, one with a gate, at different steps; one is pruned. They follow from
// the episode, so that an environment does the same wherever it is.
static void decide(EsGrowth *growth) {
    EsAction actions[N_ENVS];
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    int step = state->env.step[0];
    for (int i = 0; i < (int)state->n_envs; i++) {
        int e = (int)(es_growth_episode(growth, i) % N_ENVS);
        actions[i] = es_action_wait();
        if (step == 1 + e || step == 4 + e) {
            actions[i].head[ES_HEAD_OP] = ES_GROWTH_OP_GERMINATE;
            actions[i].head[ES_HEAD_SLOT] = (int8_t)(step == 4 + e);
            actions[i].head[ES_HEAD_BLUEPRINT] = (int8_t)(1 + 2 * e);
            actions[i].head[ES_HEAD_STYLE] = (int8_t)(e == 1 ? 3 : e);
        } else if (step == 9 && e == 2) {
            actions[i].head[ES_HEAD_OP] = ES_GROWTH_OP_PRUNE;
        }
    }
    REQUIRE_OK(es_growth_decide(growth, actions));
}

static uint64_t hash_of(EsGrowth *growth) {
    EsStateHash *hash = NULL;
    REQUIRE_OK(es_state_hash_create(es_growth_store(growth)->device, N_ENVS, &hash));
    es_state_hash_begin(hash);
    REQUIRE_OK(es_growth_append_state(growth, hash));
    uint64_t value = es_state_hash_value(hash);
    es_state_hash_destroy(hash);
    return value;
}

// Steps from wherever the episode stands, up to and including the decision of `last`.
static void run_to(EsGrowth *growth, int last) {
    while (es_growth_snapshot(growth)->state.env.step[0] <= last) {
        REQUIRE_OK(es_growth_advance(growth));
        decide(growth);
    }
}

static void check_episode(float average, EsRecipeOptimiser optimiser) {
    EsGrowthOptions options = make_options("r0c0,r0c1");
    options.recipe.average = average;
    options.recipe.optimiser = (int)optimiser;
    EsGrowth *whole = create_growth(&options, &dataset, 2);
    REQUIRE_OK(es_growth_reset(whole, 7));
    decide(whole);
    for (int last = 1; last < N_STEPS; last += 3) {
        run_to(whole, last);
        REQUIRE_OK(es_growth_save(whole, temp_path("a.safetensors")));
        EsGrowth *loaded = create_growth(&options, &dataset, 1);
        REQUIRE_OK(es_growth_load(loaded, temp_path("a.safetensors")));
        EXPECT(hash_of(loaded) == hash_of(whole));
        EXPECT_EQ(es_growth_snapshot(loaded)->step, es_growth_snapshot(whole)->step);
        run_to(loaded, ES_MIN(last + 2, N_STEPS));
        run_to(whole, ES_MIN(last + 2, N_STEPS));
        EXPECT(hash_of(loaded) == hash_of(whole));
        destroy_growth(loaded);
    }
    destroy_growth(whole);
}

TEST(a_loaded_episode_goes_on_with_the_same_bits) { check_episode(0, ES_RECIPE_SGD); }

TEST(a_loaded_episode_has_its_averages) { check_episode(0.9f, ES_RECIPE_SGD); }

TEST(a_loaded_episode_has_its_moments) { check_episode(0, ES_RECIPE_ADAMW); }

// --- environments that move ---

// Two of three environments, out of order, go on as they do where they were.
static void check_move(float average, const int64_t *envs, int64_t n) {
    EsGrowthOptions options = make_options("r0c0,r0c1"), fewer = options;
    options.recipe.average = fewer.recipe.average = average;
    fewer.n_envs = n;
    for (int last = 1; last < N_STEPS; last += 4) {
        EsGrowth *whole = create_growth(&options, &dataset, 2);
        EsGrowth *part = create_growth(&fewer, &dataset, 1);
        REQUIRE_OK(es_growth_reset(whole, 6));
        decide(whole);
        run_to(whole, last);
        REQUIRE_OK(es_growth_take_envs(part, whole, envs));
        EXPECT_EQ(es_growth_snapshot(part)->step, es_growth_snapshot(whole)->step);
        EXPECT_EQ(es_growth_snapshot(part)->moment, ES_GROWTH_DECIDED);
        run_to(whole, N_STEPS);
        run_to(part, N_STEPS);
        for (int64_t i = 0; i < n; i++) {
            EXPECT_EQ(es_growth_episode(part, i), 6 + envs[i]);
            EXPECT(hash_env(part, i) == hash_env(whole, envs[i]));
            EXPECT_EQ(es_growth_parameter_count(part, i),
                      es_growth_parameter_count(whole, envs[i]));
        }
        destroy_growth(part);
        destroy_growth(whole);
    }
}

TEST(moved_environments_go_on_with_the_same_bits) {
    check_move(0, (int64_t[]){2, 0}, 2);
    check_move(0, (int64_t[]){1}, 1);
}

TEST(moved_environments_have_their_averages) { check_move(0.9f, (int64_t[]){1, 2}, 2); }

// --- files that are refused ---

// A copy of the file with one number replaced; its hash fits.
static void replace(const char *name, int64_t index, int32_t bits) {
    enum { MOST = 256 };
    EsNamedTensor tensors[MOST];
    EsSafetensors *file = NULL;
    EsMetadata metadata[] = {{"format", "esper.growth.1"}, ES_TENSORS_HASH_ENTRY};
    REQUIRE_OK(es_safetensors_open(temp_path("a.safetensors"), &file));
    int n = es_safetensors_count(file), n_found = 0;
    ES_ASSERT(n <= MOST);
    for (int i = 0; i < n; i++) {
        tensors[i] = es_safetensors_at(file, i);
        if (strcmp(tensors[i].name, name) == 0) {
            memcpy((char *)tensors[i].tensor.data + 4 * index, &bits, 4);
            n_found++;
        }
    }
    EXPECT_EQ(n_found, 1);
    REQUIRE_OK(es_safetensors_save(temp_path("b.safetensors"), tensors, n, metadata, 2));
    es_safetensors_close(file);
}

TEST(numbers_that_make_no_sense_are_refused) {
    static const struct {
        const char *name;
        int64_t index;
        int32_t bits;
        const char *message;
    } cases[] = {
        {"seed.stage", 1, 99, "seed.stage[1] is 99"},
        {"seed.blueprint", 0, 8, "seed.blueprint[0] is 8"},
        {"seed.blueprint", 0, -1, "seed.blueprint[0] is -1"}, // of a seed that lives
        {"seed.alpha", 2, 0x7FC00000, "seed.alpha[2] is nan"},
        {"seed.alpha_curve", 0, 4, "seed.alpha_curve[0] is 4"},
        {"env.step", 1, 3, "env.step[1] is 3"}, // the others are further on
        {"env.step", 0, 1 << 20, "env.step[0] is 1048576"},
        {"env.next_governed", 2, 1000, "env.next_governed[2] is 1000"},
        {"env.n_tracked", 0, -2, "env.n_tracked[0] is -2"},
        {"episode", 0, -1, "episode[0] is -1"},
        {"average_updates", 4, -1, "average_updates[4] is -1"},
        {"adam_steps", 0, -1, "adam_steps[0] is -1"},
    };
    EsGrowthOptions options = make_options("r0c0,r0c1");
    options.recipe.average = 0.9f;
    options.recipe.optimiser = ES_RECIPE_ADAMW;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    decide(growth);
    run_to(growth, 5);
    REQUIRE_OK(es_growth_save(growth, temp_path("a.safetensors")));
    uint64_t before = hash_of(growth);
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        replace(cases[i].name, cases[i].index, cases[i].bits);
        EXPECT_STATUS(es_growth_load(growth, temp_path("b.safetensors")), INPUT);
        EXPECT_CONTAINS(es_status_detail(), cases[i].message);
        EXPECT(hash_of(growth) == before);
    }
    destroy_growth(growth);
}

TEST(files_of_other_hosts_are_refused) {
    EsGrowthOptions two = make_options("r0c0,r0c1"), three = make_options("r0c0,r0c1,r1c1");
    EsGrowth *a = create_growth(&two, &dataset, 1), *b = create_growth(&three, &dataset, 1);
    REQUIRE_OK(es_growth_reset(a, 0));
    decide(a);
    REQUIRE_OK(es_growth_save(a, temp_path("a.safetensors")));
    EXPECT_STATUS(es_growth_load(b, temp_path("a.safetensors")), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "is not of this host and its slots");
    destroy_growth(b);
    two.recipe.average = 0.9f;
    b = create_growth(&two, &dataset, 1);
    EXPECT_STATUS(es_growth_load(b, temp_path("a.safetensors")), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "\"average\"");
    destroy_growth(a);
    destroy_growth(b);
}
