// Deadlines: answers in time, late ones that are thrown away by their own thread, threads that are
// given up, and the end of it.
#include "fit/deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "es_test.h"

// A gate that a job waits at, and what became of the job.
typedef struct Gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int is_open;
    atomic_int n_run, n_released;
} Gate;

static Gate *make_gate(void) {
    static Gate gates[32];
    static int n_gates;
    Gate *gate = &gates[n_gates++];
    ES_ASSERT(n_gates <= 32);
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->opened, NULL);
    return gate;
}

static void open_gate(Gate *gate) {
    pthread_mutex_lock(&gate->lock);
    gate->is_open = 1;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

static EsStatus pass_gate(void *context) {
    Gate *gate = context;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open) {
        pthread_cond_wait(&gate->opened, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
    atomic_fetch_add(&gate->n_run, 1);
    return ES_STATUS_OK;
}

static void release_gate(void *context) { atomic_fetch_add(&((Gate *)context)->n_released, 1); }

static EsStatus fail_with_detail(void *context) {
    (void)context;
    return ES_FAIL(NUMERIC, "loss %d is not finite", 7);
}

// Waits for a counter to reach a value; at most ten seconds.
static int reaches(atomic_int *counter, int value) {
    for (int i = 0; i < 10000 && atomic_load(counter) < value; i++) {
        usleep(1000);
    }
    return atomic_load(counter) == value;
}

TEST(answers_in_time_are_the_callers) {
    EsDeadline *deadline;
    EsStatus status;
    Gate *gate = make_gate();
    open_gate(gate);
    REQUIRE_OK(es_deadline_create(&deadline));
    for (int i = 0; i < 1000; i++) {
        const EsDeadlineJob job = {pass_gate, release_gate, gate};
        EXPECT_EQ(es_deadline_run(deadline, &job, 60e3, &status), ES_DEADLINE_MET);
        EXPECT_STATUS(status, OK);
        EXPECT_EQ(atomic_load(&gate->n_run), i + 1);
    }
    const EsDeadlineJob bad = {fail_with_detail, release_gate, gate};
    EXPECT_EQ(es_deadline_run(deadline, &bad, 60e3, &status), ES_DEADLINE_MET);
    EXPECT_STATUS(status, NUMERIC);
    EXPECT_TEXT(es_status_detail(), "loss 7 is not finite"); // from the other thread
    EXPECT_EQ(atomic_load(&gate->n_released), 0);
    EsDeadlineCounts counts = es_deadline_counts(deadline);
    EXPECT_EQ(counts.submitted, 1001);
    EXPECT_EQ(counts.completed, 1000);
    EXPECT_EQ(counts.failed, 1);
    EXPECT_EQ(counts.timed_out + counts.abandoned, 0);
    es_deadline_destroy(deadline);
}

TEST(a_late_answer_is_thrown_away) {
    EsDeadline *deadline;
    EsStatus status;
    Gate *late = make_gate(), *next = make_gate();
    REQUIRE_OK(es_deadline_create(&deadline));
    const EsDeadlineJob job = {pass_gate, release_gate, late};
    int64_t start_ns = es_clock_ns();
    EXPECT_EQ(es_deadline_run(deadline, &job, 20, &status), ES_DEADLINE_MISSED);
    EXPECT(es_clock_seconds_since(start_ns) >= 0.02);
    EXPECT_EQ(atomic_load(&late->n_released), 0); // its thread still has it
    open_gate(late);
    EXPECT(reaches(&late->n_released, 1));
    // the thread is free again, and is asked again; a moment may pass until it says so
    open_gate(next);
    usleep(10000);
    const EsDeadlineJob other = {pass_gate, release_gate, next};
    EXPECT_EQ(es_deadline_run(deadline, &other, 60e3, &status), ES_DEADLINE_MET);
    EXPECT_EQ(atomic_load(&next->n_run), 1);
    EXPECT_EQ(es_deadline_counts(deadline).timed_out, 1);
    es_deadline_destroy(deadline);
}

TEST(four_threads_that_hang_are_the_end) {
    EsDeadline *deadline;
    EsStatus status;
    Gate *gates[ES_DEADLINE_ABANDONED_MAX], *last = make_gate();
    REQUIRE_OK(es_deadline_create(&deadline));
    for (int i = 0; i < ES_DEADLINE_ABANDONED_MAX; i++) {
        gates[i] = make_gate();
        const EsDeadlineJob job = {pass_gate, release_gate, gates[i]};
        EXPECT_EQ(es_deadline_run(deadline, &job, 5, &status), ES_DEADLINE_MISSED);
        EXPECT_EQ(es_deadline_counts(deadline).abandoned, i);
    }
    open_gate(last);
    const EsDeadlineJob job = {pass_gate, release_gate, last};
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(es_deadline_run(deadline, &job, 60e3, &status), ES_DEADLINE_SPENT);
    }
    EXPECT_EQ(es_deadline_counts(deadline).abandoned, ES_DEADLINE_ABANDONED_MAX);
    EXPECT_EQ(atomic_load(&last->n_run), 0);
    es_deadline_destroy(deadline);
    // each ends by itself, after everything else is gone
    for (int i = 0; i < ES_DEADLINE_ABANDONED_MAX; i++) {
        open_gate(gates[i]);
        EXPECT(reaches(&gates[i]->n_released, 1));
    }
}

TEST(a_job_may_outlive_its_deadline) {
    EsDeadline *deadline;
    EsStatus status;
    Gate *gate = make_gate();
    REQUIRE_OK(es_deadline_create(&deadline));
    const EsDeadlineJob job = {pass_gate, release_gate, gate};
    EXPECT_EQ(es_deadline_run(deadline, &job, 1, &status), ES_DEADLINE_MISSED);
    es_deadline_destroy(deadline);
    open_gate(gate);
    EXPECT(reaches(&gate->n_released, 1));
    EXPECT_EQ(atomic_load(&gate->n_run), 1);
}
