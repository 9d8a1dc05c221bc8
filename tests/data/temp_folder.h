// A folder of a test's own, with a few files in it: written, damaged, and removed again.
#ifndef ES_TESTS_DATA_TEMP_FOLDER_H
#define ES_TESTS_DATA_TEMP_FOLDER_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct TempFolder {
    char path[256];
} TempFolder;

static TempFolder create_temp_folder(void) {
    TempFolder folder;
    const char *base = getenv("TMPDIR");
    snprintf(folder.path, sizeof folder.path, "%s/esper-data-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder.path) == NULL) {
        perror(folder.path);
        exit(1);
    }
    return folder;
}

static void write_file(const TempFolder *folder, const char *name, const uint8_t *bytes,
                       size_t n_bytes) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(bytes, 1, n_bytes, stream) != n_bytes || fclose(stream) != 0) {
        perror(path);
        exit(1);
    }
}

static void remove_file(const TempFolder *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    remove(path);
}

// Remove the folder and the plain files and empty folders in it.
static void remove_temp_folder(const TempFolder *folder) {
    DIR *directory = opendir(folder->path);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            remove_file(folder, entry->d_name);
        }
    }
    closedir(directory);
    rmdir(folder->path);
}

// Open file descriptors of this process, to see that none is leaked.
static int count_open_files(void) {
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory != NULL && readdir(directory) != NULL) {
        n++;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return n;
}

#endif
