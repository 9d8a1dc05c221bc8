// Gradients of the policy network against finite differences of an independent one in double
// precision. Errors are measured against the largest gradient of the same tensor.
#include "control/policy_reference.h"

#include "control/policy_case.h"

// Half the distance of the two points of a central difference.
#define DISTANCE 1e-6

#define BOUND 2e-5

static double difference(Reference *r, const EsOutputs *gradients, double *parameter) {
    double before = *parameter;
    *parameter = before + DISTANCE;
    double above = reference_loss(r, gradients);
    *parameter = before - DISTANCE;
    double below = reference_loss(r, gradients);
    *parameter = before;
    return (above - below) / (2 * DISTANCE);
}

// Up to n_most numbers of one tensor; returns the largest error in units of its largest gradient.
static double compare_tensor(Reference *r, PolicyCase *test, const EsValue *value, int64_t n_most) {
    EsStore *store = es_policy_network_store(test->network);
    const float *sum = (const float *)store->gradients.data + value->slab_offset;
    int64_t count = es_value_count(value), stride = count > n_most ? count / n_most : 1;
    double largest = 0, error = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)sum[i]));
    }
    for (int64_t i = 0; i < count; i += stride) {
        double expected = difference(r, &test->gradients, r->parameters + value->slab_offset + i);
        error = fmax(error, fabs((double)sum[i] - expected));
    }
    if (!(largest > 0)) {
        ES_TEST_FAIL("%s has no gradient", value->name);
        return 0;
    }
    return error / largest;
}

static void compare_all(PolicyCase *test, const float *dropped, int64_t n_most, const char *only) {
    Reference r = create_reference(test->network, test->rollout);
    r.dropped = dropped;
    reference_forward(&r);
    r.is_frozen = 1;
    double worst = 0;
    for (int v = 0; v < r.graph->n_values; v++) {
        const EsValue *value = &r.graph->values[v];
        if (value->role != ES_ROLE_PARAMETER ||
            (only != NULL && strncmp(value->name, only, strlen(only)) != 0)) {
            continue;
        }
        double error = compare_tensor(&r, test, value, n_most);
        if (!(error <= BOUND)) {
            ES_TEST_FAIL("%s: gradient off by %.3g of its largest, bound %.3g", value->name, error,
                         BOUND);
        }
        worst = fmax(worst, error);
    }
    printf("largest error %.2g\n", worst);
    destroy_reference(&r);
}

static EsPolicySpec small_spec(int n_features, float dropout, int aux_stops) {
    return (EsPolicySpec){.n_slots = 2,
                          .n_hidden = 16,
                          .n_features = n_features,
                          .dropout = dropout,
                          .aux_stops = aux_stops};
}

TEST(every_tensor_with_projection) {
    PolicyCase test = create_case(small_spec(24, 0, 1), 5, 6, 1, 4);
    shake_parameters(&test, 0.2f);
    run_step(&test, 0, 0.0f, 0.0f);
    compare_all(&test, NULL, 16, NULL);
    destroy_case(&test);
}

TEST(every_tensor_without_projection) {
    PolicyCase test = create_case(small_spec(16, 0, 1), 9, 4, 1, 4);
    shake_parameters(&test, 0.2f);
    run_step(&test, 0, 0.0f, 0.0f);
    compare_all(&test, NULL, 16, NULL);
    destroy_case(&test);
}

TEST(contributions_train_the_shared_layers_when_asked_to) {
    PolicyCase test = create_case(small_spec(16, 0, 0), 5, 4, 1, 4);
    shake_parameters(&test, 0.2f);
    run_step(&test, 0, 0.0f, 0.0f);
    compare_all(&test, NULL, 16, NULL);
    destroy_case(&test);
}

// Slots as a set: one, and several.
TEST(every_tensor_of_version_2) {
    for (int n_slots = 1; n_slots <= 3; n_slots += 2) {
        EsPolicySpec spec = small_spec(24, 0, 1);
        spec.is_set = 1;
        spec.n_slots = n_slots;
        PolicyCase test = create_case(spec, 9, 8, 1, 4);
        shake_parameters(&test, 0.2f);
        run_step(&test, 0, 0.0f, 0.0f);
        compare_all(&test, NULL, 12, NULL);
        destroy_case(&test);
    }
}

TEST(contributions_of_version_2_train_the_shared_layers_when_asked_to) {
    EsPolicySpec spec = small_spec(16, 0, 0);
    spec.is_set = 1;
    PolicyCase test = create_case(spec, 5, 6, 1, 4);
    shake_parameters(&test, 0.2f);
    run_step(&test, 0, 0.0f, 0.0f);
    compare_all(&test, NULL, 12, NULL);
    destroy_case(&test);
}

// The factors that kernel_list.h documents, for the keys that policy_network.h does.
static float *dropout_factors(const PolicyCase *test, uint64_t seed, uint32_t pass) {
    const EsRollout *rollout = test->rollout;
    const EsPolicySpec *spec = es_policy_network_spec(test->network);
    int64_t T = rollout->shape.n_steps, E = rollout->shape.n_envs, half = spec->n_hidden / 2;
    int64_t N = (E + ES_POLICY_SHARDS - 1) / ES_POLICY_SHARDS;
    float *factors = calloc((size_t)(T * E * half), sizeof *factors);
    for (int64_t i = 0; i < T * E * half; i++) {
        int64_t t = i / half / E, e = i / half % E;
        uint32_t shard = (uint32_t)(e / N);
        uint32_t element = (uint32_t)((t * N + e % N) * half + i % half);
        uint32_t episode =
            es_random_draw(seed, shard, ES_PURPOSE_DROPOUT, 0, 0).word[0] & INT32_MAX;
        EsRandom4 draw = es_random_draw(0, episode, ES_PURPOSE_DROPOUT, pass, element / 4);
        int is_kept = es_random_uniform(draw.word[element % 4]) >= spec->dropout;
        factors[i] = is_kept ? 1.0f / (1.0f - spec->dropout) : 0.0f;
    }
    return factors;
}

