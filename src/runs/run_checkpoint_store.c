#include "runs/run_checkpoint_store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/file_fault.h"
#include "base/folder.h"
#include "base/sha256.h"

// marks hold names, hashes and counters; more than this is no mark of ours
#define MAX_JSON_BYTES ((size_t)64 << 20)

void es_checkpoint_store_path(const char *root, int64_t round, const char *name,
                              char path[ES_RUN_PATH_BYTES]) {
    int length = snprintf(path, ES_RUN_PATH_BYTES, "%s/checkpoints/%lld%s%s", root,
                          (long long)round, name[0] != '\0' ? "/" : "", name);
    ES_ASSERT(length > 0 && length < ES_RUN_PATH_BYTES);
}

// --- JSON ---

EsStatus es_checkpoint_store_load(const char *path, json_t **object) {
    *object = NULL;
    void *text = NULL;
    size_t bytes = 0;
    json_error_t error;
    ES_TRY(es_file_read_all(path, MAX_JSON_BYTES, &text, &bytes));
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    es_release(text);
    if (!json_is_object(value)) {
        json_decref(value);
        return ES_FAIL(INPUT, "%s is not a JSON object", path);
    }
    *object = value;
    return ES_STATUS_OK;
}

EsStatus es_checkpoint_store_save(const char *path, json_t *object) {
    char *text = object != NULL ? json_dumps(object, JSON_INDENT(2)) : NULL;
    json_decref(object);
    if (text == NULL) {
        return ES_FAIL(MEMORY, "not enough memory to write %s", path);
    }
    size_t bytes = strlen(text);
    text[bytes] = '\n'; // in place of the end: the file has none
    EsStatus status = es_file_write_all(path, text, bytes + 1);
    free(text);
    return status;
}

json_t *es_checkpoint_store_pack_real(double value) {
    char bits[17];
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    snprintf(bits, sizeof bits, "%016llx", (unsigned long long)word);
    return json_pack("{s:o, s:s}", "real", isfinite(value) ? json_real(value) : json_null(), "bits",
                     bits);
}

int es_checkpoint_store_unpack_real(const json_t *packed, double *value) {
    const char *bits = json_string_value(json_object_get(packed, "bits"));
    if (bits == NULL || strlen(bits) != 16 || strspn(bits, "0123456789abcdef") != 16) {
        return 0;
    }
    uint64_t word = strtoull(bits, NULL, 16);
    memcpy(value, &word, sizeof *value);
    return 1;
}

// --- checking ---

// A whole number of the object; -1, which none of them may be, when there is none.
static int64_t number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

