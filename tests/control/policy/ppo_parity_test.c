// PPO updates on CUDA against the CPU. First with written-down outputs, so that both see the same
// numbers: advantages equal bit for bit, gradients and report near, the same decisions. Then with
// the policy network: whole updates, waits and copies counted.
#include "control/policy/policy_training_internal.h"
#include "control/scripted_model.h"

#include <stddef.h>

// relative: sums over rows run in another order; gradients are f32
#define REPORT_BOUND   1e-9
#define GRADIENT_BOUND 1e-6
#define NETWORK_BOUND  1e-4

static const EsPolicySpec small_spec = {
    .n_slots = 3, .n_hidden = 16, .n_features = 16, .dropout = 0.1f, .aux_stops = 1};

static EsPpoSettings test_settings(void) {
    EsPpoSettings s = es_ppo_defaults();
    s.n_epochs = SCRIPT_PASSES;
    s.target_kl = 0;
    s.bootstraps = 1;
    s.auxiliary_warmup = 0;
    for (int h = 0; h < ES_N_HEADS; h++) {
        s.head[h] = (EsPpoHead){0.03f, 1.0f + 0.1f * (float)h, 0.9f, 0.3f};
    }
    return s;
}

static EsRollout *create_rollout(const EsRolloutShape *shape, uint32_t stream) {
    EsRollout *rollout;
    REQUIRE_OK(es_rollout_create(shape, &rollout));
    fill_rollout(rollout, 4);
    fill_rows(rollout, stream);
    return rollout;
}

// --- comparing ---

// The numbers of a report stand before its counts.
enum { N_REPORT = offsetof(EsPpoReport, n_usable_steps) / sizeof(double) };

static void compare_report(const EsPpoReport *a, const EsPpoReport *b, double bound) {
    const double *cpu = (const double *)a, *cuda = (const double *)b;
    for (int i = 0; i < N_REPORT; i++) {
        int are_nan = isnan(cpu[i]) && isnan(cuda[i]);
        if (!are_nan && !(fabs(cpu[i] - cuda[i]) <= bound * fabs(cpu[i]) + 1e-3 * bound)) {
            ES_TEST_FAIL("number %d of the report is %.17g, on the CPU %.17g", i, cuda[i], cpu[i]);
        }
    }
    EXPECT_EQ(b->n_usable_steps, a->n_usable_steps);
    EXPECT_EQ(b->n_valid, a->n_valid);
    EXPECT_EQ(b->n_nonfinite, a->n_nonfinite);
    EXPECT_EQ(b->n_epochs, a->n_epochs);
    EXPECT_EQ(b->is_stopped, a->is_stopped);
    EXPECT_EQ(b->is_skipped, a->is_skipped);
    EXPECT_EQ(b->is_spread_floored, a->is_spread_floored);
    EXPECT_EQ(b->is_return_spread_low, a->is_return_spread_low);
}

static double most_used; // of the bound of gradients, by any of them

static void compare_gradient(const char *name, const float *cpu, const float *cuda, int64_t n) {
    double top = 0;
    for (int64_t i = 0; i < n; i++) {
        top = fmax(top, fabs((double)cpu[i]));
    }
    for (int64_t i = 0; i < n; i++) {
        double bound = GRADIENT_BOUND * (fabs((double)cpu[i]) + 0.1 * top);
        double distance = fabs((double)cpu[i] - (double)cuda[i]);
        most_used = distance > 0 ? fmax(most_used, distance / bound) : most_used;
        if (!(distance <= bound)) {
            ES_TEST_FAIL("gradient %lld of %s is %.9g, on the CPU %.9g", (long long)i, name,
                         (double)cuda[i], (double)cpu[i]);
            return;
        }
    }
}

