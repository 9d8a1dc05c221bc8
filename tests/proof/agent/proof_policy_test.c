// The network of a proof policy against a reference in double, and what must not change its bits.
#include "proof/agent/proof_policy.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/agent/proof_policy_network.h"
#include "proof/proof_episodes.h"
#include "proof/proof_policy_case.h"
#include "proof/proof_policy_reference.h"

enum { N_ENVS = 40, M_MAX = EPISODES_ENVS_MAX * EPISODES_STATES };

static float logits[M_MAX], other[M_MAX];

static EsProofPolicyScorer *make_scorer(const EsProofPolicy *policy, EsThreadPool *pool,
                                        int max_states) {
    EsProofPolicyScorer *scorer = NULL;
    REQUIRE_OK(es_proof_policy_scorer_create(policy, pool, max_states, &scorer));
    return scorer;
}

static int same_bits(const float *a, const float *b, int64_t n) {
    return memcmp(a, b, sizeof *a * (size_t)n) == 0;
}

// --- against the reference ---

static void compare_with_reference(EsProofPolicySettings settings, EsGoalSelection selection,
                                   int n_steps) {
    PolicyCase test = make_case(&settings, 40, 1);
    Reference reference = reference_create(test.policy);
    Episodes *episodes = episodes_create(test.graph, 12, selection, 5);
    EsProofPolicyScorer *scorer = make_scorer(test.policy, NULL, 1 << 16);
    double worst = 0;
    int64_t n_compared = 0;
    for (int t = 0; t < n_steps; t++, episodes_step_randomly(episodes)) {
        EsProofChoices choices = episodes_choices(episodes);
        float value[EPISODES_ENVS_MAX];
        REQUIRE_OK(es_proof_policy_scorer_logits(scorer, &choices, logits, value));
        for (int32_t i = 0; i < choices.n_states; i++) {
            double wanted = reference_value(&reference, choices.states[i], selection);
            worst = fmax(worst, fabs(wanted - (double)value[i]) / fmax(1, fabs(wanted)));
            int n = choices.first[i + 1] - choices.first[i];
            double u[REFERENCE_WIDTH_MAX], w[REFERENCE_WIDTH_MAX];
            reference_encode(&reference, choices.states[i], selection, u);
            for (int32_t k = choices.first[i]; k < choices.first[i + 1]; k++, n_compared++) {
                reference_encode(&reference, choices.successors[k], selection, w);
                wanted = n == 1 ? 0 : reference_logit(&reference, u, w);
                worst = fmax(worst, fabs(wanted - (double)logits[k]) / fmax(1, fabs(wanted)));
            }
        }
    }
    EXPECT(n_compared > 20);
    EXPECT_NEAR(worst, 0, 1e-5);
    es_proof_policy_scorer_destroy(scorer);
    episodes_destroy(episodes);
    free(reference.parameters);
    destroy_case(&test);
}

TEST(agrees_with_the_reference) {
    EsProofPolicySettings settings = small_settings(5, 7, 2);
    compare_with_reference(settings, ES_GOAL_CONSTRAINED, 4);
    settings = small_settings(17, 33, 3);
    settings.separate_value = 1;
    compare_with_reference(settings, ES_GOAL_LEFTMOST, 4);
    settings = small_settings(1, 19, 0);
    settings.embedder = ES_PROOF_EMBEDDER_SUM;
    settings.l2 = 0;
    settings.temperature = 3;
    compare_with_reference(settings, ES_GOAL_CONSTRAINED, 4);
    settings = small_settings(32, 64, 8);
    settings.embedder = ES_PROOF_EMBEDDER_SUM;
    compare_with_reference(settings, ES_GOAL_CONSTRAINED, 4);
}

TEST(agrees_with_the_reference_by_structure) {
    EsProofPolicySettings settings = small_settings(5, 24, 2);
    settings.encoder = ES_PROOF_ENCODER_STRUCTURE;
    compare_with_reference(settings, ES_GOAL_CONSTRAINED, 4);
    settings.hidden = 130; // wider than the features
    settings.separate_value = 1;
    compare_with_reference(settings, ES_GOAL_LEFTMOST, 4);
}

