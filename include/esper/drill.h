// Fault drills: a small fit with rails, a fault put into it on purpose, and whether all went as
// promised.
//
//     for (int i = 0; i < es_drill_count(); i++) {
//         EsDrillReport report;
//         if (es_drill_run(es_drill_name(i), &report) == ES_STATUS_OK) {
//             printf("%s: %s\n", report.name, report.has_passed ? "pass" : report.problem);
//         }
//     }
#ifndef ESPER_DRILL_H
#define ESPER_DRILL_H

#include <stdint.h>

#include "esper/api.h"
#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct EsDrillReport {
    const char *name;
    const char *injected; // the fault
    char happened[512];   // events and counters, as they were recorded
    const char *shown;    // what its user sees of it
    int has_passed;
    char problem[256]; // the first promise that was broken; "" when it passed
} EsDrillReport;

ES_API int es_drill_count(void);
ES_API const char *es_drill_name(int index);

// Runs a drill, for up to a few seconds. ARGUMENT when there is no such one; any other failure is
// of the drill itself, not of what it tests.
ES_API EsStatus es_drill_run(const char *name, EsDrillReport *report);

// Runs a fit with faults drawn from the seed: a controller that fails or is late, seeds that do,
// epochs and decisions over their budgets, a clock that jumps. Passes when every counter and event
// equals what was injected, by name, and the networks are those of a fit whose late calls fail
// instead.
#define ES_DRILL_EPOCHS_MAX 1000000
ES_API EsStatus es_drill_stress(int64_t n_epochs, uint64_t seed, EsDrillReport *report);

#ifdef __cplusplus
}
#endif

#endif
