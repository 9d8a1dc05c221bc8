#include "telemetry/sinks/console_warnings.h"

#include <string.h>

#include "base/macros.h"

static EsWarningKind *find_kind(EsWarnings *warnings, const char *name, size_t bytes) {
    bytes = ES_MIN(bytes, ES_WARNING_NAME_BYTES - 1);
    for (int i = 0; i < warnings->n_kinds; i++) {
        EsWarningKind *kind = &warnings->kinds[i];
        if (strlen(kind->name) == bytes && memcmp(kind->name, name, bytes) == 0) {
            return kind;
        }
    }
    if (warnings->n_kinds == ES_WARNING_KINDS_MAX) {
        return &warnings->kinds[ES_WARNING_KINDS_MAX - 1];
    }
    EsWarningKind *kind = &warnings->kinds[warnings->n_kinds++];
    *kind = (EsWarningKind){.n = 0};
    if (warnings->n_kinds == ES_WARNING_KINDS_MAX) {
        name = "other";
        bytes = strlen(name);
    }
    memcpy(kind->name, name, bytes);
    return kind;
}

int es_warnings_count(EsWarnings *warnings, const char *name, size_t bytes, int64_t *n) {
    EsWarningKind *kind = find_kind(warnings, name, bytes);
    *n = ++kind->n;
    int64_t power = 1;
    while (power < *n) {
        power *= 10;
    }
    return power == *n;
}

void es_warnings_add_summary(const EsWarnings *warnings, EsText *text) {
    const char *separator = "";
    for (int i = 0; i < warnings->n_kinds; i++) {
        const EsWarningKind *kind = &warnings->kinds[i];
        if (kind->n > 1) {
            es_text_add_string(text, separator);
            es_text_add_utf8(text, kind->name, strlen(kind->name), ES_TEXT_TERMINAL);
            es_text_add_string(text, " ");
            es_text_add_int(text, kind->n);
            separator = ", ";
        }
    }
}
