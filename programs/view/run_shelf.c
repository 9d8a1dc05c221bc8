// Finding runs, and noticing changes by size and time of run.db and its log: SQLite writes one of
// them with every commit, so that no database has to be opened to know.
#include "view/run_shelf.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "base/memory.h"
#include "telemetry/text.h"
#include "view/run_view.h"

typedef struct ShelfRun {
    char *path;       // owned
    uint64_t mark;    // of its files
    uint64_t changes; // seen so far
} ShelfRun;

// The file system may be slow: it is asked without `lock`, which those who answer take. Who holds
// `scanning` alone changes runs, with `lock`, and may read them without.
struct EsRunShelf {
    char path[4096];
    pthread_mutex_t scanning;
    pthread_mutex_t lock; // guards what follows
    ShelfRun runs[ES_SHELF_MAX_RUNS];
    int n_runs;
    uint64_t n_changes;
};

static int join(char joined[4096], const char *folder, const char *name) {
    int length = snprintf(joined, 4096, "%s/%s", folder, name);
    return length > 0 && length < 4096;
}

static uint64_t add_to_mark(uint64_t mark, const struct stat *info) {
    const uint64_t parts[] = {(uint64_t)info->st_size, (uint64_t)info->st_mtim.tv_sec,
                              (uint64_t)info->st_mtim.tv_nsec, (uint64_t)info->st_ino};
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        mark = (mark ^ parts[i]) * 0x100000001b3u;
    }
    return mark;
}

// A number that changes with run.db and its log; 0 when there is no database.
static uint64_t mark_of(const char *run) {
    char path[4096];
    struct stat info;
    if (!join(path, run, "run.db") || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return 0;
    }
    uint64_t mark = add_to_mark(0xcbf29ce484222325u, &info);
    if (join(path, run, "run.db-wal") && stat(path, &info) == 0) {
        mark = add_to_mark(mark, &info);
    }
    return mark | 1;
}

// `scanning` is held here and in what calls this.
static EsStatus add_run(EsRunShelf *shelf, const char *path, uint64_t mark) {
    if (mark == 0 || shelf->n_runs == ES_SHELF_MAX_RUNS) {
        return ES_STATUS_OK;
    }
    for (int i = 0; i < shelf->n_runs; i++) {
        if (strcmp(shelf->runs[i].path, path) == 0) {
            return ES_STATUS_OK;
        }
    }
    ShelfRun run = {.mark = mark, .changes = 1};
    size_t bytes = strlen(path) + 1;
    ES_TRY(es_allocate(bytes, (void **)&run.path));
    memcpy(run.path, path, bytes);
    pthread_mutex_lock(&shelf->lock);
    shelf->runs[shelf->n_runs++] = run;
    shelf->n_changes++;
    pthread_mutex_unlock(&shelf->lock);
    return ES_STATUS_OK;
}

// Runs below a folder, by name, `depth` levels down.
static EsStatus scan(EsRunShelf *shelf, const char *folder, int depth) {
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, NULL, alphasort);
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat info;
        if (entries[i]->d_name[0] != '.' && status == ES_STATUS_OK &&
            join(path, folder, entries[i]->d_name) && stat(path, &info) == 0 &&
            S_ISDIR(info.st_mode)) {
            uint64_t mark = mark_of(path);
            status = mark != 0   ? add_run(shelf, path, mark)
                     : depth > 1 ? scan(shelf, path, depth - 1)
                                 : ES_STATUS_OK;
        }
    }
    for (int i = 0; i < n; i++) {
        free(entries[i]);
    }
    free(entries);
    return status;
}

static EsStatus refresh(EsRunShelf *shelf) {
    for (int i = 0; i < shelf->n_runs; i++) {
        uint64_t mark = mark_of(shelf->runs[i].path);
        if (mark != 0 && mark != shelf->runs[i].mark) {
            pthread_mutex_lock(&shelf->lock);
            shelf->runs[i].mark = mark;
            shelf->runs[i].changes++;
            shelf->n_changes++;
            pthread_mutex_unlock(&shelf->lock);
        }
    }
    uint64_t mark = mark_of(shelf->path);
    return mark != 0 ? add_run(shelf, shelf->path, mark) : scan(shelf, shelf->path, 2);
}

EsStatus es_run_shelf_refresh(EsRunShelf *shelf, uint64_t *n_changes) {
    pthread_mutex_lock(&shelf->scanning);
    EsStatus status = refresh(shelf);
    *n_changes = shelf->n_changes;
    pthread_mutex_unlock(&shelf->scanning);
    return status;
}

EsStatus es_run_shelf_open(const char *path, EsRunShelf **shelf) {
    EsRunShelf *made = NULL;
    uint64_t n_changes;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    pthread_mutex_init(&made->scanning, NULL);
    pthread_mutex_init(&made->lock, NULL);
    snprintf(made->path, sizeof made->path, "%s", path);
    for (size_t n = strlen(made->path); n > 1 && made->path[n - 1] == '/'; n--) {
        made->path[n - 1] = '\0';
    }
    EsStatus status = es_run_shelf_refresh(made, &n_changes);
    if (status == ES_STATUS_OK && made->n_runs == 0) {
        status = ES_FAIL(INPUT, "%s: neither a run with a run.db nor a folder of such runs", path);
    }
    if (status != ES_STATUS_OK) {
        es_run_shelf_close(made);
        return status;
    }
    *shelf = made;
    return ES_STATUS_OK;
}

void es_run_shelf_close(EsRunShelf *shelf) {
    if (shelf != NULL) {
        for (int i = 0; i < shelf->n_runs; i++) {
            es_release(shelf->runs[i].path);
        }
        pthread_mutex_destroy(&shelf->lock);
        pthread_mutex_destroy(&shelf->scanning);
        es_release(shelf);
    }
}

int es_run_shelf_count(EsRunShelf *shelf) {
    pthread_mutex_lock(&shelf->lock);
    int n = shelf->n_runs;
    pthread_mutex_unlock(&shelf->lock);
    return n;
}

int es_run_shelf_path(EsRunShelf *shelf, int index, char path[4096]) {
    pthread_mutex_lock(&shelf->lock);
    int is_found = index >= 0 && index < shelf->n_runs;
    if (is_found) {
        snprintf(path, 4096, "%s", shelf->runs[index].path);
    }
    pthread_mutex_unlock(&shelf->lock);
    return is_found;
}

json_t *es_run_shelf_list(EsRunShelf *shelf) {
    json_t *list = json_array();
    pthread_mutex_lock(&shelf->lock);
    size_t n_root = strlen(shelf->path);
    for (int i = 0; i < shelf->n_runs; i++) {
        const ShelfRun *run = &shelf->runs[i];
        // below the folder by its path there, alone by its own name
        const char *slash = strrchr(run->path, '/');
        const char *name = run->path[n_root] == '/' ? run->path + n_root + 1
                           : slash != NULL          ? slash + 1
                                                    : run->path;
        json_array_append_new(list, json_pack("{s:i, s:o, s:I}", "id", i, "name",
                                              es_text_json(name, strlen(name)), "changes",
                                              (json_int_t)run->changes));
    }
    pthread_mutex_unlock(&shelf->lock);
    return list;
}
