// Episodes on a GPU: the queued loop, whose decisions and rewards are the device's, against a loop
// on the same GPU that waits for every step and decides on the CPU. An observer sees the same bits.
#include "runs/grow/grow_episode.h"

#include "base/clock.h"
#include "control/policy/policy_training.h"
#include "es_test.h"
#include "growth/engine/growth_device.h"
#include "runs/grow/grow_evaluate.h"
#include "temp_folder.h"
#include "tensor/profile.h"

#define STEPS_MAX 64
#define ENVS      2

// FNV-1a over everything that is shown.
static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ byte[i]) * 0x100000001B3u;
    }
    return hash;
}

typedef struct Trace {
    EsEpisodeRunner *runner;
    EsPolicy *policy;
    int64_t n_measured, n_decided, n_germinated;
    int64_t n_explained; // decisions whose probabilities are known
    double decide_ms;    // of all steps
    int64_t
        n_timed_as_rules; // steps whose decision took as long as the rules before it, to the bit
    int64_t stop_at;      // fail at this step; -1: never
    uint64_t measured[STEPS_MAX], decided[STEPS_MAX];
} Trace;

static uint64_t hash_state(const EsGrowthState *state) {
    uint64_t hash = 0xCBF29CE484222325u;
    size_t n_envs = (size_t)state->n_envs, n_seeds = n_envs * (size_t)state->n_slots;
#define X(type, name, empty, meaning)                                                              \
    hash = mix(hash, state->seed.name, n_seeds * sizeof *state->seed.name);
    ES_SEED_FIELDS(X)
#undef X
#define X(type, name, start, meaning)                                                              \
    hash = mix(hash, state->env.name, n_envs * sizeof *state->env.name);
    ES_GROWTH_ENV_FIELDS(X)
#undef X
    return hash;
}

static EsStatus see_measured(void *context, int64_t step) {
    Trace *trace = context;
    const EsGrowth *growth = trace->runner->growth;
    const EsGrowthResult *results = es_growth_results(growth);
    EXPECT_EQ(step, trace->n_measured);
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.step[0], step + 1);
    uint64_t hash = hash_state(&es_growth_snapshot(growth)->state);
    hash = mix(hash, es_growth_masks(growth), ENVS * sizeof(EsActionMasks));
    for (int e = 0; e < ENVS; e++) {
        hash = mix(hash, &results[e].validation_accuracy, sizeof(double));
        hash = mix(hash, &results[e].train_loss, sizeof(double));
    }
    hash = mix(hash, trace->runner->parameter_ratio, ENVS * sizeof(double));
    trace->measured[trace->n_measured++] = hash;
    return step == trace->stop_at ? ES_FAIL(INTERRUPTED, "that is enough") : ES_STATUS_OK;
}

static EsStatus see_decided(void *context, int64_t step) {
    Trace *trace = context;
    const EsEpisodeRunner *runner = trace->runner;
    const EsGrowthState *state = &es_growth_snapshot(runner->growth)->state;
    const EsActionStats *action_stats = es_policy_action_stats(trace->policy);
    EXPECT_EQ(step, trace->n_decided);
    uint64_t hash = hash_state(state);
    hash = mix(hash, runner->actions, ENVS * sizeof *runner->actions);
    hash = mix(hash, runner->rewards, ENVS * sizeof *runner->rewards);
    hash = mix(hash, es_reward_terms(runner->reward), ENVS * sizeof(EsRewardTerms));
    hash = mix(hash, es_reward_totals(runner->reward), ENVS * sizeof(double));
    for (int e = 0; e < ENVS; e++) { // without a second wait in the step
        double p[ES_SLOTS_MAX];
        int op = es_action_value(&runner->actions[e], ES_HEAD_OP);
        if (es_policy_head_probabilities(trace->policy, e, &es_growth_masks(runner->growth)[e],
                                         &runner->actions[e], ES_HEAD_OP, p)) {
            EXPECT((float)p[op] == action_stats[e].confidence);
            trace->n_explained++;
        }
    }
    if (action_stats != NULL) {
        hash = mix(hash, action_stats, ENVS * sizeof *action_stats);
    }
    trace->decide_ms += runner->decide_ms;
    trace->n_timed_as_rules += runner->decide_ms == es_growth_times(runner->growth).decide_ms;
    for (int e = 0; e < ENVS; e++) {
        trace->n_germinated += state->env.effective_op[e] == ES_GROWTH_OP_GERMINATE;
    }
    trace->decided[trace->n_decided++] = hash;
    return ES_STATUS_OK;
}

