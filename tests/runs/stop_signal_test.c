// Requests to stop: the first is told and remembered, the second is deadly.
#include "runs/stop_signal.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "es_test.h"

// Reads the stderr of a process that gets two signals; *status is its exit status.
static void send_signals(int first, int second, char *text, size_t bytes, int *status) {
    int ends[2];
    if (pipe(ends) != 0) {
        ES_TEST_FAIL("no pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (es_stop_signal_begin("one\n", "two\n") != ES_STATUS_OK) {
            _exit(1);
        }
        raise(first);
        if (es_stop_signal_time_ns() == 0) {
            _exit(2);
        }
        raise(second);
        _exit(3);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n = 1; n > 0; length += n > 0 ? (size_t)n : 0) {
        n = read(ends[0], text + length, bytes - 1 - length);
    }
    text[length] = '\0';
    close(ends[0]);
    waitpid(child, status, 0);
}

TEST(the_second_signal_ends_the_process) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    signal(SIGHUP, SIG_DFL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        char text[64];
        int status = 0;
        send_signals(signals[i], SIGINT, text, sizeof text, &status);
        EXPECT_TEXT(text, "one\ntwo\n");
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    }
}

// as nohup has it
TEST(a_terminal_that_goes_away_may_be_ignored) {
    signal(SIGHUP, SIG_IGN);
    REQUIRE_OK(es_stop_signal_begin(NULL, NULL));
    raise(SIGHUP);
    EXPECT_EQ(es_stop_signal_time_ns(), 0);
    raise(SIGTERM);
    EXPECT(es_stop_signal_time_ns() != 0);
    es_stop_signal_end();
    EXPECT_EQ(es_stop_signal_time_ns(), 0);
}
