// Shares and collective calls, the same over any transport: each is a list of transfers between
// pairs of ranks. Sizes follow from the arguments, which all ranks have alike, so none is sent.
#include "distributed/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

int es_ranks_number(const EsRanks *ranks) { return ranks != NULL ? ranks->number : 0; }

int es_ranks_count(const EsRanks *ranks) { return ranks != NULL ? ranks->count : 1; }

EsStatus es_ranks_status(const EsRanks *ranks) {
    return ranks == NULL || ranks->status == ES_STATUS_OK
               ? ES_STATUS_OK
               : es_status_set(ranks->status, __FILE__, __LINE__, "%s", ranks->detail);
}

static int count_of(const char *name) {
    const char *text = getenv(name);
    return text != NULL ? ES_MAX(atoi(text), 1) : 1;
}

// Below mpirun of Open MPI the others may be of a launcher around it: Slurm counts its daemons.
int es_ranks_launched(void) {
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL) {
        return count_of("OMPI_COMM_WORLD_SIZE");
    }
    // a shell in a step of Slurm has its count of tasks, too, but no rank
    int is_task = getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL;
    return ES_MAX(count_of("PMI_SIZE"), is_task ? count_of("SLURM_STEP_NUM_TASKS") : 1);
}

// --- shares ---

EsShare es_ranks_share(const EsRanks *ranks, int rank, int64_t n) {
    int64_t count = es_ranks_count(ranks), least = n / count, n_more = n % count;
    ES_ASSERT(rank >= 0 && rank < count && n >= 0);
    int64_t first = rank * least + ES_MIN(rank, n_more);
    return (EsShare){first, first + least + (rank < n_more)};
}

EsShare es_ranks_own(const EsRanks *ranks, int64_t n) {
    return es_ranks_share(ranks, es_ranks_number(ranks), n);
}

int es_ranks_owner(const EsRanks *ranks, int64_t n, int64_t index) {
    int rank = 0;
    ES_ASSERT(index >= 0 && index < n);
    while (es_ranks_share(ranks, rank, n).end <= index) {
        rank++;
    }
    return rank;
}

// --- groups ---

int es_ranks_group(const EsRanks *ranks, int n_groups) {
    int count = es_ranks_count(ranks), group = 0;
    EsRanks groups = {.count = n_groups};
    ES_ASSERT(n_groups >= 1 && n_groups <= count);
    while (es_ranks_share(&groups, group, count).end <= es_ranks_number(ranks)) {
        group++;
    }
    return group;
}

EsStatus es_ranks_divide(const EsRanks *ranks, int n_groups, EsRanks **part) {
    EsRanks groups = {.count = n_groups};
    EsShare share = es_ranks_share(&groups, es_ranks_group(ranks, n_groups), es_ranks_count(ranks));
    *part = NULL;
    if (share.end - share.first == 1) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof **part, (void **)part));
    **part = *ranks;
    (*part)->number = ranks->number - (int)share.first;
    (*part)->count = (int)(share.end - share.first);
    (*part)->first = ranks->first + (int)share.first;
    (*part)->is_part = 1;
    return ES_STATUS_OK;
}

// --- transfers ---

// Keeps the first failure: what comes after it would be out of step with the others.
static EsStatus transfer(EsRanks *ranks, const char *what, const EsTransfer *transfers, int n) {
    ES_TRY(es_ranks_status(ranks));
    ranks->n_transfers++; // also where this rank has no part: the others count
    EsStatus status = n > 0 ? es_ranks_transfer(ranks, what, transfers, n) : ES_STATUS_OK;
    if (status != ES_STATUS_OK) {
        ranks->status = status;
        snprintf(ranks->detail, sizeof ranks->detail, "%s", es_status_detail());
    }
    return status;
}

