// Memory and processors available to the process, read from made-up /proc and /sys trees.
#include <sched.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/machine.h"
#include "es_test.h"
#include "temp_folder.h"

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
    // the path is that of the machine outside, which is not here
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

// --- processors ---

static int count_affine(void) {
    cpu_set_t set;
    EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    return CPU_COUNT(&set);
}

TEST(processors_follow_the_affinity) {
    cpu_set_t before, one;
    EXPECT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    EXPECT_EQ(es_processors_available(temp_path("nothing")), count_affine());
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
        }
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(es_processors_available(temp_path("nothing")), 1);
    EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(quotas_of_groups_limit_processors) {
    int n = count_affine();
    make_machine();
    put("proc/self/cgroup", "0::/above/mine\n");
    put("sys/fs/cgroup/above/mine/cpu.max", "max 100000\n");
    EXPECT_EQ(es_processors_available(temp_folder()), n);
    put("sys/fs/cgroup/above/mine/cpu.max", "110000 100000\n");
    EXPECT_EQ(es_processors_available(temp_folder()), n < 2 ? n : 2);
    put("sys/fs/cgroup/above/cpu.max", "50000 100000\n"); // a parent has less
    EXPECT_EQ(es_processors_available(temp_folder()), 1);
    put("sys/fs/cgroup/above/cpu.max", "0 0\n"); // nothing that the system writes
    EXPECT_EQ(es_processors_available(temp_folder()), n < 2 ? n : 2);
}

TEST(quotas_of_version_1_limit_processors) {
    make_machine();
    put("proc/self/cgroup", "12:cpu,cpuacct:/a\n9:memory:/b\n");
    put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(es_processors_available(temp_folder()), count_affine());
    put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");
    EXPECT_EQ(es_processors_available(temp_folder()), 1);
}
