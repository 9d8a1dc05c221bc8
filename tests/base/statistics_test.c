#include "base/statistics.h"

#include <math.h>

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
