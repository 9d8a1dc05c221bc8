// A folder for what a case writes, in $TMPDIR or /tmp.
#ifndef ES_PROGRAMS_BENCH_FOLDER_H
#define ES_PROGRAMS_BENCH_FOLDER_H

#include "esper/status.h"

#define ES_BENCH_PATH_BYTES 4096

// `path` stays as it is on failure.
EsStatus es_bench_folder_create(char path[ES_BENCH_PATH_BYTES]);

// With all that is in it; an empty path is no folder. One that cannot be removed is no failure of
// the benchmark.
void es_bench_folder_remove(const char *path);

#endif
