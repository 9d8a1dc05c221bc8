// The lock of a run folder: a file that one process holds, and that others can ask about without
// taking it.
//
// It is a lock on the open file (F_OFD_SETLK), so it ends with the process, is not shared between
// two opens of one process, and can be queried; flock cannot be queried without being taken, which
// would turn away a run that starts in that moment. The file's text names the holder.
#ifndef ES_RUNS_RUN_LOCK_H
#define ES_RUNS_RUN_LOCK_H

#include "esper/status.h"

#define ES_RUN_LOCK_NAME "lock"

// Take the lock of the folder `root`; INPUT when another holds it, naming that process.
EsStatus es_run_lock_open(const char *root, int *descriptor);

// Give it back; -1 is accepted.
void es_run_lock_close(int descriptor);

// Returns whether a process, this one included, holds the lock.
int es_run_lock_is_held(const char *root);

// Returns whether the lock of the folder is a file that we wrote: empty, or a process and its host.
int es_run_lock_is_ours(const char *root);

// "process 1234 on host", or "another process" when the file does not say.
void es_run_lock_holder(const char *root, char text[160]);

#endif
