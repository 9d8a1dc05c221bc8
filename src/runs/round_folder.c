// Checking the chain of hashes from DONE to the files of a round, backing damaged folders up, and
// removing by name.
#include "runs/round_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/file_fault.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/memory.h"
#include "esper/log.h"

// marks hold names, hashes and counters; more than this is no mark of ours
#define MAX_JSON_BYTES ((size_t)64 << 20)

// The sign of a checkpoint that is being written or removed: a line with the round, then a line for
// each file. No folder of ours is without both this and DONE: it is there before the folder gets
// its name, and goes after everything else.
#define WRITING_NAME      "WRITING"
#define WRITING_FORMAT    "esper checkpoint %lld\n"
#define MAX_WRITING_BYTES ((size_t)1 << 20)

// backups of one reason and round
#define MAX_BACKUPS 10000

void es_round_folder_path(const char *root, int64_t round, const char *name,
                          char path[ES_RUN_PATH_BYTES]) {
    int length = snprintf(path, ES_RUN_PATH_BYTES, "%s/checkpoints/%lld%s%s", root,
                          (long long)round, name[0] != '\0' ? "/" : "", name);
    ES_ASSERT(length > 0 && length < ES_RUN_PATH_BYTES);
}

// --- JSON ---

EsStatus es_round_folder_load(const char *path, json_t **object) {
    *object = NULL;
    void *text = NULL;
    size_t bytes = 0;
    json_error_t error;
    ES_TRY(es_file_read_all(path, MAX_JSON_BYTES, &text, &bytes));
    json_t *value = NULL;
    EsStatus status = es_json_parse(path, text, bytes, &value, &error);
    es_release(text);
    if (status == ES_STATUS_MEMORY) {
        return status;
    }
    if (!json_is_object(value)) {
        json_decref(value);
        return ES_FAIL(INPUT, "%s is not a JSON object", path);
    }
    *object = value;
    return ES_STATUS_OK;
}

EsStatus es_round_folder_save(const char *path, json_t *object) {
    char *text = NULL;
    ES_TRY(es_json_dump(path, object, JSON_INDENT(2), &text));
    size_t bytes = strlen(text);
    text[bytes] = '\n'; // in place of the end: the file has none
    EsStatus status = es_file_write_all(path, text, bytes + 1);
    free(text);
    return status;
}

json_t *es_round_folder_pack_real(double value) {
    char bits[17];
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    snprintf(bits, sizeof bits, "%016llx", (unsigned long long)word);
    return json_pack("{s:o, s:s}", "real", isfinite(value) ? json_real(value) : json_null(), "bits",
                     bits);
}

int es_round_folder_unpack_real(const json_t *packed, double *value) {
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
    struct stat info;
    if (lstat(path, &info) != 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? ES_FAIL(INPUT, "%s is missing", path)
                   : ES_FAIL(IO, "cannot look at %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return ES_FAIL(INPUT, "%s is not a regular file", path);
    }
    if (bytes >= 0 && info.st_size != bytes) {
        return ES_FAIL(INPUT, "%s has %lld bytes, not %lld", path, (long long)info.st_size,
                       (long long)bytes);
    }
    if (sha256 != NULL) {
        char found[ES_SHA256_TEXT_BYTES];
        ES_TRY(es_sha256_file(path, found, NULL));
        if (strcmp(found, sha256) != 0) {
            return ES_FAIL(INPUT, "%s was changed after it was written: its SHA-256 differs", path);
        }
    }
    return ES_STATUS_OK;
}

// The file's name in an entry of a mark's list; NULL when it has none that is proper: a name from
// outside must not lead out of the folder.
static const char *entry_name(const json_t *entry) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    return name == NULL || name[0] == '\0' || strlen(name) >= ES_FILE_NAME_BYTES ||
                   strchr(name, '/') != NULL || strcmp(name, "..") == 0 || strcmp(name, ".") == 0
               ? NULL
               : name;
}