static void compare_steps(const ScriptedModel *a, const ScriptedModel *b) {
    int64_t R = script_rows(a);
    EXPECT_EQ(b->n_steps, a->n_steps);
    for (int k = 0; k < a->n_steps; k++) {
        const EsOutputs *cpu = &a->gradients[k], *cuda = &b->gradients[k];
        compare_gradient("logits", cpu->logits, cuda->logits, R * a->shape.policy.n_logits);
        compare_gradient("values", cpu->value, cuda->value, R);
        compare_gradient("action values", cpu->action_value, cuda->action_value, R);
        compare_gradient("targets", cpu->auxiliary, cuda->auxiliary, R * a->shape.n_targets);
    }
}

// Compares slabs up to the columns that es_rollout_finish writes, which are at the end.
static void expect_equal_rows(const EsRollout *a, const EsRollout *b) {
    size_t R = (size_t)a->n_rows * sizeof(float);
    EXPECT(memcmp(a->scaled_reward, b->scaled_reward, R) == 0);
    EXPECT(memcmp(a->advantage, b->advantage, R) == 0);
    EXPECT(memcmp(a->returns, b->returns, R) == 0);
    EXPECT(memcmp(a->td_error, b->td_error, R) == 0);
}

// --- written-down outputs ---

typedef struct ScriptCase {
    int64_t n_envs, n_steps;
    float drift, target_kl;
    int spoilt_pass, spoilt_step; // -1: none
} ScriptCase;

// One update; the rollout, the script and the state are what it left.
typedef struct ScriptRun {
    EsRollout *rollout;
    ScriptedModel script;
    EsPpoState state;
    EsPpoReport report;
} ScriptRun;

static void spoil(ScriptedModel *script, const EsRollout *rollout, int pass) {
    float nan = (float)NAN;
    for (int64_t row = 0; row < rollout->n_rows; row++) {
        // an invalid row adds nothing
        if (!rollout->is_valid[row]) {
            script->outputs[0].value[row] = nan;
            script->outputs[1].logits[row * script->shape.policy.n_logits] = nan;
        } else if (pass >= 0 && row % 3 == 0) {
            script->outputs[pass].action_value[row] = nan;
        }
    }
}

static ScriptRun run_script(const ScriptCase *test, EsDevice *cuda) {
    EsRolloutShape shape = policy_rollout_shape(&small_spec, test->n_envs, test->n_steps);
    ScriptRun run = {.rollout = create_rollout(&shape, 100),
                     .script = create_script(&shape, test->drift)};
    EsPpoSettings settings = test_settings();
    settings.target_kl = test->target_kl;
    run.script.spoilt_step = test->spoilt_step;
    spoil(&run.script, run.rollout, test->spoilt_pass);
    if (cuda != NULL) {
        move_script(&run.script, cuda, (test->n_envs + 7) / 8);
    }
    EsPpo *ppo;
    EsPpoModel model = script_interface(&run.script);
    REQUIRE_OK(es_ppo_create(&settings, &shape, &ppo));
    memset(&run.report, 0, sizeof run.report);
    // scales of earlier rounds
    es_ppo_state(ppo)->rewards = (EsScaleNormaliser){0.3, 2.5, 400};
    es_ppo_state(ppo)->values = (EsScaleNormaliser){0.1, 1.7, 400};
    REQUIRE_OK(es_ppo_update(ppo, run.rollout, &model, &run.report));
    run.state = *es_ppo_state(ppo);
    es_ppo_destroy(ppo);
    return run;
}

static void end_run(ScriptRun *run) {
    destroy_script(&run->script);
    es_rollout_destroy(run->rollout);
}

static void expect_same_bits(const ScriptRun *a, const ScriptRun *b) {
    size_t R = (size_t)a->rollout->n_rows, A = (size_t)a->script.shape.policy.n_logits;
    EXPECT(memcmp(&a->report, &b->report, sizeof a->report) == 0);
    for (int k = 0; k < a->script.n_steps; k++) {
        const EsOutputs *x = &a->script.gradients[k], *y = &b->script.gradients[k];
        EXPECT(memcmp(x->logits, y->logits, R * A * sizeof(float)) == 0);
        EXPECT(memcmp(x->value, y->value, R * sizeof(float)) == 0);
    }
}

