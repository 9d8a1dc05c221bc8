// Whole-file reading and atomic writing: contents, limits, and what failures leave behind.
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "es_test.h"

// A fresh folder and a path inside it; the folder goes away with remove_folder.
static char folder[64];
static char path[128];

static void make_folder(void) {
    strcpy(folder, "/tmp/es_file_test_XXXXXX");
    if (mkdtemp(folder) == NULL) {
        printf("cannot make a folder under /tmp\n");
        exit(1);
    }
    snprintf(path, sizeof path, "%s/target", folder);
}

// Names in the folder, "." and ".." left out; with `remove` they are deleted.
static int list_folder(int remove) {
    int n_names = 0;
    DIR *handle = opendir(folder);
    for (struct dirent *entry; handle != NULL && (entry = readdir(handle)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            n_names++;
            if (remove) {
                unlinkat(dirfd(handle), entry->d_name, 0);
            }
        }
    }
    closedir(handle);
    return n_names;
}

static void remove_folder(void) {
    list_folder(1);
    EXPECT_EQ(rmdir(folder), 0);
}

static void expect_content(const char *expected) {
    void *data = NULL;
    size_t bytes = 0;
    REQUIRE_OK(es_file_read_all(path, 1000, &data, &bytes));
    EXPECT_EQ(bytes, strlen(expected));
    EXPECT_TEXT((const char *)data, expected); // also checks the zero byte after the end
    es_release(data);
}

TEST(spans_make_one_file) {
    make_folder();
    EsFileWriter *writer = NULL;
    REQUIRE_OK(es_file_writer_open(path, &writer));
    EXPECT_STATUS(es_file_writer_append(writer, "one ", 4), OK);
    EXPECT_STATUS(es_file_writer_append(writer, NULL, 0), OK);
    EXPECT_STATUS(es_file_writer_append(writer, "two", 3), OK);
    EXPECT_EQ(access(path, F_OK), -1); // nothing at the target before the commit
    EXPECT_STATUS(es_file_writer_commit(writer), OK);
    expect_content("one two");
    EXPECT_EQ(list_folder(0), 1);
    remove_folder();
}

