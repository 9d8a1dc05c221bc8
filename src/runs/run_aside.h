// What a killed or damaged run leaves in its folder. Telemetry that cannot be gone on with is kept,
// out of the way, under before-<n>/; files that were never finished are removed.
#ifndef ES_RUNS_RUN_ASIDE_H
#define ES_RUNS_RUN_ASIDE_H

#include "runs/run_folder.h"

// The files of a run's database with all that SQLite may leave beside it, and the other file that a
// sink writes; tensorboard/ is a folder.
#define ES_RUN_DATABASE_FILES                                                                      \
    "run.db", "run.db-wal", "run.db-shm", "run.db-journal", "run.db.new", "run.db.new-journal"
#define ES_RUN_EVENTS_FILE "events.jsonl"

// The database of a run with all that SQLite may have left beside it.
EsStatus es_run_set_database_aside(const EsRunFolder *folder, char aside[ES_RUN_PATH_BYTES]);

// The same with everything else that sinks write. `aside` receives the new folder's path, "" when
// there was nothing to move.
EsStatus es_run_set_telemetry_aside(const EsRunFolder *folder, char aside[ES_RUN_PATH_BYTES]);

// Remove the temporaries that a killed process has left of the run's own files; whatever else is in
// the folder stays. The caller holds the run's lock.
EsStatus es_run_remove_strays(const EsRunFolder *folder);

#endif
