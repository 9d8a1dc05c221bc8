// The marker of a run folder, esper-run.json: written by us when a folder becomes a run, so that
// nothing else is ever taken for one by a command that removes.
//
//     {"format": "esper-run", "schema": 1, "kind": "grow", "version": "0.1.0"}
//
// Runs made before there were markers have none. They are listed, opened and resumed all the same,
// and a resume marks them.
#ifndef ES_RUNS_RUN_MARKER_H
#define ES_RUNS_RUN_MARKER_H

#include "esper/status.h"

#define ES_RUN_MARKER_NAME   "esper-run.json"
#define ES_RUN_MARKER_SCHEMA 1

// bytes of a kind with its end
#define ES_RUN_KIND_BYTES 32

// Returns whether a text may be the kind of a run: letters, digits, '_' and '-', so that it can be
// shown on a terminal as it is.
int es_run_kind_is_valid(const char *kind);

// Write the marker, in place of any other.
EsStatus es_run_marker_write(const char *root, const char *kind);

// Read the kind; "" when there is no marker. INPUT when a file of that name is not a marker, or one
// of a later schema.
EsStatus es_run_marker_read(const char *root, char kind[ES_RUN_KIND_BYTES]);

// INPUT, with the reason, unless the folder is certainly a run of ours: it has a marker, and its
// run.db, where there is one, has our application id (not looked at in a build without SQLite).
EsStatus es_run_marker_verify(const char *root);

#endif
