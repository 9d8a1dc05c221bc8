// The policy network: sizes, initial values, acting and training on the same parameters.
#include "control/policy/policy_network.h"

#include "control/policy_case.h"

static EsPolicySpec small_spec(void) {
    return (EsPolicySpec){
        .n_slots = 3, .n_hidden = 32, .n_features = 24, .dropout = 0.1f, .aux_stops = 1};
}

static const float *find_parameter(PolicyCase *test, const char *name, const EsValue **value) {
    const EsGraph *graph = es_policy_network_graph(test->network);
    EsValueId id = es_graph_find(graph, name);
    if (id == ES_NO_VALUE) {
        printf("no parameter %s\n", name);
        exit(1);
    }
    *value = &graph->values[id];
    EsStore *store = es_policy_network_store(test->network);
    return (const float *)store->parameters.data + (*value)->slab_offset;
}

static int64_t parameter_count(PolicyCase *test) {
    return es_policy_network_store(test->network)->parameters.dim[1];
}

static float *parameters_of(PolicyCase *test) {
    return es_policy_network_store(test->network)->parameters.data;
}

// --- sizes ---

TEST(published_sizes) {
    const struct {
        int n_slots;
        int64_t count;
    } cases[] = {{1, 3969890}, {3, 4006502}, {5, 4043114}, {6, 4061420}, {10, 4134644}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsPolicySpec spec = es_policy_spec_default(cases[i].n_slots, 512);
        EXPECT_EQ(es_policy_spec_count(&spec), cases[i].count);
        EsDevice *device;
        EsPolicyNetwork *network;
        REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
        REQUIRE_OK(es_policy_network_create(device, &spec, 1, 0, &network));
        EXPECT_EQ(es_graph_parameter_count(es_policy_network_graph(network)), cases[i].count);
        es_policy_network_destroy(network);
        es_device_close(device);
    }
}

TEST(sizes_with_projection) {
    PolicyCase test = create_case(small_spec(), 4, 2, 1, 0);
    EsPolicySpec spec = small_spec();
    EXPECT_EQ(es_graph_parameter_count(es_policy_network_graph(test.network)),
              es_policy_spec_count(&spec));
    destroy_case(&test);
}

TEST(heads_stand_in_their_order) {
    EsPolicySpec spec = es_policy_spec_default(5, 64);
    EsPolicyShape shape = es_policy_spec_shape(&spec);
    const int sizes[] = {5, 13, 4, 3, 3, 4, 5, 6};
    EXPECT_EQ(shape.n_heads, 8);
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(shape.head_size[i], sizes[i]);
    }
    EXPECT_EQ(shape.n_logits, 43);
}

TEST(specs_that_make_no_network) {
    EsPolicySpec spec = es_policy_spec_default(3, 60);
    EXPECT_STATUS(es_policy_spec_check(&spec), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "multiple of 8");
    EXPECT_CONTAINS(es_status_detail(), "60");
    spec = es_policy_spec_default(17, 64);
    EXPECT_STATUS(es_policy_spec_check(&spec), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "17");
    spec = es_policy_spec_default(0, 64);
    EXPECT_STATUS(es_policy_spec_check(&spec), ARGUMENT);
    spec = es_policy_spec_default(3, 64);
    spec.dropout = 1.0f;
    EXPECT_STATUS(es_policy_spec_check(&spec), ARGUMENT);
    spec.dropout = NAN;
    EXPECT_STATUS(es_policy_spec_check(&spec), ARGUMENT);
    spec.dropout = 0;
    spec.n_features = 0;
    EsPolicyNetwork *network;
    EsDevice *device;
    REQUIRE_OK(es_device_open("cpu", NULL, &device));
    EXPECT_STATUS(es_policy_network_create(device, &spec, 4, 4, &network), ARGUMENT);
    spec.n_features = 64;
    EXPECT_STATUS(es_policy_network_create(device, &spec, 0, 4, &network), ARGUMENT);
    EXPECT(network == NULL);
    es_device_close(device);
}

// --- initial values ---

static void expect_constant(PolicyCase *test, const char *name, int64_t first, int64_t last,
                            float expected) {
    const EsValue *value;
    const float *numbers = find_parameter(test, name, &value);
    for (int64_t i = first; i < (last < 0 ? es_value_count(value) : last); i++) {
        EXPECT(numbers[i] == expected);
    }
}

