// Gradients of one update by route, and what becomes of them.
//
// A *route* is a way that the gradient of the loss takes back through a host: through the branch of
// the first seed that it meets, counted from the loss, or past all seeds (the *teacher's*). Routes
// add up to the gradient. Two routes that pull the same weights apart are in *conflict*. PCGrad (Yu
// et al., "Gradient surgery for multi-task learning", NeurIPS 2020) takes off each route, in an
// order that is drawn, its part along those that it opposes, as they were.
//
//     EsRoutes routes = {.n = 3, .count = n, .gradient = {teacher, a, b}, .weight = {1, 1, 1}};
//     EsRouteMeasures measures = es_routes_measure(&routes);
//     es_routes_combine(&routes, &measures, &key, plain, out);
#ifndef ES_GROWTH_GRADIENT_ROUTES_H
#define ES_GROWTH_GRADIENT_ROUTES_H

#include "base/random_rules.h"
#include "growth/host/growth_graph.h"

#define ES_ROUTES_MAX (1 + ES_SLOTS_MAX)

typedef struct EsRoutes {
    int n;                                // number 0 is the teacher's
    int64_t count;                        // numbers of a gradient
    const float *gradient[ES_ROUTES_MAX]; // borrowed [count] each
    double weight[ES_ROUTES_MAX];         // above 0; their ratios alone matter
} EsRoutes;

typedef struct EsRouteMeasures {
    double dot[ES_ROUTES_MAX][ES_ROUTES_MAX]; // products of the gradients
    int n_opposed[ES_ROUTES_MAX];             // routes that each is in conflict with
    int n_conflicts;                          // pairs
    int is_finite;                            // all of the products
} EsRouteMeasures;

// Weight of a seed's route; the teacher's is 1. By stage b = 1/4, 1/2, 1 before, in and after
// blending: max(0.1, b (1 + alpha) / 2), so a seed never counts for nothing.
double es_route_weight(int32_t stage, float alpha);

EsRouteMeasures es_routes_measure(const EsRoutes *routes);

// Key of the order in which conflicts are taken off.
typedef struct EsRouteKey {
    uint64_t seed;
    uint32_t episode, update;
} EsRouteKey;

// out = sum of w_i g_i', where g_i' is g_i without conflicts and the weights have mean 1. Without
// conflicts and with equal weights that is `plain`, the gradient as it was computed at once, bit
// for bit; likewise where a number is not finite, which aggregation must not hide.
void es_routes_combine(const EsRoutes *routes, const EsRouteMeasures *measures,
                       const EsRouteKey *key, const float *plain, float *out);

#endif