static void compare_script(const ScriptCase *test, EsDevice *device) {
    ScriptRun cpu = run_script(test, NULL), cuda = run_script(test, device);
    ScriptRun again = run_script(test, device);
    expect_equal_rows(cpu.rollout, cuda.rollout);
    compare_report(&cpu.report, &cuda.report, REPORT_BOUND);
    compare_steps(&cpu.script, &cuda.script);
    EXPECT(memcmp(&cpu.state, &cuda.state, sizeof cpu.state) == 0);
    expect_same_bits(&cuda, &again);
    int is_cut = test->target_kl > 0 || test->spoilt_pass >= 0 || test->spoilt_step >= 0;
    EXPECT(is_cut ? cuda.report.n_epochs < SCRIPT_PASSES : cuda.report.n_epochs == SCRIPT_PASSES);
    EXPECT_EQ(cuda.report.is_stopped, test->target_kl > 0);
    EXPECT_EQ(cuda.report.n_nonfinite > 0, test->spoilt_pass >= 0 || test->spoilt_step >= 0);
    end_run(&cpu);
    end_run(&cuda);
    end_run(&again);
}

TEST(parity) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    const ScriptCase cases[] = {
        {1, 1, 0.3f, 0, -1, -1},   {1, 9, 0.3f, 0, -1, -1},    {7, 3, 0.3f, 0, -1, -1},
        {19, 12, 0.3f, 0, -1, -1}, {130, 17, 0.3f, 0, -1, -1}, {19, 12, 0.5f, 0.02f, -1, -1},
        {19, 12, 0.3f, 0, 0, -1},  {19, 12, 0.3f, 0, 2, -1},   {19, 12, 0.3f, 0, -1, 0},
        {19, 12, 0.3f, 0, -1, 2},  {19, 12, 9.0f, 0, -1, -1},
    };
    EsDevice *device;
    REQUIRE_OK(es_device_open("cuda", NULL, &device));
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        compare_script(&cases[i], device);
    }
    REQUIRE_OK(es_device_status(device));
    es_device_close(device);
    printf("parity ppo f32: bound %.2g + %.2g, at most %.3f of it used\n", 0.1 * GRADIENT_BOUND,
           GRADIENT_BOUND, most_used);
}

// --- the policy network ---

typedef struct NetworkRun {
    EsDevice *device;
    EsPolicyNetwork *network;
    EsRollout *rollout;
    EsPpo *ppo;
    EsPpoModel model;
} NetworkRun;

static NetworkRun open_run(const char *device, int is_set, int64_t n_envs, int64_t n_steps,
                           int n_epochs) {
    NetworkRun run = {0};
    EsPolicySpec spec = small_spec;
    spec.is_set = is_set;
    EsRolloutShape shape = policy_rollout_shape(&spec, n_envs, n_steps);
    EsPpoSettings settings = test_settings();
    settings.n_epochs = n_epochs;
    REQUIRE_OK(es_device_open(device, NULL, &run.device));
    REQUIRE_OK(es_policy_network_create(run.device, &spec, n_envs, n_steps, &run.network));
    REQUIRE_OK(es_policy_network_initialise(run.network, 7));
    REQUIRE_OK(es_ppo_create(&settings, &shape, &run.ppo));
    REQUIRE_OK(es_rollout_create(&shape, &run.rollout));
    run.model = es_policy_training_model(run.network);
    return run;
}

static void close_run(NetworkRun *run) {
    es_ppo_destroy(run->ppo);
    es_rollout_destroy(run->rollout);
    es_policy_network_destroy(run->network);
    es_device_close(run->device);
}

// Some rows of version 2 are of hosts that lack the last slots, as collected ones are.
static void remove_slots(EsRollout *rollout) {
    int64_t S = rollout->shape.n_ids;
    for (int64_t row = 0; row < rollout->n_rows; row++) {
        for (int64_t s = S - row % 3; s < S; s++) {
            rollout->ids[row * S + s] = ES_POLICY_ABSENT;
        }
    }
}