// One entry of a mark's list of files.
static EsStatus check_entry(const char *root, int64_t round, const char *mark_path,
                            const json_t *entry, int with_hashes, json_t *names, int64_t *bytes,
                            int *is_damaged) {
    char path[ES_RUN_PATH_BYTES];
    const char *name = entry_name(entry);
    const char *sha256 = json_string_value(json_object_get(entry, "sha256"));
    int64_t size = number_of(entry, "bytes");
    if (name == NULL || sha256 == NULL || size < 0 || size > INT64_MAX - *bytes) {
        return ES_FAIL(INPUT, "%s lists a file without a proper name, size or hash", mark_path);
    }
    if (json_object_get(names, name) != NULL) {
        return ES_FAIL(INPUT, "%s lists %s, which is listed before", mark_path, name);
    }
    if (json_object_set_new(names, name, json_true()) != 0) {
        return ES_FAIL(MEMORY, "not enough memory to check %s", mark_path);
    }
    es_round_folder_path(root, round, name, path);
    EsStatus status = check_file(path, size, with_hashes ? sha256 : NULL);
    *is_damaged = status == ES_STATUS_INPUT;
    *bytes += size;
    return status;
}

static EsStatus check_schema(const char *path, const json_t *object) {
    int64_t schema = number_of(object, "schema");
    if (schema > ES_CHECKPOINT_SCHEMA) {
        return ES_FAIL(INPUT,
                       "%s has schema %lld; this program reads schemas 1 to %d: go on with the "
                       "program that wrote it",
                       path, (long long)schema, ES_CHECKPOINT_SCHEMA);
    }
    return schema >= 1 ? ES_STATUS_OK : ES_FAIL(INPUT, "%s has no schema", path);
}

static EsStatus check_mark_files(const char *root, int64_t round, int rank, int n_ranks,
                                 int with_hashes, const char *path, const json_t *mark,
                                 json_t *names, int64_t *bytes, int *is_damaged) {
    const json_t *files = json_object_get(mark, "files");
    ES_TRY(check_schema(path, mark));
    if (number_of(mark, "round") != round || number_of(mark, "rank") != rank ||
        number_of(mark, "n_ranks") != n_ranks || !json_is_array(files) ||
        !json_is_object(json_object_get(mark, "values"))) {
        return ES_FAIL(INPUT, "%s is not the mark of rank %d of %d for round %lld", path, rank,
                       n_ranks, (long long)round);
    }
    for (size_t i = 0; i < json_array_size(files); i++) {
        ES_TRY(check_entry(root, round, path, json_array_get(files, i), with_hashes, names, bytes,
                           is_damaged));
    }
    return ES_STATUS_OK;
}

EsStatus es_round_folder_check_mark(const char *root, int64_t round, int rank, int n_ranks,
                                    int with_hashes, json_t *names, int64_t *bytes,
                                    int *is_damaged) {
    char path[ES_RUN_PATH_BYTES], name[32];
    snprintf(name, sizeof name, "rank%d.json", rank);
    es_round_folder_path(root, round, name, path);
    EsStatus status = check_file(path, -1, NULL);
    *is_damaged = status == ES_STATUS_INPUT;
    ES_TRY(status);
    json_t *mark = NULL;
    ES_TRY(es_round_folder_load(path, &mark));
    status = check_mark_files(root, round, rank, n_ranks, with_hashes, path, mark, names, bytes,
                              is_damaged);
    json_decref(mark);
    return status;
}

// The hash in DONE against manifest.json, which is loaded.
static EsStatus load_manifest(const char *root, int64_t round, json_t **manifest, int *is_damaged) {
    char path[ES_RUN_PATH_BYTES], expected[ES_SHA256_TEXT_BYTES + 1] = "";
    void *text = NULL;
    size_t bytes = 0;
    es_round_folder_path(root, round, "DONE", path);
    EsStatus status = check_file(path, ES_SHA256_TEXT_BYTES, NULL); // the digits and a newline
    if (status == ES_STATUS_OK) {
        ES_TRY(es_file_read_all(path, ES_SHA256_TEXT_BYTES, &text, &bytes));
        memcpy(expected, text, ES_MIN(bytes, (size_t)ES_SHA256_TEXT_BYTES - 1));
        es_release(text);
        es_round_folder_path(root, round, "manifest.json", path);
        status = check_file(path, -1, expected);
    }
    *is_damaged = status == ES_STATUS_INPUT;
    ES_TRY(status);
    return es_round_folder_load(path, manifest);
}

