// The frame around the commands. Messages never wait for their reader for long, text from outside
// is cleaned before it reaches a terminal, and a lost stdout or stderr becomes an exit code.
#include "cli/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/macros.h"
#include "telemetry/text.h"

// written by build_commit.cmake at every build
#include "build_commit.h"

// --- messages on stderr ---

// a pipe takes this much whole or not at all (PIPE_BUF)
#define MAX_BYTES 4096

// milliseconds that es_message waits for room
#define PATIENCE_MS 1000

// the process has one stderr
static int descriptor = STDERR_FILENO;
static int is_socket;
static _Atomic long n_dropped;
static _Atomic int is_lost;

void es_message_start(void) {
    struct stat info;
    if (fstat(STDERR_FILENO, &info) != 0) {
        return;
    }
    is_socket = S_ISSOCK(info.st_mode);
    if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
        // opened anew, because O_NONBLOCK on stderr itself would also be our parent's
        int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        descriptor = own >= 0 ? own : STDERR_FILENO;
    }
}

static int wait_for_room(int patience_ms) {
    struct pollfd room = {.fd = descriptor, .events = POLLOUT};
    int n_ready;
    do {
        n_ready = poll(&room, 1, patience_ms);
    } while (n_ready < 0 && errno == EINTR);
    return n_ready > 0;
}

// 0 when not everything could be written.
static int write_text(const char *text, size_t length, int patience_ms) {
    while (length > 0) {
        if (!wait_for_room(patience_ms)) {
            return 0;
        }
        ssize_t n = is_socket ? send(descriptor, text, length, MSG_DONTWAIT)
                              : write(descriptor, text, length);
        if (n > 0) {
            text += n;
            length -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            is_lost |= n < 0 && errno != EAGAIN;
            return 0;
        }
    }
    return 1;
}

int es_message_is_lost(void) { return is_lost; }

// The text as a terminal may show it, and a newline in place of its own last one; an overlong one
// is cut behind a whole character. Returns the length.
static size_t clean(const char *text, size_t length, char cleaned[MAX_BYTES]) {
    size_t n = 0;
    length -= length > 0 && text[length - 1] == '\n' ? 1 : 0;
    while (length > 0) {
        const char *shown;
        size_t n_shown, n_taken = es_text_next_shown(text, length, &shown, &n_shown);
        if (n + n_shown + 1 > MAX_BYTES) {
            break;
        }
        memcpy(cleaned + n, shown, n_shown);
        n += n_shown;
        text += n_taken;
        length -= n_taken;
    }
    cleaned[n++] = '\n';
    return n;
}

static void print(const char *text, size_t length, int patience_ms) {
    long n_before = atomic_exchange(&n_dropped, 0);
    if (n_before > 0) {
        char note[80];
        int n = snprintf(note, sizeof note, "esper: %ld messages were dropped\n", n_before);
        if (!write_text(note, (size_t)n, patience_ms)) {
            atomic_fetch_add(&n_dropped, n_before + 1);
            return;
        }
    }
    if (!write_text(text, length, patience_ms)) {
        atomic_fetch_add(&n_dropped, 1);
    }
}

void es_message_log(void *context, EsLogLevel level, const char *line) {
    static const char *const names[] = {"debug: ", "", "warning: ", "error: "};
    char text[MAX_BYTES], cleaned[MAX_BYTES];
    (void)context;
    int length = snprintf(text, sizeof text, "esper: %s%.3900s", names[level], line);
    print(cleaned, clean(text, (size_t)length, cleaned), 0);
}

void es_message(const char *format, ...) {
    char text[MAX_BYTES], cleaned[MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0) {
        size_t n_cleaned = clean(text, ES_MIN((size_t)length, sizeof text - 1), cleaned);
        print(cleaned, n_cleaned, PATIENCE_MS);
    }
}

// --- exit codes ---

EsExit es_command_finish(const char *command, EsStatus status) {
    if (status == ES_STATUS_OK) {
        return ES_EXIT_DONE;
    }
    const char *space = command[0] != '\0' ? " " : "";
    fflush(stdout);
    es_message("esper%s%s: %s\n", space, command,
               es_status_detail()[0] != '\0' ? es_status_detail() : es_status_message(status));
    switch (status) {
    case ES_STATUS_ARGUMENT:
        es_message("try: esper%s%s --help\n", space, command);
        return ES_EXIT_USAGE;
    case ES_STATUS_CONFIG:
    case ES_STATUS_INPUT:
    case ES_STATUS_UNSUPPORTED:
        return ES_EXIT_USAGE;
    case ES_STATUS_INTERRUPTED:
        return ES_EXIT_INTERRUPTED;
    default:
        return ES_EXIT_FAILED;
    }
}

// --- text on stdout ---

