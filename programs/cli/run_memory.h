// Creating the work of a run within the memory that is there.
//
// Everything large is allocated when the work is created. That stops with a CONFIG failure, before
// the machine or a control group ends the process, as soon as it would hold more than is available.
#ifndef ES_PROGRAMS_RUN_MEMORY_H
#define ES_PROGRAMS_RUN_MEMORY_H

#include "base/memory.h"

// How a kind of run makes its work.
typedef struct EsRunMaker {
    void *settings;
    int *n_envs; // among the settings; memory is taken to grow in a line with it
    EsStatus (*create)(const void *settings, void **work);
    void (*destroy)(void *work);
    double later_share;  // what comes beside it after the rounds, as a share of it
    const char *smaller; // what else takes less memory: "a smaller --batch"
} EsRunMaker;

typedef struct EsRunMemory {
    EsMemoryAvailable available; // before the work was made
    size_t bytes;                // that it took, and what comes later as far as that is known
} EsRunMemory;

// Make the work. When it does not fit, the failure says what it would need, what there is, and
// which options take less. `memory` is nullable.
EsStatus es_run_memory_create(const EsRunMaker *maker, void **work, EsRunMemory *memory);

// The line of a dry run.
void es_run_memory_print(const EsRunMemory *memory);

#endif
