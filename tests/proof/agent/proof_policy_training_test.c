// A proof policy in training: gradients, bits, and what PPO finds in the first pass.
#include "proof/agent/proof_policy_internal.h"
#include "proof/proof_episodes.h"
#include "proof/proof_policy_case.h"
#include "proof/proof_policy_reference.h"
#include "temp_folder.h"

enum { N_ENVS = 7, N_STEPS = 3, STATES_MAX = 1000 };

typedef struct TrainingCase {
    PolicyCase policy;
    EsProofPolicyTraining *training;
    EsRollout *rollout;
    Episodes *episodes;
} TrainingCase;

static TrainingCase make_training(const EsProofPolicySettings *settings, int n_envs, int n_steps,
                                  int n_threads) {
    TrainingCase test = {.policy = make_case(settings, 30, n_threads)};
    EsRolloutShape shape = es_proof_rollout_shape(n_steps, n_envs, EPISODES_STATES);
    REQUIRE_OK(es_proof_policy_training_create(test.policy.policy, &test.training));
    REQUIRE_OK(es_rollout_create(&shape, &test.rollout));
    test.episodes = episodes_create(test.policy.graph, n_envs, ES_GOAL_CONSTRAINED, 6);
    return test;
}

static void destroy_training(TrainingCase *test) {
    episodes_destroy(test->episodes);
    es_rollout_destroy(test->rollout);
    es_proof_policy_training_destroy(test->training);
    destroy_case(&test->policy);
}

static void episodes_rollout(TrainingCase *test) {
    EsRollout *r = test->rollout;
    int32_t action[EPISODES_ENVS_MAX];
    es_rollout_reset(r);
    es_proof_policy_training_reset(test->training);
    for (int64_t t = 0; t < r->shape.n_steps; t++) {
        EsProofChoices choices = episodes_choices(test->episodes);
        REQUIRE_OK(es_proof_policy_training_act(test->training, &choices, 9, test->episodes->key, r,
                                                t, action));
        episodes_step(test->episodes, action);
        for (int64_t e = 0; e < r->shape.n_envs; e++) {
            int64_t row = es_rollout_row(r, t, e);
            r->reward[row] = test->episodes->reward[e];
            r->is_done[row] = test->episodes->is_done[e];
            r->is_valid[row] = 1;
        }
    }
    EsProofChoices choices = episodes_choices(test->episodes);
    float value[EPISODES_ENVS_MAX];
    REQUIRE_OK(es_proof_policy_training_values(test->training, &choices, value));
    memcpy(r->bootstrap + es_rollout_row(r, r->shape.n_steps - 1, 0), value,
           sizeof *value * (size_t)r->shape.n_envs);
}

// --- gradients ---

// Factor of an output: a function of its place.
static double factor(int64_t i) { return sin(1.7 * (double)i + 0.3); }

// sum of factor times logit and value over all rows, in double
static double reference_loss(const Reference *reference, const EsProofPolicyTraining *t) {
    const EsGoalTable *goals = &t->scorer->cache->goals;
    static double encoding[STATES_MAX][REFERENCE_WIDTH_MAX], value[STATES_MAX];
    double sum = 0;
    if (goals->count > STATES_MAX) {
        exit(1);
    }
    for (int32_t i = 0; i < goals->count; i++) {
        EsAtomSpan state = es_goal_table_at(goals, i);
        // its query stands behind it; here there is none
        state.count -= t->policy->settings.encoder == ES_PROOF_ENCODER_STRUCTURE;
        reference_encode(reference, state, ES_GOAL_CONSTRAINED, encoding[i]);
        value[i] = reference_value(reference, state, ES_GOAL_CONSTRAINED);
    }
    for (int64_t row = 0; row < t->n_rows; row++) {
        int32_t state = t->row_state[row];
        int has_choice = t->row_first[row + 1] - t->row_first[row] > 1;
        sum += factor(-1 - row) * value[state];
        for (int64_t k = t->row_first[row]; k < t->row_first[row + 1] && has_choice; k++) {
            sum +=
                factor(k) * reference_logit(reference, encoding[state], encoding[t->successor[k]]);
        }
    }
    return sum;
}