static EsPpoReport update(NetworkRun *run, uint32_t round) {
    EsPpoReport report;
    memset(&report, 0, sizeof report);
    es_rollout_reset(run->rollout);
    fill_rollout(run->rollout, 4);
    fill_rows(run->rollout, 100 + 50 * round);
    if (es_policy_network_spec(run->network)->is_set && round > 0) {
        remove_slots(run->rollout);
    }
    REQUIRE_OK(es_ppo_update(run->ppo, run->rollout, &run->model, &report));
    return report;
}

static float *fetch_parameters(const NetworkRun *run) {
    const EsTensor *parameters = &es_policy_network_store(run->network)->parameters;
    EsStream *stream = es_policy_network_stream(run->network);
    float *numbers = malloc(es_tensor_bytes(parameters));
    REQUIRE_OK(es_stream_copy(stream, numbers, parameters->data, es_tensor_bytes(parameters),
                              ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    return numbers;
}

static void compare_parameters(const NetworkRun *a, const NetworkRun *b) {
    int64_t n = es_policy_network_store(a->network)->parameters.dim[1];
    float *x = fetch_parameters(a), *y = fetch_parameters(b);
    double off = 0, top = 0;
    for (int64_t i = 0; i < n; i++) {
        double distance = fabs((double)x[i] - (double)y[i]);
        off = distance <= off ? off : distance; // NaN shows
        top = fmax(top, fabs((double)x[i]));
    }
    if (!(off <= NETWORK_BOUND * top)) {
        ES_TEST_FAIL("parameters differ by %.3g where the largest is %.3g", off, top);
    }
    free(x);
    free(y);
}

TEST(network) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    for (int is_set = 0; is_set < 2; is_set++) {
        NetworkRun cpu = open_run("cpu", is_set, 19, 6, 4);
        NetworkRun cuda = open_run("cuda", is_set, 19, 6, 4);
        EXPECT(cpu.model.on_device == NULL && cuda.model.on_device != NULL);
        for (uint32_t round = 0; round < 3; round++) {
            EsPpoReport a = update(&cpu, round), b = update(&cuda, round);
            EXPECT_EQ(b.n_epochs, 4);
            compare_report(&a, &b, NETWORK_BOUND);
            compare_parameters(&cpu, &cuda);
        }
        close_run(&cpu);
        close_run(&cuda);
    }
}

// Waits and copies of an update, once everything is recorded.
static EsDeviceCounters count_update(int is_set, int64_t n_envs, int64_t n_steps, int n_epochs) {
    NetworkRun run = open_run("cuda", is_set, n_envs, n_steps, n_epochs);
    for (uint32_t round = 0; round < 3; round++) {
        EXPECT_EQ(update(&run, round).n_epochs, n_epochs);
    }
    EsDeviceCounters before = es_device_counters(run.device);
    update(&run, 3);
    EsDeviceCounters counted = es_device_counters_since(run.device, before);
    close_run(&run);
    return counted;
}

static void compare_costs(int is_set) {
    EsDeviceCounters small = count_update(is_set, 3, 4, 2), large = count_update(is_set, 17, 9, 2);
    EsDeviceCounters longer = count_update(is_set, 3, 4, 5);
    EXPECT_EQ(small.n_allocations, 0);
    EXPECT_EQ(large.n_synchronizations, small.n_synchronizations);
    EXPECT_EQ(large.n_copies, small.n_copies);
    EXPECT_EQ(large.n_launches, small.n_launches);
    EXPECT_EQ(longer.n_synchronizations, small.n_synchronizations + 3);
    EXPECT_EQ(longer.n_copies, small.n_copies + 2 * 3); // number of the pass up, numbers down
    EXPECT(small.n_synchronizations <= 2 + 4);
    printf("version %d, 2 epochs: %lld waits, %lld copies, %lld launches\n", 1 + is_set,
           (long long)small.n_synchronizations, (long long)small.n_copies,
           (long long)small.n_launches);
}

TEST(cost) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    compare_costs(0);
    compare_costs(1);
}
