// What commands print with --json: a result as one value on stdout.
#ifndef ES_PROGRAMS_JSON_OUTPUT_H
#define ES_PROGRAMS_JSON_OUTPUT_H

#include <jansson.h>

#include "esper/status.h"

// Print, reals with n_digits digits, and let go of `root`, which may be NULL. Fails when memory was
// short for a part of it; a stdout that does not take it all is told by es_output_finish.
EsStatus es_json_print(json_t *root, size_t n_digits);

#endif
