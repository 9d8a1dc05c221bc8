// The writer thread of a run: durable writes, one after the other, that no round waits for.
//
// A job has all that it writes in memory already. Jobs are done in the order of their submission. A
// kind has at most one job that waits beside the one in work, so that memory is bounded and a disk
// that is too slow slows the run down in the end, instead of losing anything. Finished jobs come
// back to the thread that submitted them, with their outcome.
//
//     EsRunWriter *writer; ES_TRY(es_run_writer_start(&writer));
//     es_run_writer_submit(writer, &save->job);
//     while ((job = es_run_writer_take(writer)) != NULL) { ... job->status; job->destroy(job); }
//     es_run_writer_drain(writer);            // all is on disk, or has failed
//     es_run_writer_stop(writer);
#ifndef ES_RUNS_RUN_WRITER_H
#define ES_RUNS_RUN_WRITER_H

#include "esper/status.h"

typedef enum EsWriterKind { ES_WRITER_CHECKPOINT, ES_WRITER_NETWORK } EsWriterKind;

// First member of a job's own struct.
typedef struct EsWriterJob {
    EsWriterKind kind;
    int may_replace;                            // one of its kind that still waits, unwritten
    EsStatus (*write)(struct EsWriterJob *job); // by the writer's thread
    void (*destroy)(struct EsWriterJob *job);   // by any thread
    EsStatus status;                            // of write, and its detail
    char detail[1024];
    double seconds;           // of write
    struct EsWriterJob *next; // the writer's own
} EsWriterJob;

typedef struct EsRunWriter EsRunWriter;

EsStatus es_run_writer_start(EsRunWriter **writer);

// Hands a job over. Waits while another of its kind waits that it may not replace.
void es_run_writer_submit(EsRunWriter *writer, EsWriterJob *job);

// The oldest finished job, which is the caller's from here on; NULL when there is none.
EsWriterJob *es_run_writer_take(EsRunWriter *writer);

// Waits until no job is left to do.
void es_run_writer_drain(EsRunWriter *writer);

// Drains, ends the thread and destroys what was not taken. Accepts NULL.
void es_run_writer_stop(EsRunWriter *writer);

#endif