// Rows or columns, whichever are fewer, are orthogonal and have the length `gain`.
static void expect_orthogonal(PolicyCase *test, const char *name, double gain) {
    const EsValue *value;
    const float *w = find_parameter(test, name, &value);
    int64_t rows = value->dim[1], columns = value->dim[2], n = ES_MIN(rows, columns);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = 0; k < ES_MAX(rows, columns); k++) {
                sum += rows >= columns ? (double)w[k * columns + i] * (double)w[k * columns + j]
                                       : (double)w[i * columns + k] * (double)w[j * columns + k];
            }
            EXPECT_NEAR(sum, i == j ? gain * gain : 0, 1e-5 * gain * gain);
        }
    }
}

TEST(initial_values) {
    PolicyCase test = create_case(small_spec(), 4, 2, 1, 0);
    expect_orthogonal(&test, "feature.weight", sqrt(2));
    expect_orthogonal(&test, "projection.weight", sqrt(2));
    expect_orthogonal(&test, "lstm.weight_ih", 1);
    expect_orthogonal(&test, "lstm.weight_hh", 1);
    expect_orthogonal(&test, "head.blueprint.linear1.weight", sqrt(2));
    expect_orthogonal(&test, "head.blueprint.linear2.weight", 0.01);
    expect_orthogonal(&test, "head.op.linear1.weight", 0.01);
    expect_orthogonal(&test, "value.linear3.weight", 0.1);
    expect_orthogonal(&test, "action_value.linear0.weight", sqrt(2));
    expect_orthogonal(&test, "action_value.linear3.weight", 0.1);
    expect_orthogonal(&test, "contribution.linear2.weight", 0.1);
    expect_constant(&test, "feature.bias", 0, -1, 0);
    expect_constant(&test, "contribution.linear1.bias", 0, -1, 0);
    expect_constant(&test, "contribution.norm0.gamma", 0, -1, 1);
    const char *const biases[] = {"lstm.bias_ih", "lstm.bias_hh"};
    for (int i = 0; i < 2; i++) {
        expect_constant(&test, biases[i], 0, 32, 0);
        expect_constant(&test, biases[i], 32, 64, 1);
        expect_constant(&test, biases[i], 64, -1, 0);
    }
    const EsValue *value;
    const float *table = find_parameter(&test, "blueprint_embedding.table", &value);
    double squares = 0;
    for (int i = 0; i < 56; i++) {
        squares += (double)table[i] * (double)table[i];
    }
    // the deviation of 56 draws is within 4 standard errors of 0.02
    EXPECT_NEAR(sqrt(squares / 56), 0.02, 0.02 * 4 / sqrt(2 * 56));
    destroy_case(&test);
}

TEST(a_network_that_only_acts_starts_alike) {
    PolicyCase test = create_case(small_spec(), 4, 2, 1, 0);
    EsPolicySpec spec = small_spec();
    EsPolicyNetwork *actor;
    REQUIRE_OK(es_policy_network_create(test.device, &spec, 7, 0, &actor));
    REQUIRE_OK(es_policy_network_initialise(actor, 7));
    EXPECT(es_policy_network_optimiser(actor) == NULL);
    EXPECT(memcmp(es_policy_network_store(actor)->parameters.data, parameters_of(&test),
                  (size_t)parameter_count(&test) * sizeof(float)) == 0);
    REQUIRE_OK(es_policy_network_initialise(actor, 8));
    EXPECT(memcmp(es_policy_network_store(actor)->parameters.data, parameters_of(&test),
                  (size_t)parameter_count(&test) * sizeof(float)) != 0);
    es_policy_network_destroy(actor);
    destroy_case(&test);
}

// --- acting ---

// Act through the rollout, step by step, with its resets.
static void act_through(PolicyCase *test, float *logits, float *values) {
    const EsRolloutShape *shape = &test->rollout->shape;
    int64_t E = shape->n_envs, A = shape->policy.n_logits;
    for (int64_t t = 0; t < shape->n_steps; t++) {
        EsOutputs outputs;
        REQUIRE_OK(es_policy_inference_reset(test->network, test->rollout->is_reset + t * E));
        REQUIRE_OK(es_policy_inference_act(test->network,
                                           test->rollout->features + t * E * shape->n_features,
                                           test->rollout->ids + t * E * shape->n_ids, 0, &outputs));
        memcpy(logits + t * E * A, outputs.logits, (size_t)(E * A) * sizeof(float));
        memcpy(values + t * E, outputs.value, (size_t)E * sizeof(float));
    }
}