// Present, regular, of that size (-1: any) and, unless NULL, of that hash.
static EsStatus check_file(const char *path, int64_t bytes, const char *sha256) {
    struct stat facts;
    if (lstat(path, &facts) != 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? ES_FAIL(INPUT, "%s is missing", path)
                   : ES_FAIL(IO, "cannot look at %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(facts.st_mode)) {
        return ES_FAIL(INPUT, "%s is not a regular file", path);
    }
    if (bytes >= 0 && facts.st_size != bytes) {
        return ES_FAIL(INPUT, "%s has %lld bytes, not %lld", path, (long long)facts.st_size,
                       (long long)bytes);
    }
    if (sha256 != NULL) {
        char found[ES_SHA256_TEXT_BYTES];
        ES_TRY(es_sha256_file(path, found, NULL));
        if (strcmp(found, sha256) != 0) {
            return ES_FAIL(INPUT, "%s is not what was written: its SHA-256 differs", path);
        }
    }
    return ES_STATUS_OK;
}

// One entry of a mark's list of files.
static EsStatus check_entry(const char *root, int64_t round, const char *mark_path,
                            const json_t *entry, int with_hashes, json_t *names, int64_t *bytes) {
    char path[ES_RUN_PATH_BYTES];
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *sha256 = json_string_value(json_object_get(entry, "sha256"));
    int64_t size = number_of(entry, "bytes");
    // a name from outside must not lead out of the folder
    if (name == NULL || name[0] == '\0' || strlen(name) >= ES_FILE_NAME_BYTES ||
        strchr(name, '/') != NULL || strcmp(name, "..") == 0 || sha256 == NULL || size < 0) {
        return ES_FAIL(INPUT, "%s lists a file without a proper name, size or hash", mark_path);
    }
    if (json_object_get(names, name) != NULL) {
        return ES_FAIL(INPUT, "%s lists %s, which is listed before", mark_path, name);
    }
    if (json_object_set_new(names, name, json_true()) != 0) {
        return ES_FAIL(MEMORY, "not enough memory to check %s", mark_path);
    }
    es_checkpoint_store_path(root, round, name, path);
    ES_TRY(check_file(path, size, with_hashes ? sha256 : NULL));
    *bytes += size;
    return ES_STATUS_OK;
}

EsStatus es_checkpoint_store_check_mark(const char *root, int64_t round, int rank, int n_ranks,
                                        int with_hashes, json_t *names, int64_t *bytes) {
    char path[ES_RUN_PATH_BYTES], name[32];
    snprintf(name, sizeof name, "rank%d.json", rank);
    es_checkpoint_store_path(root, round, name, path);
    ES_TRY(check_file(path, -1, NULL));
    json_t *mark = NULL;
    ES_TRY(es_checkpoint_store_load(path, &mark));
    EsStatus status = ES_STATUS_OK;
    const json_t *files = json_object_get(mark, "files");
    if (number_of(mark, "schema") != ES_CHECKPOINT_SCHEMA || number_of(mark, "round") != round ||
        number_of(mark, "rank") != rank || number_of(mark, "n_ranks") != n_ranks ||
        !json_is_array(files) || !json_is_object(json_object_get(mark, "values"))) {
        status = ES_FAIL(INPUT, "%s is not the mark of rank %d of %d for round %lld", path, rank,
                         n_ranks, (long long)round);
    }
    for (size_t i = 0; i < json_array_size(files) && status == ES_STATUS_OK; i++) {
        status =
            check_entry(root, round, path, json_array_get(files, i), with_hashes, names, bytes);
    }
    json_decref(mark);
    return status;
}

// The hash in DONE against manifest.json, which is loaded.
static EsStatus load_manifest(const char *root, int64_t round, json_t **manifest) {
    char path[ES_RUN_PATH_BYTES], expected[ES_SHA256_TEXT_BYTES + 1] = "";
    void *text = NULL;
    size_t bytes = 0;
    es_checkpoint_store_path(root, round, "DONE", path);
    ES_TRY(check_file(path, ES_SHA256_TEXT_BYTES, NULL)); // the digits and a newline
    ES_TRY(es_file_read_all(path, ES_SHA256_TEXT_BYTES, &text, &bytes));
    memcpy(expected, text, ES_MIN(bytes, (size_t)ES_SHA256_TEXT_BYTES - 1));
    es_release(text);
    es_checkpoint_store_path(root, round, "manifest.json", path);
    ES_TRY(check_file(path, -1, expected));
    return es_checkpoint_store_load(path, manifest);
}

static EsStatus check_marks(const char *root, int64_t round, int with_hashes,
                            const json_t *manifest, EsStoredCheckpoint *found) {
    char path[ES_RUN_PATH_BYTES], name[32];
    const json_t *marks = json_object_get(manifest, "marks");
    int64_t n_ranks = number_of(manifest, "n_ranks");
    if (number_of(manifest, "schema") != ES_CHECKPOINT_SCHEMA ||
        number_of(manifest, "round") != round || n_ranks < 1 || n_ranks > INT32_MAX ||
        json_array_size(marks) != (size_t)n_ranks ||
        !es_checkpoint_store_unpack_real(json_object_get(manifest, "score"), &found->info.score)) {
        es_checkpoint_store_path(root, round, "manifest.json", path);
        return ES_FAIL(INPUT, "%s is not the manifest of round %lld", path, (long long)round);
    }
    found->n_ranks = (int)n_ranks;
    json_t *names = json_object();
    EsStatus status = ES_STATUS_OK;
    for (int rank = 0; rank < (int)n_ranks; rank++) {
        const char *sha256 = json_string_value(json_array_get(marks, (size_t)rank));
        snprintf(name, sizeof name, "rank%d.json", rank);
        es_checkpoint_store_path(root, round, name, path);
        ES_TRY_GOTO(check_file(path, -1, sha256 != NULL ? sha256 : ""));
        ES_TRY_GOTO(es_checkpoint_store_check_mark(root, round, rank, (int)n_ranks, with_hashes,
                                                   names, &found->info.bytes));
    }
done:
    json_decref(names);
    return status;
}

static int has_done(const char *root, int64_t round) {
    char path[ES_RUN_PATH_BYTES];
    struct stat facts;
    es_checkpoint_store_path(root, round, "DONE", path);
    return lstat(path, &facts) == 0;
}

EsStatus es_checkpoint_store_check(const char *root, int64_t round, int with_hashes,
                                   EsStoredCheckpoint *found) {
    memset(found, 0, sizeof *found);
    found->info.round = round;
    found->has_done = has_done(root, round);
    if (!found->has_done) {
        snprintf(found->problem, sizeof found->problem, "it was not finished");
        return ES_STATUS_OK;
    }
    json_t *manifest = NULL;
    EsStatus status = load_manifest(root, round, &manifest);
    if (status == ES_STATUS_OK) {
        status = check_marks(root, round, with_hashes, manifest, found);
    }
    json_decref(manifest);
    // a run that is going on may remove it under our eyes: then it is gone, not unreadable
    found->has_done = status == ES_STATUS_OK || has_done(root, round);
    if (status == ES_STATUS_INPUT || !found->has_done) {
        snprintf(found->problem, sizeof found->problem, "%.*s", (int)sizeof found->problem - 1,
                 es_status_detail());
        return ES_STATUS_OK;
    }
    found->is_complete = status == ES_STATUS_OK;
    return status;
}

// --- all of them ---

static int compare_rounds(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

EsStatus es_checkpoint_store_rounds(const char *root, int64_t **rounds, int *n_rounds) {
    *rounds = NULL;
    *n_rounds = 0;
    char path[ES_RUN_PATH_BYTES];
    struct stat facts;
    int length = snprintf(path, sizeof path, "%s/checkpoints", root);
    ES_ASSERT(length > 0 && length < (int)sizeof path);
    if (stat(path, &facts) != 0 && errno == ENOENT) {
        return ES_STATUS_OK;
    }
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    ES_TRY(es_folder_list(path, &entries, &n_entries));
    EsStatus status = es_allocate(sizeof **rounds * (size_t)(n_entries + 1), (void **)rounds);
    for (int i = 0; i < n_entries && status == ES_STATUS_OK; i++) {
        const char *name = entries[i].name;
        char spelled[32];
        long long round = strtoll(name, NULL, 10);
        snprintf(spelled, sizeof spelled, "%lld", round);
        // only what we would write ourselves: no sign, no leading zero
        if (entries[i].kind == ES_FOLDER_ENTRY_FOLDER && round >= 0 && strcmp(spelled, name) == 0) {
            (*rounds)[(*n_rounds)++] = round;
        }
    }
    es_release(entries);
    if (status == ES_STATUS_OK) {
        qsort(*rounds, (size_t)*n_rounds, sizeof **rounds, compare_rounds);
    }
    return status;
}

EsStatus es_checkpoint_store_list(const char *root, EsCheckpointInfo **infos, int *n_infos) {
    *infos = NULL;
    *n_infos = 0;
    int64_t *rounds = NULL;
    int n_rounds = 0, best = -1;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_checkpoint_store_rounds(root, &rounds, &n_rounds));
    ES_TRY_GOTO(es_allocate(sizeof **infos * (size_t)(n_rounds + 1), (void **)infos));
    for (int i = 0; i < n_rounds; i++) {
        EsStoredCheckpoint found;
        ES_TRY_GOTO(es_checkpoint_store_check(root, rounds[i], 0, &found));
        if (found.is_complete) {
            double score = found.info.score;
            if (!isnan(score) && (best < 0 || score >= (*infos)[best].score)) {
                best = *n_infos;
            }
            (*infos)[(*n_infos)++] = found.info;
        }
    }
    if (best >= 0) {
        (*infos)[best].is_best = 1;
    }
done:
    es_release(rounds);
    if (status != ES_STATUS_OK) {
        es_release(*infos);
        *infos = NULL;
        *n_infos = 0;
    }
    return status;
}

// --- removing ---

EsStatus es_checkpoint_store_remove(const char *root, int64_t round) {
    char path[ES_RUN_PATH_BYTES];
    es_checkpoint_store_path(root, round, "DONE", path);
    if (es_system_remove(AT_FDCWD, path, 0) != 0 && errno != ENOENT) {
        return ES_FAIL(IO, "cannot remove %s: %s", path, strerror(errno));
    }
    es_checkpoint_store_path(root, round, "", path);
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_folder_sync(path));
    return es_folder_remove(path);
}

EsStatus es_checkpoint_store_remove_strays(const char *folder) {
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    ES_TRY(es_folder_list(folder, &entries, &n_entries));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_entries && status == ES_STATUS_OK; i++) {
        char path[ES_RUN_PATH_BYTES];
        int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i].name);
        if (entries[i].kind == ES_FOLDER_ENTRY_FILE && es_file_is_temporary(entries[i].name) &&
            length < (int)sizeof path && es_system_remove(AT_FDCWD, path, 0) != 0 &&
            errno != ENOENT) {
            status = ES_FAIL(IO, "cannot remove %s: %s", path, strerror(errno));
        }
    }
    es_release(entries);
    return status;
}
