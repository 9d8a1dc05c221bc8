// A number for JSON, which has no NaN and no infinities: they become null.
#ifndef ES_RUNS_JSON_NUMBER_H
#define ES_RUNS_JSON_NUMBER_H

#include <jansson.h>
#include <math.h>

static inline json_t *es_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

#endif