static EsTransfer slice(const EsRanks *ranks, const EsRankColumn *column, int64_t n_rows, int owner,
                        int peer) {
    EsShare share = es_ranks_share(ranks, owner, n_rows);
    return (EsTransfer){.peer = peer,
                        .is_sent = owner == ranks->number,
                        .data = (char *)column->rows + (size_t)share.first * column->row_bytes,
                        .bytes = (size_t)(share.end - share.first) * column->row_bytes};
}

EsStatus es_ranks_gather(EsRanks *ranks, const char *what, int64_t n_rows,
                         const EsRankColumn *columns, int n_columns) {
    int count = es_ranks_count(ranks), n = 0;
    EsTransfer *transfers = NULL;
    if (count == 1) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *transfers * 2 * (size_t)count * (size_t)n_columns,
                       (void **)&transfers));
    for (int peer = 0; peer < count; peer++) {
        for (int c = 0; c < n_columns && peer != ranks->number; c++) {
            const EsTransfer both[] = {slice(ranks, &columns[c], n_rows, peer, peer),
                                       slice(ranks, &columns[c], n_rows, ranks->number, peer)};
            for (size_t i = 0; i < ES_COUNT_OF(both); i++) {
                if (both[i].bytes > 0) {
                    transfers[n++] = both[i];
                }
            }
        }
    }
    EsStatus status = transfer(ranks, what, transfers, n);
    es_release(transfers);
    return status;
}

// Rows of several columns, packed rank by rank: rank r has the bytes from offset[r] to offset[r +
// 1], row by row.
typedef struct PackedRows {
    unsigned char *bytes; // owned
    size_t *offset;       // owned [count + 1]
    size_t row_bytes;     // of all columns
} PackedRows;

static EsStatus create_packed(const EsRanks *ranks, int64_t n_rows, const int32_t *owner,
                              const EsRankColumn *columns, int n_columns, PackedRows *packed) {
    for (int c = 0; c < n_columns; c++) {
        packed->row_bytes += columns[c].row_bytes;
    }
    ES_TRY(
        es_allocate(sizeof *packed->offset * ((size_t)ranks->count + 1), (void **)&packed->offset));
    for (int64_t i = 0; i < n_rows; i++) {
        packed->offset[owner[i] + 1] += packed->row_bytes;
    }
    for (int r = 0; r < ranks->count; r++) {
        packed->offset[r + 1] += packed->offset[r];
    }
    return es_allocate(ES_MAX(packed->offset[ranks->count], 1), (void **)&packed->bytes);
}

// Between columns and packed bytes: the rows of this rank go in, those of the others come out.
static void copy_rows(const EsRanks *ranks, int64_t n_rows, const int32_t *owner,
                      const EsRankColumn *columns, int n_columns, const PackedRows *packed,
                      int is_packing) {
    for (int r = 0; r < ranks->count; r++) {
        unsigned char *at = packed->bytes + packed->offset[r];
        for (int64_t i = 0; i < n_rows && (r == ranks->number) == is_packing; i++) {
            for (int c = 0; c < n_columns && owner[i] == r; c++) {
                unsigned char *row =
                    (unsigned char *)columns[c].rows + (size_t)i * columns[c].row_bytes;
                memcpy(is_packing ? at : row, is_packing ? row : at, columns[c].row_bytes);
                at += columns[c].row_bytes;
            }
        }
    }
}

static EsStatus send_packed(EsRanks *ranks, const char *what, const PackedRows *packed) {
    EsTransfer *transfers = NULL;
    int n = 0;
    ES_TRY(es_allocate(sizeof *transfers * 2 * (size_t)ranks->count, (void **)&transfers));
    for (int peer = 0; peer < ranks->count; peer++) {
        for (int is_sent = 0; is_sent <= 1 && peer != ranks->number; is_sent++) {
            int from = is_sent ? ranks->number : peer;
            size_t bytes = packed->offset[from + 1] - packed->offset[from];
            if (bytes > 0) {
                transfers[n++] = (EsTransfer){.peer = peer,
                                              .is_sent = is_sent,
                                              .data = packed->bytes + packed->offset[from],
                                              .bytes = bytes};
            }
        }
    }
    EsStatus status = transfer(ranks, what, transfers, n);
    es_release(transfers);
    return status;
}

