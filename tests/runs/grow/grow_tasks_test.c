// Tasks: ranges, draws from them, controls that wait, and rows of hosts with other slots and steps
// in one update.
#include <math.h>

#include "control/policy/policy_training.h"
#include "runs/grow/grow_run.h"
#include "temp_folder.h"

static EsGrowSettings task_settings(void) {
    EsGrowSettings settings;
    EsConfig config = es_grow_run_config(&settings);
    static const char *const texts[] = {
        "--tasks.groups=2",          "--tasks.blocks=2",        "--tasks.base=2..3",
        "--tasks.pools=0..1",        "--tasks.slots=1..3",      "--tasks.image_size=8,12",
        "--tasks.classes=2..5",      "--tasks.images=100..200", "--tasks.batch=8,16",
        "--tasks.step_batches=1..2", "--tasks.steps=6..9",      "--grow.validation_images=50",
        "--grow.pace=swift",         "--reward.mode=budget",    "--policy.version=2",
        "--policy.hidden=16",        "--policy.dropout=0",      "--run.threads=1"};
    for (size_t i = 0; i < ES_COUNT_OF(texts); i++) {
        REQUIRE_OK(es_config_override(&config, texts[i]));
    }
    return settings;
}

TEST(ranges_are_checked) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"--tasks.blocks=2..", "[tasks] blocks = 2..: expected a whole number"},
        {"--tasks.blocks=4..2", "expected a whole number"},
        {"--tasks.blocks=2.5", "expected a whole number"},
        {"--tasks.blocks=1..3", "from 2 to 12"},
        {"--tasks.blocks=2..3,4", "expected a whole number"},
        {"--tasks.learning_rate=0.1..x", "expected a number"},
        {"--tasks.learning_rate=nan", "expected a number"},
        {"--tasks.image_size=8..12", "[tasks] image_size takes a list"},
        {"--tasks.image_size=10", "10 is not a multiple of 4"},
        {"--tasks.kernel=4", "[tasks] kernel: 4 is not odd"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsGrowSettings settings;
        EsConfig config = es_grow_run_config(&settings);
        REQUIRE_OK(es_config_override(&config, cases[i].text));
        EXPECT_STATUS(es_tasks_check(&settings.tasks), CONFIG);
        EXPECT_CONTAINS(es_status_detail(), cases[i].message);
    }
    EsGrowSettings settings;
    EsConfig config = es_grow_run_config(&settings);
    EXPECT_STATUS(es_tasks_check(&settings.tasks), OK);
    REQUIRE_OK(es_config_override(&config, "--tasks.budget=1.5 .. 4"));
    EXPECT_STATUS(es_tasks_check(&settings.tasks), OK);
}

TEST(settings_that_do_not_go_with_tasks_are_refused) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"--grow.envs=5", "5 hosts (--envs) do not make 2 groups"},
        {"--policy.version=1", "--policy.version=2 is for any"},
        {"--grow.keep_best=1", "--keep-best would be ignored: it is for runs of one task"},
        {"--grow.data=tiny", "--data would be ignored: it is for runs of one task"},
        {"--grow.data_split=share", "--data-split would be ignored"},
        {"--grow.task=cifar_baseline", "--task would be ignored: --tasks.blocks"},
        {"--grow.slots=all", "--slots would be ignored: set --tasks.slots"},
        {"--grow.episode_steps=30", "--episode-steps would be ignored: set --tasks.steps"},
        {"--grow.batch=32", "--batch would be ignored: set --tasks.batch"},
        {"--grow.step_batches=2", "--step-batches would be ignored: set --tasks.step_batches"},
        {"--grow.max_params=900", "--max-params would be ignored: set --tasks.budget"},
        {"--grow.host_rate=0.1", "--grow.host_rate would be ignored: set --tasks.learning_rate"},
        {"--grow.seed_rate=0.1", "--grow.seed_rate would be ignored: set --tasks.seed_factor"},
        {"--grow.envs=2", "relative = on needs others to compare with"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsGrowSettings settings = task_settings();
        static EsGrowSettings declared;
        EsConfig config = es_grow_run_config(&declared);
        config.settings = &settings;
        REQUIRE_OK(es_config_override(&config, cases[i].text));
        EXPECT_STATUS(es_grow_settings_check_tasks(&settings), CONFIG);
        EXPECT_CONTAINS(es_status_detail(), cases[i].message);
    }
}

