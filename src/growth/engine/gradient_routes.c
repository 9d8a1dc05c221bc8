// PCGrad by coefficients: a projected gradient is a sum of the gradients given, so the products of
// all pairs say everything, and each gradient is read twice, whatever the number of conflicts.
#include "growth/engine/gradient_routes.h"

#include <math.h>
#include <string.h>

#include "growth/rules/stage_rules.h"

double es_route_weight(int32_t stage, float alpha) {
    double base = !es_stage_in(stage, ES_STAGES_BLENDED) ? 0.25
                  : stage == ES_STAGE_BLENDING           ? 0.5
                                                         : 1;
    return fmax(0.1, base * (0.5 + 0.5 * (double)alpha));
}

static double dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

EsRouteMeasures es_routes_measure(const EsRoutes *routes) {
    EsRouteMeasures measures = {.is_finite = 1};
    for (int i = 0; i < routes->n; i++) {
        for (int j = 0; j <= i; j++) {
            double d = dot(routes->gradient[i], routes->gradient[j], routes->count);
            measures.dot[i][j] = measures.dot[j][i] = d;
            measures.is_finite &= isfinite(d) != 0;
            if (d < 0) {
                measures.n_opposed[i]++;
                measures.n_opposed[j]++;
                measures.n_conflicts++;
            }
        }
    }
    return measures;
}

// Coefficients of route i without its conflicts: g_i' = sum of own[j] g_j. The others come in an
// order drawn for this route.
static void project(const EsRouteMeasures *measures, int n, int i, const EsRouteKey *key,
                    double own[ES_ROUTES_MAX]) {
    EsRandom4 order =
        es_random_draw(key->seed, key->episode, ES_PURPOSE_ROUTES, key->update, (uint32_t)i);
    memset(own, 0, sizeof(double) * ES_ROUTES_MAX);
    own[i] = 1;
    for (int k = 0; k < n; k++) {
        int j = (int)es_random_permute((uint32_t)k, (uint32_t)n, order);
        double along = 0;
        for (int m = 0; m < n; m++) {
            along += own[m] * measures->dot[m][j];
        }
        if (j != i && along < 0 && measures->dot[j][j] > 0) {
            own[j] -= along / measures->dot[j][j];
        }
    }
}

static int are_equal(const double *weights, int n) {
    for (int i = 1; i < n; i++) {
        if (weights[i] != weights[0]) {
            return 0;
        }
    }
    return 1;
}

void es_routes_combine(const EsRoutes *routes, const EsRouteMeasures *measures,
                       const EsRouteKey *key, const float *plain, float *out) {
    double share[ES_ROUTES_MAX] = {0}, own[ES_ROUTES_MAX], sum = 0;
    int n = routes->n;
    if (!measures->is_finite || (measures->n_conflicts == 0 && are_equal(routes->weight, n))) {
        memcpy(out, plain, sizeof *out * (size_t)routes->count);
        return;
    }
    for (int i = 0; i < n; i++) {
        sum += routes->weight[i];
    }
    for (int i = 0; i < n; i++) {
        project(measures, n, i, key, own);
        for (int j = 0; j < n; j++) {
            share[j] += routes->weight[i] * n / sum * own[j];
        }
    }
    for (int64_t k = 0; k < routes->count; k++) {
        double total = 0;
        for (int j = 0; j < n; j++) {
            total += share[j] * (double)routes->gradient[j][k];
        }
        out[k] = (float)total;
    }
}
