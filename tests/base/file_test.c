// Whole-file reading and atomic writing: contents, limits, and what failures leave behind.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
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

TEST(a_writer_is_tried_without_a_trace) {
    const char *path = temp_path("target"), *pipe = temp_path("pipe");
    REQUIRE_OK(es_file_writer_try(path));
    EXPECT_EQ(count_names(temp_folder()), 0);
    REQUIRE_OK(es_file_write_all(path, "old", 3));
    REQUIRE_OK(es_file_writer_try(path));
    expect_content(path, "old");
    EXPECT_EQ(count_names(temp_folder()), 1);
    EXPECT_STATUS(es_file_writer_try("/tmp/es_no_such_folder/target"), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(ENOENT));
    EXPECT_STATUS(es_file_writer_try(temp_folder()), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(EISDIR));
    EXPECT_EQ(mkfifo(pipe, 0600), 0);
    REQUIRE_OK(es_file_writer_try(pipe)); // opening it would wait for a reader
}

TEST(temporaries_have_the_name_of_their_target) {
    char target[ES_FILE_NAME_BYTES], name[ES_FILE_NAME_BYTES + 16];
    EXPECT_TEXT(es_file_final_name("config.ini.12-0.tmp", target), "config.ini");
    EXPECT_TEXT(es_file_final_name("policy.old.1-23.tmp", target), "policy.old");
    EXPECT_TEXT(es_file_final_name("a.1-0.tmp.2-0.tmp", target), "a.1-0.tmp");
    static const char *const others[] = {"config.ini", "a.tmp",   "a.1.tmp",   "a.-1.tmp",
                                         "a1-0.tmp",   "a.1-tmp", ".12-0.tmp", "a.1-0.tmp~"};
    for (size_t i = 0; i < ES_COUNT_OF(others); i++) {
        EXPECT(es_file_final_name(others[i], target) == others[i]);
        EXPECT_EQ(es_file_is_temporary(others[i]), 0);
    }
    memset(name, 'a', sizeof name);
    snprintf(name + ES_FILE_NAME_BYTES, 16, ".1-0.tmp"); // no name of a file is so long
    EXPECT(es_file_final_name(name, target) == name);
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

// --- targets that are not plain files ---

static int is_link(const char *path) {
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode);
}

TEST(links_are_followed_and_kept) {
    const char *target = temp_path("inner/target"), *link = temp_path("link");
    EXPECT_EQ(mkdir(temp_path("inner"), 0700), 0);
    REQUIRE_OK(es_file_write_all(target, "old", 3));
    EXPECT_EQ(symlink("inner/second", link), 0); // relative to the link's own folder
    EXPECT_EQ(symlink("target", temp_path("inner/second")), 0);
    REQUIRE_OK(es_file_write_all(link, "new", 3));
    EXPECT(is_link(link) && is_link(temp_path("inner/second")) && !is_link(target));
    expect_content(target, "new");
    EXPECT_EQ(count_names(temp_path("inner")), 2); // no temporary
    // one that leads nowhere yet makes its target
    EXPECT_EQ(unlink(target), 0);
    REQUIRE_OK(es_file_write_all(link, "made", 4));
    EXPECT(is_link(link));
    expect_content(target, "made");
    // an absolute one
    EXPECT_EQ(unlink(link), 0);
    EXPECT_EQ(symlink(target, link), 0);
    REQUIRE_OK(es_file_write_all(link, "full", 4));
    expect_content(target, "full");
    // a circle
    EXPECT_EQ(symlink("circle", temp_path("circle")), 0);
    EXPECT_STATUS(es_file_write_all(temp_path("circle"), "x", 1), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(ELOOP));
}