static EsStatus check_marks(const char *root, int64_t round, int with_hashes,
                            const json_t *manifest, EsRoundFolder *found, int *is_damaged) {
    char path[ES_RUN_PATH_BYTES], name[32];
    const json_t *marks = json_object_get(manifest, "marks");
    int64_t n_ranks = number_of(manifest, "n_ranks");
    es_round_folder_path(root, round, "manifest.json", path);
    ES_TRY(check_schema(path, manifest));
    if (number_of(manifest, "round") != round || n_ranks < 1 || n_ranks > INT32_MAX ||
        json_array_size(marks) != (size_t)n_ranks ||
        !es_round_folder_unpack_real(json_object_get(manifest, "score"), &found->info.score)) {
        return ES_FAIL(INPUT, "%s is not the manifest of round %lld", path, (long long)round);
    }
    found->n_ranks = (int)n_ranks;
    json_t *names = json_object();
    EsStatus status = ES_STATUS_OK;
    if (names == NULL) {
        return ES_FAIL(MEMORY, "not enough memory to check %s", path);
    }
    for (int rank = 0; rank < (int)n_ranks; rank++) {
        const char *sha256 = json_string_value(json_array_get(marks, (size_t)rank));
        snprintf(name, sizeof name, "rank%d.json", rank);
        es_round_folder_path(root, round, name, path);
        status = check_file(path, -1, sha256 != NULL ? sha256 : "");
        *is_damaged = status == ES_STATUS_INPUT;
        ES_TRY_GOTO(status);
        ES_TRY_GOTO(es_round_folder_check_mark(root, round, rank, (int)n_ranks, with_hashes, names,
                                               &found->info.bytes, is_damaged));
    }
done:
    json_decref(names);
    return status;
}

// <folder>/<name>; 0 when that is too long.
static int join(const char *folder, const char *name, char path[ES_RUN_PATH_BYTES]) {
    int length = snprintf(path, ES_RUN_PATH_BYTES, "%s/%s", folder, name);
    return length > 0 && length < ES_RUN_PATH_BYTES;
}

// Read a small regular file; *text is NULL when there is none. The caller releases it.
static EsStatus read_small(const char *folder, const char *name, size_t max_bytes, char **text) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    size_t bytes = 0;
    *text = NULL;
    if (!join(folder, name, path) || lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return ES_STATUS_OK;
    }
    EsStatus status = es_file_read_all(path, max_bytes, (void **)text, &bytes);
    // too large to be ours, or gone meanwhile
    return status == ES_STATUS_INPUT || (status == ES_STATUS_IO && access(path, F_OK) != 0)
               ? ES_STATUS_OK
               : status;
}

// Checks whether the folder has a DONE of ours: the digits of a hash and a newline.
static EsStatus has_done(const char *folder, int *is_there) {
    char *text = NULL;
    ES_TRY(read_small(folder, "DONE", ES_SHA256_TEXT_BYTES, &text));
    *is_there = text != NULL && strspn(text, "0123456789abcdef") == ES_SHA256_TEXT_BYTES - 1 &&
                strcmp(text + ES_SHA256_TEXT_BYTES - 1, "\n") == 0;
    es_release(text);
    return ES_STATUS_OK;
}

// The sign of writing in a folder, NULL when there is none of this round. The caller releases it.
static EsStatus read_sign(const char *folder, int64_t round, char **sign) {
    char first[64];
    int length = snprintf(first, sizeof first, WRITING_FORMAT, (long long)round);
    ES_TRY(read_small(folder, WRITING_NAME, MAX_WRITING_BYTES, sign));
    if (*sign != NULL && strncmp(*sign, first, (size_t)length) != 0) {
        es_release(*sign);
        *sign = NULL;
    }
    return ES_STATUS_OK;
}

// Checks whether a JSON file in the folder is ours, a manifest or a mark of this round. It is
// returned, or NULL; the caller lets go of it.
static EsStatus read_ours(const char *folder, const char *name, int64_t round, json_t **object) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    *object = NULL;
    if (!join(folder, name, path) || lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return ES_STATUS_OK;
    }
    EsStatus status = es_round_folder_load(path, object);
    if (status == ES_STATUS_INPUT) {
        return ES_STATUS_OK;
    }
    ES_TRY(status);
    if (number_of(*object, "schema") < 1 || number_of(*object, "round") != round) {
        json_decref(*object);
        *object = NULL;
    }
    return ES_STATUS_OK;
}