TEST(tasks_lie_in_their_ranges_and_differ) {
    EsGrowSettings settings;
    es_grow_run_config(&settings); // the default ranges
    int n_slots_seen[ES_SLOTS_MAX + 1] = {0}, n_free = 0, n_same = 0;
    char last[ES_TASK_TEXT_BYTES] = "";
    EsTask largest, task, again;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0, n_most = 0;
    es_task_largest(&settings.tasks, 42, ES_TASK_POOLS_MOST, &largest);
    REQUIRE_OK(es_slots_parse(&largest.host, largest.slots, slots, &n_most));
    for (int64_t i = 0; i < 400; i++) {
        es_task_draw(&settings.tasks, 42, i, &task);
        es_task_draw(&settings.tasks, 42, i, &again);
        EXPECT(memcmp(&task, &again, sizeof task) == 0);
        REQUIRE_OK(es_host_check(&task.host));
        REQUIRE_OK(es_slots_parse(&task.host, task.slots, slots, &n_slots));
        EXPECT(n_slots <= n_most && task.n_steps <= largest.n_steps && task.n_steps >= 20);
        EXPECT(es_host_parameter_count(&task.host) <= es_host_parameter_count(&largest.host));
        EXPECT(task.images.n_classes * task.images.n_variants <= ES_PICTOGRAM_DRAWINGS);
        EXPECT(task.max_parameters == 0 ||
               task.max_parameters > es_host_parameter_count(&task.host));
        EXPECT(task.n_images >= 1000 && task.n_images <= 4000 && task.batch <= 64);
        EXPECT(task.host_learning_rate >= 0.03f && task.host_learning_rate <= 0.2f);
        n_slots_seen[n_slots]++;
        n_free += task.max_parameters == 0;
        n_same += strcmp(last, task.text) == 0;
        snprintf(last, sizeof last, "%s", task.text);
    }
    for (int s = 1; s <= 6; s++) {
        EXPECT(n_slots_seen[s] > 0);
    }
    EXPECT(n_free > 20 && n_free < 60); // a tenth
    EXPECT_EQ(n_same, 0);
    es_task_draw(&settings.tasks, 43, 7, &task);
    es_task_draw(&settings.tasks, 42, 7, &again);
    EXPECT(strcmp(task.text, again.text) != 0);
}

// The largest of both kinds take at least the memory of any task that is drawn, and a policy has
// room for its slots and steps; with the most pools alone they would not.
TEST(the_largest_task_takes_the_most) {
    EsGrowSettings settings = task_settings();
    EsConfig config;
    EsGrowRun *grow = NULL;
    EsRunNeed need;
    size_t most = 0, of_pools = 0;
    static EsGrowSettings declared;
    config = es_grow_run_config(&declared);
    config.settings = &settings;
    REQUIRE_OK(es_config_override(&config, "--tasks.pools=0..2"));
    REQUIRE_OK(es_config_override(&config, "--tasks.image_size=16"));
    REQUIRE_OK(es_config_override(&config, "--evaluate.episodes=0"));
    REQUIRE_OK(es_grow_run_create(&settings, &grow));
    REQUIRE_OK(es_grow_run_need(grow, &need));
    for (int64_t i = -1; i < 60; i++) { // -1: the one with the most pools
        EsTask task;
        EsEpisodeRunner runner;
        size_t before = es_allocation_held(), bytes = 0;
        if (i < 0) {
            es_task_largest(&settings.tasks, 42, ES_TASK_POOLS_MOST, &task);
        } else {
            es_task_draw(&settings.tasks, 42, i, &task);
        }
        int n_envs = es_grow_settings_group_envs(&settings) + 1;
        EsGrowSettings own = es_grow_settings_of_task(&settings, &task, n_envs);
        REQUIRE_OK(
            es_grow_episode_create_task(&own, &task, 1, es_grow_run_runner(grow)->device, &runner));
        REQUIRE_OK(es_growth_episode_bytes(runner.growth, n_envs, ES_SLOTS_MAX, &bytes));
        bytes += es_allocation_held() - before;
        of_pools = i < 0 ? bytes : of_pools;
        most = bytes > most ? bytes : most;
        es_grow_episode_destroy(&runner);
    }
    EXPECT(most <= need.peak_bytes);
    EXPECT(most > of_pools);
    es_grow_run_destroy(grow);
}

