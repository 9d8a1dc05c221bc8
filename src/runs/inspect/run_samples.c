// From samples to a value with its noise.
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/statistics.h"
#include "runs/inspect/run_facts_internal.h"

// lists begin with this many items and double
#define FIRST_ITEMS 8

EsStatus es_list_grow(void **items, int64_t n, size_t item_bytes) {
    int is_full = n == 0 || (n >= FIRST_ITEMS && (n & (n - 1)) == 0);
    if (!is_full) {
        return ES_STATUS_OK;
    }
    void *more = NULL;
    size_t wanted = n == 0 ? FIRST_ITEMS : 2 * (size_t)n;
    ES_TRY(es_allocate(wanted * item_bytes, &more));
    if (n > 0) {
        memcpy(more, *items, (size_t)n * item_bytes);
    }
    es_release(*items);
    *items = more;
    return ES_STATUS_OK;
}

EsStatus es_samples_add(EsSamples *samples, double value) {
    if (!isfinite(value)) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_list_grow((void **)&samples->values, samples->n, sizeof *samples->values));
    samples->values[samples->n++] = value;
    return ES_STATUS_OK;
}

void es_samples_destroy(EsSamples *samples) {
    es_release(samples->values);
    *samples = (EsSamples){0};
}

EsMeasure es_measure_missing(void) { return (EsMeasure){NAN, NAN, NAN, 0}; }

EsMeasure es_measure_exact(double value) {
    return isfinite(value) ? (EsMeasure){value, 0, 0, 1} : es_measure_missing();
}

EsMeasure es_samples_mean(const EsSamples *samples, int is_series) {
    if (samples->n == 0) {
        return es_measure_missing();
    }
    double deviation = 0;
    double mean = es_mean(samples->values, samples->n, sizeof *samples->values, &deviation);
    if (samples->n == 1) {
        return (EsMeasure){mean, NAN, NAN, 1};
    }
    double noise = is_series ? NAN : 2 * deviation / sqrt((double)samples->n);
    return (EsMeasure){mean, deviation, noise, samples->n};
}

EsMeasure es_samples_quantile(EsSamples *samples, double share) {
    if (samples->n == 0) {
        return es_measure_missing();
    }
    es_sort_doubles(samples->values, samples->n);
    double value = es_quantile(samples->values, samples->n, share);
    if (samples->n == 1) {
        return (EsMeasure){value, NAN, NAN, 1};
    }
    double range = es_quantile(samples->values, samples->n, 0.75) -
                   es_quantile(samples->values, samples->n, 0.25);
    return (EsMeasure){value, range, range, samples->n};
}
