// A folder of the running test's own: made when a path in it is first asked for, removed with all
// that is in it when the test ends. A test that ends its process leaves it, to be looked at.
//
//     REQUIRE_OK(es_policy_save(policy, temp_path("policy.safetensors")));
#ifndef ES_TEMP_FOLDER_H
#define ES_TEMP_FOLDER_H

#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/memory.h"
#include "es_test.h"

typedef struct TempPath {
    struct TempPath *next;
    char text[];
} TempPath;

static char temp_root[256];      // empty while no path has been asked for
static TempPath *temp_path_last; // all paths of this test, newest first

static inline void remove_temp_folder(void) {
    EXPECT_STATUS(es_folder_remove(temp_root), OK);
    temp_root[0] = '\0';
    es_test_cleanup = NULL;
    for (TempPath *path; (path = temp_path_last) != NULL;) {
        temp_path_last = path->next;
        free(path);
    }
}

// Make the folder under `base`; for a test that wants it elsewhere than in $TMPDIR or /tmp.
static inline void make_temp_folder(const char *base) {
    snprintf(temp_root, sizeof temp_root, "%s/esper-test-XXXXXX", base);
    if (mkdtemp(temp_root) == NULL) {
        perror(temp_root);
        exit(1);
    }
    es_test_cleanup = remove_temp_folder;
}

static inline const char *temp_folder(void) {
    if (temp_root[0] == '\0') {
        const char *base = getenv("TMPDIR");
        make_temp_folder(base != NULL ? base : "/tmp");
    }
    return temp_root;
}

// The path of that name in the folder; valid until the test ends.
static inline const char *temp_path(const char *name) {
    size_t bytes = strlen(temp_folder()) + strlen(name) + 2;
    TempPath *path = malloc(sizeof *path + bytes);
    snprintf(path->text, bytes, "%s/%s", temp_root, name);
    path->next = temp_path_last;
    temp_path_last = path;
    return path->text;
}

// Empty the folder; paths in it stay valid.
static inline void clear_temp_folder(void) {
    REQUIRE_OK(es_folder_remove(temp_folder()));
    EXPECT_EQ(mkdir(temp_root, 0700), 0);
}

// Write a file in the folder; returns its path.
static inline const char *write_temp_file(const char *name, const void *bytes, size_t n_bytes) {
    const char *path = temp_path(name);
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(bytes, 1, n_bytes, stream) != n_bytes || fclose(stream) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

static inline const char *write_temp_text(const char *name, const char *text) {
    return write_temp_file(name, text, strlen(text));
}

// Names in a folder.
static inline int count_names(const char *path) {
    EsFolderEntry *entries = NULL;
    int n = 0;
    REQUIRE_OK(es_folder_list(path, &entries, &n));
    es_release(entries);
    return n;
}

// Open file descriptors of this process, to see that none is leaked.
static inline int count_open_files(void) { return count_names("/proc/self/fd"); }

#endif
