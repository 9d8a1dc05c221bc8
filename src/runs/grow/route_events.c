// Sums over environments, and their rows.
#include "runs/grow/route_events.h"

#include <stdio.h>

// share of the pairs of routes from which on a step is warned of
#define CONFLICT_HIGH 0.75

void es_route_totals_add(EsRouteTotals *totals, const EsGrowth *growth) {
    const EsRouteReport *reports = es_growth_routes(growth);
    int64_t n_envs = reports == NULL ? 0 : es_growth_options(growth)->n_envs;
    totals->n_environments += n_envs;
    for (int64_t e = 0; e < n_envs; e++) {
        const EsRouteReport *report = &reports[e];
        totals->n_updates += report->n_updates;
        totals->n_conflicts += report->n_conflicts;
        if (report->n_routed > 0) {
            totals->n_routed += report->n_routed;
            totals->conflict_ratio += report->conflict_ratio * report->n_routed;
            totals->teacher_share += report->teacher_share * report->n_routed;
        }
    }
}

void es_route_totals_emit(const EsRouteTotals *totals, EsHub *hub, EsEventTime time) {
    double n = (double)totals->n_routed, conflict_ratio = totals->conflict_ratio / n;
    const EsMetricEvent rows[] = {
        es_metric("tolaria.grad_agg.microbatches_total", (double)totals->n_updates),
        es_metric("tolaria.grad_agg.conflicts", (double)totals->n_conflicts),
        es_metric("tolaria.grad_agg.pcgrad_applied", totals->n_conflicts > 0),
        es_metric("tolaria.grad_agg.conflict_ratio", conflict_ratio),
        es_metric("tolaria.grad_agg.teacher_share", totals->teacher_share / n)};
    const int64_t n_ratios = 2;
    char attributes[64];
    if (totals->n_environments == 0) {
        return;
    }
    es_emit_metric(hub, time, rows,
                   (int64_t)ES_COUNT_OF(rows) - (totals->n_routed > 0 ? 0 : n_ratios));
    if (totals->n_routed > 0 && conflict_ratio >= CONFLICT_HIGH) {
        snprintf(attributes, sizeof attributes, "{\"conflict_ratio\": %.6g}", conflict_ratio);
        const EsTrainerEventEvent warning = {"grad_conflict_high", "warning", attributes};
        es_emit_trainer_event(hub, time, &warning, 1);
    }
}