TEST(agrees_with_the_reference_at_full_size) {
    EsProofPolicySettings settings = small_settings(250, 512, 8);
    settings.separate_value = 1;
    compare_with_reference(settings, ES_GOAL_CONSTRAINED, 1);
}

// --- bits ---

// A state alone, in a crowd, after others: always the same.
static void compare_with_neighbours(EsProofEncoder encoder) {
    EsProofPolicySettings settings = small_settings(23, 45, 2);
    settings.encoder = encoder;
    PolicyCase test = make_case(&settings, 60, 1);
    Episodes *episodes = episodes_create(test.graph, N_ENVS, ES_GOAL_CONSTRAINED, 1);
    EsProofPolicyScorer *crowd = make_scorer(test.policy, NULL, 1 << 16);
    for (int t = 0; t < 3; t++, episodes_step_randomly(episodes)) {
        EsProofChoices choices = episodes_choices(episodes);
        float value[EPISODES_ENVS_MAX], alone_value;
        REQUIRE_OK(es_proof_policy_scorer_logits(crowd, &choices, logits, value));
        for (int32_t i = 0; i < choices.n_states; i++) {
            // a scorer that remembers nothing from before
            EsProofPolicyScorer *alone = make_scorer(test.policy, NULL, 0);
            int32_t n = choices.first[i + 1] - choices.first[i], first[] = {0, n};
            EsProofChoices one = {.states = choices.states + i,
                                  .first = first,
                                  .successors = choices.successors + choices.first[i],
                                  .n_states = 1,
                                  .selection = choices.selection};
            REQUIRE_OK(es_proof_policy_scorer_logits(alone, &one, other, &alone_value));
            EXPECT(same_bits(other, logits + choices.first[i], n));
            EXPECT(same_bits(&alone_value, &value[i], 1));
            REQUIRE_OK(es_proof_policy_scorer_values(alone, &one, &alone_value));
            EXPECT(same_bits(&alone_value, &value[i], 1));
            es_proof_policy_scorer_destroy(alone);
        }
    }
    es_proof_policy_scorer_destroy(crowd);
    episodes_destroy(episodes);
    destroy_case(&test);
}

TEST(rows_do_not_depend_on_their_neighbours) {
    compare_with_neighbours(ES_PROOF_ENCODER_NAMES);
    compare_with_neighbours(ES_PROOF_ENCODER_STRUCTURE);
}

static void compare_threads(EsProofEncoder encoder) {
    EsProofPolicySettings settings = small_settings(24, 40, 2);
    settings.separate_value = 1;
    settings.encoder = encoder;
    PolicyCase test = make_case(&settings, 60, 1);
    Episodes *episodes = episodes_create(test.graph, N_ENVS, ES_GOAL_CONSTRAINED, 2);
    EsThreadPool *pools[3] = {NULL};
    EsProofPolicyScorer *scorers[3];
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(es_thread_pool_create(&pools[i], i + 1));
        scorers[i] = make_scorer(test.policy, pools[i], i == 2 ? 10 : 1 << 16);
    }
    for (int t = 0; t < 8; t++, episodes_step_randomly(episodes)) {
        EsProofChoices choices = episodes_choices(episodes);
        float value[EPISODES_ENVS_MAX], other_value[EPISODES_ENVS_MAX];
        REQUIRE_OK(es_proof_policy_scorer_logits(scorers[0], &choices, logits, value));
        for (int i = 1; i < 3; i++) {
            REQUIRE_OK(es_proof_policy_scorer_logits(scorers[i], &choices, other, other_value));
            EXPECT(same_bits(other, logits, choices.first[choices.n_states]));
            EXPECT(same_bits(other_value, value, choices.n_states));
        }
    }
    // what was forgotten was computed anew
    EXPECT(es_proof_policy_scorer_counters(scorers[2]).n_encoded >
           es_proof_policy_scorer_counters(scorers[0]).n_encoded);
    for (int i = 0; i < 3; i++) {
        es_proof_policy_scorer_destroy(scorers[i]);
        es_thread_pool_destroy(pools[i]);
    }
    episodes_destroy(episodes);
    destroy_case(&test);
}

TEST(threads_and_forgetting_change_nothing) {
    compare_threads(ES_PROOF_ENCODER_NAMES);
    compare_threads(ES_PROOF_ENCODER_STRUCTURE);
}

