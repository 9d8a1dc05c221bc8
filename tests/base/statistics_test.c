#include "base/statistics.h"

#include <math.h>

#include "base/random_rules.h"
#include "es_test.h"

typedef struct Pair {
    double other, value;
} Pair;

TEST(mean_and_deviation) {
    const Pair pairs[] = {{9, 1e9 + 1}, {9, 1e9 + 2}, {9, 1e9 + 3}, {9, 1e9 + 6}};
    double deviation = -1;
    EXPECT_NEAR(es_mean(&pairs[0].value, 4, sizeof pairs[0], &deviation), 1e9 + 3, 0);
    EXPECT_NEAR(deviation, sqrt(14.0 / 3), 1e-12); // squares of the sums would have cancelled
    EXPECT_NEAR(es_mean(&pairs[0].value, 1, sizeof pairs[0], &deviation), 1e9 + 1, 0);
    EXPECT_NEAR(deviation, 0, 0);
    const double broken[] = {1, NAN};
    EXPECT(isnan(es_mean(broken, 2, sizeof broken[0], &deviation)));
    EXPECT(isnan(deviation));
}

TEST(quantiles_lie_between_neighbours) {
    double values[] = {40, 10, 30, 20};
    es_sort_doubles(values, 4);
    EXPECT_NEAR(es_quantile(values, 4, 0), 10, 0);
    EXPECT_NEAR(es_quantile(values, 4, 0.5), 25, 0);
    EXPECT_NEAR(es_quantile(values, 4, 0.25), 17.5, 0);
    EXPECT_NEAR(es_quantile(values, 4, 1), 40, 0);
    EXPECT_NEAR(es_quantile(values, 1, 0.9), 10, 0);
}

// A normal number of mean 0 and deviation 1 (Box and Muller).
static double draw_normal(uint32_t sample, uint32_t i) {
    EsRandom4 words = es_random_draw(5, sample, ES_PURPOSE_DATA_GENERATION, i, 0);
    double u = ((double)words.word[0] + 1) * 0x1p-32, v = (double)words.word[1] * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979 * v);
}

TEST(bootstrap_covers_the_mean_as_often_as_it_says) {
    enum { N_SAMPLES = 300, N = 40 };
    int n_covered = 0, n_student = 0;
    for (uint32_t sample = 0; sample < N_SAMPLES; sample++) {
        double values[N];
        EsInterval interval;
        for (uint32_t i = 0; i < N; i++) {
            values[i] = 3 + draw_normal(sample, i);
        }
        EXPECT_STATUS(es_bootstrap_mean(values, N, sizeof values[0], 9, sample, &interval), OK);
        n_covered += interval.low <= 3 && 3 <= interval.high;
        EsInterval student = es_student_mean(values, N, sizeof values[0]);
        n_student += student.low <= 3 && 3 <= student.high;
    }
    // 95 % of 300 are 285; four standard errors of a binomial are 15
    EXPECT_NEAR(n_covered, 285, 15);
    EXPECT_NEAR(n_student, 285, 15);
}

TEST(bootstrap_of_known_means) {
    const Pair pairs[] = {{9, 0}, {9, 1}};
    EsInterval interval, again, other;
    // the means of two draws are 0, 1/2 and 1, with chances 1/4, 1/2, 1/4
    EXPECT_STATUS(es_bootstrap_mean(&pairs[0].value, 2, sizeof pairs[0], 1, 0, &interval), OK);
    EXPECT_NEAR(interval.mean, 0.5, 0);
    EXPECT_NEAR(interval.low, 0, 0);
    EXPECT_NEAR(interval.high, 1, 0);
    const double ten[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
    EXPECT_STATUS(es_bootstrap_mean(ten, 10, sizeof ten[0], 1, 0, &interval), OK);
    EXPECT_STATUS(es_bootstrap_mean(ten, 10, sizeof ten[0], 1, 0, &again), OK);
    EXPECT_STATUS(es_bootstrap_mean(ten, 10, sizeof ten[0], 2, 0, &other), OK);
    EXPECT_NEAR(again.low, interval.low, 0);
    EXPECT_NEAR(again.high, interval.high, 0);
    EXPECT(other.low != interval.low || other.high != interval.high);
    // no difference is no difference, exactly
    const double zeros[7] = {0};
    EXPECT_STATUS(es_bootstrap_mean(zeros, 7, sizeof zeros[0], 1, 0, &interval), OK);
    EXPECT_NEAR(interval.low, 0, 0);
    EXPECT_NEAR(interval.high, 0, 0);
    EXPECT_STATUS(es_bootstrap_mean(ten, 1, sizeof ten[0], 1, 0, &interval), OK);
    EXPECT(interval.mean == 3 && isnan(interval.low) && isnan(interval.high));
    const double broken[] = {1, NAN};
    EXPECT_STATUS(es_bootstrap_mean(broken, 2, sizeof broken[0], 1, 0, &interval), OK);
    EXPECT(isnan(interval.mean) && isnan(interval.low));
}

TEST(student_of_few_numbers) {
    const double three[] = {1, 2, 3};
    EsInterval interval = es_student_mean(three, 3, sizeof three[0]);
    EXPECT_NEAR(interval.mean, 2, 0);
    EXPECT_NEAR(interval.high - 2, 4.3027 / sqrt(3), 1e-12);
    EXPECT_NEAR(2 - interval.low, 4.3027 / sqrt(3), 1e-12);
    EXPECT(isnan(es_student_mean(three, 1, sizeof three[0]).low));
    // where the table ends and the expansion begins: 2.0423 for 30 degrees, 1.9840 for 100
    double many[101];
    for (int i = 0; i < 101; i++) {
        many[i] = i % 2;
    }
    double deviation = 0;
    es_mean(many, 31, sizeof many[0], &deviation);
    interval = es_student_mean(many, 31, sizeof many[0]);
    EXPECT_NEAR((interval.high - interval.mean) * sqrt(31) / deviation, 2.0423, 1e-4);
    es_mean(many, 101, sizeof many[0], &deviation);
    interval = es_student_mean(many, 101, sizeof many[0]);
    EXPECT_NEAR((interval.high - interval.mean) * sqrt(101) / deviation, 1.9840, 1e-4);
}

// Values of Newcombe (1998), Statistics in Medicine 17, table I, method 3; then the closed forms of
// none and of all: z z / (n + z z) from the end, z the normal quantile.
TEST(wilson_intervals) {
    static const struct {
        int64_t n_hits, n;
        double low, high, bound;
    } rows[] = {{81, 263, 25.53, 36.62, 0.005}, {15, 148, 6.24, 16.05, 0.005},
                {0, 20, 0, 16.11, 0.005},       {1, 29, 0.61, 17.18, 0.005},
                {0, 10, 0, 27.7532800, 1e-6},   {10, 10, 72.2467200, 100, 1e-6},
                {1, 1, 20.6549314, 100, 1e-6}};
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        double low = NAN, high = NAN;
        es_wilson_interval(rows[i].n_hits, rows[i].n, &low, &high);
        EXPECT_NEAR(low, rows[i].low, rows[i].bound);
        EXPECT_NEAR(high, rows[i].high, rows[i].bound);
    }
}