// es_grow_episode_run as it is on the CPU, over the mirrors.
static void play_waiting(EsEpisodeRunner *runner, EsPolicy *policy, int64_t first_episode,
                         Trace *trace) {
    EsGrowth *growth = runner->growth;
    REQUIRE_OK(es_growth_reset(growth, first_episode));
    es_reward_reset(runner->reward);
    REQUIRE_OK(es_policy_begin(policy, first_episode));
    for (int64_t step = 0; !es_growth_is_over(growth); step++) {
        for (int e = 0; e < ENVS; e++) {
            runner->parameter_ratio[e] = es_growth_parameter_ratio(growth, e);
        }
        REQUIRE_OK(see_measured(trace, step));
        es_reward_latch(runner->reward, &es_growth_snapshot(growth)->state);
        REQUIRE_OK(es_policy_decide(policy, &es_growth_snapshot(growth)->state,
                                    es_growth_masks(growth), runner->actions));
        REQUIRE_OK(es_growth_decide(growth, runner->actions));
        es_reward_compute(runner->reward, &es_growth_snapshot(growth)->state);
        REQUIRE_OK(es_growth_settle_prunes(growth, es_reward_settled_prunes(runner->reward)));
        for (int e = 0; e < ENVS; e++) {
            runner->rewards[e] = es_reward_terms(runner->reward)[e].total;
        }
        REQUIRE_OK(see_decided(trace, step));
        REQUIRE_OK(es_growth_advance(growth));
    }
}

static EsGrowSettings small_settings(void) {
    EsGrowSettings settings;
    EsConfig config = es_grow_run_config(&settings);
    es_config_reset(&config);
    snprintf(settings.run.device, sizeof settings.run.device, "cuda");
    settings.n_envs = ENVS;
    settings.batch = 8;
    settings.step_batches = 1;
    settings.validation_images = 8;
    settings.episode_steps = 7;
    settings.run.n_threads = 1;
    settings.amp_dtype = 1; // off
    settings.is_tf32 = 0;
    return settings;
}

static void compare(const Trace *a, const Trace *b) {
    EXPECT_EQ(a->n_measured, b->n_measured);
    EXPECT_EQ(a->n_decided, b->n_decided);
    for (int64_t i = 0; i < a->n_measured; i++) {
        EXPECT(a->measured[i] == b->measured[i]);
        EXPECT(a->decided[i] == b->decided[i]);
    }
}

static void compare_loops(EsEpisodeRunner *runner, const char *text) {
    static Trace waiting, queued, again;
    EsPolicy *policy = NULL;
    waiting = queued = again = (Trace){.runner = runner, .stop_at = -1};
    REQUIRE_OK(es_grow_episode_open_policy(runner, text, &policy));
    waiting.policy = queued.policy = again.policy = policy;
    play_waiting(runner, policy, 20, &waiting);
    EsGrowWatch watch = {&queued, see_measured, see_decided};
    int64_t start_ns = es_clock_ns();
    REQUIRE_OK(es_grow_episode_run(runner, policy, 20, &watch));
    double episode_ms = es_clock_seconds_since(start_ns) * 1e3;
    compare(&waiting, &queued);
    EXPECT(queued.decide_ms > 0 && queued.decide_ms < episode_ms);
    EXPECT(queued.n_timed_as_rules < queued.n_decided);
    EXPECT_EQ(queued.n_decided, runner->settings->episode_steps);
    // an episode that was dropped leaves nothing behind
    static Trace dropped;
    dropped = (Trace){.runner = runner, .policy = policy, .stop_at = 2};
    watch.context = &dropped;
    EXPECT_STATUS(es_grow_episode_run(runner, policy, 40, &watch), INTERRUPTED);
    watch.context = &again;
    REQUIRE_OK(es_grow_episode_run(runner, policy, 20, &watch));
    compare(&waiting, &again);
    EXPECT_EQ(runner->replays.n_captures, 2);
    EXPECT_EQ(runner->replays.n_fallbacks, 0);
    printf("%s: %lld steps, %lld germinations\n", text, (long long)queued.n_decided,
           (long long)queued.n_germinated);
    EXPECT(strcmp(text, "random") != 0 || queued.n_germinated > 0);
    es_grow_episode_destroy_policy(runner, policy);
}