TEST(dropout_of_a_pass) {
    PolicyCase test = create_case(small_spec(16, 0.4f, 1), 10, 3, 1, 4);
    shake_parameters(&test, 0.2f);
    run_step(&test, 5, 0.0f, 0.0f);
    float *factors = dropout_factors(&test, 7, 5);
    compare_all(&test, factors, 16, "contribution");
    free(factors);
    destroy_case(&test);
}

static void expect_outputs(EsPolicySpec spec) {
    PolicyCase test = create_case(spec, 11, 7, 1, 4);
    shake_parameters(&test, 0.2f);
    EsOutputs outputs = run_forward(&test, 0);
    Reference r = create_reference(test.network, test.rollout);
    reference_forward(&r);
    for (int64_t row = 0; row < test.rollout->n_rows; row++) {
        for (int64_t i = 0; i < r.n_logits; i++) {
            EXPECT_NEAR(outputs.logits[row * r.n_logits + i], r.logits[row * r.n_logits + i], 2e-5);
        }
        EXPECT_NEAR(outputs.value[row], r.value[row], 2e-5);
        EXPECT_NEAR(outputs.action_value[row], r.action_value[row], 2e-5);
        for (int64_t s = 0; s < r.spec.n_slots; s++) {
            EXPECT_NEAR(outputs.auxiliary[row * r.spec.n_slots + s],
                        r.contribution[row * r.spec.n_slots + s], 2e-5);
        }
    }
    destroy_reference(&r);
    destroy_case(&test);
}

TEST(outputs_are_those_of_the_equations) { expect_outputs(small_spec(24, 0, 1)); }

TEST(outputs_of_version_2_are_those_of_the_equations) {
    EsPolicySpec spec = small_spec(24, 0, 1);
    spec.is_set = 1;
    for (spec.n_slots = 1; spec.n_slots <= 12; spec.n_slots += 4) {
        expect_outputs(spec);
    }
}

TEST(through_150_steps_with_resets) {
    PolicyCase test = create_case(small_spec(16, 0, 1), 3, 150, 1, 40);
    shake_parameters(&test, 0.2f);
    run_step(&test, 0, 0.0f, 0.0f);
    compare_all(&test, NULL, 6, "lstm");
    compare_all(&test, NULL, 6, "feature");
    compare_all(&test, NULL, 6, "blueprint_embedding");
    destroy_case(&test);
}

// A loss of the last step alone, and a blueprint that was there in the first step alone: what its
// embedding gets has gone back through 149 cells. A reset on the way stops it.
static void learn_from_the_first_step(int has_reset) {
    PolicyCase test = create_case(small_spec(16, 0, 1), 1, 150, 1, 0);
    const EsGraph *graph = es_policy_network_graph(test.network);
    EsStore *store = es_policy_network_store(test.network);
    const EsValue *bias = &graph->values[es_graph_find(graph, "lstm.bias_ih")];
    // 149 forget gates of about 0.98 leave a twentieth of the signal
    for (int64_t k = 16; k < 32; k++) {
        ((float *)store->parameters.data)[bias->slab_offset + k] = 3.0f;
    }
    for (int64_t i = 0; i < test.rollout->n_rows * 2; i++) {
        test.rollout->ids[i] = i < 2 ? 12 : 1;
    }
    test.rollout->is_reset[75] = (uint8_t)has_reset;
    int64_t n_logits = test.rollout->shape.policy.n_logits, R = test.rollout->n_rows;
    memset(test.gradients.logits, 0, (size_t)((R - 1) * n_logits) * sizeof(float));
    memset(test.gradients.value, 0, (size_t)(R - 1) * sizeof(float));
    shake_parameters(&test, 0.05f);
    run_step(&test, 0, 0.0f, 0.0f);

    Reference r = create_reference(test.network, test.rollout);
    reference_forward(&r);
    r.is_frozen = 1;
    int64_t place = graph->values[es_graph_find(graph, "blueprint_embedding.table")].slab_offset;
    double largest = 0;
    for (int64_t k = 0; k < 4; k++) {
        int64_t i = place + 12 * 4 + k;
        double gradient = (double)((const float *)store->gradients.data)[i];
        double expected = difference(&r, &test.gradients, r.parameters + i);
        largest = fmax(largest, fabs(gradient));
        if (has_reset) {
            EXPECT(gradient == 0);
            EXPECT_NEAR(expected, 0, 1e-12);
        } else {
            EXPECT_NEAR(gradient, expected, 1e-3 * fabs(expected));
        }
    }
    printf("gradient of the first step %.3g\n", largest);
    EXPECT((largest > 1e-6) == !has_reset);
    destroy_reference(&r);
    destroy_case(&test);
}

TEST(the_last_step_teaches_the_first) { learn_from_the_first_step(0); }
TEST(but_not_through_a_reset) { learn_from_the_first_step(1); }
