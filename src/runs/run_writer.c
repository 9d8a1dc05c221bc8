// The queue between a run and its writer thread: two lists under one lock, waiting and finished.
#include "runs/run_writer.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"

struct EsRunWriter {
    pthread_t thread;
    pthread_mutex_t lock; // guards what follows
    pthread_cond_t changed;
    EsWriterJob *waiting, *finished; // owned, oldest first
    int is_busy, is_stopping;
};

static void append(EsWriterJob **list, EsWriterJob *job) {
    while (*list != NULL) {
        list = &(*list)->next;
    }
    job->next = NULL;
    *list = job;
}

static EsWriterJob *remove_first(EsWriterJob **list) {
    EsWriterJob *job = *list;
    if (job != NULL) {
        *list = job->next;
        job->next = NULL;
    }
    return job;
}

// --- the writer's thread ---

static void write_job(EsWriterJob *job) {
    int64_t start_ns = es_clock_ns();
    job->status = job->write(job);
    job->seconds = es_clock_seconds_since(start_ns);
    snprintf(job->detail, sizeof job->detail, "%s",
             job->status != ES_STATUS_OK ? es_status_detail() : "");
}

static void *work(void *context) {
    EsRunWriter *writer = context;
    pthread_mutex_lock(&writer->lock);
    while (writer->waiting != NULL || !writer->is_stopping) {
        EsWriterJob *job = remove_first(&writer->waiting);
        if (job == NULL) {
            pthread_cond_wait(&writer->changed, &writer->lock);
            continue;
        }
        writer->is_busy = 1;
        pthread_cond_broadcast(&writer->changed); // there is a place among the waiting
        pthread_mutex_unlock(&writer->lock);
        write_job(job);
        pthread_mutex_lock(&writer->lock);
        append(&writer->finished, job);
        writer->is_busy = 0;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

// --- the run's thread ---

static void destroy_writer(EsRunWriter *writer) {
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    es_release(writer);
}

EsStatus es_run_writer_start(EsRunWriter **writer_out) {
    EsRunWriter *writer = NULL;
    sigset_t all, before;
    *writer_out = NULL;
    ES_TRY(es_allocate(sizeof *writer, (void **)&writer));
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    sigfillset(&all); // Ctrl-C belongs to the program's own threads
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&writer->thread, NULL, work, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem != 0) {
        destroy_writer(writer);
        return ES_FAIL(MEMORY, "no thread that writes files can be started");
    }
    *writer_out = writer;
    return ES_STATUS_OK;
}

// Link to the waiting job of this kind; the list's end when there is none.
static EsWriterJob **find_waiting(EsRunWriter *writer, EsWriterKind kind) {
    EsWriterJob **at = &writer->waiting;
    while (*at != NULL && (*at)->kind != kind) {
        at = &(*at)->next;
    }
    return at;
}

void es_run_writer_submit(EsRunWriter *writer, EsWriterJob *job) {
    pthread_mutex_lock(&writer->lock);
    while (!job->may_replace && *find_waiting(writer, job->kind) != NULL) {
        pthread_cond_wait(&writer->changed, &writer->lock);
    }
    // in the place of the one it replaces: a checkpoint behind that one finds it written
    EsWriterJob **place = find_waiting(writer, job->kind);
    EsWriterJob *replaced = *place;
    job->next = replaced != NULL ? replaced->next : NULL;
    *place = job;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    if (replaced != NULL) {
        replaced->destroy(replaced);
    }
}

EsWriterJob *es_run_writer_take(EsRunWriter *writer) {
    pthread_mutex_lock(&writer->lock);
    EsWriterJob *job = remove_first(&writer->finished);
    pthread_mutex_unlock(&writer->lock);
    return job;
}

void es_run_writer_drain(EsRunWriter *writer) {
    pthread_mutex_lock(&writer->lock);
    while (writer->waiting != NULL || writer->is_busy) {
        pthread_cond_wait(&writer->changed, &writer->lock);
    }
    pthread_mutex_unlock(&writer->lock);
}

void es_run_writer_stop(EsRunWriter *writer) {
    if (writer == NULL) {
        return;
    }
    pthread_mutex_lock(&writer->lock);
    writer->is_stopping = 1;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    for (EsWriterJob *job = remove_first(&writer->finished); job != NULL;
         job = remove_first(&writer->finished)) {
        job->destroy(job);
    }
    destroy_writer(writer);
}