// Print the bytes as a terminal may show them, to no stream when it is NULL; returns their columns.
static int show(const char *bytes, size_t n_bytes, FILE *stream) {
    size_t width = 0;
    while (n_bytes > 0) {
        const char *shown;
        size_t n_shown, length = es_text_next_shown(bytes, n_bytes, &shown, &n_shown);
        if (stream != NULL) {
            fwrite(shown, 1, n_shown, stream);
        }
        width += es_text_width(shown, n_shown);
        bytes += length;
        n_bytes -= length;
    }
    return (int)width;
}

int es_padded_text_width(const char *text) { return show(text, strlen(text), NULL); }

void es_padded_text_print(const char *text, int width, FILE *stream) {
    int n = show(text, strlen(text), stream);
    fprintf(stream, "%*s", ES_MAX(width - n, 0), "");
}

void es_print(const char *format, ...) {
    char text[16384];
    va_list arguments;
    va_start(arguments, format);
    int n_printed = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n_printed <= 0) {
        return;
    }
    size_t length = ES_MIN((size_t)n_printed, sizeof text - 1);
    size_t n_format = strlen(format), n_begin = strspn(format, "\n");
    int has_end = n_format > n_begin && format[n_format - 1] == '\n';
    fwrite(text, 1, n_begin, stdout);
    // a cut took the newline with it
    size_t n_end = has_end && text[length - 1] == '\n' ? 1 : 0;
    show(text + n_begin, length - n_begin - n_end, stdout);
    if (has_end) {
        putchar('\n');
    }
}

// --- the standard streams ---

// the process has one of each
static int was_closed[3];
static int is_run;
static char first_loss[256]; // of stdout, as the failing call said it; "" while there is none

void es_output_start(void) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
        if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
            was_closed[stream] = 1;
            // the lowest number that is free, which is this one; without /dev the root will do
            if (open("/dev/null", O_RDONLY) < 0 && open("/", O_RDONLY) < 0) {
                return;
            }
        }
    }
}

int es_output_is_lost(void) { return ferror(stdout); }

EsStatus es_output_status(EsStatus status) {
    if (status != ES_STATUS_IO || !es_output_is_lost()) {
        return status;
    }
    if (first_loss[0] == '\0') {
        snprintf(first_loss, sizeof first_loss, "%s", es_status_detail());
    }
    return ES_STATUS_OK;
}

void es_output_begin_run(void) { is_run = 1; }

// A pipe or socket without a reader, a terminal that was hung up.
static int is_reader_gone(void) {
    struct pollfd state = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0;
}

EsExit es_output_finish(EsExit code) {
    errno = 0;
    int has_failed = fflush(stdout) != 0;
    int error = errno;
    has_failed |= ferror(stdout);
    if (has_failed && first_loss[0] == '\0') {
        snprintf(first_loss, sizeof first_loss, "cannot write the output%s%s",
                 error != 0 ? ": " : "", error != 0 ? strerror(error) : "");
    }
    if (has_failed && (is_run || !is_reader_gone())) {
        es_message("esper: %s%s\n", first_loss, is_run ? "; the run itself is in its folder" : "");
    }
    if (code != ES_EXIT_DONE) {
        return code;
    }
    if (is_run) {
        int has_loss = has_failed || es_message_is_lost() || was_closed[STDOUT_FILENO] ||
                       was_closed[STDERR_FILENO];
        return has_loss ? ES_EXIT_LOST_EVENTS : ES_EXIT_DONE;
    }
    return has_failed && !is_reader_gone() ? ES_EXIT_FAILED : ES_EXIT_DONE;
}

// --- JSON ---

EsStatus es_json_print(json_t *root, size_t n_digits) {
    return es_output_status(
        es_json_write(root, JSON_INDENT(1) | JSON_REAL_PRECISION(n_digits), stdout));
}

// --- the build ---

const char *es_build_commit(void) { return ES_BUILD_COMMIT; }

const char *es_build_type(void) { return ES_BUILD_TYPE; }

const char *es_build_compiler(void) {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

const char *es_build_cuda(void) { return ES_BUILD_CUDA; }

const char *es_build_inih_version(void) { return ES_BUILD_INIH; }

char *es_build_binary_hash(char text[17]) {
    snprintf(text, 17, "unknown");
    FILE *file = fopen("/proc/self/exe", "rb");
    if (file == NULL) {
        return text;
    }
    // FNV-1a, 64 bits: tells builds apart, no more
    uint64_t hash = 0xcbf29ce484222325u;
    unsigned char block[65536];
    for (size_t n_bytes; (n_bytes = fread(block, 1, sizeof block, file)) > 0;) {
        for (size_t i = 0; i < n_bytes; i++) {
            hash = (hash ^ block[i]) * 0x100000001b3u;
        }
    }
    if (!ferror(file)) {
        snprintf(text, 17, "%016" PRIx64, hash);
    }
    fclose(file);
    return text;
}