EsStatus es_ranks_gather_rows(EsRanks *ranks, const char *what, int64_t n_rows,
                              const int32_t *owner, const EsRankColumn *columns, int n_columns) {
    PackedRows packed = {0};
    if (es_ranks_count(ranks) == 1) {
        return ES_STATUS_OK;
    }
    EsStatus status = create_packed(ranks, n_rows, owner, columns, n_columns, &packed);
    if (status == ES_STATUS_OK) {
        copy_rows(ranks, n_rows, owner, columns, n_columns, &packed, 1);
        status = send_packed(ranks, what, &packed);
    }
    if (status == ES_STATUS_OK) {
        copy_rows(ranks, n_rows, owner, columns, n_columns, &packed, 0);
        es_release(packed.bytes); // after a failure messages may still be on their way into it
    }
    es_release(packed.offset);
    return status;
}

EsStatus es_ranks_move(EsRanks *ranks, const char *what, int64_t n_rows, const int32_t *owner,
                       const int32_t *next, const EsRankColumn *columns, int n_columns) {
    EsTransfer *transfers = NULL;
    int n = 0;
    if (es_ranks_count(ranks) == 1) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *transfers * (size_t)ES_MAX(n_rows * n_columns, 1),
                       (void **)&transfers));
    for (int64_t i = 0; i < n_rows; i++) {
        int is_sent = owner[i] == ranks->number;
        int is_mine = owner[i] != next[i] && (is_sent || next[i] == ranks->number);
        for (int c = 0; c < n_columns && is_mine; c++) {
            transfers[n++] =
                (EsTransfer){.peer = is_sent ? next[i] : owner[i],
                             .is_sent = is_sent,
                             .data = (char *)columns[c].rows + (size_t)i * columns[c].row_bytes,
                             .bytes = columns[c].row_bytes};
        }
    }
    EsStatus status = transfer(ranks, what, transfers, n);
    es_release(transfers);
    return status;
}

EsStatus es_ranks_broadcast(EsRanks *ranks, const char *what, int root, void *data, size_t bytes) {
    int count = es_ranks_count(ranks), n = 0;
    EsTransfer *transfers = NULL;
    if (count == 1 || bytes == 0) {
        return ES_STATUS_OK;
    }
    if (ranks->number != root) {
        EsTransfer one = {.peer = root, .data = data, .bytes = bytes};
        return transfer(ranks, what, &one, 1);
    }
    ES_TRY(es_allocate(sizeof *transfers * (size_t)count, (void **)&transfers));
    for (int peer = 0; peer < count; peer++) {
        if (peer != root) {
            transfers[n++] = (EsTransfer){.peer = peer, .is_sent = 1, .data = data, .bytes = bytes};
        }
    }
    EsStatus status = transfer(ranks, what, transfers, n);
    es_release(transfers);
    return status;
}

// One byte from everybody to everybody.
static EsStatus meet(EsRanks *ranks, const char *what, unsigned char *bytes) {
    EsRankColumn column = {bytes, 1};
    return es_ranks_gather(ranks, what, es_ranks_count(ranks), &column, 1);
}

EsStatus es_ranks_barrier(EsRanks *ranks, const char *what) {
    unsigned char *bytes = NULL;
    if (es_ranks_count(ranks) == 1) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate((size_t)ranks->count, (void **)&bytes));
    EsStatus status = meet(ranks, what, bytes);
    es_release(bytes);
    return status;
}

// --- agreement ---

// The texts of one fact on all ranks, and their hosts.
typedef struct Texts {
    char *rows;       // owned [count, row_bytes]
    size_t row_bytes; // with the end
    char *hosts;      // owned [count, ES_RANK_HOST_BYTES]
} Texts;

