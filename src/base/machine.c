// Limits of the system come from /proc, from control groups, read as text, and from the scheduler's
// set of processors.
#include "base/machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/macros.h"

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

// --- control groups ---

// Called for one group: its folder below the root, and its name.
typedef void (*GroupFunction)(void *context, const char *root, const char *folder,
                              const char *name);

// A group and all above it. In a container the path may be that of the machine outside, and only
// the last of its parents, the mounted root, is there.
static void visit_parents(const char *root, const char *mount, const char *group,
                          GroupFunction visit, void *context) {
    char folder[PATH_BYTES], path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", group);
    for (;;) {
        snprintf(folder, sizeof folder, "%s%.4200s", mount, path);
        visit(context, root, folder, path[0] != '\0' ? path : "/");
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

// The groups of this process with this controller. Lines are "<number>:<controllers>:<path>";
// version 2 has no controllers.
static void visit_groups(const char *root, const char *controller, GroupFunction visit,
                         void *context) {
    FILE *file = open_text(root, "/proc/self", "cgroup");
    char line[4200], mount[64];
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
            visit_parents(root, "/sys/fs/cgroup", path, visit, context);
        }
        for (char *rest = NULL, *one = strtok_r(controllers, ",", &rest); one != NULL;
             one = strtok_r(NULL, ",", &rest)) {
            if (strcmp(one, controller) == 0) {
                snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controller);
                visit_parents(root, mount, path, visit, context);
                break;
            }
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

// --- memory ---

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

typedef struct MemoryLimits {
    EsMemoryAvailable *available;
    uint64_t swap; // free on the machine
} MemoryLimits;

static void limit_memory(void *context, const char *root, const char *folder, const char *name) {
    const MemoryLimits *limits = context;
    limit_by_group(limits->available, root, folder, name, limits->swap);
    limit_by_old_group(limits->available, root, folder, name, limits->swap);
}

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
    MemoryLimits limits = {&available, swap_kib * 1024};
    visit_groups(root, "memory", limit_memory, &limits);
    limit_by_addresses(&available, root);
    return available;
}

// --- processors ---

// Version 2 has quota and period of a group in one file, "max" where there is no quota; version 1
// in two, -1 where there is none.
static void limit_processors(void *context, const char *root, const char *folder,
                             const char *name) {
    int *n_processors = context;
    uint64_t quota = 0, period = 0;
    (void)name;
    FILE *file = open_text(root, folder, "cpu.max");
    int is_read = file != NULL && fscanf(file, "%" SCNu64 " %" SCNu64, &quota, &period) == 2;
    if (file != NULL) {
        fclose(file);
    }
    if (!is_read) {
        is_read = read_number(root, folder, "cpu.cfs_quota_us", &quota) &&
                  read_number(root, folder, "cpu.cfs_period_us", &period);
    }
    if (is_read && quota > 0 && quota < NO_LIMIT && period > 0) {
        uint64_t n = quota / period + (quota % period > 0);
        *n_processors = (int)ES_MIN((uint64_t)*n_processors, n);
    }
}

// Processors that the scheduler may give this process.
static int count_affine(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return CPU_COUNT(&set);
    }
    // more processors than the set has bits: all of them, then
    long n_online = sysconf(_SC_NPROCESSORS_ONLN);
    return n_online > 0 ? (int)ES_MIN(n_online, 1024) : 1;
}

int es_processors_available(const char *root) {
    int n = count_affine();
    visit_groups(root, "cpu", limit_processors, &n);
    return n;
}

int es_processor_count(void) { return es_processors_available(""); }