TEST(pipes_and_devices_are_written_through) {
    const char *pipe = temp_path("pipe"), *link = temp_path("link");
    char got[16] = "";
    EXPECT_EQ(mkfifo(pipe, 0600), 0);
    int reader = open(pipe, O_RDONLY | O_NONBLOCK);
    EXPECT(reader >= 0);
    REQUIRE_OK(es_file_write_all(pipe, "through", 7));
    EXPECT_EQ(read(reader, got, sizeof got), 7);
    EXPECT_TEXT(got, "through");
    EXPECT_EQ(symlink("pipe", link), 0);
    REQUIRE_OK(es_file_write_all(link, "again", 5));
    EXPECT_EQ(read(reader, got, sizeof got), 5);
    close(reader);
    struct stat facts;
    EXPECT_EQ(lstat(pipe, &facts), 0);
    EXPECT(S_ISFIFO(facts.st_mode) && is_link(link));
    EXPECT_EQ(count_names(temp_folder()), 2);
    REQUIRE_OK(es_file_write_all("/dev/null", "away", 4));
    EXPECT_EQ(lstat("/dev/null", &facts), 0);
    EXPECT(S_ISCHR(facts.st_mode));
    EXPECT_STATUS(es_file_write_all("/dev/full", "x", 1), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(ENOSPC));
    EXPECT_STATUS(es_file_write_all(temp_folder(), "x", 1), IO);
}