static void expect_acting_as_trained(EsPolicySpec spec, int64_t n_envs, int64_t n_steps) {
    PolicyCase test = create_case(spec, n_envs, n_steps, 2, 5);
    shake_parameters(&test, 0.2f);
    int64_t n_logits = test.rollout->n_rows * test.rollout->shape.policy.n_logits;
    float *logits = calloc((size_t)n_logits, sizeof *logits);
    float *values = calloc((size_t)test.rollout->n_rows, sizeof *values);
    act_through(&test, logits, values);
    EsOutputs outputs = run_forward(&test, 3);
    EXPECT(memcmp(logits, outputs.logits, (size_t)n_logits * sizeof *logits) == 0);
    EXPECT(memcmp(values, outputs.value, (size_t)test.rollout->n_rows * sizeof *values) == 0);
    for (int64_t i = 0; i < n_logits; i++) {
        EXPECT_NEAR(logits[i], outputs.logits[i], 0);
    }
    free(logits);
    free(values);
    destroy_case(&test);
}

// bit for bit, for numbers of environments that fill the shards and such that do not
TEST(acting_and_training_agree) {
    expect_acting_as_trained(small_spec(), 5, 9);
    expect_acting_as_trained(small_spec(), 1, 3);
    expect_acting_as_trained(small_spec(), 16, 9);
    expect_acting_as_trained(es_policy_spec_default(2, 136), 33, 4);
}

TEST(an_environment_does_not_depend_on_the_others) {
    PolicyCase wide = create_case(small_spec(), 12, 4, 1, 0);
    EsPolicySpec spec = small_spec();
    EsPolicyNetwork *alone;
    REQUIRE_OK(es_policy_network_create(wide.device, &spec, 1, 0, &alone));
    REQUIRE_OK(es_policy_network_initialise(alone, 7));
    int64_t D = wide.rollout->shape.n_features, S = 3, A = wide.rollout->shape.policy.n_logits;
    for (int64_t t = 0; t < 4; t++) {
        EsOutputs all, one;
        const float *features = wide.rollout->features + t * 12 * D;
        const int32_t *ids = wide.rollout->ids + t * 12 * S;
        REQUIRE_OK(es_policy_inference_act(wide.network, features, ids, 0, &all));
        REQUIRE_OK(es_policy_inference_act(alone, features + 7 * D, ids + 7 * S, 0, &one));
        EXPECT(memcmp(all.logits + 7 * A, one.logits, (size_t)A * sizeof(float)) == 0);
        EXPECT(all.value[7] == one.value[0]);
    }
    es_policy_network_destroy(alone);
    destroy_case(&wide);
}

TEST(a_peek_leaves_the_state_alone) {
    PolicyCase test = create_case(small_spec(), 4, 3, 1, 0);
    EsOutputs outputs;
    const float *features = test.rollout->features;
    const int32_t *ids = test.rollout->ids;
    REQUIRE_OK(es_policy_inference_act(test.network, features, ids, 0, &outputs));
    REQUIRE_OK(es_policy_inference_act(test.network, features, ids, 1, &outputs));
    float peeked[4], again[4];
    memcpy(peeked, outputs.value, sizeof peeked);
    REQUIRE_OK(es_policy_inference_act(test.network, features, ids, 0, &outputs));
    memcpy(again, outputs.value, sizeof again);
    EXPECT(memcmp(peeked, again, sizeof peeked) == 0);
    EXPECT(outputs.action_value == NULL && outputs.auxiliary == NULL);
    REQUIRE_OK(es_policy_inference_act(test.network, features, ids, 0, &outputs));
    EXPECT(memcmp(peeked, outputs.value, sizeof peeked) != 0);
    destroy_case(&test);
}