// The state of a folder without a DONE of ours.
static EsStatus find_state_of_rest(const char *folder, EsRoundFolder *found) {
    char *sign = NULL;
    json_t *manifest = NULL;
    ES_TRY(read_sign(folder, found->info.round, &sign));
    if (sign != NULL) {
        found->condition = ES_ROUND_FOLDER_UNFINISHED;
        snprintf(found->problem, sizeof found->problem, "it was not finished");
    } else {
        ES_TRY(read_ours(folder, "manifest.json", found->info.round, &manifest));
        found->condition = manifest != NULL ? ES_ROUND_FOLDER_DAMAGED : ES_ROUND_FOLDER_ABSENT;
        snprintf(found->problem, sizeof found->problem, "%.*s", (int)sizeof found->problem - 1,
                 manifest != NULL ? "DONE is missing or damaged"
                                  : "it is not a checkpoint of ours");
    }
    es_release(sign);
    json_decref(manifest);
    return ES_STATUS_OK;
}

EsStatus es_round_folder_check(const char *root, int64_t round, int with_hashes,
                               EsRoundFolder *found) {
    char folder[ES_RUN_PATH_BYTES];
    memset(found, 0, sizeof *found);
    found->info.round = round;
    es_round_folder_path(root, round, "", folder);
    int is_done = 0, is_damaged = 0;
    ES_TRY(has_done(folder, &is_done));
    if (!is_done) {
        return find_state_of_rest(folder, found);
    }
    json_t *manifest = NULL;
    EsStatus status = load_manifest(root, round, &manifest, &is_damaged);
    if (status == ES_STATUS_OK) {
        status = check_marks(root, round, with_hashes, manifest, found, &is_damaged);
    }
    json_decref(manifest);
    if (status == ES_STATUS_OK) {
        found->condition = ES_ROUND_FOLDER_COMPLETE;
        return status;
    }
    snprintf(found->problem, sizeof found->problem, "%.*s", (int)sizeof found->problem - 1,
             es_status_detail());
    // a run that is going on may remove it under our eyes: then it is gone, not unreadable
    EsStatus looked = has_done(folder, &is_done);
    if (looked != ES_STATUS_OK || !is_done) {
        return looked != ES_STATUS_OK ? looked : find_state_of_rest(folder, found);
    }
    if (status != ES_STATUS_INPUT) {
        return es_status_set(status, __FILE__, __LINE__, "%s", found->problem);
    }
    found->condition = is_damaged ? ES_ROUND_FOLDER_DAMAGED : ES_ROUND_FOLDER_REFUSED;
    return ES_STATUS_OK;
}

// --- all of them ---