// The reference data are of the run's seed, so that a checkpoint of another one does not pass.
TEST(the_data_hash_is_of_the_seed) {
    char hash[2][ES_SHA256_TEXT_BYTES];
    for (int i = 0; i < 2; i++) {
        EsGrowSettings settings = task_settings();
        EsGrowRun *grow = NULL;
        settings.run.seed = 42 + i;
        REQUIRE_OK(es_grow_run_create(&settings, &grow));
        snprintf(hash[i], sizeof hash[i], "%s", es_grow_run_runner(grow)->data_hash);
        es_grow_run_destroy(grow);
    }
    EXPECT(strlen(hash[0]) > 8 && strcmp(hash[0], hash[1]) != 0);
}

TEST(drawings_are_dealt_out_once) {
    EsImageRecipe recipe = es_recipe_tiny;
    uint64_t seen = 0, before = 0;
    recipe.n_classes = 20;
    recipe.n_variants = 2;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        seen = 0;
        for (int label = 0; label < 20; label++) {
            for (int variant = 0; variant < 2; variant++) {
                seen |= (uint64_t)1 << es_generated_drawing(&recipe, seed, label, variant);
            }
        }
        EXPECT(seen == ((uint64_t)1 << ES_PICTOGRAM_DRAWINGS) - 1);
        uint64_t first = (uint64_t)es_generated_drawing(&recipe, seed, 0, 0);
        EXPECT(seed == 1 || first != before);
        before = first;
    }
    EsDataset dataset = {0};
    const int64_t counts[3] = {200, 40, 40};
    REQUIRE_OK(es_dataset_draw(&dataset, "task", &recipe, 9, counts, NULL));
    int n_of[20] = {0};
    for (int64_t i = 0; i < dataset.train.count; i++) {
        n_of[dataset.train.labels[i]]++;
    }
    for (int label = 0; label < 20; label++) {
        EXPECT_EQ(n_of[label], 10);
    }
    es_dataset_destroy(&dataset);
}

// --- controls ---

typedef struct Watched {
    EsEpisodeRunner *runner;
    float accuracy[9]; // of the control, by step
    int n_waited;      // decisions of the control
    double reward;     // of environment 0
} Watched;

static EsStatus see_measured(void *context, int64_t step) {
    Watched *watched = context;
    const EsGrowthState *state = &es_growth_snapshot(watched->runner->growth)->state;
    watched->accuracy[step] = state->env.accuracy[state->n_envs - 1];
    return ES_STATUS_OK;
}

static EsStatus see_decided(void *context, int64_t step) {
    Watched *watched = context;
    const EsGrowthState *state = &es_growth_snapshot(watched->runner->growth)->state;
    (void)step;
    watched->n_waited += state->env.effective_op[state->n_envs - 1] == ES_GROWTH_OP_WAIT;
    watched->reward += (double)watched->runner->rewards[0];
    return ES_STATUS_OK;
}

static Watched run_with_control(const char *policy_name) {
    EsGrowSettings settings = task_settings(), own;
    EsEpisodeRunner runner;
    EsPolicy *policy = NULL;
    EsDevice *device = NULL;
    EsTask task;
    Watched watched = {.runner = &runner};
    EsGrowWatch watch = {&watched, see_measured, see_decided};
    es_task_draw(&settings.tasks, 42, 3, &task);
    own = es_grow_settings_of_task(&settings, &task, 3);
    REQUIRE_OK(es_grow_episode_open_device(&own, &device));
    REQUIRE_OK(es_grow_episode_create_task(&own, &task, 1, device, &runner));
    REQUIRE_OK(es_grow_episode_open_policy(&runner, policy_name, &policy));
    REQUIRE_OK(es_grow_episode_run(&runner, policy, 3, &watch));
    EXPECT_EQ(watched.n_waited, task.n_steps);
    es_grow_episode_destroy_policy(&runner, policy);
    es_grow_episode_destroy(&runner);
    es_device_close(device);
    return watched;
}

// A host that waits is its control, bit for bit, and earns exactly 0; and what others do beside it
// does not change a control.
TEST(a_control_waits_in_the_same_episode) {
    Watched waiting = run_with_control("wait"), growing = run_with_control("eager");
    EXPECT_NEAR(waiting.reward, 0, 0);
    EXPECT(growing.reward != 0);
    EXPECT(memcmp(waiting.accuracy, growing.accuracy, sizeof waiting.accuracy) == 0);
    EXPECT(waiting.accuracy[0] > 0);
}

