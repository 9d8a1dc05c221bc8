#include "base/macros.h"

#include <stdio.h>
#include <stdlib.h>

void es_assert_failed(const char *expression, const char *file, int line) {
    fprintf(stderr, "esper: internal error: %s:%d: expected %s\n", file, line, expression);
    abort();
}
