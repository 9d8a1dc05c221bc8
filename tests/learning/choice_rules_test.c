// Choices: probabilities with a floor, draws, entropies, and gradients against finite differences.
#include "learning/choice_rules.h"

#include "base/random_rules.h"
#include "es_test.h"

#define SEED 20261115u

static float uniform(uint32_t stream, uint32_t index) {
    EsRandom4 r = es_random_draw(SEED, stream, ES_PURPOSE_ACTION, 0, index / 4);
    return es_random_uniform(r.word[index % 4]);
}

static void fill_logits(float *logits, int n, uint32_t stream, float spread) {
    for (int i = 0; i < n; i++) {
        logits[i] = spread * (2 * uniform(stream, (uint32_t)i) - 1);
    }
}

TEST(two_actions_by_hand) {
    // q = (3/4, 1/4); f = 0.1: p = 0.8 q + 0.1
    const float logits[] = {1.0986123f, 0};
    double p[2];
    EXPECT_EQ(es_choice_probabilities(logits, 2, 3, 0, p), 2);
    EXPECT_NEAR(p[0], 0.75, 1e-7);
    EXPECT_EQ(es_choice_probabilities(logits, 2, 3, 0.1f, p), 2);
    EXPECT_NEAR(p[0], 0.7, 1e-7);
    EXPECT_NEAR(p[1], 0.3, 1e-7);
    EXPECT_NEAR(es_choice_log_probability(p, 1), log(0.3), 1e-7);
    double entropy = -(0.7 * log(0.7) + 0.3 * log(0.3)) / log(2);
    EXPECT_NEAR(es_choice_entropy(p, 2, 2), entropy, 1e-7);
}

TEST(floor_leaves_order_and_reaches_every_action) {
    // the hard clamp of old gave [.286 .114 .15 .15 .15 .15] here: the second best below the worst
    const double q[] = {.5, .2, .1, .1, .05, .05};
    float logits[6];
    for (int i = 0; i < 6; i++) {
        logits[i] = (float)log(q[i]);
    }
    double p[6];
    es_choice_probabilities(logits, 6, ES_CHOICE_ALL, 0.15f, p);
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        EXPECT_NEAR(p[i], 0.1 * q[i] + 0.15, 1e-7);
        sum += p[i];
    }
    EXPECT_NEAR(sum, 1, 1e-14);
    // a floor that would need more than everything is cut to 0.99 / n
    es_choice_probabilities(logits, 6, ES_CHOICE_ALL, 0.5f, p);
    EXPECT_NEAR(p[5], 0.01 * 0.05 + 0.165, 1e-7);
}

TEST(masks_and_single_actions) {
    const float logits[] = {5, 1, -3, 2};
    double p[4];
    EXPECT_EQ(es_choice_probabilities(logits, 4, 1u << 2, 0.1f, p), 1);
    EXPECT_NEAR(p[2], 1, 1e-15);
    EXPECT(p[0] == 0 && p[1] == 0 && p[3] == 0);
    EXPECT(es_choice_entropy(p, 4, 1) == 0);
    float gradient[4] = {0};
    es_choice_gradient(p, 4, 1u << 2, 1, 0.1f, 2, 1, 1, gradient);
    for (int i = 0; i < 4; i++) {
        EXPECT(gradient[i] == 0);
    }
    EXPECT_EQ(es_choice_probabilities(logits, 4, 0, 0.1f, p), 0);
    EXPECT(p[0] == 0 && p[3] == 0);
    EXPECT_EQ(es_choice_draw(p, 4, 0, 0.5f), -1);
    EXPECT_EQ(es_choice_best(p, 4, 0), -1);
    const float even[70] = {0};
    double wide[70];
    EXPECT_EQ(es_choice_probabilities(even, 4, 0xA, 0, wide), 2);
    EXPECT_EQ(es_choice_probabilities(even, 70, 0x3, 0, wide), 2 + 6);
}

TEST(best_is_first_of_equals) {
    const float logits[] = {9, 1, 2, 2};
    double p[4];
    es_choice_probabilities(logits, 4, 0xE, 0.05f, p);
    EXPECT_EQ(es_choice_best(p, 4, 0xE), 2);
}

