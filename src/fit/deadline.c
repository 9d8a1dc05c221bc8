// A worker thread and the mailbox between it and the caller. Questions are numbered: an answer
// counts only while its number is the one that is waited for.
#include "fit/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/thread_pool.h"

typedef struct Worker {
    pthread_mutex_t lock; // guards what follows
    pthread_cond_t changed;
    EsDeadlineJob job;
    int64_t asked, answered; // numbers of jobs; equal while it is idle
    int is_late;             // nobody waits for the answer
    int is_left;             // the caller is gone: it ends, and frees itself, when it is idle
    EsStatus status;         // of the last answer
    char detail[512];
} Worker;

struct EsDeadline {
    Worker *worker; // owned until it is left; NULL before the first job
    EsDeadlineCounts counts;
};

// --- the worker's thread ---

static void destroy_worker(Worker *worker) {
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    es_release(worker);
}

// Runs the job of one question; holds the lock before and after.
static void answer(Worker *worker) {
    EsDeadlineJob job = worker->job;
    pthread_mutex_unlock(&worker->lock);
    EsStatus status = job.run(job.context);
    pthread_mutex_lock(&worker->lock);
    worker->status = status;
    snprintf(worker->detail, sizeof worker->detail, "%s",
             status != ES_STATUS_OK ? es_status_detail() : "");
    if (worker->is_late) {
        pthread_mutex_unlock(&worker->lock);
        job.release(job.context);
        pthread_mutex_lock(&worker->lock);
    }
    worker->answered = worker->asked;
    pthread_cond_broadcast(&worker->changed);
}

static void *work(void *context) {
    Worker *worker = context;
    pthread_mutex_lock(&worker->lock);
    while (worker->asked != worker->answered || !worker->is_left) {
        if (worker->asked != worker->answered) {
            answer(worker);
        } else {
            pthread_cond_wait(&worker->changed, &worker->lock);
        }
    }
    pthread_mutex_unlock(&worker->lock);
    destroy_worker(worker);
    return NULL;
}

// --- the caller ---

static EsStatus start_worker(Worker **worker_out) {
    Worker *worker = NULL;
    pthread_condattr_t attributes;
    ES_TRY(es_allocate(sizeof *worker, (void **)&worker));
    pthread_mutex_init(&worker->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes,
                              CLOCK_MONOTONIC); // a clock that is set moves no deadline
    pthread_cond_init(&worker->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    EsStatus status = es_thread_start_detached(work, worker);
    if (status != ES_STATUS_OK) {
        destroy_worker(worker);
        return status;
    }
    *worker_out = worker;
    return ES_STATUS_OK;
}

// Leaves the worker to itself. Returns whether it was busy.
static int leave_worker(Worker *worker) {
    pthread_mutex_lock(&worker->lock);
    int is_busy = worker->asked != worker->answered;
    worker->is_left = 1;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    return is_busy;
}

static int is_busy(Worker *worker) {
    pthread_mutex_lock(&worker->lock);
    int busy = worker->asked != worker->answered;
    pthread_mutex_unlock(&worker->lock);
    return busy;
}

EsStatus es_deadline_create(EsDeadline **deadline) {
    return es_allocate(sizeof **deadline, (void **)deadline);
}

void es_deadline_destroy(EsDeadline *deadline) {
    if (deadline == NULL) {
        return;
    }
    if (deadline->worker != NULL) {
        leave_worker(deadline->worker);
    }
    es_release(deadline);
}

// Waits for the answer to the last question, at most until the time.
static EsDeadlineOutcome await(Worker *worker, int64_t until_ns, EsStatus *status) {
    const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                   .tv_nsec = until_ns % 1000000000};
    int problem = 0;
    while (worker->asked != worker->answered && problem != ETIMEDOUT) {
        problem = pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    }
    if (worker->asked != worker->answered) {
        worker->is_late = 1;
        return ES_DEADLINE_MISSED;
    }
    *status = worker->status == ES_STATUS_OK
                  ? ES_STATUS_OK
                  : es_status_set(worker->status, __FILE__, __LINE__, "%s", worker->detail);
    return ES_DEADLINE_MET;
}

EsDeadlineOutcome es_deadline_run(EsDeadline *deadline, const EsDeadlineJob *job, double ms,
                                  EsStatus *status) {
    int64_t until_ns = es_clock_ns() + (int64_t)(ms * 1e6);
    *status = ES_STATUS_OK;
    if (deadline->worker != NULL && is_busy(deadline->worker)) {
        leave_worker(deadline->worker);
        deadline->worker = NULL;
        deadline->counts.abandoned++;
    }
    if (deadline->counts.abandoned >= ES_DEADLINE_ABANDONED_MAX) {
        return ES_DEADLINE_SPENT;
    }
    if (deadline->worker == NULL) {
        *status = start_worker(&deadline->worker);
        if (*status != ES_STATUS_OK) {
            return ES_DEADLINE_MET;
        }
    }
    Worker *worker = deadline->worker;
    deadline->counts.submitted++;
    pthread_mutex_lock(&worker->lock);
    worker->job = *job;
    worker->is_late = 0;
    worker->asked++;
    pthread_cond_broadcast(&worker->changed);
    EsDeadlineOutcome outcome = await(worker, until_ns, status);
    pthread_mutex_unlock(&worker->lock);
    deadline->counts.timed_out += outcome == ES_DEADLINE_MISSED;
    deadline->counts.completed += outcome == ES_DEADLINE_MET && *status == ES_STATUS_OK;
    deadline->counts.failed += outcome == ES_DEADLINE_MET && *status != ES_STATUS_OK;
    return outcome;
}

EsDeadlineCounts es_deadline_counts(const EsDeadline *deadline) { return deadline->counts; }
