// The policy network on CUDA against the CPU: acting, one step of training, and a whole round whose
// training goes on on the CPU. Plans are run often enough to be recorded and replayed.
#include "control/policy_case.h"
#include "control/ruled_hosts.h"
#include "temp_folder.h"

// of the largest number of its kind
#define BOUND 1e-4

// --- two networks of one kind ---

typedef struct Pair {
    PolicyCase cpu, cuda; // rollout and gradients are the first one's
    double most_used;     // of the bound, by any number
} Pair;

static void expect_near(Pair *pair, const char *name, const float *cpu, const float *cuda,
                        int64_t n) {
    double top = 0, off = 0;
    for (int64_t i = 0; i < n && off <= INFINITY; i++) { // NaN ends it
        double difference = fabs((double)cpu[i] - (double)cuda[i]);
        top = fmax(top, fabs((double)cpu[i]));
        off = difference <= off ? off : difference;
    }
    pair->most_used = fmax(pair->most_used, off / (BOUND * top));
    if (!(top > 0 && off <= BOUND * top)) {
        ES_TEST_FAIL("%s: CUDA is off by %.3g where the largest is %.3g", name, off, top);
    }
}

// A tensor's numbers in host memory, to be freed.
static float *fetch(PolicyCase *test, const EsTensor *tensor, int64_t n) {
    EsStream *stream = es_policy_network_stream(test->network);
    size_t bytes = (size_t)n * sizeof(float);
    float *numbers = malloc(bytes);
    REQUIRE_OK(es_stream_copy(stream, numbers, tensor->data, bytes, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    return numbers;
}

static void expect_near_tensors(const char *name, Pair *pair, const EsTensor *cpu,
                                const EsTensor *cuda) {
    int64_t n = cpu->dim[1]; // of gradients the first row, their sum
    float *a = fetch(&pair->cpu, cpu, n), *b = fetch(&pair->cuda, cuda, n);
    expect_near(pair, name, a, b, n);
    free(a);
    free(b);
}

static Pair create_pair(EsPolicySpec spec, int64_t n_envs, int64_t n_steps) {
    Pair pair = {.cpu = create_case(spec, n_envs, n_steps, 2, 4)};
    pair.cuda = pair.cpu;
    REQUIRE_OK(es_device_open("cuda", NULL, &pair.cuda.device));
    REQUIRE_OK(
        es_policy_network_create(pair.cuda.device, &spec, n_envs, n_steps, &pair.cuda.network));
    REQUIRE_OK(es_policy_network_initialise(pair.cuda.network, 7));
    pair.cuda.model = es_policy_training_model(pair.cuda.network);
    return pair;
}

static void destroy_pair(Pair *pair) {
    es_policy_network_destroy(pair->cuda.network);
    es_device_close(pair->cuda.device);
    destroy_case(&pair->cpu);
}

// Initial values are made on the host: equal bits. Then both get those of a trained network.
static void share_parameters(Pair *pair) {
    const EsTensor *cpu = &es_policy_network_store(pair->cpu.network)->parameters;
    const EsTensor *cuda = &es_policy_network_store(pair->cuda.network)->parameters;
    EsStream *stream = es_policy_network_stream(pair->cuda.network);
    float *initial = fetch(&pair->cuda, cuda, cuda->dim[1]);
    EXPECT(memcmp(initial, cpu->data, es_tensor_bytes(cpu)) == 0);
    free(initial);
    shake_parameters(&pair->cpu, 0.1f);
    REQUIRE_OK(
        es_stream_copy(stream, cuda->data, cpu->data, es_tensor_bytes(cpu), ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_synchronize(stream));
}

// --- acting ---

static EsOutputs act(PolicyCase *test, int64_t t, int is_peek) {
    const EsRolloutShape *shape = &test->rollout->shape;
    int64_t row = t * shape->n_envs;
    EsOutputs outputs;
    REQUIRE_OK(es_policy_inference_act(test->network,
                                       test->rollout->features + row * shape->n_features,
                                       test->rollout->ids + row * shape->n_ids, is_peek, &outputs));
    return outputs;
}

static void compare_health(Pair *pair) {
    EsRecurrentHealth a = es_policy_inference_health(pair->cpu.network);
    EsRecurrentHealth b = es_policy_inference_health(pair->cuda.network);
    const float cpu[] = {(float)a.h_rms, (float)a.h_env_rms_max, (float)a.c_rms,
                         (float)a.c_env_rms_max};
    const float cuda[] = {(float)b.h_rms, (float)b.h_env_rms_max, (float)b.c_rms,
                          (float)b.c_env_rms_max};
    expect_near(pair, "the recurrent state's RMS", cpu, cuda, 4);
    EXPECT(!b.has_nan && !b.has_inf);
}

static void compare_acting(Pair *pair) {
    const EsRollout *rollout = pair->cpu.rollout;
    int64_t E = rollout->shape.n_envs, S = rollout->shape.n_ids;
    int is_set = es_policy_network_spec(pair->cpu.network)->is_set;
    int64_t n_logits =
        E * (is_set ? es_choice_table_size((int32_t)S) : rollout->shape.policy.n_logits);
    float *peeked = malloc((size_t)n_logits * sizeof *peeked);
    for (int64_t t = 0; t < rollout->shape.n_steps; t++) {
        const uint8_t *is_reset = rollout->is_reset + t * E;
        REQUIRE_OK(es_policy_inference_reset(pair->cpu.network, is_reset));
        REQUIRE_OK(es_policy_inference_reset(pair->cuda.network, is_reset));
        memcpy(peeked, act(&pair->cuda, t, 1).logits, (size_t)n_logits * sizeof *peeked);
        EsOutputs cpu = act(&pair->cpu, t, 0), cuda = act(&pair->cuda, t, 0);
        expect_near(pair, "logits of acting", cpu.logits, cuda.logits, n_logits);
        expect_near(pair, "values of acting", cpu.value, cuda.value, E);
        // the peek left the state alone
        EXPECT(memcmp(peeked, cuda.logits, (size_t)n_logits * sizeof *peeked) == 0);
        compare_health(pair);
    }
    free(peeked);
}

// --- training ---

static void compare_outputs(Pair *pair, const EsOutputs *cpu, const EsOutputs *cuda) {
    const EsRollout *rollout = pair->cpu.rollout;
    int64_t R = rollout->n_rows;
    expect_near(pair, "logits", cpu->logits, cuda->logits, R * rollout->shape.policy.n_logits);
    expect_near(pair, "values", cpu->value, cuda->value, R);
    expect_near(pair, "action values", cpu->action_value, cuda->action_value, R);
    expect_near(pair, "contributions", cpu->auxiliary, cuda->auxiliary,
                R * rollout->shape.n_targets);
}

static void compare_reports(Pair *pair, const EsStepReport *a, const EsStepReport *b) {
    float cpu[ES_N_HEADS + 3], cuda[ES_N_HEADS + 3];
    for (int head = 0; head < ES_N_HEADS; head++) {
        cpu[head] = (float)a->head_norm[head];
        cuda[head] = (float)b->head_norm[head];
    }
    const double more_cpu[] = {a->gradient_norm, a->value_norm, a->action_value_norm};
    const double more_cuda[] = {b->gradient_norm, b->value_norm, b->action_value_norm};
    for (int i = 0; i < 3; i++) {
        cpu[ES_N_HEADS + i] = (float)more_cpu[i];
        cuda[ES_N_HEADS + i] = (float)more_cuda[i];
    }
    expect_near(pair, "norms of the gradient", cpu, cuda, ES_N_HEADS + 3);
    EXPECT_EQ(a->n_nonfinite, 0);
    EXPECT_EQ(b->n_nonfinite, 0);
}

// Forward and backward; parameters move by the rate, and gradients stay clipped in the stores.
static void compare_step(Pair *pair, uint32_t pass, float rate) {
    EsStepReport a, b;
    EsOutputs cpu = run_forward(&pair->cpu, pass), cuda = run_forward(&pair->cuda, pass);
    compare_outputs(pair, &cpu, &cuda);
    REQUIRE_OK(pair->cpu.model.step(pair->cpu.network, &pair->cpu.gradients, rate, 0.5f, &a));
    REQUIRE_OK(pair->cuda.model.step(pair->cuda.network, &pair->cpu.gradients, rate, 0.5f, &b));
    compare_reports(pair, &a, &b);
    expect_near_tensors("gradients", pair, &es_policy_network_store(pair->cpu.network)->gradients,
                        &es_policy_network_store(pair->cuda.network)->gradients);
}

static void compare_training(Pair *pair) {
    const EsTensor *cpu = &es_policy_network_store(pair->cpu.network)->parameters;
    const EsTensor *cuda = &es_policy_network_store(pair->cuda.network)->parameters;
    const EsOptimiser *a = es_policy_network_optimiser(pair->cpu.network);
    const EsOptimiser *b = es_policy_network_optimiser(pair->cuda.network);
    float *before = fetch(&pair->cuda, cuda, cuda->dim[1]);
    // directly, recorded, replayed: at rate 0, so that both stay with the same parameters
    for (uint32_t pass = 0; pass < 4; pass++) {
        compare_step(pair, pass, 0.0f);
    }
    float *after = fetch(&pair->cuda, cuda, cuda->dim[1]);
    EXPECT(memcmp(before, after, es_tensor_bytes(cuda)) == 0);
    free(after);
    compare_step(pair, 4, 1e-2f);
    after = fetch(&pair->cuda, cuda, cuda->dim[1]);
    EXPECT(memcmp(before, after, es_tensor_bytes(cuda)) != 0);
    free(after);
    free(before);
    expect_near_tensors("parameters", pair, cpu, cuda);
    expect_near_tensors("first moments", pair, &a->moment1, &b->moment1);
    expect_near_tensors("second moments", pair, &a->moment2, &b->moment2);
}

// A gradient that is not finite moves nothing on CUDA either.
static void expect_nothing_moves(Pair *pair) {
    const EsTensor *cuda = &es_policy_network_store(pair->cuda.network)->parameters;
    float *before = fetch(&pair->cuda, cuda, cuda->dim[1]), kept = pair->cpu.gradients.value[0];
    pair->cpu.gradients.value[0] = INFINITY;
    EsStepReport report = run_step(&pair->cuda, 5, 1e-2f, 0.5f);
    pair->cpu.gradients.value[0] = kept;
    EXPECT(report.n_nonfinite > 0);
    float *after = fetch(&pair->cuda, cuda, cuda->dim[1]);
    EXPECT(memcmp(before, after, es_tensor_bytes(cuda)) == 0);
    free(before);
    free(after);
}

// --- a whole round ---

// A policy trains on CUDA, is saved, and goes on on the CPU with equal bits.
static void expect_training_goes_on(int version) {
    static Hosts hosts;
    EsDevice *cpu = open_cpu(), *cuda;
    EsPpoReport report;
    const char *path = temp_path("policy.safetensors");
    hosts_create(&hosts, 2, 5);
    REQUIRE_OK(es_device_open("cuda", NULL, &cuda));
    EsPolicy *there = create_version(&hosts, cuda, version, 5);
    EsPolicy *here = create_version(&hosts, cpu, version, 6);
    for (int64_t round = 0; round < 3; round++) {
        hosts_play(&hosts, there, 5 * round, &report);
        EXPECT(report.n_epochs >= 1 && !report.is_skipped);
    }
    REQUIRE_OK(es_policy_training_save(there, path));
    REQUIRE_OK(es_policy_training_load(here, path));
    PolicyCase from = {.network = there->learned.network};
    const EsTensor *wanted = &es_policy_network_store(there->learned.network)->parameters;
    const EsTensor *loaded = &es_policy_network_store(here->learned.network)->parameters;
    float *numbers = fetch(&from, wanted, wanted->dim[1]);
    EXPECT(memcmp(numbers, loaded->data, es_tensor_bytes(loaded)) == 0);
    hosts_play(&hosts, here, 15, &report);
    EXPECT(report.n_epochs >= 1 && !report.is_skipped);
    free(numbers);
    es_policy_destroy(there);
    es_policy_destroy(here);
    es_device_close(cuda);
    es_device_close(cpu);
    hosts_destroy(&hosts);
}

typedef struct ParityCase {
    EsPolicySpec spec;
    int64_t n_envs, n_steps;
} ParityCase;

static void compare_case(const ParityCase *wanted) {
    Pair pair = create_pair(wanted->spec, wanted->n_envs, wanted->n_steps);
    share_parameters(&pair);
    compare_acting(&pair);
    compare_training(&pair);
    expect_nothing_moves(&pair);
    REQUIRE_OK(es_device_status(pair.cuda.device));
    printf("parity policy f32: bound 0 + %.2g, at most %.3f of it used\n", BOUND, pair.most_used);
    destroy_pair(&pair);
}

TEST(parity) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    const ParityCase cases[] = {
        {{.n_slots = 3, .n_hidden = 32, .n_features = 24, .dropout = 0.1f, .aux_stops = 1}, 19, 7},
        {{.n_slots = 1, .n_hidden = 8, .n_features = 8, .dropout = 0.5f, .aux_stops = 0}, 1, 3},
        {es_policy_spec_default(5, 136), 33, 5},
        {es_policy_spec_default(3, 512), 16, 4},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        compare_case(&cases[i]);
    }
    expect_training_goes_on(ES_OBSERVATION_VERSION);
}

// Slots as a set: gradients through the pools, the chosen slot and the variants.
TEST(set_parity) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    const ParityCase cases[] = {
        {{.n_slots = 3, .n_hidden = 32, .n_features = 27, .dropout = 0.1f, .is_set = 1}, 19, 7},
        {{.n_slots = 12, .n_hidden = 72, .n_features = 64, .aux_stops = 1, .is_set = 1}, 5, 3},
        {{.n_slots = 1, .n_hidden = 16, .n_features = 16, .dropout = 0.5f, .is_set = 1}, 9, 3},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        compare_case(&cases[i]);
    }
    expect_training_goes_on(ES_SET_OBSERVATION_VERSION);
}