static EsOutputs make_outputs(const EsProofPolicyTraining *t) {
    return (EsOutputs){.logits = calloc((size_t)t->row_first[t->n_rows] + 1, sizeof(float)),
                       .value = calloc((size_t)t->n_rows, sizeof(float))};
}

static void free_outputs(EsOutputs *outputs) {
    free(outputs->logits);
    free(outputs->value);
}

static void run_backward(TrainingCase *test) {
    EsProofPolicyTraining *t = test->training;
    EsPpoModel interface = es_proof_policy_training_model(t);
    EsOutputs outputs = make_outputs(t), gradients = make_outputs(t);
    for (int64_t k = 0; k < t->row_first[t->n_rows]; k++) {
        gradients.logits[k] = (float)factor(k);
    }
    for (int64_t row = 0; row < t->n_rows; row++) {
        gradients.value[row] = (float)factor(-1 - row);
    }
    REQUIRE_OK(interface.begin(t, test->rollout));
    REQUIRE_OK(interface.forward(t, 0, &outputs));
    REQUIRE_OK(es_proof_policy_training_backward(t, &gradients));
    free_outputs(&outputs);
    free_outputs(&gradients);
}

// Every parameter whose gradient is not 0, and some of the others, by central differences.
static void check_gradients(const EsProofPolicySettings *settings) {
    TrainingCase test = make_training(settings, N_ENVS, N_STEPS, 1);
    const EsProofPolicy *policy = test.policy.policy;
    // biases and shifts that are exactly 0 put units of a small network on the kink of a ReLU
    for (int64_t i = 0; i < policy->n_layers; i++) {
        ((float *)policy->store->parameters.data)[i] += 0.1f * (float)factor(i);
    }
    episodes_rollout(&test);
    run_backward(&test);
    const float *gradient = policy->store->gradients.data;
    Reference reference = reference_create(policy);
    for (int v = 0; v < policy->layout->n_values; v++) {
        const EsValue *value = &policy->layout->values[v];
        double worst = 0, largest = 0;
        for (int64_t i = 0; i < es_value_count(value); i++) {
            int64_t at = value->slab_offset + i;
            if (gradient[at] == 0 && i % 97 != 1) {
                continue;
            }
            double kept = reference.parameters[at], size = 1e-6;
            reference.parameters[at] = kept + size;
            double above = reference_loss(&reference, test.training);
            reference.parameters[at] = kept - size;
            double below = reference_loss(&reference, test.training);
            reference.parameters[at] = kept;
            double wanted = (above - below) / (2 * size);
            worst = fmax(worst, fabs(wanted - (double)gradient[at]));
            largest = fmax(largest, fabs(wanted));
        }
        if (!(worst <= 2e-5 * fmax(1, largest))) {
            ES_TEST_FAIL("%s: off by %g, the largest is %g", value->name, worst, largest);
        }
        EXPECT(largest > 0);
    }
    free(reference.parameters);
    destroy_training(&test);
}

TEST(gradients_with_a_shared_body) {
    EsProofPolicySettings settings = small_settings(3, 7, 2);
    check_gradients(&settings);
}

TEST(gradients_with_two_bodies_and_sums) {
    EsProofPolicySettings settings = small_settings(5, 6, 1);
    settings.separate_value = 1;
    settings.embedder = ES_PROOF_EMBEDDER_SUM;
    check_gradients(&settings);
}

TEST(gradients_without_lengths) {
    EsProofPolicySettings settings = small_settings(2, 9, 0);
    settings.l2 = 0;
    settings.temperature = 2;
    check_gradients(&settings);
}