TEST(extreme_logits_stay_finite) {
    const float logits[] = {3e38f, -3e38f, 0};
    double p[3];
    es_choice_probabilities(logits, 3, ES_CHOICE_ALL, 0, p);
    EXPECT(p[0] == 1 && p[1] == 0 && p[2] == 0);
    EXPECT_NEAR(es_choice_log_probability(p, 1), -708.396, 1e-3);
    EXPECT(es_choice_entropy(p, 3, 3) == 0);
    float gradient[3] = {0};
    es_choice_gradient(p, 3, ES_CHOICE_ALL, 3, 0, 1, 1, 1, gradient);
    EXPECT(gradient[0] == -1 && gradient[1] == 1 && gradient[2] == 0);
}

TEST(nan_shows) {
    const float logits[] = {0, (float)NAN, 0};
    double p[3];
    es_choice_probabilities(logits, 3, ES_CHOICE_ALL, 0.1f, p);
    EXPECT(isnan(es_choice_log_probability(p, 0)));
    EXPECT(isnan(es_choice_entropy(p, 3, 3)));
    int action = es_choice_draw(p, 3, 0x3, 0.5f); // still a legal one
    EXPECT(action == 0 || action == 1);
    es_choice_probabilities(logits, 3, 0x5, 0.1f, p); // illegal ones do not matter
    EXPECT_NEAR(p[0], 0.5, 1e-15);
}

TEST(never_an_illegal_action) {
    // u as near to 1 as a draw can be, at 0, and random; floors on and off; many masks
    for (uint32_t k = 0; k < 20000; k++) {
        EsRandom4 r = es_random_draw(SEED, 1, ES_PURPOSE_ACTION, k, 0);
        int n = 1 + (int)es_random_below(r.word[0], ES_CHOICE_MAX);
        uint64_t all = n == 64 ? ES_CHOICE_ALL : (((uint64_t)1 << n) - 1);
        uint64_t mask = (((uint64_t)r.word[1] << 32) | r.word[2]) & all;
        mask = mask == 0 ? (uint64_t)1 << (n - 1) : mask;
        float logits[ES_CHOICE_MAX];
        double p[ES_CHOICE_MAX];
        fill_logits(logits, n, 1000 + k, k % 3 == 0 ? 300.0f : 4.0f);
        float floor = k % 2 == 0 ? 0 : 0.03f;
        int n_legal = es_choice_probabilities(logits, n, mask, floor, p);
        EXPECT_EQ(n_legal, __builtin_popcountll(mask));
        const float us[] = {0, 0x1.fffffep-1f, es_random_uniform(r.word[3])};
        for (int i = 0; i < 3; i++) {
            int action = es_choice_draw(p, n, mask, us[i]);
            if (action < 0 || action >= n || !es_choice_is_legal(mask, action) || p[action] <= 0) {
                ES_TEST_FAIL("case %u, u %.9g: action %d of %d, mask %llx", k, (double)us[i],
                             action, n, (unsigned long long)mask);
                return;
            }
        }
    }
}

TEST(rounding_below_one_does_not_reach_illegal_actions) {
    // the sum stays below u: the last legal action with a chance is taken, not the last of all
    const double p[] = {0.5, 0.25, 0, 0};
    EXPECT_EQ(es_choice_draw(p, 4, 0x7, 0.99f), 1);
}

// Pearson's statistic of n_draws draws; the bound below is the 0.9999 quantile of chi-square with
// n - 1 degrees of freedom (Wilson and Hilferty, 1931).
static void check_frequencies(int n, uint64_t mask, float floor, float spread, uint32_t stream) {
    enum { N_DRAWS = 40000, MOST = 300 };
    float logits[MOST];
    double p[MOST];
    int count[MOST] = {0};
    fill_logits(logits, n, stream, spread);
    int n_legal = es_choice_probabilities(logits, n, mask, floor, p);
    for (uint32_t k = 0; k < N_DRAWS; k++) {
        count[es_choice_draw(p, n, mask, uniform(stream + 1, k))]++;
    }
    double statistic = 0;
    for (int i = 0; i < n; i++) {
        if (!es_choice_is_legal(mask, i)) {
            EXPECT_EQ(count[i], 0);
            continue;
        }
        double expected = p[i] * N_DRAWS;
        statistic += (count[i] - expected) * (count[i] - expected) / expected;
    }
    double k = n_legal - 1;
    double root = 1 - 2 / (9 * k) + 3.719 * sqrt(2 / (9 * k));
    if (!(statistic <= k * root * root * root)) {
        ES_TEST_FAIL("%d actions, mask %llx, floor %g: chi-square %g with %g degrees of freedom", n,
                     (unsigned long long)mask, (double)floor, statistic, k);
    }
}

TEST(frequencies_are_probabilities) {
    check_frequencies(2, 3, 0, 1, 10);
    check_frequencies(6, 0x3F, 0.15f, 2, 20);
    check_frequencies(6, 0x2D, 0.15f, 2, 30);
    check_frequencies(13, 0x0FE, 0.12f, 3, 40);
    check_frequencies(13, 0x1555, 0, 1, 50);
    check_frequencies(64, ES_CHOICE_ALL, 0.005f, 2, 60);
    check_frequencies(64, (uint64_t)5 << 61, 0.2f, 2, 70);
    check_frequencies(300, ES_CHOICE_ALL, 0.001f, 1, 80);
}

// a log p(action) + b entropy, from scratch
static double objective(const float *logits, int n, uint64_t mask, float floor, int action,
                        double a, double b) {
    double p[128];
    int n_legal = es_choice_probabilities(logits, n, mask, floor, p);
    return a * es_choice_log_probability(p, action) + b * es_choice_entropy(p, n, n_legal);
}

static void check_gradient(int n, uint64_t mask, float floor, float spread, int action, double a,
                           double b, uint32_t stream) {
    float logits[128], gradient[128];
    double p[128];
    fill_logits(logits, n, stream, spread);
    for (int i = 0; i < n; i++) {
        gradient[i] = 1; // += is the contract
    }
    int n_legal = es_choice_probabilities(logits, n, mask, floor, p);
    es_choice_gradient(p, n, mask, n_legal, floor, action, a, b, gradient);
    for (int i = 0; i < n; i++) {
        float start = logits[i];
        logits[i] = start + 0x1p-10f;
        double above = objective(logits, n, mask, floor, action, a, b), up = (double)logits[i];
        logits[i] = start - 0x1p-10f;
        double below = objective(logits, n, mask, floor, action, a, b), down = (double)logits[i];
        logits[i] = start;
        // float keeps 7 digits of 1 + gradient
        EXPECT_NEAR(gradient[i] - 1, (above - below) / (up - down), 2e-6);
        if (!es_choice_is_legal(mask, i)) {
            EXPECT(gradient[i] == 1);
        }
    }
}

TEST(gradients_are_finite_differences) {
    check_gradient(2, 3, 0, 1, 0, 1, 0, 100);
    check_gradient(5, 0x1F, 0, 2, 3, 1, 0, 101);
    check_gradient(5, 0x1F, 0, 2, 3, 0, 1, 102);
    check_gradient(6, 0x3F, 0.15f, 2, 1, 1, 0, 103);
    check_gradient(6, 0x3F, 0.15f, 2, 1, 0, 1, 104);
    check_gradient(6, 0x2D, 0.15f, 3, 2, 0.7, -0.3, 105);
    check_gradient(13, 0x0FE, 0.12f, 3, 4, -0.7, 0.3, 106);
    check_gradient(13, 0x0FE, 0.5f, 3, 4, 0.7, 0.3, 107); // the floor is cut
    check_gradient(100, ES_CHOICE_ALL, 0, 2, 99, 0.5, 0.5, 108);
    check_gradient(100, ES_CHOICE_ALL, 0.002f, 2, 70, 0.5, 0.5, 109);
}

TEST(floor_never_kills_gradients) {
    // with the hard clamp of old all of these were 0: one action above the floor, the rest on it
    const float logits[] = {8, -2, -2, -2};
    double p[4];
    float log_gradient[4] = {0}, entropy_gradient[4] = {0};
    int n_legal = es_choice_probabilities(logits, 4, 0xF, 0.15f, p);
    es_choice_gradient(p, 4, 0xF, n_legal, 0.15f, 1, 1, 0, log_gradient);
    es_choice_gradient(p, 4, 0xF, n_legal, 0.15f, 1, 0, 1, entropy_gradient);
    EXPECT(log_gradient[1] > 1e-6f && log_gradient[0] < -1e-6f);
    EXPECT(entropy_gradient[1] > 1e-6f && entropy_gradient[0] < -1e-6f);
}
