// Numbers that come from a file, against the range they may have.
//
// A checksum that fits says that a file is whole, not that its numbers make sense: its writer
// may have written anything. Loaders check every number before they use it, and change nothing
// before all are checked. A failure is INPUT and names file, field and value.
//
//     ES_TRY(es_check_integer((EsFileField){path, "n_atoms", slot}, n_atoms, 1, max_atoms));
//     // run/checkpoints/2/training.bin: n_atoms[3] is 4000, must be 1 to 6
#ifndef ES_BASE_RANGE_CHECK_H
#define ES_BASE_RANGE_CHECK_H

#include <float.h>
#include <stdint.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// The largest count that a file may hold: far beyond any run, and small enough that thousands of
// them can be added up, and grow, without overflow.
#define ES_COUNTER_MAX (INT64_C(1) << 50)

// Place of a number in a file, for messages; texts are borrowed.
typedef struct EsFileField {
    const char *path, *name;
    int64_t index; // among those of that name, ES_NO_INDEX: there is one
} EsFileField;

#define ES_NO_INDEX (-1)

// The INPUT failures of the checks below.
EsStatus es_fail_integer(EsFileField field, int64_t value, int64_t least, int64_t most);
EsStatus es_fail_real(EsFileField field, double value, double least, double most);

static inline EsStatus es_check_integer(EsFileField field, int64_t value, int64_t least,
                                        int64_t most) {
    return value >= least && value <= most ? ES_STATUS_OK
                                           : es_fail_integer(field, value, least, most);
}

// NaN is in no range; up to DBL_MAX, from 0 or -DBL_MAX, is all that is finite.
static inline EsStatus es_check_real(EsFileField field, double value, double least, double most) {
    return value >= least && value <= most ? ES_STATUS_OK : es_fail_real(field, value, least, most);
}

static inline EsStatus es_check_counter(EsFileField field, int64_t value) {
    return es_check_integer(field, value, 0, ES_COUNTER_MAX);
}

// All numbers of a tensor; the failure names the first that is not finite by its index.
EsStatus es_check_finite(const char *path, const char *tensor, const float *values, int64_t count);

ES_EXTERN_C_END

#endif
