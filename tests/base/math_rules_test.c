// The rules' own elementary functions against the long-double functions of the C library, in units
// of the last place; and equal bits with values recorded once, for every machine and compiler.
#include "base/math_rules.h"

#include "base/random_rules.h"
#include "es_test.h"

#define N_SAMPLES 200000

static double random_real(uint32_t i, double low, double high) {
    EsRandom4 r = es_random_draw(7, 0, ES_PURPOSE_EVALUATION, i, 0);
    double u = ((double)r.word[0] + (double)r.word[1] * 0x1p-32) * 0x1p-32;
    return low + (high - low) * u;
}

// Distance in units of the last place of the exact value; subnormal results count in the smallest.
static double ulps(double actual, long double exact) {
    int exponent;
    frexpl(exact, &exponent);
    double unit = ldexp(1, exponent - 53 < -1074 ? -1074 : exponent - 53);
    return (double)(fabsl((long double)actual - exact) / unit);
}

static double worst_of(double (*actual)(double), long double (*exact)(long double), double low,
                       double high) {
    double worst = 0;
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        double x = random_real(i, low, high);
        double error = ulps(actual(x), exact((long double)x));
        worst = error > worst ? error : worst;
    }
    printf("  worst error on [%g, %g]: %.3f ulp\n", low, high, worst);
    return worst;
}

static long double exact_sigmoid(long double x) { return 1 / (1 + expl(-x)); }

TEST(exponential) {
    EXPECT(worst_of(es_math_exp, expl, -1, 1) <= 1);
    EXPECT(worst_of(es_math_exp, expl, -708, 709) <= 1);
    EXPECT(worst_of(es_math_exp, expl, -745, -708) <= 1);
    EXPECT(es_math_exp(0) == 1);
    EXPECT(es_math_exp(-1000) == 0 && es_math_exp(-HUGE_VAL) == 0);
    EXPECT(es_math_exp(710.5) == HUGE_VAL && es_math_exp(HUGE_VAL) == HUGE_VAL);
    EXPECT(isfinite(es_math_exp(709.7)));
    EXPECT(isnan(es_math_exp(NAN)));
}

TEST(logarithm) {
    EXPECT(worst_of(es_math_log, logl, 0.5, 2) <= 1);
    EXPECT(worst_of(es_math_log, logl, 0, 1e-300) <= 1);
    EXPECT(worst_of(es_math_log, logl, 0, 1e6) <= 1);
    EXPECT(worst_of(es_math_log, logl, 0.999, 1.001) <= 1);
    EXPECT(es_math_log(1) == 0);
    EXPECT(es_math_log(0) == -HUGE_VAL && es_math_log(HUGE_VAL) == HUGE_VAL);
    EXPECT(isnan(es_math_log(-1)) && isnan(es_math_log(NAN)));
    EXPECT(ulps(es_math_log(5e-324), logl((long double)5e-324)) <= 2);
}

TEST(hyperbolic_tangent) {
    EXPECT(worst_of(es_math_tanh, tanhl, -1e-3, 1e-3) <= 1.5);
    EXPECT(worst_of(es_math_tanh, tanhl, 0.29, 0.31) <= 1.5);
    EXPECT(worst_of(es_math_tanh, tanhl, 0.3, 0.7) <= 1.5);
    EXPECT(worst_of(es_math_tanh, tanhl, 0.7, 1) <= 1.5);
    EXPECT(worst_of(es_math_tanh, tanhl, -1, 1) <= 1.5);
    EXPECT(worst_of(es_math_tanh, tanhl, -30, 30) <= 1.5);
    EXPECT(es_math_tanh(0) == 0 && es_math_tanh(1e-300) == 1e-300);
    EXPECT(es_math_tanh(HUGE_VAL) == 1 && es_math_tanh(-HUGE_VAL) == -1);
    EXPECT(isnan(es_math_tanh(NAN)));
}

TEST(logistic) {
    EXPECT(worst_of(es_math_sigmoid, exact_sigmoid, -40, 40) <= 2.5);
    EXPECT(worst_of(es_math_sigmoid, exact_sigmoid, -700, 0) <= 2.5);
    EXPECT(es_math_sigmoid(0) == 0.5);
    EXPECT(es_math_sigmoid(HUGE_VAL) == 1 && es_math_sigmoid(-HUGE_VAL) == 0);
    EXPECT(isnan(es_math_sigmoid(NAN)));
}

TEST(cosine) {
    EXPECT(worst_of(es_math_cos, cosl, 0, 3.2) <= 1.5);
    EXPECT(worst_of(es_math_cos, cosl, -1000, 1000) <= 1.5);
    EXPECT(worst_of(es_math_cos, cosl, 1.57079, 1.57080) <= 1.5);
    EXPECT(es_math_cos(0) == 1);
    EXPECT(isnan(es_math_cos(1e7)) && isnan(es_math_cos(HUGE_VAL)) && isnan(es_math_cos(NAN)));
}

TEST(square_root) {
    EXPECT(worst_of(es_math_sqrt, sqrtl, 0, 4) <= 1);
    EXPECT(worst_of(es_math_sqrt, sqrtl, 0, 1e300) <= 1);
    EXPECT(worst_of(es_math_sqrt, sqrtl, 0, 1e-308) <= 1);
    EXPECT(es_math_sqrt(0) == 0 && es_math_sqrt(9) == 3 && es_math_sqrt(HUGE_VAL) == HUGE_VAL);
    EXPECT(isnan(es_math_sqrt(-1)) && isnan(es_math_sqrt(NAN)));
}

TEST(finite_values) {
    EXPECT(es_math_is_finite(0) && es_math_is_finite(-1e308) && es_math_is_finite(5e-324));
    EXPECT(!es_math_is_finite(NAN) && !es_math_is_finite(HUGE_VAL) &&
           !es_math_is_finite(-HUGE_VAL));
    EXPECT(es_math_clamp(NAN, 0, 1) == 0);
    EXPECT(es_math_clamp(2, 0, 1) == 1 && es_math_clamp(-2, 0, 1) == 0);
    EXPECT(es_math_clamp(0.25, 0, 1) == 0.25);
}

// Order-dependent hash of the results' bits: the same on every machine, compiler and device.
static uint64_t hash_bits(double (*function)(double), double low, double high) {
    uint64_t hash = 14695981039346656037u;
    for (uint32_t i = 0; i < 10000; i++) {
        hash = (hash ^ es_math_bits(function(random_real(i, low, high)))) * 1099511628211u;
    }
    return hash;
}

static void expect_hash(const char *name, uint64_t actual, uint64_t expected) {
    if (actual != expected) {
        ES_TEST_FAIL("bits of %s hash to 0x%016llx, recorded 0x%016llx", name,
                     (unsigned long long)actual, (unsigned long long)expected);
    }
}

TEST(recorded_bits) {
    expect_hash("exp", hash_bits(es_math_exp, -50, 50), 0x9b661f9ed2131eaf);
    expect_hash("log", hash_bits(es_math_log, 0, 50), 0x251d7de714623d63);
    expect_hash("tanh", hash_bits(es_math_tanh, -5, 5), 0x2fcd2dfbc23c3a00);
    expect_hash("sigmoid", hash_bits(es_math_sigmoid, -50, 50), 0xd416c98d9f1a85cf);
    expect_hash("cos", hash_bits(es_math_cos, -50, 50), 0x2971a62fc575a346);
    expect_hash("sqrt", hash_bits(es_math_sqrt, 0, 50), 0xaae72c754d53b189);
}
