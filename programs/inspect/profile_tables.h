// What `esper profile` shows: tables for people, JSON for programs, a trace for Perfetto.
#ifndef ES_PROGRAMS_PROFILE_TABLES_H
#define ES_PROGRAMS_PROFILE_TABLES_H

#include "runs/grow/grow_settings.h"
#include "tensor/profile.h"

typedef struct EsProfileResult {
    const EsGrowSettings *settings; // borrowed
    EsDeviceInfo device;            // what growth ran on
    int n_wait, n_warmup, n_active; // steps
    double active_ms;               // the host's clock over the active steps
    EsProfileReport report;         // owned: phases, idle time, counts
    EsProfileReport direct;         // owned: launch by launch, where work is captured otherwise
    int is_split;                   // operations are of `direct`, not of `report`
} EsProfileResult;

void es_profile_print_tables(const EsProfileResult *result);
EsStatus es_profile_print_json(const EsProfileResult *result);

// Chrome trace JSON of the active steps; INPUT when the file cannot be made.
EsStatus es_profile_write_trace(const EsProfileResult *result, const char *path);

#endif
