// Allocation and slab layout: alignment, zeroing, limits; and the memory available to the process,
// read from made-up /proc and /sys trees.
#include <sys/resource.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/memory.h"
#include "es_test.h"
#include "temp_folder.h"

static int is_aligned(const void *memory) { return (uintptr_t)memory % ES_ALIGNMENT == 0; }

TEST(aligns_up) {
    EXPECT_EQ(es_align_up(0), 0);
    EXPECT_EQ(es_align_up(1), 64);
    EXPECT_EQ(es_align_up(64), 64);
    EXPECT_EQ(es_align_up(65), 128);
}

TEST(allocates_zeroed_and_aligned) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 100000};
    for (size_t i = 0; i < ES_COUNT_OF(sizes); i++) {
        unsigned char *memory = NULL;
        REQUIRE_OK(es_allocate(sizes[i], (void **)&memory));
        EXPECT(memory != NULL && is_aligned(memory));
        int n_nonzero = 0;
        for (size_t k = 0; k < sizes[i]; k++) {
            n_nonzero += memory[k] != 0;
        }
        EXPECT_EQ(n_nonzero, 0);
        es_release(memory);
    }
    es_release(NULL);
}

TEST(a_limit_refuses_and_tells_the_peak) {
    static const size_t mib = (size_t)1 << 20;
    void *first = NULL, *second = NULL, *third = NULL;
    es_allocation_begin(10 * mib);
    REQUIRE_OK(es_allocate(4 * mib, &first));
    REQUIRE_OK(es_allocate(4 * mib, &second));
    es_release(second);
    EXPECT_STATUS(es_allocate(8 * mib, &third), MEMORY);
    EXPECT(third == NULL);
    EXPECT_STATUS(es_allocate(SIZE_MAX - 100, &third), MEMORY);
    REQUIRE_OK(es_allocate(5 * mib, &second));
    EsAllocation allocation = es_allocation_end();
    EXPECT(allocation.is_refused);
    EXPECT(allocation.held_bytes >= 9 * mib && allocation.held_bytes < 10 * mib);
    // beyond its end nothing is refused
    REQUIRE_OK(es_allocate(12 * mib, &third));
    es_release(third);
    es_release(second);
    es_allocation_begin(0);
    es_release(first);
    REQUIRE_OK(es_allocate(20 * mib, &first));
    es_release(first);
    allocation = es_allocation_end();
    EXPECT(!allocation.is_refused);
    EXPECT_EQ(allocation.held_bytes, 0);
    EXPECT(allocation.peak_bytes >= 15 * mib && allocation.peak_bytes < 17 * mib);
}

TEST(refuses_what_cannot_be_had) {
    void *memory = &memory;
    EXPECT_STATUS(es_allocate(SIZE_MAX - 5, &memory), MEMORY);
    EXPECT(memory == NULL);
    memory = &memory;
    EXPECT_STATUS(es_allocate((size_t)1 << 60, &memory), MEMORY);
    EXPECT(memory == NULL);
    EXPECT_TEXT(es_status_detail(), "not enough memory: cannot allocate 1099511627776.0 MiB");
}

TEST(slab_members_are_aligned_and_disjoint) {
    static const size_t sizes[] = {4, 64, 100, 0, 1};
    static const size_t offsets[] = {0, 64, 128, 256, 256};
    size_t slab_bytes = 0;
    for (size_t i = 0; i < ES_COUNT_OF(sizes); i++) {
        EXPECT_EQ(es_slab_add(&slab_bytes, sizes[i]), offsets[i]);
    }
    EXPECT_EQ(slab_bytes, 257);
}

// --- available memory ---

#define MIB ((uint64_t)1 << 20)

// Write one file of the tree, its folders included.
static void put(const char *name, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s", temp_path(name));
    *strrchr(path, '/') = '\0';
    REQUIRE_OK(es_folder_make(path));
    REQUIRE_OK(es_file_write_all(temp_path(name), text, strlen(text)));
}

// A machine with 8 GiB of which 4000 MiB are available, and 100 MiB of swap.
static void make_machine(void) {
    REQUIRE_OK(es_folder_remove(temp_path("proc")));
    REQUIRE_OK(es_folder_remove(temp_path("sys")));
    put("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          102400 kB\n"
                        "MemAvailable:    4096000 kB\nHugePages_Total:       0\n"
                        "SwapTotal:        204800 kB\nSwapFree:         102400 kB\n");
}

static void expect_available(uint64_t mib, const char *holder) {
    EsMemoryAvailable available = es_memory_available(temp_folder());
    EXPECT_EQ(available.bytes / MIB, mib);
    EXPECT_TEXT(available.limited_by, holder);
}

