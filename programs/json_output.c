#include "json_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "output.h"

EsStatus es_json_print(json_t *root, size_t n_digits) {
    size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(n_digits);
    EsStatus status = ES_STATUS_OK;
    if (root == NULL) {
        status = ES_FAIL(IO, "cannot write the result as JSON: no memory, or text not in UTF-8");
    } else if (json_dumpf(root, stdout, flags) != 0 || putchar('\n') == EOF ||
               fflush(stdout) != 0) {
        status = ES_FAIL(IO, "cannot write the result as JSON: %s", strerror(errno));
    }
    json_decref(root);
    return es_output_status(status);
}
