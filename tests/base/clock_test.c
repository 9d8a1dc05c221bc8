// The clock: monotonic, and in nanoseconds.
#include "base/clock.h"

#include <time.h>

#include "es_test.h"

TEST(never_goes_backwards) {
    int64_t last = es_clock_ns();
    int n_backwards = 0;
    for (int i = 0; i < 100000; i++) {
        int64_t now = es_clock_ns();
        n_backwards += now < last;
        last = now;
    }
    EXPECT_EQ(n_backwards, 0);
}

TEST(counts_nanoseconds) {
    int64_t start = es_clock_ns();
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    double seconds = es_clock_seconds_since(start);
    // a sleep is never short; a busy machine may make it long
    EXPECT(seconds >= 0.02);
    EXPECT(seconds < 20.0);
}
