// The runs that the page offers: found in a folder, numbered in the order in which they were found,
// with a mark that changes when one of them has written something. May be used from any thread.
#ifndef ES_PROGRAMS_RUN_SHELF_H
#define ES_PROGRAMS_RUN_SHELF_H

#include <jansson.h>
#include <stdint.h>

#include "esper/status.h"

// More runs than this are not offered.
#define ES_SHELF_MAX_RUNS 1000

typedef struct EsRunShelf EsRunShelf;

// `path` is a run, or a folder whose sub-folders are runs or folders of runs (--repeat). INPUT when
// there is none.
EsStatus es_run_shelf_open(const char *path, EsRunShelf **shelf);
void es_run_shelf_close(EsRunShelf *shelf);

// Looks for new runs and for changes; *n_changes counts both since the shelf was opened.
EsStatus es_run_shelf_refresh(EsRunShelf *shelf, uint64_t *n_changes);

int es_run_shelf_count(EsRunShelf *shelf);

// The path of run `index`; 0 when there is no such run.
int es_run_shelf_path(EsRunShelf *shelf, int index, char path[4096]);

// [{"id": 0, "name": "demo", "changes": 3}, ...]
json_t *es_run_shelf_list(EsRunShelf *shelf);

#endif
