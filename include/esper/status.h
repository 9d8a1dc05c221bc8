// Status codes, with a thread-local text that names the fault and its place.
//
// Every call that can fail returns an EsStatus; ES_STATUS_OK is 0. The failing call also stores a
// detail text for its thread, which stays until the next failure of that thread. Nothing here
// allocates.
//
//     if (es_config_load(&config, "run.ini") != ES_STATUS_OK) {
//         fprintf(stderr, "%s\n", es_status_detail());
//     }
#ifndef ESPER_STATUS_H
#define ESPER_STATUS_H

#include "esper/api.h"

#ifdef __cplusplus
extern "C" {
#endif

// name, message
#define ES_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                    \
    X(ARGUMENT, "invalid argument")                                                                \
    X(CONFIG, "invalid configuration")                                                             \
    X(INPUT, "invalid input data")                                                                 \
    X(IO, "input/output error")                                                                    \
    X(MEMORY, "out of memory")                                                                     \
    X(DEVICE, "device error")                                                                      \
    X(UNSUPPORTED, "not supported by this build or machine")                                       \
    X(NUMERIC, "numerical failure")                                                                \
    X(INTERRUPTED, "interrupted")

typedef enum EsStatus {
#define X(name, message) ES_STATUS_##name,
    ES_STATUS_LIST(X)
#undef X
} EsStatus;

// "OK", "ARGUMENT", ...
ES_API const char *es_status_name(EsStatus status);

// One plain-English phrase for the code.
ES_API const char *es_status_message(EsStatus status);

// Message of this thread's last failing call; "" when none has failed. Borrowed, valid until the
// next failure.
ES_API const char *es_status_detail(void);

// Source line that raised that failure ("file.c:123"), for logs and bug reports.
ES_API const char *es_status_origin(void);

// Record a failure and return its code; use ES_FAIL.
ES_API EsStatus es_status_set(EsStatus status, const char *file, int line, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

#define ES_FAIL(code, ...) es_status_set(ES_STATUS_##code, __FILE__, __LINE__, __VA_ARGS__)

// Return a failure upward.
#define ES_TRY(call)                                                                               \
    do {                                                                                           \
        EsStatus es_try_status_ = (call);                                                          \
        if (es_try_status_ != ES_STATUS_OK) {                                                      \
            return es_try_status_;                                                                 \
        }                                                                                          \
    } while (0)

// The same for functions that own something: sets `status` and jumps to `done`.
#define ES_TRY_GOTO(call)                                                                          \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != ES_STATUS_OK) {                                                              \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
