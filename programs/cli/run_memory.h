// Creating the work of a run within the memory that is there.
//
// Nearly all large blocks are allocated when the work is created, and the sure need of the run
// beside it is known then. That stops with a CONFIG failure, before the machine or a control group
// ends the process, as soon as it would hold more than is available. Needs that depend on the way a
// run goes (seeds of hosts, states of searches) are estimated, and do not stop it.
#ifndef ES_PROGRAMS_RUN_MEMORY_H
#define ES_PROGRAMS_RUN_MEMORY_H

#include "base/memory.h"
#include "runs/run.h"

// Functions that make the work of a kind of run.
typedef struct EsRunMaker {
    void *settings;
    int *n_envs; // among the settings; memory is taken to grow in a line with it
    EsStatus (*create)(const void *settings, void **work);
    void (*destroy)(void *work);
    EsStatus (*find_need)(void *work, EsRunNeed *need); // beside it; NULL: nothing
    EsRunNeed run_need;                                 // of the run (es_run_need)
    const char *smaller; // another way to less memory: "a smaller --batch"
} EsRunMaker;

typedef struct EsRunMemory {
    EsMemoryAvailable available; // before the work was made
    size_t sure_bytes;           // of the work, and the sure need of the run beside it
    size_t peak_bytes;           // about, at most at a time, with the process before it
} EsRunMemory;

// Makes the work. When it does not fit, the failure names its need, the memory there is, and
// options that take less; a peak that may not fit is a note on stderr. `memory` is nullable.
EsStatus es_run_memory_create(const EsRunMaker *maker, void **work, EsRunMemory *memory);

// The line of a dry run.
void es_run_memory_print(const EsRunMemory *memory);

#endif