TEST(gradients_by_structure) {
    EsProofPolicySettings settings = small_settings(3, 7, 1);
    settings.encoder = ES_PROOF_ENCODER_STRUCTURE;
    check_gradients(&settings);
    settings.separate_value = 1;
    check_gradients(&settings);
}

// --- acting and learning agree ---

TEST(the_first_pass_finds_what_acting_saw) {
    EsProofPolicySettings settings = small_settings(16, 24, 2);
    TrainingCase test = make_training(&settings, 32, 12, 1);
    EsProofPolicyTraining *t = test.training;
    episodes_rollout(&test);
    EsPpoModel interface = es_proof_policy_training_model(t);
    EsOutputs kept = make_outputs(t), computed = make_outputs(t);
    REQUIRE_OK(interface.begin(t, test.rollout));
    int64_t n_encoded = es_proof_policy_training_counters(t).n_encoded;
    REQUIRE_OK(interface.forward(t, 0, &kept));
    EXPECT_EQ(es_proof_policy_training_counters(t).n_encoded, n_encoded);
    EXPECT_EQ(memcmp(kept.value, test.rollout->value, sizeof(float) * (size_t)t->n_rows), 0);
    // the same once more from the weights
    test.policy.policy->version++;
    computed.value[0] = 99;
    REQUIRE_OK(interface.forward(t, 1, &computed));
    EXPECT(es_proof_policy_training_counters(t).n_encoded > n_encoded);
    EXPECT_EQ(memcmp(kept.value, computed.value, sizeof(float) * (size_t)t->n_rows), 0);
    EXPECT_EQ(memcmp(kept.logits, computed.logits, sizeof(float) * (size_t)t->row_first[t->n_rows]),
              0);
    EsProofPolicyTrainingCounters counters = es_proof_policy_training_counters(t);
    EXPECT(counters.n_states < counters.n_rows + counters.n_successors);
    free_outputs(&kept);
    free_outputs(&computed);
    destroy_training(&test);
}

TEST(the_first_step_of_an_update_starts_at_ratio_one) {
    EsProofPolicySettings settings = small_settings(16, 24, 1);
    TrainingCase test = make_training(&settings, 16, 8, 1);
    EsPpoSettings ppo_settings = es_ppo_defaults();
    ppo_settings.n_epochs = 1;
    EsPpo *ppo = NULL;
    EsPpoReport report;
    REQUIRE_OK(es_ppo_create(&ppo_settings, &test.rollout->shape, &ppo));
    EsPpoModel interface = es_proof_policy_training_model(test.training);
    for (int round = 0; round < 3; round++) {
        episodes_rollout(&test);
        REQUIRE_OK(es_ppo_update(ppo, test.rollout, &interface, &report));
        EXPECT_NEAR(report.kl_divergence, 0, 1e-6);
        EXPECT_NEAR(report.ratio_mean, 1, 1e-6);
        EXPECT_NEAR(report.ratio_std, 0, 1e-6);
        EXPECT(report.gradient_norm > 0 && report.head_norm[0] > 0 && report.value_norm > 0);
        EXPECT(report.gradient_norm > report.head_norm[0]);
        EXPECT_EQ(report.n_epochs, 1);
    }
    es_ppo_destroy(ppo);
    destroy_training(&test);
}

// --- bits ---