TEST(a_replaced_file_keeps_its_mode) {
    const char *path = temp_path("target");
    struct stat facts;
    REQUIRE_OK(es_file_write_all(path, "old", 3));
    EXPECT_EQ(chmod(path, 0600), 0);
    REQUIRE_OK(es_file_write_all(path, "new", 3));
    EXPECT_EQ(stat(path, &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600);
    expect_content(path, "new");
}

// the link of the system names a file that is not there any more
TEST(a_file_without_a_name_is_written_through) {
    const char *path = temp_path("gone");
    char name[64], got[8] = "";
    int descriptor = open(path, O_RDWR | O_CREAT, 0600);
    EXPECT(descriptor >= 0 && unlink(path) == 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    REQUIRE_OK(es_file_write_all(name, "there", 5));
    EXPECT_EQ(pread(descriptor, got, 5, 0), 5);
    EXPECT_TEXT(got, "there");
    EXPECT_EQ(count_names(temp_folder()), 0);
    close(descriptor);
}

// text printed before stays before, text printed after stays after
TEST(the_file_that_stdout_goes_to_keeps_its_place) {
    const char *path = temp_path("output");
    fflush(stdout);
    int saved = dup(STDOUT_FILENO), output = open(path, O_WRONLY | O_CREAT, 0600);
    EXPECT(saved >= 0 && output >= 0);
    dup2(output, STDOUT_FILENO);
    printf("before ");
    EsStatus by_name = es_file_write_all("/dev/stdout", "one ", 4);
    EsStatus by_path = es_file_write_all(path, "two ", 4);
    printf("after");
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(output);
    EXPECT_STATUS(by_name, OK);
    EXPECT_STATUS(by_path, OK);
    expect_content(path, "before one two after");
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

// --- writing later ---

TEST(held_files_reach_the_disk_when_they_are_written) {
    const char *path = temp_path("target");
    REQUIRE_OK(es_file_write_all(path, "old", 3));
    EsHeldFiles *files = NULL;
    EsFileWriter *writer = NULL;
    REQUIRE_OK(es_held_files_begin(&files));
    REQUIRE_OK(es_file_writer_open(path, &writer));
    EXPECT_STATUS(es_file_writer_append(writer, "one ", 4), OK);
    EXPECT_STATUS(es_file_writer_append(writer, NULL, 0), OK);
    EXPECT_STATUS(es_file_writer_append(writer, "two", 3), OK);
    EXPECT_STATUS(es_file_writer_commit(writer), OK);
    REQUIRE_OK(es_file_writer_open(temp_path("never"), &writer));
    EXPECT_STATUS(es_file_writer_append(writer, "x", 1), OK);
    es_file_writer_abandon(writer);
    REQUIRE_OK(es_file_write_all(temp_path("folder/inner"), "in", 2)); // not there yet
    es_held_files_end();
    expect_content(path, "old");
    EXPECT_EQ(count_names(temp_folder()), 1);
    EXPECT_EQ(es_held_files_bytes(files), 9);
    REQUIRE_OK(es_file_write_all(temp_path("direct"), "now", 3)); // no longer held
    expect_content(temp_path("direct"), "now");
    REQUIRE_OK(es_folder_make(temp_path("folder")));
    EXPECT_STATUS(es_held_files_write(files), OK);
    es_held_files_destroy(files);
    expect_content(path, "one two");
    expect_content(temp_path("folder/inner"), "in");
    EXPECT_EQ(access(temp_path("never"), F_OK), -1);
}

TEST(held_file_that_cannot_be_written_is_named) {
    EsHeldFiles *files = NULL;
    REQUIRE_OK(es_held_files_begin(&files));
    REQUIRE_OK(es_file_write_all(temp_path("first"), "1", 1));
    REQUIRE_OK(es_file_write_all(temp_path("absent/second"), "2", 1));
    REQUIRE_OK(es_file_write_all(temp_path("third"), "3", 1));
    es_held_files_end();
    EXPECT_STATUS(es_held_files_write(files), IO);
    EXPECT_CONTAINS(es_status_detail(), "absent/second");
    es_held_files_destroy(files);
    expect_content(temp_path("first"), "1");
    EXPECT_EQ(access(temp_path("third"), F_OK), -1);
}

TEST(held_files_are_read_where_they_are) {
    EsHeldFiles *files = NULL;
    EsFileReader *reader = NULL;
    EsFileWriter *writer = NULL;
    char part[8] = "";
    REQUIRE_OK(es_file_write_all(temp_path("disk"), "on disk", 7));
    REQUIRE_OK(es_held_files_create(&files));
    REQUIRE_OK(es_held_files_add(files, temp_path("disk")));
    EXPECT_STATUS(es_held_files_add(files, temp_path("absent")), IO);
    REQUIRE_OK(es_file_write_all(temp_path("disk"), "changed", 7));
    es_held_files_read_begin(files);
    expect_content(temp_path("disk"), "on disk");
    REQUIRE_OK(es_file_reader_open(temp_path("disk"), &reader));
    EXPECT_EQ(es_file_reader_bytes(reader), 7);
    EXPECT_STATUS(es_file_reader_read(reader, 3, part, 4), OK);
    EXPECT_TEXT(part, "disk");
    EXPECT_STATUS(es_file_reader_read(reader, 3, part, 5), IO);
    es_file_reader_close(reader);
    es_held_files_read_end();
    expect_content(temp_path("disk"), "changed");
    es_held_files_destroy(files);
    // over the bounds of blocks, and the later of two files of one path
    REQUIRE_OK(es_held_files_begin(&files));
    REQUIRE_OK(es_file_write_all(temp_path("disk"), "first", 5));
    REQUIRE_OK(es_file_writer_open(temp_path("disk"), &writer));
    REQUIRE_OK(es_file_writer_append(writer, "ab", 2));
    REQUIRE_OK(es_file_writer_append(writer, "cde", 3));
    REQUIRE_OK(es_file_writer_append(writer, "f", 1));
    REQUIRE_OK(es_file_writer_commit(writer));
    es_held_files_end();
    es_held_files_read_begin(files);
    expect_content(temp_path("disk"), "abcdef");
    REQUIRE_OK(es_file_reader_open(temp_path("disk"), &reader));
    EXPECT_STATUS(es_file_reader_read(reader, 1, part, 5), OK);
    part[5] = '\0';
    EXPECT_TEXT(part, "bcdef");
    es_file_reader_close(reader);
    es_held_files_read_end();
    es_held_files_destroy(files);
    expect_content(temp_path("disk"), "changed");
}
