// Watches jansson's allocations, through the functions that it lets a program set, and turns a
// failure into MEMORY at the few places where values are read and written.
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

// a comparison of a million episodes has some hundred MB
#define MAX_FILE_BYTES ((size_t)1 << 30)

static _Thread_local int lacked_memory;
static _Thread_local jmp_buf *parser_exit; // NULL when nothing is parsed

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    lacked_memory |= memory == NULL;
    // the parser aborts, or drops a character, where the buffer of a token cannot grow; leaving it
    // like this loses no more than it has made so far
    if (memory == NULL && parser_exit != NULL) {
        longjmp(*parser_exit, 1);
    }
    return memory;
}

// Before main, because jansson wants it before its first value. Memory still comes from malloc, so
// values may pass to and from code that is unaware of this.
__attribute__((constructor)) static void watch(void) { json_set_alloc_funcs(allocate, free); }

int es_json_lacked_memory(void) {
    int lacked = lacked_memory;
    lacked_memory = 0;
    return lacked;
}

EsStatus es_json_parse(const char *name, const char *text, size_t bytes, json_t **value,
                       json_error_t *error) {
    jmp_buf exit;
    *value = NULL;
    (void)es_json_lacked_memory(); // failures of values no longer needed
    parser_exit = &exit;
    if (setjmp(exit) == 0) {
        *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error);
    }
    parser_exit = NULL;
    if (es_json_lacked_memory()) {
        return ES_FAIL(MEMORY, "not enough memory to read %s", name);
    }
    return *value != NULL ? ES_STATUS_OK
                          : ES_FAIL(INPUT, "%s:%d: %s", name, error->line, error->text);
}

EsStatus es_json_load(const char *path, json_t **value) {
    void *text = NULL;
    size_t bytes = 0;
    json_error_t error;
    *value = NULL;
    EsStatus status = es_file_read_all(path, MAX_FILE_BYTES, &text, &bytes);
    if (status == ES_STATUS_IO) {
        return ES_FAIL(INPUT, "%s", es_status_detail());
    }
    ES_TRY(status);
    status = es_json_parse(path, text, bytes, value, &error);
    es_release(text);
    return status;
}

EsStatus es_json_dump(const char *name, json_t *value, size_t flags, char **text) {
    *text = value != NULL ? json_dumps(value, flags) : NULL;
    json_decref(value);
    if (es_json_lacked_memory()) {
        free(*text);
        *text = NULL;
        return ES_FAIL(MEMORY, "not enough memory to write %s as JSON", name);
    }
    return *text != NULL
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "cannot write %s as JSON: a text in it is not UTF-8", name);
}

EsStatus es_json_write(json_t *value, size_t flags, FILE *stream) {
    char *text = NULL;
    ES_TRY(es_json_dump("the result", value, flags, &text));
    int failed = fputs(text, stream) == EOF || fputc('\n', stream) == EOF || fflush(stream) != 0;
    EsStatus status =
        failed ? ES_FAIL(IO, "cannot write the result: %s", strerror(errno)) : ES_STATUS_OK;
    free(text);
    return status;
}

json_t *es_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }
