// Choices among legal actions against PyTorch's float64 (tools/record_choices): probabilities,
// log-probability, entropy, and the gradients of the latter two; the most likely action, and what
// given uniforms draw.
#include "golden_file.h"

#include "learning/choice_rules.h"

// float64 on both sides; sums of 64 terms and one exponential apart
#define BOUND   1e-13
#define N_DRAWS 6

TEST(choices_agree_with_pytorch) {
    EsSafetensors *file = golden_open("choices");
    EsTensor masks;
    REQUIRE_OK(es_safetensors_find(file, "mask", &masks));
    int64_t n_cases = es_tensor_count(&masks);
    EXPECT(n_cases >= 200);
    const int32_t *first = golden_ints(file, "first", n_cases + 1);
    const int64_t *mask = golden_longs(file, "mask", n_cases);
    const int32_t *action = golden_ints(file, "action", n_cases);
    const float *floors = golden_floats(file, "floor", n_cases);
    const double *log_p = golden_doubles(file, "log_p", n_cases);
    const double *entropy = golden_doubles(file, "entropy", n_cases);
    int64_t n_all = first[n_cases];
    const float *logits = golden_floats(file, "logits", n_all);
    const double *p = golden_doubles(file, "p", n_all);
    const double *d_log_p = golden_doubles(file, "d_log_p", n_all);
    const double *d_entropy = golden_doubles(file, "d_entropy", n_all);
    for (int64_t i = 0; i < n_cases; i++) {
        int32_t begin = first[i], n = first[i + 1] - begin;
        uint64_t legal = (uint64_t)mask[i];
        double actual[ES_CHOICE_MAX], d_logits[ES_CHOICE_MAX];
        float gradient[ES_CHOICE_MAX] = {0};
        int n_legal = es_choice_probabilities(logits + begin, n, legal, floors[i], actual);
        EXPECT_EQ(n_legal, __builtin_popcountll(legal));
        EXPECT_NEAR(es_choice_log_probability(actual, action[i]), log_p[i],
                    BOUND * (1 + fabs(log_p[i])));
        EXPECT_NEAR(es_choice_entropy(actual, n, n_legal), entropy[i], BOUND);
        // both gradients at once: weights 0.5 and -2
        es_choice_gradient(actual, n, legal, n_legal, floors[i], action[i], 0.5, -2, gradient);
        for (int32_t k = 0; k < n; k++) {
            EXPECT_NEAR(actual[k], p[begin + k], BOUND);
            d_logits[k] = 0.5 * d_log_p[begin + k] - 2 * d_entropy[begin + k];
            EXPECT_NEAR(gradient[k], d_logits[k], 1e-6);
        }
    }
    es_safetensors_close(file);
}

TEST(draws_follow_the_running_sum) {
    EsSafetensors *file = golden_open("choices");
    EsTensor masks;
    REQUIRE_OK(es_safetensors_find(file, "mask", &masks));
    int64_t n_cases = es_tensor_count(&masks);
    const int32_t *first = golden_ints(file, "first", n_cases + 1);
    const int64_t *mask = golden_longs(file, "mask", n_cases);
    const float *floors = golden_floats(file, "floor", n_cases);
    const float *logits = golden_floats(file, "logits", first[n_cases]);
    const float *uniform = golden_floats(file, "uniform", n_cases * N_DRAWS);
    const int32_t *drawn = golden_ints(file, "drawn", n_cases * N_DRAWS);
    const int32_t *best = golden_ints(file, "best", n_cases);
    for (int64_t i = 0; i < n_cases; i++) {
        int32_t n = first[i + 1] - first[i];
        uint64_t legal = (uint64_t)mask[i];
        double p[ES_CHOICE_MAX];
        es_choice_probabilities(logits + first[i], n, legal, floors[i], p);
        EXPECT_EQ(es_choice_best(p, n, legal), best[i]);
        for (int64_t d = i * N_DRAWS; d < (i + 1) * N_DRAWS; d++) {
            EXPECT_EQ(es_choice_draw(p, n, legal, uniform[d]), drawn[d]);
        }
    }
    es_safetensors_close(file);
}
