// Parts that the drills share: promises, and the list of those that need a folder on disk.
#ifndef ES_RUNS_FIT_DRILL_H
#define ES_RUNS_FIT_DRILL_H

#include "esper/drill.h"

typedef struct EsDrill {
    const char *name, *injected, *shown;
    EsStatus (*run)(EsDrillReport *report);
} EsDrill;

// Notes the first promise that does not hold.
__attribute__((format(printf, 3, 4))) void es_drill_promise(EsDrillReport *report, int holds,
                                                            const char *format, ...);

// Drills of a whole run in a temporary folder (fit_drill_disk.c).
extern const EsDrill es_disk_drills[];
extern const int es_n_disk_drills;

#endif