TEST(equal_states_are_encoded_once) {
    EsProofPolicySettings settings = small_settings(8, 16, 1);
    PolicyCase test = make_case(&settings, 40, 1);
    Episodes *episodes = episodes_create(test.graph, 1, ES_GOAL_CONSTRAINED, 1);
    EsProofPolicyScorer *scorer = make_scorer(test.policy, NULL, 1 << 16);
    EsProofChoices one = episodes_choices(episodes);
    int32_t n = one.first[1];
    EXPECT(n > 2);
    EsAtomSpan states[3] = {one.states[0], one.states[0], one.states[0]};
    EsAtomSpan *successors = malloc(sizeof *successors * 3 * (size_t)n);
    for (int32_t k = 0; k < 3 * n; k++) {
        successors[k] = one.successors[k % n];
    }
    const int32_t first[] = {0, n, 2 * n, 3 * n};
    EsProofChoices three = {.states = states,
                            .first = first,
                            .successors = successors,
                            .n_states = 3,
                            .selection = one.selection};
    float value[3];
    REQUIRE_OK(es_proof_policy_scorer_logits(scorer, &three, logits, value));
    EsProofPolicyScorerCounters counters = es_proof_policy_scorer_counters(scorer);
    EXPECT_EQ(counters.n_encoded, n + 1);
    EXPECT_EQ(counters.n_valued, 1);
    EXPECT_EQ(counters.n_states, n + 1);
    EXPECT(same_bits(logits, logits + n, n) && same_bits(logits, logits + 2 * n, n));
    // the next call finds them all; with another selection none, since other goals are embedded
    REQUIRE_OK(es_proof_policy_scorer_logits(scorer, &one, logits, value));
    EXPECT_EQ(es_proof_policy_scorer_counters(scorer).n_encoded, n + 1);
    one.selection = ES_GOAL_LEFTMOST;
    REQUIRE_OK(es_proof_policy_scorer_logits(scorer, &one, logits, value));
    EXPECT_EQ(es_proof_policy_scorer_counters(scorer).n_encoded, 2 * (n + 1));
    free(successors);
    es_proof_policy_scorer_destroy(scorer);
    episodes_destroy(episodes);
    destroy_case(&test);
}

TEST(a_guide_values_successors_as_a_judge_does_states) {
    EsProofPolicySettings settings = small_settings(8, 16, 1);
    PolicyCase test = make_case(&settings, 40, 1);
    Episodes *episodes = episodes_create(test.graph, N_ENVS, ES_GOAL_CONSTRAINED, 1);
    EsProofPolicyScorer *scorer = make_scorer(test.policy, NULL, 1 << 16);
    EsProofPolicyScorer *alone = make_scorer(test.policy, NULL, 0);
    EsProofChoices choices = episodes_choices(episodes);
    float *value = calloc((size_t)choices.first[choices.n_states], sizeof *value);
    REQUIRE_OK(es_proof_policy_score(scorer, &choices, other, value));
    REQUIRE_OK(es_proof_policy_score(alone, &choices, logits, NULL));
    EXPECT(same_bits(other, logits, choices.first[choices.n_states]));
    for (int32_t k = 0; k < choices.first[choices.n_states]; k++) {
        float alone_value;
        EsProofChoices one = {.states = choices.successors + k,
                              .first = (int32_t[]){0, 0},
                              .n_states = 1,
                              .selection = choices.selection};
        REQUIRE_OK(es_proof_policy_scorer_values(alone, &one, &alone_value));
        EXPECT(same_bits(&alone_value, &value[k], 1));
    }
    free(value);
    es_proof_policy_scorer_destroy(scorer);
    es_proof_policy_scorer_destroy(alone);
    episodes_destroy(episodes);
    destroy_case(&test);
}

