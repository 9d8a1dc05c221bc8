// Ranks: processes that work on one run together, started by mpirun or srun.
//
// Every rank holds the whole small state of the run (rules, policy, rollout, counters) and computes
// the same of it; the heavy work is divided by index (environments, shards of a gradient, batches
// of states), each rank computes its share, and a gather brings everybody all of it. Results are
// then functions of indices alone: neither the number of ranks nor their speed shows in any bit.
// Calls marked collective are made by all ranks in the same order, from one thread. They wait for
// the others until a deadline (ES_RANK_DEADLINE, seconds) and then fail, naming who is late; after
// a failure every later call fails at once with the same message.
//
//     EsRanks *ranks; ES_TRY(es_ranks_open(&ranks));         // NULL: one process
//     EsShare own = es_ranks_share(ranks, es_ranks_number(ranks), n_envs);
//     for (int64_t e = own.first; e < own.end; e++) { loss[e] = train(e); }
//     EsRankColumn column = {loss, sizeof *loss};
//     ES_TRY(es_ranks_gather(ranks, "losses", n_envs, &column, 1));
//     es_ranks_close(ranks);
//
// NULL stands for one process in every call: it owns everything, and nothing is sent.
#ifndef ES_DISTRIBUTED_RANKS_H
#define ES_DISTRIBUTED_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

#define ES_RANK_HOST_BYTES   64
#define ES_RANK_DETAIL_BYTES 1024

typedef struct EsRanks EsRanks;

// Joins the ranks that were started together. *ranks is NULL in a process that no launcher started.
// UNSUPPORTED when a launcher started several and the build has no MPI, or an MPI that the launcher
// does not speak to: each would run alone.
EsStatus es_ranks_open(EsRanks **ranks);

// Leaves them; collective unless an earlier call has failed. Accepts NULL.
void es_ranks_close(EsRanks *ranks);

// Divides the ranks into groups that follow each other, at most as many as ranks, of sizes that
// differ by one at most. *part is this rank's group, ranks for all calls below until the whole is
// used again; NULL where the group is one process. Close it before the whole.
EsStatus es_ranks_divide(const EsRanks *ranks, int n_groups, EsRanks **part);

// The group of this rank in such a division.
int es_ranks_group(const EsRanks *ranks, int n_groups);

// Ends all ranks at once with this exit code; does not return. For programs, after the message.
void es_ranks_abort(EsRanks *ranks, int exit_code);

int es_ranks_number(const EsRanks *ranks); // from 0
int es_ranks_count(const EsRanks *ranks);  // 1 where there is one process

// The first failure, with its detail; OK until then.
EsStatus es_ranks_status(const EsRanks *ranks);

// Processes that a launcher has started together, by its environment (Open MPI, PMI, Slurm); 1
// without one.
int es_ranks_launched(void);

// Version of Open MPI that the program was built with: "4.1.4"; NULL: it was built without.
const char *es_ranks_mpi_version(void);

// The same of NCCL (device_ranks.h): "2.28.9".
const char *es_nccl_version(void);

// --- shares ---

// Indices [first, end).
typedef struct EsShare {
    int64_t first, end;
} EsShare;

// Contiguous shares of n indices, in the order of ranks; the first n % count have one more: 8
// shards over 3 ranks are 3, 3, 2.
EsShare es_ranks_share(const EsRanks *ranks, int rank, int64_t n);
EsShare es_ranks_own(const EsRanks *ranks, int64_t n);              // this rank's
int es_ranks_owner(const EsRanks *ranks, int64_t n, int64_t index); // whose share has the index

// --- collective ---

// An array with a row for each index.
typedef struct EsRankColumn {
    void *rows; // borrowed [n_rows]; the own share is filled
    size_t row_bytes;
} EsRankColumn;

// Fills the shares of the others in all columns. `what` is for messages.
EsStatus es_ranks_gather(EsRanks *ranks, const char *what, int64_t n_rows,
                         const EsRankColumn *columns, int n_columns);

// The same where row i belongs to rank owner[i]. One message per pair of ranks.
EsStatus es_ranks_gather_rows(EsRanks *ranks, const char *what, int64_t n_rows,
                              const int32_t *owner, const EsRankColumn *columns, int n_columns);

// Gives row i from rank owner[i] to rank next[i], where they differ.
EsStatus es_ranks_move(EsRanks *ranks, const char *what, int64_t n_rows, const int32_t *owner,
                       const int32_t *next, const EsRankColumn *columns, int n_columns);

// Gives everybody the bytes that `root` has.
EsStatus es_ranks_broadcast(EsRanks *ranks, const char *what, int root, void *data, size_t bytes);

// Returns when all have come here.
EsStatus es_ranks_barrier(EsRanks *ranks, const char *what);

// Something that all ranks must have alike: lines "key=value" or one line.
typedef struct EsRankFact {
    const char *name; // "build"
    const char *text;
} EsRankFact;

// CONFIG, with the same message everywhere, when a rank has another text than rank 0: which rank
// on which host, in which fact, and the first line that differs.
EsStatus es_ranks_agree(EsRanks *ranks, const EsRankFact *facts, int n_facts);

// Returns whether es_ranks_agree has found a difference: all ranks know it, and can end in order.
int es_ranks_differ(const EsRanks *ranks);

// --- transport: ranks_mpi.c, or ranks_single.c in a build without MPI ---

struct EsRanks {
    int number, count;
    int first;   // of a group: its first rank's number among all
    int is_part; // it is a group: the processes stay joined when it is closed
    double deadline_seconds;
    char host[ES_RANK_HOST_BYTES];     // of this rank
    EsStatus status;                   // the first failure,
    char detail[ES_RANK_DETAIL_BYTES]; // and its text
    uint32_t n_transfers;              // so far
    int has_difference;                // es_ranks_agree has found one
};

// Bytes to or from another rank.
typedef struct EsTransfer {
    int peer, is_sent; // peer: number in the same group
    void *data;        // borrowed
    size_t bytes;
} EsTransfer;

// Moves all of them, at least one; collective among the peers. `what` is for messages.
EsStatus es_ranks_transfer(EsRanks *ranks, const char *what, const EsTransfer *transfers, int n);

ES_EXTERN_C_END

#endif
