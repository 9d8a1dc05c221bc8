// From samples to a value with its noise.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "runs/run_facts_internal.h"

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
    double n = (double)samples->n, sum = 0, squares = 0;
    for (int64_t i = 0; i < samples->n; i++) {
        sum += samples->values[i];
    }
    for (int64_t i = 0; i < samples->n; i++) {
        double distance = samples->values[i] - sum / n;
        squares += distance * distance;
    }
    if (samples->n == 1) {
        return (EsMeasure){sum, NAN, NAN, 1};
    }
    double deviation = sqrt(squares / (n - 1));
    return (EsMeasure){sum / n, deviation, is_series ? NAN : 2 * deviation / sqrt(n), samples->n};
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Interpolates linearly between samples.
static double take_quantile(const EsSamples *sorted, double share) {
    double position = share * (double)(sorted->n - 1);
    int64_t below = (int64_t)position;
    int64_t above = ES_MIN(below + 1, sorted->n - 1);
    const double *values = sorted->values;
    return values[below] + (position - (double)below) * (values[above] - values[below]);
}

EsMeasure es_samples_quantile(EsSamples *samples, double share) {
    if (samples->n == 0) {
        return es_measure_missing();
    }
    qsort(samples->values, (size_t)samples->n, sizeof *samples->values, compare_doubles);
    double value = take_quantile(samples, share);
    if (samples->n == 1) {
        return (EsMeasure){value, NAN, NAN, 1};
    }
    double range = take_quantile(samples, 0.75) - take_quantile(samples, 0.25);
    return (EsMeasure){value, range, range, samples->n};
}
