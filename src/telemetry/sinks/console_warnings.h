// How often the console speaks of warnings. Anomalies and rollbacks can come by the thousand, each
// one recorded elsewhere: of every kind the 1st, the 10th, the 100th ... gets a line, and the end a
// count.
//
//     if (es_warnings_count(&warnings, rule, bytes, &n)) say(..., n);
//     es_warnings_add_summary(&warnings, text);
#ifndef ES_TELEMETRY_CONSOLE_WARNINGS_H
#define ES_TELEMETRY_CONSOLE_WARNINGS_H

#include "telemetry/text.h"

#define ES_WARNING_KINDS_MAX  32 // the last one takes all further kinds
#define ES_WARNING_NAME_BYTES 48

typedef struct EsWarningKind {
    char name[ES_WARNING_NAME_BYTES];
    int64_t n;
} EsWarningKind;

typedef struct EsWarnings {
    EsWarningKind kinds[ES_WARNING_KINDS_MAX]; // in the order of their first
    int n_kinds;
} EsWarnings;

// Count one more of a kind; *n is how many there are now. Returns 1 when it deserves a line.
int es_warnings_count(EsWarnings *warnings, const char *name, size_t bytes, int64_t *n);

// "attribution_ratio 512, nan rollback 3", of kinds that were not all told; nothing when all were.
void es_warnings_add_summary(const EsWarnings *warnings, EsText *text);

#endif
