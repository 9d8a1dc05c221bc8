// Folders: made, listed, measured and removed, with links that must not be followed.
#include "base/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "es_test.h"

static char root[64];

static const char *inside(const char *name) {
    static char paths[4][256];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", root, name);
    return paths[next];
}

static void make_root(void) {
    strcpy(root, "/tmp/es_folder_test_XXXXXX");
    if (mkdtemp(root) == NULL) {
        printf("cannot make a folder under /tmp\n");
        exit(1);
    }
}

static int exists(const char *path) {
    struct stat facts;
    return lstat(path, &facts) == 0;
}

TEST(parents_are_made) {
    make_root();
    EXPECT_STATUS(es_folder_make(inside("a//b/c/")), OK);
    EXPECT(exists(inside("a/b/c")));
    EXPECT_STATUS(es_folder_make(inside("a/b/c")), OK);
    REQUIRE_OK(es_file_write_all(inside("a/file"), "x", 1));
    EXPECT_STATUS(es_folder_make(inside("a/file")), IO);
    EXPECT_CONTAINS(es_status_detail(), "something else of that name");
    EXPECT_STATUS(es_folder_make(inside("a/file/under")), IO);
    int is_made = 0;
    EXPECT_STATUS(es_folder_make_new(inside("a/new"), &is_made), OK);
    EXPECT_EQ(is_made, 1);
    EXPECT_STATUS(es_folder_make_new(inside("a/new"), &is_made), OK);
    EXPECT_EQ(is_made, 0);
    EXPECT_STATUS(es_folder_make_new(inside("none/new"), &is_made), IO);
    EXPECT_STATUS(es_folder_remove(root), OK);
    EXPECT(!exists(root));
}

TEST(lists_are_sorted_and_say_what_is_there) {
    make_root();
    REQUIRE_OK(es_file_write_all(inside("b"), "12345", 5));
    REQUIRE_OK(es_folder_make(inside("c")));
    EXPECT_EQ(symlink("b", inside("a")), 0);
    for (int i = 0; i < 40; i++) { // more than the first allocation holds
        char name[16];
        snprintf(name, sizeof name, "d%02d", i);
        REQUIRE_OK(es_file_write_all(inside(name), name, 3));
    }
    EsFolderEntry *entries = NULL;
    int n = 0;
    REQUIRE_OK(es_folder_list(root, &entries, &n));
    EXPECT_EQ(n, 43);
    EXPECT_TEXT(entries[0].name, "a");
    EXPECT_EQ(entries[0].kind, ES_FOLDER_ENTRY_OTHER);
    EXPECT_EQ(entries[0].bytes, 0);
    EXPECT_EQ(entries[1].kind, ES_FOLDER_ENTRY_FILE);
    EXPECT_EQ(entries[1].bytes, 5);
    EXPECT(entries[1].changed_unix_s > 1600000000);
    EXPECT_EQ(entries[2].kind, ES_FOLDER_ENTRY_FOLDER);
    EXPECT_TEXT(entries[42].name, "d39");
    es_release(entries);
    EXPECT_STATUS(es_folder_list(inside("missing"), &entries, &n), IO);
    EXPECT_CONTAINS(es_status_detail(), "missing: No such file");
    EXPECT_STATUS(es_folder_list(inside("b"), &entries, &n), IO);
    EXPECT_STATUS(es_folder_remove(root), OK);
}

TEST(sizes_and_removal_do_not_follow_links) {
    make_root();
    REQUIRE_OK(es_folder_make(inside("outside/deep")));
    REQUIRE_OK(es_file_write_all(inside("outside/deep/precious"), "1234567890", 10));
    REQUIRE_OK(es_folder_make(inside("tree/x/y")));
    REQUIRE_OK(es_file_write_all(inside("tree/x/y/file"), "123", 3));
    REQUIRE_OK(es_file_write_all(inside("tree/file"), "12", 2));
    EXPECT_EQ(symlink("../outside", inside("tree/folder_link")), 0);
    EXPECT_EQ(symlink("../../outside/deep/precious", inside("tree/x/file_link")), 0);
    EXPECT_EQ(symlink("tree", inside("link_to_tree")), 0);
    EXPECT_EQ(mkfifo(inside("tree/pipe"), 0600), 0);

    EsFolderSize size;
    REQUIRE_OK(es_folder_measure(inside("tree"), &size));
    EXPECT_EQ(size.bytes, 5);
    EXPECT_EQ(size.n_files, 2);
    EXPECT(size.changed_unix_s > 1600000000);

    EXPECT_STATUS(es_folder_remove(inside("link_to_tree")), OK);
    EXPECT(!exists(inside("link_to_tree")));
    EXPECT(exists(inside("tree/file")));
    EXPECT_STATUS(es_folder_remove(inside("tree/file")), OK);
    EXPECT(!exists(inside("tree/file")));
    EXPECT_STATUS(es_folder_remove(inside("tree")), OK);
    EXPECT(!exists(inside("tree")));
    EXPECT(exists(inside("outside/deep/precious")));
    EXPECT_STATUS(es_folder_remove(inside("tree")), OK); // nothing is there
    EXPECT_STATUS(es_folder_remove(inside("outside/deep/precious/x")), IO);
    EXPECT_STATUS(es_folder_remove(root), OK);
}

TEST(empty_folder_has_no_size) {
    make_root();
    EsFolderSize size;
    REQUIRE_OK(es_folder_measure(root, &size));
    EXPECT_EQ(size.n_files, 0);
    EXPECT_EQ(size.changed_unix_s, 0);
    EsFolderEntry *entries = NULL;
    int n = -1;
    REQUIRE_OK(es_folder_list(root, &entries, &n));
    EXPECT_EQ(n, 0);
    es_release(entries);
    EXPECT_STATUS(es_folder_sync(root), OK);
    EXPECT_STATUS(es_folder_remove(root), OK);
    EXPECT_STATUS(es_folder_sync(root), IO);
}
