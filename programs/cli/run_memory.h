// Creating the work of a run within the memory that is there.
//
// Most of what is large is allocated when the work is created, and what the run surely takes beside
// it is known then. That stops with a CONFIG failure, before the machine or a control group ends
// the process, as soon as it would hold more than is available. What depends on the way a run goes
// (seeds that hosts will have, states that searches will meet) is estimated, and does not stop it.
#ifndef ES_PROGRAMS_RUN_MEMORY_H
#define ES_PROGRAMS_RUN_MEMORY_H

#include "base/memory.h"
#include "runs/run.h"

// How a kind of run makes its work.
typedef struct EsRunMaker {
    void *settings;
    int *n_envs; // among the settings; memory is taken to grow in a line with it
    EsStatus (*create)(const void *settings, void **work);
    void (*destroy)(void *work);
    EsStatus (*find_need)(void *work, EsRunNeed *need); // beside it; NULL: nothing
    EsRunNeed run_need;                                 // of the run (es_run_need)
    const char *smaller; // what else takes less memory: "a smaller --batch"
} EsRunMaker;

typedef struct EsRunMemory {
    EsMemoryAvailable available; // before the work was made
    size_t sure_bytes;           // that the work took, and what the run surely takes beside it
    size_t peak_bytes;           // about, at most at a time, with what the process had before
} EsRunMemory;

// Make the work. When it does not fit, the failure says what it would need, what there is, and
// which options take less; a peak that may not fit is a note on stderr. `memory` is nullable.
EsStatus es_run_memory_create(const EsRunMaker *maker, void **work, EsRunMemory *memory);

// The line of a dry run.
void es_run_memory_print(const EsRunMemory *memory);

#endif
