#include <math.h>

#include "inspect/diff_json.h"

#include "base/json.h"

// Names come from files: what is not UTF-8 must not lose the whole entry.
static json_t *text_or_null(const char *text) {
    json_t *string = text != NULL ? json_string(text) : NULL;
    return string != NULL ? string : json_null();
}

static json_t *describe_measure(EsMeasure measure) {
    if (measure.n == 0) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "value", es_json_number(measure.value));
    json_object_set_new(object, "spread", es_json_number(measure.spread));
    json_object_set_new(object, "noise", es_json_number(measure.noise));
    json_object_set_new(object, "samples", json_integer((json_int_t)measure.n));
    return object;
}

static json_t *describe_run(const EsRunFacts *facts) {
    json_t *object = json_object();
    json_object_set_new(object, "path", text_or_null(facts->path));
    json_object_set_new(object, "kind", text_or_null(facts->kind));
    json_object_set_new(object, "task", text_or_null(facts->task));
    json_object_set_new(object, "device", text_or_null(facts->device));
    json_object_set_new(object, "outcome", text_or_null(facts->outcome));
    return object;
}

static json_t *describe_settings(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_settings; i++) {
        const EsSettingPair *pair = &comparison->settings[i];
        json_t *object = json_object();
        json_object_set_new(object, "name",
                            text_or_null(pair->a != NULL ? pair->a->name : pair->b->name));
        json_object_set_new(object, "a", text_or_null(pair->a != NULL ? pair->a->value : NULL));
        json_object_set_new(object, "b", text_or_null(pair->b != NULL ? pair->b->value : NULL));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *describe_facts(const EsRunComparison *comparison, int first, int end) {
    json_t *array = json_array();
    for (int i = first; i < end; i++) {
        EsMeasure a = comparison->a->measures[i], b = comparison->b->measures[i];
        json_t *object = json_object();
        json_object_set_new(object, "name", json_string(es_fact_name((EsFact)i)));
        json_object_set_new(object, "unit", json_string(es_fact_unit((EsFact)i)));
        json_object_set_new(object, "a", describe_measure(a));
        json_object_set_new(object, "b", describe_measure(b));
        json_object_set_new(object, "difference", es_json_number(b.value - a.value));
        json_object_set_new(object, "verdict",
                            json_string(es_verdict_name(comparison->measures[i])));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *describe_metric(const EsRunMetric *metric) {
    if (metric == NULL) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "last", es_json_number(metric->last));
    json_object_set_new(object, "last_ten_rounds", describe_measure(metric->mean));
    return object;
}

static json_t *describe_metrics(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_metrics; i++) {
        const EsMetricPair *pair = &comparison->metrics[i];
        double difference =
            pair->a != NULL && pair->b != NULL ? pair->b->mean.value - pair->a->mean.value : NAN;
        json_t *object = json_object();
        json_object_set_new(object, "name",
                            text_or_null(pair->a != NULL ? pair->a->name : pair->b->name));
        json_object_set_new(object, "a", describe_metric(pair->a));
        json_object_set_new(object, "b", describe_metric(pair->b));
        json_object_set_new(object, "difference", es_json_number(difference));
        json_object_set_new(object, "is_equal", json_boolean(pair->is_equal));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *describe_latency(const EsRunLatency *latency) {
    if (latency == NULL) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "calls", json_integer((json_int_t)latency->n_calls));
    json_object_set_new(object, "p50_ms", describe_measure(latency->p50_ms));
    json_object_set_new(object, "p95_ms", describe_measure(latency->p95_ms));
    json_object_set_new(object, "max_ms", es_json_number(latency->max_ms.value));
    return object;
}

static json_t *describe_latencies(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_latencies; i++) {
        const EsLatencyPair *pair = &comparison->latencies[i];
        json_t *object = json_object();
        json_object_set_new(object, "name",
                            text_or_null(pair->a != NULL ? pair->a->name : pair->b->name));
        json_object_set_new(object, "a", describe_latency(pair->a));
        json_object_set_new(object, "b", describe_latency(pair->b));
        if (pair->a != NULL && pair->b != NULL) {
            json_t *ratio = json_object();
            json_object_set_new(ratio, "p50",
                                es_json_number(pair->b->p50_ms.value / pair->a->p50_ms.value));
            json_object_set_new(ratio, "p95",
                                es_json_number(pair->b->p95_ms.value / pair->a->p95_ms.value));
            json_object_set_new(ratio, "max",
                                es_json_number(pair->b->max_ms.value / pair->a->max_ms.value));
            json_object_set_new(object, "ratio", ratio);
        }
        json_object_set_new(object, "verdict", json_string(es_verdict_name(pair->verdict)));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *describe_events(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_events; i++) {
        const EsEventPair *pair = &comparison->events[i];
        json_t *object = json_object();
        json_object_set_new(object, "name",
                            text_or_null(pair->a != NULL ? pair->a->name : pair->b->name));
        json_object_set_new(object, "a", json_integer(pair->a != NULL ? pair->a->n_rows : 0));
        json_object_set_new(object, "b", json_integer(pair->b != NULL ? pair->b->n_rows : 0));
        json_object_set_new(object, "is_lacking", json_boolean(es_event_is_lacking(pair)));
        json_array_append_new(array, object);
    }
    return array;
}

EsStatus es_diff_json_print(const EsRunComparison *comparison, FILE *stream) {
    json_t *root = json_object();
    json_object_set_new(root, "a", describe_run(comparison->a));
    json_object_set_new(root, "b", describe_run(comparison->b));
    json_object_set_new(root, "configuration", describe_settings(comparison));
    json_object_set_new(root, "outcome",
                        describe_facts(comparison, 0, ES_FACT_FIRST_OF_THROUGHPUT));
    json_object_set_new(root, "throughput",
                        describe_facts(comparison, ES_FACT_FIRST_OF_THROUGHPUT, ES_FACT_COUNT));
    json_object_set_new(root, "metrics", describe_metrics(comparison));
    json_object_set_new(root, "latencies", describe_latencies(comparison));
    json_object_set_new(root, "events", describe_events(comparison));
    json_object_set_new(root, "n_lacking", json_integer(comparison->n_lacking));
    return es_json_write(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15), stream);
}
