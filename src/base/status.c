// The detail and origin of a failure are texts of the thread that failed. A broken assertion is our
// own mistake: it prints and aborts. The library's version stands here, too.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "esper/status.h"
#include "esper/version.h"

static _Thread_local char detail_text[1024];
static _Thread_local char origin_text[96];

const char *es_status_name(EsStatus status) {
    switch (status) {
#define X(name, message)                                                                           \
    case ES_STATUS_##name:                                                                         \
        return #name;
        ES_STATUS_LIST(X)
#undef X
    }
    return "UNKNOWN";
}

const char *es_status_message(EsStatus status) {
    switch (status) {
#define X(name, message)                                                                           \
    case ES_STATUS_##name:                                                                         \
        return message;
        ES_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *es_status_detail(void) { return detail_text; }

const char *es_status_origin(void) { return origin_text; }

EsStatus es_status_set(EsStatus status, const char *file, int line, const char *format, ...) {
    // formatted aside first: the arguments may point into the old detail
    char text[sizeof detail_text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(detail_text, text, sizeof text);

    const char *slash = strrchr(file, '/');
    snprintf(origin_text, sizeof origin_text, "%.80s:%d", slash ? slash + 1 : file, line);
    return status;
}

// --- assertions ---

void es_assert_failed(const char *expression, const char *file, int line) {
    fprintf(stderr, "esper: internal error: %s:%d: expected %s\n", file, line, expression);
    abort();
}

const char *es_version(void) { return ES_VERSION; }
