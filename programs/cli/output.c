#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/message.h"

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
        int is_lost = has_failed || es_message_is_lost() || was_closed[STDOUT_FILENO] ||
                      was_closed[STDERR_FILENO];
        return is_lost ? ES_EXIT_LOST_EVENTS : ES_EXIT_DONE;
    }
    return has_failed && !is_reader_gone() ? ES_EXIT_FAILED : ES_EXIT_DONE;
}