TEST(an_only_successor_needs_no_encoding) {
    EsProofPolicySettings settings = small_settings(8, 16, 1);
    PolicyCase test = make_case(&settings, 40, 1);
    EsProofPolicyScorer *scorer = make_scorer(test.policy, NULL, 1 << 16);
    EsAtom state = {1, 1, 2}, proved = es_proof_terminal(test.graph, ES_PROOF_PROVED);
    EsAtomSpan states[] = {{&state, 1}}, successors[] = {{&proved, 1}};
    const int32_t first[] = {0, 1};
    EsProofChoices choices = {.states = states,
                              .first = first,
                              .successors = successors,
                              .n_states = 1,
                              .selection = ES_GOAL_CONSTRAINED};
    EsProofGuide guide = es_proof_policy_scorer_guide(scorer);
    float log_probability = 9, value = 0;
    REQUIRE_OK(guide.score(guide.context, &choices, &log_probability, &value));
    EXPECT_NEAR(log_probability, 0, 0);
    EXPECT_EQ(es_proof_policy_scorer_counters(scorer).n_encoded, 0);
    EXPECT_EQ(es_proof_policy_scorer_counters(scorer).n_valued, 1);
    es_proof_policy_scorer_destroy(scorer);
    destroy_case(&test);
}

// --- queries ---

static float value_under(EsProofPolicyScorer *scorer, EsAtom state, const EsAtom *query) {
    float value;
    EsAtomSpan states[] = {{&state, 1}};
    EsProofChoices choices = {.states = states,
                              .first = (int32_t[]){0, 0},
                              .n_states = 1,
                              .selection = ES_GOAL_CONSTRAINED,
                              .queries = query,
                              .n_queries = query != NULL};
    REQUIRE_OK(es_proof_policy_scorer_values(scorer, &choices, &value));
    return value;
}

TEST(a_query_that_is_a_fact_does_not_count_as_one) {
    for (int is_structure = 0; is_structure < 2; is_structure++) {
        EsProofPolicySettings settings = small_settings(8, 16, 1);
        settings.encoder = is_structure ? ES_PROOF_ENCODER_STRUCTURE : ES_PROOF_ENCODER_NAMES;
        PolicyCase test = make_case(&settings, 40, 1);
        EsProofPolicyScorer *scorer = make_scorer(test.policy, NULL, 1 << 16);
        EsAtom fact = test.graph->facts[0], no_fact = fact;
        while (es_kg_has_fact(test.graph, no_fact)) {
            no_fact.b = no_fact.b % test.graph->n_constants + 1;
        }
        // the cache keeps states of different queries apart, whichever comes first
        float plain = value_under(scorer, fact, NULL), hidden = value_under(scorer, fact, &fact);
        EXPECT_EQ(hidden != plain, is_structure);
        EXPECT(value_under(scorer, fact, &no_fact) == plain);
        EXPECT(value_under(scorer, fact, &fact) == hidden);
        // the terminal states are the same under all
        EsAtom proved = es_proof_terminal(test.graph, ES_PROOF_PROVED);
        EXPECT(value_under(scorer, proved, &fact) == value_under(scorer, proved, NULL));
        es_proof_policy_scorer_destroy(scorer);
        destroy_case(&test);
    }
}

// --- probabilities and choices ---