static EsStatus gather_texts(EsRanks *ranks, const EsRankFact *fact, Texts *texts) {
    int64_t count = ranks->count, *lengths = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *lengths * (size_t)count, (void **)&lengths));
    lengths[ranks->number] = (int64_t)strlen(fact->text);
    EsRankColumn column = {lengths, sizeof *lengths};
    ES_TRY_GOTO(es_ranks_gather(ranks, fact->name, count, &column, 1));
    for (int64_t r = 0; r < count; r++) {
        texts->row_bytes = ES_MAX(texts->row_bytes, (size_t)lengths[r] + 1);
    }
    ES_TRY_GOTO(es_allocate(texts->row_bytes * (size_t)count, (void **)&texts->rows));
    ES_TRY_GOTO(es_allocate(ES_RANK_HOST_BYTES * (size_t)count, (void **)&texts->hosts));
    memcpy(texts->rows + (size_t)ranks->number * texts->row_bytes, fact->text, strlen(fact->text));
    memcpy(texts->hosts + (size_t)ranks->number * ES_RANK_HOST_BYTES, ranks->host,
           ES_RANK_HOST_BYTES);
    const EsRankColumn columns[] = {{texts->rows, texts->row_bytes},
                                    {texts->hosts, ES_RANK_HOST_BYTES}};
    ES_TRY_GOTO(es_ranks_gather(ranks, fact->name, count, columns, ES_COUNT_OF(columns)));
done:
    es_release(lengths);
    return status;
}

// The first lines in which two texts differ; "" where one has ended.
static void find_difference(const char *a, const char *b, char line_a[160], char line_b[160]) {
    size_t n_a = strcspn(a, "\n"), n_b = strcspn(b, "\n");
    while (*a != '\0' && *b != '\0' && n_a == n_b && memcmp(a, b, n_a) == 0) {
        a += n_a + (a[n_a] == '\n');
        b += n_b + (b[n_b] == '\n');
        n_a = strcspn(a, "\n");
        n_b = strcspn(b, "\n");
    }
    snprintf(line_a, 160, "%.*s", (int)ES_MIN(n_a, 150), a);
    snprintf(line_b, 160, "%.*s", (int)ES_MIN(n_b, 150), b);
}

// Names every rank that differs from rank 0.
static EsStatus compare_texts(const EsRanks *ranks, const EsRankFact *fact, const Texts *texts) {
    char message[ES_RANK_DETAIL_BYTES - 100] = "", mine[160], theirs[160];
    size_t used = 0;
    for (int r = 1; r < ranks->count; r++) {
        const char *text = texts->rows + (size_t)r * texts->row_bytes;
        if (strcmp(texts->rows, text) != 0 && used < sizeof message) {
            find_difference(texts->rows, text, mine, theirs);
            used += (size_t)snprintf(
                message + used, sizeof message - used,
                "%srank %d on %s has \"%s\" where rank 0 on %s has \"%s\"", used > 0 ? "; " : "", r,
                texts->hosts + (size_t)r * ES_RANK_HOST_BYTES, theirs, texts->hosts, mine);
        }
    }
    return used == 0 ? ES_STATUS_OK
                     : ES_FAIL(CONFIG, "the ranks differ in their %s: %s", fact->name, message);
}

EsStatus es_ranks_agree(EsRanks *ranks, const EsRankFact *facts, int n_facts) {
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_facts && es_ranks_count(ranks) > 1 && status == ES_STATUS_OK; i++) {
        Texts texts = {0};
        status = gather_texts(ranks, &facts[i], &texts);
        status = status == ES_STATUS_OK ? compare_texts(ranks, &facts[i], &texts) : status;
        ranks->has_difference |= status == ES_STATUS_CONFIG;
        es_release(texts.rows);
        es_release(texts.hosts);
    }
    return status;
}

int es_ranks_differ(const EsRanks *ranks) { return ranks != NULL && ranks->has_difference; }
