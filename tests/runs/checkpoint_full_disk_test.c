// Checkpoints on a disk that really runs full: a small tmpfs of this test's own.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include "checkpoint_case.h"

// A file system of 96 KiB at the root; 0 when this process may not mount.
static int mount_small_disk(void) {
    int uid = (int)getuid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
            return 0;
        }
        char map[64];
        snprintf(map, sizeof map, "0 %d 1", uid);
        int descriptor = open("/proc/self/uid_map", O_WRONLY);
        int is_mapped = descriptor >= 0 && write(descriptor, map, strlen(map)) > 0;
        if (descriptor >= 0) {
            close(descriptor);
        }
        if (!is_mapped) {
            return 0;
        }
    }
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", temp_folder(), "tmpfs", 0, "size=96k") == 0;
}

TEST(full_disk_keeps_the_last_checkpoint) {
    make_case_folder();
    if (!mount_small_disk()) {
        SKIP("cannot mount a tmpfs: %s", strerror(errno));
    }
    EsRunFolder *folder = create_case_run("x");
    int64_t round = 0;
    EsStatus status = ES_STATUS_OK;
    while (status == ES_STATUS_OK && round < 100) {
        status = save_case(folder, round + 1, 0);
        round += status == ES_STATUS_OK;
    }
    printf("full after %lld checkpoints: %s\n", (long long)round, es_status_detail());
    EXPECT_STATUS(status, IO);
    EXPECT_CONTAINS(es_status_detail(), "No space left");
    EXPECT(round >= 1);
    EXPECT_EQ(expect_latest(folder), round);
    char name[64];
    snprintf(name, sizeof name, "x/checkpoints/%lld", (long long)round + 1);
    EXPECT(!case_exists(name));
    EXPECT_STATUS(save_case(folder, round + 1, 0), IO); // still full
    EXPECT_EQ(expect_latest(folder), round);
    REQUIRE_OK(es_checkpoint_prune(folder, 1));
    EXPECT_STATUS(save_case(folder, round + 1, 0), OK);
    EXPECT_EQ(expect_latest(folder), round + 1);
    es_run_folder_close(folder);
    EXPECT_EQ(umount2(temp_folder(), MNT_DETACH), 0);
}