static int compare_rounds(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

EsStatus es_round_folder_rounds(const char *root, int64_t **rounds, int *n_rounds) {
    *rounds = NULL;
    *n_rounds = 0;
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    int length = snprintf(path, sizeof path, "%s/checkpoints", root);
    ES_ASSERT(length > 0 && length < (int)sizeof path);
    if (stat(path, &info) != 0 && errno == ENOENT) {
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
        // only as we would write it ourselves: no sign, no leading zero
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

EsStatus es_round_folder_list(const char *root, EsCheckpointInfo **infos, int *n_infos) {
    *infos = NULL;
    *n_infos = 0;
    int64_t *rounds = NULL;
    int n_rounds = 0, best = -1;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_round_folder_rounds(root, &rounds, &n_rounds));
    ES_TRY_GOTO(es_allocate(sizeof **infos * (size_t)(n_rounds + 1), (void **)infos));
    for (int i = 0; i < n_rounds; i++) {
        EsRoundFolder found;
        ES_TRY_GOTO(es_round_folder_check(root, rounds[i], 0, &found));
        if (found.condition == ES_ROUND_FOLDER_COMPLETE) {
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

// --- backups ---

EsStatus es_round_folder_back_up(const char *root, const EsRoundFolder *found, const char *reason) {
    char from[ES_RUN_PATH_BYTES], to[ES_RUN_PATH_BYTES], number[16] = "";
    struct stat info;
    int64_t round = found->info.round;
    es_round_folder_path(root, round, "", from);
    for (int n = 2; n <= MAX_BACKUPS; n++) {
        int length = snprintf(to, sizeof to, "%s/checkpoints/%s-%lld%s", root, reason,
                              (long long)round, number);
        ES_ASSERT(length > 0 && length < (int)sizeof to);
        if (lstat(to, &info) != 0) {
            break;
        }
        snprintf(number, sizeof number, "-%d", n);
    }
    if (es_system_rename(from, to) != 0) {
        return ES_FAIL(IO, "cannot rename %s to %s: %s", from, to, strerror(errno));
    }
    es_log(ES_LOG_WARNING, "the checkpoint of round %lld is not used, it is kept as %s: %s",
           (long long)round, to, found->problem);
    return es_folder_sync_parent(to);
}

// --- writing ---

static EsStatus write_sign(const char *folder, int64_t round, const char *names) {
    char path[ES_RUN_PATH_BYTES], first[64];
    EsFileWriter *writer = NULL;
    int length = snprintf(first, sizeof first, WRITING_FORMAT, (long long)round);
    if (!join(folder, WRITING_NAME, path)) {
        return ES_FAIL(IO, "the path %.100s... is too long", folder);
    }
    ES_TRY(es_file_writer_open(path, &writer));
    EsStatus status = es_file_writer_append(writer, first, (size_t)length);
    if (status == ES_STATUS_OK) {
        status = es_file_writer_append(writer, names, strlen(names));
    }
    if (status != ES_STATUS_OK) {
        es_file_writer_abandon(writer);
        return status;
    }
    return es_file_writer_commit(writer);
}

EsStatus es_round_folder_begin_writing(const char *root, int64_t round) {
    char fresh[ES_RUN_PATH_BYTES], path[ES_RUN_PATH_BYTES];
    int is_made = 0;
    es_round_folder_path(root, round, "", path);
    // under the name of a temporary until the sign is in it
    int length = snprintf(fresh, sizeof fresh, "%s.%ld-0.tmp", path, (long)getpid());
    ES_ASSERT(length > 0 && length < (int)sizeof fresh);
    ES_TRY(es_folder_make_new(fresh, &is_made));
    EsStatus status = write_sign(fresh, round, "");
    if (status == ES_STATUS_OK && es_system_rename(fresh, path) != 0) {
        status = ES_FAIL(IO, "cannot make the folder %s: %s", path, strerror(errno));
    }
    if (status != ES_STATUS_OK) {
        char detail[512];
        EsRunRemoval removal = {.is_preview = 0};
        snprintf(detail, sizeof detail, "%s", es_status_detail());
        // a rest is removed by the next prune
        EsStatus ignored = es_round_folder_clear(fresh, &removal);
        (void)ignored;
        return es_status_set(status, __FILE__, __LINE__, "%s", detail);
    }
    return es_folder_sync_parent(path);
}

EsStatus es_round_folder_add_name(const char *root, int64_t round, const char *name) {
    char path[ES_RUN_PATH_BYTES], line[ES_FILE_NAME_BYTES + 2];
    int length = snprintf(line, sizeof line, "%s\n", name), n_written = 0;
    es_round_folder_path(root, round, WRITING_NAME, path);
    int descriptor = es_system_open_retrying(path, O_WRONLY | O_APPEND);
    int failed = descriptor < 0;
    while (!failed && n_written < length) {
        ssize_t n = es_system_write(descriptor, line + n_written, (size_t)(length - n_written));
        n_written += n > 0 ? (int)n : 0;
        failed = n == 0 || (n < 0 && errno != EINTR);
    }
    EsStatus status =
        failed ? ES_FAIL(IO, "cannot write %s: %s", path, strerror(errno)) : ES_STATUS_OK;
    if (descriptor >= 0) {
        close(descriptor);
    }
    return status;
}

EsStatus es_round_folder_end_writing(const char *root, int64_t round) {
    char path[ES_RUN_PATH_BYTES];
    es_round_folder_path(root, round, WRITING_NAME, path);
    return es_system_remove(AT_FDCWD, path, 0) == 0 || errno == ENOENT
               ? ES_STATUS_OK
               : ES_FAIL(IO, "cannot remove %s: %s", path, strerror(errno));
}

// --- removing ---

// rank<r>.json
static int is_mark_name(const char *name) {
    size_t n_digits = strncmp(name, "rank", 4) == 0 ? strspn(name + 4, "0123456789") : 0;
    return n_digits > 0 && strcmp(name + 4 + n_digits, ".json") == 0;
}

// The round of a checkpoint's folder, from its name: <round>, damaged-<round>, damaged-<round>-<n>,
// unfinished-..., or <round>.<process>-<n>.tmp; -1 for any other.
static int64_t round_of_folder(const char *folder) {
    const char *slash = strrchr(folder, '/'), *name = slash != NULL ? slash + 1 : folder;
    int is_backup = strncmp(name, "damaged-", 8) == 0;
    name += is_backup ? 8 : 0;
    if (!is_backup && strncmp(name, "unfinished-", 11) == 0) {
        is_backup = 1;
        name += 11;
    }
    size_t n_digits = strspn(name, "0123456789");
    if (n_digits < 1 || n_digits > 18 || (name[0] == '0' && n_digits > 1)) {
        return -1;
    }
    const char *rest = name + n_digits;
    int is_numbered =
        rest[0] == '-' && rest[1] != '\0' && strspn(rest + 1, "0123456789") == strlen(rest + 1);
    return rest[0] == '\0' || (is_backup && is_numbered) ||
                   (!is_backup && es_file_is_temporary(name))
               ? strtoll(name, NULL, 10)
               : -1;
}

// Our part of a folder.
typedef struct Belongings {
    int64_t round;
    int is_done; // DONE is of ours
    char *sign;  // owned; NULL without one
    json_t *
        names; // owned, used as a set: files that the sign and marks name, and the marks themselves
} Belongings;

static void release_belongings(Belongings *ours) {
    es_release(ours->sign);
    json_decref(ours->names);
}

static EsStatus add_name(Belongings *ours, const char *name) {
    return json_object_set_new(ours->names, name, json_true()) == 0
               ? ES_STATUS_OK
               : ES_FAIL(MEMORY, "not enough memory to list the files of a checkpoint");
}

static EsStatus add_signed_names(Belongings *ours) {
    const char *line = strchr(ours->sign, '\n');
    while (line != NULL && line[1] != '\0') {
        char name[ES_FILE_NAME_BYTES];
        size_t length = strcspn(line + 1, "\n");
        if (length > 0 && length < sizeof name) {
            memcpy(name, line + 1, length);
            name[length] = '\0';
            ES_TRY(strchr(name, '/') == NULL ? add_name(ours, name) : ES_STATUS_OK);
        }
        line = strchr(line + 1, '\n');
    }
    return ES_STATUS_OK;
}

static EsStatus add_marked_names(Belongings *ours, const char *folder, const char *mark_name) {
    json_t *mark = NULL;
    ES_TRY(read_ours(folder, mark_name, ours->round, &mark));
    if (mark == NULL) {
        return ES_STATUS_OK;
    }
    const json_t *files = json_object_get(mark, "files");
    EsStatus status = add_name(ours, mark_name);
    for (size_t i = 0; i < json_array_size(files) && status == ES_STATUS_OK; i++) {
        const char *name = entry_name(json_array_get(files, i));
        status = name != NULL ? add_name(ours, name) : ES_STATUS_OK;
    }
    json_decref(mark);
    return status;
}

static EsStatus find_belongings(const char *folder, const EsFolderEntry *entries, int n_entries,
                                Belongings *ours) {
    ours->names = json_object();
    if (ours->names == NULL) {
        return ES_FAIL(MEMORY, "not enough memory to list the files of %s", folder);
    }
    ES_TRY(has_done(folder, &ours->is_done));
    ES_TRY(read_sign(folder, ours->round, &ours->sign));
    ES_TRY(ours->sign != NULL ? add_signed_names(ours) : ES_STATUS_OK);
    for (int i = 0; i < n_entries; i++) {
        if (is_mark_name(entries[i].name) || strcmp(entries[i].name, "manifest.json") == 0) {
            ES_TRY(add_marked_names(ours, folder, entries[i].name));
        }
    }
    return ES_STATUS_OK;
}

// Returns whether a temporary was to become a file of ours.
static int is_our_temporary(const Belongings *ours, const char *name) {
    char target[ES_FILE_NAME_BYTES];
    const char *final_name = es_file_final_name(name, target);
    return final_name != name &&
           (json_object_get(ours->names, final_name) != NULL || is_mark_name(final_name) ||
            strcmp(final_name, "manifest.json") == 0 || strcmp(final_name, "DONE") == 0 ||
            strcmp(final_name, WRITING_NAME) == 0);
}

// Position of an entry in the order of removal; -1 for one that is not ours.
static int removal_stage(const EsFolderEntry *entry, const Belongings *ours) {
    if (entry->kind != ES_FOLDER_ENTRY_FILE) {
        return -1;
    }
    if (strcmp(entry->name, "DONE") == 0) {
        return ours->is_done || ours->sign != NULL ? 0 : -1;
    }
    if (strcmp(entry->name, WRITING_NAME) == 0) {
        return ours->sign != NULL ? 2 : -1;
    }
    return json_object_get(ours->names, entry->name) != NULL || is_our_temporary(ours, entry->name)
               ? 1
               : -1;
}

// Put the names of everything that goes into the sign, so that a removal that is interrupted can be
// gone on with once DONE and the marks are gone.
static EsStatus sign_removal(const char *folder, const Belongings *ours) {
    size_t bytes = 1;
    const char *name;
    json_t *unused;
    char *text = NULL;
    json_object_foreach(ours->names, name, unused) { bytes += strlen(name) + 1; }
    ES_TRY(es_allocate(bytes, (void **)&text));
    json_object_foreach(ours->names, name, unused) {
        strcat(text, name);
        strcat(text, "\n");
    }
    EsStatus status = write_sign(folder, ours->round, text);
    es_release(text);
    return status;
}

static EsStatus take_entries(const char *folder, const EsFolderEntry *entries, int n_entries,
                             const Belongings *ours, EsRunRemoval *removal) {
    char path[ES_RUN_PATH_BYTES];
    for (int stage = -1; stage <= 2; stage++) {
        for (int i = 0; i < n_entries; i++) {
            if (removal_stage(&entries[i], ours) != stage || !join(folder, entries[i].name, path)) {
                continue;
            }
            if (stage < 0) {
                es_removal_keep(removal, path);
                continue;
            }
            ES_TRY(es_removal_take_file(removal, path, entries[i].bytes));
            if (stage == 0 && !removal->is_preview) {
                ES_TRY(es_folder_sync(folder));
            }
        }
    }
    // the sign that was made for the removal
    if (!removal->is_preview && join(folder, WRITING_NAME, path)) {
        ES_TRY(ours->is_done ? es_removal_take_file(removal, path, 0) : ES_STATUS_OK);
    }
    return es_removal_end_folder(removal, folder);
}

EsStatus es_round_folder_clear(const char *folder, EsRunRemoval *removal) {
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    EsStatus status = ES_STATUS_OK;
    Belongings ours = {.round = round_of_folder(folder)};
    ES_TRY(es_folder_list(folder, &entries, &n_entries));
    if (ours.round >= 0) {
        ES_TRY_GOTO(find_belongings(folder, entries, n_entries, &ours));
    }
    int is_temporary = es_file_is_temporary(folder);
    if (ours.round < 0 || (!ours.is_done && ours.sign == NULL &&
                           json_object_size(ours.names) == 0 && !is_temporary)) {
        es_removal_keep(removal, folder);
        goto done;
    }
    if (ours.is_done && ours.sign == NULL && !removal->is_preview) {
        ES_TRY_GOTO(sign_removal(folder, &ours));
    }
    status = take_entries(folder, entries, n_entries, &ours, removal);
done:
    release_belongings(&ours);
    es_release(entries);
    return status;
}

EsStatus es_round_folder_remove(const char *root, int64_t round) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    EsRunRemoval removal = {.is_preview = 0};
    es_round_folder_path(root, round, "", path);
    if (lstat(path, &info) != 0 && errno == ENOENT) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_round_folder_clear(path, &removal));
    return es_removal_end_folder(&removal, path); // an empty one
}

EsStatus es_round_folder_remove_strays(const char *folder) {
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    EsRunRemoval removal = {.is_preview = 0};
    Belongings ours = {.round = round_of_folder(folder)};
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_folder_list(folder, &entries, &n_entries));
    if (ours.round >= 0) {
        ES_TRY_GOTO(find_belongings(folder, entries, n_entries, &ours));
    }
    for (int i = 0; i < n_entries; i++) {
        char path[ES_RUN_PATH_BYTES];
        if (!es_file_is_temporary(entries[i].name) || !join(folder, entries[i].name, path)) {
            continue;
        }
        if (ours.round >= 0 && removal_stage(&entries[i], &ours) >= 0) {
            ES_TRY_GOTO(es_removal_take_file(&removal, path, 0));
        } else if (ours.round < 0 && entries[i].kind == ES_FOLDER_ENTRY_FOLDER) {
            ES_TRY_GOTO(es_round_folder_clear(path, &removal));
        }
    }
done:
    release_belongings(&ours);
    es_release(entries);
    return status;
}
