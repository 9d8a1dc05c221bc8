// Whole-file reading and atomic writing: contents, limits, and what failures leave behind.
#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "temp_folder.h"

static void expect_content(const char *path, const char *expected) {
    void *data = NULL;
    size_t bytes = 0;
    REQUIRE_OK(es_file_read_all(path, 1000, &data, &bytes));
    EXPECT_EQ(bytes, strlen(expected));
    EXPECT_TEXT((const char *)data, expected); // also checks the zero byte after the end
    es_release(data);
}

TEST(spans_make_one_file) {
    const char *path = temp_path("target");
    EsFileWriter *writer = NULL;
    REQUIRE_OK(es_file_writer_open(path, &writer));
    EXPECT_STATUS(es_file_writer_append(writer, "one ", 4), OK);
    EXPECT_STATUS(es_file_writer_append(writer, NULL, 0), OK);
    EXPECT_STATUS(es_file_writer_append(writer, "two", 3), OK);
    EXPECT_EQ(access(path, F_OK), -1); // nothing at the target before the commit
    EXPECT_STATUS(es_file_writer_commit(writer), OK);
    expect_content(path, "one two");
    EXPECT_EQ(count_names(temp_folder()), 1);
}

TEST(mode_follows_the_umask) {
    const char *path = temp_path("target");
    mode_t old = umask(027);
    REQUIRE_OK(es_file_write_all(path, "x", 1));
    umask(old);
    struct stat facts = {0};
    EXPECT_EQ(stat(path, &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0640);
}

TEST(abandon_keeps_the_old_file) {
    const char *path = temp_path("target");
    REQUIRE_OK(es_file_write_all(path, "old", 3));
    EsFileWriter *writer = NULL;
    REQUIRE_OK(es_file_writer_open(path, &writer));
    REQUIRE_OK(es_file_writer_append(writer, "new", 3));
    EXPECT_EQ(count_names(temp_folder()), 2);
    es_file_writer_abandon(writer);
    es_file_writer_abandon(NULL);
    EXPECT_EQ(count_names(temp_folder()), 1);
    expect_content(path, "old");
}

TEST(two_writers_of_one_path_do_not_meet) {
    const char *path = temp_path("target");
    EsFileWriter *first = NULL, *second = NULL;
    REQUIRE_OK(es_file_writer_open(path, &first));
    REQUIRE_OK(es_file_writer_open(path, &second));
    REQUIRE_OK(es_file_writer_append(first, "first", 5));
    REQUIRE_OK(es_file_writer_append(second, "second", 6));
    EXPECT_STATUS(es_file_writer_commit(second), OK);
    EXPECT_STATUS(es_file_writer_commit(first), OK);
    expect_content(path, "first");
    EXPECT_EQ(count_names(temp_folder()), 1);
}

// a limit on the file's size stands for a full disk: the first write is short, the second fails
TEST(full_place_keeps_the_old_file) {
    const char *path = temp_path("target");
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
    expect_content(path, "old");
    EXPECT_EQ(count_names(temp_folder()), 1);
}

TEST(missing_folder) {
    EXPECT_STATUS(es_file_write_all("/tmp/es_no_such_folder/target", "x", 1), IO);
    EXPECT_CONTAINS(es_status_detail(), "/tmp/es_no_such_folder/target");
    EXPECT_CONTAINS(es_status_detail(), strerror(ENOENT));
}

TEST(folder_as_target) {
    const char *path = temp_path("target");
    REQUIRE_OK(es_file_write_all(path, "x", 1));
    EXPECT_STATUS(es_file_write_all(temp_folder(), "y", 1), IO);
    EXPECT_CONTAINS(es_status_detail(), temp_folder());
    expect_content(path, "x");
    char pattern[300];
    snprintf(pattern, sizeof pattern, "%s.%ld-0.tmp", temp_folder(), (long)getpid());
    EXPECT_EQ(access(pattern, F_OK), -1);
}

TEST(read_only_folder) {
    if (geteuid() == 0) {
        SKIP("root may write everywhere");
    }
    const char *path = temp_path("target");
    REQUIRE_OK(es_file_write_all(path, "old", 3));
    EXPECT_EQ(chmod(temp_folder(), 0500), 0);
    EXPECT_STATUS(es_file_write_all(path, "new", 3), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(EACCES));
    EXPECT_EQ(chmod(temp_folder(), 0700), 0);
    expect_content(path, "old");
}

TEST(relative_path) {
    const char *path = temp_path("target");
    char before[256];
    EXPECT(getcwd(before, sizeof before) != NULL);
    EXPECT_EQ(chdir(temp_folder()), 0);
    EXPECT_STATUS(es_file_write_all("target", "here", 4), OK);
    EXPECT_EQ(chdir(before), 0);
    expect_content(path, "here");
}

TEST(read_limits_and_kinds) {
    const char *path = temp_path("target");
    void *data = NULL;
    size_t bytes = 0;
    REQUIRE_OK(es_file_write_all(path, "12345", 5));
    EXPECT_STATUS(es_file_read_all(path, 5, &data, &bytes), OK);
    es_release(data);
    EXPECT_STATUS(es_file_read_all(path, 4, &data, &bytes), INPUT);
    EXPECT_CONTAINS(es_status_detail(), path);
    EXPECT(data == NULL);
    EXPECT_STATUS(es_file_read_all(temp_folder(), 100, &data, &bytes), INPUT);
    REQUIRE_OK(es_file_write_all(path, "", 0));
    expect_content(path, "");
    unlink(path);
    EXPECT_STATUS(es_file_read_all(path, 100, &data, &bytes), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(ENOENT));
    EXPECT_EQ(mkfifo(path, 0600), 0); // must not wait for a writer
    EXPECT_STATUS(es_file_read_all(path, 100, &data, &bytes), INPUT);
}

TEST(file_that_shrinks_while_open) {
    const char *path = temp_path("target");
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
}
