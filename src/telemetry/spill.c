// Bytes in front of `end` never change until the file is emptied, which only the consumer does and
// only when it has taken them all. So the lock orders producers among themselves and against the
// emptying; reading needs none.
#include "telemetry/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_fault.h"
#include "base/memory.h"
#include "esper/log.h"

// leftovers of earlier sessions that may lie beside each other
#define MAX_LEFTOVERS 10000

struct EsSpill {
    char *path; // owned
    int descriptor;
    uint64_t max_bytes;
    pthread_mutex_t lock;

    // written under the lock
    unsigned char *staging; // owned mapping, where a packet is encoded; its pages exist once used
    size_t staging_bytes;
    _Atomic uint64_t end;                // of the last whole packet in the file
    _Atomic int64_t n_appended, n_taken; // ever; the difference is pending
    int64_t n_pending_by_type[ES_EVENT_COUNT];

    // the consumer's
    uint64_t position;     // of the oldest packet not released
    void *packet_memory;   // owned
    size_t memory_bytes;   // grows with the largest packet
    uint32_t peeked_bytes; // 0 when nothing was peeked
    EsEventType peeked_type;
};

// --- open and close ---

static EsStatus format_path(const char *folder, const char *name, int leftover, char **path) {
    size_t bytes = strlen(folder) + strlen(name) + 32;
    ES_TRY(es_allocate(bytes, (void **)path));
    if (leftover > 0) {
        snprintf(*path, bytes, "%s/spill-%s-%d.bin", folder, name, leftover);
    } else {
        snprintf(*path, bytes, "%s/spill-%s.bin", folder, name);
    }
    return ES_STATUS_OK;
}

// Clear the way for a new file at `path`: a file of an earlier session gets another name, or
// is removed when it is empty.
static EsStatus keep_leftover(const char *folder, const char *name, const char *path) {
    struct stat facts;
    if (lstat(path, &facts) != 0 || (S_ISREG(facts.st_mode) && facts.st_size == 0)) {
        es_system_remove(AT_FDCWD, path, 0);
        return ES_STATUS_OK;
    }
    for (int n = 1; n <= MAX_LEFTOVERS; n++) {
        char *kept = NULL;
        ES_TRY(format_path(folder, name, n, &kept));
        EsStatus status = ES_STATUS_OK;
        int is_taken = access(kept, F_OK) == 0;
        if (!is_taken && es_system_rename(path, kept) != 0) {
            status = ES_FAIL(IO, "cannot rename %s to %s: %s", path, kept, strerror(errno));
        } else if (!is_taken) {
            es_log(ES_LOG_WARNING,
                   "telemetry: an earlier session left %lld bytes of events that never reached "
                   "sink %s; kept as %s",
                   (long long)facts.st_size, name, kept);
        }
        es_release(kept);
        if (!is_taken) {
            return status;
        }
    }
    return ES_FAIL(IO, "%s holds undelivered events, and %d older files like it lie beside it",
                   path, MAX_LEFTOVERS);
}

static void destroy_spill(EsSpill *spill) {
    if (spill->descriptor >= 0) {
        close(spill->descriptor);
    }
    if (spill->staging != NULL) {
        munmap(spill->staging, spill->staging_bytes);
    }
    pthread_mutex_destroy(&spill->lock);
    es_release(spill->packet_memory);
    es_release(spill->path);
    es_release(spill);
}