TEST(probabilities_sum_to_one_and_draws_follow_them) {
    EsProofPolicySettings settings = small_settings(16, 16, 1);
    PolicyCase test = make_case(&settings, 60, 1);
    Episodes *episodes = episodes_create(test.graph, 1, ES_GOAL_CONSTRAINED, 4);
    EsProofPolicyScorer *scorer = make_scorer(test.policy, NULL, 1 << 16);
    EsProofChoices choices = episodes_choices(episodes);
    int n = choices.first[1], counts[EPISODES_STATES] = {0}, best = 0;
    float log_probability[EPISODES_STATES];
    double sum = 0;
    REQUIRE_OK(es_proof_policy_score(scorer, &choices, log_probability, NULL));
    REQUIRE_OK(es_proof_policy_scorer_logits(scorer, &choices, logits, NULL));
    for (int k = 0; k < n; k++) {
        sum += exp((double)log_probability[k]);
        best = logits[k] > logits[best] ? k : best;
        EXPECT_NEAR(log_probability[k] - log_probability[0], logits[k] - logits[0], 1e-5);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    enum { N_DRAWS = 4000 };
    int32_t action = -1;
    for (uint32_t i = 0; i < N_DRAWS; i++) {
        EsDrawKey key = {3, i, 1};
        REQUIRE_OK(es_proof_policy_scorer_choose(scorer, &choices, logits, 8, &key, &action));
        counts[action]++;
    }
    for (int k = 0; k < n; k++) {
        double p = exp((double)log_probability[k]);
        EXPECT_NEAR(counts[k] / (double)N_DRAWS, p, 5 * sqrt(p * (1 - p) / N_DRAWS) + 1e-3);
    }
    REQUIRE_OK(es_proof_policy_scorer_choose(scorer, &choices, logits, 8, NULL, &action));
    EXPECT_EQ(action, best);
    es_proof_policy_scorer_destroy(scorer);
    episodes_destroy(episodes);
    destroy_case(&test);
}

// --- initial values and settings ---

TEST(weights_start_as_described) {
    EsProofPolicySettings settings = small_settings(24, 48, 1);
    PolicyCase test = make_case(&settings, 500, 1), again = make_case(&settings, 500, 1);
    const EsProofPolicy *policy = test.policy;
    const float *slab = es_proof_policy_parameters(policy);
    EXPECT(same_bits(slab, es_proof_policy_parameters(again.policy), policy->layout->n_parameters));
    double sum = 0, squares = 0;
    int64_t n = (int64_t)test.graph->n_constants * settings.embed;
    for (int64_t i = 0; i < n; i++) {
        double x = (double)slab[policy->constants + settings.embed + i];
        sum += x / (double)n;
        squares += x * x / (double)n;
    }
    EXPECT_NEAR(sum, 0, 0.05);
    EXPECT_NEAR(squares, 1, 0.05);
    for (int e = 0; e < settings.embed; e++) {
        EXPECT(slab[policy->constants + e] == 0 && slab[policy->predicates + e] == 0);
    }
    // rows of the last layer are orthogonal with length sqrt(2)
    const EsProofLinear *last = &policy->head[ES_PROOF_TOWER_POLICY].last;
    for (int i = 0; i < settings.embed; i++) {
        double product = 0;
        for (int k = 0; k < settings.hidden; k++) {
            product += (double)slab[last->weight + k] *
                       (double)slab[last->weight + i * settings.hidden + k];
        }
        EXPECT_NEAR(product, i == 0 ? 2 : 0, 1e-5);
    }
    double largest = 0, bound = sqrt(6.0 / settings.hidden);
    const EsProofLinear *block = &policy->body[ES_PROOF_TOWER_POLICY][1].linear;
    for (int i = 0; i < settings.hidden * settings.hidden; i++) {
        largest = fmax(largest, fabs((double)slab[block->weight + i]));
    }
    EXPECT(largest <= bound && largest > 0.95 * bound);
    destroy_case(&test);
    destroy_case(&again);
}

TEST(one_weight_that_is_not_finite_is_found) {
    EsProofPolicySettings settings = es_proof_policy_defaults();
    PolicyCase test = make_case(&settings, 40, 1);
    float *weights = test.policy->store->parameters.data;
    int64_t places[] = {0, es_tensor_count(&test.policy->store->parameters) - 1};
    EXPECT(es_proof_policy_is_finite(test.policy));
    for (size_t i = 0; i < ES_COUNT_OF(places); i++) {
        float kept = weights[places[i]];
        weights[places[i]] = i == 0 ? NAN : INFINITY;
        EXPECT(!es_proof_policy_is_finite(test.policy));
        weights[places[i]] = kept;
        EXPECT(es_proof_policy_is_finite(test.policy));
    }
    destroy_case(&test);
}

TEST(settings_out_of_range_are_refused) {
    EsProofPolicySettings settings = es_proof_policy_defaults();
    EXPECT_STATUS(es_proof_policy_settings_check(&settings), OK);
    settings.temperature = (float)NAN;
    EXPECT_STATUS(es_proof_policy_settings_check(&settings), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "temperature");
    settings = small_settings(0, 4, 1);
    EXPECT_STATUS(es_proof_policy_settings_check(&settings), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "embed");
    settings = small_settings(4, 4, ES_PROOF_MAX_LAYERS + 1);
    EXPECT_STATUS(es_proof_policy_settings_check(&settings), CONFIG);
    settings = es_proof_policy_defaults();
    settings.embedder = (EsProofEmbedder)7;
    EXPECT_STATUS(es_proof_policy_settings_check(&settings), CONFIG);
}
