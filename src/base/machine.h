// The machine as this process may use it: memory and processors, within control groups and limits.
//
// Available memory is the least of three: free memory of the machine, the remainder of its control
// groups, and the remainder of its own limit on addresses (ulimit -v).
//
//     EsMemoryAvailable available = es_memory_available("");
//     if (needed_bytes > available.bytes) { ... "%s has %.1f GiB", available.limited_by ... }
#ifndef ES_BASE_MACHINE_H
#define ES_BASE_MACHINE_H

#include <stdint.h>

#include "base/macros.h"

ES_EXTERN_C_BEGIN

typedef struct EsMemoryAvailable {
    uint64_t bytes;       // UINT64_MAX where nothing limits it
    char limited_by[160]; // "the machine", "control group /a/b", "the limit of ulimit -v"
} EsMemoryAvailable;

// Read from `root`/proc and `root`/sys/fs/cgroup, versions 1 and 2, a group's parents included;
// `root` is "" outside tests. Files in memory that the system can drop count as available, and so
// does swap where the group may use it. A limit that cannot be read does not apply.
EsMemoryAvailable es_memory_available(const char *root);

// Processors that this process may use: those the scheduler may give it, and not more than the
// quotas of its control groups come to, rounded up.
int es_processors_available(const char *root);

// The same of the machine at hand.
int es_processor_count(void);

ES_EXTERN_C_END

#endif
