// Ranks in a build without MPI: there is one process. The functions are those of ranks_mpi.c; a
// launcher's environment is looked at so that a user of mpirun learns why nothing is shared.
#include <stdlib.h>

#include "base/memory.h"
#include "distributed/ranks.h"

const char *es_ranks_mpi_version(void) { return NULL; }

EsStatus es_ranks_open(EsRanks **ranks) {
    *ranks = NULL;
    int count = es_ranks_launched();
    return count == 1
               ? ES_STATUS_OK
               : ES_FAIL(
                     UNSUPPORTED,
                     "%d processes were started together, but this build has no MPI: each would "
                     "do the whole run; build with libopenmpi-dev installed",
                     count);
}

void es_ranks_close(EsRanks *ranks) { es_release(ranks); }

void es_ranks_abort(EsRanks *ranks, int exit_code) {
    (void)ranks;
    (void)exit_code;
    abort(); // there are no others to end: nobody calls this
}

EsStatus es_ranks_transfer(EsRanks *ranks, const char *what, const EsTransfer *transfers, int n) {
    (void)ranks;
    (void)transfers;
    (void)n;
    return ES_FAIL(UNSUPPORTED, "%s: this build has no MPI", what);
}
