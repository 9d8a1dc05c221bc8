// Folders: made, listed, measured and removed, with links that must not be followed.
#include "base/folder.h"

#include "base/file.h"
#include "temp_folder.h"

static int exists(const char *path) {
    struct stat facts;
    return lstat(path, &facts) == 0;
}

TEST(parents_are_made) {
    EXPECT_STATUS(es_folder_make(temp_path("a//b/c/")), OK);
    EXPECT(exists(temp_path("a/b/c")));
    EXPECT_STATUS(es_folder_make(temp_path("a/b/c")), OK);
    REQUIRE_OK(es_file_write_all(temp_path("a/file"), "x", 1));
    EXPECT_STATUS(es_folder_make(temp_path("a/file")), IO);
    EXPECT_CONTAINS(es_status_detail(), "something else of that name");
    EXPECT_STATUS(es_folder_make(temp_path("a/file/under")), IO);
    int is_made = 0;
    EXPECT_STATUS(es_folder_make_new(temp_path("a/new"), &is_made), OK);
    EXPECT_EQ(is_made, 1);
    EXPECT_STATUS(es_folder_make_new(temp_path("a/new"), &is_made), OK);
    EXPECT_EQ(is_made, 0);
    EXPECT_STATUS(es_folder_make_new(temp_path("none/new"), &is_made), IO);
    EXPECT_STATUS(es_folder_remove(temp_folder()), OK);
    EXPECT(!exists(temp_folder()));
}

TEST(lists_are_sorted_and_say_what_is_there) {
    REQUIRE_OK(es_file_write_all(temp_path("b"), "12345", 5));
    REQUIRE_OK(es_folder_make(temp_path("c")));
    EXPECT_EQ(symlink("b", temp_path("a")), 0);
    for (int i = 0; i < 40; i++) { // more than the first allocation holds
        char name[16];
        snprintf(name, sizeof name, "d%02d", i);
        REQUIRE_OK(es_file_write_all(temp_path(name), name, 3));
    }
    EsFolderEntry *entries = NULL;
    int n = 0;
    REQUIRE_OK(es_folder_list(temp_folder(), &entries, &n));
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
    EXPECT_STATUS(es_folder_list(temp_path("missing"), &entries, &n), IO);
    EXPECT_CONTAINS(es_status_detail(), "missing: No such file");
    EXPECT_STATUS(es_folder_list(temp_path("b"), &entries, &n), IO);
}

TEST(sizes_and_removal_do_not_follow_links) {
    REQUIRE_OK(es_folder_make(temp_path("outside/deep")));
    REQUIRE_OK(es_file_write_all(temp_path("outside/deep/precious"), "1234567890", 10));
    REQUIRE_OK(es_folder_make(temp_path("tree/x/y")));
    REQUIRE_OK(es_file_write_all(temp_path("tree/x/y/file"), "123", 3));
    REQUIRE_OK(es_file_write_all(temp_path("tree/file"), "12", 2));
    EXPECT_EQ(symlink("../outside", temp_path("tree/folder_link")), 0);
    EXPECT_EQ(symlink("../../outside/deep/precious", temp_path("tree/x/file_link")), 0);
    EXPECT_EQ(symlink("tree", temp_path("link_to_tree")), 0);
    EXPECT_EQ(mkfifo(temp_path("tree/pipe"), 0600), 0);

    EsFolderSize size;
    REQUIRE_OK(es_folder_measure(temp_path("tree"), &size));
    EXPECT_EQ(size.bytes, 5);
    EXPECT_EQ(size.n_files, 2);
    EXPECT(size.changed_unix_s > 1600000000);

    EXPECT_STATUS(es_folder_remove(temp_path("link_to_tree")), OK);
    EXPECT(!exists(temp_path("link_to_tree")));
    EXPECT(exists(temp_path("tree/file")));
    EXPECT_STATUS(es_folder_remove(temp_path("tree/file")), OK);
    EXPECT(!exists(temp_path("tree/file")));
    EXPECT_STATUS(es_folder_remove(temp_path("tree")), OK);
    EXPECT(!exists(temp_path("tree")));
    EXPECT(exists(temp_path("outside/deep/precious")));
    EXPECT_STATUS(es_folder_remove(temp_path("tree")), OK); // nothing is there
    EXPECT_STATUS(es_folder_remove(temp_path("outside/deep/precious/x")), IO);
}

TEST(empty_folder_has_no_size) {
    EsFolderSize size;
    REQUIRE_OK(es_folder_measure(temp_folder(), &size));
    EXPECT_EQ(size.n_files, 0);
    EXPECT_EQ(size.changed_unix_s, 0);
    EsFolderEntry *entries = NULL;
    int n = -1;
    REQUIRE_OK(es_folder_list(temp_folder(), &entries, &n));
    EXPECT_EQ(n, 0);
    es_release(entries);
    EXPECT_STATUS(es_folder_sync(temp_folder()), OK);
    EXPECT_STATUS(es_folder_remove(temp_folder()), OK);
    EXPECT_STATUS(es_folder_sync(temp_folder()), IO);
}
