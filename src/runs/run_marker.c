// Writing, reading and verifying the marker of a run folder.
#include "runs/run_marker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "esper/version.h"
#include "runs/run_folder.h"
#include "telemetry/sinks/run_database.h"

#define FORMAT "esper-run"

// far more than a marker has
#define MAX_MARKER_BYTES 4096

int es_run_kind_is_valid(const char *kind) {
    size_t length = strlen(kind);
    return length >= 1 && length < ES_RUN_KIND_BYTES &&
           strspn(kind, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               length;
}

static EsStatus name_file(const char *root, const char *name, char path[ES_RUN_PATH_BYTES]) {
    int length = snprintf(path, ES_RUN_PATH_BYTES, "%s/%s", root, name);
    return length > 0 && length < ES_RUN_PATH_BYTES
               ? ES_STATUS_OK
               : ES_FAIL(ARGUMENT, "the path %.100s... is too long", root);
}

EsStatus es_run_marker_write(const char *root, const char *kind) {
    ES_ASSERT(es_run_kind_is_valid(kind));
    char path[ES_RUN_PATH_BYTES], text[256];
    ES_TRY(name_file(root, ES_RUN_MARKER_NAME, path));
    int length = snprintf(text, sizeof text,
                          "{\"format\": \"%s\", \"schema\": %d, \"kind\": \"%s\", "
                          "\"version\": \"%s\"}\n",
                          FORMAT, ES_RUN_MARKER_SCHEMA, kind, ES_VERSION);
    return es_file_write_all(path, text, (size_t)length);
}

static EsStatus read_fields(const char *path, const json_t *marker, char kind[ES_RUN_KIND_BYTES]) {
    const char *format = json_string_value(json_object_get(marker, "format"));
    const char *named = json_string_value(json_object_get(marker, "kind"));
    const json_t *schema = json_object_get(marker, "schema");
    if (format == NULL || strcmp(format, FORMAT) != 0 || !json_is_integer(schema) ||
        json_integer_value(schema) < 1) {
        return ES_FAIL(INPUT, "%s is not the marker of a run", path);
    }
    if (json_integer_value(schema) > ES_RUN_MARKER_SCHEMA) {
        return ES_FAIL(INPUT, "%s has schema %lld; this program knows schema %d", path,
                       (long long)json_integer_value(schema), ES_RUN_MARKER_SCHEMA);
    }
    if (named == NULL || !es_run_kind_is_valid(named)) {
        return ES_FAIL(INPUT, "%s does not name the kind of a run", path);
    }
    strcpy(kind, named);
    return ES_STATUS_OK;
}

EsStatus es_run_marker_read(const char *root, char kind[ES_RUN_KIND_BYTES]) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    void *text = NULL;
    size_t bytes = 0;
    kind[0] = '\0';
    ES_TRY(name_file(root, ES_RUN_MARKER_NAME, path));
    if (lstat(path, &info) != 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? ES_STATUS_OK
                   : ES_FAIL(IO, "cannot look at %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return ES_FAIL(INPUT, "%s is not a regular file", path);
    }
    ES_TRY(es_file_read_all(path, MAX_MARKER_BYTES, &text, &bytes));
    json_error_t error;
    json_t *marker = NULL;
    EsStatus status = es_json_parse(path, text, bytes, &marker, &error);
    es_release(text);
    // one that is not JSON has no fields
    status = status == ES_STATUS_MEMORY ? status : read_fields(path, marker, kind);
    json_decref(marker);
    return status;
}

// A database that cannot be read is no proof that it is ours.
static EsStatus verify_database(const char *root) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    ES_TRY(name_file(root, "run.db", path));
    if (lstat(path, &info) != 0) {
        return ES_STATUS_OK;
    }
    if (!S_ISREG(info.st_mode)) {
        return ES_FAIL(INPUT, "%s is not a regular file", path);
    }
    EsRunDatabase *database = NULL;
    EsStatus status = es_run_database_open(path, &database);
    if (status == ES_STATUS_UNSUPPORTED) {
        return ES_STATUS_OK;
    }
    ES_TRY(status);
    if (!es_run_database_is_marked(database)) {
        status = ES_FAIL(INPUT, "%s does not have the application id of a run", path);
    }
    es_run_database_close(database);
    return status;
}

EsStatus es_run_marker_verify(const char *root) {
    char kind[ES_RUN_KIND_BYTES];
    ES_TRY(es_run_marker_read(root, kind));
    if (kind[0] == '\0') {
        return ES_FAIL(INPUT, "%s has no %s", root, ES_RUN_MARKER_NAME);
    }
    return verify_database(root);
}
