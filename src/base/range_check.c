// The failures of range checks, in one form: "<file>: <field>[<index>] is <value>, must be ...".
#include "base/range_check.h"

#include <math.h>
#include <stdio.h>

#define FIELD_BYTES 160

// "name" or "name[index]".
static const char *write_field(EsFileField field, char text[FIELD_BYTES]) {
    if (field.index == ES_NO_INDEX) {
        snprintf(text, FIELD_BYTES, "%.120s", field.name);
    } else {
        snprintf(text, FIELD_BYTES, "%.120s[%lld]", field.name, (long long)field.index);
    }
    return text;
}

EsStatus es_fail_integer(EsFileField field, int64_t value, int64_t least, int64_t most) {
    char text[FIELD_BYTES];
    write_field(field, text);
    if (least == most) {
        return ES_FAIL(INPUT, "%s: %s is %lld, must be %lld", field.path, text, (long long)value,
                       (long long)least);
    }
    return ES_FAIL(INPUT, "%s: %s is %lld, must be %lld to %lld", field.path, text,
                   (long long)value, (long long)least, (long long)most);
}

EsStatus es_fail_real(EsFileField field, double value, double least, double most) {
    char text[FIELD_BYTES];
    write_field(field, text);
    if (most < DBL_MAX) {
        return ES_FAIL(INPUT, "%s: %s is %g, must be %g to %g", field.path, text, value, least,
                       most);
    }
    return ES_FAIL(INPUT, "%s: %s is %g, must be finite%s", field.path, text, value,
                   least < 0 ? "" : " and not negative");
}

EsStatus es_check_finite(const char *path, const char *tensor, const float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return es_fail_real((EsFileField){path, tensor, i}, (double)values[i], -DBL_MAX,
                                DBL_MAX);
        }
    }
    return ES_STATUS_OK;
}
