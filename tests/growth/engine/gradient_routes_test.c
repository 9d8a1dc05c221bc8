// Aggregation of gradients by route: PCGrad against projections of the vectors themselves,
// conflicts that were made, and the plain gradient bit for bit where there is nothing to do.
#include "es_test.h"

#include "growth/engine/gradient_routes.h"

enum { N_MAX = 1000 };

static float vectors[ES_ROUTES_MAX][N_MAX], plain[N_MAX], out[N_MAX];

static float draw(uint32_t number) {
    EsRandom4 r = es_random_draw(5, 0, ES_PURPOSE_EVALUATION, 0, number / 4);
    return 2.0f * es_random_uniform(r.word[number % 4]) - 1.0f;
}

// n vectors that share a direction, along which some are turned round: conflicts of all sizes.
static EsRoutes make_routes(uint32_t seed, int n, int64_t count, int has_weights) {
    EsRoutes routes = {.n = n, .count = count};
    memset(plain, 0, sizeof plain);
    for (int i = 0; i < n; i++) {
        float along = draw(seed + 7919u * (uint32_t)(i + 1));
        for (int64_t k = 0; k < count; k++) {
            uint32_t number = seed * 31u + (uint32_t)(i * N_MAX) + (uint32_t)k;
            vectors[i][k] = draw(number) + along * draw(1000000u + (uint32_t)k);
            plain[k] += vectors[i][k];
        }
        routes.gradient[i] = vectors[i];
        routes.weight[i] = has_weights ? 0.25 + 0.5 * (i % 3) : 2;
    }
    return routes;
}

// The published rule on the vectors themselves, in double, with the order that the key draws.
static void combine_plainly(const EsRoutes *routes, const EsRouteKey *key, double *sum) {
    static double own[N_MAX];
    double weights = 0;
    for (int i = 0; i < routes->n; i++) {
        weights += routes->weight[i];
    }
    memset(sum, 0, sizeof *sum * N_MAX);
    for (int i = 0; i < routes->n; i++) {
        EsRandom4 order =
            es_random_draw(key->seed, key->episode, ES_PURPOSE_ROUTES, key->update, (uint32_t)i);
        for (int64_t k = 0; k < routes->count; k++) {
            own[k] = (double)vectors[i][k];
        }
        for (int at = 0; at < routes->n; at++) {
            int j = (int)es_random_permute((uint32_t)at, (uint32_t)routes->n, order);
            double product = 0, square = 0;
            for (int64_t k = 0; k < routes->count; k++) {
                product += own[k] * (double)vectors[j][k];
                square += (double)vectors[j][k] * (double)vectors[j][k];
            }
            for (int64_t k = 0; j != i && product < 0 && k < routes->count; k++) {
                own[k] -= product / square * (double)vectors[j][k];
            }
        }
        for (int64_t k = 0; k < routes->count; k++) {
            sum[k] += routes->weight[i] * routes->n / weights * own[k];
        }
    }
}

TEST(projections_equal_those_of_vectors) {
    static double expected[N_MAX];
    int n_with_conflicts = 0;
    for (uint32_t c = 0; c < 200; c++) {
        int n = 2 + (int)(c % (ES_ROUTES_MAX - 1));
        int64_t count = 1 + (int64_t)(c * 37 % N_MAX);
        EsRoutes routes = make_routes(c, n, count, (int)(c % 2));
        EsRouteMeasures measures = es_routes_measure(&routes);
        EsRouteKey key = {11, c % 5, c};
        es_routes_combine(&routes, &measures, &key, plain, out);
        combine_plainly(&routes, &key, expected);
        n_with_conflicts += measures.n_conflicts > 0;
        for (int64_t k = 0; k < count; k++) {
            EXPECT_NEAR((double)out[k], expected[k], 1e-6 * n);
        }
    }
    EXPECT(n_with_conflicts > 100);
}