// From device memory to device memory, on a stream of the caller's, with resets in a mask: the same
// bits.
TEST(queued_acting_is_acting) {
    PolicyCase here = create_case(small_spec(), 9, 6, 1, 3);
    PolicyCase there = create_case(small_spec(), 9, 6, 1, 3);
    const EsRolloutShape *shape = &here.rollout->shape;
    EsPolicyInputs inputs = es_policy_inference_inputs(there.network);
    EsStream *stream = NULL;
    REQUIRE_OK(es_stream_create(there.device, &stream));
    int n_reset = 0;
    for (int64_t t = 0; t < shape->n_steps; t++) {
        const uint8_t *is_reset = here.rollout->is_reset + t * shape->n_envs;
        const float *features = here.rollout->features + t * shape->n_envs * shape->n_features;
        const int32_t *ids = here.rollout->ids + t * shape->n_envs * shape->n_ids;
        const float *logits, *value;
        EsOutputs outputs;
        for (int64_t e = 0; t > 0 && e < shape->n_envs; e++) {
            n_reset += is_reset[e];
        }
        REQUIRE_OK(es_policy_inference_reset(here.network, is_reset));
        REQUIRE_OK(es_policy_inference_act(here.network, features, ids, 0, &outputs));
        memcpy(inputs.features, features,
               sizeof(float) * (size_t)(shape->n_envs * shape->n_features));
        memcpy(inputs.blueprints, ids, sizeof(int32_t) * (size_t)(shape->n_envs * shape->n_ids));
        REQUIRE_OK(
            es_policy_inference_act_queued(there.network, stream, is_reset, &logits, &value));
        REQUIRE_OK(es_stream_synchronize(stream));
        EXPECT(memcmp(logits, outputs.logits,
                      sizeof(float) * (size_t)(shape->n_envs * shape->policy.n_logits)) == 0);
        EXPECT(memcmp(value, outputs.value, sizeof(float) * (size_t)shape->n_envs) == 0);
    }
    EXPECT(n_reset > 0);
    es_stream_destroy(stream);
    destroy_case(&here);
    destroy_case(&there);
}

TEST(acting_allocates_nothing) {
    PolicyCase test = create_case(small_spec(), 6, 3, 2, 0);
    EsOutputs outputs;
    int64_t before = es_device_counters(test.device).n_allocations;
    for (int i = 0; i < 20; i++) {
        REQUIRE_OK(es_policy_inference_act(test.network, test.rollout->features, test.rollout->ids,
                                           i % 3 == 0, &outputs));
        REQUIRE_OK(es_policy_inference_reset(test.network, test.rollout->is_reset));
    }
    run_step(&test, 0, 1e-3f, 1.0f);
    EXPECT_EQ(es_device_counters(test.device).n_allocations, before);
    destroy_case(&test);
}

TEST(health_of_the_state) {
    PolicyCase test = create_case(small_spec(), 3, 3, 1, 0);
    EsOutputs outputs;
    EsRecurrentHealth health = es_policy_inference_health(test.network);
    EXPECT(health.h_rms == 0 && health.c_env_rms_max == 0 && !health.has_nan && !health.has_inf);
    int64_t D = test.rollout->shape.n_features;
    REQUIRE_OK(es_policy_inference_act(test.network, test.rollout->features, test.rollout->ids, 0,
                                       &outputs));
    health = es_policy_inference_health(test.network);
    EXPECT(health.h_rms > 0 && health.h_rms < 1);
    EXPECT(health.c_rms > health.h_rms && health.c_env_rms_max >= health.c_rms);
    uint8_t is_reset[3] = {1, 0, 1};
    REQUIRE_OK(es_policy_inference_reset(test.network, is_reset));
    EsRecurrentHealth one = es_policy_inference_health(test.network);
    // one environment of three is left
    EXPECT_NEAR(one.h_rms * sqrt(3), one.h_env_rms_max, 1e-12);
    float *broken = draw_floats(1, 3 * D, 1.0f);
    broken[D] = NAN;
    REQUIRE_OK(es_policy_inference_act(test.network, broken, test.rollout->ids, 0, &outputs));
    EXPECT(es_policy_inference_health(test.network).has_nan);
    free(broken);
    destroy_case(&test);
}

// --- training ---

