// Metrics and warnings of gradients by route (growth/engine/gradient_routes.h), by the names of the
// source documents: tolaria.grad_agg.*.
//
//     EsRouteTotals totals = {0};
//     es_route_totals_add(&totals, growth); // of every growth that has them
//     es_route_totals_emit(&totals, hub, time);
#ifndef ES_RUNS_ROUTE_EVENTS_H
#define ES_RUNS_ROUTE_EVENTS_H

#include "growth/engine/growth.h"
#include "telemetry/hub.h"

// Of the last step of all environments; shares are sums over routed updates.
typedef struct EsRouteTotals {
    int64_t n_environments, n_updates, n_routed, n_conflicts;
    double conflict_ratio, teacher_share;
} EsRouteTotals;

// Adds nothing without aggregation.
void es_route_totals_add(EsRouteTotals *totals, const EsGrowth *growth);

// Emits the metrics, and grad_conflict_high where at least three quarters of the pairs were in
// conflict; nothing without aggregation. Ratios are left out where no update had two routes.
void es_route_totals_emit(const EsRouteTotals *totals, EsHub *hub, EsEventTime time);

#endif