TEST(queued_episodes_show_what_waiting_ones_do) {
    EsGrowSettings settings = small_settings();
    EsDevice *device = NULL;
    EsEpisodeRunner runner;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    REQUIRE_OK(es_grow_episode_open_device(&settings, &device));
    REQUIRE_OK(es_grow_episode_create(&settings, device, &runner));
    compare_loops(&runner, "random");
    compare_loops(&runner, "heuristic");
    es_grow_episode_destroy(&runner);
    es_device_close(device);
}

// Layers on rows run by plans, which must know a decision before the step after it is queued.
TEST(queued_episodes_of_plans_show_what_waiting_ones_do) {
    EsGrowSettings settings = small_settings();
    EsDevice *device = NULL;
    EsEpisodeRunner runner;
    char text[4096], executor[ES_EXECUTOR_BYTES];
    int used = snprintf(text, sizeof text, "a,kind\n");
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    for (int i = 0; i < 120; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%d,%s\n", i % 7,
                         i % 7 < 3 ? "no" : "yes");
    }
    snprintf(settings.task, sizeof settings.task, "dense");
    snprintf(settings.slots, sizeof settings.slots, "all");
    snprintf(settings.data.name, sizeof settings.data.name, "%s",
             write_temp_text("rows.csv", text));
    REQUIRE_OK(es_grow_episode_open_device(&settings, &device));
    REQUIRE_OK(es_grow_episode_create(&settings, device, &runner));
    EXPECT_CONTAINS(es_growth_executor(runner.growth, executor), "has layers on rows");
    compare_loops(&runner, "random");
    es_grow_episode_destroy(&runner);
    es_device_close(device);
}

// A policy in training: rows recorded on the device are enough for its update, twice.
TEST(a_policy_trains_on_what_the_device_recorded) {
    EsGrowSettings settings = small_settings();
    static Trace trace;
    EsDevice *device = NULL;
    EsEpisodeRunner runner;
    EsPolicy *policy = NULL;
    EsPpoReport report;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    settings.n_hidden = 8;
    settings.episode_steps = 4;
    REQUIRE_OK(es_grow_episode_open_device(&settings, &device));
    REQUIRE_OK(es_grow_episode_create(&settings, device, &runner));
    REQUIRE_OK(es_grow_episode_create_policy(&runner, settings.n_envs, &policy));
    for (int round = 0; round < 2; round++) {
        trace = (Trace){.runner = &runner, .policy = policy, .stop_at = -1};
        EsGrowWatch watch = {&trace, see_measured, see_decided};
        runner.keeps_logits = round == 1;
        REQUIRE_OK(es_grow_episode_run(&runner, policy, ENVS * round, &watch));
        EXPECT_EQ(trace.n_explained, round == 1 ? 4 * ENVS : 0);
        EsRecurrentHealth health = es_policy_health(policy);
        EXPECT(health.h_rms > 0 && !health.has_nan);
        REQUIRE_OK(
            es_policy_training_update(policy, &es_growth_snapshot(runner.growth)->state, &report));
        EXPECT_EQ(report.n_valid, 4 * ENVS);
        EXPECT(report.n_epochs >= 1 && !report.is_skipped);
    }
    es_grow_episode_destroy_policy(&runner, policy);
    es_grow_episode_destroy(&runner);
    es_device_close(device);
}

// If captures are refused, so are those of decisions, and the episode runner can say why.
TEST(refused_captures_of_decisions_are_told) {
    EsGrowSettings settings = small_settings();
    EsProfileOptions options = {.capacity = 1, .forbids_capture = 1};
    static Trace trace;
    EsDevice *device = NULL;
    EsEpisodeRunner runner;
    EsPolicy *policy = NULL;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    settings.episode_steps = 3;
    REQUIRE_OK(es_grow_episode_open_device(&settings, &device));
    REQUIRE_OK(es_grow_episode_create(&settings, device, &runner));
    REQUIRE_OK(es_grow_episode_open_policy(&runner, "random", &policy));
    REQUIRE_OK(es_profile_start(device, &options));
    trace = (Trace){.runner = &runner, .policy = policy, .stop_at = -1};
    EsGrowWatch watch = {&trace, see_measured, see_decided};
    REQUIRE_OK(es_grow_episode_run(&runner, policy, 0, &watch));
    EXPECT_EQ(runner.replays.n_captures, 0);
    EXPECT_EQ(runner.replays.n_fallbacks, 2);
    EXPECT(runner.replays.fallback[0] != '\0');
    es_profile_stop(device);
    es_grow_episode_destroy_policy(&runner, policy);
    es_grow_episode_destroy(&runner);
    es_device_close(device);
}