TEST(dropout_draws_anew_in_each_pass) {
    PolicyCase test = create_case(small_spec(), 5, 4, 1, 0);
    shake_parameters(&test, 0.2f);
    size_t bytes = (size_t)(test.rollout->n_rows * 3) * sizeof(float);
    size_t logit_bytes =
        (size_t)(test.rollout->n_rows * test.rollout->shape.policy.n_logits) * sizeof(float);
    float *first = malloc(bytes), *logits = malloc(logit_bytes);
    EsOutputs outputs = run_forward(&test, 1);
    memcpy(first, outputs.auxiliary, bytes);
    memcpy(logits, outputs.logits, logit_bytes);
    outputs = run_forward(&test, 2);
    EXPECT(memcmp(first, outputs.auxiliary, bytes) != 0);
    EXPECT(memcmp(logits, outputs.logits, logit_bytes) == 0);
    outputs = run_forward(&test, 1);
    EXPECT(memcmp(first, outputs.auxiliary, bytes) == 0);
    free(first);
    free(logits);
    destroy_case(&test);
}

// Parameters after three steps with some number of threads.
static float *train(int64_t n_envs, int n_threads, int64_t *n) {
    PolicyCase test = create_case(small_spec(), n_envs, 7, n_threads, 5);
    for (uint32_t pass = 0; pass < 3; pass++) {
        run_step(&test, pass, 1e-2f, 0.5f);
    }
    *n = parameter_count(&test);
    float *parameters = malloc((size_t)*n * sizeof *parameters);
    memcpy(parameters, parameters_of(&test), (size_t)*n * sizeof *parameters);
    destroy_case(&test);
    return parameters;
}

TEST(threads_do_not_show) {
    const int64_t n_envs[] = {1, 5, 8, 19};
    for (size_t i = 0; i < ES_COUNT_OF(n_envs); i++) {
        int64_t n;
        float *one = train(n_envs[i], 1, &n), *again = train(n_envs[i], 1, &n);
        float *three = train(n_envs[i], 3, &n);
        EXPECT(memcmp(one, again, (size_t)n * sizeof *one) == 0);
        EXPECT(memcmp(one, three, (size_t)n * sizeof *one) == 0);
        free(one);
        free(again);
        free(three);
    }
}

// Adam's first step moves each parameter by rate g / (|g| + epsilon), g after clipping.
TEST(a_step_is_adams) {
    PolicyCase test = create_case(small_spec(), 5, 4, 1, 3);
    int64_t n = parameter_count(&test);
    float *before = malloc((size_t)n * sizeof *before);
    memcpy(before, parameters_of(&test), (size_t)n * sizeof *before);
    EsStepReport report = run_step(&test, 0, 1e-2f, 0.25f);
    EXPECT(report.gradient_norm > 0.25);
    EXPECT_EQ(report.n_nonfinite, 0);
    const float *gradient = es_policy_network_store(test.network)->gradients.data;
    double squares = 0;
    for (int64_t i = 0; i < n; i++) {
        double g = (double)gradient[i];
        squares += g * g;
        EXPECT_NEAR(parameters_of(&test)[i] - before[i], -1e-2 * g / (fabs(g) + 1e-5), 1e-6);
    }
    EXPECT_NEAR(sqrt(squares), 0.25, 1e-6);
    free(before);
    destroy_case(&test);
}

TEST(norms_of_the_heads) {
    PolicyCase test = create_case(small_spec(), 5, 4, 1, 3);
    EsStepReport all = run_step(&test, 0, 0.0f, 0.0f);
    double squares = 0;
    for (int head = 0; head < ES_N_HEADS; head++) {
        EXPECT(all.head_norm[head] > 0);
        squares += all.head_norm[head] * all.head_norm[head];
    }
    EXPECT(all.value_norm > 0 && all.action_value_norm > 0);
    squares += all.value_norm * all.value_norm + all.action_value_norm * all.action_value_norm;
    EXPECT(sqrt(squares) < all.gradient_norm);

    // only the tempo head's logits have gradients
    int64_t A = test.rollout->shape.policy.n_logits, first = 3 + 13 + 4;
    for (int64_t i = 0; i < test.rollout->n_rows * A; i++) {
        if (i % A < first || i % A >= first + 3) {
            test.gradients.logits[i] = 0;
        }
    }
    EsOutputs tempo = {.logits = test.gradients.logits};
    EsStepReport report;
    run_forward(&test, 0);
    REQUIRE_OK(test.model.step(test.network, &tempo, 0.0f, 0.0f, &report));
    for (int head = 0; head < ES_N_HEADS; head++) {
        EXPECT((report.head_norm[head] > 0) == (head == ES_HEAD_TEMPO));
    }
    EXPECT_NEAR(report.head_norm[ES_HEAD_TEMPO], all.head_norm[ES_HEAD_TEMPO], 1e-9);
    EXPECT(report.value_norm == 0 && report.action_value_norm == 0);
    EXPECT(report.gradient_norm > report.head_norm[ES_HEAD_TEMPO]);
    destroy_case(&test);
}