// Two rounds of playing and learning; returns the weights, which the caller frees.
static float *train(const EsProofPolicySettings *settings, int n_threads, const char *pause_path) {
    TrainingCase test = make_training(settings, 16, 12, n_threads);
    EsPpoSettings ppo_settings = es_ppo_defaults();
    EsPpo *ppo = NULL;
    EsPpoReport report;
    REQUIRE_OK(es_ppo_create(&ppo_settings, &test.rollout->shape, &ppo));
    for (int round = 0; round < 2; round++) {
        EsPpoModel interface = es_proof_policy_training_model(test.training);
        episodes_rollout(&test);
        REQUIRE_OK(es_ppo_update(ppo, test.rollout, &interface, &report));
        if (pause_path != NULL && round == 0) {
            REQUIRE_OK(es_proof_policy_training_save(test.training, pause_path));
            es_proof_policy_training_destroy(test.training);
            memset(test.policy.policy->store->parameters.data, 0, 64);
            REQUIRE_OK(es_proof_policy_training_create(test.policy.policy, &test.training));
            REQUIRE_OK(es_proof_policy_training_load(test.training, pause_path));
        }
    }
    const EsTensor *parameters = &test.policy.policy->store->parameters;
    float *weights = malloc(es_tensor_bytes(parameters));
    memcpy(weights, parameters->data, es_tensor_bytes(parameters));
    for (int e = 0; e < settings->embed && settings->encoder == ES_PROOF_ENCODER_NAMES; e++) {
        EXPECT(weights[test.policy.policy->constants + e] == 0);
        EXPECT(weights[test.policy.policy->predicates + e] == 0);
    }
    es_ppo_destroy(ppo);
    destroy_training(&test);
    return weights;
}

static void compare_training(EsProofEncoder encoder) {
    EsProofPolicySettings settings = small_settings(20, 24, 2);
    settings.separate_value = 1;
    settings.encoder = encoder;
    const char *path = temp_path("training.safetensors");
    PolicyCase fresh = make_case(&settings, 30, 1);
    size_t bytes = es_tensor_bytes(&fresh.policy->store->parameters);
    float *one = train(&settings, 1, NULL);
    float *two = train(&settings, 2, NULL), *three = train(&settings, 3, NULL);
    float *paused = train(&settings, 1, path);
    EXPECT(memcmp(one, es_proof_policy_parameters(fresh.policy), bytes) != 0);
    EXPECT_EQ(memcmp(one, two, bytes), 0);
    EXPECT_EQ(memcmp(one, three, bytes), 0);
    EXPECT_EQ(memcmp(one, paused, bytes), 0);
    // a checkpoint of training serves as a policy
    EsProofPolicy *policy = NULL;
    REQUIRE_OK(es_proof_policy_file_load(fresh.device, fresh.graph, path, &policy));
    es_proof_policy_destroy(policy);
    free(one);
    free(two);
    free(three);
    free(paused);
    destroy_case(&fresh);
}

TEST(threads_and_pauses_change_nothing) {
    compare_training(ES_PROOF_ENCODER_NAMES);
    compare_training(ES_PROOF_ENCODER_STRUCTURE);
}

TEST(rows_that_are_not_those_of_the_rollout_are_refused) {
    EsProofPolicySettings settings = small_settings(4, 4, 1);
    TrainingCase test = make_training(&settings, N_ENVS, N_STEPS, 1);
    episodes_rollout(&test);
    EsPpoModel interface = es_proof_policy_training_model(test.training);
    EXPECT_STATUS(interface.begin(test.training, test.rollout), OK);
    test.rollout->first_logit[3]++;
    EXPECT_STATUS(interface.begin(test.training, test.rollout), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "row 3");
    es_proof_policy_training_reset(test.training);
    EXPECT_STATUS(interface.begin(test.training, test.rollout), ARGUMENT);
    // another selection within a rollout
    int32_t action[N_ENVS];
    EsProofChoices choices = episodes_choices(test.episodes);
    REQUIRE_OK(
        es_proof_policy_training_act(test.training, &choices, 9, NULL, test.rollout, 0, action));
    choices.selection = ES_GOAL_LEFTMOST;
    EXPECT_STATUS(
        es_proof_policy_training_act(test.training, &choices, 9, NULL, test.rollout, 1, action),
        ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "selected in another way");
    // more successors than the shape has room for
    es_proof_policy_training_reset(test.training);
    test.rollout->shape.policy.n_logits = 1;
    EXPECT_STATUS(
        es_proof_policy_training_act(test.training, &choices, 9, NULL, test.rollout, 0, action),
        ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "successors, must be 1 to 1");
    destroy_training(&test);
}