TEST(mode_follows_the_umask) {
    make_folder();
    mode_t old = umask(027);
    REQUIRE_OK(es_file_write_all(path, "x", 1));
    umask(old);
    struct stat facts = {0};
    EXPECT_EQ(stat(path, &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0640);
    remove_folder();
}

TEST(abandon_keeps_the_old_file) {
    make_folder();
    REQUIRE_OK(es_file_write_all(path, "old", 3));
    EsFileWriter *writer = NULL;
    REQUIRE_OK(es_file_writer_open(path, &writer));
    REQUIRE_OK(es_file_writer_append(writer, "new", 3));
    EXPECT_EQ(list_folder(0), 2);
    es_file_writer_abandon(writer);
    es_file_writer_abandon(NULL);
    EXPECT_EQ(list_folder(0), 1);
    expect_content("old");
    remove_folder();
}

TEST(two_writers_of_one_path_do_not_meet) {
    make_folder();
    EsFileWriter *first = NULL, *second = NULL;
    REQUIRE_OK(es_file_writer_open(path, &first));
    REQUIRE_OK(es_file_writer_open(path, &second));
    REQUIRE_OK(es_file_writer_append(first, "first", 5));
    REQUIRE_OK(es_file_writer_append(second, "second", 6));
    EXPECT_STATUS(es_file_writer_commit(second), OK);
    EXPECT_STATUS(es_file_writer_commit(first), OK);
    expect_content("first");
    EXPECT_EQ(list_folder(0), 1);
    remove_folder();
}

// a limit on the file's size stands for a full disk: the first write is short, the second fails
TEST(full_place_keeps_the_old_file) {
    make_folder();
    REQUIRE_OK(es_file_write_all(path, "old", 3));
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    static const char data[4000] = {0};
    EsFileWriter *writer = NULL;
    REQUIRE_OK(es_file_writer_open(path, &writer));
    EXPECT_STATUS(es_file_writer_append(writer, data, sizeof data), IO);
    EXPECT_CONTAINS(es_status_detail(), path);
    EXPECT_CONTAINS(es_status_detail(), strerror(EFBIG));
    EXPECT_STATUS(es_file_writer_append(writer, data, 1), IO);
    EXPECT_STATUS(es_file_writer_commit(writer), IO); // a failed write can never be committed
    EXPECT_STATUS(es_file_write_all(path, data, sizeof data), IO);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    expect_content("old");
    EXPECT_EQ(list_folder(0), 1);
    remove_folder();
}

TEST(missing_folder) {
    EXPECT_STATUS(es_file_write_all("/tmp/es_no_such_folder/target", "x", 1), IO);
    EXPECT_CONTAINS(es_status_detail(), "/tmp/es_no_such_folder/target");
    EXPECT_CONTAINS(es_status_detail(), strerror(ENOENT));
}

TEST(folder_as_target) {
    make_folder();
    REQUIRE_OK(es_file_write_all(path, "x", 1));
    EXPECT_STATUS(es_file_write_all(folder, "y", 1), IO);
    EXPECT_CONTAINS(es_status_detail(), folder);
    expect_content("x");
    char pattern[96];
    snprintf(pattern, sizeof pattern, "%s.%ld-0.tmp", folder, (long)getpid());
    EXPECT_EQ(access(pattern, F_OK), -1);
    remove_folder();
}

TEST(read_only_folder) {
    if (geteuid() == 0) {
        SKIP("root may write everywhere");
    }
    make_folder();
    REQUIRE_OK(es_file_write_all(path, "old", 3));
    EXPECT_EQ(chmod(folder, 0500), 0);
    EXPECT_STATUS(es_file_write_all(path, "new", 3), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(EACCES));
    EXPECT_EQ(chmod(folder, 0700), 0);
    expect_content("old");
    remove_folder();
}

TEST(relative_path) {
    make_folder();
    char before[256];
    EXPECT(getcwd(before, sizeof before) != NULL);
    EXPECT_EQ(chdir(folder), 0);
    EXPECT_STATUS(es_file_write_all("target", "here", 4), OK);
    EXPECT_EQ(chdir(before), 0);
    expect_content("here");
    remove_folder();
}

TEST(read_limits_and_kinds) {
    make_folder();
    void *data = NULL;
    size_t bytes = 0;
    REQUIRE_OK(es_file_write_all(path, "12345", 5));
    EXPECT_STATUS(es_file_read_all(path, 5, &data, &bytes), OK);
    es_release(data);
    EXPECT_STATUS(es_file_read_all(path, 4, &data, &bytes), INPUT);
    EXPECT_CONTAINS(es_status_detail(), path);
    EXPECT(data == NULL);
    EXPECT_STATUS(es_file_read_all(folder, 100, &data, &bytes), INPUT);
    REQUIRE_OK(es_file_write_all(path, "", 0));
    expect_content("");
    unlink(path);
    EXPECT_STATUS(es_file_read_all(path, 100, &data, &bytes), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(ENOENT));
    EXPECT_EQ(mkfifo(path, 0600), 0); // must not wait for a writer
    EXPECT_STATUS(es_file_read_all(path, 100, &data, &bytes), INPUT);
    remove_folder();
}

TEST(file_that_shrinks_while_open) {
    make_folder();
    REQUIRE_OK(es_file_write_all(path, "0123456789", 10));
    EsFileReader *reader = NULL;
    REQUIRE_OK(es_file_reader_open(path, &reader));
    EXPECT_EQ(es_file_reader_bytes(reader), 10);
    char part[4] = {0};
    EXPECT_STATUS(es_file_reader_read(reader, 3, part, 3), OK);
    EXPECT_TEXT(part, "345");
    EXPECT_EQ(truncate(path, 5), 0);
    EXPECT_STATUS(es_file_reader_read(reader, 3, part, 3), IO);
    EXPECT_CONTAINS(es_status_detail(), path);
    es_file_reader_close(reader);
    es_file_reader_close(NULL);
    remove_folder();
}
