// A policy network with a rollout of random rows, for tests.
#ifndef ES_TESTS_CONTROL_POLICY_CASE_H
#define ES_TESTS_CONTROL_POLICY_CASE_H

#include "base/random_rules.h"
#include "control/policy/policy_inference.h"
#include "control/policy/policy_training.h"
#include "es_test.h"

typedef struct PolicyCase {
    EsDevice *device;         // owned
    EsPolicyNetwork *network; // owned
    EsRollout *rollout;       // owned
    EsPpoModel model;
    EsOutputs gradients; // owned; random, for a step
} PolicyCase;

static float draw_uniform(uint32_t stream, int64_t i) {
    EsRandom4 draw = es_random_draw(20261115, stream, ES_PURPOSE_EVALUATION, 0, (uint32_t)(i / 4));
    return 2.0f * es_random_uniform(draw.word[i % 4]) - 1.0f;
}

static float *draw_floats(uint32_t stream, int64_t n, float scale) {
    float *numbers = calloc((size_t)n, sizeof *numbers);
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = scale * draw_uniform(stream, i);
    }
    return numbers;
}

static EsRolloutShape policy_rollout_shape(const EsPolicySpec *spec, int64_t n_envs,
                                           int64_t n_steps) {
    return (EsRolloutShape){.n_steps = n_steps,
                            .n_envs = n_envs,
                            .n_features = es_policy_spec_observed(spec),
                            .n_ids = spec->n_slots,
                            .n_targets = spec->n_slots,
                            .policy = es_policy_spec_shape(spec)};
}

// Random features, blueprints and operations; a row in n_between is a reset, apart from the first
// ones, which all are; 0: none.
static void fill_rollout(EsRollout *rollout, int n_between) {
    int64_t R = rollout->n_rows, D = rollout->shape.n_features, S = rollout->shape.n_ids;
    for (int64_t i = 0; i < R * D; i++) {
        rollout->features[i] = 2.0f * draw_uniform(1, i);
    }
    for (int64_t i = 0; i < R * S; i++) {
        rollout->ids[i] = (int32_t)(7.0f + 6.99f * draw_uniform(2, i));
    }
    for (int64_t r = 0; r < R; r++) {
        float chance = 0.5f + 0.5f * draw_uniform(3, r);
        rollout->is_reset[r] =
            r < rollout->shape.n_envs || (n_between > 0 && chance * (float)n_between < 1.0f);
        rollout->action[r * ES_N_HEADS + ES_HEAD_OP] = (int16_t)(3.0f + 2.99f * draw_uniform(4, r));
        rollout->action[r * ES_N_HEADS + ES_HEAD_SLOT] =
            (int16_t)((0.5f + 0.499f * draw_uniform(10, r)) * (float)S);
    }
}

static inline PolicyCase create_case(EsPolicySpec spec, int64_t n_envs, int64_t n_steps,
                                     int n_threads, int n_between) {
    PolicyCase test = {0};
    EsRolloutShape shape = policy_rollout_shape(&spec, n_envs, n_steps);
    int64_t R = n_envs * n_steps;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = n_threads}, &test.device));
    REQUIRE_OK(es_policy_network_create(test.device, &spec, n_envs, n_steps, &test.network));
    REQUIRE_OK(es_policy_network_initialise(test.network, 7));
    REQUIRE_OK(es_rollout_create(&shape, &test.rollout));
    fill_rollout(test.rollout, n_between);
    test.model = es_policy_training_model(test.network);
    test.gradients = (EsOutputs){.logits = draw_floats(5, R * shape.policy.n_logits, 1.0f),
                                 .value = draw_floats(6, R, 1.0f),
                                 .action_value = draw_floats(7, R, 1.0f),
                                 .auxiliary = draw_floats(8, R * spec.n_slots, 1.0f)};
    return test;
}

static inline void destroy_case(PolicyCase *test) {
    free(test->gradients.logits);
    free(test->gradients.value);
    free(test->gradients.action_value);
    free(test->gradients.auxiliary);
    es_rollout_destroy(test->rollout);
    es_policy_network_destroy(test->network);
    es_device_close(test->device);
}

// Widths and biases as they are after some training: initial biases are 0 and the last layers
// tiny, which would hide mistakes.
static inline void shake_parameters(PolicyCase *test, float scale) {
    EsStore *store = es_policy_network_store(test->network);
    float *parameters = store->parameters.data;
    for (int64_t i = 0; i < store->parameters.dim[1]; i++) {
        parameters[i] += scale * draw_uniform(9, i);
    }
}

static inline EsOutputs run_forward(PolicyCase *test, uint32_t pass) {
    EsOutputs outputs = {0};
    REQUIRE_OK(test->model.begin(test->network, test->rollout));
    REQUIRE_OK(test->model.forward(test->network, pass, &outputs));
    return outputs;
}

static inline EsStepReport run_step(PolicyCase *test, uint32_t pass, float rate, float max_norm) {
    EsStepReport report = {0};
    run_forward(test, pass);
    REQUIRE_OK(test->model.step(test->network, &test->gradients, rate, max_norm, &report));
    return report;
}

#endif
