// The outcomes of a comparison: means, paired differences and the order of the variants.
#include "runs/fit/fit_compare.h"

#include "es_test.h"

static EsFitComparison make_comparison(void) {
    // fit first, then the others as they are listed; rows are seeds
    static const double accuracies[3][ES_FIT_VARIANTS] = {
        {90, 88, 91, 90, 92, 80, 89}, {92, 89, 92, 92, 94, 82, 91}, {91, 87, 93, 91, 93, 81, 90}};
    EsFitComparison comparison = {.n_seeds = 3};
    for (int v = 0; v < ES_FIT_VARIANTS; v++) {
        for (int i = 0; i < 3; i++) {
            comparison.outcomes[v][i] =
                (EsFitOutcome){.is_known = 1, .test_accuracy = accuracies[i][v]};
        }
    }
    es_fit_comparison_measure(&comparison);
    return comparison;
}

TEST(the_winner_stands_first) {
    static const int expected[] = {ES_FIT_SCRATCH, ES_FIT_WIDER, ES_FIT_FIT,   ES_FIT_DEEPER,
                                   ES_FIT_SEARCH,  ES_FIT_HOST,  ES_FIT_RANDOM};
    EsFitComparison comparison = make_comparison();
    for (int k = 0; k < ES_FIT_VARIANTS; k++) {
        EXPECT_EQ(comparison.order[k], expected[k]); // the fit before a variant that is as good
    }
}

TEST(differences_are_paired) {
    EsFitComparison comparison = make_comparison();
    EXPECT_NEAR(comparison.mean[ES_FIT_FIT].mean, 91, 1e-12);
    EXPECT_NEAR(comparison.difference[ES_FIT_FIT].mean, 0, 1e-12);
    // always 2 points better: the pairs have no spread, though the accuracies have
    EXPECT_NEAR(comparison.difference[ES_FIT_SCRATCH].mean, 2, 1e-12);
    EXPECT_NEAR(comparison.difference[ES_FIT_SCRATCH].low, 2, 1e-12);
    EXPECT_NEAR(comparison.difference[ES_FIT_SCRATCH].high, 2, 1e-12);
    EXPECT(comparison.mean[ES_FIT_SCRATCH].low < 92);
    // 1, 0, 2: mean 1, deviation 1, t = 4.3027 with two degrees of freedom
    EXPECT_NEAR(comparison.difference[ES_FIT_WIDER].low, 1 - 4.3027 / 1.7320508, 1e-4);
    EXPECT_NEAR(comparison.difference[ES_FIT_WIDER].high, 1 + 4.3027 / 1.7320508, 1e-4);
}
