// Faults strike the call they name, when they should, and leave files as the contract says.
#include "base/file_fault.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/file.h"
#include "temp_folder.h"

static const char *path;

// A file alone in the folder.
static void make_file(void) {
    clear_temp_folder();
    path = write_temp_text("target", "old");
}

static void arm(const char *text) {
    EsFileFault fault;
    REQUIRE_OK(es_file_fault_parse(text, &fault));
    es_file_fault_arm(&fault);
}

static void expect_content(const char *expected) {
    void *data = NULL;
    size_t bytes = 0;
    REQUIRE_OK(es_file_read_all(path, 1000, &data, &bytes));
    EXPECT_TEXT((const char *)data, expected);
    es_release(data);
}

TEST(texts_are_read) {
    EsFileFault fault;
    REQUIRE_OK(es_file_fault_parse("write:3:ENOSPC", &fault));
    EXPECT_EQ(fault.call, ES_FILE_CALL_WRITE);
    EXPECT_EQ(fault.kind, ES_FILE_FAULT_ERROR);
    EXPECT_EQ(fault.n, 3);
    EXPECT_EQ(fault.error, ENOSPC);
    EXPECT_EQ(fault.is_lasting, 0);
    REQUIRE_OK(es_file_fault_parse("fsync-folder:12+:EIO", &fault));
    EXPECT_EQ(fault.call, ES_FILE_CALL_SYNC_FOLDER);
    EXPECT_EQ(fault.n, 12);
    EXPECT_EQ(fault.is_lasting, 1);
    REQUIRE_OK(es_file_fault_parse("disk:4096", &fault));
    EXPECT_EQ(fault.kind, ES_FILE_FAULT_DISK);
    EXPECT_EQ(fault.n, 4096);
    REQUIRE_OK(es_file_fault_parse("rename:1:kill", &fault));
    EXPECT_EQ(fault.kind, ES_FILE_FAULT_KILL);
    static const char *const wrong[] = {
        "",        "write",       "write:",      "write:0:EIO",   "write:-1:EIO",
        "write:1", "write:1EIO",  "wrote:1:EIO", "write:1:EPERM", "fsync:1:short",
        "disk:",   "disk:10:EIO", "disk:-1",     "write: 1:EIO"};
    for (size_t i = 0; i < ES_COUNT_OF(wrong); i++) {
        EXPECT_STATUS(es_file_fault_parse(wrong[i], &fault), ARGUMENT);
        EXPECT_CONTAINS(es_status_detail(), "file fault");
    }
    EXPECT_STATUS(es_file_fault_start("wrote:1:EIO"), ARGUMENT);
    EXPECT_STATUS(es_file_fault_start(""), OK);
    EXPECT_STATUS(es_file_fault_start(NULL), OK);
}

// each call of an atomic write can fail; the old file and no temporary are left
TEST(every_call_of_a_write_keeps_the_old_file) {
    static const char *const faults[] = {"open:1:EMFILE", "write:1:ENOSPC", "write:2:EIO",
                                         "fsync:1:EIO", "rename:1:EROFS"};
    for (size_t i = 0; i < ES_COUNT_OF(faults); i++) {
        make_file();
        arm(faults[i]);
        EsFileWriter *writer = NULL;
        EsStatus status = es_file_writer_open(path, &writer);
        if (status == ES_STATUS_OK) {
            es_file_writer_append(writer, "ne", 2);
            es_file_writer_append(writer, "w", 1);
            status = es_file_writer_commit(writer);
        }
        EXPECT_EQ(es_file_fault_clear(), 1);
        EXPECT_STATUS(status, IO);
        EXPECT_CONTAINS(es_status_detail(), path);
        expect_content("old");
        EXPECT_EQ(count_names(temp_folder()), 1);
    }
}

TEST(unsynced_folder_leaves_the_new_file_and_says_so) {
    make_file();
    arm("fsync-folder:1:EIO");
    EXPECT_STATUS(es_file_write_all(path, "new", 3), IO);
    EXPECT_CONTAINS(es_status_detail(), "cannot be made durable: Input/output error");
    EXPECT_EQ(es_file_fault_clear(), 1);
    expect_content("new");
}

TEST(interrupted_and_short_calls_are_repeated) {
    static const char *const faults[] = {"open:1:EINTR",  "write:1:EINTR",  "fsync:1:EINTR",
                                         "write:1:short", "write:1+:short", "fsync-folder:1:EINTR"};
    for (size_t i = 0; i < ES_COUNT_OF(faults); i++) {
        make_file();
        arm(faults[i]);
        EXPECT_STATUS(es_file_write_all(path, "a longer text", 13), OK);
        EXPECT(es_file_fault_clear() >= 1);
        expect_content("a longer text");
        arm("read:1:short");
        expect_content("a longer text");
        EXPECT_EQ(es_file_fault_clear(), 1);
    }
}

TEST(failed_read_is_told) {
    make_file();
    void *data = NULL;
    size_t bytes = 0;
    arm("read:1:EIO");
    EXPECT_STATUS(es_file_read_all(path, 1000, &data, &bytes), IO);
    EXPECT_EQ(es_file_fault_clear(), 1);
    EXPECT(data == NULL);
}

TEST(full_disk_takes_what_fits) {
    make_file();
    arm("disk:10");
    EXPECT_STATUS(es_file_write_all(path, "0123456789", 10), OK);
    EXPECT_STATUS(es_file_write_all(path, "x", 1), IO);
    EXPECT_CONTAINS(es_status_detail(), "No space left");
    EXPECT_STATUS(es_file_write_all(path, "", 0), OK); // an empty file needs no room
    EXPECT_EQ(es_file_fault_clear(), 1);
    REQUIRE_OK(es_file_write_all(path, "again", 5));
    expect_content("again");
    EXPECT_EQ(es_file_fault_clear(), 0);
}

TEST(lasting_faults_last) {
    make_file();
    arm("write:2+:EIO");
    EXPECT_STATUS(es_file_write_all(path, "1", 1), OK);
    EXPECT_STATUS(es_file_write_all(path, "2", 1), IO);
    EXPECT_STATUS(es_file_write_all(path, "3", 1), IO);
    EXPECT_EQ(es_file_fault_clear(), 2);
    expect_content("1");
}

TEST(kill_strikes_before_the_call) {
    make_file();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        arm("rename:1:kill");
        es_file_write_all(path, "new", 3);
        _exit(0);
    }
    int result = 0;
    EXPECT_EQ(waitpid(child, &result, 0), child);
    EXPECT(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
    expect_content("old");
    EXPECT_EQ(count_names(temp_folder()), 2); // the temporary is left behind
}

TEST(removal_and_making_of_folders_can_fail) {
    make_file();
    arm("unlink:1:EACCES");
    EXPECT_STATUS(es_folder_remove(temp_folder()), IO);
    EXPECT_EQ(es_file_fault_clear(), 1);
    expect_content("old");
    const char *folder = temp_path("a/b");
    arm("mkdir:2:ENOSPC");
    EXPECT_STATUS(es_folder_make(folder), IO);
    EXPECT_EQ(es_file_fault_clear(), 1);
    EXPECT_CONTAINS(es_status_detail(), "/a/b: No space left");
    REQUIRE_OK(es_folder_make(folder));
}