// --- one update ---

// Runs two episodes of a task under an actor and hands them to the learner.
static void collect_task(const EsGrowSettings *settings, const EsTask *task, EsDevice *device,
                         EsPolicy *learner) {
    EsGrowSettings own = es_grow_settings_of_task(settings, task, 2);
    EsEpisodeRunner runner;
    EsPolicy *actor = NULL;
    REQUIRE_OK(es_grow_episode_create_task(&own, task, 0, device, &runner));
    REQUIRE_OK(es_grow_episode_create_actor(&runner, learner, &actor));
    REQUIRE_OK(es_grow_episode_begin(&runner, actor, 0));
    REQUIRE_OK(es_growth_reset(runner.growth, 0));
    const EsGrowthState *state = &es_growth_snapshot(runner.growth)->state;
    for (int64_t t = 0; t < task->n_steps; t++) {
        es_reward_latch(runner.reward, state);
        REQUIRE_OK(es_policy_decide(actor, state, es_growth_masks(runner.growth), runner.actions));
        REQUIRE_OK(es_growth_decide(runner.growth, runner.actions));
        es_reward_compute(runner.reward, state);
        const float rewards[2] = {es_reward_terms(runner.reward)[0].total + 0.1f,
                                  es_reward_terms(runner.reward)[1].total - 0.2f};
        REQUIRE_OK(es_policy_training_record(actor, state, rewards, 1));
        REQUIRE_OK(es_growth_advance(runner.growth));
    }
    REQUIRE_OK(es_policy_training_collect(learner, actor, state, NULL, 0, 2));
    es_grow_episode_destroy_policy(&runner, actor);
    es_grow_episode_destroy(&runner);
}

// Slots and steps that a row lacks do not count: a learner with room for more of both comes to the
// same weights, up to the rounding of its sums.
TEST(rows_with_fewer_slots_and_steps_count_as_they_are) {
    EsGrowSettings settings = task_settings();
    EsTask small, large;
    EsDevice *device = NULL;
    es_task_smallest(&settings.tasks, &small);
    es_task_largest(&settings.tasks, 42, ES_TASK_POOLS_MOST, &large);
    snprintf(small.slots, sizeof small.slots, "r0c0,r0c1");
    snprintf(large.slots, sizeof large.slots, "all");
    REQUIRE_OK(es_grow_episode_open_device(&settings, &device));
    float *weights[2] = {NULL, NULL};
    size_t bytes = 0;
    const EsTask *rooms[2] = {&small, &large};
    for (int i = 0; i < 2; i++) {
        EsGrowSettings own = es_grow_settings_of_task(&settings, rooms[i], 2);
        EsEpisodeRunner reference;
        EsPolicy *learner = NULL;
        EsPpoReport report;
        REQUIRE_OK(es_grow_episode_create_task(&own, rooms[i], 0, device, &reference));
        REQUIRE_OK(es_grow_episode_create_policy(&reference, 2, &learner));
        EXPECT_EQ(es_growth_settings(reference.growth)->n_slots, i == 0 ? 2 : 3);
        REQUIRE_OK(es_policy_begin(learner, 0));
        collect_task(&settings, &small, device, learner);
        REQUIRE_OK(es_policy_training_update(learner, NULL, &report));
        EXPECT(report.n_epochs > 0 && !report.is_skipped);
        const EsTensor *all = &es_policy_network_store(es_policy_network(learner))->parameters;
        bytes = es_tensor_bytes(all);
        REQUIRE_OK(es_allocate(bytes, (void **)&weights[i]));
        memcpy(weights[i], all->data, bytes);
        es_grow_episode_destroy_policy(&reference, learner);
        es_grow_episode_destroy(&reference);
    }
    double largest = 0, moved = 0;
    for (size_t k = 0; k < bytes / sizeof(float); k++) {
        largest = fmax(largest, fabs((double)weights[0][k] - (double)weights[1][k]));
        moved = fmax(moved, fabs((double)weights[0][k]));
    }
    EXPECT(moved > 0.1);
    EXPECT_NEAR(largest, 0, 2e-5);
    es_release(weights[0]);
    es_release(weights[1]);
    es_device_close(device);
}