// Larger hosts run there beside those that grow; what plants seeds is left out.
TEST(comparisons_on_a_gpu_have_static_hosts) {
    EsGrowSettings settings = small_settings();
    static Trace trace;
    EsDevice *device = NULL;
    EsEpisodeRunner runner, larger;
    EsPolicy *policy = NULL;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    settings.episode_steps = 2;
    settings.n_evaluated = ENVS;
    REQUIRE_OK(es_grow_episode_open_device(&settings, &device));
    REQUIRE_OK(es_grow_episode_create(&settings, device, &runner));
    int64_t n_host = es_growth_model(runner.growth)->layout.n_host_weights;
    EsHostSpec hosts[] = {es_host_widen(&runner.host, 3 * n_host),
                          es_host_deepen(&runner.host, 3 * n_host, ES_HOST_BLOCKS_MAX)};
    for (size_t h = 0; h < ES_COUNT_OF(hosts); h++) {
        REQUIRE_OK(es_grow_episode_create_static(&runner, &hosts[h], &larger));
        REQUIRE_OK(es_grow_episode_open_policy(&larger, "wait", &policy));
        trace = (Trace){.runner = &larger, .policy = policy, .stop_at = -1};
        EsGrowWatch watch = {&trace, see_measured, see_decided};
        REQUIRE_OK(es_grow_episode_run(&larger, policy, 20, &watch));
        EXPECT(es_growth_model(larger.growth)->layout.n_host_weights > 2 * n_host);
        EXPECT_EQ(trace.n_decided, 2);
        es_grow_episode_destroy_policy(&larger, policy);
        es_grow_episode_destroy(&larger);
    }
    snprintf(settings.against, sizeof settings.against, "wait,wider,deeper,scratch");
    EXPECT_STATUS(es_grow_evaluate_check(&runner), OK);
    es_grow_episode_destroy(&runner);
    es_device_close(device);
}

// --- tasks ---

static EsGrowSettings task_settings(const char *kernel) {
    EsGrowSettings settings = small_settings();
    snprintf(settings.tasks.blocks, sizeof settings.tasks.blocks, "2");
    snprintf(settings.tasks.base, sizeof settings.tasks.base, "2..3");
    snprintf(settings.tasks.kernel, sizeof settings.tasks.kernel, "%s", kernel);
    snprintf(settings.tasks.image_size, sizeof settings.tasks.image_size, "8");
    snprintf(settings.tasks.images, sizeof settings.tasks.images, "100");
    snprintf(settings.tasks.batch, sizeof settings.tasks.batch, "8");
    snprintf(settings.tasks.step_batches, sizeof settings.tasks.step_batches, "1");
    snprintf(settings.tasks.steps, sizeof settings.tasks.steps, "6");
    settings.tasks.n_groups = 1;
    settings.reward.mode = ES_REWARD_BUDGET;
    REQUIRE_OK(es_tasks_check(&settings.tasks));
    return settings;
}

