#include "bench/bench_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"

EsStatus es_bench_folder_create(char path[ES_BENCH_PATH_BYTES]) {
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0') {
        parent = "/tmp";
    }
    char made[ES_BENCH_PATH_BYTES];
    int length = snprintf(made, sizeof made, "%s/esper-bench-XXXXXX", parent);
    if (length < 0 || length >= (int)sizeof made) {
        return ES_FAIL(IO, "TMPDIR is longer than a path may be, %d bytes",
                       ES_BENCH_PATH_BYTES - 1);
    }
    if (mkdtemp(made) == NULL) {
        return ES_FAIL(IO, "cannot make a temporary folder %s: %s", made, strerror(errno));
    }
    memcpy(path, made, sizeof made);
    return ES_STATUS_OK;
}

void es_bench_folder_remove(const char *path) {
    if (path[0] != '\0') {
        (void)es_folder_remove(path);
    }
}