TEST(what_nobody_tells_limits_nothing) {
    EsMemoryAvailable available = es_memory_available(temp_path("nothing"));
    EXPECT(available.bytes == UINT64_MAX);
    put("proc/meminfo", "");
    put("proc/self/cgroup", "nonsense\n0::\n7:memory\n");
    EXPECT(es_memory_available(temp_folder()).bytes == UINT64_MAX);
    put("proc/self/cgroup", "0::/a\n");
    put("sys/fs/cgroup/a/memory.max", "many\n");
    put("sys/fs/cgroup/a/memory.current", "1048576\n");
    EXPECT(es_memory_available(temp_folder()).bytes == UINT64_MAX);
}

TEST(the_machine_alone) {
    make_machine();
    expect_available(4100, "the machine");
}

TEST(a_group_and_its_parents) {
    make_machine();
    put("proc/self/cgroup", "0::/above/mine\n");
    put("sys/fs/cgroup/above/mine/memory.max", "max\n");
    put("sys/fs/cgroup/above/mine/memory.current", "104857600\n");
    expect_available(4100, "the machine");
    // 1000 MiB, of which 300 are in use, 200 of these for files; swap beside it
    put("sys/fs/cgroup/above/mine/memory.max", "1048576000\n");
    put("sys/fs/cgroup/above/mine/memory.current", "314572800\n");
    put("sys/fs/cgroup/above/mine/memory.stat",
        "anon 104857600\nfile 209715200\ninactive_file 157286400\nactive_file 52428800\n");
    expect_available(900 + 100, "control group /above/mine");
    put("sys/fs/cgroup/above/mine/memory.swap.max", "31457280\n");
    put("sys/fs/cgroup/above/mine/memory.swap.current", "10485760\n");
    expect_available(900 + 20, "control group /above/mine");
    put("sys/fs/cgroup/above/mine/memory.swap.max", "max\n");
    expect_available(900 + 100, "control group /above/mine");
    // a parent has less
    put("sys/fs/cgroup/above/memory.max", "524288000\n");
    put("sys/fs/cgroup/above/memory.current", "419430400\n");
    put("sys/fs/cgroup/above/memory.swap.max", "0\n");
    put("sys/fs/cgroup/above/memory.swap.current", "0\n");
    expect_available(100, "control group /above");
    // more in use than is allowed
    put("sys/fs/cgroup/above/memory.current", "629145600\n");
    expect_available(0, "control group /above");
}

TEST(the_root_of_a_container) {
    make_machine();
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "104857600\n");
    put("sys/fs/cgroup/memory.current", "20971520\n");
    put("sys/fs/cgroup/memory.swap.max", "0\n");
    put("sys/fs/cgroup/memory.swap.current", "0\n");
    expect_available(80, "control group /");
    // the path is that of the host, which is not here
    put("proc/self/cgroup", "0::/kubepods/pod1/c2\n");
    expect_available(80, "control group /");
}

TEST(groups_of_version_1) {
    make_machine();
    put("proc/self/cgroup", "12:cpu,cpuacct:/a\n9:hugetlb,memory:/a/b\n1:name=systemd:/x\n");
    // no limit, as version 1 writes it
    put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "20971520\n");
    expect_available(4100, "the machine");
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "209715200\n");
    put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "104857600\n");
    put("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 52428800\n");
    expect_available(150 + 100, "control group /a");
    put("sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", "209715200\n");
    put("sys/fs/cgroup/memory/a/memory.memsw.usage_in_bytes", "104857600\n");
    expect_available(150, "control group /a");
}

TEST(the_process_has_a_limit_of_its_own) {
    make_machine();
    struct rlimit before, limited;
    char text[32];
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    limited = before;
    limited.rlim_cur = (rlim_t)100 << 40; // room for a sanitizer's 20 TiB
    snprintf(text, sizeof text, "%lld 1 1\n",
             (long long)(limited.rlim_cur - 400 * MIB) / sysconf(_SC_PAGESIZE));
    put("proc/self/statm", text);
    if (setrlimit(RLIMIT_AS, &limited) != 0) {
        SKIP("this process may not have such a limit");
    }
    expect_available(400, "the limit of ulimit -v");
    EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

TEST(this_machine_tells) {
    EsMemoryAvailable available = es_memory_available("");
    EXPECT(available.bytes > MIB);
    EXPECT(available.bytes == UINT64_MAX || strlen(available.limited_by) > 0);
}