// Only hosts that run fused are met where there are such: kernels of 5 are drawn again, on a GPU
// alone, and the largest task has none. Where there are no others they are taken as they come.
TEST(tasks_on_a_gpu_have_hosts_that_run_fused) {
    EsGrowSettings settings = task_settings("3,5"), large = task_settings("5");
    EsDevice *devices[2] = {NULL, NULL};
    EsTask task, plain;
    int n_redrawn[2] = {0};
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &devices[0]));
    REQUIRE_OK(es_device_open("cuda", &(EsDeviceOptions){.n_threads = 1}, &devices[1]));
    for (int64_t number = 0; number < 30; number++) {
        for (int d = 0; d < 2; d++) {
            REQUIRE_OK(es_grow_episode_draw_task(&settings, number, devices[d], &task));
            n_redrawn[d] += task.n_redrawn;
            for (int b = 0; b < task.host.n_blocks; b++) {
                EXPECT(d == 0 || task.host.blocks[b].kernel == 3);
            }
            es_task_draw(&settings.tasks, (uint64_t)settings.run.seed, number, &plain);
            EXPECT_EQ(strcmp(task.text, plain.text) == 0, task.n_redrawn == 0);
        }
    }
    EXPECT_EQ(n_redrawn[0], 0);
    EXPECT(n_redrawn[1] > 30 && n_redrawn[1] < 300); // three of four have a kernel of 5
    REQUIRE_OK(es_grow_episode_largest_task(&settings, ES_TASK_POOLS_MOST, devices[1], &task));
    EXPECT(task.host.blocks[0].kernel == 3 && task.host.blocks[0].n_channels == 3);
    REQUIRE_OK(es_grow_episode_draw_task(&large, 0, devices[1], &task));
    EXPECT(task.host.blocks[0].kernel == 5 && task.n_redrawn == 0);
    REQUIRE_OK(es_grow_episode_largest_task(&large, ES_TASK_POOLS_MOST, devices[1], &task));
    EXPECT(task.host.blocks[0].kernel == 5);
    es_device_close(devices[0]);
    es_device_close(devices[1]);
}

typedef struct Controlled {
    const EsEpisodeRunner *runner;
    int64_t n_steps, n_waited, n_germinated; // decisions of the control that waited
    double reward;                           // of all environments, absolute
} Controlled;

static EsStatus see_paired(void *context, int64_t step) {
    Controlled *seen = context;
    const EsGrowthState *state = &es_growth_snapshot(seen->runner->growth)->state;
    for (int64_t e = 1; e < state->n_envs && step == 0; e++) { // one episode: the same weights
        EXPECT_EQ(es_growth_episode(seen->runner->growth, e),
                  es_growth_episode(seen->runner->growth, 0));
        EXPECT(state->env.loss[e] == state->env.loss[0]);
    }
    return ES_STATUS_OK;
}

static EsStatus see_control(void *context, int64_t step) {
    Controlled *seen = context;
    const EsGrowthState *state = &es_growth_snapshot(seen->runner->growth)->state;
    (void)step;
    seen->n_steps++;
    seen->n_waited += state->env.effective_op[state->n_envs - 1] == ES_GROWTH_OP_WAIT;
    for (int64_t e = 0; e < state->n_envs; e++) {
        seen->n_germinated += state->env.effective_op[e] == ES_GROWTH_OP_GERMINATE;
        seen->reward += (double)(seen->runner->rewards[e] < 0 ? -seen->runner->rewards[e]
                                                              : seen->runner->rewards[e]);
    }
    return ES_STATUS_OK;
}

// The control waits whatever the others do, in their episode; hosts that wait, too, earn exactly 0.
TEST(controls_on_a_gpu_wait) {
    static const char *const policies[] = {"wait", "random", "heuristic"};
    EsGrowSettings settings = task_settings("3"), own;
    EsDevice *device = NULL;
    EsTask task;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    REQUIRE_OK(es_grow_episode_open_device(&settings, &device));
    REQUIRE_OK(es_grow_episode_draw_task(&settings, 3, device, &task));
    own = es_grow_settings_of_task(&settings, &task, 3);
    for (size_t i = 0; i < ES_COUNT_OF(policies); i++) {
        EsEpisodeRunner runner;
        EsPolicy *policy = NULL;
        Controlled seen = {.runner = &runner};
        EsGrowWatch watch = {&seen, see_paired, see_control};
        REQUIRE_OK(es_grow_episode_create_task(&own, &task, 1, device, &runner));
        REQUIRE_OK(es_grow_episode_open_policy(&runner, policies[i], &policy));
        REQUIRE_OK(es_grow_episode_run(&runner, policy, 3, &watch));
        EXPECT_EQ(seen.n_steps, 6);
        EXPECT_EQ(seen.n_waited, 6);
        EXPECT(i > 0 || (seen.reward == 0 && seen.n_germinated == 0));
        EXPECT(i != 1 || (seen.n_germinated > 0 && seen.reward > 0));
        es_grow_episode_destroy_policy(&runner, policy);
        es_grow_episode_destroy(&runner);
    }
    es_device_close(device);
}
