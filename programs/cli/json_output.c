#include "cli/json_output.h"

#include "base/json.h"
#include "cli/output.h"

EsStatus es_json_print(json_t *root, size_t n_digits) {
    return es_output_status(
        es_json_write(root, JSON_INDENT(1) | JSON_REAL_PRECISION(n_digits), stdout));
}
