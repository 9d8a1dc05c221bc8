// Every allocation is counted with the size that the C library gave, so that a caller can measure a
// piece of work and bound it. Limits of the system come from /proc and from control groups, read
// as text.
#include "base/memory.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

size_t es_align_up(size_t bytes) {
    return (bytes + ES_ALIGNMENT - 1) / ES_ALIGNMENT * ES_ALIGNMENT;
}

// Of the whole process, as its heap is. The C library reports the same size again when memory is
// released.
static _Atomic int64_t held_bytes;
static int64_t begin_bytes, limit_bytes;
static _Atomic int64_t peak_bytes;
static _Atomic int is_limited, is_refused;

size_t es_allocation_held(void) { return (size_t)ES_MAX(atomic_load(&held_bytes), 0); }

void es_allocation_begin(size_t bytes) {
    begin_bytes = atomic_load(&held_bytes);
    limit_bytes = bytes > 0 && bytes < INT64_MAX / 2 ? begin_bytes + (int64_t)bytes : INT64_MAX;
    atomic_store(&peak_bytes, begin_bytes);
    atomic_store(&is_refused, 0);
    atomic_store(&is_limited, 1);
}

EsAllocation es_allocation_end(void) {
    atomic_store(&is_limited, 0);
    return (EsAllocation){.peak_bytes = (size_t)(atomic_load(&peak_bytes) - begin_bytes),
                          .held_bytes = (size_t)ES_MAX(atomic_load(&held_bytes) - begin_bytes, 0),
                          .is_refused = atomic_load(&is_refused)};
}

// Returns whether `bytes` more stay within the limit.
static int may_hold(size_t bytes) {
    if (!atomic_load_explicit(&is_limited, memory_order_acquire)) {
        return 1;
    }
    int64_t wanted = atomic_load(&held_bytes) + (int64_t)ES_MIN(bytes, (size_t)INT64_MAX / 4);
    int64_t peak = atomic_load(&peak_bytes);
    while (wanted > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, wanted)) {
    }
    int is_beyond = wanted > limit_bytes;
    if (is_beyond) {
        atomic_store(&is_refused, 1);
    }
    return !is_beyond;
}

EsStatus es_allocate(size_t bytes, void **memory) {
    // aligned_alloc wants a multiple of the alignment; a zero-sized request still gets an address
    // of its own
    size_t rounded = es_align_up(bytes > 0 ? bytes : 1);
    if (rounded < bytes || !may_hold(rounded) ||
        (*memory = aligned_alloc(ES_ALIGNMENT, rounded)) == NULL) {
        *memory = NULL;
        return ES_FAIL(MEMORY, "not enough memory: cannot allocate %.1f MiB",
                       (double)bytes / (1024.0 * 1024.0));
    }
    memset(*memory, 0, rounded);
    atomic_fetch_add_explicit(&held_bytes, (int64_t)malloc_usable_size(*memory),
                              memory_order_relaxed);
    return ES_STATUS_OK;
}

void es_release(void *memory) {
    atomic_fetch_sub_explicit(&held_bytes, (int64_t)malloc_usable_size(memory),
                              memory_order_relaxed);
    free(memory);
}

EsStatus es_reallocate(void **memory, size_t old_bytes, size_t bytes) {
    void *larger = NULL;
    ES_TRY(es_allocate(bytes, &larger));
    if (old_bytes > 0) {
        memcpy(larger, *memory, ES_MIN(old_bytes, bytes));
    }
    es_release(*memory);
    *memory = larger;
    return ES_STATUS_OK;
}

size_t es_slab_add(size_t *slab_bytes, size_t member_bytes) {
    size_t offset = es_align_up(*slab_bytes);
    *slab_bytes = offset + member_bytes;
    return offset;
}

// --- available memory ---

#define PATH_BYTES 4352

// --- reading ---

static FILE *open_text(const char *root, const char *folder, const char *name) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return length < (int)sizeof path ? fopen(path, "re") : NULL;
}

// The number that a file begins with; 0 when there is none, as in "max".
static int read_number(const char *root, const char *folder, const char *name, uint64_t *number) {
    FILE *file = open_text(root, folder, name);
    int is_read = file != NULL && fscanf(file, "%" SCNu64, number) == 1;
    if (file != NULL) {
        fclose(file);
    }
    return is_read;
}

