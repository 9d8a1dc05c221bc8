#include "cli/message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "telemetry/text.h"

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
    struct stat facts;
    if (fstat(STDERR_FILENO, &facts) != 0) {
        return;
    }
    is_socket = S_ISSOCK(facts.st_mode);
    if (S_ISFIFO(facts.st_mode) || S_ISCHR(facts.st_mode)) {
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

// The text as a terminal may show it, and a newline in place of its own last one; what is too long
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
        int n = snprintf(note, sizeof note, "esper: %ld messages found no room here\n", n_before);
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