TEST(a_gradient_that_is_not_finite_moves_nothing) {
    PolicyCase test = create_case(small_spec(), 5, 4, 1, 3);
    int64_t n = parameter_count(&test);
    float *before = malloc((size_t)n * sizeof *before);
    run_step(&test, 0, 1e-2f, 0.5f);
    memcpy(before, parameters_of(&test), (size_t)n * sizeof *before);
    float kept = test.gradients.value[3];
    test.gradients.value[3] = INFINITY;
    EsStepReport report = run_step(&test, 1, 1e-2f, 0.5f);
    EXPECT(report.n_nonfinite > 0);
    EXPECT(memcmp(before, parameters_of(&test), (size_t)n * sizeof *before) == 0);
    test.gradients.value[3] = kept;
    EXPECT_EQ(run_step(&test, 2, 1e-2f, 0.5f).n_nonfinite, 0);
    for (int64_t i = 0; i < n; i++) {
        EXPECT(isfinite(parameters_of(&test)[i]));
    }
    EXPECT_EQ(*(const int32_t *)es_policy_network_optimiser(test.network)->n_steps.data, 2);
    free(before);
    destroy_case(&test);
}

TEST(calls_out_of_turn) {
    PolicyCase test = create_case(small_spec(), 5, 4, 1, 3);
    EsOutputs outputs;
    EsStepReport report;
    EXPECT_STATUS(test.model.forward(test.network, 0, &outputs), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "begin");
    EXPECT_STATUS(test.model.step(test.network, &test.gradients, 0.1f, 1, &report), ARGUMENT);
    run_step(&test, 0, 0.0f, 1.0f);
    EXPECT_STATUS(test.model.step(test.network, &test.gradients, 0.1f, 1, &report), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "forward");
    EsRolloutShape shape = test.rollout->shape;
    shape.n_steps = 5;
    EsRollout *longer;
    REQUIRE_OK(es_rollout_create(&shape, &longer));
    EXPECT_STATUS(test.model.begin(test.network, longer), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "5 steps");
    es_rollout_destroy(longer);
    destroy_case(&test);
}

// Say at the end which sign feature 0 had in the first step: only memory can.
TEST(it_learns_to_remember) {
    EsPolicySpec spec = es_policy_spec_default(1, 16);
    const int64_t E = 32, T = 8;
    PolicyCase test = create_case(spec, E, T, 2, 0);
    int64_t D = test.rollout->shape.n_features;
    for (int64_t i = 0; i < test.rollout->n_rows * D; i++) {
        int is_told = i < E * D && i % D == 0;
        test.rollout->features[i] =
            is_told ? (i / D % 2 == 0 ? 1.0f : -1.0f) : 0.3f * draw_uniform(11, i);
    }
    double first = 0, last = 0;
    for (uint32_t pass = 0; pass < 150; pass++) {
        EsOutputs outputs = run_forward(&test, pass), gradients = {.value = test.gradients.value};
        double loss = 0;
        memset(gradients.value, 0, (size_t)(T * E) * sizeof(float));
        for (int64_t e = 0; e < E; e++) {
            int64_t row = (T - 1) * E + e;
            float error = outputs.value[row] - (e % 2 == 0 ? 1.0f : -1.0f);
            loss += (double)(error * error) / (double)E;
            gradients.value[row] = 2.0f * error / (float)E;
        }
        first = pass == 0 ? loss : first;
        last = loss;
        EsStepReport report;
        REQUIRE_OK(test.model.step(test.network, &gradients, 3e-3f, 5.0f, &report));
    }
    printf("squared error %.3g at first, %.3g after 150 steps\n", first, last);
    EXPECT(first > 0.5);
    EXPECT(last < 0.01);
    destroy_case(&test);
}
