// The events and views as markdown tables, for `esper info --telemetry` and docs/telemetry.md.
#ifndef ES_PROGRAMS_TELEMETRY_TABLES_H
#define ES_PROGRAMS_TELEMETRY_TABLES_H

#include <stdio.h>

void es_telemetry_tables_print(FILE *stream);

#endif