// Address space for the largest packet there can be; memory is taken when a page is first written,
// so a run that never spills has no cost.
static EsStatus map_staging(EsSpill *spill) {
    spill->staging_bytes = (size_t)ES_MIN(spill->max_bytes, (uint64_t)ES_PACKET_MAX_BYTES);
    void *staging = mmap(NULL, spill->staging_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (staging == MAP_FAILED) {
        return ES_FAIL(MEMORY, "not enough memory: %zu bytes to encode packets for %s",
                       spill->staging_bytes, spill->path);
    }
    spill->staging = staging;
    return ES_STATUS_OK;
}

EsStatus es_spill_open(const char *folder, const char *name, size_t max_bytes,
                       EsSpill **spill_out) {
    *spill_out = NULL;
    if (max_bytes < 1) {
        return ES_FAIL(ARGUMENT, "a spill file for %s of at most 0 bytes", name);
    }
    EsSpill *spill = NULL;
    ES_TRY(es_allocate(sizeof *spill, (void **)&spill));
    spill->descriptor = -1;
    spill->max_bytes = max_bytes;
    pthread_mutex_init(&spill->lock, NULL);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(format_path(folder, name, 0, &spill->path));
    ES_TRY_GOTO(keep_leftover(folder, name, spill->path));
    ES_TRY_GOTO(map_staging(spill));
    spill->descriptor = es_system_open_retrying(spill->path, O_RDWR | O_CREAT | O_EXCL);
    if (spill->descriptor < 0) {
        status = ES_FAIL(IO, "cannot create %s: %s", spill->path, strerror(errno));
    }
done:
    if (status != ES_STATUS_OK) {
        destroy_spill(spill);
        return status;
    }
    *spill_out = spill;
    return ES_STATUS_OK;
}

// Returns whether the file at our path is ours. A worker that was left behind may end after another
// session has begun, which has a file of its own there.
static int owns_path(const EsSpill *spill) {
    struct stat at_path, ours;
    return lstat(spill->path, &at_path) == 0 && fstat(spill->descriptor, &ours) == 0 &&
           at_path.st_dev == ours.st_dev && at_path.st_ino == ours.st_ino;
}

void es_spill_close(EsSpill *spill) {
    if (spill == NULL) {
        return;
    }
    if (es_spill_n_pending(spill) == 0 && owns_path(spill)) {
        es_system_remove(AT_FDCWD, spill->path, 0);
    }
    destroy_spill(spill);
}

const char *es_spill_path(const EsSpill *spill) { return spill->path; }

int64_t es_spill_n_appended(const EsSpill *spill) {
    return atomic_load_explicit(&spill->n_appended, memory_order_acquire);
}

int64_t es_spill_n_taken(const EsSpill *spill) {
    return atomic_load_explicit(&spill->n_taken, memory_order_acquire);
}

int64_t es_spill_n_pending(const EsSpill *spill) {
    // in this order: a packet appended before the call and not taken after it is counted
    int64_t n_appended = es_spill_n_appended(spill);
    return ES_MAX(n_appended - es_spill_n_taken(spill), 0);
}

// --- producers ---

static int write_at(int descriptor, const unsigned char *data, size_t bytes, uint64_t offset) {
    while (bytes > 0) {
        ssize_t written = es_system_write_at(descriptor, data, bytes, (off_t)offset);
        if (written > 0) {
            data += written;
            offset += (uint64_t)written;
            bytes -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            return written == 0 ? ENOSPC : errno;
        }
    }
    return 0;
}

int es_spill_append(EsSpill *spill, EsEventType type, const void *rows, int64_t n_rows,
                    const EsPacketHeader *header) {
    size_t bytes = es_packet_bytes(type, rows, n_rows);
    if (bytes == 0) {
        return EFBIG;
    }
    pthread_mutex_lock(&spill->lock);
    uint64_t end = atomic_load_explicit(&spill->end, memory_order_relaxed);
    int failure = EFBIG;
    if (bytes <= spill->max_bytes && end <= spill->max_bytes - bytes) {
        es_packet_encode(type, rows, n_rows, header, spill->staging);
        failure = write_at(spill->descriptor, spill->staging, bytes, end);
        if (failure == 0) {
            atomic_store_explicit(&spill->end, end + bytes, memory_order_release);
            spill->n_pending_by_type[type]++;
            atomic_fetch_add_explicit(&spill->n_appended, 1, memory_order_release);
        } else {
            // should this fail too, the next packet overwrites the part: it is written at `end`
            int cut = ftruncate(spill->descriptor, (off_t)end);
            (void)cut;
        }
    }
    pthread_mutex_unlock(&spill->lock);
    return failure;
}

// --- the consumer ---

static EsStatus read_at(const EsSpill *spill, void *into, size_t bytes) {
    unsigned char *next = into;
    uint64_t offset = spill->position;
    while (bytes > 0) {
        ssize_t n_read = es_system_read(spill->descriptor, next, bytes, (off_t)offset);
        if (n_read > 0) {
            next += n_read;
            offset += (uint64_t)n_read;
            bytes -= (size_t)n_read;
        } else if (n_read == 0) {
            return ES_FAIL(IO, "%s ends at byte %llu, %zu more were written", spill->path,
                           (unsigned long long)offset, bytes);
        } else if (errno != EINTR) {
            return ES_FAIL(IO, "cannot read %s at byte %llu: %s", spill->path,
                           (unsigned long long)offset, strerror(errno));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus reserve_memory(EsSpill *spill, size_t bytes) {
    if (bytes <= spill->memory_bytes) {
        return ES_STATUS_OK;
    }
    es_release(spill->packet_memory);
    spill->packet_memory = NULL;
    spill->memory_bytes = 0;
    ES_TRY(es_allocate(bytes, &spill->packet_memory));
    spill->memory_bytes = bytes;
    return ES_STATUS_OK;
}

EsStatus es_spill_peek(EsSpill *spill, EsPacket *packet) {
    ES_ASSERT(es_spill_n_pending(spill) > 0);
    uint64_t end = atomic_load_explicit(&spill->end, memory_order_acquire);
    EsPacketHeader header;
    if (end - spill->position < sizeof header) {
        return ES_FAIL(INPUT, "%s: no packet fits between byte %llu and the end at %llu",
                       spill->path, (unsigned long long)spill->position, (unsigned long long)end);
    }
    ES_TRY(read_at(spill, &header, sizeof header));
    if (header.bytes < sizeof header || header.bytes > end - spill->position) {
        return ES_FAIL(INPUT, "%s: the packet at byte %llu gives its size as %u bytes", spill->path,
                       (unsigned long long)spill->position, (unsigned)header.bytes);
    }
    ES_TRY(reserve_memory(spill, header.bytes));
    ES_TRY(read_at(spill, spill->packet_memory, header.bytes));
    ES_TRY(es_packet_open(spill->packet_memory, header.bytes, packet));
    spill->peeked_bytes = header.bytes;
    spill->peeked_type = packet->type;
    return ES_STATUS_OK;
}

// The caller holds the lock, and everything was taken.
static void empty_file(EsSpill *spill) {
    spill->position = 0;
    atomic_store_explicit(&spill->end, 0, memory_order_relaxed);
    // bytes that stay behind when this fails are overwritten, or left in a file without readers
    int cut = ftruncate(spill->descriptor, 0);
    (void)cut;
}

void es_spill_release(EsSpill *spill) {
    ES_ASSERT(spill->peeked_bytes > 0);
    pthread_mutex_lock(&spill->lock);
    spill->position += spill->peeked_bytes;
    spill->peeked_bytes = 0;
    spill->n_pending_by_type[spill->peeked_type]--;
    if (es_spill_n_pending(spill) == 1) {
        empty_file(spill);
    }
    atomic_fetch_add_explicit(&spill->n_taken, 1, memory_order_release);
    pthread_mutex_unlock(&spill->lock);
}

void es_spill_discard(EsSpill *spill, int64_t n_by_type[ES_EVENT_COUNT]) {
    pthread_mutex_lock(&spill->lock);
    memcpy(n_by_type, spill->n_pending_by_type, sizeof spill->n_pending_by_type);
    memset(spill->n_pending_by_type, 0, sizeof spill->n_pending_by_type);
    spill->peeked_bytes = 0;
    empty_file(spill);
    atomic_store_explicit(&spill->n_taken, es_spill_n_appended(spill), memory_order_release);
    pthread_mutex_unlock(&spill->lock);
}
