// The long lists of a run: metrics by name, latencies by phase.
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "runs/inspect/run_facts_internal.h"

// --- metrics ---

typedef struct Metrics {
    EsRunFacts *facts;
    EsSamples samples; // of the metric at hand, the last in the list
} Metrics;

static void finish_metric(Metrics *metrics) {
    EsRunFacts *facts = metrics->facts;
    if (facts->n_metrics > 0) {
        facts->metrics[facts->n_metrics - 1].mean = es_samples_mean(&metrics->samples, 1);
    }
    metrics->samples.n = 0;
}

// Rows come by name, oldest first.
static EsStatus take_metric(void *context, const EsRunQuery *query) {
    Metrics *metrics = context;
    EsRunFacts *facts = metrics->facts;
    const char *name = es_run_query_text(query, 0, NULL);
    double value = es_run_query_real(query, 1);
    if (name == NULL) {
        return ES_STATUS_OK;
    }
    if (facts->n_metrics == 0 || strcmp(facts->metrics[facts->n_metrics - 1].name, name) != 0) {
        finish_metric(metrics);
        ES_TRY(es_list_grow((void **)&facts->metrics, facts->n_metrics, sizeof *facts->metrics));
        EsRunMetric *metric = &facts->metrics[facts->n_metrics];
        ES_TRY(es_run_facts_keep(facts, name, &metric->name));
        facts->n_metrics++;
    }
    facts->metrics[facts->n_metrics - 1].last = value;
    return es_samples_add(&metrics->samples, value);
}

EsStatus es_run_facts_read_metrics(EsRunFacts *facts, EsRunDatabase *database) {
    if (es_run_facts_event_rows(facts, "metric") == 0) {
        return ES_STATUS_OK;
    }
    Metrics metrics = {.facts = facts};
    EsStatus status = es_run_facts_each(
        database,
        "WITH newest AS (SELECT name AS of, max(round) AS last_round FROM event_metric "
        "GROUP BY name) "
        "SELECT name, value FROM event_metric JOIN newest ON name = of "
        "WHERE round > last_round - 10 ORDER BY name, round, sequence, row",
        take_metric, &metrics);
    finish_metric(&metrics);
    es_samples_destroy(&metrics.samples);
    return status;
}

// --- latencies ---

static EsStatus add_latency(EsRunFacts *facts, const char *name, EsRunLatency **latency) {
    ES_TRY(es_list_grow((void **)&facts->latencies, facts->n_latencies, sizeof *facts->latencies));
    EsRunLatency *added = &facts->latencies[facts->n_latencies];
    ES_TRY(es_run_facts_keep(facts, name, &added->name));
    facts->n_latencies++;
    *latency = added;
    return ES_STATUS_OK;
}

typedef struct Phases {
    EsRunFacts *facts;
    EsRunLatency *latency;   // of the phase at hand
    EsSamples p50, p95, max; // one sample per round
} Phases;

static void finish_phase(Phases *phases) {
    if (phases->latency != NULL) {
        phases->latency->p50_ms = es_samples_quantile(&phases->p50, 0.5);
        phases->latency->p95_ms = es_samples_quantile(&phases->p95, 0.5);
        phases->latency->max_ms = es_samples_quantile(&phases->max, 1);
    }
    phases->p50.n = phases->p95.n = phases->max.n = 0;
}

// Rows come by phase.
static EsStatus take_phase(void *context, const EsRunQuery *query) {
    Phases *phases = context;
    const char *phase = es_run_query_text(query, 0, NULL);
    if (phase == NULL) {
        return ES_STATUS_OK;
    }
    char name[128];
    snprintf(name, sizeof name, "phase %.100s", phase);
    if (phases->latency == NULL || strcmp(phases->latency->name, name) != 0) {
        finish_phase(phases);
        ES_TRY(add_latency(phases->facts, name, &phases->latency));
    }
    phases->latency->n_calls += es_run_query_int(query, 1);
    ES_TRY(es_samples_add(&phases->p50, es_run_query_real(query, 2)));
    ES_TRY(es_samples_add(&phases->p95, es_run_query_real(query, 3)));
    return es_samples_add(&phases->max, es_run_query_real(query, 4));
}

static EsStatus read_phases(EsRunFacts *facts, EsRunDatabase *database) {
    Phases phases = {.facts = facts};
    EsStatus status = es_run_facts_each(
        database,
        "SELECT phase, n_calls, p50_ms, p95_ms, max_ms FROM event_phase_profiled ORDER BY phase",
        take_phase, &phases);
    finish_phase(&phases);
    es_samples_destroy(&phases.p50);
    es_samples_destroy(&phases.p95);
    es_samples_destroy(&phases.max);
    return status;
}

static const char *const step_parts[] = {"step total", "step train", "step validate",
                                         "step decide"};

typedef struct Steps {
    EsSamples parts[ES_COUNT_OF(step_parts)];
} Steps;

static EsStatus take_step(void *context, const EsRunQuery *query) {
    Steps *steps = context;
    for (size_t i = 0; i < ES_COUNT_OF(step_parts); i++) {
        ES_TRY(es_samples_add(&steps->parts[i], es_run_query_real(query, (int)i)));
    }
    return ES_STATUS_OK;
}

static EsStatus read_steps(EsRunFacts *facts, EsRunDatabase *database) {
    Steps steps = {0};
    EsStatus status = es_run_facts_each(
        database, "SELECT total_ms, train_ms, validate_ms, decide_ms FROM event_step_timed",
        take_step, &steps);
    for (size_t i = 0; i < ES_COUNT_OF(step_parts); i++) {
        EsRunLatency *latency = NULL;
        if (status == ES_STATUS_OK && steps.parts[i].n > 0) {
            status = add_latency(facts, step_parts[i], &latency);
        }
        if (latency != NULL) {
            latency->n_calls = steps.parts[i].n;
            latency->p50_ms = es_samples_quantile(&steps.parts[i], 0.5);
            latency->p95_ms = es_samples_quantile(&steps.parts[i], 0.95);
            latency->max_ms = es_samples_quantile(&steps.parts[i], 1);
        }
        es_samples_destroy(&steps.parts[i]);
    }
    return status;
}

EsStatus es_run_facts_read_latencies(EsRunFacts *facts, EsRunDatabase *database) {
    if (es_run_facts_event_rows(facts, "step_timed") > 0) {
        ES_TRY(read_steps(facts, database));
    }
    return es_run_facts_event_rows(facts, "phase_profiled") > 0 ? read_phases(facts, database)
                                                                : ES_STATUS_OK;
}