// Two seeds that pull apart: each loses what opposes the other, and the teacher keeps its own.
TEST(a_conflict_is_found_and_taken_off) {
    const float teacher[] = {0, 0, 3}, a[] = {1, 1, 0}, b[] = {-1, 0, 0};
    EsRoutes routes = {.n = 3, .count = 3, .gradient = {teacher, a, b}, .weight = {1, 1, 1}};
    const float sum[] = {0, 1, 3};
    float combined[3];
    EsRouteMeasures measures = es_routes_measure(&routes);
    EXPECT_EQ(measures.n_conflicts, 1);
    EXPECT_EQ(measures.n_opposed[0], 0);
    EXPECT(measures.n_opposed[1] == 1 && measures.n_opposed[2] == 1);
    es_routes_combine(&routes, &measures, &(EsRouteKey){1, 2, 3}, sum, combined);
    // a without b is (0, 1, 0); b without a is (-1/2, 1/2, 0)
    EXPECT_NEAR((double)combined[0], -0.5, 1e-7);
    EXPECT_NEAR((double)combined[1], 1.5, 1e-7);
    EXPECT_NEAR((double)combined[2], 3.0, 1e-7);
}

TEST(weights_have_mean_1) {
    const float teacher[] = {1, 0}, seed[] = {0, 1};
    EsRoutes routes = {.n = 2, .count = 2, .gradient = {teacher, seed}, .weight = {1, 0.5}};
    const float sum[] = {1, 1};
    float combined[2];
    EsRouteMeasures measures = es_routes_measure(&routes);
    es_routes_combine(&routes, &measures, &(EsRouteKey){1, 2, 3}, sum, combined);
    EXPECT_NEAR((double)combined[0], 2 / 1.5, 1e-7);
    EXPECT_NEAR((double)combined[1], 1 / 1.5, 1e-7);
}

// `plain` is not even the sum here: it is taken as it stands.
TEST(without_conflicts_the_plain_gradient_is_taken_bit_for_bit) {
    const float teacher[] = {1, 0, 0}, seed[] = {0.25f, 1, 0};
    EsRoutes routes = {.n = 2, .count = 3, .gradient = {teacher, seed}, .weight = {3, 3}};
    const float given[] = {0.1f, -0.0f, 7};
    float combined[3];
    EsRouteMeasures measures = es_routes_measure(&routes);
    es_routes_combine(&routes, &measures, &(EsRouteKey){1, 2, 3}, given, combined);
    EXPECT(memcmp(given, combined, sizeof given) == 0);
}

TEST(what_is_not_finite_stays) {
    const float teacher[] = {1, NAN}, seed[] = {-1, 0};
    EsRoutes routes = {.n = 2, .count = 2, .gradient = {teacher, seed}, .weight = {1, 0.5}};
    const float given[] = {0, NAN};
    float combined[2];
    EsRouteMeasures measures = es_routes_measure(&routes);
    EXPECT(!measures.is_finite);
    es_routes_combine(&routes, &measures, &(EsRouteKey){1, 2, 3}, given, combined);
    EXPECT(memcmp(given, combined, sizeof given) == 0);
}

// A route of nothing (a seed that has just begun) opposes nobody and divides by nothing.
TEST(an_empty_route_changes_nothing) {
    const float teacher[] = {1, -2}, nothing[] = {0, 0}, seed[] = {-1, 0};
    EsRoutes routes = {
        .n = 3, .count = 2, .gradient = {teacher, nothing, seed}, .weight = {1, 1, 1}};
    float combined[2];
    EsRouteMeasures measures = es_routes_measure(&routes);
    EXPECT_EQ(measures.n_conflicts, 1);
    EXPECT_EQ(measures.n_opposed[1], 0);
    es_routes_combine(&routes, &measures, &(EsRouteKey){1, 2, 3}, (float[]){0, -2}, combined);
    EXPECT(isfinite(combined[0]) && isfinite(combined[1]));
    EXPECT_NEAR((double)combined[0], 0 - 0.2 * 4 + 0, 1e-6); // (0, -2) and (-4/5, -2/5)
    EXPECT_NEAR((double)combined[1], -2 - 0.4, 1e-6);
}