// The sum over the lines "<name> <number>" or "<name>: <number>" of a file whose name is one of
// two; 0 when there is no such line.
static int sum_lines(FILE *file, const char *first, const char *second, uint64_t *sum) {
    char name[64];
    uint64_t number;
    int n_found = 0;
    *sum = 0;
    while (file != NULL && fscanf(file, "%63[^: ]%*[: ]%" SCNu64 "%*[^\n]", name, &number) == 2) {
        if (strcmp(name, first) == 0 || (second != NULL && strcmp(name, second) == 0)) {
            *sum += number;
            n_found++;
        }
        if (fscanf(file, "%*[\n]") == EOF) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return n_found;
}

static uint64_t subtract(uint64_t from, uint64_t number) {
    return from > number ? from - number : 0;
}

static uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// "Unlimited" is a huge number in version 1 of control groups.
#define NO_LIMIT (UINT64_C(1) << 62)

static void limit(EsMemoryAvailable *available, uint64_t bytes, const char *kind,
                  const char *name) {
    if (bytes < available->bytes && bytes < NO_LIMIT) {
        available->bytes = bytes;
        snprintf(available->limited_by, sizeof available->limited_by, "%s%.120s", kind, name);
    }
}

// --- control groups ---

// One group of version 2; `swap` is free on the machine.
static void limit_by_group(EsMemoryAvailable *available, const char *root, const char *folder,
                           const char *name, uint64_t swap) {
    uint64_t max, used, cached, swap_max, swap_used;
    if (!read_number(root, folder, "memory.max", &max) ||
        !read_number(root, folder, "memory.current", &used)) {
        return;
    }
    sum_lines(open_text(root, folder, "memory.stat"), "inactive_file", "active_file", &cached);
    if (read_number(root, folder, "memory.swap.max", &swap_max) &&
        read_number(root, folder, "memory.swap.current", &swap_used)) {
        swap = ES_MIN(swap, subtract(swap_max, swap_used));
    }
    limit(available, add(subtract(max, subtract(used, cached)), swap), "control group ", name);
}

// One of version 1, where a second limit counts memory and swap together.
static void limit_by_old_group(EsMemoryAvailable *available, const char *root, const char *folder,
                               const char *name, uint64_t swap) {
    uint64_t max, used, cached;
    sum_lines(open_text(root, folder, "memory.stat"), "total_inactive_file", "total_active_file",
              &cached);
    if (read_number(root, folder, "memory.limit_in_bytes", &max) &&
        read_number(root, folder, "memory.usage_in_bytes", &used)) {
        limit(available, add(subtract(max, subtract(used, cached)), swap), "control group ", name);
    }
    if (read_number(root, folder, "memory.memsw.limit_in_bytes", &max) &&
        read_number(root, folder, "memory.memsw.usage_in_bytes", &used)) {
        limit(available, subtract(max, subtract(used, cached)), "control group ", name);
    }
}

// A group and all above it. In a container the path may be the host's, and only the last of its
// parents, the mounted root, is there.
static void limit_by_parents(EsMemoryAvailable *available, const char *root, const char *mount,
                             char *path, uint64_t swap) {
    char folder[PATH_BYTES];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", mount, path);
        const char *name = path[0] != '\0' ? path : "/";
        limit_by_group(available, root, folder, name, swap);
        limit_by_old_group(available, root, folder, name, swap);
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

// Lines are "<number>:<controllers>:<path>"; version 2 has no controllers.
static void limit_by_groups(EsMemoryAvailable *available, const char *root, uint64_t swap) {
    FILE *file = open_text(root, "/proc/self", "cgroup");
    char line[4200];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *controllers++ = *path++ = '\0';
        path[strcmp(path, "/") == 0 ? 0 : strlen(path)] = '\0';
        if (controllers[0] == '\0') {
            limit_by_parents(available, root, "/sys/fs/cgroup", path, swap);
        }
        for (char *rest = NULL, *one = strtok_r(controllers, ",", &rest); one != NULL;
             one = strtok_r(NULL, ",", &rest)) {
            if (strcmp(one, "memory") == 0) {
                limit_by_parents(available, root, "/sys/fs/cgroup/memory", path, swap);
                break;
            }
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

// --- all of them ---

static void limit_by_addresses(EsMemoryAvailable *available, const char *root) {
    struct rlimit addresses;
    uint64_t n_pages;
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY &&
        read_number(root, "/proc/self", "statm", &n_pages)) {
        limit(available, subtract(addresses.rlim_cur, n_pages * (uint64_t)sysconf(_SC_PAGESIZE)),
              "the limit of ulimit -v", "");
    }
}

EsMemoryAvailable es_memory_available(const char *root) {
    EsMemoryAvailable available = {.bytes = UINT64_MAX, .limited_by = "nobody"};
    uint64_t free_kib, swap_kib;
    int is_known = sum_lines(open_text(root, "/proc", "meminfo"), "MemAvailable", NULL, &free_kib);
    sum_lines(open_text(root, "/proc", "meminfo"), "SwapFree", NULL, &swap_kib);
    if (is_known) {
        limit(&available, (free_kib + swap_kib) * 1024, "the machine", "");
    }
    limit_by_groups(&available, root, swap_kib * 1024);
    limit_by_addresses(&available, root);
    return available;
}
