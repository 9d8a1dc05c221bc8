// The writer thread of a run: order, places, replacement, outcomes, and its end.
#include "runs/run_writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/memory.h"
#include "es_test.h"

// What the jobs of a test share.
typedef struct Disk {
    pthread_mutex_t lock; // held by the test: a slow disk
    char written[64];     // names, in order
    atomic_int n_written, n_destroyed;
} Disk;

typedef struct Job {
    EsWriterJob job;
    Disk *disk;
    char name;
    int fails;
} Job;

static EsStatus write_name(EsWriterJob *base) {
    Job *job = (Job *)base;
    pthread_mutex_lock(&job->disk->lock);
    pthread_mutex_unlock(&job->disk->lock);
    job->disk->written[atomic_fetch_add(&job->disk->n_written, 1)] = job->name;
    return job->fails ? ES_FAIL(IO, "no room for %c", job->name) : ES_STATUS_OK;
}

static void destroy_job(EsWriterJob *base) {
    atomic_fetch_add(&((Job *)base)->disk->n_destroyed, 1);
    es_release(base);
}

static EsWriterJob *make_job(Disk *disk, EsWriterKind kind, char name, int fails) {
    Job *job = NULL;
    REQUIRE_OK(es_allocate(sizeof *job, (void **)&job));
    *job = (Job){.job = {.kind = kind,
                         .may_replace = kind == ES_WRITER_NETWORK,
                         .write = write_name,
                         .destroy = destroy_job},
                 .disk = disk,
                 .name = name,
                 .fails = fails};
    return &job->job;
}

static char take_name(EsRunWriter *writer, EsStatus expected) {
    EsWriterJob *job = es_run_writer_take(writer);
    char name = job != NULL ? ((Job *)job)->name : '-';
    if (job != NULL) {
        EXPECT_EQ((int)job->status, (int)expected);
        EXPECT(job->seconds >= 0);
        EXPECT_CONTAINS(job->detail, expected == ES_STATUS_OK ? "" : "no room for");
        job->destroy(job);
    }
    return name;
}

TEST(jobs_are_written_in_order_and_come_back) {
    Disk disk = {.lock = PTHREAD_MUTEX_INITIALIZER};
    EsRunWriter *writer = NULL;
    REQUIRE_OK(es_run_writer_start(&writer));
    EXPECT(es_run_writer_take(writer) == NULL);
    es_run_writer_drain(writer); // nothing to wait for
    es_run_writer_submit(writer, make_job(&disk, ES_WRITER_NETWORK, 'a', 0));
    es_run_writer_submit(writer, make_job(&disk, ES_WRITER_CHECKPOINT, 'b', 1));
    es_run_writer_submit(writer, make_job(&disk, ES_WRITER_CHECKPOINT, 'c', 0));
    es_run_writer_drain(writer);
    EXPECT_TEXT(disk.written, "abc");
    EXPECT_EQ(take_name(writer, ES_STATUS_OK), 'a');
    EXPECT_EQ(take_name(writer, ES_STATUS_IO), 'b');
    EXPECT_EQ(take_name(writer, ES_STATUS_OK), 'c');
    EXPECT_EQ(take_name(writer, ES_STATUS_OK), '-');
    es_run_writer_stop(writer);
    EXPECT_EQ(atomic_load(&disk.n_destroyed), 3);
}

TEST(network_that_waits_is_replaced_in_its_place) {
    Disk disk = {.lock = PTHREAD_MUTEX_INITIALIZER};
    EsRunWriter *writer = NULL;
    REQUIRE_OK(es_run_writer_start(&writer));
    pthread_mutex_lock(&disk.lock);
    // 'a' is in work or waits behind nothing; the first checkpoint's place is free for sure
    es_run_writer_submit(writer, make_job(&disk, ES_WRITER_CHECKPOINT, 'a', 0));
    es_run_writer_submit(writer, make_job(&disk, ES_WRITER_NETWORK, 'b', 0));
    es_run_writer_submit(writer, make_job(&disk, ES_WRITER_CHECKPOINT, 'c', 0)); // 'a' is in work
    es_run_writer_submit(writer, make_job(&disk, ES_WRITER_NETWORK, 'd', 0));    // instead of 'b'
    pthread_mutex_unlock(&disk.lock);
    es_run_writer_drain(writer);
    EXPECT_TEXT(disk.written, "adc");
    EXPECT_EQ(atomic_load(&disk.n_destroyed), 1);
    es_run_writer_stop(writer); // destroys the others
    EXPECT_EQ(atomic_load(&disk.n_destroyed), 4);
}

// Unlocks the disk after a while.
static void *unlock_later(void *context) {
    Disk *disk = context;
    struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
    EXPECT_EQ(atomic_load(&disk->n_written), 0);
    pthread_mutex_unlock(&disk->lock);
    return NULL;
}

typedef struct Patient {
    Disk *disk;
    EsRunWriter *writer;
} Patient;

static void *submit_three(void *context) {
    Patient *patient = context;
    for (int i = 0; i < 3; i++) {
        es_run_writer_submit(patient->writer,
                             make_job(patient->disk, ES_WRITER_CHECKPOINT, "abc"[i], 0));
    }
    // one in work, one waiting: the third had to wait for the disk
    EXPECT(atomic_load(&patient->disk->n_written) >= 1);
    return NULL;
}

TEST(checkpoint_waits_for_its_place_and_stop_writes_all) {
    Disk disk = {.lock = PTHREAD_MUTEX_INITIALIZER};
    EsRunWriter *writer = NULL;
    pthread_t thread;
    REQUIRE_OK(es_run_writer_start(&writer));
    Patient patient = {&disk, writer};
    pthread_mutex_lock(&disk.lock);
    EXPECT_EQ(pthread_create(&thread, NULL, submit_three, &patient), 0);
    unlock_later(&disk);
    pthread_join(thread, NULL);
    es_run_writer_stop(writer);
    EXPECT_TEXT(disk.written, "abc");
    EXPECT_EQ(atomic_load(&disk.n_destroyed), 3);
    es_run_writer_stop(NULL);
}
