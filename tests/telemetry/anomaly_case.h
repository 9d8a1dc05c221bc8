// Helpers of the anomaly tests.
#ifndef ES_TESTS_ANOMALY_CASE_H
#define ES_TESTS_ANOMALY_CASE_H

#include "es_test.h"
#include "telemetry/anomaly_rules.h"

static inline EsAnomalyList create_list(void) {
    EsAnomalyList list;
    REQUIRE_OK(es_anomaly_list_create(&list, 300));
    return list;
}

static inline EsAnomalyDetector create_detector(void) {
    EsAnomalyDetector detector;
    es_anomaly_detector_reset(&detector, NULL, es_anomaly_growth_heads, ES_N_GROWTH_HEADS);
    return detector;
}

// A row that is not there has empty texts, so that a test can go on.
static inline const EsAnomalyDetectedEvent *row_at(const EsAnomalyList *found, int64_t index) {
    static const EsAnomalyDetectedEvent none = {
        .rule = "", .severity = "", .event_name = "", .detail = ""};
    return index < found->n_rows ? &found->rows[index] : &none;
}

#endif
