// A handler that notes the first signal and restores the default for the second. Only functions
// that are safe in handlers are called there.
#include "runs/stop_signal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction old_actions[ES_COUNT_OF(signals)];
static const char *_Atomic first_message, *_Atomic quit_message;
static _Atomic int64_t first_ns; // lock-free, so a handler may use it

// A terminal or pipe without room must not hold up the thread that was interrupted.
static void print_message(const char *message) {
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (message != NULL && poll(&room, 1, 0) > 0) {
        ssize_t written = write(STDERR_FILENO, message, strlen(message));
        (void)written; // nothing can be done about a failure here
    }
}

static void note_signal(int number) {
    int saved_errno = errno;
    int64_t none = 0;
    if (!atomic_compare_exchange_strong(&first_ns, &none, es_clock_ns())) {
        print_message(atomic_load(&quit_message));
        // deadly at once, also when it interrupts the handler of the first one
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    print_message(atomic_load(&first_message));
    errno = saved_errno;
}

EsStatus es_stop_signal_begin(const char *message, const char *second_message) {
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    atomic_store(&first_message, message);
    atomic_store(&quit_message, second_message);
    atomic_store(&first_ns, 0);
    for (size_t i = 0; i < ES_COUNT_OF(signals); i++) {
        if (sigaction(signals[i], &action, &old_actions[i]) != 0) {
            return ES_FAIL(IO, "cannot watch for signal %d: %s", signals[i], strerror(errno));
        }
        // nohup: the process shall outlive the terminal
        if (signals[i] == SIGHUP && old_actions[i].sa_handler == SIG_IGN) {
            sigaction(SIGHUP, &old_actions[i], NULL);
        }
    }
    return ES_STATUS_OK;
}

void es_stop_signal_set_message(const char *message) { atomic_store(&first_message, message); }

void es_stop_signal_end(void) {
    for (size_t i = 0; i < ES_COUNT_OF(signals); i++) {
        sigaction(signals[i], &old_actions[i], NULL);
    }
    atomic_store(&first_message, NULL);
    atomic_store(&quit_message, NULL);
    atomic_store(&first_ns, 0);
}

int64_t es_stop_signal_time_ns(void) { return atomic_load(&first_ns); }
